"""What the page must be like for everybody: usable on a phone, readable in the dark."""

from typing import Any

import pytest
from playwright.async_api import Browser, expect

from tests.e2e.tools_support import TELL, call, script
from tests.web.browser import IN_CHROMIUM, Server, centre, profile

pytestmark = IN_CHROMIUM

LONG = (
    "`"
    + "unbreakable" * 40
    + "`\n\n```\n"
    + "a long line " * 40
    + "\n```\n\n| a | b | c |\n|--|--|--|\n"
    + ("| " + "x" * 60 + " | " + "y" * 60 + " | " + "z" * 60 + " |\n")
)
PHONE = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True, "device_scale_factor": 2}
LIGHTNESS = """(property) => {
  const pen = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  pen.fillStyle = getComputedStyle(document.documentElement)[property];
  pen.fillRect(0, 0, 1, 1);
  const linear = (value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
  const [red, green, blue] = [...pen.getImageData(0, 0, 1, 1).data].map((value) => linear(value / 255));
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}"""


# ── On a phone ───────────────────────────────────────────────────────────────────────────────────


async def test_everything_fits_on_a_phone_and_can_be_tapped(browser: Browser, server: Server) -> None:
    (server.root / "a.txt").write_text("a long line " * 40)
    async with profile(browser, server.url, **PHONE) as windows:
        phone = await windows.new()
        await phone.composer.fill(f"say {LONG}")
        await expect(phone.part("send")).to_be_in_viewport(ratio=1)
        await phone.part("send").tap()
        await expect(phone.answer.locator("table")).to_be_attached()
        assert await phone.width_beyond() == 0
        await phone.composer.fill(script(call("write_file", path="a.txt", content="short\n"), TELL))
        await phone.part("send").tap()
        allow = phone.ask.locator('[data-test="option-allow"]')
        await expect(allow).to_be_in_viewport(ratio=1)
        await expect(phone.composer).to_be_in_viewport(ratio=1)
        assert await phone.width_beyond() == 0
        await expect(allow).to_be_enabled()
        await phone.page.touchscreen.tap(*await centre(allow))
        await expect(phone.answer).to_contain_text("It said:")
        await phone.page.get_by_role("button", name="Chats").tap()
        await expect(phone.part("new-chat")).to_be_in_viewport(ratio=1)
        for path in ("/traffic", "/connect"):
            await phone.open(path)
            await expect(phone.page.get_by_role("heading", level=1)).to_be_visible()
            assert await phone.width_beyond() == 0
    assert (server.root / "a.txt").read_text() == "short\n"


# ── Dark and light ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("scheme", "is_dark"), [("light", False), ("dark", True)])
async def test_the_page_follows_the_colours_of_the_system(
    browser: Browser, server: Server, scheme: Any, is_dark: bool
) -> None:
    async with profile(browser, server.url, color_scheme=scheme) as windows:
        window = await windows.new()
        for path in ("/", "/traffic", "/connect"):
            await window.open(path)
            ground = await window.page.evaluate(LIGHTNESS, "backgroundColor")
            ink = await window.page.evaluate(LIGHTNESS, "color")
            assert (ground < ink) is is_dark
            lighter, darker = max(ground, ink), min(ground, ink)
            assert (lighter + 0.05) / (darker + 0.05) > 7
