"""Scripted runs: what the server does instead of the demo model's turn, step by step, spelled as JSON.

The user's words `!cursor {…}` choose a script, so that any client can be tried with it; the same JSON does for tests.

    {"steps": [step, …]}             played in every run with these words
    {"runs": [[step, …], …]}         the first run, the second run …; after the last the turn is played as usual
    {"poison": true}                 refused until it is asked with another conversation id
    {"words": "…", "native": true}   what the model hears, and whether it has files and shell of its own
    {"style": {"gzip": true, "piece": 1, "batch": 1, "announce": false}}       how it is framed

A step is a name, or an object with one name:

    "open" "mind" "close" "turn"     parts of the usual turn, and the whole
    "heartbeat" "checkpoint"         an update, and the state of the conversation so far
    {"text": "…"} {"thinking": "…"}  deltas
    {"message": {…}}                 any AgentServerMessage, in the JSON of protobuf
    {"exec": {…}} {"query": {…}}     an ExecServerMessage or InteractionQuery; `unknown: 99` adds a field nobody knows
    {"set_blob": "…"}                a blob for the client to keep, as text or as {"id": hex, "data": text}
    {"get_blob": "hex"}
    {"abort": 3}                     the server gives up an exec
    {"wait": "all"}                  for every answer, or those of "exec", "kv" or "query", or of one exec by number
    {"pause": 0.5} {"silence": 0.5}  seconds, with heartbeats and without
    "hold" {"hold": "silent"}        for as long as the client stays
    {"turn_ended": {…}}              with the counts of TurnEndedUpdate, or none
    "end" {"error": "outdated"}      the end frame: good, or a refusal by its name or as {"code": …, "message": …}
    {"status": 464}                  an HTTP answer instead of a stream; {"status": {"code": 429, "headers": {…}}}
    {"frame": {"flags": 2, "hex": ""}} {"raw": "hex"}          any frame, any bytes
    {"goaway": 0} {"leave": "eof"}   or "reset", "cut"
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec
from google.protobuf.json_format import ParseDict, ParseError
from google.protobuf.message import Message

from tieline.sim.cursor.interview import interview
from tieline.sim.cursor.model import text_delta, thinking_delta
from tieline.sim.cursor.native import ALL
from tieline.sim.cursor.refusals import NAMED, Refusal, RunRefused
from tieline.sim.cursor.run import say, update
from tieline.sim.cursor.steps import End, Framed, GoAway, Leave, Raw, Send, Status, Step, Steps, Style, Wait
from tieline.sim.cursor.turn import HEARTBEAT, Program, Turn
from tieline.wire.cursor._pb import agent_pb2 as agent
from tieline.wire.cursor._pb import exec_pb2, kv_pb2, queries_pb2
from tieline.wire.cursor._pb import updates_pb2 as updates

HOLD = 86_400.0
REMEMBERED = 1000
"""For how many different words it is remembered how often they were said."""

_PREFIX = "!cursor"
_USUAL: Program = Turn.play


class BadScript(Exception):
    """A script that cannot be understood; the message says where."""


class Script(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A script, read."""

    steps: tuple[Any, ...] | None = None
    runs: tuple[tuple[Any, ...], ...] = ()
    poison: bool = False
    words: str | None = None
    native: bool | None = None
    style: Mapping[str, Any] | None = None

    def program(self, played: int) -> Program:
        """What to do in a run before which the script was played so many times."""
        if self.steps is not None:
            return program(self.steps)
        return program(self.runs[played]) if played < len(self.runs) else _USUAL


def find(words: str) -> Script | None:
    """The script in the user's words, None if there is none; raises BadScript."""
    text = words.strip()
    # A client may have put a word like `User:` before it.
    at = text.find(_PREFIX)
    if not 0 <= at < 20 or "{" not in text:
        return None
    try:
        return msgspec.json.decode(_object(text[at + len(_PREFIX) :]), type=Script)
    except msgspec.MsgspecError as error:
        raise BadScript(f"the script cannot be read: {error}") from error


def _object(text: str) -> str:
    """The JSON object at the beginning of a text, without what a client may have written after it."""
    return text[: text.rfind("}") + 1].strip()


def program(steps: Iterable[Any]) -> Program:
    """The program that a list of steps stands for; raises BadScript."""
    made = [_made(step) for step in steps]

    def play(turn: Turn) -> Steps:
        for one in made:
            yield from one(turn)

    return play


class Scripts:
    """Which program a run gets: by the order of tests, by the user's words, else the usual turn."""

    def __init__(self, usual: Program | Sequence[Any] | None = None) -> None:
        self._usual = _as_program(usual) if usual is not None else _USUAL
        self._queue: list[Program] = []
        self._played: OrderedDict[str, int] = OrderedDict()
        self._poisoned: OrderedDict[str, str] = OrderedDict()

    def queue(self, *programs: Program | Sequence[Any]) -> None:
        """What to play in the next runs, each once."""
        self._queue += [_as_program(one) for one in programs]

    def poison(self, conversation_id: str) -> None:
        """Answer this conversation no more."""
        self._poisoned[f"\0{conversation_id}"] = conversation_id

    def play(self, turn: Turn) -> Steps:
        """The steps of a run, once its request is there."""
        if self._queue:
            yield from self._queue.pop(0)(turn)
            return
        self._check_poison(turn)
        if not turn.asked and turn.request.HasField("conversation_state"):
            # A run that is resumed has its words in the history.
            yield HEARTBEAT
            yield from turn.listen()
        try:
            chosen = self._chosen(turn)
        except BadScript as error:
            raise RunRefused(Refusal(code="invalid_argument", message=str(error))) from error
        yield from chosen(turn)

    def _chosen(self, turn: Turn) -> Program:
        words = turn.words
        script = find(words)
        if script is None:
            return (interview(words) if self._usual is _USUAL else None) or self._usual
        if script.poison:
            self._poisoned.setdefault(words, turn.request.conversation_id)
            self._check_poison(turn)
        if script.words is not None:
            turn.run.words = script.words
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

    def _check_poison(self, turn: Turn) -> None:
        if turn.request.conversation_id in self._poisoned.values():
            raise RunRefused(NAMED["exhausted"])


def _as_program(given: Program | Sequence[Any]) -> Program:
    return given if callable(given) else program(given)


def _styled(style: Mapping[str, Any], inner: Program) -> Program:
    try:
        chosen = msgspec.convert(dict(style), type=Style)
    except msgspec.ValidationError as error:
        raise BadScript(f"style: {error}") from error

    def play(turn: Turn) -> Steps:
        yield chosen
        yield from inner(turn)

    return play


# ── Steps ────────────────────────────────────────────────────────────────────────────────────────

Making = Callable[[Any], Program]


def _made(step: Any) -> Program:
    """The part of a program that a step stands for; a step that is one already may stand among them."""
    if callable(step):
        made: Program = step
        return made
    if isinstance(step, Send | Wait | Style | Raw | Framed | Status | End | GoAway | Leave):
        return _always(step)
    name, value = (step, None) if isinstance(step, str) else _pair(step)
    making = _STEPS.get(name)
    if making is None:
        raise BadScript(f"there is no step {name!r}; there are {', '.join(_STEPS)}")
    try:
        return making(value)
    except (ParseError, KeyError, TypeError, ValueError, msgspec.ValidationError) as error:
        raise BadScript(f"the step {name!r} cannot be read: {error}") from error


def _pair(step: Any) -> tuple[str, Any]:
    if not isinstance(step, Mapping) or len(step) != 1:
        raise BadScript(f"a step is a name or an object with one name, not {str(step)[:80]!r}")
    return next(iter(step.items()))


def _always(*steps: Step) -> Program:
    return lambda _: iter(steps)


def _text(value: Any) -> Program:
    return _always(text_delta(str(value)))


def _thinking(value: Any) -> Program:
    return _always(thinking_delta(str(value)))


def _message(value: Any) -> Program:
    return _always(say(ParseDict(value, agent.AgentServerMessage())))


def _exec(value: Any) -> Program:
    data, number = _numbered(value, exec_pb2.ExecServerMessage())

    def play(turn: Turn) -> Steps:
        yield turn.run.ask_exec(exec_pb2.ExecServerMessage.FromString(data), number)

    return play


def _query(value: Any) -> Program:
    data, number = _numbered(value, queries_pb2.InteractionQuery())

    def play(turn: Turn) -> Steps:
        yield turn.run.ask_query(queries_pb2.InteractionQuery.FromString(data), number)

    return play


def _numbered(value: Any, message: Message) -> tuple[bytes, int | None]:
    """A message, with a field nobody knows if the script wants one, and the number it is to have."""
    given = dict(value)
    unknown = given.pop("unknown", None)
    ParseDict(given, message)
    field = _varint(int(unknown) << 3 | 2) + b"\0" if unknown is not None else b""
    return message.SerializeToString() + field, int(given["id"]) if "id" in given else None


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def _set_blob(value: Any) -> Program:
    given = {"data": value} if isinstance(value, str) else dict(value)
    data = str(given["data"]).encode()
    key = bytes.fromhex(given["id"]) if "id" in given else None

    def play(turn: Turn) -> Steps:
        if key is None:
            yield turn.run.store(data)[1]
            return
        args = kv_pb2.SetBlobArgs(blob_id=key, blob_data=data)
        yield turn.run.ask_kv(kv_pb2.KvServerMessage(set_blob_args=args))

    return play


def _get_blob(value: Any) -> Program:
    args = kv_pb2.GetBlobArgs(blob_id=bytes.fromhex(value))
    return lambda turn: iter([turn.run.ask_kv(kv_pb2.KvServerMessage(get_blob_args=args))])


def _abort(value: Any) -> Program:
    control = exec_pb2.ExecServerControlMessage(abort=exec_pb2.ExecServerAbort(id=int(value)))
    return _always(say(agent.AgentServerMessage(exec_server_control_message=control)))


def _wait(value: Any) -> Program:
    if isinstance(value, int):
        return lambda turn: turn.run.wait(lambda: turn.run.is_answered(value), f"exec {value}")
    channels = ("exec", "kv", "query") if value in (None, "all") else (str(value),)
    if not {"exec", "kv", "query"}.issuperset(channels):
        raise ValueError(f"there is nothing called {value!r} to wait for")
    return lambda turn: turn.run.wait(lambda: turn.run.has_answers(channels), ", ".join(channels))


def _pause(value: Any) -> Program:
    return _always(Wait(until=_never, seconds=float(value)))


def _silence(value: Any) -> Program:
    return _always(Wait(until=_never, seconds=float(value), beats=False))


def _hold(value: Any) -> Program:
    return _always(Wait(until=_never, seconds=HOLD, beats=value != "silent"))


def _never() -> bool:
    return False


def _turn_ended(value: Any) -> Program:
    return _always(update(turn_ended=ParseDict(value or {}, updates.TurnEndedUpdate())))


def _error(value: Any) -> Program:
    if isinstance(value, str):
        return _always(End(NAMED[value]))
    return _always(End(msgspec.convert(value, type=Refusal)))


def _status(value: Any) -> Program:
    if isinstance(value, int):
        return _always(Status(value))
    headers = tuple((str(name), str(text)) for name, text in value.get("headers", {}).items())
    return _always(Status(int(value["code"]), str(value.get("body", "")).encode(), headers))


def _frame(value: Any) -> Program:
    return _always(Framed(int(value.get("flags", 0)), bytes.fromhex(value.get("hex", ""))))


def _leave(value: Any) -> Program:
    if value not in ("eof", "reset", "cut"):
        raise ValueError(f"there is no way to leave called {value!r}")
    return _always(Leave(value))


_STEPS: Mapping[str, Making] = {
    "open": lambda _: Turn.opening,
    "mind": lambda _: Turn.mind,
    "close": lambda _: Turn.closing,
    "turn": lambda _: Turn.play,
    "heartbeat": lambda _: _always(HEARTBEAT),
    "checkpoint": lambda _: lambda turn: iter([turn.checkpoint()]),
    "text": _text,
    "thinking": _thinking,
    "message": _message,
    "exec": _exec,
    "query": _query,
    "set_blob": _set_blob,
    "get_blob": _get_blob,
    "abort": _abort,
    "wait": _wait,
    "pause": _pause,
    "silence": _silence,
    "hold": _hold,
    "turn_ended": _turn_ended,
    "end": lambda _: _always(End()),
    "error": _error,
    "status": _status,
    "frame": _frame,
    "raw": lambda value: _always(Raw(bytes.fromhex(value))),
    "goaway": lambda value: _always(GoAway(int(value or 0))),
    "leave": _leave,
}
