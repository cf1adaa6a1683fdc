"""What must arrive on the other side of the gateway, seen with the official clients and plain HTTP."""

import json
from typing import Any

import pytest
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI
from pydantic import BaseModel

from tests.catalogue.checks import chat_reply, message_reply
from tests.catalogue.crossing import Protocol, chat_stream, message_stream
from tests.catalogue.serving import CLIENTS, KEY, MODEL, STREAMED_OR_WHOLE, Stand, says, serving
from tieline.sim.model import Answer, Pause


class City(BaseModel):
    name: str


def openai_client(stand: Stand) -> AsyncOpenAI:
    return AsyncOpenAI(base_url=f"{stand.url}/v1", api_key=KEY, max_retries=0)


def anthropic_client(stand: Stand) -> AsyncAnthropic:
    return AsyncAnthropic(base_url=stand.url, api_key=KEY, max_retries=0)


def streamed(data: bytes) -> Answer:
    return Answer(chunks=(data,))


# ── Refusals ─────────────────────────────────────────────────────────────────────────────────────


async def test_a_refusal_is_one_for_the_parse_helper_of_the_official_client() -> None:
    asked: Any = {"model": f"oai/{MODEL}", "messages": [{"role": "user", "content": "Hi"}], "response_format": City}
    async with serving() as stand, openai_client(stand) as client:
        stand.script("oai", Answer(body=chat_reply({"refusal": "I will not."})))
        message = (await client.chat.completions.parse(**asked)).choices[0].message
        assert (message.refusal, message.parsed) == ("I will not.", None)
        stand.script("oai", streamed(chat_stream({"refusal": "I will "}, {"refusal": "not."})))
        async with client.chat.completions.stream(**asked) as stream:
            final = (await stream.get_final_completion()).choices[0]
        assert (final.message.refusal, final.finish_reason) == ("I will not.", "stop")


@STREAMED_OR_WHOLE
async def test_a_refusal_in_words_has_its_own_ending_in_messages(stream: bool) -> None:
    async with serving() as stand, anthropic_client(stand) as client:
        refusal = streamed(chat_stream({"refusal": "I will not."}))
        stand.script("oai", refusal if stream else Answer(body=chat_reply({"refusal": "I will not."})))
        asked: Any = {
            "model": f"oai/{MODEL}",
            "max_tokens": 10,
            "messages": [{"role": "user", "content": "Hi"}],
        }
        if stream:
            async with client.messages.stream(**asked) as streaming:
                message = await streaming.get_final_message()
        else:
            message = await client.messages.create(**asked)
        assert (message.stop_reason, message.content[0].type) == ("refusal", "text")


# ── Replies that are none ────────────────────────────────────────────────────────────────────────


@CLIENTS
@pytest.mark.parametrize(
    "body",
    [{"id": "resp_1", "object": "response", "output": []}, {"id": "x", "object": "chat.completion", "choices": []}],
)
async def test_a_reply_without_choices_is_an_error_that_names_what_came(client: Protocol, body: dict[str, Any]) -> None:
    async with serving() as stand:
        stand.script("oai", Answer(body=json.dumps(body).encode()))
        error = (await stand.ask(client, "oai", stream=False)).check_failed(502)
        assert body["object"] in error["message"]
        assert "choices" in error["message"]


@CLIENTS
async def test_a_stream_without_choices_is_an_error(client: Protocol) -> None:
    async with serving() as stand:
        stand.script("oai", streamed(b'data: {"id":"resp_1","object":"response"}\n\ndata: [DONE]\n\n'))
        error = (await stand.ask(client, "oai", stream=True)).check_failed(502)
        assert "choices" in error["message"]


# ── JSON over several lines ──────────────────────────────────────────────────────────────────────

SEARCHED = {
    "type": "web_search_tool_result",
    "tool_use_id": "srvtoolu_1",
    "content": [{"type": "web_search_result", "title": "A", "url": "https://a.example", "encrypted_content": "eA=="}],
}


async def test_a_pretty_printed_reply_is_a_valid_stream_for_the_official_client() -> None:
    reply = json.dumps(json.loads(message_reply(SEARCHED, {"type": "text", "text": "Found."})), indent=2).encode()
    assert b"\n" in reply
    async with serving() as stand, anthropic_client(stand) as client:
        stand.script("ant", Answer(body=reply))
        asked: Any = {"model": f"ant/{MODEL}", "max_tokens": 10, "messages": [{"role": "user", "content": "Hi"}]}
        async with client.messages.stream(**asked) as stream:
            message = await stream.get_final_message()
        assert [block.type for block in message.content] == ["web_search_tool_result", "text"]


async def test_data_over_several_lines_is_passed_on_in_one() -> None:
    block = json.dumps({"type": "content_block_start", "index": 0, "content_block": SEARCHED}, indent=1)
    lines = "".join(f"data: {line}\n" for line in block.split("\n"))
    stop = 'event: content_block_stop\ndata: {"type":"content_block_stop","index":0}\n\n'
    inner = f"event: content_block_start\n{lines}\n{stop}".encode()
    head, end = message_stream().split(b"event: message_delta")
    async with serving() as stand:
        stand.script("ant", streamed(head + inner + b"event: message_delta" + end))
        answer = await stand.ask("anthropic", "ant", stream=True)
        assert answer.frames[1]["content_block"] == SEARCHED


async def test_state_over_several_lines_does_not_break_a_chat_stream() -> None:
    state = {"extra_content": {"google": {"thought_signature": "c2ln"}}}
    reply = json.dumps(json.loads(chat_reply({"content": "Hi", **state})), indent=2).encode()
    async with serving() as stand:
        stand.script("oai", Answer(body=reply))
        answer = await stand.ask("openai_chat", "oai", stream=True)
        assert [f for f in answer.frames if "c2ln" in json.dumps(f)]


# ── What is dropped is reported ──────────────────────────────────────────────────────────────────


@STREAMED_OR_WHOLE
async def test_what_the_request_loses_is_named_in_a_header_a_record_and_once_in_the_log(
    stream: bool, caplog: pytest.LogCaptureFixture
) -> None:
    more = {"top_k": 5, "context_management": {"edits": []}}
    async with serving() as stand:
        stand.script("oai", says("oai", "Hello"), says("oai", "Hello"))
        stand.script("ant", says("ant", "Hello"))
        for _ in range(2):
            answer = await stand.ask("anthropic", "oai", stream=stream, **more)
            assert answer.headers["x-tieline-dropped"] == "top_k, context_management"
        (_, summary) = stand.app.gateway.bus.legs()
        detail = stand.app.gateway.bus.detail(summary.id)
        assert [note.what for note in detail.notes] == ["top_k", "context_management"]
        assert "x-tieline-dropped" not in (await stand.ask("anthropic", "ant", stream=stream, **more)).headers
    warned = [record for record in caplog.records if record.levelname == "WARNING" and "left_out" in record.message]
    assert len(warned) == 2


async def test_a_stream_that_begins_with_a_sign_of_life_has_the_header_too() -> None:
    pause = Pause()
    async with serving(server={"keep_alive": 0.05}) as stand:
        stand.script("oai", Answer(chunks=(pause, chat_stream({"content": "Hello"}))))
        async with stand.listen("anthropic", "oai", top_k=5) as ear:
            await ear.until(b"ping")
            assert ear.headers["x-tieline-dropped"] == "top_k"
            pause.set()
            assert (await ear.rest()).text == "Hello"


@pytest.mark.parametrize("n", [None, 2])
async def test_what_the_answer_loses_is_named_for_a_client_that_does_not_stream(n: int | None) -> None:
    async with serving() as stand:
        stand.script("ant", *[Answer(body=message_reply(SEARCHED, {"type": "text", "text": "Found."}))] * 2)
        answer = await stand.ask("openai_chat", "ant", stream=False, **({"n": n} if n else {}))
        assert answer.headers["x-tieline-dropped"] == "web_search_tool_result"


async def test_citations_that_another_protocol_cannot_express_are_named() -> None:
    cited = {"type": "url_citation", "url_citation": {"url": "https://a.example", "start_index": 0, "end_index": 5}}
    async with serving() as stand:
        stand.script("oai", *[Answer(body=chat_reply({"content": "Found.", "annotations": [cited]}))] * 2)
        assert (await stand.ask("anthropic", "oai", stream=False)).headers["x-tieline-dropped"] == "annotations"
        same = await stand.ask("openai_chat", "oai", stream=False)
        assert same.frames[0]["choices"][0]["message"]["annotations"] == [cited]
        assert "x-tieline-dropped" not in same.headers
        stand.script("oai", streamed(chat_stream({"content": "Found."}, {"annotations": [cited]})))
        await stand.ask("anthropic", "oai", stream=True)
        summary = stand.app.gateway.bus.legs()[-1]
        assert [note.what for note in stand.app.gateway.bus.detail(summary.id).notes] == ["annotations"]


# ── Replies without a proper content type ────────────────────────────────────────────────────────


@CLIENTS
@pytest.mark.parametrize("backend", ["ant", "oai"])
@pytest.mark.parametrize("kind", ["text/plain", "APPLICATION/JSON", "application/vnd.api+json", "x"])
async def test_a_json_reply_is_read_whatever_its_content_type_says(client: Protocol, backend: Any, kind: str) -> None:
    async with serving() as stand:
        said = message_reply({"type": "text", "text": "Hello"}), chat_reply({"content": "Hello"})
        body = said[backend == "oai"]
        stand.script(backend, Answer(headers=(("content-type", kind),), body=body))
        assert (await stand.ask(client, backend, stream=False)).text == "Hello"


@CLIENTS
async def test_a_stream_with_an_odd_content_type_is_read_too(client: Protocol) -> None:
    async with serving() as stand:
        data = chat_stream({"content": "Hel"}, {"content": "lo"})
        stand.script("oai", Answer(headers=(("content-type", "text/plain"),), chunks=(data,)))
        assert (await stand.ask(client, "oai", stream=True)).text == "Hello"


# ── What a Messages client relies on ─────────────────────────────────────────────────────────────


async def test_message_start_has_an_estimate_and_the_ending_the_real_counts() -> None:
    usage = {"prompt_tokens": 1234, "completion_tokens": 5}
    data = chat_stream({"content": "Hello"}, done=False)
    data += b"data: " + json.dumps({"id": "c", "choices": [], "usage": usage}).encode() + b"\n\ndata: [DONE]\n\n"
    async with serving() as stand:
        stand.script("oai", streamed(data))
        frames = (await stand.ask("anthropic", "oai", stream=True)).frames
        assert 0 < frames[0]["message"]["usage"]["input_tokens"] < 1234
        assert frames[-2]["usage"]["input_tokens"] == 1234
        stand.script("ant", streamed(message_stream()))
        frames = (await stand.ask("anthropic", "ant", stream=True)).frames
        assert frames[0]["message"]["usage"]["input_tokens"] == 10


@STREAMED_OR_WHOLE
async def test_message_ids_have_the_prefix_of_the_api(stream: bool) -> None:
    async with serving() as stand:
        stand.script("oai", streamed(chat_stream({"content": "Hello"})))
        (first, *_) = (await stand.ask("anthropic", "oai", stream=stream)).frames
        assert first.get("message", first)["id"] == "msg_chatcmpl-up"
