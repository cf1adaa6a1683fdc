"""Decode JSON: leniently from upstreams, and strictly from clients, with the path of the invalid field in errors."""

import json
import re
from typing import Any, TypeVar

import msgspec

from tieline.model.errors import BadRequest
from tieline.wire.shared.lenient import LenientConverter, Mismatch, well_formed

T = TypeVar("T")

encode = msgspec.json.Encoder().encode
decode_any = msgspec.json.Decoder().decode

_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")
_PAIR = re.compile(rb"\\u[dD][89abAB]..\\u[dD][c-fC-F]..", re.DOTALL)
MAX_SURROGATES = 100_000
"""Maximum number of escaped surrogates to check; a body with more of them is not repaired."""
_FRAGMENTS = frozenset(
    [
        "text",
        "thinking",
        "partial_json",
        "delta",
        "content",
        "arguments",
        "input",
        "refusal",
        "reasoning",
        "reasoning_content",
        "summary",
    ]
)
"""The fields whose text is split into deltas, in any protocol."""
_CONTENT = frozenset(
    [
        *("choices", "delta", "message", "content", "tool_calls", "function", "custom", "function_call", "arguments"),
        *("content_block", "text", "partial_json", "input", "refusal"),
    ]
)
"""The fields with the content of an answer, in any protocol; a wrong type in such a field is an error."""
_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
_INVALID = "_invalid_json"


class Malformed(ValueError):
    """The data from an upstream is not the expected JSON."""


def read(decoder: msgspec.json.Decoder[T], data: bytes, mistyped: list[str] | None = None) -> T:
    """Decode JSON from an upstream. Raise Malformed if that is impossible.

    An escaped surrogate without its counterpart is legal JSON, and occurs if an emoji is split between two deltas. In
    fields whose text is split into deltas, it is kept, and PartsWriter joins the halves. Elsewhere it is replaced.

    If `mistyped` is a list, a value of the wrong type (such as a token count sent as a string) is converted or left
    out, and its path is added to the list. In a field with content, a wrong type is always an error.
    """
    try:
        return decoder.decode(data)
    except msgspec.ValidationError as error:
        if mistyped is None:
            raise Malformed(str(error)) from error
        return _read_slowly(decoder, data, error, mistyped)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return _read_slowly(decoder, data, error, mistyped)


def _read_slowly(decoder: msgspec.json.Decoder[T], data: bytes, first: Exception, mistyped: list[str] | None) -> T:
    converter = LenientConverter(vital=_CONTENT, fragments=_FRAGMENTS)
    try:
        value: T = converter.convert(json.loads(data), decoder.type)
    except (ValueError, RecursionError, TypeError, Mismatch) as error:
        raise Malformed(str(first)) from error
    if converter.odd and mistyped is None:
        raise Malformed(str(first))
    if mistyped is not None:
        mistyped += converter.odd
    return value


def parse_object(body: bytes) -> dict[str, msgspec.Raw]:
    """Return the top-level fields of a request without decoding their values. Raise BadRequest if that is impossible.

    Fields that are only passed on are never decoded, so the encoding of the whole body is checked here. Escaped lone
    surrogates are replaced, because upstreams reject the whole request if it contains one.
    """
    try:
        if not body.isascii():
            body.decode()
        return _OBJECT.decode(body)
    except UnicodeDecodeError as error:
        raise BadRequest(f"the body is not valid UTF-8: {error.reason} at byte {error.start}") from error
    except (msgspec.DecodeError, RecursionError):
        return parse(_OBJECT, replace_lone_surrogates(body))


def replace_lone_surrogates(body: bytes) -> bytes:
    """Return the JSON text with U+FFFD in place of every escaped surrogate that is not part of a pair.

    Clients produce such surrogates if they cut text inside an emoji. The time is linear in the length of the text. A
    body with more than MAX_SURROGATES surrogate escapes is returned unchanged.
    """
    repaired: list[bytes] = []
    done = seen = checked = 0
    lower = body.lower()
    while (at := lower.find(b"\\ud", seen)) >= 0 and checked < MAX_SURROGATES:
        checked += 1
        before = body[seen:at]
        is_escaped = (len(before) - len(before.rstrip(b"\\"))) % 2
        seen = at + 2
        if is_escaped:
            continue
        if _PAIR.match(body, at):
            seen = at + 12
        elif _SURROGATE.match(body, at):
            repaired += (body[done:at], b"\\ufffd")
            done = seen = at + 6
    return body if at >= 0 or not repaired else b"".join((*repaired, body[done:]))


def parse(decoder: msgspec.json.Decoder[T], data: bytes | msgspec.Raw, at: str = "") -> T:
    """Decode JSON from a client. If that fails, raise BadRequest with the path of the invalid field.

    `at` is the path of `data` within the request.
    """
    try:
        return decoder.decode(data)
    except msgspec.ValidationError as error:
        message, path = _problem_and_path(str(error))
        param = at + path if path.startswith("[") or not at else f"{at}.{path}" if path else at
        place = f"`{param}`: " if param else ""
        raise BadRequest(f"{place}{message}", param or None) from error
    except UnicodeDecodeError as error:
        raise BadRequest(f"the body is not valid UTF-8: {error.reason} at byte {error.start}", at or None) from error
    except msgspec.DecodeError as error:
        raise BadRequest(f"the body is not valid JSON: {error}", at or None) from error
    except RecursionError as error:
        raise BadRequest("the body is nested too deeply", at or None) from error


def _problem_and_path(message: str) -> tuple[str, str]:
    """Split the message of a msgspec error into the problem and the path of the field."""
    problem, _, path = message.partition(" - at `")
    return problem, path.removesuffix("`").removeprefix("$").removeprefix(".")


def one_line(text: bytes) -> bytes:
    """Return the JSON text with line breaks replaced by spaces, so that it fits in one line of a server-sent event.

    This does not change its meaning, because JSON strings contain no literal line breaks.
    """
    if b"\n" not in text and b"\r" not in text:
        return text
    return text.replace(b"\r\n", b" ").replace(b"\n", b" ").replace(b"\r", b" ")


def is_object(text: str | bytes) -> bool:
    """Return whether the text is a valid JSON object."""
    try:
        _OBJECT.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return False
    return True


def object_text(text: str) -> str:
    """Return the arguments of a call as the JSON text of an object; unchanged if they already are one.

    Empty arguments become an empty object. Any other JSON value, and invalid JSON (from a truncated call), is wrapped
    in an object, so that the call and its result can stay in the history.
    """
    if is_object(text):
        return text
    stripped = text.strip()
    if not stripped or stripped == "null":
        return "{}"
    try:
        value: Any = decode_any(stripped)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return encode({_INVALID: well_formed(text)}).decode()
    if isinstance(value, str) and is_object(value):
        return value
    return encode({"value": msgspec.Raw(stripped.encode())}).decode()


def is_wrapped_invalid(text: str, result: str) -> bool:
    """Return whether `result`, the return value of `object_text(text)`, is wrapped because `text` is not valid JSON."""
    return result is not text and result.startswith(f'{{"{_INVALID}":')
