"""Shows the web page in a frame of another program, such as an editor.

The page refuses to be framed, because a page of another site could trick the user into clicking on it. A program with
the gateway's key names the windows that may frame the page (`ancestors`) and receives a token. The token opens the page
once, within `LIFETIME` seconds, and the response limits framing to these windows. No cookie is set: browsers send
cookies to every port of the host, and many of them block cookies in frames.
"""

import hmac
import re
from collections.abc import Callable
from html import escape
from typing import NamedTuple

from tieline.frontends.guard import Guard, PageToken
from tieline.frontends.http import Exchange
from tieline.frontends.json_body import read_body
from tieline.frontends.keys import NamedKey
from tieline.model.content import Value
from tieline.model.errors import BadRequest
from tieline.web.exchange import respond, rest_of_path
from tieline.web.static_files import HEADERS, KINDS, StaticFile, policy

LIFETIME = 60
"""Seconds for which a token is valid."""
MAX_TOKENS = 64
"""Maximum number of unused tokens. If there are more, the oldest one becomes invalid."""
MAX_ANCESTORS = 8
MAX_ORIGIN = 200
HTML = KINDS[".html"]
EXPIRED = b"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Tieline</title></head>
<body><h1>This view has expired</h1><p>Close it and open it again.</p></body></html>
"""
EXPIRED_POLICY = b"default-src 'none'; base-uri 'none'; form-action 'none'"
"""The policy of the page EXPIRED. Any window may frame it, because it contains nothing to click on."""

_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:]+\])(?::[0-9]{1,5})?", re.ASCII)


class _EmbedRequest(Value):
    ancestors: tuple[str, ...]
    workspace: str | None = None


class _Ticket(NamedTuple):
    """The request for which a token was issued, and the time at which the token expires."""

    ancestors: tuple[str, ...]
    workspace: str
    key: NamedKey | None
    """The key of the client that asked for the token; None if the gateway has no keys."""
    until: float


class EmbedPage:
    """Issues tokens, and serves the page to clients that have one.

    `check` raises GatewayError if no workspace has the given name. `mint` returns a new secret token, and `clock`
    returns monotonic time in seconds.
    """

    def __init__(
        self,
        page: StaticFile,
        guard: Guard,
        token: PageToken,
        *,
        check: Callable[[str], object],
        mint: Callable[[], str],
        clock: Callable[[], float],
    ) -> None:
        self._page = page.data
        self._guard = guard
        self._token = token
        self._check = check
        self._mint = mint
        self._clock = clock
        self._tickets: dict[str, _Ticket] = {}

    async def issue(self, exchange: Exchange) -> None:
        """Issue a token, and respond with the path of the page."""
        self._token.check_browser(exchange)
        body = await read_body(exchange, _EmbedRequest)
        _check_ancestors(body.ancestors)
        workspace = body.workspace if body.workspace is not None else exchange.workspace or ""
        self._check(workspace)
        token = self._mint()
        self._tickets[token] = _Ticket(body.ancestors, workspace, exchange.client_key, self._clock() + LIFETIME)
        while len(self._tickets) > MAX_TOKENS:
            del self._tickets[next(iter(self._tickets))]
        await respond(exchange, {"path": f"/embed/{token}", "expires_in": LIFETIME})

    async def serve(self, exchange: Exchange) -> None:
        """Send the page to a client with a valid token, which can be used only once."""
        ticket = self._take(rest_of_path(exchange, "/embed/"))
        if ticket is None:
            headers = ((b"content-security-policy", EXPIRED_POLICY), (b"cache-control", b"no-store"))
            await exchange.respond(403, EXPIRED, HTML, headers)
            return
        attributes = {"data-embed": ticket.ancestors[0], "data-workspace": ticket.workspace}
        if ticket.key is not None:
            attributes["data-pass"] = self._guard.new_pass(exchange, ticket.key)
        added = "".join(f' {name}="{escape(value)}"' for name, value in attributes.items())
        data = self._page.replace(b"<html", b"<html" + added.encode(), 1)
        own_policy = (b"content-security-policy", policy(" ".join(ticket.ancestors)).encode())
        others = (header for header in HEADERS if header[0] != own_policy[0])
        await exchange.respond(200, data, HTML, (own_policy, *others, (b"cache-control", b"no-store")))

    def _take(self, given: str) -> _Ticket | None:
        """Remove a token and return its ticket; None if it is not valid."""
        secret = given.encode("utf-8", "replace")
        found = next((token for token in self._tickets if hmac.compare_digest(token.encode(), secret)), None)
        ticket = None if found is None else self._tickets.pop(found)
        return ticket if ticket is not None and self._clock() < ticket.until else None


def _check_ancestors(ancestors: tuple[str, ...]) -> None:
    """Raise BadRequest unless all ancestors are plain origins. They become part of a header and of the page."""
    if not 1 <= len(ancestors) <= MAX_ANCESTORS:
        raise BadRequest(
            f"`ancestors` has {len(ancestors)} entries: expected 1 to {MAX_ANCESTORS} origins", "ancestors"
        )
    for place, origin in enumerate(ancestors):
        if len(origin) > MAX_ORIGIN or _ORIGIN.fullmatch(origin) is None:
            raise BadRequest(
                f"`ancestors[{place}]` must be an origin such as `https://host:port`, without wildcard and path, with "
                f"at most {MAX_ORIGIN} characters",
                f"ancestors[{place}]",
            )
