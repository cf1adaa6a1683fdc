"""Convert JSON to `google.protobuf.Value` and back.

A Value cannot represent integers, and the members of its objects have no order. The conversion back to JSON converts
whole numbers to ints and sorts the members of each object by name, so that equal arguments always give the same text.
"""

import math
from collections.abc import Mapping
from typing import Any

import msgspec
from google.protobuf.struct_pb2 import NULL_VALUE, ListValue, Struct, Value

from tieline.model.request import EMPTY_SCHEMA
from tieline.wire.shared.json import decode_any, encode

MAX_DEPTH = 28
"""The maximum nesting depth of JSON.

Protobuf parsers allow 100 nested messages. Each level of JSON takes three of them; the rest are left for the enclosing
messages.
"""

_WHOLE = 2.0**63


def to_value(json: Any) -> Value:
    """Convert decoded JSON to a Value. Objects and lists nested deeper than `MAX_DEPTH` become empty."""
    return _value(json, MAX_DEPTH)


def schema_value(schema: bytes) -> Value:
    """Convert the JSON text of a schema to a Value. An unreadable schema becomes one that allows any object."""
    return to_value(_read(schema))


def is_deep(schema: bytes) -> bool:
    """Return whether a schema is nested so deeply that `schema_value` empties some of its objects or lists."""
    if schema.count(b"{") + schema.count(b"[") <= MAX_DEPTH:
        return False
    level = [_read(schema)]
    for _ in range(MAX_DEPTH):
        level = [inner for outer in level for inner in _inside(outer)]
    return any(_inside(item) for item in level)


def from_value(value: Value, depth: int = 100) -> Any:
    """Convert a Value to Python objects that can be encoded as JSON.

    Unset values, NaN and infinity become null, and so do objects and lists nested deeper than `depth`.
    """
    kind = value.WhichOneof("kind")
    if kind == "string_value":
        return value.string_value
    if kind == "number_value":
        return _number(value.number_value)
    if kind == "bool_value":
        return value.bool_value
    if kind is None or kind == "null_value" or depth <= 0:
        return None
    if kind == "struct_value":
        return _object(value.struct_value.fields, depth - 1)
    return [from_value(item, depth - 1) for item in value.list_value.values]


def arguments(args: Mapping[str, Value]) -> str:
    """Return the arguments of a tool call as the text of a JSON object."""
    return encode(_object(args, 100)).decode()


def _object(fields: Mapping[str, Value], depth: int) -> dict[str, Any]:
    return {name: from_value(fields[name], depth) for name in sorted(fields)}


def _number(number: float) -> int | float | None:
    if not math.isfinite(number):
        return None
    return int(number) if number.is_integer() and abs(number) < _WHOLE else number


def _value(json: Any, depth: int) -> Value:
    if isinstance(json, str):
        return Value(string_value=json)
    if json is None or json is True or json is False:
        return Value(null_value=NULL_VALUE) if json is None else Value(bool_value=json)
    if isinstance(json, int | float):
        return _number_value(json)
    if isinstance(json, dict):
        inside = {name: _value(item, depth - 1) for name, item in json.items()} if depth > 0 else {}
        return Value(struct_value=Struct(fields=inside))
    return Value(list_value=ListValue(values=[_value(item, depth - 1) for item in json] if depth > 0 else ()))


def _number_value(number: float) -> Value:
    """Convert a number to a Value; the Value is null if the number is not a finite double."""
    try:
        number = float(number)
    except OverflowError:
        number = math.inf
    return Value(number_value=number) if math.isfinite(number) else Value(null_value=NULL_VALUE)


def _read(schema: bytes) -> Any:
    try:
        return decode_any(schema)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return decode_any(EMPTY_SCHEMA)


def _inside(json: Any) -> list[Any]:
    if isinstance(json, dict):
        return list(json.values())
    return json if isinstance(json, list) else []
