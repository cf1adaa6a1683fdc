"""Calls to a tool with which a client shows a plan or a list of tasks, such as `update_plan` or `TodoWrite`."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from tieline.demo.actions import Action
from tieline.demo.reply_steps import CallTool
from tieline.demo.schema_filler import FillHints, SchemaFiller
from tieline.wire.shared.capabilities import ClientTool, plain_name
from tieline.wire.shared.capabilities.schema import Schema, properties_of, required_of, resolve, types_of

_NAMES = ("updateplan", "todowrite", "writetodos", "updatetodos", "updatetodolist", "todo")
_TEXTS = ("step", "content", "text", "title", "task", "description")
_DONE = re.compile(r"\s{0,3}\((?:done|completed)\)$", re.IGNORECASE)
_SEPARATOR = re.compile(r"\s*(?:;|,|\n|\band\b)\s*(?:and\s)?\s*")


def plan_call(action: Action, tools: Sequence[ClientTool]) -> CallTool | None:
    """Return a call that shows the steps in `action.content`, or None if the client has no tool for that.

    Steps that end with `(done)` are completed. The first other step is in progress.
    """
    steps = list(_steps(action.content))
    named = {plain_name(tool.name): tool for tool in tools if not tool.freeform}
    for tool in (named[name] for name in _NAMES if name in named):
        for name, schema in properties_of(tool.schema).items():
            shape = resolve(schema, tool.schema)
            item = resolve(shape.get("items", {}), tool.schema)
            if "array" in types_of(shape) and _text_name(item) is not None:
                entries = [_entry(item, tool.schema, number, step) for number, step in enumerate(steps, 1)]
                return CallTool(name=tool.name, arguments=msgspec.json.encode({name: entries}).decode())
    return None


def _steps(text: str) -> Iterator[tuple[str, str]]:
    """Yield the text and the status of each step."""
    parts = [part.strip(" .") for part in (text.split(";") if ";" in text else _SEPARATOR.split(text))]
    status = "inprogress"
    for part in filter(None, parts):
        if _DONE.search(part):
            yield _DONE.sub("", part), "completed"
        else:
            yield part, status
            status = "pending"


def _text_name(item: Schema) -> str | None:
    names = {plain_name(name): name for name in properties_of(item)}
    return next((names[name] for name in _TEXTS if name in names), None)


def _entry(item: Schema, root: Schema, number: int, step: tuple[str, str]) -> Mapping[str, Any]:
    text, status = step
    properties, main = properties_of(item), _text_name(item)
    entry: dict[str, Any] = {}
    for name in dict.fromkeys([*([main] if main else []), *required_of(item), *("status",)]):
        schema = resolve(properties.get(name, {}), root)
        words = {plain_name(str(word)): word for word in schema.get("enum") or ()}
        if name == main:
            entry[name] = text
        elif status in words:
            entry[name] = words[status]
        elif plain_name(name) == "id":
            entry[name] = str(number) if "string" in types_of(schema) else number
        elif name in properties:
            entry[name] = SchemaFiller(root, FillHints(text, phrase=text), sparing=True).value(schema, name, 1)
    return entry
