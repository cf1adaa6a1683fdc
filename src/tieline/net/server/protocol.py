"""Our side of HTTP/1.1: the protocol class that uvicorn puts on every connection, over httptools.

uvicorn keeps the sockets, the signals and the life-cycle. A connection reads requests and answers them in order; a
request and its response are a `Cycle`. Every buffer is capped and every wait bounded.
"""

import asyncio
import logging
import math
from collections import deque
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import httptools

from tieline.net.server.connection import Line
from tieline.net.server.cycle import Cycle, last_words
from tieline.net.server.request_head import (
    Head,
    KnownHeads,
    Refused,
    check_head,
    parse_target,
    plain_target,
    weight,
    without_upgrade,
)

if TYPE_CHECKING:
    from uvicorn import Config
    from uvicorn.server import ServerState

log = logging.getLogger("tieline.serving")

MAX_HEAD = 64 * 1024
"""Bytes of a request's head; also of what comes between two pieces of a body."""
MAX_BUFFER = 64 * 1024
"""Bytes of a body that wait for the application before reading stops."""
MAX_CHUNKS = 1024
"""Pieces of it: a tiny one takes more room than it says."""
MAX_WAITING = 64
"""Requests that wait for the answer to the one before them; what follows them is not read."""
MAX_DISCARD = 64 * 1024 * 1024
"""Bytes of a body that are read and thrown away after the response has been given."""

HEAD_WITHIN = 30.0
"""Seconds from the first byte of a head to its last."""
BODY_WITHIN = 60.0
"""Seconds of silence in the middle of a body."""
DISCARD_WITHIN = 30.0
"""Seconds that a client may go on with a body nobody wants."""

BROKEN = "Something went wrong inside the gateway; its log says what."

_NOTABLE = frozenset((b"connection", b"expect", b"host", b"transfer-encoding", b"upgrade"))
"""Headers that mean something to the connection."""
_PLAIN = [b"host"]
_UNUSUAL = _NOTABLE - {b"connection", b"host"}

_known_heads: "WeakKeyDictionary[ServerState, KnownHeads]" = WeakKeyDictionary()
"""Of every server, as what its application keeps with a head is of no use to another."""


class HttpServing(Line):
    """One connection of a client. Of uvicorn's settings it heeds the application, the headers and the keep-alive.

    An application that has a method `serve` is given the cycle itself, any other what ASGI makes of it. A head that is
    the last one again, but for its length, is not parsed: its body is counted here, and the parser never sees either.
    """

    __slots__ = (
        "_app",
        "_current",
        "_discarded",
        "_fed",
        "_headers",
        "_heads",
        "_incoming",
        "_is_between",
        "_last",
        "_missing",
        "_notable",
        "_parser",
        "_read",
        "_refusal",
        "_serve",
        "_tasks",
        "_upgrade",
        "_url",
        "_waiting",
        "client",
        "kept",
        "sent",
        "server",
        "state",
    )

    def __init__(
        self,
        config: "Config",
        server_state: "ServerState",
        app_state: dict[str, Any],  # noqa: ARG002 - uvicorn gives what a lifespan leaves behind; we have none
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(_loop or asyncio.get_running_loop(), float(config.timeout_keep_alive))
        self.sent: asyncio.Future[None] = self.loop.create_future()
        self.sent.set_result(None)
        self._app: Any = config.loaded_app
        self._serve: Any = getattr(self._app, "serve", None)
        self.state = server_state
        self._tasks = server_state.tasks
        self.client: tuple[str, int] | None = None
        self.server: tuple[str, int] | None = None
        self.kept: Any = None
        # What is being read.
        self._parser = httptools.HttpRequestParser(self)
        self._url = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._notable: list[bytes] = []
        self._upgrade = b""
        self._fed = 0
        """Bytes since a head was complete, or a piece of a body came."""
        self._is_between = True
        """Whether the parser has seen nothing of the next request."""
        self._read = b""
        """What has come at once, while the head it begins with is being read."""
        self._heads = _known_heads.setdefault(server_state, KnownHeads())
        self._last: Head | None = None
        """The last head of this client, if it is one that is remembered."""
        self._missing = 0
        """Bytes of a body that is counted here."""
        self._incoming: Cycle | None = None
        """The request whose body is under way."""
        self._discarded = 0
        # What is being answered.
        self._current: Cycle | None = None
        self._waiting: deque[Cycle] = deque()
        self._refusal: Refused | None = None
        """The last answer, when those before it have been given. Nothing is read any more."""

    # ── what the transport calls ──

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client is there."""
        super().connection_made(transport)
        self.state.connections.add(self)  # type: ignore[arg-type] # uvicorn lists its own protocols
        self.client = _address(transport.get_extra_info("peername"))
        self.server = _address(transport.get_extra_info("sockname"))

    def connection_lost(self, _error: Exception | None) -> None:
        """The client is gone, or we have closed."""
        self.state.connections.discard(self)
        for cycle in (self._current, self._incoming, *self._waiting):
            if cycle is not None:
                cycle.leave()
        self._current = self._incoming = None
        self._waiting.clear()
        super().connection_lost(_error)
        del self._parser  # it holds our methods: without it nothing is left for the garbage collector

    def data_received(self, data: bytes) -> None:
        """Bytes of requests, cut anywhere."""
        if self.is_ending or self._refusal is not None:
            return
        if self._missing:
            data = self._count(data)
        elif self._is_between and self._fed == 0 and self._current is None:
            if self._last is not None:
                data = self._read_known(self._last, data)
            self._read = data
        if data:
            self._parse(data)

    def _parse(self, data: bytes) -> None:
        self._fed += len(data)
        rest = None
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            rest = data[upgrade.args[0] :]
        except httptools.HttpParserError as error:
            self._fail(error)
        if rest is not None:  # not in the handler above: what is raised there loses the cause that httptools gives it
            self._read_on(rest)
        self._read = b""
        if self._fed or self._incoming is not None:
            self._take_stock(len(data))

    # ── heads that are known ──

    def _read_known(self, head: Head, data: bytes) -> bytes:
        """Begin a request with the last head again, and give back what is behind it; all, if it is another head."""
        digits = head.length_in(data)
        if digits is None:
            return data
        start = head.size + len(digits)
        length = int(digits)
        stop = start + length
        if stop > len(data):
            self._incoming = cycle = Cycle(self, head, True, [], digits)
            self._start(cycle)
            self._missing = length
            return self._count(data[start:])
        self._start(Cycle(self, head, True, [data[start:stop]], digits, True))
        return data[stop:]

    def _count(self, data: bytes) -> bytes:
        """Take what is missing of a body, and give back what is behind it."""
        missing = self._missing
        self._missing = max(0, missing - len(data))
        if data:
            self.on_body(data[:missing])
        if self._missing:
            self._take_stock(len(data))
        else:
            self.on_message_complete()
        return data[missing:]

    # ── what the parser calls ──

    def on_message_begin(self) -> None:
        """The first byte of a request."""
        self._is_between = False

    def on_url(self, url: bytes) -> None:
        """The target, in one or more pieces."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header, or a trailer."""
        name = name.lower()
        if name in _NOTABLE:
            self._notable.append(name)
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        """A head is complete: its request begins, or waits for the answer to the one before it."""
        parser = self._parser
        url, headers, notable, read = self._url, self._headers, self._notable, self._read
        self._url, self._headers, self._notable, self._read = b"", [], [], b""
        method = parser.get_method().decode()
        version, keep_alive = "1.1", parser.should_keep_alive()
        is_plain = keep_alive and notable == _PLAIN and method != "CONNECT"
        if not is_plain:
            version = parser.get_http_version()
            if parser.should_upgrade():
                self._upgrade = without_upgrade(method, url, version, headers)
                return
            check_head(version, notable, headers)
        if self._fed > MAX_HEAD and weight(url, headers) > MAX_HEAD:
            raise Refused(431, "The head of the request is too large.")
        self._fed = 0
        target = plain_target(url)
        head = Head(method, target or parse_target(url, headers), version, headers)
        cycle = Cycle(self, head, keep_alive, [])
        if not is_plain:
            cycle.is_old = version == "1.0"
            cycle.keep_alive = keep_alive and not cycle.is_old
            cycle.awaits_continue = b"expect" in notable and not cycle.is_old
        if read and cycle.keep_alive and target is not None and _UNUSUAL.isdisjoint(notable) and method != "CONNECT":
            self._last = self._heads.learn(read, head)
        if self._current is None:
            self._start(cycle)
        else:
            self._queue(cycle)
        self._incoming = cycle

    def on_body(self, body: bytes) -> None:
        """A piece of a body."""
        self._fed = 0
        cycle = self._incoming
        if cycle is None or cycle.is_answered:
            self._discarded += len(body)
            return
        cycle.chunks.append(body)
        if cycle.waiters:
            cycle.wake()

    def on_message_complete(self) -> None:
        """A request is complete."""
        self._is_between = True
        cycle = self._incoming
        if cycle is None:
            return  # one that would change the protocol, and is read again
        self._incoming = None
        self._fed = 0
        if self._headers:
            self._headers, self._notable = [], []  # trailers: nobody asks for them
        cycle.is_whole = True
        if cycle.waiters:
            cycle.wake()
        if cycle.is_answered:
            self._since = self.loop.time()

    # ── what a cycle calls ──

    def wants_more(self) -> None:
        """The application has taken what there was of the body."""
        if self._is_paused and not self._waiting:
            self._since = self.loop.time()
            self.resume()

    def answered(self, cycle: Cycle) -> None:
        """A response is complete: on to the next request."""
        self.state.total_requests += 1
        self._current = None
        self._since = self.loop.time()
        if self._waiting or self._incoming is not None or self._refusal is not None or not cycle.keep_alive:
            self._go_on_after(cycle)

    def broke(self, cycle: Cycle) -> None:
        """The application has ended, and the response never will."""
        if not cycle.is_begun:
            self.state.total_requests += 1
            cycle.is_answered = True
            self._say(Refused(500, BROKEN))
        elif cycle.ends_by_closing:
            self.reset()  # an orderly end would look like the end of the body
        else:
            self.close()
        self._current = None

    def cut(self, cycle: Cycle) -> None:
        """A response ends before it is complete; the connection is closed once the client has what was written."""
        cycle.keep_alive = False
        self.answered(cycle)

    # ── what uvicorn calls ──

    def shutdown(self) -> None:
        """Close, or after the response that is under way."""
        if self._current is None:
            self.transport.close()
        else:
            self._current.keep_alive = False

    # ── requests ──

    def _start(self, cycle: Cycle) -> None:
        self._current = cycle
        # uvicorn waits for what is in this set before it ends; that keeps the task, too.
        cycle.task = asyncio.Task(cycle.run(self._app, self._serve, self._tasks), loop=self.loop, name="request")
        self._tasks.add(cycle.task)

    def _queue(self, cycle: Cycle) -> None:
        if len(self._waiting) >= MAX_WAITING:
            # A client must expect that a row of requests is not read to its end, and ask again for the rest.
            self._waiting[-1].keep_alive = False
            raise Refused(503, "Too many requests wait on one connection.")
        self._waiting.append(cycle)
        self.pause()

    def _go_on_after(self, cycle: Cycle) -> None:
        if not cycle.keep_alive:
            self._waiting.clear()
            if cycle.is_whole:
                self.close()
            else:
                self.part()
        elif cycle is self._incoming:
            self._discarded = 0
            self.wait_anew(DISCARD_WITHIN)
            self.resume()
        elif self._waiting:
            self._start(self._waiting.popleft())
            if not self._waiting:
                self.resume()
        elif self._refusal is not None:
            self._say(self._refusal)

    def _take_stock(self, size: int) -> None:
        """The bytes that have come did not end with a request."""
        cycle = self._incoming
        if self.is_ending or self._refusal is not None:
            return
        if self._fed > MAX_HEAD:
            self._refuse(Refused(431, "The head of the request is too large."))
        elif cycle is None:
            if self._fed == size:
                self.wait_anew(HEAD_WITHIN)
        elif not cycle.is_answered:
            self.wait_anew(BODY_WITHIN)
            if len(cycle.chunks) > MAX_CHUNKS or sum(map(len, cycle.chunks)) > MAX_BUFFER:
                self.pause()
        elif self._discarded > MAX_DISCARD:
            self.close()

    def _read_on(self, rest: bytes) -> None:
        """Read what follows a head that would change the protocol."""
        while self._upgrade:
            data, self._upgrade = self._upgrade + rest, b""
            self._parser = httptools.HttpRequestParser(self)
            try:
                self._parser.feed_data(data)
            except httptools.HttpParserUpgrade as upgrade:
                rest = data[upgrade.args[0] :]
            except httptools.HttpParserError as error:
                self._fail(error)

    # ── what cannot be answered ──

    def _fail(self, error: httptools.HttpParserError) -> None:
        cause = error.__context__
        if isinstance(cause, Refused):
            self._refuse(cause)
        elif isinstance(error, httptools.HttpParserCallbackError):
            log.error("reading a request broke", exc_info=cause)
            self._refuse(Refused(500, BROKEN))
        else:
            self._refuse(Refused(400, f"This is no HTTP/1.1 request: {error}."))

    def _refuse(self, refusal: Refused) -> None:
        """Read no more; the client hears why after everything that it is to hear before."""
        self._refusal = refusal
        broken, self._incoming = self._incoming, None
        if broken is not None and not broken.is_answered:
            broken.leave()
            if broken is self._current:
                self._current = None
            else:
                self._waiting.remove(broken)
        if broken is not None and broken.is_begun:
            self.close()
        elif self._current is None:
            self._say(refusal)

    def _say(self, refusal: Refused) -> None:
        """The last answer of this connection."""
        self.transport.write(last_words(refusal.status, str(refusal), self.state.default_headers))
        self.part()

    # ── waits ──

    def bound(self) -> float:
        """Seconds that what is waited for may take."""
        cycle = self._incoming
        if cycle is not None and cycle.is_answered:
            return DISCARD_WITHIN
        if cycle is not None and cycle is self._current and not self._is_paused:
            return BODY_WITHIN
        if self._current is not None:
            return math.inf
        return HEAD_WITHIN if self._fed else self._idle

    def expire(self) -> None:
        """A head or a body that does not come is told so; whoever rests or sends for nobody is left."""
        cycle = self._incoming
        if self._fed if cycle is None else not cycle.is_answered:
            self._refuse(Refused(408, "The request took too long to come."))
        else:
            self.close()


def _address(given: Any) -> tuple[str, int] | None:
    return (str(given[0]), int(given[1])) if isinstance(given, tuple) else None
