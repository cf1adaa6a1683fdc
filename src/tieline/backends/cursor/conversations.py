"""Conversations: the id and key each goes by at the service, the state its next turn continues from, waiting plans.

A client sends its whole history each time and no id. A conversation is recognised by that history: the fingerprint of
everything up to the model's last message, which includes the model's replies. So the id stays the same as a
conversation grows, and two that begin with the same words have ids of their own. Fingerprints are keyed with a secret
of this process and the account; after a restart, after an edit of the history, or where the fingerprint is unknown for
any other reason, the conversation gets a new id and is told from its history.
"""

import asyncio
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple, Protocol

from tieline.model.bounded_cache import BoundedCache
from tieline.model.content import File, Image, Message, Part, Text, ToolCall, ToolResult
from tieline.wire.cursor.blobs import Blobs

REMEMBERED = 4096
"""How many conversations are remembered by id; the ones used longest ago are forgotten."""
MOST_STATES = 256
LARGEST_STATE = 16 << 20
MOST_STATE_BYTES = 128 << 20
"""What the states of all conversations may take; a conversation without one is told from its history."""
MOST_WAITING = 64
"""How many runs may wait for the user's reply to a plan."""


class ConversationState(NamedTuple):
    """What a turn left at the service's request: its checkpoint, and the blobs the checkpoint refers to."""

    model: str
    checkpoint: bytes
    blobs: Blobs


class WaitingRun(Protocol):
    """A run that waits for the user's next message."""

    def give_up(self) -> None:
        """Close it: the message did not come."""


@dataclass(slots=True, eq=False)
class CursorConversation:
    """One conversation with the service."""

    id: str
    blob_key: str
    """64 hex digits that the service encrypts its copies with, the same for the whole conversation."""
    key: bytes = b""
    """The fingerprint of its history so far."""
    is_live: bool = False
    """Whether a run is under way: two at once never share an id."""
    waiting: WaitingRun | None = None
    timer: asyncio.TimerHandle | None = None


class Conversations:
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
        self._known: BoundedCache[bytes, CursorConversation] = BoundedCache(REMEMBERED)
        self._states: BoundedCache[CursorConversation, ConversationState] = BoundedCache(
            MOST_STATES, max_weight=MOST_STATE_BYTES, max_each=LARGEST_STATE
        )
        self._waiting: dict[CursorConversation, None] = {}
        """The conversations with a run that waits, the oldest first."""

    def open(self, messages: Sequence[Message], owner: str) -> CursorConversation:
        """Return the conversation that these messages of an account's user continue, or a new one."""
        end = _end_of_past(messages)
        found = self._known.get(self._fingerprint(messages[:end], owner)) if end else None
        if found is None or found.is_live:
            found = CursorConversation(self._mint(), self._mint_key())
        found.is_live = True
        return found

    def rename(self, conversation: CursorConversation) -> None:
        """Give another id to a conversation that the service does not continue."""
        conversation.id, conversation.blob_key = self._mint(), self._mint_key()

    def take_state(self, conversation: CursorConversation, model: str) -> ConversationState | None:
        """Hand out what the last turn left, once, if it was a turn of the same model."""
        state = self._states.pop(conversation)
        return state if state is not None and state.model == model else None

    def close(
        self,
        conversation: CursorConversation,
        messages: Sequence[Message] = (),
        owner: str = "",
        state: ConversationState | None = None,
    ) -> None:
        """End a run. `messages` is the history with the reply the client has got; empty if it got no whole one."""
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
        """Keep a run until the next message of its conversation comes, for a while."""
        conversation.waiting = run
        conversation.timer = asyncio.get_running_loop().call_later(self._wait_for, self._give_up, conversation)
        self._waiting[conversation] = None
        if len(self._waiting) > MOST_WAITING:
            self._give_up(next(iter(self._waiting)))

    def waiting_for(self, messages: Sequence[Message], owner: str) -> WaitingRun | None:
        """Hand out the run that waits for these messages, once."""
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

    # ── What is kept ─────────────────────────────────────────────────────────────────────────────

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
    """Count the messages up to the model's last one."""
    end = len(messages)
    while end and messages[end - 1].role != "assistant":
        end -= 1
    return end


def _turns(messages: Sequence[Message]) -> list[tuple[bytes, list[Part]]]:
    """Join neighbours of one role, as clients do; system prompts may change from turn to turn and do not count."""
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
    """Return what tells a part other than text from another.

    Thinking does not count, since clients drop it, nor do the arguments of calls, which they spell anew.
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
