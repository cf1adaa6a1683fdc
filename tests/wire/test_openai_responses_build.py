"""Requests of the Responses API, as upstreams get them."""

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw
from msgspec.structs import replace
from openai.types.responses.response_create_params import ResponseCreateParamsNonStreaming
from pydantic import TypeAdapter

from tests.cases import COMMON_CASES, PDF, PIXEL
from tests.codecs import CODECS
from tests.each import each
from tieline.model.content import File, Foreign, Image, Message, Text, Thinking, ToolCall, ToolResult
from tieline.model.errors import BadRequest
from tieline.model.events import Failed
from tieline.model.request import OutputFormat, Reasoning, Request, Sampling, ToolChoice, ToolSpec
from tieline.wire.openai_responses.build import build_request
from tieline.wire.openai_responses.dialect import Dialect
from tieline.wire.openai_responses.parse import parse_request
from tieline.wire.openai_responses.recovery import recovered
from tieline.wire.openai_responses.schema import PROTOCOL
from tieline.wire.shared.spelling import BuiltRequest, ToolNames

TRANSCRIPTS = Path(__file__).parent.parent / "transcripts"
UNSUPPORTED = ("documents", "images")
"""Transcripts with content that only their protocol has."""
_TYPES: TypeAdapter[Any] = TypeAdapter(ResponseCreateParamsNonStreaming)
ENCRYPTED = "reasoning.encrypted_content"
READ = ToolSpec(name="read", description="Read a file.")
PATCH = ToolSpec(name="patch", freeform=True, meta={"format": {"type": "text"}})
CALL = ToolCall(id="call_1", name="read", arguments="{}")


def says(role: Any, *parts: Any, **fields: Any) -> Message:
    return Message(role=role, parts=tuple(Text(text=p) if isinstance(p, str) else p for p in parts), **fields)


def asks(*messages: Message, **fields: Any) -> Request:
    return Request(model="m", messages=messages or (says("user", "Hi"),), **fields)


def build(request: Request, **quirks: Any) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(build_request(request, Dialect(**quirks)).body)
    return body


def items(*messages: Message, **fields: Any) -> list[Any]:
    found: list[Any] = build(asks(*messages, **fields))["input"]
    return found


def left_out(request: Request, **quirks: Any) -> list[str]:
    return [note.what or note.kind for note in build_request(request, Dialect(**quirks)).notes]


def user(text: str) -> dict[str, Any]:
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}


# ── The whole request ────────────────────────────────────────────────────────────────────────────


def test_nothing_is_stored_and_the_input_comes_last() -> None:
    body = build_request(asks(says("system", "Be brief."), says("user", "Hi"), stream=True, tools=(READ,))).body
    assert json.loads(body) == {
        "model": "m",
        "instructions": "Be brief.",
        "stream": True,
        "store": False,
        "include": [ENCRYPTED],
        "tools": [
            {
                "type": "function",
                "name": "read",
                "description": "Read a file.",
                "parameters": {"type": "object", "properties": {}},
                "strict": False,
            }
        ],
        "input": [user("Hi")],
    }
    assert list(json.loads(body))[-1] == "input"
    assert "include" not in build(asks(), encrypted_reasoning=False)


def test_the_first_system_messages_are_the_instructions_and_later_ones_stay() -> None:
    sent = build(asks(says("system", "a", "b"), says("system", "c"), says("user", "Hi"), says("system", "d")))
    assert sent["instructions"] == "a\n\nb\n\nc"
    later = {"type": "message", "role": "system", "content": [{"type": "input_text", "text": "d"}]}
    assert sent["input"] == [user("Hi"), later]


def test_a_request_with_nothing_but_system_messages_has_input() -> None:
    sent = build(asks(says("system", "a"), says("system", "b")))
    assert sent["input"] == [
        {"type": "message", "role": "system", "content": [{"type": "input_text", "text": "a\n\nb"}]}
    ]
    assert "instructions" not in sent


def test_a_system_text_that_changes_with_every_request_is_left_out() -> None:
    sent = build(asks(says("system", "x-anthropic-billing-header: 1", "Be brief."), says("user", "Hi")))
    assert sent["instructions"] == "Be brief."


def typed(body: bytes) -> None:
    """Check a request against the types of the official client, which require the detail of images."""
    request = json.loads(body)
    request.pop("stream", None)
    for item in request["input"]:
        content = item.get("content")
        for part in content if isinstance(content, list) else []:
            if part["type"] == "input_image":
                part.setdefault("detail", "auto")
    _TYPES.validate_python(request)


@each("name", COMMON_CASES)
def test_every_request_has_the_type_of_the_official_client(name: str) -> None:
    typed(build_request(COMMON_CASES[name]).body)


@each("path", [path for name in ("anthropic", "openai_chat") for path in TRANSCRIPTS.glob(f"{name}/*/request.json")])
def test_a_recorded_request_of_another_protocol_has_that_type_too(path: Path) -> None:
    request = CODECS[path.parent.parent.name].parse(path.read_bytes())
    if path.parent.name in UNSUPPORTED:
        with pytest.raises(BadRequest, match="does not accept"):
            build_request(request)
    else:
        typed(build_request(request).body)


# ── Items ────────────────────────────────────────────────────────────────────────────────────────


def test_content_of_every_kind() -> None:
    image, file = Image(media_type="image/png", data=PIXEL), File(media_type="application/pdf", data=PDF, name="a.pdf")
    linked = Image(url="https://example.com/a.png", meta={"detail": "low"})
    audio = Foreign(protocol=PROTOCOL, kind="input_audio", json='{"type":"input_audio"}', meta={"at": "input[0]"})
    (sent,) = items(says("user", "Hi", image, linked, file, File(url="https://example.com/a.pdf"), audio))
    assert sent["content"] == [
        {"type": "input_text", "text": "Hi"},
        {"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}"},
        {"type": "input_image", "image_url": "https://example.com/a.png", "detail": "low"},
        {"type": "input_file", "filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PDF}"},
        {"type": "input_file", "file_url": "https://example.com/a.pdf"},
        {"type": "input_audio"},
    ]
    with pytest.raises(BadRequest, match="expected text, images and files"):
        items(says("user", Foreign(protocol="anthropic", kind="search_result", json="{}")))


def test_131_the_parts_of_an_answer_are_items_in_their_order() -> None:
    thought = Thinking(text="a\n\nbc", signature="openai:rs_1:e:x", meta={PROTOCOL: {"parts": (1, 2)}})
    other = ToolCall(id="call_2", name="patch", arguments="*** Begin", freeform=True)
    results = (ToolResult(call_id="call_1", content=(Text(text="ok"),)), ToolResult(call_id="call_2"))
    said = Text(text="Let me look.", meta={PROTOCOL: {"phase": "commentary", "id": "msg_7"}})
    sent = items(says("assistant", thought, said, CALL, other), says("user", *results, "Go on"), tools=(READ, PATCH))
    assert sent == [
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [{"type": "summary_text", "text": "a"}, {"type": "summary_text", "text": "bc"}],
            "encrypted_content": "e:x",
        },
        {
            "type": "message",
            "id": "msg_7",
            "status": "completed",
            "phase": "commentary",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "Let me look.", "annotations": []}],
        },
        {"type": "function_call", "call_id": "call_1", "name": "read", "arguments": "{}"},
        {"type": "custom_tool_call", "call_id": "call_2", "name": "patch", "input": "*** Begin"},
        {"type": "function_call_output", "call_id": "call_1", "output": "ok"},
        {"type": "custom_tool_call_output", "call_id": "call_2", "output": ""},
        user("Go on"),
    ]


def test_049_reasoning_without_encrypted_content_is_not_sent() -> None:
    assert items(says("assistant", Thinking(text="hm"), Thinking(text="hm", signature="c2ln"), "Hi")) == [
        {"type": "message", "role": "assistant", "content": "Hi"}
    ]


def test_132_only_ids_that_the_api_accepts_are_sent() -> None:
    for item_id, is_sent in (("fc_1", True), ("call_1", False), ("msg_1", False)):
        (sent,) = items(says("assistant", replace(CALL, meta={PROTOCOL: {"id": item_id}})))
        assert ("id" in sent) is is_sent


def test_the_texts_of_one_message_stay_together() -> None:
    one, two = {PROTOCOL: {"id": "msg_1"}}, {PROTOCOL: {"id": "msg_2"}}
    refused = Text(text="b", refusal=True, meta=one)
    sent = items(says("assistant", Text(text="a", meta=one), refused, Text(text="c", meta=two)))
    kinds = [[part["type"] for part in item["content"]] for item in sent]
    assert kinds == [["output_text", "refusal"], ["output_text"]]


def test_results_may_have_images_and_failures() -> None:
    content = (Text(text="no"), Image(media_type="image/png", data=PIXEL))
    failed = ToolResult(call_id="call_1", content=content, is_error=True)
    (sent,) = items(says("user", failed))
    assert sent["output"] == [
        {"type": "input_text", "text": "Error: no"},
        {"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}"},
    ]
    (sent,) = items(says("user", failed), protocol=PROTOCOL)
    assert (sent["status"], sent["output"][0]["text"]) == ("incomplete", "no")


def test_long_call_ids_are_shortened_alike_in_call_and_result() -> None:
    long = "x" * 65
    made, result = items(says("assistant", replace(CALL, id=long)), says("user", ToolResult(call_id=long)))
    assert made["call_id"] == result["call_id"]
    assert len(made["call_id"]) <= 64


def test_foreign_items_of_this_protocol_are_sent_as_they_are_and_others_are_noted() -> None:
    own = Foreign(protocol=PROTOCOL, kind="web_search_call", json='{"type":"web_search_call","id":"ws_1"}')
    other = Foreign(protocol="anthropic", kind="server_tool_use", json="{}")
    request = asks(says("assistant", own, other, "Hi"))
    assert build(request)["input"][0] == {"type": "web_search_call", "id": "ws_1"}
    assert left_out(request) == ["server_tool_use"]


def test_cache_marks_are_noted_once() -> None:
    marked = {"cache_control": {"type": "ephemeral"}}
    result = ToolResult(call_id="call_1", meta=marked)
    request = asks(
        says("user", Text(text="Hi", meta=marked)), says("user", result), tools=(replace(READ, meta=marked),)
    )
    assert left_out(request) == ["cache_control"]


# ── Tools ────────────────────────────────────────────────────────────────────────────────────────


NAMESPACED = ToolSpec(
    name="agents__spawn",
    meta={PROTOCOL: {"namespace": "agents", "name": "spawn", "namespace_description": "Agents."}},
)
SHELL = ToolSpec(name="local_shell", description="Run.", meta={PROTOCOL: {"type": "local_shell"}})


def test_112_tools_in_namespaces_and_tools_of_openai_keep_their_form() -> None:
    request = asks(says("assistant", replace(CALL, name="agents__spawn")), tools=(NAMESPACED, SHELL, READ, PATCH))
    sent = build(replace(request, protocol=PROTOCOL))
    namespace, shell, read, patch = sent["tools"]
    assert (namespace["type"], namespace["name"], namespace["description"]) == ("namespace", "agents", "Agents.")
    assert [tool["name"] for tool in namespace["tools"]] == ["spawn"]
    assert shell == {"type": "local_shell"}
    assert "strict" not in read
    assert patch == {"type": "custom", "name": "patch", "format": {"type": "text"}}
    (made,) = sent["input"]
    assert (made["namespace"], made["name"]) == ("agents", "spawn")


def test_112_an_upstream_without_them_gets_functions() -> None:
    request = asks(says("assistant", replace(CALL, name="agents__spawn")), tools=(NAMESPACED, SHELL, PATCH))
    sent = build(request, openai_tools=False, freeform_tools=False)
    assert [(tool["type"], tool["name"]) for tool in sent["tools"]] == [
        ("function", "agents__spawn"),
        ("function", "local_shell"),
        ("function", "patch"),
    ]
    assert sent["input"][0]["name"] == "agents__spawn"


def test_calls_and_results_of_openais_own_tools_have_their_own_items() -> None:
    made = ToolCall(id="call_1", name="local_shell", arguments='{"command":["ls"]}')
    result = ToolResult(call_id="call_1", content=(Text(text="a.py"),))
    sent = items(says("assistant", made), says("user", result), tools=(SHELL,), protocol=PROTOCOL)
    assert sent[0]["type"] == "local_shell_call"
    assert sent[0]["action"] == {"type": "exec", "command": ["ls"], "env": {}}
    assert sent[1] == {"type": "local_shell_call_output", "call_id": "call_1", "output": "a.py"}


def test_112_tools_that_items_define_are_not_defined_twice() -> None:
    added = {"type": "additional_tools", "role": "developer", "tools": [{**SPAWN, "name": "one"}]}
    searched = {
        "type": "tool_search_call",
        "id": "tsc_1",
        "call_id": "s",
        "status": "completed",
        "execution": "client",
        "arguments": {"query": "x"},
    }
    found = {
        "type": "tool_search_output",
        "call_id": "s",
        "status": "completed",
        "execution": "client",
        "tools": [{**SPAWN, "name": "two"}],
    }
    said = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]}
    given = [added, said, searched, found, said]
    tools = [{"type": "tool_search", "execution": "client"}]
    request = own(input=given, tools=tools)
    for sent in (build(request), build(replace(request, source=None))):
        assert sent["input"] == given
        assert sent["tools"] == tools
    flat = build(request, openai_tools=False)
    assert [tool["name"] for tool in flat["tools"]] == ["tool_search", "one", "two"]
    kinds = [item["type"] for item in flat["input"]]
    assert kinds == ["message", "function_call", "function_call_output", "message"]


@each(
    ("choice", "sent"),
    [
        (ToolChoice(given=True), "auto"),
        (ToolChoice(mode="required", names=("read",)), {"type": "function", "name": "read"}),
        (ToolChoice(mode="required", names=("patch",)), {"type": "custom", "name": "patch"}),
        (
            ToolChoice(mode="required", names=("agents__spawn",)),
            {"type": "function", "name": "spawn", "namespace": "agents"},
        ),
        (ToolChoice(mode="required", names=("web_search",)), {"type": "web_search"}),
        (
            ToolChoice(mode="auto", names=("read", "patch")),
            {
                "type": "allowed_tools",
                "mode": "auto",
                "tools": [{"type": "function", "name": "read"}, {"type": "custom", "name": "patch"}],
            },
        ),
    ],
)
def test_the_choice_among_tools(choice: ToolChoice, sent: Any) -> None:
    search = ToolSpec(name="web_search", hosted="web_search", meta={PROTOCOL: {"type": "web_search"}})
    tools = (READ, PATCH, NAMESPACED, search)
    assert build(asks(tools=tools, tool_choice=choice, protocol=PROTOCOL))["tool_choice"] == sent


def test_a_hosted_tool_of_another_protocol_is_left_out_or_refused() -> None:
    hosted = ToolSpec(name="search", hosted="web_search_20250305", meta={"anthropic": {"tool": "{}"}})
    assert left_out(asks(tools=(READ, hosted))) == ["tools[1]"]
    with pytest.raises(BadRequest, match="cannot run the hosted tool 'web_search_20250305'"):
        build(asks(tools=(hosted,)))


# ── Settings ─────────────────────────────────────────────────────────────────────────────────────


def test_settings_of_other_protocols_are_translated_or_noted() -> None:
    request = asks(
        sampling=Sampling(max_tokens=5, temperature=0.5, top_p=0.9, top_k=3, stop=("END",)),
        reasoning=Reasoning(mode="budget", budget=4096),
        output=OutputFormat(name="n", schema=b'{"type":"object"}', strict=True),
        user="u",
        cache_key="k",
        protocol="openai_chat",
        extra={"verbosity": Raw(b'"low"'), "service_tier": Raw(b'"flex"'), "seed": Raw(b"1")},
    )
    sent = build(request, summary="auto")
    assert sent["max_output_tokens"] == 16
    assert (sent["temperature"], sent["top_p"]) == (0.5, 0.9)
    assert sent["reasoning"] == {"effort": "medium", "summary": "auto"}
    form = {"type": "json_schema", "name": "n", "schema": {"type": "object"}, "strict": True}
    assert sent["text"] == {"verbosity": "low", "format": form}
    assert (sent["user"], sent["prompt_cache_key"], sent["service_tier"]) == ("u", "k", "flex")
    assert left_out(request) == ["limit", "top_k", "stop", "seed"]


# ── What a client of the same protocol sent ──────────────────────────────────────────────────────

SPAWN = {"type": "function", "name": "spawn", "parameters": {"type": "object", "properties": {}}, "vendor": 3}
OWN = {
    "model": "theirs",
    "instructions": "Be brief.",
    "reasoning": {"effort": "high", "summary": "auto", "context": "all_turns"},
    "include": [ENCRYPTED, "message.output_text.logprobs"],
    "store": True,
    "previous_response_id": "resp_0",
    "stream_options": {"include_usage": True},
    "background": False,
    "type": "response.create",
    "stream_id": "lane",
    "vendor": {"x": 1},
    "text": {"verbosity": "low", "format": {"type": "text"}},
    "tools": [
        {"type": "namespace", "name": "agents", "tools": [SPAWN]},
        {"type": "web_search", "external_web_access": True},
        {"type": "custom", "name": "patch", "vendor": 1},
    ],
    "tool_choice": "auto",
    "input": [
        {"role": "developer", "content": "Rules"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi", "vendor": 2}]},
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "e", "content": None},
        {
            "type": "function_call",
            "id": "fc_1",
            "call_id": "c",
            "namespace": "agents",
            "name": "spawn",
            "arguments": "{}",
        },
        {"type": "function_call_output", "call_id": "c", "output": "ok"},
    ],
}


def own(**changes: Any) -> Request:
    parsed = parse_request(json.dumps({**OWN, **changes}).encode())
    return replace(parsed, model="m")


def test_what_a_client_of_this_protocol_sent_is_sent_unchanged() -> None:
    sent = build(own())
    not_passed_on = {"previous_response_id", "stream_options", "background", "type", "stream_id"}
    kept = {name: OWN[name] for name in OWN.keys() - not_passed_on}
    assert sent == {**kept, "model": "m", "store": False}
    assert build_request(own()).notes == ()


def test_encrypted_reasoning_is_not_requested_from_an_upstream_that_has_none() -> None:
    assert build(own(), encrypted_reasoning=False)["include"] == ["message.output_text.logprobs"]
    assert "include" not in build(own(include=[ENCRYPTED]), encrypted_reasoning=False)
    assert build(own(include=None))["include"] == [ENCRYPTED]


def test_051_reasoning_goes_back_byte_for_byte() -> None:
    item = b'{ "summary": [ {"text":"h\\u006d"} ],"type":"reasoning", "encrypted_content":"e","id":"rs_1"}'
    body = b'{"model":"m","input":[{"role":"user","content":"Hi"},%b,{"role":"user","content":"Go"}]}' % item
    assert item in build_request(parse_request(body)).body


def test_a_freeform_tool_may_be_called_as_a_function_whatever_the_dialect() -> None:
    # Some servers accept freeform tools and call them like functions; Codex would abort such a call.
    for freeform_tools in (True, False):
        built = build_request(asks(tools=(PATCH,)), Dialect(freeform_tools=freeform_tools))
        assert built.tool_names.freeform == {"patch"}


def test_a_text_as_input_stays_one() -> None:
    assert build(own(input="Hi"))["input"] == "Hi"
    request = own(input="Hi")
    changed = replace(request, messages=(*request.messages[:-1], says("user", "Ho")))
    assert build(changed)["input"] == [user("Ho")]
    assert build(changed)["instructions"] == "Be brief."


def test_instructions_that_changed_are_replaced() -> None:
    request = own()
    first = says("system", "Be kind.", meta={PROTOCOL: {"instructions": True}})
    sent = build(replace(request, messages=(first, *request.messages[1:])))
    assert sent["instructions"] == "Be kind."
    assert sent["input"] == OWN["input"]
    assert "instructions" not in build(replace(request, messages=request.messages[1:]))


def test_050_our_own_envelope_is_never_sent_to_an_upstream() -> None:
    mine = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "tieline1.eyJzIjoiYzJsbiJ9"}
    sent = build(own(input=[{"role": "user", "content": "Hi"}, mine, {"role": "user", "content": "Go"}]))
    assert [item.get("type", "message") for item in sent["input"]] == ["message", "message"]


# ── Recovery ─────────────────────────────────────────────────────────────────────────────────────


def failed(message: str, code: str | None = None) -> Failed:
    return Failed(kind="bad_request", message=message, status=400, code=code)


def retried(message: str, code: str | None = None) -> dict[str, Any]:
    """Return the body that is sent after an error. The same error leads to no further change."""
    changed = recovered(build_request(own()), failed(message, code))
    assert changed is not None
    assert changed.notes[-1].kind == "retry"
    assert recovered(changed, failed(message, code)) is None
    body: dict[str, Any] = json.loads(changed.body)
    return body


def test_r11_ids_that_the_upstream_does_not_know_are_left_out() -> None:
    sent = retried("Item with id 'rs_1' not found. Items are not persisted when `store` is set to false.")
    assert [item.get("id") for item in sent["input"]] == [None] * 5
    assert sent["input"][2] == {"type": "reasoning", "summary": [], "encrypted_content": "e", "content": None}


def test_r11_reasoning_with_nothing_but_an_id_is_left_out_with_it() -> None:
    bare = {"type": "reasoning", "id": "rs_1", "summary": []}
    kept = {"type": "compaction", "id": "cmp_1", "encrypted_content": "x"}
    said = {"role": "user", "content": "Hi"}
    built = build_request(own(input=[said, bare, kept, said]))
    changed = recovered(built, failed("Item with id 'rs_1' not found."))
    assert changed is not None
    assert json.loads(changed.body)["input"][1:2] == [kept]


@each(
    ("message", "code"),
    [
        ("no", "invalid_encrypted_content"),
        ("The encrypted content gAAA could not be verified.", "invalid_request_error"),
    ],
)
def test_r12_reasoning_that_the_upstream_cannot_read_is_left_out(message: str, code: str) -> None:
    assert [item.get("type") for item in retried(message, code)["input"]] == [
        None,
        "message",
        "function_call",
        "function_call_output",
    ]


def test_a_model_without_encrypted_reasoning_is_not_asked_for_it() -> None:
    sent = retried("Encrypted content is not supported with this model.")
    assert sent["include"] == ["message.output_text.logprobs"]


def test_other_errors_change_nothing() -> None:
    built = BuiltRequest(b'{"input":"Hi"}', ToolNames())
    for message in ("Item with id 'rs_1' not found.", "could not be verified", "too long"):
        assert recovered(built, failed(message)) is None
