"""The states of a run, and the transitions between them.

Theory of operation
-------------------

A run uses one stream to the service; a leg is the part of the run that answers one request from the client. Two state
machines describe a run. They change independently, each according to its own table in this module:

`RunState` is the run as the client sees it: whether a leg is open, whether it has made calls, and whether the run is
over. A leg ends when its batch of calls is complete (at the next checkpoint, or after a moment of quiet), when a plan
has been shown, or when the run ends. Messages from the service that arrive between two legs belong to the next leg.

`ServiceTurnState` is the turn as the service sees it: whether the service has said that the turn is over. The message
`turn_ended` is not the end of the stream. Text and usage may follow. A later call or question reopens the turn. Once it
is answered, the service has to end the turn again.

Together, the two states determine whether the end of the stream is a success. It is a success only after `turn_ended`,
and only if no call is open; any other end is a failure. If a run ends while no leg is open, the next leg reports the
ending (`UNREPORTED`).

Until the run is over, events from the service are legal in every state; after that, `CursorRun` ignores them. An event
that is not in the table is therefore a mistake by the caller, such as beginning a leg while another one is open. It
raises `IllegalTransition`.
"""

from collections.abc import Mapping
from enum import Enum
from typing import TypeVar

State = TypeVar("State", bound=Enum)
Trigger = TypeVar("Trigger", bound=Enum)


class IllegalTransition(Exception):
    """Raised if the caller triggers an event that is not allowed in the current state of the run."""


class Transitions(dict[Trigger, State]):
    """Maps each event allowed in one state to the next state. Looking up any other event raises IllegalTransition."""

    def __init__(self, state: State, following: Mapping[Trigger, State]) -> None:
        super().__init__(following)
        self._state = state

    def __missing__(self, event: Trigger) -> State:
        raise IllegalTransition(f"{event} is not allowed in {self._state}")


def transition_table(rows: Mapping[State, Mapping[Trigger, State]]) -> Mapping[State, Transitions[Trigger, State]]:
    """Return a table in which `table[state][event]` is the next state."""
    return {state: Transitions(state, following) for state, following in rows.items()}


class RunState(Enum):
    """The state of a run as the client sees it."""

    NO_LEG = "no leg"
    """No leg is open: the first leg has not begun, or the run is between two legs."""
    LATE_CALLS = "late calls"
    """No leg is open, and a call has arrived since the last leg. The next leg delivers the call and ends at once."""
    LEG_OPEN = "leg open"
    """A leg is open, and the model is working."""
    CALLS_MADE = "calls made"
    """A leg is open and has made a call. It ends when the batch of calls is complete."""
    UNFRAMED = "unframed"
    """A leg is open, but the response does not consist of frames. The run collects the error page, and then fails."""
    UNREPORTED = "unreported"
    """The run is over, but no leg was open to report its ending."""
    FAILED = "failed"
    """The run is over, and the leg has reported a failure. The caller may still end the leg without an error."""
    OVER = "over"
    """The run is over, and a leg has reported its ending."""


class RunEvent(Enum):
    """An event that changes the state of a run."""

    LEG_BEGINS = "leg begins"
    """The caller begins a leg, or makes this run continue the leg of a failed run."""
    CALL = "call"
    """The service requests a tool call that the client must run."""
    LEG_ENDS = "leg ends"
    """The batch of calls is complete, or a plan was shown."""
    UNFRAMED = "unframed"
    """The first bytes of the response are not frames."""
    RUN_FINISHES = "run finishes"
    """The stream ended successfully."""
    RUN_FAILS = "run fails"
    """The stream ended with an error or too early, or the transport failed."""
    GIVEN_UP = "given up"
    """The caller ends the run and its leg without an error, instead of reporting a failure or waiting longer."""


class ServiceTurnState(Enum):
    """The state of the turn according to the service."""

    OPEN = "open"
    ENDED = "ended"
    """The service has sent `turn_ended`, and has not requested a call or asked a question since."""
    REOPENED = "reopened"
    """The service has requested a call or asked a question after `turn_ended`."""


class ServiceTurnEvent(Enum):
    """An event that changes the state of the turn."""

    TURN_ENDED = "turn ended"
    ASKED = "asked"
    """The service requested a tool call, or asked a question that needs an answer."""
    ANSWERED = "answered"
    """The result of a call, or the answer to a question, was sent to the service."""


# Names after "Seen in" are transcripts under tests/transcripts/cursor/, or tests, that require the transition.
RUN_TRANSITIONS = transition_table(
    {
        RunState.NO_LEG: {
            RunEvent.LEG_BEGINS: RunState.LEG_OPEN,
            RunEvent.CALL: RunState.LATE_CALLS,  # Seen in late_parallel_call
            RunEvent.RUN_FINISHES: RunState.UNREPORTED,
            RunEvent.RUN_FAILS: RunState.UNREPORTED,  # Seen in eof_while_parked
        },
        RunState.LATE_CALLS: {
            RunEvent.LEG_BEGINS: RunState.CALLS_MADE,  # Seen in late_parallel_call
            RunEvent.CALL: RunState.LATE_CALLS,
            RunEvent.RUN_FINISHES: RunState.UNREPORTED,
            RunEvent.RUN_FAILS: RunState.UNREPORTED,
        },
        RunState.LEG_OPEN: {
            RunEvent.CALL: RunState.CALLS_MADE,
            RunEvent.LEG_ENDS: RunState.NO_LEG,  # Seen in plan
            RunEvent.UNFRAMED: RunState.UNFRAMED,  # Seen in error_page
            RunEvent.RUN_FINISHES: RunState.OVER,
            RunEvent.RUN_FAILS: RunState.FAILED,
            RunEvent.GIVEN_UP: RunState.OVER,  # Seen in answer_only_stored
        },
        RunState.CALLS_MADE: {
            RunEvent.CALL: RunState.CALLS_MADE,  # Seen in three_parallel_tools
            RunEvent.LEG_ENDS: RunState.NO_LEG,
            RunEvent.RUN_FINISHES: RunState.OVER,
            RunEvent.RUN_FAILS: RunState.FAILED,  # Seen in end_with_a_call_open
            RunEvent.GIVEN_UP: RunState.OVER,
        },
        RunState.UNFRAMED: {
            RunEvent.RUN_FAILS: RunState.FAILED,  # Seen in error_page
            RunEvent.GIVEN_UP: RunState.OVER,
        },
        # If a leg begins when the run is over, it is opened, reports the ending, and is closed, all in one step.
        RunState.UNREPORTED: {RunEvent.LEG_BEGINS: RunState.LEG_OPEN},  # Seen in eof_while_parked
        RunState.FAILED: {
            RunEvent.LEG_BEGINS: RunState.LEG_OPEN,
            RunEvent.GIVEN_UP: RunState.OVER,  # Seen in test_a_leg_may_end_well_in_place_of_a_failure
        },
        RunState.OVER: {RunEvent.LEG_BEGINS: RunState.LEG_OPEN},  # Seen in test_a_leg_after_the_end_fails_at_once
    }
)

TURN_TRANSITIONS = transition_table(
    {
        ServiceTurnState.OPEN: {
            ServiceTurnEvent.TURN_ENDED: ServiceTurnState.ENDED,
            ServiceTurnEvent.ASKED: ServiceTurnState.OPEN,
            ServiceTurnEvent.ANSWERED: ServiceTurnState.OPEN,
        },
        ServiceTurnState.ENDED: {
            ServiceTurnEvent.TURN_ENDED: ServiceTurnState.ENDED,
            ServiceTurnEvent.ASKED: ServiceTurnState.REOPENED,  # Seen in after_the_turn
            ServiceTurnEvent.ANSWERED: ServiceTurnState.ENDED,
        },
        ServiceTurnState.REOPENED: {
            ServiceTurnEvent.TURN_ENDED: ServiceTurnState.ENDED,
            ServiceTurnEvent.ASKED: ServiceTurnState.REOPENED,
            ServiceTurnEvent.ANSWERED: ServiceTurnState.OPEN,  # Seen in after_the_turn
        },
    }
)

IN_LEG = frozenset((RunState.LEG_OPEN, RunState.CALLS_MADE, RunState.UNFRAMED))
ENDED = frozenset((RunState.UNREPORTED, RunState.FAILED, RunState.OVER))
