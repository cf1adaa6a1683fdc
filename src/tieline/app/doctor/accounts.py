"""Checks the Cursor account and the system's keyring. Findings reveal nothing about the account itself."""

import time
from collections.abc import Callable, Mapping, Sequence

from tieline.app.build.application import App
from tieline.app.build.keys import cursor_key
from tieline.app.config import Config, CursorSettings
from tieline.app.doctor.findings import Check, Finding, counted, ok, problem, skipped, warning
from tieline.app.folders import user_folder
from tieline.backends.credentials import (
    KEYRING_SERVICE,
    Keyring,
    KeyringError,
    TimedKeyring,
    find_keyring,
    in_thread,
)
from tieline.backends.cursor.login_store import LoginStore
from tieline.backends.cursor.tokens import LoginTokens, describe_validity, expiry
from tieline.model.errors import GatewayError

AREA = "Accounts"
KEYRING_LIMIT = 5.0
LIMIT = 30.0
LOG_IN = "Run `tieline login cursor`."
LIVE = "Run `tieline doctor cursor --live` for a turn with tools on your account."


def account_checks(
    config: Config, env: Mapping[str, str], app: App | None, find: Callable[[], Keyring | None] = find_keyring
) -> list[Check]:
    """Return the checks for the keyring, which `find` returns, and for the Cursor account."""
    return [
        Check(AREA, "keyring", lambda: _keyring(find)),
        Check(AREA, "Cursor", lambda: _cursor(config.cursor, env, app), LIMIT),
    ]


async def _keyring(find: Callable[[], Keyring | None]) -> Finding:
    keyring = await in_thread(find, KEYRING_LIMIT)
    if keyring is None:
        return skipped("none: logins are kept in a file that only you can read")
    try:
        await TimedKeyring(lambda: keyring, KEYRING_LIMIT).get(KEYRING_SERVICE, "doctor")
    except KeyringError as error:
        return warning(f"{error}: logins are kept in a file instead", "Unlock the keyring, or remove the package.")
    return ok(f"{type(keyring).__module__}.{type(keyring).__qualname__}")


async def _cursor(settings: CursorSettings, env: Mapping[str, str], app: App | None) -> Sequence[Finding]:
    login = await login_finding(settings, env)
    if login.status != "ok" or app is None:
        return [login]
    return [login, await _models(app), skipped("no request with tools was sent", LIVE, name="Cursor tools")]


async def login_finding(settings: CursorSettings, env: Mapping[str, str]) -> Finding:
    """Return whether there is a key or a login that can be used."""
    if settings.enabled is False:
        return skipped("disabled in the configuration")
    if cursor_key(settings, env) is not None:
        return ok(f"{settings.api_url}, with the key from {settings.key_file or settings.key_env}")
    store = LoginStore(user_folder(env), warn=_quiet, timeout=KEYRING_LIMIT)
    exposed = await in_thread(lambda: store.path.exists() and bool(store.path.stat().st_mode & 0o077), KEYRING_LIMIT)
    if exposed:
        return problem(f"other users can read the login in {store.path}", f"Run `chmod 600 {store.path}`.")
    try:
        tokens = await store.load()
    except GatewayError as error:
        return problem(error.message)
    if tokens is None:
        return problem("not logged in", LOG_IN) if settings.enabled else skipped("not logged in", LOG_IN)
    return _validity(tokens, time.time())


def _validity(tokens: LoginTokens, now: float) -> Finding:
    text = f"logged in; token {describe_validity(tokens, now)}"
    return ok(text) if tokens.is_renewable or expiry(tokens) > now else problem(text, LOG_IN)


async def _models(app: App) -> Finding:
    name = "Cursor models"
    backend = app.backends.get("cursor")
    if backend is None:
        return skipped("the backend is not enabled", name=name)
    try:
        models = await backend.models()
    except GatewayError as error:
        fix = LOG_IN if error.kind == "unauthorized" else "Check the network and the settings under [cursor]."
        return problem(error.message, fix, name=name)
    return ok(counted(len(models), "model"), name=name)


def _quiet(_: str) -> None:
    """Ignore warnings from the login store: its problems are reported as findings instead."""
