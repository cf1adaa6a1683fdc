"""Coding agents behind the gateway (catalogue 144 to 147): what they ask, do by themselves, and call of the client's.

The agents are real processes; the clients are the official ones of both dialects.
"""

import asyncio
import json
from contextlib import suppress
from pathlib import Path

import pytest

from tests.backends.acp_support import tool, until
from tests.e2e.acp_support import (
    COUNT,
    LOOK,
    SHARED,
    Dialect,
    Stand,
    leave_in_the_middle,
    plain,
    scripted,
    serving,
    stand,
)
from tests.e2e.tools_support import DIALECTS, PATIENCE, STREAMED_OR_WHOLE
from tieline.model.inbox import Approval, PlanReview

__all__ = ["stand"]

pytestmark = DIALECTS

PLAIN = "acp/plain"


# ── 144: permissions left open when a turn is cancelled ──────────────────────────────────────────


@STREAMED_OR_WHOLE
async def test_144_an_open_permission_is_answered_cancelled_and_withdrawn(
    tmp_path: Path, dialect: Dialect, stream: bool
) -> None:
    file = tmp_path / "answer"
    async with serving(tmp_path, {"plain": plain("cancelled_permission", str(file))}) as stand:
        leaving = asyncio.create_task(stand.talk(dialect, model=PLAIN, stream=stream).say("wait"))
        await stand.next_item()
        leaving.cancel()
        with suppress(asyncio.CancelledError):
            await leaving
        await until(lambda: file.exists() and bool(file.read_text()))
        assert json.loads(file.read_text()) == {"outcome": {"outcome": "cancelled"}}
        await stand.nothing_waits()
        answer = await stand.talk(dialect, model=PLAIN, stream=stream).say("hello")
        assert answer.text == "You said: hello"


async def test_144_what_an_agent_says_after_the_end_is_in_no_later_answer(tmp_path: Path, dialect: Dialect) -> None:
    async with serving(tmp_path, {"plain": plain("slow")}) as stand:
        await leave_in_the_middle(stand, dialect, PLAIN, "wait")
        await stand.idle()
        before = stand.pids
        talk = stand.talk(dialect, model=PLAIN)
        talk.history = [{"role": "user", "content": "wait"}]
        answer = await talk.say("hello")
        assert answer.text.endswith("hello")
        assert "late" not in answer.text
        assert stand.pids == before


# ── 145: questions to a person nobody can answer ─────────────────────────────────────────────────


@STREAMED_OR_WHOLE
async def test_145_a_permission_nobody_gives_is_seen_waiting_and_then_denied(
    tmp_path: Path, dialect: Dialect, stream: bool
) -> None:
    async with serving(tmp_path, {"plain": plain("unknown_call")}, waits=0.2) as stand:
        asking = asyncio.create_task(stand.talk(dialect, model=PLAIN, stream=stream).say("go"))
        item = await stand.next_item()
        assert isinstance(item.content, Approval)
        listed = (await stand.http.get("/api/inbox")).json()["items"]
        assert [one["id"] for one in listed] == [item.id]
        async with asyncio.timeout(PATIENCE):
            answer = await asking
        assert (answer.text, answer.is_over) == ("chosen no", True)
        assert stand.inbox.items == ()


async def test_145_a_plan_nobody_looks_at_is_rejected_with_the_reason(tmp_path: Path, dialect: Dialect) -> None:
    async with serving(tmp_path, {"plain": plain("cursor")}, waits=0.1) as stand:
        asking = asyncio.create_task(stand.talk(dialect, model=PLAIN).say("plan"))
        assert isinstance((await stand.next_item()).content, PlanReview)
        async with asyncio.timeout(PATIENCE):
            answer = await asking
        assert answer.is_over
        assert '"rejected"' in answer.text
        assert "Nobody answered" in answer.text


async def test_145_a_question_without_anybody_ends_the_turn_and_the_next_message_answers(
    tmp_path: Path, dialect: Dialect
) -> None:
    async with serving(tmp_path, {"plain": plain("cursor")}, waits=0.1) as stand:
        talk = stand.talk(dialect, model=PLAIN)
        question = await talk.say("question")
        assert question.is_over
        assert "Which fruit?" in question.text
        answered = json.loads((await talk.say("1, 2")).text)
        assert answered == {"outcome": "answered", "answers": [{"questionId": "q", "selectedOptionIds": ["a", "b"]}]}


# ── 146: tools an agent ran itself are handed to the client ──────────────────────────────────────


@SHARED
@STREAMED_OR_WHOLE
@pytest.mark.parametrize("client", ["usual/1", "shows-text/1", "shows-nothing/1"])
async def test_146_what_an_agent_does_by_itself_is_never_a_call_for_the_client(
    stand: Stand, dialect: Dialect, stream: bool, client: str
) -> None:
    tools = (tool("edit"), tool("run"), tool("sh"))
    talk = stand.talk(dialect, tools, stream=stream, extra_headers={"user-agent": client})
    answer = await talk.say("edit\nrun make\nshell ls\nsay Done")
    assert (answer.calls, answer.is_over) == ((), True)
    assert ("Edit a.py" in answer.thinking, "Edit a.py" in answer.text) == ("usual" in client, "text" in client)
    assert answer.text.strip().endswith("Done")
    assert stand.app.gateway.metrics.parked == 0


# ── 147: waiting in line for tool servers locks up ───────────────────────────────────────────────


@SHARED
@STREAMED_OR_WHOLE
async def test_147_calls_made_at_once_are_served_at_once(stand: Stand, dialect: Dialect, stream: bool) -> None:
    talk = stand.talk(dialect, (LOOK, COUNT), stream=stream)
    with stand.unhurried():
        answer = await talk.say('call look_up {"word":"a"} ; look_up {"word":"b"} ; count {}')
    assert sorted(name for name, _ in answer.called) == ["count", "look_up", "look_up"]
    results = [arguments.get("word", "7") for _, arguments in answer.called]
    assert (await talk.give(*results)).text.split() == ["a", "b", "7"]


@SHARED
async def test_147_a_call_that_waits_keeps_no_other_conversation_waiting(stand: Stand, dialect: Dialect) -> None:
    first, second = stand.talk(dialect, (COUNT,)), stand.talk(dialect, (COUNT,))
    await first.say("call count {}\nsay first")
    await second.say("call count {}\nsay second")
    assert (await second.give("2")).text.split() == ["2", "second"]
    assert (await first.give("1")).text.split() == ["1", "first"]


# ── 164: client tools leak between conversations of one agent process ────────────────────────────


@pytest.mark.parametrize("servers", ["last", "first"])
async def test_164_a_conversation_calls_its_own_tools_however_many_others_were_opened(
    tmp_path: Path, dialect: Dialect, servers: str
) -> None:
    """Agents that know MCP servers by name alone take the newest (OpenCode) or the oldest (Hermes) for all sessions."""
    async with serving(tmp_path, {"scripted": scripted("--can", "http", "--servers", servers)}) as stand:
        first, second = stand.talk(dialect, (COUNT,)), stand.talk(dialect, (COUNT,))
        await first.say("say one")
        await second.say("say two")
        assert [name for name, _ in (await first.say("call count {}")).called] == ["count"], "called of its own client"
        assert [name for name, _ in (await second.say("call count {}")).called] == ["count"]
        assert (await first.give("1")).text.strip() == "1"
        assert (await second.give("2")).text.strip() == "2"


async def test_164_a_conversation_that_streams_receives_no_call_of_another(tmp_path: Path, dialect: Dialect) -> None:
    async with serving(tmp_path, {"scripted": scripted("--can", "http", "--servers", "last")}) as stand:
        first, second = stand.talk(dialect, (COUNT,)), stand.talk(dialect, (COUNT,), stream=True)
        await first.say("say one")
        await second.say("say two")
        streaming = asyncio.create_task(second.say("permit something\nsay mine"))
        item = await stand.next_item()
        assert [name for name, _ in (await first.say("call count {}")).called] == ["count"]
        await stand.answer(item, option="yes")
        answer = await streaming
        assert (answer.called, answer.text) == ([], "chosen yesmine ")
        assert (await first.give("1")).text.strip() == "1"


async def test_164_a_call_that_waits_survives_that_another_conversation_opens(tmp_path: Path, dialect: Dialect) -> None:
    async with serving(tmp_path, {"scripted": scripted("--can", "http", "--servers", "last")}) as stand:
        first, second = stand.talk(dialect, (COUNT,)), stand.talk(dialect, (COUNT,))
        await first.say("call count {}\nsay first")
        await second.say("say two")
        assert (await first.give("1")).text.split() == ["1", "first"]


# ── 165: a call of the client's own tool is taken for a tool of the agent ────────────────────────


@SHARED
@pytest.mark.parametrize("style", ["claude", "codex", "copilot", "gemini", "goose", "qwen"])
async def test_165_a_client_tool_is_called_once_and_without_asking_however_the_agent_tells_of_it(
    stand: Stand, dialect: Dialect, style: str
) -> None:
    talk = stand.talk(dialect, (LOOK,))
    answer = await talk.say(f"called {style}")
    assert answer.called == [("look_up", {"word": "fjord"})]
    assert answer.thinking == "", "it is not shown a second time"
    assert stand.inbox.items == ()
    assert (await talk.give("deep")).text.strip() == "yes: deep"


# ── 166: what an agent ran, or its output, is not shown ──────────────────────────────────────────


@STREAMED_OR_WHOLE
async def test_166_the_command_is_shown_and_not_the_name_under_which_the_call_was_announced(
    tmp_path: Path, dialect: Dialect, stream: bool
) -> None:
    async with serving(tmp_path, {"plain": plain("prepares")}) as stand:
        answer = await stand.talk(dialect, model=PLAIN, stream=stream).say("make test")
        assert answer.thinking.splitlines() == ["▸ make test", "  3 failed, 5 passed"]


@STREAMED_OR_WHOLE
async def test_166_output_that_comes_with_the_end_of_a_call_is_shown(
    tmp_path: Path, dialect: Dialect, stream: bool
) -> None:
    async with serving(tmp_path, {"plain": plain("prints_at_the_end")}, waits=0.1) as stand:
        answer = await stand.talk(dialect, model=PLAIN, stream=stream).say("test")
        assert "make test" in answer.thinking.splitlines()[0]
        assert answer.thinking.splitlines()[1] == "  3 failed, 5 passed"


# ── 167: a turn that ends over a denial is an empty answer ───────────────────────────────────────


@STREAMED_OR_WHOLE
@pytest.mark.parametrize("words", ["go", "cancel", "say something first"])
async def test_167_a_turn_that_ends_without_a_word_over_a_denial_says_what_was_denied_and_why(
    tmp_path: Path, dialect: Dialect, stream: bool, words: str
) -> None:
    async with serving(tmp_path, {"plain": plain("ends_silently")}, waits=0.1) as stand:
        answer = await stand.talk(dialect, model=PLAIN, stream=stream).say(words)
        assert answer.is_over
        said = "The agent stopped here. “make clean” was not allowed: Nobody answered within 0.1 seconds."
        assert answer.text.replace("Let me run that.", "").strip() == said


async def test_167_a_denial_by_the_user_is_said_too(tmp_path: Path, dialect: Dialect) -> None:
    async with serving(tmp_path, {"plain": plain("ends_silently")}) as stand:
        asking = asyncio.create_task(stand.talk(dialect, model=PLAIN).say("go"))
        await stand.decide(option="no")
        async with asyncio.timeout(PATIENCE):
            assert (await asking).text == "The agent stopped here. “make clean” was not allowed."
