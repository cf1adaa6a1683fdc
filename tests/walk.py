"""Trace the gateway while it serves one request, and list the source files that take part.

    make walk            # or: python -m tests.walk

The real application serves real HTTP on loopback, in a thread of its own; only that thread is traced. The client, the
scripted upstreams and the coding agent run in other threads or processes. Every request is sent once without tracing
first, so that imports and first-time set-up do not count. A file takes part if at least one of its functions runs.
The trace with the fewest files of three is reported, because a timer may fire during any of them.
"""

import asyncio
import http.client
import json
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
    nullcontext,
)
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, TypeVar

import uvicorn

import tieline
from tests.catalogue.serving import listening
from tieline.app.build.application import build
from tieline.app.config import AcpSettings, AgentSettings, Config, CursorSettings, UpstreamSettings
from tieline.sim.cursor import CursorSim
from tieline.sim.model import Answer, ModelServer

T = TypeVar("T")

SOURCE = Path(tieline.__file__).parent
KEY = "gateway-key"
TIMEOUT = 60.0
ATTEMPTS = 3
SETTLE_SECONDS = 0.1
"""How long tracing continues after the client has the whole response, for the work that follows it."""

UNCOUNTED = ("model/", "net/")
"""The vocabulary and the transport: everything uses them, so they are listed but not counted."""
STAGES = {"frontends": 0, "web": 0, "core": 1, "backends": 2, "wire": 3}
"""The order in which a request passes through the packages. A call should lead to the same or a later stage."""

CHAT = "chat"
TOOL_RESULT = "tool result"
PERMISSION = "permission"
LIMITS = {CHAT: 20, TOOL_RESULT: 30, PERMISSION: 30}
"""The most files that may take part, without those of `UNCOUNTED`."""
TITLES = {
    CHAT: "A streamed Chat Completions request to an Anthropic upstream",
    TOOL_RESULT: "A tool result that resumes a parked Cursor run",
    PERMISSION: "A permission request of an ACP agent, from the agent to the inbox and back",
}


# ── Traces ───────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Function:
    """A function of the gateway."""

    file: str
    """Relative to `src/tieline`."""
    name: str

    @property
    def stage(self) -> int | None:
        return STAGES.get(self.file.partition("/")[0])

    def __str__(self) -> str:
        return f"{self.file} {self.name}"


@dataclass(frozen=True)
class Walk:
    """What one traced request executed: every call, as caller and callee, in order.

    The caller is the nearest function of a stage on the stack. It is None if the event loop made the call.
    """

    calls: tuple[tuple[Function | None, Function], ...]

    @property
    def functions(self) -> list[Function]:
        """Every function once, in order of its first call."""
        return list(dict.fromkeys(callee for _, callee in self.calls))

    @property
    def files(self) -> list[str]:
        """Every file once, in order of its first call."""
        return list(dict.fromkeys(function.file for function in self.functions))

    @property
    def counted(self) -> list[str]:
        """The files that count against the limit."""
        return [file for file in self.files if not file.startswith(UNCOUNTED)]

    @property
    def switches(self) -> int:
        """How often a call leads to another file than the call before it."""
        return sum(callee.file != previous.file for (_, previous), (_, callee) in pairwise(self.calls))

    @property
    def backward_calls(self) -> Counter[tuple[Function, Function]]:
        """Calls that lead to an earlier stage, with their number."""
        return Counter((caller, callee) for caller, callee in self.calls if caller and _is_backward(caller, callee))


def _is_backward(caller: Function, callee: Function) -> bool:
    return caller.stage is not None and callee.stage is not None and callee.stage < caller.stage


class Tracer:
    """A profile function that records the calls of our functions."""

    def __init__(self) -> None:
        self._calls: list[tuple[Function | None, Function]] = []
        self._known: dict[CodeType, Function | None] = {}

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        """Record a call; a coroutine or generator that is resumed counts as called."""
        if event == "call" and (callee := self._function(frame.f_code)) is not None:
            self._calls.append((self._caller(frame), callee))

    def walk(self) -> Walk:
        """Return what was recorded so far."""
        return Walk(tuple(self._calls))

    def _caller(self, frame: FrameType) -> Function | None:
        caller = frame.f_back
        while caller is not None:
            function = self._function(caller.f_code)
            if function is not None and function.stage is not None:
                return function
            caller = caller.f_back
        return None

    def _function(self, code: CodeType) -> Function | None:
        """Return the function that this code belongs to, or None if it is not one of ours."""
        if code not in self._known:
            path = Path(code.co_filename)
            is_ours = path.is_relative_to(SOURCE) and code.co_name != "<module>"
            # A comprehension has code of its own before Python 3.12: it is part of the function around it.
            name = code.co_qualname.removesuffix(f".<locals>.{code.co_name}") if _is_inline(code) else code.co_qualname
            self._known[code] = Function(path.relative_to(SOURCE).as_posix(), name) if is_ours else None
        return self._known[code]


def _is_inline(code: CodeType) -> bool:
    return code.co_name in ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")


# ── Threads ──────────────────────────────────────────────────────────────────────────────────────


class LoopThread:
    """A thread that runs an event loop; other threads submit work to it."""

    def __init__(self) -> None:
        factory = uvicorn.Config("", loop="auto").get_loop_factory()
        self._loop = factory() if factory else asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)

    def call(self, function: Callable[..., object], *arguments: Any) -> None:
        """Call a function in the thread, and wait until it has returned."""
        done = threading.Event()
        self._loop.call_soon_threadsafe(function, *arguments)
        self._loop.call_soon_threadsafe(done.set)
        assert done.wait(TIMEOUT)

    @contextmanager
    def holding(self, resource: AbstractAsyncContextManager[T]) -> Iterator[T]:
        """Enter a context manager in the thread, and leave it there."""
        entered = asyncio.run_coroutine_threadsafe(resource.__aenter__(), self._loop).result(TIMEOUT)
        try:
            yield entered
        finally:
            asyncio.run_coroutine_threadsafe(resource.__aexit__(None, None, None), self._loop).result(TIMEOUT)

    def __enter__(self) -> "LoopThread":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(TIMEOUT)
        self._loop.close()


@dataclass(frozen=True)
class Gateway:
    """A running gateway with the thread that serves it."""

    thread: LoopThread
    port: int

    def request(self, method: str, path: str, body: Any = None) -> bytes:
        """Send one request on a connection of its own, and return the body of the response."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT)
        headers = {"authorization": f"Bearer {KEY}", "content-type": "application/json"}
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        response = connection.getresponse()
        data = response.read()
        connection.close()
        assert response.status == 200, data
        return data

    @contextmanager
    def inbox_items(self) -> Iterator[Iterator[str]]:
        """Watch the inbox: iterate over the ids of the items that arrive."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT)
        connection.request("GET", "/api/inbox/watch", headers={"authorization": f"Bearer {KEY}"})
        response = connection.getresponse()
        listings = (json.loads(line.removeprefix(b"data: ")) for line in response if line.startswith(b"data: "))
        yield (str(listing["items"][0]["id"]) for listing in listings if listing["items"])
        connection.close()

    @contextmanager
    def traced(self, tracer: Tracer) -> Iterator[None]:
        """Trace the gateway until it is idle after what the caller does."""
        self.thread.call(sys.setprofile, tracer)
        try:
            yield
            time.sleep(SETTLE_SECONDS)
        finally:
            self.thread.call(sys.setprofile, None)

    def chat(self, model: str, messages: list[Any], tools: list[Any] | None = None) -> list[Any]:
        """Send a streamed Chat Completions request, and return the deltas of the response."""
        body = {"model": model, "messages": messages, "stream": True, **({"tools": tools} if tools else {})}
        events = self.request("POST", "/v1/chat/completions", body).decode().split("\n\n")
        chunks = [json.loads(event.removeprefix("data: ")) for event in events if event.startswith("data: {")]
        return [choice["delta"] for chunk in chunks for choice in chunk["choices"]]


@contextmanager
def running(config: Config, env: dict[str, str] | None = None, token: str | None = None) -> Iterator[Gateway]:
    """Run the gateway in a thread of its own."""

    @asynccontextmanager
    async def serving() -> AsyncIterator[str]:
        app = build(config, {"TIELINE_KEY": KEY, **(env or {})}, token)
        try:
            async with listening(app) as url:
                yield url
        finally:
            await app.aclose()

    with LoopThread() as thread, thread.holding(serving()) as url:
        yield Gateway(thread, int(url.rpartition(":")[2]))


# ── Requests ─────────────────────────────────────────────────────────────────────────────────────

Tracing = Callable[[], AbstractContextManager[None]]
Exchange = Callable[[Tracing], None]
"""Sends requests to the gateway, the one to be traced within the given context manager."""

ANTHROPIC_STREAM = tuple(
    f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()
    for event in (
        {
            "type": "message_start",
            "message": {
                "id": "msg_1",
                "type": "message",
                "role": "assistant",
                "model": "m",
                "content": [],
                "usage": {"input_tokens": 5, "output_tokens": 1},
            },
        },
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hello "}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "there."}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}},
        {"type": "message_stop"},
    )
)
WEATHER = {"name": "get_weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}
CURSOR_SCRIPT = '```tieline\ncall: get_weather {"city": "Oslo"}\n---\ntext: It is {{result}}.\n```'
AGENT = Path(__file__).with_name("walk_agent.py")


def walk_chat() -> Walk:
    """Trace a streamed Chat Completions request to an Anthropic upstream."""
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}]
    with LoopThread() as other, other.holding(ModelServer()) as upstream:
        upstream.default("/v1/messages", Answer(chunks=ANTHROPIC_STREAM))
        settings = UpstreamSettings(kind="anthropic", base_url=upstream.url, key_env="UPSTREAM_KEY", models=("m",))
        with running(Config(upstreams={"anthropic": settings}), {"UPSTREAM_KEY": "upstream-key"}) as gateway:

            def exchange(tracing: Tracing) -> None:
                with tracing():
                    deltas = gateway.chat("anthropic/m", messages)
                assert text_of(deltas) == "Hello there."

            return fewest_files(gateway, exchange)


def walk_tool_result() -> Walk:
    """Trace a tool result that resumes a parked Cursor run."""
    tools = [{"type": "function", "function": WEATHER}]
    with LoopThread() as other, other.holding(CursorSim()) as service:
        settings = CursorSettings(enabled=True, api_url=service.url, transport="http2", ghost_mode=True)
        with running(Config(cursor=settings), token="demo") as gateway:

            def exchange(tracing: Tracing) -> None:
                messages: list[Any] = [{"role": "user", "content": CURSOR_SCRIPT}]
                deltas = gateway.chat("cursor/demo", messages, tools)
                call = call_of(deltas)
                messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": "sunny"})
                runs = service.runs
                with tracing():
                    deltas = gateway.chat("cursor/demo", messages, tools)
                assert text_of(deltas) == "It is sunny."
                assert service.runs == runs, "the run was not resumed"

            return fewest_files(gateway, exchange)


def walk_permission() -> Walk:
    """Trace a permission request of an ACP agent, from the agent to a person who watches the inbox and back.

    Neither the prompt that makes the agent ask is traced, nor what the agent says afterwards.
    """
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        agent = AgentSettings(command=(sys.executable, "-I", "-S", str(AGENT), folder))
        config = Config(acp=AcpSettings(agents={"walk": agent}, workspace=folder))
        environment = {"HOME": folder, "PATH": folder}
        with running(config, environment) as gateway, gateway.inbox_items() as items, ThreadPoolExecutor(1) as client:

            def exchange(tracing: Tracing) -> None:
                prompt = [{"role": "user", "content": "Run make."}]
                answer = client.submit(gateway.chat, "acp/walk", prompt)
                wait_for(home / "ready")
                time.sleep(SETTLE_SECONDS)
                with tracing():
                    (home / "ask").touch()
                    gateway.request("POST", f"/api/inbox/{next(items)}", {"option": "yes"})
                    wait_for(home / "answered")
                (home / "finish").touch()
                assert text_of(answer.result(TIMEOUT)) == "Done."

            return fewest_files(gateway, exchange)


WALKS: dict[str, Callable[[], Walk]] = {CHAT: walk_chat, TOOL_RESULT: walk_tool_result, PERMISSION: walk_permission}


def fewest_files(gateway: Gateway, exchange: Exchange) -> Walk:
    """Trace an exchange a few times after one that is not traced, and return the walk with the fewest files."""
    exchange(nullcontext)
    walks: list[Walk] = []
    for _ in range(ATTEMPTS):
        tracer = Tracer()
        exchange(partial(gateway.traced, tracer))
        walks.append(tracer.walk())
    return min(walks, key=lambda walk: len(walk.files))


def text_of(deltas: list[Any]) -> str:
    """Return the text of a streamed answer."""
    return "".join(delta.get("content") or "" for delta in deltas)


def call_of(deltas: list[Any]) -> Any:
    """Return the one tool call of a streamed answer."""
    first, *others = [call for delta in deltas for call in delta.get("tool_calls") or ()]
    first["function"]["arguments"] += "".join(other["function"]["arguments"] for other in others)
    return first


def wait_for(signal: Path) -> None:
    """Wait until a file exists, and delete it."""
    deadline = time.monotonic() + TIMEOUT
    while not signal.exists():
        assert time.monotonic() < deadline, f"no signal {signal.name}"
        time.sleep(0.005)
    signal.unlink()


# ── Report ───────────────────────────────────────────────────────────────────────────────────────


def report(name: str, walk: Walk) -> str:
    """Describe a walk in plain text."""
    lines = [
        TITLES[name],
        f"  {len(walk.counted)} files outside model/ and net/ (limit {LIMITS[name]}), {len(walk.files)} in all; "
        f"{len(walk.functions)} functions, {walk.switches} file switches",
        "",
    ]
    functions = Counter(function.file for function in walk.functions)
    for file in walk.files:
        number = walk.counted.index(file) + 1 if file in walk.counted else ""
        lines.append(f"  {number:>4}  {file} ({functions[file]})")
    lines += ["", "  Calls to an earlier stage:" if walk.backward_calls else "  No calls to an earlier stage."]
    lines += [f"        {caller} -> {callee} ({number})" for (caller, callee), number in walk.backward_calls.items()]
    return "\n".join(lines)


def main() -> None:
    """Print every walk."""
    for name, walk in WALKS.items():
        sys.stdout.write(report(name, walk()) + "\n\n")


if __name__ == "__main__":
    main()
