"""A spool for usage entries: files that keep entries from the end of a request until they are in the database.

Entries are collected in segments. The sums of a segment are in memory, and its entries in a file. The file is read only
after a crash, by another process. Each process has two files, which only it may write: one for the current segment, and
one for the segment that is being inserted into the database, which is emptied only after that. Both are locked as long
as the process lives, so that other processes can recognise, and import, the files of dead ones.

The first line of a file is the head of its segment, with a random id. The database remembers these ids, so a segment is
added only once. An entry is passed to the operating system before the response ends, so it survives a crash of the
process, but not necessarily a crash of the machine.
"""

import contextlib
import logging
import os
import secrets
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from tieline.core.usage.sums import UsageEntry, UsageSums
from tieline.net.file_lock import try_lock
from tieline.net.private_files import NO_FOLLOW, open_private

log = logging.getLogger("tieline")

SUFFIX = ".spool"
MAX_BYTES = 128 << 20
"""The size at which a file is full: about a million entries."""
READ_BYTES = 64 << 10

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(UsageEntry).decode


class SegmentHead(msgspec.Struct, frozen=True):
    """The first line of a file: the id of the segment, and the Unix time of its first entry."""

    segment: str
    begun: int


_decode_head = msgspec.json.Decoder(SegmentHead).decode


class SpoolFile:
    """One file of a spool, open and locked."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor
        self.size = os.fstat(descriptor).st_size
        """The number of bytes in the file; 0 if it has neither a head nor entries."""

    def append(self, line: bytes) -> None:
        """Append a line, completely or not at all. Raise OSError if that fails."""
        written = os.write(self._descriptor, line)
        if written < len(line):
            os.ftruncate(self._descriptor, self.size)
            raise OSError("the disk is full")
        self.size += written

    def read(self) -> "Segment | None":
        """Return the segment in the file, or None if there are no entries.

        Lines that cannot be read are logged and left out.
        """
        lines = self._lines()
        try:
            head = _decode_head(next(lines, b""))
        except msgspec.DecodeError as error:
            if self.size:
                log.warning("%s: the beginning of the usage spool cannot be read: %s", self.path, error)
            return None
        sums = UsageSums(self._entries(lines))
        return Segment(0, self, head, sums) if sums.count else None

    def _entries(self, lines: Iterator[bytes]) -> Iterator[UsageEntry]:
        for line in lines:
            try:
                yield _decode(line)
            except msgspec.DecodeError as error:
                log.warning("%s: an entry of the usage spool cannot be read: %s", self.path, error)

    def _lines(self) -> Iterator[bytes]:
        rest, offset = b"", 0
        while data := os.pread(self._descriptor, READ_BYTES, offset):
            offset += len(data)
            *lines, rest = (rest + data).split(b"\n")
            yield from lines
        if rest:  # the process was killed while it wrote the line, so the response did not end
            yield rest

    def keep_copy(self) -> None:
        """Copy all lines to a `.rejected` file, for a person to look at, because they cannot be inserted."""
        copy = self.path.with_suffix(".rejected")
        try:
            with os.fdopen(open_private(copy, os.O_WRONLY | os.O_APPEND), "ab") as file:
                file.writelines(line + b"\n" for line in self._lines())
        except OSError as error:
            log.error("%s cannot be written: %s", copy, error)  # noqa: TRY400 - the reason is enough

    def empty(self) -> None:
        """Remove all entries."""
        os.ftruncate(self._descriptor, 0)
        self.size = 0

    def close(self, *, remove: bool) -> None:
        """Unlock and close the file. If `remove`, delete it first."""
        if remove:
            self.path.unlink(missing_ok=True)
        os.close(self._descriptor)


class Segment:
    """Entries that are inserted together: their sums, and the file that contains them."""

    __slots__ = ("file", "head", "number", "sums")

    def __init__(
        self,
        number: int,
        file: SpoolFile | None = None,
        head: SegmentHead | None = None,
        sums: UsageSums | None = None,
    ) -> None:
        self.number = number
        self.file = file
        """The file; None if it has not been created yet, or could not be."""
        self.head = head
        """The head; None if there are no entries."""
        self.sums = sums or UsageSums()


class Spool:
    """The spool of this process, in `folder`; if that is None, in a temporary folder, which does not survive a crash.

    `now` returns the Unix time. `on_begin` is called when a segment gets its first entry, and `warn` for the first of
    several consecutive failures.
    """

    def __init__(
        self,
        folder: Path | None,
        now: Callable[[], float],
        *,
        max_bytes: int = MAX_BYTES,
        on_begin: Callable[[], None] = lambda: None,
        warn: Callable[[str], None] = log.error,
    ) -> None:
        self.folder = folder
        self._now = now
        self._on_begin = on_begin
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._max_bytes = max_bytes
        self._warn = warn
        self._current = Segment(1)
        self._taken: Segment | None = None
        """The segment that is being inserted."""
        self._spare: SpoolFile | None = None
        """An empty file for the next segment."""
        self._is_failing = False
        self.failures = 0
        """Number of entries that could not be written to the disk."""

    @property
    def size(self) -> int:
        """The number of bytes in the files of all entries that wait to be inserted."""
        return sum(segment.file.size for segment in self._segments() if segment.file is not None)

    @property
    def is_empty(self) -> bool:
        """Whether no entry waits to be inserted."""
        return not self._current.sums.count and self._taken is None

    @property
    def pending(self) -> list[UsageSums]:
        """The sums of all entries that wait to be inserted."""
        return [segment.sums for segment in self._segments()]

    def append(self, entry: UsageEntry) -> int:
        """Write an entry and return the number of its segment. If the disk fails, the entry is only in memory."""
        segment = self._current
        segment.sums.add(entry)
        file = segment.file
        try:
            if file is None or not 0 < file.size < self._max_bytes:
                file = self._begin(segment)
            file.append(_encode(entry) + b"\n")
            self._is_failing = False
        except OSError as error:
            self._on_failure(error)
        return segment.number

    def take(self) -> Segment | None:
        """Return the entries to insert, or None if there are none. Return the same ones until `inserted` is called."""
        if self._taken is None and self._current.sums.count:
            self._taken = self._current
            self._current = Segment(self._taken.number + 1, self._spare)
            self._spare = None
        return self._taken

    def inserted(self) -> None:
        """Remove the entries that `take` returned."""
        segment, self._taken = self._taken, None
        if segment is not None and segment.file is not None:
            segment.file.empty()
            self._spare = segment.file

    def close(self) -> None:
        """Close the files. Empty ones are deleted; the others are imported by the next process."""
        for file in (self._spare, *(segment.file for segment in self._segments())):
            if file is not None:
                file.close(remove=not file.size)
        self._spare = self._current.file = None
        if self._temporary is not None:
            self._temporary.cleanup()

    def _segments(self) -> list[Segment]:
        return [self._current] if self._taken is None else [self._taken, self._current]

    def _begin(self, segment: Segment) -> SpoolFile:
        """Give a segment a head, and return its file. Raise OSError if it cannot be created or is too large."""
        if segment.head is None:
            segment.head = SegmentHead(secrets.token_hex(12), int(self._now()))
            self._on_begin()
        if segment.file is None:
            segment.file = self._open_file()
        if segment.file.size >= self._max_bytes:
            raise OSError(f"the spool holds {self._max_bytes >> 20} MiB")
        if not segment.file.size:
            segment.file.append(_encode(segment.head) + b"\n")
        return segment.file

    def _open_file(self) -> SpoolFile:
        if self._spare is not None:
            file, self._spare = self._spare, None
            return file
        if self.folder is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="tieline-usage-")
            self.folder = Path(self._temporary.name)
        return _create(self.folder / f"{secrets.token_hex(8)}{SUFFIX}")

    def _on_failure(self, error: OSError) -> None:
        self.failures += 1
        if not self._is_failing:
            self._warn(f"usage cannot be written to {self.folder} ({error}); a crash would lose it")
        self._is_failing = True


def leftovers(folder: Path) -> Iterator[SpoolFile]:
    """Yield the files of processes that have ended, locked. The caller has to close them."""
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        with contextlib.suppress(OSError):  # another process has deleted it
            descriptor = os.open(path, os.O_RDWR | NO_FOLLOW | getattr(os, "O_CLOEXEC", 0))
            if try_lock(descriptor) and path.exists():
                yield SpoolFile(path, descriptor)
            else:
                os.close(descriptor)


def _create(path: Path) -> SpoolFile:
    descriptor = open_private(path, os.O_RDWR | os.O_APPEND)
    # Before it was locked, another process may have taken the file for that of a dead process, and deleted it.
    if not try_lock(descriptor) or not path.exists():
        os.close(descriptor)
        raise OSError(f"{path} was taken by another process")
    return SpoolFile(path, descriptor)
