"""A live run as the core sees it: legs, answers, and the attempts behind them.

Behind one leg there may be several attempts: when the stream breaks, the token has expired or the service stalls, a
new attempt takes over where the old one was, and what the client has seen is neither lost nor said again. Between legs
the attempt lives on by itself; if it dies there, the next leg begins with a fresh one made from the whole history.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

from msgspec.structs import replace

from tieline.backends.cursor.attempt import Attempt
from tieline.backends.cursor.auth import Account
from tieline.backends.cursor.pipes import Ids, Pipe, Transport
from tieline.backends.cursor.recovery import Kind, Recovery, Remedy
from tieline.model.content import Message, Part, Text, ToolResult
from tieline.model.errors import GatewayError
from tieline.model.events import Batch, Event, Failed, Finished, Note, PartEnd, Started, StopReason
from tieline.model.ports import Leg
from tieline.model.request import Request
from tieline.tasks import Tasks
from tieline.wire.cursor.blobs import Blobs
from tieline.wire.cursor.request import Opening, Settings, Surroundings, open_run, resume_run
from tieline.wire.cursor.run import CursorRun
from tieline.wire.cursor.tools import Offer


@dataclass(frozen=True, slots=True)
class Service:
    """What runs need to know of the service and of this machine."""

    name: str
    account: Account
    open_pipe: Callable[[Transport, str, Ids], Pipe]
    transport: Callable[[], Transport]
    mint_call: Callable[[], str]
    mint_id: Callable[[], str]
    tasks: Tasks
    settings: Settings
    surroundings: Surroundings
    stall_after: float = 120.0


class LiveRun:
    """One conversation under way; may outlive the leg that opened it."""

    def __init__(self, service: Service, request: Request, conversation_id: str, on_close: Callable[[], None]) -> None:
        self._service = service
        self._request = request
        self._conversation_id = conversation_id
        self._on_close = on_close
        self._attempt: Attempt | None = None
        self._recovery = Recovery(service.transport())
        self._reply: list[Part] = []
        self._notes: list[Note] = []

    @property
    def pending(self) -> frozenset[str]:
        attempt = self._attempt
        return frozenset() if attempt is None or attempt.is_broken else attempt.machine.pending

    def leg(self) -> Leg:
        self._reply = []
        return _Leg(self)

    async def answer(self, results: Sequence[ToolResult], request: Request | None = None, words: str = "") -> None:
        """Hand results to the attempt that waits for them; if it is gone, the next leg replays the history."""
        self._request = request or self._with_results(results, words)
        attempt = self._attempt
        if attempt is None or attempt.is_broken:
            self._drop()
            return
        if request is not None:
            attempt.machine.offered(Offer.of(request.tools))
        attempt.machine.answer(results, words)
        attempt.push()

    async def aclose(self) -> None:
        self._drop()
        self._on_close()

    async def begin(self) -> None:
        """A leg begins: with the attempt that lives, or with a new one."""
        self._recovery = Recovery(self._service.transport())
        if self._attempt is None:
            await self._open(Remedy())
        else:
            self._attempt.machine.begin(self._service.mint_id(), self._request.model)
            self._attempt.give(self._attempt.machine.pull())
            self._attempt.push()
            self._attempt.watch()

    async def next_events(self) -> Batch:
        """The next events of the leg; nothing once it is over."""
        while (attempt := self._attempt) is not None:
            events = await attempt.events()
            last = events[-1] if events else None
            if last is None:
                return events
            if type(last) is Failed:
                events = await self._recovered(events, last)
            if type(last) is Finished:
                attempt.unwatch()
            if events:
                self._reply += [event.part for event in events if type(event) is PartEnd]
                return self._noted(events)
        return ()

    async def _recovered(self, events: list[Event], failed: Failed) -> list[Event]:
        """The events before a failure, and the failure itself unless something can be done about it."""
        attempt = self._attempt
        assert attempt is not None
        machine = attempt.machine
        before = events[:-1]
        if machine.calls:
            # The calls are made: their results will come with the whole history, and that is all it takes to go on.
            self._drop()
            return [*before, *machine.finish(StopReason.TOOL_USE)]
        if failed.code == STALLED and (rescued := machine.rescue()):
            self._drop()
            return [*before, *rescued]
        remedy = self._recovery.remedy(failed, has_checkpoint=machine.checkpoint_usable, has_spoken=machine.has_spoken)
        if remedy is None:
            self._drop()
            return events
        self._notes.append(Note(kind="retry", message=remedy.why))
        await self._again(remedy, attempt)
        return before
