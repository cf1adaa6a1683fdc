"""Locks that keep two processes from using the same file. The system releases them when their process ends."""

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]  # checked before each use


def try_lock(descriptor: int) -> bool:
    """Lock an open file until its descriptor is closed. Return False if another process holds the lock."""
    try:
        if fcntl is not None:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        else:
            _lock_first_byte(descriptor)
    except (BlockingIOError, PermissionError):
        return False
    return True


def _lock_first_byte(descriptor: int) -> None:
    """Lock the first byte of a file (Windows). The file may be empty. Raise PermissionError if it is locked already."""
    import msvcrt  # noqa: PLC0415 - exists on Windows only

    msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]  # exists on Windows only
