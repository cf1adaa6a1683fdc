"""Clients of the Responses API: what they send, to every upstream, and what they get."""

import json
from typing import Any

from tests.each import each
from tieline.core.history.tidy import tidy
from tieline.model.assemble import unfold
from tieline.model.content import Part, Text, Thinking, ToolCall
from tieline.model.events import Failed, Finished, Reply, Started, StopReason, Usage
from tieline.model.request import Request
from tieline.wire import anthropic, openai_chat
from tieline.wire.openai_responses import (
    PROTOCOL,
    Options,
    ResponseWriter,
    build_request,
    offered_tools,
    parse_request,
)

BUILD: dict[str, Any] = {
    "openai_chat": openai_chat.build_request,
    "openai_responses": build_request,
    "anthropic": anthropic.build_request,
}
EACH_UPSTREAM = each("upstream", BUILD)
READ = {"type": "function", "name": "read", "parameters": {"type": "object", "properties": {}}}


def parse(*items: Any, **fields: Any) -> Request:
    return parse_request(json.dumps({"model": "m", "input": items, **fields}).encode())


def sent(request: Request, upstream: str) -> Any:
    """What an upstream gets."""
    messages, _ = tidy(request.messages)
    return json.loads(BUILD[upstream](Request(**{**fields_of(request), "messages": messages})).body)


def fields_of(request: Request) -> dict[str, Any]:
    return {name: getattr(request, name) for name in request.__struct_fields__ if name != "source"}


def answered(*parts: Part, reason: StopReason = StopReason.END_TURN, request: Request | None = None) -> list[Any]:
    """The events that a client gets."""
    tools = offered_tools(request.tools) if request is not None else {}
    writer = ResponseWriter(Options(response_id="resp_1", encrypted=True, tools=tools))
    reply = Reply(id="i", model="m", parts=parts, usage=Usage(), finished=Finished(reason=reason))
    return events_in(b"".join(map(writer.write, unfold(reply))))


def events_in(written: bytes) -> list[Any]:
    return [json.loads(line[6:]) for line in written.decode().split("\n") if line.startswith("data: ")]


NAMESPACE = {"type": "namespace", "name": "agents", "description": "Agents.", "tools": [{**READ, "name": "spawn"}]}
SEARCH = {"type": "tool_search", "execution": "client"}


@EACH_UPSTREAM
def test_112_tools_of_namespaces_searches_and_items_are_offered(upstream: str) -> None:
    request = parse(
        {"type": "additional_tools", "role": "developer", "tools": [{**READ, "name": "added"}, NAMESPACE, SEARCH]},
        {"role": "user", "content": "go"},
        {"type": "tool_search_call", "call_id": "c1", "execution": "client", "arguments": {"query": "mail"}},
        {"type": "tool_search_output", "call_id": "c1", "execution": "client", "tools": [{**READ, "name": "mail"}]},
    )
    text = json.dumps(sent(request, upstream))
    names = ["added", "mail", "tool_search"]
    names += ['"agents"', '"spawn"'] if upstream == PROTOCOL else ["agents__spawn"]
    assert [name for name in names if name not in text] == []


def test_112_calls_come_back_with_the_names_and_types_of_the_client() -> None:
    request = parse({"role": "user", "content": "go"}, tools=[READ, NAMESPACE, SEARCH])
    events = answered(
        ToolCall(id="c1", name="agents__spawn", arguments="{}"),
        ToolCall(id="c2", name="tool_search", arguments='{"query":"mail"}'),
        ToolCall(id="c3", name="read", arguments="{}"),
        reason=StopReason.TOOL_USE,
        request=request,
    )
    spawn, search, read = events[-1]["response"]["output"]
    assert (spawn["type"], spawn["namespace"], spawn["name"]) == ("function_call", "agents", "spawn")
    assert (search["type"], search["execution"], search["arguments"]) == (
        "tool_search_call",
        "client",
        {"query": "mail"},
    )
    assert (read["name"], "namespace" in read) == ("read", False)


def test_050_encrypted_reasoning_of_openai_is_not_sent_to_anthropic() -> None:
    reasoning = {"type": "reasoning", "id": "rs_1", "encrypted_content": "gAAA"}
    request = parse(
        {"role": "user", "content": "1"},
        {**reasoning, "summary": [{"type": "summary_text", "text": "hm"}]},
        {"role": "assistant", "content": "a"},
        {"role": "user", "content": "2"},
    )
    built = anthropic.build_request(request)
    assert json.loads(built.body)["messages"][1]["content"] == [{"type": "text", "text": "a"}]
    assert [note.what for note in built.notes] == ["thinking"]
    local = json.loads(anthropic.build_request(request, anthropic.Dialect(unsigned_thinking=True)).body)
    assert local["messages"][1]["content"][0] == {"type": "thinking", "thinking": "hm", "signature": ""}


@each("failed", [False, True])
def test_124_every_stream_has_exactly_one_terminal_event(failed: bool) -> None:
    writer = ResponseWriter(Options(response_id="resp_1"))
    ending = Failed(kind="upstream", message="Gone.") if failed else Finished(reason=StopReason.END_TURN)
    written = [writer.write(event) for event in (Started(id="i", model="m"), ending, ending)]
    kinds = [event["type"] for event in events_in(b"".join(written))]
    assert kinds == ["response.created", "response.in_progress", f"response.{'failed' if failed else 'completed'}"]


def test_125_a_stream_is_complete_and_its_items_are_numbered() -> None:
    call = ToolCall(id="c1", name="read", arguments='{"a":1}')
    events = answered(Thinking(text="hm"), Text(text="I look."), call, reason=StopReason.TOOL_USE)
    done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    response = events[-1]["response"]
    assert response["output"] == done
    assert [item["type"] for item in done] == ["reasoning", "message", "function_call"]
    added = [event["output_index"] for event in events if event["type"] == "response.output_item.added"]
    assert added == [0, 1, 2]
    assert events[0]["response"]["usage"] is None
    assert response["usage"]["input_tokens_details"] == {"cached_tokens": 0, "cache_write_tokens": 0}
    assert response["usage"]["output_tokens_details"] == {"reasoning_tokens": 0}
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    (final,) = [event for event in events if event["type"] == "response.function_call_arguments.done"]
    assert (final["name"], final["arguments"]) == ("read", '{"a":1}')


@EACH_UPSTREAM
def test_130_items_without_type_and_id_reach_the_upstream(upstream: str) -> None:
    request = parse(
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": "I look."},
        {"call_id": "c1", "name": "read", "arguments": "{}", "role": "assistant", "type": "function_call"},
        {"call_id": "c1", "output": "print(1)"},
        tools=[READ],
    )
    text = json.dumps(sent(request, upstream))
    assert [word for word in ("go", "I look.", "c1", "print(1)") if word not in text] == []


@each("upstream", ["openai_chat", "anthropic"])
def test_131_parallel_calls_are_one_turn_of_the_assistant(upstream: str) -> None:
    call = {"type": "function_call", "name": "read", "arguments": "{}"}
    output = {"type": "function_call_output", "output": "x"}
    request = parse(
        {"role": "user", "content": "go"},
        *({**call, "call_id": call_id} for call_id in ("c1", "c2")),
        *({**output, "call_id": call_id} for call_id in ("c2", "c1")),
        tools=[READ],
    )
    roles = [message["role"] for message in sent(request, upstream)["messages"]]
    assert roles == (
        ["user", "assistant", "tool", "tool"] if upstream == "openai_chat" else ["user", "assistant", "user"]
    )


@EACH_UPSTREAM
def test_134_phases_summaries_and_messages_between_agents_survive(upstream: str) -> None:
    summary = {"type": "compaction", "id": "cmp_1", "encrypted_content": "tieline-summary1.V2UgZml4ZWQgaXQu"}
    request = parse(
        summary,
        {
            "type": "agent_message",
            "author": "a",
            "recipient": "b",
            "content": [{"type": "input_text", "text": "Hurry."}],
        },
        {"type": "message", "role": "assistant", "phase": "commentary", "content": "I look."},
        {"role": "user", "content": "go"},
    )
    text = json.dumps(sent(request, upstream))
    assert "We fixed it." in text
    assert "Hurry." in text
    assert "I look." in text
    assert ("commentary" in text) == (upstream == PROTOCOL)
