"""The page for those who do not look at it all the time, or not at all: names, announcements, counts, notifications."""

from typing import Any

import pytest
from playwright.async_api import expect

from tests.e2e.tools_support import TELL, call, script
from tests.web.browser import IN_CHROMIUM, Server, Window, Windows
from tests.web.screenshots import fix

pytestmark = IN_CHROMIUM

ECHO = script(call("run_terminal", command="echo from the terminal"), TELL)
NAMED = frozenset(
    (
        *("button", "link", "textbox", "searchbox", "combobox", "checkbox", "radio", "spinbutton", "tab", "option"),
        *(
            "img",
            "image",
            "dialog",
            "region",
            "navigation",
            "complementary",
            "tabpanel",
            "progressbar",
            "feed",
            "article",
        ),
    )
)
"""Roles that say nothing without a name."""
ICON = """() => new Promise((resolve) => {
  const image = new Image();
  image.onload = () => {
    const pen = Object.assign(document.createElement("canvas"), { width: 64, height: 64 }).getContext("2d");
    pen.drawImage(image, 0, 0, 64, 64);
    resolve([...pen.getImageData(28, 44, 1, 1).data]);
  };
  image.src = document.querySelector("link[rel=icon]").href;
})"""
"""The colour of the icon of the tab where a count would be."""
NOTICES = """
  window.told = [];
  window.Notification = class {
    static permission = "granted";
    constructor(title, options) { window.told.push([title, options.body, options.tag]); }
    close() {}
  };
  document.hasFocus = () => false;
"""
NO_NOTICES = """
  window.Notification = class {
    static permission = "granted";
    constructor() { throw new TypeError("Illegal constructor"); }
  };
  document.hasFocus = () => false;
"""
"""Chrome on Android: a page may ask for the permission, but only a service worker can show a notification."""


async def nameless(window: Window) -> list[str]:
    """What a screen reader would come to and not know what to call."""
    session = await window.page.context.new_cdp_session(window.page)
    nodes: list[dict[str, Any]] = (await session.send("Accessibility.getFullAXTree"))["nodes"]
    await session.detach()
    return [
        f"{role} {node.get('properties')}"
        for node in nodes
        if not node["ignored"]
        and (role := node.get("role", {}).get("value")) in NAMED
        and not node.get("name", {}).get("value", "").strip()
    ]


# ── Names ────────────────────────────────────────────────────────────────────────────────────────


async def test_everything_in_a_chat_has_a_name(scripted: Window, server: Server) -> None:
    assert await nameless(scripted) == []
    server.backend.legs.append(fix())
    await scripted.say("Find out why the test fails")
    await expect(scripted.answer).to_contain_text("none skipped")
    await scripted.page.keyboard.press("Control+k")
    await expect(scripted.page.get_by_role("option").first).to_be_visible()
    assert await nameless(scripted) == []
    await scripted.page.keyboard.press("Escape")
    await scripted.page.locator("body").press("?")
    await expect(scripted.page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()
    assert await nameless(scripted) == []


ASKED = [
    call("run_terminal", command="echo hello"),
    call("write_file", path="a.txt", content="hello\n"),
    call("create_plan", title="A plan", plan="Do *it*.", todos=[{"id": "1", "content": "One"}]),
    call("ask_question", question="Sure?", kind="yes_no"),
    call("ask_question", question="Which?", kind="choice", options=[{"label": "red"}, {"label": "blue"}]),
    call("ask_question", question="How many?", kind="number"),
    call("ask_question", question="Which file?", kind="file"),
    call("ask_question", question="Why?"),
]


@pytest.mark.parametrize("asked", ASKED, ids=lambda asked: asked[:60])
async def test_everything_that_is_asked_has_a_name(window: Window, asked: str) -> None:
    await window.say(script(asked, TELL))
    await expect(window.ask).to_be_visible()
    await window.part("inbox-button").click()
    assert await nameless(window) == []


@pytest.mark.parametrize("path", ["/traffic", "/connect"])
async def test_everything_on_the_other_pages_has_a_name(window: Window, path: str) -> None:
    await window.say("say hello")
    await expect(window.answer).to_contain_text("hello")
    await window.open(path)
    if path == "/traffic":
        await window.part("leg").first.click()
        await expect(window.part("leg-detail")).to_contain_text("What the client received")
    assert await nameless(window) == []


async def test_a_permission_says_its_keys_and_what_it_is_about(window: Window) -> None:
    await window.say(ECHO)
    await expect(window.ask).to_have_role("group")
    await expect(window.ask).to_have_accessible_name("Permission: Run echo from the terminal")
    for option, key in (("allow", "y"), ("always", "a"), ("deny", "n")):
        button = window.ask.locator(f'[data-test="option-{option}"]')
        await expect(button).to_have_attribute("aria-keyshortcuts", key)


async def test_what_waits_and_what_is_done_is_said(window: Window) -> None:
    spoken = window.page.locator("body > [role=status].hidden")
    await window.say(ECHO)
    await expect(spoken).to_have_text("Waiting for you: Run echo from the terminal")
    await window.choose("allow")
    await expect(spoken).to_have_text("Answer complete.")


# ── Counts and notifications ─────────────────────────────────────────────────────────────────────


async def test_the_icon_of_the_tab_shows_how_much_waits(window: Window) -> None:
    red = (200, 69, 47, 255)
    assert tuple(await window.page.evaluate(ICON)) != red
    await window.say(ECHO)
    await expect(window.ask).to_be_visible()
    assert tuple(await window.page.evaluate(ICON)) == red
    assert (await window.page.title()).startswith("(1) ")
    await window.choose("deny")
    await expect(window.ask).to_have_count(0)
    assert tuple(await window.page.evaluate(ICON)) != red
    assert not (await window.page.title()).startswith("(")


async def test_who_looks_elsewhere_is_notified_once(windows: Windows) -> None:
    await windows.context.add_init_script(NOTICES)
    first, second = await windows.new(), await windows.new("/traffic")
    await first.say(ECHO)
    for window in (first, second):
        await expect(window.part("inbox-button")).to_have_accessible_name("Inbox: 1 waiting")
    told = [await window.page.evaluate("window.told") for window in (first, second)]
    assert [len(one) for one in told] == [1, 1]
    [title, body, tag], [_, _, other] = told[0][0], told[1][0]
    assert title == "Run echo from the terminal"
    assert "demo/scripted" in body
    assert tag == other  # the browser shows one for both


async def test_a_browser_without_notifications_of_pages_still_shows_what_waits(windows: Windows) -> None:
    await windows.context.add_init_script(NO_NOTICES)
    window = await windows.new()
    await window.say(ECHO)
    await expect(window.ask).to_be_visible()
    await expect(window.part("inbox-button")).to_have_accessible_name("Inbox: 1 waiting")
