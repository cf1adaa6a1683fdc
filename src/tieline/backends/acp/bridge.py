"""The client's own tools, offered to agents: an MCP server on loopback that any number of sessions share.

Each session has a seat, known by a token that nobody can guess; whoever knows it may list and call the tools of that
session and nothing else. The server runs as long as there are seats. A call waits until its result comes, which may
take as long as a client and its user need: meanwhile the agent is shown signs of life, so that it does not give up.
Calls of one agent run side by side: to answer them one after the other would keep both waiting for ever.

Agents that take no servers by HTTP get a small program that carries the same words over its standard streams.

The `mcp` package is imported when the first seat is taken: it costs half a second and tens of MiB.
"""

import asyncio
import contextlib
import importlib
import logging
import re
import socket
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import uvicorn

from tieline.backends.acp.catalogue import NAME
from tieline.backends.acp.settings import INPUT
from tieline.model.content import File, Image, Text, ToolResult
from tieline.model.request import ToolSpec
from tieline.tasks import Tasks
from tieline.wire.acp import facts
from tieline.wire.acp.schema import McpHttp, McpServer, McpStdio, NameValue
from tieline.wire.shared.capabilities.schema import load

log = logging.getLogger("tieline.acp")

PATH = "/mcp/"
HOST = "127.0.0.1"
LIFE = 10.0
"""Seconds between two signs of life of a call that waits."""
MOST_CALLS = 64
"""So many calls of one session may wait at once."""
LONGEST_NAME = 48
"""Agents put the server's name in front, and the whole must not exceed 64 characters upstream."""
STOP_WITHIN = 3.0

_FREEFORM = {"type": "object", "properties": {INPUT: {"type": "string"}}, "required": [INPUT]}

Call = Callable[[ToolSpec, str], Awaitable[ToolResult]]
"""Makes a call of the client's tool with these arguments, and waits for its result."""


@dataclass(frozen=True, slots=True)
class Shim:
    """The program that carries MCP over standard streams: what runs it, and where it is."""

    python: str
    script: str = str(Path(__file__).with_name("shim.py"))


class Seat:
    """One session's place at the server: its tools, and whoever makes its calls now."""

    def __init__(self, token: str, url: str, shim: Shim, leave: Callable[["Seat"], None]) -> None:
        self.token = token
        self.caller: Call | None = None
        """Makes the calls; None while no turn is under way."""
        self.calls: dict[Any, asyncio.Task[ToolResult]] = {}
        """Those that wait, by the agent's number for the request."""
        self.tools: dict[str, ToolSpec] = {}
        """The tools by the name the agent knows them by."""
        self._url = url
        self._shim = shim
        self._leave = leave

    def offer(self, tools: Sequence[ToolSpec]) -> bool:
        """From now on these are the tools; whether that is anything new to an agent that has listed them."""
        before, self.tools = self.tools, named(tools)
        return bool(before) and self.tools != before

    def server(self, abilities: facts.Abilities) -> McpServer:
        """How the agent is told to reach it."""
        if abilities.mcp_http:
            return McpHttp(type="http", name=NAME, url=self._url, headers=[])
        shim = self._shim
        env = [NameValue(name="TIELINE_MCP_URL", value=self._url)]
        return McpStdio(name=NAME, command=shim.python, args=["-I", shim.script], env=env)

    def leave(self) -> None:
        """Nobody will call any more."""
        self.caller = None
        self._leave(self)


class ToolBridge:
    """The server; it runs while anybody has a seat."""

    def __init__(self, *, mint_token: Callable[[], str], shim: Shim, life: float = LIFE) -> None:
        self._mint_token = mint_token
        self._shim = shim
        self._tasks = Tasks()
        self._life = life
        self._seats: dict[str, Seat] = {}
        self._running: _Running | None = None
        self._changing = asyncio.Lock()

    async def seat(self) -> Seat:
        """A new seat."""
        async with self._changing:
            if self._running is None:
                self._running = await _Running.start(self, self._tasks)
            token = self._mint_token()
            seat = Seat(token, f"http://{HOST}:{self._running.port}{PATH}{token}", self._shim, self._left)
            self._seats[token] = seat
            return seat

    async def aclose(self) -> None:
        """Nobody has a seat any more."""
        self._seats.clear()
        await self._stop()
        await self._tasks.aclose()

    def _left(self, seat: Seat) -> None:
        self._seats.pop(seat.token, None)
        if not self._seats and self._running is not None:
            self._tasks.start(self._stop(), "ending the server of client tools")

    async def _stop(self) -> None:
        async with self._changing:
            if self._running is not None and not self._seats:
                await self._running.stop()
                self._running = None

    # ── what the server is asked ──

    async def answer(self, scope: Any, receive: Any, send: Any) -> None:
        """One HTTP request: to a seat, or to nothing."""
        if scope["type"] != "http":
            return
        if self._running is None or self._seat_of(scope["path"]) is None:
            await send({"type": "http.response.start", "status": 404, "headers": [(b"content-length", b"0")]})
            await send({"type": "http.response.body", "body": b""})
            return
        await self._running.handle(scope, receive, send)

    def _seat_of(self, path: str) -> Seat | None:
        return self._seats.get(path.removeprefix(PATH)) if path.startswith(PATH) else None

    async def list_tools(self, context: Any, _: Any) -> Any:
        types = importlib.import_module("mcp.types")
        seat = self._seat_of(context.request.url.path)
        tools = seat.tools if seat is not None else {}
        return types.ListToolsResult(
            tools=[
                types.Tool(name=name, description=spec.description or spec.name, input_schema=_schema(spec))
                for name, spec in tools.items()
            ]
        )

    async def call_tool(self, context: Any, params: Any) -> Any:
        seat = self._seat_of(context.request.url.path)
        spec = seat.tools.get(params.name) if seat is not None else None
        if seat is None or spec is None:
            return _result(_failed(f"There is no tool `{params.name}` any more. Go on without it."))
        if seat.caller is None or len(seat.calls) >= MOST_CALLS:
            return _result(_failed("Nobody is there to run this now. Go on without it."))
        call = self._tasks.start(_made(seat.caller, spec, params.arguments or {}), f"a call of {spec.name}")
        seat.calls[context.request_id] = call
        try:
            return _result(await self._awaited(call, context))
        finally:
            if seat.calls.get(context.request_id) is call:
                del seat.calls[context.request_id]

    async def overhear(self, context: Any, go_on: Any) -> Any:
        """Each request is served by itself, so nobody but us connects a cancellation with what it cancels."""
        if context.method == "notifications/cancelled" and context.request is not None:
            seat = self._seat_of(context.request.url.path)
            call = seat.calls.get((context.params or {}).get("requestId")) if seat is not None else None
            if call is not None:
                call.cancel()
        return await go_on(context)

    async def _awaited(self, call: asyncio.Task[ToolResult], context: Any) -> ToolResult:
        """Wait for a result with signs of life; whoever goes away takes the call along."""
        beats = 0
        try:
            while not call.done():
                await asyncio.wait([call], timeout=self._life)
                if not call.done():
                    beats += 1
                    await context.session.report_progress(beats, message="waiting for the client")
            return _failed("The call was given up.") if call.cancelled() else call.result()
        finally:
            call.cancel()


class _Running:
    """The HTTP server under way."""

    def __init__(self, server: uvicorn.Server, manager: Any, listener: socket.socket) -> None:
        self.port: int = listener.getsockname()[1]
        self._server = server
        self._manager = manager
        self._listener = listener
        self._is_ready = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @classmethod
    async def start(cls, bridge: "ToolBridge", tasks: Tasks) -> "_Running":
        # In a thread: nobody else should have to wait for it.
        lowlevel = await asyncio.to_thread(importlib.import_module, "mcp.server.lowlevel")
        managers = await asyncio.to_thread(importlib.import_module, "mcp.server.streamable_http_manager")
        server = lowlevel.Server(NAME, version="1", on_list_tools=bridge.list_tools, on_call_tool=bridge.call_tool)
        # Instead of the one that writes a span for everything that happens, for nobody.
        server.middleware[:] = [bridge.overhear]
        manager = managers.StreamableHTTPSessionManager(server, stateless=True, json_response=False)
        listener = socket.create_server((HOST, 0), backlog=128)
        config = uvicorn.Config(
            bridge.answer,
            interface="asgi3",
            lifespan="off",
            ws="none",
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=1,
        )
        running = cls(_Server(config), manager, listener)
        running._task = tasks.start(running._run(), "serving client tools")
        await running._is_ready.wait()
        return running

    async def handle(self, scope: Any, receive: Any, send: Any) -> None:
        await self._manager.handle_request(scope, receive, send)

    async def stop(self) -> None:
        self._server.should_exit = True
        if self._task is not None:
            await asyncio.wait([self._task], timeout=STOP_WITHIN)
            self._task.cancel()
            await asyncio.wait([self._task], timeout=STOP_WITHIN)

    async def _run(self) -> None:
        with self._listener:
            async with self._manager.run():
                self._is_ready.set()
                await self._server.serve(sockets=[self._listener])


class _Server(uvicorn.Server):
    """A server inside of a program that minds its signals itself."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def named(tools: Sequence[ToolSpec]) -> dict[str, ToolSpec]:
    """Tools by names that every agent and every model takes; what only an upstream could run is left out."""
    found: dict[str, ToolSpec] = {}
    for tool in tools:
        if tool.hosted is not None:
            continue
        stem = re.sub(r"[^A-Za-z0-9_-]", "_", tool.name)[:LONGEST_NAME] or "tool"
        name, number = stem, 1
        while name in found:
            number += 1
            name = f"{stem[: LONGEST_NAME - 4]}_{number}"
        found[name] = tool
    return found


async def _made(caller: Call, spec: ToolSpec, arguments: dict[str, Any]) -> ToolResult:
    if spec.freeform:
        return await caller(spec, str(arguments.get(INPUT, "")))
    return await caller(spec, msgspec.json.encode(arguments).decode())


def _schema(spec: ToolSpec) -> dict[str, Any]:
    """The schema as an object: some clients leave the type out."""
    if spec.freeform:
        return _FREEFORM
    schema = dict(load(spec.schema))
    return {**schema, "type": "object"} if schema.get("type") != "object" else schema


def _failed(why: str) -> ToolResult:
    return ToolResult(call_id="", content=(Text(text=why),), is_error=True)


def _result(result: ToolResult) -> Any:
    types = importlib.import_module("mcp.types")
    return types.CallToolResult(content=[_content(part, types) for part in result.content], is_error=result.is_error)


def _content(part: Text | Image | File, types: Any) -> Any:
    match part:
        case Text():
            return types.TextContent(type="text", text=part.text)
        case Image(data=str(data)):
            return types.ImageContent(type="image", data=data, mime_type=part.media_type or "image/png")
        case Image():
            return types.TextContent(type="text", text=f"[a picture: {part.url}]")
        case File():
            return types.TextContent(type="text", text=f"[{part.name or 'a file'}: {part.url or part.media_type}]")
