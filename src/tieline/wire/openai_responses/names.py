"""Names of tools in namespaces.

A namespace groups tools. In this protocol, a call to such a tool contains the namespace and the name separately. In
`tieline.model`, a tool has only one name, the *flat name* `<namespace>__<name>`. `ToolSpec.meta` keeps the namespace
and the name, so that the flat name in a call can be split again.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tieline.model.request import ToolSpec
from tieline.wire.openai_responses.schema import PROTOCOL

_DEFAULT_NAMESPACES = (None, "", "functions")


class OfferedTool(NamedTuple):
    """A tool with the name, namespace and type under which the client offered it."""

    name: str
    namespace: str | None = None
    kind: str = "function"
    """The type: function, custom, or that of a tool that OpenAI defines and the client runs (see `client_tools`)."""


def flat_name(namespace: str | None, name: str) -> str:
    """Return the flat name of a tool."""
    return name if namespace in _DEFAULT_NAMESPACES else f"{namespace}__{name}"


def namespace_of(namespace: str | None) -> str | None:
    """Return the namespace, or None if it is one of the names of the default namespace."""
    return None if namespace in _DEFAULT_NAMESPACES else namespace


def offered_tools(tools: Iterable[ToolSpec]) -> dict[str, OfferedTool]:
    """Return the tools of a request by flat name, except those that the upstream runs."""
    return {tool.name: _offered(tool) for tool in tools if tool.hosted is None}


def split_name(name: str, offered: Mapping[str, OfferedTool], namespace: str | None = None) -> OfferedTool:
    """Return the tool with this flat name.

    If the tool is not offered, which is possible for a call in the history, `namespace` is used to split the name.
    """
    tool = offered.get(name)
    if tool is not None:
        return tool
    if namespace is not None and name.startswith(f"{namespace}__"):
        return OfferedTool(name.removeprefix(f"{namespace}__"), namespace)
    return OfferedTool(name)


def _offered(tool: ToolSpec) -> OfferedTool:
    own = tool.meta.get(PROTOCOL, {})
    kind = own.get("type", "custom" if tool.freeform else "function")
    return OfferedTool(own.get("name", tool.name), own.get("namespace"), kind)
