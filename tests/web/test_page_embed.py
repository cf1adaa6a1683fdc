"""The page in a frame of an editor, in a real Chromium."""

from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import httpx2
import pytest
import pytest_asyncio
from playwright.async_api import Browser, BrowserContext, expect

from tests.web.browser import IN_CHROMIUM, Server, Windows
from tests.web.frames import HostedFrame, Site, embed, register, site
from tieline.model.inbox import Approval, Origin

pytestmark = IN_CHROMIUM

KEY = "the-key-of-this-gateway"
GREET = 'def greet(name):\n    return "Hello " + name\n'
WRITE = "write `def greet(): pass` to greet.py"
DARK = {"background": "rgb(1, 2, 3)", "foreground": "#fefefe", "accent": "hsl(200 80% 40%)"}


@pytest.fixture
def settings() -> Mapping[str, Any]:
    """The width of a narrow side bar."""
    return {"viewport": {"width": 280, "height": 760}}


@pytest_asyncio.fixture(loop_scope="session")
async def around() -> AsyncIterator[Site]:
    """The windows around the frames."""
    async with site() as windows:
        yield windows


@pytest_asyncio.fixture(loop_scope="session")
async def context(windows: Windows) -> BrowserContext:
    return windows.context


@pytest_asyncio.fixture(loop_scope="session")
async def frame(context: BrowserContext, around: Site, server: Server) -> HostedFrame:
    """The page of the default workspace in a frame."""
    (server.root / "greet.py").write_text(GREET)
    frame = HostedFrame(await around.framed(context, await embed(server, around.editor)))
    await frame.shown()
    return frame


@pytest_asyncio.fixture(loop_scope="session")
async def locked(tmp_path: Path) -> AsyncIterator[Server]:
    """A gateway with a key."""
    (tmp_path / "locked").mkdir()
    server = Server(tmp_path / "locked", env={"TIELINE_KEY": KEY})
    await server.start()
    yield server
    await server.stop()


# ── Use ──────────────────────────────────────────────────────────────────────────────────────────


async def test_a_side_bar_is_enough_for_a_conversation_with_a_change_to_approve(
    frame: HostedFrame, server: Server
) -> None:
    await frame.say(WRITE)
    await expect(frame.ask).to_contain_text("greet.py")
    assert await frame.width_beyond() <= 0
    await frame.press(frame.ask.get_by_role("button", name="Allow once"))
    await expect(frame.part("send")).to_be_visible()
    assert await frame.width_beyond() <= 0
    assert (server.root / "greet.py").read_text() == "def greet(): pass"
    await frame.inside.get_by_role("button", name="Chats").click()
    await expect(frame.inside.get_by_role("navigation", name="Chats").get_by_role("link")).to_have_count(1)


async def test_the_editor_learns_what_the_page_does(frame: HostedFrame) -> None:
    await frame.hears("ready")
    await frame.say(WRITE)
    await frame.page.wait_for_function("told.at(-1).running === true && told.at(-1).sessions === 1")
    await frame.press(frame.ask.get_by_role("button", name="Deny"))
    await frame.page.wait_for_function("told.at(-1).running === false && told.at(-1).sessions === 1")


async def test_files_and_changes_of_an_answer_open_in_the_editor(frame: HostedFrame) -> None:
    await frame.say(WRITE)
    await frame.ask.get_by_role("button", name="Open diff of greet.py").click()
    proposed = await frame.hears("openDiff")
    assert proposed == {
        "type": "openDiff", "path": "greet.py", "before": GREET, "after": "def greet(): pass\n", "line": 1
    }  # fmt: skip
    await frame.press(frame.ask.get_by_role("button", name="Allow once"))
    await expect(frame.part("send")).to_be_visible()
    await frame.answer.get_by_role("button", name="Open diff of greet.py").click()
    made = (await frame.told("openDiff"))[-1]
    assert (made["before"], made["after"]) == (GREET, "def greet(): pass")
    await frame.answer.get_by_role("button", name="greet.py", exact=True).first.click()
    assert (await frame.hears("openFile"))["path"] == "greet.py"


async def test_links_open_outside_the_frame(frame: HostedFrame) -> None:
    await frame.inside.get_by_role("link", name="Traffic").click()
    assert await frame.hears("openExternal") == {"type": "openExternal", "path": "/traffic"}
    await frame.say("say: see <https://example.com/a?b=c> and [the file](https://example.com/d)")
    await frame.answer.get_by_role("link", name="https://example.com/a").first.click()
    await expect(frame.composer).to_be_visible()
    assert (await frame.told("openExternal"))[-1]["path"] == "https://example.com/a?b=c"


async def test_the_editor_adds_text_and_files_to_the_message_but_sends_nothing(
    frame: HostedFrame, server: Server
) -> None:
    await frame.tell({"type": "insert", "text": "Explain this:\n"})
    await frame.tell({"type": "attach", "files": ["greet.py", 7, ""]})
    await expect(frame.composer).to_have_value("Explain this:\n")
    await expect(frame.composer).to_be_focused()
    await expect(frame.part("attached-file")).to_have_text(["greet.py"])
    await frame.tell({"type": "insert", "text": "please"})
    await expect(frame.composer).to_have_value("Explain this:\nplease")
    await expect(frame.part("turn-user")).to_have_count(0)


async def test_files_dragged_from_the_editor_become_attachments(frame: HostedFrame, server: Server) -> None:
    inside, outside = f"file://{server.root}/src/a%20b.py", "file:///etc/passwd"
    drop = """(body, list) => {
        const dataTransfer = new DataTransfer();
        dataTransfer.setData("application/vnd.code.uri-list", list);
        body.dispatchEvent(new DragEvent("drop", { dataTransfer, bubbles: true, cancelable: true }));
    }"""
    await frame.inside.locator("body").evaluate(drop, f"{inside}\r\nvscode-remote://ssh{server.root}/b.py\r\n{outside}")
    await expect(frame.part("attached-file")).to_have_text(["src/a b.py", "b.py"])
    await expect(frame.inside.get_by_text("Only files of this workspace can be attached.")).to_be_visible()


# ── Theme ────────────────────────────────────────────────────────────────────────────────────────


async def test_the_page_takes_the_colours_of_the_editor(frame: HostedFrame) -> None:
    body = frame.inside.locator("html")
    await frame.tell({"type": "theme", "kind": "dark", "colors": DARK})
    await expect(body).to_have_css("background-color", "rgb(1, 2, 3)")
    await expect(body).to_have_css("color-scheme", "dark")
    await frame.tell({"type": "theme", "kind": "contrast-light", "colors": {"background": "white"}})
    await expect(body).to_have_css("background-color", "rgb(255, 255, 255)")
    await expect(body).to_have_css("color-scheme", "light")
    await expect(body).to_have_attribute("data-contrast", "")


async def test_values_that_are_not_colours_change_nothing(frame: HostedFrame) -> None:
    body = frame.inside.locator("html")
    await frame.tell({"type": "theme", "kind": "dark", "colors": {}})
    await expect(body).to_have_css("color-scheme", "dark")
    before = await body.get_attribute("style")
    wrong: list[Any] = [
        "url(https://example.com/x)",
        "red; display: none",
        "var(--text)",
        "inherit",
        7,
        None,
        "x" * 500,
    ]
    for value in wrong:
        await frame.tell({"type": "theme", "kind": "dark", "colors": {"background": value, "--bg": "red"}})
    for message in (None, 7, "theme", {"type": "theme", "kind": "__proto__", "colors": None}, {"type": "constructor"}):
        await frame.tell(message)
    await frame.tell({"type": "insert", "text": "done"})
    await expect(frame.composer).to_have_value("done")
    assert await body.get_attribute("style") == before


# ── Safety ───────────────────────────────────────────────────────────────────────────────────────


async def test_a_frame_beside_the_page_cannot_send_messages_to_it(
    context: BrowserContext, around: Site, server: Server
) -> None:
    page = await around.framed(context, await embed(server, around.editor), f"{around.other}/", f"{around.editor}/")
    frame = HostedFrame(page)
    await frame.shown()
    for neighbour in (1, 2):
        await HostedFrame(page, neighbour).tell("attack")
    await page.wait_for_function("told.filter(({ type }) => type === 'attacked').length === 2")
    await frame.tell({"type": "insert", "text": "from the editor"})
    await expect(frame.composer).to_have_value("from the editor")


async def test_a_window_of_another_origin_is_neither_heard_nor_told(
    context: BrowserContext, around: Site, server: Server
) -> None:
    """It may frame the page, since it is among the ancestors, but it is not the window that the gateway was told."""
    address = await embed(server, around.editor, around.other)
    frame = HostedFrame(await around.framed(context, address, origin=around.other))
    await frame.shown()
    await frame.tell({"type": "insert", "text": "evil"})
    await frame.inside.get_by_role("link", name="Traffic").click()
    await frame.composer.press("x")
    await expect(frame.composer).to_have_value("x")
    assert await frame.page.evaluate("told") == []


async def test_the_page_is_not_framed_without_a_token_or_by_another_window(
    context: BrowserContext, around: Site, server: Server
) -> None:
    addresses = (f"{server.url}/", f"{server.url}/embed/wrong", await embed(server, around.other))
    page = await around.framed(context, *addresses)
    await expect(HostedFrame(page, 1).inside.get_by_role("heading")).to_have_text("This view has expired")
    for number in range(len(addresses)):
        frame = HostedFrame(page, number)
        await expect(frame.inside.locator("body")).to_be_attached()
        await expect(frame.composer).to_have_count(0)


async def test_an_address_opens_the_page_once(context: BrowserContext, around: Site, server: Server) -> None:
    address = await embed(server, around.editor)
    page = await around.framed(context, address, address)
    await HostedFrame(page, 0).shown()
    await expect(HostedFrame(page, 1).inside.get_by_role("heading")).to_have_text("This view has expired")
    async with httpx2.AsyncClient() as http:
        assert (await http.get(address)).status_code == 403


async def test_a_gateway_with_a_key_needs_no_cookie_in_a_frame(browser: Browser, around: Site, locked: Server) -> None:
    context = await browser.new_context(viewport={"width": 400, "height": 760})
    frame = HostedFrame(await around.framed(context, await embed(locked, around.editor, key=KEY)))
    await frame.shown()
    await frame.say("Hello")
    await expect(frame.part("turn-assistant")).to_have_count(1)
    await expect(frame.part("send")).to_be_visible()
    await expect(frame.inside.get_by_role("dialog")).to_have_count(0)
    assert await context.cookies() == []
    assert await frame.inside.locator("html").get_attribute("data-pass") is None
    await context.close()


# ── Workspaces ───────────────────────────────────────────────────────────────────────────────────


async def two_frames(
    context: BrowserContext, around: Site, server: Server, tmp_path: Path
) -> tuple[list[str], list[HostedFrame]]:
    names = []
    for folder in (tmp_path / "one", tmp_path / "two"):
        folder.mkdir()
        names.append(await register(server, folder))
    page = await around.framed(context, *[await embed(server, around.editor, workspace=name) for name in names])
    await page.set_viewport_size({"width": 700, "height": 760})
    frames = [HostedFrame(page, number) for number in range(2)]
    for frame in frames:
        await frame.shown()
    return names, frames


async def test_two_frames_never_show_sessions_or_items_of_each_other(
    context: BrowserContext, around: Site, server: Server, tmp_path: Path
) -> None:
    names, (one, two) = await two_frames(context, around, server, tmp_path)
    await one.say("write `1` to here.txt")
    await expect(one.ask).to_contain_text("here.txt")
    server.ask(Origin(client="Other", workspace=names[1]), Approval(title="Only for two", kind="other"))
    await expect(two.inside.get_by_role("button", name="Inbox: 1 waiting")).to_be_visible()
    await expect(one.inside.get_by_role("button", name="Inbox: 1 waiting")).to_be_visible()
    await two.inside.get_by_role("button", name="Inbox: 1 waiting").click()
    await expect(two.inside.get_by_role("complementary", name="Inbox")).to_contain_text("Only for two")
    await one.press(one.ask.get_by_role("button", name="Allow once"))
    await expect(one.part("send")).to_be_visible()
    assert (tmp_path / "one" / "here.txt").read_text() == "1"
    await expect(one.part("session")).to_have_count(1)
    await expect(two.part("session")).to_have_count(0)
    await expect(two.inside.get_by_role("button", name="Inbox: 1 waiting")).to_be_visible()


async def test_the_page_in_a_tab_names_the_workspaces_of_sessions_and_items(
    context: BrowserContext, around: Site, windows: Windows, server: Server, tmp_path: Path
) -> None:
    names, (one, _) = await two_frames(context, around, server, tmp_path)
    await one.say("Hello")
    await expect(one.part("send")).to_be_visible()
    server.ask(Origin(client="Other", workspace=names[1]), Approval(title="Asked in two", kind="other"))
    window = await windows.new()
    await window.page.set_viewport_size({"width": 1200, "height": 800})
    await expect(window.part("session")).to_contain_text(" · one")
    await window.part("inbox-button").click()
    await expect(window.part("inbox-list")).to_contain_text("Other · two")
