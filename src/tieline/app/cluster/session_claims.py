"""Claims on page sessions, in a table that all replicas share.

The claim of a dead replica is taken over by the next replica that needs the session. If a claim cannot be released,
because the database is not available or has not stored the changes to the session yet, the release is retried.
Meanwhile, other replicas forward requests about the session to its holder.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from tieline.app.database.engine import Database, DatabaseFailed
from tieline.core.sessions.stored_session import SHELF
from tieline.model.errors import GatewayError
from tieline.tasks import Tasks

log = logging.getLogger("tieline")

ATTEMPTS = 5
"""Maximum number of attempts to claim a session whose claim changes at the same time."""

_CLAIM = "INSERT INTO session_claim (session, replica) VALUES (?, ?) ON CONFLICT (session) DO NOTHING"
_LIST = "SELECT session, replica FROM session_claim"
_HOLDER = "SELECT replica FROM session_claim WHERE session = ?"
_TAKE_OVER = "UPDATE session_claim SET replica = ? WHERE session = ? AND replica = ?"
_RELEASE = "DELETE FROM session_claim WHERE session = ? AND replica = ?"


class DatabaseClaims:
    """The claims of the replica `replica` and of the others.

    `is_alive` returns whether another replica is alive. Every `interval` seconds, the claims of dead replicas are
    looked up, and failed releases are retried.
    """

    def __init__(
        self, database: Database, replica: str, tasks: Tasks, *, is_alive: Callable[[str], bool], interval: float
    ) -> None:
        self.replica = replica
        self._database = database
        self._tasks = tasks
        self._is_alive = is_alive
        self._interval = interval
        self._unreleased: set[str] = set()
        """The sessions whose claims are not needed any more, but could not be released."""
        self._releasing = asyncio.Lock()
        self._is_stored: Callable[[str], bool] = lambda _: True

    @property
    def is_available(self) -> bool:
        return self._database.is_available

    def is_alive(self, replica: str) -> bool:
        return self._is_alive(replica)

    async def claim(self, session_id: str) -> str | None:
        if session_id in self._unreleased:
            async with self._releasing:  # a release that has begun must not delete the new claim
                self._unreleased.discard(session_id)
        try:
            for _ in range(ATTEMPTS):
                if await self._database.execute(_CLAIM, (session_id, self.replica)):
                    return None
                holder = await self._holder(session_id)
                if holder is not None and holder != self.replica and self._is_alive(holder):
                    return holder
                if holder == self.replica or await self._take_over(session_id, holder):
                    return None
        except DatabaseFailed as error:
            message = "The database cannot be reached, so the session cannot be changed; try again in a moment."
            raise GatewayError("overloaded", message, retry_after=1.0) from error
        raise GatewayError("overloaded", "Several replicas are changing this session; try again in a moment.")

    async def _take_over(self, session_id: str, holder: str | None) -> bool:
        """Take the claim of a dead replica. Return False if the claim has changed meanwhile."""
        if holder is None or not await self._database.execute(_TAKE_OVER, (self.replica, session_id, holder)):
            return False
        log.info("took over a session from the replica %s, which is gone", holder)
        return True

    async def release(self, session_id: str) -> None:
        if not await self._is_released(session_id):
            self._unreleased.add(session_id)

    async def _release_again(self) -> None:
        """Try again to release the claims that could not be released before."""
        async with self._releasing:
            for session_id in list(self._unreleased):
                if await self._is_released(session_id):
                    self._unreleased.discard(session_id)

    async def _is_released(self, session_id: str) -> bool:
        """Try to release a claim, and return whether it was released."""
        if not self._is_stored(session_id):  # without the claim, another replica would read and change an old version
            return False
        try:
            await self._database.execute(_RELEASE, (session_id, self.replica))
        except DatabaseFailed:
            return False
        return True

    async def is_claimed(self, session_id: str) -> bool:
        try:
            return await self._holder(session_id) == self.replica
        except DatabaseFailed:
            return True

    def listen(
        self,
        changed: Callable[[str], None],
        orphaned: Callable[[str], Awaitable[None]],
        is_stored: Callable[[str], bool],
    ) -> None:
        self._is_stored = is_stored
        self._database.listen(SHELF, changed)  # the store announces each document
        self._tasks.start(self._watch_claims(orphaned), "claims of sessions")

    async def _watch_claims(self, orphaned: Callable[[str], Awaitable[None]]) -> None:
        before: set[tuple[str, str]] = set()
        while True:
            await asyncio.sleep(self._interval)
            await self._release_again()
            try:
                rows = await self._database.fetch(_LIST)
            except DatabaseFailed:
                continue
            dead = {(session, holder) for session, holder in rows if not self._is_known(holder)}
            # A replica that has just started may not be known yet, so it counts as dead only at the second check.
            for session_id, _ in before & dead:
                await orphaned(session_id)
            before = dead

    def _is_known(self, replica: str) -> bool:
        return replica == self.replica or self._is_alive(replica)

    async def _holder(self, session_id: str) -> str | None:
        rows = await self._database.fetch(_HOLDER, (session_id,))
        return str(rows[0][0]) if rows else None
