"""Requests in Chat Completions, as upstreams are told them."""

import json
from typing import Any

import pytest
from msgspec import Raw
from msgspec.structs import replace

from tests.cases import PIXEL
from tieline.model.content import Image, Message, Text, Thinking, ToolCall, ToolResult
from tieline.model.request import EMPTY_SCHEMA, OutputFormat, Reasoning, Request, Sampling, ToolChoice, ToolSpec
from tieline.wire.openai_chat import Dialect, build_request


def call(call_id: str, arguments: str) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": "read", "arguments": arguments}}


def says(role: Any, *parts: Any, **fields: Any) -> Message:
    return Message(role=role, parts=parts, **fields)


def asks(*messages: Message, **fields: Any) -> Request:
    return Request(model="m", messages=messages or (says("user", Text(text="Hi")),), **fields)


def build(request: Request, **quirks: Any) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(build_request(request, Dialect(**quirks)).body)
    return body


# ── Messages ───────────────────────────────────────────────────────────────────────────


def test_096_content_is_null_only_beside_calls() -> None:
    made = ToolCall(id="a", name="read", arguments="{}")
    sent = build(asks(says("assistant", made), says("assistant"), says("assistant", Thinking(text="hm"))))
    assert [message["content"] for message in sent["messages"]] == [None, "", ""]


@pytest.mark.parametrize(
    ("arguments", "sent"),
    [
        ('{ "b": 1.0 }', '{ "b": 1.0 }'),
        ("", "{}"),
        ("null", "{}"),
        ("[1]", '{"value":[1]}'),
        ('"{\\"a\\":1}"', '{"a":1}'),
        ('{"a', '{"_invalid_json":"{\\"a"}'),
    ],
)
def test_023_arguments_are_sent_as_they_came_or_as_an_object(arguments: str, sent: str) -> None:
    made = build(asks(says("assistant", ToolCall(id="a", name="read", arguments=arguments))))["messages"][0]
    assert made["tool_calls"] == [call("a", sent)]


def test_095_a_picture_in_a_result_follows_in_a_user_message() -> None:
    picture = Image(media_type="image/png", data=PIXEL)
    result = ToolResult(call_id="a", content=(Text(text="here"), picture))
    request = asks(says("user", result, ToolResult(call_id="b", content=(Text(text="2"),)), Text(text="And?")))
    shown = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}
    first, second, user = build(request)["messages"]
    assert first["content"] == "here\n\n[image: it follows in the next user message]"
    assert second == {"role": "tool", "tool_call_id": "b", "content": "2"}
    assert user["content"][1:] == [shown, {"type": "text", "text": "And?"}]
    assert "a" in user["content"][0]["text"]
    inside = build(request, images_in_tools=True)["messages"]
    assert inside[0]["content"] == [{"type": "text", "text": "here"}, shown]
    assert inside[2] == {"role": "user", "content": "And?"}


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        ("no such file", "Error: no such file"),
        ("Error: no such file", "Error: no such file"),
        ("<tool_use_error>no</tool_use_error>", "<tool_use_error>no</tool_use_error>"),
    ],
)
def test_094_a_failed_result_says_so(text: str, sent: str) -> None:
    result = ToolResult(call_id="a", content=(Text(text=text),), is_error=True)
    assert build(asks(says("user", result)))["messages"][0]["content"] == sent


def test_094_a_failed_result_without_words_says_so_too() -> None:
    result = ToolResult(call_id="a", is_error=True)
    assert build(asks(says("user", result)))["messages"][0]["content"] == "Error: the tool failed"


def test_120_the_cache_mark_of_a_result_stands_on_its_last_part() -> None:
    mark = {"type": "ephemeral"}
    result = ToolResult(call_id="a", content=(Text(text="1"),), meta={"cache_control": mark})
    assert build(asks(says("user", result)))["messages"][0]["content"] == "1"
    marked = build(asks(says("user", result)), cache_marks=True)["messages"][0]["content"]
    assert marked == [{"type": "text", "text": "1", "cache_control": mark}]


def test_048_thinking_is_given_back_where_it_is_wanted() -> None:
    request = asks(says("assistant", Thinking(text="hm", signature="s"), Text(text="a")))
    plain = {"role": "assistant", "content": "a"}
    assert build(request)["messages"] == [plain]
    assert build(request, replay_reasoning=True)["messages"] == [{**plain, "reasoning_content": "hm"}]
    fields = {"replay_reasoning": True, "reasoning_field": "reasoning"}
    assert build(request, **fields)["messages"] == [{**plain, "reasoning": "hm"}]
    assert build(request, **{**fields, "reasoning_field": "none"})["messages"] == [plain]


def test_114_a_late_system_message_stays_or_becomes_a_reminder() -> None:
    late = says("system", Text(text="late"), meta={"openai_chat": {"in_place": True}})
    leading = (says("system", Text(text="a")), says("system", Text(text="b")))
    request = asks(*leading, says("user", Text(text="Hi")), late)
    reminder = {"role": "user", "content": "<system-reminder>\nlate\n</system-reminder>"}
    assert [m["role"] for m in build(request)["messages"]] == ["system", "system", "user", "system"]
    strict = build(request, system="first")["messages"]
    assert strict == [{"role": "system", "content": "a\n\nb"}, {"role": "user", "content": "Hi"}, reminder]
    foreign = replace(request, messages=(*request.messages[:3], replace(late, meta={"other": {"in_place": True}})))
    assert build(foreign)["messages"][3] == reminder


def test_several_texts_are_one_string_unless_lists_are_welcome() -> None:
    request = asks(says("user", Text(text="a"), Text(text="b")))
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert build(request)["messages"][0]["content"] == "a\n\nb"
    assert build(request, text_parts=True)["messages"][0]["content"] == parts
    assert build(replace(request, protocol="openai_chat"))["messages"][0]["content"] == parts


def test_091_long_ids_are_hashed_alike_in_call_and_result() -> None:
    long = "x" * 100
    request = asks(
        says("assistant", ToolCall(id=long, name="a", arguments="{}")), says("user", ToolResult(call_id=long))
    )
    made, got = build(request, id_limit=40)["messages"]
    assert made["tool_calls"][0]["id"] == got["tool_call_id"]
    assert len(got["tool_call_id"]) <= 40


def test_092_names_are_spelled_alike_everywhere_and_back() -> None:
    name = "files.read it"
    request = asks(
        says("assistant", ToolCall(id="a", name=name, arguments="{}")),
        tools=(ToolSpec(name=name),),
        tool_choice=ToolChoice(mode="required", names=(name,), given=True),
    )
    outgoing = build_request(request)
    sent = json.loads(outgoing.body)
    spelled = sent["tools"][0]["function"]["name"]
    assert sent["messages"][0]["tool_calls"][0]["function"]["name"] == spelled
    assert sent["tool_choice"] == {"type": "function", "function": {"name": spelled}}
    assert outgoing.tool_names.to_client(spelled) == name


def test_111_a_freeform_tool_becomes_a_function_of_one_text() -> None:
    form = {"type": "grammar", "grammar": {"syntax": "lark", "definition": "start: x"}}
    tool = ToolSpec(name="patch", description="d", freeform=True, meta={"format": form})
    made = ToolCall(id="a", name="patch", arguments='say "x"', freeform=True)
    outgoing = build_request(asks(says("assistant", made), tools=(tool,)))
    sent = json.loads(outgoing.body)
    function = sent["tools"][0]["function"]
    assert function["parameters"]["required"] == ["input"]
    assert "start: x" in function["description"]
    assert json.loads(sent["messages"][0]["tool_calls"][0]["function"]["arguments"]) == {"input": 'say "x"'}
    assert outgoing.tool_names.freeform == {"patch"}


# ── Options ────────────────────────────────────────────────────────────────────────────


def test_104_without_tools_there_is_no_choice_either() -> None:
    sent = build(asks(tool_choice=ToolChoice(mode="required", parallel=False, given=True)))
    assert not {"tools", "tool_choice", "parallel_tool_calls"} & set(sent)


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        (ToolChoice(), None),
        (ToolChoice(given=True), "auto"),
        (ToolChoice(mode="none", given=True), "none"),
        (ToolChoice(mode="required", given=True), "required"),
        (ToolChoice(mode="required", names=("a",), given=True), {"type": "function", "function": {"name": "a"}}),
        (
            ToolChoice(names=("a",), given=True),
            {
                "type": "allowed_tools",
                "allowed_tools": {"mode": "auto", "tools": [{"type": "function", "function": {"name": "a"}}]},
            },
        ),
    ],
)
def test_102_a_choice_is_spelled_as_the_spec_has_it(choice: ToolChoice, sent: Any) -> None:
    assert build(asks(tools=(ToolSpec(name="a"), ToolSpec(name="b")), tool_choice=choice)).get("tool_choice") == sent


def test_109_marks_of_other_upstreams_are_left_out() -> None:
    tool = ToolSpec(name="a", strict=True, meta={"cache_control": {"type": "ephemeral"}})
    assert build(asks(tools=(tool,)), strict_tools=False)["tools"] == [
        {"type": "function", "function": {"name": "a", "parameters": json.loads(EMPTY_SCHEMA)}}
    ]
    marked = build(asks(tools=(tool,)), cache_marks=True)["tools"][0]
    assert (marked["cache_control"], marked["function"]["strict"]) == ({"type": "ephemeral"}, True)


def test_068_usage_is_always_asked_for() -> None:
    assert build(asks(stream=True, usage_in_stream=False))["stream_options"] == {"include_usage": True}
    assert "stream_options" not in build(asks(stream=True), stream_usage=False)
    assert "stream_options" not in build(asks())


@pytest.mark.parametrize(
    ("reasoning", "protocol", "effort"),
    [
        (Reasoning(effort="low"), "", "low"),
        (Reasoning(effort="max"), "", "high"),
        (Reasoning(effort="xhigh"), "openai_chat", "xhigh"),
        (Reasoning(mode="budget", budget=2048), "", "low"),
        (Reasoning(mode="budget", budget=8192), "", "medium"),
        (Reasoning(mode="budget", budget=8193), "", "high"),
        (Reasoning(mode="adaptive"), "", None),
        (Reasoning(mode="off", effort="high"), "", None),
    ],
)
def test_054_a_budget_becomes_an_effort(reasoning: Reasoning, protocol: str, effort: str | None) -> None:
    request = asks(reasoning=reasoning, protocol=protocol)
    assert build(request).get("reasoning_effort") == effort
    assert "reasoning_effort" not in build(request, effort=False)


def test_116_more_stop_strings_than_allowed_are_left_out_and_told() -> None:
    outgoing = build_request(asks(sampling=Sampling(stop=("a", "", "b", "c", "d", "e"))))
    assert json.loads(outgoing.body)["stop"] == ["a", "b", "c", "d"]
    assert [note.kind for note in outgoing.notes] == ["left_out"]


@pytest.mark.parametrize("protocol", ["openai_chat", "openai_responses"])
def test_the_user_of_a_client_of_openai_is_sent(protocol: str) -> None:
    outgoing = build_request(asks(user="u1", protocol=protocol))
    assert (json.loads(outgoing.body)["user"], outgoing.notes) == ("u1", ())


def test_fields_of_another_protocol_are_left_out_and_told() -> None:
    outgoing = build_request(asks(extra={"top_secret": Raw(b"1")}, protocol="other", sampling=Sampling(top_k=3)))
    assert not {"top_secret", "top_k"} & set(json.loads(outgoing.body))
    assert "top_secret" in "".join(note.message for note in outgoing.notes)


def test_a_schema_that_is_not_understood_upstream_is_left_out_and_told() -> None:
    request = asks(output=OutputFormat(schema=b'{"type":"object"}'))
    outgoing = build_request(request, Dialect(json_schema=False))
    assert json.loads(outgoing.body)["response_format"] == {"type": "json_object"}
    assert len(outgoing.notes) == 1


def test_121_a_growing_conversation_keeps_the_bytes_of_its_beginning() -> None:
    billing = Text(text="x-anthropic-billing-header: cc_version=1; cch=a1b2;")
    first = asks(says("system", billing, Text(text="s")), says("user", Text(text="Hi")), tools=(ToolSpec(name="a"),))
    later = replace(
        first,
        messages=(
            says("system", replace(billing, text="x-anthropic-billing-header: cc_version=2;"), Text(text="s")),
            *first.messages[1:],
            says("assistant", Text(text="Hello")),
        ),
    )
    before, after = build_request(first).body, build_request(later).body
    assert after.startswith(before.removesuffix(b"]}"))
    assert b"billing" not in after
