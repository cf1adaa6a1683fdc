"""Typed refusals for each kind of exec. The turn continues after a refusal, and the model receives the reason."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from google.protobuf.message import Message

from tieline.wire.cursor._pb import exec_kinds_pb2 as kinds
from tieline.wire.cursor.execs import shell_results


def rejection(kind: str, args: Any, reason: str) -> Sequence[Message]:
    """Return the result messages for an exec of this kind that was refused. `reason` is shown to the model."""
    return _REJECTIONS[kind](args, reason)


def _shell_rejected(args: Any, reason: str) -> kinds.ShellRejected:
    return kinds.ShellRejected(command=args.command, working_directory=args.working_directory, reason=reason)


def _shell(args: kinds.ShellArgs, reason: str) -> Sequence[Message]:
    return [kinds.ShellResult(rejected=_shell_rejected(args, reason))]


def _shell_stream(args: kinds.ShellArgs, reason: str) -> Sequence[Message]:
    return shell_results.rejected(shell_results.ShellCommand(args.command, args.working_directory), reason)


def _background(args: kinds.BackgroundShellSpawnArgs, reason: str) -> Sequence[Message]:
    return [kinds.BackgroundShellSpawnResult(rejected=_shell_rejected(args, reason))]


def _stdin(_: kinds.WriteShellStdinArgs, reason: str) -> Sequence[Message]:
    return [kinds.WriteShellStdinResult(error=kinds.WriteShellStdinError(error=reason))]


def _read(args: kinds.ReadArgs, reason: str) -> Sequence[Message]:
    return [kinds.ReadResult(rejected=kinds.ReadRejected(path=args.path, reason=reason))]


def _write(args: kinds.WriteArgs, reason: str) -> Sequence[Message]:
    return [kinds.WriteResult(rejected=kinds.WriteRejected(path=args.path, reason=reason))]


def _delete(args: kinds.DeleteArgs, reason: str) -> Sequence[Message]:
    return [kinds.DeleteResult(rejected=kinds.DeleteRejected(path=args.path, reason=reason))]


def _ls(args: kinds.LsArgs, reason: str) -> Sequence[Message]:
    return [kinds.LsResult(rejected=kinds.LsRejected(path=args.path, reason=reason))]


def _grep(_: kinds.GrepArgs, reason: str) -> Sequence[Message]:
    return [kinds.GrepResult(error=kinds.GrepError(error=reason))]


def _diagnostics(args: kinds.DiagnosticsArgs, reason: str) -> Sequence[Message]:
    return [kinds.DiagnosticsResult(rejected=kinds.DiagnosticsRejected(path=args.path, reason=reason))]


def _fetch(args: kinds.FetchArgs, reason: str) -> Sequence[Message]:
    return [kinds.FetchResult(error=kinds.FetchError(url=args.url, error=reason))]


def _mcp(_: kinds.McpArgs, reason: str) -> Sequence[Message]:
    return [kinds.McpResult(rejected=kinds.McpRejected(reason=reason))]


def _resources(_: kinds.ListMcpResourcesExecArgs, reason: str) -> Sequence[Message]:
    return [kinds.ListMcpResourcesExecResult(rejected=kinds.ListMcpResourcesRejected(reason=reason))]


def _resource(args: kinds.ReadMcpResourceExecArgs, reason: str) -> Sequence[Message]:
    return [kinds.ReadMcpResourceExecResult(rejected=kinds.ReadMcpResourceRejected(uri=args.uri, reason=reason))]


def _subagent(_: kinds.SubagentArgs, reason: str) -> Sequence[Message]:
    return [kinds.SubagentResult(error=kinds.SubagentError(error=reason))]


def _screen(_: kinds.RecordScreenArgs, reason: str) -> Sequence[Message]:
    return [kinds.RecordScreenResult(failure=kinds.RecordScreenFailure(error=reason))]


def _computer(_: kinds.ComputerUseArgs, reason: str) -> Sequence[Message]:
    return [kinds.ComputerUseResult(error=kinds.ComputerUseError(error=reason))]


def _words(_: Message, reason: str) -> Sequence[Message]:
    return [kinds.PiResult(error=kinds.PiResult.Words(text=reason))]


_REJECTIONS: Mapping[str, Callable[[Any, str], Sequence[Message]]] = {
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
    "mcp_args": _mcp,
    "list_mcp_resources_exec_args": _resources,
    "read_mcp_resource_exec_args": _resource,
    "subagent_args": _subagent,
    "record_screen_args": _screen,
    "computer_use_args": _computer,
    "pi_read_args": _words,
    "pi_bash_args": _words,
    "pi_edit_args": _words,
    "pi_write_args": _words,
    "pi_grep_args": _words,
    "pi_find_args": _words,
    "pi_ls_args": _words,
}
