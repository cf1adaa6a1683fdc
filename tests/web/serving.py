"""The page's server over real HTTP in the loop of the test, with a scripted backend behind it and a page in front."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, MutableMapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, cast

import httpx2

from tests.catalogue.serving import listening
from tests.core.scripted import PATIENCE, Script
from tieline.app.build.application import App, build
from tieline.app.config import Config
from tieline.model.ports import Backend

Message = dict[str, Any]
KEY = "the-key-of-this-gateway"


class PageStand:
    """A running gateway and its page."""

    def __init__(self, app: App, url: str, http: httpx2.AsyncClient, backend: Script) -> None:
        self.app = app
        self.url = url
        self.http = http
        self.backend = backend
        self.token = ""

    async def state(self) -> Message:
        state: Message = (await self.http.get("/api/state")).json()
        self.token = state["token"]
        return state

    async def unlock(self, key: str = KEY) -> str:
        """Show the key once, as the page does; the pass that it gets for it goes along from then on."""
        given: str = (await self.http.post("/api/login", json={"key": key})).json()["pass"]
        self.http.headers["x-tieline-pass"] = given
        return given

    async def call(self, method: str, path: str, body: Any = None, status: int = 200) -> Any:
        """What a request of the page is answered with."""
        if not self.token:
            await self.state()
        response = await self.http.request(method, path, json=body, headers={"x-tieline-token": self.token})
        assert response.status_code == status, response.text
        return response.json()

    async def get(self, path: str) -> Any:
        return await self.call("GET", path)

    async def post(self, path: str, body: Any = None, status: int = 200) -> Any:
        return await self.call("POST", path, body or {}, status)

    async def begin(self, model: str = "test/m") -> str:
        """A new session."""
        return str((await self.post("/api/sessions", {"model": model}))["id"])

    async def say(self, session: str, text: str) -> Message:
        """Say something and wait for the whole answer."""
        async with self.stream() as stream:
            sent = await self.post(f"/api/sessions/{session}/send", {"text": text})
            return await stream.turn(sent["assistant"])

    async def waiting(self, session: str, text: str = "Go") -> str:
        """Say something, and wait until the script of the answer waits; the id of the answer."""
        self.backend.reached.clear()
        sent = await self.post(f"/api/sessions/{session}/send", {"text": text})
        async with asyncio.timeout(PATIENCE):
            await self.backend.reached.wait()
        return str(sent["assistant"])

    @asynccontextmanager
    async def stream(self, since: int | None = None) -> AsyncIterator["Listener"]:
        """The stream, from a number on or from now on; leaving the block closes the connection."""
        headers = {} if since is None else {"last-event-id": str(since)}
        async with self.http.stream("GET", "/api/stream", headers=headers) as response:
            assert response.status_code == 200
            listener = Listener(response)
            await listener.begun()
            yield listener


class Listener:
    """A page that reads the stream."""

    def __init__(self, response: httpx2.Response) -> None:
        self.headers = response.headers
        self.messages: list[Message] = []
        self.numbers: list[int] = []
        self._pieces = response.aiter_raw()
        self._rest = b""

    async def begun(self) -> None:
        async with asyncio.timeout(PATIENCE):
            while b"\n\n" not in self._rest:
                self._rest += await anext(self._pieces)
        self._take()

    async def until(self, fits: Callable[[Message], bool]) -> Message:
        """The first message from now on that fits."""
        place = len(self.messages)
        async with asyncio.timeout(PATIENCE):
            while True:
                for message in self.messages[place:]:
                    if fits(message):
                        return message
                place = len(self.messages)
                self._rest += await anext(self._pieces)
                self._take()

    async def turn(self, message: str) -> Message:
        """A message of a session when it is complete."""
        found = await self.until(lambda one: one["type"] == "turn" and one["turn"]["id"] == message)
        turn: Message = found["turn"]
        return turn

    def of(self, kind: str) -> list[Message]:
        return [message for message in self.messages if message["type"] == kind]

    def _take(self) -> None:
        *frames, self._rest = self._rest.split(b"\n\n")
        for frame in frames:
            lines = [line for line in frame.decode().split("\n") if line and not line.startswith((":", "retry:"))]
            if lines:
                fields = dict(line.split(": ", 1) for line in lines)
                self.numbers.append(int(fields["id"]))
                self.messages.append(json.loads(fields["data"]))


def text_of(events: list[Message]) -> str:
    """The words in events, as a page puts them together."""
    return "".join(event["text"] for event in events if event["type"] == "part_delta")


def said(messages: list[Message]) -> str:
    """The words in messages of the stream."""
    return "".join(text_of(message["events"]) for message in messages if message["type"] == "events")


@asynccontextmanager
async def serving(
    folder: Path, config: Config | None = None, env: Mapping[str, str] | None = None, **client: Any
) -> AsyncIterator[PageStand]:
    """A stand; `folder` is the home of its user."""
    async with AsyncExitStack() as stack:
        given = {"HOME": str(folder), "PATH": "", **(env or {})}
        app = build(config or Config(), given)
        stack.push_async_callback(app.aclose)
        app.storage.start()
        backend = Script()
        cast(MutableMapping[str, Backend], app.backends)["test"] = backend
        url = await stack.enter_async_context(listening(app))
        http = await stack.enter_async_context(httpx2.AsyncClient(base_url=url, timeout=PATIENCE, **client))
        yield PageStand(app, url, http, backend)
