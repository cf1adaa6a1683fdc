"""Tests with three replicas as programs, PostgreSQL and load balancers: replicas are killed, restarted and cut off."""

import asyncio
import json
import signal
from collections.abc import Awaitable, Callable
from itertools import count, product
from pathlib import Path

import httpx2

from tests.cluster.processes import BALANCERS, Balancer, Cluster, Turn, started
from tests.cluster.support import Messages, Socket
from tests.postgres_server import PostgresServer

MANY = 1000
AT_ONCE = 16


async def each(turns: list[Turn], work: Callable[[Turn], Awaitable[object]]) -> None:
    """Do something with every turn, some at a time."""
    waiting = iter(turns)

    async def worker() -> None:
        for turn in waiting:
            await work(turn)

    async with asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(worker())


class Load:
    """Clients that hold one conversation after another through the load balancer."""

    def __init__(self, cluster: Cluster, clients: int = 4) -> None:
        self._cluster = cluster
        self._numbers = count()
        self._is_over = False
        self._clients = [asyncio.create_task(self._talk()) for _ in range(clients)]
        self.turns = 0

    async def stop(self) -> None:
        """Let the clients end their conversations. Raise the first error that one of them met."""
        self._is_over = True
        await asyncio.gather(*self._clients)

    async def _talk(self) -> None:
        origin = self._cluster.balancer.origin
        while not self._is_over:
            turn = Turn(self._cluster, next(self._numbers))
            await turn.start(origin)
            await turn.finish(origin)
            self.turns += 1

    async def more(self, turns: int) -> None:
        """Wait until the clients have completed this many more turns."""
        wanted = self.turns + turns
        async with asyncio.timeout(60):
            while self.turns < wanted:
                assert not any(client.done() for client in self._clients), "a client met an error"
                await asyncio.sleep(0.05)


@BALANCERS
async def test_a_thousand_runs_survive_the_death_of_their_replica(
    postgres_url: str, tmp_path: Path, balancer: type[Balancer]
) -> None:
    async with started(tmp_path, postgres_url, balancer=balancer) as cluster:
        owner = cluster.replicas[0]
        turns = [Turn(cluster, number) for number in range(MANY)]
        await each(turns, lambda turn: turn.start(owner.origin))
        runs = cluster.sim.runs
        owner.kill()
        await each(turns, lambda turn: turn.finish(cluster.balancer.origin))
        assert cluster.sim.runs == runs + MANY


@BALANCERS
async def test_a_rolling_restart_fails_no_request(postgres_url: str, tmp_path: Path, balancer: type[Balancer]) -> None:
    async with started(tmp_path, postgres_url, balancer=balancer) as cluster:
        load = Load(cluster)
        for replica in cluster.replicas:
            await load.more(20)
            replica.signal(signal.SIGTERM)
            assert await replica.ended() == 0, replica.log()
            replica.start()
            await replica.ready(cluster.client)
        await load.more(20)
        await load.stop()
        assert load.turns >= 80


@BALANCERS
async def test_streamed_calls_and_calls_on_websockets_are_resumed(
    postgres_url: str, tmp_path: Path, balancer: type[Balancer]
) -> None:
    async with started(tmp_path, postgres_url, balancer=balancer) as cluster, httpx2.AsyncClient() as client:
        url = f"http://127.0.0.1:{cluster.balancer.port}"
        for kind, replica in product((Messages, Socket), cluster.replicas):
            conversation = kind(client)
            await conversation.start(f"http://127.0.0.1:{replica.port}")
            runs = cluster.sim.runs
            assert await conversation.finish(url) == "It is sunny."
            assert cluster.sim.runs == runs, "the run was replayed instead of resumed"


async def test_a_second_signal_ends_the_draining(postgres_url: str, tmp_path: Path) -> None:
    async with started(tmp_path, postgres_url, size=1) as cluster:
        (replica,) = cluster.replicas
        await Turn(cluster, 1).start(replica.origin)
        replica.signal(signal.SIGTERM)
        await cluster.reports(replica, "draining")
        assert replica.process is not None
        assert replica.process.poll() is None
        replica.signal(signal.SIGTERM)
        async with asyncio.timeout(5):  # half of what draining may take
            assert await replica.ended() == 0


async def test_requests_continue_while_the_database_is_down(
    postgres_server: PostgresServer, postgres_url: str, tmp_path: Path
) -> None:
    async with started(tmp_path, postgres_url) as cluster:
        load = Load(cluster)
        await load.more(10)
        parked = [Turn(cluster, 10_000 + number) for number in range(10)]
        await each(parked, lambda turn: turn.start(cluster.replicas[0].origin))
        runs = cluster.sim.runs
        postgres_server.stop()
        try:
            await cluster.reports(cluster.replicas[1], "degraded")
            await asyncio.sleep(5)  # longer than a replica may send no heartbeat
            await load.more(10)
            await load.stop()
            before = cluster.sim.runs
            await each(parked, lambda turn: turn.finish(cluster.replicas[1].origin))
            assert cluster.sim.runs == before, "runs were replayed instead of forwarded"
            assert before > runs
        finally:
            postgres_server.start()
        for replica in cluster.replicas:
            await replica.ready(cluster.client)


async def test_two_keys_do_not_see_each_other(postgres_url: str, tmp_path: Path) -> None:
    keys = '[keys.ann]\nkey_env = "ANN_KEY"\n[keys.ben]\nkey_env = "BEN_KEY"\n'
    env = {"ANN_KEY": "key-of-ann", "BEN_KEY": "key-of-ben"}
    async with started(tmp_path, postgres_url, more=keys, env=env) as cluster:
        body = {"model": "demo/scripted", "input": "Hello", "store": True}
        _, created = await cluster.post(cluster.replicas[0].origin, "/v1/responses", body, "key-of-ann")
        path = f"/v1/responses/{json.loads(created)['id']}"
        for replica in cluster.replicas:
            assert (await cluster.get(replica.origin, path, "key-of-ann"))[0] == 200
            assert (await cluster.get(replica.origin, path, "key-of-ben"))[0] == 404
            again = {**body, "previous_response_id": path.rpartition("/")[2]}
            assert (await cluster.post(replica.origin, "/v1/responses", again, "key-of-ann"))[0] == 200
            assert (await cluster.post(replica.origin, "/v1/responses", again, "key-of-ben"))[0] == 400
        mine, theirs = Turn(cluster, 1, "key-of-ann"), Turn(cluster, 1, "key-of-ben")
        await mine.start(cluster.replicas[0].origin)
        theirs.copy(mine)
        runs = cluster.sim.runs
        await theirs.finish(cluster.replicas[1].origin)
        assert cluster.sim.runs == runs + 1, "a key resumed the run of another"
        await mine.finish(cluster.replicas[2].origin)
        assert cluster.sim.runs == runs + 1, "the run of the key was lost"
