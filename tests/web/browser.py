"""The page in a real Chromium, with a gateway behind it that has the demo model, tools and a scripted backend.

Browser, gateway and test share one loop for the whole session: starting a browser takes longer than most tests. Each
test has a gateway, a workspace and a browser profile of its own.
"""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Mapping, MutableMapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest
import pytest_asyncio
from playwright.async_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Locator,
    Page,
    Route,
    async_playwright,
    expect,
)

from tests.catalogue.serving import listening
from tests.core.scripted import Script
from tieline.app.build.application import App, build
from tieline.app.config import ClientSettings, Config, ToolSettings
from tieline.model.inbox import Answer, InboxItem, Origin
from tieline.model.ports import Backend

IN_CHROMIUM = pytest.mark.asyncio(loop_scope="session")
PATIENCE = 60_000
"""No test waits longer than this, in milliseconds, for anything to show."""
DEMO = "demo/scripted"
NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ("--no-sandbox", "--disable-gpu")
UNREACHABLE = "Failed to load resource"
"""What Chromium itself says of a request that fails: of a restart, or of an error the page shows."""

expect.set_options(timeout=PATIENCE)


class Server:
    """A gateway that can be stopped, and started again at the same address; `settings` are those of a Config."""

    def __init__(
        self, home: Path, backend: Script | None = None, env: Mapping[str, str] | None = None, **settings: Any
    ) -> None:
        self.home = home
        self.env = {"HOME": str(home), "PATH": os.environ["PATH"], **(env or {})}
        self.settings = settings
        self.root = home / "workspace"
        self.root.mkdir()
        self.tools = ToolSettings(enabled=True, workspace=str(self.root))
        self.backend = backend or Script()
        self.url = ""
        self.app: App | None = None
        self._stack = AsyncExitStack()

    async def start(self) -> None:
        clients = {"all": ClientSettings(tools=True)}
        settings = {"default_model": DEMO, **self.settings}
        app = self.app = build(Config(tools=self.tools, clients=clients, **settings), self.env)
        self._stack.push_async_callback(app.aclose)
        cast(MutableMapping[str, Backend], app.backends)[self.backend.name] = self.backend
        port = int(self.url.rpartition(":")[2] or 0)
        self.url = await self._stack.enter_async_context(listening(app, port))

    async def stop(self) -> None:
        await self._stack.aclose()

    def ask(self, origin: Origin, ask: InboxItem) -> "asyncio.Task[Answer]":
        """Something that waits for a person."""
        assert self.app is not None
        return self.app.tasks.start(self.app.gateway.inbox.ask(origin, ask), "ask of a test")


class Window:
    """One tab, seen the way a person and a test can find things in it."""

    def __init__(self, page: Page, url: str) -> None:
        self.page = page
        self.url = url
        self.problems: list[str] = []
        self.requested: list[str] = []
        page.set_default_timeout(PATIENCE)
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("console", self._hear)
        page.on("request", lambda request: self.requested.append(request.url))

    async def open(self, path: str = "/") -> None:
        await self.page.goto(self.url + path)
        await expect(self.page.locator("body")).not_to_contain_class("is-loading")

    def part(self, name: str) -> Locator:
        """What is marked for tests with this name."""
        return self.page.locator(f'[data-test="{name}"]')

    @property
    def composer(self) -> Locator:
        return self.part("composer")

    @property
    def ask(self) -> Locator:
        """What waits in the conversation."""
        return self.page.locator("tl-chat tl-inbox-item")

    @property
    def answer(self) -> Locator:
        """The newest answer."""
        return self.part("turn-assistant").last

    async def say(self, words: str) -> None:
        """Send a message."""
        await self.composer.fill(words)
        await self.composer.press("Enter")

    async def choose(self, option: str) -> None:
        """Press a button of the permission that waits."""
        await self.press(self.ask.locator(f'[data-test="option-{option}"]'))

    async def press(self, button: Locator) -> None:
        """Press a button that answers, where it is: Playwright's own click would scroll, and so move its card."""
        await expect(button).to_be_in_viewport(ratio=1)
        await expect(button).to_be_enabled()
        await self.page.mouse.click(*await centre(button))

    async def width_beyond(self) -> int:
        """By how much the page is wider than the window."""
        beyond = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        return int(await self.page.evaluate(beyond))

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and not message.text.startswith(UNREACHABLE):
            self.problems.append(message.text)


async def centre(target: Locator) -> tuple[float, float]:
    """The middle of an element in the window."""
    box = await target.bounding_box()
    assert box is not None
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


@asynccontextmanager
async def held(window: Window, method: str, path: str) -> AsyncIterator[asyncio.Event]:
    """Hold back requests that match. The end of the block lets them go, or fail if the event was set."""
    arrived, fails, let_go = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def hold(route: Route) -> None:
        if route.request.method != method:
            await route.continue_()
            return
        arrived.set()
        await let_go.wait()
        await (route.abort() if fails.is_set() else route.continue_())

    await window.page.route(path, hold)
    try:
        yield fails
        await asyncio.wait_for(arrived.wait(), PATIENCE / 1000)
    finally:
        let_go.set()


def finished(window: Window, path: str) -> AbstractAsyncContextManager[object]:
    """Wait at the end of the block until a request whose address ends with `path` has been answered."""
    return window.page.expect_event("requestfinished", lambda request: request.url.endswith(path))


class Windows:
    """A person's browser: every tab shares its cookies and its storage."""

    def __init__(self, context: BrowserContext, url: str) -> None:
        self.context = context
        self.url = url
        self.opened: list[Window] = []

    async def new(self, path: str = "/") -> Window:
        window = Window(await self.context.new_page(), self.url)
        self.opened.append(window)
        await window.open(path)
        return window


@asynccontextmanager
async def profile(browser: Browser, url: str, **settings: Any) -> AsyncIterator[Windows]:
    """A browser profile; a script error or a complaint of the browser in any of its tabs is an error of the test."""
    context = await browser.new_context(**settings)
    windows = Windows(context, url)
    try:
        yield windows
    finally:
        await context.close()
    assert [problem for window in windows.opened for problem in window.problems] == []


def chromium() -> str | None:
    """The browser of this machine."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    path = chromium()
    if path is None:
        pytest.skip("Chromium is not installed: these tests were skipped")
    async with async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        await browser.close()


@pytest_asyncio.fixture(loop_scope="session")
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    server = Server(tmp_path)
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
def settings() -> Mapping[str, Any]:
    """How a browser profile differs from the usual; a test module or a mark may say more."""
    return {"viewport": {"width": 1200, "height": 800}}


@pytest_asyncio.fixture(loop_scope="session")
async def windows(browser: Browser, server: Server, settings: Mapping[str, Any]) -> AsyncIterator[Windows]:
    async with profile(browser, server.url, **settings) as windows:
        yield windows


@pytest_asyncio.fixture(loop_scope="session")
async def window(windows: Windows) -> Window:
    return await windows.new()


@pytest_asyncio.fixture(loop_scope="session")
async def scripted(windows: Windows) -> Window:
    """A tab whose conversations are with the scripted backend."""
    await windows.context.add_init_script("""localStorage.setItem("tieline-choice", '{"model": "test/m"}')""")
    return await windows.new()
