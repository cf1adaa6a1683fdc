"""Limits and demands that an upstream does not know (catalogue 175 and 176), through both official clients."""

from typing import Any

import pytest

from tests.e2e.cursor_support import DIALECTS, STREAMED_OR_WHOLE, Dialect, eager, scripted, serving
from tests.wire.coding_clients import WEATHER

__all__ = ["eager"]

pytestmark = pytest.mark.usefixtures("eager")

TALE = "text: " + "Once upon a time. " * 40
ENDS = {
    ("openai", "limit"): "length",
    ("openai", "stop"): "stop",
    ("anthropic", "limit"): "max_tokens",
    ("anthropic", "stop"): "stop_sequence",
}


@DIALECTS
@STREAMED_OR_WHOLE
async def test_162_a_token_limit_and_a_stop_sequence_end_the_run(dialect: Dialect, stream: bool) -> None:
    stop: dict[str, Any] = {"stop": ["a time"]} if dialect == "openai" else {"stop_sequences": ["a time"]}
    async with serving("http1") as stand:
        answer = await stand.talk(dialect, stream=stream, max_tokens=5).say(scripted(TALE))
        assert (answer.text, answer.ending) == ("Once upon a time. On", ENDS[dialect, "limit"])
        await stand.until(lambda: bool(stand.record.ending))
        answer = await stand.talk(dialect, stream=stream, **stop).say(scripted(TALE))
        assert (answer.text, answer.ending) == ("Once upon ", ENDS[dialect, "stop"])
        await stand.until(lambda: bool(stand.record.ending))


@DIALECTS
@STREAMED_OR_WHOLE
async def test_163_a_forced_tool_that_was_not_called_is_asked_for_once_more(dialect: Dialect, stream: bool) -> None:
    name = WEATHER[0].name
    choice: Any = {"type": "tool", "name": name}
    if dialect == "openai":
        choice = {"type": "function", "function": {"name": name}}
    async with serving("http1") as stand:
        talk = stand.talk(dialect, WEATHER, stream=stream, tool_choice=choice)
        answer = await talk.say(scripted("text: I would rather talk."))
        assert ([call.name for call in answer.calls], answer.wants_tools) == ([name], True)
        assert "rather talk" not in answer.text
        assert stand.counted[0] == 2
