"""Malformed JSON that is clearly complete, made right.

Models forget a closing brace or quote, leave a comma before the end, or write Python's quotes and constants. Only
what can mean one thing is mended: where a key or a value is missing nothing is guessed. Whether a text was cut off is
not to be seen in it; that is for the caller to know.
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


class Hopeless(ValueError):
    """What was meant cannot be told."""


def mend(text: str) -> str | None:
    """The JSON text of the object that was meant, or None."""
    try:
        return msgspec.json.encode(_Patient(text).whole()).decode()
    except (ValueError, UnicodeError):
        return None


class _Patient:
    """A parser that forgives; `closers` are the brackets that are open."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.place = 0
        self.closers: list[str] = []

    def whole(self) -> dict[str, Any]:
        value = self.value()
        if not isinstance(value, dict) or not _AFTER.match(self.text, self.place):
            raise Hopeless
        return value

    def peek(self) -> str:
        """The next character that is no space; empty at the end."""
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
            raise Hopeless
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
                raise Hopeless
            key = self.string(quote, may_lack_quote=False)
            if self.peek() != ":":
                raise Hopeless
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
            raise Hopeless
        self.closers.append(closer)
        self.place += 1

    def closed(self) -> bool:
        """Whether the innermost bracket ends here; it also ends where one around it does, or the text."""
        following = self.peek()
        if following and following not in self.closers:
            return False
        if self.closers.pop() == following:
            self.place += 1
        return True

    def separator(self) -> None:
        """A comma between two; one before a bracket is too many, one at the end of all means that more was to come."""
        following = self.peek()
        if following == ",":
            self.place += 1
            if not self.peek():
                raise Hopeless
        elif following and following not in self.closers:
            raise Hopeless

    def string(self, quote: str, *, may_lack_quote: bool) -> str:
        match = _STRINGS[quote].match(self.text, self.place + 1)
        if match is not None:
            self.place = match.end()
            return _unescaped(match[1])
        if not may_lack_quote:
            raise Hopeless
        brackets = r"\s*".join(re.escape(closer) for closer in reversed(self.closers))
        rest = re.sub(brackets + r"\s*\Z", "", self.text[self.place + 1 :])
        self.place = len(self.text)
        return _unescaped(rest)


def _unescaped(inner: str) -> str:
    """What stands between quotes, with real line breaks let through."""

    def escape(match: re.Match[str]) -> str:
        if match[2]:
            return _PLAIN[match[2]]
        return "'" if match[1] == "'" else match[0]

    text: str = json.loads(f'"{_ESCAPE.sub(escape, inner)}"', strict=False)
    return text
