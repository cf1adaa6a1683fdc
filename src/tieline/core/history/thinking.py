"""Remember thinking and provider state, and restore them in histories from clients that drop them.

Some upstreams expect the next request to contain their signed thinking, but many clients drop it. Thinking is stored
under the ids of the calls in the same reply. If the reply has no calls, the key is its text and the user's text before
it. Thinking is restored at the beginning of its reply. Some upstreams number their calls from zero in every
conversation, so calls with the same id are distinguished by their arguments.

A signature is valid only for the backend that issued it and for the exact text. If a conversation moves to another
backend, the signature is removed, and that backend's codec drops the unsigned thinking. If a client has altered signed
thinking, the original text is restored.

The same applies to the provider state of a reply and of its calls (`meta[STATE]`): it is restored for the backend that
issued it, and removed if it is known to come from another backend. State of unknown origin is kept, because the client
may have received it before the gateway was started.

When a conversation grows, the parser returns the same objects for the earlier messages. Restored messages are reused in
the same way, because some caches identify messages by `id()`.
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
"""Maximum total size of the cached restored messages and their originals, in characters."""
MAX_ALIKE = 32
"""Maximum number of replies remembered for the same call id."""


class _RememberedThinking(NamedTuple):
    backend: str
    parts: tuple[Thinking, ...]
    calls: frozenset[Hashable]
    size: int
    state: Mapping[str, str]
    """The provider state of the reply."""
    states: Mapping[str, Mapping[str, str]]
    """The provider state of each call in the reply, by call id."""

    @property
    def text(self) -> str:
        return "".join(part.text for part in self.parts)


class ThinkingMemory:
    """A bounded memory of thinking and provider state; the least recently used entries are dropped first."""

    def __init__(self, max_entries: int = MAX_ENTRIES, max_characters: int = MAX_CHARACTERS) -> None:
        self._by_key: BoundedCache[Hashable, tuple[_RememberedThinking, ...]] = BoundedCache(
            max_entries, max_weight=max_characters
        )
        self._restored_messages: BoundedCache[int, tuple[Message, Message]] = BoundedCache(
            MAX_ENTRIES, max_weight=MAX_RESTORED, max_each=MAX_RESTORED // 16
        )
        """Original and restored messages by the `id()` of the original, which is kept so that its id is not reused."""
        self.has_entries = False
        """Whether anything has been remembered; until then `restore` has no effect."""

    def remember(
        self, backend: str, history: Sequence[Message], parts: Sequence[Part], state: Mapping[str, str] = NO_META
    ) -> None:
        """Remember the thinking in `parts`, which is the reply to `history`, and the provider state of the reply."""
        thinking = tuple(part for part in parts if isinstance(part, Thinking))
        made = [part for part in parts if isinstance(part, ToolCall)]
        states = {call.id: state_of(call.meta) for call in made if STATE in call.meta}
        if not (thinking or state or states):
            return
        self.has_entries = True
        size = sum(len(part.text) + len(part.signature or "") for part in thinking)
        size += sum(len(text) for some in (state, *states.values()) for text in some.values())
        calls = frozenset(map(_fingerprint, made))
        entry = _RememberedThinking(backend, thinking, calls, size, state, states)
        for key in (
            *_keys(parts, _last_user_text_hash(history)),
            *(("signature", hash(part.signature)) for part in thinking if part.signature),
        ):
            others = [other for other in self._by_key.get(key) or () if calls and calls.isdisjoint(other.calls)]
            kept = (*others[1 - MAX_ALIKE :], entry)
            self._by_key.put(key, kept, sum(one.size for one in kept))

    def restore(self, backend: str, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        """Return the history with this backend's thinking and state, and without signatures or state from others."""
        restored: list[Message] = []
        user_text_hash = 0
        for message in messages:
            if message.role == "assistant":
                restored.append(self._restored(backend, message, user_text_hash))
            else:
                restored.append(message)
                user_text_hash = _user_text_hash(message) or user_text_hash
        return tuple(restored)

    def _restored(self, backend: str, message: Message, user_text_hash: int) -> Message:
        known = self._entries_of(message.parts, user_text_hash)
        own = next((entry for entry in reversed(known) if entry.backend == backend), None)
        parts = self._with_thinking(backend, message.parts, own)
        meta = message.meta
        if known:
            parts, meta = _with_call_states(parts, own), _with_reply_state(meta, own)
        if parts == message.parts and meta == message.meta:
            return message
        return self._restored_message(message, parts, meta)

    def _restored_message(self, origin: Message, parts: tuple[Part, ...], meta: Meta) -> Message:
        """Return a copy of `origin` with these parts and metadata. The same arguments yield the same object."""
        known = self._restored_messages.get(id(origin))
        if known is not None and known[0] is origin and known[1].parts == parts and known[1].meta == meta:
            return known[1]
        restored = replace(origin, parts=parts, meta=meta)
        self._restored_messages.put(id(origin), (origin, restored), weight(origin) + weight(restored))
        return restored

    def _with_thinking(
        self, backend: str, parts: tuple[Part, ...], own: _RememberedThinking | None
    ) -> tuple[Part, ...]:
        """Return the parts with this backend's thinking restored, and without signatures from other backends.

        `own` is this backend's entry for the reply, if there is one.
        """
        thoughts = [part for part in parts if isinstance(part, Thinking)]
        if any(part.signature for part in thoughts):
            return tuple(self._checked(backend, part) for part in parts)
        if own is None or not own.parts or (thoughts and "".join(part.text for part in thoughts) != own.text):
            return parts
        return (*own.parts, *(part for part in parts if not isinstance(part, Thinking)))

    def _entries_of(self, parts: Sequence[Part], user_text_hash: int) -> Sequence[_RememberedThinking]:
        """Return the entries for the reply with these parts, whichever backend they came from."""
        for key in _keys(parts, user_text_hash):
            known = self._by_key.get(key) or ()
            if len(known) > 1:
                calls = {_fingerprint(part) for part in parts if isinstance(part, ToolCall)}
                known = tuple(entry for entry in known if not calls.isdisjoint(entry.calls))
            if known:
                return known
        return ()

    def _checked(self, backend: str, part: Part) -> Part:
        """Restore the original text of signed thinking, or remove a signature that another backend issued."""
        if not isinstance(part, Thinking) or not part.signature:
            return part
        entries = self._by_key.get(("signature", hash(part.signature)))
        if entries is None:
            return part
        if entries[-1].backend != backend:
            return replace(part, signature=None, redacted=False)
        return next((own for own in entries[-1].parts if own.signature == part.signature), part)


def _with_call_states(parts: tuple[Part, ...], own: _RememberedThinking | None) -> tuple[Part, ...]:
    """Return the parts with the state of each call replaced by that in `own`, or removed if `own` is None."""
    return tuple(_with_call_state(part, own) if type(part) is ToolCall else part for part in parts)


def _with_call_state(call: ToolCall, own: _RememberedThinking | None) -> ToolCall:
    state = NO_META if own is None else own.states.get(call.id, NO_META)
    return call if state_of(call.meta) == state else replace(call, meta=with_state(call.meta, state))


def _with_reply_state(meta: Meta, own: _RememberedThinking | None) -> Meta:
    state = NO_META if own is None else own.state
    return meta if state_of(meta) == state else with_state(meta, state)


def _last_user_text_hash(messages: Sequence[Message]) -> int:
    """Return the hash of the text of the last user message that has text, or 0 if there is none."""
    return next((found for message in reversed(messages) if (found := _user_text_hash(message))), 0)


def _user_text_hash(message: Message) -> int:
    """Return the hash of the text of a user message, or 0 if the message has no text or is not from the user."""
    if message.role != "user":
        return 0
    text = "".join(part.text for part in message.parts if isinstance(part, Text))
    return hash(text) if text else 0


def _keys(parts: Iterable[Part], user_text_hash: int) -> list[Hashable]:
    """Return the keys of a reply: the ids of its calls or, if it has no calls, the hash of its text.

    The text's hash is combined with that of the user's text, because many conversations have replies such as "Done.".
    """
    calls: list[Hashable] = [("call", part.id) for part in parts if isinstance(part, ToolCall)]
    if calls:
        return calls
    text = "".join(part.text for part in parts if isinstance(part, Text))
    return [("text", user_text_hash, hash(text))] if text else []


def _fingerprint(call: ToolCall) -> Hashable:
    """Return a key for a call. It does not depend on how the client formats the arguments."""
    try:
        value = msgspec.json.encode(msgspec.json.decode(call.arguments), order="sorted")
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        value = call.arguments.encode("utf-8", "replace")
    return call.id, call.name, hash(value)
