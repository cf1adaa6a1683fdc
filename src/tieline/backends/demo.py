"""The demo backend: runs the built-in demo model and returns its events in small batches."""

import asyncio
from collections.abc import AsyncGenerator, Sequence

from msgspec.structs import replace

from tieline.demo import MODELS
from tieline.demo.decision import decide
from tieline.demo.reply_events import to_events
from tieline.demo.reply_steps import Silence
from tieline.model.content import Message, Part, Text, ToolResult
from tieline.model.events import Batch, Event, PartEnd
from tieline.model.ports import Host, ModelInfo
from tieline.model.request import Request

BATCH = 4
LONGEST_TEXT = 256 * 1024
"""Text parts are truncated to this many characters, because the demo model's patterns are slow on long texts."""


class DemoBackend:
    """Backend for the built-in demo model. `pace` is the delay between batches, in seconds."""

    is_agent = False
    reads_options = False
    obeys_limits = True

    name = "demo"

    def __init__(self, *, pace: float = 0.0) -> None:
        self._pace = pace

    async def models(self) -> Sequence[ModelInfo]:
        return MODELS

    async def start(self, request: Request, host: Host | None = None) -> "DemoRun":  # noqa: ARG002 - the demo model never asks the user
        return DemoRun(_truncate_texts(request), self._pace)

    async def count(self, request: Request) -> int | None:  # noqa: ARG002 - required by the port; not supported
        return None

    async def aclose(self) -> None:
        """Do nothing: there is nothing to free."""


def _truncate_texts(request: Request) -> Request:
    messages = (replace(message, parts=tuple(map(_truncate, message.parts))) for message in request.messages)
    return replace(request, messages=tuple(messages))


def _truncate(part: Part) -> Part:
    return replace(part, text=part.text[:LONGEST_TEXT]) if isinstance(part, Text) else part


class DemoRun:
    """A conversation with the demo model. It never waits for a tool result, so `pending` is always empty."""

    pending: frozenset[str] = frozenset()

    def __init__(self, request: Request, pace: float = 0.0) -> None:
        self._request = request
        self._pace = pace
        self._reply: list[Part] = []
        self._answered = False

    async def leg(self) -> AsyncGenerator[Batch, None]:
        self._reply, self._answered = [], False
        batch: list[Event] = []
        for event in to_events(decide(self._request), self._request):
            delay = event.seconds if isinstance(event, Silence) else self._pace
            if not isinstance(event, Silence):
                batch.append(event)
                if isinstance(event, PartEnd):
                    self._reply.append(event.part)
                if len(batch) < BATCH:
                    continue
            if batch:
                yield batch
                batch = []
            if delay:
                await asyncio.sleep(delay)
        if batch:
            yield batch

    async def answer(
        self,
        results: Sequence[ToolResult],
        request: Request | None = None,
        words: str = "",  # noqa: ARG002 - only a parked run receives the user's text
    ) -> None:
        """Append the last reply and its tool results to the history.

        If this is called again for the same reply, the results are added to the same message.
        """
        if request is not None:
            self._request = replace(self._request, tools=request.tools)
        before = self._request.messages
        if self._answered:
            last = before[-1]
            messages = (*before[:-1], replace(last, parts=(*last.parts, *results)))
        else:
            said = Message(role="assistant", parts=tuple(self._reply))
            messages = (*before, said, Message(role="user", parts=tuple(results)))
        self._request = replace(self._request, messages=messages)
        self._answered = True

    async def aclose(self) -> None:
        """Do nothing: there is nothing to free."""
