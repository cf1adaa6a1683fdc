"""What models thought, for clients that forget it and upstreams that must not see it.

Some upstreams demand their thinking back on the next request, with its signature, while many clients drop it: it is
remembered by the ids of the calls it led to, or else by the words that followed it and those it answered, and put back
in front of them. Some upstreams count their calls from zero in every conversation: of several calls with one id the
arguments tell which.

A signature is only good for the backend that made it, and for the very text it was made for: when a session moves to
another backend it is taken off, and the codec there leaves unsigned thinking out; text that a client altered becomes
what it was.

A conversation is told again with every request, as the same objects: what is made of one of its messages is the same
object again too, so that whoever remembers messages by identity knows it.
"""

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from tieline.core.weigh import weight
from tieline.model.content import Message, Part, Text, Thinking, ToolCall

MAX_ENTRIES = 4096
MAX_CHARACTERS = 32 * 1024 * 1024
MAX_MADE = 16 * 1024 * 1024
"""Characters of messages that are remembered with what was made of them; the same texts mostly, so about half of it."""
MAX_ALIKE = 32
"""How many replies whose calls have the same id are told apart."""


class _Memory(NamedTuple):
    backend: str
    parts: tuple[Thinking, ...]
    calls: frozenset[Hashable]
    size: int

    @property
    def text(self) -> str:
        return "".join(part.text for part in self.parts)


class _Made:
    """What was made of messages: the very same object when it is the same again; the oldest is forgotten first."""

    def __init__(self) -> None:
        self._made: dict[int, tuple[Message, Message, int]] = {}
        """By the identity of the message it was made of, which is held, so that no other can have it meanwhile."""
        self._size = 0

    def message(self, origin: Message, parts: tuple[Part, ...]) -> Message:
        """The message with these parts instead of its own."""
        known = self._made.get(id(origin))
        # Parts that are the same objects are not compared any further.
        if known is not None and known[1].parts == parts:
            return known[1]
        made = replace(origin, parts=parts)
        self._keep(origin, made)
        return made

    def _keep(self, origin: Message, made: Message) -> None:
        self._forget(id(origin))
        size = weight(origin) + weight(made)
        if size > MAX_MADE // 16:
            return
        self._made[id(origin)] = origin, made, size
        self._size += size
        while len(self._made) > MAX_ENTRIES or self._size > MAX_MADE:
            self._forget(next(iter(self._made)))

    def _forget(self, key: int) -> None:
        forgotten = self._made.pop(key, None)
        if forgotten is not None:
            self._size -= forgotten[2]


class Thoughts:
    """A bounded memory of thinking; the oldest is forgotten first."""

    def __init__(self, max_entries: int = MAX_ENTRIES, max_characters: int = MAX_CHARACTERS) -> None:
        self._by_key: OrderedDict[Hashable, tuple[_Memory, ...]] = OrderedDict()
        self._size = 0
        self._made = _Made()
        self._max_entries = max_entries
        self._max_characters = max_characters

    def remember(self, backend: str, asked: Sequence[Message], parts: Sequence[Part]) -> None:
        """Keep the thinking of a reply to these messages."""
        thinking = tuple(part for part in parts if isinstance(part, Thinking))
        if not thinking:
            return
        size = sum(len(part.text) + len(part.signature or "") for part in thinking)
        calls = frozenset(_fingerprint(part) for part in parts if isinstance(part, ToolCall))
        memory = _Memory(backend, thinking, calls, size)
        for key in (
            *_keys(parts, _last_words(asked)),
            *(("signature", hash(part.signature)) for part in thinking if part.signature),
        ):
            others = [other for other in self._by_key.get(key, ()) if calls and calls.isdisjoint(other.calls)]
            self._forget(key)
            self._by_key[key] = (*others[1 - MAX_ALIKE :], memory)
            self._size += sum(kept.size for kept in self._by_key[key])
        while self._by_key and (len(self._by_key) > self._max_entries or self._size > self._max_characters):
            self._forget(next(iter(self._by_key)))

    def restore(self, backend: str, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        """The history with what its assistant messages lost put back and what is another backend's unsigned."""
        if not self._by_key:
            return messages
        restored: list[Message] = []
        asked = 0
        for message in messages:
            if message.role == "assistant":
                restored.append(self._restored(backend, message, asked))
            else:
                restored.append(message)
                asked = _words_of(message) or asked
        return tuple(restored)

    def _restored(self, backend: str, message: Message, asked: int) -> Message:
        thoughts = [part for part in message.parts if isinstance(part, Thinking)]
        if any(part.signature for part in thoughts):
            parts = tuple(self._checked(backend, part) for part in message.parts)
            return message if parts == message.parts else self._made.message(message, parts)
        memory = self._recall(backend, message.parts, asked)
        if memory is None or (thoughts and "".join(part.text for part in thoughts) != memory.text):
            return message
        rest = (part for part in message.parts if not isinstance(part, Thinking))
        return self._made.message(message, (*memory.parts, *rest))

    def _recall(self, backend: str, parts: Sequence[Part], asked: int) -> _Memory | None:
        """The thinking that led to these calls or words."""
        for key in _keys(parts, asked):
            alike = [memory for memory in self._by_key.get(key, ()) if memory.backend == backend]
            if len(alike) > 1:
                calls = {_fingerprint(part) for part in parts if isinstance(part, ToolCall)}
                alike = [memory for memory in alike if not calls.isdisjoint(memory.calls)]
            if alike:
                self._by_key.move_to_end(key)
                return alike[-1]
        return None

    def _checked(self, backend: str, part: Part) -> Part:
        """Thinking with a signature as its maker will take it back; without one if that is another backend."""
        if not isinstance(part, Thinking) or not part.signature:
            return part
        memories = self._by_key.get(("signature", hash(part.signature)))
        if memories is None:
            return part
        if memories[-1].backend != backend:
            return replace(part, signature=None, redacted=False)
        return next((own for own in memories[-1].parts if own.signature == part.signature), part)

    def _forget(self, key: Hashable) -> None:
        self._size -= sum(memory.size for memory in self._by_key.pop(key, ()))


def _last_words(messages: Sequence[Message]) -> int:
    """What a reply to these messages answers."""
    return next((words for message in reversed(messages) if (words := _words_of(message))), 0)


def _words_of(message: Message) -> int:
    """The words of a user, in short; 0 if there are none."""
    if message.role != "user":
        return 0
    words = "".join(part.text for part in message.parts if isinstance(part, Text))
    return hash(words) if words else 0


def _keys(parts: Iterable[Part], asked: int) -> list[Hashable]:
    """What a client does send back of a reply: the ids of its calls, or the words if it made none.

    "Done." is said in every conversation: words count together with those they answer.
    """
    calls: list[Hashable] = [("call", part.id) for part in parts if isinstance(part, ToolCall)]
    if calls:
        return calls
    words = "".join(part.text for part in parts if isinstance(part, Text))
    return [("words", asked, hash(words))] if words else []


def _fingerprint(call: ToolCall) -> Hashable:
    """What tells a call from others of its id, however a client spelled its arguments anew."""
    try:
        value = msgspec.json.encode(msgspec.json.decode(call.arguments), order="sorted")
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        value = call.arguments.encode("utf-8", "replace")
    return call.id, call.name, hash(value)
