"""The tools of the gateway, ready to be called: what they are, and what comes of a call.

A call never raises: what goes wrong is a result that says so, in words the model can act on. Cancelling a call ends
what it started. What is asked of the disk happens in threads.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence

from tieline.model.content import Image, Text, ToolCall, ToolResult
from tieline.model.ports import Progress, Report, unheard
from tieline.model.request import ToolSpec
from tieline.tools import approvals, files, shell
from tieline.tools.approvals import Ask
from tieline.tools.arguments import Form, T
from tieline.tools.errors import ToolFailed
from tieline.tools.files import EDIT_FILE, LIST_DIRECTORY, READ_FILE, WRITE_FILE, Changed, Content
from tieline.tools.search import SEARCH_CONTENT, SEARCH_FILES, Finder
from tieline.tools.shell import RUN_TERMINAL, Keep
from tieline.tools.todos import TODO_READ, TODO_WRITE, Todos
from tieline.tools.workspace import Workspace

log = logging.getLogger("tieline.tools")

READING = frozenset(
    form.name for form in (READ_FILE, LIST_DIRECTORY, SEARCH_FILES, SEARCH_CONTENT, TODO_READ, TODO_WRITE)
)
"""The tools that change nothing but the model's own list of things to do."""

Runner = Callable[[ToolCall, Report, Workspace], Awaitable[Content]]
Tool = Callable[[T, Report, Workspace], Awaitable[Content]]


class Toolbox:
    """The tools of one session in one workspace.

    `environment` is all that commands get to see of ours; `interpreter` is what runs a command line. `ripgrep` is the
    program to search with, or None for a slower one of our own. `hides` tells which paths a search must not show.
    """

    def __init__(
        self,
        workspace: Workspace,
        *,
        environment: Mapping[str, str],
        interpreter: Sequence[str] = ("/bin/sh", "-c"),
        ripgrep: str | None = None,
        todos: Todos | None = None,
        hides: Callable[[str], bool] = lambda _: False,
        keep: Keep | None = None,
        commands_at_once: int = 8,
    ) -> None:
        self.workspace = workspace
        self.todos = todos or Todos()
        self._environment = dict(environment)
        self._interpreter = tuple(interpreter)
        self._keep = keep or Keep()
        self._finder = Finder(workspace, ripgrep=ripgrep, hides=hides)
        self._commands = asyncio.Semaphore(commands_at_once)
        self._tools: dict[str, tuple[ToolSpec, Runner]] = {}
        self._add_tools()

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """The tools as models see them."""
        return tuple(spec for spec, _ in self._tools.values())

    def owns(self, name: str) -> bool:
        """Whether this is a tool of ours."""
        return name in self._tools

    async def execute(self, call: ToolCall, report: Report = unheard, place: str | None = None) -> ToolResult:
        """Do what a call says; `report` hears how far it is. It is not asked here whether it may.

        `place` is the path that was judged: if the call leads anywhere else by now, nothing is done.
        """
        try:
            content = await self._run(call, report, self.workspace.pinned(place))
        except ToolFailed as error:
            return _result(call, str(error), is_error=True)
        except Exception:
            log.exception("tool %s failed", call.name)
            report(Progress())  # what was told of it does not say that it failed
            return _result(
                call, f"{call.name} failed because of a mistake in the gateway; it is logged.", is_error=True
            )
        return _result(call, content)

    async def describe(self, call: ToolCall, place: str | None = None) -> Ask:
        """Say what a call would do at the path that was judged, for a person who is to allow it."""
        return await asyncio.to_thread(approvals.describe, self.workspace.pinned(place), call)

    async def _run(self, call: ToolCall, report: Report, workspace: Workspace) -> Content:
        found = self._tools.get(call.name)
        if found is None:
            raise ToolFailed(f"There is no tool `{call.name}`. There are: {', '.join(self._tools)}.")
        return await found[1](call, report, workspace)

    def _add_tools(self) -> None:
        self._add(READ_FILE, _on_disk(files.read))
        self._add(WRITE_FILE, _changing(files.write))
        self._add(EDIT_FILE, _changing(files.edit))
        self._add(LIST_DIRECTORY, _on_disk(files.list_directory))
        self._add(SEARCH_FILES, _quietly(self._finder.files))
        self._add(SEARCH_CONTENT, _quietly(self._finder.content))
        self._add(RUN_TERMINAL, self._terminal)
        self._add(TODO_READ, _at_once(lambda _: self.todos.read()))
        self._add(TODO_WRITE, _at_once(self.todos.write))

    def _add(self, form: Form[T], tool: Tool[T]) -> None:
        async def run(call: ToolCall, report: Report, workspace: Workspace) -> Content:
            return await tool(form.read(call), report, workspace)

        self._tools[form.name] = (form.spec, run)

    async def _terminal(self, arguments: shell.RunTerminal, report: Report, workspace: Workspace) -> str:
        async with self._commands:
            return await shell.run(
                workspace,
                arguments,
                interpreter=self._interpreter,
                environment=self._environment,
                keep=self._keep,
                report=report,
            )


def _on_disk(tool: Callable[[Workspace, T], Content]) -> Tool[T]:
    async def run(arguments: T, _: Report, workspace: Workspace) -> Content:
        return await asyncio.to_thread(tool, workspace, arguments)

    return run


def _changing(tool: Callable[[Workspace, T], Changed]) -> Tool[T]:
    async def run(arguments: T, report: Report, workspace: Workspace) -> Content:
        changed = await asyncio.to_thread(tool, workspace, arguments)
        if changed.diff is not None:
            report(Progress(diffs=(changed.diff,)))
        return changed.told

    return run


def _quietly(tool: Callable[[T, Workspace], Awaitable[Content]]) -> Tool[T]:
    async def run(arguments: T, _: Report, workspace: Workspace) -> Content:
        return await tool(arguments, workspace)

    return run


def _at_once(tool: Callable[[T], str]) -> Tool[T]:
    async def run(arguments: T, _: Report, __: Workspace) -> Content:
        return tool(arguments)

    return run


def _result(call: ToolCall, content: Content, *, is_error: bool = False) -> ToolResult:
    parts: tuple[Text | Image, ...] = (Text(text=content),) if isinstance(content, str) else content
    return ToolResult(call_id=call.id, content=parts, is_error=is_error)
