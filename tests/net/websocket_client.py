"""WebSockets in raw bytes: an application that accepts them, and the client's frames."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from tests.net.served import WAIT, Client, Served
from tieline.net.server.cycle import RequestCycle
from tieline.net.server.websocket import WebSocket

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10
CONTINUED = 0
MIB = 1024 * 1024

HEAD = b"GET /ws HTTP/1.1\r\nHost: here\r\nConnection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\n"
HANDSHAKE = HEAD + b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
"""The example of RFC 6455."""
ACCEPTED = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="


def frame(payload: bytes, opcode: int = TEXT, *, last: bool = True, mask: bytes = b"\x37\xfa\x21\x3d") -> bytes:
    """A frame as a client sends it, masked unless the mask is empty."""
    size = len(payload)
    if size < 126:
        length = size.to_bytes(1, "big")
    elif size < 65536:
        length = b"\x7e" + size.to_bytes(2, "big")
    else:
        length = b"\x7f" + size.to_bytes(8, "big")
    if mask:
        length = bytes((length[0] | 0x80,)) + length[1:]
        repeated = mask * (size // 4 + 1)
        payload = (int.from_bytes(payload, "big") ^ int.from_bytes(repeated[:size], "big")).to_bytes(size, "big")
    return bytes((opcode | (0x80 if last else 0),)) + length + mask + payload


def closing(code: int, reason: bytes = b"") -> bytes:
    return frame(code.to_bytes(2, "big") + reason, CLOSE)


class Frame(NamedTuple):
    """A frame that the server sent."""

    opcode: int
    payload: bytes

    @property
    def code(self) -> int:
        assert self.opcode == CLOSE
        return int.from_bytes(self.payload[:2], "big")

    @property
    def reason(self) -> str:
        return self.payload[2:].decode()


class Peer:
    """A client after its handshake."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def say(self, data: bytes) -> None:
        await self.client.say(data)

    async def frame(self) -> Frame:
        reader = self.client.reader
        async with asyncio.timeout(WAIT):
            first, size = await reader.readexactly(2)
            assert first & 0x80, "the server sends no fragments"
            if size >= 126:
                size = int.from_bytes(await reader.readexactly(2 if size == 126 else 8), "big")
            return Frame(first & 0x7F, await reader.readexactly(size))


async def opened(server: Served, said: bytes = b"") -> Peer:
    """Connect and complete the handshake."""
    client = await server.connect(HANDSHAKE + said)
    status, _ = await client.head()
    assert status == 101
    return Peer(client)


class Accepting:
    """An application that accepts every WebSocket and serves it with `talk`."""

    def __init__(
        self, talk: Callable[[WebSocket], Awaitable[None]], *, max_size: int = MIB, max_held: int = 64 * MIB
    ) -> None:
        self._talk = talk
        self._max_size = max_size
        self._max_held = max_held
        self.held = 0

    async def __call__(self, scope: object, receive: object, send: object) -> None:
        raise AssertionError("the server passes cycles")

    async def serve(self, cycle: RequestCycle) -> None:
        if not cycle.is_upgrade:
            await cycle.respond(200, b"text/plain", (), b"plain")
            return
        refusal = cycle.upgrade_refusal()
        if refusal is not None:
            await cycle.respond(refusal[0], b"text/plain", (), refusal[1].encode())
            return
        await self._talk(await cycle.accept([(b"x-more", b"yes")], self._max_size, self.hold))

    def hold(self, change: int) -> bool:
        self.held += change
        return self.held <= self._max_held


async def echo_messages(websocket: WebSocket) -> None:
    while (message := await websocket.receive()) is not None:
        await websocket.send(message)
