"""Turns of a coding agent through both official clients: words, activities, permissions, plans, tools, leaving."""

import asyncio
import json
import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

from tests.backends.acp_support import group_is_gone, until
from tests.e2e.acp_support import COUNT, LOOK, MODEL, SHARED, Dialect, Stand, leave_in_the_middle, plain, serving, stand
from tests.e2e.tools_support import DIALECTS, PATIENCE, STREAMED_OR_WHOLE
from tieline.model.inbox import Approval, PlanReview

__all__ = ["stand"]

pytestmark = DIALECTS


async def taken(task: "asyncio.Task[Any]") -> Any:
    """What became of something begun."""
    async with asyncio.timeout(PATIENCE):
        return await task


# ── Words and activities ─────────────────────────────────────────────────────────────────────────


@SHARED
@STREAMED_OR_WHOLE
async def test_words_and_thoughts_come_through_and_the_conversation_goes_on(
    stand: Stand, dialect: Dialect, stream: bool
) -> None:
    talk = stand.talk(dialect, stream=stream)
    answer = await talk.say("think Let me see.\nsay Hello there")
    assert (answer.text.strip(), answer.thinking, answer.is_over) == ("Hello there", "Let me see.", True)
    answer = await talk.say("recall")
    assert json.loads(answer.text) == ["think Let me see.\nsay Hello there", "recall"]


@SHARED
@STREAMED_OR_WHOLE
async def test_what_the_agent_does_is_shown_as_reasoning(stand: Stand, dialect: Dialect, stream: bool) -> None:
    answer = await stand.talk(dialect, stream=stream).say("plan look, leap\nrun make\nsay Done")
    assert answer.calls == ()
    assert "look" in answer.thinking
    assert "Run make" in answer.thinking
    assert "Run make" not in answer.text
    assert (answer.text.strip(), answer.is_over) == ("Done", True)


@SHARED
@pytest.mark.parametrize(("client", "is_shown"), [("shows-text/1", True), ("shows-nothing/1", False)])
async def test_a_client_can_have_it_as_text_or_not_at_all(
    stand: Stand, dialect: Dialect, client: str, is_shown: bool
) -> None:
    talk = stand.talk(dialect, extra_headers={"user-agent": client})
    answer = await talk.say("run make\nsay Done")
    assert (answer.thinking, "Run make" in answer.text) == ("", is_shown)
    assert answer.text.strip().endswith("Done")
    recalled = (await talk.say("recall")).text.strip()
    assert len(json.loads(recalled)) == 2, "what was shown is not taken for what was said"


@SHARED
async def test_a_picture_reaches_the_agent(stand: Stand, dialect: Dialect) -> None:
    answer = await stand.talk(dialect).say("kinds", b"\x89PNG\r\n\x1a\n and so on")
    assert sorted(json.loads(answer.text)) == ["image", "text"]


@SHARED
@pytest.mark.parametrize("model", ["acp/scripted?mode=plan", "acp:scripted?mode=plan&model=large"])
async def test_a_mode_and_a_model_stand_behind_the_name(stand: Stand, dialect: Dialect, model: str) -> None:
    settings = json.loads((await stand.talk(dialect, model=model).say("settings")).text)
    assert (settings["mode"], settings["model"]) == ("plan", "large" if "large" in model else "small")


@SHARED
async def test_a_mode_may_be_a_field_of_the_request(stand: Stand, dialect: Dialect) -> None:
    talk = stand.talk(dialect, extra_body={"mode": "plan"})
    assert json.loads((await talk.say("settings")).text)["mode"] == "plan"
    for mode, words in (("sideways", "default, plan"), (5, "`mode` must be the name of a mode")):
        with pytest.raises((openai.BadRequestError, anthropic.BadRequestError), match=words):
            await stand.talk(dialect, extra_body={"mode": mode}).say("settings")


# ── Permissions ──────────────────────────────────────────────────────────────────────────────────


@SHARED
@STREAMED_OR_WHOLE
@pytest.mark.parametrize("option", ["yes", "no", "forever"])
async def test_a_permission_is_answered_by_the_agent_s_own_option(
    stand: Stand, dialect: Dialect, stream: bool, option: str
) -> None:
    asking = asyncio.create_task(stand.talk(dialect, stream=stream).say("permit rm -rf build"))
    item = await stand.next_item()
    assert isinstance(item.content, Approval)
    assert (item.content.command, item.content.kind) == ("rm -rf build", "execute")
    assert [one.id for one in item.content.options] == ["yes", "forever", "no"]
    assert item.origin.model == MODEL
    assert (await stand.answer(item, option="allow")).status_code == 400, "that is no option of this agent"
    assert (await stand.answer(item, option=option)).status_code == 200
    answer = await taken(asking)
    assert (answer.text, answer.is_over) == (f"chosen {option}", True)


@STREAMED_OR_WHOLE
async def test_a_permission_that_nobody_gives_in_time_is_denied_and_the_turn_goes_on(
    tmp_path: Path, dialect: Dialect, stream: bool
) -> None:
    async with serving(tmp_path, {"plain": plain("unknown_call")}, waits=0.05) as stand:
        answer = await stand.talk(dialect, model="acp/plain", stream=stream).say("go")
        assert (answer.text, answer.is_over) == ("chosen no", True)
        assert [entry["what"] for entry in stand.audit()] == ["asked", "expired"]


# ── Plans ────────────────────────────────────────────────────────────────────────────────────────


@SHARED
@STREAMED_OR_WHOLE
async def test_a_plan_that_is_approved_lets_the_agent_begin(stand: Stand, dialect: Dialect, stream: bool) -> None:
    asking = asyncio.create_task(stand.talk(dialect, stream=stream).say("plan buy, paint\nexit Paint it\nsay painting"))
    item = await stand.decide(approved=True)
    assert isinstance(item.content, PlanReview)
    assert (item.content.plan, [step.content for step in item.content.steps]) == ("Paint it", ["buy", "paint"])
    assert (await taken(asking)).text == "chosen gopainting "


@SHARED
@STREAMED_OR_WHOLE
async def test_the_feedback_to_a_rejected_plan_is_the_agent_s_next_prompt(
    stand: Stand, dialect: Dialect, stream: bool
) -> None:
    talk = stand.talk(dialect, stream=stream)
    asking = asyncio.create_task(talk.say("exit Paint it red"))
    await stand.decide(approved=False, feedback="say blue then")
    answer = await taken(asking)
    assert "chosen stay" in answer.text
    assert answer.text.strip().endswith("blue then")
    assert answer.is_over
    assert json.loads((await talk.say("recall")).text) == ["exit Paint it red", "say blue then", "recall"]


# ── The client's tools ───────────────────────────────────────────────────────────────────────────


@SHARED
@STREAMED_OR_WHOLE
async def test_a_tool_of_the_client_is_called_and_its_result_goes_on_with_the_turn(
    stand: Stand, dialect: Dialect, stream: bool
) -> None:
    talk = stand.talk(dialect, (LOOK, COUNT), stream=stream)
    answer = await talk.say('say Let me look\ncall look_up {"word":"ship"}\nsay bye')
    assert (answer.text.strip(), answer.wants_tools) == ("Let me look", True)
    assert answer.called == [("look_up", {"word": "ship"})]
    assert stand.app.gateway.metrics.parked == 1
    answer = await talk.give("a vessel")
    assert (answer.text.split(), answer.is_over) == (["a", "vessel", "bye"], True)
    assert stand.app.gateway.metrics.parked == 0
    assert len(json.loads((await talk.say("recall")).text)) == 2, "the conversation goes on in the same session"


@SHARED
@STREAMED_OR_WHOLE
async def test_several_tools_at_once_are_one_answer_and_their_results_one_message(
    stand: Stand, dialect: Dialect, stream: bool
) -> None:
    talk = stand.talk(dialect, (LOOK, COUNT), stream=stream)
    with stand.unhurried():
        answer = await talk.say('call look_up {"word":"a"} ; look_up {"word":"b"} ; count {}\ncall count {}')
    assert sorted(name for name, _ in answer.called) == ["count", "look_up", "look_up"]
    results = [arguments.get("word", "7") for _, arguments in answer.called]
    answer = await talk.give(*results)
    assert sorted(answer.text.split()) == ["7", "a", "b"]
    assert answer.called == [("count", {})], "a second round is a second leg"
    assert (await talk.give("8")).text.strip() == "8"


# ── Leaving and coming back ──────────────────────────────────────────────────────────────────────


@SHARED
@STREAMED_OR_WHOLE
async def test_a_client_that_leaves_cancels_the_turn_and_the_agent_lives_on(
    stand: Stand, dialect: Dialect, stream: bool
) -> None:
    talk = stand.talk(dialect, stream=stream)
    pid = (await talk.say("pid")).text
    leaving = asyncio.create_task(talk.say("permit rm -rf build\nwait"))
    await stand.next_item()
    leaving.cancel()
    with suppress(asyncio.CancelledError):
        await taken(leaving)
    await stand.nothing_waits()
    assert stand.audit()[-1]["what"] == "withdrawn"
    talk.history.pop()
    assert (await talk.say("pid")).text == pid, "an agent that had not been told to stop would have been ended"


async def test_a_client_that_leaves_in_the_middle_leaves_no_process_behind(tmp_path: Path, dialect: Dialect) -> None:
    async with serving(tmp_path, {"plain": plain("slow")}) as stand:
        await leave_in_the_middle(stand, dialect, "acp/plain", "wait")
        (pid,) = stand.pids
        assert (await stand.talk(dialect, model="acp/plain").say("hello")).text == "You said: hello"
        assert stand.pids == [pid], "it was told to stop, and did"
    await until(lambda: group_is_gone(pid))


@SHARED
async def test_after_a_restart_of_the_agent_the_session_is_loaded(stand: Stand, dialect: Dialect) -> None:
    talk = stand.talk(dialect)
    pid = int((await talk.say("pid")).text)
    os.kill(pid, signal.SIGKILL)
    await stand.gone(pid)
    answer = await talk.say("recall")
    assert json.loads(answer.text) == ["pid", "recall"], "its history is neither told again nor part of the answer"
