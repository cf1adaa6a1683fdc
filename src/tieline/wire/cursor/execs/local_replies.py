"""Execs that are answered without asking the client: about the tools themselves, and what no client can do."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from google.protobuf.message import Message

from tieline.wire.cursor._pb import exec_kinds_pb2 as kinds
from tieline.wire.cursor._pb import exec_pb2
from tieline.wire.cursor._pb.shared_pb2 import FORCE_BACKGROUND_SHELL_STATUS_NOT_FOUND, McpInstructions
from tieline.wire.cursor.execs.plans import Desk
from tieline.wire.cursor.execs.rejections import rejection
from tieline.wire.cursor.opening.context import INSTRUCTIONS
from tieline.wire.cursor.opening.tools import PROVIDER
from tieline.wire.shared.capabilities import Capability, matching_tools

_NO_SCREEN = "There is no screen here to record. Do not try again; show something else as evidence."
_NO_COMPUTER = "There is no computer here to use by hand. Do not try again; check with tests or commands instead."


def at_once(kind: str, args: Any, desk: Desk) -> Sequence[Message] | None:
    """The answer to an exec of this kind; None if it is not for us to give."""
    answer = _ANSWERS.get(kind)
    return answer(args, desk) if answer else None


def unknown_tool(args: kinds.McpArgs, desk: Desk) -> Sequence[Message]:
    """The answer to a call of a tool that was not offered."""
    if args.provider_identifier.casefold() not in ("", PROVIDER):
        servers = [PROVIDER] if desk.offer.specs else []
        missing = kinds.McpServerNotFound(name=args.provider_identifier, available_servers=servers)
        return [kinds.McpResult(server_not_found=missing)]
    names = [definition.name for definition in desk.offer.definitions]
    unknown = kinds.McpToolNotFound(name=args.name or args.tool_name, available_tools=names)
    return [kinds.McpResult(tool_not_found=unknown)]


def _prechecked(result: Message) -> Callable[[Any, Desk], Sequence[Message]]:
    """Nothing is allowed beforehand: the client decides when it is called."""
    return lambda _args, _desk: [result]


def _mcp_state(args: kinds.McpStateExecArgs, desk: Desk) -> Sequence[Message]:
    success = kinds.McpStateSuccess()
    is_wanted = not args.server_identifiers or PROVIDER in args.server_identifiers
    if desk.offer.specs and is_wanted and not args.kick_only:
        told = McpInstructions(server_name=PROVIDER, instructions=INSTRUCTIONS, server_identifier=PROVIDER)
        server = kinds.McpStateServer(
            server_name=PROVIDER, server_identifier=PROVIDER, tools=desk.offer.definitions, instructions=[told]
        )
        success.servers.append(server)
    return [kinds.McpStateExecResult(success=success)]


def _resources(args: kinds.ListMcpResourcesExecArgs, desk: Desk) -> Sequence[Message]:
    """There are none, unless a server is named that nobody has."""
    if args.server and not (args.server == PROVIDER and desk.offer.specs):
        error = kinds.ListMcpResourcesError(error=f'Server "{args.server}" not found')
        return [kinds.ListMcpResourcesExecResult(error=error)]
    return [kinds.ListMcpResourcesExecResult(success=kinds.ListMcpResourcesSuccess())]


def _resource(args: kinds.ReadMcpResourceExecArgs, _: Desk) -> Sequence[Message]:
    error = kinds.ReadMcpResourceError(uri=args.uri, error=f'Server "{args.server}" not found')
    return [kinds.ReadMcpResourceExecResult(error=error)]


def _subagent(args: kinds.SubagentArgs, desk: Desk) -> Sequence[Message]:
    tool = next(matching_tools("task", desk.tools), None)
    if tool is None:
        reason = "This client has no subagents. Do the work yourself."
    else:
        reason = f"This client runs subagents by its own tool. Use `{desk.offer.spell(tool.name)}` instead."
    return rejection("subagent_args", args, reason)


def _stdin(args: kinds.WriteShellStdinArgs, _: Desk) -> Sequence[Message]:
    reason = f"Failed to write to shell {args.shell_id} stdin: Shell not found"
    return rejection("write_shell_stdin_args", args, reason)


def _words(capability: Capability) -> Callable[[Any, Desk], Sequence[Message]]:
    """Kinds whose arguments nobody knows: the tool to use instead is named, if there is one."""

    def answer(args: Any, desk: Desk) -> Sequence[Message]:
        tool = next(matching_tools(capability, desk.tools), None)
        if tool is None:
            return rejection("pi_read_args", args, desk.refusal(capability))
        return rejection("pi_read_args", args, f"Use `{desk.offer.spell(tool.name)}` instead.")

    return answer


_ANSWERS: Mapping[str, Callable[[Any, Desk], Sequence[Message]]] = {
    "shell_allowlist_precheck_args": _prechecked(exec_pb2.ShellAllowlistPrecheckResult()),
    "mcp_allowlist_precheck_args": _prechecked(kinds.McpAllowlistPrecheckResult()),
    "web_fetch_allowlist_precheck_args": _prechecked(kinds.WebFetchAllowlistPrecheckResult()),
    "mcp_state_exec_args": _mcp_state,
    "list_mcp_resources_exec_args": _resources,
    "read_mcp_resource_exec_args": _resource,
    "subagent_args": _subagent,
    "write_shell_stdin_args": _stdin,
    "subagent_await_args": lambda _args, _desk: [kinds.SubagentAwaitResult(not_found=kinds.SubagentAwaitNotFound())],
    "force_background_shell_args": lambda _args, _desk: [
        kinds.ForceBackgroundShellResult(status=FORCE_BACKGROUND_SHELL_STATUS_NOT_FOUND)
    ],
    "force_background_subagent_args": lambda _args, _desk: [exec_pb2.ForceBackgroundSubagentResult(status=2)],
    "record_screen_args": lambda args, _desk: rejection("record_screen_args", args, _NO_SCREEN),
    "computer_use_args": lambda args, _desk: rejection("computer_use_args", args, _NO_COMPUTER),
    "pi_read_args": _words("read"),
    "pi_bash_args": _words("shell"),
    "pi_edit_args": _words("edit"),
    "pi_write_args": _words("write"),
    "pi_grep_args": _words("grep"),
    "pi_find_args": _words("glob"),
    "pi_ls_args": _words("list"),
}
