"""The official OpenAI client against a live Cursor run: what Chat Completions makes of it, over both transports."""

import json
import re
from base64 import b64encode
from collections.abc import AsyncIterator
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI
from openai.types.chat import ChatCompletionChunk

from tests.e2e.cursor_support import (
    DEMO,
    PICTURE,
    STREAMED_OR_WHOLE,
    TRANSPORTS,
    Stand,
    Transport,
    add_delta,
    chat_tool,
    eager,
    scripted,
    serving,
)
from tests.wire.coding_clients import WEATHER

__all__ = ["eager"]

pytestmark = [TRANSPORTS, pytest.mark.usefixtures("eager")]

TOOLS = [chat_tool(tool) for tool in WEATHER]
CALL_ID = re.compile(r"call_[A-Za-z0-9]{26}")


@pytest.fixture
async def stand(transport: Transport) -> AsyncIterator[Stand]:
    async with serving(transport) as made:
        yield made


@pytest.fixture
def client(stand: Stand) -> AsyncOpenAI:
    return stand.openai


def asking(words: Any) -> list[Any]:
    return [{"role": "user", "content": words}]


class Answered:
    """What came back, whichever way it came."""

    def __init__(self, message: dict[str, Any], finish_reason: str | None, usage: Any) -> None:
        self.message = message
        self.finish_reason = finish_reason
        self.usage = usage


async def ask(client: AsyncOpenAI, stream: bool, messages: list[Any], **question: Any) -> Answered:
    question = {"model": DEMO, "messages": messages, **question}
    if not stream:
        completion = await client.chat.completions.create(**question)
        choice = completion.choices[0]
        return Answered(choice.message.model_dump(exclude_none=True), choice.finish_reason, completion.usage)
    message: dict[str, Any] = {"role": "assistant", "content": None}
    finish, usage = None, None
    chunks = await client.chat.completions.create(**question, stream=True, stream_options={"include_usage": True})
    async for chunk in chunks:
        usage = chunk.usage or usage
        for choice in chunk.choices:
            finish = choice.finish_reason or finish
            add_delta(message, choice.delta)
    return Answered(message, finish, usage)


# ── Words ────────────────────────────────────────────────────────────────────────────────────────


@STREAMED_OR_WHOLE
async def test_words_and_usage_arrive(client: AsyncOpenAI, stream: bool) -> None:
    script = scripted("text: Hello wörld 😀\nusage: in=100 out=4 cache_read=90")
    answered = await ask(client, stream, asking(script))
    assert (answered.message["content"], answered.finish_reason) == ("Hello wörld 😀", "stop")
    assert (answered.usage.prompt_tokens, answered.usage.completion_tokens) == (190, 4)
    assert answered.usage.prompt_tokens_details.cached_tokens == 90


async def test_the_words_stream_as_they_come(stand: Stand) -> None:
    stand.plays(
        ["open", {"text": "one "}, {"pause": 0.01}, {"text": "two "}, {"pause": 0.01}, {"text": "three"}, "close"]
    )
    chunks = await stand.openai.chat.completions.create(model=DEMO, messages=asking("count"), stream=True)
    pieces = [choice.delta.content async for chunk in chunks for choice in chunk.choices if choice.delta.content]
    assert pieces == ["one ", "two ", "three"]


@STREAMED_OR_WHOLE
async def test_system_and_developer_prompts_reach_the_model(stand: Stand, stream: bool) -> None:
    prompts: list[Any] = [
        {"role": "system", "content": "You are a title generator."},
        {"role": "developer", "content": "Be brief."},
    ]
    answered = await ask(stand.openai, stream, [*prompts, *asking("the history of salt")])
    assert answered.message["content"] == "The history of salt"
    context = stand.record.run.context
    assert context is not None
    assert "You are a title generator." in context.cloud_rule
    assert "Be brief." in context.cloud_rule


# ── Thinking ─────────────────────────────────────────────────────────────────────────────────────


@STREAMED_OR_WHOLE
async def test_thinking_is_shown_beside_the_words(client: AsyncOpenAI, stream: bool) -> None:
    answered = await ask(client, stream, asking(scripted("think: Hm, let me see.\ntext: Hello")))
    assert (answered.message["reasoning_content"], answered.message["content"]) == ("Hm, let me see.", "Hello")


@STREAMED_OR_WHOLE
async def test_thinking_between_tags_is_split_off_wherever_it_is_cut(stand: Stand, stream: bool) -> None:
    pieces = ["<thi", "nk>Hm", ".</th", "ink>\n\nHel", "lo <b>"]
    stand.plays(["open", *({"text": piece} for piece in pieces), "close"])
    answered = await ask(stand.openai, stream, asking("hello"))
    assert answered.message["reasoning_content"].strip() == "Hm."
    assert answered.message["content"].strip() == "Hello <b>"


async def test_effort_is_a_parameter_of_the_model(stand: Stand) -> None:
    answered = await ask(stand.openai, True, asking("say hello"), reasoning_effort="high")
    assert answered.message["reasoning_content"]
    given = {one.id: one.value for one in stand.record.received[0].run_request.requested_model.parameters}
    assert given["effort"] == "high"


# ── Tools ────────────────────────────────────────────────────────────────────────────────────────


@STREAMED_OR_WHOLE
async def test_a_tool_round_trip_is_one_run(stand: Stand, stream: bool) -> None:
    words = asking(scripted('text: Let me look.\ncall: get_weather {"city": "Oslo"}', "text: It is {{result}}."))
    first = await ask(stand.openai, stream, words, tools=TOOLS)
    assert (first.message["content"], first.finish_reason) == ("Let me look.", "tool_calls")
    (call,) = first.message["tool_calls"]
    assert CALL_ID.fullmatch(call["id"])
    assert (call["type"], call["function"]["name"]) == ("function", "get_weather")
    assert json.loads(call["function"]["arguments"]) == {"city": "Oslo"}
    result = {"role": "tool", "tool_call_id": call["id"], "content": "sunny"}
    second = await ask(stand.openai, stream, [*words, first.message, result], tools=TOOLS)
    assert (second.message["content"], second.finish_reason) == ("It is sunny.", "stop")
    assert stand.counted == (1, 2)


async def test_the_stream_helper_gathers_parallel_calls(client: AsyncOpenAI) -> None:
    words = asking("call get_weather with Oslo and call get_weather with Rome")
    async with client.chat.completions.stream(model=DEMO, messages=words, tools=TOOLS) as stream:
        final = await stream.get_final_completion()
    made = [call.function.arguments for call in final.choices[0].message.tool_calls or []]
    assert [json.loads(arguments) for arguments in made] == [{"city": "Oslo"}, {"city": "Rome"}]
    assert final.choices[0].finish_reason == "tool_calls"


@STREAMED_OR_WHOLE
async def test_each_leg_has_usage_of_its_own(stand: Stand, stream: bool) -> None:
    words = asking("call get_weather with Oslo")
    first = await ask(stand.openai, stream, words, tools=TOOLS)
    result = {"role": "tool", "tool_call_id": first.message["tool_calls"][0]["id"], "content": "sunny"}
    second = await ask(stand.openai, stream, [*words, first.message, result], tools=TOOLS)
    assert first.usage.completion_tokens > 0
    assert second.usage.completion_tokens > 0


# ── Pictures ─────────────────────────────────────────────────────────────────────────────────────

IMAGE = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{b64encode(PICTURE).decode()}"}}


@STREAMED_OR_WHOLE
async def test_a_picture_reaches_the_model(stand: Stand, stream: bool) -> None:
    answered = await ask(stand.openai, stream, asking([{"type": "text", "text": "What is it?"}, IMAGE]))
    assert answered.message["content"].startswith("I see 1 image.")
    message = stand.record.received[0].run_request.action.user_message_action.user_message
    (image,) = message.selected_context.selected_images
    assert (image.data, image.mime_type) == (PICTURE, "image/png")


@STREAMED_OR_WHOLE
async def test_a_picture_in_a_result_reaches_the_model(stand: Stand, stream: bool) -> None:
    words = asking("call get_weather with Oslo")
    first = await ask(stand.openai, stream, words, tools=TOOLS)
    call_id = first.message["tool_calls"][0]["id"]
    result = {"role": "tool", "tool_call_id": call_id, "content": [{"type": "text", "text": "a map"}, IMAGE]}
    second = await ask(stand.openai, stream, [*words, first.message, result], tools=TOOLS)
    assert "a map" in second.message["content"]
    (given,) = [one for found in stand.record.run.results.values() for one in found if one.HasField("mcp_result")]
    text, image = given.mcp_result.success.content
    assert (text.text.text, image.image.data, image.image.mime_type) == ("a map", PICTURE, "image/png")
    assert stand.counted == (1, 2)


# ── Errors ───────────────────────────────────────────────────────────────────────────────────────

ERRORS: list[tuple[Any, type[openai.APIStatusError], str]] = [
    ({"error": "outdated"}, openai.BadRequestError, "cursor_outdated_client"),
    ({"error": "too_long"}, openai.BadRequestError, "context_length_exceeded"),
    ({"error": "bad_tools"}, openai.BadRequestError, "cursor_bad_tools"),
    ({"error": "bad_model"}, openai.NotFoundError, "model_not_found"),
    ({"error": "quota"}, openai.APIStatusError, "cursor_quota"),
    ({"error": "region"}, openai.PermissionDeniedError, "cursor_region"),
    ({"error": "rate_limited"}, openai.RateLimitError, "cursor_rate_limited"),
    ({"error": "provider_for_good"}, openai.InternalServerError, "cursor_refused"),
    ({"status": {"code": 403, "body": "no"}}, openai.PermissionDeniedError, "cursor_forbidden"),
]


@STREAMED_OR_WHOLE
@pytest.mark.parametrize(("step", "error", "code"), ERRORS, ids=[code for _, _, code in ERRORS])
async def test_an_error_of_the_service_is_the_client_s_own_exception(
    stand: Stand, stream: bool, step: Any, error: type[openai.APIStatusError], code: str
) -> None:
    stand.plays([step] if "status" in step else ["open", step])
    with pytest.raises(error) as caught:
        await ask(stand.openai, stream, asking("hello"))
    assert caught.value.code == code


@STREAMED_OR_WHOLE
async def test_a_service_that_wants_to_be_left_alone_is_and_the_client_hears_for_how_long(
    stand: Stand, stream: bool
) -> None:
    stand.plays([{"status": {"code": 429, "headers": {"retry-after": "70"}}}])
    with pytest.raises(openai.RateLimitError) as caught:
        await ask(stand.openai, stream, asking("hello"))
    assert caught.value.response.headers["retry-after"] == "70"
    assert stand.sim.runs == 1


async def test_an_error_after_the_first_word_raises_in_the_stream(stand: Stand) -> None:
    stand.plays(["open", {"text": "Hel"}, {"pause": 0.01}, {"error": "quota"}])
    stream = await stand.openai.chat.completions.create(model=DEMO, messages=asking("hello"), stream=True)
    heard: list[str] = []
    with pytest.raises(openai.APIError, match="usage page"):
        await gather(stream, heard)
    assert "".join(heard) == "Hel"


async def gather(stream: AsyncIterator[ChatCompletionChunk], heard: list[str]) -> None:
    async for chunk in stream:
        heard += [choice.delta.content or "" for choice in chunk.choices]


@STREAMED_OR_WHOLE
@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("cursor/demo?mode=wild", "there is no mode 'wild'; there are `agent`, `ask`, `plan`, `debug`"),
        ("cursor/demo?mood=plan", "there is no option 'mood'"),
        ("cursor/demo?thinking=maybe", "thinking is `true` or `false`"),
    ],
)
async def test_an_option_of_the_model_that_does_not_exist_is_named(
    stand: Stand, stream: bool, model: str, said: str
) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        await ask(stand.openai, stream, asking("hello"), model=model)
    assert said in caught.value.message
    assert caught.value.param == "model"
    assert stand.sim.runs == 0


@STREAMED_OR_WHOLE
async def test_a_model_that_the_account_does_not_have_is_not_found(stand: Stand, stream: bool) -> None:
    with pytest.raises(openai.NotFoundError) as caught:
        await ask(stand.openai, stream, asking("hello"), model="cursor/nope")
    assert caught.value.code == "model_not_found"
