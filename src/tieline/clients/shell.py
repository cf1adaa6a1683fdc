"""Formats settings as shell commands."""

import re
from collections.abc import Mapping, Sequence

from tieline.clients.client import Recipe

FOLDER = "@tieline-folder@"
"""Stands for the path of the folder that a script creates."""
KEY = "@tieline-key@"
"""Stands for a key that a shell expression yields."""

_PLAIN = re.compile(r"[\w./:@%+=,-]+", re.ASCII)


def quoted(text: str, expressions: Mapping[str, str] | None = None) -> str:
    """Return `text` as one shell word. Replace each key of `expressions` in it by its expression, in double quotes."""
    for mark, expression in (expressions or {}).items():
        if mark in text:
            pieces = [quoted(piece, expressions) if piece else "" for piece in text.split(mark)]
            return f'"{expression}"'.join(pieces)
    return text if _PLAIN.fullmatch(text) else "'" + text.replace("'", "'\\''") + "'"


def script(recipe: Recipe, command: Sequence[str], key: str = "") -> str:
    """Return the commands that prepare a shell for a client. A comment at the end says how to start it.

    The recipe refers to its folder as FOLDER, and to the key as KEY. `command` is the program and the user's
    arguments. `key` is the shell expression for the key.
    """
    words = {FOLDER: "$TIELINE_FOLDER", KEY: key}
    lines = ["TIELINE_FOLDER=$(mktemp -d)  # remove it afterwards"] if recipe.files else []
    for path, text in recipe.files.items():
        if "/" in path:
            lines.append(f'mkdir -p "$TIELINE_FOLDER"/{quoted(path.rpartition("/")[0])}')
        lines.append(f'printf %s {quoted(text, words)} > "$TIELINE_FOLDER"/{quoted(path)}')
    lines += exports(recipe.env, words)
    program, *arguments = command
    line = " ".join(quoted(word, words) for word in (program, *recipe.arguments, *arguments))
    return "\n".join([*lines, *(f"# {part}" for part in f"Then start it: {line}".split("\n"))])


def exports(env: Mapping[str, str], words: Mapping[str, str] | None = None) -> list[str]:
    """Return an `export` command for each variable."""
    return [f"export {name}={quoted(value, words)}" for name, value in env.items()]
