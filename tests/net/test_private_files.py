"""Private files on systems with and without owners and modes."""

import os
from pathlib import Path

import pytest

from tieline.net import private_files
from tieline.net.private_files import open_private, read_private, write_private


@pytest.fixture
def no_owners(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make this system like Windows."""
    for name in ("getuid", "fchmod"):
        monkeypatch.delattr(os, name)
    monkeypatch.setattr(private_files, "NO_FOLLOW", 0)


def test_a_file_is_made_private(tmp_path: Path) -> None:
    path = tmp_path / "new" / "file"
    os.close(open_private(path, os.O_RDWR))
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o644)
    os.close(open_private(path, os.O_RDWR))
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_file_that_others_can_write_to_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_private(path, b"data")
    assert read_private(path, 100) == b"data"
    path.chmod(0o666)
    with pytest.raises(ValueError, match="other users can write to it"):
        read_private(path, 100)


@pytest.mark.usefixtures("no_owners")
def test_without_owners_files_are_written_and_read_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_private(path, b"one\r\ntwo\n")
    path.chmod(0o666)
    os.close(open_private(path, os.O_RDWR))
    assert read_private(path, 100) == b"one\r\ntwo\n"


@pytest.mark.parametrize("flag", [private_files.NO_FOLLOW, 0], ids=["posix", "windows"])
def test_a_link_is_not_opened(flag: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(private_files, "NO_FOLLOW", flag)
    (tmp_path / "link").symlink_to(tmp_path / "target")
    with pytest.raises(OSError, match="Too many levels of symbolic links"):
        open_private(tmp_path / "link", os.O_RDWR)
    assert not (tmp_path / "target").exists()
