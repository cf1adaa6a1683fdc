"""The states of a turn: the table itself, and transitions that no recorded agent shows."""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from tests.backends.acp_support import NEVER, SOON, Person, until
from tests.cases import asks, says
from tieline.backends.acp.fingerprint import fingerprint_of
from tieline.backends.acp.host_services import CommandExit
from tieline.backends.acp.sessions import AgentSession, seen_parts
from tieline.backends.acp.settings import AcpBackendSettings, AcpRuntime
from tieline.backends.acp.turn import AgentTurn, TurnContext
from tieline.backends.acp.turn_state import LEG_OPEN, OVER, PARKED, TRANSITIONS, TurnEvent, TurnState
from tieline.backends.acp.workplace import Workplace
from tieline.model.content import Message, Text, ToolResult
from tieline.model.events import Event, Failed, Finished, PartEnd, StopReason
from tieline.model.ports import Host
from tieline.model.request import Request, ToolSpec
from tieline.tasks import Tasks
from tieline.wire.acp import facts
from tieline.wire.acp.client_side import ClientOffer, ClientSide
from tieline.wire.acp.schema import TextContent

# ── the table ────────────────────────────────────────────────────────────────────────────────────


def reachable(start: TurnState, edges: Mapping[TurnState, set[TurnState]]) -> set[TurnState]:
    found, todo = {start}, [start]
    while todo:
        new = edges[todo.pop()] - found
        found |= new
        todo += new
    return found


def test_every_state_can_be_reached_and_every_state_can_end() -> None:
    edges = {state: set(row.values()) for state, row in TRANSITIONS.items()}
    assert set(edges) == set(TurnState)
    assert reachable(TurnState.NEW, edges) == set(TurnState)
    assert all(TurnState.CLOSED in reachable(state, edges) for state in TurnState)
    assert edges[TurnState.CLOSED] == set()


def test_every_event_is_used_and_the_groups_of_states_are_a_partition() -> None:
    assert {event for row in TRANSITIONS.values() for event in row} == set(TurnEvent)
    assert {TurnState.NEW} | LEG_OPEN | PARKED | OVER == set(TurnState)
    assert len(LEG_OPEN) + len(PARKED) + len(OVER) + 1 == len(TurnState)


def test_no_event_leads_from_the_end_of_a_turn_back_into_it() -> None:
    assert all(after in OVER for state in OVER for after in TRANSITIONS[state].values())


def test_a_prompted_turn_that_is_not_over_can_be_cancelled_and_ended() -> None:
    for state in LEG_OPEN | PARKED:
        assert TRANSITIONS[state][TurnEvent.CANCELLED] is TurnState.CANCELLING
        assert TRANSITIONS[state][TurnEvent.AGENT_ENDED] is TurnState.CLOSED


# ── a turn without a process ─────────────────────────────────────────────────────────────────────


class FakeEndpoint:
    """Takes the turn's own function for calls, as the bridge does."""

    caller: Any = None
    tools: Mapping[str, ToolSpec] = {}

    def offer(self, tools: Any) -> bool:
        return False


class FakeTurn:
    """A prompted turn, with everything it needs but a process."""

    def __init__(self, **terms: Any) -> None:
        self.returned: list[Any] = []
        self.sent: list[bytes] = []
        self.machine = ClientSide()
        self.retired = 0
        request = Request(model="a", messages=(Message(role="user", parts=(Text(text="go"),)),))
        self.fingerprint = fingerprint_of(request)
        self.session = AgentSession("a", self.fingerprint.kind, Workplace(folder="/w"))
        self.session.name = "s1"
        self.session.endpoint = self.endpoint = FakeEndpoint()  # type: ignore[assignment] # all that a turn uses
        agent: Any = SimpleNamespace(
            machine=self.machine,
            push=lambda: self.sent.append(self.machine.outbox()),
            spec=SimpleNamespace(id="a", title="A"),
            is_over=False,
            retire=self._retire,
            refused=lambda fact: pytest.fail(str(fact)),
        )
        self.agent = agent
        numbers = itertools.count(1)
        self.tasks = Tasks()
        runtime = AcpRuntime(mint_call=lambda: f"call_{next(numbers)}", mint_leg=lambda: "leg", tasks=self.tasks)
        usual = {"cwd": "/w", "env": {}, "batch_wait": 0.02, "settle": 0.01, "cancel_within": SOON, **terms}
        settings = AcpBackendSettings(**usual)
        context = TurnContext(self.session, agent, settings, runtime, self.returned.append, settings.host(""))
        self.turn = AgentTurn(context, Host(Person()), self.fingerprint, ())

    async def begin(self) -> AgentTurn:
        await self.session.hold(SOON)
        self.turn.prompt([TextContent(text="go")])
        return self.turn

    def call(self) -> asyncio.Task[ToolResult]:
        return asyncio.create_task(self.endpoint.caller(ToolSpec(name="count"), "{}"))

    def hear(self, message: Mapping[str, Any]) -> None:
        """Receive a message from the agent."""
        for fact in self.machine.feed(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"):
            self.session.receive(fact)

    def end(self, reason: StopReason = StopReason.END_TURN, said: str = "end_turn") -> None:
        self.session.receive(facts.TurnEnded(request=1, session="s1", reason=reason, stop_reason=said))

    def _retire(self) -> None:
        self.retired += 1


@pytest.fixture
async def fake() -> AsyncIterator[FakeTurn]:
    fake = FakeTurn()
    yield fake
    await fake.tasks.aclose()


QUESTION = facts.QuestionAsked(
    number=7, session="s1", message="Why?", fields=(facts.QuestionField(name="a", kind="text"),)
)
LOGIN = {
    "id": 23,
    "method": "elicitation/create",
    "params": {"sessionId": "s1", "mode": "url", "message": "Log in", "elicitationId": "e1", "url": "https://a.b"},
}
VISITED = {"method": "elicitation/complete", "params": {"elicitationId": "e1"}}
ACCEPTED = b'{"jsonrpc":"2.0","id":23,"result":{"action":"accept"}}\n'
QUESTION_TEXT = "Why?\n\na\n(or skip it)"


async def leg(turn: AgentTurn) -> list[Event]:
    events: list[Event] = []
    async with asyncio.timeout(SOON):
        while not events or not isinstance(events[-1], Finished | Failed):
            events += await turn.events()
    return events


def texts(events: list[Event]) -> list[str]:
    return [event.part.text for event in events if isinstance(event, PartEnd) and isinstance(event.part, Text)]


async def test_an_event_without_an_entry_changes_nothing(fake: FakeTurn) -> None:
    for state, event in itertools.product(TurnState, TurnEvent):
        fake.turn.state = state
        assert fake.turn._advance(event) is (event in TRANSITIONS[state])
        assert fake.turn.state is TRANSITIONS[state].get(event, state)


async def test_a_call_between_legs_waits_for_the_next_leg(fake: FakeTurn) -> None:
    turn = await fake.begin()
    call = fake.call()
    await asyncio.sleep(0)
    assert (turn.state, turn.pending) == (TurnState.BETWEEN_LEGS, frozenset())
    turn.begin()
    assert turn.state is TurnState.BATCHING
    assert (await leg(turn))[-1] == Finished(reason=StopReason.TOOL_USE)
    assert (turn.state, turn.pending) == (TurnState.BETWEEN_LEGS, frozenset(["call_1"]))
    turn.answer([ToolResult(call_id="call_1", content=(Text(text="7"),))], "", None)
    assert (await call).content == (Text(text="7"),)


async def test_a_leg_stays_open_if_the_agent_gives_up_its_calls_and_a_question_that_waited_is_put(
    fake: FakeTurn,
) -> None:
    turn = await fake.begin()
    turn.begin()
    call = fake.call()
    await asyncio.sleep(0)
    fake.session.receive(QUESTION)
    assert turn.state is TurnState.BATCHING, "calls of a leg come before its question"
    call.cancel()
    events = await leg(turn)
    assert turn.awaits_answer
    assert texts(events) == [QUESTION_TEXT]
    assert turn.pending == frozenset()


async def test_a_leg_without_calls_streams_again_after_the_batch_window(fake: FakeTurn) -> None:
    turn = await fake.begin()
    turn.begin()
    call = fake.call()
    await asyncio.sleep(0)
    call.cancel()
    await until(lambda: turn.state is TurnState.STREAMING)
    fake.session.receive(facts.TextChunk(session="s1", text="never mind"))
    fake.end()
    assert (await leg(turn))[-1] == Finished(reason=StopReason.END_TURN)


async def test_a_withdrawn_question_is_not_answered_by_the_next_message(fake: FakeTurn) -> None:
    turn = await fake.begin()
    turn.begin()
    fake.session.receive(QUESTION)
    assert turn.awaits_answer
    fake.session.receive(facts.Withdrawn(number=7))
    assert (turn.state, turn.awaits_answer) == (TurnState.BETWEEN_LEGS, False)


async def test_a_question_is_accepted_if_the_agent_reports_that_its_address_was_visited(fake: FakeTurn) -> None:
    turn = await fake.begin()
    turn.begin()
    fake.hear(LOGIN)
    assert turn.awaits_answer
    fake.hear(VISITED)
    assert (turn.state, fake.sent[-1]) == (TurnState.BETWEEN_LEGS, ACCEPTED)


async def test_a_turn_that_ends_after_its_client_has_left_does_not_cost_the_session(fake: FakeTurn) -> None:
    turn = await fake.begin()
    turn.begin()
    fake.hear(LOGIN)
    (question,) = texts(await leg(turn))
    turn.leave()
    fake.hear(VISITED)
    fake.session.receive(facts.TextChunk(session="s1", text="Logged in."))
    fake.end()
    request = asks("go", says("assistant", Text(text=question)), "done")
    assert seen_parts(fake.session, fingerprint_of(request)) == 1


async def test_a_question_in_the_inbox_is_accepted_if_the_agent_reports_that_its_address_was_visited(
    fake: FakeTurn,
) -> None:
    person = Person(NEVER, is_present=True)
    fake.turn.host = Host(person)
    turn = await fake.begin()
    turn.begin()
    fake.hear(LOGIN)
    async with asyncio.timeout(SOON):
        await person.is_asked.wait()
    fake.hear(VISITED)
    assert fake.sent[-1] == ACCEPTED
    await until(lambda: person.withdrawn == 1)
    sent = len(fake.sent)
    fake.hear(VISITED)
    assert len(fake.sent) == sent, "the question was answered again"


async def test_a_question_in_the_inbox_is_accepted_even_if_its_address_was_visited_at_once(fake: FakeTurn) -> None:
    person = Person(NEVER, is_present=True)
    fake.turn.host = Host(person)
    turn = await fake.begin()
    turn.begin()
    fake.hear(LOGIN)
    fake.hear(VISITED)
    assert fake.sent[-1] == ACCEPTED
    await asyncio.sleep(0)
    assert person.asked == []


async def test_a_question_that_waits_for_another_one_is_not_asked_if_its_address_was_visited(fake: FakeTurn) -> None:
    turn = await fake.begin()
    turn.begin()
    fake.session.receive(QUESTION)
    fake.hear(LOGIN)
    assert texts(await leg(turn)) == [QUESTION_TEXT]
    fake.hear(VISITED)
    assert (turn.awaits_answer, fake.sent[-1]) == (True, ACCEPTED), "the first question is still open"
    turn.take_answer("because", fake.fingerprint, turn.host)
    turn.begin()
    fake.end()
    assert texts(await leg(turn)) == []


async def test_a_leg_that_begins_without_an_answer_repeats_the_question(fake: FakeTurn) -> None:
    turn = await fake.begin()
    turn.begin()
    fake.session.receive(QUESTION)
    await leg(turn)
    turn.begin()
    assert texts(await leg(turn)) == [QUESTION_TEXT]
    assert turn.awaits_answer


async def test_a_turn_that_ends_between_legs_leaves_its_ending_for_the_next_leg(fake: FakeTurn) -> None:
    turn = await fake.begin()
    fake.session.receive(facts.TextChunk(session="s1", text="done"))
    fake.end()
    assert turn.state is TurnState.CLOSED
    assert (len(fake.returned), fake.session.is_busy) == (1, False)
    turn.begin()
    assert turn.state is TurnState.CLOSED
    events = await leg(turn)
    assert (texts(events), events[-1]) == (["done"], Finished(reason=StopReason.END_TURN))


async def test_a_cancelled_turn_is_released_after_the_agent_has_ended_it_and_a_pause(fake: FakeTurn) -> None:
    turn = await fake.begin()
    turn.cancel()
    turn.cancel()
    assert (turn.state, fake.session.is_busy) == (TurnState.CANCELLING, True)
    fake.end(StopReason.CANCELLED, "cancelled")
    assert (turn.state, fake.session.is_busy) == (TurnState.SETTLING, True)
    fake.session.receive(facts.TextChunk(session="s1", text="too late"))
    await until(lambda: turn.state is TurnState.CLOSED)
    assert (len(fake.returned), fake.retired, fake.session.is_busy) == (1, 0, False)


async def test_an_agent_that_does_not_end_a_cancelled_turn_is_retired() -> None:
    fake = FakeTurn(cancel_within=0.01)
    turn = await fake.begin()
    turn.cancel()
    await until(lambda: turn.state is TurnState.CLOSED)
    assert (len(fake.returned), fake.retired, fake.session.is_busy) == (1, 1, False)
    await fake.tasks.aclose()


# ── files and terminals ──────────────────────────────────────────────────────────────────────────


class SlowTerminals:
    """Terminals whose every command waits for the person, or runs for ever."""

    def __init__(self) -> None:
        self.waiting = 0
        self.stopped = 0
        self.killed: list[str] = []

    async def create(self, command: Any, host: Host) -> str:
        if command.program == "ask":
            await self._for_ever()
        return "t1"

    async def wait(self, terminal: str) -> CommandExit:
        await self._for_ever()
        return CommandExit()

    async def kill(self, terminal: str) -> None:
        self.killed.append(terminal)

    async def _for_ever(self) -> None:
        self.waiting += 1
        try:
            await asyncio.Event().wait()
        finally:
            self.stopped += 1


def asked(number: int, method: str, **params: Any) -> dict[str, Any]:
    return {"id": number, "method": f"terminal/{method}", "params": {"sessionId": "s1", **params}}


async def begun(terminals: SlowTerminals, **terms: Any) -> FakeTurn:
    """A turn with an open leg, whose agent may use these terminals."""
    fake = FakeTurn(terminals=terminals, **terms)
    fake.machine = fake.agent.machine = ClientSide(ClientOffer(terminals=True))
    (await fake.begin()).begin()
    return fake


@pytest.mark.parametrize("withdrawal", ["cancel", "$/cancel_request"])
async def test_a_command_that_waits_for_the_person_is_withdrawn(withdrawal: str) -> None:
    host = SlowTerminals()
    fake = await begun(host)
    fake.hear(asked(5, "create", command="ask"))
    await until(lambda: host.waiting == 1)
    if withdrawal == "cancel":
        fake.turn.cancel()
    else:
        fake.hear({"method": withdrawal, "params": {"requestId": 5}})
    await until(lambda: host.stopped == 1)
    fake.agent.push()
    assert b'"id":5,"error"' in b"".join(fake.sent)
    await fake.tasks.aclose()


async def test_a_cancelled_agent_can_still_end_its_commands() -> None:
    host = SlowTerminals()
    fake = await begun(host)
    fake.hear(asked(5, "create", command="make"))
    await until(lambda: fake.session.terminals == {"t1"})
    fake.turn.cancel()
    fake.hear(asked(6, "kill", terminalId="t1"))
    await until(lambda: host.killed == ["t1"])
    await fake.tasks.aclose()


async def test_an_agent_that_waits_for_a_command_is_not_silent() -> None:
    host = SlowTerminals()
    fake = await begun(host, stall_after=0.05)
    fake.hear(asked(5, "create", command="make"))
    await until(lambda: fake.session.terminals == {"t1"})
    fake.hear(asked(6, "wait_for_exit", terminalId="t1"))
    await until(lambda: host.waiting == 1)
    silent_since = fake.turn._active_at
    await until(lambda: fake.turn._active_at > silent_since or fake.turn.is_over)
    assert fake.turn.state is TurnState.STREAMING
    await fake.tasks.aclose()
