"""Requests to other OpenAI endpoints. They are forwarded; only the model name in the JSON or form body is replaced."""

import re
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from tieline.model.errors import BadRequest
from tieline.wire.shared.json import encode

_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_BOUNDARY = re.compile(
    r'multipart/form-data;.*?\bboundary=(?:"([^"]{1,70})"|([^\s;"]{1,70}))', re.IGNORECASE | re.DOTALL
)
_MODEL_FIELD = re.compile(
    rb'\r\ncontent-disposition: *form-data;[^\r\n]*\bname="?model"?(?:;[^\r\n]*)?\r\n', re.IGNORECASE
)


class NamedRequest(NamedTuple):
    """The model name in a request ("" if there is none), and a function that returns the body with another model."""

    model: str
    build: Callable[[str], bytes]


def read_named(body: bytes, content_type: str) -> NamedRequest:
    """Parse the model name in a request body.

    Raise BadRequest if the body is neither a JSON object nor a form, if a JSON `model` is not a string, or if a form
    has no field `model`.
    """
    boundary = _BOUNDARY.match(content_type)
    return _form(body, (boundary[1] or boundary[2]).encode("latin-1")) if boundary else _json(body)


def is_form(content_type: str) -> bool:
    """Return whether a body of this content type is a multipart form."""
    return _BOUNDARY.match(content_type) is not None


def _json(body: bytes) -> NamedRequest:
    try:
        members = _MEMBERS.decode(body)
        model = msgspec.json.decode(members["model"], type=str) if "model" in members else ""
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequest(f"expected a JSON object with a string as `model`: {error}", "model") from error

    def build(name: str) -> bytes:
        named = {**members, "model": msgspec.Raw(encode(name))}
        return b"{%b}" % b",".join(b"%b:%b" % (encode(key), bytes(value)) for key, value in named.items())

    return NamedRequest(model, build)


def _form(body: bytes, boundary: bytes) -> NamedRequest:
    span = _model_span(body, b"--" + boundary)
    if span is None:
        raise BadRequest("`model`: expected a form field with the name of a model, got none", "model")
    before, name, after = body[: span.start], body[span], body[span.stop :]
    return NamedRequest(name.decode("utf-8", "replace").strip(), lambda model: before + model.encode() + after)


def _model_span(body: bytes, mark: bytes) -> slice | None:
    """Return the span of the value of the form field `model`, or None. `mark` is the delimiter between the fields."""
    at = 0 if body.startswith(mark) else body.find(b"\r\n" + mark)
    while at >= 0 and (head_end := body.find(b"\r\n\r\n", at)) >= 0:
        start = head_end + 4
        end = body.find(b"\r\n" + mark, head_end + 2)
        if end >= start and _MODEL_FIELD.search(body, at, head_end + 2):
            return slice(start, end)
        at = end
    return None
