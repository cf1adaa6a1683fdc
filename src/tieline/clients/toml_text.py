"""Changes values in TOML text. Comments and layout elsewhere are preserved."""

import json
import re
import tomllib
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from tieline.clients.client import Setting, UnsafeChange

_HEADER = re.compile(r"[ \t]*\[")
_BARE = re.compile(r"[A-Za-z0-9_-]+")


def edit_toml(text: str, settings: Sequence[Setting]) -> str:
    """Return the text with the settings applied. A table that contains a setting is replaced, except for its subtables.

    Raise UnsafeChange if the text is not TOML, or if the result does not parse to the expected values.
    """
    expected = _parsed(text)
    newline = "\r\n" if "\r\n" in text else "\n"
    lines = text.splitlines(keepends=True)
    tables: dict[tuple[str, ...], list[Setting]] = {}
    for setting in settings:
        tables.setdefault(setting.path[:-1], []).append(setting)
    top = tables.pop((), [])
    for table in tables:
        _drop(expected, table)
        lines = _without_table(lines, _header(table))
    lines = _with_top(lines, top, newline)
    for table, own in tables.items():
        if lines and not lines[-1].endswith("\n"):
            lines[-1] += newline
        if lines and lines[-1].strip():
            lines.append(newline)
        lines += [f"{_header(table)}{newline}", *(f"{_line(setting)}{newline}" for setting in own)]
    for setting in settings:
        _put(expected, setting)
    changed = "".join(lines)
    if _parsed(changed) != expected:
        raise UnsafeChange("its layout is unusual")
    return changed


def _parsed(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise UnsafeChange(f"it is not valid TOML: {error}") from error


def _header(table: tuple[str, ...]) -> str:
    return f"[{'.'.join(_name(part) for part in table)}]"


def _name(part: str) -> str:
    return part if _BARE.fullmatch(part) else json.dumps(part)


def _line(setting: Setting) -> str:
    # For strings, booleans and lists of strings, TOML and JSON are written in the same way.
    return f"{_name(setting.path[-1])} = {json.dumps(setting.value, ensure_ascii=False)}"


def _without_table(lines: list[str], header: str) -> list[str]:
    """Return the lines without those of a table. Keep a comment right before the next table, which it describes."""
    starts = [number for number, line in enumerate(lines) if _HEADER.match(line)]
    for start, end in pairwise([*starts, len(lines)]):
        if re.sub(r"#.*|\s", "", lines[start]) == header:
            while end < len(lines) and lines[end - 1].lstrip().startswith("#"):
                end -= 1
            return lines[:start] + lines[end:]
    return lines


def _with_top(lines: list[str], settings: Sequence[Setting], newline: str) -> list[str]:
    """Return the lines with the settings that belong to no table. New ones are put at the beginning."""
    end = next((number for number, line in enumerate(lines) if _HEADER.match(line)), len(lines))
    top, rest = lines[:end], lines[end:]
    added: list[str] = []
    for setting in settings:
        pattern = re.compile(rf"[ \t]*{re.escape(_name(setting.path[-1]))}[ \t]*=")
        place = next((number for number, line in enumerate(top) if pattern.match(line)), None)
        if place is None:
            added.append(f"{_line(setting)}{newline}")
        else:
            ending = newline if top[place].endswith("\n") else ""
            top[place] = f"{_line(setting)}{_comment(top[place])}{ending}"
    if added and lines and lines[0].strip():
        added.append(newline)
    return [*added, *top, *rest]


def _comment(line: str) -> str:
    """Return the comment at the end of a line, if it is certain that there is one."""
    found = re.fullmatch(r"""[^"'#]*(?:"[^"\\]*"|'[^']*'|[^"'#]*)[ \t]*(#[^\r\n]*)\r?\n?""", line)
    return f"  {found[1]}" if found is not None else ""


def _drop(values: dict[str, Any], table: tuple[str, ...]) -> None:
    for part in table[:-1]:
        inner = values.get(part)
        if not isinstance(inner, dict):
            return
        values = inner
    kept = values.pop(table[-1], None)
    if isinstance(kept, dict):
        inner_tables = {name: value for name, value in kept.items() if isinstance(value, dict)}
        if inner_tables:
            values[table[-1]] = inner_tables


def _put(values: dict[str, Any], setting: Setting) -> None:
    for part in setting.path[:-1]:
        values = values.setdefault(part, {})
        if not isinstance(values, dict):
            raise UnsafeChange(f"`{'.'.join(setting.path)}` cannot be set, because a part of this path is not a table")
    values[setting.path[-1]] = setting.value
