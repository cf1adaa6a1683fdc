"""Compaction: a client replaces a long conversation with a summary, which is opaque to the client.

The gateway has the model write the summary as text, and returns it encoded in a compaction item. When the client sends
such an item in a later request, it is decoded to that text.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from typing import Any

from msgspec.structs import replace

from tieline.model.content import Foreign, Message, Text, ToolResult
from tieline.model.request import OutputFormat, Request, ToolChoice
from tieline.wire.openai_responses.schema import PROTOCOL

TRIGGER = "compaction_trigger"
"""The type of the item with which a client requests a summary. After parsing, it is the kind of a `Foreign` part."""
KINDS = ("compaction", "compaction_summary")

_PREFIX = "tieline-summary1."
_INTRODUCTION = "This is a summary of the earlier conversation, which it replaces:"
_INTERRUPTED = "I stop here, so that the conversation can be summarised."
_INSTRUCTION = (
    "Summarise this conversation so that it can be continued from your summary alone. The summary replaces everything "
    "above. Include what the user wants, with all requirements and preferences; what was done and decided, and why; "
    "the files, commands, names and values that matter, spelled exactly; errors and how they were solved; the present "
    "state; and the next steps. Call no tools. Answer with the summary only."
)


def wants_compaction(request: Request) -> bool:
    """Return whether a client wants a summary of its conversation instead of an answer."""
    return is_trigger(request.messages[-1]) if request.messages else False


def summary_request(request: Request) -> Request:
    """Return a request that asks any model to write the summary. It allows no tool calls and sets no output format."""
    messages = request.messages
    history = messages[:-1] if wants_compaction(request) else messages
    asked = Message(role="user", parts=(Text(text=_INSTRUCTION),))
    if history and any(type(part) is ToolResult for part in history[-1].parts):
        # An upstream that waits for these results would take the instruction for part of the current turn.
        history = (*history, Message(role="assistant", parts=(Text(text=_INTERRUPTED),)))
    no_format: OutputFormat | None = None
    request = replace(request, source=None, checkpoint=None, may_store=False)
    return replace(request, messages=(*history, asked), tool_choice=_no_tools(request), output=no_format)


def compacted_request(request: Request, summary: str) -> Request:
    """Return the request with its messages replaced by a summary, except for instructions and the last messages.

    The last messages are those after the last assistant message. If they contain tool results, that assistant message,
    which contains the calls, is also kept.
    """
    messages = request.messages
    start = max((at + 1 for at, message in enumerate(messages) if message.role == "assistant"), default=0)
    if any(type(part) is ToolResult for message in messages[start:] for part in message.parts):
        start = max(start - 1, 0)
    instructions = [message for message in messages[:start] if message.role == "system"]
    replacement = Message(role="user", parts=(_shown(summary),))
    messages = (*instructions, replacement, *messages[start:])
    return replace(request, messages=messages, source=None, checkpoint=None)


def seal(summary: str) -> str:
    """Encode a summary as the `encrypted_content` of a compaction item."""
    return _PREFIX + urlsafe_b64encode(summary.encode("utf-8", "replace")).decode()


def compaction_item(item_id: str, summary: str) -> dict[str, Any]:
    """Return a compaction item that contains the summary."""
    return {"id": item_id, "type": "compaction", "encrypted_content": seal(summary)}


def opened(encrypted_content: str | None) -> Text | None:
    """Decode a summary that `seal` encoded. Return None if it is damaged or was written by another server."""
    if encrypted_content is None or not encrypted_content.startswith(_PREFIX):
        return None
    try:
        summary = urlsafe_b64decode(encrypted_content.removeprefix(_PREFIX)).decode()
    except (Base64Error, ValueError):
        return None
    return _shown(summary)


def _shown(summary: str) -> Text:
    return Text(text=f"{_INTRODUCTION}\n\n{summary}")


def is_trigger(message: Message | None) -> bool:
    """Return whether a message is a compaction trigger, with which the client requests a summary."""
    part = message.parts[0] if message is not None and message.parts else None
    return type(part) is Foreign and part.protocol == PROTOCOL and part.kind == TRIGGER


def _no_tools(request: Request) -> ToolChoice:
    return ToolChoice(mode="none", given=True) if request.tools else ToolChoice()
