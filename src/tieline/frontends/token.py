"""The token of the web page, which a browser must send with every request that changes something.

A page of another site can make a browser send requests to the gateway, but it cannot read the responses. So it cannot
know the token, which `/api/state` returns to clients that may use the gateway.
"""

import hmac

from tieline.frontends.http import Exchange
from tieline.frontends.page_pass import PASS
from tieline.model.errors import GatewayError

TOKEN = b"x-tieline-token"
_BROWSERS = frozenset((b"origin", b"sec-fetch-site", PASS))
"""Headers that browsers add and pages can neither omit nor forge, and the pass, which only our page has."""


class PageToken:
    """The token, which is valid as long as the gateway runs."""

    def __init__(self, value: str) -> None:
        self.value = value

    def check(self, exchange: Exchange) -> None:
        """Raise GatewayError for a request that did not come from our own page."""
        if not hmac.compare_digest(exchange.headers.get(TOKEN, b""), self.value.encode()):
            message = "This request needs the token from /api/state. It changes when the gateway is restarted."
            raise GatewayError("forbidden", message, code="bad_token")

    def check_browser(self, exchange: Exchange) -> None:
        """Check the token, but only of requests from browsers: other programs use the same paths without one."""
        if is_browser(exchange):
            self.check(exchange)


def is_browser(exchange: Exchange) -> bool:
    """Whether a request comes from a web page."""
    return not _BROWSERS.isdisjoint(exchange.headers)
