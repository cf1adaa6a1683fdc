"""Calls Cursor's login service: logs in through a browser, exchanges API keys, and refreshes tokens.

A login needs no browser on this machine: the link can be opened anywhere, and the service is polled until the user has
logged in. The content of responses never appears in error messages, because it may include a token.
"""

import asyncio
import base64
import hashlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple
from urllib.parse import urlencode
from uuid import UUID

import msgspec

from tieline.backends.cursor.tokens import LoginTokens
from tieline.model.errors import GatewayError
from tieline.model.events import Failed
from tieline.net.client.http import HttpClient, Origin, PipeError, Timeouts
from tieline.wire.shared.http_errors import retry_after

API = "https://api2.cursor.sh"
WEBSITE = "https://cursor.com"
CLIENT_ID = "KbZUR41cY7W6zRSdpSUJ7I7mLYBKOCmB"
"""The public client id of Cursor's editor, which is needed to refresh its logins."""
LOGIN_AGAIN = "Run `tieline login cursor`."

TRIES = 150
FIRST_WAIT = 1.0
GROWTH = 1.2
LONGEST_WAIT = 10.0
LONGEST_BUSY_WAIT = 60.0
ERRORS_IN_A_ROW = 3
ANSWER_LIMIT = 256 * 1024
ANSWER_TIME = 30.0
TIMEOUTS = Timeouts(connect=10, first_byte=20, idle=10, pool=10)

PENDING_BODY = b"Not found"
"""The body of a 404 response before the user has logged in. Any other 404 means that POST is not supported."""

Sleep = Callable[[float], Awaitable[None]]
Random = Callable[[int], bytes]
Verdict = Literal["refused", "absent", "passing"]

_HOPELESS = frozenset((400, 401, 403, 410))
_NO_SUCH_POST = frozenset((400, 401, 403, 405, 501))


@dataclass(frozen=True, slots=True)
class PendingLogin:
    """A login that has begun: the link that the user has to open, and the secret with which to poll for the tokens."""

    url: str
    uuid: str
    verifier: str = field(repr=False)


class AuthReply(NamedTuple):
    """The response to a call. If no response arrived, `status` is 0 and `trouble` describes the error."""

    status: int
    body: bytes = b""
    trouble: str = ""
    retry_after: float | None = None


class AuthApi:
    """Makes calls to the login service. The constructor raises ValueError if the base URL is invalid."""

    def __init__(self, client: HttpClient, url: str = API) -> None:
        self._client = client
        self._origin, self._prefix = Origin.parse(url)

    async def ask(self, method: str, path: str, body: bytes = b"", bearer: str = "") -> AuthReply:
        """Make one call and return the response. Network errors and timeouts are returned, not raised."""
        # Cursor's own programs make these calls with Node's built-in `fetch`, which sends these headers.
        headers = [("accept", "*/*"), ("user-agent", "node")]
        if body:
            headers.append(("content-type", "application/json"))
        if bearer:
            headers.append(("authorization", f"Bearer {bearer}"))
        try:
            async with asyncio.timeout(ANSWER_TIME):
                return await self._exchange(method, path, headers, body)
        except PipeError as error:
            return AuthReply(0, trouble=error.message)
        except TimeoutError:
            return AuthReply(0, trouble=f"{self._origin.authority} did not respond within {ANSWER_TIME:.0f} s")

    async def _exchange(self, method: str, path: str, headers: Sequence[tuple[str, str]], body: bytes) -> AuthReply:
        response = await self._client.send(self._origin, method, self._prefix + path, headers, body, TIMEOUTS)
        try:
            answer = await response.read(ANSWER_LIMIT)
        finally:
            response.close()
        return AuthReply(response.status, answer, "", retry_after(dict(response.headers)))


# ── the browser ──


def begin_login(website: str, random: Random) -> PendingLogin:
    """Begin a login that the user completes by opening the returned link. `random(n)` returns n unpredictable bytes."""
    Origin.parse(website)
    verifier = _base64url(random(32))
    uuid = str(UUID(bytes=random(16), version=4))
    challenge = _base64url(hashlib.sha256(verifier.encode("ascii")).digest())
    query = urlencode({"challenge": challenge, "uuid": uuid, "mode": "login", "redirectTarget": "cli"})
    return PendingLogin(f"{website.rstrip('/')}/loginDeepControl?{query}", uuid, verifier)


async def poll(
    client: HttpClient, api: str, login: PendingLogin, *, sleep: Sleep, clock: Callable[[], float], tries: int = TRIES
) -> LoginTokens:
    """Poll until the user has logged in through the link, and return the tokens. Raise GatewayError on failure."""
    poller = _Poller(AuthApi(client, api), login)
    wait, errors = FIRST_WAIT, 0
    pause = wait
    for _ in range(tries):
        await sleep(pause)
        reply = await poller.ask()
        if (tokens := read_tokens(reply, clock())) is not None:
            return tokens
        if reply.status in _HOPELESS:
            raise GatewayError("unauthorized", f"Cursor refused this login (HTTP {reply.status}). {LOGIN_AGAIN}")
        wait = pause = min(wait * GROWTH, LONGEST_WAIT)
        if reply.status == 429:
            pause = max(wait, min(reply.retry_after or 0, LONGEST_BUSY_WAIT))
            continue
        errors = 0 if reply.status == 404 else errors + 1
        if errors == ERRORS_IN_A_ROW:
            raise GatewayError("upstream", f"Cannot check the login at Cursor: {_what_is_wrong(reply)}.")
    raise GatewayError("timeout", f"The link was not used in time and has expired. {LOGIN_AGAIN}")


class _Poller:
    """Polls by POST, which keeps the secret out of URLs, or by GET if the service does not support POST."""

    def __init__(self, api: AuthApi, login: PendingLogin) -> None:
        self._api = api
        self._secret = {"uuid": login.uuid, "verifier": login.verifier}
        self._is_post = True
        self._is_proven = False

    async def ask(self) -> AuthReply:
        if self._is_post:
            reply = await self._api.ask("POST", "/auth/poll", msgspec.json.encode(self._secret))
            if not self._is_foreign(reply):
                return reply
            self._is_post = False
        return await self._api.ask("GET", f"/auth/poll?{urlencode(self._secret)}")

    def _is_foreign(self, reply: AuthReply) -> bool:
        """Return whether the response shows that POST is not supported."""
        if reply.status == 404:
            self._is_proven = self._is_proven or reply.body == PENDING_BODY
            return reply.body != PENDING_BODY
        return reply.status in _NO_SUCH_POST and not self._is_proven


# ── keys and refresh tokens ──


async def exchange_key(api: AuthApi, key: str, now: float) -> LoginTokens | Failed:
    """Exchange an API key for an access token. Return the failure if the exchange fails."""
    reply = await _post(api, "/auth/exchange_user_api_key", key)
    tokens = read_tokens(reply, now)
    if tokens is None:
        return _failed([reply], "Cursor refused the API key. Create a new one in Cursor's dashboard, and set it.")
    return LoginTokens(access=tokens.access, api_key=key, origin="key", obtained=now)


async def refresh(api: AuthApi, old: LoginTokens, now: float) -> LoginTokens | Failed:
    """Refresh tokens by the method that Cursor's editor uses. If that fails, try older methods.

    Return the failure if no method works.
    """
    replies: list[AuthReply] = []
    for ask in (_grant, _refresh, _exchange_refresh):
        reply = await ask(api, old.refresh)
        if (new := read_tokens(reply, now)) is not None:
            return LoginTokens(access=new.access, refresh=new.refresh or old.refresh, origin=old.origin, obtained=now)
        replies.append(reply)
        if not reply.status:
            break
        if _object(reply).get("shouldLogout") is True:
            replies = [reply]  # the service says clearly that the login has expired
            break
    return _failed(replies, f"The Cursor login has expired. {LOGIN_AGAIN}")


async def _grant(api: AuthApi, token: str) -> AuthReply:
    body = {"grant_type": "refresh_token", "client_id": CLIENT_ID, "refresh_token": token}
    return await api.ask("POST", "/oauth/token", msgspec.json.encode(body))


async def _refresh(api: AuthApi, token: str) -> AuthReply:
    return await _post(api, "/auth/refresh", token)


async def _exchange_refresh(api: AuthApi, token: str) -> AuthReply:
    return await _post(api, "/auth/exchange_user_api_key", token)


def read_tokens(reply: AuthReply, now: float) -> LoginTokens | None:
    """Return the tokens in a response, or None if it contains no usable ones."""
    fields = _object(reply)
    access, fresh = (_either(fields, *names) for names in (("accessToken", "access_token"), _REFRESH_NAMES))
    if not access:
        return None
    try:
        return LoginTokens(access=access, refresh=fresh, obtained=now)
    except ValueError:
        return None


_REFRESH_NAMES = ("refreshToken", "refresh_token")


async def _post(api: AuthApi, path: str, bearer: str) -> AuthReply:
    return await api.ask("POST", path, b"{}", bearer)


def _failed(replies: Sequence[AuthReply], refusal: str) -> Failed:
    """Combine failed responses into one failure. It is temporary if any of the responses indicates a temporary failure.

    `refusal` is the message to use if the service refused the login.
    """
    verdicts = [_verdict(reply) for reply in replies]
    last = replies[-1]
    if "passing" in verdicts:
        worst = replies[verdicts.index("passing")]
        message = f"The Cursor login could not be renewed: {_what_is_wrong(worst)}. Try again in a moment."
        return Failed(kind="upstream", code="cursor_login", message=message, retry_after=worst.retry_after)
    if "refused" in verdicts:
        return Failed(kind="unauthorized", status=401, code="cursor_unauthenticated", message=refusal)
    message = f"The Cursor login could not be renewed: {_what_is_wrong(last)}. Check the base URL."
    return Failed(kind="upstream", code="cursor_login", message=message)


def _verdict(reply: AuthReply) -> Verdict:
    if reply.status in (401, 403) or _object(reply).get("shouldLogout") is True:
        return "refused"
    is_passing = reply.status < 300 or reply.status in (408, 425, 429) or reply.status >= 500
    return "passing" if is_passing else "absent"


def _what_is_wrong(reply: AuthReply) -> str:
    if not reply.status:
        return reply.trouble
    if reply.status < 300:
        return f"the service answered HTTP {reply.status} without a usable token"
    return f"the service answered HTTP {reply.status}"


def _object(reply: AuthReply) -> dict[str, Any]:
    if not 200 <= reply.status < 300:
        return {}
    try:
        fields = msgspec.json.decode(reply.body)
    except (ValueError, RecursionError):
        return {}
    return fields if isinstance(fields, dict) else {}


def _either(fields: dict[str, Any], *names: str) -> str:
    return next((value for name in names if isinstance(value := fields.get(name), str) and value), "")


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode("ascii").rstrip("=")
