"""What a Cursor model asks of the person, answered in the page: plans, questions, another mode."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio
from playwright.async_api import Browser, expect

from tests.web.browser import IN_CHROMIUM, Server, Window, profile
from tieline.app.config import CursorSettings
from tieline.sim.cursor import CursorSim

pytestmark = IN_CHROMIUM

CHOICE = """localStorage.setItem("tieline-choice", '{"model": "cursor/demo"}')"""


@pytest_asyncio.fixture(loop_scope="session")
async def cursor(browser: Browser, tmp_path: Path) -> AsyncIterator[Window]:
    """A tab whose conversations are with the demo model behind the simulated service."""
    async with CursorSim() as sim:
        settings = CursorSettings(enabled=True, api_url=sim.url, transport="http1", ghost_mode=True)
        server = Server(tmp_path, env={"CURSOR_API_KEY": "any"}, cursor=settings)
        await server.start()
        async with profile(browser, server.url, viewport={"width": 1200, "height": 800}) as windows:
            await windows.context.add_init_script(CHOICE)
            yield await windows.new()
        await server.stop()


async def test_a_plan_of_cursors_is_rejected_with_feedback_and_then_approved(cursor: Window) -> None:
    await cursor.say("make a plan for a garden")
    await expect(cursor.ask.get_by_role("heading")).to_have_text("A plan for a garden")
    await expect(cursor.ask.locator("strong")).to_contain_text(["three"])
    await expect(cursor.ask.locator('[data-test="step"]')).to_have_count(3)
    await cursor.press(cursor.ask.locator('[data-test="reject"]'))
    await cursor.ask.locator('[data-test="feedback"]').fill("No trees, please.")
    await cursor.press(cursor.ask.locator('[data-test="reject-send"]'))
    await expect(cursor.ask.get_by_role("heading")).to_have_text("A better plan for a garden")
    await expect(cursor.answer).to_contain_text("The user did not approve the plan.")
    await expect(cursor.answer.locator('[data-test="decision"]')).to_have_text("Rejected: No trees, please.")
    await cursor.press(cursor.ask.locator('[data-test="approve"]'))
    await expect(cursor.answer).to_contain_text("The plan is approved.")
    await expect(cursor.answer).to_contain_text("How to make a garden, in three steps:")
    await expect(cursor.ask).to_have_count(0)


async def test_questions_of_cursors_are_answered_by_options_and_in_other_words(cursor: Window) -> None:
    await cursor.say("ask me about the garden")
    await expect(cursor.ask).to_contain_text("Two questions about the garden")
    await cursor.ask.get_by_label("Blue").check()
    parts = cursor.ask.locator('[data-test="field-parts"]')
    await parts.get_by_label("Trees").check()
    await parts.get_by_role("textbox").fill("a swing")
    await cursor.press(cursor.ask.locator('[data-test="answer"]'))
    await expect(cursor.answer).to_contain_text('You answered colour: blue; parts: trees, "a swing".')
    await expect(cursor.ask).to_have_count(0)


async def test_another_mode_of_cursors_is_allowed_or_not(cursor: Window) -> None:
    await cursor.say("switch to plan mode")
    await expect(cursor.ask).to_contain_text("Switch to plan mode")
    await cursor.choose("deny")
    await expect(cursor.answer).to_contain_text("The user wants to stay in this mode.")
    await cursor.say("switch to plan mode")
    await cursor.choose("allow")
    await expect(cursor.answer).to_contain_text("The mode is now plan.")


async def test_a_question_of_cursors_goes_when_the_answer_is_stopped(cursor: Window) -> None:
    await cursor.say("ask me about the garden")
    await expect(cursor.ask).to_be_visible()
    await cursor.part("stop").click()
    await expect(cursor.ask).to_have_count(0)
    await expect(cursor.part("inbox-button")).to_have_accessible_name("Inbox: nothing waiting")
