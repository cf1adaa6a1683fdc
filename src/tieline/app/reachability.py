"""Checks whether upstreams answer. The request carries no key, so it reveals nothing and costs nothing."""

import asyncio
from collections.abc import Mapping

from tieline.app.config import DEFAULT_URLS, UpstreamSettings
from tieline.net.client.http import HttpClient, Origin, PipeError, Timeouts

TIME_LIMIT = 3.0
"""Maximum duration of the check, in seconds. All upstreams are checked at the same time."""

_TIMEOUTS = Timeouts(connect=TIME_LIMIT, first_byte=TIME_LIMIT, idle=TIME_LIMIT)


async def unreachable(upstreams: Mapping[str, UpstreamSettings], client: HttpClient) -> dict[str, str]:
    """Return the upstreams that do not answer, with the reason for each. Any HTTP response counts as an answer."""
    reasons = await asyncio.gather(*(why_unreachable(upstream, client) for upstream in upstreams.values()))
    return {name: reason for name, reason in zip(upstreams, reasons, strict=True) if reason is not None}


async def why_unreachable(upstream: UpstreamSettings, client: HttpClient) -> str | None:
    """Return why an upstream does not answer, or None if it does."""
    origin, path = Origin.parse(upstream.base_url or DEFAULT_URLS[upstream.kind])
    try:
        async with asyncio.timeout(TIME_LIMIT):
            response = await client.send(origin, "GET", path or "/", (), timeouts=_TIMEOUTS)
    except PipeError as error:
        return error.message
    except TimeoutError:
        return f"{origin.authority} did not answer within {TIME_LIMIT:g} s"
    response.close()
    return None
