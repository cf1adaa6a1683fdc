"""The keys of the gateway: its own key, valid for every path, and named keys, one per client.

A named key is valid only for the model APIs. It cannot answer inbox items, so a client that has one cannot approve its
own commands.
"""

import hmac
from collections.abc import Iterable
from typing import NamedTuple

NAMED_PATHS = ("/v1/", "/chat/")
"""Prefixes of the paths that named keys are valid for."""


class NamedKey(NamedTuple):
    """The key of one client."""

    name: str
    value: str
    tools: bool = False
    """Whether requests with this key receive the gateway's own tools."""


def same_key(given: str, known: str) -> bool:
    """Compare two keys in constant time. An empty known key never matches."""
    return bool(known) and hmac.compare_digest(given.encode(), known.encode())


class Keys:
    """All keys a client may send."""

    def __init__(self, own: Iterable[str] = (), named: Iterable[NamedKey] = ()) -> None:
        self.own = tuple(own)
        self._named = tuple(named)
        self.has_named = bool(self._named)

    def is_own(self, given: str) -> bool:
        """Whether this is the gateway's own key."""
        return any(same_key(given, known) for known in self.own)

    def named(self, given: str) -> NamedKey | None:
        """Return the named key with this value, if there is one."""
        return next((key for key in self._named if same_key(given, key.value)), None)

    def opens(self, given: str, path: str) -> bool:
        """Whether a key is valid for a path."""
        return self.is_own(given) or (path.startswith(NAMED_PATHS) and self.named(given) is not None)
