"""Reading, writing, editing and listing files."""

import asyncio
import base64
import time
from pathlib import Path

import pytest

from tests.tools.calling import call, done, refused, text_of
from tieline.model.content import Image, Text
from tieline.tools import files
from tieline.tools.errors import ToolFailed
from tieline.tools.files import MAX_LINES, MAX_WIDTH
from tieline.tools.toolbox import WorkspaceToolbox
from tieline.tools.workspace import Workspace
from tieline.wire.shared.file_text import bare


async def test_a_file_is_read_with_the_numbers_of_its_lines(box: WorkspaceToolbox, root: Path) -> None:
    (root / "a.py").write_text("first\n\nthird")
    assert await done(box, "read_file", path="a.py") == "1\tfirst\n2\t\n3\tthird"


async def test_the_text_of_a_file_can_be_found_again_in_what_was_shown(box: WorkspaceToolbox, root: Path) -> None:
    """Ours: what a model is shown is the only thing a later turn has of the file."""
    text = "def f():\n\treturn 1\n\n\nprint(f())"
    (root / "a.py").write_text(text)
    assert bare(await done(box, "read_file", path="a.py")) == text


async def test_a_range_of_lines_tells_how_to_go_on(box: WorkspaceToolbox, root: Path) -> None:
    (root / "a").write_text("".join(f"line {number}\n" for number in range(1, 11)))
    result = await box.execute(call("read_file", path="a", offset=4, limit=3))
    shown, note = result.content
    assert shown == Text(text="4\tline 4\n5\tline 5\n6\tline 6")
    assert note == Text(text="(lines 4 to 6 of 10; continue with offset 7)")
    assert await done(box, "read_file", path="a", offset=9) == "9\tline 9\n10\tline 10"


async def test_a_line_beyond_the_end_is_refused_with_the_number_of_lines(box: WorkspaceToolbox, root: Path) -> None:
    (root / "a").write_text("one\ntwo\n")
    assert "has 2 lines" in await refused(box, "read_file", path="a", offset=3)


async def test_an_empty_file_is_said_to_be_empty(box: WorkspaceToolbox, root: Path) -> None:
    (root / "a").write_text("")
    assert await done(box, "read_file", path="a") == "(the file is empty)"


async def test_a_long_file_comes_in_pages_and_a_long_line_is_cut(box: WorkspaceToolbox, root: Path) -> None:
    (root / "long").write_text("x\n" * (MAX_LINES + 5))
    assert f"continue with offset {MAX_LINES + 1}" in await done(box, "read_file", path="long")
    (root / "wide").write_text("ä" * 300_000 + "\nnext\n")
    shown = await done(box, "read_file", path="wide")
    assert shown.startswith("1\t" + "ä" * MAX_WIDTH + "… (the line has 600001 bytes)\n2\tnext")
    assert "UTF-8" not in shown


async def test_what_is_shown_at_once_has_a_bound(box: WorkspaceToolbox, root: Path) -> None:
    (root / "much").write_text(("y" * 1900 + "\n") * 1000)
    shown = await done(box, "read_file", path="much")
    assert len(shown) < files.MAX_SHOWN + 3 * MAX_WIDTH
    assert "of 1000; continue with offset" in shown


async def test_a_line_too_far_away_is_not_looked_for(
    box: WorkspaceToolbox, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MAX_SCANNED", 1000)
    (root / "a").write_text("line\n" * 1000)
    assert "too large" in await refused(box, "read_file", path="a", offset=500)
    assert "of 1000; continue" in await done(box, "read_file", path="a", limit=10)
    (root / "b").write_text("x" * 5000 + "\nnext\n")
    monkeypatch.setattr(files, "_PIECE", 512)
    monkeypatch.setattr(files, "MAX_WIDTH", 100)
    shown = await done(box, "read_file", path="b")
    assert "the line has more than 1" in shown
    assert "next" not in shown


def test_a_page_of_a_file_with_millions_of_lines_costs_little_wherever_it_is(root: Path) -> None:
    lines = 6_000_000
    (root / "big").write_bytes(b"1234\n" * lines)
    workspace = Workspace(root)
    began = time.thread_time()
    first = files.read(workspace, files.ReadFile(path="big"))
    far = files.read(workspace, files.ReadFile(path="big", offset=lines - 10_000, limit=2))
    near_the_end = files.read(workspace, files.ReadFile(path="big", offset=lines - 3))
    with pytest.raises(ToolFailed, match=f"has {lines} lines"):
        files.read(workspace, files.ReadFile(path="big", offset=lines + 1))
    assert time.thread_time() - began < 1.0, "counting the lines one by one takes seconds"
    assert first[-1] == Text(text=f"(lines 1 to 2000 of a file of {5 * lines} bytes; continue with offset 2001)")
    start = lines - 10_000
    assert far[0] == Text(text=f"{start}\t1234\n{start + 1}\t1234")
    assert far[-1] == Text(text=f"(lines {start} to {start + 1} of {lines}; continue with offset {start + 2})")
    assert len(near_the_end) == 1
    assert near_the_end[0] == Text(text="\n".join(f"{n}\t1234" for n in range(lines - 3, lines + 1)))


@pytest.mark.parametrize(
    "text", ["a", "a\n", "a\nb", "a\nb\n", "\n", "\n\n", "a\n\nb", "\r\n\r\n", "ab\n" * 20, "ab\n" * 20 + "c"]
)
@pytest.mark.parametrize("piece", [8, 9, 64])
def test_pages_put_together_are_the_file_however_it_is_read(
    root: Path, monkeypatch: pytest.MonkeyPatch, text: str, piece: int
) -> None:
    monkeypatch.setattr(files, "_PIECE", piece)
    (root / "a").write_bytes(text.encode())
    wanted = [line.rstrip("\r") for line in text.removesuffix("\n").split("\n")]
    for number, line in enumerate(wanted, 1):
        page = files.read(Workspace(root), files.ReadFile(path="a", offset=number, limit=1))
        assert page[0] == Text(text=f"{number}\t{line}")
    with pytest.raises(ToolFailed, match=f"has {len(wanted)} lines"):
        files.read(Workspace(root), files.ReadFile(path="a", offset=len(wanted) + 1))


@pytest.mark.parametrize(
    ("start", "media_type"),
    [
        (b"\x89PNG\r\n\x1a\n\0\0", "image/png"),
        (b"\xff\xd8\xff\xe0\0", "image/jpeg"),
        (b"GIF89a\0", "image/gif"),
        (b"RIFF\0\0\0\0WEBPVP8 ", "image/webp"),
    ],
)
async def test_pictures_are_shown_as_pictures(box: WorkspaceToolbox, root: Path, start: bytes, media_type: str) -> None:
    data = start + bytes(range(256)) * 100
    (root / "picture").write_bytes(data)
    result = await box.execute(call("read_file", path="picture"))
    assert result.content == (Image(media_type=media_type, data=base64.b64encode(data).decode()),)


async def test_a_picture_that_is_too_large_is_refused(box: WorkspaceToolbox, root: Path) -> None:
    with (root / "picture").open("wb") as picture:
        picture.write(b"\x89PNG\r\n\x1a\n")
        picture.truncate(files.MAX_IMAGE + 1)
    assert "picture" in await refused(box, "read_file", path="picture")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"\x7fELF\0\0\0", "binary file of 7 bytes"),
        ("text".encode("utf-16"), "UTF-16"),
        (b"%PDF-1.7 text", "a PDF"),
    ],
)
async def test_what_is_not_text_is_refused_and_named(box: WorkspaceToolbox, root: Path, data: bytes, said: str) -> None:
    (root / "file").write_bytes(data)
    assert said in await refused(box, "read_file", path="file")


async def test_text_in_an_unknown_encoding_is_shown_as_well_as_can_be(box: WorkspaceToolbox, root: Path) -> None:
    (root / "latin").write_bytes("grün\nblau\n".encode("latin-1"))
    shown = await done(box, "read_file", path="latin")
    assert shown.startswith("1\tgr\ufffdn\n2\tblau\n")
    assert "not valid UTF-8" in shown


async def test_a_name_that_is_nearly_right_is_told(box: WorkspaceToolbox, root: Path) -> None:
    (root / "src").mkdir()
    (root / "src" / "main.py").write_text("")
    said = await refused(box, "read_file", path="src/Main.py")
    assert said == "`src/Main.py`: there is no `Main.py` in `src`; did you mean `main.py`?"
    assert "there is no `scr` in the workspace; did you mean `src`?" in await refused(
        box, "read_file", path="scr/main.py"
    )


async def test_writing_makes_the_folders_it_needs(box: WorkspaceToolbox, root: Path) -> None:
    assert await done(box, "write_file", path="a/b/c.txt", content="grün\n") == "Created `a/b/c.txt` (6 bytes)."
    assert (root / "a" / "b" / "c.txt").read_bytes() == "grün\n".encode()
    assert await done(box, "write_file", path="a/b/c.txt", content="") == "Replaced `a/b/c.txt` (0 bytes)."
    assert "directory" in await refused(box, "write_file", path="a/b/", content="")
    assert "a file, not a directory" in await refused(box, "write_file", path="a/b/c.txt/d", content="")


async def test_an_edit_replaces_what_occurs_once(box: WorkspaceToolbox, root: Path) -> None:
    (root / "a").write_text("one\ntwo\nthree\n")
    said = await done(box, "edit_file", path="a", old_text="two\n", new_text="2\n2\n")
    assert said == "Replaced 1 occurrence in `a`, at line 2."
    assert (root / "a").read_text() == "one\n2\n2\nthree\n"


async def test_an_edit_that_fits_several_places_changes_none_and_names_them(box: WorkspaceToolbox, root: Path) -> None:
    (root / "a").write_text("x = 1\ny = 2\nx = 1\n" + "x = 1\n" * 12)
    said = await refused(box, "edit_file", path="a", old_text="x = 1", new_text="x = 2")
    assert "occurs 14 times in `a`, at lines 1, 3, 4, 5, 6, 7, 8, 9, 10, 11 and 4 more" in said
    assert "replace_all" in said
    assert "2" not in (root / "a").read_text().replace("y = 2", "")


async def test_an_edit_of_all_places_says_how_many(box: WorkspaceToolbox, root: Path) -> None:
    (root / "a").write_text("a b a\na\n")
    said = await done(box, "edit_file", path="a", old_text="a", new_text="c", replace_all=True)
    assert said == "Replaced 3 occurrences in `a`, at lines 1, 1, 2."
    assert (root / "a").read_text() == "c b c\nc\n"


@pytest.mark.parametrize(
    ("old_text", "said"),
    [
        ("nowhere", "copy the text exactly"),
        ("def f():\n  return 1", "the text at line 2 only in white space"),
        ("def f():\n    return 3", "first line occurs at line 2, but the lines after it differ"),
    ],
)
async def test_an_edit_that_fits_nowhere_says_why(box: WorkspaceToolbox, root: Path, old_text: str, said: str) -> None:
    (root / "a").write_text("# start\ndef f():\n    return 1\n")
    answer = await refused(box, "edit_file", path="a", old_text=old_text, new_text="x")
    assert answer.startswith("`old_text` does not occur in `a`. Nothing was changed.")
    assert said in answer


async def test_an_edit_keeps_the_line_ends_of_the_file(box: WorkspaceToolbox, root: Path) -> None:
    (root / "a").write_bytes(b"one\r\ntwo\r\nthree\r\n")
    assert await done(box, "read_file", path="a", limit=2, offset=1)
    await done(box, "edit_file", path="a", old_text="one\ntwo", new_text="1\n2")
    assert (root / "a").read_bytes() == b"1\r\n2\r\nthree\r\n"


@pytest.mark.parametrize(
    ("before", "old_text", "new_text", "after"),
    [
        (b"one\r\ntwo\r\n", "two", "2\n3", b"one\r\n2\r\n3\r\n"),
        (b"one\r\ntwo", "two", "2\n", b"one\r\n2\r\n"),
        (b"one\r\ntwo\r\n", "one\ntwo", "1\r\n2", b"1\r\n2\r\n"),
        (b"one\r\ntwo\r\n", "one\r\ntwo", "1\n2", b"1\r\n2\r\n"),
        (b"one\r\ntwo\nthree\n", "two", "2\n3", b"one\r\n2\n3\nthree\n"),
        (b"one\ntwo", "two", "2", b"one\n2"),
        (b"\xef\xbb\xbfone\n", "one", "1", b"\xef\xbb\xbf1\n"),
    ],
    ids=["new lines", "a last line", "ends in the new text", "ends in the old text", "mixed", "no last end", "a mark"],
)
async def test_what_an_edit_adds_has_the_line_ends_of_the_file(
    box: WorkspaceToolbox, root: Path, before: bytes, old_text: str, new_text: str, after: bytes
) -> None:
    (root / "a").write_bytes(before)
    await done(box, "edit_file", path="a", old_text=old_text, new_text=new_text)
    assert (root / "a").read_bytes() == after


async def test_places_that_overlap_are_several(box: WorkspaceToolbox, root: Path) -> None:
    (root / "a").write_text("x\n\n\n\ny")
    assert "occurs 2 times in `a`, at lines 1, 2" in await refused(
        box, "edit_file", path="a", old_text="\n\n\n", new_text="\n"
    )
    await done(box, "edit_file", path="a", old_text="\n\n\n", new_text="\n", replace_all=True)
    assert (root / "a").read_text() == "x\n\ny"


async def test_an_edit_keeps_bytes_it_does_not_understand(box: WorkspaceToolbox, root: Path) -> None:
    (root / "a").write_bytes(b"gr\xfcn\nblau\n")
    await done(box, "edit_file", path="a", old_text="blau", new_text="rot")
    assert (root / "a").read_bytes() == b"gr\xfcn\nrot\n"


async def test_edits_that_make_no_sense_are_refused(box: WorkspaceToolbox, root: Path) -> None:
    (root / "a").write_text("same\n")
    (root / "b").write_bytes(b"bin\0ary")
    assert "the same" in await refused(box, "edit_file", path="a", old_text="same", new_text="same")
    assert "must not be empty" in await refused(box, "edit_file", path="a", old_text="", new_text="x")
    assert "binary" in await refused(box, "edit_file", path="b", old_text="bin", new_text="x")
    assert "there is no `c`" in await refused(box, "edit_file", path="c", old_text="x", new_text="y")


async def test_an_edit_cannot_blow_a_file_up(box: WorkspaceToolbox, root: Path) -> None:
    """Ours: a million places times a million characters must be refused before they are put together."""
    (root / "a").write_text("x" * 1_000_000)
    said = await refused(box, "edit_file", path="a", old_text="x", new_text="y" * 1_000_000, replace_all=True)
    assert "more than" in said
    assert (root / "a").read_text() == "x" * 1_000_000


async def test_a_directory_is_listed_with_what_things_are(box: WorkspaceToolbox, root: Path) -> None:
    (root / "zoo").mkdir()
    (root / "b.txt").write_text("12345")
    (root / ".hidden").write_text("")
    (root / "link").symlink_to("/etc/passwd")
    listed = await done(box, "list_directory")
    assert listed == "zoo/\n.hidden (0 bytes)\nb.txt (5 bytes)\nlink -> /etc/passwd"
    assert await done(box, "list_directory", path="zoo") == "(the directory is empty)"
    assert "not a directory" in await refused(box, "list_directory", path="b.txt")


async def test_a_long_listing_is_cut(box: WorkspaceToolbox, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_LISTED", 3)
    for number in range(5):
        (root / f"{number}").write_text("")
    listed = (await done(box, "list_directory")).splitlines()
    assert listed[:3] == ["0 (0 bytes)", "1 (0 bytes)", "2 (0 bytes)"]
    assert listed[3].startswith("… at least 2 more")


async def test_names_that_are_no_text_do_not_break_a_listing(box: WorkspaceToolbox, root: Path) -> None:
    (root / "caf\udce9").write_text("")
    listed = await done(box, "list_directory")
    assert listed == "caf\ufffd (0 bytes)"
    assert listed.encode()


async def test_calls_at_the_same_time_do_not_lose_one_anothers_edits(box: WorkspaceToolbox, root: Path) -> None:
    (root / "a").write_text("".join(f"<{number}>\n" for number in range(20)))
    edits = [call("edit_file", path="a", old_text=f"<{number}>", new_text=f"[{number}]") for number in range(20)]
    results = await asyncio.gather(*(box.execute(edit) for edit in edits))
    assert not any(result.is_error for result in results), [text_of(result) for result in results]
    assert (root / "a").read_text() == "".join(f"[{number}]\n" for number in range(20))
