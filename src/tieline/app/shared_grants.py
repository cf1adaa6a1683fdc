"""Grants in a shared database: permissions that a user granted with the answer "always" are valid in all replicas.

Each grant is a document, so that replicas that change grants at the same time do not undo each other's changes.
"""

import asyncio
import errno
import logging
import threading

import msgspec

from tieline.app.database.engine import Database, DatabaseFailed
from tieline.model.rules import Rule
from tieline.tasks import Tasks
from tieline.tools.policy import Grants, check_rules, warn_of_retired

log = logging.getLogger("tieline")

CHANNEL = "grants"
SAVE_LIMIT = 10.0
"""Maximum number of seconds to wait until a change is saved."""

_READ = "SELECT data FROM document WHERE shelf = ? ORDER BY number"
_ADD = "INSERT INTO document (shelf, key, data) VALUES (?, ?, ?) ON CONFLICT (shelf, key) DO NOTHING"
_REMOVE = "DELETE FROM document WHERE shelf = ? AND key = ?"


class SharedGrants(Grants):
    """The grants for one workspace. Call `start` in the event loop; before that, nothing is granted.

    A change made by another replica takes effect as soon as its message arrives. While the database is not available,
    the last known grants are valid. `add` and `remove` wait for the database: call them in a thread.
    """

    def __init__(self, database: Database, workspace: str) -> None:
        super().__init__()
        self._database = database
        self._shelf = f"grants/{workspace}"
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks = Tasks()
        self._refreshing: asyncio.Task[None] | None = None
        self._is_stale = False
        self._lock = threading.Lock()
        self._unsaved: dict[str, Rule | None] = {}
        """Changes that the database has not confirmed, by the id of the rule: the rule, or None if it is revoked."""

    def start(self) -> None:
        """Read the grants, and read them again after every change."""
        self._loop = asyncio.get_running_loop()
        self._database.listen(CHANNEL, self._on_message)

    def rules(self) -> tuple[Rule, ...]:
        with self._lock:
            known = {rule.id: rule for rule in self._rules} | self._unsaved
        return tuple(rule for rule in known.values() if rule is not None)

    def add(self, rule: Rule) -> None:
        self._change(rule.id, rule)

    def remove(self, rule_id: str) -> bool:
        if all(rule.id != rule_id for rule in self.rules()):
            return False
        self._change(rule_id, None)
        return True

    async def aclose(self) -> None:
        """Stop reading."""
        await self._tasks.aclose()

    async def refresh(self) -> None:
        """Save the changes that could not be saved before, and read the grants.

        If the database is not available, keep the known grants.
        """
        self._is_stale = True
        while self._is_stale:
            self._is_stale = False
            try:
                for rule_id, rule in list(self._unsaved.items()):
                    await self._save(rule_id, rule)
                rows = await self._database.fetch(_READ, (self._shelf,))
            except DatabaseFailed:
                return  # grants are read again when the database is connected again
            found = tuple(rule for (data,) in rows if (rule := _parsed(data)) is not None)
            with self._lock:
                before, self._rules = self._rules, found
            warn_of_retired(rule for rule in found if rule not in before)

    def _on_message(self, payload: str) -> None:
        if payload in ("", self._shelf):
            self._is_stale = True
            if self._refreshing is None or self._refreshing.done():
                self._refreshing = self._tasks.start(self.refresh(), "grants")

    def _change(self, rule_id: str, rule: Rule | None) -> None:
        """Apply a change in this replica, and save it. Raise OSError if the database does not confirm it."""
        with self._lock:
            self._unsaved[rule_id] = rule
        if self._loop is None:
            raise OSError(errno.EAGAIN, "the database is not connected yet")
        try:
            asyncio.run_coroutine_threadsafe(self._save(rule_id, rule), self._loop).result(SAVE_LIMIT)
        except (DatabaseFailed, TimeoutError) as error:
            raise OSError(errno.EAGAIN, f"the database has not saved it: {error}") from error

    async def _save(self, rule_id: str, rule: Rule | None) -> None:
        if rule is None:
            await self._database.execute(_REMOVE, (self._shelf, rule_id))
        else:
            await self._database.execute(_ADD, (self._shelf, rule_id, msgspec.json.encode(rule)))
        with self._lock:
            if rule_id in self._unsaved and self._unsaved[rule_id] is rule:
                del self._unsaved[rule_id]
            others = tuple(one for one in self._rules if one.id != rule_id)
            self._rules = others if rule is None else (*others, rule)
        await self._database.notify(CHANNEL, self._shelf)


def _parsed(data: bytes) -> Rule | None:
    try:
        (rule,) = check_rules([msgspec.json.decode(data, type=Rule)])
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        log.warning("ignoring a saved permission that cannot be used: %s", error)
        return None
    return rule
