"""Refusals of upstreams as clients see them (catalogue 172 to 174), over real connections."""

import json
from collections.abc import AsyncIterator

import pytest

from tests.catalogue.crossing import Protocol
from tests.catalogue.serving import (
    DIALECTS,
    DIRECTIONS,
    PATH,
    SECRETS,
    STREAMED_OR_WHOLE,
    Backend,
    Stand,
    question,
    says,
    serving,
)
from tieline.model.events import ErrorKind, Failed
from tieline.sim.answers import PATHS, failed
from tieline.sim.model import Answer, ModelServer

FINAL: dict[int, ErrorKind] = {
    400: "bad_request",
    401: "unauthorized",
    402: "billing",
    403: "forbidden",
    404: "not_found",
    413: "too_large",
}


@pytest.fixture
async def stand(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Stand]:
    monkeypatch.setattr("tieline.backends.http_api.upstream.FIRST_BACK_OFF", 0.0)
    async with serving(retries=2) as made:
        yield made


# ── 159: whose key ───────────────────────────────────────────────────────────────────────────────


@DIRECTIONS
@STREAMED_OR_WHOLE
async def test_159_a_refused_key_is_said_to_be_the_upstreams(
    stand: Stand, backend: Backend, client: Protocol, stream: bool
) -> None:
    refusal = Failed(kind="unauthorized", message=f"Incorrect API key provided: {SECRETS[backend]}", status=401)
    stand.script(backend, failed(DIALECTS[backend], refusal))
    heard = await stand.ask(client, backend, stream=stream)
    message = heard.check_failed(401)["message"]
    assert f"The key of upstream `{backend}` (from {backend}_key) was refused" in message
    assert SECRETS[backend] not in heard.raw.decode()
    assert heard.headers["x-should-retry"] == "false"
    assert len(stand.asked(backend)) == 1


@DIRECTIONS
async def test_159_an_upstream_without_a_key_is_said_to_want_one(backend: Backend, client: Protocol) -> None:
    async with serving(key_env=None) as stand:
        refusal = Failed(kind="unauthorized", message="No key", status=401)
        stand.script(backend, failed(DIALECTS[backend], refusal))
        message = (await stand.ask(client, backend, stream=False)).check_failed(401)["message"]
        assert message == f"Upstream `{backend}` requires a key, and none is configured for it: No key"


@DIRECTIONS
async def test_159_every_refusal_names_its_upstream_and_says_if_a_retry_is_useless(
    stand: Stand, backend: Backend, client: Protocol
) -> None:
    for status, kind in FINAL.items():
        stand.script(backend, failed(DIALECTS[backend], Failed(kind=kind, message="No.", status=status)))
        heard = await stand.ask(client, backend, stream=False)
        assert f"upstream `{backend}`" in heard.check_failed(status)["message"]
        assert heard.headers["x-should-retry"] == "false"
    stand.script(backend, *[failed(DIALECTS[backend], Failed(kind="overloaded", message="No.", status=503))] * 3)
    heard = await stand.ask(client, backend, stream=False)
    assert f"upstream `{backend}`" in heard.check_failed(503)["message"]
    assert "x-should-retry" not in heard.headers


# ── 160: quota ───────────────────────────────────────────────────────────────────────────────────

QUOTA = {"message": "You exceeded your current quota.", "type": "insufficient_quota", "code": "insufficient_quota"}


@STREAMED_OR_WHOLE
@pytest.mark.parametrize("client", ["anthropic", "openai_chat"])
async def test_160_an_exhausted_quota_is_a_bill_and_not_a_rate_limit(
    stand: Stand, client: Protocol, stream: bool
) -> None:
    body = json.dumps({"error": {**QUOTA, "param": None}}).encode()
    stand.script("oai", Answer(status=429, headers=[("retry-after", "0")], body=body))
    heard = await stand.ask(client, "oai", stream=stream)
    error = heard.check_failed(402)
    assert error["type"] == ("billing_error" if client == "anthropic" else "insufficient_quota")
    assert heard.headers["x-should-retry"] == "false"
    assert len(stand.asked("oai")) == 1


# ── 161: redirects ───────────────────────────────────────────────────────────────────────────────


@DIRECTIONS
@STREAMED_OR_WHOLE
@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_161_a_redirect_on_the_same_host_is_followed_with_the_same_request(
    stand: Stand, backend: Backend, client: Protocol, stream: bool, status: int
) -> None:
    path = PATHS[DIALECTS[backend]]
    stand.script(backend, Answer(status=status, headers=[("location", f"/elsewhere{path}")]))
    stand.upstreams[backend].script(f"/elsewhere{path}", says(backend, "Hello"))
    assert (await stand.ask(client, backend, stream=stream)).text == "Hello"
    first, second = stand.asked(backend)
    assert (first.method, first.body, first.headers) == (second.method, second.body, second.headers)


@DIRECTIONS
async def test_161_a_redirect_to_another_host_is_an_error_and_the_key_stays_here(
    stand: Stand, backend: Backend, client: Protocol
) -> None:
    async with ModelServer() as other:
        for address in (f"{other.url}/v1/x", "https://evil.example/x", "//evil.example/", "http://[", "", "ftp://x/"):
            for status in (302, 303, 307):
                stand.script(backend, Answer(status=status, headers=[("location", address)]))
                heard = await stand.ask(client, backend, stream=False)
                message = heard.check_failed(502)["message"]
                assert f"Upstream `{backend}` redirects to" in message
                assert ("evil.example" in message) == ("evil.example" in address)
        assert not other.requests


@DIRECTIONS
async def test_161_redirects_in_a_circle_come_to_an_end(stand: Stand, backend: Backend, client: Protocol) -> None:
    path = PATHS[DIALECTS[backend]]
    stand.script(backend, *[Answer(status=307, headers=[("location", path)])] * 9)
    (await stand.ask(client, backend, stream=False)).check_failed(502)
    assert len(stand.asked(backend)) < 9


@DIRECTIONS
async def test_161_no_answer_is_a_status_below_400(stand: Stand, backend: Backend, client: Protocol) -> None:
    for status in (300, 304):
        stand.script(backend, Answer(status=status))
        response = await stand.http.post(PATH[client], json=question(backend, stream=False))
        assert response.status_code == 502
