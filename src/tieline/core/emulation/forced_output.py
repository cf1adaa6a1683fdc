"""Forced tools and JSON output on upstreams that can only be asked for them: checked here, and asked for once more."""

import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing

import msgspec
from msgspec.structs import replace

from tieline.core.emulation.schema_check import misfit
from tieline.model.assemble import PartsWriter
from tieline.model.content import Message, Part, Text, ToolCall, ToolResult
from tieline.model.errors import NOT_RETRYABLE
from tieline.model.events import (
    Batch,
    Event,
    Failed,
    Finished,
    Note,
    PartDelta,
    PartEnd,
    PartStart,
    StopReason,
    Usage,
    of_kind,
)
from tieline.model.ports import Run
from tieline.model.request import Request
from tieline.model.splice import Splice

_FENCED = re.compile(r"\s*```[a-z]*\n(.*)\n```\s*", re.DOTALL | re.IGNORECASE)


def has_demands(request: Request) -> bool:
    """Whether a request demands something of the answer that can be checked."""
    return request.output is not None or (request.tool_choice.mode == "required" and bool(request.tools))


class DemandingRun:
    """A run whose answers are held until they are known to be what was demanded."""

    def __init__(self, start: Callable[[Request], Awaitable[Run]], request: Request, run: Run) -> None:
        self._start = start
        self._request = request
        self._run = run

    @classmethod
    async def open(cls, start: Callable[[Request], Awaitable[Run]], request: Request) -> "DemandingRun":
        """Begin a run; `start` begins one on the upstream."""
        return cls(start, request, await start(request))

    @property
    def pending(self) -> frozenset[str]:
        """The calls the upstream waits for."""
        return self._run.pending

    async def leg(self) -> AsyncGenerator[Batch, None]:
        """The answer, whole; the second one if the first is not what was demanded."""
        events = await _whole(self._run)
        lack = self._lack(events)
        if lack is None:
            yield self._plain(events)
            return
        await self._run.aclose()
        said = Message(role="assistant", parts=_parts(events) or (Text(text="…"),))
        again = Message(role="user", parts=(Text(text=f"{lack} Try again, with nothing else."),))
        self._run = await self._start(replace(self._request, messages=(*self._request.messages, said, again)))
        second = await _whole(self._run)
        if type(second[-1]) is Finished and (lack := self._lack(second)) is not None:
            yield [_refused(lack)]
            return
        splice = Splice()
        for usage in of_kind(events, Usage):
            splice.add(usage)
        splice.next_leg()
        out = [splice.add(event) if type(event) is Usage else event for event in self._plain(second)]
        yield [*out[:1], Note(kind="demand", message=f"asked for once more: {lack}"), *out[1:]]

    async def answer(self, results: Sequence[ToolResult], request: Request | None = None, words: str = "") -> None:
        if request is not None:
            self._request = request
        await self._run.answer(results, request, words)

    async def aclose(self) -> None:
        await self._run.aclose()

    def _lack(self, events: Sequence[Event]) -> str | None:
        """What is wrong with a complete answer, in words for the model; None if it is as demanded."""
        ending, request = events[-1], self._request
        if type(ending) is not Finished or ending.reason not in (StopReason.END_TURN, StopReason.TOOL_USE):
            return None
        called = {part.name for part in _parts(events) if type(part) is ToolCall}
        if request.tool_choice.mode == "required" and request.tools:
            wanted = request.tool_choice.names or tuple(tool.name for tool in request.tools)
            return None if called & set(wanted) else f"You have to call {' or '.join(f'`{name}`' for name in wanted)}."
        if request.output is None or called:
            return None
        return _no_json(_text_of(events), request.output.schema)

    def _plain(self, events: list[Event]) -> list[Event]:
        """The events, with JSON that came in a code fence taken out of it."""
        fenced = _FENCED.fullmatch(_text_of(events)) if self._request.output is not None else None
        if fenced is None:
            return events
        parts = PartsWriter()
        for part in _parts(events):
            if type(part) is not Text:
                parts.whole(replace(part, text="") if hasattr(part, "text") else part, getattr(part, "text", ""))
        parts.whole(Text(), fenced[1])
        rest = [event for event in events if type(event) not in (PartStart, PartDelta, PartEnd)]
        return [rest[0], *parts.take(), *rest[1:]]


async def _whole(run: Run) -> list[Event]:
    async with aclosing(run.leg()) as leg:
        return [event async for batch in leg for event in batch]


def _parts(events: Sequence[Event]) -> tuple[Part, ...]:
    return tuple(event.part for event in of_kind(events, PartEnd))


def _text_of(events: Sequence[Event]) -> str:
    return "".join(part.text for part in _parts(events) if type(part) is Text)


def _no_json(text: str, schema: bytes | None) -> str | None:
    fenced = _FENCED.fullmatch(text)
    try:
        value = msgspec.json.decode(fenced[1] if fenced else text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return "Your answer has to be JSON."
    wrong = misfit(value, {"type": "object"} if schema is None else msgspec.json.decode(schema))
    return None if wrong is None else f"Your JSON does not fit the schema: {wrong}."


def _refused(lack: str) -> Failed:
    message = f"The upstream cannot be made to answer as demanded, and did not when asked twice. It was told: {lack}"
    return Failed(kind="upstream", status=502, code="demand_not_met", message=message, headers=(NOT_RETRYABLE,))
