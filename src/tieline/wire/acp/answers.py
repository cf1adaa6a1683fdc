"""The answering half of a client: what an agent asked and how each thing is answered, once.

Every method that answers returns whether the question was still open. It may have been withdrawn a moment ago (a turn
was cancelled, the agent changed its mind) while somebody was thinking; that is nobody's mistake.
"""

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

from tieline.wire.acp import extensions, schema
from tieline.wire.acp.facts import PermissionOption
from tieline.wire.acp.questions import Action, Content
from tieline.wire.framing.jsonrpc import INTERNAL_ERROR, REQUEST_CANCELLED, Peer

Kind = Literal["permission", "question", "plan", "read", "create", "output", "wait", "done"]
Spell = Callable[[Action, Content], schema.Shape]

HUMAN: frozenset[Kind] = frozenset(["permission", "question", "plan"])
"""What only a person can answer, and what ends with the turn."""

_CANCELLED = schema.PermissionResult(outcome=schema.PermissionOutcome(outcome="cancelled"))
_NOTHING: Content = {}


class OpenAsk(NamedTuple):
    """A question of the agent's that has no answer yet; `spell` is how an answer to this question is written."""

    kind: Kind
    session: str
    options: tuple[PermissionOption, ...] = ()
    spell: Spell | None = None


class Answers:
    """What is open, and the ways to answer it."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._open: dict[int, OpenAsk] = {}

    @property
    def open_asks(self) -> Mapping[int, str]:
        """What has no answer yet: its kind by its number."""
        return {ask: opened.kind for ask, opened in self._open.items()}

    def answer_permission(self, ask: int, option: str | None) -> bool:
        """Choose one of the options by its id; None is the answer of somebody who gave up the turn."""
        opened = self._take(ask, "permission")
        if opened is None:
            return False
        if option is None:
            return self._peer.result(ask, _CANCELLED)
        if option not in {offered.id for offered in opened.options}:
            self._open[ask] = opened
            raise ValueError(f"{option!r} is none of the options that were offered")
        outcome = schema.PermissionOutcome(outcome="selected", option_id=option)
        return self._peer.result(ask, schema.PermissionResult(outcome=outcome))

    def answer_question(self, ask: int, action: Action, content: Content = _NOTHING) -> bool:
        """Answer the fields of a question by their names, or decline to, or give up."""
        opened = self._take(ask, "question")
        if opened is None or opened.spell is None:
            return False
        return self._peer.result(ask, opened.spell(action, content))

    def answer_plan(self, ask: int, verdict: Literal["accepted", "rejected", "cancelled"], reason: str = "") -> bool:
        """Accept a proposed plan or reject it, perhaps with a reason."""
        if self._take(ask, "plan") is None:
            return False
        outcome = extensions.Outcome(outcome=verdict, reason=reason or None)
        return self._peer.result(ask, extensions.OutcomeResult(outcome=outcome))

    def answer_file(self, ask: int, content: str) -> bool:
        """What a file holds; of a file that is not there, say that it is empty: agents read before they create."""
        return self._answer(ask, "read", schema.ReadFileResult(content=content))

    def answer_terminal(self, ask: int, terminal: str) -> bool:
        """A command runs, and this is its terminal."""
        return self._answer(ask, "create", schema.CreateTerminalResult(terminal_id=terminal))

    def answer_output(self, ask: int, output: str, truncated: bool, ended: schema.ExitStatus | None = None) -> bool:
        """What a terminal has shown so far."""
        result = schema.TerminalOutputResult(output=output, truncated=truncated, exit_status=ended)
        return self._answer(ask, "output", result)

    def answer_exit(self, ask: int, ended: schema.ExitStatus) -> bool:
        """A terminal has ended."""
        return self._answer(ask, "wait", ended)

    def answer_done(self, ask: int) -> bool:
        """A file is written, a terminal killed or released."""
        return self._answer(ask, "done", schema.HERE)

    def refuse(self, ask: int, message: str, code: int = INTERNAL_ERROR) -> bool:
        """Anything that was asked could not be done."""
        self._open.pop(ask, None)
        return self._peer.error(ask, code, message)

    # ── for the machine ──

    def _register(self, ask: int, opened: OpenAsk) -> None:
        self._open[ask] = opened

    def _withdraw(self, ask: int) -> bool:
        """Answer what nobody wants answered any more; whether it was open."""
        opened = self._open.pop(ask, None)
        if opened is None:
            return False
        if opened.kind == "permission":
            return self._peer.result(ask, _CANCELLED)
        if opened.kind == "plan":
            return self._peer.result(ask, extensions.OutcomeResult(outcome=extensions.Outcome(outcome="cancelled")))
        if opened.spell is not None:
            return self._peer.result(ask, opened.spell("cancel", _NOTHING))
        return self._peer.error(ask, REQUEST_CANCELLED, "cancelled")

    def _withdraw_all(self, session: str) -> list[int]:
        """Answer everything a person was asked in a session as cancelled."""
        asks = [ask for ask, opened in self._open.items() if opened.session == session and opened.kind in HUMAN]
        return [ask for ask in asks if self._withdraw(ask)]

    def _answer(self, ask: int, kind: Kind, result: Any) -> bool:
        return self._take(ask, kind) is not None and self._peer.result(ask, result)

    def _take(self, ask: int, kind: Kind) -> OpenAsk | None:
        opened = self._open.get(ask)
        if opened is None:
            return None
        if opened.kind != kind:
            raise ValueError(f"what was asked is answered as {opened.kind!r}, not as {kind!r}")
        return self._open.pop(ask)
