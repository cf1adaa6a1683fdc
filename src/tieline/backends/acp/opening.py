"""From a request to a turn: which agent, which session, open and as wished, and what it is told.

A request that goes on where a session stands is appended to it. If the agent of that session is gone, be it with the
gateway, the session is resumed or loaded in the next one; where that cannot be done, and for every other request, a new
session is told everything.
"""

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from tieline.backends.acp.agent import Agent
from tieline.backends.acp.bridge import ToolBridge
from tieline.backends.acp.catalogue import AgentSpec, Which, find
from tieline.backends.acp.fingerprint import Reading, read, spoken_in
from tieline.backends.acp.fleet import Fleet
from tieline.backends.acp.prompt import continued, seeded
from tieline.backends.acp.session_options import Setting, State, Wish, back_to, settings, wish_of
from tieline.backends.acp.session_store import Memory
from tieline.backends.acp.sessions import Session, Sessions, heard_of
from tieline.backends.acp.settings import Kit, Terms
from tieline.backends.acp.turn import Surroundings, Turn
from tieline.backends.acp.workplace import Workplace, Workplaces
from tieline.model.errors import GatewayError
from tieline.model.ports import Host
from tieline.model.request import Request, ToolSpec
from tieline.wire.acp import facts
from tieline.wire.acp.client_side import ClientSide
from tieline.wire.acp.schema import McpServer

Ask = Callable[[ClientSide], int]


@dataclass(frozen=True, slots=True)
class _Asked:
    """A request, and what was made of it."""

    request: Request
    host: Host
    wish: Wish
    reading: Reading
    spec: AgentSpec
    command: tuple[str, ...]
    tools: tuple[ToolSpec, ...]
    workplace: Workplace


class Opener:
    """Begins turns; the sessions and agents of all of them are here."""

    def __init__(
        self,
        catalogue: Mapping[str, AgentSpec],
        which: Which,
        terms: Terms,
        kit: Kit,
        places: Workplaces,
        bridge: ToolBridge | None,
        memory: Memory | None = None,
    ) -> None:
        self._catalogue = catalogue
        self._which = which
        self._terms = terms
        self._kit = kit
        self._places = places
        self._bridge = bridge if terms.offers_tools else None
        self._memory = memory
        self._recalling: asyncio.Task[None] | None = None
        self._commands: dict[str, tuple[str, ...]] = {}
        """What agents were started with last."""
        self.fleet = Fleet(terms, kit.tasks, self._agent_ended)
        self.sessions = Sessions(terms.sessions, self._forgotten, self._seen)

    def wish(self, request: Request) -> Wish:
        """What a request wants; raises GatewayError for an agent or a workplace that there is not."""
        wish = wish_of(request)
        self._ready(wish.agent)
        self._places.of(request, wish.agent)
        return wish

    async def begin(self, request: Request, host: Host) -> Turn:
        """A turn for a request, already under way: a new one, or one that this request answers. Raises GatewayError."""
        asked = self._asked(request, host)
        await self._recall()
        session = self.sessions.find(asked.spec.id, asked.workplace, asked.reading)
        turn = session.turn if session is not None else None
        if isinstance(turn, Turn) and turn.awaits_answer:
            turn.offered(asked.tools)
            turn.hear(spoken_in(request.messages), asked.reading, host)
            return turn
        if turn is not None and turn.is_parked:
            # The user went on without what it waits for.
            turn.cancel()
        if session is None:
            return await self._held(_session(asked), asked)
        await session.hold(self._terms.queue_within)
        if heard_of(session, asked.reading) is None:
            # It went on with something else meanwhile.
            session.release()
            return await self._held(_session(asked), asked)
        return await self._began(session, asked)

    async def aclose(self) -> None:
        """End every agent; what is remembered of sessions stays."""
        await self.fleet.aclose()
        for session in self.sessions:
            self._left(session)
        if self._memory is not None:
            await self._memory.aclose()

    def _asked(self, request: Request, host: Host) -> _Asked:
        wish = wish_of(request)
        spec, command = self._ready(wish.agent)
        tools = request.tools if request.tool_choice.mode != "none" else ()
        workplace = self._places.of(request, spec.id)
        return _Asked(request, host, wish, read(request), spec, command, tools, workplace)

    def _ready(self, name: str) -> tuple[AgentSpec, tuple[str, ...]]:
        spec = self._catalogue.get(name)
        if spec is None:
            known = ", ".join(sorted(self._catalogue))
            message = f"There is no agent `{name[:100]}`. Known are: {known}."
            raise GatewayError("not_found", message, param="model", code="model_not_found")
        if name in self._commands and self.fleet.is_running(name):
            # Looking for a program on the PATH is slow, and this one is found.
            return spec, self._commands[name]
        found = find(spec, self._which)
        if found.command is None:
            message = f"{spec.title} is not installed here. To install it: {found.line}"
            raise GatewayError("not_found", message, param="model", code="agent_not_installed")
        self._commands[name] = found.command
        return spec, found.command

    async def _recall(self) -> None:
        """Before the first request is looked at, take up what is remembered; whoever leaves does not stop that."""
        if self._memory is None:
            return
        if self._recalling is None:
            self._recalling = self._kit.tasks.start(self._recalled(self._memory), "recalling sessions")
        if not self._recalling.done():
            await asyncio.shield(self._recalling)

    async def _recalled(self, memory: Memory) -> None:
        for session in await memory.recall():
            self.sessions.use(session)

    # ── a turn in a session ──

    async def _held(self, session: Session, asked: _Asked) -> Turn:
        """A turn in a session that is nobody else's."""
        await session.hold(self._terms.queue_within)
        return await self._began(session, asked)

    async def _began(self, session: Session, asked: _Asked) -> Turn:
        """A turn in a session that is held."""
        if asked.tools and self._bridge is not None:
            session.separate()
        try:
            agent = await self.fleet.take(asked.spec, asked.command, session.lane)
        except BaseException:
            session.release()
            raise
        try:
            turn = await self._prepared(session, agent, asked)
        except BaseException:
            self._abandon(session, agent)
            raise
        self.sessions.use(session)
        return turn

    async def _prepared(self, session: Session, agent: Agent, asked: _Asked) -> Turn:
        around = Surroundings(session, agent, self._terms, self._kit, self.fleet.give_back)
        turn = Turn(around, asked.host, asked.reading, asked.tools)
        is_known = await self._opened(session, agent, asked.tools, turn)
        await self._set(asked.wish, session, agent)
        messages, takes = asked.request.messages, agent.about.abilities.prompt
        heard = heard_of(session, asked.reading) if is_known else None
        prompt = seeded(messages, takes) if heard is None else continued(messages, heard, takes)
        for note in prompt.notes:
            turn.telling.note(note.kind, note.message)
        agent.check()
        turn.prompt(prompt.blocks)
        return turn

    def _abandon(self, session: Session, agent: Agent) -> None:
        """A turn did not come about; a session that has seen nothing is of no use."""
        session.release()
        self.fleet.give_back(agent)
        if not session.pasts:
            self._left(session)

    # ── opening a session ──

    async def _opened(self, session: Session, agent: Agent, tools: Sequence[ToolSpec], turn: Turn) -> bool:
        """See to it that a session is open in this agent; whether it knows the conversation."""
        wants_seat = bool(tools) and self._bridge is not None
        is_there = session.is_open and session.agent is agent
        if is_there and (session.seat is not None or not wants_seat):
            if session.seat is not None and session.seat.offer(tools):
                turn.telling.note("tools", "the client's tools changed: the agent may still know the earlier ones")
            return True
        if wants_seat and session.seat is None and self._bridge is not None:
            session.seat = await self._bridge.seat()
        servers = self._places.servers(session.lane.workplace, agent.about.abilities, agent.spec.title)
        if session.seat is not None:
            session.seat.offer(tools)
            servers.append(session.seat.server(agent.about.abilities))
        self._release_terminals(session)
        if session.name and await self._reopened(session, agent, servers):
            return True
        await self._new(session, agent, servers)
        return False

    async def _reopened(self, session: Session, agent: Agent, servers: Sequence[McpServer]) -> bool:
        """Whether a session of before could be taken up again."""
        abilities, name, cwd = agent.about.abilities, session.name, session.lane.workplace.folder
        await self._closed_before(session)
        ways: list[Ask] = []
        if abilities.resume:
            ways.append(lambda machine: machine.resume_session(name, cwd, servers))
        if abilities.load:
            ways.append(lambda machine: machine.load_session(name, cwd, servers))
        for way in ways:
            agent.listen(name, session.receive)
            answer = await agent.ask(way, self._terms.open_within, session.receive)
            if isinstance(answer, facts.SessionOpened):
                session.opened(answer, agent)
                return True
        return False

    async def _closed_before(self, session: Session) -> None:
        """Close a session where it is open, since it is to be opened again, perhaps in another process."""
        agent, name = session.agent, session.name
        if agent is not None and not agent.is_over:
            if agent.about.abilities.close:
                await self._closed(agent, name)
            agent.forget(name)

    async def _new(self, session: Session, agent: Agent, servers: Sequence[McpServer]) -> None:
        def send(machine: ClientSide) -> int:
            return machine.new_session(session.lane.workplace.folder, servers)

        answer = await agent.ask(send, self._terms.open_within, session.receive)
        if isinstance(answer, facts.Refused) and answer.needs_login and await self._logged_in(agent):
            answer = await agent.ask(send, self._terms.open_within, session.receive)
        if isinstance(answer, facts.Refused):
            raise agent.refused(answer)
        if isinstance(answer, facts.SessionOpened):
            session.opened(answer, agent)

    async def _logged_in(self, agent: Agent) -> bool:
        """Whether the agent could log in by itself, in the way it was configured to."""
        method = agent.spec.method
        if not method or method not in {login.id for login in agent.about.logins}:
            return False
        answer = await agent.ask(lambda machine: machine.authenticate(method), self._terms.open_within)
        return isinstance(answer, facts.Done)

    # ── modes, models, options ──

    async def _set(self, wish: Wish, session: Session, agent: Agent) -> None:
        """Set what is wished; what was wished before is not set again, since the agent may have gone on from there."""
        if wish == session.wish:
            return
        for setting in back_to(session.first, session.state, wish, session.wish):
            await self._set_one(setting, session, agent)
        for setting in settings(wish, session.state, agent.spec.title):
            await self._set_one(setting, session, agent)
        session.wish = wish

    async def _set_one(self, setting: Setting, session: Session, agent: Agent) -> None:
        name, value = session.name, setting.value

        def send(machine: ClientSide) -> int:
            if setting.how == "option":
                return machine.set_option(name, setting.id, value)
            return (machine.set_mode if setting.how == "mode" else machine.set_model)(name, str(value))

        answer = await agent.ask(send, self._terms.set_within)
        if isinstance(answer, facts.Refused):
            raise agent.refused(answer)
        session.state = _after(setting, session.state)

    # ── what is left behind ──

    def _seen(self, session: Session) -> None:
        """A session has seen more."""
        if self._memory is not None:
            self._memory.keep(session)

    def _forgotten(self, session: Session) -> None:
        """There are too many sessions for this one."""
        if self._memory is not None:
            self._memory.forget(session)
        self._left(session)

    def _left(self, session: Session) -> None:
        """Nobody will come back to a session."""
        agent = session.agent
        self._release_terminals(session)
        if agent is not None and not agent.is_over and agent.about.abilities.close:
            self._kit.tasks.start(self._closed(agent, session.name), "closing a session")
        session.leave()
        self.fleet.end_lane(session.lane)

    async def _closed(self, agent: Agent, name: str) -> None:
        # That it is closed is all that matters, and an agent that cannot be asked has closed it.
        with contextlib.suppress(GatewayError):
            await agent.ask(lambda machine: machine.close_session(name), self._terms.open_within)

    def _agent_ended(self, agent: Agent) -> None:
        for session in self.sessions:
            if session.agent is agent:
                self._release_terminals(session)

    def _release_terminals(self, session: Session) -> None:
        terminals = self._terms.terminals
        if terminals is None or not session.terminals:
            return
        owned, session.terminals = set(session.terminals), set()

        async def release() -> None:
            for terminal in owned:
                with contextlib.suppress(GatewayError, OSError, KeyError):
                    await terminals.release(terminal)

        self._kit.tasks.start(release(), "releasing terminals")


def _session(asked: _Asked) -> Session:
    return Session(asked.spec.id, asked.reading.kind, asked.workplace)


def _after(setting: Setting, state: State) -> State:
    """The state once something was set; an agent that tells it itself has been heard already."""
    if setting.how == "mode":
        return replace(state, modes=state.modes and replace(state.modes, current=str(setting.value)))
    if setting.how == "model":
        return replace(state, models=state.models and replace(state.models, current=str(setting.value)))
    options = tuple(
        replace(option, current=setting.value) if option.id == setting.id else option for option in state.options
    )
    return replace(state, options=options)
