"""Failures seen with particular providers: empty companions, reasoning state, odd side values."""

import json
from typing import Any

import pytest

from tests.catalogue.asking import ask, asking, results, user
from tests.catalogue.checks import assert_arguments, assert_in_order, chat_call, chat_reply, finish_of
from tests.catalogue.crossing import CROSSINGS, Crossing, chat_stream, cross

everywhere = pytest.mark.parametrize("crossing", CROSSINGS, ids=str)

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
