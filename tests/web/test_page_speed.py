"""Why the page is fast: what is shown already is not touched again, and what nobody sees is not built or laid out."""

import asyncio
import time
from pathlib import Path

import msgspec
from playwright.async_api import expect

from tests.core.scripted import END
from tests.web.browser import IN_CHROMIUM, Server, Window, Windows
from tieline.app.database.documents import open_store
from tieline.core.sessions.stored_session import SHELF, StoredSession
from tieline.model.content import Text
from tieline.model.events import Batch, PartDelta, PartEnd, PartStart, Started
from tieline.model.session import Summary, Turn

pytestmark = IN_CHROMIUM

MESSAGES = 500
DELTAS = 400
SESSION = "long"
FIRST = "The first paragraph, with **some** words.\n\n```python\nreturn 1\n```\n\n"
WATCH = """() => {
  window.seen = { passes: 0, taken: 0, elsewhere: 0 };
  const prose = document.querySelector('[data-test=turn-assistant] [data-test=prose]');
  prose.querySelector("p").dataset.mark = "kept";
  prose.querySelector("pre").dataset.mark = "kept";
  new MutationObserver((changes) => {
    window.seen.passes += 1;
    for (const { target, removedNodes } of changes) {
      const isTail = target.nodeType === Node.TEXT_NODE || target.closest(".tail");
      if (!isTail) window.seen.taken += removedNodes.length;
      if (target.closest?.("[data-mark]")) window.seen.elsewhere += 1;
    }
  }).observe(prose, { childList: true, subtree: true, characterData: true });
}"""


async def test_an_answer_that_grows_leaves_alone_what_is_there(scripted: Window, server: Server) -> None:
    go = asyncio.Event()
    tail = [f"word {at} " if at % 40 else f"\n\nParagraph {at}. " for at in range(DELTAS)]
    head: list[Batch | asyncio.Event] = [
        [Started(id="leg", model="m"), PartStart(index=0, part=Text()), PartDelta(index=0, text=FIRST)],
        go,
    ]
    whole = Text(text=FIRST + "".join(tail))
    deltas: list[Batch] = [[PartDelta(index=0, text=text)] for text in tail]
    server.backend.legs.append([*head, *deltas, [PartEnd(index=0, part=whole), END]])
    await scripted.say("Go")
    await expect(scripted.answer.locator("pre")).to_contain_text("return")
    await scripted.page.evaluate(WATCH)
    go.set()
    await expect(scripted.answer).to_contain_text(f"word {DELTAS - 1}")
    await expect(scripted.part("send")).to_be_visible()
    await expect(scripted.answer.locator("[data-mark=kept]")).to_have_count(2)
    seen = await scripted.page.evaluate("window.seen")
    assert (seen["taken"], seen["elsewhere"]) == (0, 0)
    assert 0 < seen["passes"] < DELTAS / 2  # what comes in one frame is shown in one


async def kept(home: Path) -> None:
    """A long conversation, as an earlier gateway left it."""
    now = time.time()
    store = open_store(home / ".local" / "state" / "tieline")
    summary = Summary(id=SESSION, title="A long one", model="test/m", created=now, updated=now, messages=MESSAGES)
    turns = [_turn(number, now) for number in range(MESSAGES)]
    await store.write(SHELF, SESSION, msgspec.json.encode(StoredSession(summary=summary, head=turns[-1].id)))
    for turn in turns:
        await store.write(f"turns/{SESSION}", turn.id, msgspec.json.encode(turn))
    await store.aclose()


def _turn(number: int, now: float) -> Turn:
    parent = f"t{number - 1}" if number else None
    if number % 2 == 0:
        return Turn(id=f"t{number}", parent=parent, role="user", at=now, parts=(Text(text=f"Question {number}"),))
    text = f"Answer {number}\n\n" + "A line of words that goes on for a while.\n\n" * 8
    return Turn(
        id=f"t{number}", parent=parent, role="assistant", at=now, model="m", parts=(Text(text=text),), ending=END
    )


async def test_of_a_long_conversation_the_end_is_there_first_and_the_rest_is_not_laid_out(
    windows: Windows, server: Server
) -> None:
    await kept(server.home)
    window = await windows.new(f"/#{SESSION}")
    await expect(window.answer).to_contain_text(f"Answer {MESSAGES - 1}")
    await expect(window.answer).to_be_in_viewport()
    turns = window.page.locator("tl-turn")
    await expect(turns).to_have_count(MESSAGES)
    asked = [url.partition("?")[2] for url in window.requested if f"/api/sessions/{SESSION}" in url]
    assert asked[0] == "last=100"
    assert [query.partition("&")[2] for query in asked[1:]] == ["last=300", "last=300"]
    is_laid_out = "turns => turns.filter(turn => turn.checkVisibility({contentVisibilityAuto: true})).length"
    assert 0 < await turns.evaluate_all(is_laid_out) <= 60
    await window.part("scroller").evaluate("scroller => scroller.scrollTo(0, 0)")
    await expect(turns.first).to_be_in_viewport()
    await expect(turns.first).to_contain_text("Question 0")
    assert await turns.evaluate_all(is_laid_out) <= 120
