"""The real gateway between the official clients and a simulated Cursor, all in the loop of the test.

A `Talk` is a conversation of either client: it keeps the history as that client would, so that one test serves both
dialects. What the dialects do not share (shapes, errors) is tested with the clients themselves.
"""

import asyncio
import json
import ssl
from abc import ABC, abstractmethod
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any, Literal, NamedTuple

import anthropic
import openai
import pytest
from msgspec.structs import replace

from tests.catalogue.serving import listening
from tieline.app.build.application import App, build
from tieline.app.config import (
    ClientSettings,
    Config,
    CursorSettings,
    InboxSettings,
    ParkingSettings,
    ServerSettings,
    ToolSettings,
)
from tieline.model.content import Text, ToolCall
from tieline.model.request import ToolSpec
from tieline.sim.cursor import CursorSim, Program, RunRecord, ServerTurn, SimSettings, Step, native_tools
from tieline.sim.cursor.server_run import update
from tieline.wire.cursor._pb import updates_pb2 as updates

Transport = Literal["http2", "http1"]
Dialect = Literal["openai", "anthropic"]

KEY = "gateway-key"
DEMO = "cursor/demo"
PATIENCE = 60.0
"""No test waits longer than this, in seconds, for anything."""

TRANSPORTS = pytest.mark.parametrize("transport", ["http2", "http1"])
DIALECTS = pytest.mark.parametrize("dialect", ["openai", "anthropic"])
STREAMED_OR_WHOLE = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])

PICTURE = b"\x89PNG\r\n\x1a\n and so on"

_TLS = ssl.create_default_context()


# ── The stand ────────────────────────────────────────────────────────────────────────────────────


class Stand:
    """A running gateway, the simulator behind it, and clients in front of it."""

    def __init__(self, app: App, url: str, sim: CursorSim) -> None:
        self.app = app
        self.url = url
        self.sim = sim
        self.openai = openai.AsyncOpenAI(
            base_url=f"{url}/v1",
            api_key=KEY,
            max_retries=0,
            timeout=PATIENCE,
            http_client=openai.DefaultAsyncHttpxClient(verify=_TLS),
        )
        self.anthropic = anthropic.AsyncAnthropic(
            base_url=url,
            api_key=KEY,
            max_retries=0,
            timeout=PATIENCE,
            http_client=anthropic.DefaultAsyncHttpxClient(verify=_TLS),
        )

    def talk(self, dialect: Dialect, tools: Sequence[ToolSpec] = (), **options: Any) -> "Talk":
        """A new conversation of a client."""
        kinds: Mapping[Dialect, Callable[..., Talk]] = {"openai": _Chat, "anthropic": _Messages}
        return kinds[dialect](self, tools, **options)

    def plays(self, *programs: Program | Sequence[Any]) -> None:
        """What the simulator does in its next runs, instead of the demo's turn."""
        self.sim.scripts.queue(*programs)

    @property
    def counted(self) -> tuple[int, int]:
        """How many runs the simulator has seen, and how often its model spoke."""
        return self.sim.runs, self.sim.legs

    @property
    def record(self) -> RunRecord:
        """The latest run, as the simulator saw it."""
        return self.sim.journal[-1]

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until something has happened at the simulator."""
        async with asyncio.timeout(PATIENCE):
            await self.sim.until(condition)

    async def ended(self, ending: str = "ended") -> None:
        """Wait until the latest run is over, in this way."""
        await self.until(lambda: bool(self.record.ending))
        assert self.record.ending == ending


@asynccontextmanager
async def serving(
    transport: Transport | Literal["auto"],
    sim: SimSettings | None = None,
    *,
    script: Program | Sequence[Any] | None = None,
    parking: ParkingSettings | None = None,
    key: str | None = None,
    tls: ssl.SSLContext | None = None,
    through: Callable[[CursorSim], AbstractAsyncContextManager[str]] | None = None,
    inbox: InboxSettings | None = None,
    server: ServerSettings | None = None,
    tools: ToolSettings | None = None,
    clients: Mapping[str, ClientSettings] | None = None,
    **cursor: Any,
) -> AsyncIterator[Stand]:
    """A stand; `cursor` are settings of the backend.

    With a `key`, that is exchanged for a token; with `tls`, the simulator is reached by HTTPS only. `through` gives the
    address of something that stands in between.
    """
    async with AsyncExitStack() as stack:
        service = CursorSim(sim, script=script)
        await service.start(tls=tls)
        await stack.enter_async_context(service)
        url = await stack.enter_async_context(through(service)) if through else service.url
        settings = {"api_url": url, "transport": transport, "ghost_mode": True, "enabled": True, **cursor}
        config = Config(cursor=CursorSettings(**settings), parking=parking or ParkingSettings())
        config = replace(
            config,
            inbox=inbox or config.inbox,
            server=server or config.server,
            tools=tools or config.tools,
            clients=clients or config.clients,
        )
        env = {"TIELINE_KEY": KEY, **({"CURSOR_API_KEY": key} if key else {})}
        app = build(config, env, None if key else "demo")
        stack.push_async_callback(app.aclose)
        stand = Stand(app, await stack.enter_async_context(listening(app)), service)
        await stack.enter_async_context(stand.openai)
        await stack.enter_async_context(stand.anthropic)
        yield stand


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tries follow one another at once."""
    monkeypatch.setattr("tieline.backends.cursor.recovery.FIRST_BACK_OFF", 0.0)


# ── Conversations ────────────────────────────────────────────────────────────────────────────────


class Call(NamedTuple):
    """A call that the client is to run."""

    id: str
    name: str
    arguments: Any


class Outcome(NamedTuple):
    """What came of a call; a dialect that has no flag for errors leaves it out."""

    text: str = ""
    is_error: bool = False
    picture: bytes | None = None


class Answer(NamedTuple):
    """What a client got, whichever way it came. `ending` is the dialect's own word."""

    text: str
    thinking: str
    calls: tuple[Call, ...]
    ending: str | None
    message: Any
    """The message as it goes back with the next request."""

    @property
    def wants_tools(self) -> bool:
        """Whether the leg ended for the client to run tools."""
        return self.ending in ("tool_calls", "tool_use")

    @property
    def is_over(self) -> bool:
        """Whether the turn ended well."""
        return self.ending in ("stop", "end_turn")

    @property
    def called(self) -> list[tuple[str, Any]]:
        """The calls without their ids."""
        return [(call.name, call.arguments) for call in self.calls]


class Talk(ABC):
    """A conversation: what was said so far, and a client that says more."""

    def __init__(
        self,
        stand: Stand,
        tools: Sequence[ToolSpec],
        *,
        model: str = DEMO,
        stream: bool = True,
        **options: Any,
    ) -> None:
        self.stand = stand
        self.tools = list(tools)
        self.model = model
        self.stream = stream
        self.options = options
        self.history: list[Any] = []
        self.called: tuple[Call, ...] = ()
        """The calls of the last answer."""

    async def say(self, words: str, *pictures: bytes) -> Answer:
        """The user says something."""
        self.history.append({"role": "user", "content": [self._text(words), *map(self._picture, pictures)]})
        return await self.ask()

    async def give(self, *outcomes: str | Outcome, words: str = "") -> Answer:
        """The results of the calls in the last answer, and perhaps words of the user with them."""
        given = [Outcome(one) if isinstance(one, str) else one for one in outcomes]
        assert len(given) == len(self.called), f"{len(self.called)} calls wait"
        self._add_results([(call.id, outcome) for call, outcome in zip(self.called, given, strict=True)], words)
        return await self.ask()

    async def ask(self) -> Answer:
        """Send the history as it is."""
        answer = await self._asked()
        self.history.append(answer.message)
        self.called = answer.calls
        return answer

    @abstractmethod
    async def _asked(self) -> Answer: ...

    @abstractmethod
    def _add_results(self, results: Sequence[tuple[str, Outcome]], words: str) -> None: ...

    @abstractmethod
    def _picture(self, data: bytes) -> Any: ...

    def _text(self, text: str) -> Any:
        return {"type": "text", "text": text}


class _Chat(Talk):
    """A conversation of the OpenAI client."""

    async def _asked(self) -> Answer:
        question: dict[str, Any] = {"model": self.model, "messages": self.history, **self.options}
        if self.tools:
            question["tools"] = [chat_tool(tool) for tool in self.tools]
        create = self.stand.openai.chat.completions.create
        if not self.stream:
            choice = (await create(**question)).choices[0]
            return _chat_answer(choice.message.model_dump(exclude_none=True), choice.finish_reason)
        message: dict[str, Any] = {"role": "assistant", "content": None}
        finish = None
        async for chunk in await create(**question, stream=True):
            for choice in chunk.choices:
                finish = choice.finish_reason or finish
                add_delta(message, choice.delta)
        return _chat_answer(message, finish)

    def _add_results(self, results: Sequence[tuple[str, Outcome]], words: str) -> None:
        for call_id, (text, _, picture) in results:
            content = [self._text(text), *([self._picture(picture)] if picture else [])]
            self.history.append({"role": "tool", "tool_call_id": call_id, "content": content})
        if words:
            self.history.append({"role": "user", "content": words})

    def _picture(self, data: bytes) -> Any:
        return {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{b64encode(data).decode()}"}}


def chat_tool(tool: ToolSpec) -> Any:
    """A tool as the OpenAI client offers it."""
    function = {"name": tool.name, "description": tool.description, "parameters": json.loads(tool.schema)}
    return {"type": "function", "function": function}


def add_delta(message: dict[str, Any], delta: Any) -> None:
    """Put one more delta of a stream into the message."""
    if delta.content:
        message["content"] = (message["content"] or "") + delta.content
    if thought := getattr(delta, "reasoning_content", None):
        message["reasoning_content"] = message.get("reasoning_content", "") + thought
    calls = message.setdefault("tool_calls", []) if delta.tool_calls else []
    for piece in delta.tool_calls or ():
        if piece.index == len(calls):
            function = {"name": piece.function.name, "arguments": ""}
            calls.append({"id": piece.id, "type": piece.type, "function": function})
        calls[piece.index]["function"]["arguments"] += piece.function.arguments or ""


def _chat_answer(message: dict[str, Any], finish: str | None) -> Answer:
    calls = [
        Call(call["id"], call["function"]["name"], json.loads(call["function"]["arguments"]))
        for call in message.get("tool_calls", ())
    ]
    thinking = message.get("reasoning_content", "")
    return Answer(message.get("content") or "", thinking, tuple(calls), finish, message)


class _Messages(Talk):
    """A conversation of the Anthropic client."""

    async def _asked(self) -> Answer:
        question: dict[str, Any] = {"model": self.model, "max_tokens": 4096, "messages": self.history, **self.options}
        if self.tools:
            question["tools"] = [messages_tool(tool) for tool in self.tools]
        if self.stream:
            async with self.stand.anthropic.messages.stream(**question) as stream:
                message = await stream.get_final_message()
        else:
            message = await self.stand.anthropic.messages.create(**question)
        blocks = message.content
        return Answer(
            "".join(block.text for block in blocks if block.type == "text"),
            "".join(block.thinking for block in blocks if block.type == "thinking"),
            tuple(Call(block.id, block.name, block.input) for block in blocks if block.type == "tool_use"),
            message.stop_reason,
            {"role": "assistant", "content": blocks},
        )

    def _add_results(self, results: Sequence[tuple[str, Outcome]], words: str) -> None:
        blocks = [
            {
                "type": "tool_result",
                "tool_use_id": call_id,
                "is_error": is_error,
                "content": [self._text(text), *([self._picture(picture)] if picture else [])],
            }
            for call_id, (text, is_error, picture) in results
        ]
        self.history.append({"role": "user", "content": [*blocks, *([self._text(words)] if words else [])]})

    def _picture(self, data: bytes) -> Any:
        source = {"type": "base64", "media_type": "image/png", "data": b64encode(data).decode()}
        return {"type": "image", "source": source}


def messages_tool(tool: ToolSpec) -> Any:
    """A tool as the Anthropic client offers it."""
    return {"name": tool.name, "description": tool.description, "input_schema": json.loads(tool.schema)}


# ── What the user asks for, and what the simulator does ──────────────────────────────────────────


def scripted(*legs: str) -> str:
    """The user's words that make the demo model do exactly this, leg by leg."""
    lines = "\n---\n".join(legs)
    return f"Please play this:\n\n```tieline\n{lines}\n```\n"


def calls(city: str) -> Any:
    """The step of a script in which the service wants the client's `get_weather` run."""
    args = {"name": "tieline-get_weather", "toolName": "get_weather", "providerIdentifier": "tieline"}
    return {"exec": {"mcpArgs": {**args, "args": {"city": city}}}}


def natively(*wishes: tuple[str, dict[str, str]]) -> Program:
    """A turn in which the service uses its own tools, one after the other, and says what came of each."""

    def play(turn: ServerTurn) -> Iterator[Step]:
        yield from turn.opening()
        for number, (name, arguments) in enumerate(wishes):
            call = ToolCall(id=f"toolu_{number}", name=name, arguments=json.dumps(arguments))
            result = yield from native_tools.perform(turn.run, call)
            said = "\n".join(part.text for part in result.content if isinstance(part, Text))
            yield says(f"<{name} {'failed' if result.is_error else 'gave'}: {said}>")
        yield from turn.closing()

    return play


def says(text: str) -> Step:
    """A text delta."""
    return update(text_delta=updates.TextDeltaUpdate(text=text))
