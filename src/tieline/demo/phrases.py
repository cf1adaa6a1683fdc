"""Text helpers for the demo model: titles, lists, quotations, and removal of quotes."""

import re
from collections.abc import Sequence

from tieline.demo.conversation import CallOutcome

LISTED_NAMES = 12
QUOTED_LINES = 20
QUOTED_CHARACTERS = 1500
_FENCED = re.compile(r"\s*```[^\n`]*\n(.*?)```\s*", re.DOTALL)
_ANY_FENCE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_TITLE_REQUEST = re.compile(r"^[^\n]{0,200}\btitle\b[^\n]{0,200}:\s*(?=\S)", re.IGNORECASE)
_CHANGED = re.compile(r"^\+\+\+ b/(.{1,200})$", re.MULTILINE)
_QUOTES = {'"': '"', "'": "'", "`": "`", "“": "”"}


def title_of(words: str) -> str:
    """Return a short title made from the user's text."""
    text = _TITLE_REQUEST.sub("", _ANY_FENCE.sub(" ", words).strip())
    picked = re.findall(r"\S+", text[:400])[:7]
    title = " ".join(picked).strip(" .,;:!?\"'`<>#*")
    return title[:1].upper() + title[1:60] if title else "Chat with the demo model"


def commit_message(words: str) -> str:
    """Return a commit message that names the files changed in the diff in the user's text."""
    names = _CHANGED.findall(words)
    return f"Update {', '.join(names[:3])}" if names else "Update"


def shortened(text: str, limit: int = 80) -> str:
    """Return the text as one line, truncated to `limit` characters."""
    line = " ".join(text[: limit * 4].split())
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def unquoted(text: str) -> str:
    """Return the text without the quotes, backticks or fence around it. If there are none, strip white space only."""
    if fenced := _FENCED.fullmatch(text):
        return fenced[1]
    text = text.strip()
    is_quoted = len(text) >= 2 and _QUOTES.get(text[0]) == text[-1] and text[-1] not in text[1:-1]
    return text[1:-1] if is_quoted else text


def listed(names: Sequence[str]) -> str:
    """Return the names in the form "`a`, `b` and `c`". A long list is shortened."""
    ticked = [f"`{name}`" for name in names[:LISTED_NAMES]]
    if len(names) > LISTED_NAMES:
        ticked.append(f"{len(names) - LISTED_NAMES} more")
    return " and ".join([", ".join(ticked[:-1]), ticked[-1]] if len(ticked) > 1 else ticked)


def counted(number: int, noun: str) -> str:
    """Return the number and the noun in the singular or plural: "1 line", "2 lines"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def report(outcome: CallOutcome) -> str:
    """Return a report of a tool call that quotes its result."""
    verb = "failed" if outcome.is_error else "returned"
    text = outcome.text.strip("\n")
    if not text.strip():
        seen = f" {counted(outcome.images, 'image')}." if outcome.images else " nothing."
        return f"`{outcome.name}` {verb}{'.' if outcome.is_error else seen}"
    if "\n" not in text and len(text) <= 200:
        return f"`{outcome.name}` {verb}: {text}"
    return f"`{outcome.name}` {verb}:\n\n{_block(text)}"


def brief(outcome: CallOutcome) -> str:
    """Return a report of a tool call in one sentence."""
    if outcome.is_error:
        return f"`{outcome.name}` failed: {shortened(outcome.text)}"
    lines = len(outcome.text.strip().splitlines())
    return f"`{outcome.name}` returned {counted(lines, 'line')}." if lines else f"`{outcome.name}` returned nothing."


def _block(text: str) -> str:
    lines = text.splitlines()
    shown = "\n".join(lines[:QUOTED_LINES])[:QUOTED_CHARACTERS]
    longest = max((len(run) for run in re.findall(r"`{3,}", shown)), default=2)
    fence = "`" * (longest + 1)
    hidden = len(lines) - len(shown.splitlines())
    if hidden:
        return f"{fence}\n{shown}\n{fence}\n\n… and {counted(hidden, 'more line')}."
    return f"{fence}\n{shown}\n{fence}" + ("" if len(shown) >= len(text.rstrip()) else "\n\n… and more.")
