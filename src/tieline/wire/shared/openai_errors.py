"""Read and render the error responses of OpenAI's protocols.

Errors for clients always have all four keys that the spec defines. Errors from upstreams vary: the error is an object
or a string, its code is a word or a status, and sometimes the body is an HTML page.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tieline.model.errors import STATUS, GatewayError
from tieline.model.events import ErrorKind, Failed, Headers
from tieline.wire.shared.http_errors import excerpt, kind_of, retry_after
from tieline.wire.shared.json import encode

TYPES: dict[ErrorKind, str] = {
    "bad_request": "invalid_request_error",
    "unauthorized": "authentication_error",
    "billing": "insufficient_quota",
    "forbidden": "permission_error",
    "not_found": "not_found_error",
    "too_large": "request_too_large",
    "rate_limited": "rate_limit_error",
    "cancelled": "request_cancelled",
    "internal": "server_error",
    "upstream": "upstream_error",
    "overloaded": "overloaded_error",
    "timeout": "timeout_error",
}
"""The value of `type` in an error response, by kind of error."""
_KINDS: dict[str, ErrorKind] = {
    **{word: kind for kind, word in TYPES.items() if kind != "internal"},
    "invalid_api_key": "unauthorized",
    "authentication": "unauthorized",
    "unauthorized": "unauthorized",
    "billing_error": "billing",
    "insufficient_balance": "billing",
    "billing_not_active": "billing",
    "billing_hard_limit_reached": "billing",
    "permission_denied": "forbidden",
    "model_not_found": "not_found",
    "notfounderror": "not_found",
    "invalid_request": "bad_request",
    "invalid_argument": "bad_request",
    "badrequesterror": "bad_request",
    "context_length_exceeded": "bad_request",
    "invalid_prompt": "bad_request",
    "rate_limit_exceeded": "rate_limited",
    "rate_limit_reached": "rate_limited",
    "too_many_requests": "rate_limited",
    "resource_exhausted": "rate_limited",
    "requests": "rate_limited",
    "tokens": "rate_limited",
    "overloaded": "overloaded",
    "server_overloaded": "overloaded",
    "server_is_overloaded": "overloaded",
    "slow_down": "overloaded",
    "engine_overloaded": "overloaded",
    "unavailable": "overloaded",
    "service_unavailable": "overloaded",
    "timeout": "timeout",
    "request_timeout": "timeout",
    "deadline_exceeded": "timeout",
}
CONTEXT_LENGTH = "context_length_exceeded"
"""The code that makes clients compact their conversation."""
_CONTEXT = re.compile(r"prompt is too long|(context|prompt|input)\b.{0,40}\b(length|window|limit)", re.IGNORECASE)
"""Matches messages saying that a conversation is too long, from upstreams that do not send the code CONTEXT_LENGTH."""
_KEPT_HEADERS = ("retry-after", "x-ratelimit-", "x-should-retry", "x-request-id", "request-id")
_PAGE = re.compile(r"<(!doctype|html|head|body)\b", re.IGNORECASE)
_KEY = re.compile(r"\bsk-[\w*.-]{6,}")


def render_error(error: GatewayError, request_id: str = "") -> bytes:
    """Return the body of an error response."""
    body = error_body(error.failed())
    if request_id:
        body["request_id"] = request_id
    return encode(body)


def read_error(status: int, body: bytes, headers: Sequence[tuple[str, str]] = ()) -> Failed:
    """Parse an upstream's error response into a failure."""
    failed = failure(_decoded(body), status)
    known = {name.lower(): value for name, value in headers}
    kept: Headers = tuple((name, value) for name, value in known.items() if name.startswith(_KEPT_HEADERS))
    return msgspec.structs.replace(failed, retry_after=retry_after(known), headers=kept)


def failure(value: Any, status: int = 200) -> Failed:
    """Return the failure for an upstream's error. `value` is a whole body or only its `error`, an object or a string.

    `status` is the status of the response. In a stream, this is 200, but the error itself may contain another status.
    """
    error = _innermost(value)
    words = [str(error[name]) for name in ("code", "type", "status") if error.get(name)]
    if status < 400:
        status = next((int(word) for word in words if re.fullmatch(r"[45]\d\d", word)), 0)
    kind = _kind(words, status)
    code = error.get("code")
    param = error.get("param")
    return Failed(
        kind=kind,
        message=_message(error, status),
        status=status or STATUS[kind],
        code=code if isinstance(code, str) and code else None,
        param=param if isinstance(param, str) and param else None,
    )


def error_body(failed: Failed) -> dict[str, Any]:
    """Return the failure as the error object that clients expect."""
    error = {
        "message": failed.message,
        "type": TYPES[failed.kind],
        "param": failed.param,
        "code": CONTEXT_LENGTH if is_too_long(failed) else failed.code,
    }
    return {"error": error}


def is_too_long(failed: Failed) -> bool:
    """Return whether an upstream refused a request because it is longer than the context window of the model."""
    if failed.code == CONTEXT_LENGTH:
        return True
    return failed.kind == "bad_request" and failed.param is None and bool(_CONTEXT.search(failed.message))


def _kind(words: Sequence[str], status: int) -> ErrorKind:
    for word in words:
        kind = _KINDS.get(word.casefold())
        if kind is not None:
            return kind
    return kind_of(status)


def _decoded(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (ValueError, RecursionError):
        return excerpt(body.decode("utf-8", "replace"))


def _innermost(value: Any) -> Mapping[str, Any]:
    """Return the object that contains the message. Some upstreams wrap it in other objects and lists."""
    for _ in range(5):
        if isinstance(value, list) and value:
            value = value[0]
        elif isinstance(value, dict) and (value.get("error") or value.get("detail")):
            value = value.get("error") or value["detail"]
        else:
            break
    if isinstance(value, dict):
        return value
    return {"message": value} if isinstance(value, str) else {"message": encode(value).decode() if value else ""}


def _message(error: Mapping[str, Any], status: int) -> str:
    message = error.get("message") or error.get("msg")
    if isinstance(message, str) and message.strip():
        return _KEY.sub("sk-***", excerpt(message) if _PAGE.search(message) else message.strip())
    return f"the upstream answered with status {status}" if status else "the upstream reported an error"
