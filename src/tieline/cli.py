"""The command `tieline`: serve, list models, check the configuration."""

import argparse
import asyncio
import logging
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

from msgspec.structs import replace

from tieline import __version__
from tieline.app import App, address, build, serve
from tieline.config import ConfigError, find, load

Parser = argparse.ArgumentParser
Commands: TypeAlias = "argparse._SubParsersAction[Parser]"

DESCRIPTION = """\
A local gateway between the AI clients you have and the models you have:
OpenAI and Anthropic clients in front; OpenAI-like and Anthropic upstreams and
a built-in demo model behind; tool calls that arrive whole in between."""

EPILOG = """\
Without a configuration there is the demo model, and an upstream for each of
ANTHROPIC_API_KEY and OPENAI_API_KEY that is set. The first of these files is used:
--config FILE, ./tieline.toml, tieline/tieline.toml in your configuration directory."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; what goes wrong is one line a person can act on."""
    options = _parser().parse_args(arguments)
    try:
        result: int = options.run(options)
    except ConfigError as error:
        print(f"tieline: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
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
    command.add_argument("--log", choices=["debug", "info", "warning", "error"], help="how much to say")

    _command(commands, "models", "list every model that can be asked for", _models)
    _command(commands, "check-config", "say which line of the configuration is wrong, if any", _check)
    return parser


def _command(commands: Commands, name: str, text: str, run: Callable[[argparse.Namespace], int]) -> Parser:
    command = commands.add_parser(name, help=text, description=text[:1].upper() + text[1:] + ".")
    command.add_argument("--config", type=Path, metavar="FILE", help="the configuration file")
    command.set_defaults(run=run)
    return command


def _config_path(options: argparse.Namespace) -> Path | None:
    base = os.environ.get("XDG_CONFIG_HOME")
    user_dir = Path(base) if base else Path.home() / ".config"
    return find(options.config, here=Path.cwd(), user_dir=user_dir)


def _serve(options: argparse.Namespace) -> int:
    config = load(_config_path(options), os.environ)
    given = {name: value for name in ("host", "port") if (value := getattr(options, name)) is not None}
    config = replace(config, server=replace(config.server, **given), log=options.log or config.log)
    logging.basicConfig(level=config.log.upper(), format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    serve(config, os.environ, lambda text: print(text, flush=True))
    return 0


def _models(options: argparse.Namespace) -> int:
    config = load(_config_path(options), os.environ)
    logging.basicConfig(level="WARNING", format="%(message)s", stream=sys.stderr)
    app = build(config, os.environ)
    for name in asyncio.run(_listed(app)):
        print(name)
    return 0


async def _listed(app: App) -> list[str]:
    try:
        return sorted(await app.gateway.models())
    finally:
        await app.aclose()


def _check(options: argparse.Namespace) -> int:
    path = _config_path(options)
    config = load(path, os.environ)
    app = build(config, os.environ)
    print(f"{path or 'No file: the defaults'}: good. The gateway would listen on {address(config)}.")
    for state in app.states:
        print(f"  {state.name}: {'ready' if state.is_ready else 'no key'}, {state.text}")
    return 0
