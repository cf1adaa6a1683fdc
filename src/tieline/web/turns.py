"""Messages of a session as the page gets them: as they are, and the model's words also as HTML."""

import asyncio
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from tieline.model.content import Text
from tieline.model.session import Turn
from tieline.web.render import render

MOST_CACHED = 16 << 20
"""Characters of HTML that are remembered."""


class Shown(NamedTuple):
    """A text part as it is shown: HTML of what is finished, the offset where that ends, how many blocks it is."""

    html: str
    until: int
    blocks: int


UNSEEN = Shown("", 0, 0)


class Renderings:
    """Renders texts in threads, each only once as long as it is remembered."""

    def __init__(self, most: int = MOST_CACHED) -> None:
        self._most = most
        self._known: OrderedDict[str, str] = OrderedDict()
        self._size = 0

    async def html(self, text: str) -> str:
        """A text as HTML."""
        known = self._known.get(text)
        if known is not None:
            self._known.move_to_end(text)
            return known
        html = await asyncio.to_thread(render, text)
        self.put(text, html)
        return html

    def put(self, text: str, html: str) -> None:
        """Remember what a text looks like."""
        if text in self._known or len(html) > self._most:
            return
        self._known[text] = html
        self._size += len(text) + len(html)
        while self._size > self._most:
            self._size -= sum(map(len, self._known.popitem(last=False)))

    async def turn(self, turn: Turn, live: Mapping[int, Shown] | None = None) -> dict[str, Any]:
        """A message for the page; `live` is how its texts are shown while it is being said."""
        shown: dict[str, Any] = msgspec.to_builtins(turn)
        if turn.role == "assistant":
            for index, part in enumerate(turn.parts):
                if isinstance(part, Text):
                    if live is None:
                        given = Shown(await self.html(part.text), len(part.text), 1)
                    else:
                        given = live.get(index, UNSEEN)
                    shown["parts"][index] |= {
                        "text": part.text,
                        "html": given.html,
                        "until": given.until,
                        "blocks": given.blocks,
                    }
        return shown
