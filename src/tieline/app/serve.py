"""Runs the program: the listening socket, the HTTP server, and an orderly shutdown."""

import asyncio
import contextlib
import errno
import gc
import logging
import signal
import socket
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import uvicorn
from msgspec.structs import replace

from tieline.app.build.application import App, build
from tieline.app.config import Config, ConfigError, address
from tieline.app.lazy import LazyImport
from tieline.app.reachability import unreachable
from tieline.frontends.http_app import HttpApp
from tieline.net.server.protocol import HttpServerProtocol
from tieline.tasks import Tasks

try:
    import resource
except ImportError:  # Windows, which has no such limits
    resource = None  # type: ignore[assignment]  # checked before each use

if TYPE_CHECKING:
    from tieline.app.cluster.cluster import Cluster
    from tieline.frontends.replicas import PrivateApp
    from tieline.sim.cursor import CursorSim
else:
    CursorSim = LazyImport("tieline.sim.cursor", "CursorSim")

log = logging.getLogger("tieline")

SAFETY = [("x-content-type-options", "nosniff"), ("cross-origin-resource-policy", "same-origin")]
"""Headers for every response. They keep browsers from guessing its type and from sharing it with other sites."""
KEEP_IDLE = 75
BACKLOG = 4096
MOST_FILES = 65536
FILES_ON_MACOS = 10240
"""A limit on open files that macOS always accepts. It rejects higher ones, even if it reports no maximum."""
_KEPT_MEMORY = 4 << 20
IDLE_CHECK = 1.0
"""Seconds between two checks for requests in progress."""
DRAIN = 1
"""Seconds that open requests have to finish after the gateway has been asked to stop."""
CLOSING = 0.8
"""Seconds that agents, connections and pending writes have to finish after open requests have ended."""


def serve(
    config: Config,
    env: Mapping[str, str],
    announce: Callable[[str], None],
    *,
    source: Path | None = None,
    simulate_cursor: bool = False,
    idle_limit: float | None = None,
) -> None:
    """Run the gateway until it is interrupted. `announce` prints the start-up text and warnings.

    `source` is the configuration file. If `simulate_cursor` is true, the Cursor backend talks to a simulator of the
    service. If `idle_limit` is given, the gateway stops when no request has been in progress for this number of
    seconds, and clients may stop it.
    """
    hint = "Another tieline may be running; choose another port with `tieline serve --port`."
    listener = listen(config.server.host, config.server.port, hint)

    async def serve_main() -> None:
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
                token = "demo"  # noqa: S105 - the simulator accepts any token
            stopping = asyncio.Event()
            app = build(settings, env, token, source=source, stop=None if idle_limit is None else stopping.set)
            stack.push_async_callback(close, app)
            await app.start()
            announce(app.startup.text(address(settings, listener.getsockname()[1])))
            for warning in app.warnings:
                announce(f"{warning}\n")
            app.tasks.start(warn_of_unreachable(app), "reachability")
            server = GatewayServer(server_config(app))
            if idle_limit is not None:
                app.tasks.start(stop_when_idle(app, idle_limit, stopping, server.stop), "idle")
            if app.cluster is not None:
                await stack.enter_async_context(joined(app, app.cluster))
                server.drain_with(app.cluster.drain, app.tasks)
            await server.serve_on(listener)

    run(serve_main())


@contextlib.asynccontextmanager
async def joined(app: App, cluster: "Cluster") -> AsyncGenerator[None, None]:
    """Serve the private listener of a replica, and announce the replica to the others, until the context is left."""
    listener = listen(cluster.host, cluster.port, "Set `cluster.listen` to another address.")
    # The replica that receives the client's request adds the headers for browsers.
    server = _PrivateServer(server_config(app, cluster.private, headers=()))
    serving = app.tasks.start(server.serve(sockets=[listener]), "private listener")
    try:
        await cluster.join(listener.getsockname()[1])
        yield
    finally:
        # Leave first, so that the others serve the requests that this replica no longer accepts.
        await cluster.membership.leave()
        server.should_exit = True
        await asyncio.wait([serving], timeout=2 * DRAIN)


def run(program: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine in an event loop, after adjusting the file limit, the allocator and the handling of SIGINT."""
    _raise_file_limit()
    _tune_allocator()
    # Shells start background jobs with SIGINT ignored. Stop on SIGINT in any case.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(program)


async def stop_when_idle(app: App, limit: float, stopping: asyncio.Event, stop: Callable[[], None]) -> None:
    """Call `stop` when no request has been in progress for `limit` seconds, or when `stopping` is set.

    Event streams, such as those of the page and of programs that watch the inbox, are requests in progress.
    """
    clock = asyncio.get_running_loop().time
    idle_since, served = clock(), app.asgi.served
    while clock() - idle_since < limit:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(IDLE_CHECK, limit / 4)):
                await stopping.wait()
                break
        if app.asgi.active or app.gateway.metrics.open_legs or app.asgi.served != served:
            idle_since, served = clock(), app.asgi.served
    stop()


async def warn_of_unreachable(app: App) -> None:
    """Log a warning for each upstream that does not answer."""
    for name, reason in (await unreachable(app.upstreams, app.client)).items():
        log.warning("upstream %s does not answer: %s", name, reason)


def server_config(
    app: App, asgi: "HttpApp | PrivateApp | None" = None, headers: Sequence[tuple[str, str]] = SAFETY
) -> uvicorn.Config:
    """Return the uvicorn settings for `asgi` or, if None, for the main application. Tests use the same settings."""
    return uvicorn.Config(
        asgi or app.asgi,
        http=HttpServerProtocol,
        loop="auto",
        ws="none",
        lifespan="off",
        proxy_headers=False,
        access_log=False,
        log_config=None,
        server_header=False,
        date_header=False,
        headers=list(headers),
        timeout_keep_alive=KEEP_IDLE,
        timeout_graceful_shutdown=DRAIN,
        backlog=BACKLOG,
    )


def _tune_allocator() -> None:
    """Make the allocator reuse the memory of one request for the next.

    With glibc's default mmap threshold, the memory of a large request is returned to the system and must be mapped
    again for the next request. glibc raises the threshold when a large block is freed, so allocate one and free it.
    """
    bytes(_KEPT_MEMORY)


class GatewayServer(uvicorn.Server):
    """A uvicorn server that stops on a signal without re-raising it, so that the program can close its resources."""

    _drain: Callable[[], object] | None = None
    """Starts draining; None if the server does not drain, or if draining has begun."""

    def drain_with(self, drain: Callable[[], Coroutine[Any, Any, None]], tasks: Tasks) -> None:
        """After SIGTERM, await `drain` before the server stops. A second signal stops it at once."""
        loop = asyncio.get_running_loop()

        async def drain_and_stop() -> None:
            try:
                await drain()
            finally:
                self.stop()

        self._drain = lambda: loop.call_soon_threadsafe(tasks.start, drain_and_stop(), "draining")

    async def serve_on(self, listener: socket.socket) -> None:
        """Serve until a signal arrives or `stop` is called.

        Call this after all long-lived objects have been created, so that the garbage collector can skip them.
        """
        # Objects created so far live as long as the process, and requests leave few cycles: collect rarely.
        gc.collect()
        gc.freeze()
        gc.set_threshold(20_000, 20, 20)
        # Tieline logs failed requests itself; uvicorn would add a traceback for each request it cancels.
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
        await self.serve(sockets=[listener])

    def stop(self) -> None:
        """Stop serving. `serve_on` returns after all open requests have finished or have been cancelled."""
        self.should_exit = True

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 - signature of signal handlers
        drain, self._drain = self._drain, None
        if drain is not None and sig == signal.SIGTERM:
            drain()
            return
        if self.should_exit and sig == signal.SIGINT:
            self.force_exit = True
        self.should_exit = True


class _PrivateServer(uvicorn.Server):
    """A server that runs beside the main one and leaves signals to it."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


async def close(app: App) -> None:
    """Close the application, but do not wait longer than CLOSING seconds."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(CLOSING):
            await app.aclose()


def _raise_file_limit() -> None:
    """Raise the limit on open files, which is usually 1024. Every stream and every parked run needs an open file."""
    if resource is None:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return
    for number in (MOST_FILES if hard == resource.RLIM_INFINITY else hard, FILES_ON_MACOS):
        if number <= soft:
            return
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (number, hard))
            return


def _simulated(url: str) -> dict[str, object]:
    return {"enabled": True, "api_url": url, "agent_url": url, "transport": "http2", "ghost_mode": True}


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    return uvicorn.Config("", loop="auto").get_loop_factory()


def listen(host: str, port: int, hint: str) -> socket.socket:
    """Return a listening socket. Raise ConfigError if the address cannot be used, with `hint` if it is in use."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        # Python appends the address to the reason, and `os.strerror` does not know Windows socket errors.
        reason = (error.strerror or str(error)).partition(" (while attempting")[0]
        advice = f" {hint}" if error.errno == errno.EADDRINUSE else ""
        raise ConfigError(f"cannot listen on {host}:{port}: {reason}.{advice}") from error
