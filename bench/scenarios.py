"""What is measured: one function per scenario, each returning one row of the table."""

import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from agent_request import agent_request
from peers import Peer, Upstream
from procs import SERVER_CORE, BenchError, Load, LoadResult, Process, Target, core_seconds, run_load, start_and_time

GROWTH_REQUESTS = 20_000
GROWTH_STEPS = 10


@dataclass(frozen=True)
class Plan:
    """How long and how often to measure."""

    rounds: int
    seconds: float
    slow_rounds: int
    slow_seconds: float
    warm_up: float
    starts: int


@dataclass
class Server:
    """A server that was started, with its pinned process."""

    peer: Peer
    process: Process


@dataclass
class Row:
    """The figures of one scenario: one list of samples per server, one sample per round."""

    key: str
    title: str
    unit: str
    cpu_unit: str = ""
    samples: dict[str, list[float]] = field(default_factory=dict)
    cpu_us: dict[str, list[float]] = field(default_factory=dict)
    busy: dict[str, list[float]] = field(default_factory=dict)  # share of its core that the server used
    others: dict[str, list[float]] = field(default_factory=dict)  # share that anybody else used meanwhile
    errors: dict[str, int] = field(default_factory=dict)
    first_error: dict[str, str] = field(default_factory=dict)

    def add(self, name: str, value: float) -> None:
        self.samples.setdefault(name, []).append(value)

    def median(self, name: str) -> float | None:
        return statistics.median(self.samples[name]) if self.samples.get(name) else None

    def ratio(self, name: str, other: str) -> float | None:
        """Median over the rounds of one server's figure divided by the other's of the same round."""
        pairs = zip(self.samples.get(name, []), self.samples.get(other, []), strict=False)
        ratios = [mine / theirs for mine, theirs in pairs if theirs > 0]
        return statistics.median(ratios) if ratios else None

    def cpu_ratio(self, name: str, other: str) -> float | None:
        """The same from processor time: how many requests one makes in the time the other needs for one."""
        pairs = zip(self.cpu_us.get(name, []), self.cpu_us.get(other, []), strict=False)
        ratios = [theirs / mine for mine, theirs in pairs if mine > 0]
        return statistics.median(ratios) if ratios else None

    def note(self, name: str, result: LoadResult) -> None:
        self.fail(name, result.errors, result.first_error)

    def fail(self, name: str, count: int, text: str) -> None:
        """So many answers were wrong; the text says how the first was."""
        self.errors[name] = self.errors.get(name, 0) + count
        if count and text:
            self.first_error.setdefault(name, text)


@dataclass
class Bench:
    """Everything a scenario needs."""

    plan: Plan
    upstream: Upstream
    servers: list[Server]
    cursor_runs: list[Server]

    def turns(self, rounds: int, slow_rounds: int, servers: Sequence[Server] | None = None) -> Iterator[Server]:
        """Interleaves the servers, in a different order each round; the others are paused meanwhile."""
        chosen = list(self.servers if servers is None else servers)
        for number in range(rounds):
            shift = number % max(1, len(chosen))
            for server in chosen[shift:] + chosen[:shift]:
                if not server.peer.slow or number < slow_rounds:
                    with server.process.awake():
                        server.process.check_alive()
                        yield server


def progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _body(request: dict[str, object]) -> bytes:
    return json.dumps(request, ensure_ascii=False, separators=(",", ":")).encode()


FLOW = "Answer delta by delta."
"""Makes the upstream write every delta of a stream by itself; otherwise it writes all of them at once."""


def small_request(model: str, *, stream: bool, wish: str = "") -> bytes:
    """A short chat request, as a person types it."""
    question = f"What does this function do, and where is it called from? {wish}"
    system = "You are a helpful assistant. Answer in plain words and keep to the question that was asked. " * 4
    return _body(
        {
            "model": model,
            "max_tokens": 1024,
            "temperature": 0.2,
            "stream": stream,
            "messages": [
                {"role": "system", "content": system.strip()},
                {"role": "user", "content": question.strip()},
            ],
        }
    )


def _measure(row: Row, server: Server, target: Target, load: Load, value: Callable[[LoadResult], float]) -> None:
    """One round of one server: load it, and keep the figure, the processor time and the errors."""
    cpu_before, core_before, began = server.process.cpu_seconds(), core_seconds(SERVER_CORE), time.monotonic()
    result = run_load(target, load)
    cpu, wall = server.process.cpu_seconds() - cpu_before, time.monotonic() - began
    core = core_seconds(SERVER_CORE) - core_before
    name = server.peer.name
    row.note(name, result)
    row.add(name, value(result))
    row.busy.setdefault(name, []).append(cpu / wall)
    row.others.setdefault(name, []).append(max(0.0, core - cpu) / wall)
    count = result.deltas if row.cpu_unit == "delta" else result.requests
    if count:
        row.cpu_us.setdefault(name, []).append(cpu / count * 1e6)


def closed_loop(
    bench: Bench,
    row: Row,
    body: Callable[[str], bytes],
    mode: str,
    concurrency: int,
    servers: Sequence[Server] | None = None,
) -> Row:
    """Requests one after the other on each of a number of connections, as fast as the server answers."""
    plan = bench.plan
    for server in bench.turns(plan.rounds, plan.slow_rounds, servers):
        target = server.peer.target(paced=False)
        content = body(target.model)
        warm_up = Load(content, mode, concurrency, seconds=plan.warm_up)
        run_load(target, warm_up)
        seconds = plan.slow_seconds if server.peer.slow else plan.seconds
        _measure(row, server, target, Load(content, mode, concurrency, seconds=seconds), lambda result: result.rps)
    return row


def stream_64(bench: Bench) -> Row:
    """Streams of 50 deltas that the upstream writes at once, 64 at a time."""
    row = Row("stream", "stream, 64 at once", "requests/s", "request")
    return closed_loop(bench, row, lambda model: small_request(model, stream=True), "stream", 64)


def flow_64(bench: Bench) -> Row:
    """The same, every delta a write of the upstream, as model APIs do it."""
    row = Row("flow", "stream, a write per delta, 64 at once", "requests/s", "request")
    return closed_loop(bench, row, lambda model: small_request(model, stream=True, wish=FLOW), "stream", 64)


def plain_64(bench: Bench) -> Row:
    """The same text without streaming, 64 at a time."""
    row = Row("plain", "non-stream, 64 at once", "requests/s", "request")
    return closed_loop(bench, row, lambda model: small_request(model, stream=False), "json", 64)


def agent_16(bench: Bench) -> Row:
    """A coding agent's request with tools and history, streamed, 16 at a time."""
    row = Row("agent", "agent request of 79 kB, stream, 16 at once", "requests/s", "request")
    return closed_loop(bench, row, lambda model: _body(agent_request(model)), "stream", 16)


def paced_512(bench: Bench) -> Row:
    """512 streams at a time with 10 ms between deltas; a stream that does not end in 10 s is an error."""
    row = Row("paced", "512 streams, 10 ms between deltas", "deltas/s", "delta")
    for server in bench.turns(min(3, bench.plan.rounds), 1):
        target = server.peer.target(paced=True)
        body = small_request(target.model, stream=True)
        load = Load(body, "stream", 512, seconds=max(2.0, bench.plan.seconds), ramp_ms=500, grace_s=10.0)
        _measure(row, server, target, load, lambda result: result.deltas_per_s)
    return row


def added_ttfb_4(bench: Bench) -> Row:
    """Milliseconds that a server adds to the time until the first delta, at 4 paced streams."""
    row = Row("ttfb", "added time to first byte, 4 streams", "ms")
    seconds = max(1.5, bench.plan.seconds)
    for server in bench.turns(min(3, bench.plan.rounds), 2):
        figures: list[int] = []
        for target in (bench.upstream.direct(paced=True), server.peer.target(paced=True)):
            body = small_request(target.model, stream=True)
            result = run_load(target, Load(body, "stream", 4, seconds=seconds, ramp_ms=400))
            row.note(server.peer.name, result)
            if result.requests:
                figures.append(result.first_delta_p50_us)
        if len(figures) == 2:
            row.add(server.peer.name, (figures[1] - figures[0]) / 1000)
    return row


def start_and_idle(bench: Bench, unavailable: dict[str, str]) -> list[Row]:
    """Starts every server, best of a few times; leaves them running and paused, drops those that do not work."""
    start = Row("start", "start to first answer", "s")
    idle = Row("idle", "idle memory after the first answer", "MiB")
    for server in list(bench.servers):
        name = server.peer.name
        progress(f"starting {server.peer.title}")
        target = server.peer.target(paced=False)
        body = small_request(target.model, stream=False)
        times: list[float] = []
        try:
            for _ in range(min(2, bench.plan.starts) if server.peer.slow else bench.plan.starts):
                server.process.stop()
                times.append(start_and_time(server.process, target, body))
        except BenchError as error:
            server.process.stop()
            bench.servers.remove(server)
            unavailable[name] = f"did not start: {error}"
            continue
        time.sleep(1)
        start.add(name, min(times))
        idle.add(name, server.process.rss_kib() / 1024)
        server.process.pause()
    return [start, idle]


def memory_growth(bench: Bench) -> Row:
    """Resident memory per request over 20,000 streams, as the slope of a line through eleven points."""
    row = Row("growth", "memory growth over 20,000 requests", "MiB")
    for server in bench.servers:
        if server.peer.slow:
            continue
        target = server.peer.target(paced=False)
        step = GROWTH_REQUESTS // GROWTH_STEPS
        load = Load(small_request(target.model, stream=True), "stream", 64, requests=step)
        with server.process.awake():
            for _ in range(2):
                row.note(server.peer.name, run_load(target, load))
            points = [(0, server.process.rss_kib())]
            for number in range(1, GROWTH_STEPS + 1):
                row.note(server.peer.name, run_load(target, load))
                points.append((number * step, server.process.rss_kib()))
        progress(f"  {server.peer.title}: {points[0][1]} KiB before, {points[-1][1]} KiB after")
        slope = statistics.linear_regression([x for x, _ in points], [y for _, y in points]).slope
        row.add(server.peer.name, slope * GROWTH_REQUESTS / 1024)
    return row


def harness_limit(bench: Bench) -> dict[str, float]:
    """Requests per second of upstream and load generator alone, both on the one core they share."""
    target = bench.upstream.direct(paced=False)
    limits: dict[str, float] = {}
    for key, mode, wish in (("stream", "stream", ""), ("flow", "stream", FLOW), ("plain", "json", "")):
        body = small_request(target.model, stream=mode == "stream", wish=wish)
        limits[key] = run_load(target, Load(body, mode, 64, seconds=1.0)).rps
    return limits


LOADED: tuple[Callable[[Bench], Row], ...] = (
    memory_growth,
    stream_64,
    flow_64,
    plain_64,
    agent_16,
    added_ttfb_4,
    paced_512,
)
