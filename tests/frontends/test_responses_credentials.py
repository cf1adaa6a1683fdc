"""Credentials of MCP servers in requests: they reach the upstream, but are neither repeated nor stored."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.catalogue.serving import DIALECTS, words
from tests.frontends.responses_support import Api, api, files_below, user
from tieline.sim.answers import streamed

READ = {"type": "function", "name": "read", "parameters": {"type": "object", "properties": {}}}
SERVER = {"type": "mcp", "server_label": "s", "server_url": "http://127.0.0.1:1"}
SECRETS = {"authorization": "SECRET-1", "headers": {"x-key": "SECRET-2"}}
ADDED = {"type": "additional_tools", "role": "developer", "tools": [READ, {**SERVER, **SECRETS}]}
HELLO = user("hi")


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Api]:
    async with api(tmp_path) as client:
        yield client


def added_in(items: Any) -> list[Any]:
    """The additional tools among these items."""
    return [tool for item in items if item["type"] == "additional_tools" for tool in item["tools"]]


async def test_credentials_in_tools_are_neither_repeated_nor_stored(client: Api) -> None:
    created = await client.created(input="hi", tools=[READ, {**SERVER, **SECRETS}])
    stored = (await client.get(f"/v1/responses/{created['id']}")).body
    assert [tool["type"] for tool in stored["tools"]] == ["function", "mcp"]
    assert "SECRET" not in json.dumps([created, stored])


async def test_credentials_in_additional_tools_are_not_stored(tmp_path: Path) -> None:
    async with api(tmp_path) as client:
        await _store_additional_tools(client)
    # Everything that is stored was written when the gateway stopped.
    written = b"".join(path.read_bytes() for path in files_below(tmp_path))
    assert b"server_label" in written
    assert b"SECRET" not in written


async def _store_additional_tools(client: Api) -> None:
    created = await client.created(input=[ADDED, HELLO])
    items = (await client.get(f"/v1/responses/{created['id']}/input_items")).body["data"]
    assert added_in(items) == [READ, SERVER]
    conversation = (await client.post("/v1/conversations", items=[ADDED])).body["id"]
    await client.created(input=[ADDED, HELLO], conversation=conversation)
    kept = (await client.get(f"/v1/conversations/{conversation}/items")).body["data"]
    assert added_in(kept) == [READ, SERVER, READ, SERVER]


async def test_credentials_in_additional_tools_reach_an_upstream_of_the_same_protocol(client: Api) -> None:
    client.stand.script("res", streamed(DIALECTS["res"], words("Hello")))
    await client.stream("res", input=[ADDED, HELLO])
    sent = json.dumps(client.stand.asked("res")[-1].json)
    assert "SECRET-1" in sent
    assert "SECRET-2" in sent
