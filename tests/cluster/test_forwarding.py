"""Tests for requests that reach another replica than the one that holds their run."""

import asyncio
import sys
from pathlib import Path

import pytest

from tests.cluster.support import (
    CONVERSATIONS,
    DEMO,
    KEY,
    PATIENCE,
    SECRET,
    Chat,
    Messages,
    cluster,
    until,
)
from tests.ports import free_port
from tests.postgres_server import PostgresServer
from tieline.app.config import AcpSettings, AgentSettings, Config, KeySettings, ServerSettings
from tieline.app.ids import tag_of

AGENT = Path(__file__).with_name("echo_agent.py")
SLOW = '```tieline\ncall: get_weather {"city": "Oslo"}\n---\ntext: It\npause: 60\ntext: is {{result}}.\n```'
"""Like SCRIPT, with a long pause in the answer."""
DIALECTS = pytest.mark.parametrize("dialect", list(CONVERSATIONS))
ORIGIN = "https://editor.example"
SHARING = Config(server=ServerSettings(origins=(ORIGIN,)))
"""Lets the pages of one origin read responses."""


@DIALECTS
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
async def test_a_result_resumes_the_run_of_another_replica(postgres_url: str, dialect: str, stream: bool) -> None:
    async with cluster(postgres_url) as stand:
        first, second = stand.replicas
        talk = CONVERSATIONS[dialect](stand.client, stream=stream)
        assert tag_of(await talk.start(first.url)) == first.tag
        runs = stand.sim.runs
        assert await talk.finish(second.url) == "It is sunny."
        assert (stand.sim.runs, first.resumed, second.resumed) == (runs, 1, 0)


@DIALECTS
async def test_a_run_is_replayed_if_its_replica_is_gone(postgres_url: str, dialect: str) -> None:
    async with cluster(postgres_url) as stand:
        first, second = stand.replicas
        talk = CONVERSATIONS[dialect](stand.client)
        await talk.start(first.url)
        await stand.remove(first)
        await first.app.gateway.aclose()
        runs = stand.sim.runs
        assert await talk.finish(second.url) == "It is sunny."
        assert (stand.sim.runs, second.resumed) == (runs + 1, 0)


async def test_a_stranger_cannot_use_the_private_listener(postgres_url: str) -> None:
    async with cluster(postgres_url, size=1) as stand:
        (replica,) = stand.replicas
        url = replica.cluster.membership.url
        headers = {"authorization": f"Bearer {KEY}"}
        for given in (
            {},
            {"x-tieline-cluster": ""},
            {"x-tieline-cluster": SECRET[:-1]},
            {"x-tieline-cluster": "x" * 100},
        ):
            response = await stand.client.get(f"{url}/v1/models", headers={**headers, **given})
            assert response.status_code == 403, given
            assert SECRET not in response.text
        response = await stand.client.get(f"{url}/v1/models", headers={**headers, "x-tieline-cluster": SECRET})
        assert response.status_code == 200


async def test_the_private_listener_still_requires_the_key_of_the_client(postgres_url: str) -> None:
    async with cluster(postgres_url, size=1) as stand:
        (replica,) = stand.replicas
        url = replica.cluster.membership.url
        response = await stand.client.get(f"{url}/v1/models", headers={"x-tieline-cluster": SECRET})
        assert response.status_code == 401


async def test_the_secret_gives_no_rights_on_the_public_listener(postgres_url: str) -> None:
    async with cluster(postgres_url, size=1) as stand:
        (replica,) = stand.replicas
        headers = {"x-tieline-cluster": SECRET, "x-tieline-host": "localhost"}
        assert (await stand.client.get(f"{replica.url}/v1/models", headers=headers)).status_code == 401
        headers = {**headers, "authorization": f"Bearer {KEY}", "host": "evil.example"}
        response = await stand.client.get(f"{replica.url}/v1/models", headers=headers)
        assert response.status_code == 403
        assert "evil.example" in response.text


async def test_a_forwarded_request_is_not_forwarded_again(postgres_url: str) -> None:
    async with cluster(postgres_url) as stand:
        first, second = stand.replicas
        talk = Chat(stand.client)
        await talk.start(first.url)
        talk.headers["x-tieline-cluster"] = SECRET
        runs = stand.sim.runs
        assert await talk.finish(second.cluster.membership.url) == "It is sunny."
        assert (stand.sim.runs, first.resumed, first.parked) == (runs + 1, 0, 1)


async def test_a_request_is_counted_once(postgres_url: str) -> None:
    config = Config(keys={"ann": KeySettings(key_env="ANN_KEY", requests_per_minute=1)})
    async with cluster(postgres_url, size=0) as stand:
        for _ in range(2):
            await stand.add(config, {"ANN_KEY": "key-of-ann"})
        first, second = stand.replicas
        talk = Chat(stand.client)
        talk.headers["authorization"] = "Bearer key-of-ann"
        await talk.start(first.url)
        assert await talk.finish(second.url) == "It is sunny."
        counts = [sum(replica.app.gateway.metrics.requests.values()) for replica in stand.replicas]
        assert counts == [2, 0]


async def test_the_client_receives_what_the_owner_sends(postgres_url: str) -> None:
    """Status, headers and body are the same as from the owner itself, for answers and for errors."""
    async with cluster(postgres_url) as stand:
        first, second = stand.replicas
        talk = Messages(stand.client, stream=False)
        await talk.start(first.url)
        talk._add_result("sunny")
        body = {**talk._body(), "model": "cursor/demo", "tool_choice": {"type": "tool", "name": "nope"}}
        answers = [
            await stand.client.post(f"{replica.url}/v1/messages?beta=true", json=body, headers=talk.headers)
            for replica in (first, second)
        ]
        assert answers[0].status_code == answers[1].status_code == 400
        assert answers[0].json()["error"] == answers[1].json()["error"]
        hidden = ("request-id", "x-request-id", "content-length")
        heads = [[field for field in answer.headers.raw if field[0].decode() not in hidden] for answer in answers]
        assert sorted(heads[0]) == sorted(heads[1])


async def test_the_run_ends_when_the_client_of_another_replica_leaves(postgres_url: str) -> None:
    async with cluster(postgres_url) as stand:
        first, second = stand.replicas
        talk = Chat(stand.client)
        talk.history.append({"role": "user", "content": SLOW})
        await talk._call(first.url)
        talk._add_result("sunny")
        body = {**talk._body(), "model": DEMO, "stream": True}
        async with stand.client.stream("POST", second.url + talk.path, json=body, headers=talk.headers) as response:
            assert response.status_code == 200
            async for _ in response.aiter_raw():
                break
            assert first.app.gateway.metrics.open_legs == 1
        await until(lambda: first.app.gateway.metrics.open_legs == 0)


async def test_a_replica_that_stops_without_a_word_is_noticed_by_its_heartbeat(postgres_url: str) -> None:
    async with cluster(postgres_url) as stand:
        first, second = stand.replicas
        talk = Chat(stand.client)
        await talk.start(first.url)
        heart = first.cluster.membership._heart
        assert heart is not None
        heart.cancel()
        await until(lambda: second.cluster.membership.find(first.tag) is None)
        assert await talk.finish(second.url) == "It is sunny."
        assert first.parked == 1


async def test_a_replica_that_refuses_connections_is_dead_at_once(postgres_url: str) -> None:
    async with cluster(postgres_url) as stand:
        first, second = stand.replicas
        talk = Chat(stand.client)
        await talk.start(first.url)
        known = second.cluster.membership.find(first.tag)
        assert known is not None
        known.origin = known.origin._replace(port=free_port())
        assert await talk.finish(second.url) == "It is sunny."
        assert second.cluster.membership.find(first.tag) is None


async def test_a_draining_replica_finishes_its_runs_and_starts_no_others(postgres_url: str) -> None:
    async with cluster(postgres_url) as stand:
        first, second = stand.replicas
        held, gone = Chat(stand.client), Chat(stand.client)
        await held.start(first.url)
        await gone.start(first.url)
        await first.cluster.membership.drain()
        ready = await stand.client.get(f"{first.url}/readyz")
        assert (ready.status_code, ready.json()) == (503, {"status": "draining"})
        assert (await stand.client.get(f"{first.url}/healthz")).status_code == 200
        assert await held.finish(second.url) == "It is sunny."
        assert (first.resumed, second.resumed) == (1, 0)
        await first.app.gateway.aclose()
        runs = stand.sim.runs
        assert await gone.finish(second.url) == "It is sunny."
        assert stand.sim.runs == runs + 1
        assert first.app.gateway.metrics.requests["chat", "cursor"] == 3


async def test_a_draining_replica_still_serves_clients_and_closes_their_connections(postgres_url: str) -> None:
    async with cluster(postgres_url, size=1) as stand:
        (replica,) = stand.replicas
        headers = {"authorization": f"Bearer {KEY}"}
        response = await stand.client.get(f"{replica.url}/v1/models", headers=headers)
        assert "connection" not in response.headers
        await replica.cluster.membership.drain()
        response = await stand.client.get(f"{replica.url}/v1/models", headers=headers)
        assert (response.status_code, response.headers["connection"]) == (200, "close")


async def test_a_page_of_a_configured_origin_may_read_the_response_of_another_replica(postgres_url: str) -> None:
    """A browser rejects a response that names the origin twice."""
    async with cluster(postgres_url, config=SHARING) as stand:
        first, second = stand.replicas
        headers = {"authorization": f"Bearer {KEY}", "origin": ORIGIN}
        made = (await stand.client.post(f"{first.url}/v1/conversations", json={}, headers=headers)).json()
        for replica in (first, second):
            response = await stand.client.get(f"{replica.url}/v1/conversations/{made['id']}", headers=headers)
            assert (response.status_code, response.json()) == (200, made)
            assert response.headers.get_list("access-control-allow-origin") == [ORIGIN]


async def test_a_draining_replica_closes_the_connections_of_web_pages(postgres_url: str) -> None:
    async with cluster(postgres_url, size=1, config=SHARING) as stand:
        (replica,) = stand.replicas
        await replica.cluster.membership.drain()
        headers = {"authorization": f"Bearer {KEY}", "origin": ORIGIN, "access-control-request-method": "GET"}
        for method, path, origin in (
            ("GET", "/v1/models", ORIGIN),
            ("OPTIONS", "/v1/models", ORIGIN),
            ("GET", "/cursor/v1/models", "*"),
            ("OPTIONS", "/cursor/v1/models", "*"),
        ):
            response = await stand.client.request(method, replica.url + path, headers=headers)
            assert (response.status_code, response.headers["connection"]) == (200, "close"), (method, path)
            assert response.headers.get_list("access-control-allow-origin") == [origin], (method, path)


async def test_a_draining_replica_lets_no_other_page_in(postgres_url: str) -> None:
    async with cluster(postgres_url, size=1, config=SHARING) as stand:
        (replica,) = stand.replicas
        await replica.cluster.membership.drain()
        for origin, status in (("https://evil.example", 403), (replica.url, 405)):
            headers = {"authorization": f"Bearer {KEY}", "origin": origin, "access-control-request-method": "GET"}
            response = await stand.client.options(f"{replica.url}/v1/models", headers=headers)
            assert response.status_code == status
            assert "access-control-allow-origin" not in response.headers


async def test_draining_ends_with_the_last_run(postgres_url: str) -> None:
    async with cluster(postgres_url, size=1) as stand:
        (replica,) = stand.replicas
        talk = Chat(stand.client)
        await talk.start(replica.url)
        draining = asyncio.create_task(replica.cluster.drain())
        await until(lambda: replica.cluster.membership.is_draining)
        assert not draining.done()
        assert await talk.finish(replica.url) == "It is sunny."
        await asyncio.wait_for(draining, PATIENCE)


async def test_draining_does_not_wait_longer_than_configured(postgres_url: str) -> None:
    async with cluster(postgres_url, size=1, drain_seconds=0.2) as stand:
        (replica,) = stand.replicas
        await Chat(stand.client).start(replica.url)
        await asyncio.wait_for(replica.cluster.drain(), PATIENCE)
        assert replica.parked == 1


async def test_forwarding_continues_without_the_database(postgres_server: PostgresServer, postgres_url: str) -> None:
    async with cluster(postgres_url) as stand:
        first, second = stand.replicas
        talk = Chat(stand.client)
        await talk.start(first.url)
        postgres_server.stop()
        try:
            await until(lambda: first.cluster.membership.is_cut_off and second.cluster.membership.is_cut_off)
            ready = await stand.client.get(f"{second.url}/readyz")
            assert (ready.status_code, ready.json()) == (200, {"status": "degraded", "database": "unavailable"})
            await asyncio.sleep(1.5)  # longer than a replica may be silent
            assert await talk.finish(second.url) == "It is sunny."
            assert (first.resumed, second.resumed) == (1, 0)
        finally:
            postgres_server.start()
        await until(lambda: not first.cluster.membership.is_cut_off and not second.cluster.membership.is_cut_off)
        assert second.cluster.membership.find(first.tag) is not None
        ready = await stand.client.get(f"{second.url}/readyz")
        assert ready.json() == {"status": "ready"}


async def test_agents_are_served_by_the_replica_that_has_the_workspace(postgres_url: str, tmp_path: Path) -> None:
    agent = AgentSettings(command=(sys.executable, "-I", "-S", str(AGENT)))
    config = Config(acp=AcpSettings(agents={"echo": agent}, workspace=str(tmp_path)))
    env = {"HOME": str(tmp_path), "PATH": str(tmp_path)}
    body = {"model": "acp/echo", "messages": [{"role": "user", "content": "Hello"}]}
    async with cluster(postgres_url, size=0) as stand:
        other = await stand.add(config, env)
        headers = {"authorization": f"Bearer {KEY}"}
        response = await stand.client.post(f"{other.url}/v1/chat/completions", json=body, headers=headers)
        assert response.status_code == 503
        assert "run on the machine that has the workspace" in response.json()["error"]["message"]
        owner = await stand.add(config, env, agents=True)
        response = await stand.client.post(f"{other.url}/v1/chat/completions", json=body, headers=headers)
        assert response.status_code == 200, response.text
        assert response.json()["choices"][0]["message"]["content"] == "You said: Hello"
        assert sum(owner.app.gateway.metrics.requests.values()) == 1
