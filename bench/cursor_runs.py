"""Scenarios with Cursor runs: their speed, the cost of parked runs, and whether a tool loop stays in one run."""

import json
import time
from typing import Any

from agent_request import chat_request
from peers import CHAT_TO_ANTHROPIC
from procs import Load, fetch, has_all_text, run_load
from scenarios import Bench, Row, Server, closed_loop, progress, small_request, start_paused

PARKED = 1000
PARKED_AGENTS = 200
CALLS = 5
TURNS = 20
HEARTBEAT_S = 5.0
EXEC_HEARTBEAT_S = 3.0
QUIET_S = 5.0
BUSY_S = 10.0
"""QUIET_S + BUSY_S is a multiple of both heartbeat intervals, so the same number is due from every run."""
TOOL = {
    "type": "function",
    "function": {
        "name": "bench_tool",
        "description": "Reads a file.",
        "parameters": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
    },
}
"""A tool that the fake upstream calls if the request offers it."""


def measure_cursor_runs(bench: Bench, unavailable: dict[str, str]) -> list[Row]:
    """Measure all scenarios with Cursor runs, and return their rows. Transports that do not work are left out."""
    start_paused(bench.cursor_runs, "runs over {}", unavailable)
    rows: list[Row] = []
    if bench.cursor_runs:
        progress("measuring: Cursor runs")
        rows = [runs_64(bench), tool_loop(bench), *parked_runs(bench), parked_agents(bench)]
    return rows


def runs_64(bench: Bench) -> Row:
    """Measure streamed runs of 50 deltas, 64 at a time, and for comparison the same text from Anthropic's API."""
    row = Row("runs", "run, stream, 64 concurrent", "requests/s", "request")
    servers = [server for server in bench.servers if server.peer.name == "tieline"] + bench.cursor_runs
    return closed_loop(bench, row, CHAT_TO_ANTHROPIC, "stream", servers)


def tool_loop(bench: Bench) -> Row:
    """Count the runs that the upstream sees for a turn in which the model calls a tool five times."""
    row = Row("loop", f"runs for a turn of {CALLS} calls", "runs")
    for server in bench.turns(1, 1, CHAT_TO_ANTHROPIC, bench.cursor_runs):
        name, before = server.peer.name, _counts(bench)["runs"]
        wrong = sum(not _is_good_turn(server) for _ in range(TURNS))
        row.add(name, (_counts(bench)["runs"] - before) / TURNS)
        row.fail(name, wrong, f"not {CALLS} calls, or not all of the text after them")
    return row


def parked_runs(bench: Bench) -> list[Row]:
    """Park 1,000 runs, which wait for a tool result. Measure memory, heartbeats and the latency of new requests."""
    memory = Row("parked memory", f"memory per parked run, {PARKED:,} parked", "KiB")
    beats = Row("parked beats", f"heartbeats of {PARKED:,} parked runs, of those due", "%")
    share = Row("parked share", f"share of a core that {PARKED:,} parked runs take", "%")
    alone = Row("first byte alone", "first byte, none parked", "ms")
    among = Row("first byte among", f"first byte, {PARKED:,} parked", "ms")
    times = Row("parked first byte", f"first byte, {PARKED:,} parked, against none", "×")
    for server in bench.turns(min(3, bench.plan.rounds), 1, CHAT_TO_ANTHROPIC, bench.cursor_runs):
        name = server.peer.name
        server.start()
        run_load(server.target(CHAT_TO_ANTHROPIC), Load((_body(server),), "stream", 64, seconds=bench.plan.warm_up))
        alone.add(name, _first_byte(alone, server))
        memory.add(name, _park(memory, server, with_tool(server, stream=True), PARKED))
        began, before = time.monotonic(), _counts(bench)
        share.add(name, _share_when_quiet(server))
        among.add(name, _first_byte(among, server))
        beats.add(name, 100 * _kept(before, _counts(bench), time.monotonic() - began))
        if alone.samples[name][-1]:
            times.add(name, among.samples[name][-1] / alone.samples[name][-1])
        _expect_parked(beats, server, PARKED)
    return [memory, beats, share, alone, among, times]


def parked_agents(bench: Bench) -> Row:
    """Measure the memory of a parked run whose request has the history and the tools of a coding agent."""
    row = Row("parked agents", "memory per parked run with an agent's request of 79 kB", "KiB")
    for server in bench.turns(1, 1, CHAT_TO_ANTHROPIC, bench.cursor_runs):
        server.start()
        request = chat_request(server.target(CHAT_TO_ANTHROPIC).model)
        request["tools"] = [TOOL, *request["tools"]]
        row.add(server.peer.name, _park(row, server, request, PARKED_AGENTS))
    return row


def _body(server: Server) -> bytes:
    return small_request(server.target(CHAT_TO_ANTHROPIC).model, stream=True)


def with_tool(server: Server, *, stream: bool) -> dict[str, Any]:
    """Return a request with a tool, which the fake upstream calls."""
    model = server.target(CHAT_TO_ANTHROPIC).model
    return {**json.loads(small_request(model, stream=stream)), "tools": [TOOL]}


def _counts(bench: Bench) -> dict[str, int]:
    """Return the numbers of runs and heartbeats that the upstream has counted so far."""
    counts: dict[str, int] = json.loads(fetch(bench.upstream.burst, "/counts") or b"{}")
    return counts


# ── a tool loop ──


def _is_good_turn(server: Server) -> bool:
    """Act as a client that runs the tool. Return whether the calls and the final answer are correct."""
    target, request = server.target(CHAT_TO_ANTHROPIC), with_tool(server, stream=False)
    calls = 0
    while True:
        answer = fetch(target.port, target.path, json.dumps(request).encode(), target.headers)
        message = json.loads(answer)["choices"][0]["message"] if answer else {}
        called = message.get("tool_calls")
        if not called:
            return calls == CALLS and answer is not None and has_all_text(answer)
        calls += len(called)
        results = [{"role": "tool", "tool_call_id": call["id"], "content": "one line"} for call in called]
        request["messages"] += [message, *results]


# ── parked runs ──


def _park(row: Row, server: Server, request: dict[str, Any], number: int) -> float:
    """Park `number` runs. Return the resident memory, in KiB, that each run after the first has added."""
    _send_and_leave(row, server, request, 1)
    first = server.process.rss_kib()
    _send_and_leave(row, server, request, number - 1)
    _expect_parked(row, server, number)
    return (server.process.rss_kib() - first) / (number - 1)


def _send_and_leave(row: Row, server: Server, request: dict[str, Any], number: int) -> None:
    """Send requests that are answered with a tool call, and never return a result, so that the runs stay parked."""
    load = Load((json.dumps(request).encode(),), "stream", min(16, number), requests=number, deltas=0)
    row.note(server.peer.name, run_load(server.target(CHAT_TO_ANTHROPIC), load))


def _expect_parked(row: Row, server: Server, number: int) -> None:
    """Record an error for each parked run that the gateway has lost."""
    metrics = fetch(server.peer.port, "/metrics") or b""
    parked = next(
        (int(line.split()[1]) for line in metrics.splitlines() if line.startswith(b"tieline_parked_runs ")), 0
    )
    row.fail(server.peer.name, abs(number - parked), f"{parked} runs were parked, not {number}")


def _share_when_quiet(server: Server) -> float:
    """Return the CPU use of the server in percent of a core while there are no requests."""
    cpu = server.process.cpu_seconds()
    time.sleep(QUIET_S)
    return 100 * (server.process.cpu_seconds() - cpu) / QUIET_S


def _first_byte(row: Row, server: Server) -> float:
    """Return the median time to the first byte of a new request, in ms, with one request at a time."""
    result = run_load(server.target(CHAT_TO_ANTHROPIC), Load((_body(server),), "stream", 1, seconds=BUSY_S))
    row.note(server.peer.name, result)
    return result.ttfb_p50_us / 1000


def _kept(before: dict[str, int], after: dict[str, int], seconds: float) -> float:
    """Return the share of due heartbeats that arrived. There are two kinds; return the lower share."""
    kinds = (("heartbeats", HEARTBEAT_S), ("exec_heartbeats", EXEC_HEARTBEAT_S))
    return min((after[kind] - before[kind]) * every / (seconds * PARKED) for kind, every in kinds)
