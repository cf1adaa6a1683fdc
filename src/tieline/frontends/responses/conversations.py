"""Conversations at `/v1/conversations`: stored lists of items. A request that names one continues it."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec
from msgspec import Raw

from tieline.frontends.http import Exchange
from tieline.frontends.responses.history import Context, context_of
from tieline.frontends.responses.requests import Owners, nothing_there, page_of, path_below
from tieline.model.content import Checkpoint
from tieline.model.errors import BadRequest, GatewayError
from tieline.model.ports import DocumentArchive
from tieline.wire.openai_responses.echo import without_credentials
from tieline.wire.openai_responses.stored import (
    StoredConversation,
    check_items,
    conversation_not_found,
    item_id,
    item_not_found,
    read_conversation,
    render_conversation,
    render_deleted,
    render_items,
    with_ids,
)
from tieline.wire.shared.json import encode, parse

log = logging.getLogger("tieline")

MAX_ADDED = 20
"""Maximum number of items that one request may add to a conversation."""
MAX_METADATA = 16


class _Changes(msgspec.Struct):
    """The body of a request that creates or changes a conversation."""

    items: list[Raw] | None = None
    metadata: dict[str, str] | None = None


_CHANGES = msgspec.json.Decoder(_Changes)


class Claim(NamedTuple):
    """A conversation that is reserved for one response."""

    owner: str
    id: str
    conversation: StoredConversation
    items: list[Raw]
    """The items of the conversation when it was reserved. The list is replaced whenever they change."""

    def context(self) -> Context:
        """Return the conversation as the context of a request."""
        return context_of(self.conversation)


class Conversations:
    """The stored conversations of all clients. A client (`owner`) can access only its own."""

    def __init__(
        self,
        archive: DocumentArchive,
        mint: Callable[[str], str],
        clock: Callable[[], float],
        *,
        is_storing: bool = True,
    ) -> None:
        self._archive = archive
        self._is_storing = is_storing
        self._mint = mint
        self._clock = clock
        self._claims: dict[tuple[str, str], Claim] = {}
        self._changing = asyncio.Lock()
        """Held while a conversation is read, changed and stored, so that concurrent changes are not lost."""

    async def get(self, owner: str, conversation_id: str) -> StoredConversation:
        """Return a conversation. Raise GatewayError if it is not stored. Remove a conversation that is damaged."""
        claim = self._claims.get((owner, conversation_id))
        if claim is not None:
            return claim.conversation
        data = await self._archive.get(owner, conversation_id)
        conversation = None if data is None else read_conversation(data)
        if data is not None and conversation is None:
            log.warning("%s is damaged in the store; removing it", conversation_id)
            await self._archive.remove(owner, conversation_id)
        if conversation is None:
            raise conversation_not_found(conversation_id)
        return conversation

    def create(self, owner: str, changes: bytes) -> tuple[str, StoredConversation]:
        """Create and store a conversation from the body `changes`. Return its id and the conversation."""
        if not self._is_storing:
            message = "This gateway stores no conversations: `store` under [responses] is off in its configuration."
            raise BadRequest(message)
        wanted = _changes(changes)
        items = with_ids(wanted.items or (), self._mint)
        conversation = StoredConversation(created=int(self._clock()), metadata=wanted.metadata or {}, items=items)
        conversation_id = self._mint("conv")
        self._put(owner, conversation_id, conversation)
        return conversation_id, conversation

    async def update(self, owner: str, conversation_id: str, changes: bytes) -> StoredConversation:
        """Replace the metadata of a conversation with the metadata in the body `changes`. Return the conversation."""
        wanted = _changes(changes)
        async with self._changing:
            conversation = await self.get(owner, conversation_id)
            conversation.metadata = wanted.metadata or {}
            self._put(owner, conversation_id, conversation)
        return conversation

    async def add(self, owner: str, conversation_id: str, changes: bytes) -> list[Raw]:
        """Append the items in the body `changes` to a conversation. Return these items with their ids."""
        wanted = _changes(changes).items
        if not wanted:
            raise BadRequest("`items`: expected an array of at least one item", "items")
        added = with_ids(wanted, self._mint)
        async with self._changing:
            conversation = await self.get(owner, conversation_id)
            self._append(owner, conversation_id, conversation, added)
        return added

    async def remove_item(self, owner: str, conversation_id: str, removed: str) -> StoredConversation:
        """Remove the item with the id `removed` from a conversation. Return the conversation."""
        async with self._changing:
            conversation = await self.get(owner, conversation_id)
            kept = [item for item in conversation.items if item_id(item) != removed]
            if len(kept) == len(conversation.items):
                raise item_not_found(removed, "item_id")
            conversation.items, conversation.is_full, conversation.checkpoint = kept, False, None
            self._put(owner, conversation_id, conversation)
        return conversation

    async def remove(self, owner: str, conversation_id: str) -> None:
        """Remove a conversation. Raise GatewayError if it is not stored."""
        self._claims.pop((owner, conversation_id), None)
        if not await self._archive.remove(owner, conversation_id):
            raise conversation_not_found(conversation_id)

    async def claim(self, owner: str, conversation_id: str) -> "Claim":
        """Reserve a conversation for one response. A second, concurrent response would not see the first one.

        Raise GatewayError if the conversation is already reserved, not stored, or too large to be continued.
        """
        async with self._changing:
            conversation = await self.get(owner, conversation_id)
            if (owner, conversation_id) in self._claims:
                raise GatewayError(
                    "bad_request",
                    "Another response is being created in this conversation. Try again when it is complete.",
                    status=409,
                    code="conversation_locked",
                )
            if conversation.is_full:
                message = "This conversation is too large to be continued; its last response could not be added to it."
                raise GatewayError("too_large", message, param="conversation")
            claim = self._claims[owner, conversation_id] = Claim(
                owner, conversation_id, conversation, conversation.items
            )
        return claim

    def complete(self, claim: "Claim", items: Sequence[Raw], checkpoint: Checkpoint | None = None) -> None:
        """Release a conversation, and append the input and output items of the response that it was reserved for.

        `checkpoint` is the upstream's state after the response. It is discarded if items were added or removed
        since the conversation was reserved, because the upstream does not know about that. If the conversation would
        be too large with these items, they are left out, and it cannot be continued until an item is removed.
        """
        if self._claims.get((claim.owner, claim.id)) is not claim:
            return
        self.release(claim)
        if claim.conversation.items is not claim.items:
            checkpoint = None
        try:
            self._append(claim.owner, claim.id, claim.conversation, items, checkpoint)
        except GatewayError as error:
            log.warning("could not add a response to %s: %s", claim.id, error.message)
            claim.conversation.is_full = True
            self._put(claim.owner, claim.id, claim.conversation)

    def release(self, claim: "Claim") -> None:
        """Release a reserved conversation for the next response. Do nothing if it was released before."""
        if self._claims.get((claim.owner, claim.id)) is claim:
            del self._claims[claim.owner, claim.id]

    def _append(
        self,
        owner: str,
        conversation_id: str,
        conversation: StoredConversation,
        items: Sequence[Raw],
        checkpoint: Checkpoint | None = None,
    ) -> None:
        before = conversation.items, conversation.checkpoint
        conversation.items, conversation.checkpoint = [*conversation.items, *items], checkpoint
        try:
            self._put(owner, conversation_id, conversation)
        except GatewayError:
            conversation.items, conversation.checkpoint = before
            raise

    def _put(self, owner: str, conversation_id: str, conversation: StoredConversation) -> None:
        if not self._archive.put(owner, conversation_id, encode(conversation)):
            raise GatewayError("too_large", "This conversation is too large to be stored.")


class ConversationsFrontend:
    """Serves `/v1/conversations` and everything below it."""

    def __init__(self, conversations: Conversations, owners: Owners) -> None:
        self._conversations = conversations
        self._owners = owners

    async def create(self, exchange: Exchange) -> None:
        """Create a conversation, with its first items if the request has any."""
        owner, body = self._owners.of(exchange), await exchange.body()
        conversation_id, conversation = self._conversations.create(owner, body or b"{}")
        await exchange.respond(200, render_conversation(conversation_id, conversation))

    async def get(self, exchange: Exchange) -> None:
        """Respond with a conversation, a page of its items, or one item."""
        owner, path = self._owners.of(exchange), tuple(path_below(exchange, "conversations"))
        conversation = await self._conversations.get(owner, path[0])
        match path[1:]:
            case ():
                body = render_conversation(path[0], conversation)
            case ("items",):
                body = render_items(conversation.items, page_of(exchange))
            case ("items", wanted):
                found = next((item for item in conversation.items if item_id(item) == wanted), None)
                if found is None:
                    raise item_not_found(wanted, "item_id")
                body = bytes(found)
            case _:
                raise nothing_there(exchange)
        await exchange.respond(200, body)

    async def post(self, exchange: Exchange) -> None:
        """Change the metadata of a conversation, or add items to it."""
        owner, path, changes = (
            self._owners.of(exchange),
            tuple(path_below(exchange, "conversations")),
            await exchange.body(),
        )
        match path[1:]:
            case ():
                body = render_conversation(path[0], await self._conversations.update(owner, path[0], changes))
            case ("items",):
                added = await self._conversations.add(owner, path[0], changes)
                body = render_items(added, page_of(exchange, newest_first=False))
            case _:
                raise nothing_there(exchange)
        await exchange.respond(200, body)

    async def delete(self, exchange: Exchange) -> None:
        """Remove a conversation, or one of its items."""
        owner, path = self._owners.of(exchange), tuple(path_below(exchange, "conversations"))
        match path[1:]:
            case ():
                await self._conversations.remove(owner, path[0])
                body = render_deleted(path[0], "conversation.deleted")
            case ("items", wanted):
                body = render_conversation(path[0], await self._conversations.remove_item(owner, path[0], wanted))
            case _:
                raise nothing_there(exchange)
        await exchange.respond(200, body)


def _changes(body: bytes) -> _Changes:
    changes = parse(_CHANGES, body)
    if len(changes.items or ()) > MAX_ADDED:
        raise BadRequest(f"`items`: expected at most {MAX_ADDED} items, got {len(changes.items or ())}", "items")
    if len(changes.metadata or ()) > MAX_METADATA:
        raise BadRequest(f"`metadata`: expected at most {MAX_METADATA} pairs", "metadata")
    if changes.items:
        check_items(changes.items)
        changes.items = list(map(without_credentials, changes.items))
    return changes
