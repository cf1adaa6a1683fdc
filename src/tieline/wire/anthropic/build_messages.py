"""Build the history as the API wants it: turns that alternate, begin with the user, and are never empty."""

from collections.abc import Sequence
from typing import NamedTuple

from msgspec import Struct

from tieline.model.content import Foreign, Message, Text
from tieline.model.events import Note, left_out
from tieline.wire.anthropic import thinking
from tieline.wire.anthropic.build_content import Block, BlockWriter, is_blank, mark_offset
from tieline.wire.anthropic.dialect import Dialect
from tieline.wire.anthropic.fragments import Fragment, cached_fragment
from tieline.wire.anthropic.schema import PROTOCOL, TextBlock, ToolResultOut
from tieline.wire.shared.conversations import ConversationCache
from tieline.wire.shared.json import encode
from tieline.wire.shared.spelling import ToolNames

PLACEHOLDER = "…"
"""Stands where the API demands text and there is none."""
CACHED = 3
"""The number of messages from which on turns are cached: shorter conversations are mostly single questions."""

_HEADS = {role: b'{"role":"%b","content":' % role.encode() for role in ("user", "assistant", "system")}


class Turn(Fragment):
    """One message of the wire."""

    role: str = "user"
    is_unsigned: bool = False
    """Whether it contains thinking without a signature."""
    forgets: bool = False
    """Whether its thinking was left out."""


class History(Struct):
    """The turns of a conversation; the first `forgotten` messages lost their thinking."""

    turns: list[Turn]
    forgotten: int = 0

    @property
    def marks(self) -> int:
        """How many cache marks of the client there are."""
        return sum(turn.marks for turn in self.turns)

    @property
    def notes(self) -> list[Note]:
        """What was changed or left out."""
        return [note for turn in self.turns for note in turn.notes]

    def turns_to_mark(self) -> list[int]:
        """Return the turns that get a cache mark: the last, and the last of the previous request, which is cached."""
        last = len(self.turns) - 1
        users = [at for at, turn in enumerate(self.turns) if turn.role == "user"]
        return [last, users[-2]] if len(users) > 1 else [last]


class _Group(NamedTuple):
    """The messages that make up one turn."""

    role: str
    messages: list[Message]
    start: int
    """Where in the conversation the first of them stands."""


class TurnWriter(Struct):
    """Writes the turns of a request, unless they are in the cache."""

    names: ToolNames
    dialect: Dialect
    cache: ConversationCache | None = None

    def history(self, messages: tuple[Message, ...]) -> History:
        """Return the turns of a conversation."""
        groups = _groups(messages, self.dialect.system_in_messages)
        history = History(self._turns(groups, 0))
        if not self.dialect.unsigned_thinking and any(turn.is_unsigned for turn in history.turns):
            forgotten = thinking.forgotten(messages)
            history = History(self._turns(groups, forgotten), forgotten)
        return history

    def _turns(self, groups: list[_Group], forgotten: int) -> list[Turn]:
        turns = [self._turn(role, tuple(messages), start < forgotten) for role, messages, start in groups[:-1]]
        role, messages, start = groups[-1]
        if role == "assistant":  # how it ends depends on being the last
            turns.append(self.write(role, tuple(messages), start < forgotten, is_last=True))
        else:
            turns.append(self._turn(role, tuple(messages), start < forgotten))
        return turns

    def _turn(self, role: str, messages: tuple[Message, ...], forget: bool) -> Turn:
        if not messages or self.cache is None:
            return self.write(role, messages, forget)
        context = (role, forget, self.dialect, self.names.renamed)
        return cached_fragment(self.cache, "turn", messages, context, lambda: self.write(role, messages, forget))

    def without_marks(self, history: History, count: int) -> None:
        """Remove the first `count` cache marks."""
        for at, turn in enumerate(history.turns):
            if count and turn.marks:
                is_last = at == len(history.turns) - 1 and turn.role == "assistant"
                history.turns[at] = self.write(turn.role, turn.source, turn.forgets, is_last=is_last, unmarked=count)
                count -= min(count, turn.marks)

    def write(
        self, role: str, messages: tuple[Message, ...], forget: bool = False, is_last: bool = False, unmarked: int = 0
    ) -> Turn:
        """Write a turn of these messages, without the first of its cache marks."""
        blocks = BlockWriter(self.names, self.dialect.extensions, self.dialect.unsigned_thinking)
        content = _content(role, messages, blocks, forget)
        if is_last:
            _end_without_space(content)
        for block in blocks.marked[:unmarked]:
            block.cache_control = None
        return Turn(
            messages,
            _HEADS[role] + encode(content) + b"}",
            mark_at=mark_offset(content, 2),
            marks=len(blocks.marked),
            notes=tuple(blocks.notes),
            role=role,
            is_unsigned=blocks.has_unsigned,
            forgets=forget,
        )


# ── Which messages are one turn ──────────────────────────────────────────────────────────────────


def _groups(messages: Sequence[Message], system_in_messages: bool) -> list[_Group]:
    """Group the messages of one role in a row; a conversation begins with the user."""
    groups = [_Group("user", [], 0)]
    for at, message in enumerate(messages):
        role: str = message.role
        if role == "system":
            role = "user"
            if system_in_messages and message.meta.get(PROTOCOL, {}).get("in_place"):
                if not _words(message) and not _has_directives(message):
                    continue
                role = "system"
        if role == groups[-1].role:
            groups[-1].messages.append(message)
        else:
            groups.append(_Group(role, [message], at))
    return groups


# ── What a turn says ─────────────────────────────────────────────────────────────────────────────


def _content(role: str, messages: Sequence[Message], blocks: BlockWriter, forget: bool) -> list[Block]:
    content: list[Block] = []
    for message in messages:
        if message.role == "user":
            content += blocks.user(message)
        elif message.role == "assistant":
            content += blocks.assistant(message, forget)
        else:
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
