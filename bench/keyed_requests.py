"""Requests with a key that has limits and whose usage is recorded, compared with requests to a gateway without keys."""

from peers import CHAT_TO_ANTHROPIC
from scenarios import Bench, Row, Server, closed_loop, progress, start_paused


def measure_keyed_requests(bench: Bench, keyed: list[Server], unavailable: dict[str, str]) -> list[Row]:
    """Measure streams and answers without streaming with keys, and for comparison without."""
    start_paused(keyed, "{}", unavailable)
    servers = [server for server in bench.servers if server.peer.name == "tieline"] + keyed
    if not keyed:
        return []
    progress("measuring: requests with keys")
    stream = Row("keyed stream", "stream, 64 concurrent, Chat → Anthropic", "requests/s", "request")
    plain = Row("keyed plain", "non-stream, 64 concurrent, Chat → Anthropic", "requests/s", "request")
    return [
        closed_loop(bench, stream, CHAT_TO_ANTHROPIC, "stream", servers),
        closed_loop(bench, plain, CHAT_TO_ANTHROPIC, "plain", servers),
    ]
