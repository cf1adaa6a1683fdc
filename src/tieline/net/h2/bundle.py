"""The HTTP/2 connections of one origin: which of them a new stream goes to, and when another is dialled.

Streams fill the oldest connection first, so that the others may fall idle and close. Whoever finds no room waits in a
fair queue that is served whenever room appears. Another connection is dialled when more wait than those under way can
be hoped to carry. A dial that fails fails everybody who waits: it would not go better for them.
"""

import asyncio
import ssl
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from tieline.net.client.body import Fields, PipeError, Timeouts
from tieline.net.client.proxy import Route, dial
from tieline.net.h2.connection import Connection, Terms
from tieline.net.h2.stream import Duplex
from tieline.tasks import Tasks

Turn = asyncio.Future[Duplex | PipeError]


class Waiting(NamedTuple):
    """Somebody who waits for room, and the stream to open then."""

    turn: Turn
    fields: Fields
    timeouts: Timeouts


class Bundle:
    """The connections of one origin, at most `limit` that take new streams."""

    def __init__(self, route: Route, terms: Terms, limit: int, tls: Callable[[], ssl.SSLContext]) -> None:
        self._route = route
        self._where = route.origin.authority
        self._terms = terms
        self._limit = limit
        self._tls = tls
        self._dials = Tasks()
        self._dialling = 0
        self._connections: list[Connection] = []
        self._made: set[Connection] = set()
        self._waiters: deque[Waiting] = deque()
        self._emptied: asyncio.Future[None] | None = None
        self._is_closed = False

    async def open(self, fields: Fields, timeouts: Timeouts) -> Duplex:
        """Open a stream where there is room, or wait for it."""
        if self._is_closed:
            raise closed_error(self._where)
        if not self._waiters:
            for connection in self._connections:
                if connection.room > 0:
                    return connection.open(fields, timeouts)
        return await self._queue(fields, timeouts)

    async def aclose(self) -> None:
        """Drop every connection, fail whoever waits for one, and return when all are gone."""
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

    async def _queue(self, fields: Fields, timeouts: Timeouts) -> Duplex:
        loop = asyncio.get_running_loop()
        waiting = Waiting(loop.create_future(), fields, timeouts)
        self._waiters.append(waiting)
        self._serve()
        patience = timeouts.pool + (timeouts.connect if self._dialling else 0)
        timer = loop.call_later(patience, _settle, waiting.turn, self._busy_error())
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
        """Give what room there is to those who wait, and dial for the others."""
        if not self._waiters:
            return
        for connection in self._connections:
            while self._waiters and connection.room > 0:
                turn, fields, timeouts = self._waiters.popleft()
                if not turn.done():
                    turn.set_result(connection.open(fields, timeouts))
        self._dial_for_waiters()

    def _dial_for_waiters(self) -> None:
        hope = self._dialling * self._terms.streams + sum(connection.hope for connection in self._connections)
        taking = self._dialling + sum(not connection.is_leaving for connection in self._connections)
        while len(self._waiters) > hope and taking < self._limit and not self._is_closed:
            self._dialling += 1
            self._dials.start(self._dial(self._waiters[0].timeouts), f"dial {self._where}")
            hope += self._terms.streams
            taking += 1

    def _refuse(self, error: PipeError) -> None:
        """Nobody who waits now will be served."""
        while self._waiters:
            _settle(self._waiters.popleft().turn, _copy(error))

    # ── connections ──

    async def _dial(self, timeouts: Timeouts) -> None:
        connection = Connection(self._where, self._terms, self._serve, self._forget)
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
        except Exception as error:  # noqa: BLE001 - a name no resolver accepts, roots that cannot be read: tell who waits
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

    def _drop(self, connection: Connection) -> None:
        """Undo a dial; a connection that was made is forgotten when its transport is lost."""
        connection.abort()
        if not connection.is_made:
            self._forget(connection)

    def _forget(self, connection: Connection) -> None:
        self._made.discard(connection)
        if connection in self._connections:
            self._connections.remove(connection)
            if connection.failure is not None and not connection.is_settled:
                self._refuse(connection.failure)
            self._serve()
        if not self._made and self._emptied is not None and not self._emptied.done():
            self._emptied.set_result(None)

    # ── what went wrong ──

    def _explained(self, error: PipeError) -> PipeError:
        """A handshake that fails because HTTP/2 was offered and nothing else says so."""
        cause = error.__cause__
        if isinstance(cause, ssl.SSLError) and "no application protocol" in str(cause).lower().replace("_", " "):
            message = f"{self._where} does not speak HTTP/2: it refused the TLS handshake that offered it"
            return PipeError("connect", "protocol", message, sent=False)
        return error

    def _busy_error(self) -> PipeError:
        message = f"all connections to {self._where} carry as many streams as they may"
        return PipeError("connect", "busy", message, sent=False)

    def _vanished_error(self) -> PipeError:
        message = f"{self._where} closed the connection as soon as it was made"
        return PipeError("connect", "reset", message, sent=False)


def closed_error(where: str) -> PipeError:
    """What is raised by a client that was closed."""
    return PipeError("connect", "busy", f"{where} was not asked: the HTTP/2 client is closed", sent=False)


def _settle(turn: Turn, given: PipeError) -> None:
    if not turn.done():
        turn.set_result(given)


def _take_back(turn: Turn) -> None:
    """Close what was given to somebody who was cancelled at that moment."""
    if turn.done() and not turn.cancelled():
        given = turn.result()
        if isinstance(given, Duplex):
            given.close()


def _copy(error: PipeError) -> PipeError:
    """Whoever raises an error leaves marks in it, so each gets one of their own."""
    copy = PipeError(error.phase, error.reason, error.message, sent=error.sent)
    copy.__cause__ = error.__cause__
    return copy
