"""Encode earlier messages for the service: as JSON messages in blobs, or as one text.

The JSON has the format of the AI SDK: messages have the role user, assistant or tool, and contain parts of the types
text, image, reasoning, tool-call and tool-result. Tools have the names that the model sees. The encoding of a message
depends only on its content, not on its position. A growing conversation therefore keeps its blob ids, and the service
can reuse its caches.

Signed thinking is left out: only the provider that signed it can verify it, and the protocol has no field for
signatures.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from msgspec import Raw

from tieline.model.content import File, Image, Message, Part, Text, Thinking, ToolCall, ToolResult
from tieline.model.events import Note, left_out
from tieline.wire.cursor.opening.offered_tools import OfferedTools
from tieline.wire.cursor.opening.user_message import as_text, from_result, leave_out, reminder
from tieline.wire.shared.json import encode, is_wrapped_invalid, object_text

Json = dict[str, Any]


class SplitMessages(NamedTuple):
    """The messages of a request, split into three consecutive sections."""

    system: Sequence[Message]
    """The system messages at the beginning."""
    past: Sequence[Message]
    """The messages after `system`, up to and including the model's last message."""
    last: Sequence[Message]
    """The messages after `past`: the user's message, and tool results."""


def split_messages(messages: Sequence[Message]) -> SplitMessages:
    """Split the messages of a request into leading system messages, history and the newest messages."""
    leading = 0
    while leading < len(messages) and messages[leading].role == "system":
        leading += 1
    end = len(messages)
    while end > leading and messages[end - 1].role != "assistant":
        end -= 1
    return SplitMessages(messages[:leading], messages[leading:end], messages[end:])


class HistoryEncoder:
    """Encodes the earlier messages of a conversation, and adds a note to `notes` for each part that is left out."""

    def __init__(self, offer: OfferedTools, notes: list[Note]) -> None:
        self._offer = offer
        self._notes = notes
        self._called: dict[str, str] = {}
        """The names of called tools, as the model sees them, by call id."""

    def messages(self, messages: Iterable[Message], results: Iterable[ToolResult] = ()) -> Iterator[bytes]:
        """Yield each message as JSON, followed by one message that contains all of `results`."""
        for message in messages:
            for made in self._message(message):
                yield encode(made)
        late = [self._result(result) for result in results]
        if late:
            yield encode({"role": "tool", "content": late})

    def text(self, messages: Iterable[Message], results: Iterable[ToolResult] = ()) -> str:
        """Return the messages, followed by the results, as one text."""
        made = [made for message in messages for made in self._message(message)]
        made += [{"role": "tool", "content": [self._result(result)]} for result in results]
        if any(part["type"] == "image" for message in made for part in message["content"]):
            self._notes.append(left_out("images in the history", "the history is sent as text"))
        return "\n".join(map(_as_text, made))

    def _message(self, message: Message) -> Iterator[Json]:
        content: list[Json] = []
        if message.role == "assistant":
            content = [*self._assistant(message.parts)]
        elif message.role == "user":
            content, results = self._user(message.parts)
            if results:
                yield {"role": "tool", "content": results}
        elif text := reminder(message.parts):
            content = [_text(text)]
        if content:
            yield {"role": "assistant" if message.role == "assistant" else "user", "content": content}

    # ── The model ────────────────────────────────────────────────────────────────────────────────

    def _assistant(self, parts: Iterable[Part]) -> Iterator[Json]:
        for part in parts:
            if type(part) is ToolCall:
                yield self._call(part)
            elif type(part) is Text:
                if part.text and not part.text.isspace():
                    yield _text(part.text)
            elif type(part) is Thinking:
                if part.text and part.signature is None:
                    yield {"type": "reasoning", "text": part.text}
                elif part.signature is not None:
                    self._notes.append(left_out("signed thinking", "the upstream has no such part"))
            elif isinstance(part, Image | File):
                yield _text(as_text(part, self._notes))
            else:
                leave_out(part, self._notes)

    def _call(self, call: ToolCall) -> Json:
        name = self._called[call.id] = self._offer.model_name(call.name)
        if call.freeform:
            args = encode({"input": call.arguments})
        else:
            text = object_text(call.arguments)
            args = text.encode("utf-8", "replace")
            if is_wrapped_invalid(call.arguments, text):
                self._notes.append(Note(kind="arguments", message=f"{call.name}: invalid JSON was wrapped"))
        return {"type": "tool-call", "toolCallId": call.id, "toolName": name, "args": Raw(args)}

    # ── The user ─────────────────────────────────────────────────────────────────────────────────

    def _user(self, parts: Iterable[Part]) -> tuple[list[Json], list[Json]]:
        """Return the content of a user message and, separately, its tool results."""
        content: list[Json] = []
        results: list[Json] = []
        for part in parts:
            if type(part) is Text:
                if part.text and not part.text.isspace():
                    content.append(_text(part.text))
            elif type(part) is ToolResult:
                results.append(self._result(part))
                content += self._pictures(part)
            elif isinstance(part, Image | File):
                content.append(self._shown(part))
            else:
                leave_out(part, self._notes)
        return content, results

    def _result(self, result: ToolResult) -> Json:
        name = self._called.get(result.call_id) or self._offer.model_name("unknown")
        match result.content:
            case (Text() as only,):
                text = only.text
            case _:
                text = "\n".join(self._inside(part) for part in result.content)
        made: Json = {"type": "tool-result", "toolCallId": result.call_id, "toolName": name, "result": _copied(text)}
        if result.is_error:
            made["isError"] = True
        return made

    def _inside(self, part: Text | Image | File) -> str:
        """Convert one part of a tool result to text, because the format allows only text in a tool result."""
        if isinstance(part, Text):
            return part.text
        if isinstance(part, Image) and part.data is not None:
            return "[image: it follows in the next message]"
        return as_text(part, self._notes)

    def _pictures(self, result: ToolResult) -> list[Json]:
        pictures = [self._shown(part) for part in result.content if isinstance(part, Image) and part.data is not None]
        return [_text(from_result(result)), *pictures] if pictures else []

    def _shown(self, part: Image | File) -> Json:
        if isinstance(part, Image) and part.data:
            media_type = part.media_type or "image/png"
            # The service expects a URL here and refuses bare base64.
            return {"type": "image", "image": f"data:{media_type};base64,{part.data}", "mediaType": media_type}
        return _text(as_text(part, self._notes))


def _text(text: str) -> Json:
    return {"type": "text", "text": _copied(text)}


def _copied(text: str) -> str:
    """Return a copy of a text that contains non-ASCII characters. Return any other text unchanged.

    Encoding such a text makes Python cache its UTF-8 form in the string. The copy is soon dropped together with its
    cache; the original would keep the cache for as long as the request exists.
    """
    return text if text.isascii() else text[:1] + text[1:]


# ── As one text ──────────────────────────────────────────────────────────────────────────────────


def _as_text(message: Json) -> str:
    """Return an encoded message as text in tags. No model uses these tags for its own tool calls."""
    inside = "\n".join(_part_as_text(part) for part in message["content"])
    return f"<{message['role']}>\n{inside}\n</{message['role']}>"


def _part_as_text(part: Json) -> str:
    match part["type"]:
        case "tool-call":
            args = bytes(part["args"]).decode()
            return f'<call id="{part["toolCallId"]}" tool="{part["toolName"]}">{args}</call>'
        case "tool-result":
            failed = ' failed="true"' if "isError" in part else ""
            named = f'id="{part["toolCallId"]}" tool="{part["toolName"]}"'
            return f"<result {named}{failed}>\n{part['result']}\n</result>"
        case "reasoning":
            return f"<thinking>\n{part['text']}\n</thinking>"
        case "image":
            return f"[image: {part['mediaType']}]"
        case _:
            text: str = part["text"]
            return text
