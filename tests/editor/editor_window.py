"""One window of VS Code's workbench in Chromium, seen the way a person and a test can find things in it."""

import re
from contextlib import suppress
from pathlib import Path

from playwright.async_api import Locator, Page, expect
from playwright.async_api import TimeoutError as PageTimeout

from tests.web.frames import Frame

STARTED = 120_000
"""How long the workbench may take to start on a busy machine, in milliseconds."""


class EditorWindow:
    """A window with an open folder."""

    def __init__(self, page: Page, folder: Path) -> None:
        self.page = page
        self.folder = folder
        self.problems: list[str] = []
        page.on("pageerror", lambda error: self.problems.append(str(error)))

    async def open(self, address: str) -> None:
        """Load the workbench, and wait until the extension has started."""
        await self.page.goto(address)
        await expect(self.status).to_be_visible(timeout=STARTED)

    # ── Parts of the window ──────────────────────────────────────────────────────────────────────

    @property
    def status(self) -> Locator:
        """The main item of the extension in the status bar."""
        return self.page.locator('[id="tieline.tieline.tieline.status"]')

    @property
    def autonomy(self) -> Locator:
        """The item in the status bar that says what is allowed without asking."""
        return self.page.locator('[id="tieline.tieline.tieline.autonomy"]')

    @property
    def dialog(self) -> Locator:
        """The modal dialog."""
        return self.page.get_by_role("dialog").filter(has=self.page.locator(".dialog-message-row"))

    @property
    def input(self) -> Locator:
        """The box at the top of the window: a quick pick, an input or the command palette."""
        return self.page.locator(".quick-input-widget:visible")

    def notification(self, text: str) -> Locator:
        """A notification that contains a text."""
        return self.notifications.filter(has_text=text)

    @property
    def notifications(self) -> Locator:
        """The notifications that are shown now."""
        return self.page.get_by_role("dialog", name=re.compile("notification"))

    def tab(self, name: str) -> Locator:
        """The tab of an open document."""
        return self.page.get_by_role("tab", name=re.compile(f"^{re.escape(name)}"))

    @property
    def editor(self) -> Locator:
        """The text of the active document."""
        return self.page.locator(".editor-instance .view-lines").last

    @property
    def diff(self) -> Locator:
        """The diff editor."""
        return self.page.locator(".monaco-diff-editor")

    @property
    def chat(self) -> Frame:
        """The gateway's page in the side bar."""
        webview = self.page.frame_locator("iframe.webview").frame_locator("#active-frame")
        return Frame(self.page, webview.frame_locator("iframe"))

    @property
    def notice(self) -> Locator:
        """What the view shows instead of the page."""
        webview = self.page.frame_locator("iframe.webview").frame_locator("#active-frame")
        return webview.get_by_role("main")

    # ── What a person does ───────────────────────────────────────────────────────────────────────

    async def run(self, command: str) -> None:
        """Run a command through the command palette."""
        await self.page.locator(".monaco-workbench").click(position={"x": 700, "y": 5})
        await self.page.keyboard.press("F1")
        await self.input.get_by_role("textbox").or_(self.input.get_by_role("combobox")).first.fill(f">{command}")
        await self.input.get_by_role("option", name=re.compile(re.escape(command))).first.click()

    async def tidy(self) -> None:
        """Close all dialogs, documents and notifications."""
        for place in (self.dialog, self.input):
            if await place.count():
                await self.page.keyboard.press("Escape")
        await self.run("View: Close All Editors")
        await self.run("Notifications: Clear All Notifications")

    async def open_chat(self) -> Frame:
        """Open the view with the page, and wait until it can be used."""
        await self.run("Tieline: Open Chat")
        await self.chat.shown()
        return self.chat

    async def press(self, button: str, place: Locator | None = None) -> None:
        """Press a button of the dialog, or of another place."""
        await (place or self.dialog).get_by_role("button", name=button, exact=True).click()

    async def choose(self, option: str) -> None:
        """Choose an option of the box at the top."""
        name = re.compile(re.escape(option))
        rows = self.input.get_by_role("option", name=name).or_(self.input.get_by_role("checkbox", name=name))
        await rows.first.click()

    async def type(self, text: str) -> None:
        """Write a text into the box at the top, and press Enter."""
        field = self.input.locator("input:visible").last
        await field.fill(text)
        await field.press("Enter")

    async def press_lens(self, title: str) -> None:
        """Press a button between the lines of the active document. An icon precedes its title."""
        await (
            self.page.locator(".codelens-decoration")
            .get_by_role("button", name=re.compile(f"{re.escape(title)}$"))
            .click()
        )

    async def open_file(self, name: str) -> None:
        """Open a file of the folder from the explorer."""
        await self.run("View: Show Explorer")
        row = self.page.get_by_role("treeitem", name=re.compile(f"^{re.escape(name)}"))
        for _ in range(3):
            await row.dblclick()  # opens another file if the list of files changes at this moment
            with suppress(PageTimeout):
                await self.tab(name).wait_for(timeout=10_000)
                return
        await expect(self.tab(name)).to_be_visible()
