"""The ACP backend: every installed coding agent is a model."""

from collections.abc import Callable, Mapping, Sequence

from tieline.backends.acp.catalogue import AgentSpec, Which, installed
from tieline.backends.acp.run import AcpRun
from tieline.backends.acp.session_options import modes
from tieline.backends.acp.session_store import SessionStorage, SessionStore
from tieline.backends.acp.settings import AcpBackendSettings, AcpRuntime
from tieline.backends.acp.tool_bridge import ToolBridge
from tieline.backends.acp.turn_opener import TurnOpener
from tieline.backends.acp.workplace import Workplaces
from tieline.model.ports import Host, ModelInfo, Run
from tieline.model.request import Request
from tieline.tasks import Tasks


class AcpBackend:
    """Backend that offers the agents in a catalogue as models.

    `which` finds programs, `mint_call` and `mint_leg` generate ids, `bridge` offers the clients' tools to agents, and
    `storage` keeps sessions across restarts of the gateway.
    """

    is_agent = True
    reads_options = True
    obeys_limits = True

    def __init__(
        self,
        catalogue: Mapping[str, AgentSpec],
        settings: AcpBackendSettings,
        *,
        which: Which,
        mint_call: Callable[[], str],
        mint_leg: Callable[[], str],
        bridge: ToolBridge | None = None,
        storage: SessionStorage | None = None,
        name: str = "acp",
    ) -> None:
        self.name = name
        self._catalogue = catalogue
        self._which = which
        self._bridge = bridge
        self._runtime = AcpRuntime(mint_call=mint_call, mint_leg=mint_leg, tasks=Tasks())
        usual = {spec.id: spec.cwd or settings.cwd for spec in catalogue.values()}
        places = Workplaces(usual, settings.folders, settings.servers, lambda name: settings.host(name).cwd)
        store = (
            SessionStore(storage, places, self._runtime.tasks, limit=settings.sessions) if storage is not None else None
        )
        self._opener = TurnOpener(catalogue, which, settings, self._runtime, places, bridge, store)

    async def models(self) -> Sequence[ModelInfo]:
        """Return the installed agents."""
        return installed(self._catalogue.values(), self._which, offers_tools=self._bridge is not None)

    def modes(self, agent: str) -> tuple[str, ...]:
        """Return the modes that an agent offers, or () if none of its sessions has reported any yet."""
        offered = (modes(session.state) for session in self._opener.sessions if session.spec_id == agent)
        return max(offered, key=len, default=())

    async def start(self, request: Request, host: Host) -> Run:
        self._opener.check(request)
        return AcpRun(self._opener, self._runtime, request, host)

    async def count(self, request: Request) -> int | None:  # noqa: ARG002 - the protocol cannot count tokens
        return None

    def leave_workspace(self, name: str) -> None:
        """End all turns and processes in a workspace, because it has been removed."""
        self._opener.leave_workspace(name)

    async def aclose(self) -> None:
        await self._opener.aclose()
        if self._bridge is not None:
            await self._bridge.aclose()
        await self._runtime.tasks.aclose()
