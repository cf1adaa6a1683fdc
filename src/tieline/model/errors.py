"""Protocol-independent errors. Each codec encodes them for its protocol.

GatewayError          kind, status, message, param, code, retry_after, headers
 ├── BadRequest       an invalid request; `param` is the path of the invalid field
 └── LegFailed        a leg ended with the event `Failed`
"""

from tieline.model.events import ErrorKind, Failed, Headers

STATUS: dict[ErrorKind, int] = {
    "bad_request": 400,
    "unauthorized": 401,
    "billing": 402,
    "forbidden": 403,
    "not_found": 404,
    "too_large": 413,
    "rate_limited": 429,
    "cancelled": 499,
    "internal": 500,
    "upstream": 502,
    "overloaded": 503,
    "timeout": 504,
}


NOT_RETRYABLE = ("x-should-retry", "false")
"""The response header that tells the OpenAI and Anthropic SDKs not to retry the request."""
_TRANSIENT: frozenset[ErrorKind] = frozenset(("rate_limited", "overloaded", "timeout", "upstream"))


def is_transient(failed: Failed) -> bool:
    """Return whether a request that failed in this way may succeed if it is sent again later."""
    return failed.kind in _TRANSIENT and NOT_RETRYABLE not in failed.headers


def id_in(headers: Headers) -> str:
    """Return the request id found in the response headers, or an empty string."""
    return next((value for name, value in headers if name in ("request-id", "x-request-id")), "")


class GatewayError(Exception):
    """An error that can be reported to the client. Any other exception is converted to a GatewayError first."""

    def __init__(
        self,
        kind: ErrorKind,
        message: str,
        *,
        status: int | None = None,
        param: str | None = None,
        code: str | None = None,
        retry_after: float | None = None,
        headers: Headers = (),
    ) -> None:
        super().__init__(message)
        self.kind: ErrorKind = kind
        self.message = message
        self.status = STATUS[kind] if status is None else status
        self.param = param
        self.code = code
        self.retry_after = retry_after
        self.headers = headers

    @property
    def request_id(self) -> str:
        """The id of the failed request, from the response headers; empty if there is none."""
        return id_in(self.headers)

    def failed(self) -> Failed:
        """Return the `Failed` event that ends a leg with this error."""
        return Failed(
            kind=self.kind,
            message=self.message,
            status=self.status,
            code=self.code,
            param=self.param,
            retry_after=self.retry_after,
            headers=self.headers,
        )


class BadRequest(GatewayError):
    """The request is invalid. `param` is the path of the invalid field, and `message` says what was expected."""

    def __init__(self, message: str, param: str | None = None, *, code: str | None = None) -> None:
        super().__init__("bad_request", message, param=param, code=code)

    def within(self, place: str) -> "BadRequest":
        """Return a copy of the error with `place` prepended to the path in `param`.

        A parser of a nested value raises an error with a path relative to this value, and each of its callers prepends
        the part of the path that it knows.
        """
        path = f"{place}.{self.param}" if self.param else place
        message = self.message.replace(f"`{self.param}`", f"`{path}`", 1)
        return BadRequest(message, path, code=self.code)


class LegFailed(GatewayError):
    """A leg ended with the event `Failed`, and the client expects a complete reply instead of a stream."""

    def __init__(self, failed: Failed) -> None:
        super().__init__(
            failed.kind,
            failed.message,
            status=failed.status,
            param=failed.param,
            code=failed.code,
            retry_after=failed.retry_after,
            headers=failed.headers,
        )
