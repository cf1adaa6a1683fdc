"""Returns freed memory to the operating system after large requests."""

import contextlib
import sys


def trim() -> None:
    """Return free memory to the operating system. Do nothing if the allocator does not support this."""
    if sys.platform != "linux":
        return
    import ctypes  # noqa: PLC0415 - needed only after large requests

    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
