"""Passes for the web page. A pass proves that the user entered the key. It is valid for the page's paths at one host.

The page keeps its pass in the browser's storage, which belongs to one origin (scheme, host and port), and sends it in a
header. A cookie would be sent to every port of the host. A pass contains its expiry time and an HMAC of that time and
the host: it is invalid after `LIFETIME`, when the key changes, and at any other host.
"""

import hmac
import time
from collections.abc import Callable, Iterable

PASS = b"x-tieline-pass"
LIFETIME = 30 * 24 * 3600
"""Number of seconds for which a pass is valid. After that, the key has to be entered again."""


class Passes:
    """Issues and checks passes. `clock` returns the Unix time."""

    def __init__(self, keys: Iterable[str], clock: Callable[[], float] = time.time) -> None:
        self._keys = tuple(keys)
        self._clock = clock

    def issue(self, key: str, host: str) -> str:
        """Return a pass for the page at this host. The key must be one of the gateway's own keys."""
        until = int(self._clock()) + LIFETIME
        return f"{until}.{_signature(key, until, host).decode()}"

    def admits(self, given: str, host: str) -> bool:
        """Return whether a pass is valid for this host and has not expired."""
        until, _, signature = given.partition(".")
        if not until.isascii() or not until.isdecimal() or len(until) > 12 or int(until) <= self._clock():
            return False
        given_signature = signature.encode()
        return any(hmac.compare_digest(given_signature, _signature(key, int(until), host)) for key in self._keys)


def _signature(key: str, until: int, host: str) -> bytes:
    digest = hmac.new(key.encode(), f"tieline page {until} {host.lower()}".encode(), "sha256").hexdigest()
    return digest.encode()
