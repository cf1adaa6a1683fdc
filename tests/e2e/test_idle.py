"""`tieline serve --exit-when-idle` and `/api/stop`: a gateway that ends when no client uses it any more."""

import asyncio
import subprocess
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.catalogue.serving import listening
from tests.core.test_inbox import LoopClock
from tests.e2e.cli_support import WAIT, command, environment, ran
from tieline.app.build.application import App, build
from tieline.app.config import Config
from tieline.app.serve import stop_when_idle

KEY = "gateway-key"


@pytest.fixture
def app(tmp_path: Path) -> App:
    return build(Config(), {"HOME": str(tmp_path), "TIELINE_KEY": KEY})


class Watcher:
    """A client that watches the inbox until it leaves."""

    def __init__(self, app: App) -> None:
        self._left = asyncio.Event()
        self._began = asyncio.Event()
        scope = {
            "type": "http",
            "method": "GET",
            "path": "/api/inbox/watch",
            "query_string": b"",
            "headers": [(b"host", b"localhost"), (b"x-api-key", KEY.encode())],
        }
        self._serving = asyncio.create_task(app.asgi(scope, self._receive, self._send))

    async def _receive(self) -> MutableMapping[str, Any]:
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: MutableMapping[str, Any]) -> None:
        assert message.get("status", 200) == 200
        self._began.set()

    async def begun(self) -> None:
        await self._began.wait()

    async def leave(self) -> None:
        self._left.set()
        await self._serving


async def test_the_gateway_stops_when_the_last_client_has_left_for_a_while(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = LoopClock(monkeypatch)
    stopped: list[float] = []
    idle = asyncio.create_task(stop_when_idle(app, 30.0, asyncio.Event(), lambda: stopped.append(clock.passed)))
    await clock.advance(29)
    watcher = Watcher(app)
    await watcher.begun()
    for _ in range(300):
        await clock.advance(1)
    assert stopped == []
    await watcher.leave()
    for _ in range(29):
        await clock.advance(1)
    assert stopped == []
    for _ in range(3):
        await clock.advance(1)
    assert idle.done()
    assert len(stopped) == 1
    await app.aclose()


async def test_a_gateway_that_no_client_has_used_stops_as_well(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = LoopClock(monkeypatch)
    stopped: list[bool] = []
    idle = asyncio.create_task(stop_when_idle(app, 5.0, asyncio.Event(), lambda: stopped.append(True)))
    for _ in range(7):
        await clock.advance(1)
    assert (idle.done(), stopped) == (True, [True])
    await app.aclose()


async def test_a_client_with_the_key_may_stop_it_but_a_page_needs_the_token(tmp_path: Path) -> None:
    stopping = asyncio.Event()
    app = build(Config(), {"HOME": str(tmp_path), "TIELINE_KEY": KEY}, stop=stopping.set)
    try:
        async with listening(app) as url, httpx2.AsyncClient(base_url=url, headers={"x-api-key": KEY}) as http:
            assert "stop" in (await http.get("/api/hello")).json()["features"]
            assert (await http.post("/api/stop", headers={"x-api-key": "wrong"})).status_code == 401
            page = {"origin": "https://evil.example"}
            assert (await http.post("/api/stop", headers=page)).status_code == 403
            assert (await http.post("/api/stop", headers={"sec-fetch-site": "same-origin"})).status_code == 403
            assert not stopping.is_set()
            assert (await http.post("/api/stop")).json() == {}
            assert stopping.is_set()
    finally:
        await app.aclose()


def test_the_program_ends_by_itself(tmp_path: Path) -> None:
    arguments = command("serve", "--port", "0", "--exit-when-idle", "0.2")
    ended = subprocess.run(  # noqa: S603 - our own command
        arguments, cwd=tmp_path, env=environment(tmp_path), capture_output=True, text=True, timeout=WAIT, check=False
    )
    assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize("given", ["0", "-1", "nan", "inf", "soon"])
def test_the_number_of_seconds_has_to_be_positive(tmp_path: Path, given: str) -> None:
    ended = ran(tmp_path, "serve", "--exit-when-idle", given)
    assert ended.returncode == 2
    assert "--exit-when-idle" in ended.stderr
