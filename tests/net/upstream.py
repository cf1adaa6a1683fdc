"""A scripted upstream for tests: what it says is raw bytes, what it heard can be asked for afterwards."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from tieline.net.client.http import Origin

WAIT = 60.0
"""No wait in these tests takes longer, not even on a slow machine."""

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop turn until something has become true."""
    async with asyncio.timeout(WAIT):
        while not condition():  # noqa: ASYNC110 - the code under test has no event for it, and needs none
            await asyncio.sleep(0)


class Peer:
    """The upstream's end of one connection."""

    def __init__(self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.number = number
        self.reader = reader
        self.writer = writer

    async def request(self) -> bytes:
        """Read one whole request; b"" when the client has hung up instead."""
        async with asyncio.timeout(WAIT):
            try:
                head = await self.reader.readuntil(b"\r\n\r\n")
            except (asyncio.IncompleteReadError, ConnectionError):
                return b""
            size = 0
            for line in head.split(b"\r\n"):
                if line.startswith(b"content-length: "):
                    size = int(line.partition(b": ")[2])
            return head + await self.reader.readexactly(size)

    async def say(self, *pieces: bytes) -> None:
        for piece in pieces:
            self.writer.write(piece)
            await self.writer.drain()

    async def flood(self, data: bytes) -> None:
        """Say the same until the client hangs up."""
        async with asyncio.timeout(WAIT):
            while not self.writer.is_closing():
                try:
                    await self.say(data)
                except ConnectionError:
                    return

    async def say_each_byte(self, data: bytes) -> None:
        """Send every byte in its own segment, as far as the loops allow: each is awaited before the next."""
        for index in range(len(data)):
            self.writer.write(data[index : index + 1])
            await self.writer.drain()
            await asyncio.sleep(0)

    async def hung_up(self) -> bool:
        """Wait until the client has closed the connection."""
        async with asyncio.timeout(WAIT):
            try:
                while await self.reader.read(65536):
                    pass
            except ConnectionError:
                pass
            return True

    async def hung_up_within(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                return await self.hung_up()
        except TimeoutError:
            return False


Script = Callable[[Peer], Awaitable[None]]


class Upstream:
    """A listening upstream that plays its script on every connection and closes it when the script ends."""

    def __init__(self, script: Script) -> None:
        self.connections = 0
        self.tasks: set[asyncio.Task[None]] = set()
        self._script = script
        self.origin = Origin("http", "127.0.0.1", 0)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            self.tasks.add(task)
        self.connections += 1
        try:
            await self._script(Peer(self.connections, reader, writer))
        finally:
            writer.close()


@asynccontextmanager
async def serving(script: Script, tls: ssl.SSLContext | None = None) -> AsyncIterator[Upstream]:
    upstream = Upstream(script)
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


def answering(*answers: bytes) -> Script:
    """Answer the requests of each connection one after another, then wait for the client to hang up."""

    async def script(peer: Peer) -> None:
        for answer in answers:
            if not await peer.request():
                return
            await peer.say(answer)
        await peer.hung_up()

    return script


def saying(answer: bytes) -> Script:
    """Answer one request and hang up."""

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.say(answer)

    return script
