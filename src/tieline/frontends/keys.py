"""The keys that clients send: the gateway's own keys, and named keys with limits."""

import hmac
import math
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from tieline.core.legs.access import ModelAccess
from tieline.model.errors import GatewayError

MODEL_PATHS = ("/v1/", "/chat/", "/cursor/", "/openai/deployments/")
"""Prefixes of the paths of the model APIs. Named keys are valid for no others."""
MINUTE = 60.0


class NamedKey(NamedTuple):
    """The key of one client.

    It is valid only for the model APIs, so that a client cannot answer inbox items and thereby approve its own
    commands.
    """

    name: str
    value: str
    tools: bool = False
    """Whether requests with this key receive the gateway's own tools."""
    access: ModelAccess | None = None
    """The models that requests with this key may use; None if there is no limit."""
    paths: tuple[str, ...] = MODEL_PATHS
    """Prefixes of the paths for which the key is valid."""
    requests_per_minute: int | None = None
    """None if there is no limit."""


OWN_KEY = NamedKey("", "", paths=("",))
"""Stands for any of the gateway's own keys; it has no limits."""


def same_key(given: str, known: str) -> bool:
    """Compare two keys in constant time. An empty known key never matches."""
    return bool(known) and hmac.compare_digest(given.encode(), known.encode())


class TokenBucket:
    """Limits the rate of requests: `per_minute` at once, and as many again in every minute.

    `clock` returns seconds and never goes back.
    """

    def __init__(self, per_minute: int, clock: Callable[[], float]) -> None:
        self._capacity = per_minute
        self._clock = clock
        self._tokens = float(per_minute)
        self._updated = clock()

    def take(self) -> float:
        """Take a token and return 0, or return the seconds until there is one."""
        now = self._clock()
        rate = self._capacity / MINUTE
        self._tokens = min(self._capacity, self._tokens + (now - self._updated) * rate)
        self._updated = now
        if self._tokens < 1:
            return (1 - self._tokens) / rate
        self._tokens -= 1
        return 0


class Keys:
    """All keys that a client may send: the gateway's own, valid for every path, and the named ones."""

    def __init__(
        self,
        own: Iterable[str] = (),
        named: Iterable[NamedKey] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.own = tuple(own)
        self._named = tuple(named)
        self._buckets = {
            key.name: TokenBucket(key.requests_per_minute, clock) for key in self._named if key.requests_per_minute
        }

    @property
    def is_empty(self) -> bool:
        """Whether there are no keys at all."""
        return not self.own and not self._named

    def is_own(self, given: str) -> bool:
        """Return whether this is one of the gateway's own keys."""
        return any(same_key(given, known) for known in self.own)

    def find(self, given: str) -> NamedKey | None:
        """Return the key with this value, OWN_KEY for one of the gateway's own, or None if there is no such key."""
        if self.is_own(given):
            return OWN_KEY
        return next((key for key in self._named if same_key(given, key.value)), None)

    def count(self, key: NamedKey) -> None:
        """Count a request with this key. Raise GatewayError if there were too many within a minute."""
        bucket = self._buckets.get(key.name)
        wait = 0.0 if bucket is None else bucket.take()
        if wait:
            raise GatewayError(
                "rate_limited",
                f"This key may send {key.requests_per_minute} requests per minute. Try again in {math.ceil(wait)} s.",
                code="rate_limit_exceeded",
                retry_after=math.ceil(wait),
            )
