"""Stores the upstreams that the user added on the web page. The configuration file is never changed.

Their settings are kept in a file in the state folder, and their keys, like logins, in the keyring or in a private file.
Neither is read unless upstreams have been added.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from tieline.app.config import UpstreamSettings
from tieline.app.folders import state_folder, user_folder
from tieline.backends.credentials import CredentialStore, Keyring, Wording, find_keyring, read_now
from tieline.model.content import Value
from tieline.model.errors import GatewayError
from tieline.net.private_files import read_private, write_private

log = logging.getLogger("tieline")

FILE_NAME = "added-upstreams.json"
KEY_FILE = "upstream-keys.json"
KEYRING_ENTRY = "upstreams"
VERSION = 1
FILE_LIMIT = 1 << 20
MAX_UPSTREAMS = 100
LOAD_TIMEOUT = 25.0
"""Time limit for loading everything, in seconds. The keyring and the disk have shorter limits of their own."""
WORDING = Wording("keys of upstreams", "enter the keys again on the Connect page", "replace these keys")


class AddedUpstream(Value):
    """The settings of an upstream that the user added on the page. Its key is stored elsewhere."""

    kind: Literal["anthropic", "openai"]
    base_url: str
    api: Literal["chat", "responses", "auto"] | None = None
    dialect: Mapping[str, Any] = {}
    models: tuple[str, ...] = ()
    has_key: bool = False

    def settings(self) -> UpstreamSettings:
        """Return the settings in the form of a configured upstream."""
        return UpstreamSettings(
            kind=self.kind, base_url=self.base_url, api=self.api, dialect=self.dialect, models=self.models
        )


class LoadedUpstreams(Value):
    """The stored upstreams and keys, by name. If some could not be read, `problem` says why."""

    upstreams: Mapping[str, AddedUpstream] = {}
    keys: Mapping[str, str] = {}
    problem: str = ""


class _UpstreamFile(Value):
    version: int
    upstreams: dict[str, AddedUpstream]


class _KeyDocument(Value):
    version: int
    saved: float
    keys: dict[str, str]


def upstream_file(env: Mapping[str, str]) -> Path:
    """Return the path of the file with the added upstreams."""
    return (state_folder(env) or user_folder(env)) / FILE_NAME


class UpstreamStore:
    """Stores the added upstreams. `clock` returns Unix time."""

    def __init__(
        self,
        env: Mapping[str, str],
        *,
        keyring: Callable[[], Keyring | None] = find_keyring,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.path = upstream_file(env)
        self._keys = CredentialStore(user_folder(env) / KEY_FILE, KEYRING_ENTRY, WORDING, keyring=keyring)
        self._clock = clock
        self._lock = asyncio.Lock()

    async def load(self) -> LoadedUpstreams:
        """Return the stored upstreams with their keys. This never raises an exception."""
        try:
            upstreams = await asyncio.to_thread(self._read)
        except (OSError, ValueError) as error:
            problem = f"The upstreams that were added on the page cannot be read: {self.path}: {error}"
            return LoadedUpstreams(problem=problem)
        if not any(upstream.has_key for upstream in upstreams.values()):
            return LoadedUpstreams(upstreams=upstreams)
        try:
            return LoadedUpstreams(upstreams=upstreams, keys=await self._read_keys())
        except GatewayError as error:
            return LoadedUpstreams(upstreams=upstreams, problem=error.message)

    async def save(self, name: str, upstream: AddedUpstream, key: str | None) -> None:
        """Add or replace an upstream and its key. Raise GatewayError if that fails.

        The key is saved first, so that an upstream without its key is never stored.
        """
        async with self._lock:
            stored = await self._stored()
            if len(stored) >= MAX_UPSTREAMS and name not in stored:
                raise GatewayError("bad_request", f"At most {MAX_UPSTREAMS} upstreams can be added: remove one first.")
            await self._change_keys({name: key})
            await self._write({**stored, name: upstream})

    async def remove(self, name: str) -> None:
        """Remove an upstream and its key. Raise GatewayError if that fails."""
        async with self._lock:
            stored = await self._stored()
            await self._write({other: upstream for other, upstream in stored.items() if other != name})
            await self._change_keys({name: None})

    async def _stored(self) -> dict[str, AddedUpstream]:
        """Return the upstreams in the file. Another gateway of the same user may have changed them."""
        try:
            return await asyncio.to_thread(self._read)
        except (OSError, ValueError) as error:
            raise GatewayError("internal", f"{self.path} cannot be read: {error}. Remove or repair it.") from error

    def _read(self) -> dict[str, AddedUpstream]:
        try:
            data = read_private(self.path, FILE_LIMIT)
        except FileNotFoundError:
            return {}
        try:
            return msgspec.json.decode(data, type=_UpstreamFile).upstreams
        except RecursionError:
            raise ValueError("it is not valid JSON") from None

    async def _write(self, upstreams: dict[str, AddedUpstream]) -> None:
        data = msgspec.json.format(msgspec.json.encode(_UpstreamFile(version=VERSION, upstreams=upstreams)))
        try:
            await asyncio.to_thread(write_private, self.path, data)
        except OSError as error:
            raise GatewayError("internal", f"{self.path} cannot be written: {error.strerror}.") from error

    async def _change_keys(self, changes: Mapping[str, str | None]) -> None:
        try:
            before = await self._read_keys()
        except GatewayError:
            if not any(changes.values()):
                raise
            names = ", ".join(name for name, key in changes.items() if key is not None)
            message = "the stored upstream keys cannot be read; only the key of %s is kept. Enter the others again"
            log.warning(message, names)
            before = {}
        after = {name: key for name, key in {**before, **changes}.items() if key is not None}
        if after == before:
            return
        if not after:
            await self._keys.clear()
            return
        document = _KeyDocument(version=VERSION, saved=self._clock(), keys=after)
        await self._keys.write(msgspec.json.encode(document))

    async def _read_keys(self) -> dict[str, str]:
        """Return the stored keys. If there are two copies, the newer one counts."""
        copies = await self._keys.read()
        found = [_decode(copy, self._keys.path) for copy in (copies.in_keyring, copies.in_file) if copy is not None]
        if copies.problem and not found:
            raise GatewayError("internal", f"The keys of added upstreams cannot be read: {copies.problem}.")
        return max(found, key=lambda document: document.saved).keys if found else {}


def load_now(env: Mapping[str, str], keyring: Callable[[], Keyring | None] = find_keyring) -> LoadedUpstreams:
    """Return the stored upstreams with their keys. This blocks, so call it only while the gateway starts."""
    if not upstream_file(env).exists():
        return LoadedUpstreams()
    late = LoadedUpstreams(problem="The upstreams that were added on the page could not be read in time.")
    return read_now(UpstreamStore(env, keyring=keyring).load, late, LOAD_TIMEOUT)


def _decode(data: bytes, path: Path) -> _KeyDocument:
    try:
        return msgspec.json.decode(data, type=_KeyDocument)
    except (ValueError, RecursionError):
        # The error's own message is left out, because it may contain a key.
        message = f"The stored keys of upstreams (in {path} or the keyring) are damaged. Enter them again."
        raise GatewayError("internal", message) from None
