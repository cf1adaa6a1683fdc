"""The extension in VS Code's workbench, with the real gateway behind it.

Browser, workbench and gateway are shared by the tests of a worker: a window takes several seconds to start. A test that
stops the gateway, or needs one with other settings, has its own.
"""

import asyncio
import re
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
import pytest_asyncio
from playwright.async_api import Browser, expect

from editor.build import bundle
from tests.core.scripted import Script
from tests.e2e.acp_support import scripted
from tests.editor.editor_window import EditorWindow
from tests.editor.package import NotInstalled, workbench
from tests.editor.web_server import WorkbenchServer, serving, window_address
from tests.web.browser import DEMO, Server
from tests.web.frames import Frame
from tieline.app.config import AcpSettings, ServerSettings
from tieline.model.inbox import InboxItem, Origin

SCREEN: Mapping[str, Any] = {"viewport": {"width": 1280, "height": 800}}
PATIENCE = 60.0
SETTINGS = {
    "workbench.startupEditor": "none",
    "security.workspace.trust.startupPrompt": "never",
    "security.workspace.trust.banner": "never",
    "window.restoreWindows": "none",
    "editor.minimap.enabled": False,
    "editor.stickyScroll.enabled": False,
}
CONNECTED = re.compile("Connected")
EXTENSION = Path(__file__).parents[2] / "editor"
PARTS = ("package.json", "README.md", "media", "syntaxes")
"""What an editor loads of the extension, besides the bundle."""


class EditorGateway(Server):
    """A gateway that the extension uses; it can be stopped, and started again at the same address."""

    def __init__(self, home: Path, origin: str, key: str = "", backend: Script | None = None, **settings: Any) -> None:
        agents = {"scripted": scripted("--can", "http,load")}
        super().__init__(
            home,
            backend,
            {"TIELINE_KEY": key} if key else {},
            server=ServerSettings(origins=(origin,)),
            acp=AcpSettings(agents=agents, workspace=str(home)),
            **settings,
        )
        self.key = key

    def client(self, workspace: str = "") -> httpx2.AsyncClient:
        """A program that talks to the gateway, in a workspace."""
        headers = {"authorization": f"Bearer {self.key}"} if self.key else {}
        headers |= {"x-tieline-workspace": workspace} if workspace else {}
        return httpx2.AsyncClient(base_url=self.url, headers=headers, timeout=60)

    async def workspace(self, folder: Path) -> str:
        """The name of the workspace of a folder, as soon as the extension has registered it."""
        async with asyncio.timeout(PATIENCE):
            while not (name := await self.registered(folder)):
                pass
        return name

    async def registered(self, folder: Path) -> str:
        """The name of the workspace of a folder, or "" if the extension has not registered it."""
        async with self.client() as http:
            listed = (await http.get("/api/workspaces")).json()["workspaces"]
        return next((str(one["name"]) for one in listed if one["path"] == str(folder)), "")

    async def ask_in(
        self, folder: Path, item: InboxItem, client: str = "Claude Code", model: str = "m"
    ) -> "asyncio.Task[Any]":
        """Something that a client in this folder waits for; the class of its answer depends on the item."""
        return self.ask(Origin(model=model, client=client, workspace=await self.workspace(folder)), item)

    async def waiting(self) -> int:
        """How many items wait for a person."""
        async with self.client() as http:
            return len((await http.get("/api/inbox")).json()["items"])

    async def clear(self) -> None:
        """Reject everything that waits, so that a failed test does not disturb the next one."""
        bodies = {"permission": {"option": None}, "plan_review": {"approved": False}, "form": {"action": "cancel"}}
        async with self.client() as http:
            for item in (await http.get("/api/inbox")).json()["items"]:
                await http.post(f"/api/inbox/{item['id']}", json=bodies[item["ask"]["type"]])

    async def prompt(self, folder: Path, text: str, model: str = DEMO) -> str:
        """What a client in a terminal in this folder is answered."""
        async with self.client(await self.workspace(folder)) as http:
            body = {"model": model, "messages": [{"role": "user", "content": text}]}
            answer = await http.post("/v1/chat/completions", json=body)
            assert answer.status_code == 200, answer.text
            return str(answer.json()["choices"][0]["message"]["content"])


class EditorStand:
    """The workbench and its windows."""

    def __init__(self, browser: Browser, server: WorkbenchServer) -> None:
        self.server = server
        self.root = server.root
        self._browser = browser

    def new_folder(self, name: str) -> Path:
        """A folder that can be opened in a window."""
        folder = self.root / name
        folder.mkdir()
        (folder / "greet.py").write_text('def greet(name):\n    return "Hello " + name\n\n\nprint(greet("you"))\n')
        return folder

    @asynccontextmanager
    async def opened(
        self,
        folder: Path,
        url: str,
        settings: Mapping[str, Any] | None = None,
        *,
        is_trusted: bool = True,
        screen: Mapping[str, Any] = SCREEN,
    ) -> AsyncIterator[EditorWindow]:
        """A window with a folder, in an editor of its own."""
        context = await self._browser.new_context(**screen)
        try:
            window = EditorWindow(await context.new_page(), folder)
            given = {**SETTINGS, "tieline.url": url, **(settings or {})}
            await window.open(window_address(self.server, folder, given, is_trusted=is_trusted))
            yield window
        finally:
            await context.close()


def packaged(folder: Path) -> Path:
    """Build the extension into a folder, as the package has it."""
    made = folder / "extension"
    for name in PARTS:
        source = EXTENSION / name
        if source.is_dir():
            shutil.copytree(source, made / name)
        else:
            made.mkdir(exist_ok=True)
            shutil.copy(source, made / name)
    (made / "dist").mkdir()
    (made / "dist" / "extension.js").write_text(bundle(), "utf-8")
    return made


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def stand(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[EditorStand]:
    try:
        files = await asyncio.to_thread(workbench)
    except NotInstalled as error:
        pytest.skip(f"VS Code's workbench is not available: {error}")
    extension = packaged(tmp_path_factory.mktemp("extension"))
    with serving(files, {"tieline": extension}, tmp_path_factory.mktemp("folders").resolve()) as server:
        yield EditorStand(browser, server)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def gateway(stand: EditorStand, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[EditorGateway]:
    """The gateway that most tests share."""
    gateway = EditorGateway(tmp_path_factory.mktemp("home"), stand.server.origin)
    await gateway.start()
    yield gateway
    await gateway.stop()


@pytest.fixture(scope="session")
def folder(stand: EditorStand) -> Path:
    """The folder of the shared window."""
    return stand.new_folder("project")


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def shared(stand: EditorStand, gateway: EditorGateway, folder: Path) -> AsyncIterator[EditorWindow]:
    async with stand.opened(folder, gateway.url) as window:
        await expect(window.status).to_have_attribute("aria-label", CONNECTED)
        yield window


@pytest_asyncio.fixture(loop_scope="session")
async def window(shared: EditorWindow, gateway: EditorGateway) -> AsyncIterator[EditorWindow]:
    """The shared window. A test must not leave anything open or waiting in it."""
    yield shared
    left = await gateway.waiting()
    await gateway.clear()
    await shared.tidy()
    assert left == 0, "the test left something waiting"


@pytest_asyncio.fixture(loop_scope="session")
async def chatting(window: EditorWindow) -> Frame:
    """The page in the side bar of the shared window, with a new chat."""
    chat = await window.open_chat()
    await chat.fresh()
    return chat
