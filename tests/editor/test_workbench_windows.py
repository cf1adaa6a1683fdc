"""The view with the page, and windows of the editor: files, a restarted gateway, keys, trust, and two folders."""

import asyncio
import re
from pathlib import Path

from playwright.async_api import Browser, Route, expect

from editor.build import HERE
from tests.editor.editor_window import EditorWindow
from tests.editor.stand import EditorGateway, EditorStand
from tests.web.browser import IN_CHROMIUM
from tests.web.frames import Frame
from tieline.model.inbox import Approval

pytestmark = IN_CHROMIUM

KEY = "the-key-of-this-gateway"
WAITING = re.compile("1 item waiting")
WEBVIEW = """<!doctype html><link rel="stylesheet" href="/view.css">
<main data-address="http://gateway.localhost"><p role="status">Loading …</p></main>
<script>var told = []; var acquireVsCodeApi = () => ({ postMessage: ({ type }) => told.push(type) });</script>
<script src="/view.js"></script>"""
"""The document of the view, without an editor around it. `told` has what its script tells the extension."""
PAGE = '<h1>The page</h1><script>parent.postMessage({ type: "ready" }, "*")</script>'


# ── The view ─────────────────────────────────────────────────────────────────────────────────────


async def test_the_page_in_the_side_bar_answers_in_the_editors_colours(window: EditorWindow, chatting: Frame) -> None:
    await chatting.say("Hello")
    await expect(chatting.part("turn-assistant")).to_have_count(1)
    await expect(chatting.part("send")).to_be_visible()
    assert await chatting.width_beyond() <= 0
    background = await window.page.locator(".part.sidebar").evaluate("one => getComputedStyle(one).backgroundColor")
    await expect(chatting.inside.locator("html")).to_have_css("background-color", background)


async def test_files_and_changes_of_an_answer_open_in_the_editor(
    window: EditorWindow, chatting: Frame, folder: Path
) -> None:
    (folder / "shown.py").write_text("one\ntwo\nthree\n")
    await chatting.say("write `one` to shown.py")
    await chatting.press(chatting.ask.get_by_role("button", name="Allow once"))
    await expect(chatting.part("send")).to_be_visible()
    await chatting.answer.get_by_role("button", name="shown.py", exact=True).first.click()
    await expect(window.tab("shown.py")).to_be_visible()
    await expect(window.editor).to_contain_text("one")
    await chatting.answer.get_by_role("button", name="Open diff of shown.py").click()
    await expect(window.diff).to_contain_text("three")


async def test_a_selection_and_a_file_are_added_to_the_message(window: EditorWindow, chatting: Frame) -> None:
    await window.open_file("greet.py")
    await window.run("Tieline: Add File to Chat")
    await expect(chatting.part("attached-file")).to_have_text(["greet.py"])
    await window.editor.click()
    await window.page.keyboard.press("Control+a")
    await window.run("Tieline: Ask About the Selection")
    await expect(chatting.composer).to_have_value(re.compile("def greet"))
    await expect(chatting.part("turn-user")).to_have_count(0)


async def test_a_page_that_is_ready_late_is_shown(browser: Browser) -> None:
    context = await browser.new_context()
    page, asked, answered = await context.new_page(), asyncio.Event(), asyncio.Event()

    async def serve(route: Route) -> None:
        name = route.request.url.rpartition("/")[2]
        if name.startswith("view."):
            await route.fulfill(path=HERE / "media" / name)
        elif name == "":
            await route.fulfill(body=WEBVIEW, content_type="text/html")
        else:
            asked.set()
            await answered.wait()
            await route.fulfill(body=PAGE, content_type="text/html")

    await context.route("**/*", serve)
    await page.clock.install()
    await page.goto("http://editor.localhost/")
    await page.evaluate("postMessage({ type: 'embed', path: '/embed/1' }, location.origin)")
    await asked.wait()
    await page.clock.fast_forward(20_000)
    await expect(page.get_by_role("main")).to_contain_text("The page has not loaded yet.")
    answered.set()
    await expect(page.frame_locator("iframe").get_by_role("heading")).to_be_visible()
    await expect(page.locator("main")).to_be_hidden()
    assert await page.evaluate("told") == ["origins", "silent", "page"]
    await page.evaluate("postMessage({ type: 'problem', text: 'Refused' }, location.origin)")
    await expect(page.get_by_role("main")).to_contain_text("Refused")
    await context.close()


# ── Faults ───────────────────────────────────────────────────────────────────────────────────────


async def test_a_restarted_gateway_is_found_again(stand: EditorStand, tmp_path: Path) -> None:
    gateway, folder = EditorGateway(tmp_path, stand.server.origin), stand.new_folder("restarted")
    await gateway.start()
    async with stand.opened(folder, gateway.url) as window:
        chat = await window.open_chat()
        await chat.say("Hello")
        await expect(chat.part("turn-assistant")).to_have_count(1)
        await expect(chat.part("send")).to_be_visible()
        await chat.composer.fill("a draft")
        await gateway.ask_in(folder, Approval(title="Lost with the gateway", command="true"))
        await expect(window.status).to_have_attribute("aria-label", WAITING)
        await gateway.stop()
        await expect(window.status).not_to_have_attribute("aria-label", WAITING)
        await gateway.start()
        await expect(window.status).to_have_attribute("aria-label", re.compile("Connected"))
        await expect(chat.composer).to_have_value("a draft")
        answer = await gateway.ask_in(folder, Approval(title="Asked after the restart", command="true"))
        await window.press("Review", window.notification("Asked after the restart"))
        await window.press("Allow")
        assert (await answer).option == "allow"
        await chat.say("Hello again")
        await expect(chat.part("turn-assistant")).to_have_count(2)
    await gateway.stop()


async def test_a_wrong_key_is_reported_and_the_right_one_opens_the_page(stand: EditorStand, tmp_path: Path) -> None:
    gateway, folder = EditorGateway(tmp_path, stand.server.origin, KEY), stand.new_folder("locked")
    await gateway.start()
    async with stand.opened(folder, gateway.url) as window:
        await expect(window.status).to_have_attribute("aria-label", re.compile("key"))
        await window.run("Tieline: Enter the Gateway's Key")
        await window.type("wrong")
        await expect(window.status).to_have_attribute("aria-label", re.compile("key"))
        await window.run("Tieline: Enter the Gateway's Key")
        await window.type(KEY)
        await expect(window.status).to_have_attribute("aria-label", re.compile("Connected"))
        chat = await window.open_chat()
        await chat.say("Hello")
        await expect(chat.part("turn-assistant")).to_have_count(1)
        answer = await gateway.ask_in(folder, Approval(title="Locked", command="true"))
        await window.press("Review", window.notification("Locked"))
        await window.press("Deny")
        assert (await answer).option == "deny"
    await gateway.stop()


async def test_an_untrusted_folder_is_not_registered_before_it_is_trusted(
    stand: EditorStand, gateway: EditorGateway
) -> None:
    folder = stand.new_folder("untrusted")
    async with stand.opened(folder, gateway.url, is_trusted=False) as window:
        await window.run("Tieline: Open Chat")
        await expect(window.notice).to_contain_text("not trusted")
        assert await gateway.registered(folder) == ""
        await window.run("Workspaces: Manage Workspace Trust")
        await window.page.get_by_role("button", name="Trust", exact=True).click()
        await window.chat.shown()
        assert await gateway.registered(folder) != ""


async def test_two_windows_do_not_mix_their_folders(
    stand: EditorStand, gateway: EditorGateway, window: EditorWindow, folder: Path
) -> None:
    other = stand.new_folder("other")
    async with stand.opened(other, gateway.url) as second:
        first_chat, second_chat = await window.open_chat(), await second.open_chat()
        await first_chat.fresh()
        await first_chat.say("write `1` to mine.txt")
        await expect(first_chat.ask).to_be_visible()
        await expect(window.status).to_have_attribute("aria-label", WAITING)
        await expect(second.status).to_have_attribute("aria-label", re.compile("Connected"))
        theirs = await gateway.ask_in(other, Approval(title="Only in the other", command="true"))
        await expect(second.notification("Only in the other")).to_be_visible()
        await expect(window.notification("Only in the other")).to_have_count(0)
        await first_chat.press(first_chat.ask.get_by_role("button", name="Allow once"))
        await expect(first_chat.part("send")).to_be_visible()
        assert (folder / "mine.txt").read_text() == "1"
        assert not (other / "mine.txt").exists()
        await expect(second_chat.part("session")).to_have_count(0)
        await second.press("Review", second.notification("Only in the other"))
        await second.press("Allow")
        assert (await theirs).option == "allow"
