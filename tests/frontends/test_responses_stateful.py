"""Upstreams that store responses: what they receive when a conversation continues, and when they cannot continue it."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from websockets.asyncio.client import connect

from tests.cases import USAGE
from tests.catalogue.serving import KEY, PATIENCE, listening
from tests.each import each
from tests.frontends.responses_support import Events, events_in
from tieline.app.build.application import build
from tieline.app.config import Config, ResponsesSettings, UpstreamSettings
from tieline.model.assemble import unfold
from tieline.model.content import Part, Text, ToolCall
from tieline.model.events import Event, Finished, Reply, StopReason
from tieline.sim.answers import RESPONSES
from tieline.sim.model import Answer, ModelServer, Pause, Received
from tieline.wire import openai_responses
from tieline.wire.openai_responses.echo import echo_of
from tieline.wire.shared.json import parse_object

STREAM = "text/event-stream"
READ = {"type": "function", "name": "read", "parameters": {"type": "object"}}


class StatefulUpstream(ModelServer):
    """An upstream that stores responses. It answers `turn 1`, `turn 2` …, or calls `read` if it is asked to `call`."""

    def __init__(self) -> None:
        super().__init__()
        self.stored: dict[str, list[Any]] = {}
        """The conversation up to and including each response."""
        self.echoes_store = True
        """Whether a response says if it is stored. If not, it claims that it is."""
        self.default(RESPONSES, self.respond)

    @property
    def bodies(self) -> list[Any]:
        return [request.json for request in self.requests if request.path == RESPONSES]

    @property
    def last(self) -> Any:
        """The last request: the previous response, the items in short, and whether the response may be stored."""
        body = self.bodies[-1]
        return body.get("previous_response_id"), [short(item) for item in body["input"]], body["store"]

    def respond(self, received: Received) -> Answer:
        body = received.json
        previous = body.get("previous_response_id")
        if previous is not None and previous not in self.stored:
            return refusal(400, f"Previous response with id '{previous}' not found.", "previous_response_not_found")
        given = body["input"] if isinstance(body["input"], list) else [{"role": "user", "content": body["input"]}]
        conversation = [*self.stored.get(previous or "", []), *given]
        calls = {item["call_id"] for item in conversation if item.get("type") == "function_call"}
        for item in given:
            if item.get("type") == "function_call_output" and item["call_id"] not in calls:
                return refusal(400, f"No tool call found for function call output with call_id {item['call_id']}.")
        response_id = f"resp_up{len(self.requests)}"
        answer = _answer(response_id, body, conversation, received.body if self.echoes_store else b"{}")
        response = json.loads(answer.body) if not body.get("stream") else events_in(answer.body).response
        if body["store"]:
            self.stored[response_id] = [*conversation, *response["output"]]
        return answer


def _answer(response_id: str, body: Any, conversation: list[Any], echoed: bytes) -> Answer:
    part: Part = Text(text=f"turn {sum(item.get('role') == 'user' for item in conversation)}")
    if conversation[-1].get("content") == "call":
        part = ToolCall(id=f"call_{response_id}", name="read", arguments='{"path":"a"}')
    reason = StopReason.TOOL_USE if isinstance(part, ToolCall) else StopReason.END_TURN
    reply = Reply(id=response_id, model=body["model"], parts=(part,), usage=USAGE, finished=Finished(reason=reason))
    options = openai_responses.Options(created=1, response_id=response_id, echo=echo_of(parse_object(echoed)))
    if not body.get("stream"):
        return Answer(body=openai_responses.render(reply, options))
    events: list[Event] = unfold(reply)
    return Answer(body=openai_responses.ResponseWriter(options).write_all(events), headers=[("content-type", STREAM)])


def refusal(status: int, message: str, code: str | None = None) -> Answer:
    error = {"message": message, "type": "invalid_request_error", "param": "previous_response_id", "code": code}
    return Answer(status=status, body=json.dumps({"error": error}).encode())


def paused(answer: Answer, pause: Pause) -> Answer:
    return Answer(chunks=(pause, answer.body), headers=[("content-type", "application/json")])


def short(item: Any) -> str:
    """An item in a few words: the text of a message, or the type of another item."""
    if item.get("type", "message") != "message":
        return str(item["type"])
    content = item["content"]
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


class Client:
    """A client of the gateway."""

    def __init__(self, url: str, http: httpx2.AsyncClient) -> None:
        self.url = url
        self.http = http

    async def create(self, model: str = "res/m", **body: Any) -> Any:
        """Create a response, streamed or not, and return it."""
        answer = await self.http.post("/v1/responses", json={"model": model, **body})
        assert answer.status_code == 200, answer.text
        return events_in(answer.content).response if body.get("stream") else answer.json()

    async def post(self, path: str, **body: Any) -> Any:
        return (await self.http.post(path, json=body)).json()


@pytest.fixture
async def upstream() -> AsyncIterator[StatefulUpstream]:
    async with StatefulUpstream() as server:
        yield server


@asynccontextmanager
async def gateway(
    upstream: ModelServer,
    home: Path | None = None,
    upstream_key: str = "secret",
    responses: ResponsesSettings | None = None,
    **settings: Any,
) -> AsyncIterator[Client]:
    """A gateway with two upstreams at the same address: `res`, and `other` with another name."""
    own = UpstreamSettings(
        kind="openai",
        base_url=f"{upstream.url}/v1",
        key_env="UP_KEY",
        retries=0,
        **{"api": "responses", "stateful": True, **settings},
    )
    config = Config(upstreams={"res": own, "other": own}, responses=responses or ResponsesSettings())
    env = {"TIELINE_KEY": KEY, "UP_KEY": upstream_key, **({"HOME": str(home)} if home is not None else {})}
    app = build(config, env)
    try:
        async with (
            listening(app) as url,
            httpx2.AsyncClient(base_url=url, headers={"x-api-key": KEY}, timeout=PATIENCE) as http,
        ):
            yield Client(url, http)
    finally:
        await app.aclose()


# ── Continuing ───────────────────────────────────────────────────────────────────────────────────


@each("stream", [True, False])
@each("api", ["responses", "auto"])
async def test_only_new_items_are_sent_to_an_upstream_that_knows_the_conversation(api: str, stream: bool) -> None:
    async with StatefulUpstream() as upstream, gateway(upstream, api=api) as client:
        first = await client.create(input="one", stream=stream)
        assert upstream.bodies[-1]["store"] is True
        assert "previous_response_id" not in upstream.bodies[-1]
        second = await client.create(input="two", previous_response_id=first["id"], stream=stream)
        assert upstream.last == ("resp_up1", ["two"], True)
        third = await client.create(input="three", previous_response_id=second["id"], stream=stream)
        assert upstream.last == ("resp_up2", ["three"], True)
        assert third["output"][0]["content"][0]["text"] == "turn 3"
        assert (third["previous_response_id"], third["store"]) == (second["id"], True)
        assert all(not response["id"].startswith("resp_up") for response in (first, second, third))
        items = (await client.http.get(f"/v1/responses/{third['id']}/input_items", params={"order": "asc"})).json()
        assert [short(item) for item in items["data"]] == ["one", "turn 1", "two", "turn 2", "three"]


async def test_the_bytes_of_a_continuing_request(upstream: StatefulUpstream) -> None:
    async with gateway(upstream) as client:
        first = await client.create(input="one", instructions="Be brief.")
        item = {"role": "user", "content": [{"type": "input_text", "text": "two"}], "extra": 1}
        body: Any = {"instructions": "Be long.", "input": [item], "service_tier": "flex"}
        await client.create(previous_response_id=first["id"], **body)
    assert upstream.bodies[-1] == {
        "model": "m",
        "instructions": "Be long.",
        "service_tier": "flex",
        "store": True,
        "include": ["reasoning.encrypted_content"],
        "previous_response_id": "resp_up1",
        "input": [item],
    }


async def test_settings_that_are_not_inherited_are_sent_again(upstream: StatefulUpstream) -> None:
    async with gateway(upstream) as client:
        first = await client.create(input="one", instructions="Be brief.", tools=[READ])
        same: Any = {"instructions": "Be brief.", "tools": [READ]}
        second = await client.create(input="two", previous_response_id=first["id"], **same)
        assert (upstream.last, upstream.bodies[-1]["instructions"]) == (("resp_up1", ["two"], True), "Be brief.")
        assert [tool["name"] for tool in upstream.bodies[-1]["tools"]] == ["read"]
        await client.create(input="three", previous_response_id=second["id"])
        assert upstream.last == ("resp_up2", ["three"], True)
        assert not {"instructions", "tools"} & upstream.bodies[-1].keys()


async def test_the_result_of_a_call_is_sent_without_the_call(upstream: StatefulUpstream) -> None:
    async with gateway(upstream) as client:
        first = await client.create(input=[{"role": "user", "content": "call"}], tools=[READ])
        [call] = first["output"]
        output = {"type": "function_call_output", "call_id": call["call_id"], "output": "text of a"}
        second = await client.create(input=[output], previous_response_id=first["id"], tools=[READ])
        assert upstream.last == ("resp_up1", ["function_call_output"], True)
        assert second["status"] == "completed"
        # A call that the client never answers gets a result, which upstreams require.
        await client.create(input="go on", previous_response_id=first["id"], tools=[READ])
        assert upstream.last == ("resp_up1", ["function_call_output", "go on"], True)
        assert len(upstream.requests) == 3


async def test_two_requests_can_continue_the_same_response(upstream: StatefulUpstream) -> None:
    async with gateway(upstream) as client:
        first = await client.create(input="one")
        branches = [client.create(input=text, previous_response_id=first["id"]) for text in ("left", "right")]
        left, right = await asyncio.gather(*branches)
        assert [body["previous_response_id"] for body in upstream.bodies[1:]] == ["resp_up1"] * 2
        for branch, text in ((left, "left"), (right, "right")):
            await client.create(input="more", previous_response_id=branch["id"])
            state, items, _ = upstream.last
            assert items == ["more"]
            assert [short(item) for item in upstream.stored[state or ""]] == ["one", "turn 1", text, "turn 2"]


async def test_a_background_response_can_be_continued(upstream: StatefulUpstream) -> None:
    async with gateway(upstream) as client:
        begun = await client.create(input="one", background=True)
        followed = await client.http.get(f"/v1/responses/{begun['id']}", params={"stream": "true"})
        assert events_in(followed.content).response["status"] == "completed"
        await client.create(input="two", previous_response_id=begun["id"])
        assert upstream.last == ("resp_up1", ["two"], True)


async def test_a_websocket_continues_stored_responses(upstream: StatefulUpstream) -> None:
    upstream.echoes_store = False
    async with gateway(upstream) as client:
        address = f"{client.url.replace('http', 'ws', 1)}/v1/responses"
        async with connect(address, additional_headers={"x-api-key": KEY}, proxy=None) as socket:

            async def ask(**body: Any) -> str:
                await socket.send(json.dumps({"type": "response.create", "model": "res/m", **body}))
                events = Events()
                async with asyncio.timeout(PATIENCE):
                    while not events or events[-1]["type"] != "response.completed":
                        events.append(json.loads(await socket.recv()))
                return str(events.response["id"])

            first = await ask(input="one")
            second = await ask(input="two", previous_response_id=first)
            assert upstream.last == ("resp_up1", ["two"], True)
            third = await ask(input="three", previous_response_id=second, store=False)
            assert upstream.last == ("resp_up2", ["three"], False)
            # The connection remembers the last response, but the upstream does not.
            await ask(input="four", previous_response_id=third, store=False)
            assert upstream.last == (None, ["one", "turn 1", "two", "turn 2", "three", "turn 3", "four"], False)
            assert len(upstream.requests) == 4


async def test_a_conversation_is_continued_until_it_is_changed(upstream: StatefulUpstream) -> None:
    async with gateway(upstream) as client:
        talk = (await client.post("/v1/conversations", items=[{"role": "user", "content": "zero"}]))["id"]
        await client.create(input="one", conversation=talk)
        assert upstream.last == (None, ["zero", "one"], True)
        await client.create(input="two", conversation=talk)
        assert upstream.last == ("resp_up1", ["two"], True)
        await client.post(f"/v1/conversations/{talk}/items", items=[{"role": "user", "content": "added"}])
        await client.create(input="three", conversation=talk)
        history = ["zero", "one", "turn 2", "two", "turn 3", "added", "three"]
        assert upstream.last == (None, history, True)
        await client.create(input="four", conversation=talk)
        assert upstream.last == ("resp_up3", ["four"], True)
        items = (await client.http.get(f"/v1/conversations/{talk}/items", params={"order": "asc"})).json()["data"]
        await client.http.delete(f"/v1/conversations/{talk}/items/{items[0]['id']}")
        await client.create(input="five", conversation=talk)
        assert upstream.last == (None, [*history[1:], "turn 5", "four", "turn 6", "five"], True)


async def test_items_added_to_a_conversation_during_a_response_are_not_lost(upstream: StatefulUpstream) -> None:
    pause = Pause()
    upstream.script(RESPONSES, lambda received: paused(upstream.respond(received), pause))
    async with gateway(upstream) as client:
        talk = (await client.post("/v1/conversations"))["id"]
        created = asyncio.create_task(client.create(input="one", conversation=talk))
        async with asyncio.timeout(PATIENCE):
            await pause.reached.wait()
        await client.post(f"/v1/conversations/{talk}/items", items=[{"role": "user", "content": "added"}])
        pause.set()
        await created
        await client.create(input="two", conversation=talk)
        assert upstream.last == (None, ["added", "one", "turn 1", "two"], True)


# ── Not continuing ───────────────────────────────────────────────────────────────────────────────


@each(
    "answer",
    [
        refusal(400, "Previous response with id 'resp_up1' not found.", "previous_response_not_found"),
        refusal(404, "Response with id 'resp_up1' not found."),
        refusal(400, "Unsupported parameter: 'previous_response_id'.", "unsupported_parameter"),
        Answer(
            body=b'event: response.failed\ndata: {"type":"response.failed","sequence_number":0,"response":'
            b'{"id":"r","status":"failed","error":{"code":"previous_response_not_found","message":"gone"}}}\n\n',
            headers=[("content-type", STREAM)],
        ),
    ],
)
@each("stream", [True, False])
async def test_an_upstream_that_has_forgotten_a_response_gets_the_whole_history(answer: Answer, stream: bool) -> None:
    async with StatefulUpstream() as upstream, gateway(upstream) as client:
        first = await client.create(input="one", stream=stream)
        upstream.script(RESPONSES, answer)
        second = await client.create(input="two", previous_response_id=first["id"], stream=stream)
        assert second["output"][0]["content"][0]["text"] == "turn 2"
        assert [body.get("previous_response_id") for body in upstream.bodies] == [None, "resp_up1", None]
        assert upstream.last == (None, ["one", "turn 1", "two"], True)
        # The answer to the whole history is stored, so the next request can continue it.
        await client.create(input="three", previous_response_id=second["id"], stream=stream)
        assert upstream.last == ("resp_up3", ["three"], True)


async def test_the_history_is_replayed_only_once(upstream: StatefulUpstream) -> None:
    gone = refusal(400, "Previous response with id 'resp_up1' not found.", "previous_response_not_found")
    async with gateway(upstream) as client:
        first = await client.create(input="one")
        upstream.script(RESPONSES, gone, gone, gone)
        body = {"model": "res/m", "input": "two", "previous_response_id": first["id"]}
        answer = await client.http.post("/v1/responses", json=body)
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "previous_response_not_found")
        assert len(upstream.requests) == 3


async def test_an_upstream_that_says_that_it_stores_nothing_gets_the_whole_history(upstream: StatefulUpstream) -> None:
    async with gateway(upstream) as client:
        upstream.script(RESPONSES, lambda received: _answer("resp_x", received.json, [{}], b'{"store":false}'))
        first = await client.create(input="one")
        await client.create(input="two", previous_response_id=first["id"])
        assert upstream.last == (None, ["one", "turn 0", "two"], True)
        assert len(upstream.requests) == 2


async def test_another_upstream_or_model_gets_the_whole_history(upstream: StatefulUpstream) -> None:
    async with gateway(upstream) as client:
        first = second = await client.create(input="one")
        for model in ("other/m", "res/n"):
            second = await client.create(model, input="two", previous_response_id=first["id"])
            assert upstream.last == (None, ["one", "turn 1", "two"], True)
            await client.create(model, input="three", previous_response_id=second["id"])
            assert upstream.last == (f"resp_up{len(upstream.requests) - 1}", ["three"], True)
        # The model that does not know the latest response does not get its own older state.
        await client.create("res/m", input="four", previous_response_id=second["id"])
        assert upstream.last == (None, ["one", "turn 1", "two", "turn 2", "four"], True)


async def test_state_survives_a_restart_but_not_a_change_of_the_key(upstream: StatefulUpstream, tmp_path: Path) -> None:
    async with gateway(upstream, tmp_path) as client:
        first = await client.create(input="one")
    async with gateway(upstream, tmp_path) as client:
        await client.create(input="two", previous_response_id=first["id"])
        assert upstream.last == ("resp_up1", ["two"], True)
    for changed in ({"upstream_key": "another"}, {"headers": {"OpenAI-Project": "p"}}):
        async with gateway(upstream, tmp_path, **changed) as client:
            await client.create(input="two", previous_response_id=first["id"])
            assert upstream.last == (None, ["one", "turn 1", "two"], True)


async def test_what_the_client_says_that_the_model_answered_is_sent_with_the_history(
    upstream: StatefulUpstream,
) -> None:
    async with gateway(upstream) as client:
        first = await client.create(input="one")
        said = [{"role": "assistant", "content": "said"}, {"role": "user", "content": "two"}]
        await client.create(input=said, previous_response_id=first["id"])
        assert upstream.last == (None, ["one", "turn 1", "said", "two"], True)


# ── Nothing is stored against the will of the user ───────────────────────────────────────────────


@each("settings", [{"stateful": False}, {"responses": ResponsesSettings(store=False)}, {}])
@each("echoes", [True, False])
async def test_nothing_is_stored_unless_the_user_and_the_client_want_it(settings: Any, echoes: bool) -> None:
    wish: Any = {} if settings else {"store": False}
    async with StatefulUpstream() as upstream, gateway(upstream, **settings) as client:
        upstream.echoes_store = echoes
        first = await client.create(input="one", **wish)
        history = [{"role": "user", "content": "one"}, *first["output"], {"role": "user", "content": "two"}]
        await client.create(input=history, **wish)
        assert upstream.last == (None, ["one", "turn 1", "two"], False)
        assert upstream.stored == {}


async def test_clients_of_other_protocols_store_nothing(upstream: StatefulUpstream) -> None:
    async with gateway(upstream) as client:
        messages = [{"role": "user", "content": "one"}]
        for path in ("/v1/chat/completions", "/v1/messages"):
            answer = await client.http.post(path, json={"model": "res/m", "messages": messages, "max_tokens": 99})
            assert answer.status_code == 200
            assert upstream.bodies[-1]["store"] is False


async def test_a_request_with_store_off_may_continue_but_is_not_stored(upstream: StatefulUpstream) -> None:
    async with gateway(upstream) as client:
        first = await client.create(input="one")
        await client.create(input="two", previous_response_id=first["id"], store=False)
        assert upstream.last == ("resp_up1", ["two"], False)
        assert upstream.stored.keys() == {"resp_up1"}


async def test_a_summary_is_neither_stored_nor_continued(upstream: StatefulUpstream) -> None:
    async with gateway(upstream) as client:
        first = await client.create(input="one")
        rule = [{"type": "compaction", "compact_threshold": 1}]
        second = await client.create(input="two", previous_response_id=first["id"], context_management=rule)
        assert [item["type"] for item in second["output"]] == ["compaction", "message"]
        asked, answered = upstream.bodies[-2:]
        assert (asked["store"], answered["store"]) == (False, True)
        assert not {"previous_response_id"} & (asked.keys() | answered.keys())
        await client.create(input="three", previous_response_id=second["id"])
        state, items, _ = upstream.last
        assert (state, len(items)) == (None, 3)
