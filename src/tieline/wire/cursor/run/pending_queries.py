"""Queries of the service that wait for a decision: of a person, of a tool of the client, or of the next message.

A query goes to a person if one can be asked; otherwise to the client's tool for questions, if it has one. Otherwise a
plan is shown to the user as text, and the next message approves or rejects it. All other queries are answered at once;
what only a person may allow is refused.
"""

from collections.abc import Callable, Sequence

from tieline.model.content import ToolCall, ToolResult
from tieline.model.inbox import Answer, InboxItem, PlanReview, Question
from tieline.model.request import ToolSpec
from tieline.wire.cursor._pb.queries_pb2 import InteractionQuery
from tieline.wire.cursor.run.inbox_items import (
    inbox_item_of,
    plan_as_text,
    reason_of,
    reply_with,
    reply_with_result,
    reply_with_text,
)
from tieline.wire.cursor.run.query_replies import QueryReply, QuerySettings, reply_to
from tieline.wire.shared.questions.client_tool import call_for

MAX_WAITING = 64
"""How many queries may wait at once; further ones are answered as if no person could be asked."""


class PendingQueries:
    """The queries of one run. `can_ask` says whether an item for a person will be put to one."""

    def __init__(
        self, settings: QuerySettings, *, mint: Callable[[], str], can_ask: Callable[[InboxItem], bool]
    ) -> None:
        self.inbox_items: dict[int, InboxItem] = {}
        """What a person is to be asked, by query id."""
        self._settings = settings
        self._mint = mint
        self._can_ask = can_ask
        self._held: dict[int, InteractionQuery] = {}
        """The queries behind the inbox items."""
        self.called: dict[str, InteractionQuery] = {}
        """The queries behind calls of the client's tool, by call id."""
        self.due_plan: InteractionQuery | None = None
        """A plan that has not been shown yet."""
        self.shown_plan: InteractionQuery | None = None
        """A plan that the user has seen, and the next message decides."""

    def receive(self, query: InteractionQuery, tools: Sequence[ToolSpec]) -> QueryReply | ToolCall | None:
        """Return the reply, or the call that asks the user; None if the query waits or asks nothing."""
        item = inbox_item_of(query, self._settings)
        if item is None or len(self.inbox_items) + len(self.called) >= MAX_WAITING:
            return reply_to(query, self._settings)
        if self._can_ask(item):
            self.inbox_items[query.id] = item
            self._held[query.id] = query
            return None
        if isinstance(item, Question) and (call := call_for(item, tools)) is not None:
            made = ToolCall(id=self._mint(), name=call.name, arguments=call.arguments)
            self.called[made.id] = query
            return made
        if isinstance(item, PlanReview) and self.due_plan is None and self.shown_plan is None:
            self.due_plan = query
            return None
        return reply_to(query, self._settings)

    def decided(self, query_id: int, answer: Answer | None) -> tuple[QueryReply | None, str]:
        """Return the reply to a query that a person was asked, and the reason if the person did not decide."""
        query = self._held.pop(query_id, None)
        self.inbox_items.pop(query_id, None)
        if query is None:
            return None, ""
        reply = reply_with(query, answer)
        if reply is not None:
            return reply, ""
        reason = reason_of(answer)
        return reply_to(query, self._settings, reason), reason

    def answered(self, results: Sequence[ToolResult]) -> list[QueryReply]:
        """Return the replies to the queries behind these calls of the client's tool."""
        found = [(query, result) for result in results if (query := self.called.pop(result.call_id, None)) is not None]
        replies = [reply_with_result(query, result) or reply_to(query, self._settings) for query, result in found]
        return [reply for reply in replies if reply is not None]

    def show_plan(self) -> tuple[str, str]:
        """Return the plan that is due as text, and the question about it; the next message decides."""
        self.shown_plan, self.due_plan = self.due_plan, None
        return plan_as_text(self.shown_plan or InteractionQuery())

    def reply_to_plan(self, text: str) -> QueryReply | None:
        """Return the reply to the plan that the user's message gives; None if no plan waits."""
        query, self.shown_plan = self.shown_plan or self.due_plan, None
        self.due_plan = None
        return reply_with_text(query, text) if query is not None else None
