"""What the commands of `tieline` do, each with no more of the program than it needs."""

import argparse
import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from tieline.app import logs
from tieline.app.build.upstreams import address, user_folder
from tieline.app.config import Config, ConfigError, CursorSettings, Source, load, read
from tieline.app.lazy import Lazily
from tieline.app.trust import Finder
from tieline.model.errors import GatewayError
from tieline.model.ports import ModelInfo
from tieline.tools.invisible_text import visible

if TYPE_CHECKING:
    from tieline.app.build.agents import install, listing
    from tieline.app.build.application import App, build
    from tieline.app.build.cursor import login_cursor, logout_cursor, whoami
    from tieline.app.reachability import unreachable
    from tieline.app.serve import serve
    from tieline.cli.inbox.commands import run as inbox
    from tieline.cli.trust import agree, shown_path
    from tieline.cli.trust import run as trust
    from tieline.sim.cursor import CursorSim
    from tieline.sim.cursor import serve as simulate
    from tieline.sim.cursor.server import Tls
else:
    install = Lazily("tieline.app.build.agents", "install")
    listing = Lazily("tieline.app.build.agents", "listing")
    build = Lazily("tieline.app.build.application", "build")
    login_cursor = Lazily("tieline.app.build.cursor", "login_cursor")
    logout_cursor = Lazily("tieline.app.build.cursor", "logout_cursor")
    whoami = Lazily("tieline.app.build.cursor", "whoami")
    inbox = Lazily("tieline.cli.inbox.commands", "run")
    serve = Lazily("tieline.app.serve", "serve")
    unreachable = Lazily("tieline.app.reachability", "unreachable")
    simulate = Lazily("tieline.sim.cursor", "serve")
    Tls = Lazily("tieline.sim.cursor.server", "Tls")
    agree = Lazily("tieline.cli.trust", "agree")
    shown_path = Lazily("tieline.cli.trust", "shown_path")
    trust = Lazily("tieline.cli.trust", "run")

MAX_PORT = 65535
SIMULATED = """\
A simulator of Cursor's service is listening on {url}, with the demo model behind it.

Point a client of Cursor at it (any key will do), or this gateway:

  [cursor]
  enabled = true
  api_url = "{url}"
"""


def perform(options: argparse.Namespace) -> int:
    """Do what was typed; what goes wrong is one line a person can act on."""
    try:
        return _COMMANDS[options.command](options)
    except ConfigError as error:
        _warn(str(error).replace("\n", "\\n"))
        return 2
    except GatewayError as error:
        _warn(error.message)
        return 1


def _warn(text: str) -> None:
    """One line for the user; what a file or a service put into it cannot control the terminal."""
    print(f"tieline: {visible(text)}", file=sys.stderr, flush=True)


def _source(options: argparse.Namespace) -> Source | None:
    """The configuration file that counts, with its content."""
    finder = Finder(user_folder(_environment()), agree=agree, warn=_warn)
    return finder.find(options.config, _here())


def _environment() -> dict[str, str]:
    """Our environment, without relative folders in PATH: those would find programs in the working directory."""
    env = dict(os.environ)
    if "PATH" in env:
        env["PATH"] = os.pathsep.join(folder for folder in env["PATH"].split(os.pathsep) if Path(folder).is_absolute())
    return env


def _here() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError as error:
        raise ConfigError("the working directory no longer exists") from error


def _loaded(options: argparse.Namespace) -> Config:
    return load(_source(options), _environment())


def _serve(options: argparse.Namespace) -> int:
    source = _source(options)
    config = load(source, _environment())
    given = {name: value for name in ("host", "port") if (value := getattr(options, name)) is not None}
    config = replace(config, server=replace(config.server, **given), log=options.log or config.log)
    if not 0 <= config.server.port <= MAX_PORT:
        raise ConfigError(f"--port {config.server.port}: a port is a number from 0 to {MAX_PORT}")
    config = _with_tools(config, options)
    logs.configure(config.log.upper(), "%(asctime)s %(levelname)s %(message)s")
    path = None if source is None else source.path
    serve(config, _environment(), _say, source=path, simulate_cursor=options.demo)
    return 0


def _with_tools(config: Config, options: argparse.Namespace) -> Config:
    tools = config.tools
    enabled, yolo = options.tools or tools.enabled, options.yolo or tools.yolo
    if options.workspace and not enabled:
        raise ConfigError("--workspace is about the gateway's own tools: say --tools too")
    return replace(
        config, tools=replace(tools, enabled=enabled, workspace=options.workspace or tools.workspace, yolo=yolo)
    )


def _inbox(options: argparse.Namespace) -> int:
    config = _loaded(options)
    asyncio.run(inbox(options, config, _environment(), _say, time.time))
    return 0


def _models(options: argparse.Namespace) -> int:
    config = _loaded(options)
    logs.configure("WARNING")
    app = build(config, _environment())
    for name, info in sorted(asyncio.run(_listed(app)).items()):
        full = f"{info.owner}/{info.id}"
        facts = [f"{info.context // 1000}k tokens"] if info.context else []
        facts += [f"alias of {full}"] if name != full else []
        print(logs.one_line(f"{name}  ({', '.join(facts)})" if facts else name))
    return 0


async def _listed(app: "App") -> Mapping[str, ModelInfo]:
    try:
        return await app.gateway.names()
    finally:
        await app.aclose()


def _login(options: argparse.Namespace) -> int:
    return _asked(options, partial(login_cursor, take=options.take, say=_say))


def _logout(options: argparse.Namespace) -> int:
    return _asked(options, logout_cursor)


def _whoami(options: argparse.Namespace) -> int:
    return _asked(options, whoami)


def _say(text: str) -> None:
    print(text, flush=True)


def _asked(options: argparse.Namespace, do: Callable[[CursorSettings, Mapping[str, str]], Awaitable[str]]) -> int:
    """Do something with an account and print what came of it."""
    settings = _loaded(options).cursor
    logs.configure("WARNING")

    async def run() -> str:
        return await do(settings, _environment())

    print(asyncio.run(run()))
    return 0


def _agents(options: argparse.Namespace) -> int:
    settings = _loaded(options).acp
    if options.action == "list":
        _say(listing(settings, _environment()))
        return 0
    if options.agent is None:
        raise ConfigError("name the agent: tieline agents install <id>; `tieline agents` lists them")
    return install(settings, options.agent, _environment(), ask=input, say=_say)


def _simulate(options: argparse.Namespace) -> int:
    if (options.certificate is None) != (options.key is None):
        raise ConfigError("TLS needs both --certificate and --key")
    tls = Tls(options.certificate, options.key) if options.key else None
    try:
        asyncio.run(simulate(options.host, options.port, tls=tls, ready=_say_where, native=options.native))
    except OSError as error:
        raise ConfigError(f"cannot serve on {options.host}:{options.port}: {error.strerror or error}") from error
    return 0


def _say_where(sim: "CursorSim") -> None:
    _say(SIMULATED.format(url=sim.url))


def _check(options: argparse.Namespace) -> int:
    """Check the file that would be used and whether its upstreams answer; a named file is only read."""
    source = read(options.file) if options.file is not None else _source(options)
    config = load(source, _environment())
    app = build(config, _environment())
    reasons = asyncio.run(_unreachable(config, app)) if options.file is None else {}
    path = "No file: the defaults" if source is None else shown_path(source.path)
    print(f"{path}: good. The gateway would listen on {address(config)}.")
    for state in app.states:
        answers = f"; it does not answer: {reasons[state.name]}" if state.name in reasons else ""
        print(f"  {visible(f'{state.name}: {state.standing}, {state.text}{answers}')}")
    return 0


async def _unreachable(config: Config, app: "App") -> Mapping[str, str]:
    try:
        return await unreachable(config.upstreams, app.client)
    finally:
        await app.aclose()


def _trust(options: argparse.Namespace) -> int:
    return trust(options, user_folder(_environment()), _here(), _say)


_COMMANDS: Mapping[str, Callable[[argparse.Namespace], int]] = {
    "serve": _serve,
    "inbox": _inbox,
    "models": _models,
    "login": _login,
    "logout": _logout,
    "whoami": _whoami,
    "agents": _agents,
    "simulate": _simulate,
    "check-config": _check,
    "trust": _trust,
}
