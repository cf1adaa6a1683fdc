"""The inbox of a running gateway, over HTTP."""

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


class Kept(Value):
    """A rule that was allowed for good, in words."""

    id: str
    text: str


class Rules(Value):
    """What was allowed for good in a workspace."""

    workspace: str
    rules: tuple[Kept, ...] = ()


class _Listing(Value):
    items: tuple[PendingItem, ...] = ()


class _Said(Value):
    message: str = ""


class _Error(Value):
    error: _Said = _Said()


class Remote:
    """The gateway at an address; everything that goes wrong is a GatewayError a person can act on."""

    def __init__(self, client: HttpClient, url: str, key: str | None = None) -> None:
        self.url = url
        self._client = client
        self._origin, self._path = Origin.parse(url)
        self._headers = [("user-agent", f"tieline-inbox/{__version__}")]
        if key:
            self._headers.append(("authorization", f"Bearer {key}"))

    async def items(self) -> tuple[PendingItem, ...]:
        """What waits now."""
        return self._read(await self._asked("GET", "/api/inbox"), _Listing).items

    async def watch(self) -> AsyncGenerator[tuple[PendingItem, ...], None]:
        """What waits, now and on every change, until the gateway ends."""
        response = await self._sent("GET", "/api/inbox/watch")
        reader = SseReader(LIMIT)
        try:
            while data := await response.chunk():
                for block in reader.feed(data):
                    event = reader.event(block)
                    if event is not None:
                        yield self._read(event[1], _Listing).items
        except (PipeError, SseOverflow) as error:
            raise GatewayError("upstream", f"The gateway at {self.url} was lost: {error}") from error
        finally:
            response.close()

    async def decide(self, item_id: str, answer: Answer) -> None:
        """Answer what waits."""
        await self._asked("POST", f"/api/inbox/{quote(item_id, safe='')}", msgspec.json.encode(answer))

    async def rules(self) -> Rules:
        """What was allowed for good."""
        return self._read(await self._asked("GET", "/api/rules"), Rules)

    async def revoke(self, rule_id: str) -> None:
        """Allow it no longer."""
        await self._asked("DELETE", f"/api/rules/{quote(rule_id, safe='')}")

    async def _asked(self, method: str, path: str, body: bytes = b"") -> bytes:
        response = await self._sent(method, path, body)
        try:
            return await response.read(LIMIT)
        except PipeError as error:
            raise GatewayError("upstream", f"The gateway at {self.url} was lost: {error.message}") from error

    async def _sent(self, method: str, path: str, body: bytes = b"") -> HttpResponse:
        """A response that is no refusal."""
        try:
            response = await self._client.send(
                self._origin, method, self._path + path, self._headers, body, timeouts=TIMEOUTS
            )
            if response.status == 200:
                return response
            said = await response.read(LIMIT)
        except PipeError as error:
            message = f"Nothing answers at {self.url}: is `tieline serve` running? ({error.message})"
            raise GatewayError("upstream", message) from error
        except ValueError as error:
            raise GatewayError("bad_request", f"The gateway cannot be asked: {error}.") from error
        raise self._refusal(response.status, said)

    def _refusal(self, status: int, said: bytes) -> GatewayError:
        message = ""
        if said.startswith(b"{"):
            message = self._read(said, _Error).error.message
        kind: ErrorKind = "unauthorized" if status == 401 else "not_found" if status == 404 else "upstream"
        return GatewayError(kind, message or f"{self.url} answered {status}: that is no Tieline, or an older one.")

    def _read(self, data: bytes, kind: type[T]) -> T:
        try:
            return msgspec.json.decode(data, type=kind)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise GatewayError("upstream", f"{self.url} said what cannot be understood: {error}") from error
