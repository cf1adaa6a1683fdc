"""JSON as the wires need it: fast when it is right, patient with upstreams, exact about where a request is wrong."""

import json
import re
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
from msgspec.inspect import CollectionType, DictType, RawType, StructType, Type, UnionType, type_info

from tieline.model.errors import BadRequest

T = TypeVar("T")

encode = msgspec.json.Encoder().encode
decode_any = msgspec.json.Decoder().decode

_ESCAPE = re.compile(rb"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|(?P<half>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL)
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
_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
_BROKEN = "_invalid_json"


class Malformed(ValueError):
    """Upstream bytes that are not the JSON they should be."""


def read(decoder: msgspec.json.Decoder[T], data: bytes) -> T:
    """Decode what an upstream sent.

    A lone half of a UTF-16 pair is legal JSON text and does occur, when an emoji is cut over two fragments: the slow
    path lets it through where text comes in fragments, and PartsWriter joins the halves. Elsewhere it is replaced.
    """
    try:
        return decoder.decode(data)
    except msgspec.ValidationError as error:
        raise Malformed(str(error)) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return _read_slowly(decoder, data, error)


def _read_slowly(decoder: msgspec.json.Decoder[T], data: bytes, first: Exception) -> T:
    try:
        unread = _keep_raw(_without_halves(json.loads(data)), type_info(decoder.type))
        value: T = msgspec.convert(unread, decoder.type)
    except (ValueError, RecursionError, TypeError) as error:
        raise Malformed(str(first)) from error
    else:
        return value


def _without_halves(value: Any, in_fragments: bool = False) -> Any:
    match value:
        case str():
            return value if in_fragments else _clean(value)
        case dict():
            return {_clean(name): _without_halves(item, name in _FRAGMENTS) for name, item in value.items()}
        case list():
            return [_without_halves(item, in_fragments) for item in value]
        case _:
            return value


def _keep_raw(value: Any, info: Type) -> Any:
    """The value with JSON text wherever the type says Raw: `convert` does not make it of anything else."""
    match info:
        case RawType():
            return msgspec.Raw(json.dumps(value).encode())
        case StructType() if isinstance(value, dict):
            types = {field.encode_name: field.type for field in info.fields}
            return {name: _keep_raw(item, types[name]) if name in types else item for name, item in value.items()}
        case DictType() if isinstance(value, dict):
            return {name: _keep_raw(item, info.value_type) for name, item in value.items()}
        case CollectionType() if isinstance(value, list):
            return [_keep_raw(item, info.item_type) for item in value]
        case UnionType():
            for member in info.types:
                value = _keep_raw(value, member)
            return value
        case _:
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
        return parse(_OBJECT, mend(body))


def parse_mended(parse: Callable[[bytes], T], body: bytes) -> T:
    """Parse a request. Half an emoji (a client cut its text there) is no reason to refuse a whole history."""
    try:
        return parse(body)
    except BadRequest:
        mended = mend(body)
        if mended == body:
            raise
    return parse(mended)


def mend(body: bytes) -> bytes:
    """The JSON text with U+FFFD for every escaped half of a UTF-16 pair that stands alone."""
    return _ESCAPE.sub(lambda escape: b"\\ufffd" if escape["half"] else escape[0], body)


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
        return encode({_BROKEN: _clean(text)}).decode()
    if isinstance(value, str) and is_object(value):
        return value
    return encode({"value": msgspec.Raw(stripped.encode())}).decode()


def is_broken(text: str, made: str) -> bool:
    """Whether `object_text` found that the text it made an object of is not JSON."""
    return made is not text and made.startswith(f'{{"{_BROKEN}":')


def _clean(text: str) -> str:
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
