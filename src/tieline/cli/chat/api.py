"""The gateway's API for conversations: the state, sessions, their messages, and the event stream."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from typing import Any
from urllib.parse import quote

from tieline.cli.gateway_client import GatewayClient
from tieline.cli.inbox.remote import RemoteInbox
from tieline.core.inbox.inbox import PendingItem
from tieline.model.content import Value
from tieline.model.errors import GatewayError
from tieline.model.events import Event
from tieline.model.inbox import Answer
from tieline.model.session import Summary, Turn
from tieline.net.client.http import Timeouts

STREAM_TIMEOUTS = Timeouts(connect=5, first_byte=30, idle=90)
"""Unless the connection is dead, the gateway writes to the stream more often than every `idle` seconds."""
LISTING_PAUSE = 1.0
LISTING_TRIES = 8
"""How many times the state is requested again until it contains models. The gateway may have to ask slow upstreams."""


class Model(Value):
    """A model that the gateway offers."""

    id: str
    title: str = ""
    backend: str = ""
    modes: tuple[str, ...] = ()
    is_agent: bool = False


class ToolsState(Value):
    """The gateway's own tools: whether they are enabled, their folder, and whether they run without asking."""

    enabled: bool = False
    workspace: str | None = None
    yolo: bool = False


class InboxNews(Value):
    """All items that wait in the inbox."""

    version: int = 0
    items: tuple[PendingItem, ...] = ()


class GatewayState(Value):
    """The state of the gateway. `seq` is the number of the last stream message that it includes."""

    seq: int
    token: str = ""
    models: tuple[Model, ...] = ()
    default_model: str | None = None
    tools: ToolsState = ToolsState()
    inbox: InboxNews = InboxNews()
    sessions: tuple[Summary, ...] = ()
    """The most recently used session comes first."""


class ChatSessionView(Value):
    """Messages of a session. `seq` is the number of the last stream message that they include."""

    summary: Summary
    seq: int
    messages: tuple[Turn, ...] = ()
    more: bool = False


class Sent(Value):
    """A message that was sent, and the id of the message that will answer it."""

    user: Turn
    assistant: str


class EventNews(Value):
    """New events in a message that is in progress."""

    session: str
    message: str
    events: tuple[Event, ...]


class TurnNews(Value):
    """A complete message."""

    session: str
    turn: Turn


class SummaryNews(Value):
    """A session was created or changed."""

    summary: Summary


class DeletedNews(Value):
    """A session was deleted."""

    session: str


class StateNews(Value):
    """The models or backends have changed."""


class ResetNews(Value):
    """Stream messages were lost. Everything must be loaded again."""


News = EventNews | TurnNews | SummaryNews | DeletedNews | InboxNews | StateNews | ResetNews
"""A message from the event stream that concerns conversations."""

_NEWS: Mapping[str, type[News]] = {
    "events": EventNews,
    "turn": TurnNews,
    "session": SummaryNews,
    "gone": DeletedNews,
    "inbox": InboxNews,
    "state": StateNews,
    "reset": ResetNews,
}


class _Tagged(Value):
    type: str


class ChatApi:
    """Reads and changes a gateway's conversations. Methods raise GatewayError with a message for the user."""

    def __init__(self, client: GatewayClient) -> None:
        self._client = client
        self._inbox = RemoteInbox(client)

    @property
    def url(self) -> str:
        """The address of the gateway."""
        return self._client.url

    async def state(self) -> GatewayState:
        """Return the state of the gateway, and use its token for the following requests."""
        try:
            state = await self._client.get("/api/state", GatewayState)
        except GatewayError as error:
            if error.kind != "not_found":
                raise
            message = f"{self.url} is not the address of a gateway, or `web.enabled` is false there."
            raise GatewayError("not_found", message) from error
        self._client.token = state.token
        return state

    async def complete_state(self) -> GatewayState:
        """Return the state of the gateway. If its models are still being listed, wait a few seconds for them."""
        state = await self.state()
        for _ in range(LISTING_TRIES):
            if state.models:
                break
            await asyncio.sleep(LISTING_PAUSE)
            state = await self.state()
        return state

    async def session(self, session: str, last: int) -> ChatSessionView:
        """Return the last messages of a session."""
        return await self._client.get(f"{_path(session)}?last={last}", ChatSessionView)

    async def create(self, model: str, mode: str | None) -> Summary:
        """Create a session."""
        return self._client.decode(await self._change("POST", "/api/sessions", {"model": model, "mode": mode}), Summary)

    async def change(self, session: str, **fields: str | None) -> Summary:
        """Change the model or the mode of a session."""
        return self._client.decode(await self._change("PATCH", _path(session), fields), Summary)

    async def send(self, session: str, text: str) -> Sent:
        """Send a message."""
        return self._client.decode(await self._change("POST", f"{_path(session)}/send", {"text": text}), Sent)

    async def retry(self, session: str) -> Sent:
        """Start another answer to the last message."""
        return self._client.decode(await self._change("POST", f"{_path(session)}/retry", {}), Sent)

    async def stop(self, session: str) -> None:
        """Stop the answer in progress."""
        await self._change("POST", f"{_path(session)}/stop", {})

    async def decide(self, item: str, answer: Answer) -> None:
        """Answer an inbox item."""
        await self._inbox.decide(item, answer)

    async def stream(self, since: int) -> AsyncGenerator[tuple[int | None, News | None], None]:
        """Yield the messages of the event stream after number `since`, each with its number.

        In a cluster, messages about the inbox have no number. A message that does not concern conversations is yielded
        as None.
        """
        async for event in self._client.events("/api/stream", since, STREAM_TIMEOUTS):
            kind = _NEWS.get(self._client.decode(event.data, _Tagged).type)
            yield event.seq, None if kind is None else self._client.decode(event.data, kind)

    async def _change(self, method: str, path: str, body: Any) -> bytes:
        try:
            return await self._client.request(method, path, body)
        except GatewayError as error:
            if error.code != "bad_token":
                raise
        await self.state()  # the gateway was restarted and has a new token
        return await self._client.request(method, path, body)


def _path(session: str) -> str:
    return f"/api/sessions/{quote(session, safe='')}"
