"""A tool round trip with a model: the model has to read a word with a tool and repeat it.

The requests are real, and may cost a fraction of a cent.
"""

import json
import re
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from tieline.model.assemble import fold
from tieline.model.content import Message, Text, ToolCall, ToolResult
from tieline.model.errors import GatewayError
from tieline.model.events import Event, Reply
from tieline.model.ports import Backend, Host, Run
from tieline.model.request import Request, Sampling, ToolSpec

MAX_TOKENS = 2048
"""Maximum number of output tokens per answer: enough for a model that thinks before it calls the tool."""
MAX_LEGS = 12
MAX_SHOWN = 200

Execute = Callable[[ToolCall], Awaitable[ToolResult]]
Outcome = Literal["ok", "no_call", "wrong_call", "unused_result"]

FILE = "word.txt"
PROMPT = f"Read the file {FILE} and tell me the word that it contains."
READ_FILE = ToolSpec(
    name="read_file",
    description="Return the content of a file.",
    schema=json.dumps(
        {
            "type": "object",
            "properties": {"path": {"type": "string", "description": "Path of the file"}},
            "required": ["path"],
            "additionalProperties": False,
        }
    ).encode(),
)

_NO_CHAT = re.compile(
    r"embed|whisper|tts|dall-e|image|audio|moderation|realtime|transcri|rerank|search|sora|video|guard|ocr|speech|veo|"
    r"imagen|babbage|davinci|instruct",
    re.IGNORECASE,
)
"""Matches names of models that do not chat or do not call tools."""
_SMALL = re.compile(r"haiku|mini|flash|nano|small|lite|tiny|\b[1-9]b\b", re.IGNORECASE)


@dataclass(slots=True)
class ToolConversation:
    """The course of a conversation: the reply in each leg, and the duration of each leg in seconds."""

    replies: list[Reply] = field(default_factory=list)
    durations: list[float] = field(default_factory=list)

    @property
    def calls(self) -> list[ToolCall]:
        """All tool calls, in order."""
        return [part for reply in self.replies for part in reply.parts if isinstance(part, ToolCall)]

    @property
    def text(self) -> str:
        """The text of the last reply."""
        parts = self.replies[-1].parts if self.replies else ()
        return "".join(part.text for part in parts if isinstance(part, Text)).strip()


class TripResult(NamedTuple):
    """The outcome of a round trip, and a sentence about it for the user."""

    outcome: Outcome
    text: str


async def converse(
    backend: Backend,
    host: Host,
    model: str,
    prompt: str,
    tools: Sequence[ToolSpec],
    execute: Execute,
    *,
    max_tokens: int = MAX_TOKENS,
) -> ToolConversation:
    """Send `prompt` to `model`, and run the tools that it calls with `execute`, until it calls none.

    Raise GatewayError if a request fails, or if the model still calls tools after MAX_LEGS requests.
    """
    request = Request(
        model=model,
        messages=(Message(role="user", parts=(Text(text=prompt),)),),
        tools=tuple(tools),
        sampling=Sampling(max_tokens=max_tokens),
        stream=True,
    )
    conversation = ToolConversation()
    run = await backend.start(request, host)
    try:
        for _ in range(MAX_LEGS):
            began = time.monotonic()
            reply = await _reply(run)
            conversation.replies.append(reply)
            conversation.durations.append(time.monotonic() - began)
            calls = [part for part in reply.parts if isinstance(part, ToolCall)]
            if not calls:
                return conversation
            await run.answer([await execute(call) for call in calls])
    finally:
        await run.aclose()
    raise GatewayError("upstream", f"the model still calls tools after {MAX_LEGS} requests")


async def _reply(run: Run) -> Reply:
    """Return the reply in the next leg of a run. Raise GatewayError if the leg fails."""
    leg, events = run.leg(), list[Event]()
    try:
        async for batch in leg:
            events.extend(batch)
    finally:
        await leg.aclose()
    return fold(events)


class RoundTrip:
    """One tool round trip. The word is new each time, so that it cannot come from a cache."""

    def __init__(self) -> None:
        self._word = f"heron{secrets.randbelow(9000) + 1000}"

    async def run(self, backend: Backend, host: Host, model: str) -> TripResult:
        """Return how the round trip went. Raise GatewayError if a request fails."""
        conversation = await converse(backend, host, model, PROMPT, (READ_FILE,), self._execute)
        shown = conversation.text[:MAX_SHOWN] or "(no text)"
        if not conversation.calls:
            text = f"{model} may not support tools: it answered without calling the tool: {shown}"
            return TripResult("no_call", text)
        wrong = [call for call in conversation.calls if _path(call) is None]
        if wrong:
            text = f"{model} called {wrong[0].name[:60]} with wrong arguments: {wrong[0].arguments[:MAX_SHOWN]}"
            return TripResult("wrong_call", text)
        if self._word not in conversation.text:
            return TripResult("unused_result", f"{model} called the tool, but did not use its result: {shown}")
        return TripResult("ok", f"{model} called a tool and used its result.")

    async def _execute(self, call: ToolCall) -> ToolResult:
        is_right = (_path(call) or "").endswith(FILE)
        text = f"{self._word}\n" if is_right else f"There is only the file {FILE}."
        return ToolResult(call_id=call.id, content=(Text(text=text),), is_error=not is_right)


def _path(call: ToolCall) -> str | None:
    """Return the path argument of a call, or None if it is not a valid call to READ_FILE."""
    try:
        arguments = json.loads(call.arguments)
    except (ValueError, RecursionError):
        return None
    path = arguments.get("path") if isinstance(arguments, dict) else None
    return path if isinstance(path, str) and call.name == READ_FILE.name else None


def choose_test_model(models: Sequence[str]) -> str:
    """Return the name of a model for a small test, preferably a small chat model; empty if `models` is empty."""
    chatting = [model for model in models if not _NO_CHAT.search(model)] or list(models)
    return next((model for model in chatting if _SMALL.search(model)), chatting[0] if chatting else "")
