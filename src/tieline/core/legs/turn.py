"""A run whose model may call the gateway's own tools.

The client sees one leg, in which a call to a gateway tool appears as an activity instead of a call. When a leg of the
run ends, these calls are executed, their results are submitted to the run, and its next leg continues the client's leg.
If the model also called the client's tools, the client's leg ends after the results of the gateway tools have been
submitted, and the run waits for the client's results. A call to an unknown tool is answered with an error, because a
call without a result would stall the run. After a truncated leg nothing is executed, because its last call may be
incomplete.
"""

from collections import deque
from collections.abc import Sequence
from typing import Any, Self

import msgspec
from msgspec.structs import replace

from tieline.core.legs.tool_progress import RunningCall
from tieline.model.content import Message, Part, Text, ToolCall, ToolResult
from tieline.model.errors import GatewayError
from tieline.model.events import (
    Activity,
    Batch,
    Event,
    Failed,
    Finished,
    PartDelta,
    PartEnd,
    PartStart,
    Started,
    StopReason,
    Usage,
)
from tieline.model.ports import Host, Leg, Report, Run, Tools
from tieline.model.request import Request
from tieline.model.splice import Splice

MAX_ROUNDS = 100
MAX_TITLE = 120

_COMPLETE = (StopReason.TOOL_USE, StopReason.END_TURN, StopReason.STOP_SEQUENCE)
"""Stop reasons of a leg whose calls are all complete."""
_TITLE_ARGUMENTS = ("command", "path", "pattern", "question", "title", "mode")
"""Arguments that describe a call in its title, in order of preference."""
_TRUNCATED = "Not run: the answer was cut short."


def with_gateway_tools(request: Request, tools: Tools) -> Request:
    """Return the request with the gateway's tools added, except tools that have the same name as a client's tool."""
    own = {tool.name for tool in request.tools}
    return replace(request, tools=(*request.tools, *(spec for spec in tools.specs if spec.name not in own)))


class GatewayToolsRun:
    """A run whose model is offered the gateway's tools. `request` is the client's request, without these tools."""

    def __init__(self, run: Run, tools: Tools, host: Host, request: Request) -> None:
        self._run = run
        self._tools = tools
        self._host = host
        self._request = request
        self._hidden: set[str] = set()
        """The ids of the calls that are hidden from the client: calls to gateway tools and to unknown tools."""
        self.rounds: list[Message] = []
        """The calls to gateway tools and their results, for clients that keep them in their history."""

    @property
    def pending(self) -> frozenset[str]:
        """The ids of the calls whose results must come from the client."""
        return self._run.pending - self._hidden

    def leg(self) -> Leg:
        return _MergedLeg(self._run, self._tools, self._host, self._request, self._hidden, self.rounds)

    async def answer(self, results: Sequence[ToolResult], request: Request | None = None, words: str = "") -> None:
        if request is not None:
            self._request = request
            request = with_gateway_tools(request, self._tools)
        await self._run.answer(results, request, words)

    async def aclose(self) -> None:
        await self._run.aclose()


class _MergedLeg:
    """One leg for the client, made of one or more legs of the run."""

    def __init__(
        self, run: Run, tools: Tools, host: Host, request: Request, hidden: set[str], rounds: list[Message]
    ) -> None:
        self._rounds = rounds
        self._run = run
        self._tools = tools
        self._host = host
        self._request = request
        self._offered = with_gateway_tools(request, tools).tools
        self._client_names = {tool.name for tool in request.tools}
        self._hidden = hidden
        self._leg: Leg | None = None
        self._splice = Splice()
        self._has_started = False
        self._is_hidden = False
        """Whether the part being received is hidden from the client, as a call to a gateway tool or an unknown tool."""
        self._reply: list[Part] = []
        self._to_execute: deque[tuple[ToolCall, Activity]] = deque()
        self._running: RunningCall | None = None
        self._client_calls = 0
        self._results: list[ToolResult] = []
        self._round = 0
        self._is_over = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Batch:
        while not self._is_over:
            batch = await self._next()
            if batch:
                return batch
        raise StopAsyncIteration

    async def aclose(self) -> None:
        if self._running is not None:
            await self._running.aclose()
        if self._leg is not None:
            await self._leg.aclose()

    async def _next(self) -> Batch:
        """Take the next step: read a batch, run a call, or submit all results. Return the events for the client."""
        if self._running is not None:
            return await self._progress(self._running)
        if self._leg is None and self._to_execute:
            self._running = self._begin_call(*self._to_execute.popleft())
            return []
        if self._leg is None and self._results:
            return await self._submit()
        if self._leg is None:
            self._reply = []
            self._leg = self._run.leg()
        return await self._translated(await self._leg.__anext__())

    # ── Events from the model ────────────────────────────────────────────────────────────────────

    async def _translated(self, batch: Batch) -> list[Event]:
        """Convert a batch for the client. The ending of a leg with calls to gateway tools is left out."""
        out: list[Event] = []
        for event in batch:
            match event:
                case Started():
                    if not self._has_started:
                        out.append(event)
                    self._has_started = True
                case PartStart() | PartDelta() | PartEnd():
                    out += self._part(event)
                case Usage():
                    out.append(self._splice.add(event))
                case Finished() if self._to_execute:
                    out += await self._leg_over(event)
                case _:
                    self._is_over = self._is_over or isinstance(event, Finished | Failed)
                    out.append(event)
        return out

    def _part(self, event: PartStart | PartDelta | PartEnd) -> list[Event]:
        if isinstance(event, PartStart):
            self._is_hidden = isinstance(event.part, ToolCall) and event.part.name not in self._client_names
        if isinstance(event, PartEnd):
            self._reply.append(event.part)
            if isinstance(event.part, ToolCall):
                return self._called(event, event.part)
        return [] if self._is_hidden else [self._splice.renumber(event)]

    def _called(self, event: PartEnd, call: ToolCall) -> list[Event]:
        if not self._is_hidden:
            self._client_calls += 1
            return [self._splice.renumber(event)]
        # Some upstreams number their calls from zero in every leg; the activities still need different ids.
        shown_id = f"{call.id}#{self._round}" if call.id in self._hidden else call.id
        activity = Activity(id=shown_id, kind=self._tools.kind_of(call), title=_title(call))
        self._hidden.add(call.id)
        self._to_execute.append((call, activity))
        return [activity]

    async def _leg_over(self, finished: Finished) -> list[Event]:
        """Close a leg of the run in which the model called gateway tools.

        If the leg was truncated, return its calls as failed activities, followed by the ending.
        """
        leg, self._leg = self._leg, None
        if leg is not None:
            await leg.aclose()
        if finished.reason not in _COMPLETE:
            self._is_over = True
            return [
                *(replace(activity, status="failed", output=_TRUNCATED) for _, activity in self._to_execute),
                finished,
            ]
        self._round += 1
        if self._round > MAX_ROUNDS:
            message = f"The model called tools in {MAX_ROUNDS} rounds without coming to an end."
            raise GatewayError("upstream", message, code="too_many_rounds")
        return []

    # ── Execution of calls ───────────────────────────────────────────────────────────────────────

    def _begin_call(self, call: ToolCall, activity: Activity) -> RunningCall:
        return RunningCall(activity, lambda report: self._execute(call, report))

    async def _progress(self, running: RunningCall) -> Batch:
        """Wait for progress or the result of the running call, and return the events for the client."""
        events = await running.events()
        if running.result is not None:
            self._results.append(running.result)
            self._running = None
        return events

    async def _execute(self, call: ToolCall, report: Report) -> ToolResult:
        if self._tools.owns(call.name):
            return await self._tools.execute(call, self._host, report)
        text = f"There is no tool `{call.name}`. Use one that was offered, or answer without a tool."
        return ToolResult(call_id=call.id, content=(Text(text=text),), is_error=True)

    async def _submit(self) -> Batch:
        """Submit the results to the run. End the client's leg if the model also called the client's tools."""
        results, self._results = self._results, []
        await self._run.answer(results, self._changed(results))
        if self._client_calls:
            self._is_over = True
            return [Finished(reason=StopReason.TOOL_USE)]
        self._splice.next_leg()
        return []

    def _changed(self, results: Sequence[ToolResult]) -> Request | None:
        """Add the reply and the results to the history. Return the new request if the offered tools have changed."""
        said = Message(role="assistant", parts=tuple(self._reply))
        done = (said, Message(role="user", parts=tuple(results)))
        self._rounds += done
        self._request = replace(self._request, messages=(*self._request.messages, *done))
        now = with_gateway_tools(self._request, self._tools)
        if now.tools == self._offered:
            return None
        self._offered = now.tools
        return now


def _title(call: ToolCall) -> str:
    """Return a one-line title for a call: its name and its most descriptive argument."""
    argument = " ".join(_descriptive_argument(call).split())
    return f"{call.name} {argument[:MAX_TITLE]}{'…' if len(argument) > MAX_TITLE else ''}".strip()


def _descriptive_argument(call: ToolCall) -> str:
    try:
        arguments: Any = msgspec.json.decode(call.arguments)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return call.arguments
    if not isinstance(arguments, dict):
        return call.arguments
    texts = (arguments[name] for name in _TITLE_ARGUMENTS if isinstance(arguments.get(name), str))
    return next(texts, call.arguments if arguments else "")
