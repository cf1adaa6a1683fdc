"""Coding agents through the OpenAI client: what there is to choose from, and every refusal in its shape."""

import asyncio
import json
from pathlib import Path

import openai
import pytest
from openai.types.chat import ChatCompletionMessageParam

from tests.e2e.acp_support import MODEL, Stand, plain, scripted, serving
from tests.e2e.cli_support import configured, ran
from tests.e2e.tools_support import PATIENCE
from tieline.app.config import ParkingSettings
from tieline.model.inbox import Approval

HI: list[ChatCompletionMessageParam] = [{"role": "user", "content": "hello"}]
CONFIG = """\
[acp.agents.mine]
command = ["{program}", "--acp"]
title = "Mine"
"""


async def refused(stand: Stand, model: str, *, stream: bool = False) -> openai.APIStatusError:
    """The refusal of a request, which stands before any stream."""
    with pytest.raises(openai.APIStatusError) as caught:
        await stand.openai.chat.completions.create(model=model, messages=HI, stream=stream)
    return caught.value


async def test_the_models_are_the_agents_that_are_ready(tmp_path: Path) -> None:
    async with serving(tmp_path, {"mine": plain("echo"), "other": plain("echo")}) as stand:
        listed = [model.id async for model in stand.openai.models.list()]
        assert [name for name in listed if name.startswith("acp/")] == ["acp/mine", "acp/other"]


async def test_both_spellings_of_a_name_are_the_agent(tmp_path: Path) -> None:
    async with serving(tmp_path, {"mine": plain("echo")}) as stand:
        for name in ("acp/mine", "acp:mine"):
            answer = await stand.talk("openai", model=name).say("hello")
            assert answer.text == "You said: hello"


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
async def test_an_agent_nobody_knows_or_has_installed_is_not_found(tmp_path: Path, stream: bool) -> None:
    async with serving(tmp_path) as stand:
        unknown = await refused(stand, "acp/nobody", stream=stream)
        assert (unknown.status_code, unknown.code) == (404, "model_not_found")
        assert "There is no agent `nobody`" in unknown.message
        assert "scripted" in unknown.message
        missing = await refused(stand, "acp/copilot", stream=stream)
        assert (missing.status_code, missing.code) == (404, "agent_not_installed")
        assert "To install it: npm install --global @github/copilot" in missing.message
        assert stand.pids == []


async def test_an_option_the_agent_does_not_offer_is_refused_with_those_it_does(tmp_path: Path) -> None:
    async with serving(tmp_path) as stand:
        wrong = await refused(stand, f"{MODEL}?mode=yolo")
        assert wrong.status_code == 400
        assert "Scripted has no mode `yolo`. It offers: default, plan." in wrong.message


async def test_an_agent_that_wants_a_login_says_what_to_run(tmp_path: Path) -> None:
    async with serving(tmp_path, {"scripted": scripted("--login")}) as stand:
        error = await refused(stand, MODEL, stream=True)
        assert isinstance(error, openai.AuthenticationError)
        assert "Run `scripted login` in a terminal, then try again." in error.message


async def test_an_agent_that_dies_at_start_is_a_bad_gateway_with_its_last_lines(tmp_path: Path) -> None:
    async with serving(tmp_path, {"plain": plain("dies_at_start")}) as stand:
        error = await refused(stand, "acp/plain", stream=True)
        assert error.status_code == 502
        assert "error: no configuration found\nrun setup first" in error.message


async def test_an_agent_that_dies_talking_is_an_error_in_the_stream_and_works_again_next_time(tmp_path: Path) -> None:
    async with serving(tmp_path, {"plain": plain("dies_talking")}) as stand:
        with pytest.raises(openai.APIError) as caught:
            await stand.talk("openai", model="acp/plain").say("hello")
        assert "was ended by SIGKILL" in caught.value.message
        assert "first\nsecond\nout of memory" in caught.value.message
        assert (await stand.talk("openai", model="acp/plain").say("live")).text.endswith("live")
        assert len(stand.pids) == 1


def test_agents_lists_the_ready_ones_and_what_installs_the_others(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "my-agent"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    configured(tmp_path, CONFIG.format(program="my-agent"))
    done = ran(tmp_path, "agents", PATH=str(tmp_path / "bin"))
    assert (done.returncode, done.stderr) == (0, "")
    ready, _, missing = done.stdout.partition("Not installed")
    headline, *found = ready.strip().splitlines()
    assert headline == "Found on the PATH (Tieline learns whether they are logged in only when they are used):"
    assert [line.split() for line in found] == [["acp/mine", "my-agent", "--acp"]]
    assert "copilot" in missing
    assert "npm install --global @github/copilot" in missing
    empty = tmp_path / "empty"
    empty.mkdir()
    done = ran(empty, "agents", PATH=str(empty))
    assert done.stdout.startswith("No agent was found on the PATH.\n")


@pytest.mark.parametrize(("typed", "is_run"), [("y\n", True), ("n\n", False), ("\n", False), ("", False)])
def test_installing_shows_the_command_and_does_nothing_before_a_yes(tmp_path: Path, typed: str, is_run: bool) -> None:
    (tmp_path / "npm").write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/ran\n')
    (tmp_path / "npm").chmod(0o755)
    done = ran(tmp_path, "agents", "install", "copilot", PATH=str(tmp_path), typed=typed)
    assert (done.returncode, done.stderr) == (0 if is_run else 1, "")
    assert done.stdout.startswith("This would run:\n\n  npm install --global @github/copilot\n\nRun it? [y/N] ")
    assert (tmp_path / "ran").exists() == is_run
    assert is_run or done.stdout.endswith("Nothing was installed.\n")


async def test_an_agent_works_through_the_gateway_s_files_and_terminals_where_they_are_on(tmp_path: Path) -> None:
    async with serving(tmp_path, files=True, terminals=True) as stand:
        (stand.root / "a.txt").write_text("the contents\n")
        talk = stand.talk("openai")
        told = json.loads((await talk.say("capabilities")).text)
        assert (told["fs"], told["terminal"]) == ({"readTextFile": True, "writeTextFile": True}, True)
        assert (await talk.say(f"read {stand.root}/a.txt")).text == "read the contents\n"
        running = asyncio.create_task(talk.say("terminal echo hello"))
        item = await stand.decide(option="allow")
        assert isinstance(item.content, Approval)
        assert item.content.command == "echo hello"
        answer = await asyncio.wait_for(running, PATIENCE)
        assert answer.text.endswith("exit 0: hello\n")
        assert "hello" in answer.thinking
        assert (await stand.http.get("/api/rules")).json()["workspace"] == str(stand.root)


async def test_files_and_terminals_are_off_unless_somebody_turns_them_on(tmp_path: Path) -> None:
    async with serving(tmp_path) as stand:
        told = json.loads((await stand.talk("openai").say("capabilities")).text)
        assert not told.get("terminal")
        assert not any(told.get("fs", {}).values())


async def test_a_question_waits_for_its_answer_as_long_as_a_parked_run(tmp_path: Path) -> None:
    async with serving(tmp_path, {"plain": plain("cursor")}, parking=ParkingSettings(deadline=0.1)) as stand:
        talk = stand.talk("openai", model="acp/plain")
        assert "Which fruit?" in (await talk.say("question")).text
        await stand.idle()
        assert stand.backend._opener.fleet.agents, "its time was up, and the agent was told so"
