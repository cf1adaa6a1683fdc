"""Serves HTTP/2 on one connection: concurrent requests, each answered while its body is still being received.

Flow control windows grow only as data is read, so no stream can exhaust memory. If a client does not read its
response, writing waits, up to a time limit.
"""

import asyncio
import struct
from collections import deque
from contextlib import suppress

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    DataReceived,
    Event,
    RemoteSettingsChanged,
    RequestReceived,
    StreamEnded,
    StreamReset,
    WindowUpdated,
)
from h2.exceptions import H2Error, StreamClosedError
from h2.settings import SettingCodes, Settings

from tieline.sim.cursor.http_exchange import STALLED, Headers, HttpExchange, RequestHead, Serve, drain

READ = 64 * 1024
WINDOW = 1024 * 1024
CONNECTION_WINDOW = 16 * 1024 * 1024
STREAMS = 1000


async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, first: bytes, serve: Serve) -> None:
    """Pass requests from a connection to `serve` until the connection ends. `first` holds the bytes already read."""
    async with asyncio.TaskGroup() as group:
        connection = Http2Connection(writer, serve, group)
        await connection.read_on(reader, first)
        connection.close()


class Http2Connection:
    """The server's side of an HTTP/2 connection, with its streams."""

    def __init__(self, writer: asyncio.StreamWriter, serve: Serve, group: asyncio.TaskGroup) -> None:
        self.h2 = H2Connection(H2Configuration(client_side=False, header_encoding="latin-1"))
        self.writer = writer
        self._serve = serve
        self._group = group
        self._streams: dict[int, Http2Exchange] = {}

    async def read_on(self, reader: asyncio.StreamReader, data: bytes) -> None:
        values = {SettingCodes.INITIAL_WINDOW_SIZE: WINDOW, SettingCodes.MAX_CONCURRENT_STREAMS: STREAMS}
        # Replace the settings: h2 would apply an update before the client has acknowledged it.
        self.h2.local_settings = Settings(client=False, initial_values=values)
        self.h2.initiate_connection()
        self.h2.increment_flow_control_window(CONNECTION_WINDOW - 65535)
        try:
            while data:
                for event in self.h2.receive_data(data):
                    self._handle(event)
                self.flush()
                data = await reader.read(READ)
        except H2Error:
            # h2 has queued a GOAWAY frame with the reason.
            self.flush()
        except ConnectionError:
            pass

    def close(self) -> None:
        """Cancel all streams, because the client has disconnected."""
        for stream in self._streams.values():
            stream.forget()

    def flush(self) -> None:
        if (data := self.h2.data_to_send()) and not self.writer.is_closing():
            self.writer.write(data)

    def _handle(self, event: Event) -> None:
        match event:
            case RequestReceived(stream_id=int(number)):
                self._begin(number, event.headers or [])
            case DataReceived(stream_id=int(number)) if stream := self._streams.get(number):
                stream.feed(event.data or b"", event.flow_controlled_length or 0)
            case DataReceived(stream_id=int(number)):
                self.h2.acknowledge_received_data(event.flow_controlled_length or 0, number)
            case StreamEnded(stream_id=int(number)) if stream := self._streams.get(number):
                stream.feed_end()
            case StreamReset(stream_id=int(number)) if stream := self._streams.pop(number, None):
                stream.forget()
            case WindowUpdated() | RemoteSettingsChanged():
                for stream in self._streams.values():
                    stream.widened.set()
            case _:
                pass

    def _begin(self, number: int, headers: list[tuple[bytes, bytes]] | list[tuple[str, str]]) -> None:
        named = [(_text(name), _text(value)) for name, value in headers]
        pseudo = dict(named)
        request = RequestHead(
            method=pseudo.get(":method", ""),
            target=pseudo.get(":path", ""),
            headers=tuple((name, value) for name, value in named if not name.startswith(":")),
            version="2",
        )
        stream = self._streams[number] = Http2Exchange(self, number, request)
        stream.serving = self._group.create_task(self._serve_one(number, stream))

    async def _serve_one(self, number: int, stream: "Http2Exchange") -> None:
        try:
            with suppress(ConnectionError):
                await self._serve(stream)
        finally:
            self._streams.pop(number, None)
            stream.settle()


class Http2Exchange(HttpExchange):
    """One HTTP/2 stream: a request and its response."""

    def __init__(self, connection: Http2Connection, number: int, request: RequestHead) -> None:
        self.request = request
        self.serving: asyncio.Task[None] | None = None
        self.widened = asyncio.Event()
        self._connection = connection
        self._h2 = connection.h2
        self._number = number
        self._received: deque[tuple[bytes, int]] = deque()
        self._arrived = asyncio.Event()
        self._is_whole = False
        self._is_ended = False

    # Called by the connection

    def feed(self, data: bytes, size: int) -> None:
        self._received.append((data, size))
        self._arrived.set()

    def feed_end(self) -> None:
        self._is_whole = True
        self._arrived.set()

    def forget(self) -> None:
        """Cancel the response, because the client has reset the stream or disconnected."""
        self._is_ended = True
        if self.serving is not None:
            self.serving.cancel()

    def settle(self) -> None:
        """Reset the stream if its response was not completed."""
        if not self._is_ended:
            self.reset()

    # Implementation of HttpExchange

    async def read(self) -> bytes:
        while not self._received:
            if self._is_whole:
                return b""
            self._arrived.clear()
            await self._arrived.wait()
        data, size = self._received.popleft()
        if size and not self._is_ended:
            self._h2.acknowledge_received_data(size, self._number)
            self._connection.flush()
        return data or await self.read()

    async def start(self, status: int, headers: Headers) -> None:
        self._h2.send_headers(self._number, [(":status", str(status)), *headers])
        self._connection.flush()

    async def write(self, data: bytes) -> None:
        rest = memoryview(data) if self.request.method != "HEAD" else memoryview(b"")
        try:
            while rest:
                room = self._room()
                if room <= 0:
                    await self._widening()
                    continue
                self._h2.send_data(self._number, bytes(rest[:room]))
                self._connection.flush()
                rest = rest[room:]
        except StreamClosedError as error:
            raise ConnectionResetError("the client has reset the stream") from error
        await drain(self._connection.writer)

    async def end(self, last: bytes = b"") -> None:
        if last:
            await self.write(last)
        if not self._is_ended:
            self._is_ended = True
            self._h2.end_stream(self._number)
            self._connection.flush()
        await drain(self._connection.writer)

    def goaway(self, code: int) -> None:
        # Written by hand, because h2 would close the connection, but open streams must continue.
        frame = struct.pack(">BHBBIII", 0, 8, 7, 0, 0, self._number, code)
        self._connection.flush()
        self._connection.writer.write(frame)

    def reset(self) -> None:
        self._is_ended = True
        try:
            self._h2.reset_stream(self._number, ErrorCodes.INTERNAL_ERROR)
        except H2Error:
            # The stream is already closed.
            return
        self._connection.flush()

    def cut(self) -> None:
        self._is_ended = True
        # Not aborted: data that is already written must arrive.
        self._connection.writer.transport.close()

    def _room(self) -> int:
        return min(self._h2.local_flow_control_window(self._number), self._h2.max_outbound_frame_size)

    async def _widening(self) -> None:
        self.widened.clear()
        try:
            async with asyncio.timeout(STALLED):
                await self.widened.wait()
        except TimeoutError as error:
            raise ConnectionResetError("the client does not read its response") from error


def _text(value: bytes | str) -> str:
    return value if isinstance(value, str) else value.decode("latin-1")
