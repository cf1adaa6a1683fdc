"""Builds requests like those of coding agents: 16 tools, a long system prompt and a history of tool calls.

They have the form of Chat Completions or of Anthropic Messages.
"""

import json
from typing import Any

Json = dict[str, Any]

TURNS = 13
"""Turns in a request of 79 kB. A turn is an assistant message with one or two tool calls, and their results."""
LINES = 37
"""Minimum number of lines of a tool result."""
CONVERSATION = "conv-00000000"
"""The name of the conversation in its first message and its call ids. The load generator replaces the digits."""

_RULES = (
    "Prefer editing an existing file to creating a new one, and read a file before you change it.",
    "Never guess a path: list the directory or search for the name first, then act on what you found.",
    "When a command fails, read its whole output before you try again; do not repeat the same call unchanged.",
    'Quote paths that contain spaces, for example "My Documents/notes.txt", and avoid interactive commands.',
    "Run independent searches in parallel in one turn; run commands that depend on each other one after the other.",
    "Keep answers short. The user reads them in a terminal, so use plain text and at most one short list.",
    "Follow the conventions of the code around you: names, error handling, imports and the layout of its tests.",
    "Do not commit, push or publish anything unless the user asked for exactly that in this conversation.",
    "After a change, run the tests that cover it and say which ones you ran and what they printed.",
    "If the task is ambiguous, choose the simplest reading that satisfies the user's words and say what you assumed.",
)

# name, description, and parameters as (name, JSON type, description); the first parameter is required
_TOOLS: tuple[tuple[str, str, tuple[tuple[str, str, str], ...]], ...] = (
    (
        "read_file",
        "Reads a file of the workspace and returns its numbered lines.",
        (
            ("path", "string", "Absolute path of the file"),
            ("offset", "integer", "First line to return, from 1"),
            ("limit", "integer", "How many lines to return"),
        ),
    ),
    (
        "write_file",
        "Writes a file, replacing what it held before.",
        (("path", "string", "Absolute path of the file"), ("content", "string", "The complete new content")),
    ),
    (
        "edit_file",
        "Replaces one exact piece of text in a file by another.",
        (
            ("path", "string", "Absolute path of the file"),
            ("old_text", "string", "Text to find; must occur once"),
            ("new_text", "string", "Text to put in its place"),
            ("replace_all", "boolean", "Replace every occurrence"),
        ),
    ),
    (
        "run_command",
        "Runs a shell command in the workspace and returns its output and exit status.",
        (
            ("command", "string", "The command line"),
            ("timeout_ms", "integer", "Give up after this many milliseconds"),
            ("description", "string", "Five to ten words on what the command does"),
            ("background", "boolean", "Return at once and keep it running"),
        ),
    ),
    (
        "search_text",
        "Searches the files of the workspace for a regular expression.",
        (
            ("pattern", "string", "The regular expression"),
            ("path", "string", "Directory or file to search"),
            ("glob", "string", "Only files whose name matches, such as *.py"),
            ("output_mode", "string", "content, files_with_matches or count"),
            ("context", "integer", "Lines around a match"),
        ),
    ),
    (
        "find_files",
        "Finds files by a glob pattern, newest first.",
        (("pattern", "string", "A glob such as src/**/*.py"), ("path", "string", "Directory to start from")),
    ),
    (
        "list_directory",
        "Lists the entries of a directory with their sizes.",
        (("path", "string", "Absolute path of the directory"), ("ignore", "array", "Glob patterns to leave out")),
    ),
    (
        "fetch_page",
        "Fetches a web page and returns it as Markdown.",
        (("url", "string", "The address, https only"), ("prompt", "string", "What to look for in the page")),
    ),
    (
        "search_web",
        "Searches the web and returns titles, addresses and short excerpts.",
        (
            ("query", "string", "The search query"),
            ("allowed_domains", "array", "Only results from these domains"),
            ("blocked_domains", "array", "No results from these domains"),
        ),
    ),
    (
        "todo_write",
        "Replaces the list of open tasks that the user sees.",
        (("todos", "array", "The complete list, in order"),),
    ),
    (
        "notebook_edit",
        "Edits one cell of a notebook.",
        (
            ("path", "string", "Absolute path of the notebook"),
            ("cell_id", "string", "Which cell"),
            ("source", "string", "New source of the cell"),
            ("edit_mode", "string", "replace, insert or delete"),
        ),
    ),
    (
        "start_agent",
        "Starts a helper with its own context for a task that needs many searches.",
        (
            ("prompt", "string", "The task, complete in itself"),
            ("description", "string", "Three to five words"),
            ("agent_type", "string", "explore, plan or general"),
        ),
    ),
    (
        "git_diff",
        "Shows the changes of the working tree or between two commits.",
        (
            ("base", "string", "Commit to compare with"),
            ("paths", "array", "Only these paths"),
            ("stat", "boolean", "Only a summary per file"),
        ),
    ),
    (
        "git_log",
        "Shows the latest commits, optionally of one path.",
        (("path", "string", "Only commits that touch this path"), ("count", "integer", "How many commits")),
    ),
    (
        "ask_user",
        "Asks the user a question with a few answers to choose from.",
        (
            ("question", "string", "The question"),
            ("options", "array", "Two to four answers"),
            ("multiple", "boolean", "Whether several answers may be chosen"),
        ),
    ),
    (
        "kill_command",
        "Ends a command that runs in the background.",
        (("command_id", "string", "Identifier returned when it was started"),),
    ),
)

_CODE = (
    "def load_settings(path: Path) -> Settings:",
    '    """Reads settings from a file; a missing file means the defaults."""',
    "    if not path.exists():",
    "        return Settings()",
    '    data = tomllib.loads(path.read_text(encoding="utf-8"))',
    "    unknown = set(data) - {field.name for field in fields(Settings)}",
    "    if unknown:",
    "        raise SettingsError(f\"{path}: unknown keys: {', '.join(sorted(unknown))}\")",
    '    log.debug("settings read from %s (%d keys)", path, len(data))',
    "    return Settings(**data)",
    "",
    "",
    "class Worker:",
    "    def __init__(self, queue: Queue[Job], *, retries: int = 3) -> None:",
    "        self._queue = queue",
    "        self._retries = retries",
    "        self._seen: dict[str, float] = {}",
    "",
    "    async def run(self) -> None:",
    "        while (job := await self._queue.get()) is not None:",
    "            started = time.monotonic()",
    "            await self._attempt(job)",
    "            self._seen[job.key] = time.monotonic() - started  # für die Übersicht",
)


def _parameter(kind: str, description: str) -> Json:
    schema: Json = {"type": kind, "description": description}
    if kind == "array":
        schema["items"] = {
            "type": "object",
            "properties": {
                "id": {"type": "string", "minLength": 1, "description": "Stable identifier of the entry"},
                "content": {"type": "string", "minLength": 1, "description": "Text of the entry, in the imperative"},
                "status": {"type": "string", "enum": ["pending", "in_progress", "completed"]},
            },
            "required": ["content", "status"],
            "additionalProperties": False,
        }
    elif kind == "integer":
        schema.update(minimum=0, maximum=600_000, default=0)
    elif kind == "boolean":
        schema["default"] = False
    return schema


def _tool(index: int) -> Json:
    name, summary, parameters = _TOOLS[index]
    advice = " ".join(_RULES[(index * 3 + step) % len(_RULES)] for step in range(7))
    return {
        "type": "function",
        "function": {
            "name": name,
            "description": f"{summary}\n\nUsage:\n{advice}",
            "parameters": {
                "$schema": "http://json-schema.org/draft-07/schema#",
                "type": "object",
                "properties": {key: _parameter(kind, text) for key, kind, text in parameters},
                "required": [parameters[0][0]],
                "additionalProperties": False,
            },
        },
    }


def _system_prompt() -> str:
    parts = ["You are a coding agent that works in the user's terminal. Use the tools to do what the user asks."]
    for section in range(12):
        lines = [f"- {_RULES[(section + step) % len(_RULES)]}" for step in range(8)]
        parts.append(f"# Section {section + 1}\n" + "\n".join(lines))
    return "\n\n".join(parts)


def _listing(turn: int, call: int, lines: int) -> str:
    count = lines + (turn * 7 + call * 5) % 12
    first = 1 + turn * 40
    return "\n".join(f"{first + n:>5}\t{_CODE[(turn * 5 + call * 3 + n) % len(_CODE)]}" for n in range(count))


def _call(turn: int, call: int) -> Json:
    path = f"/home/user/project/src/app/module_{turn:02d}.py"
    choices: tuple[tuple[str, Json], ...] = (
        ("read_file", {"path": path, "offset": 1 + turn * 40, "limit": 40}),
        ("search_text", {"pattern": rf"def load_\w+\(.*turn_{turn}", "path": "/home/user/project/src", "glob": "*.py"}),
        (
            "run_command",
            {
                "command": f"python -m pytest -q tests/test_module_{turn:02d}.py 2>&1 | tail -n 20",
                "description": "Run the tests of one module",
            },
        ),
        ("edit_file", {"path": path, "old_text": "\n".join(_CODE[2:7]), "new_text": "\n".join(_CODE[12:19])}),
    )
    name, arguments = choices[(turn + call) % len(choices)]
    return {
        "id": f"toolu_{CONVERSATION}_{turn:02d}{call}",
        "type": "function",
        "function": {"name": name, "arguments": json.dumps(arguments)},
    }


def _history(turns: int, lines: int) -> list[Json]:
    question = "Settings with a wrong key are silently accepted. Find out why, fix it, add a test."
    messages: list[Json] = [
        {"role": "system", "content": _system_prompt()},
        {"role": "user", "content": f"Task {CONVERSATION}: {question}"},
    ]
    for turn in range(turns):
        calls = [_call(turn, call) for call in range(1 + turn % 2)]
        text = f"Step {turn + 1}: {_RULES[turn % len(_RULES)]}" if turn % 3 else None
        messages.append({"role": "assistant", "content": text, "tool_calls": calls})
        for number, call in enumerate(calls):
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": _listing(turn, number, lines)})
        if turn % 5 == 4:
            messages.append({"role": "assistant", "content": "The first half is done; the loader was the cause."})
            messages.append({"role": "user", "content": "Good. Go on, and keep the old behaviour for missing files."})
    return messages


def chat_request(model: str, turns: int = TURNS, lines: int = LINES) -> Json:
    """Return a streamed Chat Completions request. A request with more turns extends one with fewer turns."""
    return {
        "model": model,
        "max_tokens": 4096,
        "stream": True,
        "messages": _history(turns, lines),
        "tools": [_tool(index) for index in range(len(_TOOLS))],
        "tool_choice": "auto",
    }


def messages_request(model: str, turns: int = TURNS, lines: int = LINES) -> Json:
    """Return the request of `chat_request` in the form of Anthropic Messages.

    As in Claude Code's requests, `cache_control` is set on the system prompt and on the last block, so it moves to
    another block with every turn.
    """
    system, *history = _history(turns, lines)
    messages: list[Json] = []
    for message in history:
        role, blocks = _message_blocks(message)
        if messages and messages[-1]["role"] == role:
            messages[-1]["content"] += blocks
        else:
            messages.append({"role": role, "content": blocks})
    messages[-1]["content"][-1]["cache_control"] = {"type": "ephemeral"}
    return {
        "model": model,
        "max_tokens": 4096,
        "stream": True,
        "system": [{"type": "text", "text": system["content"], "cache_control": {"type": "ephemeral"}}],
        "messages": messages,
        "tools": [_messages_tool(index) for index in range(len(_TOOLS))],
        "tool_choice": {"type": "auto"},
    }


def _messages_tool(index: int) -> Json:
    function = _tool(index)["function"]
    return {
        "name": function["name"],
        "description": function["description"],
        "input_schema": function["parameters"],
    }


def _message_blocks(message: Json) -> tuple[str, list[Json]]:
    """Return the role and the content blocks in Anthropic Messages for a Chat Completions message."""
    if message["role"] == "tool":
        result = {"type": "tool_result", "tool_use_id": message["tool_call_id"], "content": message["content"]}
        return "user", [result]
    blocks: list[Json] = [{"type": "text", "text": message["content"]}] if message["content"] else []
    for call in message.get("tool_calls", ()):
        function = call["function"]
        arguments = json.loads(function["arguments"])
        blocks.append({"type": "tool_use", "id": call["id"], "name": function["name"], "input": arguments})
    return message["role"], blocks


if __name__ == "__main__":
    print(json.dumps(chat_request("bench/claude-bench"), ensure_ascii=False, separators=(",", ":")))
