"""The subcommands and options of `tieline`. The module `commands`, which runs them, is imported only when needed."""

import argparse
import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from tieline import __version__
from tieline.app.lazy import LazyImport
from tieline.cli.chat.arguments import add_arguments as add_chat_arguments
from tieline.cli.inbox.arguments import add_arguments as add_inbox_arguments

if TYPE_CHECKING:
    from tieline.cli.commands import perform
    from tieline.cli.completion import run as complete
else:
    complete = LazyImport("tieline.cli.completion", "run")
    perform = LazyImport("tieline.cli.commands", "perform")

Parser = argparse.ArgumentParser
Commands: TypeAlias = "argparse._SubParsersAction[Parser]"

MAX_SECONDS = 1e6
INTERRUPTED = 130
"""The exit status of a command that Ctrl-C ended, as in a shell."""
LOG_LEVELS = ("debug", "info", "warning", "error")
DESCRIPTION = """\
A local gateway between AI clients and models. Clients of the OpenAI and
Anthropic APIs can use OpenAI-like and Anthropic-like upstreams, your Cursor
account, coding agents (ACP) and a built-in demo model, with complete and valid
tool calls."""

EPILOG = """\
Without a configuration, the gateway offers the demo model, an upstream for each
of ANTHROPIC_API_KEY and OPENAI_API_KEY that is set, your Cursor account if you
are logged in, and the coding agents that are installed. The first of these
configuration files is used: --config FILE, ./tieline.toml if you trust it
(see `tieline trust`), tieline/tieline.toml in your configuration directory
(usually ~/.config)."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `tieline` and return the exit status. By default, `arguments` are those of the process."""
    _tolerate_encoding()
    own, passed_on = _split(sys.argv[1:] if arguments is None else arguments)
    parser = _parser()
    options = parser.parse_args(own)
    options.arguments = passed_on
    try:
        if options.command == "completion":  # shells wait for it, so nothing else is loaded
            sys.stdout.write(complete(parser, options.shell, os.environ))
            return 0
        return perform(options)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The program that reads the output has closed the pipe. Prevent another error when stdout is flushed at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _tolerate_encoding() -> None:
    """Escape characters that the encoding of the output lacks, instead of raising an error.

    On Windows, output to a file or a pipe uses the encoding for the system's language.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _seconds(text: str) -> float:
    """Parse a positive number of seconds."""
    seconds = float(text)
    if not 0 < seconds <= MAX_SECONDS:
        raise ValueError(text)
    return seconds


def _split(arguments: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """Return the arguments for Tieline and, for `tieline run`, those after `--`, which are for the client."""
    if list(arguments[:1]) != ["run"] or "--" not in arguments:
        return arguments, ()
    place = arguments.index("--")
    return arguments[:place], arguments[place + 1 :]


def _parser() -> argparse.ArgumentParser:
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("tieline", description=DESCRIPTION, epilog=EPILOG, formatter_class=formatter)
    parser.add_argument("--version", action="version", version=f"tieline {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    command = _command(commands, "serve", "start the gateway")
    command.add_argument("--host", help="address to listen on (default 127.0.0.1; other addresses need a key)")
    command.add_argument("--port", type=int, help="port to listen on (default 18741; 0 picks a free port)")
    command.add_argument("--demo", action="store_true", help="offer cursor/demo, through a simulator instead of Cursor")
    command.add_argument(
        "--tools",
        action="store_true",
        help="offer the gateway's own tools on the page and to clients with `tools = true`",
    )
    command.add_argument("--workspace", metavar="DIR", help="folder for the tools (default: the working directory)")
    command.add_argument(
        "--yolo", action="store_true", help="let the tools and coding agents do everything without asking"
    )
    command.add_argument("--log", choices=LOG_LEVELS, help="log level (default warning)")
    command.add_argument(
        "--exit-when-idle",
        type=_seconds,
        metavar="SECONDS",
        help="stop after this long without a request, or at POST /api/stop",
    )

    add_chat_arguments(_command(commands, "chat", "chat with a model in the terminal, or print one answer"))
    add_inbox_arguments(_command(commands, "inbox", "list and answer the requests that wait for you"))
    _command(commands, "models", "list all available models")
    _add_client_commands(commands)
    _add_tunnel(commands)
    command = _command(commands, "login", "log in to an account: open the printed link in any browser")
    command.add_argument("account", choices=["cursor"])
    command.add_argument("--import", dest="take", action="store_true", help="import the login of Cursor's own client")
    command = _command(commands, "logout", "delete the stored login of an account")
    command.add_argument("account", choices=["cursor"])
    _command(commands, "whoami", "show which account is in use")

    command = _command(commands, "agents", "list the coding agents that can be used as models, or install one")
    command.add_argument("action", nargs="?", choices=["list", "install"], default="list")
    command.add_argument("agent", nargs="?", metavar="ID", help="the agent to install")

    command = _plain_command(commands, "simulate", "simulate a service, with the demo model in place of its models")
    command.add_argument("service", choices=["cursor"])
    command.add_argument("--host", default="127.0.0.1", help="address to listen on (default 127.0.0.1)")
    command.add_argument(
        "--port", type=int, default=18742, help="port to listen on (default 18742; 0 picks a free port)"
    )
    command.add_argument("--certificate", type=Path, metavar="FILE", help="use TLS with this certificate (PEM)")
    command.add_argument("--key", type=Path, metavar="FILE", help="private key of the certificate (PEM)")
    command.add_argument(
        "--native",
        action="store_true",
        help="use Cursor's built-in file and shell tools with every client, not only with Cursor's own",
    )
    command = _command(commands, "check-config", "check the configuration and whether its upstreams answer")
    command.add_argument("file", nargs="?", type=Path, metavar="FILE", help="check only this file, and no upstreams")

    _add_doctor(commands)

    command = _plain_command(commands, "trust", "show the settings in ./tieline.toml, and trust the file")
    command.add_argument(
        "path", nargs="?", type=Path, metavar="PATH", help="the file or its folder (default: the working directory)"
    )
    action = command.add_mutually_exclusive_group()
    action.add_argument("--list", action="store_true", help="list the trusted files")
    action.add_argument("--remove", action="store_true", help="stop trusting the file")

    _add_keys(commands)
    _add_usage(commands)
    _add_service(commands)
    command = _plain_command(commands, "completion", "print a script that completes commands in a shell")
    command.add_argument("shell", choices=["bash", "zsh", "fish"])
    return parser


def _add_keys(commands: Commands) -> None:
    command = _plain_command(commands, "keys", "create, list, revoke or rotate the keys of clients")
    actions = command.add_subparsers(title="actions", metavar="ACTION", required=True, dest="action")
    create = _key_action(actions, "create", "create a key, and show it once")
    create.add_argument("name", metavar="NAME", help="a name that has not been used before")
    create.add_argument(
        "--models",
        action="append",
        default=[],
        metavar="PATTERN",
        help="allow only models that match, such as 'anthropic/*' (repeatable; default: all)",
    )
    create.add_argument("--tools", action="store_true", help="give requests without tools the gateway's own tools")
    create.add_argument("--agents", action="store_true", help="also allow coding agents (acp/…)")
    create.add_argument("--no-page", action="store_true", help="do not allow the web page")
    create.add_argument("--admin", action="store_true", help="allow everything that the gateway's own key may do")
    create.add_argument("--expires", metavar="WHEN", help="last day (2027-01-31), or a number of days (30d)")
    for name in ("requests-per-minute", "tokens-per-minute", "tokens-per-day", "tokens-per-month"):
        create.add_argument(f"--{name}", type=int, metavar="N", help=f"maximum number of {name.replace('-', ' ')}")
    for name in ("cost-per-day", "cost-per-month"):
        create.add_argument(f"--{name}", type=float, metavar="DOLLARS", help=f"maximum {name.replace('-', ' ')}")
    _key_action(actions, "list", "list the keys")
    revoke = _key_action(actions, "revoke", "revoke a key immediately and permanently")
    revoke.add_argument("name", metavar="NAME")
    revoke.add_argument("--yes", action="store_true", help="do not ask")
    rotate = _key_action(actions, "rotate", "replace a key with a new one, and show it once")
    rotate.add_argument("name", metavar="NAME")
    rotate.add_argument("--grace", metavar="TIME", help="how long the old key stays valid, such as 24h (default: 0)")


def _key_action(actions: Commands, name: str, text: str) -> Parser:
    action = actions.add_parser(name, help=text, description=text[:1].upper() + text[1:] + ".")
    action.set_defaults(command="keys")
    action.add_argument("--config", type=Path, metavar="FILE", help="configuration file")
    action.add_argument("--json", action="store_true", help="print the result as JSON")
    return action


def _add_usage(commands: Commands) -> None:
    command = _command(commands, "usage", "show usage and cost")
    command.add_argument(
        "--by",
        action="append",
        default=[],
        choices=["key", "model", "client", "day"],
        help="group by this (repeatable; default: key)",
    )
    command.add_argument("--since", metavar="DAY", help="first day, such as 2026-11-01 (default: start of the month)")
    command.add_argument("--until", metavar="DAY", help="last day (default: today)")
    output = command.add_mutually_exclusive_group()
    output.add_argument("--csv", action="store_true", help="print the result as CSV")
    output.add_argument("--json", action="store_true", help="print the result as JSON")


def _add_service(commands: Commands) -> None:
    command = _plain_command(commands, "service", "start the gateway when you log in, and keep it running")
    command.add_argument("action", choices=["install", "status", "remove"])
    command.add_argument("--config", type=Path, metavar="FILE", help="configuration file of the service")
    command.add_argument("--yes", action="store_true", help="do not ask before anything is changed")


def _add_client_commands(commands: Commands) -> None:
    command = _command(commands, "run", "start a client on the gateway, or list the clients")
    command.usage = "tieline run [CLIENT] [-m NAME] [--dry-run] [--config FILE] [-- ARGUMENT ...]"
    command.epilog = "Arguments after -- go to the client: tieline run claude -- -p 'read README.md'"
    command.add_argument("client", nargs="?", metavar="CLIENT", help="such as claude, codex or opencode")
    _add_model(command)
    command.add_argument("--dry-run", action="store_true", help="only print what would be set")

    command = _command(commands, "env", "print the settings of a client or an editor")
    command.add_argument("client", metavar="CLIENT", help="such as claude, vscode, zed, jetbrains or cursor")
    _add_model(command)
    command.set_defaults(dry_run=False)

    command = _command(commands, "configure", "write the settings of a client to its own file, after you have agreed")
    command.add_argument("client", metavar="CLIENT", help="such as claude, codex or opencode")
    _add_model(command)
    command.add_argument("--yes", action="store_true", help="do not ask")
    command.add_argument("--undo", action="store_true", help="restore the file as it was before")
    command.add_argument("--force", action="store_true", help="with --undo: also if the file has changed since")


def _add_model(command: Parser) -> None:
    command.add_argument(
        "-m", "--model", metavar="NAME", help="model (default: the one in the configuration, or the first suitable one)"
    )


def _add_tunnel(commands: Commands) -> None:
    command = _command(commands, "tunnel", "make models available to Cursor's editor at a temporary public address")
    command.add_argument(
        "--with",
        dest="program",
        choices=["cloudflared", "tailscale"],
        help="program that opens the tunnel (default: the first that is installed)",
    )
    command.add_argument(
        "--models",
        action="append",
        default=[],
        metavar="PATTERN",
        help="allow only models that match, such as 'anthropic/*' (repeatable; default: all)",
    )
    command.add_argument("--agents", action="store_true", help="also allow coding agents (acp/…)")
    command.add_argument("--tools", action="store_true", help="give requests without tools the gateway's own tools")
    command.add_argument("--key-env", metavar="NAME", help="variable with the key (default: a new random key)")
    command.add_argument("--port", type=int, default=0, help="local port of the tunnel (default: any free port)")
    command.add_argument("--json", action="store_true", help="print one JSON object per line, for other programs")
    command.add_argument("--log", choices=LOG_LEVELS, help="log level (default warning)")


def _add_doctor(commands: Commands) -> None:
    command = _command(commands, "doctor", "find out what does not work, and how to fix it")
    command.add_argument(
        "client",
        nargs="?",
        metavar="CLIENT",
        help="run this client on the demo model instead, such as claude; or cursor, with --live",
    )
    command.add_argument("--offline", action="store_true", help="send no requests that may cost money")
    command.add_argument(
        "--live",
        action="store_true",
        help="with cursor: run a turn with tools on your account; it counts against your plan",
    )
    command.add_argument("--json", action="store_true", help="print the result as JSON")


def _command(commands: Commands, name: str, text: str) -> Parser:
    command = _plain_command(commands, name, text)
    command.add_argument("--config", type=Path, metavar="FILE", help="configuration file")
    return command


def _plain_command(commands: Commands, name: str, text: str) -> Parser:
    command = commands.add_parser(name, help=text, description=text[:1].upper() + text[1:] + ".")
    command.set_defaults(command=name)
    return command
