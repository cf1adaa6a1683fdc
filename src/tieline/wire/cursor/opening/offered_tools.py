"""The names and definitions under which the client's tools are offered to the service.

The service sees the client's tools as the tools of one MCP server. It refuses some names, adds the name of the server
as a prefix, and may call a tool with or without the prefix. This module maps the names in both directions.
"""

import re
from collections.abc import Mapping, Sequence
from hashlib import sha256

from google.protobuf.struct_pb2 import Value

from tieline.model.bounded_cache import BoundedCache
from tieline.model.errors import BadRequest
from tieline.model.events import Note, left_out
from tieline.model.request import Request, ToolChoice, ToolSpec
from tieline.wire.cursor._pb.exec_kinds_pb2 import McpArgs
from tieline.wire.cursor._pb.shared_pb2 import McpToolDefinition
from tieline.wire.cursor.opening.schema_unions import for_service
from tieline.wire.cursor.protobuf_json import is_deep, schema_value
from tieline.wire.shared.schemas import FREEFORM_SCHEMA, description

PROVIDER = "tieline"
"""The name of the MCP server under which the tools are offered."""
RESERVED = frozenset({"TodoWrite", "WebFetch", "Task", "EditNotebook", "FetchMcpResource", "Delete"})
"""Names of the service's own tools. The service refuses a request if a client's tool has one of these names."""
NAME_LIMIT = 64 - len(f"mcp_{PROVIDER}_")
"""The maximum length of an offered name. Models accept 64 characters, of which the service's prefix takes some."""

_PREFIX = "client_"
_PLAIN = re.compile(rf"[A-Za-z0-9_-]{{1,{NAME_LIMIT}}}\Z")
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")
_SERVER = re.compile(rf"(?:mcp_{{1,3}})?{PROVIDER}(?:_{{1,3}}|-)")
_MAX_CACHED_SCHEMA = 32 << 10
"""The maximum size in bytes of a schema in the cache. A larger schema is adapted again for every request."""

FittedSchema = tuple[Value, tuple[str, ...]]
"""A schema adapted for the service, and descriptions of the changes."""
SchemaCache = BoundedCache[bytes, FittedSchema]
"""A cache of adapted schemas, by the JSON text of the original. Agents send the same tools with every request.

The values are shared: copy a value before changing it.
"""


def new_schema_cache() -> SchemaCache:
    """Return an empty cache, to be shared by all requests to a backend."""
    return BoundedCache(512, max_each=_MAX_CACHED_SCHEMA)


class OfferedTools:
    """The client's tools in one leg, with their names and definitions for the service."""

    def __init__(
        self, specs: Mapping[str, ToolSpec], notes: Sequence[Note] = (), schemas: SchemaCache | None = None
    ) -> None:
        self.specs = specs
        """The tools by the client's own names."""
        self._schemas = new_schema_cache() if schemas is None else schemas
        self._spelled = _spell(specs)
        self._own = {spelled: own for own, spelled in self._spelled.items()}
        self.notes: tuple[Note, ...] = (*notes, *_renamed(self._spelled), *self._adapted())
        """Notes about tools that were renamed, adapted or left out."""

    @classmethod
    def of(cls, tools: Sequence[ToolSpec], schemas: SchemaCache | None = None) -> "OfferedTools":
        """Build an offer of these tools, except tools with a repeated name and tools that only other upstreams can run.

        Raise BadRequest if only other upstreams can run the tools.
        """
        notes: list[Note] = []
        specs: dict[str, ToolSpec] = {}
        for spec in tools:
            if spec.name in specs:
                notes.append(left_out(f"tool {spec.name}", "there is another tool of the same name"))
            elif not spec.hosted:
                specs[spec.name] = spec
            else:
                problem = f"{spec.hosted!r} is a tool of another upstream; this one does not have it"
                if all(tool.hosted for tool in tools):
                    raise BadRequest(f"`tools`: {problem}", "tools")
                notes.append(left_out(f"tool {spec.name}", problem))
        return cls(specs, notes, schemas)

    @classmethod
    def of_request(cls, request: Request, schemas: SchemaCache | None = None) -> "OfferedTools":
        """Build an offer of the tools that the request's tool choice allows.

        The protocol has no tool choice, so tools that are not allowed are not offered.
        """
        return cls.of(_left_by(request.tool_choice, request.tools), schemas)

    @property
    def definitions(self) -> tuple[McpToolDefinition, ...]:
        """The definitions of the tools for the service, rebuilt on each access to save memory while a run waits."""
        return tuple([self._definition(self._spelled[own], spec) for own, spec in self.specs.items()])

    def spell(self, own: str) -> str:
        """Return the offered name of the client's tool `own`. If it is not offered, return the name it would have."""
        return self._spelled.get(own) or _plain(own)

    def model_name(self, own: str) -> str:
        """Return the name under which the model sees the client's tool `own`, with the prefix that the service adds."""
        return f"mcp_{PROVIDER}_{self.spell(own)}"

    def name_of(self, args: McpArgs) -> str | None:
        """Return the client's own name for the tool that an exec calls; None if the tool is not offered."""
        if args.provider_identifier.casefold() not in ("", PROVIDER):
            return None
        for name in (args.tool_name, args.name):
            found = self._resolve(name) if name else None
            if found is not None:
                return found
        return None

    def _resolve(self, name: str) -> str | None:
        """Return the client's own name for the tool that `name` denotes; None if there is no unique match.

        `name` may be the offered name or the client's own name, with or without the server's prefix. If there is no
        exact match, letter case and punctuation are ignored.
        """
        for form in (name, _SERVER.sub("", name, count=1) if _SERVER.match(name) else name):
            if form in self._own:
                return self._own[form]
            if form in self.specs:
                return form
        folded = _fold(name)
        close = [own for spelled, own in self._own.items() if folded in (_fold(spelled), _fold(own))]
        return close[0] if folded and len(close) == 1 else None

    # ── Definitions ──────────────────────────────────────────────────────────────────────────────

    def _definition(self, spelled: str, spec: ToolSpec) -> McpToolDefinition:
        return McpToolDefinition(
            name=f"{PROVIDER}-{spelled}",
            description=description(spec),
            input_schema=self._fitted(spec)[0],
            provider_identifier=PROVIDER,
            tool_name=spelled,
        )

    def _adapted(self) -> list[Note]:
        changes = [(spec.name, change) for spec in self.specs.values() for change in self._fitted(spec)[1]]
        return [Note(kind="schema", message=f"{name}: {change}") for name, change in changes]

    def _fitted(self, spec: ToolSpec) -> FittedSchema:
        schema = FREEFORM_SCHEMA if spec.freeform else spec.schema
        fitted = self._schemas.get(schema)
        if fitted is None:
            fitted = _fit(schema)
            self._schemas.put(schema, fitted, len(schema))
        return fitted


def _left_by(choice: ToolChoice, tools: Sequence[ToolSpec]) -> Sequence[ToolSpec]:
    if choice.mode == "none":
        return ()
    if not choice.names:
        return tools
    left = [tool for tool in tools if tool.name in choice.names]
    if not left:
        raise BadRequest("`tool_choice`: none of the tools it names is offered", "tool_choice")
    return left


# ── Names ────────────────────────────────────────────────────────────────────────────────────────


def _spell(names: Mapping[str, ToolSpec]) -> dict[str, str]:
    """Map the client's names to unique offered names. Names that the service accepts stay unchanged."""
    spelled = {name: name for name in names if _PLAIN.match(name) and name not in RESERVED}
    taken = set(spelled)
    for name in names:
        if name not in spelled:
            free = _plain(name)
            spelled[name] = free if free not in taken else _with_hash(free, name)
            taken.add(spelled[name])
    return spelled


def _plain(name: str) -> str:
    if name in RESERVED:
        return _PREFIX + name
    spelled = _UNSAFE.sub("_", name) or "tool"
    return spelled if len(spelled) <= NAME_LIMIT else _with_hash(spelled, name)


def _with_hash(spelled: str, name: str) -> str:
    digest = sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{spelled[: NAME_LIMIT - 9]}_{digest}"


def _fold(name: str) -> str:
    bare = _SERVER.sub("", name.casefold(), count=1) if _SERVER.match(name.casefold()) else name.casefold()
    return re.sub(r"[^a-z0-9]", "", bare)


def _renamed(spelled: Mapping[str, str]) -> list[Note]:
    changed = [f"{own!r} as {other!r}" for own, other in spelled.items() if own != other]
    return [Note(kind="renamed", message=f"offered to the upstream: {', '.join(changed)}")] if changed else []


def _fit(schema: bytes) -> FittedSchema:
    fitted, notes = for_service(schema)
    if is_deep(fitted):
        notes = (*notes, "parts that are nested too deeply were left out")
    return schema_value(fitted), notes
