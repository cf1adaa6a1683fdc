"""Tests of the paths for Cursor's editor: its base URL, the path of Azure, and CORS for lists of models."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest

from tests.catalogue.serving import KEY, SECRETS, Stand, listening, says, serving
from tieline.app.build.application import build
from tieline.app.config import Config, KeySettings

DEMO = "demo/scripted"
HELLO = [{"role": "user", "content": "Hello"}]
EDITOR = {"origin": "vscode-file://vscode-app"}
CORS = "access-control-allow-origin"
BASES = ("/cursor", "/cursor/v1")


@pytest.fixture
async def stand() -> AsyncIterator[Stand]:
    async with serving(settings={"aliases": {"tl-fast": "oai/test-model"}}) as made:
        yield made


@asynccontextmanager
async def keyless() -> AsyncIterator[httpx2.AsyncClient]:
    app = build(Config(), {})
    try:
        async with listening(app) as url, httpx2.AsyncClient(base_url=url, timeout=60) as http:
            yield http
    finally:
        await app.aclose()


async def test_both_base_urls_serve_completions_and_models(stand: Stand) -> None:
    for base in BASES:
        response = await stand.http.post(f"{base}/chat/completions", json={"model": DEMO, "messages": HELLO})
        assert response.status_code == 200
        assert response.json()["object"] == "chat.completion"
        listed = (await stand.http.get(f"{base}/models")).json()
        assert listed["object"] == "list"
        assert {"tl-fast", "oai/test-model", DEMO} <= {model["id"] for model in listed["data"]}
        for name in ("tl-fast", "oai/test-model"):
            assert (await stand.http.get(f"{base}/models/{name}")).json()["id"] == name
        unknown = await stand.http.get(f"{base}/models/nowhere/x")
        assert unknown.status_code == 404
        assert unknown.json()["error"]["code"] == "model_not_found"


async def test_e12_a_wrong_key_gets_the_error_of_openai(stand: Stand) -> None:
    for path in ("/cursor/models", "/cursor/v1/models"):
        response = await stand.http.get(path, headers={"x-api-key": "wrong"})
        assert response.status_code == 401
        assert response.json()["error"]["code"] == "invalid_api_key"


async def test_a_base_url_with_a_slash_at_its_end_works(stand: Stand) -> None:
    assert (await stand.http.get("/cursor//models")).status_code == 200
    assert (await stand.http.get("/cursor/v1/models/")).status_code == 200


async def test_the_paths_below_the_prefix_are_these_only(stand: Stand) -> None:
    for path in (
        "/cursor",
        "/cursor/v1",
        "/cursor/api/inbox",
        "/cursor/metrics",
        "/cursor/v1/messages",
        "/cursor/healthz",
    ):
        assert (await stand.http.get(path)).status_code == 404, path
        assert (await stand.http.post(path, json={})).status_code == 404, path
    assert (await stand.http.get("/cursor/chat/completions")).status_code == 405


# ── Azure ────────────────────────────────────────────────────────────────────────────────────────

VERIFICATION: dict[str, Any] = {
    "messages": HELLO,
    "temperature": 1,
    "top_p": 1,
    "n": 1,
    "max_tokens": 10,
    "stream": False,
}


async def test_e09_the_deployment_in_the_path_is_the_model(stand: Stand) -> None:
    azure = {"x-api-key": "", "api-key": KEY}
    path = "/openai/deployments/tl-fast/chat/completions?api-version=2024-12-01-preview"
    for body in (VERIFICATION, {**VERIFICATION, "model": "some-label"}):
        stand.script("oai", says("oai", "Hi"))
        response = await stand.http.post(path, json=body, headers=azure)
        assert response.status_code == 200, response.text
        assert response.json()["model"] == "tl-fast"
        assert response.json()["choices"][0]["message"]["content"] == "Hi"
        request = stand.asked("oai")[-1]
        assert request.json["model"] == "test-model"
        assert request.header("api-key") is None
        assert request.header("authorization") == f"Bearer {SECRETS['oai']}"


async def test_e09_a_deployment_streams(stand: Stand) -> None:
    stand.script("oai", says("oai", "Hel", "lo"))
    body = {"model": "some-label", "messages": HELLO, "stream": True}
    response = await stand.http.post("/openai/deployments/tl-fast/chat/completions", json=body)
    frames = [json.loads(line[6:]) for line in response.text.splitlines() if line.startswith("data: {")]
    assert {frame["model"] for frame in frames} == {"tl-fast"}
    assert response.text.endswith("data: [DONE]\n\n")


async def test_the_name_of_a_deployment_may_contain_slashes(stand: Stand) -> None:
    for name in (DEMO, "demo%2Fscripted"):
        response = await stand.http.post(f"/openai/deployments/{name}/chat/completions", json=VERIFICATION)
        assert response.status_code == 200
        assert response.json()["model"] == DEMO


async def test_other_paths_of_azure_are_not_served(stand: Stand) -> None:
    for path in ("tl-fast/embeddings", "chat/completions", "tl-fast/chat/completions/x", "tl-fast"):
        response = await stand.http.post(f"/openai/deployments/{path}", json=VERIFICATION)
        assert response.status_code == 404, path
    assert stand.asked("oai") == []


async def test_limits_of_a_key_apply_to_deployments() -> None:
    keys = {"editor": KeySettings(key_env="EDITOR", models=("demo/*",))}
    async with serving(env={"EDITOR": "editor-key"}, settings={"keys": keys}) as stand:
        headers = {"x-api-key": "", "api-key": "editor-key"}
        for name, status in (("demo/scripted", 200), ("oai/test-model", 403)):
            path = f"/openai/deployments/{name}/chat/completions"
            body = {**VERIFICATION, "model": "demo/scripted"}
            assert (await stand.http.post(path, json=body, headers=headers)).status_code == status


# ── CORS ─────────────────────────────────────────────────────────────────────────────────────────


async def test_k23_the_editor_may_list_models_with_a_key(stand: Stand) -> None:
    for path in ("/cursor/models", "/cursor/v1/models", "/cursor/v1/models/tl-fast"):
        preflight = await stand.http.options(path, headers={**EDITOR, "x-api-key": ""})
        assert preflight.status_code == 200
        assert preflight.headers[CORS] == "*"
        assert "authorization" in preflight.headers["access-control-allow-headers"]
        response = await stand.http.get(path, headers=EDITOR)
        assert (response.status_code, response.headers[CORS]) == (200, "*")


async def test_without_a_valid_key_no_other_site_can_read_anything(stand: Stand) -> None:
    for path in ("/cursor/models", "/cursor/v1/models", "/cursor/v1/models/tl-fast"):
        for key in ("", "wrong"):
            response = await stand.http.get(path, headers={**EDITOR, "x-api-key": key})
            assert response.status_code == 401
            assert CORS not in response.headers


async def test_other_paths_stay_closed_to_other_sites_even_with_a_key(stand: Stand) -> None:
    for path in ("/v1/models", "/api/inbox", "/metrics"):
        response = await stand.http.get(path, headers=EDITOR)
        assert response.status_code == 403, path
        assert CORS not in response.headers
    for path in ("/cursor/chat/completions", "/openai/deployments/demo/scripted/chat/completions"):
        response = await stand.http.post(path, json=VERIFICATION, headers=EDITOR)
        assert response.status_code == 403, path
        preflight = await stand.http.options(path, headers=EDITOR)
        assert preflight.status_code == 403
        assert CORS not in preflight.headers


async def test_a_gateway_without_a_key_stays_closed_to_other_sites() -> None:
    async with keyless() as http:
        assert (await http.get("/cursor/models")).status_code == 200
        assert CORS not in (await http.get("/cursor/models")).headers
        for response in (
            await http.get("/cursor/models", headers=EDITOR),
            await http.options("/cursor/models", headers=EDITOR),
        ):
            assert response.status_code == 403
            assert CORS not in response.headers
