"""Runs for stateless HTTP APIs: every leg posts the whole history.

A leg may be tried again only while the client has seen nothing of it. So the first events are held until one of them
shows something, and a failure up to that point can still become another attempt or a status code. A whole answer shows
nothing before its end. A stream shows text and thinking as they come, and calls too if the client takes arguments in
increments; otherwise a call shows nothing before something else follows or the leg ends.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count, islice
from typing import Protocol, Self
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace

from tieline.model.content import NO_META, STATE, Message, Meta, Part, Text, ToolCall, ToolResult
from tieline.model.errors import NOT_RETRYABLE, STATUS, GatewayError, LegFailed
from tieline.model.events import (
    Batch,
    ErrorKind,
    Event,
    Failed,
    Finished,
    Headers,
    Note,
    PartDelta,
    PartEnd,
    PartStart,
    Started,
    Usage,
    joined,
    of_kind,
)
from tieline.model.ports import Host, Leg, ModelInfo, Run
from tieline.model.request import Request
from tieline.net.client.http import HttpClient, HttpResponse, Origin, PipeError, Timeouts, redirected
from tieline.wire.shared.http_errors import excerpt
from tieline.wire.shared.spelling import Outgoing, Spelled

REPLY_LIMIT = 64 * 1024 * 1024
ERROR_LIMIT = 256 * 1024
FIRST_BACK_OFF = 0.5
UNREACHABLE = "upstream_unreachable"
_NONE: frozenset[str] = frozenset()
_UNSEEN = frozenset((Started, Usage, Note))
"""Events that show a client nothing of the answer."""
_SHOWING = frozenset((PartDelta, PartEnd))
_ENDINGS = frozenset((Finished, Failed))
RETRIED = frozenset({408, 409, 429, 500, 502, 503, 504, 529})
REDIRECTS = frozenset({301, 302, 303, 307, 308})
_FOLLOWED = REDIRECTS - {303}
"""With 303 the answer is elsewhere, and not for the same request."""
MOST_REDIRECTS = 3
_STREAM = b"text/event-stream"
_RETRIED_REQUESTS = frozenset({408, 409})
"""Statuses in the range of the client's faults that may pass nevertheless."""
_FINAL = frozenset[ErrorKind](("bad_request", "unauthorized", "billing", "forbidden", "not_found", "too_large"))

PASSED_ON = ("retry-after", "retry-after-ms", "x-should-retry", "openai-processing-ms", "request-id")
PASSED_ON_PREFIXES = (b"anthropic-ratelimit-", b"x-ratelimit-")


class _PassedOn(dict[bytes, str]):
    """By the name of an upstream's header: the name under which a client gets it, "" for one that it does not get."""

    LIMIT = 1000
    """So many names are remembered; an upstream has some dozens."""

    def __missing__(self, name: bytes) -> str:
        named = name.decode("latin-1") if name.startswith(PASSED_ON_PREFIXES) else ""
        if len(self) < self.LIMIT:
            self[name] = named
        return named


_NAMED = _PassedOn({name.encode(): name for name in PASSED_ON} | {b"x-request-id": "request-id"})


class Reader(Protocol):
    """Bytes of a streamed answer → events."""

    @property
    def ended(self) -> bool: ...
    def feed(self, data: bytes) -> list[Event]: ...
    def close(self) -> list[Event]: ...


class Codec(Protocol):
    """What a run needs of a protocol: a request to send, and readers of what comes back."""

    @property
    def protocol(self) -> str: ...
    def build(self, request: Request) -> Outgoing: ...
    def headers(self, request: Request) -> Headers: ...
    def reader(self, spelled: Spelled, *, fallback_id: str, model: str, keep_source: bool) -> Reader: ...
    def read_reply(
        self, body: bytes, spelled: Spelled, *, fallback_id: str, model: str, keep_source: bool
    ) -> list[Event]: ...
    def read_error(self, status: int, body: bytes, headers: Headers) -> Failed: ...


@dataclass(frozen=True, slots=True)
class Patience:
    """How often a leg is tried again, and how long a wait in between may be at most."""

    retries: int = 2
    longest_wait: float = 20.0


@dataclass(frozen=True, slots=True)
class Upstream:
    """Where a stateless API is and how it is reached."""

    name: str
    client: HttpClient
    origin: Origin
    path: str
    codec: Codec
    mint: Callable[[], str]
    timeouts: Timeouts
    patience: Patience
    key_source: str = ""
    """Where its key comes from (a variable or a file), for messages about it; empty if it has none."""


class ReplayRun:
    """A conversation with a stateless API: nothing is kept upstream, so the history is all there is.

    Nothing is pending, with one exception: where some calls of a leg were answered and others were not (the gateway
    ran its own, the client has to run the rest), what was answered is known only here.
    """

    __slots__ = ("_leg", "_reply", "_request", "_results", "_upstream", "pending")

    def __init__(self, upstream: Upstream, request: Request) -> None:
        self._upstream = upstream
        self._request = request
        self._leg: _Leg | None = None
        self._reply: list[Part] = []
        self._results: dict[str, ToolResult] = {}
        self.pending: frozenset[str] = _NONE

    def leg(self) -> Leg:
        """Post the history."""
        self._reply = []
        self._leg = leg = _Leg(self._upstream, self._request, self._reply)
        return leg

    async def answer(
        self,
        results: Sequence[ToolResult],
        request: Request | None = None,
        words: str = "",
    ) -> None:
        """Put the reply and the results of its calls behind the history, once all of them are there.

        The tools may be others from now on; a client's history lacks what was answered without it, so ours counts.
        """
        if request is not None:
            self._request = replace(self._request, tools=request.tools)
        self._results.update((result.call_id, result) for result in results)
        calls = [part.id for part in self._reply if type(part) is ToolCall]
        self.pending = frozenset(calls) - self._results.keys()
        if self.pending:
            return
        answers: list[Part] = [self._results[call_id] for call_id in calls]
        if words:
            answers.append(Text(text=words))
        meta = NO_META if self._leg is None else self._leg.meta
        said = Message(role="assistant", parts=tuple(self._reply), meta=meta)
        messages = (*self._request.messages, said, Message(role="user", parts=tuple(answers)))
        self._request = replace(self._request, messages=messages)
        self._results = {}

    async def aclose(self) -> None:
        """There is nothing to free between legs."""


class ReplayBackend:
    """Runs on one stateless upstream; `listing` is the path of its list of models."""

    is_agent = False
    reads_options = False
    obeys_limits = True

    def __init__(self, upstream: Upstream, *, listing: str, models: Sequence[str] = ()) -> None:
        self.name = upstream.name
        self.protocol = upstream.codec.protocol
        self._upstream = upstream
        self._listing = listing
        self._models = tuple(models)

    async def models(self) -> Sequence[ModelInfo]:
        if self._models:
            return [ModelInfo(id=model) for model in self._models]
        return await list_models(self._upstream, self._listing)

    async def start(self, request: Request, host: Host | None = None) -> Run:  # noqa: ARG002 - this upstream asks nobody back
        return ReplayRun(self._upstream, request)

    async def count(self, request: Request) -> int | None:  # noqa: ARG002 - most APIs have no way to ask
        return None

    async def aclose(self) -> None:
        """The HTTP client is shared; whoever made it closes it."""


class _Leg:
    """One POST and the events of its answer; what goes wrong is the last event.

    While the client has seen nothing, a transient failure is followed by another attempt.
    """

    __slots__ = (
        "_hides_calls",
        "_in_call",
        "_outgoing",
        "_reader",
        "_reply",
        "_request",
        "_response",
        "_upstream",
        "meta",
        "notes",
    )

    def __init__(self, upstream: Upstream, request: Request, reply: list[Part]) -> None:
        self._upstream = upstream
        self._request = request
        self._reply = reply
        self.meta: Meta = NO_META
        """What the upstream wants back with its reply, beside what is in its parts."""
        self._outgoing: Outgoing | None = None
        self._response: HttpResponse | None = None
        self._reader: Reader | None = None
        self._hides_calls = not request.incremental_calls
        self._in_call = False
        """Whether the part under way is a call that the client does not see yet."""
        self.notes: Sequence[Note] = ()
        """What was changed or left out in the request, as soon as it is built."""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Batch:
        if self._outgoing is None:
            self._outgoing = outgoing = self._upstream.codec.build(self._request)
            self.notes = outgoing.notes
            batch, notes = await self._attempt(outgoing), outgoing.notes
            if type(batch[-1]) is Failed:
                batch, notes = await self._try_again(outgoing, batch)
            if notes and type(batch[0]) is Started:
                batch[1:1] = notes
        else:
            batch = await self._more()
        if not batch:
            self._close()
            raise StopAsyncIteration
        if self._request.tools:  # only then is there something to answer, and the reply to be told with it
            self._reply += [event.part for event in of_kind(batch, PartEnd)]
            if type(last := batch[-1]) is Finished and STATE in last.meta:
                self.meta = {STATE: last.meta[STATE]}
        return batch

    async def aclose(self) -> None:
        self._close()

    def _close(self) -> None:
        """Let go of the connection; an answer that is still under way is given up at once."""
        if self._response is not None:
            self._response.close()

    async def _attempt(self, outgoing: Outgoing) -> list[Event]:
        """Post the request, and return the events up to the first that shows the client something."""
        upstream, request = self._upstream, self._request
        codec = upstream.codec
        self._response = self._reader = None
        self._in_call = False
        try:
            self._response = response = await upstream.client.send(
                upstream.origin, "POST", upstream.path, codec.headers(request), outgoing.body, upstream.timeouts
            )
            if response.status in REDIRECTS:
                self._response = response = await follow(
                    upstream, response, "POST", upstream.path, codec.headers(request), outgoing.body
                )
            headers = passed_on(response)
            if not 200 <= response.status < 300:
                return [refused(upstream, response, await response.read(ERROR_LIMIT))]
            events = await self._beginning(response, outgoing)
        except PipeError as error:
            return [pipe_failed(upstream.name, error)]
        seen = 0
        while self._is_unseen(events, seen) and (more := await self._more()):
            seen = len(events)
            events = joined(events, more)
        if headers and events and type(started := events[0]) is Started:
            events[0] = replace(started, headers=headers)
        return events

    async def _beginning(self, response: HttpResponse, outgoing: Outgoing) -> list[Event]:
        """The first events of an answer, or all of one that came whole.

        What counts is what the answer is, not what was asked for: some upstreams cannot stream, some do nothing else,
        and some name no content type, or a wrong one.
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
                body, outgoing.spelled, fallback_id=upstream.mint(), model=model, keep_source=keep_source
            )
        if beginning == b"<":
            response.close()
            return [_web_page(upstream, first)]
        self._reader = reader = upstream.codec.reader(
            outgoing.spelled, fallback_id=upstream.mint(), model=model, keep_source=keep_source
        )
        return (reader.feed(first) if first else []) or await self._more()

    def _is_unseen(self, events: list[Event], start: int) -> bool:
        """Whether the client sees nothing of these events from `start` on, and more are to come."""
        if not events or type(events[-1]) in _ENDINGS:
            return False
        if not self._request.stream:
            return True
        for event in islice(events, start, None):
            if type(event) is PartStart:
                self._in_call = self._hides_calls and type(event.part) is ToolCall
            elif type(event) not in _UNSEEN and not (self._in_call and type(event) in _SHOWING):
                return False
        return True

    async def _more(self) -> list[Event]:
        """What the next reads of the upstream give; nothing once the leg has ended."""
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

    async def _try_again(self, outgoing: Outgoing, first: list[Event]) -> tuple[list[Event], tuple[Note, ...]]:
        """Attempt again until the client sees something or the failure is final; also return the notes to show."""
        notes = outgoing.notes
        for tries in count(1):
            failed = first[-1]
            if type(failed) is not Failed:
                break
            wait = _back_off(failed, tries, self._upstream.patience)
            if wait is None:
                # What was held is dropped: a call that never became whole must not be seen at all.
                first = [event for event in first if type(event) in _UNSEEN]
                first.append(_final(failed))
                break
            self._close()
            notes += (Note(kind="retry", message=f"try {tries} failed, the next is in {wait:.1f} s"),)
            await asyncio.sleep(wait)
            first = await self._attempt(outgoing)
        return first, notes


async def follow(
    upstream: Upstream, response: HttpResponse, method: str, path: str, headers: Headers, body: bytes
) -> HttpResponse:
    """Send the request again where a redirect leads, with its method and body; never to another host.

    Raises GatewayError for a redirect that is not followed, and PipeError.
    """
    origin, location = upstream.origin, ""
    for _ in range(MOST_REDIRECTS):
        location = response.field(b"location").decode("latin-1")
        response.close()
        target = redirected(origin, path, location) if location else None
        if target is None or response.status not in _FOLLOWED:
            break
        origin, path = target
        response = await upstream.client.send(origin, method, path, headers, body, upstream.timeouts)
        if response.status not in REDIRECTS:
            return response
    message = (
        f"Upstream `{upstream.name}` redirects to {_host_in(location) or origin.authority}, "
        "which the gateway does not follow. "
        "If that is the right address, set `base_url` of this upstream to it."
    )
    raise GatewayError("upstream", message, code="upstream_redirect", headers=(NOT_RETRYABLE,))


def _web_page(upstream: Upstream, data: bytes) -> Failed:
    title = excerpt(data.decode("utf-8", "replace"))
    message = f"Upstream `{upstream.name}` answered {upstream.path} with a web page ({title}). Is its `base_url` right?"
    return Failed(kind="upstream", status=502, code="upstream_not_an_api", message=message, headers=(NOT_RETRYABLE,))


def _host_in(location: str) -> str:
    try:
        return excerpt(urlsplit(location).hostname or "")
    except ValueError:
        return "a malformed address"


def refused(upstream: Upstream, response: HttpResponse, body: bytes) -> Failed:
    """The error response of an upstream as a client gets it: it names the upstream and says if a retry is useless.

    The message must not read as if it were about the client's own key: the client has none of the upstream's.
    """
    failed = upstream.codec.read_error(response.status, body, tuple(response.headers))
    headers, status, said = passed_on(response), failed.status, failed.message
    if response.status < 400 or (failed.kind in _FINAL and status not in _RETRIED_REQUESTS):
        headers = (*(header for header in headers if header[0] != NOT_RETRYABLE[0]), NOT_RETRYABLE)
    if failed.kind == "unauthorized":
        whose = f" (from {upstream.key_source})" if upstream.key_source else ""
        said = f"The key of upstream `{upstream.name}`{whose} was refused: {said}"
        if not upstream.key_source:
            said = f"Upstream `{upstream.name}` wants a key, and the gateway has none for it: {failed.message}"
    else:
        said = f"{said} (upstream `{upstream.name}`)"
    if failed.kind == "billing" or response.status < 400:
        status = STATUS[failed.kind]  # some say 429 for what a retry cannot help, which every client retries
    return replace(failed, message=said, status=status, headers=headers)


def _final(failed: Failed) -> Failed:
    """The failure of a leg that is not tried again.

    A client that retries for minutes on its own would not find an upstream that is not there, so it is asked not to.
    """
    if failed.code != UNREACHABLE:
        return failed
    return replace(failed, headers=(*failed.headers, NOT_RETRYABLE))


def _back_off(failed: Failed, tries: int, patience: Patience) -> float | None:
    """How long to wait for the next try, or None if there should be none."""
    if failed.status not in RETRIED or failed.code == "upstream_timeout":
        return None
    if tries > patience.retries or NOT_RETRYABLE in failed.headers:
        return None
    wait: float = FIRST_BACK_OFF * 2 ** (tries - 1) if failed.retry_after is None else failed.retry_after
    return wait if wait <= patience.longest_wait else None


def passed_on(response: HttpResponse) -> Headers:
    """The headers of an upstream's answer that a client may want; the request id under one name."""
    return response.pick(_NAMED)


def pipe_failed(name: str, error: PipeError) -> Failed:
    """What a broken pipe means to a client: never its own fault, so never a 400."""
    kind: ErrorKind = "upstream"
    status, code = 502, UNREACHABLE if error.phase == "connect" else "upstream_broken"
    if error.reason == "timeout":
        kind, status, code = "timeout", 504, "upstream_timeout"
    elif error.reason == "busy":
        kind, status, code = "overloaded", 503, "upstream_busy"
    return Failed(kind=kind, status=status, code=code, message=f"Upstream `{name}`: {error.message}")


async def list_models(upstream: Upstream, path: str) -> list[ModelInfo]:
    """The models an upstream says it has; both protocols answer in much the same shape."""
    body = await fetch(upstream, "GET", path, Request(model="", messages=()))
    try:
        listing = _LISTING.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise GatewayError("upstream", f"Upstream `{upstream.name}` gave no list of models: {error}") from error
    return [ModelInfo(id=item.id, title=item.display_name or "", created=item.created or 0) for item in listing.data]


class _Item(msgspec.Struct):
    id: str
    display_name: str | None = None
    created: int | None = None


class _Listing(msgspec.Struct):
    data: list[_Item] = []


_LISTING = msgspec.json.Decoder(_Listing)


async def fetch(upstream: Upstream, method: str, path: str, request: Request, body: bytes = b"") -> bytes:
    """One small question to an upstream beside the runs, such as its models; raises GatewayError."""
    try:
        response = await upstream.client.send(
            upstream.origin, method, path, upstream.codec.headers(request), body, upstream.timeouts
        )
        if response.status in REDIRECTS:
            response = await follow(upstream, response, method, path, upstream.codec.headers(request), body)
        try:
            answer = await response.read(REPLY_LIMIT)
        finally:
            response.close()
    except PipeError as error:
        raise LegFailed(pipe_failed(upstream.name, error)) from error
    if not 200 <= response.status < 300:
        raise LegFailed(refused(upstream, response, answer))
    return answer


class Passing:
    """An answer that is passed through as it comes."""

    __slots__ = ("_name", "_response", "content_type", "headers")

    def __init__(self, name: str, response: HttpResponse) -> None:
        self._name = name
        self._response = response
        self.content_type = response.field(b"content-type").decode("latin-1")
        self.headers = passed_on(response)

    async def chunk(self) -> bytes:
        """More of the body; nothing at its end."""
        try:
            return self._response.take() or await self._response.chunk()
        except PipeError as error:
            raise LegFailed(pipe_failed(self._name, error)) from error

    def close(self) -> None:
        """Give up what was not read."""
        self._response.close()


async def forward(upstream: Upstream, path: str, headers: Headers, body: bytes) -> Passing:
    """Post a request as it is, and return its answer; raises GatewayError. Transient failures are tried again."""
    tries = 0
    while True:
        tries += 1
        try:
            response = await upstream.client.send(upstream.origin, "POST", path, headers, body, upstream.timeouts)
            if response.status in REDIRECTS:
                response = await follow(upstream, response, "POST", path, headers, body)
            if 200 <= response.status < 300:
                return Passing(upstream.name, response)
            try:
                failed = refused(upstream, response, await response.read(ERROR_LIMIT))
            finally:
                response.close()
        except PipeError as error:
            failed = pipe_failed(upstream.name, error)
        wait = _back_off(failed, tries, upstream.patience)
        if wait is None:
            raise LegFailed(_final(failed))
        await asyncio.sleep(wait)
