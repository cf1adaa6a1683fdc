"""Decode JSON from other programs leniently.

Data with the expected types is decoded in one pass. Other data is converted value by value: numbers and strings are
converted to each other, any other field of the wrong type counts as absent, list items of the wrong type are dropped,
and a missing required value becomes empty. *Vital* fields, which hold a model's own output, are the exception: if such
a field has the wrong type, the data is rejected.
"""

import json
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

import msgspec
from msgspec import inspect

T = TypeVar("T")


_NONE: frozenset[str] = frozenset()
_TEXT = frozenset(["text"])

# The keys are the message types defined in the code, so these caches do not grow with the input.
_type_info = cache(inspect.type_info)
_decoder: Callable[[Any], msgspec.json.Decoder[Any]] = cache(msgspec.json.Decoder)


class Mismatch(Exception):
    """A value cannot be converted; the message is the path of its field."""


class LenientConverter:
    """Converts decoded JSON to a type, leniently except in `vital` fields.

    `odd` lists the paths of the fields that were converted or dropped.
    """

    def __init__(self, *, vital: frozenset[str] = _NONE, fragments: frozenset[str] = _TEXT) -> None:
        self.odd: list[str] = []
        self._vital = vital
        self._fragments = fragments
        """Fields whose text is streamed. Lone surrogates in them are kept: the next delta may have the other half."""

    def convert(self, value: object, shape: Any) -> Any:
        """Return the value as an instance of `shape`. Raise Mismatch if that is impossible."""
        return self._fit(value, _type_info(shape), "", "")

    def _fit(self, value: Any, info: inspect.Type, at: str, name: str) -> Any:
        match info:
            case inspect.StructType():
                return self._struct(value, info, at)
            case inspect.UnionType():
                return self._union(value, info, at, name)
            case inspect.ListType():
                return self._list(value, info, at, name)
            case inspect.DictType():
                return self._dict(value, info, at)
            case inspect.StrType():
                return self._text(value, at, name)
            case inspect.RawType():
                return msgspec.Raw(json.dumps(self._any(value, name)).encode())
            case inspect.AnyType():
                return self._any(value, name)
            case _:
                return self._scalar(value, type(info), at, name)

    def _struct(self, value: Any, info: inspect.StructType, at: str) -> Any:
        if not isinstance(value, dict):
            raise Mismatch(at)
        fields: dict[str, Any] = {}
        for field in info.fields:
            name = field.encode_name
            path = f"{at}.{name}" if at else name
            if name in value:
                try:
                    fields[field.name] = self._fit(value[name], field.type, path, name)
                    continue
                except Mismatch:
                    if name in self._vital:
                        raise
                    self.odd.append(path)
            if field.required:
                fields[field.name] = _nothing(field.type, path)
        return info.cls(**fields)

    def _union(self, value: Any, info: inspect.UnionType, at: str, name: str) -> Any:
        for member in sorted(info.types, key=lambda member: not _is_natural(value, member)):
            if isinstance(member, inspect.NoneType):
                if value is None:
                    return None
                continue
            if isinstance(member, inspect.StructType) and member.tag is not None and not _has_tag(value, member):
                continue
            try:
                return self._fit(value, member, at, name)
            except Mismatch as error:
                if str(error) != at:  # the right member of the union, but with an invalid vital field
                    raise
        raise Mismatch(at)

    def _list(self, value: Any, info: inspect.ListType, at: str, name: str) -> list[Any]:
        if not isinstance(value, list):
            raise Mismatch(at)
        fitted = []
        for place, item in enumerate(value):
            try:
                fitted.append(self._fit(item, info.item_type, f"{at}[{place}]", name))
            except Mismatch:
                if name in self._vital:
                    raise
                self.odd.append(f"{at}[{place}]")
        return fitted

    def _dict(self, value: Any, info: inspect.DictType, at: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise Mismatch(at)
        fitted = {}
        for name, item in value.items():
            try:
                fitted[well_formed(name)] = self._fit(item, info.value_type, f"{at}.{name}", name)
            except Mismatch:
                self.odd.append(f"{at}.{name}")
        return fitted

    def _any(self, value: Any, name: str) -> Any:
        """Return a JSON value of any type, with lone surrogates replaced, except in fragments."""
        match value:
            case str():
                return value if name in self._fragments else well_formed(value)
            case dict():
                return {well_formed(key): self._any(item, key) for key, item in value.items()}
            case list():
                return [self._any(item, name) for item in value]
            case _:
                return value

    def _text(self, value: Any, at: str, name: str) -> str:
        if isinstance(value, str):
            return value if name in self._fragments else well_formed(value)
        if isinstance(value, int | float) and not isinstance(value, bool) and name not in self._vital:
            self.odd.append(at)
            return str(value)
        raise Mismatch(at)

    def _scalar(self, value: Any, kind: type, at: str, name: str) -> Any:
        wanted = _SCALARS.get(kind)
        if wanted is None or (isinstance(value, bool) is not (wanted is bool)):
            raise Mismatch(at)
        if type(value) is not wanted and not (wanted is float and type(value) is int):
            if name in self._vital:
                raise Mismatch(at)
            self.odd.append(at)
        try:
            return wanted(value)
        except (ValueError, TypeError, OverflowError) as error:
            raise Mismatch(at) from error


def decode(shape: type[T], data: bytes | msgspec.Raw) -> T | None:
    """Decode JSON leniently to an object of this type; return None if that is impossible."""
    try:
        decoded: T = _decoder(shape).decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        try:
            return convert(shape, json.loads(bytes(data)))
        except (ValueError, RecursionError):
            return None
    return decoded


def convert(shape: type[T], value: object) -> T | None:
    """Convert decoded JSON leniently to this type; return None if that is impossible."""
    try:
        fitted: T = LenientConverter().convert(value, shape)
    except (Mismatch, RecursionError):
        return None
    return fitted


def well_formed(text: str) -> str:
    """Return the text with surrogate pairs joined and lone surrogates replaced by U+FFFD."""
    return text if text.isascii() else text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _nothing(info: inspect.Type, at: str) -> Any:
    """Return the empty value of this type, for a missing required field. Raise Mismatch if the type has none."""
    empty = _EMPTY.get(type(info))
    if empty is None:
        raise Mismatch(at)
    return empty()


def _has_tag(value: Any, info: inspect.StructType) -> bool:
    return isinstance(value, dict) and value.get(info.tag_field) == info.tag


def _is_natural(value: Any, info: inspect.Type) -> bool:
    """Return whether the value has this type without conversion. In a union, such types are tried first."""
    return isinstance(value, _NATURAL.get(type(info), ()))


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
_NATURAL: dict[type, type | tuple[type, ...]] = {
    inspect.StrType: str,
    inspect.IntType: int,
    inspect.FloatType: float,
    inspect.BoolType: bool,
    inspect.ListType: list,
    inspect.DictType: dict,
    inspect.StructType: dict,
    inspect.AnyType: object,
    inspect.RawType: object,
}
