"""Errors that Cursor's service returns, called refusals: Connect codes, error details, and three encodings.

In a stream, an error is in the end frame (JSON) or in the trailers frame (grpc-web). A unary call returns an HTTP
status and JSON. `NAMED` contains the known errors of the service by short names, which scripts can use.
"""

from base64 import b64encode
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import msgspec

from tieline.model.content import Value
from tieline.model.events import ErrorKind
from tieline.wire.cursor._pb import aiserver_pb2 as aiserver

CODES: Mapping[str, tuple[int, int]] = {
    "canceled": (1, 499),
    "unknown": (2, 500),
    "invalid_argument": (3, 400),
    "deadline_exceeded": (4, 504),
    "not_found": (5, 404),
    "already_exists": (6, 409),
    "permission_denied": (7, 403),
    "resource_exhausted": (8, 429),
    "failed_precondition": (9, 400),
    "aborted": (10, 409),
    "out_of_range": (11, 400),
    "unimplemented": (12, 501),
    "internal": (13, 500),
    "unavailable": (14, 503),
    "data_loss": (15, 500),
    "unauthenticated": (16, 401),
}
"""For each Connect error code, its gRPC status number, and the HTTP status of a unary call that fails with it."""

CAUSES: Mapping[int, str] = {
    5: "ERROR_BAD_MODEL_NAME",
    9: "ERROR_FREE_USER_USAGE_LIMIT",
    10: "ERROR_PRO_USER_USAGE_LIMIT",
    28: "ERROR_GPT_4_VISION_PREVIEW_RATE_LIMIT",
    30: "ERROR_OUTDATED_CLIENT",
    38: "ERROR_UNAUTHORIZED",
    40: "ERROR_DEPRECATED",
    41: "ERROR_RESOURCE_EXHAUSTED",
    43: "ERROR_CONVERSATION_TOO_LONG",
    50: "ERROR_RATE_LIMITED",
    57: "ERROR_PROVIDER_ERROR",
    58: "ERROR_MODEL_BLOCKED",
    59: "ERROR_INTERNAL",
    60: "ERROR_MAX_MODE_REQUIRED",
    64: "ERROR_UNSUPPORTED_REGION",
}


class ServiceRefusal(Value):
    """An error from the service. If `cause` is set, the error has details, which Cursor's client shows to the user."""

    code: str
    message: str = "Error"
    cause: int = 0
    title: str = ""
    detail: str = ""
    retryable: bool | None = None
    action: str = ""
    """The action that the user has to take, such as `payment`. If set, Cursor's own client does not retry."""

    def end(self) -> bytes:
        """Return the refusal as the payload of a Connect end frame."""
        return msgspec.json.encode({"error": self._error()})

    def trailers(self) -> bytes:
        """Return the refusal as the payload of a grpc-web trailers frame."""
        lines = [f"grpc-status: {CODES.get(self.code, (2, 500))[0]}", f"grpc-message: {quote(self.message)}"]
        return "".join(f"{line}\r\n" for line in lines).encode()

    def whole(self) -> tuple[int, bytes]:
        """Return the HTTP status and body of the response to a unary call that fails with this refusal."""
        return CODES.get(self.code, (2, 500))[1], msgspec.json.encode(self._error())

    def _error(self) -> dict[str, Any]:
        error: dict[str, Any] = {"code": self.code, "message": self.message}
        if self.cause:
            error["details"] = [self._details()]
        return error

    def _details(self) -> dict[str, Any]:
        details = aiserver.ErrorDetails(error=self.cause, is_expected=True)
        details.details.title = self.title
        details.details.detail = self.detail
        shown: dict[str, Any] = {"title": self.title, "detail": self.detail}
        if self.retryable is not None:
            details.details.is_retryable = shown["isRetryable"] = self.retryable
        if self.action:
            details.details.analytics_metadata.MergeFromString(b"\x0a%c%b" % (len(self.action), self.action.encode()))
            shown["analyticsMetadata"] = {"actionRequired": self.action}
        debug = {"error": CAUSES.get(self.cause, f"ERROR_{self.cause}"), "details": shown, "isExpected": True}
        # Unpadded, as Connect requires.
        value = b64encode(details.SerializeToString()).decode().rstrip("=")
        return {"type": "aiserver.v1.ErrorDetails", "debug": debug, "value": value}


class RunRefused(Exception):
    """Raised to end a run with a refusal, which is sent to the client."""

    def __init__(self, refusal: ServiceRefusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


def _detailed(
    code: str, cause: int, title: str, detail: str, *, retryable: bool | None = None, action: str = ""
) -> ServiceRefusal:
    return ServiceRefusal(code=code, cause=cause, title=title, detail=detail, retryable=retryable, action=action)


_EXHAUSTED = "resource_exhausted"


NAMED: Mapping[str, ServiceRefusal] = {
    code: ServiceRefusal(code=code, message=f"simulated {code}") for code in CODES
} | {
    "no_state": ServiceRefusal(code="invalid_argument", message="Conversation state is required"),
    "blob": ServiceRefusal(code="internal", message="Blob not found"),
    "image": ServiceRefusal(code="internal", message="Image not found"),
    "data_missing": ServiceRefusal(code="internal", message="Conversation data missing"),
    "empty_value": ServiceRefusal(code="internal", message="google.protobuf.Value must have a value"),
    # Without details. The service uses it for a spent quota, a refused conversation, an overflow and a bad schema.
    "exhausted": ServiceRefusal(code=_EXHAUSTED),
    "outdated": _detailed(_EXHAUSTED, 28, "Update Required", "This version is no longer supported.", action="payment"),
    "quota": _detailed(_EXHAUSTED, 9, "Free limit reached", "Upgrade to go on.", retryable=False),
    "pro_quota": _detailed(_EXHAUSTED, 10, "Usage limit reached", "Raise the limit to go on.", retryable=False),
    "rate_limited": _detailed(_EXHAUSTED, 50, "Rate limited", "Slow down.", retryable=True),
    "too_long": _detailed(_EXHAUSTED, 43, "Conversation too long", "Start a new conversation.", retryable=False),
    "bad_tools": _detailed(_EXHAUSTED, 57, "Provider Error", "The tools could not be registered."),
    "bad_model": _detailed("not_found", 5, "Bad model name", "There is no such model.", retryable=False),
    "model_blocked": _detailed("permission_denied", 58, "Model blocked", "Ask your admin.", retryable=False),
    "max_mode": _detailed("failed_precondition", 60, "Max mode required", "Turn it on.", retryable=False),
    "region": _detailed("permission_denied", 64, "Unsupported region", "This region is not available for your team."),
    "deprecated": _detailed("unimplemented", 40, "Deprecated", "Request type deprecated.", retryable=False),
    "suspicious": _detailed("unauthenticated", 38, "Unauthorized request.", "Suspicious activity was seen."),
    "provider": _detailed("unavailable", 57, "Provider Error", "The model's maker is busy.", retryable=True),
    "provider_for_good": _detailed("unavailable", 57, "Provider Error", "It will not get better.", retryable=False),
}

OF_KIND: Mapping[ErrorKind, str] = {
    "bad_request": "invalid_argument",
    "unauthorized": "unauthenticated",
    "billing": "resource_exhausted",
    "forbidden": "permission_denied",
    "not_found": "not_found",
    "too_large": "invalid_argument",
    "rate_limited": "resource_exhausted",
    "overloaded": "unavailable",
    "timeout": "deadline_exceeded",
    "upstream": "unavailable",
    "internal": "internal",
    "cancelled": "canceled",
}
"""The Connect code for each kind of error that the demo model can report."""
