"""Tools that OpenAI defines and the client runs: shells, patches and tool search.

A request refers to such a tool by its type, usually without a schema. This module supplies the description and the
schema for upstreams that use other protocols. Calls to such a tool, and their outputs, are items of special types. This
module converts a call item to the arguments of an ordinary call and back, and an output item to the text of a result
and back.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from tieline.wire.openai_responses.names import flat_name
from tieline.wire.shared.json import decode_any, encode

_TEXT = {"type": "string"}
_TIMEOUT = {"type": "integer", "description": "The timeout in milliseconds."}


class ClientToolType(NamedTuple):
    """The description of one type of tool, and the form of its call and output items."""

    call: str
    """The item type of a call."""
    output: str
    """The item type of the call's output."""
    prefix: str
    """The prefix of a call's item id."""
    field: str
    """The member of a call item that holds the arguments."""
    description: str
    schema: Mapping[str, Any]
    complete: Callable[[dict[str, Any]], dict[str, Any]]
    """Converts the arguments that a model wrote to the value of the member `field`, with all members that clients
    require."""


def _object(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": [*required]}


def _exec(arguments: dict[str, Any]) -> dict[str, Any]:
    command = arguments.get("command", [])
    if isinstance(command, str):
        command = ["bash", "-lc", command]
    return {**arguments, "type": "exec", "command": command, "env": arguments.get("env") or {}}


def _commands(arguments: dict[str, Any]) -> dict[str, Any]:
    commands = arguments.get("commands", [])
    return {**arguments, "commands": [commands] if isinstance(commands, str) else commands}


def _unchanged(arguments: dict[str, Any]) -> dict[str, Any]:
    return arguments


CLIENT_TOOLS: dict[str, ClientToolType] = {
    "local_shell": ClientToolType(
        call="local_shell_call",
        output="local_shell_call_output",
        prefix="lsh_",
        field="action",
        description="Run a command on the user's computer.",
        schema=_object(
            {
                "command": {"type": "array", "items": _TEXT, "description": "The program and its arguments."},
                "working_directory": {**_TEXT, "description": "The directory to run the command in."},
                "timeout_ms": _TIMEOUT,
                "env": {"type": "object", "additionalProperties": _TEXT, "description": "Environment variables."},
            },
            "command",
        ),
        complete=_exec,
    ),
    "shell": ClientToolType(
        call="shell_call",
        output="shell_call_output",
        prefix="sh_",
        field="action",
        description="Run shell commands on the user's computer.",
        schema=_object(
            {
                "commands": {"type": "array", "items": _TEXT, "description": "The commands, run in this order."},
                "timeout_ms": _TIMEOUT,
                "max_output_length": {"type": "integer", "description": "The most characters of output to return."},
            },
            "commands",
        ),
        complete=_commands,
    ),
    "apply_patch": ClientToolType(
        call="apply_patch_call",
        output="apply_patch_call_output",
        prefix="apc_",
        field="operation",
        description="Create, change or delete one file.",
        schema=_object(
            {
                "type": {"type": "string", "enum": ["create_file", "update_file", "delete_file"]},
                "path": {**_TEXT, "description": "The path of the file."},
                "diff": {
                    **_TEXT,
                    "description": (
                        "`create_file`: the lines of the new file, each after a `+`. `update_file`: a V4A diff, which "
                        "has `@@` before each change, ` ` before lines of context, `-` before removed and `+` before "
                        "added lines."
                    ),
                },
            },
            "type",
            "path",
        ),
        complete=_unchanged,
    ),
    "tool_search": ClientToolType(
        call="tool_search_call",
        output="tool_search_output",
        prefix="tsc_",
        field="arguments",
        description="Search for tools that are not offered yet. Tools that are found can be called afterwards.",
        schema=_object(
            {
                "query": {**_TEXT, "description": "What the tool should be able to do."},
                "limit": {"type": "integer", "description": "The most tools to return."},
            },
            "query",
        ),
        complete=_unchanged,
    ),
}

CALLS = {tool.call: kind for kind, tool in CLIENT_TOOLS.items()}
"""Maps the item type of a call to the type of the called tool."""
OUTPUTS = {tool.output: kind for kind, tool in CLIENT_TOOLS.items()}
"""Maps the item type of an output to the type of the tool that was called."""


def is_client_run(kind: str, tool: Mapping[str, Any]) -> bool:
    """Return whether the client runs this tool; `kind` is its type.

    A shell in a container is run by the upstream. So is the tool search, unless its definition says otherwise.
    """
    if kind == "tool_search":
        return tool.get("execution") == "client"
    if kind == "shell":
        environment = tool.get("environment")
        return not environment or (isinstance(environment, dict) and environment.get("type") == "local")
    return kind in CLIENT_TOOLS


def described(kind: str, tool: Mapping[str, Any]) -> tuple[str, bytes]:
    """Return the description and the schema of a tool that the client runs: those in `tool`, or else the defaults."""
    known = CLIENT_TOOLS[kind]
    schema = tool.get("parameters")
    return tool.get("description") or known.description, encode(schema if isinstance(schema, dict) else known.schema)


# ── Calls ────────────────────────────────────────────────────────────────────────────────────────


def arguments_of(kind: str, fields: object) -> str:
    """Return the arguments of a call as JSON text. `fields` is the member of the call item that holds them."""
    if not isinstance(fields, dict):
        return fields if isinstance(fields, str) and fields else "{}"
    if kind == "local_shell":
        fields = {name: value for name, value in fields.items() if name != "type" and value not in (None, {})}
    return encode(fields).decode()


def call_item(kind: str, item_id: str, call_id: str, arguments: str, status: str = "completed") -> dict[str, Any]:
    """Return the item for a call to a tool of type `kind`."""
    tool = CLIENT_TOOLS[kind]
    item = {"id": item_id, "type": tool.call, "call_id": call_id, "status": status}
    if kind == "tool_search":
        item["execution"] = "client"
    return {**item, tool.field: tool.complete(_decoded(arguments))}


def _decoded(arguments: str) -> dict[str, Any]:
    try:
        value = decode_any(arguments)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


# ── Outputs ──────────────────────────────────────────────────────────────────────────────────────


def output_text(kind: str, item: Mapping[str, Any]) -> tuple[str, bool]:
    """Return the result of a call as text, and whether the call failed. `item` is the output item."""
    output = item.get("output")
    match kind:
        case "shell" if isinstance(output, list):
            texts = [_shell_text(part) for part in output if isinstance(part, dict)]
            return "\n".join(text for text, _ in texts), any(failed for _, failed in texts)
        case "apply_patch":
            failed = item.get("status") == "failed"
            return _text(output) or ("The patch could not be applied." if failed else "Done."), failed
        case "tool_search":
            names = _found_names(item.get("tools"))
            return ("Found: " + ", ".join(names) if names else "No tools were found."), False
        case _:
            return _text(output), item.get("status") in ("incomplete", "failed")


def output_item(kind: str, call_id: str, text: str, failed: bool) -> dict[str, Any]:
    """Return the output item for a call. `text` is the result of the call."""
    item: dict[str, Any] = {"type": CLIENT_TOOLS[kind].output, "call_id": call_id}
    match kind:
        case "shell":
            outcome = {"type": "exit", "exit_code": int(failed)}
            return {**item, "output": [{"stdout": text, "stderr": "", "outcome": outcome}]}
        case "apply_patch":
            return {**item, "status": "failed" if failed else "completed", "output": text}
        case "tool_search":
            return {**item, "execution": "client", "status": "completed", "tools": []}
        case _:
            return {**item, "output": text}


def _found_names(tools: object, namespace: str | None = None) -> list[str]:
    """Return the flat names (see `names`) of all tools in a list of definitions, including those in namespaces."""
    names = []
    for tool in tools if isinstance(tools, list) else []:
        match tool:
            case {"type": "namespace", "name": str(name), "tools": list(members)}:
                names += _found_names(members, name)
            case {"name": str(name)}:
                names.append(flat_name(namespace, name))
            case _:
                pass
    return names


def _shell_text(part: Mapping[str, Any]) -> tuple[str, bool]:
    lines = [_text(part.get(name)).rstrip("\n") for name in ("stdout", "stderr")]
    match part.get("outcome"):
        case {"type": "timeout"}:
            lines.append("[timed out]")
            failed = True
        case {"type": "exit", "exit_code": int(code)} if code:
            lines.append(f"[exit code {code}]")
            failed = True
        case _:
            failed = False
    return "\n".join(line for line in lines if line), failed


def _text(value: object) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else encode(value).decode()
