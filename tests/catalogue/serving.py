"""The real gateway over real HTTP in the loop of the test, between a plain client and scripted upstreams.

The client is plain on purpose: it reads every byte that comes and forgives nothing. Backends are named as in the tests
with the official clients: `ant` speaks Messages, `oai` Chat Completions, `res` Responses.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Literal

import httpx2
import pytest
from uvicorn.server import ServerState

from tests.cases import leg
from tests.catalogue.crossing import PROTOCOLS, Protocol
from tieline.app.build.application import App, build
from tieline.app.config import Config, ServerSettings, UpstreamSettings
from tieline.app.serve import server_config
from tieline.frontends.http_app import HttpApp
from tieline.model.content import Text
from tieline.model.events import Event
from tieline.net.server.protocol import HttpServerProtocol
from tieline.sim.answers import PATHS, Dialect, streamed, whole
from tieline.sim.model import Answer, Chunk, ModelServer, Pause, Received, Script

Backend = Literal["ant", "oai", "res"]

KEY = "gateway-key"
MODEL = "test-model"
SECRETS: dict[Backend, str] = {
    "ant": "sk-ant-upstream-secret",
    "oai": "oai-upstream-secret",
    "res": "res-upstream-secret",
}
PATIENCE = 60.0

BACKENDS: tuple[Backend, ...] = ("ant", "oai", "res")
DIALECTS: dict[Backend, Dialect] = {"ant": "anthropic", "oai": "openai", "res": "responses"}
PATH: dict[Protocol, str] = {"anthropic": "/v1/messages", "openai_chat": "/v1/chat/completions"}
FRONTEND: dict[Protocol, str] = {"anthropic": "messages", "openai_chat": "chat"}

DIRECTIONS = pytest.mark.parametrize(("backend", "client"), list(product(BACKENDS, PROTOCOLS)))
CLIENTS = pytest.mark.parametrize("client", PROTOCOLS)
STREAMED_OR_WHOLE = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])


# ── What the client hears ────────────────────────────────────────────────────────────────────────


@dataclass
class Heard:
    """A response as the client has it: the JSON objects of a stream, or the one of a body."""

    client: Protocol
    status: int
    headers: Mapping[str, str]
    raw: bytes
    frames: list[Any] = field(default_factory=list)
    done: bool = False
    is_broken: bool = False
    """Whether the connection was closed before the response was complete."""

    @property
    def is_stream(self) -> bool:
        return self.headers["content-type"].startswith("text/event-stream")

    @property
    def text(self) -> str:
        pieces = _anthropic_pieces if self.client == "anthropic" else _openai_pieces
        return "".join(piece for frame in self.frames for piece in pieces(frame))

    @property
    def error(self) -> dict[str, Any] | None:
        """What the client is told went wrong; nothing may follow it."""
        found = [frame["error"] for frame in self.frames if frame.get("error")]
        assert len(found) <= 1
        assert not found or self.frames[-1].get("error") == found[0], "something follows the error"
        return found[0] if found else None

    @property
    def claims_success(self) -> bool:
        if self.client == "anthropic":
            return any(frame["type"] in ("message", "message_delta", "message_stop") for frame in self.frames)
        choices = [choice for frame in self.frames for choice in frame.get("choices", ())]
        return self.done or any(choice["finish_reason"] for choice in choices)

    def check_failed(self, status: int | None = None) -> dict[str, Any]:
        """The error this response is, in the form of its dialect: a status of its own, or the end of a stream."""
        error = self.error
        assert error is not None, self.raw
        assert not self.claims_success
        if status is not None:
            assert (self.status, self.headers["content-type"]) == (status, "application/json"), self.raw
        if self.client == "anthropic":
            assert self.frames[-1]["type"] == "error"
            assert {"type", "message"} <= set(error)
        else:
            assert set(error) == {"message", "type", "param", "code"}
        assert error["message"]
        assert self.is_broken == self.is_stream, "a stream that failed must not end like a complete one"
        assert "Traceback" not in self.raw.decode()
        return error


def heard(client: Protocol, status: int, headers: Mapping[str, str], raw: bytes, is_broken: bool = False) -> Heard:
    """Read a whole response; a stream must consist of whole events."""
    response = Heard(client, status, headers, raw, is_broken=is_broken)
    if not response.is_stream:
        response.frames.append(json.loads(raw))
        return response
    for name, data in _events(raw):
        if data == "[DONE]":
            response.done = True
            continue
        assert not response.done, "something follows the end"
        response.frames.append(json.loads(data))
        if client == "anthropic":
            assert name == response.frames[-1]["type"]
    return response


def _events(raw: bytes) -> Iterable[tuple[str, str]]:
    *blocks, rest = raw.decode().split("\n\n")
    assert all(line.startswith(":") for line in rest.splitlines()), f"an event without its end: {rest!r}"
    for block in blocks:
        lines = [line for line in block.split("\n") if not line.startswith(":")]
        fields = dict(line.split(": ", 1) for line in lines)
        assert len(fields) == len(lines), f"not one event: {block!r}"
        yield fields.get("event", ""), fields["data"]


def _openai_pieces(frame: Any) -> Iterable[str]:
    for choice in frame.get("choices", ()):
        yield (choice.get("delta") or choice.get("message") or {}).get("content") or ""


def _anthropic_pieces(frame: Any) -> Iterable[str]:
    match frame["type"]:
        case "message":
            return [block["text"] for block in frame["content"]]
        case "content_block_delta":
            return [frame["delta"].get("text", "")]
        case _:
            return []


# ── The stand ────────────────────────────────────────────────────────────────────────────────────


class Stand:
    """A running gateway, the upstreams behind it, and a client in front of it."""

    def __init__(
        self,
        app: App,
        url: str,
        upstreams: dict[Backend, ModelServer],
        http: httpx2.AsyncClient,
        state: ServerState,
    ) -> None:
        self.app = app
        self.url = url
        self.upstreams = upstreams
        self.http = http
        self._state = state

    def stop(self) -> None:
        """Tell all connections that the gateway is being stopped, as the server does."""
        for connection in list(self._state.connections):
            connection.shutdown()

    def script(self, backend: Backend, *answers: Script) -> None:
        """The next answers of an upstream."""
        self.upstreams[backend].script(PATHS[DIALECTS[backend]], *answers)

    def asked(self, backend: Backend) -> list[Received]:
        """What an upstream was asked so far."""
        return self.upstreams[backend].requests

    async def arrival(self, backend: Backend) -> Received:
        """The next request of an upstream."""
        async with asyncio.timeout(PATIENCE):
            return await self.upstreams[backend].arrival()

    async def gone(self, backend: Backend) -> None:
        """Wait until the gateway has given up every request of an upstream."""
        async with asyncio.timeout(PATIENCE):
            await asyncio.gather(*(request.gone for request in self.asked(backend)))

    async def ask(self, client: Protocol, backend: Backend, *, stream: bool, **more: Any) -> Heard:
        """Ask, and hear the whole response."""
        body = question(backend, stream=stream, **more)
        async with self.http.stream("POST", PATH[client], json=body) as response:
            return await Ear(client, response).rest()

    @asynccontextmanager
    async def listen(self, client: Protocol, backend: Backend, **more: Any) -> AsyncIterator["Ear"]:
        """Ask for a stream and hear it as it comes; leaving the block closes the connection."""
        body = question(backend, stream=True, **more)
        async with self.http.stream("POST", PATH[client], json=body) as response:
            yield Ear(client, response)

    async def interrupted(self, client: Protocol, backend: Backend, *then: Chunk) -> Heard:
        """Hear a stream that goes on like this only after its first word has come."""
        pause = Pause()
        self.script(backend, begins(backend, pause, *then))
        async with self.listen(client, backend) as ear:
            await ear.until(b"Hel")
            pause.set()
            return await ear.rest()

    async def counted(self, line: str) -> None:
        """Wait until the metrics have this line."""
        async with asyncio.timeout(PATIENCE):
            while line not in (await self.http.get("/metrics")).text.splitlines():
                pass

    @asynccontextmanager
    async def connection(
        self, path: str, body: bytes
    ) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        """A connection of one's own with one request sent."""
        reader, writer = await asyncio.open_connection("127.0.0.1", int(self.url.rpartition(":")[2]))
        head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\nx-api-key: {KEY}\r\ncontent-length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        try:
            yield reader, writer
        finally:
            writer.close()


class Ear:
    """A stream on its way to the client."""

    def __init__(self, client: Protocol, response: httpx2.Response) -> None:
        self.client = client
        self.status = response.status_code
        self.headers = response.headers
        self.raw = b""
        self._pieces = response.aiter_raw()

    async def until(self, words: bytes) -> None:
        """Listen until these bytes have come."""
        async with asyncio.timeout(PATIENCE):
            while words not in self.raw:
                self.raw += await anext(self._pieces)

    async def rest(self) -> Heard:
        """Listen to the end."""
        is_broken = False
        try:
            async with asyncio.timeout(PATIENCE):
                async for piece in self._pieces:
                    self.raw += piece
        except httpx2.RemoteProtocolError:
            is_broken = True
        return heard(self.client, self.status, self.headers, self.raw, is_broken)


def question(backend: Backend, *, stream: bool, **more: Any) -> dict[str, Any]:
    """A small request that both protocols understand."""
    messages = [{"role": "user", "content": "Hi"}]
    return {"model": f"{backend}/{MODEL}", "messages": messages, "max_tokens": 10, "stream": stream, **more}


@asynccontextmanager
async def serving(
    server: Mapping[str, Any] | None = None,
    env: Mapping[str, str] | None = None,
    settings: Mapping[str, Any] | None = None,
    **upstream: Any,
) -> AsyncIterator[Stand]:
    """A stand with `server` and other `settings`, more of an environment, and settings of all upstreams."""
    async with AsyncExitStack() as stack:
        upstreams: dict[Backend, ModelServer] = {
            name: await stack.enter_async_context(ModelServer()) for name in BACKENDS
        }
        app = build(
            Config(
                server=ServerSettings(**server or {}),
                upstreams={name: _settings(name, upstreams[name].url, upstream) for name in upstreams},
                **settings or {},
            ),
            {"TIELINE_KEY": KEY, **{f"{name}_key": secret for name, secret in SECRETS.items()}, **(env or {})},
        )
        stack.push_async_callback(app.aclose)
        state = ServerState()
        url = await stack.enter_async_context(listening(app, state=state))
        http = httpx2.AsyncClient(base_url=url, headers={"x-api-key": KEY}, timeout=PATIENCE)
        yield Stand(app, url, upstreams, await stack.enter_async_context(http), state)


def _settings(name: Backend, url: str, given: Mapping[str, Any]) -> UpstreamSettings:
    kind: Literal["anthropic", "openai"] = "anthropic" if name == "ant" else "openai"
    own = {"base_url": url if name == "ant" else f"{url}/v1", "key_env": f"{name}_key", "models": (MODEL,)}
    api: Literal["responses"] | None = "responses" if name == "res" else None
    return UpstreamSettings(kind=kind, **{**own, "api": api, "retries": 0, **given})


@asynccontextmanager
async def listening(
    app: App, port: int = 0, asgi: HttpApp | None = None, state: ServerState | None = None
) -> AsyncIterator[str]:
    """The gateway as it is served, without the ticking server around it, which takes its time to stop."""
    config = server_config(app, asgi)
    config.load()
    state = state or ServerState()
    state.default_headers = config.encoded_headers  # as the ticking server does
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: HttpServerProtocol(config, state, {}), "127.0.0.1", port)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for connection in list(state.connections):
            connection.transport.abort()
        if state.tasks:
            _, running = await asyncio.wait(state.tasks, timeout=PATIENCE)
            assert not running, "a request outlives its connection"
        await server.wait_closed()


# ── What the upstreams say ───────────────────────────────────────────────────────────────────────


def words(*pieces: str) -> list[Event]:
    """A leg of text."""
    return leg((Text(), list(pieces)))


BEGUN = words("Hel", "lo")[:3]
"""A leg up to the first word: what follows is a matter of the test."""


def says(backend: Backend, *pieces: str) -> Callable[[Received], Answer]:
    """The text as it is asked for: streamed or whole."""
    events, dialect = words(*pieces), DIALECTS[backend]
    return lambda request: streamed(dialect, events) if request.json.get("stream") else whole(dialect, events)


def begins(backend: Backend, *then: Chunk) -> Answer:
    """A stream that says `Hel`, and then this."""
    return streamed(DIALECTS[backend], [*BEGUN, *then])
