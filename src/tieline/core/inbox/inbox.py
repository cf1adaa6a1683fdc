"""What waits for a person: permissions, plans and questions of all legs, and whoever answers them.

An ask waits until it is decided, its leg ends, or its time is up; then it is answered with a no that says why. Time
counts only while nobody watches the inbox: the last watcher who leaves starts it anew. A day is the most in any case,
so nothing hangs. Everything asked and decided goes to the audit.
"""

import asyncio
import logging
import sys
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from tieline.core.inbox import patterns
from tieline.model.content import Value
from tieline.model.errors import BadRequest, GatewayError
from tieline.model.inbox import (
    ALLOWING,
    Answer,
    Ask,
    Field,
    Filled,
    Form,
    Option,
    Origin,
    Permission,
    Permitted,
    PlanReview,
    Reviewed,
)

log = logging.getLogger("tieline")

TIMEOUT = 120.0
LONGEST = 24 * 3600.0
"""Seconds that an ask waits at most, also while somebody watches."""
MOST_WAITING = 256
MOST_WEIGHT = 32 << 20
"""Characters that all waiting items may have together: every change sends all of them to everyone who watches."""
LONGEST_TRIED = 256


class Item(Value):
    """An ask that waits; `since` and `until` are seconds since 1970."""

    id: str
    origin: Origin
    ask: Ask
    since: float
    until: float | None = None
    """When the answer will be no; None while somebody watches, as no time counts then."""


class Entry(Value):
    """One line of the audit."""

    at: float
    what: Literal["asked", "decided", "expired", "withdrawn", "refused"]
    item: str
    origin: Origin
    ask: Ask | None = None
    answer: Answer | None = None
    by: str = ""


Listener = Callable[[Origin, Ask, Answer], None]


class Inbox:
    """The asks that wait, in the order they came."""

    def __init__(
        self,
        *,
        mint: Callable[[], str],
        clock: Callable[[], float],
        audit: Callable[[Entry], None] = lambda _: None,
        timeout: float = TIMEOUT,
    ) -> None:
        self._mint = mint
        self._clock = clock
        self._audit = audit
        self._timeout = timeout
        self._items: dict[str, Item] = {}
        self._answers: dict[str, asyncio.Future[tuple[Answer, str] | None]] = {}
        """None instead of an answer: the time is up."""
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._listeners: list[Listener] = []
        self._changed = asyncio.Event()
        self._version = 0
        self._watchers = 0

    @property
    def items(self) -> tuple[Item, ...]:
        """What waits now."""
        return tuple(self._items.values())

    @property
    def version(self) -> int:
        """Counts the changes."""
        return self._version

    @property
    def is_watched(self) -> bool:
        """Whether somebody looks at what waits."""
        return self._watchers > 0

    def listen(self, listener: Listener) -> None:
        """Call this with everything that is answered, also where the answer is a no that stands in for one."""
        self._listeners.append(listener)

    def human(self, origin: Origin | Callable[[], Origin]) -> "Desk":
        """The person of a leg, as it sees one; few legs ask, so where one comes from can be told when it does."""
        return Desk(self, origin)

    @asynccontextmanager
    async def watched(self) -> AsyncGenerator[None, None]:
        """Count as a watcher while this is open."""
        self._watchers += 1
        if self._watchers == 1:
            self._time_all()
        try:
            yield
        finally:
            self._watchers -= 1
            if self._watchers == 0:
                self._time_all()

    async def change(self, seen: int) -> int:
        """Wait until there is something newer than the version `seen`."""
        while self._version == seen:
            await self._changed.wait()
        return self._version

    def decide(self, item_id: str, answer: Answer, by: str = "") -> None:
        """Answer what waits; raises GatewayError if it does not wait any more or the answer does not fit."""
        item = self._items.get(item_id)
        if item is None or self._answers[item_id].done():
            shown = item_id if len(item_id) <= LONGEST_TRIED else f"{item_id[:LONGEST_TRIED]}…"
            raise GatewayError("not_found", f"Nothing waits under `{shown}`: it was decided, or its time was up.")
        answer = converted(item.ask, answer)
        check(item.ask, answer)
        self._answers[item_id].set_result((answer, by))
        self._forget(item_id)

    async def ask(self, origin: Origin, ask: Ask) -> Answer:
        """Put something before the person and wait for the answer."""
        answer = await self._asked(origin, ask)
        for listener in self._listeners:
            listener(origin, ask, answer)
        return answer

    async def _asked(self, origin: Origin, ask: Ask) -> Answer:
        is_full = len(self._items) >= MOST_WAITING
        if is_full or sum(map(_weight, self._asks(ask))) > MOST_WEIGHT:
            return self._no(origin, "", ask, "refused", "Too much waits for an answer already.")
        item_id = self._mint()
        future: asyncio.Future[tuple[Answer, str] | None] = asyncio.get_running_loop().create_future()
        self._answers[item_id] = future
        self._items[item_id] = Item(id=item_id, origin=origin, ask=ask, since=self._clock())
        self._time(item_id)
        self._note("asked", item_id, origin, ask=ask)
        self._tell()
        try:
            given = await future
        except asyncio.CancelledError:
            self._note("withdrawn", item_id, origin)
            raise
        finally:
            self._forget(item_id)
        if given is None:
            waited = self._longest if self.is_watched else self._timeout
            return self._no(origin, item_id, ask, "expired", f"Nobody answered within {waited:g} seconds.")
        answer, by = given
        self._note("decided", item_id, origin, answer=answer, by=by)
        return answer

    @property
    def _longest(self) -> float:
        return max(LONGEST, self._timeout)

    def _time_all(self) -> None:
        """Somebody began to watch, or nobody does any more."""
        for item_id in self._items:
            self._time(item_id)
        if self._items:
            self._tell()

    def _time(self, item_id: str) -> None:
        """Start the time of an item anew."""
        item, now = self._items[item_id], self._clock()
        latest = item.since + self._longest
        end = latest if self.is_watched else min(now + self._timeout, latest)
        self._items[item_id] = replace(item, until=None if self.is_watched else end)
        if item_id in self._timers:
            self._timers[item_id].cancel()
        # The timer ends the wait at once: an answer is either taken before it, or refused.
        self._timers[item_id] = asyncio.get_running_loop().call_later(max(0.0, end - now), self._expire, item_id)

    def _expire(self, item_id: str) -> None:
        if not self._answers[item_id].done():
            self._answers[item_id].set_result(None)
        self._forget(item_id)

    def _asks(self, another: Ask) -> Iterator[Ask]:
        yield another
        yield from (item.ask for item in self._items.values())

    def _no(self, origin: Origin, item_id: str, ask: Ask, what: Literal["expired", "refused"], reason: str) -> Answer:
        answer = refusal(ask, reason)
        self._note(what, item_id, origin, ask=ask, answer=answer)
        return answer

    def _forget(self, item_id: str) -> None:
        if self._items.pop(item_id, None) is not None:
            self._answers.pop(item_id, None)
            self._timers.pop(item_id).cancel()
            self._tell()

    def _tell(self) -> None:
        self._version += 1
        self._changed.set()
        self._changed = asyncio.Event()

    def _note(
        self,
        what: Literal["asked", "decided", "expired", "withdrawn", "refused"],
        item_id: str,
        origin: Origin,
        *,
        ask: Ask | None = None,
        answer: Answer | None = None,
        by: str = "",
    ) -> None:
        self._audit(Entry(at=self._clock(), what=what, item=item_id, origin=origin, ask=ask, answer=answer, by=by))


class Desk(msgspec.Struct, eq=False):
    """The person behind the inbox, as one leg sees them."""

    _inbox: Inbox
    _told: Origin | Callable[[], Origin]

    @property
    def is_present(self) -> bool:
        return self._inbox.is_watched

    @property
    def _origin(self) -> Origin:
        if not isinstance(self._told, Origin):
            self._told = self._told()
        return self._told

    async def permit(self, ask: Permission) -> Permitted:
        answer = await self._inbox.ask(self._origin, ask)
        return answer if isinstance(answer, Permitted) else Permitted()

    async def review(self, ask: PlanReview) -> Reviewed:
        answer = await self._inbox.ask(self._origin, ask)
        return answer if isinstance(answer, Reviewed) else Reviewed(approved=False)

    async def fill(self, ask: Form) -> Filled:
        answer = await self._inbox.ask(self._origin, ask)
        return answer if isinstance(answer, Filled) else Filled(action="cancel")


def refusal(ask: Ask, reason: str) -> Answer:
    """The answer that stands in for nobody's."""
    match ask:
        case Permission():
            return Permitted(reason=reason)
        case PlanReview():
            return Reviewed(approved=False, feedback=reason, is_nobodys=True)
        case Form():
            return Filled(action="cancel", reason=reason)


def converted(ask: Ask, answer: Answer) -> Answer:
    """The answer, where an option chosen for a plan becomes a review."""
    if not isinstance(ask, PlanReview) or not isinstance(answer, Permitted):
        return answer
    chosen = next((option for option in ask.options if option.id == answer.option), None)
    is_approved = chosen is not None and chosen.kind in ALLOWING
    return Reviewed(approved=is_approved, feedback=answer.reason, option=answer.option)


def check(ask: Ask, answer: Answer) -> None:
    """Raise BadRequest for an answer that does not fit what was asked."""
    match ask, answer:
        case Permission(), Permitted(option=option):
            _check_option(option, ask.options)
        case PlanReview(), Reviewed(option=option):
            chosen = _check_option(option, ask.options)
            if chosen is not None and answer.approved != (chosen.kind in ALLOWING):
                does = "approves" if chosen.kind in ALLOWING else "rejects"
                raise BadRequest(f"`approved` is {str(answer.approved).lower()}, but `{option}` {does}", "approved")
        case Form(), Filled(action="accept"):
            _check_values(ask, answer.values)
        case Form(), Filled():
            pass
        case _:
            raise BadRequest(f"a {type(ask).__name__} cannot be answered with {type(answer).__name__}")


def _check_option(given: str | None, options: Sequence[Option]) -> Option | None:
    """The option with this id; raises BadRequest if there is none."""
    found = next((option for option in options if option.id == given), None)
    if given is not None and found is None:
        known = f"the options are {', '.join(option.id for option in options)}" if options else "there are no options"
        raise BadRequest(f"`option` is {given!r}: {known}", "option")
    return found


def _weight(ask: Ask) -> int:
    match ask:
        case Permission():
            return len(ask.command or "") + len(ask.diff) + len(ask.detail) + len(ask.input)
        case PlanReview():
            return len(ask.plan) + len(ask.detail) + len(ask.input)
        case Form():
            return len(ask.message)


def _check_values(form: Form, values: Mapping[str, Any]) -> None:
    fields = {field.name: field for field in form.fields}
    for name in values:
        if name not in fields:
            known = f"the fields are {', '.join(fields)}" if fields else "nothing is"
            raise BadRequest(f"`values.{name}` is not asked for; {known}", f"values.{name}")
    for name, field in fields.items():
        value = values.get(name)
        if value is None or value == "" or value == []:
            if field.required:
                raise BadRequest(f"`values.{name}` is needed", f"values.{name}")
            continue
        problem = _problem(field, value)
        if problem:
            raise BadRequest(f"`values.{name}` {problem}", f"values.{name}")


def _problem(field: Field, value: Any) -> str:
    """What is wrong with a value, or nothing."""
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
    if not abs(value) <= sys.float_info.max:  # a number of hundreds of digits is no float, nor is what is no number
        return "must be a number that is not too large"
    if field.is_whole and value != int(value):
        return "must be a whole number"
    return _range_problem(field, value, "")


def _range_problem(field: Field, size: float, of: str) -> str:
    if field.minimum is not None and size < field.minimum:
        return f"must be at least {field.minimum:g}{of}"
    if field.maximum is not None and size > field.maximum:
        return f"must be at most {field.maximum:g}{of}"
    return ""


def _choice_problem(field: Field, value: Any) -> str:
    chosen = value if field.many and isinstance(value, list | tuple) else [value]
    known = [option.id for option in field.options]
    for one in chosen:
        if not isinstance(one, str):
            return "must be the id of an option"
        if one not in known and not field.is_open:
            return f"is {one!r}: the options are {', '.join(known)}"
    if len(set(chosen)) < len(chosen):
        return "names an option twice"
    return _range_problem(field, len(chosen), " options") if field.many else ""


def _text_problem(field: Field, value: Any) -> str:
    if not isinstance(value, str):
        return "must be text"
    if field.pattern and not _could_match(field.pattern, value):
        return f"must look like {field.pattern}"
    return _range_problem(field, len(value), " characters")


def _could_match(pattern: str, value: str) -> bool:
    """Whether a value fits a pattern; one that cannot be checked in bounded time is left to whoever asked."""
    try:
        return patterns.matches(pattern, value)
    except patterns.Unsupported as reason:
        log.info("the pattern %r of a form is not checked: %s", pattern[:LONGEST_TRIED], reason)
        return True
