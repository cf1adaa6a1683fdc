"""A pool of HTTP/2 connections to one origin. It assigns new streams to them, and dials more when needed.

Streams are opened on the oldest connection with room, so that the other connections can become idle and close. Callers
that find no room wait in a fair queue. If more callers wait than the connections that are being opened can probably
serve, another connection is dialled. If a dial fails, all waiting callers fail.
"""

import asyncio
import ssl
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from tieline.net.client.proxy import UpstreamRoute, dial
from tieline.net.client.response import Fields, PipeError, Timeouts
from tieline.net.h2.connection import Http2ClientConnection, Http2Config
from tieline.net.h2.stream import Http2Stream
from tieline.tasks import Tasks

Turn = asyncio.Future[Http2Stream | PipeError]


class PendingOpen(NamedTuple):
    """A caller that waits for a connection with room, and the request for which a stream is to be opened."""

    turn: Turn
    fields: Fields
    timeouts: Timeouts


class Http2Pool:
    """The connections to one origin. At most `limit` of them accept new streams; others may still be closing."""

    def __init__(
        self, route: UpstreamRoute, config: Http2Config, limit: int, tls: Callable[[], ssl.SSLContext]
    ) -> None:
        self._route = route
        self._where = route.origin.authority
        self._config = config
        self._limit = limit
        self._tls = tls
        self._dials = Tasks()
        self._dialling = 0
        self._connections: list[Http2ClientConnection] = []
        self._made: set[Http2ClientConnection] = set()
        self._waiters: deque[PendingOpen] = deque()
        self._emptied: asyncio.Future[None] | None = None
        self._is_closed = False

    async def open(self, fields: Fields, timeouts: Timeouts) -> Http2Stream:
        """Open a stream on a connection with room. Wait if there is none. Raise PipeError on failure."""
        if self._is_closed:
            raise closed_error(self._where)
        if not self._waiters:
            for connection in self._connections:
                if connection.room > 0:
                    return connection.open(fields, timeouts)
        return await self._queue(fields, timeouts)

    async def aclose(self) -> None:
        """Drop every connection, fail all waiting callers, and return when all connections are closed."""
        self._is_closed = True
        self._refuse(closed_error(self._where))
        await self._dials.aclose()
        for connection in list(self._made):
            connection.shut()
        while self._made:
            if self._emptied is None:
                self._emptied = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._emptied)

    # ── waiting for room ──

    async def _queue(self, fields: Fields, timeouts: Timeouts) -> Http2Stream:
        loop = asyncio.get_running_loop()
        waiting = PendingOpen(loop.create_future(), fields, timeouts)
        self._waiters.append(waiting)
        self._serve()
        wait = timeouts.pool + (timeouts.connect if self._dialling else 0)
        timer = loop.call_later(wait, _settle, waiting.turn, self._busy_error())
        try:
            given = await waiting.turn
        except asyncio.CancelledError:
            _take_back(waiting.turn)
            raise
        finally:
            timer.cancel()
            if waiting in self._waiters:
                self._waiters.remove(waiting)
        if isinstance(given, PipeError):
            raise given
        return given

    def _serve(self) -> None:
        """Open streams for waiting callers on connections with room. Dial more connections if callers still wait."""
        if not self._waiters:
            return
        for connection in self._connections:
            while self._waiters and connection.room > 0:
                turn, fields, timeouts = self._waiters.popleft()
                if not turn.done():
                    turn.set_result(connection.open(fields, timeouts))
        self._dial_for_waiters()

    def _dial_for_waiters(self) -> None:
        expected = self._dialling * self._config.streams + sum(
            connection.expected_room for connection in self._connections
        )
        accepting = self._dialling + sum(not connection.is_leaving for connection in self._connections)
        while len(self._waiters) > expected and accepting < self._limit and not self._is_closed:
            self._dialling += 1
            self._dials.start(self._dial(self._waiters[0].timeouts), f"dial {self._where}")
            expected += self._config.streams
            accepting += 1

    def _refuse(self, error: PipeError) -> None:
        """Fail all waiting callers with this error."""
        while self._waiters:
            _settle(self._waiters.popleft().turn, _copy(error))

    # ── connections ──

    async def _dial(self, timeouts: Timeouts) -> None:
        connection = Http2ClientConnection(self._where, self._config, self._serve, self._forget)
        self._made.add(connection)
        failure: PipeError | None = None
        try:
            async with asyncio.timeout(timeouts.connect):
                await dial(connection, self._route, self._tls, timeouts.connect)
        except TimeoutError:
            failure = PipeError(
                "connect", "timeout", f"{self._where} did not accept the connection in time", sent=False
            )
        except PipeError as error:
            failure = self._explained(error)
        except Exception as error:  # noqa: BLE001 - for example, an invalid host name or unreadable root certificates
            failure = PipeError("connect", "refused", f"{self._where} cannot be dialled: {error}", sent=False)
        finally:
            self._dialling -= 1
            is_usable = connection.is_alive and failure is None and not self._is_closed
            if not is_usable:
                self._drop(connection)
        if is_usable:
            self._connections.append(connection)
            self._serve()
        else:
            self._refuse(failure or connection.failure or self._vanished_error())

    def _drop(self, connection: Http2ClientConnection) -> None:
        """Clean up after a failed dial. If the connection was established, it is forgotten when it is lost."""
        connection.abort()
        if not connection.is_made:
            self._forget(connection)

    def _forget(self, connection: Http2ClientConnection) -> None:
        self._made.discard(connection)
        if connection in self._connections:
            self._connections.remove(connection)
            if connection.failure is not None and not connection.is_settled:
                self._refuse(connection.failure)
            self._serve()
        if not self._made and self._emptied is not None and not self._emptied.done():
            self._emptied.set_result(None)

    # ── errors ──

    def _explained(self, error: PipeError) -> PipeError:
        """Return a clearer error if the TLS handshake failed because the upstream does not support HTTP/2."""
        cause = error.__cause__
        if isinstance(cause, ssl.SSLError) and "no application protocol" in str(cause).lower().replace("_", " "):
            message = f"{self._where} does not support HTTP/2: it rejected the TLS handshake"
            return PipeError("connect", "protocol", message, sent=False)
        return error

    def _busy_error(self) -> PipeError:
        message = f"all connections to {self._where} have as many streams as they allow"
        return PipeError("connect", "busy", message, sent=False)

    def _vanished_error(self) -> PipeError:
        message = f"{self._where} closed the connection right after accepting it"
        return PipeError("connect", "reset", message, sent=False)


def closed_error(where: str) -> PipeError:
    """Return the error for a request that was made after the HTTP/2 client was closed."""
    return PipeError("connect", "busy", f"{where} was not contacted: the HTTP/2 client is closed", sent=False)


def _settle(turn: Turn, given: PipeError) -> None:
    if not turn.done():
        turn.set_result(given)


def _take_back(turn: Turn) -> None:
    """If a stream was opened for a caller that was cancelled at the same moment, close the stream."""
    if turn.done() and not turn.cancelled():
        given = turn.result()
        if isinstance(given, Http2Stream):
            given.close()


def _copy(error: PipeError) -> PipeError:
    """Copy an error. Raising an error sets its traceback, so each caller needs its own copy."""
    copy = PipeError(error.phase, error.reason, error.message, sent=error.sent)
    copy.__cause__ = error.__cause__
    return copy
