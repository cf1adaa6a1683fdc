"""The pass of the page: proof that the key was entered once, for the paths of the page and one origin only.

The page keeps it in the browser's storage, which belongs to one origin (scheme, host and port), and sends it in a
header. A cookie would go to every port of the host. A pass names its end and is signed with the key together with the
host it was issued for: it stops working after `LIFETIME`, when the key changes, and at any other address.
"""

import hmac
import time
from collections.abc import Callable, Iterable

from tieline.frontends.keys import same_key

PASS = b"x-tieline-pass"
LIFETIME = 30 * 24 * 3600
"""Seconds until the key has to be entered again."""


class Passes:
    """Issues and checks passes; `clock` is seconds since 1970."""

    def __init__(self, keys: Iterable[str], clock: Callable[[], float] = time.time) -> None:
        self._keys = tuple(keys)
        self._clock = clock

    def issue(self, key: str, host: str) -> str | None:
        """A pass for the page at this host; None if this is not a key of the gateway."""
        if not any(same_key(key, known) for known in self._keys):
            return None
        until = int(self._clock()) + LIFETIME
        return f"{until}.{_signature(key, until, host)}"

    def admits(self, given: str, host: str) -> bool:
        """Whether this is a pass for that host, and not past its end."""
        until, _, signature = given.partition(".")
        if not until.isascii() or not until.isdecimal() or len(until) > 12 or int(until) <= self._clock():
            return False
        return any(same_key(signature, _signature(key, int(until), host)) for key in self._keys)


def _signature(key: str, until: int, host: str) -> str:
    return hmac.new(key.encode(), f"tieline page {until} {host.lower()}".encode(), "sha256").hexdigest()
