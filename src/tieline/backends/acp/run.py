"""A run with an agent: the legs of a turn. If the agent dies before it produces output, the turn is repeated once."""

from collections.abc import Sequence
from enum import Enum, auto
from typing import Self

from tieline.backends.acp.agent import ENDED
from tieline.backends.acp.fingerprint import fingerprint_of
from tieline.backends.acp.settings import AcpRuntime
from tieline.backends.acp.turn import AgentTurn
from tieline.backends.acp.turn_opener import TurnOpener
from tieline.model.content import ToolResult
from tieline.model.errors import GatewayError
from tieline.model.events import Batch, Event, Failed, Finished, Note, Started
from tieline.model.ports import Host, Leg
from tieline.model.request import Request


class AcpRun:
    """A run with an agent. If a question waits for the user's next message, the turn continues after the run ends."""

    def __init__(self, opener: TurnOpener, runtime: AcpRuntime, request: Request, host: Host) -> None:
        self._opener = opener
        self._runtime = runtime
        self._request = request
        self._host = host
        self._turn: AgentTurn | None = None
        self._has_retried = False

    @property
    def pending(self) -> frozenset[str]:
        return self._turn.pending if self._turn is not None else frozenset()

    def leg(self) -> Leg:
        return _AcpLeg(self)

    async def answer(self, results: Sequence[ToolResult], request: Request | None = None, words: str = "") -> None:
        """Submit tool results. `request` is the request that contains them, and `words` is the user's text in it.

        If the turn has failed or was cancelled, or if it is over and `words` is not empty, the next leg begins a new
        turn.
        """
        self._request = request or self._request
        turn = self._turn
        if turn is None:
            return
        if turn.is_over and request is not None and (turn.has_failed or words or not turn.queue.has_ending):
            self._turn = None
            return
        if request is not None:
            turn.set_tools(request.tools)
        turn.answer(results, words, fingerprint_of(request) if request is not None else None)

    async def aclose(self) -> None:
        turn, self._turn = self._turn, None
        if turn is not None:
            turn.leave()

    async def begin(self) -> Started:
        """Begin a leg of the current turn, or of a new turn if there is none."""
        if self._turn is None:
            self._turn = await self._begun()
        if self._turn.is_over and not self._turn.queue.has_ending:
            raise GatewayError("internal", "The run is over; there are no more legs.")
        self._turn.begin()
        return Started(id=self._runtime.mint_leg(), model=self._request.model)

    async def next_events(self) -> list[Event]:
        """Return the next events of the leg. If the agent dies before it has produced output, repeat the turn once."""
        while True:
            if self._turn is None:
                raise GatewayError("cancelled", "The run was closed.")
            events = await self._turn.events()
            if not self._may_retry(events):
                return events
            self._has_retried = True
            self._turn = await self._opener.begin(self._request, self._host)
            self._turn.begin()

    async def _begun(self) -> AgentTurn:
        try:
            return await self._opener.begin(self._request, self._host)
        except GatewayError as error:
            if error.code != ENDED or self._has_retried:
                raise
            self._has_retried = True
        return await self._opener.begin(self._request, self._host)

    def _may_retry(self, events: Sequence[Event]) -> bool:
        """Return whether to repeat the turn: the agent died before any output, and the turn was not repeated before."""
        last = events[-1]
        is_dead = isinstance(last, Failed) and last.code == ENDED
        return is_dead and not self._has_retried and self._turn is not None and not self._turn.queue.has_output


class _AcpLegState(Enum):
    NEW = auto()
    HOLDING = auto()
    """The leg has begun, but nothing except notes has arrived."""
    OPEN = auto()
    OVER = auto()


class _AcpLeg:
    """The events of one leg.

    `Started` is held back until the agent produces output. If the leg fails before that, its only event is the failure.
    """

    def __init__(self, run: AcpRun) -> None:
        self._run = run
        self._state = _AcpLegState.NEW
        self._held: list[Event] = []

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Batch:
        if self._state is _AcpLegState.OVER:
            raise StopAsyncIteration
        if self._state is _AcpLegState.NEW:
            self._held.append(await self._run.begin())
            self._state = _AcpLegState.HOLDING
        while True:
            events = self._released(await self._run.next_events())
            if events:
                return events

    async def aclose(self) -> None:
        """Do nothing: the owner of the run closes the run."""

    def _released(self, events: list[Event]) -> list[Event]:
        """Return the events to deliver now. While only notes have arrived, return no events."""
        is_over = isinstance(events[-1], Finished | Failed)
        if self._state is _AcpLegState.HOLDING:
            self._held += events
            if any(not isinstance(event, Started | Note | Failed) for event in self._held):
                events = self._held
            else:
                events = events[-1:] if is_over else []
        if is_over:
            self._state = _AcpLegState.OVER
        elif events:
            self._state = _AcpLegState.OPEN
        return events
