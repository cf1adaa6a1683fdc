"""Calls that a model wrote as text, found while the text streams.

Models that were trained on several call formats fall back to one of them in plain words. Each form has an opener and
a closer; only a well-formed call of offered tools between the two counts, anything else stays the text it was. Text is
held back only from where an opener may begin until it is known whether one does.

    <tool_call>{"name": …, "arguments": {…}}</tool_call>
    <function=name>{…}</function>               or with <parameter=key>value</parameter> inside
    <invoke name="…"><parameter name="key">value</parameter></invoke>       also inside <function_calls>
    ```tool_call                                a fence around the JSON of the first form
    [TOOL_CALLS][{"name": …, "arguments": {…}}, …]
"""

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from tieline.core.repair.arguments import Shape, call_in, is_object, items

MAX_CALLS = 32
"""How many calls are taken from the text of one leg."""
MAX_HELD = 256 * 1024
"""How many characters may be held back for one call."""
MAX_WORK = 8 * 1024 * 1024
"""How many characters are read in search of calls, however often the same ones, before the rest is only text."""
MAX_TRIES = 64
"""How many places are tried as the end of one call."""


class Found(NamedTuple):
    """A call that was written as text."""

    name: str
    arguments: str


Shapes = Mapping[str, Shape]
Reader = Callable[[str, Shapes], list[Found] | None]

_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_FUNCTION = re.compile(r"\s*<function=([^\s<>]+)>(.*?)</function>\s*", re.DOTALL)
_INVOKE = re.compile(r"\s*<(antml:)?invoke name=[\"']([^\"'<>]+)[\"']\s*>(.*?)</(?:antml:)?invoke>\s*", re.DOTALL)
_PARAMETER = re.compile(
    r"\s*<(?:antml:)?parameter(?:=| name=)[\"']?([^\"'<>]+)[\"']?[^<>]*>(.*?)</(?:antml:)?parameter>\s*", re.DOTALL
)


def _json_calls(body: str, shapes: Shapes) -> list[Found] | None:
    """One call as a JSON object, or several in an array."""
    text = body.strip()
    many = items(text)
    found = [call_in(one) for one in (many if many is not None else [text])]
    calls = [Found(*one) for one in found if one is not None and one[0] in shapes]
    return calls if calls and len(calls) == len(found) else None


def _tool_call(body: str, shapes: Shapes) -> list[Found] | None:
    if body.lstrip().startswith("<function="):
        return _tagged(_FUNCTION, body, shapes)
    return _json_calls(body, shapes)


def _functions(body: str, shapes: Shapes) -> list[Found] | None:
    return _tagged(_FUNCTION, f"<function={body}</function>", shapes)


def _invokes(body: str, shapes: Shapes) -> list[Found] | None:
    return _tagged(_INVOKE, body, shapes)


def _invoke(body: str, shapes: Shapes) -> list[Found] | None:
    return _tagged(_INVOKE, f"<invoke name={body}</invoke>", shapes)


def _tagged(form: re.Pattern[str], body: str, shapes: Shapes) -> list[Found] | None:
    """Calls in tags, one after the other and with nothing between."""
    calls: list[Found] = []
    place = 0
    while place < len(body):
        match = form.match(body, place)
        if match is None:
            return None
        *_, name, inner = match.groups()
        arguments = _tagged_arguments(inner, shapes[name]) if name in shapes else None
        if arguments is None:
            return None
        calls.append(Found(name, arguments))
        place = match.end()
    return calls or None


def _tagged_arguments(inner: str, shape: Shape) -> str | None:
    """Arguments as a JSON object or as one tag each, whose text is then typed by the schema."""
    text = inner.strip()
    if text.startswith("{"):
        return text if is_object(text) else None
    given: dict[str, str] = {}
    place = 0
    while place < len(inner) and text:
        match = _PARAMETER.match(inner, place)
        if match is None:
            return None
        given[match[1].strip()] = match[2].removeprefix("\n").removesuffix("\n")
        place = match.end()
    return shape.arguments(given)


class _Form(NamedTuple):
    closer: str | None
    read: Reader


_PREFIX = "antml:"
_FORMS: dict[str, _Form] = {
    "<tool_call>": _Form("</tool_call>", _tool_call),
    "<function=": _Form("</function>", _functions),
    "<function_calls>": _Form("</function_calls>", _invokes),
    "<invoke name=": _Form("</invoke>", _invoke),
    f"<{_PREFIX}function_calls>": _Form(f"</{_PREFIX}function_calls>", _invokes),
    f"<{_PREFIX}invoke name=": _Form(f"</{_PREFIX}invoke>", _invoke),
    "```tool_call\n": _Form("```", _json_calls),
    "```tool_calls\n": _Form("```", _json_calls),
    "[TOOL_CALLS]": _Form(None, _json_calls),
}
_OPENER = re.compile("|".join(re.escape(opener) for opener in _FORMS))
_LONGEST = max(map(len, _FORMS))


class Scanner:
    """Reads the text of one leg; what `feed` and `close` give, in order, is all of it."""

    def __init__(self, shapes: Shapes) -> None:
        self._shapes = shapes
        self._buffer = ""
        self._from = 0
        self._sought = 0
        self._tries = 0
        self._missing: set[str] = set()
        self._before = ""
        self._calls = 0
        self._work = 0

    @property
    def holds(self) -> bool:
        """Whether some text is held back."""
        return bool(self._buffer)

    def feed(self, text: str) -> list[str | Found]:
        """More text; what is settled by it."""
        self._buffer += text
        return self._pieces(final=False)

    def close(self) -> list[str | Found]:
        """The text is over: nothing is held any more."""
        pieces = [*self._pieces(final=True), *self._cut(len(self._buffer))]
        self._before = ""
        return pieces

    def _pieces(self, *, final: bool) -> list[str | Found]:
        pieces: list[str | Found] = []
        self._missing.clear()
        while self._calls < MAX_CALLS and self._work < MAX_WORK:
            match = _OPENER.search(self._buffer, self._from)
            if match is None:
                return pieces if final else pieces + self._cut(self._possible_opener())
            end, found = self._read(match, final)
            if found:
                pieces += [*self._cut(match.start()), *found]
                self._drop(end - match.start())
                self._calls += len(found)
            elif end < 0:
                return pieces + self._cut(match.start())
            else:
                self._from = end
                self._sought = self._tries = 0
        return pieces + self._cut(len(self._buffer))

    def _read(self, match: re.Match[str], final: bool) -> tuple[int, list[Found] | None]:
        """The calls behind an opener and where they end; no calls and -1 if more text may bring them."""
        body = match.end()
        closer, read = _FORMS[match[0]]
        before = self._buffer[match.start() - 1] if match.start() else self._before
        if before == "`":
            return body, None
        if closer is None:
            return self._read_array(body, final)
        end = -1 if closer in self._missing else self._buffer.find(closer, max(body, self._sought))
        while end >= 0:
            text = self._buffer[body:end]
            found = read(text, self._shapes) if len(text) <= MAX_HELD else None
            self._tries += 1
            self._work += len(text)
            if found or self._tries > MAX_TRIES or not _inside_string(text):
                return (end + len(closer) if found else body), found
            end = self._buffer.find(closer, end + 1)
        self._missing.add(closer)
        self._sought = max(body, len(self._buffer) - len(closer) + 1)
        return self._unclosed(body, final)

    def _unclosed(self, body: int, final: bool) -> tuple[int, None]:
        """No closer yet: wait for more, unless there is none to come or it would be too much."""
        return (body if final or len(self._buffer) - body > MAX_HELD else -1), None

    def _read_array(self, body: int, final: bool) -> tuple[int, list[Found] | None]:
        """An array has no closer of its own: try where it may end."""
        text = self._buffer[body:]
        if text.strip() and not text.lstrip().startswith("["):
            return body, None
        if len(text) <= MAX_HELD and (final or (text.rstrip().endswith("]") and self._tries < MAX_TRIES)):
            self._tries += 1
            self._work += len(text)
            end = text.rfind("]") + 1
            found = _json_calls(text[:end], self._shapes)
            if found:
                return body + end, found
        return self._unclosed(body, final)

    def _possible_opener(self) -> int:
        """Where an opener may begin at the end of the text; the end if none can."""
        size = len(self._buffer)
        for place in range(max(self._from, size - _LONGEST), size):
            tail = self._buffer[place:]
            if any(opener.startswith(tail) for opener in _FORMS):
                return place
        return size

    def _cut(self, place: int) -> list[str | Found]:
        """Let go of the text up to here."""
        text = self._buffer[:place]
        self._drop(place)
        return [text] if text else []

    def _drop(self, place: int) -> None:
        if place:
            self._before = self._buffer[place - 1]
            self._buffer = self._buffer[place:]
            self._from = self._sought = self._tries = 0


def _inside_string(text: str) -> bool:
    """Whether a JSON string is open at the end, so that a closer found there belongs to it."""
    return '"' in _STRING.sub("", text)
