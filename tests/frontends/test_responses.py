"""Responses over HTTP: created, continued, retrieved and removed."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.cases import leg
from tests.catalogue.serving import BACKENDS, DIALECTS, KEY, Backend, begins, says, serving
from tests.each import each
from tests.frontends.responses_support import DEMO, OTHER_KEY, Api, api, files_below, paused, play, text_of, user
from tieline.app.config import KeySettings
from tieline.model.content import Text, Thinking, ToolCall
from tieline.model.events import Event, Failed, StopReason
from tieline.sim.answers import failed, streamed, whole
from tieline.sim.model import Answer, Cut, Pause, Received, Script

EACH_BACKEND = pytest.mark.parametrize("backend", BACKENDS)
READ: Any = {
    "type": "function",
    "name": "read_file",
    "parameters": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
}


@pytest.fixture
async def client() -> AsyncIterator[Api]:
    async with api() as made:
        yield made


def gives(backend: Backend, events: list[Event]) -> Script:
    """A leg as it is asked for: streamed or whole."""

    def answer(request: Received) -> Answer:
        return (streamed if request.json.get("stream") else whole)(DIALECTS[backend], events)

    return answer


def texts(messages: Any) -> list[str]:
    """The texts of the messages that an upstream got, in any dialect."""
    contents = [message.get("content") or "" for message in messages]
    return [one if isinstance(one, str) else "".join(part.get("text", "") for part in one) for one in contents]


# ── Answers ──────────────────────────────────────────────────────────────────────────────────────


@EACH_BACKEND
async def test_r01_r02_r16_a_stream_ends_with_the_same_response_as_a_whole_answer(
    client: Api, backend: Backend
) -> None:
    client.stand.script(backend, says(backend, "Hel", "lo"), says(backend, "Hel", "lo"))
    events = await client.stream(backend)
    assert events.types[:2] == ["response.created", "response.in_progress"]
    assert [event["delta"] for event in events if event["type"] == "response.output_text.delta"] == ["Hel", "lo"]
    response = events.response
    assert response["output"] == events.done
    assert response["usage"] == {
        "input_tokens": 11,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": 7,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 18,
    }
    other = await client.created(backend)
    assert text_of(other) == text_of(response) == "Hello"
    assert other["usage"] == response["usage"]
    assert other["model"] == response["model"] == f"{backend}/test-model"
    assert other["id"] != response["id"]


@EACH_BACKEND
async def test_r09_calls_are_in_whole_answers_too(client: Api, backend: Backend) -> None:
    calls: list[tuple[Any, list[str]]] = [
        (ToolCall(id="call_1", name="read_file"), ['{"path":', '"a.py"}']),
        (ToolCall(id="call_2", name="read_file"), ['{"path":"b.py"}']),
    ]
    events = leg((Thinking(), ["Hm."]), (Text(), ["Let me look."]), *calls, reason=StopReason.TOOL_USE)
    client.stand.script(backend, gives(backend, events), gives(backend, events))
    whole_answer = await client.created(backend, tools=[READ])
    streamed_answer = (await client.stream(backend, tools=[READ])).response
    for response in (whole_answer, streamed_answer):
        called = [item for item in response["output"] if item["type"] == "function_call"]
        assert [(item["call_id"], item["name"], item["arguments"], item["status"]) for item in called] == [
            ("call_1", "read_file", '{"path":"a.py"}', "completed"),
            ("call_2", "read_file", '{"path":"b.py"}', "completed"),
        ]
        assert [item["type"] for item in response["output"]][:2] == ["reasoning", "message"]


@EACH_BACKEND
async def test_a_refusal_of_the_upstream_is_a_status(client: Api, backend: Backend) -> None:
    refusal = Failed(kind="rate_limited", message="Slow down.", status=429, retry_after=7)
    client.stand.script(backend, failed(DIALECTS[backend], refusal), failed(DIALECTS[backend], refusal))
    reply = await client.create(backend)
    assert reply.error[::3] == (429, f"Slow down. (upstream `{backend}`)")
    assert reply.headers["retry-after"] == "7"
    body = {"model": f"{backend}/test-model", "input": "Hi", "stream": True}
    response = await client.http.post("/v1/responses", json=body)
    assert (response.status_code, response.json()) == (429, reply.body)


@EACH_BACKEND
async def test_r01_r17_a_stream_that_breaks_ends_with_a_failed_response(client: Api, backend: Backend) -> None:
    client.stand.script(backend, begins(backend, Cut()))
    response = (await client.stream(backend)).response
    assert response["status"] == "failed"
    assert response["error"]["code"] == "server_error"
    assert response["error"]["message"]
    (item,) = response["output"]
    assert (item["status"], item["content"][0]["text"]) == ("incomplete", "Hel")
    kept = await client.get(f"/v1/responses/{response['id']}")
    assert kept.body == response


async def test_r18_an_answer_of_thinking_alone_is_passed_on_as_a_whole_response(client: Api) -> None:
    client.stand.script("oai", gives("oai", leg((Thinking(), ["Hm."]))))
    events = await client.stream("oai")
    assert events.types[-1] == "response.completed"
    assert [item["type"] for item in events.response["output"]] == ["reasoning"]
    assert events.response["output"] == events.done
    assert events.response["usage"]["total_tokens"] == 18


async def test_a_client_that_leaves_ends_the_request_upstream(client: Api) -> None:
    pause = Pause()
    client.stand.script("oai", begins("oai", pause))
    body = {"model": "oai/test-model", "input": "Hi", "stream": True}
    async with client.http.stream("POST", "/v1/responses", json=body) as response:
        await anext(response.aiter_raw())
    await client.stand.gone("oai")


async def test_a_silent_stream_repeats_its_state() -> None:
    async with api(server={"keep_alive": 0.05}) as client:
        pause = Pause()
        client.stand.script("oai", paused("oai", pause))
        body = {"model": "oai/test-model", "input": "Hi", "stream": True}
        raw = b""
        async with client.http.stream("POST", "/v1/responses", json=body) as response:
            async for piece in response.aiter_raw():
                raw += piece
                if raw.count(b"event: response.in_progress") == 3:
                    pause.set()
    assert raw.count(b"event: response.created") == raw.count(b"event: response.completed") == 1


# ── Continued responses ──────────────────────────────────────────────────────────────────────────


@EACH_BACKEND
async def test_a_response_is_continued_by_its_id(client: Api, backend: Backend) -> None:
    client.stand.script(backend, says(backend, "Hello"), says(backend, "Fine"), says(backend, "Bye"))
    first = await client.created(backend, input="Hi", instructions="Be brief.")
    second = (await client.stream(backend, input=[user("How?")], previous_response_id=first["id"])).response
    assert second["previous_response_id"] == first["id"]
    third = await client.created(None, model=None, input="Bye", previous_response_id=second["id"])
    assert third["model"] == f"{backend}/test-model"
    assert texts(client.asked(backend)) == ["Hi", "Hello", "How?", "Fine", "Bye"]
    assert "Be brief." not in client.stand.asked(backend)[-1].body.decode()


async def test_results_continue_the_response_with_the_call(client: Api) -> None:
    called = leg((ToolCall(id="call_1", name="read_file"), ['{"path":"a.py"}']), reason=StopReason.TOOL_USE)
    client.stand.script("ant", gives("ant", called), says("ant", "It is empty."))
    first = await client.created("ant", tools=[READ])
    output = [{"type": "function_call_output", "call_id": "call_1", "output": "(empty)"}]
    second = await client.created("ant", input=output, tools=[READ], previous_response_id=first["id"])
    assert text_of(second) == "It is empty."
    sent = client.asked("ant")
    assert [message["role"] for message in sent] == ["user", "assistant", "user"]
    assert sent[1]["content"][0]["type"] == "tool_use"
    assert sent[2]["content"][0]["type"] == "tool_result"


async def test_signed_thinking_survives_in_a_stored_response(client: Api) -> None:
    thought = leg((Thinking(signature="c2ln"), ["Hm."]), (Text(), ["Hello"]))
    client.stand.script("ant", gives("ant", thought), says("ant", "Fine"))
    first = await client.created("ant", reasoning={"effort": "high"})
    await client.created("ant", input="How?", previous_response_id=first["id"], reasoning={"effort": "high"})
    thinking = client.asked("ant")[1]["content"][0]
    assert (thinking["type"], thinking["thinking"], thinking["signature"]) == ("thinking", "Hm.", "c2ln")


async def test_two_continuations_at_once_are_branches(client: Api) -> None:
    first = await client.created(input=play("text: one", "text: two", "text: three"))
    pairs = await asyncio.gather(
        client.created(input="left", previous_response_id=first["id"]),
        client.created(input="right", previous_response_id=first["id"]),
    )
    client.stand.script("oai", says("oai", "x"), says("oai", "y"))
    for one, word in zip(pairs, ("left", "right"), strict=True):
        await client.created("oai", input="go", previous_response_id=one["id"])
        said = texts(client.asked("oai"))
        assert said[2] == word
        assert len(said) == 5


async def test_r13_an_unknown_response_cannot_be_continued(client: Api) -> None:
    message = "Previous response with id 'resp_gone' not found."
    expected = (400, "previous_response_not_found", "previous_response_id", message)
    assert (await client.create(previous_response_id="resp_gone")).error == expected
    reply = await client.post("/v1/responses", model=DEMO, input="Hi", previous_response_id="resp_gone", stream=True)
    assert reply.error == expected
    assert reply.body["error"]["type"] == "invalid_request_error"


async def test_a_chain_with_a_removed_response_cannot_be_continued(client: Api) -> None:
    first = await client.created()
    second = await client.created(previous_response_id=first["id"])
    third = await client.created(previous_response_id=second["id"])
    assert (await client.delete(f"/v1/responses/{first['id']}")).status == 200
    reply = await client.create(previous_response_id=third["id"])
    assert reply.error[:3] == (400, "previous_response_not_found", "previous_response_id")
    assert first["id"] in reply.error[3]


async def test_a_mistake_in_a_continuation_is_named_by_its_place_in_the_request(client: Api) -> None:
    first = await client.created()
    wrong = [user("fine"), {"type": "message", "role": "user", "content": 5}]
    status, _, param, message = (await client.create(input=wrong, previous_response_id=first["id"])).error
    assert (status, param) == (400, "input[1].content")
    assert "`input[1].content`" in message


async def test_the_values_of_the_whole_conversation_are_limited(client: Api) -> None:
    many = [user("x")] * 20_000  # each has three JSON values
    first = await client.created(input=many)
    assert (await client.create(previous_response_id=first["id"])).status == 200
    reply = await client.create(input=many, previous_response_id=first["id"])
    assert reply.error[:2] == (413, "too_many_values")


async def test_the_history_of_a_request_counts_against_the_memory_for_all_requests(
    client: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    conversation = (await client.post("/v1/conversations", items=[user("x" * 6000)])).body["id"]
    budget, pause = client.stand.app.asgi._bodies, Pause()
    monkeypatch.setattr(budget, "_limit", 10_000)
    client.stand.script("oai", paused("oai", pause))
    first = await client.created(input="x" * 6000)
    running = asyncio.create_task(client.stream("oai", previous_response_id=first["id"]))
    await client.stand.arrival("oai")
    for fields in ({"previous_response_id": first["id"]}, {"conversation": conversation}):
        reply = await client.create(**fields)
        assert (reply.status, reply.headers["retry-after"]) == (503, "5")
    pause.set()
    assert text_of((await running).response) == "Hello"
    assert (await client.create(conversation=conversation)).status == 200
    assert budget.reserved == 0


# ── References to items ──────────────────────────────────────────────────────────────────────────


@EACH_BACKEND
async def test_r20_a_reference_stands_for_the_item_also_after_a_restart(tmp_path: Path, backend: Backend) -> None:
    async with api(tmp_path) as before:
        before.stand.script(backend, says(backend, "Hello"))
        first = await before.created(backend)
        listed = (await before.get(f"/v1/responses/{first['id']}/input_items")).body["data"]
    async with api(tmp_path) as after:
        after.stand.script(backend, says(backend, "Fine"), says(backend, "Bye"))
        references = [{"type": "item_reference", "id": listed[0]["id"]}, {"id": first["output"][0]["id"]}]
        second = await after.created(backend, input=[*references, references[1], user("How?")])
        assert texts(after.asked(backend)) == ["Hi", "Hello", "How?"]
        await after.created(backend, previous_response_id=second["id"], input=[*second["output"], user("Bye")])
        assert texts(after.asked(backend)) == ["Hi", "Hello", "How?", "Fine", "Bye"]


async def test_an_item_with_the_clients_own_id_can_be_referred_to(client: Api) -> None:
    client.stand.script("oai", says("oai", "Hello"), says("oai", "Fine"))
    await client.created("oai", input=[{"type": "message", "id": "msg_mine", **user("Hi")}])
    await client.created("oai", input=[{"type": "item_reference", "id": "msg_mine"}, user("How?")])
    assert texts(client.asked("oai")) == ["Hi", "How?"]


@each("reference", [{"type": "item_reference", "id": "msg_gone"}, {"id": "msg_gone"}])
async def test_an_unknown_item_is_not_found(reference: Any) -> None:
    async with api() as client:
        reply = await client.create(input=[user("Hi"), reference])
        assert reply.error == (404, None, "input[1].id", "Item with id 'msg_gone' not found.")


# ── What is stored ───────────────────────────────────────────────────────────────────────────────


async def test_a_stored_response_is_retrieved_listed_and_removed(client: Api) -> None:
    first = await client.created(input=[user("one"), user("two")])
    second = (await client.stream(input="three", previous_response_id=first["id"])).response
    path = f"/v1/responses/{second['id']}"
    assert (await client.get(path)).body == second
    listed = (await client.get(f"{path}/input_items", order="asc")).body
    assert listed["object"] == "list"
    assert texts(listed["data"])[:2] == ["one", "two"]
    assert texts(listed["data"])[-1] == "three"
    assert len({item["id"] for item in listed["data"]}) == len(listed["data"]) == 4
    assert (listed["first_id"], listed["last_id"]) == (listed["data"][0]["id"], listed["data"][-1]["id"])
    assert (await client.delete(path)).body == {"id": second["id"], "object": "response", "deleted": True}
    gone = (404, None, "response_id", f"Response with id '{second['id']}' not found.")
    assert (await client.get(path)).error == gone
    assert (await client.get(f"{path}/input_items")).error == gone
    assert (await client.delete(path)).error == gone
    assert (await client.post(f"{path}/cancel")).error == gone


async def test_a_list_comes_in_pages(client: Api) -> None:
    items = [user(str(number)) for number in range(5)]
    path = f"/v1/responses/{(await client.created(input=items))['id']}/input_items"
    newest = (await client.get(path, limit=2)).body
    assert (texts(newest["data"]), newest["has_more"]) == (["4", "3"], True)
    rest = (await client.get(path, after=newest["last_id"], limit=3)).body
    assert (texts(rest["data"]), rest["has_more"]) == (["2", "1", "0"], False)


@each(
    ("query", "param"),
    [
        ({"limit": "0"}, "limit"),
        ({"limit": "101"}, "limit"),
        ({"limit": "1" * 5000}, "limit"),
        ({"limit": "-1"}, "limit"),
        ({"limit": "٣"}, "limit"),
        ({"order": "up"}, "order"),
        ({"after": "msg_gone"}, "after"),
    ],
)
async def test_a_wrong_page_is_refused(client: Api, query: dict[str, str], param: str) -> None:
    response = await client.created()
    reply = await client.get(f"/v1/responses/{response['id']}/input_items", **query)
    assert reply.error[::2] == (400, param)


async def test_a_restart_keeps_responses(tmp_path: Path) -> None:
    async with api(tmp_path) as before:
        before.stand.script("oai", says("oai", "Hello"))
        first = await before.created("oai")
    stored = [path for path in files_below(tmp_path) if b"Hello" in path.read_bytes()]
    assert stored
    assert {path.stat().st_mode & 0o077 for path in stored} == {0}
    async with api(tmp_path) as after:
        after.stand.script("oai", says("oai", "Fine"))
        assert (await after.get(f"/v1/responses/{first['id']}")).body == first
        await after.created("oai", input="How?", previous_response_id=first["id"])
        assert texts(after.asked("oai")) == ["Hi", "Hello", "How?"]
        assert (await after.delete(f"/v1/responses/{first['id']}")).status == 200
    async with api(tmp_path) as again:
        assert (await again.get(f"/v1/responses/{first['id']}")).status == 404


async def test_a_response_of_another_key_does_not_exist() -> None:
    settings = {"keys": {"other": KeySettings(key_env="OTHER")}}
    async with serving(env={"OTHER": OTHER_KEY}, settings=settings) as stand:
        client = Api(stand)
        mine = await client.created()
        path = f"/v1/responses/{mine['id']}"
        for reply in (
            await client.get(path, OTHER_KEY),
            await client.get(f"{path}/input_items", OTHER_KEY),
            await client.delete(path, OTHER_KEY),
            await client.post(f"{path}/cancel", OTHER_KEY),
        ):
            assert reply.status == 404
        continuing = {"model": DEMO, "input": "Hi", "previous_response_id": mine["id"]}
        assert (await client.post("/v1/responses", OTHER_KEY, **continuing)).status == 400
        referring = {"model": DEMO, "input": [{"type": "item_reference", "id": mine["output"][0]["id"]}]}
        assert (await client.post("/v1/responses", OTHER_KEY, **referring)).status == 404
        assert (await client.get(path, KEY)).body == mine


async def test_a_full_store_drops_the_oldest_and_keeps_active_conversations() -> None:
    large = "x" * 300_000
    async with api(max_mib=1) as client:
        first = await client.created(input=large)
        second = await client.created(input=large)
        third = await client.created(input="short", previous_response_id=first["id"])  # uses the first
        fourth = await client.created(input=large)
        fifth = await client.created(input=large)
        found = [(await client.get(f"/v1/responses/{one['id']}")).status for one in (second, third, fourth, fifth)]
        assert found == [404, 200, 200, 200]
        assert (await client.create(previous_response_id=third["id"])).status == 200


async def test_a_response_that_is_too_large_is_not_stored(caplog: pytest.LogCaptureFixture) -> None:
    async with api(max_mib=1) as client:
        response = await client.created(input="x" * 1_100_000)
        assert text_of(response)
        assert (await client.get(f"/v1/responses/{response['id']}")).status == 404
        assert (await client.create(previous_response_id=response["id"])).error[1] == "previous_response_not_found"
    assert "too large to be stored" in caplog.text


async def test_a_response_expires() -> None:
    async with api(keep_days=1e-9) as client:
        response = await client.created()
        assert (await client.get(f"/v1/responses/{response['id']}")).status == 404
        assert (await client.create(previous_response_id=response["id"])).error[1] == "previous_response_not_found"


async def test_a_client_can_ask_for_nothing_to_be_stored(client: Api, tmp_path: Path) -> None:
    response = await client.created(store=False)
    assert response["store"] is False
    assert (await client.get(f"/v1/responses/{response['id']}")).status == 404
    assert (await client.create(previous_response_id=response["id"])).status == 400


async def test_storing_can_be_turned_off(tmp_path: Path) -> None:
    async with api(tmp_path, store=False) as client:
        response = await client.created()
        assert response["store"] is False
        assert (await client.get(f"/v1/responses/{response['id']}")).status == 404
        assert (await client.create(previous_response_id=response["id"])).error[1] == "previous_response_not_found"
        assert (await client.create(background=True)).error[::2] == (400, "background")
        assert (await client.post("/v1/conversations")).status == 400
    assert files_below(tmp_path) == []


# ── Other requests ───────────────────────────────────────────────────────────────────────────────


async def test_tokens_are_counted_with_the_whole_conversation(client: Api) -> None:
    first = await client.created(input="x" * 4000)
    alone = (await client.post("/v1/responses/input_tokens", model=DEMO, input="Hi")).body
    assert alone["object"] == "response.input_tokens"
    assert 0 < alone["input_tokens"] < 100
    chained = {"model": DEMO, "input": "Hi", "previous_response_id": first["id"]}
    reply = await client.post("/v1/responses/input_tokens", **chained)
    assert reply.body["input_tokens"] > 1000
    assert reply.headers["x-tieline-token-count"] == "estimated"


async def test_without_a_model_the_default_answers() -> None:
    async with serving(settings={"default_model": "oai/test-model"}) as stand:
        client = Api(stand)
        stand.script("oai", says("oai", "Hello"))
        response = await client.created(model=None)
        assert (response["model"], text_of(response)) == ("oai/test-model", "Hello")


async def test_paths_without_a_version_and_with_a_query_are_served(client: Api) -> None:
    reply = await client.post("/responses?beta=true", model=DEMO, input="Hi")
    assert reply.status == 200
    assert (await client.get(f"/responses/{reply.body['id']}", beta="true")).body == reply.body


@each(
    ("method", "path", "status"),
    [
        ("GET", "/v1/responses", 426),
        ("PUT", "/v1/responses", 405),
        ("DELETE", "/v1/responses", 405),
        ("GET", "/v1/responses/resp_1/other", 404),
        ("POST", "/v1/responses/resp_1", 404),
        ("POST", "/v1/responses/resp_1/other", 404),
        ("DELETE", "/v1/responses/resp_1/input_items", 404),
        ("GET", "/v1/conversations", 405),
        ("GET", "/v1/conversations/conv_1/other", 404),
        ("POST", "/v1/conversations/conv_1/items/x", 404),
        ("DELETE", "/v1/conversations/conv_1/items", 404),
    ],
)
async def test_an_unknown_path_is_refused(client: Api, method: str, path: str, status: int) -> None:
    response = await client.http.request(method, path, json={} if method == "POST" else None)
    assert (response.status_code, set(response.json()["error"])) == (status, {"message", "type", "param", "code"})


WRONG: list[tuple[str, Any]] = [
    ("model", 5),
    ("input", 5),
    ("input", {}),
    ("input", None),
    ("input", []),
    ("input[0]", [5]),
    ("input[0].role", [{"role": 5, "content": "x"}]),
    ("input[0].id", [{"type": "item_reference"}]),
    ("input[0].id", [{"id": 5, **user("Hi")}]),
    ("input[0].content", [{"role": "user", "content": 5}]),
    ("input[0].content[0].text", [{"role": "user", "content": [{"type": "input_text", "text": 5}]}]),
    ("input[0].call_id", [{"type": "function_call", "call_id": 5, "name": "x", "arguments": "{}"}]),
    ("stream", "yes"),
    ("store", "no"),
    ("background", 1),
    ("generate", "no"),
    ("generate", False),
    ("previous_response_id", 5),
    ("conversation", 5),
    ("conversation.id", {"id": 5}),
    ("conversation", {}),
    ("instructions", 5),
    ("tools", {}),
    ("tools[0].name", [{"type": "function", "name": 5}]),
    ("tool_choice", 5),
    ("temperature", "hot"),
    ("top_p", "x"),
    ("max_output_tokens", "many"),
    ("parallel_tool_calls", "yes"),
    ("reasoning.effort", {"effort": 5}),
    ("reasoning", 5),
    ("text.format.type", {"format": {"type": "yaml"}}),
    ("text", 5),
    ("include", "all"),
    ("user", 5),
    ("prompt_cache_key", 5),
]


@each(("at", "value"), WRONG, ids=lambda value: str(value)[:40])
async def test_a_field_that_is_wrong_is_named(at: str, value: Any) -> None:
    async with api() as client:
        field = at.partition("[")[0].partition(".")[0]
        response = await client.http.post("/v1/responses", json={"model": DEMO, "input": "Hi", field: value})
        assert response.status_code == 400, response.text
        error = response.json()["error"]
        assert (error["param"] or "").startswith(at), error
        assert f"`{error['param']}`" in error["message"]
        assert error["type"] == "invalid_request_error"


@each(
    ("fields", "param"),
    [
        ({"previous_response_id": "resp_1", "conversation": "conv_1"}, "conversation"),
        ({"background": True, "store": False}, "background"),
    ],
)
async def test_fields_that_exclude_one_another_are_refused(client: Api, fields: dict[str, Any], param: str) -> None:
    assert (await client.create(**fields)).error[::2] == (400, param)


@each("body", [b"", b"null", b"[]", b"5", b'"x"', b"{", b'{"model": "\xff"}', b"[" * 5000])
async def test_a_body_that_is_no_object_is_refused(client: Api, body: bytes) -> None:
    for path in ("/v1/responses", "/v1/responses/compact", "/v1/responses/input_tokens"):
        response = await client.http.post(path, content=body)
        assert response.status_code == 400
        assert json.loads(response.text)["error"]["message"]


async def test_a_copied_response_has_the_members_that_the_upstream_did_not_get(client: Api) -> None:
    conversation = (await client.post("/v1/conversations")).body["id"]
    client.stand.script("res", says("res", "Hello"), says("res", "Fine"))
    whole_answer = await client.created("res", conversation=conversation)
    streamed_answer = await client.stream("res", previous_response_id=whole_answer["id"])
    assert (whole_answer["conversation"], whole_answer["store"]) == ({"id": conversation}, True)
    for event in streamed_answer:
        if "response" in event:
            assert event["response"]["id"] == streamed_answer.response["id"]
            assert event["response"]["previous_response_id"] == whole_answer["id"]
    assert client.stand.asked("res")[-1].json["store"] is False


async def test_an_emoji_that_the_client_cut_in_half_does_not_spoil_the_request(client: Api) -> None:
    body = b'{"model":"demo/scripted","input":"say a\\ud83d"}'
    for path in ("/v1/responses", "/v1/responses/input_tokens"):
        assert (await client.http.post(path, content=body)).status_code == 200


async def test_a_number_beyond_all_bounds_is_the_clients_mistake(client: Api) -> None:
    huge = "9" * 5000
    call = f'{{"type":"local_shell_call","call_id":"c","status":"completed","action":{{"type":"exec","x":{huge}}}}}'
    bodies = {
        '"input":"hi","tools":[{"type":"mcp","server_label":"s","x":HUGE}]': 400,
        f'"input":[{call}]': 400,
        '"input":"hi","service_tier":HUGE': 200,
    }
    for text, status in bodies.items():
        body = f'{{"model":"demo/scripted",{text.replace("HUGE", huge)}}}'
        assert (await client.http.post("/v1/responses", content=body.encode())).status_code == status, text[:40]
