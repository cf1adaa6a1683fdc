"""Whatever anybody says, it runs nothing, loads nothing and looks like nothing but words."""

import base64
from collections.abc import Sequence
from pathlib import Path

import openai
import pytest
from playwright.async_api import Browser, Locator, expect

from tests.core.scripted import END, Script, words
from tests.e2e.tools_support import TELL, call, script
from tests.web.browser import IN_CHROMIUM, Server, Window, Windows, profile
from tieline.model.content import Image, Text, Thinking, ToolCall
from tieline.model.events import (
    Activity,
    Batch,
    Diff,
    Event,
    Failed,
    Note,
    PartDelta,
    PartEnd,
    PartStart,
    Plan,
    PlanEntry,
    Started,
)
from tieline.model.inbox import Approval, Field, FieldKind, InboxItem, Option, Origin, PlanReview, Question
from tieline.model.ports import ModelInfo

pytestmark = IN_CHROMIUM

END_OF_IT = "The end of it."
RUN = "window.ran = true; fetch('https://evil.example/fetch')"
TAG = f'<img src=x onerror="{RUN}"><script>{RUN}</script>'
"""Where only some words fit."""
STARTED = Started(id="leg", model="m")

ELEMENTS = f"""<script>{RUN}</script> <SCRIPT SRC=https://evil.example/s.js></SCRIPT> <script/x>{RUN}</script>
<img src=x onerror="{RUN}"> <svg onload="{RUN}"></svg>
<svg><script>{RUN}</script><image href=https://evil.example/i /></svg>
<math><mtext></p><style><a title="</style><img src=x onerror='{RUN}'>"></style></mtext></math>
<iframe src="https://evil.example/frame"></iframe> <iframe srcdoc="<script>parent.ran = true</script>"></iframe>
<object data=https://evil.example/o></object><embed src=https://evil.example/e><video poster=https://evil.example/v>
<link rel=stylesheet href=https://evil.example/link><meta http-equiv=refresh content="0;url=https://evil.example/meta">
<form action=https://evil.example/form><button autofocus onfocus="{RUN}">x</button><input name=body></form>
<a href="javascript:window.ran=true">here</a> <a href="java&#10;script:window.ran=true">there</a>
<tl-inbox-item></tl-inbox-item>
<base href="https://evil.example/"> <details open ontoggle="{RUN}"> <body onload="{RUN}"> <template><b></template>
<!-- --><!--><img src=x onerror="{RUN}">--> <![CDATA[<script>{RUN}</script>]]> <?php ?> <plaintext>

{END_OF_IT}
"""
LINKS = f"""[run](javascript:window.ran=true) [run](JaVaScRiPt:window.ran=true) [run]( javascript:window.ran=true )
[run](java\tscript:window.ran=true) [run](&#106;avascript:window.ran=true) [run](%6aavascript:window.ran=true)
[run](vbscript:x) [data](data:text/html,<script>window.ran=true</script>) [data](data:image/svg+xml;base64,PHN2Zz4=)
[file](file:///etc/passwd) [blob](blob:https://evil.example/x) [about](about:blank) <javascript:window.ran=true>
[quoted](https://good.example/"onmouseover="{RUN}) ['](https://good.example/'onmouseover='{RUN})
[title](https://good.example "x\\" onmouseover=\\"{RUN}") [ref] ![ref] [![in](https://evil.example/in.png)](javascript:1)
![picture](https://evil.example/picture.png) ![picture](//evil.example/p.png)
![picture](data:text/html,<script>1</script>)
![x" onerror="{RUN}](https://evil.example/alt.png) https://evil.example/bare"onmouseover="{RUN}
javascript:window.ran=true

[ref]: javascript:window.ran=true "onerror={RUN}"

{END_OF_IT}
"""
STYLES = f"""<style>@import "https://evil.example/style"; body {{ display: none }}</style>
<div style="position:fixed;inset:0;background:url(https://evil.example/css)">over everything</div>
<p class="hidden notice" id="composer">x</p> # a heading {{style="background:url(https://evil.example/attr)" .hidden}}

| a | b |
|:-:|--:|
| <td style="background:url(https://evil.example/cell)"> | x |

{END_OF_IT}
"""
FENCES = f"""```html"><script>{RUN}</script><img src=x onerror={RUN}>
</code></pre><script>{RUN}</script><img src=x onerror="{RUN}">
```

~~~ python" onmouseover="{RUN}" style="background:url(https://evil.example/info)"
print("</code></pre><img src=x onerror='{RUN}'>")
~~~

    </code></pre><script>{RUN}</script>

`</code><img src=x onerror="{RUN}">` and ``` ` <script>{RUN}</script> ```

{END_OF_IT}
"""
DEEP = f"""{"> " * 3000}quoted

{"- " * 3000}listed

{"[" * 20000} {"*" * 20000} {"![" * 5000} {"`" * 9999} {"<" * 9999} {"&" * 9999} {"|" * 9999}

{"a" * 50000}

{END_OF_IT}
"""
ANSI = (
    "\x1b[31mred\x1b[0m \x1b]0;title\x07 \x1b]8;;https://evil.example/osc\x07link\x1b]8;;\x07 \x9b2J\x00\x08 "
    f"{TAG} {END_OF_IT}"
)
HOSTILE = {"elements": ELEMENTS, "links": LINKS, "styles": STYLES, "fences": FENCES, "deep": DEEP, "ansi": ANSI}

SVG = f"""<svg xmlns="http://www.w3.org/2000/svg" onload="{RUN}"><script>{RUN}</script>
<image href="https://evil.example/svg.png" width="9" height="9"/><style>@import "https://evil.example/svg.css";</style>
<foreignObject width="9" height="9"><iframe xmlns="http://www.w3.org/1999/xhtml" src="https://evil.example/f"/></foreignObject></svg>"""
FORBIDDEN = "script, iframe, style, link, meta, base, object, embed, video, math, template, plaintext, marquee"
UNFOLD = """() => document.querySelectorAll("details").forEach((fold) => (fold.open = true))"""
HANDLERS = "[style], [onerror], [onload], [onfocus], [onmouseover], [ontoggle], [srcdoc], #composer"


async def _harmless(window: Window) -> None:
    """Nothing ran, nothing was asked for elsewhere, and nothing covers the page."""
    assert await window.page.evaluate("window.ran") is None
    assert [url for url in window.requested if not url.startswith((f"{window.url}/", "data:", "blob:"))] == []
    assert window.page.url.startswith(f"{window.url}/")


async def _only_words(place: Locator) -> None:
    """No element that could do anything."""
    await expect(place.locator(FORBIDDEN)).to_have_count(0)
    await expect(place.locator(HANDLERS)).to_have_count(0)
    await expect(place.locator("a[href]:not([href^='http']):not([href^='/'])")).to_have_count(0)
    await expect(place.locator("a[target=_blank]:not([rel~=noopener])")).to_have_count(0)


# ── What a model says ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", HOSTILE)
async def test_an_answer_runs_and_loads_nothing(scripted: Window, server: Server, name: str) -> None:
    text = HOSTILE[name]
    server.backend.legs.append([[STARTED, *words(text), END]])
    await scripted.say(text[:20_000].replace("\x00", ""))
    for _ in ("as it comes", "as it was kept"):
        await expect(scripted.answer).to_contain_text(END_OF_IT)
        await expect(scripted.part("send")).to_be_visible()
        await _only_words(scripted.part("prose"))
        await expect(scripted.part("prose").locator("img, svg:not(.icon)")).to_have_count(0)
        await _harmless(scripted)
        await scripted.page.reload()
    await expect(scripted.composer).to_be_visible()
    assert await scripted.width_beyond() == 0


async def test_an_answer_runs_and_loads_nothing_while_it_is_unfinished(scripted: Window, server: Server) -> None:
    cut = 7
    deltas: list[Event] = [PartDelta(index=0, text=ELEMENTS[at : at + cut]) for at in range(0, len(ELEMENTS), cut)]
    legs: list[Batch] = [[STARTED, PartStart(index=0, part=Text())], *([delta] for delta in deltas)]
    server.backend.legs.append([*legs, [PartEnd(index=0, part=Text(text=ELEMENTS)), END]])
    await scripted.say("Go")
    await expect(scripted.answer).to_contain_text(END_OF_IT)
    await _only_words(scripted.part("prose"))
    await _harmless(scripted)


def everything(text: str) -> list[Event]:
    """An answer that has the text wherever text can be."""
    short = text[:300]
    thought, made = Thinking(text=text), ToolCall(id=short, name=short, arguments=text)
    picture = Image(media_type="image/svg+xml", data=base64.b64encode(SVG.encode()).decode())
    pictures = [
        picture,
        Image(media_type=f'image/png"{TAG}', data="AAAA"),
        Image(media_type="text/html", data=base64.b64encode(TAG.encode()).decode()),
        Image(media_type="image/png", url="https://evil.example/url.png"),
        Image(media_type="image/png", url=f"javascript:{RUN}"),
    ]
    parts: list[Thinking | ToolCall | Image] = [thought, made, *pictures]
    diff = Diff(path=short, old=text, new=f"{text}\n{short}")
    acts = [
        Activity(id=f"{kind}{short}", kind=kind, title=title, status="failed", output=text, diffs=(diff,))
        for kind, title in (("execute", short), ("edit", f"{TAG} x"), (TAG, f'run_terminal {{"command": "{TAG}'))
    ]
    return [
        STARTED,
        *acts,
        Plan(entries=(PlanEntry(content=text, status="in_progress"), PlanEntry(content=short))),
        Note(kind=TAG, message=short),
        *(
            event
            for index, part in enumerate(parts)
            for event in (PartStart(index=index, part=_opening(part)), PartEnd(index=index, part=part))
        ),
        *words(END_OF_IT, len(parts)),
        Failed(kind="upstream", message=text),
    ]


def _opening(part: Thinking | ToolCall | Image) -> Thinking | ToolCall | Image:
    match part:
        case ToolCall(id=call_id, name=name):
            return ToolCall(id=call_id, name=name)
        case Image(media_type=media_type):
            return Image(media_type=media_type)
        case _:
            return Thinking()


@pytest.mark.parametrize("name", ["elements", "styles", "ansi"])
async def test_tools_thoughts_plans_pictures_and_errors_run_and_load_nothing(
    scripted: Window, server: Server, name: str
) -> None:
    server.backend.legs.append([everything(HOSTILE[name])])
    await scripted.say(TAG)
    for _ in ("as it comes", "as it was kept"):
        await expect(scripted.answer).to_contain_text(END_OF_IT)
        await expect(scripted.part("failure")).to_be_visible()
        await scripted.page.evaluate(UNFOLD)
        turns = scripted.part("turns")
        await expect(turns.locator(FORBIDDEN)).to_have_count(0)
        await expect(turns.locator(".turn-body").locator("[onerror], [onload], [srcdoc], #composer")).to_have_count(0)
        await expect(turns.locator("img:not([src^='data:image/'])")).to_have_count(0)
        await _harmless(scripted)
        await scripted.page.reload()
    await expect(scripted.answer.locator(".output-text").first).not_to_contain_text("\x1b")
    await scripted.open("/traffic")
    await scripted.part("leg").first.click()
    await expect(scripted.part("leg-detail")).to_contain_text("What the client received")
    await scripted.page.evaluate(UNFOLD)
    await expect(scripted.part("leg-detail").locator(FORBIDDEN)).to_have_count(0)
    await _harmless(scripted)


async def test_odd_titles_kinds_and_addresses_are_shown_as_they_are(scripted: Window, server: Server) -> None:
    act = Activity(id="a", kind="constructor", title="constructor injection", status="completed")
    image = Image(url="https://")
    leg: list[Event] = [Started(id="leg", model="m"), act]
    leg += [PartStart(index=0, part=Image()), PartEnd(index=0, part=image)]
    server.backend.legs.append([[*leg, END]])
    await scripted.say("Hi")
    for _ in ("as it comes", "as it was kept"):
        await expect(scripted.answer.locator("tl-tool")).to_contain_text("constructor injection")
        await expect(scripted.answer).not_to_contain_text("native code")
        await expect(scripted.answer.locator(".icon-other").first).to_be_visible()
        await expect(scripted.answer).to_contain_text("Image that cannot be shown")
        await scripted.page.reload()


# ── Names ────────────────────────────────────────────────────────────────────────────────────────


class Named(Script):
    """A backend whose models have names that are none."""

    async def models(self) -> Sequence[ModelInfo]:
        return [ModelInfo(id=f"m{TAG}", title=TAG), ModelInfo(id="n", title=f"{TAG} too")]


async def test_names_of_models_files_clients_and_chats_run_and_load_nothing(browser: Browser, tmp_path: Path) -> None:
    server = Server(tmp_path, Named())
    name = "<img src=x onerror='window.ran = true'>.txt"
    (server.root / name).write_text(TAG)
    await server.start()
    async with profile(browser, server.url) as windows:
        window = await windows.new()
        await window.page.keyboard.press("Control+k")
        await window.page.get_by_role("option", name="too").click()
        await window.composer.press_sequentially("@")
        await window.page.get_by_role("option").first.click()
        await expect(window.part("attached-file")).to_contain_text(name)
        await window.say(TAG)
        await expect(window.answer).to_contain_text("answer 1")
        await expect(window.part("session-name")).to_contain_text("<img")
        await _harmless(window)
        agent = {"user-agent": TAG, "x-title": TAG}
        async with openai.AsyncOpenAI(
            base_url=f"{server.url}/v1", api_key="k", max_retries=0, default_headers=agent
        ) as client:
            await client.chat.completions.create(
                model="test/n", messages=[{"role": "user", "content": TAG}], user=TAG, metadata={TAG: TAG}
            )
        await window.open("/traffic")
        await expect(window.part("leg")).to_have_count(2)
        for at in range(2):
            await window.part("leg").nth(at).click()
            await expect(window.part("leg-detail")).to_contain_text("What the client received")
            await expect(window.part("leg-detail").locator(FORBIDDEN)).to_have_count(0)
        await window.open("/connect")
        await _only_words(window.page.locator("tl-connect"))
        await _harmless(window)
    await server.stop()


# ── What is asked ────────────────────────────────────────────────────────────────────────────────

OPTIONS = (
    Option(id="allow", label=TAG, kind="allow_once", description=TAG),
    Option(id=TAG, label=TAG, kind="allow_always", description=TAG),
    Option(id="other", label=TAG, kind="allow_always", description=TAG),
)
KINDS: tuple[FieldKind, ...] = ("yes_no", "choice", "text", "number", "file")
FIELDS = tuple(
    Field(
        name=f"{kind}{TAG}",
        kind=kind,
        title=TAG,
        description=TAG,
        default=TAG,
        options=OPTIONS,
        pattern=TAG,
        format=TAG,
    )
    for kind in KINDS
)
ASKS: dict[str, InboxItem] = {
    "a command": Approval(title=TAG, tool=TAG, kind="execute", command=ELEMENTS, detail=TAG, options=OPTIONS),
    "a change": Approval(
        title=TAG, tool=TAG, kind=TAG, path=TAG, diff=f"--- {TAG}\n+++ {TAG}\n@@ -1 +1 @@\n-{TAG}\n+{TAG}\n", detail=TAG
    ),
    "arguments": Approval(title=ANSI, kind="other", path=TAG, detail=f'{{"{TAG[:20]}": "x"'),
    "a plan": PlanReview(title=TAG, plan=ELEMENTS, steps=(PlanEntry(content=TAG),)),
    "a plan with links": PlanReview(title=TAG, plan=LINKS),
    "a long plan": PlanReview(title=TAG, plan=ELEMENTS * 30),
    "questions": Question(message=TAG, fields=FIELDS),
    "a place": Question(message=TAG, url=f"javascript:{RUN}"),
    "no place": Question(message=TAG, url="https://["),
    "another place": Question(message=TAG, url=f"https://evil.example/\"onclick='{RUN}'"),
}
ORIGIN = Origin(model=TAG, frontend=TAG, client=TAG, title=TAG)


@pytest.mark.parametrize("ask", ASKS.values(), ids=ASKS)
async def test_nothing_that_is_asked_runs_or_loads_anything(window: Window, server: Server, ask: InboxItem) -> None:
    waiting = server.ask(ORIGIN, ask)
    await window.part("inbox-button").click()
    card = window.part("inbox-list").locator("tl-inbox-item")
    await expect(card).to_contain_text("<img")
    await _only_words(card)
    await expect(card.locator("img")).to_have_count(0)
    await _harmless(window)
    waiting.cancel()


async def test_nothing_is_hidden_in_what_is_to_be_allowed(window: Window, server: Server) -> None:
    command = "echo safe\x1b[8m; rm -rf /\x1b[0m \u202e dnammoc \u2066\u200bend\u2800\ufe0f\U000e0100\rstart\nnext"
    waiting = server.ask(Origin(), Approval(title="Run", kind="execute", command=command))
    await window.part("inbox-button").click()
    shown = window.part("inbox-list").locator('[data-test="command"]')
    await expect(shown).to_contain_text(
        "safe\\u001b[8m; rm -rf /\\u001b[0m \\u202e dnammoc \\u2066\\u200bend\\u2800\\ufe0f\\u{e0100}\\u000dstart"
    )
    waiting.cancel()


async def test_a_plan_of_a_model_is_rendered_harmlessly(windows: Windows, window: Window) -> None:
    steps = [{"id": "1", "content": ELEMENTS[:900]}]
    await window.say(script(call("create_plan", title=TAG[:190], plan=ELEMENTS, todos=steps), TELL))
    await expect(window.ask).to_contain_text(END_OF_IT)
    await _only_words(window.ask)
    for one in windows.opened:
        await _harmless(one)
