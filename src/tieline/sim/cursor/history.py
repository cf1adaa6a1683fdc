"""Reads and writes the messages of a conversation as the service stores them, in JSON blobs.

A message has a role, and either a text or a list of typed parts, as in common AI SDKs. System messages are ignored,
because the service has its own system prompt. The user's rules reach the model in the request context.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from tieline.model.content import File, Image, Message, Part, Text, Thinking, ToolCall, ToolResult

TRANSCRIPT_LIMIT = 1_000_000
"""Maximum number of characters in a text that `transcript` parses as a conversation."""

_RECORD = re.compile(r"<history>\n(?P<record>.*)\n</history>\n\n(?P<said>.*)", re.DOTALL)
_RECORDED = re.compile(r"<(user|assistant|tool)>\n(.*?)\n</\1>", re.DOTALL)
_RECORDED_CALL = re.compile(r'<call id="([^"]*)" tool="([^"]*)">(.*?)</call>', re.DOTALL)
_RECORDED_RESULT = re.compile(r'<result id="([^"]*)" tool="[^"]*"( failed="true")?>\n(.*?)\n</result>', re.DOTALL)
_RESULTS_ONLY = "Go on from the results above."
_TURN = re.compile(r"(?:\A|\n\n)(?:(User|Assistant|System): |\[Tool result for ([^\]\s]{1,200})\]: )")
_CALLED = re.compile(r"\[Called tool: ([\w.:-]{1,200})\((.*)\)\]\s*\Z", re.DOTALL)
_GO_ON = re.compile(r"\s*Based on the tool results above, please continue your response:\s*\Z")


def read(data: bytes) -> Message | None:
    """Parse a JSON blob. Return None if it is not a message, has no content, or is a system message."""
    try:
        message = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if not isinstance(message, dict):
        return None
    parts = tuple(_parts(message.get("content")))
    match message.get("role"):
        case "user" | "tool":
            return Message(role="user", parts=parts) if parts else None
        case "assistant":
            return Message(role="assistant", parts=parts) if parts else None
        case _:
            return None


def write(message: Message) -> list[bytes]:
    """Encode a message as JSON blobs. The tool results in a user message become a separate message."""
    results = [part for part in message.parts if isinstance(part, ToolResult)]
    others = [part for part in message.parts if not isinstance(part, ToolResult)]
    written = []
    if results:
        written.append({"role": "tool", "content": [_written(part) for part in results]})
    if others:
        written.append({"role": message.role, "content": [_written(part) for part in others]})
    return [msgspec.json.encode(one) for one in written]


def transcript(text: str) -> list[Message] | None:
    """Parse a conversation that a client has flattened into one string. Return None if it is not a conversation.

    Two forms are recognised: lines `User: …` and `Assistant: …` with calls and results in brackets, and messages in
    tags.
    """
    if len(text) > TRANSCRIPT_LIMIT:
        return None
    if record := _RECORD.search(text):
        return [*_recorded(record["record"]), *_last_message(record["said"])]
    pieces = _TURN.split(text)
    if pieces[0] or len(pieces) == 1:
        return None
    messages: list[Message] = []
    for role, call_id, said in zip(pieces[1::3], pieces[2::3], pieces[3::3], strict=True):
        messages += (
            _transcript_message(role, _GO_ON.sub("", said), messages)
            if role
            else _result_message(call_id, said, messages)
        )
    return messages


def _last_message(said: str) -> list[Message]:
    return [] if said == _RESULTS_ONLY else [Message(role="user", parts=(Text(text=said),))]


def _recorded(record: str) -> Iterator[Message]:
    for role, inside in _RECORDED.findall(record):
        parts: list[Part] = []
        if words := _RECORDED_RESULT.sub("", _RECORDED_CALL.sub("", inside)).strip("\n"):
            parts.append(Text(text=words))
        for call_id, name, arguments in _RECORDED_CALL.findall(inside):
            parts.append(ToolCall(id=call_id, name=name, arguments=arguments))
        for call_id, failed, text in _RECORDED_RESULT.findall(inside):
            parts.append(ToolResult(call_id=call_id, content=(Text(text=text),), is_error=bool(failed)))
        yield Message(role="assistant" if role == "assistant" else "user", parts=tuple(parts))


def _transcript_message(role: str, said: str, before: Sequence[Message]) -> list[Message]:
    if role == "Assistant" and (called := _CALLED.search(said)):
        words = said[: called.start()].strip()
        call = ToolCall(id=f"call_{len(before)}", name=called[1], arguments=called[2])
        return [Message(role="assistant", parts=(Text(text=words), call) if words else (call,))]
    kind = role.lower()
    return [Message(role="assistant" if kind == "assistant" else "user", parts=(Text(text=said),))]


def _result_message(call_id: str, said: str, before: Sequence[Message]) -> list[Message]:
    """Return a list with one message, which holds `said` as the result of the last call in `before`.

    Clients write arbitrary ids, so `call_id` is used only if `before` contains no call.
    """
    calls = [part.id for message in before for part in message.parts if isinstance(part, ToolCall)]
    content = (Text(text=_GO_ON.sub("", said).rstrip("\n")),)
    result = ToolResult(call_id=calls[-1] if calls else call_id, content=content)
    return [Message(role="user", parts=(result,))]


# ── Reading parts ────────────────────────────────────────────────────────────────────────────────


def _parts(content: Any) -> Iterator[Part]:
    if isinstance(content, str):
        if content:
            yield Text(text=content)
        return
    for part in content if isinstance(content, list) else ():
        if isinstance(part, dict) and (found := _part(part)) is not None:
            yield found


def _part(part: Mapping[str, Any]) -> Part | None:
    match part.get("type"):
        case "text":
            return Text(text=str(part.get("text", "")))
        case "reasoning":
            return Thinking(text=str(part.get("text", "")))
        case "image":
            return _image(part)
        case "file":
            return File(
                media_type=_media_type(part), data=_string(part.get("data")), name=_string(part.get("filename"))
            )
        case "tool-call":
            given = part["args"] if "args" in part else part.get("input", {})
            arguments = given if isinstance(given, str) else msgspec.json.encode(given).decode()
            return ToolCall(id=str(part.get("toolCallId", "")), name=str(part.get("toolName", "")), arguments=arguments)
        case "tool-result":
            return _result(part)
        case _:
            return None


def _result(part: Mapping[str, Any]) -> ToolResult:
    given = part["result"] if "result" in part else part.get("output", "")
    is_error = part.get("isError") is True
    if isinstance(given, dict) and "type" in given and "value" in given:
        is_error = is_error or str(given["type"]).startswith("error")
        given = given["value"]
    if not isinstance(given, str | list):
        given = msgspec.json.encode(given).decode()
    content = tuple(inner for inner in _parts(given) if isinstance(inner, Text | Image | File))
    return ToolResult(call_id=str(part.get("toolCallId", "")), content=content, is_error=is_error)


def _image(part: Mapping[str, Any]) -> Image:
    image = str(part.get("image") or part.get("data") or "")
    if image.startswith(("http:", "https:")):
        return Image(media_type=_media_type(part), url=image)
    head, comma, data = image.partition(",")
    return Image(media_type=_media_type(part), data=data if comma and head.startswith("data:") else image)


def _media_type(part: Mapping[str, Any]) -> str:
    return str(part.get("mediaType") or part.get("mimeType") or "")


def _string(value: Any) -> str | None:
    return value if isinstance(value, str) else None


# ── Writing parts ────────────────────────────────────────────────────────────────────────────────


def _written(part: Part) -> dict[str, Any]:
    match part:
        case Text():
            return {"type": "text", "text": part.text}
        case Thinking():
            return {"type": "reasoning", "text": part.text}
        case Image():
            data = f"data:{part.media_type};base64,{part.data or ''}"
            return {"type": "image", "image": part.url or data, "mimeType": part.media_type}
        case File():
            return {"type": "file", "data": part.url or part.data or "", "mimeType": part.media_type}
        case ToolCall():
            return {"type": "tool-call", "toolCallId": part.id, "toolName": part.name, "args": _arguments(part)}
        case ToolResult():
            result = {"type": "tool-result", "toolCallId": part.call_id, "toolName": ""}
            return result | {"result": [_written(inner) for inner in part.content], "isError": part.is_error}
        case _:
            return {"type": "text", "text": ""}


def _arguments(call: ToolCall) -> Any:
    try:
        return msgspec.json.decode(call.arguments)
    except msgspec.DecodeError:
        return call.arguments
