"""Measures what each request uses: checks the limits of its key, and writes an entry when it has ended."""

import re
from collections.abc import Callable
from typing import NamedTuple

from tieline.core.usage.accounts import Account, Accounts
from tieline.core.usage.prices import Price, PriceTable
from tieline.core.usage.sums import OTHER, Status, UsageEntry
from tieline.model.bounded_cache import BoundedCache
from tieline.model.events import Usage

MAX_NAMES = 1000
"""Number of different models, and of different clients, that a process distinguishes. All others are `other`."""
MAX_MODEL = 200
MAX_TOKENS = (1 << 30) - 1
"""Maximum number of tokens of one kind in a request. Higher numbers are mistakes of an upstream.

All bits are set, so several numbers can be checked at once.
"""
MAX_CLIENT = 40
NO_TOKENS = Usage()
_CLIENT = re.compile(r"[A-Za-z][A-Za-z0-9._-]*")


Write = Callable[[UsageEntry], int]
"""Records an entry. Returns the number of the segment of the spool that contains it."""
Estimate = Callable[[], int]
"""Returns an estimate of the number of tokens in a prompt."""


class _Labels(NamedTuple):
    """The price and the recorded names for the requests of one client to one model."""

    price: Price | None
    names: tuple[str, str, str]
    """The backend, model and client, as they are recorded."""


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
        self.write = write
        self.now = now
        self._models = _Names(MAX_MODEL)
        self._clients = _Names(MAX_CLIENT)
        self._labels: BoundedCache[tuple[str, str, str, str], _Labels] = BoundedCache(MAX_NAMES)
        """The labels by backend, model, user agent and frontend."""
        self.is_active = True
        """Whether usage is recorded and limits are checked."""

    def open(
        self, owner: str, backend: str, model: str, user_agent: str, frontend: str, estimate: Estimate
    ) -> "Charge":
        """Admit a request. Raise GatewayError if a limit of its key is exceeded. The caller must settle the charge."""
        known = self._labels.get((backend, model, user_agent, frontend))
        if known is None:
            known = self._find_labels(backend, model, user_agent, frontend)
        account = self.accounts.get(owner)
        tokens = cost = 0
        if account is not None and account.needs_estimate:
            tokens = estimate()
            cost = 0 if known.price is None else tokens * known.price.input
            self.accounts.admit(account, tokens, cost)
        return Charge(self, owner, known, account, tokens, cost)

    def _find_labels(self, backend: str, model: str, user_agent: str, frontend: str) -> _Labels:
        """Find the price of a model, and the names under which a request is recorded.

        A client is named by the beginning of its user agent, or else by the API that it uses.
        """
        match = _CLIENT.match(user_agent)
        client = self._clients.known(match[0] if match else frontend)
        names = (backend, self._models.known(model.partition("?")[0]), client)
        found = _Labels(self._prices.find(backend, model), names)
        self._labels.put((backend, model, user_agent, frontend), found)
        return found


class Charge:
    """What one request uses: an estimate until `settle` is called. Only the first call of `settle` has an effect."""

    __slots__ = ("_account", "_cost", "_labels", "_meter", "_owner", "_tokens", "is_settled")

    def __init__(
        self, meter: Meter, owner: str, labels: _Labels, account: Account | None, tokens: int, cost: int
    ) -> None:
        self._meter = meter
        self._owner = owner
        self._labels = labels
        self._account = account
        self._tokens = tokens
        """The estimated number of tokens, which is reserved in the account."""
        self._cost = cost
        """Their cost."""
        self.is_settled = False
        """Whether the entry has been written."""

    def settle(self, status: Status, usage: Usage, *, is_estimated: bool = False) -> None:
        """Write the entry, and count it against the limits of the key.

        This returns after the entry has been passed to the operating system.
        """
        if self.is_settled:
            return
        self.is_settled = True
        meter, (price, names) = self._meter, self._labels
        if not 0 <= (usage.input | usage.output | usage.cache_read | usage.cache_write | usage.reasoning) <= MAX_TOKENS:
            usage = _bounded(usage)
        counts = (usage.input, usage.output, usage.cache_read, usage.cache_write)
        tokens, cost = sum(counts), None
        if price is not None:
            cost = price.cost(usage)
        elif status != "ok" and not tokens:
            cost = 0  # the upstream did nothing
        now = meter.now()
        entry = UsageEntry(int(now), self._owner, *names, status, *counts, usage.reasoning, cost, is_estimated)
        segment = meter.write(entry)
        if self._account is not None:
            self._account.settle(self._tokens, self._cost, tokens, cost or 0, segment, now)


def _bounded(usage: Usage) -> Usage:
    """Replace numbers that cannot be true. They might not fit into the database."""
    numbers = (usage.input, usage.output, usage.cache_read, usage.cache_write, usage.reasoning)
    kept = [min(max(0, number), MAX_TOKENS) for number in numbers]
    return Usage(input=kept[0], output=kept[1], cache_read=kept[2], cache_write=kept[3], reasoning=kept[4])


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
