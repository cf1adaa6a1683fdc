"""Follows an upstream's redirects, but only to the same host."""

from urllib.parse import urlsplit

from tieline.backends.http_api.upstream import Upstream
from tieline.model.errors import NOT_RETRYABLE, GatewayError
from tieline.model.events import Headers
from tieline.net.client.http import HttpResponse, redirected
from tieline.wire.shared.http_errors import excerpt

REDIRECTS = frozenset({301, 302, 303, 307, 308})
MAX_REDIRECTS = 3
_FOLLOWED = REDIRECTS - {303}
"""Statuses of redirects that may be followed. 303 is excluded: it asks for a GET instead of the same request."""


async def follow(
    upstream: Upstream, response: HttpResponse, method: str, path: str, headers: Headers, body: bytes
) -> HttpResponse:
    """Send a request again, with the same method and body, to the target of a redirect.

    `response` is the redirect. Raise GatewayError if it must not be followed, for example because it leads to another
    host, and PipeError if a connection fails.
    """
    origin, location = upstream.origin, ""
    for _ in range(MAX_REDIRECTS):
        location = response.field(b"location").decode("latin-1")
        response.close()
        target = redirected(origin, path, location) if location else None
        if target is None or response.status not in _FOLLOWED:
            break
        origin, path = target
        response = await upstream.client.send(origin, method, path, headers, body, upstream.timeouts)
        if response.status not in REDIRECTS:
            return response
    message = (
        f"Upstream `{upstream.name}` redirects to {_host_in(location) or origin.authority}, "
        "which the gateway does not follow. "
        "If that is the right address, set `base_url` of this upstream to it."
    )
    raise GatewayError("upstream", message, code="upstream_redirect", headers=(NOT_RETRYABLE,))


def _host_in(location: str) -> str:
    try:
        return excerpt(urlsplit(location).hostname or "")
    except ValueError:
        return "a malformed address"
