"""The transport with a post for each message: its bytes, and what is made of answers that are no good."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.backends.cursor_wire import WAIT
from tieline.backends.cursor.pipes import APPEND, APPENDS_AT_ONCE, RUN_SSE, AttemptIds, Http1Pipe, StreamRefused
from tieline.net.client.http import HttpClient, Origin, PipeError, Timeouts
from tieline.wire.cursor._pb.aiserver_pb2 import BidiAppendRequest
from tieline.wire.cursor.identity import Identity
from tieline.wire.cursor.run.client_messages import HEARTBEAT

GOOD = b"HTTP/1.1 200 OK\r\ncontent-type: application/proto\r\ncontent-length: 0\r\n\r\n"
STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: application/connect+proto\r\ntransfer-encoding: chunked\r\n\r\n"


def status(code: int) -> bytes:
    return f"HTTP/1.1 {code} No\r\ncontent-length: 0\r\n\r\n".encode()


class Service:
    """Takes posts down, and answers each append as it is told to, the last of them for ever."""

    def __init__(self, *answers: bytes) -> None:
        self.bodies: dict[str, list[bytes]] = {RUN_SSE: [], APPEND: []}
        self._answers = list(answers)
        self._writers: list[asyncio.StreamWriter] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
                size = next(int(line[15:]) for line in head.splitlines() if line.startswith("content-length:"))
                path = RUN_SSE if RUN_SSE.lower() in head else APPEND
                self.bodies[path].append(await reader.readexactly(size))
                writer.write(self._answer(path))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass

    def _answer(self, path: str) -> bytes:
        if path == RUN_SSE:
            return STREAM
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]

    def close(self) -> None:
        for writer in self._writers:
            writer.close()


@asynccontextmanager
async def piped(service: Service) -> AsyncIterator[Http1Pipe]:
    """A pipe to the service, under a published id."""
    server = await asyncio.start_server(service.serve, "127.0.0.1", 0)
    client = HttpClient()
    origin, _ = Origin.parse(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    pipe = Http1Pipe(client, origin, Identity(), "token", AttemptIds("req-123", "req-123"), Timeouts())
    try:
        async with asyncio.timeout(WAIT):
            yield pipe
    finally:
        pipe.close()
        await client.aclose()
        service.close()
        server.close()
        await server.wait_closed()


async def test_the_requests_of_a_run_are_the_published_bytes() -> None:
    service = Service(GOOD)
    async with piped(service) as pipe:
        await pipe.begin([HEARTBEAT])
        await pipe.send([HEARTBEAT])
    (opened,) = service.bodies[RUN_SSE]
    assert opened.hex() == "0000000009" + "0a077265712d313233"
    assert [body.hex() for body in service.bodies[APPEND]] == [
        "0a043361303012090a077265712d313233",
        "0a043361303012090a077265712d3132331801",
    ]


@pytest.mark.parametrize("code", [404, 500, 502, 503])
async def test_a_message_that_the_service_failed_to_take_is_a_broken_stream(code: int) -> None:
    """The stream may be as alive as ever: what was not taken is lost, so the attempt is."""
    service = Service(GOOD, status(code))
    async with piped(service) as pipe:
        await pipe.begin([HEARTBEAT])
        with pytest.raises(PipeError) as caught:
            await pipe.send([HEARTBEAT, HEARTBEAT])
        assert str(code) in caught.value.message


class Slow(Service):
    """Answers no append after the first before it is let."""

    def __init__(self) -> None:
        super().__init__(GOOD)
        self.waiting = asyncio.Semaphore(0)
        self.go = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
                size = next(int(line[15:]) for line in head.splitlines() if line.startswith("content-length:"))
                path = RUN_SSE if RUN_SSE.lower() in head else APPEND
                self.bodies[path].append(await reader.readexactly(size))
                if path == APPEND and len(self.bodies[APPEND]) > 1:
                    self.waiting.release()
                    await self.go.wait()
                writer.write(self._answer(path))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass


async def test_sixteen_messages_are_on_their_way_at_once_each_with_its_number() -> None:
    service = Slow()
    async with piped(service) as pipe:
        await pipe.begin([HEARTBEAT])
        sending = [asyncio.ensure_future(pipe.send([HEARTBEAT] * 12)) for _ in range(2)]
        for _ in range(APPENDS_AT_ONCE):
            await service.waiting.acquire()
        assert len(service.bodies[APPEND]) == 1 + APPENDS_AT_ONCE
        service.go.set()
        await asyncio.gather(*sending)
    numbers = [BidiAppendRequest.FromString(body).append_seqno for body in service.bodies[APPEND]]
    assert sorted(numbers) == list(range(25))


@pytest.mark.parametrize("code", [401, 413, 429, 464])
async def test_a_message_that_is_refused_is_a_refusal(code: int) -> None:
    async with piped(Service(GOOD, status(code))) as pipe:
        await pipe.begin([HEARTBEAT])
        with pytest.raises(StreamRefused) as caught:
            await pipe.send([HEARTBEAT])
        assert caught.value.status == code


@pytest.mark.parametrize(
    ("code", "error"), [(503, StreamRefused), (401, StreamRefused), (464, StreamRefused), (404, PipeError)]
)
async def test_a_run_request_that_is_not_taken_is_told_as_it_is(code: int, error: type[Exception]) -> None:
    async with piped(Service(status(code))) as pipe:
        with pytest.raises(error):
            await pipe.begin([HEARTBEAT])
