"""Cursor's editor in its modes, with the demo model behind every kind of backend that can be simulated here."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest

from tests.catalogue.serving import KEY, Heard, heard
from tests.catalogue.serving import serving as serving_apis
from tests.e2e.cursor_support import DEMO, eager
from tests.e2e.cursor_support import serving as serving_cursor

__all__ = ["eager"]

PATCH = "*** Begin Patch"
READ = {
    "type": "function",
    "name": "Read",
    "description": "Read a file.",
    "parameters": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
}
CREATE_PLAN = {
    "type": "function",
    "name": "CreatePlan",
    "description": "Create a plan file.",
    "parameters": {
        "type": "object",
        "properties": {"name": {"type": "string"}, "content": {"type": "string"}},
        "required": ["name", "content"],
    },
}
APPLY_PATCH = {"type": "custom", "name": "ApplyPatch", "description": "Apply a patch.", "format": {"type": "text"}}


class Editor:
    """A conversation of the editor in agent mode, with a body of the Responses API."""

    def __init__(self, url: str, http: httpx2.AsyncClient, model: str) -> None:
        self._url = url
        self._http = http
        self._model = model
        self.items: list[Any] = [{"role": "system", "content": "You are in an editor."}]

    async def ask(self, words: str, *tools: Any) -> Heard:
        """Send a message, and keep it and the answer in the history."""
        self.items.append({"role": "user", "content": [{"type": "input_text", "text": words}]})
        return await self.send(*tools)

    async def send(self, *tools: Any) -> Heard:
        body = {
            "model": self._model,
            "messages": None,
            "input": self.items,
            "tools": list(tools),
            "tool_choice": "auto",
            "stream": True,
            "stream_options": {"include_usage": True},
            "store": True,
            "metadata": {"cursorConversationId": "c-1"},
        }
        response = await self._http.post(
            f"{self._url}/v1/chat/completions", json=body, headers={"authorization": f"Bearer {KEY}"}
        )
        answer = heard("openai_chat", response.status_code, response.headers, response.content)
        assert answer.done, answer.raw
        assert answer.frames[-1]["usage"]["total_tokens"] >= 0
        if answer.text:
            self.items.append({"role": "assistant", "content": [{"type": "output_text", "text": answer.text}]})
        return answer

    async def result(self, call: Any, output: str, *tools: Any) -> Heard:
        """Send the result of a call, which the editor replays as a function call."""
        self.items += [
            {
                "type": "function_call",
                "call_id": call["id"],
                "name": call["function"]["name"],
                "arguments": call["function"]["arguments"],
            },
            {"type": "function_call_output", "call_id": call["id"], "output": output},
        ]
        return await self.send(*tools)


def call_of(answer: Heard) -> Any:
    """The only call of an answer, as the editor puts it together."""
    deltas = [choice["delta"] for frame in answer.frames for choice in frame["choices"]]
    first, *rest = [call for delta in deltas for call in delta.get("tool_calls", ())]
    assert (first["index"], first["type"]) == (0, "function")
    assert len(first["id"]) <= 64
    assert all(call["index"] == 0 and "id" not in call for call in rest)
    function = first["function"]
    arguments = function["arguments"] + "".join(call["function"]["arguments"] for call in rest)
    return {**first, "function": {**function, "arguments": arguments}}


@asynccontextmanager
async def opened(backend: str) -> AsyncIterator[Editor]:
    async with httpx2.AsyncClient(timeout=60) as http:
        if backend == "cursor":
            async with serving_cursor("http1") as stand:
                yield Editor(stand.url, http, DEMO)
        else:
            async with serving_apis() as stand:
                yield Editor(stand.url, http, "demo/scripted")


pytestmark = [pytest.mark.parametrize("backend", ["demo", "cursor"]), pytest.mark.usefixtures("eager")]


async def test_a_question_without_tools_is_answered_in_text(backend: str) -> None:
    async with opened(backend) as editor:
        answer = await editor.ask("hello")
        assert answer.text


async def test_a_file_is_read_and_its_content_reaches_the_model(backend: str) -> None:
    async with opened(backend) as editor:
        call = call_of(await editor.ask("read notes.txt", READ))
        assert call["function"]["name"] == "Read"
        assert json.loads(call["function"]["arguments"])["path"].endswith("notes.txt")
        answer = await editor.result(call, "remember the milk", READ)
        assert "milk" in answer.text


async def test_a_plan_gets_its_whole_name(backend: str) -> None:
    asked = 'use CreatePlan {"name": "a.plan.md", "content": "first, then second"}'
    async with opened(backend) as editor:
        call = call_of(await editor.ask(asked, READ, CREATE_PLAN))
        assert call["function"]["name"] == "CreatePlan"
        assert json.loads(call["function"]["arguments"]) == {"name": "a.plan.md", "content": "first, then second"}
        assert (await editor.result(call, "Plan created.", READ, CREATE_PLAN)).text


async def test_a_patch_is_raw_text_and_its_replay_is_understood(backend: str) -> None:
    async with opened(backend) as editor:
        call = call_of(await editor.ask(f"use ApplyPatch {PATCH}", READ, APPLY_PATCH))
        assert call["function"] == {"name": "ApplyPatch", "arguments": PATCH}
        assert (await editor.result(call, "Done", READ, APPLY_PATCH)).text
