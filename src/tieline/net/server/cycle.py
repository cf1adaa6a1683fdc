"""One request of a served connection and its response, for an application that takes them as they are, or by ASGI.

The head of a response is held until the first of its body, and goes out with it in one write.
"""

import asyncio
import http
import logging
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, Protocol

from tieline.net.server.request_head import Head

log = logging.getLogger("tieline.serving")

Headers = Iterable[tuple[bytes, bytes]]

_PHRASES = {status.value: status.phrase for status in http.HTTPStatus}
_STATUS_LINES = {status: f"HTTP/1.1 {status} {_PHRASES.get(status, '')}".encode() for status in range(200, 600)}
_BODILESS = frozenset((204, 304))
_OURS = frozenset((b"connection", b"transfer-encoding"))
"""Headers that are written by nobody else."""
_TELLING = _OURS | {b"content-length"}
"""Headers that say how a response ends."""
MAX_OPENINGS = 64
_ASGI = {"version": "3.0", "spec_version": "2.3"}
_join_field = b": ".join
_join_lines = b"\r\n".join
_name_of = itemgetter(0)

# How the end of a response's body is told; a number from 0 on is what is still to come of a length told before.
_NOT_BEGUN, _BY_CHUNKS, _BY_CLOSING, _NO_BODY = -1, -2, -3, -4


class State(Protocol):
    """What a server keeps for all its connections."""

    default_headers: list[tuple[bytes, bytes]]


class Connection(Protocol):
    """What a cycle needs of the connection it is on."""

    transport: asyncio.Transport
    loop: asyncio.AbstractEventLoop
    client: tuple[str, int] | None
    server: tuple[str, int] | None
    is_stuck: bool
    """Whether the client takes less than it is given."""
    sent: asyncio.Future[None]
    """What `send` returns when there is nothing to wait for: done, and awaited any number of times."""
    kept: Any
    """What the application keeps with the connection."""

    @property
    def state(self) -> State:
        """What is kept for all connections."""

    def wants_more(self) -> None:
        """The application has taken what there was of the body."""

    async def writable(self) -> None:
        """Wait until the client has taken most of what it was given, or has left."""

    def answered(self, cycle: "Cycle") -> None:
        """The response is complete."""

    def broke(self, cycle: "Cycle") -> None:
        """The response will never be complete."""

    def cut(self, cycle: "Cycle") -> None:
        """The response ends here although it is not complete."""


def last_words(status: int, text: str, headers: Headers) -> bytes:
    """A whole response in plain text, after which the connection ends."""
    body = text.encode()
    own = (b"content-type: text/plain; charset=utf-8", b"content-length: %d" % len(body), b"connection: close")
    return _join_lines((_STATUS_LINES[status], *map(_join_field, headers), *own, b"", body))


def _lines_of(headers: Headers) -> list[bytes]:
    """Headers as lines; raises RuntimeError for what would be more than one."""
    lines = [*map(_join_field, headers)]
    flat = b"".join(lines)
    if 10 in flat or 13 in flat or 0 in flat:
        raise RuntimeError("a header of the response holds a line end")
    return lines


class _Openings:
    """How whole responses begin, up to the digits of their length.

    They are remembered as long as what the server says with every response is the same: that is the time of day.
    """

    __slots__ = ("_default", "_known")

    def __init__(self) -> None:
        self._default: list[tuple[bytes, bytes]] = []
        self._known: dict[tuple[int, bytes], bytes] = {}

    def of(self, status: int, kind: bytes, default: list[tuple[bytes, bytes]]) -> bytes:
        """The beginning of a response of this type; nothing, if there is more to it."""
        if default is not self._default or len(self._known) > MAX_OPENINGS:
            self._default, self._known = default, {}
        opening = self._known.get((status, kind))
        if opening is None:
            opening = self._known[status, kind] = _opening(status, [*default, (b"content-type", kind)])
        return opening


def _opening(status: int, headers: list[tuple[bytes, bytes]]) -> bytes:
    if status in _BODILESS or not _TELLING.isdisjoint(map(_name_of, headers)):
        return b""
    return _join_lines((_STATUS_LINES[status], *_lines_of(headers), b"content-length: "))


_openings = _Openings()


class Cycle:
    """A request and its response.

    What writes is no coroutine: it has nearly always nothing to wait for, and hands out the one future that is done.
    Names of headers are in lower case, as ASGI wants them.
    """

    __slots__ = (
        "_end",
        "_is_told",
        "_scope",
        "_start",
        "awaits_continue",
        "chunks",
        "connection",
        "head",
        "is_answered",
        "is_gone",
        "is_old",
        "is_whole",
        "keep_alive",
        "length",
        "task",
        "waiters",
    )

    # Positional: a class that is called with names costs a dictionary.
    def __init__(
        self,
        connection: Connection,
        head: Head,
        keep_alive: bool,
        chunks: list[bytes],
        length: bytes = b"",
        is_whole: bool = False,
    ) -> None:
        self.connection = connection
        self.head = head
        self.keep_alive = keep_alive
        self.chunks = chunks
        """What has come of the body and was not taken."""
        self.length = length
        """The digits of the length, if the head is a remembered one that may have had another."""
        self.is_whole = is_whole
        """Whether all of the request has come."""
        self.is_old = False
        """Whether the client speaks HTTP/1.0."""
        self.awaits_continue = False
        """Whether the client waits for a word before it sends the body."""
        self.waiters: list[asyncio.Future[None]] | None = None
        """Who waits in `receive`."""
        self.is_answered = False
        self.is_gone = False
        """Whether the client has left; whatever is sent from now on goes nowhere."""
        self.task: asyncio.Task[None] | None = None
        self._is_told = False
        self._scope: dict[str, Any] | None = None
        self._start: tuple[int, Headers] | None = None
        self._end = _NOT_BEGUN

    @property
    def is_begun(self) -> bool:
        """Whether anything of the response has been written."""
        return self._end != _NOT_BEGUN

    @property
    def ends_by_closing(self) -> bool:
        """Whether only the end of the connection tells where the response ends."""
        return self._end == _BY_CLOSING

    # ── what the application calls ──

    @property
    def scope(self) -> dict[str, Any]:
        """The head as ASGI tells it."""
        if self._scope is None:
            head, connection = self.head, self.connection
            path, raw_path, query = head.target
            self._scope = {
                "type": "http",
                "asgi": _ASGI,
                "http_version": head.version,
                "method": head.method,
                "scheme": "http",
                "path": path,
                "raw_path": raw_path,
                "query_string": query,
                "root_path": "",
                "headers": head.headers_with(self.length) if self.length else list(head.headers),
                "client": connection.client,
                "server": connection.server,
            }
        return self._scope

    def take_whole(self, limit: int) -> bytes | None:
        """The whole body, if it has come in one piece that is no larger; otherwise `receive` gives it."""
        chunks = self.chunks
        if not self.is_whole or len(chunks) != 1 or len(chunks[0]) > limit or self.awaits_continue or self.is_gone:
            return None
        self._is_told = True
        return chunks.pop()

    async def receive(self) -> dict[str, Any]:
        """The next of the request's body; after its end, the client's leaving or the response's end."""
        if self.awaits_continue:
            self._say_continue()
        while not (self.is_gone or self.is_answered):
            if self.chunks or (self.is_whole and not self._is_told):
                chunks, self.chunks = self.chunks, []
                is_last = self._is_told = self.is_whole
                if not is_last:
                    self.connection.wants_more()
                body = chunks[0] if len(chunks) == 1 else b"".join(chunks)
                return {"type": "http.request", "body": body, "more_body": not is_last}
            await self._news()
        return {"type": "http.disconnect"}

    def send(self, message: Mapping[str, Any]) -> Awaitable[None]:
        """The head of the response, then its body; raises RuntimeError for what is not in order."""
        kind = message["type"]
        if kind == "http.response.start":
            return self.begin(message["status"], message.get("headers", ()))
        if kind != "http.response.body":
            raise RuntimeError(f"`{kind}` is out of order")
        return self.write(message.get("body", b""), not message.get("more_body", False))

    def answer(self, status: int, kind: bytes, headers: Sequence[tuple[bytes, bytes]], body: bytes) -> Awaitable[None]:
        """The whole response; its type and its length stand before the other headers."""
        connection = self.connection
        opening = _openings.of(status, kind, connection.state.default_headers)
        if self._is_unusual() or not opening or not _TELLING.isdisjoint(map(_name_of, headers)):
            self.begin(status, [(b"content-type", kind), (b"content-length", b"%d" % len(body)), *headers])
            return self.write(body, True)
        data = _join_lines((b"%b%d" % (opening, len(body)), *_lines_of(headers), b"", body))
        self._start, self._end = (status, headers), 0
        connection.transport.write(data)
        self._over()
        return connection.sent

    def begin(self, status: int, headers: Headers) -> Awaitable[None]:
        """The head of the response, which waits for the first of its body."""
        if self._start is not None and not self.is_gone:
            raise RuntimeError("`http.response.start` is out of order")
        self._start = (status, headers)
        return self.connection.sent

    def write(self, body: bytes, last: bool) -> Awaitable[None]:
        """More of the response's body."""
        connection, start, end = self.connection, self._start, self._end
        if self.is_gone:
            return connection.sent
        if connection.is_stuck:
            return self._write_later(body, last)
        if start is None or self.is_answered:
            raise RuntimeError("`http.response.body` is out of order")
        if end == _BY_CHUNKS and body and not last:  # in the middle of a stream, where most of all calls are
            connection.transport.write(b"%x\r\n%b\r\n" % (len(body), body))
            return connection.sent
        data = self._begin(*start, body, last) if end == _NOT_BEGUN else self._framed(end, body, last)
        if data:
            connection.transport.write(data)
        if last:
            self._over()
        return connection.sent

    def cut(self) -> None:
        """End the response without its end: what was written is delivered, then the connection is closed.

        A client of HTTP/1.1 misses the last chunk and knows that the transfer broke.
        """
        if self.is_gone or self.is_answered:
            return
        self.is_answered = True
        self.wake()
        self.connection.cut(self)

    # ── what the connection calls ──

    async def run(self, app: Any, serve: Any, tasks: set[asyncio.Task[None]]) -> None:
        """Let the application answer; what it leaves undone is an error for the client."""
        try:
            await (app(self.scope, self.receive, self.send) if serve is None else serve(self))
        except Exception:
            log.exception("%s %s broke", self.head.method, self.head.target.path)
        finally:
            if self.task is not None:
                tasks.discard(self.task)
                self.task = None
            if not (self.is_answered or self.is_gone):
                self.connection.broke(self)

    def leave(self) -> None:
        """The client is gone."""
        self.is_gone = True
        self.chunks = []
        self.wake()

    def wake(self) -> None:
        """There is news for who waits in `receive`."""
        waiters, self.waiters = self.waiters or (), None
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    # ── the request ──

    async def _news(self) -> None:
        waiter: asyncio.Future[None] = self.connection.loop.create_future()
        self.waiters = [*(self.waiters or ()), waiter]
        await waiter

    def _say_continue(self) -> None:
        self.awaits_continue = False
        if not (self.is_whole or self.chunks or self.is_begun or self.is_gone):
            self.connection.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    # ── the response ──

    async def _write_later(self, body: bytes, last: bool) -> None:
        await self.connection.writable()
        await self.write(body, last)

    def _over(self) -> None:
        self.is_answered = True
        if self.waiters:
            self.wake()
        self.connection.answered(self)

    def _is_unusual(self) -> bool:
        """Whether more has to be heeded, or said, than that this connection stays and where the body ends."""
        if self._start is not None or self.is_gone or self.connection.is_stuck:
            return True
        return not self.keep_alive or self.awaits_continue or self.head.method == "HEAD"

    def _begin(self, status: int, headers: Headers, body: bytes, last: bool) -> bytes:
        """The head with the first of the body."""
        fields = [*self.connection.state.default_headers, *headers]
        named = dict(fields)
        if not _OURS.isdisjoint(named):
            fields = self._heed_ours(fields)
        lines = [_STATUS_LINES[status], *_lines_of(fields)]
        end = int(named.get(b"content-length", _NOT_BEGUN))
        if status in _BODILESS or self.head.method == "HEAD":
            end = _NO_BODY
        elif end == _NOT_BEGUN:
            end = self._tell_end(lines)
        if not self.keep_alive or self.awaits_continue:
            self._tell_stay(lines)
        lines += (b"", self._framed(end, body, last))
        return _join_lines(lines)

    def _heed_ours(self, fields: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
        """The headers without those that only we write; one that says so ends the connection."""
        for name, value in fields:
            if name in _OURS and b"close" in value.lower():
                self.keep_alive = False
        return [field for field in fields if field[0] not in _OURS]

    def _tell_end(self, lines: list[bytes]) -> int:
        """Say where the body will end, as the application did not: it streams, even if it has said all at once."""
        if self.is_old:
            return _BY_CLOSING
        lines.append(b"transfer-encoding: chunked")
        return _BY_CHUNKS

    def _tell_stay(self, lines: list[bytes]) -> None:
        """Say that the connection does not stay, if it does not."""
        # A client that was not told to go on may send its body or leave it: nobody could say what comes next.
        self.keep_alive = self.keep_alive and self.is_whole
        if not self.keep_alive:
            lines.append(b"connection: close")

    def _framed(self, end: int, body: bytes, last: bool) -> bytes:
        """More of the body as it is written."""
        if end >= 0:
            end -= len(body)
            if end < 0 or (end and last):
                raise RuntimeError("the body of the response is not as long as its head says")
            data = body
        elif end == _BY_CHUNKS:
            ending = b"0\r\n\r\n" if last else b""
            data = b"%x\r\n%b\r\n%b" % (len(body), body, ending) if body else ending
        else:
            data = body if end == _BY_CLOSING else b""
        self._end = end
        return data
