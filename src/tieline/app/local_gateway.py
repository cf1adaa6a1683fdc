"""Finds the gateway that runs on this machine, or runs one for as long as a command needs it."""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from tieline.app.build.application import build
from tieline.app.build.keys import client_keys
from tieline.app.config import Config, address
from tieline.app.serve import GatewayServer, close, listen, server_config
from tieline.model.content import Value
from tieline.net.client.http import HttpClient, Origin, PipeError, Timeouts

LOOPBACK = "127.0.0.1"
KEY_BYTES = 32
PROBE_LIMIT = 1 << 20
PROBE_TIMEOUT = 2.0
"""Maximum duration of the search for a running gateway, in seconds."""
STOP_TIMEOUT = 5.0
"""Maximum time to wait for the server to stop, in seconds. It cancels open requests long before that."""

_TIMEOUTS = Timeouts(connect=PROBE_TIMEOUT, first_byte=PROBE_TIMEOUT, idle=PROBE_TIMEOUT)


class LocalGateway(NamedTuple):
    """A gateway that this process can use.

    `url` has no slash at the end. `key` is None if the gateway needs no key. `is_started` says whether this process
    runs the gateway itself.
    """

    url: str
    key: str | None
    is_started: bool


class GatewayIdentity(Value):
    """How a gateway introduces itself at `/api/hello`, even to a client without its key."""

    service: str = ""
    version: str = ""


class _BackgroundServer(GatewayServer):
    """A server that leaves the handling of signals to the command that runs it."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextlib.asynccontextmanager
async def local_gateway(
    config: Config, env: Mapping[str, str], *, source: Path | None = None, always_start: bool = False
) -> AsyncIterator[LocalGateway]:
    """Provide the gateway at the configured address or, if none answers there, run one in this process.

    A gateway that this process runs listens on a free port, so that no other command depends on it, and always has a
    key. `source` is the configuration file. If `always_start` is true, do not look for a running gateway. Raise
    ConfigError if the configuration cannot be used.
    """
    running = None if always_start else await find_running(config, env)
    if running is not None:
        yield running
        return
    async with _run(config, env, source) as started:
        yield started


async def find_running(config: Config, env: Mapping[str, str]) -> LocalGateway | None:
    """Return the gateway that listens at the configured address, or None if there is none that this user may use."""
    if not config.server.port:
        return None
    url = address(config)
    key = next(iter(client_keys(config, env)), None)
    client = HttpClient()
    try:
        async with asyncio.timeout(PROBE_TIMEOUT):
            hello = await _get(client, url, "/api/hello", None)
            if hello is None or msgspec.json.decode(hello, type=GatewayIdentity).service != "tieline":
                return None
            if await _get(client, url, "/metrics", key) is None:
                return None
    except (PipeError, TimeoutError, msgspec.DecodeError, UnicodeError):
        return None
    finally:
        await client.aclose()
    return LocalGateway(url, key, is_started=False)


async def _get(client: HttpClient, url: str, path: str, key: str | None) -> bytes | None:
    """Return the body of a response, or None if its status is not 200."""
    origin, prefix = Origin.parse(url)
    headers = [("authorization", f"Bearer {key}")] if key else []
    response = await client.send(origin, "GET", prefix + path, headers, timeouts=_TIMEOUTS)
    body = await response.read(PROBE_LIMIT)
    return body if response.status == 200 else None


@contextlib.asynccontextmanager
async def _run(config: Config, env: Mapping[str, str], source: Path | None) -> AsyncIterator[LocalGateway]:
    config = replace(config, server=replace(config.server, host=LOOPBACK, port=0, hosts=()))
    keys = client_keys(config, env)
    if not keys:
        keys = [secrets.token_urlsafe(KEY_BYTES)]
        env = {**env, config.server.key_env: keys[0]}
    listener = listen(LOOPBACK, 0, "No port is free.")
    async with contextlib.AsyncExitStack() as stack:
        stack.callback(listener.close)
        app = build(config, env, source=source)
        stack.push_async_callback(close, app)
        app.storage.start()
        server = _BackgroundServer(server_config(app))
        serving = app.tasks.start(server.serve_on(listener), "server")
        try:
            yield LocalGateway(address(config, listener.getsockname()[1]), keys[0], is_started=True)
        finally:
            server.stop()
            await asyncio.wait([serving], timeout=STOP_TIMEOUT)
