"""The inbox: items that wait for a person's answer.

An item waits until it is answered, its leg ends, or it times out; then it is answered with a rejection that states
the cause. The timeout runs only while the inbox has no watcher and restarts when the last watcher leaves. `MAX_WAIT`
limits the wait in every case, so no leg hangs for ever. Every item and every answer goes to the audit log.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Literal

import msgspec
from msgspec.structs import replace

from tieline.core.inbox.answers import as_review, check, default_answer
from tieline.model.content import Value
from tieline.model.errors import GatewayError
from tieline.model.inbox import (
    Answer,
    Approval,
    ApprovalAnswer,
    InboxItem,
    Origin,
    PlanReview,
    Question,
    QuestionAnswer,
    ReviewAnswer,
)

TIMEOUT = 120.0
MAX_WAIT = 24 * 3600.0
"""Maximum wait in seconds, also while the inbox is watched."""
MAX_WAITING = 256
MAX_TOTAL_SIZE = 32 << 20
"""Maximum size of all waiting items in characters; each change sends all of them to every watcher."""
MAX_SHOWN = 256

AuditAction = Literal["asked", "decided", "expired", "withdrawn", "refused"]


class PendingItem(Value):
    """An item that waits; `since` and `until` are seconds since 1970."""

    id: str
    origin: Origin
    content: InboxItem = msgspec.field(name="ask")
    since: float
    until: float | None = None
    """When the item times out; None while the inbox is watched."""


class AuditEntry(Value):
    """One line of the audit log. `item` is the id of the item."""

    at: float
    what: AuditAction
    item: str
    origin: Origin
    content: InboxItem | None = msgspec.field(default=None, name="ask")
    answer: Answer | None = None
    by: str = ""


Listener = Callable[[Origin, InboxItem, Answer], None]


class Inbox:
    """The waiting items, in order of arrival."""

    def __init__(
        self,
        *,
        mint: Callable[[], str],
        clock: Callable[[], float],
        audit: Callable[[AuditEntry], None] = lambda _: None,
        timeout: float = TIMEOUT,
    ) -> None:
        self._mint = mint
        self._clock = clock
        self._audit = audit
        self._timeout = timeout
        self._items: dict[str, PendingItem] = {}
        self._answers: dict[str, asyncio.Future[tuple[Answer, str] | None]] = {}
        """By item id. The result None means that the item timed out."""
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._listeners: list[Listener] = []
        self._changed = asyncio.Event()
        self._version = 0
        self._watchers = 0

    @property
    def items(self) -> tuple[PendingItem, ...]:
        """The items that wait now."""
        return tuple(self._items.values())

    @property
    def version(self) -> int:
        """Incremented with every change."""
        return self._version

    @property
    def is_watched(self) -> bool:
        """Whether at least one watcher is open."""
        return self._watchers > 0

    def listen(self, listener: Listener) -> None:
        """Call `listener` with every answered item, including default answers."""
        self._listeners.append(listener)

    def human(self, origin: Origin | Callable[[], Origin]) -> "InboxHuman":
        """Return the person a leg can ask. `origin` may be a callable, evaluated with the first item."""
        return InboxHuman(self, origin)

    @asynccontextmanager
    async def watched(self) -> AsyncGenerator[None, None]:
        """Count as a watcher while this is open."""
        self._watchers += 1
        if self._watchers == 1:
            self._restart_timers()
        try:
            yield
        finally:
            self._watchers -= 1
            if self._watchers == 0:
                self._restart_timers()

    async def change(self, seen: int) -> int:
        """Wait until `version` differs from `seen`, and return it."""
        while self._version == seen:
            await self._changed.wait()
        return self._version

    def decide(self, item_id: str, answer: Answer, by: str = "") -> None:
        """Answer an item. Raise GatewayError if it no longer waits or the answer does not fit it."""
        item = self._items.get(item_id)
        if item is None or self._answers[item_id].done():
            shown = item_id if len(item_id) <= MAX_SHOWN else f"{item_id[:MAX_SHOWN]}…"
            raise GatewayError("not_found", f"No item `{shown}` is waiting: it was answered already, or it timed out.")
        answer = as_review(item.content, answer)
        check(item.content, answer)
        self._answers[item_id].set_result((answer, by))
        self._remove(item_id)

    async def ask(self, origin: Origin, item: InboxItem) -> Answer:
        """Add an item and wait for its answer."""
        answer = await self._answer_to(origin, item)
        for listener in self._listeners:
            listener(origin, item, answer)
        return answer

    async def _answer_to(self, origin: Origin, item: InboxItem) -> Answer:
        size = _size(item) + sum(_size(pending.content) for pending in self._items.values())
        if len(self._items) >= MAX_WAITING or size > MAX_TOTAL_SIZE:
            return self._reject(origin, "", item, "refused", "Too many items are waiting for an answer already.")
        item_id = self._mint()
        future: asyncio.Future[tuple[Answer, str] | None] = asyncio.get_running_loop().create_future()
        self._answers[item_id] = future
        self._items[item_id] = PendingItem(id=item_id, origin=origin, content=item, since=self._clock())
        self._restart_timer(item_id)
        self._log("asked", item_id, origin, content=item)
        self._notify()
        try:
            given = await future
        except asyncio.CancelledError:
            self._log("withdrawn", item_id, origin)
            raise
        finally:
            self._remove(item_id)
        if given is None:
            waited = self._max_wait if self.is_watched else self._timeout
            return self._reject(origin, item_id, item, "expired", f"Nobody answered within {waited:g} seconds.")
        answer, by = given
        self._log("decided", item_id, origin, answer=answer, by=by)
        return answer

    @property
    def _max_wait(self) -> float:
        return max(MAX_WAIT, self._timeout)

    def _restart_timers(self) -> None:
        """Restart the timers when the first watcher comes or the last one leaves."""
        for item_id in self._items:
            self._restart_timer(item_id)
        if self._items:
            self._notify()

    def _restart_timer(self, item_id: str) -> None:
        pending, now = self._items[item_id], self._clock()
        latest = pending.since + self._max_wait
        end = latest if self.is_watched else min(now + self._timeout, latest)
        self._items[item_id] = replace(pending, until=None if self.is_watched else end)
        if item_id in self._timers:
            self._timers[item_id].cancel()
        # The timer itself ends the wait, so an answer is either accepted before the timeout or refused after it.
        self._timers[item_id] = asyncio.get_running_loop().call_later(max(0.0, end - now), self._expire, item_id)

    def _expire(self, item_id: str) -> None:
        if not self._answers[item_id].done():
            self._answers[item_id].set_result(None)
        self._remove(item_id)

    def _reject(
        self, origin: Origin, item_id: str, item: InboxItem, what: Literal["expired", "refused"], reason: str
    ) -> Answer:
        answer = default_answer(item, reason)
        self._log(what, item_id, origin, content=item, answer=answer)
        return answer

    def _remove(self, item_id: str) -> None:
        if self._items.pop(item_id, None) is not None:
            self._answers.pop(item_id, None)
            self._timers.pop(item_id).cancel()
            self._notify()

    def _notify(self) -> None:
        self._version += 1
        self._changed.set()
        self._changed = asyncio.Event()

    def _log(
        self,
        what: AuditAction,
        item_id: str,
        origin: Origin,
        *,
        content: InboxItem | None = None,
        answer: Answer | None = None,
        by: str = "",
    ) -> None:
        entry = AuditEntry(
            at=self._clock(), what=what, item=item_id, origin=origin, content=content, answer=answer, by=by
        )
        self._audit(entry)


class InboxHuman(msgspec.Struct, eq=False):
    """The person behind the inbox, as one leg sees them (`model.ports.Human`)."""

    _inbox: Inbox
    _given_origin: Origin | Callable[[], Origin]

    @property
    def is_present(self) -> bool:
        return self._inbox.is_watched

    @property
    def _origin(self) -> Origin:
        if not isinstance(self._given_origin, Origin):
            self._given_origin = self._given_origin()
        return self._given_origin

    async def permit(self, approval: Approval) -> ApprovalAnswer:
        answer = await self._inbox.ask(self._origin, approval)
        return answer if isinstance(answer, ApprovalAnswer) else ApprovalAnswer()

    async def review(self, plan: PlanReview) -> ReviewAnswer:
        answer = await self._inbox.ask(self._origin, plan)
        return answer if isinstance(answer, ReviewAnswer) else ReviewAnswer(approved=False)

    async def fill(self, question: Question) -> QuestionAnswer:
        answer = await self._inbox.ask(self._origin, question)
        return answer if isinstance(answer, QuestionAnswer) else QuestionAnswer(action="cancel")


def _size(item: InboxItem) -> int:
    """Return the approximate size of an item in characters."""
    match item:
        case Approval():
            return len(item.command or "") + len(item.diff) + len(item.detail) + len(item.input)
        case PlanReview():
            return len(item.plan) + len(item.detail) + len(item.input)
        case Question():
            return len(item.message)
