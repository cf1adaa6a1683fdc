"""Which conversation a history belongs to, and what is kept of it: ids, keys, states, runs that wait for a reply."""

from itertools import count
from typing import Any

import pytest

from tests.cases import asks
from tieline.backends.cursor import conversations as module
from tieline.backends.cursor.conversations import ConversationState, CursorConversation, CursorConversations
from tieline.model.content import Message, Part, Text, Thinking, ToolCall, ToolResult
from tieline.wire.cursor.stored_state import Blobs

ME = "me"
FIRST = "How is the weather?"


def made(**given: Any) -> CursorConversations:
    numbers, keys = count(1), count(1)
    return CursorConversations(lambda: f"id_{next(numbers)}", mint_key=lambda: f"key_{next(keys)}", **given)


def history(*said: str | Message) -> tuple[Message, ...]:
    return asks(*said).messages


def says(*parts: Part | str) -> Message:
    return Message(role="assistant", parts=tuple(Text(text=part) if isinstance(part, str) else part for part in parts))


def turn(
    known: CursorConversations, messages: tuple[Message, ...], reply: Message, owner: str = ME
) -> CursorConversation:
    """A whole turn that ends with this reply."""
    conversation = known.open(messages, owner)
    known.close(conversation, (*messages, reply), owner)
    return conversation


def state(size: int = 10, model: str = "demo") -> ConversationState:
    return ConversationState(model, b"checkpoint", Blobs({b"id": bytes(size)}))


def test_a_conversation_keeps_its_id_and_key_as_it_grows() -> None:
    known = made()
    first = turn(known, history(FIRST), says("Sunny."))
    second = turn(known, history(FIRST, says("Sunny."), "And tomorrow?"), says("Rain."))
    third = known.open(history(FIRST, says("Sunny."), "And tomorrow?", says("Rain."), "Oh."), ME)
    assert (first.id, first.blob_key) == (second.id, second.blob_key) == (third.id, third.blob_key)


def test_conversations_with_the_same_first_words_have_ids_of_their_own() -> None:
    known = made()
    one, other = turn(known, history(FIRST), says("Sunny.")), turn(known, history(FIRST), says("It rains."))
    assert one.id != other.id
    assert one.blob_key != other.blob_key
    assert known.open(history(FIRST, says("It rains."), "Oh."), ME).id == other.id
    assert known.open(history(FIRST, says("Sunny."), "Oh."), ME).id == one.id


def test_the_same_history_of_another_account_is_another_conversation() -> None:
    known = made()
    mine = turn(known, history(FIRST), says("Sunny."))
    assert known.open(history(FIRST, says("Sunny."), "Oh."), "somebody else").id != mine.id


def test_another_process_gives_another_id() -> None:
    one, other = made(), CursorConversations(lambda: "another id")
    first = turn(one, history(FIRST), says("Sunny."))
    turn(other, history("Else."), says("Sunny."))
    assert other.open(history(FIRST, says("Sunny."), "Oh."), ME).id != first.id


def test_two_runs_at_once_never_share_an_id() -> None:
    known = made()
    turn(known, history(FIRST), says("Sunny."))
    longer = history(FIRST, says("Sunny."), "Oh.")
    assert known.open(longer, ME).id != known.open(longer, ME).id


def test_a_history_that_was_edited_is_another_conversation() -> None:
    known = made()
    first = turn(known, history(FIRST), says("Sunny."))
    turn(known, history(FIRST, says("Sunny."), "And tomorrow?"), says("Rain."))
    assert known.open(history(FIRST, says("Cloudy."), "Oh."), ME).id != first.id
    assert known.open(history(FIRST, says("Sunny."), "And on Monday?"), ME).id != first.id, "it went on otherwise"


def test_what_clients_change_by_themselves_does_not_count() -> None:
    known = made()
    call = ToolCall(id="call_1", name="weather", arguments='{"city": "Oslo"}')
    result = Message(role="user", parts=(ToolResult(call_id="call_1", content=(Text(text="sunny"),)),))
    asked = (Message(role="system", parts=(Text(text="It is Monday."),)), *history(FIRST))
    first = turn(known, asked, says(Thinking(text="Hm."), "Let me ", "look. ", call))
    respelled = says("Let me look.", ToolCall(id="call_1", name="weather", arguments='{"city":"Oslo"}'))
    assert known.open((*history(FIRST), respelled, result), ME).id == first.id


def test_a_result_that_was_cut_is_another_conversation() -> None:
    known = made()
    call = says(ToolCall(id="call_1", name="weather", arguments="{}"))
    given = [Message(role="user", parts=(ToolResult(call_id="call_1", content=(Text(text=text),)),)) for text in "ab"]
    first = turn(known, (*history(FIRST), call, given[0]), says("Sunny."))
    assert known.open((*history(FIRST), call, given[1], says("Sunny."), *history("Oh.")), ME).id != first.id


def test_a_turn_without_a_whole_reply_leaves_the_conversation_where_it_was() -> None:
    known = made()
    first = turn(known, history(FIRST), says("Sunny."))
    longer = history(FIRST, says("Sunny."), "And tomorrow?")
    known.close(known.open(longer, ME))
    assert known.open(longer, ME).id == first.id


def test_a_conversation_that_was_renamed_keeps_its_new_id() -> None:
    known = made()
    conversation = known.open(history(FIRST), ME)
    old = conversation.id
    known.rename(conversation)
    known.close(conversation, (*history(FIRST), says("Sunny.")), ME)
    again = known.open(history(FIRST, says("Sunny."), "Oh."), ME)
    assert again.id == conversation.id != old


def test_only_so_many_conversations_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_CONVERSATIONS", 2)
    known = made()
    first = turn(known, history("one"), says("1"))
    for word in ("two", "three"):
        turn(known, history(word), says("1"))
    assert known.open(history("one", says("1"), "Oh."), ME).id != first.id


# ── States ───────────────────────────────────────────────────────────────────────────────────────


def test_a_state_is_for_the_same_model_and_handed_out_once() -> None:
    known = made()
    conversation = known.open(history(FIRST), ME)
    for model, expected in (("demo", True), ("other", False)):
        known.close(conversation, (*history(FIRST), says("Sunny.")), ME, state())
        assert (known.take_state(conversation, model) is not None) is expected
        assert known.take_state(conversation, "demo") is None


@pytest.mark.parametrize(("limit", "value"), [("MAX_STATES", 2), ("MAX_BYTES_OF_STATES", 7000)])
def test_the_oldest_states_are_dropped_first(monkeypatch: pytest.MonkeyPatch, limit: str, value: int) -> None:
    monkeypatch.setattr(module, limit, value)
    known = made()
    kept = []
    for word in ("one", "two", "three"):
        conversation = known.open(history(word), ME)
        known.close(conversation, (*history(word), says("1")), ME, state(3000))
        kept.append(conversation)
    assert [known.take_state(one, "demo") is not None for one in kept] == [False, True, True]


def test_a_state_that_is_too_large_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_STATE_BYTES", 1000)
    known = made()
    conversation = known.open(history(FIRST), ME)
    known.close(conversation, (*history(FIRST), says("Sunny.")), ME, state(3000))
    assert known.take_state(conversation, "demo") is None


# ── Runs that wait for a reply ───────────────────────────────────────────────────────────────────


class Run:
    """Something that waits."""

    is_given_up = False

    def give_up(self) -> None:
        self.is_given_up = True


def waits(known: CursorConversations, word: str) -> Run:
    run = Run()
    known.wait(turn(known, history(word), says("Shall I?")), run)
    return run


async def test_a_run_waits_for_the_next_message_of_its_conversation_and_is_handed_out_once() -> None:
    known = made()
    run = waits(known, FIRST)
    assert known.waiting_for(history("Else.", says("Shall I?"), "Yes."), ME) is None
    answer = history(FIRST, says("Shall I?"), "Yes.")
    assert known.waiting_for(answer, "somebody else") is None
    assert known.waiting_for(answer, ME) is run
    assert known.waiting_for(answer, ME) is None
    assert not known.has_waiting


async def test_only_so_many_runs_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_WAITING", 2)
    known = made()
    runs = [waits(known, word) for word in ("one", "two", "three")]
    assert [run.is_given_up for run in runs] == [True, False, False]
    known.aclose()
    assert all(run.is_given_up for run in runs)
