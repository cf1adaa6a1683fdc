"""The files that `make dist` builds: what they contain, and that they work in an empty environment."""

import json
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from threading import Timer

import pytest

from tests.e2e.cli_support import WAIT
from tieline import __version__

ROOT = Path(__file__).parents[2]
SCRIPTS = "Scripts" if sys.platform == "win32" else "bin"
BUILD = "import sys; from flit_core import buildapi as b; b.build_sdist(sys.argv[1]); b.build_wheel(sys.argv[1])"
EPOCH = {"SOURCE_DATE_EPOCH": "1700000000"}
OFFLINE = ("Failed to establish a new connection", "Temporary failure in name resolution")
INSTALL_TIME = 600
QUESTION = {
    "model": "demo/scripted",
    "messages": [{"role": "user", "content": "read notes.txt"}],
    "tools": [
        {
            "type": "function",
            "function": {
                "name": "read_file",
                "parameters": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
            },
        }
    ],
}


def build(source: Path, target: Path) -> tuple[Path, Path]:
    """Build both files as `make dist` does. Return the wheel and the source distribution."""
    target.mkdir()
    subprocess.run(  # noqa: S603 - a fixed program
        [sys.executable, "-c", BUILD, str(target)], cwd=source, env={**os.environ, **EPOCH}, timeout=WAIT, check=True
    )
    [wheel], [sdist] = target.glob("*.whl"), target.glob("*.tar.gz")
    return wheel, sdist


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return build(ROOT, tmp_path_factory.mktemp("build") / "dist")


def test_the_wheel_contains_every_file_of_the_package(built: tuple[Path, Path]) -> None:
    wheel, _ = built
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    tracked = subprocess.run(["git", "ls-files", "src"], cwd=ROOT, capture_output=True, text=True, timeout=WAIT)  # noqa: S607 - the developer's git
    if tracked.returncode:
        pytest.skip("this is not a git repository")
    assert {f"src/{name}" for name in names if name.startswith("tieline/")} >= set(tracked.stdout.split())
    assert "tieline/web/static/index.html" in names
    assert wheel.name == f"tieline-{__version__}-py3-none-any.whl"


def test_the_source_distribution_builds_the_same_wheel(built: tuple[Path, Path], tmp_path: Path) -> None:
    wheel, sdist = built
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, members=[one for one in archive if one.isfile()])  # noqa: S202 - our own files
    again, sdist_again = build(tmp_path / f"tieline-{__version__}", tmp_path / "dist")
    assert again.read_bytes() == wheel.read_bytes()
    assert sdist_again.name == sdist.name


@pytest.fixture(scope="module")
def installed(built: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new environment in which only the wheel and the locked requirements are installed, all without a compiler."""
    folder = tmp_path_factory.mktemp("installed") / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(folder)], timeout=INSTALL_TIME, check=True)  # noqa: S603 - Python's own module
    pip = [
        str(folder / SCRIPTS / "python"),
        "-m",
        "pip",
        "--disable-pip-version-check",
        "install",
        "--only-binary=:all:",
    ]
    lock = ["--require-hashes", "-r", str(ROOT / "requirements" / "run.lock")]
    done = subprocess.run([*pip, *lock], capture_output=True, text=True, timeout=INSTALL_TIME)  # noqa: S603 - pip
    if done.returncode and any(sign in done.stderr for sign in OFFLINE):
        pytest.skip("the package index cannot be reached")
    assert done.returncode == 0, done.stderr
    subprocess.run([*pip, "--no-deps", str(built[0])], timeout=INSTALL_TIME, check=True)  # noqa: S603 - pip
    return folder / SCRIPTS


def test_the_installed_command_performs_a_tool_call(installed: Path, tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path), "PATH": os.defpath, "SYSTEMROOT": os.environ.get("SYSTEMROOT", "")}
    for command in ([str(installed / "tieline")], [str(installed / "python"), "-m", "tieline"]):
        shown = subprocess.run([*command, "--version"], cwd=tmp_path, env=env, capture_output=True, timeout=WAIT)  # noqa: S603 - our own command
        assert shown.stdout.strip() == f"tieline {__version__}".encode()
    process = subprocess.Popen(  # noqa: S603 - our own command
        [str(installed / "tieline"), "serve", "--port", "0"], cwd=tmp_path, env=env, stdout=subprocess.PIPE, text=True
    )
    bound = Timer(2 * WAIT, process.kill)
    bound.start()
    try:
        assert process.stdout is not None
        found = re.search(
            rf"Tieline {__version__} is listening on http://127\.0\.0\.1:(\d+)", process.stdout.readline()
        )
        assert found is not None
        with closing(HTTPConnection("127.0.0.1", int(found[1]), timeout=WAIT)) as connection:
            connection.request(
                "POST", "/v1/chat/completions", json.dumps(QUESTION), {"content-type": "application/json"}
            )
            answer = json.loads(connection.getresponse().read())
            [call] = answer["choices"][0]["message"]["tool_calls"]
            assert call["function"] == {"name": "read_file", "arguments": '{"path":"notes.txt"}'}
            connection.request("GET", "/", headers={"accept": "text/html"})
            assert b"<!doctype html>" in connection.getresponse().read()
            connection.request("GET", "/api/state")
            assert json.loads(connection.getresponse().read())["version"] == __version__
        process.terminate()
        assert process.wait(WAIT) == 0 or sys.platform == "win32"  # which ends it without asking
    finally:
        bound.cancel()
        process.kill()
        process.communicate(timeout=WAIT)
