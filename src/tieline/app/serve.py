"""The running program: a listening socket, the server around the application, and its end."""

import asyncio
import contextlib
import gc
import logging
import os
import resource
import signal
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import uvicorn
from msgspec.structs import replace

from tieline.app.build.application import App, build
from tieline.app.build.upstreams import address
from tieline.app.config import Config, ConfigError
from tieline.app.lazy import Lazily
from tieline.app.reachability import unreachable
from tieline.net.server.protocol import HttpServerProtocol

if TYPE_CHECKING:
    from tieline.sim.cursor import CursorSim
else:
    CursorSim = Lazily("tieline.sim.cursor", "CursorSim")

log = logging.getLogger("tieline")

SAFETY = [("x-content-type-options", "nosniff"), ("cross-origin-resource-policy", "same-origin")]
"""Headers of every response: a browser must neither guess its type nor give it to another site."""
KEEP_IDLE = 75
BACKLOG = 4096
MOST_FILES = 65536
_ROOM = 4 << 20
DRAIN = 1
"""Seconds that open requests get when the gateway is asked to stop."""
CLOSING = 0.8
"""Seconds that everything behind them gets then: agents, connections, what is to be written to disk."""


def serve(
    config: Config,
    env: Mapping[str, str],
    announce: Callable[[str], None],
    *,
    source: Path | None = None,
    simulate_cursor: bool = False,
) -> None:
    """Run until interrupted; open requests get a second to end.

    `source` is the file that the configuration was read from. With `simulate_cursor` the Cursor backend talks to a
    simulator of the service instead of the service.
    """
    listener = _listen(config)

    async def run() -> None:
        async with contextlib.AsyncExitStack() as stack:
            token = None
            settings = config
            if simulate_cursor:
                sim = await stack.enter_async_context(CursorSim())
                settings = replace(
                    config,
                    cursor=replace(config.cursor, **_simulated(sim.url)),
                    default_model=config.default_model or "cursor/demo",
                )
                token = "demo"  # noqa: S105 - the simulator takes any
            app = build(settings, env, token, source=source)
            stack.push_async_callback(_close, app)
            announce(app.startup.text(address(settings, listener.getsockname()[1])))
            for warning in app.warnings:
                announce(f"{warning}\n")
            app.tasks.start(_warn_of_unreachable(settings, app), "reachability")
            # What exists now lives as long as the process, and requests leave hardly any cycles: look seldom.
            gc.collect()
            gc.freeze()
            gc.set_threshold(20_000, 20, 20)
            server = _Server(server_config(app))
            # What goes wrong in a request is told by ourselves; the server would add a traceback when it stops one.
            logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
            await server.serve(sockets=[listener])

    _allow_files()
    _keep_room()
    # A shell starts what runs in its background deaf to interrupts. We end on one in any case, from the first moment.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(run())


async def _warn_of_unreachable(config: Config, app: App) -> None:
    for name, reason in (await unreachable(config.upstreams, app.client)).items():
        log.warning("upstream %s does not answer: %s", name, reason)


def server_config(app: App) -> uvicorn.Config:
    """How the gateway is served; tests serve it in the same way."""
    return uvicorn.Config(
        app.asgi,
        http=HttpServerProtocol,
        loop="auto",
        ws="none",
        lifespan="off",
        proxy_headers=False,
        access_log=False,
        log_config=None,
        server_header=False,
        date_header=False,
        headers=SAFETY,
        timeout_keep_alive=KEEP_IDLE,
        timeout_graceful_shutdown=DRAIN,
        backlog=BACKLOG,
    )


def _keep_room() -> None:
    """Keep the memory of one request for the next.

    The allocator of Linux gives memory back to the system in small measure, until it has seen a large piece come and
    go; then it holds on to as much. Without this, a request of an agent's size has its pages taken and cleared anew.
    """
    bytes(_ROOM)


class _Server(uvicorn.Server):
    """A server that a signal ends, and nothing else with it: what is behind it is closed in order afterwards."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 - a handler of signals gets it
        if self.should_exit and sig == signal.SIGINT:
            self.force_exit = True
        self.should_exit = True


async def _close(app: App) -> None:
    """Close the application; what has not ended by then ends with the process."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(CLOSING):
            await app.aclose()


def _allow_files() -> None:
    """Every stream and every parked run is an open file, and the usual limit is a thousand."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard if hard != resource.RLIM_INFINITY else MOST_FILES, hard))


def _simulated(url: str) -> dict[str, object]:
    return {"enabled": True, "api_url": url, "agent_url": url, "transport": "http2", "ghost_mode": True}


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    return uvicorn.Config("", loop="auto").get_loop_factory()


def _listen(config: Config) -> socket.socket:
    host, port = config.server.host, config.server.port
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise ConfigError(
            f"cannot listen on {host}:{port}: {os.strerror(error.errno or 0)}. Another tieline may be running; "
            "`tieline serve --port` takes another port."
        ) from error
