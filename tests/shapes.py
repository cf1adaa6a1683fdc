"""The shape of what we send to clients: the types of the official clients, and the order no type can express."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from anthropic.types.beta import BetaMessage, BetaRawMessageStreamEvent
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

_ANTHROPIC_EVENT: TypeAdapter[Any] = TypeAdapter(BetaRawMessageStreamEvent)
_RESPONSES_EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)


def check_stream(protocol: str, stream: bytes, *, typed: bool = True) -> None:
    """Assert that this is a whole stream as the official client of the protocol expects it.

    A stream that passes on what only its upstream understands has the order, but not the types.
    """
    events = list(_events(stream))
    if protocol == "openai_chat":
        _check_chat(events, typed)
    elif protocol == "openai_responses":
        _check_responses(events, typed)
    else:
        _check_messages(events, typed)


def _events(stream: bytes) -> Iterator[tuple[str, str]]:
    """Names and data, read as strictly as no client does: one line of each, then a blank one."""
    *events, rest = stream.decode().split("\n\n")
    assert rest == "", "an event is not complete"
    for event in events:
        name, _, data = f"\n{event}".rpartition("\ndata: ")
        assert data, f"an event without data: {event}"
        assert "\n" not in data, f"more than one line of data: {event}"
        assert not name or name.startswith("\nevent: "), f"something else in an event: {event}"
        yield name.removeprefix("\nevent: "), data


def check_reply(protocol: str, body: bytes) -> None:
    """Assert that this is a whole reply as the official client of the protocol expects it."""
    value = json.loads(body)
    if protocol == "openai_chat":
        ChatCompletion.model_validate(value)
        (choice,) = value["choices"]
        assert choice["message"].get("tool_calls") != [], "an empty array of calls"
        assert choice["finish_reason"]
    elif protocol == "openai_responses":
        Response.model_validate(value)
        assert value["status"] in ("completed", "incomplete")
        assert value["usage"]["total_tokens"] >= 0
    else:
        BetaMessage.model_validate(value)
        assert value["stop_reason"]
        assert all(isinstance(block["input"], dict) for block in value["content"] if block["type"] == "tool_use")


# ── Chat Completions ─────────────────────────────────────────────────────────────────────────────


def _check_chat(events: Sequence[tuple[str, str]], typed: bool) -> None:
    assert all(name == "" for name, _ in events), "chunks have no names"
    *before, last = (data for _, data in events)
    if last != "[DONE]":
        error = json.loads(last)["error"]
        assert set(error) >= {"message", "type", "param", "code"}
    chunks = [json.loads(data) for data in before]
    assert all("error" not in chunk for chunk in chunks), "an error that is not the end"
    for chunk in chunks if typed else ():
        ChatCompletionChunk.model_validate(_without_custom_calls(chunk))
    assert len({(chunk["id"], chunk["created"], chunk["model"]) for chunk in chunks}) <= 1
    _check_choices(chunks, finished=last == "[DONE]")


def _check_choices(chunks: Sequence[Any], *, finished: bool) -> None:
    choices = [choice for chunk in chunks for choice in chunk["choices"]]
    assert all(len(chunk["choices"]) <= 1 for chunk in chunks)
    assert {choice["index"] for choice in choices} <= {0}
    assert [choice["delta"].get("role") for choice in choices if "role" in choice["delta"]] in ([], ["assistant"])
    if choices:
        assert choices[0]["delta"].get("role") == "assistant", "the role comes first"
    reasons = [choice["finish_reason"] for choice in choices if choice["finish_reason"] is not None]
    assert len(reasons) == finished
    if finished:
        assert choices[-1]["finish_reason"] is not None, "something after the finish"
    _check_calls([call for choice in choices for call in choice["delta"].get("tool_calls", ())])


def _check_calls(deltas: Sequence[Any]) -> None:
    seen = -1
    for delta in deltas:
        body = delta.get("function") or delta.get("custom")
        if delta["index"] == seen:
            assert set(delta) <= {"index", "function", "custom"}, "id and type are said once"
            assert "name" not in body, "the name is said once"
        else:
            assert delta["index"] == seen + 1, "indices count the calls"
            assert delta["id"]
            assert delta["type"]
            assert body["name"]
            seen = delta["index"]


def _without_custom_calls(chunk: dict[str, Any]) -> dict[str, Any]:
    """The official client has no type for custom calls in a chunk, though its API streams them."""
    choices = []
    for choice in chunk["choices"]:
        calls = choice["delta"].get("tool_calls")
        assert calls != [], "an empty array of calls"
        functions = [call for call in calls or () if "custom" not in call]
        choices.append({**choice, "delta": {**choice["delta"], "tool_calls": functions or None}})
    return {**chunk, "choices": choices}


# ── Messages ─────────────────────────────────────────────────────────────────────────────────────


def _check_messages(events: Sequence[tuple[str, str]], typed: bool) -> None:
    values = [json.loads(data) for _, data in events]
    for (name, _), value in zip(events, values, strict=True):
        assert value["type"] == name, "the official client drops events without their name"
    values = [value for value in values if value["type"] != "ping"]
    *before, last = values
    known = () if not typed else before if last["type"] == "error" else values
    for value in known:
        _ANTHROPIC_EVENT.validate_python(value)
    kinds = [value["type"] for value in values]
    if last["type"] == "error":
        assert set(last["error"]) >= {"type", "message"}
        assert "message_stop" not in kinds
        assert "message_delta" not in kinds
        assert kinds[0] in ("message_start", "error")
    else:
        assert (kinds[0], kinds[-2:]) == ("message_start", ["message_delta", "message_stop"])
        assert last["type"] == "message_stop"
        assert values[-2]["delta"]["stop_reason"], "a client waits for the reason"
    assert all(kinds.count(kind) <= 1 for kind in ("message_start", "message_delta", "message_stop", "error"))
    blocks = [value for value in values if value["type"].startswith("content_block_")]
    _check_blocks(blocks, is_failed=last["type"] == "error")


def _check_blocks(values: Sequence[Any], *, is_failed: bool) -> None:
    count = 0
    kind: str | None = None
    for value in values:
        assert value["index"] == count, "blocks are numbered without gaps and never overlap"
        match value["type"]:
            case "content_block_start":
                assert kind is None, "a block begins inside another"
                kind = value["content_block"]["type"]
            case "content_block_delta":
                assert (kind, value["delta"]["type"]) in _DELTAS, "a delta that does not fit its block"
            case _:
                assert kind is not None, "an end without a beginning"
                kind = None
                count += 1
    assert kind is None or (is_failed and kind == "tool_use"), "a block is left open"


_DELTAS = {
    ("text", "text_delta"),
    ("text", "citations_delta"),
    ("thinking", "thinking_delta"),
    ("thinking", "signature_delta"),
    ("tool_use", "input_json_delta"),
    ("server_tool_use", "input_json_delta"),
    ("compaction", "compaction_delta"),
}


# ── Responses ────────────────────────────────────────────────────────────────────────────────────

_ENDINGS = ("response.completed", "response.incomplete", "response.failed")


def _check_responses(events: Sequence[tuple[str, str]], typed: bool) -> None:
    values = [json.loads(data) for _, data in events]
    for number, ((name, _), value) in enumerate(zip(events, values, strict=True)):
        assert value["type"] == name, "some clients read the name, others the type"
        assert value["sequence_number"] == number, "events are numbered without gaps"
        if typed:
            _RESPONSES_EVENT.validate_python(_with_known_code(value))
    kinds = [value["type"] for value in values]
    assert kinds[0] == "response.created"
    assert [kind for kind in kinds if kind in _ENDINGS] == kinds[-1:], "exactly one ending, at the end"
    response = values[-1]["response"]
    assert {value["response"]["id"] for value in values if "response" in value} == {response["id"]}
    done = _check_items(values[1:-1])
    cut = [item for item in response["output"] if item not in done]
    assert [item for item in response["output"] if item in done] == done, "the output has all items, in order"
    assert all(item["status"] == "incomplete" for item in cut)
    assert not cut or kinds[-1] == "response.incomplete"


def _check_items(values: Sequence[Any]) -> list[Any]:
    """Assert that items are numbered, follow one another and keep their ids; return the complete ones."""
    done: list[Any] = []
    count = 0
    item_id: str | None = None
    for value in values:
        match value["type"]:
            case "response.output_item.added":
                assert value["output_index"] == count, "items are numbered without gaps"
                item_id, count = value["item"].get("id"), count + 1
            case "response.output_item.done":
                assert value["output_index"] == count - 1, "items never overlap"
                assert value["item"].get("id") == item_id, "an item keeps its id"
                done.append(value["item"])
            case "response.in_progress":
                pass
            case _:
                assert (value["output_index"], value["item_id"]) == (count - 1, item_id)
    return done


def _with_known_code(value: Any) -> Any:
    """The official client lists only some of the codes that its API sends."""
    if value["type"] != "response.failed":
        return value
    error = {**value["response"]["error"], "code": "server_error"}
    return {**value, "response": {**value["response"], "error": error}}
