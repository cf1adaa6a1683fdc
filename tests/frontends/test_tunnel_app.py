"""Tests of the listener behind a tunnel: only the paths of Cursor's editor, and only with the tunnel's key."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest

from tests.catalogue.serving import listening
from tests.each import each
from tests.frontends.test_keys import Clock
from tieline.app.build.application import App, Tunnel, build
from tieline.app.config import ClientSettings, Config, KeySettings, ToolSettings
from tieline.app.keys.rules import model_access
from tieline.core.usage.limits import KeyLimits
from tieline.frontends.http import Exchange
from tieline.frontends.keys import NamedKey
from tieline.model.errors import GatewayError

OWN, KEY = "gateway-key", "tunnel-key"
TUNNELLED = {
    "host": "quiet-river.trycloudflare.com",
    "cf-connecting-ip": "203.0.113.9",
    "x-forwarded-for": "203.0.113.9",
}
HELLO = [{"role": "user", "content": "Hello"}]
QUESTION: dict[str, Any] = {"model": "demo/scripted", "messages": HELLO}
ELSEWHERE = (
    "/",
    "/chat",
    "/connect",
    "/traffic",
    "/static/app.css",
    "/metrics",
    "/v1",
    "/v1/models",
    "/v1/models/demo/scripted",
    "/v1/chat/completions",
    "/v1/messages",
    "/v1/messages/count_tokens",
    "/v1/embeddings",
    "/chat/completions",
    "/models",
    "/api/hello",
    "/api/inbox",
    "/api/inbox/watch",
    "/api/inbox/1",
    "/api/rules",
    "/api/rules/1",
    "/api/state",
    "/api/login",
    "/api/stream",
    "/api/files",
    "/api/sessions",
    "/api/sessions/1",
    "/api/traffic",
    "/api/traffic/1",
    "/api/connect",
    "/api/connect/cursor",
    "/cursor",
    "/cursor/",
    "/cursor/v1",
    "/cursor/metrics",
    "/cursor/api/inbox",
    "/cursor/v1/messages",
    "/cursor/..%2fapi/inbox",
    "/cursor//api//inbox",
    "//api/inbox",
    "/%61pi/inbox",
    "/openai",
    "/openai/deployments",
    "/openai/v1/chat/completions",
)


class Stand(NamedTuple):
    app: App
    url: str
    http: httpx2.AsyncClient
    """Sends the tunnel's key."""


@asynccontextmanager
async def serving(
    key: NamedKey | None = None, env: dict[str, str] | None = None, clock: Clock | None = None, **settings: Any
) -> AsyncIterator[Stand]:
    used = key or NamedKey("tunnel", KEY, access=model_access((), agents=False))
    app = build(Config(**settings), {"TIELINE_KEY": OWN, **(env or {})}, tunnel=Tunnel(used, clock=clock or Clock()))
    headers = {**TUNNELLED, "authorization": f"Bearer {KEY}"}
    try:
        async with (
            listening(app, asgi=app.tunnel) as url,
            httpx2.AsyncClient(base_url=url, headers=headers, timeout=60) as http,
        ):
            yield Stand(app, url, http)
    finally:
        await app.aclose()


async def test_the_editor_is_served_through_the_tunnel() -> None:
    async with serving() as stand:
        for base in ("/cursor", "/cursor/v1"):
            response = await stand.http.post(f"{base}/chat/completions", json=QUESTION)
            assert response.status_code == 200
            assert response.json()["model"] == "demo/scripted"
            assert (await stand.http.get(f"{base}/models")).status_code == 200
            assert (await stand.http.get(f"{base}/models/demo/scripted")).json()["id"] == "demo/scripted"
        azure = {"authorization": "", "api-key": KEY}
        path = "/openai/deployments/demo/scripted/chat/completions?api-version=2024-12-01-preview"
        assert (await stand.http.post(path, json={"messages": HELLO}, headers=azure)).status_code == 200
        assert (await stand.http.get("/healthz", headers={"authorization": ""})).json() == {"status": "ok"}


async def test_every_other_path_is_not_found_whoever_asks() -> None:
    headers = [
        {},
        {"authorization": ""},
        {"authorization": f"Bearer {OWN}"},
        {"authorization": f"Bearer {OWN}", "host": "127.0.0.1"},
        {"origin": "https://evil.example"},
    ]
    async with serving() as stand:
        for path in ELSEWHERE:
            for given in headers:
                for method in ("GET", "POST", "DELETE", "OPTIONS"):
                    response = await stand.http.request(method, path, headers=given)
                    assert response.status_code == 404, (method, path, given)
                    assert response.json()["error"]["message"] == "Not found.", path
                    assert "access-control-allow-origin" not in response.headers


async def test_an_absolute_target_leads_nowhere_else() -> None:
    async with serving() as stand:
        for target in ("http://127.0.0.1:18741/api/inbox", "/cursor/../api/inbox", "*"):
            port = int(stand.url.rpartition(":")[2])
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            head = f"GET {target} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {KEY}\r\nconnection: close\r\n\r\n"
            writer.write(head.encode())
            answer = await asyncio.wait_for(reader.read(), 60)
            writer.close()
            assert answer.split(b" ")[1] in (b"400", b"404"), target
            assert b"inbox" not in answer


PATHS = ("/cursor/models", "/cursor/v1/models/demo/scripted", "/cursor/chat/completions")


async def test_a_key_is_always_required_and_only_that_of_the_tunnel_is_valid() -> None:
    keys = {"robot": KeySettings(key_env="ROBOT")}
    async with serving(env={"ROBOT": "robot-key"}, keys=keys) as stand:
        for key in ("", "wrong", OWN, "robot-key"):
            for path in (*PATHS, "/openai/deployments/demo/scripted/chat/completions"):
                method = "POST" if path.endswith("completions") else "GET"
                headers = {"authorization": "", "x-api-key": key}
                response = await stand.http.request(method, path, headers=headers, content=json.dumps(QUESTION))
                assert response.status_code == 401, (path, key)
                assert response.json()["error"]["code"] == "invalid_api_key"
                assert "tunnel-key" not in response.text


async def test_a_gateway_without_keys_requires_one_here() -> None:
    app = build(Config(), {}, tunnel=Tunnel(NamedKey("tunnel", KEY)))
    assert app.tunnel is not None
    async with listening(app, asgi=app.tunnel) as url, httpx2.AsyncClient(base_url=url, timeout=60) as http:
        assert (await http.get("/cursor/models")).status_code == 401
        assert (await http.get("/cursor/models", headers={"api-key": KEY})).status_code == 200
    await app.aclose()


async def test_the_key_of_the_tunnel_is_not_valid_at_the_main_address() -> None:
    app = build(Config(), {"TIELINE_KEY": OWN}, tunnel=Tunnel(NamedKey("tunnel", KEY)))
    async with listening(app) as url, httpx2.AsyncClient(base_url=url, timeout=60) as http:
        for path in ("/v1/models", "/cursor/models", "/api/inbox", "/metrics"):
            assert (await http.get(path, headers={"x-api-key": KEY})).status_code == 401, path
    await app.aclose()


async def test_agents_are_off_unless_the_key_allows_them() -> None:
    async with serving(default_model="acp/claude") as stand:
        for model in ("acp/claude", "acp:claude", "anything", ""):
            response = await stand.http.post("/cursor/chat/completions", json={**QUESTION, "model": model})
            assert response.status_code == 403, model
            assert "all models except acp/*" in response.json()["error"]["message"]
        listed = (await stand.http.get("/cursor/models")).json()["data"]
        assert [model["id"] for model in listed if model["id"].startswith("acp/")] == []
        unknown = await stand.http.get("/cursor/models/nowhere/x")
        assert unknown.status_code == 404
        assert "acp" not in unknown.json()["error"]["message"]


READING = '```tieline\ncall: read_file {"path": "a.txt"}\n---\ntext: It said: {{result}}\n```'


@each(("tools", "said"), [(False, False), (True, True)])
async def test_the_gateways_tools_are_off_unless_the_key_has_them(tools: bool, said: bool, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("the content\n")
    settings: dict[str, Any] = {
        "tools": ToolSettings(enabled=True, workspace=str(tmp_path)),
        "clients": {"all": ClientSettings(tools=True)},  # for the main address only
    }
    async with serving(NamedKey("tunnel", KEY, tools=tools), **settings) as stand:
        body = {**QUESTION, "messages": [{"role": "user", "content": READING}]}
        response = await stand.http.post("/cursor/chat/completions", json=body)
        assert ("the content" in response.text) is said


async def test_the_rate_is_limited_in_the_format_of_openai() -> None:
    clock = Clock()
    async with serving(NamedKey("tunnel", KEY, limits=KeyLimits(requests_per_minute=2)), clock=clock) as stand:
        for _ in range(2):
            assert (await stand.http.get("/cursor/models")).status_code == 200
        refused = await stand.http.post("/cursor/v1/chat/completions", json=QUESTION)
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "30")
        error = refused.json()["error"]
        assert (error["type"], error["code"]) == ("rate_limit_error", "rate_limit_exceeded")
        assert error["message"] == "This key may send 2 requests per minute. Try again in 30 s."
        assert (await stand.http.get("/healthz")).status_code == 200
        clock.now += 30
        assert (await stand.http.post("/cursor/v1/chat/completions", json=QUESTION)).status_code == 200


async def test_the_editor_may_list_models_from_another_site() -> None:
    origin = {"origin": "vscode-file://vscode-app"}
    async with serving() as stand:
        preflight = await stand.http.options("/cursor/v1/models", headers={**origin, "authorization": ""})
        assert preflight.headers["access-control-allow-origin"] == "*"
        listed = await stand.http.get("/cursor/v1/models", headers=origin)
        assert (listed.status_code, listed.headers["access-control-allow-origin"]) == (200, "*")
        assert (await stand.http.post("/cursor/v1/chat/completions", json=QUESTION, headers=origin)).status_code == 403


async def test_a_watcher_sees_every_request() -> None:
    seen: list[tuple[str, str, int]] = []

    def watch(exchange: Exchange, error: GatewayError | None) -> None:
        seen.append((exchange.method, exchange.path, error.status if error else 0))

    app = build(Config(), {}, tunnel=Tunnel(NamedKey("tunnel", KEY), observe=watch))
    async with listening(app, asgi=app.tunnel) as url, httpx2.AsyncClient(base_url=url, timeout=60) as http:
        await http.get("/cursor/models", headers={"api-key": KEY})
        await http.get("/cursor/models")
        await http.get("/api/inbox", headers={"api-key": KEY})
    await app.aclose()
    assert seen == [("GET", "/cursor/models", 0), ("GET", "/cursor/models", 401), ("GET", "/api/inbox", 404)]


async def test_the_key_never_reaches_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async with serving() as stand:
        body = {**QUESTION, "model": f"nowhere/{KEY}"}
        response = await stand.http.post("/cursor/chat/completions", json=body, headers={"user-agent": KEY})
        assert response.status_code == 404
    assert "nowhere/" in caplog.text
    assert KEY not in caplog.text
