"""The conversation cache: parsed messages, and the JSON built from them.

A client sends its whole conversation with every request. Messages are cached by their JSON text: the same text, in any
request, is parsed once and yields the same object. So after a change in the middle of a conversation, only the changed
messages are parsed. JSON that is built from a message is cached by the identity of that object. All protocols share
one bounded cache, which the application owns.
"""

from collections.abc import Callable
from operator import is_
from typing import Any, TypeVar

from tieline.model.bounded_cache import BoundedCache
from tieline.model.content import Message, Part, Role

MAX_BYTES = 24 * 1024 * 1024
MAX_ENTRIES = 65536
"""Maximum number of entries. It matters for small messages, whose objects take more memory than their text."""
MIN_CACHED_BODY = 4096
"""Minimum size in bytes of a request body whose messages are cached. Parsing a smaller body is faster than lookups."""

_PARSED_WEIGHT = 2
"""Memory in bytes per byte of JSON in a parsed message: one for the JSON itself, one for the text of the parts."""
ENTRY_WEIGHT = 512
"""Memory in bytes that an entry takes in addition to its texts: keys, objects and references."""

T = TypeVar("T")

ConversationCache = BoundedCache[tuple[Any, ...], Any]


def conversation_cache(max_bytes: int = MAX_BYTES) -> ConversationCache:
    """Create a cache. One entry may use at most an eighth of it, so that a large image cannot evict everything else."""
    return BoundedCache(MAX_ENTRIES, max_weight=max_bytes, max_each=max_bytes // 8)


def parsed_weight(text: bytes) -> int:
    """Return the estimated memory, in bytes, of a cache entry for a value parsed from this text."""
    return _PARSED_WEIGHT * len(text) + ENTRY_WEIGHT


def cached(cache: ConversationCache | None, key: tuple[str, str, bytes], parse: Callable[[], T]) -> T:
    """Return the cached value for a key; if there is none, call `parse` and cache its result.

    The last element of the key is the text to parse. Without a cache, `parse` is called every time.
    """
    if cache is None:
        return parse()
    value: T | None = cache.get(key)
    if value is None:
        value = parse()
        cache.put(key, value, parsed_weight(key[2]))
    return value


def grouped(cache: ConversationCache | None, protocol: str, role: Role, parts: tuple[Part, ...]) -> Message:
    """Return one message with parts that were parsed separately. The same part objects give the same message object."""
    if cache is None:
        return Message(role=role, parts=parts)
    key = (protocol, role, *map(id, parts))
    message: Message | None = cache.get(key)
    if message is None or not all(map(is_, message.parts, parts)):
        message = Message(role=role, parts=parts)
        cache.put(key, message, ENTRY_WEIGHT)
    return message
