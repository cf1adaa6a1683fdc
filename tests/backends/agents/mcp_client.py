"""A client of MCP servers, as an agent has one: by HTTP, or by starting the program it is told to start."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from mcp.client.session import ClientSession
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client


@asynccontextmanager
async def connected(server: Any) -> AsyncIterator[ClientSession]:
    """A session with a server as `session/new` names it."""
    url = getattr(server, "url", None)
    if url is not None:
        transport: Any = streamable_http_client(url)
    else:
        env = {one.name: one.value for one in server.env}
        transport = stdio_client(StdioServerParameters(command=server.command, args=server.args, env=env))
    async with transport as streams, ClientSession(streams[0], streams[1]) as session:
        await session.initialize()
        yield session
