"""Requests and answers in the mixtures of shapes that Cursor's editor sends and understands."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.cases import leg
from tests.each import each
from tieline.model.assemble import fold
from tieline.model.content import Image, Message, Text, Thinking, ToolCall, ToolResult
from tieline.model.errors import BadRequest
from tieline.model.events import Event, StopReason
from tieline.model.request import Request, ToolChoice, ToolSpec
from tieline.wire.openai_chat import Dialect, Options, ResponsesBody, ResponseWriter, build_request, render
from tieline.wire.openai_chat import parse_request as parse_chat
from tieline.wire.openai_chat.think_tags import without_tags
from tieline.wire.openai_responses.parse import parse_request as parse_responses
from tieline.wire.shared.conversations import conversation_cache

PATCH_TEXT = "*** Begin Patch\n*** Add File: a\n+x\n*** End Patch"
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}}
FLAT = {"type": "grammar", "syntax": "lark", "definition": "start: X"}
NESTED = {"type": "grammar", "grammar": {"syntax": "lark", "definition": "start: X"}}
CACHED = {"cache_control": {"type": "ephemeral"}}


def chat(**fields: Any) -> Request:
    return parse_chat(json.dumps({"messages": [{"role": "user", "content": "hi"}], **fields}).encode())


def responses(**fields: Any) -> Request:
    return parse_responses(json.dumps({"input": "hi", **fields}).encode())


PARSERS: list[Callable[..., Request]] = [chat, responses]


def sent(request: Request, dialect: Dialect | None = None) -> Any:
    return json.loads(build_request(request, dialect or Dialect()).body)


# ── Tools ────────────────────────────────────────────────────────────────────────────────────────


@each("parsed", PARSERS)
@each("form", [FLAT, NESTED])
@each("is_nested", [True, False])
def test_k03_k04_k21_every_mixture_of_flat_and_nested_is_a_freeform_tool_with_its_grammar(
    parsed: Callable[..., Request], form: dict[str, Any], is_nested: bool
) -> None:
    tool = {"name": "ApplyPatch", "description": "p", "format": form}
    request = parsed(tools=[{"type": "custom", **({"custom": tool} if is_nested else tool)}])
    assert request.tools == (ToolSpec(name="ApplyPatch", description="p", freeform=True, meta={"format": FLAT}),)
    upstream = sent(request, Dialect(freeform_tools=True))["tools"]
    assert upstream == [{"type": "custom", "custom": {"name": "ApplyPatch", "description": "p", "format": NESTED}}]
    as_function = sent(request)["tools"][0]["function"]
    assert as_function["parameters"]["required"] == ["input"]
    assert "start: X" in as_function["description"]


@each("parsed", PARSERS)
@each(
    "tool",
    [
        {"type": "function", "name": "Read", "parameters": SCHEMA},
        {"type": "function", "function": {"name": "Read", "parameters": SCHEMA}},
        {"name": "Read", "parameters": SCHEMA},
        {"name": "Read", "input_schema": SCHEMA},
        {"type": "custom", "name": "Read", "input_schema": SCHEMA},
        {"type": "tool", "name": "Read", "parameters": SCHEMA},
    ],
)
def test_k21_every_form_of_a_function_is_the_same_function(parsed: Callable[..., Request], tool: Any) -> None:
    request = parsed(tools=[tool])
    assert request.tools == (ToolSpec(name="Read", schema=json.dumps(SCHEMA).encode()),)
    assert sent(request)["tools"] == [{"type": "function", "function": {"name": "Read", "parameters": SCHEMA}}]


@each("parsed", PARSERS)
@each("choice", [{"type": "custom", "custom": {"name": "ApplyPatch"}}, {"type": "custom", "name": "ApplyPatch"}])
def test_e08_a_freeform_tool_can_be_forced(parsed: Callable[..., Request], choice: Any) -> None:
    request = parsed(tools=[{"type": "custom", "name": "ApplyPatch"}], tool_choice=choice)
    assert request.tool_choice == ToolChoice(mode="required", names=("ApplyPatch",), given=True)
    assert sent(request)["tool_choice"] == {"type": "function", "function": {"name": "ApplyPatch"}}


@each("parsed", PARSERS)
def test_a_choice_without_tools_is_not_sent(parsed: Callable[..., Request]) -> None:
    body = sent(parsed(tools=None, tool_choice="auto"))
    assert not {"tools", "tool_choice"} & body.keys()


# ── History ──────────────────────────────────────────────────────────────────────────────────────


def replayed(kind: str, arguments: str = PATCH_TEXT) -> dict[str, Any]:
    """A call of ApplyPatch with its result in the history, and the tool declared as this kind."""
    call = {"id": "call_1", "index": 0, "type": "function", "function": {"name": "ApplyPatch", "arguments": arguments}}
    tool = {"type": kind, kind: {"name": "ApplyPatch"}}
    return {
        "messages": [
            {"role": "user", "content": "patch"},
            {"role": "assistant", "content": [], "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "call_1", "content": "Done"},
        ],
        "tools": [tool],
    }


def test_e05_a_function_call_of_a_freeform_tool_is_a_freeform_call_again() -> None:
    request = chat(**replayed("custom"))
    assert request.messages[1].parts == (ToolCall(id="call_1", name="ApplyPatch", arguments=PATCH_TEXT, freeform=True),)
    assert request.messages[2].parts == (ToolResult(call_id="call_1", content=(Text(text="Done"),)),)
    upstream = sent(request, Dialect(freeform_tools=True))["messages"]
    assert upstream[1]["tool_calls"] == [
        {"id": "call_1", "type": "custom", "custom": {"name": "ApplyPatch", "input": PATCH_TEXT}}
    ]
    wrapped = sent(request)["messages"][1]["tool_calls"][0]["function"]
    assert json.loads(wrapped["arguments"]) == {"input": PATCH_TEXT}


def test_a_patch_that_looks_like_json_is_still_text() -> None:
    upstream = sent(chat(**replayed("custom", '{"a": 1}')), Dialect(freeform_tools=True))
    assert upstream["messages"][1]["tool_calls"][0]["custom"] == {"name": "ApplyPatch", "input": '{"a": 1}'}


def test_a_call_of_a_function_stays_one() -> None:
    assert chat(**replayed("function", '{"a": 1}')).messages[1].parts == (
        ToolCall(id="call_1", name="ApplyPatch", arguments='{"a": 1}'),
    )


def test_a_restored_call_is_the_same_object_in_the_next_request() -> None:
    cache = conversation_cache()
    body = replayed("custom", PATCH_TEXT + "+x\n" * 2000)
    first, second = (parse_chat(json.dumps(body).encode(), cache) for _ in range(2))
    assert first.messages[1] is second.messages[1]
    as_function = parse_chat(json.dumps({**body, "tools": replayed("function")["tools"]}).encode(), cache)
    assert not as_function.messages[1].parts[0].freeform  # type: ignore[union-attr]  # it is a call


def test_e05_a_function_item_of_a_freeform_tool_is_a_freeform_call_again() -> None:
    items = [
        {"type": "function_call", "call_id": "c", "name": "ApplyPatch", "arguments": PATCH_TEXT},
        {"type": "function_call_output", "call_id": "c", "output": "Done"},
    ]
    request = responses(input=items, tools=[{"type": "custom", "name": "ApplyPatch"}])
    assert request.messages[0].parts == (ToolCall(id="c", name="ApplyPatch", arguments=PATCH_TEXT, freeform=True),)


def test_k06_k07_empty_content_of_a_call_is_null_upstream() -> None:
    message = sent(chat(**replayed("function", "{}")))["messages"][1]
    assert message["content"] is None


def test_e06_anthropic_shapes_mean_the_same_on_this_endpoint() -> None:
    request = chat(
        system=[{"type": "text", "text": "S", **CACHED}],
        messages=[
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {"path": "a"}}],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "toolu_1", "content": "x"},
                    {"type": "text", "text": "go on"},
                ],
            },
        ],
        tools=[{"name": "Read", "input_schema": {"type": "object"}}],
        tool_choice={"type": "auto"},
        max_tokens=4096,
    )
    assert request.messages == (
        Message(role="system", parts=(Text(text="S", meta=CACHED),)),
        Message(role="assistant", parts=(ToolCall(id="toolu_1", name="Read", arguments='{"path": "a"}'),)),
        Message(
            role="user",
            parts=(ToolResult(call_id="toolu_1", content=(Text(text="x"),)), Text(text="go on")),
        ),
    )
    assert request.tool_choice == ToolChoice(given=True)
    assert request.sampling.max_tokens == 4096


def test_anthropic_blocks_in_a_responses_body() -> None:
    request = responses(
        system="S",
        input=[
            {"role": "user", "content": [{"type": "text", "text": "look"}]},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "Read", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "x"}]},
            {
                "role": "user",
                "content": [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}],
            },
        ],
    )
    assert [message.parts for message in request.messages] == [
        (Text(text="S"),),
        (Text(text="look"),),
        (ToolCall(id="t", name="Read", arguments="{}"),),
        (ToolResult(call_id="t", content=(Text(text="x"),)),),
        (Image(media_type="image/png", data="AA=="),),
    ]


# ── Which shape ──────────────────────────────────────────────────────────────────────────────────


@each("stub", [{}, {"messages": None}, {"messages": []}])
@each(("options", "usage"), [({}, False), ({"stream_options": {"include_usage": True}}, True)])
def test_k01_a_body_with_input_and_without_messages_is_recognised(stub: Any, options: Any, usage: bool) -> None:
    body = {"input": [{"role": "user", "content": "hi"}], "stream": True, **stub, **options}
    with pytest.raises(ResponsesBody) as caught:
        parse_chat(json.dumps(body).encode())
    assert caught.value.usage is usage


@each("body", [{}, {"messages": []}, {"messages": None, "input": None}])
def test_a_body_with_neither_is_an_error_that_names_the_field(body: Any) -> None:
    with pytest.raises(BadRequest, match="`messages`: expected an array of at least one message") as caught:
        parse_chat(json.dumps(body).encode())
    assert not isinstance(caught.value, ResponsesBody)
    assert caught.value.param == "messages"


def test_a_body_with_messages_is_one_of_this_protocol_whatever_else_it_has() -> None:
    assert chat(input="other").messages == (Message(role="user", parts=(Text(text="hi"),)),)


# ── Answers ──────────────────────────────────────────────────────────────────────────────────────

EDITOR = Options(freeform="function", id_limit=64, usage=False)


def written(events: list[Event], options: Options) -> list[Any]:
    """The deltas of a stream."""
    frames = ResponseWriter(options).write_all(events).decode().split("\n\n")
    chunks = [json.loads(frame.removeprefix("data: ")) for frame in frames if "[DONE]" not in frame and frame]
    return [choice for chunk in chunks for choice in chunk["choices"]]


def test_e02_k05_a_freeform_call_is_a_function_call_with_raw_text() -> None:
    call = ToolCall(id="call_1", name="ApplyPatch", freeform=True)
    pieces = ["*** Begin Patch\n*** Add File: a\n+x\n", "*** End Patch"]
    choices = written(leg((call, pieces), reason=StopReason.TOOL_USE), EDITOR)
    start = {"id": "call_1", "type": "function", "function": {"name": "ApplyPatch", "arguments": ""}}
    assert [choice["delta"].get("tool_calls") for choice in choices] == [
        None,
        [{"index": 0, **start}],
        [{"index": 0, "function": {"arguments": pieces[0]}}],
        [{"index": 0, "function": {"arguments": pieces[1]}}],
        None,
    ]
    assert (choices[-1]["delta"], choices[-1]["finish_reason"]) == ({}, "tool_calls")


def test_k08_calls_are_numbered_from_0_after_thinking_and_arguments_of_functions_are_whole() -> None:
    call = ToolCall(id="call_a", name="CreatePlan")
    events = leg((Thinking(), ["hm"]), (Text(), ["Looking."]), (call, ['{"name":"a', '.plan.md"}']))
    calls = [choice["delta"]["tool_calls"][0] for choice in written(events, EDITOR) if "tool_calls" in choice["delta"]]
    assert [(call["index"], call["function"]["arguments"]) for call in calls] == [(0, ""), (0, '{"name":"a.plan.md"}')]


def test_k18_a_long_call_id_is_replaced_by_the_same_short_one_everywhere() -> None:
    long = "toolu_" + "x" * 90
    events = leg((ToolCall(id=long, name="Read"), ["{}"]))
    streamed = [
        choice["delta"]["tool_calls"][0] for choice in written(events, EDITOR) if "tool_calls" in choice["delta"]
    ]
    whole = json.loads(render(fold(events), EDITOR))["choices"][0]["message"]["tool_calls"][0]
    assert streamed[0]["id"] == whole["id"]
    assert len(whole["id"]) <= 64
    assert json.loads(render(fold(events)))["choices"][0]["message"]["tool_calls"][0]["id"] == long


def test_a_whole_reply_has_freeform_calls_as_functions_too() -> None:
    reply = fold(leg((ToolCall(id="call_1", name="ApplyPatch", freeform=True), [PATCH_TEXT])))
    assert json.loads(render(reply, EDITOR))["choices"][0]["message"]["tool_calls"] == [
        {"id": "call_1", "type": "function", "function": {"name": "ApplyPatch", "arguments": PATCH_TEXT}}
    ]


# ── Thinking between tags ────────────────────────────────────────────────────────────────────────

TAGGED = "<think>\nhm, well\n</think>\n\nHello"


def test_thinking_may_be_part_of_the_content() -> None:
    options = Options(reasoning="think")
    events = leg((Thinking(), ["hm,", " well"]), (Text(), ["Hello"]))
    deltas = [choice["delta"] for choice in written(events, options)]
    assert "".join(delta.get("content", "") for delta in deltas) == TAGGED
    assert not any("reasoning_content" in delta for delta in deltas)
    assert json.loads(render(fold(events), options))["choices"][0]["message"] == {
        "role": "assistant",
        "content": TAGGED,
        "refusal": None,
    }


def test_thinking_without_text_gets_no_tags() -> None:
    events = leg((Thinking(signature="c2ln"), []), (ToolCall(id="c", name="Read"), ["{}"]))
    deltas = [choice["delta"] for choice in written(events, Options(reasoning="think"))]
    assert "".join(delta.get("content", "") for delta in deltas) == ""
    message = json.loads(render(fold(events), Options(reasoning="think")))["choices"][0]["message"]
    assert message["content"] is None


@each(
    ("text", "parts"),
    [
        (TAGGED, (Thinking(text="hm, well"), Text(text="Hello"))),
        (f"First. {TAGGED}", (Text(text="First. "), Thinking(text="hm, well"), Text(text="Hello"))),
        ("Use <think> in HTML.", (Text(text="Use <think> in HTML."),)),
        ("<think>\nnever closed", (Text(text="<think>\nnever closed"),)),
    ],
)
def test_tags_in_the_history_are_thinking_again(text: str, parts: Any) -> None:
    message = Message(role="assistant", parts=(Text(text=text),))
    assert without_tags([message]) == (Message(role="assistant", parts=parts),)
    asked = Message(role="user", parts=(Text(text=text),))
    assert without_tags([asked]) == (asked,)
