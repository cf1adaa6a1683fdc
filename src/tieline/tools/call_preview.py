"""Previews of tool calls, which a person sees before allowing a call.

A preview shows exactly what will run or change. Invisible characters are spelled out (see `invisible_text`), so that a
command line cannot look like a different one.
"""

from typing import Literal

from tieline.model.content import ToolCall, Value
from tieline.model.events import Diff
from tieline.tools import files
from tieline.tools.command_line import command_risk
from tieline.tools.diffs import excerpt, unified_diff
from tieline.tools.errors import ToolFailed
from tieline.tools.files import EDIT_FILE, LIST_DIRECTORY, READ_FILE, WRITE_FILE, EditFile, WriteFile
from tieline.tools.invisible_text import visible
from tieline.tools.protected import protection_warning
from tieline.tools.search import SEARCH_CONTENT, SEARCH_FILES
from tieline.tools.shell import RUN_TERMINAL
from tieline.tools.workspace import Workspace, read_whole

Kind = Literal["read", "search", "edit", "execute", "other"]

MAX_TITLE = 120


class CallPreview(Value):
    """A description of what a call would do.

    `path` is the file or folder that the call uses, relative to the workspace, with all links resolved. `diff` is the
    change that the call would make to the file.
    """

    call_id: str
    tool: str
    kind: Kind
    title: str
    path: str | None = None
    command: str | None = None
    diff: str = ""
    change: Diff | None = None
    """An excerpt of the change in `diff`. It is shown in the conversation if the call is not allowed."""
    detail: str = ""
    risk: str = ""
    """One sentence about the risk of the call; empty if no risk was recognised."""
    problem: str | None = None
    """The reason why the call would fail; None if no such reason is known."""


def preview_call(workspace: Workspace, call: ToolCall) -> CallPreview:
    """Describe what a call would do. Read the file that it would change. If the call would fail, `problem` says why."""
    try:
        return _preview(workspace, call)
    except ToolFailed as error:
        return _make_preview(call, "other", call.name, detail=call.arguments, problem=str(error))


def _preview(workspace: Workspace, call: ToolCall) -> CallPreview:
    match call.name:
        case RUN_TERMINAL.name:
            return _run(workspace, call)
        case WRITE_FILE.name:
            return _write(workspace, call, WRITE_FILE.parse(call))
        case EDIT_FILE.name:
            return _edit(workspace, call, EDIT_FILE.parse(call))
        case READ_FILE.name:
            return _look(workspace, call, "read", "Read", READ_FILE.parse(call).path)
        case LIST_DIRECTORY.name:
            return _look(workspace, call, "read", "List", LIST_DIRECTORY.parse(call).path)
        case SEARCH_FILES.name:
            return _look(workspace, call, "search", "Find files in", SEARCH_FILES.parse(call).path)
        case SEARCH_CONTENT.name:
            return _look(workspace, call, "search", "Search", SEARCH_CONTENT.parse(call).path)
        case _:
            return _make_preview(call, "other", call.name, detail=call.arguments)


def _run(workspace: Workspace, call: ToolCall) -> CallPreview:
    run = RUN_TERMINAL.parse(call)
    place = workspace.locate(run.cwd or ".")
    detail = f"Runs in {workspace.root if place == '.' else place} for at most {run.timeout} seconds"
    risk = command_risk(run.command, root=workspace.root, folder=place)
    return _make_preview(
        call, "execute", f"Run {run.command}", path=place, command=run.command, detail=detail, risk=risk
    )


def _look(workspace: Workspace, call: ToolCall, kind: Kind, verb: str, path: str) -> CallPreview:
    place = workspace.locate(path or ".")
    target = "the workspace folder" if place == "." else place
    return _make_preview(call, kind, f"{verb} {target}", path=place, detail=call.arguments)


def _write(workspace: Workspace, call: ToolCall, arguments: WriteFile) -> CallPreview:
    place = workspace.locate(arguments.path)
    old = _content(workspace, arguments.path)
    change = excerpt(old, arguments.content.encode("utf-8", "replace"), place)
    if old is None:
        diff = unified_diff("", arguments.content, place, is_new=True)
        return _make_preview(call, "edit", f"Create {place}", path=place, diff=diff, change=change)
    if b"\0" in old:
        return _make_preview(
            call, "edit", f"Replace {place}", path=place, detail=f"Replaces a binary file of {len(old)} bytes"
        )
    diff = unified_diff(old.decode("utf-8", "replace"), arguments.content, place)
    detail = "" if diff else "The content stays the same"
    return _make_preview(call, "edit", f"Replace {place}", path=place, diff=diff, change=change, detail=detail)


def _edit(workspace: Workspace, call: ToolCall, arguments: EditFile) -> CallPreview:
    with workspace.open(arguments.path) as opened:
        old = read_whole(opened)
        place = opened.path
    new, _ = files.apply_edit(old, arguments)
    diff = unified_diff(old.decode("utf-8", "replace"), new.decode("utf-8", "replace"), place)
    return _make_preview(call, "edit", f"Edit {place}", path=place, diff=diff, change=excerpt(old, new, place))


def _content(workspace: Workspace, path: str) -> bytes | None:
    """Return the current content of a file, or None if there is no such file."""
    try:
        with workspace.open(path) as opened:
            return read_whole(opened)
    except ToolFailed as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return None
        raise


def _make_preview(
    call: ToolCall,
    kind: Kind,
    title: str,
    *,
    path: str | None = None,
    command: str | None = None,
    diff: str = "",
    change: Diff | None = None,
    detail: str = "",
    risk: str = "",
    problem: str | None = None,
) -> CallPreview:
    line = " ".join(title.split())
    if kind == "edit" and path is not None:
        risk = protection_warning(path)
    return CallPreview(
        call_id=call.id,
        tool=call.name,
        kind=kind,
        title=visible(line if len(line) <= MAX_TITLE else f"{line[:MAX_TITLE]}…"),
        path=None if path is None else visible(path),
        command=None if command is None else visible(command),
        diff=visible(diff),
        change=change,
        detail=visible(detail),
        risk=visible(risk),
        problem=problem,
    )
