"""The output items of one answer, and the parts that they become.

An item starts, its deltas follow, and its last event repeats the whole item. From this event, only content that the
deltas did not contain is added.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from hashlib import sha256
from typing import NamedTuple

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from tieline.model.assemble import PartsWriter
from tieline.model.content import NO_META, Foreign, Meta, Text, Thinking, ToolCall
from tieline.model.events import Note
from tieline.wire.openai_responses import client_tools
from tieline.wire.openai_responses.names import flat_name, namespace_of
from tieline.wire.openai_responses.reasoning import read_thinking
from tieline.wire.openai_responses.schema import PROTOCOL, ItemShape, PartShape
from tieline.wire.shared.json import decode_any, encode, is_object, read
from tieline.wire.shared.spelling import ToolNames

UNNAMED = "unknown_tool"
_PART = msgspec.json.Decoder(PartShape)


class Section(NamedTuple):
    """Identifies one text of an item: its kind (text, refusal, summary, reasoning or arguments) and its number."""

    kind: str
    number: int = 0


class AnswerState:
    """The state that all items of one answer share."""

    def __init__(self, parts: PartsWriter, tool_names: ToolNames) -> None:
        self.parts = parts
        self.tool_names = tool_names
        self.is_whole = False
        """Whether the answer is not streamed, so that there are no deltas."""
        self.seed = ""
        """A text that makes the generated call ids unique to this answer."""
        self.notes: list[Note] = []
        self.is_regular = True
        """Whether all events received so far follow the spec, so that they can be sent to the client unchanged."""
        self._new_ids = 0

    def new_call_id(self) -> str:
        """Return a new id, for a call without an id."""
        self._new_ids += 1
        return "call_" + sha256(f"{self.seed}:{self._new_ids}".encode("utf-8", "replace")).hexdigest()[:24]

    def note(self, kind: str, message: str) -> None:
        """Add a note about something that was repaired or ignored."""
        self.is_regular = False
        self.notes.append(Note(kind=kind, message=message))


class OutputItem(ABC):
    """An output item. Each of its texts is collected in a section."""

    kinds: frozenset[str] = frozenset()
    """The kinds of sections that an item of this class may have."""

    def __init__(self, state: AnswerState, shape: ItemShape) -> None:
        self.type = shape.type or ""
        self.ended = False
        self.is_listed = False
        """Whether the item is in the final list of items, in the last event of the stream."""
        self._state = state
        self._parts = state.parts
        self._texts: dict[Section, list[str]] = {}

    def add(self, section: Section, text: str) -> None:
        """Add a delta to a section."""
        if self.ended or not text:
            return
        chunks = self._texts.get(section)
        if chunks is None:
            chunks = self._texts[section] = []
            self._begin(section)
        chunks.append(text)
        self._emit(section, text)

    def add_all(self, section: Section, texts: Sequence[str]) -> None:
        """Add several deltas to a section that has begun. They must not contain surrogates."""
        if not self.ended:
            self._texts[section] += texts
            self._emit_all(section, texts)

    def fill(self, section: Section, whole: str) -> None:
        """Complete a section with the rest of its text, which was not in the deltas. `whole` is the complete text."""
        if self.ended or not whole:
            self._state.is_regular &= self.ended or section not in self._texts
            return
        sent = "".join(self._texts.get(section, ()))
        if whole == sent:
            return
        self._state.is_regular &= self._state.is_whole
        if whole.startswith(sent):
            self.add(section, whole[len(sent) :])
        else:
            self._state.note("repair", f"the deltas of a {self.type} differ from its final text; the deltas are kept")

    def finish(self, shape: ItemShape, raw: Raw) -> None:
        """End the item. `shape` and `raw` are its final form, which may contain additional content."""
        if not self.ended:
            self._finish(shape, raw)
            self.ended = True

    def cut(self) -> None:
        """End the item, although its final form was not received."""
        if not self.ended:
            self._cut()
            self.ended = True

    @abstractmethod
    def _begin(self, section: Section) -> None:
        """Begin a section, before its first text is emitted."""

    @abstractmethod
    def _emit(self, section: Section, text: str) -> None:
        """Emit a delta of a section, or hold it back."""

    def _emit_all(self, section: Section, texts: Sequence[str]) -> None:
        """Emit several deltas of a section."""
        for text in texts:
            self._emit(section, text)

    @abstractmethod
    def _finish(self, shape: ItemShape, raw: Raw) -> None: ...

    @abstractmethod
    def _cut(self) -> None: ...


class MessageItem(OutputItem):
    """A message. Each of its texts and refusals is a part, which ends when the next one begins."""

    kinds = frozenset(("text", "refusal"))

    def __init__(self, state: AnswerState, shape: ItemShape) -> None:
        super().__init__(state, shape)
        self._phase = shape.phase
        self._section: Section | None = None
        self._annotations: dict[int, str] = {}
        """The annotations of each part as JSON text, by the index of the part."""

    def note_part(self, index: int, part: PartShape) -> None:
        """Complete the content part at `index`: add its annotations, and the text that the deltas did not contain."""
        annotations = bytes(part.annotations)
        if annotations.startswith(b"[") and annotations[1:].strip() != b"]":
            self._annotations[index] = annotations.decode()
        if part.refusal:
            self.fill(Section("refusal", index), part.refusal)
        elif part.text:
            self.fill(Section("text", index), part.text)

    def _begin(self, section: Section) -> None:
        self._end_part()
        self._section = section
        self._parts.start((self, section), Text(refusal=section.kind == "refusal"))

    def _emit(self, section: Section, text: str) -> None:
        if section == self._section:
            self._parts.add((self, section), text)
        else:
            self._state.note("repair", "text was ignored because its part of the message had ended")

    def _emit_all(self, section: Section, texts: Sequence[str]) -> None:
        if section == self._section:
            self._parts.add_all((self, section), texts)
        else:
            super()._emit_all(section, texts)

    def _end_part(self) -> None:
        section = self._section
        if section is not None:
            self._parts.revise(
                (self, section), Text(refusal=section.kind == "refusal", meta=self._meta(section.number))
            )
            self._parts.end((self, section))
            self._section = None

    def _meta(self, index: int) -> Meta:
        own = {"phase": self._phase, "annotations": self._annotations.get(index)}
        known = {name: value for name, value in own.items() if value}
        return {PROTOCOL: known} if known else NO_META

    def _finish(self, shape: ItemShape, raw: Raw) -> None:  # noqa: ARG002 - the shape has everything
        self._phase = shape.phase or self._phase
        content = shape.content
        if isinstance(content, str):
            self.fill(Section("text"), content)
        for index, part in enumerate(content if isinstance(content, list) else ()):
            self.note_part(index, read(_PART, bytes(part), []))
        self._end_part()

    def _cut(self) -> None:
        self._end_part()


class ReasoningItem(OutputItem):
    """A reasoning item. It becomes one thinking part, with a blank line between the sections."""

    kinds = frozenset(("summary", "reasoning"))

    def __init__(self, state: AnswerState, shape: ItemShape) -> None:
        super().__init__(state, shape)
        self._id = shape.id
        self._started = False

    def _begin(self, section: Section) -> None:  # noqa: ARG002 - all sections are one part
        if self._started:
            self._parts.add(self, "\n\n")
        else:
            self._start(Thinking())

    def _start(self, thinking: Thinking) -> None:
        self._started = True
        self._parts.start(self, thinking)

    def _emit(self, section: Section, text: str) -> None:
        if section == next(reversed(self._texts)):
            self._parts.add(self, text)
        else:
            self._state.note("repair", "text was ignored because its part of the reasoning item had ended")

    def _finish(self, shape: ItemShape, raw: Raw) -> None:  # noqa: ARG002 - the shape has everything
        for index, summary in enumerate(shape.summary or ()):
            self.fill(Section("summary", index), summary.text or "")
        for index, part in enumerate(shape.content if isinstance(shape.content, list) else ()):
            self.fill(Section("reasoning", index), read(_PART, bytes(part), []).text or "")
        texts = ["".join(chunks) for chunks in self._texts.values()]
        # The encrypted content is valid only with the item id in the last event. Some upstreams change the id.
        thinking = read_thinking(shape.id or self._id, shape.encrypted_content, texts)
        lengths = thinking.meta.get(PROTOCOL, NO_META).get("parts")
        # The signature already contains the id.
        thinking = replace(thinking, meta={PROTOCOL: {"parts": lengths}} if lengths else NO_META)
        if thinking.signature and not self._started:
            self._start(thinking)
        if self._started:
            self._parts.revise(self, thinking)
            self._parts.end(self)

    def _cut(self) -> None:
        if self._started:
            self._parts.end(self)


class CallItem(OutputItem):
    """A call to a function or a freeform tool."""

    kinds = frozenset(("arguments",))

    def __init__(self, state: AnswerState, shape: ItemShape, repeats: "CallItem | None" = None) -> None:
        super().__init__(state, shape)
        self.name = ""
        """The flat name of the tool (see `names`)."""
        self.call_id = ""
        self.text = ""
        """The complete arguments, once the call has ended."""
        self._repeats = repeats
        """An earlier call with the same id, which this call may repeat."""
        self._freeform = shape.type == "custom_tool_call"
        self._is_wrapped = False
        self._item_id = shape.id
        self._meta: Meta = NO_META
        self._started = False
        self._held: list[str] = []
        """Arguments that cannot be emitted yet."""
        self.learn(shape)

    def learn(self, shape: ItemShape) -> None:
        """Set the id and the name from `shape`, unless they are already known."""
        if shape.call_id and not self.call_id and not self._started:
            self.call_id = shape.call_id
        if self.name or not shape.name:
            return
        names, namespace = self._state.tool_names, namespace_of(shape.namespace)
        if namespace is not None:
            self.name = flat_name(namespace, shape.name)
            self._meta = {PROTOCOL: {"namespace": namespace}}
        else:
            self.name = names.to_client(shape.name)
            self._is_wrapped = self.name in names.freeform and not self._freeform
        is_same = namespace is not None or self.name == shape.name
        self._state.is_regular &= is_same and not self._is_wrapped and bool(self.call_id)

    def _begin(self, section: Section) -> None: ...

    def _emit(self, section: Section, text: str) -> None:  # noqa: ARG002 - there is one section
        if self._started:
            self._parts.add(self, text)
            return
        self._held.append(text)
        if self.name and not self._is_wrapped and self._repeats is None and self._is_begun():
            self._start()

    def _is_begun(self) -> bool:
        """Return whether the arguments have begun, so that they can be emitted.

        `{}` does not count: it may be the complete arguments, or precede the real ones.
        """
        beginning = "".join(self._held[:4]).strip()
        return self._freeform or (beginning.startswith("{") and beginning != "{}")

    def _start(self) -> None:
        self._started = True
        self.call_id = self.call_id or self._item_id or self._state.new_call_id()
        self._parts.start(self, ToolCall(id=self.call_id, name=self.name, freeform=self._freeform, meta=self._meta))
        self._parts.add(self, "".join(self._held))
        self._held = []

    def _finish(self, shape: ItemShape, raw: Raw) -> None:  # noqa: ARG002 - the shape has everything
        self.learn(shape)
        self.fill(Section("arguments"), call_text(shape))
        if shape.status == "incomplete":
            self._cut()
            return
        if not self.name:
            self._state.note("unnamed_call", f"a tool call without a name was named {UNNAMED}")
            self.name = UNNAMED
        self._end()

    def _cut(self) -> None:
        if self._started or (self._held and self.name):
            self._end()
        elif self.name:
            self._state.note("cut_call", f"a call to {self.name} was cut off before its arguments and is left out")

    def _end(self) -> None:
        if not self._started:
            self._repair()
            if self._is_repeated():
                self._state.note("ignored", "a repeated tool call")
                return
            self._start()
        self.text = self._parts.text_of(self)
        self._parts.end(self)

    def _is_repeated(self) -> bool:
        """Return whether the call repeats an earlier one. If only the ids are equal, give this call a new id."""
        earlier = self._repeats
        if earlier is None:
            return False
        if (earlier.name, earlier.text) == (self.name, "".join(self._held)):
            return True
        self._state.note("repeated_id", f"two tool calls with the id {self.call_id}: the second got a new id")
        self.call_id = self._state.new_call_id()
        return False

    def _repair(self) -> None:
        """Repair the held arguments of a call that has not been started as a part yet."""
        held = "".join(self._held)
        if self._is_wrapped:
            self._freeform = True
            repaired = _unwrapped(held)
        else:
            repaired = held if self._freeform else _as_object(held)
        self._state.is_regular &= repaired == held
        self._held = [repaired]


class OpaqueItem(OutputItem):
    """An item that is read from its final form only, such as a call to a tool defined by OpenAI."""

    def __init__(self, state: AnswerState, shape: ItemShape, raw: Raw) -> None:
        super().__init__(state, shape)
        self._first = shape, raw

    def _begin(self, section: Section) -> None: ...

    def _emit(self, section: Section, text: str) -> None: ...

    def _finish(self, shape: ItemShape, raw: Raw) -> None:
        kind = _client_tool(shape)
        if kind is not None and shape.status == "incomplete":
            self._cut()
            return
        if kind is None:
            self._parts.whole(Foreign(protocol=PROTOCOL, kind=self.type, json=bytes(raw).decode()))
            return
        fields = getattr(shape, client_tools.CLIENT_TOOLS[kind].field)
        arguments = client_tools.arguments_of(kind, _plain(fields))
        call_id = shape.call_id or shape.id or self._state.new_call_id()
        self._parts.whole(ToolCall(id=call_id, name=kind), arguments)

    def _cut(self) -> None:
        if _client_tool(self._first[0]) is None:
            self._finish(*self._first)
        else:
            self._state.note("cut_call", f"a {self.type} was cut off and is left out")


def call_text(shape: ItemShape) -> str:
    """Return the arguments of a function call, or the input of a freeform call."""
    value = shape.input if shape.type == "custom_tool_call" else shape.arguments
    if value is None or isinstance(value, str):
        return value or ""
    return encode(value).decode()


def _client_tool(shape: ItemShape) -> str | None:
    """Return the type of the called tool if the client runs it; None for any other item."""
    kind = client_tools.CALLS.get(shape.type or "")
    is_searched_upstream = kind == "tool_search" and shape.execution != "client"
    return None if is_searched_upstream else kind


def _plain(value: object) -> object:
    """Return the value with any Raw inside it decoded."""
    return decode_any(encode(value)) if isinstance(value, dict | list) else value


def _as_object(text: str) -> str:
    """Return complete arguments as an object: `{}` for empty arguments, or the object inside a JSON string."""
    if text.strip() in ("", "null"):
        return "{}"
    try:
        inner = decode_any(text)
    except (ValueError, RecursionError):
        return text
    return inner if isinstance(inner, str) and is_object(inner) else text


def _unwrapped(text: str) -> str:
    """Return the text of a freeform call that the upstream sent as a function call with the argument `input`.

    If the arguments do not have that form, return them unchanged.
    """
    try:
        value = decode_any(text)
    except (ValueError, RecursionError):
        return text
    wrapped = value.get("input") if isinstance(value, dict) else None
    return wrapped if isinstance(wrapped, str) else text
