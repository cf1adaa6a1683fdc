"""What real clients send, in the shapes that were seen on the wire: every upstream gets a request it takes."""

import json
from typing import Any

import pytest

from tests.catalogue.asking import Json, ask, ask_anything, asking, assistant, calls, parsed, results, tool, user
from tests.catalogue.crossing import PROTOCOLS, Protocol
from tests.each import each
from tieline.model.errors import BadRequest
from tieline.wire import anthropic, openai_chat

every_upstream = each("upstream", PROTOCOLS)
every_client = each("client", PROTOCOLS)

A, C = PROTOCOLS
MARK = {"type": "ephemeral"}
PIXEL = "iVBORw0KGgo="


def text(words: str, **fields: Any) -> Json:
    return {"type": "text", "text": words, **fields}


# ── What breaks a naive gateway ──────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "thread", [{"type": "create"}, {"type": "continue", "previous_message_id": "msg_01XFDUDYJgAACzvnptvVoYEL"}]
)
def test_a_message_thread_is_answered_with_the_error_that_makes_the_sdks_send_everything(thread: Json) -> None:
    """Seen: both official tool runners then fall back to the full history by themselves."""
    said = asking(A, results(A, ("toolu_1", "one")), thread=thread)
    with pytest.raises(BadRequest) as refused:
        parsed(said, A)
    assert refused.value.status == 400
    body = json.loads(anthropic.render_error(refused.value))
    assert body["type"] == "error"
    assert body["error"]["type"] == "invalid_request_error"
    assert body["error"]["details"] == {"error_code": "thread_unsupported_request", "unsupported": []}


def test_a_thread_of_null_is_none() -> None:
    assert parsed(asking(A, user("hi"), thread=None), A).messages


@every_upstream
@each("content", ["Tools changed.", [text("Tools changed.")]])
def test_a_system_message_inside_the_conversation_is_taken(upstream: Protocol, content: Any) -> None:
    late = [{"role": "system", "content": content}]
    turns = [user("hi"), late, calls(A, ("t1", "Read", {})), results(A, ("t1", "one")), late]
    sent = ask(asking(A, *turns, tools=[tool(A, "Read")]), A, upstream)
    assert sum("Tools changed." in words for _, words in sent.said) == 2
    if upstream == C:
        assert "system" not in sent.roles


@every_upstream
def test_a_system_message_between_a_call_and_its_result_does_not_part_them(upstream: Protocol) -> None:
    late = [{"role": "system", "content": "Be quick."}]
    for client in PROTOCOLS:
        turns = [user("hi"), calls(client, ("t1", "Read", {})), late, results(client, ("t1", "one"))]
        sent = ask(asking(client, *turns, tools=[tool(client, "Read")]), client, upstream)
        assert sent.results == [("t1", "one")]
        assert "Be quick." in "".join(words for _, words in sent.said)


@every_upstream
def test_a_tool_that_was_found_is_told_in_the_result(upstream: Protocol) -> None:
    found = {"type": "tool_reference", "tool_name": "WebFetch"}
    turns = [user("hi"), calls(A, ("t1", "ToolSearch", {"query": "fetch"})), results(A, ("t1", [found]))]
    tools = [
        tool(A, "ToolSearch"),
        tool(A, "DeferredToolPlaceholder", {}, defer_loading=True),
        tool(A, "WebFetch", defer_loading=True),
    ]
    said = asking(A, *turns, tools=tools)
    sent = ask(said, A, upstream)
    assert sent.names == ["ToolSearch", "DeferredToolPlaceholder", "WebFetch"]
    if upstream == A:
        assert sent.blocks("tool_result")[0]["content"] == [found]
        plain = ask(said, A, A, anthropic.Dialect(extensions=False))
        assert plain.results == [("t1", "Tool WebFetch is now available.")]
    else:
        assert sent.results == [("t1", "Tool WebFetch is now available.")]


@every_upstream
def test_results_in_the_order_of_completion_are_put_in_order(upstream: Protocol) -> None:
    made = [("toolu_1", "Bash", {"command": "sleep 2"}), ("toolu_2", "Bash", {"command": "true"})]
    given = results(A, ("toolu_2", "quick"), ("toolu_1", "slow"))
    sent = ask(asking(A, user("hi"), calls(A, *made), given, tools=[tool(A, "Bash")]), A, upstream)
    assert sent.results == [("toolu_1", "slow"), ("toolu_2", "quick")]


@every_client
@every_upstream
def test_a_parallel_turn_that_was_split_stays_whole(client: Protocol, upstream: Protocol) -> None:
    """Seen in goose: assistant and tool, a user message of its own, assistant and tool again."""
    turns = [
        user("hi"),
        calls(client, ("t1", "shell", {"command": "ls"})),
        results(client, ("t1", "a")),
        user("<info-msg>\nIt is 2026-03-01 10:00:00\n</info-msg>"),
        calls(client, ("t2", "shell", {"command": "pwd"})),
        results(client, ("t2", "/home")),
        user("<info-msg>\nIt is 2026-03-01 10:00:01\n</info-msg>"),
    ]
    sent = ask(asking(client, *turns, tools=[tool(client, "shell")]), client, upstream)
    assert sent.results == [("t1", "a"), ("t2", "/home")]
    assert sum("<info-msg>" in words for _, words in sent.said) == 2


@every_client
@every_upstream
def test_a_second_parallel_call_that_was_dropped_is_not_missed(client: Protocol, upstream: Protocol) -> None:
    """Seen in gptme: of two parallel calls only the first comes back."""
    turns = [user("hi"), calls(client, ("t1", "shell", {})), results(client, ("t1", "a")), user("go on")]
    sent = ask(asking(client, *turns, tools=[tool(client, "shell")]), client, upstream)
    assert sent.notes == ()


@every_upstream
def test_a_picture_and_text_in_a_result_of_claude_code_arrive(upstream: Protocol) -> None:
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}
    given = results(A, ("t1", [picture, text("1x1 pixels")]))
    sent = ask(asking(A, user("hi"), calls(A, ("t1", "Read", {})), given, tools=[tool(A, "Read")]), A, upstream)
    assert PIXEL.encode() in sent.raw
    assert "1x1 pixels" in sent.results[0][1]


# ── Whole requests, client by client ─────────────────────────────────────────────────────────────

BASH = {
    "type": "object",
    "properties": {"command": {"type": "string", "description": "what to run"}, "timeout": {"type": "number"}},
    "required": ["command"],
    "additionalProperties": False,
    "$schema": "http://json-schema.org/draft-07/schema#",
}

CLAUDE_CODE = {
    "model": "claude-sonnet-4-5",
    "max_tokens": 32000,
    "stream": True,
    "system": [
        text("x-anthropic-billing-header: cc_version=2.1.325.a1b; cc_entrypoint=cli; cch=00000;"),
        text("You are Claude Code.", cache_control=MARK),
        text("# Environment\nPlatform: linux", cache_control={"type": "ephemeral", "ttl": "1h"}),
    ],
    "thinking": {"type": "adaptive", "display": "omitted"},
    "output_config": {"effort": "high"},
    "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
    "metadata": {"user_id": '{"device_id":"d","session_id":"s"}'},
    "tools": [
        {"name": "Bash", "description": "Runs a command.", "input_schema": BASH},
        {"name": "ToolSearch", "description": "Finds tools.", "input_schema": {"type": "object", "properties": {}}},
        {"name": "DeferredToolPlaceholder", "description": "", "input_schema": {}, "defer_loading": True},
    ],
    "messages": [
        {
            "role": "user",
            "content": [text("<system-reminder>\nToday is Monday.\n</system-reminder>"), text("List it.")],
        },
        {"role": "system", "content": "The user has opened a.py."},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "", "signature": "EqQBCkgIAxABGAIiQL"},
                text("Two things."),
                {"type": "tool_use", "id": "toolu_01", "name": "Bash", "input": {"command": "ls"}},
                {"type": "tool_use", "id": "toolu_02", "name": "Bash", "input": {"command": "pwd"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "toolu_02", "content": "/home", "is_error": False},
                {
                    "type": "tool_result",
                    "tool_use_id": "toolu_01",
                    "content": "<tool_use_error>no such tool</tool_use_error>",
                    "is_error": True,
                    "cache_control": MARK,
                },
                text("CRITICAL: Respond with TEXT ONLY."),
            ],
        },
    ],
}

OPENCODE = {
    "model": "qwen3-coder",
    "max_tokens": 32000,
    "temperature": 0,
    "top_p": 1,
    "messages": [
        {"role": "system", "content": "You are opencode."},
        {"role": "user", "content": "List it."},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [
                {"id": "call_1", "type": "function", "function": {"name": "bash", "arguments": '{"command":"ls"}'}},
                {"id": "call_2", "type": "function", "function": {"name": "list", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "a.py"},
        {"role": "tool", "tool_call_id": "call_2", "content": "a.py\nb.py"},
    ],
    "tools": [
        {"type": "function", "function": {"name": "bash", "description": "Runs it.", "parameters": BASH}},
        {"type": "function", "function": {"name": "list", "description": "Lists.", "parameters": {"type": "object"}}},
    ],
    "tool_choice": "auto",
    "stream": True,
    "stream_options": {"include_usage": True},
}

AIDER = {
    "model": "gpt-x",
    "messages": [
        {"role": "system", "content": "Act as an expert software developer."},
        {"role": "user", "content": "Change get_factorial() to use math.factorial"},
        {"role": "assistant", "content": "a.py\n<<<<<<< SEARCH\n=======\nimport math\n>>>>>>> REPLACE\n"},
        {"role": "user", "content": "I switched to a new code base."},
        {"role": "assistant", "content": "Ok."},
        {"role": "user", "content": "Add a test."},
        {"role": "system", "content": "Reply with SEARCH/REPLACE blocks."},
    ],
    "stream": True,
    "temperature": 0,
}

QWEN_CODE = {
    "model": "qwen3-coder-plus",
    "messages": [
        {"role": "system", "content": "You are Qwen Code."},
        {"role": "user", "content": [text("This is the context."), text("List it.")]},
        {
            "role": "assistant",
            "content": None,
            "reasoning_content": "A listing is wanted.",
            "tool_calls": [
                {"id": "call_q", "type": "function", "function": {"name": "list", "arguments": '{"path":"/home"}'}}
            ],
        },
        {"role": "tool", "tool_call_id": "call_q", "content": [text("a.py"), text("b.py")]},
    ],
    "stream": True,
    "stream_options": {"include_usage": True},
    "tools": [{"type": "function", "function": {"name": "list", "description": "Lists.", "parameters": BASH}}],
    "metadata": {"sessionId": "s", "promptId": "p"},
    "max_tokens": 8000,
}

LITELLM = {
    "model": "gpt-x",
    "messages": [
        {"role": "user", "content": "List it."},
        {
            "role": "assistant",
            "tool_calls": [
                {
                    "index": 0,
                    "id": "call_l",
                    "type": "function",
                    "function": {"name": "bash", "arguments": '{"command":"ls"}'},
                    "provider_specific_fields": None,
                }
            ],
            "function_call": None,
            "provider_specific_fields": {"refusal": None},
            "annotations": [],
        },
        {"role": "tool", "name": "bash", "tool_call_id": "call_l", "content": "a.py"},
    ],
    "tools": [{"type": "function", "function": {"name": "bash", "parameters": BASH, "strict": False}}],
}

GPTME = {
    "model": "local",
    "messages": [
        {"role": "system", "content": "You are gptme."},
        {"role": "system", "content": [text("# Project")]},
        {"role": "system", "content": "Today is Monday."},
        {"role": "user", "content": [text("List it.")]},
        {
            "role": "assistant",
            "tool_calls": [
                {"id": "call_g", "type": "function", "function": {"name": "shell", "arguments": '{"command": "ls"}'}}
            ],
        },
        {"role": "tool", "tool_call_id": "call_g", "content": [text("a.py")]},
    ],
    "tools": [{"type": "function", "function": {"name": "shell", "parameters": BASH}}],
    "temperature": 0,
    "top_p": 0.1,
    "stream": True,
}

SMOLAGENTS = {
    "model": "local",
    "messages": [
        {"role": "system", "content": [text("You solve tasks with tools.")]},
        {"role": "user", "content": [text("New task:\nList it.")]},
        {"role": "assistant", "content": [text('Calling tools:\n[{"function": {"name": "ls", "arguments": {}}}]')]},
        {"role": "user", "content": [text("Observation:\na.py")]},
    ],
    "stop": ["Observation:", "Calling tools:"],
    "tools": [
        {
            "type": "function",
            "function": {
                "name": "ls",
                "description": "Lists.",
                "parameters": {"type": "object", "properties": {}, "required": []},
            },
        },
        {"type": "function", "function": {"name": "final_answer", "description": "Ends.", "parameters": BASH}},
    ],
    "tool_choice": "required",
}

PI = {
    "model": "local",
    "messages": [{"role": "developer", "content": "Be kind."}, {"role": "user", "content": [text("List it.")]}],
    "stream": True,
    "stream_options": {"include_usage": True},
    "store": False,
    "max_completion_tokens": 16384,
    "tools": [
        {"type": "function", "function": {"name": "bash", "description": "Runs.", "parameters": BASH, "strict": False}}
    ],
    "reasoning_effort": "medium",
}

LITELLM_MESSAGES = {
    "model": "claude",
    "max_tokens": 4096,
    "system": [{"type": "text", "text": "Be kind."}],
    "messages": [
        {"role": "user", "content": [text("List it.")]},
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "call_l", "name": "bash", "input": {"command": "ls"}}],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call_l", "content": "a.py"}]},
    ],
    "tools": [{"type": "custom", "name": "bash", "input_schema": BASH}],
    "tool_choice": {"type": "auto", "disable_parallel_tool_use": True},
}

QWEN_MESSAGES = {
    "model": "claude",
    "max_tokens": 64000,
    "temperature": 1,
    "stream": True,
    "thinking": {"type": "enabled", "budget_tokens": 32000},
    "system": [text("You are Qwen Code.", cache_control=MARK)],
    "messages": [{"role": "user", "content": [text("List it.", cache_control=MARK)]}],
    "tools": [{"name": "list", "description": "Lists.", "input_schema": BASH, "cache_control": MARK}],
}

AI_SDK_MESSAGES = {
    "model": "claude",
    "max_tokens": 4096,
    "stream": True,
    "messages": [{"role": "user", "content": [text("List it.")]}],
    "tools": [{"name": "bash", "input_schema": BASH, "eager_input_streaming": True}],
    "tool_choice": {"type": "auto"},
}

REQUESTS: dict[str, tuple[Protocol, Json]] = {
    "Claude Code": (A, CLAUDE_CODE),
    "opencode": (C, OPENCODE),
    "aider": (C, AIDER),
    "qwen": (C, QWEN_CODE),
    "LiteLLM": (C, LITELLM),
    "gptme": (C, GPTME),
    "smolagents": (C, SMOLAGENTS),
    "pi": (C, PI),
    "LiteLLM on Messages": (A, LITELLM_MESSAGES),
    "qwen on Messages": (A, QWEN_MESSAGES),
    "AI SDK on Messages": (A, AI_SDK_MESSAGES),
}


@every_upstream
@each("name", REQUESTS)
def test_the_request_of_a_real_client_becomes_one_that_the_upstream_takes(name: str, upstream: Protocol) -> None:
    client, said = REQUESTS[name]
    sent = (
        ask_anything(said, client, upstream) if (name, upstream) == ("Claude Code", A) else ask(said, client, upstream)
    )
    assert sent.names == [tool.get("name") or tool["function"]["name"] for tool in said.get("tools", [])]
    assert "List it." in sent.raw.decode() or name == "aider"


@each("name", REQUESTS)
def test_the_request_of_a_real_client_loses_nothing_to_an_upstream_of_its_own_protocol(name: str) -> None:
    """What is not there afterwards was null, or says nothing to the upstream."""
    client, said = REQUESTS[name]
    sent = ask_anything(said, client, client)
    gone = said.keys() - sent.body.keys()
    assert gone <= ({"max_completion_tokens"} if client == C else {"temperature"}), gone
    assert [note for note in sent.notes if note.kind != "history"] == []


def test_claude_code_on_another_upstream() -> None:
    sent = ask(CLAUDE_CODE, A, C)
    assert sent.roles == ["system", "user", "user", "assistant", "tool", "tool", "user"]
    assert "billing" not in sent.raw.decode()
    assert sent.results[0] == ("toolu_01", "<tool_use_error>no such tool</tool_use_error>")
    assert sent.body["reasoning_effort"] == "high"
    assert sent.said[-1] == ("user", "CRITICAL: Respond with TEXT ONLY.")
    assert b"cache_control" not in sent.raw
    assert b"defer_loading" not in sent.raw
    assert set(sent.kinds) == {"history", "left_out"}
    dropped = {note.what for note in sent.notes if note.what}
    assert dropped == {"cache_control", "context_management", "metadata.user_id", "metadata", "tools.defer_loading"}


def test_claude_code_on_its_own_upstream_is_what_it_said() -> None:
    sent = ask_anything(CLAUDE_CODE, A, A)
    for name in ("system", "thinking", "output_config", "context_management", "metadata", "max_tokens", "stream"):
        assert sent.body[name] == CLAUDE_CODE[name]
    assert sent.messages[1] == {"role": "system", "content": [text("The user has opened a.py.")]}
    assert [block["type"] for block in sent.messages[2]["content"]] == ["thinking", "text", "tool_use", "tool_use"]


def test_gptme_may_send_three_system_messages_to_an_upstream_that_takes_one() -> None:
    sent = ask(GPTME, C, C, openai_chat.Dialect(system="first"))
    assert sent.roles == ["system", "user", "assistant", "tool"]
    assert sent.system == ["You are gptme.\n\n# Project\n\nToday is Monday."]


@every_upstream
def test_smolagents_never_sends_results_and_its_stop_strings_are_kept(upstream: Protocol) -> None:
    sent = ask(SMOLAGENTS, C, upstream)
    assert sent.calls == []
    assert sent.body["stop_sequences" if upstream == A else "stop"] == ["Observation:", "Calling tools:"]
    assert sent.body["tool_choice"] == ({"type": "any"} if upstream == A else "required")


def test_qwen_asks_an_upstream_of_its_protocol_for_its_thinking_back_where_it_is_wanted() -> None:
    assert "reasoning_content" not in ask(QWEN_CODE, C, C).messages[2]
    sent = ask_anything(QWEN_CODE, C, C, openai_chat.Dialect(replay_reasoning=True))
    assert sent.messages[2]["reasoning_content"] == "A listing is wanted."


@every_upstream
@each(
    "history",
    [
        {"role": "assistant", "tool_calls": []},
        {"role": "assistant", "content": None, "tool_calls": None, "function_call": None, "audio": None},
        {"role": "assistant", "content": "", "refusal": None, "annotations": []},
    ],
)
def test_the_leftovers_of_model_dump_are_taken(upstream: Protocol, history: Json) -> None:
    sent = ask(asking(C, user("hi"), [history], user("go on")), C, upstream)
    assert sent.roles == ["user", "assistant", "user"]


@every_client
@every_upstream
def test_fields_nobody_knows_are_never_refused(client: Protocol, upstream: Protocol) -> None:
    turns = [*user("hi"), *assistant("hello"), *user("go")]
    for turn in turns:
        turn["x_trace"] = {"id": 1}
    said = asking(
        client, turns, tools=[{**tool(client, "read"), "x_origin": "mcp"}], x_client={"name": "n"}, verbosity="low"
    )
    sent = ask(said, client, upstream)
    assert ("x_client" in sent.body) is (client == upstream)
    lost = {note.what for note in sent.notes}
    assert lost == (set() if client == upstream else {"x_client", "verbosity"})


@every_upstream
def test_a_title_request_without_tools_is_small(upstream: Protocol) -> None:
    said = asking(C, [{"role": "system", "content": "Make a title."}], user("List it."), max_tokens=20, stream=True)
    sent = ask(said, C, upstream)
    assert "tools" not in sent.body
    assert sent.body["max_tokens"] == 20
