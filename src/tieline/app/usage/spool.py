"""A spool for usage entries: files that keep entries from the end of a request until they are in the database.

Each process has two files, which only it may write. Entries are appended to one of them. The other one is being
inserted into the database, and is emptied only after that. Both are locked as long as the process lives, so a process
can tell the files of dead processes, which it imports.

The first line of a file is its head: a random id for what follows, until the file is emptied. The database remembers
these ids, so the same entries are added only once. An entry is passed to the operating system before the response ends,
so it survives a crash of the process, but not necessarily a crash of the machine.
"""

import contextlib
import logging
import os
import secrets
import tempfile
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from tieline.app.usage.tables import BatchSums
from tieline.core.usage.meter import UsageEntry
from tieline.net.file_lock import try_lock
from tieline.net.private_files import NO_FOLLOW, open_private

log = logging.getLogger("tieline")

SUFFIX = ".spool"
MAX_BYTES = 256 << 20
"""Maximum size of both files together: about a million entries."""
MAX_IN_MEMORY = 10_000
"""Number of entries that are kept in memory if the disk is full."""
READ_BYTES = 64 << 10

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(UsageEntry).decode


class SegmentHead(msgspec.Struct, frozen=True):
    """The first line of a file: the id of the segment, and when it began."""

    segment: str
    begun: int


_decode_head = msgspec.json.Decoder(SegmentHead).decode


class SpoolFile:
    """One file of a spool, open and locked."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor
        self.size = os.fstat(descriptor).st_size
        """The number of bytes in the file; 0 if it has no entries."""

    def append(self, line: bytes, now: float) -> None:
        """Append a line, completely or not at all. Raise OSError if that fails."""
        if not self.size:
            line = _encode(SegmentHead(secrets.token_hex(12), int(now))) + b"\n" + line
        written = os.write(self._descriptor, line)
        if written < len(line):
            os.ftruncate(self._descriptor, self.size)
            raise OSError("the disk is full")
        self.size += written

    def read(self) -> tuple[SegmentHead | None, BatchSums]:
        """Return the head of the file and the sums of its entries. The head is None if there are no entries.

        Lines that cannot be read are logged and left out.
        """
        head: SegmentHead | None = None
        sums = BatchSums()
        lines = self._lines()
        try:
            head = _decode_head(next(lines, b""))
        except msgspec.DecodeError as error:
            if self.size:
                log.warning("%s: the beginning of the usage spool cannot be read: %s", self.path, error)
            return None, sums
        sums.add(self._entries(lines))
        return (head if sums.count else None), sums

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
        """Keep a copy of entries that the database rejects, for a person to look at."""
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


class TakenSegment(NamedTuple):
    """A segment that is to be inserted: its file, and the entries that could not be written, with an id for these."""

    number: int
    file: SpoolFile | None
    unwritten_id: str
    unwritten: list[UsageEntry]


class Spool:
    """The spool of this process, in `folder`; if that is None, in a temporary folder, which does not survive a crash.

    `now` returns the Unix time. `warn` is called for the first of several consecutive failures.
    """

    def __init__(
        self,
        folder: Path | None,
        now: Callable[[], float],
        *,
        max_bytes: int = MAX_BYTES,
        warn: Callable[[str], None] = log.error,
    ) -> None:
        self.folder = folder
        self._now = now
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._max_bytes = max_bytes
        self._warn = warn
        self._active: SpoolFile | None = None
        self._resting: SpoolFile | None = None
        self._unwritten: dict[int, deque[UsageEntry]] = {}
        """Entries that could not be written, by segment."""
        self._name = secrets.token_hex(12)
        self._is_failing = False
        self.segment = 1
        """The number of the segment to which entries are appended. `take` begins a new one."""
        self.failures = 0
        """Number of entries that could not be written to the disk."""
        self.lost = 0
        """Number of entries that could not even be kept in memory."""

    @property
    def size(self) -> int:
        """The number of bytes that wait to be inserted."""
        return sum(file.size for file in (self._active, self._resting) if file is not None)

    @property
    def is_empty(self) -> bool:
        """Whether no entry waits to be inserted."""
        return not self.size and not self._unwritten

    def append(self, entry: UsageEntry) -> int:
        """Write an entry and return the number of its segment. If the disk fails, keep the entry in memory."""
        line = _encode(entry) + b"\n"
        try:
            self._file_for(line).append(line, self._now())
        except OSError as error:
            self._keep(entry, error)
        else:
            self._is_failing = False
        return self.segment

    def take(self) -> "TakenSegment | None":
        """Begin a new segment, unless the previous one has not been inserted yet. Return the previous one.

        Return None if there is nothing to insert.
        """
        if self.is_empty:
            return None
        if not (self._resting is not None and self._resting.size) and self.segment - 1 not in self._unwritten:
            self._active, self._resting = self._resting, self._active
            self.segment += 1
        number = self.segment - 1
        return TakenSegment(number, self._resting, f"{self._name}-{number}", list(self._unwritten.get(number, ())))

    def inserted(self) -> None:
        """Remove the entries that `take` returned."""
        if self._resting is not None and self._resting.size:
            self._resting.empty()
        self._unwritten.pop(self.segment - 1, None)

    def close(self) -> None:
        """Close the files. Empty ones are deleted; the others are imported by the next process."""
        for file in (self._active, self._resting):
            if file is not None:
                file.close(remove=not file.size)
        self._active = self._resting = None
        if self._temporary is not None:
            self._temporary.cleanup()

    def _file_for(self, line: bytes) -> SpoolFile:
        """Return the file to which a line is appended. Raise OSError if it cannot be created or is full."""
        if self._active is None or self._resting is None:
            if self.folder is None:
                self._temporary = tempfile.TemporaryDirectory(prefix="tieline-usage-")
                self.folder = Path(self._temporary.name)
            name = secrets.token_hex(8)
            self._active = self._active or _create(self.folder / f"{name}-a{SUFFIX}")
            self._resting = self._resting or _create(self.folder / f"{name}-b{SUFFIX}")
        if self.size + len(line) > self._max_bytes:
            raise OSError(f"the spool holds {self._max_bytes >> 20} MiB")
        return self._active

    def _keep(self, entry: UsageEntry, error: OSError) -> None:
        self.failures += 1
        if not self._is_failing:
            self._warn(f"usage cannot be written to {self.folder} ({error}); a crash would lose it")
        self._is_failing = True
        kept = self._unwritten.setdefault(self.segment, deque())
        if sum(map(len, self._unwritten.values())) >= MAX_IN_MEMORY:
            self.lost += 1
        else:
            kept.append(entry)


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
