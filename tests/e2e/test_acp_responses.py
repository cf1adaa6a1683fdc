"""Coding agents through the Responses API: a turn with tools of the client, continued by the id of its response."""

import json
from typing import Any

import pytest
from openai.types.responses import Response

from tests.e2e.acp_support import COUNT, LOOK, MODEL, SHARED, Stand, stand

__all__ = ["stand"]

pytestmark = SHARED

TOOLS: list[Any] = [
    {"type": "function", "name": tool.name, "description": tool.description, "parameters": json.loads(tool.schema)}
    for tool in (LOOK, COUNT)
]
STREAMED_OR_WHOLE = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])


async def ask(stand: Stand, stream: bool, **question: Any) -> Response:
    question = {"model": MODEL, **question}
    if not stream:
        response: Response = await stand.openai.responses.create(**question)
        return response
    async with stand.openai.responses.stream(**question) as events:
        return await events.get_final_response()


def calls_in(response: Response) -> list[Any]:
    return [item for item in response.output if item.type == "function_call"]


@STREAMED_OR_WHOLE
async def test_a_conversation_is_continued_by_the_id_of_its_response(stand: Stand, stream: bool) -> None:
    program = "think Let me see.\nsay Hello there"
    first = await ask(stand, stream, input=program)
    assert [item.type for item in first.output] == ["reasoning", "message"]
    assert first.output_text.strip() == "Hello there"
    second = await ask(stand, stream, input="recall", previous_response_id=first.id)
    assert json.loads(second.output_text) == [program, "recall"], "the same session"


@STREAMED_OR_WHOLE
async def test_a_tool_of_the_client_is_called_within_the_turn(stand: Stand, stream: bool) -> None:
    program = 'say Let me look\ncall look_up {"word":"ship"}\nsay bye'
    first = await ask(stand, stream, input=program, tools=TOOLS)
    (call,) = calls_in(first)
    assert (call.name, json.loads(call.arguments)) == ("look_up", {"word": "ship"})
    assert stand.app.gateway.metrics.parked == 1
    given = [{"type": "function_call_output", "call_id": call.call_id, "output": "a vessel"}]
    second = await ask(stand, stream, input=given, tools=TOOLS, previous_response_id=first.id)
    assert second.output_text.split() == ["a", "vessel", "bye"]
    assert stand.app.gateway.metrics.parked == 0


@STREAMED_OR_WHOLE
async def test_r18_a_turn_without_a_word_is_complete(stand: Stand, stream: bool) -> None:
    # A failure would make the client ask again, and the agent do its work again.
    response = await ask(stand, stream, input="usage")
    assert (response.status, response.output) == ("completed", [])
    assert response.usage is not None
    assert response.usage.total_tokens == 42


async def test_several_tools_at_once_are_answered_together(stand: Stand) -> None:
    with stand.unhurried():
        first = await ask(stand, True, input='call look_up {"word":"a"} ; look_up {"word":"b"}', tools=TOOLS)
    given = [
        {"type": "function_call_output", "call_id": call.call_id, "output": json.loads(call.arguments)["word"]}
        for call in calls_in(first)
    ]
    history = [{"role": "user", "content": 'call look_up {"word":"a"} ; look_up {"word":"b"}'}, *first.output, *given]
    second = await ask(stand, True, input=history, tools=TOOLS, store=False)
    assert sorted(second.output_text.split()) == ["a", "b"]


async def test_a_turn_runs_in_the_background(stand: Stand) -> None:
    begun = await stand.openai.responses.create(model=MODEL, input="say Done", background=True)
    *_, last = [event async for event in await stand.openai.responses.retrieve(begun.id, stream=True)]
    assert last.type == "response.completed"
    assert (await stand.openai.responses.retrieve(begun.id)).output_text.strip() == "Done"
