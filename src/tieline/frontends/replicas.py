"""Forwards a request to the replica of a cluster that holds its run or its response.

A replica is recognised by the tag in the ids that it minted. The request is forwarded whole, and the response is passed
on as it arrives. A forwarded request is never forwarded again. If the other replica is gone, or fails before the first
byte of its response, the request is served here: a run is then replayed from the history.

Replicas talk to one another through a private listener (`PrivateApp`), which requires their shared secret.
"""

import asyncio
import logging
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple, Protocol

from tieline.core.legs.resume import answered_calls
from tieline.frontends.asgi_websocket import AsgiWebSocketCycle
from tieline.frontends.http import (
    ELSEWHERE,
    MISDIRECTED,
    TEXT,
    AsgiCycle,
    Exchange,
    HttpCycle,
    Receive,
    Scope,
    Send,
    WatchedClient,
    write_in_time,
)
from tieline.frontends.http_app import HttpApp
from tieline.frontends.relay import STOPPING
from tieline.model.errors import LegFailed
from tieline.model.request import Request
from tieline.tasks import Tasks

log = logging.getLogger("tieline")

SECRET_HEADER = b"x-tieline-cluster"
"""The request header with the secret of the cluster. The private listener checks and removes it."""
HOST_HEADER = b"x-tieline-host"
"""The request header with the host name that the client used."""

_NOT_FORWARDED = frozenset(
    (
        b"accept-encoding",
        b"connection",
        b"content-length",
        b"expect",
        b"host",
        b"keep-alive",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
        SECRET_HEADER,
        HOST_HEADER,
    )
)
"""Request headers that apply to one connection only, or that only a replica may send."""
_BODILESS = frozenset(("GET", "HEAD", "DELETE"))
_NOT_RETURNED = frozenset((b"connection", b"keep-alive", b"transfer-encoding"))

Fields = Sequence[tuple[bytes, bytes]]


class PeerFailed(Exception):
    """Another replica cannot be reached, or failed in the middle of its response."""


class PeerRequest(NamedTuple):
    """A request for another replica."""

    method: str
    target: str
    headers: Fields
    body: bytes


class PeerResponse(Protocol):
    """The response of another replica, as it arrives."""

    @property
    def status(self) -> int: ...
    @property
    def headers(self) -> Fields: ...

    async def chunk(self) -> bytes:
        """Return the next part of the body, or b"" at its end. Raise PeerFailed if the replica fails."""

    def close(self) -> None:
        """Release the connection. If the body is not complete, the other replica sees that its client has left."""


class Peers(Protocol):
    """The other replicas of the cluster."""

    @property
    def is_draining(self) -> bool:
        """Whether this replica is about to stop."""

    def owner(self, identity: str) -> str | None:
        """Return the tag of the other replica that minted an id; None if there is none, or it is not alive."""

    def with_agents(self, model: str) -> str | None:
        """Return the tag of the other replica that has to serve a model, because this one does not have the workspace.

        Return None if this replica can serve the model, or no replica can.
        """

    async def send(self, tag: str, request: PeerRequest) -> PeerResponse:
        """Send a request and return the response once its head has arrived. Raise PeerFailed if none arrives."""


class Replicas:
    """Decides which requests are forwarded, and forwards them.

    `holds` takes the name of a key and a call id. It returns whether a run of this replica waits for the result of that
    call, from a client with that key.
    """

    def __init__(self, peers: Peers, tasks: Tasks, holds: Callable[[str, str], bool]) -> None:
        self._peers = peers
        self._tasks = tasks
        self._holds = holds
        self.forwarding = 0
        """The number of requests from clients of this replica that other replicas are answering."""

    @property
    def is_draining(self) -> bool:
        """Whether this replica is about to stop."""
        return self._peers.is_draining

    async def forward_turn(self, exchange: Exchange, request: Request) -> bool:
        """Forward a request if another replica has to answer it. Return False if it has to be served here.

        A forwarded request is refused if this replica is about to stop and does not hold its run. The result is then
        True as well.
        """
        if exchange.is_forwarded:
            holds = partial(self._holds, exchange.place.owner)
            is_refused = self.is_draining and not any(map(holds, answered_calls(request.messages)))
            if is_refused:
                await exchange.respond(MISDIRECTED, b"{}", headers=(ELSEWHERE,))
            return is_refused
        tag = self.owner_of_turn(request)
        if tag is None:
            return False
        with self.counted():
            return await self._forward(exchange, tag)

    async def forward_to_owner(self, exchange: Exchange, identity: str) -> bool:
        """Forward a request about an object to the replica that minted its id. Return False if that is not possible.

        `identity` is the id, or the tag of the replica.
        """
        tag = None if exchange.is_forwarded else self._peers.owner(identity)
        if tag is None:
            return False
        with self.counted():
            if exchange.method not in _BODILESS:
                await exchange.body()
            return await self._forward(exchange, tag)

    def with_agents(self, model: str) -> str:
        """Return the tag of the other replica that has to serve a model, or "" if this one can."""
        return self._peers.with_agents(model) or ""

    @contextmanager
    def counted(self) -> Generator[None, None, None]:
        """Count a request that is being forwarded, so that this replica does not stop before it has been answered."""
        self.forwarding += 1
        try:
            yield
        finally:
            self.forwarding -= 1

    def owner_of_turn(self, request: Request) -> str | None:
        """Return the tag of the other replica that has to answer a request, or None if it has to be answered here."""
        for call_id in reversed(answered_calls(request.messages)):
            tag = self._peers.owner(call_id)
            if tag is not None:
                return tag
        return self._peers.with_agents(request.model)

    async def open(self, exchange: Exchange, tag: str, turn: PeerRequest) -> PeerResponse | None:
        """Send a request to another replica and return its response; None if the replica does not answer it.

        `exchange` is the request of the client.
        """
        headers = [field for field in turn.headers if field[0] not in _NOT_FORWARDED]
        headers.append((HOST_HEADER, exchange.headers.get(b"host", b"")))
        try:
            response = await self._peers.send(tag, turn._replace(headers=headers))
        except PeerFailed as error:
            log.warning("replica %s did not answer (%s); serving the request here", tag, error)
            return None
        if response.status == MISDIRECTED and ELSEWHERE in response.headers:
            response.close()
            return None
        return response

    async def _forward(self, exchange: Exchange, tag: str) -> bool:
        turn = PeerRequest(exchange.method, exchange.target, exchange.header_fields, exchange.content or b"")
        client = WatchedClient(exchange)
        leaving = self._tasks.start(client.cancel_when_left(), "client watch")
        response: PeerResponse | None = None
        try:
            response = await self.open(exchange, tag, turn)
            if response is not None:
                await _pass_on(exchange, response)
        except asyncio.CancelledError:
            client.uncancel()
            if not client.has_left and not exchange.begun:
                raise LegFailed(STOPPING) from None
            exchange.cut()
        finally:
            leaving.cancel()
            if response is not None:
                response.close()
        return response is not None or client.has_left


async def _pass_on(exchange: Exchange, response: PeerResponse) -> None:
    """Send the response of another replica to the client, at the client's pace."""
    await exchange.begin(response.status, [field for field in response.headers if field[0] not in _NOT_RETURNED])
    try:
        while data := await response.chunk():
            await write_in_time(exchange, data)
        await write_in_time(exchange, b"", last=True)
    except (PeerFailed, TimeoutError) as error:
        log.warning("%s: a forwarded response broke off (%s)", exchange.path, str(error) or "the client reads nothing")
        exchange.cut()


class PrivateApp:
    """The application behind the private listener: the same paths, for requests that contain the cluster's secret.

    The replica that forwarded a request has already checked it. Only the key is checked again.
    """

    def __init__(self, app: HttpApp, is_secret: Callable[[bytes], bool]) -> None:
        self._app = app
        self._is_secret = is_secret

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request on any ASGI server."""
        if scope["type"] == "http":
            await self.serve(AsgiCycle(scope, receive, send))
        elif scope["type"] == "websocket":
            cycle = AsgiWebSocketCycle(scope, receive, send)
            await self.serve(cycle)
            await cycle.end()

    async def serve(self, cycle: HttpCycle) -> None:
        """Answer one request."""
        headers = dict(cycle.headers)
        if not self._is_secret(headers.get(SECRET_HEADER, b"")):
            text = b"This address is for the replicas of a Tieline cluster, which share a secret."
            await cycle.respond(403, TEXT, ((b"connection", b"close"),), text)
            return
        host = headers.get(HOST_HEADER) or headers.get(b"host", b"")
        own = (SECRET_HEADER, HOST_HEADER, b"host")
        cycle.headers = [(b"host", host), *(field for field in cycle.headers if field[0] not in own)]
        await self._app.serve(cycle, is_forwarded=True)
