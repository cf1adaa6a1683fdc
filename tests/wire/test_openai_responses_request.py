"""Requests in the Responses API, as clients send them."""

import json
from typing import Any

import pytest

from tests.cases import PDF, PIXEL
from tests.each import each
from tieline.model.content import File, Foreign, Image, Message, Part, Text, Thinking, ToolCall, ToolResult
from tieline.model.errors import BadRequest, GatewayError
from tieline.model.request import OutputFormat, Reasoning, Request, Sampling, ToolChoice
from tieline.wire.openai_responses import PROTOCOL, parse_request, summary_request, wants_compaction
from tieline.wire.openai_responses.compaction import seal
from tieline.wire.openai_responses.reasoning import envelope
from tieline.wire.shared.conversations import conversation_cache

READ = {"type": "function", "name": "read", "parameters": {"type": "object", "properties": {}}}


def parse(*items: Any, **fields: Any) -> Request:
    given = {"model": "m", "input": list(items), **fields}
    return parse_request(json.dumps(given).encode())


def parts(*items: Any) -> tuple[Part, ...]:
    """The parts of the only message of a request."""
    (message,) = parse(*items).messages
    return message.parts


def call(call_id: str = "c1", **fields: Any) -> dict[str, Any]:
    return {"type": "function_call", "call_id": call_id, "name": "read", "arguments": "{}", **fields}


def output(call_id: str | None = "c1", **fields: Any) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call_id, "output": "x", **fields}


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


# ── Messages ─────────────────────────────────────────────────────────────────────────────────────


def test_instructions_and_a_string_are_two_messages() -> None:
    request = parse_request(b'{"model":"m","instructions":"Be brief.","input":"Hi"}')
    assert request.messages == (
        Message(role="system", parts=(Text(text="Be brief."),), meta={PROTOCOL: {"instructions": True}}),
        Message(role="user", parts=(Text(text="Hi"),)),
    )


def test_130_items_without_type_or_id_and_with_a_role_are_messages() -> None:
    request = parse(
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
        {"role": "assistant", "content": [{"type": "input_text", "text": "Hello"}]},
        {"type": "message", "role": "user", "content": "And now?"},
    )
    assert [(message.role, message.parts) for message in request.messages] == [
        ("system", (Text(text="Be brief."),)),
        ("user", (Text(text="Hi"),)),
        ("assistant", (Text(text="Hello"),)),
        ("user", (Text(text="And now?"),)),
    ]


@each(
    ("part", "expected"),
    [
        ({"type": "input_text", "text": "a"}, Text(text="a")),
        ({"type": "text", "text": "a"}, Text(text="a")),
        ({"type": "output_text", "text": "a", "annotations": []}, Text(text="a")),
        ({"type": "refusal", "refusal": "no"}, Text(text="no", refusal=True)),
        ({"type": "input_image", "image_url": "https://e.com/a.png"}, Image(url="https://e.com/a.png")),
        (
            {"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}", "detail": "low"},
            Image(media_type="image/png", data=PIXEL, meta={"detail": "low"}),
        ),
        ({"type": "image_url", "image_url": {"url": "https://e.com/a.png"}}, Image(url="https://e.com/a.png")),
        (
            {"type": "input_file", "filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PDF}"},
            File(media_type="application/pdf", data=PDF, name="a.pdf"),
        ),
        (
            {"type": "file", "file": {"filename": "a.pdf", "file_data": PDF}},
            File(media_type="application/pdf", data=PDF, name="a.pdf"),
        ),
        (
            {"type": "input_file", "file_url": "https://e.com/a.pdf"},
            File(media_type="application/pdf", url="https://e.com/a.pdf"),
        ),
        (
            {"type": "input_audio", "audio_url": "x"},
            Foreign(
                protocol=PROTOCOL,
                kind="input_audio",
                json='{"type": "input_audio", "audio_url": "x"}',
                meta={"at": "input[0].content[0]"},
            ),
        ),
    ],
)
def test_content_parts(part: dict[str, Any], expected: Part) -> None:
    assert parts({"role": "user", "content": [part]}) == (expected,)


def test_134_the_phase_and_the_id_of_a_message_are_kept() -> None:
    content = [{"type": "output_text", "text": "a"}, {"type": "output_text", "text": "b"}]
    item = {"type": "message", "id": "msg_1", "role": "assistant", "phase": "commentary", "content": content}
    meta = {PROTOCOL: {"id": "msg_1", "phase": "commentary"}}
    assert parts(item) == (Text(text="a", meta=meta), Text(text="b", meta=meta))


# ── Turns of the assistant ───────────────────────────────────────────────────────────────────────


def test_131_consecutive_items_of_the_assistant_are_one_message() -> None:
    request = parse(
        user("go"),
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}]},
        {"role": "assistant", "content": "I look."},
        call("c1"),
        call("c2", name="write", arguments={"a": 1}),
        output("c2", output="2"),
        output("c1", output="1"),
        user("And now?"),
    )
    thinking = Thinking(text="hm", meta={PROTOCOL: {"id": "rs_1"}})
    calls = (ToolCall(id="c1", name="read", arguments="{}"), ToolCall(id="c2", name="write", arguments='{"a":1}'))
    results = (
        ToolResult(call_id="c2", content=(Text(text="2"),)),
        ToolResult(call_id="c1", content=(Text(text="1"),)),
    )
    assert [(message.role, message.parts) for message in request.messages] == [
        ("user", (Text(text="go"),)),
        ("assistant", (thinking, Text(text="I look."), *calls)),
        ("user", results),
        ("user", (Text(text="And now?"),)),
    ]


def test_an_output_without_a_call_id_belongs_to_the_only_call_without_one() -> None:
    request = parse(call("c1"), call("c2"), output("c1"), output(None))
    assert [part.call_id for part in request.messages[1].parts if isinstance(part, ToolResult)] == ["c1", "c2"]


def test_r10_an_output_whose_call_is_nowhere_is_kept() -> None:
    request = parse(user("go"), output("gone"))
    assert request.messages[1].parts == (ToolResult(call_id="gone", content=(Text(text="x"),)),)


def test_a_custom_call_takes_text() -> None:
    request = parse(
        {"type": "custom_tool_call", "id": "ctc_1", "call_id": "c1", "name": "apply_patch", "input": "*** Begin"},
        {"type": "custom_tool_call_output", "call_id": "c1", "output": "done"},
    )
    meta = {PROTOCOL: {"id": "ctc_1"}}
    assert request.messages[0].parts == (
        ToolCall(id="c1", name="apply_patch", arguments="*** Begin", freeform=True, meta=meta),
    )
    assert request.messages[1].parts == (ToolResult(call_id="c1", content=(Text(text="done"),)),)


@each(
    ("given", "content", "is_error"),
    [
        ({"output": ""}, (), False),
        ({"output": "no", "status": "incomplete"}, (Text(text="no"),), True),
        ({"output": {"a": 1}}, (Text(text='{"a":1}'),), False),
        (
            {
                "output": [
                    {"type": "input_text", "text": "here"},
                    {"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}"},
                ]
            },
            (Text(text="here"), Image(media_type="image/png", data=PIXEL)),
            False,
        ),
        (
            {"output": [{"type": "input_image", "file_id": "f"}]},
            (Text(text='[{"type": "input_image", "file_id": "f"}]'),),
            False,
        ),
    ],
)
def test_outputs(given: dict[str, Any], content: tuple[Part, ...], is_error: bool) -> None:
    (result,) = parts(output(**given))
    assert isinstance(result, ToolResult)
    assert result.content == content
    assert result.is_error == is_error


# ── Reasoning ────────────────────────────────────────────────────────────────────────────────────


def test_052_several_summary_parts_are_one_thinking_with_a_blank_line_between() -> None:
    summary = [{"type": "summary_text", "text": "one"}, {"type": "summary_text", "text": "three"}]
    item = {"type": "reasoning", "id": "rs_1", "summary": summary, "encrypted_content": "gAAA"}
    meta = {PROTOCOL: {"id": "rs_1", "parts": (3, 5)}}
    assert parts(item) == (Thinking(text="one\n\nthree", signature="openai:rs_1:gAAA", meta=meta),)


@each(
    ("thinking", "expected"),
    [
        (Thinking(text="hm", signature="c2ln"), Thinking(text="hm", signature="c2ln")),
        (Thinking(signature="ZGF0YQ==", redacted=True), Thinking(signature="ZGF0YQ==", redacted=True)),
    ],
)
def test_thinking_of_any_upstream_comes_back_in_our_envelope(thinking: Thinking, expected: Thinking) -> None:
    summary = [{"type": "summary_text", "text": thinking.text}] if thinking.text else []
    request = parse({"type": "reasoning", "summary": summary, "encrypted_content": envelope(thinking)}, user("go"))
    assert request.messages[0].parts == (expected,)
    assert request.source is not None
    assert request.source.messages[0] is None, "no other upstream can read our envelope"


def test_a_damaged_envelope_is_thinking_without_a_signature() -> None:
    summary = [{"type": "summary_text", "text": "hm"}]
    for damaged in ("tieline1.", "tieline1.!", "tieline1.e30x", "tieline1.W10="):
        item = {"type": "reasoning", "summary": summary, "encrypted_content": damaged}
        assert parts(item) == (Thinking(text="hm"),)


# ── Tools ────────────────────────────────────────────────────────────────────────────────────────


def test_112_tools_of_a_namespace_have_flat_names() -> None:
    tools = [
        READ,
        {"type": "namespace", "name": "agents", "description": "Agents.", "tools": [{**READ, "name": "spawn"}]},
    ]
    request = parse(call(name="spawn", namespace="agents"), call("c2", namespace="functions"), tools=tools)
    assert [tool.name for tool in request.tools] == ["read", "agents__spawn"]
    own = {"namespace": "agents", "name": "spawn", "namespace_description": "Agents."}
    assert request.tools[1].meta == {PROTOCOL: own}
    assert [part.name for part in request.messages[0].parts if isinstance(part, ToolCall)] == ["agents__spawn", "read"]


def test_112_tools_of_all_three_places_are_offered() -> None:
    found = {"type": "tool_search_output", "call_id": "c1", "execution": "client", "status": "completed"}
    namespace = {
        "type": "namespace",
        "name": "mcp__tiny",
        "tools": [{**READ, "name": "look_up", "defer_loading": True}],
    }
    request = parse(
        {"type": "additional_tools", "role": "developer", "tools": [{**READ, "name": "added"}]},
        user("go"),
        {"type": "tool_search_call", "call_id": "c1", "execution": "client", "arguments": {"query": "mail"}},
        {**found, "tools": [{**READ, "name": "mail", "defer_loading": True}, namespace]},
        tools=[READ, {"type": "tool_search", "execution": "client"}],
    )
    assert [tool.name for tool in request.tools] == ["read", "tool_search", "added", "mail", "mcp__tiny__look_up"]
    assert [tool.hosted for tool in request.tools] == [None] * 5
    assert request.tools[3].meta == {PROTOCOL: {"defer_loading": True, "inline": True}}
    assert request.messages[2].parts[0] == ToolCall(
        id="c1", name="tool_search", arguments='{"query":"mail"}', meta={PROTOCOL: {"type": "tool_search_call"}}
    )
    (result,) = request.messages[3].parts
    assert isinstance(result, ToolResult)
    assert result.content == (Text(text="Found: mail, mcp__tiny__look_up"),)


@each(
    ("tool", "name", "hosted"),
    [
        ({"type": "local_shell"}, "local_shell", None),
        ({"type": "shell"}, "shell", None),
        ({"type": "shell", "environment": {"type": "local"}}, "shell", None),
        ({"type": "shell", "environment": {"type": "container_auto"}}, "shell", "shell"),
        ({"type": "apply_patch"}, "apply_patch", None),
        ({"type": "tool_search"}, "tool_search", "tool_search"),
        ({"type": "web_search", "search_context_size": "low"}, "web_search", "web_search"),
        ({"type": "mcp", "server_label": "docs", "server_url": "https://e.com"}, "docs", "mcp"),
        ({"type": "computer_use_preview", "environment": "linux"}, "computer_use_preview", "computer_use_preview"),
    ],
)
def test_tools_that_openai_defines(tool: dict[str, Any], name: str, hosted: str | None) -> None:
    (spec,) = parse(user("go"), tools=[tool]).tools
    assert (spec.name, spec.hosted, spec.meta[PROTOCOL]) == (name, hosted, tool)
    assert hosted is not None or (spec.description and json.loads(spec.schema)["required"])


@each(
    ("item", "output", "arguments", "text", "is_error"),
    [
        (
            {"type": "local_shell_call", "action": {"type": "exec", "command": ["ls"], "env": {}}},
            {"type": "local_shell_call_output", "output": "a.py"},
            '{"command":["ls"]}',
            "a.py",
            False,
        ),
        (
            {"type": "shell_call", "action": {"commands": ["ls", "x"]}},
            {
                "type": "shell_call_output",
                "output": [
                    {"stdout": "a.py\n", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}},
                    {"stdout": "", "stderr": "no x", "outcome": {"type": "exit", "exit_code": 127}},
                    {"stdout": "", "stderr": "", "outcome": {"type": "timeout"}},
                ],
            },
            '{"commands":["ls","x"]}',
            "a.py\nno x\n[exit code 127]\n[timed out]",
            True,
        ),
        (
            {"type": "apply_patch_call", "operation": {"type": "delete_file", "path": "a"}},
            {"type": "apply_patch_call_output", "status": "failed", "output": "no such file"},
            '{"type":"delete_file","path":"a"}',
            "no such file",
            True,
        ),
        (
            {"type": "apply_patch_call", "operation": {"type": "delete_file", "path": "a"}},
            {"type": "apply_patch_call_output", "status": "completed"},
            '{"type":"delete_file","path":"a"}',
            "Done.",
            False,
        ),
    ],
)
def test_calls_and_outputs_of_tools_that_the_client_runs(
    item: dict[str, Any], output: dict[str, Any], arguments: str, text: str, is_error: bool
) -> None:
    request = parse({**item, "id": "x_1", "call_id": "c1"}, {**output, "call_id": "c1"})
    (made,), (result,) = (message.parts for message in request.messages)
    assert isinstance(made, ToolCall)
    assert isinstance(result, ToolResult)
    assert (made.id, f"{made.name}_call", made.arguments) == ("c1", item["type"], arguments)
    assert (result.call_id, result.content, result.is_error) == ("c1", (Text(text=text),), is_error)


@each(
    ("choice", "expected"),
    [
        ("auto", ToolChoice(given=True)),
        ("required", ToolChoice(mode="required", given=True)),
        ({"type": "function", "name": "read"}, ToolChoice(mode="required", names=("read",), given=True)),
        (
            {"type": "custom", "name": "patch", "namespace": "edit"},
            ToolChoice(mode="required", names=("edit__patch",), given=True),
        ),
        ({"type": "web_search"}, ToolChoice(mode="required", names=("web_search",), given=True)),
        (
            {
                "type": "allowed_tools",
                "mode": "auto",
                "tools": [{"type": "function", "name": "read"}, {"type": "shell"}],
            },
            ToolChoice(names=("read", "shell"), given=True),
        ),
    ],
)
def test_choices(choice: Any, expected: ToolChoice) -> None:
    assert parse(user("go"), tools=[READ], tool_choice=choice).tool_choice == expected


# ── Items that only this protocol has ────────────────────────────────────────────────────────────


@each("kind", ["web_search_call", "mcp_list_tools", "program", "context_compaction", "from_the_future"])
def test_items_of_other_types_are_kept(kind: str) -> None:
    item = {"type": kind, "id": "x_1", "role": "assistant"}
    text = json.dumps(item)
    assert parts(item) == (Foreign(protocol=PROTOCOL, kind=kind, json=text),)


def test_134_a_message_between_agents_is_readable() -> None:
    item = {"type": "agent_message", "author": "root", "recipient": "helper"}
    said = [{"type": "input_text", "text": "Look at a.py."}]
    request = parse({**item, "content": said})
    assert request.messages[0].role == "user"
    assert request.messages[0].parts == (Text(text="Message from root to helper:\n\nLook at a.py."),)
    encrypted = {**item, "content": [{"type": "encrypted_content", "encrypted_content": "x"}]}
    assert parts(encrypted) == (Foreign(protocol=PROTOCOL, kind="agent_message", json=json.dumps(encrypted)),)


@each("kind", ["compaction", "compaction_summary"])
def test_134_our_summary_is_text_again_and_a_foreign_one_is_kept(kind: str) -> None:
    ours = {"type": kind, "id": "cmp_1", "encrypted_content": seal("We fixed é.")}
    expected = "This is a summary of the earlier conversation, which it replaces:\n\nWe fixed é."
    request = parse(ours, user("go"))
    assert request.messages[0] == Message(role="user", parts=(Text(text=expected),))
    assert request.source is not None
    assert request.source.messages[0] is None, "no other upstream can read our summary"
    foreign = {"type": kind, "id": "cmp_1", "encrypted_content": "gAAA"}
    assert parts(foreign) == (Foreign(protocol=PROTOCOL, kind="compaction", json=json.dumps(foreign)),)


def test_r04_a_trigger_is_the_last_item_and_asks_for_a_summary() -> None:
    request = parse(user("go"), {"type": "compaction_trigger"}, tools=[READ], text={"format": {"type": "json_object"}})
    assert wants_compaction(request)
    assert not wants_compaction(parse(user("go")))
    asked = summary_request(request)
    assert not wants_compaction(asked)
    assert asked.messages[0] == request.messages[0]
    assert len(asked.messages) == 2
    (part,) = asked.messages[1].parts
    assert isinstance(part, Text)
    assert part.text.startswith("Summarise this conversation")
    assert (asked.tool_choice, asked.output) == (ToolChoice(mode="none", given=True), None)
    with pytest.raises(BadRequest, match=r"`input\[0\]`: expected `compaction_trigger` to be the last item"):
        parse({"type": "compaction_trigger"}, user("go"))


# ── Settings ─────────────────────────────────────────────────────────────────────────────────────


def test_settings() -> None:
    request = parse(
        user("go"),
        stream=True,
        max_output_tokens=100,
        temperature=0.5,
        top_p=0.9,
        parallel_tool_calls=False,
        user="u",
        prompt_cache_key="k",
        reasoning={"effort": "high"},
        text={"format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}, "strict": True}},
    )
    assert request.sampling == Sampling(max_tokens=100, temperature=0.5, top_p=0.9)
    assert request.tool_choice == ToolChoice(parallel=False)
    assert (request.stream, request.user, request.cache_key) == (True, "u", "k")
    assert request.reasoning == Reasoning(effort="high")
    assert request.output == OutputFormat(name="n", schema=b'{"type": "object"}', strict=True)
    assert request.extra == {}


def test_what_the_model_has_no_name_for_is_kept_for_an_upstream_of_the_protocol() -> None:
    request = parse(
        user("go"),
        metadata={"a": "b"},
        service_tier="flex",
        text={"verbosity": "low", "format": {"type": "text"}},
        reasoning={"effort": "ultra", "summary": "auto"},
        include=["reasoning.encrypted_content", "file_search_call.results"],
        from_the_future=1,
        truncation=None,
    )
    assert {name: json.loads(bytes(value)) for name, value in request.extra.items()} == {
        "metadata": {"a": "b"},
        "service_tier": "flex",
        "text": {"verbosity": "low"},
        "include": ["file_search_call.results"],
        "from_the_future": 1,
    }
    reasoning = '{"effort": "ultra", "summary": "auto"}'
    assert request.reasoning == Reasoning(meta={PROTOCOL: {"reasoning": reasoning}})


def test_fields_about_stored_responses_are_not_passed_on() -> None:
    request = parse(
        user("go"),
        store=True,
        previous_response_id="resp_1",
        conversation="conv_1",
        background=True,
        generate=False,
        stream_options={"include_usage": True},
        type="response.create",
        stream_id="lane",
    )
    assert request.extra == {}


# ── Errors ───────────────────────────────────────────────────────────────────────────────────────


@each(
    ("fields", "param", "expected"),
    [
        ({"input": []}, "input", "a string or an array of at least one item"),
        ({"input": None}, "input", "a string or an array of at least one item"),
        ({"input": 3}, "input", "Expected `str | array | null`"),
        ({"input": [user("a"), {}]}, "input[1].type", "the type of an item, or a `role`"),
        ({"input": [{"role": "robot", "content": "a"}]}, "input[0].role", "one of system, developer, user, assistant"),
        ({"input": [{"role": "user", "content": [{"type": "input_text"}]}]}, "input[0].content[0].text", "a string"),
        (
            {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "data:x,y"}]}]},
            "input[0].content[0].image_url",
            "data:<media type>;base64,<data>",
        ),
        ({"input": [call(name=None)]}, "input[0].name", "the name of a tool"),
        ({"input": [{"type": "shell_call", "call_id": "c"}]}, "input[0].action", "an object"),
        ({"tools": [READ, {"type": "function"}]}, "tools[1].name", "the name of a tool"),
        ({"tools": [{"type": "custom", "custom": {}}]}, "tools[0].custom.name", "the name of a tool"),
        ({"tool_choice": {"type": "custom", "custom": {}}}, "tool_choice.custom.name", "the name of a tool"),
        ({"tool_choice": {"type": "function", "function": {}}}, "tool_choice.function.name", "the name of a tool"),
        (
            {"tools": [{"type": "namespace", "name": "n", "tools": [{**READ, "parameters": 1}]}]},
            "tools[0].tools[0].parameters",
            "a JSON schema object",
        ),
        (
            {"input": [{"type": "additional_tools", "tools": [{"type": "custom"}]}]},
            "input[0].tools[0].name",
            "the name of a tool",
        ),
        ({"tool_choice": "perhaps"}, "tool_choice", "one of auto, none, required"),
        ({"tool_choice": {"type": "function"}}, "tool_choice.name", "the name of a tool"),
        ({"text": {"format": {"type": "xml"}}}, "text.format.type", "one of text, json_object, json_schema"),
        ({"text": {"format": {"type": "json_schema", "schema": 1}}}, "text.format.schema", "a JSON schema object"),
        ({"temperature": "hot"}, "temperature", "Expected `float | null`"),
        ({"reasoning": {"effort": 3}}, "reasoning.effort", "Expected `str | null`"),
    ],
)
def test_an_error_names_the_field_and_what_was_expected(fields: dict[str, Any], param: str, expected: str) -> None:
    with pytest.raises(BadRequest) as caught:
        parse_request(json.dumps({"model": "m", "input": "Hi", **fields}).encode())
    assert caught.value.param == param
    assert caught.value.message.startswith(f"`{param}`: ")
    assert expected in caught.value.message


@each("item", [{"type": "item_reference", "id": "msg_9"}, {"id": "msg_9"}])
def test_r20_a_reference_to_an_unknown_item_is_an_error_with_its_id(item: dict[str, Any]) -> None:
    with pytest.raises(GatewayError) as caught:
        parse(user("go"), item)
    error = caught.value
    assert (error.kind, error.status, error.param) == ("not_found", 404, "input[1].id")
    assert error.message == "Item with id 'msg_9' not found."


def test_a_request_without_a_model_is_parsed() -> None:
    assert parse_request(b'{"input":"Hi"}').model == ""


# ── The cache ────────────────────────────────────────────────────────────────────────────────────


def test_a_growing_conversation_keeps_its_messages() -> None:
    cache = conversation_cache()
    filler = "x" * 5000
    items = [user(filler), call("c1"), call("c2"), output("c1"), output("c2"), {"role": "assistant", "content": "ok"}]
    first = parse_request(json.dumps({"instructions": "Be brief.", "input": items}).encode(), cache)
    second = parse_request(json.dumps({"instructions": "Be brief.", "input": [*items, user("go")]}).encode(), cache)
    assert len(second.messages) == len(first.messages) + 1
    assert all(new is old for new, old in zip(second.messages, first.messages, strict=False))
    assert second == parse_request(json.dumps({"instructions": "Be brief.", "input": [*items, user("go")]}).encode())


def test_each_message_has_the_json_of_its_items() -> None:
    body = (
        b'{"input":[{"role":"user","content":"a"},{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},'
    )
    body += b'{"type":"reasoning","id":"rs","summary":[]},{"type":"function_call_output","call_id":"c","output":""}]}'
    source = parse_request(body).source
    assert source is not None
    assert source.messages == (
        b'{"role":"user","content":"a"}',
        b'{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},{"type":"reasoning","id":"rs","summary":[]}',
        b'{"type":"function_call_output","call_id":"c","output":""}',
    )
