"""The steps of a scripted run, given as JSON or as step objects.

A step in JSON is a name, or an object whose only key is the name:

    "open" "mind" "close" "turn"     a stage of the usual turn (opening, the model's legs, closing), or all of them
    "heartbeat" "checkpoint"         an update, or the state of the conversation so far
    {"text": "…"} {"thinking": "…"}  deltas
    {"message": {…}}                 any AgentServerMessage, in the JSON form of protobuf
    {"exec": {…}} {"query": {…}}     an ExecServerMessage or InteractionQuery; `unknown: 99` adds an unknown field
    {"set_blob": "…"}                a blob for the client to store, as text or as {"id": hex, "data": text}
    {"get_blob": "hex"}              a request for the blob with this id
    {"abort": 3}                     abort the exec request with this number
    {"wait": "all"}                  wait for all answers; or only for "exec", "kv", "query", or exec request 3
    {"pause": 0.5} {"silence": 0.5}  wait some seconds, with or without heartbeats
    "hold" {"hold": "silent"}        wait until the client disconnects, at most a day, with or without heartbeats
    {"turn_ended": {…}}              the update that ends a turn, with or without the counts of TurnEndedUpdate
    "end" {"error": "outdated"}      the end frame: success, or a refusal by name or as {"code": …, "message": …}
    {"status": 464}                  an HTTP response instead of a stream; {"status": {"code": 429, "headers": {…}}}
    {"frame": {"flags": 2, "hex": ""}} {"raw": "hex"}          any frame, any bytes
    {"goaway": 0} {"leave": "eof"}   a GOAWAY frame; an abnormal end: "eof", "reset" or "cut"
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec
from google.protobuf.json_format import ParseDict, ParseError
from google.protobuf.message import Message

from tieline.sim.cursor.demo_model import text_delta, thinking_delta
from tieline.sim.cursor.refusals import NAMED, ServiceRefusal
from tieline.sim.cursor.server_run import to_client, update
from tieline.sim.cursor.server_turn import HEARTBEAT, Program, ServerTurn
from tieline.sim.cursor.steps import End, Framed, GoAway, Leave, Raw, Send, Status, Step, Steps, Style, Wait
from tieline.wire.cursor._pb import agent_pb2 as agent
from tieline.wire.cursor._pb import exec_pb2, kv_pb2, queries_pb2
from tieline.wire.cursor._pb import updates_pb2 as updates

HOLD = 86_400.0
"""The maximum number of seconds that the step `hold` waits."""

StepParser = Callable[[Any], Program]


class BadScript(Exception):
    """The script is invalid. The error message says where."""


def program(steps: Iterable[Any]) -> Program:
    """Compile a list of steps into a function that yields them. Raise BadScript if a step is invalid."""
    programs = [_compile(step) for step in steps]

    def play(turn: ServerTurn) -> Steps:
        for one in programs:
            yield from one(turn)

    return play


def _compile(step: Any) -> Program:
    """Compile one step into a program. `step` is in JSON form, a step object, or already a program."""
    if callable(step):
        compiled: Program = step
        return compiled
    if isinstance(step, Send | Wait | Style | Raw | Framed | Status | End | GoAway | Leave):
        return _always(step)
    name, value = (step, None) if isinstance(step, str) else _pair(step)
    parse = _STEPS.get(name)
    if parse is None:
        raise BadScript(f"there is no step {name!r}; expected one of {', '.join(_STEPS)}")
    try:
        return parse(value)
    except (ParseError, KeyError, TypeError, ValueError, msgspec.ValidationError) as error:
        raise BadScript(f"the step {name!r} is invalid: {error}") from error


def _pair(step: Any) -> tuple[str, Any]:
    if not isinstance(step, Mapping) or len(step) != 1:
        raise BadScript(f"expected a name or an object with one name, found {str(step)[:80]!r}")
    return next(iter(step.items()))


def _always(*steps: Step) -> Program:
    return lambda _: iter(steps)


def _text(value: Any) -> Program:
    return _always(text_delta(str(value)))


def _thinking(value: Any) -> Program:
    return _always(thinking_delta(str(value)))


def _message(value: Any) -> Program:
    return _always(to_client(ParseDict(value, agent.AgentServerMessage())))


def _exec(value: Any) -> Program:
    data, number = _numbered(value, exec_pb2.ExecServerMessage())

    def play(turn: ServerTurn) -> Steps:
        yield turn.run.ask_exec(exec_pb2.ExecServerMessage.FromString(data), number)

    return play


def _query(value: Any) -> Program:
    data, number = _numbered(value, queries_pb2.InteractionQuery())

    def play(turn: ServerTurn) -> Steps:
        yield turn.run.ask_query(queries_pb2.InteractionQuery.FromString(data), number)

    return play


def _numbered(value: Any, message: Message) -> tuple[bytes, int | None]:
    """Parse `value` into `message`. Return the serialized message, and its number if `value` contains one.

    With `unknown` in `value`, append a field that the protocol does not define.
    """
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

    def play(turn: ServerTurn) -> Steps:
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
    return _always(to_client(agent.AgentServerMessage(exec_server_control_message=control)))


def _wait(value: Any) -> Program:
    if isinstance(value, int):
        return lambda turn: turn.run.wait(lambda: turn.run.is_answered(value), f"exec {value}")
    channels = ("exec", "kv", "query") if value in (None, "all") else (str(value),)
    if not {"exec", "kv", "query"}.issuperset(channels):
        raise ValueError(f"expected all, exec, kv, query or a number, found {value!r}")
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
    return _always(End(msgspec.convert(value, type=ServiceRefusal)))


def _status(value: Any) -> Program:
    if isinstance(value, int):
        return _always(Status(value))
    headers = tuple((str(name), str(text)) for name, text in value.get("headers", {}).items())
    return _always(Status(int(value["code"]), str(value.get("body", "")).encode(), headers))


def _frame(value: Any) -> Program:
    return _always(Framed(int(value.get("flags", 0)), bytes.fromhex(value.get("hex", ""))))


def _leave(value: Any) -> Program:
    if value not in ("eof", "reset", "cut"):
        raise ValueError(f"expected eof, reset or cut, found {value!r}")
    return _always(Leave(value))


_STEPS: Mapping[str, StepParser] = {
    "open": lambda _: ServerTurn.opening,
    "mind": lambda _: ServerTurn.answer,
    "close": lambda _: ServerTurn.closing,
    "turn": lambda _: ServerTurn.play,
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
