"""The page Connect in a browser, and the door where the gateway has a key."""

import asyncio
from pathlib import Path

import pytest
from playwright.async_api import Browser, Route, expect

from tests.web.browser import IN_CHROMIUM, Server, Window, Windows, finished, profile
from tieline.app.config import CursorSettings
from tieline.backends.cursor import login
from tieline.sim.cursor import CursorSim
from tieline.sim.cursor.settings import SimSettings

pytestmark = IN_CHROMIUM

KEY = "the-key-of-this-gateway"


def cursor_at(url: str) -> CursorSettings:
    return CursorSettings(api_url=url, agent_url=url, website_url=url)


async def test_settings_are_copied_with_address_and_model_filled_in(windows: Windows) -> None:
    await windows.context.grant_permissions(["clipboard-read", "clipboard-write"])
    window = await windows.new("/connect")
    for client in ("opencode", "claude", "codex", "cursor", "aider", "zed", "openai-python", "anthropic-python"):
        await window.part(f"snippet-{client}").click()
        await window.part("snippet").get_by_role("button", name="Copy").click()
        await expect(window.part("snippet").get_by_text("Copied")).to_be_visible()
        copied = await window.page.evaluate("navigator.clipboard.readText()")
        assert window.url in copied
        assert "demo/scripted" in copied


async def test_backends_and_agents_say_what_to_do(windows: Windows) -> None:
    window = await windows.new("/connect")
    await expect(window.part("backend").first).to_contain_text("demo")
    await window.part("other-agents").locator("summary").click()
    agents = window.part("agent")
    await expect(agents.first.get_by_role("button", name="Copy").first).to_be_visible()
    assert await agents.count() > 5


REFRESH = """async () => (await import("/static/live-state.js")).live.refresh()"""


async def test_an_old_answer_does_not_replace_a_newer_one(windows: Windows) -> None:
    window = await windows.new("/connect")
    address = window.page.locator(".address")
    answers = iter(["http://old", "http://new"])
    newer = asyncio.Event()

    async def answer(route: Route) -> None:
        response, name = await route.fetch(), next(answers)
        if name == "http://old":
            await newer.wait()
        await route.fulfill(response=response, json={**await response.json(), "address": name})

    await window.page.route("**/api/connect", answer)
    async with window.page.expect_request("**/api/connect"):
        await window.page.evaluate(REFRESH)
    await window.page.evaluate(REFRESH)
    await expect(address).to_have_text("http://new")
    async with finished(window, "/api/connect"):
        newer.set()
    await expect(address).to_have_text("http://new")


async def test_a_refresh_leaves_the_list_of_agents_alone(windows: Windows) -> None:
    window = await windows.new("/connect")
    await window.part("other-agents").locator("summary").click()
    copy = window.part("agent").first.get_by_role("button", name="Copy").first
    await copy.focus()
    async with finished(window, "/api/connect"):
        await window.page.evaluate(REFRESH)
    await expect(window.part("agent").first).to_be_visible()
    await expect(copy).to_be_focused()


# ── Logging in with Cursor ───────────────────────────────────────────────────────────────────────


async def test_a_log_in_with_cursor_is_begun_followed_and_used_here(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(login, "FIRST_WAIT", 0.3)
    async with CursorSim(SimSettings(login_polls=None)) as sim:
        server = Server(tmp_path, cursor=cursor_at(sim.url))
        await server.start()
        async with profile(browser, server.url) as windows:
            window = await windows.new("/connect")
            await expect(window.part("cursor-state")).to_have_text("Not logged in.")
            async with windows.context.expect_page() as opening:
                await window.part("cursor-login").click()
            await expect((await opening.value).locator("body")).to_contain_text("You are logged in")
            await expect(window.part("cursor-state")).to_contain_text("models")
            await expect(window.part("notices")).to_contain_text("You are logged in to Cursor")
            await expect(window.part("cursor-login")).to_have_text("Log in again")
            await expect(window.part("backends")).to_contain_text("cursor")
            await window.open()
            await window.page.keyboard.press("Control+k")
            await window.page.keyboard.type("cursor/demo")
            await window.page.keyboard.press("Enter")
            await window.say("say hello")
            await expect(window.answer).to_contain_text("hello")
        await server.stop()


async def test_a_log_in_shows_how_long_it_waits_and_can_be_given_up(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(login, "FIRST_WAIT", 60.0)
    async with CursorSim(SimSettings(login_polls=None)) as sim:
        server = Server(tmp_path, cursor=cursor_at(sim.url))
        await server.start()
        async with profile(browser, server.url) as windows:
            window = await windows.new("/connect")
            async with windows.context.expect_page():
                await window.part("cursor-login").click()
            await expect(window.part("cursor-left")).to_contain_text("left")
            await expect(window.part("cursor-url")).to_be_focused()
            await expect(window.part("cursor-login")).to_be_hidden()
            await window.page.reload()
            await expect(window.part("cursor-url")).to_be_visible()
            await window.part("cursor-cancel").click()
            await expect(window.part("cursor-state")).to_have_text("Not logged in.")
            await expect(window.part("cursor-login")).to_be_visible()
            await expect(window.part("cursor-login")).to_be_focused()
        await server.stop()


async def test_a_log_in_that_fails_says_why(browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login, "FIRST_WAIT", 0.01)
    async with CursorSim() as sim:
        server = Server(tmp_path, cursor=CursorSettings(api_url="http://127.0.0.1:9", website_url=sim.url))
        await server.start()
        async with profile(browser, server.url) as windows:
            window = await windows.new("/connect")
            await window.part("cursor-login").click()
            await expect(window.part("cursor-trouble")).to_contain_text("Cannot check the login at Cursor")
            await expect(window.part("cursor-login")).to_be_enabled()
        await server.stop()


# ── The key ──────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def locked_server(tmp_path: Path) -> Server:
    return Server(tmp_path, env={"TIELINE_KEY": KEY})


@pytest.mark.parametrize("path", ["/", "/traffic", "/connect"])
async def test_a_gateway_with_a_key_asks_for_it_once(browser: Browser, locked_server: Server, path: str) -> None:
    await locked_server.start()
    async with profile(browser, locked_server.url) as windows:
        window = Window(await windows.context.new_page(), windows.url)
        windows.opened.append(window)
        await window.page.goto(windows.url + path)
        await window.part("key").fill("wrong")
        await window.part("unlock").click()
        await expect(window.page.get_by_role("alert")).to_contain_text("not correct")
        await window.part("key").fill(KEY)
        await window.part("unlock").click()
        await expect(window.page.locator("body")).not_to_contain_class("is-loading")
        await window.open()
        await window.say("say hello")
        await expect(window.answer).to_contain_text("hello")
        stored = await window.page.evaluate("JSON.stringify({...localStorage, ...sessionStorage})")
        assert KEY not in stored
        await _is_unknown_at_another_port(window)
        assert await windows.context.cookies() == []
    await locked_server.stop()


async def test_escape_does_not_close_the_dialog_that_asks_for_the_key(browser: Browser, locked_server: Server) -> None:
    await locked_server.start()
    async with profile(browser, locked_server.url) as windows:
        window = Window(await windows.context.new_page(), windows.url)
        windows.opened.append(window)
        await window.page.goto(windows.url)
        await expect(window.part("key")).to_be_focused()
        for _ in range(3):
            await window.page.keyboard.press("Escape")
        await window.part("key").fill(KEY)
        await window.part("unlock").click()
        await expect(window.page.locator("body")).not_to_contain_class("is-loading")
    await locked_server.stop()


async def _is_unknown_at_another_port(window: Window) -> None:
    """A server at another port of the same host gets nothing that opens the gateway."""
    heard: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as other:
        port = other.sockets[0].getsockname()[1]
        await window.page.goto(f"http://127.0.0.1:{port}/api/state")
        assert heard
        assert b"cookie" not in heard[0].lower()
        assert b"x-tieline-pass" not in heard[0].lower()
        assert await window.page.evaluate("localStorage.length") == 0
