"""The Traffic page: the list and the details show the latest state of each request, whatever arrives first."""

import asyncio
import re

import httpx2
from playwright.async_api import Route, expect

from tests.web.browser import IN_CHROMIUM, Server, Window, Windows
from tests.web.test_page_chat import spoken

pytestmark = IN_CHROMIUM

CHAT = {"model": "test/m", "messages": [{"role": "user", "content": "Hello"}]}


async def complete(server: Server) -> None:
    """Make a request, and read its whole answer."""
    async with httpx2.AsyncClient(base_url=server.url, timeout=60) as http:
        response = await http.post("/v1/chat/completions", json=CHAT)
        assert response.status_code == 200, response.text


async def test_a_request_that_ends_while_the_list_is_fetched_is_listed_as_ended(
    windows: Windows, server: Server
) -> None:
    go, arrived, late = asyncio.Event(), asyncio.Event(), asyncio.Event()
    window = await windows.new("/traffic")

    async def delay(route: Route) -> None:
        response = await route.fetch()
        arrived.set()
        await late.wait()
        await route.fulfill(response=response)

    server.backend.legs.append(spoken("Hello there", go))
    running = asyncio.create_task(complete(server))
    await expect(window.part("leg")).to_have_attribute("data-status", "running")
    await window.page.route("**/api/traffic?query=Hello", delay)
    await window.part("filter").fill("Hello")
    await arrived.wait()
    go.set()
    await running
    await expect(window.part("leg")).to_have_attribute("data-status", "ok")
    async with window.page.expect_response("**/api/traffic?query=Hello") as response:
        late.set()
    await (await response.value).finished()
    await window.page.evaluate("() => new Promise((resolve) => setTimeout(resolve))")
    await expect(window.part("leg")).to_have_attribute("data-status", "ok")


async def test_the_row_of_the_open_request_stays_marked_when_the_list_is_filtered(
    windows: Windows, server: Server
) -> None:
    window = await windows.new("/traffic")
    await complete(server)
    await window.part("leg").click()
    await expect(window.part("leg")).to_have_attribute("aria-selected", "true")
    async with window.page.expect_response("**/api/traffic?query=Hello"):
        await window.part("filter").fill("Hello")
    await expect(window.part("leg")).to_have_attribute("aria-selected", "true")


async def test_details_that_arrive_late_do_not_replace_newer_ones(windows: Windows, server: Server) -> None:
    go, held = asyncio.Event(), asyncio.get_running_loop().create_future()
    window = await windows.new("/traffic")

    async def delay_first(route: Route) -> None:
        if not held.done():
            held.set_result((route, await route.fetch()))
        else:
            await route.continue_()

    server.backend.legs.append(spoken("Hello there", go))
    running = asyncio.create_task(complete(server))
    await expect(window.part("leg")).to_have_attribute("data-status", "running")
    await window.page.route(re.compile("/api/traffic/"), delay_first)
    await window.part("leg").click()
    route, response = await held
    go.set()
    await running
    detail = window.part("leg-detail")
    await expect(detail.locator(".state")).to_have_text("ok")
    async with window.page.expect_response(re.compile("/api/traffic/")) as late:
        await route.fulfill(response=response)
    await (await late.value).finished()
    await window.page.evaluate("() => new Promise((resolve) => setTimeout(resolve))")
    await expect(detail.locator(".state")).to_have_text("ok")


async def test_only_a_part_of_an_ended_answer_is_cut_off(windows: Windows, server: Server) -> None:
    go = asyncio.Event()
    window: Window = await windows.new("/traffic")
    server.backend.legs.append(spoken("Hello there", go))
    running = asyncio.create_task(complete(server))
    await window.part("leg").click()
    detail = window.part("leg-detail")
    await expect(detail).to_contain_text("What test answered")
    await expect(detail.locator(".state")).to_have_text("running")
    await expect(detail).not_to_contain_text("cut off")
    go.set()
    await running


async def test_escape_clears_the_filter_before_it_closes_the_details(windows: Windows, server: Server) -> None:
    window = await windows.new("/traffic")
    await complete(server)
    await window.part("leg").click()
    await window.part("filter").fill("Hello")
    await window.part("filter").press("Escape")
    await expect(window.part("filter")).to_have_value("")
    await expect(window.part("leg-detail")).to_be_visible()
    await window.part("filter").press("Escape")
    await expect(window.part("leg-detail")).to_be_hidden()
