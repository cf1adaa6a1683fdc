"""The command `tieline configure`: writes the settings for a client to its own file, and restores that file."""

import argparse
import sys
from collections.abc import Callable, Mapping
from difflib import unified_diff
from pathlib import Path

from tieline.app import logs
from tieline.app.client_settings import Change, ChangedSince, SettingsChanges, find_file, plan_change
from tieline.app.config import Config, ConfigError
from tieline.cli.client_connection import PrintedConnection, find_client, printed_connection
from tieline.cli.run import NOT_RUNNING, editor_settings
from tieline.cli.trust import shown_path, typed_yes
from tieline.clients.client import ANY_KEY, Client, Connection, SettingsFile, UnsafeChange
from tieline.clients.settings_text import new_text
from tieline.core.watch.secrets import HIDDEN
from tieline.tools.invisible_text import visible

Say = Callable[[str], None]


def configure(
    options: argparse.Namespace, config: Config, env: Mapping[str, str], source: Path | None, say: Say, warn: Say
) -> int:
    """Run `tieline configure` and return its exit status."""
    client = find_client(options.client)
    logs.configure("WARNING")
    if client is None:
        say(editor_settings(options.client, printed_connection(options, config, env, source, warn)))
        return 0
    if client.settings is None:
        raise ConfigError(
            f"{client.title} has no settings file for this. Use `tieline run {client.id}`, or put what `tieline env "
            f"{client.id}` prints into the start-up file of your shell"
        )
    if options.undo:
        return _undo(client, options, env, say)
    found = printed_connection(options, config, env, source, warn)
    try:
        change = plan_change(client.settings, found.connection, env)
    except UnsafeChange as error:
        say(_by_hand(client.settings, find_file(client.settings, env), found.connection, str(error)))
        return 1
    if change.new == change.old:
        say(f"{shown_path(change.path)} already has these settings.")
        return 0
    say(_difference(change, found.connection.key))
    if not options.yes and not _is_agreed(f"Change {shown_path(change.path)}? [y/N] "):
        say("Nothing was changed.")
        return 1
    SettingsChanges(client.id, env).apply(change)
    say(f"{client.title} now uses {found.connection.model}. To undo this: tieline configure {client.id} --undo")
    for note in (client.settings.note, _key_note(change, found), "" if found.is_running else NOT_RUNNING):
        if note:
            say(note)
    return 0


def _key_note(change: Change, found: PrintedConnection) -> str:
    variable = found.connection.key_variable
    if not variable or variable.encode() not in change.new:
        return ""
    return f'The client reads the key of the gateway from the variable {variable}: {variable}="{found.key_expression}"'


def _undo(client: Client, options: argparse.Namespace, env: Mapping[str, str], say: Say) -> int:
    try:
        path = SettingsChanges(client.id, env).undo(force=options.force)
    except ChangedSince as refused:
        say(_difference(refused.change, ANY_KEY))
        raise ConfigError(
            f"{refused.change.path} has changed since `tieline configure`. To discard these changes too, add --force"
        ) from refused
    if path is None:
        say(f"There is nothing to undo for {client.title}.")
        return 1
    say(f"{shown_path(path)} is as it was before.")
    return 0


def _is_agreed(question: str) -> bool:
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise ConfigError("there is no terminal to ask on; add --yes to make this change")
    return typed_yes(question)


def _difference(change: Change, key: str) -> str:
    """Return a change as a diff, with the key hidden."""
    old, new = ((content or b"").decode("utf-8", "replace").splitlines() for content in (change.old, change.new))
    name = shown_path(change.path)
    lines = unified_diff(old, new, name if change.old is not None else "(no file)", name, lineterm="")
    text = "\n".join(visible(line) for line in lines)
    return text if key == ANY_KEY else text.replace(key, HIDDEN)


def _by_hand(file: SettingsFile, path: Path, connection: Connection, reason: str) -> str:
    shown = new_text(file, connection)
    if connection.key != ANY_KEY:
        shown = shown.replace(connection.key, HIDDEN)
    return f"{shown_path(path)} cannot be changed safely: {reason}. Add this yourself:\n\n{shown}"
