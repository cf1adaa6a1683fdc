"""Responses over a WebSocket: many requests on one connection, continued without being stored."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.catalogue.serving import BACKENDS, DIALECTS, PATIENCE, Backend, begins, says
from tests.each import each
from tests.frontends.responses_support import Api, Socket, api, paused, play, text_of, user
from tests.frontends.test_responses import READ, texts
from tieline.frontends.responses import socket as module
from tieline.model.events import Failed
from tieline.sim.answers import failed
from tieline.sim.model import Answer, Cut, Hang, Pause


@pytest.fixture
async def client() -> AsyncIterator[Api]:
    async with api() as made:
        yield made


@pytest.fixture
async def socket(client: Api) -> AsyncIterator[Socket]:
    async with client.socket() as made:
        yield made


def error_in(events: list[Any]) -> tuple[int, str | None, str | None]:
    """The status, the code and the field of the error that is the whole answer."""
    (event,) = events
    assert event["type"] == "error"
    assert set(event["error"]) == {"message", "type", "param", "code"}
    assert event["error"]["message"]
    return event["status"], event["error"]["code"], event["error"]["param"]


# ── One request after another ────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("backend", BACKENDS)
async def test_responses_are_chained_without_being_stored(client: Api, socket: Socket, backend: Backend) -> None:
    client.stand.script(backend, says(backend, "Hel", "lo"), says(backend, "Fine"))
    first = await socket.ask(backend, store=False, stream=True, stream_id="a")
    assert first.types[0] == "response.created"
    assert text_of(first.response) == "Hello"
    second = await socket.ask(backend, input=[user("How?")], store=False, previous_response_id=first.response["id"])
    assert text_of(second.response) == "Fine"
    assert second.response["previous_response_id"] == first.response["id"]
    assert texts(client.asked(backend)) == ["Hi", "Hello", "How?"]
    assert not {"type", "stream_id", "previous_response_id"} & set(client.stand.asked(backend)[-1].json)
    assert (await client.get(f"/v1/responses/{first.response['id']}")).status == 404


@pytest.mark.parametrize("beginning", [[], "Hi", [user("Hi")]], ids=["nothing", "text", "items"])
async def test_r14_a_warm_up_is_a_whole_response_without_a_model(client: Api, socket: Socket, beginning: Any) -> None:
    warm = await socket.ask("oai", input=beginning, generate=False, store=False, instructions="Be brief.")
    assert warm.types == ["response.created", "response.in_progress", "response.completed"]
    response = warm.response
    assert (response["status"], response["output"], response["model"]) == ("completed", [], "oai/test-model")
    assert (response["usage"]["total_tokens"], response["usage"]["input_tokens_details"]["cached_tokens"]) == (0, 0)
    assert client.stand.asked("oai") == []
    client.stand.script("oai", says("oai", "Hello"))
    answer = await socket.ask("oai", input=[user("How?")], store=False, previous_response_id=response["id"])
    assert text_of(answer.response) == "Hello"
    assert texts(client.asked("oai")) == [*(["Hi"] if beginning else []), "How?"]


async def test_a_stored_response_is_continued_from_either_side(client: Api, socket: Socket) -> None:
    client.stand.script("oai", says("oai", "Hello"), says("oai", "Fine"), says("oai", "Bye"))
    first = await client.created("oai")
    second = (await socket.ask("oai", input="How?", previous_response_id=first["id"])).response
    await client.created("oai", input="Bye", previous_response_id=second["id"])
    assert texts(client.asked("oai")) == ["Hi", "Hello", "How?", "Fine", "Bye"]


async def test_r13_a_failed_continuation_keeps_the_response_before_it(client: Api, socket: Socket) -> None:
    client.stand.script(
        "oai",
        says("oai", "Hello"),
        failed(DIALECTS["oai"], Failed(kind="rate_limited", message="Slow down.", status=429)),
        begins("oai", Cut()),
        says("oai", "Fine"),
    )
    first = (await socket.ask("oai", store=False)).response
    continuing = {"input": [user("How?")], "store": False, "previous_response_id": first["id"]}
    assert error_in(await socket.ask("oai", **continuing))[0] == 429
    broken = await socket.ask("oai", **continuing)
    assert broken.response["status"] == "failed"
    unknown = await socket.ask("oai", **{**continuing, "previous_response_id": "resp_gone"})
    assert error_in(unknown) == (400, "previous_response_not_found", "previous_response_id")
    assert text_of((await socket.ask("oai", **continuing)).response) == "Fine"
    assert texts(client.asked("oai")) == ["Hi", "Hello", "How?"]


async def test_another_connection_does_not_know_an_unstored_response(client: Api, socket: Socket) -> None:
    first = (await socket.ask(store=False)).response
    async with client.socket() as other:
        events = await other.ask(previous_response_id=first["id"])
        assert error_in(events) == (400, "previous_response_not_found", "previous_response_id")


async def test_a_model_is_taken_from_the_response_before(client: Api, socket: Socket) -> None:
    client.stand.script("oai", says("oai", "Hello"), says("oai", "Fine"))
    first = (await socket.ask("oai", store=False)).response
    second = await socket.ask(model=None, store=False, previous_response_id=first["id"])
    assert second.response["model"] == "oai/test-model"


async def test_calls_are_answered_on_the_connection(socket: Socket) -> None:
    tools = [{"type": "function", "name": "clock", "parameters": {"type": "object", "properties": {}}}]
    script = play("call: clock {}", "text: It is late.")
    first = (await socket.ask(input=script, tools=tools, store=False)).response
    (call,) = [item for item in first["output"] if item["type"] == "function_call"]
    output = [{"type": "function_call_output", "call_id": call["call_id"], "output": "23:00"}]
    second = await socket.ask(input=output, tools=tools, store=False, previous_response_id=first["id"])
    assert text_of(second.response) == "It is late."


async def test_a_compacted_conversation_is_continued(client: Api, socket: Socket) -> None:
    client.stand.script("oai", says("oai", "Hello"), says("oai", "They greeted."), says("oai", "Fine"))
    first = (await socket.ask("oai", store=False)).response
    trigger = [{"type": "compaction_trigger"}]
    second = await socket.ask("oai", input=trigger, store=False, previous_response_id=first["id"])
    assert [item["type"] for item in second.done] == ["compaction"]
    await socket.ask("oai", input="How?", store=False, previous_response_id=second.response["id"])
    summary, new = texts(client.asked("oai"))
    assert summary.endswith("They greeted.")
    assert new == "How?"


# ── Several at once ──────────────────────────────────────────────────────────────────────────────


async def test_requests_with_different_stream_ids_run_at_once(client: Api, socket: Socket) -> None:
    pause = Pause()
    client.stand.script("oai", paused("oai", pause))
    await socket.send("oai", store=False, stream_id="slow")
    await client.stand.arrival("oai")
    await socket.send(input=play("text: quick"), store=False, stream_id="fast")
    events: list[dict[str, Any]] = []
    while not events or events[-1]["type"] != "response.completed":
        events.append(await socket.event())
    assert (events[-1]["stream_id"], text_of(events[-1]["response"])) == ("fast", "quick")
    assert {event["stream_id"] for event in events} <= {"slow", "fast"}
    pause.set()
    rest = await socket.answer()
    assert {event["stream_id"] for event in rest} == {"slow"}
    assert text_of(rest[-1]["response"]) == "Hello"


async def test_requests_of_one_lane_are_answered_in_order(client: Api, socket: Socket) -> None:
    client.stand.script("oai", says("oai", "one"), says("oai", "two"), says("oai", "three"))
    for _ in range(3):
        await socket.send("oai", store=False, stream_id="a")
    assert [text_of((await socket.answer()).response) for _ in range(3)] == ["one", "two", "three"]


async def test_lanes_continue_one_another(client: Api, socket: Socket) -> None:
    client.stand.script("oai", says("oai", "Hello"), says("oai", "Fine"), says("oai", "Good"))
    first = (await socket.ask("oai", store=False)).response
    for lane in ("a", "b"):
        await socket.ask("oai", input=lane, store=False, previous_response_id=first["id"], stream_id=lane)
        assert texts(client.asked("oai")) == ["Hi", "Hello", lane]


async def test_there_are_limits(client: Api, socket: Socket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_RUNNING", 1)
    monkeypatch.setattr(module, "MAX_WAITING", 1)
    monkeypatch.setattr(module, "MAX_LANES", 2)
    pause = Pause()
    client.stand.script("oai", paused("oai", pause))
    await socket.send("oai", store=False, stream_id="a")
    await client.stand.arrival("oai")
    limit = (429, "websocket_stream_limit_reached", None)
    async with asyncio.timeout(60):
        while (await socket.event())["type"] != "response.output_text.delta":
            pass
    assert error_in(await socket.ask(stream_id="b")) == limit  # too many run
    await socket.send(input=play("text: waited"), stream_id="a", store=False)
    assert error_in(await socket.ask(stream_id="a")) == limit  # too many wait
    pause.set()
    assert text_of((await socket.answer())[-1]["response"]) == "Hello"
    assert text_of((await socket.answer()).response) == "waited"
    monkeypatch.setattr(module, "MAX_RUNNING", 9)
    for lane in ("c", "d", "e"):  # idle lanes make room
        assert (await socket.ask(stream_id=lane)).response["status"] == "completed"


async def test_waiting_requests_count_as_memory(client: Api, socket: Socket) -> None:
    pause = Pause()
    client.stand.script("oai", paused("oai", pause))
    budget = client.stand.app.asgi._bodies
    await socket.send("oai", input="x" * 5000, store=False)
    await client.stand.arrival("oai")
    await socket.send(input="y" * 7000, store=False)
    await socket.send(type="wrong", input="")
    while (await socket.event())["type"] != "error":
        pass
    assert 12_000 < budget.reserved < 13_000
    pause.set()
    await socket.answer()
    await socket.answer()
    assert budget.reserved == 0


async def test_remembered_conversations_count_as_memory(client: Api) -> None:
    budget = client.stand.app.asgi._bodies
    async with client.socket() as socket, client.socket() as other:
        first = (await socket.ask(input="x" * 5000, store=False)).response
        assert 5_000 < budget.kept < 6_000
        await other.ask(input="z" * 2000, store=False)
        assert 7_000 < budget.kept < 9_000
        pause = Pause()
        client.stand.script("oai", paused("oai", pause))
        await socket.send("oai", previous_response_id=first["id"], input="y" * 1000, store=False)
        await client.stand.arrival("oai")
        assert 6_000 < budget.reserved < 7_000, "the message, and the conversation that it continues"
        pause.set()
        await socket.answer()
        assert budget.reserved == 0
        assert 8_000 < budget.kept < 10_000
    async with asyncio.timeout(PATIENCE):
        while budget.kept:
            await client.http.get("/healthz")


async def test_conversations_that_take_up_too_much_memory_are_refused_or_forgotten(
    client: Api, socket: Socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    budget = client.stand.app.asgi._bodies
    first = (await socket.ask(input="x" * 5000, store=False)).response
    kept = budget.kept
    monkeypatch.setattr(budget, "_limit", kept + 2000)
    # The conversation is in memory once as it is remembered, and once more as a part of the request.
    (error,) = await socket.ask(previous_response_id=first["id"], input="more", store=False)
    assert error["status"] == 503
    assert "hold more than" in error["error"]["message"]
    assert (budget.reserved, budget.kept) == (0, kept)
    # Another conversation is answered, but there is no room to remember it. The client has to send it again.
    second = (await socket.ask(input="y" * 1500, store=False, stream_id="b")).response
    assert second["status"] == "completed"
    assert budget.kept == kept
    (error,) = await socket.ask(previous_response_id=second["id"], input="more", store=False, stream_id="b")
    assert error["error"]["code"] == "previous_response_not_found"


async def test_what_is_lost_is_listed_in_the_response(client: Api, socket: Socket) -> None:
    client.stand.script("oai", says("oai", "Hello"), says("oai", "Hello"))
    events = await socket.ask("oai", tools=[READ, {"type": "web_search"}], metadata={"mine": "1"})
    assert events.response["metadata"] == {"mine": "1", "tieline_dropped": "metadata, tools[1]"}
    stored = await client.get(f"/v1/responses/{events.response['id']}")
    assert stored.body == events.response
    assert (await socket.ask("oai")).response["metadata"] == {}


# ── Mistakes ─────────────────────────────────────────────────────────────────────────────────────


@each(
    ("message", "expected"),
    [
        ("{", (400, None, None)),
        ("[]", (400, None, None)),
        ("{}", (400, None, "type")),
        ('{"type": "response.steer"}', (400, None, "type")),
        ('{"type": 5}', (400, None, "type")),
        ('{"type": "response.create", "stream_id": 5}', (400, None, "stream_id")),
        ('{"type": "response.create", "stream_id": ""}', (400, None, "stream_id")),
        ('{"type": "response.create"}', (400, None, "input")),
        ('{"type": "response.create", "input": 5}', (400, None, "input")),
        ('{"type": "response.create", "input": "Hi", "model": "nobody/else"}', (404, "model_not_found", "model")),
        ('{"type": "response.create", "input": [{"id": "msg_1"}]}', (404, None, "input[0].id")),
        ('{"type": "response.create", "input": "Hi", "conversation": "conv_1"}', (404, None, "conversation_id")),
    ],
)
async def test_a_wrong_message_is_answered_with_an_error(message: str, expected: Any) -> None:
    async with api() as client, client.socket() as socket:
        await socket.connection.send(message)
        assert error_in(await socket.answer()) == expected
        assert (await socket.ask()).response["status"] == "completed", "the connection is still usable"


async def test_an_error_names_its_lane(socket: Socket) -> None:
    (event,) = await socket.ask(input=5, stream_id="a")
    assert (event["type"], event["stream_id"]) == ("error", "a")


async def test_a_bug_is_an_error_and_not_the_end(
    socket: Socket, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(module, "client_of", None)
        assert error_in(await socket.ask())[0] == 500
    assert "a response on a WebSocket failed" in caplog.text
    assert (await socket.ask()).response["status"] == "completed"


async def test_a_key_is_needed(client: Api) -> None:
    with pytest.raises(InvalidStatus) as refused:
        await connect(f"{client.stand.url.replace('http', 'ws', 1)}/v1/responses", proxy=None)
    assert refused.value.response.status_code == 401
    assert "key" in json.loads(refused.value.response.body)["error"]["message"]


# ── Silence and the end ──────────────────────────────────────────────────────────────────────────


async def test_a_silent_response_repeats_its_state() -> None:
    async with api(server={"keep_alive": 0.02}) as client, client.socket() as socket:
        pause = Pause()
        client.stand.script("oai", paused("oai", pause))
        await socket.send("oai", store=False)
        events = [await socket.event()]
        while [event["type"] for event in events].count("response.in_progress") < 3:
            events.append(await socket.event())
        pause.set()
        while events[-1]["type"] != "response.completed":
            events.append(await socket.event())
        assert [event["sequence_number"] for event in events] == list(range(len(events)))
        assert text_of(events[-1]["response"]) == "Hello"


async def test_a_failure_after_a_keep_alive_is_a_failed_response() -> None:
    async with api(server={"keep_alive": 0.02}) as client, client.socket() as socket:
        pause = Pause()
        refusal = failed(DIALECTS["oai"], Failed(kind="overloaded", message="Busy.", status=503))
        slow = Answer(status=refusal.status, headers=refusal.headers, chunks=[pause, refusal.body])
        client.stand.script("oai", slow)
        await socket.send("oai", store=False)
        assert (await socket.event())["type"] == "response.created"
        pause.set()
        events = await socket.answer()
        assert events[-1]["type"] == "response.failed"
        assert events[-1]["response"]["error"]["code"] == "server_is_overloaded"


async def test_a_client_that_leaves_ends_its_requests(client: Api) -> None:
    client.stand.script("oai", begins("oai", Hang()), begins("oai", Hang()))
    async with client.socket() as socket:
        await socket.send("oai", store=False, stream_id="a")
        await socket.send("oai", store=False, stream_id="b")
        await client.stand.arrival("oai")
        await client.stand.arrival("oai")
    await client.stand.gone("oai")


async def test_r01_r15_a_stopping_gateway_ends_every_response(client: Api) -> None:
    client.stand.script("oai", begins("oai", Hang()))
    async with client.socket() as socket, client.socket() as idle:
        await socket.send("oai", store=False, stream_id="a")
        while (await socket.event())["type"] != "response.output_text.delta":
            pass
        await socket.send("oai", store=False, stream_id="a")
        await socket.send(type="wrong")
        while (await socket.event())["type"] != "error":
            pass
        client.stand.stop()
        refused = await socket.event()  # the request that waits
        assert (refused["type"], refused["status"], refused["stream_id"]) == ("error", 503, "a")
        events = await socket.answer()
        assert (events[-1]["type"], events[-1]["stream_id"]) == ("response.failed", "a")
        assert events[-1]["response"]["error"]["code"] == "server_is_overloaded"
        for one in (socket, idle):
            with pytest.raises(ConnectionClosed) as closed:
                await one.event()
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1001
    await client.stand.gone("oai")
