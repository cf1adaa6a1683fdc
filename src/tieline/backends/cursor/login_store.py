"""Stores a Cursor login in the system's keyring if there is one, otherwise in a file that only its owner can read.

The package `keyring` is used if it is installed and finds a usable keyring. The keyring and the file are both read, and
the newer login is used, so that no login is lost if the keyring is locked or was installed later. All operations have a
time limit, because a keyring may wait for the user to enter a password in another window.
"""

import asyncio
import logging
import os
import stat
import threading
from collections.abc import Callable
from concurrent.futures import Future
from importlib import import_module
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec

from tieline.backends.cursor.tokens import LoginTokens
from tieline.model.content import Value
from tieline.model.errors import GatewayError
from tieline.net.private_files import write_private

log = logging.getLogger("tieline.cursor")

FILE_NAME = "cursor-login.json"
KEYRING_SERVICE = "tieline"
KEYRING_USER = "cursor"
VERSION = 1
FILE_LIMIT = 256 * 1024
TIMEOUT = 10.0
"""Time limit for the disk and, by default, for the keyring, in seconds."""

Say = Callable[[str], None]
T = TypeVar("T")


class Keyring(Protocol):
    """The interface of a keyring, as the package `keyring` defines it."""

    def get_password(self, service: str, username: str) -> str | None: ...
    def set_password(self, service: str, username: str, password: str) -> None: ...
    def delete_password(self, service: str, username: str) -> None: ...


class KeyringError(Exception):
    """The keyring failed or did not answer in time."""


def find_keyring() -> Keyring | None:
    """Return the keyring of this system, or None if there is no usable one."""
    try:
        keyring = import_module("keyring").get_keyring()
        is_usable = keyring.priority >= 1
    except Exception:  # noqa: BLE001 - a package that cannot be loaded counts as missing
        return None
    return keyring if is_usable else None


def no_keyring() -> Keyring | None:
    """Return None instead of a keyring, so that the login is stored in the file."""
    return None


class LoginStore:
    """Stores one login. `save` creates the folder of the file if necessary.

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
        self._warn = warn
        self._keyring = TimedKeyring(keyring, timeout)

    async def load(self) -> LoginTokens | None:
        """Return the stored login, if any. Raise GatewayError if it cannot be read."""
        trouble, text = "", None
        try:
            text = await self._keyring.get(KEYRING_SERVICE, KEYRING_USER)
        except KeyringError as error:
            trouble = str(error)
        in_file = await self._in_thread(lambda: _read(self.path, self._warn))
        in_keyring = None if text is None else _decode(text.encode(), "The entry `tieline` in the keyring")
        found = [login for login in (in_keyring, in_file) if login is not None]
        if trouble and not found:
            raise GatewayError(
                "unauthorized",
                f"Found no Cursor login: {trouble}, and there is no file {self.path}. Run `tieline login cursor`.",
            )
        return max(found, key=lambda login: login.obtained, default=None)

    async def save(self, tokens: LoginTokens) -> str:
        """Replace the stored login, and return a description of where it is. Raise GatewayError if that fails."""
        data = msgspec.json.encode(_Record(version=VERSION, login=tokens))
        try:
            if await self._keyring.put(KEYRING_SERVICE, KEYRING_USER, data.decode()):
                await self._in_thread(lambda: _remove(self.path))
                return "the keyring of this system"
        except KeyringError as error:
            self._warn(f"{error}: saving the login in {self.path} instead")
        await self._in_thread(lambda: _write(self.path, data))
        return str(self.path)

    async def clear(self) -> bool:
        """Delete the login from the keyring and from the file. Return whether there was a login."""
        was_in_file = await self._in_thread(lambda: _remove(self.path))
        try:
            was_in_keyring = await self._keyring.remove(KEYRING_SERVICE, KEYRING_USER)
        except KeyringError as error:
            if was_in_file:
                self._warn(f"{error}: a login may be left there")
                return True
            raise GatewayError("internal", f"{error}: a login may be left there.") from error
        return was_in_file or was_in_keyring

    async def _in_thread(self, work: Callable[[], T]) -> T:
        try:
            return await in_thread(work, TIMEOUT)
        except TimeoutError as error:
            message = f"The disk with {self.path} did not respond within {TIMEOUT:g} s."
            raise GatewayError("internal", message) from error


class TimedKeyring:
    """A keyring with a time limit. After a timeout the keyring is not used again, because it still blocks a thread."""

    def __init__(self, find: Callable[[], Keyring | None], timeout: float) -> None:
        self._find = find
        self._timeout = timeout
        self._hangs = False

    async def get(self, service: str, user: str) -> str | None:
        return await self._ask(lambda keyring: keyring.get_password(service, user), None)

    async def put(self, service: str, user: str, text: str) -> bool:
        """Store a text. Return whether the keyring then contains it, or False if there is no keyring."""

        def put(keyring: Keyring) -> bool:
            keyring.set_password(service, user, text)
            return keyring.get_password(service, user) == text

        return await self._ask(put, False)

    async def remove(self, service: str, user: str) -> bool:
        def remove(keyring: Keyring) -> bool:
            is_there = keyring.get_password(service, user) is not None
            if is_there:
                keyring.delete_password(service, user)
            return is_there

        return await self._ask(remove, False)

    async def _ask(self, question: Callable[[Keyring], T], without: T) -> T:
        if self._hangs:
            raise KeyringError("the system's keyring did not answer earlier")
        try:
            return await in_thread(lambda: self._answer(question, without), self._timeout)
        except TimeoutError as error:
            self._hangs = True
            raise KeyringError(f"the system's keyring did not answer in {self._timeout:g} s") from error

    def _answer(self, question: Callable[[Keyring], T], without: T) -> T:
        keyring = self._find()
        if keyring is None:
            return without
        try:
            return question(keyring)
        except Exception as error:  # noqa: BLE001 - a foreign package may raise anything
            # The error's own message is left out, because it may contain the login.
            raise KeyringError(f"the system's keyring failed ({type(error).__name__})") from None


async def in_thread(work: Callable[[], T], seconds: float) -> T:
    """Run a blocking function in a daemon thread. After `seconds`, raise TimeoutError and abandon the thread.

    The event loop's executor is not used, because a blocked thread in it would keep the program from exiting.
    """
    future: Future[T] = Future()

    def run() -> None:
        if not future.set_running_or_notify_cancel():
            return
        try:
            future.set_result(work())
        except Exception as error:  # noqa: BLE001 - passed on to the caller
            future.set_exception(error)

    threading.Thread(target=run, name="tieline-login-store", daemon=True).start()
    async with asyncio.timeout(seconds):
        return await asyncio.wrap_future(future)


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


def _read(path: Path, warn: Say) -> LoginTokens | None:
    try:
        data = _owned(path, warn)
    except FileNotFoundError:
        return None
    except OSError as error:
        message = f"The file {path} with the Cursor login cannot be read: {error.strerror}."
        raise GatewayError("internal", message) from error
    return _decode(data, f"The file {path}")


def _owned(path: Path, warn: Say) -> bytes:
    """Return the contents of a file. If other users can read it, first restrict its permissions to its owner.

    The check uses the open file, not its path, because another file could appear at the path after the check.
    """
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    with os.fdopen(descriptor, "rb") as file:
        state = os.fstat(descriptor)
        if not stat.S_ISREG(state.st_mode):
            raise GatewayError("internal", f"{path} is not a file: move it away, then run `tieline login cursor`.")
        if os.name == "posix":
            _make_private(path, descriptor, state, warn)
        return file.read(FILE_LIMIT)


def _make_private(path: Path, descriptor: int, state: os.stat_result, warn: Say) -> None:
    if state.st_uid != os.getuid():
        message = f"{path} belongs to another user, so it is not used. Remove it, then run `tieline login cursor`."
        raise GatewayError("unauthorized", message)
    if state.st_mode & 0o077:
        os.fchmod(descriptor, 0o600)
        warn(
            f"{path} was readable by other users; its permissions were fixed. If others use this machine, log in again"
        )


def _write(path: Path, data: bytes) -> None:
    try:
        write_private(path, data)
    except OSError as error:
        message = f"The Cursor login cannot be saved in {path}: {error.strerror}."
        raise GatewayError("internal", message) from error


def _remove(path: Path) -> bool:
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise GatewayError("internal", f"{path} cannot be removed: {error.strerror}.") from error
    return True
