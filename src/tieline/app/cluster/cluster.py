"""This replica's part in a cluster: it joins when the gateway starts, and drains before the gateway stops."""

import asyncio
import logging
from collections.abc import Callable

from tieline.app.cluster.membership import Membership
from tieline.app.cluster.peers import ClusterPeers
from tieline.frontends.replicas import PrivateApp

log = logging.getLogger("tieline")

CHECK_INTERVAL = 0.1
"""Seconds between two looks at whether a draining replica has become idle."""


class Cluster:
    """Joins and leaves the cluster. `is_idle` returns whether this replica has neither running nor parked runs."""

    def __init__(
        self,
        private: PrivateApp,
        membership: Membership,
        peers: ClusterPeers,
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
        host, _, port = listen.rpartition(":")
        self.host, self.port = host.strip("[]"), int(port)
        """The address of the private listener."""
        self._url = url
        self._drain_seconds = drain_seconds
        self._is_idle = is_idle

    async def join(self, port: int) -> None:
        """Announce this replica, whose private listener has this port."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        await self.membership.join(self._url or f"http://{host}:{port}")

    async def drain(self) -> None:
        """Announce that this replica is about to stop, and return when its runs have ended, or at the deadline."""
        log.warning("draining: runs have %g seconds to end; a second signal stops at once", self._drain_seconds)
        await self.membership.drain()
        deadline = asyncio.get_running_loop().time() + self._drain_seconds
        # Legs end in many places; looking at their number now and then is simpler than an event.
        while not self._is_idle() and asyncio.get_running_loop().time() < deadline:  # noqa: ASYNC110 - see above
            await asyncio.sleep(CHECK_INTERVAL)

    async def aclose(self) -> None:
        """Leave the cluster and close all connections to other replicas."""
        await self.membership.leave()
        await self._peers.aclose()
