"""Status endpoints: `/`, `/healthz`, `/readyz`, `/metrics`, the paths that clients probe first, and `/api/stop`."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from tieline import __version__
from tieline.core.legs.gateway import Gateway
from tieline.frontends.guard import Guard, PageToken
from tieline.frontends.http import TEXT, Exchange, address
from tieline.model.errors import GatewayError


class Hello:
    """Serves the path `/`: `text` for a client that has a key or needs none, `needs_key` for any other client."""

    def __init__(self, guard: Guard, text: Callable[[str], str], needs_key: str) -> None:
        self._guard = guard
        self._text = text
        self._needs_key = needs_key

    async def serve(self, exchange: Exchange) -> None:
        """Respond with the text, which contains the base URL that the client used."""
        text = self._text(address(exchange)) if self._guard.admits(exchange) else self._needs_key
        await exchange.respond(200, text.encode(), TEXT, ((b"vary", b"accept, authorization, x-api-key, api-key"),))


class StopFrontend:
    """Serves `/api/stop`. `stop` stops the gateway; it is None if clients may not do that."""

    def __init__(self, token: PageToken, stop: Callable[[], None] | None) -> None:
        self._token = token
        self._stop = stop

    @property
    def is_allowed(self) -> bool:
        """Whether clients may stop the gateway."""
        return self._stop is not None

    async def stop(self, exchange: Exchange) -> None:
        """Stop the gateway after the response."""
        self._token.check_browser(exchange)
        if self._stop is None:
            message = "Only a gateway that was started with `--exit-when-idle` can be stopped in this way."
            raise GatewayError("forbidden", message)
        await exchange.respond(200, b"{}")
        self._stop()


class Readiness(NamedTuple):
    """The state that `/readyz` reports to a load balancer."""

    is_draining: bool = False
    """Whether the gateway is about to stop."""
    has_database: bool = True
    """Whether the database can be reached. Without it, the gateway still answers requests, so it stays ready."""


READY = Readiness()


class StatusFrontend:
    """Serves health checks and metrics. `features` are the names of the features offered to other programs."""

    def __init__(
        self,
        gateway: Gateway,
        readiness: Callable[[], Readiness] = lambda: READY,
        features: Sequence[str] = (),
        *,
        needs_key: bool = False,
    ) -> None:
        self._gateway = gateway
        self._readiness = readiness
        self._identity = {
            "status": "ok",
            "service": "tieline",
            "version": __version__,
            "features": features,
            "needs_key": needs_key,
        }

    async def health(self, exchange: Exchange) -> None:
        """Respond with status 200, which shows that the gateway is running."""
        await exchange.respond(200, b'{"status":"ok"}')

    async def ready(self, exchange: Exchange) -> None:
        """Respond with status 200 if a load balancer should send requests here, otherwise with 503."""
        readiness = self._readiness()
        if readiness.is_draining:
            await exchange.respond(503, b'{"status":"draining"}')
        elif readiness.has_database:
            await exchange.respond(200, b'{"status":"ready"}')
        else:
            await exchange.respond(200, b'{"status":"degraded","database":"unavailable"}')

    async def identify(self, exchange: Exchange) -> None:
        """Respond with name, version and features of the service, so that other programs can recognise the gateway."""
        await exchange.respond(200, msgspec.json.encode(self._identity))

    async def metrics(self, exchange: Exchange) -> None:
        """Respond with all metrics in the Prometheus text format."""
        text = self._gateway.metrics.text().encode()
        await exchange.respond(200, text, b"text/plain; version=0.0.4; charset=utf-8")
