"""The replicas of a cluster, as this replica knows them.

Every replica has a row in the table `replica` and increases the row's counter with every heartbeat. A replica whose
counter has not changed for some time is dead. Each replica measures that time with its own clock, so clocks need not
agree. While the database cannot be reached, the last known replicas count as alive.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

import msgspec

from tieline.app.database.engine import Database, DatabaseFailed
from tieline.net.client.http import Origin
from tieline.tasks import Tasks

log = logging.getLogger("tieline")

CHANNEL = "replica"
"""The channel on which replicas announce that they join, drain or leave."""
FORGET_AFTER = 6
"""The row of a replica is removed if the replica sends no heartbeat for this multiple of `Timing.dead_after`."""

_JOIN = "INSERT INTO replica (tag, url, beat, draining, agents) VALUES (?, ?, 1, ?, ?)"
_BEAT = "UPDATE replica SET beat = beat + 1, draining = ? WHERE tag = ?"
_LEAVE = "DELETE FROM replica WHERE tag = ?"
_LIST = "SELECT tag, url, beat, draining, agents FROM replica"
_FORGET = "DELETE FROM replica WHERE tag = ? AND beat = ?"


class Timing(msgspec.Struct, frozen=True):
    """Seconds between two heartbeats, and seconds without a heartbeat after which a replica is dead."""

    heartbeat: float = 2.0
    dead_after: float = 10.0


class Replica(msgspec.Struct):
    """Another replica."""

    tag: str
    origin: Origin
    """The address of its private listener."""
    beat: int
    changed_at: float
    """When `beat` was seen to change, by this replica's clock."""
    is_draining: bool = False
    has_agents: bool = False
    refused_at: float | None = None
    """When it last refused a connection; None if it has not done so since its last heartbeat."""


class Membership:
    """Announces this replica, and keeps track of the others.

    `on_dead` is called with the tag of a replica that has stopped sending heartbeats, possibly several times.
    """

    def __init__(
        self,
        database: Database,
        tag: str,
        *,
        has_agents: bool,
        timing: Timing,
        clock: Callable[[], float],
        tasks: Tasks,
        on_dead: Callable[[str], None],
    ) -> None:
        self._database = database
        self.tag = tag
        self.url = ""
        """The address of this replica's private listener; empty until it has joined."""
        self._has_agents = has_agents
        self._timing = timing
        self._clock = clock
        self._tasks = tasks
        self._on_dead = on_dead
        self._others: dict[str, Replica] = {}
        self._is_draining = False
        self._is_cut_off = False
        """Whether the last access to the database failed."""
        self._beat_at = 0.0
        """When the next heartbeat is due."""
        self._news = asyncio.Event()
        self._heart: asyncio.Task[None] | None = None
        self._stop_listening: Callable[[], None] | None = None

    @property
    def is_cut_off(self) -> bool:
        """Whether the database cannot be reached."""
        return self._is_cut_off

    @property
    def is_draining(self) -> bool:
        """Whether this replica is about to stop."""
        return self._is_draining

    def find(self, tag: str) -> Replica | None:
        """Return another replica; None if it is not known or not alive."""
        replica = self._others.get(tag)
        return replica if replica is not None and self._is_alive(replica) else None

    def alive(self) -> list[Replica]:
        """Return all other replicas that are alive."""
        return [replica for replica in self._others.values() if self._is_alive(replica)]

    def refused(self, tag: str) -> None:
        """Record that a replica refused a connection.

        It counts as dead until its next heartbeat, but for at most `Timing.dead_after` seconds.
        """
        replica = self._others.get(tag)
        if replica is not None:
            replica.refused_at = self._clock()

    async def join(self, url: str) -> None:
        """Announce this replica under the URL of its private listener, and begin to send heartbeats.

        If the database cannot be reached, the next heartbeat announces it.
        """
        self.url = url
        self._stop_listening = self._database.listen(CHANNEL, lambda _: self._news.set())
        await self._update()
        await self._announce()
        self._heart = self._tasks.start(self._beat_forever(), "heartbeat")

    async def drain(self) -> None:
        """Announce that this replica is about to stop. Others then forward to it only requests about its own runs."""
        self._is_draining = True
        self._beat_at = self._clock()
        await self._update()
        await self._announce()

    async def leave(self) -> None:
        """Stop sending heartbeats, and remove this replica's row."""
        if self._heart is None:
            return
        self._heart.cancel()
        self._heart = None
        if self._stop_listening is not None:
            self._stop_listening()
        with suppress(DatabaseFailed):
            await self._database.execute(_LEAVE, (self.tag,))
        await self._announce()

    async def _announce(self) -> None:
        with suppress(DatabaseFailed):
            await self._database.notify(CHANNEL, self.tag)

    async def _beat_forever(self) -> None:
        while True:
            self._news.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, self._beat_at - self._clock())):
                    await self._news.wait()
            await self._update()

    async def _update(self) -> None:
        """Send a heartbeat if one is due, and read the rows of all replicas."""
        try:
            if self._clock() >= self._beat_at:
                self._beat_at = self._clock() + self._timing.heartbeat
                await self._beat()
            await self._refresh()
        except DatabaseFailed as error:
            if not self._is_cut_off:
                log.info("the database cannot be used (%s); still forwarding requests to known replicas", error)
            self._is_cut_off = True

    async def _beat(self) -> None:
        if not await self._database.execute(_BEAT, (int(self._is_draining), self.tag)):
            # This is the first heartbeat, or another replica considered this one dead and removed its row.
            await self._database.execute(_JOIN, (self.tag, self.url, int(self._is_draining), int(self._has_agents)))

    async def _refresh(self) -> None:
        """Read the rows of all replicas."""
        rows = await self._database.fetch(_LIST)
        now = self._clock()
        if self._is_cut_off:
            self._is_cut_off = False
            for replica in self._others.values():
                replica.changed_at = now  # no replica could send a heartbeat
        known, self._others = self._others, {}
        for tag, url, beat, draining, agents in rows:
            if tag != self.tag and (origin := _origin(tag, url)) is not None:
                self._others[tag] = _updated(
                    known.get(tag), Replica(tag, origin, beat, now, bool(draining), bool(agents))
                )
        await self._bury_dead(now)

    async def _bury_dead(self, now: float) -> None:
        for replica in list(self._others.values()):
            silent = now - replica.changed_at
            if silent > FORGET_AFTER * self._timing.dead_after:
                await self._database.execute(_FORGET, (replica.tag, replica.beat))
                del self._others[replica.tag]
            elif silent > self._timing.dead_after:
                self._on_dead(replica.tag)

    def _is_alive(self, replica: Replica) -> bool:
        now, timing = self._clock(), self._timing
        if replica.refused_at is not None and now - replica.refused_at <= timing.dead_after:
            return False
        return self._is_cut_off or now - replica.changed_at <= timing.dead_after + timing.heartbeat


def _updated(known: Replica | None, found: Replica) -> Replica:
    if known is None or known.beat != found.beat:
        return found
    found.changed_at, found.refused_at = known.changed_at, known.refused_at
    return found


def _origin(tag: str, url: str) -> Origin | None:
    try:
        return Origin.parse(url)[0]
    except ValueError:
        log.warning("ignoring replica %s: its address is not a valid URL", tag)
        return None
