"""Tests of named keys and their limits: models, paths and rate, for every endpoint that takes a key."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest
from websockets.asyncio.client import connect

from tests.catalogue.serving import listening
from tests.each import each
from tieline.app.build.application import build
from tieline.app.config import Config, ConfigError, KeySettings, UpstreamSettings
from tieline.app.config_file import ConfigFile, load_config
from tieline.core.legs.access import ModelAccess
from tieline.core.legs.routing import Router
from tieline.core.usage.accounts import Accounts, TokenBucket
from tieline.core.usage.limits import KeyLimits
from tieline.frontends.guard import AccessRules, Guard, Keys
from tieline.frontends.http import AsgiCycle, Exchange
from tieline.frontends.keys import OWN_KEY, NamedKey
from tieline.frontends.profiles import Profile, Profiles
from tieline.model.errors import GatewayError

OWN = "gateway-key"
LIMITED = KeySettings(key_env="LIMITED", models=("demo/*", "quick"))
ENV = {"TIELINE_KEY": OWN, "LIMITED": "limited-key", "UP_KEY": "up-secret"}
HELLO = [{"role": "user", "content": "Hello"}]


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def exchange(path: str = "/v1/models", **headers: str) -> Exchange:
    pairs = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]

    async def nothing(*_: object) -> dict[str, object]:
        raise AssertionError("the guard reads only the head")

    scope = {"method": "POST", "path": path, "headers": [(b"host", b"127.0.0.1"), *pairs]}
    return Exchange(AsgiCycle(scope, nothing, nothing), 1024)  # type: ignore[arg-type] # it is never called


# ── Keys ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_key_is_found_by_its_value() -> None:
    robot = NamedKey("robot", "r0bot")
    keys = Keys([robot, NamedKey("empty", "")], Accounts(Clock(), Clock()), Clock())
    assert keys.find("r0bot") is robot
    assert keys.find("r0bo") is None
    assert keys.find("") is None


@each(
    ("headers", "key"),
    [
        ({"api_key": "azure"}, "azure"),
        ({"x_api_key": "x", "api_key": "azure"}, "x"),
        ({"authorization": "Bearer b", "api_key": "azure"}, "b"),
        ({"authorization": "Basic b", "api_key": "azure"}, "azure"),
        ({}, ""),
    ],
)
def test_a_key_may_come_in_the_header_that_azure_uses(headers: dict[str, str], key: str) -> None:
    assert exchange(**headers).key == key


@each("path", ["/v1/models", "/v1/chat/completions", "/metrics", "/api/inbox"])
def test_the_header_of_azure_is_accepted_on_every_path(path: str) -> None:
    Guard(keys=[OWN]).check(exchange(path, api_key=OWN), AccessRules())


def test_the_guard_tells_endpoints_which_key_it_accepted() -> None:
    robot = NamedKey("robot", "r0bot")
    guard = Guard(keys=[OWN], named=[robot])
    with_robot, with_own, without = exchange(x_api_key="r0bot"), exchange(x_api_key=OWN), exchange()
    guard.check(with_robot, AccessRules())
    guard.check(with_own, AccessRules())
    guard.check(without, AccessRules(keyed=False))
    assert (with_robot.client_key, with_own.client_key, without.client_key) == (robot, OWN_KEY, None)


def test_a_key_is_valid_only_for_its_paths() -> None:
    guard = Guard(keys=[OWN], named=[NamedKey("robot", "r0bot", paths=("/v1/messages",))])
    guard.check(exchange("/v1/messages/count_tokens", x_api_key="r0bot"), AccessRules())
    with pytest.raises(GatewayError) as caught:
        guard.check(exchange("/v1/chat/completions", x_api_key="r0bot"), AccessRules())
    assert caught.value.status == 401
    assert caught.value.message == "This key is not valid here, but for paths that begin with /v1/messages."


# ── Rate ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_bucket_gives_a_minute_of_tokens_at_once_and_then_one_after_the_other() -> None:
    clock = Clock()
    bucket = TokenBucket(30, clock)
    assert [bucket.take() for _ in range(30)] == [0] * 30
    assert bucket.take() == pytest.approx(2)
    clock.now += 1.5
    assert bucket.take() == pytest.approx(0.5)
    clock.now += 0.5
    assert bucket.take() == 0
    assert bucket.take() == pytest.approx(2)


def test_a_bucket_holds_no_more_than_a_minute_of_tokens() -> None:
    clock = Clock()
    bucket = TokenBucket(2, clock)
    clock.now += 3600
    assert [bucket.take(), bucket.take()] == [0, 0]
    assert bucket.take() == pytest.approx(30)


def test_each_key_has_a_rate_of_its_own() -> None:
    clock = Clock()
    named = [NamedKey("slow", "slow-key", limits=KeyLimits(requests_per_minute=1)), NamedKey("free", "free-key")]
    guard = Guard(keys=[OWN], named=named, rate_clock=clock)
    guard.check(exchange(x_api_key="slow-key"), AccessRules())
    clock.now += 20.5
    with pytest.raises(GatewayError) as caught:
        guard.check(exchange(x_api_key="slow-key"), AccessRules())
    assert (caught.value.status, caught.value.retry_after) == (429, 40)
    assert caught.value.message == "This key may send 1 requests per minute. Try again in 40 s."
    for _ in range(3):
        guard.check(exchange(x_api_key="free-key"), AccessRules())
        guard.check(exchange(x_api_key=OWN), AccessRules())
    clock.now += 40
    guard.check(exchange(x_api_key="slow-key"), AccessRules())


def test_a_wrong_key_does_not_count() -> None:
    guard = Guard(
        keys=[OWN], named=[NamedKey("slow", "slow-key", limits=KeyLimits(requests_per_minute=1))], rate_clock=Clock()
    )
    with pytest.raises(GatewayError):
        guard.check(exchange(x_api_key="slow-kez"), AccessRules())
    guard.check(exchange(x_api_key="slow-key"), AccessRules())


# ── Over HTTP ────────────────────────────────────────────────────────────────────────────────────


@asynccontextmanager
async def client(default_model: str | None = None, **keys: KeySettings) -> AsyncIterator[httpx2.AsyncClient]:
    """Return a client of a gateway with these keys; it sends the key from the variable LIMITED."""
    upstream = UpstreamSettings(kind="openai", base_url="http://127.0.0.1:9/v1", key_env="UP_KEY", models=("m",))
    aliases = {"quick": "demo/scripted", "other": "up/m", "claude-*": "up/m"}
    config = Config(keys=keys, upstreams={"up": upstream}, aliases=aliases, default_model=default_model)
    app = build(config, ENV)
    try:
        async with (
            listening(app) as url,
            httpx2.AsyncClient(base_url=url, headers={"x-api-key": "limited-key"}, timeout=60) as http,
        ):
            yield http
    finally:
        await app.aclose()


REFUSED: list[tuple[str, dict[str, Any]]] = [
    ("/v1/chat/completions", {"messages": HELLO}),
    ("/v1/chat/completions", {"messages": HELLO, "stream": True}),
    ("/v1/chat/completions", {"messages": HELLO, "n": 2}),
    ("/chat/completions", {"messages": HELLO}),
    ("/v1/messages", {"messages": HELLO, "max_tokens": 9}),
    ("/v1/messages", {"messages": HELLO, "max_tokens": 9, "stream": True}),
    ("/v1/messages/count_tokens", {"messages": HELLO}),
    ("/v1/responses", {"input": "hello"}),
    ("/v1/responses", {"input": "hello", "stream": True}),
    ("/v1/responses/input_tokens", {"input": "hello"}),
    ("/v1/responses/compact", {"input": "hello"}),
    ("/v1/embeddings", {"input": "text"}),
    ("/v1/completions", {"prompt": "text"}),
]


async def test_a_limited_key_may_use_no_other_model_at_any_endpoint() -> None:
    async with client(limited=LIMITED) as http:
        for path, body in REFUSED:
            for model in ("up/m", "up:m", "other", "claude-x", "m", "unknown"):
                response = await http.post(path, json={**body, "model": model})
                assert response.status_code == 403, (path, model)
                error = response.json()["error"]
                expected = f"This key may not use the model `{model}`. It may use demo/*, quick."
                assert error["message"].removeprefix("`model`: ") == expected, path
                assert error["type"] == "permission_error"
                assert error.get("param") == (None if "/messages" in path else "model")
            own = await http.post(path, json={**body, "model": "nowhere/x"}, headers={"x-api-key": OWN})
            assert own.status_code == 404, path


async def test_a_limited_key_may_use_no_other_model_in_the_background_or_on_a_websocket() -> None:
    refusal = "This key may not use the model `up/m`. It may use demo/*, quick."
    async with client(limited=LIMITED) as http:
        asked = {"model": "up/m", "input": "hello", "background": True}
        response = (await http.post("/v1/responses", json=asked)).json()
        while response["status"] in ("queued", "in_progress"):
            response = (await http.get(f"/v1/responses/{response['id']}")).json()
        assert (response["status"], response["error"]["message"]) == ("failed", refusal)
        url = f"ws://{http.base_url.netloc.decode()}/v1/responses"
        async with connect(url, additional_headers={"x-api-key": "limited-key"}) as socket:
            await socket.send(json.dumps({"type": "response.create", "model": "up/m", "input": "hello"}))
            frame = json.loads(await socket.recv())
        assert (frame["type"], frame["status"], frame["error"]["message"]) == ("error", 403, refusal)


async def test_a_limited_key_may_use_its_models() -> None:
    async with client(limited=LIMITED) as http:
        for model in ("demo/scripted", "demo/any", "quick", "demo:scripted"):
            response = await http.post("/v1/chat/completions", json={"model": model, "messages": HELLO})
            assert response.status_code == 200, response.text
            assert response.json()["model"] == model
        count = await http.post("/v1/messages/count_tokens", json={"model": "quick", "messages": HELLO})
        assert count.status_code == 200


@each("headers", [{}, {"anthropic-version": "2023-06-01"}])
async def test_the_list_has_only_the_allowed_models(headers: dict[str, str]) -> None:
    async with client(limited=LIMITED) as http:
        listed = (await http.get("/v1/models", headers=headers)).json()["data"]
        assert sorted(model["id"] for model in listed) == ["demo/scripted", "quick"]
        assert (await http.get("/v1/models/quick", headers=headers)).status_code == 200
        for name in ("up/m", "other", "unknown"):
            refused = await http.get(f"/v1/models/{name}", headers=headers)
            assert refused.status_code == 403
            assert "It may use demo/*, quick." in refused.json()["error"]["message"]
        everything = (await http.get("/v1/models", headers={**headers, "x-api-key": OWN})).json()["data"]
        assert {"demo/scripted", "quick", "up/m", "other"} <= {model["id"] for model in everything}


async def test_a_key_without_agents_may_use_everything_else() -> None:
    async with client(limited=KeySettings(key_env="LIMITED", agents=False)) as http:
        body = {"messages": HELLO}
        assert (await http.post("/v1/chat/completions", json={**body, "model": "quick"})).status_code == 200
        refused = await http.post("/v1/chat/completions", json={**body, "model": "acp/claude"})
        assert refused.status_code == 403
        assert "It may use all models except acp/*." in refused.json()["error"]["message"]
        listed = (await http.get("/v1/models")).json()["data"]
        assert [model["id"] for model in listed if model["id"].startswith("acp/")] == []


async def test_too_many_requests_are_refused_in_the_format_of_the_client() -> None:
    async with client(limited=KeySettings(key_env="LIMITED", requests_per_minute=1)) as http:
        assert (await http.get("/v1/models")).status_code == 200
        refused = await http.post("/v1/chat/completions", json={"model": "quick", "messages": HELLO})
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "60")
        assert refused.json()["error"]["code"] == "rate_limit_exceeded"
        refused = await http.post("/v1/messages", json={"model": "quick", "messages": HELLO, "max_tokens": 9})
        assert refused.json()["error"]["type"] == "rate_limit_error"


@each("path", ["/api/", "/", "/metrics", "v1/", "/v1"])
def test_a_key_cannot_be_configured_for_the_page_or_the_inbox(path: str) -> None:
    text = f'[keys.robot]\nkey_env = "ROBOT"\npaths = ["/v1/chat/", "{path}"]\n'
    with pytest.raises(ConfigError, match=r"tieline\.toml:3: `keys\.robot\.paths`: .* must begin with one of /v1/"):
        load_config(ConfigFile(Path("tieline.toml"), text.encode()), {})


async def test_every_message_on_a_websocket_and_every_choice_counts_against_the_rate() -> None:
    async with client(limited=KeySettings(key_env="LIMITED", requests_per_minute=3)) as http:
        url = f"ws://{http.base_url.netloc.decode()}/v1/responses"
        async with connect(url, additional_headers={"x-api-key": "limited-key"}) as socket:
            kinds = []
            for _ in range(3):
                await socket.send(json.dumps({"type": "response.create", "model": "quick", "input": "say hi"}))
                while (event := json.loads(await socket.recv()))["type"] not in ("response.completed", "error"):
                    pass
                kinds.append((event["type"], event.get("status")))
        assert kinds == [("response.completed", None), ("response.completed", None), ("error", 429)]
    async with client(limited=KeySettings(key_env="LIMITED", requests_per_minute=3)) as http:
        several = {"model": "quick", "messages": HELLO, "n": 4}
        assert (await http.post("/v1/chat/completions", json=several)).status_code == 429


def test_a_limited_key_does_not_reach_the_default_model_by_an_unknown_name() -> None:
    backends: Any = {name: SimpleNamespace(name=name, reads_options=False) for name in ("demo", "up")}
    router = Router(backends, aliases={"small": "demo/scripted"}, default="up/large")
    router.add_models(["demo/scripted", "up/large"])
    access = ModelAccess(("small", "mini-*"))
    assert router.find("small", access).model == "scripted"
    for name in ("small?", "small?mode=plan", "mini-unknown", "large", "up/large"):
        with pytest.raises(GatewayError) as caught:
            router.find(name, access)
        assert caught.value.status == 403, name
    assert router.find("anything", ModelAccess(("up/*",))).model == "large"


@each(("allowed", "name"), [("gpt-*", "gpt-x"), ("*-high", "quick-high")])
async def test_a_model_that_was_refused_or_used_by_another_key_is_refused_again(allowed: str, name: str) -> None:
    limited = KeySettings(key_env="LIMITED", models=(allowed,))
    async with client("demo/scripted", limited=limited) as http:
        body = {"model": name, "messages": HELLO}
        assert (await http.post("/v1/chat/completions", json=body)).status_code == 403
        assert (await http.post("/v1/chat/completions", json=body, headers={"x-api-key": OWN})).status_code == 200
        assert (await http.post("/v1/chat/completions", json=body)).status_code == 403


def test_a_user_agent_does_not_give_a_named_key_the_tools_of_the_gateway() -> None:
    profiles = Profiles([Profile(user_agent="script/*", tools=True)], has_named_keys=True)
    asked = exchange(x_api_key="named-key", user_agent="script/1")
    asked.client_key = NamedKey("named", "named-key")
    assert profiles.of(asked).tools is False
    asked.client_key = NamedKey("named", "named-key", tools=True)
    assert profiles.of(asked).tools is True
    asked.client_key = OWN_KEY
    assert profiles.of(asked).tools is True
