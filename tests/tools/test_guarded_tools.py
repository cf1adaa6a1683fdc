"""The gateway's tools under rules: done, refused, or asked about; and what a mode allows."""

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.tools.calling import call, text_of
from tests.tools.conftest import ENVIRONMENT
from tieline.model.content import ToolCall, ToolResult
from tieline.model.errors import BadRequest, GatewayError
from tieline.model.inbox import (
    ITEM_LIMIT,
    Answer,
    Approval,
    ApprovalAnswer,
    InboxItem,
    PlanReview,
    Question,
    QuestionAnswer,
    ReviewAnswer,
)
from tieline.model.ports import Host
from tieline.model.rules import Rule
from tieline.tools.guarded_tools import GuardedTools, TurnTools
from tieline.tools.policy import Grants, Policy, Subject, Verdict
from tieline.tools.toolbox import WorkspaceToolbox
from tieline.tools.workspace import Workspace

ALLOW, ALWAYS, DENY = (
    ApprovalAnswer(option="allow"),
    ApprovalAnswer(option="always"),
    ApprovalAnswer(option="deny", reason="Too big."),
)


class Person:
    """Somebody who gives these answers one after the other; `meanwhile` happens while they think."""

    def __init__(self, *answers: Answer, is_present: bool = True, meanwhile: Callable[[], object] = int) -> None:
        self.asked: list[InboxItem] = []
        self.is_present = is_present
        self._answers = list(answers)
        self._meanwhile = meanwhile

    async def permit(self, ask: Approval) -> ApprovalAnswer:
        answer = self._next(ask)
        assert isinstance(answer, ApprovalAnswer)
        return answer

    async def review(self, ask: PlanReview) -> ReviewAnswer:
        answer = self._next(ask)
        assert isinstance(answer, ReviewAnswer)
        return answer

    async def fill(self, ask: Question) -> QuestionAnswer:
        answer = self._next(ask)
        assert isinstance(answer, QuestionAnswer)
        return answer

    def _next(self, ask: InboxItem) -> Answer:
        self.asked.append(ask)
        self._meanwhile()
        return self._answers.pop(0)


class Kept(Grants):
    """What a keeper grants and notes; a broken one cannot write it down."""

    def __init__(self, *, is_broken: bool = False) -> None:
        super().__init__()
        self.noted: list[tuple[Subject, Verdict]] = []
        self.is_broken = is_broken

    def add(self, rule: Rule) -> None:
        super().add(rule)
        self._write()

    def remove(self, rule_id: str) -> bool:
        is_found = super().remove(rule_id)
        self._write()
        return is_found

    def note(self, subject: Subject, verdict: Verdict) -> None:
        self.noted.append((subject, verdict))

    def _write(self) -> None:
        if self.is_broken:
            raise OSError(28, "No space left on device")


def keeping(root: Path, kept: Kept | None = None, *, rules: Sequence[Rule] = (), yolo: bool = False) -> GuardedTools:
    workspace = Workspace(root)
    kept = kept or Kept()
    policy = Policy(workspace.locate, rules=rules, remembered=kept, autonomy="all" if yolo else "ask")
    return GuardedTools(WorkspaceToolbox(workspace, environment=ENVIRONMENT), policy, note=kept.note)


async def did(tools: TurnTools, person: Person, name: str, /, **arguments: Any) -> str:
    """What a call says when it works."""
    result = await tools.execute(call(name, **arguments), Host(person))
    assert not result.is_error, text_of(result)
    return text_of(result)


async def refused(tools: TurnTools, person: Person, name: str, /, **arguments: Any) -> str:
    """What a call says when it does not."""
    result = await tools.execute(call(name, **arguments), Host(person))
    assert result.is_error, text_of(result)
    return text_of(result)


NOBODY_PRESENT = Person(is_present=False)


# ── Permissions ──────────────────────────────────────────────────────────────────────────────────


async def test_reading_asks_nobody(root: Path) -> None:
    (root / "a.txt").write_text("hello\n")
    tools = keeping(root).open("agent")
    assert "hello" in await did(tools, NOBODY_PRESENT, "read_file", path="a.txt")
    assert "a.txt" in await did(tools, NOBODY_PRESENT, "list_directory")


async def test_writing_shows_the_person_what_would_change_and_is_done_when_allowed(root: Path) -> None:
    (root / "a.txt").write_text("old\n")
    person = Person(ALLOW)
    await did(keeping(root).open("agent"), person, "write_file", path="a.txt", content="new\n")
    assert (root / "a.txt").read_text() == "new\n"
    (ask,) = person.asked
    assert isinstance(ask, Approval)
    assert (ask.tool, ask.kind, ask.path, ask.title) == ("write_file", "edit", "a.txt", "Replace a.txt")
    assert "-old\n+new\n" in ask.diff


async def test_the_arguments_are_shown_as_they_came_and_nothing_hidden_is_allowed_for_good(root: Path) -> None:
    person = Person(DENY, DENY)
    tools = keeping(root).open("agent")
    await refused(tools, person, "write_file", path="a.txt", content="y" * 10_000)
    await refused(tools, person, "write_file", path="a.txt", content="x" * (2 * ITEM_LIMIT) + "THE END")
    whole, cut = person.asked
    assert isinstance(whole, Approval)
    assert isinstance(cut, Approval)
    assert whole.input.count("y") == 10_000
    assert (whole.hidden, "always" in [option.id for option in whole.options]) == (0, True)
    assert "characters are hidden here" in cut.diff
    assert "THE END" in cut.diff
    assert (cut.hidden > 0, [option.id for option in cut.options]) == (True, ["allow", "deny"])


async def test_a_command_is_shown_as_it_would_run(root: Path) -> None:
    person = Person(ALLOW)
    told = await did(keeping(root).open("agent"), person, "run_terminal", command="echo $GREETING")
    assert "hello" in told
    (ask,) = person.asked
    assert isinstance(ask, Approval)
    assert (ask.command, ask.kind) == ("echo $GREETING", "execute")
    assert str(root) in ask.detail


@pytest.mark.parametrize("answer", [DENY, ApprovalAnswer(reason="Too big.")])
async def test_what_is_not_allowed_is_not_done_and_the_model_is_told_why(root: Path, answer: ApprovalAnswer) -> None:
    told = await refused(keeping(root).open("agent"), Person(answer), "write_file", path="a.txt", content="x")
    assert "The user did not allow this. Too big." in told
    assert not (root / "a.txt").exists()


async def test_what_cannot_work_is_not_asked_about(root: Path) -> None:
    person = Person()
    told = await refused(keeping(root).open("agent"), person, "edit_file", path="none.txt", old_text="a", new_text="b")
    assert "none.txt" in told
    assert person.asked == []


@pytest.mark.parametrize(
    ("made", "told"),
    [
        (ToolCall(id="1", name="read_file", arguments='{"path": '), "The arguments of read_file are not valid JSON"),
        (call("read_file", path="../x"), "`../x` is outside the workspace"),
    ],
)
async def test_a_call_that_makes_no_sense_is_not_called_forbidden_and_ends_with_one_full_stop(
    root: Path, made: ToolCall, told: str
) -> None:
    result = await keeping(root).open("agent").execute(made, Host(NOBODY_PRESENT))
    assert result.is_error
    assert text_of(result).startswith(told)
    assert text_of(result).endswith(".")
    assert ".." not in text_of(result).replace("../x", "")


async def test_a_rule_decides_without_asking(root: Path) -> None:
    rules = [Rule(decision="allow", tool="write_file", path="docs/"), Rule(decision="deny", path="*.pem")]
    (root / "key.pem").write_text("secret")
    kept = Kept()
    tools = keeping(root, kept, rules=rules).open("agent")
    await did(tools, NOBODY_PRESENT, "write_file", path="docs/a.md", content="x")
    assert "Not allowed: rule: deny any tool in *.pem" in await refused(
        tools, NOBODY_PRESENT, "read_file", path="key.pem"
    )
    assert [(subject.path, verdict.decision) for subject, verdict in kept.noted] == [
        ("docs/a.md", "allow"),
        ("key.pem", "deny"),
    ]


async def test_what_leads_outside_is_denied_and_noted(root: Path, outside: Path) -> None:
    kept = Kept()
    await refused(keeping(root, kept).open("agent"), NOBODY_PRESENT, "read_file", path=str(outside / "secret.txt"))
    assert [verdict.decision for _, verdict in kept.noted] == ["deny"]


async def test_what_everybody_may_do_is_not_worth_a_note(root: Path) -> None:
    kept = Kept()
    await did(keeping(root, kept).open("agent"), NOBODY_PRESENT, "list_directory")
    assert kept.noted == []


async def test_with_everything_allowed_nobody_is_asked_but_it_is_noted(root: Path) -> None:
    kept = Kept()
    tools = keeping(root, kept, yolo=True).open("agent")
    assert "42" in await did(tools, NOBODY_PRESENT, "run_terminal", command="echo 42")
    assert [(subject.command, verdict.reason) for subject, verdict in kept.noted] == [
        ("echo 42", "everything is allowed (--yolo)")
    ]


async def test_what_was_allowed_must_still_be_what_would_be_done(root: Path) -> None:
    """A person takes time, and a link can be swapped meanwhile."""
    (root / "docs").mkdir()
    (root / "secrets").mkdir()
    (root / "way").symlink_to("docs")

    def swap() -> None:
        (root / "way").unlink()
        (root / "way").symlink_to("secrets")

    tools = keeping(root).open("agent")
    told = await refused(tools, Person(ALLOW, meanwhile=swap), "write_file", path="way/a.txt", content="x")
    assert "changed its target" in told
    assert list((root / "secrets").iterdir()) == []


async def test_a_link_that_changes_after_a_rule_allowed_it_reaches_nothing_else(root: Path) -> None:
    """The path that was judged is the one that is used, also where nobody is asked."""
    rules = [Rule(decision="deny", path="secrets/"), Rule(decision="allow", path="docs/")]
    (root / "docs").mkdir()
    (root / "secrets").mkdir()
    (root / "docs" / "real.txt").write_text("public\n")
    (root / "secrets" / "key").write_text("secret\n")
    link = root / "docs" / "x"

    class Flips(Kept):
        """Turns the link to the secret as soon as a rule has decided."""

        def note(self, subject: Subject, verdict: Verdict) -> None:
            super().note(subject, verdict)
            link.unlink()
            link.symlink_to("../secrets/key")

    def tools() -> TurnTools:
        link.unlink(missing_ok=True)
        link.symlink_to("real.txt")
        return keeping(root, Flips(), rules=rules).open("agent")

    for name, arguments in (
        ("read_file", {}),
        ("write_file", {"content": "changed"}),
        ("edit_file", {"old_text": "secret", "new_text": "changed"}),
        ("search_content", {"pattern": "secret"}),
    ):
        told = await refused(tools(), NOBODY_PRESENT, name, path="docs/x", **arguments)
        assert "changed its target" in told, name
    assert (root / "secrets" / "key").read_text() == "secret\n"


async def test_a_folder_that_changes_after_it_was_judged_runs_no_command_and_gets_no_new_folders(root: Path) -> None:
    (root / "a").mkdir()
    (root / "b").mkdir()

    class Flips(Kept):
        def note(self, subject: Subject, verdict: Verdict) -> None:
            (root / "way").unlink()
            (root / "way").symlink_to("b")

    def tools() -> TurnTools:
        (root / "way").unlink(missing_ok=True)
        (root / "way").symlink_to("a")
        return keeping(root, Flips(), rules=[Rule(decision="allow")]).open("agent")

    moved = "changed its target"
    assert moved in await refused(tools(), NOBODY_PRESENT, "run_terminal", command="touch made", cwd="way")
    assert moved in await refused(tools(), NOBODY_PRESENT, "list_directory", path="way")
    assert moved in await refused(tools(), NOBODY_PRESENT, "search_files", path="way", pattern="*")
    assert moved in await refused(tools(), NOBODY_PRESENT, "write_file", path="way/new/deep/file", content="x")
    assert list((root / "a").iterdir()) == list((root / "b").iterdir()) == []


# ── Protected files ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "path", ["tieline.toml", ".git/hooks/pre-commit", ".VSCode/tasks.json", "sub/.claude/x", ".envrc"]
)
async def test_a_protected_file_asks_every_time_says_why_and_offers_nothing_lasting(root: Path, path: str) -> None:
    person = Person(ALLOW, ALLOW)
    kept = Kept()
    kept.add(Rule(decision="allow", tool="write_file", path="**"))
    kept.add(Rule(decision="allow", tool="write_file", path=f"/{path}"))
    tools = keeping(root, kept).open("agent")
    for _ in range(2):
        await did(tools, person, "write_file", path=path, content="x")
    for ask in person.asked:
        assert isinstance(ask, Approval)
        assert [option.id for option in ask.options] == ["allow", "deny"]
        assert ask.risk.startswith(f"`{path}` is protected")
    await did(tools, NOBODY_PRESENT, "write_file", path="ordinary.txt", content="x")


# ── Always ───────────────────────────────────────────────────────────────────────────────────────


async def test_always_is_asked_once_in_every_turn_and_survives_a_restart(root: Path) -> None:
    kept = Kept()
    keeper = keeping(root, kept)
    person = Person(ALWAYS)
    for _ in range(2):
        await did(keeper.open("agent"), person, "write_file", path="a.txt", content="x")
    await did(keeping(root, kept).open("agent"), person, "write_file", path="a.txt", content="x")
    assert len(person.asked) == 1
    assert [str(rule) for rule, _, _ in await keeper.grants()] == ["allow write_file in /a.txt"]


async def test_always_is_as_narrow_as_it_says(root: Path) -> None:
    person = Person(ALWAYS, DENY)
    tools = keeping(root).open("agent")
    await did(tools, person, "write_file", path="a.txt", content="x")
    await refused(tools, person, "write_file", path="b.txt", content="x")
    first = person.asked[0]
    assert isinstance(first, Approval)
    always = [option for option in first.options if option.kind == "allow_always"]
    assert [option.id for option in always] == ["always", "always-2"]
    assert always[0].label == "Always allow writing a.txt"


async def test_more_can_be_allowed_for_good_if_the_person_says_so(root: Path) -> None:
    person = Person(ApprovalAnswer(option="always-2"))
    tools = keeping(root).open("agent")
    await did(tools, person, "write_file", path="a.txt", content="x")
    await did(tools, person, "write_file", path="b.txt", content="x")
    assert len(person.asked) == 1


async def test_what_is_revoked_is_asked_again_also_after_a_restart(root: Path) -> None:
    kept = Kept()
    keeper = keeping(root, kept)
    person = Person(ALWAYS, DENY, DENY)
    await did(keeper.open("agent"), person, "write_file", path="a.txt", content="x")
    ((rule, _, _),) = await keeper.grants()
    assert not await keeper.revoke("nonsense")
    assert await keeper.revoke(rule.id)
    assert not await keeper.revoke(rule.id)
    assert kept.rules() == ()
    for again in (keeper, keeping(root, kept)):
        await refused(again.open("agent"), person, "write_file", path="a.txt", content="y")
    assert len(person.asked) == 3


async def test_what_cannot_be_saved_is_remembered_until_the_end(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    keeper = keeping(root, Kept(is_broken=True))
    person = Person(ALWAYS)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            await did(keeper.open("agent"), person, "write_file", path="a.txt", content="x")
    assert len(person.asked) == 1
    assert "No space left" in caplog.text


async def test_a_revocation_that_cannot_be_saved_is_told(root: Path) -> None:
    kept = Kept()
    keeper = keeping(root, kept)
    await did(keeper.open("agent"), Person(ALWAYS), "write_file", path="a.txt", content="x")
    kept.is_broken = True
    with pytest.raises(GatewayError, match="until the gateway restarts"):
        await keeper.revoke(kept.rules()[0].id)
    assert await keeper.grants() == []


def test_the_workspace_is_told(root: Path) -> None:
    assert keeping(root).workspace == str(root)


# ── Modes ────────────────────────────────────────────────────────────────────────────────────────

PLANNING = {"create_plan", "ask_question", "switch_mode"}
LOOKING = {"read_file", "list_directory", "search_files", "search_content", "todo_read", "todo_write"}
ACTING = {"write_file", "edit_file", "run_terminal"}
MODES = {"chat": set[str](), "plan": LOOKING | PLANNING, "agent": LOOKING | ACTING | PLANNING}


@pytest.mark.parametrize("mode", MODES)
def test_each_mode_offers_its_tools(root: Path, mode: str) -> None:
    assert {spec.name for spec in keeping(root).open(mode).specs} == MODES[mode]


@pytest.mark.parametrize("mode", ["", "Agent", "party", "x" * 1000])
def test_an_unknown_mode_is_answered_with_those_there_are(root: Path, mode: str) -> None:
    with pytest.raises(BadRequest, match="the modes are chat, plan, agent") as caught:
        keeping(root).open(mode)
    assert caught.value.param == "model"
    assert len(caught.value.message) < 200


@pytest.mark.parametrize(
    ("mode", "name"), [("chat", "read_file"), ("chat", "create_plan"), ("plan", "write_file"), ("plan", "run_terminal")]
)
async def test_a_tool_that_the_mode_does_not_offer_is_refused(root: Path, mode: str, name: str) -> None:
    """Also where everything else is allowed: the mode was the user's choice."""
    for keeper in (keeping(root), keeping(root, yolo=True)):
        person = Person()
        told = await refused(keeper.open(mode), person, name, path="a", content="x", command="ls")
        assert f"not available in {mode} mode" in told
        assert person.asked == []


async def test_going_up_is_asked_and_going_down_is_not(root: Path) -> None:
    tools = keeping(root).open("plan")
    person = Person(ApprovalAnswer(option="deny", reason="Plan first."), ALLOW)
    assert "stay in plan mode. Plan first." in await refused(tools, person, "switch_mode", mode="agent")
    assert tools.mode == "plan"
    assert "now `agent`" in await did(tools, person, "switch_mode", mode="agent", reason="It is small.")
    assert "already `agent`" in await did(tools, person, "switch_mode", mode="agent")
    assert "now `chat`" in await did(tools, person, "switch_mode", mode="chat")
    assert tools.specs == ()
    assert len(person.asked) == 2
    assert isinstance(person.asked[1], Approval)
    assert person.asked[1].detail == "It is small."
    assert [option.id for option in person.asked[1].options] == ["allow", "deny"]


# ── Plans ────────────────────────────────────────────────────────────────────────────────────────

PLAN = {"title": "Say hello", "plan": "1. Write it.", "todos": [{"id": "1", "content": "Write it."}]}


async def test_a_rejected_plan_comes_back_with_what_to_change_and_an_approved_one_opens_every_tool(root: Path) -> None:
    tools = keeping(root).open("plan")
    person = Person(
        ReviewAnswer(approved=False, feedback="Shorter."), ReviewAnswer(approved=False), ReviewAnswer(approved=True)
    )
    assert "not approved. Shorter." in await refused(tools, person, "create_plan", **PLAN)
    assert "gave no reason" in await refused(tools, person, "create_plan", **PLAN)
    assert tools.mode == "plan"
    assert "approved" in await did(tools, person, "create_plan", **PLAN)
    assert {spec.name for spec in tools.specs} == MODES["agent"]
    ask = person.asked[0]
    assert isinstance(ask, PlanReview)
    assert (ask.title, ask.plan, [step.content for step in ask.steps]) == ("Say hello", "1. Write it.", ["Write it."])


async def test_with_everything_allowed_a_plan_is_reviewed_only_where_planning_was_chosen(root: Path) -> None:
    keeper = keeping(root, yolo=True)
    await did(keeper.open("agent"), NOBODY_PRESENT, "create_plan", **PLAN)
    person = Person(ReviewAnswer(approved=True))
    await did(keeper.open("plan"), person, "create_plan", **PLAN)
    assert len(person.asked) == 1


async def test_a_plan_that_cannot_be_read_is_not_put_before_anybody(root: Path) -> None:
    person = Person()
    assert "`plan`" in await refused(keeping(root).open("plan"), person, "create_plan", title="x")
    assert person.asked == []


# ── Questions ────────────────────────────────────────────────────────────────────────────────────

CHOICE = {"kind": "choice", "options": [{"label": "red"}, {"label": "blue", "description": "as the sky"}]}
QUESTIONS: list[tuple[dict[str, Any], Any, str]] = [
    ({"kind": "yes_no"}, True, "yes"),
    ({"kind": "yes_no"}, False, "no"),
    (CHOICE, "blue", "blue"),
    ({**CHOICE, "multiple": True}, ["red", "blue"], "red, blue"),
    ({}, "just so", "just so"),
    ({"kind": "number", "minimum": 1, "maximum": 5}, 3, "3"),
    ({"kind": "file"}, "docs/a.md", "docs/a.md"),
]


@pytest.mark.parametrize(("question", "value", "words"), QUESTIONS)
async def test_each_kind_of_question_is_answered_in_words(
    root: Path, question: dict[str, Any], value: Any, words: str
) -> None:
    person = Person(QuestionAnswer(values={"answer": value}))
    told = await did(keeping(root).open("agent"), person, "ask_question", question="What now?", **question)
    assert told == f"The user answered: {words}"
    (ask,) = person.asked
    assert isinstance(ask, Question)
    (field,) = ask.fields
    assert (ask.message, field.kind, field.required) == ("What now?", question.get("kind", "text"), True)
    assert field.many == question.get("multiple", False)
    assert (field.minimum, field.maximum) == (question.get("minimum"), question.get("maximum"))
    assert [option.id for option in field.options] == [option["label"] for option in question.get("options", ())]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (QuestionAnswer(action="decline"), "declined to answer"),
        (QuestionAnswer(action="cancel"), "There is no answer"),
        (
            QuestionAnswer(action="cancel", reason="Nobody answered within 120 seconds."),
            "Nobody answered within 120 seconds.",
        ),
    ],
)
async def test_no_answer_is_told_as_well(root: Path, answer: QuestionAnswer, words: str) -> None:
    assert words in await refused(keeping(root).open("agent"), Person(answer), "ask_question", question="What?")


async def test_where_nobody_is_the_question_goes_into_the_answer_of_the_model(root: Path) -> None:
    told = await refused(keeping(root).open("agent"), NOBODY_PRESENT, "ask_question", question="What?")
    assert "End your turn with the question in plain text" in told


async def test_a_rule_can_forbid_questions(root: Path) -> None:
    tools = keeping(root, rules=[Rule(decision="deny", tool="ask_question")]).open("agent")
    assert "Not allowed" in await refused(tools, Person(), "ask_question", question="What?")


# ── Things to do ─────────────────────────────────────────────────────────────────────────────────


async def test_each_turn_has_a_list_of_its_own(root: Path) -> None:
    keeper = keeping(root)
    mine, yours = keeper.open("agent"), keeper.open("agent")
    assert "[ ] 1: look" in await did(mine, NOBODY_PRESENT, "todo_write", todos=[{"id": "1", "content": "look"}])
    assert "[ ] 1: look" in await did(mine, NOBODY_PRESENT, "todo_read")
    assert await did(yours, NOBODY_PRESENT, "todo_read") == "The list is empty."


async def test_a_list_that_does_not_fit_is_refused(root: Path) -> None:
    assert "todos" in await refused(keeping(root).open("agent"), NOBODY_PRESENT, "todo_write", todos="x")


# ── Whose call it is ─────────────────────────────────────────────────────────────────────────────


def test_what_a_call_is_about_is_told_in_a_word(root: Path) -> None:
    tools = keeping(root).open("agent")
    kinds = {name: tools.kind_of(ToolCall(id="1", name=name)) for name in MODES["agent"]}
    assert kinds["read_file"] == "read"
    assert kinds["search_content"] == "search"
    assert kinds["edit_file"] == "edit"
    assert kinds["run_terminal"] == "execute"
    assert kinds["create_plan"] == "switch_mode"
    assert kinds["ask_question"] == "other"
    assert all(tools.owns(name) for name in MODES["agent"])
    assert not tools.owns("Bash")


async def test_every_result_answers_its_call(root: Path) -> None:
    tools = keeping(root).open("plan")
    for name in MODES["agent"]:
        result: ToolResult = await tools.execute(ToolCall(id=f"id_{name}", name=name), Host(NOBODY_PRESENT))
        assert result.call_id == f"id_{name}"
