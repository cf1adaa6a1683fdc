"""Retries, clients that leave, headers and names (catalogue 79 to 83), over real connections on both sides."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.catalogue.crossing import Protocol
from tests.catalogue.serving import (
    BACKENDS,
    CLIENTS,
    DIALECTS,
    DIRECTIONS,
    FRONTEND,
    KEY,
    PATH,
    PATIENCE,
    SECRETS,
    STREAMED_OR_WHOLE,
    Backend,
    Stand,
    begins,
    question,
    says,
    serving,
    words,
)
from tieline import __version__
from tieline.app.build.application import build
from tieline.app.config import Config, ConfigError, UpstreamSettings
from tieline.app.config_file import ConfigFile, load_config
from tieline.model.events import Failed
from tieline.sim.answers import PATHS, failed, streamed
from tieline.sim.model import Answer, Chunk, Cut, Hang, Received

EACH_BACKEND = pytest.mark.parametrize("backend", BACKENDS)
AT_ONCE = ("retry-after", "0")

STARTED_THEN_FAILED = {
    "ant": b'event: message_start\ndata: {"type":"message_start","message":{"id":"msg_1","model":"m","content":[],'
    b'"usage":{"input_tokens":10,"output_tokens":1}}}\n\n'
    b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"busy"}}\n\n',
    "oai": b'data: {"id":"c1","model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}\n\n'
    b'data: {"error":{"message":"busy","code":503}}\n\n',
    "res": b'event: response.created\ndata: {"type":"response.created","response":{"id":"resp_1","model":"m"}}\n\n'
    b'event: response.failed\ndata: {"type":"response.failed","response":{"status":"failed",'
    b'"error":{"code":"server_is_overloaded","message":"busy"}}}\n\n',
}


@pytest.fixture
async def stand() -> AsyncIterator[Stand]:
    async with serving(retries=2) as made:
        yield made


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tries follow one another at once unless an upstream says otherwise."""
    monkeypatch.setattr("tieline.backends.http_api.upstream.FIRST_BACK_OFF", 0.0)


def refuses(backend: Backend, status: int, *headers: tuple[str, str]) -> Answer:
    return failed(DIALECTS[backend], Failed(kind="upstream", message="not now", status=status, headers=headers))


# ── 79: retries ──────────────────────────────────────────────────────────────────────────────────


@DIRECTIONS
@STREAMED_OR_WHOLE
@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 504, 529])
async def test_079_what_may_pass_is_tried_again_unseen(
    stand: Stand, backend: Backend, client: Protocol, stream: bool, status: int
) -> None:
    stand.script(backend, refuses(backend, status, AT_ONCE), says(backend, "Hello"))
    answer = await stand.ask(client, backend, stream=stream)
    assert (answer.status, answer.text, answer.error) == (200, "Hello", None)
    first, second = stand.asked(backend)
    assert first.body == second.body


@DIRECTIONS
@STREAMED_OR_WHOLE
@pytest.mark.parametrize("chunks", [[Cut()], [Cut(reset=True)], [b"data: {", Cut()], []], ids=str)
async def test_079_a_connection_that_breaks_before_the_first_word_is_tried_again(
    stand: Stand, backend: Backend, client: Protocol, stream: bool, chunks: list[Chunk], eager: None
) -> None:
    stand.script(backend, Answer(chunks=chunks), says(backend, "Hello"))
    answer = await stand.ask(client, backend, stream=stream)
    assert (answer.status, answer.text, answer.error) == (200, "Hello", None)
    assert len(stand.asked(backend)) == 2


@DIRECTIONS
@STREAMED_OR_WHOLE
async def test_079_an_error_after_a_start_without_words_is_tried_again(
    stand: Stand, backend: Backend, client: Protocol, stream: bool, eager: None
) -> None:
    stand.script(backend, Answer(chunks=[STARTED_THEN_FAILED[backend]]), says(backend, "Hello"))
    answer = await stand.ask(client, backend, stream=stream)
    assert (answer.status, answer.text, answer.error) == (200, "Hello", None)
    assert len(stand.asked(backend)) == 2


@DIRECTIONS
@pytest.mark.parametrize("then", [Cut(), Cut(reset=True), b'data: {"error":{"message":"x","code":503}}\n\n'], ids=str)
async def test_079_nothing_is_tried_again_once_the_client_has_heard_a_word(
    stand: Stand, backend: Backend, client: Protocol, then: Chunk, eager: None
) -> None:
    answer = await stand.interrupted(client, backend, then)
    answer.check_failed()
    assert answer.text == "Hel"
    assert len(stand.asked(backend)) == 1


@DIRECTIONS
@STREAMED_OR_WHOLE
async def test_079_tries_are_counted_and_the_last_error_is_told(
    stand: Stand, backend: Backend, client: Protocol, stream: bool
) -> None:
    stand.script(backend, *(refuses(backend, status, AT_ONCE) for status in (500, 502, 503)))
    (await stand.ask(client, backend, stream=stream)).check_failed(503)
    assert len(stand.asked(backend)) == 3


@DIRECTIONS
@STREAMED_OR_WHOLE
@pytest.mark.parametrize(
    ("status", "headers"),
    [
        (400, [AT_ONCE]),
        (401, [AT_ONCE]),
        (404, [AT_ONCE]),
        (413, [AT_ONCE]),
        (503, [AT_ONCE, ("x-should-retry", "false")]),
        (429, [("retry-after", "3600")]),
    ],
)
async def test_079_what_cannot_pass_or_takes_too_long_is_told_at_once(
    stand: Stand, backend: Backend, client: Protocol, stream: bool, status: int, headers: list[tuple[str, str]]
) -> None:
    stand.script(backend, refuses(backend, status, *headers))
    answer = await stand.ask(client, backend, stream=stream)
    answer.check_failed(status)
    assert len(stand.asked(backend)) == 1
    assert {name: answer.headers[name] for name, _ in headers} == dict(headers)


@DIRECTIONS
@STREAMED_OR_WHOLE
async def test_079_a_wait_in_milliseconds_is_kept(
    stand: Stand, backend: Backend, client: Protocol, stream: bool
) -> None:
    wait = (("retry-after-ms", "60"), ("retry-after", "9"))
    stand.script(backend, refuses(backend, 429, *wait), says(backend, "Hello"))
    loop = asyncio.get_running_loop()
    asking = asyncio.create_task(stand.ask(client, backend, stream=stream))
    await stand.arrival(backend)
    began = loop.time()
    await stand.arrival(backend)
    assert 0.05 < loop.time() - began < 9
    assert (await asking).text == "Hello"


# ── 80: clients that leave ───────────────────────────────────────────────────────────────────────


def cancelled(client: Protocol, times: int = 1) -> str:
    return f'tieline_errors_total{{frontend="{FRONTEND[client]}",kind="cancelled"}} {times}'


@DIRECTIONS
@STREAMED_OR_WHOLE
@pytest.mark.parametrize("chunks", [[Hang()], [b": waiting\n\n", Hang()]], ids=["without a word", "with a comment"])
async def test_080_leaving_before_the_first_byte_ends_the_upstream_request(
    stand: Stand, backend: Backend, client: Protocol, stream: bool, chunks: list[Chunk]
) -> None:
    stand.script(backend, Answer(chunks=chunks))
    async with stand.connection(PATH[client], json.dumps(question(backend, stream=stream)).encode()):
        await stand.arrival(backend)
    await stand.gone(backend)
    await stand.counted(cancelled(client))
    await stand.counted("tieline_open_legs 0")


@DIRECTIONS
@STREAMED_OR_WHOLE
async def test_080_leaving_in_the_middle_ends_the_upstream_request(
    stand: Stand, backend: Backend, client: Protocol, stream: bool
) -> None:
    stand.script(backend, begins(backend, Hang()))
    body = json.dumps(question(backend, stream=stream)).encode()
    async with stand.connection(PATH[client], body) as (reader, _):
        await stand.arrival(backend)
        if stream:
            async with asyncio.timeout(PATIENCE):
                await reader.readuntil(b"Hel")
    await stand.gone(backend)
    await stand.counted(cancelled(client))


@CLIENTS
async def test_080_the_usage_so_far_is_counted_when_a_client_leaves(stand: Stand, client: Protocol) -> None:
    start = {"type": "message_start", "message": {"id": "m", "usage": {"input_tokens": 321, "output_tokens": 1}}}
    word = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hel"}}
    chunks = [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in (start, word)]
    stand.script("ant", Answer(chunks=[*chunks, Hang()]))
    async with stand.listen(client, "ant") as ear:
        await ear.until(b"Hel")
    await stand.gone("ant")
    await stand.counted('tieline_tokens_total{direction="input"} 321')


@DIRECTIONS
@STREAMED_OR_WHOLE
async def test_080_leaving_while_the_gateway_waits_to_try_again_ends_that(
    stand: Stand, backend: Backend, client: Protocol, stream: bool
) -> None:
    stand.script(backend, refuses(backend, 503, ("retry-after", "15")))
    async with stand.connection(PATH[client], json.dumps(question(backend, stream=stream)).encode()):
        await stand.arrival(backend)
        await stand.http.get("/healthz")
    await stand.counted(cancelled(client))
    await stand.counted("tieline_open_legs 0")
    assert len(stand.asked(backend)) == 1


@EACH_BACKEND
async def test_080_leaving_ends_every_request_behind_several_choices(stand: Stand, backend: Backend) -> None:
    stand.script(backend, *[Answer(chunks=[Hang()])] * 3)
    body = json.dumps(question(backend, stream=False, n=3)).encode()
    async with stand.connection(PATH["openai_chat"], body):
        for _ in range(3):
            await stand.arrival(backend)
    await stand.gone(backend)
    await stand.counted(cancelled("openai_chat", 3))


@EACH_BACKEND
async def test_080_a_choice_that_fails_ends_the_requests_of_the_others(stand: Stand, backend: Backend) -> None:
    stand.script(backend, Answer(chunks=[Hang()]), refuses(backend, 400), Answer(chunks=[Hang()]))
    answer = await stand.http.post(PATH["openai_chat"], json=question(backend, stream=False, n=3))
    assert answer.status_code == 400
    await stand.counted("tieline_open_legs 0")


@CLIENTS
async def test_080_leaving_before_the_request_is_complete_asks_nobody(stand: Stand, client: Protocol) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", int(stand.url.rpartition(":")[2]))
    writer.write(f"POST {PATH[client]} HTTP/1.1\r\nhost: localhost\r\nx-api-key: {KEY}\r\n".encode())
    writer.write(b'content-length: 1000\r\n\r\n{"model":')
    writer.close()
    for backend in BACKENDS:
        stand.script(backend, says(backend, "Hello"))
        assert (await stand.ask(client, backend, stream=True)).text == "Hello"
        assert len(stand.asked(backend)) == 1


# ── 82: names beyond ASCII ───────────────────────────────────────────────────────────────────────


@DIRECTIONS
@STREAMED_OR_WHOLE
async def test_082_a_model_with_a_name_beyond_ascii_is_asked_by_that_name(
    stand: Stand, backend: Backend, client: Protocol, stream: bool
) -> None:
    stand.script(backend, says(backend, "你好 😀"))
    answer = await stand.ask(client, backend, stream=stream, model=f"{backend}/模型-ü😀")
    assert stand.asked(backend)[0].json["model"] == "模型-ü😀"
    assert answer.text == "你好 😀"
    named = [frame.get("message", frame) for frame in answer.frames if "model" in frame.get("message", frame)]
    assert {frame["model"] for frame in named} == {f"{backend}/模型-ü😀"}


@CLIENTS
async def test_082_a_name_nobody_has_may_be_in_any_script(stand: Stand, client: Protocol) -> None:
    answer = await stand.ask(client, "oai", stream=True, model="模型/ü")
    assert "模型/ü" in answer.check_failed(404)["message"]
    found = await stand.http.get("/v1/models/oai/模型")
    assert (found.status_code, found.json()["id"]) == (200, "oai/模型")


@DIRECTIONS
@STREAMED_OR_WHOLE
async def test_082_an_upstreams_header_beyond_ascii_does_no_harm(
    stand: Stand, backend: Backend, client: Protocol, stream: bool
) -> None:
    stand.script(backend, refuses(backend, 400, ("x-request-id", "réq\xff"), ("x-ratelimit-team", "Zürich")))
    (await stand.ask(client, backend, stream=stream)).check_failed(400)


@pytest.mark.parametrize("value", ["Łódź", "日本", "a\\nb", "\\u0000"])
def test_082_a_header_that_cannot_be_sent_is_refused_with_its_place(tmp_path: Path, value: str) -> None:
    text = f'[upstreams.x]\nkind = "openai"\nheaders = {{ x-team = "{value}" }}\n'
    with pytest.raises(ConfigError, match=r"tieline.toml:3: `upstreams.x.headers.x-team`"):
        load_config(ConfigFile(tmp_path / "tieline.toml", text.encode()), {})


@pytest.mark.parametrize("key", ["“sk-quoted-by-a-word-processor”", "sk-two\nlines"])
def test_082_a_key_that_cannot_be_sent_is_refused_without_being_shown(key: str) -> None:
    config = Config(upstreams={"x": UpstreamSettings(kind="openai", key_env="X_KEY")})
    with pytest.raises(ConfigError, match="X_KEY") as refused:
        build(config, {"X_KEY": key})
    assert key not in str(refused.value)


async def test_082_blanks_around_a_key_are_no_part_of_it() -> None:
    async with serving(key_env="PADDED_KEY", env={"PADDED_KEY": " sk-padded-key\n"}) as stand:
        stand.script("oai", says("oai", "Hello"))
        assert (await stand.ask("openai_chat", "oai", stream=True)).text == "Hello"
        assert stand.asked("oai")[0].header("authorization") == "Bearer sk-padded-key"


# ── 83: headers and flags for the upstream ───────────────────────────────────────────────────────

UNSAFE = {
    "cookie": "session=1",
    "x-forwarded-for": "10.0.0.1",
    "forwarded": "for=10.0.0.1",
    "via": "1.1 proxy",
    "te": "trailers",
    "accept-encoding": "br, zstd",
    "proxy-authorization": "Basic secret",
    "x-stainless-lang": "python",
    "user-agent": "some-agent/1.0",
    "openai-organization": "org-1",
    "x-custom": "secret",
}
ALLOWED = {
    "ant": {
        "host",
        "content-type",
        "content-length",
        "accept-encoding",
        "user-agent",
        "anthropic-version",
        "x-api-key",
    },
    "oai": {"host", "content-type", "content-length", "accept-encoding", "user-agent", "authorization"},
    "res": {"host", "content-type", "content-length", "accept-encoding", "user-agent", "authorization"},
}


@DIRECTIONS
@STREAMED_OR_WHOLE
async def test_083_only_the_gateways_own_headers_reach_an_upstream(
    stand: Stand, backend: Backend, client: Protocol, stream: bool
) -> None:
    stand.script(backend, says(backend, "Hello"))
    betas = {"anthropic-beta": "some-beta-2025-01-01", "anthropic-version": "2099-01-01"}
    body = question(backend, stream=stream)
    await stand.http.post(PATH[client], json=body, headers={**UNSAFE, **betas, "authorization": f"Bearer {KEY}"})
    request = stand.asked(backend)[0]
    assert {name for name, _ in request.headers} == ALLOWED[backend]
    sent = dict(request.headers)
    key = sent["x-api-key"] if backend == "ant" else sent["authorization"].removeprefix("Bearer ")
    assert key == SECRETS[backend]
    assert KEY not in str(request.headers)
    assert sent["accept-encoding"] == "identity"
    assert sent["user-agent"] == f"tieline/{__version__}"


BETAS = "context-1m-2025-08-07, message-threads-2026-01-01,fine-grained-tool-streaming-2025-05-14"


@DIRECTIONS
@STREAMED_OR_WHOLE
@pytest.mark.parametrize("betas", [True, False, None])
async def test_083_beta_flags_go_only_where_they_are_known(
    backend: Backend, client: Protocol, stream: bool, betas: bool | None
) -> None:
    async with serving(betas=betas) as stand:
        stand.script(backend, says(backend, "Hello"))
        body = question(backend, stream=stream)
        response = await stand.http.post(PATH[client], json=body, headers={"anthropic-beta": BETAS})
        assert response.status_code == 200
        sent = stand.asked(backend)[0].header("anthropic-beta")
    goes_on = betas and backend == "ant" and client == "anthropic"
    assert sent == ("context-1m-2025-08-07,fine-grained-tool-streaming-2025-05-14" if goes_on else None)


async def test_083_a_header_with_nothing_left_to_say_is_not_sent() -> None:
    async with serving(betas=True) as stand:
        stand.script("ant", says("ant", "Hello"))
        flags = {"anthropic-beta": "message-threads-2026-01-01, ,"}
        await stand.http.post(PATH["anthropic"], json=question("ant", stream=False), headers=flags)
        assert stand.asked("ant")[0].header("anthropic-beta") is None


@DIRECTIONS
@STREAMED_OR_WHOLE
@pytest.mark.parametrize("status", [200, 401, 500])
async def test_083_the_key_of_an_upstream_is_in_no_response(
    backend: Backend, client: Protocol, stream: bool, status: int
) -> None:
    """Ours: some servers repeat the key they refuse, and what a client is told ends up in logs and bug reports."""
    secret = SECRETS[backend]
    error = {"type": "error", "error": {"type": "authentication_error", "message": f"invalid key {secret}!"}}
    headers = [("x-request-id", "1"), ("x-api-key", secret), ("authorization", f"Bearer {secret}")]
    body = json.dumps(error).encode()
    chunks = [b"event: error\ndata: " + body + b"\n\n"] if status == 200 else [body]
    kind = "text/event-stream" if status == 200 else "application/json"
    async with serving() as stand:
        stand.script(backend, Answer(status=status, headers=[*headers, ("content-type", kind)], chunks=chunks))
        answer = await stand.ask(client, backend, stream=stream)
    assert "invalid key" in answer.check_failed()["message"]
    assert secret not in answer.raw.decode() + str(answer.headers)


# ── Many at once ─────────────────────────────────────────────────────────────────────────────────


def echo(backend: Backend) -> Any:
    """An upstream that repeats what it is asked, word by word."""

    def answer(request: Received) -> Answer:
        content = request.json["messages"][-1]["content"]
        said = content if isinstance(content, str) else content[0]["text"]
        return streamed(DIALECTS[backend], words(*(f"{word} " for word in said.split())))

    return answer


async def test_080_64_streams_at_once_do_not_mix(stand: Stand) -> None:
    for backend in BACKENDS:
        stand.upstreams[backend].default(PATHS[DIALECTS[backend]], echo(backend))

    async def ask(number: int) -> None:
        client: Protocol = "anthropic" if number % 2 else "openai_chat"
        said = " ".join(f"w{number}-{place}" for place in range(40))
        messages = [{"role": "user", "content": said}]
        answer = await stand.ask(client, BACKENDS[number // 2 % 2], stream=number % 8 != 0, messages=messages)
        assert answer.text == f"{said} "

    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        for number in range(64):
            group.create_task(ask(number))
