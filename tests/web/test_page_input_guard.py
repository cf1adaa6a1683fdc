"""Clicks and keys that began before a person can have seen what they would answer do not count.

The page's clock is stopped and moved by hand, so that nothing here depends on how fast the machine is.
"""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import FloatRect, Locator, expect

from tests.e2e.tools_support import TELL, call, script
from tests.web.browser import IN_CHROMIUM, Server, Window, Windows, centre
from tieline.model.inbox import Approval, Field, Origin, PlanReview, Question

pytestmark = IN_CHROMIUM

CLOCK = """
const real = performance.now.bind(performance);
globalThis.testClock = { now: real() };
performance.now = () => testClock.now;
Object.defineProperty(Event.prototype, "timeStamp", { get: () => testClock.now });
"""
FRAMES = """() => new Promise((done) => {
  let left = 3;
  const next = () => (left -= 1) ? requestAnimationFrame(next) : done();
  requestAnimationFrame(next);
})"""
"""Three frames: enough for the page to see that a card has moved, or that it has stopped."""
ORIGIN = Origin(client="a client", model="m")
EDIT = Approval(title="Edit a.py", tool="edit_file", kind="edit", path="a.py")


@pytest_asyncio.fixture(loop_scope="session")
async def stopped(windows: Windows) -> AsyncIterator[Window]:
    """A tab whose clock stands still until `pass_time`."""
    await windows.context.add_init_script(CLOCK)
    yield await windows.new()


async def pass_time(window: Window, milliseconds: int) -> None:
    """Let the page see where its cards are, then move its clock, then let it see that."""
    await window.page.evaluate(FRAMES)
    await window.page.evaluate("(by) => { testClock.now += by }", milliseconds)
    await window.page.evaluate(FRAMES)


async def in_inbox(window: Window) -> Locator:
    await window.part("inbox-button").click()
    card = window.part("inbox-list").locator("tl-inbox-item")
    await expect(card).to_be_visible()
    return card


async def click(window: Window, target: Locator) -> None:
    """Without waiting until that is of any use."""
    await window.page.mouse.click(*await centre(target))


async def test_a_second_click_on_approve_does_not_answer_the_permission_that_follows(
    stopped: Window, server: Server
) -> None:
    (server.root / "a.py").write_text("one\n")
    window = stopped
    await window.part("mode-picker").get_by_role("button").click()
    await window.part("mode-picker").get_by_role("option", name="Plan").click()
    edit = call("edit_file", path="a.py", old_text="one", new_text="two")
    await window.say(script(call("create_plan", title="A plan", plan="Do it."), edit, TELL))
    approve = window.ask.locator('[data-test="approve"]')
    await expect(approve).to_be_visible()
    await pass_time(window, 500)
    x, y = await centre(approve)
    await window.page.mouse.click(x, y)
    await expect(window.ask).to_have_attribute("data-kind", "permission")
    await pass_time(window, 400)
    await window.page.mouse.click(x, y)
    for button in await window.ask.locator(".item-always button, .item-actions button").all():
        await window.page.mouse.click(*await centre(button))
    await window.page.evaluate(FRAMES)
    await expect(window.ask).to_have_attribute("data-kind", "permission")
    assert (server.root / "a.py").read_text() == "one\n"
    assert server.app is not None
    assert not (await (await window.page.request.get(f"{server.url}/api/rules")).json())["rules"]
    await pass_time(window, 100)
    await window.choose("allow")
    await expect(window.answer).to_contain_text("It said:")
    assert (server.root / "a.py").read_text() == "two\n"


async def test_where_a_plan_has_approve_a_permission_has_no_grant_for_good(window: Window, server: Server) -> None:
    (server.root / "a.py").write_text("one\n")
    await window.part("mode-picker").get_by_role("button").click()
    await window.part("mode-picker").get_by_role("option", name="Plan").click()
    edit = call("edit_file", path="a.py", old_text="one", new_text="two")
    await window.say(script(call("create_plan", title="A plan", plan="Do it."), edit, TELL))
    approve = window.ask.locator('[data-test="approve"]')
    await expect(approve).to_be_enabled()
    x, y = await centre(approve)
    await approve.click()
    await expect(window.ask.locator('[data-test="option-allow"]')).to_be_enabled()
    grants = window.ask.locator(".item-always button")
    assert await grants.count() > 0
    for grant in await grants.all():
        assert not _holds(await grant.bounding_box(), x, y)
    texts = await grants.all_inner_texts()
    assert "any file" in texts[0], "the broadest grant is the farthest from Allow"
    assert "any file" not in texts[-1]


def _holds(box: FloatRect | None, x: float, y: float) -> bool:
    assert box is not None
    return box["x"] <= x <= box["x"] + box["width"] and box["y"] <= y <= box["y"] + box["height"]


@pytest.mark.parametrize("key", ["y", "a", "n"])
async def test_a_key_counts_only_when_the_card_has_been_there(stopped: Window, server: Server, key: str) -> None:
    asked = server.ask(ORIGIN, EDIT)
    card = await in_inbox(stopped)
    await pass_time(stopped, 499)
    await card.focus()
    await stopped.page.keyboard.press(key)
    await stopped.page.evaluate(FRAMES)
    assert not asked.done()
    await pass_time(stopped, 1)
    await stopped.page.keyboard.press(key)
    await expect(card).to_have_count(0)
    await asked


@pytest.mark.parametrize("key", ["Enter", "Space"])
async def test_enter_and_space_on_a_focused_button_count_only_when_the_card_has_been_there(
    stopped: Window, server: Server, key: str
) -> None:
    asked = server.ask(ORIGIN, EDIT)
    card = await in_inbox(stopped)
    await pass_time(stopped, 400)
    await card.locator('[data-test="option-allow"]').focus()
    await stopped.page.keyboard.press(key)
    await stopped.page.evaluate(FRAMES)
    assert not asked.done()
    await pass_time(stopped, 100)
    await stopped.page.keyboard.press(key)
    await expect(card).to_have_count(0)
    await asked


async def test_a_key_that_is_held_down_answers_nothing_that_comes_later(stopped: Window, server: Server) -> None:
    first = server.ask(ORIGIN, EDIT)
    await in_inbox(stopped)
    await pass_time(stopped, 500)
    await stopped.part("inbox-list").locator('[data-test="option-allow"]').focus()
    await stopped.page.keyboard.down("Enter")
    await first
    second = server.ask(ORIGIN, EDIT)
    button = stopped.part("inbox-list").locator('[data-test="option-allow"]')
    await button.focus()
    await pass_time(stopped, 5000)
    await stopped.page.keyboard.down("Enter")
    await stopped.page.evaluate(FRAMES)
    assert not second.done()
    await stopped.page.keyboard.up("Enter")
    await stopped.page.keyboard.press("Enter")
    await second


async def test_a_card_that_moves_starts_to_wait_again(stopped: Window, server: Server) -> None:
    first, second = server.ask(ORIGIN, EDIT), server.ask(ORIGIN, EDIT)
    await stopped.part("inbox-button").click()
    cards = stopped.part("inbox-list").locator("tl-inbox-item")
    await expect(cards).to_have_count(2)
    await pass_time(stopped, 500)
    x, y = await centre(cards.first.locator('[data-test="option-allow"]'))
    await stopped.page.mouse.click(x, y)
    await first
    await expect(cards).to_have_count(1)
    await pass_time(stopped, 499)
    await stopped.page.mouse.click(x, y)
    await stopped.page.evaluate(FRAMES)
    assert not second.done()
    await pass_time(stopped, 1)
    await stopped.page.mouse.click(*await centre(cards.locator('[data-test="option-allow"]')))
    await second


async def test_a_press_that_began_too_early_does_not_count_when_it_ends_late(stopped: Window, server: Server) -> None:
    asked = server.ask(ORIGIN, EDIT)
    card = await in_inbox(stopped)
    await stopped.page.evaluate(FRAMES)
    await stopped.page.mouse.move(*await centre(card.locator('[data-test="option-allow"]')))
    await stopped.page.mouse.down()
    await pass_time(stopped, 5000)
    await stopped.page.mouse.up()
    await stopped.page.evaluate(FRAMES)
    assert not asked.done()
    await stopped.page.mouse.down()
    await stopped.page.mouse.up()
    await asked


async def test_plans_and_questions_wait_as_well(stopped: Window, server: Server) -> None:
    plan = server.ask(ORIGIN, PlanReview(title="A plan", plan="Do it."))
    card = await in_inbox(stopped)
    await pass_time(stopped, 499)
    for test in ("approve", "reject"):
        await click(stopped, card.locator(f'[data-test="{test}"]'))
    await stopped.page.evaluate(FRAMES)
    assert not plan.done()
    await expect(card.locator('[data-test="feedback"]')).to_be_hidden()
    await pass_time(stopped, 1)
    await click(stopped, card.locator('[data-test="approve"]'))
    await plan
    form = server.ask(ORIGIN, Question(message="Why?", fields=(Field(name="why", required=True),)))
    await expect(card).to_have_attribute("data-kind", "form")
    await card.get_by_role("textbox").fill("because")
    await pass_time(stopped, 499)
    for test in ("answer", "decline"):
        await click(stopped, card.locator(f'[data-test="{test}"]'))
    await card.get_by_role("textbox").press("Enter")
    await stopped.page.evaluate(FRAMES)
    assert not form.done()
    await pass_time(stopped, 1)
    await card.get_by_role("textbox").press("Enter")
    await form


async def test_buttons_that_do_not_count_yet_say_so(stopped: Window, server: Server) -> None:
    asked = server.ask(ORIGIN, EDIT)
    card = await in_inbox(stopped)
    buttons = card.locator(".item-always button, .item-actions button")
    await pass_time(stopped, 499)
    for button in await buttons.all():
        await expect(button).to_have_attribute("aria-disabled", "true")
    await pass_time(stopped, 1)
    for button in await buttons.all():
        assert await button.get_attribute("aria-disabled") is None
    await card.locator('[data-test="option-deny"]').click()
    await asked


async def test_a_click_without_a_pointer_counts_by_itself(stopped: Window, server: Server) -> None:
    """As screen readers do it."""
    asked = server.ask(ORIGIN, EDIT)
    card = await in_inbox(stopped)
    allow = card.locator('[data-test="option-allow"]')
    await pass_time(stopped, 499)
    await allow.evaluate("(button) => button.click()")
    await stopped.page.evaluate(FRAMES)
    assert not asked.done()
    await pass_time(stopped, 1)
    await allow.evaluate("(button) => button.click()")
    await asked
