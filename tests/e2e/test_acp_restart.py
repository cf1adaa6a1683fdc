"""A conversation with a coding agent over a restart of the gateway, through both official clients."""

import asyncio
import json
import signal
import sys
from pathlib import Path
from typing import Any, cast

import anthropic
import openai
import pytest

from tests.backends.acp_support import AGENTS
from tests.e2e.acp_support import LOOK, Dialect, plain, scripted, serving
from tests.e2e.cli_support import configured, said
from tests.e2e.cli_support import serving as running
from tests.e2e.tools_support import DIALECTS, PATIENCE
from tieline.app.config import AgentSettings
from tieline.app.database.documents import open_store
from tieline.backends.acp.session_store import SHELF

pytestmark = DIALECTS


def state(home: Path) -> Path:
    return home / ".local" / "state" / "tieline" / "agents"


def agents(home: Path, *, can: str = "load") -> dict[str, AgentSettings]:
    return {"scripted": scripted("--can", f"http,{can}", "--memory", str(home / "memory"))}


@pytest.mark.parametrize(("can", "stream"), [("load", True), ("resume", False)])
async def test_after_a_restart_of_the_gateway_the_session_is_taken_up_again(
    tmp_path: Path, dialect: Dialect, can: str, stream: bool
) -> None:
    async with serving(tmp_path, agents(tmp_path, can=can)) as stand:
        talk = stand.talk(dialect, stream=stream)
        await talk.say("think Let me see.\nrun make\nsay Hello there")
    async with serving(tmp_path, agents(tmp_path, can=can)) as again:
        talk.stand = cast(Any, again)
        told = json.loads((await talk.say("recall")).text)
    assert told == ["think Let me see.\nrun make\nsay Hello there", "recall"], "it is not told its history"


async def test_what_the_client_shows_as_text_is_not_taken_for_what_was_said(tmp_path: Path, dialect: Dialect) -> None:
    async with serving(tmp_path, agents(tmp_path)) as stand:
        talk = stand.talk(dialect, extra_headers={"user-agent": "shows-text/1"})
        answer = await talk.say("say One\nrun make\nsay Two")
        assert "Run make" in answer.text
    async with serving(tmp_path, agents(tmp_path)) as again:
        talk.stand = cast(Any, again)
        assert len(json.loads((await talk.say("recall")).text.strip())) == 2


async def test_the_client_s_tools_are_there_after_a_restart(tmp_path: Path, dialect: Dialect) -> None:
    async with serving(tmp_path, agents(tmp_path)) as stand:
        talk = stand.talk(dialect, (LOOK,))
        await talk.say("say One")
    async with serving(tmp_path, agents(tmp_path)) as again:
        talk.stand = cast(Any, again)
        answer = await talk.say('call look_up {"word":"ship"}\nsay bye')
        assert answer.called == [("look_up", {"word": "ship"})]
        assert (await talk.give("a vessel")).text.split() == ["a", "vessel", "bye"]
        assert len(json.loads((await talk.say("recall")).text)) == 3


async def test_a_result_that_comes_after_a_restart_is_told_to_the_same_session(
    tmp_path: Path, dialect: Dialect
) -> None:
    async with serving(tmp_path, agents(tmp_path)) as stand:
        talk = stand.talk(dialect, (LOOK,))
        answer = await talk.say('say Let me look\ncall look_up {"word":"ship"}')
        assert answer.wants_tools
    async with serving(tmp_path, agents(tmp_path)) as again:
        talk.stand = cast(Any, again)
        answer = await talk.give("a vessel", words="recall")
    first, second = json.loads(answer.text)
    assert first.startswith("say Let me look")
    assert "a vessel" in second


async def test_where_sessions_are_not_kept_the_agent_is_told_the_history(tmp_path: Path, dialect: Dialect) -> None:
    agent = {"scripted": plain("remembers", str(tmp_path / "memory"))}
    async with serving(tmp_path, agent, keep_sessions=False) as stand:
        talk = stand.talk(dialect)
        await talk.say("one")
    async with serving(tmp_path, agent, keep_sessions=False) as again:
        talk.stand = cast(Any, again)
        (prompt,) = json.loads((await talk.say("two")).text)
    assert "User: one" in prompt
    assert not state(tmp_path).exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda number: number.name)
async def test_a_gateway_that_was_ended_has_forgotten_nothing(
    tmp_path: Path, dialect: Dialect, number: signal.Signals
) -> None:
    command = [sys.executable, "-I", "-S", str(AGENTS / "faulty.py"), "remembers", str(tmp_path / "memory")]
    configured(tmp_path, f"[acp.agents.keen]\ncommand = {json.dumps(command)}\n")
    history: list[Any] = [{"role": "user", "content": "one"}]
    with running(tmp_path) as (process, port):
        answer = await asyncio.to_thread(asked, dialect, port, history)
        if number is signal.SIGKILL:
            await written(state(tmp_path))
        process.send_signal(number)
        await asyncio.to_thread(said, process)
    history += [{"role": "assistant", "content": answer}, {"role": "user", "content": "two"}]
    with running(tmp_path) as (_, port):
        assert json.loads(await asyncio.to_thread(asked, dialect, port, history)) == ["one", "two"]


def asked(dialect: Dialect, port: int, history: list[Any]) -> str:
    """What the official client gets for a history."""
    question: dict[str, Any] = {"model": "acp/keen", "messages": history}
    options: dict[str, Any] = {"api_key": "any", "max_retries": 0, "timeout": PATIENCE}
    if dialect == "openai":
        with openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", **options) as chat:
            return str(chat.chat.completions.create(**question).choices[0].message.content)
    with anthropic.Anthropic(base_url=f"http://127.0.0.1:{port}", **options) as messages:
        (block,) = messages.messages.create(**question, max_tokens=100).content
        return str(block.text)


async def written(folder: Path) -> None:
    """Wait until a session is on the disk, which is soon after the answer."""
    store = open_store(folder)
    async with asyncio.timeout(PATIENCE):
        while not await store.read(SHELF):  # noqa: ASYNC110 - another process writes it
            await asyncio.sleep(0.01)
    await store.aclose()
