"""List prices of well-known model families, in dollars per million tokens.

The table contains only models whose vendor publishes a price. Models with open weights are missing: their price
depends on the server that runs them. Discounts, surcharges for long prompts and longer cache lifetimes are ignored.
`[prices."PATTERN"]` in the configuration overrides every entry. A model without a price has an unknown cost.
"""

from collections.abc import Collection, Mapping

from tieline.app.config import PriceSettings
from tieline.core.usage.prices import Price, PriceTable, per_million

AS_OF = "2026-11"
"""The month to which the entries refer. Later price changes are not included."""
FREE = ("demo",)
"""Backends whose models cost nothing."""

_OPUS = per_million(15, 75, 1.5, 18.75)
_OPUS_SINCE_4_5 = per_million(5, 25, 0.5, 6.25)
_SONNET = per_million(3, 15, 0.3, 3.75)
_FABLE_5 = per_million(10, 50, 1, 12.5)
_FABLE_5_1 = per_million(10, 50, 0.25, 12.5)
_GPT_5 = per_million(1.25, 10, 0.125)
_GPT_5_2 = per_million(1.75, 14, 0.175)
_GEMINI_3_PRO = per_million(2, 12, 0.2)

# Prices that one number cannot express are omitted on purpose. Claude Haiku 5.5 costs five times as much if the prompt
# has more than 100,000 tokens. GPT-5.6 Sol (until 2026-11-21 or later) and Gemini 3.6 to 3.8 Flash (until 2026-12-31)
# have temporary prices.
_MODELS: Mapping[str, Price] = {
    "claude-3-opus": _OPUS,
    "claude-3-opus-latest": _OPUS,
    "claude-opus-4": _OPUS,
    "claude-opus-4[-.][01]": _OPUS,
    "claude-opus-4[-.][5-8]": _OPUS_SINCE_4_5,
    "claude-opus-5": _OPUS_SINCE_4_5,
    "claude-opus-5[-.]5": per_million(4, 20, 0.2, 5),
    "claude-3-[57]-sonnet": _SONNET,
    "claude-3-[57]-sonnet-latest": _SONNET,
    "claude-sonnet-4": _SONNET,
    "claude-sonnet-4[-.][056]": _SONNET,
    "claude-sonnet-5": per_million(2, 10, 0.2, 2.5),
    "claude-sonnet-5[-.]5": per_million(2, 10, 0.1, 2.5),
    "claude-3-5-haiku": per_million(0.8, 4, 0.08, 1),
    "claude-3-5-haiku-latest": per_million(0.8, 4, 0.08, 1),
    "claude-3-haiku": per_million(0.25, 1.25, 0.03, 0.3),
    "claude-haiku-4[-.]5": per_million(1, 5, 0.1, 1.25),
    "claude-fable-5": _FABLE_5,
    "claude-fable-5[-.]1": _FABLE_5_1,
    "claude-fable-5[-.]2": per_million(8, 40, 0.2, 10),
    "claude-mythos-5": _FABLE_5,
    "claude-mythos-5[-.]1": _FABLE_5_1,
    "gpt-4.1-nano": per_million(0.1, 0.4, 0.025),
    "gpt-4.1-mini": per_million(0.4, 1.6, 0.1),
    "gpt-4.1": per_million(2, 8, 0.5),
    "gpt-4o-mini": per_million(0.15, 0.6, 0.075),
    "gpt-4o-2024-05-13": per_million(5, 15),
    "gpt-4o": per_million(2.5, 10, 1.25),
    "gpt-5-nano": per_million(0.05, 0.4, 0.005),
    "gpt-5-mini": per_million(0.25, 2, 0.025),
    "gpt-5": _GPT_5,
    "gpt-5-codex": _GPT_5,
    "gpt-5.1": _GPT_5,
    "gpt-5.1-codex": _GPT_5,
    "gpt-5.1-codex-max": _GPT_5,
    "gpt-5.1-codex-mini": per_million(0.25, 2, 0.025),
    "gpt-5.2": _GPT_5_2,
    "gpt-5.2-codex": _GPT_5_2,
    "gpt-5.3-codex": _GPT_5_2,
    "gpt-5.4": per_million(2.5, 15, 0.25),
    "gpt-5.4-mini": per_million(0.75, 4.5, 0.075),
    "gpt-5.4-nano": per_million(0.2, 1.25, 0.02),
    "gpt-5.5": per_million(5, 30, 0.5),
    "gpt-5.6-terra": per_million(2, 12, 0.2, 2.5),
    "gpt-5.6-luna": per_million(0.2, 1.2, 0.02, 0.25),
    "gpt-6-astra": per_million(10, 50, 1, 12.5),
    "gpt-6-sol": per_million(2, 10, 0.2, 2.5),
    "gpt-6-luna": per_million(0.1, 0.5, 0.01, 0.125),
    "gpt-6.1-sol": per_million(2, 10, 0.1, 2.5),
    "gpt-6.1-terra": per_million(1, 5, 0.05, 1.25),
    "o3": per_million(2, 8, 0.5),
    "o3-mini": per_million(1.1, 4.4, 0.55),
    "o4-mini": per_million(1.1, 4.4, 0.275),
    "gemini-2.5-flash-lite": per_million(0.1, 0.4, 0.01),
    "gemini-2.5-flash-lite-preview-0[69]-*[0-9]": per_million(0.1, 0.4, 0.01),
    "gemini-2.5-flash": per_million(0.3, 2.5, 0.03),
    "gemini-2.5-pro": per_million(1.25, 10, 0.125),
    "gemini-3-flash-preview": per_million(0.5, 3, 0.05),
    "gemini-3-pro-preview": _GEMINI_3_PRO,
    "gemini-3.1-pro-preview": _GEMINI_3_PRO,
    "gemini-3.1-flash-lite": per_million(0.25, 1.5, 0.025),
    "gemini-3.1-flash-lite-preview": per_million(0.25, 1.5, 0.025),
    "gemini-3.5-flash": per_million(1.5, 9, 0.15),
    "gemini-3.5-flash-lite": per_million(0.3, 2.5, 0.03),
}
"""Patterns for the names of models. Other variants, such as `-pro`, `-fast` or `:batch`, have prices of their own."""

LIST_PRICES: Mapping[str, Price] = {
    pattern: price for name, price in _MODELS.items() for pattern in (name, f"{name}[-@]20*[0-9]")
}
"""Patterns for the upstreams' own names of models, with and without a date. The first one that matches counts."""


def price_table(configured: Mapping[str, PriceSettings], upstreams: Collection[str]) -> PriceTable:
    """Return the prices of all models. List prices apply to the models of `upstreams`, which may change later."""
    prices = {
        pattern: per_million(price.input, price.output, price.cache_read, price.cache_write)
        for pattern, price in configured.items()
    }
    return PriceTable(prices, LIST_PRICES, upstreams, FREE)
