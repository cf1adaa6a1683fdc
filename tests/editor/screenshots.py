"""Makes the pictures of the editor extension: `make screenshots` opens the workbench and does what people do."""

import asyncio
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from playwright.async_api import async_playwright, expect

from tests.editor.editor_window import EditorWindow
from tests.editor.package import NotInstalled, workbench
from tests.editor.stand import EditorGateway, EditorStand, packaged
from tests.editor.web_server import serving
from tests.web.browser import FLAGS, chromium
from tests.web.screenshots import AFTER, BEFORE, IMAGES, LARGEST, Local, fix
from tieline.model.inbox import Approval

SCREEN: dict[str, Any] = {"viewport": {"width": 1280, "height": 800}, "device_scale_factor": 1.25}
SETTINGS = {
    "workbench.colorTheme": "Default Dark Modern",
    "diffEditor.renderSideBySide": False,
    "editor.fontSize": 13,
}
MODEL = "local/qwen3-coder"
WIDER = 110
"""By how many pixels the side bar is made wider than it is at first."""
REST = """

def farewell(name: str = "world") -> str:
    return f"Goodbye, {name}!"


def main() -> None:
    import argparse

    parser = argparse.ArgumentParser(description="Greet by name.")
    parser.add_argument("name", nargs="?", default="world")
    parser.add_argument("--leave", action="store_true", help="say goodbye instead")
    options = parser.parse_args()
    print((farewell if options.leave else greet)(options.name))


if __name__ == "__main__":
    main()
"""
COMMAND = 'python3 -m pytest -q tests &&\n  git commit --all --message "Greet the world by default"'


async def main() -> None:
    """Take all pictures in one window."""
    path = chromium()
    if path is None:
        sys.exit("Chromium is not installed: there is nothing to take pictures with.")
    try:
        files = await asyncio.to_thread(workbench)
    except NotInstalled as error:
        sys.exit(f"VS Code's workbench is not available: {error}")
    with (
        TemporaryDirectory(prefix="tieline-") as home,
        TemporaryDirectory(prefix="tieline-") as folders,
        serving(files, {"tieline": packaged(Path(home))}, Path(folders)) as server,
    ):
        gateway = EditorGateway(Path(home), server.origin, backend=Local(), default_model=MODEL)
        await gateway.start()
        async with async_playwright() as driver:
            browser = await driver.chromium.launch(executable_path=path, args=FLAGS)
            await _pictures(EditorStand(browser, server), gateway)
            await browser.close()
        await gateway.stop()


async def _pictures(stand: EditorStand, gateway: EditorGateway) -> None:
    folder = stand.new_folder("greeter")
    (folder / "greet.py").write_text(BEFORE)
    async with stand.opened(folder, gateway.url, SETTINGS, screen=SCREEN) as window:
        await _widen(window)
        await _chat(window, gateway)
        await _permission(window, gateway)


async def _widen(window: EditorWindow) -> None:
    await window.open_chat()
    box = await window.page.locator(".part.sidebar").bounding_box()
    assert box is not None
    edge = box["x"] + box["width"]
    await window.page.mouse.move(edge, 400)
    await window.page.mouse.down()
    await window.page.mouse.move(edge + WIDER, 400, steps=3)
    await window.page.mouse.up()
    await window.page.mouse.move(900, 600)


async def _chat(window: EditorWindow, gateway: EditorGateway) -> None:
    gateway.backend.legs.append(fix())
    chat = window.chat
    await chat.say("Find out why the test of greet fails, and fix it")
    await expect(chat.answer).to_contain_text("none skipped")
    await expect(chat.part("send")).to_be_visible()
    # By key: with a scale factor, the browser misplaces clicks in frames of other sites.
    await chat.answer.get_by_role("button", name="Open diff of greet.py").press("Enter")
    await expect(window.diff).to_contain_text("world")
    await window.diff.get_by_role("textbox").last.focus()
    await _take(window, "editor-chat")


async def _permission(window: EditorWindow, gateway: EditorGateway) -> None:
    (window.folder / "greet.py").write_text(AFTER + REST)
    await window.tidy()
    await window.open_file("greet.py")
    await window.open_chat()
    item = Approval(title="Run the tests, then commit", kind="execute", command=COMMAND)
    answer = await gateway.ask_in(window.folder, item, model="claude-sonnet-4-5")
    await window.press("Review", window.notification("Run the tests"))
    await expect(window.dialog).to_be_visible()
    await _take(window, "editor-permission")
    await window.press("Deny")
    await answer


async def _take(window: EditorWindow, name: str) -> None:
    path = IMAGES / f"{name}.png"
    await window.page.screenshot(path=path, animations="disabled", caret="hide")
    assert path.stat().st_size < LARGEST, f"{path.name} is too large"


if __name__ == "__main__":
    asyncio.run(main())
