"""Queries from the service that wait for a person, for a client's tool, or for the user's next message.

A query becomes an inbox item if a person can be asked. Otherwise, a question is passed to the client's tool for asking
questions, if the client has one, and a plan is shown to the user as text; the user's next message approves or rejects
it. All other queries are answered at once; those that only a person is allowed to approve are refused.
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
"""The maximum number of queries that wait at once. Further queries are answered as if no person could be asked."""


class PendingQueries:
    """The undecided queries of one run.

    `mint` returns a new call id. `can_ask` returns whether there is a person who can answer an inbox item.
    """

    def __init__(
        self, settings: QuerySettings, *, mint: Callable[[], str], can_ask: Callable[[InboxItem], bool]
    ) -> None:
        self.inbox_items: dict[int, InboxItem] = {}
        """The inbox items that wait for a person, by query id."""
        self._settings = settings
        self._mint = mint
        self._can_ask = can_ask
        self._held: dict[int, InteractionQuery] = {}
        """The queries from which the inbox items were made, by query id."""
        self.called: dict[str, InteractionQuery] = {}
        """The queries that wait for the result of a client's tool, by call id."""
        self.due_plan: InteractionQuery | None = None
        """The query whose plan must still be shown to the user; None if there is none."""
        self.shown_plan: InteractionQuery | None = None
        """The query whose plan was shown to the user, or None. The user's next message approves or rejects the plan."""

    def receive(self, query: InteractionQuery, tools: Sequence[ToolSpec]) -> QueryReply | ToolCall | None:
        """Return the reply to a query, or a call to the client's tool that asks the user.

        Return None if the query waits for a person or for the user's next message, or if it is empty.
        """
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
        """Return the reply to the query behind an inbox item, and the reason why no person decided.

        The reply is None if no such query waits. The reason is empty if a person decided, or if it is unknown.
        """
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
        """Return the replies to the queries that waited for these tool results. Other results are ignored."""
        found = [(query, result) for result in results if (query := self.called.pop(result.call_id, None)) is not None]
        replies = [reply_with_result(query, result) or reply_to(query, self._settings) for query, result in found]
        return [reply for reply in replies if reply is not None]

    def show_plan(self) -> tuple[str, str]:
        """Move `due_plan` to `shown_plan`. Return the plan as text, and a text that asks whether to carry it out."""
        self.shown_plan, self.due_plan = self.due_plan, None
        return plan_as_text(self.shown_plan or InteractionQuery())

    def reply_to_plan(self, text: str) -> QueryReply | None:
        """Return the user's message `text` as the reply to `shown_plan` or `due_plan`, and clear both.

        Return None if both are None.
        """
        query, self.shown_plan = self.shown_plan or self.due_plan, None
        self.due_plan = None
        return reply_with_text(query, text) if query is not None else None
