"""Reading what the other side sent, as much of it as makes sense.

What fits its shape is decoded in one go. What does not is fitted piece by piece: a field of the wrong type is as if it
were not there, a list loses the items that are none, a number is taken where text was wanted and the other way round,
and what is required and missing is empty. Only what is no object at all cannot be read.
"""

import json
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
from msgspec import inspect

T = TypeVar("T")

_decoders: dict[type, msgspec.json.Decoder[Any]] = {}
"""One per shape of the protocol, made when it is first needed."""

_FRAGMENTS = frozenset(["text"])
"""The fields whose text comes in pieces: half of a UTF-16 pair may meet its other half in the next."""


class _Misfit(Exception):
    """This value cannot be made to fit."""


def read(shape: type[T], data: bytes | msgspec.Raw) -> T | None:
    """The object of this shape, or None if there is no object."""
    decoder = _decoders.get(shape)
    if decoder is None:
        decoder = _decoders[shape] = msgspec.json.Decoder(shape)
    try:
        fitting: T = decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _read_slowly(shape, bytes(data))
    return fitting


def fit(shape: type[T], value: object) -> T | None:
    """The same from what was decoded already."""
    try:
        fitted: T = _fit(value, inspect.type_info(shape))
    except (_Misfit, RecursionError):
        return None
    return fitted


def whole(text: str) -> str:
    """The text, without halves of UTF-16 pairs."""
    return text if text.isascii() else text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _read_slowly(shape: type[T], data: bytes) -> T | None:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return fit(shape, value)


def _fit(value: Any, info: inspect.Type, *, is_fragment: bool = False) -> Any:
    match info:
        case inspect.StructType():
            return _fit_struct(value, info)
        case inspect.UnionType():
            return _fit_union(value, info, is_fragment=is_fragment)
        case inspect.ListType():
            return _fit_list(value, info)
        case inspect.DictType():
            return _fit_dict(value, info)
        case inspect.StrType():
            return _fit_text(value, is_fragment=is_fragment)
        case inspect.RawType():
            return msgspec.Raw(json.dumps(value).encode())
        case inspect.AnyType():
            return value
        case _:
            return _fit_scalar(value, type(info))


def _fit_struct(value: Any, info: inspect.StructType) -> Any:
    if not isinstance(value, dict):
        raise _Misfit
    fields: dict[str, Any] = {}
    for field in info.fields:
        try:
            name = field.encode_name
            fields[field.name] = _fit(value[name], field.type, is_fragment=name in _FRAGMENTS)
        except (KeyError, _Misfit):
            if field.required:
                fields[field.name] = _nothing(field.type)
    return info.cls(**fields)


def _nothing(info: inspect.Type) -> Any:
    """What stands where something required is missing."""
    empty = _EMPTY.get(type(info))
    if empty is None:
        raise _Misfit
    return empty()


def _fit_union(value: Any, info: inspect.UnionType, *, is_fragment: bool) -> Any:
    for member in info.types:
        if isinstance(member, inspect.NoneType):
            if value is None:
                return None
            continue
        if isinstance(member, inspect.StructType) and member.tag is not None and not _has_tag(value, member):
            continue
        try:
            return _fit(value, member, is_fragment=is_fragment)
        except _Misfit:
            continue
    raise _Misfit


def _has_tag(value: Any, info: inspect.StructType) -> bool:
    return isinstance(value, dict) and value.get(info.tag_field) == info.tag


def _fit_list(value: Any, info: inspect.ListType) -> list[Any]:
    if not isinstance(value, list):
        raise _Misfit
    fitted = []
    for item in value:
        try:
            fitted.append(_fit(item, info.item_type))
        except _Misfit:
            continue
    return fitted


def _fit_dict(value: Any, info: inspect.DictType) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _Misfit
    fitted = {}
    for name, item in value.items():
        try:
            fitted[whole(name)] = _fit(item, info.value_type)
        except _Misfit:
            continue
    return fitted


def _fit_text(value: Any, *, is_fragment: bool) -> str:
    if isinstance(value, str):
        return value if is_fragment else whole(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    raise _Misfit


def _fit_scalar(value: Any, kind: type) -> Any:
    wanted = _SCALARS.get(kind)
    if wanted is None or (wanted is bool and not isinstance(value, bool)):
        raise _Misfit
    try:
        return wanted(value)
    except (ValueError, TypeError, OverflowError) as error:
        raise _Misfit from error


_SCALARS: dict[type, Callable[[Any], Any]] = {
    inspect.IntType: int,
    inspect.FloatType: float,
    inspect.BoolType: bool,
}
_EMPTY: dict[type, Callable[[], Any]] = {
    inspect.StrType: str,
    inspect.ListType: list,
    inspect.IntType: int,
    inspect.FloatType: float,
    inspect.BoolType: bool,
}
