"""Logging in with Cursor from the page, against a simulator of its service."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.web.serving import PageStand, serving
from tieline.app.build import cursor_login
from tieline.app.config import Config, CursorSettings
from tieline.backends.cursor import login
from tieline.sim.cursor import CursorSim
from tieline.sim.cursor.settings import SimSettings

NOBODY = "http://127.0.0.1:9"
"""Where nothing listens."""


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login, "FIRST_WAIT", 0.01)


@pytest.fixture
async def sim() -> AsyncIterator[CursorSim]:
    """A service where a login is made when its link is opened."""
    async with CursorSim(SimSettings(login_polls=None)) as sim:
        yield sim


@asynccontextmanager
async def reaching(home: Path, url: str, env: dict[str, str] | None = None) -> AsyncIterator[PageStand]:
    """A page whose Cursor is at this address."""
    cursor = CursorSettings(api_url=url, agent_url=url, website_url=url)
    async with serving(home, Config(cursor=cursor), env) as stand:
        yield stand


async def account(stand: PageStand) -> dict[str, Any]:
    found: dict[str, Any] = (await stand.get("/api/connect"))["cursor"]
    return found


async def models(stand: PageStand) -> list[str]:
    return [model["id"] for model in (await stand.state())["models"] if model["backend"] == "cursor"]


async def used(link: str) -> None:
    """Somebody opens the link and says yes."""
    async with httpx2.AsyncClient() as browser:
        assert (await browser.get(link)).status_code == 200


async def logged_in(stand: PageStand) -> None:
    async with stand.stream() as stream:
        began = await stand.post("/api/connect/cursor")
        await stream.until(lambda message: message["type"] == "state")
        await used(began["url"])
        await stream.until(lambda message: message["type"] == "state")
    assert (await account(stand))["state"] == "logged_in"


async def test_a_login_is_waited_for_and_then_its_models_are_there(tmp_path: Path, sim: CursorSim) -> None:
    async with reaching(tmp_path, sim.url) as stand:
        assert await models(stand) == []
        async with stand.stream() as stream:
            began = await stand.post("/api/connect/cursor")
            await stream.until(lambda message: message["type"] == "state")
            waiting = await account(stand)
            assert (waiting["state"], waiting["url"]) == ("waiting", began["url"])
            assert 0 < waiting["until"] - time.time() <= cursor_login.LOGIN_WITHIN
            await used(began["url"])
            await stream.until(lambda message: message["type"] == "state")
        done = await account(stand)
        assert (done["state"], done["trouble"], done["url"], done["until"]) == ("logged_in", "", "", None)
        assert "cursor/demo" in await models(stand)
        turn = await stand.say(await stand.begin("cursor/demo"), "say hello")
        assert turn["parts"][0]["text"] == "hello"


async def test_a_login_stays_over_a_restart(tmp_path: Path, sim: CursorSim) -> None:
    async with reaching(tmp_path, sim.url) as stand:
        await logged_in(stand)
    async with reaching(tmp_path, sim.url) as stand:
        assert (await account(stand))["state"] == "logged_in"
        assert "cursor/demo" in await models(stand)


async def test_who_logs_in_again_uses_the_new_login(tmp_path: Path, sim: CursorSim) -> None:
    async with reaching(tmp_path, sim.url) as stand:
        await logged_in(stand)
        before = stand.app.backends["cursor"]
        await logged_in(stand)
        assert stand.app.backends["cursor"] is not before
        turn = await stand.say(await stand.begin("cursor/demo"), "say hello")
        assert turn["parts"][0]["text"] == "hello"


async def test_a_login_that_was_begun_can_be_given_up_or_begun_anew(tmp_path: Path, sim: CursorSim) -> None:
    async with reaching(tmp_path, sim.url) as stand:
        first = await stand.post("/api/connect/cursor")
        second = await stand.post("/api/connect/cursor")
        assert first["url"] != second["url"]
        assert (await account(stand))["url"] == second["url"]
        await stand.call("DELETE", "/api/connect/cursor")
        assert {"state": "none", "trouble": ""}.items() <= (await account(stand)).items()


async def test_a_service_that_cannot_be_reached_is_told(tmp_path: Path) -> None:
    async with reaching(tmp_path, NOBODY) as stand, stand.stream() as stream:
        await stand.post("/api/connect/cursor")
        for _ in range(2):
            await stream.until(lambda message: message["type"] == "state")
        found = await account(stand)
        assert found["state"] == "none"
        assert "Cannot check the login at Cursor" in found["trouble"]


async def test_a_link_that_nobody_uses_ends(tmp_path: Path, sim: CursorSim, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cursor_login, "LOGIN_WITHIN", 0.1)
    async with reaching(tmp_path, sim.url) as stand, stand.stream() as stream:
        await stand.post("/api/connect/cursor")
        for _ in range(2):
            await stream.until(lambda message: message["type"] == "state")
        found = await account(stand)
        assert (found["state"], found["url"]) == ("none", "")
        assert found["trouble"].startswith("The link was not used within")
        assert "tieline login" not in found["trouble"]


async def test_where_a_key_is_used_no_login_is_offered(tmp_path: Path, sim: CursorSim) -> None:
    async with reaching(tmp_path, sim.url, {"CURSOR_API_KEY": "key"}) as stand:
        found = await account(stand)
        assert (found["state"], found["is_offered"]) == ("logged_in", False)
        await stand.post("/api/connect/cursor", status=400)


async def test_where_cursor_is_switched_off_there_is_nothing_to_log_in_to(tmp_path: Path) -> None:
    async with serving(tmp_path, Config(cursor=CursorSettings(enabled=False))) as stand:
        assert (await account(stand))["state"] == "off"
        await stand.post("/api/connect/cursor", status=404)
