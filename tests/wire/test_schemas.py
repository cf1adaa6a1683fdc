"""Tool schemas as upstreams accept them: catalogue 105 to 108."""

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.each import each
from tieline.wire.shared import schemas
from tieline.wire.shared.schemas import MAX_INLINED, Style, fit_schema

STYLES: tuple[Style, ...] = ("anthropic", "openai")
EMPTY = {"type": "object", "properties": {}}


def fitted(schema: Any, style: Style = "anthropic") -> Any:
    return json.loads(fit_schema(json.dumps(schema).encode(), style)[0])


def notes(schema: Any) -> tuple[str, ...]:
    return fit_schema(json.dumps(schema).encode(), "anthropic")[1]


def of(**properties: Any) -> dict[str, Any]:
    """An object schema with these properties."""
    return {"type": "object", "properties": properties}


def prop(schema: Any, style: Style = "anthropic") -> Any:
    """One property's schema after it went through."""
    return fitted(of(x=schema), style)["properties"]["x"]


FINE = [
    EMPTY,
    of(path={"type": "string", "minLength": 1}) | {"required": ["path"], "additionalProperties": False},
    of(x={"type": ["string", "null"]}) | {"$schema": "https://json-schema.org/draft/2020-12/schema"},
    of(x=True, y=False, z={}),
    of(x={"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
    of(node={"$ref": "#/$defs/Node"}) | {"$defs": {"Node": of(next={"$ref": "#/$defs/Node"})}},
    of(x={"$ref": "#/$defs/a~1b"}) | {"$defs": {"a/b": {"type": "string"}}},
    of(**{"$ref": {"type": "string"}, "$comment": {"type": "string"}, "nullable": {"type": "boolean"}}),
    of(x={"type": "string", "default": {"$ref": "#/nowhere"}, "enum": ["nullable"], "const": {"$comment": "data"}}),
]


@each("style", STYLES)
@each("schema", FINE)
def test_a_schema_that_is_fine_comes_back_as_the_very_same_bytes(schema: Any, style: Style) -> None:
    """Ours: prompt caches compare bytes, so even spaces stay."""
    source = json.dumps(schema, indent=2).encode()
    answer, said = fit_schema(source, style)
    assert answer is source
    assert said == ()


@pytest.mark.parametrize("source", [b"", b"  ", b"null", b"{}", b'""'])
def test_105_no_schema_is_an_object_without_properties(source: bytes) -> None:
    assert fit_schema(source, "openai") == (b'{"type":"object","properties":{}}', ())


@pytest.mark.parametrize("schema", [{"type": "object"}, {"type": "object", "properties": None}, {"properties": {}}])
def test_105_what_an_object_schema_lacks_is_added(schema: Any) -> None:
    assert fitted(schema) == EMPTY


def test_105_an_added_properties_leaves_the_order_of_the_others() -> None:
    source = b'{"type":"object","description":"d","additionalProperties":false}'
    assert fit_schema(source, "openai")[0] == source[:-1] + b',"properties":{}}'


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (True, EMPTY),
        ([1], EMPTY),
        ({"type": "string", "minLength": 2, "description": "d"}, {"description": "d", **EMPTY}),
        ({"type": "array", "items": {}}, EMPTY),
        ({"anyOf": [{"type": "string"}, {"type": "number"}]}, EMPTY),
    ],
)
def test_the_top_level_is_made_an_object_and_that_is_noted(schema: Any, expected: Any) -> None:
    assert fitted(schema) == expected
    assert notes(schema)


@pytest.mark.parametrize("kind", [["object", "null"], "OBJECT", ["string", "object"]])
def test_a_top_level_type_that_allows_an_object_becomes_object(kind: Any) -> None:
    assert fitted({"type": kind, "properties": {"a": {}}}) == of(a={})


TEXT, COUNT = {"type": "string"}, {"type": "integer"}


@pytest.mark.parametrize("union", ["anyOf", "oneOf"])
def test_106_a_top_level_union_offers_all_properties_and_requires_the_common_ones(union: str) -> None:
    members = [
        of(kind=TEXT, path=TEXT) | {"required": ["kind", "path"]},
        of(kind=TEXT, line=COUNT) | {"required": ["line", "kind"]},
        {"type": "null"},
    ]
    expected = of(kind=TEXT, path=TEXT, line=COUNT) | {"required": ["kind"]}
    assert fitted({union: members}) == expected
    assert notes({union: members}) == (f"the top-level {union} was merged into one object",)


def test_106_a_name_with_two_meanings_may_be_either() -> None:
    schema = {"oneOf": [of(a={"const": 1}), of(a={"const": 2}), of(a={"const": 1})]}
    assert fitted(schema)["properties"]["a"] == {"anyOf": [{"const": 1}, {"const": 2}]}


def test_106_a_top_level_all_of_is_merged() -> None:
    schema = {
        "description": "d",
        "allOf": [of(a=TEXT) | {"required": ["a"]}, {"$ref": "#/$defs/B"}, {"title": "t"}],
        "$defs": {"B": of(b=COUNT) | {"required": ["b"], "additionalProperties": False}},
    }
    merged = fitted(schema)
    assert merged["properties"] == {"a": TEXT, "b": COUNT}
    assert merged["required"] == ["a", "b"]
    assert merged["description"] == "d"
    assert merged["title"] == "t"
    assert "additionalProperties" not in merged
    assert "allOf" not in merged


def test_106_alternatives_that_only_require_leave_the_properties_alone() -> None:
    schema = of(a=TEXT, b=TEXT) | {"required": ["a"], "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}
    assert fitted(schema) == of(a=TEXT, b=TEXT) | {"required": ["a"]}


def test_106_a_union_below_the_top_stays() -> None:
    schema = {"oneOf": [{"type": "string"}, {"type": "null"}]}
    assert prop(schema) == schema


def test_106_a_union_of_very_many_meanings_stays_small() -> None:
    schema = {"oneOf": [of(a={"const": number}) for number in range(5000)]}
    assert fitted(schema) == of(a={})


def test_a_top_level_enum_or_not_is_left_out() -> None:
    assert fitted(of(a=TEXT) | {"enum": [{"a": "x"}], "not": {"required": ["b"]}}) == of(a=TEXT)


@pytest.mark.parametrize(
    ("ref", "home"),
    [
        ("#/definitions/Point", {"definitions": {"Point": of(x=COUNT)}}),
        ("#/components/schemas/Point", {"components": {"schemas": {"Point": of(x=COUNT)}}}),
        ("#/definitions/A%20B", {"definitions": {"A B": of(x=COUNT)}}),
        ("#/definitions/A", {"definitions": {"A": {"$ref": "#/definitions/B"}, "B": of(x=COUNT)}}),
    ],
)
def test_107_references_outside_defs_are_inlined(ref: str, home: dict[str, Any]) -> None:
    schema = of(p={"$ref": ref, "description": "where"}) | home
    assert fitted(schema) == of(p=of(x=COUNT) | {"description": "where"})
    assert f"the reference {ref} was inlined" in notes(schema)


def test_107_a_top_level_reference_is_inlined_and_its_definitions_stay() -> None:
    schema = {"$ref": "#/$defs/A", "$defs": {"A": of(a={"$ref": "#/$defs/B"}), "B": TEXT}}
    assert fitted(schema) == of(a={"$ref": "#/$defs/B"}) | {"$defs": schema["$defs"]}


@pytest.mark.parametrize(
    "ref", ["#/$defs/None", "https://example.org/x.json", "#", "#anchor", "other.json#/a", "#/x/0"]
)
def test_107_a_reference_that_leads_nowhere_becomes_anything(ref: str) -> None:
    assert fitted(of(p={"$ref": ref, "description": "d"})) == of(p={"description": "d"})
    assert any(ref in note for note in notes(of(p={"$ref": ref, "description": "d"})))


def test_107_a_reference_into_a_list_is_followed() -> None:
    schema = of(a={"anyOf": [TEXT, COUNT]}, b={"$ref": "#/properties/a/anyOf/1"})
    assert fitted(schema)["properties"]["b"] == COUNT


def test_107_a_recursive_reference_is_cut() -> None:
    tree = of(left={"$ref": "#/definitions/Tree"}, value=TEXT)
    schema = of(tree={"$ref": "#/definitions/Tree"}) | {"definitions": {"Tree": tree}}
    assert fitted(schema) == of(tree=of(left={}, value=TEXT))
    assert "the recursive reference #/definitions/Tree was dropped" in notes(schema)


def test_107_a_reference_to_itself_ends() -> None:
    assert fitted({"$ref": "#/definitions/A", "definitions": {"A": {"$ref": "#/definitions/A"}}}) == EMPTY
    assert fitted({"allOf": [{"$ref": "#/$defs/A"}], "$defs": {"A": {"allOf": [{"$ref": "#/$defs/A"}] * 3}}})


def test_107_references_that_double_at_each_level_do_not_explode() -> None:
    """Seen: twenty lines of schema that took all memory."""
    names = [f"D{number}" for number in range(40)]
    definitions = {
        name: of(a={"$ref": f"#/definitions/{after}"}, b={"$ref": f"#/definitions/{after}"})
        for name, after in pairwise(names)
    }
    definitions["D39"] = {"type": "string", "description": "x" * 1000}
    schema = of(p={"$ref": "#/definitions/D30"}, q={"$ref": "#/definitions/D0"}) | {"definitions": definitions}
    answer, said = fit_schema(json.dumps(schema).encode(), "openai")
    assert len(answer) < 2 * MAX_INLINED
    assert said


@each(
    ("given_schema", "expected"),
    [
        ({"type": "string", "minLength": "1"}, {"type": "string", "minLength": 1}),
        ({"type": "number", "maximum": "1.5"}, {"type": "number", "maximum": 1.5}),
        ({"type": "array", "items": {}, "maxItems": "3.0"}, {"type": "array", "items": {}, "maxItems": 3}),
        ({"type": "number", "minimum": "none"}, {"type": "number"}),
        ({"type": "number", "minimum": "inf"}, {"type": "number"}),
        ({"type": "string", "nullable": True}, {"type": ["string", "null"]}),
        ({"type": "string", "nullable": False}, {"type": "string"}),
        ({"type": ["string"], "nullable": True, "enum": ["a"]}, {"type": ["string", "null"], "enum": ["a", None]}),
        ({"anyOf": [TEXT], "nullable": True}, {"anyOf": [TEXT, {"type": "null"}]}),
        ({"type": "string", "enum": []}, {"type": "string"}),
        ({"type": "string", "enum": None}, {"type": "string"}),
        ({"type": "string", "$comment": "c", "$id": "i"}, {"type": "string"}),
        ({"type": "STRING"}, {"type": "string"}),
        ({"type": "string", "required": True}, {"type": "string"}),
        (of(a=TEXT) | {"additionalProperties": "false"}, of(a=TEXT) | {"additionalProperties": False}),
        ({"type": "number", "minimum": 1, "exclusiveMinimum": True}, {"type": "number", "exclusiveMinimum": 1}),
        ({"type": "number", "maximum": 1, "exclusiveMaximum": False}, {"type": "number", "maximum": 1}),
        (
            {"type": "array", "items": [TEXT, COUNT], "additionalItems": False},
            {"type": "array", "prefixItems": [TEXT, COUNT], "items": False},
        ),
    ],
)
def test_108_keywords_are_spelled_as_upstreams_check_them(given_schema: Any, expected: Any) -> None:
    assert prop(given_schema) == expected


def test_108_a_nullable_reference_keeps_its_reference() -> None:
    schema = of(x={"$ref": "#/$defs/A", "nullable": True}) | {"$defs": {"A": TEXT}}
    assert fitted(schema)["properties"]["x"] == {"anyOf": [{"$ref": "#/$defs/A"}, {"type": "null"}]}


@pytest.mark.parametrize(
    "at",
    ["items", "additionalProperties", "not", "if", "contains"],
)
def test_108_keywords_are_put_right_wherever_a_schema_can_stand(at: str) -> None:
    assert prop({at: {"minLength": "1"}})[at] == {"minLength": 1}


@pytest.mark.parametrize(("style", "items"), [("openai", {"items": {}}), ("anthropic", {})])
def test_an_array_gets_items_where_they_are_demanded(style: Style, items: dict[str, Any]) -> None:
    assert prop({"type": "array"}, style) == {"type": "array", **items}


def deep(levels: int, leaf: str) -> bytes:
    return b'{"type":"object","properties":{"x":' * levels + leaf.encode() + b"}}" * levels


def test_a_schema_of_hundreds_of_levels_is_still_put_right() -> None:
    answer, said = fit_schema(deep(200, '{"minLength":"1"}'), "anthropic")
    assert b'"minLength":1' in answer
    assert said == ("minLength was a string",)


def test_a_schema_of_thousands_of_levels_raises_nothing() -> None:
    source = deep(5000, "{}")
    assert fit_schema(source, "anthropic")[0] is source


def test_notes_are_few_however_much_is_wrong() -> None:
    schema = of(**{f"p{number}": {"$ref": f"#/nowhere/{number}"} for number in range(500)})
    *_, last = found = notes(schema)
    assert len(found) == schemas.MAX_NOTES
    assert last == f"{500 - schemas.MAX_NOTES + 1} more changes were made"


leaves = st.none() | st.booleans() | st.integers() | st.sampled_from(["object", "string", "1", "x", "#/definitions/a"])
top = ["type", "properties", "anyOf", "allOf", "oneOf", "$ref", "$defs", "definitions", "components", "enum", "not"]
below = ["items", "required", "nullable", "minLength", "minimum", "exclusiveMinimum", "additionalProperties", "a"]
keys = st.sampled_from([*top, *below, "additionalItems"])
junk = st.recursive(leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=5))


@given(junk, st.sampled_from(STYLES))
def test_whatever_the_schema_the_answer_is_an_object_schema_and_settled(schema: Any, style: Style) -> None:
    answer, _ = fit_schema(json.dumps(schema).encode(), style)
    value = json.loads(answer)
    assert value["type"] == "object"
    assert isinstance(value["properties"], dict)
    assert not value.keys() & {"anyOf", "oneOf", "allOf", "definitions", "components", "enum", "not", "$ref"}
    assert fit_schema(answer, style) == (answer, ())
