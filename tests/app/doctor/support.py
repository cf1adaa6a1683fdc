"""Runs the doctor on a configuration, in an empty home."""

from collections.abc import Callable
from pathlib import Path

from tests.cases import leg
from tieline.app.doctor.doctor import Doctor
from tieline.app.doctor.findings import Finding
from tieline.model.content import Text, ToolCall
from tieline.model.events import Event, StopReason
from tieline.sim.answers import CHAT, streamed
from tieline.sim.model import Answer, ModelServer, Received

MODELS = "/v1/models"
KEY = "upstream-key-4711"


async def examined(
    home: Path, text: str = "", *, here: Path | None = None, offline: bool = False, **env: str
) -> dict[str, Finding]:
    """Return the findings by name. `text` is the configuration; without one, there is no file.

    `here` is the working directory, if it is not the home.
    """
    path = home / "own.toml"
    if text:
        path.write_text(text, "utf-8")
    doctor = Doctor(path if text else None, here or home, {"HOME": str(home), "PATH": "", **env}, offline=offline)
    return {finding.name: finding async for finding in doctor.findings()}


def upstream(server: ModelServer, more: str = "") -> str:
    """Return a configuration with an upstream `up`, and with a port that no test listens on."""
    return f"""
{more}
[server]
port = 0
[upstreams.up]
kind = "openai"
base_url = "{server.url}/v1"
key_env = "UP_KEY"
retries = 0
"""


def lists(server: ModelServer, *names: str) -> None:
    """Let the upstream list these models to those who have its key."""
    rows = ",".join(f'{{"id":"{name}"}}' for name in names)

    def answer(request: Received) -> Answer:
        if request.header("authorization") != f"Bearer {KEY}":
            return Answer(status=401, body=b'{"error":{"message":"wrong key %s"}}' % _sent_key(request))
        return Answer(body=f'{{"object":"list","data":[{rows}]}}'.encode())

    server.default(MODELS, answer)


def _sent_key(request: Received) -> bytes:
    return (request.header("authorization") or "").encode()


def reads_the_word(server: ModelServer) -> None:
    """Let the upstream call the tool, and then repeat its result."""
    server.script(CHAT, lambda _: streamed("openai", call("read_file", '{"path":"word.txt"}')), _repeated)


def _repeated(request: Received) -> Answer:
    return streamed("openai", says(f"The word is {request.json['messages'][-1]['content']}"))


def call(name: str, arguments: str) -> list[Event]:
    return leg((ToolCall(id="call_1", name=name), [arguments]), reason=StopReason.TOOL_USE)


def says(text: str) -> list[Event]:
    return leg((Text(), [text]))


Script = Callable[[ModelServer], None]
