"""Build the messages of a request. In this module, a message for the upstream is called a turn.

The API requires that turns alternate between user and assistant, start with the user, and are never empty.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain
from operator import attrgetter

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
from tieline.wire.shared.unsupported import TOOL_ADDITIONS, lost_details

PLACEHOLDER = "…"
"""The text to send in a turn that has no content, because the API rejects empty turns."""
MIN_CACHED_MESSAGES = 3
"""Minimum number of messages in a conversation whose turns are cached. Shorter conversations rarely continue."""

_MARK_FIELD = b'"cache_control"'
_MARKS, _NOTES, _TEXT, _IS_UNSIGNED = map(attrgetter, ("marks", "notes", "text", "is_unsigned"))
_HEADS = {role: b'{"role":"%b","content":' % role.encode() for role in ("user", "assistant", "system")}


class WireTurn(Fragment):
    """One message for the upstream, built from consecutive messages of the same role."""

    role: str = "user"
    is_unsigned: bool = False
    """Whether the turn was built from messages with unsigned thinking."""
    is_stripped: bool = False
    """Whether thinking was removed from the turn."""


class History(Struct):
    """The turns of a conversation. Thinking was removed from the first `stripped` messages."""

    turns: list[WireTurn]
    stripped: int = 0

    @property
    def marks(self) -> int:
        """The number of cache marks that the client set."""
        return sum(map(_MARKS, self.turns))

    @property
    def notes(self) -> list[Note]:
        """The notes about changes and omissions in all turns."""
        return [*chain.from_iterable(map(_NOTES, self.turns))]

    @property
    def texts(self) -> list[bytes]:
        """The JSON texts of all turns."""
        return [*map(_TEXT, self.turns)]

    def turns_to_mark(self) -> list[int]:
        """Return the indices of the turns to mark: the last of this request, and the last of the previous request."""
        last = len(self.turns) - 1
        users = [at for at, turn in enumerate(self.turns) if turn.role == "user"]
        return [last, users[-2]] if len(users) > 1 else [last]


_Group = tuple[str, list[Message], int]
"""The messages of one turn: their role, the messages, and the index of the first one in the conversation."""


class TurnWriter(Struct):
    """Builds the turns of a request, or takes them from the cache."""

    names: ToolNames
    dialect: Dialect
    cache: ConversationCache | None = None
    texts: Mapping[int, bytes | None] = {}
    """The client's JSON text for each message, by `id(message)`; None if the text cannot be sent unchanged."""

    def history(self, messages: tuple[Message, ...]) -> History:
        """Return the turns of a conversation."""
        groups = _groups(messages, self.dialect.system_in_messages)
        history = History(self._turns(groups, 0))
        if not self.dialect.unsigned_thinking and any(map(_IS_UNSIGNED, history.turns)):
            stripped = thinking.count_stripped(messages)
            history = History(self._turns(groups, stripped), stripped)
        return history

    def _turns(self, groups: list[_Group], stripped: int) -> list[WireTurn]:
        turns = [self._turn(role, tuple(messages), start < stripped) for role, messages, start in groups[:-1]]
        role, messages, start = groups[-1]
        if role == "assistant":  # not cached: trailing white space is removed only from the last turn
            turns.append(self.write(role, tuple(messages), start < stripped, is_last=True))
        else:
            turns.append(self._turn(role, tuple(messages), start < stripped))
        return turns

    def _turn(self, role: str, messages: tuple[Message, ...], strip_thinking: bool) -> WireTurn:
        if self.texts and len(messages) == 1 and not strip_thinking and messages[0].role == role:
            text = self.texts.get(id(messages[0]))
            if text is not None:
                # Few texts have marks, and in a long text, searching backwards is several times as fast as counting.
                marks = text.count(_MARK_FIELD) if text.rfind(_MARK_FIELD) >= 0 else 0
                return WireTurn(messages, text, marks=marks, role=role)
        if not messages or self.cache is None:
            return self.write(role, messages, strip_thinking)
        context = (role, strip_thinking, self.dialect, self.names.renamed)
        return cached_fragment(
            self.cache, "turn", messages, context, partial(self.write, role, messages, strip_thinking)
        )

    def without_marks(self, history: History, count: int) -> None:
        """Remove the first `count` cache marks from the turns of `history`."""
        for at, turn in enumerate(history.turns):
            if count and turn.marks:
                is_last = at == len(history.turns) - 1 and turn.role == "assistant"
                history.turns[at] = self.write(
                    turn.role, turn.source, turn.is_stripped, is_last=is_last, unmarked=count
                )
                count -= min(count, turn.marks)

    def write(
        self,
        role: str,
        messages: tuple[Message, ...],
        strip_thinking: bool = False,
        is_last: bool = False,
        unmarked: int = 0,
    ) -> WireTurn:
        """Build a turn from these messages, and remove its first `unmarked` cache marks.

        `is_last` says whether the turn is an unfinished answer at the end of the request. If so, its trailing white
        space is removed.
        """
        blocks = BlockWriter(self.names, self.dialect.extensions, self.dialect.unsigned_thinking)
        content = _content(role, messages, blocks, strip_thinking)
        if is_last:
            _end_without_space(content)
        for block in blocks.marked[:unmarked]:
            block.cache_control = None
        return WireTurn(
            messages,
            _HEADS[role] + encode(content) + b"}",
            mark_at=mark_offset(content, 2),
            marks=len(blocks.marked),
            notes=tuple(blocks.notes),
            role=role,
            is_unsigned=blocks.has_unsigned,
            is_stripped=strip_thinking,
        )


# ── Group messages into turns ────────────────────────────────────────────────────────────────────


def _groups(messages: Sequence[Message], system_in_messages: bool) -> list[_Group]:
    """Group consecutive messages of the same role. The first group always has the role user, and may be empty."""
    last_role = "user"
    group: list[Message] = []
    groups: list[_Group] = [(last_role, group, 0)]
    for at, message in enumerate(messages):
        role: str = message.role
        if role == "system":
            role = "user"
            if system_in_messages and message.meta.get(PROTOCOL, {}).get("in_place"):
                if not _words(message) and not _has_directives(message):
                    continue
                role = "system"
        if role == last_role:
            group.append(message)
        else:
            last_role, group = role, [message]
            groups.append((role, group, at))
    return groups


# ── The content of a turn ────────────────────────────────────────────────────────────────────────


def _content(role: str, messages: Sequence[Message], blocks: BlockWriter, strip_thinking: bool) -> list[Block]:
    content: list[Block] = []
    for message in messages:
        if message.meta:
            blocks.notes += lost_details(message, PROTOCOL)
        if message.role == "user":
            content += blocks.user(message)
        elif message.role == "assistant":
            content += blocks.assistant(message, strip_thinking)
        else:
            content += blocks.directives(message) if role == "system" else _reminder(message, blocks)
    if role == "user" and len(messages) > 1:
        content.sort(key=lambda block: not isinstance(block, ToolResultOut))
    return content or [TextBlock(PLACEHOLDER)]


def _has_directives(message: Message) -> bool:
    return any(type(part) is Foreign and part.protocol == PROTOCOL for part in message.parts)


def _reminder(message: Message, blocks: BlockWriter) -> list[TextBlock]:
    """Return a system message as a `<system-reminder>`, for a position where the upstream accepts no system message."""
    blocks.notes += [
        left_out(part.kind, "the upstream accepts no system message here")
        for part in message.parts
        if type(part) is Foreign and part.kind not in TOOL_ADDITIONS
    ]
    text = "\n".join(_words(message))
    return [TextBlock(f"<system-reminder>\n{text}\n</system-reminder>")] if text else []


def _words(message: Message) -> list[str]:
    return [part.text for part in message.parts if isinstance(part, Text) and not is_blank(part.text)]


def _end_without_space(content: list[Block]) -> None:
    """Remove trailing white space, which the API would reject, from an unfinished answer that the model continues."""
    last = content[-1]
    if isinstance(last, TextBlock):
        last.text = last.text.rstrip()
