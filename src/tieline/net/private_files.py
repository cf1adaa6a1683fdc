"""Reads small files with a size limit, and writes files that only their owner can read or change.

On Windows, files have no POSIX owner and mode, so these are not checked there. Tieline keeps its files in the user's
profile, whose folders other users cannot access.
"""

import errno
import os
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path

Check = Callable[[os.stat_result], None]

NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
_BINARY = getattr(os, "O_BINARY", 0)
"""Without this flag, Windows would translate line endings."""
_CLOSED_ON_EXEC = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOINHERIT", 0)
_READ = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | _CLOSED_ON_EXEC | _BINARY


class NotAFileError(ValueError):
    """The path refers to a directory, a pipe or a device."""


class TooLargeError(ValueError):
    """The file holds more bytes than the caller accepts."""


def read_file(path: Path, limit: int, *, check: Check | None = None, flags: int = 0) -> bytes:
    """Read a regular file of at most `limit` bytes. Raise OSError, NotAFileError or TooLargeError on failure.

    The file is opened without blocking, because it may be a pipe. It is examined only after it has been opened, so that
    no other file can replace it between these steps. `check` may raise an exception if the owner or the mode of the
    file is not acceptable. `flags` are additional flags for `os.open`.
    """
    descriptor = os.open(path, _READ | flags)
    try:
        state = os.fstat(descriptor)
        if not stat.S_ISREG(state.st_mode):
            raise NotAFileError("it is not a regular file")
        if check is not None:
            check(state)
        return _read(descriptor, limit)
    finally:
        os.close(descriptor)


def read_stream(path: Path, limit: int) -> bytes:
    """Read a file of any kind. This may block if it is a pipe. Raise TooLargeError if it exceeds `limit` bytes."""
    with path.open("rb", buffering=0) as file:
        return _read(file.fileno(), limit)


def read_private(path: Path, limit: int) -> bytes:
    """Read a file that only this user can write to. Raise ValueError if other users can write to it."""
    return read_file(path, limit, check=_require_private, flags=NO_FOLLOW)


def open_private(path: Path, flags: int) -> int:
    """Open a file, or create it together with its folder, so that only its owner can read it. Return its descriptor.

    `flags` select reading or writing, as for `os.open`. Raise OSError if the file is a symbolic link.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not NO_FOLLOW and path.is_symlink():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    descriptor = os.open(path, flags | os.O_CREAT | NO_FOLLOW | _CLOSED_ON_EXEC | _BINARY, 0o600)
    if has_owners():
        os.fchmod(descriptor, 0o600)
    return descriptor


def write_private(path: Path, data: bytes) -> None:
    """Write a file atomically, readable and writable by its owner only. Raise OSError if that fails."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:40]}.")  # creates it with mode 0600
    unfinished = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    except OSError:
        unfinished.unlink(missing_ok=True)
        raise


def has_owners() -> bool:
    """Return whether files have an owner and a mode that can be checked. They do not on Windows."""
    return hasattr(os, "getuid")


def _require_private(state: os.stat_result) -> None:
    if not has_owners():
        return
    if state.st_uid != os.getuid() or state.st_mode & 0o022:
        raise ValueError("other users can write to it; if you trust its content, make it writable by you only")


def _read(descriptor: int, limit: int) -> bytes:
    pieces: list[bytes] = []
    left = limit + 1
    while left and (piece := os.read(descriptor, left)):
        pieces.append(piece)
        left -= len(piece)
    if not left:
        raise TooLargeError(f"it is larger than {limit >> 10} KiB")
    return b"".join(pieces)
