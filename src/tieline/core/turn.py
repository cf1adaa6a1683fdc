"""A run whose model may call tools of the gateway: those are run here, and only the client's own calls reach it.

For the client it is still one leg. A call of ours is left out of what it sees and shown as an activity instead; when
the leg of the run is over our calls are run, the results handed over, and the next leg follows on. A leg that made
calls of both kinds runs ours, and then waits for the client's. A call that nobody owns is refused at once: a call
without an answer would stall the run.
"""

from collections.abc import Sequence
from typing import Self

from msgspec.structs import replace

from tieline.core.splice import Splice
from tieline.model.content import Text, ToolCall, ToolResult
from tieline.model.errors import GatewayError
from tieline.model.events import (
    Activity,
    Batch,
    Event,
    Finished,
    PartDelta,
    PartEnd,
    PartStart,
    Started,
    StopReason,
    Usage,
)
from tieline.model.ports import Host, Leg, Run, Toolbox
from tieline.model.request import Request

MOST_ROUNDS = 100
MOST_OUTPUT = 4000
"""So much of a result is shown to whoever looks on; the model gets all of it."""


class TooledRun:
    """A run with the gateway's tools; `offered` are the names of the client's own."""

    def __init__(self, run: Run, toolbox: Toolbox, host: Host, offered: frozenset[str]) -> None:
        self._run = run
        self._toolbox = toolbox
        self._host = host
        self._offered = offered

    @property
    def pending(self) -> frozenset[str]:
        return self._run.pending

    def leg(self) -> Leg:
        return _Turn(self._run, self._toolbox, self._host, self._offered)

    async def answer(self, results: Sequence[ToolResult], request: Request | None = None, words: str = "") -> None:
        if request is not None:
            self._offered = frozenset(tool.name for tool in request.tools if not self._toolbox.owns(tool.name))
        await self._run.answer(results, request, words)

    async def aclose(self) -> None:
        await self._run.aclose()


class _Turn:
    """One leg for the client."""

    def __init__(self, run: Run, toolbox: Toolbox, host: Host, offered: frozenset[str]) -> None:
        self._run = run
        self._toolbox = toolbox
        self._host = host
        self._offered = offered
        self._leg: Leg | None = None
        self._splice = Splice()
        self._has_started = False
        self._hidden = False
        """Whether the part under way is a call of ours."""
        self._ours: list[ToolCall] = []
        self._theirs = 0
        self._rounds = 0
        self._is_over = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Batch:
        if self._is_over:
            raise StopAsyncIteration
        if self._ours and self._leg is None:
            return await self._run_next()
        if self._leg is None:
            self._leg = self._run.leg()
        while True:
            batch = self._seen(await self._leg.__anext__())
            if batch:
                return batch

    async def aclose(self) -> None:
        if self._leg is not None:
            await self._leg.aclose()

    def _seen(self, batch: Batch) -> list[Event]:
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
                    self._leg = None
                case _:
                    self._is_over = isinstance(event, Finished)
                    out.append(event)
        return out

    def _part(self, event: PartStart | PartDelta | PartEnd) -> list[Event]:
        if isinstance(event, PartStart):
            self._hidden = isinstance(event.part, ToolCall) and event.part.name not in self._offered
        if not self._hidden:
            if isinstance(event, PartEnd) and isinstance(event.part, ToolCall):
                self._theirs += 1
            return [self._splice.renumber(event)]
        if isinstance(event, PartEnd) and isinstance(event.part, ToolCall):
            self._ours.append(event.part)
            return [self._activity(event.part, "pending")]
        return []

    async def _run_next(self) -> Batch:
        """Run the calls of ours one after the other, then go on."""
        self._rounds += 1
        if self._rounds > MOST_ROUNDS:
            message = f"The model called tools in {MOST_ROUNDS} rounds without coming to an end."
            raise GatewayError("upstream", message, code="too_many_rounds")
        events: list[Event] = []
        results: list[ToolResult] = []
        for call in self._ours:
            result = await self._executed(call)
            results.append(result)
            events.append(self._activity(call, "failed" if result.is_error else "completed", result))
        self._ours = []
        await self._run.answer(results)
        if self._theirs:
            self._is_over = True
            return [*events, Finished(reason=StopReason.TOOL_USE)]
        self._splice.next_leg()
        return events

    async def _executed(self, call: ToolCall) -> ToolResult:
        if self._toolbox.owns(call.name):
            return await self._toolbox.execute(call, self._host)
        text = f"There is no tool `{call.name}`. Use one that was offered, or answer without."
        return ToolResult(call_id=call.id, content=(Text(text=text),), is_error=True)

    def _activity(self, call: ToolCall, status: str, result: ToolResult | None = None) -> Activity:
        words = "" if result is None else "\n".join(part.text for part in result.content if isinstance(part, Text))
        return replace(
            Activity(id=call.id, kind=self._toolbox.kind_of(call), title=_title(call), output=words[:MOST_OUTPUT]),
            status=status,
        )


def _title(call: ToolCall) -> str:
    arguments = " ".join(call.arguments.split())
    return f"{call.name} {arguments[:120]}{'…' if len(arguments) > 120 else ''}"
