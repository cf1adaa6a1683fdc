"""Find the output item that an event belongs to, and assemble the items into parts.

According to the spec, an item starts, its deltas follow, and its last event repeats the whole item. The last event of
the stream repeats all items. Every event of an item contains the item's id and index. In practice, some upstreams
change the id with every event, use one index for all items, omit the deltas, or list items only at the end. So an item
is looked up by its call id, then by its item id, then by its index. If an event repeats an item, only the missing
content is added.
"""

from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

from msgspec import Raw

from tieline.model.assemble import PartsWriter
from tieline.wire.openai_responses.output_items import (
    AnswerState,
    CallItem,
    MessageItem,
    OpaqueItem,
    OutputItem,
    ReasoningItem,
    Section,
)
from tieline.wire.openai_responses.schema import ABSENT, ItemShape, PartShape
from tieline.wire.shared.spelling import ToolNames

MAX_COMPARED = 256
"""Maximum number of items to compare if an item is found neither by id nor by index. This keeps the time linear."""
_TYPES = {
    "text": "message",
    "refusal": "message",
    "summary": "reasoning",
    "reasoning": "reasoning",
    "arguments": "function_call",
}
"""The type of item that contains each kind of section."""


class ItemPlace(NamedTuple):
    """The index and the ids by which an event identifies its item."""

    output_index: int | None = None
    id: str | None = None
    call_id: str | None = None


class ItemAssembler(AnswerState):
    """Finds or creates the item for each event, and writes the items as parts to a PartsWriter."""

    def __init__(self, parts: PartsWriter, tool_names: ToolNames) -> None:
        super().__init__(parts, tool_names)
        self._items: list[OutputItem] = []
        self._by_index: dict[int, OutputItem] = {}
        self._by_id: dict[str, OutputItem] = {}
        self._by_call_id: dict[str, OutputItem] = {}

    def start(self, shape: ItemShape, raw: Raw, index: int | None) -> OutputItem:
        """Start an item and return it. If it is already open, return the open item."""
        known = self._by_call_id.get(shape.call_id or "") or self._by_id.get(shape.id or "")
        if known is not None and not known.ended:
            self.is_regular = False
            return known
        is_next = index == len(self._items) and (not self._items or self._items[-1].ended)
        self.is_regular = self.is_regular and is_next and bool(shape.id)
        return self._new(shape, raw, ItemPlace(index, shape.id, shape.call_id))

    def add(self, place: ItemPlace, section: Section, text: str) -> OutputItem:
        """Add a delta to its item, and return the item."""
        item = self._item_for(place, section)
        item.add(section, text)
        return item

    def fill(self, place: ItemPlace, section: Section, whole: str, name: str | None = None) -> None:
        """Complete a section of the item at `place` with the rest of its text, which was not in the deltas.

        `whole` is the complete text. `name` is the name of the tool, if the item is a call.
        """
        item = self._item_for(place, section)
        if isinstance(item, CallItem):
            item.learn(ItemShape(name=name))
        item.fill(section, whole)

    def fill_part(self, place: ItemPlace, index: int, part: PartShape) -> None:
        """Complete a content part of the message at `place`. `part` is the whole part, `index` its position."""
        kind = "refusal" if part.refusal else "text"
        item = self._item_for(place, Section(kind, index)) if part.refusal or part.text else self._find(place)
        if isinstance(item, MessageItem):
            item.note_part(index, part)

    def finish(self, shape: ItemShape, raw: Raw, index: int | None) -> None:
        """End an item. `shape` and `raw` are its final form, which may contain additional content."""
        item = self._find(ItemPlace(index, shape.id, shape.call_id), shape)
        if item is None or (item.ended and not self._is_same(item, shape)):
            self.is_regular = False
            item = self._new(shape, raw, ItemPlace(index, shape.id, shape.call_id))
        item.finish(shape, raw)

    def finish_all(self, output: Sequence[tuple[ItemShape, Raw]]) -> None:
        """End all items. `output` is the final list of items; those that were not streamed are added."""
        for index, (shape, raw) in enumerate(output):
            item = self._find(ItemPlace(index, shape.id, shape.call_id), shape) or self._unlisted(shape)
            if item is None or item.is_listed:
                self.is_regular = False
                item = self._new(shape, raw, ItemPlace(index, shape.id, shape.call_id))
            self.is_regular = self.is_regular and item.ended
            item.is_listed = True
            item.finish(shape, raw)
        self.is_regular = self.is_regular and all(item.is_listed for item in self._items)
        self.cut()

    def cut(self) -> None:
        """End all open items, although their final form was not received."""
        for item in self._items:
            if not item.ended:
                self.is_regular = False
                item.cut()

    def _new(self, shape: ItemShape, raw: Raw, place: ItemPlace) -> OutputItem:
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

    def _item_for(self, place: ItemPlace, section: Section) -> OutputItem:
        """Return the item that a section belongs to.

        If the item at `place` cannot have this section, return the last open item that can, or start one.
        """
        found = self._find(place)
        if found is not None and section.kind in found.kinds:
            return found
        self.is_regular = False
        fitting = (item for item in reversed(self._items) if section.kind in item.kinds and not item.ended)
        if (last := next(fitting, None)) is not None:
            return last
        self.note("inferred_start", "the upstream sent text for an item that it had not started")
        return self._new(ItemShape(type=_TYPES[section.kind], id=place.id, call_id=place.call_id), ABSENT, place)

    def _find(self, place: ItemPlace, shape: ItemShape | None = None) -> OutputItem | None:
        """Return the item at `place`, or None.

        An item that is found only by its index must be compatible with `shape`, if that is given.
        """
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
        """Return the first streamed item that matches `shape` (from the final list) and was not matched before.

        This is needed for upstreams that use different ids and indices in the final list.
        """
        others = (item for item in islice(self._items, MAX_COMPARED) if not item.is_listed)
        return next((item for item in others if self._is_same(item, shape)), None)
