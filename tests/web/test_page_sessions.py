"""The list of chats and the lists of options, used with the keyboard while messages arrive."""

import asyncio
import re

from playwright.async_api import Route, expect

from tests.web.browser import IN_CHROMIUM, Server, Window, Windows

pytestmark = IN_CHROMIUM

COMPOSE = """(field, isComposing) =>
  field.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", isComposing, bubbles: true, cancelable: true }))"""


async def chats(window: Window, *titles: str) -> None:
    """Have a chat with each title, the last one newest and open."""
    for title in titles:
        await window.page.keyboard.press("Alt+n")
        await window.say(title)
        await expect(window.answer).to_contain_text("answer")
        await expect(window.part("session").first).to_contain_text(title)


# ── Chats ────────────────────────────────────────────────────────────────────────────────────────


async def test_a_click_elsewhere_ends_renaming_and_keeps_its_focus(scripted: Window) -> None:
    await chats(scripted, "First")
    await scripted.part("session").locator("a").press("F2")
    await scripted.page.keyboard.type("Renamed")
    await scripted.composer.click()
    await scripted.page.keyboard.type("Next")
    await expect(scripted.part("session")).to_contain_text("Renamed")
    await expect(scripted.composer).to_have_value("Next")


async def test_enter_that_ends_a_composition_does_not_end_renaming(scripted: Window) -> None:
    await chats(scripted, "First")
    await scripted.part("session").locator("a").press("F2")
    field = scripted.page.get_by_label("New title")
    await field.fill("漢字")
    await field.evaluate(COMPOSE, True)
    await expect(field).to_be_focused()
    await field.evaluate(COMPOSE, False)
    await expect(scripted.part("session")).to_contain_text("漢字")


async def test_the_focus_moves_to_the_next_chat_when_one_is_deleted(scripted: Window) -> None:
    await chats(scripted, "First", "Second", "Third")
    links = scripted.part("session").locator("a")
    await links.nth(1).press("Delete")
    await scripted.part("confirm").press("Enter")
    await expect(links).to_have_count(2)
    await expect(links.nth(1)).to_contain_text("First")
    await expect(links.nth(1)).to_be_focused()


# ── Options ──────────────────────────────────────────────────────────────────────────────────────


async def test_enter_chooses_from_the_files_that_match_what_was_typed(scripted: Window, server: Server) -> None:
    for name in ("apple.txt", "grape.txt"):
        (server.root / name).write_text("")
    go = asyncio.Event()

    async def delay(route: Route) -> None:
        await go.wait()
        await route.continue_()

    await scripted.composer.press("@")
    await expect(scripted.page.get_by_role("option").first).to_contain_text("apple.txt")
    await scripted.page.route("**/api/files?query=grape", delay)
    async with scripted.page.expect_request("**/api/files?query=grape"):
        await scripted.page.keyboard.insert_text("grape")
    await scripted.page.keyboard.press("Enter")
    go.set()
    await expect(scripted.page.locator(".composer .chip")).to_have_text(re.compile("grape.txt"))


async def test_an_update_of_the_chat_does_not_move_the_marked_option(windows: Windows) -> None:
    window, other = await windows.new(), await windows.new()
    await window.say("say hello")
    await expect(window.answer).to_contain_text("hello")
    await expect(other.part("session")).to_have_count(1)
    await window.page.bring_to_front()
    await window.part("mode-picker").get_by_role("button").click()
    await window.page.keyboard.press("ArrowDown")
    marked = window.page.locator(".picker-option.is-active:visible")
    await expect(marked).to_have_attribute("data-at", "1")
    await other.part("session").locator("a").press("F2")
    await other.page.keyboard.type("Renamed")
    await other.page.keyboard.press("Enter")
    await expect(window.part("session")).to_contain_text("Renamed")
    await expect(marked).to_have_attribute("data-at", "1")


# ── Shortcuts ────────────────────────────────────────────────────────────────────────────────────


async def test_a_character_typed_with_altgr_is_no_shortcut(scripted: Window) -> None:
    await chats(scripted, "First")
    address = scripted.page.url
    await scripted.composer.press("Control+Alt+n")  # Windows reports AltGr as both modifiers
    await scripted.composer.fill("Still here")
    assert scripted.page.url == address
    await scripted.composer.press("Alt+n")
    assert scripted.page.url != address


async def test_the_mode_of_a_model_that_is_gone_is_not_used_for_another(windows: Windows) -> None:
    choice = '{"model": "agent/gone", "mode": "architect"}'
    await windows.context.add_init_script(f"localStorage.setItem('tieline-choice', '{choice}')")
    window = await windows.new()
    await window.say("say hello")
    await expect(window.answer).to_contain_text("hello")
