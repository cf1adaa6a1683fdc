"""Tables of Cursor's errors. They map each known number, phrase and code to Tieline's error code and advice for users.

Tieline retries the same errors as Cursor's own client, as far as its behaviour is known.
"""

from typing import NamedTuple

from tieline.model.events import ErrorKind


class ErrorMeaning(NamedTuple):
    """The meaning of a Cursor error: its kind, Tieline's code, advice for the user, and whether a retry may help."""

    kind: ErrorKind
    code: str
    advice: str
    is_retryable: bool = False


REFUSED = "cursor_refused"
"""Tieline's code for a refusal whose reason is stated only in the text of the service's message."""
TRY_AGAIN = "cursor_try_again"
"""Tieline's code for a refusal after which, according to the service, a retry may help."""

OUTDATED = ErrorMeaning(
    "bad_request",
    "cursor_outdated_client",
    "Cursor refuses the client version that Tieline sends; this is not a rate limit. "
    "Set a newer client version for the Cursor backend in the configuration.",
)
QUOTA = ErrorMeaning(
    "billing",
    "cursor_quota",
    "The Cursor plan has no usage left. See the usage page of the account at cursor.com, or choose another model.",
)
PLAN = ErrorMeaning("billing", "cursor_plan", "The Cursor plan does not include this. Choose another model or plan.")
RATE_LIMITED = ErrorMeaning(
    "rate_limited", "cursor_rate_limited", "Cursor limits the request rate. Wait a minute and try again."
)
BUSY = ErrorMeaning("rate_limited", "cursor_busy", "Cursor limits the request rate. Wait a minute and try again.", True)
EXHAUSTED = ErrorMeaning(
    "rate_limited", "cursor_exhausted", "Cursor ran out of some resource. Wait a minute and try again.", True
)
POISONED = ErrorMeaning(
    "upstream",
    "cursor_poisoned",
    "Cursor refused the request without a reason. Most often the conversation is too long or can no longer be "
    "continued, the plan has no usage left, or Cursor does not accept the schema of a tool. Begin a new conversation, "
    "check the usage page of the account, or try with fewer tools.",
    True,
)
TOO_LONG = ErrorMeaning(
    "bad_request",
    "context_length_exceeded",
    "The prompt is too long: it exceeds the context length of this model. Compact or shorten the conversation.",
)
BAD_TOOLS = ErrorMeaning(
    "bad_request",
    "cursor_bad_tools",
    "Cursor does not accept one of the tools. Leave out tools one by one to find it: a name that Cursor uses itself "
    "or an unusual schema is the most likely cause.",
)
BLOB_MISSING = ErrorMeaning(
    "upstream",
    "cursor_blob_missing",
    "Cursor has lost track of this conversation. Try again: it is rebuilt from the history.",
    True,
)
NO_MODEL = ErrorMeaning(
    "not_found", "model_not_found", "Cursor has no such model for this account; see the list of models."
)
MODEL_BLOCKED = ErrorMeaning(
    "forbidden", "cursor_model_blocked", "The account or its team may not use this model. Choose another one."
)
MAX_MODE = ErrorMeaning(
    "bad_request",
    "cursor_max_mode_required",
    "This model needs Cursor's max mode: append `?max=true` to its name, or choose another model.",
)
REGION = ErrorMeaning(
    "forbidden",
    "cursor_region",
    "Cursor does not serve this account or model from here. Choose another model, or set the host of the right region "
    "for the Cursor backend in the configuration.",
)
DEPRECATED = ErrorMeaning(
    "bad_request",
    "cursor_deprecated",
    "Cursor no longer offers this call. Update Tieline; if it is the newest, please report this.",
)
UNAUTHENTICATED = ErrorMeaning(
    "unauthorized", "cursor_unauthenticated", "Cursor does not accept the login. Run `tieline login cursor`."
)
BLOCKED = ErrorMeaning(
    "forbidden",
    "cursor_blocked",
    "Cursor has blocked the account or this address for suspicious activity. Log in at cursor.com to check, or contact "
    "its support. Trying again makes it worse.",
)
FORBIDDEN = ErrorMeaning("forbidden", "cursor_forbidden", "The Cursor account may not do this.")
SYSTEM_PROMPT = ErrorMeaning(
    "bad_request",
    "cursor_system_prompt",
    "Cursor does not allow this account to replace the system prompt. Send it as a rule instead.",
)
TOO_LARGE = ErrorMeaning(
    "too_large", "cursor_image_too_large", "An image is too large for this model. Send a smaller one."
)
INVALID = ErrorMeaning("bad_request", "cursor_invalid_argument", "Cursor could not make sense of the request.", True)
BAD_REQUEST = ErrorMeaning("bad_request", REFUSED, "Cursor refused the request.")
NOT_FOUND = ErrorMeaning("not_found", "cursor_not_found", "Cursor did not find the requested object.", True)
UNAVAILABLE = ErrorMeaning(
    "overloaded", "cursor_unavailable", "Cursor is not available at the moment. Try again a little later.", True
)
PROVIDER = ErrorMeaning(
    "upstream",
    "cursor_provider_error",
    "The provider of the model failed. Try again, or choose another model.",
    True,
)
INTERNAL = ErrorMeaning("upstream", "cursor_internal", "Something went wrong inside Cursor. Try again.", True)
TIMED_OUT = ErrorMeaning("timeout", "cursor_timeout", "Cursor took too long. Try again.", True)
CANCELLED = ErrorMeaning("cancelled", "cursor_cancelled", "The run was cancelled on Cursor's side.")
HTTP1_REFUSED = ErrorMeaning(
    "upstream",
    "cursor_http1_refused",
    "The host accepts only HTTP/2. Set the transport of the Cursor backend to HTTP/2 in the configuration.",
    True,
)
CONTENT_TYPE = ErrorMeaning(
    "upstream",
    "cursor_content_type",
    "The host does not accept this kind of request. Check the host of the Cursor backend in the configuration.",
    True,
)
INCOMPLETE = ErrorMeaning("upstream", "cursor_incomplete", "Cursor's answer ended before the turn did: {how}.", True)
MISDIRECTED = ErrorMeaning(
    "upstream",
    "cursor_misdirected",
    "Cursor answered with {how}, which is neither an answer nor an error. Check the host of the Cursor backend, and "
    "whether there is a proxy in between.",
)
UNREADABLE = ErrorMeaning(
    "upstream",
    "cursor_unreadable",
    "The response is not from Cursor's service. Check the host of the Cursor backend, and whether there is a proxy in "
    "between.",
)

BY_ERROR: dict[int, ErrorMeaning] = {
    **dict.fromkeys((1, 2, 3, 6, 11, 12, 18, 38, 42), UNAUTHENTICATED),
    **dict.fromkeys((4, 53), FORBIDDEN),
    **dict.fromkeys((5, 61), NO_MODEL),
    **dict.fromkeys((7, 8, 14, 22, 28, 34, 35, 50, 51, 63), RATE_LIMITED),
    **dict.fromkeys((9, 10, 44, 45, 62), QUOTA),
    **dict.fromkeys((13, 57), PROVIDER),
    **dict.fromkeys((20, 43), TOO_LONG),
    **dict.fromkeys((29, 33, 36, 52), BAD_REQUEST),
    21: CANCELLED,
    23: PLAN,
    25: TIMED_OUT,
    30: OUTDATED,
    31: TOO_LARGE,
    39: NOT_FOUND,
    40: DEPRECATED,
    41: POISONED,
    54: BLOCKED,
    **dict.fromkeys((56, 59), INTERNAL),
    58: MODEL_BLOCKED,
    60: MAX_MODE,
    64: REGION,
}
"""The meanings of errors, by the number in the error's details."""

VAGUE = frozenset((13, 28, 29, 36, 38, 41, 52, 57, 59))
"""Numbers that the service uses for several errors. For these, phrases in the message are looked up first."""

BY_NAME = {
    "BAD_API_KEY": 1,
    "NOT_LOGGED_IN": 2,
    "INVALID_AUTH_ID": 3,
    "NOT_HIGH_ENOUGH_PERMISSIONS": 4,
    "BAD_MODEL_NAME": 5,
    "USER_NOT_FOUND": 6,
    "FREE_USER_RATE_LIMIT_EXCEEDED": 7,
    "PRO_USER_RATE_LIMIT_EXCEEDED": 8,
    "FREE_USER_USAGE_LIMIT": 9,
    "PRO_USER_USAGE_LIMIT": 10,
    "AUTH_TOKEN_NOT_FOUND": 11,
    "AUTH_TOKEN_EXPIRED": 12,
    "OPENAI": 13,
    "OPENAI_RATE_LIMIT_EXCEEDED": 14,
    "AGENT_REQUIRES_LOGIN": 18,
    "MAX_TOKENS": 20,
    "USER_ABORTED_REQUEST": 21,
    "GENERIC_RATE_LIMIT_EXCEEDED": 22,
    "PRO_USER_ONLY": 23,
    "TIMEOUT": 25,
    "GPT_4_VISION_PREVIEW_RATE_LIMIT": 28,
    "CUSTOM_MESSAGE": 29,
    "OUTDATED_CLIENT": 30,
    "CLAUDE_IMAGE_TOO_LARGE": 31,
    "FILE_NOT_FOUND": 33,
    "API_KEY_RATE_LIMIT": 34,
    "DEBOUNCED": 35,
    "BAD_REQUEST": 36,
    "UNAUTHORIZED": 38,
    "NOT_FOUND": 39,
    "DEPRECATED": 40,
    "RESOURCE_EXHAUSTED": 41,
    "BAD_USER_API_KEY": 42,
    "CONVERSATION_TOO_LONG": 43,
    "USAGE_PRICING_REQUIRED": 44,
    "USAGE_PRICING_REQUIRED_CHANGEABLE": 45,
    "RATE_LIMITED": 50,
    "RATE_LIMITED_CHANGEABLE": 51,
    "CUSTOM": 52,
    "HOOKS_BLOCKED": 53,
    "SUSPICIOUS_USAGE_BLOCKED": 54,
    "NETWORK_ERROR": 56,
    "PROVIDER_ERROR": 57,
    "MODEL_BLOCKED": 58,
    "INTERNAL": 59,
    "MAX_MODE_REQUIRED": 60,
    "MODEL_NO_LONGER_SUPPORTED": 61,
    "PRICING_WARNING": 62,
    "SLOW_POOL": 63,
    "UNSUPPORTED_REGION": 64,
}
"""Numbers of errors (keys of `BY_ERROR`), by name. Error details in JSON may contain the name instead of the number."""

BY_WORDS: tuple[tuple[str, str, ErrorMeaning], ...] = (
    ("", "update required", OUTDATED),
    ("", "version of cursor is no longer supported", OUTDATED),
    ("", "outdated client", OUTDATED),
    ("", "blob not found", BLOB_MISSING),
    ("", "image not found", BLOB_MISSING),
    ("", "conversation data missing", BLOB_MISSING),
    ("", "suspicious", BLOCKED),
    ("", "region is not available", REGION),
    ("", "not available in your region", REGION),
    ("", "unsupported region", REGION),
    ("", "prompt is too long", TOO_LONG),
    ("", "conversation is too long", TOO_LONG),
    ("", "context length", TOO_LONG),
    ("", "context window", TOO_LONG),
    ("", "request type deprecated", DEPRECATED),
    ("", "--system-prompt", SYSTEM_PROMPT),
    ("", "protobuf.value must have a value", BAD_TOOLS),
    ("", "invalid end group tag", BAD_TOOLS),
    ("", "tool schema", BAD_TOOLS),
    ("", "input_schema", BAD_TOOLS),
    ("resource_exhausted", "provider error", BAD_TOOLS),
    ("", "usage limit", QUOTA),
    ("", "spend limit", QUOTA),
    ("", "upgrade to pro", QUOTA),
    ("", "rate limit", RATE_LIMITED),
    ("", "too many requests", RATE_LIMITED),
    ("not_found", "model", NO_MODEL),
)
"""Triples of a Connect code (empty for any), a lower-case phrase in the message, and the meaning.

The first match applies.
"""

BY_CODE: dict[str, ErrorMeaning] = {
    "unauthenticated": UNAUTHENTICATED,
    "permission_denied": FORBIDDEN,
    "resource_exhausted": POISONED,
    "not_found": NOT_FOUND,
    "unavailable": UNAVAILABLE,
    "deadline_exceeded": TIMED_OUT,
    **dict.fromkeys(("invalid_argument", "failed_precondition", "out_of_range"), INVALID),
    **dict.fromkeys(
        ("canceled", "unknown", "already_exists", "aborted", "unimplemented", "internal", "data_loss"), INTERNAL
    ),
}
"""The meanings of errors, by Connect code."""

BY_GRPC_STATUS = {
    "1": "canceled",
    "2": "unknown",
    "3": "invalid_argument",
    "4": "deadline_exceeded",
    "5": "not_found",
    "6": "already_exists",
    "7": "permission_denied",
    "8": "resource_exhausted",
    "9": "failed_precondition",
    "10": "aborted",
    "11": "out_of_range",
    "12": "unimplemented",
    "13": "internal",
    "14": "unavailable",
    "15": "data_loss",
    "16": "unauthenticated",
}
"""Connect codes by gRPC status."""

BY_STATUS: dict[int, ErrorMeaning] = {
    401: UNAUTHENTICATED,
    403: FORBIDDEN,
    415: CONTENT_TYPE,
    429: BUSY,
    464: HTTP1_REFUSED,
    500: INTERNAL,
    502: UNAVAILABLE,
    503: UNAVAILABLE,
    504: TIMED_OUT,
}
"""The meanings of errors, by the HTTP status of a response that is not a stream."""

_ALL = (
    *BY_ERROR.values(),
    *BY_CODE.values(),
    *BY_STATUS.values(),
    *(meaning for _, _, meaning in BY_WORDS),
    *(INCOMPLETE, EXHAUSTED, MISDIRECTED, UNREADABLE),
)
RETRYABLE = frozenset((TRY_AGAIN, *(meaning.code for meaning in _ALL if meaning.is_retryable)))
"""Tieline's codes for errors after which a retry may help."""
