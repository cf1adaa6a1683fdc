"""One leg as the gateway sees it: events pass through, and what matters beyond the leg is noted on the way."""

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, Self

from msgspec.structs import replace

from tieline.core.bus import Bus
from tieline.core.metrics import Metrics
from tieline.core.parking import Lot, Parked
from tieline.core.repair import Repairs
from tieline.core.secrets import Secrets
from tieline.core.showing import Showing, Style
from tieline.core.thoughts import Thoughts
from tieline.model.content import Message, Part, Thinking, ToolCall
from tieline.model.errors import GatewayError
from tieline.model.events import (
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
from tieline.model.ports import Leg, Run
from tieline.model.request import Request

log = logging.getLogger("tieline")

_NO_USAGE = Usage()

Start = Callable[[Request, "WatchedLeg"], Awaitable[Run]]
"""Finds the backend of a request and begins its run."""


class Asker(NamedTuple):
    """Who asks, and how it wants to see what is done without it."""

    frontend: str
    client: str = ""
    activity: Style = "reasoning"
    size: int = 0
    """About how many characters its request has, if that is known."""


class Ledger(NamedTuple):
    """Where all legs of a gateway are written down."""

    metrics: Metrics
    thoughts: Thoughts
    secrets: Secrets
    lot: Lot
    clock: Callable[[], float]
    bus: Bus


class WatchedLeg:
    """One leg under way: iterate over its batches, and close it.

    Nothing is raised: whatever goes wrong is a Failed. A class and not an async generator, because the event loop's
    book-keeping of those costs as much as translating a small answer.
    """

    def __init__(self, request: Request, asker: Asker, ledger: Ledger, start: Start) -> None:
        self.repairs: Repairs | None = None
        self.showing: Showing | None = None
        """Where what is done without the client has to be shown to it."""
        self.rounds: Sequence[Message] = ()
        """Calls of tools of ours and their results, which a client is not told of."""
        self.backend = ""
        self.model = ""
        self._request = request
        self.asker = asker
        self._frontend = asker.frontend
        self._ledger = ledger
        self._start = start
        self._began = ledger.clock()
        self._run: Run | None = None
        self._leg: Leg | None = None
        self._is_over = False
        self._is_closed = False
        self._is_parked = False
        self._any = False
        self._parts: list[Part] = []
        self._usage = _NO_USAGE
        self._ending: Finished | Failed | None = None
        self.record = ledger.bus.begin(request, asker.frontend, asker.client)
        ledger.metrics.open_legs += 1

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Batch:
        """The next batch, as the client is to have it."""
        if self._is_over:
            raise StopAsyncIteration
        try:
            if self._leg is None:
                self._run = await self._start(self._request, self)
                self._leg = self._run.leg()
            return self._seen(await self._leg.__anext__())
        except StopAsyncIteration:
            self._is_over = True
            raise
        except GatewayError as error:
            return self._fail(error)
        except Exception:
            # A bug of ours: the client gets an error it can read, the log the traceback.
            log.exception("a leg of %s broke", self._request.model)
            return self._fail(GatewayError("internal", "Something went wrong inside the gateway; its log says what."))

    async def aclose(self) -> None:
        """The leg is over, well, badly, or because the client left."""
        if self._is_closed:
            return
        self._is_over = self._is_closed = True
        try:
            if self._leg is not None:
                await self._leg.aclose()
            if self._run is not None and not self._is_parked:
                await self._run.aclose()
        finally:
            self._settle()

    def note(self, note: Note) -> None:
        """Write down what a person looking into this leg should know."""
        if note.kind == "repair":
            self._ledger.metrics.repairs += 1
        self.record.noted(note)
        log.info("%s: %s: %s", self._request.model, note.kind, note.message)

    def _fail(self, error: GatewayError) -> Batch:
        self._is_over = True
        return self._seen((error.failed(),))

    def _seen(self, batch: Batch) -> Batch:
        """The batch for the client; what matters beyond the leg is noted."""
        elapsed = self._ledger.clock() - self._began
        if not self._any:
            self._any = True
            self._ledger.metrics.first_byte.observe(elapsed)
            self.record.first_byte = elapsed
            self._ledger.bus.changed(self.record)
            batch = self._named(batch)
        said = batch
        self.record.saw(said, elapsed)
        if self.repairs is not None:
            batch = self.repairs.apply(batch)
        if self.showing is not None:
            batch = self.showing.apply(batch)
        for event in batch:
            kind = type(event)
            if kind is PartDelta or kind is PartStart or kind is Started:
                continue
            if kind is PartEnd:
                self._parts.append(event.part)  # type: ignore[union-attr] # mypy does not narrow by `kind`
            elif kind is Usage:
                self._usage = event  # type: ignore[assignment] # mypy does not narrow by `kind`
            else:
                self._note(event)
        if type(self._ending) is Failed:
            batch = [*batch[:-1], self._ending]
        self.record.gave(said, batch)
        return batch

    def _named(self, batch: Batch) -> Batch:
        """The first batch with the model's name as the client spelled it."""
        first = batch[0]
        return [replace(first, model=self._request.model), *batch[1:]] if isinstance(first, Started) else batch

    def _note(self, event: Event) -> None:
        """The rarer events; an ending ends the leg, whatever else would come."""
        match event:
            case Finished():
                self._ending = event
                self._is_over = True
                if self._run is not None and self._run.pending:
                    # Before the client can know of the ending: its next request may come at once.
                    self._is_parked = True
                    self._ledger.lot.park(
                        Parked(self._run, self.backend, self.model, is_shown=self.showing is not None)
                    )
            case Note():
                self.note(event)
            case Failed():
                self._ending = replace(event, message=self._ledger.secrets.hide(event.message))
                self._is_over = True
                log.warning(
                    "%s failed (%s, %d): %s", self._request.model, event.kind, event.status, self._ending.message
                )
            case _:
                self.record.has_activities = True

    def _settle(self) -> None:
        """Write down what came of it."""
        metrics, thoughts, _, _, clock, bus = self._ledger
        metrics.open_legs -= 1
        elapsed = clock() - self._began
        metrics.relay.observe(elapsed)
        metrics.requests[self._frontend, self.backend or "none"] += 1
        metrics.tokens_in += self._usage.prompt
        metrics.tokens_out += self._usage.output
        parts = self._parts
        if self.showing is not None:
            parts = [part for part in parts if type(part) is not Thinking or not self.showing.is_own(part)]
        kinds = [type(part) for part in parts]
        metrics.calls += kinds.count(ToolCall)
        if Thinking in kinds:
            thoughts.remember(self.backend, self._request.messages, parts)
        ending = self._ending
        if not isinstance(ending, Finished):
            metrics.errors[self._frontend, "cancelled" if ending is None else ending.kind] += 1
        elif ending.reason is StopReason.PAUSED:
            self.note(Note(kind="paused", message="the turn is not over: a client that knows no pauses ends it"))
        self.record.ending, self.record.is_parked = ending, self._is_parked
        self.record.usage = None if self._usage is _NO_USAGE else self._usage
        self.record.has_activities |= self.showing is not None
        bus.end(self.record, elapsed, self.asker.size, self._parts)
