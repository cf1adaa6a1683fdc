"""The keys of the gateway: its own, which opens everything, and named ones, each for one client.

A named key opens only the paths that models are used through. It cannot answer what waits in the inbox, so a client
that has one cannot allow its own commands.
"""

import hmac
from collections.abc import Iterable
from typing import NamedTuple

NAMED_PATHS = ("/v1/", "/chat/")
"""The beginnings of the paths that a named key opens."""


class NamedKey(NamedTuple):
    """The key of one client, and what the client may do with it."""

    name: str
    value: str
    tools: bool = False
    """Whether requests with this key receive the gateway's own tools."""


def same_key(given: str, known: str) -> bool:
    """Compare two keys in constant time. An empty key is never right."""
    return bool(known) and hmac.compare_digest(given.encode(), known.encode())


class Keys:
    """All keys a client may bring."""

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
        """Whether a key is good for a path."""
        return self.is_own(given) or (path.startswith(NAMED_PATHS) and self.named(given) is not None)
