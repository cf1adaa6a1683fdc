"""Conversations: the ids and keys that the service uses, the state for the next turn, and runs that wait for a reply.

A client sends its whole history with each request, but no id. A conversation is recognized by a fingerprint of all
messages up to the model's last one. So the id stays the same as a conversation grows, and conversations that begin with
the same text have different ids as soon as the model's replies differ. Fingerprints also depend on the account, on the
client's key, and on a secret that is generated for this process. If a fingerprint is unknown, for example after a
restart or an edit of the history, the conversation receives a new id, and its history is sent again.
"""

import asyncio
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple, Protocol

from tieline.model.bounded_cache import BoundedCache
from tieline.model.content import File, Image, Message, Part, Text, ToolCall, ToolResult
from tieline.wire.cursor.stored_state import Blobs

MAX_CONVERSATIONS = 4096
"""Maximum number of conversations that are remembered. The least recently used one is forgotten first."""
MAX_STATES = 256
MAX_STATE_BYTES = 16 << 20
MAX_BYTES_OF_STATES = 128 << 20
"""Maximum size in bytes of all states together. If a conversation's state was dropped, its history is sent instead."""
MAX_WAITING = 64
"""Maximum number of runs that wait for the user's reply to a plan."""


class ConversationState(NamedTuple):
    """The state to keep for the service between turns: its checkpoint, and the blobs that the checkpoint refers to."""

    model: str
    checkpoint: bytes
    blobs: Blobs


class WaitingRun(Protocol):
    """A run that waits for the user's next message."""

    def give_up(self) -> None:
        """Close the run, because the user's message has not arrived."""


@dataclass(slots=True, eq=False)
class CursorConversation:
    """One conversation with the service."""

    id: str
    blob_key: str
    """The key, as 64 hex digits, with which the service encrypts its copies of the conversation."""
    key: bytes = b""
    """The fingerprint of the conversation's current history."""
    is_live: bool = False
    """Whether a run uses the conversation. Concurrent runs never share a conversation id."""
    waiting: WaitingRun | None = None
    timer: asyncio.TimerHandle | None = None


class CursorConversations:
    """The conversations of one backend."""

    def __init__(
        self,
        mint: Callable[[], str],
        *,
        mint_key: Callable[[], str] = lambda: secrets.token_hex(32),
        wait_for: float = 900.0,
    ) -> None:
        self._mint = mint
        self._mint_key = mint_key
        self._wait_for = wait_for
        self._salt = secrets.token_bytes(32)
        self._known: BoundedCache[bytes, CursorConversation] = BoundedCache(MAX_CONVERSATIONS)
        self._states: BoundedCache[CursorConversation, ConversationState] = BoundedCache(
            MAX_STATES, max_weight=MAX_BYTES_OF_STATES, max_each=MAX_STATE_BYTES
        )
        self._waiting: dict[CursorConversation, None] = {}
        """The conversations in which a run waits for a reply, in the order in which the runs began to wait."""

    def open(self, messages: Sequence[Message], owner: str) -> CursorConversation:
        """Return the conversation that the messages continue, or a new one. `owner` is the result of `owner_of`."""
        end = _end_of_past(messages)
        found = self._known.get(self._fingerprint(messages[:end], owner)) if end else None
        if found is None or found.is_live:
            found = CursorConversation(self._mint(), self._mint_key())
        found.is_live = True
        return found

    def rename(self, conversation: CursorConversation) -> None:
        """Give a conversation a new id and encryption key, because the service cannot continue it."""
        conversation.id, conversation.blob_key = self._mint(), self._mint_key()

    def take_state(self, conversation: CursorConversation, model: str) -> ConversationState | None:
        """Remove and return the state of the last turn. Return None if there is none, or if it is not for `model`."""
        state = self._states.pop(conversation)
        return state if state is not None and state.model == model else None

    def close(
        self,
        conversation: CursorConversation,
        messages: Sequence[Message] = (),
        owner: str = "",
        state: ConversationState | None = None,
    ) -> None:
        """Record that the run of a conversation has ended, and keep `state` for the next turn.

        `messages` is the history, including the reply of the run; `owner` is as in `open`. If the reply is incomplete,
        `messages` is empty, and nothing is kept.
        """
        conversation.is_live = False
        if not messages:
            return
        self._known.pop(conversation.key)
        conversation.key = self._fingerprint(messages, owner)
        self._known.put(conversation.key, conversation)
        if state is not None:
            self._keep(conversation, state)

    # ── Runs that wait for the user's next message ───────────────────────────────────────────────

    @property
    def has_waiting(self) -> bool:
        """Whether any run waits for a reply."""
        return bool(self._waiting)

    def wait(self, conversation: CursorConversation, run: WaitingRun) -> None:
        """Keep a run, for a limited time, until the next message in its conversation arrives."""
        conversation.waiting = run
        conversation.timer = asyncio.get_running_loop().call_later(self._wait_for, self._give_up, conversation)
        self._waiting[conversation] = None
        if len(self._waiting) > MAX_WAITING:
            self._give_up(next(iter(self._waiting)))

    def waiting_for(self, messages: Sequence[Message], owner: str) -> WaitingRun | None:
        """Remove and return the run that waits for the last of these messages. Return None if no run waits for it."""
        found = self._known.get(self._fingerprint(messages[: _end_of_past(messages)], owner))
        return self._taken(found) if found is not None and found.waiting is not None else None

    def aclose(self) -> None:
        """Give up every run that waits."""
        for conversation in list(self._waiting):
            self._give_up(conversation)

    def _taken(self, conversation: CursorConversation) -> WaitingRun | None:
        run, conversation.waiting = conversation.waiting, None
        if conversation.timer is not None:
            conversation.timer.cancel()
            conversation.timer = None
        self._waiting.pop(conversation, None)
        return run

    def _give_up(self, conversation: CursorConversation) -> None:
        run = self._taken(conversation)
        if run is not None:
            run.give_up()

    # ── States and fingerprints ──────────────────────────────────────────────────────────────────

    def _keep(self, conversation: CursorConversation, state: ConversationState) -> None:
        self._states.put(conversation, state, state.blobs.size + len(state.checkpoint))
        if conversation in self._states:
            state.blobs.pack()

    def _fingerprint(self, messages: Sequence[Message], owner: str) -> bytes:
        digest = blake2b(owner.encode("utf-8", "replace"), digest_size=16, key=self._salt)
        for role, parts in _turns(messages):
            text = "".join([part.text for part in parts if type(part) is Text])
            digest.update(role + text.strip().encode("utf-8", "replace"))
            for part in parts:
                for piece in _identifying(part):
                    digest.update(b"\1" + piece.encode("utf-8", "replace"))
        return digest.digest()


def _end_of_past(messages: Sequence[Message]) -> int:
    """Return the number of messages up to and including the model's last one."""
    end = len(messages)
    while end and messages[end - 1].role != "assistant":
        end -= 1
    return end


def _turns(messages: Sequence[Message]) -> list[tuple[bytes, list[Part]]]:
    """Group the parts of adjacent messages with the same role, because clients may join such messages.

    Each group has a tag for its role. System prompts are left out, because they may change.
    """
    turns: list[tuple[bytes, list[Part]]] = []
    for message in messages:
        if message.role == "system":
            continue
        role = b"\2a" if message.role == "assistant" else b"\2u"
        if turns and turns[-1][0] == role:
            turns[-1][1].extend(message.parts)
        else:
            turns.append((role, list(message.parts)))
    return turns


def _identifying(part: Part) -> Sequence[str]:
    """Return strings that identify a part other than text.

    Thinking is left out, because clients drop it. The arguments of calls are left out, because clients may reformat
    them.
    """
    if type(part) is ToolCall:
        return (part.id, part.name)
    if type(part) is ToolResult:
        return (part.call_id, *(piece for inner in part.content for piece in _identifying_inner(inner)))
    return _identifying_inner(part) if isinstance(part, Image | File) else ()


def _identifying_inner(part: Text | Image | File) -> Sequence[str]:
    if isinstance(part, Text):
        return (part.text,)
    data = part.data or ""
    return (part.media_type or "", part.url or "", str(len(data)), data[-256:])
