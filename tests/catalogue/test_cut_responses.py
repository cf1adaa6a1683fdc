"""Answers that were cut off (catalogue 177), for clients that repeat a request after an incomplete response."""

from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from tests.cases import leg
from tests.catalogue.serving import BACKENDS, DIALECTS, Backend, serving
from tests.frontends.responses_support import Api
from tests.frontends.test_responses import READ
from tieline.app.config import ClientSettings
from tieline.model.content import Part, Text, ToolCall
from tieline.model.events import StopReason
from tieline.sim.answers import streamed, whole
from tieline.sim.model import Answer, Received

LIMIT = "[The answer was cut off: it reached the token limit.]"
DECLINED = "[The answer was cut off: the model declined to continue.]"
CUT_CALL = ToolCall(id="call_1", name="read")
PER_BACKEND = pytest.mark.parametrize("backend", BACKENDS)
STREAMED_OR_WHOLE = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])


@pytest.fixture
async def client() -> AsyncIterator[Api]:
    clients = {"retrying": ClientSettings(user_agent="retrying*", incomplete="completed")}
    async with serving(settings={"clients": clients}) as stand:
        stand.http.headers["user-agent"] = "retrying/1"
        yield Api(stand)


def cut(backend: Backend, *parts: tuple[Part, Sequence[str]], reason: StopReason) -> Any:
    """An answer of an upstream that ends for this reason."""
    events = leg(*[(part, list(texts)) for part, texts in parts], reason=reason)

    def answer(request: Received) -> Answer:
        return streamed(DIALECTS[backend], events) if request.json.get("stream") else whole(DIALECTS[backend], events)

    return answer


def texts(response: Any) -> list[str]:
    return [part["text"] for item in response["output"] for part in item.get("content", ())]


async def answered(client: Api, backend: Backend, stream: bool, **body: Any) -> Any:
    if not stream:
        return await client.created(backend, **body)
    events = await client.stream(backend, **body)
    assert events.done == events.response["output"]
    deltas = [event["delta"] for event in events if event["type"] == "response.output_text.delta"]
    assert "".join(deltas) == "".join(texts(events.response))
    return events.response


@PER_BACKEND
@STREAMED_OR_WHOLE
async def test_177_a_text_at_the_token_limit_is_complete_and_says_why_it_ends(
    client: Api, backend: Backend, stream: bool
) -> None:
    client.stand.script(backend, cut(backend, (Text(), ["Half"]), reason=StopReason.MAX_TOKENS))
    response = await answered(client, backend, stream)
    assert (response["status"], response["incomplete_details"]) == ("completed", None)
    assert texts(response) == ["Half", f"\n\n{LIMIT}"]
    assert [item["status"] for item in response["output"]] == ["completed"]


@PER_BACKEND
async def test_177_a_text_that_a_filter_ends_is_complete_and_says_why_it_ends(client: Api, backend: Backend) -> None:
    client.stand.script(backend, cut(backend, (Text(), ["Half"]), reason=StopReason.REFUSAL))
    response = await answered(client, backend, stream=True)
    assert response["status"] == "completed"
    assert texts(response) == ["Half", f"\n\n{DECLINED}"]


@PER_BACKEND
async def test_177_a_call_at_the_token_limit_is_not_in_a_complete_response(client: Api, backend: Backend) -> None:
    parts = (Text(), ["I read."]), (CUT_CALL, ['{"path": "a'])
    client.stand.script(backend, cut(backend, *parts, reason=StopReason.MAX_TOKENS))
    events = await client.stream(backend, tools=[READ])
    assert events.response["status"] == "completed"
    assert texts(events.response) == ["I read.", LIMIT]
    assert [item["type"] for item in events.done] == ["message", "message"]


async def test_177_an_answer_that_is_not_cut_has_no_such_message(client: Api) -> None:
    client.stand.script("res", cut("res", (Text(), ["All"]), reason=StopReason.END_TURN))
    assert texts(await answered(client, "res", stream=True)) == ["All"]


@PER_BACKEND
async def test_177_other_clients_receive_an_incomplete_response(client: Api, backend: Backend) -> None:
    client.stand.http.headers["user-agent"] = "other/1"
    client.stand.script(backend, cut(backend, (Text(), ["Half"]), reason=StopReason.MAX_TOKENS))
    response = (await client.stream(backend)).response
    assert (response["status"], response["incomplete_details"]) == ("incomplete", {"reason": "max_output_tokens"})
    assert texts(response) == ["Half"]
