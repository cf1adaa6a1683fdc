"""One HTTP request and its answer, the same for HTTP/1.1 and HTTP/2."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal
from urllib.parse import parse_qsl

from tieline.model.content import Value

Headers = Sequence[tuple[str, str]]

BODY_LIMIT = 160 * 1024 * 1024
"""The largest body that is read: a blob of 64 MiB in the hexadecimal of an append, and some room."""


class Incoming(Value):
    """The head of a request. Names of headers are in lower case."""

    method: str
    target: str
    headers: tuple[tuple[str, str], ...] = ()
    version: Literal["1.1", "2"] = "1.1"

    @property
    def path(self) -> str:
        """The target without its query."""
        return self.target.partition("?")[0]

    @property
    def query(self) -> dict[str, str]:
        """What stands behind the question mark."""
        return dict(parse_qsl(self.target.partition("?")[2]))

    def header(self, name: str) -> str:
        """The value of a header, or nothing."""
        return next((value for own, value in self.headers if own == name), "")

    @property
    def bearer(self) -> str:
        """The token or key it came with."""
        kind, _, token = self.header("authorization").partition(" ")
        return token.strip() if kind.lower() == "bearer" else ""


STALLED = 300.0
"""How long a client may leave its answer lying before it counts as gone."""


class BodyTooLarge(Exception):
    """The body of a request is larger than BODY_LIMIT."""


class Exchange(ABC):
    """A request that wants an answer: `start`, `write` as often as needed, and one of the endings."""

    request: Incoming

    @abstractmethod
    async def read(self) -> bytes:
        """The next bytes of the request's body, b"" at its end."""

    @abstractmethod
    async def start(self, status: int, headers: Headers) -> None:
        """The head of the answer."""

    @abstractmethod
    async def write(self, data: bytes) -> None:
        """More of the answer's body; waits for a client that is slow to take it."""

    @abstractmethod
    async def end(self, last: bytes = b"") -> None:
        """The answer is complete, with these last bytes."""

    @abstractmethod
    def goaway(self, code: int) -> None:
        """Tell the client that this connection takes no more requests, where the protocol can say so."""

    @abstractmethod
    def reset(self) -> None:
        """Break off this answer alone where the protocol can, else the connection with it."""

    @abstractmethod
    def cut(self) -> None:
        """Break off the connection."""

    async def body(self) -> bytes:
        """The whole body of the request; raises BodyTooLarge."""
        pieces = []
        size = 0
        while data := await self.read():
            size += len(data)
            if size > BODY_LIMIT:
                raise BodyTooLarge
            pieces.append(data)
        return b"".join(pieces)

    async def answer(self, status: int, body: bytes = b"", headers: Headers = ()) -> None:
        """The whole answer at once."""
        await self.start(status, [*headers, ("content-length", str(len(body)))])
        await self.end(body)


async def drain(writer: asyncio.StreamWriter) -> None:
    """Wait for a client that is slow to take what was written, but not for ever."""
    if not writer.transport.get_write_buffer_size():
        return
    try:
        async with asyncio.timeout(STALLED):
            await writer.drain()
    except TimeoutError as error:
        raise ConnectionResetError("the client does not take its answer") from error


Serve = Callable[[Exchange], Awaitable[None]]
