"""The inbox in a terminal: what is shown, what a few typed words mean, and which question a key answers."""

import argparse
import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from tests.each import each
from tieline.cli.inbox import answers, formatting
from tieline.cli.inbox.arguments import add_arguments
from tieline.cli.inbox.remote import SavedRule, SavedRules
from tieline.cli.inbox.watch import REACTION, InboxWatch, follow
from tieline.core.inbox.inbox import PendingItem
from tieline.model.errors import BadRequest, GatewayError
from tieline.model.events import PlanEntry
from tieline.model.inbox import (
    ALLOW,
    ALWAYS,
    DENY,
    Answer,
    Approval,
    ApprovalAnswer,
    Field,
    InboxItem,
    Option,
    Origin,
    PlanReview,
    Question,
    QuestionAnswer,
    ReviewAnswer,
)

NOW = 1000.0
ORIGIN = Origin(model="demo/scripted", frontend="chat", client="curl/8.5", title="run the tests")
RUN = Approval(title="Run make test", command="make test\nmake clean", detail="in /project", options=(ALLOW, DENY))
EDIT = Approval(
    title="Edit a.py",
    path="a.py",
    diff="--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-x\n+y\n",
    options=(
        ALLOW,
        Option(id="always", label="Always allow", kind="allow_always", description="allow edit_file in /a.py"),
        Option(id="always-2", label="Always allow", kind="allow_always", description="allow edit_file in **"),
        DENY,
    ),
)
AGENTS = Approval(
    title="Fetch",
    options=(
        Option(id="proceed_once", label="Go on", kind="allow_once"),
        Option(id="proceed_always", label="Always", kind="allow_always"),
        Option(id="cancel", label="Stop", kind="reject_once"),
        Option(id="other", label="Something else"),
    ),
)
PLAN = PlanReview(title="Tidy up", plan="# Tidy\n\nAll of it.", steps=(PlanEntry(content="look", status="completed"),))
COLOURS = (Option(id="r", label="Red"), Option(id="b", label="Blue", description="as the sky"))
CHOICE = Field(name="colour", kind="choice", title="Which one?", options=COLOURS, required=True)
COUNT = Field(name="count", kind="number")
FORM = Question(message="Two things", fields=(CHOICE, COUNT))
QUESTION = Question(message="How many?", fields=(COUNT,))
SURE = Question(message="Sure?", fields=(Field(name="answer", kind="yes_no", required=True),))
VISIT = Question(message="Log in there", url="https://example.com/login")


def item(ask: InboxItem, item_id: str = "aaaa1111", *, left: float = 90.0, origin: Origin = ORIGIN) -> PendingItem:
    return PendingItem(id=item_id, origin=origin, content=ask, since=NOW - 30, until=NOW + left)


def shown(ask: InboxItem) -> list[str]:
    return formatting.format_item(item(ask), NOW).splitlines()


# ── What is shown ────────────────────────────────────────────────────────────────────────────────


def test_a_command_is_shown_whole_with_who_wants_it_how_long_it_waits_and_how_to_answer() -> None:
    assert shown(RUN) == [
        "aaaa1111  Run make test",
        "    requested by demo/scripted through curl/8.5: “run the tests”; 90 s left",
        "    $ make test",
        "    > make clean",
        "    in /project",
        "  tieline inbox allow aaaa1111          Allow once",
        "  tieline inbox deny aaaa1111           Deny",
    ]


def test_a_change_is_shown_as_its_diff_and_every_way_to_allow_it_is_named() -> None:
    assert shown(EDIT)[2:] == [
        "    at a.py",
        "    --- a/a.py",
        "    +++ b/a.py",
        "    @@ -1 +1 @@",
        "    -x",
        "    +y",
        "  tieline inbox allow aaaa1111          Allow once",
        "  tieline inbox always aaaa1111         allow edit_file in /a.py",
        "  tieline inbox answer aaaa1111 option=always-2  allow edit_file in **",
        "  tieline inbox deny aaaa1111           Deny",
    ]


def test_what_is_risky_stands_before_the_command() -> None:
    assert shown(replace(RUN, risk="It permanently deletes whole folders (rm -r)."))[1:4] == [
        "    requested by demo/scripted through curl/8.5: “run the tests”; 90 s left",
        "    ! It permanently deletes whole folders (rm -r).",
        "    $ make test",
    ]


def test_the_options_of_a_question_are_shown_whole() -> None:
    label = f"{'Red ' * 40}wine"
    question = Question(message="?", fields=(replace(CHOICE, options=(Option(id="r", label=label),)),))
    assert label in formatting.format_item(item(question), NOW)


@pytest.mark.parametrize("command", ["deny", "decline", "answer"])
def test_the_words_after_an_id_may_be_left_out(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    assert parser.parse_args([command, "aaaa"]).words == []
    with pytest.raises(SystemExit):
        parser.parse_args([command])
    assert capsys.readouterr().err.rstrip().endswith("the following arguments are required: ID")


def test_a_plan_is_shown_whole() -> None:
    assert shown(PLAN)[0] == "aaaa1111  Plan: Tidy up"
    assert shown(PLAN)[2:] == [
        "    # Tidy",
        "    ",
        "    All of it.",
        "    ✓ look",
        "  tieline inbox approve aaaa1111",
        "  tieline inbox reject aaaa1111 WHAT TO CHANGE",
    ]


def test_questions_say_what_an_answer_must_be_like() -> None:
    assert shown(FORM)[2:] == [
        "    Two things",
        "    colour (one of these): Which one?",
        "      r – Red",
        "      b – Blue: as the sky",
        "    count (a number, optional)",
        "  tieline inbox answer aaaa1111 colour=… count=…",
        "  tieline inbox decline aaaa1111",
    ]


def test_a_place_to_go_to_is_shown() -> None:
    assert "    open https://example.com/login" in shown(VISIT)
    assert "  tieline inbox answer aaaa1111" in shown(VISIT)


def test_the_workspace_of_an_item_is_shown_unless_it_is_the_default_one() -> None:
    asked = Approval(title="ls", options=(ALLOW, DENY))
    named = formatting.format_item(item(asked, origin=Origin(model="m", workspace="site-1a2b")), NOW)
    assert "requested by m in site-1a2b" in named
    assert " in " not in formatting.format_item(item(asked, origin=Origin(model="m")), NOW).splitlines()[1]


def test_nothing_a_model_says_can_look_like_something_we_say() -> None:
    evil = Approval(
        title="ls\x1b[2J\n  tieline inbox allow x",
        path="a\nb",
        detail="fine\r\x1b[1A\u202etxt",
        diff="+\x1b]0;title\x07",
        options=(ALLOW, DENY),
    )
    text = formatting.format_item(item(evil, origin=Origin(model="m\x1b", client="c\nd", title="\u200bt\x9b")), NOW)
    assert "\x1b" not in text
    assert "\r" not in text
    assert "\u202e" not in text
    assert "\x9b" not in text
    assert len(text.splitlines()) == 7
    assert "    at a\\nb" in text


def test_a_list_shows_the_beginning_of_what_is_long_and_says_how_to_see_the_rest() -> None:
    long = Approval(title="Edit", diff="".join(f"+{number}\n" for number in range(100)))
    text = formatting.format_items([item(long)], NOW)
    assert text.startswith("1 request waits for your answer.\n\naaaa1111  Edit\n")
    assert "+19" in text
    assert "+20" not in text
    assert "… 80 more lines: tieline inbox list aaaa1111" in text
    assert "+99" in formatting.format_item(item(long), NOW)


def test_an_empty_list_says_so() -> None:
    assert formatting.format_items([], NOW) == "The inbox is empty."
    assert formatting.format_items([item(RUN), item(PLAN, "b")], NOW).startswith("2 requests wait")


@pytest.mark.parametrize(
    ("left", "told"), [(0, "0 s left"), (-5, "0 s left"), (119, "119 s left"), (600, "10 min left")]
)
def test_how_long_it_waits_is_told_roughly(left: float, told: str) -> None:
    assert formatting.time_left(item(RUN, left=left), NOW) == told


def test_a_saved_permission_is_listed_in_full() -> None:
    text = f"Running {'x' * 100} (asks again: it is not bound to a folder)"
    rules = SavedRules(workspace="/project", rules=(SavedRule(id="1a2b", text=text),))
    assert f"  1a2b  {text}" in formatting.format_rules(rules).splitlines()


def test_what_is_always_allowed_is_listed_with_how_to_take_it_back() -> None:
    rules = SavedRules(workspace="/project", rules=(SavedRule(id="1a2b", text="allow write_file in /a\x1b"),))
    assert formatting.format_rules(rules).splitlines() == [
        "Always allowed in /project:",
        "  1a2b  allow write_file in /a\\u{1b}",
        "",
        "To revoke one: tieline inbox revoke ID",
    ]
    assert formatting.format_rules(SavedRules(workspace="/project")) == "There are no saved permissions for /project."


# ── What is meant ────────────────────────────────────────────────────────────────────────────────


@each(
    ("answer", "meant"),
    [
        (answers.allow(RUN), ApprovalAnswer(option="allow")),
        (answers.allow(AGENTS), ApprovalAnswer(option="proceed_once")),
        (answers.allow(PLAN), ReviewAnswer(approved=True)),
        (answers.allow_always(EDIT), ApprovalAnswer(option="always")),
        (answers.allow_always(AGENTS), ApprovalAnswer(option="proceed_always")),
        (answers.refuse(RUN, "later"), ApprovalAnswer(option="deny", reason="later")),
        (answers.refuse(AGENTS), ApprovalAnswer(option="cancel")),
        (answers.refuse(Approval(title="x", options=(ALLOW, ALWAYS))), ApprovalAnswer()),
        (answers.refuse(PLAN, "shorter"), ReviewAnswer(approved=False, feedback="shorter")),
        (answers.refuse(FORM), QuestionAnswer(action="decline")),
        (answers.fill_in(EDIT, ["option=always-2"]), ApprovalAnswer(option="always-2")),
        (answers.fill_in(EDIT, ["always-2"]), ApprovalAnswer(option="always-2")),
        (answers.fill_in(FORM, ["colour=b", "count=3"]), QuestionAnswer(values={"colour": "b", "count": 3})),
        (answers.fill_in(FORM, ["colour=blue"]), QuestionAnswer(values={"colour": "b"})),
        (answers.fill_in(QUESTION, ["2.5"]), QuestionAnswer(values={"count": 2.5})),
        (answers.fill_in(QUESTION, ["count=-1"]), QuestionAnswer(values={"count": -1})),
        (answers.fill_in(SURE, ["Yes"]), QuestionAnswer(values={"answer": True})),
        (answers.fill_in(SURE, ["answer=n"]), QuestionAnswer(values={"answer": False})),
        (answers.fill_in(VISIT, []), QuestionAnswer()),
        (
            answers.fill_in(Question(message="?", fields=(Field(name="t"),)), ["a=b"]),
            QuestionAnswer(values={"t": "a=b"}),
        ),
        (
            answers.fill_in(
                Question(message="?", fields=(Field(name="c", kind="choice", options=COLOURS, many=True),)),
                ["r", "Blue"],
            ),
            QuestionAnswer(values={"c": ["r", "b"]}),
        ),
    ],
)
def test_typed_words_become_the_answer_that_was_meant(answer: Answer, meant: Answer) -> None:
    assert answer == meant


MEANINGLESS: list[tuple[Any, InboxItem, Sequence[Any], str]] = [
    (answers.allow, FORM, (), "This is a question"),
    (answers.allow, Approval(title="x", options=(DENY,)), (), "one of deny"),
    (answers.allow_always, PLAN, (), "Only an action"),
    (answers.allow_always, RUN, (), "one of allow, deny"),
    (answers.fill_in, PLAN, (["x"],), "This is a plan"),
    (answers.fill_in, FORM, (["blue"],), "one of these names: colour, count"),
    (answers.fill_in, FORM, (["size=3"],), "one of these names: colour, count"),
    (answers.fill_in, VISIT, (["x"],), "one of these names: none"),
    (answers.fill_in, QUESTION, (["many"],), "`count` must be a number"),
    (answers.fill_in, SURE, (["perhaps"],), "`answer` must be yes or no"),
]


@each(("do", "ask", "given", "complaint"), MEANINGLESS)
def test_words_that_mean_nothing_are_answered_with_what_would(
    do: Any, ask: InboxItem, given: Sequence[Any], complaint: str
) -> None:
    with pytest.raises(BadRequest, match=complaint):
        do(ask, *given)


def test_the_beginning_of_an_id_is_enough_if_it_fits_one() -> None:
    items = [item(RUN, "aaaa1111"), item(PLAN, "aaab2222"), item(FORM, "aaa")]
    assert answers.find(items, "aaab") is items[1]
    assert answers.find(items, "aaa") is items[2], "the whole id goes first"
    with pytest.raises(BadRequest, match="matches several requests: aaaa1111, aaab2222, aaa"):
        answers.find(items, "aa")
    with pytest.raises(BadRequest, match="No request `b` is waiting"):
        answers.find(items, "b")


# ── Watching ─────────────────────────────────────────────────────────────────────────────────────


class Terminal:
    """A person at a terminal, with a clock that stands until it is moved."""

    def __init__(self, *, takes_keys: bool = True, refuses: str = "") -> None:
        self.said: list[str] = []
        self.decided: list[tuple[str, Answer]] = []
        self.now = NOW
        self._refuses = refuses
        self.watch = InboxWatch(self._decide, self.said.append, lambda: self.now, takes_keys=takes_keys)

    async def _decide(self, item_id: str, answer: Answer) -> None:
        if self._refuses:
            raise GatewayError("not_found", self._refuses)
        self.decided.append((item_id, answer))

    async def types(self, line: str) -> None:
        """After reading what was shown."""
        self.now += REACTION
        await self.watch.take(f"{line}\n")

    def hears(self) -> str:
        """What was said since the last time."""
        said, self.said[:] = "\n".join(self.said), []
        return said


TYPED: list[tuple[InboxItem, str, Answer]] = [
    (RUN, "y", ApprovalAnswer(option="allow")),
    (RUN, " Yes ", ApprovalAnswer(option="allow")),
    (RUN, "n", ApprovalAnswer(option="deny")),
    (RUN, "n not on a Sunday", ApprovalAnswer(option="deny", reason="not on a Sunday")),
    (EDIT, "a", ApprovalAnswer(option="always")),
    (PLAN, "y", ReviewAnswer(approved=True)),
    (PLAN, "n shorter, please", ReviewAnswer(approved=False, feedback="shorter, please")),
    (QUESTION, "3", QuestionAnswer(values={"count": 3})),
    (SURE, "n", QuestionAnswer(values={"answer": False})),
]


@pytest.mark.parametrize(("ask", "typed", "answer"), TYPED)
async def test_a_new_ask_is_shown_and_answered_right_there(ask: InboxItem, typed: str, answer: Answer) -> None:
    terminal = Terminal()
    terminal.watch.show([item(ask)])
    told = terminal.hears()
    assert formatting.format_item(item(ask), NOW) in told
    assert f"? {formatting.key_hint(ask)}" in told
    await terminal.types(typed)
    assert terminal.decided == [("aaaa1111", answer)]
    terminal.watch.show([])
    assert terminal.hears() == "aaaa1111  answered.", "and not that it is no longer waiting"


async def test_a_key_answers_the_oldest_and_then_the_next_is_named() -> None:
    terminal = Terminal()
    terminal.watch.show([item(RUN, "one"), item(PLAN, "two")])
    await terminal.types("y")
    assert terminal.hears().endswith("two  Plan: Tidy up\n? y approve · n WHAT TO CHANGE")
    await terminal.types("y")
    assert [item_id for item_id, _ in terminal.decided] == ["one", "two"]


async def test_a_key_that_was_meant_for_another_question_answers_none() -> None:
    """The one that was asked about expires in the very moment the person types."""
    terminal = Terminal()
    terminal.watch.show([item(RUN, "one"), item(EDIT, "two")])
    terminal.now += 10
    terminal.watch.show([item(EDIT, "two")])
    await terminal.watch.take("y\n")
    assert terminal.decided == []
    assert "Please answer again." in terminal.hears()
    await terminal.types("y")
    assert terminal.decided == [("two", ApprovalAnswer(option="allow"))]


@pytest.mark.parametrize("typed", ["", "   ", "x", "allow it"])
async def test_what_means_nothing_decides_nothing(typed: str) -> None:
    terminal = Terminal()
    terminal.watch.show([item(RUN)])
    terminal.hears()
    await terminal.types(typed)
    assert terminal.decided == []
    assert terminal.hears() == (f"? {formatting.key_hint(RUN)}" if typed.strip() else "")


@pytest.mark.parametrize(("ask", "typed"), [(RUN, "a"), (QUESTION, "many"), (SURE, "perhaps")])
async def test_what_does_not_fit_is_told_and_asked_again(ask: InboxItem, typed: str) -> None:
    terminal = Terminal()
    terminal.watch.show([item(ask)])
    terminal.hears()
    await terminal.types(typed)
    assert terminal.decided == []
    assert terminal.hears()


async def test_a_refusal_of_the_gateway_is_told() -> None:
    terminal = Terminal(refuses="Nothing waits there.")
    terminal.watch.show([item(RUN)])
    await terminal.types("y")
    assert terminal.hears().endswith("Nothing waits there.")


async def test_what_is_gone_is_told_and_keys_answer_nothing_then() -> None:
    terminal = Terminal()
    terminal.watch.show([item(RUN)])
    terminal.watch.show([])
    assert terminal.hears().endswith("aaaa1111  is no longer waiting.")
    await terminal.types("y")
    assert terminal.decided == []


async def test_what_takes_more_than_a_line_is_left_to_its_command() -> None:
    terminal = Terminal()
    terminal.watch.show([item(FORM)])
    assert "?" not in terminal.hears().partition("tieline inbox answer")[2]
    await terminal.types("blue")
    assert terminal.decided == []


async def test_without_a_terminal_nothing_is_asked_for() -> None:
    terminal = Terminal(takes_keys=False)
    terminal.watch.show([item(RUN)])
    assert "\n? " not in terminal.hears()


def gateways(
    *lives: Sequence[Sequence[PendingItem]] | GatewayError,
) -> Iterator[AsyncGenerator[tuple[PendingItem, ...], None]]:
    """One gateway after the other: what each has in its inbox until it ends, or why it cannot be reached."""

    async def live(
        lists: Sequence[Sequence[PendingItem]] | GatewayError,
    ) -> AsyncGenerator[tuple[PendingItem, ...], None]:
        if isinstance(lists, GatewayError):
            raise lists
        for items in lists:
            yield tuple(items)

    return (live(lists) for lists in lives)


GONE = GatewayError("upstream", "Nothing answers.")
REFUSED = GatewayError("unauthorized", "The key is wrong.")


async def test_a_gateway_that_was_started_anew_is_found_again() -> None:
    terminal = Terminal()
    lives = gateways([[], [item(RUN)]], GONE, GONE, [[item(PLAN, "two")]], REFUSED)
    async with asyncio.timeout(60):
        with pytest.raises(GatewayError, match="The key is wrong"):
            await follow(lambda: next(lives), terminal.watch, terminal.said.append, pause=0)
    told = terminal.hears()
    assert told.startswith("Watching the inbox; press Ctrl-C to stop. It is empty.")
    assert told.count("The gateway has stopped.") == 2, "once each time"
    assert "aaaa1111  is no longer waiting." in told
    assert "two  Plan: Tidy up" in told


async def test_a_gateway_that_is_not_there_at_first_is_told_at_once() -> None:
    terminal = Terminal()
    lives = gateways(GONE)
    with pytest.raises(GatewayError, match="Nothing answers"):
        await follow(lambda: next(lives), terminal.watch, terminal.said.append, pause=0)


def test_alone_an_item_is_shown_with_its_arguments_as_they_came_and_with_what_is_hidden() -> None:
    ask = Approval(title="Look", detail="argv: -c", input='{"argv": "-c",\n"x": 1}', hidden=1234, options=(ALLOW, DENY))
    text = formatting.format_item(item(ask), NOW)
    assert '    | {"argv": "-c",\n    | "x": 1}' in text
    assert "! 1,234 characters are not shown" in text
    assert "| {" not in formatting.format_items([item(ask)], NOW), "in a list they would only repeat what is shown"


def test_every_option_of_a_plan_can_be_chosen_and_is_shown_with_its_whole_label() -> None:
    label = (
        "Yes, and accept all edits of this conversation without asking again, in every folder below this one and others"
    )
    options = (Option(id="auto", label=label, kind="allow_always"), Option(id="stay", label="No", kind="reject_once"))
    plan = PlanReview(title="Tidy", plan="All", options=options)
    assert f"option=auto  {label}" in formatting.format_item(item(plan), NOW)
    assert "y auto|stay" in formatting.key_hint(plan)
    assert answers.fill_in(plan, ["option=auto"]) == ReviewAnswer(approved=True, option="auto")
    assert answers.fill_in(plan, ["stay"]) == ReviewAnswer(approved=False, option="stay")
    with pytest.raises(BadRequest, match="auto, stay"):
        answers.fill_in(plan, ["option=nothing"])
