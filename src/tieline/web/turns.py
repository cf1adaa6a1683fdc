"""Messages of a session as the page gets them: as they are, and the model's words also as HTML.

Rendering takes longer than anything else here, so it is done in threads, once for each text: the HTML is remembered,
and kept in the store beside the session it belongs to.
"""

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from tieline.model.content import Text
from tieline.model.ports import Store
from tieline.model.session import Turn
from tieline.web.render import VERSION, render

MOST_CACHED = 16 << 20
"""Characters that are remembered."""


class Shown(NamedTuple):
    """A text part as it is shown: HTML of what is finished, the offset where that ends, how many blocks it is."""

    html: str
    until: int
    blocks: int


UNSEEN = Shown("", 0, 0)


class Renderings:
    """What texts look like."""

    def __init__(self, store: Store, most: int = MOST_CACHED) -> None:
        self._store = store
        self._most = most
        self._known: OrderedDict[str, str] = OrderedDict()
        self._size = 0

    async def html(self, session: str, text: str, kept: Mapping[str, bytes] | None = None) -> str:
        """A text of a session as HTML; `kept` is what the store has of it, if that was read."""
        key = _key(text)
        known = self._known.get(key)
        if known is not None:
            self._known.move_to_end(key)
            return known
        if kept and key in kept:
            html = kept[key].decode()
            self._remember(key, html)
            return html
        html = await asyncio.to_thread(render, text)
        await self.learn(session, text, html)
        return html

    async def learn(self, session: str, text: str, html: str) -> None:
        """Remember what a text looks like."""
        key = _key(text)
        self._remember(key, html)
        await self._store.write(_shelf(session), key, html.encode("utf-8", "replace"))

    async def forget(self, session: str) -> None:
        """A session is gone."""
        await self._store.remove(_shelf(session))

    async def turn(
        self,
        session: str,
        turn: Turn,
        live: Mapping[int, Shown] | None = None,
        kept: Mapping[str, bytes] | None = None,
    ) -> dict[str, Any]:
        """A message for the page; `live` is how its texts are shown while it is being said."""
        shown = plain(turn)
        for index, text in _texts(turn):
            given = live.get(index, UNSEEN) if live is not None else None
            if given is None:
                given = Shown(await self.html(session, text, kept), len(text), 1)
            more = {"text": text, "html": given.html, "until": given.until, "blocks": given.blocks}
            shown["parts"][index].update(more)
        for place, happening in enumerate(turn.activities):
            if happening.activity.plan:
                html = await self.html(session, happening.activity.plan, kept)
                shown["activities"][place]["activity"]["html"] = html
        return shown

    async def turns(
        self, session: str, turns: Sequence[Turn], running: str | None, live: Mapping[int, Shown]
    ) -> list[dict[str, Any]]:
        """Messages for the page, one of which may be under way."""
        keys = {_key(text) for turn in turns for text in (*(text for _, text in _texts(turn)), *_plans(turn))}
        kept = {} if keys <= self._known.keys() else await self._store.read(_shelf(session))
        return [await self.turn(session, turn, live if turn.id == running else None, kept) for turn in turns]

    def _remember(self, key: str, html: str) -> None:
        if key in self._known or len(html) > self._most:
            return
        self._known[key] = html
        self._size += len(html)
        while self._size > self._most:
            self._size -= len(self._known.popitem(last=False)[1])


def plain(turn: Turn) -> dict[str, Any]:
    """A message without HTML, and without what only the model has to know."""
    shown: dict[str, Any] = msgspec.to_builtins(turn)
    shown.pop("rounds", None)
    return shown


def _texts(turn: Turn) -> Iterable[tuple[int, str]]:
    if turn.role == "assistant":
        for index, part in enumerate(turn.parts):
            if isinstance(part, Text):
                yield index, part.text


def _plans(turn: Turn) -> Iterable[str]:
    return (happening.activity.plan for happening in turn.activities if happening.activity.plan)


def _key(text: str) -> str:
    """A text in short; another way to render gives other keys."""
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=18, key=VERSION).hexdigest()


def _shelf(session: str) -> str:
    return f"html/{session}"
