"""What waits for a person, answered in the page: permissions, plans, questions, those of other clients too."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any

import openai
from playwright.async_api import Locator, expect

from tests.e2e.tools_support import TELL, call, script
from tests.web.browser import DEMO, IN_CHROMIUM, Server, Window, Windows, centre
from tieline.model.inbox import Field, Origin, Question, QuestionAnswer

pytestmark = IN_CHROMIUM

WRITE = script(call("write_file", path="a.txt", content="hello\n"), TELL)
PATIENCE = 60.0
ECHO = call("run_terminal", command="echo from the terminal")


# ── Permissions ──────────────────────────────────────────────────────────────────────────────────


async def test_a_tool_runs_once_it_is_allowed(window: Window, server: Server) -> None:
    await window.say(WRITE)
    await expect(window.ask).to_contain_text("a.txt")
    await expect(window.ask).to_contain_text("hello")
    assert not (server.root / "a.txt").exists()
    await window.choose("allow")
    await expect(window.answer.locator("tl-tool")).to_have_attribute("data-status", "completed")
    await expect(window.answer).to_contain_text("It said: Created a.txt")
    await expect(window.ask).to_have_count(0)
    assert (server.root / "a.txt").read_text() == "hello\n"


async def test_what_is_denied_is_not_done_and_the_model_hears_of_it(window: Window, server: Server) -> None:
    await window.say(WRITE)
    await window.choose("deny")
    await expect(window.answer.locator("tl-tool")).to_have_attribute("data-status", "failed")
    await expect(window.answer).to_contain_text("did not allow this")
    assert not (server.root / "a.txt").exists()


async def test_always_asks_once_and_can_be_taken_back(window: Window) -> None:
    await window.say(script(ECHO, ECHO, TELL))
    await expect(window.ask.locator('[data-test="command"]')).to_have_text("echo from the terminal")
    await window.choose("always")
    await expect(window.answer).to_contain_text("It said:")
    await expect(window.answer.locator("tl-tool")).to_have_count(2)
    await window.open("/connect")
    await expect(window.part("revoke")).to_have_accessible_name(re.compile("Revoke: .*echo"))
    await window.part("revoke").click()
    await expect(window.part("rule")).to_have_count(0)
    await window.open()
    await window.say(script(ECHO, TELL))
    await expect(window.ask).to_be_visible()


async def test_a_focused_permission_is_answered_with_one_key(window: Window) -> None:
    await window.say(script(ECHO, ECHO, ECHO, ECHO, TELL))
    await expect(window.ask).to_be_visible()
    await window.page.keyboard.press("Alt+i")
    for place, (key, status) in enumerate((("n", "failed"), ("y", "completed"), ("a", "completed"))):
        await expect(window.answer.locator("tl-tool")).to_have_count(place + 1)
        await expect(window.ask.locator('[data-test="option-allow"]')).to_be_enabled()
        await window.ask.focus()
        await window.page.keyboard.press(key)
        await expect(window.answer.locator("tl-tool").nth(place)).to_have_attribute("data-status", status)
    await expect(window.answer.locator("tl-tool")).to_have_count(4)
    await expect(window.ask).to_have_count(0)


async def test_a_key_typed_into_the_composer_answers_nothing(window: Window) -> None:
    await window.say(script(ECHO, TELL))
    await expect(window.ask).to_be_visible()
    await window.composer.press_sequentially("any")
    await expect(window.composer).to_have_value("any")
    await expect(window.ask).to_be_visible()


async def test_what_waits_is_counted_and_what_is_decided_in_one_tab_is_gone_in_all(windows: Windows) -> None:
    first, second = await windows.new(), await windows.new("/traffic")
    await first.say(script(ECHO, TELL))
    for window in (first, second):
        await expect(window.part("inbox-button")).to_have_accessible_name("Inbox: 1 waiting")
        assert (await window.page.title()).startswith("(1) ")
    await second.part("inbox-button").click()
    await second.press(second.part("inbox-list").locator('[data-test="option-allow"]'))
    for window in (first, second):
        await expect(window.page.locator("tl-inbox-item")).to_have_count(0)
        await expect(window.part("inbox-button")).to_have_accessible_name("Inbox: nothing waiting")
    await expect(first.answer).to_contain_text("from the terminal")


# ── Plans ────────────────────────────────────────────────────────────────────────────────────────


async def test_a_plan_is_rejected_with_feedback_and_then_approved(window: Window, server: Server) -> None:
    steps = [{"id": "1", "content": "Write it"}, {"id": "2", "content": "Read it again"}]
    plan = {"title": "A greeting", "plan": "Say **hello** in a file.", "todos": steps}
    await window.part("mode-picker").get_by_role("button").click()
    await window.part("mode-picker").get_by_role("option", name="Plan").click()
    await window.say(
        script(
            call("create_plan", **plan),
            f"text: {{{{result}}}}\n{call('create_plan', **plan | {'title': 'A shorter greeting'})}",
            call("write_file", path="a.txt", content="hi\n"),
            TELL,
        )
    )
    await expect(window.ask.get_by_role("heading")).to_have_text("A greeting")
    await expect(window.ask.locator("strong")).to_contain_text(["hello"])
    await expect(window.ask.locator('[data-test="step"]')).to_have_count(2)
    await window.press(window.ask.locator('[data-test="reject"]'))
    await window.ask.locator('[data-test="feedback"]').fill("Make it shorter.")
    await window.press(window.ask.locator('[data-test="reject-send"]'))
    await expect(window.ask.get_by_role("heading")).to_have_text("A shorter greeting")
    await expect(window.answer).to_contain_text("Make it shorter.")
    await window.press(window.ask.locator('[data-test="approve"]'))
    await expect(window.ask).to_contain_text("a.txt")
    await window.choose("allow")
    await expect(window.answer).to_contain_text("It said: Created a.txt")
    assert (server.root / "a.txt").read_text() == "hi\n"


# ── Questions ────────────────────────────────────────────────────────────────────────────────────

COLOURS = {"kind": "choice", "options": [{"label": "red"}, {"label": "green"}, {"label": "blue"}]}
Fill = Callable[[Locator], Awaitable[None]]


async def _yes(form: Locator) -> None:
    await form.get_by_label("Yes").check(force=True)


async def _blue(form: Locator) -> None:
    await form.get_by_label("blue").check()


async def _red_and_blue(form: Locator) -> None:
    await form.get_by_label("red").check()
    await form.get_by_label("blue").check()


async def _words(form: Locator) -> None:
    await form.get_by_role("textbox").fill("in words")


async def _number(form: Locator) -> None:
    field = form.get_by_role("spinbutton")
    await field.fill("9")
    answer = form.locator('[data-test="answer"]')
    await expect(answer).to_be_enabled()
    await form.page.mouse.click(*await centre(answer))
    await expect(form.get_by_role("alert")).to_have_text("At most 5.")
    await field.fill("4")


async def _file(form: Locator) -> None:
    await form.get_by_role("combobox").fill("notes.md")


QUESTIONS: list[tuple[dict[str, Any], Fill, str]] = [
    ({"kind": "yes_no"}, _yes, "yes"),
    (COLOURS, _blue, "blue"),
    (COLOURS | {"multiple": True}, _red_and_blue, "red, blue"),
    ({"kind": "text"}, _words, "in words"),
    ({"kind": "number", "minimum": 1, "maximum": 5}, _number, "4"),
    ({"kind": "file"}, _file, "notes.md"),
]


async def test_every_kind_of_question_is_a_form_field(window: Window, server: Server) -> None:
    (server.root / "notes.md").touch()
    calls = [
        call("ask_question", question=f"Question {number}?", **question)
        for number, (question, _, _) in enumerate(QUESTIONS, 1)
    ]
    first, *others = calls
    await window.say(script(first, *(f"{TELL}\n{other}" for other in others), TELL))
    for number, (question, fill, said) in enumerate(QUESTIONS, 1):
        await expect(window.ask).to_contain_text(f"Question {number}?")
        await expect(window.ask.locator('[data-test="field-answer"]')).to_have_attribute("data-kind", question["kind"])
        await fill(window.ask)
        await window.press(window.ask.locator('[data-test="answer"]'))
        await expect(window.answer).to_contain_text(f"The user answered: {said}")
    await expect(window.ask).to_have_count(0)


async def test_a_question_needs_an_answer_and_can_be_declined(window: Window) -> None:
    await window.say(script(call("ask_question", question="Why?"), TELL))
    await window.press(window.ask.locator('[data-test="answer"]'))
    await expect(window.ask.get_by_role("alert")).to_have_text("Please answer this question.")
    await window.press(window.ask.locator('[data-test="decline"]'))
    await expect(window.answer).to_contain_text("declined to answer")


async def test_a_time_has_a_time_zone(window: Window, server: Server) -> None:
    field = Field(name="when", required=True, format="date-time", default="2024-05-01T12:30:00+02:00")
    asked = server.ask(Origin(), Question(message="When?", fields=(field,)))
    await window.part("inbox-button").click()
    await window.press(window.part("inbox").locator('[data-test="answer"]'))
    await expect(window.part("inbox").locator("tl-inbox-item")).to_have_count(0)
    assert await asked == QuestionAnswer(values={"when": "2024-05-01T10:30:00.000Z"})


async def test_a_choice_without_options_can_be_declined(window: Window, server: Server) -> None:
    empty = Question(message="Which?", fields=(Field(name="one", kind="choice", required=True),))
    asked = server.ask(Origin(), empty)
    await window.part("inbox-button").click()
    card = window.part("inbox").locator("tl-inbox-item")
    await window.press(card.locator('[data-test="answer"]'))
    await expect(card.get_by_role("alert")).to_have_text("Please answer this question.")
    await window.press(card.locator('[data-test="decline"]'))
    answer = await asked
    assert isinstance(answer, QuestionAnswer)
    assert answer.action == "decline"


async def test_a_closed_inbox_gives_the_focus_back(window: Window) -> None:
    await window.page.keyboard.press("Alt+i")
    await expect(window.page.get_by_role("button", name="Close inbox")).to_be_visible()
    await window.page.get_by_role("button", name="Close inbox").press("Enter")
    await expect(window.part("inbox")).to_be_hidden()
    await expect(window.part("inbox-button")).to_be_focused()


# ── Other clients ────────────────────────────────────────────────────────────────────────────────


async def test_a_request_of_another_client_shows_in_traffic_and_its_permission_is_answered_here(
    windows: Windows, server: Server
) -> None:
    window = await windows.new("/traffic")
    async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="any", max_retries=0) as client:
        asking = asyncio.create_task(
            client.chat.completions.create(model=DEMO, messages=[{"role": "user", "content": WRITE}])
        )
        leg = window.part("leg")
        await expect(leg).to_have_attribute("data-status", "running")
        await expect(leg).to_contain_text("OpenAI")
        await expect(leg).to_contain_text("chat → demo")
        await window.part("inbox-button").click()
        card = window.part("inbox-list").locator("tl-inbox-item")
        await expect(card).to_contain_text("OpenAI")
        await window.press(card.locator('[data-test="option-allow"]'))
        async with asyncio.timeout(PATIENCE):
            reply = await asking
    assert "Created" in (reply.choices[0].message.content or "")
    assert (server.root / "a.txt").exists()
    await expect(leg).to_have_attribute("data-status", "ok")
    await leg.click()
    detail = window.part("leg-detail")
    for heading in ("What the client sent", "What demo answered", "What the client received"):
        await expect(detail).to_contain_text(heading)
    await expect(detail).to_contain_text("It said: Created")
    await window.part("filter").fill("nobody")
    await expect(leg).to_have_count(0)


async def test_nothing_counts_down_while_the_page_is_open(window: Window, server: Server) -> None:
    await window.say(script(ECHO, TELL))
    await expect(window.ask).to_be_visible()
    await expect(window.ask.locator(".item-left")).to_have_text("")
    assert server.app is not None
    [item] = server.app.gateway.inbox.items
    assert item.until is None
    later = item.since + 65
    await window.ask.evaluate("(card, until) => card.update({ ...card.item, until })", later)
    await expect(window.ask.locator(".item-left")).to_contain_text("Denied automatically in")
