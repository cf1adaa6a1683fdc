"""Stores secret documents, such as logins, in the system's keyring or in a file that only its owner can read.

The `keyring` package is used if it is installed and finds a usable keyring. All operations have a time limit, because a
keyring may wait for the user to enter a password in another window.
"""

import asyncio
import logging
import os
import stat
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

from tieline.model.errors import GatewayError
from tieline.net.private_files import write_private

log = logging.getLogger("tieline.credentials")

KEYRING_SERVICE = "tieline"
FILE_LIMIT = 256 * 1024
TIMEOUT = 10.0
"""Time limit for the disk and, by default, for the keyring, in seconds."""

Say = Callable[[str], None]
T = TypeVar("T")


class Keyring(Protocol):
    """The interface of a keyring, as the `keyring` package defines it."""

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
    """Return None instead of a keyring, so that documents are stored in files."""
    return None


class Wording(NamedTuple):
    """Phrases for error messages: the name of the document, and what the user should do if it cannot be used."""

    name: str
    remedy: str
    """A command for the user, as the continuation of "Remove it, then …"."""
    renewal: str
    """Advice if other users could have read the document, as the continuation of "If others use this machine, …"."""


class StoredCopies(NamedTuple):
    """The copies of a document. If the keyring could not be read, `problem` says why; otherwise, it is empty."""

    in_keyring: bytes | None
    in_file: bytes | None
    problem: str = ""


class CredentialStore:
    """Stores one document, in the keyring entry `entry` or in the file `path`.

    `write` creates the file's folder if necessary. `keyring` returns the keyring to use, if any. `timeout` is the
    time limit for the keyring, in seconds.
    """

    def __init__(
        self,
        path: Path,
        entry: str,
        wording: Wording,
        *,
        keyring: Callable[[], Keyring | None] = find_keyring,
        warn: Say = log.warning,
        timeout: float = TIMEOUT,
    ) -> None:
        self.path = path
        self._marker = path.with_suffix(".keyring")
        """An empty file that exists while the document is in the keyring.

        It is checked instead of the keyring, because reading a keyring is slow and may prompt the user.
        """
        self._entry = entry
        self._wording = wording
        self._warn = warn
        self._keyring = TimedKeyring(keyring, timeout)

    @property
    def is_stored(self) -> bool:
        """Whether there is a document. The keyring is not read."""
        return self.path.exists() or self._marker.exists()

    async def read(self) -> StoredCopies:
        """Return the copies of the document.

        There can be two, if the keyring was locked or not installed when one of them was written. Raise GatewayError
        if the file cannot be read.
        """
        problem, text = "", None
        try:
            text = await self._keyring.get(KEYRING_SERVICE, self._entry)
        except KeyringError as error:
            problem = str(error)
        in_file = await self._in_thread(self._read_file)
        return StoredCopies(None if text is None else text.encode(), in_file, problem)

    async def write(self, data: bytes) -> str:
        """Replace the document, and return a description of where it was stored. Raise GatewayError if that fails."""
        try:
            if await self._keyring.put(KEYRING_SERVICE, self._entry, data.decode()):
                await self._in_thread(self._mark_keyring)
                return "the keyring of this system"
        except KeyringError as error:
            self._warn(f"{error}: saving the {self._wording.name} in {self.path} instead")
        await self._in_thread(lambda: self._write_file(data))
        return str(self.path)

    async def clear(self) -> bool:
        """Delete the document from the keyring and from the file. Return whether there was one.

        Raise GatewayError if the file cannot be removed, or if there is no file and the keyring fails.
        """
        was_in_file = await self._in_thread(self._remove_file)
        try:
            was_in_keyring = await self._keyring.remove(KEYRING_SERVICE, self._entry)
        except KeyringError as error:
            problem = f"{error}: the {self._wording.name} may be left there"
            if was_in_file:
                self._warn(problem)
                return True
            raise GatewayError("internal", f"{problem}.") from error
        return was_in_file or was_in_keyring

    async def _in_thread(self, work: Callable[[], T]) -> T:
        try:
            return await in_thread(work, TIMEOUT)
        except TimeoutError as error:
            message = f"The disk with {self.path} did not respond within {TIMEOUT:g} s."
            raise GatewayError("internal", message) from error

    # ── The file ─────────────────────────────────────────────────────────────────────────────────

    def _read_file(self) -> bytes | None:
        try:
            return self._owned()
        except FileNotFoundError:
            return None
        except OSError as error:
            message = f"The file {self.path} with the {self._wording.name} cannot be read: {error.strerror}."
            raise GatewayError("internal", message) from error

    def _owned(self) -> bytes:
        """Return the contents of the file. If other users can read it, first restrict its permissions to its owner.

        The check uses the open file, not its path, because another file could appear at the path after the check.
        """
        descriptor = os.open(self.path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        with os.fdopen(descriptor, "rb") as file:
            state = os.fstat(descriptor)
            if not stat.S_ISREG(state.st_mode):
                raise GatewayError("internal", f"{self.path} is not a file: move it away, then {self._wording.remedy}.")
            if os.name == "posix":
                self._make_private(descriptor, state)
            return file.read(FILE_LIMIT)

    def _make_private(self, descriptor: int, state: os.stat_result) -> None:
        if state.st_uid != os.getuid():
            remedy = self._wording.remedy
            message = f"{self.path} belongs to another user, so it is not used. Remove it, then {remedy}."
            raise GatewayError("unauthorized", message)
        if state.st_mode & 0o077:
            os.fchmod(descriptor, 0o600)
            self._warn(
                f"{self.path} was readable by other users; its permissions were fixed. "
                f"If others use this machine, {self._wording.renewal}"
            )

    def _write_file(self, data: bytes) -> None:
        try:
            write_private(self.path, data)
            _remove(self._marker)
        except OSError as error:
            message = f"The {self._wording.name} cannot be saved in {self.path}: {error.strerror}."
            raise GatewayError("internal", message) from error

    def _mark_keyring(self) -> None:
        """Remove the file, and leave the marker in its place."""
        try:
            write_private(self._marker, b"")
        except OSError as error:
            self._warn(
                f"{self._marker} cannot be written ({error.strerror}): the {self._wording.name} may not be found"
            )
        _remove(self.path)

    def _remove_file(self) -> bool:
        _remove(self._marker)
        return _remove(self.path)


def _remove(path: Path) -> bool:
    """Remove a file, and return whether it existed. Raise GatewayError if that fails."""
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise GatewayError("internal", f"{path} cannot be removed: {error.strerror}.") from error
    return True


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
            # The error's own message is left out, because it may contain the document.
            raise KeyringError(f"the system's keyring failed ({type(error).__name__})") from None


def read_now(read: Callable[[], Coroutine[Any, Any, T]], otherwise: T, seconds: float) -> T:
    """Run a coroutine in another thread and return its result, or `otherwise` if it fails or takes more than `seconds`.

    The caller may be inside an event loop, which is blocked meanwhile.
    """
    found: list[T] = []

    def run() -> None:
        found.append(asyncio.run(read()))

    thread = threading.Thread(target=run, name="tieline-credentials", daemon=True)
    thread.start()
    thread.join(seconds)
    return found[0] if found else otherwise


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

    threading.Thread(target=run, name="tieline-credentials", daemon=True).start()
    async with asyncio.timeout(seconds):
        return await asyncio.wrap_future(future)
