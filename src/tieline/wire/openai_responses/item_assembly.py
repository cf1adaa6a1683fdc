"""Assemble the output items of one answer into parts.

In the spec an item starts, its deltas follow, and its last event repeats it as a whole; the last event of the stream
repeats all items. All events have the item's id and its index. Upstreams change the id with every event, use one index
for all items, leave out the deltas, or list items only at the end. So an item is found by the id of its call, its own
id, or its index, in this order. What an event repeats adds only what is missing.
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
from tieline.wire.openai_responses.schema import ABSENT, PROTOCOL, ItemShape, PartShape
from tieline.wire.shared.json import decode_any, encode, is_object, read
from tieline.wire.shared.spelling import ToolNames

UNNAMED = "unknown_tool"
_PART = msgspec.json.Decoder(PartShape)


class Place(NamedTuple):
    """What an event says about its item."""

    output_index: int | None = None
    id: str | None = None
    call_id: str | None = None


class Section(NamedTuple):
    """A text of an item: `text`, `refusal`, `summary`, `reasoning` or `arguments`, and its number in the item."""

    kind: str
    number: int = 0


class OutputItem(ABC):
    """An item of the output. Its texts collect in sections."""

    kinds: frozenset[str] = frozenset()
    """The kinds of sections that it may have."""

    def __init__(self, assembler: "ItemAssembler", shape: ItemShape) -> None:
        self.type = shape.type or ""
        self.ended = False
        self.is_listed = False
        """Whether the last event of the stream lists it."""
        self._assembler = assembler
        self._parts = assembler.parts
        self._texts: dict[Section, list[str]] = {}

    def add(self, section: Section, text: str) -> None:
        """Add a delta."""
        if self.ended or not text:
            return
        chunks = self._texts.get(section)
        if chunks is None:
            chunks = self._texts[section] = []
            self._begin(section)
        chunks.append(text)
        self._emit(section, text)

    def fill(self, section: Section, whole: str) -> None:
        """Add what is missing of a text, given the whole text."""
        sent = "".join(self._texts.get(section, ()))
        if self.ended or whole == sent:
            return
        self._assembler.is_regular &= self._assembler.is_whole
        if whole.startswith(sent):
            self.add(section, whole[len(sent) :])
        elif whole:
            self._assembler.note("repair", f"the deltas of a {self.type} differ from its final text; they are kept")

    def finish(self, shape: ItemShape, raw: Raw) -> None:
        """End the item, given its final form."""
        if not self.ended:
            self._finish(shape, raw)
            self.ended = True

    def cut(self) -> None:
        """End an item that has no final form."""
        if not self.ended:
            self._cut()
            self.ended = True

    @abstractmethod
    def _begin(self, section: Section) -> None:
        """Prepare for the first text of a section."""

    @abstractmethod
    def _emit(self, section: Section, text: str) -> None:
        """Emit a delta."""

    @abstractmethod
    def _finish(self, shape: ItemShape, raw: Raw) -> None: ...

    @abstractmethod
    def _cut(self) -> None: ...


class MessageItem(OutputItem):
    """A message. Each of its texts and refusals is a part; a part ends when the next begins."""

    kinds = frozenset(("text", "refusal"))

    def __init__(self, assembler: "ItemAssembler", shape: ItemShape) -> None:
        super().__init__(assembler, shape)
        self._phase = shape.phase
        self._section: Section | None = None
        self._annotations: dict[int, str] = {}
        """The JSON text of the annotations of each part."""

    def note_part(self, index: int, part: PartShape) -> None:
        """Take over a content part as an event repeats it."""
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
            self._assembler.note("repair", "text for a part of a message that has ended was ignored")

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
    """A reasoning item: one part of thinking, with a blank line between its sections."""

    kinds = frozenset(("summary", "reasoning"))

    def __init__(self, assembler: "ItemAssembler", shape: ItemShape) -> None:
        super().__init__(assembler, shape)
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
            self._assembler.note("repair", "text for a part of a reasoning item that has ended was ignored")

    def _finish(self, shape: ItemShape, raw: Raw) -> None:  # noqa: ARG002 - the shape has everything
        for index, summary in enumerate(shape.summary or ()):
            self.fill(Section("summary", index), summary.text or "")
        for index, part in enumerate(shape.content if isinstance(shape.content, list) else ()):
            self.fill(Section("reasoning", index), read(_PART, bytes(part), []).text or "")
        texts = ["".join(chunks) for chunks in self._texts.values()]
        # The encrypted content is valid only with the id of the last event, which some upstreams change.
        thinking = read_thinking(shape.id or self._id, shape.encrypted_content, texts)
        lengths = thinking.meta.get(PROTOCOL, NO_META).get("parts")
        # The signature has the id.
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
    """A call of a function or of a freeform tool."""

    kinds = frozenset(("arguments",))

    def __init__(self, assembler: "ItemAssembler", shape: ItemShape, repeats: "CallItem | None" = None) -> None:
        super().__init__(assembler, shape)
        self.name = ""
        """The name of the tool in the neutral model."""
        self.call_id = ""
        self.text = ""
        """The arguments of a call that has ended."""
        self._repeats = repeats
        """An earlier call with the same id: this one may turn out to be the same."""
        self._freeform = shape.type == "custom_tool_call"
        self._is_wrapped = False
        self._item_id = shape.id
        self._meta: Meta = NO_META
        self._started = False
        self._held = ""
        self.learn(shape)

    def learn(self, shape: ItemShape) -> None:
        """Take over the id and the name, unless they are known."""
        if shape.call_id and not self.call_id and not self._started:
            self.call_id = shape.call_id
        if self.name or not shape.name:
            return
        names, namespace = self._assembler.tool_names, namespace_of(shape.namespace)
        if namespace is not None:
            self.name = flat_name(namespace, shape.name)
            self._meta = {PROTOCOL: {"namespace": namespace}}
        else:
            self.name = names.to_client(shape.name)
            self._is_wrapped = self.name in names.freeform and not self._freeform
        is_same = namespace is not None or self.name == shape.name
        self._assembler.is_regular &= is_same and not self._is_wrapped and bool(self.call_id)

    def _begin(self, section: Section) -> None: ...

    def _emit(self, section: Section, text: str) -> None:  # noqa: ARG002 - there is one section
        if self._started:
            self._parts.add(self, text)
            return
        self._held += text
        may_start = self.name and not self._is_wrapped and self._repeats is None
        if may_start and (self._freeform or _begins_object(self._held)):
            self._start()

    def _start(self) -> None:
        self._started = True
        self.call_id = self.call_id or self._item_id or self._assembler.new_call_id()
        self._parts.start(self, ToolCall(id=self.call_id, name=self.name, freeform=self._freeform, meta=self._meta))
        self._parts.add(self, self._held)
        self._held = ""

    def _finish(self, shape: ItemShape, raw: Raw) -> None:  # noqa: ARG002 - the shape has everything
        self.learn(shape)
        self.fill(Section("arguments"), call_text(shape))
        if shape.status == "incomplete":
            self._cut()
            return
        if not self.name:
            self._assembler.note("unnamed_call", f"a tool call without a name is given the name {UNNAMED}")
            self.name = UNNAMED
        self._end()

    def _cut(self) -> None:
        if self._started or (self._held and self.name):
            self._end()
        elif self.name:
            self._assembler.note("cut_call", f"{self.name} was cut off before its arguments and is left out")

    def _end(self) -> None:
        if not self._started:
            self._repair()
            if self._is_repeated():
                self._assembler.note("ignored", "a repeated tool call")
                return
            self._start()
        self.text = self._parts.text_of(self)
        self._parts.end(self)

    def _is_repeated(self) -> bool:
        """Return whether the call is the same as an earlier one with its id. If it is another, it gets a new id."""
        earlier = self._repeats
        if earlier is None:
            return False
        if (earlier.name, earlier.text) == (self.name, self._held):
            return True
        self._assembler.note("repeated_id", f"two tool calls with the id {self.call_id}: the second got a new id")
        self.call_id = self._assembler.new_call_id()
        return False

    def _repair(self) -> None:
        """Repair the arguments of a call that has not started."""
        if self._is_wrapped:
            self._freeform = True
            repaired = _unwrapped(self._held)
        else:
            repaired = self._held if self._freeform else _as_object(self._held)
        self._assembler.is_regular &= repaired == self._held
        self._held = repaired


class OpaqueItem(OutputItem):
    """An item that is read only in its final form: a call of a tool defined by OpenAI, or an item of another kind."""

    def __init__(self, assembler: "ItemAssembler", shape: ItemShape, raw: Raw) -> None:
        super().__init__(assembler, shape)
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
        call_id = shape.call_id or shape.id or self._assembler.new_call_id()
        self._parts.whole(ToolCall(id=call_id, name=kind), arguments)

    def _cut(self) -> None:
        if _client_tool(self._first[0]) is None:
            self._finish(*self._first)
        else:
            self._assembler.note("cut_call", f"a {self.type} was cut off and is left out")


class ItemAssembler:
    """Writes the items of an answer to its PartsWriter."""

    def __init__(self, parts: PartsWriter, tool_names: ToolNames) -> None:
        self.parts = parts
        self.tool_names = tool_names
        self.is_whole = False
        """Whether the answer does not stream, so that items have no deltas."""
        self.seed = ""
        """Makes generated ids unique to this answer."""
        self.notes: list[Note] = []
        self.is_regular = True
        """Whether the events so far follow the spec, so that a client can receive them unchanged."""
        self._items: list[OutputItem] = []
        self._by_index: dict[int, OutputItem] = {}
        self._by_id: dict[str, OutputItem] = {}
        self._by_call_id: dict[str, OutputItem] = {}

    @property
    def has_open(self) -> bool:
        """Whether an item has started and not ended."""
        return any(not item.ended for item in self._items)

    def start(self, shape: ItemShape, raw: Raw, index: int | None) -> OutputItem:
        """Start an item, unless it is open already."""
        known = self._by_call_id.get(shape.call_id or "") or self._by_id.get(shape.id or "")
        if known is not None and not known.ended:
            self.is_regular = False
            return known
        self.is_regular = self.is_regular and index == len(self._items) and bool(shape.id) and not self.has_open
        return self._new(shape, raw, Place(index, shape.id, shape.call_id))

    def add(self, place: Place, section: Section, text: str) -> None:
        """Add a delta to its item."""
        self._item_for(place, section).add(section, text)

    def fill(self, place: Place, section: Section, whole: str, name: str | None = None) -> None:
        """Add what is missing of a text, given the whole text."""
        item = self._item_for(place, section)
        if isinstance(item, CallItem):
            item.learn(ItemShape(name=name))
        item.fill(section, whole)

    def fill_part(self, place: Place, index: int, part: PartShape) -> None:
        """Add what is missing of a content part of a message, given the whole part."""
        kind = "refusal" if part.refusal else "text"
        item = self._item_for(place, Section(kind, index)) if part.refusal or part.text else self._find(place)
        if isinstance(item, MessageItem):
            item.note_part(index, part)

    def finish(self, shape: ItemShape, raw: Raw, index: int | None) -> None:
        """End an item, given its final form."""
        item = self._find(Place(index, shape.id, shape.call_id), shape)
        if item is None or (item.ended and not self._is_same(item, shape)):
            self.is_regular = False
            item = self._new(shape, raw, Place(index, shape.id, shape.call_id))
        item.finish(shape, raw)

    def finish_all(self, output: Sequence[tuple[ItemShape, Raw]]) -> None:
        """End all items, given the final output; items that were not streamed are added."""
        for index, (shape, raw) in enumerate(output):
            item = self._find(Place(index, shape.id, shape.call_id), shape) or self._unlisted(shape)
            if item is None or item.is_listed:
                self.is_regular = False
                item = self._new(shape, raw, Place(index, shape.id, shape.call_id))
            self.is_regular = self.is_regular and item.ended
            item.is_listed = True
            item.finish(shape, raw)
        self.is_regular = self.is_regular and all(item.is_listed for item in self._items)
        self.cut()

    def cut(self) -> None:
        """End all items that have no final form."""
        for item in self._items:
            if not item.ended:
                self.is_regular = False
                item.cut()

    def new_call_id(self) -> str:
        """Return an id for a call that has none."""
        return "call_" + sha256(f"{self.seed}:{len(self._items)}".encode("utf-8", "replace")).hexdigest()[:24]

    def note(self, kind: str, message: str) -> None:
        """Note something that was repaired or ignored."""
        self.is_regular = False
        self.notes.append(Note(kind=kind, message=message))

    def _new(self, shape: ItemShape, raw: Raw, place: Place) -> OutputItem:
        item = self._created(shape, raw)
        self._items.append(item)
        if place.output_index is not None:
            self._by_index[place.output_index] = item
        if place.id:
            self._by_id[place.id] = item
        if place.call_id:
            self._by_call_id[place.call_id] = item
        return item

    def _created(self, shape: ItemShape, raw: Raw) -> OutputItem:
        match shape.type:
            case "message":
                return MessageItem(self, shape)
            case "reasoning":
                return ReasoningItem(self, shape)
            case "function_call" | "custom_tool_call":
                earlier = self._by_call_id.get(shape.call_id or "")
                return CallItem(self, shape, earlier if isinstance(earlier, CallItem) else None)
            case _:
                return OpaqueItem(self, shape, raw)

    def _item_for(self, place: Place, section: Section) -> OutputItem:
        """Return the item that a text belongs to. If no item of that kind was started, start one."""
        found = self._find(place)
        if found is not None and section.kind in found.kinds:
            return found
        self.is_regular = False
        fitting = [item for item in self._items if section.kind in item.kinds and not item.ended]
        if fitting:
            return fitting[-1]
        self.note("inferred_start", "the upstream sent text for an item that it had not started")
        return self._new(ItemShape(type=_TYPES[section.kind], id=place.id, call_id=place.call_id), ABSENT, place)

    def _find(self, place: Place, shape: ItemShape | None = None) -> OutputItem | None:
        """Return the item at a place; with a shape, only if it can be the same item."""
        found = self._by_call_id.get(place.call_id or "") or self._by_id.get(place.id or "")
        if found is not None:
            return found
        found = self._by_index.get(-1 if place.output_index is None else place.output_index)
        if found is None or (shape is not None and not self._is_same(found, shape)):
            return None
        self.is_regular &= not place.id  # an id that changes is of no use to a client
        return found

    def _is_same(self, item: OutputItem, shape: ItemShape) -> bool:
        if item.type != shape.type:
            return False
        return not isinstance(item, CallItem) or shape.call_id in (None, "", item.call_id) or not item.call_id

    def _unlisted(self, shape: ItemShape) -> OutputItem | None:
        """Return the first streamed item that may be the listed one, for upstreams whose ids and indices all differ."""
        others = (item for item in self._items if not item.is_listed)
        return next((item for item in others if self._is_same(item, shape)), None)


_TYPES = {
    "text": "message",
    "refusal": "message",
    "summary": "reasoning",
    "reasoning": "reasoning",
    "arguments": "function_call",
}
"""The type of item that a kind of section belongs to."""


def call_text(shape: ItemShape) -> str:
    """Return the arguments of a call, or the input of a freeform one."""
    value = shape.input if shape.type == "custom_tool_call" else shape.arguments
    if value is None or isinstance(value, str):
        return value or ""
    return encode(value).decode()


def _client_tool(shape: ItemShape) -> str | None:
    """Return the type of the tool, if the client runs it."""
    kind = client_tools.CALLS.get(shape.type or "")
    is_searched_upstream = kind == "tool_search" and shape.execution != "client"
    return None if is_searched_upstream else kind


def _plain(value: object) -> object:
    """Return decoded JSON without Raw in it."""
    return decode_any(encode(value)) if isinstance(value, dict | list) else value


def _begins_object(text: str) -> bool:
    """Return whether arguments can be emitted; an empty object may be all of them, or precede the real ones."""
    beginning = text.strip()
    return beginning.startswith("{") and beginning != "{}"


def _as_object(text: str) -> str:
    """Return complete arguments: an empty object if there are none, and an object in a JSON string unpacked."""
    if text.strip() in ("", "null"):
        return "{}"
    try:
        inner = decode_any(text)
    except (ValueError, RecursionError):
        return text
    return inner if isinstance(inner, str) and is_object(inner) else text


def _unwrapped(text: str) -> str:
    """Return the text of a freeform call that was offered as a function with one property, if it has that form."""
    try:
        value = decode_any(text)
    except (ValueError, RecursionError):
        return text
    wrapped = value.get("input") if isinstance(value, dict) else None
    return wrapped if isinstance(wrapped, str) else text
