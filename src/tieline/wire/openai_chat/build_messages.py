"""Build the messages of a request."""

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Raw
from msgspec.structs import replace

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
    state_of,
)
from tieline.model.events import Note, left_out
from tieline.model.request import Request
from tieline.wire.openai_chat.dialect import Dialect
from tieline.wire.openai_chat.schema import PROTOCOL, STATE_FIELDS
from tieline.wire.shared.history import BILLING, summary_parts
from tieline.wire.shared.json import encode, is_wrapped_invalid, object_text
from tieline.wire.shared.results import with_failure
from tieline.wire.shared.spelling import ToolNames, short_id
from tieline.wire.shared.unsupported import TOOL_ADDITIONS, lost_details, refused

Json = dict[str, Any]

NO_MARKS = left_out("cache_control", "not sent unless the upstream's dialect has `cache_marks`")
_REMINDER = "<system-reminder>"


class MessagesBuilder:
    """Builds messages and appends them to `out`. Notes about changes and omissions are added to `notes`."""

    def __init__(self, request: Request, dialect: Dialect, names: ToolNames) -> None:
        self.out: list[Json] = []
        self.notes: list[Note] = []
        self.lost_marks = False
        """Whether any of the client's cache marks were left out."""
        self._dialect = dialect
        self._names = names
        self._own = request.protocol == PROTOCOL
        self._lists = self._own or dialect.text_parts
        self._replays = dialect.replay_reasoning and dialect.reasoning_field != "none"
        self._begun = False

    def json(self, message: Message) -> bytes:
        """Add a message to `out`, and return the JSON texts of the messages that it became, separated by commas."""
        before = len(self.out)
        self.add(message)
        return b",".join(map(encode, self.out[before:]))

    def add(self, message: Message) -> None:
        """Add a message to `out`. It may become several messages of this protocol, or none."""
        match message.role:
            case "system":
                self._system(message)
            case "user":
                self._user(message)
            case "assistant":
                self._assistant(message)
        self._begun = self._begun or message.role != "system"

    # ── System ───────────────────────────────────────────────────────────────────────────────────

    def _system(self, message: Message) -> None:
        texts = [part for part in message.parts if isinstance(part, Text) and not part.text.startswith(BILLING)]
        for part in message.parts:
            if type(part) is Foreign and part.kind not in TOOL_ADDITIONS:
                self.notes.append(left_out(part.kind, "the upstream has no such part in a system message"))
        if not texts:
            return
        if self._begun and not self._may_stay(message):
            self._append("user", _reminder(texts), message)
        elif self.out and self._dialect.system == "first":
            first = self.out[0]
            first["content"] = f"{_plain(first['content'])}\n\n{_joined(texts)}"
        else:
            self._append("system", self._content(texts), message)

    def _may_stay(self, message: Message) -> bool:
        own = message.meta.get(PROTOCOL, {})
        return self._dialect.system == "anywhere" and bool(own.get("in_place"))

    # ── User: tool results, their images and files, then the rest ────────────────────────────────

    def _user(self, message: Message) -> None:
        answers = len(self.out)
        outside: list[Part] = []
        rest: list[Part] = []
        for part in message.parts:
            if isinstance(part, ToolResult):
                outside += self._result(part)
            else:
                rest.append(part)
        if rest or outside or len(self.out) == answers:
            self._append("user", self._content(outside + rest), message)

    def _result(self, result: ToolResult) -> Sequence[Part]:
        """Add a tool result to `out`. Return the parts of the result that a tool message cannot contain."""
        call_id = short_id(result.call_id, self._dialect.id_limit)
        match result.content:
            case (Text() as only,) if not (only.meta or result.meta or result.is_error):
                self.out.append({"role": "tool", "tool_call_id": call_id, "content": only.text})
                return ()
            case _:
                return self._other_result(result, call_id)

    def _other_result(self, result: ToolResult, call_id: str) -> Sequence[Part]:
        shown: Sequence[Text | Image | File] = result.content
        outside: list[Part] = []
        if not self._dialect.images_in_tools:
            outside = [part for part in result.content if not isinstance(part, Text)]
            shown = [part if isinstance(part, Text) else _placeholder(part) for part in result.content]
        if result.is_error:
            shown = with_failure(shown)
        if "cache_control" in result.meta and shown:
            *before, last = shown
            shown = [*before, replace(last, meta={**last.meta, "cache_control": result.meta["cache_control"]})]
        self.out.append({"role": "tool", "tool_call_id": call_id, "content": self._content(shown)})
        if outside:
            outside.insert(0, Text(text=f"From the result of tool call {call_id}:"))
        return outside

    # ── Assistant ────────────────────────────────────────────────────────────────────────────────

    def _assistant(self, message: Message) -> None:
        texts: list[Part] = []
        refusals: list[Text] = []
        calls: list[Json] = []
        for part in message.parts:
            match part:
                case Text() if part.refusal and self._own:
                    refusals.append(part)
                case Text():
                    texts.append(part)
                case ToolCall():
                    calls.append(self._call(part))
                case Thinking():
                    pass  # added below
                case _:
                    texts += self._other_part(part)
        content = self._content(texts) if texts or not calls else None
        out = self._append("assistant", content, message)
        if refusals:
            out["refusal"] = _joined(refusals)
        if self._replays and (thinking := _thinking_text(message.parts)):
            out[self._dialect.reasoning_field] = thinking
        if calls:
            out["tool_calls"] = calls
        if message.meta:
            _add_state(out, message.meta)

    def _other_part(self, part: Part) -> list[Part]:
        """Convert a part that is not text, thinking or a call. The result is empty if the part is left out."""
        match part:
            case Foreign() if part.protocol == PROTOCOL:
                return [part]
            case Foreign(kind="compaction") if summary := summary_parts(part):
                return summary
            case _:
                kind = part.kind if isinstance(part, Foreign) else type(part).__name__.lower()
                self.notes.append(left_out(kind, "the upstream has no such part in an answer"))
                return []

    def _call(self, call: ToolCall) -> Json:
        out = self._bare_call(call)
        if call.meta:
            _add_state(out, call.meta)
        return out

    def _bare_call(self, call: ToolCall) -> Json:
        call_id = short_id(call.id, self._dialect.id_limit)
        name = self._names.to_upstream(call.name)
        if call.freeform and self._dialect.freeform_tools:
            return {"id": call_id, "type": "custom", "custom": {"name": name, "input": call.arguments}}
        arguments = _wrapped(call.arguments) if call.freeform else self._object(call)
        return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}

    def _object(self, call: ToolCall) -> str:
        text = object_text(call.arguments)
        if text is not call.arguments and is_wrapped_invalid(call.arguments, text):
            self.notes.append(Note(kind="arguments", message=f"{call.name}: invalid JSON was wrapped in an object"))
        return text

    # ── Content ──────────────────────────────────────────────────────────────────────────────────

    def _append(self, role: str, content: object, message: Message) -> Json:
        out: Json = {"role": role, "content": content}
        if message.meta and (name := message.meta.get(PROTOCOL, {}).get("name")):
            out["name"] = name
        self.out.append(out)
        return out

    def _content(self, parts: Sequence[Part]) -> str | list[Any]:
        """Return the content of a message: a string if a string can express all parts, otherwise a list."""
        match parts:
            case (Text() as only,) if not only.meta:
                return only.text
            case _:
                return self._several(parts)

    def _several(self, parts: Sequence[Part]) -> str | list[Any]:
        if not self._dialect.cache_marks and any("cache_control" in part.meta for part in parts):
            self.lost_marks = True
        texts = [part for part in parts if isinstance(part, Text)]
        if len(texts) == len(parts) and not self._needs_list(texts):
            return _joined(texts)
        built = [self._part(part) for part in parts]
        return [part for part in built if part is not None] or ""

    def _needs_list(self, texts: Sequence[Text]) -> bool:
        if self._dialect.cache_marks and any("cache_control" in text.meta for text in texts):
            return True
        return self._lists and len(texts) > 1

    def _part(self, part: Part) -> Json | Raw | None:
        if isinstance(part, Image | File) and part.meta:
            self.notes += lost_details(part, PROTOCOL)
        match part:
            case Text():
                return self._with_mark(part, {"type": "text", "text": part.text})
            case Image():
                return self._with_mark(part, _image(part))
            case File(meta=meta) if (own := meta.get(PROTOCOL, NO_META).get("part")) is not None:
                return Raw(own.encode())
            case File() if part.data is not None:
                return self._with_mark(part, _file(part))
            case Foreign() if part.protocol == PROTOCOL:
                return Raw(part.json.encode())
            case File():
                self.notes.append(
                    left_out("file", "this upstream accepts no file by URL; the text contains its URL instead")
                )
                return {"type": "text", "text": f"[file: {part.url}]"}
            case Foreign():
                raise refused(part, "text, images, and files as base64 data")
            case Thinking() | ToolCall() | ToolResult():
                return None

    def _with_mark(self, part: Text | Image | File, out: Json) -> Json:
        mark = part.meta.get("cache_control") if self._dialect.cache_marks else None
        if mark is not None:
            out["cache_control"] = mark
        return out


def _add_state(out: Json, meta: Meta) -> None:
    """Add the provider state that `meta` contains to `out`, which is a message or a call."""
    for name, text in state_of(meta).items():
        if name in STATE_FIELDS:
            out[name] = Raw(text.encode())


def _image(part: Image) -> Json:
    url = part.url if part.data is None else f"data:{part.media_type};base64,{part.data}"
    detail = part.meta.get("detail")
    return {"type": "image_url", "image_url": {"url": url} if detail is None else {"url": url, "detail": detail}}


def _file(part: File) -> Json:
    data = f"data:{part.media_type};base64,{part.data}"
    return {"type": "file", "file": {"filename": part.name or "file", "file_data": data}}


def _placeholder(part: Image | File) -> Text:
    kind = "image" if isinstance(part, Image) else "file"
    return Text(text=f"[{kind}: it follows in the next user message]")


def _thinking_text(parts: Iterable[Part]) -> str:
    return "\n\n".join(part.text for part in parts if isinstance(part, Thinking) and part.text)


def _wrapped(text: str) -> str:
    return encode({"input": text}).decode()


def _reminder(texts: Sequence[Text]) -> str:
    text = _joined(texts)
    return text if text.lstrip().startswith(_REMINDER) else f"{_REMINDER}\n{text}\n</system-reminder>"


def _joined(texts: Iterable[Text]) -> str:
    return "\n\n".join(text.text for text in texts)


def _plain(content: str | list[Json]) -> str:
    return content if isinstance(content, str) else "\n\n".join(part["text"] for part in content)
