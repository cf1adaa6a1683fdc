"""The Usage page: keys are created and revoked there, and every key sees its own usage."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx2
from playwright.async_api import Browser, Route, expect

from tests.web.browser import IN_CHROMIUM, Server, Window, Windows, profile
from tests.web.test_page_access import nameless

pytestmark = IN_CHROMIUM

OWN = "the-key-of-this-gateway"
CHAT = {"model": "demo/scripted", "messages": [{"role": "user", "content": "Hello"}]}


def first_line(path: Path) -> str:
    return path.read_text().splitlines()[0]


@asynccontextmanager
async def gateway(home: Path) -> AsyncIterator[Server]:
    server = Server(home, env={"TIELINE_KEY": OWN})
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


@asynccontextmanager
async def unlocked(browser: Browser, server: Server, key: str, path: str) -> AsyncIterator[Window]:
    """Open a page and enter a key, in a browser profile of its own."""
    async with profile(browser, server.url, viewport={"width": 1200, "height": 900}) as windows:
        window = Window(await windows.context.new_page(), server.url)
        windows.opened.append(window)
        await window.page.goto(server.url + path)
        await window.part("key").fill(key)
        await window.part("unlock").click()
        await expect(window.page.locator("body")).not_to_contain_class("is-loading")
        yield window


async def test_keys_are_created_shown_once_and_revoked_and_each_sees_its_own_usage(
    browser: Browser, tmp_path: Path
) -> None:
    async with gateway(tmp_path) as server:
        async with unlocked(browser, server, OWN, "/usage") as window:
            await expect(window.part("no-usage")).to_be_visible()
            await window.part("key-name").fill("not valid")
            await window.part("create-key").press("Enter")
            await expect(window.page.locator(".field-problem:visible")).to_contain_text("expected 1 to 64 letters")
            await window.part("key-name").fill("alice")
            await window.part("key-models").fill("demo/*, anthropic/*")
            await window.part("tokens_per_day").fill("100000")
            await window.part("create-key").click()
            key = await window.part("key-value").inner_text()
            await expect(window.part("key-row")).to_contain_text(
                "models demo/*, anthropic/*, page, 100000 tokens per day"
            )
            async with httpx2.AsyncClient(base_url=server.url, timeout=60) as http:
                for given in (key, key, OWN):
                    response = await http.post("/v1/chat/completions", json=CHAT, headers={"x-api-key": given})
                    assert response.status_code == 200, response.text
            await window.open("/usage")
            await expect(window.part("usage-row")).to_have_count(2)
            await expect(window.part("usage-row").filter(has_text="alice")).to_contain_text("$0.00")
            await expect(window.part("usage-row").filter(has_text="(no named key)")).to_be_visible()
            await expect(window.part("usage-chart").locator("rect")).to_have_count(1)
            await window.part("usage-group-by").select_option("model")
            await expect(window.part("usage-row")).to_have_count(1)
            await expect(window.part("usage-row")).to_contain_text("demo/scripted")
            async with window.page.expect_download() as started:
                await window.part("csv").click()
            assert first_line(Path(await (await started.value).path())).startswith("day,model,requests,")
            assert await nameless(window) == []
            assert await window.width_beyond() == 0
            await window.page.set_viewport_size({"width": 390, "height": 844})
            await expect(window.page.get_by_role("columnheader", name="Cost")).to_be_in_viewport(ratio=1)
            assert await window.width_beyond() == 0
        async with unlocked(browser, server, key, "/") as theirs:
            await expect(theirs.page.locator('nav a[data-page="connect"]')).to_be_hidden()
            await theirs.page.locator('nav a[data-page="usage"]').click()
            await expect(theirs.page.locator("body")).not_to_contain_class("is-loading")
            await expect(theirs.part("usage-row")).to_have_count(1)
            await expect(theirs.part("usage-row")).to_contain_text("alice")
            await expect(theirs.part("keys")).to_be_hidden()
        async with unlocked(browser, server, OWN, "/usage") as window:
            assert json.dumps(key) not in await window.page.content()
            await window.part("revoke").focus()
            await window.page.keyboard.press("Enter")
            await window.part("confirm").press("Enter")
            await expect(window.part("key-row")).to_contain_text("(revoked)")
            await expect(window.part("keys")).to_be_focused()
        async with httpx2.AsyncClient(base_url=server.url, timeout=60) as http:
            response = await http.post("/v1/chat/completions", json=CHAT, headers={"x-api-key": key})
            assert response.status_code == 401


async def test_notes_count_the_requests_without_a_price_and_those_that_are_estimated(
    browser: Browser, tmp_path: Path
) -> None:
    sums = {"requests": 3, "input": 1, "output": 1, "cache_read": 0, "cache_write": 0, "cost": None}

    async def answer(route: Route) -> None:
        group = "day" if "by=day" in route.request.url else "key"
        row = {group: "2027-01-01", **sums, "unpriced": 1, "estimated": 2}
        await route.fulfill(json={"rows": [row]})

    async with gateway(tmp_path) as server, unlocked(browser, server, OWN, "/") as window:
        await window.page.route("**/api/usage?*", answer)
        await window.open("/usage")
        await expect(window.page.locator("tl-usage > .form-hint")).to_have_text(
            "The cost of 1 request is unknown, because the model has no price. The tokens of 2 requests are estimates."
        )


async def test_an_unfinished_number_or_date_is_a_mistake_and_not_an_empty_field(
    browser: Browser, tmp_path: Path
) -> None:
    async with gateway(tmp_path) as server, unlocked(browser, server, OWN, "/usage") as window:
        await window.part("key-name").fill("alice")
        for field, typed in (("tokens_per_day", "1e"), ("key-expires", "12")):
            await window.part(field).focus()
            await window.page.keyboard.type(typed)
            await window.part("create-key").click()
            await expect(window.part(field)).to_be_focused()
            await expect(window.page.locator(".field-problem:visible")).to_have_count(1)
            await expect(window.part("key-row")).to_have_count(0)
            await window.part(field).fill("")
        await window.part("create-key").click()
        await expect(window.part("key-row")).to_have_count(1)


async def test_the_permissions_of_a_new_key_do_not_carry_over_to_the_next(browser: Browser, tmp_path: Path) -> None:
    async with gateway(tmp_path) as server, unlocked(browser, server, OWN, "/usage") as window:
        await window.part("key-name").fill("alice")
        await window.part("key-page").uncheck()
        await window.part("key-admin").check()
        await window.part("create-key").click()
        await expect(window.part("key-row")).to_have_count(1)
        await expect(window.part("key-name")).to_have_value("")
        await expect(window.part("key-admin")).not_to_be_checked()
        await expect(window.part("key-page")).to_be_checked()


async def test_usage_of_a_range_that_arrives_late_does_not_replace_the_chosen_one(
    browser: Browser, tmp_path: Path
) -> None:
    sums = {"requests": 3, "input": 1, "output": 1, "cache_read": 0, "cache_write": 0, "cost": None}
    row = {**sums, "unpriced": 0, "estimated": 0}
    go = asyncio.Event()
    week, quarter = (str((datetime.now(UTC) - timedelta(days=days - 1)).date()) for days in (7, 90))

    async def answer(route: Route) -> None:
        if week in route.request.url:
            await go.wait()
        days = ("2027-01-01", "2027-01-02") if quarter in route.request.url else ("2027-01-02",)
        await route.fulfill(json={"rows": [{"day": day, **row} for day in days]})

    async with gateway(tmp_path) as server, unlocked(browser, server, OWN, "/usage") as window:
        await window.page.route("**/api/usage?*", answer)
        await window.part("usage-group-by").select_option("day")
        await expect(window.part("usage-row")).to_have_count(1)
        async with window.page.expect_request(re.compile(week)):
            await window.part("usage-range").select_option("7")
        await window.part("usage-range").select_option("90")
        await expect(window.part("usage-row")).to_have_count(2)
        async with window.page.expect_response(re.compile(week)) as late:
            go.set()
        await (await late.value).finished()
        await window.page.evaluate("() => new Promise((resolve) => setTimeout(resolve))")
        await expect(window.part("usage-row")).to_have_count(2)


async def test_the_page_says_why_there_is_no_usage(windows: Windows) -> None:
    window = await windows.new("/usage")
    await expect(window.part("no-usage")).to_contain_text("Usage is not recorded. Create a named key")
    await expect(window.part("notices")).to_be_empty()
