"""Calls that an agent makes of the client's tools, and that wait for the client's results.

A call belongs to the leg in which the client sees it. One that comes between two legs is seen in the next, and until
then nobody can be expected to answer it.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from tieline.backends.acp.leg_queue import Telling
from tieline.model.content import Text, ToolCall, ToolResult

Resolve = Callable[[ToolResult], None]


class _Waiting(NamedTuple):
    leg: int
    resolve: Resolve


class ClientCalls:
    """The calls of one turn."""

    def __init__(self, telling: Telling, mint: Callable[[], str]) -> None:
        self._telling = telling
        self._mint = mint
        self._waiting: dict[str, _Waiting] = {}

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def pending(self, *, is_leg_open: bool) -> frozenset[str]:
        """Return the ids of the calls that the client has seen, or will have seen when the open leg ends."""
        return frozenset(
            call_id for call_id, call in self._waiting.items() if is_leg_open or call.leg < self._telling.leg
        )

    @property
    def is_due(self) -> bool:
        """Whether the leg that is open has calls in it that wait."""
        return any(call.leg == self._telling.leg for call in self._waiting.values())

    def make(self, name: str, arguments: str, resolve: Resolve, *, freeform: bool = False) -> str:
        """Make a call; its result goes to `resolve`."""
        call = ToolCall(id=self._mint(), name=name, arguments=arguments, freeform=freeform)
        self._waiting[call.id] = _Waiting(self._telling.leg, resolve)
        self._telling.call(call)
        return call.id

    def answer(self, results: Sequence[ToolResult], words: str) -> bool:
        """Give results to the calls that wait for them; the user's words go with the last. Whether they did."""
        known = [result for result in results if result.call_id in self._waiting]
        for result in known[:-1]:
            self._waiting.pop(result.call_id).resolve(result)
        for result in known[-1:]:
            said = (Text(text=f"The user says: {words}"),) if words else ()
            self._waiting.pop(result.call_id).resolve(replace(result, content=(*result.content, *said)))
        return bool(known)

    def drop(self, call_id: str) -> None:
        """Whoever made this call does not wait any more."""
        self._waiting.pop(call_id, None)

    def fail(self, reason: str) -> None:
        """No result will come."""
        waiting, self._waiting = self._waiting, {}
        for call_id, call in waiting.items():
            call.resolve(ToolResult(call_id=call_id, content=(Text(text=reason),), is_error=True))
