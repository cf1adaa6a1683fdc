"""Read errors from upstreams, and render errors for clients."""

from collections.abc import Sequence

import msgspec
from msgspec import Raw

from tieline.model.errors import GatewayError, is_transient
from tieline.model.events import ErrorKind, Failed
from tieline.wire.anthropic.schema import ErrorIn, MessageIn, is_set
from tieline.wire.shared.http_errors import excerpt, kind_of, retry_after
from tieline.wire.shared.json import Malformed, encode, read

_BODY = msgspec.json.Decoder(MessageIn)
_ERROR = msgspec.json.Decoder(ErrorIn)
_STRING = msgspec.json.Decoder(str)

TYPES: dict[ErrorKind, str] = {
    "bad_request": "invalid_request_error",
    "unauthorized": "authentication_error",
    "billing": "billing_error",
    "forbidden": "permission_error",
    "not_found": "not_found_error",
    "too_large": "request_too_large",
    "rate_limited": "rate_limit_error",
    "overloaded": "overloaded_error",
    "timeout": "timeout_error",
    "upstream": "api_error",
    "internal": "api_error",
    "cancelled": "api_error",
}
_BY_TYPE: dict[str, tuple[ErrorKind, int]] = {
    "invalid_request_error": ("bad_request", 400),
    "authentication_error": ("unauthorized", 401),
    "billing_error": ("billing", 402),
    "permission_error": ("forbidden", 403),
    "not_found_error": ("not_found", 404),
    "request_too_large": ("too_large", 413),
    "rate_limit_error": ("rate_limited", 429),
    "api_error": ("upstream", 502),
    "timeout_error": ("timeout", 504),
    "overloaded_error": ("overloaded", 529),
}


def render_error(error: GatewayError, request_id: str = "") -> bytes:
    """Return the body of an error response."""
    body = {"type": "error", "error": _error(error.kind, error.message, error.param, error.code)}
    return encode({**body, "request_id": request_id or error.request_id or None})


def error_event(failed: Failed) -> bytes:
    """Return the JSON of an error that is sent as an event in a stream.

    At this point, the HTTP status has already been sent, so clients use the error type to decide whether to retry.
    Many clients retry only after an `overloaded_error`, so this type is used for transient upstream errors.
    """
    kind: ErrorKind = "overloaded" if failed.kind == "upstream" and is_transient(failed) else failed.kind
    return encode({"type": "error", "error": _error(kind, failed.message, failed.param, failed.code)})


def _error(kind: ErrorKind, message: str, param: str | None, code: str | None) -> dict[str, object]:
    if param and f"`{param}`" not in message:
        message = f"`{param}`: {message}"
    error: dict[str, object] = {"type": TYPES[kind], "message": message}
    if code == "thread_unsupported_request":
        # When the SDKs receive this code, they send the request again with the whole history.
        error["details"] = {"error_code": code, "unsupported": []}
    return error


def read_error(status: int, body: bytes, headers: Sequence[tuple[str, str]] = ()) -> Failed:
    """Parse an upstream's error response."""
    error = _error_in(body)
    kind = _kind(error.type, status)
    return Failed(
        kind=kind,
        message=error.message or _page(body) or f"the upstream answered with status {status}",
        status=status,
        code=_code(error),
        retry_after=retry_after({name.lower(): value for name, value in headers}),
    )


def failed_by(raw: Raw) -> Failed:
    """Parse an error within an answer. `raw` is an error object, a string, or the whole body of an error response."""
    error = _error_in(bytes(raw))
    kind, status = _BY_TYPE.get(error.type or "", ("upstream", 502))
    message = error.message or _page(bytes(raw)) or "the upstream failed without a message"
    return Failed(kind=kind, message=message, status=status, code=_code(error))


def _error_in(body: bytes) -> ErrorIn:
    try:
        outer = read(_BODY, body)
        return _inner(bytes(outer.error)) if is_set(outer.error) else read(_ERROR, body)
    except Malformed:
        return _inner(body)


def _inner(error: bytes) -> ErrorIn:
    try:
        return read(_ERROR, error)
    except Malformed:
        pass
    try:
        return ErrorIn(message=read(_STRING, error))
    except Malformed:
        return ErrorIn()


def _code(error: ErrorIn) -> str | None:
    return (error.details and error.details.error_code) or error.type


def _kind(error_type: str | None, status: int) -> ErrorKind:
    known = _BY_TYPE.get(error_type or "")
    if known is not None and known[0] != "upstream":
        return known[0]
    return kind_of(status)


def _page(body: bytes) -> str:
    return excerpt(body[:20_000].decode(errors="replace"))
