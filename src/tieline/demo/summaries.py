"""Summaries of conversations: clients ask for one when a conversation has become too long, and continue from it.

The demo model writes a summary that it can read again, so that it does not repeat calls that it has already made.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

_ASKED = re.compile(
    r"context checkpoint compaction|\bsummari[sz]e (?:this|our|the) conversation"
    r"|\b(?:handoff|detailed) summary\b[^\n]{0,80}|continuing our conversation",
    re.IGNORECASE,
)
_HEAD = "The user asked: "
_TITLE = "Results so far:"
_END = "This is the end of the summary."
_WRITTEN = re.compile(rf"{_HEAD}(?P<request>\"[^\n]*\")\n{_TITLE}\n(?P<results>(?:- [^\n]*\n)*){_END}")
_RESULT = re.compile(r"- `(?P<name>[^`\n]*)`: (?P<text>\"[^\n]*\")\n")
_MAX_RESULT = 200
"""Maximum length of a call's result in a summary, in characters."""


class WrittenSummary(NamedTuple):
    """A summary that the demo model wrote. `rest` is the text that follows it in the same message."""

    request: str
    results: Sequence[tuple[str, str]]
    """The name and the result of each call."""
    rest: str


def is_asked(text: str) -> bool:
    """Return whether a message from the user asks for a summary of the conversation."""
    return _ASKED.search(text[:1000]) is not None and _WRITTEN.search(text) is None


def write(request: str, results: Sequence[tuple[str, str]]) -> str:
    """Return a summary of a conversation: the user's request, and the name and the result of each call."""
    lines = [f"- `{name}`: {_quoted(text[:_MAX_RESULT])}" for name, text in results]
    return "\n".join([f"{_HEAD}{_quoted(request)}", _TITLE, *lines, _END])


def find(text: str) -> WrittenSummary | None:
    """Return the last summary in the text of a message; None if there is none."""
    *_, found = (None, *_WRITTEN.finditer(text))
    if found is None:
        return None
    results = [(result["name"], _unquoted(result["text"])) for result in _RESULT.finditer(found["results"])]
    return WrittenSummary(_unquoted(found["request"]), results, text[found.end() :].strip())


def _quoted(text: str) -> str:
    return msgspec.json.encode(text).decode()


def _unquoted(text: str) -> str:
    try:
        return msgspec.json.decode(text, type=str)
    except msgspec.DecodeError:
        return text.strip('"')
