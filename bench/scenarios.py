"""Scenarios with small requests, and those for memory and start-up. Each scenario returns rows of the table."""

import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from peers import (
    CHAT_TO_ANTHROPIC,
    CHAT_TO_OPENAI,
    CHAT_TO_RESPONSES,
    MESSAGES_TO_ANTHROPIC,
    PACED,
    RESPONSES_TO_ANTHROPIC,
    Peer,
    Route,
    Upstream,
)
from procs import SERVER_CORE, BenchError, Load, LoadResult, Process, Target, core_seconds, run_load, start_and_time

GROWTH_REQUESTS = 20_000
GROWTH_STEPS = 10


@dataclass(frozen=True)
class Plan:
    """The number and the length of the measurements."""

    rounds: int
    seconds: float
    slow_rounds: int
    slow_seconds: float
    warm_up: float
    starts: int
    steps: int
    """Number of requests of each of the 500 conversations in the memory scenario; 40 make 20,000 requests."""
    quick: bool = False


@dataclass
class Server:
    """A server under test, with its pinned process."""

    peer: Peer
    process: Process

    def target(self, route: Route) -> Target:
        """Return the address and model of a route. Raise BenchError if the server does not support the route."""
        target = self.peer.target(route)
        if target is None:
            raise BenchError(f"{self.peer.title} does not support {route.title}")
        return target

    def start(self) -> float:
        """Restart the server and return the number of seconds until its first complete answer."""
        self.process.stop()
        body = small_request(self.target(CHAT_TO_ANTHROPIC).model, stream=False)
        return start_and_time(self.process, lambda: self.target(CHAT_TO_ANTHROPIC), body)


@dataclass
class Row:
    """The measurements of one scenario: for each server, a list with one sample per round."""

    key: str
    title: str
    unit: str
    cpu_unit: str = ""
    samples: dict[str, list[float]] = field(default_factory=dict)
    cpu_us: dict[str, list[float]] = field(default_factory=dict)
    busy: dict[str, list[float]] = field(default_factory=dict)  # the share of the core that the server used
    others: dict[str, list[float]] = field(default_factory=dict)  # the share that other processes used
    errors: dict[str, int] = field(default_factory=dict)
    first_error: dict[str, str] = field(default_factory=dict)

    def add(self, name: str, value: float) -> None:
        self.samples.setdefault(name, []).append(value)

    def median(self, name: str) -> float | None:
        return statistics.median(self.samples[name]) if self.samples.get(name) else None

    def ratio(self, name: str, other: str) -> float | None:
        """Return the value of the server `name` divided by that of `other`, as the median over all rounds."""
        pairs = zip(self.samples.get(name, []), self.samples.get(other, []), strict=False)
        ratios = [mine / theirs for mine, theirs in pairs if theirs > 0]
        return statistics.median(ratios) if ratios else None

    def cpu_ratio(self, name: str, other: str) -> float | None:
        """Return the CPU time per request of `other` divided by that of `name`, as the median over all rounds."""
        pairs = zip(self.cpu_us.get(name, []), self.cpu_us.get(other, []), strict=False)
        ratios = [theirs / mine for mine, theirs in pairs if mine > 0]
        return statistics.median(ratios) if ratios else None

    def note(self, name: str, result: LoadResult) -> None:
        self.fail(name, result.errors, result.first_error)

    def fail(self, name: str, count: int, text: str) -> None:
        """Count `count` wrong answers of a server. `text` describes the first of them."""
        self.errors[name] = self.errors.get(name, 0) + count
        if count and text:
            self.first_error.setdefault(name, text)


@dataclass
class Bench:
    """The plan of the benchmark, the fake upstream and the servers under test."""

    plan: Plan
    upstream: Upstream
    servers: list[Server]
    cursor_runs: list[Server]

    def turns(
        self, rounds: int, slow_rounds: int, route: Route, servers: Sequence[Server] | None = None
    ) -> Iterator[Server]:
        """Yield each server that supports a route, once per round, in an order that changes with the round.

        All other servers are paused meanwhile. Slow servers take part in the first `slow_rounds` rounds only.
        """
        candidates = self.servers if servers is None else servers
        chosen = [server for server in candidates if server.peer.target(route) is not None]
        for number in range(rounds):
            shift = number % max(1, len(chosen))
            for server in chosen[shift:] + chosen[:shift]:
                if not server.peer.slow or number < slow_rounds:
                    with server.process.resumed():
                        server.process.check_alive()
                        yield server


def progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def start_paused(servers: list[Server], purpose: str, unavailable: dict[str, str]) -> None:
    """Start servers and pause them. Remove those that do not start. `purpose` contains `{}` for the server's title."""
    for server in list(servers):
        progress(f"starting Tieline for {purpose.format(server.peer.title)}")
        try:
            server.start()
            server.process.pause()
        except BenchError as error:
            server.process.stop()
            servers.remove(server)
            unavailable[server.peer.name] = f"did not start: {error}"


def encode(request: object) -> bytes:
    """Return a request as compact JSON, as clients send it."""
    return json.dumps(request, ensure_ascii=False, separators=(",", ":")).encode()


def small_request(model: str, *, stream: bool, client: str = "chat") -> bytes:
    """Return the body of a request with one short question, for the client's API."""
    question = "What does this function do, and where is it called from?"
    system = (
        "You are a helpful assistant. Answer in plain words and keep to the question that was asked. " * 4
    ).strip()
    user = {"role": "user", "content": question}
    request: dict[str, object] = {"model": model, "max_tokens": 1024, "temperature": 0.2, "stream": stream}
    if client == "responses":
        request["max_output_tokens"] = request.pop("max_tokens")
        return encode({**request, "store": False, "instructions": system, "input": [user]})
    if client == "chat":
        return encode({**request, "messages": [{"role": "system", "content": system}, user]})
    return encode({**request, "system": system, "messages": [user]})


def measure(row: Row, server: Server, target: Target, load: Load, value: Callable[[LoadResult], float]) -> LoadResult:
    """Run a load against one server. Record in `row` the value computed by `value`, the CPU time and the errors."""
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
    return result


def closed_loop(
    bench: Bench,
    row: Row,
    route: Route,
    mode: str,
    servers: Sequence[Server] | None = None,
    *,
    restart: bool = False,
) -> Row:
    """Measure a small request on 64 connections. Each connection repeats it as soon as the answer is complete.

    If `restart` is true, every round uses a fresh process: the same program differs by several percent between starts.
    """
    plan = bench.plan
    for server in bench.turns(plan.rounds, plan.slow_rounds, route, servers):
        if restart:
            server.start()
        target = server.target(route)
        body = small_request(target.model, stream=mode == "stream", client=route.client)
        run_load(target, Load((body,), mode, 64, seconds=plan.warm_up))
        seconds = plan.slow_seconds if server.peer.slow else plan.seconds
        measure(row, server, target, Load((body,), mode, 64, seconds=seconds), lambda result: result.rps)
    return row


def stream_row(key: str, route: Route) -> Callable[[Bench], Row]:
    """Return a scenario that measures streams of 50 deltas, 64 at a time."""

    def scenario(bench: Bench) -> Row:
        row = Row(key, f"stream, 64 concurrent, {route.title}", "requests/s", "request")
        return closed_loop(bench, row, route, "stream")

    return scenario


def plain_64(bench: Bench) -> Row:
    """Measure answers of 50 deltas without streaming, 64 at a time."""
    row = Row("plain", f"non-stream, 64 concurrent, {CHAT_TO_ANTHROPIC.title}", "requests/s", "request")
    return closed_loop(bench, row, CHAT_TO_ANTHROPIC, "json")


def paced_512(bench: Bench) -> Row:
    """Measure 512 concurrent streams with 10 ms between deltas. A stream that takes over 10 s counts as an error."""
    row = Row("paced", "512 streams, 10 ms between deltas", "deltas/s", "delta")
    for server in bench.turns(min(3, bench.plan.rounds), 1, PACED):
        target = server.target(PACED)
        body = small_request(target.model, stream=True)
        load = Load((body,), "stream", 512, seconds=max(2.0, bench.plan.seconds), ramp_ms=500, grace_s=10.0)
        measure(row, server, target, load, lambda result: result.deltas_per_s)
    return row


def added_ttfb_4(bench: Bench) -> Row:
    """Measure by how many milliseconds a server delays the first delta, with 4 concurrent paced streams."""
    row = Row("ttfb", "added time to first byte, 4 streams", "ms")
    seconds = max(1.5, bench.plan.seconds)
    for server in bench.turns(min(3, bench.plan.rounds), 2, PACED):
        times: list[int] = []
        for target in (bench.upstream.direct(PACED), server.target(PACED)):
            body = small_request(target.model, stream=True)
            result = run_load(target, Load((body,), "stream", 4, seconds=seconds, ramp_ms=400))
            row.note(server.peer.name, result)
            if result.requests:
                times.append(result.first_delta_p50_us)
        if len(times) == 2:
            row.add(server.peer.name, (times[1] - times[0]) / 1000)
    return row


def start_and_idle(bench: Bench, unavailable: dict[str, str]) -> list[Row]:
    """Start every server a few times. Return rows with the best start-up times and the idle memory.

    Servers are left paused. A server that does not start is removed and added to `unavailable`.
    """
    start = Row("start", "start to first answer", "s")
    idle = Row("idle", "idle memory after the first answer", "MiB")
    for server in list(bench.servers):
        name = server.peer.name
        progress(f"starting {server.peer.title}")
        starts = min(2, bench.plan.starts) if server.peer.slow else bench.plan.starts
        try:
            times = [server.start() for _ in range(starts)]
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
    """Measure the growth of resident memory over 20,000 small streams, by linear regression over eleven points."""
    row = Row("growth", "memory growth over 20,000 small requests", "MiB")
    for server in bench.servers:
        if server.peer.slow:
            continue
        target = server.target(CHAT_TO_ANTHROPIC)
        step = GROWTH_REQUESTS // GROWTH_STEPS
        load = Load((small_request(target.model, stream=True),), "stream", 64, requests=step)
        with server.process.resumed():
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
    """Return the requests per second that the load generator reaches without a gateway, by kind of request."""
    target = bench.upstream.direct(CHAT_TO_ANTHROPIC)
    limits: dict[str, float] = {}
    for key, mode in (("stream", "stream"), ("plain", "json")):
        body = small_request(target.model, stream=mode == "stream")
        limits[key] = run_load(target, Load((body,), mode, 64, seconds=1.0)).rps
    return limits


SCENARIOS: dict[str, Callable[[Bench], Row]] = {
    "streams, Chat to Anthropic": stream_row("stream", CHAT_TO_ANTHROPIC),
    "answers without streaming": plain_64,
    "streams, Messages to Anthropic": stream_row("stream messages", MESSAGES_TO_ANTHROPIC),
    "streams, Chat to OpenAI": stream_row("stream openai", CHAT_TO_OPENAI),
    "streams, Responses to Anthropic": stream_row("stream responses", RESPONSES_TO_ANTHROPIC),
    "streams, Chat to a Responses upstream": stream_row("stream to responses", CHAT_TO_RESPONSES),
}
FULL_SCENARIOS: dict[str, Callable[[Bench], Row]] = {
    "memory growth": memory_growth,
    "time to first byte": added_ttfb_4,
    "paced streams": paced_512,
}
"""Scenarios that a quick run omits."""
