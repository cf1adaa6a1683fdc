"""Failures of tool calling over a Cursor account, found after the catalogue was numbered, on both transports."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.cursor_support import (
    DIALECTS,
    STREAMED_OR_WHOLE,
    TRANSPORTS,
    Dialect,
    Transport,
    calls,
    eager,
    natively,
    scripted,
    serving,
)
from tests.wire.coding_clients import OPENCODE, WEATHER
from tieline.app.config import ClientSettings, ToolSettings
from tieline.sim.cursor import SimSettings

__all__ = ["eager"]

pytestmark = [TRANSPORTS, pytest.mark.usefixtures("eager")]

HELLO = "say hello there my friend"
ANSWER = "hello there my friend"
CALLS: Sequence[Any] = ["open", {"text": "Let me look."}, calls("Oslo")]
ONE_CALL = scripted('text: Let me look.\ncall: get_weather {"city": "Oslo"}', "text: It is {{result}} in Oslo.")
SWIFT = SimSettings(heartbeat=0.02)
PATIENCE = 1.0


def stored(text: str) -> Any:
    """A copy of the assistant's message, as the service has its client keep it."""
    return {"set_blob": json.dumps({"role": "assistant", "content": [{"type": "text", "text": text}]})}


# ── 168: an error that may pass ends an answer ───────────────────────────────────────────────────

PASSING = pytest.mark.parametrize("error", ["unavailable", "internal", "provider", "exhausted", "deadline_exceeded"])


@PASSING
@STREAMED_OR_WHOLE
async def test_168_an_error_in_the_middle_of_an_answer_is_retried_and_no_word_is_lost_or_doubled(
    transport: Transport, error: str, stream: bool
) -> None:
    async with serving(transport) as stand:
        stand.plays(["open", {"text": "hello the"}, {"error": error}])
        answer = await stand.talk("openai", stream=stream).say(HELLO)
        assert (answer.text, answer.is_over, stand.sim.runs) == (ANSWER, True, 2)


@DIALECTS
async def test_168_an_error_after_a_checkpoint_is_retried_from_the_checkpoint(
    transport: Transport, dialect: Dialect
) -> None:
    async with serving(transport) as stand:
        stand.plays(["open", "checkpoint", {"text": "hello the"}, {"error": "unavailable"}])
        answer = await stand.talk(dialect).say(HELLO)
        assert (answer.text, stand.sim.runs) == (ANSWER, 2)
        assert stand.record.received[0].run_request.action.HasField("resume_action")


async def test_168_an_error_after_a_tool_result_is_retried_without_calling_the_tool_again(
    transport: Transport,
) -> None:
    async with serving(transport) as stand:
        stand.plays([*CALLS, {"wait": "exec"}, {"text": "It is "}, {"error": "unavailable"}])
        talk = stand.talk("openai", WEATHER)
        await talk.say(ONE_CALL)
        answer = await talk.give("sunny")
        assert (answer.text, answer.calls, stand.sim.runs) == ("It is sunny in Oslo.", (), 2)


async def test_168_an_error_after_the_turn_has_ended_does_not_cost_the_answer(transport: Transport) -> None:
    async with serving(transport) as stand:
        stand.plays(["open", "mind", {"turn_ended": {}}, {"error": "unavailable"}])
        answer = await stand.talk("openai", stream=False).say(HELLO)
        assert (answer.text, answer.is_over, stand.sim.runs) == (ANSWER, True, 1)


# ── 169: an answer that exists only in a stored copy ─────────────────────────────────────────────

ENDINGS: dict[str, Sequence[Any]] = {
    "a clean end": [{"turn_ended": {}}, "end"],
    "heartbeats": ["hold"],
    "silence": [{"hold": "silent"}],
    "a cut": [{"leave": "cut"}],
    "an early end": [{"leave": "eof"}],
    "an error that may pass": [{"error": "unavailable"}],
    "an error that stays": [{"error": "quota"}],
}


@pytest.mark.parametrize("ending", ENDINGS.values(), ids=ENDINGS.keys())
@pytest.mark.parametrize("streamed", ["", "It is "], ids=["nothing", "half"])
async def test_169_an_answer_that_was_only_stored_is_delivered_once_however_the_run_ends(
    transport: Transport, ending: Sequence[Any], streamed: str
) -> None:
    async with serving(
        transport, SWIFT, stall_timeout=PATIENCE, first_byte_timeout=PATIENCE, idle_timeout=PATIENCE
    ) as stand:
        said = [{"text": streamed}] if streamed else []
        stand.plays(["open", *said, stored("It is sunny."), *ending])
        answer = await stand.talk("openai").say("How is the weather?")
        assert (answer.text, answer.is_over, stand.sim.runs) == ("It is sunny.", True, 1)


async def test_169_an_answer_that_was_streamed_and_stored_is_delivered_once(transport: Transport) -> None:
    async with serving(transport) as stand:
        stand.plays(["open", {"text": "It is sunny."}, stored("It is sunny."), {"turn_ended": {}}, "end"])
        assert (await stand.talk("openai").say("How is the weather?")).text == "It is sunny."


async def test_169_an_answer_to_a_tool_result_that_was_only_stored_is_delivered(transport: Transport) -> None:
    async with serving(transport) as stand:
        stand.plays([*CALLS, {"wait": "exec"}, stored("It is sunny."), {"turn_ended": {}}, "end"])
        talk = stand.talk("openai", WEATHER)
        await talk.say("How is the weather?")
        answer = await talk.give("sunny")
        assert (answer.text, answer.is_over, stand.sim.runs) == ("It is sunny.", True, 1)


async def test_169_copies_of_earlier_answers_are_not_taken_for_a_new_one(transport: Transport) -> None:
    async with serving(transport) as stand:
        talk = stand.talk("openai", WEATHER)
        stand.plays(["open", {"text": "Yes."}, {"turn_ended": {}}, "end"])
        await talk.say("Is it so?")
        stand.plays(
            [
                "open",
                stored("Yes."),
                {"text": "Let me look:"},
                calls("Oslo"),
                {"wait": "exec"},
                {"turn_ended": {}},
                "end",
            ]
        )
        await talk.say("And the weather?")
        answer = await talk.give("sunny")
        assert (answer.text, answer.is_over) == ("", True)


# ── 170: searches with the gateway's own tools ───────────────────────────────────────────────────


async def test_170_cursor_s_own_searches_find_what_is_there_with_the_gateway_s_tools(
    transport: Transport, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text("well\nhello there\n")
    (tmp_path / "b.py").write_text("print('hello')\n")
    tools, clients = ToolSettings(enabled=True, workspace=str(tmp_path)), {"all": ClientSettings(tools=True)}
    async with serving(transport, tools=tools, clients=clients) as stand:
        stand.plays(natively(("grep", {"pattern": "hello"}), ("glob", {"pattern": "**/*.py"})))
        answer = await stand.talk("openai").say("Look for it.")
        found, named = answer.text.split("<glob gave: ")
        assert "hello there" in found
        assert "print('hello')" in found
        assert "b.py" in named
        assert "a.txt" not in named


# ── 171: notes of a client about a command ───────────────────────────────────────────────────────


async def test_171_what_a_client_notes_about_a_command_reaches_the_model(transport: Transport) -> None:
    note = "bash tool truncated output as it exceeded 30000 char limit"
    async with serving(transport) as stand:
        stand.plays(natively(("shell", {"command": "cat big"})))
        talk = stand.talk("openai", OPENCODE)
        await talk.say("Show it.")
        answer = await talk.give(f"some of it\n\n<bash_metadata>\n{note}\nexit code: 3\n</bash_metadata>")
        assert note in answer.text
        exits = [one.exec_client_message.shell_stream.exit for one in stand.record.received]
        assert [end.code for end in exits if end.code] == [3]


# ── 172: no answer is taken for a yes ────────────────────────────────────────────────────────────


@DIALECTS
async def test_172_a_plan_that_nobody_reviews_is_shown_and_not_approved_before_the_user_does(
    transport: Transport, dialect: Dialect
) -> None:
    async with serving(transport) as stand:
        talk = stand.talk(dialect)
        shown = await talk.say("make a plan for a garden")
        assert "Carry out this plan?" in shown.text
        assert not stand.record.run.replies
        assert (await talk.say("Yes.")).text.strip() == "The plan is approved."


async def test_172_a_change_of_mode_that_nobody_allows_is_refused_with_the_reason(transport: Transport) -> None:
    async with serving(transport) as stand:
        answer = await stand.talk("openai").say("switch to plan mode")
        assert "needs the consent of the user" in answer.text


# ── 173: conversations that begin alike ──────────────────────────────────────────────────────────


@DIALECTS
async def test_173_conversations_that_begin_alike_have_ids_of_their_own_and_keep_them(
    transport: Transport, dialect: Dialect
) -> None:
    async with serving(transport) as stand:
        talks = [stand.talk(dialect) for _ in range(2)]
        for number, talk in enumerate(talks):
            stand.plays(["open", {"text": f"Hello {number}."}, "checkpoint", {"turn_ended": {}}, "end"])
            await talk.say("Hello!")
        for talk in talks:
            await talk.say("say on")
        first, second, third, fourth = (record.received[0].run_request.conversation_id for record in stand.sim.journal)
        assert first != second
        assert (third, fourth) == (first, second)
