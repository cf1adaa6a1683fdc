"""What models thought, for clients that forget it and upstreams that must not see it.

Some upstreams demand their thinking back on the next request, with its signature, while many clients drop it: it is
remembered by the ids of the calls it led to (or by the words that followed it) and put back in front of them. A
signature is only good for the backend that made it: when a session moves to another backend it is taken off, and the
codec there leaves unsigned thinking out.
"""

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from tieline.model.content import Message, Part, Text, Thinking, ToolCall

MAX_ENTRIES = 4096
MAX_CHARACTERS = 32 * 1024 * 1024


class _Memory(NamedTuple):
    backend: str
    parts: tuple[Thinking, ...]
    size: int


class Thoughts:
    """A bounded memory of thinking; the oldest is forgotten first."""

    def __init__(self, max_entries: int = MAX_ENTRIES, max_characters: int = MAX_CHARACTERS) -> None:
        self._by_key: OrderedDict[Hashable, _Memory] = OrderedDict()
        self._size = 0
        self._max_entries = max_entries
        self._max_characters = max_characters

    def remember(self, backend: str, parts: Sequence[Part]) -> None:
        """Keep the thinking of a reply."""
        thinking = tuple(part for part in parts if isinstance(part, Thinking))
        if not thinking:
            return
        memory = _Memory(backend, thinking, sum(len(part.text) + len(part.signature or "") for part in thinking))
        for key in (*_keys(parts), *(("signature", hash(part.signature)) for part in thinking if part.signature)):
            self._forget(key)
            self._by_key[key] = memory
            self._size += memory.size
        while self._by_key and (len(self._by_key) > self._max_entries or self._size > self._max_characters):
            self._forget(next(iter(self._by_key)))

    def restore(self, backend: str, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        """The history with what its assistant messages lost put back and what is another backend's unsigned."""
        if not self._by_key:
            return messages
        return tuple(
            self._restored(backend, message) if message.role == "assistant" else message for message in messages
        )

    def _restored(self, backend: str, message: Message) -> Message:
        if any(isinstance(part, Thinking) for part in message.parts):
            parts = tuple(self._unsigned(backend, part) for part in message.parts)
            return message if parts == message.parts else replace(message, parts=parts)
        for key in _keys(message.parts):
            memory = self._by_key.get(key)
            if memory is not None and memory.backend == backend:
                self._by_key.move_to_end(key)
                return replace(message, parts=(*memory.parts, *message.parts))
        return message

    def _unsigned(self, backend: str, part: Part) -> Part:
        if isinstance(part, Thinking) and part.signature:
            memory = self._by_key.get(("signature", hash(part.signature)))
            if memory is not None and memory.backend != backend:
                return replace(part, signature=None, redacted=False)
        return part

    def _forget(self, key: Hashable) -> None:
        memory = self._by_key.pop(key, None)
        if memory is not None:
            self._size -= memory.size


def _keys(parts: Iterable[Part]) -> list[Hashable]:
    """What a client does send back of a reply: the ids of its calls, or the words if it made none."""
    calls: list[Hashable] = [("call", part.id) for part in parts if isinstance(part, ToolCall)]
    if calls:
        return calls
    words = "".join(part.text for part in parts if isinstance(part, Text))
    return [("words", hash(words))] if words else []
