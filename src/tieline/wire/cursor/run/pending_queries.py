"""The service's questions that wait for a decision: of a person, of the client's own tool, or of the next message.

A question goes to a person if one can be asked; else to the client's tool for asking, if it has one. A plan is shown to
the user as text otherwise, and the next message approves or rejects it. Anything else is answered at once, and what
only a person may allow is refused.
"""

from collections.abc import Callable, Sequence

from tieline.model.content import ToolCall, ToolResult
from tieline.model.inbox import Answer, InboxItem, PlanReview, Question
from tieline.model.request import ToolSpec
from tieline.wire.cursor._pb.queries_pb2 import InteractionQuery
from tieline.wire.cursor.run.approvals import (
    ask_of,
    plan_as_text,
    reason_of,
    reply_with,
    reply_with_result,
    reply_with_words,
)
from tieline.wire.cursor.run.queries import Queries, Reply, reply_to
from tieline.wire.shared.questions.client_tool import call_for

MOST = 64
"""How many questions may wait at once; more are answered as if nobody could be asked."""


class PendingQueries:
    """The questions of one run. `hold` tells of something a person can be asked whether one will be."""

    def __init__(self, settings: Queries, *, mint: Callable[[], str], hold: Callable[[InboxItem], bool]) -> None:
        self.asks: dict[int, InboxItem] = {}
        """What a person is to be asked, by the ids of the questions."""
        self.plan_waits = False
        """Whether the user was shown a plan, which the next message decides."""
        self._settings = settings
        self._mint = mint
        self._hold = hold
        self._held: dict[int, InteractionQuery] = {}
        self._called: dict[str, InteractionQuery] = {}
        self._plan: InteractionQuery | None = None

    @property
    def has_calls(self) -> bool:
        """Whether a question waits for the client's own tool."""
        return bool(self._called)

    @property
    def plan_is_due(self) -> bool:
        """Whether there is a plan that the user has not been shown."""
        return self._plan is not None and not self.plan_waits

    def receive(self, query: InteractionQuery, tools: Sequence[ToolSpec]) -> Reply | ToolCall | None:
        """Return the answer, or the call that asks; None if the question waits, or is none."""
        ask = ask_of(query, self._settings)
        if ask is None or len(self.asks) + len(self._called) >= MOST:
            return reply_to(query, self._settings)
        if self._hold(ask):
            self.asks[query.id] = ask
            self._held[query.id] = query
            return None
        if isinstance(ask, Question) and (call := call_for(ask, tools)) is not None:
            made = ToolCall(id=self._mint(), name=call.name, arguments=call.arguments)
            self._called[made.id] = query
            return made
        if isinstance(ask, PlanReview) and self._plan is None:
            self._plan = query
            return None
        return reply_to(query, self._settings)

    def decided(self, query_id: int, answer: Answer | None) -> tuple[Reply | None, str]:
        """Return the answer to a question a person was asked, and why nobody decided it if nobody did."""
        query = self._held.pop(query_id, None)
        self.asks.pop(query_id, None)
        if query is None:
            return None, ""
        reply = reply_with(query, answer)
        if reply is not None:
            return reply, ""
        reason = reason_of(answer)
        return reply_to(query, self._settings, reason), reason

    def answered(self, results: Sequence[ToolResult]) -> list[Reply]:
        """Return the answers to the questions behind these calls of the client's own tool."""
        found = [(query, result) for result in results if (query := self._called.pop(result.call_id, None)) is not None]
        replies = [reply_with_result(query, result) or reply_to(query, self._settings) for query, result in found]
        return [reply for reply in replies if reply is not None]

    def show_plan(self) -> tuple[str, str]:
        """Return the plan that is due as text, and the question about it: from now on the next message decides."""
        self.plan_waits = True
        return plan_as_text(self._plan or InteractionQuery())

    def hear(self, words: str) -> Reply | None:
        """Return the answer to the plan that the user's message gives."""
        query, self._plan, self.plan_waits = self._plan, None, False
        return reply_with_words(query, words) if query is not None else None
