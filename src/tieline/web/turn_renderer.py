"""Converts session messages to JSON for the page, with the model's text also as HTML.

Rendering is slow, so it runs in threads, and only once for each text: the HTML is cached in memory and saved in the
store.
"""

import asyncio
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from tieline.model.bounded_cache import BoundedCache
from tieline.model.content import Text
from tieline.model.ports import Store
from tieline.model.session import Turn
from tieline.web.markdown import VERSION, render

MAX_CACHED = 16 << 20
"""Maximum number of characters of HTML in the cache."""
MAX_ENTRIES = 20_000


class RenderedText(NamedTuple):
    """The rendered beginning of a text: its HTML, the offset at which it ends in the text, and its number of blocks."""

    html: str
    until: int
    blocks: int


NOT_RENDERED = RenderedText("", 0, 0)


class TurnRenderer:
    """Converts messages to JSON with HTML, and caches the HTML of their texts."""

    def __init__(self, store: Store, max_cached: int = MAX_CACHED) -> None:
        self._store = store
        self._cache = BoundedCache[str, str](MAX_ENTRIES, max_weight=max_cached)

    async def html(self, session: str, text: str, stored: Mapping[str, bytes] | None = None) -> str:
        """Return a Markdown text of a session as HTML. `stored` is the session's saved HTML, if already loaded."""
        key = _key(text)
        cached = self._cache.get(key)
        if cached is not None:
            return cached
        if stored and key in stored:
            html = stored[key].decode()
            self._cache.put(key, html, len(html))
            return html
        html = await asyncio.to_thread(render, text)
        await self.learn(session, text, html)
        return html

    async def learn(self, session: str, text: str, html: str) -> None:
        """Cache and save the HTML of a text."""
        key = _key(text)
        self._cache.put(key, html, len(html))
        await self._store.write(_shelf(session), key, html.encode("utf-8", "replace"))

    async def forget(self, session: str) -> None:
        """Delete the saved HTML of a session."""
        await self._store.remove(_shelf(session))

    async def turn(
        self,
        session: str,
        turn: Turn,
        live: Mapping[int, RenderedText] | None = None,
        stored: Mapping[str, bytes] | None = None,
    ) -> dict[str, Any]:
        """Return a message as JSON with HTML.

        For a message in progress, `live` contains the HTML that has been rendered for each text part. `stored` is the
        HTML that was saved for the session.
        """
        shown = turn_json(turn)
        for index, text in _texts(turn):
            given = live.get(index, NOT_RENDERED) if live is not None else None
            if given is None:
                given = RenderedText(await self.html(session, text, stored), len(text), 1)
            more = {"text": text, "html": given.html, "until": given.until, "blocks": given.blocks}
            shown["parts"][index].update(more)
        for place, happening in enumerate(turn.activities):
            if happening.activity.plan:
                html = await self.html(session, happening.activity.plan, stored)
                shown["activities"][place]["activity"]["html"] = html
        return shown

    async def turns(
        self, session: str, turns: Sequence[Turn], running: str | None, live: Mapping[int, RenderedText]
    ) -> list[dict[str, Any]]:
        """Return messages as JSON with HTML. `running` is the id of the message in progress, if any.

        `live` contains the HTML that has been rendered for each text part of the message in progress.
        """
        keys = {_key(text) for turn in turns for text in (*(text for _, text in _texts(turn)), *_plans(turn))}
        stored = {} if all(key in self._cache for key in keys) else await self._store.read(_shelf(session))
        return [await self.turn(session, turn, live if turn.id == running else None, stored) for turn in turns]


def turn_json(turn: Turn) -> dict[str, Any]:
    """Return a message as JSON, without HTML and without the record of its tool calls, which only the model needs."""
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
    """Return the cache key of a text. The key changes with the version of the rendering."""
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=18, key=VERSION).hexdigest()


def _shelf(session: str) -> str:
    return f"html/{session}"
