"""Requests in the Messages dialect: parsed from clients, built for upstreams."""

import json
from typing import Any

import pytest
from msgspec import Raw
from msgspec.structs import replace

from tests.each import each
from tieline.model.content import File, Foreign, Image, Message, Part, Role, Text, Thinking, ToolCall, ToolResult
from tieline.model.errors import BadRequest
from tieline.model.request import OutputFormat, Reasoning, Request, Sampling, ToolChoice, ToolSpec
from tieline.wire.anthropic import Dialect, build_count, build_request, parse_request, read_count, render_error
from tieline.wire.shared.spelling import BuiltRequest

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
HELLO = {"role": "user", "content": "Hello"}
MARK = {"type": "ephemeral"}
ADDITION = {"type": "tool_addition", "tool": {"definition": {"input_schema": {}}}}


def body(*messages: Any, **fields: Any) -> bytes:
    """A client's request; a field that is None is left out."""
    whole = {"model": "claude", "max_tokens": 1024, "messages": list(messages or (HELLO,)), **fields}
    return json.dumps({name: value for name, value in whole.items() if value is not None}).encode()


def one_block(block: Any, role: Role = "user") -> bytes:
    return body({"role": role, "content": [block]})


def says(role: Role, *parts: Part | str) -> Message:
    return Message(role=role, parts=tuple(Text(text=part) if isinstance(part, str) else part for part in parts))


def asks(*messages: Message, **fields: Any) -> Request:
    return Request(model="claude", messages=messages or (says("user", "Hello"),), **fields)


def call(call_id: str = "c1", arguments: str = "{}", name: str = "read") -> ToolCall:
    return ToolCall(id=call_id, name=name, arguments=arguments)


def result(call_id: str = "c1", text: str = "done") -> ToolResult:
    return ToolResult(call_id=call_id, content=(Text(text=text),))


def sent(request: Request, **quirks: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(build_request(request, Dialect(**quirks)).body)
    return found


def noted(outgoing: BuiltRequest) -> str:
    return "\n".join(f"{note.kind}: {note.message}" for note in outgoing.notes)


READ = ToolSpec(name="read")
WRITE = ToolSpec(name="write")


# ── Bad requests ─────────────────────────────────────────────────────────────────────────────────


@each(
    ("bad", "param"),
    [
        (body(max_tokens=None), "max_tokens"),
        (body(max_tokens=-1), "max_tokens"),
        (body(max_tokens="many"), "max_tokens"),
        (body(model=7), "model"),
        (b'{"model":"m","max_tokens":1}', "messages"),
        (b'{"model":"m","max_tokens":1,"messages":[]}', "messages"),
        (body(HELLO, {"role": "tool", "content": "x"}), "messages[1].role"),
        (body(HELLO, {"content": "x"}), "messages[1].role"),
        (body(HELLO, HELLO, HELLO, {"role": "user", "content": [HELLO, {"text": "x"}]}), "messages[3].content[0].type"),
        (one_block({"type": 7}), "messages[0].content[0].type"),
        (one_block("words"), "messages[0].content[0]"),
        (one_block({"type": "text"}), "messages[0].content[0].text"),
        (one_block({"type": "text", "text": 1}), "messages[0].content[0].text"),
        (one_block({"type": "tool_use", "name": "x", "input": {}}), "messages[0].content[0].id"),
        (one_block({"type": "tool_result"}), "messages[0].content[0].tool_use_id"),
        (
            one_block({"type": "tool_result", "tool_use_id": "a", "content": [{"type": "text", "text": "x"}, {}]}),
            "messages[0].content[0].content[1].type",
        ),
        (one_block({"type": "image"}), "messages[0].content[0].source"),
        (one_block({"type": "image", "source": {}}), "messages[0].content[0].source.type"),
        (one_block({"type": "image", "source": {"type": "url"}}), "messages[0].content[0].source.url"),
        (
            one_block({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "%%%"}}),
            "messages[0].content[0].source.data",
        ),
        (
            one_block({"type": "document", "source": {"type": "base64", "media_type": "a/b", "data": ""}}),
            "messages[0].content[0].source.data",
        ),
        (one_block({"type": "tool_addition", "tool": "x"}, "system"), "messages[0].content[0].tool"),
        (one_block(ADDITION, "system"), "messages[0].content[0].tool.definition.name"),
        (body(tools=[{"input_schema": {}}]), "tools[0].name"),
        (body(tools=[{"name": "x", "input_schema": "none"}]), "tools[0].input_schema"),
        (body(tool_choice={"type": "sometimes"}), "tool_choice.type"),
        (body(tool_choice={"type": "tool"}), "tool_choice.name"),
        (body(tool_choice="auto"), "tool_choice"),
        (body(thinking={"type": "enabled"}), "thinking.budget_tokens"),
        (body(output_config={"format": {"type": "yaml"}}), "output_config.format.type"),
        (body(output_format={"type": "json_schema"}), "output_format.schema"),
        (body(system=[{"type": "image"}]), "system[0].type"),
        (body(metadata={"user_id": 7}), "metadata.user_id"),
        (body(unknown=1, temperature="warm"), "temperature"),
    ],
)
def test_a_mistake_is_told_with_the_path_of_the_field(bad: bytes, param: str) -> None:
    with pytest.raises(BadRequest) as caught:
        parse_request(bad)
    assert caught.value.param == param
    assert f"`{param}`" in caught.value.message


@pytest.mark.parametrize("bad", [b"", b"{", b"[]", b"\xff", b'{"thread":"\xff"}', b"[" * 100_000, b'{"a":' * 100_000])
def test_what_is_no_json_object_is_a_bad_request(bad: bytes) -> None:
    with pytest.raises(BadRequest):
        parse_request(bad)


def test_a_thread_is_refused_in_the_way_the_sdks_understand() -> None:
    """Seen: with this error code the official tool runners send the whole history by themselves."""
    with pytest.raises(BadRequest) as caught:
        parse_request(body(thread={"type": "continue", "previous_message_id": "msg_1"}))
    error = json.loads(render_error(caught.value, "req_1"))
    assert error["error"]["details"] == {"error_code": "thread_unsupported_request", "unsupported": []}
    assert error["error"]["type"] == "invalid_request_error"
    assert error["request_id"] == "req_1"


def test_counting_needs_no_max_tokens() -> None:
    assert parse_request(body(max_tokens=None), counting=True).sampling.max_tokens is None


# ── Parsing ──────────────────────────────────────────────────────────────────────────────────────


def test_a_request_with_unknown_fields_is_read_like_the_same_without() -> None:
    messages = (
        {"role": "user", "content": [{"type": "text", "text": "a", "cache_control": MARK}]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "n", "input": {"x": [1, 2]}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "r", "is_error": True}]},
        {"role": "system", "content": "late"},
    )
    usual = parse_request(body(*messages))
    patient = parse_request(body(*messages, tomorrow={"a": 1}))
    assert patient.extra == {"tomorrow": Raw(b'{"a": 1}')}
    assert replace(patient, extra={}) == usual


@pytest.mark.parametrize("content", [None, "", []])
def test_a_message_without_content_is_tolerated(content: Any) -> None:
    message = {"role": "assistant", "content": content}
    assert parse_request(body(HELLO, message)).messages[1].parts == ()
    assert parse_request(body(HELLO, {"role": "assistant"})).messages[1].parts == ()


def test_null_is_the_same_as_nothing() -> None:
    names = (
        "system tools tool_choice thinking temperature stop_sequences stream thread metadata service_tier output_config"
    )
    nulls = json.loads(body()) | dict.fromkeys(names.split())
    assert parse_request(json.dumps(nulls).encode()) == parse_request(body())


def test_arguments_and_schemas_stay_byte_for_byte() -> None:
    arguments = '{ "b": 1.0, "a": "\\u00e9\\/", "n": 12345678901234567890 }'
    schema = '{"type" : "object", "properties": {"z": {}, "a": {}}}'
    raw = body(
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "n", "input": "HERE"}]},
        tools=[{"name": "n", "input_schema": "THERE"}],
    )
    raw = raw.replace(b'"HERE"', arguments.encode()).replace(b'"THERE"', schema.encode())
    request = parse_request(raw)
    assert request.messages[0].parts == (ToolCall(id="c", name="n", arguments=arguments),)
    assert request.tools[0].schema == schema.encode()
    assert arguments.encode() in build_request(request).body
    assert schema.encode() in build_request(request).body


def test_only_a_system_message_after_others_stays_in_place() -> None:
    request = parse_request(body({"role": "system", "content": "a"}, HELLO, {"role": "system", "content": "b"}))
    assert [message.meta for message in request.messages] == [{}, {}, {"anthropic": {"in_place": True}}]


@pytest.mark.parametrize(
    "tool",
    [
        {"type": "web_search_20250305", "name": "web_search", "max_uses": 5},
        {"type": "mcp_toolset", "mcp_server_name": "x"},
    ],
)
def test_a_tool_known_by_its_type_passes_as_it_came(tool: dict[str, Any]) -> None:
    request = parse_request(body(tools=[tool, {"name": "own"}]))
    assert request.tools[0].hosted == tool["type"]
    assert sent(request)["tools"][0] == tool


@pytest.mark.parametrize(
    ("config", "effort", "reasoning"),
    [
        (None, None, (None, None, None)),
        (None, "max", (None, None, "max")),
        ({"type": "disabled"}, None, ("off", None, None)),
        ({"type": "enabled", "budget_tokens": 2048}, None, ("budget", 2048, None)),
        ({"type": "adaptive", "display": "omitted"}, "low", ("adaptive", None, "low")),
        ({"type": "between_tools"}, None, ("adaptive", None, None)),
        ({"type": "telepathy"}, "unheard", (None, None, None)),
    ],
)
def test_thinking_is_understood_and_goes_out_as_it_came(config: Any, effort: Any, reasoning: Any) -> None:
    asked = parse_request(body(max_tokens=8000, thinking=config, output_config=effort and {"effort": effort}))
    got = asked.reasoning
    assert (got.mode, got.budget, got.effort) == reasoning
    built = sent(asked)
    assert built.get("thinking") == config
    assert built.get("output_config", {}).get("effort") == effort


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ({"type": "auto"}, ToolChoice(given=True)),
        ({"type": "any", "disable_parallel_tool_use": True}, ToolChoice(mode="required", parallel=False, given=True)),
        ({"type": "tool", "name": "read"}, ToolChoice(mode="required", names=("read",), given=True)),
        ({"type": "none"}, ToolChoice(mode="none", given=True)),
    ],
)
def test_a_tool_choice_is_understood_and_goes_out_again(choice: Any, expected: ToolChoice) -> None:
    request = parse_request(body(tool_choice=choice, tools=[{"name": "read"}]))
    assert request.tool_choice == expected
    assert sent(request)["tool_choice"] == choice


def test_base64_with_line_breaks_is_base64() -> None:
    lines = "\r\n".join([PIXEL[:60], PIXEL[60:]])
    block = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": lines}}
    assert parse_request(one_block(block)).messages[0].parts == (Image(media_type="image/png", data=PIXEL),)


# ── Building: history ────────────────────────────────────────────────────────────────────────────


def test_leading_system_messages_become_the_system_prompt_with_a_block_each() -> None:
    built = sent(asks(says("system", "a", " "), says("system", "b"), says("user", "c")), cache="off")
    assert built["system"] == [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]


@pytest.mark.parametrize(("protocol", "known"), [("anthropic", True), ("openai_chat", True), ("anthropic", False)])
def test_a_late_system_message_stays_or_becomes_a_reminder(protocol: str, known: bool) -> None:
    late = replace(says("system", "now"), meta={protocol: {"in_place": True}})
    built = sent(asks(says("user", "a"), late, protocol=protocol), system_in_messages=known)
    if protocol == "anthropic" and known:
        assert built["messages"][1] == {"role": "system", "content": [{"type": "text", "text": "now"}]}
    else:
        (message,) = built["messages"]
        assert message["content"][1]["text"] == "<system-reminder>\nnow\n</system-reminder>"


def test_runs_of_one_role_become_one_message_with_results_first() -> None:
    history = (says("user", "go"), says("assistant", call("c1"), call("c2")))
    spread = (says("user", "by the way", result("c1")), says("user", result("c2"), "done?"))
    built = sent(asks(*history, *spread, tools=(READ,)))
    assert [message["role"] for message in built["messages"]] == ["user", "assistant", "user"]
    kinds = [(block["type"], block.get("tool_use_id")) for block in built["messages"][2]["content"]]
    assert kinds == [("tool_result", "c1"), ("tool_result", "c2"), ("text", None), ("text", None)]


@pytest.mark.parametrize(
    "empty", [says("assistant"), says("assistant", "", " \n"), says("assistant", Thinking(text="x"))]
)
def test_an_empty_turn_keeps_its_place(empty: Message) -> None:
    built = sent(asks(says("user", "a"), empty, says("user", "b")))
    assert [message["role"] for message in built["messages"]] == ["user", "assistant", "user"]
    (block,) = built["messages"][1]["content"]
    assert block["text"].strip()


def test_a_conversation_begins_with_the_user() -> None:
    assert [m["role"] for m in sent(asks(says("assistant", "Welcome!")))["messages"]] == ["user", "assistant"]
    assert [m["role"] for m in sent(asks(says("system", "Only rules.")))["messages"]] == ["user"]


def test_words_put_into_the_models_mouth_do_not_end_with_a_space() -> None:
    assert sent(asks(says("user", "a"), says("assistant", "The answer is ")))["messages"][1]["content"][0]["text"] == (
        "The answer is"
    )


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("", {}),
        ("null", {}),
        ('"text"', {"value": "text"}),
        ("[1]", {"value": [1]}),
        ('"{\\"a\\":1}"', {"a": 1}),
        ('{"a":', {"_invalid_json": '{"a":'}),
    ],
)
def test_the_input_of_a_call_is_always_an_object(arguments: str, expected: Any) -> None:
    built = sent(
        asks(says("user", "a"), says("assistant", call("c1", arguments)), says("user", result()), tools=(READ,))
    )
    assert built["messages"][1]["content"][0]["input"] == expected


def test_ids_and_names_are_spelled_as_the_api_allows_and_read_back() -> None:
    odd = ToolSpec(name="mcp.server/read file")
    history = (says("assistant", call("functions.read:0", name=odd.name)), says("user", result("functions.read:0")))
    choice = ToolChoice(mode="required", names=(odd.name,), given=True)
    outgoing = build_request(asks(says("user", "a"), *history, tools=(odd,), tool_choice=choice))
    built = json.loads(outgoing.body)
    used = built["messages"][1]["content"][0]
    assert used["id"] == built["messages"][2]["content"][0]["tool_use_id"] == "tlx_functions-2eread-3a0"
    assert used["name"] == built["tools"][0]["name"] == built["tool_choice"]["name"] == "mcp_server_read_file"
    assert outgoing.tool_names.to_client(used["name"]) == odd.name
    assert parse_request(outgoing.body).messages[1].parts[0] == replace(
        call("functions.read:0", name=used["name"]), arguments="{}"
    )


def test_a_freeform_tool_goes_out_as_a_function_of_one_string() -> None:
    patch = ToolSpec(name="patch", freeform=True)
    used = ToolCall(id="c1", name="patch", arguments='*** "Begin"\n', freeform=True)
    outgoing = build_request(asks(says("user", "a"), says("assistant", used), says("user", result()), tools=(patch,)))
    built = json.loads(outgoing.body)
    assert built["tools"][0]["input_schema"]["required"] == ["input"]
    assert built["messages"][1]["content"][0]["input"] == {"input": '*** "Begin"\n'}
    assert outgoing.tool_names.freeform == {"patch"}


def test_pictures_of_a_failed_call_stand_after_the_results() -> None:
    failed = ToolResult(
        call_id="c1", content=(Text(text="see"), Image(media_type="image/png", data=PIXEL)), is_error=True
    )
    built = sent(asks(says("user", "a"), says("assistant", call()), says("user", failed), tools=(READ,)))
    only_text, picture = built["messages"][2]["content"]
    assert only_text["content"] == [{"type": "text", "text": "see"}]
    assert picture["type"] == "image"


@pytest.mark.parametrize(
    ("part", "kind"),
    [
        (Image(media_type="image/png", data=PIXEL), "image"),
        (Image(url="https://example.org/a.png"), "image"),
        (Image(media_type="image/tiff", data=PIXEL), None),
        (File(media_type="application/pdf", data="JVBERi0=", name="a.pdf"), "document"),
        (File(media_type="text/markdown", data="SGk=", name="a.md"), "document"),
        (File(media_type="text/plain", data="/w==", name="a.txt"), None),
        (File(media_type="application/zip", data="SGk=", name="a.zip"), None),
        (Foreign(protocol="other", kind="hologram", json="{}"), None),
    ],
)
def test_what_a_user_gives_goes_out_as_the_api_takes_it_or_is_refused(part: Part, kind: str | None) -> None:
    if kind is None:
        with pytest.raises(BadRequest, match="does not accept"):
            build_request(asks(says("user", "a", part)))
    else:
        outgoing = build_request(asks(says("user", part)))
        assert json.loads(outgoing.body)["messages"][0]["content"][0]["type"] == kind
        assert not outgoing.notes


# ── Building: thinking ───────────────────────────────────────────────────────────────────────────

SIGNED = Thinking(text="hm", signature="c2ln")
REDACTED = Thinking(signature="ZGF0YQ==", redacted=True)
ON = Reasoning(mode="budget", budget=2048)
ROOM = Sampling(max_tokens=8192)


def kinds(built: dict[str, Any]) -> list[list[str]]:
    return [[block["type"] for block in m["content"]] for m in built["messages"] if m["role"] == "assistant"]


def test_thoughts_are_forgotten_from_the_front_to_the_end_of_the_turn_with_an_unsigned_one() -> None:
    history = (
        *(says("user", "1"), says("assistant", SIGNED, "a")),
        *(says("user", "2"), says("assistant", Thinking(text="unsigned"), call("c1")), says("user", result("c1"))),
        says("assistant", SIGNED, "the same turn"),
        *(says("user", "3"), says("assistant", REDACTED, SIGNED, "b"), says("user", "4")),
    )
    built = sent(asks(*history, tools=(READ,)))
    assert kinds(built) == [["text"], ["tool_use"], ["text"], ["redacted_thinking", "thinking", "text"]]


def test_thoughts_stand_before_the_calls_they_led_to() -> None:
    built = sent(
        asks(says("user", "a"), says("assistant", "Hm.", call(), SIGNED), says("user", result()), tools=(READ,))
    )
    assert kinds(built) == [["text", "thinking", "tool_use"]]


@pytest.mark.parametrize(
    ("thoughts", "on"), [((SIGNED,), True), ((REDACTED,), True), ((), False), ((Thinking(text="unsigned"),), False)]
)
def test_a_budget_needs_the_thoughts_before_the_last_calls(thoughts: tuple[Thinking, ...], on: bool) -> None:
    loop = (says("assistant", *thoughts, call("c1")), says("user", result("c1")), says("assistant", call("c2")))
    request = asks(says("user", "a"), *loop, says("user", result("c2")), tools=(READ,), reasoning=ON, sampling=ROOM)
    outgoing = build_request(request)
    assert json.loads(outgoing.body)["thinking"]["type"] == ("enabled" if on else "disabled")
    assert ("left_out: thinking" in noted(outgoing)) is not on
    assert sent(replace(request, reasoning=Reasoning(mode="adaptive")))["thinking"] == {"type": "adaptive"}


def test_a_forced_tool_switches_a_budget_off_but_not_adaptive_thinking() -> None:
    forced = ToolChoice(mode="required", given=True)
    request = asks(tools=(READ,), tool_choice=forced, reasoning=ON, sampling=ROOM)
    assert sent(request)["thinking"] == {"type": "disabled"}
    assert sent(replace(request, reasoning=Reasoning(mode="adaptive")))["thinking"] == {"type": "adaptive"}


@pytest.mark.parametrize(
    ("budget", "max_tokens", "expected"),
    [(2048, 8192, 2048), (100, 8192, 1024), (8192, 8192, 7168), (9000, 1500, 1024), (2048, 1024, None)],
)
def test_a_budget_stays_below_max_tokens(budget: int, max_tokens: int, expected: int | None) -> None:
    reasoning = Reasoning(mode="budget", budget=budget)
    config = sent(asks(reasoning=reasoning, sampling=Sampling(max_tokens=max_tokens)))["thinking"]
    assert config.get("budget_tokens") == expected


@pytest.mark.parametrize(
    ("effort", "adaptive", "thinking", "said"),
    [
        ("high", True, {"type": "adaptive"}, "high"),
        ("minimal", True, {"type": "adaptive"}, "low"),
        ("none", True, {"type": "disabled"}, None),
        ("low", False, {"type": "enabled", "budget_tokens": 2048}, None),
        ("medium", False, {"type": "enabled", "budget_tokens": 8192}, None),
        ("high", False, {"type": "enabled", "budget_tokens": 24576}, None),
    ],
)
def test_effort_of_another_protocol_asks_for_thinking(effort: Any, adaptive: bool, thinking: Any, said: Any) -> None:
    built = sent(asks(reasoning=Reasoning(effort=effort), protocol="openai_chat"), adaptive=adaptive)
    assert built["thinking"] == thinking
    assert built.get("output_config", {}).get("effort") == said


def test_an_upstream_set_not_to_think_is_not_asked_to() -> None:
    outgoing = build_request(asks(reasoning=ON, sampling=ROOM), Dialect(thinking="off"))
    assert "thinking" not in json.loads(outgoing.body)
    assert "thinking" in [note.what for note in outgoing.notes]


@pytest.mark.parametrize(
    ("sampling", "thinking", "said"),
    [
        (Sampling(temperature=0.5, top_p=0.9), False, {"temperature": 0.5}),
        (Sampling(temperature=1.7), False, {"temperature": 1}),
        (Sampling(temperature=0.0, top_k=5), False, {"temperature": 0, "top_k": 5}),
        (Sampling(temperature=0.5, top_k=5, top_p=0.5), True, {}),
        (Sampling(temperature=1.0, top_p=0.97), True, {"top_p": 0.97}),
    ],
)
def test_sampling_is_what_the_api_takes_together(sampling: Sampling, thinking: bool, said: dict[str, float]) -> None:
    built = sent(asks(sampling=sampling, reasoning=Reasoning(mode="adaptive") if thinking else Reasoning()))
    assert {name: built[name] for name in ("temperature", "top_p", "top_k") if name in built} == said


# ── Building: tools, options, cache marks ────────────────────────────────────────────────────────


def test_a_hosted_tool_of_another_protocol_is_refused_by_its_place_when_it_is_named() -> None:
    with pytest.raises(BadRequest) as caught:
        build_request(asks(tools=(READ, ToolSpec(name="s", hosted="search")), tool_choice=ToolChoice(names=("s",))))
    assert caught.value.param == "tools[1]"


def test_a_choice_among_several_offers_only_those() -> None:
    choice = ToolChoice(mode="required", names=("read", "write"), given=True)
    built = sent(asks(tools=(READ, ToolSpec(name="run"), WRITE), tool_choice=choice))
    assert [tool["name"] for tool in built["tools"]] == ["read", "write"]
    assert built["tool_choice"] == {"type": "any"}
    with pytest.raises(BadRequest):
        build_request(asks(tools=(READ,), tool_choice=replace(choice, names=("a", "b"))))


@pytest.mark.parametrize(
    ("choice", "said"),
    [
        (ToolChoice(), None),
        (ToolChoice(parallel=True), None),
        (ToolChoice(parallel=False), {"type": "auto", "disable_parallel_tool_use": True}),
        (ToolChoice(mode="none", parallel=False, given=True), {"type": "none"}),
    ],
)
def test_a_choice_says_no_more_than_the_client(choice: ToolChoice, said: Any) -> None:
    assert sent(asks(tools=(READ,), tool_choice=choice)).get("tool_choice") == said
    assert "tool_choice" not in sent(asks(tool_choice=choice))


def test_a_history_with_calls_always_has_a_tool() -> None:
    history = (says("user", "a"), says("assistant", call()), says("user", result()))
    built = sent(asks(*history))
    assert len(built["tools"]) == 1
    assert built["tool_choice"] == {"type": "none"}
    assert "tools" not in sent(asks())


def test_the_second_tool_of_a_name_is_left_out() -> None:
    outgoing = build_request(asks(tools=(READ, READ)))
    assert len(json.loads(outgoing.body)["tools"]) == 1
    assert "tools[1]" in noted(outgoing)


def test_what_an_upstream_does_not_know_of_tools_is_not_said() -> None:
    own = {"eager_input_streaming": True, "defer_loading": True, "input_examples": [{"a": 1}]}
    tool = ToolSpec(name="read", strict=True, meta={"anthropic": own, "cache_control": MARK})
    (full,) = sent(asks(tools=(tool,)))["tools"]
    assert {**own, "strict": True}.items() <= full.items()
    assert "cache_control" not in full, "the API refuses marks on deferred tools"
    (plain,) = sent(asks(tools=(tool,)), strict_tools=False, extensions=False)["tools"]
    assert set(plain) == {"name", "input_schema", "cache_control"}


def test_a_loaded_tool_is_told_in_words_where_tools_cannot_be_deferred() -> None:
    reference = {"type": "tool_reference", "tool_name": "WebFetch"}
    block = {"type": "tool_result", "tool_use_id": "c1", "content": [reference]}
    request = parse_request(one_block(block))
    assert sent(request)["messages"][0]["content"][0]["content"] == [reference]
    (told,) = sent(request, extensions=False)["messages"][0]["content"][0]["content"]
    assert told == {"type": "text", "text": "Tool WebFetch is now available."}


def test_the_api_demands_max_tokens() -> None:
    assert sent(asks())["max_tokens"] == 32000
    assert sent(asks(), max_tokens=100)["max_tokens"] == 100


def test_stop_sequences_of_white_space_are_left_out() -> None:
    outgoing = build_request(asks(sampling=Sampling(stop=("a", "\n", "b", "c"))), Dialect(stop_limit=2))
    assert json.loads(outgoing.body)["stop_sequences"] == ["a", "b"]
    assert len(outgoing.notes) == 2


def test_extra_fields_go_only_to_their_own_protocol() -> None:
    extra = {"service_tier": Raw(b'"auto"')}
    assert sent(asks(extra=extra, protocol="anthropic"))["service_tier"] == "auto"
    foreign = build_request(asks(extra=extra, protocol="openai_chat", user="u1"))
    assert "service_tier" in noted(foreign)
    assert json.loads(foreign.body)["metadata"] == {"user_id": "u1"}


def test_structured_output_is_closed_and_without_limits_or_asked_for_in_words() -> None:
    schema = b'{"type":"object","properties":{"minimum":{"type":"array","items":{"type":"integer","minimum":1}}}}'
    request = asks(output=OutputFormat(schema=schema))
    fitted = sent(request)["output_config"]["format"]["schema"]
    assert fitted["additionalProperties"] is False
    assert fitted["properties"]["minimum"]["items"] == {"type": "integer"}
    outgoing = build_request(request, Dialect(structured_output=False))
    assert schema.decode() in json.loads(outgoing.body)["system"][0]["text"]
    assert "structured_output" in noted(outgoing)


def marked(built: dict[str, Any]) -> list[str]:
    """The texts, names and ids of what carries a mark, in the order of the prompt."""
    blocks = [*built.get("tools", ()), *built.get("system", ())]
    blocks += [block for message in built["messages"] for block in message["content"]]
    found = [block for block in blocks if "cache_control" in block]
    return [block.get("text") or block.get("name") or block["tool_use_id"] for block in found]


def test_marks_are_set_for_clients_that_cannot_set_any() -> None:
    history = (says("system", "s1", "s2"), says("user", "1"), says("assistant", "a"), says("user", "2"))
    loop = (says("assistant", call()), says("user", result()))
    request = asks(*history, *loop, tools=(READ, WRITE), protocol="openai_chat")
    assert marked(sent(request)) == ["write", "s2", "2", "c1"]
    assert marked(sent(request, cache="off")) == []
    assert marked(sent(replace(request, protocol="anthropic"))) == []


def test_the_last_four_marks_of_a_client_are_kept() -> None:
    texts = [Text(text=str(number), meta={"cache_control": MARK}) for number in range(5)]
    tool = ToolSpec(name="read", meta={"cache_control": MARK})
    request = asks(says("user", *texts, "unmarked"), tools=(tool,), protocol="openai_chat")
    assert marked(sent(request)) == ["1", "2", "3", "4"]


def test_a_token_count_is_asked_with_the_prompt_alone() -> None:
    history = (says("system", "s"), says("user", "a"))
    settings = {"sampling": Sampling(max_tokens=8000, temperature=0.1), "reasoning": ON, "stream": True, "user": "u"}
    built = json.loads(build_count(asks(*history, tools=(READ,), **settings)).body)
    assert set(built) == {"model", "messages", "system", "tools", "thinking"}
    assert read_count(b'{"input_tokens": 42, "more": 1}') == 42
