"""The official OpenAI client against the gateway, with every backend behind it."""

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any, Literal

import openai
import pytest
from openai import AsyncOpenAI, OpenAI
from openai.types.chat import ChatCompletion, ChatCompletionChunk, ChatCompletionMessage
from pydantic import BaseModel

from tests.cases import leg
from tests.e2e.support import (
    BACKENDS,
    DIALECTS,
    FORMAT_FIELDS,
    KEY,
    READS,
    READS_BOTH,
    Backend,
    Stand,
    calls,
    results_sent,
    text,
)
from tieline.model.content import Text, Thinking
from tieline.model.events import Failed, Usage
from tieline.sim.answers import streamed
from tieline.sim.model import Pause

Mode = Literal["whole", "streamed"]
MODES = pytest.mark.parametrize("mode", ["whole", "streamed"])

READ_TOOL: Any = {
    "type": "function",
    "function": {
        "name": "read_file",
        "description": "Read a file.",
        "parameters": {
            "type": "object",
            "properties": {"path": {"type": "string"}},
            "required": ["path"],
        },
    },
}
CLOCK_TOOL: Any = {"type": "function", "function": {"name": "clock", "description": "Tell the time."}}
TOOLS = [READ_TOOL, CLOCK_TOOL]
ASK: list[Any] = [{"role": "user", "content": "read README.md"}]


@pytest.fixture(scope="module")
def shared_client(shared_stand: Stand) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{shared_stand.url}/v1", api_key=KEY, max_retries=0) as client:
        yield client


@pytest.fixture
def client(shared_client: OpenAI, gateway: Stand) -> OpenAI:
    """The client, with a gateway that has forgotten the tests before."""
    return shared_client


@pytest.fixture
async def async_client(gateway: Stand) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key=KEY, max_retries=0) as client:
        yield client


# ── The four ways to ask ─────────────────────────────────────────────────────────────────────────


class Answered:
    """What came back, whichever way it came."""

    def __init__(self, message: dict[str, Any], finish_reason: str | None, usage: Any) -> None:
        self.message = message
        self.finish_reason = finish_reason
        self.usage = usage

    @property
    def calls(self) -> list[tuple[str, Any]]:
        functions = [call["function"] for call in self.message.get("tool_calls") or []]
        return [(function["name"], json.loads(function["arguments"])) for function in functions]

    @property
    def call_ids(self) -> list[str]:
        return [call["id"] for call in self.message["tool_calls"]]


def ask(client: OpenAI, mode: Mode, **question: Any) -> Answered:
    if mode == "whole":
        return _of_completion(client.chat.completions.create(**question))
    streaming: Any = {"stream": True, "stream_options": {"include_usage": True}}
    return _of_chunks(list(client.chat.completions.create(**question, **streaming)))


async def ask_async(client: AsyncOpenAI, mode: Mode, **question: Any) -> Answered:
    if mode == "whole":
        return _of_completion(await client.chat.completions.create(**question))
    streaming: Any = {"stream": True, "stream_options": {"include_usage": True}}
    stream = await client.chat.completions.create(**question, **streaming)
    return _of_chunks([chunk async for chunk in stream])


def _of_completion(completion: ChatCompletion) -> Answered:
    choice = completion.choices[0]
    return Answered(choice.message.model_dump(exclude_none=True), choice.finish_reason, completion.usage)


def _of_chunks(chunks: list[ChatCompletionChunk]) -> Answered:
    message: dict[str, Any] = {"role": "assistant", "content": None}
    finish_reason = None
    for chunk in chunks:
        for choice in chunk.choices:
            finish_reason = choice.finish_reason or finish_reason
            if choice.delta.content:
                message["content"] = (message["content"] or "") + choice.delta.content
            _add_calls(message, choice.delta.tool_calls or [])
    assert len({(chunk.id, chunk.created, chunk.model) for chunk in chunks}) == 1
    usages = [chunk.usage for chunk in chunks if chunk.usage]
    return Answered(message, finish_reason, usages[-1] if usages else None)


def _add_calls(message: dict[str, Any], deltas: list[Any]) -> None:
    calls = message.setdefault("tool_calls", []) if deltas else []
    for delta in deltas:
        if delta.index == len(calls):
            calls.append(
                {"id": delta.id, "type": delta.type, "function": {"name": delta.function.name, "arguments": ""}}
            )
        calls[delta.index]["function"]["arguments"] += delta.function.arguments or ""


def results(answered: Answered, *contents: str) -> list[Any]:
    """The conversation so far, with the results of the calls."""
    return [
        *ASK,
        answered.message,
        *(
            {"role": "tool", "tool_call_id": call_id, "content": content}
            for call_id, content in zip(answered.call_ids, contents, strict=True)
        ),
    ]


# ── Text ─────────────────────────────────────────────────────────────────────────────────────────


@BACKENDS
@MODES
def test_words_and_usage_arrive(client: OpenAI, gateway: Stand, backend: Backend, mode: Mode) -> None:
    usage = Usage(input=10, output=4, cache_read=90)
    model = gateway.script(backend, leg((Text(), ["Hello ", "wörld 😀"]), usage=usage))
    answered = ask(client, mode, model=model, messages=[{"role": "user", "content": "Hi"}])
    assert (answered.message["content"], answered.finish_reason) == ("Hello wörld 😀", "stop")
    assert (answered.usage.prompt_tokens, answered.usage.completion_tokens) == (100, 4)
    assert answered.usage.prompt_tokens_details.cached_tokens == 90


@BACKENDS
@MODES
async def test_words_arrive_asynchronously(
    async_client: AsyncOpenAI, gateway: Stand, backend: Backend, mode: Mode
) -> None:
    model = gateway.script(backend, text("Hel", "lo"))
    answered = await ask_async(async_client, mode, model=model, messages=ASK)
    assert (answered.message["content"], answered.finish_reason) == ("Hello", "stop")


@BACKENDS
@MODES
def test_thinking_is_shown_where_others_show_it(client: OpenAI, gateway: Stand, backend: Backend, mode: Mode) -> None:
    model = gateway.script(backend, leg((Thinking(), ["h", "m"]), (Text(), ["Hello"])))
    if mode == "whole":
        completion = client.chat.completions.create(model=model, messages=ASK)
        thought = getattr(completion.choices[0].message, "reasoning_content", None)
    else:
        chunks = client.chat.completions.create(model=model, messages=ASK, stream=True)
        thought = "".join(
            getattr(choice.delta, "reasoning_content", None) or "" for chunk in chunks for choice in chunk.choices
        )
    assert thought == "hm"


def test_a_client_that_did_not_ask_for_usage_gets_no_chunk_without_choices(client: OpenAI, gateway: Stand) -> None:
    model = gateway.script("ant", text("Hello"))
    chunks = list(client.chat.completions.create(model=model, messages=ASK, stream=True))
    assert all(len(chunk.choices) == 1 for chunk in chunks)


# ── Tools ────────────────────────────────────────────────────────────────────────────────────────


@BACKENDS
@MODES
def test_a_tool_round_trip(client: OpenAI, gateway: Stand, backend: Backend, mode: Mode) -> None:
    model = gateway.script(backend, READS, text("It says hello."))
    first = ask(client, mode, model=model, messages=ASK, tools=TOOLS)
    assert (first.calls, first.finish_reason) == ([("read_file", {"path": "README.md"})], "tool_calls")
    second = ask(client, mode, model=model, messages=results(first, "hello"), tools=TOOLS)
    assert (second.message["content"], second.finish_reason) == ("It says hello.", "stop")
    assert results_sent(backend, gateway.asked(backend)[-1]) == [("toolu_1", "hello")]


@BACKENDS
@MODES
async def test_a_tool_round_trip_asynchronously(
    async_client: AsyncOpenAI, gateway: Stand, backend: Backend, mode: Mode
) -> None:
    model = gateway.script(backend, READS_BOTH, text("Both are fine."))
    first = await ask_async(async_client, mode, model=model, messages=ASK, tools=TOOLS)
    assert first.calls == [("read_file", {"path": "a.py"}), ("read_file", {"path": "b.py"})]
    second = await ask_async(async_client, mode, model=model, messages=results(first, "1", "2"), tools=TOOLS)
    assert second.message["content"] == "Both are fine."
    assert results_sent(backend, gateway.asked(backend)[-1]) == [("toolu_1", "1"), ("toolu_2", "2")]


@BACKENDS
@MODES
def test_parallel_calls_come_with_their_own_index(client: OpenAI, gateway: Stand, backend: Backend, mode: Mode) -> None:
    model = gateway.script(backend, READS_BOTH, text("Both are fine."))
    first = ask(client, mode, model=model, messages=ASK, tools=TOOLS)
    assert first.calls == [("read_file", {"path": "a.py"}), ("read_file", {"path": "b.py"})]
    second = ask(client, mode, model=model, messages=results(first, "1", "2"), tools=TOOLS)
    assert second.message["content"] == "Both are fine."
    assert results_sent(backend, gateway.asked(backend)[-1]) == [("toolu_1", "1"), ("toolu_2", "2")]


@BACKENDS
@MODES
@pytest.mark.parametrize("pieces", [[], ["{}"]])
def test_003_a_tool_without_arguments_is_called_with_an_empty_object(
    client: OpenAI, gateway: Stand, backend: Backend, mode: Mode, pieces: list[str]
) -> None:
    model = gateway.script(backend, calls(("toolu_1", "clock", pieces)), text("Noon."))
    first = ask(client, mode, model=model, messages=ASK, tools=TOOLS)
    assert first.calls == [("clock", {})]
    second = ask(client, mode, model=model, messages=results(first, "12:00"), tools=TOOLS)
    assert second.message["content"] == "Noon."


@BACKENDS
@pytest.mark.parametrize("choice", ["auto", "none", "required", {"type": "function", "function": {"name": "clock"}}])
def test_every_tool_choice_is_understood_upstream(
    client: OpenAI, gateway: Stand, backend: Backend, choice: Any
) -> None:
    model = gateway.script(backend, text("ok"))
    ask(client, "whole", model=model, messages=ASK, tools=TOOLS, tool_choice=choice)
    sent = gateway.asked(backend)[0]["tool_choice"]
    if backend == "oai":
        assert sent == choice
    elif backend == "res":
        assert sent == (choice if isinstance(choice, str) else {"type": "function", "name": "clock"})
    else:
        expected = {"auto": "auto", "none": "none", "required": "any"}
        assert sent["type"] == (expected[choice] if isinstance(choice, str) else "tool")


# ── The client's own conveniences ────────────────────────────────────────────────────────────────


class Weather(BaseModel):
    city: str
    degrees: int


@BACKENDS
def test_structured_output_is_parsed(client: OpenAI, gateway: Stand, backend: Backend) -> None:
    model = gateway.script(backend, text('{"city":"Oslo",', '"degrees":3}'))
    completion = client.chat.completions.parse(model=model, messages=ASK, response_format=Weather)
    assert completion.choices[0].message.parsed == Weather(city="Oslo", degrees=3)
    sent = gateway.asked(backend)[0]
    assert "degrees" in json.dumps(sent[FORMAT_FIELDS[backend]])


@BACKENDS
async def test_structured_output_is_parsed_asynchronously(
    async_client: AsyncOpenAI, gateway: Stand, backend: Backend
) -> None:
    model = gateway.script(backend, text('{"city":"Oslo",', '"degrees":3}'))
    completion = await async_client.chat.completions.parse(model=model, messages=ASK, response_format=Weather)
    assert completion.choices[0].message.parsed == Weather(city="Oslo", degrees=3)


@BACKENDS
def test_the_stream_helper_gathers_text_and_calls(client: OpenAI, gateway: Stand, backend: Backend) -> None:
    model = gateway.script(backend, READS_BOTH)
    with client.chat.completions.stream(model=model, messages=ASK, tools=TOOLS) as stream:
        kinds = {event.type for event in stream}
        final = stream.get_final_completion()
    assert {"content.delta", "content.done", "tool_calls.function.arguments.done"} <= kinds
    check_both(final.choices[0].message)
    assert final.choices[0].finish_reason == "tool_calls"


@BACKENDS
async def test_the_stream_helper_gathers_asynchronously(
    async_client: AsyncOpenAI, gateway: Stand, backend: Backend
) -> None:
    model = gateway.script(backend, READS_BOTH)
    async with async_client.chat.completions.stream(model=model, messages=ASK, tools=TOOLS) as stream:
        final = await stream.get_final_completion()
    check_both(final.choices[0].message)


def check_both(message: ChatCompletionMessage) -> None:
    assert message.content == "Let me look."
    made = [call.function.arguments for call in message.tool_calls or [] if call.type == "function"]
    assert [json.loads(arguments) for arguments in made] == [{"path": "a.py"}, {"path": "b.py"}]


# ── The demo model ───────────────────────────────────────────────────────────────────────────────


@MODES
def test_the_demo_model_reads_a_file_with_the_tool_it_was_offered(client: OpenAI, mode: Mode) -> None:
    first = ask(client, mode, model="demo/scripted", messages=ASK, tools=TOOLS)
    assert (first.calls, first.finish_reason) == ([("read_file", {"path": "README.md"})], "tool_calls")
    second = ask(client, mode, model="demo/scripted", messages=results(first, "Tieline is a gateway."), tools=TOOLS)
    assert "Tieline is a gateway." in second.message["content"]
    assert second.finish_reason == "stop"


@MODES
async def test_the_demo_model_reads_a_file_asynchronously(async_client: AsyncOpenAI, mode: Mode) -> None:
    first = await ask_async(async_client, mode, model="demo/scripted", messages=ASK, tools=TOOLS)
    assert first.calls == [("read_file", {"path": "README.md"})]
    second = await ask_async(async_client, mode, model="demo/scripted", messages=results(first, "42"), tools=TOOLS)
    assert "42" in second.message["content"]


# ── Models and errors ────────────────────────────────────────────────────────────────────────────


def test_the_models_are_listed_and_found(client: OpenAI) -> None:
    names = [model.id for model in client.models.list()]
    assert {"ant/test-model", "oai/test-model", "demo/scripted"} <= set(names)
    assert client.models.retrieve("demo/scripted").id == "demo/scripted"


def test_a_model_nobody_has_is_not_found(client: OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as caught:
        client.models.retrieve("oai2/nothing")
    assert caught.value.code == "model_not_found"


REFUSALS: list[tuple[Failed, type[openai.APIStatusError]]] = [
    (Failed(kind="bad_request", message="too many tools", status=400), openai.BadRequestError),
    (Failed(kind="unauthorized", message="bad key", status=401), openai.AuthenticationError),
    (Failed(kind="forbidden", message="not for you", status=403), openai.PermissionDeniedError),
    (Failed(kind="not_found", message="no such model", status=404), openai.NotFoundError),
    (Failed(kind="rate_limited", message="slow down", status=429, retry_after=7), openai.RateLimitError),
    (Failed(kind="internal", message="oops", status=500), openai.InternalServerError),
    (Failed(kind="overloaded", message="busy", status=503), openai.InternalServerError),
]


@BACKENDS
@MODES
@pytest.mark.parametrize(("failure", "error"), REFUSALS, ids=lambda value: getattr(value, "kind", ""))
def test_an_error_of_the_upstream_is_the_clients_own_exception(
    client: OpenAI,
    gateway: Stand,
    backend: Backend,
    mode: Mode,
    failure: Failed,
    error: type[openai.APIStatusError],
) -> None:
    model = gateway.fail(backend, failure)
    with pytest.raises(error, match=failure.message) as caught:
        ask(client, mode, model=model, messages=ASK)
    if failure.retry_after:
        assert caught.value.response.headers["retry-after"] == "7"


@pytest.mark.parametrize(
    ("question", "param"),
    [
        ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages[0].content[0].text"),
        ({"messages": [{"role": "wizard", "content": "x"}]}, "messages[0].role"),
        ({"messages": ASK, "temperature": "hot"}, "temperature"),
    ],
)
def test_a_mistake_of_the_client_is_told_with_its_path(client: OpenAI, question: dict[str, Any], param: str) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(model="demo/scripted", **question)
    assert caught.value.param == param


def test_an_unknown_model_is_not_found(client: OpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match="oai/test-model"):
        client.chat.completions.create(model="oia/test-model", messages=ASK)


def test_a_wrong_key_is_refused(gateway: Stand) -> None:
    with (
        OpenAI(base_url=f"{gateway.url}/v1", api_key="wrong", max_retries=0) as client,
        pytest.raises(openai.AuthenticationError),
    ):
        client.chat.completions.create(model="demo/scripted", messages=ASK)


@BACKENDS
def test_073_an_error_inside_a_stream_raises_in_the_client(client: OpenAI, gateway: Stand, backend: Backend) -> None:
    pause = Pause()
    failure = Failed(kind="overloaded", message="Overloaded", status=529)
    model = gateway.answer(backend, streamed(DIALECTS[backend], [*text("Hel", "lo")[:3], pause, failure]))
    with client.chat.completions.create(model=model, messages=ASK, stream=True) as stream:
        next(stream)
        gateway.call(pause.set)
        with pytest.raises(openai.APIError, match="Overloaded"):
            list(stream)
