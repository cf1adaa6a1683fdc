"""A conversation in the page: streaming, reloading, restarts, stopping, branches, what goes along, keys."""

import asyncio
import re
from collections.abc import Sequence

import pytest
from playwright.async_api import Locator, Route, expect

from tests.core.scripted import END
from tests.web.browser import IN_CHROMIUM, Server, Window, Windows, finished, held
from tieline.model.content import Image, Text
from tieline.model.events import Activity, Batch, Event, PartDelta, PartEnd, PartStart, Plan, PlanEntry, Started, Usage

pytestmark = IN_CHROMIUM

PASTE = """async () => {
  const canvas = Object.assign(document.createElement("canvas"), { width: 40, height: 30 });
  canvas.getContext("2d").fillRect(0, 0, 40, 30);
  const blob = await new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
  const clipboardData = new DataTransfer();
  clipboardData.items.add(new File([blob], "shot.png", { type: "image/png" }));
  const event = new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true });
  document.querySelector("#composer").dispatchEvent(event);
}"""


def spoken(text: str, *pauses: asyncio.Event) -> Sequence[Batch | asyncio.Event]:
    """A leg that says these words, in as many pieces as there are pauses between them and one more."""
    size = len(text) // (len(pauses) + 1) + 1
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    leg: list[Batch | asyncio.Event] = [[Started(id="leg", model="m"), PartStart(index=0, part=Text())]]
    for place, piece in enumerate(pieces):
        leg += [[PartDelta(index=0, text=piece)], *pauses[place : place + 1]]
    ending: list[Event] = [PartEnd(index=0, part=Text(text=text)), Usage(input=10, output=2), END]
    return [*leg, ending]


# ── As it comes ──────────────────────────────────────────────────────────────────────────────────


async def test_an_answer_comes_as_markdown_with_its_code_coloured(scripted: Window, server: Server) -> None:
    go = asyncio.Event()
    server.backend.legs.append(spoken("# A title\n\nSome *words*.\n\n```python\nreturn 1\n```\n\nThe end is near.", go))
    await scripted.say("Hi")
    await expect(scripted.answer.get_by_role("heading")).to_have_text("A title")
    await expect(scripted.answer).not_to_contain_text("near")
    go.set()
    await expect(scripted.answer).to_contain_text("The end is near.")
    await expect(scripted.answer.locator("em")).to_have_text("words")
    await expect(scripted.answer.locator("pre span[class]").first).to_have_text("return")


async def test_activities_and_plans_show_how_they_go(scripted: Window, server: Server) -> None:
    go = asyncio.Event()
    doing = Activity(id="a", kind="execute", title="Run the tests", status="in_progress")
    done = Activity(
        id="a", kind="execute", title="Run the tests", status="completed", output="\x1b[32m12 passed\x1b[0m"
    )
    first, then = PlanEntry(content="Look", status="completed"), PlanEntry(content="Change", status="in_progress")
    legs: list[Batch | asyncio.Event] = [[Started(id="leg", model="m"), doing, Plan(entries=(first, then))], go]
    server.backend.legs.append([*legs, [done], [END]])
    await scripted.say("Hi")
    card = scripted.answer.locator("tl-tool")
    await expect(card).to_have_attribute("data-status", "in_progress")
    await expect(scripted.answer.locator('[data-test="step"]')).to_have_count(2)
    go.set()
    await expect(card).to_have_attribute("data-status", "completed")
    await expect(card.locator(".output-text")).to_have_text("12 passed")


async def test_a_reload_in_mid_stream_loses_nothing_and_doubles_nothing(scripted: Window, server: Server) -> None:
    first, second = asyncio.Event(), asyncio.Event()
    text = "The first paragraph.\n\nThe second of them.\n\nThe third paragraph.\n\nThe fourth and last one."
    server.backend.legs.append(spoken(text, first, second))
    await scripted.say("Tell me")
    await expect(scripted.answer).to_contain_text("The first paragraph.")
    await scripted.page.reload()
    await expect(scripted.answer).to_contain_text("The first paragraph.")
    await expect(scripted.part("stop")).to_be_visible()
    first.set()
    await expect(scripted.answer).to_contain_text("The third")
    await scripted.page.reload()
    second.set()
    await expect(scripted.answer.locator("p")).to_have_text(text.split("\n\n"))
    await expect(scripted.part("send")).to_be_visible()
    await scripted.page.reload()
    await expect(scripted.answer.locator("p")).to_have_text(text.split("\n\n"))
    await expect(scripted.part("turn-user")).to_have_text(re.compile("Tell me"))
    await expect(scripted.part("session")).to_have_count(1)


async def test_two_tabs_show_the_same_answer_as_it_comes(windows: Windows, scripted: Window, server: Server) -> None:
    go = asyncio.Event()
    server.backend.legs.append(spoken("One and two.\n\nThree and four.", go))
    await scripted.say("Count")
    await expect(scripted.answer).to_contain_text("One")
    other = await windows.new(f"/{await scripted.page.evaluate('location.hash')}")
    await expect(other.answer).to_contain_text("One")
    go.set()
    for tab in (scripted, other):
        await expect(tab.answer.locator("p")).to_have_text(["One and two.", "Three and four."])


async def test_the_page_survives_a_restart_of_the_gateway_in_mid_answer(scripted: Window, server: Server) -> None:
    server.backend.legs.append(spoken("Begun but not ended.\n\nNever said.", asyncio.Event()))
    await scripted.say("Go")
    await expect(scripted.answer).to_contain_text("Begun but")
    await server.stop()
    await expect(scripted.part("link")).to_have_text("Reconnecting…")
    await server.start()
    await expect(scripted.part("link")).to_have_text("")
    await expect(scripted.part("send")).to_be_visible()
    await scripted.say("Again")
    await expect(scripted.answer).to_contain_text("answer 2")
    await expect(scripted.part("turn-user")).to_have_count(2)
    await expect(scripted.part("turn-assistant")).to_have_count(2)
    first = scripted.part("turn-assistant").first
    await expect(first.locator("[data-test=prose]")).to_have_text("Begun but not end")
    assert (await first.inner_text()).count("Begun") == 1
    await expect(first.locator("[data-test=ending]")).to_contain_text("The gateway was stopped")


# ── Keys and stopping ────────────────────────────────────────────────────────────────────────────


async def test_without_locks_a_tab_reads_the_stream_from_the_state_it_has_fetched(windows: Windows) -> None:
    await windows.context.add_init_script("Object.defineProperty(navigator, 'locks', { value: undefined })")
    window = await windows.new()
    await window.say("say hello")
    await expect(window.answer).to_contain_text("hello")
    assert [url for url in window.requested if url.endswith("/api/state")] == [f"{window.url}/api/state"]


async def test_a_page_whose_first_state_is_outdated_opens_with_the_next(windows: Windows, window: Window) -> None:
    page = await windows.context.new_page()
    windows.opened.append(fresh := Window(page, windows.url))
    fetches: asyncio.Queue[Route] = asyncio.Queue()
    await page.route("**/api/state", fetches.put)
    await page.goto(windows.url)
    first = await fetches.get()
    await window.page.evaluate("new BroadcastChannel('tieline-stream').postMessage({ type: 'reset' })")
    second = await fetches.get()
    async with page.expect_response("**/api/state") as outdated:
        await first.continue_()
    await (await outdated.value).finished()
    await second.continue_()
    await expect(page.locator("body")).not_to_contain_class("is-loading")
    await fresh.say("say hello")
    await expect(fresh.answer).to_contain_text("hello")


async def test_a_message_too_long_to_keep_as_a_draft_can_be_sent(scripted: Window, server: Server) -> None:
    await scripted.composer.evaluate(
        "(area) => { area.value = 'x'.repeat(6e6); area.dispatchEvent(new Event('input')) }"
    )
    await expect(scripted.part("send")).to_be_enabled()


async def test_enter_sends_and_shift_enter_begins_a_line(scripted: Window, server: Server) -> None:
    await scripted.composer.press_sequentially("one")
    await scripted.composer.press("Shift+Enter")
    await scripted.composer.press_sequentially("two")
    await scripted.composer.press("Enter")
    await expect(scripted.composer).to_have_value("")
    await expect(scripted.answer).to_contain_text("answer 1")
    assert server.backend.requests[0].messages[-1].parts == (Text(text="one\ntwo"),)


@pytest.mark.parametrize("way", ["Escape", "button"])
async def test_an_answer_can_be_stopped(scripted: Window, server: Server, way: str) -> None:
    server.backend.legs.append(spoken("Begun but not ended.", asyncio.Event()))
    await scripted.say("Go")
    await expect(scripted.answer).to_contain_text("Begun")
    if way == "Escape":
        await scripted.page.keyboard.press("Escape")
    else:
        await scripted.part("stop").click()
    await expect(scripted.part("ending")).to_have_text("Stopped.")
    await expect(scripted.part("send")).to_be_visible()
    await scripted.say("Again")
    await expect(scripted.answer).to_contain_text("answer 2")


async def test_a_model_is_chosen_with_the_keyboard(window: Window, server: Server) -> None:
    await window.page.keyboard.press("Control+k")
    await window.page.keyboard.type("test/n")
    await window.page.keyboard.press("Enter")
    await expect(window.composer).to_be_focused()
    await window.say("Hi")
    await expect(window.answer).to_contain_text("answer 1")
    assert server.backend.requests[0].model == "n"


# ── Branches ─────────────────────────────────────────────────────────────────────────────────────


async def test_an_answer_is_had_again_and_both_are_kept(scripted: Window) -> None:
    await scripted.say("Hi")
    await expect(scripted.answer).to_contain_text("answer 1")
    await scripted.answer.get_by_role("button", name="Regenerate answer").click()
    await expect(scripted.answer).to_contain_text("answer 2")
    await expect(scripted.part("turn-assistant")).to_have_count(1)
    await expect(scripted.answer.locator(".branch-position")).to_have_text("2/2")
    await scripted.answer.get_by_role("button", name="Earlier version").click()
    await expect(scripted.answer).to_contain_text("answer 1")


async def test_a_message_is_edited_into_a_branch(scripted: Window, server: Server) -> None:
    await scripted.say("Hi")
    await expect(scripted.answer).to_contain_text("answer 1")
    question = scripted.part("turn-user")
    await question.get_by_role("button", name="Edit as a new branch").click()
    await expect(scripted.part("edit")).to_have_value("Hi")
    await scripted.part("edit").fill("Good morning")
    await scripted.part("edit-send").click()
    await expect(scripted.answer).to_contain_text("answer 2")
    await expect(question).to_contain_text("Good morning")
    assert server.backend.requests[1].messages[-1].parts == (Text(text="Good morning"),)
    await question.get_by_role("button", name="Earlier version").click()
    await expect(question.locator(".said")).to_have_text("Hi")
    await expect(scripted.answer).to_contain_text("answer 1")


async def test_an_edited_message_that_cannot_be_sent_is_kept(scripted: Window) -> None:
    await scripted.say("Hi")
    await expect(scripted.answer).to_contain_text("answer 1")
    await scripted.part("turn-user").get_by_role("button", name="Edit as a new branch").click()
    await scripted.part("edit").fill("Good morning")
    async with held(scripted, "POST", "**/edit") as fails:
        await scripted.part("edit-send").click()
        fails.set()
    await expect(scripted.part("notices")).not_to_be_empty()
    await expect(scripted.part("edit")).to_have_value("Good morning")
    await scripted.page.unroute("**/edit")
    await scripted.part("edit-send").click()
    await expect(scripted.answer).to_contain_text("answer 2")
    await expect(scripted.part("edit")).to_have_count(0)


# ── Other chats in the meantime ──────────────────────────────────────────────────────────────────


async def two_chats(window: Window) -> None:
    """Have two chats, One and Two, and show the second."""
    for title in ("One", "Two"):
        await window.part("new-chat").click()
        await window.say(title)
        await expect(window.answer).to_contain_text("answer")
        await expect(window.part("send")).to_be_visible()


def chat(window: Window, title: str) -> Locator:
    """The link to a chat in the list."""
    return window.part("session").get_by_role("link", name=title)


async def test_a_message_shows_only_in_the_chat_it_was_sent_to(scripted: Window) -> None:
    await two_chats(scripted)
    await chat(scripted, "One").click()
    await expect(scripted.part("turn-user")).to_have_text(re.compile("One"))
    async with finished(scripted, "/send"), held(scripted, "POST", "**/send"):
        await scripted.say("More")
        await chat(scripted, "Two").click()
        await expect(scripted.part("turn-user")).to_have_text(re.compile("Two"))
    await expect(scripted.part("session").first).to_contain_text("One")
    await expect(scripted.part("session").first).not_to_contain_text("running")
    await expect(scripted.part("turn-user")).to_have_text([re.compile("Two")])
    await chat(scripted, "One").click()
    await expect(scripted.part("turn-user")).to_have_text([re.compile("One"), re.compile("More")])


async def test_the_first_message_of_a_new_chat_goes_to_no_other_chat(scripted: Window, server: Server) -> None:
    await two_chats(scripted)
    await scripted.part("new-chat").click()
    async with held(scripted, "GET", "**/api/sessions/*"):
        await scripted.say("Third")
        await expect(scripted.part("session")).to_have_count(3)
        await chat(scripted, "One").click()
    await expect(chat(scripted, "Third")).to_be_visible()
    assert len(server.backend.requests[-1].messages) == 1
    await expect(scripted.part("turn-user")).to_have_count(1)
    await expect(scripted.part("turn-user")).to_have_text(re.compile("One"))


async def test_a_message_that_fails_is_put_back_where_it_was_written(scripted: Window) -> None:
    await two_chats(scripted)
    async with held(scripted, "POST", "**/send") as fails:
        fails.set()
        await scripted.page.evaluate(PASTE)
        await expect(scripted.part("attached-image")).to_have_count(1)
        await scripted.say("Lost?")
        await scripted.page.evaluate(PASTE)
        await expect(scripted.part("attached-image")).to_have_count(1)
        await chat(scripted, "One").click()
    await expect(scripted.part("notices")).to_contain_text("Cannot reach the gateway")
    await expect(scripted.composer).to_have_value("")
    await expect(scripted.part("attached-image")).to_have_count(0)
    await chat(scripted, "Two").click()
    await expect(scripted.composer).to_have_value("Lost?")
    await expect(scripted.part("attached-image")).to_have_count(2)


async def test_what_is_typed_while_a_chat_begins_stays(scripted: Window) -> None:
    async with held(scripted, "POST", "**/api/sessions"):
        await scripted.say("Hi")
        await scripted.composer.press_sequentially("and then")
    await expect(scripted.answer).to_contain_text("answer 1")
    await expect(scripted.composer).to_have_value("and then")
    await scripted.part("new-chat").click()
    await expect(scripted.composer).to_have_value("")


async def test_another_branch_that_comes_late_is_no_error_in_a_new_chat(scripted: Window) -> None:
    await two_chats(scripted)
    async with finished(scripted, "/retry"), held(scripted, "POST", "**/retry"):
        await scripted.answer.get_by_role("button", name="Regenerate answer").click()
        await scripted.part("new-chat").click()
    await expect(scripted.part("session").filter(has_text="running")).to_have_count(0)
    await expect(scripted.part("notices")).to_have_text("")
    assert not [url for url in scripted.requested if "/null" in url]


async def test_the_skip_link_leads_to_the_message_box_of_the_chat(scripted: Window) -> None:
    await two_chats(scripted)
    await scripted.page.get_by_role("link", name="Skip to the message box").focus()
    await scripted.page.keyboard.press("Enter")
    await expect(scripted.composer).to_be_focused()
    await expect(scripted.part("session-name")).to_have_text("Two")


# ── What goes along, what is taken away ──────────────────────────────────────────────────────────


async def test_a_pasted_picture_goes_along(scripted: Window, server: Server) -> None:
    await scripted.page.evaluate(PASTE)
    await expect(scripted.part("attached-image")).to_be_visible()
    await scripted.say("What is this?")
    await expect(scripted.part("turn-user").locator("img")).to_be_visible()
    await expect(scripted.part("attached-image")).to_have_count(0)
    await expect(scripted.answer).to_contain_text("answer 1")
    parts = server.backend.requests[0].messages[-1].parts
    assert [part.media_type for part in parts if isinstance(part, Image)] == ["image/png"]


async def test_when_an_attachment_is_removed_the_focus_stays_near(scripted: Window) -> None:
    await scripted.page.evaluate(PASTE)
    await scripted.page.evaluate(PASTE)
    remove = scripted.page.get_by_role("button", name="Remove shot.png")
    await expect(remove).to_have_count(2)
    await remove.first.press("Enter")
    await expect(remove).to_be_focused()
    await remove.press("Enter")
    await expect(scripted.composer).to_be_focused()


async def test_a_message_waits_for_a_picture_that_is_still_read(scripted: Window, server: Server) -> None:
    await scripted.page.evaluate("""() => {
      const read = createImageBitmap;
      const wait = new Promise((resolve) => (window.go = resolve));
      window.createImageBitmap = (file) => wait.then(() => read(file));
    }""")
    await scripted.page.evaluate(PASTE)
    await scripted.say("What is this?")
    await expect(scripted.part("notices")).to_contain_text("still being prepared")
    await scripted.page.evaluate("go()")
    await expect(scripted.part("attached-image")).to_be_visible()
    await scripted.composer.press("Enter")
    await expect(scripted.answer).to_contain_text("answer 1")
    assert len(server.backend.requests[0].messages[-1].parts) == 2


async def test_a_link_can_be_dropped_as_text(scripted: Window) -> None:
    drop = """() => {
      const dataTransfer = new DataTransfer();
      dataTransfer.setData("text/uri-list", "https://example.com/");
      const event = new DragEvent("drop", { dataTransfer, bubbles: true, cancelable: true });
      return document.querySelector("#composer").dispatchEvent(event);
    }"""
    assert await scripted.page.evaluate(drop), "the browser does not insert it"


async def test_a_file_of_the_workspace_goes_along(scripted: Window, server: Server) -> None:
    (server.root / "notes.md").write_text("Remember the milk.")
    await scripted.composer.press_sequentially("Read @")
    await scripted.page.get_by_role("option", name="notes.md").click()
    await expect(scripted.part("attached-file")).to_contain_text("notes.md")
    await expect(scripted.composer).to_have_value("Read ")
    await scripted.composer.press("Enter")
    await expect(scripted.answer).to_contain_text("answer 1")
    parts = server.backend.requests[0].messages[-1].parts
    assert any("Remember the milk." in part.text for part in parts if isinstance(part, Text))


async def test_a_copy_without_the_clipboards_interface_leaves_the_focus(windows: Windows, scripted: Window) -> None:
    await windows.context.add_init_script("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    await scripted.page.reload()
    await scripted.say("Hi")
    copy = scripted.answer.get_by_role("button", name="Copy message")
    await copy.press("Enter")
    await expect(copy).to_have_attribute("data-copied", "yes")
    await expect(copy).to_be_focused()


async def test_a_web_page_of_a_proxy_is_not_shown_as_an_error(scripted: Window) -> None:
    page = "<html><body>Bad Gateway</body></html>"
    await scripted.page.route("**/send", lambda route: route.fulfill(status=502, content_type="text/html", body=page))
    await scripted.say("Hi")
    await expect(scripted.part("notices")).to_have_text("The gateway answered 502.")
    await expect(scripted.composer).to_have_value("Hi")


async def test_code_is_copied_as_it_was_written(windows: Windows, scripted: Window, server: Server) -> None:
    await windows.context.grant_permissions(["clipboard-read", "clipboard-write"])
    server.backend.legs.append(spoken('```python\nif a < b:\n    say("&amp;")\n```\n'))
    await scripted.say("Hi")
    await scripted.answer.get_by_role("button", name="Copy code").click()
    await expect(scripted.answer.get_by_text("Copied")).to_be_visible()
    assert await scripted.page.evaluate("navigator.clipboard.readText()") == 'if a < b:\n    say("&amp;")\n'
