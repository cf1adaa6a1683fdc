"""Names of models as clients use and list them, through the running gateway."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anthropic
import httpx2 as httpx
import pytest

from tests.cases import leg
from tieline.app.build.application import build
from tieline.app.config import Config, UpstreamSettings
from tieline.model.content import Text
from tieline.sim.answers import CHAT, whole
from tieline.sim.model import Answer, ModelServer

KEYED = {"authorization": "Bearer key"}
USER = {"role": "user", "content": "Hi"}
ANTHROPIC = {"anthropic-version": "2023-06-01"}
LISTED = Answer(
    body=b'{"object":"list","data":[{"id":"qwen","object":"model"},{"id":"meta-llama/x","object":"model"}]}'
)


class Names:
    """A gateway with one upstream, `up`."""

    def __init__(self, client: httpx.AsyncClient, upstream: ModelServer) -> None:
        self.client = client
        self.upstream = upstream

    async def ask(self, path: str = "/v1/chat/completions", **fields: Any) -> httpx.Response:
        """Ask for an answer; the upstream gives one."""
        self.upstream.script(CHAT, whole("openai", leg((Text(), ["Hello"]))))
        body = {"messages": [USER], "max_tokens": 10, **fields}
        return await self.client.post(path, json=body)

    @property
    def asked_for(self) -> list[Any]:
        """The models that the upstream was asked for."""
        return [request.json["model"] for request in self.upstream.requests if request.path == CHAT]


@asynccontextmanager
async def names(**settings: Any) -> AsyncIterator[Names]:
    async with ModelServer() as upstream:
        upstream.script("/v1/models", *([LISTED] * 4))
        up = UpstreamSettings(kind="openai", base_url=f"{upstream.url}/v1", retries=0)
        app = build(Config(upstreams={"up": up}, **settings), {"TIELINE_KEY": "key"})
        transport = httpx.ASGITransport(app=app.asgi)
        try:
            async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers=KEYED) as client:
                yield Names(client, upstream)
        finally:
            await app.aclose()


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages"])
@pytest.mark.parametrize("fields", [{}, {"model": None}, {"model": ""}], ids=["left out", "null", "empty"])
async def test_a_request_without_a_model_gets_the_default(path: str, fields: dict[str, Any]) -> None:
    async with names(default_model="up/qwen") as stand:
        answer = await stand.ask(path, **fields)
    assert answer.status_code == 200
    assert answer.json()["model"] == "up/qwen"
    assert stand.asked_for == ["qwen"]


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages", "/v1/messages/count_tokens"])
async def test_without_a_default_the_missing_model_is_named(path: str) -> None:
    async with names(default_model="up/*") as stand:
        answer = await stand.ask(path)
    assert answer.status_code == 400
    assert "`model` is missing" in answer.json()["error"]["message"]
    assert stand.asked_for == []


async def test_a_default_with_a_star_passes_names_with_a_slash_on() -> None:
    async with names(default_model="up/*") as stand:
        assert (await stand.ask(model="meta-llama/never-listed")).status_code == 200
    assert stand.asked_for == ["meta-llama/never-listed"]


async def test_a_bare_name_is_found_in_the_list_of_an_upstream_from_the_first_request_on() -> None:
    async with names() as stand:
        assert (await stand.ask(model="qwen")).status_code == 200
        assert (await stand.ask(model="meta-llama/x")).status_code == 200
    assert stand.asked_for == ["qwen", "meta-llama/x"]


async def test_the_closest_names_are_known_from_the_first_request_on() -> None:
    async with names() as stand:
        answer = await stand.ask(model="up2/qwenn")
    assert answer.status_code == 404
    assert "up/qwen" in answer.json()["error"]["message"]


async def test_an_upstream_that_cannot_be_listed_is_named_with_the_closest_names() -> None:
    down = UpstreamSettings(kind="openai", base_url="http://127.0.0.1:1/v1", retries=0)
    app = build(Config(upstreams={"down": down}), {"TIELINE_KEY": "key"})
    transport = httpx.ASGITransport(app=app.asgi)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers=KEYED) as client:
        answer = await client.post("/v1/chat/completions", json={"model": "nowhere/x", "messages": [USER]})
    await app.aclose()
    assert answer.status_code == 404
    assert "the models of down could not be listed" in answer.json()["error"]["message"]


ALIASES = {"fast": "up/qwen", "claude-*": "up/qwen", "gone": "anthropic/x"}


async def test_exact_aliases_are_listed_under_the_backend_they_lead_to() -> None:
    async with names(aliases=ALIASES) as stand:
        listed = (await stand.client.get("/v1/models")).json()["data"]
        one = (await stand.client.get("/v1/models/fast")).json()
    owners = {item["id"]: item["owned_by"] for item in listed}
    assert owners["fast"] == owners["up/qwen"] == one["owned_by"] == "up"
    assert "claude-*" not in owners
    assert "gone" not in owners


async def test_a_pattern_for_claude_gives_claude_code_a_name_to_discover() -> None:
    async with names(aliases=ALIASES) as stand:
        listed = (await stand.client.get("/v1/models?limit=1000", headers=ANTHROPIC)).json()["data"]
        name = next(item["id"] for item in listed if item["id"].startswith("claude"))
        assert (await stand.ask(model=name)).status_code == 200
    assert name == "claude-qwen"
    assert stand.asked_for == ["qwen"]


async def test_the_list_is_what_the_anthropic_sdk_demands() -> None:
    async with names(aliases=ALIASES) as stand:
        listed = (await stand.client.get("/v1/models", headers=ANTHROPIC)).json()["data"]
    for item in listed:
        assert anthropic.types.ModelInfo.model_validate(item).lifecycle == "active"
