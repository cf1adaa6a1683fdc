"""One leg: passes events from the run to the client, updates the record and the metrics, and remembers thinking."""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Self

import msgspec
from msgspec.structs import replace

from tieline.core.emulation.limits import Limits
from tieline.core.history.thinking import ThinkingMemory
from tieline.core.history.token_estimate import CHARACTERS_PER_TOKEN, estimate
from tieline.core.legs.access import ModelAccess
from tieline.core.legs.activity_text import ActivityRenderer, ActivityStyle
from tieline.core.legs.losses import LossLog, losses_in
from tieline.core.legs.parking import ParkedRun, ParkedRuns
from tieline.core.repair.repairs import Repairs
from tieline.core.usage.meter import NO_TOKENS, Charge, Meter
from tieline.core.usage.sums import Status
from tieline.core.watch.metrics import Metrics
from tieline.core.watch.record import MAX_MODEL, LegRecords, title_of
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
from tieline.model.ports import Leg, Run, Toolbox, notes_of
from tieline.model.request import Request
from tieline.model.scope import Place

log = logging.getLogger("tieline")

MAX_MESSAGE = 8192
"""Maximum length of an error message in characters. Some upstreams report an error with a whole HTML page."""

MAX_PLAIN_REQUEST = 128 * 1024
"""Size in bytes below which tokens are estimated from the size of a request, which is faster than from its content."""

INTERNAL_ERROR = GatewayError("internal", "Something went wrong inside the gateway; its log says what.")

_UNNOTED = frozenset((PartDelta, PartStart, Started))
"""Types of events that do not change the state of a leg."""
_REMEMBERED = frozenset((Thinking, ToolCall))
"""Types of parts that are counted or remembered when a leg has ended."""


class LegClient(msgspec.Struct, frozen=True):
    """The client that sent a request, and settings for this client."""

    frontend: str
    user_agent: str = ""
    activity: ActivityStyle = "reasoning"
    """How activities are shown to the client."""
    request_size: int = 0
    """The approximate size of the request in bytes; 0 if unknown."""
    gets_tools: bool = False
    """Whether the gateway's own tools are added to requests from this client that have no tools."""
    sends_background: bool = True
    """Whether the client may send background requests, for example for titles or summaries; see `background`."""
    access: ModelAccess | None = None
    """The models that the client may use; None if there is no limit."""
    toolbox: Toolbox | None = None
    """Tools that replace the gateway's own tools for this client; None to use the gateway's own."""
    owner: str = ""
    """The name of the client's key; see `model.scope`."""
    workspace: str = ""
    """The name of the workspace to which the request belongs; empty for the default workspace."""


class Ledger(msgspec.Struct, frozen=True):
    """The records, metrics and other stores that all legs of a gateway share."""

    records: LegRecords
    metrics: Metrics
    thinking: ThinkingMemory
    parked_runs: ParkedRuns
    secrets: Secrets
    clock: Callable[[], float]
    new_request_id: Callable[[], str]
    losses: LossLog = msgspec.field(default_factory=LossLog)
    meter: Meter | None = None
    """Measures what requests use; None if usage is not recorded."""


class LedgerEntry:
    """The bookkeeping of one leg: updates its record, and the metrics and other stores of the ledger."""

    __slots__ = ("_charge", "_dropped", "_ledger", "backend", "began", "client", "model", "record", "request")

    def __init__(self, request: Request, client: LegClient, ledger: Ledger) -> None:
        # Drop the source to save memory: a parked run refers to this entry, and the record is kept even longer.
        self.request = request if request.source is None else replace(request, source=None)
        self.client = client
        self._ledger = ledger
        self.began = ledger.clock()
        place = Place(client.owner, client.workspace)
        self.record = ledger.records.begin(self.request, client.frontend, client.user_agent, place)
        self.backend = ""
        self.model = ""
        """The upstream's name for the model."""
        self._dropped: dict[str, None] = {}
        self._charge: Charge | None = None
        ledger.metrics.open_legs += 1

    def elapsed(self) -> float:
        """Return the seconds since the leg began."""
        return self._ledger.clock() - self.began

    def routed(self, backend: str, model: str) -> None:
        """Record the backend to which the request is routed, and the upstream's name for the model."""
        self.backend = backend
        self.model = model
        self._ledger.records.routed(self.record, backend)

    def admit(self) -> None:
        """Check the limits of the client's key. Raise GatewayError if one is exceeded."""
        meter, client = self._ledger.meter, self.client
        if meter is not None and meter.is_active:
            self._charge = meter.open(
                client.owner, self.backend, self.model, client.user_agent, client.frontend, self._estimate
            )

    def charge(self, ending: Finished | Failed | None, usage: Usage | None, parts: Sequence[Part]) -> None:
        """Record the tokens that the request used, unless this has been done. Call this before the ending is sent.

        If the upstream answered without reporting its usage, estimate it. If the client disconnected before the end,
        `ending` is None.
        """
        charge, self._charge = self._charge, None
        if charge is None:
            return
        status = _status(ending)
        if usage is not None or (status == "failed" and not parts):
            charge.settle(status, usage or NO_TOKENS)
        else:
            output = estimate(Request(model="", messages=(Message(role="assistant", parts=tuple(parts)),)))
            charge.settle(status, Usage(input=self._estimate(), output=output if parts else 0), is_estimated=True)

    def _estimate(self) -> int:
        """Estimate the tokens of the prompt: from its size or, if that is unknown or large, from its content.

        A large prompt may contain images, whose size says little about their tokens.
        """
        size = self.client.request_size
        return size // CHARACTERS_PER_TOKEN if 0 < size < MAX_PLAIN_REQUEST else estimate(self.request)

    def note(self, note: Note) -> None:
        """Record and log a note."""
        if note.kind == "repair":
            self._ledger.metrics.repairs += 1
        self.record.noted(note)
        level = logging.INFO
        if note.kind == LEFT_OUT:
            what = note.what or note.message
            self._dropped[what] = None
            if self._ledger.losses.is_new(self.client.frontend, self.backend, what):
                level = logging.WARNING
        log.log(level, "%s: %s: %s", self.request.model, note.kind, note.message)

    def dropped(self, leg: Leg | None) -> Sequence[str]:
        """Return the names of all items that could not be translated, in the request and so far in the answer."""
        notes = notes_of(leg)
        if not notes and not self._dropped:
            return ()
        return [*self._dropped, *(note.what or note.message for note in notes if note.kind == LEFT_OUT)]

    def origin(self) -> Origin:
        """Return the origin of this leg: the model, client and title to show with an inbox item."""
        return Origin(
            model=self.request.model[:MAX_MODEL],
            frontend=self.client.frontend,
            client=self.record.client,
            title=title_of(self.request),
            session=self.request.session or "",
            owner=self.client.owner,
            workspace=self.client.workspace,
        )

    def answered(self, elapsed: float) -> None:
        """Record that the upstream began to answer after `elapsed` seconds."""
        self._ledger.records.answered(self.record, elapsed)

    def failed(self, event: Failed) -> Failed:
        """Log a failure. Return it without secrets, and with the request id under which it is recorded."""
        record, ledger = self.record, self._ledger
        record.request_id = id_in(event.headers) or record.upstream_id() or ledger.new_request_id()
        headers = event.headers
        if record.request_id and not id_in(headers):
            headers = (*headers, ("request-id", record.request_id))
        message = hide_likely(ledger.secrets.hide(event.message))
        if len(message) > MAX_MESSAGE:
            message = f"{message[:MAX_MESSAGE]}… ({len(message) - MAX_MESSAGE} more characters)"
        model = ledger.secrets.hide(self.request.model[: 2 * MAX_MODEL])[:MAX_MODEL]
        log.warning("%s failed (%s, %d): %s", model, event.kind, event.status, message)
        return replace(event, message=message, headers=headers)

    def park(self, run: Run, is_shown: bool) -> None:
        """Park the run until the client sends results. `is_shown` says whether the client sees the run's activities."""
        self.record.is_parked = True
        self._ledger.parked_runs.park(
            ParkedRun(run, self.backend, self.model, owner=self.client.owner, is_shown=is_shown)
        )

    def settle(self, ending: Finished | Failed | None, usage: Usage | None, parts: Sequence[Part]) -> None:
        """Count a leg that is over, and end its record. If the client disconnected before the end, `ending` is None."""
        ledger, record, client = self._ledger, self.record, self.client
        self.charge(ending, usage, parts)
        metrics = ledger.metrics
        metrics.open_legs -= 1
        metrics.requests[client.frontend, self.backend or "none"] += 1
        if usage is not None:
            metrics.tokens_in += usage.prompt
            metrics.tokens_out += usage.output
            record.usage = usage
        if not isinstance(ending, Finished):
            metrics.errors[client.frontend, "cancelled" if ending is None else ending.kind] += 1
        elif ending.reason is StopReason.PAUSED:
            message = "the upstream paused the turn; a client without pauses treats the turn as finished"
            self.note(Note(kind="paused", message=message))
        record.ending = ending
        ledger.records.end(record, self.elapsed(), client.request_size, parts)

    def remember(self, parts: Sequence[Part], state: Mapping[str, str], shown: ActivityRenderer | None) -> None:
        """Count the calls in an answer, and remember its thinking and provider state.

        Thinking that was inserted by `shown`, the renderer of activities, is not remembered.
        """
        calls = [part for part in parts if type(part) is ToolCall]
        self._ledger.metrics.calls += len(calls)
        if not state and len(calls) == len(parts) and not any(call.meta for call in calls):
            return
        if shown is not None:  # activities may be shown as thinking, but are not the model's own
            parts = [part for part in parts if type(part) is not Thinking or not shown.is_own(part)]
        self._ledger.thinking.remember(self.backend, self.request.messages, parts, state)


class OpenRun(NamedTuple):
    """A run that was started or resumed for a leg, and the stages that process its events for the client."""

    run: Run
    limits: Limits | None = None
    """Enforces token limits and stop sequences for an upstream that does not support them; None if not needed."""
    repairs: Repairs | None = None
    activities: ActivityRenderer | None = None
    """Renders activities for the client; None if the run has no activities."""
    rounds: Sequence[Message] = ()
    """Messages that contain calls to the gateway's own tools, or their results. The client does not receive them."""


class WatchedLeg:
    """A leg in progress: iterate over its batches, then close it.

    Iteration never raises: a failure is a Failed event. This is not an async generator, because the event loop's
    bookkeeping for async generators costs as much as translating a small answer.
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
        """The messages so far that contain calls to the gateway's own tools, or the results of these calls."""
        return () if self._open is None else self._open.rounds

    @property
    def dropped(self) -> Sequence[str]:
        """The names of all items that could not be translated, in the request and so far in the answer."""
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
            log.exception("a leg for %s failed because of a bug", self._entry.request.model[:MAX_MODEL])
            return self._observe((INTERNAL_ERROR.failed(),))

    async def aclose(self) -> None:
        """End the leg. Also end its run, unless the run is parked."""
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

    def _observe(self, received: Batch) -> Batch:
        """Process and record a batch from the run, and return the batch for the client."""
        entry = self._entry
        record = entry.record
        elapsed = entry.elapsed()
        if record.first_byte is None:
            entry.answered(elapsed)
            received = _with_model(received, entry.request.model)
        record.add_received(tuple(received) if type(received) is SourcedBatch else received, elapsed)
        batch = self._processed(received)
        for event in batch:
            if type(event) not in _UNNOTED:
                self._note(event)
        if type(self._ending) is Failed:
            batch = [*batch[:-1], self._ending]
        if batch is not received or record.sent is not None:
            record.add_sent(received, tuple(batch) if type(batch) is SourcedBatch else batch)
        return batch

    def _processed(self, received: Batch) -> Batch:
        """Apply all stages to a batch. If they change it, mark its source as no longer exact."""
        opened = self._open
        if opened is None:
            return received
        batch = received
        for stage in (opened.limits, opened.repairs, opened.activities):
            if stage is not None:
                batch = stage.apply(batch)
        if batch is not received and (source := source_of(received)) is not None:
            batch = SourcedBatch(batch, replace(source, is_exact=False))
        return batch

    def _note(self, event: Event) -> None:
        """Update the state of the leg according to an event. A Finished or Failed event ends the leg."""
        if type(event) is PartEnd:
            self._parts.append(part := event.part)
            if part.meta or type(part) is Foreign:
                self._note_losses(part)
        elif type(event) is Usage:
            self._usage = event
        elif type(event) is Finished:
            self._ending = event
            self._entry.charge(event, self._usage, self._parts)
            self._park()
        elif type(event) is Note:
            self._entry.note(event)
        elif type(event) is Failed:
            self._entry.charge(event, self._usage, self._parts)
            self._ending = self._entry.failed(event)
        else:
            self._entry.record.has_activities = True

    def _park(self) -> None:
        """Park the run if it waits for tool results from the client.

        This happens before the ending is sent, because the client may send the next request at once.
        """
        opened = self._open
        if opened is None or not opened.run.pending or (opened.limits is not None and opened.limits.is_cut):
            return
        self._entry.park(opened.run, is_shown=opened.activities is not None)

    def _note_losses(self, part: Part) -> None:
        """Add a note for each item in a part that the client's protocol cannot express."""
        protocol = self._entry.request.protocol
        if protocol:
            for note in losses_in(part, protocol):
                self._entry.note(note)

    def _settle(self) -> None:
        ending, parts = self._ending, self._parts
        state = state_of(ending.meta) if type(ending) is Finished and ending.meta else NO_META
        if state or not _REMEMBERED.isdisjoint(map(type, parts)):
            self._entry.remember(parts, state, None if self._open is None else self._open.activities)
        self._entry.settle(ending, self._usage, parts)


def _status(ending: Finished | Failed | None) -> Status:
    if isinstance(ending, Finished):
        return "cancelled" if ending.reason is StopReason.CANCELLED else "ok"
    return "cancelled" if ending is None or ending.kind == "cancelled" else "failed"


class _FailedLeg:
    """The leg of a request for which no run could be started."""

    def __init__(self, failure: GatewayError) -> None:
        self._failure = failure

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Batch:
        return (self._failure.failed(),)

    async def aclose(self) -> None:
        """Do nothing: nothing was started."""


def _with_model(batch: Batch, model: str) -> Batch:
    """Return the first batch of a leg, with the model name replaced by `model`, the name that the client used."""
    first = batch[0]
    if type(first) is not Started:
        return batch
    source = source_of(batch)
    events = [replace(first, model=model), *batch[1:]]
    return events if source is None else SourcedBatch(events, source)
