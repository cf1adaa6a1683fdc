"""Applications on our server protocol, and a client that speaks to them in raw bytes."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import uvicorn
from uvicorn.server import ServerState

from tieline.net.server.protocol import HttpServerProtocol

WAIT = 60.0
"""No wait in these tests takes longer, not even on a slow machine."""

App = Callable[[Any, Any, Any], Awaitable[None]]


async def whole_body(receive: Any) -> bytes | None:
    """All of a request's body; None if its client left before that."""
    body = b""
    while True:
        message: dict[str, Any] = await receive()
        if message["type"] == "http.disconnect":
            return None
        piece: bytes = message["body"]
        body += piece
        if not message["more_body"]:
            return body


async def respond(send: Any, body: bytes, status: int = 200, *headers: tuple[bytes, bytes]) -> None:
    await send({"type": "http.response.start", "status": status, "headers": list(headers)})
    await send({"type": "http.response.body", "body": body})


async def echo(scope: Any, receive: Any, send: Any) -> None:
    """Tell what came."""
    body = await whole_body(receive)
    if body is None:
        return
    heard = {
        "line": [scope["method"], scope["path"], scope["raw_path"].decode(), scope["query_string"].decode()],
        "version": scope["http_version"],
        "headers": [[name.decode(), value.decode("latin-1")] for name, value in scope["headers"]],
        "body": body.decode("latin-1"),
    }
    await respond(send, json.dumps(heard).encode())


@dataclass
class Response:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def heard(self) -> dict[str, Any]:
        return cast("dict[str, Any]", json.loads(self.body))


@dataclass
class Client:
    """One connection to the server under test."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def say(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def line(self) -> bytes:
        async with asyncio.timeout(WAIT):
            return await self.reader.readuntil(b"\r\n")

    async def head(self) -> tuple[int, dict[str, str]]:
        async with asyncio.timeout(WAIT):
            first, *lines = (await self.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")[:-2]
        return int(first.split(" ")[1]), dict(line.split(": ", 1) for line in lines)

    async def response(self, *, to_head: bool = False) -> Response:
        status, headers = await self.head()
        async with asyncio.timeout(WAIT):
            if to_head or status in {204, 304}:
                body = b""
            elif "content-length" in headers:
                body = await self.reader.readexactly(int(headers["content-length"]))
            elif "transfer-encoding" in headers:
                body = await self._chunks()
            else:
                body = await self.reader.read()
        return Response(status, headers, body)

    async def _chunks(self) -> bytes:
        body = b""
        while size := int(await self.reader.readuntil(b"\r\n"), 16):
            body += await self.reader.readexactly(size)
            assert await self.reader.readexactly(2) == b"\r\n"
        assert await self.reader.readexactly(2) == b"\r\n"
        return body

    async def rest(self) -> bytes:
        """Everything up to the end of the connection, which must come."""
        async with asyncio.timeout(WAIT):
            try:
                return await self.reader.read()
            except ConnectionError:
                return b""

    def leave(self) -> None:
        self.writer.transport.abort()


@dataclass
class Served:
    """A server under test."""

    port: int
    state: ServerState
    clients: list[Client] = field(default_factory=list)

    async def connect(self, said: bytes = b"") -> Client:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        client = Client(reader, writer)
        self.clients.append(client)
        await client.say(said)
        return client

    @property
    def connection(self) -> HttpServerProtocol:
        (found,) = self.state.connections
        return cast("HttpServerProtocol", found)


class Wire(asyncio.Transport):
    """A transport in memory: the bytes come in exactly the pieces a test says."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def close(self) -> None: ...
    def abort(self) -> None: ...
    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...
    def write_eof(self) -> None: ...

    def can_write_eof(self) -> bool:
        return True

    def get_write_buffer_size(self) -> int:
        return 0


def config(app: App, idle: int) -> uvicorn.Config:
    made = uvicorn.Config(app, interface="asgi3", ws="none", lifespan="off", log_config=None, timeout_keep_alive=idle)
    made.proxy_headers = False
    made.load()
    return made


@asynccontextmanager
async def served(app: App, idle: int = 75) -> AsyncIterator[Served]:
    """An application behind our protocol; when it ends nothing of it may be left."""
    made, state = config(app, idle), ServerState()
    server = await asyncio.get_running_loop().create_server(lambda: HttpServerProtocol(made, state, {}), "127.0.0.1", 0)
    running = Served(server.sockets[0].getsockname()[1], state)
    try:
        yield running
    finally:
        server.close()
        for client in running.clients:
            client.leave()
        async with asyncio.timeout(WAIT):
            while state.connections or state.tasks:  # noqa: ASYNC110 - uvicorn looks at them in the same way
                await asyncio.sleep(0)
            await server.wait_closed()
