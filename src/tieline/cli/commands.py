"""Implements the commands of `tieline`. Each command loads only the code it needs."""

import argparse
import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from tieline.app import logs
from tieline.app.config import Config, ConfigError, CursorSettings, address
from tieline.app.config_file import ConfigFile, load_config, read_config_file
from tieline.app.folders import user_folder
from tieline.app.lazy import LazyImport
from tieline.app.trust import ConfigFinder
from tieline.model.errors import GatewayError
from tieline.model.ports import ModelInfo
from tieline.tools.invisible_text import visible

if TYPE_CHECKING:
    from tieline.app.build.agents import install, listing
    from tieline.app.build.application import App, build
    from tieline.app.build.cursor_account import login_cursor, logout_cursor, whoami
    from tieline.app.reachability import unreachable
    from tieline.app.serve import serve
    from tieline.cli.chat.command import run as chat
    from tieline.cli.configure import configure
    from tieline.cli.doctor import run as doctor
    from tieline.cli.inbox.commands import run as inbox
    from tieline.cli.keys import run as keys
    from tieline.cli.run import print_settings
    from tieline.cli.run import run as run_client
    from tieline.cli.service import run as service
    from tieline.cli.trust import agree, shown_path
    from tieline.cli.trust import run as trust
    from tieline.cli.tunnel import run as tunnel
    from tieline.cli.usage import run as usage
    from tieline.sim.cursor import CursorSim
    from tieline.sim.cursor import serve as simulate
    from tieline.sim.cursor.server import Tls
else:
    install = LazyImport("tieline.app.build.agents", "install")
    listing = LazyImport("tieline.app.build.agents", "listing")
    build = LazyImport("tieline.app.build.application", "build")
    login_cursor = LazyImport("tieline.app.build.cursor_account", "login_cursor")
    logout_cursor = LazyImport("tieline.app.build.cursor_account", "logout_cursor")
    whoami = LazyImport("tieline.app.build.cursor_account", "whoami")
    chat = LazyImport("tieline.cli.chat.command", "run")
    configure = LazyImport("tieline.cli.configure", "configure")
    doctor = LazyImport("tieline.cli.doctor", "run")
    inbox = LazyImport("tieline.cli.inbox.commands", "run")
    keys = LazyImport("tieline.cli.keys", "run")
    print_settings = LazyImport("tieline.cli.run", "print_settings")
    run_client = LazyImport("tieline.cli.run", "run")
    serve = LazyImport("tieline.app.serve", "serve")
    unreachable = LazyImport("tieline.app.reachability", "unreachable")
    simulate = LazyImport("tieline.sim.cursor", "serve")
    Tls = LazyImport("tieline.sim.cursor.server", "Tls")
    service = LazyImport("tieline.cli.service", "run")
    agree = LazyImport("tieline.cli.trust", "agree")
    shown_path = LazyImport("tieline.cli.trust", "shown_path")
    trust = LazyImport("tieline.cli.trust", "run")
    tunnel = LazyImport("tieline.cli.tunnel", "run")
    usage = LazyImport("tieline.cli.usage", "run")

MAX_PORT = 65535
LOG_LAYOUT = "%(asctime)s %(levelname)s %(message)s"
SIMULATED = """\
A simulator of Cursor's service is listening on {url}. The demo model answers.

Connect a client of Cursor to it; any key will do. To connect Tieline itself, set
CURSOR_API_KEY to any text, and add this to its configuration file:

  [cursor]
  api_url = "{url}"
"""


def perform(options: argparse.Namespace) -> int:
    """Run the command in `options` and return its exit status. If it fails, print the error to standard error."""
    try:
        return _COMMANDS[options.command](options)
    except ConfigError as error:
        _warn(str(error).replace("\n", "\\n"))
        return 2
    except GatewayError as error:
        _warn(error.message)
        return 1


def _warn(text: str) -> None:
    """Print a message to standard error.

    Control characters, which may come from a file or a service, are escaped, except for line feeds and tabs.
    """
    print(f"tieline: {visible(text)}", file=sys.stderr, flush=True)


def _source(options: argparse.Namespace) -> ConfigFile | None:
    """Find and read the configuration file. Return None if no file is found."""
    finder = ConfigFinder(user_folder(_environment()), agree=agree, warn=_warn)
    return finder.find(options.config, _here())


def _environment() -> dict[str, str]:
    """Return the environment variables, with PATH reduced to absolute folders.

    With a relative folder in PATH, a program in the working directory could be run by accident.
    """
    env = dict(os.environ)
    if "PATH" in env:
        env["PATH"] = os.pathsep.join(folder for folder in env["PATH"].split(os.pathsep) if Path(folder).is_absolute())
    return env


def _here() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError as error:
        raise ConfigError("the working directory no longer exists") from error


def _config(options: argparse.Namespace) -> Config:
    return load_config(_source(options), _environment())


def _serve(options: argparse.Namespace) -> int:
    source = _source(options)
    config = load_config(source, _environment())
    given = {name: value for name in ("host", "port") if (value := getattr(options, name)) is not None}
    config = replace(config, server=replace(config.server, **given), log=options.log or config.log)
    _check_port(config.server.port)
    config = _with_tools(config, options)
    logs.configure(config.log.upper(), LOG_LAYOUT)
    path = None if source is None else source.path
    serve(config, _environment(), _say, source=path, simulate_cursor=options.demo, idle_limit=options.exit_when_idle)
    return 0


def _check_port(port: int) -> None:
    if not 0 <= port <= MAX_PORT:
        raise ConfigError(f"--port {port}: expected a number from 0 to {MAX_PORT}")


def _with_tools(config: Config, options: argparse.Namespace) -> Config:
    tools = config.tools
    enabled, yolo = options.tools or tools.enabled, options.yolo or tools.yolo
    if options.workspace and not enabled:
        raise ConfigError("--workspace sets the folder of the gateway's own tools: add --tools to enable them")
    return replace(
        config, tools=replace(tools, enabled=enabled, workspace=options.workspace or tools.workspace, yolo=yolo)
    )


def _chat(options: argparse.Namespace) -> int:
    source = _source(options)
    config = load_config(source, _environment())
    logs.configure("ERROR")
    return asyncio.run(chat(options, config, _environment(), None if source is None else source.path))


def _inbox(options: argparse.Namespace) -> int:
    config = _config(options)
    try:
        asyncio.run(inbox(options, config, _environment(), _say, time.time))
    except KeyboardInterrupt:
        if options.what != "watch":  # Ctrl-C is the usual way to stop watching
            raise
    return 0


def _tunnel(options: argparse.Namespace) -> int:
    config = _config(options)
    _check_port(options.port)
    logs.configure((options.log or config.log).upper(), LOG_LAYOUT)
    return tunnel(options, config, _environment(), _say, _warn)


def _run(options: argparse.Namespace) -> int:
    config, path = _config_and_path(options)
    return run_client(options, config, _environment(), path, _say, _warn)


def _env(options: argparse.Namespace) -> int:
    config, path = _config_and_path(options)
    return print_settings(options, config, _environment(), path, _say, _warn)


def _configure(options: argparse.Namespace) -> int:
    config, path = _config_and_path(options)
    return configure(options, config, _environment(), path, _say, _warn)


def _config_and_path(options: argparse.Namespace) -> tuple[Config, Path | None]:
    source = _source(options)
    return load_config(source, _environment()), None if source is None else source.path


def _models(options: argparse.Namespace) -> int:
    config = _config(options)
    logs.configure("WARNING")
    app = build(config, _environment())
    for name, info in sorted(asyncio.run(_model_names(app)).items()):
        full = f"{info.owner}/{info.id}"
        facts = [f"{info.context // 1000}k tokens"] if info.context else []
        facts += [f"alias of {full}"] if name != full else []
        print(logs.one_line(f"{name}  ({', '.join(facts)})" if facts else name))
    return 0


async def _model_names(app: "App") -> Mapping[str, ModelInfo]:
    try:
        return await app.gateway.models.with_aliases()
    finally:
        await app.aclose()


def _login(options: argparse.Namespace) -> int:
    return _account_command(options, partial(login_cursor, take=options.take, say=_say))


def _logout(options: argparse.Namespace) -> int:
    return _account_command(options, logout_cursor)


def _whoami(options: argparse.Namespace) -> int:
    return _account_command(options, whoami)


def _say(text: str) -> None:
    print(text, flush=True)


def _account_command(
    options: argparse.Namespace, do: Callable[[CursorSettings, Mapping[str, str]], Awaitable[str]]
) -> int:
    """Run `do`, which implements a command for the Cursor account, and print the message that it returns."""
    settings = _config(options).cursor
    logs.configure("WARNING")

    async def run() -> str:
        return await do(settings, _environment())

    print(asyncio.run(run()))
    return 0


def _agents(options: argparse.Namespace) -> int:
    settings = _config(options).acp
    if options.action == "list":
        _say(listing(settings, _environment()))
        return 0
    if options.agent is None:
        raise ConfigError("which agent? Run `tieline agents install <id>`; `tieline agents` lists the ids")
    return install(settings, options.agent, _environment(), ask=input, say=_say)


def _simulate(options: argparse.Namespace) -> int:
    if (options.certificate is None) != (options.key is None):
        raise ConfigError("TLS needs both --certificate and --key")
    _check_port(options.port)
    try:
        tls = Tls(options.certificate, options.key).context() if options.key else None
    except OSError as error:
        raise ConfigError(f"--certificate or --key cannot be used: {error.strerror or error}") from error
    try:
        with suppress(KeyboardInterrupt):
            asyncio.run(simulate(options.host, options.port, tls=tls, ready=_say_where, native=options.native))
    except OSError as error:
        raise ConfigError(f"cannot listen on {options.host}:{options.port}: {error.strerror or error}") from error
    return 0


def _say_where(sim: "CursorSim") -> None:
    _say(SIMULATED.format(url=sim.url))


def _check(options: argparse.Namespace) -> int:
    """Check the configuration and whether its upstreams answer. If `options.file` is set, check only that file."""
    source = read_config_file(options.file) if options.file is not None else _source(options)
    config = load_config(source, _environment())
    app = build(config, _environment())
    reasons = asyncio.run(_unreachable(app)) if options.file is None else {}
    path = "No configuration file, using the defaults" if source is None else shown_path(source.path)
    print(f"{path}: good. The gateway would listen on {address(config)}.")
    for status in app.statuses:
        problem = f"; it does not answer: {reasons[status.name]}" if status.name in reasons else ""
        print(f"  {visible(f'{status.name}: {status.label}, {status.text}{problem}')}")
    return 0


async def _unreachable(app: "App") -> Mapping[str, str]:
    try:
        return await unreachable(app.upstreams, app.client)
    finally:
        await app.aclose()


def _doctor(options: argparse.Namespace) -> int:
    return doctor(options, _environment(), _here(), _say)


def _trust(options: argparse.Namespace) -> int:
    return trust(options, user_folder(_environment()), _here(), _say)


def _service(options: argparse.Namespace) -> int:
    return service(options, _environment(), _say)


def _keys(options: argparse.Namespace) -> int:
    config = _config(options)
    logs.configure("WARNING")
    return keys(options, config, _environment(), _say)


def _usage(options: argparse.Namespace) -> int:
    config = _config(options)
    logs.configure("WARNING")
    return usage(options, config, _environment(), _say)


_COMMANDS: Mapping[str, Callable[[argparse.Namespace], int]] = {
    "serve": _serve,
    "chat": _chat,
    "inbox": _inbox,
    "models": _models,
    "run": _run,
    "env": _env,
    "configure": _configure,
    "tunnel": _tunnel,
    "login": _login,
    "logout": _logout,
    "whoami": _whoami,
    "agents": _agents,
    "simulate": _simulate,
    "check-config": _check,
    "doctor": _doctor,
    "trust": _trust,
    "service": _service,
    "keys": _keys,
    "usage": _usage,
}
