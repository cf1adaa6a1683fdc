"""What all runs share: the models of the account, and what the service says of itself."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.backends.cursor_wire import REQUEST, WAIT
from tieline.app.build.cursor_account import make_cursor_backend
from tieline.app.config import CursorSettings
from tieline.app.ids import Ids
from tieline.backends.cursor.account import Account
from tieline.backends.cursor.backend import CONFIG_KEPT, MODELS_KEPT, OWN_HOST, CursorBackend, CursorOptions
from tieline.backends.cursor.login import AuthApi
from tieline.backends.cursor.unary import ServerConfig
from tieline.model.errors import GatewayError
from tieline.net.client.http import HttpClient, Origin, Proxies, Timeouts
from tieline.net.h2.client import Http2Client
from tieline.sim.cursor import CursorSim, SimSettings
from tieline.wire.cursor.identity import Identity
from tieline.wire.cursor.opening.run_request import MachineInfo, RunSettings
from tieline.wire.cursor.run.query_replies import QuerySettings


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def made(url: str, clock: Clock, **terms: Any) -> CursorBackend:
    ids = count(1)
    http = HttpClient()
    given = {
        "api": Origin.parse(url)[0],
        "agent": None,
        "transport": None,
        "identity": Identity(ghost_mode=True),
        "timeouts": Timeouts(),
        "settings": RunSettings(),
        "machine_info": MachineInfo(),
        "queries": QuerySettings(),
        **terms,
    }
    return CursorBackend(
        CursorOptions(**given),
        Account.fixed(AuthApi(http, url), "token", clock=clock),
        http,
        Http2Client(),
        mint_call=lambda: f"call_{next(ids)}",
        mint_id=lambda: f"id_{next(ids)}",
        mint_leg=lambda: f"leg_{next(ids)}",
        clock=clock,
    )


@asynccontextmanager
async def backed(settings: SimSettings, clock: Clock, **terms: Any) -> AsyncIterator[tuple[CursorBackend, CursorSim]]:
    async with asyncio.timeout(WAIT), CursorSim(settings) as sim:
        backend = made(sim.url, clock, **terms)
        try:
            yield backend, sim
        finally:
            await backend.aclose()


def asked(sim: CursorSim, method: str) -> int:
    return sum(head.path.endswith(f"/{method}") for head in sim.requests)


async def test_the_models_are_asked_for_again_after_some_minutes() -> None:
    clock = Clock()
    async with backed(SimSettings(), clock) as (backend, sim):
        first = [model.id for model in await backend.models()]
        assert {"demo", "auto"} <= set(first)
        clock.now += MODELS_KEPT
        assert [model.id for model in await backend.models()] == first
        assert asked(sim, "GetUsableModels") == 1
        clock.now += 1
        await backend.models()
        assert asked(sim, "GetUsableModels") == 2


async def test_models_that_were_set_are_not_asked_for() -> None:
    async with backed(SimSettings(), Clock(), models=("gpt-5",)) as (backend, sim):
        assert [model.id for model in await backend.models()] == ["gpt-5"]
        assert asked(sim, "GetUsableModels") == 0


async def test_models_tell_the_size_of_their_context_where_it_is_known() -> None:
    async with backed(SimSettings(), Clock()) as (backend, _):
        sizes = {model.id: model.context for model in await backend.models()}
        assert (sizes["demo"], sizes["demo-large"]) == (200_000, 1_000_000)


async def test_all_who_come_at_once_wait_for_the_same_configuration() -> None:
    async with backed(SimSettings(http2_config=2), Clock()) as (backend, sim):
        runs = await asyncio.gather(*(backend.start(REQUEST) for _ in range(5)))
        assert asked(sim, "GetServerConfig") == 1
        assert {run._transport for run in runs} == {"http2"}  # type: ignore[attr-defined]  # a LiveRun
        for run in runs:
            await run.aclose()


async def test_the_configuration_is_asked_for_again_and_nobody_waits_for_it() -> None:
    clock = Clock()
    async with backed(SimSettings(), clock) as (backend, sim):
        await (await backend.start(REQUEST)).aclose()
        clock.now += CONFIG_KEPT - 1
        await (await backend.start(REQUEST)).aclose()
        assert asked(sim, "GetServerConfig") == 1
        clock.now += 1
        await (await backend.start(REQUEST)).aclose()
        await sim.until(lambda: asked(sim, "GetServerConfig") == 2)


async def test_where_nothing_is_left_open_nobody_asks() -> None:
    async with backed(SimSettings(), Clock(), transport="http1") as (backend, sim):
        await (await backend.start(REQUEST)).aclose()
        assert asked(sim, "GetServerConfig") == 0


async def test_a_service_that_does_not_tell_is_used_all_the_same() -> None:
    backend = made("http://127.0.0.1:9", Clock())
    async with asyncio.timeout(WAIT):
        await (await backend.start(REQUEST)).aclose()
        await backend.aclose()


async def test_a_service_that_does_not_know_us_says_so_to_all_who_wait() -> None:
    async with backed(SimSettings(auth=True), Clock()) as (backend, _):
        errors = await asyncio.gather(*(backend.start(REQUEST) for _ in range(3)), return_exceptions=True)
        assert [error.kind for error in errors if isinstance(error, GatewayError)] == ["unauthorized"] * 3
        assert len({id(error) for error in errors}) == 3, "one exception for many would gather all their tracebacks"


@pytest.mark.parametrize(
    ("host", "is_private", "agent", "expected"),
    [
        (OWN_HOST, True, None, "agent.example"),
        (OWN_HOST, False, None, "agentn.example"),
        (OWN_HOST, True, "mine.example", "mine.example"),
        ("elsewhere.example", True, None, "elsewhere.example"),
    ],
)
async def test_only_the_service_itself_may_send_runs_elsewhere(
    host: str, is_private: bool, agent: str | None, expected: str
) -> None:
    """Whoever names another address, or one for runs, means that one."""
    given = Origin.parse(f"https://{agent}")[0] if agent else None
    identity = Identity(ghost_mode=is_private)
    backend = made(f"https://{host}", Clock(), agent=given, identity=identity)
    private, public = (Origin.parse(f"https://{name}.example")[0] for name in ("agent", "agentn"))
    backend._apply(ServerConfig(transport="http2", private=private, public=public))
    assert backend._origin.host == expected
    await backend.aclose()


async def test_the_service_sends_runs_elsewhere_even_if_all_other_settings_are_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tieline.backends.cursor.backend.OWN_HOST", "127.0.0.1")
    async with (
        CursorSim() as agent,
        backed(SimSettings(agent_url=agent.url), Clock(), transport="http2") as (backend, sim),
    ):
        run = await backend.start(REQUEST)
        async with aclosing(run.leg()) as leg:
            await anext(leg)
        await run.aclose()
        assert (asked(sim, "Run"), asked(agent, "Run")) == (0, 1)


@pytest.mark.parametrize(("setting", "expected"), [(None, "cli-2099.01.02-0123abc"), ("cli-mine", "cli-mine")])
async def test_an_installed_cli_gives_the_version_unless_one_is_set(
    tmp_path: Path, setting: str | None, expected: str
) -> None:
    (tmp_path / ".local/share/cursor-agent/versions/2099.01.02-0123abc").mkdir(parents=True)
    async with CursorSim() as sim:
        settings = CursorSettings(api_url=sim.url, client_version=setting, ghost_mode=True)
        env = {"HOME": str(tmp_path)}
        backend = make_cursor_backend(settings, env, Proxies(), Ids(), park_for=1.0, token="token")
        await backend.models()
        await backend.aclose()
        assert {head.header("x-cursor-client-version") for head in sim.requests} == {expected}
