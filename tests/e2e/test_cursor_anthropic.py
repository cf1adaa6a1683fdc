"""The official Anthropic client against a live Cursor run: what Messages makes of it, over both transports."""

import re
from base64 import b64encode
from collections.abc import AsyncIterator
from typing import Any

import anthropic
import pytest
from anthropic import AsyncAnthropic
from anthropic.types import Message

from tests.e2e.cursor_support import (
    DEMO,
    PICTURE,
    STREAMED_OR_WHOLE,
    TRANSPORTS,
    Stand,
    Transport,
    eager,
    messages_tool,
    scripted,
    serving,
)
from tests.wire.coding_clients import WEATHER
from tieline.wire.cursor._pb.exec_kinds_pb2 import McpResult

__all__ = ["eager"]

pytestmark = [TRANSPORTS, pytest.mark.usefixtures("eager")]

TOOLS = [messages_tool(tool) for tool in WEATHER]
CALL_ID = re.compile(r"call_[A-Za-z0-9]{26}")


@pytest.fixture
async def stand(transport: Transport) -> AsyncIterator[Stand]:
    async with serving(transport) as made:
        yield made


@pytest.fixture
def client(stand: Stand) -> AsyncAnthropic:
    return stand.anthropic


def asking(words: Any) -> list[Any]:
    return [{"role": "user", "content": words}]


async def ask(client: AsyncAnthropic, stream: bool, messages: list[Any], **question: Any) -> Message:
    question = {"model": DEMO, "max_tokens": 4096, "messages": messages, **question}
    if not stream:
        return await client.messages.create(**question)  # type: ignore[no-any-return]  # overloads do not take **Any
    async with client.messages.stream(**question) as answer:
        return await answer.get_final_message()


def words(message: Message) -> str:
    return "".join(block.text for block in message.content if block.type == "text")


def results(stand: Stand) -> list[McpResult]:
    """What the tools of the client gave back in the latest run."""
    given = [one for found in stand.record.run.results.values() for one in found]
    return [one.mcp_result for one in given if one.HasField("mcp_result")]


async def answer_call(client: AsyncAnthropic, stream: bool, **result: Any) -> Message:
    """The answer to a result of a call that was just made."""
    asked = asking("call get_weather with Oslo")
    first = await ask(client, stream, asked, tools=TOOLS)
    call = next(block for block in first.content if block.type == "tool_use")
    block = {"type": "tool_result", "tool_use_id": call.id, **result}
    history = [*asked, {"role": "assistant", "content": first.content}, *asking([block])]
    return await ask(client, stream, history, tools=TOOLS)


# ── Words ────────────────────────────────────────────────────────────────────────────────────────


@STREAMED_OR_WHOLE
async def test_words_and_usage_arrive(client: AsyncAnthropic, stream: bool) -> None:
    script = scripted("text: Hello wörld 😀\nusage: in=100 out=4 cache_read=90")
    message = await ask(client, stream, asking(script))
    assert (words(message), message.stop_reason, message.model) == ("Hello wörld 😀", "end_turn", DEMO)
    usage = message.usage
    assert (usage.input_tokens, usage.output_tokens, usage.cache_read_input_tokens) == (100, 4, 90)


async def test_the_words_stream_as_they_come(stand: Stand) -> None:
    pieces = ["one ", "two ", "three"]
    stand.plays(["open", *(step for piece in pieces for step in ({"text": piece}, {"pause": 0.01})), "close"])
    question: Any = {"model": DEMO, "max_tokens": 100, "messages": asking("count")}
    async with stand.anthropic.messages.stream(**question) as stream:
        assert [piece async for piece in stream.text_stream] == pieces


@STREAMED_OR_WHOLE
@pytest.mark.parametrize(
    "system", ["You are a title generator.", [{"type": "text", "text": "You are a title generator."}]]
)
async def test_a_system_prompt_reaches_the_model(stand: Stand, stream: bool, system: Any) -> None:
    message = await ask(stand.anthropic, stream, asking("the history of salt"), system=system)
    assert words(message) == "The history of salt"


async def test_tokens_are_estimated(client: AsyncAnthropic) -> None:
    counted = await client.messages.count_tokens(model=DEMO, messages=asking("How many tokens may this have?"))
    assert counted.input_tokens > 0


# ── Thinking ─────────────────────────────────────────────────────────────────────────────────────


@STREAMED_OR_WHOLE
async def test_thinking_is_a_block_before_the_words(client: AsyncAnthropic, stream: bool) -> None:
    message = await ask(client, stream, asking(scripted("think: Hm, let me see.\ntext: Hello")))
    thought, said = message.content
    assert (thought.type, said.type) == ("thinking", "text")
    assert thought.type == "thinking"
    assert thought.thinking == "Hm, let me see."
    assert words(message) == "Hello"


@STREAMED_OR_WHOLE
async def test_thinking_comes_back_with_the_history_and_does_no_harm(stand: Stand, stream: bool) -> None:
    asked = asking(scripted("think: Hm.\ntext: Hello"))
    first = await ask(stand.anthropic, stream, asked)
    history = [*asked, {"role": "assistant", "content": first.content}, *asking("say bye")]
    assert words(await ask(stand.anthropic, stream, history)) == "bye"


async def test_a_budget_is_a_parameter_of_the_model(stand: Stand) -> None:
    thinking = {"type": "enabled", "budget_tokens": 2000}
    message = await ask(stand.anthropic, True, asking("say hello"), thinking=thinking)
    assert message.content[0].type == "thinking"
    given = {one.id: one.value for one in stand.record.received[0].run_request.requested_model.parameters}
    assert (given["thinking"], given["effort"]) == ("true", "low")


# ── Tools ────────────────────────────────────────────────────────────────────────────────────────


@STREAMED_OR_WHOLE
async def test_a_tool_round_trip_is_one_run(stand: Stand, stream: bool) -> None:
    asked = asking(scripted('text: Let me look.\ncall: get_weather {"city": "Oslo"}', "text: It is {{result}}."))
    first = await ask(stand.anthropic, stream, asked, tools=TOOLS)
    assert (words(first), first.stop_reason) == ("Let me look.", "tool_use")
    (call,) = [block for block in first.content if block.type == "tool_use"]
    assert CALL_ID.fullmatch(call.id)
    assert (call.name, call.input) == ("get_weather", {"city": "Oslo"})
    result = {"type": "tool_result", "tool_use_id": call.id, "content": "sunny"}
    history = [*asked, {"role": "assistant", "content": first.content}, *asking([result])]
    second = await ask(stand.anthropic, stream, history, tools=TOOLS)
    assert (words(second), second.stop_reason) == ("It is sunny.", "end_turn")
    assert stand.counted == (1, 2)


@STREAMED_OR_WHOLE
@pytest.mark.parametrize("content", ["", [], [{"type": "text", "text": ""}]], ids=["empty", "none", "empty-text"])
async def test_a_result_may_be_empty(stand: Stand, stream: bool, content: Any) -> None:
    answer = await answer_call(stand.anthropic, stream, content=content)
    assert "`get_weather` returned nothing." in words(answer)
    assert stand.counted == (1, 2)


@STREAMED_OR_WHOLE
async def test_a_result_that_is_an_error_stays_one(stand: Stand, stream: bool) -> None:
    answer = await answer_call(stand.anthropic, stream, content="no such city", is_error=True)
    assert "`get_weather` failed: no such city" in words(answer)
    (result,) = results(stand)
    assert result.success.is_error


# ── Pictures ─────────────────────────────────────────────────────────────────────────────────────

IMAGE = {
    "type": "image",
    "source": {"type": "base64", "media_type": "image/png", "data": b64encode(PICTURE).decode()},
}


@STREAMED_OR_WHOLE
async def test_a_picture_reaches_the_model(stand: Stand, stream: bool) -> None:
    message = await ask(stand.anthropic, stream, asking([IMAGE, {"type": "text", "text": "What is it?"}]))
    assert words(message).startswith("I see 1 image.")
    sent = stand.record.received[0].run_request.action.user_message_action.user_message
    (image,) = sent.selected_context.selected_images
    assert (image.data, image.mime_type) == (PICTURE, "image/png")


@STREAMED_OR_WHOLE
async def test_a_picture_in_a_result_reaches_the_model(stand: Stand, stream: bool) -> None:
    await answer_call(stand.anthropic, stream, content=[{"type": "text", "text": "a map"}, IMAGE])
    (result,) = results(stand)
    text, image = result.success.content
    assert (text.text.text, image.image.data, image.image.mime_type) == ("a map", PICTURE, "image/png")
    assert stand.counted == (1, 2)


@STREAMED_OR_WHOLE
async def test_a_picture_beside_a_result_starts_a_new_run_from_the_history(stand: Stand, stream: bool) -> None:
    """Words can go along with a result, pictures cannot."""
    asked = asking("call get_weather with Oslo")
    first = await ask(stand.anthropic, stream, asked, tools=TOOLS)
    call = next(block for block in first.content if block.type == "tool_use")
    given = [{"type": "tool_result", "tool_use_id": call.id, "content": "sunny"}, IMAGE]
    given.append({"type": "text", "text": "say what this is"})
    history = [*asked, {"role": "assistant", "content": first.content}, *asking(given)]
    answer = await ask(stand.anthropic, stream, history, tools=TOOLS)
    assert "I see 1 image." in words(answer)
    await stand.until(lambda: stand.sim.open_runs == 0)
    assert [record.ending for record in stand.sim.journal] == ["left", "ended"]


# ── Errors ───────────────────────────────────────────────────────────────────────────────────────

ERRORS: list[tuple[Any, type[anthropic.APIStatusError], str]] = [
    ({"error": "outdated"}, anthropic.BadRequestError, "invalid_request_error"),
    ({"error": "too_long"}, anthropic.BadRequestError, "invalid_request_error"),
    ({"error": "bad_model"}, anthropic.NotFoundError, "not_found_error"),
    ({"error": "quota"}, anthropic.APIStatusError, "billing_error"),
    ({"error": "region"}, anthropic.PermissionDeniedError, "permission_error"),
    ({"error": "rate_limited"}, anthropic.RateLimitError, "rate_limit_error"),
    ({"error": "provider_for_good"}, anthropic.InternalServerError, "api_error"),
    ({"status": {"code": 403, "body": "no"}}, anthropic.PermissionDeniedError, "permission_error"),
]


@STREAMED_OR_WHOLE
@pytest.mark.parametrize(("step", "error", "kind"), ERRORS, ids=[str(step) for step, _, _ in ERRORS])
async def test_an_error_of_the_service_is_the_client_s_own_exception(
    stand: Stand, stream: bool, step: Any, error: type[anthropic.APIStatusError], kind: str
) -> None:
    stand.plays([step] if "status" in step else ["open", step])
    with pytest.raises(error) as caught:
        await ask(stand.anthropic, stream, asking("hello"))
    assert caught.value.response.status_code >= 400
    body: Any = caught.value.body
    assert body["error"]["type"] == kind


async def test_an_error_after_the_first_word_raises_in_the_stream(stand: Stand) -> None:
    stand.plays(["open", {"text": "Hel"}, {"pause": 0.01}, {"error": "quota"}])
    heard: list[str] = []
    with pytest.raises(anthropic.APIError, match="usage page"):
        await listen(stand.anthropic, heard)
    assert "".join(heard) == "Hel"


async def listen(client: AsyncAnthropic, heard: list[str]) -> None:
    question: Any = {"model": DEMO, "max_tokens": 100, "messages": asking("hello")}
    async with client.messages.stream(**question) as stream:
        async for piece in stream.text_stream:
            heard += [piece]


@STREAMED_OR_WHOLE
@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("cursor/demo?mode=wild", "there is no mode 'wild'; there are `agent`, `ask`, `plan`, `debug`"),
        ("cursor/demo?mood=plan", "there is no option 'mood'"),
    ],
)
async def test_an_option_of_the_model_that_does_not_exist_is_named(
    stand: Stand, stream: bool, model: str, said: str
) -> None:
    with pytest.raises(anthropic.BadRequestError, match=re.escape(said)):
        await ask(stand.anthropic, stream, asking("hello"), model=model)
    assert stand.sim.runs == 0


@STREAMED_OR_WHOLE
async def test_a_model_that_the_account_does_not_have_is_not_found(stand: Stand, stream: bool) -> None:
    with pytest.raises(anthropic.NotFoundError):
        await ask(stand.anthropic, stream, asking("hello"), model="cursor/nope")
