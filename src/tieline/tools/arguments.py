"""Tool definitions: one declaration provides the schema of a tool's arguments, their validation and their parsing.

Arguments are declared as a `Value` whose fields carry a description and bounds. The schema that models see is generated
from this declaration. The error for invalid arguments lists up to MAX_PROBLEMS problems with the expected values,
because otherwise the model would need a separate call to learn of each problem.
"""

import difflib
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

import msgspec

from tieline.model.content import ToolCall, Value
from tieline.model.request import ToolSpec
from tieline.tools.errors import ToolFailed

T = TypeVar("T", bound=Value)
Schema = dict[str, Any]

MAX_SHOWN = 60
MAX_PROBLEMS = 8

_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}
_TYPE_NAMES = {
    "string": "a string",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
}
_ERRORS = (msgspec.DecodeError, UnicodeError, RecursionError)


class BadArguments(ToolFailed):
    """The arguments of a call are not valid for its tool. The call was not run."""


class ToolDefinition(Generic[T]):
    """A tool as a model sees it, and the parser of its arguments."""

    def __init__(self, name: str, description: str, kind: type[T]) -> None:
        self.name = name
        self.kind = kind
        self.schema = _schema(kind)
        self.spec = ToolSpec(name=name, description=description, schema=msgspec.json.encode(self.schema))

    def parse(self, call: ToolCall) -> T:
        """Return the arguments of a call. Raise BadArguments if they are not valid."""
        check = _ArgumentCheck(self.name)
        valid = check.object(decode_arguments(call), self.schema, "")
        if check.problems:
            listed = "\n".join(f"- {problem}" for problem in check.problems[:MAX_PROBLEMS])
            raise BadArguments(
                f"The arguments of {self.name} are not valid:\n{listed}\nNothing was done. Call it again."
            )
        return msgspec.convert(valid, self.kind)


def decode_arguments(call: ToolCall) -> dict[str, Any]:
    """Return the arguments of a call (blank text means {}). Raise BadArguments if they are not a JSON object."""
    if not call.arguments.strip():
        return {}
    try:
        given = msgspec.json.decode(call.arguments)
    except _ERRORS as error:
        raise BadArguments(f"The arguments of {call.name} are not valid JSON: {error}. Nothing was done.") from None
    if not isinstance(given, dict):
        raise BadArguments(f"The arguments of {call.name} must be a JSON object, not {_shown(given)}.")
    return given


def _schema(kind: type[Value]) -> Schema:
    """Return the JSON schema of a declaration. References (`$ref`) are expanded: some upstreams do not resolve them."""
    whole = msgspec.json.schema(kind)
    inlined: Schema = _inlined(whole, whole["$defs"])
    return inlined


def _inlined(schema: Any, definitions: Mapping[str, Any]) -> Any:
    if isinstance(schema, list):
        return [_inlined(item, definitions) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if reference := schema.get("$ref"):
        beside = {key: value for key, value in schema.items() if key not in ("$ref", "$defs")}
        found = _inlined(definitions[reference.rpartition("/")[2]], definitions)
        return {**found, "additionalProperties": False, **beside}
    names = [key for key, value in schema.items() if not (key == "title" and isinstance(value, str))]
    inlined = {key: _inlined(schema[key], definitions) for key in names}
    if either := inlined.pop("anyOf", None):
        # Null means the same as leaving the argument out, so the schema does not mention it.
        inlined |= next(one for one in either if one != {"type": "null"})
        del inlined["default"]
    return {"type": "string", **inlined} if "enum" in inlined else inlined


class _ArgumentCheck:
    """Checks the arguments of one call against a schema, and collects the problems."""

    def __init__(self, tool: str) -> None:
        self.tool = tool
        self.problems: list[str] = []

    def object(self, value: Mapping[str, Any], schema: Schema, at: str) -> dict[str, Any]:
        """Check an object and return its known members. A member that is null counts as missing.

        `at` is the prefix for the names of members in error messages.
        """
        properties: Mapping[str, Schema] = schema["properties"]
        given = {name: item for name, item in value.items() if item is not None}
        for name in given:
            if name not in properties:
                self.unknown(name, properties, at)
        for name in schema.get("required", ()):
            if name not in given:
                about = properties[name].get("description", "")
                self.problems.append(f"`{at}{name}` is missing" + (f": {about}" if about else ""))
        known = {name: item for name, item in given.items() if name in properties}
        return {name: self.value(item, properties[name], f"{at}{name}") for name, item in known.items()}

    def unknown(self, name: str, properties: Mapping[str, Schema], at: str) -> None:
        near = difflib.get_close_matches(name, properties, 1) or [one for one in properties if one in name][:1]
        hint = f"; did you mean `{at}{near[0]}`?" if near else ""
        place = f"`{at[:-1]}`" if at else self.tool
        self.problems.append(f"`{at}{_cut(name)}` is unknown: {place} accepts {_listed(properties)}{hint}")

    def value(self, value: Any, schema: Schema, at: str) -> Any:
        """Check a value of any type, and return it, converted if necessary. `at` is its name in error messages."""
        kind: str = schema["type"]
        if kind == "integer" and isinstance(value, float) and value.is_integer():
            value = int(value)
        if not isinstance(value, _TYPES[kind]) or (isinstance(value, bool) and kind != "boolean"):
            self.problems.append(f"`{at}` must be {_TYPE_NAMES[kind]}, not {_shown(value)}")
        elif isinstance(value, dict):
            return self.object(value, schema, f"{at}.")
        elif isinstance(value, list):
            self.bounds(len(value), schema, ("minItems", "maxItems"), at, " items")
            return [self.value(item, schema["items"], f"{at}[{place}]") for place, item in enumerate(value)]
        elif isinstance(value, str):
            self.text(value, schema, at)
        elif isinstance(value, int | float) and kind != "boolean":
            self.bounds(value, schema, ("minimum", "maximum"), at, "")
        return value

    def text(self, value: str, schema: Schema, at: str) -> None:
        if "enum" in schema and value not in schema["enum"]:
            self.problems.append(f"`{at}` must be one of {_listed(schema['enum'])}, not {_shown(value)}")
        elif not value and schema.get("minLength"):
            self.problems.append(f"`{at}` must not be empty")
        else:
            self.bounds(len(value), schema, ("minLength", "maxLength"), at, " characters")

    def bounds(self, size: float, schema: Schema, names: tuple[str, str], at: str, unit: str) -> None:
        least, most = (schema.get(name) for name in names)
        if least is not None and size < least:
            self.problems.append(f"`{at}` must be at least {least}{unit}, not {size}")
        if most is not None and size > most:
            self.problems.append(f"`{at}` must be at most {most}{unit}, not {size}")


def _listed(names: Any) -> str:
    return ", ".join(f"`{name}`" for name in names) or "no arguments"


def _shown(value: Any) -> str:
    """Return a value as JSON, shortened so that it fits into an error message."""
    return _cut(msgspec.json.encode(value).decode())


def _cut(text: str) -> str:
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"
