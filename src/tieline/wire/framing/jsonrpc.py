"""JSON-RPC 2.0 with one message on each line: both ends of a conversation in which either side may ask.

`Peer` is one end of it. What the other side sends is fed in, in reads of any size, and comes out as `Request`,
`Notification`, `Response` or `Skipped`; what is to be sent waits in the outbox. Rules:

- Nothing the other side sends is an error here. What is no message is skipped and reported, so that somebody can log
  it; a request that cannot be understood is answered with an error, since whoever asked waits.
- A line over the limit is dropped while it arrives. If its beginning tells the id, only that request fails.
- A request of theirs is known by a number of ours (`ask`) and is answered once. Their id is sent back as they wrote it:
  1, "1" and 1.0 are different ids, and two open requests of one id are two requests.
- A request of ours is answered by the first answer with its id; further ones are skipped. Our ids are numbers, so an
  answer that gives one back as a string can mean nothing else.
- An answer with an error has failed, whatever else it holds; one with neither error nor result has succeeded with null.
"""

import json
import re
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw, Struct

from tieline.wire.framing.lines import LineReader, Oversized
from tieline.wire.shared.json import encode, mend

INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
REQUEST_CANCELLED = -32800

LIMIT = 64 * 1024 * 1024
MAX_OPEN = 4096
"""How many requests of the other side may wait for an answer."""

NULL = Raw(b"null")

_ABSENT = Raw()
_SHOWN = 200
_CONTROL = re.compile(rb"(?:\x1b\[[0-9;?]*[@-~]|\x1b\][^\x07]*\x07|\x1b[@-Z\\^_=>78]|\xef\xbb\xbf|[\x00-\x20])+")
"""What programs like to leave before their first line of output: cursor, colours, title, a byte order mark."""
_MEMBER = re.compile(rb'\s*"(\w*)"\s*:\s*("(?:[^"\\]|\\.)*"|-?[0-9][0-9.eE+-]*|true|false|null)?\s*,?', re.DOTALL)


class RpcError(NamedTuple):
    """Why a request failed; `data` is JSON text, empty when there is none."""

    code: int
    message: str
    data: bytes = b""


class Request(NamedTuple):
    """The other side asks; `ask` is what to answer it by."""

    ask: int
    method: str
    params: Raw


class Notification(NamedTuple):
    """The other side tells something and expects nothing."""

    method: str
    params: Raw


class Response(NamedTuple):
    """The answer to a request of ours."""

    id: int
    method: str
    result: Raw
    error: RpcError | None = None


class Skipped(NamedTuple):
    """Something that is no message, or none that means anything now; `beginning` shows what it was."""

    reason: str
    beginning: str = ""


Incoming = Request | Notification | Response | Skipped


class _Envelope(Struct):
    id: Raw = _ABSENT
    method: Raw = _ABSENT
    params: Raw = NULL
    result: Raw = _ABSENT
    error: Raw = _ABSENT


class _ErrorBody(Struct):
    code: int = INTERNAL_ERROR
    message: str = ""
    data: Raw = _ABSENT


class _Asked(NamedTuple):
    id: bytes
    method: str


_read_envelope = msgspec.json.Decoder(_Envelope).decode
_read_batch = msgspec.json.Decoder(list[Raw]).decode
_read_text = msgspec.json.Decoder(str).decode
_read_error = msgspec.json.Decoder(_ErrorBody).decode


class Peer:
    """One end of the conversation."""

    def __init__(self, *, limit: int = LIMIT) -> None:
        self._lines = LineReader(limit)
        self._limit = limit
        self._last_id = 0
        self._last_ask = 0
        self._pending: dict[int, str] = {}
        self._asked: dict[int, _Asked] = {}
        self._outbox: list[bytes] = []

    # ── what we send ──

    def request(self, method: str, params: Any = None) -> int:
        """Ask; the answer will carry the id that is returned."""
        self._last_id += 1
        self._pending[self._last_id] = method
        self._send({"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params})
        return self._last_id

    def notify(self, method: str, params: Any = None) -> None:
        """Tell something."""
        self._send({"jsonrpc": "2.0", "method": method, "params": params})

    def result(self, ask: int, value: Any) -> bool:
        """Answer a request; False if it is not open (any more)."""
        asked = self._asked.pop(ask, None)
        if asked is None:
            return False
        self._send_answer(asked.id, {"result": value})
        return True

    def error(self, ask: int, code: int, message: str, data: Any = None) -> bool:
        """Answer a request with a failure; False if it is not open (any more)."""
        asked = self._asked.pop(ask, None)
        if asked is None:
            return False
        self._send_error(asked.id, code, message, data)
        return True

    def outbox(self) -> bytes:
        """What is to be sent now; it is taken out."""
        data = b"".join(self._outbox)
        self._outbox.clear()
        return data

    # ── what waits ──

    @property
    def pending(self) -> dict[int, str]:
        """The requests of ours that have no answer yet: their method by id."""
        return dict(self._pending)

    @property
    def open(self) -> dict[int, str]:
        """The requests of the other side that we have not answered: their method by ask."""
        return {ask: asked.method for ask, asked in self._asked.items()}

    def asks_of(self, their_id: Raw) -> list[int]:
        """The open requests of the other side that it gave this id."""
        wanted = bytes(their_id)
        return [ask for ask, asked in self._asked.items() if asked.id == wanted]

    def forget(self, request: int) -> None:
        """Nobody waits for this answer any more; should it come, it is skipped."""
        self._pending.pop(request, None)

    # ── what we receive ──

    def feed(self, data: bytes) -> list[Incoming]:
        """The messages that are whole now."""
        found: list[Incoming] = []
        for line in self._lines.feed(data):
            self._read_line(line, found)
        return found

    def close(self) -> list[Incoming]:
        """The end of what the other side sends: a message that lacks only its line end still counts."""
        found: list[Incoming] = []
        line = self._lines.close()
        if line is not None:
            self._read_line(line, found)
        return found

    def _read_line(self, line: bytes | Oversized, found: list[Incoming]) -> None:
        if isinstance(line, Oversized):
            found.append(self._drop(line))
            return
        line = line.strip()
        if line.startswith(b"["):
            self._read_members(line, found)
        elif line:
            found.append(self._read_message(line))

    def _read_members(self, line: bytes, found: list[Incoming]) -> None:
        """A batch, which only later versions of the protocols here allow: its members one by one."""
        try:
            members = [bytes(member) for member in _read_batch(line)]
        except (msgspec.DecodeError, RecursionError):
            members = _slow_members(line)
        if not members:
            found.append(Skipped("a list that is no batch of messages", _shown(line)))
        found += map(self._read_message, members)

    def _read_message(self, line: bytes) -> Incoming:
        envelope = _envelope(line)
        if envelope is None:
            return Skipped("not a JSON-RPC message", _shown(line))
        if envelope.method is _ABSENT or envelope.result is not _ABSENT or envelope.error is not _ABSENT:
            return self._read_answer(envelope, line)
        return self._read_request(envelope, line)

    def _read_request(self, envelope: _Envelope, line: bytes) -> Incoming:
        their_id = bytes(envelope.id)
        is_request = their_id not in (b"", b"null")
        try:
            method = _read_text(envelope.method)
        except msgspec.DecodeError:
            if is_request:
                self._send_error(their_id, INVALID_REQUEST, "the method is not a string")
            return Skipped("a message whose method is not a string", _shown(line))
        if not is_request:
            return Notification(method, envelope.params)
        if len(self._asked) >= MAX_OPEN:
            self._send_error(their_id, INTERNAL_ERROR, f"{MAX_OPEN} requests wait for an answer already")
            return Skipped("a request too many", _shown(line))
        self._last_ask += 1
        self._asked[self._last_ask] = _Asked(their_id, method)
        return Request(self._last_ask, method, envelope.params)

    def _read_answer(self, envelope: _Envelope, line: bytes) -> Incoming:
        if envelope.id is _ABSENT and envelope.result is _ABSENT and envelope.error is _ABSENT:
            return Skipped("an object that is no JSON-RPC message", _shown(line))
        request = _number(bytes(envelope.id))
        method = None if request is None else self._pending.pop(request, None)
        if request is None or method is None:
            return Skipped("an answer to nothing that was asked", _shown(line))
        error = bytes(envelope.error)
        if error not in (b"", b"null"):
            return Response(request, method, NULL, _error(error))
        return Response(request, method, NULL if envelope.result is _ABSENT else envelope.result)

    def _drop(self, line: Oversized) -> Incoming:
        """A line that was too large to keep: fail what it belongs to, as far as its beginning tells."""
        said = f"a message of {line.size} bytes, where {self._limit} are the most, was dropped"
        members = _first_members(line.beginning)
        their_id = members.get(b"id", b"")
        request = _number(their_id)
        if request in self._pending and not members.keys() & {b"method", b"params"}:
            return Response(request, self._pending.pop(request), NULL, RpcError(INTERNAL_ERROR, said))
        if their_id not in (b"", b"null") and not members.keys() & {b"result", b"error"}:
            self._send_error(their_id, INVALID_REQUEST, said)
        return Skipped(said, _shown(line.beginning))

    # ── writing ──

    def _send_answer(self, their_id: bytes, body: dict[str, Any]) -> None:
        # Their id goes back as it came, so it is put in front of what is encoded.
        self._outbox.append(b'{"jsonrpc":"2.0","id":' + their_id + b"," + _encoded(body)[1:] + b"\n")

    def _send_error(self, their_id: bytes, code: int, message: str, data: Any = None) -> None:
        error: dict[str, Any] = {"code": code, "message": message}
        if data is not None:
            error["data"] = data
        self._send_answer(their_id, {"error": error})

    def _send(self, message: dict[str, Any]) -> None:
        if message.get("params") is None:
            message.pop("params", None)
        self._outbox.append(_encoded(message) + b"\n")


def _encoded(message: dict[str, Any]) -> bytes:
    try:
        return encode(message)
    except UnicodeEncodeError:
        # Half of a UTF-16 pair, which no UTF-8 can hold.
        return mend(json.dumps(msgspec.to_builtins(message)).encode())


def _envelope(line: bytes) -> _Envelope | None:
    """The parts of a message, unread; None if the line holds no object."""
    if not line.startswith(b"{"):
        noise = _CONTROL.match(line)
        line = line[noise.end() :] if noise else b""
        if not line.startswith(b"{"):
            return None
    try:
        if not line.isascii():
            line.decode()
        return _read_envelope(line)
    except UnicodeDecodeError:
        return _envelope(line.decode("utf-8", "replace").encode())
    except msgspec.DecodeError:
        return _slow_envelope(line)
    except RecursionError:
        return None


def _slow_envelope(line: bytes) -> _Envelope | None:
    """The same from JSON that the fast decoder refuses: half a UTF-16 pair in an escape, NaN."""
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return _Envelope(**{name: Raw(_dumped(fields[name])) for name in _Envelope.__struct_fields__ if name in fields})


def _slow_members(line: bytes) -> list[bytes]:
    try:
        members = json.loads(line)
    except (ValueError, RecursionError):
        return []
    return [_dumped(member) for member in members]


def _dumped(value: Any) -> bytes:
    return json.dumps(value).encode()


def _number(their_id: bytes) -> int | None:
    """The number that an id stands for, be it written as 7, 7.0 or "7"."""
    try:
        number = float(their_id.strip(b'"'))
        return int(number) if number.is_integer() else None
    except ValueError:
        return None


def _error(body: bytes) -> RpcError:
    """What an error says, whatever form it has."""
    try:
        error = _read_error(body)
    except msgspec.DecodeError:
        try:
            return RpcError(INTERNAL_ERROR, _read_text(body))
        except msgspec.DecodeError:
            return RpcError(INTERNAL_ERROR, "a failure that is not described as one", body)
    return RpcError(error.code, error.message or "a failure without a word", bytes(error.data))


def _first_members(beginning: bytes) -> dict[bytes, bytes]:
    """The members of an object up to and with the first that is no plain value, which is empty here."""
    members: dict[bytes, bytes] = {}
    at = beginning.find(b"{") + 1
    while (found := _MEMBER.match(beginning, at)) is not None:
        members[found[1]] = found[2] or b""
        at = found.end()
        if found[2] is None:
            break
    return members


def _shown(line: bytes) -> str:
    return line[:_SHOWN].decode("utf-8", "replace")
