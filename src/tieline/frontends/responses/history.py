"""Stored responses: requests that continue one get its whole conversation, and finished responses are stored.

A response is stored with the items it answered and the id of the response before it, so a conversation is a chain of
documents. Using a chain marks all of its documents as used, so that the archive does not drop the beginning of a
conversation that is still active.
"""

from collections.abc import Sequence
from typing import NamedTuple

from msgspec import Raw

from tieline.core.archive.archive import Archive
from tieline.model.bounded_cache import BoundedCache
from tieline.model.errors import GatewayError
from tieline.wire.openai_responses.stored import (
    StoredResponse,
    item_id,
    item_not_found,
    previous_not_found,
    read_stored,
    reference_in,
)
from tieline.wire.shared.json import encode

MAX_CHAIN = 10_000
"""Responses of one chain."""
MAX_CONTEXT = 64 * 1024 * 1024
"""Bytes of the items of one conversation."""
CACHED_CONTEXTS = 256
CACHED_BYTES = 16 * 1024 * 1024


class Context(NamedTuple):
    """The conversation up to and including a response: its items, and the model that answered last."""

    items: tuple[Raw, ...]
    model: str
    size: int


NO_CONTEXT = Context((), "", 0)


class ResponseHistory:
    """The stored responses of all clients. `owner` identifies the client; no client sees those of another."""

    def __init__(self, responses: Archive, items: Archive) -> None:
        self._responses = responses
        self._items = items
        """The id of the response by the id of each of its items."""
        self._contexts: BoundedCache[tuple[str, str], Context] = BoundedCache(CACHED_CONTEXTS, max_weight=CACHED_BYTES)

    async def get(self, owner: str, response_id: str) -> StoredResponse | None:
        """Return a stored response, or None."""
        data = await self._responses.get(owner, response_id)
        return None if data is None else read_stored(data)

    async def remove(self, owner: str, response_id: str) -> bool:
        """Remove a stored response. Return False if there is none."""
        self._contexts.pop((owner, response_id))
        return await self._responses.remove(owner, response_id)

    async def context(self, owner: str, response_id: str) -> Context:
        """Return the conversation up to a response. Raise GatewayError if a part of it is no longer stored."""
        chain: list[StoredResponse] = []
        before = NO_CONTEXT
        previous: str | None = response_id
        while previous is not None:
            known = self._contexts.get((owner, previous))
            found = await self.get(owner, previous)
            if found is None or len(chain) >= MAX_CHAIN:
                raise previous_not_found(response_id)
            if known is not None:
                before = known
                break
            chain.append(found)
            previous = found.previous
        for stored in reversed(chain):
            before = _extended(before, [*stored.input, *stored.output()], stored.model)
        self._contexts.put((owner, response_id), before, before.size)
        return before

    async def resolved(self, owner: str, items: Sequence[Raw], context: Context) -> list[Raw]:
        """Return the new items of a request: references replaced, and items that the context already has left out.

        Raise GatewayError for a reference to an item that is not stored.
        """
        known = {found for item in context.items if (found := item_id(item)) is not None}
        result: list[Raw] = []
        for position, item in enumerate(items):
            reference = reference_in(item, position)
            if reference is None:
                if item_id(item) not in known:
                    result.append(item)
            elif reference not in known:
                result.append(await self._item(owner, reference, f"input[{position}].id"))
        return result

    def store(self, owner: str, response_id: str, stored: StoredResponse) -> bool:
        """Store a response, and which items belong to it. Return False if it is too large."""
        if not self._responses.put(owner, response_id, encode(stored)):
            return False
        for item in (*stored.input, *stored.output()):
            identity = item_id(item)
            if identity:
                self._items.put(owner, identity, response_id.encode())
        return True

    async def _item(self, owner: str, reference: str, param: str) -> Raw:
        response_id = await self._items.get(owner, reference)
        stored = await self.get(owner, response_id.decode()) if response_id is not None else None
        if stored is not None:
            for item in (*stored.output(), *stored.input):
                if item_id(item) == reference:
                    return item
        raise item_not_found(reference, param)


def _extended(context: Context, items: Sequence[Raw], model: str) -> Context:
    size = context.size + sum(map(len, map(bytes, items)))
    if size > MAX_CONTEXT:
        limit = MAX_CONTEXT // (1024 * 1024)
        raise GatewayError("too_large", f"This conversation is larger than the {limit} MiB the gateway accepts.")
    return Context((*context.items, *items), model, size)


def context_of(items: Sequence[Raw]) -> Context:
    """Return the context that consists of these items."""
    return _extended(NO_CONTEXT, items, "")


def continued(context: Context, items: Sequence[Raw], response: bytes) -> Context:
    """Return the context after a response that answered these items."""
    stored = StoredResponse(response=Raw(response), input=list(items))
    return _extended(context, [*items, *stored.output()], stored.model)
