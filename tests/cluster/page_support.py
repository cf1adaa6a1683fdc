"""Two owners and their requests to the inbox and the page of a cluster, through any replica."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, MutableMapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, cast

import httpx2

from tests.cluster.support import KEY, PATIENCE, Replica, Stand, cluster
from tests.core.scripted import Script
from tieline.app.config import Config, KeySettings
from tieline.core.inbox.inbox import Inbox
from tieline.model.inbox import Answer, InboxItem, Origin
from tieline.model.ports import Backend

ANN, BOB = "key-of-ann", "key-of-bob"
PAGES = ("/api/",)
TWO_OWNERS = Config(
    keys={"ann": KeySettings(key_env="ANN_KEY", paths=PAGES), "bob": KeySettings(key_env="BOB_KEY", paths=PAGES)}
)
OWNER_KEYS = {"ANN_KEY": ANN, "BOB_KEY": BOB}


@asynccontextmanager
async def paged_cluster(
    database: str, size: int = 2, **settings: Any
) -> AsyncGenerator[tuple[Stand, dict[str, Script]], None]:
    """A cluster whose replicas have a scripted backend, by their tags. Its model is `test/m`."""
    async with cluster(database, size, **settings) as stand:
        scripts = {}
        for replica in stand.replicas:
            script = scripts[replica.tag] = Script()
            cast(MutableMapping[str, Backend], replica.app.backends)["test"] = script
        yield stand, scripts


class Person:
    """A person with a key, whose requests may go to any replica."""

    def __init__(self, stand: Stand, key: str = KEY) -> None:
        self.headers = {"authorization": f"Bearer {key}"}
        self._client = stand.client

    async def call(self, replica: Replica, method: str, path: str, body: Any = None, status: int = 200) -> Any:
        token = (await self._client.get(replica.url + "/api/state", headers=self.headers)).json()["token"]
        headers = {**self.headers, "x-tieline-token": token}
        response = await self._client.request(method, replica.url + path, json=body, headers=headers)
        assert response.status_code == status, response.text
        return response.json()

    async def get(self, replica: Replica, path: str, status: int = 200) -> Any:
        return await self.call(replica, "GET", path, status=status)

    async def post(self, replica: Replica, path: str, body: Any = None, status: int = 200) -> Any:
        return await self.call(replica, "POST", path, body or {}, status)

    async def begin(self, replica: Replica, model: str = "test/m") -> str:
        """Create a session and return its id."""
        return str((await self.post(replica, "/api/sessions", {"model": model}))["id"])

    async def say(self, replica: Replica, session: str, text: str) -> None:
        """Send a message and wait until it has been answered."""
        sent = await self.post(replica, f"/api/sessions/{session}/send", {"text": text})
        async with asyncio.timeout(PATIENCE):
            while (await self.texts(replica, session)).get(sent["assistant"]) is None:  # noqa: ASYNC110 - see `until`
                await asyncio.sleep(0.02)
        await self.until(replica, session, lambda summary: not summary["running"])

    async def until(self, replica: Replica, session: str, fits: Callable[[Any], bool]) -> None:
        """Wait until the summary of a session fits, which a replica lists."""
        async with asyncio.timeout(PATIENCE):
            # Replicas have no event for every change.
            while not fits((await self.summaries(replica))[session]):  # noqa: ASYNC110 - see above
                await asyncio.sleep(0.02)

    async def texts(self, replica: Replica, session: str) -> dict[str, str | None]:
        """Return the texts of the messages of a session by their ids; None for a message in progress."""
        messages = (await self.get(replica, f"/api/sessions/{session}"))["messages"]
        return {
            turn["id"]: "".join(part["text"] for part in turn["parts"]) if _is_complete(turn) else None
            for turn in messages
        }

    async def shown(self, replica: Replica, session: str) -> list[str | None]:
        """Return the texts of the messages of a session."""
        return list((await self.texts(replica, session)).values())

    async def summaries(self, replica: Replica) -> dict[str, Any]:
        """Return the summaries of the sessions that a replica lists, by id."""
        return {one["id"]: one for one in (await self.get(replica, "/api/state"))["sessions"]}

    async def items(self, replica: Replica) -> list[str]:
        """Return the titles of the inbox items that a replica lists."""
        return [item["ask"]["title"] for item in (await self.call(replica, "GET", "/api/inbox"))["items"]]

    @asynccontextmanager
    async def watching(self, replica: Replica) -> AsyncGenerator["Events", None]:
        """Watch the inbox through a replica."""
        async with self.events(replica, "/api/inbox/watch") as events:
            yield events

    @asynccontextmanager
    async def stream(self, replica: Replica, since: int) -> AsyncGenerator["Events", None]:
        """Read the stream of the page through a replica, after the message with this number."""
        async with self.events(replica, "/api/stream", {"last-event-id": str(since)}) as events:
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


def _is_complete(turn: Any) -> bool:
    return turn["role"] == "user" or turn["ending"] is not None


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
