"""Tools of the gateway inside one leg of the client: hidden, run, answered, and the turn goes on."""

from collections.abc import AsyncGenerator, Sequence

import pytest

from tests.cases import CLOCK, READ, USAGE, asks, leg
from tests.grammar import check
from tieline.core.inbox.inbox import Inbox
from tieline.core.legs.gateway import Gateway
from tieline.core.legs.leg import LegClient
from tieline.core.legs.routing import Router
from tieline.core.legs.turn import MAX_ROUNDS, GatewayToolsRun, with_gateway_tools
from tieline.model.content import Message, Part, Text, Thinking, ToolCall, ToolResult
from tieline.model.errors import BadRequest, GatewayError
from tieline.model.events import Activity, Batch, Event, Failed, Finished, PartEnd, StopReason, Usage
from tieline.model.inbox import Origin
from tieline.model.ports import Host, ModelInfo, Report, Tools, no_report
from tieline.model.request import Request, ToolSpec
from tieline.tasks import Tasks

LOOK = ToolSpec(name="look")
DO = ToolSpec(name="do")
INBOX = Inbox(mint=lambda: "1", clock=lambda: 0.0)
HOST = Host(INBOX.human(Origin()))


def call(name: str, call_id: str = "call_1", arguments: str = "{}") -> tuple[Part, list[str]]:
    return ToolCall(id=call_id, name=name), [arguments]


def says(text: str) -> tuple[Part, list[str]]:
    return Text(), [text]


def calls(*parts: tuple[Part, list[str]], usage: Usage = USAGE) -> list[Event]:
    return leg(*parts, reason=StopReason.TOOL_USE, usage=usage)


class Legs:
    """A run that gives these legs one after the other; `live` ones wait for their calls."""

    def __init__(self, *legs: list[Event], live: bool = False) -> None:
        self.answered: list[tuple[tuple[ToolResult, ...], Request | None, str]] = []
        self.closed = 0
        self.open_legs = 0
        self._legs = iter(legs)
        self._live = live
        self._pending: set[str] = set()

    @property
    def pending(self) -> frozenset[str]:
        return frozenset(self._pending)

    async def leg(self) -> AsyncGenerator[Batch, None]:
        events = next(self._legs)
        if self._live:
            parts = [event.part for event in events if isinstance(event, PartEnd)]
            self._pending = {part.id for part in parts if isinstance(part, ToolCall)}
        self.open_legs += 1
        try:
            for start in range(0, len(events), 3):
                yield events[start : start + 3]
        finally:
            self.open_legs -= 1

    async def answer(self, results: Sequence[ToolResult], request: Request | None = None, words: str = "") -> None:
        self.answered.append((tuple(results), request, words))
        self._pending -= {result.call_id for result in results}

    async def aclose(self) -> None:
        self.closed += 1


class Box:
    """Two tools; `do` is offered only after `look` was called, if so wanted."""

    def __init__(self, *specs: ToolSpec, then: tuple[ToolSpec, ...] | None = None) -> None:
        self.specs = specs
        self.done: list[ToolCall] = []
        self._then = then

    def owns(self, name: str) -> bool:
        return name in ("look", "do")

    def kind_of(self, call: ToolCall) -> str:
        return "read" if call.name == "look" else "other"

    async def execute(self, call: ToolCall, host: Host, report: Report = no_report) -> ToolResult:
        assert host is HOST
        self.done.append(call)
        if self._then is not None:
            self.specs = self._then
        text = f"result {len(self.done)}"
        return ToolResult(call_id=call.id, content=(Text(text=text),), is_error=call.arguments == '{"fail":1}')


def tooled(run: Legs, box: Box, *tools: ToolSpec) -> GatewayToolsRun:
    return GatewayToolsRun(run, box, HOST, asks("go", tools=tools))


async def heard(run: GatewayToolsRun) -> list[Event]:
    """All that a client sees of a leg; it keeps the grammar."""
    turn = run.leg()
    try:
        events = [event async for batch in turn for event in batch]
    finally:
        await turn.aclose()
    check(events)
    return events


def of_kind(events: Sequence[Event], kind: type[Event]) -> list[Event]:
    return [event for event in events if isinstance(event, kind)]


def parts(events: Sequence[Event]) -> list[Part]:
    return [event.part for event in events if isinstance(event, PartEnd)]


# ── Calls of ours ────────────────────────────────────────────────────────────────────────────────


async def test_a_call_of_ours_is_run_and_the_client_sees_one_leg() -> None:
    run, box = Legs(calls(says("Wait."), call("look")), leg(says("Done."))), Box(LOOK)
    events = await heard(tooled(run, box))
    assert parts(events) == [Text(text="Wait."), Text(text="Done.")]
    assert events[-1] == Finished(reason=StopReason.END_TURN)
    assert [one.name for one in box.done] == ["look"]
    assert run.answered == [((ToolResult(call_id="call_1", content=(Text(text="result 1"),)),), None, "")]


async def test_a_call_of_ours_is_shown_as_an_activity_from_its_beginning_to_its_end() -> None:
    arguments = '{"content": "x", "path": "a\\nb"}'
    run = Legs(calls(call("look", arguments=arguments)), leg(says("Done.")))
    events = await heard(tooled(run, Box(LOOK)))
    title = "look a b"
    assert of_kind(events, Activity) == [
        Activity(id="call_1", kind="read", title=title),
        Activity(id="call_1", kind="read", title=title, status="completed", output="result 1"),
    ]


@pytest.mark.parametrize(
    ("arguments", "title"),
    [
        ("{}", "look"),
        ('{"command": "ls -la"}', "look ls -la"),
        ('{"deep": {"a": 1}}', 'look {"deep": {"a": 1}}'),
        ('{"path": 5}', 'look {"path": 5}'),
        ("[1]", "look [1]"),
        ("{half", "look {half"),
        (f'{{"path": "{"x" * 200}"}}', f"look {'x' * 120}…"),
    ],
)
async def test_the_title_of_an_activity_says_what_the_call_is_about(arguments: str, title: str) -> None:
    run = Legs(calls(call("look", arguments=arguments)), leg())
    events = await heard(tooled(run, Box(LOOK)))
    assert {event.title for event in events if isinstance(event, Activity)} == {title}


async def test_a_failure_of_ours_is_shown_as_one_and_told_to_the_model() -> None:
    run = Legs(calls(call("look", arguments='{"fail":1}')), leg(says("Done.")))
    events = await heard(tooled(run, Box(LOOK)))
    assert of_kind(events, Activity)[-1] == Activity(
        id="call_1", kind="read", title='look {"fail":1}', status="failed", output="result 1"
    )
    assert run.answered[0][0][0].is_error


async def test_several_calls_are_run_in_order_and_answered_together() -> None:
    run = Legs(calls(call("look", "a"), says("and"), call("look", "b")), leg(says("Done.")))
    box = Box(LOOK)
    events = await heard(tooled(run, box))
    assert [one.id for one in box.done] == ["a", "b"]
    assert [result.call_id for result in run.answered[0][0]] == ["a", "b"]
    assert parts(events) == [Text(text="and"), Text(text="Done.")]


async def test_what_came_of_a_call_is_told_before_the_next_is_run() -> None:
    run, box = Legs(calls(call("look", "a"), call("look", "b")), leg()), Box(LOOK)
    turn = tooled(run, box).leg()
    async for batch in turn:
        if any(isinstance(event, Activity) and event.status == "completed" for event in batch):
            break
    assert [one.id for one in box.done] == ["a"]
    await turn.aclose()


async def test_rounds_follow_one_another_and_usage_adds_up() -> None:
    uses = [Usage(input=n, output=10 * n, cache_read=1, cache_write=2, reasoning=3) for n in (1, 2, 4)]
    run = Legs(calls(call("look"), usage=uses[0]), calls(call("do"), usage=uses[1]), leg(says("Done."), usage=uses[2]))
    events = await heard(tooled(run, Box(LOOK, DO)))
    assert of_kind(events, Usage)[-1] == Usage(input=7, output=70, cache_read=3, cache_write=6, reasoning=9)
    assert len(run.answered) == 2


async def test_ids_that_are_used_again_in_the_next_round_are_other_activities() -> None:
    run = Legs(calls(call("look", "0")), calls(call("look", "0")), leg(says("Done.")))
    events = await heard(tooled(run, Box(LOOK)))
    ids = [event.id for event in events if isinstance(event, Activity)]
    assert ids == ["0", "0", "0#1", "0#1"]


async def test_thinking_between_our_calls_passes() -> None:
    run = Legs(calls((Thinking(), ["hm"]), call("look")), leg((Thinking(), ["so"]), says("Done.")))
    events = await heard(tooled(run, Box(LOOK)))
    assert parts(events) == [Thinking(text="hm"), Thinking(text="so"), Text(text="Done.")]


async def test_a_call_that_nobody_owns_is_refused_and_not_shown_to_the_client() -> None:
    run, box = Legs(calls(call("delete_all")), leg(says("Sorry."))), Box(LOOK)
    events = await heard(tooled(run, box))
    assert parts(events) == [Text(text="Sorry.")]
    assert box.done == []
    result = run.answered[0][0][0]
    assert result.is_error
    assert "no tool `delete_all`" in str(result.content)


async def test_a_model_that_never_ends_is_stopped() -> None:
    run = Legs(*(calls(call("look")) for _ in range(MAX_ROUNDS + 1)))
    with pytest.raises(GatewayError) as caught:
        await heard(tooled(run, Box(LOOK)))
    assert caught.value.code == "too_many_rounds"
    assert len(run.answered) == MAX_ROUNDS


@pytest.mark.parametrize("reason", [StopReason.MAX_TOKENS, StopReason.CONTEXT_FULL, StopReason.REFUSAL])
async def test_nothing_is_run_of_a_leg_that_was_cut_short(reason: StopReason) -> None:
    """Half of a call can look like a whole one: `rm -rf /tmp/x` begins with `rm -rf /`."""
    box = Box(LOOK)
    run = Legs(leg(call("look"), reason=reason), live=True)
    turn = tooled(run, box)
    events = await heard(turn)
    assert events[-1] == Finished(reason=reason)
    assert box.done == []
    assert [event.status for event in events if isinstance(event, Activity)] == ["pending", "failed"]
    assert turn.pending == frozenset(), "the client cannot answer a call it never saw"


async def test_a_leg_that_fails_after_a_call_of_ours_runs_nothing() -> None:
    box, failed = Box(LOOK), Failed(kind="upstream", message="gone")
    events = await heard(tooled(Legs([*calls(call("look"))[:-2], failed]), box))
    assert events[-1] is failed
    assert box.done == []


async def test_each_leg_of_the_run_is_closed() -> None:
    run = Legs(calls(call("look")), leg(says("Done.")))
    await heard(tooled(run, Box(LOOK)))
    assert run.open_legs == 0


async def test_giving_up_in_the_middle_closes_the_leg_under_way() -> None:
    run = Legs(calls(call("look")), leg(says("Done.")))
    turn = tooled(run, Box(LOOK)).leg()
    await turn.__anext__()
    await turn.aclose()
    assert run.open_legs == 0


# ── Calls of both ────────────────────────────────────────────────────────────────────────────────


async def test_of_calls_of_both_kinds_ours_are_run_and_the_client_gets_its_own() -> None:
    run = Legs(calls(call("look", "ours"), call("read", "theirs")), leg(says("Done.")), live=True)
    box = Box(LOOK)
    turn = tooled(run, box, READ)
    events = await heard(turn)
    assert [part.id for part in parts(events) if isinstance(part, ToolCall)] == ["theirs"]
    assert events[-1] == Finished(reason=StopReason.TOOL_USE)
    assert [one.id for one in box.done] == ["ours"]
    assert turn.pending == frozenset({"theirs"})
    result = ToolResult(call_id="theirs", content=(Text(text="fine"),))
    await turn.answer([result], asks("go", "later", tools=(CLOCK,)), "hurry")
    results, request, words = run.answered[-1]
    assert (results, words) == ((result,), "hurry")
    assert request is not None
    assert request.tools == (CLOCK, LOOK), "the tools of now, and ours still"
    assert parts(await heard(turn)) == [Text(text="Done.")]


async def test_a_call_of_the_client_alone_passes_as_it_is() -> None:
    run = Legs(calls(call("read")), live=True)
    turn = tooled(run, Box(LOOK), READ)
    events = await heard(turn)
    assert events == calls(call("read"))
    assert turn.pending == frozenset({"call_1"})
    assert run.answered == []


async def test_of_two_tools_with_one_name_the_clients_counts() -> None:
    mine = ToolSpec(name="look", description="the client's own")
    assert with_gateway_tools(asks("go", tools=(mine,)), Box(LOOK, DO)).tools == (mine, DO)
    run, box = Legs(calls(call("look")), live=True), Box(LOOK)
    events = await heard(tooled(run, box, mine))
    assert len([part for part in parts(events) if isinstance(part, ToolCall)]) == 1
    assert box.done == []


# ── Tools that change ────────────────────────────────────────────────────────────────────────────


async def test_when_a_call_changes_the_tools_the_model_is_offered_the_new_ones_with_the_whole_history() -> None:
    run = Legs(calls(says("Wait."), call("look")), calls(call("do", "call_2")), leg(says("Done.")))
    await heard(tooled(run, Box(LOOK, then=(LOOK, DO)), READ))
    first, second = (request for _, request, _ in run.answered)
    assert first is not None
    assert first.tools == (READ, LOOK, DO)
    assert first.messages[1:] == (
        Message(role="assistant", parts=(Text(text="Wait."), ToolCall(id="call_1", name="look", arguments="{}"))),
        Message(role="user", parts=(ToolResult(call_id="call_1", content=(Text(text="result 1"),)),)),
    )
    assert second is None, "nothing new"


# ── In the gateway ───────────────────────────────────────────────────────────────────────────────


class Model:
    """A backend of one model that gives these legs."""

    name = "m"
    is_agent = False

    def __init__(self, *legs: list[Event], reads_options: bool = False) -> None:
        self.run = Legs(*legs)
        self.requests: list[Request] = []
        self.reads_options = reads_options
        self.obeys_limits = True

    async def models(self) -> Sequence[ModelInfo]:
        return [ModelInfo(id="x")]

    async def start(self, request: Request, host: Host) -> Legs:
        self.requests.append(request)
        return self.run

    async def count(self, request: Request) -> int | None:
        self.requests.append(request)
        return 7

    async def aclose(self) -> None:
        """Nothing to free."""


WITH_TOOLS = LegClient("test", gets_tools=True)


class Chest:
    """A toolbox that knows two modes."""

    def __init__(self) -> None:
        self.modes: list[str] = []

    def open(self, mode: str) -> Tools:
        if mode not in ("agent", "plan"):
            raise BadRequest(f"there is no mode {mode}", "model")
        self.modes.append(mode)
        return _Any(LOOK)


class _Any(Box):
    """Does not care for whom it works."""

    async def execute(self, call: ToolCall, host: Host, report: Report = no_report) -> ToolResult:
        return await super().execute(call, HOST, report)


async def answer(model: Model, request: Request, chest: Chest | None, client: LegClient = WITH_TOOLS) -> list[Event]:
    tasks = Tasks()
    gateway = Gateway(
        Router({"m": model}, aliases={"fast": "m/x"}), tasks=tasks, inbox=INBOX, toolbox=chest, clock=lambda: 0.0
    )
    turn = await gateway.open(request, client)
    try:
        events = [event async for batch in turn for event in batch]
    finally:
        await turn.aclose()
        await gateway.aclose()
        await tasks.aclose()
    check(events)
    return events


def to(name: str, *tools: ToolSpec) -> Request:
    return Request(model=name, messages=asks("go").messages, tools=tools)


async def test_a_client_without_tools_is_offered_ours_and_sees_what_is_done_as_thinking() -> None:
    model = Model(calls(call("look")), leg(says("Done.")))
    events = await answer(model, to("m/x"), Chest())
    assert model.requests[0].tools == (LOOK,)
    assert parts(events) == [Thinking(text="▸ look\n  result 1\n"), Text(text="Done.")]


async def test_a_client_with_tools_is_offered_none_of_ours() -> None:
    model = Model(leg(says("Done.")))
    await answer(model, to("m/x", READ), Chest())
    assert model.requests[0].tools == (READ,)


async def test_a_client_that_is_not_to_have_tools_is_offered_none() -> None:
    model = Model(leg(says("Done.")))
    await answer(model, to("m/x"), Chest(), LegClient("test"))
    assert model.requests[0].tools == ()


async def test_a_request_for_a_title_is_offered_none_unless_it_comes_from_the_page() -> None:
    title = Request(model="m/x", messages=asks("Generate a title for this conversation:").messages)
    for client, tools in ((WITH_TOOLS, ()), (LegClient("web", gets_tools=True, sends_background=False), (LOOK,))):
        model = Model(leg(says("Done.")))
        await answer(model, title, Chest(), client)
        assert model.requests[0].tools == tools


async def test_without_tools_of_ours_nothing_is_offered() -> None:
    model = Model(leg(says("Done.")))
    await answer(model, to("m/x"), None)
    assert model.requests[0].tools == ()


@pytest.mark.parametrize(
    ("name", "mode"), [("m/x", "agent"), ("m/x?mode=plan", "plan"), ("fast?mode=plan", "plan"), ("fast", "agent")]
)
async def test_the_mode_stands_behind_the_name_of_the_model(name: str, mode: str) -> None:
    model, chest = Model(leg(says("Done."))), Chest()
    await answer(model, to(name), chest)
    assert chest.modes == [mode]
    assert model.requests[0].model == "x"


async def test_a_mode_there_is_not_is_the_clients_mistake() -> None:
    model = Model(leg(says("Done.")))
    events = await answer(model, to("m/x?mode=party"), Chest())
    assert isinstance(events[0], Failed)
    assert (events[0].status, events[0].param) == (400, "model")
    assert model.requests == []


async def test_a_backend_that_reads_options_gets_them() -> None:
    model = Model(leg(says("Done.")), reads_options=True)
    await answer(model, to("m/x?mode=plan"), Chest())
    assert model.requests[0].model == "x?mode=plan"


async def test_a_prompt_is_counted_for_the_model_without_its_mode() -> None:
    model, tasks = Model(), Tasks()
    gateway = Gateway(Router({"m": model}), tasks=tasks, inbox=INBOX, toolbox=Chest(), clock=lambda: 0.0)
    assert (await gateway.count(to("m/x?mode=plan"))).tokens == 7
    assert model.requests[0].model == "x"
    await tasks.aclose()


async def test_what_was_shown_is_not_remembered_as_what_the_model_thought() -> None:
    """The next request would send it upstream as thinking."""
    model = Model(calls((Thinking(), ["hm"]), call("look")), leg(says("Done.")), leg(says("Fine.")))
    tasks = Tasks()
    gateway = Gateway(Router({"m": model}), tasks=tasks, inbox=INBOX, toolbox=Chest(), clock=lambda: 0.0)
    messages = asks("go").messages
    for history in (messages, (*messages, Message(role="assistant", parts=(Text(text="Done."),)), *messages)):
        turn = await gateway.open(Request(model="m/x", messages=history), WITH_TOOLS)
        async for _ in turn:
            pass
        await turn.aclose()
    assert model.requests[1].messages[1].parts == (Thinking(text="hm"), Text(text="Done."))
    await tasks.aclose()
