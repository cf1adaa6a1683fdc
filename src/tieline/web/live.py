"""A message on its way to the page: its events gathered for a moment, its words turned into blocks as they finish."""

import asyncio
from collections.abc import Iterator
from typing import NamedTuple

from tieline.core.watch.truncate import join_deltas
from tieline.model.content import Text
from tieline.model.events import Batch, Event, PartDelta, PartEnd, PartStart, Started
from tieline.model.session import Turn
from tieline.web.blocks import Block, Blocks, Piece, finished
from tieline.web.turns import Shown


class Finished(NamedTuple):
    """Blocks of a part that are finished."""

    part: int
    block: Block


class Live:
    """One message that is being said."""

    def __init__(self, session: str, message: str, *, is_whole: bool = True) -> None:
        self.session = session
        self.message = message
        self.is_whole = is_whole
        """Whether it is known from its beginning on."""
        self.turn: Turn | None = None
        """The whole of it, when it is complete."""
        self.wake = asyncio.Event()
        self.task: asyncio.Task[None] | None = None
        """Tells of it."""
        self._pending: list[Event] = []
        self._texts: dict[int, Blocks] = {}
        self._ended: set[int] = set()
        """Parts whose rest is to be rendered."""

    @classmethod
    def of(cls, session: str, turn: Turn) -> "Live":
        """A message that was begun before anybody looked."""
        live = cls(session, turn.id)
        for index, part in enumerate(turn.parts):
            if isinstance(part, Text):
                live._texts[index] = blocks = Blocks()
                blocks.add(part.text)
        live._ended.update(index for index in live._texts if index < len(turn.parts) - 1)
        live.wake.set()
        return live

    def add(self, batch: Batch) -> None:
        """More of it."""
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
        """There is no more."""
        self.turn = turn
        self._ended.update(self._texts)
        self.wake.set()

    def drop(self) -> None:
        """Nobody wants to hear of it any more."""
        if self.task is not None:
            self.task.cancel()

    def take(self) -> list[Event]:
        """The events since the last time, deltas joined."""
        events, self._pending = self._pending, []
        return join_deltas(events)

    def shown(self) -> dict[int, Shown]:
        """How its texts are shown now."""
        return {index: Shown(blocks.html, blocks.until, len(blocks.done)) for index, blocks in self._texts.items()}

    async def finished(self) -> list[Finished]:
        """Blocks that have been finished since the last time; rendered in a thread."""
        ended, self._ended = self._ended, set()
        due = [
            (index, blocks.look(), index in ended)
            for index, blocks in self._texts.items()
            if index in ended or blocks.is_due
        ]
        if not due:
            return []
        pieces = await asyncio.to_thread(_rendered, due)
        return [Finished(index, self._texts[index].cut(piece)) for index, piece in pieces if piece is not None]

    def renderings(self) -> Iterator[tuple[str, str]]:
        """The texts of the complete message with their HTML, where that is known."""
        for index, part in enumerate(self.turn.parts if self.turn is not None else ()):
            blocks = self._texts.get(index)
            if blocks is None or not isinstance(part, Text) or blocks.until != len(part.text):
                continue
            if blocks.is_independent:
                yield part.text, blocks.html


def is_beginning(batch: Batch) -> bool:
    """Whether these are the first events of a message."""
    return bool(batch) and isinstance(batch[0], Started)


def _rendered(due: list[tuple[int, str, bool]]) -> list[tuple[int, Piece | None]]:
    return [(index, finished(rest, is_all=is_all)) for index, rest, is_all in due]
