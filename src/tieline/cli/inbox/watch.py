"""The command `tieline inbox watch`: shows new items as they arrive, and reads the user's answers from the terminal."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing

from tieline.cli.inbox import answers, formatting
from tieline.core.inbox.inbox import PendingItem
from tieline.model.errors import GatewayError
from tieline.model.inbox import Answer

Say = Callable[[str], None]
Clock = Callable[[], float]
Decide = Callable[[str, Answer], Awaitable[None]]
Changes = AsyncGenerator[tuple[PendingItem, ...], None]

REACTION = 0.5
"""Lines are ignored for this many seconds after a new item appears, because they were meant for an earlier one."""
RECONNECT = 2.0
RULE = "─" * 60


class InboxWatch:
    """Shows inbox items and processes typed lines. Each line answers the oldest item that one line can answer.

    `decide` sends an answer to the gateway. `takes_keys` says whether the user can type answers.
    """

    def __init__(self, decide: Decide, say: Say, clock: Clock, *, takes_keys: bool) -> None:
        self._decide = decide
        self._say = say
        self._clock = clock
        self._takes_keys = takes_keys
        self._waiting: dict[str, PendingItem] = {}
        self._answered: set[str] = set()
        self._asked = ""
        """The id of the item that the next typed line answers."""
        self._asked_at = 0.0

    def show(self, items: Sequence[PendingItem]) -> None:
        """Print the new items in `items`, and the ids of items shown earlier that are no longer waiting."""
        now = {item.id: item for item in items if item.id not in self._answered}
        for item_id in self._waiting.keys() - now.keys() - self._answered:
            self._say(f"{item_id}  is no longer waiting.")
        for item_id, item in now.items():
            if item_id not in self._waiting:
                self._say(f"\n{RULE}\n{formatting.format_item(item, self._clock())}")
        self._answered &= {item.id for item in items}
        self._waiting = now
        self._ask_next()

    async def take(self, typed: str) -> None:
        """Answer the current item with the line `typed`, or explain why the line is not a valid answer."""
        item = self._waiting.get(self._asked)
        typed = typed.strip()
        if item is None or not typed:
            return
        if self._clock() - self._asked_at < REACTION:
            self._say("You typed this before the request appeared. Please answer again.")
            return
        try:
            answer = answers.from_typed(item.content, typed)
            if answer is None:
                self._say(f"? {formatting.key_hint(item.content)}")
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
        """Choose the item that the next typed line answers, and print it with a hint."""
        if not self._takes_keys:
            return
        item = next((item for item in self._waiting.values() if formatting.key_hint(item.content)), None)
        if item is None:
            self._asked = ""
        elif item.id != self._asked:
            self._asked, self._asked_at = item.id, self._clock()
            self._say(f"\n{formatting.headline(item)}\n? {formatting.key_hint(item.content)}")


async def follow(changes: Callable[[], Changes], watch: InboxWatch, say: Say, *, pause: float = RECONNECT) -> None:
    """Show items until cancelled. `changes` connects to the gateway and yields all waiting items after each change.

    If the gateway restarts, reconnect after `pause` seconds. Raise GatewayError if the first connection fails or the
    gateway rejects the key.
    """
    was_connected = is_lost = False
    while True:
        try:
            async with aclosing(changes()) as lists:
                async for items in lists:
                    if not was_connected or is_lost:
                        say("Watching the inbox; press Ctrl-C to stop." + ("" if items else " It is empty."))
                    was_connected, is_lost = True, False
                    watch.show(items)
        except GatewayError as error:
            if not was_connected or error.kind == "unauthorized":
                raise
        if not is_lost:
            say("The gateway has stopped. Waiting for it to come back.")
            is_lost = True
            watch.show(())
        await asyncio.sleep(pause)
