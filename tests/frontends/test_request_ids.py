"""Errors that the gateway makes carry an id that can be found in the traffic."""

import json
from collections.abc import AsyncIterator

import pytest

from tests.catalogue.crossing import Protocol
from tests.catalogue.serving import CLIENTS, PATH, Stand, question, serving

HEADER: dict[str, str] = {"anthropic": "request-id", "openai_chat": "x-request-id"}


@pytest.fixture
async def stand() -> AsyncIterator[Stand]:
    async with serving() as made:
        yield made


@CLIENTS
async def test_the_error_of_a_leg_is_found_in_the_traffic_by_its_id(stand: Stand, client: Protocol) -> None:
    body = {**question("oai", stream=False), "model": "nothing/here"}
    response = await stand.http.post(PATH[client], json=body)
    given = response.headers[HEADER[client]]
    assert response.status_code == 404
    assert given.startswith("req_")
    if client == "anthropic":
        assert response.json()["request_id"] == given
    [leg] = (await stand.http.get("/api/traffic", params={"query": given})).json()["legs"]
    assert (leg["request_id"], leg["status"]) == (given, "failed")


@CLIENTS
@pytest.mark.parametrize("body", [b"{", b"[]"])
async def test_a_request_that_cannot_be_read_has_an_id_too(stand: Stand, client: Protocol, body: bytes) -> None:
    first, second = [await stand.http.post(PATH[client], content=body) for _ in range(2)]
    assert first.status_code == second.status_code == 400
    assert first.headers[HEADER[client]] != second.headers[HEADER[client]]
    if client == "anthropic":
        assert json.loads(first.content)["request_id"] == first.headers["request-id"]
