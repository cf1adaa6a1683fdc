"""A run whose model may call tools of the gateway: those are run here, and only the client's own calls reach it.

For the client it is still one leg. A call of ours is left out of what it sees and shown as an activity instead; when
the leg of the run is over our calls are run, with what can be seen of them meanwhile, the results handed over, and the
next leg follows on. A leg that made calls of both kinds runs ours, and then waits for the client's. A call that nobody
owns is refused at once: a call without an answer would stall the run. A leg that was cut short runs nothing: its last
call may be half of one.
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

MOST_ROUNDS = 100
LONGEST_TITLE = 120

_WHOLE = (StopReason.TOOL_USE, StopReason.END_TURN, StopReason.STOP_SEQUENCE)
"""The endings after which no call can have been cut short."""
_TELLING = ("command", "path", "pattern", "question", "title", "mode")
"""Arguments that say by themselves what a call is about, the most telling first."""


def with_gateway_tools(request: Request, tools: Tools) -> Request:
    """The request with the gateway's tools beside the client's own; of two with one name the client's counts."""
    own = {tool.name for tool in request.tools}
    return replace(request, tools=(*request.tools, *(spec for spec in tools.specs if spec.name not in own)))


class GatewayToolsRun:
    """A run with the gateway's tools; `request` is the client's, without them."""

    def __init__(self, run: Run, tools: Tools, host: Host, request: Request) -> None:
        self._run = run
        self._tools = tools
        self._host = host
        self._request = request
        self._hidden: set[str] = set()
        self.rounds: list[Message] = []
        """The calls of ours and their results, for a client that keeps them in its history."""

    @property
    def pending(self) -> frozenset[str]:
        """The calls that wait for the client: of ours it knows nothing, so it will never bring their results."""
        return self._run.pending - self._hidden

    def leg(self) -> Leg:
        return _Turn(self._run, self._tools, self._host, self._request, self._hidden, self.rounds)

    async def answer(self, results: Sequence[ToolResult], request: Request | None = None, words: str = "") -> None:
        if request is not None:
            self._request = request
            request = with_gateway_tools(request, self._tools)
        await self._run.answer(results, request, words)

    async def aclose(self) -> None:
        await self._run.aclose()


class _Turn:
    """One leg for the client."""

    def __init__(
        self, run: Run, tools: Tools, host: Host, request: Request, hidden: set[str], rounds: list[Message]
    ) -> None:
        self._round_log = rounds
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
        self._is_ours = False
        """Whether the part under way is a call of ours."""
        self._reply: list[Part] = []
        self._ours: deque[tuple[ToolCall, Activity]] = deque()
        self._doing: RunningCall | None = None
        self._theirs = 0
        self._results: list[ToolResult] = []
        self._rounds = 0
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
        if self._doing is not None:
            await self._doing.aclose()
        if self._leg is not None:
            await self._leg.aclose()

    async def _next(self) -> Batch:
        """The next of: what the model says, what is to be seen of a call, the end of a round."""
        if self._doing is not None:
            return await self._watched(self._doing)
        if self._leg is None and self._ours:
            self._doing = self._begun(*self._ours.popleft())
            return []
        if self._leg is None and self._results:
            return await self._hand_over()
        if self._leg is None:
            self._reply = []
            self._leg = self._run.leg()
        return await self._seen(await self._leg.__anext__())

    # ── What the model says ──────────────────────────────────────────────────────────────────────

    async def _seen(self, batch: Batch) -> list[Event]:
        """The batch as it goes on; the end of a leg with calls of ours is not the end of the turn."""
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
                case Finished() if self._ours:
                    out += await self._leg_over(event)
                case _:
                    self._is_over = self._is_over or isinstance(event, Finished | Failed)
                    out.append(event)
        return out

    def _part(self, event: PartStart | PartDelta | PartEnd) -> list[Event]:
        if isinstance(event, PartStart):
            self._is_ours = isinstance(event.part, ToolCall) and event.part.name not in self._client_names
        if isinstance(event, PartEnd):
            self._reply.append(event.part)
            if isinstance(event.part, ToolCall):
                return self._called(event, event.part)
        return [] if self._is_ours else [self._splice.renumber(event)]

    def _called(self, event: PartEnd, call: ToolCall) -> list[Event]:
        if not self._is_ours:
            self._theirs += 1
            return [self._splice.renumber(event)]
        # Some upstreams count their calls from zero in every leg, but for whoever looks on this is another activity.
        shown_id = f"{call.id}#{self._rounds}" if call.id in self._hidden else call.id
        activity = Activity(id=shown_id, kind=self._tools.kind_of(call), title=_title(call))
        self._hidden.add(call.id)
        self._ours.append((call, activity))
        return [activity]

    async def _leg_over(self, finished: Finished) -> list[Event]:
        """A leg of the run has ended in which calls of ours were made."""
        leg, self._leg = self._leg, None
        if leg is not None:
            await leg.aclose()
        if finished.reason not in _WHOLE:
            self._is_over = True
            return [*(replace(activity, status="failed", output=_CUT) for _, activity in self._ours), finished]
        self._rounds += 1
        if self._rounds > MOST_ROUNDS:
            message = f"The model called tools in {MOST_ROUNDS} rounds without coming to an end."
            raise GatewayError("upstream", message, code="too_many_rounds")
        return []

    # ── What we do ───────────────────────────────────────────────────────────────────────────────

    def _begun(self, call: ToolCall, activity: Activity) -> RunningCall:
        return RunningCall(activity, lambda report: self._executed(call, report))

    async def _watched(self, doing: RunningCall) -> Batch:
        """What is new of the call that is being run."""
        events = await doing.events()
        if doing.result is not None:
            self._results.append(doing.result)
            self._doing = None
        return events

    async def _executed(self, call: ToolCall, report: Report) -> ToolResult:
        if self._tools.owns(call.name):
            return await self._tools.execute(call, self._host, report)
        text = f"There is no tool `{call.name}`. Use one that was offered, or answer without."
        return ToolResult(call_id=call.id, content=(Text(text=text),), is_error=True)

    async def _hand_over(self) -> Batch:
        """Give the run the results; it is the client's turn if there are calls of its own, else the run's."""
        results, self._results = self._results, []
        await self._run.answer(results, self._changed(results))
        if self._theirs:
            self._is_over = True
            return [Finished(reason=StopReason.TOOL_USE)]
        self._splice.next_leg()
        return []

    def _changed(self, results: Sequence[ToolResult]) -> Request | None:
        """The request as of now, with the whole history, if the tools are others than before."""
        said = Message(role="assistant", parts=tuple(self._reply))
        done = (said, Message(role="user", parts=tuple(results)))
        self._round_log += done
        self._request = replace(self._request, messages=(*self._request.messages, *done))
        now = with_gateway_tools(self._request, self._tools)
        if now.tools == self._offered:
            return None
        self._offered = now.tools
        return now


_CUT = "Not run: the answer was cut short."


def _title(call: ToolCall) -> str:
    """A call in one line: its name and what it is about."""
    about = " ".join(_about(call).split())
    return f"{call.name} {about[:LONGEST_TITLE]}{'…' if len(about) > LONGEST_TITLE else ''}".strip()


def _about(call: ToolCall) -> str:
    try:
        arguments: Any = msgspec.json.decode(call.arguments)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return call.arguments
    if not isinstance(arguments, dict):
        return call.arguments
    telling = (arguments[name] for name in _TELLING if isinstance(arguments.get(name), str))
    return next(telling, call.arguments if arguments else "")
