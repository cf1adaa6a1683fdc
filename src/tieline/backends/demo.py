"""The demo backend and its runs: asks the mind what to do in a leg, and gives it out in small batches."""

import asyncio
from collections.abc import AsyncGenerator, Sequence

from msgspec.structs import replace

from tieline.demo import MODELS
from tieline.demo.answer import Answer, Pause
from tieline.demo.mind import decide
from tieline.demo.speech import speak
from tieline.model.content import Message, Part, Text, ToolResult
from tieline.model.errors import GatewayError
from tieline.model.events import Batch, Event, PartEnd
from tieline.model.ports import Host, ModelInfo
from tieline.model.request import Request

BATCH = 4
LONGEST = 256 * 1024
"""Characters of one text that the model reads: its patterns take a second for eight million."""


class DemoBackend:
    """Answers by itself, the same to the same request; `pace` is the silence between batches, in seconds."""

    is_agent = False
    reads_options = False
    obeys_limits = True

    name = "demo"

    def __init__(self, *, pace: float = 0.0) -> None:
        self._pace = pace

    async def models(self) -> Sequence[ModelInfo]:
        return MODELS

    async def start(self, request: Request, host: Host | None = None) -> "DemoRun":  # noqa: ARG002 - this upstream asks nobody back
        return DemoRun(_readable(request), self._pace)

    async def count(self, request: Request) -> int | None:  # noqa: ARG002 - the port hands it over, we cannot tell
        return None

    async def aclose(self) -> None:
        """There is nothing to free."""


def _readable(request: Request) -> Request:
    """The request without what is too long to be read at once."""
    if all(
        type(part) is not Text or len(part.text) <= LONGEST for message in request.messages for part in message.parts
    ):
        return request
    messages = [replace(message, parts=tuple(map(_cut, message.parts))) for message in request.messages]
    return replace(request, messages=tuple(messages))


def _cut(part: Part) -> Part:
    return replace(part, text=part.text[:LONGEST]) if type(part) is Text and len(part.text) > LONGEST else part


class DemoRun:
    """A conversation with the demo model; it waits for nobody, so nothing is ever pending."""

    pending: frozenset[str] = frozenset()

    def __init__(self, request: Request, pace: float = 0.0) -> None:
        self._request = request
        self._pace = pace
        self._reply: list[Part] = []
        self._answered = False

    async def leg(self) -> AsyncGenerator[Batch, None]:
        self._reply, self._answered = [], False
        batch: list[Event] = []
        for event in speak(_decided(self._request), self._request):
            silence = event.seconds if isinstance(event, Pause) else self._pace
            if not isinstance(event, Pause):
                batch.append(event)
                if isinstance(event, PartEnd):
                    self._reply.append(event.part)
                if len(batch) < BATCH:
                    continue
            if batch:
                yield batch
                batch = []
            if silence:
                await asyncio.sleep(silence)
        if batch:
            yield batch

    async def answer(
        self,
        results: Sequence[ToolResult],
        request: Request | None = None,
        words: str = "",  # noqa: ARG002 - nothing is ever parked here, so no client brings them
    ) -> None:
        """Add to the history what the last leg said and what came of its calls, if in pieces then as one round."""
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
        """There is nothing to free."""


def _decided(request: Request) -> Answer:
    try:
        return decide(request)
    except GatewayError as error:
        return Answer(ending=error.failed())
