"""What each key has used, and whether its limits allow another request.

What counts against a budget is what the ledger knew at the last look, plus what this process has recorded since then,
plus an estimate for requests in progress. Requests of other processes since the last look are missing. While the ledger
cannot be reached, each process uses at most its share of what was left.
"""

from collections.abc import Callable, Iterable, Mapping

from tieline.core.usage.limits import (
    DAY,
    MINUTE,
    NO_LIMITS,
    Amount,
    KeyLimits,
    budget_exceeded,
    day_of,
    money,
    month_of,
    rate_exceeded,
)
from tieline.model.errors import GatewayError

NOTHING = Amount()
RETRY_AFTER = 5.0
"""Seconds after which a client should try again if the usage of its key is not known."""


class TokenBucket:
    """Limits a rate. The bucket holds `per_minute` tokens and is refilled at this rate.

    `clock` returns monotonic time in seconds.
    """

    __slots__ = ("_capacity", "_clock", "_tokens", "_updated")

    def __init__(self, per_minute: int, clock: Callable[[], float]) -> None:
        self._capacity = per_minute
        self._clock = clock
        self._tokens = float(per_minute)
        self._updated = clock()

    def take(self, amount: int = 1, share: int = 1) -> float:
        """Take tokens and return 0. If there are too few, take none and return the seconds until there are enough.

        An amount larger than the bucket needs a full bucket, and leaves a debt. `share` divides size and rate.
        """
        now = self._clock()
        capacity = self._capacity / share
        rate = capacity / MINUTE
        self._tokens = min(capacity, self._tokens + (now - self._updated) * rate)
        self._updated = now
        needed = min(amount, capacity)
        if self._tokens < needed:
            return (needed - self._tokens) / rate
        self._tokens -= amount
        return 0

    def give(self, amount: int) -> None:
        """Put tokens back or, if `amount` is negative, take more, even if this leaves a debt."""
        self._tokens = min(self._capacity, self._tokens + amount)


class _Period:
    """What a key has used in one day or month, in tokens and money: as the ledger knows it, and since its last look."""

    __slots__ = ("known_cost", "known_tokens", "recent_cost", "recent_tokens")

    def __init__(self, known: Amount = NOTHING, recent: Amount = NOTHING) -> None:
        self.known_tokens, self.known_cost, _ = known
        self.recent_tokens, self.recent_cost, _ = recent


class Account:
    """What one key has used, and its limits. The sums of the current periods are kept, so that a check is fast."""

    __slots__ = (
        "_day",
        "_known",
        "_month",
        "_number",
        "_requests",
        "_reserved_cost",
        "_reserved_tokens",
        "_tokens",
        "_unsynced",
        "limits",
        "name",
        "needs_estimate",
    )

    def __init__(self, name: str, limits: KeyLimits, clock: Callable[[], float]) -> None:
        self.name = name
        self.limits = limits
        self._requests = _bucket(limits.requests_per_minute, clock)
        self._tokens = _bucket(limits.tokens_per_minute, clock)
        self.needs_estimate = limits.tokens_per_minute is not None or limits.has_budgets
        """Whether a request must be estimated before it is admitted."""
        self._known: Mapping[str, Amount] | None = None
        """What the ledger knew at the last look, by day, for the current month; None before the first look."""
        self._unsynced: dict[tuple[int, int], Amount] = {}
        """What this process has recorded since then, by segment of the spool and number of the day."""
        self._reserved_tokens = self._reserved_cost = 0
        """An estimate for the requests in progress."""
        self._number = -1
        """The number of the day for which `_day` and `_month` hold the sums."""
        self._day = self._month = _Period()

    def count_request(self, share: int) -> None:
        """Count a request. Raise GatewayError if there are too many per minute."""
        wait = 0.0 if self._requests is None else self._requests.take(1, share)
        if wait:
            raise rate_exceeded(f"send {self.limits.requests_per_minute} requests", wait)

    def admit(self, tokens: int, cost: int, now: float, share: int, *, is_stale: bool) -> None:
        """Reserve an estimated amount. Raise GatewayError if a limit is exceeded.

        If `is_stale`, the ledger cannot be reached, and `share` is the number of processes that may use what is left.
        """
        if self.limits.has_budgets:
            self._check_budgets(now, share, is_stale=is_stale)
        wait = 0.0 if self._tokens is None else self._tokens.take(tokens, share)
        if wait:
            raise rate_exceeded(f"use {self.limits.tokens_per_minute} tokens", wait)
        self._reserved_tokens += tokens
        self._reserved_cost += cost

    def settle(self, estimate: tuple[int, int], used: Amount, segment: int, now: float) -> None:
        """Replace a reserved estimate (tokens and cost) by what was used.

        `segment` is the part of the spool that contains the entry.
        """
        tokens, cost = estimate
        self._reserved_tokens -= tokens
        self._reserved_cost -= cost
        if self._tokens is not None:
            self._tokens.give(tokens - used.tokens)
        number = int(now // DAY)
        place = (segment, number)
        before = self._unsynced.get(place)
        self._unsynced[place] = used if before is None else before.plus(used)
        if number == self._number:
            for period in (self._day, self._month):
                period.recent_tokens += used.tokens
                period.recent_cost += used.cost

    def synced(self, known: Mapping[str, Amount], through: int) -> None:
        """Take over what the ledger knows, by day. It contains all segments up to `through`.

        What is new in it and not from this process was done by others, and counts against the rates as well.
        """
        own = _sum(used for (segment, _), used in self._unsynced.items() if segment <= through)
        if self._known is not None:
            before, after = _sum(self._known.values()), _sum(known.values())
            if self._requests is not None:
                self._requests.give(-max(0, after.requests - before.requests - own.requests))
            if self._tokens is not None:
                self._tokens.give(-max(0, after.tokens - before.tokens - own.tokens))
        self._known = known
        self._unsynced = {place: used for place, used in self._unsynced.items() if place[0] > through}
        self._number = -1

    def _check_budgets(self, now: float, share: int, *, is_stale: bool) -> None:
        if self._known is None and is_stale:
            message = "What this key has used is not known, because the database cannot be reached. Try again later."
            raise GatewayError("overloaded", message, code="usage_unknown", retry_after=RETRY_AFTER)
        if int(now // DAY) != self._number:
            self._add_up(now)
        limits = self.limits
        self._check_period("day", self._day, limits.tokens_per_day, limits.cost_per_day, share, now)
        self._check_period("month", self._month, limits.tokens_per_month, limits.cost_per_month, share, now)

    def _check_period(
        self, name: str, used: _Period, tokens: int | None, cost: int | None, share: int, now: float
    ) -> None:
        recent = used.recent_tokens + self._reserved_tokens
        if tokens is not None and recent * share >= tokens - used.known_tokens:
            raise budget_exceeded(f"{tokens} tokens", name, now)
        recent = used.recent_cost + self._reserved_cost
        if cost is not None and recent * share >= cost - used.known_cost:
            raise budget_exceeded(money(cost), name, now)

    def _add_up(self, now: float) -> None:
        """Compute the sums of the current day and month."""
        day, known = day_of(now), self._known or {}
        month = month_of(day)
        recent = {place: day_of(place[1] * DAY) for place in self._unsynced}
        self._day, self._month = (
            _Period(
                _sum(used for one, used in known.items() if one.startswith(period)),
                _sum(self._unsynced[place] for place, one in recent.items() if one.startswith(period)),
            )
            for period in (day, month)
        )
        self._number = int(now // DAY)


class Accounts:
    """The accounts of all keys, by name. `clock` returns monotonic time, `now` Unix time."""

    def __init__(self, clock: Callable[[], float], now: Callable[[], float]) -> None:
        self._clock = clock
        self._now = now
        self._accounts: dict[str, Account] = {}
        self.replicas: Callable[[], int] = lambda: 1
        """Returns the number of processes that share the ledger."""
        self.is_reachable: Callable[[], bool] = lambda: True
        """Returns whether the ledger can be reached."""

    def get(self, name: str) -> Account | None:
        """Return the account of a key, or None if the key has no limits."""
        return self._accounts.get(name)

    def set_limits(self, name: str, limits: KeyLimits) -> None:
        """Set the limits of a key. If they have not changed, keep what was counted for its rates."""
        account = self._accounts.get(name)
        if limits == NO_LIMITS:
            self._accounts.pop(name, None)
        elif account is None or account.limits != limits:
            self._accounts[name] = Account(name, limits, self._clock)

    def all(self) -> list[Account]:
        """Return all accounts."""
        return list(self._accounts.values())

    def count_request(self, name: str, requests: int = 1) -> None:
        """Count requests with a key. Raise GatewayError if there are too many per minute."""
        account = self._accounts.get(name)
        if account is not None and account.limits.requests_per_minute is not None:
            share = self._share()
            for _ in range(requests):
                account.count_request(share)

    def admit(self, account: Account, tokens: int, cost: int) -> None:
        """Reserve an estimated amount for a request. Raise GatewayError if a limit of its key is exceeded."""
        is_stale = not self.is_reachable()
        account.admit(tokens, cost, self._now(), self._share() if is_stale else 1, is_stale=is_stale)

    def _share(self) -> int:
        return 1 if self.is_reachable() else max(1, self.replicas())


def _sum(amounts: Iterable[Amount]) -> Amount:
    total = NOTHING
    for amount in amounts:
        total = total.plus(amount)
    return total


def _bucket(per_minute: int | None, clock: Callable[[], float]) -> TokenBucket | None:
    return None if per_minute is None else TokenBucket(per_minute, clock)
