"""A conversation with tools through a gateway: over HTTP, in the way a client has it.

The gateway is used like any upstream. So this tests the whole path: the gateway's HTTP server and guard, the codecs of
both sides, and the backend behind them.
"""

import json
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from tieline.app.build.ids import leg_ids
from tieline.app.build.upstreams import upstream_backend
from tieline.app.config import UpstreamSettings
from tieline.app.local_gateway import LocalGateway
from tieline.model.assemble import fold
from tieline.model.content import Message, Text, ToolCall, ToolResult
from tieline.model.errors import GatewayError
from tieline.model.events import Reply
from tieline.model.request import Request, Sampling, ToolSpec
from tieline.net.client.http import HttpClient
from tieline.wire.shared.conversations import conversation_cache

MAX_TOKENS = 1024
"""Maximum number of output tokens of each answer. Models that think need some hundred of them for a tool call."""
MAX_LEGS = 12
SILENCE = 60.0
"""Seconds without data after which an answer counts as broken."""

Execute = Callable[[ToolCall], Awaitable[ToolResult]]

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


@dataclass(slots=True)
class Conversation:
    """A conversation as it went: the reply of each leg, and the duration of each in seconds."""

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


async def converse(
    gateway: LocalGateway,
    model: str,
    prompt: str,
    tools: Sequence[ToolSpec],
    execute: Execute,
    *,
    max_tokens: int = MAX_TOKENS,
) -> Conversation:
    """Ask `model` and run the tools that it calls with `execute`, until it calls none.

    Raise GatewayError if a request fails, or if there are more than MAX_LEGS requests.
    """
    client = HttpClient()
    settings = UpstreamSettings(
        kind="openai", base_url=f"{gateway.url}/v1", retries=0, first_byte_timeout=SILENCE, idle_timeout=SILENCE
    )
    backend = upstream_backend(
        "gateway", settings, gateway.key, client=client, new_leg_id=leg_ids(), conversations=conversation_cache()
    )
    request = Request(
        model=model,
        messages=(Message(role="user", parts=(Text(text=prompt),)),),
        tools=tuple(tools),
        sampling=Sampling(max_tokens=max_tokens),
        stream=True,
    )
    conversation = Conversation()
    try:
        run = await backend.start(request, None)  # type: ignore[arg-type] # an HTTP API asks the host nothing
        for _ in range(MAX_LEGS):
            began = time.monotonic()
            reply = fold([event for batch in [batch async for batch in run.leg()] for event in batch])
            conversation.replies.append(reply)
            conversation.durations.append(time.monotonic() - began)
            calls = [part for part in reply.parts if isinstance(part, ToolCall)]
            if not calls:
                return conversation
            await run.answer([await execute(call) for call in calls])
    finally:
        await client.aclose()
    raise GatewayError("upstream", f"the model still calls tools after {MAX_LEGS} requests")


class RoundTrip:
    """One tool round trip: the model has to read a word with a tool and to repeat it. The word is new each time."""

    def __init__(self) -> None:
        self._word = f"heron{secrets.randbelow(9000) + 1000}"

    async def run(self, gateway: LocalGateway, model: str) -> str | None:
        """Return what went wrong, or None. Raise GatewayError if a request fails."""
        conversation = await converse(gateway, model, PROMPT, (READ_FILE,), self._execute)
        if not conversation.calls:
            return f"{model} answered without calling the tool: {conversation.text[:200] or '(no text)'}"
        wrong = [call for call in conversation.calls if _path(call) is None]
        if wrong:
            return f"{model} called {wrong[0].name[:60]} with wrong arguments: {wrong[0].arguments[:200]}"
        if self._word not in conversation.text:
            return f"{model} called the tool, but did not use its result: {conversation.text[:200] or '(no text)'}"
        return None

    async def _execute(self, call: ToolCall) -> ToolResult:
        is_right = (_path(call) or "").endswith(FILE)
        text = f"{self._word}\n" if is_right else f"There is only the file {FILE}."
        return ToolResult(call_id=call.id, content=(Text(text=text),), is_error=not is_right)


def _path(call: ToolCall) -> str | None:
    """Return the path in a call of the tool, or None if it is not such a call."""
    try:
        arguments = json.loads(call.arguments)
    except (ValueError, RecursionError):
        return None
    path = arguments.get("path") if isinstance(arguments, dict) else None
    return path if isinstance(path, str) and call.name == READ_FILE.name else None
