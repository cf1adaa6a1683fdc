"""A plain client of the Responses API, in front of the real gateway over real HTTP."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
from websockets.asyncio.client import ClientConnection, connect

from tests.catalogue.serving import DIALECTS, KEY, PATIENCE, Backend, Stand, serving, words
from tieline.app.config import ResponsesSettings
from tieline.sim.answers import streamed
from tieline.sim.model import Answer, Pause

DEMO = "demo/scripted"
OTHER_KEY = "other-key"
TERMINAL = ("response.completed", "response.incomplete", "response.failed")


class Reply(NamedTuple):
    """A response with a JSON body."""

    status: int
    body: Any
    headers: Mapping[str, str]

    @property
    def error(self) -> tuple[int, str | None, str | None, str]:
        """The status, the code, the field and the message of an error, which must have OpenAI's form."""
        error = self.body["error"]
        assert set(error) == {"message", "type", "param", "code"}, self.body
        assert "Traceback" not in error["message"]
        return self.status, error["code"], error["param"], error["message"]

    @property
    def text(self) -> str:
        return text_of(self.body)


def text_of(response: Any) -> str:
    """The text of a Response object."""
    assert response["status"] == "completed", response
    messages = [item for item in response["output"] if item["type"] == "message"]
    return "".join(part["text"] for item in messages for part in item["content"])


class Events(list[Any]):
    """The events of a stream."""

    @property
    def types(self) -> list[str]:
        return [event["type"] for event in self]

    @property
    def response(self) -> Any:
        """The final response. The stream must be complete, and its numbers without gaps."""
        assert [event["type"] for event in self if event["type"] in TERMINAL] == [self[-1]["type"]], self.types
        numbers = [event["sequence_number"] for event in self]
        assert numbers == list(range(numbers[0], numbers[0] + len(self)))
        return self[-1]["response"]

    @property
    def done(self) -> list[Any]:
        """The items that are complete."""
        return [event["item"] for event in self if event["type"] == "response.output_item.done"]


class Api:
    """The client."""

    def __init__(self, stand: Stand) -> None:
        self.stand = stand
        self.http = stand.http

    async def create(self, backend: Backend | None = None, **body: Any) -> Reply:
        """Create a response that is not streamed."""
        return await self.post("/v1/responses", **_body(backend, body))

    async def created(self, backend: Backend | None = None, **body: Any) -> Any:
        """The response that is created."""
        reply = await self.create(backend, **body)
        assert reply.status == 200, reply.body
        return reply.body

    async def stream(self, backend: Backend | None = None, **body: Any) -> Events:
        """Create a response and return its events."""
        body = {**_body(backend, body), "stream": True}
        async with self.http.stream("POST", "/v1/responses", json=body) as response:
            return await events_of(response)

    async def follow(self, response_id: str, **query: Any) -> Events:
        """The events of a background response."""
        params = {"stream": "true", **query}
        async with self.http.stream("GET", f"/v1/responses/{response_id}", params=params) as response:
            return await events_of(response)

    async def post(self, path: str, key: str = KEY, **body: Any) -> Reply:
        return _reply(await self.http.post(path, json=body, headers={"x-api-key": key}))

    async def get(self, path: str, key: str = KEY, **query: Any) -> Reply:
        return _reply(await self.http.get(path, params=query, headers={"x-api-key": key}))

    async def delete(self, path: str, key: str = KEY) -> Reply:
        return _reply(await self.http.delete(path, headers={"x-api-key": key}))

    def asked(self, backend: Backend) -> Any:
        """The messages, or the items, of the last request to an upstream."""
        body = self.stand.asked(backend)[-1].json
        return body["input"] if backend == "res" else body["messages"]

    @asynccontextmanager
    async def socket(self) -> AsyncIterator["Socket"]:
        """A WebSocket to the API."""
        url = f"{self.stand.url.replace('http', 'ws', 1)}/v1/responses"
        async with connect(
            url, additional_headers={"x-api-key": KEY}, proxy=None, close_timeout=PATIENCE
        ) as connection:
            yield Socket(connection)


class Socket:
    """A WebSocket of the client."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection

    async def ask(self, backend: Backend | None = None, **body: Any) -> Events:
        """Send a request and return its events, or the error that ends them."""
        await self.send(backend, **body)
        return await self.answer()

    async def send(self, backend: Backend | None = None, **body: Any) -> None:
        await self.connection.send(json.dumps({"type": "response.create", **_body(backend, body)}))

    async def answer(self) -> Events:
        events = Events()
        while not events or events[-1]["type"] not in (*TERMINAL, "error"):
            events.append(await self.event())
        return events

    async def event(self) -> Any:
        async with asyncio.timeout(PATIENCE):
            return json.loads(await self.connection.recv())


@asynccontextmanager
async def api(home: Path | None = None, server: Mapping[str, Any] | None = None, **settings: Any) -> AsyncIterator[Api]:
    """A client with a gateway whose user lives in `home`; `settings` are those of `[responses]`."""
    env = {"HOME": str(home)} if home is not None else None
    async with serving(server, env, {"responses": ResponsesSettings(**settings)}) as stand:
        yield Api(stand)


async def events_of(response: httpx2.Response) -> Events:
    """The events of a streamed response."""
    assert response.status_code == 200, await response.aread()
    async with asyncio.timeout(PATIENCE):
        return events_in(await response.aread())


def events_in(raw: bytes) -> Events:
    """The events of a stream."""
    events = Events()
    for block in raw.decode().split("\n\n"):
        lines = [line for line in block.split("\n") if line and not line.startswith(":")]
        if lines:
            fields = dict(line.split(": ", 1) for line in lines)
            events.append(json.loads(fields["data"]))
            assert fields["event"] == events[-1]["type"]
    return events


def paused(backend: Backend, pause: Pause) -> Answer:
    """A stream that says `Hel`, waits, and says `lo`."""
    events = words("Hel", "lo")
    return streamed(DIALECTS[backend], [*events[:3], pause, *events[3:]])


def files_below(folder: Path) -> list[Path]:
    """All files in a folder and below."""
    return [path for path in folder.rglob("*") if path.is_file()]


def user(text: str) -> Any:
    """A message of the user."""
    return {"role": "user", "content": text}


def play(*legs: str) -> Any:
    """Input that makes the demo model do exactly this, leg by leg."""
    script = "\n---\n".join(legs)
    return f"Please play this:\n\n```tieline\n{script}\n```\n"


def _body(backend: Backend | None, body: dict[str, Any]) -> dict[str, Any]:
    model = {"model": f"{backend}/test-model"} if backend is not None else {"model": DEMO}
    return {name: value for name, value in {**model, "input": "Hi", **body}.items() if value is not None}


def _reply(response: httpx2.Response) -> Reply:
    return Reply(response.status_code, response.json(), response.headers)
