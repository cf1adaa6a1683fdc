"""The event stream that keeps open pages up to date. It is ordered and rate-limited, and a page can resume it.

The stream watches the event bus while a page is open, and for a while afterwards. A session's events are collected and
sent at most thirty times a second. The HTML of each Markdown block is sent when the block is complete. A page can load
a session in the middle of a message: the response names the last stream message that it already includes.

In a cluster, messages about sessions are written to a log that all replicas share (`StreamLog`), and each replica sends
the messages of the log to its pages. Messages about the inbox, which every replica knows, and about the legs and the
models of a replica are not in the log.
"""

import asyncio
from collections.abc import Callable, Sequence
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
from tieline.model.scope import Place, Scope
from tieline.tasks import Tasks
from tieline.web.live_message import LiveMessage, is_beginning
from tieline.web.markdown import render
from tieline.web.message_ring import MessageRing, frame
from tieline.web.stream_log import LoggedMessage, LogReader, StreamLog
from tieline.web.turn_renderer import RenderedText, TurnRenderer, turn_json

INTERVAL = 1 / 30
"""Minimum number of seconds between two stream messages with events of the same session message."""
LEGS_INTERVAL = 0.1
MAX_LEGS = 100
"""Maximum number of legs that are sent at once. A page does not list more legs than this."""
LINGER = 120.0
"""Seconds that the stream keeps watching the event bus after the last page has left, in case it reconnects."""
KEEP_ALIVE = 15.0
FINISH = 2.0
"""Maximum number of seconds that a stopping gateway waits until the last messages are rendered."""
STALLED = 60.0
"""Seconds after which a connection that accepts no data is dropped. The page then reconnects and resumes the stream."""
MAX_PLAN = 20_000
"""Maximum length, in characters, of a plan that is rendered as HTML. A longer plan is shown as plain text."""
HELLO = b"retry: 1000\n: here\n\n"
NOTHING_NEW = b": nothing new\n\n"


class Snapshot(NamedTuple):
    """A position in the stream, and the HTML of the message in progress, as rendered up to this position."""

    seq: int
    live: dict[int, RenderedText]


class Stream:
    """The event stream that all open pages read.

    `clock` returns seconds since 1970. `log` is the log that the replicas of a cluster share; None if there is only
    this gateway.
    """

    def __init__(
        self,
        bus: Bus,
        inbox: Inbox,
        tasks: Tasks,
        renderer: TurnRenderer,
        *,
        clock: Callable[[], float],
        keep_alive: float = KEEP_ALIVE,
        linger: float = LINGER,
        ring: MessageRing | None = None,
        log: StreamLog | None = None,
    ) -> None:
        self._bus = bus
        self._inbox = inbox
        self._tasks = tasks
        self._renderer = renderer
        self._keep_alive = keep_alive
        self._linger = linger
        self._log = log
        self._ring = ring or MessageRing(0 if log is not None else int(clock() * 1000), is_logged=log is not None)
        self._readers: set[_PageReader] = set()
        self._lives: dict[str, LiveMessage] = {}
        self._legs: dict[str, LegRecord] = {}
        self._unwatch: Callable[[], None] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._leaving: asyncio.TimerHandle | None = None
        self._is_closed = False

    @property
    def seq(self) -> int:
        """The number of the last stream message."""
        return self._ring.number

    async def position(self) -> int:
        """Return the number of the last stream message that this replica has received.

        Any state that is read afterwards includes the changes that the messages up to this number announce.
        """
        if self._log is not None:
            await self._log.ready()
        return self._ring.number

    def attend(self) -> None:
        """Watch the event bus from now on, until no page has been active for a while.

        In a cluster, watch it permanently, because a page may be connected to any replica.
        """
        if self._is_closed:
            return
        if self._unwatch is None:
            self._ring.forget()
            self._unwatch = self._bus.subscribe(self._on_news)
            self._watching = self._tasks.start(self._watch_inbox(), "inbox for the page")
            if self._log is not None:
                self._log.start(LogReader(self._take_logged, self._restart, self._take_unlogged))
        if self._log is not None:
            return
        if self._leaving is not None:
            self._leaving.cancel()
        self._leaving = asyncio.get_running_loop().call_later(self._linger, self._leave)

    def snapshot(self, view: SessionView) -> Snapshot:
        """Publish all events that `view` contains, and return the position of the stream after them, with their HTML.

        A page that shows the view and reads the stream from this position misses no event and receives none twice. In a
        cluster, the position is known only later: use the one that `settled` returns.
        """
        if view.running is None:
            return Snapshot(self.seq, {})
        live = self._lives.get(view.running)
        if live is not None:
            self._flush(live)
        if live is None or not live.is_whole:
            if live is not None:
                live.drop()
            turn = next(turn for turn in view.turns if turn.id == view.running)
            live = self._start(LiveMessage.of(view.summary.id, turn, view.summary.place))
        return Snapshot(self.seq, live.shown())

    async def settled(self, view: SessionView, snapshot: Snapshot, before: int) -> int:
        """Return the position of `snapshot`, which has just been taken of `view`.

        `before` is the position before the view was read. In a cluster, wait until the messages that `snapshot` has
        published are numbered.
        """
        if self._log is None:
            return snapshot.seq
        number = await self._log.written() if view.running is not None else None
        return before if number is None else number

    async def finish(self) -> None:
        """In a cluster, write the last messages to the log, because pages of other replicas wait for them."""
        if self._log is not None:
            ending = [live.task for live in self._lives.values() if live.task is not None and live.turn is not None]
            if ending:
                await asyncio.wait(ending, timeout=FINISH)
            await self._log.written()

    def close(self) -> None:
        """Stop watching the event bus, because the gateway is stopping."""
        self._is_closed = True
        self._readers.clear()
        if self._leaving is not None:
            self._leaving.cancel()
        self._leave()

    def publish(self, message: Any, place: Place | None = None) -> None:
        """Send a message to all pages, or only to those whose scope covers a place."""
        if self._log is not None:
            self._log.add(msgspec.json.encode(message), place)
        else:
            self.publish_here(message, place)

    def publish_here(self, message: Any, place: Place | None = None) -> None:
        """Send a message only to pages that are connected to this replica."""
        self._ring.put(message, place)
        self._wake()

    def _take_logged(self, messages: Sequence[LoggedMessage]) -> None:
        for number, data, place in messages:
            self._ring.put_logged(number, data, place)
        self._wake()

    def _take_unlogged(self, data: bytes, place: Place | None) -> None:
        self._ring.put_unlogged(data, place)
        self._wake()

    def _restart(self, number: int) -> None:
        self._ring.restart(number)
        self._wake()

    def _wake(self) -> None:
        for reader in self._readers:
            reader.wake.set()

    async def serve(self, exchange: Exchange) -> None:
        """Serve the stream to one page until it disconnects.

        Begin at the position that the page requests. If it requests none, send only new messages.
        """
        self.attend()
        reader = _PageReader(await self._position_for(exchange), exchange.visible)
        self._readers.add(reader)
        listening = self._tasks.start(reader.listen(exchange), "page watch")
        try:
            async with self._inbox.watched(reader.scope):
                await exchange.begin_stream()
                await _write(exchange, HELLO)
                if self._log is not None:  # the page may have seen the inbox of another replica
                    await _write(exchange, frame(None, self._inbox_message(reader.scope)))
                await self._write_messages(exchange, reader)
        except TimeoutError:
            pass  # the connection accepts no data; the server closes it
        finally:
            listening.cancel()
            self._readers.discard(reader)
            self.attend()

    async def _position_for(self, exchange: Exchange) -> int:
        """Return the position in the ring at which a page begins to read."""
        number = _requested_position(exchange)
        if self._log is not None:
            await self._log.ready()
            if number is not None and number > self._ring.number:
                await self._log.catch_up(number)
        return self._ring.seq if number is None else self._ring.position(number)

    async def _write_messages(self, exchange: Exchange, reader: "_PageReader") -> None:
        while not reader.has_left:
            data, reader.seq = self._ring.after(reader.seq, reader.scope)
            if exchange.is_still_valid is not None and not exchange.is_still_valid():
                return  # the key was revoked
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
        """Stop watching the event bus, unless a page is still connected."""
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

    # ── Events from the bus ──────────────────────────────────────────────────────────────────────

    def _on_news(self, news: BusEvent) -> None:
        match news:
            case MessageEvents(session=session, message=message, events=events, place=place):
                live = self._lives.get(message) or self._start(
                    LiveMessage(session, message, place, is_whole=is_beginning(events))
                )
                live.add(events)
            case TurnCompleted(session=session, turn=turn, place=place) if turn.role == "user":
                self.publish({"type": "turn", "session": session, "turn": turn_json(turn)}, place)
            case TurnCompleted(session=session, turn=turn, place=place):
                live = self._lives.get(turn.id) or self._start(LiveMessage.of(session, turn, place))
                live.complete(turn)
            case LegChanged(record=record):
                self._leg(record)
            case SessionChanged(summary=summary):
                self.publish({"type": "session", "summary": summary}, summary.place)
            case SessionDeleted(session=session, place=place):
                for live in [live for live in self._lives.values() if live.session == session]:
                    del self._lives[live.message]
                    live.drop()
                self.publish({"type": "gone", "session": session}, place)
            case ModelsChanged():
                self.publish_here({"type": "state"})

    def _start(self, live: LiveMessage) -> LiveMessage:
        self._lives[live.message] = live
        live.task = self._tasks.start(self._follow(live), "message for the page")
        return live

    async def _follow(self, live: LiveMessage) -> None:
        """Publish the events and blocks of a message as they arrive, and finally the complete message."""
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
                    },
                    live.place,
                )
            if live.turn is not None and not live.wake.is_set():
                break
            await asyncio.sleep(INTERVAL)
        for text, html in live.renderings():
            await self._renderer.learn(live.session, text, html)
        shown = await self._renderer.turn(live.session, live.turn)
        if self._lives.get(live.message) is live:
            del self._lives[live.message]
        self.publish({"type": "turn", "session": live.session, "turn": shown}, live.place)

    def _flush(self, live: LiveMessage) -> None:
        """Publish the events that the message has collected since the last call."""
        events = [_event(event) for event in live.take()]
        if events:
            message = {"type": "events", "session": live.session, "message": live.message, "events": events}
            self.publish(message, live.place)

    def _leg(self, record: LegRecord) -> None:
        if not self._legs:
            asyncio.get_running_loop().call_later(LEGS_INTERVAL, self._publish_legs)
        self._legs[record.id] = record

    def _publish_legs(self) -> None:
        for record in list(self._legs.values())[-MAX_LEGS:]:
            self.publish_here({"type": "leg", "leg": self._bus.summary(record)}, record.place)
        self._legs.clear()

    async def _watch_inbox(self) -> None:
        version = self._inbox.version
        while True:
            version = await self._inbox.change(version)
            self._ring.put_scoped(self._inbox_message)
            self._wake()

    def _inbox_message(self, scope: Scope) -> dict[str, Any]:
        return {"type": "inbox", **inbox_json(self._inbox, scope)}


class _PageReader:
    """One connected page, its position in the stream, and the scope of the messages that it receives."""

    def __init__(self, seq: int, scope: Scope) -> None:
        self.seq = seq
        self.scope = scope
        self.wake = asyncio.Event()
        self.has_left = False

    async def listen(self, exchange: Exchange) -> None:
        """Wait until the page disconnects."""
        while (await exchange.receive())["type"] != "http.disconnect":
            pass
        self.has_left = True
        self.wake.set()


async def _write(exchange: Exchange, data: bytes) -> None:
    async with asyncio.timeout(STALLED):
        await exchange.write(data)


def _requested_position(exchange: Exchange) -> int | None:
    """Return the number of the last message that the page has received, or None if the request does not contain it.

    The stream resumes after this message. The number is in the header `last-event-id` or the query parameter `since`.
    """
    query = parse_qs(exchange.scope["query_string"].decode("latin-1"))
    given = exchange.header(b"last-event-id") or query.get("since", [""])[-1]
    return int(given) if given.isdecimal() and len(given) < 20 else None


def _event(event: Event) -> Event | dict[str, Any]:
    """Return an event in the form that the page expects. If it is an activity with a plan, add the HTML of the plan."""
    if not isinstance(event, Activity) or not event.plan or len(event.plan) > MAX_PLAN:
        return event
    shown: dict[str, Any] = msgspec.to_builtins(event)
    return {**shown, "html": render(event.plan)}


def inbox_json(inbox: Inbox, scope: Scope) -> dict[str, Any]:
    """Return the inbox items of a scope as JSON for the page.

    In a cluster, `source` is the replica to which `version` belongs.
    """
    shown = {"version": inbox.version, "items": [_item(item) for item in inbox.items_in(scope)]}
    return {**shown, "source": inbox.source} if inbox.source else shown


def _item(item: PendingItem) -> dict[str, Any]:
    shown: dict[str, Any] = msgspec.to_builtins(item)
    if isinstance(item.content, Approval | PlanReview):
        shown["ask"]["options"] = [
            {"id": option.id, "label": option.label, "kind": option.kind, "description": option.description}
            for option in item.content.options
        ]
    if isinstance(item.content, PlanReview) and len(item.content.plan) <= MAX_PLAN:
        shown["html"] = render(item.content.plan)
    return shown
