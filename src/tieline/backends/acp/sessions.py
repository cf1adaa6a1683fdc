"""Which session belongs to a conversation: what each has seen, what it offers, and whether it is open in an agent.

A session outlives the agent that opened it: when the agent is gone it is loaded or resumed in the next one, where that
is possible. A turn holds its session; whoever comes meanwhile waits.
"""

import asyncio
from collections.abc import Callable, Iterator
from itertools import count
from typing import Protocol

from msgspec.structs import replace

from tieline.backends.acp.agent import Agent
from tieline.backends.acp.bridge import Seat
from tieline.backends.acp.client_tools import is_shown_as_call, may_be_allowed
from tieline.backends.acp.fingerprint import Kind, Past, Place, Reading, known, place_of, places_in
from tieline.backends.acp.fleet import Lane
from tieline.backends.acp.session_options import State, Wish
from tieline.backends.acp.workplace import Workplace
from tieline.model.errors import GatewayError
from tieline.wire.acp import facts
from tieline.wire.acp.facts import Fact

_NUMBERS = count(1)
"""Of conversations that have a process of their own."""


class UnderWay(Protocol):
    """A turn, as far as whoever comes next has to do with it."""

    @property
    def awaits_answer(self) -> bool: ...

    @property
    def is_parked(self) -> bool: ...

    def cancel(self) -> None: ...

    def receive(self, fact: Fact) -> None: ...


OnSession = Callable[["Session"], None]


def _ignored(_: "Session") -> None:
    """Nobody needs to know."""


class Session:
    """One conversation with one agent."""

    def __init__(self, spec_id: str, kind: Kind, workplace: Workplace) -> None:
        self.spec_id = spec_id
        self.kind = kind
        self.lane = Lane(spec_id, workplace)
        """Which process it is open in: one that it shares, or one of its own once its client has brought tools."""
        self.name = ""
        """The agent's name for it; none before it is open for the first time."""
        self.agent: Agent | None = None
        """The agent it is open in."""
        self.on_change: OnSession = _ignored
        """Who hears that it has seen more."""
        self._pasts: tuple[Past, ...] = ()
        self.first = State()
        """What was chosen when it was opened."""
        self.state = State()
        self.wish = Wish(agent=spec_id)
        """What was wished last."""
        self.commands: tuple[facts.Command, ...] = ()
        self.title = ""
        self.seat: Seat | None = None
        """Where it finds the client's tools, if it was opened with them."""
        self.turn: UnderWay | None = None
        self.terminals: set[str] = set()
        """Those that we run for it."""
        self._lock = asyncio.Lock()

    @property
    def pasts(self) -> tuple[Past, ...]:
        """What it has seen. After a turn that failed or was cancelled also what it had seen before."""
        return self._pasts

    @pasts.setter
    def pasts(self, pasts: tuple[Past, ...]) -> None:
        self._pasts = pasts
        self.on_change(self)

    @property
    def is_open(self) -> bool:
        """Whether a prompt can be sent."""
        return self.agent is not None and not self.agent.is_over and not self.agent.is_retiring

    @property
    def is_busy(self) -> bool:
        """Whether a turn is under way."""
        return self._lock.locked()

    def is_clients(self, call: facts.Call) -> bool:
        """Whether the agent tells of a call that the client sees as its own."""
        return self.seat is not None and is_shown_as_call(call, self.seat.tools)

    def is_for_client(self, call: facts.Call) -> bool:
        """Whether a call is certainly one of the client's tools, so that the client decides about it."""
        return self.seat is not None and may_be_allowed(call, self.seat.tools)

    async def hold(self, within: float) -> None:
        """Wait for the turn under way to end and begin one; raises GatewayError if that takes too long."""
        try:
            async with asyncio.timeout(within):
                await self._lock.acquire()
        except TimeoutError:
            message = f"The conversation is still at work since {within:g} seconds ago. Ask again later."
            raise GatewayError("overloaded", message, code="session_busy") from None

    def release(self) -> None:
        """The turn is over."""
        self.turn = None
        self._lock.release()

    def opened(self, fact: facts.SessionOpened, agent: Agent) -> None:
        """The agent has it open now."""
        self.name = fact.session
        self.agent = agent
        self.first = self.state = State(modes=fact.modes, models=fact.models, options=fact.options)
        self.wish = Wish(agent=self.spec_id)

    def separate(self) -> None:
        """From now on it needs a process of its own."""
        if not self.lane.conversation:
            self.lane = self.lane._replace(conversation=next(_NUMBERS))

    def receive(self, fact: Fact) -> None:
        """Something is told of it."""
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
        """Nobody will come back to it."""
        if self.seat is not None:
            self.seat.leave()
            self.seat = None
        agent, self.agent = self.agent, None
        if agent is not None:
            agent.forget(self.name)

    def _decline(self, fact: Fact) -> None:
        """Outside of a turn nobody is there to be asked."""
        ask = getattr(fact, "ask", None)
        if ask is not None and self.agent is not None and not isinstance(fact, facts.Withdrawn):
            self.agent.machine.refuse(ask, "no turn is under way")


class Sessions:
    """All sessions that are remembered, the one used last at the end, and where each of them stands."""

    def __init__(self, most: int, on_leave: OnSession, on_change: OnSession = _ignored) -> None:
        self._most = most
        self._on_leave = on_leave
        self._on_change = on_change
        self._sessions: dict[Session, frozenset[Place]] = {}
        self._standing: dict[Place, dict[Session, None]] = {}

    def __iter__(self) -> Iterator[Session]:
        return iter(list(self._sessions))

    def find(self, spec_id: str, workplace: Workplace, reading: Reading) -> Session | None:
        """The session that this request goes on with: the one that has seen most of it, an idle one first."""
        near = (self._standing.get(place, ()) for place in places_in(reading))
        found = [
            session
            for session in dict.fromkeys(one for there in near for one in there)
            if session.spec_id == spec_id
            and session.lane.workplace == workplace
            and reading.kind.goes_with(session.kind)
            and heard_of(session, reading) is not None
        ]
        return max(found, key=lambda session: (_seen(session), not session.is_busy), default=None)

    def use(self, session: Session) -> None:
        """It is used now; if there are too many, one that was not used for long goes."""
        self._sessions[session] = self._sessions.pop(session, frozenset())
        self._move(session)
        session.on_change = self._changed
        if len(self._sessions) > self._most:
            oldest = next((one for one in self._sessions if not one.is_busy), None)
            if oldest is not None:
                self.forget(oldest)

    def forget(self, session: Session) -> None:
        """It is not gone on with any more."""
        if session not in self._sessions:
            return
        session.on_change = _ignored
        self._move(session, is_gone=True)
        del self._sessions[session]
        self._on_leave(session)

    def _changed(self, session: Session) -> None:
        self._move(session)
        self._on_change(session)

    def _move(self, session: Session, *, is_gone: bool = False) -> None:
        """It stands somewhere else now, or nowhere."""
        before = self._sessions[session]
        now = frozenset() if is_gone else frozenset(place_of(past) for past in session.pasts)
        self._sessions[session] = now
        for place in before - now:
            there = self._standing[place]
            del there[session]
            if not there:
                del self._standing[place]
        for place in now - before:
            self._standing.setdefault(place, {})[session] = None


def heard_of(session: Session, reading: Reading) -> int | None:
    """How much of what the user says a session has heard, if the request goes on with it; else None."""
    return max((heard for past in session.pasts if (heard := known(past, reading)) is not None), default=None)


def _seen(session: Session) -> int:
    return max((len(past.items) for past in session.pasts), default=0)


def _in_mode(state: State, mode: str) -> State:
    """The state in another mode, which may be told of in one of two ways."""
    modes = replace(state.modes, current=mode) if state.modes is not None else None
    options = tuple(
        replace(option, current=mode)
        if option.category == "mode" and mode in {choice.id for choice in option.choices}
        else option
        for option in state.options
    )
    return replace(state, modes=modes, options=options)
