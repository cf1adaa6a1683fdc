"""Which of a client's tools does what, and with which arguments."""

import json
from typing import Any

import pytest

from tests.each import each
from tests.wire.coding_clients import (
    BOOLEAN,
    CLAUDE_CODE,
    CLINE,
    CODEX,
    COPILOT_LIKE,
    CURSOR_LIKE,
    EDITOR,
    INTEGER,
    NUMBER,
    OLD_CODEX,
    OPENCODE,
    PI,
    STRING,
    STRINGS,
    WEATHER,
    said,
    tool,
)
from tieline.model.request import ToolSpec
from tieline.wire.shared.capabilities import (
    Capability,
    FittedCall,
    Role,
    Wanted,
    client_tools,
    fit_call,
    matching_tools,
)


def fitted(
    capability: Capability, tools: tuple[ToolSpec, ...], must: dict[Role, Any], **more: Any
) -> FittedCall | None:
    return fit_call(capability, client_tools(tools), Wanted(must=must, **more))


def arguments(capability: Capability, tools: tuple[ToolSpec, ...], must: dict[Role, Any], **more: Any) -> Any:
    found = fitted(capability, tools, must, **more)
    return found and found.arguments


NAMES: list[tuple[Capability, str]] = [
    ("shell", "Bash"),
    ("shell", "run_terminal"),
    ("shell", "local_shell"),
    ("shell", "exec"),
    ("read", "Read"),
    ("read", "view"),
    ("write", "create_file"),
    ("delete", "deleteFile"),
    ("list", "LS"),
    ("grep", "searchText"),
    ("glob", "file_search"),
    ("fetch", "WebFetch"),
    ("diagnostics", "mcp__ide__getDiagnostics"),
    ("task", "Task"),
    ("read", "mcp__filesystem__read_file"),
    ("shell", "functions.exec_command"),
    ("shell", "my_execute_command_tool"),
]


@each(("capability", "name"), NAMES, ids=str)
def test_a_tool_is_known_by_any_of_its_usual_names(capability: Capability, name: str) -> None:
    tools = client_tools([*WEATHER, tool(name, {})])
    assert [found.name for found in matching_tools(capability, tools)] == [name]


@pytest.mark.parametrize(
    ("capability", "name"),
    [
        ("grep", "mcp__chat__search"),
        ("shell", "mcp__db__execute"),
        ("shell", "execute_python"),
        ("write", "todowrite"),
        ("read", "read_mcp_resource"),
        ("delete", "mcp__mail__delete"),
        ("grep", "codebase_search"),
    ],
    ids=str,
)
def test_a_tool_that_merely_sounds_like_it_is_left_alone(capability: Capability, name: str) -> None:
    assert not list(matching_tools(capability, client_tools([tool(name, {"query": STRING})])))


def test_a_tool_of_the_client_itself_comes_before_one_of_a_server() -> None:
    tools = client_tools([tool("mcp__fs__read_file", {"path": STRING}), tool("read_file", {"path": STRING})])
    assert [found.name for found in matching_tools("read", tools)] == ["read_file", "mcp__fs__read_file"]


def test_what_the_upstream_runs_or_takes_raw_text_is_no_tool_for_this() -> None:
    specs = [ToolSpec(name="shell", freeform=True), ToolSpec(name="bash", hosted="bash_20250124")]
    assert not list(matching_tools("shell", client_tools(specs)))


PATHS = [
    (CLAUDE_CODE, {"file_path": "/p/a.txt"}),
    (OPENCODE, {"filePath": "/p/a.txt"}),
    (CURSOR_LIKE, {"target_file": "/p/a.txt"}),
    (CLINE, {"files": [{"path": "/p/a.txt"}]}),
    (PI, {"path": "/p/a.txt"}),
    (EDITOR, {"command": "view", "path": "/p/a.txt"}),
]


@pytest.mark.parametrize(("tools", "expected"), PATHS, ids=lambda value: str(value)[:40])
def test_a_path_goes_where_the_schema_wants_it(tools: tuple[ToolSpec, ...], expected: dict[str, Any]) -> None:
    assert arguments("read", tools, {"path": "/p/a.txt"}) == expected


def test_a_relative_path_is_made_absolute_for_tools_that_want_that() -> None:
    assert arguments("read", OPENCODE, {"path": "./a.txt"}, directory="/p") == {"filePath": "/p/a.txt"}
    assert arguments("read", PI, {"path": "./a.txt"}, directory="/p") == {"path": "./a.txt"}
    assert arguments("list", CLAUDE_CODE, {"path": "."}, directory="/p/") == {"path": "/p/"}


def test_a_path_is_an_address_where_one_is_wanted() -> None:
    assert arguments("diagnostics", CLAUDE_CODE, {"path": "/p/a.py"}) == {"uri": "file:///p/a.py"}
    assert arguments("diagnostics", CURSOR_LIKE, {"path": "/p/a.py"}) == {"paths": ["/p/a.py"]}


@pytest.mark.parametrize(
    ("tools", "expected"),
    [
        (CLAUDE_CODE, {"command": "ls"}),
        (OPENCODE, {"command": "ls", "description": "Run ls"}),
        (CODEX, {"cmd": "ls"}),
        (OLD_CODEX, {"command": ["bash", "-lc", "ls"]}),
        (CLINE, {"command": "ls", "requires_approval": True}),
        (CURSOR_LIKE, {"command": "ls", "is_background": False}),
        (COPILOT_LIKE, {"command": "ls", "explanation": "Run ls", "isBackground": False}),
        ((tool("run_commands", {"commands": STRINGS}),), {"commands": ["ls"]}),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_command_is_text_or_a_list_and_what_else_is_required_is_filled(
    tools: tuple[ToolSpec, ...], expected: dict[str, Any]
) -> None:
    assert arguments("shell", tools, {"command": "ls"}, phrase="Run ls") == expected


def test_a_tool_that_demands_what_nobody_knows_does_not_fit() -> None:
    picky = tool("read_file", {"path": STRING, "owner": STRING})
    assert fitted("read", (picky,), {"path": "a"}) is None
    second = fitted("read", (picky, tool("view", {"path": STRING})), {"path": "a"})
    assert second is not None
    assert second.tool.name == "view"
    assert fitted("read", (tool("read", {"id": STRING}),), {"path": "a"}) is None
    assert fitted("read", (tool("read", {"path": STRING, "mode": {"enum": ["a", "b"]}}),), {"path": "a"}) is None


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": ["integer", "null"]}, None),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, None),
        ({"enum": ["a", "b"], "default": "b"}, "b"),
        ({"const": 1}, 1),
        (BOOLEAN, False),
        (STRINGS, []),
    ],
    ids=str,
)
def test_what_is_safe_to_say_is_said(schema: dict[str, Any], value: object) -> None:
    assert arguments("read", (tool("read", {"path": STRING, "more": schema}),), {"path": "a"}) == {
        "path": "a",
        "more": value,
    }


def test_what_may_be_said_is_said_only_where_there_is_a_place_for_it() -> None:
    may = {"start": 5, "count": 3, "end": 7, "range": [5, 7]}
    found = fitted("read", CLAUDE_CODE, {"path": "/a"}, may=may)
    assert found is not None
    assert found.arguments == {"file_path": "/a", "offset": 5, "limit": 3}
    assert found.placed == {"path", "start", "count"}
    assert arguments("read", CURSOR_LIKE, {"path": "/a"}, may=may) == {"target_file": "/a", "offset": 4, "limit": 3}
    assert arguments("read", CLINE, {"path": "/a"}, may=may) == {
        "files": [{"path": "/a", "start_line": 5, "end_line": 7}]
    }
    assert arguments("read", EDITOR, {"path": "/a"}, may=may) == {
        "command": "view",
        "path": "/a",
        "view_range": [5, 7],
    }


def test_what_is_spare_is_used_only_where_it_is_required() -> None:
    spare = {"start": 1, "end": 99, "lines": 2}
    assert arguments("read", CLAUDE_CODE, {"path": "/a"}, spare=spare) == {"file_path": "/a"}
    assert arguments("read", COPILOT_LIKE, {"path": "/a"}, spare=spare) == {
        "filePath": "/a",
        "startLine": 1,
        "endLine": 99,
    }


TIMEOUTS: list[tuple[str, dict[str, Any], str, int | None]] = [
    ("timeout", said(NUMBER, "Optional timeout in milliseconds (max 600000)"), "", 90_500),
    ("timeout", said(NUMBER, "Timeout in seconds"), "", 91),
    ("timeout", said(NUMBER, "Optional timeout in seconds (max 60)"), "", 60),
    ("timeout", said(NUMBER, "In milliseconds, maximum 60000"), "", 60_000),
    ("timeout", said(NUMBER, "In milliseconds, up to 10 minutes"), "", 90_500),
    ("timeout_ms", NUMBER, "", 90_500),
    ("timeoutSeconds", NUMBER, "", 91),
    ("timeout_secs", NUMBER, "", 91),
    ("yield_time_ms", NUMBER, "", 90_500),
    ("timeout", {**NUMBER, "maximum": 600}, "", 91),
    ("timeout", {**NUMBER, "maximum": 30}, "", 30),
    ("timeout", {**NUMBER, "default": 120_000}, "", 90_500),
    ("timeout", {**INTEGER, "maximum": 600_000}, "", 90_500),
    ("timeout", NUMBER, "Runs a command. The timeout is 120000 ms unless one is given.", 90_500),
    ("timeout", NUMBER, "Runs a command. Give a timeout in seconds if it takes long.", 91),
    ("timeout", NUMBER, "Runs a command for 5 seconds or more.", None),
]


@each(("name", "schema", "about", "expected"), TIMEOUTS, ids=lambda value: str(value)[:50])
def test_a_timeout_is_told_in_the_unit_of_the_tool(
    name: str, schema: dict[str, Any], about: str, expected: int | None
) -> None:
    """Catalogue 143: milliseconds taken for seconds wait for a day, seconds taken for milliseconds end everything."""
    shell = (tool("bash", {"command": STRING}, {name: schema}, about=about),)
    given = {} if expected is None else {name: expected}
    assert arguments("shell", shell, {"command": "make"}, may={"timeout": 90_500}) == {"command": "make", **given}


def test_numbers_become_text_where_only_text_is_taken() -> None:
    shell = (tool("bash", {"command": STRING}, {"timeout_ms": STRING}),)
    assert arguments("shell", shell, {"command": "ls"}, may={"timeout": 1500}) == {
        "command": "ls",
        "timeout_ms": "1500",
    }


@pytest.mark.parametrize(
    "schema",
    [b"", b"[]", b"{", b'{"properties":[]}', b'{"properties":{"path":true},"required":7}', b'{"$ref":"#"}', b"\xff"],
)
def test_a_broken_schema_breaks_nothing(schema: bytes) -> None:
    spec = ToolSpec(name="read", schema=schema)
    found = fitted("read", (spec,), {"path": "a"})
    assert found is None or found.arguments == {"path": "a"}


def test_references_and_unions_are_followed() -> None:
    schema = {
        "$defs": {"where": {"type": "string"}},
        "allOf": [
            {"properties": {"file_path": {"$ref": "#/$defs/where"}}, "required": ["file_path"]},
            {"properties": {"limit": {"anyOf": [{"type": "integer"}, {"type": "null"}]}}},
        ],
    }
    spec = ToolSpec(name="read", schema=json.dumps(schema).encode())
    assert arguments("read", (spec,), {"path": "a"}, may={"count": 3}) == {"file_path": "a", "limit": 3}
