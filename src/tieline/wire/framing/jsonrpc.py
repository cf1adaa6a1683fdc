"""JSON-RPC 2.0 with one message per line, for both sides of a connection. No I/O.

`JsonRpcPeer` is one side. Feed it the bytes from the other side, in chunks of any size; it returns `IncomingRequest`,
`Notification`, `Response` and `SkippedInput`. Messages to send are collected in the outbox. Rules:

- Invalid input from the other side never raises an exception. Input that is not a message is returned as
  `SkippedInput`, for the log. An invalid request is answered with an error, because its sender waits for a response.
- Only the beginning of a line over the size limit is kept, so that the other side cannot exhaust memory. If the
  beginning contains the id of a request, only that request fails.
- An incoming request is assigned a local number and is answered once, by that number. Its id is sent back byte for
  byte: 1, "1" and 1.0 are different ids, and two open requests with the same id are separate requests.
- Only the first response to an outgoing request counts; later responses are skipped. Outgoing ids are numbers, but a
  response that contains the number as a string still matches.
- A response with an error means failure, whatever else it contains. A response with neither error nor result means
  success with a null result.
"""

import json
import re
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw, Struct

from tieline.wire.shared.json import encode, replace_lone_surrogates

INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
REQUEST_CANCELLED = -32800

LIMIT = 64 * 1024 * 1024
BEGINNING = 4096
"""The number of bytes at the beginning of an oversized line that are kept."""
MAX_OPEN = 4096
"""Maximum number of unanswered incoming requests. Further requests are answered with an error."""

NULL = Raw(b"null")

_ABSENT = Raw()
_SHOWN = 200
_CONTROL = re.compile(rb"(?:\x1b\[[0-9;?]*[@-~]|\x1b\][^\x07]*\x07|\x1b[@-Z\\^_=>78]|\xef\xbb\xbf|[\x00-\x20])+")
"""Terminal control sequences and byte order marks, which some programs write before their first message."""
_MEMBER = re.compile(rb'\s*"(\w*)"\s*:\s*("(?:[^"\\]|\\.)*"|-?[0-9][0-9.eE+-]*|true|false|null)?\s*,?', re.DOTALL)


class RpcError(NamedTuple):
    """The error in the response to a failed request. `data` is JSON text, or empty if the error has no data."""

    code: int
    message: str
    data: bytes = b""


class IncomingRequest(NamedTuple):
    """A request from the other side. Pass `number` to `JsonRpcPeer.result` or `JsonRpcPeer.error` to answer it."""

    number: int
    method: str
    params: Raw


class Notification(NamedTuple):
    """A message from the other side that expects no answer."""

    method: str
    params: Raw


class Response(NamedTuple):
    """The answer to an outgoing request, with the id and method of that request."""

    id: int
    method: str
    result: Raw
    error: RpcError | None = None


class SkippedInput(NamedTuple):
    """Input that was not accepted. `reason` says why, and `beginning` contains its first bytes."""

    reason: str
    beginning: str = ""


Incoming = IncomingRequest | Notification | Response | SkippedInput


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


class _OpenRequest(NamedTuple):
    id: bytes
    method: str


_read_envelope = msgspec.json.Decoder(_Envelope).decode
_read_batch = msgspec.json.Decoder(list[Raw]).decode
_read_text = msgspec.json.Decoder(str).decode
_read_error = msgspec.json.Decoder(_ErrorBody).decode


# ── Lines ────────────────────────────────────────────────────────────────────────────────────────


class Oversized(NamedTuple):
    """A line that exceeds the size limit: its first bytes and its size."""

    beginning: bytes
    size: int


class LineReader:
    """Splits input that arrives in chunks of any size into lines, without their line feeds.

    A line of more than `limit` bytes is returned as `Oversized`.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held: list[bytes] = []
        self._size = 0
        self._is_dropping = False

    def feed(self, data: bytes) -> list[bytes | Oversized]:
        """Return the lines that `data` completes."""
        first, *rest = data.split(b"\n")
        self._hold(first)
        if not rest:
            return []
        lines = [self._end()]
        *whole, last = rest
        limit = self._limit
        lines += [line if len(line) <= limit else Oversized(line[:BEGINNING], len(line)) for line in whole]
        self._hold(last)
        return lines

    def close(self) -> bytes | Oversized | None:
        """End the stream. Return the text after the last line feed, or None if there is no such text."""
        return self._end() if self._size else None

    def _hold(self, data: bytes) -> None:
        if not data:
            return
        self._size += len(data)
        if self._is_dropping:
            return
        self._held.append(data)
        if self._size > self._limit:
            self._is_dropping = True
            self._held = [b"".join(self._held)[:BEGINNING]]

    def _end(self) -> bytes | Oversized:
        held = self._held
        line = held[0] if len(held) == 1 else b"".join(held)
        size, was_dropped = self._size, self._is_dropping
        self._held = []
        self._size = 0
        self._is_dropping = False
        return Oversized(line, size) if was_dropped else line


# ── Messages ─────────────────────────────────────────────────────────────────────────────────────


class JsonRpcPeer:
    """One side of a JSON-RPC connection, without I/O: pass received bytes to `feed`, send the bytes from `outbox`."""

    def __init__(self, *, limit: int = LIMIT) -> None:
        self._lines = LineReader(limit)
        self._limit = limit
        self._last_id = 0
        self._last_number = 0
        self._pending: dict[int, str] = {}
        self._open: dict[int, _OpenRequest] = {}
        self._outbox: list[bytes] = []

    # ── sending ──

    def request(self, method: str, params: Any = None) -> int:
        """Send a request and return its id, which its `Response` will contain."""
        self._last_id += 1
        self._pending[self._last_id] = method
        self._send({"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params})
        return self._last_id

    def notify(self, method: str, params: Any = None) -> None:
        """Send a notification."""
        self._send({"jsonrpc": "2.0", "method": method, "params": params})

    def result(self, number: int, value: Any) -> bool:
        """Answer an incoming request with a result. Return False if the request is unknown or already answered."""
        opened = self._open.pop(number, None)
        if opened is None:
            return False
        self._send_answer(opened.id, {"result": value})
        return True

    def error(self, number: int, code: int, message: str, data: Any = None) -> bool:
        """Answer an incoming request with an error. Return False if the request is unknown or already answered."""
        opened = self._open.pop(number, None)
        if opened is None:
            return False
        self._send_error(opened.id, code, message, data)
        return True

    def outbox(self) -> bytes:
        """Return the bytes to send, and empty the outbox."""
        data = b"".join(self._outbox)
        self._outbox.clear()
        return data

    # ── open requests ──

    @property
    def pending(self) -> dict[int, str]:
        """The methods of the outgoing requests that have no response yet, by request id."""
        return dict(self._pending)

    @property
    def open(self) -> dict[int, str]:
        """The methods of the incoming requests that are not answered yet, by local number."""
        return {number: opened.method for number, opened in self._open.items()}

    def numbers_with_id(self, their_id: Raw) -> list[int]:
        """Return the local numbers of the unanswered incoming requests with this id."""
        wanted = bytes(their_id)
        return [number for number, opened in self._open.items() if opened.id == wanted]

    def forget(self, request: int) -> None:
        """Stop waiting for the response to an outgoing request. If the response arrives later, it is skipped."""
        self._pending.pop(request, None)

    # ── receiving ──

    def feed(self, data: bytes) -> list[Incoming]:
        """Return the messages that `data` completes, and the input that was skipped."""
        found: list[Incoming] = []
        for line in self._lines.feed(data):
            self._read_line(line, found)
        return found

    def close(self) -> list[Incoming]:
        """End the input. Return the last message if it was not terminated by a line feed."""
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
        """Read the messages of a JSON-RPC batch, and append them to `found`.

        Batches are accepted, although the protocols that use this module forbid them.
        """
        try:
            members = [bytes(member) for member in _read_batch(line)]
        except (msgspec.DecodeError, RecursionError):
            members = _slow_members(line)
        if not members:
            found.append(SkippedInput("a list that is not a batch of messages", _shown(line)))
        found += map(self._read_message, members)

    def _read_message(self, line: bytes) -> Incoming:
        envelope = _envelope(line)
        if envelope is None:
            return SkippedInput("not a JSON-RPC message", _shown(line))
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
            return SkippedInput("a message whose method is not a string", _shown(line))
        if not is_request:
            return Notification(method, envelope.params)
        if len(self._open) >= MAX_OPEN:
            self._send_error(
                their_id, INTERNAL_ERROR, f"too many open requests; at most {MAX_OPEN} may wait for an answer"
            )
            return SkippedInput("a request beyond the limit of open requests", _shown(line))
        self._last_number += 1
        self._open[self._last_number] = _OpenRequest(their_id, method)
        return IncomingRequest(self._last_number, method, envelope.params)

    def _read_answer(self, envelope: _Envelope, line: bytes) -> Incoming:
        if envelope.id is _ABSENT and envelope.result is _ABSENT and envelope.error is _ABSENT:
            return SkippedInput("an object that is not a JSON-RPC message", _shown(line))
        request = _number(bytes(envelope.id))
        method = None if request is None else self._pending.pop(request, None)
        if request is None or method is None:
            return SkippedInput("a response to no open request", _shown(line))
        error = bytes(envelope.error)
        if error not in (b"", b"null"):
            return Response(request, method, NULL, _error(error))
        return Response(request, method, NULL if envelope.result is _ABSENT else envelope.result)

    def _drop(self, line: Oversized) -> Incoming:
        """Drop an oversized line.

        If its beginning contains the id of a request in either direction, that request fails with an error.
        """
        reason = f"a message of {line.size} bytes was dropped; the limit is {self._limit}"
        members = _first_members(line.beginning)
        their_id = members.get(b"id", b"")
        request = _number(their_id)
        if request in self._pending and not members.keys() & {b"method", b"params"}:
            return Response(request, self._pending.pop(request), NULL, RpcError(INTERNAL_ERROR, reason))
        if their_id not in (b"", b"null") and not members.keys() & {b"result", b"error"}:
            self._send_error(their_id, INVALID_REQUEST, reason)
        return SkippedInput(reason, _shown(line.beginning))

    # ── writing ──

    def _send_answer(self, their_id: bytes, body: dict[str, Any]) -> None:
        # The id must be returned byte for byte, so it is inserted before the encoded members.
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
        # A lone surrogate, which UTF-8 cannot encode.
        return replace_lone_surrogates(json.dumps(msgspec.to_builtins(message)).encode())


def _envelope(line: bytes) -> _Envelope | None:
    """Return the members of the message in `line` as raw JSON; None if the line is not a JSON object."""
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
    """Like `_envelope`, but accept JSON that msgspec rejects, such as escaped lone surrogates and NaN."""
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
    """Return the id as an integer, or None if it does not represent an integer. The ids 7, 7.0 and "7" all give 7."""
    try:
        number = float(their_id.strip(b'"'))
        return int(number) if number.is_integer() else None
    except ValueError:
        return None


def _error(body: bytes) -> RpcError:
    """Parse the `error` member of a response. Values that are not standard error objects are accepted too."""
    try:
        error = _read_error(body)
    except msgspec.DecodeError:
        try:
            return RpcError(INTERNAL_ERROR, _read_text(body))
        except msgspec.DecodeError:
            return RpcError(INTERNAL_ERROR, "an error in an unknown form", body)
    return RpcError(error.code, error.message or "an error without a message", bytes(error.data))


def _first_members(beginning: bytes) -> dict[bytes, bytes]:
    """Return the names and values of the first members of a truncated JSON object.

    Stop after the first member whose value is an object, a list or truncated. For this member, return an empty value.
    """
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
