"""JSON as protobuf values: integers, text that looks like numbers, nothing, depth."""

import json
import math
from typing import Any

import pytest
from google.protobuf.struct_pb2 import Struct, Value
from hypothesis import given
from hypothesis import strategies as st

from tests.each import each
from tieline.wire.cursor._pb.exec_kinds_pb2 import McpArgs
from tieline.wire.cursor.protobuf_json import MAX_DEPTH, arguments, from_value, is_deep, schema_value, to_value

PLAIN = (
    st.none() | st.booleans() | st.text() | st.integers(-(2**53), 2**53) | st.floats(-1e6, 1e6).map(lambda f: f + 0.5)
)
JSON = st.recursive(
    PLAIN, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4), max_leaves=20
)


@each(
    ("json_value", "encoded"),
    [
        (None, "0800"),
        ("", "1a00"),
        ("a", "1a0161"),
        (True, "2001"),
        (False, "2000"),
        (3, "110000000000000840"),
        (0, "110000000000000000"),
        (["a", "b"], "320a0a031a01610a031a0162"),
        ([], "3200"),
        ({"k": "v"}, "2a0a0a080a016b12031a0176"),
        ({}, "2a00"),
        ([None, ""], "32080a0208000a021a00"),
    ],
)
def test_a_value_is_spelled_in_these_bytes(json_value: Any, encoded: str) -> None:
    """Published and derived vectors: nothing and empty text must be told, or the service refuses the request."""
    assert to_value(json_value).SerializeToString().hex() == encoded
    assert from_value(Value.FromString(bytes.fromhex(encoded))) == json_value


@each(
    ("number", "text"),
    [
        (3.0, "3"),
        (0.0, "0"),
        (-0.0, "0"),
        (-7.0, "-7"),
        (2.0**53, "9007199254740992"),
        (1.7e18, "1700000000000000000"),
        (40.5, "40.5"),
        (1e300, "1e300"),
        (math.inf, "null"),
        (-math.inf, "null"),
        (math.nan, "null"),
    ],
)
def test_137_whole_numbers_are_integers_and_what_is_no_number_is_null(number: float, text: str) -> None:
    assert arguments({"n": Value(number_value=number)}) == f'{{"n":{text}}}'
    assert isinstance(json.loads(text), int) == isinstance(from_value(Value(number_value=number)), int)


@each("text", ["1", "1.0", "1e999", "Infinity", "NaN", "true", "null", "0x10", "", "007"])
def test_137_text_that_looks_like_something_else_stays_text(text: str) -> None:
    assert arguments({"t": Value(string_value=text)}) == json.dumps({"t": text}, separators=(",", ":"))


@pytest.mark.parametrize("number", [math.inf, math.nan, 10**400, -(10**400)])
def test_a_number_that_no_double_holds_is_null(number: float) -> None:
    assert to_value(number).WhichOneof("kind") == "null_value"


def test_a_value_that_was_never_set_is_null() -> None:
    assert from_value(Value()) is None


def test_arguments_are_compact_text_with_letters_as_they_are() -> None:
    args = McpArgs(args={"b": to_value([1, {"z": "é 日本", "a": None}]), "a": to_value("x")})
    assert arguments(args.args) == '{"a":"x","b":[1,{"a":null,"z":"é 日本"}]}'
    assert arguments({}) == "{}"


def test_arguments_as_cursor_sends_them_are_read() -> None:
    """Seen in recordings: every kind of value in the arguments of one call."""
    sent = {"s": "text", "n": 1.5, "t": True, "z": None, "l": ["a", 1, {"k": "v"}], "o": {"x": {"y": 1}}, "e": ""}
    args = McpArgs.FromString(McpArgs(args={name: to_value(value) for name, value in sent.items()}).SerializeToString())
    assert json.loads(arguments(args.args)) == sent


@given(JSON)
def test_json_survives_the_way_there_and_back(value: Any) -> None:
    assert from_value(Value.FromString(to_value(value).SerializeToString())) == value


def nested(levels: int) -> Any:
    value: Any = {"leaf": 1}
    for _ in range(levels - 1):
        value = {"inner": value}
    return value


def test_what_is_nested_too_deeply_is_empty_and_can_still_be_read() -> None:
    """Readers of protobuf give up at a hundred messages inside one another."""
    fits, deep = json.dumps(nested(MAX_DEPTH)).encode(), json.dumps(nested(500)).encode()
    assert from_value(schema_value(fits)) == nested(MAX_DEPTH)
    assert not is_deep(fits)
    assert is_deep(deep)
    args = McpArgs.FromString(McpArgs(args={"v": schema_value(deep)}).SerializeToString())
    value = json.loads(arguments(args.args))["v"]
    for _ in range(MAX_DEPTH):
        value = value["inner"]
    assert value == {}


def test_lists_count_as_depth_too() -> None:
    assert is_deep(b"[" * 60 + b"1" + b"]" * 60)
    assert not is_deep(b"[" + b"[1]," * 60 + b"1]")


def test_a_value_made_deeper_than_any_reader_takes_ends_in_null() -> None:
    value = Value(string_value="x")
    for _ in range(150):
        outer = Value(struct_value=Struct())
        outer.struct_value.fields["k"].CopyFrom(value)
        value = outer
    found = from_value(value)
    for _ in range(100):
        found = found["k"]
    assert found is None


@pytest.mark.parametrize("schema", [b"", b"{", b"\xff", b"[" * 100_000])
def test_a_schema_that_cannot_be_read_allows_any_object(schema: bytes) -> None:
    assert from_value(schema_value(schema)) == {"type": "object", "properties": {}}
    assert not is_deep(schema)
