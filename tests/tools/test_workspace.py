"""Nothing leaves the workspace: not by a path, not by a link, not by being quick."""

import asyncio
import os
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.each import each
from tests.tools.calling import done, refused
from tieline.tools.errors import ToolFailed
from tieline.tools.toolbox import WorkspaceToolbox
from tieline.tools.workspace import MAX_FILE, Workspace

ESCAPES = [
    "../outside/secret.txt",
    "sub/../../outside/secret.txt",
    "sub/../sub/../../outside/secret.txt",
    "/etc/passwd",
    "//etc/passwd",
    "{outside}/secret.txt",
    "{root}/../outside/secret.txt",
    "{root}x/secret.txt",
    "link_up/outside/secret.txt",
    "link_out/secret.txt",
    "link_absolute/secret.txt",
    "link_to_link/secret.txt",
    "sub/link_relative_up/outside/secret.txt",
    "link_file",
    "link_proc/self/root/etc/passwd",
    "link_inside_then_up/../../../outside/secret.txt",
    "..",
    "/usr/share",
    "~/../../etc/passwd/../../..",
]


@pytest.fixture
def furnished(root: Path, outside: Path) -> Path:
    """The workspace, with every kind of link that leads out of it."""
    (root / "sub" / "deep").mkdir(parents=True)
    (root / "sub" / "inside.txt").write_text("inside\n")
    (root.parent / "workspacex").mkdir()
    (root.parent / "workspacex" / "secret.txt").write_text("the secret\n")
    for name, target in (
        ("link_up", ".."),
        ("link_out", "../outside"),
        ("link_absolute", str(outside)),
        ("link_to_link", "link_out"),
        ("sub/link_relative_up", "../.."),
        ("link_file", "../outside/secret.txt"),
        ("link_proc", "/proc"),
        ("link_inside_then_up", "sub/deep"),
    ):
        (root / name).symlink_to(target)
    return root


def names_in(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def spelled(path: str, root: Path, outside: Path) -> str:
    return path.replace("{root}", str(root)).replace("{outside}", str(outside))


CALLS: list[tuple[str, str, dict[str, Any]]] = [
    ("read_file", "path", {}),
    ("write_file", "path", {"content": "stolen"}),
    ("edit_file", "path", {"old_text": "secret", "new_text": "stolen"}),
    ("list_directory", "path", {}),
    ("search_files", "path", {"pattern": "*"}),
    ("search_content", "path", {"pattern": "secret"}),
    ("run_terminal", "cwd", {"command": "cat secret.txt; ls"}),
]


@each("path", ESCAPES)
@each(("tool", "name", "more"), CALLS, ids=[tool for tool, _, _ in CALLS])
async def test_no_path_leads_any_tool_outside(
    box: WorkspaceToolbox, furnished: Path, outside: Path, path: str, tool: str, name: str, more: dict[str, Any]
) -> None:
    said = await refused(box, tool, **{name: spelled(path, furnished, outside)}, **more)
    assert "outside the workspace" in said or "there is no `~`" in said
    assert "the secret" not in said
    assert (outside / "secret.txt").read_text() == "the secret\n"
    assert names_in(outside) == ["secret.txt"]


async def test_a_new_file_cannot_be_made_through_a_link_that_leads_out(
    box: WorkspaceToolbox, furnished: Path, outside: Path
) -> None:
    for path in ("link_out/new.txt", "link_out/new/folder/file.txt", "missing/../../outside/new.txt"):
        await refused(box, "write_file", path=path, content="x")
    (furnished / "dangling").symlink_to("../outside/made.txt")
    await refused(box, "write_file", path="dangling", content="x")
    assert names_in(outside) == ["secret.txt"]
    assert not (furnished / "missing").exists()


async def test_links_that_stay_inside_are_followed(box: WorkspaceToolbox, furnished: Path) -> None:
    (furnished / "there").symlink_to("sub")
    (furnished / "absolute").symlink_to(furnished / "sub")
    (furnished / "sub" / "back").symlink_to("../sub/inside.txt")
    for path in (
        "there/inside.txt",
        "absolute/inside.txt",
        "sub/back",
        "there/back",
        "link_inside_then_up/../inside.txt",
    ):
        assert await done(box, "read_file", path=path) == "1\tinside"


async def test_a_link_stays_a_link_when_its_file_is_written(box: WorkspaceToolbox, furnished: Path) -> None:
    (furnished / "there.txt").symlink_to("sub/inside.txt")
    assert "`sub/inside.txt`" in await done(box, "write_file", path="there.txt", content="new\n")
    assert (furnished / "there.txt").is_symlink()
    assert (furnished / "sub" / "inside.txt").read_text() == "new\n"


async def test_links_in_a_circle_are_given_up(box: WorkspaceToolbox, root: Path) -> None:
    (root / "one").symlink_to("two")
    (root / "two").symlink_to("one")
    assert "cycle" in await refused(box, "read_file", path="one")
    assert "cycle" in await refused(box, "write_file", path="one/x", content="")


async def test_absolute_paths_inside_are_taken(box: WorkspaceToolbox, furnished: Path, tmp_path: Path) -> None:
    assert await done(box, "read_file", path=f"{furnished}/sub//inside.txt") == "1\tinside"
    assert await done(box, "read_file", path=f"{furnished}/./sub/../sub/inside.txt") == "1\tinside"
    (tmp_path / "alias").symlink_to(furnished)
    other = Workspace(tmp_path / "alias")
    assert other.locate(f"{tmp_path}/alias/sub/inside.txt") == other.locate(f"{furnished}/sub/inside.txt")


@pytest.mark.parametrize("path", ["a\0b", "\udcff\ud800", "x" * 300, "sub/" * 200 + "x", "sub/inside.txt/more"])
async def test_paths_no_file_can_have_are_refused_in_words(workspace: Workspace, furnished: Path, path: str) -> None:
    with pytest.raises(ToolFailed), workspace.open(path):
        pass
    with pytest.raises(ToolFailed):
        workspace.write(path, b"")


async def test_what_is_not_a_regular_file_is_not_opened(box: WorkspaceToolbox, root: Path) -> None:
    """Ours: opening a pipe waits for its other end, and reading a device may never stop."""
    os.mkfifo(root / "pipe")
    assert "regular file" in await refused(box, "read_file", path="pipe")
    assert "regular file" in await refused(box, "write_file", path="pipe", content="x")
    assert "regular file" in await refused(box, "edit_file", path="pipe", old_text="a", new_text="b")
    assert "regular file" in await refused(box, "search_content", path="pipe", pattern="a")
    assert "directory" in await refused(box, "read_file", path=".")
    assert "directory" in await refused(box, "write_file", path=".", content="x")


def swapping(monkeypatch: pytest.MonkeyPatch, function: str, name: str, swap: Callable[[], None]) -> None:
    """Do something in the very moment after the system was asked about a name and before the answer is used."""
    original = getattr(os, function)
    is_done = threading.Event()

    def asked(path: Any, *more: Any, **options: Any) -> Any:
        try:
            return original(path, *more, **options)
        finally:
            if path == name and not is_done.is_set():
                is_done.set()
                swap()

    monkeypatch.setattr(os, function, asked)


@pytest.mark.parametrize("function", ["readlink", "stat"])
def test_a_folder_that_becomes_a_link_between_check_and_use_leads_nowhere(
    workspace: Workspace, root: Path, outside: Path, monkeypatch: pytest.MonkeyPatch, function: str
) -> None:
    (root / "folder").mkdir()
    (root / "folder" / "secret.txt").write_text("mine\n")
    name = "folder" if function == "readlink" else "secret.txt"

    def swap() -> None:
        (root / "folder").rename(root / "aside")
        (root / "folder").symlink_to(outside)

    swapping(monkeypatch, function, name, swap)
    try:
        with workspace.open("folder/secret.txt") as opened:
            seen = opened.stream.read()
    except ToolFailed as error:
        seen = str(error).encode()
    assert seen == (
        b"mine\n" if function == "stat" else b"`folder/secret.txt`: a part of this path is a file, not a directory"
    )


def test_a_file_that_becomes_a_link_between_check_and_use_is_not_read(
    workspace: Workspace, root: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "file.txt").write_text("mine\n")

    def swap() -> None:
        (root / "file.txt").unlink()
        (root / "file.txt").symlink_to(outside / "secret.txt")

    swapping(monkeypatch, "stat", "file.txt", swap)
    with pytest.raises(ToolFailed, match="became a link"), workspace.open("file.txt"):
        pass


def test_a_folder_that_becomes_a_link_while_a_file_is_written_keeps_the_outside_clean(
    workspace: Workspace, root: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "folder").mkdir()

    def swap() -> None:
        (root / "folder").rename(root / "aside")
        (root / "folder").symlink_to(outside)

    swapping(monkeypatch, "stat", "new.txt", swap)
    workspace.write("folder/new.txt", b"data")
    assert names_in(outside) == ["secret.txt"]
    assert (root / "aside" / "new.txt").read_bytes() == b"data"


@contextmanager
def swapped_all_the_time(root: Path, outside: Path) -> Iterator[None]:
    """A folder of the workspace and a link to the outside change places as fast as they can."""
    (root / "folder").mkdir()
    (root / "folder" / "secret.txt").write_text("mine\n")
    (root / "way_out").symlink_to(outside)
    is_over = threading.Event()

    def swap() -> None:
        while not is_over.is_set():
            for one, other in (("folder", "aside"), ("way_out", "folder"), ("folder", "way_out"), ("aside", "folder")):
                (root / one).rename(root / other)

    swapper = threading.Thread(target=swap)
    swapper.start()
    try:
        yield
    finally:
        is_over.set()
        swapper.join(10)


def test_no_luck_in_a_race_reads_or_writes_outside(workspace: Workspace, root: Path, outside: Path) -> None:
    tried = read = 0
    before = (outside / "secret.txt").stat()
    deadline = time.monotonic() + 20
    with swapped_all_the_time(root, outside):
        while tried < 400 or not read:
            tried += 1
            assert time.monotonic() < deadline, "nothing could be read at all"
            try:
                with workspace.open("folder/secret.txt") as opened:
                    assert opened.stream.read() == b"mine\n"
                read += 1
                workspace.edit("folder/secret.txt", bytes)
            except ToolFailed:
                continue
    assert names_in(outside) == ["secret.txt"]
    after = (outside / "secret.txt").stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o755])
async def test_a_file_keeps_its_mode(box: WorkspaceToolbox, root: Path, mode: int) -> None:
    (root / "file").write_text("one\n")
    (root / "file").chmod(mode)
    await done(box, "write_file", path="file", content="two\n")
    assert stat.S_IMODE((root / "file").stat().st_mode) == mode
    await done(box, "edit_file", path="file", old_text="two", new_text="three")
    assert stat.S_IMODE((root / "file").stat().st_mode) == mode
    assert (root / "file").read_text() == "three\n"


async def test_a_new_file_has_the_mode_new_files_have(box: WorkspaceToolbox, root: Path) -> None:
    (root / "usual").write_text("")
    await done(box, "write_file", path="a/b/new", content="x")
    assert (root / "a" / "b" / "new").stat().st_mode == (root / "usual").stat().st_mode


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(
    workspace: Workspace, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "file").write_text("old\n")

    def full(opened: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ToolFailed, match="the disk is full"):
        workspace.write("file", b"new\n")
    assert (root / "file").read_text() == "old\n"
    assert names_in(root) == ["file"]


def test_a_file_someone_else_changes_meanwhile_is_not_overwritten(workspace: Workspace, root: Path) -> None:
    (root / "file").write_text("old\n")

    def change(data: bytes) -> bytes:
        (root / "file").write_text("by someone else\n")
        return b"new\n"

    with pytest.raises(ToolFailed, match="read it again"):
        workspace.edit("file", change)
    assert (root / "file").read_text() == "by someone else\n"
    assert names_in(root) == ["file"]


def test_nobody_sees_half_a_file(workspace: Workspace, root: Path) -> None:
    """Each look sees one version whole, however many writers there are."""
    versions = {bytes([letter]) * 100_000 for letter in b"abc"}
    workspace.write("file", b"a" * 100_000)

    def write(data: bytes) -> None:
        for _ in range(10):
            workspace.write("file", data)

    writers = [threading.Thread(target=write, args=(data,)) for data in versions]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        assert (root / "file").read_bytes() in versions
    for writer in writers:
        writer.join(10)


async def test_what_is_too_large_is_refused(box: WorkspaceToolbox, workspace: Workspace, root: Path) -> None:
    with pytest.raises(ToolFailed, match="at most"):
        workspace.write("large", bytes(MAX_FILE + 1))
    assert not (root / "large").exists()
    with (root / "huge").open("wb") as huge:
        huge.truncate(MAX_FILE + 1)
    assert "bytes" in await refused(box, "edit_file", path="huge", old_text="a", new_text="b")


async def test_a_workspace_that_is_gone_is_said_to_be(box: WorkspaceToolbox, root: Path) -> None:
    await asyncio.to_thread(root.rmdir)
    assert "the workspace" in await refused(box, "read_file", path="x")
    with pytest.raises(ToolFailed, match="not a directory"):
        Workspace(root)


def test_a_path_is_located_even_if_nothing_is_there_yet(workspace: Workspace, furnished: Path) -> None:
    (furnished / "there").symlink_to("sub")
    located = {
        "there/new/file": "sub/new/file",
        "./there/../there/inside.txt": "sub/inside.txt",
        ".": ".",
        "": ".",
        "sub/": "sub",
        f"{furnished}": ".",
    }
    assert {path: workspace.locate(path) for path in located} == located
