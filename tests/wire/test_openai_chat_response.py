"""Answers in Chat Completions, as clients are given them; and errors, both ways."""

import json
from typing import Any

import msgspec
import pytest
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from tests.each import each
from tieline.model.assemble import fold, unfold
from tieline.model.content import Foreign, Part, Text, Thinking, ToolCall
from tieline.model.errors import BadRequest, GatewayError, LegFailed
from tieline.model.events import (
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
from tieline.wire.openai_chat import (
    KEEP_ALIVE,
    Options,
    ResponseReader,
    ResponseWriter,
    read_error,
    render,
    render_error,
)

STOP = StopReason.END_TURN
READ = ToolCall(id="call_1", name="read")


def write(*events: Event, **options: Any) -> list[dict[str, Any]]:
    """The chunks of a stream, each checked against the official client's type."""
    writer = ResponseWriter(Options(created=7, **options))
    written = b"".join(map(writer.write, events)).decode()
    chunks = []
    for line in written.removesuffix("\n\n").split("\n\n"):
        assert line.startswith("data: ")
        if line != "data: [DONE]":
            chunks.append(json.loads(line[6:]))
            if "error" not in chunks[-1]:
                ChatCompletionChunk.model_validate(chunks[-1], strict=True)
    return chunks


def leg(*whole: Part, reason: StopReason = STOP, **ending: Any) -> list[Event]:
    return unfold(
        Reply(id="i", model="m", parts=whole, usage=Usage(), finished=Finished(reason=reason, **ending)),
    )


def deltas(*events: Event, **options: Any) -> list[dict[str, Any]]:
    return [c["choices"][0]["delta"] for c in write(*events, **options) if c["choices"]]


# ── Writing ──────────────────────────────────────────────────────────────────────────────────────


def test_034_every_chunk_has_the_same_id_time_and_model() -> None:
    chunks = write(*leg(Text(text="Hi"), READ, reason=StopReason.TOOL_USE))
    assert {(c["id"], c["created"], c["model"], c["object"]) for c in chunks} == {
        ("i", 7, "m", "chat.completion.chunk")
    }


def test_011_the_role_stands_in_the_first_chunk_only() -> None:
    first, *rest = deltas(*leg(Text(text="Hi")))
    assert first == {"role": "assistant", "content": ""}
    assert rest == [{"content": "Hi"}, {}]


def test_004_006_calls_are_counted_by_themselves_and_named_once() -> None:
    made = (READ, ToolCall(id="call_2", name="grep", arguments='{"a":1}'))
    _role, _text, *rest, end = deltas(*leg(Text(text="Hi"), *made, reason=StopReason.TOOL_USE))
    first = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "read", "arguments": ""}}
    second = {"index": 1, "id": "call_2", "type": "function", "function": {"name": "grep", "arguments": ""}}
    assert [delta["tool_calls"] for delta in rest] == [
        [first],
        [{"index": 0, "function": {"arguments": "{}"}}],
        [second],
        [{"index": 1, "function": {"arguments": '{"a":1}'}}],
    ]
    assert end == {}


@pytest.mark.parametrize(("arguments", "pieces"), [("buffered", ['{"a":1}']), ("incremental", ['{"a"', ":1}"])])
def test_001_arguments_come_whole_or_as_they_come(arguments: str, pieces: list[str]) -> None:
    whole = ToolCall(id="call_1", name="read", arguments='{"a":1}')
    got = deltas(
        Started(id="i", model="m"),
        PartStart(index=0, part=READ),
        PartDelta(index=0, text='{"a"'),
        PartDelta(index=0, text=":1}"),
        PartEnd(index=0, part=whole),
        Finished(reason=StopReason.TOOL_USE),
        arguments=arguments,
    )
    assert [delta["tool_calls"][0]["function"]["arguments"] for delta in got[2:-1]] == pieces


@pytest.mark.parametrize("arguments", ["buffered", "incremental"])
def test_003_a_client_never_gets_empty_arguments(arguments: str) -> None:
    got = deltas(*leg(READ, reason=StopReason.TOOL_USE), arguments=arguments)
    assert "".join(d["tool_calls"][0]["function"]["arguments"] for d in got if "tool_calls" in d) == "{}"


def test_111_a_freeform_call_is_a_custom_call() -> None:
    writer = ResponseWriter()
    made = ToolCall(id="a", name="patch", arguments='say "x"', freeform=True)
    written = b"".join(map(writer.write, leg(made, reason=StopReason.TOOL_USE)))
    assert b'{"index":0,"id":"a","type":"custom","custom":{"name":"patch","input":""}}' in written
    assert b'{"index":0,"custom":{"input":"say \\"x\\""}}' in written


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_047_thinking_is_given_in_the_field_a_client_reads(field: str) -> None:
    events = leg(Thinking(text="hm"), Thinking(redacted=True, signature="s"), Text(text="Hi"))
    assert deltas(*events, reasoning=field)[1:3] == [{field: "hm"}, {"content": "Hi"}]
    assert deltas(*events, reasoning="none")[1:2] == [{"content": "Hi"}]
    message = json.loads(render(fold(events), msgspec.convert({"reasoning": field}, Options)))["choices"][0]["message"]
    assert message[field] == "hm"


def test_068_usage_is_given_in_a_chunk_of_its_own_to_those_who_ask() -> None:
    events = [*leg(Text(text="Hi"))[:-2], Usage(input=5, output=3, cache_read=4, cache_write=1, reasoning=2)]
    finish = Finished(reason=STOP)
    *before, last = write(*events, finish)
    assert last["choices"] == []
    assert last["usage"] == {
        "prompt_tokens": 10,
        "completion_tokens": 3,
        "total_tokens": 13,
        "prompt_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 1},
        "completion_tokens_details": {"reasoning_tokens": 2},
    }
    assert all(c["usage"] is None for c in before)
    assert all("usage" not in c and c["choices"] for c in write(*events, finish, usage=False))


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        (StopReason.END_TURN, "stop"),
        (StopReason.STOP_SEQUENCE, "stop"),
        (StopReason.PAUSED, "stop"),
        (StopReason.CANCELLED, "stop"),
        (StopReason.TOOL_USE, "tool_calls"),
        (StopReason.MAX_TOKENS, "length"),
        (StopReason.CONTEXT_FULL, "length"),
        (StopReason.REFUSAL, "content_filter"),
    ],
)
def test_123_every_reason_has_its_word(reason: StopReason, finish: str) -> None:
    events = leg(Text(text="Hi"), reason=reason)
    assert write(*events, usage=False)[-1]["choices"][0]["finish_reason"] == finish
    assert json.loads(render(fold(events)))["choices"][0]["finish_reason"] == finish


def test_123_the_words_of_a_refusal_are_said_once() -> None:
    only_detail = leg(reason=StopReason.REFUSAL, detail="no")
    in_words = leg(Text(text="No.", refusal=True), reason=StopReason.REFUSAL, detail="no")
    assert deltas(*only_detail)[1:] == [{"refusal": "no"}, {}]
    assert deltas(*in_words)[1:] == [{"refusal": "No."}, {}]
    for events, refusal in ((only_detail, "no"), (in_words, "No.")):
        message = json.loads(render(fold(events)))["choices"][0]["message"]
        assert (message["refusal"], message["content"]) == (refusal, "")


def test_073_a_failure_is_the_last_thing_said() -> None:
    writer = ResponseWriter()
    writer.write(Started(id="i", model="m"))
    writer.write(PartStart(index=0, part=Text()))
    written = writer.write(Failed(kind="overloaded", message="busy", status=503, code="c"))
    assert json.loads(written.removeprefix(b"data: ")) == {
        "error": {"message": "busy (status 503, try again)", "type": "overloaded_error", "param": None, "code": "c"}
    }
    assert writer.write(PartDelta(index=0, text="x")) == b""
    assert writer.write(Finished(reason=STOP)) == b""


def test_what_has_no_place_here_is_left_out() -> None:
    events = leg(Foreign(protocol="other", kind="search", json="{}"), Text(text="Hi"))
    assert deltas(*events)[1:] == [{"content": "Hi"}, {}]
    assert ResponseWriter().write(Note(kind="x", message="y")) == b""


def test_066_the_keep_alive_is_a_comment_and_no_event() -> None:
    assert KEEP_ALIVE.startswith(b":")
    assert KEEP_ALIVE.count(b"\n") == 1
    stream = b'data: {"id":"i","choices":[{"delta":{"content":"Hi"},"finish_reason":"stop"}]}\n\n'
    plain, kept_alive = ResponseReader(), ResponseReader()
    kept_alive.feed(KEEP_ALIVE)
    assert kept_alive.feed(KEEP_ALIVE + stream) == plain.feed(stream)


# ── Whole replies and errors ─────────────────────────────────────────────────────────────────────


def test_a_whole_reply_has_every_key_of_the_spec() -> None:
    body = render(fold(leg(Text(text="Hi"), READ, reason=StopReason.TOOL_USE)), Options(created=7))
    ChatCompletion.model_validate_json(body, strict=True)
    value = json.loads(body)
    assert (value["id"], value["created"], value["model"]) == ("i", 7, "m")
    assert value["choices"][0]["message"] == {
        "role": "assistant",
        "content": "Hi",
        "refusal": None,
        "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "read", "arguments": "{}"}}],
    }


@pytest.mark.parametrize(("whole", "content"), [((READ,), None), ((), ""), ((Thinking(text="hm"),), "")])
def test_096_content_is_null_only_beside_calls(whole: tuple[Part, ...], content: str | None) -> None:
    body = json.loads(render(fold(leg(*whole))))
    assert body["choices"][0]["message"]["content"] == content


@each(
    ("failed", "code"),
    [
        (Failed(kind="bad_request", message="prompt is too long: 9 tokens > 8 maximum"), "context_length_exceeded"),
        (
            Failed(
                kind="bad_request",
                message="input length and `max_tokens` exceed context limit: 9 + 2 > 10",
                code="invalid_request_error",
            ),
            "context_length_exceeded",
        ),
        (Failed(kind="bad_request", message="`input[0]`: expected at most the limit", param="input[0]"), None),
        (Failed(kind="rate_limited", message="the limit of input tokens per minute: the limit is reached"), None),
    ],
)
def test_clients_recognise_that_a_conversation_is_too_long(failed: Failed, code: str | None) -> None:
    # Codex and others compact their conversation only if they know this code.
    assert json.loads(render_error(LegFailed(failed)))["error"]["code"] == code


def test_072_an_error_has_its_four_keys() -> None:
    body = json.loads(render_error(BadRequest("`messages[0].role`: expected a role", "messages[0].role")))
    assert body == {
        "error": {
            "message": "`messages[0].role`: expected a role",
            "type": "invalid_request_error",
            "param": "messages[0].role",
            "code": None,
        }
    }
    missing = GatewayError("not_found", "no such model", code="model_not_found")
    assert json.loads(render_error(missing, "req_1")) == {
        "error": {"message": "no such model", "type": "not_found_error", "param": None, "code": "model_not_found"},
        "request_id": "req_1",
    }


@each(
    ("status", "body", "kind", "message"),
    [
        (400, b'{"error":{"message":"bad","type":"invalid_request_error"}}', "bad_request", "bad"),
        (
            401,
            b'{"error":{"message":"Incorrect API key: sk-abcdef123456"}}',
            "unauthorized",
            "Incorrect API key: sk-***",
        ),
        (404, b'{"error":"no such model"}', "not_found", "no such model"),
        (422, b'{"detail":[{"msg":"field required"}]}', "bad_request", "field required"),
        (429, b'{"error":{"message":"pay","code":"insufficient_quota"}}', "billing", "pay"),
        (429, b"", "rate_limited", "the upstream answered with status 429"),
        (500, b'[{"error":{"message":"oops","status":"INTERNAL"}}]', "upstream", "oops"),
        (502, b"<html><head><title>502 Bad Gateway</title></head><h1>x</h1></html>", "upstream", "502 Bad Gateway"),
        (503, b"<p>try <b>later</b></p><script>x()</script>", "overloaded", "try later"),
        (529, b"{}", "overloaded", "the upstream answered with status 529"),
    ],
)
def test_an_http_error_is_told_in_neutral_words(status: int, body: bytes, kind: str, message: str) -> None:
    failed = read_error(status, body)
    assert (failed.kind, failed.status, failed.message) == (kind, status, message)


def test_078_waiting_times_and_limits_of_an_upstream_are_kept() -> None:
    headers = [("Retry-After", "3"), ("X-RateLimit-Reset-Tokens", "1s"), ("x-request-id", "r"), ("Set-Cookie", "c")]
    failed = read_error(429, b"", headers)
    assert failed.retry_after == 3.0
    assert dict(failed.headers) == {"retry-after": "3", "x-ratelimit-reset-tokens": "1s", "x-request-id": "r"}
    assert read_error(429, b"", [*headers, ("retry-after-ms", "250")]).retry_after == 0.25
    date = [("retry-after", "Wed, 21 Oct 2026 07:28:00 GMT")]
    assert read_error(503, b"", date).retry_after is None
    assert read_error(503, b"", [*date, ("date", "Wed, 21 Oct 2026 07:27:30 GMT")]).retry_after == 30.0
