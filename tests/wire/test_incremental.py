"""A conversation that is told again is read as if nobody had ever heard of it."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tieline.model.errors import BadRequest
from tieline.model.request import Request
from tieline.wire.openai_chat import parse, parse_request
from tieline.wire.shared.incremental import MAX_BYTES, MAX_CONVERSATIONS, MAX_EACH, WORTHWHILE, Memory, end_of_last

Json = dict[str, Any]

LONG = "x" * WORTHWHILE
SYSTEM = {"role": "system", "content": LONG}
HELLO = {"role": "user", "content": "hello"}
CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at":1}'}}
ASKED = {"role": "assistant", "content": None, "tool_calls": [CALL, {**CALL, "id": "c2"}]}
FIRST = {"role": "tool", "tool_call_id": "c1", "content": "one"}
SECOND = {"role": "tool", "tool_call_id": "c2", "content": "two"}
NAMELESS = {"role": "tool", "content": "which?"}


@pytest.fixture(autouse=True)
def memory(monkeypatch: pytest.MonkeyPatch) -> Memory[Any]:
    """A memory that knows nothing yet."""
    fresh: Memory[Any] = Memory()
    monkeypatch.setattr(parse, "_TOLD", fresh)
    return fresh


def body_of(messages: list[Json], **fields: Any) -> bytes:
    return json.dumps({"model": "m", "messages": messages, "stream": True, **fields}).encode()


def outcome(body: bytes) -> Request | tuple[str, str | None]:
    try:
        return parse_request(body)
    except BadRequest as error:
        return error.message, error.param


def alone(body: bytes) -> Request | tuple[str, str | None]:
    """The same without a memory."""
    kept, parse._TOLD = parse._TOLD, Memory()
    try:
        return outcome(body)
    finally:
        parse._TOLD = kept


def test_what_was_told_before_is_the_same_objects() -> None:
    tools = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]
    before = parse_request(body_of([SYSTEM, HELLO, ASKED, FIRST, SECOND], tools=tools))
    after = parse_request(body_of([SYSTEM, HELLO, ASKED, FIRST, SECOND, HELLO, HELLO], tools=tools))
    assert len(after.messages) == len(before.messages) + 2
    assert all(old is new for old, new in zip(before.messages, after.messages, strict=False))
    assert after.tools is before.tools


def test_going_back_by_a_turn_still_finds_what_was_told() -> None:
    before = parse_request(body_of([SYSTEM, HELLO]))
    parse_request(body_of([SYSTEM, HELLO, {"role": "user", "content": "a title, please"}]))
    after = parse_request(body_of([SYSTEM, HELLO, ASKED]))
    assert after.messages[1] is before.messages[1]


MESSAGES = st.sampled_from(
    [
        HELLO,
        ASKED,
        FIRST,
        SECOND,
        NAMELESS,
        {**NAMELESS, "name": "look"},
        {"role": "function", "name": "look", "content": "old"},
        {"role": "assistant", "content": "Grüße 👋"},
        {"role": "assistant", "tool_calls": [{"function": {"name": "look"}}]},
        {"role": "assistant", "function_call": {"name": "look", "arguments": "{}"}},
        {"role": "system", "content": "in place"},
        {"role": "user", "name": "eve", "content": [{"type": "text", "text": "parts"}]},
        {"role": "user", "content": "half an emoji \ud83d"},
        {"role": "user", "content": [{"type": "text", "text": "\udc4b half"}]},
        {"role": "user", "content": [{"type": "nonsense"}]},
        {"role": "nobody", "content": "x"},
        {"role": "user", "content": '"messages": [{"role": "user"}]'},
        {"role": 3},
        17,
    ]
)
FIELDS = st.sampled_from([{}, {"temperature": 1}, {"system": "beside"}, {"odd": [1]}, {"metadata": {"messages": []}}])


@settings(max_examples=400, deadline=None)
@given(
    said=st.lists(MESSAGES, max_size=9),
    cuts=st.lists(st.integers(0, 9), min_size=1, max_size=4),
    fields=st.lists(FIELDS, min_size=1, max_size=2),
    indent=st.sampled_from([None, 1]),
    first=st.booleans(),
    ascii_only=st.booleans(),
)
def test_reading_with_a_memory_equals_reading_without(
    said: list[Any], cuts: list[int], fields: list[Json], indent: int | None, first: bool, ascii_only: bool
) -> None:
    parse._TOLD = Memory()
    for turn, cut in enumerate([*cuts, *sorted(cuts)]):
        messages = {"messages": [SYSTEM, *said[:cut]]}
        options = {"model": "m", **fields[turn % len(fields)]}
        whole = {**messages, **options} if first else {**options, **messages}
        text = json.dumps(whole, indent=indent, ensure_ascii=ascii_only)
        body = text.encode("utf-8", "replace")
        assert outcome(body) == alone(body)


INSERTED = [
    b"",
    b" ",
    b",",
    b", ",
    b',{"role":"user","content":"more"}',
    b' , {"role":"user","content":"more"} ',
    b',{"role":"user","content":"more"},',
    b',,{"role":"user","content":"more"}',
    b'{"role":"user","content":"more"}',
    b'],"model":"other","messages":[{"role":"user","content":"more"}',
    b',{"role":"user","content":"more"}],"model":"other","messages":[{"role":"user","content":"instead"}',
    b',{"role":"user","content":"more"}],"odd":[{}',
    b',{"role":"user","content":"\xff"}',
    b',{"role":"user","content":["\xff"]}',
    b',{"role":"user","content":"cut',
    b',"x"',
    b",null",
]


@pytest.mark.parametrize("inserted", INSERTED)
@pytest.mark.parametrize("tail", [b"]}", b'\n] ,"user":"u"}', b'],"messages":[{"role":"user","content":"the last"}]}'])
def test_whatever_stands_where_a_conversation_went_on_means_what_it_means(inserted: bytes, tail: bytes) -> None:
    head = b'{"model":"m","messages":[{"role":"system","content":"%s"}' % LONG.encode()
    parse_request(head + tail)
    assert outcome(head + inserted + tail) == alone(head + inserted + tail)


def test_a_key_that_comes_twice_counts_where_it_comes_last() -> None:
    one, two = json.dumps([SYSTEM]).encode(), json.dumps([{"role": "user", "content": LONG}]).encode()
    for first, second in ((one, two), (one, one)):
        body = b'{"model":"m","messages":%s,"messages":%s}' % (first, second)
        grown = body[:-2] + b',{"role":"user","content":"more"}]}'
        moved = b'{"model":"m","messages":%s,{"role":"user","content":"more"}],"messages":%s}' % (first[:-1], second)
        parse_request(body)
        assert outcome(grown) == alone(grown)
        assert outcome(moved) == alone(moved)


def test_a_last_message_that_grew_is_read_anew() -> None:
    parse_request(body_of([SYSTEM, {"role": "assistant", "content": "I thi"}]))
    read = parse_request(body_of([SYSTEM, {"role": "assistant", "content": "I think"}]))
    assert read.messages[-1].parts[0].text == "I think"  # type: ignore[union-attr] # it is text


def test_a_mistake_in_what_was_added_has_its_place_in_the_whole() -> None:
    parse_request(body_of([SYSTEM, HELLO]))
    with pytest.raises(BadRequest) as caught:
        parse_request(body_of([SYSTEM, HELLO, HELLO, {"role": "user", "content": [{"type": "nonsense"}]}]))
    assert caught.value.param == "messages[3].content[0].type"


def test_an_array_that_stands_in_a_body_twice_has_no_certain_place() -> None:
    array = parse._FIND_MESSAGES.decode(b'{"messages":[{}]}').messages
    assert end_of_last(b'{"messages":[{}]}', array) == 15
    assert end_of_last(b'{"a":[{}],"messages":[{}]}', array) is None


def test_small_bodies_are_not_remembered(memory: Memory[Any]) -> None:
    parse_request(body_of([HELLO]))
    assert len(memory) == 0


def test_the_memory_is_bounded_and_forgets_the_oldest(memory: Memory[Any]) -> None:
    large = "x" * (MAX_EACH // 3 - 4096)
    for size, most in ((LONG, MAX_CONVERSATIONS), (large, MAX_BYTES // MAX_EACH + 1)):
        bodies = [body_of([{"role": "user", "content": f"{number} {size}"}]) for number in range(MAX_CONVERSATIONS + 6)]
        read = [parse_request(body) for body in bodies]
        assert len(memory) <= most
        assert memory.weight <= MAX_BYTES
        assert parse_request(bodies[-1]) is read[-1]
        assert parse_request(bodies[0]) is not read[0]


def test_what_is_too_large_is_not_remembered(memory: Memory[Any]) -> None:
    parse_request(body_of([{"role": "user", "content": "x" * MAX_EACH}]))
    assert len(memory) == 0
    assert memory.weight == 0


def test_a_conversation_that_grows_is_remembered_twice_at_most(memory: Memory[Any]) -> None:
    for turns in range(1, 20):
        parse_request(body_of([SYSTEM, *([HELLO] * turns)]))
    assert len(memory) == 2
