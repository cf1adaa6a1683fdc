"""Scripted runs, in which the server plays given steps instead of the usual turn of the demo model.

A client selects a script with a user message of the form `!cursor {…}`; tests can pass the same JSON:

    {"steps": [step, …]}             the steps of every run with this message
    {"runs": [[step, …], …]}         the steps of the first run, the second run …; later runs play the usual turn
    {"poison": true}                 refuse the run until the client uses another conversation id
    {"words": "…", "native": true}   the text that the model receives, and whether it has Cursor's built-in tools
    {"style": {"gzip": true, "piece": 1, "batch": 1, "announce": false}}       the framing of messages

`script_steps` lists the steps.
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tieline.sim.cursor.native_tools import ALL
from tieline.sim.cursor.refusals import NAMED, RunRefused, ServiceRefusal
from tieline.sim.cursor.script_steps import BadScript, program
from tieline.sim.cursor.server_turn import HEARTBEAT, Program, ServerTurn
from tieline.sim.cursor.steps import Steps, Style
from tieline.sim.cursor.user_questions import question_program

REMEMBERED = 1000
"""Maximum number of scripts in user messages for which the number of runs is remembered."""

_PREFIX = "!cursor"
_USUAL: Program = ServerTurn.play


class Script(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A script, parsed from JSON. The module's docstring explains the fields."""

    steps: tuple[Any, ...] | None = None
    runs: tuple[tuple[Any, ...], ...] = ()
    poison: bool = False
    words: str | None = None
    native: bool | None = None
    style: Mapping[str, Any] | None = None

    def program(self, played: int) -> Program:
        """Return the program for a run. `played` is the number of earlier runs with this script."""
        if self.steps is not None:
            return program(self.steps)
        return program(self.runs[played]) if played < len(self.runs) else _USUAL


def find(words: str) -> Script | None:
    """Return the script in a user message, or None if there is none. Raise BadScript if it is invalid."""
    text = words.strip()
    # A client may have put a label such as `User:` before the prefix.
    at = text.find(_PREFIX)
    if not 0 <= at < 20 or "{" not in text:
        return None
    try:
        return msgspec.json.decode(_object(text[at + len(_PREFIX) :]), type=Script)
    except msgspec.MsgspecError as error:
        raise BadScript(f"the script is invalid: {error}") from error


def _object(text: str) -> str:
    """Return the JSON object at the start of a text, without the text that a client may have appended."""
    return text[: text.rfind("}") + 1].strip()


class Scripts:
    """Chooses the program for each run: a queued program, else the script in the user's message, else `usual`."""

    def __init__(self, usual: Program | Sequence[Any] | None = None) -> None:
        self._usual = _as_program(usual) if usual is not None else _USUAL
        self._queue: list[Program] = []
        self._played: OrderedDict[str, int] = OrderedDict()
        self._poisoned: OrderedDict[str, str] = OrderedDict()

    def queue(self, *programs: Program | Sequence[Any]) -> None:
        """Use these programs for the next runs, one program per run."""
        self._queue += [_as_program(one) for one in programs]

    def poison(self, conversation_id: str) -> None:
        """Refuse all further runs of this conversation."""
        self._poisoned[f"\0{conversation_id}"] = conversation_id

    def play(self, turn: ServerTurn) -> Steps:
        """Choose the program for a run and yield its steps. The run request must have arrived."""
        if self._queue:
            yield from self._queue.pop(0)(turn)
            return
        self._check_poison(turn)
        if not turn.request_text and turn.request.HasField("conversation_state"):
            # In a resumed run, the user's message is in the history.
            yield HEARTBEAT
            yield from turn.load_history()
        try:
            chosen = self._chosen(turn)
        except BadScript as error:
            raise RunRefused(ServiceRefusal(code="invalid_argument", message=str(error))) from error
        yield from chosen(turn)

    def _chosen(self, turn: ServerTurn) -> Program:
        words = turn.user_text
        script = find(words)
        if script is None:
            return (question_program(words) if self._usual is _USUAL else None) or self._usual
        if script.poison:
            self._poisoned.setdefault(words, turn.request.conversation_id)
            self._check_poison(turn)
        if script.words is not None:
            turn.run.override_text = script.words
        if script.native is not None:
            turn.run.native = ALL if script.native else frozenset()
        chosen = script.program(self._count(words))
        return _styled(script.style, chosen) if script.style else chosen

    def _count(self, words: str) -> int:
        played = self._played.pop(words, 0)
        self._played[words] = played + 1
        for memory in (self._played, self._poisoned):
            if len(memory) > REMEMBERED:
                memory.popitem(last=False)
        return played

    def _check_poison(self, turn: ServerTurn) -> None:
        if turn.request.conversation_id in self._poisoned.values():
            raise RunRefused(NAMED["exhausted"])


def _as_program(given: Program | Sequence[Any]) -> Program:
    return given if callable(given) else program(given)


def _styled(style: Mapping[str, Any], inner: Program) -> Program:
    try:
        chosen = msgspec.convert(dict(style), type=Style)
    except msgspec.ValidationError as error:
        raise BadScript(f"style: {error}") from error

    def play(turn: ServerTurn) -> Steps:
        yield chosen
        yield from inner(turn)

    return play
