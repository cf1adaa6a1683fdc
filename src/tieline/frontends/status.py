"""Signs of life: `/`, `/healthz`, `/metrics`, and what clients ask before they begin."""

from tieline.core.gateway import Gateway
from tieline.frontends.http import TEXT, Exchange


class StatusFrontend:
    """Says that the gateway is there, and how it does."""

    def __init__(self, gateway: Gateway, welcome: str) -> None:
        self._gateway = gateway
        self._welcome = welcome.encode()

    async def welcome(self, exchange: Exchange) -> None:
        """What this is, for a person who opens the address in a browser."""
        await exchange.respond(200, self._welcome, TEXT)

    async def health(self, exchange: Exchange) -> None:
        """Yes."""
        await exchange.respond(200, b'{"status":"ok"}')

    async def metrics(self, exchange: Exchange) -> None:
        """Everything that is counted, for Prometheus."""
        text = self._gateway.metrics.text().encode()
        await exchange.respond(200, text, b"text/plain; version=0.0.4; charset=utf-8")
