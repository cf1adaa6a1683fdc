"""The gateway's tools for one workspace, ready to be called. Permissions are checked elsewhere (`guarded_tools`).

A call never raises an exception: a failure is a result with a message that tells the model how to proceed. Cancelling a
call ends every process it started. Disk access happens in threads.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence

from tieline.model.content import Image, Text, ToolCall, ToolResult
from tieline.model.ports import Progress, Report, no_report
from tieline.model.request import ToolSpec
from tieline.tools import call_preview, files, shell
from tieline.tools.arguments import T, ToolDefinition
from tieline.tools.call_preview import CallPreview
from tieline.tools.errors import ToolFailed
from tieline.tools.files import EDIT_FILE, LIST_DIRECTORY, READ_FILE, WRITE_FILE, Content, FileChange
from tieline.tools.search import SEARCH_CONTENT, SEARCH_FILES, WorkspaceSearch
from tieline.tools.shell import RUN_TERMINAL, OutputLimits
from tieline.tools.todos import TODO_READ, TODO_WRITE, TodoList
from tieline.tools.workspace import Workspace

log = logging.getLogger("tieline.tools")

READ_ONLY_TOOLS = frozenset(
    definition.name for definition in (READ_FILE, LIST_DIRECTORY, SEARCH_FILES, SEARCH_CONTENT, TODO_READ, TODO_WRITE)
)
"""The tools that change nothing except the model's own todo list."""

Runner = Callable[[ToolCall, Report, Workspace], Awaitable[Content]]
Tool = Callable[[T, Report, Workspace], Awaitable[Content]]


class WorkspaceToolbox:
    """The tools of one workspace.

    `environment` holds all environment variables for commands; `interpreter` is the program that runs a command line.
    `ripgrep` is the program to search with, or None for the slower `search_fallback`. `hides` returns whether searches
    must not show a path.
    """

    def __init__(
        self,
        workspace: Workspace,
        *,
        environment: Mapping[str, str],
        interpreter: Sequence[str] = ("/bin/sh", "-c"),
        ripgrep: str | None = None,
        todos: TodoList | None = None,
        hides: Callable[[str], bool] = lambda _: False,
        limits: OutputLimits | None = None,
        commands_at_once: int = 8,
    ) -> None:
        self.workspace = workspace
        self.todos = todos or TodoList()
        self._environment = dict(environment)
        self._interpreter = tuple(interpreter)
        self._limits = limits or OutputLimits()
        self._search = WorkspaceSearch(workspace, ripgrep=ripgrep, hides=hides)
        self._commands = asyncio.Semaphore(commands_at_once)
        self._tools: dict[str, tuple[ToolSpec, Runner]] = {}
        self._add_tools()

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """The definitions that models see."""
        return tuple(spec for spec, _ in self._tools.values())

    def owns(self, name: str) -> bool:
        """Return whether there is a tool with this name."""
        return name in self._tools

    async def execute(self, call: ToolCall, report: Report = no_report, place: str | None = None) -> ToolResult:
        """Run a call without checking permissions. `report` receives its progress.

        `place` is the path for which permission was given. If the path in the call now resolves to another path,
        the call fails.
        """
        try:
            content = await self._run(call, report, self.workspace.pinned(place))
        except ToolFailed as error:
            return _result(call, str(error), is_error=True)
        except Exception:
            log.exception("tool %s failed", call.name)
            report(Progress())  # show the result instead of the output so far, which does not mention the failure
            return _result(call, f"{call.name} failed because of a bug in the gateway; see its log.", is_error=True)
        return _result(call, content)

    async def preview(self, call: ToolCall, place: str | None = None) -> CallPreview:
        """Return a preview of a call for a person to approve. The call's path must resolve to `place`, if given."""
        return await asyncio.to_thread(call_preview.preview_call, self.workspace.pinned(place), call)

    async def _run(self, call: ToolCall, report: Report, workspace: Workspace) -> Content:
        found = self._tools.get(call.name)
        if found is None:
            raise ToolFailed(f"There is no tool `{call.name}`. The tools are: {', '.join(self._tools)}.")
        return await found[1](call, report, workspace)

    def _add_tools(self) -> None:
        self._add(READ_FILE, _in_thread(files.read))
        self._add(WRITE_FILE, _reporting_change(files.write))
        self._add(EDIT_FILE, _reporting_change(files.edit))
        self._add(LIST_DIRECTORY, _in_thread(files.list_directory))
        self._add(SEARCH_FILES, _without_report(self._search.files))
        self._add(SEARCH_CONTENT, _without_report(self._search.content))
        self._add(RUN_TERMINAL, self._terminal)
        self._add(TODO_READ, _immediate(lambda _: self.todos.read()))
        self._add(TODO_WRITE, _immediate(self.todos.write))

    def _add(self, definition: ToolDefinition[T], tool: Tool[T]) -> None:
        async def run(call: ToolCall, report: Report, workspace: Workspace) -> Content:
            return await tool(definition.parse(call), report, workspace)

        self._tools[definition.name] = (definition.spec, run)

    async def _terminal(self, arguments: shell.RunTerminal, report: Report, workspace: Workspace) -> str:
        async with self._commands:
            return await shell.run(
                workspace,
                arguments,
                interpreter=self._interpreter,
                environment=self._environment,
                limits=self._limits,
                report=report,
            )


def _in_thread(tool: Callable[[Workspace, T], Content]) -> Tool[T]:
    async def run(arguments: T, _: Report, workspace: Workspace) -> Content:
        return await asyncio.to_thread(tool, workspace, arguments)

    return run


def _reporting_change(tool: Callable[[Workspace, T], FileChange]) -> Tool[T]:
    async def run(arguments: T, report: Report, workspace: Workspace) -> Content:
        changed = await asyncio.to_thread(tool, workspace, arguments)
        if changed.diff is not None:
            report(Progress(diffs=(changed.diff,)))
        return changed.message

    return run


def _without_report(tool: Callable[[T, Workspace], Awaitable[Content]]) -> Tool[T]:
    async def run(arguments: T, _: Report, workspace: Workspace) -> Content:
        return await tool(arguments, workspace)

    return run


def _immediate(tool: Callable[[T], str]) -> Tool[T]:
    async def run(arguments: T, _: Report, __: Workspace) -> Content:
        return tool(arguments)

    return run


def _result(call: ToolCall, content: Content, *, is_error: bool = False) -> ToolResult:
    parts: tuple[Text | Image, ...] = (Text(text=content),) if isinstance(content, str) else content
    return ToolResult(call_id=call.id, content=parts, is_error=is_error)
