"""The client's tools as the service knows them: names there and back, schemas, what cannot be offered."""

import json

import pytest
from google.protobuf.struct_pb2 import Value

from tests.each import each
from tieline.model.errors import BadRequest
from tieline.model.request import Request, ToolChoice, ToolSpec
from tieline.wire.cursor._pb.exec_kinds_pb2 import McpArgs
from tieline.wire.cursor.opening.offered_tools import NAME_LIMIT, PROVIDER, OfferedTools, new_schema_cache
from tieline.wire.cursor.protobuf_json import from_value

READ = ToolSpec(name="read", description="Read a file.", schema=b'{"type":"object","properties":{"path":{}}}')

RECORDED_SCHEMA = (
    "2a740a100a047479706512081a066f626a6563740a460a0a70726f7065727469657312382a360a190a016112142a120a100a047479706512"
    "081a066e756d6265720a190a016212142a120a100a047479706512081a066e756d6265720a180a087265717569726564120c320a0a031a01"
    "610a031a0162"
)


def names(offer: OfferedTools) -> list[str]:
    return [definition.tool_name for definition in offer.definitions]


def called(offer: OfferedTools, name: str = "", tool_name: str = "", provider: str = PROVIDER) -> str | None:
    return offer.name_of(McpArgs(name=name, tool_name=tool_name, provider_identifier=provider))


def test_a_tool_is_defined_in_the_shape_of_cursors_own_client() -> None:
    """Seen in recordings: the name has the server's in front, the schema is a value and not its text."""
    (definition,) = OfferedTools.of([READ]).definitions
    assert definition.name == f"{PROVIDER}-read"
    assert (definition.tool_name, definition.provider_identifier) == ("read", PROVIDER)
    assert definition.description == "Read a file."
    assert from_value(definition.input_schema) == {"type": "object", "properties": {"path": {}}}
    assert definition.input_schema.WhichOneof("kind") == "struct_value"
    assert not definition.HasField("input_schema_json")


def test_a_schema_is_the_value_that_cursors_own_client_sends() -> None:
    """Seen in recordings; the order of names in an object means nothing to protobuf."""
    number = {"type": "number"}
    schema = {"type": "object", "properties": {"a": number, "b": number}, "required": ["a", "b"]}
    (definition,) = OfferedTools.of([ToolSpec(name="add", schema=json.dumps(schema).encode())]).definitions
    assert definition.input_schema == Value.FromString(bytes.fromhex(RECORDED_SCHEMA))
    assert definition.input_schema.ByteSize() == len(RECORDED_SCHEMA) // 2


# ── Names ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["Delete", "EditNotebook", "FetchMcpResource", "Task", "TodoWrite", "WebFetch"])
def test_a_reserved_name_is_prefixed_and_mapped_back(name: str) -> None:
    """Reported: a tool of such a name fails the whole request."""
    offer = OfferedTools.of([ToolSpec(name=name)])
    (spelled,) = names(offer)
    assert spelled == f"client_{name}"
    assert called(offer, tool_name=spelled) == name
    assert called(offer, name=f"{PROVIDER}-{spelled}") == name
    assert [note.kind for note in offer.notes] == ["renamed"]


@pytest.mark.parametrize("name", ["a.b", "docs/search", "ünïcode", "x" * 200, "", "with space", "💥"])
def test_an_odd_name_is_spelled_plainly_and_mapped_back(name: str) -> None:
    offer = OfferedTools.of([ToolSpec(name=name), READ])
    spelled, read = names(offer)
    assert read == "read"
    assert 0 < len(spelled) <= NAME_LIMIT
    assert spelled.replace("-", "").replace("_", "").isascii()
    assert called(offer, tool_name=spelled) == name


def test_names_that_are_spelled_the_same_stay_apart_and_plain_ones_stay_as_they_are() -> None:
    own = ["a.b", "a_b", "a/b", "x" * 60 + "1", "x" * 60 + "2"]
    offer = OfferedTools.of([ToolSpec(name=name) for name in own])
    spelled = names(offer)
    assert len(set(spelled)) == len(own)
    assert spelled[1] == "a_b"
    assert [called(offer, tool_name=name) for name in spelled] == own


def test_a_name_as_the_model_sees_it_fits_into_64_characters() -> None:
    offer = OfferedTools.of([ToolSpec(name="y" * 80)])
    assert len(offer.model_name("y" * 80)) == 64
    assert offer.model_name("gone.tool") == f"mcp_{PROVIDER}_gone_tool"
    assert offer.model_name("Task") == f"mcp_{PROVIDER}_client_Task"


@each(
    ("name", "tool_name", "provider"),
    [
        ("tieline-read", "read", "tieline"),
        ("read", "", "tieline"),
        ("", "read", "tieline"),
        ("read", "read", ""),
        ("tieline-read", "", ""),
        ("tieline___read", "", "tieline"),
        ("tieline__read", "", ""),
        ("tieline_read", "", ""),
        ("mcp_tieline_read", "", ""),
        ("mcp__tieline__read", "", ""),
        ("", "mcp_tieline_read", "tieline"),
        ("tieline-read", "nonsense", "tieline"),
        ("Read", "", "tieline"),
        ("mcp_tieline_Read", "", "Tieline"),
    ],
)
def test_a_call_is_understood_in_every_form(name: str, tool_name: str, provider: str) -> None:
    offer = OfferedTools.of([READ, ToolSpec(name="write")])
    assert called(offer, name, tool_name, provider) == "read"


@pytest.mark.parametrize(
    ("name", "tool_name", "provider"),
    [
        ("delete", "delete", "tieline"),
        ("", "", "tieline"),
        ("other-server-read", "read", "other-server"),
        ("tieline-", "", ""),
        ("---", "", ""),
    ],
)
def test_a_tool_that_is_not_offered_is_none(name: str, tool_name: str, provider: str) -> None:
    assert called(OfferedTools.of([READ]), name, tool_name, provider) is None


def test_a_name_that_is_close_to_two_is_none_of_them() -> None:
    offer = OfferedTools.of([ToolSpec(name="read_file"), ToolSpec(name="ReadFile")])
    assert called(offer, "readfile") is None
    assert called(offer, "ReadFile") == "ReadFile"


def test_a_tool_with_the_servers_name_in_its_own_is_found() -> None:
    offer = OfferedTools.of([ToolSpec(name="tieline-read"), READ])
    assert called(offer, tool_name="tieline-read") == "tieline-read"
    assert called(offer, tool_name="read") == "read"


# ── What is offered ──────────────────────────────────────────────────────────────────────────────


def test_a_second_tool_of_a_name_is_left_out_and_noted() -> None:
    offer = OfferedTools.of([READ, ToolSpec(name="read", description="Another.")])
    assert [definition.description for definition in offer.definitions] == ["Read a file."]
    assert "another tool of the same name" in offer.notes[0].message
    assert offer.specs == {"read": READ}


def test_a_tool_that_another_upstream_runs_is_left_out_and_noted() -> None:
    offer = OfferedTools.of([ToolSpec(name="search", hosted="web_search_20250305"), READ])
    assert names(offer) == ["read"]
    assert "web_search_20250305" in offer.notes[0].message


def test_nothing_but_tools_that_another_upstream_runs_is_a_bad_request() -> None:
    with pytest.raises(BadRequest) as caught:
        OfferedTools.of([ToolSpec(name="search", hosted="web_search")])
    assert caught.value.param == "tools"


def test_a_freeform_tool_takes_one_string_and_tells_its_grammar() -> None:
    grammar = {"format": {"type": "grammar", "syntax": "lark", "definition": 'start: "x"'}}
    (definition,) = OfferedTools.of(
        [ToolSpec(name="patch", description="Change files.", freeform=True, meta=grammar)]
    ).definitions
    assert from_value(definition.input_schema) == {
        "type": "object",
        "properties": {"input": {"type": "string"}},
        "required": ["input"],
    }
    assert definition.description.startswith("Change files.")
    assert 'start: "x"' in definition.description


def test_no_tools_are_an_empty_offer() -> None:
    offer = OfferedTools.of([])
    assert (offer.definitions, offer.notes, offer.specs) == ((), (), {})
    assert called(offer, "read") is None


def test_what_was_adapted_in_a_schema_is_noted_with_the_tool() -> None:
    union = b'{"oneOf":[{"properties":{"a":{}}},{"properties":{"b":{}}}]}'
    offer = OfferedTools.of([ToolSpec(name="odd", schema=union)])
    assert from_value(offer.definitions[0].input_schema) == {"type": "object", "properties": {"a": {}, "b": {}}}
    assert [note.message.partition(":")[0] for note in offer.notes] == ["odd"]


def test_a_schema_nested_too_deeply_is_cut_and_noted() -> None:
    schema = b'{"properties":{"x":' * 40 + b"{}" + b"}}" * 40
    offer = OfferedTools.of([ToolSpec(name="deep", schema=schema)])
    assert offer.definitions[0].FromString(offer.definitions[0].SerializeToString()) == offer.definitions[0]
    assert any("too deeply" in note.message for note in offer.notes)


@pytest.mark.parametrize("schema", [b"", b"{", b"\xff", b"null", b"[]"])
def test_a_schema_that_is_none_allows_any_object(schema: bytes) -> None:
    (definition,) = OfferedTools.of([ToolSpec(name="odd", schema=schema)]).definitions
    assert from_value(definition.input_schema) == {"type": "object", "properties": {}}


def test_a_choice_leaves_the_tools_it_names() -> None:
    request = Request(
        model="m",
        messages=(),
        tools=(READ, ToolSpec(name="write")),
        tool_choice=ToolChoice(mode="required", names=("write", "gone")),
    )
    assert names(OfferedTools.of_request(request)) == ["write"]


def test_changing_a_definition_changes_no_other_offer() -> None:
    """Schemas are shared between requests."""
    schemas = new_schema_cache()
    first = OfferedTools.of([READ], schemas)
    first.definitions[0].input_schema.Clear()
    again = OfferedTools.of([READ], schemas)
    assert from_value(again.definitions[0].input_schema) == {"type": "object", "properties": {"path": {}}}


def test_a_schema_is_adapted_once_for_all_requests_unless_it_is_large() -> None:
    schemas = new_schema_cache()
    large = ToolSpec(name="large", schema=json.dumps({"type": "object", "description": "x" * 40_000}).encode())
    for _ in range(2):
        assert len(OfferedTools.of([READ, large], schemas).definitions) == 2
    assert READ.schema in schemas
    assert large.schema not in schemas
