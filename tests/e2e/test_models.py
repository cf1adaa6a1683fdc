"""The list of models as clients get it from the running gateway."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anthropic
import httpx2 as httpx
import openai

from tieline.app.build.application import build
from tieline.app.config import Config, ModelSettings, UpstreamSettings
from tieline.sim.model import Answer, ModelServer

KEYED = {"authorization": "Bearer key"}
ANTHROPIC = {"anthropic-version": "2023-06-01"}
LISTED = Answer(
    body=b'{"object":"list","data":['
    b'{"id":"gpt-4o","object":"model","context_length":64000,"max_output_tokens":1000},'
    b'{"id":"mine","object":"model","max_model_len":32768}]}'
)
SETTINGS = {
    "up/gpt-4o": ModelSettings(max_output=2_000),
    "up/*": ModelSettings(tools=True),
    "fast": ModelSettings(title="Fast", context=8_000),
}


@asynccontextmanager
async def gateway() -> AsyncIterator[httpx.AsyncClient]:
    """Serve an upstream `up` with two models, and the alias `fast`."""
    async with ModelServer() as upstream:
        upstream.script("/v1/models", *([LISTED] * 4))
        up = UpstreamSettings(kind="openai", base_url=f"{upstream.url}/v1", retries=0)
        config = Config(upstreams={"up": up}, aliases={"fast": "up/mine"}, models=SETTINGS, demo=False)
        app = build(config, {"TIELINE_KEY": "key", "PATH": ""})
        transport = httpx.ASGITransport(app=app.asgi)
        try:
            async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers=KEYED) as client:
                yield client
        finally:
            await app.aclose()


def rows(listed: Any) -> dict[str, Any]:
    return {row["id"]: row for row in listed["data"]}


async def test_the_configuration_then_the_upstream_then_the_family_decides() -> None:
    async with gateway() as client:
        found = rows((await client.get("/v1/models")).json())["up/gpt-4o"]
    assert found["max_output_tokens"] == 2_000, "from the configuration"
    assert found["context_length"] == 64_000, "from the upstream"
    assert found["capabilities"]["input_modalities"] == ["text", "image"], "from the table of families"
    assert found["api_types"] == ["chat_completions", "responses", "anthropic_messages"]


async def test_an_alias_can_have_settings_of_its_own() -> None:
    async with gateway() as client:
        listed = rows((await client.get("/v1/models")).json())
        one = (await client.get("/v1/models/fast")).json()
    assert (listed["fast"]["display_name"], listed["fast"]["context_length"]) == ("Fast", 8_000)
    assert listed["up/mine"]["context_length"] == 32_768
    assert "display_name" not in listed["up/mine"]
    assert one == listed["fast"]


async def test_codex_gets_both_lists_in_one_object() -> None:
    async with gateway() as client:
        listed = (await client.get("/v1/models?client_version=0.166.0")).json()
        plain = (await client.get("/v1/models")).json()
    assert list(listed) == ["object", "data", "models"]
    assert [entry["slug"] for entry in listed["models"]] == ["up/gpt-4o", "up/mine", "fast"]
    assert listed["models"][1]["context_window"] == 32_768
    assert "models" not in plain


async def test_pages_of_anthropics_list() -> None:
    async with gateway() as client:
        page = (await client.get("/v1/models?limit=2", headers=ANTHROPIC)).json()
        rest = (await client.get("/v1/models?limit=2&after_id=up%2Fmine", headers=ANTHROPIC)).json()
        wrong = await client.get("/v1/models?limit=0", headers=ANTHROPIC)
        lost = await client.get("/v1/models?after_id=gone", headers=ANTHROPIC)
    assert (list(rows(page)), page["has_more"], page["last_id"]) == (["up/gpt-4o", "up/mine"], True, "up/mine")
    assert (list(rows(rest)), rest["has_more"]) == (["fast"], False)
    assert (wrong.status_code, lost.status_code) == (400, 400)
    assert wrong.json()["error"]["type"] == "invalid_request_error"
    assert "`limit`: expected a number from 1 to 1000" in wrong.json()["error"]["message"]


async def test_official_sdks_read_the_lists() -> None:
    async with gateway() as client:
        chat = openai.AsyncOpenAI(base_url="http://127.0.0.1/v1", api_key="key", http_client=client)
        listed = [model async for model in chat.models.list()]
        messages = anthropic.AsyncAnthropic(base_url="http://127.0.0.1", api_key="key", http_client=client)
        paged = [model async for model in messages.models.list(limit=1)]
        one = await messages.models.retrieve("up/gpt-4o")
    assert [model.id for model in listed] == ["up/gpt-4o", "up/mine", "fast"]
    assert [model.id for model in paged] == ["up/gpt-4o", "up/mine", "fast"]
    assert (one.max_input_tokens, one.max_tokens) == (64_000, 2_000)
    assert one.capabilities is not None
    assert one.capabilities.image_input.supported
    assert not one.capabilities.effort.supported
