"""Derive the model's history and the title from the messages of a session, and replace the text of a message."""

import base64
from collections.abc import Iterator, Sequence

from tieline.model.content import File, Message, Part, Text, ToolCall
from tieline.model.session import Turn

MAX_TITLE = 60
_MAX_TITLE_SOURCE = 1000


def model_history(path: Sequence[Turn]) -> Iterator[Message]:
    """Yield the messages of a branch in the form that the model receives.

    Text files become text parts, because few upstreams accept them as files.
    """
    for turn in path:
        yield from turn.rounds
        parts = turn.parts[_parts_in(turn.rounds) :]
        if parts:
            yield Message(role=turn.role, parts=tuple(map(_file_as_text, parts)))


def with_new_text(parts: Sequence[Part], text: str) -> list[Part]:
    """Return the parts with `text` in place of the first text part. If `text` is blank, remove that part."""
    first = next((place for place, part in enumerate(parts) if isinstance(part, Text)), None)
    rest = [part for place, part in enumerate(parts) if place != first]
    return [*([Text(text=text)] if text.strip() else []), *rest]


def title_from(path: Sequence[Turn]) -> str:
    """Return a title for a session: the beginning of its first message, without the fences of code blocks."""
    first = next((part.text for part in path[0].parts if isinstance(part, Text)), "") if path else ""
    lines = first[:_MAX_TITLE_SOURCE].splitlines()
    return shorten_title(" ".join(line for line in lines if not line.lstrip().startswith("```")))


def shorten_title(text: str) -> str:
    """Return the text as a title: one line of at most MAX_TITLE characters."""
    words = " ".join(text[:_MAX_TITLE_SOURCE].split())
    return words if len(words) <= MAX_TITLE else f"{words[: MAX_TITLE - 1].rstrip()}…"


def _parts_in(rounds: Sequence[Message]) -> int:
    """Return the number of parts in the assistant messages of `rounds`.

    Tool calls do not count, because a `Turn` holds them as activities instead of parts.
    """
    parts = (part for message in rounds if message.role == "assistant" for part in message.parts)
    return sum(not isinstance(part, ToolCall) for part in parts)


def _file_as_text(part: Part) -> Part:
    if not isinstance(part, File) or not part.media_type.startswith("text/") or part.data is None:
        return part
    try:
        text = base64.b64decode(part.data).decode("utf-8", "replace")
    except ValueError:
        return part
    return Text(text=f'<file path="{part.name}">\n{text}\n</file>')
