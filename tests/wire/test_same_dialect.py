"""Same dialect, same bytes: what one side sent reaches the other unchanged, unless it needed a repair."""

import json
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.codecs import joined
from tieline.model.assemble import fold
from tieline.model.content import Message, Text, Thinking, ToolCall
from tieline.model.events import Batch, Event, Finished, PartEnd, SourcedBatch, Usage, source_of
from tieline.model.request import Request, ToolSpec
from tieline.wire import anthropic, openai_chat, openai_responses

TRANSCRIPTS = Path(__file__).parent.parent / "transcripts"
CODECS: dict[str, Any] = {
    "anthropic": anthropic,
    "openai_chat": openai_chat,
    "openai_responses": openai_responses,
}
EACH_DIALECT = pytest.mark.parametrize("dialect", list(CODECS))
ASKED = "up/asked-model"
ENDS = {
    "anthropic": ('{"type":"message_stop"}\n\n',),
    "openai_chat": ("data: [DONE]\n\n", "data:[DONE]\n\n"),
    "openai_responses": ('"user":null,"metadata":{}}}\n\n',),
}
MESSAGES = {"anthropic": "messages", "openai_chat": "messages", "openai_responses": "input"}
"""The member of a request with the history."""

TOLERATED = {
    "anthropic": {
        "crlf_and_multi_line_data",
        "error_event_mid_stream",
        "input_only_in_block_start",
        "interleaved_blocks",
        "message_started_twice",
        "odd_call_ids",
        "split_emoji",
        "start_input_then_deltas",
        "stop_reason_missing",
        "stream_cut",
        "thinking_and_signature_in_one_delta",
    },
    "openai_chat": {
        "arguments_as_object",
        "arguments_before_name",
        "custom_tool_call",
        "done_without_finish_reason",
        "empty_custom",
        "emoji_cut_in_two",
        "encrypted_reasoning",
        "error_in_chunk",
        "error_outside_of_framing",
        "interleaved_calls",
        "legacy_function_call",
        "missing_ids",
        "missing_indices",
        "no_argument_call",
        "odd_side_values",
        "one_index_for_all_calls",
        "reasoning",
        "repeated_names",
        "split_choices",
        "stream_cut_off",
        "thought_signature",
        "unknown_finish_reason",
    },
    "openai_responses": {
        "arguments_only_when_done",
        "cut_inside_arguments",
        "error_event",
        "failed_inside_text",
        "failed_rate_limit",
        "ids_change_with_every_event",
        "no_sequence_numbers",
        "one_index_for_all_items",
        "output_empty_when_completed",
        "output_only_when_completed",
        "stream_cut",
    },
}
"""Recorded streams in which something had to be repaired, inferred or reordered."""


def recorded(dialect: str) -> Iterator[tuple[str, bytes]]:
    for path in sorted((TRANSCRIPTS / dialect).glob("*/response.sse")):
        yield path.parent.name, path.read_bytes()


def batches_of(dialect: str, reads: Sequence[bytes], *, keep_source: bool = True) -> list[Batch]:
    """The batches of a leg, as the core passes them on: with the model under the name the client asked for."""
    reader = CODECS[dialect].ResponseReader(fallback_id="fallback", model="up", keep_source=keep_source)
    batches = [batch for batch in [*map(reader.feed, reads), reader.close()] if batch]
    if batches and hasattr(batches[0][0], "model"):
        batches[0][0] = replace(batches[0][0], model=ASKED)
    return batches


def writer_of(dialect: str, **options: Any) -> Any:
    codec = CODECS[dialect]
    if dialect == "openai_responses":
        options["encrypted"] = True
    return codec.ResponseWriter(codec.Options(**{"arguments": "incremental", **options}))


def written(dialect: str, batches: Sequence[Batch], **options: Any) -> bytes:
    return b"".join(map(writer_of(dialect, **options).write_all, batches))


def meaning(dialect: str, data: bytes) -> list[Event]:
    events = joined(event for batch in batches_of(dialect, [data], keep_source=False) for event in batch)
    return [_undivided(event) for event in events if event != Usage()]


def _undivided(event: Event) -> Event:
    """Thinking is written in one piece, however the upstream divides it."""
    is_thinking = isinstance(event, PartEnd) and isinstance(event.part, Thinking)
    return replace(event, part=replace(event.part, meta={})) if is_thinking else event  # type: ignore[union-attr] # mypy does not narrow by a variable


def blocks(data: bytes) -> list[bytes]:
    return [block + b"\n\n" for block in data.replace(b"\r\n", b"\n").split(b"\n\n") if block.strip()]


@EACH_DIALECT
def test_a_recorded_stream_reaches_the_client_byte_for_byte(dialect: str) -> None:
    copied: set[str] = set()
    names: set[str] = set()
    for name, data in recorded(dialect):
        names.add(name)
        sent = "".join(block.decode() for block in blocks(data))
        models = set(re.findall(r'"model": ?"([^"]+)"', sent))
        for model in models:
            sent = sent.replace(f'"model":"{model}"', f'"model":"{ASKED}"')
        for reads in (blocks(data), [data]):
            batches = batches_of(dialect, reads)
            if all(source_of(batch) is not None for batch in batches):
                got = written(dialect, batches).decode()
                assert sent.startswith(got), name
                assert got.endswith(ENDS[dialect]), name
                copied.add(name)
    assert copied == names - TOLERATED[dialect]


@EACH_DIALECT
@pytest.mark.parametrize("arguments", ["incremental", "buffered"])
def test_a_copied_stream_means_the_same_as_a_translated_one(dialect: str, arguments: str) -> None:
    for name, data in recorded(dialect):
        for reads in (blocks(data), [data]):
            copied = written(dialect, batches_of(dialect, reads), arguments=arguments)
            translated = written(dialect, batches_of(dialect, reads, keep_source=False), arguments=arguments)
            if name != "refusal_without_content":  # the translation adds details that the upstream did not send
                assert meaning(dialect, copied) == meaning(dialect, translated), name


@EACH_DIALECT
def test_a_batch_that_was_changed_is_written_from_its_meaning(dialect: str) -> None:
    """From the first change on, whatever it is, the client gets a stream without gaps or repeats."""
    for name, data in recorded(dialect):
        batches = batches_of(dialect, blocks(data))
        expected = meaning(dialect, written(dialect, [list(batch) for batch in batches]))
        for at in range(len(batches)):
            mixed: list[Batch] = [*batches[:at], *(list(batch) for batch in batches[at:])]
            assert meaning(dialect, written(dialect, mixed)) == expected, (name, at)


def test_a_client_that_did_not_ask_for_usage_gets_none() -> None:
    data = (TRANSCRIPTS / "openai_chat" / "usage_after_finish" / "response.sse").read_bytes()
    got = written("openai_chat", batches_of("openai_chat", blocks(data)), usage=False)
    chunks = [json.loads(line[6:]) for line in got.decode().splitlines() if line.startswith("data: {")]
    assert not any(chunk.get("usage") for chunk in chunks)
    assert got.endswith(b"data: [DONE]\n\n")


# ── Whole answers ────────────────────────────────────────────────────────────────────────────────

WHOLE: dict[str, dict[str, Any]] = {
    "openai_chat": {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 7,
        "model": "up",
        "system_fingerprint": "fp_1",
        "service_tier": "default",
        "choices": [
            {
                "index": 0,
                "message": {
                    "role": "assistant",
                    "content": None,
                    "annotations": [{"type": "url_citation"}],
                    "tool_calls": [
                        {"id": "c1", "type": "function", "function": {"name": "read", "arguments": '{"a": 1}'}}
                    ],
                },
                "logprobs": {"content": []},
                "finish_reason": "tool_calls",
            }
        ],
        "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 14, "cost": 0.5},
        "x_groq": {"id": "r"},
    },
    "anthropic": {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "up",
        "content": [{"type": "tool_use", "id": "c1", "name": "read", "input": {"a": 1}, "new": True}],
        "stop_reason": "tool_use",
        "stop_sequence": None,
        "usage": {"input_tokens": 3, "output_tokens": 4, "service_tier": "standard", "iterations": [1]},
        "context_management": {"applied_edits": []},
    },
    "openai_responses": {
        "id": "resp_1",
        "object": "response",
        "created_at": 7,
        "model": "up",
        "status": "completed",
        "service_tier": "default",
        "x_groq": {"id": "r"},
        "output": [
            {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "read", "arguments": '{"a": 1}', "new": 1}
        ],
        "usage": {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7, "cost": 0.5},
    },
}


def read_whole(dialect: str) -> SourcedBatch:
    body = json.dumps(WHOLE[dialect], indent=1).encode()
    events = CODECS[dialect].read_reply(body, fallback_id="f", model="up", keep_source=True)
    assert isinstance(events, SourcedBatch)
    events[0] = replace(events[0], model=ASKED)
    return events


@EACH_DIALECT
def test_a_whole_answer_reaches_the_client_with_every_field(dialect: str) -> None:
    events = read_whole(dialect)
    rendered = json.loads(CODECS[dialect].render(fold(events, events.source)))
    assert rendered == {**WHOLE[dialect], "model": ASKED}


@EACH_DIALECT
def test_a_repaired_answer_keeps_the_fields_that_have_no_meaning_here(dialect: str) -> None:
    events = read_whole(dialect)
    source = replace(events.source, is_exact=False)
    repaired = [
        replace(event, part=replace(event.part, name="write"))
        if isinstance(event, PartEnd) and isinstance(event.part, ToolCall)
        else event
        for event in events
    ]
    rendered = json.loads(CODECS[dialect].render(fold(repaired, source)))
    assert '"write"' in json.dumps(rendered)
    assert '"read"' not in json.dumps(rendered)
    expected = WHOLE[dialect]
    for name in ("system_fingerprint", "service_tier", "x_groq", "context_management"):
        assert rendered.get(name) == expected.get(name)
    if dialect == "openai_chat":
        choice = rendered["choices"][0]
        assert choice["logprobs"] == {"content": []}
        assert choice["message"]["annotations"] == [{"type": "url_citation"}]
        assert rendered["usage"]["cost"] == 0.5


@EACH_DIALECT
def test_a_call_that_was_taken_away_does_not_come_back(dialect: str) -> None:
    events = read_whole(dialect)
    source = replace(events.source, is_exact=False)
    without = [event for event in events if not isinstance(event, PartEnd)]
    rendered = json.loads(CODECS[dialect].render(fold(without, source)))
    assert "c1" not in json.dumps(rendered)


# ── Requests ─────────────────────────────────────────────────────────────────────────────────────

FUNCTION = {"name": "read", "description": "d", "parameters": {"type": "object", "properties": {}}, "new": 1}
ASK: dict[str, dict[str, Any]] = {
    "openai_chat": {
        "model": "up/m",
        "vendor_field": {"b": 1, "a": 2},
        "max_tokens": 9,
        "reasoning_effort": "high",
        "thinking": {"type": "enabled"},
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "n", "description": "kept", "schema": {"type": "object"}},
        },
        "tools": [{"type": "function", "function": FUNCTION}],
        "messages": [
            {"role": "system", "content": "Be brief.", "new": 1},
            {"role": "user", "content": [{"type": "text", "text": "Hi", "new": True}]},
            {
                "role": "assistant",
                "content": None,
                "reasoning_details": [{"x": 1}],
                "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "read", "arguments": '{ "a": 1}'}}
                ],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "done", "name": "read"},
        ],
    },
    "anthropic": {
        "model": "up/m",
        "new_field": {"b": 1, "a": 2},
        "max_tokens": 9,
        "system": [{"type": "text", "text": "Be brief.", "new": 1}],
        "tools": [
            {
                "name": "read",
                "input_schema": {"type": "object", "properties": {}},
                "eager_input_streaming": True,
                "new": 1,
            }
        ],
        "messages": [
            {"role": "user", "content": "Hi", "new": 1},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "read", "input": {}, "new": 1}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "done"}]},
        ],
    },
    "openai_responses": {
        "model": "up/m",
        "vendor_field": {"b": 1, "a": 2},
        "max_output_tokens": 90,
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "instructions": "Be brief.",
        "reasoning": {"effort": "high", "summary": "auto", "new": 1},
        "text": {
            "verbosity": "low",
            "format": {"type": "json_schema", "name": "n", "description": "kept", "schema": {"type": "object"}},
        },
        "tools": [{"type": "function", **FUNCTION}],
        "input": [
            {"role": "user", "content": [{"type": "input_text", "text": "Hi", "new": True}]},
            {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA", "new": 1},
            {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "read", "arguments": '{ "a": 1}'},
            {"type": "function_call_output", "call_id": "c1", "output": "done", "new": 1},
        ],
    },
}


def parsed(dialect: str, **changes: Any) -> Request:
    request: Request = CODECS[dialect].parse_request(json.dumps({**ASK[dialect], **changes}).encode())
    return replace(request, model="m")


def sent(dialect: str, request: Request) -> Any:
    return json.loads(CODECS[dialect].build_request(request).body)


@EACH_DIALECT
def test_a_request_reaches_the_upstream_with_every_field(dialect: str) -> None:
    assert sent(dialect, parsed(dialect)) == {**ASK[dialect], "model": "m"}


@EACH_DIALECT
def test_the_text_of_members_and_messages_is_not_changed(dialect: str) -> None:
    body = CODECS[dialect].build_request(parsed(dialect)).body
    messages = [json.dumps(message) for message in ASK[dialect][MESSAGES[dialect]]]
    assert ",".join(messages).encode() in body
    for name, value in ASK[dialect].items():
        assert name in ("model", MESSAGES[dialect]) or json.dumps(value).encode() in body, name


@EACH_DIALECT
def test_a_member_that_is_null_counts_as_absent(dialect: str) -> None:
    others = {
        "anthropic": ["service_tier", "thinking"],
        "openai_chat": ["logprobs", "seed", "stream_options"],
        "openai_responses": ["prompt", "truncation"],
    }
    nulls: dict[str, Any] = dict.fromkeys(["temperature", "stream", "metadata", "tool_choice", *others[dialect]])
    assert sent(dialect, parsed(dialect, **nulls)) == {**ASK[dialect], "model": "m"}


@EACH_DIALECT
def test_a_setting_that_equals_its_default_is_kept(dialect: str) -> None:
    got = sent(dialect, parsed(dialect, temperature=0, top_p=1.0))
    assert (got["temperature"], got.get("top_p", 1.0)) == (0, 1.0)


def test_a_named_system_message_before_the_conversation_stays_one() -> None:
    first, *rest = ASK["openai_chat"]["messages"]
    messages = [{**first, "name": "rules", "tool_calls": None}, *rest]
    got = sent("openai_chat", parsed("openai_chat", messages=messages))
    assert got["messages"] == [{"role": "system", "name": "rules", "content": "Be brief."}, *rest]


@pytest.mark.parametrize("known", [True, False])
def test_a_cache_key_is_sent_to_an_upstream_that_knows_it_and_otherwise_told(known: bool) -> None:
    built = openai_chat.build_request(parsed("openai_chat", prompt_cache_key="k"), openai_chat.Dialect(cache_key=known))
    assert json.loads(built.body).get("prompt_cache_key") == ("k" if known else None)
    assert [note.what for note in built.notes] == ([] if known else ["prompt_cache_key"])


def test_system_messages_before_the_conversation_join_the_system_prompt() -> None:
    messages = [{"role": "system", "content": "And polite."}, *ASK["anthropic"]["messages"]]
    got = sent("anthropic", parsed("anthropic", messages=messages))
    assert [block["text"] for block in got["system"]] == ["Be brief.", "And polite."]
    assert got["messages"] == ASK["anthropic"]["messages"]


@EACH_DIALECT
@pytest.mark.parametrize("field", ["service_tier", "unknown_field"])
def test_only_the_source_keeps_the_body_in_memory(dialect: str, field: str) -> None:
    names = ("model", "max_tokens", MESSAGES[dialect])
    asked = {name: value for name, value in ASK[dialect].items() if name in names}
    body = json.dumps({**asked, field: "auto"}).encode()
    before = sys.getrefcount(body)
    request = CODECS[dialect].parse_request(body)
    assert sys.getrefcount(body) > before
    request = replace(request, source=None)
    assert sys.getrefcount(body) == before
    assert field in request.extra


@pytest.mark.parametrize(
    "block",
    [
        {"type": "thinking", "thinking": "hm", "signature": "openai:rs_1:gAAA"},
        {"type": "redacted_thinking", "data": "openai:rs_1:gAAA"},
    ],
)
def test_thinking_signed_by_another_provider_is_not_sent(block: Any) -> None:
    first, answer, *rest = ASK["anthropic"]["messages"]
    messages = [first, {**answer, "content": [block, *answer["content"]]}, *rest]
    got = sent("anthropic", parsed("anthropic", messages=messages))
    assert [part["type"] for part in got["messages"][1]["content"]] == ["tool_use"]


@EACH_DIALECT
def test_only_a_changed_message_is_built_anew(dialect: str) -> None:
    request = parsed(dialect)
    changed = Message(role="user", parts=(Text(text="Hello"),))
    at = next(at for at, message in enumerate(request.messages) if message.role == "user")
    messages = (*request.messages[:at], changed, *request.messages[at + 1 :])
    got, asked, name = sent(dialect, replace(request, messages=messages)), ASK[dialect], MESSAGES[dialect]
    assert "Hello" in json.dumps(got[name])
    assert "Hi" not in json.dumps(got[name])
    kept = [message for message in asked[name] if "Hi" not in json.dumps(message)]
    assert [message for message in got[name] if "Hello" not in json.dumps(message)] == kept
    assert got.get("vendor_field") == asked.get("vendor_field")


@EACH_DIALECT
def test_added_tools_stand_beside_the_clients_own(dialect: str) -> None:
    request = parsed(dialect)
    got = sent(dialect, replace(request, tools=(*request.tools, ToolSpec(name="write"))))
    assert "write" in json.dumps(got["tools"])
    assert got[MESSAGES[dialect]] == ASK[dialect][MESSAGES[dialect]]


@EACH_DIALECT
def test_a_request_in_another_dialect_is_translated(dialect: str) -> None:
    for other in set(CODECS) - {dialect}:
        body = json.loads(CODECS[other].build_request(parsed(dialect)).body)
        assert "new_field" not in body
        assert "vendor_field" not in body


@EACH_DIALECT
def test_usage_is_always_asked_for(dialect: str) -> None:
    got = sent(dialect, parsed(dialect, stream=True))
    assert got["stream"] is True
    if dialect == "openai_chat":
        assert got["stream_options"] == {"include_usage": True}


def test_an_ending_is_the_last_event() -> None:
    """Guards the tests above: a stream that is not read to its end would compare nothing."""
    for dialect in CODECS:
        data = (TRANSCRIPTS / dialect / "plain_text" / "response.sse").read_bytes()
        assert isinstance(meaning(dialect, data)[-1], Finished)
