"""Tests for page sessions that are listed, shown and continued through any replica."""

import asyncio
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.cluster.page_support import ANN, BOB, OWNER_KEYS, TWO_OWNERS, Person, paged_cluster
from tests.cluster.processes import KEY, TIMEOUTS, Cluster, ReplicaProcess, started
from tests.cluster.support import PATIENCE, Replica, cluster, until
from tests.core.scripted import END, Script, words
from tests.ports import free_port
from tests.postgres_server import PostgresServer
from tieline.app.config import AcpSettings, AgentSettings, Config
from tieline.model.events import Event, Started

AGENT = Path(__file__).with_name("echo_agent.py")

BEGINNING: list[Event] = [Started(id="leg", model="m"), *words("Half")[:2]]


async def waiting(person: Person, replica: Replica, session: str, script: Script) -> asyncio.Event:
    """Send a message whose answer begins and then waits. Return the event that lets it continue."""
    goon = asyncio.Event()
    script.legs.append([BEGINNING, goon, [words("Half")[2], END]])
    script.reached.clear()
    await person.post(replica, f"/api/sessions/{session}/send", {"text": "Go"})
    async with asyncio.timeout(PATIENCE):
        await script.reached.wait()
    return goon


async def test_any_replica_lists_shows_changes_and_continues_a_session(postgres_url: str) -> None:
    async with paged_cluster(postgres_url) as (stand, scripts):
        first, second = stand.replicas
        person = Person(stand)
        assert await person.summaries(second) == {}
        session = await person.begin(first)
        await person.say(first, session, "One")
        assert await person.shown(second, session) == ["One", "answer 1"]
        await person.say(second, session, "Two")
        await person.call(second, "PATCH", f"/api/sessions/{session}", {"title": "Renamed"})
        for replica in (first, second):
            assert await person.shown(replica, session) == ["One", "answer 1", "Two", "answer 1"]
            await person.until(replica, session, lambda summary: summary["title"] == "Renamed")
        (request,) = scripts[second.tag].requests
        assert [message.role for message in request.messages] == ["user", "assistant", "user"]
        await person.call(first, "DELETE", f"/api/sessions/{session}")
        for replica in (first, second):
            await person.get(replica, f"/api/sessions/{session}", status=404)
            assert session not in await person.summaries(replica)


async def test_a_running_message_is_shown_and_stopped_through_another_replica(postgres_url: str) -> None:
    async with paged_cluster(postgres_url) as (stand, scripts):
        first, second = stand.replicas
        person = Person(stand)
        session = await person.begin(first)
        await waiting(person, first, session, scripts[first.tag])
        shown = await person.get(second, f"/api/sessions/{session}")
        assert [part["text"] for part in shown["messages"][1]["parts"]] == ["Half"]
        assert shown["messages"][1]["ending"] is None
        assert (await person.summaries(second))[session]["running"]
        again = await person.post(second, f"/api/sessions/{session}/send", {"text": "More"}, status=409)
        assert again["error"]["code"] == "running"
        await person.post(second, f"/api/sessions/{session}/stop")
        assert await person.shown(second, session) == ["Go", "Half"]
        await person.until(second, session, lambda summary: not summary["running"])
        await person.say(second, session, "More")
        assert await person.shown(first, session) == ["Go", "Half", "More", "answer 1"]


async def test_a_session_is_deleted_through_another_replica_while_a_message_is_generated(postgres_url: str) -> None:
    async with paged_cluster(postgres_url) as (stand, scripts):
        first, second = stand.replicas
        person = Person(stand)
        session = await person.begin(second)
        await waiting(person, first, session, scripts[first.tag])
        await person.call(second, "DELETE", f"/api/sessions/{session}")
        for replica in (first, second):
            await person.get(replica, f"/api/sessions/{session}", status=404)


async def test_only_one_of_several_concurrent_messages_starts_an_answer(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    async with paged_cluster(postgres_url, size=3) as (stand, scripts):
        person = Person(stand)
        session = await person.begin(stand.replicas[0])
        for script in scripts.values():
            script.legs.append([BEGINNING, asyncio.Event()])
        paths = [(replica.url + f"/api/sessions/{session}/send") for replica in stand.replicas for _ in range(3)]
        token = (await person.get(stand.replicas[0], "/api/state"))["token"]
        headers = {**person.headers, "x-tieline-token": token}
        responses = await asyncio.gather(
            *(stand.client.post(path, json={"text": "Go"}, headers=headers) for path in paths)
        )
        assert sorted(response.status_code for response in responses) == [200] + 8 * [409]
        await until(lambda: sum(len(script.requests) for script in scripts.values()) == 1)
        await person.post(stand.replicas[1], f"/api/sessions/{session}/stop")
        for replica in stand.replicas:
            assert await person.shown(replica, session) == ["Go", "Half"]
        await until(lambda: postgres_server.query(postgres_url, "SELECT count(*) FROM session_claim") == "0")


async def test_owners_do_not_see_the_sessions_of_each_other_on_any_replica(postgres_url: str) -> None:
    async with paged_cluster(postgres_url, config=TWO_OWNERS, env=OWNER_KEYS) as (stand, scripts):
        first, second = stand.replicas
        ann, bob = Person(stand, ANN), Person(stand, BOB)
        session = await ann.begin(first)
        await waiting(ann, first, session, scripts[first.tag])
        for replica in (first, second):
            assert await bob.summaries(replica) == {}
            assert list(await ann.summaries(replica)) == [session]
            await bob.get(replica, f"/api/sessions/{session}", status=404)
            await bob.post(replica, f"/api/sessions/{session}/stop", status=404)
        await ann.post(second, f"/api/sessions/{session}/stop")


async def test_a_running_message_is_stopped_and_others_fail_at_once_during_an_outage_of_the_database(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    async with paged_cluster(postgres_url) as (stand, scripts):
        first, second = stand.replicas
        person = Person(stand)
        session, idle = await person.begin(first), await person.begin(first)
        assert set(await person.summaries(second)) == {session, idle}
        await waiting(person, first, session, scripts[first.tag])
        await person.get(second, f"/api/sessions/{session}")
        postgres_server.stop()
        try:
            failed = await person.post(second, f"/api/sessions/{idle}/send", {"text": "Go"}, status=503)
            assert "database" in failed["error"]["message"]
            assert set(await person.summaries(second)) == {session, idle}
            await person.post(first, f"/api/sessions/{session}/stop")
            created = await person.begin(first)
            assert set(await person.summaries(first)) == {session, idle, created}
        finally:
            postgres_server.start()
        await until(lambda: second.app.storage.is_available and first.app.storage.is_available)
        await person.say(second, idle, "Go")
        assert await person.shown(first, idle) == ["Go", "answer 1"]
        assert await person.shown(second, session) == ["Go", "Half"]
        await person.say(second, created, "Go")
        assert set(await person.summaries(second)) == {session, idle, created}


async def test_a_replica_that_was_taken_for_dead_does_not_undo_what_others_have_changed(postgres_url: str) -> None:
    async with paged_cluster(postgres_url) as (stand, scripts):
        first, second = stand.replicas
        person = Person(stand)
        session = await person.begin(first)
        state = await person.get(second, "/api/state")
        async with person.stream(second, state["seq"]) as stream:
            goon = await waiting(person, first, session, scripts[first.tag])
            heart = first.cluster.membership._heart
            assert heart is not None
            heart.cancel()
            await stream.until(lambda event: event["type"] == "session" and not event["summary"]["running"])
            stopped = await stream.until(lambda event: event["type"] == "turn")
            assert stopped["turn"]["ending"]["reason"] == "cancelled"
        await person.say(second, session, "More")
        goon.set()
        assert first.app.page is not None
        await first.app.page.sessions.aclose()
        assert await person.shown(second, session) == ["Go", "Half", "More", "answer 1"]


async def test_a_session_is_taken_over_at_once_if_its_replica_refuses_connections(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    async with paged_cluster(postgres_url, size=1, dead_seconds=60.0) as (stand, _):
        (replica,) = stand.replicas
        person = Person(stand)
        session = await person.begin(replica)
        gone = f"'gone', 'http://127.0.0.1:{free_port()}', 1, 0, 0"
        for statement in (
            f"INSERT INTO replica (tag, url, beat, draining, agents) VALUES ({gone})",  # noqa: S608 - only constants
            f"INSERT INTO session_claim VALUES ('{session}', 'gone')",  # noqa: S608 - an id of the gateway
        ):
            postgres_server.query(postgres_url, statement)
        await until(lambda: replica.cluster.membership.find("gone") is not None)
        await person.say(replica, session, "Go")
        assert await person.shown(replica, session) == ["Go", "answer 1"]


async def test_a_session_with_an_agent_continues_on_the_replica_that_has_the_workspace(
    postgres_url: str, tmp_path: Path
) -> None:
    agent = AgentSettings(command=(sys.executable, "-I", "-S", str(AGENT)))
    config = Config(acp=AcpSettings(agents={"echo": agent}, workspace=str(tmp_path)))
    env = {"HOME": str(tmp_path), "PATH": str(tmp_path)}
    async with cluster(postgres_url, size=0) as stand:
        other, owner = await stand.add(config, env), await stand.add(config, env, agents=True)
        person = Person(stand)
        session = await person.begin(other, "acp/echo")
        await person.say(other, session, "Hello")
        assert await person.shown(other, session) == ["Hello", "You said: Hello"]
        assert sum(owner.app.gateway.metrics.requests.values()) == 1


async def test_a_session_is_continued_after_its_replica_was_killed(tmp_path: Path, postgres_url: str) -> None:
    async with started(tmp_path, postgres_url, size=2, page=True) as programs:
        first, second = programs.replicas
        page = ProgramPage(programs)
        session = (await page.call(first, "POST", "/api/sessions", {"model": "demo/demo"}))["id"]
        text = "```tieline\ntext: Half\npause: 60\ntext: an answer\n```"
        await page.call(first, "POST", f"/api/sessions/{session}/send", {"text": text})
        shown = await page.until(second, session, lambda view: bool(view["messages"][-1]["parts"]))
        assert shown["summary"]["running"]
        first.kill()
        stopped = await page.until(second, session, lambda view: not view["summary"]["running"])
        assert stopped["messages"][-1]["ending"]["reason"] == "cancelled"
        text = "```tieline\ntext: It continues.\n```"
        await page.call(second, "POST", f"/api/sessions/{session}/send", {"text": text})
        continued = await page.until(second, session, lambda view: view["messages"][-1]["ending"] is not None)
        assert continued["messages"][-1]["parts"][0]["text"] == "It continues."


class ProgramPage:
    """Requests of the page to replicas that are programs."""

    def __init__(self, programs: Cluster) -> None:
        self._programs = programs

    async def call(self, replica: ReplicaProcess, method: str, path: str, body: object = None) -> Any:
        _, state = await self._programs.get(replica.origin, "/api/state")
        headers = [("authorization", f"Bearer {KEY}"), ("x-tieline-token", state["token"])]
        content = b"" if body is None else json.dumps(body).encode()
        response = await self._programs.client.send(replica.origin, method, path, headers, content, TIMEOUTS)
        answer = await response.read(1 << 20)
        assert response.status == 200, answer
        found: Any = json.loads(answer)
        return found

    async def until(self, replica: ReplicaProcess, session: str, fits: Callable[[Any], bool]) -> Any:
        """Return the messages of a session as soon as they fit."""
        async with asyncio.timeout(PATIENCE):
            while not fits(found := await self.call(replica, "GET", f"/api/sessions/{session}")):  # noqa: ASYNC110 - other programs
                await asyncio.sleep(0.05)
        return found
