"""Runs a listener for Cursor's editor, together with a program that makes it reachable from the internet."""

import asyncio
import contextlib
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from tieline.app.build.application import App, Tunnel, build
from tieline.app.config import Config, ConfigError
from tieline.app.serve import GatewayServer, close, listen, run, server_config, warn_of_unreachable
from tieline.core.watch.bus import Watcher
from tieline.frontends.http_app import Observer
from tieline.frontends.keys import NamedKey
from tieline.net.process.program import Process, ProcessError, StopTimeouts
from tieline.net.process.search import find_program as find_on_path
from tieline.net.process.tail import Tail

LOOPBACK = "127.0.0.1"
ROOT = str(Path("/").absolute())
"""The folder in which the tunnel program runs."""
URL_TIMEOUT = 60.0
"""Time limit for a program to print its public address, in seconds."""
MAX_OUTPUT = 64 * 1024
"""Maximum number of bytes kept of a program's output."""
SHOWN_LINES = 12
"""Number of lines at the end of a program's output that are shown when it fails."""
STOPPING = StopTimeouts(eof=0, term=2, kill=2)
ENVIRONMENT = frozenset(
    (
        *("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TMPDIR", "TZ", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR"),
        *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"),
        *("SSL_CERT_FILE", "SSL_CERT_DIR"),
        # Windows
        *("APPDATA", "COMSPEC", "LOCALAPPDATA", "PATHEXT", "SYSTEMROOT", "TEMP", "TMP", "USERPROFILE"),
    )
)
"""The environment variables that a program receives. None of them contains a key."""


class TunnelProgram(NamedTuple):
    """A program that makes a port of this machine reachable from the internet, such as cloudflared."""

    name: str
    arguments: Callable[[int], Sequence[str]]
    """Returns the program's arguments for a port."""
    url: re.Pattern[str]
    """Matches the public address in the program's output."""
    installation: str
    """Where users can get the program."""


PROGRAMS: Mapping[str, TunnelProgram] = {
    program.name: program
    for program in (
        TunnelProgram(
            "cloudflared",
            lambda port: ("tunnel", "--no-autoupdate", "--url", f"http://{LOOPBACK}:{port}"),
            # Errors contain the address of the service itself, api.trycloudflare.com.
            re.compile(r"https://(?!api\.)[a-z0-9-]+\.trycloudflare\.com(?![a-z0-9.-])"),
            "https://developers.cloudflare.com/cloudflare-one/connections/connect-networks/downloads/",
        ),
        TunnelProgram(
            "tailscale",
            lambda port: ("funnel", str(port)),
            re.compile(r"https://[a-z0-9-]+(?:\.[a-z0-9-]+)*\.ts\.net(?::\d+)?(?![a-z0-9.:-])"),
            "https://tailscale.com/download",
        ),
    )
}


class TunnelError(Exception):
    """A tunnel program failed. `output` contains the last lines of its output."""

    def __init__(self, message: str, output: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.output = "\n".join(output.splitlines()[-SHOWN_LINES:])


class TunnelOptions(NamedTuple):
    """The options of a tunnel: the program and its path, the only valid key, and the port of the listener (0 for any).

    `patience` is the number of seconds that the program has to print its public address.
    """

    program: TunnelProgram
    path: str
    key: NamedKey
    port: int = 0
    patience: float = URL_TIMEOUT


class OpenTunnel(NamedTuple):
    """A working tunnel: its public address, and the names of the models that may be used with its key."""

    url: str
    models: Sequence[str]


def find_program(name: str | None, env: Mapping[str, str]) -> tuple[TunnelProgram, str]:
    """Return a tunnel program and its path: the one called `name` or, if None, the first that is installed.

    Raise ConfigError if no program is found.
    """
    candidates = list(PROGRAMS.values()) if name is None else [PROGRAMS[name]]
    for program in candidates:
        path = find_on_path(program.name, env)
        if path is not None:
            return program, path
    wanted = " or ".join(f"{program.name} ({program.installation})" for program in candidates)
    raise ConfigError(
        f"no program for tunnels is installed: install {wanted}, make sure that it is on your PATH, and try again"
        if name is None
        else f"{name} is not installed: install {wanted}, make sure that it is on your PATH, and try again"
    )


def run_tunnel(
    config: Config,
    env: Mapping[str, str],
    options: TunnelOptions,
    *,
    announce: Callable[[OpenTunnel], None],
    observe: Observer,
    watch: Watcher,
) -> None:
    """Run the listener and the program until interrupted. Raise TunnelError if the program fails.

    `announce` is called once when the public address is known, `observe` after each request, and `watch` with each
    gateway event.
    """
    # One record is enough: the watcher receives the legs as they end, and there is no page to show them.
    config = replace(config, web=replace(config.web, enabled=True, traffic=1))
    listener = listen(LOOPBACK, options.port, "Choose another port with `tieline tunnel --port`.")

    async def serve_tunnel() -> None:
        async with contextlib.AsyncExitStack() as stack:
            app = build(config, env, tunnel=Tunnel(options.key, observe))
            stack.push_async_callback(close, app)
            await app.start()
            stack.callback(app.gateway.bus.subscribe(watch))
            app.tasks.start(warn_of_unreachable(app), "reachability")
            server = GatewayServer(server_config(app, app.tunnel))
            port = listener.getsockname()[1]
            child = app.tasks.start(_run_program(options, port, env, app, announce), options.program.name)
            child.add_done_callback(lambda _: server.stop())
            try:
                await server.serve_on(listener)
            finally:
                child.cancel()
                await asyncio.wait([child])
            if not child.cancelled():
                raise child.result()

    run(serve_tunnel())


async def _run_program(
    options: TunnelOptions, port: int, env: Mapping[str, str], app: App, announce: Callable[[OpenTunnel], None]
) -> TunnelError:
    """Run the program until this task is cancelled. If the program fails or ends before that, return an error."""
    program = options.program
    own = {name: value for name, value in env.items() if name in ENVIRONMENT}
    try:
        # The program may print the address to standard output or to standard error.
        argv = (options.path, *program.arguments(port))
        process = await Process.start(argv, env=own, cwd=ROOT, merges_stderr=True)
    except ProcessError as error:
        return TunnelError(f"{program.name} could not be started: {error.message}")
    output = Tail(MAX_OUTPUT)
    try:
        app.tasks.start(app.gateway.models.all(), "models for the tunnel")  # while the program starts
        url = await _public_url(process, options, output)
        announce(OpenTunnel(url, sorted(await app.gateway.models.with_aliases(options.key.access))))
        while data := await process.chunk():  # keep reading, or the program blocks when the pipe is full
            output.add(data)
        return TunnelError(f"{program.name} {await process.wait()}", output.text())
    except TunnelError as error:
        return error
    finally:
        await process.aclose(STOPPING)


async def _public_url(process: Process, options: TunnelOptions, output: Tail) -> str:
    """Return the public address as soon as the program has printed it. Add all its output to `output`."""
    program = options.program
    try:
        async with asyncio.timeout(options.patience):
            while data := await process.chunk():
                output.add(data)
                if found := program.url.search(output.text()):
                    return found[0]
            ending = f"{program.name} {await process.wait()} before it printed a public address"
    except TimeoutError:
        ending = f"{program.name} did not print a public address within {options.patience:g} seconds"
    raise TunnelError(ending, output.text())
