"""Fragments of a request's JSON. A fragment contains the tools, the system prompt, or one turn (see `build_messages`).

A cached fragment is found by the identity of the objects that it was built from. This works because the parser
returns the same object for the same text. The fragment keeps a reference to these objects, so that no other object can
have the same identity while the fragment is in the cache.
"""

from collections.abc import Callable
from operator import is_
from typing import Any, TypeVar

from msgspec import Struct

from tieline.model.events import Note
from tieline.wire.anthropic.schema import PROTOCOL
from tieline.wire.shared.conversations import ENTRY_WEIGHT, ConversationCache


class Fragment(Struct):
    """A part of a request as JSON text, and information about its cache marks.

    `source` contains the objects that the fragment was built from.
    """

    source: tuple[Any, ...]
    text: bytes
    mark_at: int = 0
    """The position at which to insert a cache mark, counted from the end of the text; 0 if no block accepts one."""
    marks: int = 0
    """The number of cache marks that the client set in this part of the request."""
    notes: tuple[Note, ...] = ()


F = TypeVar("F", bound=Fragment)


def cached_fragment(
    cache: ConversationCache, kind: str, source: tuple[Any, ...], context: object, build: Callable[[], F]
) -> F:
    """Return the cached fragment of this kind for the objects in `source`; if there is none, build and cache it.

    `context` is any other information that the fragment depends on.
    """
    key = (PROTOCOL, kind, context, *map(id, source))
    known: F | None = cache.get(key)
    if known is None or not all(map(is_, known.source, source)):
        known = build()
        cache.put(key, known, len(known.text) + ENTRY_WEIGHT)
    return known
