"""The real Codex as a client of the gateway. Its home is a temporary folder, its model a scripted upstream."""

import asyncio
import json
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.cases import leg
from tests.catalogue.serving import DIALECTS, KEY, PATIENCE, Backend
from tieline.model.content import Part, Text, ToolCall
from tieline.model.events import Event, StopReason, Usage
from tieline.sim.answers import streamed, whole
from tieline.sim.model import Answer, Received

CODEX = shutil.which("codex")
INSTALLED = pytest.mark.skipif(CODEX is None, reason="Codex is not installed")

_MCP_SERVER = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    params = message.get("params", {})
    match message["method"]:
        case "initialize":
            result = {
                "protocolVersion": params["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "tiny", "version": "1"},
            }
        case "tools/list":
            schema = {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]}
            result = {"tools": [{"name": "look_up", "description": "Look up a word.", "inputSchema": schema}]}
        case "tools/call":
            result = {"content": [{"type": "text", "text": "the meaning of " + params["arguments"]["word"]}]}
        case _:
            result = {}
    if "id" in message:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""


@dataclass(frozen=True)
class Finished:
    """A finished run of Codex: its exit status, its answer, and its log."""

    status: int
    answer: str
    log: str


class Codex:
    """Runs `codex exec` in a folder of its own, with the gateway at `url`."""

    def __init__(self, url: str, folder: Path, model: str) -> None:
        self.folder = folder / "work"
        self._home = folder / "codex_home"
        self._url = url
        self._model = model
        self.folder.mkdir()
        (self._home / ".codex").mkdir(parents=True)
        self._server = folder / "mcp_server.py"
        self._server.write_text(_MCP_SERVER)

    async def run(self, *arguments: str, provider: str = "Tieline", websocket: bool = False, **more: Any) -> Finished:
        """Run Codex with these arguments. `more` are top-level settings of its configuration."""
        self._configure(provider, websocket, more)
        assert CODEX is not None
        process = await asyncio.create_subprocess_exec(
            *(CODEX, "exec", "--skip-git-repo-check", *arguments),
            cwd=self.folder,
            env={**os.environ, "HOME": str(self._home), "RUST_LOG": "error"},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(PATIENCE):
                answer, log = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        assert process.returncode is not None
        return Finished(process.returncode, answer.decode(), log.decode())

    def _configure(self, provider: str, websocket: bool, more: dict[str, Any]) -> None:
        top = {
            "model": self._model,
            "model_provider": "tieline",
            "approval_policy": "never",
            "sandbox_mode": "danger-full-access",
            "check_for_update_on_startup": False,
            **more,
        }
        table = {
            "name": provider,
            "base_url": f"{self._url}/v1",
            "wire_api": "responses",
            "supports_websockets": websocket,
            "request_max_retries": 0,
            "stream_max_retries": 0,
        }
        server = {"command": shutil.which("python3") or "python3", "args": [str(self._server)]}
        text = "".join(
            [
                _toml(top),
                "[model_providers.tieline]\n" + _toml(table),
                # Only with a command for the key does Codex read the list of models, and offer apply_patch.
                "[model_providers.tieline.auth]\n" + _toml({"command": "echo", "args": [KEY]}),
                "[tools.update_plan]\nenabled = true\n",
                "[mcp_servers.tiny]\n" + _toml(server),
                "[analytics]\nenabled = false\n",
            ]
        )
        (self._home / ".codex" / "config.toml").write_text(text)


def _toml(values: dict[str, Any]) -> str:
    """The values as lines of TOML, whose strings, numbers, booleans and arrays are written like those of JSON."""
    return "".join(f"{name} = {json.dumps(value)}\n" for name, value in values.items())


# ── What the upstreams say ───────────────────────────────────────────────────────────────────────


def says(backend: Backend, text: str, *, tokens: int = 1000) -> Callable[[Received], Answer]:
    """A text, with this number of input tokens."""
    return _answer(backend, leg((Text(), [text])), tokens)


def calls(backend: Backend, *called: tuple[str, dict[str, Any]], tokens: int = 1000) -> Callable[[Received], Answer]:
    """Calls of tools, with this number of input tokens."""
    parts: list[tuple[Part, list[str]]] = [
        (ToolCall(id=f"call_{os.urandom(6).hex()}", name=name), [json.dumps(arguments)]) for name, arguments in called
    ]
    return _answer(backend, leg(*parts, reason=StopReason.TOOL_USE), tokens)


def _answer(backend: Backend, events: Sequence[Event], tokens: int) -> Callable[[Received], Answer]:
    dialect = DIALECTS[backend]
    *rest, last = (event for event in events if not isinstance(event, Usage))
    counted = [*rest, Usage(input=tokens, output=10), last]
    return lambda request: streamed(dialect, counted) if request.json.get("stream") else whole(dialect, counted)


def patches(backend: Backend, patch: str) -> Callable[[Received], Answer]:
    """A call of Codex's freeform tool `apply_patch`, which is a function for most upstreams."""
    if backend != "res":
        return calls(backend, ("apply_patch", {"input": patch}))
    call = ToolCall(id="call_patch", name="apply_patch", freeform=True)
    return _answer(backend, leg((call, [patch]), reason=StopReason.TOOL_USE), 1000)


def shell(command: str) -> tuple[str, dict[str, Any]]:
    """A call of Codex's shell."""
    return "exec_command", {"cmd": command}
