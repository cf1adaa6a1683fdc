"""One leg as the gateway sees it: events pass through, and what matters beyond the leg is noted on the way."""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Self

import msgspec
from msgspec.structs import replace

from tieline.core.emulation.limits import Limits
from tieline.core.history.thinking import Thoughts
from tieline.core.legs.activity_text import ActivityRenderer, ActivityStyle
from tieline.core.legs.losses import LossLog, losses_in
from tieline.core.legs.parking import ParkedRun, ParkedRuns
from tieline.core.repair.repairs import Repairs
from tieline.core.watch.bus import MAX_MODEL, Bus
from tieline.core.watch.metrics import Metrics
from tieline.core.watch.record import title_of
from tieline.core.watch.secrets import Secrets, hide_likely
from tieline.model.content import NO_META, Foreign, Message, Part, Thinking, ToolCall, state_of
from tieline.model.errors import GatewayError, id_in
from tieline.model.events import (
    LEFT_OUT,
    Batch,
    Event,
    Failed,
    Finished,
    Note,
    PartDelta,
    PartEnd,
    PartStart,
    SourcedBatch,
    Started,
    StopReason,
    Usage,
    source_of,
)
from tieline.model.inbox import Origin
from tieline.model.ports import Leg, Run, notes_of
from tieline.model.request import Request

log = logging.getLogger("tieline")

LONGEST_MESSAGE = 8192
"""Characters of an error that clients, the log and the record get: some upstreams answer with whole pages."""

_COUNTED = frozenset((Thinking, ToolCall))
"""Parts that matter when a leg is over."""


class Asker(msgspec.Struct, frozen=True):
    """The client of a leg, and how it wants to see what is done without it."""

    frontend: str
    client: str = ""
    activity: ActivityStyle = "reasoning"
    size: int = 0
    """The approximate size of its request in bytes, if known."""
    tools: bool = False
    """Whether it gets the gateway's own tools when it brings none."""
    has_background: bool = True
    """Whether it may also send requests on its own behalf, for titles or summaries; see `background`."""


class Ledger(msgspec.Struct, frozen=True):
    """Where all legs of a gateway are recorded."""

    metrics: Metrics
    thoughts: Thoughts
    secrets: Secrets
    lot: ParkedRuns
    clock: Callable[[], float]
    bus: Bus
    losses: LossLog = msgspec.field(default_factory=LossLog)


class LedgerEntry:
    """The record of one leg, its notes, and what is counted when it is over."""

    __slots__ = ("_dropped", "_ledger", "asker", "backend", "began", "model", "record", "request")

    def __init__(self, request: Request, asker: Asker, ledger: Ledger) -> None:
        self.request = request
        self.asker = asker
        self._ledger = ledger
        self.began = ledger.clock()
        recorded = request if request.source is None else replace(request, source=None)
        self.record = ledger.bus.begin(recorded, asker.frontend, asker.client)
        self.backend = ""
        self.model = ""
        """The upstream's name for the model."""
        self._dropped: dict[str, None] = {}
        ledger.metrics.open_legs += 1

    def elapsed(self) -> float:
        """Return the seconds since the leg began."""
        return self._ledger.clock() - self.began

    def routed(self, backend: str, model: str) -> None:
        """Record where the request goes."""
        self.backend = self.record.backend = backend
        self.model = model
        if self._ledger.bus.watchers:
            self._ledger.bus.changed(self.record)

    def note(self, note: Note) -> None:
        """Record something that a person who inspects this leg should know."""
        if note.kind == "repair":
            self._ledger.metrics.repairs += 1
        self.record.noted(note)
        level = logging.INFO
        if note.kind == LEFT_OUT:
            what = note.what or note.message
            self._dropped[what] = None
            if self._ledger.losses.is_new(self.asker.frontend, self.backend, what):
                level = logging.WARNING
        log.log(level, "%s: %s: %s", self.request.model, note.kind, note.message)

    def dropped(self, leg: Leg | None) -> Sequence[str]:
        """Return what could not be carried over so far, of the request and of the answer."""
        notes = notes_of(leg)
        if not notes and not self._dropped:
            return ()
        return [*self._dropped, *(note.what or note.message for note in notes if note.kind == LEFT_OUT)]

    def origin(self) -> Origin:
        """Return where an inbox item of this leg comes from."""
        return Origin(
            model=self.request.model[:MAX_MODEL],
            frontend=self.asker.frontend,
            client=self.record.client,
            title=title_of(self.request),
            session=self.request.session or "",
        )

    def first_byte(self, elapsed: float) -> None:
        """Record when the upstream began to answer."""
        self._ledger.metrics.first_byte.observe(elapsed)
        self.record.first_byte = elapsed
        if self._ledger.bus.watchers:
            self._ledger.bus.changed(self.record)

    def failed(self, event: Failed) -> Failed:
        """Return the failure without secrets, with the request id under which it is recorded; log it."""
        record, ledger = self.record, self._ledger
        record.request_id = id_in(event.headers) or record.upstream_id() or ledger.bus.mint()
        headers = event.headers
        if record.request_id and not id_in(headers):
            headers = (*headers, ("request-id", record.request_id))
        message = hide_likely(ledger.secrets.hide(event.message))
        if len(message) > LONGEST_MESSAGE:
            message = f"{message[:LONGEST_MESSAGE]}… ({len(message) - LONGEST_MESSAGE} more characters)"
        model = self.request.model[:MAX_MODEL]
        log.warning("%s failed (%s, %d): %s", model, event.kind, event.status, message)
        return replace(event, message=message, headers=headers)

    def park(self, run: Run, is_shown: bool) -> None:
        """Park the run until the client brings the results of its calls."""
        self.record.is_parked = True
        self._ledger.lot.park(ParkedRun(run, self.backend, self.model, is_shown=is_shown))

    def settle(self, ending: Finished | Failed | None, usage: Usage | None, parts: Sequence[Part]) -> None:
        """Count a leg that is over, and close its record. Without an ending the client left."""
        ledger, record, asker = self._ledger, self.record, self.asker
        metrics = ledger.metrics
        elapsed = ledger.clock() - self.began
        metrics.open_legs -= 1
        metrics.relay.observe(elapsed)
        metrics.requests[asker.frontend, self.backend or "none"] += 1
        if usage is not None:
            metrics.tokens_in += usage.prompt
            metrics.tokens_out += usage.output
            record.usage = usage
        if not isinstance(ending, Finished):
            metrics.errors[asker.frontend, "cancelled" if ending is None else ending.kind] += 1
        elif ending.reason is StopReason.PAUSED:
            self.note(Note(kind="paused", message="the turn is not over: a client without pauses takes it as the end"))
        record.ending = ending
        ledger.bus.end(record, elapsed, asker.size, parts)

    def remember(self, parts: Sequence[Part], state: Mapping[str, str], showing: ActivityRenderer | None) -> None:
        """Count the calls of an answer, and remember its thinking and the state its provider wants back."""
        calls = [part for part in parts if type(part) is ToolCall]
        self._ledger.metrics.calls += len(calls)
        if not state and len(calls) == len(parts) and not any(call.meta for call in calls):
            return
        if showing is not None:  # activities may be shown as thinking, but the model did not think them
            parts = [part for part in parts if type(part) is not Thinking or not showing.is_own(part)]
        self._ledger.thoughts.remember(self.backend, self.request.messages, parts, state)


class OpenRun(NamedTuple):
    """A run that was started or resumed for a leg, and what happens to its events on their way to the client."""

    run: Run
    limits: Limits | None = None
    """Limits of the request that the upstream cannot enforce."""
    repairs: Repairs | None = None
    showing: ActivityRenderer | None = None
    """Shows what is done without the client."""
    rounds: Sequence[Message] = ()
    """Calls of the gateway's own tools and their results, which the client does not see."""


class WatchedLeg:
    """One leg under way: iterate over its batches, and close it.

    Nothing is raised: a failure is a Failed event. Not an async generator, because the event loop's bookkeeping for
    those costs as much as translating a small answer.
    """

    __slots__ = ("_ending", "_entry", "_is_closed", "_leg", "_open", "_parts", "_usage")

    def __init__(self, entry: LedgerEntry, opened: OpenRun | None, failure: GatewayError | None = None) -> None:
        self._entry = entry
        self._open = opened
        self._leg: Leg | None = None if opened is None else opened.run.leg()
        self._is_closed = False
        self._parts: list[Part] = []
        self._usage: Usage | None = None
        self._ending: Finished | Failed | None = None
        if failure is not None:
            self._leg = _FailedLeg(failure)

    @property
    def rounds(self) -> Sequence[Message]:
        """Calls of the gateway's own tools and their results so far."""
        return () if self._open is None else self._open.rounds

    @property
    def dropped(self) -> Sequence[str]:
        """What could not be carried over so far: of the request, and of the answer as far as it has come."""
        return self._entry.dropped(self._leg)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Batch:
        """Return the next batch for the client."""
        if self._ending is not None or self._leg is None or self._is_closed:
            raise StopAsyncIteration
        try:
            return self._observe(await self._leg.__anext__())
        except StopAsyncIteration:
            raise
        except GatewayError as error:
            return self._observe((error.failed(),))
        except Exception:
            log.exception("a leg of %s broke", self._entry.request.model[:MAX_MODEL])
            return self._observe((INTERNAL.failed(),))

    async def aclose(self) -> None:
        """End the leg, and its run unless that is parked."""
        if self._is_closed:
            return
        self._is_closed = True
        try:
            if self._leg is not None:
                await self._leg.aclose()
            if self._open is not None and not self._entry.record.is_parked:
                await self._open.run.aclose()
        finally:
            self._settle()

    def _observe(self, said: Batch) -> Batch:
        """Return a batch as the client gets it; note what matters beyond the leg."""
        entry = self._entry
        record = entry.record
        elapsed = entry.elapsed()
        if record.first_byte is None:
            entry.first_byte(elapsed)
            said = _with_model(said, entry.request.model)
        record.add_received(tuple(said) if type(said) is SourcedBatch else said, elapsed)
        batch = self._staged(said)
        for event in batch:
            kind = type(event)
            if kind is not PartDelta and kind is not PartStart and kind is not Started:
                self._note(event)
        if type(self._ending) is Failed:
            batch = [*batch[:-1], self._ending]
        if batch is not said or record.sent is not None:
            record.add_sent(said, tuple(batch) if type(batch) is SourcedBatch else batch)
        return batch

    def _staged(self, said: Batch) -> Batch:
        """Return the batch after all stages; unchanged text stays with it only if they left it unchanged."""
        opened = self._open
        if opened is None:
            return said
        batch = said
        for stage in (opened.limits, opened.repairs, opened.showing):
            if stage is not None:
                batch = stage.apply(batch)
        if batch is not said and (source := source_of(said)) is not None:
            batch = SourcedBatch(batch, replace(source, is_exact=False))
        return batch

    def _note(self, event: Event) -> None:
        """Note an event; an ending ends the leg, whatever else would come."""
        if type(event) is PartEnd:
            self._parts.append(part := event.part)
            if part.meta or type(part) is Foreign:
                self._note_losses(part)
        elif type(event) is Usage:
            self._usage = event
        elif type(event) is Finished:
            self._ending = event
            self._park()
        elif type(event) is Note:
            self._entry.note(event)
        elif type(event) is Failed:
            self._ending = self._entry.failed(event)
        else:
            self._entry.record.has_activities = True

    def _park(self) -> None:
        """Park the run if it waits for the client. Before the ending is sent: the next request may come at once."""
        opened = self._open
        if opened is None or not opened.run.pending or (opened.limits is not None and opened.limits.is_cut):
            return
        self._entry.park(opened.run, is_shown=opened.showing is not None)

    def _note_losses(self, part: Part) -> None:
        """Note what the client does not get of a part because its protocol cannot express it."""
        protocol = self._entry.request.protocol
        if protocol:
            for note in losses_in(part, protocol):
                self._entry.note(note)

    def _settle(self) -> None:
        ending, parts = self._ending, self._parts
        state = state_of(ending.meta) if type(ending) is Finished and ending.meta else NO_META
        if state or not _COUNTED.isdisjoint(map(type, parts)):
            self._entry.remember(parts, state, None if self._open is None else self._open.showing)
        self._entry.settle(ending, self._usage, parts)


INTERNAL = GatewayError("internal", "Something went wrong inside the gateway; its log says what.")


class _FailedLeg:
    """The leg of a request that could not be started."""

    def __init__(self, failure: GatewayError) -> None:
        self._failure = failure

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Batch:
        return (self._failure.failed(),)

    async def aclose(self) -> None:
        """Nothing was started."""


def _with_model(batch: Batch, model: str) -> Batch:
    """Return the first batch with the model's name as the client spelled it."""
    first = batch[0]
    if type(first) is not Started:
        return batch
    source = source_of(batch)
    events = [replace(first, model=model), *batch[1:]]
    return events if source is None else SourcedBatch(events, source)
