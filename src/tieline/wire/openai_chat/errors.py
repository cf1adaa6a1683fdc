"""Render the error that ends a stream. For other errors, see `wire.shared.openai_errors`."""

from msgspec.structs import replace

from tieline.model.errors import is_transient
from tieline.model.events import Failed
from tieline.wire.shared.json import encode
from tieline.wire.shared.openai_errors import error_body, failure, read_error, render_error

__all__ = ["failure", "read_error", "render_error", "render_failed"]


def render_failed(failed: Failed) -> bytes:
    """Return the JSON of an error that is sent as the last event of a stream.

    If a retry makes sense, the message contains the HTTP status, because some clients search for it there.
    """
    if is_transient(failed):
        failed = replace(failed, message=f"{failed.message} (status {failed.status}, try again)")
    return encode(error_body(failed))
