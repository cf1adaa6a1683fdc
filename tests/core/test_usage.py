"""Tests of prices, of the limits of keys, and of the meter that writes one entry for each request."""

from datetime import UTC, datetime

import pytest

from tests.each import each
from tieline.app.build.prices import AS_OF, LIST_PRICES, price_table
from tieline.app.config import PriceSettings
from tieline.core.usage.accounts import Accounts, TokenBucket
from tieline.core.usage.limits import NANO, Amount, KeyLimits, money
from tieline.core.usage.meter import MAX_TOKENS, Meter
from tieline.core.usage.prices import FREE, per_million
from tieline.core.usage.sums import UsageEntry
from tieline.model.errors import GatewayError
from tieline.model.events import Usage

NOON = datetime(2026, 11, 18, 12, tzinfo=UTC).timestamp()


class Clock:
    """A clock that a test sets."""

    def __init__(self, now: float = NOON) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


class Stand:
    """A meter for the key `alice`, and the entries it has written."""

    def __init__(self, **limits: int) -> None:
        self.clock = Clock()
        self.accounts = Accounts(self.clock, self.clock)
        self.accounts.set_limits("alice", KeyLimits(**limits))
        self.entries: list[UsageEntry] = []
        prices = price_table({"up/dear": PriceSettings(input=2, output=10)}, ["up"])
        self.meter = Meter(self.accounts, prices, self._write, now=self.clock)
        self.segment = 1

    def _write(self, entry: UsageEntry) -> int:
        self.entries.append(entry)
        return self.segment

    def request(self, usage: Usage, model: str = "dear", estimate: int = 0) -> None:
        charge = self.meter.open("alice", "up", model, "tests", "chat", lambda: estimate)
        charge.settle("ok", usage)

    def refusal(self, estimate: int = 0) -> GatewayError:
        with pytest.raises(GatewayError) as caught:
            self.meter.open("alice", "up", "dear", "tests", "chat", lambda: estimate)
        return caught.value


# ── Prices ───────────────────────────────────────────────────────────────────────────────────────


def test_cost_is_the_sum_over_all_kinds_of_tokens() -> None:
    price = per_million(3, 15, 0.3, 3.75)
    usage = Usage(input=1000, output=100, cache_read=10_000, cache_write=2000, reasoning=50)
    assert price.cost(usage) == round((0.003 + 0.0015 + 0.003 + 0.0075) * NANO)


@each(
    ("backend", "model", "price"),
    [
        ("anthropic", "claude-sonnet-4-5-20250929", per_million(3, 15, 0.3, 3.75)),
        ("anthropic", "claude-opus-4-5", per_million(5, 25, 0.5, 6.25)),
        ("openrouter", "anthropic/claude-haiku-4.5", per_million(1, 5, 0.1, 1.25)),
        ("openrouter", "openai/GPT-5-mini", per_million(0.25, 2, 0.025)),
        ("openrouter", "my/own", per_million(1, 1)),
        ("openrouter", "gpt-5-mini?mode=plan", per_million(0.25, 2, 0.025)),
        ("anthropic", "claude-opus-4-20250514", per_million(15, 75, 1.5, 18.75)),
        ("openrouter", "anthropic/claude-opus-4.8", per_million(5, 25, 0.5, 6.25)),
        ("openrouter", "anthropic/claude-opus-4.8-fast", None),
        ("anthropic", "claude-opus-5", per_million(5, 25, 0.5, 6.25)),
        ("anthropic", "claude-opus-5-5", per_million(4, 20, 0.2, 5)),
        ("anthropic", "claude-sonnet-4-6", per_million(3, 15, 0.3, 3.75)),
        ("anthropic", "claude-sonnet-5-5", per_million(2, 10, 0.1, 2.5)),
        ("anthropic", "claude-fable-5", per_million(10, 50, 1, 12.5)),
        ("anthropic", "claude-fable-5-2", per_million(8, 40, 0.2, 10)),
        ("anthropic", "claude-haiku-5-5", None),
        ("openrouter", "anthropic/claude-sonnet-4.6:batch", None),
        ("openrouter", "gpt-4o-2024-05-13", per_million(5, 15)),
        ("openrouter", "gpt-4o-2024-11-20", per_million(2.5, 10, 1.25)),
        ("openrouter", "gpt-5.1-codex-max", per_million(1.25, 10, 0.125)),
        ("openrouter", "gpt-5.2-2025-12-11", per_million(1.75, 14, 0.175)),
        ("openrouter", "gpt-5.2-pro", None),
        ("openrouter", "gpt-5.2-pro-2025-12-11", None),
        ("openrouter", "gpt-5.4-mini-2026-03-17", per_million(0.75, 4.5, 0.075)),
        ("openrouter", "gpt-5.6-sol", None),
        ("openrouter", "gpt-6.1-sol", per_million(2, 10, 0.1, 2.5)),
        ("openrouter", "gpt-6.1-sol-ultrafast", None),
        ("openrouter", "gemini-2.5-flash-lite-preview-09-2025", per_million(0.1, 0.4, 0.01)),
        ("openrouter", "gemini-2.5-flash-lite-preview-tts", None),
        ("openrouter", "gemini-3.1-pro-preview", per_million(2, 12, 0.2)),
        ("openrouter", "gemini-3.8-flash", None),
        ("anthropic", "claude-next", None),
        ("local", "gpt-5", None),
        ("cursor", "gpt-5", None),
        ("acp", "claude", None),
        ("demo", "scripted", FREE),
    ],
)
def test_a_price_comes_from_the_configuration_or_the_list_and_is_otherwise_unknown(
    backend: str, model: str, price: object
) -> None:
    configured = {"openrouter/my/*": PriceSettings(input=1, output=1)}
    assert price_table(configured, ["anthropic", "openrouter"]).find(backend, model) == price


def test_list_prices_have_a_date_and_no_entry_that_an_earlier_one_hides() -> None:
    datetime.strptime(AS_OF, "%Y-%m").replace(tzinfo=UTC)
    table = price_table({}, ["up"])
    for pattern, price in LIST_PRICES.items():
        if not set("*?[") & set(pattern):
            assert table.find("up", pattern) == price, pattern


@each(("cost", "text"), [(0, "$0.00"), (5 * NANO, "$5.00"), (NANO // 2, "$0.50"), (1234_000, "$0.001234")])
def test_money_keeps_the_digits_that_matter(cost: int, text: str) -> None:
    assert money(cost) == text


# ── Rates ────────────────────────────────────────────────────────────────────────────────────────


def test_an_amount_larger_than_the_bucket_needs_a_full_bucket_and_leaves_a_debt() -> None:
    clock = Clock()
    bucket = TokenBucket(60, clock)
    assert bucket.take(120) == 0
    assert bucket.take(1) == pytest.approx(61)
    clock.now += 61
    assert bucket.take(1) == 0


def test_tokens_per_minute_are_estimated_first_and_corrected_afterwards() -> None:
    stand = Stand(tokens_per_minute=100)
    stand.request(Usage(input=10, output=10), estimate=90)
    stand.request(Usage(input=70, output=60), estimate=80)
    error = stand.refusal(1)
    assert (error.status, error.code) == (429, "rate_limit_exceeded")
    assert error.message == "This key may use 100 tokens per minute. Try again in 31 s."
    assert error.retry_after == 31
    stand.clock.now += 31
    stand.request(Usage(), estimate=1)


def test_what_other_replicas_did_counts_against_the_rates() -> None:
    stand = Stand(requests_per_minute=10, tokens_per_minute=100)
    account = stand.accounts.get("alice")
    assert account is not None
    account.synced({}, 0)
    stand.request(Usage(input=20))
    account.synced({"2026-11-18": Amount(80, 0, 10)}, 1)
    with pytest.raises(GatewayError):
        stand.accounts.count_request("alice", 2)
    assert "tokens per minute" in stand.refusal(30).message


# ── Budgets ──────────────────────────────────────────────────────────────────────────────────────


@each(
    ("limits", "text", "reset"),
    [
        ({"tokens_per_day": 1000}, "1000 tokens per day", "2026-11-19T00:00:00Z"),
        ({"tokens_per_month": 1000}, "1000 tokens per month", "2026-12-01T00:00:00Z"),
        ({"cost_per_day": 5_000_000}, "$0.005 per day", "2026-11-19T00:00:00Z"),
        ({"cost_per_month": 5_000_000}, "$0.005 per month", "2026-12-01T00:00:00Z"),
    ],
)
def test_a_used_budget_is_refused_until_its_period_ends(limits: dict[str, int], text: str, reset: str) -> None:
    stand = Stand(**limits)
    stand.request(Usage(input=499))
    stand.request(Usage(input=1, output=500))
    error = stand.refusal()
    assert (error.status, error.code) == (429, "budget_exceeded")
    assert error.message == f"This key may use {text}, which is used up. It resets at {reset}."
    assert error.retry_after == datetime.fromisoformat(reset).timestamp() - NOON
    assert ("x-should-retry", "false") in error.headers
    stand.clock.now += error.retry_after
    stand.request(Usage(input=1))


def test_a_budget_counts_what_the_ledger_knows_what_it_does_not_know_yet_and_what_is_in_progress() -> None:
    stand = Stand(tokens_per_day=1000)
    account = stand.accounts.get("alice")
    assert account is not None
    account.synced({"2026-11-18": Amount(500), "2026-11-17": Amount(9000)}, 0)
    stand.request(Usage(input=200))
    stand.segment = 2
    stand.request(Usage(input=99))
    running = stand.meter.open("alice", "up", "dear", "tests", "chat", lambda: 201)
    stand.refusal()
    running.settle("ok", Usage(input=100))
    stand.request(Usage(input=1))
    account.synced({"2026-11-18": Amount(700)}, 1)
    stand.request(Usage(input=100))
    stand.refusal()


def test_requests_of_unknown_cost_do_not_count_against_a_budget_in_money() -> None:
    stand = Stand(cost_per_day=1)
    stand.request(Usage(input=10**6), model="unknown")
    assert stand.entries[-1].cost is None
    stand.request(Usage(input=1))
    stand.refusal()


def test_a_key_whose_usage_was_never_known_is_refused_when_the_ledger_fails() -> None:
    stand = Stand(tokens_per_day=1000)
    stand.request(Usage(input=10))
    stand.accounts.set_reachable(False)
    assert stand.refusal().code == "usage_unknown"


def test_without_the_ledger_a_replica_uses_only_its_share_of_what_was_left() -> None:
    stand = Stand(tokens_per_day=1000, requests_per_minute=9)
    account = stand.accounts.get("alice")
    assert account is not None
    stand.accounts.replicas = lambda: 3
    stand.accounts.set_reachable(False)
    assert stand.refusal().status == 503
    account.synced({"2026-11-18": Amount(400)}, 0)
    stand.request(Usage(input=150))
    stand.request(Usage(input=50))
    assert stand.refusal().code == "budget_exceeded"
    for _ in range(3):
        stand.accounts.count_request("alice")
    with pytest.raises(GatewayError):
        stand.accounts.count_request("alice")
    stand.accounts.set_reachable(True)
    stand.request(Usage(input=399))


# ── Entries ──────────────────────────────────────────────────────────────────────────────────────


def test_an_entry_says_who_used_what_and_what_it_cost() -> None:
    stand = Stand()
    agent = "claude-cli/2.1 (external, cli)"
    charge = stand.meter.open("alice", "up", "dear?mode=plan", agent, "messages", lambda: 0)
    charge.settle("failed", Usage(input=5, output=4, cache_read=3, cache_write=2, reasoning=1))
    assert stand.entries == [
        UsageEntry(int(NOON), "alice", "up", "dear", "claude-cli", "failed", 5, 4, 3, 2, 1, 60_000)
    ]


@each(("user_agent", "name"), [("", "chat"), ("curl/8", "curl"), ("(odd)", "chat"), ("a" * 99, "a" * 40)])
def test_a_client_is_named_by_its_user_agent(user_agent: str, name: str) -> None:
    stand = Stand()
    stand.meter.open("alice", "up", "dear", user_agent, "chat", lambda: 0).settle("ok", Usage())
    assert stand.entries[0].client == name


def test_clients_cannot_create_any_number_of_names() -> None:
    stand = Stand()
    for number in range(1200):
        charge = stand.meter.open("", "up", f"model-{number}", f"agent-{number}", "chat", lambda: 0)
        charge.settle("ok", Usage(input=1))
    assert len({entry.model for entry in stand.entries}) == 1001
    assert stand.entries[-1].model == stand.entries[-1].client == "other"


def test_numbers_that_cannot_be_true_do_not_reach_the_ledger() -> None:
    stand = Stand()
    stand.request(Usage(input=-5, output=1 << 70))
    assert (stand.entries[-1].input, stand.entries[-1].output) == (0, MAX_TOKENS)
