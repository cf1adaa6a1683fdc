"""Replicas in the loop of the test: they share a real PostgreSQL database and a simulated Cursor.

A `Conversation` is a client that may send each request to another replica, in any of the four dialects.
"""

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import httpx2
from msgspec.structs import replace
from websockets.asyncio.client import connect

from tests.catalogue.serving import listening
from tieline.app.build.application import App, build
from tieline.app.config import ClusterSettings, Config, CursorSettings, StoreSettings
from tieline.app.serve import joined
from tieline.sim.cursor import CursorSim

KEY = "gateway-key"
SECRET = "the-secret-of-this-cluster"
DEMO = "cursor/demo"
PATIENCE = 30.0
SCRIPT = '```tieline\ncall: get_weather {"city": "Oslo"}\n---\ntext: It is {{result}}.\n```'
"""Makes the demo model call a tool of the client, and repeat the result."""
WEATHER = {"type": "object", "properties": {"city": {"type": "string"}}}


class Replica:
    """A replica in the loop of the test."""

    def __init__(self, app: App, url: str) -> None:
        assert app.cluster is not None
        self.app = app
        self.url = url
        self.cluster = app.cluster
        self.tag = app.cluster.membership.tag

    @property
    def parked(self) -> int:
        return self.app.gateway.metrics.parked

    @property
    def resumed(self) -> int:
        return self.app.gateway.metrics.resumed


class Stand:
    """A cluster, the simulator behind it, and an HTTP client in front of it."""

    def __init__(self, sim: CursorSim, database: str, stack: AsyncExitStack, client: httpx2.AsyncClient) -> None:
        self.sim = sim
        self.client = client
        self.replicas: list[Replica] = []
        self._database = database
        self._stack = stack

    async def add(self, config: Config | None = None, env: Mapping[str, str] | None = None, **cluster: Any) -> Replica:
        """Start one more replica, and wait until all replicas know it."""
        settings = {"heartbeat_seconds": 0.2, "dead_seconds": 1.0, **cluster}
        config = replace(
            config or Config(),
            cursor=CursorSettings(enabled=True, api_url=self.sim.url, transport="http2", ghost_mode=True),
            store=StoreSettings(url=self._database),
            cluster=ClusterSettings(listen="127.0.0.1:0", **settings),
        )
        known = {"TIELINE_KEY": KEY, "TIELINE_CLUSTER_SECRET": SECRET, **(env or {})}
        app = build(config, known, "demo")
        self._stack.push_async_callback(app.aclose)
        assert app.cluster is not None
        await self._stack.enter_async_context(joined(app, app.cluster))
        replica = Replica(app, await self._stack.enter_async_context(listening(app)))
        self.replicas.append(replica)
        for other in self.replicas:
            for one in self.replicas:
                if one is not other:
                    await until(lambda other=other, one=one: other.cluster.membership.find(one.tag) is not None)
        return replica

    async def remove(self, replica: Replica) -> None:
        """Let a replica leave, and wait until the others know it."""
        await replica.cluster.aclose()
        self.replicas.remove(replica)
        for other in self.replicas:
            await until(lambda other=other: other.cluster.membership.find(replica.tag) is None)


@asynccontextmanager
async def cluster(database: str, size: int = 2, **settings: Any) -> AsyncGenerator[Stand, None]:
    """A cluster of this size."""
    async with AsyncExitStack() as stack:
        sim = await stack.enter_async_context(CursorSim())
        client = await stack.enter_async_context(httpx2.AsyncClient(timeout=PATIENCE))
        stand = Stand(sim, database, stack, client)
        for _ in range(size):
            await stand.add(**settings)
        yield stand


async def until(condition: Any) -> None:
    """Wait until something has happened."""
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110 - replicas have no event for every change
            await asyncio.sleep(0.01)


class Conversation(ABC):
    """A conversation whose requests may go to different replicas."""

    def __init__(self, client: httpx2.AsyncClient, *, stream: bool = True, model: str = DEMO) -> None:
        self.client = client
        self.stream = stream
        self.model = model
        self.history: list[Any] = []
        self.headers = {"authorization": f"Bearer {KEY}", "user-agent": "test-client"}

    async def start(self, url: str) -> str:
        """Ask a question that makes the model call a tool. Return the id of the call."""
        self.history.append(self._user(SCRIPT))
        return await self._call(url)

    async def finish(self, url: str, result: str = "sunny") -> str:
        """Send the result of the call. Return the text of the answer."""
        self._add_result(result)
        return self._text(await self._send(url))

    async def _call(self, url: str) -> str:
        call = self._called(await self._send(url))
        self.history.append(call)
        return self._id(call)

    async def _send(self, url: str) -> Any:
        body = {**self._body(), "model": self.model, "stream": self.stream}
        async with self.client.stream("POST", url + self.path, json=body, headers=self.headers) as response:
            data = (await response.aread()).decode()
            assert response.status_code == 200, data
        if not self.stream:
            return json.loads(data)
        lines = [line.removeprefix("data: ") for line in data.splitlines() if line.startswith("data: {")]
        return self._folded([json.loads(line) for line in lines])

    path = ""

    def _user(self, text: str) -> Any:
        return {"role": "user", "content": text}

    @abstractmethod
    def _body(self) -> dict[str, Any]: ...
    @abstractmethod
    def _folded(self, events: list[Any]) -> Any: ...
    @abstractmethod
    def _called(self, answer: Any) -> Any: ...
    @abstractmethod
    def _id(self, call: Any) -> str: ...
    @abstractmethod
    def _add_result(self, result: str) -> None: ...
    @abstractmethod
    def _text(self, answer: Any) -> str: ...


class Chat(Conversation):
    path = "/v1/chat/completions"

    def _body(self) -> dict[str, Any]:
        tools = [{"type": "function", "function": {"name": "get_weather", "parameters": WEATHER}}]
        return {"messages": self.history, "tools": tools}

    def _folded(self, events: list[Any]) -> Any:
        message: dict[str, Any] = {"role": "assistant", "content": "", "tool_calls": []}
        for event in events:
            for choice in event["choices"]:
                delta = choice["delta"]
                message["content"] += delta.get("content") or ""
                for call in delta.get("tool_calls") or ():
                    if "id" in call:
                        message["tool_calls"].append({key: call[key] for key in ("id", "type", "function")})
                    else:
                        message["tool_calls"][-1]["function"]["arguments"] += call["function"]["arguments"]
        return {"choices": [{"message": message}]}

    def _called(self, answer: Any) -> Any:
        return answer["choices"][0]["message"]

    def _id(self, call: Any) -> str:
        return str(call["tool_calls"][0]["id"])

    def _add_result(self, result: str) -> None:
        self.history.append({"role": "tool", "tool_call_id": self._id(self.history[-1]), "content": result})

    def _text(self, answer: Any) -> str:
        return str(answer["choices"][0]["message"]["content"])


class Messages(Conversation):
    path = "/v1/messages"

    def _body(self) -> dict[str, Any]:
        tools = [{"name": "get_weather", "input_schema": WEATHER}]
        return {"messages": self.history, "tools": tools, "max_tokens": 1000}

    def _folded(self, events: list[Any]) -> Any:
        blocks: list[Any] = []
        for event in events:
            if event["type"] == "content_block_start":
                blocks.append({**event["content_block"], "json": ""})
            elif event["type"] == "content_block_delta":
                delta = event["delta"]
                blocks[-1]["json"] += delta.get("partial_json", "")
                if "text" in delta:
                    blocks[-1]["text"] += delta["text"]
        for block in blocks:
            raw = block.pop("json")
            if block["type"] == "tool_use":
                block["input"] = json.loads(raw or "{}")
        return {"content": blocks}

    def _called(self, answer: Any) -> Any:
        return {"role": "assistant", "content": answer["content"]}

    def _id(self, call: Any) -> str:
        return next(str(block["id"]) for block in call["content"] if block["type"] == "tool_use")

    def _add_result(self, result: str) -> None:
        block = {"type": "tool_result", "tool_use_id": self._id(self.history[-1]), "content": result}
        self.history.append({"role": "user", "content": [block]})

    def _text(self, answer: Any) -> str:
        return "".join(block["text"] for block in answer["content"] if block["type"] == "text")


class Responses(Conversation):
    """A conversation of the Responses API: stateless, or with stored responses if `stores` is true."""

    path = "/v1/responses"
    stores = False
    previous: str | None = None

    def _body(self) -> dict[str, Any]:
        tools = [{"type": "function", "name": "get_weather", "parameters": WEATHER}]
        body = {"input": self.history, "tools": tools, "store": self.stores}
        return body if self.previous is None else {**body, "previous_response_id": self.previous}

    def _folded(self, events: list[Any]) -> Any:
        assert events[-1]["type"] == "response.completed", events[-1]
        return events[-1]["response"]

    def _called(self, answer: Any) -> Any:
        call = next(item for item in answer["output"] if item["type"] == "function_call")
        if self.stores:
            self.previous, self.history = answer["id"], []
        return call

    def _id(self, call: Any) -> str:
        return str(call["call_id"])

    def _add_result(self, result: str) -> None:
        call = self.history.pop() if self.stores else self.history[-1]
        self.history.append({"type": "function_call_output", "call_id": self._id(call), "output": result})

    def _text(self, answer: Any) -> str:
        texts = [part["text"] for item in answer["output"] if item["type"] == "message" for part in item["content"]]
        return "".join(texts)


class StoredResponses(Responses):
    stores = True


class Socket(Responses):
    """The Responses API over WebSockets, one for each request."""

    async def _send(self, url: str) -> Any:
        address = url.replace("http", "ws", 1) + self.path
        async with connect(address, additional_headers={"authorization": f"Bearer {KEY}"}) as socket:
            await socket.send(json.dumps({"type": "response.create", "model": self.model, **self._body()}))
            events: list[Any] = []
            while not events or events[-1]["type"] not in ("response.completed", "error", "response.failed"):
                events.append(json.loads(await socket.recv()))
        return self._folded(events)


CONVERSATIONS: dict[str, type[Conversation]] = {
    "chat": Chat,
    "messages": Messages,
    "responses": Responses,
    "stored responses": StoredResponses,
    "websocket": Socket,
}
