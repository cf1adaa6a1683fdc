"""The inbox: holds items that wait for a person's answer, and checks whether an answer fits its item.

An item waits until it is answered, its leg ends, or it times out. An item that times out is answered with a rejection
that states the cause. A *watcher* is a program that shows the items of a scope to a person, such as the web page. The
timeout of an item runs only while no watcher's scope covers the item, and restarts when the last such watcher leaves.
`MAX_WAIT` limits the wait in every case, so no leg hangs forever. Every item and every answer is written to the audit
log.

In a cluster, each replica has an inbox with the items of its own legs, and shows the items of all replicas
(`SharedInbox`). A watcher on any replica counts for the items of all replicas. An item is answered on the replica that
holds it.
"""

import asyncio
import logging
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Literal, Protocol

import msgspec
from msgspec.structs import replace

from tieline.core.inbox import bounded_regex
from tieline.model.content import Value
from tieline.model.errors import BadRequest, GatewayError
from tieline.model.inbox import (
    ALLOWING_KINDS,
    Answer,
    Approval,
    ApprovalAnswer,
    Field,
    InboxItem,
    Option,
    Origin,
    PlanReview,
    Question,
    QuestionAnswer,
    ReviewAnswer,
)
from tieline.model.scope import EVERYTHING, Scope

log = logging.getLogger("tieline")

TIMEOUT = 120.0
MAX_WAIT = 24 * 3600.0
"""Maximum number of seconds that an item waits. This limit applies even while an item is watched."""
MAX_WAITING = 256
MAX_TOTAL_SIZE = 32 << 20
"""Maximum total size of the waiting items, in characters. All of them are sent to all watchers after every change."""
MAX_SHOWN = 256
MAX_LOGGED_PATTERN = 256

AuditAction = Literal["asked", "decided", "expired", "withdrawn", "refused"]


class PendingItem(Value):
    """An item that waits for an answer. `since` and `until` are Unix timestamps."""

    id: str
    origin: Origin
    content: InboxItem = msgspec.field(name="ask")
    since: float
    until: float | None = None
    """The time at which the item times out; None while the item is watched."""


class AuditEntry(Value):
    """One line of the audit log. `item` is the id of the inbox item, `by` the person or program that answered it."""

    at: float
    what: AuditAction
    item: str
    origin: Origin
    content: InboxItem | None = msgspec.field(default=None, name="ask")
    answer: Answer | None = None
    by: str = ""


Listener = Callable[[Origin, InboxItem, Answer], None]


class SharedInbox(Protocol):
    """The inboxes of the other replicas of a cluster. It calls `Inbox.others_changed` after each change."""

    @property
    def source(self) -> str:
        """The name of this replica."""

    @property
    def items(self) -> Sequence[PendingItem]:
        """The items that wait on other replicas."""

    @property
    def watchers(self) -> Collection[Scope]:
        """The scopes of the watchers of other replicas."""

    def publish(self, items: Sequence[PendingItem], watchers: Collection[Scope]) -> None:
        """Publish this replica's items and the scopes of its watchers to the other replicas, in the background."""


class Inbox:
    """Holds the items that wait for an answer, in order of arrival."""

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
        """Futures by item id. The result is the answer and the name of its sender, or None after a timeout."""
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._listeners: list[Listener] = []
        self._changed = asyncio.Event()
        self._version = 0
        self._watchers: Counter[Scope] = Counter()
        self._shared: SharedInbox | None = None

    def share(self, shared: SharedInbox) -> None:
        """Show the items of other replicas too, and publish the items and watchers of this one to them."""
        self._shared = shared
        self._publish()
        self.others_changed()

    def others_changed(self) -> None:
        """Update the timers and wake the watchers. Call this after items or watchers of other replicas have changed."""
        self._restart_timers()
        self._wake()

    @property
    def source(self) -> str:
        """The replica to which `version` belongs; empty without a cluster. Versions of two replicas are unrelated."""
        return "" if self._shared is None else self._shared.source

    @property
    def items(self) -> tuple[PendingItem, ...]:
        """The items that are waiting now on this replica."""
        return tuple(self._items.values())

    def items_in(self, scope: Scope) -> tuple[PendingItem, ...]:
        """Return the items of a scope that are waiting now, on any replica."""
        found = [item for item in self._items.values() if _is_in(item.origin, scope)]
        if self._shared is not None and self._shared.items:
            found += (item for item in self._shared.items if _is_in(item.origin, scope))
            found.sort(key=lambda item: item.since)
        return tuple(found)

    @property
    def version(self) -> int:
        """A number that increases whenever the items change."""
        return self._version

    @property
    def is_watched(self) -> bool:
        """Whether the inbox has at least one watcher, of any scope, on any replica."""
        return bool(self._watchers) or (self._shared is not None and bool(self._shared.watchers))

    def is_watched_for(self, origin: Origin) -> bool:
        """Return whether a watcher sees the items of this origin, on any replica."""
        if any(_is_in(origin, scope) for scope in self._watchers):
            return True
        return self._shared is not None and any(_is_in(origin, scope) for scope in self._shared.watchers)

    def listen(self, listener: Listener) -> None:
        """Call `listener` with every answer to an item, including the default answer after a timeout."""
        self._listeners.append(listener)

    def human(self, origin: Origin | Callable[[], Origin]) -> "InboxHuman":
        """Return the object through which a leg asks a person. If `origin` is a function, it is called when needed."""
        return InboxHuman(self, origin)

    @asynccontextmanager
    async def watched(self, scope: Scope = EVERYTHING) -> AsyncGenerator[None, None]:
        """Watch the items of a scope. They count as watched until the context is left."""
        self._watchers[scope] += 1
        self._watchers_changed()
        try:
            yield
        finally:
            self._watchers[scope] -= 1
            if not self._watchers[scope]:
                del self._watchers[scope]
            self._watchers_changed()

    async def change(self, seen: int) -> int:
        """Wait until `version` differs from `seen`, and return the new version."""
        while self._version == seen:
            await self._changed.wait()
        return self._version

    def decide(self, item_id: str, answer: Answer, by: str = "", scope: Scope = EVERYTHING) -> None:
        """Answer an item of a scope.

        Raise GatewayError if no such item is waiting in the scope or if the answer does not fit it.
        """
        item = self._items.get(item_id)
        if item is None or self._answers[item_id].done() or not _is_in(item.origin, scope):
            shown = item_id if len(item_id) <= MAX_SHOWN else f"{item_id[:MAX_SHOWN]}…"
            raise GatewayError("not_found", f"No item `{shown}` is waiting: it was answered already, or it timed out.")
        answer = _as_review(item.content, answer)
        check_answer(item.content, answer)
        self._answers[item_id].set_result((answer, by))
        self._remove(item_id)

    def withdraw(self, scope: Scope, reason: str) -> None:
        """Reject all items of a scope that wait on this replica, for this reason."""
        for item in self.items:
            if not _is_in(item.origin, scope):
                continue
            if not self._answers[item.id].done():
                self._answers[item.id].set_result((default_answer(item.content, reason), "gateway"))
            self._remove(item.id)

    async def ask(self, origin: Origin, item: InboxItem) -> Answer:
        """Add an item and wait for its answer. Return a rejection if the item times out or the inbox is full."""
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
            waited = self._max_wait if self.is_watched_for(origin) else self._timeout
            return self._reject(origin, item_id, item, "expired", f"Nobody answered within {waited:g} seconds.")
        answer, by = given
        self._log("decided", item_id, origin, answer=answer, by=by)
        return answer

    @property
    def _max_wait(self) -> float:
        return max(MAX_WAIT, self._timeout)

    def _watchers_changed(self) -> None:
        self._restart_timers()
        self._publish()

    def _restart_timers(self) -> None:
        """Restart the timers of the items that have become watched or unwatched."""
        changed = [
            item_id
            for item_id, item in self._items.items()
            if (item.until is None) is not self.is_watched_for(item.origin)
        ]
        for item_id in changed:
            self._restart_timer(item_id)
        if changed:
            self._notify()

    def _restart_timer(self, item_id: str) -> None:
        pending, now = self._items[item_id], self._clock()
        latest = pending.since + self._max_wait
        is_watched = self.is_watched_for(pending.origin)
        end = latest if is_watched else min(now + self._timeout, latest)
        self._items[item_id] = replace(pending, until=None if is_watched else end)
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
        self._publish()
        self._wake()

    def _publish(self) -> None:
        if self._shared is not None:
            self._shared.publish(self.items, self._watchers.keys())

    def _wake(self) -> None:
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
    """Implements `model.ports.Human` for one leg: adds items to the inbox and waits for their answers."""

    _inbox: Inbox
    _given_origin: Origin | Callable[[], Origin]

    @property
    def is_present(self) -> bool:
        return self._inbox.is_watched_for(self._origin)

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


def _is_in(origin: Origin, scope: Scope) -> bool:
    return scope.covers(origin.owner, origin.workspace)


def _size(item: InboxItem) -> int:
    """Return the approximate size of an item in characters."""
    match item:
        case Approval():
            return len(item.command or "") + len(item.diff) + len(item.detail) + len(item.input)
        case PlanReview():
            return len(item.plan) + len(item.detail) + len(item.input)
        case Question():
            return len(item.message)


# ── Answers ──────────────────────────────────────────────────────────────────────────────────────


def default_answer(item: InboxItem, reason: str) -> Answer:
    """Return the answer for an item that no person answers: a rejection with this reason."""
    match item:
        case Approval():
            return ApprovalAnswer(reason=reason)
        case PlanReview():
            return ReviewAnswer(approved=False, feedback=reason, is_unanswered=True)
        case Question():
            return QuestionAnswer(action="cancel", reason=reason)


def _as_review(item: InboxItem, answer: Answer) -> Answer:
    """Convert the choice of an option in a plan review to a ReviewAnswer. Return any other answer unchanged."""
    if not isinstance(item, PlanReview) or not isinstance(answer, ApprovalAnswer):
        return answer
    chosen = next((option for option in item.options if option.id == answer.option), None)
    is_approved = chosen is not None and chosen.kind in ALLOWING_KINDS
    return ReviewAnswer(approved=is_approved, feedback=answer.reason, option=answer.option)


def check_answer(item: InboxItem, answer: Answer) -> None:
    """Raise BadRequest if an answer does not fit its item."""
    match item, answer:
        case Approval(), ApprovalAnswer(option=option):
            _check_option(option, item.options)
        case PlanReview(), ReviewAnswer(option=option):
            chosen = _check_option(option, item.options)
            if chosen is not None and answer.approved != (chosen.kind in ALLOWING_KINDS):
                does = "approves" if chosen.kind in ALLOWING_KINDS else "rejects"
                raise BadRequest(f"`approved` is {str(answer.approved).lower()}, but `{option}` {does}", "approved")
        case Question(), QuestionAnswer(action="accept"):
            _check_values(item, answer.values)
        case Question(), QuestionAnswer():
            pass
        case _:
            raise BadRequest(f"an item of type `{_tag(item)}` cannot be answered with type `{_tag(answer)}`")


def _tag(value: InboxItem | Answer) -> object:
    return type(value).__struct_config__.tag


def _check_option(given: str | None, options: Sequence[Option]) -> Option | None:
    """Return the option with the id `given`, or None if `given` is None. Raise BadRequest for an unknown id."""
    found = next((option for option in options if option.id == given), None)
    if given is not None and found is None:
        known = f"the options are {', '.join(option.id for option in options)}" if options else "there are no options"
        raise BadRequest(f"`option` is {given!r}, but {known}", "option")
    return found


def _check_values(question: Question, values: Mapping[str, Any]) -> None:
    fields = {field.name: field for field in question.fields}
    for name in values:
        if name not in fields:
            known = f"the fields are {', '.join(fields)}" if fields else "the question has no fields"
            raise BadRequest(f"`values.{name}` is not a field of the question; {known}", f"values.{name}")
    for name, field in fields.items():
        value = values.get(name)
        if value is None or value == "" or value == []:
            if field.required:
                raise BadRequest(f"`values.{name}` is required", f"values.{name}")
            continue
        problem = _problem(field, value)
        if problem:
            raise BadRequest(f"`values.{name}` {problem}", f"values.{name}")


def _problem(field: Field, value: Any) -> str:
    """Return what is wrong with a value, as a phrase such as "must be text"; an empty string if the value is valid."""
    match field.kind:
        case "yes_no":
            return "" if isinstance(value, bool) else "must be true or false"
        case "number":
            return _number_problem(field, value)
        case "choice":
            return _choice_problem(field, value)
        case "text" | "file":
            return _text_problem(field, value)


def _number_problem(field: Field, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "must be a number"
    if not abs(value) <= sys.float_info.max:  # NaN, or an integer too large for a float
        return "must be a number that is not too large"
    if field.is_whole and value != int(value):
        return "must be a whole number"
    return _range_problem(field, value, "")


def _range_problem(field: Field, size: float, unit: str) -> str:
    if field.minimum is not None and size < field.minimum:
        return f"must be at least {field.minimum:g}{unit}"
    if field.maximum is not None and size > field.maximum:
        return f"must be at most {field.maximum:g}{unit}"
    return ""


def _choice_problem(field: Field, value: Any) -> str:
    chosen = value if field.many and isinstance(value, list | tuple) else [value]
    known = [option.id for option in field.options]
    for one in chosen:
        if not isinstance(one, str):
            return "must be the id of an option"
        if one not in known and not field.is_open:
            return f"is {one!r}, but the options are {', '.join(known)}"
    if len(set(chosen)) < len(chosen):
        return "must not contain an option twice"
    return _range_problem(field, len(chosen), " options") if field.many else ""


def _text_problem(field: Field, value: Any) -> str:
    if not isinstance(value, str):
        return "must be text"
    if field.pattern and not _could_match(field.pattern, value):
        return f"must match the pattern {field.pattern}"
    return _range_problem(field, len(value), " characters")


def _could_match(pattern: str, value: str) -> bool:
    """Return whether a value matches a pattern, or True if the pattern cannot be checked in bounded time."""
    try:
        return bounded_regex.matches(pattern, value)
    except bounded_regex.UnsupportedPattern as reason:
        log.info("could not check an answer against the pattern %r: %s", pattern[:MAX_LOGGED_PATTERN], reason)
        return True
