"""The states of a turn and the events that move it between them.

Theory of operation
-------------------

A turn begins with a prompt to the agent and ends with the agent's answer to that prompt, or to the last follow-up (see
`followups.py`). Clients see it in legs, each of which is one HTTP request and the events that answer it. The agent
keeps working whether a leg is open or not, so the state of a turn says two things: whether a leg is open, and who has
to act next.

- Before and between legs (`BETWEEN_LEGS`), events are queued for the next leg. A leg that ended with calls to the
  client's tools leaves the turn in this state; the calls themselves wait in `client_calls.py`.
- While a leg is open, it streams (`STREAMING`). The first call to a client's tool opens a short window (`BATCHING`), so
  that calls made together reach the client together; when the window closes, the leg ends.
- If neither a person nor a client's tool can answer a question, the leg ends with the question as text
  (`AWAITING_ANSWER`), and the next message in the conversation is the answer.
- A turn is cancelled when its client abandons it, when its workspace is removed, or when it fails while the agent is
  still working on it. For the client, the turn is over, but its session stays busy until the agent has ended the turn
  (`CANCELLING`) and late updates have arrived (`SETTLING`).
- `CLOSED` is final: the session is free for the next turn.

`TRANSITIONS` is the complete state machine. An event without an entry for the current state has no effect: client,
agent and timers race with each other, so a late event is not an error.
"""

from collections.abc import Mapping
from enum import Enum, auto
from types import MappingProxyType


class TurnState(Enum):
    """The states of a turn."""

    NEW = auto()
    """The session is being opened; the prompt has not been sent."""
    BETWEEN_LEGS = auto()
    """The agent is working and no leg is open."""
    STREAMING = auto()
    """A leg is open and receives the agent's output."""
    BATCHING = auto()
    """A leg is open and will end soon, because the agent called one of the client's tools."""
    AWAITING_ANSWER = auto()
    """A leg ended with a question as text; the next message in the conversation answers it."""
    CANCELLING = auto()
    """The agent was asked to cancel the turn and has not ended it yet."""
    SETTLING = auto()
    """The agent has ended a cancelled turn; its late updates are dropped."""
    CLOSED = auto()
    """The turn is over and its session is free."""


class TurnEvent(Enum):
    """The events that may change the state of a turn."""

    PROMPTED = auto()
    """The prompt was sent to the agent."""
    LEG_BEGAN = auto()
    """A leg began: a client now reads the events of the turn."""
    CALL_MADE = auto()
    """The agent called one of the client's tools."""
    BATCH_ENDED = auto()
    """The wait for further calls is over, and there are calls to deliver to the client."""
    BATCH_EMPTIED = auto()
    """The wait for further calls is over, but the agent has cancelled its calls."""
    QUESTION_PUT = auto()
    """A question was written into the conversation as text."""
    ANSWERED = auto()
    """The message that answers the question has arrived."""
    WITHDRAWN = auto()
    """The agent no longer needs an answer to its question."""
    CANCELLED = auto()
    """The client abandoned the turn, its workspace was removed, or it failed while the agent was still working."""
    AGENT_ENDED = auto()
    """The agent answered the prompt or refused it, or its process ended."""
    CANCEL_TIMED_OUT = auto()
    """The agent did not end the cancelled turn in time."""
    SETTLED = auto()
    """The pause after a cancelled turn is over."""


_ENDS = {
    # The agent may end the turn while its own requests are open: permission_oddities.dialogue (it answers the prompt
    # while a permission request is open), the_end.dialogue (it dies). If no leg is open, the ending is queued for the
    # next leg.
    TurnEvent.AGENT_ENDED: TurnState.CLOSED,
    # session/cancel has no reply. The turn ends with the answer to the prompt, and until then the agent may still send
    # updates and requests: cancel.dialogue.
    TurnEvent.CANCELLED: TurnState.CANCELLING,
}

TRANSITIONS: Mapping[TurnState, Mapping[TurnEvent, TurnState]] = MappingProxyType(
    {
        TurnState.NEW: {TurnEvent.PROMPTED: TurnState.BETWEEN_LEGS},
        TurnState.BETWEEN_LEGS: {TurnEvent.LEG_BEGAN: TurnState.STREAMING, **_ENDS},
        TurnState.STREAMING: {
            TurnEvent.CALL_MADE: TurnState.BATCHING,
            TurnEvent.QUESTION_PUT: TurnState.AWAITING_ANSWER,
            **_ENDS,
        },
        TurnState.BATCHING: {
            TurnEvent.BATCH_ENDED: TurnState.BETWEEN_LEGS,
            # An agent may cancel a call before the client has seen it: test_acp_turn_state.py,
            # test_a_leg_without_calls_streams_again_after_the_batch_window.
            TurnEvent.BATCH_EMPTIED: TurnState.STREAMING,
            **_ENDS,
        },
        TurnState.AWAITING_ANSWER: {
            TurnEvent.ANSWERED: TurnState.BETWEEN_LEGS,
            # forms.dialogue: the agent withdraws a question with $/cancel_request, or reports with
            # elicitation/complete that the user has visited its URL.
            TurnEvent.WITHDRAWN: TurnState.BETWEEN_LEGS,
            # The client continues with the results of earlier calls, without an answer: the new leg asks again.
            # test_acp_turn_state.py, test_a_leg_that_begins_without_an_answer_repeats_the_question.
            TurnEvent.LEG_BEGAN: TurnState.STREAMING,
            **_ENDS,
        },
        TurnState.CANCELLING: {
            # cancel.dialogue and after_the_turn.dialogue: updates may follow the answer to a prompt. Without a pause
            # they would appear in the next turn.
            TurnEvent.AGENT_ENDED: TurnState.SETTLING,
            # test_acp_faults.py, test_an_agent_that_ignores_cancel_is_killed_with_all_of_its_group.
            TurnEvent.CANCEL_TIMED_OUT: TurnState.CLOSED,
        },
        TurnState.SETTLING: {TurnEvent.SETTLED: TurnState.CLOSED},
        TurnState.CLOSED: {},
    }
)

LEG_OPEN = frozenset([TurnState.STREAMING, TurnState.BATCHING])
"""The states in which a leg is open."""
PARKED = frozenset([TurnState.BETWEEN_LEGS, TurnState.AWAITING_ANSWER])
"""The states in which the turn is in progress although no leg is open."""
OVER = frozenset([TurnState.CANCELLING, TurnState.SETTLING, TurnState.CLOSED])
"""The states in which the turn is over for the client. Only events that are already queued are still delivered."""
