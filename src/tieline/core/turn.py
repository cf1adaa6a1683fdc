"""One leg as the gateway sees it: events pass through, and what matters beyond the leg is noted on the way."""

import logging
from collections.abc import Callable

from msgspec.structs import replace

from tieline.core.metrics import Metrics
from tieline.core.repair import Repairs
from tieline.core.thoughts import Thoughts
from tieline.model.content import Part, Thinking, ToolCall
from tieline.model.events import Batch, Event, Failed, Finished, Note, PartDelta, PartEnd, Started, Usage
from tieline.model.request import Request

log = logging.getLogger("tieline")

_NO_USAGE = Usage()


class Turn:
    """Watches the batches of one leg; `seen` gives each of them on, as the client is to have it."""

    def __init__(
        self, request: Request, *, frontend: str, metrics: Metrics, thoughts: Thoughts, clock: Callable[[], float]
    ) -> None:
        self.repairs: Repairs | None = None
        self.backend = ""
        self._request = request
        self._frontend = frontend
        self._metrics = metrics
        self._thoughts = thoughts
        self._clock = clock
        self._began = clock()
        self._any = False
        self._parts: list[Part] = []
        self._thought = False
        self._usage = _NO_USAGE
        self._ending: Finished | Failed | None = None
        metrics.open_legs += 1

    def seen(self, batch: Batch) -> Batch:
        """The batch for the client."""
        if not self._any:
            self._any = True
            self._metrics.first_byte.observe(self._clock() - self._began)
            batch = self._named(batch)
        if self.repairs is not None:
            batch = self.repairs.apply(batch)
        for event in batch:
            if type(event) is not PartDelta:
                self._note(event)
        return batch

    def close(self) -> None:
        """The leg is over, well, badly, or because the client left."""
        metrics = self._metrics
        metrics.open_legs -= 1
        metrics.relay.observe(self._clock() - self._began)
        metrics.requests[self._frontend, self.backend or "none"] += 1
        metrics.tokens["input"] += self._usage.prompt
        metrics.tokens["output"] += self._usage.output
        if self._thought:
            self._thoughts.remember(self.backend, self._parts)
        if not isinstance(self._ending, Finished):
            kind = "cancelled" if self._ending is None else self._ending.kind
            metrics.errors[self._frontend, kind] += 1

    def note(self, note: Note) -> None:
        """Write down what a person looking into this leg should know."""
        if note.kind == "repair":
            self._metrics.repairs += 1
        log.info("%s: %s: %s", self._request.model, note.kind, note.message)

    def _named(self, batch: Batch) -> Batch:
        """The first batch with the model's name as the client spelled it."""
        first = batch[0]
        return [replace(first, model=self._request.model), *batch[1:]] if isinstance(first, Started) else batch

    def _note(self, event: Event) -> None:
        match event:
            case PartEnd():
                self._parts.append(event.part)
                self._thought = self._thought or isinstance(event.part, Thinking)
                self._metrics.calls += isinstance(event.part, ToolCall)
            case Usage():
                self._usage = event
            case Note():
                self.note(event)
            case Finished():
                self._ending = event
            case Failed():
                self._ending = event
                log.warning("%s failed (%s, %d): %s", self._request.model, event.kind, event.status, event.message)
            case _:
                pass
