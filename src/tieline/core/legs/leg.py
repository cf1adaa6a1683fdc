"""One leg as the gateway sees it: events pass through, and what matters beyond the leg is noted on the way."""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import compress
from typing import Self, get_args

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
from tieline.core.watch.record import LegRecord, title_of
from tieline.core.watch.secrets import Secrets, hide_likely
from tieline.model.assemble import fold
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
    Reply,
    Started,
    StopReason,
    Usage,
)
from tieline.model.inbox import Origin
from tieline.model.ports import Leg, Run, notes_of
from tieline.model.request import Request
from tieline.tasks import step_aside

log = logging.getLogger("tieline")

CROWD = 8
"""With more legs than these under way, a leg begins step by step and lets the others take the same step: code that runs
many times in a row is still in the processor's caches, which saves up to a tenth. With fewer it is only a detour."""
LONGEST_MESSAGE = 8192
"""Characters of an error that a client, the log and the record get: some upstreams answer with whole pages."""
LARGE = 256 * 1024
"""A request of more bytes also begins step by step: each step may take long enough for others to notice."""

_NOT_STARTED = Started(id="", model="")
_NO_USAGE = Usage()
_NOTED = frozenset(get_args(Event)) - {PartDelta, PartStart, Started}
"""Events that matter beyond the leg: few, and a batch is mostly deltas."""
_is_noted = _NOTED.__contains__
_COUNTED = frozenset((Thinking, ToolCall))
"""Parts that mean something when a leg is over."""
_PAUSED = StopReason.PAUSED  # a member of an enum is found through its class slowly

Start = Callable[[Request, "WatchedLeg"], Awaitable[Run]]
"""Finds the backend of a request and begins its run."""


class Asker(msgspec.Struct, frozen=True):
    """Who asks, and how it wants to see what is done without it."""

    frontend: str
    client: str = ""
    activity: ActivityStyle = "reasoning"
    size: int = 0
    """About how many characters its request has, if that is known."""
    tools: bool = False
    """Whether it receives the gateway's own tools when it brings none."""
    has_background: bool = True
    """Whether it may also ask for itself, for titles or summaries; see `background`."""


class Ledger(msgspec.Struct, frozen=True):
    """Where all legs of a gateway are written down."""

    metrics: Metrics
    thoughts: Thoughts
    secrets: Secrets
    lot: ParkedRuns
    clock: Callable[[], float]
    bus: Bus
    losses: LossLog = msgspec.field(default_factory=LossLog)


class WatchedLeg:
    """One leg under way: iterate over its batches, and close it.

    Nothing is raised: whatever goes wrong is a Failed. A class and not an async generator, because the event loop's
    book-keeping of those costs as much as translating a small answer.
    """

    __slots__ = (
        "_began",
        "_dropped",
        "_ending",
        "_is_closed",
        "_ledger",
        "_leg",
        "_parts",
        "_request",
        "_run",
        "_start",
        "_started",
        "_usage",
        "asker",
        "backend",
        "is_over",
        "limits",
        "model",
        "record",
        "repairs",
        "rounds",
        "showing",
    )

    def __init__(
        self, request: Request, asker: Asker, ledger: Ledger, start: Start, began: float, record: LegRecord
    ) -> None:
        self._request = request
        self.asker = asker
        self._ledger = ledger
        self._start = start
        self._began = began
        self.record = record
        self.limits: Limits | None = None
        """The limits of the request that the upstream does not know."""
        self.repairs: Repairs | None = None
        self.showing: ActivityRenderer | None = None
        """Where what is done without the client has to be shown to it."""
        self.rounds: Sequence[Message] = ()
        """Calls of tools of ours and their results, which a client is not told of."""
        self.backend = ""
        self.model = ""
        self._run: Run | None = None
        self._leg: Leg | None = None
        self.is_over = False
        """Whether nothing more comes."""
        self._is_closed = False
        self._started = _NOT_STARTED
        self._parts: list[Part] = []
        self._usage: Usage | None = None
        self._ending: Finished | Failed | None = None
        self._dropped: dict[str, None] = {}

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Batch:
        """The next batch, as the client is to have it."""
        batch = () if self.is_over else await self.batch()
        if not batch and self.is_over:
            raise StopAsyncIteration
        return batch

    async def batch(self) -> Batch:
        """The next batch, for who looks at `is_over` before: what is nothing may be the end."""
        try:
            if self._leg is not None:
                return self._seen(await self._leg.__anext__())
            is_crowded = self._ledger.metrics.open_legs > CROWD or self.asker.size > LARGE
            if is_crowded:
                await step_aside()
            self._run = await self._start(self._request, self)
            self._leg = self._run.leg()
            if is_crowded:
                await step_aside()
            first = await self._leg.__anext__()
            if is_crowded:
                await step_aside()
            return self._seen(first)
        except StopAsyncIteration:
            self.is_over = True
            return ()
        except GatewayError as error:
            return self._fail(error)
        except Exception:
            # A bug of ours: the client gets an error it can read, the log the traceback.
            log.exception("a leg of %s broke", self._request.model[:MAX_MODEL])
            return self._fail(GatewayError("internal", "Something went wrong inside the gateway; its log says what."))

    async def aclose(self) -> None:
        """The leg is over, well, badly, or because the client left."""
        if self._is_closed:
            return
        self.is_over = self._is_closed = True
        leg, run = self._leg, self._run
        try:
            if leg is not None:
                await leg.aclose()
            if run is not None and not self.record.is_parked:
                await run.aclose()
        finally:
            self._settle()

    def note(self, note: Note) -> None:
        """Write down what a person looking into this leg should know."""
        if note.kind == "repair":
            self._ledger.metrics.repairs += 1
        self.record.noted(note)
        level = logging.INFO
        if note.kind == LEFT_OUT:
            what = note.what or note.message
            self._dropped[what] = None
            if self._ledger.losses.is_new(self.asker.frontend, self.backend, what):
                level = logging.WARNING
        log.log(level, "%s: %s: %s", self._request.model, note.kind, note.message)

    @property
    def dropped(self) -> Sequence[str]:
        """What could not be carried over so far: of the request, and of the answer as far as it has come."""
        notes = notes_of(self._leg)
        if not notes and not self._dropped:
            return ()
        return [*self._dropped, *(note.what or note.message for note in notes if note.kind == LEFT_OUT)]

    def reply(self) -> Reply:
        """All that came, for a client that wants it at once; a leg that did not end well raises LegFailed."""
        started, ending = self._started, self._ending
        if not isinstance(ending, Finished):
            return fold(() if ending is None else (ending,))
        return Reply(
            id=started.id,
            model=started.model,
            parts=tuple(self._parts),
            usage=self._usage or _NO_USAGE,
            finished=ending,
            headers=started.headers,
        )

    def origin(self) -> Origin:
        """Where an ask comes from, for the person who is to answer it."""
        return Origin(
            model=self._request.model[:MAX_MODEL],
            frontend=self.asker.frontend,
            client=self.record.client,
            title=title_of(self._request),
            session=self._request.session or "",
        )

    def _fail(self, error: GatewayError) -> Batch:
        self.is_over = True
        return self._seen((error.failed(),))

    def _seen(self, said: Batch) -> Batch:
        """The batch for the client; what matters beyond the leg is noted."""
        record = self.record
        elapsed = self._ledger.clock() - self._began
        if record.first_byte is None:
            said = self._first(said, elapsed)
        record.add_received(said, elapsed)
        batch = self._staged(said)
        if batch is said and len(batch) == 1 and type(batch[0]) is PartDelta and record.sent is None:
            return batch  # a stream that trickles is made of these
        for event in compress(batch, map(_is_noted, map(type, batch))):
            kind = type(event)
            if kind is PartEnd:
                self._parts.append(part := event.part)  # type: ignore[union-attr] # mypy does not narrow by `kind`
                if part.meta or type(part) is Foreign:
                    self._note_losses(part)
            elif kind is Usage:
                self._usage = event  # type: ignore[assignment] # mypy does not narrow by `kind`
            else:
                self._note(event)
        if self.is_over and type(self._ending) is Failed:
            batch = [*batch[:-1], self._ending]
        if batch is not said or record.sent is not None:
            record.add_sent(said, batch)
        return batch

    def _staged(self, batch: Batch) -> Batch:
        """The batch after the stages that this leg has."""
        if self.limits is not None:
            batch = self.limits.apply(batch)
        if self.repairs is not None:
            batch = self.repairs.apply(batch)
        if self.showing is not None:
            batch = self.showing.apply(batch)
        return batch

    def _note_losses(self, part: Part) -> None:
        """Note what the client does not get of a part because its protocol cannot express it."""
        if self._request.protocol:
            for note in losses_in(part, self._request.protocol):
                self.note(note)

    def _first(self, batch: Batch, elapsed: float) -> Batch:
        """The upstream's first word, with the model's name as the client spelled it."""
        ledger = self._ledger
        ledger.metrics.first_byte.observe(elapsed)
        self.record.first_byte = elapsed
        if ledger.bus.watchers:
            ledger.bus.changed(self.record)
        first = batch[0]
        if type(first) is not Started:
            return batch
        named = list(batch)
        named[0] = self._started = replace(first, model=self._request.model)
        return named

    def _note(self, event: Event) -> None:
        """The rarer events; an ending ends the leg, whatever else would come."""
        if type(event) is Finished:
            self._ending = event
            self.is_over = True
            run = self._run
            if run is not None and run.pending and not (self.limits is not None and self.limits.is_cut):
                # Before the client can know of the ending: its next request may come at once.
                self.record.is_parked = True
                self._ledger.lot.park(ParkedRun(run, self.backend, self.model, is_shown=self.showing is not None))
        elif type(event) is Note:
            self.note(event)
        elif type(event) is Failed:
            self._ending = self._failed(event)
            self.is_over = True
            log.warning(
                "%s failed (%s, %d): %s",
                self._request.model[:MAX_MODEL],
                event.kind,
                event.status,
                self._ending.message,
            )
        else:
            self.record.has_activities = True

    def _failed(self, event: Failed) -> Failed:
        """The failure without secrets, and with the id that the record of this leg has."""
        record, ledger = self.record, self._ledger
        record.request_id = id_in(event.headers) or record.upstream_id() or ledger.bus.mint()
        headers = event.headers
        if record.request_id and not id_in(headers):
            headers = (*headers, ("request-id", record.request_id))
        message = hide_likely(ledger.secrets.hide(event.message))
        if len(message) > LONGEST_MESSAGE:
            message = f"{message[:LONGEST_MESSAGE]}… ({len(message) - LONGEST_MESSAGE} characters more)"
        return replace(event, message=message, headers=headers)

    def _settle(self) -> None:
        """Write down what came of it."""
        ledger, record, asker = self._ledger, self.record, self.asker
        metrics, ending, usage, parts = ledger.metrics, self._ending, self._usage, self._parts
        elapsed = ledger.clock() - self._began
        metrics.open_legs -= 1
        metrics.relay.observe(elapsed)
        metrics.requests[asker.frontend, self.backend or "none"] += 1
        if usage is not None:
            metrics.tokens_in += usage.prompt
            metrics.tokens_out += usage.output
            record.usage = usage
        state = state_of(ending.meta) if type(ending) is Finished and ending.meta else NO_META
        if state or not _COUNTED.isdisjoint(map(type, parts)):
            self._count(state)
        if not isinstance(ending, Finished):
            metrics.errors[asker.frontend, "cancelled" if ending is None else ending.kind] += 1
        elif ending.reason is _PAUSED:
            self.note(Note(kind="paused", message="the turn is not over: a client that knows no pauses ends it"))
        record.ending = ending
        ledger.bus.end(record, elapsed, asker.size, parts)

    def _count(self, state: Mapping[str, str]) -> None:
        """Count calls, and remember what was thought and what the provider wants back."""
        calls = [part for part in self._parts if type(part) is ToolCall]
        self._ledger.metrics.calls += len(calls)
        if state or len(calls) < len(self._parts) or any(call.meta for call in calls):
            self._remember(state)

    def _remember(self, state: Mapping[str, str]) -> None:
        """Keep what the model thought: what was done without the client may be shown as thinking, and is not."""
        parts, showing = self._parts, self.showing
        if showing is not None:
            parts = [part for part in parts if type(part) is not Thinking or not showing.is_own(part)]
        self._ledger.thoughts.remember(self.backend, self._request.messages, parts, state)
