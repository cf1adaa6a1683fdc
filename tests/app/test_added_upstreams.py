"""Where added upstreams and their keys are kept: the keyring is used like for logins."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.backends.test_cursor_store import FakeRing, LockedRing
from tieline.app.build.added_upstreams import AddedUpstream, UpstreamStore, load_now
from tieline.backends.credentials import Keyring, no_keyring
from tieline.model.errors import GatewayError

UPSTREAM = AddedUpstream(kind="openai", base_url="http://127.0.0.1:9/v1", has_key=True)
SECRET = "a-secret-of-an-upstream"


def giving(ring: Keyring) -> Callable[[], Keyring]:
    return lambda: ring


def store(home: Path, ring: Keyring | None = None) -> UpstreamStore:
    keyring = no_keyring if ring is None else giving(ring)
    return UpstreamStore({"HOME": str(home)}, keyring=keyring, clock=lambda: 5.0)


def texts_below(folder: Path) -> list[str]:
    return [path.read_text() for path in folder.rglob("*") if path.is_file()]


async def test_keys_are_in_the_keyring_if_there_is_one(tmp_path: Path) -> None:
    ring = FakeRing()
    await store(tmp_path, ring).save("up", UPSTREAM, SECRET)
    assert json.loads(ring.held["tieline", "upstreams"])["keys"] == {"up": SECRET}
    assert not any(SECRET in text for text in texts_below(tmp_path))
    loaded = load_now({"HOME": str(tmp_path)}, giving(ring))
    assert (loaded.upstreams, loaded.keys, loaded.problem) == ({"up": UPSTREAM}, {"up": SECRET}, "")
    await store(tmp_path, ring).remove("up")
    assert ring.held == {}


async def test_a_keyring_that_fails_is_replaced_by_the_file(tmp_path: Path) -> None:
    await store(tmp_path, LockedRing()).save("up", UPSTREAM, SECRET)
    file = tmp_path / ".config/tieline/upstream-keys.json"
    assert SECRET in file.read_text()
    assert file.stat().st_mode & 0o777 == 0o600


async def test_a_keyring_that_cannot_be_read_leaves_the_upstream_without_its_key(tmp_path: Path) -> None:
    ring = FakeRing()
    await store(tmp_path, ring).save("up", UPSTREAM, SECRET)
    loaded = load_now({"HOME": str(tmp_path)}, giving(LockedRing()))
    assert loaded.upstreams == {"up": UPSTREAM}
    assert loaded.keys == {}
    assert "keyring" in loaded.problem


async def test_an_upstream_without_a_key_does_not_ask_the_keyring(tmp_path: Path) -> None:
    plain = AddedUpstream(kind="openai", base_url="http://127.0.0.1:9/v1")
    await store(tmp_path).save("up", plain, None)
    loaded = load_now({"HOME": str(tmp_path)}, giving(LockedRing()))
    assert (loaded.upstreams, loaded.problem) == ({"up": plain}, "")


async def test_an_upstream_is_not_stored_if_its_key_is_not(tmp_path: Path) -> None:
    (tmp_path / ".config").write_text("a file in the way")
    with pytest.raises(GatewayError) as caught:
        await store(tmp_path).save("up", UPSTREAM, SECRET)
    assert SECRET not in caught.value.message
    assert load_now({"HOME": str(tmp_path)}).upstreams == {}


async def test_the_number_of_upstreams_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tieline.app.build.added_upstreams.MAX_UPSTREAMS", 2)
    kept = store(tmp_path)
    await asyncio.gather(*(kept.save(name, UPSTREAM, SECRET) for name in ("a", "b")))
    with pytest.raises(GatewayError, match="At most 2"):
        await kept.save("c", UPSTREAM, SECRET)
    await kept.save("a", UPSTREAM, SECRET)


def test_without_added_upstreams_nothing_is_read(tmp_path: Path) -> None:
    assert load_now({"HOME": str(tmp_path)}, giving(LockedRing())).problem == ""
