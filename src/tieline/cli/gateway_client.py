"""HTTP client for the API of a running gateway."""

from collections.abc import AsyncGenerator, Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec

from tieline import __version__
from tieline.app.config import ConfigError
from tieline.model.content import Value
from tieline.model.errors import GatewayError
from tieline.model.events import ErrorKind
from tieline.net.client.http import HttpClient, HttpResponse, Origin, PipeError, Timeouts
from tieline.wire.framing.sse import SseOverflow, SseReader

T = TypeVar("T")

LIMIT = 64 << 20
TIMEOUTS = Timeouts(connect=5, first_byte=30, idle=600)

_KINDS: dict[int, ErrorKind] = {400: "bad_request", 401: "unauthorized", 403: "forbidden", 404: "not_found"}


class ServerEvent(NamedTuple):
    """One server-sent event. `seq` is its number, or None if it has none."""

    seq: int | None
    data: bytes


class _RemoteErrorDetail(Value):
    message: str = ""
    param: str | None = None
    code: str | None = None


class _RemoteError(Value):
    error: _RemoteErrorDetail = _RemoteErrorDetail()


class GatewayClient:
    """Sends requests to the gateway at `url`. On failure, methods raise GatewayError with a message for the user.

    `name` is the name of the command that sends the requests; the gateway's audit log contains it.
    """

    def __init__(self, client: HttpClient, url: str, key: str | None = None, *, name: str) -> None:
        self.url = url
        self.token = ""
        """The token from `/api/state`, set by the caller. It is sent with all requests except GET."""
        self._client = client
        try:
            self._origin, self._path = Origin.parse(url)
        except ValueError as error:
            raise ConfigError(f"--url: {error}") from error
        self._headers = [("user-agent", f"tieline-{name}/{__version__}")]
        if key:
            self._headers.append(("authorization", f"Bearer {key}"))

    async def get(self, path: str, kind: type[T]) -> T:
        """Return the response to a GET request, decoded as `kind`."""
        return self.decode(await self.request("GET", path), kind)

    async def request(self, method: str, path: str, body: Any = None) -> bytes:
        """Send a request and return the body of the response. `body` is sent as JSON."""
        response = await self._send(method, path, body)
        try:
            return await response.read(LIMIT)
        except PipeError as error:
            raise self._lost(error) from error

    async def events(
        self, path: str, since: int | None = None, timeouts: Timeouts = TIMEOUTS
    ) -> AsyncGenerator[ServerEvent, None]:
        """Yield server-sent events until the gateway ends the stream. `since` is the number of the last known event."""
        headers = [] if since is None else [("last-event-id", str(since))]
        response = await self._send("GET", path, headers=headers, timeouts=timeouts)
        reader = SseReader(LIMIT)
        try:
            while data := await response.chunk():
                for block in reader.feed(data):
                    event = reader.event(block)
                    if event is not None:
                        yield ServerEvent(_number(block), event[1])
        except (PipeError, SseOverflow) as error:
            raise self._lost(error) from error
        finally:
            response.close()

    def decode(self, data: bytes, kind: type[T]) -> T:
        """Decode JSON from the gateway as `kind`."""
        try:
            return msgspec.json.decode(data, type=kind)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise GatewayError("upstream", f"{self.url} sent an invalid response: {error}") from error

    async def _send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        headers: Sequence[tuple[str, str]] = (),
        timeouts: Timeouts = TIMEOUTS,
    ) -> HttpResponse:
        """Send a request and return the response. Raise GatewayError unless its status is 200."""
        sent = [*self._headers, *headers]
        if self.token and method != "GET":
            sent.append(("x-tieline-token", self.token))
        data = b"" if body is None else msgspec.json.encode(body)
        try:
            response = await self._client.send(self._origin, method, self._path + path, sent, data, timeouts=timeouts)
            if response.status == 200:
                return response
            said = await response.read(LIMIT)
        except PipeError as error:
            message = f"Cannot reach a gateway at {self.url}. Is `tieline serve` running? ({error.message})"
            raise GatewayError("upstream", message) from error
        except ValueError as error:
            raise GatewayError("bad_request", f"The request cannot be sent: {error}.") from error
        raise self._refusal(response.status, said)

    def _lost(self, error: Exception) -> GatewayError:
        return GatewayError("upstream", f"Lost the connection to the gateway at {self.url}: {error}")

    def _refusal(self, status: int, said: bytes) -> GatewayError:
        detail = self.decode(said, _RemoteError).error if said.startswith(b"{") else _RemoteErrorDetail()
        message = detail.message or f"{self.url} answered {status}: it is not a Tieline gateway, or an old one."
        return GatewayError(
            _KINDS.get(status, "upstream"), message, status=status, param=detail.param, code=detail.code
        )


def _number(block: bytes) -> int | None:
    """Return the number of an event, or None if it has none. The gateway writes the `id` line first."""
    line = block.partition(b"\n")[0]
    number = line.removeprefix(b"id: ")
    return int(number) if line != number and number.isdigit() else None
