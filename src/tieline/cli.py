"""The command `tieline`: serve, list models, answer what waits, check the configuration, log in, simulate."""

import argparse
import asyncio
import logging
import os
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeAlias

from msgspec.structs import replace

from tieline import __version__
from tieline.agents import install, listing
from tieline.app import App, address, build, serve
from tieline.assembly import login_cursor, logout_cursor, user_folder, whoami
from tieline.config import Config, ConfigError, CursorSettings, find, load
from tieline.inbox_cli import commands as inbox
from tieline.model.errors import GatewayError
from tieline.model.ports import ModelInfo
from tieline.sim.cursor import CursorSim
from tieline.sim.cursor import serve as simulate
from tieline.sim.cursor.server import Tls

Parser = argparse.ArgumentParser
Commands: TypeAlias = "argparse._SubParsersAction[Parser]"

DESCRIPTION = """\
A local gateway between the AI clients you have and the models you have:
OpenAI and Anthropic clients in front; OpenAI-like and Anthropic upstreams, your
Cursor account, coding agents (ACP) and a built-in demo model behind; tool calls
that arrive whole in between."""

EPILOG = """\
Without a configuration there is the demo model, and an upstream for each of
ANTHROPIC_API_KEY and OPENAI_API_KEY that is set. The first of these files is used:
--config FILE, ./tieline.toml, tieline/tieline.toml in your configuration directory."""


SIMULATED = """\
A simulator of Cursor's service is listening on {url}, with the demo model behind it.

Point a client of Cursor at it (any key will do), or this gateway:

  [cursor]
  enabled = true
  api_url = "{url}"
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; what goes wrong is one line a person can act on."""
    options = _parser().parse_args(arguments)
    try:
        result: int = options.run(options)
    except ConfigError as error:
        print(f"tieline: {error}", file=sys.stderr)
        return 2
    except GatewayError as error:
        print(f"tieline: {error.message}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 0
    except BrokenPipeError:
        # Whoever read our output has enough; nor must the interpreter complain when it flushes the rest.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return result


def _parser() -> argparse.ArgumentParser:
    shape = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("tieline", description=DESCRIPTION, epilog=EPILOG, formatter_class=shape)
    parser.add_argument("--version", action="version", version=f"tieline {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    command = _command(commands, "serve", "start the gateway", _serve)
    command.add_argument("--host", help="where to listen (default 127.0.0.1; others need a key)")
    command.add_argument("--port", type=int, help="the port (default 18741; 0 takes a free one)")
    command.add_argument("--demo", action="store_true", help="offer cursor/demo too, through a simulator of Cursor")
    command.add_argument("--tools", action="store_true", help="offer tools of our own to clients that bring none")
    command.add_argument("--workspace", metavar="DIR", help="the folder they act in (default: this one)")
    command.add_argument("--yolo", action="store_true", help="let them do everything without asking")
    command.add_argument("--log", choices=["debug", "info", "warning", "error"], help="how much to say")

    inbox.add_arguments(_command(commands, "inbox", "see and answer what waits for you", _inbox))
    _command(commands, "models", "list every model that can be asked for", _models)
    command = _command(commands, "login", "log in to an account: open the printed link in any browser", _login)
    command.add_argument("account", choices=["cursor"])
    command.add_argument(
        "--import", dest="take", action="store_true", help="take over the login of Cursor's own client"
    )
    command = _command(commands, "logout", "forget the login of an account", _logout)
    command.add_argument("account", choices=["cursor"])
    _command(commands, "whoami", "say which account is in use", _whoami)

    command = _command(commands, "agents", "list the coding agents that can be models, and install others", _agents)
    command.add_argument("action", nargs="?", choices=["list", "install"], default="list")
    command.add_argument("agent", nargs="?", metavar="ID", help="the agent to install")

    command = _command(commands, "simulate", "serve a service's protocol with the demo model behind it", _simulate)
    command.add_argument("service", choices=["cursor"])
    command.add_argument("--host", default="127.0.0.1", help="where to listen (default 127.0.0.1)")
    command.add_argument("--port", type=int, default=18742, help="the port (default 18742; 0 takes a free one)")
    command.add_argument("--certificate", type=Path, metavar="FILE", help="speak TLS with this certificate (PEM)")
    command.add_argument("--key", type=Path, metavar="FILE", help="the key of the certificate (PEM)")
    _command(commands, "check-config", "say which line of the configuration is wrong, if any", _check)
    return parser


def _command(commands: Commands, name: str, text: str, run: Callable[[argparse.Namespace], int]) -> Parser:
    command = commands.add_parser(name, help=text, description=text[:1].upper() + text[1:] + ".")
    command.add_argument("--config", type=Path, metavar="FILE", help="the configuration file")
    command.set_defaults(run=run)
    return command


def _config_path(options: argparse.Namespace) -> Path | None:
    return find(options.config, here=Path.cwd(), user_dir=user_folder(os.environ).parent)


def _serve(options: argparse.Namespace) -> int:
    config = load(_config_path(options), os.environ)
    given = {name: value for name in ("host", "port") if (value := getattr(options, name)) is not None}
    config = replace(config, server=replace(config.server, **given), log=options.log or config.log)
    config = _with_tools(config, options)
    logging.basicConfig(level=config.log.upper(), format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    serve(config, os.environ, _say, simulate_cursor=options.demo)
    return 0


def _with_tools(config: Config, options: argparse.Namespace) -> Config:
    tools = config.tools
    if not (options.tools or tools.enabled):
        if options.workspace or options.yolo:
            raise ConfigError("--workspace and --yolo are about the gateway's own tools: say --tools too")
        return config
    workspace, yolo = options.workspace or tools.workspace, options.yolo or tools.yolo
    return replace(config, tools=replace(tools, enabled=True, workspace=workspace, yolo=yolo))


def _inbox(options: argparse.Namespace) -> int:
    config = load(_config_path(options), os.environ)
    asyncio.run(inbox.run(options, config, os.environ, _say, time.time))
    return 0


def _models(options: argparse.Namespace) -> int:
    config = load(_config_path(options), os.environ)
    logging.basicConfig(level="WARNING", format="%(message)s", stream=sys.stderr)
    app = build(config, os.environ)
    for name, info in sorted(asyncio.run(_listed(app)).items()):
        print(f"{name}  ({info.context // 1000}k tokens)" if info.context else name)
    return 0


async def _listed(app: App) -> Mapping[str, ModelInfo]:
    try:
        return await app.gateway.models()
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
    settings = load(_config_path(options), os.environ).cursor
    logging.basicConfig(level="WARNING", format="%(message)s", stream=sys.stderr)

    async def run() -> str:
        return await do(settings, os.environ)

    print(asyncio.run(run()))
    return 0


def _agents(options: argparse.Namespace) -> int:
    settings = load(_config_path(options), os.environ).acp
    if options.action == "list":
        _say(listing(settings, os.environ))
        return 0
    if options.agent is None:
        raise ConfigError("name the agent: tieline agents install <id>; `tieline agents` lists them")
    return install(settings, options.agent, os.environ, ask=input, say=_say)


def _simulate(options: argparse.Namespace) -> int:
    if (options.certificate is None) != (options.key is None):
        raise ConfigError("TLS needs both --certificate and --key")
    tls = Tls(options.certificate, options.key) if options.key else None
    try:
        asyncio.run(simulate(options.host, options.port, tls=tls, ready=_say_where))
    except OSError as error:
        raise ConfigError(f"cannot serve on {options.host}:{options.port}: {error.strerror or error}") from error
    return 0


def _say_where(sim: CursorSim) -> None:
    _say(SIMULATED.format(url=sim.url))


def _check(options: argparse.Namespace) -> int:
    path = _config_path(options)
    config = load(path, os.environ)
    app = build(config, os.environ)
    print(f"{path or 'No file: the defaults'}: good. The gateway would listen on {address(config)}.")
    for state in app.states:
        print(f"  {state.name}: {'ready' if state.is_ready else state.lack}, {state.text}")
    return 0
