"""Stored responses, and the conversations that a request continues by naming the id of their last response.

A response is stored together with the items it answered and the id of the previous response. So a conversation is a
chain of stored responses.
"""

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec import Raw

from tieline.model.bounded_cache import BoundedCache
from tieline.model.content import Checkpoint
from tieline.model.errors import BadRequest, GatewayError
from tieline.model.ports import DocumentArchive
from tieline.tasks import step_aside
from tieline.wire.openai_responses.stored import (
    StoredConversation,
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

log = logging.getLogger("tieline")

MAX_CHAIN = 10_000
"""Maximum number of responses in one chain."""
MAX_CONTEXT = 64 * 1024 * 1024
"""Maximum total size, in bytes, of the items in one conversation."""
MAX_REFERENCES = 1000
"""Maximum number of references to stored items in one request."""
MAX_INDEXED = 1000
"""Maximum number of input items of one response, the latest ones, that are indexed by the ids the client gave them."""
MAX_INDEXED_ID = 128
"""Maximum length, in characters, of an item id that is indexed."""
CACHED_CONTEXTS = 256
CACHED_BYTES = 16 * 1024 * 1024


class Context(NamedTuple):
    """The conversation up to and including a response: its items, and the model that answered last."""

    items: tuple[bytes, ...] = ()
    """The JSON text of each item. The same objects are used for every request, which makes cache lookups cheap."""
    model: str = ""
    size: int = 0
    chain: tuple[str, ...] = ()
    """The ids of the stored responses that the conversation consists of, oldest first."""
    checkpoint: Checkpoint | None = None
    """The upstream state that covers exactly these items, if there is one."""


NO_CONTEXT = Context()


class ResponseHistory:
    """The stored responses of all clients. A client (`owner`) can access only its own."""

    def __init__(self, responses: DocumentArchive, items: DocumentArchive) -> None:
        self._responses = responses
        self._items = items
        """Maps item ids to response ids. It omits the ids made by the gateway, which contain the response id."""
        self._contexts: BoundedCache[tuple[str, str], Context] = BoundedCache(CACHED_CONTEXTS, max_weight=CACHED_BYTES)

    async def get(self, owner: str, response_id: str) -> StoredResponse | None:
        """Return a stored response, or None. Remove a response that is damaged."""
        data = await self._responses.get(owner, response_id)
        if data is None:
            return None
        stored = read_stored(data)
        if stored is None:
            log.warning("%s is damaged in the store; removing it", response_id)
            await self.remove(owner, response_id)
        return stored

    async def remove(self, owner: str, response_id: str) -> bool:
        """Remove a stored response. Return False if it is not stored."""
        self._contexts.pop((owner, response_id))
        return await self._responses.remove(owner, response_id)

    async def context(self, owner: str, response_id: str) -> Context:
        """Return the conversation up to and including a response.

        Mark all responses in it as used, so that the archive does not drop the beginning of an active conversation.
        Raise GatewayError if any of them is not stored or not complete.
        """
        newer: dict[str, list[bytes]] = {}
        """The items of the responses read so far, by response id, latest first."""
        context, size = NO_CONTEXT, 0
        last: StoredResponse | None = None
        previous: str | None = response_id
        while previous is not None:
            known = self._contexts.get((owner, previous))
            if known is not None and await self._responses.holds(owner, known.chain):
                context = known
                break
            found = await self.get(owner, previous)
            # An upstream may give all of its responses the same id.
            if found is None or previous in newer or len(newer) >= MAX_CHAIN:
                raise previous_not_found(previous)
            if not found.is_complete:
                raise previous_incomplete(previous)
            last = last or found
            newer[previous], has_summary = _items(found)
            size += _size(newer[previous])
            _check_size(size)
            previous = None if has_summary else found.previous
            await step_aside()  # decoding a large document takes a while
        if last is not None:
            items = [item for part in reversed(newer.values()) for item in part]
            chain = (*context.chain, *reversed(newer))
            context = context._replace(model=last.model, chain=chain, checkpoint=last.checkpoint)
            context = _extended(context, items)
        self._contexts.put((owner, response_id), context, context.size)
        return context

    async def input_items(self, owner: str, stored: StoredResponse) -> list[Raw]:
        """Return all items that a response answers, with their ids, including earlier ones as far as they are stored.

        Raise GatewayError if their total size is too large.
        """
        parts, seen, previous = [stored.input_items()], {stored.id}, stored.previous
        size = _size(parts[0])
        while previous is not None and previous not in seen and len(seen) < MAX_CHAIN:
            found = await self.get(owner, previous)
            if found is None:
                break
            seen.add(previous)
            parts.append([item.copy() for item in (*found.input_items(), *found.output())])
            size += _size(parts[-1])
            _check_size(size)
            previous = found.previous
            await step_aside()
        return [item for part in reversed(parts) for item in part]

    async def resolved(self, owner: str, items: Sequence[Raw], context: Context) -> dict[int, Raw]:
        """Return the new items of a request by their position in it, with references replaced by the stored items.

        Items that `context` already contains are left out. Raise GatewayError if a reference names an item that is
        not stored.
        """
        references = [reference_in(item, position) for position, item in enumerate(items)]
        if (number := len(references) - references.count(None)) > MAX_REFERENCES:
            raise BadRequest(f"`input`: expected at most {MAX_REFERENCES:,} item references, got {number:,}", "input")
        own_ids = [None if reference else item_id(item) for item, reference in zip(items, references, strict=True)]
        if not any(references) and not any(own_ids):
            return dict(enumerate(items))
        known, chain = {item_id(item) for item in context.items} - {None}, set(context.chain)
        present = set(own_ids)
        result: dict[int, Raw] = {}
        wanted: dict[str, int] = {}
        for position, (item, reference) in enumerate(zip(items, references, strict=True)):
            identity = reference or own_ids[position]
            if identity is not None and (identity in known or response_of(identity) in chain):
                continue
            if reference is None:
                result[position] = item
            elif reference not in present:
                present.add(reference)
                wanted[reference] = position
        found = await self._referenced(owner, wanted)
        for reference, position in wanted.items():
            if reference not in found:
                raise item_not_found(reference, f"input[{position}].id")
            result[position] = found[reference]
        return dict(sorted(result.items()))

    def store(self, owner: str, stored: StoredResponse) -> bool:
        """Store a response. Return False if it is too large or has no id."""
        response_id = stored.id
        self._contexts.pop((owner, response_id))
        if not response_id or not self._responses.put(owner, response_id, encode(stored)):
            return False
        # Index ids that the gateway did not make: they do not contain the id of their response.
        latest = stored.input[-MAX_INDEXED:]
        asked = {found for item in latest if (found := item_id(item)) and not self._items.touch(owner, found)}
        answered = {found for item in stored.output() if (found := item_id(item))}
        for identity in asked | answered:
            if len(identity) <= MAX_INDEXED_ID and response_of(identity) != response_id:
                self._items.put(owner, identity, response_id.encode())
        return True

    async def _referenced(self, owner: str, references: Collection[str]) -> dict[str, Raw]:
        """Return the stored items with these ids, by id. Leave out ids that are not stored."""
        found = await self._items_in(owner, {reference: response_of(reference) for reference in references})
        indexed: dict[str, str] = {}
        for reference in references:
            if reference not in found and (response_id := await self._items.get(owner, reference)) is not None:
                indexed[reference] = response_id.decode()
        return found | await self._items_in(owner, indexed)

    async def _items_in(self, owner: str, responses: Mapping[str, str]) -> dict[str, Raw]:
        """Return items by id. `responses` maps the id of each item to that of its response, which is read only once."""
        wanted: dict[str, set[str]] = {}
        for reference, response_id in responses.items():
            wanted.setdefault(response_id, set()).add(reference)
        found: dict[str, Raw] = {}
        size = 0
        for response_id, references in wanted.items():
            stored = await self.get(owner, response_id)
            if stored is None:
                continue
            for item in (*stored.output(), *stored.input_items()):
                identity = item_id(item)
                if identity in references and identity not in found:
                    found[identity] = item.copy()  # the decoded item keeps the whole document in memory
                    size += memoryview(item).nbytes
            _check_size(size)
            await step_aside()  # decoding a large document takes a while
        return found


def _items(stored: StoredResponse) -> tuple[list[bytes], bool]:
    """Return the items that a response adds to its conversation, as copies that do not keep its document in memory.

    Also return whether the items begin with a summary, which replaces the conversation before it.
    """
    output = stored.output()
    summary = last_summary(output)
    items = [*stored.input, *output] if summary is None else output[summary:]
    return [bytes(item) for item in items if not is_trigger(item)], summary is not None


def _size(items: Iterable[Raw | bytes]) -> int:
    return sum(memoryview(item).nbytes for item in items)


def _check_size(size: int) -> None:
    """Raise GatewayError if the items of a conversation have more bytes than allowed."""
    if size > MAX_CONTEXT:
        limit = MAX_CONTEXT // (1024 * 1024)
        raise GatewayError("too_large", f"This conversation is larger than the {limit} MiB the gateway accepts.")


def _extended(context: Context, items: Sequence[bytes]) -> Context:
    size = context.size + _size(items)
    _check_size(size)
    return context._replace(items=(*context.items, *items), size=size)


def context_of(conversation: StoredConversation) -> Context:
    """Return a conversation as the context of a request. If it contains a summary, it begins with the last one."""
    items = conversation.items
    context = NO_CONTEXT._replace(checkpoint=conversation.checkpoint)
    return _extended(context, [bytes(item) for item in items[last_summary(items) or 0 :]])


def continued(context: Context, stored: StoredResponse) -> Context:
    """Return the context extended by a response and the items that it answered."""
    items, has_summary = _items(stored)
    before = NO_CONTEXT if has_summary else context
    return _extended(before._replace(model=stored.model, checkpoint=stored.checkpoint), items)
