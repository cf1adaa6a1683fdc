"""Background responses: polled, followed, cancelled, and what becomes of them when the gateway stops."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.catalogue.serving import Backend, begins, says, serving
from tests.frontends.responses_support import DEMO, OTHER_KEY, Api, Reply, api, events_in, paused, text_of, user
from tests.frontends.test_responses import READ, texts
from tieline.app.config import KeySettings
from tieline.frontends.responses import background
from tieline.sim.model import Cut, Hang, Pause


@pytest.fixture
async def client() -> AsyncIterator[Api]:
    async with api() as made:
        yield made


def path_of(response: Any) -> str:
    return f"/v1/responses/{response['id']}"


async def begun(client: Api, *, pause: Pause | Hang | None = None, **fields: Any) -> Any:
    """A background response that waits in the middle."""
    waiting = paused("oai", pause) if isinstance(pause, Pause) else begins("oai", Hang())
    client.stand.script("oai", waiting)
    response = await client.created("oai", background=True, **fields)
    assert (response["status"], response["background"], response["output"]) == ("queued", True, [])
    await client.stand.arrival("oai")
    return response


async def test_a_response_is_polled_until_it_is_complete(client: Api) -> None:
    pause = Pause()
    response = await begun(client, pause=pause)
    running = (await client.get(path_of(response))).body
    assert {**running, "status": "queued"} == response
    assert running["status"] == "in_progress"
    items = (await client.get(f"{path_of(response)}/input_items")).body
    assert texts(items["data"]) == ["Hi"]
    pause.set()
    events = await client.follow(response["id"])
    final = (await client.get(path_of(response))).body
    assert final == events.response
    assert (text_of(final), final["id"], final["background"]) == ("Hello", response["id"], True)
    assert (await client.get(f"{path_of(response)}/input_items")).body == items


async def test_events_are_followed_from_any_point(client: Api) -> None:
    pause = Pause()
    client.stand.script("oai", paused("oai", pause))
    body = {"model": "oai/test-model", "input": "Hi", "background": True, "stream": True}
    async with client.http.stream("POST", "/v1/responses", json=body) as stream:
        raw = b""
        async for piece in stream.aiter_raw():
            raw += piece
            if b'"delta":"Hel"' in raw:
                break
    response_id = raw.decode().partition('"id":"')[2].partition('"')[0]
    # The client has left, but the response goes on.
    following = asyncio.create_task(client.follow(response_id, starting_after=4))
    pause.set()
    late = await following
    assert [event["sequence_number"] for event in late][:2] == [5, 6]
    whole = await client.follow(response_id)
    assert whole.types[:2] == ["response.created", "response.in_progress"]
    assert whole[5:] == late
    assert text_of(whole.response) == "Hello"
    assert await client.follow(response_id, starting_after=len(whole) - 1) == []


async def test_a_background_stream_is_answered_like_any_other(client: Api) -> None:
    client.stand.script("oai", says("oai", "Hel", "lo"))
    events = await client.stream("oai", background=True)
    assert text_of(events.response) == "Hello"
    assert events.done == events.response["output"]


async def test_a_cancelled_response_keeps_its_beginning(client: Api) -> None:
    response = await begun(client)
    raw = b""
    cancelled: Reply | None = None
    async with client.http.stream("GET", path_of(response), params={"stream": "true"}) as stream:
        async for piece in stream.aiter_raw():
            raw += piece
            if b'"delta":"Hel"' in raw and cancelled is None:
                cancelled = await client.post(f"{path_of(response)}/cancel")
    assert cancelled is not None
    assert (cancelled.status, cancelled.body["status"], cancelled.body["error"]) == (200, "cancelled", None)
    assert [part["text"] for part in cancelled.body["output"][0]["content"]] == ["Hel"]
    await client.stand.gone("oai")
    events = events_in(raw)
    assert events[-1]["type"] == "response.failed"
    assert events.response == cancelled.body
    assert (await client.get(path_of(response))).body == cancelled.body
    again = await client.post(f"{path_of(response)}/cancel")
    assert (again.status, again.body) == (200, cancelled.body)


async def test_cancelling_a_complete_response_changes_nothing(client: Api) -> None:
    client.stand.script("oai", says("oai", "Hello"))
    response = await client.created("oai", background=True)
    final = (await client.follow(response["id"])).response
    assert (await client.post(f"{path_of(response)}/cancel")).body == final


async def test_only_a_background_response_can_be_cancelled_or_followed(client: Api) -> None:
    response = await client.created()
    assert (await client.post(f"{path_of(response)}/cancel")).error[::2] == (400, "response_id")
    assert (await client.get(path_of(response), stream="true")).error[::2] == (400, "stream")
    gone = (404, None, "response_id", "Response with id 'resp_gone' not found.")
    assert (await client.get("/v1/responses/resp_gone", stream="true")).error == gone
    assert (await client.post("/v1/responses/resp_gone/cancel")).error == gone
    wrong = await client.get(path_of(response), stream="true", starting_after="x")
    assert wrong.error[::2] == (400, "starting_after")


async def test_a_running_response_can_be_removed(client: Api) -> None:
    response = await begun(client)
    assert (await client.delete(path_of(response))).body["deleted"] is True
    await client.stand.gone("oai")
    assert (await client.get(path_of(response))).status == 404
    assert (await client.get(path_of(response), stream="true")).status == 404
    assert (await client.delete(path_of(response))).status == 404


async def test_a_failure_is_a_failed_response(client: Api) -> None:
    client.stand.script("oai", begins("oai", Cut()))
    broken = await client.created("oai", background=True)
    final = (await client.follow(broken["id"])).response
    assert (final["status"], final["error"]["code"]) == ("failed", "server_error")
    unknown = await client.created(model="nobody/else", background=True)
    final = (await client.follow(unknown["id"])).response
    assert final["status"] == "failed"
    assert "nobody/else" in final["error"]["message"]
    assert (await client.get(path_of(unknown))).body == final


async def test_a_complete_response_is_continued_but_not_a_running_one(client: Api) -> None:
    pause = Pause()
    response = await begun(client, pause=pause)
    status, _, param, message = (await client.create("oai", previous_response_id=response["id"])).error
    assert (status, param) == (400, "previous_response_id")
    assert "still being created" in message
    pause.set()
    await client.follow(response["id"])
    client.stand.script("oai", says("oai", "Fine"))
    await client.created("oai", input="How?", previous_response_id=response["id"])
    assert texts(client.asked("oai")) == ["Hi", "Hello", "How?"]


async def test_a_response_belongs_to_its_conversation(client: Api) -> None:
    conversation = (await client.post("/v1/conversations", items=[user("Be brief.")])).body["id"]
    pause = Pause()
    response = await begun(client, pause=pause, conversation=conversation)
    assert (await client.create("oai", conversation=conversation)).status == 409
    pause.set()
    await client.follow(response["id"])
    items = (await client.get(f"/v1/conversations/{conversation}/items", order="asc")).body["data"]
    assert texts(items) == ["Be brief.", "Hi", "Hello"]


async def test_a_cancelled_response_frees_its_conversation(client: Api) -> None:
    conversation = (await client.post("/v1/conversations")).body["id"]
    response = await begun(client, conversation=conversation)
    await client.post(f"{path_of(response)}/cancel")
    assert (await client.create(conversation=conversation)).status == 200


async def test_there_is_a_limit(client: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "MAX_RUNNING", 1)
    conversation = (await client.post("/v1/conversations")).body["id"]
    response = await begun(client)
    reply = await client.create("oai", background=True, conversation=conversation)
    assert (reply.status, reply.headers["retry-after"]) == (429, "10")
    await client.post(f"{path_of(response)}/cancel")
    client.stand.script("oai", says("oai", "Hello"))
    assert (await client.create("oai", background=True, conversation=conversation)).status == 200


async def test_one_key_cannot_take_the_background_responses_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "MAX_RUNNING_OF_KEY", 1)
    settings = {"keys": {"other": KeySettings(key_env="OTHER")}}
    async with serving(env={"OTHER": OTHER_KEY}, settings=settings) as stand:
        client = Api(stand)
        await begun(client)
        reply = await client.create("oai", background=True)
        assert (reply.status, reply.headers["retry-after"]) == (429, "10")
        assert "of this key" in reply.body["error"]["message"]
        body = {"model": DEMO, "input": "Hi", "background": True}
        assert (await client.post("/v1/responses", OTHER_KEY, **body)).status == 200


async def test_without_keys_there_is_no_limit_for_each_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "MAX_RUNNING_OF_KEY", 1)
    async with serving(env={"TIELINE_KEY": ""}) as stand:
        client = Api(stand)
        await begun(client)
        await begun(client)


async def test_what_is_lost_is_listed_in_the_response(client: Api) -> None:
    client.stand.script("oai", says("oai", "Hello"))
    begun = await client.created("oai", background=True, tools=[READ, {"type": "web_search"}], metadata={"mine": "1"})
    final = (await client.follow(begun["id"])).response
    assert final["metadata"] == {"mine": "1", "tieline_dropped": "metadata, tools[1]"}
    assert (await client.get(path_of(begun))).body == final


async def test_a_response_that_takes_too_long_fails(client: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "MAX_DURATION", 0.1)
    client.stand.script("oai", begins("oai", Hang()))
    response = await client.created("oai", background=True)
    final = (await client.follow(response["id"])).response
    assert final["status"] == "failed"
    assert "within the time allowed" in final["error"]["message"]
    assert (await client.get(path_of(response))).body == final
    await client.stand.gone("oai")


async def test_a_request_that_cannot_be_stored_is_refused() -> None:
    async with api(max_mib=1) as client:
        assert (await client.create(background=True, input="x" * 1_100_000)).status == 413


async def test_followers_of_a_very_long_response_get_its_end(client: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "MAX_LOG", 1000)
    client.stand.script("oai", says("oai", *["word "] * 100))
    response = await client.created("oai", background=True)
    events = await client.follow(response["id"])
    assert len(events) < 10
    assert events[-1]["type"] == "response.completed"
    assert text_of(events[-1]["response"]) == "word " * 100


async def test_events_that_are_no_longer_kept_cannot_be_followed(tmp_path: Path) -> None:
    async with api(tmp_path) as before:
        response = await before.created(background=True)
        final = (await before.follow(response["id"])).response
    async with api(tmp_path) as after:
        assert (await after.get(path_of(response))).body == final
        assert (await after.get(path_of(response), stream="true")).error[::2] == (400, "stream")
        assert (await after.post(f"{path_of(response)}/cancel")).body == final


async def test_a_response_fails_if_the_gateway_stops_in_the_middle(tmp_path: Path) -> None:
    async with api(tmp_path) as before:
        response = await begun(before)
    async with api(tmp_path) as after:
        final = (await after.get(path_of(response))).body
        assert (final["status"], final["error"]["code"]) == ("failed", "server_is_overloaded")
        assert final["id"] == response["id"]
        assert texts((await after.get(f"{path_of(response)}/input_items")).body["data"]) == ["Hi"]
        assert (await after.post(f"{path_of(response)}/cancel")).body == final


async def test_a_response_fails_if_the_gateway_crashes_in_the_middle(tmp_path: Path) -> None:
    async with api(tmp_path) as before:
        pause = Pause()
        response = await begun(before, pause=pause)
        await before.stand.app.archives.aclose()
        async with api(tmp_path) as after:  # finds what the other had written so far
            final = (await after.get(path_of(response))).body
            assert final["status"] == "failed"
            assert "restarted" in final["error"]["message"]
            assert (await after.delete(path_of(response))).status == 200
        pause.set()
        await before.follow(response["id"])


@pytest.mark.parametrize("backend", ["ant", "res"])
async def test_other_backends_answer_in_the_background(client: Api, backend: Backend) -> None:
    client.stand.script(backend, says(backend, "Hel", "lo"))
    response = await client.created(backend, background=True)
    final = (await client.follow(response["id"])).response
    assert (text_of(final), final["id"]) == ("Hello", response["id"])


async def test_a_default_model_is_named_from_the_start() -> None:
    async with serving(settings={"default_model": DEMO}) as stand:
        assert (await Api(stand).created(model=None, background=True))["model"] == DEMO
    async with serving() as stand:
        reply = await Api(stand).create(model=None, background=True)
        assert (reply.status, "`model` is missing" in reply.body["error"]["message"]) == (400, True)


async def test_a_silent_stream_gets_comments() -> None:
    async with api(server={"keep_alive": 0.02}) as client:
        pause = Pause()
        response = await begun(client, pause=pause)
        params = {"stream": "true"}
        raw = b""
        async with client.http.stream("GET", path_of(response), params=params) as stream:
            async for piece in stream.aiter_raw():
                raw += piece
                if raw.count(b": keep-alive") == 2:
                    pause.set()
        assert b"event: response.completed" in raw
