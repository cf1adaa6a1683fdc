"""This replica's part in a cluster: it joins when the gateway starts, and drains before the gateway stops."""

import asyncio
import logging
from collections.abc import Callable

from tieline.app.cluster.membership import Membership
from tieline.app.cluster.peers import ClusterPeers
from tieline.app.cluster.sharing import Sharing
from tieline.frontends.replicas import PrivateApp

log = logging.getLogger("tieline")

CHECK_INTERVAL = 0.1
"""Seconds between two checks of whether a draining replica has become idle."""


class Cluster:
    """Joins and leaves the cluster. `is_idle` returns whether this replica has no runs and forwards no requests."""

    def __init__(
        self,
        private: PrivateApp,
        membership: Membership,
        peers: ClusterPeers,
        sharing: Sharing,
        *,
        listen: str,
        url: str | None,
        drain_seconds: float,
        is_idle: Callable[[], bool],
    ) -> None:
        self.private = private
        """The application for the private listener."""
        self.membership = membership
        self._peers = peers
        self._sharing = sharing
        host, _, port = listen.rpartition(":")
        self.host, self.port = host.strip("[]"), int(port)
        """The address of the private listener."""
        self._url = url
        self._drain_seconds = drain_seconds
        self._is_idle = is_idle

    async def join(self, port: int) -> None:
        """Join the cluster. `port` is the port of the private listener."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        await self.membership.join(self._url or f"http://{host}:{port}")
        self._sharing.start()

    async def drain(self) -> None:
        """Announce that this replica is about to stop, and return when it is idle, or at the deadline."""
        log.warning(
            "draining: waiting up to %g seconds for runs to end; a second signal stops the gateway at once",
            self._drain_seconds,
        )
        await self.membership.drain()
        deadline = asyncio.get_running_loop().time() + self._drain_seconds
        # Legs end in many places, so polling their number is simpler than an event.
        while not self._is_idle() and asyncio.get_running_loop().time() < deadline:  # noqa: ASYNC110 - see above
            await asyncio.sleep(CHECK_INTERVAL)

    async def aclose(self) -> None:
        """Leave the cluster and close all connections to other replicas."""
        await self._sharing.aclose()
        await self.membership.leave()
        await self._peers.aclose()
