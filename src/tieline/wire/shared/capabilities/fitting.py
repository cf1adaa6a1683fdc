"""Choose a client's tool for a capability, and build the arguments that its schema requires."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tieline.model.content import Value
from tieline.model.request import ToolSpec
from tieline.wire.shared.capabilities.names import (
    AMBIGUOUS,
    CAUTIOUS,
    COMMANDS,
    NAMES,
    PROPERTIES,
    VAGUE,
    Capability,
    Role,
)
from tieline.wire.shared.capabilities.schema import (
    Schema,
    branches,
    description_of,
    load,
    properties_of,
    required_of,
    resolve,
    types_of,
)
from tieline.wire.shared.capabilities.timeouts import in_unit

Fill = Callable[[str, Any, Schema], Any]
"""A function that returns a value for a required property without a role.

Its arguments are the name of the property, the schema of the property and the schema of the tool.
"""


class ClientTool(Value):
    """A tool that the client runs."""

    name: str
    description: str
    schema_json: bytes
    freeform: bool

    @property
    def schema(self) -> Schema:
        """The parsed schema.

        It is parsed on each access, because parsed schemas take up a lot of memory and a parked run keeps its tools.
        """
        loaded = load(self.schema_json)
        return resolve(loaded, loaded)


class Wanted(Value):
    """The values for a call, by role.

    A tool fits only if it has a property for each of the `must` values. The `may` values are optional. The `spare`
    values are used only for properties that the tool requires.
    """

    must: Mapping[Role, Any] = {}
    may: Mapping[Role, Any] = {}
    spare: Mapping[Role, Any] = {}
    phrase: str = ""
    """A short description of the call, for tools that require one."""
    directory: str = ""
    """The client's working directory, for tools that require absolute paths."""


class FittedCall(NamedTuple):
    """A tool, the arguments for a call to it, and the roles whose values the arguments contain."""

    tool: ClientTool
    arguments: dict[str, Any]
    placed: frozenset[Role]


def client_tools(specs: Sequence[ToolSpec]) -> tuple[ClientTool, ...]:
    """Return the tools that the client runs itself."""
    return tuple(
        ClientTool(name=spec.name, description=spec.description, schema_json=spec.schema, freeform=spec.freeform)
        for spec in specs
        if spec.hosted is None
    )


def matching_tools(capability: Capability, tools: Sequence[ClientTool]) -> Iterator[ClientTool]:
    """Yield the tools whose name suggests the capability.

    Tools with a known name come first, in order of preference, followed by tools whose name contains a known name.
    """
    known = NAMES[capability]
    alone: dict[str, ClientTool] = {}
    served: dict[str, ClientTool] = {}
    for tool in reversed([tool for tool in tools if not tool.freeform]):
        *server, name = re.split(r"__|[.:/]", tool.name)
        if plain_name(name) not in AMBIGUOUS or _searches_contents(tool) == (capability == "grep"):
            (served if server else alone)[plain_name(name)] = tool
    yield from (alone[name] for name in known if name in alone)
    yield from (served[name] for name in known if name in served and name not in VAGUE)
    distinctive = [name for name in known if len(name) >= 8 and name not in VAGUE]
    for name, tool in [*alone.items(), *served.items()]:
        if name not in known and any(part in name for part in distinctive):
            yield tool


def _searches_contents(tool: ClientTool) -> bool:
    """Return whether a search tool searches the contents of files rather than their names."""
    has_expression = any(plain_name(name) in _EXPRESSIONS for name in properties_of(tool.schema))
    return has_expression or _CONTENTS.search(tool.description) is not None


_EXPRESSIONS = frozenset(["regex", "regexp", "query", "filepattern", "includepattern"])
_CONTENTS = re.compile(r"\b(?:contents?|lines?|text|regex|regular expressions?)\b", re.IGNORECASE)


def fit_call(
    capability: Capability, tools: Sequence[ClientTool], wanted: Wanted, *, fill: Fill | None = None
) -> FittedCall | None:
    """Return the first matching tool that accepts the wanted values, with its arguments; None if there is none.

    `fill` returns values for other required properties. Without it, safe values such as defaults are used.
    """
    for tool in matching_tools(capability, tools):
        fitter = _CallFitter(capability, tool, wanted, fill)
        arguments = fitter.arguments(fitter.root, wanted.must)
        if arguments is not None:
            return FittedCall(tool, arguments, frozenset(fitter.placed))
    return None


def plain_name(name: str) -> str:
    """Return the name in lower case, with only its letters and digits."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


_NO_VALUE = object()


class _CallFitter:
    """Builds the arguments for one tool: finds a property in its schema for the value of each role."""

    def __init__(self, capability: Capability, tool: ClientTool, wanted: Wanted, fill: Fill | None) -> None:
        self.placed: set[Role] = set()
        self.root = tool.schema
        self._capability = capability
        self._tool = tool
        self._wanted = wanted
        self._fill = fill

    def arguments(self, schema: Schema, must: Mapping[Role, Any]) -> dict[str, Any] | None:
        """Return the arguments for this schema.

        Return None if the schema has no property for a value in `must`, or if there is no value for a required
        property.
        """
        properties = properties_of(schema)
        arguments: dict[str, Any] = {}
        for role, value in must.items():
            if not self._place(role, value, properties, arguments):
                return None
        for role, value in self._wanted.may.items():
            if role not in self.placed and value is not None:
                self._place(role, value, properties, arguments)
        for name in required_of(schema):
            if name not in arguments:
                value = self._required(name, properties.get(name, True))
                if value is _NO_VALUE:
                    return None
                arguments[name] = value
        return arguments

    def _place(self, role: Role, value: Any, properties: Mapping[str, Any], arguments: dict[str, Any]) -> bool:
        free = {plain_name(name): name for name in properties if name not in arguments}
        for known in PROPERTIES[role]:
            if known in free:
                shaped = self._shaped(role, value, free[known], properties[free[known]])
                if shaped is not _NO_VALUE:
                    arguments[free[known]] = shaped
                    self.placed.add(role)
                    return True
        return False

    def _shaped(self, role: Role, value: Any, name: str, schema: object) -> Any:
        """Return the value converted to the type and unit of this property; `_NO_VALUE` if that is impossible."""
        options = [option for option in branches(resolve(schema, self.root), self.root) if _allows(option, value)]
        if role == "timeout":
            value = in_unit(value, plain_name(name), options, self._tool.description)
        elif role == "start" and any(re.search(r"\b0-(?:based|indexed)", description_of(option)) for option in options):
            value -= 1
        elif role == "path" and isinstance(value, str):
            value = self._located(value, plain_name(name), options)
        if value is None:
            return _NO_VALUE
        for option in options:
            if _holds(option, value):
                return value
        return self._wrapped(role, value, name, options)

    def _wrapped(self, role: Role, value: Any, name: str, options: Sequence[Schema]) -> Any:
        """Return the value as text or as the only item of a list; `_NO_VALUE` if the property accepts neither."""
        if isinstance(value, int) and any("string" in types_of(option) for option in options):
            return str(value)
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            return ",".join(value) if any("string" in types_of(option) for option in options) else _NO_VALUE
        listing = next((option for option in options if "array" in types_of(option)), None)
        if listing is None or not isinstance(value, str):
            return _NO_VALUE
        item = resolve(listing.get("items", {}), self.root)
        if properties_of(item):
            inner = self.arguments(item, {role: value})
            return _NO_VALUE if inner is None else [inner]
        if not _holds(item, value):
            return _NO_VALUE
        return ["bash", "-lc", value] if role == "command" and not plain_name(name).endswith("s") else [value]

    def _located(self, path: str, name: str, options: Sequence[Schema]) -> str:
        """Return the path, made absolute if the tool requires that and the client's directory is known.

        For a property named `uri`, return an absolute path as a `file:` URL.
        """
        if name == "uri":
            return f"file://{path}" if path.startswith("/") else path
        items = [resolve(option.get("items", {}), self.root) for option in options]
        texts = " ".join([self._tool.description.lower(), *(description_of(option) for option in [*items, *options])])
        texts += " absolute" if "absolute" in str(properties_of(self.root).keys()).lower() else ""
        needs_it = "absolute" in texts and not re.search(r"(?:relative or absolute|absolute or relative)", texts)
        directory = self._wanted.directory
        if not needs_it or not directory or is_absolute(path):
            return path
        path = re.sub(r"^(?:\./)+", "", path)
        return directory if path in ("", ".") else f"{directory.rstrip('/')}/{path}"

    def _required(self, name: str, schema: object) -> Any:
        """Return a value for a required property that no `must` or `may` value fills; `_NO_VALUE` if there is none."""
        for role, value in self._wanted.spare.items():
            if plain_name(name) in PROPERTIES[role]:
                shaped = self._shaped(role, value, name, schema)
                if shaped is not _NO_VALUE:
                    return shaped
        resolved = resolve(schema, self.root)
        options = resolved.get("enum")
        verb = next((verb for verb in COMMANDS.get(self._capability, ()) if verb in (options or ())), None)
        if verb is not None:
            return verb
        if self._fill is not None:
            return self._fill(name, schema, self.root)
        return self._guessed(name, resolved)

    def _guessed(self, name: str, schema: Schema) -> Any:
        """Return a safe value for a required property of unknown meaning, such as its default, null or false.

        Return `_NO_VALUE` if there is no safe value.
        """
        if "const" in schema or "default" in schema:
            return schema.get("const", schema.get("default"))
        kinds = {kind for option in branches(schema, self.root) for kind in types_of(option)}
        if "null" in kinds:
            return None
        if plain_name(name) in PROPERTIES["description"] and "enum" not in schema and kinds <= {"string"}:
            return self._wanted.phrase or self._tool.name
        if kinds == {"boolean"}:
            return plain_name(name) in CAUTIOUS
        if kinds == {"array"} and not schema.get("minItems"):
            return []
        return _NO_VALUE


def is_absolute(path: str) -> bool:
    """Return whether a path is absolute on any operating system. A path that begins with `~` counts as absolute."""
    return re.match(r"[/~\\]|[A-Za-z]:[\\/]", path) is not None


def _allows(schema: Schema, value: Any) -> bool:
    """Return whether `enum` and `const`, if present, allow the value."""
    if isinstance(schema.get("enum"), list):
        return value in schema["enum"]
    return "const" not in schema or schema["const"] == value


def _holds(schema: Schema, value: Any) -> bool:
    kinds = types_of(schema)
    if not kinds:
        return True
    if isinstance(value, bool):
        return "boolean" in kinds
    if isinstance(value, int):
        return "integer" in kinds or "number" in kinds
    if isinstance(value, list):
        item = schema.get("items")
        return "array" in kinds and (not isinstance(item, Mapping) or all(_holds(item, one) for one in value))
    return "string" in kinds
