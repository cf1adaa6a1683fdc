"""The list of chats, used with the keyboard."""

from playwright.async_api import expect

from tests.web.browser import IN_CHROMIUM, Window

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
