"""A server that plays back a recorded event stream, as the gateway would send it."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tieline.cli.chat.api import ChatApi
from tieline.cli.gateway_client import GatewayClient
from tieline.net.client.http import HttpClient

RECORDED = Path(__file__).with_name("turn.stream")
"""One answer of the demo model: thinking, text, three tools, two of which ask, a plan, and text. One message a line:
its number and its content."""

Answer = Callable[[str, int | None], tuple[int, bytes]]
"""The status and the body for a path and a `last-event-id`."""


def recorded() -> list[tuple[int, str]]:
    lines = (line.partition(" ") for line in RECORDED.read_text("utf-8").splitlines())
    return [(int(number), content) for number, _, content in lines]


def events(messages: list[tuple[int, str]], after: int = 0) -> bytes:
    """The messages after a number, as server-sent events."""
    return b"".join(f"id: {number}\ndata: {text}\n\n".encode() for number, text in messages if number > after)


def state(seq: int = 0, **more: Any) -> bytes:
    return json.dumps({"seq": seq, "token": "t", **more}).encode()


def _response(answer: Answer, head: str) -> bytes:
    path = head.split()[1]
    since = next((line[15:] for line in head.splitlines() if line.lower().startswith("last-event-id: ")), None)
    status, body = answer(path, None if since is None else int(since))
    return f"HTTP/1.1 {status} X\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n".encode() + body


@asynccontextmanager
async def playing(answer: Answer) -> AsyncIterator[ChatApi]:
    """The API of a gateway whose responses a function gives. Each connection serves one request."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            writer.write(_response(answer, (await reader.readuntil(b"\r\n\r\n")).decode()))
            await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client has closed a connection that it did not need
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    client = HttpClient()
    try:
        port = server.sockets[0].getsockname()[1]
        yield ChatApi(GatewayClient(client, f"http://127.0.0.1:{port}", name="test"))
    finally:
        await client.aclose()
        server.close()
        await server.wait_closed()
