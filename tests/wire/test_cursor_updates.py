"""The visible turn: thinking between tags, tokens leg by leg, and answers that were only stored."""

import random
from typing import NamedTuple

import pytest

from tests.each import each
from tieline.model.content import ToolCall
from tieline.model.events import Note, PartDelta, Usage, of_kind
from tieline.wire.cursor._pb import agent_pb2 as agent
from tieline.wire.cursor._pb import conversation_pb2 as conversation
from tieline.wire.cursor._pb import updates_pb2 as updates
from tieline.wire.cursor.run.answer_text import MAX_COPIES, StoredAnswers, StoredText, TagSplitter, split
from tieline.wire.cursor.run.updates import MAX_NOTES, UpdateReader, UsageCounter
from tieline.wire.cursor.stored_state import Blobs
from tieline.wire.framing.connect import COMPRESSED, END, TRAILERS

# ── Tags ─────────────────────────────────────────────────────────────────────────────────────────

SPLIT = {
    "Hello": ("", "Hello"),
    "": ("", ""),
    "<think>a</think>b": ("a", "b"),
    "<thinking>a</thinking>b": ("a", "b"),
    "\n <think>a</think>\n\n b": ("a", "b"),
    "<think></think>b": ("", "b"),
    "<think>a</think>": ("a", ""),
    "<think>a": ("a", ""),
    "<think>a</think><think>b</think>c": ("ab", "c"),
    "<think>a</thinking>b</think>c": ("a</thinking>b", "c"),
    "<think>a < b </ c </thin </think>d": ("a < b </ c </thin", "d"),
    "<thinker>a</thinker>": ("", "<thinker>a</thinker>"),
    "<th": ("", "<th"),
    "Use <think>a</think>": ("", "Use <think>a</think>"),
    "a</think>b": ("", "a</think>b"),
    "  plain": ("", "  plain"),
    "   ": ("", ""),
    " " * 300 + "<think>a</think>": ("", " " * 300 + "<think>a</think>"),
}


@each("text", SPLIT)
def test_thinking_between_tags_is_split_from_the_words(text: str) -> None:
    assert split(text) == SPLIT[text]


@each("text", SPLIT)
def test_tags_may_be_cut_anyhow(text: str) -> None:
    chance = random.Random(text)
    for _ in range(30):
        places = sorted(chance.randrange(len(text) + 1) for _ in range(chance.randint(0, 8)))
        splitter = TagSplitter()
        pieces = [
            piece for a, b in zip([0, *places], [*places, len(text)], strict=True) for piece in splitter.feed(text[a:b])
        ] + splitter.close()
        thinking = "".join(piece for is_thinking, piece in pieces if is_thinking)
        words = "".join(piece for is_thinking, piece in pieces if not is_thinking)
        assert (thinking.strip(), words) == SPLIT[text]
        assert all(piece for _, piece in pieces)


# ── Tokens ───────────────────────────────────────────────────────────────────────────────────────


class Spent(NamedTuple):
    ended: dict[str, int]
    usage: Usage
    counted: int = 0
    context: int = 0


SPENT = {
    "a cold cache": Spent(
        {"input_tokens": 21357, "output_tokens": 5, "cache_write_tokens": 21354},
        Usage(input=3, output=5, cache_write=21354),
    ),
    "a warm cache": Spent(
        {"input_tokens": 17989, "output_tokens": 5, "cache_read_tokens": 17575, "cache_write_tokens": 411},
        Usage(input=3, output=5, cache_read=17575, cache_write=411),
    ),
    "no cache": Spent({"input_tokens": 13126, "output_tokens": 296}, Usage(input=13126, output=296)),
    "a cache larger than the prompt": Spent(
        {"input_tokens": 10, "output_tokens": 2, "cache_read_tokens": 100}, Usage(output=2, cache_read=100)
    ),
    "the prompts of many steps": Spent(
        {"input_tokens": 4000, "output_tokens": 2, "cache_read_tokens": 300, "cache_write_tokens": 100},
        Usage(input=598, output=2, cache_read=300, cache_write=100),
        context=1000,
    ),
    "the cached prompts of many steps": Spent(
        {"input_tokens": 4000, "output_tokens": 2, "cache_read_tokens": 3500},
        Usage(output=2, cache_read=998),
        context=1000,
    ),
    "input only": Spent({"input_tokens": 10}, Usage(input=10, output=7), counted=7),
    "nothing": Spent({}, Usage(output=7), counted=7),
    "nothing but a checkpoint": Spent({}, Usage(input=93, output=7), counted=7, context=100),
    "nonsense": Spent({"input_tokens": -5, "output_tokens": -1, "cache_read_tokens": -9}, Usage()),
    "more thinking than output": Spent(
        {"input_tokens": 1, "output_tokens": 5, "reasoning_tokens": 9}, Usage(input=1, output=5, reasoning=5)
    ),
}


@each("name", SPENT)
def test_the_tokens_of_a_turn(name: str) -> None:
    spent = SPENT[name]
    tally = UsageCounter()
    tally.count(spent.counted)
    tally.context = spent.context
    tally.bill(updates.TurnEndedUpdate(**spent.ended))
    assert tally.usage() == spent.usage


def test_what_a_leg_told_is_not_told_again_by_the_next() -> None:
    tally = UsageCounter()
    tally.count(4)
    assert tally.usage().output == 4
    tally.next_leg()
    tally.count(3)
    assert tally.usage().output == 3
    tally.bill(updates.TurnEndedUpdate(input_tokens=10, output_tokens=9))
    assert tally.usage().output == 5


def test_several_turns_of_a_run_add_up() -> None:
    tally = UsageCounter()
    for _ in range(2):
        tally.bill(updates.TurnEndedUpdate(input_tokens=10, output_tokens=2, cache_read_tokens=4, reasoning_tokens=1))
    assert tally.usage() == Usage(input=12, output=4, cache_read=8, reasoning=2)


# ── Updates ──────────────────────────────────────────────────────────────────────────────────────


def text_delta(text: str) -> bytes:
    message = agent.AgentServerMessage()
    message.interaction_update.text_delta.text = text
    return message.SerializeToString()


@each("size", [1, 2, 60, 121, 122, 123, 124, 125, 126, 127, 128, 200, 20_000])
@each("letter", ["a", "ö", "語", "👋"])
def test_what_is_read_by_hand_means_what_the_schema_says(letter: str, size: int) -> None:
    payload = text_delta(letter * size)
    by_schema, by_hand = UpdateReader(StoredAnswers(Blobs())), UpdateReader(StoredAnswers(Blobs()))
    for reader in (by_schema, by_hand):
        reader.say("begun ")
    by_schema.receive(agent.AgentServerMessage.FromString(payload).interaction_update)
    assert by_hand.receive_plain([(0, payload)]) == (len(payload) < 130)
    if len(payload) < 130:
        assert by_hand.parts.take() == by_schema.parts.take()


@pytest.mark.parametrize("tokens", [1, 2, 127])
def test_a_count_of_tokens_is_read_by_hand(tokens: int) -> None:
    message = agent.AgentServerMessage()
    message.interaction_update.token_delta.tokens = tokens
    reader = UpdateReader(StoredAnswers(Blobs()))
    assert reader.receive_plain([(0, message.SerializeToString())]) == 1
    assert reader.usage.usage().output == tokens


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        bytes.fromhex("0a026a00"),
        bytes.fromhex("0a0442020880"),
        bytes.fromhex("0a060a040a02ff80"),
        bytes.fromhex("0a080a060a0248691001"),
        bytes.fromhex("0a0622040a02486d"),
        bytes.fromhex("0a070a040a024869"),
        text_delta(""),
    ],
)
def test_anything_else_is_left_to_the_schema(payload: bytes) -> None:
    reader = UpdateReader(StoredAnswers(Blobs()))
    reader.say("begun ")
    reader.parts.take()
    assert reader.receive_plain([(0, payload)]) == 0
    assert reader.parts.take() == []


@pytest.mark.parametrize("flags", [COMPRESSED, END, TRAILERS])
def test_a_frame_that_is_no_plain_message_is_not_read_by_hand(flags: int) -> None:
    reader = UpdateReader(StoredAnswers(Blobs()))
    reader.say("begun ")
    assert reader.receive_plain([(flags, text_delta("Hi"))]) == 0


@pytest.mark.parametrize("other", [b"", bytes.fromhex("0a060a040a02ff80"), text_delta("x" * 200)])
def test_a_run_of_plain_messages_is_read_up_to_the_first_that_is_none(other: bytes) -> None:
    tokens = agent.AgentServerMessage()
    tokens.interaction_update.token_delta.tokens = 3
    payloads = [text_delta("Hi "), tokens.SerializeToString(), text_delta("you"), other, text_delta("!")]
    reader = UpdateReader(StoredAnswers(Blobs()))
    reader.say("begun ")
    reader.parts.take()
    assert reader.receive_plain([(0, payload) for payload in payloads]) == 3
    assert [event.text for event in of_kind(reader.parts.take(), PartDelta)] == ["Hi ", "you"]
    assert reader.usage.usage().output == 3
    assert reader.receive_plain([(0, payload) for payload in payloads], 4) == 1


def test_text_is_not_read_by_hand_while_it_may_begin_with_a_tag() -> None:
    assert not UpdateReader(StoredAnswers(Blobs())).receive_plain([(0, text_delta("Hi"))])


def test_the_notes_of_a_leg_are_bounded() -> None:
    reader = UpdateReader(StoredAnswers(Blobs()))
    for number in range(MAX_NOTES * 2):
        reader.note("kind", str(number))
    assert len(reader.parts.take()) == MAX_NOTES
    reader.begin()
    reader.note("kind", "x")
    assert reader.parts.take() == [Note(kind="kind", message="x")]


def test_text_after_a_call_is_another_part() -> None:
    reader = UpdateReader(StoredAnswers(Blobs()))
    reader.say("a")
    reader.call(ToolCall(id="call_1", name="read", arguments="{}"))
    reader.say("<think>b</think>c")
    reader.pause()
    assert [event.text for event in reader.parts.take() if isinstance(event, PartDelta)] == ["a", "{}", "b", "c"]


# ── What was only stored ─────────────────────────────────────────────────────────────────────────


def step(text: str) -> bytes:
    return conversation.ConversationStep(assistant_message=conversation.AssistantMessage(text=text)).SerializeToString()


ANSWERS = {
    "a message of one text": (b'{"role":"assistant","content":"It is sunny."}', StoredText("", "It is sunny.")),
    "a message of parts": (
        b'{"id":"1","role":"assistant","content":[{"type":"reasoning","text":"Hm."},'
        b'{"type":"redacted-reasoning","data":"x"},{"type":"text","text":"It is "},{"type":"text","text":"sunny."}]}',
        StoredText("Hm.", "It is sunny."),
    ),
    "a message with tags": (
        b'{"role":"assistant","content":[{"type":"text","text":"<think>Hm.</think>\\n\\nIt is sunny.\\n"}]}',
        StoredText("Hm.", "It is sunny."),
    ),
    "a step": (step("It is sunny."), StoredText("", "It is sunny.")),
    "a step with tags": (step("<think>Hm.</think>It is sunny."), StoredText("Hm.", "It is sunny.")),
    "a message that goes on with a call": (
        b'{"role":"assistant","content":[{"type":"text","text":"Let me look."},{"type":"tool-call"}]}',
        None,
    ),
    "thinking alone": (b'{"role":"assistant","content":[{"type":"reasoning","text":"Hm."}]}', None),
    "a message of the user": (b'{"role":"user","content":"Hello"}', None),
    "a message of nobody": (b'{"content":"Hello"}', None),
    "broken JSON": (b'{"role":"assistant","content":', None),
    "a message of numbers": (b'{"role":"assistant","content":3}', None),
    "thinking of a step": (
        conversation.ConversationStep(
            thinking_message=conversation.ThinkingMessage(text="Hm.")
        ).SerializeToString(),
        None,
    ),
    "a user message in binary": (conversation.UserMessage(text="Hello", message_id="m").SerializeToString(), None),
    "a turn": (b"\n\x48\n\x20" + bytes(range(128, 160)) + b"\x12\x20" + bytes(range(160, 192)) + b"\x1a\x02r1", None),
    "plain text": (b"It is sunny.", None),
    "nothing": (b"", None),
    "something huge": (step("x" * (2 << 20)), None),
}  # fmt: skip


@each("name", ANSWERS)
def test_the_answer_in_a_blob_is_found(name: str) -> None:
    data, expected = ANSWERS[name]
    stored = StoredAnswers(Blobs())
    stored.keep(b"id", data)
    assert stored.unseen() == expected


@pytest.mark.parametrize("name", [name for name, (_, found) in ANSWERS.items() if found])
def test_what_was_streamed_is_not_given_again(name: str) -> None:
    stored = StoredAnswers(Blobs())
    stored.record("It is")
    stored.record("  sunny. ")
    stored.keep(b"id", ANSWERS[name][0])
    assert stored.unseen() is None
    stored.next_step()
    assert stored.unseen() is None


def test_what_is_being_streamed_is_not_given_again() -> None:
    stored = StoredAnswers(Blobs())
    stored.keep(b"id", step("It is sunny."))
    assert stored.unseen("It is sunny.") is None
    assert stored.unseen("It is su") == StoredText("", "nny.")


def test_only_the_rest_of_what_was_streamed_in_part_is_given() -> None:
    stored = StoredAnswers(Blobs())
    stored.record("\nIt is ")
    stored.keep(b"id", step("<think>Hm.</think>It is sunny."))
    assert stored.unseen() == StoredText("", "sunny.")


def test_a_copy_that_says_something_else_than_the_stream_is_not_trusted() -> None:
    """Ours: rather too little than the same thing twice."""
    stored = StoredAnswers(Blobs())
    stored.record("It rains")
    stored.keep(b"id", step("It is sunny."))
    assert stored.unseen() is None


def test_the_newest_answer_counts() -> None:
    stored = StoredAnswers(Blobs())
    stored.keep(b"a", step("Old."))
    stored.keep(b"b", step("New."))
    stored.keep(b"c", b'{"role":"tool","content":[]}')
    assert stored.unseen() == StoredText("", "New.")


def test_the_history_is_not_an_answer() -> None:
    old = b'{"role":"assistant","content":"An old answer."}'
    stored = StoredAnswers(Blobs({b"old": old}))
    stored.keep(b"old", old)
    stored.keep(b"other", step("An old answer."))
    assert stored.unseen() is None
    stored.keep(b"new", step("A new answer."))
    assert stored.unseen() == StoredText("", "A new answer.")


def test_the_copies_that_are_kept_in_mind_are_bounded() -> None:
    stored = StoredAnswers(Blobs())
    stored.keep(b"first", step("First."))
    for number in range(MAX_COPIES):
        stored.keep(str(number).encode(), b'{"role":"assistant"}')
    assert stored.unseen() is None


def test_what_is_no_answer_takes_no_place_of_one() -> None:
    stored = StoredAnswers(Blobs())
    stored.keep(b"first", b'{"content":"First.", "role" : "assistant"}')
    for number in range(MAX_COPIES):
        stored.keep(str(number).encode(), b'{"role":"user","content":"\\"role\\":\\"assistant\\""}')
    assert stored.unseen() == StoredText("", "First.")
