"""A scripted HTTP/2 upstream for tests: an answer is played on every stream, and connections can misbehave."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    DataReceived,
    Event,
    PingAckReceived,
    RequestReceived,
    StreamEnded,
    StreamReset,
)
from h2.settings import SettingCodes, Settings
from hyperframe.frame import Frame, GoAwayFrame

from tests.net.upstream import WAIT
from tieline.net.h2.client import Http2Client, Http2Stream, Origin, PipeError, Timeouts

PATIENT = Timeouts()


class HungUp(ConnectionError):
    """The client has closed the connection or the stream while an answer was being played."""


class Call:
    """The upstream's end of one stream."""

    def __init__(self, peer: "H2Peer", number: int, headers: dict[str, str]) -> None:
        self.peer = peer
        self.number = number
        self.headers = headers
        self.heard = bytearray()
        self.credit = 0
        self.is_ended = False
        self.reset_code: int | None = None

    async def read(self, *, hold: bool = False) -> bytes:
        """What the client has sent since the last call, b"" at the end; `hold` gives no window back for it."""
        await self.peer.until(lambda: bool(self.heard) or self.is_ended or self._check())
        data, self.heard = bytes(self.heard), bytearray()
        credit, self.credit = self.credit, 0
        if credit and not hold:
            self.peer.h2.acknowledge_received_data(credit, self.number)
            self.peer.flush()
        return data

    async def read_all(self) -> bytes:
        parts = []
        while data := await self.read():
            parts.append(data)
        return b"".join(parts)

    async def reset(self) -> int:
        """Wait until the client resets the stream, and say with what code."""
        await self.peer.until(lambda: self.reset_code is not None)
        assert self.reset_code is not None
        return self.reset_code

    def respond(self, status: int = 200, *headers: tuple[str, str], end: bool = False) -> None:
        self.peer.h2.send_headers(self.number, [(":status", str(status)), *headers], end_stream=end)
        self.peer.flush()

    async def say(self, data: bytes, *, end: bool = False) -> None:
        """Send data as the client's windows allow."""
        while len(data) > self.window:
            await self.peer.until(lambda: self._check() or self.window > 0)
            piece, data = data[: self.window], data[self.window :]
            self._say(piece)
        self._say(data, end=end)

    def trail(self, *trailers: tuple[str, str]) -> None:
        self.peer.h2.send_headers(self.number, trailers, end_stream=True)
        self.peer.flush()

    def refuse(self, code: int) -> None:
        self.peer.h2.reset_stream(self.number, code)
        self.peer.flush()

    @property
    def window(self) -> int:
        """What may be sent now, at most one frame."""
        return min(self.peer.h2.local_flow_control_window(self.number), 16384)

    def _say(self, piece: bytes, *, end: bool = False) -> None:
        self.peer.h2.send_data(self.number, piece, end_stream=end)
        self.peer.flush()

    def _check(self) -> bool:
        if self.reset_code is not None:
            raise HungUp
        return False


Answer = Callable[[Call], Awaitable[None]]


class H2Peer:
    """The upstream's end of one connection."""

    def __init__(self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.number = number
        self.writer = writer
        self.h2 = H2Connection(H2Configuration(client_side=False))
        self.calls: dict[int, Call] = {}
        self.events: list[Event] = []
        self.is_gone = False
        self.each_byte = False
        self._reader = reader
        self._news = asyncio.Event()

    async def run(self, on_call: Callable[[Call], None]) -> None:
        """Read until the client hangs up."""
        with suppress(ConnectionError):
            while data := await self._reader.read(65536):
                for event in self.h2.receive_data(data):
                    self._take(event, on_call)
                self.flush()
                self._news.set()
        self.is_gone = True
        self._news.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for something that the client's frames make true."""
        async with asyncio.timeout(WAIT):
            while not condition():
                if self.is_gone:
                    raise HungUp
                self._news.clear()
                await self._news.wait()

    def flush(self) -> None:
        data = self.h2.data_to_send()
        if self.is_gone:
            return
        if self.each_byte:
            for index in range(len(data)):
                self.writer.write(data[index : index + 1])
        else:
            self.writer.write(data)

    def send_raw(self, *frames: Frame | bytes) -> None:
        """Send what h2 would not, or would not let us survive."""
        self.flush()
        self.writer.write(b"".join(frame if isinstance(frame, bytes) else frame.serialize() for frame in frames))

    def goaway(self, last: int, code: int = ErrorCodes.NO_ERROR, said: bytes = b"") -> None:
        self.send_raw(GoAwayFrame(0, last_stream_id=last, error_code=code, additional_data=said))

    def change(self, settings: dict[SettingCodes | int, int]) -> None:
        self.h2.update_settings(settings)
        self.flush()

    def cut(self) -> None:
        """Drop the connection without a word."""
        self.writer.transport.abort()

    def _take(self, event: Event, on_call: Callable[[Call], None]) -> None:
        self.events.append(event)
        match event:
            case RequestReceived():
                headers = {name.decode(): value.decode("latin-1") for name, value in event.headers}
                call = Call(self, event.stream_id, headers)
                self.calls[event.stream_id] = call
                on_call(call)
            case DataReceived():
                call = self.calls[event.stream_id]
                call.heard += event.data
                call.credit += event.flow_controlled_length
            case StreamEnded():
                self.calls[event.stream_id].is_ended = True
            case StreamReset():
                self.calls[event.stream_id].reset_code = int(event.error_code)
            case _:
                pass

    @property
    def pongs(self) -> int:
        return sum(isinstance(event, PingAckReceived) for event in self.events)


class H2Upstream:
    """A listening upstream; `calls` and `peers` are what it has seen, in order."""

    def __init__(self, answer: Answer, settings: dict[SettingCodes, int], *, each_byte: bool) -> None:
        self.origin = Origin("http", "127.0.0.1", 0)
        self.peers: list[H2Peer] = []
        self.calls: list[Call] = []
        self.tasks: set[asyncio.Task[None]] = set()
        self._answer = answer
        self._settings = settings
        self._each_byte = each_byte

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.tasks.add(task)
        peer = H2Peer(len(self.peers) + 1, reader, writer)
        peer.each_byte = self._each_byte
        peer.h2.local_settings = Settings(client=False, initial_values=self._settings)
        peer.h2.initiate_connection()
        peer.flush()
        self.peers.append(peer)
        try:
            await peer.run(self._begin)
        finally:
            writer.close()

    def _begin(self, call: Call) -> None:
        self.calls.append(call)
        self.tasks.add(asyncio.create_task(self._play(call)))

    async def _play(self, call: Call) -> None:
        with suppress(HungUp):
            await self._answer(call)


@asynccontextmanager
async def serving_h2(
    answer: Answer,
    *,
    tls: ssl.SSLContext | None = None,
    streams: int = 100,
    window: int = 65535,
    each_byte: bool = False,
) -> AsyncIterator[H2Upstream]:
    """Play an answer on every stream; whatever an answer asserts is asserted when the server ends."""
    settings = {SettingCodes.MAX_CONCURRENT_STREAMS: streams, SettingCodes.INITIAL_WINDOW_SIZE: window}
    upstream = H2Upstream(answer, settings, each_byte=each_byte)
    server = await asyncio.start_server(upstream.serve, "127.0.0.1", 0, ssl=tls)
    port = server.sockets[0].getsockname()[1]
    upstream.origin = Origin("https" if tls else "http", "localhost" if tls else "127.0.0.1", port)
    try:
        yield upstream
        server.close()
        async with asyncio.timeout(WAIT):
            await asyncio.gather(*upstream.tasks)
    finally:
        server.close()
        for task in upstream.tasks:
            task.cancel()
        await asyncio.gather(*upstream.tasks, return_exceptions=True)


async def echo(call: Call) -> None:
    """Send back whatever comes, until the client has said all."""
    call.respond(200, ("content-type", "application/octet-stream"))
    while data := await call.read():
        await call.say(data)
    await call.say(b"", end=True)


async def hold(call: Call) -> None:
    """Take the call and say nothing, until the client leaves."""
    await call.reset()


# ── the client's side, in short ──


async def begin(client: Http2Client, origin: Origin, timeouts: Timeouts = PATIENT) -> Http2Stream:
    return await client.open(origin, "/x", [("content-type", "a/b")], timeouts)


async def body_of(stream: Http2Stream) -> bytes:
    parts = []
    while data := await stream.chunk():
        parts.append(data)
    return b"".join(parts)


def facts(error: PipeError) -> tuple[str, str, bool]:
    return error.phase, error.reason, error.sent


def frame(kind: int, flags: int, number: int, payload: bytes = b"") -> bytes:
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + number.to_bytes(4, "big") + payload
