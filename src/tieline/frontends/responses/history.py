"""Stored responses: requests that continue one get its whole conversation, and finished responses are stored.

A response is stored with the items it answered and the id of the response before it, so a conversation is a chain of
documents.
"""

from collections.abc import Sequence
from typing import NamedTuple

from msgspec import Raw

from tieline.core.archive.archive import Archive
from tieline.model.bounded_cache import BoundedCache
from tieline.model.errors import GatewayError
from tieline.wire.openai_responses.stored import (
    StoredResponse,
    is_trigger,
    item_id,
    item_not_found,
    last_summary,
    previous_incomplete,
    previous_not_found,
    read_stored,
    reference_in,
    response_of,
)
from tieline.wire.shared.json import encode

MAX_CHAIN = 10_000
"""Responses of one chain."""
MAX_CONTEXT = 64 * 1024 * 1024
"""Bytes of the items of one conversation."""
MAX_INDEXED = 1000
"""Items of one request that can be found by ids which the client gave them."""
CACHED_CONTEXTS = 256
CACHED_BYTES = 16 * 1024 * 1024


class Context(NamedTuple):
    """The conversation up to and including a response: its items, and the model that answered last."""

    items: tuple[Raw, ...] = ()
    model: str = ""
    size: int = 0
    chain: tuple[str, ...] = ()
    """The ids of the stored responses that it consists of."""


NO_CONTEXT = Context()


class ResponseHistory:
    """The stored responses of all clients. `owner` identifies the client; no client sees those of another."""

    def __init__(self, responses: Archive, items: Archive) -> None:
        self._responses = responses
        self._items = items
        """The id of the response by the id of an item, for ids that the gateway did not make."""
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
        """Return the conversation up to a response. Raise GatewayError if a part of it is not stored, or not complete.

        All of its responses count as used, so that the archive does not drop the beginning of an active conversation.
        """
        newer: dict[str, StoredResponse] = {}
        context = NO_CONTEXT
        previous: str | None = response_id
        while previous is not None:
            known = self._contexts.get((owner, previous))
            if known is not None and self._are_stored(owner, known.chain):
                context = known
                break
            found = await self.get(owner, previous)
            # An upstream may give all of its responses the same id.
            if found is None or previous in newer or len(newer) >= MAX_CHAIN:
                raise previous_not_found(response_id)
            if not found.is_complete:
                raise previous_incomplete(previous)
            newer[previous] = found
            previous = None if _has_summary(found) else found.previous
        if newer:
            items = [item for stored in reversed(newer.values()) for item in _items(stored)]
            model, chain = newer[response_id].model, (*context.chain, *reversed(newer))
            context = _extended(context._replace(model=model, chain=chain), items)
        self._contexts.put((owner, response_id), context, context.size)
        return context

    async def input_items(self, owner: str, stored: StoredResponse) -> list[Raw]:
        """Return the items that a response answers, with their ids: also those before it, as far as they are stored."""
        parts, seen, previous = [stored.input_items()], {stored.id}, stored.previous
        while previous is not None and previous not in seen and len(seen) < MAX_CHAIN:
            found = await self.get(owner, previous)
            if found is None:
                break
            seen.add(previous)
            parts.append([*found.input_items(), *found.output()])
            previous = found.previous
        return [item for part in reversed(parts) for item in part]

    async def resolved(self, owner: str, items: Sequence[Raw], context: Context) -> dict[int, Raw]:
        """Return the new items of a request by their position in it: references are replaced.

        Items that the context has already are left out. Raise GatewayError for a reference to an item that is not
        stored.
        """
        references = [reference_in(item, position) for position, item in enumerate(items)]
        own_ids = [None if reference else item_id(item) for item, reference in zip(items, references, strict=True)]
        if not any(references) and not any(own_ids):
            return dict(enumerate(items))
        known = {item_id(item) for item in context.items} - {None}
        present = set(own_ids)
        result: dict[int, Raw] = {}
        for position, (item, reference) in enumerate(zip(items, references, strict=True)):
            identity = reference or own_ids[position]
            if identity is not None and (identity in known or response_of(identity) in context.chain):
                continue
            if reference is None:
                result[position] = item
            elif reference not in present:
                present.add(reference)
                result[position] = await self._item(owner, reference, f"input[{position}].id")
        return result

    def store(self, owner: str, stored: StoredResponse) -> bool:
        """Store a response. Return False if it is too large, or has no id."""
        response_id = stored.id
        self._contexts.pop((owner, response_id))
        if not response_id or not self._responses.put(owner, response_id, encode(stored)):
            return False
        # Ids from elsewhere do not say to which response they belong.
        latest = stored.input[-MAX_INDEXED:]
        asked = {found for item in latest if (found := item_id(item)) and not self._items.touch(owner, found)}
        answered = {found for item in stored.output() if (found := item_id(item))}
        for identity in asked | answered:
            if response_of(identity) != response_id:
                self._items.put(owner, identity, response_id.encode())
        return True

    def _are_stored(self, owner: str, responses: Sequence[str]) -> bool:
        """Return whether all of these responses are stored, and mark them as used."""
        return [self._responses.touch(owner, response_id) for response_id in responses].count(False) == 0

    async def _item(self, owner: str, reference: str, param: str) -> Raw:
        indexed = await self._items.get(owner, reference)
        for response_id in (response_of(reference), indexed.decode() if indexed is not None else None):
            stored = await self.get(owner, response_id) if response_id is not None else None
            for item in (*stored.output(), *stored.input_items()) if stored is not None else ():
                if item_id(item) == reference:
                    return item
        raise item_not_found(reference, param)


def _has_summary(stored: StoredResponse) -> bool:
    """Return whether the answer contains a summary, which replaces everything before."""
    return last_summary(stored.output()) is not None


def _items(stored: StoredResponse) -> list[Raw]:
    """Return what a response adds to its conversation."""
    output = stored.output()
    summary = last_summary(output)
    return [item for item in stored.input if not is_trigger(item)] + output if summary is None else output[summary:]


def _extended(context: Context, items: Sequence[Raw]) -> Context:
    size = context.size + sum(memoryview(item).nbytes for item in items)
    if size > MAX_CONTEXT:
        limit = MAX_CONTEXT // (1024 * 1024)
        raise GatewayError("too_large", f"This conversation is larger than the {limit} MiB the gateway accepts.")
    return context._replace(items=(*context.items, *items), size=size)


def context_of(items: Sequence[Raw]) -> Context:
    """Return the context that consists of these items, from the last summary on."""
    return _extended(NO_CONTEXT, items[last_summary(items) or 0 :])


def continued(context: Context, items: Sequence[Raw], response: bytes) -> Context:
    """Return the context after a response that answered these items."""
    stored = StoredResponse(response=Raw(response), input=list(items))
    before = NO_CONTEXT if _has_summary(stored) else context
    return _extended(before._replace(model=stored.model), _items(stored))
