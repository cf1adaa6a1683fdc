"""Agents behind the gateway (catalogue 135 to 143 and 148) and bodies after a reset (81): Cursor, on both transports.

The service is the simulator; the clients are the official ones of both dialects.
"""

import asyncio
import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from tests.e2e.cursor_support import (
    DIALECTS,
    PATIENCE,
    STREAMED_OR_WHOLE,
    TRANSPORTS,
    Dialect,
    Outcome,
    Stand,
    Transport,
    calls,
    eager,
    natively,
    scripted,
    serving,
)
from tests.wire.coding_clients import CLAUDE_CODE, CLINE, OPENCODE, PI, WEATHER
from tieline.app.config import ParkingSettings
from tieline.model.request import ToolSpec
from tieline.sim.cursor import ServerTurn, SimSettings, Step, Wait
from tieline.wire.cursor._pb.agent_pb2 import AgentRunRequest
from tieline.wire.cursor._pb.exec_kinds_pb2 import McpArgs
from tieline.wire.cursor._pb.exec_pb2 import ExecClientMessage, ExecServerMessage
from tieline.wire.cursor.protobuf_json import to_value

__all__ = ["eager"]

pytestmark = [TRANSPORTS, DIALECTS, pytest.mark.usefixtures("eager")]

ONE_CALL = scripted('text: Let me look.\ncall: get_weather {"city": "Oslo"}', "text: It is {{result}} in Oslo.")
CALLS: Sequence[Any] = ["open", {"text": "Let me look."}, calls("Oslo")]
SWIFT = SimSettings(heartbeat=0.02)
STALL = 1.0
LARGE = 600_000


def requests(stand: Stand) -> list[AgentRunRequest]:
    """What each run began with."""
    return [record.received[0].run_request for record in stand.sim.journal]


def results(stand: Stand) -> list[ExecClientMessage]:
    """What was answered to execs in the latest run; the context does not count."""
    messages = [one.exec_client_message for one in stand.record.received if one.HasField("exec_client_message")]
    return [message for message in messages if not message.HasField("request_context_result")]


# ── 81: a body that cannot be sent again after a reset ───────────────────────────────────────────


@STREAMED_OR_WHOLE
@pytest.mark.parametrize("how", ["reset", "cut"])
async def test_081_a_request_whose_stream_is_reset_is_sent_again_whole(
    transport: Transport, dialect: Dialect, stream: bool, how: str
) -> None:
    async with serving(transport) as stand:
        stand.plays([{"leave": how}])
        words = scripted("text: Quite long.") + "x" * LARGE
        answer = await stand.talk(dialect, stream=stream).say(words)
        assert answer.text == "Quite long."
        first, second = requests(stand)
        assert first.action.user_message_action.user_message.text == words
        assert second.action.user_message_action.user_message.text == words


# ── 135: only heartbeats after a tool result ─────────────────────────────────────────────────────


@STREAMED_OR_WHOLE
async def test_135_after_a_result_the_answer_comes_in_the_same_run(
    transport: Transport, dialect: Dialect, stream: bool
) -> None:
    async with serving(transport, SWIFT) as stand:
        talk = stand.talk(dialect, WEATHER, stream=stream)
        await talk.say(ONE_CALL)
        assert (await talk.give("sunny")).text == "It is sunny in Oslo."
        assert (stand.counted, stand.record.duplicates) == ((1, 2), 0)


async def test_135_blobs_are_acknowledged_while_the_client_runs_its_tool(
    transport: Transport, dialect: Dialect
) -> None:
    """What made others see heartbeats only: a service that waits for an acknowledgement says nothing else."""
    is_parked, is_stored = asyncio.Event(), asyncio.Event()

    def stored(turn: ServerTurn) -> Iterator[Step]:
        yield from turn.run.acknowledged()
        is_stored.set()

    async with serving(transport, SWIFT) as stand:
        busy = [Wait(is_parked.is_set), {"set_blob": "a"}, {"set_blob": "b"}, {"get_blob": "00"}, stored]
        stand.plays([*CALLS, *busy, {"wait": "all"}, {"text": "It is sunny."}, "close"])
        talk = stand.talk(dialect, WEATHER)
        await talk.say("How is the weather?")
        is_parked.set()
        async with asyncio.timeout(PATIENCE):
            await is_stored.wait()
        assert (await talk.give("sunny")).text == "It is sunny."
        assert (stand.sim.runs, stand.record.duplicates) == (1, 0)


async def test_135_a_service_that_goes_silent_after_a_result_is_asked_again_with_the_whole_history(
    transport: Transport, dialect: Dialect
) -> None:
    async with serving(transport, SWIFT, stall_timeout=STALL) as stand:
        stand.plays([*CALLS, {"wait": "exec"}, "hold"])
        talk = stand.talk(dialect, WEATHER)
        await talk.say(ONE_CALL)
        assert (await talk.give("sunny")).text == "It is sunny in Oslo."
        assert [record.ending for record in stand.sim.journal] == ["left", "ended"]


# ── 136: an empty conversation state must still be sent ──────────────────────────────────────────


@STREAMED_OR_WHOLE
async def test_136_every_run_has_a_conversation_state(transport: Transport, dialect: Dialect, stream: bool) -> None:
    async with serving(transport) as stand:
        talk = stand.talk(dialect, stream=stream)
        await talk.say("say one")
        await talk.say("say two")
        talk.history = [{"role": "user", "content": "Hello."}, {"role": "assistant", "content": "Hello!"}]
        await talk.say("say three")
        first, second, third = requests(stand)
        assert first.HasField("conversation_state")
        assert not first.conversation_state.root_prompt_messages_json
        assert second.conversation_state.HasField("token_details"), "the checkpoint of the turn before"
        assert len(third.conversation_state.root_prompt_messages_json) == 2


# ── 137: whole numbers become fractions, text becomes numbers ────────────────────────────────────

EXACT: dict[str, Any] = {
    "count": 3,
    "large": 2**53,
    "negative": -7,
    "zero": 0,
    "share": 0.25,
    "word": "3",
    "padded": "007",
    "exponent": "1e3",
    "endless": "Infinity",
    "nothing": None,
    "list": [1, "1", 1.5, [2]],
    "deep": {"n": 1, "s": "1.0"},
}


@STREAMED_OR_WHOLE
async def test_137_numbers_and_text_stay_what_they_are(transport: Transport, dialect: Dialect, stream: bool) -> None:
    async with serving(transport) as stand:
        talk = stand.talk(dialect, WEATHER, stream=stream)
        answer = await talk.say(scripted(f"call: get_weather {json.dumps(EXACT)}", "text: done"))
        (call,) = answer.calls
        assert json.dumps(call.arguments, sort_keys=True) == json.dumps(EXACT, sort_keys=True)


@pytest.mark.parametrize("number", [float("inf"), float("-inf"), float("nan")])
async def test_137_a_number_that_json_does_not_know_is_null(
    transport: Transport, dialect: Dialect, number: float
) -> None:
    def play(turn: ServerTurn) -> Iterator[Step]:
        yield from turn.opening()
        args = McpArgs(tool_name="get_weather", provider_identifier="tieline", name="tieline-get_weather")
        args.args["city"].number_value = number
        args.args["days"].CopyFrom(to_value(3))
        yield turn.run.ask_exec(ExecServerMessage(mcp_args=args))
        yield Wait(lambda: turn.run.has_answers(["exec"]))
        yield from turn.closing()

    async with serving(transport) as stand:
        stand.plays(play)
        answer = await stand.talk(dialect, WEATHER).say("go")
        assert answer.called == [("get_weather", {"city": None, "days": 3})]


# ── 138: an agent wants a tool the client does not have ──────────────────────────────────────────


@STREAMED_OR_WHOLE
async def test_138_what_no_tool_can_do_is_refused_with_what_to_use_instead(
    transport: Transport, dialect: Dialect, stream: bool
) -> None:
    async with serving(transport) as stand:
        stand.plays(natively(("delete", {"path": "/p/a.py"})))
        answer = await stand.talk(dialect, CLAUDE_CODE, stream=stream).say("delete it")
        assert answer.is_over
        assert "<delete failed: rejected: " in answer.text
        assert "Use `Bash` instead." in answer.text
        (result,) = results(stand)
        assert result.delete_result.WhichOneof("result") == "rejected"


async def test_138_a_tool_that_was_never_offered_is_not_found_and_a_kind_nobody_knows_is_thrown_back(
    transport: Transport, dialect: Dialect
) -> None:
    unknown = {"exec": {"mcpArgs": {"name": "nope", "toolName": "nope", "providerIdentifier": "tieline"}}}
    async with serving(transport) as stand:
        stand.plays(["open", unknown, {"exec": {"unknown": 99}}, {"wait": "exec"}, {"text": "Well then."}, "close"])
        answer = await stand.talk(dialect, WEATHER).say("go")
        assert (answer.text, answer.calls, answer.is_over) == ("Well then.", (), True)
        (result,) = results(stand)
        assert result.mcp_result.WhichOneof("result") == "tool_not_found"
        assert list(stand.record.run.throws.values()) != []


# ── 139: resuming works but the first message fails ──────────────────────────────────────────────


@STREAMED_OR_WHOLE
@pytest.mark.parametrize("how", ["eof", "reset", "cut"])
async def test_139_a_run_that_is_gone_when_its_result_comes_is_replayed_unseen(
    transport: Transport, dialect: Dialect, stream: bool, how: str
) -> None:
    """The run dies as soon as it hears of the result: after it was resumed, and before its first word."""
    async with serving(transport) as stand:
        stand.plays([*CALLS, {"wait": "exec"}, {"leave": how}])
        talk = stand.talk(dialect, WEATHER, stream=stream)
        await talk.say(ONE_CALL)
        answer = await talk.give("sunny")
        assert (answer.text, answer.is_over, stand.sim.runs) == ("It is sunny in Oslo.", True, 2)
        assert stand.app.gateway.metrics.resumed == 1


# ── 140: a conversation is taken for the continuation of another ─────────────────────────────────


async def test_140_a_request_on_the_side_leaves_the_waiting_run_alone(transport: Transport, dialect: Dialect) -> None:
    async with serving(transport) as stand:
        talk = stand.talk(dialect, WEATHER)
        await talk.say(ONE_CALL)
        title = await stand.talk(dialect).say("Generate a concise title for this conversation: weather in Oslo")
        assert "Oslo" in title.text
        assert stand.app.gateway.metrics.parked == 1
        assert (await talk.give("sunny")).text == "It is sunny in Oslo."
        assert stand.counted == (2, 3)


async def test_140_a_rewound_conversation_is_not_the_one_that_waits(transport: Transport, dialect: Dialect) -> None:
    async with serving(transport) as stand:
        talk = stand.talk(dialect, WEATHER)
        await talk.say(ONE_CALL)
        rewound = stand.talk(dialect, WEATHER)
        assert (await rewound.say("say something else")).text == "something else"
        assert (await talk.give("sunny")).text == "It is sunny in Oslo."
        assert stand.counted == (2, 3)


async def test_140_notes_that_a_client_adds_to_a_result_do_not_make_it_another_conversation(
    transport: Transport, dialect: Dialect
) -> None:
    async with serving(transport) as stand:
        talk = stand.talk(dialect, WEATHER)
        await talk.say(ONE_CALL)
        answer = await talk.give("sunny", words="<system-reminder>The date is changing.</system-reminder>")
        assert "It is sunny" in answer.text
        assert stand.counted == (1, 2)


async def test_140_a_summary_in_place_of_the_history_starts_anew(transport: Transport, dialect: Dialect) -> None:
    async with serving(transport) as stand:
        talk = stand.talk(dialect, WEATHER)
        await talk.say(ONE_CALL)
        summarized = stand.talk(dialect, WEATHER)
        summarized.history = [
            {"role": "user", "content": "So far: the user asked for the weather in Oslo."},
            {"role": "assistant", "content": "I asked a tool."},
        ]
        assert (await summarized.say("say go on")).text == "go on"
        assert stand.sim.runs == 2
        told = requests(stand)[1]
        assert len(told.conversation_state.root_prompt_messages_json) == 2


# ── 176: a request for a summary goes to a run that waits for results ────────────────────────────


async def test_176_a_summary_is_not_asked_of_a_run_that_would_call_tools(
    transport: Transport, dialect: Dialect
) -> None:
    two_calls = scripted('call: get_weather {"city": "Oslo"}', 'call: get_weather {"city": "Bergen"}', "text: Done.")
    async with serving(transport) as stand:
        talk = stand.talk(dialect, WEATHER)
        await talk.say(two_calls)
        talk.tools = []
        answer = await talk.give("sunny", words="Summarise this conversation so that it can be continued.")
        assert not answer.calls
        assert "sunny" in answer.text
        assert (stand.sim.runs, stand.app.gateway.metrics.parked) == (2, 0)


# ── 141: a placeholder result leaks into the answer ──────────────────────────────────────────────


@STREAMED_OR_WHOLE
async def test_141_nothing_is_answered_for_the_client_while_it_runs_its_tool(
    transport: Transport, dialect: Dialect, stream: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tieline.backends.cursor.attempt.EXEC_HEARTBEAT", 0.01)
    async with serving(transport, SWIFT) as stand:
        talk = stand.talk(dialect, WEATHER, stream=stream)
        await talk.say(ONE_CALL)
        await stand.until(lambda: stand.record.kinds.count("exec_client_control_message") >= 5)
        assert results(stand) == []
        assert stand.sim.legs == 1
        assert (await talk.give("sunny")).text == "It is sunny in Oslo."
        (result,) = results(stand)
        assert [part.text.text for part in result.mcp_result.success.content] == ["sunny"]


# ── 142: large arguments are cut when replayed ───────────────────────────────────────────────────


@pytest.mark.parametrize("deadline", [0.0, 900.0], ids=["replayed", "resumed"])
async def test_142_large_arguments_and_results_are_whole_in_the_run_and_in_its_replay(
    transport: Transport, dialect: Dialect, deadline: float
) -> None:
    large = "ä" * 300_000 + "end"

    def play(turn: ServerTurn) -> Iterator[Step]:
        yield from turn.opening()
        args = McpArgs(tool_name="get_weather", provider_identifier="tieline", name="tieline-get_weather")
        args.args["city"].CopyFrom(to_value(large))
        yield turn.run.ask_exec(ExecServerMessage(mcp_args=args))
        yield Wait(lambda: turn.run.has_answers(["exec"]))
        yield from turn.closing()

    async with serving(transport, parking=ParkingSettings(deadline=deadline)) as stand:
        stand.plays(play)
        talk = stand.talk(dialect, WEATHER)
        answer = await talk.say("go")
        assert answer.called == [("get_weather", {"city": large})]
        if not deadline:
            await stand.ended("left")
        await talk.give(large[::-1])
        if deadline:
            (result,) = results(stand)
            assert result.mcp_result.success.content[0].text.text == large[::-1]
        else:
            told = [json.loads(blob) for blob in stand.record.run.blobs.values()]
            said = json.dumps(told, ensure_ascii=False)
            assert large in said
            assert large[::-1] in said


# ── 143: timeouts in the wrong unit, exit codes taken for crashes ────────────────────────────────


@pytest.mark.parametrize(
    ("tools", "called"),
    [
        (CLAUDE_CODE, ("Bash", {"command": "sleep 1", "timeout": 30_000})),
        (OPENCODE, ("bash", {"command": "sleep 1", "description": "Run sleep 1", "timeout": 30_000})),
        (PI, ("bash", {"command": "sleep 1", "timeout": 30})),
        (CLINE, ("execute_command", {"command": "sleep 1", "requires_approval": True, "timeout": 30})),
    ],
    ids=["milliseconds", "milliseconds-too", "seconds", "whole-seconds"],
)
async def test_143_a_timeout_is_told_in_the_unit_of_the_client_s_tool(
    transport: Transport, dialect: Dialect, tools: Sequence[ToolSpec], called: tuple[str, Any]
) -> None:
    async with serving(transport) as stand:
        stand.plays(natively(("shell", {"command": "sleep 1"})))
        answer = await stand.talk(dialect, tools).say("go")
        assert answer.called == [called]


@STREAMED_OR_WHOLE
async def test_143_a_command_that_ends_with_an_exit_code_has_ended_well(
    transport: Transport, dialect: Dialect, stream: bool
) -> None:
    async with serving(transport) as stand:
        stand.plays(natively(("shell", {"command": "grep x y"})))
        talk = stand.talk(dialect, CLAUDE_CODE, stream=stream)
        await talk.say("go")
        answer = await talk.give(Outcome("Exit code 1\nnothing found", is_error=True))
        assert answer.is_over
        events = [result.shell_stream for result in results(stand)]
        assert events[-1].exit.code == 1
        assert not any(event.WhichOneof("event") in ("rejected", "permission_denied") for event in events)


# ── 148: two windows share one session ───────────────────────────────────────────────────────────


@STREAMED_OR_WHOLE
async def test_148_two_windows_that_say_the_same_hear_each_its_own(
    transport: Transport, dialect: Dialect, stream: bool
) -> None:
    async with serving(transport) as stand:
        windows = [stand.talk(dialect, WEATHER, stream=stream) for _ in range(2)]
        await asyncio.gather(*(window.say(ONE_CALL) for window in windows))
        ids = [call.id for window in windows for call in window.called]
        assert len(set(ids)) == 2
        answers = await asyncio.gather(windows[1].give("cloudy"), windows[0].give("sunny"))
        assert [answer.text for answer in answers] == ["It is cloudy in Oslo.", "It is sunny in Oslo."]
        assert stand.counted == (2, 4)
        assert len({request.conversation_id for request in requests(stand)}) == 2


async def test_148_a_window_cannot_answer_the_call_of_another(transport: Transport, dialect: Dialect) -> None:
    async with serving(transport) as stand:
        one, other = stand.talk(dialect, WEATHER), stand.talk(dialect, WEATHER)
        await one.say(ONE_CALL)
        await other.say(ONE_CALL)
        other.history[-1] = one.history[-1]
        other.called = one.called
        assert (await one.give("sunny")).text == "It is sunny in Oslo."
        assert (await other.give("cloudy")).text == "It is cloudy in Oslo."
        assert stand.sim.runs == 3
        assert stand.app.gateway.metrics.parked == 1
