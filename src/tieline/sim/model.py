"""A scripted model API over real HTTP.

The answers to each path are scripted and used in order. An answer is a whole body, or chunks with actions between them:
`Pause` waits for a signal from the test, `Cut` drops the connection, `Hang` waits until the client disconnects. The
server records every request, and whether its client disconnected early, so that tests can wait for these events instead
of sleeping.
"""

import asyncio
import socket
import struct
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Literal, Self

import msgspec

Headers = Sequence[tuple[str, str]]
Framing = Literal["chunked", "length", "close"]

_HEAD_LIMIT = 256 * 1024
_LINGER_NOT = struct.pack("ii", 1, 0)
_REASONS = {200: "OK", 400: "Bad Request", 404: "Not Found", 429: "Too Many Requests", 500: "Internal Server Error"}


class Pause(asyncio.Event):
    """An action that pauses the answer until this event is set. `reached` is set when the pause begins."""

    def __init__(self) -> None:
        super().__init__()
        self.reached = asyncio.Event()


@dataclass(frozen=True, slots=True)
class Cut:
    """An action that drops the connection in the middle of the answer. With `reset`, it sends a TCP reset."""

    reset: bool = False


@dataclass(frozen=True, slots=True)
class Hang:
    """An action that sends nothing more until the client disconnects."""


Chunk = bytes | Pause | Cut | Hang


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The scripted answer to one request: a whole `body`, or `chunks` that are sent one by one."""

    status: int = 200
    headers: Headers = ()
    body: bytes = b""
    chunks: Sequence[Chunk] | None = None
    framing: Framing = "chunked"

    @property
    def all_chunks(self) -> Sequence[Chunk]:
        """The chunks of the answer. A whole body is one chunk."""
        return (self.body,) if self.chunks is None else self.chunks

    def head(self) -> bytes:
        """Return the status line and the headers."""
        given = {name.lower() for name, _ in self.headers}
        lines = [f"HTTP/1.1 {self.status} {_REASONS.get(self.status, 'Scripted')}"]
        lines += [f"{name}: {value}" for name, value in self.headers]
        if "content-type" not in given:
            kind = "application/json" if self.chunks is None else "text/event-stream"
            lines.append(f"content-type: {kind}")
        match self.framing:
            case "chunked":
                lines.append("transfer-encoding: chunked")
            case "length":
                size = sum(len(chunk) for chunk in self.all_chunks if isinstance(chunk, bytes))
                lines.append(f"content-length: {size}")
            case "close":
                lines.append("connection: close")
        return "\r\n".join([*lines, "", ""]).encode("latin-1")


@dataclass(slots=True, eq=False)
class Received:
    """A received request. The future `gone` completes if the client disconnects before the end of the answer."""

    method: str
    target: str
    headers: Headers
    body: bytes = b""
    gone: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    @property
    def path(self) -> str:
        """The target without its query."""
        return self.target.partition("?")[0]

    @property
    def json(self) -> Any:
        """The body, decoded from JSON."""
        return msgspec.json.decode(self.body)

    def header(self, name: str) -> str | None:
        """Return the value of a header, or None if it is missing. `name` must be in lower case."""
        return next((value for own, value in self.headers if own == name), None)


Script = Answer | Callable[[Received], Answer]


class ModelServer:
    """A scripted model API on a free local port; use it as `async with ModelServer() as upstream`."""

    def __init__(self) -> None:
        self.requests: list[Received] = []
        """All requests received so far."""
        self.connections = 0
        """Number of connections accepted so far."""
        self.url = ""
        self._scripts: defaultdict[str, deque[Script]] = defaultdict(deque)
        self._defaults: dict[str, Script] = {}
        self._arrivals: asyncio.Queue[Received] = asyncio.Queue()
        self._open: set[asyncio.Task[Any]] = set()
        self._server: asyncio.Server | None = None

    def script(self, path: str, *answers: Script) -> None:
        """Add answers for the next requests to this path. Each answer is used once."""
        self._scripts[path].extend(answers)

    def default(self, path: str, answer: Script) -> None:
        """Set the answer for requests to this path that arrive when all its scripted answers are used up."""
        self._defaults[path] = answer

    def forget(self) -> None:
        """Drop all scripted answers and recorded requests."""
        self._scripts.clear()
        self._defaults.clear()
        self.requests.clear()
        self._arrivals = asyncio.Queue()

    async def arrival(self) -> Received:
        """Return the next request, waiting for it if necessary. Each request is returned once."""
        return await self._arrivals.get()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=_HEAD_LIMIT)
        host, port = self._server.sockets[0].getsockname()
        self.url = f"http://{host}:{port}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._server is not None:
            self._server.close()
            for task in self._open:
                task.cancel()
            await asyncio.gather(*self._open, return_exceptions=True)
            await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if task := asyncio.current_task():
            self._open.add(task)
            task.add_done_callback(self._open.discard)
        self.connections += 1
        try:
            await self._converse(_Client(reader, writer))
        except (asyncio.CancelledError, ConnectionError, asyncio.IncompleteReadError):
            # Expected: scripts drop connections, and the server cancels them when it stops.
            writer.transport.abort()
        finally:
            writer.close()

    async def _converse(self, client: "_Client") -> None:
        async for request in client.requests():
            self.requests.append(request)
            self._arrivals.put_nowait(request)
            answer = self._answer(request)
            if not await client.give(answer, request) or answer.framing == "close":
                return

    def _answer(self, request: Received) -> Answer:
        waiting = self._scripts[request.path]
        script = waiting.popleft() if waiting else self._defaults.get(request.path)
        if script is None:
            message = f"nothing is scripted for {request.method} {request.path}"
            return Answer(status=404, body=msgspec.json.encode({"error": {"message": message, "type": "unscripted"}}))
        return script if isinstance(script, Answer) else script(request)


class _Client:
    """One client's connection, as seen by the server."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._ahead = b""

    async def requests(self) -> AsyncIterator[Received]:
        """Yield the requests on this connection until it ends."""
        while True:
            try:
                head = self._ahead + await self._reader.readuntil(b"\r\n\r\n")
            except asyncio.IncompleteReadError:
                return
            self._ahead = b""
            first, *lines = head[:-4].decode("latin-1").split("\r\n")
            method, target, _ = first.split(" ")
            fields = (line.partition(":") for line in lines)
            headers = tuple((name.lower(), value.strip()) for name, _, value in fields)
            request = Received(method=method, target=target, headers=headers)
            request.body = await self._body(request)
            yield request

    async def _body(self, request: Received) -> bytes:
        if request.header("transfer-encoding") != "chunked":
            return await self._reader.readexactly(int(request.header("content-length") or 0))
        body = bytearray()
        while size := int(await self._reader.readline(), 16):
            body += (await self._reader.readexactly(size + 2))[:-2]
        await self._reader.readline()
        return bytes(body)

    async def give(self, answer: Answer, request: Received) -> bool:
        """Send the answer. Return whether the connection can be reused."""
        async with asyncio.TaskGroup() as group:
            chunks = None if request.method == "HEAD" else answer.all_chunks
            playing = group.create_task(self._play(answer, chunks))
            watching = group.create_task(self._watch(request, playing))
            await asyncio.wait([playing])
            watching.cancel()
        return not playing.cancelled() and playing.result()

    async def _watch(self, request: Received, playing: asyncio.Task[bool]) -> None:
        """Wait until the client disconnects, then cancel `playing`, the task that sends the answer.

        If data arrives instead, stop waiting and keep the data, because it belongs to the next request.
        """
        try:
            self._ahead = await self._reader.read(1)
        except ConnectionError:
            self._ahead = b""
        if not self._ahead and not playing.done():
            request.gone.set_result(None)
            playing.cancel()

    async def _play(self, answer: Answer, chunks: Sequence[Chunk] | None) -> bool:
        try:
            self._writer.write(answer.head())
            for chunk in chunks or ():
                await self._act(chunk, answer.framing)
            if chunks is not None and answer.framing == "chunked":
                self._writer.write(b"0\r\n\r\n")
            await self._writer.drain()
        except ConnectionError:
            return False
        return True

    async def _act(self, chunk: Chunk, framing: Framing) -> None:
        match chunk:
            case bytes():
                await self._say(chunk, framing)
            case Pause():
                chunk.reached.set()
                await chunk.wait()
            case Hang():
                await asyncio.Event().wait()
            case Cut():
                self._drop(chunk)
                raise ConnectionAbortedError("as the script says")

    async def _say(self, data: bytes, framing: Framing) -> None:
        if data:
            self._writer.write(b"%x\r\n%b\r\n" % (len(data), data) if framing == "chunked" else data)
            await self._writer.drain()

    def _drop(self, cut: Cut) -> None:
        if cut.reset:
            raw: socket.socket = self._writer.get_extra_info("socket")
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NOT)
        self._writer.transport.abort()
