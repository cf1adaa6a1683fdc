"""Runs for HTTP APIs: every leg posts the whole history, or only the messages after the upstream's checkpoint.

A leg can be retried only while the client has seen nothing of it. Therefore the first events are held until one of them
would be visible to the client. A failure before that point leads to another attempt, or is reported as a status code.
An answer that is not streamed becomes visible at its end. In a stream, text and thinking become visible as they arrive.
So do the arguments of a call, if the client accepts them in increments. Otherwise, calls become visible when text or
thinking follows them or the leg ends.
"""

import asyncio
import logging
from collections.abc import Sequence
from itertools import islice
from typing import Self

from msgspec.structs import replace

from tieline.backends.http_api.other_requests import list_models
from tieline.backends.http_api.redirects import REDIRECTS, follow
from tieline.backends.http_api.upstream import ERROR_LIMIT, REPLY_LIMIT, Reader, Substitute, Upstream
from tieline.backends.http_api.upstream_errors import (
    empty_answer,
    error_response,
    final,
    is_missing,
    pipe_failed,
    web_page,
)
from tieline.model.content import NO_META, STATE, Checkpoint, Message, Meta, Part, Text, ToolCall, ToolResult
from tieline.model.events import (
    Batch,
    Event,
    Failed,
    Finished,
    Note,
    PartDelta,
    PartEnd,
    PartStart,
    Started,
    StopReason,
    Usage,
    joined,
    of_kind,
)
from tieline.model.ports import Host, Leg, ModelInfo, Run
from tieline.model.request import Request
from tieline.net.client.http import HttpResponse, PipeError
from tieline.wire.shared.spelling import BuiltRequest

log = logging.getLogger("tieline.upstream")

_NONE: frozenset[str] = frozenset()
_INVISIBLE = frozenset((Started, Usage, Note))
"""Events that contain no part of the answer. A retry is still possible after them."""
_CALL_EVENTS = frozenset((PartDelta, PartEnd))
_ENDINGS = frozenset((Finished, Failed))
_STREAM = b"text/event-stream"


class ReplayRun:
    """A run with an HTTP API. Its only state is the history, and the upstream's checkpoint if there is one.

    Calls are pending only if the gateway has executed some calls of a leg and the client has to execute the others. The
    run keeps the gateway's results until the client's results have arrived.
    """

    __slots__ = ("_leg", "_reply", "_request", "_results", "_upstream", "pending")

    def __init__(self, upstream: Upstream, request: Request) -> None:
        self._upstream = upstream
        self._request = request
        self._leg: ReplayLeg | None = None
        self._reply: list[Part] = []
        self._results: dict[str, ToolResult] = {}
        self.pending: frozenset[str] = _NONE

    def leg(self) -> Leg:
        """Return a leg that posts the next request."""
        self._reply = []
        self._leg = leg = ReplayLeg(self._upstream.current, self._request, self._reply)
        return leg

    async def answer(
        self,
        results: Sequence[ToolResult],
        request: Request | None = None,
        words: str = "",
    ) -> None:
        """Submit results. Once every call has a result, append the reply and the results to the history.

        The tools and the `may_store` flag of `request` replace the current ones. Its history is ignored, because it
        lacks the calls that the gateway executed.
        """
        if request is not None:
            self._request = replace(self._request, tools=request.tools, may_store=request.may_store)
        self._results.update((result.call_id, result) for result in results)
        calls = [part.id for part in self._reply if type(part) is ToolCall]
        self.pending = frozenset(calls) - self._results.keys()
        if self.pending:
            return
        answers: list[Part] = [self._results[call_id] for call_id in calls]
        if words:
            answers.append(Text(text=words))
        leg = self._leg
        meta = NO_META if leg is None else leg.meta
        checkpoint = None if leg is None or not self._request.may_store else leg.checkpoint
        reply = Message(role="assistant", parts=tuple(self._reply), meta=meta)
        messages = (*self._request.messages, reply, Message(role="user", parts=tuple(answers)))
        self._request = replace(self._request, messages=messages, checkpoint=checkpoint)
        self._results = {}

    async def aclose(self) -> None:
        """Do nothing: the run holds no resources between legs."""


class ReplayBackend:
    """Backend for one HTTP API. If `models` is empty, its models are requested from the path `listing`."""

    is_agent = False
    reads_options = False
    obeys_limits = True

    def __init__(self, upstream: Upstream, *, listing: str, models: Sequence[str] = ()) -> None:
        self.name = upstream.name
        self.protocols: tuple[str, ...] = (upstream.codec.protocol,)
        self._upstream = upstream
        self._listing = listing
        self._models = tuple(models)

    async def models(self) -> Sequence[ModelInfo]:
        if self._models:
            return [ModelInfo(id=model) for model in self._models]
        return await self.listed_models()

    async def listed_models(self) -> Sequence[ModelInfo]:
        """Return the models that the upstream itself lists. Raise GatewayError if it provides no list."""
        return await list_models(self._upstream, self._listing)

    async def start(self, request: Request, host: Host | None = None) -> Run:  # noqa: ARG002 - these APIs never ask the user
        return ReplayRun(self._upstream_for(request), request)

    def _upstream_for(self, request: Request) -> Upstream:  # noqa: ARG002 - most upstreams have one API
        return self._upstream

    async def count(self, request: Request) -> int | None:  # noqa: ARG002 - most APIs cannot count tokens
        return None

    async def aclose(self) -> None:
        """Do nothing: the HTTP client is shared and is closed by its owner."""


class ReplayLeg:
    """One POST and the events of its answer. If the leg fails, the failure is the last event.

    After a transient failure, the request is posted again if the client has seen nothing.
    """

    __slots__ = (
        "_built",
        "_hides_calls",
        "_in_call",
        "_reader",
        "_reply",
        "_request",
        "_response",
        "_upstream",
        "checkpoint",
        "meta",
        "notes",
    )

    def __init__(self, upstream: Upstream, request: Request, reply: list[Part]) -> None:
        self._upstream = upstream
        self._request = request
        self._reply = reply
        self.meta: Meta = NO_META
        """The provider's state for the whole reply, to be sent back with the reply. Parts may have their own state."""
        self.checkpoint: Checkpoint | None = None
        """The upstream's state after the reply, if the upstream has stored it."""
        self._built: BuiltRequest | None = None
        self._response: HttpResponse | None = None
        self._reader: Reader | None = None
        self._hides_calls = not request.incremental_calls
        self._in_call = False
        """Whether the part being received is a call that is not visible to the client until it is complete."""
        self.notes: Sequence[Note] = ()
        """Notes about changes to the request and omissions from it; empty until the request has been built."""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Batch:
        if self._built is None:
            self._built = built = self._upstream.codec.build(self._request)
            self.notes = built.notes
            batch, notes = await self._attempt(built), built.notes
            if type(batch[-1]) is Failed:
                batch, notes = await self._retry(built, batch)
            if notes and type(batch[0]) is Started:
                batch[1:1] = notes
        else:
            batch = await self._more()
        if not batch:
            self._close()
            raise StopAsyncIteration
        if self._request.tools:  # the reply is needed only if it can contain calls, to which results are added
            self._reply += [event.part for event in of_kind(batch, PartEnd)]
            if type(last := batch[-1]) is Finished:
                self.checkpoint = last.checkpoint
                if STATE in last.meta:
                    self.meta = {STATE: last.meta[STATE]}
        return batch

    async def aclose(self) -> None:
        self._close()

    def _close(self) -> None:
        """Close the response. If the answer is incomplete, the rest of it is discarded."""
        if self._response is not None:
            self._response.close()

    async def _attempt(self, built: BuiltRequest) -> list[Event]:
        """Post the request, and return the events up to the first one that is visible to the client."""
        upstream, request = self._upstream, self._request
        codec = upstream.codec
        request_headers = codec.headers if request.protocol != codec.protocol else codec.headers_for(request)
        self._response = self._reader = None
        self._in_call = False
        try:
            self._response = response = await upstream.client.send(
                upstream.origin, "POST", upstream.path, request_headers, built.body, upstream.timeouts
            )
            if response.status in REDIRECTS:
                self._response = response = await follow(
                    upstream, response, "POST", upstream.path, request_headers, built.body
                )
            headers = response.pick(upstream.forwarded)
            if not 200 <= response.status < 300:
                return [error_response(upstream, response, await response.read(ERROR_LIMIT))]
            events = await self._beginning(response, built)
        except PipeError as error:
            return [pipe_failed(upstream.name, error)]
        seen = 0
        while self._is_invisible(events, seen) and (more := await self._more()):
            seen = len(events)
            events = joined(events, more)
        if self._is_empty(events):
            return [empty_answer(upstream)]
        if headers and events and type(started := events[0]) is Started:
            events[0] = replace(started, headers=headers)
        return events

    def _is_empty(self, events: list[Event]) -> bool:
        """Return whether a complete answer has no content, which counts as a failure.

        After tool results, an empty answer is common and not a failure: the model has nothing to add. Nor is it a
        failure if the client uses the upstream's protocol: the client receives everything that the upstream sent, which
        may include content that the gateway does not recognize.
        """
        if self._request.protocol == self._upstream.codec.protocol:
            return False
        last = events[-1] if events else None
        if type(last) is not Finished or last.reason is not StopReason.END_TURN or last.detail:
            return False
        if not _INVISIBLE.issuperset(map(type, events[:-1])):
            return False
        messages = self._request.messages
        return bool(messages) and not any(type(part) is ToolResult for part in messages[-1].parts)

    async def _beginning(self, response: HttpResponse, built: BuiltRequest) -> list[Event]:
        """Return the first events of an answer, or all of them if it is not streamed.

        The content type of the answer decides whether it is streamed, not the request: some upstreams cannot stream,
        and some always do. If the type is missing or unknown, the first byte decides.
        """
        upstream, model = self._upstream, self._request.model
        keep_source = self._request.protocol == upstream.codec.protocol
        kind = response.field(b"content-type")
        first = beginning = b""
        is_json = kind.startswith(b"application/json")
        if not is_json and not kind.startswith(_STREAM):
            first = response.take() or await response.chunk()
            beginning = first.lstrip()[:1]
            is_json = beginning == b"{"
        if is_json:
            body = await response.read(REPLY_LIMIT)
            body = first + body if first else body
            return upstream.codec.read_reply(
                body, built.tool_names, fallback_id=upstream.new_id(), model=model, keep_source=keep_source
            )
        if beginning == b"<":
            response.close()
            return [web_page(upstream, first)]
        self._reader = reader = upstream.codec.reader(
            built.tool_names, fallback_id=upstream.new_id(), model=model, keep_source=keep_source
        )
        return (reader.feed(first) if first else []) or await self._more()

    def _is_invisible(self, events: list[Event], start: int) -> bool:
        """Return whether the client sees none of the events from index `start` on, and the leg has not ended."""
        if not events or type(events[-1]) in _ENDINGS:
            return False
        if not self._request.stream:
            return True
        for event in islice(events, start, None):
            if type(event) is PartStart:
                part = event.part
                self._in_call = self._hides_calls and type(part) is ToolCall and not self._shows(part)
            elif type(event) not in _INVISIBLE and not (self._in_call and type(event) in _CALL_EVENTS):
                return False
        return True

    def _shows(self, call: ToolCall) -> bool:
        """Return whether the client sees a call before it is complete."""
        return call.freeform and self._request.incremental_freeform

    async def _more(self) -> list[Event]:
        """Wait for the next events of the stream and return them, or an empty list once the leg has ended."""
        reader, response = self._reader, self._response
        if reader is None or response is None or reader.ended:
            return []
        try:
            while data := response.take() or await response.chunk():
                events = reader.feed(data)
                if reader.ended:
                    response.release()
                if events:
                    return events
        except PipeError as error:
            self._reader = None
            return [pipe_failed(self._upstream.name, error)]
        return reader.close()

    async def _retry(self, built: BuiltRequest, first: list[Event]) -> tuple[list[Event], tuple[Note, ...]]:
        """Retry until an event is visible to the client or the failure is final. Return the events and the notes."""
        notes: tuple[Note, ...] = ()
        attempts = 1
        while type(failed := first[-1]) is Failed:
            if (changed := self._recovered(built, failed)) is not None:
                built = changed
                first = await self._again(built)
                continue
            if (substitute := self._upstream.substitute) is not None and is_missing(failed):
                built, first = await self._substituted(substitute)
                continue
            delay = self._upstream.retry_policy.delay(failed, attempts)
            if delay is None:
                # The held parts are dropped, because the client must not see an incomplete call.
                first = [event for event in first if type(event) in _INVISIBLE]
                first.append(final(failed))
                break
            self._close()
            notes += (Note(kind="retry", message=f"attempt {attempts} failed, the next is in {delay:.1f} s"),)
            attempts += 1
            await asyncio.sleep(delay)
            first = await self._attempt(built)
        return first, built.notes + notes

    async def _again(self, built: BuiltRequest) -> list[Event]:
        self._close()
        return await self._attempt(built)

    def _recovered(self, built: BuiltRequest, failed: Failed) -> BuiltRequest | None:
        """Return the request in another form that the upstream may accept, or None if no other form would help.

        Sending the changed request does not count as a retry.
        """
        recover = self._upstream.codec.recover
        recovered = None if recover is None else recover(self._request, built, failed)
        if recovered is not None:
            self.notes = recovered.notes
        return recovered

    async def _substituted(self, substitute: Substitute) -> tuple[BuiltRequest, list[Event]]:
        """Send the request to another API of the same server. If that API exists, use it for all further requests."""
        name, path = self._upstream.name, self._upstream.path
        self._upstream = substitute.upstream
        built = self._upstream.codec.build(self._request)
        self.notes = built.notes
        first = await self._again(built)
        if type(failed := first[-1]) is not Failed or not is_missing(failed):
            substitute.is_used = True
            log.warning("upstream %s has no %s; sending requests to %s from now on", name, path, self._upstream.path)
        return built, first
