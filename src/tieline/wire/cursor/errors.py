"""Read Cursor's errors from the end of a stream, its trailers, or an HTTP status.

The service uses few codes for many errors: `resource_exhausted` alone may mean an outdated client, a used-up plan, a
rate limit, a conversation that is too long, a rejected tool or a conversation that can no longer be continued. The
meaning is looked up first by the number in the error's details, then by phrases in the message, then by the code.
`Failed.code` decides whether a request is retried; `Failed.message` tells the user what to do.
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
_MAX_BODY = 20_000
"""The number of bytes at the start of a response body that are searched for an error."""
_MAX_MESSAGE = 2_000
"""The maximum number of characters of the service's message that are passed on to the client."""
_EMPTY_MESSAGES = ("", "error", "internal error", "unknown error")


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
    """An error as the service reports it, independent of the format of the response."""

    code: str = ""
    text: str = ""
    number: int = 0
    is_retryable: bool | None = None


_END = msgspec.json.Decoder(_End)
_ERROR = msgspec.json.Decoder(_EndError)
_DEBUG = msgspec.json.Decoder(_Debug)


def read_end(payload: bytes, *, has_begun: bool = False) -> Failed | None:
    """Return the error in the JSON that ends a stream, or None if the stream ended without an error.

    `has_begun` says whether the model has already written something. It decides the meaning of `resource_exhausted`
    without a message. If true, the service is temporarily short of capacity; if false, it may be impossible to continue
    the conversation. As in Cursor's own client, a payload that is not a JSON object counts as an error.
    """
    try:
        end = read(_END, payload)
    except Malformed:
        return incomplete("the end frame is unreadable")
    if end.error is None:
        return None
    return _failed(_read_error(end.error), has_begun=has_begun)


def read_trailers(headers: Pairs, *, has_begun: bool = False) -> Failed | None:
    """Return the error in gRPC trailers, or None if they report success. See `read_end` for `has_begun`."""
    trailers = {name.lower(): value.strip() for name, value in headers}
    status = trailers.get("grpc-status", "0")
    if status == "0":
        return None
    code = BY_GRPC_STATUS.get(status, "unknown")
    message = _clear(unquote(trailers.get("grpc-message", "")))
    found = _in_status(_decoded(trailers.get("grpc-status-details-bin", "")))
    return _failed(_combine(code, message, found), has_begun=has_begun)


def trailer_lines(payload: bytes) -> Pairs:
    """Parse the payload of a trailer frame into name-value pairs."""
    lines = payload.decode(errors="replace").splitlines()
    return [(name.strip(), value.strip()) for name, _, value in (line.partition(":") for line in lines) if name.strip()]


def read_status(status: int, body: bytes, headers: Pairs = ()) -> Failed:
    """Return the error for an HTTP response that is not a stream, such as an error status or a redirect."""
    fields = {name.lower(): value for name, value in headers}
    if 300 <= status < 400:
        return _spelled(MISDIRECTED, "", how=_misdirected(status, fields.get("location", "")))
    reported = _read_body(body[:_MAX_BODY])
    known = BY_STATUS.get(status)
    wait = retry_after(fields)
    if reported.number or _by_words(reported) or (reported.code in BY_CODE and known is None):
        return _failed(reported, wait=wait)
    kind = kind_of(status)
    meaning = known or ErrorMeaning(kind, REFUSED, f"Cursor answered with status {status}.")
    return _spelled(meaning, reported.text, status=status if kind == meaning.kind else None, wait=wait)


def _misdirected(status: int, location: str) -> str:
    """Describe an unexpected redirect for an error message, without its path and query, which may contain a token."""
    place = urlsplit(location).netloc if location else ""
    return f"status {status}, a redirect to {place}" if place else f"status {status}"


def read_strays(data: bytes) -> Failed:
    """Return the error in bytes that are not stream frames, such as an HTML error page or a bare JSON error."""
    reported = _read_body(data[:_MAX_BODY])
    if reported.number or reported.code or _by_words(reported):
        return _failed(reported)
    return _spelled(UNREADABLE, reported.text)


def incomplete(how: str) -> Failed:
    """Return the error for a stream that ended before the turn was over. The message names the cause, `how`."""
    return _spelled(INCOMPLETE, "", how=how)


def is_retryable(failed: Failed) -> bool:
    """Return whether the same request may succeed if it is retried."""
    return failed.code in RETRYABLE


def _failed(reported: _ReportedError, *, has_begun: bool = False, wait: float | None = None) -> Failed:
    return _spelled(_meaning(reported, has_begun), reported.text, wait=wait)


def _meaning(reported: _ReportedError, has_begun: bool) -> ErrorMeaning:
    meaning = _by_number(reported) or _by_words(reported) or BY_CODE.get(reported.code) or BY_CODE["unknown"]
    if meaning is POISONED and (has_begun or reported.text):
        meaning = EXHAUSTED
    if reported.is_retryable is False and meaning.code in RETRYABLE:
        return ErrorMeaning(meaning.kind, REFUSED, "Cursor says that trying again will not help.")
    if reported.is_retryable and meaning.code == REFUSED:
        return ErrorMeaning(meaning.kind, TRY_AGAIN, meaning.advice)
    return meaning


def _by_number(reported: _ReportedError) -> ErrorMeaning | None:
    meaning = BY_ERROR.get(reported.number)
    return (reported.number in VAGUE and _by_words(reported)) or meaning


def _by_words(reported: _ReportedError) -> ErrorMeaning | None:
    words = reported.text.lower()
    for code, phrase, meaning in BY_WORDS:
        if phrase in words and (not code or code == reported.code):
            return meaning
    return None


def _spelled(
    meaning: ErrorMeaning, text: str, *, how: str = "", status: int | None = None, wait: float | None = None
) -> Failed:
    prefix = f"Cursor: {text[:_MAX_MESSAGE].rstrip('.')}. " if text else ""
    return Failed(
        kind=meaning.kind,
        message=f"{prefix}{meaning.advice.replace('{how}', how)}",
        status=status or STATUS[meaning.kind],
        code=meaning.code,
        retry_after=wait,
    )


def _read_body(body: bytes) -> _ReportedError:
    """Read the error in a response body: the JSON that ends a stream, a bare JSON error, or other text."""
    try:
        end = read(_END, body)
        return _read_error(end.error or read(_ERROR, body))
    except Malformed:
        text = body.decode(errors="replace")
        return _ReportedError(text=excerpt(text) if "\0" not in text else "")


def _read_error(error: _EndError) -> _ReportedError:
    code = str(error.code or "")
    message = _clear(error.message or "")
    found = next((reported for detail in error.details or () if (reported := _in_detail(detail)) is not None), None)
    return _combine(BY_GRPC_STATUS.get(code, code), message, found)


def _combine(code: str, message: str, found: _ReportedError | None) -> _ReportedError:
    """Combine an error's code and message with its details `found`, if any. The details' text takes precedence."""
    if found is None:
        return _ReportedError(code, message)
    return found._replace(code=code, text=found.text or message)


def _in_detail(detail: _Detail) -> _ReportedError | None:
    if detail.type is not None and not detail.type.endswith(_ERROR_DETAILS):
        return None
    value = _decoded(detail.value or "")
    return (_in_details(value) if value else None) or _in_debug(bytes(detail.debug))


def _in_status(value: bytes) -> _ReportedError | None:
    """Return the error details in a serialized `RpcStatus`, as found in gRPC trailers; None if there are none."""
    try:
        status = aiserver.RpcStatus.FromString(value)
    except DecodeError:
        return None
    details = (_in_details(one.value) for one in status.details if one.type_url.endswith(_ERROR_DETAILS))
    return next((found for found in details if found is not None), None)


def _in_details(value: bytes) -> _ReportedError | None:
    try:
        details = aiserver.ErrorDetails.FromString(value)
    except DecodeError:
        return None
    custom = details.details
    is_retryable = custom.is_retryable if custom.HasField("is_retryable") else None
    return _ReportedError("", _joined(custom.title, custom.detail), details.error, is_retryable)


def _in_debug(json: bytes) -> _ReportedError | None:
    """Parse error details in JSON. The JSON form is used only if the binary form is missing or unreadable."""
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
    """Join the title and the detail of an error the way Cursor's own client shows them."""
    return " ".join(part for part in (title.strip(), detail.strip()) if part)


def _clear(message: str) -> str:
    """Remove white space around a message. Return an empty string for a placeholder such as `internal error`."""
    return "" if message.strip().lower().rstrip(".") in _EMPTY_MESSAGES else message.strip()


def _decoded(text: str) -> bytes:
    """Decode standard or URL-safe base64, with or without padding. Return empty bytes if it is invalid."""
    text = text.strip().rstrip("=").replace("-", "+").replace("_", "/")
    try:
        return b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        return b""
