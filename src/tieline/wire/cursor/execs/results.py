"""Convert the result of a client's tool to the typed result that the service expects for each kind of exec."""

import re
from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from google.protobuf.message import Message

from tieline.model.content import ToolResult
from tieline.wire.cursor._pb import exec_kinds_pb2 as kinds
from tieline.wire.cursor.execs import search_results, shell_results
from tieline.wire.cursor.execs.diagnostic_results import diagnostics
from tieline.wire.cursor.execs.file_results import FileReads, delete_result, read_result, write_result
from tieline.wire.cursor.execs.listing_results import tree
from tieline.wire.cursor.execs.outcome import is_rejected, judge, part_text, text_of, unframed
from tieline.wire.cursor.execs.plans import CallPlan, ClientToolset, glob_of
from tieline.wire.cursor.execs.rejections import rejection
from tieline.wire.shared.file_text import answered


class RunningShells:
    """Maps the client's session names for background commands to shell numbers for the service, and back."""

    def __init__(self) -> None:
        self._sessions: dict[int, str] = {}

    def number(self, session: str) -> int:
        """Return the number for the client's session name, assigning one if necessary.

        If the session name is itself a number, that number is assigned, unless another session already has it.
        """
        number = int(session) if re.fullmatch(r"\d{1,9}", session) else len(self._sessions) + 1
        while self._sessions.get(number, session) != session:
            number += 1
        self._sessions[number] = session
        return number

    def session(self, number: int) -> str | None:
        """Return the client's session name for the command with this number; None if it is unknown."""
        return self._sessions.get(number)


class FinishedExec(NamedTuple):
    """An exec, the call that was made for it, the call's result, and how long the call took."""

    kind: str
    args: Any
    plan: CallPlan
    result: ToolResult
    millis: int
    toolset: ClientToolset
    reads: FileReads
    shells: RunningShells


def typed(done: FinishedExec) -> Sequence[Message]:
    """Return the typed result of an exec: one message, or several for a streamed shell command."""
    return _BUILDERS[done.kind](done)


# ── Commands ─────────────────────────────────────────────────────────────────────────────────────


def _ran(done: FinishedExec) -> shell_results.ShellOutcome:
    """Parse the outcome of a command from the first part of the result.

    Later parts, such as text that the user added, are appended to its output.
    """
    texts = [part_text(part) or "" for part in done.result.content] or [""]
    ran = shell_results.read(texts[0])
    if ran.code is None and ran.ending == "exited":
        ran = ran._replace(code=1 if done.result.is_error else 0)
    more = "\n".join(filter(None, texts[1:]))
    return ran._replace(stdout="\n".join(filter(None, (ran.stdout, more)))) if more else ran


def _asked(done: FinishedExec) -> shell_results.ShellCommand:
    directory = done.toolset.absolute(done.args.working_directory)
    return shell_results.ShellCommand(done.args.command, directory, done.millis)


def _shell(done: FinishedExec) -> Sequence[Message]:
    reason = _refused(done)
    if reason is not None:
        return rejection(done.kind, done.args, reason)
    ran = _ran(done)
    if done.result.is_error and re.match(r"(?:error: )?spawn \S+ E[A-Z]+", ran.stdout, re.IGNORECASE):
        return [shell_results.spawn_error(_asked(done), ran.stdout)]
    number = done.shells.number(ran.session) if ran.ending == "running" else 0
    interleaved = done.kind == "mini_swe_agent_bash_args"
    return [shell_results.result(_asked(done), ran, shell_id=number, interleaved=interleaved)]


def _shell_stream(done: FinishedExec) -> Sequence[Message]:
    reason = _refused(done)
    if reason is not None:
        return rejection(done.kind, done.args, reason)
    ran = _ran(done)
    return shell_results.stream(
        _asked(done), ran, shell_id=done.shells.number(ran.session) if ran.ending == "running" else 0
    )


def _refused(done: FinishedExec) -> str | None:
    """Return the reason why the client did not run the command.

    Return None if the command ran, even if it was interrupted.
    """
    text = text_of(done.result)
    if not is_rejected(text, is_error=done.result.is_error) or text.lstrip().lower().startswith("[request interrupted"):
        return None
    return unframed(text)


def _background(done: FinishedExec) -> Sequence[Message]:
    text = text_of(done.result)
    if is_rejected(text, is_error=done.result.is_error):
        return rejection(done.kind, done.args, unframed(text))
    ran = _ran(done)
    facts = {"command": done.args.command, "working_directory": done.args.working_directory}
    if done.result.is_error or ran.code:
        error = unframed(text) or "the command could not be started"
        return [kinds.BackgroundShellSpawnResult(error=kinds.BackgroundShellSpawnError(**facts, error=error))]
    success = kinds.BackgroundShellSpawnSuccess(
        **facts, shell_id=done.shells.number(ran.session or done.result.call_id)
    )
    pid = re.search(r"\bPID:? (\d{1,9})\b", text, re.IGNORECASE)
    if pid:
        success.pid = int(pid[1])
    return [kinds.BackgroundShellSpawnResult(success=success)]


def _stdin(done: FinishedExec) -> Sequence[Message]:
    outcome = judge(done.result)
    if outcome.kind != "ok":
        return rejection(done.kind, done.args, outcome.text)
    success = kinds.WriteShellStdinSuccess(shell_id=done.args.shell_id)
    return [kinds.WriteShellStdinResult(success=success)]


# ── Files ────────────────────────────────────────────────────────────────────────────────────────


def _read(done: FinishedExec) -> Sequence[Message]:
    path = done.toolset.absolute(done.args.path)
    return [read_result(done.args, path, done.result, done.plan.placed, done.reads)]


def _write(done: FinishedExec) -> Sequence[Message]:
    return [write_result(done.args, done.toolset.absolute(done.args.path), done.result, done.reads)]


def _delete(done: FinishedExec) -> Sequence[Message]:
    return [delete_result(done.toolset.absolute(done.args.path), done.result, done.reads)]


def _ls(done: FinishedExec) -> Sequence[Message]:
    path = done.toolset.absolute(done.args.path)
    outcome = judge(done.result)
    errors = {
        "missing": f"Path does not exist: {path}",
        "no_directory": f"Path is not a directory: {path}",
    }
    if outcome.kind == "rejected":
        return rejection(done.kind, done.args, outcome.text)
    if outcome.kind != "ok":
        error = kinds.LsError(path=path, error=errors.get(outcome.kind, outcome.text))
        return [kinds.LsResult(error=error)]
    root = tree(answered(outcome.text) or outcome.text, path, list(done.args.ignore))
    return [kinds.LsResult(success=kinds.LsSuccess(directory_tree_root=root))]


def _grep(done: FinishedExec) -> Sequence[Message]:
    args: kinds.GrepArgs = done.args
    outcome = judge(done.result)
    if outcome.kind != "ok":
        path = done.toolset.absolute(args.path)
        is_path = outcome.kind == "missing" and args.path
        return rejection(done.kind, args, f"Path does not exist: {path}" if is_path else outcome.text)
    asked = search_results.Search(
        pattern=args.pattern,
        path=args.path,
        mode=search_results.mode_of(args.output_mode),
        root=done.toolset.workspace,
        context=bool(args.context or args.context_before or args.context_after),
        glob="" if done.plan.capability == "glob" or done.plan.placed & {"glob", "type"} else glob_of(args),
    )
    return [search_results.result(asked, answered(outcome.text) or outcome.text)]


def _diagnostics(done: FinishedExec) -> Sequence[Message]:
    path = done.toolset.absolute(done.args.path)
    outcome = judge(done.result)
    match outcome.kind:
        case "ok" | "unchanged":
            found = diagnostics(outcome.text)
            success = kinds.DiagnosticsSuccess(path=path, diagnostics=found, total_diagnostics=len(found))
            return [kinds.DiagnosticsResult(success=success)]
        case "rejected":
            return rejection(done.kind, done.args, outcome.text)
        case "missing":
            return [kinds.DiagnosticsResult(file_not_found=kinds.DiagnosticsFileNotFound(path=path))]
        case "denied":
            return [kinds.DiagnosticsResult(permission_denied=kinds.DiagnosticsPermissionDenied(path=path))]
        case _:
            return [kinds.DiagnosticsResult(error=kinds.DiagnosticsError(path=path, error=outcome.text))]


# ── Others ───────────────────────────────────────────────────────────────────────────────────────


def _fetch(done: FinishedExec) -> Sequence[Message]:
    outcome = judge(done.result)
    url = done.args.url
    if outcome.kind != "ok":
        return [kinds.FetchResult(error=kinds.FetchError(url=url, error=outcome.text))]
    kind = "text/html" if re.match(r"\s*<(?:!doctype html|html)\b", outcome.text, re.IGNORECASE) else "text/plain"
    success = kinds.FetchSuccess(url=url, content=outcome.text, status_code=200, content_type=kind)
    return [kinds.FetchResult(success=success)]


class _Resource(msgspec.Struct, rename={"mime_type": "mimeType"}):
    """An MCP resource in a client's list, or one item of a resource's contents."""

    uri: str = ""
    name: str | None = None
    description: str | None = None
    mime_type: str | None = None
    server: str = ""
    text: str | None = None
    blob: str | None = None


class _Contents(msgspec.Struct):
    contents: list[_Resource]


def _resources(done: FinishedExec) -> Sequence[Message]:
    outcome = judge(done.result)
    if outcome.kind == "rejected":
        return rejection(done.kind, done.args, outcome.text)
    listed = _decoded(outcome.text, list[_Resource]) if outcome.kind == "ok" else None
    if listed is None and not re.match(r"\s*(?:no (?:\w+ )?resources|\Z)", outcome.text, re.IGNORECASE):
        return [kinds.ListMcpResourcesExecResult(error=kinds.ListMcpResourcesError(error=outcome.text))]
    resources = [
        kinds.ListMcpResourcesExecResult.McpResource(
            uri=one.uri, name=one.name, description=one.description, mime_type=one.mime_type, server=one.server
        )
        for one in listed or ()
    ]
    return [kinds.ListMcpResourcesExecResult(success=kinds.ListMcpResourcesSuccess(resources=resources))]


def _resource(done: FinishedExec) -> Sequence[Message]:
    outcome = judge(done.result)
    uri = done.args.uri
    if outcome.kind == "rejected":
        return rejection(done.kind, done.args, outcome.text)
    if outcome.kind != "ok":
        return [kinds.ReadMcpResourceExecResult(error=kinds.ReadMcpResourceError(uri=uri, error=outcome.text))]
    found = _decoded(outcome.text, _Contents)
    one = found.contents[0] if found is not None and found.contents else _Resource(text=outcome.text)
    success = kinds.ReadMcpResourceSuccess(uri=uri, mime_type=one.mime_type)
    if one.text is None and one.blob:
        try:
            success.blob = b64decode(one.blob)
        except ValueError:
            success.text = one.blob
    else:
        success.text = one.text or ""
    return [kinds.ReadMcpResourceExecResult(success=success)]


def _decoded(text: str, form: Any) -> Any:
    try:
        return msgspec.json.decode(text, type=form)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return None


_BUILDERS: Mapping[str, Callable[[FinishedExec], Sequence[Message]]] = {
    "shell_args": _shell,
    "shell_stream_args": _shell_stream,
    "mini_swe_agent_bash_args": _shell,
    "background_shell_spawn_args": _background,
    "write_shell_stdin_args": _stdin,
    "read_args": _read,
    "redacted_read_args": _read,
    "write_args": _write,
    "delete_args": _delete,
    "ls_args": _ls,
    "grep_args": _grep,
    "diagnostics_args": _diagnostics,
    "fetch_args": _fetch,
    "list_mcp_resources_exec_args": _resources,
    "read_mcp_resource_exec_args": _resource,
}
