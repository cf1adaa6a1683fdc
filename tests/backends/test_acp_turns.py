"""Turns with a real peer: what it says, does, plans and asks, how a turn ends, and what a session is set to.

The agent is `agents/scripted.py`, made with the protocol's own package; a prompt is the program it runs.
"""

import asyncio
import json
from dataclasses import dataclass, field

import pytest

from tests.backends.acp_support import Person, Talk, plain, scripted, serving, tool, user
from tieline.backends.acp.host_services import CommandExit, TerminalCommand, TerminalSnapshot
from tieline.model.content import File, Image, Text, Thinking
from tieline.model.errors import BadRequest, GatewayError
from tieline.model.events import Activity, Diff, Plan, PlanEntry, Usage
from tieline.model.inbox import Approval, ApprovalAnswer, Option, PlanReview, ReviewAnswer
from tieline.model.ports import Host
from tieline.model.request import Reasoning


async def test_words_thoughts_activities_and_plans_come_in_their_order() -> None:
    async with serving(scripted()) as backend:
        reply = await Talk(backend).ask("think hm\nsay Hello there\nedit\nsay Done\nplan look, leap\nusage")
    assert [type(part) for part in reply.parts] == [Thinking, Text, Text]
    assert reply.text == "Hello there Done "
    kinds = [type(event).__name__ for event in reply.events if not type(event).__name__.startswith("Part")]
    assert kinds == ["Started", "Activity", "Activity", "Plan", "Usage", "Finished"]
    diff = Diff(path="a.py", old="old\n", new="new\n")
    assert reply.activities == [
        Activity(id="edit", kind="edit", title="Edit a.py", status="pending", diffs=(diff,)),
        Activity(id="edit", kind="edit", title="Edit a.py", status="completed", diffs=(diff,)),
    ]
    assert Plan(entries=(PlanEntry(content="look"), PlanEntry(content="leap"))) in reply.events
    assert Usage(input=30, output=12) in reply.events


async def test_the_agents_own_calls_are_never_calls_for_the_client() -> None:
    """Catalogue 146."""
    async with serving(scripted()) as backend:
        reply = await Talk(backend).ask("run ls\nedit")
    assert reply.calls == []
    assert reply.activities[-1].id == "edit"
    assert [one.output for one in reply.activities if one.id == "run"] == ["", "done"]


async def test_output_of_terminals_that_are_the_agents_own_is_shown() -> None:
    async with serving(scripted()) as backend:
        reply = await Talk(backend).ask("shell make")
    last = reply.activities[-1]
    assert (last.kind, last.status, last.output) == ("execute", "completed", "one\ntwo")


async def test_another_message_is_another_part() -> None:
    async with serving(scripted()) as backend:
        reply = await Talk(backend).ask("message a One\nmessage a , two.\nmessage b Three.")
    assert [part.text for part in reply.parts if isinstance(part, Text)] == ["One, two.", "\n\nThree."]


async def test_every_stop_reason_is_told_and_the_fill_of_the_context_is_usage_where_nothing_better_is() -> None:
    said = {
        "end_turn": "end_turn",
        "max_tokens": "max_tokens",
        "max_turn_requests": "paused",
        "refusal": "refusal",
        "cancelled": "cancelled",
    }
    async with serving(scripted()) as backend:
        for reason, ours in said.items():
            reply = await Talk(backend).ask(f"fill 77\nstop {reason}")
            assert reply.reason == ours
            assert Usage(input=77) in reply.events


async def test_notices_are_notes_and_what_the_agent_repeats_of_the_user_is_not_said_again() -> None:
    async with serving(plain("notices")) as backend:
        reply = await Talk(backend, "plain").ask("hello")
    assert reply.text == "[a.md](file:///a.md)"
    assert reply.notes["notice"] == "warning: Slow model: try another"
    assert "in_progress" in reply.notes["compaction"]
    assert reply.notes["stop_reason"] == "the agent ended the turn with 'gave_up'"


async def test_we_say_what_we_can_do_and_no_more() -> None:
    async with serving(scripted()) as backend:
        reply = await Talk(backend).ask("capabilities")
    told = json.loads(reply.text)
    assert told["elicitation"] == {"form": {}, "url": {}}
    assert told["session"]["configOptions"] == {"boolean": {}}
    assert "terminal" not in told or told["terminal"] is False
    assert not told.get("fs", {}).get("readTextFile")
    assert not told.get("fs", {}).get("writeTextFile")


async def test_pictures_and_files_reach_an_agent_that_takes_them() -> None:
    async with serving(scripted()) as backend:
        talk = Talk(backend)
        picture = Image(media_type="image/png", data="aGk=")
        talk.messages.append(user("see", picture, File(media_type="text/plain", data="aGk=", name="a.txt")))
        reply = await talk.ask("kinds")
    assert json.loads(reply.text) == ["text", "image", "resource", "text"]


# ── permissions ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("option", ["yes", "forever", "no"])
async def test_a_permission_is_answered_by_the_id_of_the_agents_own_option(option: str) -> None:
    person = Person(ApprovalAnswer(option=option))
    async with serving(scripted()) as backend:
        reply = await Talk(backend).ask("permit rm -rf build", person)
    assert reply.text == f"chosen {option}"
    (asked,) = person.asked
    assert isinstance(asked, Approval)
    assert (asked.title, asked.kind, asked.command) == ("Run rm -rf build", "execute", "rm -rf build")
    kinds = {one.id: one.kind for one in asked.options}
    assert kinds == {"yes": "allow_once", "forever": "allow_always", "no": "reject_once"}
    assert reply.activities[0].title == "rm -rf build", "what waits for somebody is visible"


async def test_where_nobody_answers_the_option_that_rejects_is_chosen_and_a_note_says_why() -> None:
    """Catalogue 145."""
    async with serving(scripted()) as backend:
        reply = await Talk(backend).ask("permit ls", Person(ApprovalAnswer(reason="Nobody answered within 1 second.")))
    assert reply.text == "chosen no"
    assert reply.notes["denied"] == "Run ls: Nobody answered within 1 second."


async def test_the_reason_of_a_no_reaches_the_agent_as_its_next_prompt_in_the_same_turn() -> None:
    person = Person(
        ApprovalAnswer(option="no", reason="say Use make."), ApprovalAnswer(option="yes", reason="say Well done.")
    )
    async with serving(scripted()) as backend:
        talk = Talk(backend)
        reply = await talk.ask("permit rm -rf build", person)
        assert reply.text == "chosen no\n\nUse make. "
        assert reply.notes["denied"] == "Run rm -rf build: say Use make."
        assert (await talk.ask("permit make", person)).text == "chosen yes", "a yes needs no words"


# ── plans ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ("max_turn_requests", "The agent stopped here. It reached its limit of requests in one turn."),
        ("refusal", "The agent stopped here. It refused to continue."),
        ("cancelled", "The agent stopped here. It cancelled the turn."),
        ("end_turn", ""),
    ],
)
async def test_a_turn_that_ends_early_without_a_word_says_why(reason: str, said: str) -> None:
    async with serving(scripted()) as backend:
        assert (await Talk(backend).ask(f"stop {reason}")).text == said
        assert (await Talk(backend).ask(f"say Well.\nstop {reason}")).text == "Well. "


async def test_two_messages_of_one_turn_are_a_paragraph_each() -> None:
    """Chat clients write all texts of an answer one behind the other."""
    async with serving(plain("two_messages")) as backend:
        assert (await Talk(backend, "plain").ask("go")).text == "First message.\n\nSecond message."


async def test_a_plan_that_is_approved_lets_the_agent_begin() -> None:
    person = Person(ReviewAnswer(approved=True))
    async with serving(scripted()) as backend:
        reply = await Talk(backend).ask("plan buy, paint\nexit Paint it red\nsay painting", person)
    assert reply.text == "chosen gopainting "
    assert person.asked == [
        PlanReview(
            title="Ready to code?",
            plan="Paint it red",
            steps=(PlanEntry(content="buy"), PlanEntry(content="paint")),
            input='{"plan":"Paint it red"}',
            options=(
                Option(id="bypass", label="Bypass", kind="allow_always"),
                Option(id="go", label="Go", kind="allow_once"),
                Option(id="stay", label="Stay", kind="reject_once"),
            ),
        )
    ]


async def test_any_answer_that_an_agent_offers_for_its_plan_can_be_chosen() -> None:
    async with serving(scripted()) as backend:
        for option, is_approved in (("bypass", True), ("go", True), ("stay", False)):
            person = Person(ReviewAnswer(approved=is_approved, option=option))
            reply = await Talk(backend).ask(f"exit Paint it {option}", person)
            assert reply.text == f"chosen {option}"


async def test_the_feedback_to_a_rejected_plan_reaches_the_agent_as_its_next_prompt_in_the_same_turn() -> None:
    person = Person(ReviewAnswer(approved=False, feedback="say blue it is\nrecall\nusage"))
    async with serving(scripted()) as backend:
        talk = Talk(backend)
        reply = await talk.ask("usage\nsay I would paint it red.\nexit", person)
        (review,) = person.asked
        assert isinstance(review, PlanReview)
        assert review.plan == "I would paint it red. "
        assert Usage(input=60, output=24) in reply.events, "both prompts count"
        assert "chosen stay" in reply.text
        assert "blue it is" in reply.text
        assert reply.reason == "end_turn"
        again = await talk.ask("say still here")
        assert again.text == "still here "
        assert len(list(backend._opener.sessions)) == 1


async def test_the_same_feedback_is_not_sent_for_ever() -> None:
    """Where nobody is there a plan is rejected for that reason each time."""
    no = ReviewAnswer(approved=False, feedback="exit Paint it red")
    person = Person(*[no] * 20)
    async with serving(scripted()) as backend:
        reply = await Talk(backend).ask("exit Paint it green", person)
    assert reply.text.count("chosen stay") == 2


async def test_a_plan_by_a_request_of_its_own_is_reviewed_and_the_feedback_is_its_reason() -> None:
    yes, no = ReviewAnswer(approved=True), ReviewAnswer(approved=False, feedback="cheaper")
    async with serving(plain("cursor")) as backend:
        talk = Talk(backend, "plain")
        person = Person(yes)
        assert json.loads((await talk.ask("plan", person)).text) == {"outcome": "accepted"}
        assert person.asked == [PlanReview(title="Paint", plan="# Paint\n1. Buy paint")]
        rejected = await talk.ask("plan", Person(no))
        assert json.loads(rejected.text) == {"outcome": "rejected", "reason": "cheaper"}
        assert (await talk.ask("plan quiet", Person(no))).text == "You said: cheaper"


# ── modes, models, options ───────────────────────────────────────────────────────────────────────


async def test_modes_models_and_options_are_set_by_the_name_of_the_model_and_the_request() -> None:
    async with serving(scripted()) as backend:
        talk = Talk(backend, "scripted?mode=plan&model=Large&verbose=on", reasoning=Reasoning(effort="high"))
        told = json.loads((await talk.ask("settings")).text)
        assert told == {"mode": "plan", "model": "large", "effort": "high", "verbose": True}
        talk.model = "scripted"
        talk.request = {"mode": "plan"}
        told = json.loads((await talk.ask("settings")).text)
        assert told == {"mode": "plan", "model": "small", "effort": "high", "verbose": False}
        assert len(list(backend._opener.sessions)) == 1


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("scripted?mode=yolo", "Scripted has no mode `yolo`. It offers: default, plan."),
        ("scripted?model=huge", "Scripted has no model `huge`. It offers: small, large."),
        ("scripted?colour=red", "Scripted has no option `colour`. It offers: model, effort, verbose, mode."),
        ("scripted?verbose=maybe", "`verbose` must be true or false, not `maybe`"),
    ],
)
async def test_what_an_agent_does_not_offer_is_an_error_that_says_what_it_does(model: str, message: str) -> None:
    async with serving(scripted()) as backend:
        with pytest.raises(BadRequest) as caught:
            await Talk(backend, model).ask("say hello")
        assert caught.value.message == message
        assert list(backend._opener.sessions) == []


async def test_models_that_are_no_option_are_set_in_the_older_way() -> None:
    async with serving(plain("models")) as backend:
        assert (await Talk(backend, "plain?model=pro").ask("which")).text == "maker/pro"


async def test_agents_that_are_not_known_or_not_installed_are_errors_that_say_so() -> None:
    missing = plain("echo", id="missing", title="Missing", command=("nowhere-to-be-found",), install=("get", "it"))
    async with serving(plain("echo"), missing) as backend:
        with pytest.raises(GatewayError, match=r"There is no agent `nobody`\. Known agents: missing, plain"):
            await Talk(backend, "nobody").ask("hello")
        with pytest.raises(GatewayError, match=r"Missing is not installed\. To install it: get it"):
            await Talk(backend, "missing").ask("hello")
        assert [(info.id, info.title) for info in await backend.models()] == [("plain", "Plain")]
        assert await backend.count(None) is None  # type: ignore[arg-type] # whatever is asked


async def test_a_mode_is_set_again_after_a_request_that_asked_for_one_that_is_not_there() -> None:
    async with serving(scripted()) as backend:
        talk = Talk(backend, "scripted?mode=plan")
        assert json.loads((await talk.ask("settings")).text)["mode"] == "plan"
        mistaken = Talk(backend, "scripted?mode=nonsense")
        mistaken.messages = list(talk.messages)
        with pytest.raises(BadRequest, match="has no mode `nonsense`"):
            await mistaken.ask("settings")
        assert json.loads((await talk.ask("settings")).text)["mode"] == "plan"


# ── files and terminals, where they are turned on ────────────────────────────────────────────────


@dataclass
class Hands:
    """Files and terminals that remember what was asked of them."""

    done: list[str] = field(default_factory=list)
    released: asyncio.Event = field(default_factory=asyncio.Event)

    async def read(self, path: str, line: int | None, limit: int | None, host: Host) -> str:
        if path.endswith("new"):
            raise FileNotFoundError(path)
        if path.endswith("secret"):
            raise GatewayError("forbidden", "that one is secret")
        return f"the text of {path}"

    async def write(self, path: str, content: str, host: Host) -> None:
        self.done.append(f"wrote {path}")

    async def create(self, command: TerminalCommand, host: Host) -> str:
        self.done.append(f"ran {command.program}")
        return f"terminal of {command.program}"

    async def output(self, terminal: str) -> TerminalSnapshot:
        return TerminalSnapshot("all is well\n", False, CommandExit(0))

    async def wait(self, terminal: str) -> CommandExit:
        return CommandExit(0)

    async def kill(self, terminal: str) -> None:
        self.done.append("killed")

    async def release(self, terminal: str) -> None:
        self.done.append(f"released the {terminal}")


async def test_an_agent_works_with_our_files_and_terminals_where_they_are_offered() -> None:
    hands = Hands()
    async with serving(scripted(), files=hands, terminals=hands) as backend:
        talk = Talk(backend)
        assert (await talk.ask("read /a/b")).text == "read the text of /a/b"
        assert (await talk.ask("read /a/new")).text == "read ", "a file that is not there yet is empty"
        assert "that one is secret" in (await talk.ask("read /a/secret")).failed.message
        told = json.loads((await talk.ask("capabilities")).text)
        assert (told["fs"], told["terminal"]) == ({"readTextFile": True, "writeTextFile": True}, True)
        reply = await talk.ask("terminal make")
        assert reply.text == "exit 0: all is well\n"
        assert reply.activities[-1].output == "all is well"
    assert hands.done == ["ran make", "released the terminal of make"]


async def test_commands_that_an_agent_has_left_running_end_with_its_process() -> None:
    hands = Hands()
    async with serving(scripted("--can", "http"), files=hands, terminals=hands, tools=True) as backend:
        talk = Talk(backend)
        await talk.ask("start one")
        talk.request["tools"] = (tool("count"),)
        await talk.ask("start two")
        assert "released the terminal of one" in hands.done, "the session has moved to a process of its own"
    assert hands.done[-1] == "released the terminal of two"
