"""Build the input of a request: the instructions and the items."""

from collections.abc import Sequence
from typing import Any

from msgspec import Raw

from tieline.model.content import (
    NO_META,
    File,
    Foreign,
    Image,
    Message,
    Meta,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from tieline.model.events import Note, left_out
from tieline.model.request import Request
from tieline.wire.openai_responses.client_tools import CALLS, CLIENT_TOOLS, call_item, output_item
from tieline.wire.openai_responses.dialect import Dialect
from tieline.wire.openai_responses.names import offered_tools, split_name
from tieline.wire.openai_responses.reasoning import summary_texts, unpack
from tieline.wire.openai_responses.schema import PROTOCOL
from tieline.wire.shared.history import BILLING, summary_parts
from tieline.wire.shared.json import encode, is_wrapped_invalid, object_text
from tieline.wire.shared.results import with_failure
from tieline.wire.shared.spelling import ToolNames, short_id
from tieline.wire.shared.unsupported import AT, lost_details, refused

Json = dict[str, Any]

NO_MARKS = left_out("cache_control", "there are no cache marks in this protocol")
_PREFIXES = {"message": "msg_", "function_call": "fc_", "custom_tool_call": "ctc_"}
"""The prefix that the API requires for item ids, by item type."""


class ItemsBuilder:
    """Builds items and adds them to `out` in order. Collects notes about changes and omissions in `notes`."""

    def __init__(self, request: Request, dialect: Dialect, names: ToolNames) -> None:
        self.out: list[Json | Raw] = []
        self.instructions: list[str] = []
        """The texts of the system messages that are sent as instructions."""
        self.notes: list[Note] = []
        self._request = request
        self._dialect = dialect
        self._names = names
        self._own = request.protocol == PROTOCOL
        self._offered = offered_tools(request.tools) if dialect.openai_tools else {}
        self._calls: dict[str, ToolCall] | None = None
        self._begun = False

    def json(self, message: Message) -> bytes:
        """Add the items of one message and return their JSON text, with commas between them."""
        before = len(self.out)
        self.add(message)
        return b",".join(map(encode, self.out[before:]))

    def add(self, message: Message) -> None:
        """Add the items of one message to `out`."""
        if any("cache_control" in part.meta for part in message.parts):
            self.notes.append(NO_MARKS)
        if message.meta:
            self.notes += lost_details(message, PROTOCOL)
        whole = _own(message.meta).get("item")
        if whole is not None:
            self.out.append(Raw(whole.encode()))
        elif message.role == "system":
            self._system(message)
        elif message.role == "user":
            self._user(message)
        else:
            self._assistant(message)
        self._begun = self._begun or message.role != "system"

    # ── System ───────────────────────────────────────────────────────────────────────────────────

    def add_system(self, text: str) -> None:
        """Add a system message with this text to `out`."""
        self._append("system", [_input_text(Text(text=text))], NO_META)

    def _system(self, message: Message) -> None:
        """Add a system message.

        If the client uses another protocol, the system messages at the start of the history become the instructions.
        """
        texts: list[Text] = []
        for part in message.parts:
            match part:
                case Text() if not part.text.startswith(BILLING):
                    texts.append(part)
                case Foreign(protocol=protocol) if protocol == PROTOCOL:
                    if self._dialect.openai_tools:  # otherwise the tools that it adds are sent in `tools`
                        self.out.append(Raw(part.json.encode()))
                case Foreign(kind=kind) if kind != "tool_addition":  # the added tool is sent in `tools`
                    self.notes.append(left_out(kind, "the upstream has no such part in a system message"))
                case _:
                    pass
        if not texts:
            return
        if is_instructions(message) or not (self._own or self._begun):
            self.instructions.append("\n\n".join(text.text for text in texts))
        else:
            self._append("system", [_input_text(text) for text in texts], message.meta)

    # ── User: tool outputs, then the rest ────────────────────────────────────────────────────────

    def _user(self, message: Message) -> None:
        before = len(self.out)
        rest: list[Part] = []
        for part in message.parts:
            if isinstance(part, ToolResult):
                self._result(part)
            elif isinstance(part, Foreign) and part.protocol == PROTOCOL and AT not in part.meta:
                self.out.append(Raw(part.json.encode()))  # an item, not a part of a message
            else:
                rest.append(part)
        if rest or len(self.out) == before:
            self._append("user", [self._part(part) for part in rest], message.meta)

    def _result(self, result: ToolResult) -> None:
        own = _own(result.meta)
        if self._dialect.openai_tools and "item" in own:
            self.out.append(Raw(own["item"].encode()))
            return
        call_id = short_id(result.call_id, self._dialect.id_limit)
        call = self._call_of(result.call_id)
        kind = "" if call is None else self._kind(call)
        if kind in CLIENT_TOOLS:
            text = "\n".join(part.text for part in result.content if isinstance(part, Text))
            self.out.append(output_item(kind, call_id, text, result.is_error))
            return
        content: Sequence[Text | Image | File] = result.content
        out: Json = {"type": "custom_tool_call_output" if kind == "custom" else "function_call_output"}
        out["call_id"] = call_id
        if result.is_error and self._own:
            out["status"] = "incomplete"
        elif result.is_error:
            content = with_failure(content)
        self.out.append({**out, "output": self._output(content)})

    def _output(self, content: Sequence[Text | Image | File]) -> str | list[Any]:
        """Return the output of a tool: a string if the content is empty or a single text, otherwise a list of parts."""
        match content:
            case ():
                return ""
            case (Text() as only,):
                return only.text
            case _:
                return [self._part(part) for part in content]

    def _call_of(self, call_id: str) -> ToolCall | None:
        """Return the call with this id, or None. The type of an output item depends on the type of its call."""
        if self._calls is None:
            parts = (part for message in self._request.messages for part in message.parts)
            self._calls = {part.id: part for part in parts if isinstance(part, ToolCall)}
        return self._calls.get(call_id)

    # ── Assistant ────────────────────────────────────────────────────────────────────────────────

    def _assistant(self, message: Message) -> None:
        texts: list[Text] = []
        for part in message.parts:
            if texts and not (isinstance(part, Text) and _is_one_message(texts[-1], part)):
                self._message(texts)
                texts = []
            match part:
                case Text():
                    texts.append(part)
                case Thinking():
                    self._thinking(part)
                case ToolCall():
                    self.out.append(self._call(part))
                case Foreign() if part.protocol == PROTOCOL:
                    self.out.append(Raw(part.json.encode()))
                case Foreign(kind="compaction"):
                    texts += [text for text in summary_parts(part) if isinstance(text, Text)]
                case _:
                    kind = part.kind if isinstance(part, Foreign) else type(part).__name__.lower()
                    self.notes.append(left_out(kind, "the upstream has no such part in an answer"))
        if texts:
            self._message(texts)

    def _message(self, texts: Sequence[Text]) -> None:
        """Add an assistant message.

        A message with an id or a refusal is sent as a list of output parts. Without either, each text is sent as a
        separate message whose content is a string.
        """
        out = _message_head(texts[0].meta)
        if "id" in out or any(text.refusal for text in texts):
            self.out.append({**out, "role": "assistant", "content": [_output_text(text) for text in texts]})
        else:
            self.out += [{**out, "role": "assistant", "content": text.text} for text in texts]

    def _thinking(self, thinking: Thinking) -> None:
        """Add thinking as a reasoning item. Leave it out if it has no encrypted content from an OpenAI upstream."""
        state = unpack(thinking.signature)
        if state is None:
            return
        item_id, encrypted = state
        summary = [{"type": "summary_text", "text": text} for text in summary_texts(thinking)]
        out: Json = {"type": "reasoning", "id": item_id} if item_id else {"type": "reasoning"}
        self.out.append({**out, "summary": summary, "encrypted_content": encrypted})

    def _call(self, call: ToolCall) -> Json:
        own, kind = _own(call.meta), self._kind(call)
        call_id = short_id(call.id, self._dialect.id_limit)
        if kind in CLIENT_TOOLS:
            return call_item(kind, own.get("id") or CLIENT_TOOLS[kind].prefix + call_id, call_id, call.arguments)
        out: Json = {"type": "custom_tool_call" if kind == "custom" else "function_call"}
        _add_id(out, own)
        out["call_id"] = call_id
        out |= self._name(call)
        if kind == "custom":
            return {**out, "input": call.arguments}
        return {**out, "arguments": encode({"input": call.arguments}).decode() if call.freeform else self._object(call)}

    def _kind(self, call: ToolCall) -> str:
        """Return the form in which a call is written: function, custom, or the type of a tool defined by OpenAI."""
        if self._dialect.openai_tools:
            tool = self._offered.get(call.name)
            kind = CALLS.get(_own(call.meta).get("type", ""), "function" if tool is None else tool.kind)
            if kind in CLIENT_TOOLS:
                return kind
        return "custom" if call.freeform and self._dialect.freeform_tools else "function"

    def _name(self, call: ToolCall) -> Json:
        namespace = _own(call.meta).get("namespace") if self._dialect.openai_tools else None
        tool = split_name(call.name, self._offered, namespace)
        if tool.namespace is not None:
            return {"namespace": tool.namespace, "name": tool.name}
        return {"name": self._names.to_upstream(call.name)}

    def _object(self, call: ToolCall) -> str:
        text = object_text(call.arguments)
        if text is not call.arguments and is_wrapped_invalid(call.arguments, text):
            self.notes.append(Note(kind="arguments", message=f"{call.name}: invalid JSON was wrapped in an object"))
        return text

    # ── Content ──────────────────────────────────────────────────────────────────────────────────

    def _append(self, role: str, content: list[Json | Raw], meta: Meta) -> None:
        empty = [{"type": "input_text", "text": ""}]
        self.out.append({**_message_head(meta), "role": role, "content": content or empty})

    def _part(self, part: Part) -> Json | Raw:
        if isinstance(part, Image | File) and part.meta:
            self.notes += lost_details(part, PROTOCOL)
        match part:
            case Text():
                return _input_text(part)
            case Image():
                return _image(part)
            case File():
                return _file(part)
            case Foreign() if part.protocol == PROTOCOL:
                return Raw(part.json.encode())
            case _:
                raise refused(part, "text, images and files")


def is_instructions(message: Message) -> bool:
    """Return whether a message contains the `instructions` of a request in this protocol."""
    return bool(_own(message.meta).get("instructions"))


def _own(meta: Meta) -> Meta:
    own: Meta = meta.get(PROTOCOL, NO_META)
    return own


def _add_id(item: Json, own: Meta) -> None:
    """Add the id in `own` to the item, unless the API would reject the id's prefix for this type of item."""
    item_id = own.get("id", "")
    if item_id.startswith(_PREFIXES[item["type"]]):
        item["id"] = item_id


def _message_head(meta: Meta) -> Json:
    out: Json = {"type": "message"}
    own = _own(meta)
    _add_id(out, own)
    if "id" in out:
        out["status"] = "completed"
    if "phase" in own:
        out["phase"] = own["phase"]
    return out


def _is_one_message(first: Text, second: Text) -> bool:
    """Return whether two texts belong to one message: they have the same item id, or neither has one."""
    return _own(first.meta).get("id") == _own(second.meta).get("id")


def _input_text(part: Text) -> Json:
    return {"type": "input_text", "text": part.text}


def _output_text(part: Text) -> Json:
    if part.refusal:
        return {"type": "refusal", "refusal": part.text}
    annotations = _own(part.meta).get("annotations", "[]")
    return {"type": "output_text", "text": part.text, "annotations": Raw(annotations.encode())}


def _image(part: Image) -> Json:
    url = part.url if part.data is None else f"data:{part.media_type};base64,{part.data}"
    out: Json = {"type": "input_image", "image_url": url}
    detail = part.meta.get("detail")
    return out if detail is None else {**out, "detail": detail}


def _file(part: File) -> Json:
    if part.data is None:
        return {"type": "input_file", "file_url": part.url}
    data = f"data:{part.media_type};base64,{part.data}"
    return {"type": "input_file", "filename": part.name or "file", "file_data": data}
