"""Answers of the Responses API, as upstreams send them."""

import json
from typing import Any

from tests.each import each
from tests.grammar import check
from tieline.model.assemble import fold
from tieline.model.content import Foreign, Part, Text, Thinking, ToolCall
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
    source_of,
)
from tieline.wire.openai_responses.reader import ResponseReader, read_reply
from tieline.wire.openai_responses.schema import PROTOCOL
from tieline.wire.shared.spelling import ToolNames

USAGE = {
    "input_tokens": 9,
    "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 2},
    "output_tokens": 5,
    "output_tokens_details": {"reasoning_tokens": 1},
    "total_tokens": 14,
}


def response(status: str = "in_progress", output: Any = (), **fields: Any) -> dict[str, Any]:
    return {"id": "resp_1", "object": "response", "model": "m", "status": status, "output": [*output], **fields}


def created() -> dict[str, Any]:
    return {"type": "response.created", "response": response(usage=None)}


def ended(*output: Any, status: str = "completed", **fields: Any) -> dict[str, Any]:
    return {"type": f"response.{status}", "response": response(status, output, usage=USAGE, **fields)}


def item(kind: str, place: int, /, **fields: Any) -> dict[str, Any]:
    """An event that starts or ends an item; `kind` is `added` or `done`."""
    return {"type": f"response.output_item.{kind}", "output_index": place, "item": fields}


def event(name: str, place: int = 0, /, **fields: Any) -> dict[str, Any]:
    return {"type": f"response.{name}", "output_index": place, **fields}


def message(text: str, item_id: str = "msg_1", **fields: Any) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": []}] if text else []
    return {"id": item_id, "type": "message", "role": "assistant", "content": content, **fields}


def call(arguments: str, name: str = "read", **fields: Any) -> dict[str, Any]:
    return {"id": "fc_1", "type": "function_call", "call_id": "call_1", "name": name, "arguments": arguments, **fields}


def sse(*frames: Any) -> bytes:
    numbered = [{**frame, "sequence_number": number} for number, frame in enumerate(frames)]
    return b"".join(b"event: %b\ndata: %b\n\n" % (f["type"].encode(), json.dumps(f).encode()) for f in numbered)


def read(*frames: Any, names: ToolNames | None = None) -> list[Event]:
    reader = ResponseReader(names or ToolNames(), fallback_id="resp_ours", model="asked")
    events = [*reader.feed(sse(*frames)), *reader.close()]
    assert reader.ended
    check(events)
    return events


def parts(events: list[Event]) -> list[Part]:
    return [each_event.part for each_event in events if isinstance(each_event, PartEnd)]


def notes(events: list[Event]) -> list[str]:
    return [each_event.kind for each_event in events if isinstance(each_event, Note)]


def text_stream(text: str = "Hello") -> list[dict[str, Any]]:
    """The events of an answer that consists of one text, as OpenAI sends them."""
    done = {"type": "output_text", "text": text, "annotations": []}
    return [
        created(),
        {"type": "response.in_progress", "response": response()},
        item("added", 0, **message("")),
        event("content_part.added", item_id="msg_1", content_index=0, part={**done, "text": ""}),
        event("output_text.delta", item_id="msg_1", content_index=0, delta=text[:2], logprobs=[]),
        event("output_text.delta", item_id="msg_1", content_index=0, delta=text[2:], logprobs=[]),
        event("output_text.done", item_id="msg_1", content_index=0, text=text, logprobs=[]),
        event("content_part.done", item_id="msg_1", content_index=0, part=done),
        item("done", 0, **message(text, status="completed")),
        ended(message(text, status="completed")),
    ]


def call_stream(arguments: str = '{"path": "a"}', **fields: Any) -> list[dict[str, Any]]:
    return [
        created(),
        item("added", 0, **call("", **fields)),
        event("function_call_arguments.delta", item_id="fc_1", delta=arguments[:4]),
        event("function_call_arguments.delta", item_id="fc_1", delta=arguments[4:]),
        event("function_call_arguments.done", item_id="fc_1", name="read", arguments=arguments),
        item("done", 0, **call(arguments, status="completed", **fields)),
        ended(call(arguments, status="completed", **fields)),
    ]


# ── Text ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_text_is_read_as_it_comes() -> None:
    assert read(*text_stream()) == [
        Started(id="resp_1", model="m"),
        PartStart(index=0, part=Text()),
        PartDelta(0, "He"),
        PartDelta(0, "llo"),
        PartEnd(index=0, part=Text(text="Hello")),
        Usage(input=3, output=5, cache_read=4, cache_write=2, reasoning=1),
        Finished(reason=StopReason.END_TURN),
    ]


def test_a_whole_answer_says_the_same_as_its_stream() -> None:
    body = json.dumps(response("completed", [message("Hello"), call('{"a":1}')], usage=USAGE)).encode()
    reply = fold(read_reply(body, ToolNames(), fallback_id="ours", model="asked"))
    assert reply.parts == (Text(text="Hello"), ToolCall(id="call_1", name="read", arguments='{"a":1}'))
    assert (reply.id, reply.model, reply.finished.reason) == ("resp_1", "m", StopReason.TOOL_USE)
    assert reply.usage == Usage(input=3, output=5, cache_read=4, cache_write=2, reasoning=1)


def test_the_parts_of_one_message_are_parts_of_their_own() -> None:
    both = [{"type": "output_text", "text": "one"}, {"type": "refusal", "refusal": "no"}]
    events = read(
        created(),
        item("added", 0, **message("")),
        event("output_text.delta", content_index=0, delta="one"),
        event("refusal.delta", content_index=1, delta="no"),
        item("done", 0, **{**message(""), "content": both}),
        ended(),
    )
    assert parts(events) == [Text(text="one"), Text(text="no", refusal=True)]


def test_134_the_phase_and_the_annotations_of_a_message_are_kept() -> None:
    annotation = {"type": "url_citation", "url": "https://example.com", "start_index": 0, "end_index": 2}
    final = message("ok", phase="final_answer")
    final["content"][0]["annotations"] = [annotation]
    events = read(
        created(),
        item("added", 0, **message("", phase="final_answer")),
        event("output_text.delta", content_index=0, delta="ok"),
        item("done", 0, **final),
        ended(final),
    )
    (part,) = parts(events)
    own = part.meta[PROTOCOL]
    assert own["phase"] == "final_answer"
    assert json.loads(own["annotations"]) == [annotation]


# ── Calls ────────────────────────────────────────────────────────────────────────────────────────


def test_a_call_is_read_as_it_comes() -> None:
    assert read(*call_stream())[1:6] == [
        PartStart(index=0, part=ToolCall(id="call_1", name="read")),
        PartDelta(0, '{"pa'),
        PartDelta(0, 'th": "a"}'),
        PartEnd(index=0, part=ToolCall(id="call_1", name="read", arguments='{"path": "a"}')),
        Usage(input=3, output=5, cache_read=4, cache_write=2, reasoning=1),
    ]


@each(
    "frames",
    [
        [event("function_call_arguments.done", item_id="fc_1", arguments='{"a":1}')],
        [item("done", 0, **call('{"a":1}'))],
        [event("function_call_arguments.delta", item_id="fc_1", delta='{"a"'), item("done", 0, **call('{"a":1}'))],
        [item("done", 0, **call('{"a":1}')), item("done", 0, **call('{"a":1}'))],
        [item("done", 0, **call('{"a":1}', id="fc_other"))],
        [],
    ],
    ids=["arguments.done", "item.done", "the rest in item.done", "twice", "another id", "only in completed"],
)
def test_r08_arguments_are_never_missing_and_never_doubled(frames: list[Any]) -> None:
    events = read(created(), item("added", 0, **call("")), *frames, ended(call('{"a":1}')))
    assert parts(events) == [ToolCall(id="call_1", name="read", arguments='{"a":1}')]
    assert events[-1] == Finished(reason=StopReason.TOOL_USE)


def test_020_item_ids_may_change_from_event_to_event() -> None:
    frames = call_stream()
    for number, frame in enumerate(frames):
        if "item_id" in frame:
            frame["item_id"] = f"rotating_{number}"
        if "item" in frame:
            frame["item"] = {**frame["item"], "id": f"rotating_{number}"}
    events = read(*text_stream()[:-1], *[{**f, "output_index": 1} for f in frames[1:-1]], ended(message("Hello", "z")))
    assert parts(events) == [Text(text="Hello"), ToolCall(id="call_1", name="read", arguments='{"path": "a"}')]


def test_126_items_that_share_one_index_stay_apart() -> None:
    events = read(
        created(),
        item("added", 0, **message("")),
        event("output_text.delta", item_id="msg_1", content_index=0, delta="Hi"),
        item("added", 0, **call("")),
        event("function_call_arguments.delta", item_id="fc_1", delta='{"a":1}'),
        event("output_text.delta", item_id="msg_1", content_index=0, delta=" there"),
        item("done", 0, **message("Hi there")),
        item("done", 0, **call('{"a":1}')),
        ended(message("Hi there"), call('{"a":1}')),
    )
    assert parts(events) == [Text(text="Hi there"), ToolCall(id="call_1", name="read", arguments='{"a":1}')]


def test_125_items_that_only_the_last_event_lists_are_read() -> None:
    reasoning = {"id": "rs_1", "type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]}
    events = read(created(), ended(reasoning, message("Hello"), call('{"a":1}')))
    assert parts(events) == [
        Thinking(text="hm"),
        Text(text="Hello"),
        ToolCall(id="call_1", name="read", arguments='{"a":1}'),
    ]


def test_r02_an_empty_list_at_the_end_loses_nothing() -> None:
    assert parts(read(*text_stream()[:-1], ended())) == [Text(text="Hello")]


def test_015_text_without_a_start_gets_an_item_of_its_own() -> None:
    events = read(
        created(),
        event("output_text.delta", item_id="msg_1", content_index=0, delta="Hi"),
        event("function_call_arguments.delta", 1, item_id="fc_1", delta='{"a":1}'),
        item("done", 0, **message("Hi")),
        item("done", 1, **call('{"a":1}')),
        ended(message("Hi"), call('{"a":1}')),
    )
    # The call has no id before its last event.
    assert [type(part) for part in parts(events)] == [Text, ToolCall]
    assert parts(events)[1] == ToolCall(id="call_1", name="read", arguments='{"a":1}')


def test_parallel_calls_come_one_after_the_other() -> None:
    one, two = call('{"a":1}'), call('{"b":2}', "write", id="fc_2", call_id="call_2")
    events = read(
        created(),
        item("added", 0, **{**one, "arguments": ""}),
        item("added", 1, **{**two, "arguments": ""}),
        event("function_call_arguments.delta", 0, delta='{"a"'),
        event("function_call_arguments.delta", 1, delta='{"b"'),
        event("function_call_arguments.delta", 0, delta=":1}"),
        event("function_call_arguments.delta", 1, delta=":2}"),
        item("done", 0, **one),
        item("done", 1, **two),
        ended(one, two),
    )
    assert parts(events) == [
        ToolCall(id="call_1", name="read", arguments='{"a":1}'),
        ToolCall(id="call_2", name="write", arguments='{"b":2}'),
    ]


def test_r07_a_call_that_comes_twice_is_made_once_and_another_with_its_id_gets_a_new_one() -> None:
    one = call('{"a":1}')
    again = [item("added", 1, **call("", id="fc_9")), item("done", 1, **call('{"a":1}', id="fc_9"))]
    events = read(created(), item("added", 0, **call("")), item("done", 0, **one), *again, ended(one))
    assert parts(events) == [ToolCall(id="call_1", name="read", arguments='{"a":1}')]
    other = [item("added", 1, **call("", id="fc_9")), item("done", 1, **call('{"a":2}', id="fc_9"))]
    events = read(created(), item("added", 0, **call("")), item("done", 0, **one), *other, ended())
    first, second = parts(events)
    assert isinstance(first, ToolCall)
    assert isinstance(second, ToolCall)
    assert (first.id, second.arguments) == ("call_1", '{"a":2}')
    assert second.id.startswith("call_")
    assert second.id != first.id


@each(
    ("sent", "arguments"),
    [("", "{}"), ("null", "{}"), ('"{\\"a\\":1}"', '{"a":1}'), ({"a": 1}, '{"a":1}'), ('{"a', '{"a')],
)
def test_arguments_are_repaired_where_their_meaning_is_clear(sent: Any, arguments: str) -> None:
    events = read(created(), item("done", 0, **call(sent)), ended())
    assert parts(events) == [ToolCall(id="call_1", name="read", arguments=arguments)]


def test_a_freeform_call_is_plain_text() -> None:
    made = {"id": "ctc_1", "type": "custom_tool_call", "call_id": "call_2", "name": "patch", "input": "*** Begin"}
    events = read(
        created(),
        item("added", 0, **{**made, "input": ""}),
        event("custom_tool_call_input.delta", item_id="ctc_1", delta="*** "),
        event("custom_tool_call_input.delta", item_id="ctc_1", delta="Begin"),
        event("custom_tool_call_input.done", item_id="ctc_1", input="*** Begin"),
        item("done", 0, **made),
        ended(made),
    )
    assert [e.text for e in events if isinstance(e, PartDelta)] == ["*** ", "Begin"]
    assert parts(events) == [ToolCall(id="call_2", name="patch", arguments="*** Begin", freeform=True)]


def test_a_freeform_tool_that_was_offered_as_a_function_gives_its_text() -> None:
    names = ToolNames(["patch"], frozenset(["patch"]))
    events = read(created(), item("done", 0, **call('{"input":"*** Begin"}', "patch")), ended(), names=names)
    assert parts(events) == [ToolCall(id="call_1", name="patch", arguments="*** Begin", freeform=True)]


def test_r06_a_call_in_a_namespace_has_one_name() -> None:
    events = read(*call_stream(namespace="multi_agent"))
    (made,) = parts(events)
    assert made == ToolCall(
        id="call_1", name="multi_agent__read", arguments='{"path": "a"}', meta={PROTOCOL: {"namespace": "multi_agent"}}
    )
    assert parts(read(*call_stream(namespace="functions"))) == parts(read(*call_stream()))


def test_calls_of_openais_own_tools_are_ordinary_calls() -> None:
    made = {
        "id": "lsh_1",
        "type": "local_shell_call",
        "call_id": "call_3",
        "status": "completed",
        "action": {"type": "exec", "command": ["ls", "-l"], "env": {}},
    }
    (part,) = parts(read(created(), item("added", 0, **made), item("done", 0, **made), ended(made)))
    assert isinstance(part, ToolCall)
    assert (part.id, part.name, json.loads(part.arguments)) == ("call_3", "local_shell", {"command": ["ls", "-l"]})


def test_items_that_the_model_has_no_word_for_are_kept_as_they_are() -> None:
    searched = {"id": "ws_1", "type": "web_search_call", "status": "completed", "action": {"type": "search"}}
    events = read(
        created(),
        item("added", 0, **{**searched, "status": "in_progress"}),
        event("web_search_call.searching", item_id="ws_1"),
        item("done", 0, **searched),
        ended(searched),
    )
    (part,) = parts(events)
    assert isinstance(part, Foreign)
    assert (part.protocol, part.kind, json.loads(part.json)) == (PROTOCOL, "web_search_call", searched)
    assert events[-1] == Finished(reason=StopReason.END_TURN)


# ── Reasoning ────────────────────────────────────────────────────────────────────────────────────


def reasoning(*texts: str, **fields: Any) -> dict[str, Any]:
    return {
        "id": "rs_1",
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": t} for t in texts],
        **fields,
    }


def test_049_encrypted_reasoning_keeps_its_id() -> None:
    events = read(
        created(),
        item("added", 0, **reasoning(encrypted_content="early")),
        event("reasoning_summary_part.added", item_id="rs_1", summary_index=0, part={"type": "summary_text"}),
        event("reasoning_summary_text.delta", item_id="rs_1", summary_index=0, delta="hm"),
        event("reasoning_summary_text.done", item_id="rs_1", summary_index=0, text="hm"),
        item("done", 0, **reasoning("hm", encrypted_content="gAAA:x")),
        ended(reasoning("hm", encrypted_content="gAAA:x")),
    )
    assert parts(events) == [Thinking(text="hm", signature="openai:rs_1:gAAA:x")]


def test_encrypted_reasoning_without_a_summary_is_kept_too() -> None:
    added = item("added", 0, **reasoning())
    events = read(created(), added, item("done", 0, **reasoning(encrypted_content="e")), ended())
    assert parts(events) == [Thinking(signature="openai:rs_1:e")]
    assert parts(read(created(), added, item("done", 0, **reasoning()), ended())) == []


def test_052_the_parts_of_a_summary_are_one_thought_with_blank_lines() -> None:
    events = read(
        created(),
        item("added", 0, **reasoning()),
        event("reasoning_summary_text.delta", summary_index=0, delta="one"),
        event("reasoning_summary_text.delta", summary_index=1, delta="tw"),
        event("reasoning_summary_text.delta", summary_index=1, delta="o"),
        item("done", 0, **reasoning("one", "two", "three")),
        ended(),
    )
    assert parts(events) == [Thinking(text="one\n\ntwo\n\nthree", meta={PROTOCOL: {"parts": (3, 3, 5)}})]


def test_raw_reasoning_is_thinking_under_both_names() -> None:
    for name in ("reasoning_text", "reasoning"):
        events = read(
            created(), item("added", 0, **reasoning()), event(f"{name}.delta", content_index=0, delta="x"), ended()
        )
        assert parts(events) == [Thinking(text="x")]


# ── Endings ──────────────────────────────────────────────────────────────────────────────────────


@each(
    ("word", "reason"),
    [
        ("max_output_tokens", StopReason.MAX_TOKENS),
        ("content_filter", StopReason.REFUSAL),
        ("something_new", StopReason.MAX_TOKENS),
    ],
)
def test_an_incomplete_answer_says_why(word: str, reason: StopReason) -> None:
    frames = [*text_stream()[:6], ended(message("Hello"), status="incomplete", incomplete_details={"reason": word})]
    events = read(*frames)
    assert events[-1] == Finished(reason=reason)
    assert parts(events) == [Text(text="Hello")]


def test_024_a_call_that_was_cut_is_not_claimed_complete() -> None:
    details = {"reason": "max_output_tokens"}
    frames = call_stream()[:3]
    cut = ended(call('{"pa', status="incomplete"), status="incomplete", incomplete_details=details)
    events = read(*frames, cut)
    assert parts(events) == [ToolCall(id="call_1", name="read", arguments='{"pa')]
    assert events[-1] == Finished(reason=StopReason.MAX_TOKENS)
    events = read(*frames[:2], ended(call("", status="incomplete"), status="incomplete", incomplete_details=details))
    assert (parts(events), notes(events)) == ([], ["cut_call"])


@each(
    ("error", "kind"),
    [
        ({"code": "rate_limit_exceeded", "message": "slow"}, "rate_limited"),
        ({"code": "insufficient_quota", "message": "pay"}, "billing"),
        ({"code": "context_length_exceeded", "message": "long"}, "bad_request"),
        ({"code": "server_is_overloaded", "message": "busy"}, "overloaded"),
        ({"code": "server_error", "message": "oops"}, "upstream"),
        (None, "upstream"),
    ],
)
def test_a_failure_has_its_kind(error: Any, kind: str) -> None:
    failed = {"type": "response.failed", "response": response("failed", error=error)}
    last = read(*text_stream()[:6], failed)[-1]
    assert isinstance(last, Failed)
    assert last.kind == kind
    assert error is None or (last.message, last.code) == (error["message"], error["code"])


@each(
    "frame",
    [
        {"type": "error", "code": "rate_limit_exceeded", "message": "slow", "param": None},
        {"type": "error", "error": {"type": "tokens", "code": "rate_limit_exceeded", "message": "slow"}, "status": 429},
    ],
    ids=["flat", "nested"],
)
def test_an_error_event_fails_the_answer(frame: Any) -> None:
    last = read(created(), frame)[-1]
    assert isinstance(last, Failed)
    assert (last.kind, last.message, last.code) == ("rate_limited", "slow", "rate_limit_exceeded")


def test_124_a_stream_without_a_last_event_is_a_failure() -> None:
    for length in range(len(text_stream())):
        last = read(*text_stream()[:length])[-1]
        assert isinstance(last, Failed)
        assert last.kind == "upstream"


@each(
    ("body", "kind", "words"),
    [
        ({"object": "list", "data": []}, "upstream", "is its address that of a Responses API?"),
        ({"error": {"code": "rate_limit_exceeded", "message": "slow"}}, "rate_limited", "slow"),
        (response("failed", error={"code": "server_error", "message": "oops"}), "upstream", "oops"),
        (response("cancelled"), "cancelled", "cancelled"),
        (response("queued"), "upstream", "'queued'"),
    ],
)
def test_a_whole_answer_that_is_none_is_a_failure(body: Any, kind: str, words: str) -> None:
    failed = read_reply(json.dumps(body).encode())[-1]
    assert isinstance(failed, Failed)
    assert failed.kind == kind
    assert words in failed.message


def test_an_answer_or_an_error_outside_of_framing_is_read() -> None:
    for body, last in (
        (response("completed", [message("Hello")]), Finished(reason=StopReason.END_TURN)),
        ({"error": {"message": "slow", "code": "rate_limit_exceeded"}}, "slow"),
    ):
        reader = ResponseReader(fallback_id="ours")
        events = [*reader.feed(json.dumps(body).encode()), *reader.close()]
        assert events[-1] == last or (isinstance(events[-1], Failed) and events[-1].message == last)


def test_values_of_the_wrong_type_are_noted_and_do_no_harm() -> None:
    frames = text_stream()
    frames[-1]["response"]["usage"] = {"input_tokens": "9", "output_tokens": 5}
    events = read(*frames)
    assert parts(events) == [Text(text="Hello")]
    assert notes(events) == ["odd_value"]


def test_an_emoji_that_was_cut_in_two_is_whole_again() -> None:
    half = b'{"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":"\\ud83d"}'
    rest = half.replace(b"\\ud83d", b"\\ude00!")
    reader = ResponseReader(fallback_id="ours")
    begun = sse(created(), item("added", 0, **message("")))
    events = reader.feed(begun + b"data: %b\n\ndata: %b\n\n" % (half, rest) + sse(ended()))
    assert parts(events) == [Text(text="😀!")]


# ── Frames for a client of the same protocol ─────────────────────────────────────────────────────


def sourced(stream: bytes) -> tuple[bytes, bool]:
    """Return the frames that a client of this protocol receives as they came, and whether these are all."""
    reader = ResponseReader(fallback_id="ours", keep_source=True)
    copied, is_complete = b"", True
    for start in range(0, len(stream), 97):
        events = reader.feed(stream[start : start + 97])
        source = source_of(events)
        copied += b"" if source is None else source.text
        is_complete = is_complete and (not events or source is not None)
    return copied, is_complete


@each("frames", [text_stream(), call_stream(), call_stream(namespace="agents")])
def test_a_regular_stream_is_passed_on_as_it_is(frames: list[Any]) -> None:
    assert sourced(sse(*frames)) == (sse(*frames), True)


@each(
    "frames",
    [
        [*text_stream()[:-1], ended()],
        [*text_stream()[:-1], {"type": "response.completed", "response": response("completed", [message("Hello")])}],
        [f for f in call_stream() if "arguments" not in f["type"]],
        text_stream()[2:],
    ],
    ids=["empty output", "no usage", "no deltas", "no beginning"],
)
def test_a_stream_that_needed_tolerance_is_not_passed_on_to_its_end(frames: list[Any]) -> None:
    copied, is_complete = sourced(sse(*frames))
    assert not is_complete
    assert copied != sse(*frames)


def test_many_deltas_in_one_read_keep_their_texts_whatever_they_contain() -> None:
    texts = [
        "one ",
        'a","b',
        '\\","',
        "line\nbreak ",
        "data: x\n\n",
        "ünï 😀",
        '{"delta":"y"}',
        '"sequence_number":7,',
        "end",
    ]
    deltas = [event("output_text.delta", item_id="msg_1", content_index=0, delta=text, logprobs=[]) for text in texts]
    frames = [created(), item("added", 0, **message("")), *deltas, item("done", 0, **message("".join(texts)))]
    numbered = [
        {"type": frame["type"], "sequence_number": n * 7, **frame}
        for n, frame in enumerate([*frames, ended(message("".join(texts)))])
    ]
    stream = b"".join(b"event: %b\ndata: %b\n\n" % (one["type"].encode(), json.dumps(one).encode()) for one in numbered)
    for size in (len(stream), 700, 90):
        reader = ResponseReader(keep_source=True)
        batches = [reader.feed(stream[start : start + size]) for start in range(0, len(stream), size)]
        events = [one for batch in batches for one in batch]
        assert [one.text for one in events if isinstance(one, PartDelta)] == texts
        assert b"".join(source.text for batch in batches if (source := source_of(batch)) is not None) == stream


def test_half_of_an_emoji_at_the_end_of_a_part_is_replaced() -> None:
    part = b'{"type":"output_text","text":"Hi \\ud83d","annotations":[]}'
    place = b'"item_id":"msg_1","output_index":0,"content_index":0'
    stream = sse(created(), item("added", 0, **message("")))
    stream += b'data: {"type":"response.content_part.done",%b,"part":%b}\n\n' % (place, part)
    stream += sse(item("done", 0, **message("")), ended())
    reader = ResponseReader()
    events = [*reader.feed(stream), *reader.close()]
    assert parts(events) == [Text(text="Hi \ufffd")]
