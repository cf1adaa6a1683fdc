"""The gateway's own tools behind a Cursor model, for clients that bring none: read at once, write when allowed."""

import asyncio
from pathlib import Path
from typing import Any

import anthropic
import openai

from tests.e2e.cli_support import ran, serving
from tests.e2e.tools_support import DIALECTS, PATIENCE, Dialect

MODEL = "cursor/demo"


async def told(dialect: Dialect, port: int, words: str, model: str = MODEL) -> tuple[str, str]:
    """What a client without tools is told, and how that ended."""
    asked: dict[str, Any] = {"model": model, "messages": [{"role": "user", "content": words}]}
    url = f"http://127.0.0.1:{port}"
    if dialect == "openai":
        async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="any", max_retries=0, timeout=PATIENCE) as chat:
            choice = (await chat.chat.completions.create(**asked)).choices[0]
            assert not choice.message.tool_calls
            return choice.message.content or "", choice.finish_reason
    async with anthropic.AsyncAnthropic(base_url=url, api_key="any", max_retries=0, timeout=PATIENCE) as messages:
        reply = await messages.messages.create(**asked, max_tokens=1000)
    assert not any(block.type == "tool_use" for block in reply.content)
    return "".join(block.text for block in reply.content if block.type == "text"), str(reply.stop_reason)


def give_tools(home: Path) -> None:
    """Let every client have the gateway's tools."""
    settings = home / ".config" / "tieline" / "tieline.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text("[clients.all]\ntools = true\n")


async def waiting(home: Path, port: int) -> str:
    """The id of what waits, as soon as something does."""
    async with asyncio.timeout(PATIENCE):
        while True:
            listed = await asyncio.to_thread(ran, home, "inbox", "--url", f"http://127.0.0.1:{port}")
            if "tieline inbox allow" in listed.stdout:
                return listed.stdout.partition("tieline inbox allow ")[2].split()[0]


@DIALECTS
async def test_cursor_s_model_reads_and_writes_through_the_gateway(tmp_path: Path, dialect: Dialect) -> None:
    (tmp_path / "a.txt").write_text("what is in the file\n")
    give_tools(tmp_path)
    with serving(tmp_path, "--demo", "--tools") as (_, port):
        text, ending = await told(dialect, port, "read a.txt")
        assert "what is in the file" in text
        assert ending in ("stop", "end_turn")
        writing = asyncio.create_task(told(dialect, port, "write b.txt with the text boo"))
        item = await waiting(tmp_path, port)
        assert not (tmp_path / "b.txt").exists()
        await asyncio.to_thread(ran, tmp_path, "inbox", "--url", f"http://127.0.0.1:{port}", "allow", item)
        async with asyncio.timeout(PATIENCE):
            assert "Created `b.txt`" in (await writing)[0]
        assert (tmp_path / "b.txt").read_text() == "boo"


@DIALECTS
async def test_a_mode_of_cursor_s_decides_which_tools_it_is_offered(tmp_path: Path, dialect: Dialect) -> None:
    (tmp_path / "a.txt").write_text("what is in the file\n")
    give_tools(tmp_path)
    with serving(tmp_path, "--demo", "--tools") as (_, port):
        for mode, is_read in (("plan", True), ("ask", False), ("chat", False)):
            text, _ = await told(dialect, port, "read a.txt", f"cursor/demo?mode={mode}")
            assert ("what is in the file" in text) is is_read
            await told(dialect, port, "write b.txt with the text boo", f"cursor/demo?mode={mode}")
    assert not (tmp_path / "b.txt").exists()
