"""Repair malformed but complete JSON.

Models forget a closing brace or quote, leave a trailing comma, or write Python quotes and constants. Only unambiguous
errors are repaired; a missing key or value is not invented. The caller must make sure that the text is not truncated,
because truncation cannot be recognised from the text alone.
"""

import json
import re
from typing import Any

import msgspec

MAX_DEPTH = 64

_SPACE = re.compile(r"\s*")
_STRINGS = {'"': re.compile(r'((?:[^"\\]|\\.)*)"', re.DOTALL), "'": re.compile(r"((?:[^'\\]|\\.)*)'", re.DOTALL)}
_WORD = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.])|[A-Za-z]+(?!\w)")
_CONSTANTS = {"true": True, "false": False, "null": None, "True": True, "False": False, "None": None}
_AFTER = re.compile(r"[\s}\]]*\Z")
_ESCAPE = re.compile(r"\\(.)|([\"\n\r\t])", re.DOTALL)
_PLAIN = {"\n": "\\n", "\r": "\\r", "\t": "\\t", '"': '\\"'}


class Ambiguous(ValueError):
    """The intended value cannot be determined."""


def repair_json(text: str) -> str | None:
    """Return the JSON object that the malformed text was meant to be, or None if that cannot be determined."""
    try:
        return msgspec.json.encode(_LenientParser(text).whole()).decode()
    except (ValueError, UnicodeError):
        return None


class _LenientParser:
    """A lenient JSON parser. `closers` holds the closing brackets that are still expected."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.place = 0
        self.closers: list[str] = []

    def whole(self) -> dict[str, Any]:
        value = self.value()
        if not isinstance(value, dict) or not _AFTER.match(self.text, self.place):
            raise Ambiguous
        return value

    def peek(self) -> str:
        """Skip white space and return the next character; empty at the end."""
        match = _SPACE.match(self.text, self.place)
        self.place = match.end() if match else self.place
        return self.text[self.place : self.place + 1]

    def value(self) -> Any:
        first = self.peek()
        if first == "{":
            return self.object()
        if first == "[":
            return self.array()
        if first in _STRINGS:
            return self.string(first, may_lack_quote=True)
        word = _WORD.match(self.text, self.place)
        if word is None:
            raise Ambiguous
        self.place = word.end()
        if word[0] in _CONSTANTS:
            return _CONSTANTS[word[0]]
        return json.loads(word[0])

    def object(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        self.enter("}")
        while not self.closed():
            quote = self.peek()
            if quote not in _STRINGS:
                raise Ambiguous
            key = self.string(quote, may_lack_quote=False)
            if self.peek() != ":":
                raise Ambiguous
            self.place += 1
            found[key] = self.value()
            self.separator()
        return found

    def array(self) -> list[Any]:
        found: list[Any] = []
        self.enter("]")
        while not self.closed():
            found.append(self.value())
            self.separator()
        return found

    def enter(self, closer: str) -> None:
        if len(self.closers) >= MAX_DEPTH:
            raise Ambiguous
        self.closers.append(closer)
        self.place += 1

    def closed(self) -> bool:
        """Return whether the innermost object or array ends at this position. If so, consume its closing bracket.

        If that bracket is missing, the object or array ends at the bracket of an outer one, or at the end of the text.
        """
        following = self.peek()
        if following and following not in self.closers:
            return False
        if self.closers.pop() == following:
            self.place += 1
        return True

    def separator(self) -> None:
        """Consume a comma. A trailing comma is allowed before a closing bracket, but not at the end of the text."""
        following = self.peek()
        if following == ",":
            self.place += 1
            if not self.peek():
                raise Ambiguous
        elif following and following not in self.closers:
            raise Ambiguous

    def string(self, quote: str, *, may_lack_quote: bool) -> str:
        match = _STRINGS[quote].match(self.text, self.place + 1)
        if match is not None:
            self.place = match.end()
            return _unescaped(match[1])
        if not may_lack_quote:
            raise Ambiguous
        brackets = r"\s*".join(re.escape(closer) for closer in reversed(self.closers))
        rest = re.sub(brackets + r"\s*\Z", "", self.text[self.place + 1 :])
        self.place = len(self.text)
        return _unescaped(rest)


def _unescaped(inner: str) -> str:
    """Decode the escape sequences in the content of a string. Unescaped line breaks are accepted."""

    def escape(match: re.Match[str]) -> str:
        if match[2]:
            return _PLAIN[match[2]]
        return "'" if match[1] == "'" else match[0]

    text: str = json.loads(f'"{_ESCAPE.sub(escape, inner)}"', strict=False)
    return text
