"""The real Codex with the demo model, the simulator of Cursor and a coding agent, over HTTP and over a WebSocket."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.catalogue import serving as upstreams
from tests.e2e import acp_support, cursor_support
from tests.e2e.codex_support import INSTALLED, Codex

Kind = Literal["demo", "cursor"]

pytestmark = INSTALLED
KINDS = pytest.mark.parametrize("kind", ["demo", "cursor"])
TRANSPORTS = pytest.mark.parametrize("websocket", [False, True], ids=["http", "websocket"])
COMPACTIONS = pytest.mark.parametrize("provider", ["OpenAI", "Tieline"], ids=["by the gateway", "by Codex"])

LIMIT = 4500
"""Tokens after which Codex compacts its conversation: more than its own prompt, less than with a long result."""
PROGRAM = """\
say I begin.
call update_plan {"plan": [{"step": "patch it", "status": "in_progress"}]}
call exec_command {"cmd": "cat a.txt"} ; exec_command {"cmd": "printf made > made.txt"}
call apply_patch {"input": "*** Begin Patch\\n*** Update File: a.txt\\n@@\\n-old\\n+new\\n*** End Patch\\n"}
call update_plan {"plan": [{"step": "patch it", "status": "completed"}]}
plan a step of the agent
run a command of the agent
say It is done."""
"""What the agent does: first with the tools of Codex, then with its own."""


@asynccontextmanager
async def codex_of(kind: Kind, folder: Path) -> AsyncIterator[Codex]:
    """Codex with the demo model, alone or behind the simulator of Cursor."""
    if kind == "demo":
        async with upstreams.serving() as stand:
            yield Codex(stand.url, folder, "demo/scripted")
    else:
        async with cursor_support.serving("http2") as cursor:
            yield Codex(cursor.url, folder, "cursor/demo")


@asynccontextmanager
async def agent_of(folder: Path) -> AsyncIterator[Codex]:
    """Codex with the scripted agent."""
    async with acp_support.serving(folder) as stand:
        yield Codex(stand.url, folder, "acp/scripted")


@KINDS
@TRANSPORTS
async def test_commands_files_a_plan_and_a_resumed_session(tmp_path: Path, kind: Kind, websocket: bool) -> None:
    async with codex_of(kind, tmp_path) as codex:
        (codex.folder / "a.txt").write_text("one x two\nthree\n")
        done = await codex.run(
            "plan: look; change, then read a.txt and run: printf made > made.txt, then edit a.txt: replace x with y, "
            "then write hello to b.txt, then plan: look (done); change (done)",
            websocket=websocket,
        )
        assert done.status == 0, done.log
        files = {path.name: path.read_text() for path in codex.folder.iterdir()}
        assert files == {"a.txt": "one y two\nthree\n", "b.txt": "hello\n", "made.txt": "made"}
        assert "✓ change" in done.log
        assert done.answer.count("Success. Updated the following files") == 2
        resumed = await codex.run("resume", "--last", "read b.txt", websocket=websocket)
        assert (resumed.status, "hello" in resumed.answer) == (0, True), resumed.log


@KINDS
@TRANSPORTS
@COMPACTIONS
async def test_a_compaction_in_the_middle_of_a_turn(tmp_path: Path, kind: Kind, websocket: bool, provider: str) -> None:
    settings: dict[str, Any] = {"provider": provider, "websocket": websocket, "model_auto_compact_token_limit": LIMIT}
    async with codex_of(kind, tmp_path) as codex:
        done = await codex.run("run: seq 3000, then run: echo second, then write hello to a.txt", **settings)
        assert (done.status, done.log.count("context compacted")) == (0, 1), done.log
        assert (codex.folder / "a.txt").read_text() == "hello\n"
        assert done.log.count("seq 3000' in") == 1, "no call is made again after the compaction"
        resumed = await codex.run("resume", "--last", "read a.txt", **settings)
        assert (resumed.status, "hello" in resumed.answer) == (0, True), resumed.log


@TRANSPORTS
async def test_an_agent_uses_the_tools_of_codex_and_its_own(tmp_path: Path, websocket: bool) -> None:
    async with agent_of(tmp_path) as codex:
        (codex.folder / "a.txt").write_text("old\n")
        done = await codex.run(PROGRAM, websocket=websocket)
        assert (done.status, done.answer.strip()) == (0, "It is done."), done.log
        assert (codex.folder / "a.txt").read_text() == "new\n"
        assert (codex.folder / "made.txt").read_text() == "made"
        for shown in ("✓ patch it", "○ a step of the agent", "▸ Run a command of the agent"):
            assert shown in done.log
        resumed = await codex.run("resume", "--last", "say Resumed.", websocket=websocket)
        assert (resumed.status, resumed.answer.strip()) == (0, "Resumed."), resumed.log


@TRANSPORTS
@COMPACTIONS
async def test_a_compaction_of_a_conversation_with_an_agent(tmp_path: Path, websocket: bool, provider: str) -> None:
    settings: dict[str, Any] = {"provider": provider, "websocket": websocket}
    async with agent_of(tmp_path) as codex:
        done = await codex.run("usage\nsay Hello.", **settings)
        assert done.status == 0, done.log
        # The agent has reported 42 tokens.
        done = await codex.run("resume", "--last", "say Again.", model_auto_compact_token_limit=20, **settings)
        assert (done.status, done.answer.strip(), done.log.count("context compacted")) == (0, "Again.", 1), done.log
        done = await codex.run("resume", "--last", "recall", **settings)
        assert "Summary by the agent." in done.answer
