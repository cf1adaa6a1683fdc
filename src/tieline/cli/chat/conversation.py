"""The state of one conversation, kept up to date by messages from the event stream. This module does no I/O."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from tieline.cli.chat.api import (
    ChatSessionView,
    DeletedNews,
    EventNews,
    InboxNews,
    News,
    ResetNews,
    Sent,
    SummaryNews,
    TurnNews,
)
from tieline.core.inbox.inbox import PendingItem
from tieline.core.sessions.message_draft import MessageDraft
from tieline.model.events import Started
from tieline.model.session import Summary, Turn


class Said(NamedTuple):
    """Another client, such as the web page, sent a message in this conversation."""

    turn: Turn


class Grown(NamedTuple):
    """The answer in progress has begun or has new content."""


class Ended(NamedTuple):
    """An answer is complete."""

    turn: Turn


class Changed(NamedTuple):
    """Another client changed the model or the mode."""

    before: Summary


class Deleted(NamedTuple):
    """Another client deleted the conversation."""


class Outdated(NamedTuple):
    """The conversation must be loaded again, because stream messages were lost."""


Change = Said | Grown | Ended | Changed | Deleted | Outdated


class Conversation:
    """One session: its summary, the answer in progress, and the inbox items that belong to it."""

    def __init__(self, summary: Summary, seq: int, clock: Callable[[], float]) -> None:
        self.summary = summary
        self.draft: MessageDraft | None = None
        self.items: tuple[PendingItem, ...] = ()
        self._seq = seq
        """The number of the last stream message that is already included."""
        self._clock = clock
        self._known: set[str] = set()
        """Ids of messages that need not be reported: those this client sent, and answers that are complete."""

    @property
    def is_running(self) -> bool:
        """Whether an answer is in progress."""
        return self.draft is not None

    @property
    def is_busy(self) -> bool:
        """Whether an answer is in progress, or an item waits for a person."""
        return self.is_running or bool(self.items)

    def open(self, view: ChatSessionView) -> None:
        """Take over a loaded session whose messages have already been shown, except for an answer in progress."""
        self._known |= {turn.id for turn in view.messages if turn.role == "user" or turn.ending is not None}
        list(self.load(view))

    def load(self, view: ChatSessionView) -> Iterator[Change]:
        """Take over a session that was loaded again. Yield the changes that were missed."""
        self._seq = view.seq
        self.summary = view.summary
        for turn in view.messages:
            if turn.id in self._known:
                continue
            if turn.role == "user" or turn.ending is not None:
                yield from self._complete(turn)
            else:
                self.draft = MessageDraft.resume(turn)
                yield Grown()
        if self.draft is not None and all(turn.id != self.draft.id for turn in view.messages):
            self.draft, self.items = None, ()  # another branch is shown now, or much was missed

    def adopt(self, items: tuple[PendingItem, ...]) -> None:
        """Replace the inbox items with those in `items` that belong to this session."""
        self.items = tuple(item for item in items if item.origin.session == self.summary.id)

    def sent(self, sent: Sent) -> None:
        """Record a message that this client has sent."""
        self._known.add(sent.user.id)
        if sent.assistant not in self._known and (self.draft is None or self.draft.id != sent.assistant):
            self.draft = MessageDraft(sent.assistant, sent.user.id, self.summary.model, self._clock())

    def decided(self, item_id: str) -> None:
        """Remove an item that this client has answered, without waiting for the stream to confirm it."""
        self.items = tuple(item for item in self.items if item.id != item_id)

    def take(self, seq: int | None, news: News) -> Iterator[Change]:
        """Apply a message from the stream, and yield what it changes for a person at the terminal.

        A message without a number is never included in what was loaded.
        """
        if isinstance(news, ResetNews):
            yield Outdated()
            return
        if seq is not None:
            if seq <= self._seq:
                return
            self._seq = seq
        match news:
            case EventNews(session=self.summary.id):
                yield from self._grow(news)
            case TurnNews(session=self.summary.id, turn=turn) if turn.id not in self._known:
                yield from self._complete(turn)
            case SummaryNews(summary=summary) if summary.id == self.summary.id:
                before, self.summary = self.summary, summary
                if (before.model, before.mode) != (summary.model, summary.mode):
                    yield Changed(before)
            case DeletedNews(session=self.summary.id):
                self.draft, self.items = None, ()
                yield Deleted()
            case InboxNews(items=items):
                self.adopt(items)
            case _:
                pass

    def _grow(self, news: EventNews) -> Iterator[Change]:
        if news.message in self._known:
            return
        if self.draft is None or self.draft.id != news.message:
            if not isinstance(news.events[0], Started):
                yield Outdated()
                return
            self.draft = MessageDraft(news.message, "", self.summary.model, self._clock())
        self.draft.add(news.events, self._clock())
        yield Grown()

    def _complete(self, turn: Turn) -> Iterator[Change]:
        if turn.role == "user":
            self._known.add(turn.id)
            yield Said(turn)
        else:
            yield from self._end(turn)

    def _end(self, turn: Turn) -> Iterator[Change]:
        self._known.add(turn.id)
        if self.draft is None or self.draft.id == turn.id:
            self.draft = None
            self.items = ()
        yield Ended(turn)
