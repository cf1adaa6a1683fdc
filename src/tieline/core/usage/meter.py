"""Measures what each request uses: checks the limits of its key, and writes an entry when it has ended."""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import astuple

from tieline.core.usage.accounts import Account, Accounts
from tieline.core.usage.prices import Price, PriceTable
from tieline.core.usage.sums import OTHER, Status, UsageEntry
from tieline.model.events import Usage

MAX_NAMES = 1000
"""Number of different models, and of different clients, that a process distinguishes. All others are `other`."""
MAX_MODEL = 200
MAX_TOKENS = (1 << 30) - 1
"""Maximum number of tokens of one kind in a request. Higher numbers are mistakes of an upstream."""
MAX_CLIENT = 40
NO_TOKENS = Usage()
NOTHING_RESERVED = (0, 0)
_CLIENT = re.compile(r"[A-Za-z][A-Za-z0-9._-]*")


Write = Callable[[UsageEntry], int]
"""Records an entry. Returns the number of the segment of the spool that contains it."""
Estimate = Callable[[], int]
"""Returns an estimate of the number of tokens in a prompt."""


_Counts = tuple[int, int, int, int, int]
"""The fields of a `Usage`."""


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
        self._labels = lru_cache(MAX_NAMES)(self._find_labels)
        self.is_active = True
        """Whether usage is recorded and limits are checked."""

    def open(
        self, owner: str, backend: str, model: str, user_agent: str, frontend: str, estimate: Estimate
    ) -> "Charge":
        """Admit a request. Raise GatewayError if a limit of its key is exceeded. The caller must settle the charge."""
        labels = self._labels(backend, model, user_agent, frontend)
        account = self.accounts.get(owner)
        reserved = NOTHING_RESERVED
        if account is not None and account.needs_estimate:
            tokens = estimate()
            reserved = (tokens, 0 if labels.price is None else tokens * labels.price.input)
            account.admit(*reserved)
        return Charge(self, owner, labels, account, reserved)

    def _find_labels(self, backend: str, model: str, user_agent: str, frontend: str) -> _Labels:
        """Find the price of a model, and the names under which a request is recorded.

        A client is named by the beginning of its user agent, or else by the API that it uses.
        """
        match = _CLIENT.match(user_agent)
        client = self._clients.known(match[0] if match else frontend)
        names = (backend, self._models.known(model.partition("?")[0]), client)
        return _Labels(self._prices.find(backend, model), names)


class Charge(Struct, frozen=True, eq=False):
    """What one request uses: an estimate until `settle` is called, which must happen exactly once."""

    meter: Meter
    owner: str
    labels: _Labels
    account: Account | None
    """The account of the key; None if the key has no limits."""
    reserved: tuple[int, int]
    """The estimated number of tokens, and their cost, which are reserved in the account."""

    def settle(self, status: Status, usage: Usage, *, is_estimated: bool = False) -> None:
        """Write the entry, and count it against the limits of the key.

        This returns after the entry has been passed to the operating system.
        """
        meter, (price, names) = self.meter, self.labels
        counts: _Counts = astuple(usage)
        if min(counts) < 0 or max(counts) > MAX_TOKENS:
            usage = _bounded(usage)
            counts = astuple(usage)
        tokens, cost = sum(counts) - usage.reasoning, None
        if price is not None:
            cost = price.cost(usage)
        elif status != "ok" and not tokens:
            cost = 0  # the upstream did nothing
        now = meter.now()
        segment = meter.write(UsageEntry(int(now), self.owner, *names, status, *counts, cost, is_estimated))
        if self.account is not None:
            self.account.settle(self.reserved, tokens, cost or 0, segment, now)


def _bounded(usage: Usage) -> Usage:
    """Replace numbers that cannot be true. They might not fit into the database."""
    kept = [min(max(0, number), MAX_TOKENS) for number in astuple(usage)]
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
