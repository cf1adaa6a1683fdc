"""Cursor's built-in tools for files and shell. The client runs them, although it does not list them as its tools.

To run a call, the server sends the client an exec request, which has its own type for each tool. An edit takes two
requests: one to read the file, one to write it. Cursor's models always have these tools. The demo model has them if the
client identifies as one of Cursor's own clients, or if the settings enable them for all clients.
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from tieline.model.content import Text, ToolCall, ToolResult
from tieline.model.request import ToolSpec
from tieline.sim.cursor.exec_results import to_tool_result
from tieline.sim.cursor.http_exchange import RequestHead
from tieline.sim.cursor.server_run import ServerRun
from tieline.sim.cursor.steps import Routine
from tieline.wire.cursor._pb import exec_kinds_pb2 as kinds
from tieline.wire.cursor._pb import exec_pb2
from tieline.wire.cursor._pb import tool_calls_pb2 as shown
from tieline.wire.cursor.protobuf_json import to_value

Exec = exec_pb2.ExecServerMessage
Arguments = Mapping[str, str]


def _read(given: Arguments, call_id: str) -> Exec:
    return Exec(read_args=kinds.ReadArgs(path=given["path"], tool_call_id=call_id))


def _write(given: Arguments, call_id: str) -> Exec:
    args = kinds.WriteArgs(path=given["path"], file_text=given["content"], tool_call_id=call_id)
    return Exec(write_args=args)


def _shell(given: Arguments, call_id: str) -> Exec:
    return Exec(shell_stream_args=kinds.ShellArgs(command=given["command"], timeout=30_000, tool_call_id=call_id))


def _ls(given: Arguments, call_id: str) -> Exec:
    return Exec(ls_args=kinds.LsArgs(path=given["path"], tool_call_id=call_id))


def _grep(given: Arguments, call_id: str) -> Exec:
    args = kinds.GrepArgs(pattern=given["pattern"], output_mode="content", tool_call_id=call_id)
    if given["path"]:
        args.path = given["path"]
    return Exec(grep_args=args)


def _glob(given: Arguments, call_id: str) -> Exec:
    # There is no exec request for glob: the service searches for any content and requests only the file names.
    args = kinds.GrepArgs(pattern=".", glob=given["pattern"], output_mode="files_with_matches", tool_call_id=call_id)
    return Exec(grep_args=args)


def _delete(given: Arguments, call_id: str) -> Exec:
    return Exec(delete_args=kinds.DeleteArgs(path=given["path"], tool_call_id=call_id))


def _fetch(given: Arguments, call_id: str) -> Exec:
    return Exec(fetch_args=kinds.FetchArgs(url=given["url"], tool_call_id=call_id))


_TOOLS: Mapping[str, tuple[tuple[str, ...], Callable[[Arguments, str], Exec]]] = {
    "read": (("path",), _read),
    "write": (("path", "content"), _write),
    "shell": (("command",), _shell),
    "ls": (("path",), _ls),
    "grep": (("pattern", "path"), _grep),
    "glob": (("pattern",), _glob),
    "delete": (("path",), _delete),
    "fetch": (("url",), _fetch),
    "edit": (("path", "old_string", "new_string"), _read),
}
_OPTIONAL = {"grep": ("path",)}


def specs() -> tuple[ToolSpec, ...]:
    """Return the specs of the built-in tools for the demo model."""
    return tuple(ToolSpec(name=name, schema=_schema(name, properties)) for name, (properties, _) in _TOOLS.items())


ALL = frozenset(_TOOLS)
_CLIENTS = ("sdk", "ide")
_RECORDS = {"write": "edit_tool_call"}
"""Maps tools to their names in request headers, if these do not have the usual form `NAME_tool_call`."""


def native_tools_of(head: RequestHead, setting: bool | None) -> frozenset[str]:
    """Return the names of the built-in tools that the model may use with a client.

    `setting` enables or disables them for all clients. If it is None, they are enabled for Cursor's own clients only.
    Request headers can exclude some tools.
    """
    is_native = head.header("x-cursor-client-type") in _CLIENTS if setting is None else setting
    fields = dict(head.headers)
    allowed, excluded = (fields.get(f"x-cursor-agent-{which}-tools") for which in ("allowed", "exclude"))
    records = {name: _RECORDS.get(name, f"{name}_tool_call") for name in (ALL if is_native else ())}
    return frozenset(
        name
        for name, record in records.items()
        if (allowed is None or record in allowed.split(",")) and record not in (excluded or "").split(",")
    )


def display(call: ToolCall) -> shown.ToolCall:
    """Return the description of a tool call for clients to display."""
    given = _given(call)
    match call.name:
        case "read":
            return shown.ToolCall(read_tool_call=shown.ReadToolCall(args=shown.ReadToolArgs(path=given["path"])))
        case "write" | "edit":
            return shown.ToolCall(edit_tool_call=shown.EditToolCall(args=shown.EditArgs(path=given["path"])))
        case "shell":
            return shown.ToolCall(shell_tool_call=shown.ShellToolCall(args=_exec(call).shell_stream_args))
        case "ls":
            return shown.ToolCall(ls_tool_call=shown.LsToolCall(args=_exec(call).ls_args))
        case "grep":
            return shown.ToolCall(grep_tool_call=shown.GrepToolCall(args=_exec(call).grep_args))
        case "glob":
            args = shown.GlobToolArgs(glob_pattern=given["pattern"])
            return shown.ToolCall(glob_tool_call=shown.GlobToolCall(args=args))
        case "delete":
            return shown.ToolCall(delete_tool_call=shown.DeleteToolCall(args=_exec(call).delete_args))
        case "fetch":
            return shown.ToolCall(fetch_tool_call=shown.FetchToolCall(args=_exec(call).fetch_args))
        case _:
            other = kinds.McpArgs(name=call.name, args={name: to_value(value) for name, value in given.items()})
            return shown.ToolCall(mcp_tool_call=shown.McpToolCall(args=other))


def perform(run: ServerRun, call: ToolCall) -> Routine[ToolResult]:
    """Let the client run a call to a built-in tool, and return the result."""
    first = yield from execute(run, call.id, _exec(call))
    if call.name != "edit" or (first.is_error and "not found" not in _text(first)):
        return first
    given = _given(call)
    before = "" if first.is_error else _text(first)
    after = before.replace(given["old_string"], given["new_string"]) if before else given["new_string"]
    written = yield from execute(run, call.id, _write({"path": given["path"], "content": after}, call.id))
    return written


def execute(run: ServerRun, call_id: str, message: Exec) -> Routine[ToolResult]:
    """Ask the client to run one tool, and return its result as the result of the tool call `call_id`."""
    send = run.ask_exec(message)
    number = message.id
    yield send
    yield from run.wait(lambda: run.is_answered(number), f"exec {number}")
    return to_tool_result(call_id, run.results.get(number, ()), run.throws.get(number))


def _exec(call: ToolCall) -> Exec:
    return _TOOLS[call.name][1](_given(call), call.id)


def _given(call: ToolCall) -> Arguments:
    """Return the arguments of a call as strings. A missing argument is an empty string."""
    try:
        decoded: Any = msgspec.json.decode(call.arguments or "{}")
    except msgspec.DecodeError:
        decoded = {}
    found = decoded if isinstance(decoded, dict) else {}
    return {name: str(found.get(name) or "") for name in _TOOLS.get(call.name, ((), _read))[0]}


def _schema(name: str, properties: tuple[str, ...]) -> bytes:
    required = [one for one in properties if one not in _OPTIONAL.get(name, ())]
    schema = {"type": "object", "properties": {one: {"type": "string"} for one in properties}, "required": required}
    return msgspec.json.encode(schema)


def _text(result: ToolResult) -> str:
    return "".join(part.text for part in result.content if isinstance(part, Text))
