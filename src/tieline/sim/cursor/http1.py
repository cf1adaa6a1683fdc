"""Serves HTTP/1.1 on one connection. If the client disconnects, the current response is cancelled."""

import asyncio
import socket
import struct
from contextlib import suppress
from http import HTTPStatus

import httptools

from tieline.sim.cursor.http_exchange import BODY_LIMIT, BodyTooLarge, Headers, HttpExchange, RequestHead, Serve, drain

READ = 64 * 1024
HEAD_LIMIT = 256 * 1024
AHEAD = 16
"""Maximum number of pipelined requests that are read ahead."""

_LINGER_NOT = struct.pack("ii", 1, 0)


async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, first: bytes, serve: Serve) -> None:
    """Pass requests from a connection to `serve` until the connection ends. `first` holds the bytes already read."""
    connection = _Connection(reader)
    async with asyncio.TaskGroup() as group:
        reading = group.create_task(connection.read_on(first))
        while (found := await connection.requests.get()) is not None:
            exchange = Http1Exchange(writer, *found)
            connection.serving = group.create_task(_serve_one(serve, exchange))
            await asyncio.wait([connection.serving])
            if not exchange.is_reusable:
                break
            connection.serving = None
        reading.cancel()


async def _serve_one(serve: Serve, exchange: "Http1Exchange") -> None:
    with suppress(ConnectionError):
        await serve(exchange)


class _Parsing:
    """Collects the requests that httptools finds in the bytes of a connection."""

    def __init__(self) -> None:
        self.found: list[tuple[RequestHead, bytes | None, bool]] = []
        self._parser = httptools.HttpRequestParser(self)
        self.on_message_begin()

    def feed(self, data: bytes) -> None:
        """Parse more bytes. Raise BodyTooLarge if a request is too large, HttpParserError if it is invalid."""
        self._parser.feed_data(data)
        if self._is_head:
            # Counted here because httptools does not report an unfinished header.
            self._hold(len(data), HEAD_LIMIT)

    # Callbacks from httptools

    def on_message_begin(self) -> None:
        self._is_head = True
        self._held = 0
        self._target = b""
        self._headers: list[tuple[str, str]] = []
        self._body: list[bytes] = []

    def on_url(self, url: bytes) -> None:
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name.decode("latin-1").lower(), value.decode("latin-1")))

    def on_headers_complete(self) -> None:
        self._is_head = False
        self._held = 0

    def on_body(self, body: bytes) -> None:
        self._hold(len(body), BODY_LIMIT)
        self._body.append(body)

    def on_message_complete(self) -> None:
        self._is_head = True
        self._held = 0
        request = RequestHead(
            method=self._parser.get_method().decode("latin-1"),
            target=self._target.decode("latin-1"),
            headers=tuple(self._headers),
        )
        self.found.append((request, b"".join(self._body), self._parser.should_keep_alive()))

    def _hold(self, size: int, limit: int) -> None:
        self._held += size
        if self._held > limit:
            raise BodyTooLarge


class _Connection:
    """A connection that is also read while a response is being sent, so that a disconnect is noticed at once."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self.requests: asyncio.Queue[tuple[RequestHead, bytes | None, bool] | None] = asyncio.Queue(AHEAD)
        self.serving: asyncio.Task[None] | None = None
        self._reader = reader
        self._parsing = _Parsing()

    async def read_on(self, data: bytes) -> None:
        try:
            while data:
                self._parsing.feed(data)
                for found in self._parsing.found:
                    await self.requests.put(found)
                self._parsing.found.clear()
                data = await self._reader.read(READ)
        except (httptools.HttpParserError, BodyTooLarge):
            # An invalid request is answered with an error, and the connection is closed.
            await self.requests.put((RequestHead(method="", target=""), None, False))
        except ConnectionError:
            pass
        if self.serving is not None:
            self.serving.cancel()
        await self.requests.put(None)


class Http1Exchange(HttpExchange):
    """One HTTP/1.1 request and its response. `body` is None if the request was invalid or too large."""

    def __init__(self, writer: asyncio.StreamWriter, request: RequestHead, body: bytes | None, keep: bool) -> None:
        self.request = request
        self.is_reusable = False
        """Whether the connection can serve another request: the response is complete and keep-alive is in use."""
        self._writer = writer
        self._body = body
        self._keep = keep
        self._chunked = False
        self._head = b""
        """The head of the response. It is sent together with the first bytes of the body, to save a system call."""

    async def read(self) -> bytes:
        if self._body is None:
            raise BodyTooLarge
        body, self._body = self._body, b""
        return body

    async def start(self, status: int, headers: Headers) -> None:
        names = {name for name, _ in headers}
        self._chunked = "content-length" not in names
        lines = [f"HTTP/1.1 {status} {_phrase(status)}", *(f"{name}: {value}" for name, value in headers)]
        if self._chunked:
            lines.append("transfer-encoding: chunked")
        if not self._keep:
            lines.append("connection: close")
        self._head = "\r\n".join([*lines, "", ""]).encode("latin-1")

    async def write(self, data: bytes) -> None:
        self._send(self._chunk(data))
        await drain(self._writer)

    async def end(self, last: bytes = b"") -> None:
        self._send(self._chunk(last) + (b"0\r\n\r\n" if self._chunked else b""))
        await drain(self._writer)
        self.is_reusable = self._keep

    def _chunk(self, data: bytes) -> bytes:
        if self.request.method == "HEAD" or not data:
            return b""
        return b"%x\r\n%b\r\n" % (len(data), data) if self._chunked else data

    def _send(self, data: bytes) -> None:
        if data := self._head + data:
            self._head = b""
            self._writer.write(data)

    def goaway(self, code: int) -> None:
        """Do nothing: HTTP/1.1 has no GOAWAY message."""

    def reset(self) -> None:
        raw = self._writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NOT)
        self._writer.transport.abort()

    def cut(self) -> None:
        # Not aborted: data that is already written must arrive.
        self._writer.transport.close()


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Simulated"
