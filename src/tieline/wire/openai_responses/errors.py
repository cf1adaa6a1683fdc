"""Build the error of a failed response. For other errors, see `wire.shared.openai_errors`.

Clients use the error's `code` to decide whether to retry: for example, they retry after `server_error`, but not after
`context_length_exceeded`.
"""

from typing import Any

from tieline.model.events import ErrorKind, Failed
from tieline.wire.shared.openai_errors import CONTEXT_LENGTH, TYPES, failure, is_too_long, read_error, render_error

__all__ = ["failed_error", "failure", "read_error", "render_error"]

_CODES: dict[ErrorKind, str] = {
    "bad_request": "invalid_prompt",
    "billing": "insufficient_quota",
    "rate_limited": "rate_limit_exceeded",
    "overloaded": "server_is_overloaded",
}
_KNOWN = frozenset(
    [
        *_CODES.values(),
        *("bio_policy", "cyber_policy", "misalignment_policy_violation", "slow_down", "usage_not_included"),
        *(CONTEXT_LENGTH, "server_error"),
    ]
)
"""Codes that clients recognise. An upstream's code is passed on only if it is one of these."""


def failed_error(failed: Failed) -> dict[str, Any]:
    """Return the member `error` of a failed response.

    For a rate limit, the message contains the delay before a retry, if known: an error in a stream has no headers, so
    clients look for the delay in the message.
    """
    message = failed.message
    if failed.kind == "rate_limited" and failed.retry_after is not None and "try again in" not in message:
        message = f"{message.rstrip('.')}. Please try again in {failed.retry_after:g}s."
    return {"type": TYPES[failed.kind], "code": _code(failed), "message": message}


def _code(failed: Failed) -> str:
    if failed.code is not None and failed.code in _KNOWN:
        return failed.code
    if is_too_long(failed):
        return CONTEXT_LENGTH
    return _CODES.get(failed.kind, "server_error")
