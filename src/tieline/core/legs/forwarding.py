"""Forwards requests, such as those for embeddings, without translating them. They are routed, counted and recorded."""

import logging
from collections.abc import Awaitable, Callable

from msgspec.structs import replace

from tieline.core.history.token_estimate import CHARACTERS_PER_TOKEN
from tieline.core.legs.access import ModelAccess
from tieline.core.legs.leg import Ledger
from tieline.core.legs.routing import ModelRoute
from tieline.core.usage.meter import NO_TOKENS, Charge
from tieline.core.usage.sums import Status
from tieline.core.watch.secrets import hide_likely
from tieline.model.content import Value
from tieline.model.errors import BadRequest, GatewayError
from tieline.model.events import Failed, Finished, StopReason, Usage
from tieline.model.ports import ForwardedAnswer, ForwardingBackend
from tieline.model.request import Request
from tieline.model.scope import NOWHERE, Place

log = logging.getLogger("tieline")

MAX_MODEL_NAME = 200


class ForwardedRequest(Value):
    """A request to forward. `build` is called with the upstream's name for the model, and returns the body to send."""

    endpoint: str
    model: str
    content_type: str
    build: Callable[[str], bytes]
    size: int = 0
    user_agent: str = ""
    access: ModelAccess | None = None
    """The models that the client may use; None if there is no limit."""
    place: Place = NOWHERE
    """The owner and the workspace of the request."""


class ForwardedLeg:
    """A forwarded request in progress: open it, read its chunks and close it."""

    def __init__(
        self,
        request: ForwardedRequest,
        ledger: Ledger,
        find_route: Callable[[str, ModelAccess | None], Awaitable[ModelRoute]],
    ) -> None:
        self._request = request
        self._ledger = ledger
        self._find_route = find_route
        self._began = ledger.clock()
        self._answer: ForwardedAnswer | None = None
        self._charge: Charge | None = None
        self._failed: Failed | None = None
        self._is_complete = False
        ledger.metrics.open_legs += 1
        recorded = Request(model=request.model[:MAX_MODEL_NAME], messages=())
        user_agent = hide_likely(ledger.secrets.hide(request.user_agent))
        self._record = ledger.records.begin(recorded, request.endpoint, user_agent, request.place)
        self._record.title = f"{request.endpoint}, {request.size} bytes"

    async def open(self) -> ForwardedAnswer:
        """Send the request and return the answer, whose body is read with `chunk`. Raise GatewayError on failure."""
        request, records = self._request, self._ledger.records
        try:
            backend, model, _ = await self._find_route(request.model, request.access)
            records.routed(self._record, backend.name)
            self._admit(backend.name, model)
            if not isinstance(backend, ForwardingBackend):
                message = (
                    f"`{backend.name}` does not serve {request.endpoint}: expected a model of an upstream that does"
                )
                raise BadRequest(message, "model")
            self._answer = await backend.forward(request.endpoint, request.content_type, request.build(model))
        except GatewayError as error:
            raise self._fail(error) from None
        records.answered(self._record, self._ledger.clock() - self._began)
        return self._answer

    async def chunk(self) -> bytes:
        """Return the next chunk of the body, or b"" at its end. Raise GatewayError if the connection fails."""
        try:
            data = b"" if self._answer is None else await self._answer.chunk()
        except GatewayError as error:
            raise self._fail(error) from None
        self._is_complete = not data
        if not data:
            self._settle("ok")  # before the client sees the end of the answer
        return data

    def close(self) -> None:
        """Release the connection. Count the request and record its outcome."""
        if self._answer is not None:
            self._answer.close()
        self._settle("cancelled" if self._failed is None else "failed")
        metrics, record, failed = self._ledger.metrics, self._record, self._failed
        metrics.open_legs -= 1
        metrics.requests[self._request.endpoint, record.backend or "none"] += 1
        if self._is_complete:
            record.ending = Finished(reason=StopReason.END_TURN)
        else:
            record.ending = failed
            metrics.errors[self._request.endpoint, "cancelled" if failed is None else failed.kind] += 1
        self._ledger.records.end(record, self._ledger.clock() - self._began, self._request.size, ())

    def _admit(self, backend: str, model: str) -> None:
        meter, request = self._ledger.meter, self._request
        if meter is not None and meter.is_active:
            owner, user_agent, endpoint = request.place.owner, request.user_agent, request.endpoint
            self._charge = meter.open(owner, backend, model, user_agent, endpoint, self._estimate)

    def _estimate(self) -> int:
        """Estimate the tokens of a JSON request. Return 0 for other content, whose size is no indication."""
        return self._request.size // CHARACTERS_PER_TOKEN if "json" in self._request.content_type else 0

    def _settle(self, status: Status) -> None:
        charge, self._charge = self._charge, None
        if charge is None:
            return
        usage = self._answer.usage if self._answer is not None and status == "ok" else None
        if usage is not None or status == "failed":
            charge.settle(status, usage or NO_TOKENS)
        else:
            charge.settle(status, Usage(input=self._estimate()), is_estimated=True)

    def _fail(self, error: GatewayError) -> GatewayError:
        failed = error.failed()
        self._failed = replace(failed, message=self._ledger.secrets.hide(failed.message))
        error.message = self._failed.message
        name = ascii(self._record.request.model)
        log.warning(
            "%s for %s failed (%s, %d): %s", self._request.endpoint, name, error.kind, error.status, error.message
        )
        return error
