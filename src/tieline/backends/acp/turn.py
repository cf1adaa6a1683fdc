"""A turn: from a prompt to the end that the agent gives it, over as many legs as the client needs.

`turn_state.py` describes the states of a turn and is the place to start reading. This module performs what belongs to
the transitions. The turn receives every fact of its session: output of the agent becomes events, requests of the agent
go to the person, to the client's own tool for questions, or into the conversation as text, and calls of the client's
tools end the leg.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tieline.backends.acp.agent import Agent
from tieline.backends.acp.approvals import Asking
from tieline.backends.acp.calls import ClientCalls
from tieline.backends.acp.fact_events import Hearing
from tieline.backends.acp.fingerprint import Reading, after
from tieline.backends.acp.followups import Followups
from tieline.backends.acp.forms import Question, question_of
from tieline.backends.acp.host_requests import Serving
from tieline.backends.acp.inbox_items import Draft
from tieline.backends.acp.interview import Interview, Outcome
from tieline.backends.acp.leg_queue import Telling
from tieline.backends.acp.sessions import Session
from tieline.backends.acp.settings import Kit, Terms
from tieline.backends.acp.timers import Timers
from tieline.backends.acp.turn_state import LEG_OPEN, OVER, PARKED, TRANSITIONS, TurnEvent, TurnState
from tieline.model.content import Text, ToolResult
from tieline.model.errors import GatewayError
from tieline.model.events import Event, Failed, Finished, StopReason
from tieline.model.ports import Host
from tieline.model.request import ToolSpec
from tieline.wire.acp import facts
from tieline.wire.acp.facts import Fact
from tieline.wire.acp.schema import Block, TextBlock
from tieline.wire.shared.questions.tools import call_for, read_result

GIVEN_UP = "The call was given up: the turn is over."
MAX_BATCH_WAITS = 10
"""An agent that keeps writing beside its calls delays the end of the leg by at most this many batch windows."""
_SILENT_ENDINGS = {
    "max_turn_requests": "It reached its limit of requests in one turn.",
    "refusal": "It refused to go on.",
    "cancelled": "It cancelled the turn.",
}
KNOWN_ENDINGS = frozenset(["end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"])


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a turn has around it."""

    session: Session
    agent: Agent
    terms: Terms
    kit: Kit
    give_back: Callable[[Agent], None]


class Turn:
    """One turn of one session."""

    def __init__(self, around: Surroundings, host: Host, reading: Reading, tools: Sequence[ToolSpec]) -> None:
        self.state = TurnState.NEW
        self.host = host
        self.telling = Telling()
        self._around = around
        self._session, self._agent = around.session, around.agent
        self._tools = tuple(tools)
        self._before = around.session.pasts
        self._seen = reading.past
        self._followups = Followups()
        # Collaborators must not reference the turn: a reference cycle would keep it, and all its output, in memory.
        self._hearing = Hearing(self.telling, self._session.is_clients)
        tasks = around.kit.tasks
        folder = around.session.lane.workplace.folder
        self._asking = Asking(
            self._agent,
            tasks,
            self.telling.note,
            self._followups.feedback,
            around.terms.rules,
            folder if folder != around.terms.cwd else "",
        )
        self._serving = Serving(self._agent, around.terms, tasks, around.session.terminals, self._hearing.shown)
        self._calls = ClientCalls(self.telling, around.kit.mint_call)
        self._interview = Interview()
        self._loop = asyncio.get_running_loop()
        self._timers = Timers(self._loop)
        self._heard_at = self._loop.time()
        """When the agent was last heard of."""
        self._batch_until = 0.0
        """When output of the agent stops prolonging the batch window."""
        self._has_said = False
        """Whether the agent has said anything to the user in this turn."""

    def _advance(self, event: TurnEvent) -> bool:
        """Change the state as the table says. Return False, and change nothing, if the event does not apply now."""
        after = TRANSITIONS[self.state].get(event)
        if after is None:
            return False
        self.state = after
        return True

    # ── for the run ──

    @property
    def is_over(self) -> bool:
        """Whether nothing comes after the events that are queued."""
        return self.state in OVER

    @property
    def is_parked(self) -> bool:
        """Whether the turn goes on while no leg is open."""
        return self.state in PARKED

    @property
    def awaits_answer(self) -> bool:
        """Whether the next message of the conversation is an answer."""
        return self.state is TurnState.AWAITING_ANSWER

    @property
    def has_failed(self) -> bool:
        """Whether the turn ended with an error."""
        return isinstance(self.telling.last_ending, Failed)

    @property
    def pending(self) -> frozenset[str]:
        """The ids of the client's calls that wait for a result."""
        return self._calls.pending(is_leg_open=self.state in LEG_OPEN)

    def prompt(self, blocks: Sequence[Block]) -> None:
        """Send the prompt that begins the turn."""
        self._advance(TurnEvent.PROMPTED)
        self._session.turn = self
        if self._session.seat is not None:
            self._session.seat.caller = self._call
        self._say(blocks)
        self._watch()

    def begin(self) -> None:
        """Begin a leg. If the turn is over, the leg consists of what is queued."""
        self.telling.begin()
        if not self._advance(TurnEvent.LEG_BEGAN):
            return
        self._timers.stop("abandoned")
        self._heard_at = self._loop.time()
        if self._calls.is_due:
            self._batch()
        else:
            self._put_question()

    async def events(self) -> list[Event]:
        """The next events of the leg."""
        return await self.telling.events()

    def answer(self, results: Sequence[ToolResult], words: str, reading: Reading | None) -> None:
        """Results of calls, and the words that came along."""
        if reading is not None:
            self._seen = reading.past
            self.telling.take_said()
        if not self._calls.answer(results, words) and words:
            self._followups.add(words)

    def offered(self, tools: Sequence[ToolSpec]) -> None:
        """The client's tools are these now."""
        self._tools = tuple(tools)
        if self._session.seat is not None:
            self._session.seat.offer(tools)

    def hear(self, words: str, reading: Reading, host: Host) -> None:
        """Take the next message of the conversation as the answer to the question that was put."""
        self._advance(TurnEvent.ANSWERED)
        self._seen = reading.past
        self.telling.take_said()
        self.host = host
        outcome = self._interview.hear(words)
        if outcome is not None:
            self._settled(outcome)

    def leave(self) -> None:
        """The client takes no more events: cancel the turn, or wait a while if the next message may be an answer."""
        if self.awaits_answer:
            self._timers.start("abandoned", self._around.terms.park_for, self.cancel)
        else:
            self.cancel()

    def cancel(self) -> None:
        """Give up the turn. The session is free as soon as the agent has ended it."""
        if not self._advance(TurnEvent.CANCELLED):
            return
        self._agent.machine.cancel(self._session.name)
        self._agent.push()
        self._finish(is_torn=True)
        self._timers.start("cancelling", self._around.terms.cancel_within, self._cancel_timed_out)

    # ── facts and requests of the agent ──

    def receive(self, fact: Fact) -> None:
        """Handle a fact of the session."""
        self._heard_at = self._loop.time()
        if self.state is TurnState.BATCHING and self._heard_at < self._batch_until:
            self._batch()
        if isinstance(fact, facts.TurnEnded | facts.Refused):
            self._conclude(fact)
        elif self.is_over:
            self._decline(fact)
        elif self._hearing.hear(fact):
            if isinstance(fact, facts.TextChunk):
                self._followups.spoken()
                self._asking.refusal = ""
                self._has_said = True
            if self.telling.is_flooded:
                self._fail(GatewayError("upstream", "The client has not taken what the agent said; it was too much."))
        elif (handle := _HANDLERS.get(type(fact))) is not None:
            handle(self, fact)

    def _permission(self, fact: facts.PermissionAsked) -> None:
        if self._session.is_for_client(fact.call):
            # The client decides when it is called: it has its own ways to ask its user.
            self._asking.allow(fact)
            return
        self._hearing.call(fact.call)
        self._asking.permission(fact, self.host.human, Draft(self.telling.last_words, self._hearing.steps))

    def _plan_proposed(self, fact: facts.PlanProposed) -> None:
        self._asking.plan(fact, self.host.human)

    def _question(self, fact: facts.QuestionAsked) -> None:
        """A question goes to the person; if nobody is there, to the client's tool; else into the conversation."""
        question = question_of(fact)
        if self.host.human.is_present:
            self._asking.question(question, self.host.human)
            return
        call = call_for(question.form, self._tools)
        if call is None:
            self._interview.add(question)
            self._put_question()
            return
        self._calls.make(call.name, call.arguments, lambda result: self._told_by_tool(question, result))
        self._batch()

    def _told_by_tool(self, question: Question, result: ToolResult) -> None:
        if not self.is_over:
            self._asking.answer(question, read_result(result, question.form))

    def _question_done(self, fact: facts.QuestionCompleted) -> None:
        outcome = self._interview.done(fact.elicitation)
        if outcome is not None:
            self._advance(TurnEvent.WITHDRAWN)
            self._settled(outcome)

    def _withdrawn(self, fact: facts.Withdrawn) -> None:
        self._asking.withdraw(fact.ask)
        if self._interview.withdraw(fact.ask):
            self._advance(TurnEvent.WITHDRAWN)

    def _hand(self, fact: Any) -> None:
        self._serving.serve(fact, self.host)

    def _decline(self, fact: Fact) -> None:
        """Nobody is there any more."""
        ask = getattr(fact, "ask", None)
        if ask is not None and not isinstance(fact, facts.Withdrawn):
            self._agent.machine.refuse(ask, "the turn is over")

    # ── questions in the conversation ──

    def _put_question(self) -> None:
        """End the leg with the next question, if there is one and the leg has no calls to deliver."""
        if self._interview and self._advance(TurnEvent.QUESTION_PUT):
            self.telling.text(self._interview.put(), message="question")
            self._end_leg(Finished(reason=StopReason.END_TURN))

    def _settled(self, outcome: Outcome) -> None:
        self._asking.answer(outcome.question, outcome.filled)
        if outcome.words:
            self._followups.add(outcome.words)
        self._put_question()

    # ── calls of the client's tools ──

    async def _call(self, spec: ToolSpec, arguments: str) -> ToolResult:
        """The agent calls a tool of the client."""
        answer: asyncio.Future[ToolResult] = self._loop.create_future()

        def resolve(result: ToolResult) -> None:
            if not answer.done():
                answer.set_result(result)

        if self.is_over:
            return ToolResult(call_id="", content=(Text(text=GIVEN_UP),), is_error=True)
        self._heard_at = self._loop.time()
        call_id = self._calls.make(spec.name, arguments, resolve, freeform=spec.freeform)
        self._batch()
        try:
            return await answer
        finally:
            self._calls.drop(call_id)

    def _batch(self) -> None:
        """Open the batch window or prolong it, if a leg is open."""
        wait = self._around.terms.batch_wait
        if self._advance(TurnEvent.CALL_MADE):
            self._batch_until = self._loop.time() + MAX_BATCH_WAITS * wait
        if self.state is TurnState.BATCHING:
            self._timers.start("batch", wait, self._end_batch)

    def _end_batch(self) -> None:
        if not self._calls.is_due:
            self._advance(TurnEvent.BATCH_EMPTIED)
            self._put_question()
        elif self._advance(TurnEvent.BATCH_ENDED):
            self._end_leg(Finished(reason=StopReason.TOOL_USE))

    # ── the end ──

    def _conclude(self, fact: facts.TurnEnded | facts.Refused) -> None:
        """The agent has answered the prompt."""
        if self.state is TurnState.CANCELLING:
            self._advance(TurnEvent.AGENT_ENDED)
            self._timers.stop("cancelling")
            self._timers.start("settling", self._around.terms.settle, self._settle)
        elif isinstance(fact, facts.Refused):
            self._end(self._agent.ended() if self._agent.is_over else self._agent.refused(fact))
        elif not self.is_over:
            self._hearing.used(fact.usage)
            if words := self._followups.next():
                self.telling.pause()
                self._say([TextBlock(text=words)])
            else:
                self._end(fact)

    def _end(self, how: facts.TurnEnded | GatewayError) -> None:
        """End the turn for the client, after the agent has ended it."""
        if not self._advance(TurnEvent.AGENT_ENDED):
            return
        if isinstance(how, GatewayError):
            self.telling.end(how.failed())
            self._finish(is_torn=True)
        else:
            self._write_ending(how)
            self._end_leg(Finished(reason=how.reason))
            self._finish(is_torn=how.reason is StopReason.CANCELLED)
        self._release()

    def _write_ending(self, fact: facts.TurnEnded) -> None:
        if self._asking.refusal:
            # Some agents end their turn over a no without a word.
            self._explain(self._asking.refusal)
        elif not self._has_said:
            self._explain(_SILENT_ENDINGS.get(fact.said, ""))
        self._hearing.tell_usage()
        if fact.said not in KNOWN_ENDINGS:
            self.telling.note("stop_reason", f"the agent ended the turn with {fact.said!r}")

    def _explain(self, why: str) -> None:
        """Say why the turn ends here, since the agent did not: an empty answer tells nobody anything."""
        if why:
            self.telling.text(f"The agent stopped here. {why}", message="ending")

    def _fail(self, error: GatewayError) -> None:
        """Fail the turn for the client while the agent still works on it."""
        self.telling.end(error.failed())
        self.cancel()

    def _end_leg(self, ending: Finished) -> None:
        self.telling.end(ending)
        self._remember(is_torn=False)

    def _remember(self, *, is_torn: bool) -> None:
        self._seen = after(self._seen, self.telling.take_said(), is_torn=is_torn)
        self._session.pasts = (self._seen, *self._before) if is_torn else (self._seen,)

    def _finish(self, *, is_torn: bool) -> None:
        """Stop everything that belongs to a live turn."""
        self._timers.stop_all()
        if self._session.seat is not None:
            self._session.seat.caller = None
        self._asking.close()
        self._calls.fail(GIVEN_UP)
        if is_torn:
            self._remember(is_torn=True)

    def _cancel_timed_out(self) -> None:
        if self._advance(TurnEvent.CANCEL_TIMED_OUT):
            self._agent.retire()
            self._release()

    def _settle(self) -> None:
        if self._advance(TurnEvent.SETTLED):
            self._release()

    def _release(self) -> None:
        self._session.release()
        self._around.give_back(self._agent)

    # ── saying and waiting ──

    def _say(self, blocks: Sequence[Block]) -> None:
        self._agent.machine.prompt(self._session.name, blocks)
        self._agent.push()

    def _watch(self) -> None:
        """Mind that the agent says something, unless it waits for somebody."""
        terms = self._around.terms
        silent = self._loop.time() - self._heard_at
        if self._asking.is_waiting or self._calls or self._interview:
            self._heard_at, silent = self._loop.time(), 0.0
        if silent >= terms.stall_after:
            message = (
                f"{self._agent.spec.title} has said nothing for {terms.stall_after:g} seconds; the turn was ended."
            )
            self._fail(GatewayError("timeout", message, code="agent_silent"))
            return
        self._timers.start("watch", terms.stall_after - silent, self._watch)


_HANDLERS: dict[type, Callable[[Turn, Any], None]] = {
    facts.PermissionAsked: Turn._permission,
    facts.PlanProposed: Turn._plan_proposed,
    facts.QuestionAsked: Turn._question,
    facts.QuestionCompleted: Turn._question_done,
    facts.Withdrawn: Turn._withdrawn,
    facts.FileReadAsked: Turn._hand,
    facts.FileWriteAsked: Turn._hand,
    facts.TerminalAsked: Turn._hand,
    facts.TerminalUseAsked: Turn._hand,
}
