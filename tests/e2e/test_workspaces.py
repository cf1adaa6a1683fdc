"""Named workspaces: folders that clients register, each with its own tools, rules, sessions, files and inbox items."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.catalogue.serving import listening
from tests.e2e.tools_support import DEMO, EVERY_CLIENT, KEY, PATIENCE, TELL, call, script
from tieline.app.build.application import App, build
from tieline.app.build.workspaces import MAX_REGISTERED, workspace_name
from tieline.app.config import (
    Config,
    ConfigError,
    InboxSettings,
    KeySettings,
    ServerSettings,
    ToolSettings,
    WorkspaceSettings,
)
from tieline.core.inbox.inbox import PendingItem

WORKSPACE = "x-tieline-workspace"
CLIENT_KEY = "key-of-a-client"
ORIGIN = "https://editor.example"
WRITE = script(call("write_file", path="new.txt", content="hello\n"), TELL)


class Stand:
    """A gateway without tools of its own, and an HTTP client with its key."""

    def __init__(self, app: App, http: httpx2.AsyncClient, home: Path) -> None:
        self.app = app
        self.http = http
        self.home = home
        self.inbox = app.gateway.inbox

    def folder(self, name: str) -> Path:
        path = self.home / "folders" / name
        path.mkdir(parents=True, exist_ok=True)
        return path

    async def register(self, name: str, **more: Any) -> str:
        """Register a folder and return the name of its workspace."""
        response = await self.http.post("/api/workspaces", json={"path": str(self.folder(name)), **more})
        assert response.status_code == 200, response.text
        return str(response.json()["name"])

    async def listed(self) -> dict[str, Any]:
        return {one["name"]: one for one in (await self.http.get("/api/workspaces")).json()["workspaces"]}

    async def ask(self, workspace: str, words: str, model: str = DEMO) -> httpx2.Response:
        """Send a Chat Completions request that names its workspace in the path."""
        body = {"model": model, "messages": [{"role": "user", "content": words}]}
        return await self.http.post(f"/workspaces/{workspace}/v1/chat/completions", json=body)

    def begin(self, workspace: str, words: str) -> "asyncio.Task[httpx2.Response]":
        return asyncio.create_task(self.ask(workspace, words))

    async def item(self) -> PendingItem:
        async with asyncio.timeout(PATIENCE):
            while not self.inbox.items:
                await self.inbox.change(self.inbox.version)
        return self.inbox.items[-1]

    async def items(self, workspace: str | None) -> list[str]:
        headers = {} if workspace is None else {WORKSPACE: workspace}
        return [item["id"] for item in (await self.http.get("/api/inbox", headers=headers)).json()["items"]]

    async def answer(self, item: PendingItem, workspace: str, option: str) -> int:
        headers = {WORKSPACE: workspace}
        return (await self.http.post(f"/api/inbox/{item.id}", json={"option": option}, headers=headers)).status_code

    async def page(self, method: str, path: str, body: Any = None, workspace: str | None = None) -> httpx2.Response:
        """Send a request as the page does."""
        token = (await self.http.get("/api/state")).json()["token"]
        headers = {"x-tieline-token": token, **({} if workspace is None else {WORKSPACE: workspace})}
        return await self.http.request(method, path, json=body, headers=headers)


def made(home: Path) -> Path:
    home.mkdir(exist_ok=True)
    return home


@asynccontextmanager
async def serving(home: Path, **settings: Any) -> AsyncIterator[Stand]:
    usual: dict[str, Any] = {
        "inbox": InboxSettings(timeout=60),
        "clients": EVERY_CLIENT,
        "keys": {"robot": KeySettings(key_env="ROBOT_KEY", tools=True)},
        "server": ServerSettings(origins=(ORIGIN,)),
    }
    config = Config(**usual | settings)
    env = {"TIELINE_KEY": KEY, "ROBOT_KEY": CLIENT_KEY, "HOME": str(made(home)), "PATH": "/usr/bin:/bin"}
    async with AsyncExitStack() as stack:
        app = build(config, env)
        stack.push_async_callback(app.aclose)
        url = await stack.enter_async_context(listening(app))
        client = httpx2.AsyncClient(base_url=url, headers={"x-api-key": KEY}, timeout=PATIENCE)
        yield Stand(app, await stack.enter_async_context(client), home)


@pytest.fixture
async def stand(tmp_path: Path) -> AsyncIterator[Stand]:
    async with serving(tmp_path / "home") as stand:
        yield stand


def said(response: httpx2.Response) -> str:
    assert response.status_code == 200, response.text
    return str(response.json()["choices"][0]["message"]["content"])


# ── Registration ─────────────────────────────────────────────────────────────────────────────────


async def test_a_folder_is_registered_once_under_a_name_that_its_path_determines(stand: Stand) -> None:
    folder = stand.folder("My Project")
    (stand.home / "link").symlink_to(folder)
    first = (await stand.http.post("/api/workspaces", json={"path": str(folder)})).json()
    assert first == {
        "name": workspace_name(str(folder.resolve())),
        "path": str(folder.resolve()),
        "title": "My Project",
        "autonomy": "ask",
        "tools": True,
        "source": "registered",
    }
    assert first["name"].startswith("my-project-")
    again = await stand.http.post("/api/workspaces", json={"path": str(stand.home / "link"), "autonomy": "edits"})
    assert again.json() == {**first, "autonomy": "edits"}
    assert list(await stand.listed()) == ["", first["name"]]


@pytest.mark.parametrize("name", ["", "/", "..", "a" * 300, "Ünïcødé ☃", "-x-", "a/../../b", "\n"])
def test_a_name_has_only_characters_that_a_path_and_a_header_can_hold(name: str) -> None:
    found = workspace_name(f"/somewhere/{name}")
    assert set(found) <= set("abcdefghijklmnopqrstuvwxyz0123456789._-")
    assert len(found) <= 49
    assert found.strip(".-") == found


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("relative/folder", "expected the absolute path"),
        ("", "expected the absolute path"),
        ("/nowhere/at/all", "cannot be used"),
        ("/etc/passwd", "not a folder"),
        ("/etc\0/x", "expected the absolute path"),
        ("/" + "a" * 5000, "expected the absolute path"),
    ],
)
async def test_what_is_no_folder_cannot_be_registered(stand: Stand, path: str, problem: str) -> None:
    response = await stand.http.post("/api/workspaces", json={"path": path})
    assert response.status_code == 400
    assert response.json()["error"]["param"] == "path"
    assert problem in response.json()["error"]["message"]


@pytest.mark.parametrize("body", [{}, {"path": 3}, {"path": "/", "autonomy": "yolo"}, [], "x"])
async def test_a_registration_that_is_not_valid_is_refused(stand: Stand, body: Any) -> None:
    assert (await stand.http.post("/api/workspaces", json=body)).status_code == 400
    assert list(await stand.listed()) == [""]


async def test_a_hundred_registrations_are_bounded_and_room_is_made_by_removing(stand: Stand) -> None:
    names = [await stand.register(f"f{number}") for number in range(MAX_REGISTERED)]
    for number in range(MAX_REGISTERED, 100):
        response = await stand.http.post("/api/workspaces", json={"path": str(stand.folder(f"f{number}"))})
        assert response.status_code == 529 or response.status_code == 503
    assert len(set(names)) == MAX_REGISTERED
    assert (await stand.http.delete(f"/api/workspaces/{names[0]}")).json() == {}
    await stand.register("another")
    assert len(await stand.listed()) == MAX_REGISTERED + 1


async def test_configured_workspaces_have_their_names_and_cannot_be_removed(tmp_path: Path) -> None:
    folder = tmp_path / "site"
    folder.mkdir()
    workspaces = {"site": WorkspaceSettings(path=str(folder), autonomy="edits")}
    async with serving(tmp_path / "home", workspaces=workspaces) as stand:
        registered = await stand.http.post("/api/workspaces", json={"path": str(folder)})
        assert (registered.json()["name"], registered.json()["source"]) == ("site", "configuration")
        assert registered.json()["autonomy"] == "edits"
        assert (await stand.http.delete("/api/workspaces/site")).status_code == 403
        changed = await stand.http.patch("/api/workspaces/site", json={"autonomy": "all"})
        assert changed.json()["autonomy"] == "all"


async def test_the_default_workspace_is_returned_only_if_it_has_tools(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    async with serving(tmp_path / "home", tools=ToolSettings(enabled=True, workspace=str(folder))) as stand:
        assert (await stand.http.post("/api/workspaces", json={"path": str(folder)})).json()["name"] == ""
        changed = await stand.http.patch("/api/workspaces", json={"autonomy": "edits"})
        assert (changed.json()["source"], changed.json()["autonomy"]) == ("default", "edits")
    async with serving(tmp_path / "home", tools=ToolSettings(workspace=str(folder))) as stand:
        assert (await stand.http.post("/api/workspaces", json={"path": str(folder)})).json()["name"] != ""
        assert (await stand.http.delete("/api/workspaces/")).status_code == 405


def test_a_configured_folder_has_to_exist(tmp_path: Path) -> None:
    config = Config(workspaces={"site": WorkspaceSettings(path=str(tmp_path / "missing"))})
    with pytest.raises(ConfigError, match=r"`workspaces\.site\.path` is .*, which is not a folder"):
        build(config, {"HOME": str(tmp_path)})


async def test_a_named_key_neither_sees_nor_uses_workspaces(stand: Stand) -> None:
    name = await stand.register("ours")
    headers = {"x-api-key": CLIENT_KEY}
    for method, path in [
        ("GET", "/api/workspaces"),
        ("POST", "/api/workspaces"),
        ("PATCH", f"/api/workspaces/{name}"),
        ("DELETE", f"/api/workspaces/{name}"),
        ("GET", f"/workspaces/{name}/api/workspaces"),
        ("POST", "/api/embed"),
        ("POST", "/api/stop"),
    ]:
        assert (await stand.http.request(method, path, json={}, headers=headers)).status_code == 401
    body = {"model": DEMO, "messages": [{"role": "user", "content": "Hi"}]}
    for known in (name, "unknown"):
        response = await stand.http.post(f"/workspaces/{known}/v1/chat/completions", json=body, headers=headers)
        assert response.status_code == 404
        assert response.json()["error"]["message"] == f"There is no workspace `{known}` that this key may use."
    assert (await stand.http.post("/v1/chat/completions", json=body, headers=headers)).status_code == 200


async def test_without_the_key_no_answer_reveals_a_workspace(stand: Stand) -> None:
    name = await stand.register("ours")
    for path in ("/api/workspaces", f"/workspaces/{name}/v1/models", "/workspaces/unknown/v1/models"):
        response = await stand.http.get(path, headers={"x-api-key": "wrong"})
        assert response.status_code == 401
        assert name not in response.text
    for named in (name, "unknown"):
        for path in ("/api/state", "/", "/api/hello", "/embed/x"):
            response = await stand.http.get(path, headers={"x-api-key": "wrong", WORKSPACE: named})
            assert response.status_code in (200, 401, 403)
            assert name not in response.text


# ── Naming a workspace ───────────────────────────────────────────────────────────────────────────


async def test_an_unknown_name_is_a_404_in_the_dialect_of_the_client(stand: Stand) -> None:
    name = await stand.register("ours")
    body = {"model": DEMO, "max_tokens": 10, "messages": [{"role": "user", "content": "Hi"}]}
    openai = await stand.http.post("/workspaces/theirs/v1/chat/completions", json=body)
    assert (openai.status_code, openai.json()["error"]["type"]) == (404, "not_found_error")
    anthropic = await stand.http.post("/v1/messages", json=body, headers={WORKSPACE: "theirs"})
    assert (anthropic.status_code, anthropic.json()["type"]) == (404, "error")
    for response in (openai, anthropic):
        assert f"There is no workspace `theirs`. Known workspaces: {name}." in response.json()["error"]["message"]
    for path in ("/api/inbox", "/api/rules", "/api/files?query=", "/api/state", "/api/traffic", "/api/stream"):
        assert (await stand.http.get(path, headers={WORKSPACE: "theirs"})).status_code == 404


@pytest.mark.parametrize("name", ["%2e%2e", "..%2f..%2fetc", "a%00b", "%0d%0ax:%20y", "x" * 5000, "ü"])
async def test_a_name_is_never_a_path(stand: Stand, name: str) -> None:
    await stand.register("ours")
    response = await stand.http.get(f"/workspaces/{name}/v1/models")
    assert response.status_code == 404
    for given in ("..", "../..", f"../{name[:100]}", "a b"):
        assert (await stand.http.get("/v1/models", headers={WORKSPACE.encode(): given.encode()})).status_code == 404


async def test_the_path_and_the_header_must_not_name_different_workspaces(stand: Stand) -> None:
    ours, theirs = await stand.register("ours"), await stand.register("theirs")
    path = f"/workspaces/{ours}/v1/models"
    assert (await stand.http.get(path, headers={WORKSPACE: ours})).status_code == 200
    assert (await stand.http.get(path, headers={WORKSPACE: theirs})).status_code == 400
    assert (await stand.http.get(f"/workspaces/{ours}/v1/models/{DEMO}")).json()["id"] == DEMO


# ── Tools, rules and items ───────────────────────────────────────────────────────────────────────


async def test_items_rules_and_files_of_two_workspaces_are_separate(stand: Stand) -> None:
    ours, theirs = await stand.register("ours"), await stand.register("theirs")
    asking = stand.begin(ours, WRITE)
    item = await stand.item()
    assert item.origin.workspace == ours
    assert (await stand.items(ours), await stand.items(theirs), await stand.items("")) == ([item.id], [], [])
    assert await stand.items(None) == [item.id]
    assert await stand.answer(item, theirs, "allow") == 404
    assert await stand.answer(item, ours, "always") == 200
    assert "new.txt" in said(await asking)
    assert (stand.folder("ours") / "new.txt").read_text() == "hello\n"
    assert not (stand.folder("theirs") / "new.txt").exists()
    said(await stand.ask(ours, WRITE))  # it is allowed for good, but only here
    asking = stand.begin(theirs, WRITE)
    assert await stand.answer(await stand.item(), theirs, "deny") == 200
    said(await asking)
    assert not (stand.folder("theirs") / "new.txt").exists()
    rules = (await stand.http.get("/api/rules", headers={WORKSPACE: ours})).json()
    assert rules["workspace"] == str(stand.folder("ours").resolve())
    [rule] = rules["rules"]
    assert (await stand.http.get("/api/rules", headers={WORKSPACE: theirs})).json()["rules"] == []
    assert (await stand.http.delete(f"/api/rules/{rule['id']}", headers={WORKSPACE: theirs})).status_code == 404
    assert (await stand.http.delete(f"/api/rules/{rule['id']}", headers={WORKSPACE: ours})).status_code == 200


async def test_a_tool_cannot_reach_the_folder_of_another_workspace(stand: Stand) -> None:
    ours, theirs = await stand.register("ours"), await stand.register("theirs")
    secret = stand.folder("theirs") / "secret.txt"
    secret.write_text("do not read")
    (stand.folder("ours") / "way").symlink_to(stand.folder("theirs"))
    for path in (str(secret), "../theirs/secret.txt", "way/secret.txt"):
        assert "do not read" not in said(await stand.ask(ours, script(call("read_file", path=path), TELL)))
    assert "do not read" in said(await stand.ask(theirs, script(call("read_file", path="secret.txt"), TELL)))


async def test_without_a_name_a_request_has_no_tools_if_the_gateway_has_none(stand: Stand) -> None:
    await stand.register("ours")
    body = {"model": DEMO, "messages": [{"role": "user", "content": WRITE}]}
    await stand.http.post("/v1/chat/completions", json=body)
    assert stand.inbox.items == ()
    assert not list(stand.home.glob("folders/*/new.txt"))


async def test_a_client_that_allows_everything_is_logged(stand: Stand, caplog: pytest.LogCaptureFixture) -> None:
    await stand.register("careful", autonomy="edits")
    for _ in range(2):
        await stand.register("careless", autonomy="all")
        (warning,) = [message for message in caplog.messages if "everything is allowed without asking" in message]
        assert str(stand.folder("careless")) in warning


async def test_autonomy_can_be_changed_at_any_time(stand: Stand) -> None:
    name = await stand.register("ours", autonomy="edits")
    (stand.folder("ours") / ".git").mkdir()
    said(await stand.ask(name, WRITE))
    assert (stand.folder("ours") / "new.txt").exists()
    hook = script(call("write_file", path=".git/hooks/pre-commit", content="x"), TELL)
    run = script(call("run_terminal", command="touch ran"), TELL)
    for words in (hook, run):
        asking = stand.begin(name, words)
        await stand.answer(await stand.item(), name, "deny")
        said(await asking)
    assert (await stand.http.patch(f"/api/workspaces/{name}", json={"autonomy": "all"})).json()["autonomy"] == "all"
    said(await stand.ask(name, run))
    assert (stand.folder("ours") / "ran").exists()
    await stand.http.patch(f"/api/workspaces/{name}", json={"autonomy": "ask"})
    asking = stand.begin(name, WRITE)
    await stand.answer(await stand.item(), name, "deny")
    said(await asking)


async def test_an_item_expires_although_another_workspace_is_watched(tmp_path: Path) -> None:
    async with serving(tmp_path / "home", inbox=InboxSettings(timeout=0.05)) as stand:
        ours, theirs = await stand.register("ours"), await stand.register("theirs")
        async with stand.http.stream("GET", "/api/inbox/watch", headers={WORKSPACE: theirs}) as response:
            await anext(response.aiter_raw())
            assert "Nobody answered within 0.05 seconds" in said(await stand.ask(ours, WRITE))


# ── The page ─────────────────────────────────────────────────────────────────────────────────────


async def test_sessions_files_and_traffic_of_two_workspaces_are_separate(stand: Stand) -> None:
    ours, theirs = await stand.register("ours"), await stand.register("theirs")
    (stand.folder("ours") / "a.txt").write_text("A")
    (stand.folder("theirs") / "b.txt").write_text("B")
    made = (await stand.page("POST", "/api/sessions", {"model": DEMO}, ours)).json()
    assert made["workspace"] == ours
    path = f"/api/sessions/{made['id']}"
    for method, below, body in [
        ("GET", "", None),
        ("PATCH", "", {"title": "Mine"}),
        ("DELETE", "", None),
        ("POST", "/send", {"text": "Hi"}),
        ("POST", "/stop", {}),
    ]:
        assert (await stand.page(method, f"{path}{below}", body, theirs)).status_code == 404
    states = {name: (await stand.page("GET", "/api/state", None, name)).json() for name in (ours, theirs, "")}
    assert [len(states[name]["sessions"]) for name in (ours, theirs, "")] == [1, 0, 0]
    assert len((await stand.page("GET", "/api/state")).json()["sessions"]) == 1
    assert states[ours]["tools"] == {
        "enabled": True,
        "workspace": str(stand.folder("ours").resolve()),
        "yolo": False,
        "autonomy": "ask",
    }
    assert states[""]["tools"]["enabled"] is False
    models = {model["id"]: model["modes"] for model in states[ours]["models"]}
    assert models[DEMO] == ["chat", "plan", "agent"]
    found = {name: (await stand.page("GET", "/api/files?query=", None, name)).json() for name in (ours, theirs, "")}
    assert found == {ours: {"files": ["a.txt"]}, theirs: {"files": ["b.txt"]}, "": {"files": []}}
    outside = {"text": "Hi", "files": ["../theirs/b.txt"]}
    assert (await stand.page("POST", f"{path}/send", outside, ours)).status_code == 400
    assert (await stand.page("POST", f"{path}/send", {"text": "Hi", "files": ["a.txt"]}, ours)).status_code == 200
    said(await stand.ask(ours, "Hi"))
    legs = {name: (await stand.page("GET", "/api/traffic", None, name)).json()["legs"] for name in (ours, theirs)}
    assert {leg["workspace"] for leg in legs[ours]} == {ours}
    assert legs[theirs] == []
    assert (await stand.page("GET", f"/api/traffic/{legs[ours][0]['id']}", None, theirs)).status_code == 404


async def test_a_session_uses_the_tools_of_its_workspace_on_any_page(stand: Stand) -> None:
    ours = await stand.register("ours")
    made = (await stand.page("POST", "/api/sessions", {"model": DEMO}, ours)).json()
    await stand.page("POST", f"/api/sessions/{made['id']}/send", {"text": WRITE})
    item = await stand.item()
    assert (item.origin.workspace, item.origin.session) == (ours, made["id"])
    await stand.answer(item, ours, "allow")
    async with asyncio.timeout(PATIENCE):
        while (await stand.page("GET", "/api/state")).json()["sessions"][0]["running"]:
            pass
    assert (stand.folder("ours") / "new.txt").exists()


async def test_a_session_whose_workspace_is_not_open_says_so_and_uses_no_other(tmp_path: Path) -> None:
    async with serving(tmp_path / "home") as stand:
        ours = await stand.register("ours")
        made = (await stand.page("POST", "/api/sessions", {"model": DEMO}, ours)).json()
    tools = ToolSettings(enabled=True, workspace=str(tmp_path), yolo=True)
    async with serving(tmp_path / "home", tools=tools) as stand:
        await stand.page("POST", f"/api/sessions/{made['id']}/send", {"text": WRITE})
        async with asyncio.timeout(PATIENCE):
            while (view := (await stand.page("GET", f"/api/sessions/{made['id']}")).json())["summary"]["running"]:
                pass
        assert f"There is no workspace `{ours}`" in view["messages"][-1]["ending"]["message"]
        assert not (tmp_path / "new.txt").exists()
        assert await stand.register("ours") == ours


async def test_the_stream_of_a_page_has_only_the_messages_of_its_workspace(stand: Stand) -> None:
    ours, theirs = await stand.register("ours"), await stand.register("theirs")
    async with stand.http.stream("GET", "/api/stream", headers={WORKSPACE: ours}) as response:
        pieces = response.aiter_raw()
        heard = await anext(pieces)
        await stand.page("POST", "/api/sessions", {"model": DEMO}, theirs)
        made = (await stand.page("POST", "/api/sessions", {"model": DEMO}, ours)).json()
        asking = stand.begin(theirs, WRITE)
        item = await stand.item()
        mine = stand.begin(ours, WRITE)
        async with asyncio.timeout(PATIENCE):
            while f'"workspace":"{ours}"}},"ask"'.encode() not in heard:
                heard += await anext(pieces)
        assert made["id"].encode() in heard
        assert theirs.encode() not in heard
        assert item.id.encode() not in heard
    for task in (asking, mine):
        task.cancel()


async def test_pages_learn_that_the_autonomy_has_changed(stand: Stand) -> None:
    name = await stand.register("ours")
    async with stand.http.stream("GET", "/api/stream", headers={WORKSPACE: name}) as response:
        pieces = response.aiter_raw()
        heard = await anext(pieces)
        await stand.http.patch(f"/api/workspaces/{name}", json={"autonomy": "all"})
        async with asyncio.timeout(PATIENCE):
            while b'{"type":"state"}' not in heard:
                heard += await anext(pieces)
    assert (await stand.page("GET", "/api/state", None, name)).json()["tools"]["yolo"] is True


# ── Removal ──────────────────────────────────────────────────────────────────────────────────────


async def test_removing_a_workspace_stops_what_runs_in_it(stand: Stand) -> None:
    ours, theirs = await stand.register("ours"), await stand.register("theirs")
    made = (await stand.page("POST", "/api/sessions", {"model": DEMO}, ours)).json()
    await stand.page("POST", f"/api/sessions/{made['id']}/send", {"text": WRITE}, ours)
    await stand.item()
    asking, other = stand.begin(ours, WRITE), stand.begin(theirs, WRITE)
    async with asyncio.timeout(PATIENCE):
        while len(stand.inbox.items) < 3:
            await stand.inbox.change(stand.inbox.version)
    async with stand.http.stream("GET", "/api/stream", headers={WORKSPACE: ours}) as response:
        pieces = response.aiter_raw()
        await anext(pieces)
        assert (await stand.http.delete(f"/api/workspaces/{ours}", headers={WORKSPACE: ours})).json() == {}
        with suppress(httpx2.RemoteProtocolError):
            async with asyncio.timeout(PATIENCE):
                async for _ in pieces:
                    pass
    assert (await asking).status_code == 503
    assert {item.origin.workspace for item in stand.inbox.items} == {theirs}
    assert (await stand.page("GET", f"/api/sessions/{made['id']}")).json()["summary"]["running"] is False
    assert (await stand.ask(ours, "Hi")).status_code == 404
    assert not (stand.folder("ours") / "new.txt").exists()
    await stand.answer(await stand.item(), theirs, "allow")
    assert "new.txt" in said(await other)
    assert stand.app.asgi.active == 0
    assert await stand.register("ours") == ours
    assert (await stand.ask(ours, "Hi")).status_code == 200


# ── Other origins ────────────────────────────────────────────────────────────────────────────────

PREFLIGHT = {"origin": ORIGIN, "access-control-request-method": "PATCH", "access-control-request-headers": WORKSPACE}


async def test_a_page_of_a_configured_origin_may_read_and_with_the_key_needs_no_token(stand: Stand) -> None:
    no_key = {"x-api-key": ""}
    asked = await stand.http.options("/api/workspaces/x", headers={**PREFLIGHT, **no_key})
    assert (asked.status_code, asked.headers["access-control-allow-origin"]) == (200, ORIGIN)
    assert "PATCH" in asked.headers["access-control-allow-methods"]
    assert WORKSPACE in asked.headers["access-control-allow-headers"]
    headers = {"origin": ORIGIN, "sec-fetch-site": "cross-site"}
    body = {"path": str(stand.folder("ours"))}
    registered = await stand.http.post("/api/workspaces", json=body, headers=headers)
    assert (registered.status_code, registered.headers["access-control-allow-origin"]) == (200, ORIGIN)
    assert registered.headers["vary"] == "origin"
    refused = await stand.http.post("/api/workspaces", json=body, headers={**headers, **no_key})
    assert (refused.status_code, refused.headers["access-control-allow-origin"]) == (401, ORIGIN)
    created = await stand.http.post("/api/sessions", json={"model": DEMO}, headers=headers)
    assert created.status_code == 200


async def test_the_list_for_cursors_editor_names_one_origin_only(stand: Stand) -> None:
    for response in (
        await stand.http.get("/cursor/v1/models", headers={"origin": ORIGIN}),
        await stand.http.options("/cursor/v1/models", headers=PREFLIGHT),
    ):
        assert response.status_code == 200
        assert response.headers.get_list("access-control-allow-origin") == ["*"]


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", f"{ORIGIN}.evil.example", "https://editor.example:1"]
)
async def test_a_page_of_another_origin_gets_nothing(stand: Stand, origin: str) -> None:
    asked = await stand.http.options("/api/workspaces", headers={**PREFLIGHT, "origin": origin})
    assert asked.status_code in (403, 405)
    read = await stand.http.get("/api/workspaces", headers={"origin": origin})
    assert read.status_code == 403
    for response in (asked, read):
        assert "access-control-allow-origin" not in response.headers


async def test_without_a_key_any_origin_is_not_every_origin(tmp_path: Path) -> None:
    config = Config(server=ServerSettings(origins=("*", ORIGIN)))
    app = build(config, {"HOME": str(tmp_path)})
    try:
        async with listening(app) as url, httpx2.AsyncClient(base_url=url, timeout=PATIENCE) as http:
            for origin, shared in ((ORIGIN, ORIGIN), ("https://evil.example", None)):
                response = await http.get("/api/state", headers={"origin": origin})
                assert response.headers.get("access-control-allow-origin") == shared
            body = {"path": str(tmp_path)}
            response = await http.post("/api/workspaces", json=body, headers={"origin": ORIGIN})
            assert (response.status_code, response.json()["error"]["message"][:23]) == (403, "This request needs the ")
            token = (await http.get("/api/state")).json()["token"]
            headers = {"origin": ORIGIN, "x-tieline-token": token}
            assert (await http.post("/api/workspaces", json=body, headers=headers)).status_code == 200
    finally:
        await app.aclose()


async def test_other_programs_learn_what_the_gateway_offers_without_its_key(stand: Stand) -> None:
    hello = (await stand.http.get("/api/hello", headers={"x-api-key": ""})).json()
    assert (hello["service"], hello["needs_key"]) == ("tieline", True)
    assert hello["features"] == ["workspaces", "embed"]
    assert (await stand.http.post("/api/stop")).status_code == 403
    assert json.loads((await stand.http.post("/api/stop")).text)["error"]["message"].startswith("Only a gateway")
