"""Asking the user about an untrusted configuration file, and the command `tieline trust`.

Everything an untrusted file says is shown on one line per setting, with control characters written out: it can neither
move the cursor nor look like something Tieline says.
"""

import argparse
import json
import re
import sys
import termios
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tieline.app.config import FILE_NAME, ConfigError, Source, load, table_of
from tieline.app.trust import TrustStore, Untrusted, place, read_local
from tieline.tools.invisible_text import visible

Say = Callable[[str], None]
Keys = tuple[str, ...]

WHAT_CHANGED = """\
New in this version: a tieline.toml in the working directory is used only after you have trusted it, because a file that
came with somebody else's project could send your keys elsewhere or start programs. Your own file in the configuration
directory, and a file named with --config, are used as before.
"""

GROUPS: Mapping[str, str] = {
    "server": "Who may use the gateway",
    "default_model": "Where conversations and keys go",
    "aliases": "Where conversations and keys go",
    "upstreams": "Where conversations and keys go",
    "cursor": "Where conversations and keys go",
    "acp": "Programs that are started",
    "tools": "What models may do on this machine",
    "clients": "What models may do on this machine",
    "keys": "Who may use the gateway",
}
OTHER = "Other settings"
ORDER = (
    OTHER,
    "Who may use the gateway",
    "Where conversations and keys go",
    "Programs that are started",
    "What models may do on this machine",
)
"""The settings that can do most harm come last: next to the question, however long the list is."""

REMARKS: Mapping[tuple[str, str], str] = {
    ("tools", "yolo"): "everything is done without asking",
    ("tools", "enabled"): "models can read files and, if allowed, change them and run commands",
    ("tools", "shell"): "runs every command",
    ("server", "host"): "where the gateway can be reached",
    ("server", "hosts"): "names under which others may reach the gateway",
    ("server", "origins"): "web pages that may use the gateway",
    ("cursor", "import_login"): "uses the login of Cursor's own client",
}

_BARE = re.compile(r"[\w-]+", re.ASCII)


# ── What a file would do ─────────────────────────────────────────────────────────────────────────


def summary(source: Source) -> str:
    """Describe every setting of a file; raise ConfigError if it is not a valid configuration."""
    load(source, {})
    groups: dict[str, list[str]] = {name: [] for name in ORDER}
    for keys, value in _settings(table_of(source)):
        groups[GROUPS.get(keys[0], OTHER)].append(_line(keys, value))
    shown = [f"{name}:\n" + "\n".join(f"    {line}" for line in lines) for name, lines in groups.items() if lines]
    return "\n".join(f"  {group}" for group in shown) or "  It sets nothing."


def _settings(value: Any, keys: Keys = ()) -> Iterator[tuple[Keys, Any]]:
    if isinstance(value, dict) and value:
        for key, one in value.items():
            yield from _settings(one, (*keys, key))
    else:
        yield keys, value


def _line(keys: Keys, value: Any) -> str:
    name = ".".join(key if _BARE.fullmatch(key) else json.dumps(key, ensure_ascii=False) for key in keys)
    remark = f"    ({REMARKS[keys[:2]]})" if value and len(keys) == 2 and keys[:2] in REMARKS else ""
    return f"{visible(name)} = {_shown(keys, value)}{remark}"


def _shown(keys: Keys, value: Any) -> str:
    """The value on one line. Values of headers are hidden: they are often secrets of the file's author.

    Variables of programs are not: they can make a harmless command load other code.
    """
    if "headers" in keys[1:-1]:
        return "(not shown)"
    return visible(json.dumps(value, ensure_ascii=False, default=str))


def _headline(path: Path) -> str:
    target = f" (a link to {shown_path(path.resolve())})" if path.is_symlink() else ""
    return f"{shown_path(path)}{target}"


def shown_path(path: Path) -> str:
    """A path for the terminal, on one line."""
    return visible(str(path)).replace("\n", "\\n").encode("utf-8", "backslashreplace").decode()


# ── Asking ───────────────────────────────────────────────────────────────────────────────────────


def agree(untrusted: Untrusted) -> bool:
    """Show what the file would do and ask on the terminal. Only a typed yes is one.

    Without a terminal raise ConfigError, which names `tieline trust`.
    """
    path = untrusted.source.path
    reason = "changed after you trusted it" if untrusted.standing == "changed" else "not trusted"
    notice = f"{WHAT_CHANGED}\n" if untrusted.is_first else ""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        _tell(notice.rstrip())
        raise ConfigError(
            f"{shown_path(path)} is {reason}, so it is not used. `tieline trust` in that folder shows what it says and "
            "trusts it; --config FILE uses another file (--config /dev/null: none)."
        )
    _tell(f"{notice}{_headline(path)} is {reason}. It would set:\n\n{summary(untrusted.source)}\n")
    is_agreed = _typed_yes("Trust this file, until it changes, and use it? [y/N] ")
    _tell("" if is_agreed else "It is not used.\n")
    return is_agreed


def _typed_yes(question: str) -> bool:
    """Ask on the terminal. What was typed before the question appeared is dropped: it was no answer to it."""
    termios.tcflush(sys.stdin, termios.TCIFLUSH)
    sys.stderr.write(question)
    sys.stderr.flush()
    line = sys.stdin.readline()
    if not line.endswith("\n"):
        sys.stderr.write("\n")
    return line.strip().lower() in ("y", "yes")


def _tell(text: str) -> None:
    if text:
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()


# ── The command ──────────────────────────────────────────────────────────────────────────────────


def run(options: argparse.Namespace, user_folder: Path, here: Path, say: Say) -> int:
    """Do what `tieline trust` was asked to do."""
    store = TrustStore(user_folder)
    if options.list:
        say(_listed(store))
        return 0
    path = place(here / (options.path or ""))
    if path.name != FILE_NAME:
        raise ConfigError(
            f"only a file named {FILE_NAME} is looked for in a folder; {shown_path(path)} is used when it is "
            "named with --config, and needs no trust"
        )
    try:
        return _remove(store, path, say) if options.remove else _trust(store, path, say)
    except OSError as error:
        raise ConfigError(f"what you trust cannot be recorded: {error}") from error


def _trust(store: TrustStore, path: Path, say: Say) -> int:
    source = read_local(path, say)
    if source is None:
        raise ConfigError(f"there is no file {shown_path(path)}")
    say(f"{_headline(path)} sets:\n\n{summary(source)}\n")
    store.trust(source)
    say("It is trusted until it changes. `tieline trust --remove` takes that back.")
    return 0


def _remove(store: TrustStore, path: Path, say: Say) -> int:
    if not store.remove(path):
        say(f"{shown_path(path)} was not trusted.")
        return 1
    say(f"{shown_path(path)} is no longer trusted.")
    return 0


def _listed(store: TrustStore) -> str:
    found = store.all()
    if not found:
        return "No file is trusted."
    return "\n".join(shown_path(one.path) + _since(store, one.path) for one in found)


def _since(store: TrustStore, path: Path) -> str:
    try:
        source = read_local(path, lambda _: None)
    except ConfigError:
        source = None
    if source is None:
        return "  (no longer there)"
    return "" if store.standing(source) == "trusted" else "  (changed since: not used)"
