"""Memory that the allocator keeps after large requests, given back to the system."""

import contextlib
import sys


def trim() -> None:
    """Give back what is free; nothing happens where the allocator has no such call."""
    if sys.platform != "linux":
        return
    import ctypes  # noqa: PLC0415 - needed only after large requests

    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
