"""Taking over the login of Cursor's own command line client or SDK, when the user asks for it.

Nothing there is changed. Both programs go on with the same login; where the service gives a new refresh token at each
refresh, one of them may have to log in again some day.
"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from tieline.backends.cursor.login_store import Keyring, KeyringError, TimedKeyring, find_keyring, in_thread
from tieline.backends.cursor.tokens import LoginTokens, bare
from tieline.model.errors import GatewayError

FILE_LIMIT = 256 * 1024
PATIENCE = 60.0
"""How long a keyring may take: the system asks the user whether we may read what another program wrote."""

RING_USER = "cursor-user"
RING_SERVICES = {
    "accessToken": "cursor-access-token",
    "refreshToken": "cursor-refresh-token",
    "apiKey": "cursor-api-key",
}


class ImportedLogin(NamedTuple):
    """A login, and where it was."""

    tokens: LoginTokens
    place: str


def places(platform: str, home: Path, config_home: Path | None = None, app_data: Path | None = None) -> list[Path]:
    """Where the files may be; `platform` as in `sys.platform`, the rest from HOME, XDG_CONFIG_HOME and APPDATA."""
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
    ring: Callable[[], Keyring | None] = find_keyring,
    patience: float = PATIENCE,
) -> ImportedLogin:
    """The first login found, on macOS in the keychain before any file; raises GatewayError if there is none."""
    if platform == "darwin" and (said := await _ask_keychain(TimedKeyring(ring, patience))):
        tokens = _tokens(said, "the macOS keychain", now)
        if tokens is not None:
            return ImportedLogin(tokens, "the macOS keychain")
    for path in paths:
        data = await in_thread(partial(_read, path), patience)
        tokens = None if data is None else _tokens(_object(data, path), str(path), now)
        if tokens is not None:
            return ImportedLogin(tokens, str(path))
    looked = ", ".join(map(str, paths))
    raise GatewayError(
        "unauthorized",
        f"No login of Cursor's own client was found (looked for {looked}). Run `tieline login cursor` instead.",
    )


async def _ask_keychain(ring: TimedKeyring) -> dict[str, Any]:
    try:
        return {name: await ring.get(service, RING_USER) for name, service in RING_SERVICES.items()}
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
        said = msgspec.json.decode(data)
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict):
        raise GatewayError("internal", f"{path} is not what Cursor's client writes: it holds no JSON object.")
    return said


def _tokens(said: dict[str, Any], place: str, now: float) -> LoginTokens | None:
    """The login in an object, or None if it has none: a client that has logged out leaves an empty one."""
    access, refresh, key = (bare(value) if isinstance(value := said.get(name), str) else "" for name in RING_SERVICES)
    if not (access or key):
        return None
    try:
        # A key outlives the tokens that came of it, so where there are both, the login itself counts.
        is_login = bool(access and refresh) or not key
        kept = LoginTokens(access=access, refresh=refresh) if is_login else LoginTokens(api_key=key)
    except ValueError:
        raise GatewayError("internal", f"The login in {place} holds characters that no token has.") from None
    return msgspec.structs.replace(kept, origin="import", obtained=now)
