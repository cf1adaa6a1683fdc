"""Tests of the example configurations for load balancers, in front of programs that answer as replicas do."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from tests.cluster.processes import BALANCERS, MAX_BODY, TIMEOUTS, WAIT, Balancer, Envoy
from tieline.net.client.http import HttpClient

SESSIONS = 32
"""So many that every replica gets some of them."""


class Fake:
    """Answers every request with its own name and the request's headers, in two parts."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_ready = True
        self.is_broken = False
        self.may_end = asyncio.Event()
        self.may_end.set()
        self.port = 0

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[None, None]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield
        finally:
            server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._answer(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().strip().splitlines()
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        if line.split()[1] == "/readyz":
            assert headers["host"] == "127.0.0.1"  # every replica allows it, whatever its `hosts` are
            status = "200 OK" if self.is_ready else "503 Service Unavailable"
            writer.write(f"HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n".encode())
            return
        await reader.readexactly(int(headers.get("content-length", "0")))
        if self.is_broken:  # as if it were killed before its first byte
            return
        answer = json.dumps({"name": self.name, "headers": headers}).encode()
        writer.write(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % (len(answer) + 1))
        writer.write(b" ")
        await writer.drain()
        await self.may_end.wait()
        writer.write(answer)


class Setting:
    """Two programs that answer as replicas do, a load balancer, and a client."""

    def __init__(self, fakes: list[Fake], balancer: Balancer, client: HttpClient) -> None:
        self.fakes = fakes
        self.port = balancer.port
        self._balancer = balancer
        self._client = client

    async def send(self, headers: tuple[tuple[str, str], ...] = (), body: bytes = b"{}") -> tuple[str, dict[str, str]]:
        """Send a request. Return the name of the replica that has answered, and the headers that it got."""
        response = await self._client.send(self._balancer.origin, "POST", "/v1/messages", headers, body, TIMEOUTS)
        first = await response.chunk()
        for fake in self.fakes:
            fake.may_end.set()
        answer = first + await response.read(MAX_BODY)
        assert response.status == 200, answer
        found = json.loads(answer)
        return found["name"], found["headers"]

    async def answering(self, header: str = "session_id", body: bytes = b"{}") -> list[str]:
        """Send a request for each of many sessions. Return the names of the replicas that have answered."""
        return [(await self.send(((header, f"session-{number}"),), body))[0] for number in range(SESSIONS)]

    async def until(self, names: set[str]) -> None:
        """Wait until exactly these replicas answer."""
        async with asyncio.timeout(WAIT):
            while set(await self.answering()) != names:
                pass


@asynccontextmanager
async def setting(folder: Path, balancer: type[Balancer]) -> AsyncGenerator[Setting, None]:
    async with AsyncExitStack() as stack:
        fakes = [Fake("one"), Fake("two")]
        for fake in fakes:
            await stack.enter_async_context(fake.serving())
        running = balancer(folder, [fake.port for fake in fakes])
        stack.callback(running.stop)
        await asyncio.to_thread(running.start)
        client = HttpClient()
        stack.push_async_callback(client.aclose)
        yield Setting(fakes, running, client)


@BALANCERS
async def test_an_answer_is_passed_on_as_it_arrives(tmp_path: Path, balancer: type[Balancer]) -> None:
    async with setting(tmp_path, balancer) as found:
        for fake in found.fakes:
            fake.may_end.clear()
        async with asyncio.timeout(WAIT):
            await found.send()


@BALANCERS
async def test_headers_between_replicas_are_removed_and_all_others_are_kept(
    tmp_path: Path, balancer: type[Balancer]
) -> None:
    async with setting(tmp_path, balancer) as found:
        mine = (("session_id", "s"), ("X-Tieline-Cluster", "x"), ("x-tieline-host", "y"))
        _, headers = await found.send((*mine, ("x-claude-code-session-id", "c")))
        assert not {"x-tieline-cluster", "x-tieline-host"} & headers.keys()
        assert (headers["session_id"], headers["x-claude-code-session-id"]) == ("s", "c")


@BALANCERS
async def test_a_replica_sees_the_host_and_port_that_the_client_used(tmp_path: Path, balancer: type[Balancer]) -> None:
    """It compares them with the origin of a browser's request, and refuses a web page if they differ."""
    async with setting(tmp_path, balancer) as found:
        _, headers = await found.send()
        assert headers["host"] == f"127.0.0.1:{found.port}"


@BALANCERS
async def test_a_session_stays_at_one_replica(tmp_path: Path, balancer: type[Balancer]) -> None:
    async with setting(tmp_path, balancer) as found:
        await found.until({"one", "two"})  # Envoy may find one of them healthy before the other
        for header in ("session_id", "x-claude-code-session-id"):
            first = await found.answering(header)
            assert set(first) == {"one", "two"}
            assert await found.answering(header) == first
        assert len({(await found.send())[0] for _ in range(SESSIONS)}) == 1


@BALANCERS
async def test_a_large_request_to_a_replica_that_dies_is_sent_to_another(
    tmp_path: Path, balancer: type[Balancer]
) -> None:
    async with setting(tmp_path, balancer) as found:
        found.fakes[0].is_broken = True
        names = await found.answering(body=b"x" * (8 << 20))
        assert set(names) == {"two"}


async def test_envoy_sends_nothing_to_a_replica_that_drains(tmp_path: Path) -> None:
    async with setting(tmp_path, Envoy) as found:
        one, _ = found.fakes
        await found.until({"one", "two"})
        one.is_ready = False
        await found.until({"two"})
        one.is_ready = True
        await found.until({"one", "two"})
