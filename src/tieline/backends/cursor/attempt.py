"""One attempt of a run: a pipe, the state machine that uses it, and the tasks and timers that keep it alive.

Theory of operation
-------------------

Until it is closed, an attempt reads from its pipe, whether a leg is open or not, so that the service is always
answered. Events are queued until `events` returns them; if too many are queued, reading pauses. Messages are sent in
the order in which the machine produced them; the pipe's `lanes` limits how many are sent in parallel. Each question for
a person waits in a task of its own, which is cancelled when the attempt is closed.

While a leg is open (`WATCHED`), the service has to make progress. Between two legs (`PARKED`), it may wait as long as
the client does. Every failure is passed to the machine, which reports it if a leg is open. The only exception is a
failure to open the stream: the attempt itself reports it, as its only event. A closed attempt ignores all events.
"""

import asyncio
from collections.abc import Callable, Sequence
from enum import Enum
from functools import partial

from tieline.backends.cursor.pipes import Pipe, StreamRefused
from tieline.backends.cursor.recovery import BROKEN, HTTP2_REFUSED, SILENT, STALLED
from tieline.backends.pending_approvals import PendingItems, submit
from tieline.model.events import Event, Failed
from tieline.model.inbox import Answer, InboxItem
from tieline.model.ports import Human
from tieline.net.client.http import PipeError
from tieline.tasks import Tasks
from tieline.wire.cursor.errors import read_status
from tieline.wire.cursor.run.machine import CursorRun
from tieline.wire.cursor.run.states import transition_table

HEARTBEAT = 5.0
EXEC_HEARTBEAT = 3.0
MAX_EVENTS = 4096
"""Reading pauses while more events than this are queued. The pause also slows down the service."""


class AttemptState(Enum):
    """The states of an attempt."""

    OPENING = "opening"
    """The stream is not open yet."""
    WATCHED = "watched"
    """A leg is open: the service has to make progress."""
    PARKED = "parked"
    """No leg is open: the service may wait."""
    CLOSED = "closed"
    """Nothing is sent or received any more."""


class AttemptEvent(Enum):
    """The events that change the state of an attempt."""

    LEG_BEGINS = "leg begins"
    """A leg begins on the open stream."""
    LEG_ENDS = "leg ends"
    CLOSED = "closed"
    """The stream has ended, an operation has failed, or the run has given up the attempt."""


# Names after "Seen in" are tests in tests/backends that require the transition.
ATTEMPT_TRANSITIONS = transition_table(
    {
        AttemptState.OPENING: {
            AttemptEvent.LEG_BEGINS: AttemptState.WATCHED,
            AttemptEvent.CLOSED: AttemptState.CLOSED,  # Seen in test_a_stream_that_cannot_be_opened_is_the_first_event
        },
        AttemptState.WATCHED: {
            # Seen in test_a_service_that_waits_for_the_client_has_not_stalled
            AttemptEvent.LEG_ENDS: AttemptState.PARKED,
            AttemptEvent.CLOSED: AttemptState.CLOSED,
        },
        AttemptState.PARKED: {
            AttemptEvent.LEG_BEGINS: AttemptState.WATCHED,
            AttemptEvent.CLOSED: AttemptState.CLOSED,
        },
        # The stream may end before the client has taken the last events of a leg, or between two legs.
        AttemptState.CLOSED: dict.fromkeys(AttemptEvent, AttemptState.CLOSED),
    }
)


class Attempt:
    """One attempt of a run: a state machine and its pipe. `human` is the person who answers its inbox items."""

    def __init__(
        self,
        name: str,
        machine: CursorRun,
        pipe: Pipe,
        tasks: Tasks,
        *,
        stall_after: float,
        human: Human | None = None,
    ) -> None:
        self.machine = machine
        self.human = human
        self._state = AttemptState.OPENING
        self._name = name
        self._pipe = pipe
        self._tasks = tasks
        self._stall_after = stall_after
        self._asked: PendingItems | None = None
        """The open inbox items; None until the first item is submitted."""
        self._loop = asyncio.get_running_loop()
        self._events: list[Event] = []
        self._waiter: asyncio.Future[None] | None = None
        self._room = asyncio.Event()
        self._room.set()
        self._to_send: list[bytes] = []
        self._senders: set[asyncio.Task[None]] = set()
        self._reading: asyncio.Task[None] | None = None
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._armed_for: tuple[float | None, int] = (None, 0)
        """The values that the machine's `wake_after` and `progress` had when the timer was set."""
        self._seen_progress = 0
        self._progressed_at = 0.0

    def _change(self, event: AttemptEvent) -> None:
        """Change the state according to `event`. No other method changes it."""
        self._state = ATTEMPT_TRANSITIONS[self._state][event]

    @property
    def is_closed(self) -> bool:
        return self._state is AttemptState.CLOSED

    async def begin(self) -> None:
        """Send the run request and wait until the stream is open. A failure is reported as the attempt's only event."""
        try:
            await self._pipe.begin(self.machine.outbox())
        except (PipeError, StreamRefused) as error:
            self.add_events([self._failed(error)])
            self.close()
            return
        self._reading = self._tasks.start(self._read(), "reading a run")
        self.watch()
        self._every("heartbeat", HEARTBEAT, self._beat)
        self._every("exec heartbeat", EXEC_HEARTBEAT, self._exec_beat)

    async def events(self) -> list[Event]:
        """Wait until events are queued, and return them all. Return an empty list if the attempt is closed."""
        while not self._events:
            if self.is_closed:
                return []
            self._waiter = self._loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        events, self._events = self._events, []
        self._room.set()
        return events

    def watch(self) -> None:
        """Expect the service to make progress from now on, because a leg is open."""
        self._change(AttemptEvent.LEG_BEGINS)
        self._restart_watch()

    def unwatch(self) -> None:
        """Stop expecting the service to make progress, because no leg is open."""
        self._change(AttemptEvent.LEG_ENDS)
        self._cancel_timer("watch")

    def push(self) -> None:
        """Send the messages that the machine has produced, and set the timer that it requests."""
        self._to_send += self.machine.outbox()
        if self._to_send and len(self._senders) < self._pipe.lanes and not self.is_closed:
            sender = self._tasks.start(self._send(), "sending to a run")
            self._senders.add(sender)
            sender.add_done_callback(self._senders.discard)
        self._arm()

    def add_events(self, events: Sequence[Event]) -> None:
        """Queue events. The method `events` returns them."""
        if not events:
            return
        self._events += events
        if len(self._events) > MAX_EVENTS:
            self._room.clear()
        self._wake_waiter()

    def close(self) -> None:
        """End the attempt at once: stop its tasks and timers, and close the stream."""
        self._change(AttemptEvent.CLOSED)
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        if self._asked is not None:
            self._asked.close()
        for task in (self._reading, *self._senders):
            if task is not None:
                task.cancel()
        self._pipe.close()

    # ── Reading and sending ──────────────────────────────────────────────────────────────────────

    async def _read(self) -> None:
        machine, pipe = self.machine, self._pipe
        try:
            while data := await pipe.chunk():
                self.add_events(machine.receive(data))
                if machine.progress != self._seen_progress:
                    self._seen_progress = machine.progress
                    self._progressed_at = self._loop.time()
                self.push()
                if machine.inbox_items:
                    self._ask()
                if not self._room.is_set():
                    await self._room.wait()
                if machine.ended:
                    pipe.release()
                    break
            else:
                self.add_events(machine.receive_eof(pipe.trailers))
        except PipeError as error:
            self.add_events(machine.receive_failure(self._failed(error)))
        # Messages that the machine produced at the very end are no longer needed.
        self._reading = None
        self.close()
        self._wake_waiter()

    async def _send(self) -> None:
        try:
            while self._to_send:
                messages, self._to_send = self._to_send, []
                await self._pipe.send(messages)
        except (PipeError, StreamRefused) as error:
            if not self.machine.turn_ended:
                self._fail(self._failed(error))

    def _fail(self, failed: Failed) -> None:
        if not self.is_closed:
            self.add_events(self.machine.receive_failure(failed))
            self.close()
            self._wake_waiter()

    def _wake_waiter(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # ── Questions for a person ───────────────────────────────────────────────────────────────────

    def _ask(self) -> None:
        """Submit new inbox items of the machine to the person."""
        if self._asked is None:
            self._asked = PendingItems(self._tasks)
        for query, item in self.machine.inbox_items.items():
            if self.human is not None and query not in self._asked:
                work = self._put(query, item, self.human)
                self._asked.begin(query, work, f"a question from {self._name}", partial(self._answer, query, None))

    async def _put(self, query: int, item: InboxItem, human: Human) -> None:
        self._answer(query, await submit(item, human))

    def _answer(self, query: int, answer: Answer | None) -> None:
        """Send a person's answer to question number `query`. From then on, the service has to make progress again."""
        self.add_events(self.machine.answer_query(query, answer))
        self.push()
        if self._state is AttemptState.WATCHED:
            self._restart_watch()

    # ── Timers ───────────────────────────────────────────────────────────────────────────────────

    def _every(self, name: str, seconds: float, do: Callable[[], None]) -> None:
        self._cancel_timer(name)
        self._timers[name] = self._loop.call_later(seconds, self._tick, name, seconds, do)

    def _tick(self, name: str, seconds: float, do: Callable[[], None]) -> None:
        # A method instead of a closure: a closure that refers to itself would keep a finished run, with all its
        # history, alive until a full garbage collection.
        self._timers[name] = self._loop.call_later(seconds, self._tick, name, seconds, do)
        do()

    def _cancel_timer(self, name: str) -> None:
        timer = self._timers.pop(name, None)
        if timer is not None:
            timer.cancel()

    def _arm(self) -> None:
        """Set the timer for the machine's `wake`. Restart it if the service has sent anything other than heartbeats."""
        wanted = (self.machine.wake_after, self.machine.progress)
        if "wake" in self._timers and wanted == self._armed_for:
            return
        self._armed_for = wanted
        self._cancel_timer("wake")
        if self.machine.wake_after is not None and not self.is_closed:
            self._timers["wake"] = self._loop.call_later(self.machine.wake_after, self._wake)

    def _wake(self) -> None:
        self._timers.pop("wake", None)
        self.add_events(self.machine.wake())
        self.push()

    def _beat(self) -> None:
        self.machine.heartbeat()
        self.push()

    def _exec_beat(self) -> None:
        if self.machine.pending:
            self.machine.exec_heartbeat()
            self.push()

    def _restart_watch(self) -> None:
        self._progressed_at = self._loop.time()
        self._watch_for(self._stall_after)

    def _watch_for(self, seconds: float) -> None:
        self._cancel_timer("watch")
        if self._state is AttemptState.WATCHED:
            self._timers["watch"] = self._loop.call_later(seconds, self._check_progress)

    def _check_progress(self) -> None:
        now = self._loop.time()
        if self._events or self.machine.pending or self.machine.inbox_items:
            # The client is slow, or a result or a person's answer is missing: the service cannot make progress.
            self._progressed_at = now
        left = self._progressed_at + self._stall_after - now
        if left > 0:
            self._watch_for(left)
            return
        message = f"`{self._name}` sent nothing but heartbeats for {self._stall_after:.0f} seconds."
        self._fail(Failed(kind="timeout", status=504, code=STALLED, message=message))

    def _failed(self, error: PipeError | StreamRefused) -> Failed:
        if isinstance(error, StreamRefused):
            return read_status(error.status, error.body, error.headers)
        if error.reason == "timeout":
            # Without a connection no run has begun, so another try costs nothing.
            code = BROKEN if error.phase == "connect" else SILENT
            return Failed(kind="timeout", status=504, code=code, message=f"`{self._name}`: {error.message}")
        code = HTTP2_REFUSED if error.reason == "protocol" and error.phase == "connect" else BROKEN
        return Failed(kind="upstream", status=502, code=code, message=f"`{self._name}`: {error.message}")
