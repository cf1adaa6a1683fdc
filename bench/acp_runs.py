"""Scenarios with coding agents: the delay that the gateway adds to a chunk, turns per second, and idle sessions."""

import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from peers import CHAT_PATH, CHAT_TO_ANTHROPIC, PACED, Launch, Route, Tieline
from procs import (
    BUILD,
    LOAD_CORE,
    PACE_MS,
    SERVER_CORE,
    BenchError,
    Load,
    Process,
    Target,
    compile_c,
    core_seconds,
    free_ports,
    run_load,
    start_and_time,
)
from scenarios import Plan, Row, Server, progress, small_request

SESSIONS = 16
IDLE = 100
PACES_US = {"paced": PACE_MS * 1000, "burst": 0}
DIRECT = "agent"
"""The name in the rows for the agent without a gateway."""


class AgentRuns(Tieline):
    """Tieline with the benchmark's own coding agent, which runs on the core of the load generator."""

    name = "tieline-acp"
    title = "through Tieline"
    state = BUILD / "acp-state"

    def launch(self) -> Launch:
        launch = super().launch()
        return Launch(launch.command, {**launch.env, "XDG_STATE_HOME": str(self.state)})

    def backends(self) -> str:
        text = f'\n[acp]\nworkspace = "{BUILD}"\n'
        for agent, pace in PACES_US.items():
            command = ["taskset", "-c", str(LOAD_CORE), str(compile_c("acp_agent")), str(pace)]
            text += f"\n[acp.agents.{agent}]\ncommand = {json.dumps(command)}\n"
        return text

    def target(self, route: Route) -> Target | None:
        return Target(self.port, CHAT_PATH, "acp/paced" if route.paced else "acp/burst", {})


AGENT_RUNS = AgentRuns()
TITLES = {DIRECT: "the agent directly", AGENT_RUNS.name: AGENT_RUNS.title}


@dataclass(frozen=True)
class Ages:
    """The results of one run of acp_load. The age of a chunk is the time from its creation to its arrival."""

    turns: int
    errors: int
    chunks: int
    turns_per_s: float
    age_p50_us: int
    age_p99_us: int
    age_max_us: int
    first_error: str


def measure_agent_runs(plan: Plan, unavailable: dict[str, str]) -> list[Row]:
    """Measure all scenarios with coding agents and return their rows; no rows if the gateway does not work."""
    progress("measuring: coding agents")
    AGENT_RUNS.place(free_ports(1)[0], AGENT_RUNS.upstream)
    launch = AGENT_RUNS.launch()
    server = Server(AGENT_RUNS, Process(AGENT_RUNS.name, launch.command, SERVER_CORE, launch.env))
    try:
        with _running(server):
            rows = [*relay(plan, server), turns_at_once(plan, server)]
        return [*rows, idle_sessions(plan, server)]
    except BenchError as error:
        unavailable[AGENT_RUNS.name] = f"did not work: {error}"
        return []


def relay(plan: Plan, server: Server) -> list[Row]:
    """Measure the age of chunks on arrival, with and without the gateway in turn, and the difference."""
    typical = Row("acp typical", f"age of a chunk on arrival, median, {SESSIONS} sessions", "ms")
    worst = Row("acp worst", f"age of a chunk on arrival, 99th percentile, {SESSIONS} sessions", "ms", "chunk")
    added = Row("acp added", f"added to the 99th percentile, {SESSIONS} sessions", "ms")
    _read(server, plan.warm_up, paced=True)
    for _ in range(plan.rounds):
        direct = _read(None, plan.seconds, paced=True)
        relayed = _measured(worst, server, plan.seconds, paced=True)
        for name, ages in ((DIRECT, direct), (AGENT_RUNS.name, relayed)):
            typical.add(name, ages.age_p50_us / 1000)
            worst.add(name, ages.age_p99_us / 1000)
            worst.fail(name, ages.errors, ages.first_error)
        added.add(AGENT_RUNS.name, (relayed.age_p99_us - direct.age_p99_us) / 1000)
        added.fail(AGENT_RUNS.name, relayed.errors, "")
    return [typical, worst, added]


def turns_at_once(plan: Plan, server: Server) -> Row:
    """Measure how many turns per second are possible if the agent writes all 50 chunks of a turn at once."""
    row = Row("acp turns", f"turns of 50 chunks written at once, {SESSIONS} sessions", "turns/s", "turn")
    _read(server, plan.warm_up, paced=False)
    for _ in range(plan.rounds):
        direct = _read(None, plan.seconds, paced=False)
        relayed = _measured(row, server, plan.seconds, paced=False)
        for name, ages in ((DIRECT, direct), (AGENT_RUNS.name, relayed)):
            row.add(name, ages.turns_per_s)
            row.fail(name, ages.errors, ages.first_error)
    return row


def idle_sessions(plan: Plan, server: Server) -> Row:
    """Measure the resident memory that each further session adds to the gateway, after one turn in each session."""
    row = Row("acp idle", f"memory per idle session, {IDLE} in one agent", "KiB")
    target = server.target(PACED)
    body = small_request(target.model, stream=True)
    for _ in range(min(3, plan.rounds)):
        with _running(server):
            first = server.process.rss_kib()
            result = run_load(target, Load((body,), "stream", SESSIONS, requests=IDLE))
            row.add(AGENT_RUNS.name, (server.process.rss_kib() - first) / IDLE)
            row.note(AGENT_RUNS.name, result)
    return row


@contextmanager
def _running(server: Server) -> Iterator[None]:
    """Start a gateway without stored sessions, run one turn, and stop the gateway after the `with` block."""
    shutil.rmtree(AGENT_RUNS.state, ignore_errors=True)
    body = small_request(server.target(PACED).model, stream=False)
    try:
        start_and_time(server.process, lambda: server.target(PACED), body)
        yield
    finally:
        server.process.stop()


def _measured(row: Row, server: Server, seconds: float, *, paced: bool) -> Ages:
    """Run acp_load once through the gateway, and record the gateway's CPU time in `row`."""
    cpu_before, core_before, began = server.process.cpu_seconds(), core_seconds(SERVER_CORE), time.monotonic()
    ages = _read(server, seconds, paced=paced)
    cpu, wall = server.process.cpu_seconds() - cpu_before, time.monotonic() - began
    core, name = core_seconds(SERVER_CORE) - core_before, server.peer.name
    row.busy.setdefault(name, []).append(cpu / wall)
    row.others.setdefault(name, []).append(max(0.0, core - cpu) / wall)
    count = ages.chunks if row.cpu_unit == "chunk" else ages.turns
    if count:
        row.cpu_us.setdefault(name, []).append(cpu / count * 1e6)
    return ages


def _read(server: Server | None, seconds: float, *, paced: bool) -> Ages:
    """Run acp_load once: through a gateway, or directly with an agent if `server` is None."""
    command = ["taskset", "-c", str(LOAD_CORE), str(compile_c("acp_load"))]
    command += ["--sessions", str(SESSIONS), "--seconds", str(seconds)]
    if server is None:
        pace = PACES_US["paced" if paced else "burst"]
        command += ["--agent", str(compile_c("acp_agent")), "--pace", str(pace)]
    else:
        target, body = server.target(PACED if paced else CHAT_TO_ANTHROPIC), BUILD / "body.json"
        body.write_bytes(small_request(target.model, stream=True))
        command += ["--port", str(target.port), "--path", target.path, "--body", str(body)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 60, check=False)
    if done.returncode:
        raise BenchError(f"acp_load failed: {done.stderr.strip()}")
    return Ages(**json.loads(done.stdout))
