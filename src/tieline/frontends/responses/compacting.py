"""Server-side compaction: if a conversation has become too long, answer the request from a summary of it."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Self

from msgspec.structs import replace

from tieline.core.legs.gateway import Gateway
from tieline.core.legs.leg import LegClient, WatchedLeg
from tieline.model.content import Foreign, Text
from tieline.model.events import (
    Batch,
    Event,
    Failed,
    PartDelta,
    PartEnd,
    PartStart,
    Started,
    Usage,
)
from tieline.model.request import Request
from tieline.wire import openai_responses as wire
from tieline.wire.openai_responses.compaction import compacted_request, compaction_item, summary_request
from tieline.wire.shared.json import encode


class CompactingLeg:
    """Two legs that look like one to the client: one summarises the conversation, the other answers from the summary.

    The client receives the summary as an item before the answer. If the first leg yields no summary, the second leg
    answers from the whole conversation.
    """

    def __init__(self, gateway: Gateway, request: Request, client: LegClient, item_id: str) -> None:
        self._gateway = gateway
        self._request = request
        self._client = client
        self._item_id = item_id
        self._leg: WatchedLeg | None = None
        """The current leg: the one that summarises, then the one that answers."""
        self._batches = self._run()

    @property
    def dropped(self) -> Sequence[str]:
        """The names of all items that could not be translated in the current leg."""
        return () if self._leg is None else self._leg.dropped

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Batch:
        """Return the next batch for the client."""
        return await self._batches.__anext__()

    async def aclose(self) -> None:
        """End the leg in progress."""
        await self._batches.aclose()

    async def _run(self) -> AsyncGenerator[Batch, None]:
        summary, usage = await self._summary()
        request, first = self._request, None
        if summary:
            request = compacted_request(request, summary)
            first = Foreign(
                protocol=wire.PROTOCOL,
                kind="compaction",
                json=encode(compaction_item(self._item_id, summary)).decode(),
            )
        async with aclosing(await self._gateway.open(request, self._client)) as leg:
            self._leg = leg
            async for batch in leg:
                yield batch if first is None else [one for event in batch for one in _following(event, first, usage)]

    async def _summary(self) -> tuple[str, Usage]:
        """Let the model summarise the conversation. Return the summary and the tokens used for it.

        The summary is empty if the leg failed or the model wrote no text.
        """
        request = summary_request(self._request)
        request = replace(request, stream=True, sampling=replace(request.sampling, max_tokens=None))
        # The model should only write the summary, so it gets none of the gateway's tools.
        client = replace(self._client, gets_tools=False)
        texts: list[str] = []
        usage = Usage()
        async with aclosing(await self._gateway.open(request, client)) as leg:
            self._leg = leg
            async for batch in leg:
                for event in batch:
                    if isinstance(event, PartEnd) and isinstance(event.part, Text):
                        texts.append(event.part.text)
                    elif isinstance(event, Usage):
                        usage = event
                    elif isinstance(event, Failed):
                        texts.clear()
        return "".join(texts).strip(), usage


def _following(event: Event, first: Foreign, before: Usage) -> Sequence[Event]:
    """Return the events to send for one event of the answer, which follows the summary item `first`.

    The parts of the answer are renumbered, and `before`, the token usage of the summary, is added to the answer's.
    """
    match event:
        case Started():
            return event, PartStart(index=0, part=first), PartEnd(index=0, part=first)
        case PartDelta():
            return (PartDelta(event.index + 1, event.text),)
        case PartStart() | PartEnd():
            return (replace(event, index=event.index + 1),)
        case Usage():
            names = event.__struct_fields__
            return (Usage(**{name: getattr(event, name) + getattr(before, name) for name in names}),)
        case _:
            return (event,)
