"""What each key has used, and whether its limits allow another request.

The usage that counts against a budget has three parts: what the ledger contained when it was last read, what this
process has recorded since then, and an estimate for requests in progress. Requests of other processes since then are
missing. While the ledger cannot be reached, each process may use only its share of what was left.
"""

import math
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
ROUNDING_ERROR = 1e-6
"""Seconds that do not matter, because sums of floating-point numbers are not exact."""


class TokenBucket:
    """Limits a rate. The bucket holds `per_minute` tokens and is refilled at this rate.

    `clock` returns monotonic time in seconds.
    """

    __slots__ = ("_clock", "_full_at", "_seconds")

    def __init__(self, per_minute: int, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._seconds = MINUTE / per_minute
        """Seconds in which one token is added."""
        self._full_at = clock()
        """When the bucket is full again. An empty bucket needs a minute, and one with a debt needs more."""

    def take(self, amount: int = 1, share: int = 1) -> float:
        """Take tokens and return 0. If there are too few, take none and return the seconds until there are enough.

        An amount larger than the bucket needs a full bucket, and leaves a debt. `share` divides size and rate.
        """
        now = self._clock()
        missing = self._full_at - now
        if missing < ROUNDING_ERROR:  # not `max`, which takes three times as long, because every request does this
            missing = 0.0
        refill = amount * self._seconds * share
        if missing and missing + refill > MINUTE + ROUNDING_ERROR:
            return missing + min(refill, MINUTE) - MINUTE
        self._full_at = now + missing + refill
        return 0

    def give(self, amount: int) -> None:
        """Put tokens back or, if `amount` is negative, take more, even if this leaves a debt."""
        self._full_at = max(self._full_at, self._clock()) - amount * self._seconds


class _Budget:
    """The limit on tokens or money in one day or month."""

    __slots__ = ("is_money", "left", "limit", "period")

    def __init__(self, period: str, limit: int, *, is_money: bool) -> None:
        self.period = period
        self.limit = limit
        self.is_money = is_money
        self.left = 0
        """What this process may use until the ledger is read again."""

    def exceeded(self, now: float) -> GatewayError:
        """Return the error for a request after the budget has been used up."""
        return budget_exceeded(money(self.limit) if self.is_money else f"{self.limit} tokens", self.period, now)


class Account:
    """What one key has used, and its limits. `accounts` are those it belongs to.

    What is left of the budgets is computed when the day or the ledger has changed. A request only compares numbers.
    """

    __slots__ = (
        "_accounts",
        "_budgets",
        "_cost",
        "_cost_left",
        "_known",
        "_rate",
        "_tokens",
        "_tokens_left",
        "_unsynced",
        "_valid_until",
        "limits",
        "name",
        "needs_estimate",
        "requests",
    )

    def __init__(self, name: str, limits: KeyLimits, accounts: "Accounts") -> None:
        self.name = name
        self.limits = limits
        self._accounts = accounts
        self.requests = _bucket(limits.requests_per_minute, accounts.clock)
        """The rate of requests; None if it is not limited."""
        self._rate = _bucket(limits.tokens_per_minute, accounts.clock)
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
        """What the ledger contained when it was last read, by day, for the current month; None before that."""
        self._unsynced: dict[tuple[int, float], list[int]] = {}
        """What this process has recorded since then, by the segment of the spool and the number of the day.

        Each value is a list with the elements of an `Amount`.
        """
        self._tokens = self._cost = 0
        """The sums of `_unsynced`, plus an estimate for the requests in progress."""
        self._tokens_left: float = math.inf
        """The smallest `left` of all budgets in tokens."""
        self._cost_left: float = math.inf
        """The same for money."""
        self._valid_until = 0.0
        """The Unix time until which these are valid, which is the end of a day; 0 if they have to be computed."""

    def admit(self, tokens: int, cost: int) -> None:
        """Reserve an estimated amount. Raise GatewayError if a limit is exceeded."""
        now = self._accounts.now()
        if now >= self._valid_until:
            self._compute_left(now)
        if self._tokens >= self._tokens_left or self._cost >= self._cost_left:
            raise next(budget.exceeded(now) for budget in self._budgets if self._used(budget) >= budget.left)
        wait = 0.0 if self._rate is None else self._rate.take(tokens, self._accounts.share)
        if wait:
            raise rate_exceeded(f"use {self.limits.tokens_per_minute} tokens", wait)
        self._tokens += tokens
        self._cost += cost

    def settle(self, reserved: tuple[int, int], tokens: int, cost: int, segment: int, now: float) -> None:
        """Replace what `admit` has reserved, tokens and their cost, with what the request used.

        `segment` is the number of the spool segment that contains the entry of the request.
        """
        self._tokens += tokens - reserved[0]
        self._cost += cost - reserved[1]
        if self._rate is not None:
            self._rate.give(reserved[0] - tokens)
        place = (segment, now // DAY)
        unsynced = self._unsynced.get(place)
        if unsynced is None:
            unsynced = self._unsynced[place] = [0, 0, 0]
        unsynced[0] += tokens
        unsynced[1] += cost
        unsynced[2] += 1

    def synced(self, known: Mapping[str, Amount], through: int) -> None:
        """Take over what the ledger contains, by day. This includes all segments up to `through`.

        New usage that is not from this process was recorded by others, and counts against the rates as well.
        """
        own = _sum(used for (segment, _), used in self._unsynced.items() if segment <= through)
        if self._known is not None:
            before, after = _sum(self._known.values()), _sum(known.values())
            if self.requests is not None:
                self.requests.give(-max(0, after.requests - before.requests - own.requests))
            if self._rate is not None:
                self._rate.give(-max(0, after.tokens - before.tokens - own.tokens))
        self._known = known
        self._unsynced = {place: used for place, used in self._unsynced.items() if place[0] > through}
        self._tokens -= own.tokens
        self._cost -= own.cost
        self.outdated()

    def outdated(self) -> None:
        """Compute again what is left before the next request is admitted."""
        self._valid_until = 0.0

    def _used(self, budget: _Budget) -> int:
        return self._cost if budget.is_money else self._tokens

    def _compute_left(self, now: float) -> None:
        """Compute what is left of each budget in the current day and month."""
        if self._budgets and self._known is None and self._accounts.is_stale:
            message = "What this key has used is not known, because the database cannot be reached. Try again later."
            raise GatewayError("overloaded", message, code="usage_unknown", retry_after=RETRY_AFTER)
        day, known = day_of(now), self._known or {}
        recent = [(day_of(number * DAY), used) for (_, number), used in self._unsynced.items()]
        for budget in self._budgets:
            begin, kind = day if budget.period == "day" else month_of(day), budget.is_money
            used = _sum(amount for one, amount in known.items() if one.startswith(begin))[kind]
            # What was used in an earlier period does not count, but `_used` contains it until the ledger does.
            earlier = _sum(amount for one, amount in recent if not one.startswith(begin))[kind]
            budget.left = earlier - (used - budget.limit) // self._accounts.share  # rounded up
        self._tokens_left = min((budget.left for budget in self._budgets if not budget.is_money), default=math.inf)
        self._cost_left = min((budget.left for budget in self._budgets if budget.is_money), default=math.inf)
        # Before the ledger has been read, compute this for each request: it is refused once the ledger has failed.
        self._valid_until = 0.0 if self._known is None else (now // DAY + 1) * DAY


class Accounts:
    """The accounts of all keys, by name. `clock` returns monotonic time, `now` Unix time."""

    def __init__(self, clock: Callable[[], float], now: Callable[[], float]) -> None:
        self.clock = clock
        self.now = now
        self._accounts: dict[str, Account] = {}
        self.replicas: Callable[[], int] = lambda: 1
        """Returns the number of processes that share the ledger."""
        self.is_stale = False
        """Whether the ledger cannot be reached."""
        self.share = 1
        """The number by which limits are divided."""

    def set_reachable(self, is_reachable: bool) -> None:
        """Set whether the ledger can be reached. If not, this process uses only its share of what is left."""
        self.is_stale = not is_reachable
        self.share = 1 if is_reachable else max(1, self.replicas())
        for account in self._accounts.values():
            account.outdated()

    def get(self, name: str) -> Account | None:
        """Return the account of a key, or None if the key has no limits."""
        return self._accounts.get(name)

    def set_limits(self, name: str, limits: KeyLimits) -> None:
        """Set the limits of a key. If they have not changed, keep what was counted for its rates."""
        account = self._accounts.get(name)
        if limits == NO_LIMITS:
            self._accounts.pop(name, None)
        elif account is None or account.limits != limits:
            self._accounts[name] = Account(name, limits, self)

    def all(self) -> list[Account]:
        """Return all accounts."""
        return list(self._accounts.values())

    def count_request(self, name: str, requests: int = 1) -> None:
        """Count requests with a key. Raise GatewayError, and count none of them, if there are too many per minute."""
        account = self._accounts.get(name)
        if account is not None and account.requests is not None:
            wait = account.requests.take(requests, self.share)
            if wait:
                raise rate_exceeded(f"send {account.limits.requests_per_minute} requests", wait)


def _sum(amounts: Iterable[Sequence[int]]) -> Amount:
    return Amount(*map(sum, zip(NOTHING, *amounts, strict=True)))


def _bucket(per_minute: int | None, clock: Callable[[], float]) -> TokenBucket | None:
    return None if per_minute is None else TokenBucket(per_minute, clock)
