"""Tests of stored keys over HTTP: how they are managed, what they may do and see, and how their limits are reported."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import httpx2
from websockets.asyncio.client import connect

from tests.catalogue.serving import listening
from tests.each import each
from tieline.app.build.application import App, build
from tieline.app.build.storage import Storage
from tieline.app.config import (
    Config,
    KeyRules,
    KeySettings,
    PriceSettings,
    StoreSettings,
    ToolSettings,
    UpstreamSettings,
)
from tieline.app.keys.table import KeyTable
from tieline.model.inbox import Approval, ApprovalAnswer, Origin
from tieline.sim.model import Answer, ModelServer

OWN = "own-key-of-the-gateway"
HELLO = [{"role": "user", "content": "Hello"}]
CHAT = {"model": "demo/scripted", "messages": HELLO}
HEADERS = ("authorization", "x-api-key", "api-key")


class Stand:
    """A gateway, and a client with its own key."""

    def __init__(self, app: App, http: httpx2.AsyncClient) -> None:
        self.app = app
        self.http = http

    async def key(self, name: str, **rules: Any) -> dict[str, str]:
        """Create a key and return the header that sends it."""
        response = await self.http.post("/api/keys", json={"name": name, "rules": rules})
        assert response.status_code == 200, response.text
        return {"x-api-key": response.json()["key"]}

    async def chat(self, headers: dict[str, str], **fields: Any) -> httpx2.Response:
        return await self.http.post("/v1/chat/completions", json={**CHAT, **fields}, headers=headers)

    async def token(self, headers: dict[str, str]) -> dict[str, str]:
        """Return headers with the token of the page."""
        state = (await self.http.get("/api/state", headers=headers)).json()
        return {**headers, "x-tieline-token": state["token"]}


@asynccontextmanager
async def stand(folder: Path, config: Config | None = None, **env: str) -> AsyncIterator[Stand]:
    app = build(config or Config(), {"TIELINE_KEY": OWN, "XDG_STATE_HOME": str(folder), **env})
    try:
        async with (
            listening(app) as url,
            httpx2.AsyncClient(base_url=url, headers={"x-api-key": OWN}, timeout=60) as http,
        ):
            yield Stand(app, http)
    finally:
        await app.aclose()


# ── Management ───────────────────────────────────────────────────────────────────────────────────


async def test_a_key_is_created_used_rotated_and_revoked(tmp_path: Path) -> None:
    async with stand(tmp_path) as here:
        alice = await here.key("alice", models=["demo/*"])
        assert (await here.chat(alice)).status_code == 200
        listed = (await here.http.get("/api/keys")).json()["keys"]
        assert [(key["name"], key["state"]) for key in listed] == [("alice", "valid")]
        assert "digest" not in json.dumps(listed)
        assert alice["x-api-key"] not in json.dumps(listed)
        rotated = (await here.http.post("/api/keys/alice/rotate", json={"grace": 60})).json()
        newer = {"x-api-key": rotated["key"]}
        assert [(await here.chat(key)).status_code for key in (alice, newer)] == [200, 200]
        assert (await here.http.post("/api/keys/alice/revoke")).json()["state"] == "revoked"
        for key, message in ((newer, "This key has been revoked."), (alice, "This gateway needs its key")):
            refused = await here.chat(key)
            assert refused.status_code == 401
            assert refused.json()["error"]["message"].startswith(message)
            assert refused.json()["error"]["code"] == "invalid_api_key"


async def test_every_header_for_keys_is_accepted(tmp_path: Path) -> None:
    async with stand(tmp_path) as here:
        key = (await here.key("alice"))["x-api-key"]
        async with httpx2.AsyncClient(base_url=here.http.base_url, timeout=60) as plain:
            for name in HEADERS:
                value = f"Bearer {key}" if name == "authorization" else key
                for path, body in (
                    ("/v1/chat/completions", CHAT),
                    ("/v1/messages", {**CHAT, "max_tokens": 9}),
                    ("/v1/responses", {"model": "demo/scripted", "input": "Hello"}),
                ):
                    assert (await plain.post(path, json=body, headers={name: value})).status_code == 200, (name, path)
                    assert (await plain.post(path, json=body, headers={name: value + "x"})).status_code == 401


@each("rules", [{"models": "demo"}, {"unknown": 1}, {"cost_per_day": -1}, {"expires": "soon"}])
async def test_rules_that_are_not_valid_are_refused(rules: dict[str, Any]) -> None:
    async with stand(Path("/nonexistent-folder-of-the-test")) as here:
        refused = await here.http.post("/api/keys", json={"name": "alice", "rules": rules})
        assert refused.status_code == 400
        assert refused.json()["error"]["param"].startswith("rules")


async def test_only_an_admin_key_may_manage_keys_or_change_the_set_up(tmp_path: Path) -> None:
    paths = [("GET", "/api/keys"), ("POST", "/api/keys"), ("POST", "/api/keys/alice/revoke"), ("GET", "/api/connect")]
    paths += [("GET", "/api/rules"), ("POST", "/api/upstreams"), ("GET", "/api/agents/install")]
    async with stand(tmp_path) as here:
        alice, boss = await here.key("alice"), await here.key("boss", admin=True)
        for method, path in paths:
            refused = await here.http.request(method, path, headers=alice)
            assert refused.status_code == 403, path
            assert refused.json()["error"]["message"] == "This needs the gateway's own key or an admin key."
        assert (await here.http.get("/metrics", headers=alice)).status_code == 401
        assert (await here.http.get("/api/keys", headers=boss)).status_code == 200
        assert (await here.http.get("/metrics", headers=boss)).status_code == 200


async def test_a_browser_needs_the_token_of_the_page_to_manage_keys(tmp_path: Path) -> None:
    async with stand(tmp_path) as here:
        given = (await here.http.post("/api/login", json={"key": OWN})).json()["pass"]
        page = {"origin": str(here.http.base_url).rstrip("/"), "x-api-key": "", "x-tieline-pass": given}
        refused = await here.http.post("/api/keys", json={"name": "alice"}, headers=page)
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "bad_token")
        headers = await here.token(page)
        assert (await here.http.post("/api/keys", json={"name": "alice"}, headers=headers)).status_code == 200


async def test_a_key_that_was_created_elsewhere_works_at_once(tmp_path: Path) -> None:
    async with stand(tmp_path) as first, stand(tmp_path) as second:
        alice = await first.key("alice")
        assert (await second.chat(alice)).status_code == 200
        await first.http.post("/api/keys/alice/revoke")
        async with asyncio.timeout(10):
            while (await second.chat(alice)).status_code != 401:
                pass


async def test_a_key_is_valid_for_every_model_path_with_and_without_its_version(tmp_path: Path) -> None:
    async with stand(tmp_path) as here:
        alice = await here.key("alice")
        missing = (await here.http.get("/v1/nothing")).json()["error"]["message"]
        paths = re.findall(r"(GET|POST) /v1(/[a-z_/]+)", missing)
        assert ("POST", "/responses") in paths
        assert ("GET", "/models") in paths
        for method, path in paths:
            for base in ("", "/v1"):
                response = await here.http.request(method, base + path, headers=alice, json={})
                assert response.status_code != 401, (base, path, response.text)


async def test_a_key_that_would_have_expired_is_not_created(tmp_path: Path) -> None:
    async with stand(tmp_path) as here:
        body = {"name": "alice", "rules": {"expires": "2020-02-29"}}
        refused = await here.http.post("/api/keys", json=body)
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, "rules.expires")
        await here.key("alice")


# ── Limits ───────────────────────────────────────────────────────────────────────────────────────

ENDPOINTS: list[tuple[str, dict[str, Any]]] = [
    ("/v1/chat/completions", {"messages": HELLO}),
    ("/v1/chat/completions", {"messages": HELLO, "stream": True}),
    ("/v1/chat/completions", {"messages": HELLO, "n": 2}),
    ("/cursor/v1/chat/completions", {"messages": HELLO, "stream": True}),
    ("/openai/deployments/demo/scripted/chat/completions", {"messages": HELLO}),
    ("/v1/messages", {"messages": HELLO, "max_tokens": 9}),
    ("/v1/messages", {"messages": HELLO, "max_tokens": 9, "stream": True}),
    ("/v1/responses", {"input": "Hello"}),
    ("/v1/responses", {"input": "Hello", "stream": True}),
]


async def test_a_used_budget_is_reported_in_the_format_of_every_client(tmp_path: Path) -> None:
    async with stand(tmp_path) as here:
        alice = await here.key("alice", tokens_per_day=10)
        assert (await here.chat(alice)).status_code == 200
        for path, body in ENDPOINTS:
            refused = await here.http.post(path, json={"model": "demo/scripted", **body}, headers=alice)
            assert refused.status_code == 429, (path, refused.text)
            assert 0 < int(refused.headers["retry-after"]) <= 24 * 3600
            error = refused.json()["error"]
            assert error["message"].startswith("This key may use 10 tokens per day, which is used up. It resets at ")
            assert error["type"] == ("rate_limit_error" if "messages" in path else error["type"])
        url = f"ws://{here.http.base_url.netloc.decode()}/v1/responses"
        async with connect(url, additional_headers=alice) as socket:
            await socket.send(json.dumps({"type": "response.create", "model": "demo/scripted", "input": "Hello"}))
            frame = json.loads(await socket.recv())
        assert (frame["type"], frame["status"]) == ("error", 429)
        assert "10 tokens per day" in frame["error"]["message"]


async def test_an_embedding_counts_against_a_budget_like_any_other_request(tmp_path: Path) -> None:
    answer = {"data": [{"embedding": [0.5] * 400}], "usage": {"prompt_tokens": 7, "total_tokens": 7}}
    async with ModelServer() as upstream:
        upstream.default("/v1/embeddings", Answer(body=json.dumps(answer).encode()))
        settings = UpstreamSettings(kind="openai", base_url=f"{upstream.url}/v1", models=("m",))
        config = Config(upstreams={"up": settings}, prices={"up/*": PriceSettings(input=1, output=1)})
        async with stand(tmp_path, config) as here:
            alice = await here.key("alice", tokens_per_day=7)
            body = {"model": "up/m", "input": "text"}
            assert (await here.http.post("/v1/embeddings", json=body, headers=alice)).status_code == 200
            assert (await here.http.post("/v1/embeddings", json=body, headers=alice)).status_code == 429
            (row,) = (await here.http.get("/api/usage?by=key&by=model")).json()["rows"]
            assert (row["key"], row["model"], row["requests"], row["input"]) == ("alice", "up/m", 1, 7)
            assert (row["cost"], row["estimated"]) == (7e-6, 0)


async def test_an_expired_key_says_when_it_expired(tmp_path: Path) -> None:
    storage = Storage(StoreSettings(), {"XDG_STATE_HOME": str(tmp_path)})
    created = datetime(2020, 2, 1, tzinfo=UTC).timestamp()
    new = await KeyTable(storage.database.now(), lambda: created).create("alice", KeyRules(expires=date(2020, 2, 29)))
    await storage.aclose()
    async with stand(tmp_path) as here:
        alice = {"x-api-key": new.value}
        refused = await here.http.post("/v1/messages", json={**CHAT, "max_tokens": 9}, headers=alice)
        assert (refused.status_code, refused.json()["error"]["type"]) == (401, "authentication_error")
        assert refused.json()["error"]["message"] == "This key expired at 2020-03-01T00:00:00Z."


async def test_an_open_websocket_of_a_revoked_key_answers_no_more_requests(tmp_path: Path) -> None:
    async with stand(tmp_path) as here:
        alice = await here.key("alice")
        url = f"ws://{here.http.base_url.netloc.decode()}/v1/responses"
        async with connect(url, additional_headers=alice) as socket:
            await here.http.post("/api/keys/alice/revoke")
            await socket.send(json.dumps({"type": "response.create", "model": "demo/scripted", "input": "Hello"}))
            frame = json.loads(await socket.recv())
        assert (frame["status"], frame["error"]["message"]) == (401, "This key has been revoked.")


# ── The page ─────────────────────────────────────────────────────────────────────────────────────


async def test_the_pass_of_a_key_is_bound_to_the_key(tmp_path: Path) -> None:
    async with stand(tmp_path) as here, httpx2.AsyncClient(base_url=here.http.base_url, timeout=60) as page:
        keys = {name: (await here.key(name))["x-api-key"] for name in ("alice", "bob")}
        given = (await page.post("/api/login", json={"key": keys["alice"]})).json()["pass"]
        headers = {"x-tieline-pass": given}
        state = (await page.get("/api/state", headers=headers)).json()
        assert state["key"] == {"name": "alice", "is_admin": False, "has_usage": True, "has_keys": False}
        assert state["backends"] == []
        forged = given.replace("alice", "bob")
        assert forged != given
        for wrong in (forged, given.rpartition(".")[0], given + "x"):
            assert (await page.get("/api/traffic", headers={"x-tieline-pass": wrong})).status_code == 401
        assert (await page.get("/api/keys", headers=headers)).status_code == 403
        assert (await page.post("/v1/chat/completions", json=CHAT, headers=headers)).status_code == 401
        await here.http.post("/api/keys/alice/rotate")
        assert (await page.get("/api/traffic", headers=headers)).status_code == 401


async def test_a_key_without_the_page_cannot_log_in(tmp_path: Path) -> None:
    async with stand(tmp_path) as here:
        robot = await here.key("robot", page=False)
        assert (await here.http.post("/api/login", json={"key": robot["x-api-key"]})).status_code == 401
        assert (await here.http.get("/api/inbox", headers=robot)).status_code == 401


async def test_a_session_of_the_page_has_the_models_and_tools_of_its_key(tmp_path: Path) -> None:
    config = Config(tools=ToolSettings(enabled=True, workspace=str(tmp_path)))
    async with stand(tmp_path / "state", config) as here:
        alice = await here.token(await here.key("alice", models=["demo/other"]))
        state = (await here.http.get("/api/state", headers=alice)).json()
        assert (state["models"], state["tools"]["enabled"], state["tools"]["workspace"]) == ([], False, None)
        assert state["examples"] == {"folder": None, "items": []}
        assert (await here.http.get("/api/files?query=a", headers=alice)).json() == {"files": []}
        example = {"model": "demo/scripted", "example": True}
        assert (await here.http.post("/api/sessions", json=example, headers=alice)).status_code == 403
        session = (await here.http.post("/api/sessions", json={"model": "demo/scripted"}, headers=alice)).json()["id"]
        await here.http.post(f"/api/sessions/{session}/send", json={"text": "Hello"}, headers=alice)
        async with asyncio.timeout(10):
            while not (leg := (await here.http.get("/api/traffic", headers=alice)).json()["legs"]):
                pass
        assert leg[0]["message"].startswith("This key may not use the model `demo/scripted`.")


# ── Isolation ────────────────────────────────────────────────────────────────────────────────────


async def test_two_keys_never_see_each_others_sessions_and_traffic(tmp_path: Path) -> None:
    async with stand(tmp_path) as here:
        alice, bob = [await here.token(await here.key(name)) for name in ("alice", "bob")]
        session = (await here.http.post("/api/sessions", json={"model": "demo/scripted"}, headers=alice)).json()["id"]
        await here.chat(alice)
        (leg,) = (await here.http.get("/api/traffic", headers=alice)).json()["legs"]
        assert (await here.http.get(f"/api/traffic/{leg['id']}", headers=alice)).status_code == 200
        state = (await here.http.get("/api/state", headers=bob)).json()
        assert state["sessions"] == []
        assert (await here.http.get("/api/traffic", headers=bob)).json() == {"legs": []}
        for method, path in (
            ("GET", f"/api/traffic/{leg['id']}"),
            ("GET", f"/api/sessions/{session}"),
            ("PATCH", f"/api/sessions/{session}"),
            ("DELETE", f"/api/sessions/{session}"),
            ("POST", f"/api/sessions/{session}/send"),
        ):
            response = await here.http.request(method, path, json={"text": "x", "title": "x"}, headers=bob)
            assert response.status_code == 404, path
        assert len((await here.http.get("/api/traffic")).json()["legs"]) == 1
        assert len((await here.http.get("/api/state")).json()["sessions"]) == 1


async def test_two_keys_never_see_each_others_stored_responses_even_after_a_rotation(tmp_path: Path) -> None:
    async with stand(tmp_path) as here:
        alice, bob = await here.key("alice"), await here.key("bob")
        body = {"model": "demo/scripted", "input": "Hello"}
        created = (await here.http.post("/v1/responses", json=body, headers=alice)).json()["id"]
        path = f"/v1/responses/{created}"
        rotated = {"x-api-key": (await here.http.post("/api/keys/alice/rotate")).json()["key"]}
        assert (await here.http.get(path, headers=rotated)).status_code == 200
        for refused in (
            await here.http.get(path, headers=bob),
            await here.http.get(f"{path}/input_items", headers=bob),
            await here.http.delete(path, headers=bob),
            await here.http.post("/v1/responses", json={**body, "previous_response_id": created}, headers=bob),
        ):
            assert refused.status_code in (400, 404), refused.text
        assert (await here.http.get(path, headers=rotated)).status_code == 200


async def test_two_keys_never_see_or_answer_each_others_inbox_items(tmp_path: Path) -> None:
    async with stand(tmp_path) as here:
        alice, bob = [await here.token(await here.key(name)) for name in ("alice", "bob")]
        inbox = here.app.gateway.inbox
        origin = Origin(model="m", frontend="chat", client="tests", owner="alice")
        asked = here.app.tasks.start(inbox.ask(origin, Approval(title="run it", command="true")), "ask of a test")
        async with asyncio.timeout(10):
            while not (items := (await here.http.get("/api/inbox", headers=alice)).json()["items"]):
                pass
        assert (await here.http.get("/api/inbox", headers=bob)).json()["items"] == []
        assert (await here.http.get("/api/state", headers=bob)).json()["inbox"]["items"] == []
        path, allow = f"/api/inbox/{items[0]['id']}", {"type": "permitted", "option": "allow"}
        assert (await here.http.post(path, json=allow, headers=bob)).status_code == 404
        always = await here.http.post(path, json={**allow, "option": "always"}, headers=alice)
        assert (always.status_code, "Only an admin key" in always.text) == (403, True)
        assert (await here.http.post(path, json=allow, headers=alice)).status_code == 200
        assert await asked == ApprovalAnswer(option="allow")


async def test_two_keys_see_only_their_own_usage(tmp_path: Path) -> None:
    async with stand(tmp_path) as here:
        alice, bob = await here.key("alice"), await here.key("bob")
        for key in (alice, alice, bob):
            await here.chat(key)

        async def requests(headers: dict[str, str]) -> dict[str, int]:
            rows = (await here.http.get("/api/usage?by=key", headers=headers)).json()["rows"]
            return {row["key"]: row["requests"] for row in rows}

        assert await requests(alice) == {"alice": 2}
        assert await requests(bob) == {"bob": 1}
        assert await requests({}) == {"alice": 2, "bob": 1}
        text = (await here.http.get("/api/usage?by=key&format=csv", headers=bob)).text
        assert text.splitlines()[1].startswith("bob,1,0,0,")
        assert len(text.splitlines()) == 2
        wrong = await here.http.get("/api/usage?by=owner", headers=bob)
        assert (wrong.status_code, wrong.json()["error"]["param"]) == (400, "by")


async def test_a_configured_key_may_see_its_own_part_of_the_page_if_it_is_allowed(tmp_path: Path) -> None:
    config = Config(keys={"bob": KeySettings(key_env="BOB", page=True)})
    async with stand(tmp_path, config, BOB="key-of-bob") as here:
        bob = {"x-api-key": "key-of-bob"}
        assert (await here.http.get("/api/inbox", headers=bob)).status_code == 200
        await here.chat({})
        assert (await here.http.get("/api/traffic", headers=bob)).json() == {"legs": []}


async def test_only_an_admin_key_may_frame_the_page_manage_workspaces_or_stop_the_gateway(tmp_path: Path) -> None:
    async with stand(tmp_path) as here:
        alice, admin = await here.key("alice", page=True, tools=True), await here.key("root", admin=True)
        framed = {"ancestors": ["vscode-webview://one"]}
        requests = [
            ("POST", "/api/embed", framed),
            ("GET", "/api/workspaces", None),
            ("POST", "/api/workspaces", {"path": str(tmp_path)}),
            ("PATCH", "/api/workspaces", {"autonomy": "all"}),
            ("DELETE", "/api/workspaces/any", None),
            ("POST", "/api/stop", None),
        ]
        for method, path, body in requests:
            refused = await here.http.request(method, path, json=body, headers=alice)
            assert (path, refused.status_code) == (path, 403)
        path = (await here.http.post("/api/embed", json=framed, headers=admin)).json()["path"]
        given = (await here.http.get(path)).text.partition('data-pass="')[2].partition('"')[0]
        page = {"x-api-key": "", "x-tieline-pass": given}
        assert (await here.http.get("/api/keys", headers=page)).status_code == 200
        await here.http.post("/api/keys/root/revoke")
        assert (await here.http.get("/api/keys", headers=page)).status_code == 401, "the pass ends with its key"
