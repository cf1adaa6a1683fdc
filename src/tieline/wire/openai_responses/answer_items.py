"""Build the JSON of the items that the writer sends."""

from typing import Any

from msgspec import Raw

from tieline.model.content import Part, Text, Thinking, ToolCall
from tieline.model.events import Usage
from tieline.wire.openai_responses.client_tools import CLIENT_TOOLS, call_item
from tieline.wire.openai_responses.names import OfferedTool
from tieline.wire.openai_responses.reasoning import envelope
from tieline.wire.openai_responses.schema import PROTOCOL

Json = dict[str, Any]


def prefix_of(part: Part, tool: OfferedTool | None) -> str:
    """Return the prefix of the item id for this part. If the part is a call, `tool` is the called tool."""
    match part:
        case Thinking():
            return "rs_"
        case ToolCall() if tool is not None and tool.kind in CLIENT_TOOLS:
            return CLIENT_TOOLS[tool.kind].prefix
        case ToolCall():
            return "ctc_" if part.freeform else "fc_"
        case _:
            return "msg_"


def content_part(part: Text, text: str) -> Json:
    """Return the JSON of a content part with this text; the type and the annotations are taken from `part`."""
    if part.refusal:
        return {"type": "refusal", "refusal": text}
    own = part.meta.get(PROTOCOL, {})
    annotations = Raw(own["annotations"].encode()) if "annotations" in own else []
    return {"type": "output_text", "text": text, "annotations": annotations, "logprobs": []}


def message_item(item_id: str, part: Text | None, status: str) -> Json:
    """Return the JSON of a message. `part` is its text, or None if the message has just begun."""
    item: Json = {"id": item_id, "type": "message", "status": status, "role": "assistant"}
    item["content"] = [] if part is None else [content_part(part, part.text)]
    if part is not None and (phase := part.meta.get(PROTOCOL, {}).get("phase")):
        item["phase"] = phase
    return item


def reasoning_item(item_id: str, thinking: Thinking | None, encrypted: bool, status: str | None = None) -> Json:
    """Return the JSON of a reasoning item. `thinking` is None if the item has just begun.

    `encrypted` says whether the client wants `encrypted_content`.
    """
    item: Json = {"id": item_id, "type": "reasoning", "summary": []}
    if thinking is not None and thinking.text:
        item["summary"] = [summary_part(thinking.text)]
    if thinking is not None and encrypted and (content := envelope(thinking)) is not None:
        item["encrypted_content"] = content
    return item if status is None else {**item, "status": status}


def summary_part(text: str) -> Json:
    """Return the JSON of one part of a reasoning summary."""
    return {"type": "summary_text", "text": text}


def tool_call_item(item_id: str, call: ToolCall, tool: OfferedTool, arguments: str, status: str) -> Json:
    """Return the JSON of a call. Its type, name and namespace are those under which the client offered the tool."""
    if tool.kind in CLIENT_TOOLS and not call.freeform:
        return call_item(tool.kind, item_id, call.id, arguments, status)
    kind, field = ("custom_tool_call", "input") if call.freeform else ("function_call", "arguments")
    item: Json = {"id": item_id, "type": kind, "status": status, "call_id": call.id, "name": tool.name}
    if tool.namespace is not None:
        item["namespace"] = tool.namespace
    return {**item, field: arguments}


def final_arguments(call: ToolCall) -> str:
    """Return the arguments of a call; for a function call without arguments, an empty object."""
    return call.arguments if call.freeform or call.arguments.strip() else "{}"


def usage_json(usage: Usage) -> Json:
    """Return the JSON of the token counts. No count is left out, because clients require all of them."""
    return {
        "input_tokens": usage.prompt,
        "input_tokens_details": {"cached_tokens": usage.cache_read, "cache_write_tokens": usage.cache_write},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.prompt + usage.output,
    }
