"""Signs of life: `/`, `/healthz`, `/metrics`, and what clients ask before they begin."""

from collections.abc import Callable

from tieline.core.legs.gateway import Gateway
from tieline.frontends.http import TEXT, Exchange, Guard, address


class Hello:
    """The text at `/`: all of it for a client that has the key (or needs none), else only how to authenticate."""

    def __init__(self, guard: Guard, text: Callable[[str], str], needs_key: str) -> None:
        self._guard = guard
        self._text = text
        self._needs_key = needs_key

    async def serve(self, exchange: Exchange) -> None:
        """Say what this is, under the address that the client used."""
        text = self._text(address(exchange)) if self._guard.admits(exchange) else self._needs_key
        await exchange.respond(200, text.encode(), TEXT, ((b"vary", b"accept, authorization, x-api-key"),))


class StatusFrontend:
    """Says that the gateway is there, and how it does."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def health(self, exchange: Exchange) -> None:
        """Yes."""
        await exchange.respond(200, b'{"status":"ok"}')

    async def metrics(self, exchange: Exchange) -> None:
        """Everything that is counted, for Prometheus."""
        text = self._gateway.metrics.text().encode()
        await exchange.respond(200, text, b"text/plain; version=0.0.4; charset=utf-8")
