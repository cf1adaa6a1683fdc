"""Endpoints that pass through to an upstream, and addresses that are wrong or nearly right."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator

import httpx2
import openai
import pytest

from tests.catalogue.serving import KEY, MODEL, PATIENCE, SECRETS, Stand, says, serving
from tieline.frontends.bodies import MAX_VALUES
from tieline.sim.model import Answer, Cut, Hang, Pause

EMBEDDED = (
    b'{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.1, 0.2]}],"model":"m",'
    b'"usage":{"prompt_tokens":1,"total_tokens":1}}'
)


@pytest.fixture
async def stand(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Stand]:
    monkeypatch.setattr("tieline.backends.http_api.upstream.FIRST_BACK_OFF", 0.0)
    async with serving(settings={"aliases": {"small": f"oai/{MODEL}"}}, retries=1) as made:
        yield made


# ── Passing through ──────────────────────────────────────────────────────────────────────────────


async def test_embeddings_pass_through_with_only_the_models_name_replaced(stand: Stand) -> None:
    upstream = stand.upstreams["oai"]
    for name in (f"oai/{MODEL}", "small"):
        upstream.script(
            "/v1/embeddings", Answer(body=EMBEDDED, headers=[("x-request-id", "r1"), ("set-cookie", "a=b")])
        )
        body = b'{ "input": ["\\u00e9", 1e400], "model": "%b", "nested": {"model": "oai/x"}}' % name.encode()
        response = await stand.http.post("/v1/embeddings", content=body)
        assert (response.status_code, response.content) == (200, EMBEDDED)
        assert response.headers["content-type"] == "application/json"
        assert response.headers["x-request-id"] == "r1"
        assert "set-cookie" not in response.headers
        sent = stand.asked("oai")[-1]
        assert sent.body == b'{"input":["\\u00e9", 1e400],"model":"%b","nested":{"model": "oai/x"}}' % MODEL.encode()
        assert sent.header("authorization") == f"Bearer {SECRETS['oai']}"
        assert sent.header("x-api-key") is None


async def test_the_official_client_gets_embeddings_and_streamed_completions(stand: Stand) -> None:
    upstream = stand.upstreams["oai"]
    upstream.script("/v1/embeddings", Answer(body=EMBEDDED))
    piece = {"id": "c", "object": "text_completion", "created": 1, "model": "m"}
    chunks = [
        b"data: %b\n\n" % json.dumps({**piece, "choices": [{"index": 0, "text": text, "finish_reason": None}]}).encode()
        for text in ("Hel", "lo")
    ]
    upstream.script("/v1/completions", Answer(chunks=[*chunks, b"data: [DONE]\n\n"]))
    async with openai.AsyncOpenAI(base_url=f"{stand.url}/v1", api_key=KEY, max_retries=0) as client:
        vectors = await client.embeddings.create(model=f"oai/{MODEL}", input="hi", encoding_format="float")
        assert vectors.data[0].embedding == [0.1, 0.2]
        stream = await client.completions.create(model=f"oai/{MODEL}", prompt="hi", stream=True)
        assert [chunk.choices[0].text async for chunk in stream] == ["Hel", "lo"]


async def test_a_form_passes_through_with_only_the_models_name_replaced(stand: Stand) -> None:
    stand.upstreams["oai"].script("/v1/audio/transcriptions", Answer(body=b'{"text":"hi"}'))
    sound = b'\r\n--x\r\nname="model"\r\n\r\n\x00\xff'
    async with openai.AsyncOpenAI(base_url=f"{stand.url}/v1", api_key=KEY, max_retries=0) as client:
        heard = await client.audio.transcriptions.create(model=f"oai/{MODEL}", file=("a.wav", sound))
    assert heard.text == "hi"
    sent = stand.asked("oai")[-1]
    assert sound in sent.body
    assert b'name="model"\r\n\r\n%b\r\n' % MODEL.encode() in sent.body
    assert str(sent.header("content-type")).startswith("multipart/form-data; boundary=")


async def test_large_recordings_and_long_lists_of_tokens_pass_through(stand: Stand) -> None:
    upstream = stand.upstreams["oai"]
    upstream.script("/v1/audio/transcriptions", Answer(body=b'{"text":"hi"}'))
    upstream.script("/v1/embeddings", Answer(body=EMBEDDED))
    sound = b"{[,:\x00" * MAX_VALUES
    async with openai.AsyncOpenAI(base_url=f"{stand.url}/v1", api_key=KEY, max_retries=0) as client:
        await client.audio.transcriptions.create(model=f"oai/{MODEL}", file=("a.wav", sound))
        assert sound in stand.asked("oai")[-1].body
        await client.embeddings.create(model=f"oai/{MODEL}", input=[[1] * MAX_VALUES, [2] * MAX_VALUES])
        assert stand.asked("oai")[-1].body.count(b"2") >= MAX_VALUES
    members = b",".join(b'"%d":0' % number for number in range(MAX_VALUES + 1))
    refused = await stand.http.post("/v1/embeddings", content=b'{"model":"oai/%b",%b}' % (MODEL.encode(), members))
    assert refused.status_code == 413


async def test_a_stream_passes_through_as_it_comes_and_a_break_is_seen(stand: Stand) -> None:
    pause = Pause()
    stand.upstreams["oai"].script("/v1/completions", Answer(chunks=[b"data: one\n\n", pause, Cut()]))
    body = {"model": f"oai/{MODEL}", "prompt": "x", "stream": True}
    async with stand.http.stream("POST", "/v1/completions", json=body) as response, asyncio.timeout(PATIENCE):
        pieces = response.aiter_raw()
        assert await anext(pieces) == b"data: one\n\n"
        pause.set()
        with pytest.raises(httpx2.RemoteProtocolError):
            await anext(pieces)
    await stand.counted('tieline_errors_total{frontend="completions",kind="upstream"} 1')


async def test_a_client_that_leaves_ends_the_upstreams_request(stand: Stand) -> None:
    stand.upstreams["oai"].script("/v1/embeddings", Answer(chunks=[Hang()]))
    async with stand.connection("/v1/embeddings", json.dumps({"model": f"oai/{MODEL}"}).encode()):
        await stand.arrival("oai")
    await stand.gone("oai")
    await stand.counted('tieline_errors_total{frontend="embeddings",kind="cancelled"} 1')


async def test_failures_of_a_passage_are_retried_named_and_counted(stand: Stand) -> None:
    upstream, body = stand.upstreams["oai"], {"model": f"oai/{MODEL}", "input": "x"}
    upstream.script("/v1/embeddings", Answer(status=503), Answer(body=EMBEDDED))
    assert (await stand.http.post("/v1/embeddings", json=body)).status_code == 200
    upstream.script(
        "/v1/embeddings", Answer(status=401, body=b'{"error":{"message":"bad %b"}}' % SECRETS["oai"].encode())
    )
    response = await stand.http.post("/v1/embeddings", json=body)
    assert response.status_code == 401
    assert "The key of upstream `oai`" in response.json()["error"]["message"]
    assert SECRETS["oai"] not in response.text
    await stand.counted('tieline_requests_total{frontend="embeddings",backend="oai"} 2')
    await stand.counted('tieline_errors_total{frontend="embeddings",kind="unauthorized"} 1')
    legs = stand.app.gateway.bus.legs()
    assert [(leg.frontend, leg.backend, leg.status) for leg in legs] == [
        ("embeddings", "oai", "failed"),
        ("embeddings", "oai", "ok"),
    ]


async def test_a_passage_that_leads_nowhere_is_refused_in_words(stand: Stand) -> None:
    cases = {
        b"[1]": (400, "JSON object"),
        b'{"model": 7}': (400, "model"),
        b'{"model": "ant/x"}': (400, "`ant` does not serve embeddings"),
        b'{"model": "nowhere/x"}': (404, "There is no model"),
        b"{}": (400, "`model` is missing"),
    }
    for body, (status, words) in cases.items():
        response = await stand.http.post("/v1/embeddings", content=body)
        assert response.status_code == status, body
        assert words in response.json()["error"]["message"]
    form = await stand.http.post("/v1/audio/transcriptions", files={"file": b"x"})
    assert (form.status_code, form.json()["error"]["param"]) == (400, "model")
    keyless = await stand.http.post("/v1/embeddings", json={}, headers={"x-api-key": "wrong"})
    assert keyless.status_code == 401


# ── Addresses ────────────────────────────────────────────────────────────────────────────────────


async def test_one_v1_too_many_or_too_few_does_no_harm(stand: Stand) -> None:
    for path in ("/v1/v1/messages", "/messages", "/v1/v1/v1/messages/"):
        stand.script("ant", says("ant", "Hello"))
        body = {"model": f"ant/{MODEL}", "max_tokens": 5, "messages": [{"role": "user", "content": "Hi"}]}
        response = await stand.http.post(path, json=body)
        assert response.json()["content"][0]["text"] == "Hello", path
    for path in ("/v1/v1/chat/completions", "/chat/completions"):
        stand.script("oai", says("oai", "Hello"))
        body = {"model": f"oai/{MODEL}", "messages": [{"role": "user", "content": "Hi"}]}
        assert (await stand.http.post(path, json=body)).status_code == 200, path
    assert (await stand.http.head("/v1")).status_code == 200
    for path in ("/models", "/v1/v1/models", f"/models/oai/{MODEL}", f"/v1/v1/models/oai/{MODEL}"):
        assert (await stand.http.get(path)).status_code == 200, path
    body = {"model": f"oai/{MODEL}", "messages": [{"role": "user", "content": "Hi"}]}
    assert (await stand.http.post("/messages/count_tokens", json=body)).status_code == 200


async def test_a_wrong_address_is_told_what_is_served_and_logged_once(
    stand: Stand, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2):
        response = await stand.http.post("/v1/messages/batches", json={}, headers={"anthropic-version": "2023-06-01"})
        assert response.status_code == 404
        message = response.json()["error"]["message"]
        assert response.json()["type"] == "error"
        assert "POST /v1/messages," in message
        assert "POST /v1/embeddings" in message
    assert (await stand.http.get("/v1/files/%1b[2J")).status_code == 404
    warned = [record.message for record in caplog.records if record.levelno == logging.WARNING]
    assert [line.partition(":")[0] for line in warned] == ["POST /v1/messages/batches", "GET /v1/files/\\x1b[2J"]
