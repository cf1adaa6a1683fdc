"""The history as the API wants it: turns that alternate, begin with the user, and are never empty.

A turn is the unit that is remembered: what it says depends on its own messages, and on hardly anything else. Those at
the beginning of a long conversation are remembered together, as one text.
"""

from collections.abc import Hashable, Sequence
from itertools import takewhile
from operator import eq, is_
from typing import cast

from msgspec import Struct

from tieline.model.content import Foreign, Message, Text
from tieline.model.events import Note, left_out
from tieline.wire.anthropic import cache_control, thinking
from tieline.wire.anthropic.build_content import Block, BlockWriter, in_block, is_blank, plain_words
from tieline.wire.anthropic.dialect import Dialect
from tieline.wire.anthropic.fragments import Memory, Piece
from tieline.wire.anthropic.schema import PROTOCOL, TextBlock, ToolResultOut
from tieline.wire.shared.json import encode
from tieline.wire.shared.spelling import Names

PLACEHOLDER = "…"
"""Stands where the API demands words and there are none."""
TOLD_AGAIN = 3
"""From how many messages on a conversation is remembered: many are no more than a question."""

MESSAGES = b'"messages":['
"""What stands before the first turn."""

_ENOUGH = 8
"""Turns that are worth being joined to the beginning of a conversation: it is copied each time."""
_AFTER_IT = ["user", "assistant", "user"]
"""How a conversation goes on behind its beginning: no mark of ours is set before the last turn but one of the user."""
_NO_BEGINNING = Piece((), b"")
_HEADS = {role: b'{"role":"%b","content":' % role.encode() for role in ("user", "assistant", "system")}


class Turn(Piece):
    """One message of the wire."""

    role: str = "user"
    is_unsigned: bool = False
    """Whether a thought without a signature was among what is said."""
    is_seldom: bool = False
    """Whether the request has to know more of it than its text and its role."""


class History(Struct):
    """The turns of a conversation, those behind its beginning; the first `forgotten` messages lost their thoughts."""

    turns: list[Turn]
    roles: list[str]
    forgotten: int = 0
    marks: int = 0
    notes: tuple[Note, ...] = ()
    beginning: bytes = b""
    """All before the turns, as it stands in the request; nothing if there is nothing before them."""


class _Groups(Struct):
    """The messages that make up each turn, and where in the conversation it starts."""

    roles: list[str]
    messages: list[tuple[Message, ...]]
    starts: list[int]
    keys: list[Hashable]

    def regular(self) -> int:
        """How many turns at the beginning are a message each of user and model, but for the last of them."""
        alone = [*map(eq, self.starts, range(len(self.starts))), False].index(False)
        return min(alone, self.roles.index("system")) if "system" in self.roles else alone


class TurnWriter(Struct):
    """Writes the turns of a request, those that are not written yet."""

    names: Names
    dialect: Dialect
    memory: Memory

    def history(self, messages: tuple[Message, ...]) -> History:
        """The turns of a conversation."""
        if len(messages) == 1 and messages[0].role == "user":
            turn = self.write("user", messages)
            return History([turn], ["user"], 0, turn.marks, turn.notes)
        known = self.memory.get(_beginning_of(messages)) if len(messages) > _ENOUGH else None
        if known is None or not self._is_beginning(known, messages):
            known = _NO_BEGINNING
        told = cast(tuple[Message, ...], known.source)
        groups, history = self._turns(messages[len(told) :])
        if history.forgotten and told:  # thoughts go that were among what is known
            return self._turns(messages)[1]
        history.beginning = known.text
        if len(history.turns) > _ENOUGH and not history.forgotten:
            self._lengthen(known, messages, groups, history)
        return history

    def _is_beginning(self, known: Piece, messages: tuple[Message, ...]) -> bool:
        """Whether a conversation begins with the very same messages, and goes on with turns of their own."""
        told = cast(tuple[Message, ...], known.source)
        after = messages[len(told) : len(told) + len(_AFTER_IT)]
        return (
            [message.role for message in after] == _AFTER_IT
            and all(map(is_, told, messages))
            and (known.context is None or known.context == self._context(forget=False))
        )

    def _lengthen(self, known: Piece, messages: tuple[Message, ...], groups: _Groups, history: History) -> None:
        """Join turns to the beginning of a conversation, for the next request."""
        end = min(cache_control.ends(history.roles)[-1], groups.regular() - 1)
        turns = [*takewhile(_says_no_more, history.turns[:end])]
        turns = turns[: len(turns) // 2 * 2]
        if len(turns) < _ENOUGH:
            return
        text = b",".join([turn.text for turn in turns])
        beginning = Piece(
            messages[: len(cast(tuple[Message, ...], known.source)) + len(turns)],
            known.text + b"," + text if known.text else MESSAGES + text,
            context=known.context,
        )
        if any(turn.context is not None for turn in turns):
            beginning.context = self._context(forget=False)
        self.memory.keep(_beginning_of(messages), beginning)

    def _turns(self, messages: tuple[Message, ...]) -> tuple[_Groups, History]:
        """What is said behind the beginning, turn by turn."""
        groups = _groups(messages, self.dialect.system_in_messages)
        is_told_again = len(messages) >= TOLD_AGAIN
        found = self.memory.find(groups.keys) if is_told_again else [None] * len(groups.keys)
        turns = cast(list[Turn | None], found)
        if groups.roles[-1] == "assistant":  # how that ends depends on being the last
            turns[-1] = None
        history = History(cast(list[Turn], turns), groups.roles)
        seldom = [at for at, turn in enumerate(turns) if turn is None or turn.is_seldom]
        if seldom:
            allowed = self.dialect.unsigned_thinking
            if not allowed and any(_is_unsigned(turns[at], groups.messages[at]) for at in seldom):
                history.forgotten = thinking.forgotten(messages)
            self._complete(history, groups, seldom, is_told_again)
        return groups, history

    def _complete(self, history: History, groups: _Groups, places: list[int], keep: bool) -> None:
        """Write the turns at these places that are not known, or only as they are in another context."""
        last = len(groups.roles) - 1
        for at in places:
            turn: Turn | None = history.turns[at]
            forget = groups.starts[at] < history.forgotten
            if turn is None or (turn.context is not None and turn.context != self._context(forget)):
                turn = self.write(
                    groups.roles[at],
                    groups.messages[at],
                    forget,
                    is_last=at == last and groups.roles[at] == "assistant",
                )
                history.turns[at] = turn
                if keep and not (at == last and turn.role == "assistant"):
                    self.memory.keep(groups.keys[at], turn)
            history.marks += turn.marks
            history.notes += turn.notes

    def without_marks(self, history: History, count: int) -> None:
        """Take away the first cache marks, as many as that."""
        for at, turn in enumerate(history.turns):
            if count and turn.marks:
                messages = cast(tuple[Message, ...], turn.source)
                forget = turn.context is not None and turn.context == self._context(forget=True)
                is_last = at == len(history.turns) - 1 and turn.role == "assistant"
                history.turns[at] = self.write(turn.role, messages, forget, is_last=is_last, unmarked=count)
                count -= min(count, turn.marks)

    def write(
        self, role: str, messages: tuple[Message, ...], forget: bool = False, is_last: bool = False, unmarked: int = 0
    ) -> Turn:
        """A turn of these messages, without the first of its cache marks."""
        if len(messages) == 1 and role == messages[0].role and not is_last and (words := plain_words(messages[0])):
            return Turn(messages, _HEADS[role] + in_block(words) + b"}", 3, role=role)
        blocks = BlockWriter(self.names, self.dialect.extensions, self.dialect.unsigned_thinking)
        content = _content(role, messages, blocks, forget)
        if is_last:
            _end_without_space(content)
        for block in blocks.marked[:unmarked] if unmarked else ():
            block.cache_control = None
        mark_at = 3 if type(content[-1]) in cache_control.MARKABLE else cache_control.place(content, 2)
        turn = Turn(messages, _HEADS[role] + encode(content) + b"}", mark_at, role=role)
        if blocks.marked or blocks.notes or blocks.is_bound:
            turn.is_seldom = True
            turn.marks = len(blocks.marked)
            turn.notes = tuple(blocks.notes)
            if blocks.is_bound:
                turn.context = self._context(forget)
                turn.is_unsigned = _is_unsigned(None, messages)
        return turn

    def _context(self, forget: bool) -> tuple[object, ...]:
        dialect = self.dialect
        return self.names, dialect.extensions, dialect.system_in_messages, dialect.unsigned_thinking, forget


def _is_unsigned(turn: Turn | None, messages: tuple[Message, ...]) -> bool:
    return any(map(thinking.is_unsigned, messages)) if turn is None else turn.is_unsigned


def _beginning_of(messages: tuple[Message, ...]) -> Hashable:
    """What the beginning of a conversation is remembered by."""
    return "beginning", id(messages[0])


def _says_no_more(turn: Turn) -> bool:
    """Whether all that the request has to know of a turn is its text, its role and its context."""
    return not (turn.marks or turn.notes or turn.is_unsigned)


# ── Which messages are one turn ──────────────────────────────────────────────────────────────────


def _groups(messages: Sequence[Message], system_in_messages: bool) -> _Groups:
    """A run of messages of one role is one turn."""
    roles, turns, starts = ["user"], [list[Message]()], [0]
    for at, message in enumerate(messages):
        role: str = message.role
        if role == "system":
            role = "user"
            if system_in_messages and message.meta.get(PROTOCOL, {}).get("in_place"):
                if not _words(message) and not _has_directives(message):
                    continue
                role = "system"
        if role == roles[-1]:
            turns[-1].append(message)
        else:
            roles.append(role)
            turns.append([message])
            starts.append(at)
    keys: list[Hashable] = [id(turn[0]) if len(turn) == 1 else tuple(map(id, turn)) for turn in turns]
    return _Groups(roles, [*map(tuple, turns)], starts, keys)


# ── What a turn says ─────────────────────────────────────────────────────────────────────────────


def _content(role: str, messages: Sequence[Message], blocks: BlockWriter, forget: bool) -> list[Block]:
    content: list[Block] = []
    for message in messages:
        if message.role == "user":
            content += blocks.user(message)
        elif message.role == "assistant":
            content += blocks.assistant(message, forget)
        else:
            blocks.is_bound = True
            content += blocks.directives(message) if role == "system" else _reminder(message, blocks)
    if role == "user" and len(messages) > 1:
        content.sort(key=lambda block: not isinstance(block, ToolResultOut))
    return content or [TextBlock(PLACEHOLDER)]


def _has_directives(message: Message) -> bool:
    return any(type(part) is Foreign and part.protocol == PROTOCOL for part in message.parts)


def _reminder(message: Message, blocks: BlockWriter) -> list[TextBlock]:
    """A system message where none may stand, in the form models know for it."""
    blocks.notes += [
        left_out(part.kind, "the upstream takes no system message here")
        for part in message.parts
        if type(part) is Foreign
    ]
    text = "\n".join(_words(message))
    return [TextBlock(f"<system-reminder>\n{text}\n</system-reminder>")] if text else []


def _words(message: Message) -> list[str]:
    return [part.text for part in message.parts if isinstance(part, Text) and not is_blank(part.text)]


def _end_without_space(content: list[Block]) -> None:
    """Words put into the model's mouth must not end with a space."""
    last = content[-1]
    if isinstance(last, TextBlock):
        last.text = last.text.rstrip()
