"""Changes values in JSON text. Comments, trailing commas, order and layout outside of these values are preserved."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

from tieline.clients.client import Setting, UnsafeChange

MAX_DEPTH = 100
INDENT = "  "

_BLANK = re.compile(r"(?:[ \t\r\n\ufeff]+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_WORD = re.compile(r"[-+.\w]+")
_LINE_START = re.compile(r"\n([ \t]*)\Z")
_REST_OF_LINE = re.compile(r"[ \t]*(?:/\*.*?\*/[ \t]*)*(?://[^\r\n]*)?(?=\r?\n)")


class Node(NamedTuple):
    """A value in the text: its position, the parsed value, and the members of an object or the items of a list."""

    start: int
    end: int
    value: Any
    members: "Mapping[str, Node]"
    items: "Sequence[Node]"


def edit_json(text: str, settings: Sequence[Setting]) -> str:
    """Return the text with the settings applied. An empty text becomes a new object.

    Raise UnsafeChange if the text is not JSON, or if the result does not parse to the expected value.
    """
    if _skip(text, 0) == len(text):
        text = f"{text}{{}}\n" if not text or text.endswith("\n") else f"{text}\n{{}}\n"
    expected = parse_json(text)
    for setting in settings:
        text = _edit(text, setting)
        _apply(expected, setting)
    if parse_json(text) != expected:
        raise UnsafeChange("its layout is unusual")
    return text


def parse_json(text: str) -> Any:
    """Return the value of JSON text. Comments and trailing commas are allowed. Raise UnsafeChange if it is not JSON."""
    return _parse(text).value


# ── Changing ─────────────────────────────────────────────────────────────────────────────────────


def _edit(text: str, setting: Setting) -> str:
    node = _parse(text)
    path = list(setting.path)
    while path:
        if not isinstance(node.value, dict):
            raise UnsafeChange(
                f"`{'.'.join(setting.path)}` cannot be set, because a part of this path is not an object"
            )
        child = node.members.get(path[0])
        if child is None:
            value = [setting.value] if setting.match else setting.value
            for name in reversed(path[1:]):
                value = {name: value}
            return _insert(text, node, list(node.members.values()), value, name=path[0])
        node = child
        path.pop(0)
    if setting.match:
        return _edit_list(text, node, setting)
    return text if setting.is_default or node.value == setting.value else _replace(text, node, setting.value)


def _edit_list(text: str, node: Node, setting: Setting) -> str:
    if not isinstance(node.value, list):
        raise UnsafeChange(f"`{'.'.join(setting.path)}` is not a list")
    for item in node.items:
        if isinstance(item.value, dict) and item.value.get(setting.match) == setting.value[setting.match]:
            return text if item.value == setting.value else _replace(text, item, setting.value)
    return _insert(text, node, node.items, setting.value)


def _apply(value: Any, setting: Setting) -> None:
    """Make the same change as `_edit` to the parsed value of the text."""
    *path, name = setting.path
    for part in path:
        value = value.setdefault(part, {})
    if not setting.match:
        value[name] = value[name] if setting.is_default and name in value else setting.value
        return
    items = value.setdefault(name, [])
    wanted = setting.value[setting.match]
    same = (place for place, item in enumerate(items) if isinstance(item, dict) and item.get(setting.match) == wanted)
    place = next(same, len(items))
    items[place : place + 1] = [setting.value]


def _replace(text: str, node: Node, value: Any) -> str:
    return text[: node.start] + _added(_rendered(value, _indentation(text, node.start)), text) + text[node.end :]


def _insert(text: str, node: Node, parts: Sequence[Node], value: Any, name: str | None = None) -> str:
    """Insert a value after `parts`, the members or items of `node`. `name` is the name of a new member."""
    label = "" if name is None else f"{json.dumps(name, ensure_ascii=False)}: "
    if not parts:
        outer = _indentation(text, node.start)
        inner = outer + INDENT
        kept = text[: node.end - 1].rstrip()  # a comment between the brackets stays before the new value
        return kept + _added(f"\n{inner}{label}{_rendered(value, inner)}\n{outer}", text) + text[node.end - 1 :]
    end = parts[-1].end
    first_line = _LINE_START.search(text, 0, _skip(text, node.start + 1))
    if first_line is None:  # all parts are on one line
        return f"{text[:end]}, {label}{json.dumps(value, ensure_ascii=False)}{text[end:]}"
    added = _added(f"\n{first_line[1]}{label}{_rendered(value, first_line[1])}", text)
    comma = _skip(text, end)
    if text[comma] == ",":
        place = _line_end(text, comma + 1)
        return f"{text[:place]}{added},{text[place:]}"
    place = _line_end(text, end)  # a comment after the last value stays on its line
    return f"{text[:end]},{text[end:place]}{added}{text[place:]}"


def _line_end(text: str, place: int) -> int:
    """Return the end of the line if only comments follow `place` on it, or nothing; otherwise, return `place`."""
    found = _REST_OF_LINE.match(text, place)
    return place if found is None else found.end()


def _indentation(text: str, position: int) -> str:
    """Return the indentation of the line that contains a position."""
    start = text.rfind("\n", 0, position) + 1
    line = text[start:position]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _rendered(value: Any, indentation: str) -> str:
    return json.dumps(value, indent=len(INDENT), ensure_ascii=False).replace("\n", f"\n{indentation}")


def _added(added: str, text: str) -> str:
    """Return the text to add, with the line endings of `text`."""
    return added.replace("\n", "\r\n") if "\r\n" in text else added


# ── Parsing ──────────────────────────────────────────────────────────────────────────────────────


def _parse(text: str) -> Node:
    node = _value(text, _skip(text, 0), 0)
    end = _skip(text, node.end)
    if end != len(text):
        _fail(text, end)
    return node


def _value(text: str, start: int, depth: int) -> Node:
    if depth > MAX_DEPTH:
        raise UnsafeChange("it is nested too deeply")
    opening = text[start : start + 1]
    if opening == "{":
        return _object(text, start, depth)
    if opening == "[":
        return _list(text, start, depth)
    if opening == '"':
        value, end = _string(text, start)
        return Node(start, end, value, {}, ())
    word = _WORD.match(text, start)
    if word is None:
        _fail(text, start)
    try:
        return Node(start, word.end(), json.loads(word[0]), {}, ())
    except ValueError:
        _fail(text, start)


def _object(text: str, start: int, depth: int) -> Node:
    members: dict[str, Node] = {}
    place = _skip(text, start + 1)
    while text[place : place + 1] != "}":
        name, place = _string(text, place)
        if name in members:
            raise UnsafeChange(f"it has the name {json.dumps(name)} twice")
        place = _expect(text, _skip(text, place), ":")
        members[name] = _value(text, _skip(text, place), depth + 1)
        place = _next(text, members[name].end, "}")
    value = {name: node.value for name, node in members.items()}
    return Node(start, place + 1, value, members, ())


def _list(text: str, start: int, depth: int) -> Node:
    items: list[Node] = []
    place = _skip(text, start + 1)
    while text[place : place + 1] != "]":
        items.append(_value(text, place, depth + 1))
        place = _next(text, items[-1].end, "]")
    return Node(start, place + 1, [node.value for node in items], {}, items)


def _next(text: str, place: int, closing: str) -> int:
    """Return the position of the next part, after a comma, or of the closing bracket."""
    place = _skip(text, place)
    return place if text[place : place + 1] == closing else _skip(text, _expect(text, place, ","))


def _string(text: str, start: int) -> tuple[str, int]:
    found = _STRING.match(text, start)
    if found is None:
        _fail(text, start)
    try:
        value: str = json.loads(found[0])
    except ValueError:
        _fail(text, start)
    return value, found.end()


def _expect(text: str, place: int, character: str) -> int:
    if text[place : place + 1] != character:
        _fail(text, place)
    return place + 1


def _skip(text: str, place: int) -> int:
    blank = _BLANK.match(text, place)
    return blank.end() if blank is not None else place


def _fail(text: str, place: int) -> NoReturn:
    line = text.count("\n", 0, place) + 1
    raise UnsafeChange(f"it is not valid JSON: there is a mistake in line {line}")
