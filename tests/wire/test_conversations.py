"""The conversation cache: parsing with it is the same as without, and a message that was parsed before is not again."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tieline.model.errors import BadRequest
from tieline.model.request import Request
from tieline.wire import anthropic, openai_chat, openai_responses
from tieline.wire.shared.conversations import MIN_CACHED_BODY, ConversationCache, conversation_cache

Json = dict[str, Any]

LONG = "x" * MIN_CACHED_BODY


def parse_responses(data: bytes, cache: ConversationCache | None = None) -> Request:
    """Parse a body whose messages are the input."""
    return openai_responses.parse_request(data.replace(b'"messages": ', b'"input": ', 1), cache)


PARSE = {
    "openai_chat": openai_chat.parse_request,
    "openai_responses": parse_responses,
    "anthropic": anthropic.parse_request,
}
EACH_DIALECT = pytest.mark.parametrize("dialect", list(PARSE))


def said(role: str, text: str) -> Json:
    return {"role": role, "content": text}


def body(*messages: Json, **fields: Any) -> bytes:
    return json.dumps({"model": "m", "max_tokens": 9, "user": LONG, "messages": messages, **fields}).encode()


CALL = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"}}
CHAT = [
    said("system", "Be brief."),
    said("user", "Hi"),
    said("assistant", "Hello."),
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "assistant", "tool_calls": [{**CALL, "id": ""}]},
    {"role": "tool", "tool_call_id": "c1", "content": "done"},
    {"role": "tool", "content": "no id"},
    {"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}]},
    {"role": "robot", "content": "?"},
    {"role": "user", "content": 7},
]
USE = {"type": "tool_use", "id": "c1", "name": "read", "input": {}}
MESSAGES = [
    said("user", "Hi"),
    said("assistant", "Hello."),
    said("system", "Late."),
    {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "s"}, USE]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "done"}]},
    {"role": "user", "content": [{"type": "text", "text": "marked", "cache_control": {"type": "ephemeral"}}]},
    {"role": "user", "content": [{"type": "new_block", "value": 1}]},
    {"role": "user", "content": [{"type": "text"}]},
    {"role": "robot", "content": "?"},
]
FUNCTION_CALL = {"type": "function_call", "call_id": "c1", "name": "read", "arguments": "{}"}
ITEMS = [
    said("developer", "Be brief."),
    said("user", "Hi"),
    said("assistant", "Hello."),
    {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"},
    FUNCTION_CALL,
    {**FUNCTION_CALL, "call_id": None},
    {"type": "function_call_output", "call_id": "c1", "output": "done"},
    {"type": "function_call_output", "output": "no id"},
    {"type": "additional_tools", "tools": [{"type": "function", "name": "added"}]},
    {"role": "user", "content": [{"type": "input_audio", "audio_url": "x"}]},
    {"type": "compaction_trigger"},
    {"type": "web_search_call", "id": "ws_1"},
    {"role": "robot", "content": "?"},
]
POOLS = {"openai_chat": CHAT, "openai_responses": ITEMS, "anthropic": MESSAGES}


def outcome(dialect: str, data: bytes, cache: ConversationCache | None) -> Any:
    try:
        return PARSE[dialect](data, cache)
    except BadRequest as error:
        return str(error), error.param


@EACH_DIALECT
@given(data=st.data())
def test_a_request_is_parsed_with_a_cache_as_without(dialect: str, data: st.DataObject) -> None:
    pool = POOLS[dialect]
    cache, small = conversation_cache(), conversation_cache(3000)
    for messages in data.draw(st.lists(st.lists(st.sampled_from(pool), min_size=1, max_size=6), max_size=5)):
        request = body(*messages)
        expected = outcome(dialect, request, None)
        assert outcome(dialect, request, cache) == expected
        assert outcome(dialect, request, small) == expected


@EACH_DIALECT
def test_a_conversation_that_grows_has_the_same_messages_again(dialect: str) -> None:
    cache = conversation_cache()
    history = [said("user", "Hi"), said("assistant", "Hello."), said("user", "Read a.")]
    before = PARSE[dialect](body(*history), cache)
    after = PARSE[dialect](body(*history, said("assistant", "Done."), said("user", "Thanks.")), cache)
    assert len(after.messages) == 5
    assert all(old is new for old, new in zip(before.messages, after.messages, strict=False))


@EACH_DIALECT
def test_a_change_in_the_middle_costs_only_itself(dialect: str) -> None:
    """Coding agents move their cache marks from message to message with every request."""
    cache = conversation_cache()
    history = [said("user" if at % 2 == 0 else "assistant", f"message {at}") for at in range(9)]
    PARSE[dialect](body(*history), cache)
    hits, misses = cache.hits, cache.misses
    history[4] = said("user", "changed")
    PARSE[dialect](body(*history), cache)
    assert (cache.hits - hits, cache.misses - misses) == (8, 1)


@EACH_DIALECT
def test_tools_are_parsed_once(dialect: str) -> None:
    cache = conversation_cache()
    function = {"name": "read", "parameters": {"type": "object"}}
    chat = [{"type": "function", "function": function}]
    tools = [{"name": "read", "input_schema": {"type": "object"}}] if dialect == "anthropic" else chat
    first, second = (PARSE[dialect](body(said("user", word), tools=tools), cache) for word in ("a", "b"))
    assert first.tools is second.tools


def test_the_results_of_a_turn_are_the_same_message_again() -> None:
    cache = conversation_cache()
    calls = [{**CALL, "id": f"c{at}"} for at in range(2)]
    results = [{"role": "tool", "tool_call_id": f"c{at}", "content": "done"} for at in range(2)]
    history = [said("user", "Hi"), {"role": "assistant", "tool_calls": calls}, *results]
    first: Request = openai_chat.parse_request(body(*history), cache)
    second: Request = openai_chat.parse_request(body(*history, said("assistant", "Done.")), cache)
    assert len(first.messages[2].parts) == 2
    assert first.messages[2] is second.messages[2]


@EACH_DIALECT
def test_small_requests_do_not_fill_the_cache(dialect: str) -> None:
    cache = conversation_cache()
    PARSE[dialect](json.dumps({"model": "m", "max_tokens": 9, "messages": [said("user", "Hi")]}).encode(), cache)
    assert len(cache) == 0


@EACH_DIALECT
def test_the_memory_of_many_conversations_is_bounded(dialect: str) -> None:
    cache = conversation_cache(1 << 20)
    for number in range(100):
        PARSE[dialect](body(*(said("user", f"{number} {at} {LONG}") for at in range(5))), cache)
    assert 0 < cache.weight <= 1 << 20
