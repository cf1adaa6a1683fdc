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
    leading = 0
    for message in messages:
        if message.role != "system":
            break
        leading += 1
    return leading


def turns(messages: Iterable[Message], blocks: BlockWriter, forgotten: int, system_in_messages: bool) -> list[Turn]:
    """The turns of a conversation; the first `forgotten` messages lose their thoughts."""
    last = Turn("user", [])
    found = [last]
    for at, message in enumerate(messages):
        role: str = message.role
        content: list[Block]
        if role == "user":
            content = blocks.user(message)
        elif role == "assistant":
            content = blocks.assistant(message, at < forgotten)
        elif system_in_messages and message.meta.get(PROTOCOL, {}).get("in_place"):
            content = [*blocks.system(message)]
            if not content:
                continue
        else:
            role, content = "user", [*_reminder(message)]
        if role != last.role:
            last = Turn(role, content)
            found.append(last)
        elif last.content:
            _join(last, content)
        else:
            last.content = content
    return _without_gaps(found)


def _join(turn: Turn, more: list[Block]) -> None:
    """More of a turn; tool results stay in front."""
    turn.content += more
    if turn.role == "user":
        turn.content.sort(key=lambda block: not isinstance(block, ToolResultOut))


def _without_gaps(found: list[Turn]) -> list[Turn]:
    for turn in found:
        if not turn.content:
            turn.content.append(TextBlock(PLACEHOLDER))
    if found[-1].role == "assistant":
        _end_without_space(found[-1])
    return found


def _reminder(message: Message) -> Iterable[TextBlock]:
    """A system message where none may stand, in the form models know for it."""
    text = "\n".join(part.text for part in message.parts if isinstance(part, Text) and not is_blank(part.text))
    return [TextBlock(f"<system-reminder>\n{text}\n</system-reminder>")] if text else []


def _end_without_space(turn: Turn) -> None:
    """Words put into the model's mouth must not end with a space."""
    last = turn.content[-1]
    if isinstance(last, TextBlock):
        last.text = last.text.rstrip()
