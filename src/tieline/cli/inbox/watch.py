"""Watching the inbox in a terminal: each new ask is shown as it comes, and answered with a key."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing

from tieline.cli.inbox import answers, text
from tieline.core.inbox.inbox import PendingItem
from tieline.model.errors import GatewayError
from tieline.model.inbox import Answer, InboxItem, PlanReview, Question

Say = Callable[[str], None]
Clock = Callable[[], float]
Decide = Callable[[str, Answer], Awaitable[None]]
Changes = AsyncGenerator[tuple[PendingItem, ...], None]

REACTION = 0.5
"""Nobody reads a question and answers it in so few seconds: the key was meant for the one before."""
RECONNECT = 2.0
RULE = "─" * 60


class Watch:
    """What was shown to the person, and what the next key answers: always the oldest that waits."""

    def __init__(self, decide: Decide, say: Say, clock: Clock, *, takes_keys: bool) -> None:
        self._decide = decide
        self._say = say
        self._clock = clock
        self._takes_keys = takes_keys
        self._waiting: dict[str, PendingItem] = {}
        self._answered: set[str] = set()
        self._asked = ""
        """The id of the one that a key answers."""
        self._asked_at = 0.0

    def show(self, items: Sequence[PendingItem]) -> None:
        """Tell what is new and what is gone."""
        now = {item.id: item for item in items if item.id not in self._answered}
        for item_id in self._waiting.keys() - now.keys() - self._answered:
            self._say(f"{item_id}  waits no longer.")
        for item_id, item in now.items():
            if item_id not in self._waiting:
                self._say(f"\n{RULE}\n{text.described(item, self._clock())}")
        self._answered &= {item.id for item in items}
        self._waiting = now
        self._ask_next()

    async def take(self, typed: str) -> None:
        """Something was typed."""
        item = self._waiting.get(self._asked)
        typed = typed.strip()
        if item is None or not typed:
            return
        if self._clock() - self._asked_at < REACTION:
            self._say("That came before you could have read this. Once more, please.")
            return
        try:
            answer = _meant(item.content, typed)
            if answer is None:
                self._say(f"? {text.keys(item.content)}")
                return
            self._answered.add(item.id)
            await self._decide(item.id, answer)
        except GatewayError as error:
            self._answered.discard(item.id)
            self._say(error.message)
            return
        self._say(f"{item.id}  answered.")
        self._waiting.pop(item.id, None)
        self._ask_next()

    def _ask_next(self) -> None:
        """Say which one a key answers now."""
        if not self._takes_keys:
            return
        item = next((item for item in self._waiting.values() if text.keys(item.content)), None)
        if item is None:
            self._asked = ""
        elif item.id != self._asked:
            self._asked, self._asked_at = item.id, self._clock()
            self._say(f"\n{text.headline(item)}\n? {text.keys(item.content)}")


def _meant(ask: InboxItem, typed: str) -> Answer | None:
    """The answer that a line means; None if it means none."""
    if isinstance(ask, Question):
        return answers.fill(ask, [f"{ask.fields[0].name}={typed}"])
    key, _, rest = typed.partition(" ")
    match key.lower():
        case "y" | "yes" if isinstance(ask, PlanReview) and rest.strip():
            return answers.choose(ask, rest.strip())
        case "y" | "yes":
            return answers.yes(ask)
        case "a" | "always":
            return answers.always(ask)
        case "n" | "no":
            return answers.no(ask, rest.strip())
        case _:
            return None


async def follow(changes: Callable[[], Changes], watch: Watch, say: Say, *, pause: float = RECONNECT) -> None:
    """Show what waits for as long as somebody looks; a gateway that is started anew is found again."""
    was_there = is_told = False
    while True:
        try:
            async with aclosing(changes()) as lists:
                async for items in lists:
                    if not was_there or is_told:
                        say("Watching the inbox; Ctrl-C ends that." + ("" if items else " Nothing waits."))
                    was_there, is_told = True, False
                    watch.show(items)
        except GatewayError as error:
            if not was_there or error.kind == "unauthorized":
                raise
        if not is_told:
            say("The gateway has gone. As soon as it is back, this goes on.")
            is_told = True
            watch.show(())
        await asyncio.sleep(pause)
