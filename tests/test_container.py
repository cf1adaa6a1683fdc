"""The container image, as far as it can be checked without Docker: what it runs, as whom, and how it is checked."""

import json
import re
import subprocess
import sys
from pathlib import Path

from tests.e2e.cli_support import ran, serving

ROOT = Path(__file__).parents[1]
DOCKERFILE = (ROOT / "Dockerfile").read_text("utf-8").replace("\\\n", " ")


def instruction(name: str) -> str:
    """The last instruction with this name, which is the one that counts."""
    found: list[str] = re.findall(rf"^{name} +(.*)$", DOCKERFILE, re.MULTILINE)
    return found[-1].strip()


def test_the_gateway_runs_as_an_unprivileged_user_with_a_volume_for_its_state() -> None:
    user = int(instruction("USER").partition(":")[0])
    assert user > 0
    assert f"--uid {user}" in instruction("RUN")
    assert instruction("VOLUME") == "/data"
    assert "XDG_STATE_HOME=/data/state" in instruction("ENV")


def test_without_a_key_the_command_of_the_image_refuses_to_start(tmp_path: Path) -> None:
    assert json.loads(instruction("ENTRYPOINT")) == ["tieline"]
    done = ran(tmp_path, *json.loads(instruction("CMD")), "--port", "0")
    assert done.returncode == 2
    assert "TIELINE_KEY" in done.stderr


def test_the_health_check_tells_a_gateway_that_answers_from_one_that_does_not(tmp_path: Path) -> None:
    python, *arguments = json.loads(instruction("HEALTHCHECK").partition(" CMD ")[2])
    assert python == "python"

    def status(port: int) -> int:
        argv = [sys.executable, *(one.replace(":18741/", f":{port}/") for one in arguments)]
        return subprocess.run(argv, capture_output=True, timeout=60).returncode  # noqa: S603 - from our own file

    with serving(tmp_path, TIELINE_KEY="a-long-random-text") as (_, port):
        assert status(port) == 0
    assert status(port) != 0


def test_everything_that_is_copied_into_the_image_is_sent_to_docker() -> None:
    ignored = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    copied = [word for line in re.findall(r"^COPY +([^-].*)$", DOCKERFILE, re.MULTILINE) for word in line.split()[:-1]]
    assert "src" in copied
    assert [name for name in copied if f"!{name}" not in ignored or not (ROOT / name).exists()] == []


def test_compose_publishes_the_port_on_loopback_only_and_demands_a_key() -> None:
    compose = (ROOT / "compose.yaml").read_text("utf-8")
    assert re.findall(r'- "(.*:18741)"', compose) == ["127.0.0.1:18741:18741"]
    assert "TIELINE_KEY=${TIELINE_KEY:?" in compose
    assert "state:/data" in compose
