"""Emitting tool calls, entries 14 to 25: several at once, twice, in odd shapes, cut short."""

import json
from typing import Any

import pytest

from tests.catalogue.asking import PAIRS, Sent, ask, asking, calls, results, tool, user
from tests.catalogue.checks import (
    assert_arguments,
    assert_in_order,
    chat_call,
    chat_reply,
    finish_of,
    message_reply,
    said,
    tool_use,
)
from tests.catalogue.crossing import (
    CROSSINGS,
    Crossing,
    Protocol,
    call_delta,
    chat_stream,
    cross,
    message_stream,
    text_block,
    tool_block,
)
from tests.each import each

everywhere = each("crossing", CROSSINGS, ids=str)

# ── 14–18: several things at once ───────────────────────────────────────────────────────────────

INTERLEAVED: dict[str, tuple[Protocol, bytes]] = {
    "by turns": (
        "openai_chat",
        chat_stream(
            call_delta(0, "", id="c_1", name="read"),
            call_delta(1, "", id="c_2", name="grep"),
            call_delta(0, '{"path":'),
            call_delta(1, '{"pattern":'),
            call_delta(0, '"a.py"}'),
            call_delta(1, '"def"}'),
            finish="tool_calls",
        ),
    ),
    "in one chunk each": (
        "openai_chat",
        chat_stream(
            {
                "tool_calls": [
                    chat_call("c_1", "read", '{"path":', index=0),
                    chat_call("c_2", "grep", '{"pattern":', index=1),
                ]
            },
            {
                "tool_calls": [
                    {"index": 1, "function": {"arguments": '"def"}'}},
                    {"index": 0, "function": {"arguments": '"a.py"}'}},
                ]
            },
            finish="tool_calls",
        ),
    ),
    "by turns, in blocks": (
        "anthropic",
        message_stream(
            tool_block(0, "c_1", "read")[0],
            tool_block(1, "c_2", "grep")[0],
            tool_block(1, "c_2", "grep", '{"pattern":')[1],
            tool_block(0, "c_1", "read", '{"path":')[1],
            *tool_block(1, "c_2", "grep", '"def"}')[1:],
            *tool_block(0, "c_1", "read", '"a.py"}')[1:],
            stop="tool_use",
        ),
    ),
}


@each("case", INTERLEAVED)
@everywhere
def test_014_interleaved_calls_come_one_after_the_other(crossing: Crossing, case: str) -> None:
    upstream, data = INTERLEAVED[case]
    seen = cross(data, upstream, crossing)
    assert [(call.id, call.name) for call in seen.calls] == [("c_1", "read"), ("c_2", "grep")]
    assert_arguments(seen, crossing, '{"path":"a.py"}', '{"pattern":"def"}')
    assert_in_order(seen, crossing)


@everywhere
def test_014_words_between_the_pieces_of_a_call_do_not_cut_it(crossing: Crossing) -> None:
    data = chat_stream(
        call_delta(0, '{"path":', id="c_1", name="read"),
        {"content": "By the way."},
        call_delta(0, '"a.py"}'),
        finish="tool_calls",
    )
    seen = cross(data, "openai_chat", crossing)
    assert (seen.text, seen.names) == ("By the way.", ["read"])
    assert_arguments(seen, crossing, '{"path":"a.py"}')
    assert_in_order(seen, crossing)


BLANK_BETWEEN: list[tuple[Protocol, bool, bytes]] = [
    (
        "openai_chat",
        False,
        chat_stream(
            call_delta(0, '{"a":1}', id="c_1", name="read"),
            {"content": "\n\n"},
            call_delta(1, '{"a":2}', id="c_2", name="read"),
            {"content": "\n"},
            finish="tool_calls",
        ),
    ),
    (
        "anthropic",
        False,
        message_stream(
            *tool_block(0, "c_1", "read", '{"a":1}'),
            *text_block(1, "\n\n"),
            *tool_block(2, "c_2", "read", '{"a":2}'),
            stop="tool_use",
        ),
    ),
    (
        "anthropic",
        True,
        message_reply(
            tool_use("c_1", "read", {"a": 1}), said("\n\n"), tool_use("c_2", "read", {"a": 2}), stop="tool_use"
        ),
    ),
]


@each(("upstream", "whole", "data"), BLANK_BETWEEN)
@everywhere
def test_016_blank_text_between_calls_takes_no_index_of_theirs(
    crossing: Crossing, upstream: Protocol, whole: bool, data: bytes
) -> None:
    seen = cross(data, upstream, crossing, whole=whole)
    assert [(call.index, call.id) for call in seen.calls] == [(0, "c_1"), (1, "c_2")]
    assert not seen.text.strip()
    assert_arguments(seen, crossing, '{"a":1}', '{"a":2}')
    assert_in_order(seen, crossing)


@everywhere
def test_017_thinking_text_and_calls_of_one_chunk_come_in_that_order(crossing: Crossing) -> None:
    delta = {
        "role": "assistant",
        "reasoning_content": "I need the file.",
        "content": "Reading.",
        "tool_calls": [chat_call("c_1", "read", '{"path":"a"}', index=0)],
    }
    for data, whole in ((chat_stream(delta, finish="tool_calls"), False), (chat_reply(delta, "tool_calls"), True)):
        seen = cross(data, "openai_chat", crossing, whole=whole)
        assert (seen.thinking, seen.text, seen.names) == ("I need the file.", "Reading.", ["read"])
        assert seen.order == ["thinking", "text", "call"]
        assert_arguments(seen, crossing, '{"path":"a"}')
        assert_in_order(seen, crossing)
        if crossing.client != "openai_responses":  # the ends of parts and items repeat their text there
            assert seen.raw.count(b"I need the file.") == seen.raw.count(b"Reading.") == 1


ARGUMENTS = '{"path":"a.py","line":3}'
TWICE: dict[str, tuple[Protocol, bool, bytes]] = {
    "its beginning (item.added seen twice)": (
        "openai_chat",
        False,
        chat_stream(
            call_delta(0, "", id="c_1", type="function", name="read"),
            call_delta(0, "", id="c_1", type="function", name="read"),
            call_delta(0, ARGUMENTS),
            finish="tool_calls",
        ),
    ),
    "all of it after its pieces": (
        "openai_chat",
        False,
        chat_stream(
            call_delta(0, "", id="c_1", type="function", name="read"),
            call_delta(0, ARGUMENTS[:9]),
            call_delta(0, ARGUMENTS[9:]),
            {"tool_calls": [chat_call("c_1", "read", ARGUMENTS, index=0)]},
            finish="tool_calls",
        ),
    ),
    "all arguments after their pieces": (
        "openai_chat",
        False,
        chat_stream(
            call_delta(0, "", id="c_1", type="function", name="read"),
            call_delta(0, ARGUMENTS[:9]),
            call_delta(0, ARGUMENTS[9:]),
            call_delta(0, ARGUMENTS),
            finish="tool_calls",
        ),
    ),
    "all of it under another index": (
        "openai_chat",
        False,
        chat_stream(
            call_delta(0, ARGUMENTS[:9], id="c_1", type="function", name="read"),
            call_delta(0, ARGUMENTS[9:]),
            {"tool_calls": [chat_call("c_1", "read", ARGUMENTS, index=1)]},
            finish="tool_calls",
        ),
    ),
    "in a whole reply": (
        "openai_chat",
        True,
        chat_reply({"tool_calls": [chat_call("c_1", "read", ARGUMENTS)] * 2}, "tool_calls"),
    ),
    "the start of its block": (
        "anthropic",
        False,
        message_stream(tool_block(0, "c_1", "read")[0], *tool_block(0, "c_1", "read", ARGUMENTS), stop="tool_use"),
    ),
    "as a block of its own": (
        "anthropic",
        False,
        message_stream(
            *tool_block(0, "c_1", "read", ARGUMENTS[:9], ARGUMENTS[9:]),
            *tool_block(1, "c_1", "read", ARGUMENTS),
            stop="tool_use",
        ),
    ),
    "as two blocks of a whole reply": (
        "anthropic",
        True,
        message_reply(*[tool_use("c_1", "read", {"path": "a.py", "line": 3})] * 2, stop="tool_use"),
    ),
}


@each("case", TWICE)
@everywhere
def test_018_a_call_that_comes_twice_is_made_once(crossing: Crossing, case: str) -> None:
    upstream, whole, data = TWICE[case]
    seen = cross(data, upstream, crossing, whole=whole)
    assert [(call.id, call.name) for call in seen.calls] == [("c_1", "read")]
    assert_arguments(seen, crossing, ARGUMENTS)
    assert seen.finish == finish_of(crossing, "tool_use")
    assert_in_order(seen, crossing)


SAME_ID: list[tuple[Protocol, bool, bytes]] = [
    (
        "openai_chat",
        False,
        chat_stream(
            call_delta(0, '{"a":1}', id="c_1", name="read"),
            call_delta(1, '{"a":2}', id="c_1", name="read"),
            finish="tool_calls",
        ),
    ),
    (
        "anthropic",
        False,
        message_stream(
            *tool_block(0, "c_1", "read", '{"a":1}'), *tool_block(1, "c_1", "read", '{"a":2}'), stop="tool_use"
        ),
    ),
]


@each(("upstream", "whole", "data"), SAME_ID)
@everywhere
def test_018_two_different_calls_with_one_id_are_two_calls(
    crossing: Crossing, upstream: Protocol, whole: bool, data: bytes
) -> None:
    seen = cross(data, upstream, crossing, whole=whole)
    assert len({call.id for call in seen.calls}) == 2
    assert_arguments(seen, crossing, '{"a":1}', '{"a":2}')
    assert_in_order(seen, crossing)


@everywhere
def test_018_the_same_tool_called_twice_with_ids_of_their_own_is_called_twice(crossing: Crossing) -> None:
    data = chat_stream(
        call_delta(0, ARGUMENTS, id="c_1", name="read"),
        call_delta(1, ARGUMENTS, id="c_2", name="read"),
        finish="tool_calls",
    )
    seen = cross(data, "openai_chat", crossing)
    assert [call.id for call in seen.calls] == ["c_1", "c_2"]
    assert_arguments(seen, crossing, ARGUMENTS, ARGUMENTS)


# ── 21–23: arguments in odd shapes ──────────────────────────────────────────────────────────────


@each("whole", [False, True], ids=["stream", "whole"])
@everywhere
def test_021_arguments_that_are_an_object_become_text(crossing: Crossing, whole: bool) -> None:
    given = {"path": "a b.py", "deep": {"list": [1, 2.50, None, "é"], "empty": {}}}
    call = chat_call("c_1", "read", given, index=0)
    data = chat_reply({"tool_calls": [call]}, "tool_calls") if whole else chat_stream({"tool_calls": [call]})
    seen = cross(data, "openai_chat", crossing, whole=whole)
    (call_seen,) = seen.calls
    assert json.loads(call_seen.arguments) == given
    assert list(json.loads(call_seen.arguments)) == ["path", "deep"]
    assert seen.finish == finish_of(crossing, "tool_use")


ODD: list[tuple[Any, Any]] = [
    (None, {}),
    ({}, {}),
    ({"path": "a"}, {"path": "a"}),
    ("ls -la", {"value": "ls -la"}),
    (["a", "b"], {"value": ["a", "b"]}),
    (7, {"value": 7}),
    ('{"path":"a"}', {"path": "a"}),
]
"""What stands in a history as the input of a call, and the object it is to an upstream."""


def history(client: Protocol, given: Any) -> dict[str, Any]:
    made = json.dumps(given) if client == "openai_chat" else given
    return asking(
        client,
        user("go"),
        calls(client, ("c_1", "bash", made)),
        results(client, ("c_1", "fine")),
        tools=[tool(client, "bash")],
    )


@each(("given", "expected"), ODD, ids=str)
@each(("client", "upstream"), PAIRS)
def test_022_the_input_of_a_call_is_always_an_object_to_the_upstream(
    client: Protocol, upstream: Protocol, given: Any, expected: Any
) -> None:
    sent = ask(history(client, given), client, upstream)
    assert sent.calls == [("c_1", "bash", expected)]
    assert sent.results == [("c_1", "fine")]


@each(("given", "expected"), ODD, ids=str)
@each("upstream", ["anthropic", "openai_chat"])
@everywhere
def test_022_the_input_of_a_call_is_json_to_the_client(
    crossing: Crossing, upstream: Protocol, given: Any, expected: Any
) -> None:
    if upstream == "anthropic":
        data = message_reply(tool_use("c_1", "bash", given), stop="tool_use")
    else:
        data = chat_reply({"tool_calls": [chat_call("c_1", "bash", json.dumps(given))]}, "tool_calls")
    (call,) = cross(data, upstream, crossing, whole=True).calls
    found = json.loads(call.arguments)
    # What is no object at all may stay so where arguments are text; the text of an object is that object.
    as_it_came = crossing.client != "anthropic" and given != '{"path":"a"}' and given is not None
    assert found in ([expected, given] if as_it_came else [expected])


BROKEN = ['{"path": "a.py', "path=a.py", '{"path": "a.py"}}', "{'path': 'a.py'}", '{"a": "\\ud83d"']


def _assert_pair_with(sent: Sent, broken: str) -> None:
    ((call_id, name, given),) = sent.calls
    assert (call_id, name) == ("c_1", "bash")
    assert isinstance(given, dict)
    assert broken in given.values()
    assert sent.results == [("c_1", "fine")]


@each("broken", BROKEN)
@each("upstream", ["anthropic", "openai_chat"])
def test_023_arguments_of_the_history_that_are_not_json_are_wrapped_and_noted(upstream: Protocol, broken: str) -> None:
    said_by_client = asking(
        "openai_chat",
        user("go"),
        calls("openai_chat", ("c_1", "bash", broken)),
        results("openai_chat", ("c_1", "fine")),
        tools=[tool("openai_chat", "bash")],
    )
    sent = ask(said_by_client, "openai_chat", upstream)
    _assert_pair_with(sent, broken)
    assert any("bash" in note.message for note in sent.notes)


@pytest.mark.parametrize(("client", "upstream"), PAIRS)
def test_023_arguments_that_are_fine_are_not_noted(client: Protocol, upstream: Protocol) -> None:
    assert ask(history(client, {"path": "a"}), client, upstream).notes == ()


# ── 24–25: cut short, or claimed to be ──────────────────────────────────────────────────────────

HALF = '{"path":"a.py","content":"line one\\nli'
CUT: dict[str, tuple[Protocol, bytes]] = {
    "Chat Completions": (
        "openai_chat",
        chat_stream(
            call_delta(0, "", id="c_1", name="write"),
            call_delta(0, HALF[:20]),
            call_delta(0, HALF[20:]),
            finish="length",
        ),
    ),
    "Messages": (
        "anthropic",
        message_stream(*tool_block(0, "c_1", "write", HALF[:20], HALF[20:]), stop="max_tokens"),
    ),
    "Messages, the block never stopped": (
        "anthropic",
        message_stream(*tool_block(0, "c_1", "write", HALF[:20], HALF[20:])[:-1], stop="max_tokens"),
    ),
    "Chat Completions, cut in a whole reply": (
        "openai_chat",
        chat_reply({"tool_calls": [chat_call("c_1", "write", HALF)]}, "length"),
    ),
}


@each("case", CUT)
@everywhere
def test_024_a_call_that_was_cut_ends_with_the_token_limit(crossing: Crossing, case: str) -> None:
    upstream, data = CUT[case]
    seen = cross(data, upstream, crossing, whole="whole" in case)
    assert seen.finish == finish_of(crossing, "max_tokens")
    if crossing.client == "anthropic" and not crossing.stream:
        (given,) = seen.arguments
        assert HALF in json.loads(given).values()
    else:
        assert seen.arguments == [HALF]
    assert_in_order(seen, crossing)


@each("upstream", ["anthropic", "openai_chat"])
@everywhere
def test_024_a_second_call_that_was_cut_does_not_make_the_first_look_final(
    crossing: Crossing, upstream: Protocol
) -> None:
    data = {
        "anthropic": message_stream(
            *tool_block(0, "c_1", "read", '{"a":1}'), *tool_block(1, "c_2", "read", '{"a"'), stop="max_tokens"
        ),
        "openai_chat": chat_stream(
            call_delta(0, '{"a":1}', id="c_1", name="read"),
            call_delta(1, '{"a"', id="c_2", name="read"),
            finish="length",
        ),
    }[upstream]
    seen = cross(data, upstream, crossing)
    assert seen.finish == finish_of(crossing, "max_tokens")
    assert seen.arguments[0].replace(" ", "") == '{"a":1}'


def _ends_with(upstream: Protocol, whole: bool, reason: str) -> bytes:
    if upstream == "openai_chat":
        if whole:
            return chat_reply({"tool_calls": [chat_call("c_1", "read", '{"a":1}')]}, reason)
        return chat_stream(call_delta(0, '{"a":1}', id="c_1", name="read"), finish=reason)
    if whole:
        return message_reply(tool_use("c_1", "read", {"a": 1}), stop=reason)
    return message_stream(*tool_block(0, "c_1", "read", '{"a":1}'), stop=reason)


ENDINGS: list[tuple[Protocol, str, str]] = [
    ("openai_chat", "stop", "tool_use"),
    ("openai_chat", "function_call", "tool_use"),
    ("openai_chat", "length", "max_tokens"),
    ("openai_chat", "content_filter", "refusal"),
    ("anthropic", "end_turn", "tool_use"),
    ("anthropic", "stop_sequence", "tool_use"),
    ("anthropic", "max_tokens", "max_tokens"),
    ("anthropic", "refusal", "refusal"),
]


@each(("upstream", "reason", "expected"), ENDINGS)
@each("whole", [False, True], ids=["stream", "whole"])
@everywhere
def test_025_calls_that_were_made_are_to_be_run_unless_the_answer_was_cut_or_refused(
    crossing: Crossing, whole: bool, upstream: Protocol, reason: str, expected: str
) -> None:
    seen = cross(_ends_with(upstream, whole, reason), upstream, crossing, whole=whole)
    assert seen.finish == finish_of(crossing, expected)
    assert_arguments(seen, crossing, '{"a":1}')


@each(
    ("upstream", "data"),
    [
        ("openai_chat", chat_stream({"content": "Hi"}, finish="tool_calls")),
        ("anthropic", message_stream(*text_block(0, "Hi"), stop="tool_use")),
    ],
)
@everywhere
def test_025_an_ending_that_claims_calls_nobody_made_is_an_ordinary_one(
    crossing: Crossing, upstream: Protocol, data: bytes
) -> None:
    seen = cross(data, upstream, crossing)
    assert (seen.text, seen.calls, seen.finish) == ("Hi", [], finish_of(crossing, "end_turn"))
