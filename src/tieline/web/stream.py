"""The one stream of the page: everything that happens, in order, resumable, at a pace a page can follow.

While somebody looks, and for a while after, the stream listens to the bus. What a session says is gathered and sent at
most some thirty times a second; blocks of Markdown follow as they are finished. A session can be looked at in the
middle of a message: the snapshot says up to which number of the stream it is.
"""

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple
from urllib.parse import parse_qs

import msgspec

from tieline.core.inbox.inbox import Inbox, PendingItem
from tieline.core.sessions.sessions import SessionView
from tieline.core.watch.bus import (
    Bus,
    BusEvent,
    LegChanged,
    MessageEvents,
    ModelsChanged,
    SessionChanged,
    SessionDeleted,
    TurnCompleted,
)
from tieline.core.watch.record import LegRecord
from tieline.frontends.http import Exchange
from tieline.model.events import Activity, Event
from tieline.model.inbox import Approval, PlanReview
from tieline.tasks import Tasks
from tieline.web.live import Live, is_beginning
from tieline.web.render import render
from tieline.web.ring import Ring
from tieline.web.turns import Renderings, Shown, plain

INTERVAL = 1 / 30
"""Seconds between two messages about what one session says."""
LEGS_EVERY = 0.1
MOST_LEGS = 100
"""More changes of legs than this are not told at once: a page lists no more either."""
LINGER = 120.0
"""Seconds that the stream listens on when nobody is there any more: a page may come back."""
KEEP_ALIVE = 15.0
STALLED = 60.0
"""A reader that takes nothing for this long is given up; it comes back by itself, where it was."""
MOST_PLAN = 20_000
"""Characters of a plan that are rendered each time the inbox is told; a longer one is shown as it is."""
HELLO = b"retry: 1000\n: here\n\n"
NOTHING_NEW = b": nothing new\n\n"


class Snapshot(NamedTuple):
    """Where the stream is, and how the texts of a message under way are shown at that point."""

    seq: int
    live: dict[int, Shown]


class Stream:
    """Everything that happens, for everybody who has the page open; `clock` is seconds since 1970."""

    def __init__(
        self,
        bus: Bus,
        inbox: Inbox,
        tasks: Tasks,
        renderings: Renderings,
        *,
        clock: Callable[[], float],
        keep_alive: float = KEEP_ALIVE,
        linger: float = LINGER,
        ring: Ring | None = None,
    ) -> None:
        self._bus = bus
        self._inbox = inbox
        self._tasks = tasks
        self._renderings = renderings
        self._keep_alive = keep_alive
        self._linger = linger
        self._ring = ring or Ring(int(clock() * 1000))
        self._readers: set[_Reader] = set()
        self._lives: dict[str, Live] = {}
        self._legs: dict[str, LegRecord] = {}
        self._unwatch: Callable[[], None] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._leaving: asyncio.TimerHandle | None = None
        self._is_closed = False

    @property
    def seq(self) -> int:
        """The number of the last message."""
        return self._ring.seq

    def attend(self) -> None:
        """Somebody looks: listen to what happens, from now on and for a while."""
        if self._is_closed:
            return
        if self._unwatch is None:
            self._ring.forget()
            self._unwatch = self._bus.subscribe(self._hear)
            self._watching = self._tasks.start(self._watch_inbox(), "inbox for the page")
        if self._leaving is not None:
            self._leaving.cancel()
        self._leaving = asyncio.get_running_loop().call_later(self._linger, self._leave)

    def snapshot(self, view: SessionView) -> Snapshot:
        """Where the stream is when it has told everything that this view holds."""
        if view.running is None:
            return Snapshot(self._ring.seq, {})
        live = self._lives.get(view.running)
        if live is not None:
            self._flush(live)
        if live is None or not live.is_whole:
            if live is not None:
                live.drop()
            live = self._start(Live.of(view.summary.id, next(t for t in view.turns if t.id == view.running)))
        return Snapshot(self._ring.seq, live.shown())

    def close(self) -> None:
        """The gateway is being stopped."""
        self._is_closed = True
        self._readers.clear()
        if self._leaving is not None:
            self._leaving.cancel()
        self._leave()

    def publish(self, message: Any) -> None:
        """Tell everybody."""
        self._ring.put(message)
        for reader in self._readers:
            reader.wake.set()

    async def serve(self, exchange: Exchange) -> None:
        """The stream, for one page, from where it was or from now on, until it leaves."""
        self.attend()
        seq = _asked_for(exchange)
        reader = _Reader(self._ring.seq if seq is None else seq)
        self._readers.add(reader)
        listening = self._tasks.start(reader.listen(exchange), "page watch")
        try:
            async with self._inbox.watched():
                await exchange.begin_stream()
                await _write(exchange, HELLO)
                await self._tell(exchange, reader)
        except TimeoutError:
            pass  # it takes nothing, so it cannot be told; the server closes the connection
        finally:
            listening.cancel()
            self._readers.discard(reader)
            self.attend()

    async def _tell(self, exchange: Exchange, reader: "_Reader") -> None:
        while not reader.has_left:
            data, reader.seq = self._ring.after(reader.seq)
            if data:
                await _write(exchange, data)
                continue
            reader.wake.clear()
            try:
                async with asyncio.timeout(self._keep_alive):
                    await reader.wake.wait()
            except TimeoutError:
                await _write(exchange, NOTHING_NEW)

    def _leave(self) -> None:
        """Nobody has been here for a while."""
        self._leaving = None
        if self._readers:
            self.attend()
            return
        if self._unwatch is not None:
            self._unwatch()
            self._unwatch = None
        if self._watching is not None:
            self._watching.cancel()
        self._legs.clear()
        for live in self._lives.values():
            live.drop()
        self._lives.clear()

    # ── What happens ─────────────────────────────────────────────────────────────────────────────

    def _hear(self, news: BusEvent) -> None:
        match news:
            case MessageEvents(session=session, message=message, events=events):
                live = self._lives.get(message) or self._start(Live(session, message, is_whole=is_beginning(events)))
                live.add(events)
            case TurnCompleted(session=session, turn=turn) if turn.role == "user":
                self.publish({"type": "turn", "session": session, "turn": plain(turn)})
            case TurnCompleted(session=session, turn=turn):
                live = self._lives.get(turn.id) or self._start(Live.of(session, turn))
                live.complete(turn)
            case LegChanged(record=record):
                self._leg(record)
            case SessionChanged(summary=summary):
                self.publish({"type": "session", "summary": summary})
            case SessionDeleted(session=session):
                for live in [live for live in self._lives.values() if live.session == session]:
                    del self._lives[live.message]
                    live.drop()
                self.publish({"type": "gone", "session": session})
            case ModelsChanged():
                self.publish({"type": "state"})

    def _start(self, live: Live) -> Live:
        self._lives[live.message] = live
        live.task = self._tasks.start(self._follow(live), "message for the page")
        return live

    async def _follow(self, live: Live) -> None:
        """Tell of a message until it is complete."""
        while True:
            await live.wake.wait()
            live.wake.clear()
            self._flush(live)
            for part, block in await live.finished():
                self.publish(
                    {
                        "type": "block",
                        "session": live.session,
                        "message": live.message,
                        "part": part,
                        "block": block.number,
                        "html": block.html,
                        "until": block.until,
                    }
                )
            if live.turn is not None and not live.wake.is_set():
                break
            await asyncio.sleep(INTERVAL)
        for text, html in live.renderings():
            await self._renderings.learn(live.session, text, html)
        shown = await self._renderings.turn(live.session, live.turn)
        if self._lives.get(live.message) is live:
            del self._lives[live.message]
        self.publish({"type": "turn", "session": live.session, "turn": shown})

    def _flush(self, live: Live) -> None:
        """Tell of the events that have been gathered."""
        events = [_event(event) for event in live.take()]
        if events:
            self.publish({"type": "events", "session": live.session, "message": live.message, "events": events})

    def _leg(self, record: LegRecord) -> None:
        if not self._legs:
            asyncio.get_running_loop().call_later(LEGS_EVERY, self._tell_legs)
        self._legs[record.id] = record

    def _tell_legs(self) -> None:
        for record in list(self._legs.values())[-MOST_LEGS:]:
            self.publish({"type": "leg", "leg": self._bus.summary(record)})
        self._legs.clear()

    async def _watch_inbox(self) -> None:
        version = self._inbox.version
        while True:
            version = await self._inbox.change(version)
            self.publish({"type": "inbox", **inbox_json(self._inbox)})


class _Reader:
    """One page that listens."""

    def __init__(self, seq: int) -> None:
        self.seq = seq
        self.wake = asyncio.Event()
        self.has_left = False

    async def listen(self, exchange: Exchange) -> None:
        """Wait until it leaves."""
        while (await exchange.receive())["type"] != "http.disconnect":
            pass
        self.has_left = True
        self.wake.set()


async def _write(exchange: Exchange, data: bytes) -> None:
    async with asyncio.timeout(STALLED):
        await exchange.write(data)


def _asked_for(exchange: Exchange) -> int | None:
    """The number after which a page wants to go on: by itself when it comes back, in the address the first time."""
    query = parse_qs(exchange.scope["query_string"].decode("latin-1"))
    given = exchange.header(b"last-event-id") or query.get("since", [""])[-1]
    return int(given) if given.isdecimal() and len(given) < 20 else None


def _event(event: Event) -> Event | dict[str, Any]:
    """An event as the page gets it: a plan also as HTML."""
    if not isinstance(event, Activity) or not event.plan or len(event.plan) > MOST_PLAN:
        return event
    shown: dict[str, Any] = msgspec.to_builtins(event)
    return {**shown, "html": render(event.plan)}


def inbox_json(inbox: Inbox) -> dict[str, Any]:
    """What waits for a person, with everything that can be answered spelled out."""
    return {"version": inbox.version, "items": [_item(item) for item in inbox.items]}


def _item(item: PendingItem) -> dict[str, Any]:
    shown: dict[str, Any] = msgspec.to_builtins(item)
    if isinstance(item.content, Approval | PlanReview):
        shown["ask"]["options"] = [
            {"id": option.id, "label": option.label, "kind": option.kind, "description": option.description}
            for option in item.content.options
        ]
    if isinstance(item.content, PlanReview) and len(item.content.plan) <= MOST_PLAN:
        shown["html"] = render(item.content.plan)
    return shown
