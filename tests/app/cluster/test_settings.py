"""Tests for the settings of a cluster that cannot be used."""

from pathlib import Path

import pytest

from tieline.app.build.application import build
from tieline.app.cluster.peers import ClusterSecret
from tieline.app.config import ClusterSettings, Config, ConfigError, StoreSettings
from tieline.app.config_file import ConfigFile, load_config

SECRET = "the-secret-of-this-cluster"
STORE = StoreSettings(url="postgresql://tieline@127.0.0.1:1/tieline")


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ('listen = "10.0.0.5"', "`cluster.listen` is `10.0.0.5`: expected `host:port`"),
        ('listen = ":80"', "expected `host:port`"),
        ('listen = "host:99999"', "expected `host:port`"),
        ('url = "ftp://host"', "`cluster.url`"),
        ("dead_seconds = 3", "`cluster.dead_seconds` is 3: expected at least twice `heartbeat_seconds`"),
        ("drain_seconds = -1", "`cluster.drain_seconds`"),
        ("drain = 1", "`cluster.drain` is not a setting"),
    ],
)
def test_a_wrong_setting_is_named(written: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_config(ConfigFile(Path("tieline.toml"), f"[cluster]\n{written}\n".encode()), {})


@pytest.mark.parametrize(
    ("config", "env", "message"),
    [
        (Config(cluster=ClusterSettings(listen="127.0.0.1:1")), {}, "set `store.url`"),
        (Config(cluster=ClusterSettings(listen="127.0.0.1:1"), store=STORE), {}, "set TIELINE_CLUSTER_SECRET"),
        (
            Config(cluster=ClusterSettings(listen="127.0.0.1:1"), store=STORE),
            {"TIELINE_CLUSTER_SECRET": "short"},
            "has 5 characters: expected at least 16",
        ),
        (
            Config(cluster=ClusterSettings(listen="0.0.0.0:1"), store=STORE),
            {"TIELINE_CLUSTER_SECRET": SECRET},
            "set `cluster.url`",
        ),
        (
            Config(cluster=ClusterSettings(listen="0.0.0.0:1"), store=STORE),
            {"TIELINE_CLUSTER_SECRET": SECRET, "TIELINE_CLUSTER_URL": "nowhere"},
            "`cluster.url`",
        ),
    ],
    ids=["no database", "no secret", "short secret", "no url", "bad url"],
)
async def test_what_is_missing_is_named_when_the_gateway_starts(
    config: Config, env: dict[str, str], message: str
) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        build(config, env)
    assert SECRET not in str(caught.value)


def test_the_secret_is_in_no_representation() -> None:
    secret = ClusterSecret(SECRET)
    assert SECRET not in f"{secret!r} {secret}"
    assert secret.matches(SECRET.encode())
    assert not any(map(secret.matches, (b"", SECRET[:-1].encode(), SECRET.encode() + b"x", "ä".encode())))
