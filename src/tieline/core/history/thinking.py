"""What models thought, and what providers want back with it, for clients that drop it.

Some upstreams demand their thinking back on the next request, with its signature, while many clients drop it: it is
remembered by the ids of the calls it led to, or else by the words that followed it and those it answered, and put back
in front of them. Some upstreams count their calls from zero in every conversation: of several calls with one id the
arguments tell which.

A signature is only good for the backend that made it, and for the very text it was made for: when a session moves to
another backend it is taken off, and the codec there leaves unsigned thinking out; text that a client altered becomes
what it was.

The same holds for the provider state of a reply and of its calls (`meta[STATE]`): it is put back for the backend that
issued it, and what is known to come from another backend is taken off. State of unknown origin, which a client kept
since before the gateway was started, stays.

A conversation is told again with every request, as the same objects: what is made of one of its messages is the same
object again too, so that whoever remembers messages by identity knows it.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from tieline.core.history.token_estimate import weight
from tieline.model.bounded_cache import BoundedCache
from tieline.model.content import (
    NO_META,
    STATE,
    Message,
    Meta,
    Part,
    Text,
    Thinking,
    ToolCall,
    state_of,
    with_state,
)

MAX_ENTRIES = 4096
MAX_CHARACTERS = 32 * 1024 * 1024
MAX_RESTORED = 16 * 1024 * 1024
"""Characters of restored messages and their originals; most of their texts are shared."""
MAX_ALIKE = 32
"""How many replies whose calls have the same id are told apart."""


class _Memory(NamedTuple):
    backend: str
    parts: tuple[Thinking, ...]
    calls: frozenset[Hashable]
    size: int
    state: Mapping[str, str]
    """The provider state of the whole reply."""
    states: Mapping[str, Mapping[str, str]]
    """That of its calls, by their ids."""

    @property
    def text(self) -> str:
        return "".join(part.text for part in self.parts)


class ThinkingMemory:
    """A bounded memory of thinking and provider state; the oldest is forgotten first."""

    def __init__(self, max_entries: int = MAX_ENTRIES, max_characters: int = MAX_CHARACTERS) -> None:
        self._by_key: BoundedCache[Hashable, tuple[_Memory, ...]] = BoundedCache(max_entries, max_weight=max_characters)
        self._restored_messages: BoundedCache[int, tuple[Message, Message]] = BoundedCache(
            MAX_ENTRIES, max_weight=MAX_RESTORED, max_each=MAX_RESTORED // 16
        )
        """Restored messages by the identity of the original, which is held, so that no other object can have it."""
        self.has_entries = False
        """Whether anything was remembered; until then `restore` has no effect."""

    def remember(
        self, backend: str, asked: Sequence[Message], parts: Sequence[Part], state: Mapping[str, str] = NO_META
    ) -> None:
        """Keep the thinking and the provider state of a reply to these messages."""
        thinking = tuple(part for part in parts if isinstance(part, Thinking))
        made = [part for part in parts if isinstance(part, ToolCall)]
        states = {call.id: state_of(call.meta) for call in made if STATE in call.meta}
        if not (thinking or state or states):
            return
        self.has_entries = True
        size = sum(len(part.text) + len(part.signature or "") for part in thinking)
        size += sum(len(text) for some in (state, *states.values()) for text in some.values())
        calls = frozenset(map(_fingerprint, made))
        memory = _Memory(backend, thinking, calls, size, state, states)
        for key in (
            *_keys(parts, _last_words(asked)),
            *(("signature", hash(part.signature)) for part in thinking if part.signature),
        ):
            others = [other for other in self._by_key.get(key) or () if calls and calls.isdisjoint(other.calls)]
            kept = (*others[1 - MAX_ALIKE :], memory)
            self._by_key.put(key, kept, sum(one.size for one in kept))

    def restore(self, backend: str, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        """The history with what its assistant messages lost put back and what is another backend's unsigned."""
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
        known = self._made_of(message.parts, asked)
        own = next((memory for memory in reversed(known) if memory.backend == backend), None)
        parts = self._thinking_again(backend, message.parts, own)
        meta = message.meta
        if known:
            parts, meta = _with_states(parts, own), _with_state(meta, own)
        if parts == message.parts and meta == message.meta:
            return message
        return self._restored_message(message, parts, meta)

    def _restored_message(self, origin: Message, parts: tuple[Part, ...], meta: Meta) -> Message:
        """Return the message with these parts: the same object every time, so that caches recognise it."""
        known = self._restored_messages.get(id(origin))
        if known is not None and known[0] is origin and known[1].parts == parts and known[1].meta == meta:
            return known[1]
        restored = replace(origin, parts=parts, meta=meta)
        self._restored_messages.put(id(origin), (origin, restored), weight(origin) + weight(restored))
        return restored

    def _thinking_again(self, backend: str, parts: tuple[Part, ...], own: _Memory | None) -> tuple[Part, ...]:
        """The parts with the thinking that their backend wants back."""
        thoughts = [part for part in parts if isinstance(part, Thinking)]
        if any(part.signature for part in thoughts):
            return tuple(self._checked(backend, part) for part in parts)
        if own is None or not own.parts or (thoughts and "".join(part.text for part in thoughts) != own.text):
            return parts
        return (*own.parts, *(part for part in parts if not isinstance(part, Thinking)))

    def _made_of(self, parts: Sequence[Part], asked: int) -> Sequence[_Memory]:
        """What is remembered of the reply with these calls or words, whichever backend gave it."""
        for key in _keys(parts, asked):
            known = self._by_key.get(key) or ()
            if len(known) > 1:
                calls = {_fingerprint(part) for part in parts if isinstance(part, ToolCall)}
                known = tuple(memory for memory in known if not calls.isdisjoint(memory.calls))
            if known:
                return known
        return ()

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


def _with_states(parts: tuple[Part, ...], own: _Memory | None) -> tuple[Part, ...]:
    """The parts with the state of their calls: as it is remembered, or none if another backend made them."""
    return tuple(_with_its_state(part, own) if type(part) is ToolCall else part for part in parts)


def _with_its_state(call: ToolCall, own: _Memory | None) -> ToolCall:
    state = NO_META if own is None else own.states.get(call.id, NO_META)
    return call if state_of(call.meta) == state else replace(call, meta=with_state(call.meta, state))


def _with_state(meta: Meta, own: _Memory | None) -> Meta:
    state = NO_META if own is None else own.state
    return meta if state_of(meta) == state else with_state(meta, state)


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
