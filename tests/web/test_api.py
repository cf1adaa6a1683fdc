"""What the page asks for and does, over real HTTP."""

import asyncio
import json
import re
import tomllib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.backends.agents.scripted import MODES
from tests.cases import PIXEL
from tests.core.scripted import END, words
from tests.e2e.acp_support import scripted
from tests.web.serving import KEY, PageStand, serving
from tieline.app.build.page import CODING, DEMO, DEMO_WITH_TOOLS
from tieline.app.config import AcpSettings, Config, ModelSettings, ToolSettings, UpstreamSettings, WebSettings
from tieline.app.workspace_files import best_matches
from tieline.clients.client import Connection
from tieline.clients.snippets import snippets
from tieline.model.content import Image, Text, ToolCall
from tieline.model.events import Event, Failed, Note, PartDelta, PartEnd, PartStart, Started, Usage
from tieline.web.connect import choose_model

ROOT = Path(__file__).parents[2]
STARTED = Started(id="leg", model="m")


@pytest.fixture
async def stand(tmp_path: Path) -> AsyncIterator[PageStand]:
    async with serving(tmp_path) as made:
        yield made


@pytest.fixture
async def tooled(tmp_path: Path) -> AsyncIterator[PageStand]:
    """With a workspace."""
    workspace = tmp_path / "work"
    (workspace / "src").mkdir(parents=True)
    (workspace / "src" / "app.py").write_text("print('hello')\n")
    (workspace / "README.md").write_text("# Readme\n")
    (workspace / "node_modules").mkdir()
    (workspace / "node_modules" / "app.js").write_text("")
    (workspace / "binary").write_bytes(b"\0\1\2")
    (tmp_path / "outside.txt").write_text("secret")
    config = Config(tools=ToolSettings(enabled=True, workspace=str(workspace)))
    async with serving(tmp_path, config) as made:
        yield made


# ── The state ────────────────────────────────────────────────────────────────────────────────────


async def test_the_state_has_everything_the_page_begins_with(stand: PageStand) -> None:
    session = await stand.begin()
    state = await stand.state()
    assert {
        "version",
        "token",
        "needs_key",
        "address",
        "models",
        "default_model",
        "backends",
        "tools",
        "inbox",
        "sessions",
        "seq",
    } <= set(state)
    assert (state["needs_key"], state["address"]) == (False, stand.url)
    models = {model["id"]: model for model in state["models"]}
    assert models["demo/scripted"]["backend"] == "demo"
    assert (models["test/m"]["is_agent"], models["test/m"]["modes"]) == (True, [])
    assert state["tools"] == {"enabled": False, "workspace": None, "yolo": False, "autonomy": "ask"}
    assert [one["id"] for one in state["sessions"]] == [session]
    assert {"name": "demo", "ready": True, "lack": ""}.items() <= state["backends"][0].items()
    assert state["inbox"] == {"version": 0, "items": []}


async def test_suggestions_fit_what_a_model_can_do(stand: PageStand, tooled: PageStand) -> None:
    plain, with_tools = [
        {model["id"]: model["ideas"] for model in (await one.state())["models"]} for one in (stand, tooled)
    ]
    assert plain["demo/scripted"] == list(DEMO)
    assert with_tools["demo/scripted"] == list(DEMO_WITH_TOOLS)
    assert plain["test/m"] == with_tools["test/m"] == list(CODING)


async def test_with_tools_models_have_modes(tooled: PageStand, tmp_path: Path) -> None:
    state = await tooled.state()
    assert state["tools"] == {"enabled": True, "workspace": str(tmp_path / "work"), "yolo": False, "autonomy": "ask"}
    models = {model["id"]: model for model in state["models"]}
    assert models["demo/scripted"]["modes"] == ["chat", "plan", "agent"]


async def test_an_agent_has_the_usual_modes_until_it_has_told_its_own(tmp_path: Path) -> None:
    config = Config(acp=AcpSettings(agents={"scripted": scripted()}, workspace=str(tmp_path)))
    async with serving(tmp_path, config) as stand:

        async def modes() -> list[str]:
            models: list[dict[str, Any]] = (await stand.state())["models"]
            return next(model["modes"] for model in models if model["id"] == "acp/scripted")

        assert await modes() == ["chat", "plan", "agent"]
        session = (await stand.post("/api/sessions", {"model": "acp/scripted", "mode": "plan"}))["id"]
        turn = await stand.say(session, "settings")
        assert json.loads(turn["parts"][0]["text"])["mode"] == "plan"
        assert await modes() == list(MODES)


async def test_models_that_take_long_to_list_come_later(stand: PageStand) -> None:
    slow = asyncio.Event()
    listed = stand.backend.models

    async def models() -> Any:
        await slow.wait()
        return await listed()

    stand.backend.models = models  # type: ignore[method-assign] # this upstream is slow
    assert [model["id"] for model in (await stand.state())["models"]] == ["demo/scripted"]
    async with stand.stream() as stream:
        slow.set()
        await stream.until(lambda one: one["type"] == "state")
    assert "test/m" in [model["id"] for model in (await stand.state())["models"]]


async def test_without_a_page_there_is_none(tmp_path: Path) -> None:
    async with serving(tmp_path, Config(web=WebSettings(enabled=False))) as stand:
        assert (await stand.http.get("/api/state")).status_code == 404
        response = await stand.http.get("/", headers={"accept": "text/html"})
        assert response.headers["content-type"].startswith("text/plain")


# ── Sessions ─────────────────────────────────────────────────────────────────────────────────────

SUMMARY = {
    "id",
    "title",
    "model",
    "mode",
    "effort",
    "created",
    "updated",
    "running",
    "messages",
    "usage",
    "example",
    "owner",
    "workspace",
}
TURN = {"id", "parent", "role", "at", "model", "parts", "activities", "plan", "usage", "ending"}


async def test_a_session_is_made_changed_and_deleted(stand: PageStand) -> None:
    made = await stand.post("/api/sessions", {"model": "test/m", "effort": "low"})
    assert set(made) == SUMMARY
    assert made["usage"] == {"input": 0, "output": 0, "context": None, "window": None}
    path = f"/api/sessions/{made['id']}"
    changed = await stand.call("PATCH", path, {"title": "Mine", "model": "test/n", "effort": None, "mode": "plan"})
    assert (changed["title"], changed["model"], changed["effort"], changed["mode"]) == ("Mine", "test/n", None, "plan")
    same = await stand.call("PATCH", path, {})
    assert same == changed
    await stand.call("DELETE", path)
    await stand.call("GET", path, status=404)


async def test_a_session_shows_its_messages(stand: PageStand) -> None:
    session = await stand.begin()
    await stand.say(session, "Hi")
    shown = await stand.get(f"/api/sessions/{session}")
    assert {"summary", "messages", "branches"} <= set(shown)
    user, assistant = shown["messages"]
    assert set(user) == set(assistant) == TURN
    assert user["parts"] == [{"type": "text", "text": "Hi"}]
    assert assistant["parts"][0]["html"] == "<p>answer 1</p>\n"
    assert (assistant["parent"], assistant["usage"]) == (user["id"], {"type": "usage", "input": 10, "output": 2})
    assert shown["summary"]["usage"] == {"input": 10, "output": 2, "context": 12, "window": 1000}


async def test_a_long_session_can_be_had_in_pages(stand: PageStand) -> None:
    session = await stand.begin()
    for number in range(4):
        await stand.say(session, f"{number}")
    everything = (await stand.get(f"/api/sessions/{session}"))["messages"]
    last = await stand.get(f"/api/sessions/{session}?last=3")
    assert last["messages"] == everything[-3:]
    assert last["more"]
    before = await stand.get(f"/api/sessions/{session}?before={last['messages'][0]['id']}&last=100")
    assert before["messages"] == everything[:-3]
    assert not before["more"]
    assert (await stand.get(f"/api/sessions/{session}?before=nonsense"))["messages"] == []
    assert (await stand.get(f"/api/sessions/{session}?last=nonsense"))["messages"] == everything


async def test_pictures_go_in_and_out(stand: PageStand) -> None:
    session = await stand.begin()
    picture = Image(media_type="image/png", data=PIXEL)
    stand.backend.legs.append([[STARTED, PartStart(index=0, part=picture), PartEnd(index=0, part=picture), END]])
    body = {"text": "", "images": [{"media_type": "image/png", "data": PIXEL}], "files": [], "parent": None}
    async with stand.stream() as stream:
        sent = await stand.post(f"/api/sessions/{session}/send", body)
        turn = await stream.turn(sent["assistant"])
    shown = {"type": "image", "media_type": "image/png", "data": PIXEL}
    assert sent["user"]["parts"] == turn["parts"] == [shown]
    assert stand.backend.requests[0].messages[0].parts == (picture,)


async def test_retry_edit_and_branch(stand: PageStand) -> None:
    session = await stand.begin()
    first = await stand.say(session, "Hi")
    async with stand.stream() as stream:
        again = await stand.post(f"/api/sessions/{session}/retry")
        await stream.turn(again["assistant"])
        edited = await stand.post(f"/api/sessions/{session}/edit", {"message": again["user"]["id"], "text": "Ho"})
        await stream.turn(edited["assistant"])
    shown = await stand.get(f"/api/sessions/{session}")
    assert [turn["id"] for turn in shown["messages"]] == [edited["user"]["id"], edited["assistant"]]
    assert shown["branches"] == {edited["user"]["id"]: [again["user"]["id"], edited["user"]["id"]]}
    await stand.post(f"/api/sessions/{session}/branch", {"message": first["id"]})
    shown = await stand.get(f"/api/sessions/{session}")
    assert [turn["id"] for turn in shown["messages"]] == [again["user"]["id"], first["id"]]


async def test_what_runs_can_be_stopped_and_not_be_added_to(stand: PageStand) -> None:
    session = await stand.begin()
    stand.backend.legs.append([[STARTED, *words("Half")[:2]], asyncio.Event()])
    message = await stand.waiting(session)
    refused = await stand.post(f"/api/sessions/{session}/send", {"text": "more"}, status=409)
    assert refused["error"]["code"] == "running"
    async with stand.stream() as stream:
        assert await stand.post(f"/api/sessions/{session}/stop") == {}
        turn = await stream.turn(message)
    assert turn["ending"] == {"type": "finished", "reason": "cancelled"}
    assert turn["parts"][0]["html"] == "<p>Half</p>\n"


async def test_a_restart_keeps_sessions(tmp_path: Path) -> None:
    async with serving(tmp_path) as stand:
        session = await stand.begin()
        await stand.say(session, "Hi")
        stand.backend.legs.append([[STARTED, *words("Half")[:2]], asyncio.Event()])
        await stand.waiting(session, "And?")
        before = (await stand.get(f"/api/sessions/{session}"))["messages"]
    async with serving(tmp_path) as stand:
        [summary] = (await stand.state())["sessions"]
        assert (summary["id"], summary["running"], summary["title"]) == (session, False, "Hi")
        after = (await stand.get(f"/api/sessions/{session}"))["messages"]
        assert after[:3] == before[:3]
        assert after[3]["parts"][0]["text"] == "Half"
        assert after[3]["ending"]["reason"] == "cancelled"
        async with stand.stream() as stream:
            again = await stand.post(f"/api/sessions/{session}/retry")
            assert (await stream.turn(again["assistant"]))["ending"]["reason"] == "end_turn"


async def test_the_html_of_a_message_is_kept_and_deleted_with_it(tmp_path: Path) -> None:
    async with serving(tmp_path) as stand:
        session = await stand.begin()
        await stand.say(session, "Hi")
        assert stand.app.page is not None
        store = stand.app.page.store
        assert list((await store.read(f"html/{session}")).values()) == [b"<p>answer 1</p>\n"]
        await stand.call("DELETE", f"/api/sessions/{session}")
        assert await store.read(f"html/{session}") == {}


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/api/sessions", {}, 400),
        ("POST", "/api/sessions", {"model": 7}, 400),
        ("POST", "/api/sessions", {"model": "nobody/x"}, 404),
        ("POST", "/api/sessions", {"model": "test/m", "effort": "enormous"}, 400),
        ("POST", "/api/sessions", [], 400),
        ("GET", "/api/sessions/none", None, 404),
        ("PATCH", "/api/sessions/none", {"title": "x"}, 404),
        ("PATCH", "/api/sessions/SESSION", {"title": None}, 400),
        ("DELETE", "/api/sessions/none", None, 404),
        ("POST", "/api/sessions/none/send", {"text": "x"}, 404),
        ("POST", "/api/sessions/SESSION/dance", {}, 404),
        ("POST", "/api/sessions/SESSION", {}, 404),
        ("POST", "/api/sessions/SESSION/send", {"text": "  "}, 400),
        ("POST", "/api/sessions/SESSION/send", {"text": "x", "parent": "none"}, 400),
        ("POST", "/api/sessions/SESSION/send", {"images": [{"media_type": "image/png", "data": "not base64!"}]}, 400),
        ("POST", "/api/sessions/SESSION/send", {"images": [{"media_type": "image/svg+xml", "data": PIXEL}]}, 400),
        ("POST", "/api/sessions/SESSION/send", {"text": "x", "files": ["a.txt"]}, 400),
        ("POST", "/api/sessions/SESSION/retry", {}, 400),
        ("POST", "/api/sessions/SESSION/edit", {"message": "none", "text": "x"}, 400),
        ("POST", "/api/sessions/SESSION/edit", {}, 400),
        ("POST", "/api/sessions/SESSION/branch", {"message": "none"}, 400),
        ("GET", "/api/traffic/999", None, 404),
        ("PUT", "/api/sessions", {}, 405),
        ("GET", "/api/nothing", None, 404),
    ],
)
async def test_what_cannot_be_done_is_told(stand: PageStand, method: str, path: str, body: Any, status: int) -> None:
    session = await stand.begin()
    answer = await stand.call(method, path.replace("SESSION", session), body, status)
    assert answer["error"]["message"]
    assert "Traceback" not in json.dumps(answer)


async def test_a_body_that_is_no_json_is_told(stand: PageStand) -> None:
    await stand.state()
    response = await stand.http.post("/api/sessions", content=b"\xff{", headers={"x-tieline-token": stand.token})
    assert response.status_code == 400


# ── Files ────────────────────────────────────────────────────────────────────────────────────────


async def test_files_are_found_by_their_letters(tooled: PageStand) -> None:
    assert (await tooled.get("/api/files?query=app"))["files"] == ["src/app.py"]
    assert (await tooled.get("/api/files?query=sapy"))["files"] == ["src/app.py"]
    assert (await tooled.get("/api/files?query=zzz"))["files"] == []
    assert "README.md" in (await tooled.get("/api/files"))["files"]


async def test_without_a_workspace_there_are_no_files(stand: PageStand) -> None:
    assert await stand.get("/api/files?query=a") == {"files": []}


async def test_a_file_goes_into_a_message(tooled: PageStand) -> None:
    session = await tooled.begin()
    async with tooled.stream() as stream:
        sent = await tooled.post(f"/api/sessions/{session}/send", {"text": "What?", "files": ["src/app.py"]})
        await stream.turn(sent["assistant"])
    assert sent["user"]["parts"][1]["name"] == "src/app.py"
    told = tooled.backend.requests[0].messages[0].parts[1]
    assert isinstance(told, Text)
    assert told.text == "<file path=\"src/app.py\">\nprint('hello')\n\n</file>"


@pytest.mark.parametrize("path", ["../outside.txt", "/etc/passwd", "nothing", "binary", "src", ""])
async def test_a_file_that_cannot_be_read_is_refused(tooled: PageStand, path: str) -> None:
    session = await tooled.begin()
    answer = await tooled.post(f"/api/sessions/{session}/send", {"text": "x", "files": [path]}, status=400)
    assert answer["error"]["param"] == "files"


def test_the_closest_names_come_first() -> None:
    names = ["lib/main.py", "main.py", "src/domain.py", "docs/m/a/i/n.txt", "other"]
    assert best_matches(names, "main", 10) == ["main.py", "lib/main.py", "src/domain.py", "docs/m/a/i/n.txt"]
    assert best_matches(names, "", 2) == ["other", "main.py"]


# ── Traffic ──────────────────────────────────────────────────────────────────────────────────────

LEG = {"id", "at", "client", "frontend", "backend", "model", "status", "kind", "message", "first_byte", "duration"} | {
    "usage",
    "calls",
    "title",
    "repairs",
    "resumed",
    "owner",
    "workspace",
    "request_id",
}


async def ask(stand: PageStand, text: str, **more: Any) -> None:
    body = {"model": "test/m", "messages": [{"role": "user", "content": text}], **more}
    response = await stand.http.post("/v1/chat/completions", json=body, headers={"user-agent": "client/1.0"})
    assert response.status_code < 600


async def test_requests_are_listed(stand: PageStand) -> None:
    await ask(stand, "one")
    stand.backend.legs.append([[STARTED, Failed(kind="overloaded", message="busy", status=503)]])
    await ask(stand, "two")
    failed, good = (await stand.get("/api/traffic"))["legs"]
    assert set(good) == LEG
    assert (good["client"], good["frontend"], good["backend"], good["model"]) == (
        "client/1.0",
        "chat",
        "test",
        "test/m",
    )
    assert (good["status"], good["usage"]) == ("ok", {"type": "usage", "input": 10, "output": 2})
    assert (failed["status"], failed["kind"], failed["message"]) == ("failed", "overloaded", "busy")
    assert [leg["title"] for leg in (await stand.get("/api/traffic?query=two"))["legs"]] == ["two"]
    assert [leg["title"] for leg in (await stand.get(f"/api/traffic?before={failed['id']}"))["legs"]] == ["one"]


async def test_a_request_can_be_looked_into(stand: PageStand) -> None:
    schema = {"type": "object", "properties": {"path": {"type": "string"}}}
    tools = [{"type": "function", "function": {"name": "read", "parameters": schema}}]
    call = ToolCall(id="c", name="read", arguments='{"path":"a"}')
    steps: list[Event] = [
        PartStart(index=0, part=ToolCall(id="c", name="read")),
        PartDelta(index=0, text=call.arguments),
    ]
    note = Note(kind="repair", message="mended")
    stand.backend.legs.append([[STARTED, *steps, PartEnd(index=0, part=call), note, Usage(input=1), END]])
    await ask(stand, "look", tools=tools, temperature=0.5)
    [leg] = (await stand.get("/api/traffic"))["legs"]
    detail = await stand.get(f"/api/traffic/{leg['id']}")
    assert set(detail) == {"leg", "request", "events", "notes", "shown"}
    assert detail["leg"] == leg
    assert (leg["calls"], leg["repairs"]) == (["read"], 1)
    assert detail["request"]["tools"][0]["schema"] == schema
    assert detail["request"]["sampling"] == {"temperature": 0.5}
    assert detail["events"][0]["event"]["type"] == "started"
    assert all(isinstance(moment["at"], int) for moment in detail["events"])
    assert {"type": "note", "kind": "repair", "message": "mended"} in detail["notes"]


async def test_secrets_are_hidden_in_traffic(tmp_path: Path) -> None:
    upstream = UpstreamSettings(kind="openai", base_url="http://127.0.0.1:9/v1", key_env="UP_KEY", retries=0)
    secret = "an-upstream-key-1234"
    async with serving(tmp_path, Config(upstreams={"up": upstream}), {"UP_KEY": secret, "TIELINE_KEY": KEY}) as stand:
        stand.http.headers["x-api-key"] = KEY
        likely = "sk-proj-0123456789abcdefghijkl"
        await ask(stand, f"keys: {secret} {KEY} {likely}")
        [leg] = (await stand.get("/api/traffic"))["legs"]
        detail = json.dumps(await stand.get(f"/api/traffic/{leg['id']}"))
    for hidden in (secret, KEY, likely):
        assert hidden not in detail
    assert "keys: ***" in detail


async def test_traffic_can_be_switched_off(tmp_path: Path) -> None:
    async with serving(tmp_path, Config(web=WebSettings(traffic=0))) as stand:
        await ask(stand, "one")
        assert await stand.get("/api/traffic") == {"legs": []}


# ── Connecting ───────────────────────────────────────────────────────────────────────────────────


async def test_what_is_needed_to_connect(stand: PageStand) -> None:
    found = await stand.get("/api/connect")
    assert set(found) == {"address", "key_needed", "backends", "agents", "model", "snippets", "cursor", "setup"}
    assert (found["address"], found["key_needed"]) == (stand.url, False)
    assert {"state": "none", "text": "Not logged in.", "is_offered": True}.items() <= found["cursor"].items()
    assert {"id", "title", "ready", "install", "login", "command"} == set(found["agents"][0])
    shown = {one["id"]: one for one in found["snippets"]}
    assert set(shown) >= {
        "opencode",
        "claude",
        "codex",
        "cursor",
        "aider",
        "zed",
        "openai-python",
        "anthropic-python",
        "curl",
    }
    assert all(stand.url in one["text"] for one in shown.values())


async def test_settings_for_a_model_that_the_user_chooses(stand: PageStand) -> None:
    found = await stand.get("/api/connect?model=up%2Fqwen3-coder")
    assert found["model"] == "up/qwen3-coder"
    shown = [one for one in found["snippets"] if "up/qwen3-coder" not in one["text"]]
    assert shown == []


async def test_settings_have_the_limits_of_the_model(tmp_path: Path) -> None:
    config = Config(models={"demo/scripted": ModelSettings(context=32_768, max_output=2_048)})
    async with serving(tmp_path, config) as stand:
        found = await stand.get("/api/connect?model=demo/scripted")
    opencode = next(json.loads(one["text"]) for one in found["snippets"] if one["id"] == "opencode")
    limit = opencode["provider"]["tieline"]["models"]["demo/scripted"]["limit"]
    assert limit == {"context": 32_768, "output": 2_048}


async def test_a_curl_from_the_page_works(stand: PageStand) -> None:
    [curl] = [one for one in snippets(Connection(url=stand.url, model="demo/scripted")) if one.id == "curl"]
    body = re.search(r"-d '(.*)'$", curl.text)
    assert body is not None
    response = await stand.http.post("/v1/chat/completions", content=body[1].encode())
    assert response.json()["choices"][0]["message"]["content"]


@pytest.mark.parametrize(
    ("default", "models", "found"),
    [
        ("a/b", ["x/y"], "a/b"),
        ("a/*", ["demo/scripted", "x/y"], "x/y"),
        (None, ["demo/scripted", "x/y"], "x/y"),
        (None, ["acp/agent", "demo/scripted", "x/y"], "x/y"),
        (None, ["acp/agent", "demo/scripted"], "demo/scripted"),
        (None, ["demo/scripted"], "demo/scripted"),
        (None, [], "<backend>/<model>"),
    ],
)
def test_the_model_that_is_filled_in(default: str | None, models: list[str], found: str) -> None:
    assert choose_model(default, models) == found


# ── Pages and files ──────────────────────────────────────────────────────────────────────────────


async def test_browsers_get_the_page_and_others_a_few_words(stand: PageStand) -> None:
    browser = await stand.http.get("/", headers={"accept": "text/html,application/xhtml+xml,*/*;q=0.8"})
    assert browser.headers["content-type"] == "text/html; charset=utf-8"
    plain = await stand.http.get("/", headers={"accept": "*/*"})
    assert plain.headers["content-type"].startswith("text/plain")
    assert "curl" in plain.text


@pytest.mark.parametrize("path", ["/traffic", "/connect"])
async def test_pages_are_html_and_can_be_kept(stand: PageStand, path: str) -> None:
    first = await stand.http.get(path)
    assert first.headers["content-type"] == "text/html; charset=utf-8"
    again = await stand.http.get(path, headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    head = await stand.http.head(path)
    assert (head.status_code, head.content) == (200, b"")


async def test_every_file_of_the_page_is_served(stand: PageStand) -> None:
    for file in (ROOT / "src" / "tieline" / "web" / "static").iterdir():
        if file.suffix in (".js", ".css"):
            response = await stand.http.get(f"/static/{file.name}")
            assert response.content == file.read_bytes()
            assert "charset=utf-8" in response.headers["content-type"]
    assert (await stand.http.get("/static/nothing.js")).status_code == 404
    assert (await stand.http.get("/static/../api.py")).status_code == 404


def test_the_files_of_the_page_are_in_the_package() -> None:
    """The build takes everything that stands inside the package; nothing may leave it out."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    assert settings["build-system"]["build-backend"] == "flit_core.buildapi"
    assert "exclude" not in settings["tool"]["flit"]["sdist"]


async def test_a_turn_that_fails_is_shown_as_failed(stand: PageStand) -> None:
    session = await stand.begin()
    stand.backend.legs.append([[Failed(kind="timeout", message="too slow", status=504)]])
    turn = await stand.say(session, "Hi")
    assert (turn["ending"]["type"], turn["ending"]["kind"]) == ("failed", "timeout")
