"""Both roles against each other: what the agent's side writes, the client's side reads, and the other way round."""

from typing import Any

import pytest

from tests.each import each
from tieline.model.content import Text
from tieline.model.events import StopReason
from tieline.wire.acp import facts, schema, updates
from tieline.wire.acp.agent_side import AgentSide, ClientAnswer, ClientMessage, ClientNotification, ClientRequest
from tieline.wire.acp.client_side import ClientOffer, ClientSide
from tieline.wire.acp.facts import Fact
from tieline.wire.framing.jsonrpc import INVALID_PARAMS, METHOD_NOT_FOUND, SkippedInput

EVERYTHING = ClientOffer(read_files=True, write_files=True, terminals=True)
TEXT = schema.TextContent(text="hello")


class Pair:
    """A client and an agent, and the two pipes between them."""

    def __init__(self) -> None:
        self.client = ClientSide(EVERYTHING)
        self.agent = AgentSide()

    def heard(self) -> list[ClientMessage]:
        """What the agent hears of what the client said."""
        return self.agent.feed(self.client.outbox())

    def learned(self) -> list[Fact]:
        """What the client learns of what the agent said."""
        return self.client.feed(self.agent.outbox())

    def asked(self) -> ClientRequest:
        (one,) = self.heard()
        assert isinstance(one, ClientRequest)
        return one

    def answer(self, result: schema.AcpShape) -> list[Fact]:
        """Answer the one thing that the client asked."""
        assert self.agent.answer(self.asked().number, result)
        return self.learned()


def opened() -> Pair:
    pair = Pair()
    pair.client.new_session("/w")
    pair.answer(schema.SessionResult(session_id="s1"))
    return pair


def test_an_introduction() -> None:
    pair = Pair()
    pair.client.initialize("tieline", "1.0")
    asked = pair.asked()
    params = asked.params
    assert isinstance(params, schema.InitializeParams)
    assert params.client_info == schema.Implementation(name="tieline", version="1.0")
    assert params.client_capabilities is not None
    assert params.client_capabilities.terminal
    pair.agent.answer(
        asked.number,
        schema.InitializeResult(
            protocol_version=schema.VERSION,
            agent_capabilities=schema.AgentCapabilities(load_session=True),
            auth_methods=[schema.AuthMethod(id="key", name="API key")],
            agent_info=schema.Implementation(name="agent", version="2"),
        ),
    )
    assert pair.learned() == [
        facts.Initialized(
            request=1,
            version=1,
            name="agent",
            agent_version="2",
            abilities=facts.Abilities(load=True),
            logins=(facts.LoginMethod(id="key", name="API key"),),
        )
    ]


UPDATES: list[tuple[updates.Update, Fact]] = [
    (updates.MessageChunkShape(content=TEXT, message_id="m"), facts.TextChunk(session="s1", text="hello", message="m")),
    (updates.ThoughtChunkShape(content=TEXT), facts.ThoughtChunk(session="s1", text="hello")),
    (updates.UserChunkShape(content=TEXT), facts.ContentChunk(session="s1", speaker="user", part=Text(text="hello"))),
    (
        updates.CallStartedShape(tool_call_id="c", title="Edit", kind="edit", status="in_progress"),
        facts.CallUpdate(session="s1", call=facts.AgentCall(id="c", title="Edit", kind="edit", status="in_progress")),
    ),
    (
        updates.CallPatchedShape(
            tool_call_id="c",
            content=[
                updates.ContentItemShape(content=TEXT),
                updates.DiffItemShape(path="/a", new_text="2", old_text="1"),
                updates.TerminalItemShape(terminal_id="t"),
            ],
            locations=[updates.LocationShape(path="/a", line=3)],
        ),
        facts.CallUpdate(
            session="s1",
            call=facts.AgentCall(
                id="c",
                content=(Text(text="hello"),),
                diffs=(facts.CallDiff(path="/a", new="2", old="1"),),
                terminals=("t",),
                locations=(facts.CallLocation(path="/a", line=3),),
            ),
        ),
    ),
    (
        updates.PlanShape(entries=[updates.PlanEntryShape(content="one", priority="high", status="completed")]),
        facts.PlanUpdate(
            session="s1", entries=(facts.AgentPlanEntry(content="one", priority="high", status="completed"),)
        ),
    ),
    (
        updates.CommandsUpdateShape(
            available_commands=[
                updates.CommandShape(name="init", description="begin", input=updates.CommandInputShape(hint="where"))
            ]
        ),
        facts.CommandsUpdate(
            session="s1", commands=(facts.SlashCommand(name="init", description="begin", hint="where"),)
        ),
    ),
    (updates.ModeUpdateShape(current_mode_id="plan"), facts.ModeChanged(session="s1", mode="plan")),
    (
        updates.OptionsUpdateShape(
            config_options=[schema.ConfigOptionShape(id="fast", name="Fast", type="boolean", current_value=True)]
        ),
        facts.OptionsChanged(
            session="s1", options=(facts.ConfigOption(id="fast", name="Fast", kind="boolean", current=True),)
        ),
    ),
    (updates.InfoUpdateShape(title="Title"), facts.TitleChanged(session="s1", title="Title")),
    (
        updates.UsageUpdateShape(used=1, size=2, cost=updates.Cost(amount=0.5, currency="EUR")),
        facts.UsageUpdate(session="s1", used=1, size=2, cost=0.5, currency="EUR"),
    ),
    (
        updates.NoticeShape(severity="error", title="Oh", description="no"),
        facts.Noticed(session="s1", severity="error", title="Oh", description="no"),
    ),
    (
        updates.CompactionUpdateShape(compaction_id="k", status="failed", error="too long"),
        facts.Compaction(session="s1", id="k", status="failed", text="too long"),
    ),
    (
        updates.CompactionChunkShape(compaction_id="k", content=TEXT),
        facts.Compaction(session="s1", id="k", text="hello"),
    ),
]


@each(("update", "fact"), UPDATES, ids=lambda value: type(value).__name__)
def test_every_update_arrives(update: updates.Update, fact: Fact) -> None:
    pair = opened()
    pair.agent.update("s1", update)
    assert pair.learned() == [fact]


def test_a_turn_with_a_permission() -> None:
    pair = opened()
    pair.client.prompt("s1", [TEXT])
    prompt = pair.asked()
    assert prompt.params == schema.PromptParams(session_id="s1", prompt=[TEXT])
    request = pair.agent.request(
        "session/request_permission",
        updates.PermissionParams(
            session_id="s1",
            tool_call=updates.CallFields(tool_call_id="c", title="rm"),
            options=[schema.PermissionOptionShape(option_id="y", name="Yes", kind="allow_once")],
        ),
    )
    (asked,) = pair.learned()
    assert isinstance(asked, facts.PermissionRequested)
    pair.client.answer_permission(asked.number, "y")
    outcome = schema.PermissionOutcome(outcome="selected", option_id="y")
    assert pair.heard() == [
        ClientAnswer(request, "session/request_permission", schema.PermissionResult(outcome=outcome), None)
    ]
    pair.agent.answer(prompt.number, schema.PromptResult(stop_reason="end_turn"))
    assert pair.learned() == [
        facts.TurnEnded(request=2, session="s1", reason=StopReason.END_TURN, stop_reason="end_turn")
    ]


def test_a_cancelled_turn() -> None:
    pair = opened()
    pair.client.prompt("s1", [TEXT])
    prompt = pair.asked()
    pair.client.cancel("s1")
    assert pair.heard() == [ClientNotification("session/cancel", schema.SessionParams(session_id="s1"))]
    pair.agent.answer(prompt.number, schema.PromptResult(stop_reason="cancelled"))
    (ended,) = pair.learned()
    assert isinstance(ended, facts.TurnEnded)
    assert ended.reason is StopReason.CANCELLED


REQUESTS: list[tuple[str, schema.AcpShape, str, tuple[Any, ...], schema.AcpShape]] = [
    (
        "fs/read_text_file",
        schema.ReadFileParams(session_id="s1", path="/a"),
        "answer_file",
        ("text",),
        schema.ReadFileResult(content="text"),
    ),
    (
        "fs/write_text_file",
        schema.WriteFileParams(session_id="s1", path="/a", content="text"),
        "answer_done",
        (),
        schema.Empty(),
    ),
    (
        "terminal/create",
        schema.CreateTerminalParams(session_id="s1", command="ls"),
        "answer_terminal",
        ("t1",),
        schema.CreateTerminalResult(terminal_id="t1"),
    ),
    (
        "terminal/output",
        schema.TerminalParams(session_id="s1", terminal_id="t1"),
        "answer_output",
        ("out", True),
        schema.TerminalOutputResult(output="out", truncated=True),
    ),
    (
        "terminal/wait_for_exit",
        schema.TerminalParams(session_id="s1", terminal_id="t1"),
        "answer_exit",
        (schema.ExitStatus(exit_code=1),),
        schema.ExitStatus(exit_code=1),
    ),
    (
        "elicitation/create",
        schema.ElicitationParams(
            session_id="s1", mode="url", message="go", url="https://example.com", elicitation_id="e"
        ),
        "answer_question",
        ("accept",),
        schema.ElicitationResult(action="accept"),
    ),
]


@pytest.mark.parametrize(("method", "params", "answer", "said", "result"), REQUESTS, ids=lambda value: str(value)[:24])
def test_what_an_agent_asks_is_answered(
    method: str, params: schema.AcpShape, answer: str, said: tuple[Any, ...], result: schema.AcpShape
) -> None:
    pair = opened()
    request = pair.agent.request(method, params)
    (asked,) = pair.learned()
    assert isinstance(
        asked,
        facts.FileReadRequested
        | facts.FileWriteRequested
        | facts.TerminalRequested
        | facts.TerminalUseRequested
        | facts.QuestionAsked,
    )
    assert getattr(pair.client, answer)(asked.number, *said)
    assert pair.heard() == [ClientAnswer(request, method, result, None)]


def test_an_agent_answers_what_it_does_not_know() -> None:
    agent = AgentSide()
    heard = agent.feed(
        b'{"jsonrpc":"2.0","id":1,"method":"_vendor/x"}\n'
        b'{"jsonrpc":"2.0","id":2,"method":"session/prompt","params":[]}\n'
        b'{"jsonrpc":"2.0","method":"_vendor/y"}\n'
        b"garbage\n"
    )
    assert heard == [SkippedInput("not a JSON-RPC message", "garbage")]
    assert agent.outbox().count(b'"error"') == 2


def test_an_agent_refuses_and_is_refused() -> None:
    pair = Pair()
    pair.client.load_session("s9", "/w")
    pair.agent.refuse(pair.asked().number, schema.NOT_FOUND, "no such session")
    (refused,) = pair.learned()
    assert isinstance(refused, facts.RequestRefused)
    assert (refused.code, refused.session, refused.needs_login) == (schema.NOT_FOUND, "s9", False)
    pair.agent.request("session/unknown", schema.SessionParams(session_id="s9"))
    pair.agent.request("session/request_permission", schema.Empty())
    pair.learned()
    codes = [one.error.code for one in pair.heard() if isinstance(one, ClientAnswer) and one.error]
    assert codes == [METHOD_NOT_FOUND, INVALID_PARAMS]


def test_a_login_is_asked_for_by_its_code() -> None:
    pair = Pair()
    pair.client.new_session("/w")
    pair.agent.refuse(pair.asked().number, schema.AUTH_REQUIRED, "log in")
    (refused,) = pair.learned()
    assert isinstance(refused, facts.RequestRefused)
    assert refused.needs_login


def test_what_asks_for_nothing_may_come_without_parameters() -> None:
    agent = AgentSide()
    heard = agent.feed(b'{"jsonrpc":"2.0","id":1,"method":"logout"}\n')
    assert heard == [ClientRequest(1, "logout", schema.Empty())]
