"""Holds conversations and tool round trips with a gateway over HTTP, as a client would.

The gateway is treated like any upstream, so this tests the whole path: the gateway's HTTP server and guard, the codecs
on both sides, and the backend behind them.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

from tieline.app.build.round_trip import RoundTrip, TripResult
from tieline.app.build.upstreams import upstream_backend
from tieline.app.config import UpstreamSettings
from tieline.app.ids import Ids
from tieline.app.local_gateway import LocalGateway
from tieline.model.ports import Backend, Host
from tieline.net.client.http import HttpClient
from tieline.wire.shared.conversations import conversation_cache

SILENCE = 60.0
"""Seconds without data after which an answer is considered broken."""
NO_HOST = cast("Host", None)
"""A placeholder for the host of these conversations, which a backend for an HTTP API never uses."""


@asynccontextmanager
async def backend_for(gateway: LocalGateway) -> AsyncIterator[Backend]:
    """Provide a backend whose models are those of a gateway."""
    client = HttpClient()
    settings = UpstreamSettings(
        kind="openai", base_url=f"{gateway.url}/v1", retries=0, first_byte_timeout=SILENCE, idle_timeout=SILENCE
    )
    try:
        yield upstream_backend(
            "gateway", settings, gateway.key, client=client, new_leg_id=Ids().leg, conversations=conversation_cache()
        )
    finally:
        await client.aclose()


async def round_trip(gateway: LocalGateway, model: str) -> TripResult:
    """Return how a tool round trip with one of a gateway's models went. Raise GatewayError if a request fails."""
    async with backend_for(gateway) as backend:
        return await RoundTrip().run(backend, NO_HOST, model)
