"""Creates the Cursor backend, and implements `tieline login`, `logout` and `whoami`."""

import asyncio
import platform
import re
import secrets
import sys
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path

from tieline.app.build.keys import cursor_key
from tieline.app.config import CursorSettings
from tieline.app.folders import user_folder
from tieline.app.ids import Ids
from tieline.backends.cursor import login_commands
from tieline.backends.cursor.account import Account
from tieline.backends.cursor.backend import CursorBackend, CursorOptions
from tieline.backends.cursor.login import AuthApi
from tieline.backends.cursor.login_import import places
from tieline.backends.cursor.login_store import LoginStore
from tieline.net.client.http import HttpClient, Origin, Proxies, Timeouts
from tieline.net.h2.client import Http2Client
from tieline.wire.cursor.identity import CLI, Checksum, Identity, newest_version
from tieline.wire.cursor.opening.run_request import MachineInfo, RunSettings
from tieline.wire.cursor.run.query_replies import QuerySettings

CONNECTIONS = 8192
"""Maximum number of connections. Over HTTP/1.1, each parked run keeps one open and uses others to send messages."""


def cursor_account(
    settings: CursorSettings,
    env: Mapping[str, str],
    client: HttpClient,
    *,
    token: str | None = None,
    key: str | None = None,
) -> Account:
    """Return the account for `token` or `key` or, if neither is given, for the stored login."""
    api = AuthApi(client, settings.api_url)
    if token is not None:
        return Account.fixed(api, token, clock=time.time)
    if key is not None:
        return Account.with_key(api, key, clock=time.time)
    return Account.stored(api, LoginStore(user_folder(env)), clock=time.time)


def make_cursor_backend(
    settings: CursorSettings,
    env: Mapping[str, str],
    proxies: Proxies,
    ids: Ids,
    *,
    park_for: float,
    token: str | None = None,
    key: str | None = None,
) -> CursorBackend:
    """Create the Cursor backend. A run waits up to `park_for` seconds for the user's reply to a plan."""
    http = HttpClient(proxies=proxies, per_origin=CONNECTIONS)
    return CursorBackend(
        _terms(settings, env, park_for),
        cursor_account(settings, env, http, token=token, key=key),
        http,
        Http2Client(proxies=proxies),
        mint_call=ids.call,
        mint_id=lambda: str(uuid.uuid4()),
        mint_leg=ids.leg,
        clock=time.monotonic,
    )


async def login_cursor(
    settings: CursorSettings, env: Mapping[str, str], *, take: bool, say: Callable[[str], None]
) -> str:
    """Log in through a browser, and return a message for the user. `say` shows progress.

    If `take` or `import_login` in the settings is true, import the login from Cursor's own client instead.
    """
    store = LoginStore(user_folder(env))
    if take or settings.import_login:
        home = _home(env)
        config_home, app_data = env.get("XDG_CONFIG_HOME"), env.get("APPDATA")
        paths = places(
            sys.platform, home, Path(config_home) if config_home else None, Path(app_data) if app_data else None
        )
        return await login_commands.take_over(store, paths, clock=time.time, platform=sys.platform)
    client = HttpClient(proxies=Proxies.from_env(env))
    try:
        return await login_commands.login(
            client,
            store,
            say=say,
            sleep=asyncio.sleep,
            random=secrets.token_bytes,
            clock=time.time,
            api=settings.api_url,
            website=settings.website_url,
        )
    finally:
        await client.aclose()


async def logout_cursor(settings: CursorSettings, env: Mapping[str, str]) -> str:  # noqa: ARG001 - same signature as the other login commands
    """Delete the stored login. Return a message for the user."""
    return await login_commands.logout(LoginStore(user_folder(env)))


async def whoami(settings: CursorSettings, env: Mapping[str, str]) -> str:
    """Return a message that describes the account in use."""
    client = HttpClient(proxies=Proxies.from_env(env))
    account = cursor_account(settings, env, client, key=cursor_key(settings, env))
    try:
        return await login_commands.whoami(account, clock=time.time)
    finally:
        await account.aclose()
        await client.aclose()


def _installed(env: Mapping[str, str]) -> list[str]:
    """Return the versions of Cursor's own CLI that are installed for this user."""
    try:
        return [path.name for path in (_home(env) / ".local/share/cursor-agent/versions").iterdir()]
    except OSError:
        return []


def _home(env: Mapping[str, str]) -> Path:
    return Path(env.get("HOME") or Path.home())


def _terms(settings: CursorSettings, env: Mapping[str, str], park_for: float) -> CursorOptions:
    checksum = Checksum(machine_id=settings.machine_id) if settings.machine_id else None
    identity = Identity(
        client_type=settings.client_type or CLI.client_type,
        client_version=settings.client_version or newest_version(_installed(env)),
        ghost_mode=settings.ghost_mode,
        checksum=checksum,
        started_ms=int(time.time() * 1000),
    )
    return CursorOptions(
        api=Origin.parse(settings.api_url)[0],
        agent=Origin.parse(settings.agent_url)[0] if settings.agent_url else None,
        transport=None if settings.transport == "auto" else settings.transport,
        identity=identity,
        timeouts=Timeouts(
            connect=settings.connect_timeout, first_byte=settings.first_byte_timeout, idle=settings.idle_timeout
        ),
        settings=RunSettings(
            history=settings.history,
            meta_tools=identity.client_type == "sdk",
            web_search=settings.web,
            web_fetch=settings.web,
        ),
        machine_info=_surroundings(settings.workspace or "", env),
        queries=QuerySettings(allow_web=settings.web, allow_images=settings.images),
        models=settings.models,
        stall_after=settings.stall_timeout,
        park_for=park_for,
    )


def _surroundings(workspace: str, env: Mapping[str, str]) -> MachineInfo:
    """Return the description of this machine that is sent to Cursor's service.

    It contains the same project folders that Cursor's own clients would send.
    """
    home = _home(env)
    slug = re.sub(r"[^A-Za-z0-9]+", "-", workspace).strip("-")
    project = str(home / ".cursor/projects" / slug) if slug else ""
    return MachineInfo(
        os_version=f"{platform.system().lower()} {platform.release()}",
        shell=Path(env.get("SHELL", "/bin/sh")).name,
        time_zone=env.get("TZ", "") or "UTC",
        workspace=workspace,
        project_folder=project,
        terminals_folder=f"{project}/terminals" if project else "",
        notes_folder=f"{project}/agent-notes/shared" if project else "",
        transcripts_folder=f"{project}/agent-transcripts" if project else "",
        is_home=bool(workspace) and Path(workspace) == home,
    )
