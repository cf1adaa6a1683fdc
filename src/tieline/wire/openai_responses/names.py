"""Names of tools in namespaces.

A namespace groups tools: its calls carry the namespace and the bare name. The neutral model has one name per tool, so a
tool in a namespace is called `<namespace>__<name>` there. `ToolSpec.meta` keeps both, and a table of the offered tools
splits the name of a call again.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tieline.model.request import ToolSpec
from tieline.wire.openai_responses.schema import PROTOCOL

_DEFAULT_NAMESPACES = (None, "", "functions")


class OfferedTool(NamedTuple):
    """A tool as the client knows it."""

    name: str
    namespace: str | None = None
    kind: str = "function"
    """function, custom, or the type of a tool that the client runs without a schema (see `client_tools`)."""


def flat_name(namespace: str | None, name: str) -> str:
    """Return the name of a tool in the neutral model."""
    return name if namespace in _DEFAULT_NAMESPACES else f"{namespace}__{name}"


def namespace_of(namespace: str | None) -> str | None:
    """Return the namespace; None for the default one, however it is written."""
    return None if namespace in _DEFAULT_NAMESPACES else namespace


def offered_tools(tools: Iterable[ToolSpec]) -> dict[str, OfferedTool]:
    """Return the tools of a request by their neutral name."""
    return {tool.name: _offered(tool) for tool in tools if tool.hosted is None}


def split_name(name: str, offered: Mapping[str, OfferedTool], namespace: str | None = None) -> OfferedTool:
    """Return the tool of a call by its neutral name.

    `namespace` is that of a call in the history, whose tool may be no longer offered.
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
