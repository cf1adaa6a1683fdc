"""Measures what each request uses: checks the limits of its key, and writes an entry when it has ended."""

import re
from collections.abc import Callable, Iterator
from typing import Literal

import msgspec

from tieline.core.usage.accounts import Account, Accounts
from tieline.core.usage.limits import NANO, Amount
from tieline.core.usage.prices import Price, PriceTable
from tieline.core.watch.metrics import head, label
from tieline.model.bounded_cache import BoundedCache
from tieline.model.events import Usage

Status = Literal["ok", "failed", "cancelled"]

MAX_NAMES = 1000
"""Number of different models, and of different clients, that a process distinguishes. All others are `other`."""
MAX_SERIES = 500
"""Number of pairs of key and model with metrics of their own. All others are counted together."""
MAX_MODEL = 200
MAX_TOKENS = 1_000_000_000
"""Maximum number of tokens of one kind in a request. Higher numbers are mistakes of an upstream."""
MAX_CLIENT = 40
OTHER = "other"
NO_TOKENS = Usage()
NOTHING_RESERVED = (0, 0)
_CLIENT = re.compile(r"[A-Za-z][A-Za-z0-9._-]*")


class UsageEntry(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What one request to an upstream used."""

    at: int
    """When it ended, in seconds since 1970."""
    owner: str
    """The name of the key; empty for the gateway's own keys."""
    backend: str
    model: str
    client: str
    status: Status
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    reasoning: int = 0
    cost: int | None = None
    """The cost in billionths; None if it is unknown."""
    is_estimated: bool = False
    """Whether the tokens are an estimate, because the upstream did not report them."""

    @property
    def tokens(self) -> int:
        """The number of tokens that count against limits."""
        return self.input + self.output + self.cache_read + self.cache_write


Write = Callable[[UsageEntry], int]
"""Records an entry. Returns the number of the segment of the spool that contains it."""
Estimate = Callable[[], int]
"""Returns an estimate of the number of tokens in a prompt."""


class Meter:
    """Opens a charge for each request. `now` returns the Unix time."""

    def __init__(
        self,
        accounts: Accounts,
        prices: PriceTable,
        write: Write,
        *,
        now: Callable[[], float],
    ) -> None:
        self.accounts = accounts
        self._prices = prices
        self._write = write
        self._now = now
        self._models = _Names(MAX_MODEL)
        self._known: BoundedCache[tuple[str, str], tuple[Price | None, str]] = BoundedCache(MAX_NAMES)
        """The price of a model and the name under which it is recorded, by backend and model."""
        self._clients = _Names(MAX_CLIENT)
        self._clients_by_agent: BoundedCache[tuple[str, str], str] = BoundedCache(MAX_NAMES)
        self._series: dict[tuple[str, str], list[int]] = {}
        self.is_active = True
        """Whether usage is recorded and limits are checked."""

    def open(self, owner: str, backend: str, model: str, client: str, estimate: Estimate) -> "Charge":
        """Admit a request. Raise GatewayError if a limit of its key is exceeded. The caller must settle the charge."""
        known = self._known.get((backend, model))
        if known is None:
            known = self._prices.find(backend, model), self._models.known(model.partition("?")[0])
            self._known.put((backend, model), known)
        price, name = known
        account = self.accounts.get(owner)
        reserved = NOTHING_RESERVED
        if account is not None and account.needs_estimate:
            tokens = estimate()
            reserved = (tokens, 0 if price is None else tokens * price.input)
            self.accounts.admit(account, *reserved)
        return Charge(self, account, price, reserved, (owner, backend, name, client))

    def client_name(self, user_agent: str, frontend: str) -> str:
        """Return the name of a client program: the beginning of its user agent, or else of the API that it uses."""
        found = self._clients_by_agent.get((user_agent, frontend))
        if found is None:
            match = _CLIENT.match(user_agent)
            found = self._clients.known(match[0] if match else frontend)
            self._clients_by_agent.put((user_agent, frontend), found)
        return found

    def record(self, charge: "Charge", status: Status, usage: Usage, *, is_estimated: bool) -> None:
        """Write the entry of a request that has ended, and count it against the limits of its key."""
        price, now = charge.price, self._now()
        if _is_odd(usage):
            usage = _bounded(usage)
        is_unused = status != "ok" and usage == NO_TOKENS
        cost = 0 if is_unused else None if price is None else price.cost(usage)
        entry = UsageEntry(
            int(now),
            *charge.labels,
            status,
            usage.input,
            usage.output,
            usage.cache_read,
            usage.cache_write,
            usage.reasoning,
            cost,
            is_estimated,
        )
        segment = self._write(entry)
        if charge.account is not None:
            charge.account.settle(charge.reserved, Amount(entry.tokens, cost or 0, 1), segment, now)
        self._count(entry)

    def _count(self, entry: UsageEntry) -> None:
        place = (entry.owner, f"{entry.backend}/{entry.model}")
        series = self._series.get(place)
        if series is None:
            if len(self._series) >= MAX_SERIES:
                place = (OTHER, OTHER)
            series = self._series.setdefault(place, [0] * 7)
        series[0] += 1
        series[1] += entry.input
        series[2] += entry.output
        series[3] += entry.cache_read
        series[4] += entry.cache_write
        if entry.cost is None:
            series[6] += 1
        else:
            series[5] += entry.cost

    def metric_lines(self) -> Iterator[str]:
        """Yield the usage by key and model since the process started, in the Prometheus text format."""
        series = [(f'key="{label(owner)}",model="{label(model)}"', row) for (owner, model), row in self._series.items()]
        series.sort()
        yield from head("tieline_usage_requests_total", "counter", "Requests by key and model.")
        for labels, row in series:
            yield f"tieline_usage_requests_total{{{labels}}} {row[0]}"
        yield from head("tieline_usage_tokens_total", "counter", "Tokens by key, model and kind.")
        for labels, row in series:
            for place, kind in enumerate(("input", "output", "cache_read", "cache_write"), 1):
                yield f'tieline_usage_tokens_total{{{labels},kind="{kind}"}} {row[place]}'
        yield from head("tieline_usage_cost_total", "counter", "Known cost by key and model, in dollars.")
        for labels, row in series:
            yield f"tieline_usage_cost_total{{{labels}}} {row[5] / NANO:.9f}"
        yield from head("tieline_usage_unpriced_total", "counter", "Requests of unknown cost by key and model.")
        for labels, row in series:
            yield f"tieline_usage_unpriced_total{{{labels}}} {row[6]}"


def _is_odd(usage: Usage) -> bool:
    """Return whether the numbers that an upstream reported cannot be true, and might not fit into the database."""
    numbers = (usage.input, usage.output, usage.cache_read, usage.cache_write, usage.reasoning)
    return min(numbers) < 0 or max(numbers) > MAX_TOKENS


def _bounded(usage: Usage) -> Usage:
    numbers = (usage.input, usage.output, usage.cache_read, usage.cache_write, usage.reasoning)
    kept = [min(max(0, number), MAX_TOKENS) for number in numbers]
    return Usage(input=kept[0], output=kept[1], cache_read=kept[2], cache_write=kept[3], reasoning=kept[4])


class Charge:
    """What one request uses. It is settled once: later calls do nothing."""

    __slots__ = ("_is_settled", "_meter", "account", "labels", "price", "reserved")

    def __init__(
        self,
        meter: Meter,
        account: Account | None,
        price: Price | None,
        reserved: tuple[int, int],
        labels: tuple[str, str, str, str],
    ) -> None:
        self._meter = meter
        self._is_settled = False
        self.account = account
        self.price = price
        self.reserved = reserved
        """The estimated tokens and their cost."""
        self.labels = labels
        """The owner, backend, model and client."""

    @property
    def is_settled(self) -> bool:
        """Whether the entry has been written."""
        return self._is_settled

    def settle(self, status: Status, usage: Usage, *, is_estimated: bool = False) -> None:
        """Write the entry. This returns after the entry has been passed to the operating system."""
        if not self._is_settled:
            self._is_settled = True
            self._meter.record(self, status, usage, is_estimated=is_estimated)


class _Names:
    """Limits the number and the length of names that clients choose."""

    def __init__(self, length: int) -> None:
        self._length = length
        self._known: set[str] = set()

    def known(self, name: str) -> str:
        """Return the name, shortened, or `other` if there are too many names."""
        name = name[: self._length].encode("utf-8", "replace").decode()
        if name not in self._known:
            if len(self._known) >= MAX_NAMES:
                return OTHER
            self._known.add(name)
        return name
