"""Agents that misbehave: an error a person can act on, or a turn that goes on, and nothing is left behind.

Every agent here is a process of its own (`agents/faulty.py`).
"""

import asyncio
import json
import logging
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.backends.acp_support import (
    NEVER,
    SOON,
    Person,
    Talk,
    group_is_gone,
    leg,
    plain,
    scripted,
    serving,
    until,
    user,
)
from tieline.backends.acp.backend import AcpBackend
from tieline.model.errors import GatewayError
from tieline.model.events import Started
from tieline.model.inbox import ApprovalAnswer
from tieline.net.process.program import StopTimeouts


@pytest.fixture(autouse=True)
def _nothing_breaks(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Whatever an agent does, nothing of ours fails in the background."""
    yield
    assert [record for record in caplog.get_records("call") if record.levelno >= logging.ERROR] == []


def pids(backend: AcpBackend) -> list[int]:
    return [agent.pid for agent in backend._opener.fleet.agents]


async def test_what_is_no_message_is_skipped_and_the_turn_goes_on() -> None:
    async with serving(plain("garbage")) as backend:
        reply = await Talk(backend, "plain").ask("hello")
        assert (reply.text, reply.reason) == ("You said: hello", "end_turn")


async def test_an_agent_that_dies_at_start_shows_what_it_wrote_to_its_standard_error() -> None:
    async with serving(plain("dies_at_start")) as backend:
        with pytest.raises(GatewayError) as caught:
            await Talk(backend, "plain").ask("hello")
    assert "Plain exited with status 2" in caught.value.message
    assert "error: no configuration found\nrun setup first" in caught.value.message
    assert (caught.value.kind, caught.value.status) == ("upstream", 502)


async def test_an_agent_that_dies_without_a_word_is_asked_once_more(tmp_path: Path) -> None:
    async with serving(plain("dies_once", str(tmp_path / "marker"))) as backend:
        reply = await Talk(backend, "plain").ask("hello")
        assert reply.text == "You said: hello"
        assert len([event for event in reply.events if isinstance(event, Started)]) == 1


async def test_an_agent_that_dies_again_is_not_asked_a_third_time() -> None:
    async with serving(plain("dies_always")) as backend:
        reply = await Talk(backend, "plain").ask("hello")
        assert "segmentation fault" in reply.failed.message
        assert len(reply.events) == 1, "a failure before anything was said is a status code"


async def test_death_in_the_middle_is_an_error_with_the_last_lines_and_the_next_request_starts_it_again() -> None:
    async with serving(plain("dies_talking")) as backend:
        talk = Talk(backend, "plain")
        reply = await talk.ask("hello")
        assert reply.failed.code == "agent_ended"
        assert "was ended by SIGKILL" in reply.failed.message
        assert reply.failed.message.endswith("first\nsecond\nout of memory")
        assert (await talk.ask("live")).text.endswith("live")


async def test_an_agent_that_ignores_cancel_is_killed_with_all_of_its_group() -> None:
    async with serving(plain("deaf"), cancel_within=0.2) as backend:
        talk = Talk(backend, "plain")
        talk.messages.append(user("hello"))
        run = await talk.start()
        async with asyncio.timeout(SOON):
            await anext(aiter(run.leg()))
        (pid,) = pids(backend)
        await run.aclose()
        await until(lambda: group_is_gone(pid))
        assert pids(backend) == []


async def test_an_agent_that_ignored_cancel_does_not_end_the_turn_of_its_successor(tmp_path: Path) -> None:
    file = tmp_path / "may-end"
    patience = StopTimeouts(eof=SOON, term=SOON, kill=SOON)
    async with serving(plain("stubborn", str(file)), cancel_within=0.1, patience=patience) as backend:
        talk = Talk(backend, "plain")
        talk.messages.append(user("hello"))
        run = await talk.start()
        async with asyncio.timeout(SOON):
            await anext(aiter(run.leg()))
        (first,) = backend._opener.fleet.agents
        await run.aclose()
        talk.messages.append(user("again"))
        later = await talk.start()
        taking = asyncio.create_task(leg(later))
        await until(lambda: later._turn is not None)  # type: ignore[attr-defined] # what no frontend sees
        os.kill(first.pid, signal.SIGKILL)
        async with asyncio.timeout(SOON):
            await first.end("")
        file.touch()
        reply = await taking
        assert (reply.text, reply.reason) == ("Working. Done.", "end_turn")
        await later.aclose()


async def test_a_cancelled_turn_ends_its_session_is_used_again_and_late_words_are_dropped() -> None:
    """Catalogue 144."""
    async with serving(plain("slow")) as backend:
        talk = Talk(backend, "plain")
        talk.messages.append(user("wait"))
        run = await talk.start()
        async with asyncio.timeout(SOON):
            await anext(aiter(run.leg()))
        before = pids(backend)
        await run.aclose()
        reply = await talk.ask("hello")
        assert reply.text == "You said: hello"
        assert pids(backend) == before


async def test_on_cancel_an_open_permission_is_answered_cancelled_and_withdrawn_from_the_person(tmp_path: Path) -> None:
    """Catalogue 144."""
    file = tmp_path / "answer"
    person = Person(NEVER)
    async with serving(plain("cancelled_permission", str(file))) as backend:
        talk = Talk(backend, "plain")
        talk.messages.append(user("wait"))
        run = await talk.start(person)
        taking = asyncio.create_task(leg(run))
        await until(person.is_asked.is_set)
        taking.cancel()
        await run.aclose()
        await until(file.exists)
        await until(lambda: person.withdrawn == 1)
        assert (await talk.ask("hello")).text == "You said: hello"
    assert json.loads(file.read_text()) == {"outcome": {"outcome": "cancelled"}}


async def test_a_flood_on_standard_error_stops_nobody() -> None:
    async with serving(plain("floods_stderr")) as backend:
        assert (await Talk(backend, "plain").ask("hello")).text == "You said: hello"


async def test_half_a_line_and_then_silence_is_a_timeout_and_the_agent_is_replaced() -> None:
    async with serving(plain("half_line"), stall_after=2.0, cancel_within=0.1) as backend:
        talk = Talk(backend, "plain")
        reply = await talk.ask("hello")
        assert (reply.failed.kind, reply.failed.status) == ("timeout", 504)
        assert "was silent for 2 seconds" in reply.failed.message
        assert (await talk.ask("again")).text.endswith("again")


async def test_an_agent_that_never_introduces_itself_is_given_up() -> None:
    async with serving(plain("silent"), start_within=3.0) as backend:
        with pytest.raises(GatewayError) as caught:
            await Talk(backend, "plain").ask("hello")
        assert caught.value.kind == "timeout"
        assert "thinking about it" in caught.value.message
        await until(lambda: pids(backend) == [])


async def test_two_requests_under_one_id_get_two_answers() -> None:
    person = Person(ApprovalAnswer(option="yes"), ApprovalAnswer(option="no"))
    async with serving(plain("reuses_ids")) as backend:
        reply = await Talk(backend, "plain").ask("hello", person)
        assert sorted(reply.text.split()) == ["no", "yes"]


async def test_of_two_answers_the_first_counts() -> None:
    async with serving(plain("answers_twice")) as backend:
        talk = Talk(backend, "plain")
        assert (await talk.ask("hello")).reason == "end_turn"
        assert (await talk.ask("once more")).text == "You said: once more"


async def test_a_permission_for_a_call_nobody_heard_of_is_asked_all_the_same() -> None:
    person = Person(ApprovalAnswer(option="yes"))
    async with serving(plain("unknown_call")) as backend:
        reply = await Talk(backend, "plain").ask("hello", person)
        assert reply.text == "chosen yes"
        assert [(one.id, one.output) for one in reply.activities] == [("never", ""), ("other", "out")]


async def test_a_line_that_is_too_long_costs_no_more_than_itself() -> None:
    async with serving(plain("huge")) as backend:
        talk = Talk(backend, "plain")
        assert (await talk.ask("hello")).text == "You said: hello"
        reply = await talk.ask("answer")
        assert "was dropped" in reply.failed.message


async def test_what_nobody_offers_is_refused_and_what_is_told_too_early_is_kept() -> None:
    async with serving(plain("asks")) as backend:
        reply = await Talk(backend, "plain").ask("hello")
        assert json.loads(reply.text) == [-32601, -32601, -32601, False]
        (session,) = backend._opener.sessions
        assert [command.name for command in session.commands] == ["review"]


async def test_a_command_that_is_not_there_is_an_error_that_says_so() -> None:
    missing = plain("echo", command=("/nowhere/agent",))
    async with serving(missing) as backend:
        with pytest.raises(GatewayError, match="Plain is not installed"):
            await Talk(backend, "plain").ask("hello")


async def test_an_agent_that_wants_a_login_says_what_to_run() -> None:
    async with serving(plain("login", "with arguments"), plain("login", id="other", login="other login")) as backend:
        with pytest.raises(GatewayError) as caught:
            await Talk(backend, "plain").ask("hello")
        assert (caught.value.kind, caught.value.status) == ("unauthorized", 401)
        assert "login --now` in a terminal" in caught.value.message
        with pytest.raises(GatewayError, match="Run `other login` in a terminal"):
            await Talk(backend, "other").ask("hello")


async def test_a_login_that_needs_nobody_is_made_where_it_is_configured() -> None:
    async with serving(scripted("--login", method="key"), scripted("--login", id="other")) as backend:
        assert (await Talk(backend).ask("say hello")).text == "hello "
        with pytest.raises(GatewayError, match="Run `scripted login`"):
            await Talk(backend, "other").ask("say hello")


async def test_nothing_is_left_of_an_agent_when_the_backend_is_closed() -> None:
    async with serving(plain("deaf")) as backend:
        talk = Talk(backend, "plain")
        talk.messages.append(user("hello"))
        run = await talk.start()
        async with asyncio.timeout(SOON):
            await anext(aiter(run.leg()))
        (pid,) = pids(backend)
        assert not group_is_gone(pid)
    assert group_is_gone(pid)


async def test_an_idle_agent_is_ended_and_started_again_when_it_is_needed() -> None:
    async with serving(plain("echo"), idle_after=1.0) as backend:
        talk = Talk(backend, "plain")
        await talk.ask("hello")
        (pid,) = pids(backend)
        await until(lambda: group_is_gone(pid))
        assert (await talk.ask("again")).text.endswith("again")


async def test_only_so_many_agents_run_at_once_and_one_that_idles_makes_room() -> None:
    async with serving(plain("echo"), plain("slow", id="other"), processes=1) as backend:
        await Talk(backend, "plain").ask("hello")
        (pid,) = pids(backend)
        talk = Talk(backend, "other")
        talk.messages.append(user("wait"))
        run = await talk.start()
        async with asyncio.timeout(SOON):
            await anext(aiter(run.leg()))
        assert group_is_gone(pid)
        with pytest.raises(GatewayError) as caught:
            await Talk(backend, "plain").ask("hello")
        assert (caught.value.kind, caught.value.code) == ("overloaded", "too_many_agents")
        await run.aclose()
