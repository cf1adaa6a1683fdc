"""A turn with tools on an account, against the simulator of Cursor's service."""

import argparse
from pathlib import Path

import pytest

from tieline.app.config import Config, ConfigError, CursorSettings
from tieline.app.doctor.cursor_live import LiveReport, live_turn
from tieline.cli import doctor
from tieline.sim.cursor import CursorSim

KEY = "key_of_the_user_1234"


def settings(sim: CursorSim) -> Config:
    return Config(cursor=CursorSettings(api_url=sim.url, agent_url=sim.url))


def environment(home: Path) -> dict[str, str]:
    return {"HOME": str(home), "PATH": "", "CURSOR_API_KEY": KEY}


async def test_one_run_serves_the_whole_turn_and_is_resumed_for_each_result(tmp_path: Path) -> None:
    async with CursorSim() as sim:
        report = await live_turn(settings(sim), environment(tmp_path), None)
        assert (sim.runs, report.problem) == (1, "")
    assert (report.requests, report.runs, report.resumes) == (5, 1, 4)
    assert report.calls == ("list_directory", "read_file", "write_file", "read_file")
    assert report.input_tokens > 0
    assert report.output_tokens > 0
    assert len(report.durations) == 5


async def test_a_failure_is_reported_without_the_account(tmp_path: Path) -> None:
    async with CursorSim(script=["open", {"text": f"Ask jane.doe@example.com about {KEY}."}, "close"]) as sim:
        report = await live_turn(settings(sim), environment(tmp_path), None)
    assert report.problem == "b.txt was not written: Ask *** about ***."
    assert (report.runs, report.resumes) == (1, 0)


async def test_without_a_login_nothing_is_sent(tmp_path: Path) -> None:
    async with CursorSim() as sim:
        report = await live_turn(settings(sim), {"HOME": str(tmp_path)}, None)
        assert (sim.runs, sim.legs) == (0, 0)
    assert (report.problem, report.fix) == ("not logged in", "Run `tieline login cursor`.")


@pytest.mark.parametrize(("client", "live"), [("cursor", False), ("claude", True), (None, True)])
def test_the_account_is_used_only_with_name_and_flag(client: str | None, live: bool, tmp_path: Path) -> None:
    options = argparse.Namespace(client=client, live=live, json=False, config=None, offline=False)
    with pytest.raises(ConfigError, match="needs both"):
        doctor.run(options, {"HOME": str(tmp_path)}, tmp_path, print)


def test_a_summary_has_runs_resumes_and_tokens() -> None:
    report = LiveReport(model="cursor/auto", requests=2, runs=1, resumes=1, calls=("read_file",), durations=(1.5, 2.25))
    assert doctor.live_text(report).splitlines() == [
        "passed: cursor/auto, 0.00 s",
        "  runs      1",
        "  resumes   1",
        "  requests  2 (1.50, 2.25 s)",
        "  tools     read_file",
        "  tokens    0 in, 0 from the cache, 0 out",
    ]
