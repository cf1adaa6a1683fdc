"""Emitting tool calls, entries 26 to 38: endings, beginnings, order, and calls inside calls."""

import json
from typing import Any

from tests.catalogue.asking import ask, asking, parsed, user
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
    Seen,
    block,
    call_delta,
    chat_stream,
    chunk,
    cross,
    events_of,
    message_stream,
    shown,
    sse,
    text_block,
    tool_block,
)
from tests.each import each
from tieline.core.repair.repairs import DEFAULT, Repairs
from tieline.model.assemble import fold
from tieline.model.request import ToolSpec
from tieline.wire import anthropic, openai_chat
from tieline.wire.openai_chat.choices import choices, one_choice, render_choices

everywhere = each("crossing", CROSSINGS, ids=str)
streamed = each("crossing", STREAMS, ids=str)
in_both_modes = each("whole", [False, True], ids=["stream", "whole"])


def _words(upstream: Protocol, whole: bool, reason: str | None) -> bytes:
    if upstream == "openai_chat":
        return chat_reply({"content": "Hi"}, reason) if whole else chat_stream({"content": "Hi"}, finish=reason)
    return message_reply(said("Hi"), stop=reason) if whole else message_stream(*text_block(0, "Hi"), stop=reason)


def _call(upstream: Protocol, whole: bool, reason: str | None) -> bytes:
    if upstream == "openai_chat":
        if whole:
            return chat_reply({"tool_calls": [chat_call("c_1", "read", '{"a":1}')]}, reason)
        return chat_stream(call_delta(0, '{"a":1}', id="c_1", name="read"), finish=reason)
    if whole:
        return message_reply(tool_use("c_1", "read", {"a": 1}), stop=reason)
    return message_stream(*tool_block(0, "c_1", "read", '{"a":1}'), stop=reason)


# ── 26–29: endings ──────────────────────────────────────────────────────────────────────────────

REASONS: list[tuple[Protocol, str, str, bool]] = [
    ("openai_chat", "error", "end_turn", True),
    ("openai_chat", "sensitive", "refusal", False),
    ("openai_chat", "eos", "end_turn", False),
    ("openai_chat", "STOP", "end_turn", False),
    ("openai_chat", "MAX_TOKENS", "max_tokens", False),
    ("openai_chat", "SAFETY", "refusal", False),
    ("openai_chat", "MALFORMED_FUNCTION_CALL", "end_turn", True),
    ("openai_chat", "abort", "end_turn", True),
    ("anthropic", "stop", "end_turn", False),
    ("anthropic", "length", "max_tokens", False),
    ("anthropic", "content_filter", "refusal", False),
    ("anthropic", "something_new", "end_turn", True),
]


@each(("upstream", "reason", "expected", "noted"), REASONS)
@in_both_modes
@everywhere
def test_026_a_reason_of_no_dialect_becomes_one_the_client_knows(
    crossing: Crossing, whole: bool, upstream: Protocol, reason: str, expected: str, noted: bool
) -> None:
    seen = cross(_words(upstream, whole, reason), upstream, crossing, whole=whole)
    assert (seen.text, seen.finish) == ("Hi", finish_of(crossing, expected))
    assert [reason in note.message for note in seen.notes] == [True] * noted


@each(("upstream", "reason"), [("openai_chat", "abort"), ("anthropic", "something_new")])
@in_both_modes
@everywhere
def test_026_calls_are_run_even_after_an_unknown_reason(
    crossing: Crossing, whole: bool, upstream: Protocol, reason: str
) -> None:
    seen = cross(_call(upstream, whole, reason), upstream, crossing, whole=whole)
    assert seen.finish == finish_of(crossing, "tool_use")
    assert_arguments(seen, crossing, '{"a":1}')


@each("upstream", ["anthropic", "openai_chat"])
@in_both_modes
@everywhere
def test_027_a_reason_that_was_not_given_is_inferred_from_what_was_said(
    crossing: Crossing, whole: bool, upstream: Protocol
) -> None:
    words = cross(_words(upstream, whole, None), upstream, crossing, whole=whole)
    assert (words.text, words.finish, words.error) == ("Hi", finish_of(crossing, "end_turn"), None)
    call = cross(_call(upstream, whole, None), upstream, crossing, whole=whole)
    assert call.finish == finish_of(crossing, "tool_use")
    assert_arguments(call, crossing, '{"a":1}')
    assert words.notes
    assert call.notes


@everywhere
def test_027_half_a_call_without_a_reason_is_not_claimed_complete(crossing: Crossing) -> None:
    data = chat_stream(call_delta(0, '{"a":', id="c_1", name="read"), finish=None)
    assert cross(data, "openai_chat", crossing).finish == finish_of(crossing, "max_tokens")


BROKEN_OFF: dict[str, tuple[Protocol, bytes]] = {
    "in text": ("openai_chat", chat_stream({"content": "Hi"}, finish=None, done=False)),
    "in a call": (
        "openai_chat",
        chat_stream(call_delta(0, '{"a":1}', id="c_1", name="read"), finish=None, done=False),
    ),
    "in a block": ("anthropic", message_stream(*text_block(0, "Hi")[:-1]).partition(b"event: message_delta")[0]),
    "after a call": (
        "anthropic",
        message_stream(*tool_block(0, "c_1", "read", '{"a":1}')).partition(b"event: message_delta")[0],
    ),
    "in a frame": ("anthropic", message_stream(*text_block(0, "Hi"))[:-60].partition(b"event: message_delta")[0][:-9]),
}


@each("case", BROKEN_OFF)
@everywhere
def test_027_a_stream_that_breaks_off_is_an_error_and_never_an_ending(crossing: Crossing, case: str) -> None:
    upstream, data = BROKEN_OFF[case]
    seen = cross(data, upstream, crossing)
    assert seen.error is not None
    assert seen.error["message"]
    assert seen.finish is None
    assert b"[DONE]" not in seen.raw
    assert_in_order(seen, crossing)


@everywhere
def test_027_a_reason_is_enough_even_if_the_stream_then_just_stops(crossing: Crossing) -> None:
    data = chat_stream(call_delta(0, '{"a":1}', id="c_1", name="read"), finish="tool_calls", done=False)
    seen = cross(data, "openai_chat", crossing)
    assert (seen.error, seen.finish) == (None, finish_of(crossing, "tool_use"))


def _spliced(second: str) -> bytes:
    first = message_stream(*text_block(0, "Hel"), *tool_block(1, "c_1", "read", '{"a":1}'), stop="tool_use")
    start, rest = first.split(b"\n\n", 1)
    return start + b"\n\n" + start.replace(b"msg_up", second.encode()) + b"\n\n" + rest


@everywhere
def test_028_the_same_beginning_twice_is_told_once(crossing: Crossing) -> None:
    seen = cross(_spliced("msg_up"), "anthropic", crossing)
    assert (seen.error, seen.text, seen.finish) == (None, "Hel", finish_of(crossing, "tool_use"))
    assert_arguments(seen, crossing, '{"a":1}')
    assert_in_order(seen, crossing)


@everywhere
def test_028_another_message_in_the_middle_of_one_is_an_error(crossing: Crossing) -> None:
    seen = cross(_spliced("msg_other"), "anthropic", crossing)
    assert seen.error is not None
    assert seen.finish is None
    assert_in_order(seen, crossing)


@everywhere
def test_029_an_ending_without_a_message_is_an_error(crossing: Crossing) -> None:
    seen = cross(sse({"type": "message_stop"}, named=True), "anthropic", crossing)
    assert seen.error is not None
    assert seen.finish is None
    assert b"message_stop" not in seen.raw


@everywhere
def test_029_two_endings_are_told_as_one(crossing: Crossing) -> None:
    frames = tool_block(0, "c_1", "read", '{"a":1}')
    early = {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 9}}
    late = {"type": "message_delta", "delta": {"stop_reason": None}, "usage": {"input_tokens": 40, "output_tokens": 0}}
    start = message_stream(*frames).partition(b"event: message_delta")[0]
    data = start + sse(early, late, {"type": "message_stop"}, {"type": "message_stop"}, named=True)
    seen = cross(data, "anthropic", crossing)
    assert seen.finish == finish_of(crossing, "tool_use")
    assert seen.usage["output_tokens" if crossing.client == "anthropic" else "completion_tokens"] == 9
    assert_arguments(seen, crossing, '{"a":1}')
    assert_in_order(seen, crossing)


@everywhere
def test_029_two_finish_reasons_are_told_as_one(crossing: Crossing) -> None:
    data = sse(
        chunk(call_delta(0, '{"a":1}', id="c_1", name="read")),
        chunk(finish="tool_calls"),
        chunk(finish="stop", usage={"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}),
        "[DONE]",
        "[DONE]",
    )
    seen = cross(data, "openai_chat", crossing)
    assert seen.finish == finish_of(crossing, "tool_use")
    assert seen.raw.count(b"[DONE]") == (crossing.client == "openai_chat" and crossing.stream)
    assert_in_order(seen, crossing)


# ── 30–32: blocks ───────────────────────────────────────────────────────────────────────────────

ERROR = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
FAILING: dict[str, tuple[Protocol, bytes]] = {
    "in text": ("anthropic", message_stream(*text_block(0, "Hel")[:-1], ERROR)),
    "in a call": ("anthropic", message_stream(*tool_block(0, "c_1", "read", '{"a"')[:-1], ERROR)),
    "in the second of two calls": (
        "openai_chat",
        sse(
            chunk(call_delta(0, '{"a"', id="c_1", name="read")),
            chunk(call_delta(1, '{"b"', id="c_2", name="read")),
            {"error": {"message": "Overloaded", "type": "server_error", "code": 503}},
        ),
    ),
    "in thinking": (
        "openai_chat",
        sse(chunk({"reasoning_content": "Hm"}), {"error": {"message": "Overloaded", "type": "server_error"}}),
    ),
}


@each("case", FAILING)
@everywhere
def test_030_an_error_comes_last_and_closes_what_was_open_but_for_a_call(crossing: Crossing, case: str) -> None:
    upstream, data = FAILING[case]
    seen = cross(data, upstream, crossing)
    assert seen.error is not None
    assert seen.error["message"].startswith("Overloaded")
    assert seen.finish is None
    assert_in_order(seen, crossing)
    if crossing.client == "anthropic" and crossing.stream:
        started = {frame["index"]: frame["content_block"]["type"] for frame in _of(seen, "content_block_start")}
        stopped = {frame["index"] for frame in _of(seen, "content_block_stop")}
        assert stopped == {index for index, kind in started.items() if kind != "tool_use"}


def _of(seen: Seen, kind: str) -> list[dict[str, Any]]:
    return [frame for frame in seen.frames if frame["type"] == kind]


UNCLOSED = (*text_block(0, "Hi")[:-1], *tool_block(1, "c_1", "read", '{"a":', "1}")[:-1])


@everywhere
def test_030_blocks_nobody_closed_are_closed_at_the_end(crossing: Crossing) -> None:
    seen = cross(message_stream(*UNCLOSED, stop="tool_use"), "anthropic", crossing)
    assert (seen.text, seen.finish, seen.order) == ("Hi", finish_of(crossing, "tool_use"), ["text", "call"])
    assert_arguments(seen, crossing, '{"a":1}')
    assert_in_order(seen, crossing)


def _three(*indices: int) -> bytes:
    one, two, three = indices
    thought = {"type": "thinking", "thinking": "", "signature": ""}
    deltas = ({"type": "thinking_delta", "thinking": "Hm"}, {"type": "signature_delta", "signature": "s1"})
    return message_stream(
        *block(one, thought, *deltas),
        *tool_block(two, "c_1", "read", '{"a":', "1}"),
        *tool_block(three, "c_2", "read", '{"a":', "2}"),
        stop="tool_use",
    )


@each("indices", [(0, 0, 0), (0, 1, 1), (1, 2, 3), (0, 2, 7), (3, 1, 0)], ids=str)
@everywhere
def test_031_blocks_are_numbered_anew(crossing: Crossing, indices: tuple[int, ...]) -> None:
    seen = cross(_three(*indices), "anthropic", crossing)
    assert (seen.thinking, seen.order) == ("Hm", ["thinking", "call", "call"])
    assert [call.id for call in seen.calls] == ["c_1", "c_2"]
    assert_arguments(seen, crossing, '{"a":1}', '{"a":2}')
    assert_in_order(seen, crossing)


@everywhere
def test_031_thinking_is_closed_before_the_call_it_leads_to(crossing: Crossing) -> None:
    data = chat_stream(
        {"reasoning_content": "Hm"},
        call_delta(0, '{"a":', id="c_1", name="read"),
        call_delta(0, "1}"),
        {"reasoning_content": "And"},
        call_delta(1, '{"a":2}', id="c_2", name="read"),
        finish="tool_calls",
    )
    seen = cross(data, "openai_chat", crossing)
    assert seen.thinking == "HmAnd"
    assert [call.id for call in seen.calls] == ["c_1", "c_2"]
    assert_arguments(seen, crossing, '{"a":1}', '{"a":2}')
    assert_in_order(seen, crossing)


@each("upstream", ["anthropic", "openai_chat"])
@streamed
def test_032_the_last_word_on_the_ending_is_never_null(crossing: Crossing, upstream: Protocol) -> None:
    for reason in (None, "tool_use" if upstream == "anthropic" else "tool_calls"):
        seen = cross(_call(upstream, False, reason), upstream, crossing)
        assert seen.finish == finish_of(crossing, "tool_use")
        if crossing.client == "anthropic":
            assert [frame["delta"]["stop_reason"] for frame in frames_of(seen, "message_delta")] == ["tool_use"]


# ── 33–36: one message, one id, one end, one order ──────────────────────────────────────────────

TEXT_CHOICE = {"index": 0, "message": {"role": "assistant", "content": "I look."}, "finish_reason": "stop"}
CALL_CHOICE = {
    "index": 0,
    "message": {"role": "assistant", "content": None, "tool_calls": [chat_call("c_1", "read", '{"a":1}')]},
    "finish_reason": "tool_calls",
}


@each("second", [0, 1])
@everywhere
def test_033_text_and_calls_of_different_choices_are_one_message(crossing: Crossing, second: int) -> None:
    given = [TEXT_CHOICE, {**CALL_CHOICE, "index": second}]
    deltas = [{"index": c["index"], "delta": c["message"], "finish_reason": c["finish_reason"]} for c in given]
    for data, whole in (
        (chat_reply({}, choices=given), True),
        (sse(*(chunk(choices=[delta]) for delta in deltas), "[DONE]"), False),
        (sse(chunk(choices=deltas), "[DONE]"), False),
    ):
        seen = cross(data, "openai_chat", crossing, whole=whole)
        assert (seen.text, seen.finish, seen.order) == (
            "I look.",
            finish_of(crossing, "tool_use"),
            ["text", "call"],
        )
        assert_arguments(seen, crossing, '{"a":1}')
        assert_in_order(seen, crossing)


def test_033_several_choices_that_were_asked_for_keep_their_index() -> None:
    body = asking("openai_chat", user("go"), n=2)
    request = parsed(body, "openai_chat")
    assert choices(request) == 2
    legs = [events_of(_call("anthropic", True, "tool_use"), "anthropic", whole=True) for _ in range(2)]
    rendered = json.loads(render_choices([fold(leg) for leg in legs], openai_chat.Options(created=1)))
    assert [choice["index"] for choice in rendered["choices"]] == [0, 1]
    assert [c["message"]["tool_calls"][0]["function"]["arguments"] for c in rendered["choices"]] == ['{"a":1}'] * 2
    assert "n" not in json.loads(openai_chat.build_request(one_choice(request)).body)
    assert "n" not in json.loads(anthropic.build_request(one_choice(request)).body)


def _ids_of(seen: Seen, crossing: Crossing) -> set[Any]:
    if crossing.client == "anthropic":
        return {(f["message"]["id"], f["message"]["model"]) for f in frames_of(seen, "message_start")}
    if crossing.client == "openai_responses":
        responses = [frame["response"] for frame in seen.frames if "response" in frame]
        return {(response["id"], response["created_at"], response["model"]) for response in responses}
    return {(frame["id"], frame["created"], frame["model"]) for frame in seen.frames}


@each("ids", [["a", "b", "c"], ["a", None, ""], [None, None, None], ["", "b", "b"]], ids=str)
@streamed
def test_034_a_stream_has_one_id_whatever_ids_its_chunks_had(crossing: Crossing, ids: list[str | None]) -> None:
    deltas = [{"content": "I look."}, call_delta(0, '{"a":1}', id="c_1", name="read"), {}]
    frames = [
        chunk(delta, id=own, created=n, model=f"m{n}") for n, (delta, own) in enumerate(zip(deltas, ids, strict=True))
    ]
    seen = cross(sse(*frames, chunk(finish="tool_calls", id=ids[-1]), "[DONE]"), "openai_chat", crossing)
    ((own, *_),) = _ids_of(seen, crossing)
    assert own
    assert (seen.text, seen.finish) == ("I look.", finish_of(crossing, "tool_use"))
    assert_arguments(seen, crossing, '{"a":1}')


@streamed
def test_034_chunks_without_an_id_at_all_get_one(crossing: Crossing) -> None:
    frame = chunk({"content": "Hi"})
    for name in ("id", "created", "model", "object"):
        del frame[name]
    seen = cross(sse(frame, chunk(finish="stop"), "[DONE]"), "openai_chat", crossing)
    ((own, *_),) = _ids_of(seen, crossing)
    assert own
    assert seen.text == "Hi"


@each("upstream", ["anthropic", "openai_chat"])
@everywhere
def test_035_what_comes_after_the_end_is_ignored(crossing: Crossing, upstream: Protocol) -> None:
    ended = _call(upstream, False, "tool_use" if upstream == "anthropic" else "tool_calls")
    late = {
        "anthropic": sse(*text_block(1, "late"), *tool_block(2, "c_9", "late", "{}"), ERROR, named=True),
        "openai_chat": chat_stream({"content": "late"}, call_delta(1, "{}", id="c_9", name="late"))
        + b"data: {oops\n\n",
    }[upstream]
    alone, seen = cross(ended, upstream, crossing), cross(ended + late, upstream, crossing)
    assert seen.raw == alone.raw
    assert seen.names == ["read"]
    assert seen.finish == finish_of(crossing, "tool_use")


MIXED: dict[str, tuple[Protocol, bool, bytes]] = {
    "a whole message": (
        "anthropic",
        True,
        message_reply(said("One."), tool_use("c_1", "read", {"a": 1}), said("Two."), stop="tool_use"),
    ),
    "a stream of blocks": (
        "anthropic",
        False,
        message_stream(
            *text_block(0, "One."), *tool_block(1, "c_1", "read", '{"a":1}'), *text_block(2, "Two."), stop="tool_use"
        ),
    ),
    "a stream of chunks": (
        "openai_chat",
        False,
        chat_stream(
            {"content": "One."},
            call_delta(0, '{"a":1}', id="c_1", name="read"),
            {"content": "Two."},
            finish="tool_calls",
        ),
    ),
}


@each("case", MIXED)
@everywhere
def test_036_text_call_text_stays_in_that_order(crossing: Crossing, case: str) -> None:
    upstream, whole, data = MIXED[case]
    seen = cross(data, upstream, crossing, whole=whole)
    # A whole Chat Completions message has one place for text and one for calls, and no order between them.
    in_order = crossing.client != "openai_chat" or crossing.stream
    assert seen.order == (["text", "call", "text"] if in_order else ["text", "call"])
    assert seen.text == "One.Two."
    assert_arguments(seen, crossing, '{"a":1}')
    assert_in_order(seen, crossing)


# ── 37–38: what is no call, and calls inside a call ─────────────────────────────────────────────

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}
WANTED: dict[Protocol, dict[str, Any]] = {
    "openai_chat": {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}}},
    "anthropic": {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}},
}


@each("client", WANTED)
@each(
    ("upstream", "dialect"),
    [
        ("anthropic", anthropic.Dialect()),
        ("anthropic", anthropic.Dialect(structured_output=False)),
        ("openai_chat", openai_chat.Dialect()),
        ("openai_chat", openai_chat.Dialect(json_schema=False)),
    ],
    ids=str,
)
@in_both_modes
def test_037_structured_output_is_never_asked_for_with_a_tool_and_ends_like_any_answer(
    client: Protocol, upstream: Protocol, dialect: Any, whole: bool
) -> None:
    sent = ask(asking(client, user("Count."), **WANTED[client]), client, upstream, dialect)
    assert not sent.body.keys() & {"tools", "tool_choice"}
    text = '{"n":3}'
    data = {
        "anthropic": message_reply(said(text)) if whole else message_stream(*text_block(0, '{"n"', ":3}")),
        "openai_chat": chat_reply({"content": text}) if whole else chat_stream({"content": '{"n"'}, {"content": ":3}"}),
    }[upstream]
    for crossing in CROSSINGS:
        seen = cross(data, upstream, crossing, spelled=sent.spelled, whole=whole)
        assert (seen.text, seen.calls, seen.finish) == (text, [], finish_of(crossing, "end_turn"))


def _through_repairs(data: bytes, upstream: Protocol, crossing: Crossing, *names: str) -> Seen:
    tools = [ToolSpec(name=name) for name in names]
    return shown(list(Repairs(tools, DEFAULT).apply(events_of(data, upstream))), crossing)


INNER = (
    '{"tool_uses":[{"recipient_name":"functions.read","parameters":{"path":"a.py"}},'
    '{"recipient_name":"functions.grep","parameters":{"pattern":"x","deep":[1,2]}}]}'
)


def _wrapped(upstream: Protocol, name: str) -> bytes:
    if upstream == "openai_chat":
        return chat_stream(
            call_delta(0, INNER[:30], id="c_1", name=name), call_delta(0, INNER[30:]), finish="tool_calls"
        )
    return message_stream(*tool_block(0, "c_1", name, INNER[:30], INNER[30:]), stop="tool_use")


@each("name", ["multi_tool_use.parallel", "multi_tool_use", "parallel"])
@each("upstream", ["anthropic", "openai_chat"])
@everywhere
def test_038_calls_inside_a_wrapper_are_calls(crossing: Crossing, upstream: Protocol, name: str) -> None:
    seen = _through_repairs(_wrapped(upstream, name), upstream, crossing, "read", "grep")
    assert seen.names == ["read", "grep"]
    assert len({call.id for call in seen.calls}) == 2
    assert seen.finish == finish_of(crossing, "tool_use")
    assert_arguments(seen, crossing, '{"path":"a.py"}', '{"pattern":"x","deep":[1,2]}')
    assert_in_order(seen, crossing)


@each("upstream", ["anthropic", "openai_chat"])
@each(
    "declared",
    [("read",), ("read", "grep", "parallel"), ("grep", "bash")],
    ids=["one unknown", "its own tool", "other"],
)
@everywhere
def test_038_a_wrapper_that_is_a_tool_or_holds_unknown_tools_stays(
    crossing: Crossing, upstream: Protocol, declared: tuple[str, ...]
) -> None:
    seen = _through_repairs(_wrapped(upstream, "parallel"), upstream, crossing, *declared)
    assert [(call.id, call.name) for call in seen.calls] == [("c_1", "parallel")]
    assert_arguments(seen, crossing, INNER)
