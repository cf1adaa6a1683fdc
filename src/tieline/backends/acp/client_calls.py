"""Calls to the client's tools that wait for the client's results.

A call belongs to the leg in which it is sent to the client. If an agent makes a call between two legs, the call belongs
to the next leg and cannot be answered earlier.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from tieline.backends.acp.leg_queue import LegQueue
from tieline.model.content import Text, ToolCall, ToolResult

Resolve = Callable[[ToolResult], None]


class _WaitingCall(NamedTuple):
    leg: int
    resolve: Resolve


class ClientCalls:
    """The calls of one turn that wait for the client's results."""

    def __init__(self, queue: LegQueue, mint: Callable[[], str]) -> None:
        self._queue = queue
        self._mint = mint
        self._waiting: dict[str, _WaitingCall] = {}

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def pending(self, *, is_leg_open: bool) -> frozenset[str]:
        """Return the ids of the waiting calls that the client has received, including those of the open leg, if any."""
        return frozenset(
            call_id for call_id, call in self._waiting.items() if is_leg_open or call.leg < self._queue.leg
        )

    @property
    def is_due(self) -> bool:
        """Whether any waiting call belongs to the current leg."""
        return any(call.leg == self._queue.leg for call in self._waiting.values())

    def make(self, name: str, arguments: str, resolve: Resolve, *, freeform: bool = False) -> str:
        """Queue a call for the client and return its id. `resolve` is called with the result.

        If `freeform` is true, `arguments` is raw text instead of JSON.
        """
        call = ToolCall(id=self._mint(), name=name, arguments=arguments, freeform=freeform)
        self._waiting[call.id] = _WaitingCall(self._queue.leg, resolve)
        self._queue.call(call)
        return call.id

    def answer(self, results: Sequence[ToolResult], user_text: str) -> bool:
        """Pass each result to its waiting call, and append the user's text to the last result.

        Return whether any result belongs to a waiting call.
        """
        matching = [result for result in results if result.call_id in self._waiting]
        for result in matching[:-1]:
            self._waiting.pop(result.call_id).resolve(result)
        for result in matching[-1:]:
            text = (Text(text=f"The user says: {user_text}"),) if user_text else ()
            self._waiting.pop(result.call_id).resolve(replace(result, content=(*result.content, *text)))
        return bool(matching)

    def drop(self, call_id: str) -> None:
        """Remove a call whose result is no longer needed."""
        self._waiting.pop(call_id, None)

    def fail(self, reason: str) -> None:
        """Resolve all waiting calls with an error result that contains `reason`."""
        waiting, self._waiting = self._waiting, {}
        for call_id, call in waiting.items():
            call.resolve(ToolResult(call_id=call_id, content=(Text(text=reason),), is_error=True))
