"""Clients that leave and upstreams that do: nothing hangs, and nobody waits for the other."""

import asyncio
from typing import Any

import anthropic
import httpx2
import openai
import pytest
from anthropic import Anthropic
from openai import OpenAI

from tests.e2e.support import BACKENDS, DIALECTS, KEY, PATIENCE, Backend, Stand, text
from tieline.sim.answers import streamed
from tieline.sim.model import Answer, Cut, Hang, Pause, Received

CHAT = "/v1/chat/completions"
MESSAGES = "/v1/messages"
FRONTENDS = pytest.mark.parametrize("path", [CHAT, MESSAGES])


def question(model: str, *, stream: bool) -> dict[str, Any]:
    messages = [{"role": "user", "content": "Hi"}]
    return {"model": model, "messages": messages, "max_tokens": 10, "stream": stream}


async def arrived(gateway: Stand, backend: Backend) -> Received:
    """The next request of an upstream."""
    return await asyncio.to_thread(gateway.run, gateway.upstreams[backend].arrival())


async def left(gateway: Stand, request: Received) -> None:
    """Wait until whoever asked an upstream has gone."""

    async def wait() -> None:
        await asyncio.wait_for(request.gone, PATIENCE)

    await asyncio.to_thread(gateway.run, wait())


@BACKENDS
@FRONTENDS
@pytest.mark.parametrize("stream", [True, False])
async def test_080_a_client_that_leaves_before_the_first_byte_ends_the_upstream_request(
    gateway: Stand, backend: Backend, path: str, stream: bool
) -> None:
    model = gateway.answer(backend, Answer(chunks=[Hang()]))
    headers = {"authorization": f"Bearer {KEY}"}
    async with httpx2.AsyncClient(base_url=gateway.url, headers=headers, timeout=PATIENCE) as client:
        asking = asyncio.create_task(client.post(path, json=question(model, stream=stream)))
        request = await arrived(gateway, backend)
        assert not request.gone.done()
        asking.cancel()
        await asyncio.wait([asking])
        await left(gateway, request)


@BACKENDS
@FRONTENDS
async def test_080_a_client_that_leaves_in_the_middle_ends_the_upstream_request(
    gateway: Stand, backend: Backend, path: str
) -> None:
    model = gateway.answer(backend, streamed(DIALECTS[backend], [*text("Hel", "lo")[:3], Hang()]))
    headers = {"authorization": f"Bearer {KEY}"}
    async with httpx2.AsyncClient(base_url=gateway.url, headers=headers, timeout=PATIENCE) as client:
        async with client.stream("POST", path, json=question(model, stream=True)) as response:
            assert response.status_code == 200
            # Kept: an iterator that nobody holds is closed, and the connection with it.
            pieces = response.aiter_raw()
            assert await anext(pieces)
            request = await arrived(gateway, backend)
            assert not request.gone.done()
        await left(gateway, request)


@BACKENDS
@pytest.mark.parametrize("cut", [Cut(), Cut(reset=True)])
def test_073_a_stream_the_upstream_cuts_is_an_error_for_an_openai_client(
    gateway: Stand, backend: Backend, cut: Cut
) -> None:
    pause = Pause()
    model = gateway.answer(backend, streamed(DIALECTS[backend], [*text("Hel", "lo")[:3], pause, cut]))
    with (
        OpenAI(base_url=f"{gateway.url}/v1", api_key=KEY, max_retries=0) as client,
        client.chat.completions.create(
            model=model, messages=[{"role": "user", "content": "Hi"}], stream=True
        ) as stream,
    ):
        next(stream)
        gateway.call(pause.set)
        with pytest.raises(openai.APIError):
            list(stream)


@BACKENDS
@pytest.mark.parametrize("cut", [Cut(), Cut(reset=True)])
def test_073_a_stream_the_upstream_cuts_is_an_error_for_an_anthropic_client(
    gateway: Stand, backend: Backend, cut: Cut
) -> None:
    pause = Pause()
    model = gateway.answer(backend, streamed(DIALECTS[backend], [*text("Hel", "lo")[:3], pause, cut]))
    with (
        Anthropic(base_url=gateway.url, api_key=KEY, max_retries=0) as client,
        client.messages.create(
            model=model, max_tokens=10, messages=[{"role": "user", "content": "Hi"}], stream=True
        ) as stream,
    ):
        next(stream)
        gateway.call(pause.set)
        with pytest.raises(anthropic.APIError):
            list(stream)


@BACKENDS
@FRONTENDS
@pytest.mark.parametrize("stream", [True, False])
def test_077_an_upstream_that_drops_the_connection_at_once_is_a_bad_gateway(
    gateway: Stand, backend: Backend, path: str, stream: bool
) -> None:
    model = gateway.answer(backend, Answer(chunks=[Cut()]))
    headers = {"authorization": f"Bearer {KEY}"}
    response = httpx2.post(
        f"{gateway.url}{path}", json=question(model, stream=stream), headers=headers, timeout=PATIENCE
    )
    assert response.status_code == 502
    assert response.json()["error"]["message"]
