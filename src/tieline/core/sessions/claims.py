"""Claims on sessions: of all replicas that use the same store, only the one with the claim changes a session.

A replica claims a session while it changes it or generates a message in it. During that time, its copy of the session
may be newer than the stored one. The claim of a dead replica does not count.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Protocol

from tieline.model.errors import GatewayError
from tieline.tasks import Tasks


class SessionElsewhere(GatewayError):
    """Another replica has claimed the session, and has to serve the request."""

    def __init__(self, replica: str) -> None:
        message = "Another replica is using this session, but it does not answer; try again in a moment."
        super().__init__("bad_request", message, status=409, code="running")
        self.replica = replica


class SessionClaims(Protocol):
    """The claims of all replicas, and notifications of changes to stored sessions."""

    @property
    def replica(self) -> str:
        """The name of this replica."""

    @property
    def is_available(self) -> bool:
        """Whether the store can be reached."""

    def is_alive(self, replica: str) -> bool:
        """Return whether another replica is alive."""

    async def claim(self, session_id: str) -> str | None:
        """Claim a session for this replica. Return None, or the name of the other replica that has claimed it.

        Raise GatewayError if the store cannot be reached.
        """

    async def release(self, session_id: str) -> None:
        """Give up a claim of this replica. The claim remains until the store is reachable and contains all changes."""

    async def is_claimed(self, session_id: str) -> bool:
        """Return whether this replica has the claim. If the store cannot be reached, return True."""

    def listen(
        self,
        changed: Callable[[str], None],
        orphaned: Callable[[str], Awaitable[None]],
        is_stored: Callable[[str], bool],
    ) -> None:
        """Await `orphaned` with the id of each session whose claim belongs to a dead replica.

        Call `changed` with the id of each session that a replica has stored. The id is empty if changes may have been
        missed. `is_stored` returns whether the store contains all changes that this replica has made to a session.
        """


class _Held:
    """The number of holds of a session (`count`), and of tasks that use this object (`users`)."""

    __slots__ = ("count", "lock", "users")

    def __init__(self) -> None:
        self.count = 0
        self.users = 0
        self.lock = asyncio.Lock()


class HeldClaims:
    """The claims of this replica. The first hold of a session claims it, and the end of the last one releases it."""

    def __init__(self, claims: SessionClaims, tasks: Tasks) -> None:
        self._claims = claims
        self._tasks = tasks
        self._held: dict[str, _Held] = {}

    def __contains__(self, session_id: str) -> bool:
        held = self._held.get(session_id)
        return held is not None and held.count > 0

    async def hold(self, session_id: str, refresh: Callable[[], Awaitable[None]]) -> None:
        """Hold a session until `let_go`. Await `refresh` after it has been claimed.

        Raise SessionElsewhere if another replica has claimed it, and GatewayError if the store cannot be reached.
        """
        other: str | None = None
        try:
            async with self._locked(session_id) as held:
                if not held.count:
                    other = await self._claims.claim(session_id)
                    if other is None:
                        await refresh()
                if other is None:
                    held.count += 1
        except BaseException:  # a claim that failed or was cancelled may still have been stored
            await asyncio.shield(self._tasks.start(self._release_unheld(session_id), "claim of a session"))
            raise
        if other is not None:
            raise SessionElsewhere(other)

    def hold_longer(self, session_id: str) -> None:
        """Add another hold to a session that is already held. It needs a `let_go` of its own."""
        self._held[session_id].count += 1

    async def let_go(self, session_id: str) -> None:
        """Undo one `hold` or `hold_longer`. This completes even if the caller is cancelled."""
        await asyncio.shield(self._tasks.start(self._let_go(session_id), "claim of a session"))

    async def _let_go(self, session_id: str) -> None:
        async with self._locked(session_id) as held:
            held.count -= 1
            if not held.count:
                await self._claims.release(session_id)

    async def _release_unheld(self, session_id: str) -> None:
        async with self._locked(session_id) as held:
            if not held.count:
                await self._claims.release(session_id)

    @asynccontextmanager
    async def _locked(self, session_id: str) -> AsyncGenerator[_Held, None]:
        held = self._held.setdefault(session_id, _Held())
        held.users += 1
        try:
            async with held.lock:
                yield held
        finally:
            held.users -= 1
            if not held.users and not held.count:
                self._held.pop(session_id, None)
