"""Workplaces: the folder and the MCP servers of a conversation, selected by name from the configuration.

A request selects them with the headers `x-tieline-folder` and `x-tieline-mcp` or in its metadata (`tieline_folder`,
`tieline_mcp`). It cannot name a path or a program.
"""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from tieline.model.content import Value
from tieline.model.errors import BadRequest
from tieline.model.request import Request
from tieline.wire.acp import facts
from tieline.wire.acp.schema import McpHttp, McpServer, McpStdio, NameValue

FOLDER, SERVERS = "tieline_folder", "tieline_mcp"
MAX_NAME = 100


class ToolServer(Value):
    """A configured MCP server: a command line or a URL."""

    command: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    url: str = ""
    headers: Mapping[str, str] = {}


class Workplace(Value):
    """The folder in which an agent works, as an absolute path, and the names of the MCP servers that it uses."""

    folder: str
    servers: tuple[str, ...] = ()
    workspace: str = ""
    """The name of the workspace, whose rules apply; empty for the default workspace."""


class Workplaces:
    """The configured folders and MCP servers. `usual` holds the default folder of each agent.

    `path_of` returns the path of a named workspace, and raises GatewayError if there is no such workspace.
    """

    def __init__(
        self,
        usual: Mapping[str, str],
        folders: Mapping[str, str],
        servers: Mapping[str, ToolServer],
        path_of: Callable[[str], str],
    ) -> None:
        self._usual = usual
        self._folders = folders
        self._servers = servers
        self._path_of = path_of

    def of(self, request: Request, agent: str) -> Workplace:
        """Return the workplace that a request selects. Raise BadRequest for a name that is not configured."""
        folder, servers = _selected(request)
        for name in servers:
            if name not in self._servers:
                raise _unknown("MCP server", name, self._servers, SERVERS, "acp.mcp")
        if folder is not None and folder not in self._folders:
            raise _unknown("folder", folder, self._folders, FOLDER, "acp.folders")
        usual = self._path_of(request.workspace) if request.workspace else self._usual[agent]
        path = usual if folder is None else self._folders[folder]
        return Workplace(folder=path, servers=tuple(sorted(set(servers))), workspace=request.workspace)

    def has(self, workplace: Workplace, agent: str) -> bool:
        """Return whether the folder and the MCP servers of a workplace of `agent` are still configured.

        The folder of a workspace is not checked, because the workspace may be registered later.
        """
        folders = (self._usual.get(agent), *self._folders.values())
        is_known = bool(workplace.workspace) or workplace.folder in folders
        return is_known and all(name in self._servers for name in workplace.servers)

    def servers(self, workplace: Workplace, abilities: facts.Abilities, title: str) -> list[McpServer]:
        """Return the MCP servers of a workplace in the form in which they are sent to an agent.

        Raise BadRequest for a server that the agent does not support. `title` is the agent's name in the error message.
        """
        return [self._server(name, abilities, title) for name in workplace.servers]

    def _server(self, name: str, abilities: facts.Abilities, title: str) -> McpServer:
        server = self._servers[name]
        if server.command:
            program, *arguments = server.command
            return McpStdio(name=name, command=program, args=arguments, env=_pairs(server.env))
        if not abilities.mcp_http:
            message = f"{title} does not support MCP servers over HTTP, such as `{name}`."
            raise BadRequest(message, SERVERS, code="unsupported_mcp_server")
        return McpHttp(type="http", name=name, url=server.url, headers=_pairs(server.headers))


def _selected(request: Request) -> tuple[str | None, Sequence[str]]:
    """Return the names of the folder and the MCP servers that a request selects. Headers override metadata."""
    metadata = _metadata(request)
    chosen = request.selection
    folder = chosen.folder if chosen is not None and chosen.folder is not None else metadata.get(FOLDER)
    if folder is not None and not isinstance(folder, str):
        raise BadRequest(f"`metadata.{FOLDER}` must be the name of a folder", f"metadata.{FOLDER}")
    servers = chosen.servers if chosen is not None and chosen.servers else metadata.get(SERVERS, ())
    if isinstance(servers, str):
        servers = tuple(name.strip() for name in servers.split(",") if name.strip())
    if not isinstance(servers, list | tuple) or not all(isinstance(name, str) for name in servers):
        raise BadRequest(
            f"`metadata.{SERVERS}` must be names of MCP servers, separated by commas", f"metadata.{SERVERS}"
        )
    return folder, servers


def _metadata(request: Request) -> Mapping[str, object]:
    given = request.extra.get("metadata")
    if given is None or b"tieline_" not in bytes(given):
        return {}
    try:
        metadata = msgspec.json.decode(given)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return {}
    return metadata if isinstance(metadata, dict) else {}


def _unknown(what: str, name: str, known: Mapping[str, object], param: str, setting: str) -> BadRequest:
    shown = name if len(name) <= MAX_NAME else f"{name[:MAX_NAME]}…"
    names = f"Configured: {', '.join(known)}." if known else f"None is configured (`[{setting}]`)."
    return BadRequest(f"There is no {what} `{shown}`. {names}", param, code=f"unknown_{param.removeprefix('tieline_')}")


def _pairs(values: Mapping[str, str]) -> list[NameValue]:
    return [NameValue(name=name, value=value) for name, value in values.items()]
