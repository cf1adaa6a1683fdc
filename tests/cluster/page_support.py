"""Two owners and their requests to the inbox and the page of a cluster, through any replica."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import httpx2

from tests.cluster.support import KEY, PATIENCE, Replica, Stand
from tieline.app.config import Config, KeySettings
from tieline.core.inbox.inbox import Inbox
from tieline.model.inbox import Answer, InboxItem, Origin

ANN, BOB = "key-of-ann", "key-of-bob"
PAGES = ("/api/",)
TWO_OWNERS = Config(
    keys={"ann": KeySettings(key_env="ANN_KEY", paths=PAGES), "bob": KeySettings(key_env="BOB_KEY", paths=PAGES)}
)
OWNER_KEYS = {"ANN_KEY": ANN, "BOB_KEY": BOB}


class Person:
    """A person with a key, whose requests may go to any replica."""

    def __init__(self, stand: Stand, key: str = KEY) -> None:
        self.headers = {"authorization": f"Bearer {key}"}
        self._client = stand.client

    async def call(self, replica: Replica, method: str, path: str, body: Any = None, status: int = 200) -> Any:
        response = await self._client.request(method, replica.url + path, json=body, headers=self.headers)
        assert response.status_code == status, response.text
        return response.json()

    async def items(self, replica: Replica) -> list[str]:
        """Return the titles of the inbox items that a replica lists."""
        return [item["ask"]["title"] for item in (await self.call(replica, "GET", "/api/inbox"))["items"]]

    @asynccontextmanager
    async def watching(self, replica: Replica) -> AsyncGenerator["Events", None]:
        """Watch the inbox through a replica."""
        async with self.events(replica, "/api/inbox/watch") as events:
            yield events

    @asynccontextmanager
    async def events(
        self, replica: Replica, path: str, headers: dict[str, str] | None = None
    ) -> AsyncGenerator["Events", None]:
        """Read server-sent events. Leaving the block closes the connection."""
        given = {**self.headers, **(headers or {})}
        async with self._client.stream("GET", replica.url + path, headers=given) as response:
            assert response.status_code == 200
            yield Events(response)


class Events:
    """Server-sent events, with their ids."""

    def __init__(self, response: httpx2.Response) -> None:
        self.seen: list[tuple[int | None, Any]] = []
        self._lines = response.aiter_lines()
        self._id: int | None = None

    async def until(self, fits: Callable[[Any], bool]) -> Any:
        """Return the first event from now on that fits."""
        async with asyncio.timeout(PATIENCE):
            while True:
                number, event = await self.next()
                self.seen.append((number, event))
                if fits(event):
                    return event

    async def next(self) -> tuple[int | None, Any]:
        """Return the next event and its id, if it has one."""
        async for line in self._lines:
            if line.startswith("id: "):
                self._id = int(line.removeprefix("id: "))
            elif line.startswith("data: "):
                number, self._id = self._id, None
                return number, json.loads(line.removeprefix("data: "))
        raise AssertionError("the stream has ended")


class Asking:
    """Asks items in the inboxes of replicas, and withdraws them at the end of the test."""

    def __init__(self, stack: AsyncExitStack) -> None:
        self._stack = stack

    async def ask(self, inbox: Inbox, item: InboxItem, **origin: str) -> "asyncio.Task[Answer]":
        """Ask for an answer, and return when the item waits for it."""
        version = inbox.version
        asked = asyncio.create_task(inbox.ask(Origin(**origin), item))
        self._stack.callback(asked.cancel)
        await inbox.change(version)
        return asked
