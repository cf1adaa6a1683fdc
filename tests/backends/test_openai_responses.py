"""Upstreams with the Responses API: which API is used, what is sent, and what is sent again after an error."""

import json
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest
from msgspec.structs import replace

from tests.cases import READ, STARTED, asks, leg, says
from tests.each import each
from tieline.app.build.upstreams import upstream_backend
from tieline.app.config import UpstreamSettings
from tieline.backends.http_api.openai import OpenAIBackend
from tieline.model.content import Message, Text, Thinking, ToolCall, ToolResult
from tieline.model.events import Event, Failed, Finished, Note, PartEnd, StopReason, source_of
from tieline.model.ports import Run
from tieline.model.request import Request
from tieline.net.client.http import HttpClient
from tieline.sim.answers import CHAT, RESPONSES, failed, streamed, whole
from tieline.sim.model import Answer, ModelServer
from tieline.wire import openai_chat, openai_responses
from tieline.wire.shared.conversations import conversation_cache

HELLO = leg((Text(), ["Hel", "lo"]))
SIGNED = Thinking(text="hm", signature="openai:rs_1:gAAA")
NOT_FOUND = Failed(kind="not_found", message="Not Found", status=404)


@pytest.fixture
async def upstream() -> AsyncIterator[ModelServer]:
    async with ModelServer() as server:
        yield server


@pytest.fixture
async def client() -> AsyncIterator[HttpClient]:
    client = HttpClient()
    yield client
    await client.aclose()


class Stand:
    """A backend and the upstream that it reaches."""

    def __init__(self, upstream: ModelServer, client: HttpClient, **settings: Any) -> None:
        self.upstream = upstream
        own = UpstreamSettings(kind="openai", base_url=f"{upstream.url}/v1", retries=0, **settings)
        backend = upstream_backend(
            "up", own, None, client=client, new_leg_id=lambda: "leg_1", conversations=conversation_cache()
        )
        assert isinstance(backend, OpenAIBackend)
        self.backend = backend

    async def run(self, request: Request) -> list[Event]:
        return await events_of(await self.backend.start(request))

    @property
    def paths(self) -> list[str]:
        return [request.path for request in self.upstream.requests]

    @property
    def bodies(self) -> list[Any]:
        return [request.json for request in self.upstream.requests]


async def events_of(run: Run) -> list[Event]:
    return [event async for batch in run.leg() for event in batch]


def own_request(**fields: Any) -> Request:
    """A request of a Responses client."""
    body = {"model": "m", "input": [{"role": "user", "content": "Hi"}], **fields}
    return openai_responses.parse_request(json.dumps(body).encode())


def chat_request() -> Request:
    return openai_chat.parse_request(b'{"model":"m","messages":[{"role":"user","content":"Hi"}]}')


def text_in(events: list[Event]) -> str:
    parts = [event.part for event in events if isinstance(event, PartEnd)]
    return "".join(part.text for part in parts if isinstance(part, Text))


# ── Which API ────────────────────────────────────────────────────────────────────────────────────


@each(
    ("api", "own", "other"),
    [(None, CHAT, CHAT), ("chat", CHAT, CHAT), ("responses", RESPONSES, RESPONSES), ("auto", RESPONSES, CHAT)],
)
async def test_the_setting_decides_which_api_is_used(api: Any, own: str, other: str) -> None:
    async with ModelServer() as upstream:
        upstream.default(CHAT, whole("openai", HELLO))
        upstream.default(RESPONSES, whole("responses", HELLO))
        client = HttpClient()
        stand = Stand(upstream, client, api=api)
        assert text_in(await stand.run(own_request())) == "Hello"
        assert text_in(await stand.run(chat_request())) == "Hello"
        await client.aclose()
        assert stand.paths == [own, other]


async def test_an_upstream_without_responses_gets_chat_from_then_on(
    upstream: ModelServer, client: HttpClient, caplog: pytest.LogCaptureFixture
) -> None:
    for status in (404, 405):
        upstream.forget()
        caplog.clear()
        upstream.default(RESPONSES, Answer(status=status, body=b"404 page not found"))
        upstream.default(CHAT, whole("openai", HELLO))
        stand = Stand(upstream, client, api="auto")
        with caplog.at_level(logging.WARNING):
            assert text_in(await stand.run(own_request())) == "Hello"
            assert text_in(await stand.run(own_request())) == "Hello"
        assert stand.paths == [RESPONSES, CHAT, CHAT]
        assert [record.getMessage() for record in caplog.records] == [
            "upstream up has no /v1/responses; sending requests to /v1/chat/completions from now on"
        ]


async def test_a_missing_model_does_not_change_the_api(upstream: ModelServer, client: HttpClient) -> None:
    upstream.script(RESPONSES, failed("responses", NOT_FOUND))
    upstream.script(CHAT, failed("openai", NOT_FOUND))
    for code in ("model_not_found", "previous_response_not_found"):
        upstream.script(RESPONSES, failed("responses", replace(NOT_FOUND, code=code)))
    upstream.script(RESPONSES, whole("responses", HELLO))
    stand = Stand(upstream, client, api="auto")
    for _ in range(3):
        last = (await stand.run(own_request()))[-1]
        assert isinstance(last, Failed)
        assert last.status == 404
    assert text_in(await stand.run(own_request())) == "Hello"
    assert stand.paths == [RESPONSES, CHAT, RESPONSES, RESPONSES, RESPONSES]


async def test_if_only_responses_is_configured_a_missing_one_is_an_error(
    upstream: ModelServer, client: HttpClient
) -> None:
    upstream.default(RESPONSES, failed("responses", NOT_FOUND))
    stand = Stand(upstream, client, api="responses")
    assert isinstance((await stand.run(own_request()))[-1], Failed)
    assert stand.paths == [RESPONSES]


# ── What is sent ─────────────────────────────────────────────────────────────────────────────────


@each("stream", [True, False])
async def test_049_reasoning_goes_back_with_the_results_of_its_calls(stream: bool) -> None:
    made = ToolCall(id="call_1", name="read")
    first = leg((SIGNED, ["hm"]), (made, ['{"path":"a"}']), reason=StopReason.TOOL_USE)
    async with ModelServer() as upstream:
        upstream.script(RESPONSES, *((streamed if stream else whole)("responses", events) for events in (first, HELLO)))
        client = HttpClient()
        stand = Stand(upstream, client, api="responses")
        run = await stand.backend.start(asks("Hi", tools=(READ,), stream=stream))
        await events_of(run)
        await run.answer([ToolResult(call_id="call_1", content=(Text(text="print(1)"),))])
        assert text_in(await events_of(run)) == "Hello"
        await client.aclose()
    before, after = stand.bodies
    assert (before["store"], before["include"]) == (False, ["reasoning.encrypted_content"])
    assert after["input"][1:] == [
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [{"type": "summary_text", "text": "hm"}],
            "encrypted_content": "gAAA",
        },
        {"type": "function_call", "call_id": "call_1", "name": "read", "arguments": '{"path":"a"}'},
        {"type": "function_call_output", "call_id": "call_1", "output": "print(1)"},
    ]


async def test_a_run_with_a_stateful_upstream_sends_only_the_results(upstream: ModelServer, client: HttpClient) -> None:
    first = leg((ToolCall(id="call_1", name="read"), ['{"path":"a"}']), reason=StopReason.TOOL_USE)
    result = ToolResult(call_id="call_1", content=(Text(text="print(1)"),))
    output = {"type": "function_call_output", "call_id": "call_1", "output": "print(1)"}
    stand = Stand(upstream, client, api="responses", stateful=True)
    for may_store, length in ((True, 1), (False, 3)):
        upstream.forget()
        upstream.script(RESPONSES, whole("responses", first), whole("responses", HELLO))
        run = await stand.backend.start(asks("Hi", tools=(READ,), may_store=may_store))
        await events_of(run)
        await run.answer([result])
        assert text_in(await events_of(run)) == "Hello"
        before, after = stand.bodies
        assert (before["store"], after["store"]) == (may_store, may_store)
        assert after.get("previous_response_id") == (STARTED.id if may_store else None)
        assert (len(after["input"]), after["input"][-1]) == (length, output)


async def test_a_replayed_history_is_noted(upstream: ModelServer, client: HttpClient) -> None:
    stand = Stand(upstream, client, api="responses", stateful=True)
    upstream.script(RESPONSES, whole("responses", HELLO))
    first = await stand.run(asks("Hi", may_store=True))
    assert isinstance(first[-1], Finished)
    upstream.script(RESPONSES, refused("Previous response with id 'x' not found."), whole("responses", HELLO))
    events = await stand.run(replace(asks(*HISTORY), may_store=True, checkpoint=first[-1].checkpoint))
    assert [len(body["input"]) for body in stand.bodies] == [1, 1, 4]
    notes = [event.message for event in events if isinstance(event, Note) and event.kind == "retry"]
    assert notes == ["the upstream could not continue its response; the whole history was sent"]


# ── What is sent again ───────────────────────────────────────────────────────────────────────────

HISTORY = (
    says("user", "Hi"),
    Message(role="assistant", parts=(SIGNED, Text(text="Hello!"))),
    says("user", "And now?"),
)
UNKNOWN_ITEM = "Item with id 'rs_1' not found. Items are not persisted when `store` is set to false."


def refused(message: str, code: str | None = None) -> Answer:
    return failed("responses", Failed(kind="bad_request", message=message, status=400, code=code))


async def test_r11_ids_that_the_upstream_does_not_know_are_left_out_once(
    upstream: ModelServer, client: HttpClient
) -> None:
    upstream.script(RESPONSES, refused(UNKNOWN_ITEM), whole("responses", HELLO))
    stand = Stand(upstream, client, api="responses")
    events = await stand.run(asks(*HISTORY))
    assert text_in(events) == "Hello"
    assert [body["input"][1].get("id") for body in stand.bodies] == ["rs_1", None]
    notes = [event for event in events if isinstance(event, Note) and event.kind == "retry"]
    assert ["ids of earlier items" in note.message for note in notes] == [True]


async def test_r12_reasoning_that_the_upstream_cannot_read_is_left_out_once(
    upstream: ModelServer, client: HttpClient
) -> None:
    unreadable = "The encrypted content gAAA could not be verified."
    upstream.script(RESPONSES, refused(unreadable), refused(unreadable))
    stand = Stand(upstream, client, api="responses")
    last = (await stand.run(asks(*HISTORY)))[-1]
    assert isinstance(last, Failed)
    assert [[item["type"] for item in body["input"]] for body in stand.bodies] == [
        ["message", "reasoning", "message", "message"],
        ["message", "message", "message"],
    ]


async def test_r12_a_stream_that_fails_for_that_reason_is_repeated_too(
    upstream: ModelServer, client: HttpClient
) -> None:
    error = {"code": "invalid_encrypted_content", "message": "no"}
    frames = [
        {"type": "response.created", "response": {"id": "resp_1", "model": "m"}},
        {"type": "response.failed", "response": {"status": "failed", "error": error}},
    ]
    chunks = [b"data: %b\n\n" % json.dumps(frame).encode() for frame in frames]
    upstream.script(RESPONSES, Answer(chunks=chunks), streamed("responses", HELLO))
    stand = Stand(upstream, client, api="responses")
    events = await stand.run(asks(*HISTORY, stream=True))
    assert events[-1] == Finished(reason=StopReason.END_TURN)
    assert text_in(events) == "Hello"


async def test_a_model_without_encrypted_reasoning_is_asked_for_it_only_once(
    upstream: ModelServer, client: HttpClient
) -> None:
    upstream.script(RESPONSES, refused("Encrypted content is not supported with this model."))
    upstream.default(RESPONSES, whole("responses", HELLO))
    stand = Stand(upstream, client, api="responses")
    for request in (asks("Hi"), asks("Hi"), own_request(model="other")):
        assert text_in(await stand.run(request)) == "Hello"
    includes = [body.get("include") for body in stand.bodies]
    assert includes == [["reasoning.encrypted_content"], [], None, ["reasoning.encrypted_content"]]


async def test_a_client_of_the_same_protocol_gets_the_bytes_of_the_upstream(
    upstream: ModelServer, client: HttpClient
) -> None:
    answer = streamed("responses", HELLO)
    upstream.default(RESPONSES, answer)
    run = await Stand(upstream, client, api="auto").backend.start(own_request(stream=True))
    sources = [source_of(batch) async for batch in run.leg()]
    assert b"".join(source.text for source in sources if source is not None) == b"".join(
        chunk for chunk in answer.all_chunks if isinstance(chunk, bytes)
    )


async def test_both_may_be_needed_for_one_request(upstream: ModelServer, client: HttpClient) -> None:
    unreadable = refused("no", "invalid_encrypted_content")
    upstream.script(RESPONSES, refused(UNKNOWN_ITEM), unreadable, whole("responses", HELLO))
    stand = Stand(upstream, client, api="responses")
    assert text_in(await stand.run(asks(*HISTORY))) == "Hello"
    assert len(stand.bodies) == 3
