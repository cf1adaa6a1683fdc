"""The stream of the page: in order, resumable, bounded; nothing is lost and nothing comes twice."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.core.scripted import END, PATIENCE, words
from tests.web.serving import Listener, Message, PageStand, said, serving
from tieline.app.config import Config, ServerSettings
from tieline.app.database.documents import MemoryStore
from tieline.core.inbox.inbox import Inbox
from tieline.core.sessions.sessions import SessionView
from tieline.core.watch.bus import Bus, MessageEvents, ModelsChanged
from tieline.model.content import Text
from tieline.model.events import Activity, Batch, Event, PartDelta, PartEnd, PartStart, Plan, PlanEntry, Started, Usage
from tieline.model.inbox import Approval, Origin, Question
from tieline.model.scope import Place, Scope
from tieline.model.session import Summary, Turn
from tieline.tasks import Tasks
from tieline.web.message_ring import AT_ONCE, MessageRing
from tieline.web.stream import Stream
from tieline.web.turn_renderer import RenderedText, TurnRenderer

STARTED = Started(id="leg", model="m")


@pytest.fixture
async def stand(tmp_path: Path) -> AsyncIterator[PageStand]:
    async with serving(tmp_path) as made:
        yield made


def opening(text: str) -> list[Event]:
    return [STARTED, PartStart(index=0, part=Text()), PartDelta(index=0, text=text)]


def closing(text: str) -> list[Event]:
    return [PartEnd(index=0, part=Text(text=text)), Usage(input=1, output=1), END]


# ── What is told ─────────────────────────────────────────────────────────────────────────────────


async def test_a_message_is_told_from_the_users_words_to_the_whole_turn(stand: PageStand) -> None:
    session = await stand.begin()
    async with stand.stream() as stream:
        sent = await stand.post(f"/api/sessions/{session}/send", {"text": "Hi"})
        turn = await stream.turn(sent["assistant"])
    kinds = [message["type"] for message in stream.messages if message["type"] != "leg"]
    assert kinds == ["turn", "session", "session", "events", "block", "turn"]
    assert stream.messages[0]["turn"] == sent["user"]
    assert turn["parts"] == [{"type": "text", "text": "answer 1", "html": "<p>answer 1</p>\n", "until": 8, "blocks": 1}]
    assert turn["ending"] == {"type": "finished", "reason": "end_turn"}
    events = stream.of("events")[0]["events"]
    assert [event["type"] for event in events] == [
        "started",
        "part_start",
        "part_delta",
        "part_end",
        "usage",
        "finished",
    ]


async def test_activities_and_plans_come_as_they_are(stand: PageStand) -> None:
    session = await stand.begin()
    doing = Activity(id="a", kind="execute", title="run_terminal ls", status="in_progress")
    plan = Plan(entries=(PlanEntry(content="look", status="completed"),))
    stand.backend.legs.append([[STARTED, doing, plan], [*words("Done."), END]])
    async with stand.stream() as stream:
        sent = await stand.post(f"/api/sessions/{session}/send", {"text": "Hi"})
        await stream.turn(sent["assistant"])
    events = [event for message in stream.of("events") for event in message["events"]]
    shown = {"type": "activity", "id": "a", "kind": "execute", "title": "run_terminal ls", "status": "in_progress"}
    assert shown in events
    assert {"type": "plan", "entries": [{"content": "look", "status": "completed"}]} in events


async def test_many_deltas_are_gathered_into_few_messages(stand: PageStand) -> None:
    session = await stand.begin()
    pieces = [f"word{number} " for number in range(2000)]
    deltas: list[Batch] = [[PartDelta(index=0, text=piece)] for piece in pieces]
    stand.backend.legs.append([opening(""), *deltas, closing("".join(pieces))])
    async with stand.stream() as stream:
        sent = await stand.post(f"/api/sessions/{session}/send", {"text": "Hi"})
        await stream.turn(sent["assistant"])
    assert said(stream.messages) == "".join(pieces)
    assert len(stream.of("events")) < 50


async def test_blocks_come_as_they_finish_and_are_together_the_whole(stand: PageStand) -> None:
    session = await stand.begin()
    text = "# Title\n\nSome *words*.\n\n```python\nx = 1\n```\n\nThe end"
    go = asyncio.Event()
    stand.backend.legs.append([opening(text[:30]), go, [PartDelta(index=0, text=text[30:])], closing(text)])
    async with stand.stream() as stream:
        message = await stand.waiting(session)
        first = await stream.until(lambda one: one["type"] == "block")
        assert (first["session"], first["message"], first["part"], first["block"]) == (session, message, 0, 0)
        assert first["html"].startswith("<h1>Title</h1>")
        assert text[: first["until"]] in text[:30]
        go.set()
        turn = await stream.turn(message)
    blocks = stream.of("block")
    assert [block["block"] for block in blocks] == list(range(len(blocks)))
    assert "".join(block["html"] for block in blocks) == turn["parts"][0]["html"]
    assert blocks[-1]["until"] == len(text)


async def test_a_reference_that_comes_late_is_right_in_the_end(stand: PageStand) -> None:
    session = await stand.begin()
    text = "See [x].\n\nMore.\n\n[x]: https://a.example\n"
    stand.backend.legs.append([opening(text[:15]), [PartDelta(index=0, text=text[15:])], closing(text)])
    turn = await stand.say(session, "Hi")
    assert 'href="https://a.example"' in turn["parts"][0]["html"]


async def test_requests_of_other_clients_are_told(stand: PageStand) -> None:
    async with stand.stream() as stream:
        body = {"model": "demo/scripted", "messages": [{"role": "user", "content": "say hello"}]}
        assert (await stand.http.post("/v1/chat/completions", json=body)).status_code == 200
        leg = (await stream.until(lambda one: one["type"] == "leg" and one["leg"]["status"] == "ok"))["leg"]
    assert (leg["frontend"], leg["backend"], leg["title"]) == ("chat", "demo", "say hello")


async def test_a_deleted_session_is_told(stand: PageStand) -> None:
    session = await stand.begin()
    async with stand.stream() as stream:
        await stand.call("DELETE", f"/api/sessions/{session}")
        assert await stream.until(lambda one: one["type"] == "gone") == {"type": "gone", "session": session}


async def test_a_change_of_the_models_is_told(stand: PageStand) -> None:
    async with stand.stream() as stream:
        stand.app.gateway.bus.publish(ModelsChanged())
        await stream.until(lambda one: one == {"type": "state"})


# ── The inbox ────────────────────────────────────────────────────────────────────────────────────


async def test_what_is_decided_in_one_page_is_gone_in_all(stand: PageStand) -> None:
    origin = Origin(model="test/m", frontend="chat", client="other/1.0", title="Do it")
    async with stand.stream() as one, stand.stream() as two:
        human = stand.app.gateway.inbox.human(origin)
        assert human.is_present
        asking = asyncio.create_task(human.permit(Approval(title="Run ls", command="ls")))
        [item] = (await one.until(lambda message: message["type"] == "inbox"))["items"]
        assert [option["id"] for option in item["ask"]["options"]] == ["allow", "always", "deny"]
        assert (item["ask"]["command"], item["origin"]["client"]) == ("ls", "other/1.0")
        assert (await stand.get("/api/state"))["inbox"]["items"] == [item]
        await stand.post(f"/api/inbox/{item['id']}", {"option": "allow"})
        for page in (one, two):
            await page.until(lambda message: message["type"] == "inbox" and message["items"] == [])
        async with asyncio.timeout(PATIENCE):
            assert (await asking).option == "allow"


async def test_nobody_is_there_when_the_page_is_closed(stand: PageStand) -> None:
    human = stand.app.gateway.inbox.human(Origin())
    assert not human.is_present
    async with stand.stream():
        assert human.is_present
    async with asyncio.timeout(PATIENCE):
        while human.is_present:
            await stand.http.get("/healthz")


async def test_an_ask_of_a_session_says_which(stand: PageStand) -> None:
    """The page shows it in the chat it belongs to."""
    async with stand.stream() as stream:
        human = stand.app.gateway.inbox.human(Origin(session="abc"))
        asking = asyncio.create_task(human.fill(Question(message="Which?")))
        [item] = (await stream.until(lambda message: message["type"] == "inbox"))["items"]
        assert item["origin"]["session"] == "abc"
        await stand.post(f"/api/inbox/{item['id']}", {"action": "decline"})
        async with asyncio.timeout(PATIENCE):
            assert (await asking).action == "decline"


# ── Coming back ──────────────────────────────────────────────────────────────────────────────────


async def test_a_lost_connection_loses_nothing_and_doubles_nothing(stand: PageStand) -> None:
    session = await stand.begin()
    pauses = [asyncio.Event() for _ in range(4)]
    steps: list[Batch | asyncio.Event] = [opening("0 ")]
    for number, pause in enumerate(pauses, 1):
        steps += [pause, [PartDelta(index=0, text=f"{number} ")]]
    whole = "".join(f"{number} " for number in range(5))
    stand.backend.legs.append([*steps, closing(whole)])
    heard: list[Listener] = []
    since = (await stand.state())["seq"]
    message = ""
    for pause in pauses:
        async with stand.stream(since) as stream:
            message = message or await stand.waiting(session)
            stand.backend.reached.clear()
            if not heard:
                await stream.until(lambda one: one["type"] == "events")
            heard.append(stream)
        pause.set()
        since = stream.numbers[-1] if stream.numbers else since
        if pause is not pauses[-1]:
            async with asyncio.timeout(PATIENCE):
                await stand.backend.reached.wait()
    async with stand.stream(since) as stream:
        turn = await stream.turn(message)
        heard.append(stream)
    numbers = [number for one in heard for number in one.numbers]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    assert said([one for listener in heard for one in listener.messages]) == whole
    assert turn["parts"][0]["text"] == whole


async def test_a_page_that_is_loaded_in_the_middle_has_everything_once(stand: PageStand) -> None:
    session = await stand.begin()
    go = asyncio.Event()
    text = "First.\n\nSecond, which goes on.\n\nThird."
    stand.backend.legs.append([opening(text[:20]), go, [PartDelta(index=0, text=text[20:])], closing(text)])
    message = await stand.waiting(session)
    shown = await stand.get(f"/api/sessions/{session}")
    part = shown["messages"][-1]["parts"][0]
    assert shown["summary"]["running"]
    assert (part["text"], shown["messages"][-1]["ending"]) == (text[:20], None)
    async with stand.stream(shown["seq"]) as stream:
        go.set()
        turn = await stream.turn(message)
    assert part["text"] + said(stream.messages) == text
    blocks = stream.of("block")
    assert [block["block"] for block in blocks] == list(range(part["blocks"], part["blocks"] + len(blocks)))
    assert part["html"] + "".join(block["html"] for block in blocks) == turn["parts"][0]["html"]


async def test_a_page_that_is_loaded_while_nobody_listened_has_everything_once(tmp_path: Path) -> None:
    """The message began before any page was open: its words were not followed until now."""
    async with serving(tmp_path) as stand:
        created = await stand.app.page.sessions.create("test/m")  # type: ignore[union-attr] # there is a page
        go = asyncio.Event()
        stand.backend.legs.append([opening("One\n\nTw"), go, [PartDelta(index=0, text="o")], closing("One\n\nTwo")])
        sessions = stand.app.page.sessions  # type: ignore[union-attr] # there is a page
        sent = await sessions.send(created.id, [Text(text="Go")])
        async with asyncio.timeout(PATIENCE):
            await stand.backend.reached.wait()
        shown = await stand.get(f"/api/sessions/{created.id}")
        part = shown["messages"][-1]["parts"][0]
        async with stand.stream(shown["seq"]) as stream:
            go.set()
            turn = await stream.turn(sent.assistant)
        assert part["text"] + said(stream.messages) == "One\n\nTwo"
        html = part["html"] + "".join(block["html"] for block in stream.of("block"))
        assert html == turn["parts"][0]["html"] == "<p>One</p>\n<p>Two</p>\n"


class Heard:
    """A stream without a server around it, and what it told."""

    def __init__(self) -> None:
        self.ring = MessageRing(0)
        self.bus, self.tasks = Bus(clock=lambda: 0.0), Tasks()
        inbox = Inbox(mint=lambda: "1", clock=lambda: 0.0)
        renderings = TurnRenderer(MemoryStore())
        self.stream = Stream(self.bus, inbox, self.tasks, renderings, clock=lambda: 0.0, ring=self.ring)
        self.stream.attend()
        self.begin = self.ring.seq

    def view(self, text: str) -> SessionView:
        turn = Turn(id="m", parent=None, role="assistant", at=0.0, parts=(Text(text=text),))
        return SessionView(Summary(id="s", title="", model="m"), [turn], {}, "m")

    @property
    def messages(self) -> list[Message]:
        frames = self.ring.after(self.begin).data.decode().split("\n\n")
        return [json.loads(frame.partition("data: ")[2]) for frame in frames if frame]

    async def until(self, kind: str) -> list[Message]:
        """The messages of a kind, once there is one."""
        reading = asyncio.get_running_loop().create_future()
        publish = self.stream.publish

        def told(message: Message, place: Place | None = None) -> None:
            publish(message, place)
            if message["type"] == kind and not reading.done():
                reading.set_result(None)

        self.stream.publish = told  # type: ignore[method-assign] # to wait for it
        async with asyncio.timeout(PATIENCE):
            await reading
        return [message for message in self.messages if message["type"] == kind]


async def test_what_is_shown_has_been_told_and_is_not_told_again() -> None:
    """Events that are still being gathered when somebody looks are told at once: the snapshot has them."""
    heard = Heard()
    heard.bus.publish(MessageEvents("s", "m", [*opening("He"), PartDelta(index=0, text="llo")]))
    snapshot = heard.stream.snapshot(heard.view("Hello"))
    assert snapshot.seq == heard.ring.seq == heard.begin + 1
    heard.bus.publish(MessageEvents("s", "m", [*closing("Hello")]))
    await heard.until("block")
    assert said(heard.messages) == "Hello"
    heard.stream.close()
    await heard.tasks.aclose()


async def test_a_message_that_is_known_only_from_its_middle_is_taken_up_from_its_beginning() -> None:
    heard = Heard()
    heard.bus.publish(MessageEvents("s", "m", [PartDelta(index=0, text="o")]))
    snapshot = heard.stream.snapshot(heard.view("One\n\nTwo"))
    assert snapshot.live == {0: RenderedText("", 0, 0)}
    heard.bus.publish(MessageEvents("s", "m", closing("One\n\nTwo")))
    blocks = await heard.until("block")
    assert "".join(block["html"] for block in blocks).startswith("<p>One</p>")
    heard.stream.close()
    await heard.tasks.aclose()


@pytest.mark.parametrize("since", [0, 1, 2**62])
async def test_a_number_nobody_knows_starts_anew(stand: PageStand, since: int) -> None:
    async with stand.stream(since) as stream:
        reset = await stream.until(lambda one: one["type"] == "reset")
    assert reset == {"type": "reset"}
    assert stream.numbers == [(await stand.state())["seq"]]


async def test_a_number_of_the_last_gateway_starts_anew(tmp_path: Path) -> None:
    async with serving(tmp_path) as stand:
        before = (await stand.state())["seq"]
    async with serving(tmp_path) as stand, stand.stream(before) as stream:
        await stream.until(lambda one: one["type"] == "reset")


@pytest.mark.parametrize("given", ["nonsense", "-1", "1.5", "9" * 40, ""])
async def test_a_number_that_is_none_is_from_now_on(stand: PageStand, given: str) -> None:
    async with stand.http.stream("GET", f"/api/stream?since={given}") as response:
        listener = Listener(response)
        await listener.begun()
        assert listener.messages == []


async def test_the_first_time_the_number_can_stand_in_the_address(stand: PageStand) -> None:
    since = (await stand.state())["seq"]
    await stand.begin()
    async with stand.http.stream("GET", f"/api/stream?since={since}") as response:
        await Listener(response).until(lambda one: one["type"] == "session")


# ── Bounds ───────────────────────────────────────────────────────────────────────────────────────


async def test_a_page_that_does_not_read_costs_nothing_and_starts_anew(stand: PageStand) -> None:
    assert stand.app.page is not None
    publish = stand.app.page.stream.publish
    reader, writer = await asyncio.open_connection("127.0.0.1", int(stand.url.rpartition(":")[2]))
    writer.write(b"GET /api/stream HTTP/1.1\r\nhost: localhost\r\n\r\n")
    async with asyncio.timeout(PATIENCE):
        await reader.readuntil(b": here\n\n")
    async with stand.stream() as other:
        for number in range(600):
            publish({"type": "state", "number": number, "pad": "x" * 100_000})
            if number % 20 == 0:
                # One that reads is not held up by the one that does not.
                await other.until(lambda one, number=number: one.get("number") == number)  # type: ignore[misc] # a default
    heard = b""
    async with asyncio.timeout(PATIENCE):
        while b'{"type":"reset"}' not in heard[-200_000:]:
            heard += await reader.read(1 << 20)
    assert len(heard) < 60_000_000 * 0.9
    writer.close()


def test_a_ring_keeps_so_many_messages_and_so_many_bytes() -> None:
    ring = MessageRing(100, most_messages=10, most_bytes=1000)
    for number in range(50):
        ring.put({"type": "state", "number": number})
    assert ring.seq == 150
    assert ring.after(140).seq == 150
    assert ring.after(139).data.endswith(b'{"type":"reset"}\n\n')
    ring.put({"type": "state", "pad": "x" * 2000})
    assert b"reset" in ring.after(149).data
    assert b"xxx" in ring.after(150).data


def test_a_reader_far_behind_is_given_a_bounded_amount_at_a_time() -> None:
    ring = MessageRing(0)
    for _ in range(100):
        ring.put({"type": "state", "pad": "x" * 10_000})
    seq, turns = 0, 0
    while (given := ring.after(seq)).data:
        assert len(given.data) <= AT_ONCE
        seq, turns = given.seq, turns + 1
    assert (seq, turns > 3) == (100, True)


def test_a_reader_receives_only_the_messages_of_its_scope() -> None:
    ring = MessageRing(0)
    ring.put({"type": "session", "of": "ours"}, Place("", "ours"))
    ring.put({"type": "session", "of": "theirs"}, Place("", "theirs"))
    ring.put({"type": "state"})
    ring.put_scoped(lambda scope: {"type": "inbox", "of": scope.workspace})
    ring.put({"type": "session", "of": "theirs"}, Place("", "theirs"))
    data, seq = ring.after(0, Scope(workspace="ours"))
    assert data == (
        b'id: 1\ndata: {"type":"session","of":"ours"}\n\n'
        b'id: 3\ndata: {"type":"state"}\n\n'
        b'id: 4\ndata: {"type":"inbox","of":"ours"}\n\n'
    )
    assert seq == ring.seq
    assert ring.after(seq, Scope(workspace="ours")) == (b"", seq)
    assert ring.after(0).data.count(b"theirs") == 2


async def test_when_nobody_has_been_there_for_a_while_nothing_is_followed() -> None:
    bus, tasks = Bus(clock=lambda: 0.0), Tasks()
    inbox = Inbox(mint=lambda: "1", clock=lambda: 0.0)
    stream = Stream(bus, inbox, tasks, TurnRenderer(MemoryStore()), clock=lambda: 1.0, linger=0.0)
    stream.attend()
    before = stream.seq
    bus.publish(ModelsChanged())
    assert stream.seq == before + 1
    for _ in range(3):
        await asyncio.sleep(0)  # the stream leaves at the next turn of the loop
    after = stream.seq
    bus.publish(ModelsChanged())
    assert stream.seq == after
    stream.attend()
    assert stream.seq > after
    stream.close()
    await tasks.aclose()


async def test_a_silent_stream_says_that_it_is_there(tmp_path: Path) -> None:
    config = Config(server=ServerSettings(keep_alive=0.01))
    async with serving(tmp_path, config) as stand, stand.http.stream("GET", "/api/stream") as response:
        pieces = response.aiter_raw()
        raw = b""
        async with asyncio.timeout(PATIENCE):
            while raw.count(b": nothing new\n\n") < 2:
                raw += await anext(pieces)


def test_messages_of_a_log_keep_their_numbers_and_others_have_none() -> None:
    ring = MessageRing(0, is_logged=True)
    ring.restart(6)
    ring.put_logged(7, b'{"n":7}', None)
    ring.put({"type": "leg"})
    ring.put_logged(9, b'{"n":9}', Place("ann", ""))
    ring.put_unlogged(b'{"n":0}', None)
    whole = [b'id: 7\ndata: {"n":7}', b'data: {"type":"leg"}', b'id: 9\ndata: {"n":9}', b'data: {"n":0}', b""]
    assert ring.after(ring.position(6)).data.split(b"\n\n") == whole
    assert ring.after(ring.position(7)).data.split(b"\n\n") == whole[1:]
    assert ring.after(ring.position(8)).data.split(b"\n\n") == whole[2:], "a number that was never used"
    assert ring.after(ring.position(9)).data.split(b"\n\n") == whole[3:]
    assert ring.after(ring.position(7), Scope("bob")).data.split(b"\n\n") == [whole[1], whole[3], b""]
    for unknown in (5, 10):
        assert ring.after(ring.position(unknown)).data == b'id: 9\ndata: {"type":"reset"}\n\n'


def test_a_number_of_a_log_is_too_old_when_a_later_message_has_been_dropped() -> None:
    ring = MessageRing(0, most_messages=2, is_logged=True)
    for number in (10, 20, 30, 40):
        ring.put_logged(number, b"{}", None)
    assert ring.after(ring.position(20)).data == b"id: 30\ndata: {}\n\nid: 40\ndata: {}\n\n"
    assert b"reset" in ring.after(ring.position(19)).data
    ring.restart(60)
    assert b"reset" in ring.after(ring.position(40)).data
    assert ring.after(ring.position(60)).data == b""
