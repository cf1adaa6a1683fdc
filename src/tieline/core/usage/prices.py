"""Prices of models, by name. A model without a price has an unknown cost, which is never counted as zero."""

import re
from collections.abc import Collection, Mapping
from fnmatch import translate
from typing import NamedTuple

from tieline.model.events import Usage

MAX_NAME = 256
"""Names longer than this have no price. There is a limit because clients can send names of any length."""
PER_MILLION = 1000
"""Billionths per token for one unit of the currency per million tokens."""


class Price(NamedTuple):
    """What one token of each kind costs, in billionths of a unit of the currency."""

    input: int
    output: int
    cache_read: int
    cache_write: int

    def cost(self, usage: Usage) -> int:
        """Return what these tokens cost. Thinking is part of the output."""
        return (
            self.input * usage.input
            + self.output * usage.output
            + self.cache_read * usage.cache_read
            + self.cache_write * usage.cache_write
        )


FREE = Price(0, 0, 0, 0)


def per_million(
    input_: float, output: float, cache_read: float | None = None, cache_write: float | None = None
) -> Price:
    """Return a price that is given per million tokens. Without a price of its own, cached input costs as other input.

    Amounts below a thousandth per million tokens are rounded.
    """
    read = input_ if cache_read is None else cache_read
    write = input_ if cache_write is None else cache_write
    return Price(*(round(price * PER_MILLION) for price in (input_, output, read, write)))


class PriceTable:
    """Finds the price of a model.

    `configured` maps patterns of full names (`<backend>/<model>`) to prices; the first that matches counts. `families`
    does the same for upstreams' own names of models, in lower case and without a path. It applies only to the backends
    in `upstreams`, which may change later: other backends have no list prices. Models of the backends in `free` cost
    nothing.
    """

    def __init__(
        self,
        configured: Mapping[str, Price] | None = None,
        families: Mapping[str, Price] | None = None,
        upstreams: Collection[str] = (),
        free: Collection[str] = (),
    ) -> None:
        self._configured = _compiled(configured or {})
        self._families = _compiled(families or {})
        self._upstreams = upstreams
        self._free = free

    def find(self, backend: str, model: str) -> Price | None:
        """Return the price of a backend's model, or None if it is unknown."""
        if len(model) > MAX_NAME:
            return None
        name = model.partition("?")[0]
        price = _first(self._configured, f"{backend}/{name}")
        if price is None and backend in self._free:
            return FREE
        if price is None and backend in self._upstreams:
            return _first(self._families, name.rpartition("/")[2].lower())
        return price


_Compiled = list[tuple[re.Pattern[str], Price]]


def _compiled(prices: Mapping[str, Price]) -> _Compiled:
    return [(re.compile(translate(pattern)), price) for pattern, price in prices.items()]


def _first(prices: _Compiled, name: str) -> Price | None:
    return next((price for pattern, price in prices if pattern.match(name)), None)
