"""The calls of a run that the client has to run: which it has seen, and the results it sends."""

from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from tieline.model.content import Text, ToolResult
from tieline.wire.cursor._pb.agent_pb2 import AgentClientMessage
from tieline.wire.cursor.execs.dispatch import ExecDispatcher

_TAKES_USER_TEXT = frozenset(("mcp_args", "shell_args", "shell_stream_args"))
"""Execs whose result is text for the model. In others, text of the user would end up in a file or a listing."""


class SentResults(NamedTuple):
    """The messages that answer calls, and what became of the user's text."""

    messages: Sequence[AgentClientMessage]
    took_text: bool


class PendingCalls:
    """The calls of one run. `execs` answers the execs behind them."""

    def __init__(self, execs: ExecDispatcher) -> None:
        self._execs = execs
        self._kinds: dict[str, str] = {}
        """The kinds of the execs behind the calls, by call id."""
        self._unanswered: set[str] = set()
        self._late: set[str] = set()

    @property
    def unanswered(self) -> frozenset[str]:
        """The calls that the client has seen and not answered, aborted ones included: it may run them all the same."""
        return frozenset(self._unanswered)

    def add(self, call_id: str, kind: str, *, in_leg: bool) -> None:
        """Record a call. One that comes between two legs is seen with the next leg."""
        self._kinds[call_id] = kind
        (self._unanswered if in_leg else self._late).add(call_id)

    def begin_leg(self) -> None:
        """Record that the client sees the calls that came since the last leg."""
        self._unanswered |= self._late
        self._late.clear()

    def answer(self, results: Sequence[ToolResult], user_text: str) -> SentResults:
        """Return the messages for results of calls. The last result that can take the user's text gets it.

        Results of calls that were aborted or answered before are ignored.
        """
        self._unanswered.difference_update(result.call_id for result in results)
        awaited = {result.call_id: result for result in results if result.call_id in self._execs.pending}
        takers = [call_id for call_id in awaited if self._kinds.get(call_id) in _TAKES_USER_TEXT]
        if user_text and takers:
            awaited[takers[-1]] = _with_user_text(awaited[takers[-1]], user_text)
        messages: list[AgentClientMessage] = []
        for call_id, result in awaited.items():
            messages += self._execs.answer(result)
            self._kinds.pop(call_id, None)
        return SentResults(messages, bool(takers))

    def abort(self, exec_id: int) -> Sequence[AgentClientMessage]:
        """Forget an exec that the service no longer wants, and return the messages that confirm it."""
        messages = self._execs.confirm_abort(exec_id)
        self._kinds.pop(self._execs.abort(exec_id) or "", None)
        return messages


def _with_user_text(result: ToolResult, text: str) -> ToolResult:
    added = f"\n\nThe user also says:\n<user_message>\n{text}\n</user_message>"
    return replace(result, content=(*result.content, Text(text=added)))
