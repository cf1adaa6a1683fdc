"""Passes for the web page. A pass proves that the user entered a key. It is valid for the page's paths at one host.

The page keeps its pass in the browser's storage, which belongs to one origin (scheme, host and port), and sends it in a
header. A cookie would be sent to every port of the host. A pass contains its expiry time, the name of the key (empty
for the gateway's own keys) and an HMAC of these, the host and the digest of the key. It is invalid after `LIFETIME`,
when the key is changed, revoked or expires, and at any other host.

The gateway's own keys sign all passes: a pass cannot be made from the digest of a key, which is stored.
"""

import hmac
import time
from collections.abc import Callable, Iterable
from urllib.parse import quote, unquote

from tieline.frontends.keys import OWN_KEY, NamedKey

PASS = b"x-tieline-pass"
LIFETIME = 30 * 24 * 3600
"""Number of seconds for which a pass is valid. After that, the key has to be entered again."""

FindKey = Callable[[str], NamedKey | None]
"""Returns the key with the given name; None if there is no such key."""


class Passes:
    """Issues and checks passes. `keys` are the gateway's own keys; `clock` returns Unix time."""

    def __init__(self, keys: Iterable[str], clock: Callable[[], float] = time.time) -> None:
        self._keys = tuple(keys)
        self._clock = clock

    def issue(self, given: str, host: str, key: NamedKey = OWN_KEY) -> str:
        """Return a pass for the page at this host. If `key` is one of the gateway's own keys, `given` is its value."""
        until = int(self._clock()) + LIFETIME
        if not key.name:
            return f"{until}.{_signature(given, until, host).decode()}"
        signature = _signature(self._keys[0], until, host, key).decode()
        return f"{until}.{signature}.{quote(key.name, safe='')}"

    def key_of(self, given: str, host: str, find: FindKey = lambda _: None) -> NamedKey | None:
        """Return the key that a pass stands for, or None if the pass is not valid for this host or has expired."""
        until, _, rest = given.partition(".")
        if not until.isascii() or not until.isdecimal() or len(until) > 12 or int(until) <= self._clock():
            return None
        signature, _, name = rest.partition(".")
        key = find(unquote(name)) if name else OWN_KEY
        if key is None:
            return None
        signed = signature.encode()
        expected = (_signature(own, int(until), host, key) for own in self._keys)
        return key if any(hmac.compare_digest(signed, one) for one in expected) else None

    def admits(self, given: str, host: str) -> bool:
        """Return whether a pass for one of the gateway's own keys is valid for this host and has not expired."""
        return self.key_of(given, host) is not None


def _signature(own: str, until: int, host: str, key: NamedKey = OWN_KEY) -> bytes:
    bound = f" {key.fingerprint} {key.name}" if key.name else ""
    digest = hmac.new(own.encode(), f"tieline page {until} {host.lower()}{bound}".encode(), "sha256").hexdigest()
    return digest.encode()
