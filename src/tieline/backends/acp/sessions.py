"""Sessions with agents: their histories, options and processes. Finds the session that a request continues.

A session can outlive the process in which it was opened: if the agent supports it, the session is loaded or resumed in
another process. While a turn holds its session, other requests that continue the session have to wait.
"""

import asyncio
from collections.abc import Callable, Iterator
from typing import Protocol

from msgspec.structs import replace

from tieline.backends.acp.agent import Agent
from tieline.backends.acp.client_tools import is_shown_as_call, may_be_allowed
from tieline.backends.acp.fingerprint import (
    HistoryPosition,
    RequestFingerprint,
    RequestKind,
    SeenHistory,
    match_history,
    position_of,
    positions_in,
)
from tieline.backends.acp.fleet import ProcessKey
from tieline.backends.acp.session_options import RequestedOptions, SessionOptions
from tieline.backends.acp.settings import AgentHost
from tieline.backends.acp.tool_bridge import ToolEndpoint
from tieline.backends.acp.workplace import Workplace
from tieline.model.errors import GatewayError
from tieline.wire.acp import facts
from tieline.wire.acp.facts import Fact


class ActiveTurn(Protocol):
    """The part of a turn that is used by its session and by the opener of the session's next turn."""

    @property
    def awaits_answer(self) -> bool: ...

    @property
    def is_parked(self) -> bool: ...

    def cancel(self) -> None: ...

    def receive(self, fact: Fact) -> None: ...


OnSession = Callable[["AgentSession"], None]


def _ignored(_: "AgentSession") -> None:
    """Do nothing."""


class AgentSession:
    """A conversation with an agent."""

    def __init__(self, spec_id: str, kind: RequestKind, workplace: Workplace) -> None:
        self.spec_id = spec_id
        self.kind = kind
        self.process_key = ProcessKey(spec_id, workplace)
        """Identifies the session's process, which is shared with other sessions until the client offers tools."""
        self.name = ""
        """The agent's id for the session; empty until the session is opened for the first time."""
        self.agent: Agent | None = None
        """The process in which the session is open, or was open most recently."""
        self.on_change: OnSession = _ignored
        """The function that is called when the session's histories change."""
        self._histories: tuple[SeenHistory, ...] = ()
        self.first = SessionOptions()
        """The options that the session had when it was opened."""
        self.state = SessionOptions()
        self.requested = RequestedOptions(agent=spec_id)
        """The options that the most recent request selected. `agent` is empty if not all of them could be set."""
        self.commands: tuple[facts.SlashCommand, ...] = ()
        self.title = ""
        self.endpoint: ToolEndpoint | None = None
        """The MCP endpoint for the client's tools, if the session was opened with one."""
        self.turn: ActiveTurn | None = None
        self.terminals: set[str] = set()
        """The names of the terminals that the gateway runs for the session. Turns share this set."""
        self.host: AgentHost | None = None
        """The gateway's services for the session, as of its latest turn. They run its terminals."""
        self._lock = asyncio.Lock()

    @property
    def histories(self) -> tuple[SeenHistory, ...]:
        """The histories that a request may continue. After a failed or cancelled turn, earlier ones remain valid."""
        return self._histories

    @histories.setter
    def histories(self, histories: tuple[SeenHistory, ...]) -> None:
        self._histories = histories
        self.on_change(self)

    @property
    def is_open(self) -> bool:
        """Whether the session is open in a process that accepts prompts."""
        return self.agent is not None and not self.agent.is_over and not self.agent.is_retiring

    @property
    def is_busy(self) -> bool:
        """Whether a turn holds the session."""
        return self._lock.locked()

    def is_clients(self, call: facts.AgentCall) -> bool:
        """Return whether the client receives this call as a call to one of its tools."""
        return self.endpoint is not None and is_shown_as_call(call, self.endpoint.tools)

    def is_for_client(self, call: facts.AgentCall) -> bool:
        """Return whether this is certainly a call to one of the client's tools. If so, the user need not be asked."""
        return self.endpoint is not None and may_be_allowed(call, self.endpoint.tools)

    async def hold(self, within: float) -> None:
        """Wait until the current turn ends, then hold the session. Raise GatewayError after `within` seconds."""
        try:
            async with asyncio.timeout(within):
                await self._lock.acquire()
        except TimeoutError:
            message = f"The conversation has been busy for {within:g} seconds. Try again later."
            raise GatewayError("overloaded", message, code="session_busy") from None

    def release(self) -> None:
        """Release the session at the end of the turn that holds it."""
        self.turn = None
        self._lock.release()

    def opened(self, fact: facts.SessionOpened, agent: Agent) -> None:
        """Record the agent that has opened the session, and the options that it reported."""
        self.name = fact.session
        self.agent = agent
        self.first = self.state = SessionOptions(modes=fact.modes, models=fact.models, options=fact.options)
        self.requested = RequestedOptions(agent=self.spec_id)

    def separate(self, number: int) -> None:
        """Give the session a process of its own, identified by `number`, unless it already has one."""
        if not self.process_key.conversation:
            self.process_key = self.process_key._replace(conversation=number)

    def receive(self, fact: Fact) -> None:
        """Handle a fact for this session: update the session itself, or pass the fact to the current turn."""
        match fact:
            case facts.ModeChanged():
                self.state = _in_mode(self.state, fact.mode)
            case facts.OptionsChanged():
                self.state = replace(self.state, options=fact.options)
            case facts.CommandsUpdate():
                self.commands = fact.commands
            case facts.TitleChanged():
                self.title = fact.title or self.title
            case _:
                if self.turn is not None:
                    self.turn.receive(fact)
                else:
                    self._decline(fact)

    def leave(self) -> None:
        """Close the session's MCP endpoint and detach the session from its agent."""
        if self.endpoint is not None:
            self.endpoint.close()
            self.endpoint = None
        agent, self.agent = self.agent, None
        if agent is not None:
            agent.forget(self.name)

    def _decline(self, fact: Fact) -> None:
        """Refuse a request that the agent sends outside a turn."""
        if isinstance(fact, facts.AgentRequest) and self.agent is not None:
            self.agent.machine.refuse(fact.number, "there is no current turn")


class SessionIndex:
    """All sessions. Finds the one that a request continues. If there are too many sessions, an idle one is evicted."""

    def __init__(self, limit: int, on_leave: OnSession, on_change: OnSession = _ignored) -> None:
        self._limit = limit
        self._on_leave = on_leave
        self._on_change = on_change
        self._sessions: dict[AgentSession, frozenset[HistoryPosition]] = {}
        self._by_position: dict[HistoryPosition, dict[AgentSession, None]] = {}

    def __iter__(self) -> Iterator[AgentSession]:
        return iter(list(self._sessions))

    def find(self, spec_id: str, workplace: Workplace, fingerprint: RequestFingerprint) -> AgentSession | None:
        """Return the session that a request continues, if any. Prefer the longest history, then an idle session."""
        near = (self._by_position.get(position, ()) for position in positions_in(fingerprint))
        found = [
            session
            for session in dict.fromkeys(one for there in near for one in there)
            if session.spec_id == spec_id
            and session.process_key.workplace == workplace
            and fingerprint.kind.may_continue(session.kind)
            and seen_parts(session, fingerprint) is not None
        ]
        return max(found, key=lambda session: (_length(session), not session.is_busy), default=None)

    def use(self, session: AgentSession) -> None:
        """Add a session or mark it as used. If there are too many, evict the least recently used idle session."""
        self._sessions[session] = self._sessions.pop(session, frozenset())
        self._move(session)
        session.on_change = self._changed
        if len(self._sessions) > self._limit:
            oldest = next((one for one in self._sessions if not one.is_busy), None)
            if oldest is not None:
                self.forget(oldest)

    def forget(self, session: AgentSession) -> None:
        """Remove a session and call `on_leave` with it."""
        if session not in self._sessions:
            return
        session.on_change = _ignored
        self._move(session, is_gone=True)
        del self._sessions[session]
        self._on_leave(session)

    def _changed(self, session: AgentSession) -> None:
        self._move(session)
        self._on_change(session)

    def _move(self, session: AgentSession, *, is_gone: bool = False) -> None:
        """Update the positions under which a session is indexed, or remove them all if `is_gone` is true."""
        before = self._sessions[session]
        now = frozenset() if is_gone else frozenset(position_of(past) for past in session.histories)
        self._sessions[session] = now
        for position in before - now:
            there = self._by_position[position]
            del there[session]
            if not there:
                del self._by_position[position]
        for position in now - before:
            self._by_position.setdefault(position, {})[session] = None


def seen_parts(session: AgentSession, fingerprint: RequestFingerprint) -> int | None:
    """Return how many of the user's parts a session has seen. Return None if the request does not continue it."""
    return max(
        (seen for history in session.histories if (seen := match_history(history, fingerprint)) is not None),
        default=None,
    )


def _length(session: AgentSession) -> int:
    return max((len(past.items) for past in session.histories), default=0)


def _in_mode(state: SessionOptions, mode: str) -> SessionOptions:
    """Return the options with `mode` as the current mode. Agents may offer modes as `modes`, as an option, or both."""
    modes = replace(state.modes, current=mode) if state.modes is not None else None
    options = tuple(
        replace(option, current=mode)
        if option.category == "mode" and mode in {choice.id for choice in option.choices}
        else option
        for option in state.options
    )
    return replace(state, modes=modes, options=options)
