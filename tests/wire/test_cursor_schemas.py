"""Schemas without unions: the service refuses a whole request for one of them."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.each import each
from tieline.model.request import EMPTY_SCHEMA
from tieline.wire.cursor.opening.schema_unions import MAX_DESCRIBED, for_service

STRINGS = {"type": "array", "items": {"type": "string"}}
NUMBERS = {"type": "array", "items": {"type": "number"}}
STRING, NUMBER, NULL = {"type": "string"}, {"type": "number"}, {"type": "null"}
PATTERN = {"patternProperties": {"^x": STRING}, "additionalProperties": False}
PAIR = {"type": "array", "prefixItems": [STRING, NUMBER], "items": False}
UNIONS = ("allOf", "anyOf", "oneOf")


def fitted(schema: Any) -> Any:
    return json.loads(for_service(json.dumps(schema).encode())[0])


def inside(schema: Any) -> Any:
    """What becomes of a schema below the top."""
    return fitted({"type": "object", "properties": {"x": schema}})["properties"]["x"]


def test_a_schema_without_unions_is_the_very_same() -> None:
    schema = b'{"type": "object", "properties": {"b": {"enum": [1, 2]}, "a": {"not": {"type": "null"}}}}'
    assert for_service(schema) == (schema, ())


@pytest.mark.parametrize("nothing", [b"", b"{}", b"null", b"[]", b"7"])
def test_a_schema_that_is_none_allows_any_object(nothing: bytes) -> None:
    assert for_service(nothing)[0] == EMPTY_SCHEMA


@pytest.mark.parametrize("broken", [b"{", b"\xff", b'{"anyOf":', b'{"anyOf":[' * 30_000])
def test_a_schema_that_cannot_be_read_harms_nobody(broken: bytes) -> None:
    schema, notes = for_service(broken)
    assert isinstance(schema, bytes)
    assert notes


@each(
    ("schema", "expected"),
    [
        ({"anyOf": [STRING, NULL]}, {"type": ["string", "null"]}),
        ({"oneOf": [NULL, STRING], "description": "d"}, {"description": "d", "type": ["string", "null"]}),
        ({"anyOf": [STRING, NUMBER]}, {"type": ["string", "number"]}),
        ({"anyOf": [{"type": ["string", "null"]}, NUMBER]}, {"type": ["string", "null", "number"]}),
        ({"anyOf": [{"type": "string", "minLength": 3}, NULL]}, {"type": ["string", "null"], "minLength": 3}),
        ({"anyOf": [{"enum": ["a"]}, NULL]}, {"enum": ["a", None]}),
        ({"anyOf": [{"const": "a"}, NULL]}, {"enum": ["a", None]}),
        ({"oneOf": [{"const": "a"}, {"const": "b"}]}, {"enum": ["a", "b"]}),
        ({"oneOf": [{"const": 1}, {"const": True}, {"enum": [1, 2]}]}, {"enum": [1, True, 2]}),
        ({"anyOf": [STRING, STRINGS]}, {"type": ["string", "array"], "items": STRING}),
        ({"anyOf": [STRINGS, NUMBERS]}, {"type": "array", "items": {}}),
        ({"allOf": [STRING, {"maxLength": 5}]}, {"type": "string", "maxLength": 5}),
        ({"anyOf": [{"anyOf": [STRING, NULL]}, NUMBER]}, {"type": ["string", "null", "number"]}),
        ({"type": "string", "anyOf": [{"format": "date"}, {"format": "date"}]}, {"type": "string", "format": "date"}),
        ({"anyOf": []}, {}),
        ({"anyOf": [True, STRING]}, {"description": 'One of: [{},{"type":"string"}]'}),
        ({"anyOf": [False, STRING]}, {"type": "string"}),
        ({"anyOf": [STRINGS, {"type": "array"}]}, {"type": "array", "items": {}}),
        ({"anyOf": 7}, {}),
        ({"not": {"anyOf": [STRING, NULL]}, "type": "number"}, {"type": "number"}),
        ({"if": {"anyOf": [STRING]}, "then": {"oneOf": []}, "type": "number"}, {"type": "number"}),
        ({"items": {"anyOf": [STRING, NULL]}}, {"items": {"type": ["string", "null"]}}),
    ],
)
def test_a_union_becomes_one_schema(schema: Any, expected: Any) -> None:
    assert inside(schema) == expected


def test_a_union_of_objects_has_the_properties_of_all() -> None:
    joined = inside(
        {
            "oneOf": [
                {
                    "type": "object",
                    "properties": {"kind": {"const": "file"}, "path": STRING},
                    "required": ["kind", "path"],
                    "additionalProperties": False,
                },
                {
                    "type": "object",
                    "properties": {"kind": {"const": "url"}, "url": STRING},
                    "required": ["kind", "url"],
                    "additionalProperties": False,
                },
            ]
        }
    )
    assert joined == {
        "type": "object",
        "properties": {"kind": {"enum": ["file", "url"]}, "path": STRING, "url": STRING},
        "required": ["kind"],
        "additionalProperties": False,
    }


@each(
    ("member", "properties"),
    [
        ({"type": "object"}, {"a": {"description": 'One of: [{"type":"string"},{}]'}}),
        ({"type": "object", "additionalProperties": NUMBER}, {"a": {"type": ["string", "number"]}}),
        ({"type": "object", "additionalProperties": False}, {"a": STRING}),
        ({}, {"a": {"description": 'One of: [{"type":"string"},{}]'}}),
        (
            {"properties": {"b": NULL}, "additionalProperties": NUMBER},
            {"a": {"type": ["string", "number"]}, "b": NULL},
        ),
        ({"properties": {"b": NUMBER}}, {"a": STRING, "b": NUMBER}),
        (STRING, {"a": STRING}),
        ({"enum": ["all"]}, {"a": STRING}),
    ],
)
def test_a_member_for_any_object_is_not_narrowed_to_the_properties_of_others(member: Any, properties: Any) -> None:
    assert inside({"anyOf": [{"type": "object", "properties": {"a": STRING}}, member]})["properties"] == properties


@each(
    ("members", "further"),
    [
        ([{"properties": {"a": STRING}}, {"additionalProperties": NUMBER}], {}),
        ([{"properties": {"a": STRING}, "additionalProperties": False}, {"additionalProperties": NUMBER}], NUMBER),
        ([{"properties": {"a": STRING}, "additionalProperties": STRING}, {"additionalProperties": STRING}], STRING),
        ([{"properties": {"a": STRING}}, {"properties": {"b": STRING}, "additionalProperties": False}], None),
        ([{"properties": {"a": STRING}, "additionalProperties": False}, PATTERN], True),
        ([PATTERN, {**PATTERN, "patternProperties": {"^y": STRING}}], True),
        ([PATTERN, NULL], False),
    ],
)
def test_properties_that_one_member_allows_are_allowed(members: Any, further: Any) -> None:
    found = inside({"anyOf": [{"type": "object"} | member for member in members]}).get("additionalProperties")
    if isinstance(found, dict):
        found.pop("description", None)
    assert found == further


@each(
    ("members", "items"),
    [
        ([PAIR, STRINGS], {}),
        ([PAIR, {**PAIR, "prefixItems": [NUMBER, NUMBER]}], {}),
        ([PAIR, NULL], False),
    ],
)
def test_items_that_one_member_allows_are_allowed(members: Any, items: Any) -> None:
    assert inside({"anyOf": members})["items"] == items


def test_a_union_inside_another_still_allows_any_object() -> None:
    one, other = ({"type": "object", "properties": {name: STRING}} for name in "ab")
    joined = inside({"anyOf": [{"anyOf": [one, {"type": "object"}]}, other]})
    assert joined["additionalProperties"] is True
    assert joined["properties"].keys() == {"a", "b"}
    assert "type" not in joined["properties"]["b"]


def test_all_of_several_objects_is_one_with_all_their_demands() -> None:
    joined = inside(
        {
            "properties": {"a": STRING},
            "required": ["a"],
            "allOf": [
                {"type": "object", "properties": {"b": NUMBER}, "required": ["b"]},
                {"properties": {"a": NUMBER, "c": STRING}},
            ],
        }
    )
    assert joined == {
        "type": "object",
        "properties": {"a": STRING, "b": NUMBER, "c": STRING},
        "required": ["a", "b"],
    }


def test_what_a_joined_schema_cannot_say_is_told_in_words() -> None:
    joined = inside({"description": "When.", "anyOf": [{"type": "string", "format": "date"}, {"type": "integer"}]})
    assert joined["type"] == ["string", "integer"]
    assert joined["description"] == 'When. One of: [{"type":"string","format":"date"},{"type":"integer"}]'


def test_words_about_a_union_are_short() -> None:
    members = [{"type": "string", "pattern": "x" * 50, "title": str(number)} for number in range(100)]
    assert len(inside({"anyOf": [*members, NUMBER]})["description"]) < MAX_DESCRIBED + 40


def test_a_union_behind_a_reference_is_found() -> None:
    schema = {
        "type": "object",
        "properties": {"x": {"anyOf": [{"$ref": "#/$defs/Maybe"}, NULL]}},
        "$defs": {"Maybe": {"oneOf": [STRING, NUMBER]}},
    }
    found = fitted(schema)
    assert found["properties"]["x"] == {"type": ["string", "number", "null"]}
    assert "$defs" not in found


def test_a_reference_stays_where_there_is_no_union() -> None:
    schema = {"type": "object", "properties": {"x": {"$ref": "#/$defs/S"}}, "$defs": {"S": STRING}}
    assert fitted(schema) == schema


def test_a_schema_of_trees_is_cut_and_not_followed_for_ever() -> None:
    schema = {
        "type": "object",
        "properties": {"root": {"$ref": "#/$defs/Node"}},
        "$defs": {
            "Node": {
                "type": "object",
                "properties": {"left": {"anyOf": [{"$ref": "#/$defs/Node"}, NULL]}, "value": STRING},
            }
        },
    }
    found = fitted(schema)
    assert found["properties"]["root"]["properties"]["value"] == STRING
    assert not any(word in json.dumps(found) for word in UNIONS)


def test_a_property_may_be_called_like_a_union() -> None:
    schema = {"type": "object", "properties": {"anyOf": STRING, "x": {"anyOf": [STRING, NULL]}}, "required": ["anyOf"]}
    found = fitted(schema)
    assert found["properties"] == {"anyOf": STRING, "x": {"type": ["string", "null"]}}
    assert found["required"] == ["anyOf"]


def test_a_top_level_union_is_one_object() -> None:
    found = fitted({"oneOf": [{"properties": {"a": STRING}}, {"properties": {"a": NUMBER}}]})
    assert found == {"properties": {"a": {"type": ["string", "number"]}}, "type": "object"}


def test_what_was_changed_is_noted() -> None:
    _, notes = for_service(json.dumps({"properties": {"x": {"anyOf": [STRING, NULL]}}}).encode())
    assert notes[-1] == "unions joined into plain schemas: 1"


LEAVES = st.sampled_from([STRING, NUMBER, NULL, {"const": 1}, {"enum": ["a", "b"]}, {}, True, {"type": "object"}])


def _grown(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    unions = st.builds(lambda word, members: {word: members}, st.sampled_from(UNIONS), st.lists(inner, max_size=3))
    objects = st.dictionaries(st.sampled_from("abc"), inner, max_size=3).map(lambda found: {"properties": found})
    return unions | objects | inner.map(lambda item: {"items": item}) | inner.map(lambda item: {"not": item})


@given(st.recursive(LEAVES, _grown, max_leaves=12))
def test_no_union_is_left_wherever_it_was(schema: Any) -> None:
    schema, _ = for_service(json.dumps({"type": "object", "properties": {"x": schema}}).encode())
    found = [json.loads(schema)]
    for part in found:
        if isinstance(part, dict):
            assert not part.keys() & set(UNIONS)
            found += part.values()
        elif isinstance(part, list):
            found += part


def test_unions_inside_one_another_take_no_more_than_their_size() -> None:
    """Ours: a thousand members, and sixty levels, are joined without the schema growing."""
    wide = {"anyOf": [{"type": "object", "properties": {f"p{n}": STRING, "same": {"const": n}}} for n in range(1000)]}
    found = inside(wide)
    assert len(found["properties"]) == 1001
    assert found["properties"]["same"] == {}
    deep: Any = STRING
    for _ in range(60):
        deep = {"anyOf": [{"type": "object", "properties": {"deeper": deep}}, NULL]}
    assert len(json.dumps(inside(deep))) < 2 * len(json.dumps(deep))
