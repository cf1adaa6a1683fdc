"""The error of a failed response; `wire.shared.openai_errors` has what other protocols share.

Clients decide by `code` whether they try again: a client that gets `server_error` does, for example, but not one that
gets `context_length_exceeded`.
"""

import re
from typing import Any

from tieline.model.events import ErrorKind, Failed
from tieline.wire.shared.openai_errors import TYPES, failure, read_error, render_error

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
        *("context_length_exceeded", "server_error"),
    ]
)
"""Codes that clients know; those of an upstream are passed on."""
_CONTEXT = re.compile(r"prompt is too long|(context|prompt|input)\b.{0,40}\b(length|window|limit)", re.IGNORECASE)
"""How other upstreams say that the conversation is too long. Clients then compact it."""


def failed_error(failed: Failed) -> dict[str, Any]:
    """Return the member `error` of a failed response.

    Clients read the delay before the next attempt from the message, because there are no headers.
    """
    message = failed.message
    if failed.kind == "rate_limited" and failed.retry_after is not None and "try again in" not in message:
        message = f"{message.rstrip('.')}. Please try again in {failed.retry_after:g}s."
    return {"type": TYPES[failed.kind], "code": _code(failed), "message": message}


def _code(failed: Failed) -> str:
    if failed.code is not None and failed.code in _KNOWN:
        return failed.code
    if failed.kind == "bad_request" and _CONTEXT.search(failed.message):
        return "context_length_exceeded"
    return _CODES.get(failed.kind, "server_error")
