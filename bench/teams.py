"""Scenarios of teams: requests with keys whose usage is recorded, and runs that another replica holds."""

import http.client
import json
import statistics
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from cursor_runs import with_tool
from peers import CHAT_TO_ANTHROPIC, KeyedTieline, Peer, Replica
from procs import HERE, LOAD_CORE, START_LIMIT_S, free_ports
from scenarios import Bench, Row, Server, closed_loop, progress, start_paused

sys.path.append(str(HERE.parent))
from tests.postgres_server import NoPostgres, private_server

SQLITE, POSTGRES, FORWARDED, DIRECT = "tieline-sqlite", "tieline-postgres", "forwarded", "direct"
TITLES = {
    SQLITE: "keys and usage, SQLite",
    POSTGRES: "keys and usage, PostgreSQL",
    DIRECT: "at its replica",
    FORWARDED: "at another replica",
}
TURNS = 300


@dataclass(frozen=True)
class TeamPeers:
    """The gateways of these scenarios. Those that need PostgreSQL are missing if it is not installed."""

    keyed: tuple[Peer, ...]
    replicas: tuple[Peer, ...] = ()


@contextmanager
def team_peers(unavailable: dict[str, str]) -> Iterator[TeamPeers]:
    """Start PostgreSQL, if it is installed, and return the gateways to measure."""
    try:
        import psycopg  # noqa: F401, PLC0415 - optional

        with private_server() as server:
            server.pin(LOAD_CORE)
            ports = free_ports(2)
            shared = server.create()
            replicas = tuple(Replica(number, shared, port) for number, port in enumerate(ports, 1))
            yield TeamPeers((KeyedTieline(), KeyedTieline(server.create())), replicas)
    except (ImportError, NoPostgres) as error:
        unavailable[POSTGRES] = unavailable[FORWARDED] = str(error)
        yield TeamPeers((KeyedTieline(),))


def measure_keyed_requests(bench: Bench, keyed: list[Server], unavailable: dict[str, str]) -> list[Row]:
    """Measure streams and answers without streaming with keys, and for comparison without."""
    start_paused(keyed, "{}", unavailable)
    if not keyed:
        return []
    servers = [server for server in bench.servers if server.peer.name == "tieline"] + keyed
    progress("measuring: requests with keys")
    stream = Row("keyed stream", "stream, 64 concurrent, Chat → Anthropic", "requests/s", "request")
    plain = Row("keyed plain", "non-stream, 64 concurrent, Chat → Anthropic", "requests/s", "request")
    return [
        closed_loop(bench, stream, CHAT_TO_ANTHROPIC, "stream", servers, restart=True),
        closed_loop(bench, plain, CHAT_TO_ANTHROPIC, "json", servers, restart=True),
    ]


def measure_forwarding(replicas: list[Server], unavailable: dict[str, str]) -> list[Row]:
    """Measure how much later the first byte of a resumed run arrives if another replica holds the run."""
    start_paused(replicas, "{}", unavailable)
    if len(replicas) < 2:
        return []
    progress("measuring: runs of another replica")
    typical = Row("first byte", "first byte of a resumed run, median", "ms")
    late = Row("late first byte", "first byte of a resumed run, 95th percentile", "ms")
    added = Row("added by forwarding", "added by forwarding, median", "ms")
    owner, other = replicas
    with owner.process.resumed(), other.process.resumed():
        time.sleep(3)  # replicas find each other within two seconds
        times: dict[str, list[float]] = {DIRECT: [], FORWARDED: []}
        for _ in range(TURNS):
            for name, server in ((DIRECT, owner), (FORWARDED, other)):
                times[name].append(_first_byte(owner, server))
    for name, samples in times.items():
        typical.add(name, statistics.median(samples))
        late.add(name, statistics.quantiles(samples, n=20)[-1])
    pairs = zip(times[FORWARDED], times[DIRECT], strict=True)
    added.add(FORWARDED, statistics.median(mine - theirs for mine, theirs in pairs))
    return [typical, late, added]


def _first_byte(owner: Server, server: Server) -> float:
    """Let `owner` start a run that calls a tool, and send the result to `server`.

    Return the milliseconds until the first byte of the response.
    """
    request = with_tool(owner, stream=True)
    call = _call_id(b"".join(_sent(owner, request)))
    called = {"id": call, "type": "function", "function": {"name": "bench_tool", "arguments": "{}"}}
    request["messages"] += [
        {"role": "assistant", "content": None, "tool_calls": [called]},
        {"role": "tool", "tool_call_id": call, "content": "one line"},
    ]
    began = time.perf_counter()
    parts = _sent(server, request)
    next(parts)
    took = (time.perf_counter() - began) * 1000
    for _ in parts:
        pass
    return took


def _sent(server: Server, request: Mapping[str, object]) -> Iterator[bytes]:
    """Send a request and yield the parts of the response as they arrive."""
    target = server.target(CHAT_TO_ANTHROPIC)
    connection = http.client.HTTPConnection("127.0.0.1", target.port, timeout=START_LIMIT_S)
    try:
        headers = {"Content-Type": "application/json", **target.headers}
        connection.request("POST", target.path, json.dumps(request).encode(), headers)
        response = connection.getresponse()
        while part := response.read1():
            yield part
    finally:
        connection.close()


def _call_id(stream: bytes) -> str:
    """Return the id of the call in a streamed answer."""
    for line in stream.splitlines():
        if line.startswith(b"data: {"):
            for choice in json.loads(line[6:])["choices"]:
                for call in choice["delta"].get("tool_calls", ()):
                    return str(call["id"])
    raise ValueError(f"no call in {stream[:200]!r}")
