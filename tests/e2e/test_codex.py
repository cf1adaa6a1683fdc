"""The real Codex through the gateway, with an upstream of each protocol, over HTTP and over a WebSocket."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.catalogue.serving import BACKENDS, MODEL, Backend, Stand, serving
from tests.e2e.codex_support import INSTALLED, Codex, calls, patches, says, shell

pytestmark = [INSTALLED, pytest.mark.parametrize("backend", BACKENDS)]

TRANSPORTS = pytest.mark.parametrize("websocket", [False, True], ids=["http", "websocket"])
LIMIT = 20_000
"""Tokens after which Codex compacts its conversation, in the tests that want it."""


def codex_of(stand: Stand, folder: Path, backend: Backend) -> Codex:
    """Codex with a model of this upstream."""
    return Codex(stand.url, folder, f"{backend}/{MODEL}")


def last_sent(stand: Stand, backend: Backend) -> str:
    """The latest request of an upstream."""
    return json.dumps(stand.asked(backend)[-1].json)


@TRANSPORTS
async def test_commands_in_sequence_and_in_parallel(tmp_path: Path, backend: Backend, websocket: bool) -> None:
    async with serving() as stand:
        codex = codex_of(stand, tmp_path, backend)
        (codex.folder / "a.txt").write_text("first content\n")
        stand.script(
            backend,
            calls(backend, shell("cat a.txt")),
            calls(backend, shell("echo one"), shell("printf made > made.txt")),
            says(backend, "It is done."),
        )
        done = await codex.run("do it", websocket=websocket)
        assert (done.status, done.answer.strip()) == (0, "It is done."), done.log
        assert (codex.folder / "made.txt").read_text() == "made"
        sent = last_sent(stand, backend)
        assert "first content" in sent
        assert len(stand.asked(backend)) == 3


@TRANSPORTS
async def test_a_plan_and_a_patch(tmp_path: Path, backend: Backend, websocket: bool) -> None:
    patch = "*** Begin Patch\n*** Update File: a.txt\n@@\n-old\n+new\n*** Add File: b.txt\n+more\n*** End Patch\n"
    async with serving() as stand:
        codex = codex_of(stand, tmp_path, backend)
        (codex.folder / "a.txt").write_text("old\n")
        stand.script(
            backend,
            calls(backend, ("update_plan", {"plan": [{"step": "patch it", "status": "in_progress"}]})),
            patches(backend, patch),
            calls(backend, ("update_plan", {"plan": [{"step": "patch it", "status": "completed"}]})),
            says(backend, "It is done."),
        )
        done = await codex.run("do it", websocket=websocket)
        assert (done.status, done.answer.strip()) == (0, "It is done."), done.log
        assert [(codex.folder / name).read_text() for name in ("a.txt", "b.txt")] == ["new\n", "more\n"]
        assert "✓ patch it" in done.log
        sent = last_sent(stand, backend)
        assert "Plan updated" in sent
        assert "Success. Updated the following files" in sent


@TRANSPORTS
async def test_a_tool_of_an_mcp_server(tmp_path: Path, backend: Backend, websocket: bool) -> None:
    # Codex offers it in a namespace, and finds it only if the call names the namespace.
    name = "look_up" if backend == "res" else "mcp__tiny__look_up"
    async with serving() as stand:
        codex = codex_of(stand, tmp_path, backend)
        stand.script(backend, calls(backend, (name, {"word": "fjord"})), says(backend, "Found."))
        done = await codex.run("look it up", websocket=websocket)
        assert (done.status, done.answer.strip()) == (0, "Found."), done.log
        assert "the meaning of fjord" in last_sent(stand, backend)


@pytest.mark.parametrize("provider", ["OpenAI", "Tieline"], ids=["by the gateway", "by Codex"])
@TRANSPORTS
async def test_a_compaction_and_a_resumed_session(
    tmp_path: Path, backend: Backend, provider: str, websocket: bool
) -> None:
    # If the provider has OpenAI's name, Codex lets it compact; otherwise it sends a prompt of its own.
    async with serving() as stand:
        codex = codex_of(stand, tmp_path, backend)
        stand.script(
            backend,
            calls(backend, shell("echo long history")),
            calls(backend, shell("echo too long"), tokens=LIMIT + 1000),
            says(backend, "Summary of the work."),
            calls(backend, shell("echo afterwards")),
            says(backend, "It is done."),
        )
        settings: dict[str, Any] = {
            "provider": provider,
            "websocket": websocket,
            "model_auto_compact_token_limit": LIMIT,
        }
        done = await codex.run("do it", **settings)
        assert (done.status, done.answer.strip()) == (0, "It is done."), done.log
        sent = last_sent(stand, backend)
        assert "long history" not in sent
        assert "afterwards" in sent
        stand.script(backend, says(backend, "Resumed."))
        done = await codex.run("resume", "--last", "go on", **settings)
        assert (done.status, done.answer.strip()) == (0, "Resumed."), done.log
        sent = last_sent(stand, backend)
        assert "Summary of the work." in sent
        assert "afterwards" in sent
