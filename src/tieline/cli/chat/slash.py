"""The commands that can be typed in a chat, such as `/model`."""

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

COMMANDS = {
    "model": ("[NAME]", "show or change the model"),
    "mode": ("[NAME]", "show or change the mode, such as plan"),
    "new": ("", "begin a new conversation"),
    "sessions": ("", "list the latest conversations"),
    "continue": ("[NUMBER]", "continue a conversation from that list"),
    "retry": ("", "answer the last message again"),
    "stop": ("", "stop the answer (or press Ctrl-C)"),
    "help": ("", "show this list"),
    "quit": ("", "leave (or press Ctrl-D)"),
}
HELP_AFTER = """\
Enter sends. A backslash before Enter, or Ctrl-J, begins a new line; pasted text may have many lines.
Tab completes commands and models. The arrow keys recall earlier messages."""

_COMMAND = re.compile(r"/([a-z]+)(?:\s+(.*))?", re.DOTALL)


class Slash(NamedTuple):
    """A typed command and its argument. `name` may be unknown."""

    name: str
    argument: str = ""


def parse_slash(line: str) -> Slash | None:
    """Return the command in a line, or None for an ordinary message. A path such as `/etc/hosts` is not a command."""
    found = _COMMAND.fullmatch(line.strip())
    return None if found is None else Slash(found[1], (found[2] or "").strip())


def help_lines() -> list[str]:
    """Return one line for each command."""
    return [f"{f'/{name} {argument}'.rstrip():<20}{text}" for name, (argument, text) in COMMANDS.items()]


def completions(before: str, arguments: Callable[[str], Sequence[str]]) -> list[str]:
    """Return the texts that could replace `before`. `arguments` returns the possible arguments of a command."""
    if not before.startswith("/") or "\n" in before:
        return []
    name, space, typed = before[1:].partition(" ")
    if not space:
        return [f"/{known}{' ' if COMMANDS[known][0] else ''}" for known in COMMANDS if known.startswith(name)]
    return [f"/{name} {value}" for value in arguments(name) if value.startswith(typed)]
