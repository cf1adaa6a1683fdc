"""What waits for a person: shown, answered once, and never for ever."""

import asyncio
from collections.abc import Collection, Coroutine, Sequence
from itertools import count
from typing import Any, TypeVar

import pytest

from tests.each import each
from tieline.core.inbox.inbox import MAX_TOTAL_SIZE, MAX_WAIT, MAX_WAITING, AuditEntry, Inbox, PendingItem, check_answer
from tieline.model.errors import BadRequest, GatewayError
from tieline.model.inbox import (
    ALLOW,
    DENY,
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

T = TypeVar("T")

PERMISSION = Approval(title="Run ls", command="ls")
PLAN = PlanReview(title="A plan", plan="1. look")
FORM = Question(message="Which?", fields=(Field(name="answer", required=True),))
ORIGIN = Origin(model="m", frontend="chat", client="c", title="go")


class Stand:
    """An inbox whose clock stands still, and its audit."""

    def __init__(self, timeout: float = 60.0) -> None:
        numbers = count(1)
        self.audit: list[AuditEntry] = []
        self.inbox = Inbox(
            mint=lambda: f"ask_{next(numbers)}", clock=lambda: 1000.0, audit=self.audit.append, timeout=timeout
        )
        self.human = self.inbox.human(ORIGIN)

    @property
    def told(self) -> list[tuple[str, str]]:
        return [(entry.what, entry.item) for entry in self.audit]

    async def begin(self, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        """Begin something that asks, and wait until it has asked."""
        seen = self.inbox.version
        task = asyncio.create_task(work)
        await bounded(self.inbox.change(seen))
        return task


async def bounded(work: Coroutine[Any, Any, T]) -> T:
    async with asyncio.timeout(60):
        return await work


@pytest.fixture
def stand() -> Stand:
    return Stand()


@pytest.fixture
def impatient() -> Stand:
    return Stand(timeout=0.001)


async def test_an_ask_can_be_seen_while_it_waits_and_is_gone_when_it_is_decided(stand: Stand) -> None:
    asking = await stand.begin(stand.human.permit(PERMISSION))
    assert list(stand.inbox.items) == [
        PendingItem(id="ask_1", origin=ORIGIN, content=PERMISSION, since=1000.0, until=1060.0)
    ]
    stand.inbox.decide("ask_1", ApprovalAnswer(option="allow"), "me")
    assert list(stand.inbox.items) == []
    assert await bounded(_result(asking)) == ApprovalAnswer(option="allow")


async def _result(task: "asyncio.Task[T]") -> T:
    return await task


@pytest.mark.parametrize(
    ("ask", "answer"),
    [
        (PERMISSION, ApprovalAnswer(option="deny", reason="not now")),
        (PLAN, ReviewAnswer(approved=False, feedback="shorter")),
        (PLAN, ReviewAnswer(approved=True)),
        (FORM, QuestionAnswer(values={"answer": "blue"})),
        (FORM, QuestionAnswer(action="decline", reason="no")),
    ],
)
async def test_each_kind_of_ask_gets_its_kind_of_answer(stand: Stand, ask: InboxItem, answer: Answer) -> None:
    asking = await stand.begin(stand.inbox.ask(ORIGIN, ask))
    stand.inbox.decide("ask_1", answer)
    assert await bounded(_result(asking)) == answer


async def test_everything_asked_and_decided_is_in_the_audit(stand: Stand) -> None:
    asking = await stand.begin(stand.human.review(PLAN))
    stand.inbox.decide("ask_1", ReviewAnswer(approved=True), "me at a terminal")
    await bounded(_result(asking))
    asked, decided = stand.audit
    assert asked == AuditEntry(at=1000.0, what="asked", item="ask_1", origin=ORIGIN, content=PLAN)
    assert decided == AuditEntry(
        at=1000.0,
        what="decided",
        item="ask_1",
        origin=ORIGIN,
        answer=ReviewAnswer(approved=True),
        by="me at a terminal",
    )


NOBODY = "Nobody answered within 0.001 seconds."
REFUSALS: list[tuple[InboxItem, Answer]] = [
    (PERMISSION, ApprovalAnswer(reason=NOBODY)),
    (PLAN, ReviewAnswer(approved=False, feedback=NOBODY, is_unanswered=True)),
    (FORM, QuestionAnswer(action="cancel", reason=NOBODY)),
]


@pytest.mark.parametrize(("ask", "answer"), REFUSALS)
async def test_what_nobody_answers_is_answered_with_a_no_that_says_why(
    impatient: Stand, ask: InboxItem, answer: Answer
) -> None:
    assert await bounded(impatient.inbox.ask(ORIGIN, ask)) == answer
    assert impatient.inbox.items == ()
    assert impatient.told == [("asked", "ask_1"), ("expired", "ask_1")]
    assert impatient.audit[1].answer == answer


async def test_an_answer_in_the_last_moment_counts() -> None:
    """Who was told that the answer was taken must not find it refused."""
    stand = Stand(timeout=0.0)
    asking = await stand.begin(stand.human.permit(PERMISSION))
    # The time is up in this very turn of the loop.
    stand.inbox.decide("ask_1", ApprovalAnswer(option="allow"))
    answer = await bounded(_result(asking))
    decided = [entry.what for entry in stand.audit[1:]]
    assert (answer, decided) == (ApprovalAnswer(option="allow"), ["decided"])


class LoopClock:
    """The clock of the running loop and of an inbox, moved by hand."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        loop = asyncio.get_running_loop()
        start = loop.time()
        self.passed = 0.0
        monkeypatch.setattr(loop, "time", lambda: start + self.passed)

    async def advance(self, seconds: float) -> None:
        for passed in (0, seconds):
            self.passed += passed
            for _ in range(5):
                await asyncio.sleep(0)


class Timed(Stand):
    """An inbox with a timeout of 60 seconds, on a clock that is moved by hand."""

    def __init__(self, clock: LoopClock) -> None:
        super().__init__()
        self.inbox._clock = lambda: 1000.0 + clock.passed

    @property
    def until(self) -> float | None:
        [item] = self.inbox.items
        return item.until


@pytest.fixture
async def clock(monkeypatch: pytest.MonkeyPatch) -> LoopClock:
    return LoopClock(monkeypatch)


@pytest.mark.parametrize(("ask", "answer"), REFUSALS)
async def test_nothing_expires_while_somebody_watches(clock: LoopClock, ask: InboxItem, answer: Answer) -> None:
    stand = Timed(clock)
    async with stand.inbox.watched():
        asking = asyncio.create_task(stand.inbox.ask(ORIGIN, ask))
        await clock.advance(3600)
        assert (asking.done(), stand.until) == (False, None)
        async with stand.inbox.watched():
            await clock.advance(1)
        await clock.advance(3600)
        assert (asking.done(), stand.until) == (False, None)
    assert stand.until == 1000 + clock.passed + 60
    await clock.advance(59)
    assert not asking.done()
    await clock.advance(1)
    assert type(asking.result()) is type(answer)
    assert stand.told == [("asked", "ask_1"), ("expired", "ask_1")]


async def test_a_watcher_who_comes_stops_the_time_and_all_are_told(clock: LoopClock) -> None:
    stand = Timed(clock)
    asking = asyncio.create_task(stand.human.permit(PERMISSION))
    await clock.advance(59)
    assert (asking.done(), stand.until) == (False, 1060.0)
    version = stand.inbox.version
    async with stand.inbox.watched():
        assert stand.inbox.version > version
        await clock.advance(120)
        assert (asking.done(), stand.until) == (False, None)
    assert stand.until == 1000 + clock.passed + 60
    stand.inbox.decide("ask_1", ApprovalAnswer(option="allow"))
    assert await asking == ApprovalAnswer(option="allow")


async def test_after_a_day_the_answer_is_no_even_if_somebody_watches(clock: LoopClock) -> None:
    stand = Timed(clock)
    async with stand.inbox.watched():
        asking = asyncio.create_task(stand.human.permit(PERMISSION))
        await clock.advance(MAX_WAIT - 1)
        assert not asking.done()
        await clock.advance(1)
        assert asking.result() == ApprovalAnswer(reason=f"Nobody answered within {MAX_WAIT:g} seconds.")


async def test_a_leg_that_ends_withdraws_what_it_asked(stand: Stand) -> None:
    asking = await stand.begin(stand.human.permit(PERMISSION))
    asking.cancel()
    await asyncio.wait([asking], timeout=60)
    assert asking.cancelled()
    assert stand.inbox.items == ()
    assert stand.told == [("asked", "ask_1"), ("withdrawn", "ask_1")]


@pytest.mark.parametrize("item_id", ["ask_1", "ask_9", "", "x" * 5000])
async def test_what_does_not_wait_cannot_be_decided(stand: Stand, item_id: str) -> None:
    asking = await stand.begin(stand.human.permit(PERMISSION))
    stand.inbox.decide("ask_1", ApprovalAnswer(option="allow"))
    with pytest.raises(GatewayError) as caught:
        stand.inbox.decide(item_id, ApprovalAnswer(option="deny"))
    assert caught.value.status == 404
    assert len(caught.value.message) < 500
    assert await bounded(_result(asking)) == ApprovalAnswer(option="allow")


async def test_an_answer_that_does_not_fit_is_refused_and_the_ask_still_waits(stand: Stand) -> None:
    asking = await stand.begin(stand.human.permit(PERMISSION))
    with pytest.raises(BadRequest) as caught:
        stand.inbox.decide("ask_1", ApprovalAnswer(option="perhaps"))
    assert caught.value.param == "option"
    assert "allow, always, deny" in caught.value.message
    assert [item.id for item in stand.inbox.items] == ["ask_1"]
    asking.cancel()


async def test_too_much_that_waits_is_refused_at_once() -> None:
    stand = Stand()
    waiting = [await stand.begin(stand.human.permit(PERMISSION)) for _ in range(MAX_WAITING)]
    assert len(stand.inbox.items) == MAX_WAITING
    answer = await bounded(stand.human.review(PLAN))
    assert not answer.approved
    assert "Too many items are waiting" in answer.feedback
    assert stand.audit[-1].what == "refused"
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert stand.inbox.items == ()


async def test_every_change_is_told_to_whoever_waits_for_it(stand: Stand) -> None:
    seen = stand.inbox.version
    watching = asyncio.create_task(stand.inbox.change(seen))
    asking = await stand.begin(stand.human.permit(PERMISSION))
    assert await bounded(_result(watching)) == seen + 1
    stand.inbox.decide("ask_1", ApprovalAnswer(option="deny"))
    assert await bounded(stand.inbox.change(seen + 1)) == seen + 2
    await bounded(_result(asking))
    assert stand.inbox.version == seen + 2


async def test_it_is_known_whether_somebody_is_there(stand: Stand) -> None:
    assert not stand.human.is_present
    async with stand.inbox.watched():
        async with stand.inbox.watched():
            assert stand.human.is_present
        assert stand.human.is_present
    assert not stand.human.is_present


async def test_two_asks_are_answered_independently(stand: Stand) -> None:
    first = await stand.begin(stand.human.permit(PERMISSION))
    second = await stand.begin(stand.human.fill(FORM))
    assert [item.id for item in stand.inbox.items] == ["ask_1", "ask_2"]
    stand.inbox.decide("ask_2", QuestionAnswer(values={"answer": "b"}))
    stand.inbox.decide("ask_1", ApprovalAnswer(option="allow"))
    assert await bounded(_result(second)) == QuestionAnswer(values={"answer": "b"})
    assert await bounded(_result(first)) == ApprovalAnswer(option="allow")


# ── Which answers fit ────────────────────────────────────────────────────────────────────────────

OPTIONS = (Option(id="red"), Option(id="blue"), Option(id="green"))
YES_NO = Field(name="f", kind="yes_no", required=True)
CHOICE = Field(name="f", kind="choice", options=OPTIONS, required=True)
OPEN = Field(name="f", kind="choice", options=OPTIONS, is_open=True)
MANY = Field(name="f", kind="choice", options=OPTIONS, many=True, minimum=1, maximum=2, required=True)
NUMBER = Field(name="f", kind="number", minimum=0, maximum=10, required=True)
WHOLE = Field(name="f", kind="number", is_whole=True)
TEXT = Field(name="f", minimum=2, maximum=5)
CODE = Field(name="f", pattern=r"^[a-z]+-\d+$")
SLOW = Field(name="f", pattern=r"^(a+)+$")
BROKEN = Field(name="f", pattern="[")
FILE = Field(name="f", kind="file", required=True)

GOOD: list[tuple[Field, Any]] = [
    (YES_NO, True),
    (YES_NO, False),
    (CHOICE, "red"),
    (OPEN, "purple"),
    (OPEN, None),
    (MANY, ["red", "blue"]),
    (MANY, "red"),
    (NUMBER, 0),
    (NUMBER, 9.5),
    (WHOLE, 4),
    (WHOLE, 4.0),
    (TEXT, "abc"),
    (TEXT, ""),
    (CODE, "ab-12"),
    (SLOW, "a" * 40),
    (BROKEN, "anything"),
    (FILE, "docs/a.md"),
]
BAD: list[tuple[Field, Any, str]] = [
    (YES_NO, "yes", "true or false"),
    (YES_NO, None, "is required"),
    (CHOICE, "purple", "red, blue, green"),
    (CHOICE, ["red"], "id of an option"),
    (CHOICE, "", "is required"),
    (OPEN, 5, "id of an option"),
    (MANY, [], "is required"),
    (MANY, ["red", "blue", "green"], "at most 2 options"),
    (MANY, ["red", 5], "id of an option"),
    (MANY, ["red", "red"], "twice"),
    (NUMBER, 11, "at most 10"),
    (NUMBER, -0.5, "at least 0"),
    (NUMBER, "5", "a number"),
    (NUMBER, True, "a number"),
    (NUMBER, float("inf"), "a number"),
    (NUMBER, float("nan"), "a number"),
    (NUMBER, 10**400, "too large"),
    (WHOLE, -(10**400), "too large"),
    (WHOLE, 4.5, "a whole number"),
    (TEXT, "a", "at least 2 characters"),
    (TEXT, "abcdef", "at most 5 characters"),
    (TEXT, 5, "text"),
    (CODE, "AB-12", "match the pattern"),
    (SLOW, "a" * 40 + "b", "match the pattern"),
    (FILE, "", "is required"),
    (FILE, 3, "text"),
]


@each(("field", "value"), GOOD)
def test_an_answer_that_fits_its_field_is_taken(field: Field, value: Any) -> None:
    check_answer(Question(message="?", fields=(field,)), QuestionAnswer(values={"f": value}))


@each(("field", "value", "complaint"), BAD)
def test_an_answer_that_does_not_fit_its_field_is_refused_with_what_would(
    field: Field, value: Any, complaint: str
) -> None:
    with pytest.raises(BadRequest) as caught:
        check_answer(Question(message="?", fields=(field,)), QuestionAnswer(values={"f": value}))
    assert caught.value.param == "values.f"
    assert complaint in caught.value.message


def test_a_field_that_was_not_asked_for_is_refused() -> None:
    for form, words in (
        (FORM, "the fields are answer"),
        (Question(message="Go there", url="https://x"), "has no fields"),
    ):
        with pytest.raises(BadRequest, match=words):
            check_answer(form, QuestionAnswer(values={"other": 1}))


@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_who_does_not_want_to_answer_need_not_fill_anything_in(action: Any) -> None:
    check_answer(FORM, QuestionAnswer(action=action))


@pytest.mark.parametrize(
    ("ask", "answer"),
    [
        (PERMISSION, ReviewAnswer(approved=True)),
        (PERMISSION, QuestionAnswer()),
        (PLAN, ApprovalAnswer(option="allow")),
        (PLAN, QuestionAnswer()),
        (FORM, ApprovalAnswer(option="allow")),
        (FORM, ReviewAnswer(approved=True)),
    ],
)
def test_another_kind_of_answer_is_refused(ask: InboxItem, answer: Answer) -> None:
    with pytest.raises(BadRequest, match="cannot be answered with type"):
        check_answer(ask, answer)


def test_only_the_options_that_were_offered_can_be_chosen() -> None:
    ask = Approval(title="x", options=(ALLOW, DENY))
    check_answer(ask, ApprovalAnswer(option="deny"))
    check_answer(ask, ApprovalAnswer(reason="nobody chose"))
    with pytest.raises(BadRequest, match="allow, deny"):
        check_answer(ask, ApprovalAnswer(option="always"))


OPTIONS = (
    Option(id="auto", kind="allow_always"),
    Option(id="go", kind="allow_once"),
    Option(id="no", kind="reject_once"),
)
OPEN_PLAN = PlanReview(title="A plan", plan="1. look", options=OPTIONS)


@pytest.mark.parametrize(("option", "is_approved"), [("auto", True), ("go", True), ("no", False)])
async def test_an_option_chosen_for_a_plan_approves_or_rejects_it(stand: Stand, option: str, is_approved: bool) -> None:
    asking = await stand.begin(stand.human.review(OPEN_PLAN))
    stand.inbox.decide("ask_1", ApprovalAnswer(option=option, reason="words"))
    assert await bounded(_result(asking)) == ReviewAnswer(approved=is_approved, feedback="words", option=option)


@pytest.mark.parametrize(
    ("plan", "answer", "problem"),
    [
        (OPEN_PLAN, ReviewAnswer(approved=True, option="maybe"), "the options are auto, go, no"),
        (OPEN_PLAN, ReviewAnswer(approved=True, option="no"), "`approved` is true, but `no` rejects"),
        (OPEN_PLAN, ReviewAnswer(approved=False, option="go"), "`approved` is false, but `go` approves"),
        (PLAN, ReviewAnswer(approved=True, option="go"), "there are no options"),
    ],
)
def test_an_option_that_contradicts_the_answer_or_is_not_offered_is_refused(
    plan: PlanReview, answer: ReviewAnswer, problem: str
) -> None:
    with pytest.raises(BadRequest, match=problem):
        check_answer(plan, answer)


async def test_too_many_characters_that_wait_are_refused_at_once(stand: Stand) -> None:
    long = Approval(title="Write", diff="x" * (MAX_TOTAL_SIZE // 2), input="y" * 100)
    await stand.begin(stand.human.permit(long))
    assert (await bounded(stand.human.permit(long))).reason == "Too many items are waiting for an answer already."
    await stand.begin(stand.human.permit(PERMISSION))
    assert [item.id for item in stand.inbox.items] == ["ask_1", "ask_2"]


# ── Scopes ───────────────────────────────────────────────────────────────────────────────────────

OURS = Origin(model="m", workspace="ours")
THEIRS = Origin(model="m", workspace="theirs")
IN_OURS = Scope(workspace="ours")


async def test_items_are_listed_and_answered_only_within_a_scope(stand: Stand) -> None:
    ours = await stand.begin(stand.inbox.human(OURS).permit(PERMISSION))
    theirs = await stand.begin(stand.inbox.human(THEIRS).permit(PERMISSION))
    owned = await stand.begin(stand.inbox.human(Origin(owner="ann", workspace="ours")).permit(PERMISSION))
    assert [item.id for item in stand.inbox.items_in(IN_OURS)] == ["ask_1", "ask_3"]
    assert [item.id for item in stand.inbox.items_in(Scope(owner="ann"))] == ["ask_3"]
    assert stand.inbox.items_in(EVERYTHING) == stand.inbox.items
    assert stand.inbox.items_in(Scope(workspace="")) == ()
    with pytest.raises(GatewayError, match="No item `ask_2` is waiting"):
        stand.inbox.decide("ask_2", ApprovalAnswer(option="allow"), scope=IN_OURS)
    assert not theirs.done()
    stand.inbox.decide("ask_1", ApprovalAnswer(option="allow"), scope=IN_OURS)
    assert await ours == ApprovalAnswer(option="allow")
    for task in (theirs, owned):
        task.cancel()


async def test_an_item_expires_although_another_workspace_is_watched(clock: LoopClock) -> None:
    stand = Timed(clock)
    theirs = stand.inbox.human(THEIRS)
    async with stand.inbox.watched(IN_OURS):
        assert (theirs.is_present, stand.inbox.human(OURS).is_present) == (False, True)
        asking = asyncio.create_task(theirs.permit(PERMISSION))
        kept = asyncio.create_task(stand.inbox.ask(OURS, PERMISSION))
        await clock.advance(60)
        assert asking.result() == ApprovalAnswer(reason="Nobody answered within 60 seconds.")
        assert not kept.done()
        kept.cancel()


async def test_only_the_items_that_a_watcher_sees_stop_their_time(clock: LoopClock) -> None:
    stand = Timed(clock)
    tasks = [asyncio.create_task(stand.inbox.ask(origin, PERMISSION)) for origin in (OURS, THEIRS)]
    await clock.advance(30)
    async with stand.inbox.watched(IN_OURS):
        assert [item.until for item in stand.inbox.items] == [None, 1060.0]
        version = stand.inbox.version
        async with stand.inbox.watched(IN_OURS):
            pass
        assert stand.inbox.version == version
        async with stand.inbox.watched():
            assert [item.until for item in stand.inbox.items] == [None, None]
        assert [item.until for item in stand.inbox.items] == [None, 1090.0]
    for task in tasks:
        task.cancel()


async def test_the_items_of_a_scope_can_be_withdrawn_even_while_their_leg_ends(stand: Stand) -> None:
    ours = await stand.begin(stand.inbox.human(OURS).review(PLAN))
    leaving = await stand.begin(stand.inbox.human(OURS).permit(PERMISSION))
    theirs = await stand.begin(stand.inbox.human(THEIRS).permit(PERMISSION))
    leaving.cancel()
    stand.inbox.withdraw(IN_OURS, "It is gone.")
    assert await ours == ReviewAnswer(approved=False, feedback="It is gone.", is_unanswered=True)
    assert [item.id for item in stand.inbox.items] == ["ask_3"]
    with pytest.raises(asyncio.CancelledError):
        await leaving
    theirs.cancel()


# ── Other replicas ───────────────────────────────────────────────────────────────────────────────


class OtherInboxes:
    """The inboxes of other replicas, as a test sets them, and what this replica has published last."""

    source = "here"

    def __init__(self) -> None:
        self.items: Sequence[PendingItem] = ()
        self.watchers: Collection[Scope] = ()
        self.published: tuple[list[str], set[Scope]] = ([], set())

    def publish(self, items: Sequence[PendingItem], watchers: Collection[Scope]) -> None:
        self.published = ([item.id for item in items], set(watchers))


async def test_items_and_watchers_are_published_to_other_replicas() -> None:
    stand, others = Stand(), OtherInboxes()
    async with stand.inbox.watched(Scope("ann")):
        asking = await stand.begin(stand.human.permit(PERMISSION))
        stand.inbox.share(others)
        assert others.published == (["ask_1"], {Scope("ann")})
    assert others.published == (["ask_1"], set())
    stand.inbox.decide("ask_1", ApprovalAnswer(option="allow"))
    assert others.published == ([], set())
    assert (await asking).option == "allow"


async def test_items_of_other_replicas_are_listed_in_order_but_answered_there() -> None:
    stand, others = Stand(), OtherInboxes()
    stand.inbox.share(others)
    asking = await stand.begin(stand.human.permit(PERMISSION))
    others.items = [
        PendingItem(id=name, origin=Origin(owner="ann"), content=PLAN, since=since)
        for name, since in (("early", 999.0), ("late", 1001.0))
    ]
    version = stand.inbox.version
    stand.inbox.others_changed()
    assert stand.inbox.version > version
    assert [item.id for item in stand.inbox.items_in(EVERYTHING)] == ["early", "ask_1", "late"]
    assert [item.id for item in stand.inbox.items_in(Scope("ann"))] == ["early", "late"]
    assert [item.id for item in stand.inbox.items] == ["ask_1"]
    with pytest.raises(GatewayError, match="No item `early` is waiting"):
        stand.inbox.decide("early", ReviewAnswer(approved=True))
    stand.inbox.decide("ask_1", ApprovalAnswer(option="allow"))
    assert (await asking).option == "allow"


async def test_a_watcher_of_another_replica_stops_the_timeout() -> None:
    stand, others = Stand(timeout=0.05), OtherInboxes()
    stand.inbox.share(others)
    others.watchers = [Scope("")]
    stand.inbox.others_changed()
    assert stand.human.is_present
    asking = await stand.begin(stand.human.permit(PERMISSION))
    assert [item.until for item in stand.inbox.items] == [None]
    others.watchers = [Scope("ann")]
    stand.inbox.others_changed()
    assert not stand.human.is_present
    assert (await asking).reason.startswith("Nobody answered within 0.05")


async def test_withdrawing_items_leaves_those_of_other_replicas_to_them() -> None:
    stand, others = Stand(), OtherInboxes()
    stand.inbox.share(others)
    others.items = [PendingItem(id="early", origin=Origin(), content=PLAN, since=999.0)]
    asking = await stand.begin(stand.human.permit(PERMISSION))
    stand.inbox.withdraw(EVERYTHING, "It is gone.")
    assert (await asking).reason == "It is gone."
    assert [item.id for item in stand.inbox.items_in(EVERYTHING)] == ["early"]
