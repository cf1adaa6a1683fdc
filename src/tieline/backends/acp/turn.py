"""A turn under way: from a prompt to the end that the agent gives it, over as many legs as the client needs.

The turn hears every fact of its session. What the agent says and does becomes events; what it asks goes to the person,
to the client's own tool for questions, or into the conversation as text; what it calls of the client's tools ends the
leg and waits. It ends when the agent says so, when the agent dies, when it is silent for too long, or when nobody wants
it any more; whatever the reason, its session is free afterwards, or given up.
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
from tieline.backends.acp.forms import AgentQuestion, question_of
from tieline.backends.acp.host_requests import Serving
from tieline.backends.acp.inbox_items import Draft
from tieline.backends.acp.interview import Interview, Outcome
from tieline.backends.acp.leg_queue import Telling
from tieline.backends.acp.sessions import Session
from tieline.backends.acp.settings import Kit, Terms
from tieline.model.content import Text, ToolResult
from tieline.model.errors import GatewayError
from tieline.model.events import Event, Finished, StopReason
from tieline.model.ports import Host
from tieline.model.request import ToolSpec
from tieline.wire.acp import facts
from tieline.wire.acp.facts import Fact
from tieline.wire.acp.schema import Block, TextBlock
from tieline.wire.shared.questions.client_tool import call_for, read_result

GIVEN_UP = "The call was given up: the turn is over."
MOST_RESTS = 10
"""An agent that goes on talking beside its calls puts the end of a leg off for so many times the usual at most."""
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
        self.host = host
        self.is_over = False
        """Whether no more is to come after what waits to be taken."""
        self.has_failed = False
        self.telling = Telling()
        self._around = around
        self._session, self._agent = around.session, around.agent
        self._tools = tuple(tools)
        self._before = around.session.pasts
        self._seen = reading.past
        self._followups = Followups()
        # Nothing that a turn has may have the turn: it would stay, with all that came by it, until somebody cleans up.
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
        self._ended = asyncio.Event()
        self._is_cancelled = False
        self._has_said = False
        self._heard_at = self._loop.time()
        self._rest_until = 0.0
        self._timers: dict[str, asyncio.TimerHandle] = {}

    # ── for the run ──

    @property
    def pending(self) -> frozenset[str]:
        """The client's calls that wait for a result."""
        return frozenset() if self.is_over else self._calls.pending()

    @property
    def waits_for_words(self) -> bool:
        """Whether the next message of the conversation is an answer."""
        return not self.is_over and self._interview.is_waiting

    @property
    def is_parked(self) -> bool:
        """Whether it waits for the client, or for words, while no leg is open."""
        return not self.is_over and not self.telling.is_open

    def prompt(self, blocks: Sequence[Block]) -> None:
        """Say something to the agent, which begins the turn."""
        self._session.receiver = self._receive
        self._session.turn = self
        if self._session.seat is not None:
            self._session.seat.caller = self._call
        self._say(blocks)
        self._watch()

    def begin(self) -> None:
        """A leg begins."""
        self.telling.begin()
        self._timer("deadline", None, None)
        self._heard_at = self._loop.time()
        self._put_question()
        if self._calls.is_due:
            self._rest()

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
        """The next message of the conversation, which answers a question."""
        self._seen = reading.past
        self.telling.take_said()
        self.host = host
        outcome = self._interview.hear(words)
        if outcome is not None:
            self._settled(outcome)

    def leave(self) -> None:
        """Nobody takes the events any more: a question that was put as text waits a while, all else is cancelled."""
        if self.waits_for_words:
            self._timer("deadline", self._around.terms.park_for, self.cancel)
        else:
            self.cancel()

    def cancel(self) -> None:
        """Nobody wants this turn any more; the session is free as soon as the agent has ended it."""
        if self.is_over or self._is_cancelled:
            return
        self._is_cancelled = True
        self._agent.machine.cancel(self._session.name)
        self._agent.push()
        self._finish(is_torn=True)
        self._around.kit.tasks.start(self._await_end(), "waiting for a cancelled turn")

    # ── what the agent tells and asks ──

    def _receive(self, fact: Fact) -> None:
        self._heard_at = self._loop.time()
        if "rest" in self._timers and self._heard_at < self._rest_until:
            self._rest()
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
        elif (asked := _ASKS.get(type(fact))) is not None:
            asked(self, fact)

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
        self._rest()

    def _told_by_tool(self, question: AgentQuestion, result: ToolResult) -> None:
        if not self.is_over:
            self._asking.answer(question, read_result(result, question.form))

    def _question_done(self, fact: facts.QuestionCompleted) -> None:
        outcome = self._interview.done(fact.elicitation)
        if outcome is not None:
            self._settled(outcome)

    def _withdrawn(self, fact: facts.Withdrawn) -> None:
        self._asking.withdraw(fact.ask)
        self._interview.withdraw(fact.ask)

    def _hand(self, fact: Any) -> None:
        self._serving.serve(fact, self.host)

    def _decline(self, fact: Fact) -> None:
        """Nobody is there any more."""
        ask = getattr(fact, "ask", None)
        if ask is not None and not isinstance(fact, facts.Withdrawn):
            self._agent.machine.refuse(ask, "the turn is over")

    # ── questions in the conversation ──

    def _put_question(self) -> None:
        """Write the question that is next, and end the leg with it; calls of the same leg come first."""
        if not self._interview or self._interview.is_waiting or not self.telling.is_open or self._calls.is_due:
            return
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
        self._rest()
        try:
            return await answer
        finally:
            self._calls.drop(call_id)

    def _rest(self) -> None:
        """A call was made: the leg ends once nothing else has come for a moment."""
        if not self.telling.is_open:
            return
        wait = self._around.terms.batch_wait
        if "rest" not in self._timers:
            self._rest_until = self._loop.time() + MOST_RESTS * wait
        self._timer("rest", wait, self._rested)

    def _rested(self) -> None:
        self._timers.pop("rest", None)
        if not self.is_over and self.telling.is_open and self._calls.is_due:
            self._end_leg(Finished(reason=StopReason.TOOL_USE))

    # ── the end ──

    def _conclude(self, fact: facts.TurnEnded | facts.Refused) -> None:
        """The agent has answered the prompt."""
        if self.is_over:
            self._ended.set()
            return
        if isinstance(fact, facts.Refused):
            error = self._agent.ended() if self._agent.is_over else self._agent.refused(fact)
            self._ended.set()
            self._fail(error)
            return
        self._hearing.used(fact.usage)
        words = self._followups.next()
        if words:
            self.telling.pause()
            self._say([TextBlock(text=words)])
            return
        self._ended.set()
        if self._asking.refusal:
            # Some agents end their turn over a no without a word.
            self._explain(self._asking.refusal)
        elif not self._has_said:
            self._explain(_SILENT_ENDINGS.get(fact.said, ""))
        self._hearing.tell_usage()
        if fact.said not in KNOWN_ENDINGS:
            self.telling.note("stop_reason", f"the agent ended the turn with {fact.said!r}")
        self._end_leg(Finished(reason=fact.reason))
        self._finish(is_torn=fact.reason is StopReason.CANCELLED)
        self._release()

    def _explain(self, why: str) -> None:
        """Say why the turn ends here, since the agent did not: an empty answer tells nobody anything."""
        if why:
            self.telling.text(f"The agent stopped here. {why}", message="ending")

    def _fail(self, error: GatewayError) -> None:
        """The turn has failed for the client; if the agent still works on it, it is told to stop."""
        self.has_failed = True
        self.telling.end(error.failed())
        if not self._ended.is_set():
            self.cancel()
            return
        self._finish(is_torn=True)
        self._release()

    def _end_leg(self, ending: Finished) -> None:
        self.telling.end(ending)
        self._remember(is_torn=False)

    def _remember(self, *, is_torn: bool) -> None:
        self._seen = after(self._seen, self.telling.take_said(), is_torn=is_torn)
        self._session.pasts = (self._seen, *self._before) if is_torn else (self._seen,)

    def _finish(self, *, is_torn: bool) -> None:
        """Nothing more is told, nobody is waited for."""
        self.is_over = True
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        if self._session.seat is not None:
            self._session.seat.caller = None
        self._asking.close()
        self._calls.fail(GIVEN_UP)
        if is_torn:
            self._remember(is_torn=True)

    async def _await_end(self) -> None:
        terms = self._around.terms
        try:
            async with asyncio.timeout(terms.cancel_within):
                await self._ended.wait()
        except TimeoutError:
            self._agent.retire()
        else:
            await asyncio.sleep(terms.settle)
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
        self._timer("watch", terms.stall_after - silent, self._watch)

    def _timer(self, name: str, seconds: float | None, do: Callable[[], None] | None) -> None:
        """Do something later, instead of what was to be done under this name."""
        old = self._timers.pop(name, None)
        if old is not None:
            old.cancel()
        if seconds is not None and do is not None:
            self._timers[name] = self._loop.call_later(seconds, do)


_ASKS: dict[type, Callable[[Turn, Any], None]] = {
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
