"""The workspaces: the default one, those of the configuration, and those that a client has registered.

The tools of a workspace are built when they are first used, in a thread. Registered workspaces are forgotten when the
gateway stops. Their names are derived from their paths, so a folder has the same name when it is registered again.
"""

import asyncio
import hashlib
import logging
import os
import re
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from msgspec.structs import replace

from tieline.app.audit import AuditLog
from tieline.app.build.storage import Storage
from tieline.app.config import Config, ConfigError
from tieline.app.lazy import LazyImport
from tieline.model.errors import BadRequest, GatewayError
from tieline.model.ports import Files, Toolbox
from tieline.model.workspaces import Autonomy, Rulebook, WorkspaceInfo
from tieline.tools.workspace import CAN_CONFINE

if TYPE_CHECKING:
    from tieline.app.build.tools import build_tools
    from tieline.app.workspace_files import WorkspaceFiles
    from tieline.tools.guarded_tools import GuardedTools
    from tieline.tools.policy import Policy
else:
    build_tools = LazyImport("tieline.app.build.tools", "build_tools")
    WorkspaceFiles = LazyImport("tieline.app.workspace_files", "WorkspaceFiles")

log = logging.getLogger("tieline")

MAX_REGISTERED = 64
MAX_PATH = 4096
MAX_BASE = 40
"""Maximum number of characters of a folder's name that become part of the workspace's name."""
MAX_SHOWN = 100
REMOVED = "the workspace was removed"

Source = Literal["default", "configuration", "registered"]
MakeTools = Callable[[str], "GuardedTools"]
OnRemove = Callable[[str], Awaitable[None]]


def workspace_name(path: str) -> str:
    """Return the name of the workspace of a folder, given its real path."""
    base = re.sub(r"[^a-z0-9._-]+", "-", Path(path).name.lower())[:MAX_BASE].strip("-.") or "folder"
    return f"{base}-{hashlib.sha256(os.fsencode(path)).hexdigest()[:8]}"


class ServedWorkspace:
    """One workspace and its tools. `make_tools` builds them for a folder, and blocks while it reads the disk."""

    def __init__(self, name: str, path: str, source: Source, autonomy: Autonomy, make_tools: MakeTools | None) -> None:
        self.name = name
        self.path = path
        self._source: Source = source
        self._autonomy: Autonomy = autonomy
        self._make_tools = make_tools
        self._tools: GuardedTools | None = None
        self._files: Files | None = None
        self._building = asyncio.Lock()
        self._policies: list[Policy] = []
        self._is_closed = False

    @property
    def has_tools(self) -> bool:
        """Whether the gateway's own tools can be used here."""
        return self._tools is not None or self._make_tools is not None

    @property
    def is_registered(self) -> bool:
        """Whether a client has registered the workspace."""
        return self._source == "registered"

    @property
    def info(self) -> WorkspaceInfo:
        """The workspace as clients see it."""
        return WorkspaceInfo(
            name=self.name,
            path=self.path,
            title=Path(self.path).name or self.path,
            autonomy=self._autonomy,
            tools=self.has_tools,
            source=self._source,
        )

    def adopt(self, tools: "GuardedTools") -> None:
        """Use tools that have been built already."""
        self._tools = tools
        self.govern(tools.policy)

    def govern(self, policy: "Policy") -> None:
        """Apply the autonomy of the workspace to a policy, now and whenever it changes."""
        policy.autonomy = self._autonomy
        if self._is_closed:
            policy.close(REMOVED)
        if policy not in self._policies:
            self._policies.append(policy)

    def set_autonomy(self, autonomy: Autonomy) -> None:
        """Change what tools and agents may do without asking."""
        if autonomy == "all":
            log.warning("everything is allowed without asking in %s, as a client requested", ascii(self.path))
        self._autonomy = autonomy
        for policy in self._policies:
            policy.autonomy = autonomy

    async def tools(self) -> "GuardedTools | None":
        """Return the tools, which the first call builds in a thread; None if the workspace has none.

        Raise GatewayError if they cannot be built.
        """
        if self._tools is None and self._make_tools is not None:
            async with self._building:
                if self._tools is None:
                    self.adopt(await self._built(self._make_tools))
        return self._tools

    async def _built(self, make: MakeTools) -> "GuardedTools":
        try:
            return await asyncio.to_thread(make, self.path)
        except ConfigError as error:
            raise GatewayError("internal", f"The tools of the workspace cannot be used: {error}.") from error

    async def files(self) -> Files | None:
        """Return the files that a person can attach to a message; None if there are no tools."""
        if self._files is None and self.has_tools:
            self._files = await asyncio.to_thread(WorkspaceFiles, self.path)
        return self._files

    def close(self) -> None:
        """Make the tools refuse every call from now on."""
        self._is_closed = True
        for policy in self._policies:
            policy.close(REMOVED)


class WorkspaceRegistry:
    """Implements `model.workspaces.Workspaces`: all workspaces by name."""

    def __init__(
        self,
        config: Config,
        env: Mapping[str, str],
        audit: AuditLog,
        default_tools: "GuardedTools | None",
        storage: Storage,
    ) -> None:
        self._usual: Autonomy = "all" if config.tools.yolo else "ask"
        self._settings, self._env, self._audit, self._storage = config.tools, env, audit, storage
        self._workspaces: dict[str, ServedWorkspace] = {}
        self._on_remove: list[OnRemove] = []
        self._on_change: list[Callable[[], None]] = []
        path = default_tools.workspace if default_tools is not None else _default_folder(config)
        default = self._workspaces[""] = ServedWorkspace("", path, "default", self._usual, None)
        if default_tools is not None:
            default.adopt(default_tools)
        for name, settings in config.workspaces.items():
            folder = Path(settings.path).expanduser().resolve()
            if not folder.is_dir():
                raise ConfigError(f"`workspaces.{name}.path` is {folder}, which is not a folder")
            self._add(name, str(folder), "configuration", settings.autonomy or self._usual)

    @property
    def names(self) -> Collection[str]:
        return self._workspaces.keys()

    def listed(self) -> Sequence[WorkspaceInfo]:
        return [workspace.info for workspace in self._workspaces.values()]

    def info(self, name: str) -> WorkspaceInfo:
        return self.get(name).info

    def get(self, name: str) -> ServedWorkspace:
        """Return a workspace. Raise GatewayError if there is none with this name."""
        workspace = self.find(name)
        if workspace is None:
            shown = ascii(name[:MAX_SHOWN])[1:-1]
            message = f"There is no workspace `{shown}`: it was removed, or its folder has not been opened yet."
            raise GatewayError("not_found", message, param="workspace")
        return workspace

    def find(self, name: str) -> ServedWorkspace | None:
        """Return the workspace with this name, if there is one."""
        return self._workspaces.get(name)

    def on_remove(self, call: OnRemove) -> None:
        """Call a function with the name of each workspace that is removed."""
        self._on_remove.append(call)

    def on_change(self, call: Callable[[], None]) -> None:
        """Call a function whenever the autonomy of a workspace changes."""
        self._on_change.append(call)

    async def register(self, path: str, autonomy: Autonomy | None = None) -> WorkspaceInfo:
        folder = await asyncio.to_thread(_real_folder, path)
        found = next((one for one in self._workspaces.values() if one.path == folder and _is_usable(one)), None)
        if found is None:
            found = self._registered(folder)
        if autonomy is not None:
            self._set(found, autonomy)
        return found.info

    def change(self, name: str, autonomy: Autonomy) -> WorkspaceInfo:
        workspace = self.get(name)
        self._set(workspace, autonomy)
        return workspace.info

    async def remove(self, name: str) -> None:
        workspace = self.get(name)
        if not workspace.is_registered:
            message = "Only a registered workspace can be removed; this one belongs to the configuration."
            raise GatewayError("forbidden", message)
        del self._workspaces[name]
        workspace.close()
        for call in self._on_remove:
            await call(name)

    async def toolbox(self, name: str) -> Toolbox | None:
        return await self.get(name).tools()

    async def rulebook(self, name: str) -> Rulebook | None:
        return await self.get(name).tools()

    async def files(self, name: str) -> Files | None:
        return await self.get(name).files()

    async def has_file(self, name: str, path: str) -> bool:
        tools = await self.get(name).tools()
        return tools is None or await tools.has_file(path)

    def _set(self, workspace: ServedWorkspace, autonomy: Autonomy) -> None:
        if workspace.info.autonomy != autonomy:
            workspace.set_autonomy(autonomy)
            for call in self._on_change:
                call()

    def _registered(self, folder: str) -> ServedWorkspace:
        name = workspace_name(folder)
        if name in self._workspaces:
            raise BadRequest(f"the configuration already uses the name `{name}` for another folder", "path")
        if sum(one.is_registered for one in self._workspaces.values()) >= MAX_REGISTERED:
            message = f"There are already {MAX_REGISTERED} registered workspaces; remove one at /api/workspaces first."
            raise GatewayError("overloaded", message)
        return self._add(name, folder, "registered", self._usual)

    def _add(self, name: str, folder: str, source: Source, autonomy: Autonomy) -> ServedWorkspace:
        make = self._make_tools if CAN_CONFINE else None
        workspace = self._workspaces[name] = ServedWorkspace(name, folder, source, autonomy, make)
        return workspace

    def _make_tools(self, folder: str) -> "GuardedTools":
        return build_tools(replace(self._settings, workspace=folder), self._env, self._audit, self._storage)[0]


def _is_usable(workspace: ServedWorkspace) -> bool:
    """Return whether a client that registers the folder of this workspace can use it instead."""
    return bool(workspace.name) or workspace.has_tools


def _default_folder(config: Config) -> str:
    return str(Path(config.tools.workspace or ".").expanduser().resolve())


def _real_folder(path: str) -> str:
    """Return the real path of a folder. Raise BadRequest if it cannot be a workspace."""
    shown = path[:MAX_SHOWN]
    if len(path) > MAX_PATH or "\0" in path or not Path(path).is_absolute():
        raise BadRequest(f"`path` is {shown!r}: expected the absolute path of a folder", "path")
    try:
        real = Path(path).resolve(strict=True)
        is_folder = real.is_dir()
    except (OSError, RuntimeError, ValueError) as error:
        raise BadRequest(f"`path` is {shown!r}, which cannot be used: {_reason(error)}", "path") from error
    if not is_folder:
        raise BadRequest(f"`path` is {shown!r}, which is not a folder", "path")
    return str(real)


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or "it is not valid"
