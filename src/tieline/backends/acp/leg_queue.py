"""The events of a turn, leg by leg, as they wait to be taken.

A turn goes on whether a leg is open or not. What happens between two legs belongs to the next one; an ending closes the
leg that is open, or the next if none is. Parts are ended by another message, another kind of part, or something that
stands between parts. How far an activity is replaces what was told of it and not taken yet, so a slow reader gets less,
and not more and more.
"""

import asyncio
from collections import deque

from tieline.model.assemble import PartsWriter
from tieline.model.content import Text, Thinking, ToolCall
from tieline.model.events import Activity, Event, Failed, Finished, Note, Plan, Usage
from tieline.wire.shared.lenient import well_formed

MOST_WAITING = 64 * 1024 * 1024
"""So many characters may wait to be taken."""

_PART = "part"


class Telling:
    """What is told of one turn."""

    def __init__(self) -> None:
        self.said: list[str] = []
        """The texts that were said to the user, as far as they are complete."""
        self.has_spoken = False
        """Whether anything was told that cannot be told again."""
        self._parts = PartsWriter()
        self._open: tuple[type, str | None] | None = None
        """The kind and the message of the part that is open."""
        self._chunks: list[str] = []
        self._gap = ""
        """What has to stand before the next message: Chat clients write all texts one behind the other."""
        self._progress: dict[str, Activity] = {}
        self._statuses: dict[str, str] = {}
        self._size = 0
        self._finished: deque[list[Event]] = deque()
        self._begun = self._ended = self._taken = 0
        self._waiter: asyncio.Future[None] | None = None

    @property
    def is_open(self) -> bool:
        """Whether a leg is open that has not ended."""
        return self._begun > self._ended

    @property
    def leg(self) -> int:
        """The number of the leg that what is told now belongs to."""
        return self._ended

    @property
    def last_words(self) -> str:
        """The last text that was said to the user."""
        if self._open is not None and self._open[0] is Text:
            return "".join(self._chunks)
        return self.said[-1] if self.said else ""

    @property
    def has_ending(self) -> bool:
        """Whether a leg that begins now finds its ending."""
        return bool(self._finished)

    @property
    def is_flooded(self) -> bool:
        """Whether too much waits, because nobody takes it."""
        return self._size > MOST_WAITING

    # ── for whoever takes ──

    def begin(self) -> None:
        """A leg begins."""
        self._begun += 1

    async def events(self) -> list[Event]:
        """The next events of the leg; waits for some if need be."""
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
        self._size = 0
        if self._finished:
            self._taken += 1
            return self._finished.popleft()
        if self._open is None:
            self._flush()
        return self._parts.take()

    # ── for whoever tells ──

    def text(self, text: str, message: str | None = None) -> None:
        """Words for the user."""
        self._say(Text, text, message)

    def thought(self, text: str, message: str | None = None) -> None:
        """Words the agent says to itself."""
        self._say(Thinking, text, message)

    def call(self, call: ToolCall) -> None:
        """A call for the client."""
        self._close()
        self._flush()
        self._parts.whole(ToolCall(id=call.id, name=call.name, freeform=call.freeform), call.arguments)
        self._told(len(call.arguments))

    def activity(self, activity: Activity) -> None:
        """Something the agent does by itself; how far it is can wait until a part is over."""
        self._progress.pop(activity.id, None)
        self._progress[activity.id] = activity
        if self._statuses.get(activity.id) != activity.status:
            self._statuses[activity.id] = activity.status
            self._close()
            self._flush()
            self._gap = ""
        self._told(0)

    def between(self, event: Plan | Usage) -> None:
        """Something that stands between parts."""
        self._close()
        self._flush()
        if isinstance(event, Plan):
            self._gap = ""
        self._parts.events.append(event)
        self._told(0)

    def note(self, kind: str, message: str) -> None:
        """Something for whoever looks into the leg; it may stand anywhere, and is nothing that was said."""
        self._parts.events.append(Note(kind=kind, message=message))
        self._wake()

    def end(self, ending: Finished | Failed) -> None:
        """The leg that is open is over, or the next one if none is."""
        self._close()
        self._flush()
        self._gap = ""
        self._finished.append([*self._parts.take(), ending])
        self._parts = PartsWriter()
        self._ended += 1
        self._wake()

    def pause(self) -> None:
        """What is said next is another message, also if the agent does not say so."""
        self._close()

    def take_said(self) -> list[str]:
        """The texts said since the last time."""
        said, self.said = self.said, []
        return said

    def _say(self, kind: type[Text] | type[Thinking], text: str, message: str | None) -> None:
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
        self._told(len(text))

    def _close(self) -> None:
        """The part that is open is complete."""
        if self._open is None:
            return
        self._parts.end(_PART)
        if self._open[0] is Text:
            self.said.append(well_formed("".join(self._chunks)))
            self._gap = "" if self._chunks[-1].endswith("\n") else "\n\n"
        self._open = None
        self._chunks.clear()

    def _flush(self) -> None:
        if self._progress:
            self._parts.events += self._progress.values()
            self._progress.clear()

    def _told(self, size: int) -> None:
        self.has_spoken = True
        self._size += size
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
