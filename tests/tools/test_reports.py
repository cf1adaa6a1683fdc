"""What calls report to whoever looks on: that they run, which lines they change, and how far the plan is."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import pytest

from tests.each import each
from tests.tools.calling import call, text_of
from tests.tools.test_guarded_tools import ALLOW, DENY, NOBODY_PRESENT, PLAN, Person, keeping
from tieline.model.events import Diff, Plan, PlanEntry
from tieline.model.inbox import ApprovalAnswer, ReviewAnswer
from tieline.model.ports import Host, Progress
from tieline.tools import files
from tieline.tools.diffs import MAX_SHOWN, MAX_WIDTH, excerpt
from tieline.tools.guarded_tools import TurnTools
from tieline.tools.todos import Status, TodoItem, plan_from_todos
from tieline.tools.toolbox import WorkspaceToolbox
from tieline.tools.workspace import MAX_FILE


async def reported(box: WorkspaceToolbox, name: str, /, **arguments: Any) -> list[Progress | Plan]:
    """What a call that works reports."""
    told: list[Progress | Plan] = []
    result = await box.execute(call(name, **arguments), told.append)
    assert not result.is_error, text_of(result)
    return told


async def heard(tools: TurnTools, person: Person, name: str, /, **arguments: Any) -> list[Progress | Plan]:
    """What a call under rules reports, whatever comes of it."""
    told: list[Progress | Plan] = []
    await tools.execute(call(name, **arguments), Host(person), told.append)
    return told


def numbered(*lines: int) -> str:
    return "".join(f"{line}\n" for line in lines)


# ── Changes ──────────────────────────────────────────────────────────────────────────────────────

LINES = numbered(*range(1, 21))

CHANGES = {
    "in the middle": (
        LINES,
        LINES.replace("10\n", "ten\n"),
        Diff(path="a", old=numbered(*range(7, 14)), new="7\n8\n9\nten\n11\n12\n13\n", line=7),
    ),
    "at the beginning": (LINES, f"0\n{LINES}", Diff(path="a", old="1\n2\n3\n", new="0\n1\n2\n3\n")),
    "at the end": (LINES, f"{LINES}21\n", Diff(path="a", old="18\n19\n20\n", new="18\n19\n20\n21\n", line=18)),
    "in two places": (
        LINES,
        LINES.replace("5\n6\n", "6\n", 1).replace("15\n", "", 1),
        Diff(path="a", old=numbered(*range(2, 19)), new=numbered(2, 3, 4, *range(6, 15), 16, 17, 18), line=2),
    ),
    "all of it": ("a\n", "b\n", Diff(path="a", old="a\n", new="b\n")),
    "to nothing": ("a\n", "", Diff(path="a", old="a\n", new="")),
    "one more of the same": (
        "a\n" * 9,
        "a\n" * 10,
        Diff(path="a", old="a\n" * 3, new="a\n" * 4, line=7),
    ),
    "the end of the last line": ("a\nb", "a\nb\n", Diff(path="a", old="a\nb", new="a\nb\n")),
    "a new file": (None, "a\nb\n", Diff(path="a", old=None, new="a\nb\n")),
    "a new file with nothing in it": (None, "", Diff(path="a", old=None, new="")),
    "none": (LINES, LINES, None),
    "of bytes that are no text": ("a\0b", "c", None),
}


@each(("old", "new", "diff"), CHANGES.values(), ids=CHANGES)
def test_a_change_is_shown_with_a_few_lines_around_it(old: str | None, new: str, diff: Diff | None) -> None:
    assert excerpt(None if old is None else old.encode(), new.encode(), "a") == diff


def test_a_large_change_is_shown_within_bounds() -> None:
    diff = excerpt(b"old line\n" * 100_000, b"new\n" * 400_000, "a")
    assert diff is not None
    assert diff.old is not None
    for text, lines in ((diff.old, 100_000), (diff.new, 400_000)):
        assert MAX_SHOWN - 100 < len(text) < MAX_SHOWN + 100
        *shown, last = text.splitlines()
        assert last == f"… {lines - len(shown)} more lines …"


def test_a_long_line_is_cut() -> None:
    diff = excerpt(b"short\n", b"x" * 1_000_000, "a")
    assert diff is not None
    assert diff.new == f"{'x' * MAX_WIDTH}… (1000000 characters)\n"


async def test_an_edit_reports_the_lines_it_changes(box: WorkspaceToolbox, root: Path) -> None:
    (root / "a").write_text(LINES)
    told = await reported(box, "edit_file", path="./a", old_text="10\n", new_text="ten\n")
    diff = Diff(path="a", old=numbered(*range(7, 14)), new="7\n8\n9\nten\n11\n12\n13\n", line=7)
    assert told == [Progress(diffs=(diff,))]


async def test_writing_reports_what_was_there_and_what_is(box: WorkspaceToolbox) -> None:
    assert await reported(box, "write_file", path="a", content="1\n") == [
        Progress(diffs=(Diff(path="a", old=None, new="1\n"),))
    ]
    assert await reported(box, "write_file", path="a", content="2\n") == [
        Progress(diffs=(Diff(path="a", old="1\n", new="2\n"),))
    ]
    assert await reported(box, "write_file", path="a", content="2\n") == []


@pytest.mark.parametrize("case", ["binary", "too large"])
async def test_what_cannot_be_compared_is_replaced_without_a_report(
    box: WorkspaceToolbox, root: Path, case: str
) -> None:
    (root / "a").write_bytes(b"\0" * (MAX_FILE + 1) if case == "too large" else b"\0")
    assert await reported(box, "write_file", path="a", content="1\n") == []
    assert (root / "a").read_text() == "1\n"


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("read_file", {"path": "a"}),
        ("list_directory", {}),
        ("search_files", {"pattern": "*"}),
        ("search_content", {"pattern": "x"}),
    ],
)
async def test_looking_reports_nothing(box: WorkspaceToolbox, root: Path, name: str, arguments: dict[str, str]) -> None:
    (root / "a").write_text("x")
    assert await reported(box, name, **arguments) == []


async def test_a_mistake_of_ours_takes_back_what_was_told(
    box: WorkspaceToolbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> str:
        raise ZeroDivisionError

    monkeypatch.setattr(files, "read", broken)
    told: list[Progress | Plan] = []
    await WorkspaceToolbox(box.workspace, environment={}).execute(call("read_file", path="a"), told.append)
    assert told == [Progress()]


# ── Running ──────────────────────────────────────────────────────────────────────────────────────


async def test_a_call_is_reported_as_running_when_it_is_allowed_and_not_before(root: Path) -> None:
    told: list[Progress | Plan] = []

    def nothing_yet() -> None:
        assert told == []

    tools = keeping(root).open("agent")
    person = Person(ALLOW, meanwhile=nothing_yet)
    await tools.execute(call("write_file", path="a", content="1\n"), Host(person), told.append)
    assert told == [Progress(), Progress(diffs=(Diff(path="a", old=None, new="1\n"),))]


@pytest.mark.parametrize(
    ("answer", "shown"),
    [
        (DENY, "Denied: Too big."),
        (ApprovalAnswer(option="deny"), "Denied."),
        (ApprovalAnswer(option="deny", reason="no"), "Denied: no."),
        (
            ApprovalAnswer(reason="Nobody answered within 120 seconds."),
            "Not allowed. Nobody answered within 120 seconds.",
        ),
    ],
)
async def test_an_edit_that_was_not_allowed_still_shows_its_diff_in_words_for_a_person(
    root: Path, answer: ApprovalAnswer, shown: str
) -> None:
    (root / "a").write_text("old\n")
    tools = keeping(root).open("agent")
    diff = Diff(path="a", old="old\n", new="new\n")
    expected = [Progress(output=shown, diffs=(diff,))]
    assert await heard(tools, Person(answer), "write_file", path="a", content="new\n") == expected
    assert await heard(tools, Person(answer), "edit_file", path="a", old_text="old", new_text="new") == expected
    assert (root / "a").read_text() == "old\n"


async def test_what_a_mode_does_not_have_is_shown_without_the_advice_for_the_model(root: Path) -> None:
    shown = await heard(keeping(root).open("plan"), NOBODY_PRESENT, "write_file", path="a", content="1")
    assert shown == [Progress(output="write_file is not available in plan mode.")]


@pytest.mark.parametrize(
    ("command", "code", "is_failed"), [("true", 0, False), ("exit 3", 3, True), ("kill -KILL $$", None, True)]
)
async def test_a_command_reports_its_exit_code_and_whether_it_failed(
    box: WorkspaceToolbox, command: str, code: int | None, is_failed: bool
) -> None:
    *_, last = await reported(box, "run_terminal", command=command)
    assert isinstance(last, Progress)
    assert (last.exit_code, last.is_failed) == (code, is_failed)


async def test_a_command_that_runs_out_of_time_has_no_exit_code(box: WorkspaceToolbox) -> None:
    told: list[Progress | Plan] = []
    result = await box.execute(call("run_terminal", command="trap 'exit 0' TERM; sleep 60", timeout=1), told.append)
    assert result.is_error
    assert isinstance(told[-1], Progress)
    assert (told[-1].exit_code, told[-1].is_failed) == (None, True)


# ── Plans ────────────────────────────────────────────────────────────────────────────────────────


def steps(told: Sequence[Progress | Plan]) -> list[tuple[str, str]]:
    """The steps of the only plan that was told."""
    (plan,) = (one for one in told if isinstance(one, Plan))
    return [(entry.content, entry.status) for entry in plan.entries]


def test_what_was_dropped_from_a_list_is_a_step_that_is_left_out() -> None:
    plan = plan_from_todos([TodoItem(id=status, content="x", status=status) for status in get_args(Status)])
    assert [entry.status for entry in plan.entries] == ["pending", "in_progress", "completed", "failed"]


async def test_the_list_of_things_to_do_is_the_plan(root: Path) -> None:
    tools = keeping(root).open("agent")
    todos = [{"id": "a", "content": "look", "status": "in_progress"}, {"id": "b", "content": "write"}]
    told = await heard(tools, NOBODY_PRESENT, "todo_write", todos=todos)
    assert steps(told) == [("look", "in_progress"), ("write", "pending")]
    assert told[-1] == Progress(output=""), "it is seen in the plan"
    done = [{"id": "a", "content": "look", "status": "completed"}]
    assert steps(await heard(tools, NOBODY_PRESENT, "todo_write", todos=done, merge=True))[0] == ("look", "completed")
    assert steps(await heard(tools, NOBODY_PRESENT, "todo_write", todos=[])) == []


async def test_reading_the_list_or_writing_nonsense_changes_no_plan(root: Path) -> None:
    tools = keeping(root).open("agent")
    assert await heard(tools, NOBODY_PRESENT, "todo_read") == []
    assert await heard(tools, NOBODY_PRESENT, "todo_write", todos=[{"id": "a", "content": "x"}] * 2) == []


async def test_the_steps_of_an_approved_plan_become_the_list(root: Path) -> None:
    tools = keeping(root).open("plan")
    assert steps(await heard(tools, Person(ReviewAnswer(approved=True)), "create_plan", **PLAN)) == [
        ("Write it.", "pending")
    ]
    done = [{"id": "1", "content": "Write it.", "status": "completed"}, {"id": "2", "content": "Read it."}]
    assert steps(await heard(tools, NOBODY_PRESENT, "todo_write", todos=done, merge=True)) == [
        ("Write it.", "completed"),
        ("Read it.", "pending"),
    ]


async def test_a_plan_that_is_rejected_or_has_no_steps_is_not_told(root: Path) -> None:
    tools = keeping(root).open("plan")
    rejected = await heard(tools, Person(ReviewAnswer(approved=False)), "create_plan", **PLAN)
    assert rejected == [Progress(output="The plan was not approved.")]
    assert "empty" in text_of(await tools.execute(call("todo_read"), Host(NOBODY_PRESENT)))
    assert await heard(tools, Person(ReviewAnswer(approved=True)), "create_plan", title="x", plan="y") == []


def test_a_plan_has_its_steps_in_their_order() -> None:
    plan = plan_from_todos([TodoItem(id="a", content="one"), TodoItem(id="b", content="two")])
    assert plan.entries == (PlanEntry(content="one"), PlanEntry(content="two"))
