"""Requests in Chat Completions, as clients say them."""

import json
from typing import Any

import pytest
from hypothesis import strategies as st
from msgspec import Raw
from msgspec.structs import replace

from tests.cases import PIXEL
from tests.each import each
from tieline.model.content import File, Foreign, Image, Message, Text, Thinking, ToolCall, ToolResult
from tieline.model.errors import BadRequest
from tieline.model.request import EMPTY_SCHEMA, OutputFormat, Reasoning, Request, ToolChoice, ToolSpec
from tieline.wire.openai_chat import Dialect, build_request, parse_request
from tieline.wire.openai_chat.choices import choices

USER = {"role": "user", "content": "Hi"}
READ = {"type": "function", "function": {"name": "read", "parameters": {"type": "object", "properties": {}}}}


def parse(*messages: Any, **fields: Any) -> Request:
    return parse_request(json.dumps({"model": "m", "messages": list(messages) or [USER], **fields}).encode())


def call(call_id: str = "call_1", name: str = "read", arguments: Any = "{}") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def says(role: Any, *parts: Any, **fields: Any) -> Message:
    return Message(role=role, parts=parts, **fields)


def sent(request: Request, **quirks: Any) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(build_request(request, Dialect(**quirks)).body)
    return body


# ── Parsing: plain requests, which have a shorter way ─────────────────────────────────────────────

SAID = st.fixed_dictionaries(
    {"role": st.sampled_from(["system", "user", "assistant", "user", "developer", "tool", "odd", None])},
    optional={
        "content": st.sampled_from(["a", "für 😀", "", None, [{"type": "text", "text": "a"}], 1]),
        "name": st.sampled_from(["n", None]),
    },
)
PLAIN_SAID = st.fixed_dictionaries(
    {"role": st.sampled_from(["system", "user", "assistant"]), "content": st.sampled_from(["a", "für 😀"])}
)
NUMBERS = st.sampled_from([None, 0, 1, 0.5, -0.0, 1.0, "1", True])
FIELDS = st.fixed_dictionaries(
    {
        "model": st.sampled_from(["m", "m", "m", "", None]),
        "messages": st.lists(st.one_of(PLAIN_SAID, PLAIN_SAID, PLAIN_SAID, SAID), max_size=4),
    },
    optional={
        "max_tokens": NUMBERS,
        "max_completion_tokens": NUMBERS,
        "temperature": NUMBERS,
        "top_p": NUMBERS,
        "top_k": NUMBERS,
        "stop": st.sampled_from([None, "a", ["a", "b"], [], [1]]),
        "stream": st.sampled_from([None, True, False]),
        "stream_options": st.sampled_from([None, {}, {"include_usage": True}, {"include_usage": False, "more": 1}]),
        "user": st.sampled_from([None, "u"]),
        "seed": st.sampled_from([None, 1]),
    },
)


# ── Parsing: fields ──────────────────────────────────────────────────────────────────────────────


def test_every_field_may_be_null() -> None:
    names = (
        "tools tool_choice parallel_tool_calls functions function_call max_tokens temperature top_p stop user seed n "
        "reasoning_effort response_format stream stream_options logit_bias metadata store thinking reasoning "
        "prompt_cache_key verbosity audio"
    )
    nulls = dict.fromkeys(names.split())
    assert parse(**nulls) == parse()


def test_what_the_model_has_no_word_for_travels_as_it_came() -> None:
    body = b'{"model":"m","messages":[{"role":"user","content":"Hi"}],"seed":1.50,"vendor":{"b": 1, "a": 2},"n":2}'
    request = parse_request(body)
    assert request.extra == {"seed": Raw(b"1.50"), "vendor": Raw(b'{"b": 1, "a": 2}'), "n": Raw(b"2")}
    body = build_request(request).body
    assert b'"seed":1.50' in body
    assert b'"vendor":{"b": 1, "a": 2}' in body


def test_one_answer_is_what_is_given_anyway() -> None:
    assert "n" not in parse(n=1).extra


@pytest.mark.parametrize(("n", "stream"), [(0, False), (-1, False), (17, False), (2, True)])
def test_a_number_of_answers_that_cannot_be_given_is_refused(n: int, stream: bool) -> None:
    with pytest.raises(BadRequest) as refused:
        choices(parse(n=n, stream=stream))
    assert refused.value.param == "n"


def test_117_either_name_of_the_token_limit_counts() -> None:
    assert parse(max_tokens=5).sampling.max_tokens == 5
    assert parse(max_completion_tokens=6).sampling.max_tokens == 6
    assert parse(max_tokens=5, max_completion_tokens=6).sampling.max_tokens == 6


@pytest.mark.parametrize(("stop", "expected"), [("END", ("END",)), (["a", "b"], ("a", "b")), ([], ()), (None, ())])
def test_116_stop_is_a_string_or_a_list(stop: Any, expected: tuple[str, ...]) -> None:
    assert parse(stop=stop).sampling.stop == expected


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ({"type": "text"}, None),
        ({"type": "json_object"}, OutputFormat()),
        (
            {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}, "strict": True}},
            OutputFormat(name="n", schema=b'{"type": "object"}', strict=True),
        ),
    ],
)
def test_119_structured_output_is_asked_for_in_three_ways(form: Any, expected: OutputFormat | None) -> None:
    assert parse(response_format=form).output == expected


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"reasoning_effort": "low"}, Reasoning(effort="low")),
        ({"reasoning": {"effort": "high"}}, Reasoning(effort="high")),
        ({"reasoning": {"max_tokens": 2000}}, Reasoning(mode="budget", budget=2000)),
        ({"reasoning": {"enabled": False}}, Reasoning(mode="off")),
        ({"thinking": {"type": "enabled", "budget_tokens": 3000}}, Reasoning(mode="budget", budget=3000)),
        ({"thinking": {"type": "disabled"}}, Reasoning(mode="off")),
        ({"thinking": {"type": "adaptive"}}, Reasoning(mode="adaptive")),
        ({"reasoning_effort": "default"}, Reasoning()),
    ],
)
def test_thinking_is_asked_for_in_the_ways_of_several_upstreams(fields: Any, expected: Reasoning) -> None:
    request = parse(**fields)
    assert request.reasoning == expected
    assert {name: sent(request)[name] for name in fields} == fields


def test_usage_in_the_stream_is_for_those_who_ask() -> None:
    assert not parse(stream=True).usage_in_stream
    assert not parse(stream=True, stream_options={"include_usage": False}).usage_in_stream
    assert parse(stream=True, stream_options={"include_usage": True}).usage_in_stream


# ── Parsing: messages ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("content", [{"content": None}, {"content": ""}, {"content": []}, {}])
def test_content_may_be_missing_in_any_way(content: Any) -> None:
    request = parse(USER, {"role": "assistant", "tool_calls": [call()], **content})
    assert request.messages[1].parts == (ToolCall(id="call_1", name="read", arguments="{}"),)


@pytest.mark.parametrize("kind", ["text", "input_text", "output_text"])
def test_text_parts_have_three_names(kind: str) -> None:
    parts = [{"type": kind, "text": "a"}, {"type": kind, "text": ""}, {"type": kind, "text": "b"}]
    assert parse({"role": "user", "content": parts}).messages[0].parts == (Text(text="a"), Text(text="b"))


def test_pictures_and_files_are_data_or_addresses() -> None:
    url = f"data:image/png;base64,{PIXEL}"
    parts = [
        {"type": "image_url", "image_url": {"url": url, "detail": "low"}},
        {"type": "image_url", "image_url": "https://example.com/a.png"},
        {"type": "file", "file": {"file_data": "data:application/pdf;base64,JVBERi0=", "filename": "a.pdf"}},
        {"type": "file", "file": {"file_id": "file-1"}},
    ]
    assert parse({"role": "user", "content": parts}).messages[0].parts == (
        Image(media_type="image/png", data=PIXEL, meta={"detail": "low"}),
        Image(url="https://example.com/a.png"),
        File(media_type="application/pdf", data="JVBERi0=", name="a.pdf"),
        Foreign(
            protocol="openai_chat",
            kind="file",
            json='{"type": "file", "file": {"file_id": "file-1"}}',
            meta={"at": "messages[0].content[3]"},
        ),
    )


def test_114_system_messages_keep_their_place_and_their_blocks() -> None:
    mark = {"type": "ephemeral", "ttl": "1h"}
    system = [{"type": "text", "text": "a", "cache_control": mark}, {"type": "text", "text": "b"}]
    request = parse({"role": "developer", "content": system}, USER, {"role": "system", "content": "c"}, USER)
    first, _, later, _ = request.messages
    assert first == says("system", Text(text="a", meta={"cache_control": mark}), Text(text="b"))
    assert later == says("system", Text(text="c"), meta={"openai_chat": {"in_place": True}})


def test_results_in_a_row_are_one_message_and_the_user_speaks_in_another() -> None:
    request = parse(
        {"role": "assistant", "tool_calls": [call("a"), call("b")]},
        {"role": "tool", "tool_call_id": "a", "content": "1"},
        {"role": "tool", "tool_call_id": "b", "content": "2", "name": "read"},
        USER,
    )
    assert request.messages[1:] == (
        says(
            "user",
            ToolResult(call_id="a", content=(Text(text="1"),)),
            ToolResult(call_id="b", content=(Text(text="2"),)),
        ),
        says("user", Text(text="Hi")),
    )


@pytest.mark.parametrize(
    ("content", "text"),
    [({"a": [1, 2]}, '{"a":[1, 2]}'), ([1, {"x": 2}], '[1,{"x": 2}]'), (7, "7"), (1.5, "1.5"), (True, "true")],
)
def test_094_a_result_of_any_json_becomes_its_text(content: Any, text: str) -> None:
    request = parse(
        {"role": "assistant", "tool_calls": [call()]}, {"role": "tool", "tool_call_id": "call_1", "content": content}
    )
    assert request.messages[1].parts == (ToolResult(call_id="call_1", content=(Text(text=text),)),)


@pytest.mark.parametrize(
    ("results", "expected"),
    [
        ([{}, {}], ["a", "b"]),
        ([{"tool_call_id": "b"}, {}], ["b", "a"]),
        ([{"name": "two"}, {"name": "one"}], ["b", "a"]),
        ([{"name": "two"}], ["b"]),
        ([{}], [""]),
        ([{}, {}, {}], ["", "", ""]),
    ],
)
def test_089_a_result_without_an_id_is_matched_where_there_is_no_doubt(results: Any, expected: list[str]) -> None:
    calls = {"role": "assistant", "tool_calls": [call("a", "one"), call("b", "two")]}
    request = parse(calls, *({"role": "tool", "content": "x", **result} for result in results))
    assert [part.call_id for part in request.messages[1].parts if isinstance(part, ToolResult)] == expected


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [('{ "a": 1 }', '{ "a": 1 }'), ({"a": 1}, '{"a":1}'), (None, "{}"), ("", "{}"), ('{"a', '{"a')],
)
def test_021_arguments_are_text_or_an_object(arguments: Any, expected: str) -> None:
    request = parse({"role": "assistant", "tool_calls": [call(arguments=arguments)]})
    assert request.messages[0].parts == (ToolCall(id="call_1", name="read", arguments=expected),)


def test_a_function_message_answers_the_function_call() -> None:
    request = parse(
        {"role": "assistant", "content": None, "function_call": {"name": "read", "arguments": "{}"}},
        {"role": "function", "name": "read", "content": "1"},
    )
    made, got = request.messages[0].parts[0], request.messages[1].parts[0]
    assert isinstance(made, ToolCall)
    assert isinstance(got, ToolResult)
    assert made.id == got.call_id != ""


def test_a_function_message_and_its_function_call_are_sent_in_the_same_form() -> None:
    request = parse(
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": None, "function_call": {"name": "read", "arguments": "{}"}},
        {"role": "function", "name": "read", "content": "1"},
    )
    _, made, got = sent(request)["messages"]
    assert [call["id"] for call in made["tool_calls"]] == [got["tool_call_id"]]
    assert "function_call" not in made


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"reasoning_content": "hm"}, Thinking(text="hm")),
        ({"reasoning": "hm"}, Thinking(text="hm")),
        ({"reasoning_content": "hm", "reasoning": "hm"}, Thinking(text="hm")),
        (
            {"reasoning_content": "hm", "thinking_blocks": [{"type": "thinking", "thinking": "hm", "signature": "s"}]},
            Thinking(text="hm", signature="s"),
        ),
        (
            {"thinking_blocks": [{"type": "redacted_thinking", "data": "d"}]},
            Thinking(redacted=True, signature="d"),
        ),
    ],
)
def test_047_thinking_of_the_history_stands_in_front_and_once(fields: Any, expected: Thinking) -> None:
    assert parse({"role": "assistant", "content": "a", **fields}).messages[0].parts == (expected, Text(text="a"))


def test_113_blocks_in_anthropics_shape_are_understood() -> None:
    mark = {"type": "ephemeral"}
    request = parse(
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "s"},
                {"type": "tool_use", "id": "t", "name": "read", "input": {"a": 1}, "cache_control": mark},
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "t",
                    "is_error": True,
                    "content": [{"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}}],
                },
                {"type": "document", "source": {"type": "text", "data": "words"}},
            ],
        },
        tools=[{"name": "read", "input_schema": {"type": "object"}, "cache_control": mark}],
        tool_choice={"type": "tool", "name": "read", "disable_parallel_tool_use": True},
    )
    assert request.messages == (
        says(
            "assistant",
            Thinking(text="hm", signature="s"),
            ToolCall(id="t", name="read", arguments='{"a": 1}', meta={"cache_control": mark}),
        ),
        says(
            "user",
            ToolResult(call_id="t", content=(Image(url="https://example.com/a.png"),), is_error=True),
            Text(text="words"),
        ),
    )
    assert request.tools == (ToolSpec(name="read", schema=b'{"type": "object"}', meta={"cache_control": mark}),)
    assert request.tool_choice == ToolChoice(mode="required", names=("read",), parallel=False, given=True)


def test_half_an_emoji_does_not_spoil_a_history() -> None:
    """Ours: clients cut long results anywhere, and send the result with every later request."""
    body = b'{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"cut \\ud83d"}]}]}'
    assert parse_request(body).messages[0].parts == (Text(text="cut \ufffd"),)


# ── Parsing: tools ───────────────────────────────────────────────────────────────────────────────


def test_105_a_tool_needs_only_a_name() -> None:
    tools = [{"type": "function", "function": {"name": "a"}}, {"name": "b", "type": "function", "parameters": None}]
    assert parse(tools=tools).tools == (ToolSpec(name="a"), ToolSpec(name="b", schema=EMPTY_SCHEMA))


def test_110_of_two_tools_with_one_name_the_later_counts() -> None:
    tools: list[Any] = [{"name": "a", "description": text, "parameters": {}} for text in ("one", "two")]
    assert [(tool.name, tool.description) for tool in parse(tools=[tools[0], READ, tools[1]]).tools] == [
        ("a", "two"),
        ("read", ""),
    ]


def test_110_a_tool_that_runs_upstream_is_kept_whole() -> None:
    hosted = {"type": "web_search", "user_location": {"city": "Rome"}}
    request = parse(tools=[READ, hosted])
    assert request.tools[1].hosted == "web_search"
    assert sent(request)["tools"][1] == hosted


ORDINARY, ELSEWHERE = ToolSpec(name="a"), ToolSpec(name="s", hosted="web_search_20250305")


def test_110_a_tool_that_runs_at_another_upstream_is_left_out_where_there_are_others() -> None:
    built = build_request(replace(parse(), tools=(ORDINARY, ELSEWHERE)))
    assert [tool["function"]["name"] for tool in json.loads(built.body)["tools"]] == ["a"]
    assert [(note.kind, note.message.partition(":")[0]) for note in built.notes] == [("left_out", "tools[1]")]


@pytest.mark.parametrize(
    ("tools", "choice", "place"),
    [
        ((ELSEWHERE,), ToolChoice(), "tools[0]"),
        ((ORDINARY, ELSEWHERE), ToolChoice(mode="required", names=("s",), given=True), "tools[1]"),
        ((ORDINARY, ELSEWHERE), ToolChoice(names=("a", "s"), given=True), "tools[1]"),
    ],
)
def test_110_a_tool_that_runs_at_another_upstream_is_refused_where_it_is_relied_on(
    tools: tuple[ToolSpec, ...], choice: ToolChoice, place: str
) -> None:
    with pytest.raises(BadRequest) as error:
        build_request(replace(parse(), tools=tools, tool_choice=choice))
    assert error.value.param == place


def test_tools_that_could_not_be_read_are_refused_every_time() -> None:
    for _ in range(2):
        with pytest.raises(BadRequest) as error:
            parse(tools=[{"type": "function", "function": {"name": 7}}])
        assert error.value.param == "tools[0].function.name"


def test_half_an_emoji_in_a_tool_does_not_refuse_it() -> None:
    tool = {"type": "function", "function": {"name": "a", "description": "cut \ud83d"}}
    assert parse(tools=[tool]).tools[0].description == "cut \ufffd"


def test_111_a_custom_tool_keeps_its_format() -> None:
    form = {"type": "grammar", "grammar": {"syntax": "lark", "definition": "start: x"}}
    custom = {"type": "custom", "custom": {"name": "patch", "description": "d", "format": form}}
    request = parse(tools=[custom])
    flat = {"type": "grammar", "syntax": "lark", "definition": "start: x"}
    assert request.tools == (ToolSpec(name="patch", description="d", freeform=True, meta={"format": flat}),)
    assert sent(request, freeform_tools=True)["tools"] == [custom]


@each(
    ("said", "expected"),
    [
        ("auto", ToolChoice(given=True)),
        ("none", ToolChoice(mode="none", given=True)),
        ("required", ToolChoice(mode="required", given=True)),
        ({"type": "auto"}, ToolChoice(given=True)),
        ({"type": "any"}, ToolChoice(mode="required", given=True)),
        ({"type": "none"}, ToolChoice(mode="none", given=True)),
        ({"type": "function", "function": {"name": "a"}}, ToolChoice(mode="required", names=("a",), given=True)),
        ({"type": "function", "name": "a"}, ToolChoice(mode="required", names=("a",), given=True)),
        ({"type": "custom", "custom": {"name": "a"}}, ToolChoice(mode="required", names=("a",), given=True)),
        (
            {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "a"}]},
            ToolChoice(names=("a",), given=True),
        ),
        (None, ToolChoice()),
    ],
)
def test_102_a_choice_is_said_in_many_ways(said: Any, expected: ToolChoice) -> None:
    assert parse(tools=[READ], tool_choice=said).tool_choice == expected


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("none", ToolChoice(mode="none", given=True, parallel=False)),
        ({"name": "a"}, ToolChoice(mode="required", names=("a",), given=True, parallel=False)),
    ],
)
def test_the_choice_of_a_function_is_a_choice(said: Any, expected: ToolChoice) -> None:
    request = parse(functions=[{"name": "a"}], function_call=said)
    assert (request.tools, request.tool_choice) == ((ToolSpec(name="a", meta={"legacy": True}),), expected)


# ── Parsing: what is wrong ───────────────────────────────────────────────────────────────────────


@each(
    ("fields", "param"),
    [
        ({"model": 7}, "model"),
        ({"messages": None}, "messages"),
        ({"messages": []}, "messages"),
        ({"messages": "Hi"}, "messages"),
        ({"messages": [USER, {"content": "Hi"}]}, "messages[1].role"),
        ({"messages": [{"role": "robot", "content": "Hi"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": {"a": 1}}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": ["a"]}]}, "messages[0].content[0]"),
        ({"messages": [{"role": "user", "content": [{"type": "x"}]}]}, "messages[0].content[0].type"),
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": 1}]}]}, "messages[0].content[0].text"),
        ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages[0].content[0].text"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]},
            "messages[0].content[0].image_url.url",
        ),
        (
            {
                "messages": [
                    {"role": "user", "content": [{"type": "image_url", "image_url": "data:image/png;base64,a!"}]}
                ]
            },
            "messages[0].content[0].image_url",
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "image", "source": {"type": "base64", "data": "a"}}]}]},
            "messages[0].content[0].source.data",
        ),
        ({"messages": [{"role": "assistant", "tool_calls": [{"id": "a"}]}]}, "messages[0].tool_calls[0].function"),
        (
            {"messages": [{"role": "assistant", "tool_calls": [{"function": {}}]}]},
            "messages[0].tool_calls[0].function.name",
        ),
        ({"messages": [{"role": "assistant", "tool_calls": 3}]}, "messages[0].tool_calls"),
        ({"tools": [{"type": "function"}]}, "tools[0].function"),
        ({"tools": [READ, {"type": "function", "function": {}}]}, "tools[1].function.name"),
        ({"tools": [{"name": "a", "parameters": "no"}]}, "tools[0].parameters"),
        ({"tool_choice": "maybe"}, "tool_choice"),
        ({"tool_choice": {"type": "function"}}, "tool_choice.function.name"),
        ({"tool_choice": {"type": "perhaps"}}, "tool_choice.type"),
        ({"tool_choice": {"type": "custom", "custom": {}}}, "tool_choice.custom.name"),
        ({"functions": [{"name": "a"}], "function_call": {}}, "function_call.name"),
        ({"functions": [{"name": "a"}], "function_call": {"name": ""}}, "function_call.name"),
        ({"response_format": {"type": "xml"}}, "response_format.type"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema"),
        ({"temperature": "hot"}, "temperature"),
        ({"max_tokens": "many"}, "max_tokens"),
        ({"stop": [1]}, "stop[0]"),
        ({"stream": "yes"}, "stream"),
        ({"system": 3}, "system"),
    ],
)
def test_a_mistake_is_told_with_its_place(fields: Any, param: str) -> None:
    body = {"model": "m", "messages": [USER], **fields}
    for extra in ({}, {"vendor": 1}):
        with pytest.raises(BadRequest) as error:
            parse_request(json.dumps({**body, **extra}).encode())
        assert error.value.param == param
        assert param in error.value.message


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b'{"model":"m","messages":[]}\xff', b"[" * 5000])
def test_a_body_that_is_no_request_is_refused(body: bytes) -> None:
    with pytest.raises(BadRequest):
        parse_request(body)
