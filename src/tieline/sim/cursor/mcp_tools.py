"""The MCP tools that a client offers: their specs for the demo model, and the exec requests for the model's calls."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from google.protobuf.struct_pb2 import Value

from tieline.model.content import ToolCall
from tieline.model.request import ToolSpec
from tieline.sim.cursor.refusals import NAMED, ServiceRefusal
from tieline.wire.cursor._pb import exec_kinds_pb2 as kinds
from tieline.wire.cursor._pb import shared_pb2 as shared
from tieline.wire.cursor.protobuf_json import from_value, to_value

RESERVED = frozenset({"TodoWrite", "WebFetch", "Task", "EditNotebook", "FetchMcpResource", "Delete"})
"""Names of the service's own tools. A run in which the client offers one of them is refused."""


class McpToolset:
    """The MCP tools of one run, by the names that the demo model uses."""

    def __init__(self, definitions: Iterable[shared.McpToolDefinition]) -> None:
        self._tools: dict[str, shared.McpToolDefinition] = {}
        for tool in definitions:
            short = tool.tool_name or tool.name
            known = self._tools.get(short)
            if known is None or known.provider_identifier == tool.provider_identifier:
                self._tools[short] = tool
            else:
                self._tools[tool.name] = tool

    def __bool__(self) -> bool:
        return bool(self._tools)

    def __contains__(self, name: str) -> bool:
        return name in self._tools

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """The specs of the tools, as the demo model receives them."""
        return tuple(
            ToolSpec(name=name, description=tool.description, schema=_schema(tool))
            for name, tool in self._tools.items()
        )

    def refusal(self) -> ServiceRefusal | None:
        """Return the error with which the service would refuse these tools, if any."""
        for name, tool in self._tools.items():
            if name in RESERVED:
                return NAMED["bad_tools"]
            if tool.HasField("input_schema") and _has_hole(tool.input_schema):
                return NAMED["empty_value"]
            schema = msgspec.json.decode(_schema(tool))
            if not {"oneOf", "anyOf", "allOf"}.isdisjoint(schema):
                return NAMED["exhausted"]
        return None

    def short(self, name: str) -> str:
        """Return the short name of a tool. `name` may be one of the longer forms that occur in histories."""
        for short, tool in self._tools.items():
            provider = tool.provider_identifier
            if name in (short, tool.name, f"mcp_{provider}_{short}", f"{provider}___{short}"):
                return short
        return name

    def args(self, call: ToolCall) -> kinds.McpArgs:
        """Return the arguments of the exec request for a call. If the tool is unknown, its provider is empty."""
        tool = self._tools.get(call.name)
        return kinds.McpArgs(
            name=tool.name if tool else call.name,
            args={name: to_value(value) for name, value in _object(call.arguments).items()},
            tool_call_id=call.id,
            provider_identifier=tool.provider_identifier if tool else "",
            tool_name=tool.tool_name if tool else call.name,
        )


def collect_tools(*sources: Sequence[shared.McpToolDefinition]) -> McpToolset:
    """Return all tools in the given lists. A client can list its tools in several messages."""
    return McpToolset(tool for source in sources for tool in source)


def _schema(tool: shared.McpToolDefinition) -> bytes:
    schema = from_value(tool.input_schema)
    return msgspec.json.encode(schema if isinstance(schema, dict) else {})


def _object(arguments: str) -> Mapping[str, Any]:
    """Parse the arguments of a call. The plain text for a freeform tool becomes an object with one property."""
    try:
        decoded = msgspec.json.decode(arguments or "{}")
    except msgspec.DecodeError:
        decoded = None
    return decoded if isinstance(decoded, dict) else {"input": arguments}


def _has_hole(value: Value) -> bool:
    """Return whether `value` is or contains a protobuf Value in which no kind is set, not even null."""
    match value.WhichOneof("kind"):
        case None:
            return True
        case "struct_value":
            return any(_has_hole(inner) for inner in value.struct_value.fields.values())
        case "list_value":
            return any(_has_hole(inner) for inner in value.list_value.values)
        case _:
            return False
