"""Frames are remembered from one answer to the next: what an answer says never depends on those before it."""

import json
from typing import Any

import pytest

from tests.grammar import check
from tieline.model.assemble import fold
from tieline.model.content import Text, Thinking, ToolCall
from tieline.model.events import Event, PartDelta
from tieline.wire.anthropic import ResponseReader

COMPACT, SPACED = (",", ":"), (", ", ": ")


def block(kind: str, separators: tuple[str, str], **fields: Any) -> bytes:
    data = json.dumps({"type": kind, **fields}, separators=separators, ensure_ascii=False)
    return f"event: {kind}\ndata: {data}\n\n".encode()


def answer(part: dict[str, Any], deltas: list[dict[str, Any]], separators: tuple[str, str]) -> list[bytes]:
    return [
        block("message_start", separators, message={"id": "msg_1", "model": "m"}),
        block("content_block_start", separators, index=0, content_block=part),
        *(block("content_block_delta", separators, index=0, delta=delta) for delta in deltas),
        block("content_block_stop", separators, index=0),
        block("message_delta", separators, delta={"stop_reason": "end_turn"}),
        block("message_stop", separators),
    ]


def read(reads: list[bytes]) -> list[Event]:
    reader = ResponseReader()
    events = [event for data in reads for event in reader.feed(data)] + reader.close()
    check(events)
    return events


def texts(events: list[Event]) -> list[str]:
    return [event.text for event in events if isinstance(event, PartDelta)]


WORDS = ["one ", "zwei ä ", 'a "quote"', "\n\n", "\\", "😀"]
KINDS: dict[str, tuple[dict[str, Any], str, str]] = {
    "text": ({"type": "text", "text": ""}, "text_delta", "text"),
    "thinking": ({"type": "thinking", "thinking": ""}, "thinking_delta", "thinking"),
    "input": ({"type": "tool_use", "id": "c", "name": "f", "input": {}}, "input_json_delta", "partial_json"),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("order", [(COMPACT, SPACED, COMPACT), (SPACED, COMPACT, COMPACT)])
def test_answers_of_another_spelling_are_read_alike_one_after_the_other(
    kind: str, order: tuple[tuple[str, str], ...]
) -> None:
    part, delta, field = KINDS[kind]
    for separators in order:
        stream = answer(part, [{"type": delta, field: word} for word in WORDS], separators)
        whole = b"".join(stream)
        for reads in (stream, [whole], [whole[:200], whole[200:]], [whole[i : i + 7] for i in range(0, len(whole), 7)]):
            events = read(reads)
            assert texts(events) == WORDS
            (said,) = fold(events).parts
            assert isinstance(said, Text | Thinking | ToolCall)
            assert (said.arguments if isinstance(said, ToolCall) else said.text) == "".join(WORDS)


def test_the_arguments_of_a_call_are_never_those_of_its_start_when_others_follow() -> None:
    part = {"type": "tool_use", "id": "c", "name": "f", "input": {"a": 1}}
    for _ in range(2):
        stream = answer(part, [{"type": "input_json_delta", "partial_json": '{"b":2}'}], COMPACT)
        (call,) = fold(read(stream)).parts
        assert isinstance(call, ToolCall)
        assert call.arguments == '{"b":2}'


def test_a_delta_with_more_to_say_is_heard_though_the_frame_is_known() -> None:
    part = {"type": "thinking", "thinking": ""}
    plain = {"type": "thinking_delta", "thinking": "hm"}
    read(answer(part, [plain, plain], COMPACT))
    signed = {"type": "thinking_delta", "thinking": "so", "signature": "proof"}
    for reads in (answer(part, [plain, signed, plain], COMPACT), [b"".join(answer(part, [signed, plain], COMPACT))]):
        (thought,) = fold(read(reads)).parts
        assert isinstance(thought, Thinking)
        assert thought.signature == "proof"


def test_thinking_and_words_in_one_read_are_two_runs() -> None:
    thinking = [block("content_block_start", COMPACT, index=0, content_block={"type": "thinking", "thinking": ""})]
    words = [block("content_block_start", COMPACT, index=1, content_block={"type": "text", "text": ""})]
    for word in WORDS:
        delta = {"type": "thinking_delta", "thinking": word}
        thinking.append(block("content_block_delta", COMPACT, index=0, delta=delta))
        words.append(block("content_block_delta", COMPACT, index=1, delta={"type": "text_delta", "text": word}))
    thinking.append(block("content_block_stop", COMPACT, index=0))
    words.append(block("content_block_stop", COMPACT, index=1))
    first, *_, message_delta, stop = answer({"type": "text"}, [], COMPACT)
    for _ in range(2):
        assert texts(read([b"".join([first, *thinking, *words, message_delta, stop])])) == WORDS * 2
