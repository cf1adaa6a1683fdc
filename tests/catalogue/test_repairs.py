"""Known failures 97 to 101: what models get wrong. Repairs are off by default, and always told when they are on."""

import json
from collections.abc import Sequence
from typing import Any

from tests.catalogue.asking import Json, asking, calls, parsed, results, tool, user
from tests.catalogue.crossing import (
    CROSSINGS,
    PROTOCOLS,
    STREAMS,
    Crossing,
    Protocol,
    Seen,
    call_delta,
    chat_stream,
    cross,
    events_of,
    message_stream,
    shown,
    text_block,
    tool_block,
)
from tests.each import each
from tests.grammar import check
from tieline.app.config import UpstreamSettings
from tieline.core.repair.repairs import DEFAULT, RepairName, Repairs
from tieline.model.content import Message

every_crossing = each("crossing", CROSSINGS)
every_stream = each("crossing", STREAMS)
every_upstream = each("upstream", PROTOCOLS)

SCHEMA = {
    "type": "object",
    "properties": {
        "path": {"type": "string"},
        "lines": {"type": "array", "items": {"type": "integer"}},
        "options": {"type": "object"},
        "limit": {"type": "integer"},
        "force": {"type": "boolean"},
    },
}
TOOLS = parsed(asking("openai_chat", user("hi"), tools=[tool("openai_chat", "edit", SCHEMA)]), "openai_chat").tools


def text_answer(upstream: Protocol, *pieces: str) -> bytes:
    if upstream == "anthropic":
        return message_stream(*text_block(0, *pieces))
    return chat_stream(*({"content": piece} for piece in pieces))


def call_answer(upstream: Protocol, name: str, *pieces: str, cut: bool = False) -> bytes:
    if upstream == "anthropic":
        return message_stream(*tool_block(0, "c1", name, *pieces), stop="max_tokens" if cut else "tool_use")
    first = call_delta(0, "", id="c1", type="function", name=name)
    more = [call_delta(0, piece) for piece in pieces]
    return chat_stream(first, *more, finish="length" if cut else "tool_calls")


def whole_call(upstream: Protocol, name: str, arguments: str) -> bytes:
    if upstream == "anthropic":
        block = {"type": "tool_use", "id": "c1", "name": name, "input": json.loads(arguments)}
        body: Json = {"id": "x", "type": "message", "model": "m", "content": [block], "stop_reason": "tool_use"}
    else:
        call = {"id": "c1", "type": "function", "function": {"name": name, "arguments": arguments}}
        choice = {"index": 0, "message": {"content": None, "tool_calls": [call]}, "finish_reason": "tool_calls"}
        body = {"id": "x", "model": "m", "choices": [choice]}
    return json.dumps(body).encode()


def repaired(
    data: bytes,
    upstream: Protocol,
    crossing: Crossing,
    *enabled: RepairName,
    history: Sequence[Message] = (),
    whole: bool = False,
) -> Seen:
    """What a client sees when these repairs are enabled."""
    repairs = Repairs(TOOLS, frozenset(enabled), history)
    events = [event for one in events_of(data, upstream, whole=whole) for event in repairs.apply((one,))]
    check(events)
    return shown(events, crossing)


def untouched(data: bytes, upstream: Protocol, crossing: Crossing, *, whole: bool = False) -> Seen:
    """What a client sees by default; asserts that it is, byte for byte, what it would see without any repairs."""
    seen = repaired(data, upstream, crossing, *DEFAULT, whole=whole)
    assert seen.raw == cross(data, upstream, crossing, whole=whole).raw
    assert [note for note in seen.notes if note.kind == "repair"] == []
    return seen


def told(seen: Seen) -> list[str]:
    return [note.message for note in seen.notes if note.kind == "repair"]


def test_097_no_repair_is_on_unless_it_is_asked_for() -> None:
    """The wrapper of parallel calls (38) is the exception: it cannot hurt."""
    assert frozenset({"parallel"}) == DEFAULT
    assert UpstreamSettings(kind="openai").repairs == ()


# ── 97: calls written as text ────────────────────────────────────────────────────────────────────

WRITTEN = [
    '<tool_call>{"name":"edit","arguments":{"path":"a"}}</tool_call>',
    '<function=edit>{"path":"a"}</function>',
    "<function=edit><parameter=path>a</parameter></function>",
    '<invoke name="edit"><parameter name="path">a</parameter></invoke>',
    '[TOOL_CALLS][{"name":"edit","arguments":{"path":"a"}}]',
    '```tool_call\n{"name":"edit","arguments":{"path":"a"}}\n```',
]


@every_crossing
@every_upstream
@each("written", WRITTEN)
def test_097_a_call_written_as_text_becomes_a_call_when_asked_for(
    upstream: Protocol, crossing: Crossing, written: str
) -> None:
    data = text_answer(upstream, "Let me see. ", *written)
    seen = repaired(data, upstream, crossing, "text_calls")
    assert seen.order == ["text", "call"]
    assert seen.text.rstrip() == "Let me see."
    assert seen.names == ["edit"]
    assert json.loads(seen.arguments[0]) == {"path": "a"}
    assert seen.calls[0].id
    assert seen.finish == ("tool_use" if crossing.client == "anthropic" else "tool_calls")
    assert len(told(seen)) == 1


@every_crossing
@every_upstream
@each("written", WRITTEN)
def test_097_by_default_it_stays_text(upstream: Protocol, crossing: Crossing, written: str) -> None:
    seen = untouched(text_answer(upstream, "Let me see. ", *written), upstream, crossing)
    assert seen.text == "Let me see. " + written
    assert seen.calls == []


@every_crossing
@every_upstream
@each(
    "text",
    [
        '<tool_call>{"name":"rm","arguments":{}}</tool_call>',
        '<tool_call>{"name":"edit","arguments":{"path":</tool_call>',
        '<tool_call>{"name":"edit"',
        'Write `<tool_call>{"name":"edit","arguments":{}}</tool_call>` to call it.',
        "a < b and <tool> are only words",
    ],
)
def test_097_anything_but_a_wellformed_call_of_an_offered_tool_stays_text(
    upstream: Protocol, crossing: Crossing, text: str
) -> None:
    seen = repaired(text_answer(upstream, *text), upstream, crossing, "text_calls")
    assert seen.text == text
    assert seen.calls == []
    assert told(seen) == []


# ── 98 and 99: values and keys ───────────────────────────────────────────────────────────────────

MISTYPED = '{"path":"1","lines":"[1, 2]","options":"{\\"deep\\":true}","limit":"7","force":"true"}'
TYPED = {"path": "1", "lines": [1, 2], "options": {"deep": True}, "limit": 7, "force": True}


@every_crossing
@every_upstream
@each("whole", [False, True])
def test_098_text_becomes_what_the_schema_says_when_asked_for(
    upstream: Protocol, crossing: Crossing, whole: bool
) -> None:
    data = whole_call(upstream, "edit", MISTYPED) if whole else call_answer(upstream, "edit", *MISTYPED)
    seen = repaired(data, upstream, crossing, "coerce", whole=whole)
    assert [json.loads(arguments) for arguments in seen.arguments] == [TYPED]
    assert len(told(seen)) == 4


@every_crossing
@every_upstream
@each("whole", [False, True])
def test_098_by_default_values_stay_as_they_came(upstream: Protocol, crossing: Crossing, whole: bool) -> None:
    data = whole_call(upstream, "edit", MISTYPED) if whole else call_answer(upstream, "edit", *MISTYPED)
    seen = untouched(data, upstream, crossing, whole=whole)
    assert json.loads(seen.arguments[0]) == json.loads(MISTYPED)


@every_stream
@every_upstream
@each("arguments", ['{"path": "[1]"}', '{"lines": "1, 2"}', '{"limit": "seven"}', '{"limit": "1.5"}', '{"other": "1"}'])
def test_098_what_does_not_fit_the_schema_stays_byte_for_byte(
    upstream: Protocol, crossing: Crossing, arguments: str
) -> None:
    seen = repaired(call_answer(upstream, "edit", arguments), upstream, crossing, "coerce")
    assert seen.arguments == [arguments]
    assert told(seen) == []


SPACED = '{"path ":"a"," limit":7,"other ":1}'


@every_crossing
@every_upstream
@each("whole", [False, True])
def test_099_spaces_around_a_key_go_when_asked_for(upstream: Protocol, crossing: Crossing, whole: bool) -> None:
    data = whole_call(upstream, "edit", SPACED) if whole else call_answer(upstream, "edit", *SPACED)
    seen = repaired(data, upstream, crossing, "keys", whole=whole)
    assert json.loads(seen.arguments[0]) == {"path": "a", "limit": 7, "other ": 1}
    assert len(told(seen)) == 2


@every_crossing
@every_upstream
def test_099_by_default_keys_stay_as_they_came(upstream: Protocol, crossing: Crossing) -> None:
    seen = untouched(call_answer(upstream, "edit", *SPACED), upstream, crossing)
    assert json.loads(seen.arguments[0]) == json.loads(SPACED)


# ── 100: malformed JSON ──────────────────────────────────────────────────────────────────────────

MALFORMED = ['{"path":"a}', '{"path":"a"', "{'path': 'a'}", '{"path":"a",}']


@every_crossing
@every_upstream
@each("arguments", MALFORMED)
def test_100_a_slip_is_mended_when_asked_for(upstream: Protocol, crossing: Crossing, arguments: str) -> None:
    seen = repaired(call_answer(upstream, "edit", arguments), upstream, crossing, "json")
    assert json.loads(seen.arguments[0]) == {"path": "a"}
    assert len(told(seen)) == 1


@every_crossing
@every_upstream
@each("arguments", MALFORMED)
def test_100_by_default_a_slip_stays_and_is_not_called_truncation(
    upstream: Protocol, crossing: Crossing, arguments: str
) -> None:
    seen = untouched(call_answer(upstream, "edit", arguments), upstream, crossing)
    assert seen.finish == ("tool_use" if crossing.client == "anthropic" else "tool_calls")
    if crossing.stream or crossing.client != "anthropic":
        assert seen.arguments == [arguments]
    else:
        assert json.loads(seen.arguments[0]) == {"_invalid_json": arguments}


@every_crossing
@every_upstream
def test_100_a_call_that_was_cut_is_never_mended(upstream: Protocol, crossing: Crossing) -> None:
    data = call_answer(upstream, "edit", '{"path":"a', cut=True)
    seen = repaired(data, upstream, crossing, "json")
    assert seen.raw == cross(data, upstream, crossing).raw
    assert seen.finish == ("max_tokens" if crossing.client == "anthropic" else "length")
    assert told(seen) == []


@every_crossing
@every_upstream
def test_100_what_cannot_be_told_is_noted_and_left_alone(upstream: Protocol, crossing: Crossing) -> None:
    data = call_answer(upstream, "edit", '{"path": oh, dear}')
    seen = repaired(data, upstream, crossing, "json")
    assert seen.raw == cross(data, upstream, crossing).raw
    assert [note.kind for note in seen.notes] == ["malformed"]


@every_crossing
def test_100_a_slip_in_a_whole_answer_is_mended_too(crossing: Crossing) -> None:
    data = whole_call("openai_chat", "edit", '{"path":"a"')
    seen = repaired(data, "openai_chat", crossing, "json", whole=True)
    assert json.loads(seen.arguments[0]) == {"path": "a"}
    assert len(told(seen)) == 1


# ── 101: unknown tools, and circles ──────────────────────────────────────────────────────────────


@every_crossing
@every_upstream
def test_101_a_call_to_an_unknown_tool_passes_and_is_noted_when_asked_for(
    upstream: Protocol, crossing: Crossing
) -> None:
    data = call_answer(upstream, "fly", '{"to":"Rome"}')
    assert untouched(data, upstream, crossing).names == ["fly"]
    seen = repaired(data, upstream, crossing, "unknown")
    assert seen.raw == cross(data, upstream, crossing).raw
    assert [note.kind for note in seen.notes] == ["unknown_tool"]


def history_of(client: Protocol, times: int, *answers: str) -> tuple[Message, ...]:
    """A conversation in which one call was made again and again."""
    turns: list[list[Any]] = []
    for number in range(times):
        answer = answers[number % len(answers)] if answers else "no such file"
        turns += [calls(client, (f"c{number}", "edit", {"path": "a"})), results(client, (f"c{number}", answer))]
    return parsed(asking(client, user("hi"), *turns), client).messages


@every_crossing
@every_upstream
def test_101_a_call_that_goes_in_circles_is_stopped_when_asked_for(upstream: Protocol, crossing: Crossing) -> None:
    data = call_answer(upstream, "edit", '{ "path": "a" }')
    seen = repaired(data, upstream, crossing, "repeat", history=history_of(crossing.asked, 3))
    assert seen.calls == []
    assert "3 times in a row" in seen.text
    assert seen.finish == ("end_turn" if crossing.client == "anthropic" else "stop")
    assert len(told(seen)) == 1


@every_crossing
@every_upstream
@each(
    ("times", "answers", "arguments"),
    [(2, (), '{"path":"a"}'), (3, ("1 %", "2 %"), '{"path":"a"}'), (3, (), '{"path":"b"}')],
)
def test_101_anything_short_of_a_circle_passes(
    upstream: Protocol, crossing: Crossing, times: int, answers: tuple[str, ...], arguments: str
) -> None:
    data = call_answer(upstream, "edit", arguments)
    history = history_of(crossing.asked, times, *answers)
    seen = repaired(data, upstream, crossing, "repeat", history=history)
    assert seen.raw == cross(data, upstream, crossing).raw
    assert told(seen) == []


@every_crossing
@every_upstream
def test_101_by_default_a_circle_goes_on(upstream: Protocol, crossing: Crossing) -> None:
    data = call_answer(upstream, "edit", '{"path":"a"}')
    seen = repaired(data, upstream, crossing, *DEFAULT, history=history_of(crossing.asked, 9))
    assert seen.raw == cross(data, upstream, crossing).raw
