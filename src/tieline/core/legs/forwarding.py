"""Requests that pass through to their upstream unread, such as embeddings: routed, counted and recorded."""

import logging
from collections.abc import Awaitable, Callable

from msgspec.structs import replace

from tieline.core.legs.leg import Ledger
from tieline.core.legs.routing import ModelRoute
from tieline.model.content import Value
from tieline.model.errors import BadRequest, GatewayError
from tieline.model.events import Failed, Finished, StopReason
from tieline.model.ports import Forwarded, Forwards
from tieline.model.request import Request

log = logging.getLogger("tieline")

LONGEST_NAME = 200


class Passage(Value):
    """A request to pass through. `build` gives its body with the upstream's own name for the model."""

    endpoint: str
    model: str
    content_type: str
    build: Callable[[str], bytes]
    size: int = 0
    client: str = ""


class Forwarding:
    """One passage under way; open it, take its chunks and close it."""

    def __init__(self, passage: Passage, ledger: Ledger, find: Callable[[str], Awaitable[ModelRoute]]) -> None:
        self._passage = passage
        self._ledger = ledger
        self._find = find
        self._began = ledger.clock()
        self._answer: Forwarded | None = None
        self._failed: Failed | None = None
        self._is_complete = False
        ledger.metrics.open_legs += 1
        self._record = ledger.bus.begin(
            Request(model=passage.model[:LONGEST_NAME], messages=()), passage.endpoint, ledger.bus.hide(passage.client)
        )
        self._record.title = f"{passage.endpoint}, {passage.size} bytes"

    async def open(self) -> Forwarded:
        """Send the request, and return the head of its answer; raises GatewayError."""
        passage, record = self._passage, self._record
        try:
            backend, model = await self._find(passage.model)
            record.backend = backend.name
            if not isinstance(backend, Forwards):
                message = (
                    f"`{backend.name}` does not serve {passage.endpoint}: expected a model of an upstream that does"
                )
                raise BadRequest(message, "model")
            self._answer = await backend.forward(passage.endpoint, passage.content_type, passage.build(model))
        except GatewayError as error:
            raise self._fail(error) from None
        record.first_byte = self._ledger.clock() - self._began
        self._ledger.metrics.first_byte.observe(record.first_byte)
        return self._answer

    async def chunk(self) -> bytes:
        """More of the answer; nothing at its end. Raises GatewayError if the upstream breaks off."""
        try:
            data = b"" if self._answer is None else await self._answer.chunk()
        except GatewayError as error:
            raise self._fail(error) from None
        self._is_complete = not data
        return data

    def close(self) -> None:
        """The answer is complete, has failed, or the client has left."""
        if self._answer is not None:
            self._answer.close()
        metrics, record, failed = self._ledger.metrics, self._record, self._failed
        elapsed = self._ledger.clock() - self._began
        metrics.open_legs -= 1
        metrics.relay.observe(elapsed)
        metrics.requests[self._passage.endpoint, record.backend or "none"] += 1
        if self._is_complete:
            record.ending = Finished(reason=StopReason.END_TURN)
        else:
            record.ending = failed
            metrics.errors[self._passage.endpoint, "cancelled" if failed is None else failed.kind] += 1
        self._ledger.bus.end(record, elapsed, self._passage.size, ())

    def _fail(self, error: GatewayError) -> GatewayError:
        failed = error.failed()
        self._failed = replace(failed, message=self._ledger.secrets.hide(failed.message))
        error.message = self._failed.message
        name = ascii(self._record.request.model)
        log.warning(
            "%s for %s failed (%s, %d): %s", self._passage.endpoint, name, error.kind, error.status, error.message
        )
        return error
