"""Changes values in simple YAML text. Comments and layout elsewhere are preserved.

This is not a YAML parser. It changes only top-level values on one line and items of top-level lists, and refuses files
in which it cannot be sure to find them.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from tieline.clients.client import Setting, UnsafeChange

_PLAIN = re.compile(r"[A-Za-z/][\w./@-]*(?::[\w./@-]+)*|\d+(?:\.\d+){2,}")
_WORDS = frozenset(("true", "false", "null", "yes", "no", "on", "off", "y", "n"))
_KEY = re.compile(r"(?P<name>[A-Za-z_][\w-]*)[ \t]*:(?:[ \t]+(?P<value>[^#\s].*?))?(?P<comment>[ \t]+#.*)?[ \t]*")


def scalar(value: Any) -> str:
    """Return a value as YAML on one line."""
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _WORDS:
        return value
    return json.dumps(value, ensure_ascii=False)  # YAML includes JSON


def edit_yaml(text: str, settings: Sequence[Setting]) -> str:
    """Return the text with the settings applied. Raise UnsafeChange if the text has an unusual layout."""
    newline = "\r\n" if "\r\n" in text else "\n"
    lines = text.replace("\r\n", "\n").split("\n")
    if lines[-1] == "":
        lines.pop()
    _check(lines)
    for setting in settings:
        lines = _with_item(lines, setting) if setting.match else _with_value(lines, setting)
    return newline.join(lines) + newline


def _check(lines: Sequence[str]) -> None:
    if "\t" in "".join(line[: len(line) - len(line.lstrip())] for line in lines):
        raise UnsafeChange("it is indented with tabs")
    for number, line in enumerate(lines):
        if line.startswith(("---", "...", "%", "{", "[", "?", "&", "!")) and (number or line.rstrip() != "---"):
            raise UnsafeChange(f"line {number + 1} has an unusual form")


def _is_content(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("#")


def _block_end(lines: Sequence[str], start: int) -> int:
    """Return the index of the line after the block that begins at `start`: lines that are indented or list items."""
    end = start + 1
    for number in range(start + 1, len(lines)):
        line = lines[number]
        if _is_content(line):
            if not line.startswith((" ", "-")):
                break
            end = number + 1
    return end


def _find(lines: Sequence[str], name: str) -> int | None:
    pattern = re.compile(rf"(?:{re.escape(name)}|\"{re.escape(name)}\"|'{re.escape(name)}')[ \t]*:(?:[ \t]|$)")
    found = [number for number, line in enumerate(lines) if pattern.match(line)]
    if len(found) > 1:
        raise UnsafeChange(f"it has `{name}` twice")
    return found[0] if found else None


def _with_value(lines: list[str], setting: Setting) -> list[str]:
    [name] = setting.path
    place = _find(lines, name)
    line = f"{name}: {scalar(setting.value)}"
    if place is None:
        return [*lines, line]
    if setting.is_default:
        return lines
    found = _KEY.fullmatch(lines[place])
    value = "" if found is None else found["value"] or ""
    if found is None or _block_end(lines, place) != place + 1 or value.startswith(("|", ">", "&", "*", "!", "{", "[")):
        raise UnsafeChange(f"the value of `{name}` is not on one line")
    if value[:1] in ("'", '"') and not (len(value) > 1 and value[-1] == value[0]):
        raise UnsafeChange(f"the value of `{name}` is not on one line")
    return [*lines[:place], line + (found["comment"] or ""), *lines[place + 1 :]]


def _with_item(lines: list[str], setting: Setting) -> list[str]:
    """Return the lines with an item that is added to a list, or replaced in it.

    If the path is empty, the list is the whole document; otherwise, it is the value of a top-level name.
    """
    if not setting.path:
        start, end = -1, len(lines)
    else:
        [name] = setting.path
        place = _find(lines, name)
        if place is None:
            return [*lines, f"{name}:", *_item(setting.value, "  ")]
        found = _KEY.fullmatch(lines[place])
        if found is None or found["value"] not in (None, "[]"):
            raise UnsafeChange(f"`{name}` is not a list with one item per line")
        lines = [*lines[:place], f"{name}:{found['comment'] or ''}", *lines[place + 1 :]]
        start, end = place, _block_end(lines, place)
    starts = [number for number in range(start + 1, end) if _is_content(lines[number])]
    if not starts:
        return [*lines[: start + 1], *_item(setting.value, "  " if setting.path else ""), *lines[start + 1 :]]
    indentation = re.match(r" *", lines[starts[0]])
    width = indentation[0] if indentation is not None else ""
    items = [number for number in starts if f"{lines[number]} ".startswith(f"{width}- ")]
    if not items or items[0] != starts[0]:
        raise UnsafeChange(f"`{'.'.join(setting.path) or 'it'}` is not a list with one item per line")
    old = _same_item(lines, items, end, setting)
    if old is not None:
        return [*lines[: old[0]], *_item(setting.value, width), *lines[old[1] :]]
    return [*lines[:end], *_item(setting.value, width), *lines[end:]]


def _same_item(lines: Sequence[str], items: Sequence[int], end: int, setting: Setting) -> tuple[int, int] | None:
    """Return the first line of the item to replace, and the line after the item; None if there is no such item."""
    wanted = scalar(setting.value[setting.match])
    pattern = re.compile(rf"[ -]*{re.escape(setting.match)}:[ \t]+[\"']?{re.escape(wanted)}[\"']?[ \t]*(?:#.*)?")
    for first, behind in zip(items, [*items[1:], end], strict=True):
        last = max(number for number in range(first, behind) if _is_content(lines[number])) + 1
        if any(pattern.fullmatch(lines[number]) for number in range(first, last)):
            return first, last
    return None


def _item(value: Mapping[str, Any], indentation: str) -> list[str]:
    first, *rest = _members(value, "")
    return [f"{indentation}- {first}", *(f"{indentation}  {line}" for line in rest)]


def _members(value: Mapping[str, Any], indentation: str) -> list[str]:
    lines: list[str] = []
    for name, member in value.items():
        if isinstance(member, Mapping):
            lines += [f"{indentation}{name}:", *_members(member, f"{indentation}  ")]
        elif isinstance(member, (list, tuple)):
            lines.append(f"{indentation}{name}: [{', '.join(scalar(one) for one in member)}]")
        else:
            lines.append(f"{indentation}{name}: {scalar(member)}")
    return lines
