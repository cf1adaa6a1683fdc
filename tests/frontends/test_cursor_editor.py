"""Requests of Cursor's editor to Chat Completions: what upstreams get, and what the editor gets back."""

import json
from collections.abc import Callable
from typing import Any

from tests.cases import leg
from tests.catalogue.serving import BEGUN, DIALECTS, MODEL, Backend, Ear, Heard, Stand, heard, serving
from tests.each import each
from tieline.app.config import ClientSettings
from tieline.frontends.chat import is_cursor_editor
from tieline.frontends.http import AsgiCycle, Exchange
from tieline.model.content import Part, Text, Thinking, ToolCall
from tieline.model.events import Event, Failed, StopReason
from tieline.sim.answers import streamed, whole
from tieline.sim.model import Answer, Pause, Received
from tieline.wire.openai_chat import parse_request

PATH = "/v1/chat/completions"
ALIASES = {"tl-fast": f"oai/{MODEL}", "tl-deep": f"ant/{MODEL}"}
OPENAI = {"freeform_tools": True, "cache_key": True}
"""What OpenAI's own API accepts and compatible servers may not."""
PATCH = "*** Begin Patch\n*** Add File: a\n+x\n*** End Patch"
READ = {
    "type": "function",
    "name": "Read",
    "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
}
APPLY_PATCH = {
    "type": "custom",
    "name": "ApplyPatch",
    "description": "p",
    "format": {"type": "grammar", "syntax": "lark", "definition": "start: X"},
}


def answers(backend: Backend, *parts: tuple[Part, list[str]]) -> Callable[[Received], Answer]:
    """An answer of these parts, streamed or whole as it is requested."""
    reason = StopReason.TOOL_USE if any(isinstance(part, ToolCall) for part, _ in parts) else StopReason.END_TURN
    events: list[Event] = leg(*parts, reason=reason)
    dialect = DIALECTS[backend]
    return lambda request: streamed(dialect, events) if request.json.get("stream") else whole(dialect, events)


def calls(backend: Backend, *arguments: str, name: str = "Read") -> Callable[[Received], Answer]:
    return answers(backend, (ToolCall(id="call_1", name=name), list(arguments)))


HELLO = (Text(), ["Hel", "lo"])


async def post(stand: Stand, body: dict[str, Any], **headers: str) -> Heard:
    response = await stand.http.post(PATH, json=body, headers={k.replace("_", "-"): v for k, v in headers.items()})
    return heard("openai_chat", response.status_code, response.headers, response.content)


async def upstream(stand: Stand, backend: Backend, body: dict[str, Any], **headers: str) -> Any:
    """The request that an upstream gets for a request of the editor."""
    stand.script(backend, answers(backend, HELLO))
    response = await post(stand, body, **headers)
    assert (response.status, response.text) == (200, "Hello"), response.raw
    return stand.asked(backend)[-1].json


def deltas(response: Heard) -> list[Any]:
    return [choice["delta"] for frame in response.frames for choice in frame["choices"]]


def tool_calls(response: Heard) -> list[Any]:
    return [call for delta in deltas(response) for call in delta.get("tool_calls", ())]


def finish(response: Heard) -> Any:
    return next(choice["finish_reason"] for frame in response.frames[::-1] for choice in frame["choices"])


def editor_stand(**settings: Any) -> Any:
    return serving(settings={"aliases": ALIASES, **settings})


# ── Examples ─────────────────────────────────────────────────────────────────────────────────────

E1 = {
    "model": "tl-fast",
    "temperature": 0,
    "user": "u1",
    "messages": [
        {"role": "system", "content": "S"},
        {"role": "user", "content": "ctx"},
        {"role": "user", "content": "hi"},
    ],
    "tools": None,
    "tool_choice": "auto",
    "stream": True,
    "stream_options": {"include_usage": True},
    "reasoning": {"effort": "minimal"},
}
E3 = {
    "model": "tl-deep-thinking-high",
    "messages": None,
    "input": [
        {"role": "system", "content": "S"},
        {"role": "user", "content": [{"type": "input_text", "text": "read a.py"}]},
    ],
    "tools": [{**READ, "strict": False}],
    "stream": True,
    "stream_options": {"include_usage": True},
    "reasoning": {"effort": "medium", "summary": "auto"},
    "include": ["reasoning.encrypted_content"],
    "store": False,
    "text": {"verbosity": "low"},
    "metadata": {"cursorConversationId": "c-1"},
}
E7 = {
    "model": "tl-deep",
    "messages": None,
    "instructions": "S",
    "input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "compare a and b"}]}],
    "tools": [READ, APPLY_PATCH],
    "tool_choice": "auto",
    "stream": True,
    "stream_options": {"include_usage": True},
    "reasoning": {"effort": "high", "summary": "auto"},
    "include": ["reasoning.encrypted_content"],
    "store": True,
    "truncation": "disabled",
    "prompt_cache_retention": "24h",
    "text": {"verbosity": "low"},
    "metadata": {"cursorConversationId": "c-2"},
    "user": "u1",
}


async def test_e01_a_question_without_tools() -> None:
    async with editor_stand() as stand:
        got = await upstream(stand, "oai", E1, user_agent="Cursor/3.14.27")
        assert [message["content"] for message in got["messages"]] == ["S", "ctx", "hi"]
        assert not {"tools", "tool_choice", "reasoning"} & got.keys()
        assert (got["reasoning_effort"], got["temperature"]) == ("minimal", 0)
        got = await upstream(stand, "ant", {**E1, "model": "tl-deep"}, user_agent="Cursor/3.14.27")
        assert [message["role"] for message in got["messages"]] == ["user"]
        assert "tools" not in got


async def test_e01_the_answer_ends_with_usage_and_done() -> None:
    async with editor_stand() as stand:
        stand.script("ant", answers("ant", HELLO))
        response = await post(stand, {**E1, "model": "tl-deep"})
        assert (response.text, finish(response), response.done) == ("Hello", "stop", True)
        last = response.frames[-1]
        assert last["choices"] == []
        assert {"prompt_tokens", "completion_tokens", "total_tokens"} <= last["usage"].keys()
        assert "cached_tokens" in last["usage"]["prompt_tokens_details"]
        assert "reasoning_tokens" in last["usage"]["completion_tokens_details"]


@each("backend", ["ant", "oai"])
async def test_e02_k02_a_patch_is_a_function_call_with_raw_text(backend: Backend) -> None:
    model = "tl-fast" if backend == "oai" else "tl-deep"
    body = {**E7, "model": model, "tools": [READ, APPLY_PATCH]}
    async with editor_stand() as stand:
        stand.script(backend, calls(backend, json.dumps({"input": PATCH}), name="ApplyPatch"))
        response = await post(stand, body)
        first, *rest = tool_calls(response)
        assert first == {
            "index": 0,
            "id": "call_1",
            "type": "function",
            "function": {"name": "ApplyPatch", "arguments": ""},
        }
        assert "".join(call["function"]["arguments"] for call in rest) == PATCH
        assert all(call.keys() == {"index", "function"} for call in rest)
        assert finish(response) == "tool_calls"
        assert {frame["object"] for frame in response.frames} == {"chat.completion.chunk"}


async def test_e02_the_text_of_a_patch_is_streamed() -> None:
    pieces = ["*** Begin Patch\n", "*** End Patch"]
    async with serving(settings={"aliases": ALIASES}, dialect=OPENAI) as stand:
        stand.script("oai", answers("oai", (ToolCall(id="c", name="ApplyPatch", freeform=True), pieces)))
        response = await post(stand, {**E7, "model": "tl-fast"})
        assert [call["function"]["arguments"] for call in tool_calls(response)] == ["", *pieces]


async def test_e03_k09_an_agent_turn_in_the_shape_of_another_api() -> None:
    async with editor_stand() as stand:
        got = await upstream(stand, "ant", E3)
        assert [block["text"] for block in got["system"]] == ["S"]
        assert got["messages"][0]["content"][0]["text"] == "read a.py"
        assert [tool["name"] for tool in got["tools"]] == ["Read"]
        assert got["output_config"] == {"effort": "medium"}, "the body takes precedence over the name"
        got = await upstream(stand, "oai", {**E3, "model": "tl-fast"})
        assert got.keys() == {"model", "stream", "stream_options", "reasoning_effort", "tools", "messages"}
        assert got["stream_options"] == {"include_usage": True}


async def test_e03_k08_the_call_has_index_0_after_thinking() -> None:
    async with editor_stand() as stand:
        call = (ToolCall(id="call_7", name="Read"), ['{"path":', '"a.py"}'])
        stand.script("ant", answers("ant", (Thinking(signature="c2ln"), ["hm"]), call))
        response = await post(stand, E3)
        assert [(call["index"], call["function"]["arguments"]) for call in tool_calls(response)] == [
            (0, ""),
            (0, '{"path":"a.py"}'),
        ]
        assert "".join(delta.get("reasoning_content", "") for delta in deltas(response)) == "hm"


async def test_e04_the_second_turn_gets_the_thinking_of_the_first_back() -> None:
    body = {
        "model": "tl-deep",
        "messages": [],
        "input": [
            {"role": "user", "content": "read a.py"},
            {"type": "function_call", "call_id": "call_7", "name": "Read", "arguments": '{"path":"a.py"}'},
            {"type": "function_call_output", "call_id": "call_7", "output": "print(1)"},
        ],
        "tools": [],
        "stream": True,
        "metadata": {"cursorConversationId": "c-1"},
    }
    async with editor_stand() as stand:
        call = (ToolCall(id="call_7", name="Read"), ['{"path":"a.py"}'])
        stand.script("ant", answers("ant", (Thinking(signature="c2ln"), ["hm"]), call))
        await post(stand, E3)
        got = await upstream(stand, "ant", {**body, "reasoning": {"effort": "medium"}, "tools": [READ]})
        thinking, used = got["messages"][1]["content"]
        assert thinking == {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
        assert (used["id"], used["input"]) == ("call_7", {"path": "a.py"})
        assert got["messages"][2]["content"][0]["tool_use_id"] == "call_7"
        got = await upstream(stand, "oai", {**body, "model": "tl-fast"})
        assert [message["role"] for message in got["messages"]] == ["user", "assistant", "tool"]


async def test_e05_a_replayed_patch_is_a_custom_call_upstream() -> None:
    function = {"name": "ApplyPatch", "arguments": PATCH}
    body = {
        "model": "tl-fast",
        "messages": [
            {"role": "user", "content": "patch"},
            {
                "role": "assistant",
                "content": [],
                "tool_calls": [{"id": "call_1", "index": 0, "type": "function", "function": function}],
            },
            {"role": "tool", "tool_call_id": "call_1", "content": "Done"},
        ],
        "tools": [{"type": "custom", "name": "ApplyPatch"}],
        "stream": True,
    }
    async with serving(settings={"aliases": ALIASES}, dialect=OPENAI) as stand:
        got = await upstream(stand, "oai", body)
        assert got["messages"][1] == {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "call_1", "type": "custom", "custom": {"name": "ApplyPatch", "input": PATCH}}],
        }
        assert got["messages"][2] == {"role": "tool", "tool_call_id": "call_1", "content": "Done"}


async def test_e06_anthropic_shapes_keep_their_cache_mark() -> None:
    body = {
        "model": "tl-deep",
        "system": [{"type": "text", "text": "S", "cache_control": {"type": "ephemeral"}}],
        "messages": [
            {"role": "user", "content": "read a"},
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
        "tools": [{"name": "Read", "input_schema": {"type": "object"}}],
        "tool_choice": {"type": "auto"},
        "max_tokens": 4096,
        "stream": True,
    }
    async with editor_stand() as stand:
        got = await upstream(stand, "ant", body)
        assert got["system"] == [{"type": "text", "text": "S", "cache_control": {"type": "ephemeral"}}]
        assert [block["type"] for block in got["messages"][2]["content"]] == ["tool_result", "text"]
        assert (got["tool_choice"], got["max_tokens"]) == ({"type": "auto"}, 4096)


async def test_e07_text_and_two_calls() -> None:
    async with editor_stand() as stand:
        first, second = (ToolCall(id=f"call_{letter}", name="Read") for letter in "ab")
        texts = '{"path":"a"}', '{"path":"b"}'
        stand.script("ant", answers("ant", (Text(), ["Looking."]), (first, [texts[0]]), (second, [texts[1]])))
        response = await post(stand, E7)
        assert response.text == "Looking."
        starts = [call for call in tool_calls(response) if "id" in call]
        assert [(call["index"], call["id"], call["type"]) for call in starts] == [
            (0, "call_a", "function"),
            (1, "call_b", "function"),
        ]
        assert (finish(response), response.done) == ("tool_calls", True)


async def test_e08_a_name_with_suffixes_of_a_name_that_ends_alike() -> None:
    body = {
        "model": "tl-fast-thinking-xhigh-fast",
        "messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "hi"}],
        "tools": [{"type": "custom", "custom": {"name": "ApplyPatch"}}],
        "tool_choice": {"type": "custom", "custom": {"name": "ApplyPatch"}},
        "stream": True,
    }
    async with serving(settings={"aliases": ALIASES}, dialect=OPENAI) as stand:
        stand.script("oai", answers("oai", (ToolCall(id="call_1", name="ApplyPatch", freeform=True), [PATCH])))
        response = await post(stand, body)
        got = stand.asked("oai")[-1].json
        assert (got["model"], got["reasoning_effort"]) == (MODEL, "xhigh")
        assert got["tool_choice"] == {"type": "custom", "custom": {"name": "ApplyPatch"}}
        assert response.headers["x-tieline-dropped"] == "-fast"
        assert {frame["model"] for frame in response.frames} == {body["model"]}


async def test_e09_a_verification_request_gets_a_plain_answer() -> None:
    body = {
        "model": "tl-deep",
        "messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "T"}],
        "temperature": 1,
        "top_p": 1,
        "n": 1,
        "max_tokens": 10,
        "stream": False,
    }
    async with editor_stand() as stand:
        stand.script("ant", answers("ant", HELLO))
        [reply] = (await post(stand, body)).frames
        assert (reply["object"], reply["choices"][0]["finish_reason"]) == ("chat.completion", "stop")
        assert reply["choices"][0]["message"]["content"] == "Hello"


@each("image", ["data:image/png;base64,AA==", {"url": "data:image/png;base64,AA=="}])
async def test_e11_an_image_and_the_result_of_a_patch(image: Any) -> None:
    body = {
        "model": "tl-deep",
        "input": [
            {
                "role": "user",
                "content": [{"type": "input_image", "image_url": image}, {"type": "input_text", "text": "apply this"}],
            },
            {"type": "custom_tool_call", "call_id": "call_9", "name": "ApplyPatch", "input": PATCH},
            {"type": "custom_tool_call_output", "call_id": "call_9", "output": "ok"},
        ],
        "tools": [{"type": "custom", "name": "ApplyPatch"}],
        "stream": True,
    }
    async with editor_stand() as stand:
        got = await upstream(stand, "ant", body)
        assert [block["type"] for block in got["messages"][0]["content"]] == ["image", "text"]
        assert got["messages"][1]["content"][0]["input"] == {"input": PATCH}
        assert got["messages"][2]["content"][0]["tool_use_id"] == "call_9"


async def test_e12_a_wrong_key_and_an_unknown_model_are_errors_in_the_form_of_openai() -> None:
    async with editor_stand() as stand:
        error = (await post(stand, E3, x_api_key="wrong")).check_failed(401)
        assert error["code"] == "invalid_api_key"
        error = (await post(stand, {**E3, "model": "tl-dep"})).check_failed(404)
        assert error["code"] == "model_not_found"
        assert "tl-deep" in error["message"]


# ── Failures ─────────────────────────────────────────────────────────────────────────────────────


async def test_k01_a_body_without_messages_and_input_names_the_field() -> None:
    async with editor_stand() as stand:
        error = (await post(stand, {"model": "tl-fast", "messages": [], "stream": True})).check_failed(400)
        assert error["param"] == "messages"
        error = (await post(stand, {"model": "tl-fast", "input": [{"role": "nobody"}]})).check_failed(400)
        assert error["param"] == "input[0].role"


@each(
    ("body", "headers"),
    [
        ({"metadata": {"cursorConversationId": "c"}}, {}),
        ({}, {"user_agent": "Cursor/3.18.25"}),
        ({}, {"user_agent": "cursor/3"}),
        ({}, {"x_cursor_client_version": "3.14.27"}),
        ({"messages": None, "input": "hi"}, {}),
    ],
)
async def test_k05_the_editor_is_recognised_and_never_gets_a_custom_call(body: Any, headers: Any) -> None:
    asked = {"model": "tl-fast", "messages": [{"role": "user", "content": "hi"}], "tools": [APPLY_PATCH], **body}
    async with serving(settings={"aliases": ALIASES}, dialect=OPENAI) as stand:
        for stream in (True, False):
            stand.script("oai", answers("oai", (ToolCall(id="c", name="ApplyPatch", freeform=True), [PATCH])))
            response = await post(stand, {**asked, "stream": stream}, **headers)
            assert '"custom"' not in response.raw.decode()
            assert '"type":"function"' in response.raw.decode()


@each(
    ("path", "is_editor"),
    [
        ("/cursor/chat/completions", True),
        ("/cursor/v1/chat/completions", True),
        ("/openai/deployments/tl-fast/chat/completions", True),
        ("/v1/chat/completions", False),
    ],
)
def test_the_editor_is_recognised_by_its_paths(path: str, is_editor: bool) -> None:
    async def unused(*_: Any) -> Any:
        raise AssertionError("parsing sends and receives nothing")

    cycle = AsgiCycle({"method": "POST", "path": path, "headers": []}, unused, unused)
    body = b'{"messages":[{"role":"user","content":"hi"}]}'
    assert is_cursor_editor(Exchange(cycle, 1024), parse_request(body)) is is_editor


async def test_other_clients_get_custom_calls() -> None:
    asked = {"model": "tl-fast", "messages": [{"role": "user", "content": "hi"}], "tools": [APPLY_PATCH]}
    async with serving(settings={"aliases": ALIASES}, dialect=OPENAI) as stand:
        for headers in ({}, {"user_agent": "Mozilla/5.0 Cursor/1"}):
            stand.script("oai", answers("oai", (ToolCall(id="c", name="ApplyPatch", freeform=True), [PATCH])))
            response = await post(stand, {**asked, "metadata": {"other": "x"}}, **headers)
            assert response.frames[0]["choices"][0]["message"]["tool_calls"][0]["type"] == "custom"


@each(
    ("model", "effort"),
    [("tl-fast-thinking-high", "high"), ("tl-fast-xhigh", "xhigh"), ("tl-fast-fast", None), ("tl-fast-thinking", None)],
)
async def test_k10_k17_a_suffix_of_the_picker_is_resolved(model: str, effort: str | None) -> None:
    body = {"model": model, "messages": [{"role": "user", "content": "hi"}]}
    async with editor_stand() as stand:
        got = await upstream(stand, "oai", body)
        assert (got["model"], got.get("reasoning_effort")) == (MODEL, effort)
        got = await upstream(stand, "oai", {**body, "reasoning_effort": "low"})
        assert got["reasoning_effort"] == "low"


async def test_k10_a_suffix_on_a_full_name_turns_thinking_on() -> None:
    async with editor_stand() as stand:
        got = await upstream(stand, "ant", {"model": f"ant/{MODEL}-thinking", "input": "hi", "max_tokens": 4000})
        assert got["thinking"] == {"type": "adaptive"}
        assert got["max_tokens"] == 4000


async def test_k15_the_conversation_is_the_cache_key_and_the_user_is_not() -> None:
    async with serving(settings={"aliases": ALIASES}, dialect=OPENAI) as stand:
        assert (await upstream(stand, "oai", {**E7, "model": "tl-fast"}))["prompt_cache_key"] == "c-2"
        own = await upstream(stand, "oai", {**E7, "model": "tl-fast", "prompt_cache_key": "mine"})
        assert own["prompt_cache_key"] == "mine"
        assert "prompt_cache_key" not in await upstream(stand, "oai", {**E1, "user": "u1"})
        long = await upstream(stand, "oai", {**E7, "model": "tl-fast", "metadata": {"cursorConversationId": "x" * 99}})
        assert len(long["prompt_cache_key"]) <= 64


async def test_k16_an_answer_cut_by_a_low_limit_says_so() -> None:
    async with editor_stand() as stand:
        stand.script("ant", streamed("anthropic", leg((Text(), ["half"]), reason=StopReason.MAX_TOKENS)))
        assert finish(await post(stand, {**E7, "max_tokens": 4096})) == "length"


@each("backend", ["ant", "oai"])
async def test_k20_thinking_comes_with_the_text_or_within_it(backend: Backend) -> None:
    body = {**E7, "model": "tl-fast" if backend == "oai" else "tl-deep"}
    parts = (Thinking(), ["hm"]), HELLO
    async with editor_stand() as stand:
        stand.script(backend, answers(backend, *parts))
        response = await post(stand, body)
        assert response.text == "Hello"
        assert "".join(delta.get("reasoning_content", "") for delta in deltas(response)) == "hm"
    async with editor_stand(clients={"cursor": ClientSettings(reasoning="think")}) as stand:
        stand.script(backend, answers(backend, *parts))
        response = await post(stand, body)
        assert response.text == "<think>\nhm\n</think>\n\nHello"
        said = {"role": "assistant", "content": response.text}
        asked = {"role": "user", "content": "more"}
        got = await upstream(stand, backend, {**body, "input": [asked, said, asked], "tools": []})
        assert "think>" not in json.dumps(got["messages"])


@each(("clients", "pieces"), [({}, 1), ({"cursor": ClientSettings(arguments="incremental")}, 2)])
async def test_the_arguments_of_a_plan_arrive_whole_unless_configured(clients: Any, pieces: int) -> None:
    plan = {"type": "function", "name": "CreatePlan", "parameters": {"type": "object", "properties": {}}}
    async with editor_stand(clients=clients, arguments="incremental") as stand:
        stand.script("ant", calls("ant", '{"name":"a', '.plan.md"}', name="CreatePlan"))
        response = await post(stand, {**E7, "tools": [plan]})
        arguments = [call["function"]["arguments"] for call in tool_calls(response)][1:]
        assert (len(arguments), "".join(arguments)) == (pieces, '{"name":"a.plan.md"}')


async def test_the_entry_of_the_editor_does_not_apply_to_other_clients() -> None:
    clients = {"cursor": ClientSettings(reasoning="none", freeform="custom")}
    body = {"model": "tl-fast", "messages": [{"role": "user", "content": "hi"}], "stream": True}
    async with editor_stand(clients=clients) as stand:
        stand.script("oai", answers("oai", (Thinking(), ["hm"]), HELLO), answers("oai", (Thinking(), ["hm"]), HELLO))
        assert "hm" in (await post(stand, body)).raw.decode()
        assert "hm" not in (await post(stand, body, user_agent="Cursor/3")).raw.decode()


async def test_a_failure_after_the_first_byte_is_a_line_with_the_error() -> None:
    async with editor_stand() as stand:
        pause = Pause()
        failure = Failed(kind="bad_request", status=400, message="no more")
        stand.script("ant", streamed("anthropic", [*BEGUN, pause, failure]))
        async with stand.http.stream("POST", PATH, json=E3) as streaming:
            ear = Ear("openai_chat", streaming)
            await ear.until(b"Hel")
            pause.set()
            response = await ear.rest()
        assert (response.status, response.text, response.done) == (200, "Hel", False)
        assert response.frames[-1]["error"]["message"] == "no more"
