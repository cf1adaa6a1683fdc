"""The interface of one HTTP request and its response, for both HTTP/1.1 and HTTP/2."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal
from urllib.parse import parse_qsl

from tieline.model.content import Value

Headers = Sequence[tuple[str, str]]

BODY_LIMIT = 160 * 1024 * 1024
"""Maximum size of a request body in bytes: enough for a message with a blob of 64 MiB.

Over HTTP/1.1 such a blob is sent in hexadecimal and takes 128 MiB. The rest is a margin.
"""


class RequestHead(Value):
    """The head of a request. Header names are in lower case."""

    method: str
    target: str
    headers: tuple[tuple[str, str], ...] = ()
    version: Literal["1.1", "2"] = "1.1"

    @property
    def path(self) -> str:
        """The request target without its query string."""
        return self.target.partition("?")[0]

    @property
    def query(self) -> dict[str, str]:
        """The query parameters."""
        return dict(parse_qsl(self.target.partition("?")[2]))

    def header(self, name: str) -> str:
        """Return the value of a header, or an empty string if it is missing."""
        return next((value for own, value in self.headers if own == name), "")

    @property
    def bearer(self) -> str:
        """The bearer token or API key in the `authorization` header; empty if there is none."""
        kind, _, token = self.header("authorization").partition(" ")
        return token.strip() if kind.lower() == "bearer" else ""


STALLED = 300.0
"""Seconds after which a client that reads nothing is disconnected."""


class BodyTooLarge(Exception):
    """A request body is larger than BODY_LIMIT or, over HTTP/1.1, the head is too large or the request is invalid."""


class HttpExchange(ABC):
    """A request and its response: call `start`, `write` any number of times, then `end`, `reset` or `cut`."""

    request: RequestHead

    @abstractmethod
    async def read(self) -> bytes:
        """Return the next bytes of the request body; b"" at its end."""

    @abstractmethod
    async def start(self, status: int, headers: Headers) -> None:
        """Send the head of the response."""

    @abstractmethod
    async def write(self, data: bytes) -> None:
        """Send a part of the response body. Wait if the client reads slowly."""

    @abstractmethod
    async def end(self, last: bytes = b"") -> None:
        """Send `last` and complete the response."""

    @abstractmethod
    def goaway(self, code: int) -> None:
        """Tell the client that this connection accepts no more requests, if the protocol supports that."""

    @abstractmethod
    def reset(self) -> None:
        """Abort this response, or the whole connection if the protocol cannot abort a single response."""

    @abstractmethod
    def cut(self) -> None:
        """Close the connection."""

    async def body(self) -> bytes:
        """Return the whole request body. Raise BodyTooLarge if it exceeds BODY_LIMIT."""
        pieces = []
        size = 0
        while data := await self.read():
            size += len(data)
            if size > BODY_LIMIT:
                raise BodyTooLarge
            pieces.append(data)
        return b"".join(pieces)

    async def answer(self, status: int, body: bytes = b"", headers: Headers = ()) -> None:
        """Send a complete response."""
        await self.start(status, [*headers, ("content-length", str(len(body)))])
        await self.end(body)


async def drain(writer: asyncio.StreamWriter) -> None:
    """Wait until the client has read most of the written data. Raise ConnectionResetError after STALLED seconds."""
    if not writer.transport.get_write_buffer_size():
        return
    try:
        async with asyncio.timeout(STALLED):
            await writer.drain()
    except TimeoutError as error:
        raise ConnectionResetError("the client does not read its response") from error


Serve = Callable[[HttpExchange], Awaitable[None]]
