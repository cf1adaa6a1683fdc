"""Offers the clients' own tools to agents, through one MCP server on loopback for all sessions.

Each session has an endpoint with an unguessable token in its URL. The endpoint gives access to the tools of that
session only. The server runs while there are endpoints. A call waits for its result for as long as the client and its
user need, and progress notifications keep the agent from giving up. Calls from one agent run in parallel: the client
answers parallel calls together, so serving them one after the other would cause a deadlock.

Agents that do not support MCP servers over HTTP start a small program that forwards the same messages over its standard
streams.

The `mcp` package is imported when the first endpoint is opened, because the import takes half a second and much memory.
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
PROGRESS_INTERVAL = 10.0
"""Seconds between two progress notifications for a waiting call."""
MAX_CALLS = 64
"""Maximum number of calls in one session that may wait at the same time. Further calls fail at once."""
MAX_NAME = 48
"""Maximum length of a tool's name. Agents prepend the server's name, and upstreams allow 64 characters altogether."""
STOP_WITHIN = 3.0

_FREEFORM = {"type": "object", "properties": {INPUT: {"type": "string"}}, "required": [INPUT]}

CallTool = Callable[[ToolSpec, str], Awaitable[ToolResult]]
"""Calls one of the client's tools, with its arguments as text, and waits for the result."""


@dataclass(frozen=True, slots=True)
class StdioShim:
    """The program that forwards MCP over standard streams: its interpreter and its path."""

    python: str
    script: str = str(Path(__file__).with_name("stdio_shim.py"))


class ToolEndpoint:
    """The MCP endpoint of one session: the client's tools, and the function that calls them."""

    def __init__(self, token: str, url: str, shim: StdioShim, on_close: Callable[["ToolEndpoint"], None]) -> None:
        self.token = token
        self.caller: CallTool | None = None
        """The function that calls the client's tools. It is None outside a turn."""
        self.calls: dict[Any, asyncio.Task[ToolResult]] = {}
        """The waiting calls, by the id of the agent's request."""
        self.tools: dict[str, ToolSpec] = {}
        """The tools, by the names that the agent sees."""
        self._url = url
        self._shim = shim
        self._on_close = on_close

    def offer(self, tools: Sequence[ToolSpec]) -> bool:
        """Replace the tools. Return True if there were different tools before, because the agent may still use them."""
        before, self.tools = self.tools, named_tools(tools)
        return bool(before) and self.tools != before

    def server(self, abilities: facts.Abilities) -> McpServer:
        """Return the MCP server to send to an agent. If the agent does not support MCP over HTTP, return the shim."""
        if abilities.mcp_http:
            return McpHttp(type="http", name=NAME, url=self._url, headers=[])
        shim = self._shim
        env = [NameValue(name="TIELINE_MCP_URL", value=self._url)]
        return McpStdio(name=NAME, command=shim.python, args=["-I", shim.script], env=env)

    def close(self) -> None:
        """Remove the endpoint from the server."""
        self.caller = None
        self._on_close(self)


class ToolBridge:
    """The MCP server for the clients' tools. It runs while at least one conversation has an endpoint on it."""

    def __init__(
        self, *, mint_token: Callable[[], str], shim: StdioShim, progress_interval: float = PROGRESS_INTERVAL
    ) -> None:
        self._mint_token = mint_token
        self._shim = shim
        self._tasks = Tasks()
        self._progress_interval = progress_interval
        self._endpoints: dict[str, ToolEndpoint] = {}
        self._running: _McpServer | None = None
        self._changing = asyncio.Lock()

    async def open(self) -> ToolEndpoint:
        """Return a new endpoint, and start the server if necessary."""
        async with self._changing:
            if self._running is None:
                self._running = await _McpServer.start(self, self._tasks)
            token = self._mint_token()
            endpoint = ToolEndpoint(token, f"http://{HOST}:{self._running.port}{PATH}{token}", self._shim, self._closed)
            self._endpoints[token] = endpoint
            return endpoint

    async def aclose(self) -> None:
        """Remove all endpoints and stop the server."""
        self._endpoints.clear()
        await self._stop()
        await self._tasks.aclose()

    def _closed(self, endpoint: ToolEndpoint) -> None:
        self._endpoints.pop(endpoint.token, None)
        if not self._endpoints and self._running is not None:
            self._tasks.start(self._stop(), "stopping the MCP server")

    async def _stop(self) -> None:
        async with self._changing:
            if self._running is not None and not self._endpoints:
                await self._running.stop()
                self._running = None

    # ── requests to the server ──

    async def answer(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve one HTTP request through ASGI. If its path is not that of an endpoint, answer with status 404."""
        if scope["type"] != "http":
            return
        if self._running is None or self._endpoint_of(scope["path"]) is None:
            await send({"type": "http.response.start", "status": 404, "headers": [(b"content-length", b"0")]})
            await send({"type": "http.response.body", "body": b""})
            return
        await self._running.handle(scope, receive, send)

    def _endpoint_of(self, path: str) -> ToolEndpoint | None:
        return self._endpoints.get(path.removeprefix(PATH)) if path.startswith(PATH) else None

    async def list_tools(self, context: Any, _: Any) -> Any:
        types = importlib.import_module("mcp.types")
        endpoint = self._endpoint_of(context.request.url.path)
        tools = endpoint.tools if endpoint is not None else {}
        return types.ListToolsResult(
            tools=[
                types.Tool(name=name, description=spec.description or spec.name, input_schema=_schema(spec))
                for name, spec in tools.items()
            ]
        )

    async def call_tool(self, context: Any, params: Any) -> Any:
        endpoint = self._endpoint_of(context.request.url.path)
        spec = endpoint.tools.get(params.name) if endpoint is not None else None
        if endpoint is None or spec is None:
            return _result(_failed(f"The tool `{params.name}` is no longer available. Continue without it."))
        if endpoint.caller is None or len(endpoint.calls) >= MAX_CALLS:
            return _result(_failed("The client cannot run this tool now. Continue without it."))
        call = self._tasks.start(_called(endpoint.caller, spec, params.arguments or {}), f"calling {spec.name}")
        endpoint.calls[context.request_id] = call
        try:
            return _result(await self._awaited(call, context))
        finally:
            if endpoint.calls.get(context.request_id) is call:
                del endpoint.calls[context.request_id]

    async def cancel_calls(self, context: Any, handle: Any) -> Any:
        """Cancel a call when the agent cancels its request.

        This is middleware for the MCP server, which does not cancel calls itself.
        """
        if context.method == "notifications/cancelled" and context.request is not None:
            endpoint = self._endpoint_of(context.request.url.path)
            call = endpoint.calls.get((context.params or {}).get("requestId")) if endpoint is not None else None
            if call is not None:
                call.cancel()
        return await handle(context)

    async def _awaited(self, call: asyncio.Task[ToolResult], context: Any) -> ToolResult:
        """Wait for the result of a call, and report progress to the agent. Cancel the call if the agent disconnects."""
        beats = 0
        try:
            while not call.done():
                await asyncio.wait([call], timeout=self._progress_interval)
                if not call.done():
                    beats += 1
                    await context.session.report_progress(beats, message="waiting for the client")
            return _failed("The call was cancelled.") if call.cancelled() else call.result()
        finally:
            call.cancel()


class _McpServer:
    """The running HTTP server of the bridge."""

    def __init__(self, server: uvicorn.Server, manager: Any, listener: socket.socket) -> None:
        self.port: int = listener.getsockname()[1]
        self._server = server
        self._manager = manager
        self._listener = listener
        self._is_ready = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @classmethod
    async def start(cls, bridge: "ToolBridge", tasks: Tasks) -> "_McpServer":
        # In a thread, because these imports are slow.
        lowlevel = await asyncio.to_thread(importlib.import_module, "mcp.server.lowlevel")
        managers = await asyncio.to_thread(importlib.import_module, "mcp.server.streamable_http_manager")
        server = lowlevel.Server(NAME, version="1", on_list_tools=bridge.list_tools, on_call_tool=bridge.call_tool)
        # Replaces the default middleware, which records unused tracing spans.
        server.middleware[:] = [bridge.cancel_calls]
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
        running = cls(_EmbeddedServer(config), manager, listener)
        running._task = task = tasks.start(running._run(), "running the MCP server")
        try:
            await running._is_ready.wait()
        except asyncio.CancelledError:
            task.cancel()
            raise
        if task.done():
            await task  # raises the error
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
        try:
            with self._listener:
                async with self._manager.run():
                    self._is_ready.set()
                    await self._server.serve(sockets=[self._listener])
        finally:
            self._is_ready.set()  # if it failed, `start` reports that


class _EmbeddedServer(uvicorn.Server):
    """A uvicorn server that installs no signal handlers, because the gateway has its own."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def named_tools(tools: Sequence[ToolSpec]) -> dict[str, ToolSpec]:
    """Return the tools under names that all agents and models accept. Leave out tools that only an upstream can run."""
    found: dict[str, ToolSpec] = {}
    for tool in tools:
        if tool.hosted is not None:
            continue
        stem = re.sub(r"[^A-Za-z0-9_-]", "_", tool.name)[:MAX_NAME] or "tool"
        name, number = stem, 1
        while name in found:
            number += 1
            name = f"{stem[: MAX_NAME - 4]}_{number}"
        found[name] = tool
    return found


async def _called(caller: CallTool, spec: ToolSpec, arguments: dict[str, Any]) -> ToolResult:
    if spec.freeform:
        return await caller(spec, str(arguments.get(INPUT, "")))
    return await caller(spec, msgspec.json.encode(arguments).decode())


def _schema(spec: ToolSpec) -> dict[str, Any]:
    """Return the JSON schema of a tool's arguments. Add the type `object`, which some clients omit."""
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
            return types.TextContent(type="text", text=f"[image: {part.url}]")
        case File():
            return types.TextContent(type="text", text=f"[{part.name or 'a file'}: {part.url or part.media_type}]")
