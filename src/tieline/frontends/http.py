"""What all HTTP frontends share: requests in, responses out, and who may ask at all.

No framework on purpose: the way from a request's bytes to the core is short enough to read, and nothing is paid for
that is not used. Our server hands over its requests as they are (`HttpApp.serve`); any other speaks ASGI.
"""

import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping, Sequence
from ipaddress import ip_address
from typing import Any, NamedTuple, Protocol, Self
from urllib.parse import urlsplit

import msgspec

from tieline.frontends.bodies import UNCOUNTED, VALUES, HeldBodies, check_values
from tieline.frontends.keyless import Connection, Keyless
from tieline.frontends.keys import Keys, NamedKey
from tieline.frontends.page_pass import PASS, Passes
from tieline.frontends.paths import Paths
from tieline.model.errors import GatewayError
from tieline.model.events import Headers
from tieline.tasks import step_aside

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

log = logging.getLogger("tieline")

JSON = b"application/json"
TEXT = b"text/plain; charset=utf-8"

STREAM_HEAD = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),  # a reverse proxy must not gather what is meant to flow
)


class Head(Protocol):
    """The head of a request; the same object may come again with another request that has the same head."""

    method: str
    headers: list[tuple[bytes, bytes]]
    kept: Any
    """Whatever we like to find again then."""

    @property
    def path(self) -> str:
        """Where the request goes."""


class Peer(Protocol):
    """A client with its request, as the server below shows them."""

    @property
    def connection(self) -> Connection:
        """The connection the request came on."""

    @property
    def head(self) -> Head:
        """The head of the request."""

    @property
    def scope(self) -> Scope:
        """The same as ASGI tells it."""

    def take_whole(self, limit: int) -> bytes | None:
        """The whole body, if it has come already and is no larger; otherwise `receive` gives it."""

    def receive(self) -> Awaitable[MutableMapping[str, Any]]:
        """The next of the body, as ASGI tells it; after it, the client's leaving."""

    def answer(self, status: int, kind: bytes, headers: Sequence[tuple[bytes, bytes]], body: bytes) -> Awaitable[None]:
        """The whole response; its type and its length stand before the other headers."""

    def begin(self, status: int, headers: Iterable[tuple[bytes, bytes]]) -> Awaitable[None]:
        """The head of a stream."""

    def write(self, body: bytes, last: bool) -> Awaitable[None]:
        """More of a stream."""

    def cut(self) -> None:
        """Close the connection before the stream is complete; what was written is delivered first."""


class AsgiHead:
    """The head of a request that came by ASGI."""

    __slots__ = ("headers", "kept", "method", "path")

    def __init__(self, scope: Scope) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.headers: list[tuple[bytes, bytes]] = list(scope["headers"])
        self.kept: Any = None


class AsgiConnection:
    """The connection of one request, as far as ASGI describes it."""

    __slots__ = ("client", "kept", "server")

    def __init__(self, scope: Scope) -> None:
        self.client: tuple[str, int] | None = scope.get("client")
        self.server: tuple[str, int] | None = scope.get("server")
        self.kept: Any = None


class AsgiPeer:
    """A client behind any server that speaks ASGI."""

    __slots__ = ("_send", "connection", "head", "receive", "scope")

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.head = AsgiHead(scope)
        self.connection: Connection = AsgiConnection(scope)
        self.scope = scope
        self.receive = receive
        self._send = send

    def take_whole(self, _limit: int) -> None:
        """ASGI does not tell."""

    async def answer(self, status: int, kind: bytes, headers: Sequence[tuple[bytes, bytes]], body: bytes) -> None:
        """The whole response."""
        await self.begin(status, [(b"content-type", kind), (b"content-length", b"%d" % len(body)), *headers])
        await self.write(b"" if self.head.method == "HEAD" else body, True)

    def begin(self, status: int, headers: Iterable[tuple[bytes, bytes]]) -> Awaitable[None]:
        """The head of the response."""
        return self._send({"type": "http.response.start", "status": status, "headers": headers})

    def write(self, body: bytes, last: bool) -> Awaitable[None]:
        """More of its body."""
        return self._send({"type": "http.response.body", "body": body, "more_body": not last})

    def cut(self) -> None:
        """Nothing to do: ASGI servers close the connection of an application that leaves its response incomplete."""


class Exchange(msgspec.Struct, eq=False):
    """One HTTP request and its response."""

    _peer: Peer
    _limit: int
    headers: Mapping[bytes, bytes]
    """Those of the request; not how long its body is, which is for the server to know."""
    _bodies: HeldBodies
    begun: bool = False
    size: int = 0
    """How large the body was, once it is read."""
    held: int = 0
    """Bytes of the body that count among those in memory."""

    @classmethod
    def of(cls, peer: Peer, limit: int, bodies: HeldBodies | None = None) -> Self:
        """An exchange with a peer whose head is new to us."""
        return cls(peer, limit, _by_name(peer.head.headers), bodies or HeldBodies())

    @property
    def path(self) -> str:
        """Where the request goes."""
        return self._peer.head.path

    @property
    def scope(self) -> Scope:
        """The head of the request as ASGI tells it."""
        return self._peer.scope

    def receive(self) -> Awaitable[MutableMapping[str, Any]]:
        """What else comes from the client, as ASGI tells it."""
        return self._peer.receive()

    def header(self, name: bytes) -> str:
        """A header of the request by its lower-case name, or nothing."""
        return self.headers.get(name, b"").decode("latin-1")

    @property
    def key(self) -> str:
        """The key the client brought, in either of the two ways."""
        scheme, _, token = self.header(b"authorization").partition(" ")
        return token.strip() if scheme.lower() == "bearer" else self.header(b"x-api-key")

    def body_at_once(self) -> bytes | None:
        """The whole body if it has come already and is not too large; otherwise `body` waits for it, or refuses it."""
        body = self._peer.take_whole(min(UNCOUNTED, self._limit))
        if body is not None:
            self.size = self.held = size = len(body)
            self._bodies.hold(size)
        return body

    async def body(self, counted: bytes = VALUES) -> bytes:
        """The whole body. One that is too large is read on for a while, so that the client hears why it is refused.

        `counted` are the characters of which JSON may have only so many (see `bodies`); none, if it is not JSON.
        """
        chunks: list[bytes] = []
        try:
            await self._receive(chunks)
            if self.size > UNCOUNTED and counted:
                await check_values(chunks, counted)
            body = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        finally:
            chunks.clear()  # an error that is kept somewhere must not keep the body, too
        if self.size > UNCOUNTED:
            await step_aside()  # joining took a while, and reading will
        return body

    async def _receive(self, chunks: list[bytes]) -> None:
        more = True
        while more and self.size <= 4 * self._limit:
            message = await self._peer.receive()
            if message["type"] == "http.disconnect":
                raise GatewayError("cancelled", "The client left before its request was complete.")
            chunk, more = message.get("body", b""), message.get("more_body", False)
            self.size += len(chunk)
            if self.size <= self._limit:
                chunks.append(bytes(chunk))
                self.held += len(chunk)
                self._bodies.hold(len(chunk))
            else:
                chunks.clear()
        if self.size > self._limit:
            limit = self._limit // (1024 * 1024)
            raise GatewayError("too_large", f"The request is larger than the {limit} MiB this gateway takes.")

    def respond(
        self, status: int, body: bytes, content_type: bytes = JSON, headers: Sequence[tuple[bytes, bytes]] = ()
    ) -> Awaitable[None]:
        """The whole response at once."""
        self.begun = True
        return self._peer.answer(status, content_type, headers, body)

    def begin_stream(
        self, headers: Iterable[tuple[bytes, bytes]] = (), head: Iterable[tuple[bytes, bytes]] = STREAM_HEAD
    ) -> Awaitable[None]:
        """The head of a response that is streamed, by default of server-sent events."""
        self.begun = True
        return self._peer.begin(200, [*head, *headers])

    def write(self, data: bytes, last: bool = False) -> Awaitable[None]:
        """More of a stream; the last write ends it."""
        return self._peer.write(data, last)

    def cut(self) -> None:
        """Close the connection without completing the stream, so that the client sees a broken transfer."""
        self._peer.cut()


def _by_name(headers: Iterable[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    named = dict(headers)
    named.pop(b"content-length", None)
    return named


Endpoint = Callable[[Exchange], Awaitable[None]]
RenderError = Callable[[GatewayError], bytes]


class Guard:
    """Who may ask: the right host name, no foreign web page, and the key if there is one.

    A web page anywhere can make a browser send requests to this machine, directly or by pointing its own name here
    (DNS rebinding). So a request must name a host that is ours, and if it comes from a page, that page must be too.
    """

    def __init__(
        self,
        *,
        hosts: Iterable[str] = (),
        origins: Iterable[str] = (),
        keys: Iterable[str] = (),
        named: Iterable[NamedKey] = (),
        keyless: Keyless | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._hosts = {host.lower() for host in hosts}
        self._origins = {origin.lower().rstrip("/") for origin in origins}
        self._keys = Keys(keys, named)
        self._passes = Passes(self._keys.own, clock)
        self._known_hosts: dict[bytes, bool] = {}
        self._keyless = None if self._keys.own else keyless or Keyless()

    def check(self, exchange: Exchange, *, keyed: bool, public: bool = False) -> None:
        """Raise GatewayError for a head that must not be served.

        `keyed` paths need the gateway's key if it has one; `public` ones answer others even if it has none.
        """
        headers = exchange.headers
        if not self._is_our_host(headers.get(b"host", b"")):
            raise GatewayError(
                "forbidden",
                f"This gateway does not answer to the host name `{exchange.header(b'host')}`. "
                "If it should, add the name to `hosts` under [server] in the configuration.",
            )
        if b"origin" in headers or headers.get(b"sec-fetch-site") == b"cross-site":
            self._check_origin(exchange)
        if self._keyless is None:
            if keyed:
                self._check_key(exchange)
        elif not public:
            self._keyless.check_head(headers)

    async def check_user(self, connection: Connection) -> None:
        """Raise GatewayError for a connection of another user, unless its requests have to bring a key."""
        if self._keyless is None:
            connection.kept = ""
        else:
            await self._keyless.check_user(connection)

    @property
    def has_keys(self) -> bool:
        """Whether a key is needed at all."""
        return bool(self._keys.own)

    def warnings(self) -> tuple[str, ...]:
        """What the person who starts the gateway has to know."""
        return () if self._keyless is None else self._keyless.warnings()

    def pass_for(self, key: str, exchange: Exchange) -> str | None:
        """What the page at this address may bring instead of the key; None if this is not the key."""
        return self._passes.issue(key, exchange.header(b"host"))

    def admits(self, exchange: Exchange) -> bool:
        """Whether a request has a key that is good for its path, or is one of our page that has its pass."""
        if not self.has_keys or self._keys.opens(exchange.key, exchange.path):
            return True
        if not exchange.path.startswith("/api/"):
            return False
        return self._passes.admits(exchange.header(PASS), exchange.header(b"host"))

    def _is_our_host(self, host: bytes) -> bool:
        known = self._known_hosts.get(host)
        if known is None:
            name = host_name(host.decode("latin-1"))
            known = is_loopback(name) or _is_address(name) or name in self._hosts or "*" in self._hosts
            if len(self._known_hosts) < 256:
                self._known_hosts[host] = known
        return known

    def _check_origin(self, exchange: Exchange) -> None:
        origin = exchange.header(b"origin").lower()
        if origin in self._origins or "*" in self._origins:
            return
        if origin and _netloc(origin) == exchange.header(b"host").lower():
            return
        raise GatewayError(
            "forbidden",
            f"Web pages of `{origin or 'another site'}` may not use this gateway. "
            "If this one should, add it to `origins` under [server] in the configuration.",
        )

    def _check_key(self, exchange: Exchange) -> None:
        if not self.admits(exchange):
            raise GatewayError(
                "unauthorized",
                "This gateway needs its key, as `Authorization: Bearer <key>` or `x-api-key: <key>`.",
                code="invalid_api_key",
            )


def address(exchange: Exchange) -> str:
    """Return the gateway's address as the client wrote it."""
    return f"{exchange.scope.get('scheme', 'http')}://{exchange.header(b'host')}"


def host_name(host: str) -> str:
    """A Host header without its port; nothing if it is no host."""
    try:
        return (urlsplit(f"//{host}").hostname or "").lower() if host else ""
    except ValueError:
        return ""


def _netloc(url: str) -> str | None:
    try:
        return urlsplit(url).netloc
    except ValueError:
        return None


def is_loopback(name: str) -> bool:
    """Whether a host name can only mean this machine."""
    if name == "localhost" or name.endswith(".localhost"):
        return True
    return _is_address(name) and ip_address(name).is_loopback


def _is_address(name: str) -> bool:
    """Whether this is an address in numbers: nobody can point that elsewhere, so a page cannot hide behind it."""
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


class Route:
    """An endpoint, how errors are spelled on its path, and whether the gateway's key is needed."""

    __slots__ = ("endpoint", "is_lasting", "keyed", "public", "render_error")

    def __init__(
        self, endpoint: Endpoint, render_error: RenderError, *, keyed: bool = True, public: bool = False
    ) -> None:
        self.is_lasting = True
        """Whether the same route is found for the same head again."""
        self.endpoint = endpoint
        self.render_error = render_error
        self.keyed = keyed
        self.public = public
        """Whether other users of this machine are answered, and tunnels, when there is no key."""


Routes = Mapping[str, Mapping[str, Route]]
"""Path → method → route; a path that ends with a slash and a star takes everything below it."""


class _Admitted(NamedTuple):
    """What follows from a head that the guard has let through. Nothing it rests on changes while we run."""

    route: Route
    headers: Mapping[bytes, bytes]


class HttpApp:
    """The application: finds the route, guards it, and spells what goes wrong in the route's own dialect."""

    def __init__(
        self,
        routes: Routes,
        *,
        guard: Guard,
        limit: int,
        fallback: Callable[[Exchange], RenderError],
        bodies: HeldBodies | None = None,
    ) -> None:
        self._paths = Paths(routes)
        self._guard = guard
        self._limit = limit
        self._fallback = fallback
        self._bodies = bodies or HeldBodies()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        await self.serve(AsgiPeer(scope, receive, send))

    async def serve(self, peer: Peer) -> None:
        """Answer one request; a head that was let through before is not looked into again."""
        head = peer.head
        admitted: _Admitted | None = head.kept
        if admitted is not None:
            exchange, route = Exchange(peer, self._limit, admitted.headers, self._bodies), admitted.route
        else:
            exchange = Exchange.of(peer, self._limit, self._bodies)
            route = self._route(exchange, head)
        try:
            if admitted is None:
                self._guard.check(exchange, keyed=route.keyed, public=route.public)
                # A pass comes to its end while we run, so it is looked at each time.
                if route.is_lasting and PASS not in exchange.headers:
                    head.kept = _Admitted(route, exchange.headers)
            # Heads are shared by all connections, so whose connection it is does not follow from the head.
            if peer.connection.kept != "" and not route.public:
                await self._guard.check_user(peer.connection)
            await route.endpoint(exchange)
        except GatewayError as error:
            await fail(exchange, error, route.render_error)
        except Exception:
            # A bug of ours: the client gets an error in its own dialect, the log the traceback.
            log.exception("%s %s broke", head.method, head.path)
            bug = GatewayError("internal", "Something went wrong inside the gateway; its log says what.")
            await fail(exchange, bug, route.render_error)
        finally:
            self._bodies.release(exchange.held)

    def _route(self, exchange: Exchange, head: Head) -> Route:
        method, path = head.method, head.path
        methods = self._paths.methods(path)
        if methods is None:
            return _refusal(self._paths.missing(method, path), self._fallback(exchange))
        route = methods.get(method)
        if route is not None:
            return route
        allowed = ", ".join(methods)
        message = f"{path} takes {allowed}, not {method}."
        error = GatewayError("bad_request", message, status=405, headers=(("allow", allowed),))
        return _refusal(error, next(iter(methods.values())).render_error)


def _refusal(error: GatewayError, render_error: RenderError) -> Route:
    """A route for requests that lead nowhere."""

    async def refuse(_: Exchange) -> None:
        raise error

    route = Route(refuse, render_error)
    route.is_lasting = False
    return route


async def fail(exchange: Exchange, error: GatewayError, render_error: RenderError) -> None:
    """Answer with an error; when a response is under way already there is nothing left to say here."""
    if exchange.begun:
        return
    if not error.request_id:
        minted = f"req_{secrets.token_hex(10)}"
        error.headers = (*error.headers, ("request-id", minted), ("x-request-id", minted))
    headers = [*encoded(error.headers)]
    if error.retry_after is not None and not any(name == b"retry-after" for name, _ in headers):
        headers.append((b"retry-after", str(max(1, round(error.retry_after))).encode()))
    await exchange.respond(error.status, render_error(error), headers=headers)


def encoded(headers: Headers) -> list[tuple[bytes, bytes]]:
    """Headers of the model as bytes; what is not a header's text is left out."""
    return [
        (name.encode("latin-1", "replace"), value.encode("latin-1", "replace"))
        for name, value in headers
        if "\n" not in value and "\r" not in value
    ]
