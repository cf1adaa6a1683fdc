"""What goes wrong at Cursor, told apart: the end of a stream, its trailers, an HTTP status.

The service uses few codes for many things; `resource_exhausted` alone may be an old client, a used-up plan, a rate
limit, a conversation that is too long, a tool it dislikes or a conversation it will never answer again. What counts, in
this order: the number in the error's details, the words, the code. `Failed.code` says what it is, so that whoever runs
the conversation knows what may help; the message says it to a person, with what to do about it.
"""

import binascii
from base64 import b64decode
from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

import msgspec
from google.protobuf.message import DecodeError

from tieline.model.errors import STATUS
from tieline.model.events import Failed
from tieline.wire.cursor._pb import aiserver_pb2 as aiserver
from tieline.wire.cursor.error_codes import (
    BY_CODE,
    BY_ERROR,
    BY_GRPC_STATUS,
    BY_NAME,
    BY_STATUS,
    BY_WORDS,
    EXHAUSTED,
    INCOMPLETE,
    MISDIRECTED,
    POISONED,
    REFUSED,
    RETRYABLE,
    TRY_AGAIN,
    UNREADABLE,
    VAGUE,
    ErrorMeaning,
)
from tieline.wire.shared.http_errors import excerpt, kind_of, retry_after
from tieline.wire.shared.json import Malformed, read

Pairs = Sequence[tuple[str, str]]

_ERROR_DETAILS = "aiserver.v1.ErrorDetails"
_READ = 20_000
"""So much of a body that is no frame is looked at."""
_SAID = 2_000
"""So many characters of what the service says are passed on."""
_SAYS_NOTHING = ("", "error", "internal error", "unknown error")


class _DebugDetails(msgspec.Struct, rename="camel"):
    title: str | None = None
    detail: str | None = None
    is_retryable: bool | None = None


class _Debug(msgspec.Struct):
    error: str | int | None = None
    details: _DebugDetails | None = None


class _Detail(msgspec.Struct):
    type: str | None = None
    value: str | None = None
    debug: msgspec.Raw = msgspec.Raw()


class _EndError(msgspec.Struct):
    code: str | int | None = None
    message: str | None = None
    details: list[_Detail] | None = None


class _End(msgspec.Struct):
    error: _EndError | None = None


class _ReportedError(NamedTuple):
    """What the service says of an error, however it came."""

    code: str = ""
    text: str = ""
    number: int = 0
    is_retryable: bool | None = None


_END = msgspec.json.Decoder(_End)
_ERROR = msgspec.json.Decoder(_EndError)
_DEBUG = msgspec.json.Decoder(_Debug)


def read_end(payload: bytes, *, has_begun: bool = False) -> Failed | None:
    """The error in the JSON that ends a stream, None if it ended well.

    `has_begun` says whether the model had said anything: a refusal without a reason means something else then. An end
    that is no JSON object does not count as one, as it does not for Cursor's own client.
    """
    try:
        end = read(_END, payload)
    except Malformed:
        return incomplete("its last words cannot be read")
    if end.error is None:
        return None
    return _failed(_told(end.error), has_begun=has_begun)


def read_trailers(headers: Pairs, *, has_begun: bool = False) -> Failed | None:
    """The error in gRPC trailers; None if they tell of none."""
    trailers = {name.lower(): value.strip() for name, value in headers}
    status = trailers.get("grpc-status", "0")
    if status == "0":
        return None
    code = BY_GRPC_STATUS.get(status, "unknown")
    message = _clear(unquote(trailers.get("grpc-message", "")))
    found = _in_status(_decoded(trailers.get("grpc-status-details-bin", "")))
    return _failed(_under(code, message, found), has_begun=has_begun)


def trailer_lines(payload: bytes) -> Pairs:
    """The trailers in the payload of a trailer frame."""
    lines = payload.decode(errors="replace").splitlines()
    return [(name.strip(), value.strip()) for name, _, value in (line.partition(":") for line in lines) if name.strip()]


def read_status(status: int, body: bytes, headers: Pairs = ()) -> Failed:
    """A response that is no stream."""
    fields = {name.lower(): value for name, value in headers}
    if 300 <= status < 400:
        return _spelled(MISDIRECTED, "", how=_misdirected(status, fields.get("location", "")))
    told = _told_by(body[:_READ])
    known = BY_STATUS.get(status)
    wait = retry_after(fields)
    if told.number or _by_words(told) or (told.code in BY_CODE and known is None):
        return _failed(told, wait=wait)
    kind = kind_of(status)
    meaning = known or ErrorMeaning(kind, REFUSED, f"Cursor answered with status {status}.")
    return _spelled(meaning, told.text, status=status if kind == meaning.kind else None, wait=wait)


def _misdirected(status: int, location: str) -> str:
    """Name a redirect without its path and query: they may hold a token."""
    place = urlsplit(location).netloc if location else ""
    return f"status {status}, a redirect to {place}" if place else f"status {status}"


def read_strays(data: bytes) -> Failed:
    """Bytes where frames should be: an error page, or an error that somebody wrote without its envelope."""
    told = _told_by(data[:_READ])
    if told.number or told.code or _by_words(told):
        return _failed(told)
    return _spelled(UNREADABLE, told.text)


def incomplete(how: str) -> Failed:
    """A stream that ended before the turn did."""
    return _spelled(INCOMPLETE, "", how=how)


def is_retryable(failed: Failed) -> bool:
    """Whether the same request may well succeed a moment later."""
    return failed.code in RETRYABLE


def _failed(told: _ReportedError, *, has_begun: bool = False, wait: float | None = None) -> Failed:
    return _spelled(_meaning(told, has_begun), told.text, wait=wait)


def _meaning(told: _ReportedError, has_begun: bool) -> ErrorMeaning:
    meaning = _by_number(told) or _by_words(told) or BY_CODE.get(told.code) or BY_CODE["unknown"]
    if meaning is POISONED and (has_begun or told.text):
        meaning = EXHAUSTED
    if told.is_retryable is False and meaning.code in RETRYABLE:
        return ErrorMeaning(meaning.kind, REFUSED, "Cursor says that trying again is of no use.")
    if told.is_retryable and meaning.code == REFUSED:
        return ErrorMeaning(meaning.kind, TRY_AGAIN, meaning.advice)
    return meaning


def _by_number(told: _ReportedError) -> ErrorMeaning | None:
    meaning = BY_ERROR.get(told.number)
    return (told.number in VAGUE and _by_words(told)) or meaning


def _by_words(told: _ReportedError) -> ErrorMeaning | None:
    words = told.text.lower()
    for code, phrase, meaning in BY_WORDS:
        if phrase in words and (not code or code == told.code):
            return meaning
    return None


def _spelled(
    meaning: ErrorMeaning, text: str, *, how: str = "", status: int | None = None, wait: float | None = None
) -> Failed:
    said = f"Cursor: {text[:_SAID].rstrip('.')}. " if text else ""
    return Failed(
        kind=meaning.kind,
        message=f"{said}{meaning.advice.replace('{how}', how)}",
        status=status or STATUS[meaning.kind],
        code=meaning.code,
        retry_after=wait,
    )


def _told_by(body: bytes) -> _ReportedError:
    """The error in a body: wrapped as at the end of a stream, bare, or a page for people."""
    try:
        end = read(_END, body)
        return _told(end.error or read(_ERROR, body))
    except Malformed:
        text = body.decode(errors="replace")
        return _ReportedError(text=excerpt(text) if "\0" not in text else "")


def _told(error: _EndError) -> _ReportedError:
    code = str(error.code or "")
    message = _clear(error.message or "")
    found = next((told for detail in error.details or () if (told := _in_detail(detail)) is not None), None)
    return _under(BY_GRPC_STATUS.get(code, code), message, found)


def _under(code: str, message: str, found: _ReportedError | None) -> _ReportedError:
    """Details under their code; without words of their own the message has to do."""
    if found is None:
        return _ReportedError(code, message)
    return found._replace(code=code, text=found.text or message)


def _in_detail(detail: _Detail) -> _ReportedError | None:
    if detail.type is not None and not detail.type.endswith(_ERROR_DETAILS):
        return None
    value = _decoded(detail.value or "")
    return (_in_details(value) if value else None) or _in_debug(bytes(detail.debug))


def _in_status(value: bytes) -> _ReportedError | None:
    """The details inside the status that trailers carry."""
    try:
        status = aiserver.RpcStatus.FromString(value)
    except DecodeError:
        return None
    return next((_in_details(one.value) for one in status.details if one.type_url.endswith(_ERROR_DETAILS)), None)


def _in_details(value: bytes) -> _ReportedError | None:
    try:
        details = aiserver.ErrorDetails.FromString(value)
    except DecodeError:
        return None
    custom = details.details
    is_retryable = custom.is_retryable if custom.HasField("is_retryable") else None
    return _ReportedError("", _joined(custom.title, custom.detail), details.error, is_retryable)


def _in_debug(json: bytes) -> _ReportedError | None:
    """The same details in the form for people, where the binary one is missing."""
    try:
        debug = read(_DEBUG, json)
    except Malformed:
        return None
    name = debug.error or ""
    number = name if isinstance(name, int) else BY_NAME.get(name.removeprefix("ERROR_"), 0)
    details = debug.details or _DebugDetails()
    if not number and not details.title and not details.detail:
        return None
    return _ReportedError("", _joined(details.title or "", details.detail or ""), number, details.is_retryable)


def _joined(title: str, detail: str) -> str:
    """Title and detail as Cursor's own client shows them."""
    return " ".join(part for part in (title.strip(), detail.strip()) if part)


def _clear(message: str) -> str:
    """A message, unless it says nothing."""
    return "" if message.strip().lower().rstrip(".") in _SAYS_NOTHING else message.strip()


def _decoded(text: str) -> bytes:
    """Base64 with or without its padding, in either alphabet."""
    text = text.strip().rstrip("=").replace("-", "+").replace("_", "/")
    try:
        return b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        return b""
