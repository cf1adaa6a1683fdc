"""The history as the API wants it: turns that alternate, begin with the user, and are never empty."""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from tieline.model.content import Message, Text
from tieline.wire.anthropic.parts import Block, BlockWriter, is_blank
from tieline.wire.anthropic.schema import PROTOCOL, TextBlock, ToolResultOut

PLACEHOLDER = "…"
"""Stands where the API demands words and there are none."""


class Turn(Struct):
    """One message of the wire."""

    role: str
    content: list[Block]


def split_system(messages: Sequence[Message]) -> int:
    """How many system messages stand in front of all others."""
    return next((at for at, message in enumerate(messages) if message.role != "system"), len(messages))


def turns(messages: Iterable[Message], blocks: BlockWriter, forgotten: int, system_in_messages: bool) -> list[Turn]:
    """The turns of a conversation; the first `forgotten` messages lose their thoughts."""
    found: list[Turn] = []
    for at, message in enumerate(messages):
        match message.role:
            case "user":
                _join(found, "user", blocks.user(message))
            case "assistant":
                _join(found, "assistant", blocks.assistant(message, at < forgotten))
            case "system" if system_in_messages and message.meta.get(PROTOCOL, {}).get("in_place"):
                content: list[Block] = [*blocks.system(message)]
                if content:
                    _join(found, "system", content)
            case "system":
                _join(found, "user", [*_reminder(message)])
    if not found or found[0].role != "user":
        found.insert(0, Turn("user", []))
    for turn in found:
        if not turn.content:
            turn.content.append(TextBlock(PLACEHOLDER))
    _end_without_space(found[-1])
    return found


def _join(found: list[Turn], role: str, content: list[Block]) -> None:
    """One turn more, or more of the last one; tool results stay in front."""
    if not found or found[-1].role != role:
        found.append(Turn(role, content))
        return
    joined = found[-1].content
    joined.extend(content)
    if role == "user":
        joined.sort(key=lambda block: not isinstance(block, ToolResultOut))


def _reminder(message: Message) -> Iterable[TextBlock]:
    """A system message where none may stand, in the form models know for it."""
    text = "\n".join(part.text for part in message.parts if isinstance(part, Text) and not is_blank(part.text))
    return [TextBlock(f"<system-reminder>\n{text}\n</system-reminder>")] if text else []


def _end_without_space(turn: Turn) -> None:
    """Words put into the model's mouth must not end with a space."""
    last = turn.content[-1]
    if turn.role == "assistant" and isinstance(last, TextBlock):
        last.text = last.text.rstrip()
