"""A conversation follows the event stream: nothing is lost, nothing comes twice, other clients are noticed."""

import json

import msgspec
import pytest
from msgspec.structs import replace

from tests.cli.chat.replay import events, playing, recorded
from tieline.cli.chat.api import (
    ChatSessionView,
    DeletedNews,
    EventNews,
    InboxNews,
    News,
    ResetNews,
    Sent,
    SummaryNews,
    TurnNews,
)
from tieline.cli.chat.conversation import Change, Changed, Conversation, Deleted, Ended, Grown, Outdated, Said
from tieline.core.inbox.inbox import PendingItem
from tieline.model.content import Text, Thinking
from tieline.model.events import Event, Finished, PartDelta, PartStart, Started, StopReason
from tieline.model.inbox import Approval, Origin
from tieline.model.session import Summary, Turn

SUMMARY = Summary(id="S", title="T", model="demo/scripted")
END = Finished(reason=StopReason.END_TURN)


def conversation(seq: int = 0) -> Conversation:
    return Conversation(SUMMARY, seq, lambda: 101.0)


def turn(turn_id: str = "A1", text: str = "Hello", *, ending: Finished | None = END, role: str = "assistant") -> Turn:
    return msgspec.convert(
        {
            "id": turn_id,
            "parent": None,
            "role": role,
            "at": 1.0,
            "parts": [{"type": "text", "text": text}],
            "ending": msgspec.to_builtins(ending),
        },
        Turn,
    )


def beginning(message: str = "A1", text: str = "Hel") -> EventNews:
    first: tuple[Event, ...] = (
        Started(id="l", model="m"),
        PartStart(index=0, part=Text()),
        PartDelta(index=0, text=text),
    )
    return EventNews(session="S", message=message, events=first)


async def the_stream() -> list[tuple[int, News]]:
    async with playing(lambda _, since: (200, events(recorded(), since or 0))) as api:
        return [(seq, news) async for seq, news in api.stream(0) if seq is not None and news is not None]


async def test_a_recorded_answer_is_followed_from_the_first_word_to_the_last() -> None:
    chat = conversation()
    chat.sent(Sent(user=turn("U1", role="user", ending=None), assistant="A1"))
    changes: list[Change] = []
    asked: list[str] = []
    for seq, news in await the_stream():
        changes += chat.take(seq, news)
        asked += [item.content.title for item in chat.items if isinstance(item.content, Approval)]
    assert list(dict.fromkeys(asked)) == ["Run echo one; echo two", "Create b.txt"]
    ended = [change.turn for change in changes if isinstance(change, Ended)]
    assert not chat.is_running
    assert len(ended) == 1
    assert [type(part) for part in ended[0].parts] == [Thinking, Text, Text]
    assert [one.activity.status for one in ended[0].activities] == ["completed"] * 4
    assert all(isinstance(change, Grown | Ended) for change in changes), "own messages are not reported"


async def test_what_was_assembled_from_events_is_what_the_gateway_says_in_the_end() -> None:
    chat = conversation()
    draft: Turn | None = None
    for seq, news in await the_stream():
        for change in chat.take(seq, news):
            if isinstance(change, Ended):
                assert draft is not None
                assert draft.parts == change.turn.parts
                assert [one.activity for one in draft.activities] == [one.activity for one in change.turn.activities]
                assert [one.at for one in draft.activities] == [one.at for one in change.turn.activities]
                assert (draft.plan, draft.usage) == (change.turn.plan, change.turn.usage)
                return
        draft = chat.draft.turn() if chat.draft is not None else draft
    raise AssertionError("the answer did not end")


async def test_an_answer_can_be_joined_anywhere_and_ends_the_same() -> None:
    stream = await the_stream()
    for joined in range(1, len(stream) - 1):
        before = conversation()
        for seq, news in stream[:joined]:
            list(before.take(seq, news))
        if before.draft is None:
            continue
        chat = conversation()
        seen = stream[joined - 1][0]
        view = ChatSessionView(summary=SUMMARY, seq=seen, messages=(before.draft.turn(),))
        assert list(chat.load(view)) == [Grown()]
        for seq, news in stream:
            if isinstance(news, TurnNews) and news.turn.role == "assistant":
                assert chat.draft is not None
                assert chat.draft.turn().parts == news.turn.parts, joined
            list(chat.take(seq, news))
        assert not chat.is_running


def test_a_message_that_another_client_sends_is_shown() -> None:
    chat = conversation()
    said = turn("U9", "From the page", role="user", ending=None)
    assert list(chat.take(1, TurnNews(session="S", turn=said))) == [Said(said)]
    assert list(chat.take(2, beginning("A9"))) == [Grown()]
    assert chat.is_running


def test_what_is_included_already_does_not_come_again() -> None:
    chat = conversation(seq=5)
    assert list(chat.take(5, beginning())) == []
    assert not chat.is_running


def test_other_conversations_do_not_matter() -> None:
    chat = conversation()
    for news in (
        replace(beginning(), session="other"),
        TurnNews(session="other", turn=turn()),
        SummaryNews(summary=replace(SUMMARY, id="other", model="x")),
        DeletedNews(session="other"),
        InboxNews(items=(pending("other"),)),
    ):
        assert list(chat.take(1, news)) == []
    assert chat.items == ()


def pending(session: str) -> PendingItem:
    return PendingItem(id="i", origin=Origin(session=session), content=Approval(title="x"), since=0.0)


def test_only_the_items_of_this_conversation_wait_here_and_end_with_the_answer() -> None:
    chat = conversation()
    list(chat.take(1, beginning()))
    list(chat.take(2, InboxNews(items=(pending("other"), pending("S")))))
    assert [item.origin.session for item in chat.items] == ["S"]
    list(chat.take(3, TurnNews(session="S", turn=turn())))
    assert chat.items == ()


async def test_items_are_noticed_in_a_cluster_where_their_messages_have_no_number() -> None:
    item = msgspec.json.encode({"type": "inbox", **msgspec.to_builtins(InboxNews(items=(pending("S"),)))})
    gone = msgspec.json.encode({"type": "inbox", **msgspec.to_builtins(InboxNews())})
    numbered = events([(7, json.dumps({"type": "gone", "session": "other"}))])
    stream = b"data: %b\n\n%bdata: %b\n\ndata: %b\n\n" % (gone, numbered, item, gone)
    chat, waiting = conversation(seq=5), list[int]()
    async with playing(lambda _, __: (200, stream)) as api:
        async for seq, news in api.stream(5):
            assert news is not None
            assert list(chat.take(seq, news)) == []
            waiting.append(len(chat.items))
    assert waiting == [0, 0, 1, 0]
    assert list(chat.take(7, beginning())) == [], "it is included"


def test_a_change_of_the_model_elsewhere_is_noticed_but_not_ones_own() -> None:
    chat = conversation()
    assert list(chat.take(1, SummaryNews(summary=replace(SUMMARY, model="x")))) == [Changed(SUMMARY)]
    chat.summary = replace(SUMMARY, model="y")
    assert list(chat.take(2, SummaryNews(summary=replace(SUMMARY, model="y", messages=2)))) == []


def test_a_deleted_conversation_is_over() -> None:
    chat = conversation()
    list(chat.take(1, beginning()))
    assert list(chat.take(2, DeletedNews(session="S"))) == [Deleted()]
    assert not chat.is_running


@pytest.mark.parametrize(
    "news", [ResetNews(), EventNews(session="S", message="A", events=(PartDelta(index=0, text="x"),))]
)
def test_whoever_missed_something_must_load_the_conversation_again(news: News) -> None:
    assert list(conversation().take(1, news)) == [Outdated()]


@pytest.mark.parametrize(
    ("found", "kinds"),
    [(turn(text="Hello", ending=END), [Ended]), (turn(text="Hello, w", ending=None), [Grown])],
)
def test_after_a_lost_connection_the_answer_goes_on_or_has_ended(found: Turn, kinds: list[type]) -> None:
    chat = conversation()
    list(chat.take(1, beginning()))
    changes = list(chat.load(ChatSessionView(summary=SUMMARY, seq=50, messages=(found,))))
    assert [type(change) for change in changes] == kinds
    assert list(chat.take(50, TurnNews(session="S", turn=found))) == [], "it is included"


def test_messages_that_were_missed_are_shown_when_the_conversation_is_loaded_again() -> None:
    chat = conversation()
    list(chat.take(1, beginning()))
    said = turn("U2", "Meanwhile", role="user", ending=None)
    view = ChatSessionView(summary=SUMMARY, seq=9, messages=(turn(), said, turn("A2", "Yes", ending=None)))
    assert list(chat.load(view)) == [Ended(turn()), Said(said), Grown()]
    assert chat.draft is not None
    assert chat.draft.id == "A2"


def test_an_answer_that_is_no_longer_shown_is_not_waited_for() -> None:
    chat = conversation()
    list(chat.take(1, beginning()))
    chat.adopt((pending("S"),))
    list(chat.load(ChatSessionView(summary=SUMMARY, seq=9, messages=(turn("A7"),))))
    assert not chat.is_running
    assert chat.items == ()


def test_a_conversation_that_is_opened_reports_only_the_answer_in_progress() -> None:
    chat = conversation()
    said = turn("U1", role="user", ending=None)
    chat.open(ChatSessionView(summary=SUMMARY, seq=9, messages=(turn("A0"), said, turn("A1", "Hel", ending=None))))
    assert chat.is_running
    assert list(chat.take(10, TurnNews(session="S", turn=turn("A1")))) == [Ended(turn("A1"))]
    assert list(chat.take(11, TurnNews(session="S", turn=turn("A0")))) == []


async def test_messages_of_a_newer_gateway_are_skipped() -> None:
    unknown = [(1, json.dumps({"type": "unheard", "of": 1})), (2, json.dumps({"type": "reset"}))]
    async with playing(lambda _, __: (200, events(unknown))) as api:
        assert [one async for one in api.stream(0)] == [(1, None), (2, ResetNews())]
