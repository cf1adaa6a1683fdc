"""The Responses API against a live Cursor run: one run serves a turn, whichever way the client continues it."""

import json
from base64 import b64encode
from collections.abc import AsyncIterator
from typing import Any, Literal

import pytest
from openai.types.responses import Response
from websockets.asyncio.client import connect

from tests.e2e.cursor_support import DEMO, KEY, PICTURE, STREAMED_OR_WHOLE, Stand, eager, scripted, serving
from tests.wire.coding_clients import WEATHER

__all__ = ["eager"]

pytestmark = pytest.mark.usefixtures("eager")

TOOLS: list[Any] = [
    {"type": "function", "name": tool.name, "description": tool.description, "parameters": json.loads(tool.schema)}
    for tool in WEATHER
]
TRIP = scripted('text: Let me look.\ncall: get_weather {"city": "Oslo"}', "text: It is {{result}}.")
IMAGE = {"type": "input_image", "detail": "auto", "image_url": f"data:image/png;base64,{b64encode(PICTURE).decode()}"}

Way = Literal["by id", "with its history"]
WAYS = pytest.mark.parametrize("way", ["by id", "with its history"])


@pytest.fixture
async def stand() -> AsyncIterator[Stand]:
    async with serving("http2") as made:
        yield made


async def ask(stand: Stand, stream: bool, **question: Any) -> Response:
    question = {"model": DEMO, "tools": TOOLS, **question}
    if not stream:
        response: Response = await stand.openai.responses.create(**question)
        return response
    async with stand.openai.responses.stream(**question) as events:
        return await events.get_final_response()


def calls_in(response: Response) -> list[Any]:
    return [item for item in response.output if item.type == "function_call"]


def results(response: Response, *outputs: Any) -> list[Any]:
    return [
        {"type": "function_call_output", "call_id": call.call_id, "output": output}
        for call, output in zip(calls_in(response), outputs, strict=True)
    ]


@STREAMED_OR_WHOLE
@WAYS
async def test_a_tool_round_trip_is_one_run(stand: Stand, stream: bool, way: Way) -> None:
    first = await ask(stand, stream, input=TRIP, store=way == "by id")
    (call,) = calls_in(first)
    assert (call.name, json.loads(call.arguments)) == ("get_weather", {"city": "Oslo"})
    given = results(first, "sunny")
    if way == "by id":
        second = await ask(stand, stream, input=given, previous_response_id=first.id)
    else:
        history = [{"role": "user", "content": TRIP}, *first.output, *given]
        second = await ask(stand, stream, input=history, store=False)
    assert second.output_text == "It is sunny."
    assert stand.counted == (1, 2)


async def test_a_round_trip_on_a_connection_is_one_run(stand: Stand) -> None:
    url = f"{stand.url.replace('http', 'ws', 1)}/v1/responses"
    async with connect(url, additional_headers={"x-api-key": KEY}, proxy=None) as connection:

        async def answer(**question: Any) -> Any:
            body = {"type": "response.create", "model": DEMO, "tools": TOOLS, "store": False, **question}
            await connection.send(json.dumps(body))
            while (event := json.loads(await connection.recv()))["type"] != "response.completed":
                assert event["type"] != "error", event
            return event["response"]

        first = await answer(input=TRIP)
        (call,) = [item for item in first["output"] if item["type"] == "function_call"]
        given = [{"type": "function_call_output", "call_id": call["call_id"], "output": "sunny"}]
        second = await answer(input=given, previous_response_id=first["id"])
    assert second["output"][-1]["content"][0]["text"] == "It is sunny."
    assert stand.counted == (1, 2)


@STREAMED_OR_WHOLE
async def test_parallel_calls_are_answered_together(stand: Stand, stream: bool) -> None:
    first = await ask(stand, stream, input="call get_weather with Oslo and call get_weather with Rome")
    assert [json.loads(call.arguments) for call in calls_in(first)] == [{"city": "Oslo"}, {"city": "Rome"}]
    second = await ask(stand, stream, input=results(first, "rain", "sun"), previous_response_id=first.id)
    assert second.status == "completed"
    assert stand.counted == (1, 2)


@STREAMED_OR_WHOLE
async def test_reasoning_is_shown_beside_the_words(stand: Stand, stream: bool) -> None:
    response = await ask(stand, stream, input=scripted("think: Hm, let me see.\ntext: Hello"))
    reasoning = response.output[0]
    assert reasoning.type == "reasoning"
    assert [part.text for part in reasoning.summary] == ["Hm, let me see."]
    assert response.output_text == "Hello"


async def test_pictures_reach_the_model(stand: Stand) -> None:
    content = [{"type": "input_text", "text": "What is it?"}, IMAGE]
    response = await ask(stand, False, input=[{"role": "user", "content": content}])
    assert response.output_text.startswith("I see 1 image.")
    first = await ask(stand, False, input="call get_weather with Oslo")
    pictured = results(first, [{"type": "input_text", "text": "a map"}, IMAGE])
    second = await ask(stand, False, input=pictured, previous_response_id=first.id)
    assert "a map" in second.output_text


async def test_a_background_response_asks_for_tools(stand: Stand) -> None:
    begun = await stand.openai.responses.create(model=DEMO, input=TRIP, tools=TOOLS, background=True)
    *_, last = [event async for event in await stand.openai.responses.retrieve(begun.id, stream=True)]
    assert last.type == "response.completed"
    second = await ask(stand, True, input=results(last.response, "sunny"), previous_response_id=begun.id)
    assert second.output_text == "It is sunny."
    assert stand.counted == (1, 2)


async def test_a_compaction_leaves_the_waiting_run_alone_and_continues(stand: Stand) -> None:
    first = await ask(stand, True, input=TRIP)
    given = [*results(first, "sunny"), {"type": "compaction_trigger"}]
    second = await ask(stand, True, input=given, previous_response_id=first.id)
    assert [item.type for item in second.output] == ["compaction"]
    assert stand.sim.runs == 2, "the summary is not a part of the turn that waits"
    third = await ask(stand, True, input="say hello", previous_response_id=second.id)
    assert third.output_text
    assert "summary of the earlier conversation" in str(stand.record.received[0])
