"""The gateway stays responsive whatever bodies arrive."""

import http.client
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.cli_support import WAIT, serving

MILLION = 10**6
BOUND = 1.0
"""Seconds until a sign of life, at most: of the clock, or of the processor if others keep it busy."""
TICKS = os.sysconf("SC_CLK_TCK")


def body(content: bytes, more: bytes = b"") -> bytes:
    return b'{"model":"demo/scripted","max_tokens":9,"messages":[%b]%b}' % (content, more)


def words(size: int) -> bytes:
    return body(b'{"role":"user","content":"%b"}' % (b"x" * size))


BODIES = {
    "a million keys": [body(b'{"role":"user","content":"hi"}', b"".join(b',"k%d":1' % at for at in range(MILLION)))],
    "a million messages": [body(b",".join([b'{"role":"user","content":"hi"}'] * MILLION))],
    "twenty bodies of 47 MiB": [words(47 << 20)] * 20,
}


def post(port: int, path: str, data: bytes, statuses: list[int]) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2 * WAIT)
    connection.request("POST", path, data, {"content-type": "application/json"})
    statuses.append(connection.getresponse().status)
    connection.close()


def busy(pid: int) -> float:
    """Seconds that a process has had of the processor."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def signs_of_life(port: int, pid: int, threads: list[threading.Thread]) -> Iterator[float]:
    """How long each sign of life took while these threads run."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2 * WAIT)
    while any(thread.is_alive() for thread in threads):
        began, worked = time.monotonic(), busy(pid)
        connection.request("GET", "/healthz")
        assert connection.getresponse().read()
        yield min(time.monotonic() - began, busy(pid) - worked)
    connection.close()


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages"])
@pytest.mark.parametrize("name", BODIES)
def test_a_sign_of_life_comes_within_a_second_while_large_bodies_arrive(tmp_path: Path, name: str, path: str) -> None:
    statuses: list[int] = []
    with serving(tmp_path) as (process, port):
        threads = [threading.Thread(target=post, args=(port, path, data, statuses)) for data in BODIES[name]]
        for thread in threads:
            thread.start()
        took = max(signs_of_life(port, process.pid, threads), default=0.0)
    assert len(statuses) == len(threads)
    assert set(statuses) <= {200, 413, 503}
    assert took < BOUND
