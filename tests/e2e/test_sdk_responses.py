"""The Responses API of the official OpenAI client against the gateway, with every backend behind it."""

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any, Literal

import openai
import pytest
from openai import AsyncOpenAI, OpenAI
from openai.lib._tools import pydantic_function_tool
from openai.types.responses import Response
from pydantic import BaseModel

from tests.cases import PIXEL, leg
from tests.e2e.support import BACKENDS, DIALECTS, KEY, READS, READS_BOTH, Backend, Stand, text
from tieline.model.content import Text, Thinking, ToolCall
from tieline.model.events import Failed, StopReason, Usage
from tieline.sim.answers import streamed
from tieline.sim.model import Cut, Hang

Mode = Literal["whole", "streamed"]
MODES = pytest.mark.parametrize("mode", ["whole", "streamed"])

READ_TOOL: Any = {
    "type": "function",
    "name": "read_file",
    "description": "Read a file.",
    "parameters": {
        "type": "object",
        "properties": {"path": {"type": "string"}},
        "required": ["path"],
        "additionalProperties": False,
    },
    "strict": True,
}
DEMO = "demo/scripted"


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


def ask(client: OpenAI, mode: Mode, **question: Any) -> Response:
    """The response, whichever way it comes; the helper of the client checks the order of a stream."""
    question = {"input": "Hi", **question}
    if mode == "whole":
        response: Response = client.responses.create(**question)
        return response
    with client.responses.stream(**question) as stream:
        events = list(stream)
        final = stream.get_final_response()
    assert [event.sequence_number for event in events] == list(range(len(events)))
    done: list[Any] = [event.item for event in events if event.type == "response.output_item.done"]
    output: list[Any] = list(final.output)
    assert [item.id for item in done] == [item.id for item in output]
    return final


def called(response: Response) -> list[tuple[str, Any]]:
    calls = [item for item in response.output if item.type == "function_call"]
    return [(call.name, json.loads(call.arguments)) for call in calls]


def results(response: Response, *contents: str) -> list[Any]:
    calls = [item for item in response.output if item.type == "function_call"]
    return [
        {"type": "function_call_output", "call_id": call.call_id, "output": content}
        for call, content in zip(calls, contents, strict=True)
    ]


# ── Answers ──────────────────────────────────────────────────────────────────────────────────────


@BACKENDS
@MODES
def test_words_and_usage_arrive(client: OpenAI, gateway: Stand, backend: Backend, mode: Mode) -> None:
    usage = Usage(input=10, output=4, cache_read=90)
    model = gateway.script(backend, leg((Text(), ["Hello ", "wörld 😀"]), usage=usage))
    response = ask(client, mode, model=model, instructions="Be brief.")
    assert (response.output_text, response.status, response.model) == ("Hello wörld 😀", "completed", model)
    assert response.usage is not None
    assert (response.usage.input_tokens, response.usage.output_tokens) == (100, 4)
    assert response.usage.input_tokens_details.cached_tokens == 90
    assert "Be brief." in json.dumps(gateway.asked(backend)[-1])


@MODES
def test_the_demo_model_answers(client: OpenAI, mode: Mode) -> None:
    response = ask(client, mode, model=DEMO, input="say hello")
    assert response.output_text
    second = ask(client, mode, model=DEMO, input="say hello", previous_response_id=response.id)
    assert second.previous_response_id == response.id


@BACKENDS
def test_deltas_come_one_by_one(client: OpenAI, gateway: Stand, backend: Backend) -> None:
    model = gateway.script(backend, text("one ", "two ", "three"))
    with client.responses.stream(model=model, input="count") as stream:
        pieces = [event.delta for event in stream if event.type == "response.output_text.delta"]
    assert pieces == ["one ", "two ", "three"]


@BACKENDS
async def test_the_asynchronous_client_streams(async_client: AsyncOpenAI, gateway: Stand, backend: Backend) -> None:
    model = gateway.script(backend, text("one ", "two"))
    async with async_client.responses.stream(model=model, input="count") as stream:
        kinds = [event.type async for event in stream]
        final = await stream.get_final_response()
    assert (kinds[0], kinds[-1]) == ("response.created", "response.completed")
    assert final.output_text == "one two"


@BACKENDS
@MODES
def test_a_length_limit_is_an_incomplete_response(client: OpenAI, gateway: Stand, backend: Backend, mode: Mode) -> None:
    model = gateway.script(backend, leg((Text(), ["Once upon"]), reason=StopReason.MAX_TOKENS))
    if mode == "whole":
        response = client.responses.create(model=model, input="Hi", max_output_tokens=16)
    else:
        *_, last = client.responses.create(model=model, input="Hi", max_output_tokens=16, stream=True)
        assert last.type == "response.incomplete"
        response = last.response
    assert response.status == "incomplete"
    assert response.incomplete_details is not None
    assert response.incomplete_details.reason == "max_output_tokens"
    assert response.output_text == "Once upon"


class Animal(BaseModel):
    name: str
    legs: int


@BACKENDS
@MODES
def test_an_answer_is_parsed(client: OpenAI, gateway: Stand, backend: Backend, mode: Mode) -> None:
    answer = '{"name":"cat","legs":4}'
    called_it = leg((ToolCall(id="toolu_1", name="Animal"), [answer]), reason=StopReason.TOOL_USE)
    model = gateway.script(backend, text(answer[:9], answer[9:]), called_it)
    if mode == "whole":
        parsed = client.responses.parse(model=model, input="A cat", text_format=Animal).output_parsed
    else:
        with client.responses.stream(model=model, input="A cat", text_format=Animal) as stream:
            list(stream)
            parsed = stream.get_final_response().output_parsed
    assert parsed == Animal(name="cat", legs=4)
    function: Any = pydantic_function_tool(Animal)["function"]
    tool: Any = {"type": "function", **function}
    response = client.responses.parse(model=model, input="A cat", tools=[tool])
    (call,) = [item for item in response.output if item.type == "function_call"]
    assert (call.name, json.loads(call.arguments)) == ("Animal", {"name": "cat", "legs": 4})


@BACKENDS
@MODES
def test_reasoning_is_shown_and_sent_back(client: OpenAI, gateway: Stand, backend: Backend, mode: Mode) -> None:
    thought = leg((Thinking(signature="c2ln" if backend == "ant" else None), ["Let me ", "see."]), (Text(), ["42"]))
    model = gateway.script(backend, thought, text("Because."))
    response = ask(client, mode, model=model, reasoning={"effort": "low"}, include=["reasoning.encrypted_content"])
    reasoning = response.output[0]
    assert reasoning.type == "reasoning"
    assert [part.text for part in reasoning.summary] == ["Let me see."]
    assert response.output_text == "42"
    again = [{"role": "user", "content": "Hi"}, *response.output, {"role": "user", "content": "Why?"}]
    ask(client, mode, model=model, input=again, reasoning={"effort": "low"}, store=False)
    if backend == "ant":
        sent = gateway.asked(backend)[-1]["messages"][1]["content"][0]
        assert (sent["type"], sent["thinking"], sent["signature"]) == ("thinking", "Let me see.", "c2ln")


@BACKENDS
def test_images_reach_the_model(client: OpenAI, gateway: Stand, backend: Backend) -> None:
    model = gateway.script(backend, text("A pixel."))
    image = {"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}", "detail": "auto"}
    content = [{"type": "input_text", "text": "What is this?"}, image]
    question: Any = [{"role": "user", "content": content}]
    assert client.responses.create(model=model, input=question).output_text == "A pixel."
    assert PIXEL in json.dumps(gateway.asked(backend)[-1])


# ── Tools ────────────────────────────────────────────────────────────────────────────────────────


@BACKENDS
@MODES
def test_a_call_is_answered_by_the_id_of_its_response(
    client: OpenAI, gateway: Stand, backend: Backend, mode: Mode
) -> None:
    model = gateway.script(backend, READS, text("It is about tools."))
    first = ask(client, mode, model=model, input="read README.md", tools=[READ_TOOL])
    assert called(first) == [("read_file", {"path": "README.md"})]
    given = results(first, "# Tools")
    second = ask(client, mode, model=model, input=given, tools=[READ_TOOL], previous_response_id=first.id)
    assert second.output_text == "It is about tools."
    assert "# Tools" in json.dumps(gateway.asked(backend)[-1])


@BACKENDS
@MODES
def test_calls_at_once_are_answered_with_the_whole_history(
    client: OpenAI, gateway: Stand, backend: Backend, mode: Mode
) -> None:
    model = gateway.script(backend, READS_BOTH, text("Both are empty."))
    asked = [{"role": "user", "content": "read both"}]
    first = ask(client, mode, model=model, input=asked, tools=[READ_TOOL], store=False)
    assert called(first) == [("read_file", {"path": "a.py"}), ("read_file", {"path": "b.py"})]
    history = [*asked, *first.output, *results(first, "", "")]
    second = ask(client, mode, model=model, input=history, tools=[READ_TOOL], store=False)
    assert second.output_text == "Both are empty."


def test_arguments_stream_as_they_come(client: OpenAI, gateway: Stand) -> None:
    model = gateway.script("ant", READS)
    with client.responses.stream(model=model, input="read", tools=[READ_TOOL]) as stream:
        events: list[Any] = [event for event in stream if "function_call_arguments" in event.type]
    assert "".join(event.delta for event in events[:-1]) == '{"path":"README.md"}'
    assert len(events) > 2
    assert (events[-1].type, events[-1].arguments) == (
        "response.function_call_arguments.done",
        '{"path":"README.md"}',
    )


# ── What is stored ───────────────────────────────────────────────────────────────────────────────


def test_a_stored_response_is_retrieved_listed_and_removed(client: OpenAI) -> None:
    first = client.responses.create(model=DEMO, input="say hello", metadata={"topic": "salt"})
    second = client.responses.create(model=DEMO, input="say hello", previous_response_id=first.id)
    kept = client.responses.retrieve(second.id)
    assert (kept.output_text, kept.previous_response_id) == (second.output_text, first.id)
    assert client.responses.retrieve(first.id).metadata == {"topic": "salt"}
    listed = client.responses.input_items.list(second.id, order="asc", limit=1)  # in three pages
    assert [item.type == "message" and item.role for item in listed] == ["user", "assistant", "user"]
    client.responses.delete(second.id)
    with pytest.raises(openai.NotFoundError, match="not found"):
        client.responses.retrieve(second.id)
    with pytest.raises(openai.BadRequestError) as refused:
        client.responses.create(model=DEMO, input="Hi", previous_response_id=second.id)
    assert (refused.value.code, refused.value.param) == ("previous_response_not_found", "previous_response_id")


def test_a_background_response_is_followed_and_cancelled(client: OpenAI, gateway: Stand) -> None:
    model = gateway.script("oai", text("one ", "two"))
    begun = client.responses.create(model=model, input="count", background=True)
    assert begun.status == "queued"
    events = list(client.responses.retrieve(begun.id, stream=True, starting_after=1))
    assert (events[0].sequence_number, events[-1].type) == (2, "response.completed")
    assert client.responses.retrieve(begun.id).output_text == "one two"
    assert client.responses.cancel(begun.id).status == "completed"
    gateway.answer("oai", streamed(DIALECTS["oai"], [*text("one")[:3], Hang()]))
    endless = client.responses.create(model=model, input="count", background=True)
    assert client.responses.cancel(endless.id).status == "cancelled"
    assert client.responses.retrieve(endless.id).status == "cancelled"
    with pytest.raises(openai.BadRequestError, match="background"):
        client.responses.cancel(client.responses.create(model=DEMO, input="Hi").id)


def test_a_conversation_is_kept(client: OpenAI) -> None:
    talk = client.conversations.create(metadata={"topic": "salt"}, items=[{"role": "user", "content": "Be brief."}])
    response = client.responses.create(model=DEMO, input="say hello", conversation=talk.id)
    assert response.conversation is not None
    assert response.conversation.id == talk.id
    assert [item.type for item in client.conversations.items.list(talk.id, order="asc")] == ["message"] * 3
    added = client.conversations.items.create(talk.id, items=[{"role": "user", "content": "More."}])
    assert client.conversations.items.retrieve(added.data[0].id or "", conversation_id=talk.id).type == "message"
    client.conversations.items.delete(added.data[0].id or "", conversation_id=talk.id)
    assert client.conversations.update(talk.id, metadata={"topic": "sugar"}).metadata == {"topic": "sugar"}
    assert client.conversations.retrieve(talk.id).metadata == {"topic": "sugar"}
    assert client.conversations.delete(talk.id).deleted
    with pytest.raises(openai.NotFoundError):
        client.conversations.retrieve(talk.id)


@BACKENDS
@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")  # the client has no type for a user's message here
def test_a_conversation_is_compacted_and_continued(client: OpenAI, gateway: Stand, backend: Backend) -> None:
    model = gateway.script(backend, text("They talked about salt."), text("Sodium chloride."))
    talk: Any = [{"role": "user", "content": "What is salt?"}, {"role": "assistant", "content": "A mineral."}]
    compacted = client.responses.compact(model=model, input=talk)
    assert [item.type for item in compacted.output] == ["message", "compaction"]
    more: Any = [*compacted.output, {"role": "user", "content": "Which one?"}]
    assert client.responses.create(model=model, input=more).output_text == "Sodium chloride."
    assert "They talked about salt." in json.dumps(gateway.asked(backend)[-1])


def test_tokens_are_counted(client: OpenAI) -> None:
    assert client.responses.input_tokens.count(model=DEMO, input="x" * 4000).input_tokens >= 1000


# ── Over a WebSocket ─────────────────────────────────────────────────────────────────────────────


@BACKENDS
@pytest.mark.filterwarnings("ignore:connect\\(\\) must be used:DeprecationWarning")  # the client connects like that
def test_responses_are_chained_on_a_connection(client: OpenAI, gateway: Stand, backend: Backend) -> None:
    model = gateway.script(backend, READS, text("It is about tools."))
    with client.responses.connect() as connection:

        def answer(**question: Any) -> Response:
            connection.response.create(model=model, store=False, tools=[READ_TOOL], **question)
            for event in connection:
                if event.type == "response.completed":
                    return event.response
            raise AssertionError("the connection was closed")

        first = answer(input="read README.md")
        assert called(first) == [("read_file", {"path": "README.md"})]
        second = answer(input=results(first, "# Tools"), previous_response_id=first.id)
        assert second.output_text == "It is about tools."


# ── Failures ─────────────────────────────────────────────────────────────────────────────────────


@BACKENDS
@MODES
def test_a_refusal_of_the_upstream_is_an_error_of_the_client(
    client: OpenAI, gateway: Stand, backend: Backend, mode: Mode
) -> None:
    model = gateway.fail(backend, Failed(kind="rate_limited", message="Slow down.", status=429))
    with pytest.raises(openai.RateLimitError, match=r"Slow down\."):
        ask(client, mode, model=model)


@BACKENDS
def test_a_broken_stream_is_a_failed_response(client: OpenAI, gateway: Stand, backend: Backend) -> None:
    model = gateway.answer(backend, streamed(DIALECTS[backend], [*text("Hel", "lo")[:3], Cut()]))
    *_, last = client.responses.create(model=model, input="Hi", stream=True)
    assert last.type == "response.failed"
    assert last.response.error is not None
    assert last.response.error.code == "server_error"


def test_a_wrong_field_is_named(client: OpenAI) -> None:
    wrong: Any = [{"role": "user", "content": 5}]
    with pytest.raises(openai.BadRequestError) as refused:
        client.responses.create(model=DEMO, input=wrong)
    assert refused.value.param == "input[0].content"
