"""Coding agents in named workspaces: each works in its folder and under its rules."""

import asyncio
import json
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.e2e.acp_support import Dialect, Stand, serving
from tests.e2e.tools_support import DIALECTS, PATIENCE


async def registered(stand: Stand, name: str, **more: Any) -> tuple[str, Path]:
    folder = stand.home / name
    folder.mkdir()
    response = await stand.http.post("/api/workspaces", json={"path": str(folder), **more})
    assert response.status_code == 200, response.text
    return str(response.json()["name"]), folder.resolve()


def naming(workspace: str) -> dict[str, Any]:
    return {"extra_headers": {"x-tieline-workspace": workspace}}


@DIALECTS
async def test_an_agent_works_in_the_folder_and_under_the_rules_of_its_workspace(
    tmp_path: Path, dialect: Dialect
) -> None:
    async with serving(tmp_path) as stand:
        name, folder = await registered(stand, "ours")
        talk = stand.talk(dialect, **naming(name))
        assert json.loads((await talk.say("workplace")).text)["cwd"] == str(folder)
        assert (await talk.say(f"peek {folder}/a.txt")).text == "chosen yes"
        asking = asyncio.create_task(talk.say(f"peek {stand.root}/a.txt"))
        item = await stand.next_item()
        assert item.origin.workspace == name
        elsewhere = {"x-tieline-workspace": ""}
        refused = await stand.http.post(f"/api/inbox/{item.id}", json={"option": "yes"}, headers=elsewhere)
        assert refused.status_code == 404
        await stand.decide(option="no")
        async with asyncio.timeout(PATIENCE):
            assert (await asking).text == "chosen no", "the default folder is outside this workspace"
        usual = stand.talk(dialect)
        assert json.loads((await usual.say("workplace")).text)["cwd"] == str(stand.root)
        assert len(stand.pids) == 2, "an agent process belongs to one folder"


async def test_autonomy_applies_to_agents_and_can_be_changed(tmp_path: Path) -> None:
    async with serving(tmp_path) as stand:
        name, _ = await registered(stand, "ours", autonomy="all")
        talk = stand.talk("openai", **naming(name))
        assert (await talk.say("permit rm -rf build")).text == "chosen yes"
        await stand.http.patch(f"/api/workspaces/{name}", json={"autonomy": "ask"})
        asking = asyncio.create_task(talk.say("permit rm -rf build"))
        await stand.decide(option="no")
        async with asyncio.timeout(PATIENCE):
            assert (await asking).text == "chosen no"


async def test_the_autonomy_of_the_default_workspace_applies_to_agents_without_tools(tmp_path: Path) -> None:
    async with serving(tmp_path) as stand:
        changed = await stand.http.patch("/api/workspaces", json={"autonomy": "all"})
        assert (changed.json()["name"], changed.json()["tools"]) == ("", False)
        assert (await stand.talk("openai").say("permit make")).text == "chosen yes"


@pytest.mark.parametrize("kind", ["files", "terminals"])
async def test_files_and_terminals_of_an_agent_are_those_of_its_workspace(tmp_path: Path, kind: str) -> None:
    async with serving(tmp_path, files=True, terminals=True) as stand:
        name, folder = await registered(stand, "ours", autonomy="all")
        talk = stand.talk("openai", **naming(name))
        if kind == "terminals":
            assert str(folder) in (await talk.say("terminal pwd")).text
            return
        (folder / "a.txt").write_text("in the workspace")
        assert "in the workspace" in (await talk.say(f"read {folder}/a.txt")).text
        (stand.root / "b.txt").write_text("in the default folder")
        with pytest.raises(openai.InternalServerError, match="is outside the workspace"):
            await talk.say(f"read {stand.root}/b.txt")


async def test_a_folder_can_still_be_selected_by_name(tmp_path: Path) -> None:
    site = tmp_path / "site"
    site.mkdir()
    async with serving(tmp_path, folders={"site": str(site)}) as stand:
        name, _ = await registered(stand, "ours")
        for workspace in ({}, {"x-tieline-workspace": name}):
            talk = stand.talk("openai", extra_headers={"x-tieline-folder": "site", **workspace})
            assert json.loads((await talk.say("workplace")).text)["cwd"] == str(site)


async def test_removing_a_workspace_ends_its_agents_and_withdraws_what_they_asked(tmp_path: Path) -> None:
    async with serving(tmp_path) as stand:
        name, _ = await registered(stand, "ours")
        await stand.talk("openai").say("hello")
        [other] = stand.pids
        asking = asyncio.create_task(stand.talk("openai", **naming(name)).say("permit make"))
        await stand.next_item()
        [own] = [pid for pid in stand.pids if pid != other]
        assert (await stand.http.delete(f"/api/workspaces/{name}")).status_code == 200
        with pytest.raises(Exception, match="workspace"):
            async with asyncio.timeout(PATIENCE):
                await asking
        await stand.nothing_waits()
        await stand.gone(own)
        assert stand.pids == [other]
