"""Who may use the page, and what a browser may do with it."""

import asyncio
import hmac
import re
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest

from tests.each import each
from tests.web.serving import KEY, PageStand, serving
from tieline.app.config import Config, ServerSettings, ToolSettings, WebSettings
from tieline.frontends.guard import TOKEN
from tieline.frontends.page_pass import LIFETIME, Passes
from tieline.model.inbox import Approval, ApprovalAnswer, Origin
from tieline.model.rules import Rule

STATIC = Path(__file__).parents[2] / "src" / "tieline" / "web" / "static"

CHANGES = [
    ("POST", "/api/sessions"),
    ("PATCH", "/api/sessions/x"),
    ("DELETE", "/api/sessions/x"),
    *(("POST", f"/api/sessions/x/{verb}") for verb in ("send", "stop", "retry", "edit", "branch")),
    ("POST", "/api/connect/cursor"),
]
ANSWERS = [("POST", "/api/inbox/x"), ("DELETE", "/api/rules/x")]
"""What the page does at paths that programs use too."""
READS = ["/api/sessions/x", "/api/files", "/api/traffic", "/api/traffic/1", "/api/connect", "/api/stream"]
PAGES = ["/", "/traffic", "/connect"]


@pytest.fixture
async def stand(tmp_path: Path) -> AsyncIterator[PageStand]:
    async with serving(tmp_path) as made:
        yield made


@pytest.fixture
async def locked(tmp_path: Path) -> AsyncIterator[PageStand]:
    """A gateway with a key."""
    async with serving(tmp_path, env={"TIELINE_KEY": KEY}) as made:
        yield made


# ── The token ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("token", [None, "", "wrong", "\xff"])
@pytest.mark.parametrize(("method", "path"), CHANGES)
async def test_nothing_is_changed_without_the_token(
    stand: PageStand, method: str, path: str, token: str | None
) -> None:
    headers = {} if token is None else {TOKEN: token.encode("latin-1")}
    response = await stand.http.request(method, path, json={"model": "test/m"}, headers=headers)
    assert response.status_code == 403
    assert response.json()["error"]["code"] == "bad_token"
    assert (await stand.state())["sessions"] == []


FROM_A_BROWSER: list[dict[str, str]] = [
    {"sec-fetch-site": "same-origin"},
    {"sec-fetch-site": "none"},
    {"x-tieline-pass": "anything"},
    {"x-tieline-pass": "anything", "x-tieline-token": "wrong"},
]


@pytest.mark.parametrize("headers", [*FROM_A_BROWSER, {"origin": ""}], ids=str)
@pytest.mark.parametrize(("method", "path"), ANSWERS)
async def test_a_browser_answers_nothing_without_the_token(
    stand: PageStand, method: str, path: str, headers: dict[str, str]
) -> None:
    if "origin" in headers:
        headers = {"origin": stand.url}
    response = await stand.http.request(method, path, json={"option": "allow"}, headers=headers)
    assert response.status_code == 403
    assert "token" in response.json()["error"]["message"]


@pytest.mark.parametrize("headers", [*FROM_A_BROWSER, {}], ids=str)
async def test_with_the_token_a_browser_answers_and_without_a_browser_none_is_needed(
    tmp_path: Path, headers: dict[str, str]
) -> None:
    rule = Rule(decision="allow", tool="write_file", path="/a.txt")
    async with serving(tmp_path, Config(tools=ToolSettings(enabled=True, workspace=str(tmp_path)))) as stand:
        if headers:
            headers = {**headers, TOKEN.decode(): (await stand.state())["token"]}
        inbox, rulebook = stand.app.gateway.inbox, stand.app.tools
        assert rulebook is not None
        seen = inbox.version
        waiting = asyncio.create_task(inbox.ask(Origin(model="m", frontend="chat"), Approval(title="Run ls")))
        await inbox.change(seen)
        answered = await stand.http.post(f"/api/inbox/{inbox.items[-1].id}", json={"option": "allow"}, headers=headers)
        assert answered.status_code == 200
        assert await waiting == ApprovalAnswer(option="allow")
        await rulebook.remember(rule)
        revoked = await stand.http.delete(f"/api/rules/{rule.id}", headers=headers)
        assert (revoked.status_code, revoked.json()["revoked"]) == (200, True)
        assert (await stand.http.get("/api/rules")).json()["rules"] == []


async def test_without_a_page_no_browser_answers(tmp_path: Path) -> None:
    async with serving(tmp_path, Config(web=WebSettings(enabled=False))) as stand:
        for method, path in ANSWERS:
            response = await stand.http.request(method, path, json={}, headers={"origin": stand.url})
            assert response.status_code == 403


async def test_the_token_is_another_one_in_every_gateway(tmp_path: Path) -> None:
    tokens = []
    for _ in range(2):
        async with serving(tmp_path) as stand:
            tokens.append((await stand.state())["token"])
    assert len(set(tokens)) == 2
    assert all(len(token) >= 24 for token in tokens)


# ── Other sites ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("path", [*PAGES, *READS, "/api/state", "/api/inbox"])
@pytest.mark.parametrize(
    "headers",
    [
        {"host": "evil.example"},
        {"host": "localhost.evil.example"},
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
    ],
    ids=str,
)
async def test_other_sites_and_names_are_refused(stand: PageStand, path: str, headers: dict[str, str]) -> None:
    token = (await stand.state())["token"]
    response = await stand.http.get(path, headers=headers)
    assert response.status_code == 403
    assert token
    assert token not in response.text


@pytest.mark.parametrize(("method", "path"), [*CHANGES, *ANSWERS, ("POST", "/api/login")])
async def test_other_sites_change_nothing_even_with_the_token(stand: PageStand, method: str, path: str) -> None:
    token = (await stand.state())["token"]
    headers = {"origin": "https://evil.example", TOKEN.decode(): token}
    response = await stand.http.request(method, path, json={}, headers=headers)
    assert response.status_code == 403


async def test_our_own_page_is_let_in(stand: PageStand) -> None:
    token = (await stand.state())["token"]
    headers = {"origin": stand.url, "sec-fetch-site": "same-origin", TOKEN.decode(): token}
    response = await stand.http.post("/api/sessions", json={"model": "test/m"}, headers=headers)
    assert response.status_code == 200


@pytest.mark.parametrize("path", [*PAGES, "/api/state", "/api/traffic", "/static/app.css"])
async def test_no_other_page_may_read_an_answer(stand: PageStand, path: str) -> None:
    response = await stand.http.get(path, headers={"accept": "text/html", "origin": stand.url})
    assert not [name for name in response.headers if name.startswith("access-control-")]
    assert response.headers["cross-origin-resource-policy"] == "same-origin"


# ── The key ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("path", [*READS, "/api/inbox", "/api/rules"])
async def test_with_a_key_nothing_is_told_without_it(locked: PageStand, path: str) -> None:
    assert (await locked.http.get(path)).status_code == 401


@pytest.mark.parametrize(("method", "path"), [*CHANGES, *ANSWERS])
async def test_with_a_key_nothing_is_changed_without_it(locked: PageStand, method: str, path: str) -> None:
    token = (await locked.http.get("/api/state", headers={"x-api-key": KEY})).json()["token"]
    response = await locked.http.request(method, path, json={}, headers={TOKEN.decode(): token})
    assert response.status_code == 401


async def test_the_state_says_that_a_key_is_needed_and_nothing_else(locked: PageStand) -> None:
    response = await locked.http.get("/api/state")
    state = response.json()
    assert (response.status_code, state["needs_key"]) == (401, True)
    assert state["models"] == state["backends"] == state["sessions"] == state["inbox"]["items"] == []
    assert state["tools"] == {"enabled": False, "workspace": None}
    assert "token" not in state


@pytest.mark.parametrize("path", PAGES)
async def test_the_page_itself_can_be_loaded_to_ask_for_the_key(locked: PageStand, path: str) -> None:
    response = await locked.http.get(path, headers={"accept": "text/html"})
    assert response.status_code == 200


async def test_the_key_is_exchanged_for_a_pass_and_no_cookie_is_set(locked: PageStand) -> None:
    response = await locked.http.post("/api/login", json={"key": f" {KEY} "})
    assert response.status_code == 200
    assert KEY not in response.json()["pass"]
    assert "set-cookie" not in response.headers


async def test_the_pass_is_as_good_as_the_key_on_the_pages_paths_only(locked: PageStand) -> None:
    await locked.unlock()
    state = await locked.state()
    assert not state["needs_key"]
    session = await locked.begin()
    assert [one["id"] for one in (await locked.state())["sessions"]] == [session]
    async with locked.stream():
        pass
    assert (await locked.http.get("/api/inbox")).status_code == 200
    for path in ("/v1/models", "/metrics"):
        assert (await locked.http.get(path)).status_code == 401


async def test_the_pass_outlives_the_gateway_but_not_the_key(tmp_path: Path) -> None:
    host = {"host": "localhost:18741"}
    async with serving(tmp_path, env={"TIELINE_KEY": KEY}) as stand:
        given = (await stand.http.post("/api/login", json={"key": KEY}, headers=host)).json()["pass"]
    shown = {"x-tieline-pass": given, **host}
    async with serving(tmp_path, env={"TIELINE_KEY": KEY}) as stand:
        assert (await stand.http.get("/api/traffic", headers=shown)).status_code == 200
    async with serving(tmp_path, env={"TIELINE_KEY": "another-key"}) as stand:
        assert (await stand.http.get("/api/traffic", headers=shown)).status_code == 401


@pytest.mark.parametrize("host", ["localhost:1", "127.0.0.1", "localhost"])
async def test_a_pass_of_another_address_opens_nothing_and_gets_no_token(locked: PageStand, host: str) -> None:
    await locked.unlock()
    assert (await locked.http.get("/api/state")).status_code == 200
    elsewhere = {"host": host}
    response = await locked.http.get("/api/state", headers=elsewhere)
    assert (response.status_code, "token" in response.json()) == (401, False)
    assert (await locked.http.get("/api/inbox", headers=elsewhere)).status_code == 401


def test_a_pass_comes_to_its_end() -> None:
    now = 1000.0
    passes = Passes([KEY], lambda: now)
    given = passes.issue(KEY, "localhost:1")
    assert given is not None
    now += LIFETIME - 1
    assert passes.admits(given, "localhost:1")
    now += 1
    assert not passes.admits(given, "localhost:1")
    until, _, signature = given.partition(".")
    assert not passes.admits(f"{int(until) + 100}.{signature}", "localhost:1")


@pytest.mark.parametrize("key", ["", "wrong", KEY[:-1], KEY + "x", "\x00"])
async def test_a_wrong_key_is_refused(locked: PageStand, key: str) -> None:
    response = await locked.http.post("/api/login", json={"key": key})
    assert response.status_code == 401
    assert "pass" not in response.json()


@pytest.mark.parametrize(
    "given", ["", "wrong", "9999999999.", "9999999999.00", ".", "\xb2.x", "-1.x", "9" * 5000 + ".x"]
)
async def test_a_wrong_pass_is_refused(locked: PageStand, given: str) -> None:
    headers = {b"x-tieline-pass": given.encode("latin-1")}
    assert (await locked.http.get("/api/traffic", headers=headers)).status_code == 401


async def test_a_cookie_of_an_earlier_version_counts_for_nothing_and_is_removed(locked: PageStand) -> None:
    old = {"cookie": f"tieline={hmac.new(KEY.encode(), b'tieline page', 'sha256').hexdigest()}"}
    assert (await locked.http.get("/api/traffic", headers=old)).status_code == 401
    response = await locked.http.get("/api/state", headers=old)
    assert response.status_code == 401
    assert response.headers["set-cookie"].startswith("tieline=; Path=/api;")
    assert "Max-Age=0" in response.headers["set-cookie"]


async def test_without_a_key_there_is_nothing_to_log_in_to(stand: PageStand) -> None:
    response = await stand.http.post("/api/login", json={"key": "anything"})
    assert response.status_code == 200
    assert "pass" not in response.json()


async def test_the_key_itself_does_too(locked: PageStand) -> None:
    headers = {"authorization": f"Bearer {KEY}"}
    assert (await locked.http.get("/api/traffic", headers=headers)).status_code == 200


async def test_beyond_this_machine_the_page_needs_the_key(tmp_path: Path) -> None:
    config = Config(server=ServerSettings(host="192.0.2.1"))
    async with serving(tmp_path, config, {"TIELINE_KEY": KEY}) as stand:
        assert (await stand.http.get("/api/traffic")).status_code == 401


# ── What a browser may do ────────────────────────────────────────────────────────────────────────

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "font-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)


@pytest.mark.parametrize("path", [*PAGES, "/static/app.css", "/api/state", "/api/traffic", "/api/connect"])
async def test_everything_comes_with_a_strict_policy(stand: PageStand, path: str) -> None:
    response = await stand.http.get(path, headers={"accept": "text/html"})
    assert response.status_code == 200
    assert response.headers["content-security-policy"] == POLICY
    assert response.headers["x-content-type-options"] == "nosniff"
    assert response.headers["referrer-policy"] == "no-referrer"


async def test_a_page_that_is_not_modified_keeps_its_policy(stand: PageStand) -> None:
    tag = (await stand.http.get("/traffic")).headers["etag"]
    response: httpx2.Response = await stand.http.get("/traffic", headers={"if-none-match": tag})
    assert (response.status_code, response.headers["content-security-policy"]) == (304, POLICY)


async def test_what_is_private_is_not_kept_by_the_browser(stand: PageStand) -> None:
    for path in ("/api/state", "/api/traffic"):
        assert (await stand.http.get(path)).headers["cache-control"] == "no-store"


@pytest.mark.parametrize("page", sorted(STATIC.glob("*.html")), ids=lambda page: page.name)
def test_a_page_has_no_script_style_or_address_of_its_own(page: Path) -> None:
    html = page.read_text("utf-8")
    assert not re.search(r"<script(?![^>]*\ssrc=)[^>]*>", html)
    assert not re.search(r"<style|\sstyle=|\son[a-z]+=", html)
    assert not re.findall(r"(?:src|href)=[\"']?(?:https?:)?//", html)


@each("script", sorted(STATIC.glob("*.js")), ids=lambda script: script.name)
def test_a_script_builds_no_script(script: Path) -> None:
    code = script.read_text("utf-8")
    assert not re.search(r"\beval\(|new Function\(|document\.write|insertAdjacentHTML|outerHTML\s*=", code)
    assert not re.findall(r"(?:import|from)\s*\(?[\"'](?:https?:)?//", code)
