"""Sends requests to other replicas over private HTTP connections."""

import asyncio
import hmac
from collections.abc import Callable, Sequence

from tieline.app.cluster.membership import Membership, Replica
from tieline.app.ids import tag_of
from tieline.frontends.replicas import SECRET_HEADER, PeerFailed, PeerRequest
from tieline.net.client.http import HttpClient, HttpResponse, PipeError, Timeouts

CONNECTIONS = 8192
"""Maximum number of connections to one replica. Each forwarded stream occupies one."""
PATIENCE = 3600.0
"""Seconds to wait for a response, or for more of it. If the replica dies meanwhile, `abandon` ends the wait."""
TIMEOUTS = Timeouts(connect=2.0, first_byte=PATIENCE, idle=PATIENCE, pool=5.0)


class ClusterSecret:
    """The secret that all replicas share. `repr` does not reveal it, so it does not end up in a log."""

    def __init__(self, value: str) -> None:
        self._value = value.encode()

    def __repr__(self) -> str:
        return "ClusterSecret(…)"

    def matches(self, given: bytes) -> bool:
        """Return whether `given` is the secret. The comparison takes constant time."""
        return hmac.compare_digest(given, self._value)

    def derive(self, purpose: str) -> str:
        """Return a secret for one purpose. It is the same on all replicas, and does not reveal the shared secret."""
        return hmac.new(self._value, purpose.encode(), "sha256").hexdigest()

    @property
    def header(self) -> tuple[str, str]:
        """The request header that contains the secret."""
        return SECRET_HEADER.decode(), self._value.decode()


class ClusterPeers:
    """Finds the replica that owns an id, and sends requests to other replicas.

    `backend_of` returns the name of the backend that serves a model. If this replica does not have the workspace of
    the coding agents, `agents` is the name of their backend; otherwise, it is None.
    """

    def __init__(
        self, secret: ClusterSecret, backend_of: Callable[[str], str], *, agents: str | None, client: HttpClient
    ) -> None:
        self._secret = secret
        self._backend_of = backend_of
        self._agents = agents
        self._client = client
        self._membership: Membership | None = None
        self._waiting: dict[str, set[asyncio.Timeout]] = {}
        """The requests to each replica whose response has not begun."""
        self._reading: dict[str, set[HttpResponse]] = {}
        """The responses of each replica that are being read."""

    def watch(self, membership: Membership) -> None:
        """Take the other replicas from `membership`. Before this call, there are none."""
        self._membership = membership

    @property
    def is_draining(self) -> bool:
        return self._membership is not None and self._membership.is_draining

    def owner(self, identity: str) -> str | None:
        tag = tag_of(identity)
        return tag if self._find(tag) is not None else None

    def with_agents(self, model: str) -> str | None:
        if self._agents is None or self._membership is None or self._backend_of(model) != self._agents:
            return None
        found = [replica for replica in self._membership.alive() if replica.has_agents]
        # Always choose the same one, because it knows the agents' sessions, but avoid one that is about to stop.
        best = min(found, key=lambda replica: (replica.is_draining, replica.tag), default=None)
        return None if best is None else best.tag

    async def send(self, tag: str, request: PeerRequest) -> "PeerAnswer":
        replica = self._find(tag)
        if replica is None:
            raise PeerFailed("it is gone")
        headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in request.headers]
        waiting, limit = self._waiting.setdefault(tag, set()), asyncio.timeout(None)
        try:
            async with limit:
                waiting.add(limit)
                response = await self._client.send(
                    replica.origin,
                    request.method,
                    request.target,
                    [*headers, self._secret.header],
                    request.body,
                    TIMEOUTS,
                )
        except PipeError as error:
            if error.phase == "connect" and self._membership is not None:
                self._membership.refused(tag)
            raise PeerFailed(error.message) from None
        except TimeoutError:
            raise PeerFailed("it has stopped sending heartbeats") from None
        except ValueError as error:
            raise PeerFailed(f"the request cannot be forwarded: {error}") from None
        finally:
            waiting.discard(limit)
        return PeerAnswer(response, self._reading.setdefault(tag, set()))

    def abandon(self, tag: str) -> None:
        """Give up all requests to a replica, because it is dead."""
        now = asyncio.get_running_loop().time()
        for limit in self._waiting.pop(tag, ()):
            limit.reschedule(now)
        for response in self._reading.pop(tag, ()):
            response.close()

    async def aclose(self) -> None:
        """Close all connections."""
        await self._client.aclose()

    def _find(self, tag: str) -> Replica | None:
        return None if self._membership is None else self._membership.find(tag)


class PeerAnswer:
    """The response of another replica."""

    def __init__(self, response: HttpResponse, reading: set[HttpResponse]) -> None:
        self._response = response
        self._reading = reading
        reading.add(response)

    @property
    def status(self) -> int:
        return self._response.status

    @property
    def headers(self) -> Sequence[tuple[bytes, bytes]]:
        return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in self._response.headers]

    async def chunk(self) -> bytes:
        try:
            return await self._response.chunk()
        except PipeError as error:
            raise PeerFailed(error.message) from None

    def close(self) -> None:
        self._reading.discard(self._response)
        self._response.close()
