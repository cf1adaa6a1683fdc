"""List prices of well-known model families, in dollars per million tokens.

The table contains only models whose vendor publishes a price. Models with open weights are missing: the server that
runs them decides. Discounts, surcharges for long prompts and longer cache lifetimes are not considered.
`[prices."PATTERN"]` in the configuration overrides every entry. A model without a price has an unknown cost.
"""

from collections.abc import Collection, Mapping

from tieline.app.config import PriceSettings
from tieline.core.usage.prices import Price, PriceTable, per_million

AS_OF = "2025-11"
"""The month to which the entries refer. Later changes of prices are missing."""
FREE = ("demo",)
"""Backends whose models cost nothing."""

_OPUS = per_million(15, 75, 1.5, 18.75)
_OPUS_SINCE_4_5 = per_million(5, 25, 0.5, 6.25)
_SONNET = per_million(3, 15, 0.3, 3.75)

LIST_PRICES: Mapping[str, Price] = {
    "claude-3-opus*": _OPUS,
    "claude-opus-4-0*": _OPUS,
    "claude-opus-4-1*": _OPUS,
    "claude-opus-4-2025*": _OPUS,
    "claude-opus-4[-.][56]*": _OPUS_SINCE_4_5,
    "claude-3-[57]-sonnet*": _SONNET,
    "claude-sonnet-4*": _SONNET,
    "claude-3-5-haiku*": per_million(0.8, 4, 0.08, 1),
    "claude-3-haiku*": per_million(0.25, 1.25, 0.03, 0.3),
    "claude-haiku-4[-.]5*": per_million(1, 5, 0.1, 1.25),
    "gpt-4.1-nano*": per_million(0.1, 0.4, 0.025),
    "gpt-4.1-mini*": per_million(0.4, 1.6, 0.1),
    "gpt-4.1*": per_million(2, 8, 0.5),
    "gpt-4o-mini": per_million(0.15, 0.6, 0.075),
    "gpt-4o-mini-2024*": per_million(0.15, 0.6, 0.075),
    "gpt-4o": per_million(2.5, 10, 1.25),
    "gpt-4o-2024-[01][81]*": per_million(2.5, 10, 1.25),
    "gpt-5-nano*": per_million(0.05, 0.4, 0.005),
    "gpt-5-mini*": per_million(0.25, 2, 0.025),
    "gpt-5": per_million(1.25, 10, 0.125),
    "gpt-5-2025*": per_million(1.25, 10, 0.125),
    "gpt-5-codex": per_million(1.25, 10, 0.125),
    "gpt-5.1": per_million(1.25, 10, 0.125),
    "gpt-5.1-2025*": per_million(1.25, 10, 0.125),
    "gpt-5.1-codex": per_million(1.25, 10, 0.125),
    "gpt-5.1-codex-mini": per_million(0.25, 2, 0.025),
    "o3": per_million(2, 8, 0.5),
    "o3-2025*": per_million(2, 8, 0.5),
    "o3-mini*": per_million(1.1, 4.4, 0.55),
    "o4-mini": per_million(1.1, 4.4, 0.275),
    "o4-mini-2025*": per_million(1.1, 4.4, 0.275),
    "gemini-2.5-flash-lite*": per_million(0.1, 0.4, 0.01),
    "gemini-2.5-flash": per_million(0.3, 2.5, 0.03),
    "gemini-2.5-pro": per_million(1.25, 10, 0.125),
}
"""Patterns for the upstreams' own names of models. The first one that matches counts."""


def price_table(configured: Mapping[str, PriceSettings], upstreams: Collection[str]) -> PriceTable:
    """Return the prices of all models. List prices apply to the models of `upstreams`, which may change later."""
    prices = {
        pattern: per_million(price.input, price.output, price.cache_read, price.cache_write)
        for pattern, price in configured.items()
    }
    return PriceTable(prices, LIST_PRICES, upstreams, FREE)
