"""Answers in the Responses API, as clients get them; and errors."""

import json
from collections.abc import Iterable
from typing import Any

import pytest
from msgspec import Raw
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from tests.each import each
from tieline.model.assemble import fold, unfold
from tieline.model.content import Foreign, Part, Text, Thinking, ToolCall
from tieline.model.errors import GatewayError
from tieline.model.events import (
    Event,
    Failed,
    Finished,
    PartDelta,
    PartEnd,
    PartStart,
    Reply,
    SourcedBatch,
    Started,
    StopReason,
    Usage,
)
from tieline.wire.openai_responses import (
    KEEP_ALIVE,
    PROTOCOL,
    Options,
    ResponseReader,
    ResponseWriter,
    echo_of,
    parse_request,
    render,
    render_compaction,
    wants_encrypted,
)
from tieline.wire.openai_responses.compaction import seal
from tieline.wire.openai_responses.errors import failed_error
from tieline.wire.openai_responses.names import OfferedTool
from tieline.wire.shared.json import parse_object

EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
STARTED = Started(id="up_1", model="m")
READ = ToolCall(id="call_1", name="read", arguments='{"path":"a"}')
LENGTH = StopReason.MAX_TOKENS


def leg(*whole: Part, reason: StopReason = StopReason.END_TURN, **ending: Any) -> list[Event]:
    usage = Usage(input=9, output=4, cache_read=2, reasoning=1)
    return unfold(Reply(id="up_1", model="m", parts=whole, usage=usage, finished=Finished(reason=reason, **ending)))


def options(**fields: Any) -> Options:
    return Options(created=7, response_id="resp_1", model="m", **fields)


def events_in(written: bytes) -> list[dict[str, Any]]:
    """The events of a stream: named, numbered without gaps, and of the types of the official client."""
    events = []
    for number, block in enumerate(written.decode().removesuffix("\n\n").split("\n\n")):
        name, data = block.split("\n")
        event = json.loads(data.removeprefix("data: "))
        assert name == f"event: {event['type']}"
        assert event["sequence_number"] == number
        if event["type"] != "response.failed":
            EVENT.validate_python(event)
        events.append(event)
    return events


def write(events: Iterable[Event], **fields: Any) -> list[dict[str, Any]]:
    writer = ResponseWriter(options(**fields))
    return events_in(b"".join(map(writer.write, events)))


def kinds(events: Iterable[dict[str, Any]]) -> list[str]:
    return [event["type"].removeprefix("response.") for event in events]


def done_items(events: Iterable[dict[str, Any]]) -> list[Any]:
    return [event["item"] for event in events if event["type"] == "response.output_item.done"]


def only(events: Iterable[dict[str, Any]], kind: str) -> dict[str, Any]:
    (found,) = [event for event in events if event["type"] == f"response.{kind}"]
    return found


# ── Streams ──────────────────────────────────────────────────────────────────────────────────────


def test_text_and_a_call_in_a_namespace() -> None:
    call = ToolCall(id="call_1", name="agents__spawn", arguments='{"t":1}')
    tools = {"agents__spawn": OfferedTool("spawn", "agents")}
    events = write(leg(Text(text="ok"), call, reason=StopReason.TOOL_USE), tools=tools)
    assert kinds(events) == [
        *("created", "in_progress"),
        *("output_item.added", "content_part.added", "output_text.delta", "output_text.done", "content_part.done"),
        "output_item.done",
        *("output_item.added", "function_call_arguments.delta", "function_call_arguments.done", "output_item.done"),
        "completed",
    ]
    message = {
        "id": "msg_1_0",
        "type": "message",
        "status": "completed",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "ok", "annotations": [], "logprobs": []}],
    }
    spawn = {"id": "fc_1_1", "type": "function_call", "status": "completed", "call_id": "call_1"}
    spawn |= {"name": "spawn", "namespace": "agents", "arguments": '{"t":1}'}
    assert [event["output_index"] for event in events[2:-1]] == [0] * 6 + [1] * 4
    assert {event["item_id"] for event in events if "item_id" in event} == {"msg_1_0", "fc_1_1"}
    assert (events[8]["item"]["arguments"], events[8]["item"]["status"]) == ("", "in_progress")
    assert (events[10]["name"], events[10]["arguments"]) == ("spawn", '{"t":1}')
    assert done_items(events) == events[-1]["response"]["output"] == [message, spawn]


def test_127_usage_is_null_at_first_and_complete_at_the_end() -> None:
    events = write(leg(Text(text="ok")))
    assert [event["response"]["usage"] for event in events[:2]] == [None, None]
    assert events[-1]["response"]["usage"] == {
        "input_tokens": 11,
        "input_tokens_details": {"cached_tokens": 2, "cache_write_tokens": 0},
        "output_tokens": 4,
        "output_tokens_details": {"reasoning_tokens": 1},
        "total_tokens": 15,
    }


def test_r16_usage_is_zero_if_the_upstream_gave_none() -> None:
    events = write([STARTED, Finished(reason=StopReason.END_TURN)])
    assert events[-1]["response"]["usage"]["total_tokens"] == 0


def test_a_freeform_call() -> None:
    call = ToolCall(id="call_2", name="apply_patch", arguments="*** Begin", freeform=True)
    events = write(leg(call, reason=StopReason.TOOL_USE))
    assert kinds(events)[2:-1] == [
        *("output_item.added", "custom_tool_call_input.delta", "custom_tool_call_input.done", "output_item.done")
    ]
    item = {"id": "ctc_1_0", "type": "custom_tool_call", "status": "completed", "call_id": "call_2"}
    assert done_items(events) == [{**item, "name": "apply_patch", "input": "*** Begin"}]


def test_thinking_carries_its_signature_if_the_client_asks_for_it() -> None:
    thinking = Thinking(text="hm", signature="c2ln")
    events = write(leg(thinking), encrypted=True)
    assert kinds(events)[2:-1] == [
        *("output_item.added", "reasoning_summary_part.added", "reasoning_summary_text.delta"),
        *("reasoning_summary_text.done", "reasoning_summary_part.done", "output_item.done"),
    ]
    assert events[2]["item"] == {"id": "rs_1_0", "type": "reasoning", "summary": []}
    (item,) = done_items(events)
    assert item["summary"] == [{"type": "summary_text", "text": "hm"}]
    body = json.dumps({"input": [item, {"role": "user", "content": "go"}]}).encode()
    (again,) = parse_request(body).messages[0].parts
    assert isinstance(again, Thinking)
    assert (again.text, again.signature) == ("hm", "c2ln")
    assert "encrypted_content" not in done_items(write(leg(thinking)))[0]


def test_051_encrypted_reasoning_of_openai_comes_back_with_its_own_id() -> None:
    (item,) = done_items(write(leg(Thinking(text="hm", signature="openai:rs_9:gAAA")), encrypted=True))
    body = json.dumps({"input": [item, {"role": "user", "content": "go"}]}).encode()
    (again,) = parse_request(body).messages[0].parts
    assert isinstance(again, Thinking)
    assert again.signature == "openai:rs_9:gAAA"


def test_thinking_without_text_has_no_summary() -> None:
    events = write(leg(Thinking(signature="ZGF0YQ==", redacted=True)), encrypted=True)
    assert kinds(events)[2:-1] == ["output_item.added", "output_item.done"]
    assert done_items(events)[0]["summary"] == []


def test_calls_of_tools_that_the_client_runs_have_their_own_items() -> None:
    call = ToolCall(id="call_1", name="shell", arguments='{"commands":["ls"]}')
    tools = {"shell": OfferedTool("shell", None, "shell")}
    events = write(leg(call, reason=StopReason.TOOL_USE), tools=tools)
    assert kinds(events)[2:-1] == ["output_item.added", "output_item.done"]
    (item,) = done_items(events)
    assert (item["type"], item["call_id"], item["status"]) == ("shell_call", "call_1", "completed")
    assert item["action"]["commands"] == ["ls"]


@each(
    ("kind", "arguments", "member", "expected"),
    [
        ("local_shell", '{"command":["ls"]}', "action", {"type": "exec", "command": ["ls"], "env": {}}),
        (
            "local_shell",
            '{"command":"ls -l"}',
            "action",
            {"type": "exec", "command": ["bash", "-lc", "ls -l"], "env": {}},
        ),
        ("shell", '{"commands":"ls"}', "action", {"commands": ["ls"]}),
        ("apply_patch", '{"type":"delete_file","path":"a"}', "operation", {"type": "delete_file", "path": "a"}),
        ("tool_search", '{"query":"mail"}', "arguments", {"query": "mail"}),
    ],
)
def test_items_of_typed_calls(kind: str, arguments: str, member: str, expected: Any) -> None:
    call = ToolCall(id="c", name=kind, arguments=arguments)
    writer = ResponseWriter(options(tools={kind: OfferedTool(kind, None, kind)}))
    for event in leg(call, reason=StopReason.TOOL_USE):
        writer.write(event)
    (item,) = json.loads(writer.response)["output"]
    assert (item["type"], item[member]) == (f"{kind}_call", expected)


def test_buffered_arguments_come_in_one_piece() -> None:
    events: list[Event] = [STARTED, PartStart(index=0, part=ToolCall(id="c", name="read"))]
    events += [PartDelta(0, '{"a"'), PartDelta(0, ":1}"), PartEnd(index=0, part=READ)]
    events += [Finished(reason=StopReason.TOOL_USE)]
    incremental, buffered = write(events), write(events, arguments="buffered")
    assert kinds(incremental).count("function_call_arguments.delta") == 2
    assert only(buffered, "function_call_arguments.delta")["delta"] == '{"path":"a"}'


def test_annotations_and_the_phase_of_a_message() -> None:
    link = {"type": "url_citation", "start_index": 0, "end_index": 2, "url": "https://e.com", "title": "t"}
    meta = {PROTOCOL: {"annotations": json.dumps([link]), "phase": "final_answer"}}
    events = write(leg(Text(text="ok", meta=meta)))
    assert only(events, "output_text.annotation.added")["annotation"] == link
    (item,) = done_items(events)
    assert (item["content"][0]["annotations"], item["phase"]) == ([link], "final_answer")


def test_an_item_that_only_this_protocol_has_is_written_unchanged() -> None:
    search = {
        "type": "web_search_call",
        "id": "ws_1",
        "status": "completed",
        "action": {"type": "search", "query": "q"},
    }
    part = Foreign(protocol=PROTOCOL, kind="web_search_call", json=json.dumps(search))
    other = Foreign(protocol="anthropic", kind="container", json="{}")
    events = write(leg(part, other, Text(text="ok")))
    assert done_items(events)[0] == search
    assert [item["type"] for item in events[-1]["response"]["output"]] == ["web_search_call", "message"]


# ── Endings ──────────────────────────────────────────────────────────────────────────────────────


def test_a_text_that_was_cut_off_is_incomplete() -> None:
    events = write(leg(Text(text="Hel"), reason=LENGTH))
    assert [item["status"] for item in done_items(events)] == ["incomplete"]
    response = events[-1]["response"]
    assert (events[-1]["type"], response["status"]) == ("response.incomplete", "incomplete")
    assert response["incomplete_details"] == {"reason": "max_output_tokens"}
    assert response["completed_at"] is None


def test_024_a_call_that_was_cut_off_never_looks_complete() -> None:
    cut = ToolCall(id="call_2", name="read", arguments='{"pa')
    patch = ToolCall(id="call_3", name="patch", arguments="*** Beg", freeform=True)
    for call in (cut, patch):
        events = write(leg(READ, call, reason=LENGTH))
        assert [item["call_id"] for item in done_items(events)] == ["call_1"]
        output = events[-1]["response"]["output"]
        assert [(item["call_id"], item["status"]) for item in output] == [
            ("call_1", "completed"),
            (call.id, "incomplete"),
        ]


def test_a_call_that_was_cut_off_can_be_left_out() -> None:
    cut = ToolCall(id="call_2", name="read", arguments='{"pa')
    events = write(leg(READ, cut, reason=LENGTH), keep_cut_calls=False)
    assert [item["call_id"] for item in events[-1]["response"]["output"]] == ["call_1"]


def test_a_call_with_invalid_arguments_that_was_not_cut_off_reaches_the_client() -> None:
    events = write(leg(ToolCall(id="c", name="read", arguments="{pa}"), READ, reason=StopReason.TOOL_USE))
    assert [item["arguments"] for item in done_items(events)] == ["{pa}", '{"path":"a"}']


@each(
    ("whole", "detail", "status", "reason", "refusals"),
    [
        ((Text(text="I cannot.", refusal=True),), None, "completed", None, ["I cannot."]),
        ((), "not allowed", "completed", None, ["not allowed"]),
        ((), None, "completed", None, ["The model declined to answer."]),
        ((Thinking(text="hm"),), None, "completed", None, ["The model declined to answer."]),
        ((Text(text="Hel"),), None, "incomplete", "content_filter", []),
    ],
)
def test_refusals(
    whole: tuple[Part, ...], detail: str | None, status: str, reason: str | None, refusals: list[str]
) -> None:
    events = write(leg(*whole, reason=StopReason.REFUSAL, detail=detail))
    response = events[-1]["response"]
    assert response["status"] == status
    assert response["incomplete_details"] == (None if reason is None else {"reason": reason})
    contents = [part for item in response["output"] for part in item.get("content", ())]
    assert [part["refusal"] for part in contents if part["type"] == "refusal"] == refusals
    assert kinds(events).count("refusal.done") == len(refusals)


def test_r17_a_failure_closes_the_text_and_ends_with_response_failed() -> None:
    failed = Failed(kind="overloaded", message="Busy.", status=503)
    events = write([STARTED, PartStart(index=0, part=Text()), PartDelta(0, "Hel"), failed])
    assert kinds(events)[-4:] == ["output_text.done", "content_part.done", "output_item.done", "failed"]
    (item,) = done_items(events)
    assert (item["status"], item["content"][0]["text"]) == ("incomplete", "Hel")
    response = events[-1]["response"]
    assert (response["status"], response["output"]) == ("failed", [item])
    assert response["error"] == {"type": "overloaded_error", "code": "server_is_overloaded", "message": "Busy."}


def test_a_half_call_is_not_closed_by_a_failure() -> None:
    failed = Failed(kind="upstream", message="Gone.")
    events = write([STARTED, PartStart(index=0, part=READ), PartDelta(0, '{"pa'), failed])
    assert kinds(events)[-2:] == ["function_call_arguments.delta", "failed"]
    assert events[-1]["response"]["output"] == []


def test_124_a_failure_at_once_is_a_whole_stream() -> None:
    events = write([Failed(kind="bad_request", message="No.", status=400)])
    assert kinds(events) == ["created", "in_progress", "failed"]
    assert events[-1]["response"]["id"] == "resp_1"


def test_r01_nothing_follows_the_ending() -> None:
    writer = ResponseWriter(options())
    for event in leg(Text(text="ok")):
        writer.write(event)
    for event in leg(Text(text="ok")):
        assert writer.write(event) == b""
    assert writer.keep_alive() == KEEP_ALIVE


@each(
    ("failed", "code", "message"),
    [
        (Failed(kind="rate_limited", message="Slow.", retry_after=1.5), "rate_limit_exceeded", "try again in 1.5s."),
        (Failed(kind="billing", message="Pay."), "insufficient_quota", "Pay."),
        (Failed(kind="bad_request", message="No."), "invalid_prompt", "No."),
        (
            Failed(kind="bad_request", message="prompt is too long: 9 tokens > 8 maximum"),
            "context_length_exceeded",
            "too long",
        ),
        (Failed(kind="bad_request", message="No.", code="cyber_policy"), "cyber_policy", "No."),
        (Failed(kind="upstream", message="Gone.", code="odd"), "server_error", "Gone."),
        (Failed(kind="timeout", message="Late."), "server_error", "Late."),
    ],
)
def test_codes_by_which_clients_decide_on_a_retry(failed: Failed, code: str, message: str) -> None:
    error = failed_error(failed)
    assert error["code"] == code
    assert message in error["message"]


# ── Keep-alives ──────────────────────────────────────────────────────────────────────────────────


def test_a_keep_alive_is_an_event_with_the_next_number() -> None:
    writer = ResponseWriter(options())
    written = writer.keep_alive()
    first, *rest = leg(Text(text="ok"))
    written += writer.write(first) + writer.keep_alive() + b"".join(map(writer.write, rest))
    events = events_in(written)
    assert kinds(events)[:4] == ["created", "in_progress", "in_progress", "output_item.added"]


def test_a_keep_alive_is_a_comment_if_the_response_cannot_begin() -> None:
    assert ResponseWriter(Options()).keep_alive() == KEEP_ALIVE


# ── The response object ──────────────────────────────────────────────────────────────────────────


def test_r09_a_whole_answer_has_the_items_of_the_stream() -> None:
    events = leg(Thinking(text="hm"), Text(text="ok"), READ, reason=StopReason.TOOL_USE)
    streamed = write(events, now=lambda: 9.5)[-1]["response"]
    whole = json.loads(render(fold(events), options(now=lambda: 9.5)))
    Response.model_validate(whole)
    assert whole == streamed
    assert (whole["id"], whole["object"], whole["created_at"], whole["completed_at"]) == ("resp_1", "response", 7, 9)
    assert (whole["status"], whole["error"], whole["model"]) == ("completed", None, "m")


def test_a_response_repeats_the_request() -> None:
    body = {
        "model": "m",
        "input": "Hi",
        "instructions": "Be brief.",
        "tools": [{"type": "function", "name": "read"}, {"type": "custom", "name": "patch"}],
        "reasoning": {"effort": "low"},
        "text": {"format": {"type": "json_schema", "name": "n", "schema": {}}, "verbosity": "low"},
        "conversation": "conv_1",
        "previous_response_id": None,
        "metadata": {"a": "b"},
        "service_tier": "auto",
        "store": False,
        "include": ["reasoning.encrypted_content"],
    }
    fields = parse_object(json.dumps(body).encode())
    assert wants_encrypted(fields)
    assert json.loads(b"{%b}" % echo_of(fields)) == {
        "background": False,
        "conversation": {"id": "conv_1"},
        "frequency_penalty": 0.0,
        "instructions": "Be brief.",
        "max_output_tokens": None,
        "max_tool_calls": None,
        "metadata": {"a": "b"},
        "parallel_tool_calls": True,
        "presence_penalty": 0.0,
        "previous_response_id": None,
        "prompt_cache_key": None,
        "reasoning": {"effort": "low", "summary": None},
        "safety_identifier": None,
        "service_tier": "default",
        "store": False,
        "temperature": 1.0,
        "text": {
            "format": {"type": "json_schema", "name": "n", "schema": {}, "description": None, "strict": False},
            "verbosity": "low",
        },
        "tool_choice": "auto",
        "tools": [
            {"type": "function", "name": "read", "description": None, "parameters": None, "strict": True},
            {"type": "custom", "name": "patch"},
        ],
        "top_logprobs": 0,
        "top_p": 1.0,
        "truncation": "disabled",
        "user": None,
    }
    assert not wants_encrypted({"include": Raw(b"null")})
    events = write(leg(Text(text="ok")), echo=echo_of(fields))
    assert [event["response"]["instructions"] for event in (events[0], events[-1])] == ["Be brief."] * 2


# ── Compaction ───────────────────────────────────────────────────────────────────────────────────


def test_r03_a_summary_is_exactly_one_compaction_item() -> None:
    events = leg(Thinking(text="hm"), Text(text="We fixed"), Text(text=" it."))
    written = write(events, compaction=True)
    assert kinds(written) == ["created", "in_progress", "output_item.added", "output_item.done", "completed"]
    item = {"id": "cmp_1_0", "type": "compaction", "encrypted_content": seal("We fixed it.")}
    assert done_items(written) == written[-1]["response"]["output"] == [item]
    whole = json.loads(render_compaction(fold(events), options(compaction=True)))
    assert whole.keys() == {"id", "object", "created_at", "output", "usage"}
    assert (whole["object"], whole["output"]) == ("response.compaction", [item])


def test_an_empty_summary_is_a_failure() -> None:
    written = write(leg(Thinking(text="hm"), READ), compaction=True)
    assert kinds(written) == ["created", "in_progress", "failed"]
    # An empty list of items would make the client forget its conversation.
    with pytest.raises(GatewayError, match="summary"):
        render_compaction(fold(leg(Thinking(text="hm"))), options(compaction=True))


# ── Frames of an upstream of this protocol ───────────────────────────────────────────────────────


def upstream_batches(*whole: Part, reason: StopReason = StopReason.END_TURN) -> list[list[Event]]:
    """The batches of an upstream's answer, one for each of its frames that has events."""
    writer = ResponseWriter(Options(created=3, response_id="resp_up", encrypted=True))
    reader = ResponseReader(keep_source=True)
    stream = b"".join(map(writer.write, leg(*whole, reason=reason))).replace(b'"id":"msg_', b'"vendor":1,"id":"msg_')
    frames = [frame + b"\n\n" for frame in stream.split(b"\n\n")[:-1]]
    return [batch for frame in frames if (batch := reader.feed(frame))]


def test_frames_are_copied_and_the_final_response_is_known() -> None:
    batches = upstream_batches(Text(text="ok"), READ, reason=StopReason.TOOL_USE)
    writer = ResponseWriter(options())
    written = b"".join(map(writer.write_all, batches))
    assert b'"vendor":1' in written
    events = events_in(written)
    assert json.loads(writer.response) == events[-1]["response"]
    assert events[-1]["response"]["id"] == "resp_up"


def test_an_answer_goes_on_where_the_copied_frames_end() -> None:
    whole = (Thinking(text="hm"), Text(text="Hello"), READ)
    batches = upstream_batches(*whole, reason=StopReason.TOOL_USE)
    for end in range(len(batches) + 1):
        writer = ResponseWriter(options())
        written = b"".join(map(writer.write_all, batches[:end]))
        written += b"".join(writer.write(event) for batch in batches[end:] for event in batch)
        events = events_in(written)
        output = events[-1]["response"]["output"]
        assert [item["type"] for item in output] == ["reasoning", "message", "function_call"]
        assert done_items(events) == output
        assert kinds(events).count("output_item.added") == len(output)
        assert output[1]["content"][0]["text"] == "Hello"
        assert json.loads(writer.response) == events[-1]["response"]


def test_a_failure_after_copied_frames_closes_the_open_text() -> None:
    batches = upstream_batches(Text(text="Hello"))
    writer = ResponseWriter(options())
    started_text = next(at for at, batch in enumerate(batches) if any(type(event) is PartDelta for event in batch))
    written = b"".join(map(writer.write_all, batches[: started_text + 1]))
    events = events_in(written + writer.write(Failed(kind="upstream", message="Gone.")))
    (item,) = done_items(events)
    assert (item["id"], item["status"], item["content"][0]["text"]) == ("msg_up_0", "incomplete", "Hello")
    assert (events[-1]["type"], events[-1]["response"]["id"]) == ("response.failed", "resp_up")


def test_a_changed_batch_is_written_from_its_events() -> None:
    batches = upstream_batches(Text(text="ok"))
    assert all(type(batch) is SourcedBatch for batch in batches)
    writer = ResponseWriter(options())
    written = b"".join(writer.write_all([*batch]) for batch in batches)
    assert b"vendor" not in written
    assert events_in(written)[-1]["response"]["id"] == "resp_1"


def test_calls_are_not_copied_for_a_client_that_gets_arguments_in_one_piece() -> None:
    batches = upstream_batches(Text(text="ok"), READ, reason=StopReason.TOOL_USE)
    writer = ResponseWriter(options(arguments="buffered"))
    events = events_in(b"".join(map(writer.write_all, batches)))
    assert only(events, "function_call_arguments.delta")["delta"] == '{"path":"a"}'
    assert [item["type"] for item in events[-1]["response"]["output"]] == ["message", "function_call"]
