"""What a user sees of an answer, at a fixed width and without colours."""

import io

import pytest
from rich.console import Console
from rich.theme import Theme

from tests.each import each
from tieline.cli.chat import cards, markdown
from tieline.cli.chat.call_title import parse_title
from tieline.cli.chat.safe_text import output, prose
from tieline.cli.chat.view import AnswerView
from tieline.model.content import Part, Text, Thinking, ToolCall
from tieline.model.events import Activity, Diff, Failed, Finished, Plan, PlanEntry, StopReason, Usage
from tieline.model.inbox import ALLOW, DENY, Approval, InboxItem, Option, PlanReview, Question
from tieline.model.session import TimedActivity, Turn

END = Finished(reason=StopReason.END_TURN)


class Screen:
    """A console that keeps what is printed."""

    def __init__(self, width: int = 60, *, is_live: bool = False) -> None:
        self._file = io.StringIO()
        self.console = Console(
            file=self._file,
            width=width,
            height=20,
            theme=Theme(markdown.STYLES),
            force_terminal=is_live,
            color_system=None,
            highlight=False,
        )
        self.view = AnswerView(self.console, is_live=is_live, clock=lambda: 100.0)

    @property
    def raw(self) -> str:
        return self._file.getvalue()

    @property
    def lines(self) -> list[str]:
        return self.raw.rstrip("\n").split("\n")


def answer(*parts: Part, activities: tuple[TimedActivity, ...] = (), ending: Finished | Failed | None = END) -> Turn:
    return Turn(
        id="A",
        parent="U",
        role="assistant",
        at=1.0,
        model="demo/scripted",
        parts=parts,
        activities=activities,
        ending=ending,
    )


def ran(title: str, at: int = 0, *, status: str = "completed", seconds: float = 0.0, **more: object) -> TimedActivity:
    activity = Activity(id=title, kind=str(more.pop("kind", "execute")), title=title, status=status, **more)  # type: ignore[arg-type] # fields by name
    return TimedActivity(activity=activity, at=at, began=50.0, ended=50.0 + seconds)


def shown(turn: Turn, width: int = 60) -> list[str]:
    screen = Screen(width)
    screen.view.begin()
    screen.view.end(turn)
    return screen.lines


def test_an_answer_has_thinking_folded_tools_in_order_and_a_footer() -> None:
    turn = answer(
        Thinking(text="secret thoughts"),
        Text(text="Let me *look*."),
        Text(text="# Done\n\n- one\n- two"),
        activities=(
            ran("read_file README.md", 2, kind="read", output="not shown"),
            ran("run_terminal ls", 2, seconds=2.0, output="a\nb\n(exit code: 0)", exit_code=0),
        ),
    )
    assert shown(turn) == [
        "  ✻ Thought",
        "",
        "  Let me look.",
        "",
        "  ✓ Read README.md",
        "",
        "  ✓ Run ls  2.0 s",
        "    a",
        "    b",
        "",
        "  Done",
        "",
        "   • one",
        "   • two",
        "",
        "  demo/scripted",
    ]


def test_a_change_is_shown_line_by_line() -> None:
    diff = Diff(path="a.py", old="x = 1\ny = 2\n", new="x = 1\ny = 3\n")
    turn = answer(activities=(ran("edit_file a.py", kind="edit", output="Edited a.py.", diffs=(diff,)),))
    assert shown(turn)[:5] == ["  ✓ Edit a.py", "    a.py  +1 -1", "     x = 1", "    -y = 2", "    +y = 3"]


def test_a_failure_says_why_and_long_output_only_its_end() -> None:
    text = "".join(f"line {number}\n" for number in range(20))
    turn = answer(activities=(ran("run_terminal make", status="failed", output=text, exit_code=2),))
    lines = shown(turn)
    assert lines[0] == "  ✗ Run make  exit 2"
    assert lines[1:3] == ["    … 12 more lines", "    line 12"]
    assert lines[9] == "    line 19"


@each(
    ("ending", "line"),
    [
        (Failed(kind="rate_limited", message="Too many.", retry_after=20), "✗ Too many. Try again in 20 s."),
        (Finished(reason=StopReason.MAX_TOKENS), "■ Cut off: the answer reached its length limit."),
        (Finished(reason=StopReason.CANCELLED), "■ Stopped."),
    ],
)
def test_an_unusual_ending_is_explained(ending: Finished | Failed, line: str) -> None:
    assert f"  {line}" in shown(answer(Text(text="x"), ending=ending))


def test_a_call_that_was_running_when_the_answer_ended_is_shown_as_stopped() -> None:
    lines = shown(answer(activities=(ran("run_terminal sleep 9", status="in_progress"),)))
    assert lines[0] == "  ■ Run sleep 9  stopped"


def test_a_plan_shows_the_state_of_its_steps() -> None:
    steps = (PlanEntry(content="look", status="completed"), PlanEntry(content="act", status="in_progress"))
    turn = answer(Text(text="x"))
    lines = shown(Turn(id="A", parent="U", role="assistant", at=1.0, parts=turn.parts, plan=Plan(entries=steps)))
    assert lines[2:5] == ["  Plan  1 of 2", "    ✓ look", "    ▸ act"]


def test_tokens_and_time_are_in_the_footer() -> None:
    assert cards.footer("m", Usage(input=1200, output=30), 3.25).plain == "m · 1.2k in, 30 out · 3.2 s"


def test_no_line_is_wider_than_the_terminal_or_ends_with_spaces() -> None:
    text = "A long paragraph with many words. " * 5 + "\n\n```python\nprint('a long line of code, longer than 30')\n```"
    call = ran("run_terminal echo a long command that does not fit", output="x" * 100)
    for width in (12, 30, 200):
        lines = shown(answer(Text(text=text), activities=(call,)), width)
        assert max(map(len, lines)) <= min(width, 102)
        assert not [line for line in lines if line.endswith(" ")]


# ── While it is written ──────────────────────────────────────────────────────────────────────────


def test_blocks_are_printed_once_when_they_are_complete() -> None:
    screen = Screen()
    text = "# One\n\nFirst.\n\n- a\n- b\n\nLast\nwords"
    screen.view.begin()
    for end in range(len(text) + 1):
        screen.view.show(answer(Text(text=text[:end]), ending=None), "")
    printed = screen.lines
    assert printed == ["  One", "", "  First.", "", "   • a", "   • b"], "the last paragraph is not complete"
    screen.view.end(answer(Text(text=text)))
    assert screen.lines == [*printed, "", "  Last words", "", "  demo/scripted"]


def test_the_live_region_shows_what_is_unfinished_and_disappears() -> None:
    screen = Screen(is_live=True)
    screen.view.begin()
    running = ran("run_terminal make", status="in_progress", output="compiling\n")
    screen.view.show(answer(activities=(running,), ending=None), "demo/scripted · Ctrl-C stops")
    assert "Run make" in screen.raw
    assert "compiling" in screen.raw
    assert "Ctrl-C stops" in screen.raw
    before = len(screen.raw)
    screen.view.pause()
    assert "\x1b[2K" in screen.raw[before:], "the region is erased"


def test_the_live_region_is_never_higher_than_the_screen() -> None:
    screen = Screen(is_live=True)
    screen.view.begin()
    code = "```\n" + "".join(f"line {number}\n" for number in range(100))
    screen.view.show(answer(Text(text=code), ending=None), "status")
    rows = screen.raw.split("\n")
    assert len(rows) <= 20
    assert "line 99" in screen.raw
    assert "line 50" not in screen.raw


def test_unfinished_text_stays_on_the_screen_while_a_person_is_asked() -> None:
    screen = Screen()
    screen.view.begin()
    screen.view.flush(answer(Text(text="Let me plan"), ending=None))
    screen.view.print(cards.item_card(Question(message="Sure?")))
    screen.view.end(answer(Text(text="Let me plan it. Done.")))
    assert screen.lines[:5] == ["  Let me plan", "", "  ? Sure?", "", "  it. Done."]


def test_text_that_grows_after_a_plan_was_reviewed_is_not_lost() -> None:
    screen = Screen()
    reviewed = ran("Tidy", 1, kind="plan", output="Approved.")
    screen.view.begin()
    screen.view.show(answer(Text(text="Let me plan."), ending=None), "")
    screen.view.show(answer(Text(text="Let me plan."), activities=(reviewed,), ending=None), "")
    screen.view.show(answer(Text(text="Let me plan. It is approved."), activities=(reviewed,), ending=None), "")
    screen.view.end(answer(Text(text="Let me plan. It is approved."), activities=(reviewed,)))
    assert screen.lines == ["  Let me plan. It is approved.", "", "  ✓ Plan Tidy  Approved.", "", "  demo/scripted"]


def test_a_text_that_is_shorter_after_a_restart_prints_nothing_twice() -> None:
    screen = Screen()
    screen.view.begin()
    screen.view.show(answer(Text(text="One.\n\nTwo.\n\nThr"), ending=None), "")
    screen.view.end(answer(Text(text="One.\n\n"), ending=Finished(reason=StopReason.CANCELLED)))
    assert screen.raw.count("One.") == 1
    assert "Stopped." in screen.raw


# ── Hostile text ─────────────────────────────────────────────────────────────────────────────────

EVIL = "\x1b[2J\x1b]0;title\x07\x9b31m\u202etxt\u200b\x00\x08"


def evil_turns() -> list[Turn]:
    return [
        answer(Text(text=f"{EVIL} [bold]no markup[/bold] &#x202e; `{EVIL}` [{EVIL}](https://x.example/{EVIL})")),
        answer(Text(text=f"```python\n{EVIL}\n```\n\n<b>{EVIL}</b>\n\n| {EVIL} | b |\n|---|---|\n| c | {EVIL} |")),
        answer(ToolCall(id="c", name=f"tool{EVIL}", arguments=EVIL), Thinking(text=EVIL)),
        answer(activities=(ran(f"run_terminal {EVIL}", output=EVIL, status="failed"),)),
        answer(activities=(ran("edit_file a", diffs=(Diff(path=EVIL, old=EVIL, new=f"{EVIL}2"),)),)),
        answer(ending=Failed(kind="upstream", message=EVIL)),
        Turn(id="A", parent=None, role="assistant", at=1.0, model=EVIL, plan=Plan(entries=(PlanEntry(content=EVIL),))),
    ]


@pytest.mark.parametrize("turn", evil_turns())
def test_nothing_in_an_answer_controls_the_terminal(turn: Turn) -> None:
    screen = Screen()
    screen.view.begin()
    screen.view.show(turn, "")
    screen.view.end(turn)
    screen.view.said(turn)
    assert not set(screen.raw) & set("\x1b\x9b\x07\x08\x00\u202e\u200b")


def test_markup_of_the_library_is_text() -> None:
    assert shown(answer(Text(text="[red]x[/red] :smile:")))[0] == "  [red]x[/red] :smile:"


def test_html_is_shown_and_links_say_where_they_lead() -> None:
    lines = shown(
        answer(Text(text="Vec<String> [safe](https://evil.example) https://a.example ![i](https://p.example)"))
    )
    assert " ".join(" ".join(lines[:2]).split()) == (
        "Vec<String> safe (https://evil.example) https://a.example i (https://p.example)"
    )


def test_ordinary_typography_is_left_alone() -> None:
    assert prose("ein\u00a0Wort ❤\ufe0f „so“ 日本") == "ein Wort ❤ „so“ 日本"


def test_overwritten_lines_of_a_program_show_their_last_version() -> None:
    assert output("\x1b[32m10%\r50%\r100%\x1b[0m\r\ndone\n") == "100%\ndone\n"


@each(
    ("title", "parsed"),
    [
        ("run_terminal ls -la", ("Run", "ls -la")),
        ('grep {"pattern": "x", "path": "src"}', ("grep", "x")),
        ('todo_write {"todos": []}', ("Update the todo list", "")),
        ("my_tool something", ("my_tool", "something")),
        ("Reading the docs", ("Reading the docs", "")),
        ('mcp.x {"a": 1}', ("mcp.x", '{"a": 1}')),
    ],
)
def test_the_title_of_a_call_is_short(title: str, parsed: tuple[str, str]) -> None:
    assert parse_title(title) == parsed


# ── Inbox items ──────────────────────────────────────────────────────────────────────────────────


def item(content: InboxItem) -> list[str]:
    screen = Screen(80)
    screen.console.print(cards.item_card(content))
    return screen.lines


def test_a_command_is_shown_completely_before_it_is_allowed() -> None:
    always = Option(id="always", kind="allow_always", description="Always allow running “make”")
    command = "make \\\n  all"
    options = (ALLOW, always, DENY)
    assert item(
        Approval(title="Run make …", command=command, detail="Runs in /w", risk="It deletes.", options=options)
    ) == [
        "? Run this command?",
        "  ! It deletes.",
        "  $ make \\",
        "  >   all",
        "  Runs in /w",
        "  a: Always allow running “make”",
    ]


def test_a_call_without_a_command_or_change_shows_its_arguments() -> None:
    lines = item(Approval(title="Use it", input='{"x": 1}'))
    assert lines[:3] == ["? Use it", "  the unchanged arguments of the call:", '  | {"x": 1}']


def test_a_plan_to_review_is_rendered() -> None:
    lines = item(PlanReview(title="Tidy", plan="# Steps\n\n1. **look**", steps=(PlanEntry(content="look"),)))
    assert lines == ["? Plan: Tidy", "", "  Steps", "", "   1 look", "", "  ○ look"]


def test_a_title_cannot_look_like_another_line_of_the_card() -> None:
    assert item(Approval(title="Edit a\n  $ ls", diff="+x"))[:2] == ["? Edit a $ ls", "  +x"]
    assert item(Question(message="One\n? Two")) == ["? One", "  ? Two"]


def test_a_page_to_visit_is_named() -> None:
    assert item(Question(message="Log in", url="https://x.example/\u202e")) == [
        "? Log in",
        "  open https://x.example/\\u{202e}",
    ]
