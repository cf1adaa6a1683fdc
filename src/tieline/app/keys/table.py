"""The table of stored keys. The command line and the gateway use it, in different processes."""

import secrets
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from tieline.app.config import KeyRules
from tieline.app.database.engine import Database
from tieline.app.keys.rules import end_of, name_mistake
from tieline.frontends.keys import digest_of
from tieline.model.errors import BadRequest, GatewayError

PREFIX = "sk-tieline-"
"""Makes keys recognisable, for people and for programs that search for leaked keys."""
KEY_BYTES = 32
MAX_KEYS = 10_000
CHANNEL = "tieline_keys"
"""The channel on which other processes are notified of changes."""

_COLUMNS = "id, name, digest, previous_digest, previous_until, rules, created, revoked, last_used"
_ALL = f"SELECT {_COLUMNS} FROM api_key ORDER BY created, name"  # noqa: S608 - only constants
_ONE = f"SELECT {_COLUMNS} FROM api_key WHERE name = ?"  # noqa: S608 - only constants
_MARK = "SELECT count(*), coalesce(sum(version), 0) FROM api_key"
_INSERT = """
INSERT INTO api_key (id, name, digest, rules, created, version) VALUES (?, ?, ?, ?, ?, 1)
ON CONFLICT (name) DO NOTHING
"""
_REVOKE = """
UPDATE api_key SET revoked = ?, previous_digest = NULL, previous_until = NULL, version = version + 1
WHERE name = ? AND revoked IS NULL
"""
_ROTATE = """
UPDATE api_key SET digest = ?, previous_digest = ?, previous_until = ?, version = version + 1
WHERE name = ? AND digest = ? AND revoked IS NULL
"""
_TOUCH = "UPDATE api_key SET last_used = ? WHERE name = ?"


class KeyRecord(NamedTuple):
    """A stored key. The key itself is not stored, only its digest."""

    id: str
    name: str
    digest: str
    previous_digest: str | None
    """The digest of the key before the last rotation, which is valid until `previous_until`."""
    previous_until: float | None
    rules: KeyRules
    created: float
    revoked: float | None
    last_used: float | None
    """When the key was last used, to the hour."""


class NewKey(NamedTuple):
    """A key that was just created or rotated, with its value, which is not stored."""

    record: KeyRecord
    value: str


class KeyTable:
    """Creates, lists and changes stored keys. `now` returns the Unix time. Every method may raise DatabaseFailed."""

    def __init__(self, database: Database, now: Callable[[], float]) -> None:
        self._database = database
        self._now = now

    async def all(self) -> list[KeyRecord]:
        """Return all keys, including revoked ones, oldest first."""
        return [_record(row) for row in await self._database.fetch(_ALL)]

    async def mark(self) -> tuple[int, int]:
        """Return numbers that differ after any change to the keys, except by `touch`."""
        ((count, versions),) = await self._database.fetch(_MARK)
        return int(count), int(versions)

    async def create(self, name: str, rules: KeyRules) -> NewKey:
        """Create a key. Raise GatewayError if its name is not valid or was used before, or its last day is over.

        The name of a revoked key cannot be used again, because the new key would have access to the old key's data.
        """
        mistake = name_mistake(name)
        if mistake is not None:
            raise BadRequest(f"`name`: {mistake}", "name")
        if rules.expires is not None and self._now() >= end_of(rules.expires):
            raise BadRequest(f"`expires`: {rules.expires} is over, so the key would not be valid", "rules.expires")
        if (await self.mark())[0] >= MAX_KEYS:
            raise GatewayError("forbidden", f"There are already {MAX_KEYS} keys, the maximum.")
        value = _new_value()
        text = msgspec.json.encode(rules).decode()
        row = (secrets.token_hex(10), name, digest_of(value), text, self._now())
        if not await self._database.execute(_INSERT, row):
            message = f"A key named `{name}` exists or was revoked. Choose another name, or rotate the existing key."
            raise GatewayError("bad_request", message, status=409, param="name", code="key_exists")
        return await self._changed(name, value)

    async def revoke(self, name: str) -> KeyRecord:
        """Revoke a key. Raise GatewayError if there is no such key or it was revoked before."""
        if not await self._database.execute(_REVOKE, (self._now(), name)):
            raise _missing(name, await self._find(name))
        return (await self._changed(name, "")).record

    async def rotate(self, name: str, grace: float = 0.0) -> NewKey:
        """Replace a key with a new one that has the same name and rules. The old key stays valid for `grace` seconds.

        Raise GatewayError if there is no such key or it was revoked.
        """
        record = await self._find(name)
        if record is None or record.revoked is not None:
            raise _missing(name, record)
        value = _new_value()
        previous = (record.digest, self._now() + grace) if grace > 0 else (None, None)
        if not await self._database.execute(_ROTATE, (digest_of(value), *previous, name, record.digest)):
            raise GatewayError("bad_request", f"The key `{name}` was changed at the same time.", status=409)
        return await self._changed(name, value)

    async def touch(self, used: dict[str, float]) -> None:
        """Record when keys, given by their names, were last used."""
        await self._database.execute_many(_TOUCH, [(at, name) for name, at in sorted(used.items())])

    async def _find(self, name: str) -> KeyRecord | None:
        rows = await self._database.fetch(_ONE, (name,))
        return _record(rows[0]) if rows else None

    async def _changed(self, name: str, value: str) -> NewKey:
        await self._database.notify(CHANNEL)
        record = await self._find(name)
        if record is None:
            raise _missing(name, None)
        return NewKey(record, value)


def _new_value() -> str:
    return PREFIX + secrets.token_urlsafe(KEY_BYTES)


def _missing(name: str, record: KeyRecord | None) -> GatewayError:
    shown = name[:100]
    if record is None:
        return GatewayError("not_found", f"There is no stored key `{shown}`; `tieline keys list` shows them.")
    return GatewayError("bad_request", f"The key `{shown}` has been revoked.", status=409, code="key_revoked")


def _record(row: tuple[object, ...]) -> KeyRecord:
    fields = list(row)
    fields[5] = msgspec.json.decode(str(row[5]), type=KeyRules)
    return KeyRecord(*fields)  # type: ignore[arg-type] # the columns have these types
