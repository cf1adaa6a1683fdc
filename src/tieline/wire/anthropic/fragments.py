"""Fragments of a request's JSON: the tools, the system prompt, one turn.

They are cached by the identity of the objects they were built from: the parser returns the same object for the same
text. A fragment references these objects, so that no other object can get their identity while it is in the cache.
"""

from collections.abc import Callable
from operator import is_
from typing import Any, TypeVar

from msgspec import Struct

from tieline.model.events import Note
from tieline.wire.anthropic.schema import PROTOCOL
from tieline.wire.shared.conversations import ENTRY_WEIGHT, ConversationCache


class Fragment(Struct):
    """JSON text and its cache marks."""

    source: tuple[Any, ...]
    text: bytes
    mark_at: int = 0
    """Where a cache mark goes, counted from the end of the text; 0 if no block can carry one."""
    marks: int = 0
    """The number of cache marks that the client set in it."""
    notes: tuple[Note, ...] = ()


F = TypeVar("F", bound=Fragment)


def cached_fragment(
    cache: ConversationCache, kind: str, source: tuple[Any, ...], context: object, build: Callable[[], F]
) -> F:
    """Return the fragment for these objects in this context: from the cache, or built and cached."""
    key = (PROTOCOL, kind, context, *map(id, source))
    known: F | None = cache.get(key)
    if known is None or not all(map(is_, known.source, source)):
        known = build()
        cache.put(key, known, len(known.text) + ENTRY_WEIGHT)
    return known
