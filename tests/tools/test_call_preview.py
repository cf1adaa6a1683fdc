"""What a person is shown before a call is allowed."""

import re
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tools.calling import call, done
from tieline.model.content import ToolCall
from tieline.tools.diffs import unified_diff
from tieline.tools.invisible_text import visible
from tieline.tools.toolbox import WorkspaceToolbox


async def test_a_command_is_shown_as_it_will_run(box: WorkspaceToolbox, root: Path) -> None:
    (root / "sub").mkdir()
    (root / "there").symlink_to("sub")
    ask = await box.preview(call("run_terminal", command="make  all\n  && echo done", cwd="there", timeout=9))
    assert (ask.kind, ask.tool, ask.call_id) == ("execute", "run_terminal", "call_1")
    assert ask.command == "make  all\n  && echo done"
    assert ask.title == "Run make all && echo done"
    assert (ask.path, ask.detail) == ("sub", "Runs in sub for at most 9 seconds")
    ask = await box.preview(call("run_terminal", command="x" * 1000))
    assert len(ask.title) < 130
    assert ask.command == "x" * 1000
    assert ask.detail.startswith(f"Runs in {root} ")


async def test_a_new_file_is_shown_whole(box: WorkspaceToolbox, root: Path) -> None:
    ask = await box.preview(call("write_file", path="docs/new.md", content="one\ntwo\n"))
    assert (ask.kind, ask.title, ask.path) == ("edit", "Create docs/new.md", "docs/new.md")
    assert ask.diff == "--- /dev/null\n+++ b/docs/new.md\n@@ -0,0 +1,2 @@\n+one\n+two\n"
    assert not (root / "docs").exists()


async def test_a_replaced_file_is_shown_as_what_changes(box: WorkspaceToolbox, root: Path) -> None:
    (root / "a").write_text("one\ntwo\nthree\n")
    (root / "link").symlink_to("a")
    ask = await box.preview(call("write_file", path="link", content="one\n2\nthree"))
    assert (ask.title, ask.path) == ("Replace a", "a")
    assert ask.diff == (
        "--- a/a\n+++ b/a\n@@ -1,3 +1,3 @@\n one\n-two\n-three\n+2\n+three\n\\ No newline at end of file\n"
    )
    same = await box.preview(call("write_file", path="a", content="one\ntwo\nthree\n"))
    assert (same.diff, same.detail) == ("", "The content stays the same")
    (root / "b").write_bytes(b"bin\0ary")
    assert "binary" in (await box.preview(call("write_file", path="b", content="x"))).detail


async def test_an_edit_is_shown_as_what_changes_and_then_does_that(box: WorkspaceToolbox, root: Path) -> None:
    before = "".join(f"{number}\n" for number in range(1, 101))
    (root / "a").write_text(before)
    edit = call("edit_file", path="a", old_text="50\n", new_text="fifty\nand more\n")
    ask = await box.preview(edit)
    assert ask.title == "Edit a"
    assert ask.diff == ("--- a/a\n+++ b/a\n@@ -47,7 +47,8 @@\n 47\n 48\n 49\n-50\n+fifty\n+and more\n 51\n 52\n 53\n")
    assert (root / "a").read_text() == before
    await box.execute(edit)
    assert unified_diff(before, (root / "a").read_text(), "a") == ask.diff


@pytest.mark.parametrize(
    ("made", "problem"),
    [
        (call("edit_file", path="a", old_text="nowhere", new_text="x"), "does not occur"),
        (call("edit_file", path="gone", old_text="a", new_text="x"), "there is no `gone`"),
        (call("write_file", path="../x", content=""), "outside the workspace"),
        (call("write_file", path="."), "`content` is missing"),
        (call("run_terminal", command="ls", cwd=".."), "outside the workspace"),
        (ToolCall(id="call_1", name="run_terminal", arguments="{"), "not valid JSON"),
    ],
)
async def test_a_call_that_cannot_work_says_why_before_anybody_is_asked(
    box: WorkspaceToolbox, root: Path, made: ToolCall, problem: str
) -> None:
    (root / "a").write_text("something\n")
    ask = await box.preview(made)
    assert problem in (ask.problem or "")


async def test_the_other_tools_are_shown_too(box: WorkspaceToolbox, root: Path) -> None:
    (root / "src").mkdir()
    said = {
        "Read src/a": call("read_file", path="src/../src/a"),
        "List src": call("list_directory", path="src"),
        "Find files in the workspace folder": call("search_files", pattern="*"),
        "Search src": call("search_content", pattern="x", path="src"),
        "todo_read": call("todo_read"),
        "tool_of_someone_else": call("tool_of_someone_else", anything=1),
    }
    asks = {title: await box.preview(made) for title, made in said.items()}
    assert {title: ask.title for title, ask in asks.items()} == {title: title for title in said}
    assert [ask.problem for ask in asks.values()] == [None] * 6
    assert asks["tool_of_someone_else"].detail == '{"anything":1}'


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain ü 漢 😀\n\ttext", "plain ü 漢 😀\n\ttext"),
        ("ls \x1b[2K\rrm", "ls \\u{1b}[2K\\u{d}rm"),
        ("a\u202egpj.exe", "a\\u{202e}gpj.exe"),
        ("rm\u200b x\u2066y\ufeff", "rm\\u{200b} x\\u{2066}y\\u{feff}"),
        ("a\U000e0041", "a\\u{e0041}"),
        ("a\x00\x7f\x9b", "a\\u{0}\\u{7f}\\u{9b}"),
        ("line\u2028end", "line\\u{2028}end"),
    ],
)
async def test_nothing_hides_from_the_person_who_decides(box: WorkspaceToolbox, text: str, shown: str) -> None:
    assert visible(text) == shown
    ask = await box.preview(call("write_file", path="a", content=text))
    assert shown.splitlines()[0] in ask.diff


def applied(old: str, diff: str) -> str:
    """A text in which every line ends, after a unified diff, as any tool would apply it."""
    source = old.split("\n")[:-1]
    out: list[str] = []
    at = 0
    for line in diff.split("\n")[2:-1]:
        if header := re.fullmatch(r"@@ -(\d+)(?:,(\d+))? \+\d+(?:,\d+)? @@", line):
            start = int(header[1]) - (0 if header[2] == "0" else 1)
            out += source[at:start]
            at = start
        elif line[0] == "+":
            out.append(line[1:])
        else:
            assert source[at] == line[1:]
            out += [line[1:]] * (line[0] == " ")
            at += 1
    return "".join(f"{line}\n" for line in [*out, *source[at:]])


TEXTS = st.lists(st.sampled_from(["a\n", "b\n", "c\n", "\n", "x\x0by\n"]), max_size=25).map("".join)


@given(TEXTS, TEXTS)
def test_a_diff_applied_to_the_old_text_gives_the_new_one(old: str, new: str) -> None:
    diff = unified_diff(old, new, "a")
    assert (applied(old, diff) if diff else old) == new
    assert bool(diff) is (old != new)


def test_a_diff_of_two_large_texts_is_complete_and_takes_bounded_time() -> None:
    old = "".join(f"{number % 7}\n" for number in range(200_000))
    new = "".join(f"{number % 5}\n" for number in range(200_000))
    before = time.process_time()
    diff = unified_diff(old, new, "a")
    assert time.process_time() - before < 5
    assert applied(old, diff) == new
    assert "x" * 1_000_000 in unified_diff("", "x" * 1_000_000, "a")


async def test_what_was_described_is_what_happens(box: WorkspaceToolbox, root: Path) -> None:
    await done(box, "write_file", path="a", content="x\n")
    ask = await box.preview(call("write_file", path="a", content="y\n"))
    assert (root / "a").read_text() == "x\n"
    await done(box, "write_file", path="a", content="y\n")
    assert applied("x\n", ask.diff) == (root / "a").read_text()
