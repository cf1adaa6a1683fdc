"""The page in a frame of another site, as an editor shows it. The window around it notes what the page tells it."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2
from playwright.async_api import BrowserContext, FrameLocator, Locator, Page, expect

from tests.web.browser import Server, centre

PAGE = b"""<!doctype html><title>Editor</title>
<style>body { display: flex; margin: 0 } iframe { flex: 1; min-width: 0; height: 100vh; border: 0 }</style>
<script>
  var told = [];
  addEventListener("message", ({ data }) => {
    if (data !== "attack") return void told.push(data);
    parent.frames[0].postMessage({ type: "insert", text: "evil" }, "*");
    parent.postMessage({ type: "attacked" }, "*");
  });
</script>
<body><script>
  for (const address of JSON.parse(decodeURIComponent(location.hash.slice(1) || "[]"))) {
    const frame = document.createElement("iframe");
    frame.src = address;
    document.body.append(frame);
  }
</script>
"""
"""A window with frames, whose addresses follow the `#`. It notes what they tell it, and attacks its own neighbour."""


class Site:
    """A server for windows around the page, under two names: two origins that are not the gateway's."""

    def __init__(self, port: int) -> None:
        self.editor = f"http://editor.localhost:{port}"
        """The origin of the editor's window."""
        self.other = f"http://other.localhost:{port}"
        """Another origin, which frames the page or something beside it."""

    async def framed(self, context: BrowserContext, *addresses: str, origin: str = "") -> Page:
        """Open a window that frames these addresses, of the editor unless another `origin` is given."""
        page = await context.new_page()
        await page.goto(f"{origin or self.editor}/#{quote(json.dumps(addresses))}")
        return page


@asynccontextmanager
async def site() -> AsyncIterator[Site]:
    """Serve the windows. Browsers refuse frames of this machine in pages that come from elsewhere."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError):  # browsers open connections that they do not use
            await reader.readuntil(b"\r\n\r\n")
        head = f"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: {len(PAGE)}\r\nconnection: close\r\n\r\n"
        writer.write(head.encode() + PAGE)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield Site(server.sockets[0].getsockname()[1])


class Frame:
    """The page in a frame, seen the way a person and a test can find things in it."""

    def __init__(self, page: Page, inside: FrameLocator) -> None:
        self.page = page
        self.inside = inside

    def part(self, name: str) -> Locator:
        """What is marked for tests with this name."""
        return self.inside.locator(f'[data-test="{name}"]')

    @property
    def composer(self) -> Locator:
        return self.part("composer")

    @property
    def ask(self) -> Locator:
        """What waits in the conversation."""
        return self.inside.locator("tl-chat tl-inbox-item")

    @property
    def answer(self) -> Locator:
        """The newest answer."""
        return self.part("turn-assistant").last

    async def shown(self) -> None:
        """Wait until the page is complete."""
        await expect(self.inside.locator("body.chat-page:not(.is-loading)")).to_be_attached()

    async def fresh(self) -> None:
        """Begin a new chat with an empty message."""
        await self.inside.get_by_role("button", name="Chats").click()
        await self.part("new-chat").click()
        await expect(self.part("turn-user")).to_have_count(0)
        while await self.part("attached-file").count():
            await self.part("attached-file").first.get_by_role("button").click()
        await self.composer.fill("")

    async def say(self, words: str) -> None:
        """Send a message."""
        await self.composer.fill(words)
        await self.composer.press("Enter")

    async def press(self, button: Locator) -> None:
        """Press a button that answers, where it is: Playwright's own click would scroll, and so move its card."""
        await expect(button).to_be_in_viewport(ratio=1)
        await expect(button).to_be_enabled()
        await self.page.mouse.click(*await centre(button))

    async def width_beyond(self) -> int:
        """By how much the page is wider than its frame."""
        beyond = "body => body.ownerDocument.documentElement.scrollWidth - body.ownerDocument.defaultView.innerWidth"
        return int(await self.inside.locator("body").evaluate(beyond))


class HostedFrame(Frame):
    """A frame in a window of this test, by its number in the window."""

    def __init__(self, page: Page, number: int = 0) -> None:
        super().__init__(page, page.frame_locator(f"iframe >> nth={number}"))
        self.number = number

    async def tell(self, message: Any) -> None:
        """Send a message from the window around the frame."""
        await self.page.evaluate("([n, message]) => frames[n].postMessage(message, '*')", [self.number, message])

    async def told(self, kind: str) -> list[dict[str, Any]]:
        """What the page has told the window around it, of one type."""
        every: list[dict[str, Any]] = await self.page.evaluate("told")
        return [message for message in every if message["type"] == kind]

    async def hears(self, kind: str) -> dict[str, Any]:
        """Wait until the page has told something of this type, and return it."""
        await self.page.wait_for_function("kind => told.some(({ type }) => type === kind)", arg=kind)
        return (await self.told(kind))[-1]


async def embed(server: Server, *ancestors: str, workspace: str = "", key: str = "") -> str:
    """Return an address of the page for a frame, as an editor asks for it."""
    found = await _post(server, "/api/embed", {"ancestors": ancestors, "workspace": workspace}, key)
    return f"{server.url}{found['path']}"


async def register(server: Server, path: Path) -> str:
    """Register a folder, and return the name of its workspace."""
    return str((await _post(server, "/api/workspaces", {"path": str(path)}))["name"])


async def _post(server: Server, path: str, body: Any, key: str = "") -> Any:
    headers = {"authorization": f"Bearer {key}"} if key else {}
    async with httpx2.AsyncClient(base_url=server.url, headers=headers) as http:
        response = await http.post(path, json=body)
        assert response.status_code == 200, response.text
        return response.json()
