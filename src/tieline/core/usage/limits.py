"""The limits of a key, and the periods for which they apply. Days and months are in UTC."""

import math
from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple

from tieline.model.content import Value
from tieline.model.errors import NOT_RETRYABLE, GatewayError

NANO = 1_000_000_000
"""Amounts of money are integers in billionths of a unit of the currency, so that sums are exact."""
MINUTE = 60
DAY = 24 * 3600
EPOCH = date(1970, 1, 1).toordinal()
MONTH_LENGTH = len("2026-01")


class KeyLimits(Value):
    """How much may be used with a key. None means no limit. Amounts of money are in billionths."""

    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    tokens_per_day: int | None = None
    tokens_per_month: int | None = None
    cost_per_day: int | None = None
    cost_per_month: int | None = None


NO_LIMITS = KeyLimits()


class Amount(NamedTuple):
    """A number of tokens, what they cost in billionths, and the number of requests."""

    tokens: int = 0
    cost: int = 0
    requests: int = 0


def day_of(now: float) -> str:
    """Return the day of a Unix time, such as `2026-01-31`."""
    return date.fromordinal(EPOCH + int(now // DAY)).isoformat()  # a tenth of the time of `strftime`


def month_of(day: str) -> str:
    """Return the month of a day, such as `2026-01`."""
    return day[:MONTH_LENGTH]


def reset_of(period: str, now: float) -> datetime:
    """Return when the current `period`, a day or a month, ends."""
    midnight = datetime.fromtimestamp(now, UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    if period == "day":
        return midnight + timedelta(days=1)
    return (midnight.replace(day=1) + timedelta(days=32)).replace(day=1)


def money(cost: int) -> str:
    """Return an amount of money for a person, such as `$1.50`. Small amounts keep the digits that matter."""
    value = cost / NANO
    return f"${value:.2f}" if value >= 1 or not cost else f"${value:.6f}".rstrip("0").ljust(len("$0.00"), "0")


def budget_exceeded(limit: str, period: str, now: float) -> GatewayError:
    """Return the error for a used budget. `limit` describes the budget, such as `$5.00`.

    A retry within minutes cannot succeed, so clients are asked not to retry on their own.
    """
    reset = reset_of(period, now)
    wait = max(1, math.ceil(reset.timestamp() - now))
    return GatewayError(
        "rate_limited",
        f"This key may use {limit} per {period}, which is used up. It resets at {reset:%Y-%m-%dT%H:%M:%SZ}.",
        code="budget_exceeded",
        retry_after=wait,
        headers=(NOT_RETRYABLE,),
    )


def rate_exceeded(limit: str, wait: float) -> GatewayError:
    """Return the error for a rate limit. `limit` says what is limited, `wait` is the number of seconds to wait."""
    seconds = max(1, math.ceil(wait))
    return GatewayError(
        "rate_limited",
        f"This key may {limit} per minute. Try again in {seconds} s.",
        code="rate_limit_exceeded",
        retry_after=seconds,
    )
