"""The token of our page: what a browser must show before it changes anything.

A page of another site can make a browser send a request here, but it cannot read what we answer; so it cannot know the
token, which `/api/state` tells to those who may use the gateway.
"""

import hmac

from tieline.frontends.http import Exchange
from tieline.frontends.page_pass import PASS
from tieline.model.errors import GatewayError

TOKEN = b"x-tieline-token"
_BROWSERS = frozenset((b"origin", b"sec-fetch-site", PASS))
"""Headers that browsers add by themselves, and that no page can leave out or forge; and what only our page is given."""


class PageToken:
    """One token, for as long as the gateway runs."""

    def __init__(self, value: str) -> None:
        self.value = value

    def check(self, exchange: Exchange) -> None:
        """Raise GatewayError for a request that our own page cannot have made."""
        if not hmac.compare_digest(exchange.headers.get(TOKEN, b""), self.value.encode()):
            message = "This needs the token that /api/state tells; if the gateway was restarted, it is another one."
            raise GatewayError("forbidden", message, code="bad_token")

    def check_browser(self, exchange: Exchange) -> None:
        """The same, for paths that programs use too: those bring the gateway's key, if there is one, and no token."""
        if is_browser(exchange):
            self.check(exchange)


def is_browser(exchange: Exchange) -> bool:
    """Whether a request comes from a web page, or with what only our page was given."""
    return not _BROWSERS.isdisjoint(exchange.headers)
