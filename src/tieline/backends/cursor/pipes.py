"""The two transports of a run: a two-way HTTP/2 stream, or an HTTP/1.1 response stream with a POST for each message.

Both carry the same messages. Over HTTP/2 each message is framed and written to the open request. Over HTTP/1.1 each
message is a request of its own, and up to 16 requests run at once. One counter numbers the messages of the whole
stream: the service processes them in the order of their numbers and ignores a number that it has seen before. With a
second counter, numbers would occur twice, and messages would be lost silently.
"""

import asyncio
from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol

from tieline.net.client.http import HttpClient, HttpResponse, Origin, PipeError, Timeouts
from tieline.net.h2.client import Http2Client, Http2Stream
from tieline.tasks import Tasks
from tieline.wire.cursor._pb import aiserver_pb2 as aiserver
from tieline.wire.cursor.identity import Identity, append_headers, run_headers
from tieline.wire.framing.connect import frame

Transport = Literal["http2", "http1"]
Headers = Sequence[tuple[str, str]]

RUN = "/agent.v1.AgentService/Run"
RUN_SSE = "/agent.v1.AgentService/RunSSE"
APPEND = "/aiserver.v1.BidiService/BidiAppend"
ERROR_LIMIT = 256 * 1024
APPENDS_AT_ONCE = 16


class StreamRefused(Exception):
    """The service answered with an HTTP error instead of a stream."""

    def __init__(self, status: int, body: bytes, headers: Headers = ()) -> None:
        super().__init__(f"HTTP {status}")
        self.status = status
        self.body = body
        self.headers = headers


class AttemptIds(NamedTuple):
    """The ids of an attempt. `request` is its own id, and `original` that of the first attempt in the same run."""

    request: str
    original: str
    blob_key: str = ""
    """The encryption key of the conversation, the same for all its attempts and turns."""


class Pipe(Protocol):
    """Transports the messages of one attempt of a run, in both directions."""

    lanes: int
    """Maximum number of concurrent calls to `send`. The service processes the messages in the order of the calls."""

    @property
    def trailers(self) -> Headers: ...

    async def begin(self, first: Sequence[bytes]) -> None:
        """Send the first messages and wait until the response begins. Raise StreamRefused or PipeError on failure."""

    async def send(self, messages: Sequence[bytes]) -> None:
        """Send the messages in the given order. Raise StreamRefused or PipeError on failure."""

    async def chunk(self) -> bytes:
        """Return the next bytes of the response, or b"" at its end. Raise PipeError on failure."""

    def release(self) -> None:
        """Make the connection available for reuse. Call this after a complete response."""

    def close(self) -> None:
        """Close the stream at once."""


class Http2Pipe:
    """Transports messages over one HTTP/2 stream in both directions."""

    lanes = 1

    def __init__(
        self, client: Http2Client, origin: Origin, identity: Identity, token: str, ids: AttemptIds, timeouts: Timeouts
    ) -> None:
        self._client = client
        self._origin = origin
        self._headers = run_headers(identity, token, ids.request, ids.original, "http2", blob_key=ids.blob_key)
        self._timeouts = timeouts
        self._stream: Http2Stream | None = None

    @property
    def trailers(self) -> Headers:
        return self._stream.trailers if self._stream is not None else ()

    async def begin(self, first: Sequence[bytes]) -> None:
        self._stream = await self._client.open(self._origin, RUN, self._headers, self._timeouts)
        await self.send(first)
        status = await self._stream.status()
        if status != 200:
            raise StreamRefused(status, await _whole(self._stream), self._stream.headers)

    async def send(self, messages: Sequence[bytes]) -> None:
        await self._open.send(b"".join([frame(message) for message in messages]))

    async def chunk(self) -> bytes:
        return await self._open.chunk()

    @property
    def _open(self) -> Http2Stream:
        if self._stream is None:
            raise PipeError("connect", "busy", "the stream is not open", sent=False)
        return self._stream

    def release(self) -> None:
        if self._stream is not None:
            self._stream.end()
            self._stream.close()

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()


class Http1Pipe:
    """Receives the response over an HTTP/1.1 stream, and sends each message to the service in a request of its own."""

    trailers: Headers = ()
    lanes = APPENDS_AT_ONCE

    def __init__(
        self, client: HttpClient, origin: Origin, identity: Identity, token: str, ids: AttemptIds, timeouts: Timeouts
    ) -> None:
        self._client = client
        self._origin = origin
        self._run_headers = run_headers(identity, token, ids.request, ids.original, "http1", blob_key=ids.blob_key)
        self._append_headers = append_headers(identity, token, ids.request, ids.original, blob_key=ids.blob_key)
        self._id = aiserver.BidiRequestId(request_id=ids.request)
        self._timeouts = timeouts
        self._tasks = Tasks()
        self._response: HttpResponse | None = None
        self._number = 0
        self._free = asyncio.Semaphore(APPENDS_AT_ONCE)

    async def begin(self, first: Sequence[bytes]) -> None:
        # In parallel, because the service may hold back the response head until it has the first message.
        opening = self._tasks.start(self._open(), "opening a stream")
        try:
            await self.send(first)
            response = self._response = await opening
        except BaseException:
            opening.cancel()
            opening.add_done_callback(_close_unread)
            raise
        if response.status != 200:
            raise StreamRefused(response.status, await response.read(ERROR_LIMIT), response.headers)

    async def send(self, messages: Sequence[bytes]) -> None:
        first = self._number
        self._number += len(messages)
        appends = [self._append(number, message) for number, message in enumerate(messages, first)]
        await (asyncio.gather(*appends) if len(appends) > 1 else appends[0])

    async def chunk(self) -> bytes:
        return await self._response.chunk() if self._response is not None else b""

    def release(self) -> None:
        if self._response is not None:
            self._response.release()

    def close(self) -> None:
        if self._response is not None:
            self._response.close()

    async def _open(self) -> HttpResponse:
        body = frame(self._id.SerializeToString())
        return await self._client.send(self._origin, "POST", RUN_SSE, self._run_headers, body, self._timeouts)

    async def _append(self, number: int, message: bytes) -> None:
        request = aiserver.BidiAppendRequest(data=message.hex(), request_id=self._id, append_seqno=number)
        async with self._free:
            response = await self._client.send(
                self._origin, "POST", APPEND, self._append_headers, request.SerializeToString(), self._timeouts
            )
            body = await response.read(ERROR_LIMIT)
        if response.status == 404:
            # The request may have reached a server other than the one that has the stream.
            problem = "the service does not know this run (status 404); if this persists, check `api_url`"
            raise PipeError("body", "reset", problem, sent=True)
        if response.status >= 500 and self._response is not None:
            raise PipeError("body", "reset", f"the service did not accept a message ({response.status})", sent=True)
        if response.status != 200:
            raise StreamRefused(response.status, body, response.headers)


def _close_unread(opening: "asyncio.Task[HttpResponse]") -> None:
    """Close the stream if it was opened although `begin` failed or was cancelled."""
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()


async def _whole(stream: Http2Stream) -> bytes:
    body = b""
    while len(body) < ERROR_LIMIT and (data := await stream.chunk()):
        body += data
    return body
