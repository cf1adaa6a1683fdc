"""Where a Cursor login is kept: the keyring of the system if there is one, else a file only its owner can read.

The package `keyring` is used if it happens to be installed and finds a keyring worth the name. Both places are looked
at, and the newer login counts: a keyring that is locked today, or was installed yesterday, must not lose one. Nothing
here waits for long; a keyring that asks its owner for a password in some other window is left to itself.
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
RING_SERVICE = "tieline"
RING_USER = "cursor"
VERSION = 1
FILE_LIMIT = 256 * 1024
PATIENCE = 10.0
"""How long a disk may take, and a keyring unless told otherwise, in seconds."""

Say = Callable[[str], None]
T = TypeVar("T")


class Keyring(Protocol):
    """The three things a keyring can do, as the package `keyring` names them."""

    def get_password(self, service: str, username: str) -> str | None: ...
    def set_password(self, service: str, username: str, password: str) -> None: ...
    def delete_password(self, service: str, username: str) -> None: ...


class KeyringError(Exception):
    """The keyring did not do what it was asked."""


def find_keyring() -> Keyring | None:
    """The keyring of this system, if there is a usable one."""
    try:
        ring = import_module("keyring").get_keyring()
        is_usable = ring.priority >= 1
    except Exception:  # noqa: BLE001 - a foreign package that cannot be loaded is one that is not there
        return None
    return ring if is_usable else None


def no_keyring() -> Keyring | None:
    """For those who want the file."""
    return None


class LoginStore:
    """One login. The directory is made when something is saved; `ring` finds a keyring; it gets `patience` seconds."""

    def __init__(
        self,
        directory: Path,
        *,
        ring: Callable[[], Keyring | None] = find_keyring,
        warn: Say = log.warning,
        patience: float = PATIENCE,
    ) -> None:
        self.path = directory / FILE_NAME
        self._warn = warn
        self._ring = TimedKeyring(ring, patience)

    async def load(self) -> LoginTokens | None:
        """The login that is kept, if any; raises GatewayError if it cannot be read."""
        trouble, text = "", None
        try:
            text = await self._ring.get(RING_SERVICE, RING_USER)
        except KeyringError as error:
            trouble = str(error)
        in_file = await self._in_thread(lambda: _read(self.path, self._warn))
        in_ring = None if text is None else _decode(text.encode(), "The entry `tieline` in the keyring")
        found = [login for login in (in_ring, in_file) if login is not None]
        if trouble and not found:
            raise GatewayError(
                "unauthorized",
                f"No Cursor login was found: {trouble}, and there is no file {self.path}. Run `tieline login cursor`.",
            )
        return max(found, key=lambda login: login.obtained, default=None)

    async def save(self, tokens: LoginTokens) -> str:
        """Keep a login in place of the one before, and say where it is now; raises GatewayError if that fails."""
        data = msgspec.json.encode(_Record(version=VERSION, login=tokens))
        try:
            if await self._ring.put(RING_SERVICE, RING_USER, data.decode()):
                await self._in_thread(lambda: _remove(self.path))
                return "the keyring of this system"
        except KeyringError as error:
            self._warn(f"{error}: the login is kept in {self.path} instead")
        await self._in_thread(lambda: _write(self.path, data))
        return str(self.path)

    async def clear(self) -> bool:
        """Forget the login wherever it is; whether there was one."""
        was_filed = await self._in_thread(lambda: _remove(self.path))
        try:
            was_ringed = await self._ring.remove(RING_SERVICE, RING_USER)
        except KeyringError as error:
            if was_filed:
                self._warn(f"{error}: a login may be left there")
                return True
            raise GatewayError("internal", f"{error}: a login may be left there.") from error
        return was_filed or was_ringed

    async def _in_thread(self, work: Callable[[], T]) -> T:
        try:
            return await in_thread(work, PATIENCE)
        except TimeoutError as error:
            message = f"The disk with {self.path} did not answer in {PATIENCE:g} s."
            raise GatewayError("internal", message) from error


class TimedKeyring:
    """A keyring that answers in time or not at all; one that did not is never asked again, for it holds a thread."""

    def __init__(self, find: Callable[[], Keyring | None], patience: float) -> None:
        self._find = find
        self._patience = patience
        self._hangs = False

    async def get(self, service: str, user: str) -> str | None:
        return await self._ask(lambda ring: ring.get_password(service, user), None)

    async def put(self, service: str, user: str, text: str) -> bool:
        """Whether there is a keyring, and it has the text now."""

        def put(ring: Keyring) -> bool:
            ring.set_password(service, user, text)
            return ring.get_password(service, user) == text

        return await self._ask(put, False)

    async def remove(self, service: str, user: str) -> bool:
        def remove(ring: Keyring) -> bool:
            is_there = ring.get_password(service, user) is not None
            if is_there:
                ring.delete_password(service, user)
            return is_there

        return await self._ask(remove, False)

    async def _ask(self, question: Callable[[Keyring], T], without: T) -> T:
        if self._hangs:
            raise KeyringError("the system's keyring did not answer before")
        try:
            return await in_thread(lambda: self._answer(question, without), self._patience)
        except TimeoutError as error:
            self._hangs = True
            raise KeyringError(f"the system's keyring did not answer in {self._patience:g} s") from error

    def _answer(self, question: Callable[[Keyring], T], without: T) -> T:
        ring = self._find()
        if ring is None:
            return without
        try:
            return question(ring)
        except Exception as error:  # noqa: BLE001 - a foreign package may raise anything
            # Its words are left out: it may repeat what it was to keep.
            raise KeyringError(f"the system's keyring failed ({type(error).__name__})") from None


async def in_thread(work: Callable[[], T], patience: float) -> T:
    """Run something that may block; after `patience` seconds TimeoutError, and the thread is left to itself.

    The event loop's own threads would keep the program from ending as long as one of them hangs.
    """
    future: Future[T] = Future()

    def run() -> None:
        if not future.set_running_or_notify_cancel():
            return
        try:
            future.set_result(work())
        except Exception as error:  # noqa: BLE001 - whoever waits is told
            future.set_exception(error)

    threading.Thread(target=run, name="tieline-login-store", daemon=True).start()
    async with asyncio.timeout(patience):
        return await asyncio.wrap_future(future)


class _Record(Value):
    version: int
    login: LoginTokens


class _Version(msgspec.Struct):
    version: int


def _decode(data: bytes, place: str) -> LoginTokens:
    try:
        if msgspec.json.decode(data, type=_Version).version > VERSION:
            raise GatewayError("unauthorized", f"{place} was written by a newer Tieline: use that, or log in again.")
        return msgspec.json.decode(data, type=_Record).login
    except (ValueError, RecursionError):
        message = f"{place} holds no login that can be read. Run `tieline logout cursor`, then `tieline login cursor`."
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
    """The contents of a file that is ours alone, or is made so. It is looked at after it was opened: no swapping."""
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
        warn(f"{path} could be read by other users. It no longer can; if others use this machine, log in again")


def _write(path: Path, data: bytes) -> None:
    try:
        write_private(path, data)
    except OSError as error:
        message = f"The Cursor login cannot be kept in {path}: {error.strerror}."
        raise GatewayError("internal", message) from error


def _remove(path: Path) -> bool:
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise GatewayError("internal", f"{path} cannot be removed: {error.strerror}.") from error
    return True
