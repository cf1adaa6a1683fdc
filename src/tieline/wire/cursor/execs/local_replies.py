"""Replies to execs that are not passed to the client: questions about tools, and requests that no client supports."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from google.protobuf.message import Message

from tieline.wire.cursor._pb import exec_kinds_pb2 as kinds
from tieline.wire.cursor._pb import exec_pb2
from tieline.wire.cursor._pb.shared_pb2 import FORCE_BACKGROUND_SHELL_STATUS_NOT_FOUND, McpInstructions
from tieline.wire.cursor.execs.plans import ClientToolset
from tieline.wire.cursor.execs.rejections import rejection
from tieline.wire.cursor.opening.offered_tools import PROVIDER
from tieline.wire.cursor.opening.request_context import INSTRUCTIONS
from tieline.wire.shared.capabilities import Capability, matching_tools

_NO_SCREEN = "There is no screen here to record. Do not try again; show something else as evidence."
_NO_COMPUTER = "There is no computer here to use by hand. Do not try again; check with tests or commands instead."


def local_reply(kind: str, args: Any, toolset: ClientToolset) -> Sequence[Message] | None:
    """Return the reply to an exec of this kind; None if the kind is unknown."""
    answer = _ANSWERS.get(kind)
    return answer(args, toolset) if answer else None


def unknown_tool(args: kinds.McpArgs, toolset: ClientToolset) -> Sequence[Message]:
    """Return the reply to an exec that calls a tool that was not offered to the model."""
    if args.provider_identifier.casefold() not in ("", PROVIDER):
        servers = [PROVIDER] if toolset.offer.specs else []
        missing = kinds.McpServerNotFound(name=args.provider_identifier, available_servers=servers)
        return [kinds.McpResult(server_not_found=missing)]
    names = [definition.name for definition in toolset.offer.definitions]
    unknown = kinds.McpToolNotFound(name=args.name or args.tool_name, available_tools=names)
    return [kinds.McpResult(tool_not_found=unknown)]


def _prechecked(result: Message) -> Callable[[Any, ClientToolset], Sequence[Message]]:
    """Return a handler that always replies with `result`.

    The handler is for execs that ask in advance whether a call is allowed. `result` is an empty message, which allows
    nothing: the client decides when its tool is called.
    """
    return lambda _args, _toolset: [result]


def _mcp_state(args: kinds.McpStateExecArgs, toolset: ClientToolset) -> Sequence[Message]:
    success = kinds.McpStateSuccess()
    is_wanted = not args.server_identifiers or PROVIDER in args.server_identifiers
    if toolset.offer.specs and is_wanted and not args.kick_only:
        instructions = McpInstructions(server_name=PROVIDER, instructions=INSTRUCTIONS, server_identifier=PROVIDER)
        server = kinds.McpStateServer(
            server_name=PROVIDER,
            server_identifier=PROVIDER,
            tools=toolset.offer.definitions,
            instructions=[instructions],
        )
        success.servers.append(server)
    return [kinds.McpStateExecResult(success=success)]


def _resources(args: kinds.ListMcpResourcesExecArgs, toolset: ClientToolset) -> Sequence[Message]:
    """Reply with an empty list of MCP resources, or with an error if the MCP server is unknown."""
    if args.server and not (args.server == PROVIDER and toolset.offer.specs):
        error = kinds.ListMcpResourcesError(error=f'Server "{args.server}" not found')
        return [kinds.ListMcpResourcesExecResult(error=error)]
    return [kinds.ListMcpResourcesExecResult(success=kinds.ListMcpResourcesSuccess())]


def _resource(args: kinds.ReadMcpResourceExecArgs, _: ClientToolset) -> Sequence[Message]:
    error = kinds.ReadMcpResourceError(uri=args.uri, error=f'Server "{args.server}" not found')
    return [kinds.ReadMcpResourceExecResult(error=error)]


def _subagent(args: kinds.SubagentArgs, toolset: ClientToolset) -> Sequence[Message]:
    tool = next(matching_tools("task", toolset.tools), None)
    if tool is None:
        reason = "This client has no subagents. Do the work yourself."
    else:
        reason = f"This client runs subagents by its own tool. Use `{toolset.offer.spell(tool.name)}` instead."
    return rejection("subagent_args", args, reason)


def _stdin(args: kinds.WriteShellStdinArgs, _: ClientToolset) -> Sequence[Message]:
    reason = f"Failed to write to shell {args.shell_id} stdin: Shell not found"
    return rejection("write_shell_stdin_args", args, reason)


def _words(capability: Capability) -> Callable[[Any, ClientToolset], Sequence[Message]]:
    """Return a handler for execs whose arguments are unknown to Tieline.

    The handler refuses the exec, and tells the model which of the client's tools, if any, to use instead: preferably
    one with this capability.
    """

    def answer(args: Any, toolset: ClientToolset) -> Sequence[Message]:
        tool = next(matching_tools(capability, toolset.tools), None)
        if tool is None:
            return rejection("pi_read_args", args, toolset.refusal(capability))
        return rejection("pi_read_args", args, f"Use `{toolset.offer.spell(tool.name)}` instead.")

    return answer


_ANSWERS: Mapping[str, Callable[[Any, ClientToolset], Sequence[Message]]] = {
    "shell_allowlist_precheck_args": _prechecked(exec_pb2.ShellAllowlistPrecheckResult()),
    "mcp_allowlist_precheck_args": _prechecked(kinds.McpAllowlistPrecheckResult()),
    "web_fetch_allowlist_precheck_args": _prechecked(kinds.WebFetchAllowlistPrecheckResult()),
    "mcp_state_exec_args": _mcp_state,
    "list_mcp_resources_exec_args": _resources,
    "read_mcp_resource_exec_args": _resource,
    "subagent_args": _subagent,
    "write_shell_stdin_args": _stdin,
    "subagent_await_args": lambda _args, _toolset: [kinds.SubagentAwaitResult(not_found=kinds.SubagentAwaitNotFound())],
    "force_background_shell_args": lambda _args, _toolset: [
        kinds.ForceBackgroundShellResult(status=FORCE_BACKGROUND_SHELL_STATUS_NOT_FOUND)
    ],
    "force_background_subagent_args": lambda _args, _toolset: [exec_pb2.ForceBackgroundSubagentResult(status=2)],
    "record_screen_args": lambda args, _toolset: rejection("record_screen_args", args, _NO_SCREEN),
    "computer_use_args": lambda args, _toolset: rejection("computer_use_args", args, _NO_COMPUTER),
    "pi_read_args": _words("read"),
    "pi_bash_args": _words("shell"),
    "pi_edit_args": _words("edit"),
    "pi_write_args": _words("write"),
    "pi_grep_args": _words("grep"),
    "pi_find_args": _words("glob"),
    "pi_ls_args": _words("list"),
}
