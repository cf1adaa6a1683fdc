"""The official Anthropic client against the gateway, with every backend behind it."""

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any, Literal

import anthropic
import pytest
from anthropic import Anthropic, AsyncAnthropic, beta_async_tool, beta_tool
from anthropic.types import Message
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
from tieline.model.events import Failed, Finished, StopReason, Usage
from tieline.sim.answers import streamed
from tieline.sim.model import Answer, Pause

Mode = Literal["whole", "streamed", "helper"]
MODES = pytest.mark.parametrize("mode", ["whole", "streamed", "helper"])

READ_TOOL: Any = {
    "name": "read_file",
    "description": "Read a file.",
    "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
}
CLOCK_TOOL: Any = {"name": "clock", "description": "Tell the time.", "input_schema": {"type": "object"}}
TOOLS = [READ_TOOL, CLOCK_TOOL]
ASK: list[Any] = [{"role": "user", "content": "read README.md"}]


@pytest.fixture(scope="module")
def shared_client(shared_stand: Stand) -> Iterator[Anthropic]:
    with Anthropic(base_url=shared_stand.url, api_key=KEY, max_retries=0) as client:
        yield client


@pytest.fixture
def client(shared_client: Anthropic, gateway: Stand) -> Anthropic:
    """The client, with a gateway that has forgotten the tests before."""
    return shared_client


@pytest.fixture
async def async_client(gateway: Stand) -> AsyncIterator[AsyncAnthropic]:
    async with AsyncAnthropic(base_url=gateway.url, api_key=KEY, max_retries=0) as client:
        yield client


# ── The ways to ask ──────────────────────────────────────────────────────────────────────────────


def ask(client: Anthropic, mode: Mode, **question: Any) -> Message:
    question = {"max_tokens": 1024, **question}
    match mode:
        case "whole":
            return client.messages.create(**question)  # type: ignore[no-any-return]  # overloads do not take **Any
        case "streamed":
            return gathered(list(client.messages.create(**question, stream=True)))
        case "helper":
            with client.messages.stream(**question) as stream:
                return stream.get_final_message()


async def ask_async(client: AsyncAnthropic, mode: Mode, **question: Any) -> Message:
    question = {"max_tokens": 1024, **question}
    match mode:
        case "whole":
            return await client.messages.create(**question)  # type: ignore[no-any-return]  # see above
        case "streamed":
            return gathered([event async for event in await client.messages.create(**question, stream=True)])
        case "helper":
            async with client.messages.stream(**question) as stream:
                return await stream.get_final_message()


def gathered(events: list[Any]) -> Message:
    """The message of a raw stream, put together without the client's helper."""
    kinds = [event.type for event in events]
    assert (kinds[0], kinds[-2:], kinds.count("message_delta")) == (
        "message_start",
        ["message_delta", "message_stop"],
        1,
    )
    message: dict[str, Any] = events[0].message.model_dump()
    pieces: list[list[str]] = []
    for event in events:
        match event.type:
            case "content_block_start":
                assert event.index == len(message["content"])
                message["content"].append(event.content_block.model_dump())
                pieces.append([])
            case "content_block_delta":
                _add(message["content"][event.index], pieces[event.index], event.delta)
            case "content_block_stop":
                block = message["content"][event.index]
                if block["type"] == "tool_use":
                    block["input"] = json.loads("".join(pieces[event.index]) or "{}")
            case "message_delta":
                message |= {"stop_reason": event.delta.stop_reason, "stop_sequence": event.delta.stop_sequence}
                message["usage"] |= event.usage.model_dump(exclude_none=True)
            case _:
                pass
    return Message.model_validate(message)


def _add(block: dict[str, Any], pieces: list[str], delta: Any) -> None:
    match delta.type:
        case "text_delta":
            block["text"] += delta.text
        case "thinking_delta":
            block["thinking"] += delta.thinking
        case "signature_delta":
            block["signature"] = delta.signature
        case "input_json_delta":
            pieces.append(delta.partial_json)
        case _:
            raise AssertionError(delta.type)


def words(message: Message) -> str:
    return "".join(block.text for block in message.content if block.type == "text")


def called(message: Message) -> list[tuple[str, Any]]:
    return [(block.name, block.input) for block in message.content if block.type == "tool_use"]


def results(message: Message, *contents: str) -> list[Any]:
    """The conversation so far, with the results of the calls."""
    ids = [block.id for block in message.content if block.type == "tool_use"]
    blocks = [
        {"type": "tool_result", "tool_use_id": call_id, "content": content}
        for call_id, content in zip(ids, contents, strict=True)
    ]
    return [*ASK, {"role": "assistant", "content": message.content}, {"role": "user", "content": blocks}]


# ── Text ─────────────────────────────────────────────────────────────────────────────────────────


@BACKENDS
@MODES
def test_words_and_usage_arrive(client: Anthropic, gateway: Stand, backend: Backend, mode: Mode) -> None:
    usage = Usage(input=10, output=4, cache_read=90)
    model = gateway.script(backend, leg((Text(), ["Hello ", "wörld 😀"]), usage=usage))
    message = ask(client, mode, model=model, messages=ASK)
    assert (words(message), message.stop_reason, message.model) == ("Hello wörld 😀", "end_turn", model)
    counted = message.usage
    assert (counted.input_tokens, counted.output_tokens, counted.cache_read_input_tokens) == (10, 4, 90)


@BACKENDS
@MODES
async def test_words_arrive_asynchronously(
    async_client: AsyncAnthropic, gateway: Stand, backend: Backend, mode: Mode
) -> None:
    model = gateway.script(backend, text("Hel", "lo"))
    message = await ask_async(async_client, mode, model=model, messages=ASK)
    assert (words(message), message.stop_reason) == ("Hello", "end_turn")


@MODES
def test_signed_thinking_goes_to_the_client_and_back_unaltered(client: Anthropic, gateway: Stand, mode: Mode) -> None:
    thought = (Thinking(signature="c2lnbmVk"), ["h", "m ä"])
    model = gateway.script("ant", leg(thought, (Text(), ["Hello"])), text("Again"))
    first = ask(client, mode, model=model, messages=ASK)
    block = first.content[0]
    assert block.type == "thinking"
    assert (block.thinking, block.signature) == ("hm ä", "c2lnbmVk")
    history = [*ASK, {"role": "assistant", "content": first.content}, {"role": "user", "content": "And?"}]
    ask(client, mode, model=model, messages=history)
    sent = gateway.asked("ant")[-1]["messages"][1]["content"][0]
    assert (sent["thinking"], sent["signature"]) == ("hm ä", "c2lnbmVk")


@MODES
def test_a_stop_sequence_is_named(client: Anthropic, gateway: Stand, mode: Mode) -> None:
    stopped = [*text("Hello")[:-1], Finished(reason=StopReason.STOP_SEQUENCE, sequence="END")]
    model = gateway.script("ant", stopped)
    message = ask(client, mode, model=model, messages=ASK, stop_sequences=["END"])
    assert (message.stop_reason, message.stop_sequence) == ("stop_sequence", "END")


# ── Tools ────────────────────────────────────────────────────────────────────────────────────────


@BACKENDS
@MODES
def test_a_tool_round_trip(client: Anthropic, gateway: Stand, backend: Backend, mode: Mode) -> None:
    model = gateway.script(backend, READS, text("It says hello."))
    first = ask(client, mode, model=model, messages=ASK, tools=TOOLS)
    assert (called(first), first.stop_reason) == ([("read_file", {"path": "README.md"})], "tool_use")
    second = ask(client, mode, model=model, messages=results(first, "hello"), tools=TOOLS)
    assert (words(second), second.stop_reason) == ("It says hello.", "end_turn")


@BACKENDS
@MODES
def test_parallel_calls_and_their_results(client: Anthropic, gateway: Stand, backend: Backend, mode: Mode) -> None:
    model = gateway.script(backend, READS_BOTH, text("Both are fine."))
    first = ask(client, mode, model=model, messages=ASK, tools=TOOLS)
    assert called(first) == [("read_file", {"path": "a.py"}), ("read_file", {"path": "b.py"})]
    history = results(first, "1", "2")
    history[-1]["content"].reverse()  # seen: results in the order of completion
    second = ask(client, mode, model=model, messages=history, tools=TOOLS)
    assert words(second) == "Both are fine."
    ids = [call_id for call_id, _ in results_sent(backend, gateway.asked(backend)[-1])]
    assert ids == ["toolu_1", "toolu_2"]


@BACKENDS
@MODES
async def test_a_tool_round_trip_asynchronously(
    async_client: AsyncAnthropic, gateway: Stand, backend: Backend, mode: Mode
) -> None:
    model = gateway.script(backend, READS_BOTH, text("Both are fine."))
    first = await ask_async(async_client, mode, model=model, messages=ASK, tools=TOOLS)
    second = await ask_async(async_client, mode, model=model, messages=results(first, "1", "2"), tools=TOOLS)
    assert (len(called(first)), words(second)) == (2, "Both are fine.")


@BACKENDS
@MODES
@pytest.mark.parametrize("pieces", [[], ["{}"]])
def test_003_a_tool_without_arguments_is_called_with_an_empty_object(
    client: Anthropic, gateway: Stand, backend: Backend, mode: Mode, pieces: list[str]
) -> None:
    model = gateway.script(backend, calls(("toolu_1", "clock", pieces)), text("Noon."))
    first = ask(client, mode, model=model, messages=ASK, tools=TOOLS)
    assert called(first) == [("clock", {})]
    second = ask(client, mode, model=model, messages=results(first, "12:00"), tools=TOOLS)
    assert words(second) == "Noon."


@BACKENDS
def test_090_an_id_of_another_dialect_is_plain_for_the_client_and_restored_upstream(
    client: Anthropic, gateway: Stand, backend: Backend
) -> None:
    odd = calls(("functions.clock:0", "clock", ["{}"]))
    model = gateway.script(backend, READS if backend == "ant" else odd, text("Noon."))
    first = ask(client, "streamed", model=model, messages=ASK, tools=TOOLS)
    (call_id,) = [block.id for block in first.content if block.type == "tool_use"]
    assert all(letter.isalnum() or letter in "_-" for letter in call_id)
    ask(client, "streamed", model=model, messages=results(first, "12:00"), tools=TOOLS)
    ((sent_id, _),) = results_sent(backend, gateway.asked(backend)[-1])
    assert sent_id == ("toolu_1" if backend == "ant" else "functions.clock:0")


# ── The client's own conveniences ────────────────────────────────────────────────────────────────


@beta_tool
def read_file(path: str) -> str:
    """Read a file.

    Args:
        path: Which one.
    """
    return f"the words of {path}"


@beta_async_tool
async def read_file_async(path: str) -> str:
    """Read a file.

    Args:
        path: Which one.
    """
    return f"the words of {path}"


@BACKENDS
@pytest.mark.parametrize("streaming", [False, True])
def test_the_tool_runner_falls_back_from_threads_to_the_full_history(
    client: Anthropic, gateway: Stand, backend: Backend, streaming: bool
) -> None:
    """Seen: it first asks for a thread on the server, which a gateway must refuse in the words it understands."""
    model = gateway.script(backend, READS_BOTH, text("Both are fine."))
    question: Any = {"model": model, "messages": ASK, "tools": [read_file], "max_tokens": 1024, "stream": streaming}
    runner = client.beta.messages.tool_runner(**question)
    final = runner.until_done()
    assert "".join(block.text for block in final.content if block.type == "text") == "Both are fine."
    assert len(gateway.asked(backend)) == 2
    sent = json.dumps(gateway.asked(backend)[-1])
    assert "the words of a.py" in sent
    assert "the words of b.py" in sent
    assert all("thread" not in body for body in gateway.asked(backend))


@BACKENDS
async def test_the_tool_runner_works_asynchronously(
    async_client: AsyncAnthropic, gateway: Stand, backend: Backend
) -> None:
    leg_of_calls = calls(("toolu_1", "read_file_async", ['{"path":"a.py"}']))
    model = gateway.script(backend, leg_of_calls, text("Fine."))
    question: Any = {"model": model, "messages": ASK, "tools": [read_file_async], "max_tokens": 1024}
    final = await async_client.beta.messages.tool_runner(**question).until_done()
    assert "".join(block.text for block in final.content if block.type == "text") == "Fine."


class Weather(BaseModel):
    city: str
    degrees: int


@BACKENDS
def test_structured_output_is_parsed(client: Anthropic, gateway: Stand, backend: Backend) -> None:
    model = gateway.script(backend, text('{"city":"Oslo",', '"degrees":3}'))
    parsed = client.messages.parse(model=model, max_tokens=1024, messages=ASK, output_format=Weather)
    assert parsed.parsed_output == Weather(city="Oslo", degrees=3)
    sent = gateway.asked(backend)[0]
    assert "degrees" in json.dumps(sent[FORMAT_FIELDS[backend]])


@BACKENDS
async def test_structured_output_is_parsed_asynchronously(
    async_client: AsyncAnthropic, gateway: Stand, backend: Backend
) -> None:
    model = gateway.script(backend, text('{"city":"Oslo",', '"degrees":3}'))
    parsed = await async_client.messages.parse(model=model, max_tokens=1024, messages=ASK, output_format=Weather)
    assert parsed.parsed_output == Weather(city="Oslo", degrees=3)


@BACKENDS
def test_the_stream_helper_tells_what_happens(client: Anthropic, gateway: Stand, backend: Backend) -> None:
    model = gateway.script(backend, READS)
    question: Any = {"model": model, "messages": ASK, "tools": TOOLS, "max_tokens": 1024}
    with client.messages.stream(**question) as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_message()
    assert {"text", "input_json", "content_block_stop", "message_stop"} <= set(kinds)
    assert (words(final), called(final)) == ("Let me look.", [("read_file", {"path": "README.md"})])


# ── The demo model ───────────────────────────────────────────────────────────────────────────────


@MODES
def test_the_demo_model_reads_a_file_with_the_tool_it_was_offered(client: Anthropic, mode: Mode) -> None:
    first = ask(client, mode, model="demo/scripted", messages=ASK, tools=TOOLS)
    assert (called(first), first.stop_reason) == ([("read_file", {"path": "README.md"})], "tool_use")
    second = ask(client, mode, model="demo/scripted", messages=results(first, "Tieline is a gateway."), tools=TOOLS)
    assert "Tieline is a gateway." in words(second)


@MODES
async def test_the_demo_model_reads_a_file_asynchronously(async_client: AsyncAnthropic, mode: Mode) -> None:
    first = await ask_async(async_client, mode, model="demo/scripted", messages=ASK, tools=TOOLS)
    second = await ask_async(async_client, mode, model="demo/scripted", messages=results(first, "42"), tools=TOOLS)
    assert "42" in words(second)


def test_the_demo_model_and_the_tool_runner(client: Anthropic) -> None:
    question: Any = {"model": "demo/scripted", "messages": ASK, "tools": [read_file], "max_tokens": 1024}
    final = client.beta.messages.tool_runner(**question).until_done()
    assert "the words of README.md" in "".join(block.text for block in final.content if block.type == "text")


# ── Models, counting, errors ─────────────────────────────────────────────────────────────────────


def test_the_models_are_listed_and_found(client: Anthropic) -> None:
    names = [model.id for model in client.models.list()]
    assert {"ant/test-model", "oai/test-model", "demo/scripted"} <= set(names)
    assert client.models.retrieve("demo/scripted").id == "demo/scripted"


def test_tokens_are_counted_by_an_upstream_that_can(client: Anthropic, gateway: Stand) -> None:
    gateway.upstreams["ant"].script("/v1/messages/count_tokens", Answer(body=b'{"input_tokens":77}'))
    assert client.messages.count_tokens(model="ant/test-model", messages=ASK, tools=TOOLS).input_tokens == 77


def test_tokens_are_estimated_elsewhere_and_that_is_said(client: Anthropic) -> None:
    raw = client.messages.with_raw_response.count_tokens(model="oai/test-model", messages=ASK, tools=TOOLS)
    assert raw.headers["x-tieline-token-count"] == "estimated"
    assert raw.parse().input_tokens > 10


@pytest.mark.parametrize("status", [404, 405])
@pytest.mark.parametrize("body", [b'{"detail":"Not Found"}', b"404 page not found"])
def test_tokens_are_estimated_if_the_upstream_has_no_such_endpoint(
    client: Anthropic, gateway: Stand, status: int, body: bytes
) -> None:
    gateway.upstreams["ant"].script("/v1/messages/count_tokens", Answer(status=status, body=body))
    raw = client.messages.with_raw_response.count_tokens(model="ant/test-model", messages=ASK, tools=TOOLS)
    assert raw.headers["x-tieline-token-count"] == "estimated"


def test_a_model_that_the_upstream_does_not_know_has_no_token_count(client: Anthropic, gateway: Stand) -> None:
    body = b'{"type":"error","error":{"type":"not_found_error","message":"model: test-model"}}'
    gateway.upstreams["ant"].script("/v1/messages/count_tokens", Answer(status=404, body=body))
    with pytest.raises(anthropic.NotFoundError, match="test-model"):
        client.messages.count_tokens(model="ant/test-model", messages=ASK)


REFUSALS: list[tuple[Failed, type[anthropic.APIStatusError]]] = [
    (Failed(kind="bad_request", message="too many tools", status=400), anthropic.BadRequestError),
    (Failed(kind="unauthorized", message="bad key", status=401), anthropic.AuthenticationError),
    (Failed(kind="forbidden", message="not for you", status=403), anthropic.PermissionDeniedError),
    (Failed(kind="not_found", message="no such model", status=404), anthropic.NotFoundError),
    (Failed(kind="rate_limited", message="slow down", status=429, retry_after=7), anthropic.RateLimitError),
    (Failed(kind="internal", message="oops", status=500), anthropic.InternalServerError),
    (Failed(kind="overloaded", message="busy", status=529), anthropic.InternalServerError),
]


@BACKENDS
@MODES
@pytest.mark.parametrize(("failure", "error"), REFUSALS, ids=lambda value: getattr(value, "kind", ""))
def test_an_error_of_the_upstream_is_the_clients_own_exception(
    client: Anthropic,
    gateway: Stand,
    backend: Backend,
    mode: Mode,
    failure: Failed,
    error: type[anthropic.APIStatusError],
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
        ({"messages": ASK, "extra_body": {"temperature": "hot"}}, "temperature"),
    ],
)
def test_a_mistake_of_the_client_is_told_with_its_path(client: Anthropic, question: dict[str, Any], param: str) -> None:
    with pytest.raises(anthropic.BadRequestError) as caught:
        client.messages.create(model="demo/scripted", max_tokens=10, **question)
    assert param in caught.value.message


def test_an_unknown_model_is_not_found(client: Anthropic) -> None:
    with pytest.raises(anthropic.NotFoundError, match="oai/test-model"):
        client.messages.create(model="oia/test-model", max_tokens=10, messages=ASK)


def test_a_wrong_key_is_refused(gateway: Stand) -> None:
    with (
        Anthropic(base_url=gateway.url, api_key="wrong", max_retries=0) as client,
        pytest.raises(anthropic.AuthenticationError),
    ):
        client.messages.create(model="demo/scripted", max_tokens=10, messages=ASK)


@BACKENDS
def test_073_an_error_inside_a_stream_raises_in_the_client(client: Anthropic, gateway: Stand, backend: Backend) -> None:
    pause = Pause()
    failure = Failed(kind="overloaded", message="Overloaded", status=529)
    model = gateway.answer(backend, streamed(DIALECTS[backend], [*text("Hel", "lo")[:3], pause, failure]))
    with client.messages.create(model=model, max_tokens=10, messages=ASK, stream=True) as stream:
        next(stream)
        gateway.call(pause.set)
        with pytest.raises(anthropic.APIError, match="Overloaded"):
            list(stream)
