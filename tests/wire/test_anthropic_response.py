"""Answers in the Messages dialect: read from upstreams, written for clients."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from anthropic.types import Message as SdkMessage
from anthropic.types import RawMessageStreamEvent
from pydantic import TypeAdapter

from tests.each import each
from tests.grammar import check
from tieline.model.assemble import fold, unfold
from tieline.model.content import Foreign, Image, Part, Text, Thinking, ToolCall
from tieline.model.errors import BadRequest, GatewayError, LegFailed
from tieline.model.events import (
    ErrorKind,
    Event,
    Failed,
    Finished,
    Note,
    PartDelta,
    PartEnd,
    PartStart,
    Reply,
    Started,
    StopReason,
    Usage,
)
from tieline.wire.anthropic import (
    KEEP_ALIVE,
    Options,
    ResponseReader,
    ResponseWriter,
    read_error,
    read_reply,
    render,
    render_error,
)
from tieline.wire.framing.sse import SseReader
from tieline.wire.shared.spelling import ToolNames

SDK_EVENT: TypeAdapter[Any] = TypeAdapter(RawMessageStreamEvent)
STARTED = Started(id="msg_1", model="claude")
END = Finished(reason=StopReason.END_TURN)
UNCHANGED = ToolNames()


def event(kind: str, **fields: Any) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), json.dumps({"type": kind, **fields}).encode())


def start(message_id: str = "msg_1", **usage: int) -> bytes:
    return event("message_start", message={"id": message_id, "model": "claude", "content": [], "usage": usage})


def opens(index: int = 0, **block: Any) -> bytes:
    return event("content_block_start", index=index, content_block=block)


def adds(index: int = 0, **delta: Any) -> bytes:
    return event("content_block_delta", index=index, delta=delta)


def stops(index: int = 0) -> bytes:
    return event("content_block_stop", index=index)


def ends(reason: Any = "end_turn", **fields: Any) -> bytes:
    return event("message_delta", delta={"stop_reason": reason, **fields}, usage={"output_tokens": 5}) + DONE


DONE = event("message_stop")
CALL = opens(type="tool_use", id="toolu_1", name="read", input={})


def read(*stream: bytes, spelled: ToolNames = UNCHANGED) -> list[Event]:
    reader = ResponseReader(spelled, fallback_id="fallback", model="asked")
    events = reader.feed(b"".join(stream)) + reader.close()
    assert reader.ended
    check(events)
    return events


def parts(events: list[Event]) -> list[Part]:
    return [event.part for event in events if isinstance(event, PartEnd)]


def notes(events: list[Event]) -> list[str]:
    return [event.kind for event in events if isinstance(event, Note)]


def written(*events: Event, **options: Any) -> list[dict[str, Any]]:
    """What a client gets, each event checked against the types of the official SDK."""
    writer = ResponseWriter(Options(**options))
    reader = SseReader()
    blocks = reader.feed(b"".join(writer.write(event) for event in events))
    frames = [frame for block in blocks if (frame := reader.event(block)) is not None]
    said = [json.loads(data) for _, data in frames]
    assert [name.decode() for name, _ in frames] == [value["type"] for value in said]
    for value in said:
        if value["type"] != "error":
            SDK_EVENT.validate_python(value)
    return said


def leg(*pieces: tuple[Part, list[str], Part], finished: Finished = END) -> list[Event]:
    events: list[Event] = [STARTED]
    for index, (empty, texts, whole) in enumerate(pieces):
        events += [PartStart(index=index, part=empty), *(PartDelta(index=index, text=text) for text in texts)]
        events.append(PartEnd(index=index, part=whole))
    return [*events, finished]


def calls(*texts: str, freeform: bool = False) -> list[Event]:
    empty = ToolCall(id="toolu_1", name="read", freeform=freeform)
    whole = ToolCall(id="toolu_1", name="read", freeform=freeform, arguments="".join(texts))
    return leg((empty, list(texts), whole), finished=Finished(reason=StopReason.TOOL_USE))


# ── Reading ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("given", "deltas", "arguments"),
    [
        ({}, [""], "{}"),
        ({}, [], "{}"),
        (None, [], "{}"),
        ("", [], "{}"),
        ({"a": 1}, [], '{"a": 1}'),
        ({"a": 1}, [""], '{"a": 1}'),
        ({}, ['{"x"', ":1}"], '{"x":1}'),
        ({"a": 1}, ['{"x":1}'], '{"x":1}'),
    ],
)
def test_the_input_of_a_start_counts_only_when_nothing_follows(given: Any, deltas: list[str], arguments: str) -> None:
    block = opens(type="tool_use", id="toolu_1", name="read", input=given)
    fragments = [adds(type="input_json_delta", partial_json=text) for text in deltas]
    events = read(start(), block, *fragments, stops(), ends("tool_use"))
    assert parts(events) == [ToolCall(id="toolu_1", name="read", arguments=arguments)]


def test_names_and_freeform_calls_come_back_in_the_clients_spelling() -> None:
    spelled = ToolNames(["fs.read", "patch"], frozenset({"patch"}))
    first = opens(0, type="tool_use", id="a", name="fs_read", input={})
    second = opens(1, type="tool_use", id="b", name="Patch", input={})
    fragments = [adds(1, partial_json=text) for text in ('{"inp', 'ut":"*** \\"Be', 'gin\\"\\n"}')]
    events = read(start(), first, stops(0), second, *fragments, stops(1), ends("tool_use"), spelled=spelled)
    assert parts(events) == [
        ToolCall(id="a", name="fs.read", arguments="{}"),
        ToolCall(id="b", name="patch", arguments='*** "Begin"\n', freeform=True),
    ]


@pytest.mark.parametrize("text", ["plain words", '{"other":1}', '{"input":'])
def test_a_freeform_call_of_another_form_stays_as_it_came(text: str) -> None:
    spelled = ToolNames(["read"], frozenset({"read"}))
    events = read(start(), CALL, adds(partial_json=text), stops(), ends("tool_use"), spelled=spelled)
    assert parts(events) == [ToolCall(id="toolu_1", name="read", arguments=text, freeform=True)]


def test_a_call_without_id_or_name_gets_them() -> None:
    filled = adds(2, type="input_json_delta", partial_json='{"n":1}')
    events = read(start(), opens(2, type="tool_use"), filled, stops(2), ends())
    assert parts(events) == [ToolCall(id="call_msg_1_2", name="unknown_tool", arguments='{"n":1}')]
    assert notes(events) == ["repair"]


def test_text_for_a_block_never_opened_or_of_another_kind_is_not_lost() -> None:
    events = read(
        start(),
        adds(0, type="text_delta", text="no start"),
        opens(1, type="text", text=""),
        adds(1, type="thinking_delta", thinking="misplaced"),
        adds(1, type="text_delta", text="right"),
        stops(1),
        adds(2, type="input_json_delta", partial_json="{}"),
        ends(),
    )
    assert parts(events) == [Text(text="no start"), Text(text="right"), Thinking(text="misplaced")]
    assert notes(events) == ["ignored"]


def test_a_block_without_a_type_is_left_out() -> None:
    events = read(start(), opens(text="?"), stops(), event("content_block_start", index=1), stops(1), ends())
    assert parts(events) == []
    assert notes(events) == ["ignored", "ignored"]


def test_a_block_opened_twice_ends_the_first() -> None:
    events = read(start(), opens(type="text", text="a"), opens(type="text", text="b"), ends())
    assert parts(events) == [Text(text="a"), Text(text="b")]


@each(
    ("reason", "called", "expected"),
    [
        ("end_turn", False, StopReason.END_TURN),
        ("end_turn", True, StopReason.TOOL_USE),
        ("tool_use", True, StopReason.TOOL_USE),
        ("tool_use", False, StopReason.END_TURN),
        ("max_tokens", True, StopReason.MAX_TOKENS),
        ("pause_turn", False, StopReason.PAUSED),
        ("refusal", True, StopReason.REFUSAL),
        ("model_context_window_exceeded", True, StopReason.CONTEXT_FULL),
        ("stop_sequence", False, StopReason.STOP_SEQUENCE),
        ("sensitive", False, StopReason.END_TURN),
        (None, True, StopReason.TOOL_USE),
        (None, False, StopReason.END_TURN),
    ],
)
def test_the_reason_is_one_a_client_can_act_on(reason: Any, called: bool, expected: StopReason) -> None:
    events = read(start(), *((CALL, stops()) if called else ()), ends(reason))
    assert isinstance(events[-1], Finished)
    assert events[-1].reason is expected
    assert bool(notes(events)) is (reason in (None, "sensitive"))


def test_usage_is_the_most_of_each_count() -> None:
    later = event("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 9, "input_tokens": 3})
    counted = start(input_tokens=10, output_tokens=1, cache_read_input_tokens=7, cache_creation_input_tokens=2)
    events = read(counted, later, ends(None))
    usage = [event for event in events if isinstance(event, Usage)]
    assert usage == [
        Usage(input=10, output=1, cache_read=7, cache_write=2),
        Usage(input=10, output=9, cache_read=7, cache_write=2),
    ]


@pytest.mark.parametrize(
    ("kind", "expected", "status"),
    [
        ("overloaded_error", "overloaded", 529),
        ("rate_limit_error", "rate_limited", 429),
        ("invalid_request_error", "bad_request", 400),
        ("api_error", "upstream", 502),
        ("of_tomorrow", "upstream", 502),
    ],
)
def test_an_error_in_the_stream_is_a_failure_of_its_kind(kind: str, expected: ErrorKind, status: int) -> None:
    error = {"type": kind, "message": "words"}
    for stream in (event("error", error=error), b"data: " + json.dumps({"error": error}).encode() + b"\n\n"):
        failed = read(start(), opens(type="text", text="half"), stream, ends())[-1]
        assert failed == Failed(kind=expected, message="words", status=status, code=kind)


def test_an_error_outside_of_the_framing_is_read_too() -> None:
    pretty = json.dumps({"type": "error", "error": {"type": "api_error", "message": "broken"}}, indent=2).encode()
    failed = read(start(), pretty)[-1]
    assert isinstance(failed, Failed)
    assert failed.message == "broken"


@pytest.mark.parametrize(
    "stream",
    [
        (start(), opens(type="text", text="half")),
        (start(), CALL, adds(partial_json='{"text":"event: message_stop"')),
        (start(), b"data: {oops}\n\n", ends()),
        (start(), CALL.replace(b"{}", b'"\xff"'), stops(), ends()),
        (start(), start("msg_2"), ends()),
        (DONE,),
        (),
    ],
)
def test_a_stream_that_is_not_whole_is_a_failure(stream: tuple[bytes, ...]) -> None:
    assert isinstance(read(*stream)[-1], Failed)


def test_a_stream_cut_after_its_stop_reason_is_finished_with_a_note() -> None:
    events = read(start(), opens(type="text", text="all"), ends().removesuffix(DONE))
    assert events[-1] == END
    assert notes(events) == ["inferred_ending"]


def test_the_same_message_begun_twice_is_one() -> None:
    assert parts(read(start(), opens(type="text", text="a"), stops(), start(), ends())) == [Text(text="a")]


def test_an_answer_without_a_start_takes_the_id_we_have() -> None:
    events = read(opens(type="text", text="a"), stops(), ends())
    assert events[0] == Started(id="fallback", model="asked")


def test_a_whole_reply_keeps_the_order_of_its_blocks() -> None:
    search = {"type": "server_tool_use", "id": "srv", "name": "web_search", "input": {"query": "x"}}
    content = [
        {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
        {"type": "text", "text": "one", "citations": [{"type": "char_location"}]},
        {
            "type": "tool_use",
            "id": "tlx_a-2eb",
            "name": "read",
            "input": {"b": 1, "a": 2},
            "caller": {"type": "direct"},
        },
        {"type": "text", "text": "two", "citations": None},
        search,
    ]
    reply = {"id": "msg_1", "type": "message", "model": "claude", "content": content, "stop_reason": "tool_use"}
    events = read_reply(json.dumps({**reply, "usage": {"input_tokens": 3, "output_tokens": 4}}).encode())
    check(events)
    assert parts(events) == [
        Thinking(text="hm", signature="c2ln"),
        Text(text="one", meta={"anthropic": {"citations": '[{"type": "char_location"}]'}}),
        ToolCall(
            id="a.b", name="read", arguments='{"b": 1, "a": 2}', meta={"anthropic": {"caller": '{"type": "direct"}'}}
        ),
        Text(text="two"),
        Foreign(protocol="anthropic", kind="server_tool_use", json=json.dumps(search)),
    ]
    assert events[1] == Usage(input=3, output=4)
    assert events[-1] == Finished(reason=StopReason.TOOL_USE)


def test_a_whole_reply_that_is_an_error_is_a_failure() -> None:
    (failed,) = read_reply(b'{"type":"error","error":{"type":"not_found_error","message":"no such model"}}')
    assert failed == Failed(kind="not_found", message="no such model", status=404, code="not_found_error")


@pytest.mark.parametrize(
    ("status", "body", "headers", "expected"),
    [
        (
            529,
            b'{"type":"error","error":{"type":"overloaded_error","message":"busy"}}',
            [("Retry-After", "3")],
            Failed(kind="overloaded", message="busy", status=529, code="overloaded_error", retry_after=3.0),
        ),
        (
            429,
            b'{"error":"slow down"}',
            [("retry-after", "9"), ("retry-after-ms", "250")],
            Failed(kind="rate_limited", message="slow down", status=429, retry_after=0.25),
        ),
        (
            400,
            b'{"error":{"type":"invalid_request_error","message":"x","details":{"error_code":"thread_not_found"}}}',
            [("retry-after", "Wed, 21 Oct 2026 07:28:00 GMT")],
            Failed(kind="bad_request", message="x", status=400, code="thread_not_found"),
        ),
        (
            502,
            b"<html><head><style>p{}</style><title>Bad Gateway</title></head><body>nginx</body></html>",
            [],
            Failed(kind="upstream", message="Bad Gateway", status=502),
        ),
        (503, b"", [], Failed(kind="overloaded", message="the upstream answered with status 503", status=503)),
    ],
)
def test_an_error_response_is_told_in_neutral_words(
    status: int, body: bytes, headers: list[tuple[str, str]], expected: Failed
) -> None:
    assert read_error(status, body, headers) == expected


# ── Writing ──────────────────────────────────────────────────────────────────────────────────────


def test_the_first_event_tells_the_usage_known_so_far() -> None:
    usage = Usage(input=10, output=1, cache_read=4, cache_write=2, reasoning=1)
    first, *_, last, _ = written(STARTED, usage, *leg()[1:])
    counts = {"input_tokens": 10, "cache_creation_input_tokens": 2, "cache_read_input_tokens": 4, "output_tokens": 1}
    details = {"output_tokens_details": {"thinking_tokens": 1}}
    assert first["message"]["usage"] == last["usage"] == {**counts, **details}
    assert first["message"]["stop_reason"] is None


def test_the_last_event_always_tells_all_four_counts() -> None:
    *_, last, _ = written(*leg())
    assert last["usage"] == {
        "input_tokens": 0,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "output_tokens": 0,
    }


def test_every_block_has_the_next_number_and_what_cannot_be_said_has_none() -> None:
    foreign = Foreign(protocol="other", kind="hologram", json="{}")
    thought = Thinking(text="hm", signature="c2ln")
    said = written(
        *leg(
            (Thinking(), ["hm"], thought),
            (foreign, [], foreign),
            (Image(), [], Image(url="https://example.org/a.png")),
            (Text(), ["a"], Text(text="a")),
            (Thinking(redacted=True, signature="x"), [], Thinking(redacted=True, signature="x")),
        )
    )
    starts = [value for value in said if value["type"] == "content_block_start"]
    assert [(value["index"], value["content_block"]) for value in starts] == [
        (0, {"type": "thinking", "thinking": "", "signature": ""}),
        (1, {"type": "text", "text": ""}),
        (2, {"type": "redacted_thinking", "data": "x"}),
    ]
    assert [value["index"] for value in said if value["type"] == "content_block_stop"] == [0, 1, 2]


def test_a_signature_comes_just_before_the_end_of_its_block() -> None:
    said = written(*leg((Thinking(), ["hm"], Thinking(text="hm", signature="c2ln"))))
    assert [value["delta"] for value in said if value["type"] == "content_block_delta"] == [
        {"type": "thinking_delta", "thinking": "hm"},
        {"type": "signature_delta", "signature": "c2ln"},
    ]


def deltas(said: list[dict[str, Any]]) -> list[str]:
    starts = [value["content_block"] for value in said if value["type"] == "content_block_start"]
    assert [block["input"] for block in starts] == [{}], "clients read the input from deltas only"
    return [value["delta"]["partial_json"] for value in said if value["type"] == "content_block_delta"]


@pytest.mark.parametrize(
    ("texts", "incremental", "buffered"),
    [
        (["{", '"a"', ":1}"], ["{", '"a"', ":1}"], ['{"a":1}']),
        ([" ", '\n{"a"', ":1}"], [' \n{"a"', ":1}"], [' \n{"a":1}']),
        ([], ["{}"], ["{}"]),
        (["nu", "ll"], ["{}"], ["{}"]),
        (["[1,", "2]"], ['{"value":[1,2]}'], ['{"value":[1,2]}']),
        (['{"a":"cut'], ['{"a":"cut'], ['{"a":"cut']),
    ],
)
def test_arguments_are_an_object_and_otherwise_as_they_came(
    texts: list[str], incremental: list[str], buffered: list[str]
) -> None:
    assert deltas(written(*calls(*texts))) == incremental
    assert deltas(written(*calls(*texts), arguments="buffered")) == buffered


def test_a_freeform_call_is_an_object_with_one_field() -> None:
    (text,) = deltas(written(*calls("*** Be", 'gin "\n', freeform=True)))
    assert json.loads(text) == {"input": '*** Begin "\n'}


def test_an_id_is_spelled_as_the_sdks_allow() -> None:
    odd = ToolCall(id="functions.read:0", name="read")
    said = written(*leg((odd, [], odd)))
    (block,) = [value["content_block"] for value in said if value["type"] == "content_block_start"]
    assert block["id"] == "tlx_functions-2eread-3a0"


def test_a_failure_closes_the_open_block_first() -> None:
    failed = Failed(kind="overloaded", message="busy", status=529)
    opened = PartStart(index=0, part=Text())
    said = written(STARTED, opened, PartDelta(index=0, text="half"), failed)
    assert [value["type"] for value in said[-2:]] == ["content_block_stop", "error"]
    assert said[-1]["error"] == {"type": "overloaded_error", "message": "busy"}
    assert [value["type"] for value in written(failed)] == ["error"]


def test_notes_say_nothing_to_a_client() -> None:
    assert written(STARTED, Note(kind="repair", message="x"), END) == written(STARTED, END)


@pytest.mark.parametrize(
    ("finished", "fields"),
    [
        (
            Finished(reason=StopReason.STOP_SEQUENCE, sequence="END"),
            {"stop_reason": "stop_sequence", "stop_sequence": "END"},
        ),
        (
            Finished(reason=StopReason.REFUSAL, detail="No."),
            {
                "stop_reason": "refusal",
                "stop_sequence": None,
                "stop_details": {"type": "refusal", "category": None, "explanation": "No."},
            },
        ),
        (
            Finished(reason=StopReason.CONTEXT_FULL),
            {"stop_reason": "model_context_window_exceeded", "stop_sequence": None},
        ),
        (Finished(reason=StopReason.CANCELLED), {"stop_reason": "end_turn", "stop_sequence": None}),
    ],
)
def test_an_ending_is_told_alike_in_a_stream_and_in_a_whole_reply(finished: Finished, fields: Any) -> None:
    *_, last, _ = written(*leg(finished=finished))
    assert last["delta"] == fields
    body = json.loads(render(fold(leg(finished=finished))))
    SdkMessage.model_validate(body)
    assert fields.items() <= body.items()


def test_a_whole_reply_has_all_its_parts_in_order() -> None:
    search = '{"type":"server_tool_use","id":"srv","name":"web_search","input":{}}'
    reply = Reply(
        id="msg_1",
        model="claude",
        parts=(
            Thinking(text="unsigned"),
            Text(text="a"),
            Foreign(protocol="anthropic", kind="server_tool_use", json=search),
            Foreign(protocol="other", kind="hologram", json="{}"),
            ToolCall(id="a.b", name="read", arguments='{"x": 1}'),
            ToolCall(id="c", name="patch", arguments="raw", freeform=True),
        ),
        usage=Usage(input=1, output=2),
        finished=Finished(reason=StopReason.TOOL_USE),
    )
    body = json.loads(render(reply))
    SdkMessage.model_validate(body)
    assert body["content"] == [
        {"type": "thinking", "thinking": "unsigned", "signature": ""},
        {"type": "text", "text": "a"},
        json.loads(search),
        {"type": "tool_use", "id": "tlx_a-2eb", "name": "read", "input": {"x": 1}},
        {"type": "tool_use", "id": "c", "name": "patch", "input": {"input": "raw"}},
    ]
    assert written(*unfold(reply))


def test_an_error_names_the_field_once() -> None:
    told = json.loads(render_error(BadRequest("`messages[0]`: wrong", "messages[0]")))
    assert told == {
        "type": "error",
        "error": {"type": "invalid_request_error", "message": "`messages[0]`: wrong"},
        "request_id": None,
    }
    untold = json.loads(render_error(GatewayError("not_found", "no such model", param="model"), "req_1"))
    assert untold["error"] == {"type": "not_found_error", "message": "`model`: no such model"}
    assert untold["request_id"] == "req_1"


def test_a_ping_is_nothing_to_a_reader() -> None:
    assert read(KEEP_ALIVE, start(), KEEP_ALIVE, ends()) == read(start(), ends())


def test_a_failed_leg_cannot_be_rendered_whole() -> None:
    with pytest.raises(LegFailed):
        render(fold([STARTED, Failed(kind="upstream", message="x")]))


# ── Compaction ───────────────────────────────────────────────────────────────────────────────────

SUMMARY = {"type": "compaction", "content": "The user asked for a plan.", "encrypted_content": "ZW5j"}


def test_a_streamed_summary_is_read_and_written_as_the_api_streams_it() -> None:
    case = Path(__file__).parent.parent / "transcripts" / "anthropic" / "compaction"
    reader, writer = ResponseReader(), ResponseWriter()
    events = [*reader.feed((case / "response.sse").read_bytes()), *reader.close()]
    (part,) = parts(events)
    assert isinstance(part, Foreign)
    assert json.loads(part.json) == SUMMARY
    frames = [json.loads(line[6:]) for line in writer.write_all(events).decode().split("\n") if line[:6] == "data: "]
    assert frames[1]["content_block"] == {"type": "compaction", "content": None}
    assert frames[2]["delta"] == {**SUMMARY, "type": "compaction_delta"}
    assert frames[-2]["delta"]["stop_reason"] == "compaction"
    body = json.loads(render(fold(events)))
    assert (body["content"], body["stop_reason"]) == ([SUMMARY], "compaction")
    assert parts(read_reply(msgspec.json.encode(body))) == [part]
