"""Upstreams that are added on the page: tested, stored, used at once, and never shown with their key."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.catalogue.serving import listening
from tests.web.serving import KEY, PageStand, serving
from tieline.app.build.application import build
from tieline.app.config import Config, KeySettings, UpstreamSettings, WebSettings

SECRET = "upstream-secret-4711"
STATE = Path(".local/state/tieline/added-upstreams.json")
KEYS = Path(".config/tieline/upstream-keys.json")


@asynccontextmanager
async def upstream(folder: Path, key: str = SECRET) -> AsyncIterator[str]:
    """Another gateway as upstream, with the demo model and a key; its address."""
    app = build(Config(), {"HOME": str(folder), "PATH": "", "TIELINE_KEY": key})
    try:
        async with listening(app) as url:
            yield url
    finally:
        await app.aclose()


def openai_like(url: str, **fields: Any) -> dict[str, Any]:
    return {"provider": "openai-like", "name": "up", "base_url": f"{url}/v1", "key": SECRET, **fields}


def states(test: dict[str, Any]) -> dict[str, str]:
    return {step["id"]: step["state"] for step in test["steps"]}


async def answered(page: PageStand, model: str, words: str = "say hello") -> httpx2.Response:
    body = {"model": model, "messages": [{"role": "user", "content": words}]}
    return await page.http.post("/v1/chat/completions", json=body)


async def models(page: PageStand) -> list[str]:
    listed = (await page.http.get("/v1/models")).json()
    return [model["id"] for model in listed["data"]]


def files_below(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# ── Adding, using, removing ──────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("provider", ["openai-like", "anthropic-like"])
async def test_an_upstream_is_tested_added_and_used_without_a_restart(tmp_path: Path, provider: str) -> None:
    async with upstream(tmp_path / "up") as url, serving(tmp_path / "own") as page:
        new = openai_like(url, provider=provider)
        test = await page.post("/api/upstream-test", new)
        assert states(test) == {"reach": "ok", "models": "ok", "key": "ok", "tools": "ok"}, test
        assert test["models"] == ["demo/scripted"]
        assert (await answered(page, "up/demo/scripted")).status_code == 404
        added = (await page.post("/api/upstreams", new))["added"]
        assert [(one["name"], one["has_key"], one["ready"]) for one in added] == [("up", True, True)]
        assert "up/demo/scripted" in await models(page)
        reply = (await answered(page, "up/demo/scripted")).json()
        assert reply["choices"][0]["message"]["content"] == "hello"
        backends = (await page.get("/api/connect"))["backends"]
        assert ("up", "page") in [(one["name"], one["source"]) for one in backends]


async def test_an_added_upstream_is_there_after_a_restart_and_readable_by_its_owner_only(tmp_path: Path) -> None:
    async with upstream(tmp_path / "up") as url:
        async with serving(tmp_path / "own") as page:
            await page.post("/api/upstreams", openai_like(url))
        for file in (STATE, KEYS):
            assert (tmp_path / "own" / file).stat().st_mode & 0o777 == 0o600
        assert SECRET not in (tmp_path / "own" / STATE).read_text()
        async with serving(tmp_path / "own") as page:
            assert (await answered(page, "up/demo/scripted")).json()["choices"][0]["message"]["content"] == "hello"


async def test_a_removed_upstream_is_gone_with_its_key(tmp_path: Path) -> None:
    async with upstream(tmp_path / "up") as url, serving(tmp_path / "own") as page:
        await page.post("/api/upstreams", openai_like(url))
        await models(page)
        assert (await page.call("DELETE", "/api/upstreams/up"))["added"] == []
        assert "up/demo/scripted" not in await models(page)
        assert (await answered(page, "up/demo/scripted")).status_code == 404
        assert all(SECRET.encode() not in data for data in files_below(tmp_path / "own").values())
        await page.call("DELETE", "/api/upstreams/up", status=404)
        # The name is free again.
        await page.post("/api/upstreams", openai_like(url))


async def test_a_request_in_progress_outlives_its_upstream(tmp_path: Path) -> None:
    async with upstream(tmp_path / "up") as url, serving(tmp_path / "own") as page:
        await page.post("/api/upstreams", openai_like(url))
        script = "```tieline\ntext: begun\npause: 0.3\ntext: and completed\n```"
        body = {"model": "up/demo/scripted", "stream": True, "messages": [{"role": "user", "content": script}]}
        async with page.http.stream("POST", "/v1/chat/completions", json=body) as response:
            lines = response.aiter_lines()
            while "begun" not in await anext(lines):
                pass
            await page.call("DELETE", "/api/upstreams/up")
            rest = "\n".join([line async for line in lines])
        assert "completed" in rest
        assert "[DONE]" in rest


async def test_an_upstream_with_a_well_known_name_answers_to_the_bare_names_of_its_models(tmp_path: Path) -> None:
    async with upstream(tmp_path / "up") as url, serving(tmp_path / "own") as page:
        new = openai_like(url, provider="anthropic-like", name="anthropic", base_url=url)
        await page.post("/api/upstreams", new)
        assert (await answered(page, "claude-sonnet-x")).json()["choices"][0]["message"]["content"] == "hello"
        await page.call("DELETE", "/api/upstreams/anthropic")
        assert (await answered(page, "claude-sonnet-x")).status_code == 404


async def test_replacing_a_key_takes_effect_at_once(tmp_path: Path) -> None:
    async with upstream(tmp_path / "up") as url, serving(tmp_path / "own") as page:
        await page.post("/api/upstreams", openai_like(url, key="a-wrong-key"))
        refused = await answered(page, "up/demo/scripted")
        assert refused.status_code == 401
        assert "the Connect page" in refused.text
        assert states(await page.post("/api/upstreams/up/test"))["key"] == "failed"
        await page.post("/api/upstreams/up/key", {"key": SECRET})
        assert (await answered(page, "up/demo/scripted")).status_code == 200
        assert states(await page.post("/api/upstreams/up/test"))["tools"] == "ok"


async def test_the_configuration_takes_precedence_over_an_added_upstream(tmp_path: Path) -> None:
    async with upstream(tmp_path / "up") as url:
        async with serving(tmp_path / "own") as page:
            await page.post("/api/upstreams", openai_like(url))
        config = Config(upstreams={"up": UpstreamSettings(kind="openai", base_url=f"{url}/v1", models=("mine",))})
        async with serving(tmp_path / "own", config) as page:
            (added,) = (await page.get("/api/connect"))["setup"]["added"]
            assert not added["ready"]
            assert "configuration" in added["note"]
            assert [name for name in await models(page) if name.startswith("up/")] == ["up/mine"]
            refused = await page.post("/api/upstreams", openai_like(url), status=400)
            assert "is in the configuration" in refused["error"]["message"]
            assert (await page.call("DELETE", "/api/upstreams/up"))["added"] == []
            assert "up/mine" in await models(page)


async def test_two_gateways_of_one_user_do_not_lose_each_others_upstreams(tmp_path: Path) -> None:
    async with upstream(tmp_path / "up") as url:
        async with serving(tmp_path / "own") as one, serving(tmp_path / "own") as other:
            await one.post("/api/upstreams", openai_like(url, name="first"))
            await other.post("/api/upstreams", openai_like(url, name="second"))
        async with serving(tmp_path / "own") as page:
            for name in ("first", "second"):
                assert (await answered(page, f"{name}/demo/scripted")).status_code == 200


# ── The key stays a secret ───────────────────────────────────────────────────────────────────────


async def test_the_key_is_in_no_answer_and_no_file_but_its_own(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with upstream(tmp_path / "up", key="another-key-entirely") as url, serving(tmp_path / "own") as page:
        texts = [json.dumps(await page.post("/api/upstream-test", openai_like(url)))]
        texts.append(json.dumps(await page.post("/api/upstreams", openai_like(url))))
        texts.append((await answered(page, "up/demo/scripted")).text)
        texts += [
            (await page.http.get(path)).text for path in ("/api/state", "/api/connect", "/api/traffic", "/metrics")
        ]
        for leg in (await page.get("/api/traffic"))["legs"]:
            texts.append((await page.http.get(f"/api/traffic/{leg['id']}")).text)
        assert "refused" in texts[0]
        assert all(SECRET not in text for text in texts)
    assert SECRET not in caplog.text
    found = [path for path, data in files_below(tmp_path / "own").items() if SECRET.encode() in data]
    assert found == [tmp_path / "own" / KEYS]


async def test_an_upstream_that_repeats_the_key_does_not_reveal_it(tmp_path: Path) -> None:
    def repeat(head: bytes) -> bytes:
        key = next(line for line in head.split(b"\r\n") if line.lower().startswith(b"authorization"))
        return reply(401, b'{"error": {"message": "bad key: ' + key + b'"}}')

    async with answering(repeat) as url, serving(tmp_path) as page:
        test = await page.post("/api/upstream-test", openai_like(url))
        assert states(test)["key"] == "failed"
        await page.post("/api/upstreams", openai_like(url, models=["m"]))
        refused = await answered(page, "up/m")
        assert SECRET not in json.dumps(test) + refused.text
        assert "bad key" in refused.text


async def test_the_key_does_not_follow_a_redirect_to_another_host(tmp_path: Path) -> None:
    heads: list[bytes] = []

    def steal(head: bytes) -> bytes:
        heads.append(head)
        return reply(200, b'{"data": []}')

    async with answering(steal) as thief:

        def redirect(_: bytes) -> bytes:
            return reply(307, b"", f"location: {thief}/v1/models\r\n".encode())

        async with answering(redirect) as url, serving(tmp_path) as page:
            test = await page.post("/api/upstream-test", openai_like(url, models=["m"]), status=200)
    assert heads == []
    assert "redirects" in json.dumps(test)


# ── Access ───────────────────────────────────────────────────────────────────────────────────────

CHANGES = [
    ("POST", "/api/upstreams"),
    ("POST", "/api/upstream-test"),
    ("POST", "/api/upstreams/up/key"),
    ("POST", "/api/upstreams/up/test"),
    ("DELETE", "/api/upstreams/up"),
    ("POST", "/api/agents/install"),
    ("DELETE", "/api/agents/install"),
]


@pytest.mark.parametrize(("method", "path"), CHANGES)
async def test_every_change_needs_the_token_of_the_page(tmp_path: Path, method: str, path: str) -> None:
    async with serving(tmp_path) as page:
        response = await page.http.request(method, path, json={})
        assert response.status_code == 403
        assert response.json()["error"]["code"] == "bad_token"
        other = {"x-tieline-token": (await page.state())["token"], "origin": "http://evil.example"}
        assert (await page.http.request(method, path, json={}, headers=other)).status_code == 403


@pytest.mark.parametrize(("method", "path"), CHANGES)
async def test_the_key_of_one_client_cannot_change_the_set_up(tmp_path: Path, method: str, path: str) -> None:
    config = Config(keys={"ci": KeySettings(key_env="CI_KEY")})
    async with serving(tmp_path, config, {"TIELINE_KEY": KEY, "CI_KEY": "the-key-of-ci"}) as page:
        await page.unlock()
        token = (await page.state())["token"]
        del page.http.headers["x-tieline-pass"]
        for key in ("the-key-of-ci", "no-key"):
            headers = {"x-tieline-token": token, "authorization": f"Bearer {key}"}
            assert (await page.http.request(method, path, json={}, headers=headers)).status_code == 401


async def test_the_gateways_own_key_can_change_the_set_up(tmp_path: Path) -> None:
    async with upstream(tmp_path / "up") as url, serving(tmp_path / "own", env={"TIELINE_KEY": KEY}) as page:
        await page.unlock()
        assert [one["name"] for one in (await page.post("/api/upstreams", openai_like(url)))["added"]] == ["up"]


async def test_the_set_up_can_be_switched_off(tmp_path: Path) -> None:
    async with serving(tmp_path, Config(web=WebSettings(setup=False))) as page:
        assert (await page.get("/api/connect"))["setup"] is None
        for method, path in CHANGES:
            error = (await page.call(method, path, {}, status=403))["error"]
            assert "`setup`" in error["message"]


# ── What the user enters ─────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("fields", "param", "words"),
    [
        ({"provider": "nobody"}, "provider", "must be one of anthropic, openai"),
        ({"name": ""}, "name", "is empty"),
        ({"name": "My Server"}, "name", "lower-case"),
        ({"name": "demo"}, "name", "`demo` is reserved"),
        ({"name": "x" * 41}, "name", "at most 40"),
        ({"base_url": ""}, "base_url", "is empty"),
        ({"base_url": "ftp://host/v1"}, "base_url", "http"),
        ({"base_url": "file:///etc/passwd"}, "base_url", "http"),
        ({"base_url": "http://user:pw@host/v1"}, "base_url", "user name or password"),
        ({"base_url": "http://host/v1?x=1"}, "base_url", "query"),
        ({"base_url": "http://host:99999/v1"}, "base_url", "port"),
        ({"base_url": "https://h/" + "x" * 2000}, "base_url", "at most 2000"),
        ({"key": "a\nkey"}, "key", "valid key"),
        ({"key": "schlüssel"}, "key", "valid key"),
        ({"key": "k" * 4097}, "key", "at most 4096"),
        ({"models": ["m" * 201]}, "models", "at most"),
        ({"models": "m"}, "models", "array"),
    ],
)
async def test_a_mistake_names_its_field(tmp_path: Path, fields: dict[str, Any], param: str, words: str) -> None:
    async with serving(tmp_path) as page:
        new = {**openai_like("http://127.0.0.1:9"), **fields}
        error = (await page.post("/api/upstreams", new, status=400))["error"]
        assert error["param"] == param
        assert words in error["message"]
        assert SECRET not in error["message"]
    assert not (tmp_path / STATE).exists()


async def test_a_name_that_is_taken_is_refused(tmp_path: Path) -> None:
    async with serving(tmp_path) as page:
        await page.post("/api/upstreams", openai_like("http://127.0.0.1:9"))
        error = (await page.post("/api/upstreams", openai_like("http://127.0.0.1:9"), status=400))["error"]
    assert (error["param"], "already added" in error["message"]) == ("name", True)


async def test_plain_http_to_another_machine_is_added_with_a_warning(tmp_path: Path) -> None:
    async with serving(tmp_path) as page:
        (added,) = (await page.post("/api/upstreams", openai_like("http://192.0.2.1:8000")))["added"]
        assert "TLS" in added["note"]
        await page.call("DELETE", "/api/upstreams/up")
        (added,) = (await page.post("/api/upstreams", openai_like("http://127.0.0.1:8000")))["added"]
        assert added["note"] == ""


async def test_a_preset_fills_in_address_api_and_dialect(tmp_path: Path) -> None:
    async with serving(tmp_path) as page:
        await page.post("/api/upstreams", {"provider": "deepseek", "name": "deepseek", "key": SECRET})
    stored = json.loads((tmp_path / STATE).read_text())["upstreams"]["deepseek"]
    assert stored["base_url"] == "https://api.deepseek.com/v1"
    assert stored["dialect"] == {"replay_reasoning": True}


# ── Tests of upstreams that do not work ──────────────────────────────────────────────────────────


def reply(status: int, body: bytes, headers: bytes = b"") -> bytes:
    head = f"HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n".encode()
    return head + headers + b"connection: close\r\n\r\n" + body


@asynccontextmanager
async def answering(answer: Callable[[bytes], bytes]) -> AsyncIterator[str]:
    """A server that answers each request with `answer(head)`; its address."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if b"/v1 HTTP" in head.split(b"\r\n")[0]:
            writer.write(reply(404, b"{}"))
        else:
            writer.write(answer(head))
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def test_an_address_where_nothing_listens_is_not_reached(tmp_path: Path) -> None:
    async with serving(tmp_path) as page:
        test = await page.post("/api/upstream-test", openai_like("http://127.0.0.1:9"))
    assert states(test) == {"reach": "failed"}
    assert not test["is_usable"]
    assert "127.0.0.1:9" in test["steps"][0]["text"]


@pytest.mark.parametrize(("given", "words"), [("a-wrong-key", "was refused"), ("", "requires a key")])
async def test_a_wrong_or_missing_key_is_told_apart(tmp_path: Path, given: str, words: str) -> None:
    async with upstream(tmp_path / "up") as url, serving(tmp_path / "own") as page:
        test = await page.post("/api/upstream-test", openai_like(url, key=given))
    assert states(test) == {"reach": "ok", "key": "failed"}
    assert words in test["steps"][1]["text"]


async def test_a_server_without_a_list_of_models_needs_a_name(tmp_path: Path) -> None:
    missing = reply(404, b'{"error": {"message": "no such path"}}')
    async with answering(lambda _: missing) as url, serving(tmp_path) as page:
        test = await page.post("/api/upstream-test", openai_like(url))
        assert states(test) == {"reach": "ok", "models": "warning", "tools": "warning"}
        assert "enter the name of a model" in test["steps"][2]["text"]
        named = await page.post("/api/upstream-test", openai_like(url, model="m"))
        assert states(named)["tools"] == "failed"
        assert "no such path" in named["steps"][2]["text"]


async def test_a_model_that_does_not_call_tools_is_usable_with_a_warning(tmp_path: Path) -> None:
    text = b'{"choices": [{"message": {"role": "assistant", "content": "I cannot."}, "finish_reason": "stop"}]}'

    def answer(head: bytes) -> bytes:
        return reply(200, b'{"data": [{"id": "plain"}]}' if head.startswith(b"GET") else text)

    async with answering(answer) as url, serving(tmp_path) as page:
        test = await page.post("/api/upstream-test", openai_like(url))
    assert states(test) == {"reach": "ok", "models": "ok", "key": "ok", "tools": "warning"}
    assert test["is_usable"]
    assert "may not support tools" in test["steps"][3]["text"]


@pytest.mark.parametrize(
    ("models_offered", "chosen"),
    [
        (["text-embedding-3-small", "gpt-5", "gpt-5-mini", "whisper-1"], "gpt-5-mini"),
        (["llama3"], "llama3"),
        (["text-embedding-3-small"], "text-embedding-3-small"),
    ],
)
async def test_a_small_model_that_chats_is_chosen_for_the_test(
    tmp_path: Path, models_offered: list[str], chosen: str
) -> None:
    listing = json.dumps({"data": [{"id": model} for model in models_offered]}).encode()

    def answer(head: bytes) -> bytes:
        return reply(200, listing) if head.startswith(b"GET") else reply(400, b"{}")

    async with answering(answer) as url, serving(tmp_path) as page:
        assert (await page.post("/api/upstream-test", openai_like(url)))["model"] == chosen


# ── Damaged files ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"version": 1}', '{"version": 1, "upstreams": {"x": 5}}', "[" * 100000]
)
async def test_a_damaged_file_is_a_warning_and_not_the_end(
    tmp_path: Path, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / STATE).parent.mkdir(parents=True)
    (tmp_path / STATE).write_text(text)
    async with serving(tmp_path) as page:
        assert (await page.get("/api/connect"))["setup"]["added"] == []
        error = (await page.post("/api/upstreams", openai_like("http://127.0.0.1:9"), status=500))["error"]
    assert str(tmp_path / STATE) in error["message"]
    assert str(tmp_path / STATE) in caplog.text
    assert (tmp_path / STATE).read_text() == text


async def test_lost_keys_are_told_and_can_be_entered_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with upstream(tmp_path / "up") as url:
        async with serving(tmp_path / "own") as page:
            await page.post("/api/upstreams", openai_like(url))
        (tmp_path / "own" / KEYS).write_text("{" + SECRET)
        async with serving(tmp_path / "own") as page:
            (added,) = (await page.get("/api/connect"))["setup"]["added"]
            assert "Enter it again" in added["note"]
            await page.post("/api/upstreams/up/key", {"key": SECRET})
            (added,) = (await page.get("/api/connect"))["setup"]["added"]
            assert added["ready"]
            assert (await answered(page, "up/demo/scripted")).status_code == 200
    assert SECRET not in caplog.text


async def test_a_stored_upstream_with_a_mistake_is_not_used(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / STATE).parent.mkdir(parents=True)
    stored = {"version": 1, "upstreams": {"up": {"kind": "openai", "base_url": "gopher://x"}}}
    (tmp_path / STATE).write_text(json.dumps(stored))
    async with serving(tmp_path) as page:
        assert (await page.get("/api/connect"))["setup"]["added"] == []
    assert "ignoring an upstream" in caplog.text
