"""The account in use: provides a valid token, and renews it when needed.

Only one refresh runs at a time. It is a task of its own, which continues even if the request that started it is
cancelled, because the service may already have replaced the old tokens. All waiting requests share its result. A
failure is remembered for a few seconds, so that a service that is down or has refused the login is not called again
immediately.

If the login is stored, the store is read before the service is called, because another gateway may have refreshed the
login, or the user may have run `tieline login` or `tieline logout`.
"""

import asyncio
import logging
from collections.abc import Callable

from msgspec.structs import replace

from tieline.backends.cursor.login import LOGIN_AGAIN, AuthApi, exchange_key, refresh
from tieline.backends.cursor.login_store import LoginStore
from tieline.backends.cursor.tokens import LoginTokens, bare, expiry
from tieline.model.errors import GatewayError
from tieline.model.events import Failed
from tieline.tasks import Tasks

log = logging.getLogger("tieline.cursor")

MARGIN = 300.0
"""A token that expires within this many seconds is renewed before use."""

NEW = 60.0
"""For this many seconds, a new token is used even if it seems to have expired, because the local clock may be wrong."""

QUIET = 10.0
"""For this many seconds after a failed refresh, further ones fail with the same error without calling the service."""

Clock = Callable[[], float]


class Account:
    """Provides the tokens of one account. They come from a stored login, an API key or a fixed token.

    `clock` returns seconds since 1970.
    """

    def __init__(
        self, api: AuthApi, tokens: LoginTokens | None, *, clock: Clock, store: LoginStore | None = None
    ) -> None:
        self._api = api
        self._store = store
        self._clock = clock
        self._tasks = Tasks()
        self._tokens = tokens
        self._refused = ""
        self._flight: asyncio.Task[Failed | None] | None = None
        self._failure: Failed | None = None
        self._failed_at = 0.0

    @classmethod
    def stored(cls, api: AuthApi, store: LoginStore, *, clock: Clock) -> "Account":
        """Create an account that uses the login in a store. The store is read when a token is first needed."""
        return cls(api, None, clock=clock, store=store)

    @classmethod
    def with_key(cls, api: AuthApi, key: str, *, clock: Clock) -> "Account":
        """Create an account that exchanges an API key for tokens. The tokens are not stored."""
        return cls(api, _checked("API key", api_key=key.strip(), origin="key"), clock=clock)

    @classmethod
    def fixed(cls, api: AuthApi, token: str, *, clock: Clock) -> "Account":
        """Create an account with a token that cannot be renewed."""
        return cls(api, _checked("token", access=bare(token), origin="fixed"), clock=clock)

    async def token(self) -> str:
        """Return a valid access token. Renew it first if necessary. Raise GatewayError if none can be obtained."""
        if self._tokens is not None and self._is_fresh(self._tokens):
            return self._tokens.access
        failure = await self._renewed()
        tokens = self._tokens
        if failure is None or (failure.kind != "unauthorized" and self._is_alive(tokens)):
            if tokens is not None:
                return tokens.access
            failure = _NO_LOGIN
        raise _error(failure)

    async def renew(self, stale: str) -> str:
        """Return a token other than `stale`, which the service has refused. Raise GatewayError if there is no other."""
        if self._tokens is None or self._tokens.access == stale:
            self._refused = stale
        elif self._is_fresh(self._tokens):
            return self._tokens.access
        failure = await self._renewed()
        if failure is not None or self._tokens is None:
            raise _error(failure or _NO_LOGIN)
        return self._tokens.access

    async def peek(self) -> LoginTokens:
        """Return the current tokens, even if they have expired. Raise GatewayError if there is no login.

        This is for commands that describe the account. If the account has only an API key so far, first exchange the
        key for tokens, because only tokens identify the account.
        """
        if self._tokens is None:
            await self._look()
        if self._tokens is None:
            raise _error(_NO_LOGIN)
        if not self._tokens.access:
            await self.token()
        return self._tokens

    async def aclose(self) -> None:
        """Cancel a running refresh."""
        await self._tasks.aclose()

    # ── one refresh at a time ──

    async def _renewed(self) -> Failed | None:
        """Wait for the running refresh, or start one and wait for it. Return the failure if it fails."""
        flight = self._flight
        if flight is None or flight.done():
            flight = self._flight = self._tasks.start(self._renew(), "cursor-refresh")
        await asyncio.wait([flight])
        if flight.cancelled():
            return Failed(kind="cancelled", status=499, message="The gateway is stopping.")
        return flight.result()

    async def _renew(self) -> Failed | None:
        failure = await self._take_stored()
        if failure is not None:
            return failure
        tokens = self._tokens
        if tokens is None:
            return _NO_LOGIN
        if self._is_fresh(tokens):
            return None
        if not tokens.is_renewable:
            is_good = tokens.access != self._refused and self._is_alive(tokens)
            return None if is_good else _SPENT
        if self._failure is not None and 0 <= self._clock() - self._failed_at < QUIET:
            return self._failure
        return await self._ask(tokens)

    async def _take_stored(self) -> Failed | None:
        """Replace the current tokens with newer ones from the store, or drop them if the store is empty after a logout.

        If the store cannot be read, keep the current tokens, or return the failure if there are none.
        """
        if self._store is None:
            return None
        try:
            stored = await self._store.load()
        except GatewayError as error:
            if self._tokens is None:
                return error.failed()
            log.warning("could not read the stored Cursor login (%s); using the current tokens", error.message)
            return None
        if stored is None or self._tokens is None or stored.obtained > self._tokens.obtained:
            self._failure = None
            self._tokens = stored
        return None

    async def _look(self) -> None:
        stored = None if self._store is None else await self._store.load()
        if self._tokens is None:
            self._tokens = stored

    async def _ask(self, old: LoginTokens) -> Failed | None:
        now = self._clock()
        new = await (exchange_key(self._api, old.api_key, now) if old.api_key else refresh(self._api, old, now))
        if isinstance(new, Failed):
            self._failure, self._failed_at = new, self._clock()
            return new
        self._failure, self._refused = None, ""
        self._tokens = replace(new, origin=old.origin)
        await self._keep(self._tokens)
        return None

    async def _keep(self, tokens: LoginTokens) -> None:
        if self._store is None:
            return
        try:
            await self._store.save(tokens)
        except GatewayError as error:
            log.warning(
                "could not save the renewed Cursor login (%s); it will be lost when this program ends", error.message
            )

    def _is_fresh(self, tokens: LoginTokens) -> bool:
        if not tokens.access or tokens.access == self._refused:
            return False
        now = self._clock()
        return expiry(tokens) - now > MARGIN or 0 < tokens.obtained <= now < tokens.obtained + NEW

    def _is_alive(self, tokens: LoginTokens | None) -> bool:
        return tokens is not None and bool(tokens.access) and expiry(tokens) > self._clock()


_NO_LOGIN = Failed(
    kind="unauthorized", status=401, code="cursor_unauthenticated", message=f"There is no Cursor login. {LOGIN_AGAIN}"
)
_SPENT = Failed(
    kind="unauthorized",
    status=401,
    code="cursor_unauthenticated",
    message=f"The Cursor token has expired or was refused, and cannot be renewed. {LOGIN_AGAIN}",
)


def _error(failure: Failed) -> GatewayError:
    """Return a new exception for a failure. One shared exception would collect the tracebacks of all requests."""
    return GatewayError(
        failure.kind,
        failure.message,
        status=failure.status,
        code=failure.code,
        retry_after=failure.retry_after,
    )


def _checked(what: str, **fields: object) -> LoginTokens:
    try:
        tokens = LoginTokens(**fields)  # type: ignore[arg-type]  # only the class methods above call this
    except ValueError:
        tokens = LoginTokens()
    if not (tokens.access or tokens.api_key):
        raise GatewayError("unauthorized", f"The configured Cursor {what} is not valid: check it for stray characters.")
    return tokens
