"""Forced tool calls and JSON output for upstreams that do not support them.

The answer is checked. If it does not comply with the request, the model is asked once more.
"""

import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing

import msgspec
from msgspec.structs import replace

from tieline.core.emulation.schema_check import schema_error
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


def forces_output(request: Request) -> bool:
    """Return whether a request forces a tool call or JSON output."""
    return request.output is not None or (request.tool_choice.mode == "required" and bool(request.tools))


class ForcedOutputRun:
    """A run that buffers each answer, checks it against the request, and asks once more if it does not comply."""

    def __init__(self, start: Callable[[Request], Awaitable[Run]], request: Request, run: Run) -> None:
        self._start = start
        self._request = request
        self._run = run

    @classmethod
    async def open(cls, start: Callable[[Request], Awaitable[Run]], request: Request) -> "ForcedOutputRun":
        """Start the upstream's run with `start`, and return a run that checks the upstream's answers."""
        return cls(start, request, await start(request))

    @property
    def pending(self) -> frozenset[str]:
        """The ids of the calls whose results the upstream waits for."""
        return self._run.pending

    async def leg(self) -> AsyncGenerator[Batch, None]:
        """Yield the answer as one batch. If it does not comply, ask again; yield the second answer, or a failure."""
        events = await _all_events(self._run)
        problem = self._problem(events)
        if problem is None:
            yield self._without_fence(events)
            return
        await self._run.aclose()
        rejected = Message(role="assistant", parts=_parts(events) or (Text(text="…"),))
        correction = Message(role="user", parts=(Text(text=f"{problem} Try again, with nothing else."),))
        messages = (*self._request.messages, rejected, correction)
        self._run = await self._start(replace(self._request, messages=messages))
        second = await _all_events(self._run)
        if type(second[-1]) is Finished and (still := self._problem(second)) is not None:
            yield [_failure(still)]
            return
        splice = Splice()
        for usage in of_kind(events, Usage):
            splice.add(usage)
        splice.next_leg()
        out = [splice.add(event) if type(event) is Usage else event for event in self._without_fence(second)]
        yield [*out[:1], Note(kind="demand", message=f"the first answer was rejected: {problem}"), *out[1:]]

    async def answer(self, results: Sequence[ToolResult], request: Request | None = None, words: str = "") -> None:
        if request is not None:
            self._request = request
        await self._run.answer(results, request, words)

    async def aclose(self) -> None:
        await self._run.aclose()

    def _problem(self, events: Sequence[Event]) -> str | None:
        """Return a message that tells the model what is wrong with its answer, or None if the answer complies."""
        ending, request = events[-1], self._request
        if type(ending) is not Finished or ending.reason not in (StopReason.END_TURN, StopReason.TOOL_USE):
            return None
        called = {part.name for part in _parts(events) if type(part) is ToolCall}
        if request.tool_choice.mode == "required" and request.tools:
            wanted = request.tool_choice.names or tuple(tool.name for tool in request.tools)
            return None if called & set(wanted) else f"You have to call {' or '.join(f'`{name}`' for name in wanted)}."
        if request.output is None or called:
            return None
        return _json_problem(_text_of(events), request.output.schema)

    def _without_fence(self, events: list[Event]) -> list[Event]:
        """Return the events with the Markdown code fence around the requested JSON removed, if there is one."""
        fenced = _FENCED.fullmatch(_text_of(events)) if self._request.output is not None else None
        if fenced is None:
            return events
        parts, texts = PartsWriter(), [fenced[1]]
        for part in _parts(events):
            if type(part) is not Text:
                parts.complete(part)
            elif texts:
                parts.whole(Text(), texts.pop())
        rest = [event for event in events if type(event) not in (PartStart, PartDelta, PartEnd)]
        return [rest[0], *parts.take(), *rest[1:]]


async def _all_events(run: Run) -> list[Event]:
    async with aclosing(run.leg()) as leg:
        return [event async for batch in leg for event in batch]


def _parts(events: Sequence[Event]) -> tuple[Part, ...]:
    return tuple(event.part for event in of_kind(events, PartEnd))


def _text_of(events: Sequence[Event]) -> str:
    return "".join(part.text for part in _parts(events) if type(part) is Text)


def _json_problem(text: str, schema: bytes | None) -> str | None:
    fenced = _FENCED.fullmatch(text)
    try:
        value = msgspec.json.decode(fenced[1] if fenced else text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return "Your answer has to be JSON."
    error = schema_error(value, {"type": "object"} if schema is None else msgspec.json.decode(schema))
    return None if error is None else f"Your JSON does not fit the schema: {error}."


def _failure(problem: str) -> Failed:
    message = f"The upstream does not enforce the requested output, and two answers did not comply: {problem}"
    return Failed(kind="upstream", status=502, code="demand_not_met", message=message, headers=(NOT_RETRYABLE,))
