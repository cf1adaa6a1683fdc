"""WebSockets: handshake, frames however they come, and how both sides close."""

import asyncio
import gc
import logging
import subprocess
import sys
import weakref
from typing import Any

import pytest
from uvicorn.server import ServerState
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosedOK

from tests.each import each
from tests.net.served import WAIT, Wire, config, served
from tests.net.upstream import until
from tests.net.websocket_client import (
    ACCEPTED,
    BINARY,
    CLOSE,
    CONTINUED,
    HANDSHAKE,
    HEAD,
    MIB,
    PING,
    PONG,
    TEXT,
    Accepting,
    Frame,
    closing,
    echo_messages,
    frame,
    opened,
)
from tieline.net.server.protocol import HttpServerProtocol
from tieline.net.server.websocket import WebSocket

GET = b"GET / HTTP/1.1\r\nHost: here\r\n\r\n"


# ── The handshake ────────────────────────────────────────────────────────────────────────────────


async def test_a_handshake_is_answered_and_every_extension_declined() -> None:
    offers = b"Sec-WebSocket-Extensions: permessage-deflate\r\nSec-WebSocket-Protocol: chat\r\n\r\n"
    async with served(Accepting(echo_messages)) as server:
        client = await server.connect(HANDSHAKE[:-2] + offers)
        assert await client.head() == (
            101,
            {"x-more": "yes", "upgrade": "websocket", "connection": "Upgrade", "sec-websocket-accept": ACCEPTED},
        )


@each(
    ("headers", "status"),
    [
        (b"Sec-WebSocket-Version: 8\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n", 426),
        (b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n", 426),
        (b"Sec-WebSocket-Version: 13\r\n", 400),
        (b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: c2hvcnQ=\r\n", 400),
        (b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: no base64 at all !!!!!!!\r\n", 400),
        (b"Sec-WebSocket-Version: 13\r\n" + 2 * b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n", 400),
    ],
)
async def test_an_invalid_handshake_is_refused_and_the_connection_stays(headers: bytes, status: int) -> None:
    async with served(Accepting(echo_messages)) as server:
        client = await server.connect(HEAD + headers + b"\r\n" + GET)
        assert (await client.response()).status == status
        assert (await client.response()).body == b"plain"


@each(
    "request_",
    [
        HANDSHAKE.replace(b"WebSocket\r\n", b"h2c\r\n", 1),
        HANDSHAKE.replace(b"GET", b"POST"),
        HANDSHAKE[:-2] + b"Content-Length: 5\r\n\r\nhello",
        HANDSHAKE[:-2] + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ],
)
async def test_other_upgrades_are_plain_requests(request_: bytes) -> None:
    async with served(Accepting(echo_messages)) as server:
        client = await server.connect(request_ + GET)
        assert [(await client.response()).body for _ in range(2)] == [b"plain", b"plain"]


async def test_a_handshake_may_follow_other_requests() -> None:
    async with served(Accepting(echo_messages)) as server:
        client = await server.connect(GET + GET + HANDSHAKE + frame(b"hello"))
        assert [(await client.response()).body for _ in range(2)] == [b"plain", b"plain"]
        assert (await client.head())[0] == 101
        async with asyncio.timeout(WAIT):
            assert await client.reader.readexactly(7) == b"\x81\x05hello"


async def test_bytes_that_wait_for_the_handshake_have_a_limit() -> None:
    opened_gate = asyncio.Event()

    class Hesitant(Accepting):
        async def serve(self, cycle: Any) -> None:
            await opened_gate.wait()
            await super().serve(cycle)

    async with served(Hesitant(echo_messages, max_size=16 * MIB)) as server:
        client = await server.connect(HANDSHAKE)
        saying = asyncio.create_task(client.say(frame(16 * MIB * b"x")))
        await until(lambda: bool(server.state.connections) and server.connection._is_read_paused)
        assert len(server.connection._held) < MIB
        opened_gate.set()
        await client.head()
        async with asyncio.timeout(WAIT):
            assert len(await client.reader.readexactly(16 * MIB + 10)) == 16 * MIB + 10
        await saying


def test_a_gateway_without_websockets_does_not_load_their_package() -> None:
    program = "import sys, tieline.net.server.protocol, tieline.app.serve; sys.exit('websockets' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0  # noqa: S603 - as written


# ── Messages ─────────────────────────────────────────────────────────────────────────────────────


async def test_a_common_client_is_understood() -> None:
    async with served(Accepting(echo_messages)) as server, asyncio.timeout(WAIT):
        async with connect(f"ws://127.0.0.1:{server.port}/ws", proxy=None) as client:
            for text in ("", "hello", "ä€😀", *(size * "x" for size in (125, 126, 1000, 65_535, 65_536, 100_000))):
                await client.send(text)
                assert await client.recv() == text
            await client.send(["in ", "three ", "fragments"])
            assert await client.recv() == "in three fragments"
            await (await client.ping(b"are you there?"))
            await client.close(4001, "enough")
        assert client.close_code == 4001


async def answered(pieces: list[bytes], count: int) -> bytes:
    """What the server writes after its handshake, for bytes that come in these pieces."""
    wire, state, seen = Wire(), ServerState(), []

    async def talk(websocket: WebSocket) -> None:
        while (message := await websocket.receive()) is not None:
            seen.append(message)
            await websocket.send(message)

    connection = HttpServerProtocol(config(Accepting(talk), 75), state, {})
    connection.connection_made(wire)
    for piece in pieces:
        connection.data_received(piece)
    await until(lambda: len(seen) == count)
    connection.connection_lost(None)
    await until(lambda: not state.tasks)
    return wire.written.partition(b"\r\n\r\n")[2]


async def test_every_cut_of_the_bytes_gives_the_same_answer() -> None:
    said = (
        HANDSHAKE
        + frame("ä€".encode(), last=False)
        + frame(b"", PONG)
        + frame(b"", CONTINUED, last=False)
        + frame("😀".encode(), CONTINUED)
        + frame(b"second")
    )
    expected = b"\x81\x09" + "ä€😀".encode() + b"\x81\x06second"
    assert await answered([said], 2) == expected
    for cut in range(1, len(said)):
        assert await answered([said[:cut], said[cut:]], 2) == expected
    assert await answered([bytes([byte]) for byte in said], 2) == expected


async def test_a_ping_between_fragments_is_answered_at_once() -> None:
    async with served(Accepting(echo_messages)) as server:
        peer = await opened(server, frame(b"one ", last=False) + frame(b"still there?", PING))
        assert await peer.frame() == Frame(PONG, b"still there?")
        await peer.say(frame(b"message", CONTINUED))
        assert await peer.frame() == Frame(TEXT, b"one message")


async def test_a_character_may_be_split_between_fragments() -> None:
    async with served(Accepting(echo_messages)) as server:
        peer = await opened(server, frame(b"\xe2\x82", last=False) + frame(b"\xac", CONTINUED))
        assert await peer.frame() == Frame(TEXT, "€".encode())


@each(
    ("said", "code"),
    {
        "unmasked": (frame(b"hello", mask=b""), 1002),
        "reserved bit": (frame(b"hello", TEXT | 0x40), 1002),
        "unknown opcode": (frame(b"hello", 3), 1002),
        "continuation of nothing": (frame(b"hello", CONTINUED), 1002),
        "message inside a message": (frame(b"a", last=False) + frame(b"b"), 1002),
        "long ping": (frame(126 * b"x", PING), 1002),
        "fragmented ping": (frame(b"x", PING, last=False), 1002),
        "invalid close code": (closing(1005), 1002),
        "short close": (frame(b"x", CLOSE), 1002),
        "binary": (frame(b"hello", BINARY), 1003),
        "binary fragment": (frame(b"hello", BINARY, last=False), 1003),
        "invalid UTF-8": (frame(b"hello\xff"), 1007),
        "half a character": (frame(b"\xe2\x82"), 1007),
        "surrogate in fragments": (frame(b"\xed", last=False) + frame(b"\xa0\x80", CONTINUED), 1007),
        "too large": (frame(1001 * b"x")[:8], 1009),
        "too large in fragments": (frame(600 * b"x", last=False) + frame(600 * b"x", CONTINUED), 1009),
    }.values(),
)
async def test_what_is_not_allowed_closes_the_connection_with_its_code(said: bytes, code: int) -> None:
    heard: list[bytes | None] = []

    async def talk(websocket: WebSocket) -> None:
        heard.append(await websocket.receive())
        assert not websocket.is_open
        await websocket.send(b"to nobody")
        heard.append(await websocket.receive())

    async with served(Accepting(talk, max_size=1000)) as server:
        peer = await opened(server, said)
        assert (await peer.frame()).code == code
        assert await peer.client.rest() == b""
        await until(lambda: not server.state.tasks)
    assert heard == [None, None]


async def test_a_message_as_large_as_the_limit_is_taken() -> None:
    async with served(Accepting(echo_messages, max_size=1000)) as server:
        peer = await opened(server, frame(1000 * b"x"))
        assert await peer.frame() == Frame(TEXT, 1000 * b"x")


async def test_several_messages_are_sent_in_order() -> None:
    async def talk(websocket: WebSocket) -> None:
        await websocket.send()
        await websocket.send(b"one", b"", b"three")

    async with served(Accepting(talk)) as server:
        peer = await opened(server)
        assert [await peer.frame() for _ in range(3)] == [Frame(TEXT, b"one"), Frame(TEXT, b""), Frame(TEXT, b"three")]


async def test_the_size_of_a_message_is_written_in_as_few_bytes_as_possible() -> None:
    sizes = {125: b"\x7d", 126: b"\x7e\x00\x7e", 65_535: b"\x7e\xff\xff", 65_536: b"\x7f\0\0\0\0\0\1\0\0"}
    for size, header in sizes.items():
        assert await answered([HANDSHAKE, frame(size * b"x")], 1) == b"\x81" + header + size * b"x"


async def test_only_one_task_may_wait_for_a_message() -> None:
    raised: list[str] = []

    async def talk(websocket: WebSocket) -> None:
        first = asyncio.create_task(websocket.receive())
        await asyncio.sleep(0)
        try:
            await websocket.receive()
        except RuntimeError as error:
            raised.append(str(error))
        await websocket.send(await first or b"")

    async with served(Accepting(talk)) as server:
        peer = await opened(server, b"")
        await until(lambda: bool(raised))
        await peer.say(frame(b"for the first"))
        assert await peer.frame() == Frame(TEXT, b"for the first")
    assert raised == ["another task waits in `receive`"]


async def test_a_cancelled_wait_loses_no_message() -> None:
    async def talk(websocket: WebSocket) -> None:
        waiting = asyncio.create_task(websocket.receive())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        await websocket.send(b"ready")
        await echo_messages(websocket)

    async with served(Accepting(talk)) as server:
        peer = await opened(server)
        assert await peer.frame() == Frame(TEXT, b"ready")
        await peer.say(frame(b"hello"))
        assert await peer.frame() == Frame(TEXT, b"hello")


# ── Closing ──────────────────────────────────────────────────────────────────────────────────────


@each("said", [closing(1000, b"bye"), frame(b"", CLOSE), closing(4321)])
async def test_a_close_of_the_client_is_echoed(said: bytes) -> None:
    heard: list[bytes | None] = []

    async def talk(websocket: WebSocket) -> None:
        heard.append(await websocket.receive())

    async with served(Accepting(talk)) as server:
        peer = await opened(server, said + frame(b"nothing counts after it"))
        answer = await peer.frame()
        assert frame(answer.payload, answer.opcode) == said
        assert await peer.client.rest() == b""
        await until(lambda: not server.state.connections)
    assert heard == [None]


async def test_a_close_of_the_application_waits_for_the_client() -> None:
    async def talk(websocket: WebSocket) -> None:
        await websocket.close(4000, 100 * "ä")
        await websocket.close(4002)
        assert await websocket.receive() is None

    async with served(Accepting(talk)) as server:
        peer = await opened(server, frame(b"not read any more"))
        answer = await peer.frame()
        assert (answer.code, answer.reason) == (4000, 61 * "ä")
        await until(lambda: not server.state.tasks)
        assert len(server.state.connections) == 1
        await peer.say(frame(b"crossed it") + frame(b"", PING) + closing(4000))
        assert await peer.frame() == Frame(PONG, b"")
        assert await peer.client.rest() == b""
        await until(lambda: not server.state.connections)


async def test_an_application_that_returns_closes_in_order() -> None:
    async def talk(websocket: WebSocket) -> None:
        await websocket.send(b"bye")

    async with served(Accepting(talk)) as server, asyncio.timeout(WAIT):
        client = await connect(f"ws://127.0.0.1:{server.port}/ws", proxy=None)
        assert await client.recv() == "bye"
        with pytest.raises(ConnectionClosedOK):
            await client.recv()
        assert (client.close_code, client.close_reason) == (1000, "")


async def test_an_application_that_fails_says_so_without_details(caplog: pytest.LogCaptureFixture) -> None:
    async def talk(websocket: WebSocket) -> None:
        raise ValueError("secret")

    with caplog.at_level(logging.ERROR, "tieline.serving"):
        async with served(Accepting(talk)) as server:
            peer = await opened(server)
            answer = await peer.frame()
            assert (answer.code, answer.reason) == (1011, "Something went wrong inside the gateway.")
    assert "GET /ws failed" in caplog.text


@each("politely", [True, False])
async def test_a_client_that_leaves_without_a_word_is_noticed(politely: bool) -> None:
    heard: list[bytes | None] = []
    app = Accepting(echo_messages)

    async def talk(websocket: WebSocket) -> None:
        heard.append(await websocket.receive())

    app._talk = talk
    async with served(app) as server:
        peer = await opened(server, frame(1000 * b"x")[:500])
        await until(lambda: app.held == 500)
        if politely:
            peer.client.writer.close()
        else:
            peer.client.leave()
        await until(lambda: not server.state.connections and not server.state.tasks)
    assert heard == [None]
    assert app.held == 0


async def test_a_client_that_left_before_it_was_accepted_is_noticed() -> None:
    gate, entered, heard = asyncio.Event(), asyncio.Event(), []

    class Hesitant(Accepting):
        async def serve(self, cycle: Any) -> None:
            entered.set()
            await gate.wait()
            await super().serve(cycle)

    async def talk(websocket: WebSocket) -> None:
        await websocket.send(b"to nobody")
        heard.append((websocket.is_open, await websocket.receive()))

    async with served(Hesitant(talk)) as server:
        client = await server.connect(HANDSHAKE)
        await entered.wait()
        client.leave()
        await until(lambda: not server.state.connections)
        gate.set()
        await until(lambda: not server.state.tasks)
    assert heard == [(False, None)]


async def test_nothing_of_a_closed_websocket_is_left() -> None:
    known: list[weakref.ref[Any]] = []

    async def talk(websocket: WebSocket) -> None:
        known.append(weakref.ref(websocket._protocol))
        await echo_messages(websocket)

    async with served(Accepting(talk)) as server:
        for said in (closing(1000), frame(b"\xff"), frame(1000 * b"x")[:500]):
            peer = await opened(server, frame(b"hello") + said)
            await peer.frame()
            peer.client.leave()
        await until(lambda: not server.state.connections and not server.state.tasks)
        gc.collect()
        assert [reference() for reference in known] == [None, None, None]
