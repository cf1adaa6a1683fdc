"""Check fields of a client's request. An error contains the path of the field and the expected value."""

from msgspec import Raw

from tieline.model.errors import BadRequest
from tieline.wire.shared.base64 import check_base64


def bad(at: str, expected: str) -> BadRequest:
    """Return the error for an invalid field. `at` is its path, `expected` describes the expected value."""
    return BadRequest(f"`{at}`: expected {expected}", at)


def json_text(raw: Raw) -> str:
    """Return a raw JSON value as text."""
    return bytes(raw).decode("utf-8", "replace")


def checked_base64(data: str | None, at: str) -> str:
    """Return `data` if it is base64 that every upstream can decode; otherwise raise BadRequest. `at` is its path."""
    if not data:
        raise bad(at, "base64 data, got none")
    try:
        check_base64(data)
    except ValueError as error:
        raise bad(at, f"valid base64 data: {error}") from error
    return data


def data_url(url: str, at: str) -> tuple[str, str]:
    """Return the media type and the base64 data of a data: URL. Raise BadRequest if it is invalid; `at` is its path."""
    head, _, data = url[5:].partition(",")
    if not head.endswith(";base64"):
        raise bad(at, "data:<media type>;base64,<data>")
    return head.partition(";")[0], checked_base64(data, at)
