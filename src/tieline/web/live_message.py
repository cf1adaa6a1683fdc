"""A message in progress: collects its events for the page, and renders its text block by block."""

import asyncio
from collections.abc import Iterator
from typing import NamedTuple

from tieline.core.watch.truncate import join_deltas
from tieline.model.content import Text
from tieline.model.events import Batch, Event, PartDelta, PartEnd, PartStart, Started
from tieline.model.scope import NOWHERE, Place
from tieline.model.session import Turn
from tieline.web.blocks import Block, Blocks, RenderedPiece, finished
from tieline.web.turn_renderer import RenderedText


class FinishedBlock(NamedTuple):
    """A finished Markdown block, and the index of the message part to which it belongs."""

    part: int
    block: Block


class LiveMessage:
    """A session message that the model is still writing."""

    def __init__(self, session: str, message: str, place: Place = NOWHERE, *, is_whole: bool = True) -> None:
        self.session = session
        self.place = place
        self.message = message
        self.is_whole = is_whole
        """Whether this object has received the events of the message from its beginning."""
        self.turn: Turn | None = None
        """The complete message; None while it is in progress."""
        self.wake = asyncio.Event()
        self.task: asyncio.Task[None] | None = None
        """The task that publishes the message to the page."""
        self._pending: list[Event] = []
        self._texts: dict[int, Blocks] = {}
        self._ended: set[int] = set()
        """Indexes of the text parts that have ended, but whose last blocks are not rendered yet."""

    @classmethod
    def of(cls, session: str, turn: Turn, place: Place = NOWHERE) -> "LiveMessage":
        """Return a live message with the content of a turn in progress. Later events are added to it."""
        live = cls(session, turn.id, place)
        for index, part in enumerate(turn.parts):
            if isinstance(part, Text):
                live._texts[index] = blocks = Blocks()
                blocks.add(part.text)
        live._ended.update(index for index in live._texts if index < len(turn.parts) - 1)
        live.wake.set()
        return live

    def add(self, batch: Batch) -> None:
        """Add the next events of the message."""
        self._pending += batch
        for event in batch:
            match event:
                case PartDelta(index=index, text=text):
                    if index in self._texts:
                        self._texts[index].add(text)
                case PartStart(index=index, part=part):
                    self._ended.update(one for one in self._texts if one < index)
                    if isinstance(part, Text):
                        self._texts[index] = Blocks()
                case PartEnd(index=index):
                    if index in self._texts:
                        self._ended.add(index)
                case _:
                    pass
        self.wake.set()

    def complete(self, turn: Turn) -> None:
        """End the message. `turn` is its complete content."""
        self.turn = turn
        self._ended.update(self._texts)
        self.wake.set()

    def drop(self) -> None:
        """Stop publishing the message."""
        if self.task is not None:
            self.task.cancel()

    def take(self) -> list[Event]:
        """Return the events added since the last call. Consecutive deltas are joined."""
        events, self._pending = self._pending, []
        return join_deltas(events)

    def shown(self) -> dict[int, RenderedText]:
        """Return the HTML that has been rendered for each text part, by the index of the part."""
        return {
            index: RenderedText(blocks.html, blocks.until, len(blocks.done)) for index, blocks in self._texts.items()
        }

    async def finished(self) -> list[FinishedBlock]:
        """Return the blocks that were finished since the last call. They are rendered in a thread."""
        ended, self._ended = self._ended, set()
        due = [
            (index, blocks.look(), index in ended)
            for index, blocks in self._texts.items()
            if index in ended or blocks.is_due
        ]
        if not due:
            return []
        pieces = await asyncio.to_thread(_rendered, due)
        return [FinishedBlock(index, self._texts[index].cut(piece)) for index, piece in pieces if piece is not None]

    def renderings(self) -> Iterator[tuple[str, str]]:
        """Yield each text of the complete message with its HTML.

        A text is omitted if its blocks depend on each other, because rendering it as a whole would give different HTML.
        """
        for index, part in enumerate(self.turn.parts if self.turn is not None else ()):
            blocks = self._texts.get(index)
            if blocks is None or not isinstance(part, Text) or blocks.until != len(part.text):
                continue
            if blocks.is_independent:
                yield part.text, blocks.html


def is_beginning(batch: Batch) -> bool:
    """Return whether `batch` contains the first events of a message."""
    return bool(batch) and isinstance(batch[0], Started)


def _rendered(due: list[tuple[int, str, bool]]) -> list[tuple[int, RenderedPiece | None]]:
    return [(index, finished(rest, is_all=is_all)) for index, rest, is_all in due]
