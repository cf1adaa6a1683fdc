"""A turn: from a prompt to the agent's answer, in as many legs as the client needs.

`turn_state.py` describes the states of a turn and is the place to start reading. This module performs the actions that
belong to the transitions. A turn receives every fact (parsed message) for its session. Output from the agent becomes
events. A question from the agent is passed to the person or to the client's own tool for questions, or is written into
the conversation as text. Calls to the client's tools end the leg.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tieline.backends.acp.agent import Agent
from tieline.backends.acp.client_calls import ClientCalls
from tieline.backends.acp.fact_events import FactTranslator
from tieline.backends.acp.fingerprint import RequestFingerprint, extend_history
from tieline.backends.acp.followups import Followups
from tieline.backends.acp.forms import AgentQuestion, question_of
from tieline.backends.acp.host_requests import HostRequests
from tieline.backends.acp.inbox_items import PlanDraft
from tieline.backends.acp.interview import Interview, InterviewOutcome
from tieline.backends.acp.leg_queue import LegQueue
from tieline.backends.acp.sessions import AgentSession
from tieline.backends.acp.settings import AcpBackendSettings, AcpRuntime, AgentHost
from tieline.backends.acp.timers import Timers
from tieline.backends.acp.turn_inbox import TurnInbox
from tieline.backends.acp.turn_state import LEG_OPEN, OVER, PARKED, TRANSITIONS, TurnEvent, TurnState
from tieline.model.content import Text, ToolResult
from tieline.model.errors import GatewayError
from tieline.model.events import Event, Failed, Finished, StopReason
from tieline.model.inbox import QuestionAnswer
from tieline.model.ports import Host
from tieline.model.request import ToolSpec
from tieline.wire.acp import facts
from tieline.wire.acp.facts import Fact
from tieline.wire.acp.schema import ContentBlock, TextContent
from tieline.wire.shared.questions.client_tool import call_for, read_result

GIVEN_UP = "The call was cancelled because the turn is over."
MAX_BATCH_WAITS = 10
"""The end of a leg is delayed by at most this many times `batch_wait`, even if the agent keeps sending output."""
_SILENT_ENDINGS = {
    "max_turn_requests": "It reached its limit of requests in one turn.",
    "refusal": "It refused to continue.",
    "cancelled": "It cancelled the turn.",
}
KNOWN_ENDINGS = frozenset(["end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"])


@dataclass(frozen=True, slots=True)
class TurnContext:
    """The session and the services that a turn uses. When the turn is over, `give_back` is called with the agent."""

    session: AgentSession
    agent: Agent
    settings: AcpBackendSettings
    runtime: AcpRuntime
    give_back: Callable[[Agent], None]
    host: AgentHost


class AgentTurn:
    """One turn of an agent session. Its events are read leg by leg."""

    def __init__(
        self, context: TurnContext, host: Host, fingerprint: RequestFingerprint, tools: Sequence[ToolSpec]
    ) -> None:
        self.state = TurnState.NEW
        self.host = host
        self.queue = LegQueue()
        self._context = context
        self._session, self._agent = context.session, context.agent
        self._tools = tuple(tools)
        self._before = context.session.histories
        self._seen = fingerprint.history
        self._followups = Followups()
        # Collaborators must not reference the turn: a reference cycle would keep it, and all its output, in memory.
        self._translator = FactTranslator(self.queue, self._session.is_clients)
        tasks = context.runtime.tasks
        folder = context.session.process_key.workplace.folder
        self._inbox = TurnInbox(
            self._agent,
            tasks,
            self.queue.note,
            self._followups.feedback,
            context.host.rules,
            folder if folder != context.host.cwd else "",
        )
        self._host_requests = HostRequests(
            self._agent, context.host, tasks, context.session.terminals, self._translator.shown
        )
        self._calls = ClientCalls(self.queue, context.runtime.mint_call)
        self._interview = Interview()
        self._loop = asyncio.get_running_loop()
        self._timers = Timers(self._loop)
        self._active_at = self._loop.time()
        """The time from which the agent's silence is measured."""
        self._batch_until = 0.0
        """The time after which further output from the agent no longer delays the end of the leg."""
        self._has_text = False
        """Whether the turn has produced text for the user."""
        self._is_left = False
        """Whether the client has left while the turn waited for an answer. Further output is not delivered."""

    def _advance(self, event: TurnEvent) -> bool:
        """Change the state according to `TRANSITIONS`. Return False if the event has no effect in the current state."""
        after = TRANSITIONS[self.state].get(event)
        if after is None:
            return False
        self.state = after
        return True

    # ── for the run ──

    @property
    def is_over(self) -> bool:
        """Whether the turn is over for the client: no further events will be queued."""
        return self.state in OVER

    @property
    def is_parked(self) -> bool:
        """Whether the turn is in progress although no leg is open."""
        return self.state in PARKED

    @property
    def awaits_answer(self) -> bool:
        """Whether the turn waits for the next message in the conversation, which answers a question."""
        return self.state is TurnState.AWAITING_ANSWER

    @property
    def has_failed(self) -> bool:
        """Whether the turn ended with an error."""
        return isinstance(self.queue.last_ending, Failed)

    @property
    def pending(self) -> frozenset[str]:
        """The ids of the calls to the client's tools that wait for a result."""
        return self._calls.pending(is_leg_open=self.state in LEG_OPEN)

    def prompt(self, blocks: Sequence[ContentBlock]) -> None:
        """Send the prompt that begins the turn."""
        self._advance(TurnEvent.PROMPTED)
        self._session.turn = self
        if self._session.endpoint is not None:
            self._session.endpoint.caller = self._call
        self._send_prompt(blocks)
        self._watch()

    def begin(self) -> None:
        """Begin a leg. If the turn is already over, the leg consists of the events that are still queued."""
        self.queue.begin()
        if not self._advance(TurnEvent.LEG_BEGAN):
            return
        self._timers.stop("abandoned")
        self._is_left = False
        self._active_at = self._loop.time()
        if self._calls.is_due:
            self._batch()
        else:
            self._put_question()

    async def events(self) -> list[Event]:
        """Return the next events of the leg."""
        return await self.queue.events()

    def answer(self, results: Sequence[ToolResult], words: str, fingerprint: RequestFingerprint | None) -> None:
        """Pass tool results, and the text that the user sent with them, to the agent.

        `fingerprint` is the fingerprint of the request that contains the results, or None if there was no request.
        """
        if fingerprint is not None:
            self._seen = fingerprint.history
            self.queue.take_texts()
        if not self._calls.answer(results, words) and words:
            self._followups.add(words)

    def set_tools(self, tools: Sequence[ToolSpec]) -> None:
        """Replace the tools that the client offers to the agent."""
        self._tools = tuple(tools)
        if self._session.endpoint is not None:
            self._session.endpoint.offer(tools)

    def take_answer(self, text: str, fingerprint: RequestFingerprint, host: Host) -> None:
        """Use the user's message as the answer to the question that was written into the conversation.

        `fingerprint` and `host` belong to the request that contains the message.
        """
        self._advance(TurnEvent.ANSWERED)
        self._seen = fingerprint.history
        self.queue.take_texts()
        self.host = host
        outcome = self._interview.answer(text)
        if outcome is not None:
            self._settled(outcome)

    def leave(self) -> None:
        """Cancel the turn, because its client has left. If the turn awaits an answer, wait `park_for` seconds first."""
        if self.awaits_answer:
            self._is_left = True
            self._timers.start("abandoned", self._context.settings.park_for, self.cancel)
        else:
            self.cancel()

    def cancel(self) -> None:
        """Cancel the turn. Its session becomes free when the agent has ended it, or after `cancel_within` seconds."""
        if not self._advance(TurnEvent.CANCELLED):
            return
        self._agent.machine.cancel(self._session.name)
        self._host_requests.cancel()
        self._finish(is_torn=True)
        self._timers.start("cancelling", self._context.settings.cancel_within, self._cancel_timed_out)

    # ── facts and requests from the agent ──

    def receive(self, fact: Fact) -> None:
        """Handle a fact (a parsed message from the agent) that concerns the session."""
        self._active_at = self._loop.time()
        if self.state is TurnState.BATCHING and self._active_at < self._batch_until:
            self._batch()
        if isinstance(fact, facts.TurnEnded | facts.RequestRefused):
            self._conclude(fact)
        elif self.is_over and not isinstance(fact, facts.TerminalUseRequested):
            # An agent that was cancelled may still end the commands that it has started.
            self._decline(fact)
        elif self._translator.translate(fact):
            if isinstance(fact, facts.TextChunk):
                self._followups.confirm()
                self._inbox.refusal = ""
                self._has_text = True
            if self.queue.is_full:
                self._fail(
                    GatewayError(
                        "upstream", "The client did not read the agent's output, and too much has accumulated."
                    )
                )
        elif (handle := _HANDLERS.get(type(fact))) is not None:
            handle(self, fact)

    def _permission(self, fact: facts.PermissionRequested) -> None:
        if self._session.is_for_client(fact.call):
            # The client itself decides whether to run its tool, and may ask its user.
            self._inbox.allow(fact)
            return
        self._translator.call(fact.call)
        self._inbox.permission(fact, self.host.human, PlanDraft(self.queue.last_text, self._translator.steps))

    def _plan_proposed(self, fact: facts.PlanProposed) -> None:
        self._inbox.plan(fact, self.host.human)

    def _question(self, fact: facts.QuestionAsked) -> None:
        """Pass a question to the person if one is present. Otherwise, call the client's tool for questions.

        If the client has no such tool, ask in the conversation.
        """
        question = question_of(fact)
        if self.host.human.is_present:
            self._inbox.question(question, self.host.human)
            return
        call = call_for(question.form, self._tools)
        if call is None:
            self._interview.add(question)
            self._put_question()
            return
        self._calls.make(call.name, call.arguments, lambda result: self._answered_by_tool(question, result))
        self._batch()

    def _answered_by_tool(self, question: AgentQuestion, result: ToolResult) -> None:
        if not self.is_over:
            self._inbox.answer(question, read_result(result, question.form))

    def _question_done(self, fact: facts.QuestionCompleted) -> None:
        self._inbox.complete(fact.elicitation)
        question = self._interview.find(fact.elicitation)
        if question is not None:
            self._drop_question(question.number)
            self._inbox.answer(question, QuestionAnswer())

    def _withdrawn(self, fact: facts.Withdrawn) -> None:
        self._inbox.withdraw(fact.number)
        self._host_requests.withdraw(fact.number)
        self._drop_question(fact.number)

    def _drop_question(self, number: int) -> None:
        if self._interview.withdraw(number):
            self._advance(TurnEvent.WITHDRAWN)

    def _host_request(self, fact: Any) -> None:
        self._host_requests.serve(fact, self.host)

    def _decline(self, fact: Fact) -> None:
        """Refuse a request that the agent sends after the end of the turn."""
        if isinstance(fact, facts.AgentRequest):
            self._agent.machine.refuse(fact.number, "the turn is over")

    # ── questions in the conversation ──

    def _put_question(self) -> None:
        """If a question is pending and the leg has no calls to deliver, end the leg with the question as text."""
        if self._interview and self._advance(TurnEvent.QUESTION_PUT):
            self.queue.text(self._interview.text(), message="question")
            self._end_leg(Finished(reason=StopReason.END_TURN))

    def _settled(self, outcome: InterviewOutcome) -> None:
        self._inbox.answer(outcome.question, outcome.filled)
        if outcome.text:
            self._followups.add(outcome.text)
        self._put_question()

    # ── calls to the client's tools ──

    async def _call(self, spec: ToolSpec, arguments: str) -> ToolResult:
        """Call one of the client's tools and wait for its result."""
        answer: asyncio.Future[ToolResult] = self._loop.create_future()

        def resolve(result: ToolResult) -> None:
            if not answer.done():
                answer.set_result(result)

        if self.is_over:
            return ToolResult(call_id="", content=(Text(text=GIVEN_UP),), is_error=True)
        self._active_at = self._loop.time()
        call_id = self._calls.make(spec.name, arguments, resolve, freeform=spec.freeform)
        self._batch()
        try:
            return await answer
        finally:
            self._calls.drop(call_id)

    def _batch(self) -> None:
        """If a leg is open, wait for further calls before the leg is ended. If a wait is in progress, restart it."""
        wait = self._context.settings.batch_wait
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

    def _conclude(self, fact: facts.TurnEnded | facts.RequestRefused) -> None:
        """Handle the agent's answer to the prompt: send the next follow-up, or end the turn."""
        if self.state is TurnState.CANCELLING:
            self._advance(TurnEvent.AGENT_ENDED)
            self._timers.stop("cancelling")
            self._timers.start("settling", self._context.settings.settle, self._settle)
        elif isinstance(fact, facts.RequestRefused):
            self._end(self._agent.ended() if self._agent.is_over else self._agent.refused(fact))
        elif not self.is_over:
            self._translator.add_usage(fact.usage)
            if text := self._followups.next():
                self.queue.end_message()
                self._send_prompt([TextContent(text=text)])
            else:
                self._end(fact)

    def _end(self, how: facts.TurnEnded | GatewayError) -> None:
        """End the turn for the client, because the agent has ended it."""
        if not self._advance(TurnEvent.AGENT_ENDED):
            return
        if isinstance(how, GatewayError):
            self.queue.end(how.failed())
            self._finish(is_torn=True)
        else:
            self._write_ending(how)
            self._end_leg(Finished(reason=how.reason))
            self._finish(is_torn=self._is_left or how.reason is StopReason.CANCELLED)
        self._release()

    def _write_ending(self, fact: facts.TurnEnded) -> None:
        if self._inbox.refusal:
            # Some agents end their turn after a denial without any text.
            self._explain(self._inbox.refusal)
        elif not self._has_text:
            self._explain(_SILENT_ENDINGS.get(fact.stop_reason, ""))
        self._translator.queue_usage()
        if fact.stop_reason not in KNOWN_ENDINGS:
            self.queue.note("stop_reason", f"the agent ended the turn with {fact.stop_reason!r}")

    def _explain(self, why: str) -> None:
        """Add text that tells the user why the agent stopped, unless `why` is empty."""
        if why:
            self.queue.text(f"The agent stopped here. {why}", message="ending")

    def _fail(self, error: GatewayError) -> None:
        """Fail the turn for the client although the agent is still working on it."""
        self.queue.end(error.failed())
        self.cancel()

    def _end_leg(self, ending: Finished) -> None:
        self.queue.end(ending)
        self._remember(is_torn=False)

    def _remember(self, *, is_torn: bool) -> None:
        self._seen = extend_history(self._seen, self.queue.take_texts(), is_torn=is_torn)
        self._session.histories = (self._seen, *self._before) if is_torn else (self._seen,)

    def _finish(self, *, is_torn: bool) -> None:
        """Stop the turn's timers, withdraw its inbox items, and answer its waiting calls with an error.

        If `is_torn` is true, the turn was cut off, and the client may not have seen all of its output.
        """
        self._timers.stop_all()
        if self._session.endpoint is not None:
            self._session.endpoint.caller = None
        self._inbox.close()
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
        self._context.give_back(self._agent)

    # ── prompts and silence ──

    def _send_prompt(self, blocks: Sequence[ContentBlock]) -> None:
        self._agent.machine.prompt(self._session.name, blocks)
        self._agent.push()

    def _watch(self) -> None:
        """Fail the turn if the agent has been silent for too long, although it did not wait for anything."""
        settings = self._context.settings
        silent = self._loop.time() - self._active_at
        if self._inbox.is_waiting or self._calls or self._interview or self._host_requests.is_busy:
            self._active_at, silent = self._loop.time(), 0.0
        if silent >= settings.stall_after:
            message = f"{self._agent.spec.title} was silent for {settings.stall_after:g} seconds; the turn was ended."
            self._fail(GatewayError("timeout", message, code="agent_silent"))
            return
        self._timers.start("watch", settings.stall_after - silent, self._watch)


_HANDLERS: dict[type, Callable[[AgentTurn, Any], None]] = {
    facts.PermissionRequested: AgentTurn._permission,
    facts.PlanProposed: AgentTurn._plan_proposed,
    facts.QuestionAsked: AgentTurn._question,
    facts.QuestionCompleted: AgentTurn._question_done,
    facts.Withdrawn: AgentTurn._withdrawn,
    facts.FileReadRequested: AgentTurn._host_request,
    facts.FileWriteRequested: AgentTurn._host_request,
    facts.TerminalRequested: AgentTurn._host_request,
    facts.TerminalUseRequested: AgentTurn._host_request,
}
