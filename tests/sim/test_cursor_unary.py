"""The calls beside the runs of the simulated service: keys, tokens, logins, models, configuration."""

import asyncio
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import AsyncIterator
from hashlib import sha256
from time import time

import httpx2
import msgspec
import pytest

from tests.sim.cursor_client import NO_TLS, WAIT, H2Call, Obedient, calling, h2_client, run_request
from tieline.sim.cursor import CursorSim, SimSettings
from tieline.sim.cursor.http_exchange import RequestHead
from tieline.sim.cursor.native_tools import ALL, native_tools_of
from tieline.wire.cursor._pb import agent_pb2 as agent
from tieline.wire.cursor._pb import aiserver_pb2 as aiserver
from tieline.wire.framing.connect import FrameReader, frame

GUARDED = SimSettings(auth=True, keys=("key_good",))
PROTO = {"content-type": "application/proto"}
EMPTY_CALLS = (
    "/aiserver.v1.DashboardService/GetUserPrivacyMode",
    "/aiserver.v1.ServerConfigService/GetServerConfig",
    "/aiserver.v1.AnalyticsService/BootstrapStatsig",
    "/aiserver.v1.DashboardService/GetTeamAdminSettingsOrEmptyIfNotInTeam",
    "/aiserver.v1.DashboardService/GetTeamReposOrEmptyIfNotInTeam",
    "/aiserver.v1.AnalyticsService/TrackEvents",
)


@pytest.fixture
async def sim(request: pytest.FixtureRequest) -> AsyncIterator[CursorSim]:
    async with CursorSim(getattr(request, "param", None)) as sim:
        yield sim


@pytest.fixture
async def http(sim: CursorSim) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=sim.url, timeout=WAIT, verify=NO_TLS) as client:
        yield client


@pytest.mark.parametrize("path", EMPTY_CALLS)
async def test_what_a_client_asks_before_a_run_is_answered_in_kind(http: httpx2.AsyncClient, path: str) -> None:
    """Seen: the calls of Cursor's own client, in the order of their first use."""
    as_proto = await http.post(path, content=b"\x08\x01", headers=PROTO)
    assert (as_proto.status_code, as_proto.headers["content-type"]) == (200, "application/proto")
    as_json = await http.post(path, json={"events": [{"a": 1}]})
    assert (as_json.status_code, as_json.headers["content-type"]) == (200, "application/json")
    assert isinstance(as_json.json(), dict)


@pytest.mark.parametrize("sim", [SimSettings(http2_config=2, privacy_mode=3, agent_url="http://x:1")], indirect=True)
async def test_the_configuration_says_what_was_set(http: httpx2.AsyncClient) -> None:
    answer = await http.post("/aiserver.v1.ServerConfigService/GetServerConfig", headers=PROTO)
    config = aiserver.GetServerConfigResponse.FromString(answer.content)
    assert (config.http2_config, config.agent_url_config.agent_url) == (2, "http://x:1")
    answer = await http.post("/aiserver.v1.DashboardService/GetUserPrivacyMode", headers=PROTO)
    assert answer.content == b"\x08\x03"


async def test_the_models_are_listed_in_every_form_and_demo_is_always_there(http: httpx2.AsyncClient) -> None:
    items = (await http.get("/v1/models")).json()["items"]
    assert items[0]["id"] == "demo"
    assert {one["id"] for one in items[0]["parameters"]} == {"thinking", "effort"}
    names = [item["id"] for item in items]
    for path in ("/agent.v1.AgentService/GetUsableModels", "/aiserver.v1.AiService/GetUsableModels"):
        told = agent.GetUsableModelsResponse.FromString((await http.post(path, headers=PROTO)).content)
        assert [model.model_id for model in told.models] == names
        spelled = (await http.post(path, json={})).json()["models"]
        assert [model["modelId"] for model in spelled] == names
        assert [model["modelId"] for model in spelled if "thinkingDetails" in model] == ["demo-thinking"]
    rich = (await http.post("/aiserver.v1.AiService/AvailableModels", json={})).json()["models"]
    assert [(model["name"], model["contextTokenLimit"]) for model in rich][:1] == [("demo", 200_000)]
    first = agent.GetDefaultModelForCliResponse()
    first.ParseFromString((await http.post("/agent.v1.AgentService/GetDefaultModelForCli", headers=PROTO)).content)
    assert first.model.model_id == "demo"


async def test_an_agent_is_named_after_its_first_words(http: httpx2.AsyncClient) -> None:
    answer = await http.post("/agent.v1.AgentService/NameAgent", json={"userMessage": "please fix the salt shaker"})
    assert answer.json() == {"name": "Please fix the salt shaker"}


async def test_a_grpc_web_call_is_answered_in_envelopes(http: httpx2.AsyncClient) -> None:
    kind = {"content-type": "application/grpc-web+proto"}
    answer = await http.post("/agent.v1.AgentService/GetUsableModels", content=frame(b""), headers=kind)
    message, trailers = FrameReader().feed(answer.content)
    assert agent.GetUsableModelsResponse.FromString(message.payload).models[0].model_id == "demo"
    assert (trailers.flags, trailers.payload) == (0x80, b"grpc-status: 0\r\n")


async def test_calls_work_over_http2_too(sim: CursorSim) -> None:
    async with h2_client(sim) as connection:
        call = connection.open("/agent.v1.AgentService/GetUsableModels", [("content-type", "application/proto")])
        call.half_close()
        async with asyncio.timeout(WAIT):
            body = await call.body()
        assert agent.GetUsableModelsResponse.FromString(body).models[0].model_id == "demo"


@pytest.mark.parametrize(
    ("path", "headers", "content", "status", "code"),
    [
        ("/aiserver.v1.Nothing/There", PROTO, b"", 404, "unimplemented"),
        ("/nothing", {}, b"", 404, "unimplemented"),
        ("/agent.v1.AgentService/NameAgent", {"content-type": "text/plain"}, b"", 415, "unimplemented"),
        ("/agent.v1.AgentService/NameAgent", PROTO, b"\xff", 400, "invalid_argument"),
        ("/agent.v1.AgentService/NameAgent", PROTO | {"content-encoding": "br"}, b"", 400, "invalid_argument"),
        ("/agent.v1.AgentService/NameAgent", {"content-type": "application/json"}, b"[", 400, "invalid_argument"),
        ("/aiserver.v1.AiService/StreamChat", PROTO, b"", 501, "unimplemented"),
    ],
)
async def test_what_is_not_there_or_not_readable_is_refused(
    http: httpx2.AsyncClient, path: str, headers: dict[str, str], content: bytes, status: int, code: str
) -> None:
    answer = await http.post(path, content=content, headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (status, code)


# ── Who is let in ────────────────────────────────────────────────────────────────────────────────


async def test_a_token_looks_like_one_and_says_when_it_runs_out(http: httpx2.AsyncClient) -> None:
    tokens = (await http.post("/auth/exchange_user_api_key", json={}, headers=_bearer("key_any"))).json()
    claims = tokens["accessToken"].split(".")[1]
    assert msgspec.json.decode(urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))["exp"] > time()
    assert set(tokens) == {"accessToken", "refreshToken"}


@pytest.mark.parametrize("sim", [GUARDED], indirect=True)
async def test_only_a_good_key_is_exchanged_and_only_a_good_token_is_let_in(http: httpx2.AsyncClient) -> None:
    exchange = "/auth/exchange_user_api_key"
    assert (await http.post(exchange, json={}, headers=_bearer("key_bad"))).status_code == 401
    assert (await http.post(exchange, json={})).status_code == 401
    tokens = (await http.post(exchange, json={}, headers=_bearer("key_good"))).json()
    path = "/agent.v1.AgentService/GetUsableModels"
    for token, status in ((tokens["accessToken"], 200), (tokens["refreshToken"], 401), ("a.b.c", 401)):
        assert (await http.post(path, json={}, headers=_bearer(token))).status_code == status
    assert (await http.get("/v1/models", headers=_bearer("key_good"))).status_code == 200
    assert (await http.get("/v1/models", headers=_bearer("key_bad"))).status_code == 401


@pytest.mark.parametrize("sim", [GUARDED], indirect=True)
async def test_a_revoked_token_is_refused_and_a_refresh_token_gives_a_new_one(
    sim: CursorSim, http: httpx2.AsyncClient
) -> None:
    tokens = sim.tokens.issue()
    path = "/agent.v1.AgentService/GetUsableModels"
    assert (await http.post(path, json={}, headers=_bearer(tokens["accessToken"]))).status_code == 200
    sim.tokens.revoke()
    assert (await http.post(path, json={}, headers=_bearer(tokens["accessToken"]))).status_code == 401
    assert (await http.post("/auth/refresh", json={}, headers=_bearer(tokens["accessToken"]))).status_code == 401
    renewed = (await http.post("/auth/refresh", json={}, headers=_bearer(tokens["refreshToken"]))).json()
    assert (await http.post(path, json={}, headers=_bearer(renewed["accessToken"]))).status_code == 200


@pytest.mark.parametrize("sim", [SimSettings(auth=True, token_lifetime=-1)], indirect=True)
async def test_a_token_that_has_run_out_is_refused(sim: CursorSim) -> None:
    assert not sim.tokens.is_access(sim.tokens.issue()["accessToken"])


@pytest.mark.parametrize(
    ("sim", "status", "is_framed"),
    [(SimSettings(auth=True), 401, False), (SimSettings(auth=True, unauthenticated="frame"), 200, True)],
    indirect=["sim"],
)
async def test_a_run_with_a_bad_token_is_refused_by_status_or_in_its_end_frame(
    sim: CursorSim, status: int, is_framed: bool
) -> None:
    async with calling(sim, "h2", token="bad") as call:
        assert isinstance(call, H2Call)
        async with asyncio.timeout(WAIT):
            body = await call.body()
        assert call.status == status
        assert b"unauthenticated" in body
        assert body.startswith(b"\x02") == is_framed
    async with calling(sim, "h2", token=sim.tokens.issue()["accessToken"]) as call:
        assert await Obedient(call).turn(run_request("say hello")) == "hello"


async def test_a_login_is_pending_first_and_then_granted(http: httpx2.AsyncClient) -> None:
    asked = {"uuid": "u1", "verifier": "v1"}
    pending = await http.get("/auth/poll", params=asked)
    assert (pending.status_code, pending.text) == (404, "Not found")
    assert "accessToken" in (await http.post("/auth/poll", json=asked)).json()
    assert (await http.get("/auth/poll")).status_code == 400
    assert (await http.post("/auth/poll", content=b"[")).status_code == 400


@pytest.mark.parametrize("sim", [SimSettings(login_polls=None)], indirect=True)
async def test_a_login_whose_link_was_opened_is_granted_to_whoever_knows_the_verifier(
    http: httpx2.AsyncClient,
) -> None:
    challenge = urlsafe_b64encode(sha256(b"secret").digest()).decode().rstrip("=")
    asked = {"uuid": "u1", "verifier": "secret"}
    assert (await http.get("/auth/poll", params=asked)).status_code == 404
    opened = await http.get("/loginDeepControl", params={"uuid": "u1", "challenge": challenge, "mode": "login"})
    assert opened.status_code == 200
    assert (await http.get("/auth/poll", params={"uuid": "u1", "verifier": "guess"})).status_code == 404
    assert (await http.get("/auth/poll", params=asked)).status_code == 200
    assert (await http.get("/auth/poll", params=asked)).status_code == 404


def _bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


@pytest.mark.parametrize("sim", [GUARDED], indirect=True)
@pytest.mark.parametrize(("key", "status"), [("key_good", 200), ("key_bad", 401)])
async def test_a_key_can_ask_whose_it_is(http: httpx2.AsyncClient, key: str, status: int) -> None:
    answer = await http.get("/v1/me", headers={"authorization": f"Bearer {key}"})
    assert answer.status_code == status
    assert status != 200 or {"apiKeyName", "createdAt", "userEmail"} <= answer.json().keys()


@pytest.mark.parametrize("sim", [GUARDED], indirect=True)
async def test_a_refresh_is_granted_as_to_the_editor(sim: CursorSim, http: httpx2.AsyncClient) -> None:
    """No new refresh token comes, and a bad one means to log out."""
    asked = {"grant_type": "refresh_token", "client_id": "x", "refresh_token": sim.tokens.issue()["refreshToken"]}
    granted = (await http.post("/oauth/token", json=asked)).json()
    assert sim.tokens.is_access(granted["access_token"])
    assert "refresh_token" not in granted
    refused = await http.post("/oauth/token", json={**asked, "refresh_token": "bad"})
    assert (refused.status_code, refused.json()["shouldLogout"]) == (200, True)
    assert (await http.post("/oauth/token", json={})).status_code == 400


# ── Which clients run tools without offering them ────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("headers", "setting", "expected"),
    [
        ({"x-cursor-client-type": "sdk"}, None, ALL),
        ({"x-cursor-client-type": "ide"}, None, ALL),
        ({"x-cursor-client-type": "cli"}, None, set()),
        ({}, None, set()),
        ({}, True, ALL),
        ({"x-cursor-client-type": "sdk"}, False, set()),
        ({"x-cursor-client-type": "sdk", "x-cursor-agent-allowed-tools": ""}, None, set()),
        (
            {"x-cursor-client-type": "sdk", "x-cursor-agent-allowed-tools": "read_tool_call,edit_tool_call"},
            None,
            {"read", "write", "edit"},
        ),
        ({"x-cursor-client-type": "sdk", "x-cursor-agent-exclude-tools": "shell_tool_call"}, None, ALL - {"shell"}),
    ],
)
def test_cursor_s_own_clients_have_tools_without_offering_them(
    headers: dict[str, str], setting: bool | None, expected: set[str]
) -> None:
    assert native_tools_of(RequestHead(method="POST", target="/", headers=tuple(headers.items())), setting) == expected
