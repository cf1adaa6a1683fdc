"""HTTP client for the inbox of a running gateway."""

from collections.abc import AsyncGenerator
from typing import TypeVar
from urllib.parse import quote

import msgspec

from tieline import __version__
from tieline.core.inbox.inbox import PendingItem
from tieline.model.content import Value
from tieline.model.errors import GatewayError
from tieline.model.events import ErrorKind
from tieline.model.inbox import Answer
from tieline.net.client.http import HttpClient, HttpResponse, Origin, PipeError, Timeouts
from tieline.wire.framing.sse import SseOverflow, SseReader

T = TypeVar("T")

LIMIT = 64 << 20
TIMEOUTS = Timeouts(connect=5, first_byte=30, idle=600)


class SavedRule(Value):
    """A saved permission: its id and its description."""

    id: str
    text: str


class SavedRules(Value):
    """The saved permissions of a workspace."""

    workspace: str
    rules: tuple[SavedRule, ...] = ()


class _ItemList(Value):
    items: tuple[PendingItem, ...] = ()


class _RemoteErrorDetail(Value):
    message: str = ""


class _RemoteError(Value):
    error: _RemoteErrorDetail = _RemoteErrorDetail()


class RemoteInbox:
    """The inbox of the gateway at `url`. On failure, methods raise GatewayError with a message for the user."""

    def __init__(self, client: HttpClient, url: str, key: str | None = None) -> None:
        self.url = url
        self._client = client
        self._origin, self._path = Origin.parse(url)
        self._headers = [("user-agent", f"tieline-inbox/{__version__}")]
        if key:
            self._headers.append(("authorization", f"Bearer {key}"))

    async def items(self) -> tuple[PendingItem, ...]:
        """Return the waiting items."""
        return self._read(await self._request("GET", "/api/inbox"), _ItemList).items

    async def watch(self) -> AsyncGenerator[tuple[PendingItem, ...], None]:
        """Yield all waiting items: once immediately, and again after every change until the gateway stops."""
        response = await self._send("GET", "/api/inbox/watch")
        reader = SseReader(LIMIT)
        try:
            while data := await response.chunk():
                for block in reader.feed(data):
                    event = reader.event(block)
                    if event is not None:
                        yield self._read(event[1], _ItemList).items
        except (PipeError, SseOverflow) as error:
            raise GatewayError("upstream", f"Lost the connection to the gateway at {self.url}: {error}") from error
        finally:
            response.close()

    async def decide(self, item_id: str, answer: Answer) -> None:
        """Answer an item."""
        await self._request("POST", f"/api/inbox/{quote(item_id, safe='')}", msgspec.json.encode(answer))

    async def rules(self) -> SavedRules:
        """Return the saved permissions."""
        return self._read(await self._request("GET", "/api/rules"), SavedRules)

    async def revoke(self, rule_id: str) -> None:
        """Revoke a saved permission."""
        await self._request("DELETE", f"/api/rules/{quote(rule_id, safe='')}")

    async def _request(self, method: str, path: str, body: bytes = b"") -> bytes:
        response = await self._send(method, path, body)
        try:
            return await response.read(LIMIT)
        except PipeError as error:
            message = f"Lost the connection to the gateway at {self.url}: {error.message}"
            raise GatewayError("upstream", message) from error

    async def _send(self, method: str, path: str, body: bytes = b"") -> HttpResponse:
        """Send a request and return the response. Raise GatewayError unless its status is 200."""
        try:
            response = await self._client.send(
                self._origin, method, self._path + path, self._headers, body, timeouts=TIMEOUTS
            )
            if response.status == 200:
                return response
            said = await response.read(LIMIT)
        except PipeError as error:
            message = f"Cannot reach a gateway at {self.url}. Is `tieline serve` running? ({error.message})"
            raise GatewayError("upstream", message) from error
        except ValueError as error:
            raise GatewayError("bad_request", f"The request cannot be sent: {error}.") from error
        raise self._refusal(response.status, said)

    def _refusal(self, status: int, said: bytes) -> GatewayError:
        message = ""
        if said.startswith(b"{"):
            message = self._read(said, _RemoteError).error.message
        kind: ErrorKind = "unauthorized" if status == 401 else "not_found" if status == 404 else "upstream"
        return GatewayError(
            kind, message or f"{self.url} answered {status}: it is not a Tieline gateway, or an old one."
        )

    def _read(self, data: bytes, kind: type[T]) -> T:
        try:
            return msgspec.json.decode(data, type=kind)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise GatewayError("upstream", f"{self.url} sent an invalid response: {error}") from error
