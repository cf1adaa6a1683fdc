"""Kills gateways under load, and compares the ledger with what the clients counted. Every request has a model of its
own, so a request that is missing or counted twice is found."""

import asyncio
import json
import random
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count, islice
from pathlib import Path

import httpx2
import pytest

from tests.e2e.cli_support import configured, ran, serving
from tests.postgres_server import PostgresServer

OWN = "own-key-of-the-gateway"
CLIENTS = 6
ROUNDS = 3
OUTAGE = 30.0
"""Seconds for which the database is down."""
PAUSE = 0.3
"""Seconds between two requests of a client during an outage, so that the requests last as long as the outage."""
MOST = 900
"""Maximum number of requests to one gateway, which distinguishes up to a thousand models."""


class Load:
    """Clients that send one request after another, and remember which responses they saw to their end."""

    def __init__(self, key: str, pause: float = 0.0) -> None:
        self.key = key
        self._pause = pause
        self.completed: dict[str, int] = {}
        """The tokens of each complete response, by model."""
        self.sent: set[str] = set()
        self._numbers: Iterator[int] = count()

    async def client(self, http: httpx2.AsyncClient, numbers: Iterator[int]) -> None:
        for number in numbers:
            model = f"r{number}"
            self.sent.add(model)
            body = {
                "model": f"demo/{model}",
                "messages": [{"role": "user", "content": f"Tell me about {model}"}],
                "stream": True,
                "stream_options": {"include_usage": True},
            }
            try:
                response = await http.post("/v1/chat/completions", json=body)
            except httpx2.TransportError:
                return
            assert response.status_code == 200, response.text
            frames = [line.removeprefix("data: ") for line in response.text.splitlines() if line]
            if frames[-1] == "[DONE]":
                self.completed[model] = json.loads(frames[-2])["usage"]["total_tokens"]
            await asyncio.sleep(self._pause)

    async def run(self, port: int, seconds: float) -> None:
        headers = {"x-api-key": self.key}
        async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=60) as http:
            numbers = islice(self._numbers, MOST)
            clients = [asyncio.create_task(self.client(http, numbers)) for _ in range(CLIENTS)]
            await asyncio.wait(clients, timeout=seconds, return_when=asyncio.FIRST_EXCEPTION)
            for client in clients:
                if client.done():
                    client.result()
                client.cancel()
            await asyncio.gather(*clients, return_exceptions=True)


async def kill_later(process: object, seconds: float) -> None:
    await asyncio.sleep(seconds)
    process.send_signal(signal.SIGKILL)  # type: ignore[attr-defined] # a process


async def killed_while_loaded(load: Load, process: object, port: int) -> None:
    await asyncio.gather(load.run(port, 30), kill_later(process, random.uniform(0.5, 2.5)))


def check(home: Path, load: Load, seed: object) -> None:
    shown = ran(home, "usage", "--by", "model", "--json", TIELINE_KEY=OWN)
    assert shown.returncode == 0, shown.stderr
    rows = {row["model"].removeprefix("demo/"): row for row in json.loads(shown.stdout)}
    assert load.completed.keys() <= rows.keys() <= load.sent, seed
    assert {row["requests"] for row in rows.values()} == {1}, seed
    for model, tokens in load.completed.items():
        assert rows[model]["input"] + rows[model]["output"] == tokens
    assert len(load.completed) > ROUNDS


def new_key(home: Path) -> str:
    created = ran(home, "keys", "create", "alice", "--json", TIELINE_KEY=OWN)
    assert created.returncode == 0, created.stderr
    key: str = json.loads(created.stdout)["key"]
    return key


def test_the_ledger_survives_kill_9_under_load(tmp_path: Path) -> None:
    load = Load(new_key(tmp_path))
    for _ in range(ROUNDS):
        with serving(tmp_path, TIELINE_KEY=OWN) as (process, port):
            asyncio.run(killed_while_loaded(load, process, port))
    with serving(tmp_path, TIELINE_KEY=OWN) as (process, port):
        asyncio.run(load.run(port, 1.0))
        process.send_signal(signal.SIGTERM)
        process.wait(30)
    check(tmp_path, load, None)
    assert list((tmp_path / ".local/state/tieline/usage").iterdir()) == []


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL], ids=["stopped", "crashed"])
def test_two_gateways_lose_and_repeat_nothing_while_postgres_is_down(
    tmp_path: Path, postgres_server: PostgresServer, postgres_url: str, how: signal.Signals
) -> None:
    configured(tmp_path, f'[store]\nurl = "{postgres_url}"\n')
    load = Load(new_key(tmp_path), PAUSE)

    async def outage(ports: list[int]) -> None:
        async with asyncio.TaskGroup() as group:
            for port in ports:
                group.create_task(load.run(port, OUTAGE + 6))
            await asyncio.sleep(1.5)
            await asyncio.to_thread(postgres_server.stop, how)
            await asyncio.sleep(OUTAGE)
            await asyncio.to_thread(postgres_server.start)

    with ExitStack() as stack:
        gateways = [stack.enter_context(serving(tmp_path, TIELINE_KEY=OWN)) for _ in range(2)]
        asyncio.run(outage([port for _, port in gateways]))
        gateways[0][0].send_signal(signal.SIGKILL)
        gateways[0][0].wait(30)
        gateways[1][0].send_signal(signal.SIGTERM)
        gateways[1][0].wait(30)
    with serving(tmp_path, TIELINE_KEY=OWN) as (process, port):
        asyncio.run(load.run(port, 0.5))
        process.send_signal(signal.SIGTERM)
        process.wait(30)
    check(tmp_path, load, how)
