"""The page's conversations: said, stopped, branched, and kept over restarts."""

import asyncio
import base64
import itertools

import pytest

from tests.cases import PIXEL
from tests.core.scripted import END, PATIENCE, Script, words
from tieline.app.database.documents import MemoryStore
from tieline.core.inbox.inbox import Inbox
from tieline.core.legs.gateway import Gateway
from tieline.core.legs.routing import Router
from tieline.core.sessions.sessions import MAX_OPEN, SAVE_EVERY, PageSessions
from tieline.core.watch.bus import Bus, BusEvent, MessageEvents, SessionChanged, SessionDeleted, TurnCompleted
from tieline.model.content import File, Image, Text, Thinking, ToolCall, ToolResult
from tieline.model.errors import GatewayError
from tieline.model.events import (
    Activity,
    Event,
    Failed,
    Finished,
    PartDelta,
    PartEnd,
    PartStart,
    Plan,
    PlanEntry,
    Started,
    StopReason,
    Usage,
)
from tieline.model.ports import Host, Report, Toolbox, no_report
from tieline.model.request import ToolSpec
from tieline.model.scope import Place, Scope
from tieline.model.session import Turn
from tieline.tasks import Tasks


class Stand:
    """Sessions over a store, with a scripted backend behind them."""

    def __init__(self, store: MemoryStore | None = None, toolbox: Toolbox | None = None) -> None:
        self.store = store or MemoryStore()
        self.backend = Script()
        self.news: list[BusEvent] = []
        self.told = asyncio.Event()
        self.now = 1000.0
        self.tasks = Tasks()
        bus = Bus(clock=lambda: self.now)
        bus.subscribe(self._hear)
        gateway = Gateway(
            Router({"test": self.backend}),
            tasks=self.tasks,
            inbox=Inbox(mint=lambda: "1", clock=lambda: 0.0),
            clock=lambda: self.now,
            toolbox=toolbox,
            bus=bus,
        )
        self.gateway = gateway
        ids = itertools.count(len(MINTED))
        self.sessions = PageSessions(
            gateway, self.store, bus, self.tasks, mint=lambda: _minted(next(ids)), clock=lambda: self.now
        )

    def _hear(self, news: BusEvent) -> None:
        self.news.append(news)
        self.told.set()

    async def begin(self) -> str:
        return (await self.sessions.create("test/m")).id

    async def say(self, session: str, text: str, parent: str | None = None) -> Turn:
        """Say something and wait for the whole answer."""
        sent = await self.sessions.send(session, [Text(text=text)], parent)
        return await self.answered(session, sent.assistant)

    async def answered(self, session: str, message: str) -> Turn:
        async with asyncio.timeout(PATIENCE):
            while not any(isinstance(one, TurnCompleted) and one.turn.id == message for one in self.news):
                self.told.clear()
                await self.told.wait()
        return next(turn for turn in (await self.sessions.view(session)).turns if turn.id == message)

    async def shown(self, session: str) -> list[str]:
        """The words of the branch that is shown."""
        return ["".join(_texts(turn)) for turn in (await self.sessions.view(session)).turns]

    async def pause(self) -> str:
        """A session in which an answer has begun and goes no further."""
        session = await self.begin()
        opening: list[Event] = [Started(id="leg", model="m"), *words("Half")[:2]]
        self.backend.legs.append([opening, asyncio.Event()])
        await self.sessions.send(session, [Text(text="Go")])
        async with asyncio.timeout(PATIENCE):
            await self.backend.reached.wait()
        return session

    async def restarted(self) -> "Stand":
        """Another gateway over the same store."""
        return Stand(self.store)


MINTED: list[str] = []


def _minted(number: int) -> str:
    MINTED.append(f"id{len(MINTED)}-{number}")
    return MINTED[-1]


def _texts(turn: Turn) -> list[str]:
    return [part.text for part in turn.parts if isinstance(part, Text)]


@pytest.fixture
def stand() -> Stand:
    return Stand()


async def test_an_answer_has_everything_that_came(stand: Stand) -> None:
    session = await stand.begin()
    doing = Activity(id="a", kind="read", title="read x", status="pending")
    done = Activity(id="a", kind="read", title="read x", status="completed", output="x")
    plan = Plan(entries=(PlanEntry(content="look"),))
    thought = Thinking(text="hm", signature="sig")
    stand.backend.legs.append(
        [
            [Started(id="leg", model="m"), PartStart(index=0, part=Thinking()), PartEnd(index=0, part=thought)],
            [doing, plan],
            [done, *words("Found it.", 1), Usage(input=5, output=1), END],
        ]
    )
    turn = await stand.say(session, "Look")
    assert turn.parts == (thought, Text(text="Found it."))
    assert (turn.model, turn.plan, turn.usage, turn.ending) == ("test/m", plan, Usage(input=5, output=1), END)
    assert [(one.activity, one.at, one.began, one.ended) for one in turn.activities] == [(done, 1, 1000.0, 1000.0)]


async def test_the_whole_branch_goes_upstream(stand: Stand) -> None:
    session = await stand.begin()
    await stand.sessions.change(session, effort="high", mode="plan")
    await stand.say(session, "one")
    await stand.say(session, "two")
    asked = stand.backend.requests[-1]
    said = [(message.role, message.parts[0]) for message in asked.messages]
    assert said == [("user", Text(text="one")), ("assistant", Text(text="answer 1")), ("user", Text(text="two"))]
    assert (asked.model, asked.mode, asked.reasoning.effort) == ("m?mode=plan", "plan", "high")
    assert (asked.session, asked.stream) == (session, True)


async def test_pictures_go_along_and_text_files_become_words(stand: Stand) -> None:
    session = await stand.begin()
    picture = Image(media_type="image/png", data=PIXEL)
    file = File(media_type="text/plain", data=base64.b64encode(b"print(1)").decode(), name="a.py")
    sent = await stand.sessions.send(session, [Text(text="What is this?"), picture, file])
    await stand.answered(session, sent.assistant)
    _, sent_picture, sent_file = stand.backend.requests[0].messages[0].parts
    assert sent_picture == picture
    assert sent_file == Text(text='<file path="a.py">\nprint(1)\n</file>')
    assert (await stand.sessions.view(session)).turns[0].parts[2] == file


async def test_the_first_words_are_the_title_until_somebody_gives_one(stand: Stand) -> None:
    session = await stand.begin()
    await stand.say(session, "```sh\nls\n```\nWhy   does\nthis fail " + "so " * 50)
    [summary] = await stand.sessions.summaries()
    assert summary.title.startswith("ls Why does this fail so so")
    assert len(summary.title) <= 60
    await stand.sessions.change(session, title="  Mine ")
    await stand.say(session, "again")
    assert [one.title for one in await stand.sessions.summaries()] == ["Mine"]


async def test_tokens_add_up_and_the_context_is_that_of_the_last_request(stand: Stand) -> None:
    await stand.gateway.models.all()
    session = await stand.begin()
    await stand.say(session, "one")
    done = Activity(id="a", kind="read", title="read", status="completed")
    stand.backend.legs.append(
        [
            [Started(id="leg", model="m"), Usage(input=20, output=5), done],
            [*words("so"), Usage(input=20 + 28, output=5 + 3), END],
        ]
    )
    await stand.say(session, "two")
    [summary] = await stand.sessions.summaries()
    assert (summary.usage.input, summary.usage.output) == (10 + 48, 2 + 8)
    assert (summary.usage.context, summary.usage.window) == (28 + 3, 1000)
    assert summary.messages == 4


async def test_everybody_hears_of_everything_in_order(stand: Stand) -> None:
    session = await stand.begin()
    stand.news.clear()
    turn = await stand.say(session, "one")
    told = [one for one in stand.news if isinstance(one, MessageEvents | TurnCompleted | SessionChanged)]
    kinds = [type(one).__name__ for one in told]
    assert kinds == ["TurnCompleted", "SessionChanged", "MessageEvents", "TurnCompleted", "SessionChanged"]
    assert isinstance(told[3], TurnCompleted)
    assert told[3].turn == turn
    running = [one.summary.running for one in told if isinstance(one, SessionChanged)]
    assert running == [True, False]


class Looking:
    """A toolbox with one tool."""

    specs = (ToolSpec(name="look"),)

    def open(self, mode: str) -> "Looking":
        return self

    def owns(self, name: str) -> bool:
        return name == "look"

    def kind_of(self, call: ToolCall) -> str:
        return "read"

    async def execute(self, call: ToolCall, host: Host, report: Report = no_report) -> ToolResult:
        return ToolResult(call_id=call.id, content=(Text(text="a cat"),))


async def test_the_model_remembers_what_came_of_the_gateways_tools() -> None:
    stand = Stand(toolbox=Looking())
    session = await stand.begin()
    call = ToolCall(id="c1", name="look", arguments="{}")
    calls: list[Event] = [PartStart(index=1, part=call), PartEnd(index=1, part=call)]
    stand.backend.is_agent = False
    stand.backend.legs += [
        [[Started(id="leg", model="m"), *words("Let me look."), *calls, Finished(reason=StopReason.TOOL_USE)]],
        [[Started(id="leg", model="m"), *words("It is a cat."), END]],
    ]
    turn = await stand.say(session, "What is it?")
    assert turn.parts == (Text(text="Let me look."), Text(text="It is a cat."))
    assert [one.activity.output for one in turn.activities] == ["a cat"]
    await (again := await stand.restarted()).say(session, "Sure?")
    told = [(message.role, message.parts) for message in again.backend.requests[-1].messages]
    assert told == [
        ("user", (Text(text="What is it?"),)),
        ("assistant", (Text(text="Let me look."), call)),
        ("user", (ToolResult(call_id="c1", content=(Text(text="a cat"),)),)),
        ("assistant", (Text(text="It is a cat."),)),
        ("user", (Text(text="Sure?"),)),
    ]


# ── One at a time ────────────────────────────────────────────────────────────────────────────────


async def test_nothing_is_said_while_something_is_being_said(stand: Stand) -> None:
    session = await stand.pause()
    for attempt in (
        stand.sessions.send(session, [Text(text="more")]),
        stand.sessions.retry(session),
        stand.sessions.edit(session, (await stand.sessions.view(session)).turns[0].id, "else"),
        stand.sessions.branch(session, (await stand.sessions.view(session)).turns[0].id),
    ):
        with pytest.raises(GatewayError) as caught:
            await attempt
        assert (caught.value.status, caught.value.code) == (409, "running")
    await stand.sessions.stop(session)


async def test_two_that_begin_at_once_do_not_both_begin(stand: Stand) -> None:
    session = await stand.begin()
    both = await asyncio.gather(
        *(stand.sessions.send(session, [Text(text=word)]) for word in ("a", "b")), return_exceptions=True
    )
    assert sorted(type(one).__name__ for one in both) == ["GatewayError", "SentMessage"]
    await stand.sessions.stop(session)


async def test_what_had_come_stays_when_it_is_stopped(stand: Stand) -> None:
    session = await stand.pause()
    assert await stand.shown(session) == ["Go", "Half"]
    await stand.sessions.stop(session)
    turn = (await stand.sessions.view(session)).turns[-1]
    assert (turn.parts, turn.ending) == ((Text(text="Half"),), Finished(reason=StopReason.CANCELLED))
    assert [one.running for one in await stand.sessions.summaries()] == [False]
    await stand.say(session, "Go on")
    assert await stand.shown(session) == ["Go", "Half", "Go on", "answer 2"]


async def test_what_is_stopped_before_it_began_is_over_too(stand: Stand) -> None:
    session = await stand.begin()
    await stand.sessions.send(session, [Text(text="Go")])
    await stand.sessions.stop(session)
    view = await stand.sessions.view(session)
    assert view.running is None
    assert view.turns[-1].ending == Finished(reason=StopReason.CANCELLED)
    await stand.sessions.stop(session)


async def test_a_failure_is_an_ending_and_can_be_tried_again(stand: Stand) -> None:
    session = await stand.begin()
    failed = Failed(kind="overloaded", message="busy", status=503)
    stand.backend.legs.append([[Started(id="leg", model="m"), failed]])
    turn = await stand.say(session, "Go")
    assert (turn.ending, turn.parts) == (failed, ())
    sent = await stand.sessions.retry(session)
    await stand.answered(session, sent.assistant)
    assert await stand.shown(session) == ["Go", "answer 2"]
    assert len(stand.backend.requests[-1].messages) == 1


# ── Branches ─────────────────────────────────────────────────────────────────────────────────────


async def test_a_second_answer_stands_beside_the_first(stand: Stand) -> None:
    session = await stand.begin()
    first = await stand.say(session, "Go")
    sent = await stand.sessions.retry(session)
    await stand.answered(session, sent.assistant)
    view = await stand.sessions.view(session)
    assert view.branches == {sent.assistant: [first.id, sent.assistant]}
    assert await stand.shown(session) == ["Go", "answer 2"]
    await stand.sessions.branch(session, first.id)
    assert await stand.shown(session) == ["Go", "answer 1"]


async def test_an_edited_message_begins_a_branch_of_its_own(stand: Stand) -> None:
    session = await stand.begin()
    await stand.say(session, "one")
    await stand.say(session, "two")
    first = (await stand.sessions.view(session)).turns[0]
    sent = await stand.sessions.edit(session, first.id, "uno")
    await stand.answered(session, sent.assistant)
    assert await stand.shown(session) == ["uno", "answer 3"]
    assert (await stand.sessions.view(session)).branches == {sent.user.id: [first.id, sent.user.id]}
    await stand.sessions.branch(session, first.id)
    assert await stand.shown(session) == ["one", "answer 1", "two", "answer 2"]
    assert (await stand.sessions.summaries())[0].messages == 4


async def test_an_edit_keeps_what_was_attached(stand: Stand) -> None:
    session = await stand.begin()
    picture = Image(media_type="image/png", data=PIXEL)
    sent = await stand.sessions.send(session, [Text(text="What?"), picture])
    await stand.answered(session, sent.assistant)
    edited = await stand.sessions.edit(session, sent.user.id, "Who?")
    assert edited.user.parts == (Text(text="Who?"), picture)
    await stand.sessions.stop(session)


async def test_a_message_can_follow_an_earlier_one(stand: Stand) -> None:
    session = await stand.begin()
    first = await stand.say(session, "one")
    await stand.say(session, "two")
    await stand.say(session, "other", parent=first.id)
    assert await stand.shown(session) == ["one", "answer 1", "other", "answer 3"]


@pytest.mark.parametrize("message", ["", "nonsense"])
async def test_what_does_not_exist_cannot_be_built_on(stand: Stand, message: str) -> None:
    session = await stand.begin()
    for attempt in (
        stand.sessions.edit(session, message, "x"),
        stand.sessions.branch(session, message),
        stand.sessions.send(session, [Text(text="x")], message or "-"),
        stand.sessions.retry(session),
        stand.sessions.send(session, []),
        stand.sessions.change(session, model="nobody/x"),
        stand.sessions.create("nobody/x"),
        stand.sessions.view("no-session"),
    ):
        with pytest.raises(GatewayError):
            await attempt


async def test_only_the_users_own_words_can_be_edited(stand: Stand) -> None:
    session = await stand.begin()
    answer = await stand.say(session, "one")
    with pytest.raises(GatewayError):
        await stand.sessions.edit(session, answer.id, "else")


# ── Restarts ─────────────────────────────────────────────────────────────────────────────────────


async def test_a_restart_keeps_everything(stand: Stand) -> None:
    session = await stand.begin()
    await stand.say(session, "one")
    sent = await stand.sessions.retry(session)
    await stand.answered(session, sent.assistant)
    before = await stand.sessions.view(session)
    after = await (await stand.restarted()).sessions.view(session)
    assert after == before


async def test_a_shown_branch_is_remembered(stand: Stand) -> None:
    session = await stand.begin()
    first = await stand.say(session, "one")
    sent = await stand.sessions.retry(session)
    await stand.answered(session, sent.assistant)
    await stand.sessions.branch(session, first.id)
    again = await stand.restarted()
    assert await again.shown(session) == ["one", "answer 1"]


async def test_what_was_being_said_at_shutdown_is_cancelled_with_what_had_arrived(stand: Stand) -> None:
    session = await stand.pause()
    await stand.sessions.aclose()
    again = await stand.restarted()
    view = await again.sessions.view(session)
    assert (view.running, view.summary.running) == (None, False)
    assert await again.shown(session) == ["Go", "Half"]
    assert isinstance(view.turns[-1].ending, Finished)
    assert view.turns[-1].ending.reason is StopReason.CANCELLED
    sent = await again.sessions.retry(session)
    await again.answered(session, sent.assistant)
    assert await again.shown(session) == ["Go", "answer 1"]


class SlowStore(MemoryStore):
    """Writes only when it may."""

    def __init__(self) -> None:
        super().__init__()
        self.may_write = asyncio.Event()
        self.may_write.set()

    async def write(self, shelf: str, key: str, data: bytes) -> None:
        await self.may_write.wait()
        await super().write(shelf, key, data)


async def test_closing_waits_until_a_message_that_is_complete_is_stored() -> None:
    store = SlowStore()
    stand = Stand(store)
    session = await stand.begin()
    may_end = asyncio.Event()
    opening: list[Event] = [Started(id="leg", model="m"), *words("Half")[:2]]
    stand.backend.legs.append([opening, may_end, [words("Half")[2], END]])
    sent = await stand.sessions.send(session, [Text(text="Go")])
    async with asyncio.timeout(PATIENCE):
        await stand.backend.reached.wait()
    store.may_write.clear()
    may_end.set()
    await stand.answered(session, sent.assistant)
    closing = asyncio.create_task(stand.sessions.aclose())
    for _ in range(10):
        await asyncio.sleep(0)
    assert not closing.done()
    store.may_write.set()
    await closing
    await stand.tasks.aclose()
    assert await Stand(store).shown(session) == ["Go", "Half"]


async def test_what_was_being_said_when_the_gateway_died_is_there_up_to_the_last_saving(stand: Stand) -> None:
    session = await stand.begin()
    opening: list[Event] = [Started(id="leg", model="m"), *words("Half")[:2]]
    later = asyncio.Event()
    stand.backend.legs.append([opening, later, [PartDelta(index=0, text=" way")], asyncio.Event()])
    await stand.sessions.send(session, [Text(text="Go")])
    async with asyncio.timeout(PATIENCE):
        await stand.backend.reached.wait()
        stand.backend.reached.clear()
        stand.now += SAVE_EVERY
        later.set()
        await stand.backend.reached.wait()
    again = await stand.restarted()
    assert await again.shown(session) == ["Go", "Half way"]
    ending = (await again.sessions.view(session)).turns[-1].ending
    assert isinstance(ending, Finished)
    assert ending.reason is StopReason.CANCELLED
    await stand.sessions.stop(session)


async def test_a_deleted_session_is_gone_for_good(stand: Stand) -> None:
    session = await stand.pause()
    await stand.sessions.delete(session)
    assert SessionDeleted(session) in stand.news
    assert await stand.sessions.summaries() == []
    assert await (await stand.restarted()).sessions.summaries() == []
    assert await stand.store.read(f"turns/{session}") == {}


async def test_documents_that_cannot_be_read_cost_only_themselves(stand: Stand) -> None:
    session = await stand.begin()
    await stand.say(session, "one")
    await stand.store.write("sessions", "broken", b"{not json")
    await stand.store.write(f"turns/{session}", "broken", b'{"id": 7}')
    again = await stand.restarted()
    assert [one.id for one in await again.sessions.summaries()] == [session]
    assert await again.shown(session) == ["one", "answer 1"]


async def test_sessions_that_nobody_looks_at_are_let_go_and_come_back(stand: Stand) -> None:
    ids = []
    for number in range(MAX_OPEN + 3):
        session = await stand.begin()
        await stand.say(session, f"words {number}")
        ids.append(session)
    for number, session in enumerate(ids):
        assert (await stand.shown(session))[0] == f"words {number}"
    held = [one for one in ids if one in stand.sessions._trees]
    assert len(held) == MAX_OPEN
    assert all(session.tree is None for session in stand.sessions._sessions.values())


async def test_the_newest_session_comes_first(stand: Stand) -> None:
    old = await stand.begin()
    stand.now += 1
    new = await stand.begin()
    assert [one.id for one in await stand.sessions.summaries()] == [new, old]
    stand.now += 1
    await stand.say(old, "still here")
    assert [one.id for one in await stand.sessions.summaries()] == [old, new]


async def test_sessions_belong_to_an_owner_and_a_workspace(stand: Stand) -> None:
    place = Place("ann", "ours")
    mine = (await stand.sessions.create("test/m", place=place)).id
    other = await stand.begin()
    assert [one.id for one in await stand.sessions.summaries(Scope("ann"))] == [mine]
    assert [one.id for one in await stand.sessions.summaries(Scope(None, ""))] == [other]
    assert {one.id for one in await stand.sessions.summaries()} == {mine, other}
    await stand.sessions.summary(mine, Scope(None, "ours"))
    with pytest.raises(GatewayError, match="no such session"):
        await stand.sessions.summary(mine, Scope(None, "theirs"))
    await stand.say(mine, "Hi")
    [leg] = stand.gateway.bus.legs(scope=Scope("ann", "ours"))
    assert (leg.owner, leg.workspace) == place
    assert stand.gateway.bus.legs(scope=Scope("bob")) == []
    with pytest.raises(GatewayError, match="no longer recorded"):
        stand.gateway.bus.detail(leg.id, Scope(None, "theirs"))
    assert {one.place for one in stand.news if isinstance(one, MessageEvents | TurnCompleted)} == {place}
    assert [one.place for one in await (await stand.restarted()).sessions.summaries(Scope("ann"))] == [place]
