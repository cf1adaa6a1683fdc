"""Server-sent events and HTTP (catalogue 61 to 83), over real connections on both sides of the gateway."""

import asyncio
import json
import zlib
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import pytest
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI

from tests.catalogue.crossing import Protocol
from tests.catalogue.serving import (
    BACKENDS,
    BEGUN,
    CLIENTS,
    DIALECTS,
    DIRECTIONS,
    KEY,
    STREAMED_OR_WHOLE,
    Backend,
    Stand,
    begins,
    says,
    serving,
    words,
)
from tieline.model.events import Failed
from tieline.sim.answers import failed, streamed, whole
from tieline.sim.model import Answer, Chunk, Cut, Hang, Pause

EACH_BACKEND = pytest.mark.parametrize("backend", BACKENDS)

OVERLOADED = {
    "ant": {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}},
    "oai": {"error": {"type": "overloaded_error", "message": "busy", "param": None, "code": None}},
    "res": {"type": "error", "code": "server_is_overloaded", "message": "busy", "param": None, "sequence_number": 1},
}
"""An error as the upstream writes it into a stream."""

PREAMBLE = {
    "ant": b'event: message_start\ndata: {"type":"message_start","message":{"id":"msg_1","model":"m",'
    b'"content":[],"usage":{"input_tokens":10,"output_tokens":1}}}\n\nevent: ping\ndata: {"type":"ping"}\n\n',
    "oai": b'data: {"id":"c1","model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}\n\n',
    "res": b'event: response.created\ndata: {"type":"response.created","response":{"id":"resp_1","model":"m"}}\n\n',
}
"""What an upstream says before it says anything."""


@pytest.fixture
async def stand() -> AsyncIterator[Stand]:
    async with serving() as made:
        yield made


def error_event(backend: Backend) -> bytes:
    name = b"" if backend == "oai" else b"event: error\n"
    return name + b"data: " + json.dumps(OVERLOADED[backend]).encode() + b"\n\n"


def refuses(backend: Backend, status: int, *headers: tuple[str, str]) -> Answer:
    return failed(DIALECTS[backend], Failed(kind="upstream", message="not now", status=status, headers=headers))


# ── 61: errors without framing ───────────────────────────────────────────────────────────────────


@DIRECTIONS
@STREAMED_OR_WHOLE
async def test_061_an_unframed_error_instead_of_a_stream_is_a_status(
    stand: Stand, backend: Backend, client: Protocol, stream: bool
) -> None:
    bare = json.dumps(OVERLOADED[backend], indent=2).encode()
    stand.script(backend, Answer(chunks=[bare[:20], bare[20:]]))
    answer = await stand.ask(client, backend, stream=stream)
    assert answer.status in (503, 529)
    assert "busy" in answer.check_failed(answer.status)["message"]


@DIRECTIONS
async def test_061_an_unframed_error_inside_a_stream_is_an_error_of_the_dialect(
    stand: Stand, backend: Backend, client: Protocol
) -> None:
    answer = await stand.interrupted(client, backend, json.dumps(OVERLOADED[backend], indent=2).encode())
    assert answer.text == "Hel"
    assert "busy" in answer.check_failed()["message"]


# ── 62, 63: large and compressed streams ─────────────────────────────────────────────────────────


@DIRECTIONS
@STREAMED_OR_WHOLE
async def test_062_an_event_of_twenty_megabytes_passes(
    stand: Stand, backend: Backend, client: Protocol, stream: bool
) -> None:
    large = "0123456789abcdef" * (20 * 1024 * 1024 // 16)
    stand.script(backend, streamed(DIALECTS[backend], words("<", large, ">")))
    answer = await stand.ask(client, backend, stream=stream)
    assert answer.error is None
    assert answer.text == f"<{large}>"


def compressed(chunks: Sequence[Chunk], wbits: int) -> Iterator[Chunk]:
    """Every chunk in its own flushed block, as servers send it that compress a stream."""
    press = zlib.compressobj(wbits=wbits)
    for chunk in chunks:
        yield press.compress(chunk) + press.flush(zlib.Z_SYNC_FLUSH) if isinstance(chunk, bytes) else chunk
    yield press.flush()


@DIRECTIONS
@STREAMED_OR_WHOLE
@pytest.mark.parametrize(("encoding", "wbits"), [("gzip", 31), ("deflate", 15), ("deflate", -15)])
async def test_063_a_compressed_stream_is_read_though_none_was_asked_for(
    stand: Stand, backend: Backend, client: Protocol, stream: bool, encoding: str, wbits: int
) -> None:
    plain = streamed(DIALECTS[backend], words("Hel", "lo"))
    chunks = tuple(compressed(plain.all_chunks, wbits))
    stand.script(backend, Answer(headers=[("content-encoding", encoding)], chunks=chunks))
    answer = await stand.ask(client, backend, stream=stream)
    assert answer.text == "Hello"
    assert answer.headers.get("content-encoding") is None
    assert stand.asked(backend)[0].header("accept-encoding") == "identity"


@DIRECTIONS
async def test_063_a_compressed_stream_flows(stand: Stand, backend: Backend, client: Protocol) -> None:
    pause = Pause()
    plain = streamed(DIALECTS[backend], [*BEGUN, pause, *words("Hel", "lo")[3:]])
    chunks = tuple(compressed(plain.all_chunks, 31))
    stand.script(backend, Answer(headers=[("content-encoding", "gzip")], chunks=chunks))
    async with stand.listen(client, backend) as ear:
        await ear.until(b"Hel")
        pause.set()
        assert (await ear.rest()).text == "Hello"


@DIRECTIONS
@STREAMED_OR_WHOLE
async def test_063_an_encoding_that_is_not_understood_is_a_bad_gateway(
    stand: Stand, backend: Backend, client: Protocol, stream: bool
) -> None:
    stand.script(backend, Answer(headers=[("content-encoding", "br")], chunks=[b"\x0b\x02\x80hi\x03"]))
    assert "br" in (await stand.ask(client, backend, stream=stream)).check_failed(502)["message"]


# ── 65, 66: streams that flow and stay alive ─────────────────────────────────────────────────────


@DIRECTIONS
async def test_065_proxies_on_the_way_are_told_not_to_gather(stand: Stand, backend: Backend, client: Protocol) -> None:
    stand.script(backend, says(backend, "Hello"))
    headers = (await stand.ask(client, backend, stream=True)).headers
    assert headers["cache-control"] == "no-cache"
    assert headers["x-accel-buffering"] == "no"
    assert headers["content-type"].startswith("text/event-stream")
    assert "content-length" not in headers


@DIRECTIONS
async def test_065_every_word_is_passed_on_when_it_comes(stand: Stand, backend: Backend, client: Protocol) -> None:
    pauses = [Pause() for _ in range(3)]
    leg = words("one ", "two ", "three ")
    stand.script(
        backend, streamed(DIALECTS[backend], [*leg[:3], pauses[0], leg[3], pauses[1], leg[4], pauses[2], *leg[5:]])
    )
    async with stand.listen(client, backend) as ear:
        for word, pause in zip((b"one ", b"two ", b"three "), pauses, strict=True):
            await ear.until(word)
            pause.set()
        assert (await ear.rest()).text == "one two three "


ALIVE: dict[Protocol, bytes] = {
    "anthropic": b'event: ping\ndata: {"type":"ping"}\n\n',
    "openai_chat": b": keep-alive\n",
}


@DIRECTIONS
@pytest.mark.parametrize("begun", [True, False], ids=["in the middle", "before the first word"])
async def test_066_a_silent_upstream_does_not_look_dead(backend: Backend, client: Protocol, begun: bool) -> None:
    pause = Pause()
    leg: list[Any] = words("Hel", "lo")
    leg.insert(3 if begun else 0, pause)
    async with serving({"keep_alive": 0.02}) as stand:
        stand.script(backend, streamed(DIALECTS[backend], leg))
        async with stand.listen(client, backend) as ear:
            await ear.until(ALIVE[client] * 3)
            pause.set()
            answer = await ear.rest()
    assert answer.text == "Hello"
    assert answer.claims_success
    if client == "openai_chat":
        assert b": keep-alive\n\n" not in answer.raw, "a comment with a blank line is an empty event to some clients"


@DIRECTIONS
async def test_066_an_error_after_a_sign_of_life_is_an_error_of_the_stream(backend: Backend, client: Protocol) -> None:
    pause = Pause()
    async with serving({"keep_alive": 0.02}) as stand:
        stand.script(backend, Answer(chunks=[pause, error_event(backend)]))
        async with stand.listen(client, backend) as ear:
            await ear.until(ALIVE[client])
            pause.set()
            answer = await ear.rest()
    assert answer.is_stream
    assert "busy" in answer.check_failed()["message"]


@EACH_BACKEND
async def test_066_the_official_clients_read_past_signs_of_life(backend: Backend) -> None:
    pause = Pause()
    leg = words("Hel", "lo")
    messages: Any = [{"role": "user", "content": "Hi"}]
    async with serving({"keep_alive": 0.02}) as stand:

        async def wait_for_signs_of_life() -> None:
            """Three in a stream that began later are three at least in the one before."""
            stand.script(backend, Answer(chunks=[Hang()]))
            async with stand.listen("openai_chat", backend) as ear:
                await ear.until(ALIVE["openai_chat"] * 3)
            pause.set()

        stand.script(backend, streamed(DIALECTS[backend], [*leg[:3], pause, *leg[3:]]))
        async with AsyncOpenAI(base_url=f"{stand.url}/v1", api_key=KEY, max_retries=0) as openai:
            stream = await openai.chat.completions.create(model=f"{backend}/m", messages=messages, stream=True)
            waiting = asyncio.create_task(wait_for_signs_of_life())
            got = [chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices]
            await waiting
        assert "".join(got) == "Hello"
        pause = Pause()
        stand.script(backend, streamed(DIALECTS[backend], [*leg[:3], pause, *leg[3:]]))
        async with AsyncAnthropic(base_url=stand.url, api_key=KEY, max_retries=0) as anthropic:
            asked = anthropic.messages.stream(model=f"{backend}/m", max_tokens=9, messages=messages)
            async with asked as helper:
                waiting = asyncio.create_task(wait_for_signs_of_life())
                assert await helper.get_final_text() == "Hello"
                await waiting


# ── 68: usage ────────────────────────────────────────────────────────────────────────────────────


@CLIENTS
async def test_068_usage_is_always_asked_of_an_upstream_that_must_be_asked(stand: Stand, client: Protocol) -> None:
    stand.script("oai", says("oai", "Hello"))
    await stand.ask(client, "oai", stream=True)
    assert stand.asked("oai")[0].json["stream_options"] == {"include_usage": True}


@EACH_BACKEND
@pytest.mark.parametrize("options", [{}, {"stream_options": None}, {"stream_options": {"include_usage": False}}])
async def test_068_a_client_that_did_not_ask_for_usage_sees_none(
    stand: Stand, backend: Backend, options: dict[str, Any]
) -> None:
    stand.script(backend, says(backend, "Hello"))
    answer = await stand.ask("openai_chat", backend, stream=True, **options)
    assert answer.text == "Hello"
    assert all(frame["choices"] and "usage" not in frame for frame in answer.frames)


@EACH_BACKEND
async def test_068_a_client_that_asked_for_usage_sees_it_once_and_last(stand: Stand, backend: Backend) -> None:
    stand.script(backend, says(backend, "Hello"))
    answer = await stand.ask("openai_chat", backend, stream=True, stream_options={"include_usage": True})
    *before, last = answer.frames
    assert (last["choices"], last["usage"]["total_tokens"]) == ([], 18)
    assert all(frame["usage"] is None for frame in before)


# ── 72, 75: errors before the first byte ─────────────────────────────────────────────────────────


@DIRECTIONS
@STREAMED_OR_WHOLE
@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 429, 500, 502, 503, 529])
async def test_072_an_error_of_the_upstream_is_a_status_of_its_own(
    stand: Stand, backend: Backend, client: Protocol, stream: bool, status: int
) -> None:
    stand.script(backend, refuses(backend, status))
    assert "not now" in (await stand.ask(client, backend, stream=stream)).check_failed(status)["message"]


@DIRECTIONS
@STREAMED_OR_WHOLE
@pytest.mark.parametrize("told", ["at once", "after the start"])
async def test_072_a_success_that_fails_before_the_first_word_is_a_status(
    stand: Stand, backend: Backend, client: Protocol, stream: bool, told: str
) -> None:
    preamble = PREAMBLE[backend] if told == "after the start" else b""
    stand.script(backend, Answer(chunks=[preamble, error_event(backend)]))
    answer = await stand.ask(client, backend, stream=stream)
    assert answer.status in (503, 529)
    assert "busy" in answer.check_failed(answer.status)["message"]


@DIRECTIONS
@STREAMED_OR_WHOLE
@pytest.mark.parametrize(
    "chunks",
    [
        [],
        [b"\n\n"],
        [b": hello\n\n"],
        [b"data: {]\n\n"],
        [b"data: 1\n\n"],
        [b"<html><body><h1>Bad Gateway</h1></body></html>"],
        [Cut()],
        [Cut(reset=True)],
        [b"data: {", Cut()],
    ],
    ids=str,
)
async def test_072_a_success_that_says_nothing_is_a_bad_gateway(
    stand: Stand, backend: Backend, client: Protocol, stream: bool, chunks: list[Chunk]
) -> None:
    stand.script(backend, Answer(chunks=chunks))
    (await stand.ask(client, backend, stream=stream)).check_failed(502)


@DIRECTIONS
@STREAMED_OR_WHOLE
@pytest.mark.parametrize("body", [b"", b"null", b"[]", b"{}", b'{"choices":', b"\xff"])
async def test_072_a_body_that_is_no_reply_is_a_bad_gateway(
    stand: Stand, backend: Backend, client: Protocol, stream: bool, body: bytes
) -> None:
    stand.script(backend, Answer(body=body))
    (await stand.ask(client, backend, stream=stream)).check_failed(502)


@DIRECTIONS
@STREAMED_OR_WHOLE
async def test_072_a_page_for_people_is_not_passed_on(
    stand: Stand, backend: Backend, client: Protocol, stream: bool
) -> None:
    page = b"<html><head><title>502 Bad Gateway</title></head><body><script>x()</script>nginx</body></html>"
    stand.script(backend, Answer(status=502, headers=[("content-type", "text/html")], body=page))
    message = (await stand.ask(client, backend, stream=stream)).check_failed(502)["message"]
    assert "Bad Gateway" in message
    assert "<" not in message


@CLIENTS
@STREAMED_OR_WHOLE
async def test_075_an_error_beside_empty_choices_is_no_empty_answer(
    stand: Stand, client: Protocol, stream: bool
) -> None:
    chunk = {"id": "c1", "choices": [], "error": {"message": "quota is gone", "code": 429}}
    stand.script("oai", Answer(chunks=[b"data: " + json.dumps(chunk).encode() + b"\n\ndata: [DONE]\n\n"]))
    assert "quota" in (await stand.ask(client, "oai", stream=stream)).check_failed(429)["message"]
    stand.script("oai", Answer(body=json.dumps(chunk).encode()))
    assert "quota" in (await stand.ask(client, "oai", stream=stream)).check_failed(429)["message"]


# ── 73, 74: errors after the first byte ──────────────────────────────────────────────────────────

BREAKS: dict[str, list[Chunk]] = {
    "the connection ends": [Cut()],
    "the connection is reset": [Cut(reset=True)],
    "the stream ends": [],
    "half an event": [b'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_del', Cut()],
    "half an event, then the end": [b'event: content_block_delta\ndata: {"choices":[{"del'],
    "broken JSON": [b'data: {"choices":[}\n\n'],
    "not an object": [b"data: [1,2]\n\n"],
}


@DIRECTIONS
async def test_073_an_error_inside_a_stream_ends_it_in_the_form_of_the_dialect(
    stand: Stand, backend: Backend, client: Protocol
) -> None:
    answer = await stand.interrupted(client, backend, error_event(backend))
    assert "busy" in answer.check_failed()["message"]
    assert (answer.status, answer.text) == (200, "Hel")


@DIRECTIONS
async def test_073_an_error_inside_a_stream_nobody_sees_is_a_status(
    stand: Stand, backend: Backend, client: Protocol
) -> None:
    stand.script(backend, begins(backend, error_event(backend)))
    answer = await stand.ask(client, backend, stream=False)
    assert "busy" in answer.check_failed(answer.status)["message"]
    assert answer.status in (503, 529)


@DIRECTIONS
@STREAMED_OR_WHOLE
@pytest.mark.parametrize("how", BREAKS)
async def test_073_a_stream_that_breaks_is_no_success(
    stand: Stand, backend: Backend, client: Protocol, stream: bool, how: str
) -> None:
    if stream:
        answer = await stand.interrupted(client, backend, *BREAKS[how])
        answer.check_failed()
        assert answer.text == "Hel"
    else:
        stand.script(backend, begins(backend, *BREAKS[how]))
        (await stand.ask(client, backend, stream=False)).check_failed(502)


@DIRECTIONS
async def test_074_half_an_event_never_reaches_the_client(stand: Stand, backend: Backend, client: Protocol) -> None:
    second = streamed(DIALECTS[backend], words("Hel", "SECOND")).all_chunks
    half = next(chunk for chunk in second if isinstance(chunk, bytes) and b"SECOND" in chunk)
    answer = await stand.interrupted(client, backend, half[:-5], Cut())
    answer.check_failed()
    assert b"SECOND" not in answer.raw


# ── What was asked and what comes ────────────────────────────────────────────────────────────────


@DIRECTIONS
@STREAMED_OR_WHOLE
async def test_072_what_comes_counts_and_not_what_was_asked_for(
    stand: Stand, backend: Backend, client: Protocol, stream: bool
) -> None:
    shape = whole if stream else streamed
    stand.script(backend, shape(DIALECTS[backend], words("Hel", "lo")))
    answer = await stand.ask(client, backend, stream=stream)
    assert answer.is_stream == stream
    assert answer.text == "Hello"
    assert answer.claims_success


@DIRECTIONS
@STREAMED_OR_WHOLE
async def test_072_the_content_type_may_be_missing_or_wrong(
    stand: Stand, backend: Backend, client: Protocol, stream: bool
) -> None:
    for kind in ("", "text/plain", "Application/JSON", "application/octet-stream"):
        for shape in (whole, streamed):
            plain = shape(DIALECTS[backend], words("Hel", "lo"))
            answer = Answer(headers=[("content-type", kind)], body=plain.body, chunks=plain.chunks)
            stand.script(backend, answer)
            heard = await stand.ask(client, backend, stream=stream)
            assert (heard.status, heard.text) == (200, "Hello"), (kind, shape)


@DIRECTIONS
@STREAMED_OR_WHOLE
async def test_072_a_web_page_instead_of_an_answer_is_a_wrong_address(
    stand: Stand, backend: Backend, client: Protocol, stream: bool
) -> None:
    page = b"<!doctype html><title>Welcome</title><p>Hello"
    stand.script(backend, Answer(headers=[("content-type", "text/html")], body=page))
    message = (await stand.ask(client, backend, stream=stream)).check_failed(502)["message"]
    path = stand.asked(backend)[-1].path
    assert message == f"Upstream `{backend}` answered {path} with a web page (Welcome). Is its `base_url` right?"


# ── 77: connections that fail ────────────────────────────────────────────────────────────────────


@DIRECTIONS
@STREAMED_OR_WHOLE
async def test_077_a_refused_connection_is_a_bad_gateway(backend: Backend, client: Protocol, stream: bool) -> None:
    async with serving(base_url="http://127.0.0.1:1") as stand:
        answer = await stand.ask(client, backend, stream=stream)
    assert backend in answer.check_failed(502)["message"]


@CLIENTS
@STREAMED_OR_WHOLE
async def test_077_a_name_nobody_knows_is_a_bad_gateway(client: Protocol, stream: bool) -> None:
    async with serving(base_url="http://nobody.invalid") as stand:
        (await stand.ask(client, "oai", stream=stream)).check_failed(502)


@DIRECTIONS
@STREAMED_OR_WHOLE
async def test_077_an_upstream_that_never_answers_is_a_timeout(
    backend: Backend, client: Protocol, stream: bool
) -> None:
    async def keep_silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(keep_silent, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, serving(base_url=f"http://127.0.0.1:{port}", first_byte_timeout=0.05) as stand:
        (await stand.ask(client, backend, stream=stream)).check_failed(504)


@DIRECTIONS
@STREAMED_OR_WHOLE
async def test_077_an_upstream_that_answers_and_says_nothing_is_a_timeout(
    backend: Backend, client: Protocol, stream: bool
) -> None:
    async with serving(idle_timeout=0.05) as stand:
        stand.script(backend, Answer(chunks=[PREAMBLE[backend], Hang()]))
        (await stand.ask(client, backend, stream=stream)).check_failed(504)
        await stand.gone(backend)


@DIRECTIONS
@STREAMED_OR_WHOLE
async def test_077_an_upstream_that_falls_silent_is_a_timeout(backend: Backend, client: Protocol, stream: bool) -> None:
    async with serving(idle_timeout=1.0) as stand:
        if stream:
            answer = await stand.interrupted(client, backend, Hang())
            assert answer.text == "Hel"
        else:
            stand.script(backend, begins(backend, Hang()))
            answer = await stand.ask(client, backend, stream=False)
        assert "timeout" in answer.check_failed(None if stream else 504)["type"]
        await stand.gone(backend)


@CLIENTS
async def test_077_an_upstream_that_speaks_another_protocol_is_a_bad_gateway(client: Protocol) -> None:
    async def greet(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail.example.com ESMTP\r\n")
        writer.close()

    server = await asyncio.start_server(greet, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, serving(base_url=f"http://127.0.0.1:{port}") as stand:
        (await stand.ask(client, "oai", stream=True)).check_failed(502)


# ── 78: headers for the client ───────────────────────────────────────────────────────────────────

KEPT = {
    "retry-after": "7",
    "retry-after-ms": "6500",
    "x-should-retry": "false",
    "anthropic-ratelimit-requests-remaining": "3",
    "anthropic-ratelimit-tokens-reset": "2026-01-01T00:00:00Z",
    "x-ratelimit-remaining-tokens": "42",
}
DROPPED = {
    "set-cookie": "session=1",
    "server": "nginx",
    "x-powered-by": "PHP",
    "access-control-allow-origin": "*",
    "strict-transport-security": "max-age=1",
    "alt-svc": "h3",
    "content-encoding": "identity",
    "x-api-key": "sk-leaked",
    "openai-organization": "my-org",
    "connection": "x-secret",
    "keep-alive": "timeout=9",
    "trailer": "x",
    "x-secret": "1",
}
IDS: dict[Protocol, str] = {"anthropic": "request-id", "openai_chat": "x-request-id"}


@DIRECTIONS
@STREAMED_OR_WHOLE
@pytest.mark.parametrize("status", [200, 429])
@pytest.mark.parametrize("name", ["request-id", "x-request-id"])
async def test_078_083_only_headers_that_clients_read_come_back(
    stand: Stand, backend: Backend, client: Protocol, stream: bool, status: int, name: str
) -> None:
    headers = tuple({**KEPT, **DROPPED, name: "req_1"}.items())
    if status == 200:
        plain = (streamed if stream else whole)(DIALECTS[backend], words("Hello"))
        stand.script(backend, Answer(headers=headers, body=plain.body, chunks=plain.chunks))
    else:
        stand.script(backend, refuses(backend, 429, *headers))
    answer = await stand.ask(client, backend, stream=stream)
    assert answer.status == status
    assert {name: answer.headers.get(name) for name in KEPT} == KEPT
    assert answer.headers[IDS[client]] == "req_1"
    assert [value for value in DROPPED.values() if value in answer.headers.values()] == []


@DIRECTIONS
@STREAMED_OR_WHOLE
async def test_078_a_wait_is_told_in_whole_seconds_too(
    stand: Stand, backend: Backend, client: Protocol, stream: bool
) -> None:
    stand.script(backend, refuses(backend, 429, ("retry-after-ms", "1200")))
    headers = (await stand.ask(client, backend, stream=stream)).headers
    assert headers["retry-after-ms"] == "1200"
    assert int(headers["retry-after"]) >= 1
