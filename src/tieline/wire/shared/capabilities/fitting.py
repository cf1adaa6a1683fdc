"""The tool for a purpose, and its arguments from its schema."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
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
    load,
    properties_of,
    required_of,
    resolve,
    types_of,
    words_of,
)
from tieline.wire.shared.capabilities.timeouts import in_unit

Fill = Callable[[str, Any, Schema], Any]
"""Makes a value for a required property that has no role, from its name, its schema and the whole schema."""


class Tool(Value):
    """A tool that can be called, with its schema read."""

    name: str
    description: str
    schema: Schema
    freeform: bool


class Wanted(Value):
    """What a call needs: `must` makes it what it is, `may` makes it better, `spare` fills what a tool demands."""

    must: Mapping[Role, Any] = {}
    may: Mapping[Role, Any] = {}
    spare: Mapping[Role, Any] = {}
    phrase: str = ""
    """A few words for it, for tools that want to show some."""
    directory: str = ""
    """Where the client works, for tools that want absolute paths."""


class Fitted(NamedTuple):
    """A tool that can do it, its arguments, and the roles that found a place."""

    tool: Tool
    arguments: dict[str, Any]
    placed: frozenset[Role]


def read_tools(specs: Sequence[ToolSpec]) -> tuple[Tool, ...]:
    """The tools that the client runs itself."""
    return tuple(
        Tool(name=spec.name, description=spec.description, schema=_read(spec.schema), freeform=spec.freeform)
        for spec in specs
        if spec.hosted is None
    )


def capable(capability: Capability, tools: Sequence[Tool]) -> Iterator[Tool]:
    """The tools that can do it by their name: the known names in order, then names that contain a long one."""
    known = NAMES[capability]
    alone: dict[str, Tool] = {}
    served: dict[str, Tool] = {}
    for tool in reversed([tool for tool in tools if not tool.freeform]):
        *server, name = re.split(r"__|[.:/]", tool.name)
        if plain(name) not in AMBIGUOUS or _searches_contents(tool) == (capability == "grep"):
            (served if server else alone)[plain(name)] = tool
    yield from (alone[name] for name in known if name in alone)
    yield from (served[name] for name in known if name in served and name not in VAGUE)
    telling = [name for name in known if len(name) >= 8 and name not in VAGUE]
    for name, tool in [*alone.items(), *served.items()]:
        if name not in known and any(part in name for part in telling):
            yield tool


def _searches_contents(tool: Tool) -> bool:
    """Tell a tool that searches what is in files from one that searches their names."""
    has_expression = any(plain(name) in _EXPRESSIONS for name in properties_of(tool.schema))
    return has_expression or _CONTENTS.search(tool.description) is not None


_EXPRESSIONS = frozenset(["regex", "regexp", "query", "filepattern", "includepattern"])
_CONTENTS = re.compile(r"\b(?:contents?|lines?|text|regex|regular expressions?)\b", re.IGNORECASE)


def fit(capability: Capability, tools: Sequence[Tool], wanted: Wanted, *, fill: Fill | None = None) -> Fitted | None:
    """The best tool that can do it, with its arguments; None when there is none."""
    for tool in capable(capability, tools):
        fitting = _Fitting(capability, tool, wanted, fill)
        arguments = fitting.of(tool.schema, wanted.must)
        if arguments is not None:
            return Fitted(tool, arguments, frozenset(fitting.placed))
    return None


def plain(name: str) -> str:
    """A name without case and without anything but letters and digits."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


@lru_cache(maxsize=256)
def _remembered(schema: bytes) -> Schema:
    loaded = load(schema)
    return resolve(loaded, loaded)


def _read(schema: bytes) -> Schema:
    """Agents offer the same tools in every request; what many runs read is kept once, unless it is large."""
    return _remembered(schema) if len(schema) <= 1 << 16 else _remembered.__wrapped__(schema)


_NOTHING = object()


class _Fitting:
    """Finds a place for each role in the schema of one tool."""

    def __init__(self, capability: Capability, tool: Tool, wanted: Wanted, fill: Fill | None) -> None:
        self.placed: set[Role] = set()
        self._capability = capability
        self._tool = tool
        self._wanted = wanted
        self._fill = fill

    def of(self, schema: Schema, must: Mapping[Role, Any]) -> dict[str, Any] | None:
        """The arguments, or None when something essential has no place or something required no value."""
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
                if value is _NOTHING:
                    return None
                arguments[name] = value
        return arguments

    def _place(self, role: Role, value: Any, properties: Mapping[str, Any], arguments: dict[str, Any]) -> bool:
        free = {plain(name): name for name in properties if name not in arguments}
        for known in PROPERTIES[role]:
            if known in free:
                shaped = self._shaped(role, value, free[known], properties[free[known]])
                if shaped is not _NOTHING:
                    arguments[free[known]] = shaped
                    self.placed.add(role)
                    return True
        return False

    def _shaped(self, role: Role, value: Any, name: str, schema: object) -> Any:
        """The value as this property wants it, or nothing if it cannot hold it."""
        root = self._tool.schema
        options = [option for option in branches(resolve(schema, root), root) if _allows(option, value)]
        if role == "timeout":
            value = in_unit(value, plain(name), options, self._tool.description)
        elif role == "start" and any(re.search(r"\b0-(?:based|indexed)", words_of(option)) for option in options):
            value -= 1
        elif role == "path" and isinstance(value, str):
            value = self._located(value, plain(name), options)
        if value is None:
            return _NOTHING
        for option in options:
            if _holds(option, value):
                return value
        return self._wrapped(role, value, name, options)

    def _wrapped(self, role: Role, value: Any, name: str, options: Sequence[Schema]) -> Any:
        """The value as text, or as the only item of a list."""
        if isinstance(value, int) and any("string" in types_of(option) for option in options):
            return str(value)
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            return ",".join(value) if any("string" in types_of(option) for option in options) else _NOTHING
        listing = next((option for option in options if "array" in types_of(option)), None)
        if listing is None or not isinstance(value, str):
            return _NOTHING
        item = resolve(listing.get("items", {}), self._tool.schema)
        if properties_of(item):
            inner = self.of(item, {role: value})
            return _NOTHING if inner is None else [inner]
        if not _holds(item, value):
            return _NOTHING
        return ["bash", "-lc", value] if role == "command" and not plain(name).endswith("s") else [value]

    def _located(self, path: str, name: str, options: Sequence[Schema]) -> str:
        """A tool that wants absolute paths gets one, if the client told where it works."""
        if name == "uri":
            return f"file://{path}" if path.startswith("/") else path
        root = self._tool.schema
        items = [resolve(option.get("items", {}), root) for option in options]
        said = " ".join([self._tool.description.lower(), *(words_of(option) for option in [*items, *options])])
        said += " absolute" if "absolute" in str(properties_of(root).keys()).lower() else ""
        wants = "absolute" in said and not re.search(r"(?:relative or absolute|absolute or relative)", said)
        directory = self._wanted.directory
        if not wants or not directory or is_absolute(path):
            return path
        path = re.sub(r"^(?:\./)+", "", path)
        return directory if path in ("", ".") else f"{directory.rstrip('/')}/{path}"

    def _required(self, name: str, schema: object) -> Any:
        """A value for what the tool demands beyond what was wanted."""
        for role, value in self._wanted.spare.items():
            if plain(name) in PROPERTIES[role]:
                shaped = self._shaped(role, value, name, schema)
                if shaped is not _NOTHING:
                    return shaped
        resolved = resolve(schema, self._tool.schema)
        options = resolved.get("enum")
        verb = next((verb for verb in COMMANDS.get(self._capability, ()) if verb in (options or ())), None)
        if verb is not None:
            return verb
        if self._fill is not None:
            return self._fill(name, schema, self._tool.schema)
        return self._guessed(name, resolved)

    def _guessed(self, name: str, schema: Schema) -> Any:
        """What is safe to say where nothing is known: few words, the default, null, no."""
        if "const" in schema or "default" in schema:
            return schema.get("const", schema.get("default"))
        kinds = {kind for option in branches(schema, self._tool.schema) for kind in types_of(option)}
        if "null" in kinds:
            return None
        if plain(name) in PROPERTIES["description"] and "enum" not in schema and kinds <= {"string"}:
            return self._wanted.phrase or self._tool.name
        if kinds == {"boolean"}:
            return plain(name) in CAUTIOUS
        if kinds == {"array"} and not schema.get("minItems"):
            return []
        return _NOTHING


def is_absolute(path: str) -> bool:
    """Whether a path says where it begins, on any system."""
    return re.match(r"[/~\\]|[A-Za-z]:[\\/]", path) is not None


def _allows(schema: Schema, value: Any) -> bool:
    """Whether a value is one of those listed, where some are."""
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
