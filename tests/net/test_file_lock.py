"""Locks on files, on POSIX systems and on Windows."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from tieline.net import file_lock
from tieline.net.file_lock import try_lock


class WindowsLocks:
    """The locks of Windows: one holder per file, until it closes its descriptor."""

    LK_NBLCK = 2

    def __init__(self) -> None:
        self.holders: dict[int, int] = {}

    def locking(self, descriptor: int, mode: int, size: int) -> None:
        assert (mode, size) == (2, 1)
        holder = self.holders.setdefault(os.fstat(descriptor).st_ino, descriptor)
        if holder != descriptor:
            raise PermissionError(13, "Permission denied")


@pytest.fixture(params=["posix", "windows"])
def system(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "windows":
        locks = WindowsLocks()
        monkeypatch.setattr(file_lock, "fcntl", None)
        monkeypatch.setitem(sys.modules, "msvcrt", SimpleNamespace(LK_NBLCK=2, locking=locks.locking))
    return str(request.param)


@pytest.fixture
def descriptors(tmp_path: Path) -> Iterator[tuple[int, int]]:
    flags = os.O_RDWR | os.O_CREAT
    first, second = (os.open(tmp_path / "lock", flags) for _ in range(2))
    yield first, second
    os.close(first)
    os.close(second)


@pytest.mark.usefixtures("system")
def test_only_one_descriptor_holds_the_lock(descriptors: tuple[int, int]) -> None:
    first, second = descriptors
    assert try_lock(first)
    assert not try_lock(second)
