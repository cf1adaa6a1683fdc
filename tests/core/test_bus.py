"""What is kept of legs for somebody to look into: both sides, bounded, without secrets."""

from collections.abc import AsyncGenerator, Sequence
from typing import Any

import pytest

from tests.cases import READ, asks, says
from tieline.core.inbox.inbox import Inbox
from tieline.core.legs.gateway import Gateway
from tieline.core.legs.leg import LegClient
from tieline.core.legs.routing import Router
from tieline.core.watch.bus import Bus, BusEvent, LegChanged, ModelsChanged
from tieline.core.watch.record import MAX_EVENTS, MAX_RECORD_SIZE, LegSummary
from tieline.core.watch.secrets import Secrets
from tieline.model.content import Image, Message, Text, ToolCall
from tieline.model.errors import GatewayError
from tieline.model.events import (
    Activity,
    Batch,
    Event,
    Failed,
    Finished,
    Note,
    PartDelta,
    PartEnd,
    PartStart,
    Started,
    StopReason,
    Usage,
)
from tieline.model.ports import Host, ModelInfo
from tieline.model.request import Request
from tieline.tasks import Tasks

SECRET = "a-key-that-nobody-may-see"


class Saying:
    """A backend and a run that says what it is told to; an agent if it shows activities."""

    name = "say"
    reads_options = False
    obeys_limits = True
    pending: frozenset[str] = frozenset()

    def __init__(self, *batches: Batch, is_agent: bool = False) -> None:
        self.batches = batches
        self.is_agent = is_agent

    async def models(self) -> Sequence[ModelInfo]:
        return [ModelInfo(id="m")]

    async def start(self, request: Request, host: Host) -> "Saying":
        return self

    async def count(self, request: Request) -> int | None:
        return None

    async def leg(self) -> AsyncGenerator[Batch, None]:
        for batch in self.batches:
            yield batch

    async def answer(self, results: object, request: Request | None = None, words: str = "") -> None:
        raise AssertionError("nothing is ever pending")

    async def aclose(self) -> None:
        """Nothing to free."""


def text(*words: str) -> list[Event]:
    whole = "".join(words)
    deltas = [PartDelta(index=0, text=word) for word in words]
    return [PartStart(index=0, part=Text()), *deltas, PartEnd(index=0, part=Text(text=whole))]


STARTED = Started(id="leg", model="m")
END = Finished(reason=StopReason.END_TURN)
HELLO: list[Event] = [STARTED, *text("Hel", "lo"), Usage(input=3, output=2), END]


class Watched:
    """A gateway with a bus, and what the bus told."""

    def __init__(self, backend: Saying, **settings: Any) -> None:
        self.news: list[BusEvent] = []
        self.statuses: list[str] = []
        secrets = Secrets([SECRET])
        self.bus = Bus(clock=lambda: 1000.0, secrets=secrets, **settings)
        self.gateway = Gateway(
            Router({"say": backend}),
            tasks=Tasks(),
            inbox=Inbox(mint=lambda: "1", clock=lambda: 0.0),
            clock=lambda: 0.0,
            secrets=secrets,
            bus=self.bus,
        )
        self.bus.subscribe(self._hear)

    def _hear(self, news: BusEvent) -> None:
        self.news.append(news)
        if isinstance(news, LegChanged):
            self.statuses.append(news.record.status)

    async def ask(self, request: Request | None = None, client: LegClient | None = None) -> list[Event]:
        asked = request or asks("What is it?")
        leg = await self.gateway.open(_to(asked), client or LegClient("chat", "client/1.0"))
        events = [event async for batch in leg for event in batch]
        await leg.aclose()
        return events

    @property
    def last(self) -> LegSummary:
        return self.bus.legs()[0]


def _to(request: Request) -> Request:
    return Request(
        model="say/m", messages=request.messages, tools=request.tools, extra=request.extra, session=request.session
    )


async def test_a_leg_is_summed_up() -> None:
    stand = Watched(Saying(HELLO))
    await stand.ask()
    leg = stand.last
    assert (leg.client, leg.frontend, leg.backend, leg.model) == ("client/1.0", "chat", "say", "say/m")
    assert (leg.status, leg.title, leg.usage) == ("ok", "What is it?", Usage(input=3, output=2))
    assert leg.at == 1000.0
    assert leg.first_byte is not None
    assert leg.duration is not None


async def test_watchers_hear_of_the_beginning_the_first_word_and_the_end() -> None:
    stand = Watched(Saying(HELLO))
    await stand.ask()
    assert stand.statuses == ["running", "running", "ok"]


async def test_whoever_stops_watching_hears_nothing_more() -> None:
    bus = Bus(clock=lambda: 0.0)
    heard: list[BusEvent] = []
    stop = bus.subscribe(heard.append)
    bus.publish(ModelsChanged())
    stop()
    bus.publish(ModelsChanged())
    assert heard == [ModelsChanged()]


async def test_both_sides_of_a_leg_can_be_read() -> None:
    stand = Watched(Saying(HELLO[:3], HELLO[3:]))
    await stand.ask(asks("What is it?", tools=(READ,)))
    detail = stand.bus.detail(stand.last.id)
    assert detail.request.messages == (says("user", "What is it?"),)
    assert detail.request.tools == (READ,)
    named = [Started(id="leg", model="say/m"), *HELLO[1:]]
    assert [moment.event for moment in detail.events] == named
    assert detail.shown is None


async def test_a_leg_can_be_read_while_it_runs() -> None:
    stand = Watched(Saying(HELLO[:3], HELLO[3:]))
    leg = await stand.gateway.open(_to(asks("Hi")), LegClient("chat"))
    await leg.__anext__()
    detail = stand.bus.detail("1")
    assert detail.leg.status == "running"
    assert detail.events[-1].event == PartDelta(index=0, text="Hel")
    await leg.aclose()
    assert stand.last.status == "cancelled"


async def test_what_the_client_was_given_instead_is_kept_beside_it() -> None:
    doing = Activity(id="a", kind="read", title="read_file README.md", status="completed", output="# Title")
    stand = Watched(Saying([STARTED], [doing], [*text("Done."), END], is_agent=True))
    shown = await stand.ask(client=LegClient("chat", activity="reasoning"))
    detail = stand.bus.detail(stand.last.id)
    assert doing in [moment.event for moment in detail.events]
    assert detail.shown == tuple(shown)
    assert doing not in shown
    assert stand.last.calls == ("read_file",)


async def test_a_client_that_takes_activities_as_they_are_is_given_them() -> None:
    doing = Activity(id="a", kind="read", title="read_file README.md", status="completed")
    stand = Watched(Saying([STARTED], [doing], [*text("Done."), END], is_agent=True))
    assert doing in await stand.ask(client=LegClient("web", activity="events"))
    assert stand.bus.detail(stand.last.id).shown is None


async def test_a_command_that_writes_for_long_leaves_room_for_what_is_said_after_it() -> None:
    seen = [
        [
            Activity(
                id="a",
                kind="execute",
                title="run_terminal make",
                status="in_progress",
                output=f"{number}" + "x" * 16_000,
            )
        ]
        for number in range(50)
    ]
    stand = Watched(Saying([STARTED], *seen, [*text("Done."), END], is_agent=True))
    await stand.ask(client=LegClient("web", activity="events"))
    detail = stand.bus.detail(stand.last.id)
    assert [moment.event for moment in detail.events][1:] == [*seen[-1], *text("Done."), END]


async def test_calls_and_repairs_are_named() -> None:
    call = ToolCall(id="c", name="read", arguments="{}")
    note = Note(kind="repair", message="a list was taken apart")
    events: list[Event] = [STARTED, PartStart(index=0, part=call), PartEnd(index=0, part=call)]
    stand = Watched(Saying([*events, note, Finished(reason=StopReason.TOOL_USE)]))
    await stand.ask()
    assert (stand.last.calls, stand.last.repairs) == (("read",), 1)
    assert note in stand.bus.detail(stand.last.id).notes


@pytest.mark.parametrize(
    ("ending", "status", "kind"),
    [
        (Failed(kind="overloaded", message="busy"), "failed", "overloaded"),
        (Failed(kind="cancelled", message="left"), "cancelled", "cancelled"),
        (Finished(reason=StopReason.CANCELLED), "cancelled", None),
        (Finished(reason=StopReason.MAX_TOKENS), "ok", None),
    ],
)
async def test_an_ending_decides_the_status(ending: Finished | Failed, status: str, kind: str | None) -> None:
    stand = Watched(Saying([STARTED, ending]))
    await stand.ask()
    assert (stand.last.status, stand.last.kind) == (status, kind)


async def test_a_request_that_finds_no_backend_is_there_too() -> None:
    stand = Watched(Saying(HELLO))
    leg = await stand.gateway.open(Request(model="nobody/m", messages=(says("user", "Hi"),)), LegClient("chat"))
    assert [event async for batch in leg for event in batch]
    await leg.aclose()
    assert (stand.last.status, stand.last.kind, stand.last.backend) == ("failed", "not_found", "")


async def test_secrets_are_hidden_in_what_is_summed_up() -> None:
    stand = Watched(Saying([STARTED, Failed(kind="unauthorized", message=f"bad key {SECRET}")]))
    await stand.ask(asks(f"is {SECRET} my key, or ghp_0123456789abcdefghij0123?"))
    assert SECRET not in f"{stand.last.message}{stand.last.title}"
    assert "ghp_" not in stand.last.title


@pytest.mark.parametrize(
    "likely",
    [
        "sk-ant-api03-AbCdEfGhIjKlMnOpQrSt",
        "sk-proj-0123456789abcdefghij",
        "AKIAIOSFODNN7EXAMPLE",
        "github_pat_11ABCDEFG0123456789ab",
        "Bearer 0123456789abcdef0123",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N",
    ],
)
def test_what_looks_like_a_key_is_hidden(likely: str) -> None:
    secret = likely.removeprefix("Bearer ")
    assert secret not in Bus(clock=lambda: 0.0).hide(f"the key is {likely}, keep it")


def test_words_that_only_sound_like_keys_stay() -> None:
    text = "skim the sk-ipped parts, bearer of news; AKIA is a prefix and eyJ begins a token"
    assert Bus(clock=lambda: 0.0).hide(text) == text


# ── Bounds ───────────────────────────────────────────────────────────────────────────────────────


async def test_only_so_many_legs_are_kept() -> None:
    stand = Watched(Saying(HELLO), max_legs=3)
    for _ in range(5):
        await stand.ask()
    assert [leg.id for leg in stand.bus.legs()] == ["5", "4", "3"]
    with pytest.raises(GatewayError):
        stand.bus.detail("1")


async def test_nothing_is_kept_where_nothing_is_wanted() -> None:
    stand = Watched(Saying(HELLO), max_legs=0)
    await stand.ask()
    assert stand.bus.legs() == []
    assert stand.news == []


async def test_all_legs_together_keep_no_more_than_they_may() -> None:
    stand = Watched(Saying(HELLO), max_total_size=100_000)
    for _ in range(10):
        await stand.ask(asks("x" * 30_000))
    assert 0 < len(stand.bus.legs()) <= 4


async def test_a_long_history_keeps_its_end() -> None:
    stand = Watched(Saying(HELLO))
    history = [says("user" if place % 2 == 0 else "assistant", f"{place} " + "x" * 20_000) for place in range(41)]
    await stand.ask(asks(*history))
    kept = stand.bus.detail(stand.last.id).request.messages
    assert isinstance(kept[-1].parts[0], Text)
    assert kept[-1].parts[0].text.startswith("40 ")
    assert len(kept) < 20
    assert kept[0].role == "system"
    assert sum(_length(message) for message in kept) < MAX_RECORD_SIZE * 1.1


async def test_a_picture_is_kept_as_its_beginning() -> None:
    stand = Watched(Saying(HELLO))
    await stand.ask(asks(says("user", Image(media_type="image/png", data="A" * 1_000_000), "What is this?")))
    kept = stand.bus.detail(stand.last.id).request.messages[0].parts[0]
    assert isinstance(kept, Image)
    assert len(kept.data or "") < 200


async def test_a_flood_of_events_is_cut_and_the_end_of_a_part_is_not() -> None:
    words = ["word "] * (MAX_EVENTS * 2)
    batches = [[PartDelta(index=0, text=word) for word in words[at : at + 64]] for at in range(0, len(words), 64)]
    begin: list[Event] = [STARTED, PartStart(index=0, part=Text())]
    whole = PartEnd(index=0, part=Text(text="".join(words)))
    stand = Watched(Saying(begin, *batches, [whole, END]))
    await stand.ask()
    events = [moment.event for moment in stand.bus.detail(stand.last.id).events]
    assert len(events) < 200
    assert any(isinstance(event, PartEnd) for event in events)
    assert isinstance(events[-1], Finished)
    assert sum(len(event.text) for event in events if isinstance(event, PartDelta)) <= MAX_EVENTS * 5


async def test_a_failed_leg_keeps_no_more_than_it_may() -> None:
    begin: list[Event] = [STARTED, PartStart(index=0, part=Text()), PartDelta(index=0, text="x" * 5_000_000)]
    stand = Watched(Saying(begin, [Failed(kind="upstream", message="gone")]))
    await stand.ask()
    delta = next(m.event for m in stand.bus.detail(stand.last.id).events if isinstance(m.event, PartDelta))
    assert len(delta.text) < MAX_RECORD_SIZE


# ── Listing ──────────────────────────────────────────────────────────────────────────────────────


async def test_legs_are_listed_in_pages_from_the_newest() -> None:
    stand = Watched(Saying(HELLO))
    for _ in range(150):
        await stand.ask()
    first = stand.bus.legs()
    assert [first[0].id, first[-1].id] == ["150", "51"]
    assert [leg.id for leg in stand.bus.legs(before=first[-1].id)][:1] == ["50"]
    assert len(stand.bus.legs(before="nonsense")) == 100


async def test_a_query_finds_legs_that_have_all_its_words() -> None:
    stand = Watched(Saying(HELLO))
    await stand.ask(asks("Read the README"))
    await stand.ask(asks("Write a poem"))
    assert [leg.title for leg in stand.bus.legs(query="README ok")] == ["Read the README"]
    assert stand.bus.legs(query="README failed") == []


def _length(message: Message) -> int:
    return sum(len(part.text) for part in message.parts if isinstance(part, Text))
