"""Tests for the page's event stream, which shows the sessions of all replicas on each of them."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

import pytest
from psycopg import AsyncConnection

from tests.cluster.page_support import ANN, BOB, OWNER_KEYS, TWO_OWNERS, Person, paged_cluster
from tests.cluster.support import PATIENCE, Replica, until
from tests.core.scripted import END, words
from tests.postgres_server import PostgresServer
from tieline.app.cluster.stream_log import MAX_QUEUED, DatabaseStreamLog
from tieline.app.database.postgres import PostgresDatabase
from tieline.model.content import Text
from tieline.model.events import Event, PartDelta, PartEnd, PartStart, Started
from tieline.model.scope import Place
from tieline.tasks import Tasks
from tieline.web.stream import Stream
from tieline.web.stream_log import LoggedMessage, LogReader

STARTED = Started(id="leg", model="m")
WRITERS, MESSAGES = 3, 60
WRITE_LOCK = 0x7469656D
"""The key of the lock that a replica holds while it writes to the log."""


def stream_of(replica: Replica) -> Stream:
    assert replica.app.page is not None
    return replica.app.page.stream


def said(messages: Sequence[tuple[int | None, Any]], after: int = 0) -> str:
    """Return the text in messages of the stream after a number, as a page puts it together."""
    events = [
        event
        for number, message in messages
        if message["type"] == "events" and (number is None or number > after)
        for event in message["events"]
    ]
    return "".join(event["text"] for event in events if event["type"] == "part_delta")


def is_turn(message: str, event: Any) -> bool:
    return bool(event["type"] == "turn" and event["turn"]["id"] == message)


async def test_a_page_sees_the_messages_of_a_session_on_another_replica(postgres_url: str) -> None:
    async with paged_cluster(postgres_url) as (stand, _):
        first, second = stand.replicas
        person = Person(stand)
        session = await person.begin(first)
        state = await person.get(second, "/api/state")
        async with person.stream(second, state["seq"]) as stream:
            sent = await person.post(first, f"/api/sessions/{session}/send", {"text": "Hi"})
            turn = (await stream.until(lambda event: is_turn(sent["assistant"], event)))["turn"]
            assert turn["parts"][0]["html"] == "<p>answer 1</p>\n"
        kinds = [event["type"] for number, event in stream.seen if number is not None]
        assert Counter(kinds) == {"turn": 2, "session": 2, "events": 1, "block": 1}
        assert (kinds[0], stream.seen[1][1].get("turn")) == ("turn", sent["user"])
        assert said(stream.seen) == "answer 1"
        numbers = [number for number, _ in stream.seen if number is not None]
        assert numbers == sorted(set(numbers))


async def test_a_page_that_opens_a_session_in_the_middle_of_a_message_misses_nothing(postgres_url: str) -> None:
    text = [f"word {number} " for number in range(200)]
    parts: list[list[Event]] = [[PartDelta(index=0, text=word)] for word in text]
    async with paged_cluster(postgres_url) as (stand, scripts):
        first, second = stand.replicas
        person = Person(stand)
        session = await person.begin(first)
        goon = [asyncio.Event() for _ in parts]
        legs = [one for pair in zip(parts, goon, strict=True) for one in pair]
        closing: list[Event] = [PartEnd(index=0, part=Text(text="".join(text))), END]
        scripts[first.tag].legs.append([[STARTED, PartStart(index=0, part=Text())], *legs, closing])
        state = await person.get(second, "/api/state")
        async with person.stream(second, state["seq"]) as stream:
            sent = await person.post(first, f"/api/sessions/{session}/send", {"text": "Go"})
            for event in goon[:150]:
                event.set()
            await stream.until(lambda event: "word 3 " in said([(None, event)]))
            releasing = asyncio.create_task(release(goon[150:190]))
            view = await person.get(second, f"/api/sessions/{session}")
            await releasing
            await release(goon[190:])
            await stream.until(lambda event: is_turn(sent["assistant"], event))
        shown = "".join(part["text"] for part in view["messages"][-1]["parts"])
        assert shown
        assert shown + said(stream.seen, view["seq"]) == "".join(text)
        assert said(stream.seen) == "".join(text)


async def release(events: list[asyncio.Event]) -> None:
    for event in events:
        event.set()
        await asyncio.sleep(0)


async def test_the_stream_is_resumed_at_any_replica_without_a_gap_or_a_duplicate(postgres_url: str) -> None:
    chance = random.Random(7)
    async with paged_cluster(postgres_url, size=3) as (stand, _):
        person = Person(stand)
        position = (await person.get(stand.replicas[0], "/api/state"))["seq"]
        for replica in stand.replicas:
            await person.get(replica, "/api/state")
        written = [f"{writer}-{number}" for writer in range(WRITERS) for number in range(MESSAGES)]

        async def write(writer: int) -> None:
            for number in range(MESSAGES):
                stream_of(stand.replicas[writer]).publish({"type": "session", "summary": f"{writer}-{number}"})
                await asyncio.sleep(chance.random() / 100)

        writing = [asyncio.create_task(write(writer)) for writer in range(WRITERS)]
        seen: list[tuple[int, str]] = []
        async with asyncio.timeout(PATIENCE):
            while len(seen) < len(written):
                async with person.stream(chance.choice(stand.replicas), position) as stream:
                    for _ in range(chance.randrange(1, 30)):
                        if len(seen) == len(written):
                            break
                        number, event = await stream.next()
                        assert event["type"] != "reset"
                        if event["type"] == "session":
                            assert number is not None
                            seen.append((number, event["summary"]))
                            position = number
        await asyncio.gather(*writing)
        assert sorted(name for _, name in seen) == sorted(written)
        assert [number for number, _ in seen] == sorted({number for number, _ in seen})
        for writer in range(WRITERS):
            own = [name for _, name in seen if name.startswith(f"{writer}-")]
            assert own == [f"{writer}-{number}" for number in range(MESSAGES)]


async def test_pages_do_not_receive_messages_about_the_sessions_of_other_owners(postgres_url: str) -> None:
    async with paged_cluster(postgres_url, config=TWO_OWNERS, env=OWNER_KEYS) as (stand, _):
        first, second = stand.replicas
        ann, bob, admin = Person(stand, ANN), Person(stand, BOB), Person(stand)
        async with ann.stream(second, 0) as anns, bob.stream(second, 0) as bobs, admin.stream(second, 0) as admins:
            mine, his = await ann.begin(first), await bob.begin(first)
            sent = await ann.post(first, f"/api/sessions/{mine}/send", {"text": "Hi"})
            for stream in (anns, admins):
                await stream.until(lambda event: is_turn(sent["assistant"], event))
            stream_of(first).publish({"type": "gone", "session": "last"}, Place("bob", ""))
            await bobs.until(lambda event: event.get("session") == "last")
        about = {event["summary"]["id"] for _, event in bobs.seen if event["type"] == "session"}
        assert about == {his}
        assert all(mine not in str(event) for _, event in bobs.seen)
        assert all(his not in str(event) for _, event in anns.seen)


async def test_pages_see_their_own_replica_during_an_outage_and_are_reset_afterwards(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    async with paged_cluster(postgres_url) as (stand, scripts):
        first, second = stand.replicas
        person = Person(stand)
        session = await person.begin(first)
        goon = asyncio.Event()
        scripts[first.tag].legs.append([[STARTED, *words("Half")[:2]], goon, [*words("Half")[2:], END]])
        async with person.stream(first, 0) as here, person.stream(second, 0) as there:
            sent = await person.post(first, f"/api/sessions/{session}/send", {"text": "Go"})
            for stream in (here, there):
                await stream.until(lambda event: event["type"] == "events")
            postgres_server.stop()
            try:
                await until(lambda: not first.app.storage.is_available)
                goon.set()
                turn = await here.until(lambda event: is_turn(sent["assistant"], event))
                assert turn["turn"]["ending"]["reason"] == "end_turn"
                assert here.seen[-1][0] is None
            finally:
                postgres_server.start()
            for stream in (here, there):
                await stream.until(lambda event: event["type"] == "reset")
                assert stream.seen[-1][0] is not None


# ── The log ──────────────────────────────────────────────────────────────────────────────────────


def unexpected(data: bytes, _: Place | None) -> None:
    pytest.fail(str(data))


class LogStand:
    """A log with a database connection of its own, and everything that it delivers."""

    def __init__(self, url: str, take_unlogged: Callable[[bytes, Place | None], None] = unexpected) -> None:
        self.tasks = Tasks()
        self.database = PostgresDatabase(url)
        self.log = DatabaseStreamLog(self.database, self.tasks, interval=0.1)
        self.seen: list[LoggedMessage] = []
        self.restarts: list[int] = []
        self.log.start(LogReader(self.seen.extend, self.restarts.append, take_unlogged))

    async def aclose(self) -> None:
        await self.tasks.aclose()
        await self.database.aclose()


async def test_all_replicas_read_concurrent_messages_in_the_same_order(postgres_url: str) -> None:
    chance = random.Random(11)
    stands = [LogStand(postgres_url) for _ in range(WRITERS)]
    try:
        numbers: list[int | None] = []

        async def write(stand: LogStand, writer: int) -> None:
            for number in range(MESSAGES):
                stand.log.add(b"%d-%d" % (writer, number), None if number % 2 else Place("owner", str(writer)))
                if chance.random() < 0.2:
                    numbers.append(await stand.log.written())
                    assert stand.log.written is not None

        await asyncio.gather(*(write(stand, writer) for writer, stand in enumerate(stands)))
        await until(lambda: all(len(stand.seen) == WRITERS * MESSAGES for stand in stands))
        assert stands[0].seen == stands[1].seen == stands[2].seen
        found = [message.number for message in stands[0].seen]
        assert found == sorted(set(found))
        assert None not in numbers
        for writer in range(WRITERS):
            own = [message for message in stands[0].seen if message.data.startswith(b"%d-" % writer)]
            assert [message.data for message in own] == [b"%d-%d" % (writer, number) for number in range(MESSAGES)]
            assert [message.place for message in own[:2]] == [Place("owner", str(writer)), None]
    finally:
        for stand in stands:
            await stand.aclose()


async def test_a_reader_that_missed_removed_messages_starts_again(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    numbers = count(1)
    writer = LogStand(postgres_url)
    try:
        for _ in range(5):
            writer.log.add(b"%d" % next(numbers), None)
        assert await writer.log.written() == 5
        await until(lambda: len(writer.seen) == 5)
        assert writer.restarts == [0]
        await writer.log.prune(messages=2)
        assert postgres_server.query(postgres_url, "SELECT min(number), max(number) FROM stream_message") == "4|5"
        await writer.log.prune(age=-1.0)
        assert postgres_server.query(postgres_url, "SELECT min(number), max(number) FROM stream_message") == "5|5"
        late = LogStand(postgres_url)
        try:
            await until(lambda: late.seen)
            assert (late.restarts, [message.number for message in late.seen]) == ([4], [5])
            # The reader misses messages: the last one it knows is removed, and so is one that it does not know.
            await late.tasks.aclose()
            for _ in range(3):
                writer.log.add(b"%d" % next(numbers), None)
            await writer.log.written()
            await writer.log.prune(messages=1)
            await late.log.catch_up(8)
            assert (late.restarts, [message.number for message in late.seen]) == ([4, 7], [5, 8])
        finally:
            await late.aclose()
    finally:
        await writer.aclose()


async def test_messages_dropped_during_a_write_are_not_taken_for_those_being_written(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    unlogged: list[bytes] = []
    stand = LogStand(postgres_url, lambda data, _: unlogged.append(data))
    blocked = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
    try:
        async with await AsyncConnection.connect(postgres_url, autocommit=True) as other:
            await other.execute("SELECT pg_advisory_lock(%s)", (WRITE_LOCK,))
            stand.log.add(b"in flight", None)
            await until(lambda: postgres_server.query(postgres_url, blocked) == "1")
            in_flight = asyncio.create_task(stand.log.written())
            await asyncio.sleep(0)
            stand.log.add(b"dropped", None)
            dropped = asyncio.create_task(stand.log.written())
            await asyncio.sleep(0)
            for _ in range(MAX_QUEUED):
                stand.log.add(b"kept", None)
        assert await in_flight == 1
        assert await dropped is None
        assert unlogged == [b"dropped"]
        await until(lambda: len(stand.seen) > 2)
        assert [message.data for message in stand.seen[:3]] == [b"in flight", b'{"type":"reset"}', b"kept"]
    finally:
        await stand.aclose()


async def test_the_size_of_the_log_is_limited(postgres_server: PostgresServer, postgres_url: str) -> None:
    writer = LogStand(postgres_url)
    try:
        for _ in range(10):
            writer.log.add(b"x" * 1000, None)
        await writer.log.written()
        await writer.log.prune(size=3500)
        assert postgres_server.query(postgres_url, "SELECT count(*) FROM stream_message") == "3"
    finally:
        await writer.aclose()
