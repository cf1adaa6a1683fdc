"""JSON as the wires need it: fast when it is right, patient with upstreams, exact about where a request is wrong."""

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
"""The most escaped surrogates that are checked; a body with more of them is not repaired."""
_FRAGMENTS = frozenset(
    [
        "text",
        "thinking",
        "partial_json",
        "content",
        "arguments",
        "input",
        "refusal",
        "reasoning",
        "reasoning_content",
        "summary",
    ]
)
"""The fields, in any protocol, whose text comes in pieces."""
_VITAL = frozenset(
    [
        *("choices", "delta", "message", "content", "tool_calls", "function", "custom", "function_call", "arguments"),
        *("content_block", "text", "partial_json", "input", "refusal"),
    ]
)
"""The fields, in any protocol, that hold what a model says: an answer without them would be another answer."""
_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
_BROKEN = "_invalid_json"


class Malformed(ValueError):
    """Upstream bytes that are not the JSON they should be."""


def read(decoder: msgspec.json.Decoder[T], data: bytes, odd: list[str] | None = None) -> T:
    """Decode what an upstream sent.

    A lone half of a UTF-16 pair is legal JSON text and does occur, when an emoji is cut over two fragments: the slow
    path lets it through where text comes in fragments, and PartsWriter joins the halves. Elsewhere it is replaced.

    With a list for `odd`, a side value of the wrong type (a token count as text, say) does not make the whole
    unreadable: it is converted or left out, and its path is added to the list.
    """
    try:
        return decoder.decode(data)
    except msgspec.ValidationError as error:
        if odd is None:
            raise Malformed(str(error)) from error
        return _read_slowly(decoder, data, error, odd)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return _read_slowly(decoder, data, error, odd)


def _read_slowly(decoder: msgspec.json.Decoder[T], data: bytes, first: Exception, odd: list[str] | None) -> T:
    fitting = LenientConverter(vital=_VITAL, fragments=_FRAGMENTS)
    try:
        value: T = fitting.convert(json.loads(data), decoder.type)
    except (ValueError, RecursionError, TypeError, Mismatch) as error:
        raise Malformed(str(first)) from error
    if fitting.odd and odd is None:
        raise Malformed(str(first))
    if odd is not None:
        odd += fitting.odd
    return value


def parse_object(body: bytes) -> dict[str, msgspec.Raw]:
    """The top-level fields of a request, unread.

    Fields that only travel through are never looked at again, so their encoding is checked here. A lone half of a
    UTF-16 pair (a client cut its text inside an emoji) is replaced: upstreams would refuse the whole history for it.
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

    Clients produce them when they cut text inside an emoji. Linear in the length of the text. A body with more than
    MAX_SURROGATES such escapes is returned unchanged.
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
    """Decode what a client sent; a mistake raises BadRequest with the path of the field, below `at`."""
    try:
        return decoder.decode(data)
    except msgspec.ValidationError as error:
        message, path = _where(str(error))
        param = at + path if path.startswith("[") or not at else f"{at}.{path}" if path else at
        place = f"`{param}`: " if param else ""
        raise BadRequest(f"{place}{message}", param or None) from error
    except UnicodeDecodeError as error:
        raise BadRequest(f"the body is not valid UTF-8: {error.reason} at byte {error.start}", at or None) from error
    except msgspec.DecodeError as error:
        raise BadRequest(f"the body is not valid JSON: {error}", at or None) from error
    except RecursionError as error:
        raise BadRequest("the body is nested too deeply", at or None) from error


def _where(message: str) -> tuple[str, str]:
    """Split msgspec's message into the complaint and the path of the field."""
    complaint, _, path = message.partition(" - at `")
    return complaint, path.removesuffix("`").removeprefix("$").removeprefix(".")


def one_line(text: bytes) -> bytes:
    """The same JSON without line breaks, which end a field of a server-sent event; inside strings there are none."""
    if b"\n" not in text and b"\r" not in text:
        return text
    return text.replace(b"\r\n", b" ").replace(b"\n", b" ").replace(b"\r", b" ")


def is_object(text: str | bytes) -> bool:
    """Whether this is the JSON text of an object."""
    try:
        _OBJECT.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return False
    return True


def object_text(text: str) -> str:
    """Arguments as the JSON text of an object, whatever they are: as they came when they are one.

    Nothing is no arguments. What is valid but no object, or not JSON at all (a call that was cut), is wrapped, so that
    the pair of call and result stays whole.
    """
    if is_object(text):
        return text
    stripped = text.strip()
    if not stripped or stripped == "null":
        return "{}"
    try:
        value: Any = decode_any(stripped)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return encode({_BROKEN: well_formed(text)}).decode()
    if isinstance(value, str) and is_object(value):
        return value
    return encode({"value": msgspec.Raw(stripped.encode())}).decode()


def is_broken(text: str, made: str) -> bool:
    """Whether `object_text` found that the text it made an object of is not JSON."""
    return made is not text and made.startswith(f'{{"{_BROKEN}":')
