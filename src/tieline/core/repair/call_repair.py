"""Repair one complete call: unwrap it, repair its JSON, fit its arguments to the schema, or replace a repeated call."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

from msgspec.structs import replace

from tieline.core.repair.arguments import ArgumentSchema, array_items, is_object, object_fields, parse_call
from tieline.core.repair.json_repair import repair_json
from tieline.core.repair.repeats import call_key, repeated_calls
from tieline.model.content import Message, Text, ToolCall
from tieline.model.events import Note
from tieline.model.request import ToolSpec

REPEATS = 3
MAX_INNER = 64
WRAPPERS = frozenset({"parallel", "multi_tool_use", "multi_tool_use.parallel", "multi_tool_use_parallel"})

_LISTS = ("tool_uses", "tool_calls", "calls", "tools", "invocations")
_NONE: frozenset[Any] = frozenset()


class Repaired(NamedTuple):
    """The part that replaces a call, and the notes to emit before it."""

    notes: tuple[Note, ...]
    part: ToolCall | Text


class CallRepair:
    """Applies the enabled repairs to the calls of one leg."""

    def __init__(self, tools: Sequence[ToolSpec], enabled: frozenset[str], history: Sequence[Message]) -> None:
        self.enabled = enabled
        self.repeated = repeated_calls(history, REPEATS) if "repeat" in enabled else _NONE
        self.fits_schema = "coerce" in enabled or "keys" in enabled
        self.repairs_json = "json" in enabled
        self.notes_unknown = "unknown" in enabled
        self._tools = tools

    # The following properties are computed on first use, because most legs have no calls.

    @cached_property
    def offered(self) -> dict[str, ToolSpec]:
        """The offered tools by name."""
        return {tool.name: tool for tool in self._tools}

    @cached_property
    def schemas(self) -> dict[str, ArgumentSchema]:
        """The argument schemas by tool name; empty if no enabled repair needs them."""
        if not self.fits_schema and "text_calls" not in self.enabled:
            return {}
        return {tool.name: ArgumentSchema(tool.schema) for tool in self._tools if not tool.freeform and not tool.hosted}

    @cached_property
    def wrappers(self) -> frozenset[str]:
        """The names of wrappers: tools that were not offered, but that models call to make several calls at once."""
        return WRAPPERS - self.offered.keys() if "parallel" in self.enabled else _NONE

    def needs_whole(self, call: ToolCall) -> bool:
        """Return whether a call to this tool may need a repair, so that it must be held until it is complete."""
        name = call.name
        return (
            name in self.wrappers
            or self.repairs_json
            or (self.fits_schema and name in self.schemas)
            or (self.notes_unknown and name not in self.offered)
            or any(name == repeated for repeated, _ in self.repeated)
        )

    def has_malformed_json(self, call: ToolCall) -> bool:
        """Return whether the JSON of the arguments needs repair. Empty arguments need none."""
        return (
            self.repairs_json and not call.freeform and bool(call.arguments.strip()) and not is_object(call.arguments)
        )

    def repaired(self, call: ToolCall, *, truncated: bool) -> list[Repaired] | None:
        """Return the replacements for a complete call, or None if it needs no change.

        If the answer was truncated, malformed JSON is not repaired, because its end may be missing.
        """
        notes: list[Note] = []
        whole = call
        if self.has_malformed_json(call):
            if truncated:
                return None
            whole = _with_repaired_json(call, notes)
        inner = self.unwrapped(whole) if call.name in self.wrappers else None
        if inner is None:
            one = self.single(whole, notes)
            return [one] if one.notes else None
        notes.append(_repair(f"{len(inner)} calls were extracted from a call to {call.name}"))
        first, *others = inner
        return [self.single(first, notes), *(self.single(other, []) for other in others)]

    def unwrapped(self, wrapper: ToolCall) -> list[ToolCall] | None:
        """Return the calls inside a wrapper. Return None unless all of them are valid calls to offered tools."""
        found = object_fields(wrapper.arguments) or {}
        lists = [array_items(found[key]) for key in _LISTS if key in found]
        inner = lists[0] if len(lists) == 1 else None
        if not inner or len(inner) > MAX_INNER:
            return None
        calls = []
        for number, item in enumerate(inner, 1):
            call = parse_call(item)
            name = call and self._offered_name(call[0])
            if not call or not name:
                return None
            calls.append(ToolCall(id=f"{wrapper.id}_{number}", name=name, arguments=call[1]))
        return calls

    def single(self, call: ToolCall, notes: list[Note]) -> Repaired:
        """Repair one call that is not a wrapper. Append notes about the repairs to `notes`."""
        if call.name not in self.offered:
            if self.notes_unknown:
                notes.append(Note(kind="unknown_tool", message=f"the tool {call.name} was not offered"))
        elif self.fits_schema and call.name in self.schemas and not call.freeform:
            call = self._fitted(call, notes)
        if self.repeated and call_key(call) in self.repeated:
            notes.append(_repair(f"a call to {call.name} was stopped after {REPEATS} calls with the same result"))
            return Repaired(tuple(notes), Text(text=_stop_message(call)))
        return Repaired(tuple(notes), call)

    def _fitted(self, call: ToolCall, notes: list[Note]) -> ToolCall:
        schema = self.schemas[call.name]
        text, changes = schema.fit(call.arguments, keys="keys" in self.enabled, values="coerce" in self.enabled)
        if not changes:
            return call
        notes.extend(_repair(f"arguments of {call.name}: {change}") for change in changes)
        return replace(call, arguments=text)

    def _offered_name(self, name: str) -> str | None:
        bare = name.removeprefix("functions.")
        return name if name in self.offered else bare if bare in self.offered else None


def _with_repaired_json(call: ToolCall, notes: list[Note]) -> ToolCall:
    text = repair_json(call.arguments)
    if text is None:
        message = f"the arguments of {call.name} are not valid JSON and cannot be repaired"
        notes.append(Note(kind="malformed", message=message))
        return call
    notes.append(_repair(f"the arguments of {call.name} were malformed JSON and were repaired"))
    return replace(call, arguments=text)


def _stop_message(call: ToolCall) -> str:
    return (
        f"[The call to {call.name} was not made: the same call was made {REPEATS} times in a row, each time with the "
        "same result. Do something else, or ask the user.]"
    )


def _repair(message: str) -> Note:
    return Note(kind="repair", message=message)
