"""The commands `tieline run` and `tieline env`: start a client on the gateway, or print its settings."""

import argparse
import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec.structs import replace

from tieline.app import logs
from tieline.app.config import Config, ConfigError
from tieline.app.gateway_models import in_workspace_of
from tieline.app.launch import conflicting, find_program, proxy_exceptions, run_client
from tieline.app.local_gateway import local_gateway
from tieline.cli.client_connection import PrintedConnection, connect, find_client, printed_connection
from tieline.clients.catalogue import CLIENTS, UNSUPPORTED
from tieline.clients.client import Client
from tieline.clients.shell import FOLDER, KEY, exports, script
from tieline.clients.snippets import EDITORS
from tieline.net.process.exits import Exit

Say = Callable[[str], None]

SIGNAL_STATUS = 128
"""As in a shell, the exit status of a program that a signal has ended is this number plus the number of the signal."""
NOT_RUNNING = "The gateway is not running: start it with `tieline serve`."


def run(
    options: argparse.Namespace, config: Config, env: Mapping[str, str], source: Path | None, say: Say, warn: Say
) -> int:
    """Run `tieline run` and return its exit status, which is that of the client. `warn` prints to standard error."""
    if options.client is None:
        say(listing(env))
        return 0
    client = find_client(options.client)
    if client is None or options.dry_run:
        say(_settings(client, options, config, env, source, warn))
        return 0
    program = find_program(client, env)
    if program is None:
        raise ConfigError(f"{client.title} is not installed, or not on your PATH. To install it: {client.install}")
    # Log records would garble the screen of the client, so they are shown afterwards.
    logged = logs.collect("WARNING")
    try:
        ended = asyncio.run(_session(client, program, options, config, env, source, warn))
    finally:
        for line in logged:
            warn(line)
    return SIGNAL_STATUS + ended.signal if ended.signal is not None else ended.status or 0


async def _session(
    client: Client,
    program: str,
    options: argparse.Namespace,
    config: Config,
    env: Mapping[str, str],
    source: Path | None,
    warn: Say,
) -> Exit:
    async with local_gateway(config, env, source=source) as gateway:
        if not gateway.is_started:
            # The approvals of the client then appear in the editor window of this folder.
            gateway = await in_workspace_of(gateway, Path.cwd().resolve())
        connection = await connect(gateway, options.model, config, warn)
        where = "a gateway for this session" if gateway.is_started else f"the gateway at {gateway.url}"
        warn(f"{client.title} uses {connection.model} through {where}.")
        # Leave out the gateway's variable for the key: the recipe sets the client's own.
        own = {name: value for name, value in env.items() if name != config.server.key_env}
        try:
            return await run_client(client, program, connection, options.arguments, own, warn)
        except OSError as error:
            raise ConfigError(f"{program} cannot be started: {error.strerror}") from error


def listing(env: Mapping[str, str]) -> str:
    """Return text that lists all clients: those that are installed, and how to install the others."""
    width = max(len(name) for name in CLIENTS)
    found = {client.id: find_program(client, env) for client in CLIENTS.values()}
    ready = [f"  {name:<{width}}  {CLIENTS[name].title}, {path}" for name, path in found.items() if path is not None]
    missing = [f"  {name:<{width}}  {CLIENTS[name].install}" for name, path in found.items() if path is None]
    lines = ["Installed clients. Start one with `tieline run <client> [-- arguments]`:", *(ready or ["  none"])]
    if missing:
        lines += ["", "Not installed, and how to install them:", *missing]
    lines += ["", f"Editors, whose settings `tieline env <editor>` prints: {', '.join(EDITORS)}"]
    lines += [f"Not possible: {name}. {reason}" for name, reason in UNSUPPORTED.items()]
    return "\n".join(lines)


def print_settings(
    options: argparse.Namespace, config: Config, env: Mapping[str, str], source: Path | None, say: Say, warn: Say
) -> int:
    """Run `tieline env` and return its exit status."""
    say(_settings(find_client(options.client), options, config, env, source, warn))
    return 0


def _settings(
    client: Client | None,
    options: argparse.Namespace,
    config: Config,
    env: Mapping[str, str],
    source: Path | None,
    warn: Say,
) -> str:
    logs.configure("WARNING")
    found = printed_connection(options, config, env, source, warn)
    if client is None:
        return editor_settings(options.client, found)
    connection = replace(found.connection, key=KEY) if found.key_expression else found.connection
    recipe = (client.launch if options.dry_run else client.for_shell)(connection, FOLDER)
    notes = [*recipe.notes, *([] if found.is_running or options.dry_run else [NOT_RUNNING])]
    if options.dry_run and client.traces:
        notes.append(f"{client.title} itself writes {client.traces}.")
    lines = [*(f"# {note}" for note in notes), *(f"unset {name}" for name in conflicting(recipe, env))]
    lines += exports(proxy_exceptions(env))
    command = (client.programs[0], *options.arguments)
    return "\n".join([*lines, script(recipe, command, found.key_expression)])


def editor_settings(editor: str, found: PrintedConnection) -> str:
    """Return the settings for an editor, with instructions."""
    connection = found.connection
    if found.key_expression:
        connection = replace(connection, key=f"<the value of {found.key_expression}>")
    snippet = EDITORS[editor](connection)
    notes = [] if found.is_running else ["", NOT_RUNNING]
    return "\n".join([f"{snippet.title}: {snippet.about}", "", snippet.text, *notes])
