"""The command `tieline trust`, and the prompt that asks whether to trust a configuration file.

Each setting of an untrusted file is shown on one line, with control characters escaped. A setting can therefore neither
control the terminal nor look like a message from Tieline.
"""

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tieline.app.config import FILE_NAME, ConfigError
from tieline.app.config_file import ConfigFile, load_config, parse_toml
from tieline.app.trust import TrustStore, Untrusted, place, read_local
from tieline.cli.terminal import discard_typed
from tieline.tools.invisible_text import visible

Say = Callable[[str], None]
Keys = tuple[str, ...]

EXPLANATION = """\
A tieline.toml in the working directory is used only after you have trusted it: a file from someone else's project could
send your keys to other servers or start programs. Your own file in the configuration directory, and a file named with
--config, need no trust.
"""

GROUPS: Mapping[str, str] = {
    "server": "Who can use the gateway",
    "default_model": "Where conversations and keys are sent",
    "aliases": "Where conversations and keys are sent",
    "upstreams": "Where conversations and keys are sent",
    "cursor": "Where conversations and keys are sent",
    "store": "Where conversations and keys are sent",
    "cluster": "Where conversations and keys are sent",
    "acp": "Programs that are started",
    "tools": "What models may do on this machine",
    "workspaces": "What models may do on this machine",
    "clients": "What models may do on this machine",
    "keys": "Who can use the gateway",
}
OTHER = "Other settings"
ORDER = (
    OTHER,
    "Who can use the gateway",
    "Where conversations and keys are sent",
    "Programs that are started",
    "What models may do on this machine",
)
"""The groups of settings in the order shown. The most dangerous ones come last, so that they are near the prompt."""

REMARKS: Mapping[tuple[str, str], str] = {
    ("tools", "yolo"): "models do everything without asking",
    ("tools", "enabled"): "models can read files and, if you allow it, change them and run commands",
    ("tools", "shell"): "the program that runs every command",
    ("server", "host"): "the address at which the gateway can be reached",
    ("server", "hosts"): "other host names at which the gateway can be reached",
    ("server", "origins"): "web sites that can use the gateway",
    ("cursor", "import_login"): "uses the login of Cursor's own client",
}

_BARE = re.compile(r"[\w-]+", re.ASCII)


# ── The settings of a file ───────────────────────────────────────────────────────────────────────


def summary(source: ConfigFile) -> str:
    """Return text that lists every setting in a file. Raise ConfigError if the file is not valid."""
    load_config(source, {})
    groups: dict[str, list[str]] = {name: [] for name in ORDER}
    for keys, value in _settings(parse_toml(source)):
        groups[GROUPS.get(keys[0], OTHER)].append(_line(keys, value))
    shown = [f"{name}:\n" + "\n".join(f"    {line}" for line in lines) for name, lines in groups.items() if lines]
    return "\n".join(f"  {group}" for group in shown) or "  It has no settings."


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
    """Return the value of a setting on one line. Values of HTTP headers are hidden, because they are often secrets.

    Environment variables for programs are shown, because they can make a harmless command run other code.
    """
    if "headers" in keys[1:-1]:
        return "(not shown)"
    return visible(json.dumps(value, ensure_ascii=False, default=str))


def _headline(path: Path) -> str:
    target = f" (a link to {shown_path(path.resolve())})" if path.is_symlink() else ""
    return f"{shown_path(path)}{target}"


def shown_path(path: Path) -> str:
    """Return a path as one line that is safe to print on a terminal."""
    return visible(str(path)).replace("\n", "\\n").encode("utf-8", "backslashreplace").decode()


# ── The question ─────────────────────────────────────────────────────────────────────────────────


def agree(untrusted: Untrusted) -> bool:
    """Show the settings of a file and ask on the terminal whether to trust it.

    Without a terminal, raise ConfigError with a message that recommends `tieline trust`.
    """
    path = untrusted.source.path
    reason = "has changed since you trusted it" if untrusted.standing == "changed" else "is not trusted"
    notice = f"{EXPLANATION}\n" if untrusted.is_first else ""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        _tell(notice.rstrip())
        raise ConfigError(
            f"{shown_path(path)} {reason}, so it is not used. Run `tieline trust` in that folder to see its settings "
            "and trust it, or use another file with --config FILE (--config /dev/null for none)."
        )
    _tell(f"{notice}{_headline(path)} {reason}. Its settings:\n\n{summary(untrusted.source)}\n")
    is_agreed = typed_yes("Trust this file until it changes, and use it? [y/N] ")
    _tell("" if is_agreed else "The file is not used.\n")
    return is_agreed


def typed_yes(question: str) -> bool:
    """Ask a question on the terminal, and return whether the user typed yes. Discard input typed earlier."""
    discard_typed(sys.stdin)
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
    """Run `tieline trust` and return its exit status. `here` is the working directory; `say` prints a line."""
    store = TrustStore(user_folder)
    if options.list:
        say(_listed(store))
        return 0
    path = place(here / (options.path or ""))
    if path.name != FILE_NAME:
        raise ConfigError(f"only a file named {FILE_NAME} needs trust; use {shown_path(path)} with --config")
    try:
        return _remove(store, path, say) if options.remove else _trust(store, path, say)
    except OSError as error:
        raise ConfigError(f"trusted files cannot be recorded: {error}") from error


def _trust(store: TrustStore, path: Path, say: Say) -> int:
    source = read_local(path, say)
    if source is None:
        raise ConfigError(f"there is no file {shown_path(path)}")
    say(f"{_headline(path)} sets:\n\n{summary(source)}\n")
    store.trust(source)
    say("The file is trusted until it changes. To undo this, run `tieline trust --remove`.")
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
    return "" if store.standing(source) == "trusted" else "  (changed, so not used)"
