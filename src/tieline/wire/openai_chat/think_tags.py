"""Thinking as part of the text, between `<think>` tags, for clients that cannot show thinking in any other form.

Such a client sends the tags back in its history. The text between them becomes thinking again, so that the model does
not mistake it for an earlier answer, and does not imitate the tags.
"""

import re
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from tieline.model.content import Message, Part, Text, Thinking
from tieline.model.events import Event, PartDelta, PartEnd, PartStart

OPEN, CLOSE = "<think>\n", "\n</think>\n\n"
"""The texts that are written before and after thinking."""

_TAGGED = re.compile(r"<think>\n(.*?)\n</think>\n*", re.DOTALL)


class ThinkTags:
    """Turns the thinking in the events of a leg into text between tags."""

    def __init__(self) -> None:
        self._in_thinking = False
        self._is_open = False
        """Whether the opening tag of the current thinking was written."""

    def tagged(self, batch: Iterable[Event]) -> list[Event]:
        """Return the events of a batch with thinking converted to tagged text. Empty thinking becomes empty text."""
        return [new for event in batch for new in self._tagged(event)]

    def _tagged(self, event: Event) -> Sequence[Event]:
        if type(event) is PartStart:
            self._in_thinking, self._is_open = type(event.part) is Thinking, False
        if not self._in_thinking:
            return (event,)
        if type(event) is PartStart:
            return (PartStart(index=event.index, part=Text()),)
        if type(event) is PartDelta:
            text = event.text if self._is_open else OPEN + event.text
            self._is_open = True
            return (PartDelta(event.index, text),)
        if type(event) is PartEnd and type(event.part) is Thinking:
            self._in_thinking = False
            end = PartEnd(index=event.index, part=_as_text(event.part))
            return (PartDelta(event.index, CLOSE), end) if self._is_open else (end,)
        return (event,)


def tagged_parts(parts: Iterable[Part]) -> list[Part]:
    """Return the parts of a reply with thinking converted to tagged text. Thinking without text is left out."""
    kept = (part for part in parts if type(part) is not Thinking or part.text)
    return [_as_text(part) if type(part) is Thinking else part for part in kept]


def _as_text(thinking: Thinking) -> Text:
    return Text(text=f"{OPEN}{thinking.text}{CLOSE}" if thinking.text else "")


def without_tags(messages: Iterable[Message]) -> tuple[Message, ...]:
    """Return the messages with tagged text in assistant messages converted to thinking."""
    return tuple(_untagged(message) if message.role == "assistant" else message for message in messages)


def _untagged(message: Message) -> Message:
    if not any(type(part) is Text and OPEN in part.text for part in message.parts):
        return message
    return replace(message, parts=tuple(new for part in message.parts for new in _split(part)))


def _split(part: Part) -> Iterable[Part]:
    if type(part) is not Text:
        yield part
        return
    # The pattern has one group, so the pieces alternate between text and thinking.
    for number, piece in enumerate(_TAGGED.split(part.text)):
        if piece:
            yield Thinking(text=piece) if number % 2 else replace(part, text=piece)
