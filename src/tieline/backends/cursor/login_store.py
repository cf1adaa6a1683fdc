"""Stores a Cursor login, like all credentials, in the system keyring or in a private file.

The keyring and the file are both read, and the newer login is used, so that no login is lost if the keyring is locked
or was installed later.
"""

import logging
from collections.abc import Callable
from pathlib import Path

import msgspec

from tieline.backends.credentials import TIMEOUT, CredentialStore, Keyring, Say, Wording, find_keyring
from tieline.backends.cursor.tokens import LoginTokens
from tieline.model.content import Value
from tieline.model.errors import GatewayError

log = logging.getLogger("tieline.cursor")

FILE_NAME = "cursor-login.json"
KEYRING_ENTRY = "cursor"
KEYRING_PLACE = "The entry `tieline` in the keyring"
VERSION = 1
WORDING = Wording("Cursor login", "run `tieline login cursor`", "log in again")


class LoginStore:
    """Stores one login. `save` creates the directory for the file if necessary.

    `keyring` returns the keyring to use, if any. `timeout` is the time limit for the keyring, in seconds.
    """

    def __init__(
        self,
        directory: Path,
        *,
        keyring: Callable[[], Keyring | None] = find_keyring,
        warn: Say = log.warning,
        timeout: float = TIMEOUT,
    ) -> None:
        self.path = directory / FILE_NAME
        self._store = CredentialStore(self.path, KEYRING_ENTRY, WORDING, keyring=keyring, warn=warn, timeout=timeout)

    @property
    def is_stored(self) -> bool:
        """Whether there is a login. Its content is not read."""
        return self._store.is_stored

    async def load(self) -> LoginTokens | None:
        """Return the stored login, if any. Raise GatewayError if it cannot be read."""
        copies = await self._store.read()
        in_file = None if copies.in_file is None else _decode(copies.in_file, f"The file {self.path}")
        in_keyring = None if copies.in_keyring is None else _decode(copies.in_keyring, KEYRING_PLACE)
        found = [login for login in (in_keyring, in_file) if login is not None]
        if copies.problem and not found:
            raise GatewayError(
                "unauthorized",
                f"Found no Cursor login: {copies.problem}, and there is no file {self.path}. "
                "Run `tieline login cursor`.",
            )
        return max(found, key=lambda login: login.obtained, default=None)

    async def save(self, tokens: LoginTokens) -> str:
        """Replace the stored login, and return a description of where it is. Raise GatewayError if that fails."""
        return await self._store.write(msgspec.json.encode(_Record(version=VERSION, login=tokens)))

    async def clear(self) -> bool:
        """Delete the login from the keyring and from the file. Return whether there was a login."""
        return await self._store.clear()


class _Record(Value):
    version: int
    login: LoginTokens


class _Version(msgspec.Struct):
    version: int


def _decode(data: bytes, place: str) -> LoginTokens:
    try:
        if msgspec.json.decode(data, type=_Version).version > VERSION:
            raise GatewayError("unauthorized", f"{place} was written by a newer Tieline. Update, or log in again.")
        return msgspec.json.decode(data, type=_Record).login
    except (ValueError, RecursionError):
        message = f"{place} is not a readable login. Run `tieline logout cursor`, then `tieline login cursor`."
        raise GatewayError("unauthorized", message) from None
