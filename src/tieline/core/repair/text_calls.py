"""Find tool calls that a model wrote as text, while the text is being received.

Models trained on several call formats sometimes write a call as text. The forms below are recognised. Each begins with
an opener, and all but the last end with a closer. Only well-formed calls to offered tools count; anything else remains
text. From a possible opener on, text is held back until it is clear whether it is a call.

    <tool_call>{"name": …, "arguments": {…}}</tool_call>
    <function=name>{…}</function>               or with <parameter=key>value</parameter> inside
    <invoke name="…"><parameter name="key">value</parameter></invoke>       also inside <function_calls>
    ```tool_call                                a fence around the JSON of the first form
    [TOOL_CALLS][{"name": …, "arguments": {…}}, …]
"""

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from tieline.core.repair.arguments import ArgumentSchema, array_items, is_object, parse_call

MAX_CALLS = 32
"""Maximum number of calls extracted from the text of one leg."""
MAX_HELD = 256 * 1024
"""Maximum number of characters held back for one call."""
MAX_WORK = 8 * 1024 * 1024
"""Maximum number of characters parsed in a leg, including repeated attempts. Beyond that, all text stays text."""
MAX_TRIES = 64
"""Maximum number of positions that are tried as the end of one call."""


class TextCall(NamedTuple):
    """A tool call that the model wrote as text. `arguments` is JSON text."""

    name: str
    arguments: str


Schemas = Mapping[str, ArgumentSchema]
FormReader = Callable[[str, Schemas], list[TextCall] | None]

_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_FUNCTION = re.compile(r"\s*<function=([^\s<>]+)>(.*?)</function>\s*", re.DOTALL)
_INVOKE = re.compile(r"\s*<(antml:)?invoke name=[\"']([^\"'<>]+)[\"']\s*>(.*?)</(?:antml:)?invoke>\s*", re.DOTALL)
_PARAMETER = re.compile(
    r"\s*<(?:antml:)?parameter(?:=| name=)[\"']?([^\"'<>]+)[\"']?[^<>]*>(.*?)</(?:antml:)?parameter>\s*", re.DOTALL
)


def _json_calls(body: str, schemas: Schemas) -> list[TextCall] | None:
    """Parse a JSON object as one call, or a JSON array as several calls.

    Return None unless every value is a call to an offered tool.
    """
    text = body.strip()
    many = array_items(text)
    found = [parse_call(one) for one in (many if many is not None else [text])]
    calls = [TextCall(*one) for one in found if one is not None and one[0] in schemas]
    return calls if calls and len(calls) == len(found) else None


def _tool_call(body: str, schemas: Schemas) -> list[TextCall] | None:
    if body.lstrip().startswith("<function="):
        return _tagged(_FUNCTION, body, schemas)
    return _json_calls(body, schemas)


def _functions(body: str, schemas: Schemas) -> list[TextCall] | None:
    return _tagged(_FUNCTION, f"<function={body}</function>", schemas)


def _invokes(body: str, schemas: Schemas) -> list[TextCall] | None:
    return _tagged(_INVOKE, body, schemas)


def _invoke(body: str, schemas: Schemas) -> list[TextCall] | None:
    return _tagged(_INVOKE, f"<invoke name={body}</invoke>", schemas)


def _tagged(form: re.Pattern[str], body: str, schemas: Schemas) -> list[TextCall] | None:
    """Parse consecutive calls, each of which matches the pattern `form`.

    Return None if the body contains any other text or an invalid call.
    """
    calls: list[TextCall] = []
    place = 0
    while place < len(body):
        match = form.match(body, place)
        if match is None:
            return None
        *_, name, inner = match.groups()
        arguments = _tagged_arguments(inner, schemas[name]) if name in schemas else None
        if arguments is None:
            return None
        calls.append(TextCall(name, arguments))
        place = match.end()
    return calls or None


def _tagged_arguments(inner: str, schema: ArgumentSchema) -> str | None:
    """Return the arguments of a call as JSON. The model may have written a JSON object, or one tag per argument.

    The schema determines the types of tagged arguments. Return None if the arguments are malformed.
    """
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
    return schema.arguments(given)


class _CallForm(NamedTuple):
    closer: str | None
    read: FormReader


_PREFIX = "antml:"
_FORMS: dict[str, _CallForm] = {
    "<tool_call>": _CallForm("</tool_call>", _tool_call),
    "<function=": _CallForm("</function>", _functions),
    "<function_calls>": _CallForm("</function_calls>", _invokes),
    "<invoke name=": _CallForm("</invoke>", _invoke),
    f"<{_PREFIX}function_calls>": _CallForm(f"</{_PREFIX}function_calls>", _invokes),
    f"<{_PREFIX}invoke name=": _CallForm(f"</{_PREFIX}invoke>", _invoke),
    "```tool_call\n": _CallForm("```", _json_calls),
    "```tool_calls\n": _CallForm("```", _json_calls),
    "[TOOL_CALLS]": _CallForm(None, _json_calls),
}
_OPENER = re.compile("|".join(re.escape(opener) for opener in _FORMS))
_LONGEST = max(map(len, _FORMS))


class TextCallScanner:
    """Splits the text of one leg into plain text and calls. `feed` and `close` return these pieces in order."""

    def __init__(self, schemas: Schemas) -> None:
        self._schemas = schemas
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
        """Whether text is being held back."""
        return bool(self._buffer)

    def feed(self, text: str) -> list[str | TextCall]:
        """Add text. Return the next plain text and calls, up to text that may be the beginning of a call."""
        self._buffer += text
        return self._pieces(final=False)

    def close(self) -> list[str | TextCall]:
        """Mark the end of the text. Return the text that was held back, split into plain text and calls."""
        pieces = [*self._pieces(final=True), *self._cut(len(self._buffer))]
        self._before = ""
        return pieces

    def _pieces(self, *, final: bool) -> list[str | TextCall]:
        pieces: list[str | TextCall] = []
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

    def _read(self, match: re.Match[str], final: bool) -> tuple[int, list[TextCall] | None]:
        """Read the calls that follow the opener in `match`. Return the position after the calls, and the calls.

        If no call is found, return None for the calls. The position is then -1 if more text may complete a call,
        otherwise the position from which to search for the next opener.
        """
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
            found = read(text, self._schemas) if len(text) <= MAX_HELD else None
            self._tries += 1
            self._work += len(text)
            if found or self._tries > MAX_TRIES or not _inside_string(text):
                return (end + len(closer) if found else body), found
            end = self._buffer.find(closer, end + 1)
        self._missing.add(closer)
        self._sought = max(body, len(self._buffer) - len(closer) + 1)
        return self._unclosed(body, final)

    def _unclosed(self, body: int, final: bool) -> tuple[int, None]:
        """Return the result of `_read` for a missing closer: wait for more text, unless it has ended or is too long."""
        return (body if final or len(self._buffer) - body > MAX_HELD else -1), None

    def _read_array(self, body: int, final: bool) -> tuple[int, list[TextCall] | None]:
        """Read calls in a JSON array. It has no closer, so try to parse it whenever the text ends with `]`."""
        text = self._buffer[body:]
        if text.strip() and not text.lstrip().startswith("["):
            return body, None
        if len(text) <= MAX_HELD and (final or (text.rstrip().endswith("]") and self._tries < MAX_TRIES)):
            self._tries += 1
            self._work += len(text)
            end = text.rfind("]") + 1
            found = _json_calls(text[:end], self._schemas)
            if found:
                return body + end, found
        return self._unclosed(body, final)

    def _possible_opener(self) -> int:
        """Return the position of an incomplete opener at the end of the text, or the text's length if there is none."""
        size = len(self._buffer)
        for place in range(max(self._from, size - _LONGEST), size):
            tail = self._buffer[place:]
            if any(opener.startswith(tail) for opener in _FORMS):
                return place
        return size

    def _cut(self, place: int) -> list[str | TextCall]:
        """Remove the text before the position `place` from the buffer. Return it in a list, or [] if it is empty."""
        text = self._buffer[:place]
        self._drop(place)
        return [text] if text else []

    def _drop(self, place: int) -> None:
        if place:
            self._before = self._buffer[place - 1]
            self._buffer = self._buffer[place:]
            self._from = self._sought = self._tries = 0


def _inside_string(text: str) -> bool:
    """Return whether the text ends inside a JSON string. If so, a closer that follows is part of the string."""
    return '"' in _STRING.sub("", text)
