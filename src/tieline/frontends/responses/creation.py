"""Prepare requests that create a response, and store the response when it is complete.

HTTP, WebSocket and background requests are prepared in the same way. If a request continues a stored response or a
conversation, the whole history is inserted. If it asks for a compaction, it becomes a request for a summary.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from msgspec import Raw
from msgspec.structs import replace

from tieline.core.history.token_estimate import estimate
from tieline.core.legs import losses
from tieline.core.legs.gateway import Gateway
from tieline.core.legs.leg import LegClient
from tieline.frontends.bodies import COUNT_ABOVE, check_values
from tieline.frontends.profiles import Profile
from tieline.frontends.relay import ServedLeg
from tieline.frontends.responses.compacting import CompactingLeg
from tieline.frontends.responses.conversations import Claim, Conversations
from tieline.frontends.responses.history import NO_CONTEXT, Context, ResponseHistory, context_of, continued
from tieline.model.content import Checkpoint
from tieline.model.errors import BadRequest, GatewayError
from tieline.model.events import Batch, Event, Finished
from tieline.model.request import Request
from tieline.wire import openai_responses as wire
from tieline.wire.openai_responses.frames import events_in, server_sent, with_dropped, with_response
from tieline.wire.openai_responses.stored import (
    CreateRequest,
    StoredResponse,
    error_in_request,
    last_summary,
)
from tieline.wire.shared.json import encode

log = logging.getLogger("tieline")

NO_CONTEXTS: Mapping[str, Context] = {}


class Creation(NamedTuple):
    """A request to create a response, ready to be answered."""

    owner: str
    create: CreateRequest
    request: Request
    options: wire.Options
    context: Context
    """The conversation that the request continues."""
    items: Sequence[Raw] | None
    """The new items, with references resolved; None if they are exactly the input items in the body."""
    claim: Claim | None = None
    """The reserved conversation to which the response will be added; None if there is none."""

    @property
    def size(self) -> int:
        """The approximate size of the request in bytes, including the history that it continues."""
        return self.context.size + len(self.create.body)

    def input(self) -> Sequence[Raw]:
        """Return the new items that the response answers, without the history."""
        return self.create.items() if self.items is None else self.items


class ResponseCreator:
    """Prepares requests and stores their responses."""

    def __init__(
        self,
        gateway: Gateway,
        history: ResponseHistory,
        conversations: Conversations,
        *,
        clock: Callable[[], float],
        mint: Callable[[str], str],
        is_storing: bool,
    ) -> None:
        self._gateway = gateway
        self._history = history
        self._conversations = conversations
        self._clock = clock
        self.mint = mint
        """Returns a new random id with the given prefix."""
        self._is_storing = is_storing

    async def prepare(
        self,
        owner: str,
        body: bytes,
        profile: Profile,
        contexts: Mapping[str, Context] = NO_CONTEXTS,
        *,
        claims: bool = True,
    ) -> Creation:
        """Parse a request and insert the history that it continues.

        `contexts` are conversations in memory, stored or not, by the id of their last response. If `claims` is true,
        reserve the conversation to which the response will be added. The caller must end each creation with
        `release`. Raise GatewayError if the request is invalid or refers to an object that is not stored.
        """
        create = CreateRequest(body)
        if create.is_background and not self._is_storing:
            message = "`background`: this gateway stores no responses (`store` under [responses] in its configuration)"
            raise BadRequest(message, "background")
        if create.conversation is None:
            context = await self._context(owner, create, contexts)
            return await self._prepared(owner, create, profile, context)
        if not claims:
            conversation = await self._conversations.get(owner, create.conversation)
            return await self._prepared(owner, create, profile, context_of(conversation))
        claim = await self._conversations.claim(owner, create.conversation)
        try:
            return (await self._prepared(owner, create, profile, claim.context()))._replace(claim=claim)
        except BaseException:
            self._conversations.release(claim)
            raise

    def begun(self, creation: Creation, response: bytes) -> bool:
        """Store a response that has just begun. Return False if it is too large."""
        return self._store(creation, _without_credentials(_stored(creation, response)))

    def finished(self, creation: Creation, response: bytes, checkpoint: Checkpoint | None) -> None:
        """Store a complete response if the client wants it stored, and add it to its conversation, if there is one.

        `checkpoint` is the upstream's state after the response, if there is any.
        """
        claim = creation.claim
        if not self._is_stored(creation) and claim is None:
            return
        stored = _without_credentials(_stored(creation, response, checkpoint))
        if self._is_stored(creation) and not self._store(creation, stored):
            log.warning("%s is too large to be stored; requests cannot continue it", stored.id)
        if claim is not None and stored.is_usable:
            self._conversations.complete(claim, [*stored.input_items(), *stored.output()], stored.checkpoint)

    def _is_stored(self, creation: Creation) -> bool:
        return creation.create.is_stored and self._is_storing

    def _store(self, creation: Creation, stored: StoredResponse) -> bool:
        return self._history.store(creation.owner, stored)

    async def open(self, creation: Creation, request: Request, client: LegClient) -> ServedLeg:
        """Return the leg that answers a prepared request.

        `request` is `creation.request`, possibly with changed settings.
        """
        threshold, options = creation.create.compact_threshold, creation.options
        if options.compaction:
            client = replace(client, gets_tools=False)  # the model should only write the summary
        elif threshold is not None and estimate(request) > threshold:
            item_id = f"cmp_{options.response_id.removeprefix('resp_')}_0"
            return CompactingLeg(self._gateway, request, client, item_id)
        return await self._gateway.open(request, client)

    def release(self, creation: Creation) -> None:
        """Release the conversation that was reserved for a request, if any. Call this however the request ends."""
        if creation.claim is not None:
            self._conversations.release(creation.claim)

    def writer(self, creation: Creation) -> "StoringWriter":
        """Return a writer for a streamed response. It stores the response before the client receives the last event."""
        return StoringWriter(wire.ResponseWriter(creation.options), partial(self.finished, creation))

    async def _prepared(self, owner: str, create: CreateRequest, profile: Profile, context: Context) -> Creation:
        items: Sequence[Raw] | None = None
        request: Request | None = None
        if not create.generates and not context.items and not create.items():
            # A client may announce a conversation before there is a message.
            request = Request(model=create.model, messages=(), protocol=wire.PROTOCOL)
        elif context is NO_CONTEXT:
            try:
                request = wire.parse_request(create.body, self._gateway.conversations)
            except GatewayError as error:
                if error.kind != "not_found":  # an item that the request refers to
                    raise
        if request is None:
            request, items = await self._completed(owner, create, context)
        with suppress(GatewayError):  # the gateway raises the same error when the leg is opened
            request = self._gateway.named(request)
        options = self._options(create, request, profile)
        if create.is_stored and self._is_storing:
            request = replace(request, may_store=True)
        if wire.wants_compaction(request):
            request, options = wire.summary_request(request), replace(options, compaction=True)
        elif create.compact_threshold is not None:
            extra = {name: value for name, value in request.extra.items() if name != "context_management"}
            request = replace(request, extra=extra)
        if options.arguments == "incremental" and request.tools:
            request = replace(request, incremental_calls=True)
        return Creation(owner, create, request, options, context, items)

    async def _completed(self, owner: str, create: CreateRequest, context: Context) -> tuple[Request, Sequence[Raw]]:
        """Return a request with its whole history, and its new items."""
        resolved = await self._history.resolved(owner, create.items(), context)
        items = tuple(resolved.values())
        body = create.completed(items, context.model)
        if context.size + len(body) > COUNT_ABOVE:
            await check_values([*context.items, body])  # the body was checked when it arrived, but the history was not
        known = wire.KnownItems(context.items, context.checkpoint)
        try:
            return wire.parse_request(body, self._gateway.conversations, known), items
        except BadRequest as error:
            raise error_in_request(error, len(context.items), tuple(resolved)) from error

    async def _context(self, owner: str, create: CreateRequest, contexts: Mapping[str, Context]) -> Context:
        if create.previous is None:
            return NO_CONTEXT
        return contexts.get(create.previous) or await self._history.context(owner, create.previous)

    def _options(self, create: CreateRequest, request: Request, profile: Profile) -> wire.Options:
        is_stored = create.is_stored and self._is_storing
        fields = create.fields if self._is_storing else {**create.fields, "store": Raw(b"false")}
        response_id = self.mint("resp")
        return wire.Options(
            created=int(self._clock()),
            now=self._clock,
            response_id=response_id,
            model=request.model,
            echo=wire.echo_of(fields),
            own=_own_members(response_id, create, is_stored=is_stored),
            tools=wire.offered_tools(request.tools) if request.tools else {},
            # A stored response keeps the signatures of its thinking, for the request that continues it.
            encrypted=wire.wants_encrypted(fields) or is_stored,
            arguments=profile.arguments or "incremental",
            completes_cut=profile.incomplete == "completed",
            keep_cut_calls=profile.incomplete != "completed",  # clients may run the calls in a complete response
        )


def _own_members(response_id: str, create: CreateRequest, *, is_stored: bool) -> dict[str, Raw]:
    """Return the fields of a response that the gateway sets itself, because upstreams do not receive them."""
    members: dict[str, Any] = {
        "id": response_id,
        "store": is_stored,
        "previous_response_id": create.previous,
        "background": create.is_background,
    }
    if create.conversation is not None:
        members["conversation"] = {"id": create.conversation}
    return {name: Raw(encode(value)) for name, value in members.items()}


def _stored(creation: Creation, response: bytes, checkpoint: Checkpoint | None = None) -> StoredResponse:
    """Return a response in the form in which it is stored."""
    stored = StoredResponse(response=Raw(response), input=list(creation.input()), previous=creation.create.previous)
    # A checkpoint covers the conversation up to its last answer, so there must be an answer. After a compaction, the
    # upstream's state still contains what the summary has replaced.
    if checkpoint is not None and creation.request.may_store and (output := stored.output()):
        stored.checkpoint = checkpoint if last_summary(output) is None else None
    return stored


def _without_credentials(stored: StoredResponse) -> StoredResponse:
    """Return a response whose input contains no credentials for MCP servers."""
    return replace(stored, input=[wire.without_credentials(item) for item in stored.input])


def context_after(creation: Creation, response: bytes, checkpoint: Checkpoint | None) -> Context:
    """Return the conversation after a request, including the response to it."""
    return continued(creation.context, _stored(creation, response, checkpoint))


Finish = Callable[[bytes, Checkpoint | None], None]


class StoringWriter:
    """Writes a response as server-sent events.

    `finished` is called once with the complete response and the upstream's state after it, before the last event is
    returned.
    """

    def __init__(self, writer: wire.ResponseWriter, finished: Finish) -> None:
        self._writer = writer
        self._finished: Finish | None = finished
        self.dropped: Sequence[str] = ()
        """The content that could not be translated, which the response lists. Set this before the last batch."""
        self.checkpoint: Checkpoint | None = None
        """The upstream's state after the response, if there is any."""
        self.response = b""
        """The complete response as JSON; empty until the response has ended."""

    def write(self, event: Event) -> bytes:
        return self.write_all((event,))

    def write_all(self, batch: Batch) -> bytes:
        written = self._writer.write_all(batch)
        finished, response = self._finished, self._writer.response
        if finished is None or not response:
            return written
        self._finished = None
        if dropped := losses.listed(self.dropped):
            response = with_dropped(response, dropped)
            *events, last = events_in(written)
            written = b"".join(map(server_sent, [*events, with_response(last, response)]))
        self.response, self.checkpoint = response, checkpoint_in(batch)
        finished(self.response, self.checkpoint)
        return written

    def keep_alive(self) -> bytes:
        return self._writer.keep_alive()


def checkpoint_in(batch: Batch) -> Checkpoint | None:
    """Return the checkpoint in the last batch of a leg, if there is one."""
    last = batch[-1] if batch else None
    return last.checkpoint if isinstance(last, Finished) else None
