"""Emitting tool calls, entries 1 to 13: arguments, indices, ids and names."""

import json
from typing import Any

import pytest

from tests.catalogue.checks import (
    assert_arguments,
    assert_in_order,
    chat_call,
    chat_reply,
    finish_of,
    frames_of,
    message_reply,
    said,
    tool_use,
)
from tests.catalogue.crossing import (
    CROSSINGS,
    STREAMS,
    Crossing,
    Protocol,
    block,
    call_delta,
    chat_stream,
    chunk,
    cross,
    message_stream,
    sse,
    text_block,
    tool_block,
)
from tests.each import each

everywhere = each("crossing", CROSSINGS, ids=str)
streamed = each("crossing", STREAMS, ids=str)

PIECES = ("", '{"name"', ':"A"', ',"nested":{"path":"src/a b.py"}', ',"text":"line\\n\\u00e9"', "}")
WHOLE = "".join(PIECES)
PIECEMEAL: dict[Protocol, bytes] = {
    "anthropic": message_stream(*tool_block(0, "toolu_1", "write", *PIECES), stop="tool_use"),
    "openai_chat": chat_stream(
        {"role": "assistant", "content": None},
        call_delta(0, "", id="call_1", type="function", name="write"),
        *(call_delta(0, piece) for piece in PIECES),
        finish="tool_calls",
    ),
}
piecemeal = each("upstream", PIECEMEAL)


# ── 1–3: the arguments ──────────────────────────────────────────────────────────────────────────


@piecemeal
@everywhere
def test_001_the_arguments_joined_are_what_the_upstream_sent(crossing: Crossing, upstream: Protocol) -> None:
    seen = cross(PIECEMEAL[upstream], upstream, crossing)
    assert_arguments(seen, crossing, WHOLE)
    assert_in_order(seen, crossing)
    assert (seen.names, seen.finish) == (["write"], finish_of(crossing, "tool_use"))


@piecemeal
@streamed
def test_001_buffered_arguments_come_in_one_piece_and_incremental_ones_as_they_were_sent(
    crossing: Crossing, upstream: Protocol
) -> None:
    (call,) = cross(PIECEMEAL[upstream], upstream, crossing).calls
    assert call.pieces == ([WHOLE] if crossing.arguments == "buffered" else [piece for piece in PIECES if piece])


@pytest.mark.parametrize("upstream", PIECEMEAL)
@pytest.mark.parametrize("client", ["anthropic", "openai_chat"])
def test_001_no_prefix_that_parses_is_shown_by_itself_when_arguments_are_buffered(
    client: Protocol, upstream: Protocol
) -> None:
    pieces = ('{"name":"A"}', "\n")
    data = {
        "anthropic": message_stream(*tool_block(0, "toolu_1", "write", *pieces), stop="tool_use"),
        "openai_chat": chat_stream(
            call_delta(0, "", id="call_1", name="write"), *(call_delta(0, p) for p in pieces), finish="tool_calls"
        ),
    }[upstream]
    (call,) = cross(data, upstream, Crossing(client, True, "buffered")).calls
    assert call.pieces == ['{"name":"A"}\n']


@everywhere
def test_002_the_empty_input_of_a_start_is_not_put_before_the_deltas(crossing: Crossing) -> None:
    data = message_stream(*tool_block(0, "toolu_1", "bash", '{"x"', ":1}", start={}), stop="tool_use")
    assert_arguments(cross(data, "anthropic", crossing), crossing, '{"x":1}')


@everywhere
def test_002_an_input_in_the_start_gives_way_to_deltas(crossing: Crossing) -> None:
    data = message_stream(*tool_block(0, "toolu_1", "bash", '{"x":', "2}", start={"x": 1}), stop="tool_use")
    assert_arguments(cross(data, "anthropic", crossing), crossing, '{"x":2}')


@everywhere
def test_002_an_input_in_the_start_counts_when_no_delta_follows(crossing: Crossing) -> None:
    frames = tool_block(0, "toolu_1", "bash", "", start={"x": 1, "deep": {"y": [2]}})
    seen = cross(message_stream(*frames, stop="tool_use"), "anthropic", crossing)
    assert [json.loads(text) for text in seen.arguments] == [{"x": 1, "deep": {"y": [2]}}]
    assert_in_order(seen, crossing)


@everywhere
def test_002_the_whole_input_of_a_whole_reply_is_all_there_is(crossing: Crossing) -> None:
    data = message_reply(tool_use("toolu_1", "bash", {"x": 1}), stop="tool_use")
    assert_arguments(cross(data, "anthropic", crossing, whole=True), crossing, '{"x":1}')


@streamed
def test_002_an_empty_object_before_the_real_arguments_is_left_out(crossing: Crossing) -> None:
    """Seen from relays that have the failure themselves."""
    data = chat_stream(
        call_delta(0, "{}", id="call_1", type="function", name="bash"),
        call_delta(0, '{"x"'),
        call_delta(0, ":1}"),
        finish="tool_calls",
    )
    assert_arguments(cross(data, "openai_chat", crossing), crossing, '{"x":1}')


NO_ARGUMENTS: list[tuple[str, Protocol, bool, bytes]] = [
    ("no delta", "anthropic", False, message_stream(*tool_block(0, "c_1", "now"), stop="tool_use")),
    ("an empty delta", "anthropic", False, message_stream(*tool_block(0, "c_1", "now", ""), stop="tool_use")),
    ("no deltas, null", "anthropic", True, message_reply(tool_use("c_1", "now", None), stop="tool_use")),
    ("whole", "anthropic", True, message_reply(tool_use("c_1", "now", {}), stop="tool_use")),
    ("empty text", "anthropic", True, message_reply(tool_use("c_1", "now", ""), stop="tool_use")),
    ("empty", "openai_chat", False, chat_stream(call_delta(0, "", id="c_1", name="now"), finish="tool_calls")),
    ("absent", "openai_chat", False, chat_stream(call_delta(0, id="c_1", name="now"), finish="tool_calls")),
    ("the word", "openai_chat", False, chat_stream(call_delta(0, "null", id="c_1", name="now"), finish="tool_calls")),
    ("blank", "openai_chat", False, chat_stream(call_delta(0, " ", id="c_1", name="now"), finish="tool_calls")),
    ("an object", "openai_chat", False, chat_stream(call_delta(0, "{}", id="c_1", name="now"), finish="tool_calls")),
    ("whole", "openai_chat", True, chat_reply({"tool_calls": [chat_call("c_1", "now", "")]}, "tool_calls")),
    ("whole null", "openai_chat", True, chat_reply({"tool_calls": [chat_call("c_1", "now", None)]}, "tool_calls")),
]


@each(("upstream", "whole", "data"), [case[1:] for case in NO_ARGUMENTS])
@everywhere
def test_003_a_tool_without_parameters_gets_an_empty_object(
    crossing: Crossing, upstream: Protocol, whole: bool, data: bytes
) -> None:
    seen = cross(data, upstream, crossing, whole=whole)
    assert_arguments(seen, crossing, "{}")
    assert_in_order(seen, crossing)
    assert [(call.id, call.name) for call in seen.calls] == [("c_1", "now")]


# ── 4–6: index, id and name ─────────────────────────────────────────────────────────────────────

AFTER_WORDS: list[tuple[Protocol, bool, bytes]] = [
    (
        "anthropic",
        False,
        message_stream(
            *block(
                0, {"type": "thinking", "thinking": "", "signature": ""}, {"type": "thinking_delta", "thinking": "Hm"}
            ),
            *text_block(1, "I look."),
            *tool_block(2, "c_1", "read", '{"a":1}'),
            *tool_block(3, "c_2", "read", '{"a":2}'),
            stop="tool_use",
        ),
    ),
    (
        "anthropic",
        True,
        message_reply(
            {"type": "thinking", "thinking": "Hm", "signature": "s"},
            said("I look."),
            tool_use("c_1", "read", {"a": 1}),
            tool_use("c_2", "read", {"a": 2}),
            stop="tool_use",
        ),
    ),
    (
        "openai_chat",
        False,
        chat_stream(
            {"reasoning_content": "Hm"},
            {"content": "I look."},
            call_delta(1, '{"a":1}', id="c_1", name="read"),
            call_delta(2, '{"a":2}', id="c_2", name="read"),
            finish="tool_calls",
        ),
    ),
    (
        "openai_chat",
        True,
        chat_reply(
            {
                "reasoning_content": "Hm",
                "content": "I look.",
                "tool_calls": [chat_call("c_1", "read", '{"a":1}'), chat_call("c_2", "read", '{"a":2}')],
            },
            "tool_calls",
        ),
    ),
]


@each(("upstream", "whole", "data"), AFTER_WORDS)
@everywhere
def test_004_the_first_call_has_index_zero_whatever_was_said_before(
    crossing: Crossing, upstream: Protocol, whole: bool, data: bytes
) -> None:
    seen = cross(data, upstream, crossing, whole=whole)
    assert [(call.index, call.id) for call in seen.calls] == [(0, "c_1"), (1, "c_2")]
    assert (seen.thinking, seen.text) == ("Hm", "I look.")
    assert seen.order == ["thinking", "text", "call", "call"]
    assert_arguments(seen, crossing, '{"a":1}', '{"a":2}')
    assert_in_order(seen, crossing)


THREE = ('{"city":"Paris"}', '{"city":"Rome"}', '{"city":"Oslo"}')
ONE_INDEX = {
    "with their ids, in chunks of their own (ollama)": chat_stream(
        *({"tool_calls": [chat_call(f"call_{n}", "weather", text, index=0)]} for n, text in enumerate(THREE)),
        finish="tool_calls",
    ),
    "with their ids, in one chunk": chat_stream(
        {"tool_calls": [chat_call(f"call_{n}", "weather", text, index=0) for n, text in enumerate(THREE)]},
        finish="tool_calls",
    ),
    "with their ids, in pieces": chat_stream(
        *(
            delta
            for n, text in enumerate(THREE)
            for delta in (call_delta(0, text[:7], id=f"call_{n}", name="weather"), call_delta(0, text[7:]))
        ),
        finish="tool_calls",
    ),
    "without an index (Gemini)": chat_stream(
        {"tool_calls": [chat_call(f"call_{n}", "weather", text) for n, text in enumerate(THREE)]},
        finish="tool_calls",
    ),
    "as they should": chat_stream(
        *(call_delta(n, text, id=f"call_{n}", name="weather") for n, text in enumerate(THREE)), finish="tool_calls"
    ),
}


@each("case", ONE_INDEX)
@everywhere
def test_005_parallel_calls_have_an_index_each(crossing: Crossing, case: str) -> None:
    seen = cross(ONE_INDEX[case], "openai_chat", crossing)
    assert [(call.index, call.id) for call in seen.calls] == [(0, "call_0"), (1, "call_1"), (2, "call_2")]
    assert seen.names == ["weather"] * 3
    assert_arguments(seen, crossing, *THREE)
    assert_in_order(seen, crossing)


@everywhere
def test_005_parallel_calls_of_a_messages_stream_have_an_index_each(crossing: Crossing) -> None:
    frames = [frame for n, text in enumerate(THREE) for frame in tool_block(n, f"toolu_{n}", "weather", text)]
    seen = cross(message_stream(*frames, stop="tool_use"), "anthropic", crossing)
    assert [(call.index, call.id) for call in seen.calls] == [(0, "toolu_0"), (1, "toolu_1"), (2, "toolu_2")]
    assert_arguments(seen, crossing, *THREE)
    assert_in_order(seen, crossing)


@each(
    "later",
    [{"id": "", "name": ""}, {"id": "call_1", "name": "bash"}, {"name": "bash"}, {"id": "call_1", "name": ""}],
    ids=str,
)
@everywhere
def test_006_id_and_name_repeated_by_the_upstream_are_told_once(crossing: Crossing, later: dict[str, Any]) -> None:
    data = chat_stream(
        call_delta(0, "", id="call_1", type="function", name="bash"),
        call_delta(0, '{"command":', type="function", **later),
        call_delta(0, '"ls"}', type="function", **later),
        finish="tool_calls",
    )
    seen = cross(data, "openai_chat", crossing)
    assert [(call.id, call.name) for call in seen.calls] == [("call_1", "bash")]
    assert_arguments(seen, crossing, '{"command":"ls"}')
    assert_in_order(seen, crossing)


# ── 7–9: names and ids that come late or never ──────────────────────────────────────────────────


@everywhere
def test_007_arguments_before_the_name_wait_for_it(crossing: Crossing) -> None:
    data = chat_stream(
        call_delta(0, '{"path":'),
        call_delta(0, '"a.py"', id="call_1"),
        call_delta(0, "", name="read"),
        call_delta(0, "}"),
        finish="tool_calls",
    )
    seen = cross(data, "openai_chat", crossing)
    assert [(call.id, call.name) for call in seen.calls] == [("call_1", "read")]
    assert_arguments(seen, crossing, '{"path":"a.py"}')
    assert_in_order(seen, crossing)


@everywhere
def test_007_two_calls_may_both_wait_for_their_names(crossing: Crossing) -> None:
    data = chat_stream(
        call_delta(0, '{"a":', id="call_1"),
        call_delta(1, '{"b":', id="call_2"),
        call_delta(1, "2}", name="second"),
        call_delta(0, "1}", name="first"),
        finish="tool_calls",
    )
    seen = cross(data, "openai_chat", crossing)
    found = {call.id: (call.name, json.loads(call.arguments)) for call in seen.calls}
    assert found == {"call_1": ("first", {"a": 1}), "call_2": ("second", {"b": 2})}
    assert_in_order(seen, crossing)


EMPTY_SIGNALS: list[tuple[Protocol, bytes]] = [
    (
        "openai_chat",
        chat_stream(
            {"content": "All done."},
            call_delta(0, "", id="", type="function", name=""),
            {"tool_calls": [{"index": 0}]},
            {"tool_calls": [{"index": 1, "function": None}]},
        ),
    ),
    ("anthropic", message_stream(*text_block(0, "All done."), *tool_block(1, "", ""), stop="tool_use")),
]


@each(("upstream", "data"), EMPTY_SIGNALS)
@everywhere
def test_008_a_call_of_nothing_is_no_call(crossing: Crossing, upstream: Protocol, data: bytes) -> None:
    seen = cross(data, upstream, crossing)
    assert (seen.calls, seen.text, seen.finish) == ([], "All done.", finish_of(crossing, "end_turn"))
    assert_in_order(seen, crossing)


NAMELESS: list[tuple[Protocol, bool, bytes]] = [
    (
        "openai_chat",
        False,
        chat_stream(call_delta(0, '{"x":', id="call_1", name=""), call_delta(0, "1}"), finish="tool_calls"),
    ),
    ("openai_chat", True, chat_reply({"tool_calls": [chat_call("call_1", "", '{"x":1}')]}, "tool_calls")),
    ("anthropic", False, message_stream(*tool_block(0, "call_1", "", '{"x":', "1}"), stop="tool_use")),
    ("anthropic", True, message_reply(tool_use("call_1", "", {"x": 1}), stop="tool_use")),
]


@each(("upstream", "whole", "data"), NAMELESS)
@everywhere
def test_008_a_call_without_a_name_gets_one_and_keeps_its_id(
    crossing: Crossing, upstream: Protocol, whole: bool, data: bytes
) -> None:
    seen = cross(data, upstream, crossing, whole=whole)
    assert [(call.id, bool(call.name)) for call in seen.calls] == [("call_1", True)]
    assert_arguments(seen, crossing, '{"x":1}')
    assert seen.finish == finish_of(crossing, "tool_use")
    assert seen.notes


def _without_ids(upstream: Protocol, whole: bool, answer: str) -> bytes:
    texts = ('{"x":1}', '{"x":2}')
    if upstream == "openai_chat":
        if whole:
            made = [{"function": {"name": "bash", "arguments": text}} for text in texts]
            return chat_reply({"tool_calls": made}, "tool_calls", id=answer)
        deltas = [call_delta(n, text, name="bash") for n, text in enumerate(texts)]
        return sse(*(chunk(delta, id=answer) for delta in deltas), chunk(finish="tool_calls", id=answer), "[DONE]")
    if whole:
        return message_reply(*(tool_use("", "bash", json.loads(t)) for t in texts), stop="tool_use", id=answer)
    frames = [frame for n, text in enumerate(texts) for frame in tool_block(n, "", "bash", text)]
    return message_stream(*frames, stop="tool_use").replace(b"msg_up", answer.encode())


@each("upstream", ["anthropic", "openai_chat"])
@each("whole", [False, True], ids=["stream", "whole"])
@everywhere
def test_009_calls_without_an_id_get_one_that_is_always_the_same(
    crossing: Crossing, upstream: Protocol, whole: bool
) -> None:
    one, again, another = (
        cross(_without_ids(upstream, whole, answer), upstream, crossing, whole=whole) for answer in ("r1", "r1", "r2")
    )
    ids = [call.id for call in one.calls]
    assert len(ids) == len(set(ids)) == 2
    assert all(ids)
    assert ids == [call.id for call in again.calls]
    assert not set(ids) & {call.id for call in another.calls}
    assert_arguments(one, crossing, '{"x":1}', '{"x":2}')


# ── 10–13: what may be missing, empty, repeated or all at once ──────────────────────────────────


@each("kind", [{}, {"type": None}, {"type": ""}, {"type": "function"}], ids=str)
@everywhere
def test_010_a_call_without_a_type_is_shown_with_one(crossing: Crossing, kind: dict[str, Any]) -> None:
    data = chat_stream(
        call_delta(0, "", id="call_1", name="bash", **kind), call_delta(0, '{"x":1}', **kind), finish="tool_calls"
    )
    seen = cross(data, "openai_chat", crossing)
    assert_arguments(seen, crossing, '{"x":1}')
    word = {"anthropic": b"tool_use", "openai_chat": b"function", "openai_responses": b"function_call"}[crossing.client]
    # The beginning and the end of an item have its type, and so has the final response.
    times = 3 if crossing.client == "openai_responses" and crossing.stream else 1
    assert seen.raw.count(b'"type":"%b"' % word) == times


@each("kind", [{}, {"type": None}], ids=str)
@everywhere
def test_010_a_whole_call_without_a_type_is_shown_with_one(crossing: Crossing, kind: dict[str, Any]) -> None:
    made = {"id": "call_1", "function": {"name": "bash", "arguments": '{"x":1}'}, **kind}
    seen = cross(chat_reply({"tool_calls": [made]}, "tool_calls"), "openai_chat", crossing, whole=True)
    assert_arguments(seen, crossing, '{"x":1}')
    word = {"anthropic": b"tool_use", "openai_chat": b"function", "openai_responses": b"function_call"}[crossing.client]
    # The beginning and the end of an item have its type, and so has the final response.
    times = 3 if crossing.client == "openai_responses" and crossing.stream else 1
    assert seen.raw.count(b'"type":"%b"' % word) == times


@each("role", ["", "assistant", None])
@everywhere
def test_011_the_role_is_told_once_however_often_it_came(crossing: Crossing, role: str | None) -> None:
    data = chat_stream(
        {"role": role, "content": "Hel"},
        {"role": role, "content": "lo"},
        {"role": role, **call_delta(0, "{", id="call_1", name="bash")},
        {"role": role, **call_delta(0, "}")},
        {"role": role, "content": ""},
        finish="tool_calls",
    )
    seen = cross(data, "openai_chat", crossing)
    assert (seen.text, seen.names) == ("Hello", ["bash"])
    if crossing.client != "openai_responses":  # every message has its role there
        assert seen.raw.count(b'"role":"assistant"') == 1
        assert seen.raw.count(b'"role"') == 1
    assert_arguments(seen, crossing, "{}")
    assert_in_order(seen, crossing)


@streamed
def test_011_the_role_stands_in_the_first_chunk(crossing: Crossing) -> None:
    seen = cross(PIECEMEAL["anthropic"], "anthropic", crossing)
    if crossing.client == "openai_responses":
        return  # an answer has no role there, but its messages do
    first = seen.frames[0]
    role = first["message"]["role"] if crossing.client == "anthropic" else first["choices"][0]["delta"]["role"]
    assert role == "assistant"
    assert seen.raw.count(b'"role"') == 1


@each("nothing", [[], None], ids=["empty", "null"])
@each("whole", [False, True], ids=["stream", "whole"])
@everywhere
def test_012_an_empty_list_of_calls_is_no_call(crossing: Crossing, nothing: Any, whole: bool) -> None:
    data = (
        chat_reply({"content": "Hello", "tool_calls": nothing, "function_call": None})
        if whole
        else chat_stream({"content": "Hel", "tool_calls": nothing}, {"content": "lo", "tool_calls": nothing})
    )
    seen = cross(data, "openai_chat", crossing, whole=whole)
    assert (seen.text, seen.calls, seen.finish) == ("Hello", [], finish_of(crossing, "end_turn"))
    assert b'"tool_calls"' not in seen.raw


@each("whole", [False, True], ids=["stream", "whole"])
@everywhere
def test_012_an_answer_of_words_only_shows_no_list_of_calls(crossing: Crossing, whole: bool) -> None:
    data = message_reply(said("Hello")) if whole else message_stream(*text_block(0, "Hello"))
    seen = cross(data, "anthropic", crossing, whole=whole)
    assert seen.text == "Hello"
    assert b'"tool_calls"' not in seen.raw


IN_ONE_CHUNK = {
    "one call (xAI)": (
        chunk({"role": "assistant", "content": "", "tool_calls": [chat_call("call_1", "bash", THREE[0], index=0)]}),
        chunk(finish="tool_calls"),
    ),
    "one call and the ending": (chunk({"tool_calls": [chat_call("call_1", "bash", THREE[0], index=0)]}, "tool_calls"),),
    "two calls (Gemini)": (
        chunk(
            {
                "tool_calls": [
                    chat_call("call_1", "bash", THREE[0], index=0),
                    chat_call("call_2", "bash", THREE[1], index=1),
                ]
            },
            "stop",
        ),
    ),
}


@each("case", IN_ONE_CHUNK)
@everywhere
def test_013_a_whole_call_in_one_chunk_keeps_its_arguments(crossing: Crossing, case: str) -> None:
    seen = cross(sse(*IN_ONE_CHUNK[case], "[DONE]"), "openai_chat", crossing)
    assert [call.id for call in seen.calls] == ["call_1", "call_2"][: len(seen.calls)]
    assert_arguments(seen, crossing, *THREE[: 2 if "two" in case else 1])
    assert seen.finish == finish_of(crossing, "tool_use")
    assert_in_order(seen, crossing)
    if crossing.client == "anthropic" and crossing.stream:
        starts = [frame["content_block"] for frame in frames_of(seen, "content_block_start")]
        assert [start["input"] for start in starts] == [{}] * len(starts)
