"""WebSockets under pressure: full buffers, floods, silent and slow clients, and the end of the server."""

import asyncio
from typing import cast

import pytest
import uvicorn
from uvicorn.server import ServerState

from tests.each import each
from tests.net.served import WAIT, Wire, config, served
from tests.net.test_serving_flow import connect, running
from tests.net.upstream import until
from tests.net.websocket_client import (
    CLOSE,
    CONTINUED,
    HANDSHAKE,
    MIB,
    PING,
    PONG,
    TEXT,
    Accepting,
    Frame,
    Peer,
    closing,
    echo_messages,
    frame,
    opened,
)
from tieline.net.server import connection, websocket
from tieline.net.server.protocol import HttpServerProtocol
from tieline.net.server.websocket import WebSocket

BIG = 16 * MIB
"""More than the sockets between two ends of one machine hold."""


class Gate:
    """An application that takes messages once it is opened."""

    def __init__(self) -> None:
        self.opened = asyncio.Event()
        self.entered = asyncio.Event()
        self.heard: list[bytes | None] = []

    async def talk(self, websocket: WebSocket) -> None:
        self.entered.set()
        await self.opened.wait()
        while self.heard[-1:] != [None]:
            self.heard.append(await websocket.receive())


def pause(peer: Peer) -> None:
    """Let the client read nothing more."""
    peer.client.writer.transport.pause_reading()  # type: ignore[attr-defined] # a transport of a stream reads as well


def resume(peer: Peer) -> None:
    peer.client.writer.transport.resume_reading()  # type: ignore[attr-defined] # as above


# ── Messages that wait for the application ───────────────────────────────────────────────────────


@each(("size", "count"), [(10, 20_000), (100_000, 200), (5 * MIB, 3)])
async def test_messages_that_are_not_taken_wait_outside(size: int, count: int) -> None:
    gate = Gate()
    app = Accepting(gate.talk, max_size=BIG)
    async with served(app) as server:
        peer = await opened(server)
        saying = asyncio.create_task(peer.say(b"".join(frame(b"%0*d" % (size, at)) for at in range(count))))
        await until(lambda: server.connection._is_read_paused)
        assert app.held <= 2 * max(size, 128 * 1024)
        gate.opened.set()
        await saying
        await until(lambda: len(gate.heard) == count)
    assert [int((message or b"")[-10:]) for message in gate.heard[:count]] == [*range(count)]
    assert app.held == 0


async def test_tiny_fragments_take_no_more_memory_than_their_bytes() -> None:
    gate = Gate()
    app = Accepting(gate.talk)
    async with served(app) as server:
        peer = await opened(server, frame(b"x", last=False))
        await peer.say(50_000 * frame(b"x", CONTINUED, last=False))
        await until(lambda: app.held == 50_001)
        gate.opened.set()
        await peer.say(frame(b"", CONTINUED))
        await until(lambda: len(gate.heard) == 1)
    assert gate.heard[0] == 50_001 * b"x"


async def test_a_message_for_which_there_is_no_memory_closes_the_connection() -> None:
    app = Accepting(echo_messages, max_size=BIG, max_held=MIB)
    async with served(app) as server:
        peer = await opened(server)
        saying = asyncio.create_task(peer.say(frame(BIG * b"x")))
        assert (await peer.frame()).code == 1013
        peer.client.leave()
        await asyncio.wait([saying])
        saying.exception()  # whether it has one depends on the event loop
    assert app.held == 0


async def test_a_flood_of_frames_does_not_hold_the_event_loop() -> None:
    wire, state = Wire(), ServerState()
    server = HttpServerProtocol(config(Accepting(echo_messages), 75), state, {})
    server.connection_made(wire)
    server.data_received(HANDSHAKE)
    await until(lambda: b"101" in wire.written)
    wire.written = b""
    server.data_received(10_000 * frame(b"", PING))
    assert 0 < len(wire.written) < 2 * 2000
    await until(lambda: len(wire.written) == 2 * 10_000)
    assert wire.written == 10_000 * b"\x8a\x00"
    server.connection_lost(None)
    await until(lambda: not state.tasks)


# ── Clients that read slowly ─────────────────────────────────────────────────────────────────────


async def test_a_client_that_reads_slowly_holds_up_the_application_and_little_is_kept() -> None:
    sent = 0

    async def talk(websocket: WebSocket) -> None:
        nonlocal sent
        for _ in range(BIG // 65536):
            await websocket.send(65536 * b"x")
            sent += 65536

    async with served(Accepting(talk)) as server:
        peer = await opened(server)
        pause(peer)
        await until(lambda: server.connection.is_write_paused)
        assert server.connection.transport.get_write_buffer_size() < MIB
        assert sent < BIG
        resume(peer)
        for _ in range(BIG // 65536):
            assert await peer.frame() == Frame(TEXT, 65536 * b"x")
        assert (await peer.frame()).code == 1000


async def test_a_client_that_reads_nothing_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(websocket, "STALL_TIMEOUT", 0.1)
    monkeypatch.setattr(websocket, "PING_INTERVAL", 0.05)  # how often it is checked
    heard: list[bytes | None] = []

    async def talk(websocket: WebSocket) -> None:
        await websocket.send(BIG * b"x")
        await websocket.send(b"waits for room")
        heard.append(await websocket.receive())

    async with served(Accepting(talk), idle=1) as server:
        peer = await opened(server)
        pause(peer)
        await until(lambda: not server.state.connections and not server.state.tasks)
    assert heard == [None]


async def test_a_client_that_sends_pings_and_reads_nothing_is_not_answered_for_ever() -> None:
    async with served(Accepting(echo_messages)) as server:
        peer = await opened(server)
        pause(peer)
        pings = 1000 * frame(125 * b"x", PING)

        async def flood() -> None:
            for _ in range(BIG // len(pings)):
                await peer.say(pings)

        flooding = asyncio.create_task(flood())
        await until(lambda: server.connection.is_write_paused and server.connection._is_read_paused)
        assert server.connection.transport.get_write_buffer_size() < MIB
        assert not flooding.done()
        resume(peer)
        for _ in range(1000 * (BIG // len(pings))):
            assert await peer.frame() == Frame(PONG, 125 * b"x")
        await flooding


async def test_an_application_takes_messages_while_the_client_reads_nothing() -> None:
    heard: list[bytes | None] = []

    async def talk(websocket: WebSocket) -> None:
        await websocket.send(BIG * b"x")
        heard.append(await websocket.receive())

    async with served(Accepting(talk)) as server:
        peer = await opened(server)
        pause(peer)
        await until(lambda: server.connection.is_write_paused)
        await peer.say(frame(b"stop"))
        await until(lambda: bool(heard))
    assert heard == [b"stop"]


# ── Clients that are silent ──────────────────────────────────────────────────────────────────────


async def test_a_silent_client_is_sent_pings_and_stays_if_it_replies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(websocket, "PING_INTERVAL", 0.02)
    async with served(Accepting(echo_messages)) as server:
        peer = await opened(server)
        for _ in range(3):
            assert await peer.frame() == Frame(PING, b"")
            await peer.say(frame(b"", PONG))
        monkeypatch.setattr(websocket, "PING_INTERVAL", 30.0)
        await peer.say(frame(b"hello"))
        while (said := await peer.frame()).opcode == PING:
            pass
        assert said == Frame(TEXT, b"hello")


async def test_a_client_that_does_not_reply_to_a_ping_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(websocket, "PING_INTERVAL", 0.02)
    monkeypatch.setattr(websocket, "STALL_TIMEOUT", 0.05)
    monkeypatch.setattr(connection, "LINGER_TIMEOUT", 0.05)
    async with served(Accepting(echo_messages)) as server:
        peer = await opened(server)
        assert await peer.frame() == Frame(PING, b"")
        assert (await peer.frame()).code == 1011
        await until(lambda: not server.state.connections and not server.state.tasks)


async def test_a_connection_without_messages_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(websocket, "IDLE_TIMEOUT", 0.1)
    async with served(Accepting(echo_messages)) as server:
        peer = await opened(server, frame(b"hello"))
        assert await peer.frame() == Frame(TEXT, b"hello")
        await peer.say(frame(b"", PING))
        assert await peer.frame() == Frame(PONG, b"")
        assert (await peer.frame()).code == 1001


async def test_a_client_that_waits_for_the_application_is_not_taken_for_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(websocket, "MAX_MESSAGES", 1)
    gate = Gate()
    async with served(Accepting(gate.talk)) as server:
        peer = await opened(server, frame(b"one") + frame(b"two"))
        await until(lambda: server.connection._is_read_paused)
        waiting = server.connection._websocket
        assert waiting is not None
        waiting._heard_at -= 1000.0  # seconds that have passed
        waiting._is_pinged = True
        server.connection._check_timeout()
        gate.opened.set()
        await until(lambda: not server.connection._is_read_paused)
        server.connection._check_timeout()
        await peer.say(closing(1000))
        assert (await peer.frame()).code == 1000
    assert gate.heard[0] == b"one"


async def test_a_close_that_is_not_answered_ends_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(websocket, "CLOSE_TIMEOUT", 0.05)
    monkeypatch.setattr(connection, "LINGER_TIMEOUT", 0.05)

    async def talk(websocket: WebSocket) -> None:
        await websocket.close(1000)

    async with served(Accepting(talk)) as server:
        peer = await opened(server)
        assert (await peer.frame()).opcode == CLOSE
        await until(lambda: not server.state.connections)


# ── The end of the server ────────────────────────────────────────────────────────────────────────


async def peer_of(port: int, said: bytes = b"") -> Peer:
    client = await connect(port, HANDSHAKE + said)
    assert (await client.head())[0] == 101
    return Peer(client)


async def stop(server: uvicorn.Server, task: asyncio.Task[None], *peers: Peer) -> None:
    async with asyncio.timeout(WAIT):
        await task
    assert not server.server_state.connections
    for peer in peers:
        peer.client.leave()


async def test_a_server_that_ends_closes_websockets_as_soon_as_their_answers_are_sent() -> None:
    gate, was_open = asyncio.Event(), []

    async def talk(websocket: WebSocket) -> None:
        message = await websocket.receive()
        if message == b"work":
            assert await websocket.receive() is None
            was_open.append(websocket.is_open)
            await gate.wait()
            await websocket.send(b"result")

    async with running(Accepting(talk)) as (server, port, task):
        resting, busy = await peer_of(port), await peer_of(port, frame(b"work"))
        await until(lambda: len(server.server_state.tasks) == 2)
        await busy.say(frame(b"", PING))
        assert await busy.frame() == Frame(PONG, b"")
        server.should_exit = True
        answer = await resting.frame()
        assert (answer.code, answer.reason) == (1001, "The gateway is being stopped.")
        await resting.say(closing(1001))
        await busy.say(frame(b"too late") + frame(b"\xff"))
        gate.set()
        assert await busy.frame() == Frame(TEXT, b"result")
        assert (await busy.frame()).code == 1001
        await busy.say(closing(1001))
        await stop(server, task, resting, busy)
    assert was_open == [True]


async def test_a_server_that_cannot_wait_closes_websockets_too() -> None:
    async def talk(websocket: WebSocket) -> None:
        await asyncio.Event().wait()

    async with running(Accepting(talk)) as (server, port, task):
        server.config.timeout_graceful_shutdown = 1
        peer = await peer_of(port)
        server.should_exit = True
        assert (await peer.frame()).code == 1001
        async with asyncio.timeout(WAIT):
            await task
        await peer.say(closing(1001))
        assert await peer.client.rest() == b""
        peer.client.leave()


async def test_other_connections_are_served_as_ever() -> None:
    async with served(Accepting(echo_messages)) as server:
        peer = await opened(server)
        client = await server.connect(2 * b"GET / HTTP/1.1\r\nHost: here\r\n\r\n")
        assert [(await client.response()).body for _ in range(2)] == [b"plain", b"plain"]
        await peer.say(frame(b"hello"))
        assert await peer.frame() == Frame(TEXT, b"hello")
        assert server.state.total_requests == 3
        connections = cast("set[HttpServerProtocol]", server.state.connections)
        assert sorted(one._websocket is not None for one in connections) == [False, True]
