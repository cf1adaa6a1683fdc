"""Lets the user log in to Cursor from the web page."""

import asyncio
import secrets
import time
from typing import NamedTuple

from tieline.app.build.cursor import cursor_backend
from tieline.app.build.page_context import PageContext
from tieline.app.folders import user_folder
from tieline.backends.cursor.login import LOGIN_AGAIN, PendingLogin, begin_login, poll
from tieline.backends.cursor.login_store import LoginStore as LoginStore
from tieline.core.watch.bus import ModelsChanged
from tieline.model.errors import BadRequest, GatewayError
from tieline.model.ports import Backend
from tieline.net.client.http import HttpClient
from tieline.web.gateway_info import LoginState

LOGIN_WITHIN = 900.0
"""Time limit for the user to finish a login, in seconds."""


class _PendingLogin(NamedTuple):
    """A login that the user has not finished in the browser yet."""

    url: str
    until: float
    waiting: asyncio.Task[None]


class CursorLogin:
    """Logs in to Cursor from the web page. After a login, Cursor's models are available without a restart."""

    def __init__(self, context: PageContext) -> None:
        self._context = context
        self._pending: _PendingLogin | None = None
        self._problem = ""
        self._replaced: list[Backend] = []
        """Backends of earlier logins, kept open because requests may still use them."""

    def state(self) -> LoginState:
        """Return the state of the login, to be shown on the page."""
        if self._context.is_simulated:
            text = "Simulated: the demo model answers in place of Cursor's service."
            return LoginState(state="simulated", text=text, is_offered=False)
        if self._pending is not None:
            text = "Waiting for you to log in on the page that was opened."
            return LoginState(state="waiting", text=text, url=self._pending.url, until=self._pending.until)
        status = next((one for one in self._context.backends.statuses if one.name == "cursor"), None)
        if status is None or not status.is_ready:
            return LoginState(state="none", text="Not logged in.", trouble=self._problem)
        return LoginState(state="logged_in", text=status.text, trouble=self._problem, is_offered=not self._has_key)

    async def begin(self) -> str:
        """Start a login and return its URL. An earlier unfinished login is cancelled."""
        if self._context.is_simulated:
            raise BadRequest("Cursor is simulated; there is nothing to log in to")
        if self._has_key:
            raise BadRequest("An API key for Cursor is configured, so no login is needed")
        await self.cancel()
        login = begin_login(self._context.config.cursor.website_url, secrets.token_bytes)
        waiting = self._context.tasks.start(self._wait(login), "cursor-login")
        self._pending = _PendingLogin(login.url, time.time() + LOGIN_WITHIN, waiting)
        self._notify()
        return login.url

    async def cancel(self) -> None:
        """Cancel an unfinished login."""
        self._problem = ""
        if self._pending is not None:
            self._pending.waiting.cancel()
            self._pending = None
            self._notify()

    async def aclose(self) -> None:
        """Close the backends of earlier logins."""
        for backend in self._replaced:
            await backend.aclose()

    async def _wait(self, login: PendingLogin) -> None:
        try:
            async with asyncio.timeout(LOGIN_WITHIN):
                await self._poll(login)
            self._replace_backend()
        except TimeoutError:
            self._problem = f"The link was not used within {LOGIN_WITHIN / 60:.0f} minutes. Start again."
        except GatewayError as error:
            self._problem = error.message.replace(LOGIN_AGAIN, "Start again.")
        self._pending = None
        self._notify()

    async def _poll(self, login: PendingLogin) -> None:
        client = HttpClient(proxies=self._context.proxies)
        try:
            api = self._context.config.cursor.api_url
            tokens = await poll(client, api, login, sleep=asyncio.sleep, clock=time.time)
            await LoginStore(user_folder(self._context.env)).save(tokens)
        finally:
            await client.aclose()

    def _replace_backend(self) -> None:
        """Replace the Cursor backend, so that new requests use the new login."""
        context = self._context
        made = cursor_backend(
            context.config.cursor,
            context.env,
            context.proxies,
            context.ids,
            park_for=context.config.parking.deadline,
        )
        if made is None:
            return
        replaced = context.backends.put("cursor", *made)
        if replaced is not None:
            self._replaced.append(replaced)
        context.gateway.models.invalidate()

    def _notify(self) -> None:
        self._context.gateway.bus.publish(ModelsChanged())

    @property
    def _has_key(self) -> bool:
        settings = self._context.config.cursor
        return bool(settings.key_file or self._context.env.get(settings.key_env, "").strip())
