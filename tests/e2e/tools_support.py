"""The real gateway with tools of its own, the official clients in front of it, and a person at the inbox.

The model is the demo model with exact scripts, so a test says what it calls; the clients bring no tools unless the test
says so.
"""

import asyncio
import json
import os
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple

import anthropic
import httpx2
import openai
import pytest

from tests.catalogue.serving import listening
from tieline.app.build.application import App, build
from tieline.app.config import ClientSettings, Config, InboxSettings, KeySettings, ToolSettings, UpstreamSettings
from tieline.core.inbox.inbox import PendingItem

Dialect = Literal["openai", "anthropic"]

KEY = "gateway-key"
DEMO = "demo/scripted"
PATIENCE = 60.0
"""No test waits longer than this, in seconds, for anything."""

EVERY_CLIENT = {"all": ClientSettings(tools=True)}

DIALECTS = pytest.mark.parametrize("dialect", ["openai", "anthropic"])
STREAMED_OR_WHOLE = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])

_TLS = ssl.create_default_context()


def script(*legs: str) -> str:
    """What the demo model is to do, leg by leg."""
    return "```tieline\n" + "\n---\n".join(legs) + "\n```"


def call(name: str, /, **arguments: Any) -> str:
    """A line of a script."""
    return f"call: {name} {json.dumps(arguments)}"


TELL = "text: It said: {{result}}"


class Told(NamedTuple):
    """What a client got, whichever way it came. `ending` is the dialect's own word."""

    text: str
    thinking: str
    calls: tuple[tuple[str, Any], ...]
    ending: str | None

    @property
    def is_over(self) -> bool:
        """Whether the turn ended well, with nothing for the client to do."""
        return self.ending in ("stop", "end_turn") and not self.calls


class Stand:
    """A running gateway, its workspace, clients, and a person who can see and answer what waits."""

    def __init__(self, app: App, url: str, root: Path, home: Path) -> None:
        self.app = app
        self.url = url
        self.root = root
        self.home = home
        self.inbox = app.gateway.inbox
        key: dict[str, Any] = {"api_key": KEY, "max_retries": 0, "timeout": PATIENCE}
        self.openai = openai.AsyncOpenAI(
            base_url=f"{url}/v1", http_client=openai.DefaultAsyncHttpxClient(verify=_TLS), **key
        )
        self.anthropic = anthropic.AsyncAnthropic(
            base_url=url, http_client=anthropic.DefaultAsyncHttpxClient(verify=_TLS), **key
        )
        self.http = httpx2.AsyncClient(base_url=url, headers={"x-api-key": KEY}, timeout=PATIENCE, verify=_TLS)

    async def tell(
        self, dialect: Dialect, words: str, *, stream: bool = True, model: str = DEMO, tools: Any = None
    ) -> Told:
        """A user of this client says something."""
        asked: dict[str, Any] = {"model": model, "messages": [{"role": "user", "content": words}]}
        if tools:
            asked["tools"] = tools
        async with asyncio.timeout(PATIENCE):
            return await (_chat if dialect == "openai" else _messages)(self, asked, stream)

    def begin(self, dialect: Dialect, words: str, **options: Any) -> "asyncio.Task[Told]":
        """The same, and meanwhile the test goes on."""
        return asyncio.create_task(self.tell(dialect, words, **options))

    async def next_item(self) -> PendingItem:
        """What waits, as soon as something does."""
        async with asyncio.timeout(PATIENCE):
            while not self.inbox.items:
                await self.inbox.change(self.inbox.version)
        return self.inbox.items[0]

    async def nothing_waits(self) -> None:
        """Wait until nothing waits."""
        async with asyncio.timeout(PATIENCE):
            while self.inbox.items:
                await self.inbox.change(self.inbox.version)

    async def answer(self, item: PendingItem, **answer: Any) -> httpx2.Response:
        """The person answers."""
        return await self.http.post(f"/api/inbox/{item.id}", json=answer)

    async def decide(self, **answer: Any) -> PendingItem:
        """The person answers the next thing that waits, and it is taken."""
        item = await self.next_item()
        response = await self.answer(item, **answer)
        assert response.status_code == 200, response.text
        return item

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        """A person sits at the inbox."""
        async with self.http.stream("GET", "/api/inbox/watch") as response:
            pieces = response.aiter_raw()
            await anext(pieces)
            yield

    def audit(self) -> list[dict[str, Any]]:
        """What was written down."""
        log = self.home / ".local" / "state" / "tieline" / "audit.jsonl"
        return [json.loads(line) for line in log.read_text().splitlines()]


async def whole(work: "asyncio.Task[Told]") -> Told:
    """What became of something begun."""
    async with asyncio.timeout(PATIENCE):
        return await work


@asynccontextmanager
async def serving(
    home: Path,
    *,
    waits: float = 60.0,
    activity: Literal["reasoning", "text", "hidden"] | None = None,
    upstreams: Mapping[str, UpstreamSettings] | None = None,
    clients: Mapping[str, ClientSettings] = EVERY_CLIENT,
    keys: Mapping[str, KeySettings] = {},
    env: Mapping[str, str] = {},
    **tools: Any,
) -> AsyncIterator[Stand]:
    """A stand whose user lives in `home`; `waits` is for how long an ask does; `tools` are settings of the tools.

    Every client receives the tools unless `clients` says otherwise.
    """
    root = home / "workspace"
    root.mkdir(exist_ok=True)
    config = Config(
        inbox=InboxSettings(timeout=waits),
        activity=activity,
        tools=ToolSettings(enabled=True, workspace=str(root), **tools),
        upstreams=upstreams or {},
        clients=clients,
        keys=keys,
    )
    env = {"TIELINE_KEY": KEY, "HOME": str(home), "PATH": os.environ["PATH"], "GREETING": "hello", **env}
    async with AsyncExitStack() as stack:
        app = build(config, env)
        stack.push_async_callback(app.aclose)
        stand = Stand(app, await stack.enter_async_context(listening(app)), root, home)
        for client in (stand.openai, stand.anthropic, stand.http):
            await stack.enter_async_context(client)
        yield stand


async def _chat(stand: Stand, asked: dict[str, Any], stream: bool) -> Told:
    if not stream:
        choice = (await stand.openai.chat.completions.create(**asked)).choices[0]
        message = choice.message
        calls = [(one.function.name, json.loads(one.function.arguments)) for one in message.tool_calls or ()]
        return Told(
            message.content or "", getattr(message, "reasoning_content", ""), tuple(calls), choice.finish_reason
        )
    text: list[str] = []
    thinking: list[str] = []
    names: list[str] = []
    arguments: list[str] = []
    ending = None
    async for chunk in await stand.openai.chat.completions.create(**asked, stream=True):
        for one in chunk.choices:
            text.append(one.delta.content or "")
            thinking.append(getattr(one.delta, "reasoning_content", None) or "")
            for called in one.delta.tool_calls or ():
                names += [called.function.name] if called.function.name else []
                arguments.append(called.function.arguments or "")
            ending = one.finish_reason or ending
    made = ((names[0], json.loads("".join(arguments))),) if names else ()
    return Told("".join(text), "".join(thinking), made, ending)


async def _messages(stand: Stand, asked: dict[str, Any], stream: bool) -> Told:
    asked = {**asked, "max_tokens": 4096}
    if stream:
        async with stand.anthropic.messages.stream(**asked) as events:
            message: Any = await events.get_final_message()
    else:
        message = await stand.anthropic.messages.create(**asked)
    return Told(
        "".join(block.text for block in message.content if block.type == "text"),
        "".join(block.thinking for block in message.content if block.type == "thinking"),
        tuple((block.name, block.input) for block in message.content if block.type == "tool_use"),
        message.stop_reason,
    )
