"""What a person is shown before a call is allowed: exactly what will run or change.

What cannot be seen cannot be judged: characters that do not show are spelled out (see `unseen`), so that a command line
looks like what it is.
"""

from typing import Literal

from tieline.model.content import ToolCall, Value
from tieline.model.events import Diff
from tieline.tools import files
from tieline.tools.diffs import changed, unified
from tieline.tools.errors import ToolFailed
from tieline.tools.files import EDIT_FILE, LIST_DIRECTORY, READ_FILE, WRITE_FILE, EditFile, WriteFile
from tieline.tools.invisible_text import visible
from tieline.tools.protected import warning
from tieline.tools.risk import command_risk
from tieline.tools.search import SEARCH_CONTENT, SEARCH_FILES
from tieline.tools.shell import RUN_TERMINAL
from tieline.tools.workspace import Workspace, whole

Kind = Literal["read", "search", "edit", "execute", "other"]

MAX_TITLE = 120


class Ask(Value):
    """A call in words for a person. `problem` says why it would fail, if that is known already.

    `path` is where it really acts, from the root of the workspace; `diff` is what it would change there.
    """

    call_id: str
    tool: str
    kind: Kind
    title: str
    path: str | None = None
    command: str | None = None
    diff: str = ""
    change: Diff | None = None
    """The same as `diff`, for the activity that stays behind when the call was not allowed."""
    detail: str = ""
    risk: str = ""
    """What is risky about it, in one sentence."""
    problem: str | None = None


def describe(workspace: Workspace, call: ToolCall) -> Ask:
    """What a call would do, looking at the files it is about; never raises."""
    try:
        return _describe(workspace, call)
    except ToolFailed as error:
        title = f"{call.name}, which cannot work"
        return _ask(call, "other", title, detail=call.arguments, problem=str(error))


def _describe(workspace: Workspace, call: ToolCall) -> Ask:
    match call.name:
        case RUN_TERMINAL.name:
            return _run(workspace, call)
        case WRITE_FILE.name:
            return _write(workspace, call, WRITE_FILE.read(call))
        case EDIT_FILE.name:
            return _edit(workspace, call, EDIT_FILE.read(call))
        case READ_FILE.name:
            return _look(workspace, call, "read", "Read", READ_FILE.read(call).path)
        case LIST_DIRECTORY.name:
            return _look(workspace, call, "read", "List", LIST_DIRECTORY.read(call).path)
        case SEARCH_FILES.name:
            return _look(workspace, call, "search", "Find files in", SEARCH_FILES.read(call).path)
        case SEARCH_CONTENT.name:
            return _look(workspace, call, "search", "Search in", SEARCH_CONTENT.read(call).path)
        case _:
            return _ask(call, "other", call.name, detail=call.arguments)


def _run(workspace: Workspace, call: ToolCall) -> Ask:
    run = RUN_TERMINAL.read(call)
    place = workspace.locate(run.cwd or ".")
    detail = f"in {workspace.root if place == '.' else place}, for {run.timeout} seconds at most"
    risk = command_risk(run.command, root=workspace.root, folder=place)
    return _ask(call, "execute", f"Run {run.command}", path=place, command=run.command, detail=detail, risk=risk)


def _look(workspace: Workspace, call: ToolCall, kind: Kind, verb: str, path: str) -> Ask:
    place = workspace.locate(path or ".")
    return _ask(call, kind, f"{verb} {place}", path=place, detail=call.arguments)


def _write(workspace: Workspace, call: ToolCall, arguments: WriteFile) -> Ask:
    place = workspace.locate(arguments.path)
    old = _content(workspace, arguments.path)
    change = changed(old, arguments.content.encode("utf-8", "replace"), place)
    if old is None:
        diff = unified("", arguments.content, place, is_new=True)
        return _ask(call, "edit", f"Create {place}", path=place, diff=diff, change=change)
    if b"\0" in old:
        return _ask(call, "edit", f"Replace {place}", path=place, detail=f"a binary file of {len(old)} bytes")
    diff = unified(old.decode("utf-8", "replace"), arguments.content, place)
    detail = "" if diff else "nothing would change"
    return _ask(call, "edit", f"Replace {place}", path=place, diff=diff, change=change, detail=detail)


def _edit(workspace: Workspace, call: ToolCall, arguments: EditFile) -> Ask:
    with workspace.open(arguments.path) as opened:
        old = whole(opened)
        place = opened.path
    new, _ = files.edited(old, arguments)
    diff = unified(old.decode("utf-8", "replace"), new.decode("utf-8", "replace"), place)
    return _ask(call, "edit", f"Edit {place}", path=place, diff=diff, change=changed(old, new, place))


def _content(workspace: Workspace, path: str) -> bytes | None:
    """What is in a file now; None if there is none."""
    try:
        with workspace.open(path) as opened:
            return whole(opened)
    except ToolFailed as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return None
        raise


def _ask(
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
) -> Ask:
    line = " ".join(title.split())
    if kind == "edit" and path is not None:
        risk = warning(path)
    return Ask(
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
