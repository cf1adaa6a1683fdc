"""Agents that are installed from the page: with the shown command, one at a time, bounded, and stopped cleanly."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.core.scripted import PATIENCE
from tests.web.serving import PageStand, serving
from tieline.app.build import agent_install
from tieline.app.config import AcpSettings, Config

COMMAND = "npm install --global opencode-ai"


def program(folder: Path, name: str, text: str) -> Path:
    """A program in `folder`, which is created."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@asynccontextmanager
async def with_npm(tmp_path: Path, text: str, **env: str) -> AsyncIterator[PageStand]:
    """A page whose npm is a script."""
    program(tmp_path / "bin", "npm", text)
    os.mkfifo(tmp_path / "pid")
    async with serving(tmp_path, env={"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin", **env}) as page:
        yield page


async def begun(home: Path) -> int:
    """Wait until the script has written its process id to the pipe."""
    async with asyncio.timeout(PATIENCE):
        return int(await asyncio.to_thread((home / "pid").read_text))


async def install(page: PageStand, agent: str = "opencode", command: str = COMMAND, status: int = 200) -> Any:
    return await page.post("/api/agents/install", {"agent": agent, "command": command}, status)


async def ended(page: PageStand) -> dict[str, Any]:
    """The state of the installation when it is over."""
    async with asyncio.timeout(PATIENCE), page.stream() as stream:
        while (state := await page.get("/api/agents/install"))["state"] == "running":
            await stream.until(lambda one: one["type"] == "state")
    found: dict[str, Any] = state
    return found


async def test_the_page_runs_the_command_that_it_shows_and_the_agent_is_a_model_at_once(tmp_path: Path) -> None:
    made = "echo adding $3; echo a warning >&2; cp $0 $HOME/bin/opencode"
    async with with_npm(tmp_path, made) as page:
        agents = (await page.get("/api/connect"))["agents"]
        assert [one["command"] for one in agents if one["id"] == "opencode"] == [COMMAND]
        assert (await install(page))["state"] == "running"
        state = await ended(page)
        assert state["state"] == "done", state
        assert "acp/opencode" in state["text"]
        assert state["output"] == "adding opencode-ai\na warning"
        names = [model["id"] for model in (await page.state())["models"]]
        assert "acp/opencode" in names
        backends = {one["name"]: one["ready"] for one in (await page.get("/api/connect"))["backends"]}
        assert backends["acp"]
        assert "already installed" in (await install(page, status=400))["error"]["message"]


async def test_a_failed_installation_shows_the_end_of_its_output(tmp_path: Path) -> None:
    async with with_npm(tmp_path, "echo EACCES: permission denied >&2; exit 243") as page:
        await install(page)
        state = await ended(page)
    assert state["state"] == "failed"
    assert "243" in state["text"]
    assert state["output"] == "EACCES: permission denied"


async def test_a_program_that_is_missing_is_named(tmp_path: Path) -> None:
    async with serving(tmp_path, env={"PATH": "/nowhere"}) as page:
        await install(page)
        state = await ended(page)
    assert state["state"] == "failed"
    assert "npm was not found" in state["text"]


async def test_a_command_that_leaves_nothing_on_the_path_is_no_success(tmp_path: Path) -> None:
    async with with_npm(tmp_path, "exit 0") as page:
        await install(page)
        assert "not on the PATH" in (await ended(page))["text"]


@pytest.mark.parametrize(
    ("agent", "command", "param"),
    [
        ("opencode", "npm install --global something-else", "command"),
        ("opencode", "", "command"),
        ("nobody", COMMAND, "agent"),
        ("cursor", "", "agent"),
        ("../opencode", COMMAND, "agent"),
    ],
)
async def test_nothing_but_the_command_of_the_catalogue_is_run(
    tmp_path: Path, agent: str, command: str, param: str
) -> None:
    async with with_npm(tmp_path, "touch $HOME/ran") as page:
        error = (await install(page, agent, command, status=400))["error"]
        assert error["param"] == param
        assert (await page.get("/api/agents/install"))["state"] == "none"
    assert not (tmp_path / "ran").exists()


async def test_only_one_agent_is_installed_at_a_time_and_cancelling_ends_every_process(tmp_path: Path) -> None:
    async with with_npm(tmp_path, "sh -c 'echo $$ > $HOME/pid; exec sleep 60' & wait") as page:
        await install(page)
        pid = await begun(tmp_path)
        assert "Another agent" in (await install(page, status=409))["error"]["message"]
        state = await page.call("DELETE", "/api/agents/install")
        assert (state["state"], state["text"]) == ("failed", "Cancelled.")
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
        # Another one can be started afterwards.
        await install(page)
        await begun(tmp_path)
        await page.call("DELETE", "/api/agents/install")


async def test_the_end_of_the_gateway_ends_an_installation(tmp_path: Path) -> None:
    async with with_npm(tmp_path, "echo $$ > $HOME/pid; exec sleep 60") as page:
        await install(page)
        pid = await begun(tmp_path)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_an_installation_that_takes_too_long_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_install, "INSTALL_TIMEOUT", 0.2)
    async with with_npm(tmp_path, "exec sleep 60") as page:
        await install(page)
        assert "took longer" in (await ended(page))["text"]


async def test_the_command_gets_no_key(tmp_path: Path) -> None:
    keys = {"OPENAI_API_KEY": "sk-upstream", "CURSOR_API_KEY": "cursor-key", "EDITOR": "vi"}
    async with with_npm(tmp_path, "env > $HOME/env", **keys) as page:
        await install(page)
        await ended(page)
    given = (tmp_path / "env").read_text()
    assert "EDITOR=vi" in given
    assert "sk-upstream" not in given
    assert "cursor-key" not in given


async def test_without_agents_there_is_nothing_to_install(tmp_path: Path) -> None:
    async with serving(tmp_path, Config(acp=AcpSettings(enabled=False))) as page:
        await install(page, status=403)
