"""The events of a turn, queued leg by leg until the client takes them.

A turn continues whether a leg is open or not. Events between two legs belong to the next leg. A `Finished` or `Failed`
event ends the open leg, or the next leg if none is open. A part ends when another message or another kind of part
begins, or when an event is added that must not be inside a part. If the client has not taken the latest progress of an
activity yet, new progress replaces it, so a slow client receives fewer events.
"""

import asyncio
from collections import deque

from tieline.model.assemble import PartsWriter
from tieline.model.content import Text, Thinking, ToolCall
from tieline.model.events import Activity, Event, Failed, Finished, Note, Plan, Usage
from tieline.wire.shared.lenient import well_formed

MAX_WAITING = 64 * 1024 * 1024
"""Number of queued characters above which the queue is full."""

_PART = "part"


class LegQueue:
    """The queued events of one turn, grouped by leg."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        """The complete texts for the user that have been added since the last call to `take_texts`."""
        self.has_output = False
        """Whether output from the agent has been queued. If so, the prompt cannot be retried. Notes do not count."""
        self.last_ending: Finished | Failed | None = None
        """The ending that was queued most recently."""
        self._parts = PartsWriter()
        self._open: tuple[type, str | None] | None = None
        """The kind and the message id of the open part; None if no part is open."""
        self._chunks: list[str] = []
        self._gap = ""
        """The separator to insert before the next text, because Chat Completions clients concatenate all texts."""
        self._progress: dict[str, Activity] = {}
        self._statuses: dict[str, str] = {}
        self._size = 0
        """The number of queued characters that belong to the leg that has not ended."""
        self._finished: deque[tuple[list[Event], int]] = deque()
        """The events of each leg that has ended and was not taken, and their number of characters."""
        self._begun = self._ended = self._taken = 0
        self._waiter: asyncio.Future[None] | None = None

    @property
    def leg(self) -> int:
        """The number of the leg to which new events belong."""
        return self._ended

    @property
    def last_text(self) -> str:
        """The most recent text for the user. It may be incomplete."""
        if self._open is not None and self._open[0] is Text:
            return "".join(self._chunks)
        return self.texts[-1] if self.texts else ""

    @property
    def has_ending(self) -> bool:
        """Whether the ending of the next leg is already queued."""
        return bool(self._finished)

    @property
    def is_full(self) -> bool:
        """Whether more than `MAX_WAITING` characters are queued."""
        return self._size + sum(size for _, size in self._finished) > MAX_WAITING

    # ── taking events ──

    def begin(self) -> None:
        """Begin a leg. From now on, `events` returns the events of this leg."""
        self._begun += 1

    async def events(self) -> list[Event]:
        """Wait for the next events of the leg and return them."""
        while not (events := self._take()):
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        return events

    def _take(self) -> list[Event]:
        if self._taken == self._begun:
            return []
        if self._finished:
            self._taken += 1
            return self._finished.popleft()[0]
        self._size = 0
        if self._open is None:
            self._flush()
        return self._parts.take()

    # ── adding events ──

    def text(self, text: str, message: str | None = None) -> None:
        """Add text for the user. `message` is the agent's id for the message to which the text belongs."""
        self._write(Text, text, message)

    def thought(self, text: str, message: str | None = None) -> None:
        """Add the agent's thinking. `message` is the agent's id for the message to which the text belongs."""
        self._write(Thinking, text, message)

    def call(self, call: ToolCall) -> None:
        """Add a call to one of the client's tools."""
        self._close()
        self._flush()
        self._parts.whole(ToolCall(id=call.id, name=call.name, freeform=call.freeform), call.arguments)
        self._added(len(call.arguments))

    def activity(self, activity: Activity) -> None:
        """Add or update an activity. A new status ends the open part. Other progress waits until that part ends."""
        self._progress.pop(activity.id, None)
        self._progress[activity.id] = activity
        if self._statuses.get(activity.id) != activity.status:
            self._statuses[activity.id] = activity.status
            self._close()
            self._flush()
            self._gap = ""
        self._added(0)

    def event(self, event: Plan | Usage) -> None:
        """Add a plan or usage event. It ends the open part."""
        self._close()
        self._flush()
        if isinstance(event, Plan):
            self._gap = ""
        self._parts.events.append(event)
        self._added(0)

    def note(self, kind: str, message: str) -> None:
        """Add a note. It does not end the open part and does not count as output."""
        self._parts.events.append(Note(kind=kind, message=message))
        self._wake()

    def end(self, ending: Finished | Failed) -> None:
        """End the open leg, or the next one if none is open."""
        self._close()
        self._flush()
        self._gap = ""
        self._finished.append(([*self._parts.take(), ending], self._size))
        self._size = 0
        self.last_ending = ending
        self._parts = PartsWriter()
        self._ended += 1
        self._wake()

    def end_message(self) -> None:
        """End the current message, so that the next text begins another one even if the agent sends no ids."""
        self._close()

    def take_texts(self) -> list[str]:
        """Return the complete texts for the user, and clear `texts`."""
        texts, self.texts = self.texts, []
        return texts

    def _write(self, kind: type[Text] | type[Thinking], text: str, message: str | None) -> None:
        if not text:
            return
        if self._open != (kind, message):
            self._close()
            self._flush()
            self._parts.start(_PART, kind())
            self._open = (kind, message)
            if kind is Text and self._gap:
                self._parts.add(_PART, self._gap)
        self._parts.add(_PART, text)
        self._chunks.append(text)
        self._added(len(text))

    def _close(self) -> None:
        """End the open part."""
        if self._open is None:
            return
        self._parts.end(_PART)
        if self._open[0] is Text:
            self.texts.append(well_formed("".join(self._chunks)))
            self._gap = "" if self._chunks[-1].endswith("\n") else "\n\n"
        self._open = None
        self._chunks.clear()

    def _flush(self) -> None:
        if self._progress:
            self._parts.events += self._progress.values()
            self._progress.clear()

    def _added(self, size: int) -> None:
        self.has_output = True
        self._size += size
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
