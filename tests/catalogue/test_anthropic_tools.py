"""Tools that Anthropic defines and the client runs, and tools that are added in the middle of a conversation."""

import json
from typing import Any

import pytest

from tests.catalogue.asking import Json, ask, ask_anything, asking, assistant, results, user
from tests.catalogue.crossing import Crossing, call_delta, chat_stream, cross
from tests.catalogue.serving import STREAMED_OR_WHOLE, serving
from tieline.sim.model import Answer
from tieline.wire import anthropic
from tieline.wire.cursor.opening.offered_tools import OfferedTools

BASH: Json = {"type": "bash_20250124", "name": "bash"}
EDITOR: Json = {"type": "text_editor_20250728", "name": "str_replace_based_edit_tool", "max_characters": 1000}
OLD_EDITOR: Json = {"type": "text_editor_20250124", "name": "str_replace_editor"}
MEMORY: Json = {"type": "memory_20250818", "name": "memory"}
SCREEN: Json = {
    "type": "computer_20251124",
    "name": "computer",
    "display_width_px": 1024,
    "display_height_px": 768,
    "enable_zoom": True,
}
TOOLS = [BASH, EDITOR, MEMORY, SCREEN]
USES: list[tuple[Json, Json]] = [
    (BASH, {"command": "ls"}),
    (BASH, {"restart": True}),
    (EDITOR, {"command": "insert", "path": "/a", "insert_line": 0, "insert_text": "x"}),
    (OLD_EDITOR, {"command": "insert", "path": "/a", "insert_line": 0, "new_str": "x"}),
    (OLD_EDITOR, {"command": "undo_edit", "path": "/a"}),
    (MEMORY, {"command": "rename", "old_path": "/memories/a", "new_path": "/memories/b"}),
    (MEMORY, {"command": "view", "path": "/memories"}),
    (SCREEN, {"action": "left_click", "coordinate": [1, 2]}),
    (SCREEN, {"action": "zoom", "region": [0, 0, 10, 10]}),
]


# ── 153: tools with public schemas ───────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("tool", "given"), USES)
def test_153_tools_that_the_client_runs_are_functions_with_their_public_schema(tool: Json, given: Json) -> None:
    sent = ask(asking("anthropic", user("go"), tools=[tool]), "anthropic", "openai_chat")
    (function,) = [offered["function"] for offered in sent.body["tools"]]
    schema = function["parameters"]
    assert function["name"] == tool["name"]
    assert function["description"]
    assert given.keys() <= schema["properties"].keys()
    assert set(schema.get("required", ())) <= given.keys()
    word = given.get("command", given.get("action"))
    if tool is not BASH:
        assert word in schema["properties"]["action" if tool is SCREEN else "command"]["enum"]
    assert "left_out" not in sent.kinds


def test_153_the_screen_is_described_with_its_size() -> None:
    sent = ask(asking("anthropic", user("go"), tools=[SCREEN]), "anthropic", "openai_chat")
    assert "1024 x 768" in sent.body["tools"][0]["function"]["description"]


def test_153_at_home_they_stay_what_they_are() -> None:
    assert ask_anything(asking("anthropic", user("go"), tools=TOOLS), "anthropic", "anthropic").body["tools"] == TOOLS


def test_153_cursor_is_offered_them_too() -> None:
    request = anthropic.parse_request(json.dumps(asking("anthropic", user("go"), tools=TOOLS)).encode())
    offer = OfferedTools.of_request(request)
    assert list(offer.specs) == [tool["name"] for tool in TOOLS]
    assert not [note for note in offer.notes if note.kind == "left_out"]


@STREAMED_OR_WHOLE
async def test_153_a_call_comes_back_under_the_tools_own_name_and_its_history_is_understood(stream: bool) -> None:
    call = chat_stream(call_delta(0, '{"command":"ls"}', id="call_1", name="bash"), finish="tool_calls")
    async with serving() as stand:
        stand.script("oai", Answer(chunks=(call,)), Answer(chunks=(chat_stream({"content": "Done."}),)))
        heard = await stand.ask("anthropic", "oai", stream=stream, tools=TOOLS)
        blocks = [b for f in heard.frames for b in (f.get("content_block"), *(f.get("content") or ())) if b]
        assert [(block["type"], block["name"]) for block in blocks] == [("tool_use", "bash")]
        made = [{"type": "tool_use", "id": "call_1", "name": "bash", "input": {"command": "ls"}}]
        said = [*user("go"), {"role": "assistant", "content": made}, *results("anthropic", ("call_1", "a.txt"))]
        await stand.ask("anthropic", "oai", stream=stream, tools=TOOLS, messages=said)
        history = stand.asked("oai")[-1].json["messages"]
        assert history[1]["tool_calls"][0]["function"]["name"] == "bash"
        assert history[2]["content"] == "a.txt"


# ── 154: tools added in the middle ───────────────────────────────────────────────────────────────

DEFINED: Json = {"name": "weather", "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}}}
REFERENCE: Json = {"type": "tool_addition", "tool": {"type": "tool_reference", "name": "read"}}
DEFINITION: Json = {"type": "tool_addition", "tool": {"type": "tool_definition", "definition": DEFINED}}
READ: Json = {"name": "read", "input_schema": {"type": "object", "properties": {}}, "defer_loading": True}


def _adding(*blocks: Json, text: bool = False) -> Json:
    words: list[Any] = [{"type": "text", "text": "There are more tools now."}] if text else []
    system = {"role": "system", "content": [*words, *blocks]}
    return asking("anthropic", user("hi"), assistant("Yes?"), user("go"), [system], tools=[READ])


@pytest.mark.parametrize("text", [True, False])
def test_154_tools_added_by_a_system_message_stay_in_the_same_protocol(text: bool) -> None:
    said = _adding(REFERENCE, DEFINITION, text=text)
    sent = ask_anything(said, "anthropic", "anthropic")
    assert sent.messages[-1] == said["messages"][-1]
    assert sent.body["tools"] == [READ]


def test_154_added_tools_are_offered_to_other_upstreams() -> None:
    sent = ask(_adding(REFERENCE, DEFINITION, text=True), "anthropic", "openai_chat")
    assert sent.tools["weather"] == DEFINED["input_schema"]
    assert list(sent.tools) == ["read", "weather"]
    assert "There are more tools now." in json.dumps(sent.messages)


def test_154_a_tool_that_is_taken_away_is_named_where_that_cannot_be_said() -> None:
    removal = {"type": "tool_removal", "tool": {"type": "tool_reference", "name": "read"}}
    sent = ask(_adding(removal), "anthropic", "openai_chat")
    assert "tool_removal" in [note.what for note in sent.notes]


def test_154_a_call_of_an_added_tool_reaches_the_client() -> None:
    sent = ask(_adding(DEFINITION), "anthropic", "openai_chat")
    data = chat_stream(call_delta(0, '{"city":"Oslo"}', id="call_1", name="weather"), finish="tool_calls")
    seen = cross(data, "openai_chat", Crossing("anthropic", True), spelled=sent.spelled)
    assert seen.names == ["weather"]


# ── 155: definitions below the root ──────────────────────────────────────────────────────────────


@pytest.mark.parametrize("upstream", ["openai_chat", "anthropic"])
def test_155_a_schema_inside_another_keeps_the_meaning_of_its_references(upstream: Any) -> None:
    def inner(kind: str) -> Json:
        return {
            "type": "object",
            "properties": {"item": {"$ref": "#/$defs/Item"}},
            "$defs": {
                "Item": {"type": "object", "properties": {"name": {"$ref": "#/$defs/Name"}}},
                "Name": {"type": kind},
            },
        }

    schema = {"type": "object", "properties": {"values": inner("string"), "others": inner("integer")}}
    function = {"type": "function", "function": {"name": "json_tool_call", "parameters": schema}}
    sent = ask(asking("openai_chat", user("go"), tools=[function]), "openai_chat", upstream)
    properties = sent.tools["json_tool_call"]["properties"]
    for name, kind in (("values", "string"), ("others", "integer")):
        item = properties[name]["properties"]["item"]
        assert item == {"type": "object", "properties": {"name": {"type": kind}}}
