"""An HTTP/2 connection without a network: bytes cut and spoilt in every way, and what it writes when."""

import asyncio
import random

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import StreamEnded, WindowUpdated

from tests.chance import seeds
from tests.each import Failures, each
from tests.net.h2_server import frame
from tests.net.upstream import until
from tieline.net.h2 import connection as h2_connection
from tieline.net.h2 import writer
from tieline.net.h2.client import Http2Stream, PipeError, Timeouts
from tieline.net.h2.connection import Http2ClientConnection, Http2Config

TERMS = Http2Config(streams=100, stream_window=100_000, window=200_000, ping_after=30, ping_wait=15, idle_keep=60)
FIELDS = [(b":method", b"POST"), (b":scheme", b"http"), (b":authority", b"x"), (b":path", b"/")]
BODIES = [b"", b"a", b"b" * 20_000]


class Wire(asyncio.Transport):
    """A transport that keeps what was written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.is_closed = False
        self.is_aborted = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written.append(bytes(data))

    def abort(self) -> None:
        self.is_closed = self.is_aborted = True

    def close(self) -> None:
        self.is_closed = True

    def get_write_buffer_size(self) -> int:
        return sum(map(len, self.written))


def connected() -> tuple[Http2ClientConnection, Wire]:
    connection, wire = Http2ClientConnection("x:80", TERMS, lambda: None, lambda _: None), Wire()
    connection.connection_made(wire)
    return connection, wire


def greeted() -> tuple[Http2ClientConnection, Wire, H2Connection]:
    connection, wire = connected()
    server = H2Connection(H2Configuration(client_side=False))
    server.initiate_connection()
    connection.data_received(server.data_to_send())
    return connection, wire, server


async def conversation() -> tuple[Http2ClientConnection, list[Http2Stream], bytes]:
    """Three streams, and all that a server answers to them, which has not been heard yet."""
    connection, wire, server = greeted()
    streams = [connection.open(FIELDS, Timeouts()) for _ in BODIES]
    await asyncio.sleep(0)
    server.receive_data(b"".join(wire.written))
    for stream, body in zip(streams, BODIES, strict=True):
        server.send_headers(stream.number, [(":status", "200"), ("x-number", str(stream.number))])
        for start in range(0, len(body), 7000):
            server.send_data(stream.number, body[start : start + 7000], pad_length=3)
    server.ping(b"8 bytes!")
    for stream in streams:
        server.send_headers(stream.number, [("x-last", "yes")], end_stream=True)
    return connection, streams, server.data_to_send()


@each("seed", seeds(20))
async def test_what_a_peer_says_may_be_cut_anywhere(seed: int) -> None:
    connection, streams, said = await conversation()
    chance = random.Random(seed)
    while said:
        cut = chance.choice((1, 2, 9, 100, 20_000))
        connection.data_received(said[:cut])
        said = said[cut:]
    for stream, body in zip(streams, BODIES, strict=True):
        assert await stream.status() == 200
        assert stream.headers == [("x-number", str(stream.number))]
        assert (await stream.chunk(), await stream.chunk()) == (body, b"")
        assert stream.trailers == [("x-last", "yes")]
    connection.abort()


async def test_spoilt_bytes_end_in_a_response_or_a_pipe_error() -> None:
    """Ours: whatever a peer sends, nothing else is raised, and what it sent in order is not lost."""
    failures, outcomes = Failures(), list[bool]()
    for seed in seeds(100):
        connection, streams, said = await conversation()
        with failures.of(f"seed {seed}"):
            connection.data_received(spoilt(said, random.Random(seed)))
            connection.connection_lost(None)
            outcomes += [await is_answered(stream) for stream in streams]
    failures.check()
    assert 0.05 < outcomes.count(True) / len(outcomes) < 0.95, "all spoilt, or none"


def spoilt(said: bytes, chance: random.Random) -> bytes:
    changed = bytearray(said)
    for _ in range(chance.randint(1, 8)):
        changed[chance.randrange(200)] = chance.randrange(256)
    return bytes(changed)


async def is_answered(stream: Http2Stream) -> bool:
    """Whether a whole response comes, and no PipeError."""
    try:
        assert 100 <= await stream.status() <= 999
        while await stream.chunk():
            pass
    except PipeError:
        return False
    finally:
        stream.close()
    return True


async def test_a_peer_that_speaks_before_its_tunnel_is_announced_is_heard() -> None:
    connection, wire = Http2ClientConnection("x:80", TERMS, lambda: None, lambda _: None), Wire()
    connection.data_received(frame(0x4, 0, 0))
    assert not connection.is_settled
    connection.connection_made(wire)
    assert connection.is_settled
    connection.abort()


async def test_a_peer_that_goes_before_its_tunnel_is_announced_is_not_used() -> None:
    connection, wire = Http2ClientConnection("x:80", TERMS, lambda: None, lambda _: None), Wire()
    connection.connection_lost(None)
    connection.connection_made(wire)
    assert (connection.is_alive, connection.is_made, wire.is_closed) == (False, False, True)


async def test_what_is_said_in_one_turn_of_the_loop_is_one_write() -> None:
    connection, wire, server = greeted()
    before = len(wire.written)
    for _ in range(3):
        stream = connection.open(FIELDS, Timeouts())
        await stream.send(b"message")
        stream.end()
    await asyncio.sleep(0)
    assert len(wire.written) == before + 1
    events = server.receive_data(b"".join(wire.written))
    assert sum(isinstance(event, StreamEnded) for event in events) == 3
    connection.abort()


async def test_a_peer_gets_its_window_back_only_when_the_data_is_taken() -> None:
    connection, wire, server = greeted()
    stream = connection.open(FIELDS, Timeouts())
    await asyncio.sleep(0)
    server.receive_data(b"".join(wire.written))
    wire.written.clear()
    server.send_headers(stream.number, [(":status", "200")])
    for _ in range(6):
        server.send_data(stream.number, bytes(15_000))
    connection.data_received(server.data_to_send())
    await asyncio.sleep(0)
    assert wire.written == []
    assert len(await stream.chunk()) == 90_000
    await asyncio.sleep(0)
    granted = [event for event in server.receive_data(b"".join(wire.written)) if isinstance(event, WindowUpdated)]
    assert {(event.stream_id, event.delta) for event in granted} == {(0, 90_000), (stream.number, 90_000)}
    connection.abort()


async def test_a_peer_that_asks_and_does_not_read_the_answers_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "MAX_UNREAD", 50_000)
    connection, wire, _ = greeted()
    stream = connection.open(FIELDS, Timeouts())
    connection.pause_writing()
    before = wire.get_write_buffer_size()
    while not wire.is_closed:
        connection.data_received(frame(0x6, 0, 0, bytes(8)) * 100)
    assert wire.get_write_buffer_size() - before < 52_000
    with pytest.raises(PipeError, match="keeps sending but does not read") as caught:
        await stream.status()
    assert caught.value.reason == "timeout"


async def test_a_goodbye_that_nobody_takes_is_cut_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(h2_connection, "CLOSE_TIMEOUT", 0.01)
    connection, wire, _ = greeted()
    connection.data_received(frame(0x7, 0, 0, bytes(8)))
    await until(lambda: wire.is_closed)
    assert wire.written[-1][3] == 0x7
    connection.data_received(b"whatever comes now")
    await until(lambda: wire.is_aborted)
    assert (connection.room, connection.failure) == (0, None)


async def test_what_waits_for_the_transport_goes_out_when_it_takes_more() -> None:
    connection, wire, _ = greeted()
    stream = connection.open(FIELDS, Timeouts())
    await asyncio.sleep(0)
    connection.pause_writing()
    before = len(wire.written)
    sending = asyncio.create_task(stream.send(b"message"))
    await asyncio.sleep(0)
    stream.end()
    await asyncio.sleep(0)
    assert (len(wire.written), sending.done()) == (before, False)
    connection.resume_writing()
    await sending
    assert b"message" in wire.written[-1]
    connection.abort()


async def test_a_message_that_would_pile_up_is_refused() -> None:
    connection, _, _ = greeted()
    stream = connection.open(FIELDS, Timeouts())
    connection.pause_writing()
    sending = asyncio.create_task(stream.send(b"first"))
    await until(lambda: stream.queued == 5)
    with pytest.raises(PipeError, match="not read the data sent before") as caught:
        await stream.send(bytes(64 * 1024 * 1024))
    assert (caught.value.phase, caught.value.reason) == ("send", "busy")
    stream.close()
    with pytest.raises(PipeError):
        await sending
    connection.abort()
