"""Clients that answer oddly, leave and come back, and posts that fail on their way: each hears its answer, once."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest

from tests.e2e.cursor_support import (
    DIALECTS,
    TRANSPORTS,
    Dialect,
    Outcome,
    Stand,
    Talk,
    Transport,
    calls,
    eager,
    scripted,
    serving,
)
from tests.wire.coding_clients import WEATHER
from tieline.sim.cursor import CursorSim, SimSettings, Wait
from tieline.wire.cursor._pb.agent_pb2 import AgentClientMessage

__all__ = ["eager"]

pytestmark = pytest.mark.usefixtures("eager")

CITIES = ("Oslo", "Rome", "Lima")
THREE_CALLS = scripted("\n".join(f'call: get_weather {{"city": "{city}"}}' for city in CITIES), "text: Thank you.")
ONE_CALL = scripted('call: get_weather {"city": "Oslo"}', "text: It is {{result}} in Oslo.")
APPEND = b"POST /aiserver.v1.BidiService/BidiAppend"


def answers(talk: Talk, *results: tuple[str, str]) -> None:
    """Put results into the history, whatever they answer."""
    talk._add_results([(call_id, Outcome(text)) for call_id, text in results], "")


def told(stand: Stand) -> list[str]:
    """What the service was told of its calls, in the order of the calls."""
    results = {
        message.exec_client_message.id: message.exec_client_message.mcp_result.success
        for message in stand.record.received
        if message.exec_client_message.HasField("mcp_result")
    }
    return ["".join(part.text.text for part in results[number].content) for number in sorted(results)]


# ── Results ──────────────────────────────────────────────────────────────────────────────────────


@TRANSPORTS
@DIALECTS
async def test_results_in_any_order_twice_and_of_nobody_find_their_calls(
    transport: Transport, dialect: Dialect
) -> None:
    async with serving(transport) as stand:
        talk = stand.talk(dialect, WEATHER)
        oslo, rome, lima = (call.id for call in (await talk.say(THREE_CALLS)).calls)
        answers(talk, (lima, "hot"), ("call_of_nobody", "?"), (oslo, "cold"), (rome, "first"), (rome, "warm"))
        answer = await talk.ask()
        assert (answer.text, answer.is_over, stand.counted) == ("Thank you.", True, (1, 2))
        assert told(stand) == ["cold", "warm", "hot"]


@TRANSPORTS
@DIALECTS
async def test_results_that_come_one_by_one_are_all_told_in_the_end(transport: Transport, dialect: Dialect) -> None:
    """A client that posts each result by itself: the others are missing first, and known from the history then."""
    async with serving(transport) as stand:
        talk = stand.talk(dialect, WEATHER)
        ids = [call.id for call in (await talk.say(THREE_CALLS)).calls]
        asked = list(talk.history)
        answers(talk, (ids[1], "warm"))
        assert (await talk.ask()).is_over
        interrupted, warm, *_ = told(stand)
        assert (warm, "warm" in interrupted) == ("warm", False)
        talk.history = asked
        answers(talk, *zip(ids, ("cold", "warm", "hot"), strict=True))
        answer = await talk.ask()
        assert (answer.text, stand.sim.runs) == ("Thank you.", 2)


@TRANSPORTS
@DIALECTS
async def test_a_result_that_comes_after_the_user_went_on_is_answered_from_the_history(
    transport: Transport, dialect: Dialect
) -> None:
    async with serving(transport) as stand:
        talk = stand.talk(dialect, WEATHER)
        (call,) = (await talk.say(ONE_CALL)).calls
        asked = list(talk.history)
        assert (await talk.say("say never mind")).text == "never mind"
        talk.history = asked
        answers(talk, (call.id, "sunny"))
        assert (await talk.ask()).text == "It is sunny in Oslo."
        await stand.until(lambda: stand.sim.open_runs == 0)
        assert [record.ending for record in stand.sim.journal] == ["left", "ended", "ended"]


# ── Coming and going ─────────────────────────────────────────────────────────────────────────────


@TRANSPORTS
@DIALECTS
async def test_a_client_that_left_in_a_later_leg_and_asks_again_is_answered_from_the_history(
    transport: Transport, dialect: Dialect
) -> None:
    async with serving(transport) as stand:
        stand.plays(["open", calls("Oslo"), {"wait": "exec"}, {"text": "Well, "}, "hold"])
        talk = stand.talk(dialect, WEATHER)
        (call,) = (await talk.say(ONE_CALL)).calls
        answers(talk, (call.id, "sunny"))
        asking = asyncio.create_task(talk.ask())
        await stand.until(lambda: is_closing(stand.record.received[-1]))
        asking.cancel()
        await asyncio.wait([asking])
        await stand.ended("left")
        answer = await talk.ask()
        assert (answer.text, answer.is_over, stand.sim.runs) == ("It is sunny in Oslo.", True, 2)


def is_closing(message: AgentClientMessage) -> bool:
    return message.exec_client_control_message.HasField("stream_close") and message.ByteSize() > 0


@TRANSPORTS
async def test_nothing_is_sent_for_a_run_that_waited_when_the_gateway_has_stopped(
    transport: Transport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tieline.backends.cursor.attempt.HEARTBEAT", 0.02)
    monkeypatch.setattr("tieline.backends.cursor.attempt.EXEC_HEARTBEAT", 0.02)
    async with serving(transport) as stopped, serving(transport) as other:
        await stopped.talk("openai", WEATHER).say(ONE_CALL)
        await hears(stopped, 5)
        await stopped.app.aclose()
        await stopped.ended("left")
        left = len(stopped.record.received)
        await other.talk("openai", WEATHER).say(ONE_CALL)
        await hears(other, 5)
        assert len(stopped.record.received) == left


async def hears(stand: Stand, number: int) -> None:
    """Wait for so many signs of life of the latest run."""
    await stand.until(lambda: stand.record.kinds.count("client_heartbeat") >= number)


@TRANSPORTS
@DIALECTS
async def test_what_is_said_while_the_client_runs_its_tool_is_in_the_next_leg(
    transport: Transport, dialect: Dialect
) -> None:
    is_parked = asyncio.Event()
    async with serving(transport, SimSettings(heartbeat=0.02)) as stand:
        says = [Wait(is_parked.is_set), {"text": "Still here. "}, {"wait": "exec"}, {"text": "Done."}]
        stand.plays(["open", calls("Oslo"), *says, "close"])
        talk = stand.talk(dialect, WEATHER)
        await talk.say("How is the weather?")
        is_parked.set()
        assert (await talk.give("sunny")).text == "Still here. Done."
        assert stand.sim.runs == 1


# ── Posts that fail ──────────────────────────────────────────────────────────────────────────────


def losing(number: int, answer: bytes) -> Callable[[CursorSim], AbstractAsyncContextManager[str]]:
    """Something before the service that answers this post itself, once; with nothing it cuts the connection."""
    posts = 0

    async def up(reader: asyncio.StreamReader, behind: asyncio.StreamWriter, back: asyncio.StreamWriter) -> None:
        nonlocal posts
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(1 << 20):
                posts += data.startswith(APPEND)
                if data.startswith(APPEND) and posts == number:
                    back.write(answer)
                    break
                behind.write(data)
        back.close()
        behind.close()

    async def down(reader: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(1 << 20):
                back.write(data)
        back.close()

    @asynccontextmanager
    async def between(sim: CursorSim) -> AsyncIterator[str]:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            behind, into = await asyncio.open_connection("127.0.0.1", sim.port)
            await asyncio.gather(up(reader, into, writer), down(behind, writer))

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"

    return between


FAILURES = {
    "unavailable": b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
    "not-found": b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
    "cut": b"",
}


@DIALECTS
@pytest.mark.parametrize("answer", FAILURES.values(), ids=FAILURES.keys())
@pytest.mark.parametrize("number", range(1, 7))
async def test_a_post_that_fails_once_costs_another_attempt_and_no_word(
    dialect: Dialect, answer: bytes, number: int
) -> None:
    """Whichever it is: the run request, what is said of blobs and of the context, or the result of a call."""
    async with serving("http1", through=losing(number, answer)) as stand:
        talk = stand.talk(dialect, WEATHER)
        (call,) = (await talk.say(ONE_CALL)).calls
        assert (call.name, call.arguments) == ("get_weather", {"city": "Oslo"})
        reply = await talk.give("sunny")
        assert (reply.text, reply.is_over) == ("It is sunny in Oslo.", True)
        assert stand.sim.runs <= 2


@pytest.mark.parametrize("answer", FAILURES.values(), ids=FAILURES.keys())
@pytest.mark.parametrize("number", range(2, 6))
async def test_a_post_that_fails_after_some_words_costs_no_word_either(answer: bytes, number: int) -> None:
    async with serving("http1", through=losing(number, answer)) as stand:
        kept = [{"set_blob": "one"}, {"wait": "kv"}, {"text": "there "}, {"set_blob": "two"}, {"wait": "kv"}]
        stand.plays(["open", {"text": "hello "}, *kept, {"text": "my friend"}, "close"])
        reply = await stand.talk("openai").say("say hello there my friend")
        assert (reply.text, reply.is_over) == ("hello there my friend", True)
