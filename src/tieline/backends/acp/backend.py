"""The ACP backend: every coding agent that is installed here is a model."""

from collections.abc import Callable, Mapping, Sequence

from tieline.backends.acp.bridge import ToolBridge
from tieline.backends.acp.catalogue import AgentSpec, Which, installed
from tieline.backends.acp.opening import Opener
from tieline.backends.acp.run import AcpRun
from tieline.backends.acp.session_options import modes
from tieline.backends.acp.session_store import Keeping, Memory
from tieline.backends.acp.settings import Kit, Terms
from tieline.backends.acp.workplace import Workplaces
from tieline.model.ports import Host, ModelInfo, Run
from tieline.model.request import Request
from tieline.tasks import Tasks


class AcpBackend:
    """Runs with the agents of a catalogue; `which` tells where a program is, `bridge` offers agents clients' tools.

    With `keeping` sessions are taken up again after a restart.
    """

    is_agent = True
    reads_options = True
    obeys_limits = True

    def __init__(
        self,
        catalogue: Mapping[str, AgentSpec],
        terms: Terms,
        *,
        which: Which,
        mint_call: Callable[[], str],
        mint_leg: Callable[[], str],
        bridge: ToolBridge | None = None,
        keeping: Keeping | None = None,
        name: str = "acp",
    ) -> None:
        self.name = name
        self._catalogue = catalogue
        self._which = which
        self._bridge = bridge
        self._kit = Kit(mint_call=mint_call, mint_leg=mint_leg, tasks=Tasks())
        usual = {spec.id: spec.cwd or terms.cwd for spec in catalogue.values()}
        places = Workplaces(usual, terms.folders, terms.servers)
        memory = Memory(keeping, places, self._kit.tasks, most=terms.sessions) if keeping is not None else None
        self._opener = Opener(catalogue, which, terms, self._kit, places, bridge, memory)

    async def models(self) -> Sequence[ModelInfo]:
        """The agents that are installed."""
        return installed(self._catalogue.values(), self._which)

    def modes(self, agent: str) -> tuple[str, ...]:
        """The modes that an agent has told of; none before its first session."""
        told = (modes(session.state) for session in self._opener.sessions if session.spec_id == agent)
        return max(told, key=len, default=())

    async def start(self, request: Request, host: Host) -> Run:
        self._opener.wish(request)
        return AcpRun(self._opener, self._kit, request, host)

    async def count(self, request: Request) -> int | None:  # noqa: ARG002 - no agent can be asked that
        return None

    async def aclose(self) -> None:
        await self._opener.aclose()
        if self._bridge is not None:
            await self._bridge.aclose()
        await self._kit.tasks.aclose()
