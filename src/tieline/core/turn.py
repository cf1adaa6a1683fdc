"""One leg as the gateway sees it: events pass through, and what matters beyond the leg is noted on the way."""

import logging
from collections.abc import Awaitable, Callable
from typing import NamedTuple, Self

from msgspec.structs import replace

from tieline.core.metrics import Metrics
from tieline.core.repair import Repairs
from tieline.core.secrets import Secrets
from tieline.core.thoughts import Thoughts
from tieline.model.content import Part, Thinking, ToolCall
from tieline.model.errors import GatewayError
from tieline.model.events import Batch, Event, Failed, Finished, Note, PartDelta, PartEnd, Started, StopReason, Usage
from tieline.model.ports import Leg, Run
from tieline.model.request import Request

log = logging.getLogger("tieline")

_NO_USAGE = Usage()

Start = Callable[["Turn"], Awaitable[Run]]
"""Finds the backend of a turn and begins the run."""


class Ledger(NamedTuple):
    """Where all legs of a gateway are written down."""

    metrics: Metrics
    thoughts: Thoughts
    secrets: Secrets
    clock: Callable[[], float]


class Turn:
    """One leg under way: iterate over its batches, and close it.

    Nothing is raised: whatever goes wrong is a Failed. A class and not an async generator, because the event loop's
    book-keeping of those costs as much as translating a small answer.
    """

    def __init__(self, request: Request, frontend: str, ledger: Ledger, start: Start) -> None:
        self.repairs: Repairs | None = None
        self.backend = ""
        self._request = request
        self._frontend = frontend
        self._ledger = ledger
        self._start = start
        self._began = ledger.clock()
        self._run: Run | None = None
        self._leg: Leg | None = None
        self._is_over = False
        self._is_closed = False
        self._any = False
        self._parts: list[Part] = []
        self._thought = False
        self._usage = _NO_USAGE
        self._ending: Finished | Failed | None = None
        ledger.metrics.open_legs += 1

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Batch:
        """The next batch, as the client is to have it."""
        if self._is_over:
            raise StopAsyncIteration
        try:
            if self._leg is None:
                self._run = await self._start(self)
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
            if self._run is not None:
                await self._run.aclose()
        finally:
            self._settle()

    def note(self, note: Note) -> None:
        """Write down what a person looking into this leg should know."""
        if note.kind == "repair":
            self._ledger.metrics.repairs += 1
        log.info("%s: %s: %s", self._request.model, note.kind, note.message)

    def _fail(self, error: GatewayError) -> Batch:
        self._is_over = True
        return self._seen((error.failed(),))

    def _seen(self, batch: Batch) -> Batch:
        """The batch for the client; what matters beyond the leg is noted."""
        if not self._any:
            self._any = True
            self._ledger.metrics.first_byte.observe(self._ledger.clock() - self._began)
            batch = self._named(batch)
        if self.repairs is not None:
            batch = self.repairs.apply(batch)
        last = batch[-1] if batch else None
        if type(last) is Failed:
            batch = [*batch[:-1], replace(last, message=self._ledger.secrets.hide(last.message))]
        for event in batch:
            if type(event) is not PartDelta:
                self._note(event)
        return batch

    def _settle(self) -> None:
        metrics, thoughts, _, clock = self._ledger
        metrics.open_legs -= 1
        metrics.relay.observe(clock() - self._began)
        metrics.requests[self._frontend, self.backend or "none"] += 1
        metrics.tokens["input"] += self._usage.prompt
        metrics.tokens["output"] += self._usage.output
        if self._thought:
            thoughts.remember(self.backend, self._parts)
        if not isinstance(self._ending, Finished):
            kind = "cancelled" if self._ending is None else self._ending.kind
            metrics.errors[self._frontend, kind] += 1

    def _named(self, batch: Batch) -> Batch:
        """The first batch with the model's name as the client spelled it."""
        first = batch[0]
        return [replace(first, model=self._request.model), *batch[1:]] if isinstance(first, Started) else batch

    def _note(self, event: Event) -> None:
        match event:
            case PartEnd():
                self._parts.append(event.part)
                self._thought = self._thought or isinstance(event.part, Thinking)
                self._ledger.metrics.calls += isinstance(event.part, ToolCall)
            case Usage():
                self._usage = event
            case Note():
                self.note(event)
            case Finished():
                self._ending = event
                if event.reason is StopReason.PAUSED:
                    self.note(
                        Note(kind="paused", message="the turn is not over: a client that knows no pauses ends it")
                    )
            case Failed():
                self._ending = event
                log.warning("%s failed (%s, %d): %s", self._request.model, event.kind, event.status, event.message)
            case _:
                pass
