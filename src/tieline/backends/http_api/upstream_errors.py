"""Converts an upstream's failures (error responses, broken connections, web pages) into failures for clients."""

from msgspec.structs import replace

from tieline.backends.http_api.upstream import Upstream
from tieline.model.errors import NOT_RETRYABLE, STATUS
from tieline.model.events import ErrorKind, Failed
from tieline.net.client.http import HttpResponse, PipeError
from tieline.wire.shared.http_errors import excerpt

UNREACHABLE = "upstream_unreachable"
EMPTY = "upstream_empty"
_TRANSIENT_4XX = frozenset({408, 409})
"""HTTP statuses for client errors after which a retry can succeed."""
_MISSING_CODES = (None, "404", "405", "not_found")
"""Codes of errors about an address that does not exist. Most servers send no code (None)."""
_FINAL_KINDS = frozenset[ErrorKind](("bad_request", "unauthorized", "billing", "forbidden", "not_found", "too_large"))


def error_response(upstream: Upstream, response: HttpResponse, body: bytes) -> Failed:
    """Return the failure to report for an error response.

    It names the upstream, and tells clients not to retry if a retry would be useless. The upstream's key belongs to
    the gateway, so the message must not sound as if the client's own key were wrong.
    """
    failed = upstream.codec.read_error(response.status, body, tuple(response.headers))
    headers, status = response.pick(upstream.forwarded), failed.status
    if response.status < 400 or (failed.kind in _FINAL_KINDS and status not in _TRANSIENT_4XX):
        headers = (*(header for header in headers if header[0] != NOT_RETRYABLE[0]), NOT_RETRYABLE)
    if failed.kind == "billing" or response.status < 400:
        status = STATUS[failed.kind]  # some upstreams use 429 for billing, which every client retries
    return replace(failed, message=_message(upstream, failed), status=status, headers=headers)


def _message(upstream: Upstream, failed: Failed) -> str:
    if failed.kind != "unauthorized":
        return f"{failed.message} (upstream `{upstream.name}`)"
    if not upstream.key_source:
        return f"Upstream `{upstream.name}` requires a key, and none is configured for it: {failed.message}"
    return f"The key of upstream `{upstream.name}` (from {upstream.key_source}) was refused: {failed.message}"


def pipe_failed(name: str, error: PipeError) -> Failed:
    """Return the failure to report for a connection error. The client did not cause it, so the status is never 4xx."""
    kind: ErrorKind = "upstream"
    status, code = 502, UNREACHABLE if error.phase == "connect" else "upstream_broken"
    if error.reason == "timeout":
        kind, status, code = "timeout", 504, "upstream_timeout"
    elif error.reason == "busy":
        kind, status, code = "overloaded", 503, "upstream_busy"
    return Failed(kind=kind, status=status, code=code, message=f"Upstream `{name}`: {error.message}")


def is_missing(failed: Failed) -> bool:
    """Return whether a failure may mean that the server does not offer the API.

    If only the model is missing, the status is the same, but the error usually has a more specific code.
    """
    return failed.status in (404, 405) and failed.code in _MISSING_CODES


def web_page(upstream: Upstream, data: bytes) -> Failed:
    """Return the failure to report for an answer that is a web page. `data` is the beginning of the page."""
    title = excerpt(data.decode("utf-8", "replace"))
    message = f"Upstream `{upstream.name}` answered {upstream.path} with a web page ({title}). Is its `base_url` right?"
    return Failed(kind="upstream", status=502, code="upstream_not_an_api", message=message, headers=(NOT_RETRYABLE,))


def empty_answer(upstream: Upstream) -> Failed:
    """Return the failure to report for an answer without any content."""
    return Failed(kind="upstream", status=502, code=EMPTY, message=f"Upstream `{upstream.name}` sent an empty answer.")


def final(failed: Failed) -> Failed:
    """Return the failure to report after the last attempt.

    If the upstream is unreachable or sends only empty answers, clients must not retry.
    """
    if failed.code not in (UNREACHABLE, EMPTY):
        return failed
    return replace(failed, headers=(*failed.headers, NOT_RETRYABLE))
