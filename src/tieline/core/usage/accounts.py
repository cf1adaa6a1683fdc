"""What each key has used, and whether its limits allow another request.

What counts against a budget is what the ledger knew at the last look, plus what this process has recorded since then,
plus an estimate for requests in progress. Requests of other processes since the last look are missing. While the ledger
cannot be reached, each process uses at most its share of what was left.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

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
        tokens = self._tokens + (now - self._updated) * capacity / MINUTE
        self._updated = now
        if tokens > capacity:  # not `min`, which takes three times as long, because every request does this
            tokens = capacity
        needed = min(amount, capacity)
        if tokens < needed:
            self._tokens = tokens
            return (needed - tokens) * MINUTE / capacity
        self._tokens = tokens - amount
        return 0

    def give(self, amount: int) -> None:
        """Put tokens back or, if `amount` is negative, take more, even if this leaves a debt."""
        self._tokens = min(self._capacity, self._tokens + amount)


class _Budget:
    """The limit on tokens or money in one day or month, and what has been used of it."""

    __slots__ = ("is_money", "known", "limit", "period", "recent")

    def __init__(self, period: str, limit: int, *, is_money: bool) -> None:
        self.period = period
        self.limit = limit
        self.is_money = is_money
        self.known = 0
        """What has been used as far as the ledger knew at the last look."""
        self.recent = 0
        """What this process has recorded since then."""

    def exceeded(self, now: float) -> GatewayError:
        """Return the error for a request after the budget has been used up."""
        return budget_exceeded(money(self.limit) if self.is_money else f"{self.limit} tokens", self.period, now)


class Account:
    """What one key has used, and its limits. The sums of the current periods are kept, so that a check is fast."""

    __slots__ = (
        "_budgets",
        "_day",
        "_known",
        "_reserved_cost",
        "_reserved_tokens",
        "_tokens",
        "_unsynced",
        "limits",
        "name",
        "needs_estimate",
        "requests",
    )

    def __init__(self, name: str, limits: KeyLimits, clock: Callable[[], float]) -> None:
        self.name = name
        self.limits = limits
        self.requests = _bucket(limits.requests_per_minute, clock)
        """The rate of requests; None if it is not limited."""
        self._tokens = _bucket(limits.tokens_per_minute, clock)
        self._budgets = [
            _Budget(period, limit, is_money=is_money)
            for period, limit, is_money in (
                ("day", limits.tokens_per_day, False),
                ("day", limits.cost_per_day, True),
                ("month", limits.tokens_per_month, False),
                ("month", limits.cost_per_month, True),
            )
            if limit is not None
        ]
        self.needs_estimate = limits.tokens_per_minute is not None or bool(self._budgets)
        """Whether a request must be estimated before it is admitted."""
        self._known: Mapping[str, Amount] | None = None
        """What the ledger knew at the last look, by day, for the current month; None before the first look."""
        self._unsynced: dict[tuple[int, int], list[int]] = {}
        """What this process has recorded since then, by segment of the spool and number of the day.

        Each value is a list with the elements of an `Amount`.
        """
        self._reserved_tokens = self._reserved_cost = 0
        """An estimate for the requests in progress."""
        self._day = -1
        """The number of the day for which the budgets have been added up."""

    def admit(self, tokens: int, cost: int, now: float, share: int, *, is_stale: bool) -> None:
        """Reserve an estimated amount. Raise GatewayError if a limit is exceeded.

        If `is_stale`, the ledger cannot be reached, and `share` is the number of processes that may use what is left.
        """
        if self._budgets:
            if now // DAY != self._day:
                self._add_up(now, is_stale=is_stale)
            for budget in self._budgets:
                reserved = self._reserved_cost if budget.is_money else self._reserved_tokens
                if (budget.recent + reserved) * share >= budget.limit - budget.known:
                    raise budget.exceeded(now)
        wait = 0.0 if self._tokens is None else self._tokens.take(tokens, share)
        if wait:
            raise rate_exceeded(f"use {self.limits.tokens_per_minute} tokens", wait)
        self._reserved_tokens += tokens
        self._reserved_cost += cost

    def settle(
        self, reserved_tokens: int, reserved_cost: int, tokens: int, cost: int, segment: int, now: float
    ) -> None:
        """Replace a reserved estimate with what the request used.

        `segment` is the number of the spool segment that contains the entry of the request.
        """
        self._reserved_tokens -= reserved_tokens
        self._reserved_cost -= reserved_cost
        if self._tokens is not None:
            self._tokens.give(reserved_tokens - tokens)
        day = int(now // DAY)
        place = (segment, day)
        unsynced = self._unsynced.get(place)
        if unsynced is None:
            unsynced = self._unsynced[place] = [0, 0, 0]
        unsynced[0] += tokens
        unsynced[1] += cost
        unsynced[2] += 1
        if day == self._day:
            for budget in self._budgets:
                budget.recent += cost if budget.is_money else tokens

    def synced(self, known: Mapping[str, Amount], through: int) -> None:
        """Take over what the ledger knows, by day. It contains all segments up to `through`.

        What is new in it and not from this process was done by others, and counts against the rates as well.
        """
        own = _sum(used for (segment, _), used in self._unsynced.items() if segment <= through)
        if self._known is not None:
            before, after = _sum(self._known.values()), _sum(known.values())
            if self.requests is not None:
                self.requests.give(-max(0, after.requests - before.requests - own.requests))
            if self._tokens is not None:
                self._tokens.give(-max(0, after.tokens - before.tokens - own.tokens))
        self._known = known
        self._unsynced = {place: used for place, used in self._unsynced.items() if place[0] > through}
        self._day = -1

    def _add_up(self, now: float, *, is_stale: bool) -> None:
        """Compute what has been used of each budget in the current day and month."""
        if self._known is None and is_stale:
            message = "What this key has used is not known, because the database cannot be reached. Try again later."
            raise GatewayError("overloaded", message, code="usage_unknown", retry_after=RETRY_AFTER)
        day, known = day_of(now), self._known or {}
        recent = [(day_of(number * DAY), used) for (_, number), used in self._unsynced.items()]
        for budget in self._budgets:
            begin = day if budget.period == "day" else month_of(day)
            old = _sum(used for one, used in known.items() if one.startswith(begin))
            new = _sum(used for one, used in recent if one.startswith(begin))
            budget.known = old.cost if budget.is_money else old.tokens
            budget.recent = new.cost if budget.is_money else new.tokens
        # Before the first look, add up each time: if the ledger cannot be reached by then, the request is refused.
        self._day = -1 if self._known is None else int(now // DAY)


class Accounts:
    """The accounts of all keys, by name. `clock` returns monotonic time, `now` Unix time."""

    def __init__(self, clock: Callable[[], float], now: Callable[[], float]) -> None:
        self._clock = clock
        self._now = now
        self._accounts: dict[str, Account] = {}
        self.replicas: Callable[[], int] = lambda: 1
        """Returns the number of processes that share the ledger."""
        self._is_stale = False
        self._share = 1
        """The number by which limits are divided."""

    def set_reachable(self, is_reachable: bool) -> None:
        """Say whether the ledger can be reached. If not, this process uses only its share of what is left."""
        self._is_stale = not is_reachable
        self._share = 1 if is_reachable else max(1, self.replicas())

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
        """Count requests with a key. Raise GatewayError, and count none of them, if there are too many per minute."""
        account = self._accounts.get(name)
        if account is not None and account.requests is not None:
            wait = account.requests.take(requests, self._share)
            if wait:
                raise rate_exceeded(f"send {account.limits.requests_per_minute} requests", wait)

    def admit(self, account: Account, tokens: int, cost: int) -> None:
        """Reserve an estimated amount for a request. Raise GatewayError if a limit of its key is exceeded."""
        account.admit(tokens, cost, self._now(), self._share, is_stale=self._is_stale)


def _sum(amounts: Iterable[Sequence[int]]) -> Amount:
    return Amount(*map(sum, zip(NOTHING, *amounts, strict=True)))


def _bucket(per_minute: int | None, clock: Callable[[], float]) -> TokenBucket | None:
    return None if per_minute is None else TokenBucket(per_minute, clock)
