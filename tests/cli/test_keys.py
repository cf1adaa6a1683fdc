"""Tests of `tieline keys` and `tieline usage`, on a database without a gateway."""

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.each import each
from tieline.app.config import Config, ConfigError, KeySettings
from tieline.cli import keys, usage
from tieline.cli.main import _parser
from tieline.core.usage.limits import day_of
from tieline.model.errors import GatewayError

ENV = {"TIELINE_KEY": "own-key-of-the-gateway"}
Run = Callable[..., str]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run a command and return what it printed."""

    def ran(*arguments: str, config: Config | None = None, **env: str) -> str:
        options = _parser().parse_args(arguments)
        said: list[str] = []
        command = keys.run if arguments[0] == "keys" else usage.run
        command(options, config or Config(), {"XDG_STATE_HOME": str(tmp_path), **(env or ENV)}, said.append)
        return "\n".join(said)

    return ran


def test_a_key_is_shown_once_and_listed_with_its_rules(run: Run) -> None:
    assert run("keys", "list") == "No keys are stored. `tieline keys create NAME` creates one."
    limits = ("--cost-per-month", "12.5", "--requests-per-minute", "60", "--expires", "2099-12-31")
    shown = run("keys", "create", "alice", "--models", "demo/*", "--tools", *limits)
    key, *_ = shown.splitlines()
    assert key.startswith("sk-tieline-")
    rules = "models demo/*, tools, page, 60 requests per minute, $12.5 per month, until 2099-12-31"
    assert shown.endswith(f"alice: {rules}.")
    run("keys", "create", "boss", "--admin")
    listed = run("keys", "list")
    today = day_of(time.time())
    assert listed.splitlines() == [
        "NAME   STATE  CREATED     LAST USED  RULES",
        f"alice  valid  {today}  -          {rules}",
        f"boss   valid  {today}  -          admin: may do everything",
    ]
    assert key not in listed


def test_a_rotated_key_keeps_its_rules_and_a_revoked_key_needs_confirmation(run: Run) -> None:
    first = json.loads(run("keys", "create", "robot", "--no-page", "--json"))
    second = json.loads(run("keys", "rotate", "robot", "--grace", "24h", "--json"))
    assert first["key"] != second["key"]
    assert (second["rules"], second["id"]) == (first["rules"], first["id"])
    assert second["previous_until"] == pytest.approx(time.time() + 24 * 3600, abs=60)
    with pytest.raises(ConfigError, match="confirm it with --yes"):
        run("keys", "revoke", "robot")
    assert run("keys", "revoke", "robot", "--yes") == "The key robot is revoked."
    (listed,) = json.loads(run("keys", "list", "--json"))
    assert (listed["state"], "digest" in listed) == ("revoked", False)
    with pytest.raises(GatewayError, match="has been revoked"):
        run("keys", "rotate", "robot")


@each(
    ("arguments", "message"),
    [
        (("--expires", "soon"), "--expires soon: expected a date such as 2027-01-31"),
        (("--tokens-per-day", "0"), "--tokens-per-day: expected `int` >= 1"),
        (("--cost-per-day", "-1"), "--cost-per-day: expected `float` >= 0"),
    ],
)
def test_rules_that_are_not_valid_are_refused(arguments: tuple[str, ...], message: str) -> None:
    options = _parser().parse_args(["keys", "create", "alice", *arguments])
    with pytest.raises(ConfigError) as caught:
        keys.run(options, Config(), ENV, lambda _: None)
    assert str(caught.value).startswith(message)


def test_a_key_that_would_have_expired_is_not_created(run: Run) -> None:
    with pytest.raises(GatewayError, match="`expires`: 2020-01-31 is over"):
        run("keys", "create", "alice", "--expires", "2020-01-31")
    assert "alice" in run("keys", "create", "alice", "--expires", "1d"), "the name is still free"


def test_a_key_needs_the_gateways_own_key_a_free_name_and_a_place(run: Run) -> None:
    with pytest.raises(ConfigError, match="set TIELINE_KEY"):
        run("keys", "create", "alice", OTHER="x")
    config = Config(keys={"alice": KeySettings(key_env="ALICE")})
    with pytest.raises(ConfigError, match="already has a key `alice`"):
        run("keys", "create", "alice", config=config)
    with pytest.raises(GatewayError, match="There is no stored key `bob`"):
        run("keys", "revoke", "bob", "--yes")
    with pytest.raises(ConfigError, match="neither HOME nor XDG_STATE_HOME"):
        keys.run(_parser().parse_args(["keys", "list"]), Config(), ENV, lambda _: None)


def test_usage_without_entries_and_with_a_wrong_day(run: Run) -> None:
    assert run("usage", "--since", "2026-01-31") == "No usage has been recorded since 2026-01-31."
    period = ("--since", "2026-01-01", "--until", "2026-01-31")
    assert run("usage", *period) == "No usage has been recorded from 2026-01-01 to 2026-01-31."
    assert json.loads(run("usage", "--json")) == []
    assert run("usage", "--csv", "--by", "day").startswith("day,requests,")
    with pytest.raises(GatewayError, match=r"`until`: expected a day such as 2026-01-31, got '31.1.'"):
        run("usage", "--until", "31.1.")
