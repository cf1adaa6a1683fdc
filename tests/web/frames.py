"""The page in a frame of another site, as an editor shows it. The window around it notes what the page tells it."""

from collections.abc import Mapping
from typing import Any

import httpx2
from playwright.async_api import BrowserContext, FrameLocator, Locator, Page, Route, expect

from tests.web.browser import Server, centre

HOST = "http://editor.localhost:1"
"""The origin of the window around the frame. No server listens there: the test answers the browser's requests."""
OTHER = "http://other.localhost:1"
"""Another origin that frames the page, or something beside it."""
AROUND = """<!doctype html><title>Editor</title>
<style>body { margin: 0 } iframe { border: 0; width: 100%; height: 98vh }</style>
<script>var told = []; addEventListener("message", (event) => told.push(event.data));</script>"""


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
        await expect(self.inside.locator("body")).not_to_contain_class("is-loading")

    async def fresh(self) -> None:
        """Begin a new chat."""
        await self.inside.get_by_role("button", name="Chats").click()
        await self.part("new-chat").click()
        await expect(self.part("turn-user")).to_have_count(0)

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

    async def tell(self, message: Mapping[str, Any]) -> None:
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
    headers = {"authorization": f"Bearer {key}"} if key else {}
    async with httpx2.AsyncClient(base_url=server.url, headers=headers) as http:
        response = await http.post("/api/embed", json={"ancestors": ancestors or (HOST,), "workspace": workspace})
        assert response.status_code == 200, response.text
        return f"{server.url}{response.json()['path']}"


async def register(server: Server, path: Any, key: str = "") -> str:
    """Register a folder, and return the name of its workspace."""
    headers = {"authorization": f"Bearer {key}"} if key else {}
    async with httpx2.AsyncClient(base_url=server.url, headers=headers) as http:
        response = await http.post("/api/workspaces", json={"path": str(path)})
        assert response.status_code == 200, response.text
        return str(response.json()["name"])


async def framed(context: BrowserContext, *addresses: str, origin: str = HOST) -> Page:
    """Open a window of `origin` that frames these addresses."""

    async def answer(route: Route) -> None:
        frames = "".join(f'<iframe src="{address}"></iframe>' for address in addresses)
        await route.fulfill(content_type="text/html", body=AROUND + frames)

    await context.route(f"{origin}/", answer)
    page = await context.new_page()
    await page.goto(f"{origin}/")
    return page
