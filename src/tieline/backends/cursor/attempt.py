"""One attempt of a run: a pipe, the machine that speaks over it, and the tasks and timers that keep it alive.

The pump reads for as long as the attempt lives, leg or no leg, so the service is always answered; what the machine
makes of it gathers until somebody takes it. Messages go out in the order the machine put them, by as many senders at
once as the pipe has lanes.
What the service asks of a person waits beside it, and ends with it.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from tieline.backends.cursor.pipes import Pipe, Refused
from tieline.backends.cursor.recovery import BROKEN, NOT_SPOKEN, SILENT, STALLED
from tieline.backends.pending_approvals import Asked, put
from tieline.model.events import Event, Failed
from tieline.model.inbox import Answer, InboxItem
from tieline.model.ports import Human
from tieline.net.client.http import PipeError
from tieline.tasks import Tasks
from tieline.wire.cursor.errors import read_status
from tieline.wire.cursor.run.machine import CursorRun

HEARTBEAT = 5.0
EXEC_HEARTBEAT = 3.0
MOST_EVENTS = 4096
"""So many events may wait to be taken; then the pump stops reading, and the service has to wait."""


class Attempt:
    """A machine and its pipe; `human` is asked what the machine holds for a person."""

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
        self.is_broken = False
        """Nothing can be sent any more, and nothing more will come."""
        self._name = name
        self._pipe = pipe
        self._tasks = tasks
        self._stall_after = stall_after
        self.human = human
        self._asked = Asked(tasks)
        self._loop = asyncio.get_running_loop()
        self._events: list[Event] = []
        self._waiter: asyncio.Future[None] | None = None
        self._room = asyncio.Event()
        self._room.set()
        self._to_send: list[bytes] = []
        self._senders: set[asyncio.Task[None]] = set()
        self._pump: asyncio.Task[None] | None = None
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._wish: tuple[float | None, int] = (None, 0)
        self._seen_progress = 0
        self._progressed_at = 0.0

    async def begin(self) -> None:
        """Send the run request and wait for the stream; what goes wrong is the first event."""
        try:
            await self._pipe.begin(self.machine.outbox())
        except (PipeError, Refused) as error:
            self._break(self._failed(error))
            return
        self._pump = self._tasks.start(self._read(), "reading a run")
        self.watch()
        self._every("heartbeat", HEARTBEAT, self._beat)
        self._every("exec heartbeat", EXEC_HEARTBEAT, self._exec_beat)

    async def events(self) -> list[Event]:
        """What has happened since the last time; waits for something if need be."""
        while not self._events:
            if self.is_broken:
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
        """A leg is open: from now on the service has to make progress."""
        self._progressed_at = self._loop.time()
        self._watch_for(self._stall_after)

    def unwatch(self) -> None:
        """No leg is open: the service may wait as long as the client does."""
        timer = self._timers.pop("watch", None)
        if timer is not None:
            timer.cancel()

    def push(self) -> None:
        """Send what the machine has put out, and mind its wish to be woken."""
        self._to_send += self.machine.outbox()
        if self._to_send and len(self._senders) < self._pipe.lanes and not self.is_broken:
            sender = self._tasks.start(self._send(), "sending to a run")
            self._senders.add(sender)
            sender.add_done_callback(self._senders.discard)
        self._arm()

    def give(self, events: Sequence[Event]) -> None:
        """Put events where the next `events()` finds them."""
        if not events:
            return
        self._events += events
        if len(self._events) > MOST_EVENTS:
            self._room.clear()
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def close(self) -> None:
        """End it at once."""
        self.is_broken = True
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._asked.close()
        for task in (self._pump, *self._senders):
            if task is not None:
                task.cancel()
        self._pipe.close()

    async def _read(self) -> None:
        machine, pipe = self.machine, self._pipe
        try:
            while data := await pipe.chunk():
                self.give(machine.receive(data))
                if machine.progressed != self._seen_progress:
                    self._seen_progress = machine.progressed
                    self._progressed_at = self._loop.time()
                self.push()
                if machine.questions:
                    self._ask()
                if not self._room.is_set():
                    await self._room.wait()
                if machine.ended:
                    pipe.release()
                    break
            else:
                self.give(machine.receive_eof(pipe.trailers))
        except PipeError as error:
            # Once the turn is over a stream may end in any way.
            self.give(machine.receive_eof() if machine.turn_ended else [self._failed(error)])
        self._finish()

    def _ask(self) -> None:
        """Put to the person what is new of what the machine holds."""
        for query, ask in self.machine.questions.items():
            if self.human is not None and query not in self._asked:
                work = self._put(query, ask, self.human)
                self._asked.begin(query, work, f"a question of {self._name}", partial(self._tell, query, None))

    async def _put(self, query: int, ask: InboxItem, human: Human) -> None:
        self._tell(query, await put(ask, human))

    def _tell(self, query: int, answer: Answer | None) -> None:
        """The person has decided: it is the service's turn again."""
        self.give(self.machine.answer_query(query, answer))
        self.push()
        if "watch" in self._timers:
            self.watch()

    async def _send(self) -> None:
        try:
            while self._to_send:
                messages, self._to_send = self._to_send, []
                await self._pipe.send(messages)
        except (PipeError, Refused) as error:
            if not self.machine.turn_ended:
                self._break(self._failed(error))

    def _break(self, failed: Failed) -> None:
        if not self.is_broken:
            self.give([failed])
            self.close()

    def _finish(self) -> None:
        """The stream is over; what was put out at the very end is of no use to anybody."""
        self._pump = None
        self.close()
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _every(self, name: str, seconds: float, do: Callable[[], None]) -> None:
        old = self._timers.pop(name, None)
        if old is not None:
            old.cancel()
        self._timers[name] = self._loop.call_later(seconds, self._tick, name, seconds, do)

    def _tick(self, name: str, seconds: float, do: Callable[[], None]) -> None:
        # No closure that names itself: it would keep a finished run, with all its history, until a full collection.
        self._timers[name] = self._loop.call_later(seconds, self._tick, name, seconds, do)
        do()

    def _arm(self) -> None:
        """The machine wants to be woken after some quiet, which mere signs of life do not break."""
        wish = (self.machine.wake_after, self.machine.progressed)
        timer = self._timers.get("wake")
        if timer is not None and wish == self._wish:
            return
        self._wish = wish
        if timer is not None:
            timer.cancel()
            del self._timers["wake"]
        if self.machine.wake_after is not None and not self.is_broken:
            self._timers["wake"] = self._loop.call_later(self.machine.wake_after, self._wake)

    def _wake(self) -> None:
        self._timers.pop("wake", None)
        self.give(self.machine.wake())
        self.push()

    def _beat(self) -> None:
        self.machine.heartbeat()
        self.push()

    def _exec_beat(self) -> None:
        if self.machine.pending:
            self.machine.exec_heartbeat()
            self.push()

    def _watch_for(self, seconds: float) -> None:
        old = self._timers.get("watch")
        if old is not None:
            old.cancel()
        self._timers["watch"] = self._loop.call_later(seconds, self._check_progress)

    def _check_progress(self) -> None:
        now = self._loop.time()
        if self._events or self.machine.pending or self.machine.questions:
            # The client is slow, or a person has been asked: the service cannot be expected to move.
            self._progressed_at = now
        left = self._progressed_at + self._stall_after - now
        if left > 0:
            self._watch_for(left)
            return
        message = f"`{self._name}` sent nothing but heartbeats for {self._stall_after:.0f} seconds."
        self._break(Failed(kind="timeout", status=504, code=STALLED, message=message))

    def _failed(self, error: PipeError | Refused) -> Failed:
        if isinstance(error, Refused):
            return read_status(error.status, error.body, error.headers)
        if error.reason == "timeout":
            # Without a connection no run has begun: another try costs nothing.
            code = BROKEN if error.phase == "connect" else SILENT
            return Failed(kind="timeout", status=504, code=code, message=f"`{self._name}`: {error.message}")
        code = NOT_SPOKEN if error.reason == "protocol" and error.phase == "connect" else BROKEN
        return Failed(kind="upstream", status=502, code=code, message=f"`{self._name}`: {error.message}")
