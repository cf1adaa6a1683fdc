"""Scenarios with long conversations: agent requests, CPU time per kB of history, and memory."""

import time
from collections.abc import Callable, Sequence
from itertools import count

from agent_request import LINES, chat_request, messages_request
from peers import CHAT_TO_ANTHROPIC, CHAT_TO_OPENAI, MESSAGES_TO_ANTHROPIC, ROUTES, Route
from procs import Load, run_load
from scenarios import Bench, Row, Server, encode, measure, progress

KEYS = {CHAT_TO_ANTHROPIC: "chat", MESSAGES_TO_ANTHROPIC: "messages", CHAT_TO_OPENAI: "openai"}
"""The name of each route in the keys of rows."""

CONCURRENT = 16
AGENT_BATCHES = 3
AGENT_TURNS = range(8, 18)
"""Numbers of turns in the requests of a growing conversation, from 62 to 95 kB. The first request is not measured."""
SMALL, MEDIUM, LARGE = 0, 368, 1045
"""Numbers of turns in requests of 32 kB, 1.4 MB and 4 MB."""
GROWING_STEPS = 3
MEMORY_CONVERSATIONS = 500
MEMORY_TURNS, MEMORY_LINES = 40, 2
"""The number of turns in a request of 79 kB, and the lines of each of their tool results."""

_numbers = count(1, 10_000)
"""Numbers of the first conversation of each load. They are far apart, so that no conversation occurs twice."""


def _bodies(model: str, route: Route, turns: Sequence[int], lines: int = LINES) -> tuple[bytes, ...]:
    request = chat_request if route.client == "chat" else messages_request
    return tuple(encode(request(model, number, lines)) for number in turns)


# ── Agent requests ──


def agent_row(route: Route) -> Callable[[Bench], Row]:
    """Return a scenario with 16 concurrent conversations, each of which grows by one turn with every request."""

    def scenario(bench: Bench) -> Row:
        title = f"agent request of 79 kB, growing conversation, {route.title}"
        row = Row(f"agent {KEYS[route]}", title, "requests/s", "request")
        _warm_up(bench, route)
        for server in bench.turns(bench.plan.rounds, bench.plan.slow_rounds, route):
            for _ in range(1 if server.peer.slow else AGENT_BATCHES):
                _grow(row, server, route, AGENT_TURNS, CONCURRENT)
        return row

    return scenario


def _warm_up(bench: Bench, route: Route) -> None:
    for server in bench.turns(1, 1, route):
        _grow(Row("", "", "", "request"), server, route, AGENT_TURNS[:3], CONCURRENT)


def _grow(row: Row, server: Server, route: Route, turns: Sequence[int], conversations: int) -> None:
    """Send the first request of each conversation, then measure the requests that follow."""
    target, first = server.target(route), next(_numbers)
    begin, *steps = _bodies(target.model, route, turns)

    def load(bodies: Sequence[bytes]) -> Load:
        return Load(
            tuple(bodies),
            "stream",
            min(CONCURRENT, conversations),
            conversations=conversations,
            first_conversation=first,
        )

    row.note(server.peer.name, run_load(target, load([begin])))
    measure(row, server, target, load(steps), lambda result: result.rps)


# ── CPU time per kB ──


def first_seen_row(route: Route) -> Callable[[Bench], Row]:
    """Return a scenario that measures the CPU time per kB of a history that the server has not seen before."""

    def scenario(bench: Bench) -> Row:
        row = Row(f"first {KEYS[route]}", f"CPU per kB of history, first seen, 32 kB to 1.4 MB, {route.title}", "µs/kB")
        for server in bench.turns(_per_kb_rounds(bench), 0, route):
            times = [_cpu_us(row, server, route, [turns], requests) for turns, requests in ((SMALL, 160), (MEDIUM, 16))]
            row.add(server.peer.name, (times[1] - times[0]) / _extra_kb(server, route, MEDIUM))
        return row

    return scenario


def growing_row(route: Route, largest: int, size: str) -> Callable[[Bench], Row]:
    """Return a scenario that measures the CPU time per kB of a history that grows by one turn with every request.

    `largest` is the number of turns of the largest history, and `size` its size as text.
    """

    def scenario(bench: Bench) -> Row:
        title = f"CPU per kB of history, growing by one turn, 32 kB to {size}, {route.title}"
        row = Row(f"growing {KEYS[route]} {size}", title, "µs/kB")
        for server in bench.turns(_per_kb_rounds(bench), 0, route):
            times = []
            for turns, conversations in ((SMALL, 16), (largest, 2)):
                steps = range(turns, turns + GROWING_STEPS + 1)
                times.append(_cpu_us(row, server, route, steps, conversations))
            row.add(server.peer.name, (times[1] - times[0]) / _extra_kb(server, route, largest))
        return row

    return scenario


def _per_kb_rounds(bench: Bench) -> int:
    return min(3, bench.plan.rounds)


def _cpu_us(row: Row, server: Server, route: Route, turns: Sequence[int], conversations: int) -> float:
    """Return the CPU time per request, in µs.

    If `turns` has several numbers, the conversations grow, and their first requests are not measured.
    """
    sample = Row("", "", "", "request")
    if len(turns) > 1:
        _grow(sample, server, route, turns, conversations)
    else:
        target = server.target(route)
        load = Load(
            _bodies(target.model, route, turns),
            "stream",
            4,
            conversations=conversations,
            first_conversation=next(_numbers),
        )
        measure(sample, server, target, load, lambda result: result.rps)
    name = server.peer.name
    row.fail(name, sample.errors.get(name, 0), sample.first_error.get(name, ""))
    return sample.cpu_us.get(name, [0.0])[0]


def _extra_kb(server: Server, route: Route, turns: int) -> float:
    """Return by how many kB a request with `turns` turns is larger than the smallest request."""
    small, large = _bodies(server.target(route).model, route, (SMALL, turns))
    return (len(large) - len(small)) / 1000


# ── Memory ──


def memory_row(route: Route) -> Callable[[Bench], Row]:
    """Return a scenario that measures by how much 500 interleaved conversations increase a new server's memory."""

    def scenario(bench: Bench) -> Row:
        steps = bench.plan.steps
        requests = MEMORY_CONVERSATIONS * steps
        title = f"memory above idle, 500 conversations to 79 kB, {requests:,} requests, {route.title}"
        row = Row(f"memory {KEYS[route]}", title, "MiB")
        turns = [MEMORY_TURNS * (step + 1) // steps for step in range(steps)]
        for server in bench.turns(1, 0, route):
            server.start()
            time.sleep(0.5)
            idle = server.process.rss_kib()
            target = server.target(route)
            load = Load(
                _bodies(target.model, route, turns, MEMORY_LINES),
                "stream",
                CONCURRENT,
                conversations=MEMORY_CONVERSATIONS,
                first_conversation=next(_numbers),
            )
            row.note(server.peer.name, run_load(target, load))
            row.add(server.peer.name, (server.process.rss_kib() - idle) / 1024)
            progress(f"  {server.peer.title}: {idle} KiB idle, {server.process.rss_kib()} KiB after")
        return row

    return scenario


CONVERSATIONS: dict[str, Callable[[Bench], Row]] = {
    **{f"agent requests, {route.title}": agent_row(route) for route in ROUTES},
    **{f"histories first seen, {route.title}": first_seen_row(route) for route in ROUTES},
    **{f"growing histories to 1.4 MB, {route.title}": growing_row(route, MEDIUM, "1.4 MB") for route in ROUTES},
    **{f"growing histories to 4 MB, {route.title}": growing_row(route, LARGE, "4 MB") for route in ROUTES},
    **{f"memory of conversations, {route.title}": memory_row(route) for route in ROUTES},
}
