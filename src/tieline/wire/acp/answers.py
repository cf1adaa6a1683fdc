"""The open requests of an agent, and the client's answers to them.

Each request is answered once, and every answering method returns whether the request was still open. It may have been
withdrawn while a person was deciding, because the turn was cancelled or the agent needs no answer any more.
"""

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

from tieline.wire.acp import extensions, schema
from tieline.wire.acp.facts import PermissionOption
from tieline.wire.acp.questions import Action, Content
from tieline.wire.framing.jsonrpc import INTERNAL_ERROR, REQUEST_CANCELLED, JsonRpcPeer

Kind = Literal["permission", "question", "plan", "read", "create", "output", "wait", "done"]
Spell = Callable[[Action, Content], schema.AcpShape]

PERSON_KINDS: frozenset[Kind] = frozenset(["permission", "question", "plan"])
"""Requests that only a person can answer. They end with the turn."""

_CANCELLED = schema.PermissionResult(outcome=schema.PermissionOutcome(outcome="cancelled"))
_NOTHING: Content = {}


class OpenRequest(NamedTuple):
    """A request without an answer. `spell` builds the result from the answer to a question."""

    kind: Kind
    session: str
    options: tuple[PermissionOption, ...] = ()
    spell: Spell | None = None


class AgentRequestAnswers:
    """The open requests of one agent, by number."""

    def __init__(self, peer: JsonRpcPeer) -> None:
        self._peer = peer
        self._open: dict[int, OpenRequest] = {}

    @property
    def open_requests(self) -> Mapping[int, str]:
        """The kinds of the open requests, by number."""
        return {number: opened.kind for number, opened in self._open.items()}

    def answer_permission(self, number: int, option: str | None) -> bool:
        """Choose an option by its id; None means that the turn was cancelled. Raise ValueError for an unknown id."""
        opened = self._take(number, "permission")
        if opened is None:
            return False
        if option is None:
            return self._peer.result(number, _CANCELLED)
        if option not in {offered.id for offered in opened.options}:
            self._open[number] = opened
            raise ValueError(f"{option!r} is not one of the offered options")
        outcome = schema.PermissionOutcome(outcome="selected", option_id=option)
        return self._peer.result(number, schema.PermissionResult(outcome=outcome))

    def answer_question(self, number: int, action: Action, content: Content = _NOTHING) -> bool:
        """Answer a question with values by field name, or decline or cancel it."""
        opened = self._take(number, "question")
        if opened is None or opened.spell is None:
            return False
        return self._peer.result(number, opened.spell(action, content))

    def answer_plan(self, number: int, verdict: Literal["accepted", "rejected", "cancelled"], reason: str = "") -> bool:
        """Accept or reject a proposed plan."""
        if self._take(number, "plan") is None:
            return False
        outcome = extensions.OutcomeShape(outcome=verdict, reason=reason or None)
        return self._peer.result(number, extensions.OutcomeResult(outcome=outcome))

    def answer_file(self, number: int, content: str) -> bool:
        """Return the content of a file. For a missing file use an empty text: agents read before they create."""
        return self._answer(number, "read", schema.ReadFileResult(content=content))

    def answer_terminal(self, number: int, terminal: str) -> bool:
        """Report the terminal in which a command was started."""
        return self._answer(number, "create", schema.CreateTerminalResult(terminal_id=terminal))

    def answer_output(self, number: int, output: str, truncated: bool, ended: schema.ExitStatus | None = None) -> bool:
        """Report the output of a terminal so far."""
        result = schema.TerminalOutputResult(output=output, truncated=truncated, exit_status=ended)
        return self._answer(number, "output", result)

    def answer_exit(self, number: int, ended: schema.ExitStatus) -> bool:
        """Report that the command of a terminal has ended."""
        return self._answer(number, "wait", ended)

    def answer_done(self, number: int) -> bool:
        """Confirm that a file was written, or a terminal killed or released."""
        return self._answer(number, "done", schema.PRESENT)

    def refuse(self, number: int, message: str, code: int = INTERNAL_ERROR) -> bool:
        """Answer any request with an error."""
        self._open.pop(number, None)
        return self._peer.error(number, code, message)

    # ── for the client side ──

    def _register(self, number: int, opened: OpenRequest) -> None:
        self._open[number] = opened

    def _withdraw(self, number: int) -> bool:
        """Answer a request as cancelled. Return whether it was open."""
        opened = self._open.pop(number, None)
        if opened is None:
            return False
        if opened.kind == "permission":
            return self._peer.result(number, _CANCELLED)
        if opened.kind == "plan":
            return self._peer.result(
                number, extensions.OutcomeResult(outcome=extensions.OutcomeShape(outcome="cancelled"))
            )
        if opened.spell is not None:
            return self._peer.result(number, opened.spell("cancel", _NOTHING))
        return self._peer.error(number, REQUEST_CANCELLED, "cancelled")

    def _withdraw_all(self, session: str) -> list[int]:
        """Answer all requests of a session that wait for a person as cancelled, and return their numbers."""
        numbers = [
            number for number, opened in self._open.items() if opened.session == session and opened.kind in PERSON_KINDS
        ]
        return [number for number in numbers if self._withdraw(number)]

    def _answer(self, number: int, kind: Kind, result: Any) -> bool:
        return self._take(number, kind) is not None and self._peer.result(number, result)

    def _take(self, number: int, kind: Kind) -> OpenRequest | None:
        opened = self._open.get(number)
        if opened is None:
            return None
        if opened.kind != kind:
            raise ValueError(f"the request is of kind {opened.kind!r}, not {kind!r}")
        return self._open.pop(number)
