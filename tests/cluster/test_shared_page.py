"""Tests for the inbox and the web page, which can be used through every replica."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import httpx2

from tests.cluster.support import DEMO, KEY, PATIENCE, Replica, Stand, cluster, until
from tieline.app.ids import tag_of
from tieline.model.scope import EVERYTHING

HEADERS = {"authorization": f"Bearer {KEY}"}
QUESTION = "ask me about the garden"
ANSWER = {"action": "accept", "values": {"colour": "blue", "parts": ["trees"]}}


async def ask(stand: Stand, replica: Replica) -> httpx2.Response:
    body = {"model": DEMO, "messages": [{"role": "user", "content": QUESTION}]}
    return await stand.client.post(f"{replica.url}/v1/chat/completions", json=body, headers=HEADERS)


async def events(stand: Stand, url: str, **headers: str) -> AsyncGenerator[tuple[str, Any], None]:
    """The ids and the data of server-sent events."""
    async with stand.client.stream("GET", url, headers={**HEADERS, **headers}) as response:
        assert response.status_code == 200, await response.aread()
        number = ""
        async for line in response.aiter_lines():
            if line.startswith("id: "):
                number = line[4:]
            elif line.startswith("data: "):
                yield number, json.loads(line[6:])


async def listed(stand: Stand, replica: Replica) -> list[Any]:
    response = await stand.client.get(f"{replica.url}/api/inbox", headers=HEADERS)
    items: list[Any] = response.json()["items"]
    return items


async def test_a_question_is_watched_and_answered_through_another_replica(postgres_url: str) -> None:
    async with cluster(postgres_url, size=3) as stand:
        first, second, third = stand.replicas
        async with aclosing(events(stand, f"{second.url}/api/inbox/watch")) as changes:
            assert (await anext(changes))[1]["items"] == []
            await until(lambda: first.app.gateway.inbox.is_watched)
            asking = asyncio.create_task(ask(stand, first))
            while not (items := (await anext(changes))[1]["items"]):
                pass
            (item,) = items
            assert (tag_of(item["id"]), item.get("until")) == (first.tag, None)
            for replica in stand.replicas:
                assert [one["id"] for one in await listed(stand, replica)] == [item["id"]]
            url = f"{third.url}/api/inbox/{item['id']}"
            response = await stand.client.post(url, json=ANSWER, headers=HEADERS)
            assert response.status_code == 200, response.text
            answer = (await asyncio.wait_for(asking, PATIENCE)).json()
            assert "colour: blue" in answer["choices"][0]["message"]["content"]
            while (await anext(changes))[1]["items"]:
                pass
            response = await stand.client.post(url, json=ANSWER, headers=HEADERS)
            assert response.status_code == 404
        await until(lambda: not first.app.gateway.inbox.is_watched)


async def test_the_items_and_watchers_of_a_replica_end_with_it(postgres_url: str) -> None:
    async with cluster(postgres_url) as stand:
        first, second = stand.replicas
        async with first.app.gateway.inbox.watched(EVERYTHING):
            await until(lambda: second.app.gateway.inbox.is_watched)
            asking = asyncio.create_task(ask(stand, first))
            await until(lambda: second.app.gateway.inbox.items_in(EVERYTHING))
            heart = first.cluster.membership._heart
            assert heart is not None
            heart.cancel()
            await until(lambda: not second.app.gateway.inbox.items_in(EVERYTHING))
            assert not second.app.gateway.inbox.is_watched
            asking.cancel()
            await asyncio.wait([asking])


async def test_an_owner_sees_only_its_own_items(postgres_url: str) -> None:
    async with cluster(postgres_url) as stand:
        first, second = stand.replicas
        async with first.app.gateway.inbox.watched(EVERYTHING):
            asking = asyncio.create_task(ask(stand, first))
            await until(lambda: second.app.gateway.inbox.items_in(EVERYTHING))
            (item,) = second.app.gateway.inbox.items_in(EVERYTHING)
            assert item.origin.owner == ""
            assert second.app.gateway.inbox.items_in(EVERYTHING._replace(owner="ann")) == ()
            asking.cancel()
            await asyncio.wait([asking])


class Page:
    """The web page, whose requests may go to different replicas."""

    def __init__(self, stand: Stand) -> None:
        self._stand = stand
        self._headers = HEADERS

    async def open(self, replica: Replica) -> Any:
        state = await self.get(replica, "state")
        self._headers = {**HEADERS, "x-tieline-token": state["token"]}
        return state

    async def get(self, replica: Replica, path: str) -> Any:
        response = await self._stand.client.get(f"{replica.url}/api/{path}", headers=self._headers)
        assert response.status_code == 200, response.text
        return response.json()

    async def post(self, replica: Replica, path: str, **body: Any) -> Any:
        response = await self._stand.client.post(f"{replica.url}/api/{path}", json=body, headers=self._headers)
        assert response.status_code == 200, response.text
        return response.json()


async def ended(stream: AsyncGenerator[tuple[str, Any], None]) -> str:
    """Wait until an answer is complete. Return the number of the message that says so."""
    was_running = False
    async with asyncio.timeout(PATIENCE):
        while True:
            number, message = await anext(stream)
            if message["type"] == "session":
                is_running = bool(message["summary"].get("running"))
                if was_running and not is_running:
                    return number
                was_running = is_running


async def test_a_session_is_continued_through_every_replica(postgres_url: str) -> None:
    async with cluster(postgres_url, size=3) as stand:
        page = Page(stand)
        first, second, third = stand.replicas
        seq = (await page.open(second))["seq"]
        async with aclosing(events(stand, f"{third.url}/api/stream?since={seq}")) as stream:
            session = (await page.post(third, "sessions", model="demo/scripted"))["id"]
            number = ""
            for replica in stand.replicas:
                await page.post(replica, f"sessions/{session}/send", text="Hello")
                number = await ended(stream)
            views = [(await page.get(replica, f"sessions/{session}"))["turns"] for replica in stand.replicas]
            assert views[0] == views[1] == views[2]
            assert len(views[0]) == 6
        # A page that was cut off continues through another replica where it was.
        async with aclosing(events(stand, f"{first.url}/api/stream", **{"last-event-id": number})) as stream:
            await page.post(second, f"sessions/{session}/send", text="Hello again")
            assert int((await anext(stream))[0]) == int(number) + 1


async def test_the_page_moves_when_the_replica_that_serves_it_leaves(postgres_url: str) -> None:
    async with cluster(postgres_url, size=2) as stand:
        page = Page(stand)
        first, second = stand.replicas
        await page.open(second)
        session = (await page.post(second, "sessions", model="demo/scripted"))["id"]
        assert first.app.page is not None
        await first.app.page.sessions.aclose()
        await stand.remove(first)
        state = await page.open(second)
        assert [one["id"] for one in state["sessions"]] == [session]
        await page.post(second, f"sessions/{session}/send", text="Hello")
