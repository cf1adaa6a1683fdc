"""Answers in Chat Completions, as upstreams send them."""

import json
from typing import Any

import pytest

from tests.each import each
from tests.grammar import check
from tieline.model.assemble import fold
from tieline.model.content import Part, Text, Thinking, ToolCall
from tieline.model.events import (
    Event,
    Failed,
    Finished,
    Note,
    PartDelta,
    PartEnd,
    PartStart,
    Started,
    StopReason,
    Usage,
)
from tieline.wire.openai_chat import (
    ResponseReader,
    read_reply,
)
from tieline.wire.shared.spelling import ToolNames

STOP = StopReason.END_TURN


def chunk(delta: Any = None, finish: str | None = None, **fields: Any) -> dict[str, Any]:
    choices = [{"index": 0, "delta": delta or {}, "finish_reason": finish}]
    return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "m", "choices": choices, **fields}


def piece(**fields: Any) -> dict[str, Any]:
    """A delta with one piece of a call; name and arguments go where they belong."""
    function = {name: fields.pop(name) for name in ("name", "arguments") if name in fields}
    return {"tool_calls": [{**fields, "function": function}]}


def sse(*frames: Any) -> bytes:
    return b"".join(b"data: " + (f if isinstance(f, bytes) else json.dumps(f).encode()) + b"\n\n" for f in frames)


def read(*frames: Any, spelled: ToolNames | None = None, done: bool = True) -> list[Event]:
    reader = ResponseReader(spelled or ToolNames(), fallback_id="chatcmpl-ours", model="asked")
    events = [*reader.feed(sse(*frames, *([b"[DONE]"] if done else []))), *reader.close()]
    assert reader.ended
    check(events)
    return events


def parts(events: list[Event]) -> list[Part]:
    return [event.part for event in events if isinstance(event, PartEnd)]


def calls(*deltas: Any, finish: str = "tool_calls", spelled: ToolNames | None = None) -> list[ToolCall]:
    events = read(*map(chunk, deltas), chunk(finish=finish), spelled=spelled)
    return [part for part in parts(events) if isinstance(part, ToolCall)]


# ── Reading: calls ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("arguments", ["", None, "null", " "])
def test_003_a_call_without_arguments_has_an_empty_object(arguments: str | None) -> None:
    assert [call.arguments for call in calls(piece(index=0, id="a", name="now", arguments=arguments))] == ["{}"]


def test_005_one_index_for_all_calls_does_not_make_them_one() -> None:
    with_ids = calls(*(piece(index=0, id=i, name="read", arguments=f'{{"n":{i}}}') for i in "12"))
    without = calls(*(piece(index=0, name="read", arguments=f'{{"n":{i}}}') for i in "12"))
    named = calls(*(piece(index=0, name=name, arguments="") for name in ("read", "grep")))
    assert [call.arguments for call in with_ids] == [call.arguments for call in without] == ['{"n":1}', '{"n":2}']
    assert [call.name for call in named] == ["read", "grep"]


def test_006_a_repeated_id_or_name_is_said_once() -> None:
    pieces = [piece(index=0, id="a", name="bash", arguments=text) for text in ('{"c":', '"ls"', "}")]
    assert calls(*pieces) == [ToolCall(id="a", name="bash", arguments='{"c":"ls"}')]


def test_ids_that_change_with_every_piece_are_one_call() -> None:
    pieces = [piece(index=0, id=i, arguments=text) for i, text in (("b", '{"c":'), ("c", "1}"))]
    assert calls(piece(index=0, id="a", name="bash"), *pieces) == [ToolCall(id="a", name="bash", arguments='{"c":1}')]


def test_007_arguments_wait_for_the_name() -> None:
    got = calls(piece(index=0, id="a", arguments='{"c"'), piece(index=0, name="bash"), piece(index=0, arguments=":1}"))
    assert got == [ToolCall(id="a", name="bash", arguments='{"c":1}')]


def test_008_a_call_without_a_name_gets_one_and_an_empty_signal_is_none() -> None:
    assert calls(piece(index=0, id="a", arguments="{}"), piece(index=1, id="", name="", arguments="")) == [
        ToolCall(id="a", name="unknown_tool", arguments="{}")
    ]
    assert calls(piece(index=0, id="a")) == []


def test_009_a_missing_id_is_made_and_stays_the_same() -> None:
    pieces = [piece(index=n, name="read", arguments="{}") for n in (0, 1)]
    first, second = calls(*pieces)
    assert first.id != second.id
    assert first.id.startswith("call_")
    assert [call.id for call in calls(*pieces)] == [first.id, second.id]


def test_an_id_that_two_calls_share_stays_with_the_first() -> None:
    first, second = calls(*(piece(index=n, id="a", name="read", arguments=f'{{"n":{n}}}') for n in (0, 1)))
    assert first.id == "a" != second.id


@pytest.mark.parametrize("name", [None, "read"])
def test_pieces_without_an_index_belong_by_id_or_by_order(name: str | None) -> None:
    more = {} if name is None else {"name": name}
    by_id = [piece(id=i, name="read", arguments='{"n":') for i in "12"]
    by_id += [piece(id=i, arguments=f"{i}}}", **more) for i in "12"]
    two = {"tool_calls": [{"function": {"name": "read", "arguments": '{"n":'}} for _ in "12"]}
    rest = {"tool_calls": [{"function": {"arguments": f"{i}}}"}} for i in "12"]}
    for got in (calls(*by_id), calls(two, rest)):
        assert [call.arguments for call in got] == ['{"n":1}', '{"n":2}']


@pytest.mark.parametrize("empty", [{"tool_calls": []}, {"tool_calls": None}])
def test_012_no_calls_are_no_calls(empty: Any) -> None:
    assert calls(empty, {"content": "Hi", **empty}, finish="stop") == []


def test_018_a_call_that_comes_twice_is_one() -> None:
    whole = piece(index=0, id="a", name="read", arguments='{"n":1}')
    assert len(calls(whole, whole)) == 1
    assert len(calls(whole, {"content": "text"}, whole)) == 1


def test_021_arguments_may_be_an_object_or_a_string_of_one() -> None:
    for arguments in ({"n": [1]}, json.dumps('{"n":[1]}')):
        assert [json.loads(c.arguments) for c in calls(piece(index=0, id="a", name="x", arguments=arguments))] == [
            {"n": [1]}
        ]


def test_arguments_that_are_no_json_arrive_as_they_were_sent() -> None:
    """Ours: repairs of what a model said are somebody else's, and off by default."""
    assert calls(piece(index=0, id="a", name="x", arguments="['a']"))[0].arguments == "['a']"


def test_092_093_names_come_back_in_the_clients_spelling() -> None:
    spelled = ToolNames(["Bash", "files.read"])
    got = calls(*(piece(index=i, id=n, name=n) for i, n in enumerate(["bash", "files_read", "x"])), spelled=spelled)
    assert [call.name for call in got] == ["Bash", "files.read", "x"]


def test_111_the_text_of_a_freeform_tool_is_unwrapped() -> None:
    spelled = ToolNames(["patch"], frozenset({"patch"}))
    pieces = [piece(index=0, id="a", name="patch"), *(piece(index=0, arguments=t) for t in ('{"inp', 'ut":"+a\\n"}'))]
    assert calls(*pieces, spelled=spelled) == [ToolCall(id="a", name="patch", arguments="+a\n", freeform=True)]
    odd = calls(piece(index=0, id="a", name="patch", arguments='{"x":1}'), spelled=spelled)
    assert odd[0].arguments == '{"x":1}'


def test_014_a_call_flows_while_it_is_the_oldest() -> None:
    reader = ResponseReader()
    reader.feed(sse(chunk(piece(index=0, id="a", name="read"))))
    reader.feed(sse(chunk(piece(index=0, arguments="{"))))
    assert reader.feed(sse(chunk(piece(index=0, arguments='"n":')))) == [PartDelta(index=0, text='"n":')]
    assert reader.feed(sse(chunk(piece(index=1, id="b", name="read", arguments="{}")))) == []
    assert reader.feed(sse(chunk(piece(index=0, arguments="1}")))) == [PartDelta(index=0, text="1}")]


def test_a_call_with_whole_arguments_does_not_hold_up_the_next() -> None:
    reader = ResponseReader()
    reader.feed(sse(chunk(piece(index=0, id="a", name="read", arguments='{"n":1}'))))
    events = reader.feed(sse(chunk(piece(index=1, id="b", name="read", arguments="{"))))
    assert [type(event) for event in events] == [PartEnd, PartStart, PartDelta]


# ── Reading: text and thinking ───────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "delta",
    [
        {"reasoning_content": "hm"},
        {"reasoning": "hm"},
        {"reasoning_content": "hm", "reasoning": "hm"},
        {"reasoning_details": [{"type": "reasoning.text", "text": "hm"}]},
        {"reasoning_details": [{"type": "reasoning.summary", "summary": "hm"}]},
        {"reasoning": "hm", "reasoning_details": [{"type": "reasoning.text", "text": "hm"}]},
        {"thinking_blocks": [{"type": "thinking", "thinking": "hm", "signature": "s"}]},
        {"reasoning_content": "hm", "thinking_blocks": [{"type": "thinking", "thinking": "hm"}]},
        {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]},
    ],
)
def test_047_thinking_is_read_from_any_field_and_never_twice(delta: Any) -> None:
    events = read(chunk(delta), chunk({"content": "Yes."}), chunk(finish="stop"))
    assert parts(events) == [Thinking(text="hm"), Text(text="Yes.")]
    assert parts(read_reply(json.dumps({"choices": [{"message": delta, "finish_reason": "stop"}]}).encode())) == [
        Thinking(text="hm")
    ]


def test_016_blank_text_is_kept_only_where_text_follows() -> None:
    one = piece(index=0, id="a", name="read", arguments="{}")
    assert parts(read(chunk({"content": "\n"}), chunk({"content": "\nHi"}), chunk(finish="stop"))) == [
        Text(text="\n\nHi")
    ]
    assert parts(read(chunk({"content": "\n\n"}), chunk(one), chunk({"content": " "}, "tool_calls"))) == [
        ToolCall(id="a", name="read", arguments="{}")
    ]
    assert parts(read(chunk({"content": "\n"}), chunk(finish="stop"))) == [Text(text="\n")]


def test_text_among_the_pieces_of_a_call_is_one_part_after_it() -> None:
    frames = [piece(index=0, id="a", name="x", arguments="{"), {"content": "b"}, piece(index=0, arguments="}")]
    assert parts(read(*map(chunk, frames), chunk({"content": "c"}, "tool_calls"))) == [
        ToolCall(id="a", name="x", arguments="{}"),
        Text(text="bc"),
    ]


@each(
    "odd",
    [
        {"content": "a", "tool_calls": [{"index": 0, "id": "x", "function": {"name": "y", "arguments": "{}"}}]},
        {"content": 'quoted "content":"a" inside'},
        {"content": "\u2028 é 😀 \\ \x00"},
        {"content": None, "reasoning_content": "hm"},
        {"refusal": "no"},
        {"content": ["a"]},
        {"content": ""},
        {},
    ],
)
@each("field", ["content", "reasoning_content", "reasoning"])
@each("more", [{}, {"usage": {"prompt_tokens": 1}}, {"obfuscation": "x"}])
def test_many_chunks_of_one_frame_say_what_each_would_say_alone(odd: Any, field: str, more: Any) -> None:
    """Ours: the short cut for repeated frames must not be seen from outside."""
    frames = [chunk({field: text}) for text in ("a", "b", '"c"', "é")]
    frames += [chunk(odd, **more), chunk({field: "d"}), chunk({field: "e"}, **more), chunk({field: "f"})]
    stream = [*frames, chunk({field: "g"}, "stop")]
    varied = [{**frame, f"vendor_{number}": number} for number, frame in enumerate(stream)]
    assert read(*stream) == read(*varied)


# ── Reading: endings ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("finish", "reason"),
    [
        ("stop", StopReason.END_TURN),
        ("length", StopReason.MAX_TOKENS),
        ("content_filter", StopReason.REFUSAL),
        ("tool_calls", StopReason.END_TURN),
        ("SAFETY", StopReason.REFUSAL),
    ],
)
def test_a_finish_reason_says_why(finish: str, reason: StopReason) -> None:
    assert read(chunk({"content": "Hi"}), chunk(finish=finish))[-1] == Finished(reason=reason)


@pytest.mark.parametrize(
    ("finish", "reason"),
    [
        ("stop", StopReason.TOOL_USE),
        ("length", StopReason.MAX_TOKENS),
        ("content_filter", StopReason.REFUSAL),
        ("eos", StopReason.TOOL_USE),
    ],
)
def test_024_025_calls_are_to_be_run_unless_they_were_cut(finish: str, reason: StopReason) -> None:
    one = chunk(piece(index=0, id="a", name="read", arguments="{}"))
    assert read(one, chunk(finish=finish))[-1] == Finished(reason=reason)


def test_024_a_call_that_was_cut_before_its_arguments_is_not_begun_by_a_later_one() -> None:
    """Found by damaged streams: the first piece of a call without its index makes two calls of one."""
    first, rest = piece(id="a", name="read", arguments=""), piece(index=0, arguments='{"pa')
    assert [call.name for call in calls(first, rest, finish="length")] == ["unknown_tool"]


@pytest.mark.parametrize("finish", ["error", "MALFORMED_FUNCTION_CALL", "abort"])
def test_026_an_unknown_finish_reason_is_an_end_and_told(finish: str) -> None:
    *_, note, finished = read(chunk({"content": "Hi"}), chunk(finish=finish))
    assert finished == Finished(reason=StopReason.END_TURN)
    assert isinstance(note, Note)
    assert finish in note.message


def test_027_without_a_finish_reason_done_is_an_end_and_silence_is_none() -> None:
    *_, note, finished = read(chunk({"content": "Hi"}))
    assert (type(note), finished) == (Note, Finished(reason=StopReason.END_TURN))
    failed = read(chunk({"content": "Hi"}), done=False)[-1]
    assert isinstance(failed, Failed)
    assert (failed.kind, failed.status) == ("upstream", 502)


def test_027_a_call_that_stops_in_the_middle_is_not_complete() -> None:
    assert read(chunk(piece(index=0, id="a", name="read", arguments='{"n')))[-1] == Finished(
        reason=StopReason.MAX_TOKENS
    )


def test_the_end_of_the_stream_after_a_finish_reason_is_enough() -> None:
    assert read(chunk({"content": "Hi"}, "stop"), done=False)[-1] == Finished(reason=STOP)


def test_033_the_finish_reasons_of_split_choices_count_together() -> None:
    split = chunk()
    call = piece(index=0, id="a", name="read", arguments="{}")
    split["choices"] = [
        {"index": 0, "delta": {"content": "Hi"}, "finish_reason": "length"},
        {"index": 1, "delta": call, "finish_reason": "tool_calls"},
    ]
    events = read(split)
    assert parts(events) == [Text(text="Hi"), ToolCall(id="a", name="read", arguments="{}")]
    assert events[-1] == Finished(reason=StopReason.MAX_TOKENS)


def test_034_one_id_and_model_even_where_there_are_none() -> None:
    bare = {"choices": [{"delta": {"content": "Hi"}}]}
    events = read(bare, {**bare, "id": "other", "model": "other"}, chunk(finish="stop"))
    assert [event for event in events if isinstance(event, Started)] == [Started(id="chatcmpl-ours", model="asked")]


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"prompt_tokens": 10, "completion_tokens": 3}, Usage(input=10, output=3)),
        (
            {
                "prompt_tokens": 10,
                "completion_tokens": 3,
                "prompt_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 1},
                "completion_tokens_details": {"reasoning_tokens": 2},
            },
            Usage(input=5, output=3, cache_read=4, cache_write=1, reasoning=2),
        ),
        ({"prompt_tokens": 10, "prompt_cache_hit_tokens": 4}, Usage(input=6, cache_read=4)),
        ({"prompt_tokens": 1, "prompt_tokens_details": None, "completion_tokens": None}, Usage(input=1)),
    ],
)
def test_067_071_usage_comes_last_and_leaves_the_cache_out(usage: Any, expected: Usage) -> None:
    early = chunk({"content": "Hi"}, usage={"prompt_tokens": 1, "completion_tokens": 1})
    *_, got, _finished = read(early, chunk(finish="stop"), chunk(choices=[], usage=usage))
    assert got == expected


@pytest.mark.parametrize(
    ("error", "kind", "status"),
    [
        ({"message": "m", "code": 429}, "rate_limited", 429),
        ({"message": "m", "code": "rate_limit_exceeded"}, "rate_limited", 429),
        ({"message": "m", "type": "insufficient_quota"}, "billing", 402),
        ({"message": "m", "type": "invalid_request_error", "code": "context_length_exceeded"}, "bad_request", 400),
        ({"message": "m", "type": "overloaded_error"}, "overloaded", 503),
        ({"message": "m", "type": "server_error"}, "upstream", 502),
        ({"message": "m", "code": "500"}, "upstream", 500),
        ("m", "upstream", 502),
    ],
)
def test_075_an_error_in_a_chunk_is_a_failure(error: Any, kind: str, status: int) -> None:
    inside = {"choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": "error", "error": error}]}
    endings = [read(chunk({"content": "Hi"}), frame)[-1] for frame in ({"error": error, "choices": []}, inside)]
    for failed in (*endings, *read_reply(json.dumps({"error": error}).encode())):
        assert isinstance(failed, Failed)
        assert (failed.kind, failed.status, failed.message) == (kind, status, "m")


def test_061_an_error_outside_of_the_framing_is_found() -> None:
    body = b'{\n  "error": {\n    "message": "slow down",\n\n    "type": "rate_limit_error"\n  }\n}'
    for stream in (body, sse(chunk({"content": "Hi"})) + body, body + b"\n\ndata: [DONE]\n\n"):
        reader = ResponseReader()
        failed = [*reader.feed(stream), *reader.close()][-1]
        assert isinstance(failed, Failed)
        assert (failed.kind, failed.message) == ("rate_limited", "slow down")


def test_an_event_named_error_is_a_failure() -> None:
    reader = ResponseReader()
    (failed,) = reader.feed(b'event: error\ndata: {"message":"no"}\n\n')
    assert isinstance(failed, Failed)
    assert failed.message == "no"


def test_a_whole_reply_where_a_stream_was_asked_for_is_read() -> None:
    body = json.dumps({"id": "i", "choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]}).encode()
    reader = ResponseReader()
    assert fold([*reader.feed(body), *reader.close()]).parts == (Text(text="Hi"),)


def test_036_a_whole_reply_keeps_its_order() -> None:
    message = {
        "role": "assistant",
        "reasoning": "hm",
        "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
        "refusal": None,
        "tool_calls": [piece(id=i, type="function", name="read", arguments="{}")["tool_calls"][0] for i in "xy"],
    }
    reply = fold(read_reply(json.dumps({"id": "i", "choices": [{"message": message}]}).encode()))
    assert [type(part) for part in reply.parts] == [Thinking, Text, ToolCall, ToolCall]
    assert reply.finished.reason is StopReason.TOOL_USE
