"""The first run in a browser: the examples, then a model of one's own, on a gateway without any settings."""

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, expect

from tests.catalogue.serving import listening
from tests.web.browser import IN_CHROMIUM, Window, Windows, held, profile
from tests.web.test_agent_install import program
from tests.web.test_page_access import nameless
from tieline.app.build.application import build
from tieline.app.config import Config, UpstreamSettings

pytestmark = IN_CHROMIUM

SECRET = "upstream-secret-4711"
PHONE: Mapping[str, Any] = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}


@asynccontextmanager
async def gateway(home: Path, config: Config | None = None, **env: str) -> AsyncIterator[str]:
    """A gateway, by default without any settings; its address."""
    app = build(config or Config(), {"HOME": str(home), "PATH": "/usr/bin:/bin", **env})
    async with AsyncExitStack() as stack:
        stack.push_async_callback(app.aclose)
        yield await stack.enter_async_context(listening(app))


@pytest_asyncio.fixture(loop_scope="session")
async def fresh(browser: Browser, tmp_path: Path, settings: Mapping[str, Any]) -> AsyncIterator[Windows]:
    """The browser of a new user, with a gateway that was started without any settings."""
    async with gateway(tmp_path / "home") as url, profile(browser, url, **settings) as windows:
        yield windows


@pytest_asyncio.fixture(loop_scope="session")
async def upstream(tmp_path: Path) -> AsyncIterator[str]:
    """The address of an OpenAI-like server with a key."""
    async with gateway(tmp_path / "upstream", TIELINE_KEY=SECRET) as url:
        yield f"{url}/v1"


async def fill_in(window: Window, address: str, key: str = SECRET, name: str = "mine") -> None:
    await window.part("provider").select_option("openai-like")
    await window.part("base-url").fill(address)
    await window.part("name").fill(name)
    await window.part("api-key").fill(key)


# ── Examples ─────────────────────────────────────────────────────────────────────────────────────


async def test_one_click_reads_a_file(fresh: Windows) -> None:
    window = await fresh.new()
    await window.part("example-read").click()
    await expect(window.answer).to_contain_text("A small shop that sells tea")
    await expect(window.page.locator(".example-tag")).to_be_visible()


async def test_one_click_shows_a_permission_and_the_allowed_command_runs(fresh: Windows) -> None:
    window = await fresh.new()
    await window.part("example-run").click()
    await expect(window.ask).to_contain_text("sort -t, -k2 -nr sales.csv")
    await window.choose("allow")
    await expect(window.answer).to_contain_text("Assam,41")


async def test_one_click_shows_a_plan_and_the_progress_of_its_steps(fresh: Windows) -> None:
    window = await fresh.new()
    await window.part("example-plan").click()
    await expect(window.ask).to_contain_text("Write summary.txt")
    await window.press(window.ask.get_by_role("button", name="Approve plan"))
    await expect(window.ask).to_contain_text("summary.txt")
    await window.choose("allow")
    await expect(window.answer).to_contain_text("Best seller: Assam")
    await expect(window.answer.get_by_role("region", name="Plan")).to_contain_text("3 of 3")


async def test_one_click_asks_a_question(fresh: Windows) -> None:
    window = await fresh.new()
    await window.part("example-question").click()
    await window.ask.get_by_role("radio", name="Sencha").check()
    await window.press(window.ask.locator("[data-test=answer]"))
    await expect(window.answer).to_contain_text("You answered Sencha")


async def test_the_browser_remembers_what_was_tried_and_hidden(fresh: Windows) -> None:
    window = await fresh.new()
    await window.part("example-read").click()
    await expect(window.answer).to_contain_text("shop")
    await window.open()
    await expect(window.part("example-read")).to_contain_text("Tried")
    await expect(window.part("example-run")).not_to_contain_text("Tried")
    await window.part("examples-toggle").click()
    await expect(window.part("example-read")).to_have_count(0)
    await expect(window.page.locator(".idea").first).to_be_visible()
    await window.page.reload()
    await expect(window.part("examples-toggle")).to_have_text("Show examples")
    await window.part("examples-toggle").press("Enter")
    await expect(window.part("example-read")).to_be_visible()


async def test_the_examples_can_be_started_with_the_keyboard(fresh: Windows) -> None:
    window = await fresh.new()
    await window.part("example-question").focus()
    await window.page.keyboard.press("Enter")
    await expect(window.ask).to_contain_text("Which tea")


@pytest.mark.parametrize("settings", [PHONE, {**PHONE, "color_scheme": "dark"}], ids=["light", "dark"])
async def test_the_first_run_fits_a_phone(fresh: Windows, upstream: str) -> None:
    window = await fresh.new()
    assert await window.width_beyond() == 0
    await window.part("example-read").click()
    await expect(window.answer).to_contain_text("shop")
    assert await window.width_beyond() == 0
    await window.part("own-model-link").click()
    await fill_in(window, upstream, "a-wrong-key")
    await window.part("test").click()
    await expect(window.part("step-key")).to_be_visible()
    assert await window.width_beyond() == 0


@pytest.mark.parametrize("path", ["/", "/connect#add-model"])
async def test_everything_in_the_first_run_has_a_name(fresh: Windows, path: str) -> None:
    window = await fresh.new(path)
    assert await nameless(window) == []


# ── A model of one's own ─────────────────────────────────────────────────────────────────────────


async def test_from_the_examples_to_a_chat_with_an_own_model(fresh: Windows, upstream: str) -> None:
    window = await fresh.new()
    await window.part("own-model").click()
    await fill_in(window, upstream)
    await window.part("test").click()
    for step in ("reach", "models", "key", "tools"):
        await expect(window.part(f"step-{step}")).to_have_attribute("data-state", "ok")
    await window.part("add").click()
    await expect(window.part("backends")).to_contain_text("mine")
    await expect(window.part("backends")).to_contain_text("added here")
    await window.part("chat-now").click()
    await expect(window.part("model-picker")).to_contain_text("Scripted demo")
    await window.say("say hello")
    await expect(window.answer).to_contain_text("hello")
    await expect(window.answer).to_contain_text("mine/demo/scripted")
    stored = await window.page.evaluate("JSON.stringify({...localStorage, ...sessionStorage})")
    assert SECRET not in stored


async def test_the_key_leaves_the_form_and_never_comes_back(fresh: Windows, upstream: str) -> None:
    window = await fresh.new("/connect#add-model")
    heard: list[str] = []

    async def hear(response: Any) -> None:
        if "/api/" in response.url and "stream" not in response.url:
            heard.append(await response.text())

    window.page.on("response", hear)
    await fill_in(window, upstream)
    await window.part("add").click()
    await expect(window.part("added")).to_be_visible()
    await window.page.get_by_role("button", name="Add another").click()
    await expect(window.part("api-key")).to_have_value("")
    await window.part("test-added").click()
    await expect(window.part("backends").get_by_text("called a tool")).to_be_visible()
    assert heard
    assert all(SECRET not in text for text in heard)
    assert SECRET not in await window.page.content()


async def test_mistakes_are_shown_at_their_field(fresh: Windows) -> None:
    window = await fresh.new("/connect#add-model")
    await window.part("test").click()
    await expect(window.page.get_by_role("alert").filter(has_text="Enter the API key of Anthropic")).to_be_visible()
    await expect(window.part("api-key")).to_be_focused()
    await fill_in(window, "ftp://host")
    await window.part("add").click()
    await expect(window.part("base-url")).to_have_attribute("aria-invalid", "true")
    await expect(window.page.get_by_role("alert").filter(has_text="base_url")).to_be_visible()
    await window.part("base-url").fill("http://192.0.2.1/v1")
    await expect(window.page.get_by_text("does not use TLS")).to_be_visible()
    await window.part("base-url").fill("http://127.0.0.1:9/v1")
    await expect(window.page.get_by_text("does not use TLS")).to_be_hidden()
    await window.part("test").click()
    await expect(window.part("step-reach")).to_have_attribute("data-state", "failed")


async def test_a_key_is_replaced_and_an_upstream_removed(fresh: Windows, upstream: str) -> None:
    window = await fresh.new("/connect#add-model")
    await fill_in(window, upstream, "a-wrong-key")
    await window.part("add").click()
    await window.part("test-added").click()
    await expect(window.part("backends").locator('[data-test="step-key"]')).to_have_attribute("data-state", "failed")
    await window.part("replace-key").click()
    await window.part("new-key").fill(SECRET)
    await window.part("save-key").click()
    await expect(window.part("notices")).to_contain_text("was replaced")
    await window.part("test-added").click()
    await expect(window.part("backends").locator('[data-test="step-tools"]')).to_have_attribute("data-state", "ok")
    await window.part("remove-added").click()
    await window.part("confirm").click()
    await expect(window.part("backends")).not_to_contain_text("mine")


async def test_another_upstream_of_the_same_provider_is_proposed_with_a_free_name(fresh: Windows) -> None:
    window = await fresh.new("/connect#add-model")
    name = await window.part("name").input_value()
    await window.part("api-key").fill(SECRET)
    await window.part("add").click()
    await window.page.get_by_role("button", name="Add another").click()
    await expect(window.part("name")).to_have_value(f"{name}-2")


async def test_the_end_of_a_test_leaves_the_focus_where_it_is(fresh: Windows, upstream: str) -> None:
    window = await fresh.new("/connect#add-model")
    await fill_in(window, upstream)
    await window.part("add").click()
    async with held(window, "POST", "**/test"):
        await window.part("test-added").click()
        await window.part("replace-key").focus()
    await expect(window.part("backends").locator('[data-test="step-tools"]')).to_have_attribute("data-state", "ok")
    await expect(window.part("test-added")).to_be_enabled()
    await expect(window.part("replace-key")).to_be_focused()


async def test_a_first_key_is_not_called_a_new_one(fresh: Windows, upstream: str) -> None:
    window = await fresh.new("/connect#add-model")
    await fill_in(window, upstream, key="")
    await window.part("add").click()
    await window.page.get_by_role("button", name="Set the key of mine").click()
    await expect(window.page.get_by_role("dialog").get_by_role("heading")).to_have_text("Set the key")
    await window.part("new-key").fill(SECRET)
    await window.part("save-key").click()
    await expect(window.part("notices")).to_contain_text("The key of mine was set.")


async def test_another_tab_learns_of_an_added_model(fresh: Windows, upstream: str) -> None:
    chat = await fresh.new()
    connect = await fresh.new("/connect#add-model")
    await fill_in(connect, upstream)
    await connect.part("add").click()
    await expect(chat.part("own-model")).to_have_text("Choose another model")
    await chat.part("own-model").click()
    await expect(chat.page.get_by_role("option", name="demo/scripted")).to_be_visible()


# ── Settings of clients ──────────────────────────────────────────────────────────────────────────


async def test_the_settings_of_a_client_are_for_the_chosen_model(fresh: Windows, upstream: str) -> None:
    window = await fresh.new("/connect#add-model")
    await fill_in(window, upstream)
    await window.part("add").click()
    await expect(window.part("snippet-model")).to_contain_text("mine/demo/scripted")
    await expect(window.part("snippet")).to_contain_text("mine/demo/scripted")
    async with window.page.expect_request(lambda request: "model=demo%2Fscripted" in request.url):
        await window.part("snippet-model").get_by_role("button").click()
        await window.page.get_by_role("option", name="demo/scripted", exact=True).click()
    await expect(window.part("snippet-model")).to_contain_text("demo/scripted")


async def test_clients_are_chosen_with_the_arrow_keys(fresh: Windows) -> None:
    window = await fresh.new("/connect")
    tabs = window.page.get_by_role("tab")
    await tabs.first.focus()
    await window.page.keyboard.press("ArrowDown")
    await expect(tabs.nth(1)).to_be_focused()
    await expect(tabs.nth(1)).to_have_attribute("aria-selected", "true")
    await window.page.keyboard.press("End")
    await expect(tabs.last).to_be_focused()


# ── Agents ───────────────────────────────────────────────────────────────────────────────────────


@asynccontextmanager
async def with_npm(browser: Browser, tmp_path: Path, text: str) -> AsyncIterator[Window]:
    """The page Connect of a gateway whose npm is a script."""
    program(tmp_path, "npm", text)
    path = f"{tmp_path}:/usr/bin:/bin"
    async with gateway(tmp_path, PATH=path) as url, profile(browser, url) as windows:
        window = await windows.new("/connect")
        await window.part("other-agents").locator("summary").click()
        await window.part("install-opencode").click()
        yield window


async def test_an_agent_is_installed_after_its_command_was_confirmed(browser: Browser, tmp_path: Path) -> None:
    async with with_npm(browser, tmp_path, "echo adding $3; cp $0 $HOME/opencode") as window:
        await expect(window.part("command")).to_have_text("npm install --global opencode-ai")
        await window.part("confirm").click()
        await expect(window.part("install-state")).to_contain_text("OpenCode is installed")
        await expect(window.part("install")).to_contain_text("adding opencode-ai")
        await expect(window.part("agent").first).to_contain_text("acp/opencode")
        await expect(window.part("agent").first.get_by_label("ready", exact=True)).to_be_visible()


async def test_enter_does_not_confirm_a_command(browser: Browser, tmp_path: Path) -> None:
    async with with_npm(browser, tmp_path, "touch $HOME/ran") as window:
        await window.page.keyboard.press("Enter")
        await expect(window.part("command")).to_have_count(0)
        await expect(window.part("install")).to_be_hidden()
    assert not (tmp_path / "ran").exists()


async def test_an_installation_is_followed_after_a_reload_and_can_be_cancelled(
    browser: Browser, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "pid")
    async with with_npm(browser, tmp_path, "echo $$ > $HOME/pid; exec sleep 60") as window:
        await window.part("confirm").click()
        pid = int(await asyncio.to_thread((tmp_path / "pid").read_text))
        await window.page.reload()
        await expect(window.part("install")).to_contain_text("Installing OpenCode")
        await window.part("install-cancel").click()
        await expect(window.part("install-state")).to_have_text("Cancelled.")
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


# ── The first model ──────────────────────────────────────────────────────────────────────────────


async def test_a_new_browser_starts_with_the_default_model(browser: Browser, tmp_path: Path) -> None:
    config = Config(
        default_model="up/m",
        upstreams={"up": UpstreamSettings(kind="openai", base_url="http://127.0.0.1:9", models=("m",))},
    )
    async with gateway(tmp_path, config) as url, profile(browser, url) as windows:
        window = await windows.new()
        await expect(window.part("model-picker")).to_contain_text("up/m")
        await expect(window.part("example-read")).to_be_hidden()
