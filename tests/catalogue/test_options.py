"""Known failures 102 to 111: what a request says of its tools."""

import json
from typing import Any

import pytest

from tests.catalogue.asking import PAIRS, Json, ask, ask_anything, asking, calls, parsed, results, tool, user
from tests.catalogue.crossing import (
    CROSSINGS,
    PROTOCOLS,
    Crossing,
    Protocol,
    call_delta,
    chat_stream,
    cross,
    message_stream,
    tool_block,
)
from tests.each import each
from tieline.core.history.tidy import tidy
from tieline.model.errors import BadRequest
from tieline.wire import anthropic, openai_chat

every_pair = each(("client", "upstream"), PAIRS)
every_client = pytest.mark.parametrize("client", PROTOCOLS)
every_upstream = pytest.mark.parametrize("upstream", PROTOCOLS)

A, C = PROTOCOLS

# ── 102 to 104: choice, parallel calls, no tools ─────────────────────────────────────────────────

CHOICES: list[tuple[Protocol, Any, Json, Any]] = [
    (A, {"type": "auto"}, {"type": "auto"}, "auto"),
    (A, {"type": "none"}, {"type": "none"}, "none"),
    (A, {"type": "any"}, {"type": "any"}, "required"),
    (A, {"type": "tool", "name": "read"}, {"type": "tool", "name": "read"}, ("function", "read")),
    (C, "auto", {"type": "auto"}, "auto"),
    (C, "none", {"type": "none"}, "none"),
    (C, "required", {"type": "any"}, "required"),
    (C, "any", {"type": "any"}, "required"),
    (C, {"type": "auto"}, {"type": "auto"}, "auto"),
    (C, {"type": "any"}, {"type": "any"}, "required"),
    (C, {"type": "none"}, {"type": "none"}, "none"),
    (C, {"type": "function", "function": {"name": "read"}}, {"type": "tool", "name": "read"}, ("function", "read")),
    (C, {"type": "function", "name": "read"}, {"type": "tool", "name": "read"}, ("function", "read")),
    (C, {"type": "tool", "name": "read"}, {"type": "tool", "name": "read"}, ("function", "read")),
]


def with_tools(client: Protocol, *names: str, **fields: Any) -> Json:
    return asking(client, user("hi"), tools=[tool(client, name) for name in names or ("read", "write")], **fields)


@each(("client", "said", "to_anthropic", "to_openai"), CHOICES)
def test_102_every_choice_is_said_in_the_upstreams_words(
    client: Protocol, said: Any, to_anthropic: Json, to_openai: Any
) -> None:
    request = with_tools(client, tool_choice=said)
    assert ask(request, client, A).body["tool_choice"] == to_anthropic
    choice = ask(request, client, C).body["tool_choice"]
    if isinstance(to_openai, tuple):
        kind, name = to_openai
        to_openai = {"type": kind, kind: {"name": name}}
    assert choice == to_openai


@every_pair
def test_102_a_client_that_says_nothing_stays_silent(client: Protocol, upstream: Protocol) -> None:
    assert "tool_choice" not in ask(with_tools(client), client, upstream).body


@every_pair
@each("tools", [[], None, "absent"])
def test_102_a_choice_without_tools_is_left_out(client: Protocol, upstream: Protocol, tools: Any) -> None:
    for mode in ("auto", "none"):
        fields = {} if tools == "absent" else {"tools": tools}
        choice: Any = mode if client == C else {"type": mode}
        sent = ask(asking(client, user("hi"), tool_choice=choice, **fields), client, upstream)
        assert "tool_choice" not in sent.body
        assert "tools" not in sent.body


@pytest.mark.parametrize("mode", ["auto", "required"])
@pytest.mark.parametrize("nested", [True, False])
def test_102_a_choice_among_some_tools_narrows_them(mode: str, nested: bool) -> None:
    some = [{"type": "function", "function": {"name": name}} for name in ("read", "write")]
    allowed = {"mode": mode, "tools": some}
    choice = {"type": "allowed_tools", "allowed_tools": allowed} if nested else {"type": "allowed_tools", **allowed}
    said = with_tools(C, "read", "write", "rm", tool_choice=choice)
    to_anthropic = ask(said, C, A)
    assert to_anthropic.names == ["read", "write"]
    assert to_anthropic.body["tool_choice"] == {"type": "auto" if mode == "auto" else "any"}
    to_openai = ask(said, C, C)
    assert to_openai.names == ["read", "write", "rm"]
    assert to_openai.body["tool_choice"] == {"type": "allowed_tools", "allowed_tools": allowed}


@every_pair
def test_102_none_says_nothing_about_parallel_calls(client: Protocol, upstream: Protocol) -> None:
    choice: Json = {"type": "none", "disable_parallel_tool_use": True}
    said = with_tools(client, tool_choice=choice)
    if client == C:
        said = with_tools(client, tool_choice="none", parallel_tool_calls=False)
    sent = ask(said, client, upstream)
    if upstream == A:
        assert sent.body["tool_choice"] == {"type": "none"}
    else:
        assert sent.body["tool_choice"] == "none"


@pytest.mark.parametrize(("client", "said"), [(A, {"type": "some"}), (C, "some"), (C, {"type": "some"})])
def test_102_a_choice_nobody_knows_is_refused_by_its_place(client: Protocol, said: Any) -> None:
    with pytest.raises(BadRequest, match="tool_choice"):
        parsed(with_tools(client, tool_choice=said), client)


@every_pair
@each("parallel", [True, False])
def test_103_parallel_calls_are_allowed_or_not(client: Protocol, upstream: Protocol, parallel: bool) -> None:
    said = with_tools(client, tool_choice={"type": "auto", "disable_parallel_tool_use": not parallel})
    if client == C:
        said = with_tools(client, tool_choice="auto", parallel_tool_calls=parallel)
    sent = ask(said, client, upstream)
    if upstream == A:
        assert sent.body["tool_choice"] == {"type": "auto", "disable_parallel_tool_use": not parallel}
    else:
        assert sent.body["parallel_tool_calls"] is parallel


def test_103_no_parallel_calls_need_a_choice_to_be_said_in() -> None:
    sent = ask(with_tools(C, parallel_tool_calls=False), C, A)
    assert sent.body["tool_choice"] == {"type": "auto", "disable_parallel_tool_use": True}
    assert "tool_choice" not in ask(with_tools(C, parallel_tool_calls=True), C, A).body


@every_upstream
@pytest.mark.parametrize("parallel", [True, False])
def test_103_without_tools_there_are_no_parallel_calls(upstream: Protocol, parallel: bool) -> None:
    sent = ask(asking(C, user("hi"), tools=[], parallel_tool_calls=parallel), C, upstream)
    assert b"parallel" not in sent.raw


@every_pair
@each("tools", [[], None, "absent"])
def test_104_a_history_with_calls_needs_no_tools(client: Protocol, upstream: Protocol, tools: Any) -> None:
    fields = {} if tools == "absent" else {"tools": tools}
    turns = [user("hi"), calls(client, ("c1", "read", {})), results(client, ("c1", "one")), user("Sum up.")]
    sent = ask(asking(client, *turns, **fields), client, upstream)
    assert sent.calls == [("c1", "read", {})]
    if upstream == A:
        assert len(sent.names) == 1
        assert sent.body["tool_choice"] == {"type": "none"}
    else:
        assert "tools" not in sent.body


# ── 105 to 110: tools and their schemas ──────────────────────────────────────────────────────────


@every_pair
@each("schema", [None, {}, {"type": "object"}, {"type": "object", "properties": None}])
def test_105_a_tool_needs_no_parameters(client: Protocol, upstream: Protocol, schema: Any) -> None:
    for given in (True, False):
        plain: Json = {"name": "now"}
        if given or schema is not None:
            plain["input_schema" if client == A else "parameters"] = schema
        said = asking(client, user("hi"), tools=[plain if client == A else {"type": "function", "function": plain}])
        sent = ask(said, client, upstream)
        assert sent.tools == {"now": {"type": "object", "properties": {}}}
        assert "description" not in (sent.body["tools"][0].get("function") or sent.body["tools"][0])


@every_pair
@each("description", ["", None])
def test_105_a_tool_needs_no_description(client: Protocol, upstream: Protocol, description: Any) -> None:
    said = asking(client, user("hi"), tools=[tool(client, "read", description=description)])
    assert b"description" not in ask(said, client, upstream).raw


def sent_schema(client: Protocol, upstream: Protocol, schema: Any) -> tuple[Json, list[str]]:
    sent = ask(asking(client, user("hi"), tools=[tool(client, "read", schema)]), client, upstream)
    return sent.tools["read"], sent.kinds


@every_pair
@each("union", ["anyOf", "oneOf", "allOf"])
def test_106_a_union_at_the_top_becomes_one_object(client: Protocol, upstream: Protocol, union: str) -> None:
    parts = [
        {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
        {"type": "object", "properties": {"url": {"type": "string"}}, "required": ["url"]},
    ]
    schema, kinds = sent_schema(client, upstream, {union: parts})
    assert schema["type"] == "object"
    assert set(schema["properties"]) == {"path", "url"}
    assert schema.get("required") == (["path", "url"] if union == "allOf" else None)
    assert not {"anyOf", "oneOf", "allOf"} & schema.keys()
    assert set(kinds) == {"schema"}


@every_pair
def test_106_a_union_below_stays(client: Protocol, upstream: Protocol) -> None:
    given = {"type": "object", "properties": {"at": {"anyOf": [{"type": "string"}, {"type": "null"}]}}}
    assert sent_schema(client, upstream, given) == (given, [])


@every_pair
@each(
    ("ref", "where"),
    [
        ("#/definitions/Path", {"definitions": {"Path": {"type": "string"}}}),
        ("#/components/schemas/Path", {"components": {"schemas": {"Path": {"type": "string"}}}}),
        ("#/$defs/Path", {"$defs": {"Path": {"type": "string"}}}),
    ],
)
def test_107_references_can_be_followed(client: Protocol, upstream: Protocol, ref: str, where: Json) -> None:
    given = {"type": "object", "properties": {"path": {"$ref": ref}}, **where}
    schema, _ = sent_schema(client, upstream, given)
    if "$defs" in where:
        assert schema == given
    else:
        assert schema == {"type": "object", "properties": {"path": {"type": "string"}}}


@every_pair
def test_107_recursion_ends(client: Protocol, upstream: Protocol) -> None:
    node = {
        "type": "object",
        "properties": {"next": {"$ref": "#/definitions/Node"}, "also": {"$ref": "#/definitions/Node"}},
    }
    given = {"type": "object", "properties": {"node": {"$ref": "#/definitions/Node"}}, "definitions": {"Node": node}}
    schema, kinds = sent_schema(client, upstream, given)
    assert "#/definitions" not in json.dumps(schema)
    assert len(json.dumps(schema)) < 10_000
    assert set(kinds) == {"schema"}


@every_pair
@each(
    ("given", "expected"),
    [
        ({"type": ["string", "null"]}, {"type": ["string", "null"]}),
        ({"type": "string", "nullable": True}, {"type": ["string", "null"]}),
        ({"type": "string", "enum": []}, {"type": "string"}),
        ({"type": "string", "$comment": "x"}, {"type": "string"}),
        ({"type": "integer", "minimum": "1"}, {"type": "integer", "minimum": 1}),
        ({"type": "STRING"}, {"type": "string"}),
        (
            {"type": "array", "items": {}, "uniqueItems": "true"},
            {"type": "array", "items": {}, "uniqueItems": True},
        ),
        ({"type": "integer", "minimum": 1, "exclusiveMinimum": True}, {"type": "integer", "exclusiveMinimum": 1}),
    ],
)
def test_108_odd_keywords_are_put_right(client: Protocol, upstream: Protocol, given: Json, expected: Json) -> None:
    schema, _ = sent_schema(client, upstream, {"type": "object", "properties": {"it": given}})
    assert schema["properties"]["it"] == expected


@every_pair
def test_108_a_property_may_be_called_like_a_keyword(client: Protocol, upstream: Protocol) -> None:
    names = {name: {"type": "string"} for name in ("enum", "$comment", "nullable", "definitions", "anyOf", "required")}
    given = {"type": "object", "properties": names}
    assert sent_schema(client, upstream, given) == (given, [])


EXTENSIONS: Json = {
    "eager_input_streaming": True,
    "defer_loading": True,
    "allowed_callers": ["direct"],
    "input_examples": [{"path": "a"}],
}


def test_109_extensions_of_tools_go_only_where_they_are_known() -> None:
    said = asking(A, user("hi"), tools=[tool(A, "read", cache_control={"type": "ephemeral"}, **EXTENSIONS)])
    assert ask(said, A, C).body["tools"] == [tool(C, "read")]
    kept = ask(said, A, A).body["tools"][0]
    assert kept == tool(A, "read", **EXTENSIONS)
    plain = ask(said, A, A, anthropic.Dialect(extensions=False)).body["tools"][0]
    assert plain == tool(A, "read", cache_control={"type": "ephemeral"})


@every_pair
def test_109_strict_goes_only_where_it_is_known(client: Protocol, upstream: Protocol) -> None:
    schema = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
    said = asking(client, user("hi"), tools=[tool(client, "read", schema, strict=True)])
    kept = ask(said, client, upstream).body["tools"][0]
    assert (kept if upstream == A else kept["function"])["strict"] is True
    without = anthropic.Dialect(strict_tools=False) if upstream == A else openai_chat.Dialect(strict_tools=False)
    assert b"strict" not in ask(said, client, upstream, without).raw


@every_client
def test_109_cache_marks_of_tools_go_only_where_they_are_known(client: Protocol) -> None:
    said = asking(client, user("hi"), tools=[tool(client, "read", cache_control={"type": "ephemeral"})])
    assert b"cache_control" not in ask(said, client, C).raw
    marked = ask_anything(said, client, C, openai_chat.Dialect(cache_marks=True)).body["tools"][0]
    assert marked["cache_control"] == {"type": "ephemeral"}
    assert ask(said, client, A).body["tools"][0]["cache_control"] == {"type": "ephemeral"}


@every_pair
def test_110_a_tool_defined_twice_is_sent_once(client: Protocol, upstream: Protocol) -> None:
    said = with_tools(client, "read", "write", "read")
    assert ask(said, client, upstream).names == ["read", "write"]


HOSTED: dict[Protocol, Json] = {
    A: {"type": "web_search_20250305", "name": "web_search", "max_uses": 3},
    C: {"type": "web_search", "filters": {"allowed_domains": ["example.com"]}},
}


@every_pair
def test_110_a_tool_the_upstream_runs_goes_whole_or_is_refused(client: Protocol, upstream: Protocol) -> None:
    said = asking(client, user("hi"), tools=[HOSTED[client]])
    if client == upstream:
        assert ask_anything(said, client, upstream).body["tools"] == [HOSTED[client]]
        return
    with pytest.raises(BadRequest, match="web_search") as refused:
        ask_anything(said, client, upstream)
    assert refused.value.param == "tools[0]"


@every_pair
def test_110_a_tool_the_upstream_runs_is_left_out_elsewhere_if_there_are_others(
    client: Protocol, upstream: Protocol
) -> None:
    """Seen: Cline offers Anthropic's web search in every request, whatever the model."""
    said = asking(client, user("hi"), tools=[tool(client, "read"), HOSTED[client]])
    asked = ask_anything(said, client, upstream)
    if client == upstream:
        assert asked.body["tools"][1] == HOSTED[client]
        return
    assert asked.names == ["read"]
    assert any(note.kind == "left_out" and "web_search" in note.message for note in asked.notes)


# ── 111: freeform tools ──────────────────────────────────────────────────────────────────────────

GRAMMAR = {"type": "grammar", "grammar": {"syntax": "lark", "definition": "start: begin_patch"}}
PATCH = {"type": "custom", "custom": {"name": "apply_patch", "description": "Edits files.", "format": GRAMMAR}}
RAW = '*** Begin Patch\n+ "x" \\ ä\n*** End Patch'
FUNCTION = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}


def freeform(**fields: Any) -> Json:
    made = {"id": "c1", "type": "custom", "custom": {"name": "apply_patch", "input": RAW}}
    turn: Json = {"role": "assistant", "content": None, "tool_calls": [made]}
    return asking(C, user("hi"), [turn], results(C, ("c1", "ok")), tools=[PATCH], **fields)


@every_upstream
def test_111_a_freeform_tool_goes_out_as_a_function_of_one_text(upstream: Protocol) -> None:
    sent = ask(freeform(), C, upstream)
    assert sent.tools == {"apply_patch": FUNCTION}
    assert sent.calls == [("c1", "apply_patch", {"input": RAW})]
    assert sent.results == [("c1", "ok")]


@every_upstream
def test_111_the_grammar_of_a_freeform_tool_is_told_in_its_description(upstream: Protocol) -> None:
    sent = ask(freeform(), C, upstream)
    described = sent.body["tools"][0].get("function") or sent.body["tools"][0]
    assert described["description"].startswith("Edits files.")
    assert "start: begin_patch" in described["description"]


@every_upstream
def test_111_a_freeform_tool_can_be_chosen(upstream: Protocol) -> None:
    choice = {"type": "custom", "custom": {"name": "apply_patch"}}
    sent = ask(freeform(tool_choice=choice), C, upstream)
    if upstream == A:
        assert sent.body["tool_choice"] == {"type": "tool", "name": "apply_patch"}
    else:
        assert sent.body["tool_choice"] == {"type": "function", "function": {"name": "apply_patch"}}


def test_111_an_upstream_that_knows_freeform_tools_gets_them_as_they_are() -> None:
    sent = ask_anything(freeform(), C, C, openai_chat.Dialect(freeform_tools=True))
    assert sent.body["tools"] == [PATCH]
    assert sent.messages[1]["tool_calls"][0]["custom"] == {"name": "apply_patch", "input": RAW}


def wrapped_answer(upstream: Protocol, *pieces: str) -> bytes:
    if upstream == A:
        return message_stream(*tool_block(0, "c1", "apply_patch", *pieces), stop="tool_use")
    first = call_delta(0, "", id="c1", type="function", name="apply_patch")
    return chat_stream(first, *(call_delta(0, piece) for piece in pieces), finish="tool_calls")


@every_upstream
@pytest.mark.parametrize("crossing", [crossing for crossing in CROSSINGS if crossing.client == C])
def test_111_the_raw_text_of_a_freeform_call_comes_back(upstream: Protocol, crossing: Crossing) -> None:
    sent = ask(freeform(), C, upstream)
    data = wrapped_answer(upstream, *json.dumps({"input": RAW}))
    if not crossing.stream:
        seen = cross(data, upstream, crossing, spelled=sent.spelled)
        assert seen.arguments == [RAW]
        assert seen.frames[0]["choices"][0]["message"]["tool_calls"][0]["type"] == "custom"
        return
    # The official types have no custom call in a chunk: it is read by hand.
    reader_of = anthropic.ResponseReader if upstream == A else openai_chat.ResponseReader
    reader = reader_of(sent.spelled, fallback_id="f", model="m")
    writer = openai_chat.ResponseWriter(openai_chat.Options(arguments=crossing.arguments))
    raw = b"".join(writer.write(event) for event in [*reader.feed(data), *reader.close()])
    chunks = [json.loads(line[6:]) for line in raw.split(b"\n") if line.startswith(b"data: {")]
    deltas = [c for chunk in chunks for choice in chunk["choices"] for c in choice["delta"].get("tool_calls", ())]
    assert (deltas[0]["type"], deltas[0]["custom"]["name"]) == ("custom", "apply_patch")
    assert "".join(delta["custom"].get("input", "") for delta in deltas) == RAW


@every_upstream
def test_111_a_freeform_call_that_came_back_can_be_sent_again(upstream: Protocol) -> None:
    first = ask(freeform(), C, upstream)
    messages, notes = tidy(first.request.messages)
    assert messages == first.request.messages
    assert notes == ()
    assert ask(freeform(), C, upstream).raw == first.raw
