"""Failures seen with particular providers: empty companions, reasoning state, odd side values."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from tests.catalogue.asking import ask, asking, calls, results, tool, user
from tests.catalogue.checks import (
    assert_arguments,
    assert_in_order,
    chat_call,
    chat_reply,
    finish_of,
    message_reply,
    said,
)
from tests.catalogue.crossing import (
    CROSSINGS,
    Crossing,
    Protocol,
    block,
    call_delta,
    chat_stream,
    chunk,
    cross,
    events_of,
    message_stream,
    sse,
    text_block,
)
from tests.catalogue.serving import CLIENTS, STREAMED_OR_WHOLE, Heard, Stand, says, serving
from tests.each import each
from tieline.model.content import STATE
from tieline.model.events import Finished
from tieline.sim.model import Answer
from tieline.wire import openai_chat

everywhere = each("crossing", CROSSINGS, ids=str)

ARGUMENTS = '{"city":"Paris"}'
EMPTY_CUSTOM = {"name": "", "input": ""}


# ── 149: an empty `custom` beside `function` ─────────────────────────────────────────────────────


def test_149_an_empty_custom_beside_a_function_does_not_hide_the_call() -> None:
    call = {"index": 0, **chat_call("call_1", "weather", ""), "custom": EMPTY_CUSTOM}
    more = {"index": 0, "type": "", "function": {"arguments": ARGUMENTS}, "custom": EMPTY_CUSTOM}
    stream = chat_stream({"tool_calls": [call]}, {"tool_calls": [more]}, finish="")
    whole = chat_reply({"tool_calls": [chat_call("call_1", "weather", ARGUMENTS, custom=EMPTY_CUSTOM)]}, finish="")
    for crossing in CROSSINGS:
        for data, is_whole in ((stream, False), (whole, True)):
            seen = cross(data, "openai_chat", crossing, whole=is_whole)
            assert seen.names == ["weather"]
            assert_arguments(seen, crossing, ARGUMENTS)
            assert_in_order(seen, crossing)
            assert seen.finish == finish_of(crossing, "tool_use")


def test_149_an_empty_function_beside_a_custom_call_does_not_hide_it_either() -> None:
    call: dict[str, Any] = {"id": "call_1", "custom": {"name": "patch", "input": "*** Begin"}}
    call["function"] = {"name": "", "arguments": ""}
    seen = cross(chat_reply({"tool_calls": [call]}), "openai_chat", Crossing("openai_chat", False), whole=True)
    assert (seen.names, seen.arguments) == (["patch"], ["*** Begin"])


def test_149_a_history_with_empty_companions_is_read_as_the_call_it_holds() -> None:
    made = [
        chat_call("call_1", "weather", ARGUMENTS, custom=EMPTY_CUSTOM),
        {
            "id": "call_2",
            "type": "custom",
            "custom": {"name": "patch", "input": "x"},
            "function": {"name": "", "arguments": ""},
        },
    ]
    history = [{"role": "assistant", "content": None, "tool_calls": made}]
    given = results("openai_chat", ("call_1", "sunny"), ("call_2", "done"))
    sent = ask(asking("openai_chat", user("go"), history, given), "openai_chat", "openai_chat")
    assert [(name, arguments) for _, name, arguments in sent.calls] == [
        ("weather", json.loads(ARGUMENTS)),
        ("patch", {"input": "x"}),
    ]


# ── 150: provider state ──────────────────────────────────────────────────────────────────────────

SIGNATURE = {"google": {"thought_signature": "c2ln"}}
DETAILS = [{"type": "reasoning.encrypted", "data": "ZW5j", "id": "rs_1", "format": "openai-responses-v1", "index": 0}]


def _stateful(stream: bool) -> Answer:
    """A call with the state of its provider: on the call, and on the message."""
    call = chat_call("call_1", "weather", ARGUMENTS, extra_content=SIGNATURE)
    state = {"reasoning_details": DETAILS, "extra_content": SIGNATURE}
    if not stream:
        body = chat_reply({"tool_calls": [call], **state}, finish="tool_calls")
        return Answer(headers=(("content-type", "application/json"),), chunks=(body,))
    data = chat_stream({"tool_calls": [{"index": 0, **call}]}, state, finish="tool_calls")
    return Answer(headers=(("content-type", "text/event-stream"),), chunks=(data,))


@asynccontextmanager
async def _answered(client: Protocol, *, stream: bool) -> AsyncIterator[tuple[Stand, Heard]]:
    async with serving() as stand:
        stand.script("oai", _stateful(stream), says("oai", "Sunny."))
        stand.script("ant", says("ant", "Sunny."))
        yield stand, await stand.ask(client, "oai", stream=stream, tools=[tool(client, "weather")])


def _told_again(client: Protocol, said: list[dict[str, Any]]) -> dict[str, Any]:
    messages = [*user("Hi"), *said, *results(client, ("call_1", "sunny"))]
    return {"messages": messages, "tools": [tool(client, "weather")]}


def _sent_back(stand: Stand) -> dict[str, Any]:
    return next(message for message in stand.asked("oai")[-1].json["messages"] if message["role"] == "assistant")


@STREAMED_OR_WHOLE
@CLIENTS
async def test_150_state_that_a_client_drops_is_put_back_for_its_upstream(client: Protocol, stream: bool) -> None:
    async with _answered(client, stream=stream) as (stand, _):
        said = calls(client, ("call_1", "weather", json.loads(ARGUMENTS)))
        await stand.ask(client, "oai", stream=stream, **_told_again(client, said))
        sent = _sent_back(stand)
        assert sent["tool_calls"][0]["extra_content"] == SIGNATURE
        assert (sent["reasoning_details"], sent["extra_content"]) == (DETAILS, SIGNATURE)


@STREAMED_OR_WHOLE
async def test_150_a_chat_client_gets_the_state_and_may_send_it_to_a_gateway_that_was_restarted(stream: bool) -> None:
    async with _answered("openai_chat", stream=stream) as (_, answer):
        choices = [choice.get("delta") or choice.get("message") for f in answer.frames for choice in f["choices"]]
        call = next(choice["tool_calls"][0] for choice in choices if choice.get("tool_calls"))
        assert call["extra_content"] == SIGNATURE
        state = next(choice for choice in choices if choice.get("reasoning_details"))
        assert (state["reasoning_details"], state["extra_content"]) == (DETAILS, SIGNATURE)
    async with serving() as restarted:
        restarted.script("oai", says("oai", "Sunny."))
        made = chat_call("call_1", "weather", ARGUMENTS, extra_content=SIGNATURE)
        said = {"role": "assistant", "content": None, "tool_calls": [made], "reasoning_details": DETAILS}
        await restarted.ask("openai_chat", "oai", stream=stream, **_told_again("openai_chat", [said]))
        sent = _sent_back(restarted)
        assert (sent["tool_calls"][0]["extra_content"], sent["reasoning_details"]) == (SIGNATURE, DETAILS)


async def test_150_state_of_one_upstream_is_not_sent_to_another() -> None:
    async with _answered("openai_chat", stream=False) as (stand, _):
        made = chat_call("call_1", "weather", ARGUMENTS, extra_content=SIGNATURE)
        said = {"role": "assistant", "content": None, "tool_calls": [made], "reasoning_details": DETAILS}
        await stand.ask("openai_chat", "ant", stream=False, **_told_again("openai_chat", [said]))
        assert b"c2ln" not in stand.asked("ant")[-1].body
        assert b"ZW5j" not in stand.asked("ant")[-1].body


def test_150_reasoning_details_that_come_in_pieces_are_put_together() -> None:
    pieces = [
        {"type": "reasoning.text", "text": "Let ", "index": 0},
        {"type": "reasoning.text", "text": "me see.", "index": 0},
        {"type": "reasoning.text", "signature": "c2ln", "index": 0},
        {"type": "reasoning.text", "text": "Next.", "index": 1},
        *DETAILS,
    ]
    data = chat_stream(*({"reasoning_details": [piece]} for piece in pieces), {"content": "Done."})
    (state,) = [event.meta[STATE] for event in events_of(data, "openai_chat") if isinstance(event, Finished)]
    assert json.loads(state["reasoning_details"]) == [
        {"type": "reasoning.text", "text": "Let me see.", "index": 0, "signature": "c2ln"},
        {"type": "reasoning.text", "text": "Next.", "index": 1},
        *DETAILS,
    ]


# ── 151: odd side values ─────────────────────────────────────────────────────────────────────────

ODD_USAGE = [
    '{"prompt_tokens":3.0,"completion_tokens":"4"}',
    '{"prompt_tokens":3,"completion_tokens":4,"total_tokens":NaN,"prompt_tokens_details":{"cached_tokens":NaN}}',
    '{"prompt_tokens":3,"completion_tokens":4,"prompt_tokens_details":[],"completion_tokens_details":"none"}',
    '{"prompt_tokens":3,"completion_tokens":4.0,"prompt_cache_hit_tokens":true}',
]


@everywhere
@each("usage", ODD_USAGE)
def test_151_odd_token_counts_do_not_discard_the_answer(crossing: Crossing, usage: str) -> None:
    stream = sse(chunk({"content": "Hello"}), chunk(finish="stop"))
    stream += b'data: {"id":"c","choices":[],"usage":' + usage.encode() + b"}\n\ndata: [DONE]\n\n"
    whole = chat_reply({"content": "Hello"}, usage=None).replace(b'"usage": null', b'"usage":' + usage.encode())
    for data, is_whole in ((stream, False), (whole, True)):
        seen = cross(data, "openai_chat", crossing, whole=is_whole)
        assert (seen.text, seen.finish, seen.error) == ("Hello", finish_of(crossing, "end_turn"), None)
        assert (seen.usage.get("input_tokens", seen.usage.get("prompt_tokens"))) == 3
        assert (seen.usage.get("output_tokens", seen.usage.get("completion_tokens"))) == 4
        assert {note.kind for note in seen.notes} == {"odd_value"}


@everywhere
def test_151_odd_ids_indices_reasons_and_thoughts_do_not_discard_the_calls(crossing: Crossing) -> None:
    call = {"index": "0", "id": 17, "function": {"name": "weather", "arguments": ARGUMENTS}}
    stream = sse(
        chunk({"reasoning_content": [{"text": "Hm."}], "content": "Hello"}),
        chunk({"tool_calls": [call]}),
        chunk(finish=1),  # type: ignore[arg-type] # what upstreams do send
        "[DONE]",
    )
    seen = cross(stream, "openai_chat", crossing)
    assert (seen.thinking, seen.text, seen.finish) == ("Hm.", "Hello", finish_of(crossing, "tool_use"))
    assert (seen.names, seen.calls[0].id) == (["weather"], "17")
    assert_arguments(seen, crossing, ARGUMENTS)


@pytest.mark.parametrize(
    "message", [{"content": 17}, {"content": "x", "tool_calls": "read"}, {"tool_calls": [17]}, {"refusal": {}}]
)
def test_151_what_the_model_says_is_never_guessed(message: dict[str, Any]) -> None:
    seen = cross(chat_reply(message), "openai_chat", Crossing("openai_chat", False), whole=True)
    assert seen.error is not None


@everywhere
def test_151_odd_side_values_of_messages_do_not_discard_the_answer(crossing: Crossing) -> None:
    stream = message_stream(*text_block(0, "Hello"), stop_sequence=3).replace(
        b'"usage": {"output_tokens": 5}', b'"usage": {"output_tokens": 5.0, "cache_read_input_tokens": "x"}'
    )
    whole = message_reply(
        said("Hello"), usage={"input_tokens": "10", "output_tokens": 5.0, "output_tokens_details": []}, model=3
    )
    for data, is_whole in ((stream, False), (whole, True)):
        seen = cross(data, "anthropic", crossing, whole=is_whole)
        assert (seen.text, seen.finish, seen.error) == ("Hello", finish_of(crossing, "end_turn"), None)
        assert seen.usage.get("output_tokens", seen.usage.get("completion_tokens")) == 5


# ── 152: a call cut off before its arguments ─────────────────────────────────────────────────────

CUT_CALL = call_delta(0, "", id="call_1", type="function", name="delete_everything")


@everywhere
def test_152_a_call_cut_by_the_limit_before_its_arguments_is_not_given_out(crossing: Crossing) -> None:
    seen = cross(chat_stream({"content": "I will."}, CUT_CALL, finish="length"), "openai_chat", crossing)
    assert (seen.calls, seen.text, seen.finish) == ([], "I will.", finish_of(crossing, "max_tokens"))
    assert [note.kind for note in seen.notes] == ["cut_call"]


@everywhere
def test_152_an_end_marker_instead_of_the_arguments_is_an_error(crossing: Crossing) -> None:
    seen = cross(chat_stream({"content": "I will."}, CUT_CALL, finish=None), "openai_chat", crossing)
    assert (seen.calls, seen.finish) == ([], None)
    assert seen.error is not None
    assert "tool call" in seen.error["message"]


@everywhere
def test_152_a_call_without_parameters_is_still_one(crossing: Crossing) -> None:
    seen = cross(chat_stream(CUT_CALL, finish="tool_calls"), "openai_chat", crossing)
    assert (seen.names, seen.arguments) == (["delete_everything"], ["{}"])


@everywhere
def test_152_a_bare_call_keeps_its_place_before_what_follows_it(crossing: Crossing) -> None:
    text = {"content": "Then this."}
    seen = cross(chat_stream({"content": "First."}, CUT_CALL, text, finish="tool_calls"), "openai_chat", crossing)
    assert seen.arguments == ["{}"]
    if crossing.stream or crossing.client == "anthropic":
        assert seen.order == ["text", "call", "text"]


# ── 156: legacy functions ────────────────────────────────────────────────────────────────────────

LEGACY: dict[str, Any] = {
    "functions": [{"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}],
    "function_call": "auto",
}


def _called(backend: Any, *, stream: bool) -> Answer:
    if backend == "ant":
        made = {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": json.loads(ARGUMENTS)}
        frames = block(0, {**made, "input": {}}, {"type": "input_json_delta", "partial_json": ARGUMENTS})
        data, body = message_stream(*frames, stop="tool_use"), message_reply(made, stop="tool_use")
    else:
        call = chat_call("call_1", "weather", ARGUMENTS)
        data = chat_stream({"tool_calls": [{"index": 0, **call}]}, finish="tool_calls")
        body = chat_reply({"tool_calls": [call]}, finish="tool_calls")
    return Answer(chunks=(data,)) if stream else Answer(body=body)


@STREAMED_OR_WHOLE
@pytest.mark.parametrize("backend", ["ant", "oai"])
async def test_156_functions_are_answered_with_a_function_call(backend: Any, stream: bool) -> None:
    async with serving() as stand:
        stand.script(backend, _called(backend, stream=stream))
        frames = (await stand.ask("openai_chat", backend, stream=stream, **LEGACY)).frames
        choices = [choice for frame in frames for choice in frame["choices"]]
        pieces = [(choice.get("delta") or choice.get("message") or {}) for choice in choices]
        calls_made = [piece["function_call"] for piece in pieces if piece.get("function_call")]
        assert "".join(call["arguments"] for call in calls_made) == ARGUMENTS
        assert [call["name"] for call in calls_made if "name" in call] == ["weather"]
        assert not any("tool_calls" in piece for piece in pieces)
        assert [c["finish_reason"] for c in choices if c["finish_reason"]] == ["function_call"]
        for frame in frames:
            (ChatCompletionChunk if stream else ChatCompletion).model_validate(frame)


@pytest.mark.parametrize("upstream", ["anthropic", "openai_chat"])
def test_156_a_history_of_function_calls_is_understood(upstream: Protocol) -> None:
    history: list[dict[str, Any]] = [
        {"role": "assistant", "content": None, "function_call": {"name": "weather", "arguments": ARGUMENTS}},
        {"role": "function", "name": "weather", "content": "sunny"},
    ]
    sent = ask(asking("openai_chat", user("go"), history, **LEGACY), "openai_chat", upstream)
    ((call_id, name, arguments),) = sent.calls
    assert (name, arguments) == ("weather", json.loads(ARGUMENTS))
    assert sent.results == [(call_id, "sunny")]


def test_156_of_several_calls_the_first_is_shown_to_a_client_that_takes_one() -> None:
    made = [{"index": n, **chat_call(f"call_{n}", "weather", ARGUMENTS)} for n in range(2)]
    events = events_of(chat_stream({"tool_calls": made}, finish="tool_calls"), "openai_chat")
    for arguments in ("buffered", "incremental"):
        options = openai_chat.Options(legacy=True, arguments=arguments)
        assert openai_chat.ResponseWriter(options).write_all(events).count(b'"name":"weather"') == 1
