"""Scenarios with the turns of one Responses conversation: over HTTP, and over a WebSocket.

Over HTTP, each request repeats the whole conversation, as Codex sends it. Over a WebSocket, each request refers to the
previous response and contains only the new message. Clients are written in Python: only the server's CPU time counts.
"""

import http.client
import json
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from typing import Any

from websockets.sync.client import connect

from peers import RESPONSES_TO_ANTHROPIC
from procs import BenchError, Target
from scenarios import Bench, Row, Server

TURNS = 100
TIMEOUT_S = 10.0
CODE = "    total += len(part.text) + OVERHEAD  # an estimate is enough here\n" * 10
"""A part of every message, which thus has 780 bytes, as in the other conversations."""

Answer = Callable[[list[Any], str | None], dict[str, Any]]
"""Sends a request with these items, which continues the response with this id; returns the complete response."""


@contextmanager
def _over_http(target: Target) -> Iterator[Answer]:
    history: list[Any] = []
    with closing(http.client.HTTPConnection("127.0.0.1", target.port, timeout=TIMEOUT_S)) as connection:

        def answer(items: list[Any], _: str | None) -> dict[str, Any]:
            history.extend(items)
            body = json.dumps({**_request(target), "input": history})
            connection.request("POST", target.path, body, {**target.headers, "content-type": "application/json"})
            events = connection.getresponse().read().decode().split("\n\n")
            response = _completed(next((event for event in reversed(events) if event), ""))
            history.extend(response["output"])
            return response

        yield answer


@contextmanager
def _over_websocket(target: Target) -> Iterator[Answer]:
    address = f"ws://127.0.0.1:{target.port}{target.path}"
    with connect(address, additional_headers=target.headers, compression=None) as socket:

        def answer(items: list[Any], previous: str | None) -> dict[str, Any]:
            request = {"type": "response.create", **_request(target), "input": items, "previous_response_id": previous}
            socket.send(json.dumps(request))
            while True:
                text = str(socket.recv(timeout=TIMEOUT_S))
                if not text.startswith('{"type":"response.') or text.startswith('{"type":"response.completed"'):
                    return _completed(f"data: {text}")

        yield answer


def _request(target: Target) -> dict[str, Any]:
    return {"model": target.model, "store": False, "stream": True, "instructions": "Answer briefly."}


def _completed(event: str) -> dict[str, Any]:
    """Return the response in the last event of a stream. Raise BenchError if the stream ended in another way."""
    data = event.partition("data: ")[2]
    last = json.loads(data) if data else {}
    if last.get("type") != "response.completed":
        raise BenchError(f"a response did not complete: {event[:200]}")
    response: dict[str, Any] = last["response"]
    return response


TRANSPORTS = {"http": ("HTTP", _over_http), "websocket": ("WebSocket", _over_websocket)}


def response_turns(bench: Bench) -> list[Row]:
    """Measure conversations of 100 turns over each transport, alternately. Return a row for each transport."""
    rows = {
        name: Row(f"turns {name}", f"turn of a Responses conversation of {TURNS} turns, {title}", "turns/s", "turn")
        for name, (title, _) in TRANSPORTS.items()
    }
    servers = [server for server in bench.servers if server.peer.name == "tieline"]
    for server in bench.turns(bench.plan.rounds, 1, RESPONSES_TO_ANTHROPIC, servers):
        for name, (_, transport) in TRANSPORTS.items():
            _measure(rows[name], server, transport)
    return list(rows.values())


def _measure(row: Row, server: Server, transport: Callable[[Target], AbstractContextManager[Answer]]) -> None:
    process, name = server.process, server.peer.name
    with transport(server.target(RESPONSES_TO_ANTHROPIC)) as answer:
        cpu_before, began = process.cpu_seconds(), time.monotonic()
        _converse(answer)
        row.add(name, TURNS / (time.monotonic() - began))
        row.cpu_us.setdefault(name, []).append((process.cpu_seconds() - cpu_before) / TURNS * 1e6)


def _converse(answer: Answer) -> None:
    previous = None
    for number in range(TURNS):
        content = f"Question {number}: what does this function do, and who calls it? {CODE}"
        message = {"type": "message", "role": "user", "content": content}
        previous = str(answer([message], previous)["id"])
