"""Makes the pictures of the documents: `make screenshots` runs a gateway, does what people do, and looks."""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import anthropic
import openai
from msgspec.structs import replace
from playwright.async_api import Browser, async_playwright, expect

from tests.catalogue.serving import listening
from tests.core.scripted import END, Script, words
from tests.web.browser import DEMO, FLAGS, Server, Window, chromium, profile
from tieline.app.build.application import build
from tieline.app.config import Config
from tieline.model.content import Thinking
from tieline.model.events import (
    Activity,
    Batch,
    Diff,
    Event,
    Failed,
    PartDelta,
    PartEnd,
    PartStart,
    Plan,
    PlanEntry,
    Started,
    Status,
    Usage,
)
from tieline.model.ports import ModelInfo

IMAGES = Path(__file__).parents[2] / "docs" / "images"
ADDRESS = "http://127.0.0.1:18741"
LARGEST = 300_000
"""Bytes of a picture: who clones the repository gets all of them."""
SCREEN: dict[str, Any] = {"viewport": {"width": 1280, "height": 860}, "device_scale_factor": 1.25}
HIGH: dict[str, Any] = {**SCREEN, "viewport": {"width": 1280, "height": 1010}}
PHONE: dict[str, Any] = {
    "viewport": {"width": 390, "height": 844},
    "is_mobile": True,
    "has_touch": True,
    "device_scale_factor": 1.5,
}
MODEL = "qwen3-coder"
FOLDER = "~/.local/state/tieline/examples"
"""The folder of the examples, as it is shown: not that of the machine where the picture is taken."""
CHOICE = """localStorage.setItem("tieline-choice", '{"model": "%s"}')"""

BEFORE = 'def greet(name):\n    return "Hello " + name\n'
AFTER = 'def greet(name: str = "world") -> str:\n    return f"Hello, {name}!"\n'
THOUGHT = "The test calls greet() without a name, so the name needs a default."
ANSWER = """`greet()` failed without a name, and the greeting had no comma. Both are put right:

```python
def greet(name: str = "world") -> str:
    return f"Hello, {name}!"
```

All **3 tests** pass now, none skipped.
"""
STEPS = ("Find out what fails", "Give the name a default", "Run the tests again")
WRITE = "write `def greet(name): return f'Hello, {name}!'` to greet.py, then run: python3 greet.py"


class Local(Script):
    """A model on this machine."""

    name = "local"

    async def models(self) -> Sequence[ModelInfo]:
        return [ModelInfo(id="qwen3-coder", context=32_000)]


class Moment(asyncio.Event):
    """A pause in a script: things take their time."""

    def __init__(self, length: float) -> None:
        super().__init__()
        self._length = length

    async def wait(self) -> Literal[True]:
        await asyncio.sleep(self._length)
        return True


def fix() -> list[Batch | asyncio.Event]:
    """An answer with everything in it."""
    diff = Diff(path="greet.py", old=BEFORE, new=AFTER)
    output = "tests/test_greet.py ...                    [100%]\n3 passed in 0.02s"
    read = Activity(id="1", kind="read", title="Read greet.py", status="in_progress")
    edit = Activity(id="2", kind="edit", title="Edit greet.py", status="in_progress")
    run = Activity(id="3", kind="execute", title="Run pytest", status="in_progress")
    began: list[Event] = [
        Started(id="leg", model="qwen3-coder"),
        PartStart(index=0, part=Thinking()),
        PartDelta(index=0, text=THOUGHT),
        PartEnd(index=0, part=Thinking(text=THOUGHT)),
        plan(0),
        read,
    ]
    return [
        began,
        Moment(0.08),
        [replace(read, status="completed"), plan(1), edit],
        Moment(0.25),
        [replace(edit, status="completed", diffs=(diff,)), plan(2), run],
        Moment(1.3),
        [replace(run, status="completed", output=output), plan(3)],
        [*words(ANSWER, 1), Usage(input=9200, output=310), END],
    ]


def plan(done: int) -> Plan:
    """The plan of the answer when so many of its steps are done."""
    states: list[Status] = [
        "completed" if at < done else "in_progress" if at == done else "pending" for at in range(len(STEPS))
    ]
    steps = zip(STEPS, states, strict=True)
    return Plan(entries=tuple(PlanEntry(content=step, status=state) for step, state in steps))


async def main() -> None:
    """Everything, one picture after the other."""
    path = chromium()
    if path is None:
        sys.exit("Chromium is not installed: there is nothing to take pictures with.")
    IMAGES.mkdir(exist_ok=True)
    with TemporaryDirectory(prefix="tieline-") as home:
        server = Server(Path(home), Local())
        server.url = ADDRESS
        (server.root / "greet.py").write_text(BEFORE)
        await server.start()
        async with async_playwright() as driver:
            browser = await driver.chromium.launch(executable_path=path, args=FLAGS)
            await _chat(browser, server)
            await _asked(browser, server)
            await _traffic(browser, server)
            await server.stop()
            await _first_run(browser)
            await browser.close()


async def _chat(browser: Browser, server: Server) -> None:
    async with profile(browser, server.url, **HIGH) as windows:
        await windows.context.add_init_script(CHOICE % "local/qwen3-coder")
        for question in ("What does this project do?", "Write the release notes"):
            window = await windows.new()
            await window.say(question)
            await expect(window.answer).to_contain_text("answer")
        server.backend.legs.append(fix())
        window = await windows.new()
        await window.say("Find out why the test of greet fails, and fix it")
        await expect(window.answer).to_contain_text("none skipped")
        await expect(window.part("send")).to_be_visible()
        await _take(window, "chat")


async def _asked(browser: Browser, server: Server) -> None:
    for name, settings in (("permission", SCREEN), ("phone", {**PHONE, "color_scheme": "dark"})):
        async with profile(browser, server.url, **settings) as windows:
            await windows.context.add_init_script(CHOICE % DEMO)
            window = await windows.new()
            await window.say(WRITE)
            await expect(window.ask).to_contain_text("greet.py")
            await expect(window.ask.locator("[aria-disabled]")).to_have_count(0)
            await _take(window, name)
            await window.part("stop").click()
            await expect(window.part("send")).to_be_visible()


async def _traffic(browser: Browser, server: Server) -> None:
    async with profile(browser, server.url, **SCREEN) as windows:
        window = await windows.new("/traffic")
        await _ask_around(server)
        await expect(window.page.locator('[data-test="leg"][data-status="ok"]').nth(4)).to_be_visible()
        await window.part("leg").filter(has_text="read greet.py").first.click()
        await expect(window.part("leg-detail")).to_contain_text("What the client received")
        await _take(window, "traffic")


async def _first_run(browser: Browser) -> None:
    """What a new user sees, on a gateway without any settings, and a model server on the same machine."""
    with TemporaryDirectory(prefix="tieline-") as home, TemporaryDirectory(prefix="tieline-") as other:
        app = build(Config(), {"HOME": home, "PATH": "/usr/bin:/bin"})
        model_server = build(Config(aliases={MODEL: DEMO}), {"HOME": other, "PATH": ""})
        async with (
            listening(app, int(ADDRESS.rpartition(":")[2])) as url,
            listening(model_server, 8000),
            profile(browser, url, **SCREEN) as windows,
        ):
            window = await windows.new()
            await window.page.locator(".examples-note code").evaluate(f"one => one.textContent = {FOLDER!r}")
            await _take(window, "examples")
            await window.open("/connect#add-model")
            await window.part("provider").select_option("vllm")
            await window.part("name").fill("local")
            await window.part("models").fill(MODEL)
            await window.part("test").click()
            await expect(window.part("step-tools")).to_have_attribute("data-state", "ok")
            await _take(window, "connect")
        await app.aclose()
        await model_server.aclose()


async def _ask_around(server: Server) -> None:
    """Requests of other clients."""
    async with (
        openai.AsyncOpenAI(
            base_url=f"{server.url}/v1",
            api_key="local",
            max_retries=0,
            default_headers={"user-agent": "opencode/1.0.120"},
        ) as chat,
        anthropic.AsyncAnthropic(
            base_url=server.url,
            api_key="local",
            max_retries=0,
            default_headers={"user-agent": "claude-cli/2.0.14 (external, cli)"},
        ) as messages,
    ):
        server.backend.legs.append([[Failed(kind="overloaded", message="The model is loading.")]])
        await asyncio.gather(
            chat.chat.completions.create(model="local/qwen3-coder", messages=[{"role": "user", "content": "Hello"}]),
            return_exceptions=True,
        )
        for question in ("What can you do?", "read greet.py", "list the files", "say something nice"):
            await chat.chat.completions.create(model=DEMO, messages=[{"role": "user", "content": question}])
            await messages.messages.create(
                model=DEMO, max_tokens=500, messages=[{"role": "user", "content": f"{question} Think about it."}]
            )


async def _take(window: Window, name: str) -> None:
    path = IMAGES / f"{name}.png"
    await window.page.screenshot(path=path, animations="disabled", caret="hide")
    assert path.stat().st_size < LARGEST, f"{path.name} is too large"


if __name__ == "__main__":
    asyncio.run(main())
