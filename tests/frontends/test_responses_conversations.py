"""Conversations: items that requests continue by the id of the conversation."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.catalogue.serving import begins, says, serving
from tests.each import each
from tests.frontends.responses_support import DEMO, OTHER_KEY, Api, api, paused, text_of, user
from tests.frontends.test_responses import texts
from tieline.app.config import KeySettings
from tieline.sim.model import Cut, Pause

CONVERSATIONS = "/v1/conversations"


@pytest.fixture
async def client() -> AsyncIterator[Api]:
    async with api() as made:
        yield made


async def conversation(client: Api, **fields: Any) -> str:
    """The path of a new conversation."""
    reply = await client.post(CONVERSATIONS, **fields)
    assert reply.status == 200, reply.body
    return f"{CONVERSATIONS}/{reply.body['id']}"


def id_in(path: str) -> str:
    return path.rpartition("/")[2]


async def test_a_conversation_is_created_changed_and_removed(client: Api) -> None:
    path = await conversation(client, metadata={"topic": "salt"}, items=[user("Hi")])
    shown = (await client.get(path)).body
    assert {**shown, "created_at": 0} == {
        "id": id_in(path),
        "object": "conversation",
        "created_at": 0,
        "metadata": {"topic": "salt"},
    }
    assert (await client.post(path, metadata={"topic": "sugar"})).body["metadata"] == {"topic": "sugar"}
    added = (await client.post(f"{path}/items", items=[user("one"), user("two")])).body
    assert (texts(added["data"]), added["has_more"]) == (["one", "two"], False)
    listed = (await client.get(f"{path}/items", limit=2)).body
    assert (texts(listed["data"]), listed["has_more"]) == (["two", "one"], True)
    item = f"{path}/items/{added['first_id']}"
    assert (await client.get(item)).body["content"] == [{"type": "input_text", "text": "one"}]
    assert (await client.delete(item)).body["id"] == id_in(path)
    assert (await client.get(item)).error[::2] == (404, "item_id")
    assert (await client.delete(item)).error[::2] == (404, "item_id")
    assert texts((await client.get(f"{path}/items", order="asc")).body["data"]) == ["Hi", "two"]
    expected = {"id": id_in(path), "object": "conversation.deleted", "deleted": True}
    assert (await client.delete(path)).body == expected
    gone = (404, None, "conversation_id", f"Conversation with id '{id_in(path)}' not found.")
    for reply in (
        await client.get(path),
        await client.get(f"{path}/items"),
        await client.post(path, metadata={}),
        await client.post(f"{path}/items", items=[user("x")]),
        await client.delete(path),
        await client.create(conversation=id_in(path)),
    ):
        assert reply.error == gone


@each("as_object", [False, True])
async def test_responses_are_added_to_their_conversation(as_object: bool) -> None:
    async with api() as client:
        client.stand.script("oai", says("oai", "Hello"), says("oai", "Fine"))
        path = await conversation(client, items=[user("Be brief.")])
        named = {"id": id_in(path)} if as_object else id_in(path)
        first = await client.created("oai", conversation=named)
        assert first["conversation"] == {"id": id_in(path)}
        await client.stream("oai", input="How?", conversation=named, store=False)
        assert texts(client.asked("oai")) == ["Be brief.", "Hi", "Hello", "How?"]
        items = (await client.get(f"{path}/items", order="asc")).body["data"]
        assert texts(items) == ["Be brief.", "Hi", "Hello", "How?", "Fine"]
        assert items[2] == first["output"][0]


async def test_a_restart_keeps_conversations(tmp_path: Path) -> None:
    async with api(tmp_path) as before:
        path = await conversation(before, items=[user("one")])
    async with api(tmp_path) as after:
        assert texts((await after.get(f"{path}/items")).body["data"]) == ["one"]


async def test_only_one_response_at_a_time_is_created_in_a_conversation(client: Api) -> None:
    path, pause = await conversation(client), Pause()
    client.stand.script("oai", begins("oai", pause, Cut()), says("oai", "Hello"))
    first = asyncio.create_task(client.stream("oai", conversation=id_in(path)))
    await client.stand.arrival("oai")
    status, code, _, message = (await client.create("oai", conversation=id_in(path))).error
    assert (status, code) == (409, "conversation_locked")
    assert "Try again" in message
    counted = {"model": DEMO, "input": "Hi", "conversation": id_in(path)}
    assert (await client.post("/v1/responses/input_tokens", **counted)).status == 200
    pause.set()
    assert (await first).response["status"] == "failed"
    assert text_of(await client.created("oai", conversation=id_in(path))) == "Hello"
    items = (await client.get(f"{path}/items", order="asc")).body["data"]
    assert texts(items) == ["Hi", "Hello"], "a failed response is not a part of the conversation"


async def test_a_request_that_is_wrong_does_not_lock_its_conversation(client: Api) -> None:
    path = await conversation(client)
    assert (await client.create(conversation=id_in(path), input=5)).status == 400
    assert (await client.create(conversation=id_in(path), model="nobody/else")).status == 404
    assert (await client.create(conversation=id_in(path), generate=False)).status == 400
    counted = {"model": DEMO, "input": "Hi", "conversation": id_in(path)}
    assert (await client.post("/v1/responses/input_tokens", **counted)).status == 200
    assert (await client.create(conversation=id_in(path))).status == 200


async def test_items_that_are_added_at_once_are_all_kept(tmp_path: Path) -> None:
    async with api(tmp_path) as before:
        path = await conversation(before)
    async with api(tmp_path) as client:
        await asyncio.gather(*(client.post(f"{path}/items", items=[user(str(number))]) for number in range(8)))
        items = (await client.get(f"{path}/items")).body["data"]
        assert sorted(texts(items)) == [str(number) for number in range(8)]


async def test_items_can_be_added_while_a_response_is_created(client: Api) -> None:
    path, pause = await conversation(client), Pause()
    client.stand.script("oai", paused("oai", pause))
    first = asyncio.create_task(client.stream("oai", conversation=id_in(path)))
    await client.stand.arrival("oai")
    assert (await client.post(f"{path}/items", items=[user("Meanwhile")])).status == 200
    pause.set()
    await first
    assert texts((await client.get(f"{path}/items", order="asc")).body["data"])[:2] == ["Meanwhile", "Hi"]


async def test_a_conversation_can_be_removed_while_a_response_is_created(client: Api) -> None:
    path, pause = await conversation(client), Pause()
    client.stand.script("oai", begins("oai", pause, Cut()))
    first = asyncio.create_task(client.stream("oai", conversation=id_in(path)))
    await client.stand.arrival("oai")
    assert (await client.delete(path)).status == 200
    pause.set()
    assert (await first).response["status"] == "failed"
    assert (await client.get(path)).status == 404


async def test_a_conversation_that_becomes_too_large_cannot_be_continued(caplog: pytest.LogCaptureFixture) -> None:
    async with api(max_mib=1) as client:
        path = await conversation(client, items=[user("x" * 700_000)])
        assert (await client.post(f"{path}/items", items=[user("y" * 700_000)])).status == 413
        assert (await client.create(conversation=id_in(path), input="z" * 700_000)).status == 200
        assert "too large to be stored" in caplog.text
        assert (await client.create(conversation=id_in(path))).error[::2] == (413, "conversation")
        first = (await client.get(f"{path}/items")).body["first_id"]
        assert (await client.delete(f"{path}/items/{first}")).status == 200
        assert (await client.create(conversation=id_in(path))).status == 200


async def test_a_conversation_of_another_key_does_not_exist() -> None:
    settings = {"keys": {"other": KeySettings(key_env="OTHER")}}
    async with serving(env={"OTHER": OTHER_KEY}, settings=settings) as stand:
        client = Api(stand)
        path = await conversation(client, items=[user("Hi")])
        body = {"model": DEMO, "input": "Hi", "conversation": id_in(path)}
        for reply in (
            await client.get(path, OTHER_KEY),
            await client.get(f"{path}/items", OTHER_KEY),
            await client.post(path, OTHER_KEY, metadata={}),
            await client.delete(path, OTHER_KEY),
            await client.post("/v1/responses", OTHER_KEY, **body),
        ):
            assert reply.status == 404
        assert (await client.get(path)).status == 200


@each(
    ("fields", "param"),
    [
        ({"items": 5}, "items"),
        ({"items": [5]}, "items[0]"),
        ({"items": [user("fine"), {"role": "user", "content": 5}]}, "items[1].content"),
        ({"items": [user("x")] * 21}, "items"),
        ({"metadata": {"a": 5}}, "metadata[...]"),
        ({"metadata": {str(number): "" for number in range(17)}}, "metadata"),
    ],
)
async def test_wrong_items_and_metadata_are_refused(client: Api, fields: dict[str, Any], param: str) -> None:
    assert (await client.post(CONVERSATIONS, **fields)).error[::2] == (400, param)
    path = await conversation(client)
    below = f"{path}/items" if "items" in fields else path
    assert (await client.post(below, **fields)).error[::2] == (400, param)
    assert (await client.post(f"{path}/items", items=[])).error[::2] == (400, "items")
