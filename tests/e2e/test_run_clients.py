"""The real clients that are installed, started by `tieline run` on the demo model. They read a file with a tool."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tieline.clients.catalogue import CLIENTS
from tieline.clients.client import Client

LIMIT = 180
"""Seconds for one client. Some of them wait for the network when they start."""
CONTENT = "needle-7731"


def installed(client: Client) -> bool:
    return any(shutil.which(program) for program in client.programs)


@pytest.mark.parametrize(
    "client",
    [
        pytest.param(client, marks=pytest.mark.skipif(not installed(client), reason="not installed"), id=client.id)
        for client in CLIENTS.values()
    ],
)
def test_a_client_reads_a_file_and_keeps_no_settings(client: Client, tmp_path: Path) -> None:
    home, work, temporary = (tmp_path / name for name in ("home", "work", "tmp"))
    for folder in (home, work, temporary):
        folder.mkdir()
    headless = client.headless(f"read {work}/notes.txt")
    if headless.uses_tools:
        (work / "notes.txt").write_text(CONTENT)
    else:
        headless = client.headless(f"write {CONTENT} to notes.txt")
    config = tmp_path / "tieline.toml"
    config.write_text("[server]\nport = 1\n")
    command = [sys.executable, "-m", "tieline", "run", client.id, "-m", "demo/scripted", "--config", str(config), "--"]
    env = {"HOME": str(home), "PATH": os.environ["PATH"], "TMPDIR": str(temporary), "TERM": "xterm", "LANG": "C.UTF-8"}
    done = subprocess.run(  # noqa: S603 - our own command
        [*command, *headless.arguments],
        cwd=work,
        env={**env, **headless.env},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert CONTENT in (done.stdout if headless.uses_tools else (work / "notes.txt").read_text())
    assert [path for path in temporary.iterdir() if path.name.startswith("tieline-")] == []
    if client.settings is not None:
        usual = [home / place.path for place in client.settings.places if place.variable == "HOME"]
        assert [path for path in usual if path.exists() and "tieline" in path.read_text("utf-8").lower()] == []
