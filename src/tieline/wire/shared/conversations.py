"""The conversation cache: parsed messages, and the JSON built from them.

A client sends its whole conversation with every request. Messages are cached by their JSON text: one that was parsed
before, in whatever request, is the same object again, and a change in the middle of a conversation costs only itself.
What is built from a message is cached by the identity of that object. All dialects share one cache with one bound; the
gateway owns it.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from tieline.model.bounded_cache import BoundedCache

MAX_BYTES = 32 * 1024 * 1024
MAX_ENTRIES = 65536
"""A conversation of small messages costs more by their number than by their bytes."""
WORTHWHILE = 4096
"""Bytes of a request from which on its messages are cached: smaller ones cost less to parse than to look up."""

_PARSED_WEIGHT = 3
"""A parsed message weighs its JSON text, the text in its parts, and as much in objects when messages are short."""
ENTRY_WEIGHT = 256
"""What an entry takes that holds nothing but references."""

T = TypeVar("T")

ConversationCache = BoundedCache[tuple[Any, ...], Any]


def conversation_cache(max_bytes: int = MAX_BYTES) -> ConversationCache:
    """Create a cache. One entry gets an eighth at most, so that one large image cannot evict everything else."""
    return BoundedCache(MAX_ENTRIES, max_weight=max_bytes, max_each=max_bytes // 8)


def parsed_weight(text: bytes) -> int:
    """Return what an entry for something parsed from this text takes in memory."""
    return _PARSED_WEIGHT * len(text) + ENTRY_WEIGHT


def cached(cache: ConversationCache | None, key: tuple[str, str, bytes], parse: Callable[[], T]) -> T:
    """Return what is parsed from a text, the last element of the key: from the cache, if there is one."""
    if cache is None:
        return parse()
    value: T | None = cache.get(key)
    if value is None:
        value = parse()
        cache.put(key, value, parsed_weight(key[2]))
    return value
