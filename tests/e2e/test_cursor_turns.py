"""Turns of many legs through a live run: tools in a row and at once, windows side by side, users who change their mind.

Each is told by both official clients over both transports. The simulator counts its runs: a turn is one run, however
many requests the client makes of it.
"""

import asyncio
import random
import re
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from tests.e2e.cursor_support import (
    DIALECTS,
    PATIENCE,
    STREAMED_OR_WHOLE,
    TRANSPORTS,
    Answer,
    Dialect,
    Outcome,
    Stand,
    Talk,
    Transport,
    calls,
    eager,
    natively,
    scripted,
    serving,
)
from tests.wire.coding_clients import CLAUDE_CODE, WEATHER
from tieline.app.config import ParkingSettings
from tieline.model.request import ToolSpec
from tieline.sim.cursor import Program, ServerTurn, SimSettings, Step, Wait
from tieline.wire.cursor._pb.agent_pb2 import AgentClientMessage, AgentRunRequest
from tieline.wire.cursor._pb.exec_kinds_pb2 import McpResult

__all__ = ["eager"]

pytestmark = [TRANSPORTS, pytest.mark.usefixtures("eager")]

ONE_CALL = scripted('text: Let me look.\ncall: get_weather {"city": "Oslo"}', "text: It is {{result}} in Oslo.")
THREE_CALLS = "call get_weather with Oslo and call get_weather with Rome and call get_weather with Kyiv"
ODD = b'{"oneOf": [{"type": "object", "properties": {"todos": {"type": "string"}}, "required": ["todos"]}]}'
"""A schema that the service refuses."""
REJECTED = "The user doesn't want to proceed with this tool use."


def results(stand: Stand) -> list[McpResult]:
    """What the tools of the client gave back in the latest run, in the order in which the service heard it."""
    messages = [message.exec_client_message for message in stand.record.received]
    return [message.mcp_result for message in messages if message.HasField("mcp_result")]


def offered(stand: Stand) -> list[str]:
    """The tools that the latest run began with."""
    request = stand.record.received[0].run_request
    return [tool.tool_name for tool in request.mcp_tools.mcp_tools]


async def one_call(talk: Talk) -> Answer:
    """The first leg of a turn with one call."""
    answer = await talk.say(ONE_CALL)
    assert (answer.text, answer.called) == ("Let me look.", [("get_weather", {"city": "Oslo"})])
    return answer


# ── Tools ────────────────────────────────────────────────────────────────────────────────────────


@DIALECTS
@STREAMED_OR_WHOLE
async def test_five_tools_in_sequence_are_one_run(transport: Transport, dialect: Dialect, stream: bool) -> None:
    cities = ("Oslo", "Rome", "Kyiv", "Lima", "Bonn")
    legs = [f'text: Now {city}.\ncall: get_weather {{"city": "{city}"}}' for city in cities]
    async with serving(transport) as stand:
        talk = stand.talk(dialect, WEATHER, stream=stream)
        answer = await talk.say(scripted(*legs, "text: The last was {{result}}."))
        for city in cities:
            assert answer.wants_tools
            assert (answer.text, answer.called) == (f"Now {city}.", [("get_weather", {"city": city})])
            answer = await talk.give(f"sunny in {city}")
        assert answer.is_over
        assert answer.text == "The last was sunny in Bonn."
        assert stand.counted == (1, 6)
        await stand.ended()
        assert [result.success.content[0].text.text for result in results(stand)] == [
            f"sunny in {city}" for city in cities
        ]


@DIALECTS
@STREAMED_OR_WHOLE
async def test_three_tools_at_once_are_one_leg_and_every_result_finds_its_call(
    transport: Transport, dialect: Dialect, stream: bool
) -> None:
    async with serving(transport) as stand:
        talk = stand.talk(dialect, WEATHER, stream=stream)
        answer = await talk.say(THREE_CALLS)
        assert [given["city"] for _, given in answer.called] == ["Oslo", "Rome", "Kyiv"]
        assert len({call.id for call in answer.calls}) == 3
        talk.called = talk.called[::-1]  # results may come in the order in which they were ready
        answer = await talk.give("three", "two", "one")
        assert answer.text == "\n\n".join(f"`get_weather` returned: {said}" for said in ("one", "two", "three"))
        assert stand.counted == (1, 2)


@DIALECTS
async def test_a_good_result_an_error_and_a_rejection_arrive_as_what_they_are(
    transport: Transport, dialect: Dialect
) -> None:
    async with serving(transport) as stand:
        talk = stand.talk(dialect, WEATHER)
        await talk.say(THREE_CALLS)
        answer = await talk.give("sunny", Outcome("no such city", is_error=True), Outcome(REJECTED, is_error=True))
        await stand.ended()
        good, bad, rejected = results(stand)
        assert good.success.content[0].text.text == "sunny"
        assert not good.success.is_error
        assert bad.success.content[0].text.text == "no such city"
        assert bad.success.is_error == (dialect == "anthropic")  # the other dialect has no flag for it
        assert rejected.rejected.reason == REJECTED
        assert f"`get_weather` failed: rejected: {REJECTED}" in answer.text
        assert answer.is_over


@DIALECTS
async def test_whole_numbers_and_deep_arguments_come_as_they_were_made(transport: Transport, dialect: Dialect) -> None:
    given = {"city": "7", "days": 3, "share": 0.5, "flags": [True, None, {"deep": [1, 2.5, "x"]}], "empty": {}}
    async with serving(transport) as stand:
        talk = stand.talk(dialect, WEATHER)
        text = str(given).replace("'", '"').replace("True", "true").replace("None", "null")
        answer = await talk.say(scripted(f"call: get_weather {text}", "text: done"))
        assert answer.called == [("get_weather", given)]
        (_, arguments) = answer.called[0]
        assert type(arguments["days"]) is int
        assert (await talk.give("ok")).text == "done"


@DIALECTS
async def test_a_call_that_comes_late_is_in_the_next_leg_of_the_same_run(
    transport: Transport, dialect: Dialect
) -> None:
    is_answered = asyncio.Event()
    is_late = asyncio.Event()

    def mark(_: ServerTurn) -> Iterator[Step]:
        is_late.set()
        return iter(())

    async with serving(transport, SimSettings(heartbeat=0.02)) as stand:
        late = [Wait(is_answered.is_set), calls("Rome"), Wait(lambda: True), mark]
        stand.plays(["open", calls("Oslo"), *late, {"wait": "exec"}, {"text": "Both are in."}, "close"])
        talk = stand.talk(dialect, WEATHER)
        answer = await talk.say("How is the weather?")
        assert answer.called == [("get_weather", {"city": "Oslo"})]
        is_answered.set()
        async with asyncio.timeout(PATIENCE):
            await is_late.wait()
        answer = await talk.give("sunny")
        assert answer.wants_tools
        assert answer.called == [("get_weather", {"city": "Rome"})]
        answer = await talk.give("cloudy")
        assert answer.text == "Both are in."
        assert answer.is_over
        assert stand.sim.runs == 1


@DIALECTS
async def test_the_tools_of_the_newest_request_count(transport: Transport, dialect: Dialect) -> None:
    """A client may offer a tool only later, as those do that must read before they write."""
    read = [tool for tool in CLAUDE_CODE if tool.name == "Read"]
    write = [tool for tool in CLAUDE_CODE if tool.name == "Write"]
    async with serving(transport) as stand:
        stand.plays(natively(("read", {"path": "/a.txt"}), ("write", {"path": "/b.txt", "content": "new"})))
        talk = stand.talk(dialect, read)
        answer = await talk.say("copy it")
        assert answer.called == [("Read", {"file_path": "/a.txt"})]
        talk.tools += write
        answer = await talk.give("     1→old")
        assert answer.called == [("Write", {"file_path": "/b.txt", "content": "new"})]
        answer = await talk.give("File created successfully")
        assert "<write gave: wrote 3 bytes to /b.txt>" in answer.text
        assert stand.sim.runs == 1


@DIALECTS
async def test_tools_that_the_service_refuses_are_adapted_and_come_back_by_their_own_names(
    transport: Transport, dialect: Dialect
) -> None:
    async with serving(transport) as stand:
        talk = stand.talk(dialect, [ToolSpec(name=name, schema=ODD) for name in ("TodoWrite", "WebFetch", "Task")])
        await talk.say("say hello")
        names = offered(stand)
        assert len(names) == 3
        assert {"TodoWrite", "WebFetch", "Task"}.isdisjoint(names)
        answer = await talk.say(scripted(f'call: {names[0]} {{"todos": "x"}}', "text: done"))
        assert answer.called == [("TodoWrite", {"todos": "x"})]
        assert (await talk.give("kept")).text == "done"


# ── What the service asks besides ────────────────────────────────────────────────────────────────

QUERIES: Sequence[Any] = [
    {"query": {"webSearchRequestQuery": {"args": {"searchTerm": "weather"}}}},
    {"query": {"webFetchRequestQuery": {"args": {"url": "https://example.com/"}}}},
    {"query": {"askQuestionInteractionQuery": {"args": {"title": "Which?"}}}},
    {"query": {"switchModeRequestQuery": {"args": {"targetModeId": "plan"}}}},
    {"query": {"createPlanRequestQuery": {"args": {"plan": "1. Look outside."}}}},
    {"query": {"mcpAuthRequestQuery": {"args": {"serverIdentifier": "s"}}}},
    {"query": {"unknown": 99}},
]


@DIALECTS
async def test_questions_to_a_person_do_not_hold_the_turn_up_and_a_plan_is_shown(
    transport: Transport, dialect: Dialect
) -> None:
    async with serving(transport) as stand:
        stand.plays(["open", *QUERIES, {"wait": "query"}, {"text": "Done."}, "close"])
        talk = stand.talk(dialect)
        answer = await talk.say("plan it")
        assert answer.is_over
        assert "1. Look outside." in answer.text
        await stand.until(lambda: len(stand.record.run.replies) == len(QUERIES) - 1)
        assert (await talk.say("Yes.")).text == "Done."
        assert len(stand.record.run.replies) == len(QUERIES)


@DIALECTS
async def test_questions_are_answered_while_the_client_runs_its_tool(transport: Transport, dialect: Dialect) -> None:
    is_parked = asyncio.Event()
    async with serving(transport, SimSettings(heartbeat=0.02)) as stand:
        asked = [*QUERIES[:4], {"get_blob": "00"}, {"exec": {"requestContextArgs": {}}}]
        stand.plays(
            ["open", calls("Oslo"), Wait(is_parked.is_set), *asked, {"wait": "all"}, {"text": "Done."}, "close"]
        )
        talk = stand.talk(dialect, WEATHER)
        await talk.say("How is the weather?")
        is_parked.set()
        await stand.until(lambda: len(stand.record.run.replies) == 4)
        assert (await talk.give("sunny")).text == "Done."
        assert stand.sim.runs == 1


@DIALECTS
async def test_a_call_that_the_service_gave_up_does_not_keep_the_client_from_its_answer(
    transport: Transport, dialect: Dialect
) -> None:
    is_parked = asyncio.Event()
    async with serving(transport, SimSettings(heartbeat=0.02)) as stand:
        resumed = Wait(lambda: stand.app.gateway.metrics.resumed == 1)
        gives_up = [Wait(is_parked.is_set), {"abort": 2}, {"text": "Never mind."}, resumed]
        stand.plays(["open", calls("Oslo"), *gives_up, "close"])
        talk = stand.talk(dialect, WEATHER)
        await talk.say("How is the weather?")
        is_parked.set()
        answer = await talk.give("sunny")
        assert (answer.text, answer.is_over, stand.sim.runs) == ("Never mind.", True, 1)


@DIALECTS
async def test_a_run_that_ended_without_waiting_for_its_result_is_answered_from_the_history(
    transport: Transport, dialect: Dialect
) -> None:
    is_parked = asyncio.Event()
    async with serving(transport, SimSettings(heartbeat=0.02)) as stand:
        stand.plays(["open", calls("Oslo"), Wait(is_parked.is_set), {"abort": 2}, {"text": "Never mind."}, "close"])
        talk = stand.talk(dialect, WEATHER)
        await talk.say(ONE_CALL)
        is_parked.set()
        await stand.ended()
        answer = await talk.give("sunny")
        assert (answer.text, answer.is_over, stand.sim.runs) == ("It is sunny in Oslo.", True, 2)


# ── Windows ──────────────────────────────────────────────────────────────────────────────────────


@DIALECTS
async def test_two_windows_with_the_same_words_do_not_mix(transport: Transport, dialect: Dialect) -> None:
    async with serving(transport) as stand:
        one, other = stand.talk(dialect, WEATHER), stand.talk(dialect, WEATHER)
        await one_call(one)
        await one_call(other)
        assert stand.app.gateway.metrics.parked == 2
        assert (await other.give("cloudy")).text == "It is cloudy in Oslo."
        assert (await one.give("sunny")).text == "It is sunny in Oslo."
        assert stand.counted == (2, 4)
        ids = [record.received[0].run_request.conversation_id for record in stand.sim.journal]
        assert len(set(ids)) == 2


async def test_the_windows_of_different_clients_do_not_mix(transport: Transport) -> None:
    async with serving(transport) as stand:
        one, other = stand.talk("openai", WEATHER), stand.talk("anthropic", WEATHER)
        await asyncio.gather(one_call(one), one_call(other))
        assert (await one.give("sunny")).text == "It is sunny in Oslo."
        assert (await other.give("cloudy")).text == "It is cloudy in Oslo."
        assert stand.counted == (2, 4)


async def test_fifty_parked_at_once_go_on_in_any_order_and_never_mix(transport: Transport) -> None:
    async with serving(transport) as stand:
        dialects: tuple[Dialect, Dialect] = ("openai", "anthropic")
        talks = [stand.talk(dialects[number % 2], WEATHER) for number in range(50)]
        legs = ('text: Turn {0}.\ncall: get_weather {{"city": "{0}"}}', "text: {0} is {{{{result}}}}.")
        first = await asyncio.gather(
            *(talk.say(scripted(*(leg.format(number) for leg in legs))) for number, talk in enumerate(talks))
        )
        assert [answer.called[0][1]["city"] for answer in first] == [str(number) for number in range(50)]
        assert (stand.app.gateway.metrics.parked, stand.sim.open_runs) == (50, 50)
        order = random.Random(7).sample(range(50), 50)
        second = await asyncio.gather(*(talks[number].give(f"weather {number}") for number in order))
        assert [answer.text for answer in second] == [f"{number} is weather {number}." for number in order]
        assert stand.counted == (50, 100)
        assert (stand.app.gateway.metrics.parked, stand.app.gateway.metrics.resumed) == (0, 50)


# ── Users ────────────────────────────────────────────────────────────────────────────────────────


@DIALECTS
async def test_words_that_come_with_a_result_go_with_it(transport: Transport, dialect: Dialect) -> None:
    async with serving(transport) as stand:
        talk = stand.talk(dialect, WEATHER)
        await one_call(talk)
        answer = await talk.give("sunny", words="In German, please.")
        assert "It is sunny" in answer.text
        assert "In German, please." in answer.text
        assert stand.counted == (1, 2)


@DIALECTS
async def test_a_user_who_says_something_else_instead_of_a_result_is_answered_and_the_old_run_closed(
    transport: Transport, dialect: Dialect
) -> None:
    async with serving(transport) as stand:
        talk = stand.talk(dialect, WEATHER)
        await one_call(talk)
        answer = await talk.say("say never mind")
        assert answer.text == "never mind"
        await stand.until(lambda: stand.sim.open_runs == 0)
        assert [record.ending for record in stand.sim.journal] == ["left", "ended"]
        assert stand.app.gateway.metrics.parked == 0


@DIALECTS
async def test_calls_without_a_result_are_answered_as_interrupted(transport: Transport, dialect: Dialect) -> None:
    async with serving(transport) as stand:
        talk = stand.talk(dialect, WEATHER)
        await talk.say(THREE_CALLS)
        talk.called = talk.called[:1]
        answer = await talk.give("sunny")
        assert "`get_weather` returned: sunny" in answer.text
        assert answer.text.count("failed: No result: the call was interrupted.") == 2
        assert stand.counted == (1, 2)


@DIALECTS
async def test_the_next_turn_is_a_new_run_with_the_whole_history(transport: Transport, dialect: Dialect) -> None:
    async with serving(transport) as stand:
        talk = stand.talk(dialect, WEATHER)
        await one_call(talk)
        await talk.give("sunny")
        assert (await talk.say("say goodbye")).text == "goodbye"
        assert stand.counted == (2, 3)
        first, second = (record.received[0].run_request for record in stand.sim.journal)
        assert first.conversation_id == second.conversation_id
        told = [blob.decode() for blob in stand.record.run.blobs.values()]
        assert any("It is sunny in Oslo." in blob for blob in told)
        assert any('"tool-result"' in blob and "sunny" in blob for blob in told)


# ── Runs that are gone ───────────────────────────────────────────────────────────────────────────


@DIALECTS
async def test_a_result_for_a_run_that_has_expired_is_answered_from_the_history(
    transport: Transport, dialect: Dialect
) -> None:
    async with serving(transport, parking=ParkingSettings(deadline=0.0)) as stand:
        talk = stand.talk(dialect, WEATHER)
        await one_call(talk)
        await stand.ended("left")
        answer = await talk.give("sunny")
        assert answer.text == "It is sunny in Oslo."
        assert stand.counted == (2, 2)
        assert (stand.app.gateway.metrics.expired, stand.app.gateway.metrics.resumed) == (1, 0)


@DIALECTS
async def test_five_tools_work_though_every_run_expires(transport: Transport, dialect: Dialect) -> None:
    cities = ("Oslo", "Rome", "Kyiv", "Lima", "Bonn")
    legs = [f'text: Now {city}.\ncall: get_weather {{"city": "{city}"}}' for city in cities]
    async with serving(transport, parking=ParkingSettings(deadline=0.0)) as stand:
        talk = stand.talk(dialect, WEATHER)
        answer = await talk.say(scripted(*legs, "text: The last was {{result}}."))
        for number, city in enumerate(cities, 1):
            assert (answer.text, answer.called) == (f"Now {city}.", [("get_weather", {"city": city})])
            await stand.until(lambda: stand.sim.open_runs == 0)
            answer = await talk.give(f"sunny in {city}")
            assert stand.counted == (number + 1, number + 1)
        assert answer.text == "The last was sunny in Bonn."


@DIALECTS
async def test_a_history_told_in_words_serves_as_well(transport: Transport, dialect: Dialect) -> None:
    async with serving(transport, parking=ParkingSettings(deadline=0.0), history="text") as stand:
        talk = stand.talk(dialect, WEATHER)
        await talk.say("call get_weather with Oslo")
        await stand.ended("left")
        answer = await talk.give("sunny")
        assert "sunny" in answer.text
        request = stand.record.received[0].run_request
        assert not request.conversation_state.root_prompt_messages_json
        assert "sunny" in request.action.user_message_action.user_message.text


@DIALECTS
async def test_the_oldest_run_makes_room_and_is_answered_from_the_history(
    transport: Transport, dialect: Dialect
) -> None:
    async with serving(transport, parking=ParkingSettings(limit=1)) as stand:
        old, new = stand.talk(dialect, WEATHER), stand.talk(dialect, WEATHER)
        await one_call(old)
        await one_call(new)
        await stand.until(lambda: stand.sim.journal[0].ending == "left")
        assert (await new.give("sunny")).text == "It is sunny in Oslo."
        assert stand.sim.runs == 2
        assert (await old.give("cloudy")).text == "It is cloudy in Oslo."
        assert stand.sim.runs == 3
        assert stand.app.gateway.metrics.crowded_out == 1


@DIALECTS
async def test_a_result_that_comes_twice_is_answered_twice_from_one_run_and_from_the_history(
    transport: Transport, dialect: Dialect
) -> None:
    async with serving(transport) as stand:
        talk = stand.talk(dialect, WEATHER)
        await one_call(talk)
        assert (await talk.give("sunny")).text == "It is sunny in Oslo."
        talk.history.pop()
        assert (await talk.ask()).text == "It is sunny in Oslo."
        assert stand.counted == (2, 3)


@DIALECTS
async def test_the_same_result_sent_twice_at_once_is_answered_twice(transport: Transport, dialect: Dialect) -> None:
    """A client that lost patience asks again while the first request is still under way."""
    async with serving(transport) as stand:
        talk, again = stand.talk(dialect, WEATHER), stand.talk(dialect, WEATHER)
        await one_call(talk)
        again.history, again.called = list(talk.history), talk.called
        answers = await asyncio.gather(talk.give("sunny"), again.give("sunny"))
        assert [answer.text for answer in answers] == ["It is sunny in Oslo."] * 2
        assert stand.counted == (2, 3)


@DIALECTS
async def test_another_model_does_not_go_on_with_the_run_of_the_first(transport: Transport, dialect: Dialect) -> None:
    async with serving(transport) as stand:
        talk = stand.talk(dialect, WEATHER)
        await one_call(talk)
        talk.model = "cursor/demo-fast"
        assert (await talk.give("sunny")).text == "It is sunny in Oslo."
        await stand.until(lambda: stand.sim.open_runs == 0)
        assert [record.ending for record in stand.sim.journal] == ["left", "ended"]


async def test_a_gateway_that_stops_closes_the_runs_that_wait(transport: Transport) -> None:
    async with serving(transport) as stand:
        talks = [stand.talk("openai", WEATHER) for _ in range(3)]
        await asyncio.gather(*(one_call(talk) for talk in talks))
        assert stand.sim.open_runs == 3
        await stand.app.aclose()
        await stand.until(lambda: stand.sim.open_runs == 0)
        assert [record.ending for record in stand.sim.journal] == ["left"] * 3


# ── Clients that leave ───────────────────────────────────────────────────────────────────────────

HANGS: dict[str, Program | list[Any]] = {
    "before-the-first-word": ["open", "hold"],
    "in-the-middle": ["open", {"text": "Half an ans"}, "hold"],
}


@DIALECTS
@STREAMED_OR_WHOLE
@pytest.mark.parametrize("script", HANGS.values(), ids=HANGS.keys())
async def test_a_client_that_leaves_closes_its_run(
    transport: Transport, dialect: Dialect, stream: bool, script: Program | list[Any]
) -> None:
    async with serving(transport) as stand:
        stand.plays(script)
        talk = stand.talk(dialect, stream=stream)
        asking = asyncio.create_task(talk.say("hello"))
        await stand.until(lambda: stand.sim.runs == 1 and bool(stand.record.run.kv))
        asking.cancel()
        await asyncio.wait([asking])
        await stand.ended("left")


@DIALECTS
async def test_a_client_that_leaves_in_a_later_leg_closes_the_run_too(transport: Transport, dialect: Dialect) -> None:
    async with serving(transport) as stand:
        stand.plays(["open", calls("Oslo"), {"wait": "exec"}, {"text": "Well, "}, "hold"])
        talk = stand.talk(dialect, WEATHER)
        await talk.say("How is the weather?")
        asking = asyncio.create_task(talk.give("sunny"))
        await stand.until(lambda: is_result(stand.record.received[-1]))
        asking.cancel()
        await asyncio.wait([asking])
        await stand.ended("left")
        assert stand.app.gateway.metrics.parked == 0


def is_result(message: AgentClientMessage) -> bool:
    return message.exec_client_control_message.HasField("stream_close")


# ── Conversations ────────────────────────────────────────────────────────────────────────────────


def opened(stand: Stand) -> list[AgentRunRequest]:
    """What each run began with."""
    return [record.received[0].run_request for record in stand.sim.journal]


def blob_keys(stand: Stand) -> list[str]:
    return [record.head.header("x-blob-encryption-key") or "" for record in stand.sim.journal]


@DIALECTS
async def test_a_turn_continues_from_the_checkpoint_of_the_one_before(transport: Transport, dialect: Dialect) -> None:
    async with serving(transport) as stand:
        talk = stand.talk(dialect, WEATHER)
        await talk.say(scripted('text: Let me look.\ncall: get_weather {"city": "Oslo"}', "text: It is {{result}}."))
        await talk.give("sunny")
        assert (await talk.say("say two")).text == "two"
        assert (await talk.say("say three")).text == "three"
        first, second, third = opened(stand)
        used = [request.conversation_state.token_details.used_tokens for request in (first, second, third)]
        assert 0 == used[0] < used[1] < used[2], "only a checkpoint tells what the conversation takes"
        assert first.conversation_id == second.conversation_id == third.conversation_id
        assert stand.record.ending == "ended"
        assert len(set(blob_keys(stand))) == 1
        assert re.fullmatch("[0-9a-f]{64}", blob_keys(stand)[0])


@DIALECTS
async def test_two_conversations_with_the_same_words_have_ids_and_keys_of_their_own(
    transport: Transport, dialect: Dialect
) -> None:
    async with serving(transport) as stand:
        for _ in range(2):
            await stand.talk(dialect).say("say hello")
        one, other = opened(stand)
        assert one.conversation_id != other.conversation_id
        assert len(set(blob_keys(stand))) == 2


@DIALECTS
@pytest.mark.parametrize("change", ["edited", "another model", "failed before", "lost by the service"])
async def test_a_turn_that_may_not_continue_from_a_checkpoint_is_told_from_the_history(
    transport: Transport, dialect: Dialect, change: str
) -> None:
    async with serving(transport) as stand:
        talk = stand.talk(dialect)
        if change == "failed before":
            stand.plays(["open", {"text": "on"}, {"error": "unavailable"}])
        await talk.say("say one")
        if change == "edited":
            talk.history[0] = {"role": "user", "content": "say 1"}
        elif change == "another model":
            talk.model = "cursor/demo-large"
        elif change == "lost by the service":
            stand.plays([{"error": "blob"}])
        assert (await talk.say("say two")).text == "two"
        assert len(opened(stand)[-1].conversation_state.root_prompt_messages_json) == 2
        assert not opened(stand)[-1].conversation_state.HasField("token_details")
