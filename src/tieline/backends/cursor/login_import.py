"""Imports the login from Cursor's own command-line client or SDK, at the user's request.

These programs' files are read, but never changed. After the import, the gateway and Cursor's program use the same
login. If the service issues a new refresh token at each refresh, the user may later have to log in again in one of the
programs.
"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from tieline.backends.credentials import Keyring, KeyringError, TimedKeyring, find_keyring, in_thread
from tieline.backends.cursor.tokens import LoginTokens, bare
from tieline.model.errors import GatewayError

FILE_LIMIT = 256 * 1024
KEYRING_TIMEOUT = 60.0
"""Time limit for the keyring, in seconds. It is long because the system may ask the user for permission."""

KEYRING_USER = "cursor-user"
KEYRING_SERVICES = {
    "accessToken": "cursor-access-token",
    "refreshToken": "cursor-refresh-token",
    "apiKey": "cursor-api-key",
}


class ImportedLogin(NamedTuple):
    """A login, and a description of the place where it was found."""

    tokens: LoginTokens
    place: str


def places(platform: str, home: Path, config_home: Path | None = None, app_data: Path | None = None) -> list[Path]:
    """Return the paths at which Cursor's programs may store a login.

    `platform` is `sys.platform`. The other arguments are the folders HOME, XDG_CONFIG_HOME and APPDATA.
    """
    if platform == "win32":
        folders = [(app_data or home / "AppData" / "Roaming") / "Cursor"]
    else:
        folders = [config_home / "cursor"] if config_home else []
        folders.append(home / ".config" / "cursor")
    if platform == "darwin":
        folders.append(home / ".cursor")
    return [folder / "auth.json" for folder in dict.fromkeys((*folders, home / ".cursor" / "sdk"))]


async def import_login(
    paths: Sequence[Path],
    *,
    now: float,
    platform: str = "linux",
    keyring: Callable[[], Keyring | None] = find_keyring,
    keyring_timeout: float = KEYRING_TIMEOUT,
) -> ImportedLogin:
    """Return the first login found in the files at `paths`. On macOS, look in the keychain first.

    Raise GatewayError if there is no login.
    """
    if platform == "darwin" and (fields := await _ask_keychain(TimedKeyring(keyring, keyring_timeout))):
        tokens = _tokens(fields, "the macOS keychain", now)
        if tokens is not None:
            return ImportedLogin(tokens, "the macOS keychain")
    for path in paths:
        data = await in_thread(partial(_read, path), keyring_timeout)
        tokens = None if data is None else _tokens(_object(data, path), str(path), now)
        if tokens is not None:
            return ImportedLogin(tokens, str(path))
    looked = ", ".join(map(str, paths))
    raise GatewayError(
        "unauthorized",
        f"Found no login of Cursor's own client (looked for {looked}). Run `tieline login cursor` instead.",
    )


async def _ask_keychain(keyring: TimedKeyring) -> dict[str, Any]:
    try:
        return {name: await keyring.get(service, KEYRING_USER) for name, service in KEYRING_SERVICES.items()}
    except KeyringError:
        return {}


def _read(path: Path) -> bytes | None:
    try:
        with path.open("rb") as file:
            return file.read(FILE_LIMIT)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise GatewayError("internal", f"{path} cannot be read: {error.strerror}.") from error


def _object(data: bytes, path: Path) -> dict[str, Any]:
    try:
        fields = msgspec.json.decode(data)
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict):
        raise GatewayError("internal", f"{path} was not written by Cursor's client: it does not hold a JSON object.")
    return fields


def _tokens(fields: dict[str, Any], place: str, now: float) -> LoginTokens | None:
    """Return the login in a JSON object, or None if there is none, for example after a logout."""
    access, refresh, key = (
        bare(value) if isinstance(value := fields.get(name), str) else "" for name in KEYRING_SERVICES
    )
    if not (access or key):
        return None
    try:
        # If there is a complete login as well as a key, the login is used.
        is_login = bool(access and refresh) or not key
        kept = LoginTokens(access=access, refresh=refresh) if is_login else LoginTokens(api_key=key)
    except ValueError:
        raise GatewayError(
            "internal", f"The login in {place} contains characters that are not valid in a token."
        ) from None
    return msgspec.structs.replace(kept, origin="import", obtained=now)
