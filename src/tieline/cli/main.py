"""The command `tieline`: its subcommands and their options.

What can be typed is here, and costs nothing to know; what is done then is in `commands`, loaded when there is one.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from tieline import __version__
from tieline.app.lazy import Lazily
from tieline.cli.inbox.arguments import add_arguments

if TYPE_CHECKING:
    from tieline.cli.commands import perform
else:
    perform = Lazily("tieline.cli.commands", "perform")

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
--config FILE, ./tieline.toml if you have trusted it (`tieline trust`), and
tieline/tieline.toml in your configuration directory."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    options = _parser().parse_args(arguments)
    try:
        return perform(options)
    except KeyboardInterrupt:
        return 0
    except BrokenPipeError:
        # Whoever read our output has enough; nor must the interpreter complain when it flushes the rest.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _parser() -> argparse.ArgumentParser:
    shape = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("tieline", description=DESCRIPTION, epilog=EPILOG, formatter_class=shape)
    parser.add_argument("--version", action="version", version=f"tieline {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    command = _command(commands, "serve", "start the gateway")
    command.add_argument("--host", help="where to listen (default 127.0.0.1; others need a key)")
    command.add_argument("--port", type=int, help="the port (default 18741; 0 takes a free one)")
    command.add_argument("--demo", action="store_true", help="offer cursor/demo too, through a simulator of Cursor")
    command.add_argument(
        "--tools", action="store_true", help="offer tools of our own in the page and to clients with `tools = true`"
    )
    command.add_argument("--workspace", metavar="DIR", help="the folder they act in (default: this one)")
    command.add_argument("--yolo", action="store_true", help="let them and coding agents do everything without asking")
    command.add_argument("--log", choices=["debug", "info", "warning", "error"], help="how much to say")

    add_arguments(_command(commands, "inbox", "see and answer what waits for you"))
    _command(commands, "models", "list every model that can be asked for")
    command = _command(commands, "login", "log in to an account: open the printed link in any browser")
    command.add_argument("account", choices=["cursor"])
    command.add_argument(
        "--import", dest="take", action="store_true", help="take over the login of Cursor's own client"
    )
    command = _command(commands, "logout", "forget the login of an account")
    command.add_argument("account", choices=["cursor"])
    _command(commands, "whoami", "say which account is in use")

    command = _command(commands, "agents", "list the coding agents that can be models, and install others")
    command.add_argument("action", nargs="?", choices=["list", "install"], default="list")
    command.add_argument("agent", nargs="?", metavar="ID", help="the agent to install")

    command = _command(commands, "simulate", "serve a service's protocol with the demo model behind it")
    command.add_argument("service", choices=["cursor"])
    command.add_argument("--host", default="127.0.0.1", help="where to listen (default 127.0.0.1)")
    command.add_argument("--port", type=int, default=18742, help="the port (default 18742; 0 takes a free one)")
    command.add_argument("--certificate", type=Path, metavar="FILE", help="speak TLS with this certificate (PEM)")
    command.add_argument("--key", type=Path, metavar="FILE", help="the key of the certificate (PEM)")
    command.add_argument(
        "--native",
        action="store_true",
        help="let the model use files and shell of every client, not only of Cursor's own",
    )
    command = _command(commands, "check-config", "say which line of the configuration is wrong, if any")
    command.add_argument("file", nargs="?", type=Path, metavar="FILE", help="check this file and do nothing else")

    command = _plain_command(commands, "trust", "show what ./tieline.toml sets, and use it from now on")
    command.add_argument(
        "path", nargs="?", type=Path, metavar="PATH", help="the file, or its folder (default: this one)"
    )
    what = command.add_mutually_exclusive_group()
    what.add_argument("--list", action="store_true", help="list the files that are trusted")
    what.add_argument("--remove", action="store_true", help="trust the file no longer")
    return parser


def _command(commands: Commands, name: str, text: str) -> Parser:
    command = _plain_command(commands, name, text)
    command.add_argument("--config", type=Path, metavar="FILE", help="the configuration file")
    return command


def _plain_command(commands: Commands, name: str, text: str) -> Parser:
    command = commands.add_parser(name, help=text, description=text[:1].upper() + text[1:] + ".")
    command.set_defaults(command=name)
    return command
