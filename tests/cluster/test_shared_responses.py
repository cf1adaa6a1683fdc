"""Tests for stored and background responses, and conversations, that are used through several replicas."""

import asyncio
import json
from pathlib import Path
from typing import Any

from tests.cluster.support import DEMO, KEY, PATIENCE, Replica, Responses, Stand, cluster, until

HEADERS = {"authorization": f"Bearer {KEY}"}
SLOW = "```tieline\ntext: One.\npause: 60\ntext: Two.\n```"
QUICK = "```tieline\ntext: One.\n```"


async def create(stand: Stand, replica: Replica, text: str, **fields: Any) -> Any:
    body = {"model": DEMO, "input": text, **fields}
    response = await stand.client.post(f"{replica.url}/v1/responses", json=body, headers=HEADERS)
    assert response.status_code == 200, response.text
    return response.json()


async def fetch(stand: Stand, replica: Replica, path: str) -> Any:
    response = await stand.client.get(f"{replica.url}/v1/{path}", headers=HEADERS)
    assert response.status_code == 200, response.text
    return response.json()


async def test_a_background_response_is_followed_and_cancelled_through_another_replica(postgres_url: str) -> None:
    async with cluster(postgres_url) as stand:
        first, second = stand.replicas
        created = await create(stand, first, SLOW, background=True)
        path = f"responses/{created['id']}"
        assert (await fetch(stand, second, path))["status"] in ("queued", "in_progress")
        url = f"{second.url}/v1/{path}"
        async with stand.client.stream("GET", f"{url}?stream=true", headers=HEADERS) as response:
            async for line in response.aiter_lines():
                if line.startswith("data: ") and json.loads(line[6:])["type"] == "response.output_text.delta":
                    break
        cancelled = (await stand.client.post(f"{url}/cancel", headers=HEADERS)).json()
        assert cancelled["status"] == "cancelled"
        await until(lambda: first.app.gateway.metrics.open_legs == 0)


async def test_a_complete_response_outlives_its_replica(postgres_url: str) -> None:
    async with cluster(postgres_url) as stand:
        first, second = stand.replicas
        created = await create(stand, first, QUICK, background=True)
        async with stand.client.stream(
            "GET", f"{second.url}/v1/responses/{created['id']}?stream=true", headers=HEADERS
        ) as response:
            assert (await response.aread()).decode().count("response.completed") > 0
        await first.app.archives.aclose()
        await stand.remove(first)
        stored = await fetch(stand, second, f"responses/{created['id']}")
        assert (stored["status"], stored["output"][0]["content"][0]["text"]) == ("completed", "One.")


async def test_a_response_whose_replica_died_is_reported_as_failed(postgres_url: str) -> None:
    async with cluster(postgres_url) as stand:
        first, second = stand.replicas
        created = await create(stand, first, SLOW, background=True)
        await until(lambda: first.app.gateway.metrics.open_legs == 1)
        async with stand.client.stream(
            "GET", f"{second.url}/v1/responses/{created['id']}?stream=true", headers=HEADERS
        ) as response:
            async for _ in response.aiter_lines():
                break
        await first.app.archives.responses.aclose()
        await stand.remove(first)
        assert (await fetch(stand, second, f"responses/{created['id']}"))["status"] == "failed"


async def test_a_removed_response_is_gone_on_every_replica(postgres_url: str) -> None:
    async with cluster(postgres_url) as stand:
        first, second = stand.replicas
        created = await create(stand, first, QUICK)
        url = f"{second.url}/v1/responses/{created['id']}"
        assert (await stand.client.delete(url, headers=HEADERS)).status_code == 200
        for replica in (first, second):
            response = await stand.client.get(f"{replica.url}/v1/responses/{created['id']}", headers=HEADERS)
            assert response.status_code == 404
        body = {"model": DEMO, "input": QUICK, "previous_response_id": created["id"]}
        for replica in (first, second):
            response = await stand.client.post(f"{replica.url}/v1/responses", json=body, headers=HEADERS)
            assert response.json()["error"]["code"] == "previous_response_not_found"


async def test_a_response_is_continued_on_another_replica_at_once(postgres_url: str) -> None:
    """Even if the replica that created it has not stored it yet."""
    async with cluster(postgres_url) as stand:
        for number in range(10):
            first, second = stand.replicas[:: 1 if number % 2 else -1]
            created = await create(stand, first, QUICK)
            continued = await create(stand, second, QUICK, previous_response_id=created["id"])
            assert continued["previous_response_id"] == created["id"]


async def test_a_conversation_is_changed_through_every_replica(postgres_url: str) -> None:
    async with cluster(postgres_url) as stand:
        first, second = stand.replicas
        made = (await stand.client.post(f"{first.url}/v1/conversations", json={}, headers=HEADERS)).json()
        path = f"conversations/{made['id']}/items"
        item = {"type": "message", "role": "user", "content": "Hello"}
        added = await stand.client.post(f"{second.url}/v1/{path}", json={"items": [item]}, headers=HEADERS)
        assert added.status_code == 200, added.text
        await create(stand, second, QUICK, conversation=made["id"])
        await create(stand, first, QUICK, conversation=made["id"])
        lists = [await fetch(stand, replica, path) for replica in (first, second)]
        assert [len(listed["data"]) for listed in lists] == [5, 5]
        assert lists[0] == lists[1]


async def test_a_background_request_that_is_stopped_frees_its_conversation(postgres_url: str, tmp_path: Path) -> None:
    """The other replica has not answered yet when the workspace of the request is removed."""
    async with cluster(postgres_url) as stand:
        first, second = stand.replicas
        talk = Responses(stand.client)
        call_id = await talk.start(first.url)
        arrived, released = asyncio.Event(), asyncio.Event()

        async def silent(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            arrived.set()
            await released.wait()
            writer.close()

        async with await asyncio.start_server(silent, "127.0.0.1", 0) as server, asyncio.timeout(PATIENCE):
            known = second.cluster.membership.find(first.tag)
            assert known is not None
            known.origin = known.origin._replace(port=server.sockets[0].getsockname()[1])
            url = f"{second.url}/api/workspaces"
            workspace = (await stand.client.post(url, json={"path": str(tmp_path)}, headers=HEADERS)).json()["name"]
            made = (await stand.client.post(f"{second.url}/v1/conversations", json={}, headers=HEADERS)).json()
            result = {"type": "function_call_output", "call_id": call_id, "output": "sunny"}
            body = {
                "model": DEMO,
                "input": [*talk.history, result],
                "background": True,
                "conversation": made["id"],
            }
            headers = {**HEADERS, "x-tieline-workspace": workspace}
            stopped = asyncio.create_task(stand.client.post(f"{second.url}/v1/responses", json=body, headers=headers))
            await arrived.wait()
            assert (await stand.client.delete(f"{url}/{workspace}", headers=HEADERS)).status_code == 200
            assert (await stopped).status_code >= 400
            released.set()
        await create(stand, second, QUICK, conversation=made["id"])
