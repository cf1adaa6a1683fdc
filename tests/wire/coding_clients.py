"""The tools of coding clients as they offer them: names, properties and what they say about units and paths."""

import json
from typing import Any

from tieline.model.request import ToolSpec

STRING: dict[str, Any] = {"type": "string"}
NUMBER: dict[str, Any] = {"type": "number"}
INTEGER: dict[str, Any] = {"type": "integer"}
BOOLEAN: dict[str, Any] = {"type": "boolean"}
STRINGS: dict[str, Any] = {"type": "array", "items": STRING}
ABSOLUTE: dict[str, Any] = {"type": "string", "description": "The absolute path to the file"}


def said(schema: dict[str, Any], description: str) -> dict[str, Any]:
    """The schema with a description."""
    return {**schema, "description": description}


def tool(name: str, required: dict[str, Any], optional: dict[str, Any] | None = None, about: str = "") -> ToolSpec:
    """A tool with these properties."""
    schema = {"type": "object", "properties": {**required, **(optional or {})}, "required": list(required)}
    return ToolSpec(name=name, description=about, schema=json.dumps(schema).encode())


MODES = {"type": "string", "enum": ["content", "files_with_matches", "count"]}

CLAUDE_CODE = (
    tool("Task", {"description": STRING, "prompt": STRING, "subagent_type": STRING}),
    tool(
        "Bash",
        {"command": STRING},
        {
            "timeout": said(NUMBER, "Optional timeout in milliseconds (max 600000)"),
            "description": STRING,
            "run_in_background": BOOLEAN,
        },
    ),
    tool("Glob", {"pattern": STRING}, {"path": STRING}),
    tool(
        "Grep",
        {"pattern": STRING},
        {
            "path": STRING,
            "glob": STRING,
            "output_mode": MODES,
            "-B": NUMBER,
            "-A": NUMBER,
            "-C": NUMBER,
            "-n": BOOLEAN,
            "-i": BOOLEAN,
            "type": STRING,
            "head_limit": NUMBER,
            "multiline": BOOLEAN,
        },
    ),
    tool("LS", {"path": said(STRING, "The absolute path to the directory to list")}, {"ignore": STRINGS}),
    tool(
        "Read",
        {"file_path": ABSOLUTE},
        {"offset": said(NUMBER, "The line number to start reading from"), "limit": NUMBER},
        about="Reads a file. This tool can only read files, not directories.",
    ),
    tool("Edit", {"file_path": ABSOLUTE, "old_string": STRING, "new_string": STRING}),
    tool("Write", {"file_path": ABSOLUTE, "content": STRING}),
    tool("WebFetch", {"url": {"type": "string", "format": "uri"}, "prompt": STRING}),
    tool("mcp__ide__getDiagnostics", {}, {"uri": STRING}),
    tool("ListMcpResourcesTool", {}, {"server": STRING}),
    tool("ReadMcpResourceTool", {"server": STRING, "uri": STRING}),
)
OPENCODE = (
    tool(
        "bash",
        {"command": STRING, "description": said(STRING, "What this command does in 5-10 words")},
        {
            "timeout": said(NUMBER, "Optional timeout in milliseconds"),
            "workdir": said(STRING, "The working directory to run the command in"),
        },
    ),
    tool("edit", {"filePath": ABSOLUTE, "oldString": STRING, "newString": STRING}, {"replaceAll": BOOLEAN}),
    tool("glob", {"pattern": STRING}, {"path": STRING}),
    tool("grep", {"pattern": STRING}, {"path": STRING, "include": STRING}),
    tool("list", {}, {"path": STRING, "ignore": STRINGS}),
    tool(
        "read",
        {"filePath": said(STRING, "The absolute path to the file or directory to read")},
        {"offset": said(NUMBER, "The line number to start from (1-indexed)"), "limit": NUMBER},
        about="Read a file or directory from the local filesystem.",
    ),
    tool("task", {"description": STRING, "prompt": STRING, "subagent_type": STRING}),
    tool("webfetch", {"url": STRING, "format": {"type": "string", "enum": ["text", "markdown", "html"]}}),
    tool("write", {"content": STRING, "filePath": ABSOLUTE}),
)
CODEX = (
    tool(
        "exec_command",
        {"cmd": STRING},
        {"workdir": STRING, "yield_time_ms": NUMBER, "max_output_tokens": NUMBER, "justification": STRING},
    ),
    tool("write_stdin", {"session_id": NUMBER}, {"chars": STRING, "yield_time_ms": NUMBER}),
)
OLD_CODEX = (
    tool("shell", {"command": STRINGS}, {"workdir": STRING, "timeout_ms": said(NUMBER, "The timeout of the command")}),
)
CLINE = (
    tool(
        "execute_command", {"command": STRING, "requires_approval": BOOLEAN}, {"timeout": said(INTEGER, "In seconds")}
    ),
    tool(
        "read_files",
        {
            "files": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"path": STRING, "start_line": INTEGER, "end_line": INTEGER},
                    "required": ["path"],
                },
            }
        },
    ),
    tool("write_to_file", {"path": STRING, "content": STRING, "line_count": INTEGER}),
    tool("search_files", {"path": STRING, "regex": STRING}, {"file_pattern": STRING}),
    tool("list_files", {"path": STRING}, {"recursive": BOOLEAN}),
)
CURSOR_LIKE = (
    tool("run_terminal_cmd", {"command": STRING, "is_background": BOOLEAN}, {"explanation": STRING}),
    tool(
        "read_file",
        {"target_file": STRING},
        {"offset": said(INTEGER, "The line to start from, 0-based"), "limit": INTEGER},
    ),
    tool("list_dir", {"target_directory": STRING}, {"ignore_globs": STRINGS}),
    tool("glob_file_search", {"glob_pattern": STRING}, {"target_directory": STRING}),
    tool("grep", {"pattern": STRING}, {"path": STRING, "output_mode": MODES, "case_sensitive": BOOLEAN}),
    tool("write", {"file_path": STRING, "contents": STRING}),
    tool("delete_file", {"target_file": STRING, "explanation": STRING}),
    tool("read_lints", {"paths": STRINGS}),
)
PI = (
    tool("bash", {"command": STRING}, {"timeout": said(NUMBER, "Timeout in seconds (optional)")}),
    tool("read", {"path": STRING}, {"offset": NUMBER, "limit": NUMBER}),
    tool("write", {"path": STRING, "content": STRING}),
    tool("grep", {"pattern": STRING}, {"path": STRING, "glob": STRING, "ignoreCase": BOOLEAN, "limit": NUMBER}),
    tool("find", {"pattern": STRING}, {"path": STRING}),
    tool("ls", {}, {"path": STRING}),
)
EDITOR = (
    tool(
        "str_replace_based_edit_tool",
        {"command": {"type": "string", "enum": ["view", "create", "str_replace", "insert"]}, "path": STRING},
        {
            "file_text": STRING,
            "old_str": STRING,
            "new_str": STRING,
            "view_range": {"type": "array", "items": INTEGER},
        },
    ),
)
COPILOT_LIKE = (
    tool("run_in_terminal", {"command": STRING, "explanation": STRING, "isBackground": BOOLEAN}),
    tool("read_file", {"filePath": STRING, "startLine": NUMBER, "endLine": NUMBER}),
    tool("grep_search", {"query": STRING, "isRegexp": BOOLEAN}, {"includePattern": STRING, "maxResults": NUMBER}),
    tool("get_errors", {"filePaths": STRINGS}),
    tool("fetch_webpage", {"urls": STRINGS, "query": STRING}),
)
WEATHER = (tool("get_weather", {"city": STRING}),)
