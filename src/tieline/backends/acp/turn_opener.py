"""Begins turns: finds the agent and session for a request, opens and configures the session, and sends the prompt.

If a request continues a known session, only its new messages are sent. If the process of that session has ended, the
session is resumed or loaded in a new process. In all other cases, a new session is opened and receives the whole
conversation.
"""

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count

from msgspec.structs import replace

from tieline.backends.acp.agent import Agent
from tieline.backends.acp.catalogue import AgentSpec, Which, find
from tieline.backends.acp.fingerprint import RequestFingerprint, fingerprint_of, latest_user_text
from tieline.backends.acp.fleet import Fleet
from tieline.backends.acp.prompt import continued, seeded
from tieline.backends.acp.session_options import (
    OptionChange,
    RequestedOptions,
    SessionOptions,
    option_changes,
    option_resets,
    requested_options,
)
from tieline.backends.acp.session_store import SessionStore
from tieline.backends.acp.sessions import AgentSession, SessionIndex, seen_parts
from tieline.backends.acp.settings import AcpBackendSettings, AcpRuntime
from tieline.backends.acp.tool_bridge import ToolBridge
from tieline.backends.acp.turn import AgentTurn, TurnContext
from tieline.backends.acp.workplace import Workplace, Workplaces
from tieline.model.errors import GatewayError
from tieline.model.ports import Host
from tieline.model.request import Request, ToolSpec
from tieline.wire.acp import facts
from tieline.wire.acp.client_side import ClientSide
from tieline.wire.acp.schema import McpServer

SendRequest = Callable[[ClientSide], int]


@dataclass(frozen=True, slots=True)
class _TurnRequest:
    """A request, and values that were derived from it."""

    request: Request
    host: Host
    requested: RequestedOptions
    fingerprint: RequestFingerprint
    spec: AgentSpec
    command: tuple[str, ...]
    tools: tuple[ToolSpec, ...]
    workplace: Workplace


class TurnOpener:
    """Begins turns, and owns all sessions and agent processes."""

    def __init__(
        self,
        catalogue: Mapping[str, AgentSpec],
        which: Which,
        settings: AcpBackendSettings,
        runtime: AcpRuntime,
        places: Workplaces,
        bridge: ToolBridge | None,
        store: SessionStore | None = None,
    ) -> None:
        self._catalogue = catalogue
        self._which = which
        self._settings = settings
        self._runtime = runtime
        self._places = places
        self._bridge = bridge if settings.offers_tools else None
        self._store = store
        self._loading: asyncio.Task[None] | None = None
        self._commands: dict[str, tuple[str, ...]] = {}
        """The command that starts each agent, by agent id."""
        self._conversation_numbers = count(1)
        """Generates the numbers of conversations that have a process of their own."""
        self.fleet = Fleet(settings, runtime.tasks, self._agent_ended)
        self.sessions = SessionIndex(settings.sessions, self._forgotten, self._seen)

    def check(self, request: Request) -> None:
        """Raise GatewayError if a request names an agent that is unknown or not installed, or an unknown workplace."""
        agent = requested_options(request).agent
        self._installed(agent)
        self._places.of(request, agent)

    async def begin(self, request: Request, host: Host) -> AgentTurn:
        """Begin a turn, or continue the turn whose question this request answers. Raise GatewayError on failure."""
        opening = self._parsed(request, host)
        await self._load()
        session = self.sessions.find(opening.spec.id, opening.workplace, opening.fingerprint)
        turn = session.turn if session is not None else None
        if isinstance(turn, AgentTurn) and turn.awaits_answer:
            turn.set_tools(opening.tools)
            turn.take_answer(latest_user_text(request.messages), opening.fingerprint, host)
            return turn
        if turn is not None and turn.is_parked:
            # The user continues the conversation without the results that the turn waits for.
            turn.cancel()
        if session is None:
            return await self._begin_new(_session(opening), opening)
        await session.hold(self._settings.queue_within)
        if seen_parts(session, opening.fingerprint) is None:
            # Another request has continued the session in the meantime.
            session.release()
            return await self._begin_new(_session(opening), opening)
        return await self._begin_held(session, opening)

    def leave_workspace(self, name: str) -> None:
        """End all turns and processes in a workspace, because it has been removed."""
        for session in list(self.sessions):
            if session.process_key.workplace.workspace == name:
                if session.turn is not None:
                    session.turn.cancel()
                self._release_terminals(session)
        self.fleet.leave_workspace(name)

    async def aclose(self) -> None:
        """End all agent processes and close all sessions. Stored sessions remain stored."""
        await self.fleet.aclose()
        for session in self.sessions:
            self._close(session)
        if self._store is not None:
            await self._store.aclose()

    def _parsed(self, request: Request, host: Host) -> _TurnRequest:
        requested = requested_options(request)
        spec, command = self._installed(requested.agent)
        tools = request.tools if request.tool_choice.mode != "none" else ()
        workplace = self._places.of(request, spec.id)
        return _TurnRequest(request, host, requested, fingerprint_of(request), spec, command, tools, workplace)

    def _installed(self, name: str) -> tuple[AgentSpec, tuple[str, ...]]:
        spec = self._catalogue.get(name)
        if spec is None:
            known = ", ".join(sorted(self._catalogue))
            message = f"There is no agent `{name[:100]}`. Known agents: {known}."
            raise GatewayError("not_found", message, param="model", code="model_not_found")
        if name in self._commands and self.fleet.is_running(name):
            # Searching the PATH is slow, and the program was found before.
            return spec, self._commands[name]
        found = find(spec, self._which)
        if found.command is None:
            message = f"{spec.title} is not installed. To install it: {found.line}"
            raise GatewayError("not_found", message, param="model", code="agent_not_installed")
        self._commands[name] = found.command
        return spec, found.command

    async def _load(self) -> None:
        """Load the stored sessions once, before the first request. If a request is cancelled, the loading continues."""
        if self._store is None:
            return
        if self._loading is None:
            self._loading = self._runtime.tasks.start(self._loaded(self._store), "loading agent sessions")
        if not self._loading.done():
            await asyncio.shield(self._loading)

    async def _loaded(self, store: SessionStore) -> None:
        for session in await store.load():
            self.sessions.use(session)

    # ── beginning a turn ──

    async def _begin_new(self, session: AgentSession, opening: _TurnRequest) -> AgentTurn:
        """Begin a turn in a new session."""
        await session.hold(self._settings.queue_within)
        return await self._begin_held(session, opening)

    async def _begin_held(self, session: AgentSession, opening: _TurnRequest) -> AgentTurn:
        """Begin a turn in a session that the caller holds."""
        if opening.tools and self._bridge is not None:
            session.separate(next(self._conversation_numbers))
        try:
            agent = await self.fleet.take(opening.spec, opening.command, session.process_key)
        except BaseException:
            session.release()
            raise
        try:
            turn = await self._prepared(session, agent, opening)
        except BaseException:
            self._abandon(session, agent)
            raise
        self.sessions.use(session)
        return turn

    async def _prepared(self, session: AgentSession, agent: Agent, opening: _TurnRequest) -> AgentTurn:
        host = session.host = self._settings.host(opening.workplace.workspace)
        context = TurnContext(session, agent, self._settings, self._runtime, self.fleet.give_back, host)
        turn = AgentTurn(context, opening.host, opening.fingerprint, opening.tools)
        is_known = await self._opened(session, agent, opening.tools, turn)
        await self._set(opening.requested, session, agent)
        messages, takes = opening.request.messages, agent.about.abilities.prompt
        seen = seen_parts(session, opening.fingerprint) if is_known else None
        prompt = seeded(messages, takes) if seen is None else continued(messages, seen, takes)
        for note in prompt.notes:
            turn.queue.note(note.kind, note.message)
        agent.check()
        turn.prompt(prompt.blocks)
        return turn

    def _abandon(self, session: AgentSession, agent: Agent) -> None:
        """Release the session and the agent after a failure. Close the session if it has no history."""
        session.release()
        self.fleet.give_back(agent)
        if not session.histories:
            self._close(session)

    # ── opening a session ──

    async def _opened(self, session: AgentSession, agent: Agent, tools: Sequence[ToolSpec], turn: AgentTurn) -> bool:
        """Open a session with this agent if necessary. Return whether the session already contains the conversation."""
        wants_endpoint = bool(tools) and self._bridge is not None
        is_there = session.is_open and session.agent is agent
        if is_there and (session.endpoint is not None or not wants_endpoint):
            if session.endpoint is not None and session.endpoint.offer(tools):
                turn.queue.note("tools", "the client's tools changed; the agent may still use the earlier ones")
            return True
        if wants_endpoint and session.endpoint is None and self._bridge is not None:
            session.endpoint = await self._bridge.open()
        servers = self._places.servers(session.process_key.workplace, agent.about.abilities, agent.spec.title)
        if session.endpoint is not None:
            session.endpoint.offer(tools)
            servers.append(session.endpoint.server(agent.about.abilities))
        self._release_terminals(session)
        if session.name and await self._reopened(session, agent, servers):
            return True
        await self._new(session, agent, servers)
        return False

    async def _reopened(self, session: AgentSession, agent: Agent, servers: Sequence[McpServer]) -> bool:
        """Resume or load a session in the process of `agent`, if it supports that. Return whether this succeeded."""
        abilities, name, cwd = agent.about.abilities, session.name, session.process_key.workplace.folder
        await self._closed_before(session)
        attempts: list[SendRequest] = []
        if abilities.resume:
            attempts.append(lambda machine: machine.resume_session(name, cwd, servers))
        if abilities.load:
            attempts.append(lambda machine: machine.load_session(name, cwd, servers))
        for attempt in attempts:
            agent.listen(name, session.receive)
            answer = await agent.request(attempt, self._settings.open_within, session.receive)
            if isinstance(answer, facts.SessionOpened):
                session.opened(answer, agent)
                return True
        return False

    async def _closed_before(self, session: AgentSession) -> None:
        """Close a session in its current process, because it is about to be reopened, possibly in another process.

        From then on, no facts from that process are delivered to the session, even if the process is about to end.
        """
        agent, session.agent = session.agent, None
        if agent is not None:
            agent.forget(session.name)
            if not agent.is_over and agent.about.abilities.close:
                await self._closed(agent, session.name)

    async def _new(self, session: AgentSession, agent: Agent, servers: Sequence[McpServer]) -> None:
        def send(machine: ClientSide) -> int:
            return machine.new_session(session.process_key.workplace.folder, servers)

        answer = await agent.request(send, self._settings.open_within, session.receive)
        if isinstance(answer, facts.RequestRefused) and answer.needs_login and await self._logged_in(agent):
            answer = await agent.request(send, self._settings.open_within, session.receive)
        if isinstance(answer, facts.RequestRefused):
            raise agent.refused(answer)
        if isinstance(answer, facts.SessionOpened):
            session.opened(answer, agent)
            # The agent has seen nothing of the conversation until it receives the prompt.
            session.histories = ()

    async def _logged_in(self, agent: Agent) -> bool:
        """Log in with the configured method, if the agent offers it. Return whether the login succeeded."""
        method = agent.spec.method
        if not method or method not in {login.id for login in agent.about.logins}:
            return False
        answer = await agent.request(lambda machine: machine.authenticate(method), self._settings.open_within)
        return isinstance(answer, facts.RequestDone)

    # ── modes, models, options ──

    async def _set(self, requested: RequestedOptions, session: AgentSession, agent: Agent) -> None:
        """Set the mode, the model and the options that a request selects.

        If the previous request selected the same values, do nothing, so that changes made by the agent are kept.
        """
        previous = session.requested
        if requested == previous:
            return
        # If a change fails, the session has values of both requests. The next request then sets its values in any case.
        values = dict([*previous.values, *requested.values])
        session.requested = replace(requested, agent="", values=tuple(values.items()))
        for setting in option_resets(session.first, session.state, requested, previous):
            await self._set_one(setting, session, agent)
        for setting in option_changes(requested, session.state, agent.spec.title):
            await self._set_one(setting, session, agent)
        session.requested = requested

    async def _set_one(self, setting: OptionChange, session: AgentSession, agent: Agent) -> None:
        name, value = session.name, setting.value

        def send(machine: ClientSide) -> int:
            if setting.how == "option":
                return machine.set_option(name, setting.id, value)
            return (machine.set_mode if setting.how == "mode" else machine.set_model)(name, str(value))

        answer = await agent.request(send, self._settings.set_within)
        if isinstance(answer, facts.RequestRefused):
            raise agent.refused(answer)
        session.state = _after(setting, session.state)

    # ── end of sessions and agents ──

    def _seen(self, session: AgentSession) -> None:
        """Store a session, because its history has changed."""
        if self._store is not None:
            self._store.save(session)

    def _forgotten(self, session: AgentSession) -> None:
        """Close a session that was evicted, and remove it from the store."""
        if self._store is not None:
            self._store.forget(session)
        self._close(session)

    def _close(self, session: AgentSession) -> None:
        """Close a session permanently, and end its process if no other session can use it."""
        agent = session.agent
        self._release_terminals(session)
        if agent is not None and not agent.is_over and agent.about.abilities.close:
            self._runtime.tasks.start(self._closed(agent, session.name), "closing a session")
        session.leave()
        self.fleet.end_process(session.process_key)

    async def _closed(self, agent: Agent, name: str) -> None:
        # Errors do not matter: an agent that cannot answer no longer has the session open.
        with contextlib.suppress(GatewayError):
            await agent.request(lambda machine: machine.close_session(name), self._settings.open_within)

    def _agent_ended(self, agent: Agent) -> None:
        for session in self.sessions:
            if session.agent is agent:
                self._release_terminals(session)

    def _release_terminals(self, session: AgentSession) -> None:
        terminals = session.host.terminals if session.host is not None else None
        if terminals is None or not session.terminals:
            return
        owned = list(session.terminals)
        session.terminals.clear()

        async def release() -> None:
            for terminal in owned:
                with contextlib.suppress(GatewayError, OSError, KeyError):
                    await terminals.release(terminal)

        self._runtime.tasks.start(release(), "releasing terminals")


def _session(opening: _TurnRequest) -> AgentSession:
    return AgentSession(opening.spec.id, opening.fingerprint.kind, opening.workplace)


def _after(setting: OptionChange, state: SessionOptions) -> SessionOptions:
    """Return the options of a session after a change. They are computed, because some agents do not report them."""
    if setting.how == "mode":
        return replace(state, modes=state.modes and replace(state.modes, current=str(setting.value)))
    if setting.how == "model":
        return replace(state, models=state.models and replace(state.models, current=str(setting.value)))
    options = tuple(
        replace(option, current=setting.value) if option.id == setting.id else option for option in state.options
    )
    return replace(state, options=options)
