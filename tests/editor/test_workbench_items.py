"""Permissions, plans and questions of all clients of a folder, answered in the editor."""

import asyncio
import re
from pathlib import Path

import pytest
from playwright.async_api import expect

from tests.e2e.acp_support import MODEL as AGENT
from tests.editor.editor_window import EditorWindow
from tests.editor.stand import EditorGateway
from tests.web.browser import IN_CHROMIUM
from tests.web.frames import Frame
from tieline.model.events import PlanEntry
from tieline.model.inbox import Approval, Field, Option, Origin, PlanReview, Question

pytestmark = IN_CHROMIUM

RUN = Approval(title="Run tests", kind="execute", command="make test")
PLAN = PlanReview(
    title="Tidy up",
    plan="# Tidy up\n\nIn two steps.",
    steps=(PlanEntry(content="Find the mess"), PlanEntry(content="Clean it")),
)


# ── Permissions ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("button", "option"), [("Allow", "allow"), ("Always Allow", "always"), ("Deny", "deny")])
async def test_a_permission_is_answered_in_a_dialog_that_opens_after_a_click(
    window: EditorWindow, gateway: EditorGateway, folder: Path, button: str, option: str
) -> None:
    answer = await gateway.ask_in(folder, RUN)
    toast = window.notification("Run tests")
    await expect(toast).to_be_visible()
    await expect(window.dialog).to_have_count(0)
    await expect(window.status).to_have_attribute("aria-label", re.compile("1 item waiting"))
    await window.press("Review", toast)
    await expect(window.dialog).to_contain_text("make test")
    await expect(window.dialog.get_by_role("button", name="Deny", exact=True)).to_be_focused()
    await window.press(button)
    assert (await answer).option == option
    await expect(window.dialog).to_have_count(0)


async def test_what_is_always_allowed_is_not_asked_again(
    window: EditorWindow, gateway: EditorGateway, folder: Path
) -> None:
    prompt = asyncio.create_task(gateway.prompt(folder, "run: echo once"))
    await window.press("Review", window.notification("echo once"))
    await expect(window.dialog).to_contain_text("“Always Allow” means")
    await window.press("Always Allow")
    assert "once" in await prompt
    assert "once" in await gateway.prompt(folder, "run: echo once")


async def test_closing_the_dialog_decides_nothing(window: EditorWindow, gateway: EditorGateway, folder: Path) -> None:
    answer = await gateway.ask_in(folder, RUN)
    await window.press("Review", window.notification("Run tests"))
    await expect(window.dialog).to_be_visible()
    await window.page.keyboard.press("Escape")
    await expect(window.dialog).to_have_count(0)
    await expect(window.status).to_have_attribute("aria-label", re.compile("1 item waiting"))
    assert not answer.done()
    await window.run("Tieline: Show Waiting Items")
    await window.press("Deny")
    assert (await answer).option == "deny"


async def test_enter_denies(window: EditorWindow, gateway: EditorGateway, folder: Path) -> None:
    answer = await gateway.ask_in(folder, RUN)
    await window.press("Review", window.notification("Run tests"))
    await expect(window.dialog.get_by_role("button", name="Deny", exact=True)).to_be_focused()
    await window.page.keyboard.press("Enter")
    assert (await answer).option == "deny"


async def test_a_change_is_shown_in_the_diff_editor_and_made_after_it_is_allowed(
    window: EditorWindow, gateway: EditorGateway, folder: Path
) -> None:
    (folder / "old.txt").write_text("before\n")
    prompt = asyncio.create_task(gateway.prompt(folder, "write `after` to old.txt"))
    await window.press("Review", window.notification("old.txt"))
    await expect(window.tab("old.txt")).to_be_visible()
    await expect(window.diff).to_contain_text("before")
    await expect(window.diff).to_contain_text("after")
    await window.press("Allow")
    assert "old.txt" in await prompt
    assert (folder / "old.txt").read_text() == "after"


async def test_an_agent_waits_for_the_editor(window: EditorWindow, gateway: EditorGateway, folder: Path) -> None:
    prompt = asyncio.create_task(gateway.prompt(folder, "permit make all", AGENT))
    await window.press("Review", window.notification("make all"))
    await expect(window.dialog).to_contain_text("make all")
    await window.press("Allow")
    assert "chosen yes" in await prompt


# ── Plans ────────────────────────────────────────────────────────────────────────────────────────


async def test_a_plan_is_rejected_with_feedback_and_then_approved(
    window: EditorWindow, gateway: EditorGateway, folder: Path
) -> None:
    answer = await gateway.ask_in(folder, PLAN)
    await window.press("Review", window.notification("Tidy up"))
    await expect(window.tab("Tidy up")).to_be_visible()
    await expect(window.editor).to_contain_text("Find the mess")
    await window.press_lens("Reject with Feedback…")
    await window.type("Keep the tests")
    rejected = await answer
    assert (rejected.approved, rejected.feedback) == (False, "Keep the tests")
    await expect(window.editor).to_contain_text("Keep the tests")
    answer = await gateway.ask_in(folder, PLAN)
    await window.press("Review", window.notification("Tidy up"))
    await window.press_lens("Approve")
    assert (await answer).approved


async def test_the_steps_of_an_approved_plan_tick_in_the_document(window: EditorWindow, chatting: Frame) -> None:
    await chatting.say("make a plan: tidy up this project")
    await window.press("Review", window.notification("Plan"))
    await window.press_lens("Approve")
    await expect(chatting.part("send")).to_be_visible()
    await expect(window.page.locator('[id="tieline.tieline.tieline.plan"]')).to_be_visible()


# ── Questions ────────────────────────────────────────────────────────────────────────────────────

COLOURS = (Option(id="r", label="Red"), Option(id="g", label="Green"), Option(id="b", label="Blue"))


async def test_a_form_is_filled_in_with_the_editors_own_inputs(
    window: EditorWindow, gateway: EditorGateway, folder: Path
) -> None:
    form = Question(
        message="Some questions",
        fields=(
            Field(name="sure", kind="yes_no", title="Sure?", required=True),
            Field(name="one", kind="choice", title="Which colour?", options=COLOURS, required=True),
            Field(name="many", kind="choice", title="Which ones?", options=COLOURS, many=True, required=True),
            Field(name="name", kind="text", title="Which name?", minimum=3, required=True),
        ),
    )
    answer = await gateway.ask_in(folder, form)
    await window.press("Answer", window.notification("Some questions"))
    await window.choose("Yes")
    await expect(window.input).to_contain_text("Which colour?")
    await window.choose("Green")
    await expect(window.input).to_contain_text("Which ones?")
    await window.choose("Red")
    await window.choose("Blue")
    await window.page.keyboard.press("Enter")
    await expect(window.input).to_contain_text("Which name?")
    await window.type("ab")
    await expect(window.input).to_contain_text("3")
    await window.type("abc")
    given = await answer
    assert given.values == {"sure": True, "one": "g", "many": ["r", "b"], "name": "abc"}


async def test_a_file_is_chosen_in_the_open_dialog(window: EditorWindow, gateway: EditorGateway, folder: Path) -> None:
    which = Question(message="Which file?", fields=(Field(name="file", kind="file", required=True),))
    answer = await gateway.ask_in(folder, which)
    await window.press("Answer", window.notification("Which file?"))
    await window.choose("greet.py")
    assert (await answer).values == {"file": "greet.py"}


async def test_a_question_of_the_demo_model_is_answered_in_the_editor(window: EditorWindow, chatting: Frame) -> None:
    await chatting.say("ask me: which tea? Assam, Sencha or Oolong")
    await window.press("Answer", window.notification("which tea?"))
    await window.choose("Sencha")
    await expect(chatting.answer).to_contain_text("Sencha")
    await expect(chatting.part("send")).to_be_visible()


# ── Elsewhere ────────────────────────────────────────────────────────────────────────────────────


async def test_what_is_answered_elsewhere_disappears_here_and_vice_versa(
    window: EditorWindow, chatting: Frame, gateway: EditorGateway
) -> None:
    await chatting.say("write `x` to elsewhere.txt")
    await expect(window.status).to_have_attribute("aria-label", re.compile("1 item waiting"))
    await chatting.press(chatting.ask.get_by_role("button", name="Deny"))
    await expect(window.status).to_have_attribute("aria-label", re.compile("Connected"))
    await expect(chatting.part("send")).to_be_visible()
    await chatting.say("write `y` to elsewhere.txt")
    await expect(chatting.ask).to_be_visible()
    await window.run("Tieline: Show Waiting Items")
    await window.press("Deny")
    await expect(chatting.ask).to_have_count(0)
    await expect(chatting.part("send")).to_be_visible()


async def test_an_answer_to_an_item_that_expired_meanwhile_is_not_sent(
    window: EditorWindow, gateway: EditorGateway, folder: Path
) -> None:
    answer = await gateway.ask_in(folder, RUN)
    await window.press("Review", window.notification("Run tests"))
    await expect(window.dialog).to_be_visible()
    answer.cancel()
    await window.press("Allow")
    await expect(window.notification("already answered")).to_be_visible()


async def test_do_not_disturb_only_counts(window: EditorWindow, gateway: EditorGateway, folder: Path) -> None:
    await window.run("Tieline: Toggle Do Not Disturb")
    await expect(window.status).to_have_attribute("aria-label", re.compile("do not disturb"))
    answer = await gateway.ask_in(folder, RUN)
    await expect(window.status).to_have_attribute("aria-label", re.compile("1 item waiting.*do not disturb"))
    await expect(window.notification("Run tests")).to_have_count(0)
    await window.run("Tieline: Toggle Do Not Disturb")
    await window.press("Review", window.notification("Run tests"))
    await window.press("Deny")
    assert (await answer).option == "deny"


async def test_full_autonomy_is_shown_in_red_and_asks_nothing(
    window: EditorWindow, gateway: EditorGateway, folder: Path
) -> None:
    await expect(window.autonomy).to_contain_text("Asks First")
    await window.autonomy.click()
    await window.choose("Allow Everything")
    await expect(window.dialog.get_by_role("button", name="Keep Asking")).to_be_focused()
    await window.press("Allow Everything")
    await expect(window.autonomy).to_contain_text("Everything Allowed")
    await expect(window.autonomy).to_contain_class("error-kind")
    assert "free" in await gateway.prompt(folder, "run: echo free")
    await window.autonomy.click()
    await window.choose("Ask First")
    await expect(window.autonomy).to_contain_text("Asks First")


# ── Faults ───────────────────────────────────────────────────────────────────────────────────────


async def test_many_items_are_counted_and_shown_one_at_a_time(
    window: EditorWindow, gateway: EditorGateway, folder: Path
) -> None:
    """The gateway holds at most 256 items: it rejects the others of a thousand at once."""
    origin = Origin(client="Claude Code", workspace=await gateway.workspace(folder))
    answers = [gateway.ask(origin, Approval(title=f"Step {number}", command="true")) for number in range(1000)]
    await expect(window.status).to_have_attribute("aria-label", re.compile("256 items waiting"))
    await expect(window.notifications).to_have_count(1)
    await window.press("Review", window.notification("Step"))
    await window.press("Deny")
    await expect(window.status).to_have_attribute("aria-label", re.compile("255 items waiting"))
    for answer in answers:
        answer.cancel()
    await expect(window.status).to_have_attribute("aria-label", re.compile("Connected"))


async def test_hostile_text_is_shown_as_text(window: EditorWindow, gateway: EditorGateway, folder: Path) -> None:
    link = "[click](command:workbench.action.closeWindow) $(error) <img src=x onerror=alert(1)>"
    item = Approval(title=f"\x1b[31mred\x1b[0m \u202egnp.exe {link}", kind="execute", command="x" * 100_000)
    answer = await gateway.ask_in(folder, item, client="evil\u202e")
    toast = window.notification("u202e")
    await expect(toast).to_contain_text("\\u001b[31mred")
    await expect(toast.get_by_role("link")).to_have_count(0)
    await window.press("Review", toast)
    await expect(window.dialog).to_contain_text("100,000 characters")
    await expect(window.dialog.get_by_role("link")).to_have_count(0)
    await expect(window.dialog.locator("img")).to_have_count(0)
    await window.press("Cancel")
    await expect(window.tab("Command")).to_be_visible()
    await window.press_lens("Decide…")
    await window.press("Deny")
    assert (await answer).option == "deny"
