"""Answers without any content (catalogue 175), over real connections."""

from typing import Any

import pytest

from tests.cases import leg
from tests.catalogue.crossing import Protocol
from tests.catalogue.serving import BACKENDS, DIALECTS, STREAMED_OR_WHOLE, Backend, says, serving
from tests.frontends.responses_support import Api
from tieline.model.content import Thinking
from tieline.model.events import StopReason
from tieline.sim.answers import streamed, whole
from tieline.sim.model import Answer, Received

TRANSLATED = pytest.mark.parametrize(
    ("backend", "client"),
    [("ant", "openai_chat"), ("oai", "anthropic"), ("res", "openai_chat"), ("res", "anthropic")],
)
"""Clients and upstreams of different protocols."""
CALL: dict[Protocol, list[Any]] = {
    "anthropic": [
        {"role": "assistant", "content": [{"type": "tool_use", "id": "call_1", "name": "clock", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call_1", "content": "noon"}]},
    ],
    "openai_chat": [
        {
            "role": "assistant",
            "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "clock", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "noon"},
    ],
}


def empty(backend: Backend) -> Any:
    """An answer that ends without any content."""
    events = leg()

    def answer(request: Received) -> Answer:
        return streamed(DIALECTS[backend], events) if request.json.get("stream") else whole(DIALECTS[backend], events)

    return answer


@TRANSLATED
@STREAMED_OR_WHOLE
async def test_175_an_empty_answer_is_tried_again_unseen(backend: Backend, client: Protocol, stream: bool) -> None:
    async with serving(retries=1) as stand:
        stand.script(backend, empty(backend), says(backend, "Hello"))
        assert (await stand.ask(client, backend, stream=stream)).text == "Hello"
        assert len(stand.asked(backend)) == 2


@TRANSLATED
async def test_175_an_upstream_that_sends_only_empty_answers_has_failed(backend: Backend, client: Protocol) -> None:
    async with serving(retries=1) as stand:
        stand.script(backend, empty(backend), empty(backend))
        answer = await stand.ask(client, backend, stream=True)
        assert "empty answer" in answer.check_failed(502)["message"]
        assert answer.headers["x-should-retry"] == "false"


@TRANSLATED
async def test_175_after_a_result_a_model_may_have_nothing_to_add(backend: Backend, client: Protocol) -> None:
    async with serving() as stand:
        stand.script(backend, empty(backend))
        messages = [{"role": "user", "content": "Look."}, *CALL[client]]
        answer = await stand.ask(client, backend, stream=True, messages=messages)
        assert (answer.status, answer.text, answer.error) == (200, "", None)
        assert len(stand.asked(backend)) == 1


@pytest.mark.parametrize("backend", BACKENDS)
async def test_175_thinking_that_was_shown_is_not_taken_back(backend: Backend) -> None:
    async with serving() as stand:
        stand.script(backend, streamed(DIALECTS[backend], leg((Thinking(), ["Hm."]), reason=StopReason.END_TURN)))
        response = (await Api(stand).stream(backend)).response
        assert response["status"] == "completed"
        assert [item["type"] for item in response["output"]] == ["reasoning"]


@STREAMED_OR_WHOLE
@pytest.mark.parametrize(("backend", "client"), [("ant", "anthropic"), ("oai", "openai_chat")])
async def test_175_an_answer_of_the_same_protocol_may_have_content_that_is_not_known(
    backend: Backend, client: Protocol, stream: bool
) -> None:
    async with serving(retries=1) as stand:
        stand.script(backend, empty(backend))
        answer = await stand.ask(client, backend, stream=stream)
        assert (answer.status, answer.text, answer.error) == (200, "", None)
        assert len(stand.asked(backend)) == 1


@pytest.mark.parametrize("backend", ["ant", "oai"])
async def test_175_a_client_of_responses_learns_of_it(backend: Backend) -> None:
    async with serving(retries=0) as stand:
        stand.script(backend, empty(backend), empty(backend))
        client = Api(stand)
        reply = await client.create(backend)
        assert (reply.status, "empty answer" in reply.body["error"]["message"]) == (502, True)
        async with client.socket() as socket:
            (error,) = await socket.ask(backend)
        assert (error["status"], error["error"]["code"]) == (502, "upstream_empty")
