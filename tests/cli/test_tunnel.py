"""Tests of the lines that `tieline tunnel` prints about requests."""

import json
import re

from tests.frontends.test_keys import Clock, exchange
from tieline.app.tunnel import OpenTunnel
from tieline.cli.tunnel import UsageLog
from tieline.cli.tunnel_json import JsonLog
from tieline.core.watch.bus import LegChanged, ModelsChanged
from tieline.core.watch.record import LegRecord
from tieline.model.errors import GatewayError
from tieline.model.events import Failed, Finished, StopReason, Usage
from tieline.model.request import Request

KEY = "the-secret-key"
WRONG_KEY = GatewayError("unauthorized", "no")
UNKNOWN_PATH = GatewayError("not_found", "Not found.")


def ended(model: str, ending: Finished | Failed | None, usage: Usage | None = None) -> LegChanged:
    record = LegRecord(1, 0.0, Request(model=model, messages=()), "chat", "test", is_kept=True)
    record.ending, record.usage, record.duration = ending, usage, 1.5
    return LegChanged(record)


def lines(printed: list[str]) -> list[str]:
    """The printed lines without the time and with single blanks."""
    assert all(re.match(r"\d\d:\d\d:\d\d  ", line) for line in printed)
    return [" ".join(line[10:].split()) for line in printed]


def test_each_leg_is_printed_and_counted_when_it_ends() -> None:
    printed: list[str] = []
    log = UsageLog(printed.append, Clock(), KEY)
    running = ended("fast", None)
    running.record.duration = None
    log.watch(running)
    log.watch(ModelsChanged())
    log.watch(ended("fast", Finished(reason=StopReason.END_TURN), Usage(input=100, cache_read=20, output=7)))
    log.watch(ended("slow", Failed(kind="upstream", message="broken", status=502)))
    log.watch(ended("left", None, Usage(input=1, output=1)))
    assert lines(printed) == [
        "1 fast ok 120 tokens in, 7 out",
        "2 slow 502 upstream",
        "3 left cancelled 1 tokens in, 1 out",
    ]
    assert log.summary() == "3 requests (1 failed), 121 tokens in, 8 out."


def test_of_refused_requests_one_per_second_is_printed_and_all_are_counted() -> None:
    printed: list[str] = []
    clock = Clock()
    log = UsageLog(printed.append, clock, KEY)
    for _ in range(1000):
        log.observe(exchange("/cursor/models", cf_connecting_ip="203.0.113.9"), WRONG_KEY)
        log.observe(exchange("/wp-admin"), UNKNOWN_PATH)
    clock.now += 1
    log.observe(exchange("/cursor/models"), WRONG_KEY)
    assert lines(printed) == ["0 POST /cursor/models 401 from 203.0.113.9", "0 POST /cursor/models 401"]
    assert log.summary() == "0 requests, 2001 refused, 0 tokens in, 0 out."


def test_a_line_shows_neither_the_key_nor_control_characters() -> None:
    printed: list[str] = []
    log = UsageLog(printed.append, Clock(), KEY)
    log.watch(ended(f"x/{KEY}\n12:00:00  fake\x1b[2J", Finished(reason=StopReason.END_TURN)))
    log.observe(exchange(f"/cursor/{KEY}", x_forwarded_for="1\x1b[2J" + "9" * 500), WRONG_KEY)
    assert all("\n" not in line and "\x1b" not in line and KEY not in line for line in printed)
    assert printed[0].count("***") == printed[1].count("***") == 1
    assert max(map(len, printed)) < 200


def test_other_programs_receive_one_json_object_per_line_without_the_key() -> None:
    printed: list[str] = []
    clock = Clock()
    log = JsonLog(printed.append, clock, KEY)
    log.opened(OpenTunnel("https://a.example", ["demo/scripted"]), KEY)
    running = ended("fast", None)
    running.record.duration = None
    log.watch(running)
    log.watch(ended(f"x/{KEY}\n", Finished(reason=StopReason.END_TURN)))
    log.watch(ended("slow", Failed(kind="upstream", message="broken", status=502)))
    for _ in range(1000):
        log.observe(exchange("/cursor/models"), WRONG_KEY)
        log.observe(exchange("/wp-admin"), UNKNOWN_PATH)
        log.observe(exchange("/cursor/models"), None)
    log.closed("stopped")
    assert [json.loads(line) for line in printed] == [
        {"event": "open", "url": "https://a.example/cursor/v1", "key": KEY, "models": ["demo/scripted"]},
        {"event": "request", "model": "x/***\n", "status": 200},
        {"event": "request", "model": "slow", "status": 502},
        {"event": "request", "model": "", "status": 401},
        {"event": "closed", "reason": "stopped"},
    ]
    assert all("\n" not in line for line in printed)
