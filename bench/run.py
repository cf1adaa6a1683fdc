"""Compare Tieline with a plain proxy and with other gateways on one core."""

import argparse
import contextlib
import json
import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import acp_runs
import report
import teams
from conversations import CONVERSATIONS
from cursor_runs import measure_cursor_runs
from peers import CURSOR_RUNS, PEERS, Peer, Upstream
from procs import BUILD, LOAD_CORE, PACE_MS, SERVER_CORE, BenchError, Process, check_machine, compile_c, free_ports
from response_turns import response_turns
from scenarios import FULL_SCENARIOS, SCENARIOS, Bench, Plan, Row, Server, harness_limit, progress, start_and_idle

FULL = Plan(rounds=5, seconds=2.0, slow_rounds=3, slow_seconds=3.0, warm_up=0.5, starts=3, steps=40)
QUICK = Plan(rounds=3, seconds=0.7, slow_rounds=1, slow_seconds=1.5, warm_up=0.3, starts=3, steps=8, quick=True)
QUICK_PEERS = "tieline,nginx"


def parse_args() -> argparse.Namespace:
    names = ",".join(peer.name for peer in PEERS)
    parser = argparse.ArgumentParser(prog="bench/run.py", description=__doc__)
    parser.add_argument("--rounds", type=int, metavar="N", help=f"interleaved rounds (default {FULL.rounds})")
    parser.add_argument("--only", metavar="PEERS", help=f"comma-separated choice of {names}")
    parser.add_argument("--quick", action="store_true", help=f"a shorter run with {QUICK_PEERS} only")
    parser.add_argument("--install", action="store_true", help="install the peers that are missing")
    return parser.parse_args()


def choose_plan(args: argparse.Namespace) -> Plan:
    plan = QUICK if args.quick else FULL
    if args.rounds is None:
        return plan
    if args.rounds < 1:
        raise BenchError("--rounds must be at least 1")
    return Plan(**{**asdict(plan), "rounds": args.rounds, "slow_rounds": min(args.rounds, plan.slow_rounds)})


def choose_peers(only: str | None) -> list[Peer]:
    known = {peer.name: peer for peer in PEERS}
    wanted = [name.strip() for name in only.split(",")] if only else list(known)
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise BenchError(f"unknown peer {', '.join(unknown)}; choose from {', '.join(known)}")
    return [peer for peer in PEERS if peer.name in wanted]


def find_versions(peers: list[Peer], unavailable: dict[str, str], *, install: bool) -> dict[str, str]:
    """Return the version of every installed peer, by name. Add the others to `unavailable`, with the reason."""
    versions: dict[str, str] = {}
    for peer in peers:
        version = peer.version()
        if version is None and install:
            progress(f"installing {peer.title}")
            try:
                peer.install()
                version = peer.version()
            except (OSError, subprocess.CalledProcessError) as error:
                progress(f"  failed: {error}")
        if version is None:
            unavailable[peer.name] = "not installed" + ("" if install else ": --install installs what is missing")
        else:
            versions[peer.name] = version
    return versions


def start_upstream(stack: contextlib.ExitStack) -> Upstream:
    burst, paced = free_ports(2)
    command = [str(compile_c("upstream")), str(burst), str(paced), str(PACE_MS)]
    process = Process("upstream", command, LOAD_CORE)
    stack.callback(process.stop)
    process.start()
    for _ in range(200):
        time.sleep(0.01)
        process.check_alive()
        if process.log.read_bytes().startswith(b"ready"):
            return Upstream(burst, paced)
    raise BenchError("the fake upstream did not start")


def make_servers(peers: Sequence[Peer], upstream: Upstream, stack: contextlib.ExitStack) -> list[Server]:
    servers: list[Server] = []
    for peer, port in zip(peers, free_ports(len(peers)), strict=True):
        peer.place(port, upstream)
        launch = peer.launch()
        process = Process(peer.name, launch.command, SERVER_CORE, launch.env)
        stack.callback(process.stop)
        servers.append(Server(peer, process))
    return servers


def processor() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()


def measure(bench: Bench, unavailable: dict[str, str]) -> list[Row]:
    start_rows = start_and_idle(bench, unavailable)
    scenarios = {**SCENARIOS, **CONVERSATIONS}
    if not bench.plan.quick:
        scenarios |= FULL_SCENARIOS
    rows: list[Row] = []
    for title, scenario in scenarios.items():
        progress(f"measuring: {title}")
        rows.append(scenario(bench))
    progress("measuring: Responses conversations")
    return rows + response_turns(bench) + start_rows


def run(args: argparse.Namespace) -> int:
    check_machine()
    plan, peers = choose_plan(args), choose_peers(args.only or (QUICK_PEERS if args.quick else None))
    is_full = not plan.quick
    os.sched_setaffinity(0, {LOAD_CORE})
    for program in ("upstream", "load", "acp_agent", "acp_load"):
        compile_c(program)
    unavailable: dict[str, str] = {}
    versions = find_versions(peers, unavailable, install=args.install)
    began, load_average = time.monotonic(), os.getloadavg()[0]
    with contextlib.ExitStack() as stack:
        upstream = start_upstream(stack)
        servers = make_servers([peer for peer in peers if peer.name in versions], upstream, stack)
        has_subject = report.SUBJECT in versions
        cursor_runs = make_servers(CURSOR_RUNS if has_subject and is_full else (), upstream, stack)
        bench = Bench(plan, upstream, servers, cursor_runs)
        limits = harness_limit(bench)
        rows = measure(bench, unavailable)
        key_rows: list[Row] = []
        if has_subject:
            team = stack.enter_context(teams.team_peers(unavailable))
            keyed, replicas = (make_servers(peers, upstream, stack) for peers in (team.keyed, team.replicas))
            key_rows = teams.measure_keyed_requests(bench, keyed, unavailable)
            key_rows += teams.measure_forwarding(replicas, unavailable)
        cursor_rows = measure_cursor_runs(bench, unavailable)
        agent_rows = acp_runs.measure_agent_runs(plan, unavailable) if has_subject and is_full else []
    took = time.monotonic() - began

    named = ", ".join(f"{peer.title} {versions[peer.name]}" for peer in peers if peer.name in versions)
    print(f"50 deltas per answer; the upstream writes each delta separately. {time.strftime('%Y-%m-%d')}.")
    print(f"{named or 'no servers'}; Python {platform.python_version()}; {processor()}, every server on one core.")
    print(f"Median of {plan.rounds} interleaved round(s), {took:.0f} s in all. Upstream and load generator alone:")
    print(f"{limits['stream']:,.0f} streams/s, {limits['plain']:,.0f} answers/s without streaming.\n")
    show(rows, key_rows, cursor_rows, agent_rows, peers, unavailable, load_average)
    every_row = [*rows, *key_rows, *cursor_rows, *agent_rows]
    record = {
        "date": time.strftime("%Y-%m-%dT%H:%M:%S"),
        "processor": processor(),
        "python": platform.python_version(),
        "versions": versions,
        "unavailable": unavailable,
        "plan": asdict(plan),
        "seconds": round(took, 1),
        "load_average": load_average,
        "harness_rps": limits,
        "rows": [asdict(row) for row in every_row],
    }
    (BUILD / "last.json").write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    ours = (report.SUBJECT, acp_runs.AGENT_RUNS.name, *teams.TITLES, *(peer.name for peer in CURSOR_RUNS))
    return 1 if any(row.errors.get(name) for row in every_row for name in ours) else 0


def show(
    rows: list[Row],
    key_rows: list[Row],
    cursor_rows: list[Row],
    agent_rows: list[Row],
    peers: list[Peer],
    unavailable: dict[str, str],
    load_average: float,
) -> None:
    """Print all tables, each with its floors or goals, and the remarks."""
    titles = {peer.name: peer.title for peer in peers}
    runs = {peer.name: peer.title for peer in CURSOR_RUNS}
    print(report.figures(rows, titles, unavailable))
    print()
    print("Floors: nginx's CPU time per request divided by Tieline's, or an absolute value.\n")
    print(report.floors(rows, {name: title for name, title in titles.items() if name not in unavailable}))
    notes = report.remarks(rows, titles | runs | acp_runs.TITLES, unavailable)
    if key_rows:
        key_titles = {report.SUBJECT: "no keys", **teams.TITLES}
        print("\nThe same gateway without keys, and with a key that has limits and whose usage is recorded; and runs")
        print("that are resumed at the replica that holds them, or at another one.\n")
        print(report.figures(key_rows, key_titles, unavailable))
        print()
        print(report.key_goals(key_rows, key_titles))
        notes += report.remarks(key_rows, key_titles, {})
    if cursor_rows:
        run_titles = {report.SUBJECT: "Anthropic path", **runs}
        print("\nChat Completions in, a Cursor run behind it; the same gateway, the same text.\n")
        print(report.figures(cursor_rows, run_titles, unavailable))
        print()
        print(report.cursor_goals(cursor_rows, run_titles))
        notes += report.remarks(cursor_rows, run_titles, {})
    if agent_rows:
        print("\nChat Completions in, a coding agent behind it; 50 chunks per turn, 10 ms apart by default.\n")
        print(report.figures(agent_rows, acp_runs.TITLES, unavailable))
        print()
        print(report.agent_goals(agent_rows, acp_runs.TITLES))
        notes += report.remarks(agent_rows, acp_runs.TITLES, {})
    if load_average > 0.5:
        notes.append(f"the load average was {load_average:.1f} at the start: the machine was shared, so this is rough")
    print("".join(f"\n- {note}" for note in notes))


def _terminated(*_: object) -> None:
    raise KeyboardInterrupt


def main() -> int:
    signal.signal(signal.SIGTERM, _terminated)
    try:
        return run(parse_args())
    except BenchError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("bench: interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
