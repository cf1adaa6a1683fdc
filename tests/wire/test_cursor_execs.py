"""Execs of every kind: which call of the client's own tools they become, and how those without a tool are answered."""

import json
from typing import Any

import pytest

from tests.each import each
from tests.wire.coding_clients import (
    CLAUDE_CODE,
    CLINE,
    CODEX,
    COPILOT_LIKE,
    CURSOR_LIKE,
    EDITOR,
    OLD_CODEX,
    OPENCODE,
    PI,
    STRING,
    WEATHER,
    tool,
)
from tests.wire.exec_running import HERE, asked, at_once, call, called, execs_for, only, result, shown
from tieline.model.content import ToolCall
from tieline.model.request import ToolSpec
from tieline.tools.search import SEARCH_CONTENT, SEARCH_FILES
from tieline.wire.cursor._pb.agent_pb2 import AgentClientMessage, AgentServerMessage
from tieline.wire.cursor._pb.exec_pb2 import ExecServerMessage
from tieline.wire.cursor.execs.dispatch import MAX_PENDING, ExecDispatcher
from tieline.wire.cursor.opening.offered_tools import OfferedTools
from tieline.wire.cursor.protobuf_json import to_value

Tools = tuple[ToolSpec, ...]

OWN = (SEARCH_FILES.spec, SEARCH_CONTENT.spec)
MCP_FILES = (
    tool("search_files", {"path": STRING, "pattern": STRING}),
    tool("read_text_file", {"path": STRING}),
)

A = f"{HERE}/a.txt"
COMMAND = {"command": "make", "working_directory": HERE, "timeout": 30_000}
CALLS: list[tuple[Tools, dict[str, Any], tuple[str, dict[str, Any]]]] = [
    # Commands.
    (CLAUDE_CODE, {"shell_args": COMMAND}, ("Bash", {"command": "make", "timeout": 30_000})),
    (CLAUDE_CODE, {"shell_stream_args": COMMAND}, ("Bash", {"command": "make", "timeout": 30_000})),
    (CLAUDE_CODE, {"mini_swe_agent_bash_args": COMMAND}, ("Bash", {"command": "make", "timeout": 30_000})),
    (
        OPENCODE,
        {"shell_args": COMMAND},
        ("bash", {"command": "make", "timeout": 30_000, "description": "Run make"}),
    ),
    (
        OPENCODE,
        {"shell_args": {**COMMAND, "working_directory": "/srv", "description": "Build it"}},
        ("bash", {"command": "make", "timeout": 30_000, "description": "Build it", "workdir": "/srv"}),
    ),
    (PI, {"shell_args": COMMAND}, ("bash", {"command": "make", "timeout": 30})),
    (
        CLINE,
        {"shell_args": COMMAND},
        ("execute_command", {"command": "make", "requires_approval": True, "timeout": 30}),
    ),
    (CODEX, {"shell_stream_args": COMMAND}, ("exec_command", {"cmd": "make", "yield_time_ms": 30_000})),
    (OLD_CODEX, {"shell_args": COMMAND}, ("shell", {"command": ["bash", "-lc", "make"], "timeout_ms": 30_000})),
    (CURSOR_LIKE, {"shell_args": COMMAND}, ("run_terminal_cmd", {"command": "make", "is_background": False})),
    (
        CLAUDE_CODE,
        {"background_shell_spawn_args": {"command": "npm start", "working_directory": HERE}},
        ("Bash", {"command": "npm start", "run_in_background": True}),
    ),
    # Files.
    (CLAUDE_CODE, {"read_args": {"path": A}}, ("Read", {"file_path": A})),
    (CLAUDE_CODE, {"redacted_read_args": {"path": A}}, ("Read", {"file_path": A})),
    (CLAUDE_CODE, {"read_args": {"path": "a.txt"}}, ("Read", {"file_path": A})),
    (OPENCODE, {"read_args": {"path": A, "offset": 5, "limit": 3}}, ("read", {"filePath": A, "offset": 5, "limit": 3})),
    (CURSOR_LIKE, {"read_args": {"path": A, "offset": 5}}, ("read_file", {"target_file": A, "offset": 4})),
    (CLAUDE_CODE, {"read_args": {"path": A, "offset": -4}}, ("Read", {"file_path": A})),
    (
        EDITOR,
        {"read_args": {"path": A, "offset": 5}},
        ("str_replace_based_edit_tool", {"command": "view", "path": A, "view_range": [5, -1]}),
    ),
    (
        COPILOT_LIKE,
        {"read_args": {"path": A}},
        ("read_file", {"filePath": A, "startLine": 1, "endLine": 1_000_000}),
    ),
    (CLAUDE_CODE, {"write_args": {"path": A, "file_text": "x\n"}}, ("Write", {"file_path": A, "content": "x\n"})),
    (OPENCODE, {"write_args": {"path": A, "file_text": ""}}, ("write", {"filePath": A, "content": ""})),
    (CURSOR_LIKE, {"write_args": {"path": A, "file_bytes": b"x"}}, ("write", {"file_path": A, "contents": "x"})),
    (
        CLINE,
        {"write_args": {"path": A, "file_text": "x\ny\n"}},
        ("write_to_file", {"path": A, "content": "x\ny\n", "line_count": 3}),
    ),
    (
        EDITOR,
        {"write_args": {"path": A, "file_text": "x"}},
        ("str_replace_based_edit_tool", {"command": "create", "path": A, "file_text": "x"}),
    ),
    (
        CURSOR_LIKE,
        {"delete_args": {"path": A}},
        ("delete_file", {"target_file": A, "explanation": f"Delete {A}"}),
    ),
    # Directories and searches.
    (CLAUDE_CODE, {"ls_args": {"path": HERE}}, ("LS", {"path": HERE})),
    (OPENCODE, {"ls_args": {"path": HERE}}, ("list", {})),
    (
        OPENCODE,
        {"ls_args": {"path": "/srv", "ignore": ["*.log"]}},
        ("list", {"path": "/srv", "ignore": ["*.log"]}),
    ),
    (OPENCODE[5:], {"ls_args": {"path": "/srv"}}, ("read", {"filePath": "/srv"})),
    (CLAUDE_CODE[:4], {"ls_args": {"path": "/srv"}}, ("Glob", {"pattern": "*", "path": "/srv"})),
    (
        CLAUDE_CODE,
        {"grep_args": {"pattern": "x", "path": "/srv", "glob": "*.py", "context": 2, "case_insensitive": True}},
        (
            "Grep",
            {
                "pattern": "x",
                "path": "/srv",
                "output_mode": "content",
                "-n": True,
                "glob": "*.py",
                "-C": 2,
                "-i": True,
            },
        ),
    ),
    (
        CLAUDE_CODE,
        {"grep_args": {"pattern": "x", "output_mode": "count", "type": "py", "head_limit": 5, "offset": 2}},
        ("Grep", {"pattern": "x", "output_mode": "count", "type": "py", "head_limit": 7}),
    ),
    (
        OPENCODE,
        {"grep_args": {"pattern": "x", "path": HERE, "type": "python", "case_insensitive": True}},
        ("grep", {"pattern": "(?i)x", "include": "*.py"}),
    ),
    (PI, {"grep_args": {"pattern": "x", "case_insensitive": True}}, ("grep", {"pattern": "x", "ignoreCase": True})),
    (CLINE, {"grep_args": {"pattern": "x"}}, ("search_files", {"regex": "x", "path": "."})),
    (COPILOT_LIKE, {"grep_args": {"pattern": "x"}}, ("grep_search", {"query": "x", "isRegexp": True})),
    (
        CURSOR_LIKE,
        {"grep_args": {"pattern": "x"}},
        ("grep", {"pattern": "x", "output_mode": "content", "case_sensitive": True}),
    ),
    (
        CLAUDE_CODE,
        {"grep_args": {"pattern": ".", "path": HERE, "glob": "**/*.py", "output_mode": "files_with_matches"}},
        ("Glob", {"pattern": "**/*.py"}),
    ),
    (
        CURSOR_LIKE,
        {"grep_args": {"pattern": "", "path": "/srv", "glob": "*.py", "output_mode": "files_with_matches"}},
        ("glob_file_search", {"glob_pattern": "*.py", "target_directory": "/srv"}),
    ),
    (
        OPENCODE[3:4],
        {"grep_args": {"pattern": "", "glob": "*.py", "output_mode": "files_with_matches"}},
        ("grep", {"pattern": ".*", "include": "*.py"}),
    ),
    (OPENCODE, {"grep_args": {"pattern": "", "glob": "**/*.ts"}}, ("glob", {"pattern": "**/*.ts"})),
    (OPENCODE, {"grep_args": {"pattern": "x", "glob": "*.ts"}}, ("grep", {"pattern": "x", "include": "*.ts"})),
    (OWN, {"grep_args": {"pattern": "x", "output_mode": "content"}}, ("search_content", {"pattern": "x"})),
    (
        OWN,
        {"grep_args": {"pattern": "x", "glob": "*.py", "case_insensitive": True, "output_mode": "files_with_matches"}},
        ("search_content", {"pattern": "x", "files": "*.py", "ignore_case": True, "files_only": True}),
    ),
    (
        OWN,
        {"grep_args": {"pattern": ".", "glob": "**/*.py", "output_mode": "files_with_matches"}},
        ("search_files", {"pattern": "**/*.py"}),
    ),
    (OWN, {"grep_args": {"pattern": "", "glob": "**/*.py"}}, ("search_files", {"pattern": "**/*.py"})),
    (MCP_FILES, {"grep_args": {"pattern": "", "glob": "*.py"}}, ("search_files", {"path": ".", "pattern": "*.py"})),
    # The rest.
    (OPENCODE, {"fetch_args": {"url": "http://x/"}}, ("webfetch", {"url": "http://x/", "format": "markdown"})),
    (
        CLAUDE_CODE,
        {"fetch_args": {"url": "http://x/"}},
        ("WebFetch", {"url": "http://x/", "prompt": "Give back the whole content of the page, unchanged."}),
    ),
    (CLAUDE_CODE, {"diagnostics_args": {"path": A}}, ("mcp__ide__getDiagnostics", {"uri": f"file://{A}"})),
    (CURSOR_LIKE, {"diagnostics_args": {"path": A}}, ("read_lints", {"paths": [A]})),
    (CLAUDE_CODE, {"list_mcp_resources_exec_args": {}}, ("ListMcpResourcesTool", {})),
    (
        CLAUDE_CODE,
        {"read_mcp_resource_exec_args": {"server": "docs", "uri": "x://1"}},
        ("ReadMcpResourceTool", {"server": "docs", "uri": "x://1"}),
    ),
]


@each(("tools", "kind", "expected"), CALLS, ids=lambda value: str(value)[:70])
def test_an_exec_becomes_a_call_of_the_clients_own_tool(
    tools: Tools, kind: dict[str, Any], expected: tuple[str, dict[str, Any]]
) -> None:
    assert called(tools, **kind) == expected


def test_a_command_elsewhere_goes_there_first_where_the_tool_cannot_be_told() -> None:
    def command(text: str) -> Any:
        return called(CLAUDE_CODE, shell_args={"command": text, "working_directory": "/my dir"})[1]["command"]

    assert command("make all") == "cd '/my dir' && make all"
    assert command("rm x; rm y") == "cd '/my dir' && {\nrm x; rm y\n}"


def test_a_command_that_may_go_on_in_the_background_is_not_ended_instead() -> None:
    """A soft timeout only says when to look elsewhere; a tool would kill the command then."""
    soft = {**COMMAND, "timeout_behavior": 2}
    assert "timeout" not in called(CLAUDE_CODE, shell_stream_args=soft)[1]
    assert called(CLAUDE_CODE, shell_stream_args={**soft, "hard_timeout": 99_000})[1]["timeout"] == 99_000
    assert "timeout" not in called(CLAUDE_CODE, shell_args={**COMMAND, "timeout": 0})[1]


# ── Tools of the client by name ──────────────────────────────────────────────────────────────────


def mcp(name: str, provider: str = "tieline", **args: Any) -> dict[str, Any]:
    return {
        "mcp_args": {
            "name": f"{provider}-{name}",
            "tool_name": name,
            "provider_identifier": provider,
            "args": {key: to_value(value) for key, value in args.items()},
            "tool_call_id": "toolu_1",
        }
    }


def test_a_tool_is_called_by_its_own_name_and_whole_numbers_stay_whole() -> None:
    made = call(execs_for(WEATHER), **mcp("get_weather", city="Rome", days=3, exact=2.5, code="007", none=None))
    assert made.name == "get_weather"
    assert made.arguments == '{"city":"Rome","code":"007","days":3,"exact":2.5,"none":null}'


def test_huge_arguments_arrive_whole() -> None:
    """Catalogue 142."""
    text = "x" * 3_000_000
    made = call(execs_for(CLAUDE_CODE), **mcp("Write", file_path=A, content=text))
    assert json.loads(made.arguments)["content"] == text
    native = call(execs_for(CLAUDE_CODE), write_args={"path": A, "file_text": text})
    assert json.loads(native.arguments)["content"] == text


def test_a_reserved_name_is_mapped_back() -> None:
    offer = OfferedTools.of((tool("Task", {"prompt": STRING}),))
    [definition] = offer.definitions
    execs = ExecDispatcher(offer, mint=lambda: "call_1")
    assert definition.tool_name != "Task"
    assert call(execs, **mcp(definition.tool_name, prompt="x")).name == "Task"


def test_a_freeform_tool_gets_its_raw_text() -> None:
    made = call(execs_for((ToolSpec(name="apply_patch", freeform=True),)), **mcp("apply_patch", input="*** Begin"))
    assert (made.arguments, made.freeform) == ("*** Begin", True)
    assert call(execs_for((ToolSpec(name="apply_patch", freeform=True),)), **mcp("apply_patch")).arguments == ""


def test_tools_and_servers_that_are_not_there_are_named_with_those_that_are() -> None:
    unknown = at_once(WEATHER, **mcp("get_time"))[0]["execClientMessage"]["mcpResult"]
    assert unknown == {"toolNotFound": {"name": "tieline-get_time", "availableTools": ["tieline-get_weather"]}}
    foreign = at_once(WEATHER, **mcp("add", provider="other"))[0]["execClientMessage"]["mcpResult"]
    assert foreign == {"serverNotFound": {"name": "other", "availableServers": ["tieline"]}}


def test_the_tools_of_the_newest_leg_count() -> None:
    execs = execs_for(WEATHER)
    assert not isinstance(execs.receive(asked(read_args={"path": A})), ToolCall)
    execs.set_tools(OfferedTools.of(PI))
    assert call(execs, read_args={"path": A}).name == "read"


# ── What no tool can do ──────────────────────────────────────────────────────────────────────────

USE_BASH = "Use `bash` instead."
REJECTIONS: list[tuple[Tools, dict[str, Any], dict[str, Any], str]] = [
    (CODEX, {"read_args": {"path": A}}, {"rejected": {"path": A}}, "Use `exec_command` instead."),
    (CODEX, {"write_args": {"path": A}}, {"rejected": {"path": A}}, "Use `exec_command` instead."),
    (OPENCODE, {"delete_args": {"path": A}}, {"rejected": {"path": A}}, USE_BASH),
    (OPENCODE, {"diagnostics_args": {"path": A}}, {"rejected": {"path": A}}, USE_BASH),
    (PI[:1], {"ls_args": {"path": A}}, {"rejected": {"path": A}}, USE_BASH),
    (PI[:1], {"grep_args": {"pattern": "x"}}, {"error": {}}, USE_BASH),
    (PI, {"fetch_args": {"url": "http://x/"}}, {"error": {"url": "http://x/"}}, USE_BASH),
    (
        CLAUDE_CODE[6:7],
        {"write_args": {"path": A}},
        {"rejected": {"path": A}},
        "Use `Edit` instead.",
    ),
    (
        WEATHER,
        {"shell_args": {"command": "ls", "working_directory": "/x"}},
        {"rejected": {"command": "ls", "workingDirectory": "/x"}},
        "Do without it.",
    ),
    (
        PI,
        {"background_shell_spawn_args": {"command": "ls"}},
        {"rejected": {"command": "ls"}},
        "Use `bash` and wait for it to end.",
    ),
    (CURSOR_LIKE, {"write_args": {"path": A, "file_bytes": b"\xff\x00"}}, {"rejected": {"path": A}}, "only text"),
    ((), {"read_args": {"path": A}}, {"rejected": {"path": A}}, "This client runs no tools"),
    (CLAUDE_CODE, {"subagent_args": {"prompt": "x"}}, {"error": {}}, "Use `client_Task` instead."),
    (PI, {"subagent_args": {"prompt": "x"}}, {"error": {}}, "Do the work yourself."),
    (PI, {"record_screen_args": {"mode": 1}}, {"failure": {}}, "no screen here"),
    (PI, {"computer_use_args": {}}, {"error": {}}, "no computer here"),
    (PI, {"write_shell_stdin_args": {"shell_id": 777}}, {"error": {}}, "shell 777 stdin: Shell not found"),
    (PI, {"pi_read_args": {}}, {"error": {}}, "Use `read` instead."),
    (PI, {"pi_edit_args": {}}, {"error": {}}, "Use `write` instead."),
]


@each(("tools", "kind", "expected", "words"), REJECTIONS, ids=lambda value: str(value)[:70])
def test_a_kind_without_a_tool_is_refused_and_the_tool_to_use_is_named(
    tools: Tools, kind: dict[str, Any], expected: dict[str, Any], words: str
) -> None:
    """Catalogue 138: a typed rejection on that exec, never a success that was none."""
    answer, closing = at_once(tools, **kind)
    body = answer["execClientMessage"]
    assert body.pop("id") == 1
    del body["localExecutionTimeMs"]
    [(field, typed)] = body.items()
    assert field == "".join(part.capitalize() if at else part for at, part in enumerate(_answer_field(kind)))
    [(verdict, facts)] = typed.items()
    [reason] = [facts.pop(key) for key in ("reason", "error", "text") if key in facts]
    assert {verdict: facts} == expected
    assert words in reason
    assert closing == {"execClientControlMessage": {"streamClose": {"id": 1}}}


def _answer_field(kind: dict[str, Any]) -> list[str]:
    return [*next(iter(kind)).split("_")[:-1], "result"]


def test_a_stream_is_refused_by_events_and_never_by_a_plain_result() -> None:
    rejected, exited, closing = at_once(WEATHER, shell_stream_args={"command": "ls", "working_directory": "/x"})
    reason = "This client has no tool that can run commands. Do without it."
    refusal = {"command": "ls", "workingDirectory": "/x", "reason": reason}
    assert rejected["execClientMessage"]["shellStream"] == {"rejected": refusal}
    assert exited["execClientMessage"]["shellStream"] == {"exit": {"code": 1, "cwd": "/x", "localExecutionTimeMs": 0}}
    assert "streamClose" in closing["execClientControlMessage"]


AT_ONCE: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"shell_allowlist_precheck_args": {}}, {"shellAllowlistPrecheckResult": {}}),
    ({"mcp_allowlist_precheck_args": {"tool_name": "y"}}, {"mcpAllowlistPrecheckResult": {}}),
    ({"web_fetch_allowlist_precheck_args": {"url": "x"}}, {"webFetchAllowlistPrecheckResult": {}}),
    (
        {"force_background_shell_args": {"tool_call_id": "nope"}},
        {"forceBackgroundShellResult": {"status": "FORCE_BACKGROUND_SHELL_STATUS_NOT_FOUND"}},
    ),
    ({"force_background_subagent_args": {}}, {"forceBackgroundSubagentResult": {"status": 2}}),
    ({"subagent_await_args": {}}, {"subagentAwaitResult": {"notFound": {}}}),
    ({"list_mcp_resources_exec_args": {}}, {"listMcpResourcesExecResult": {"success": {}}}),
    (
        {"list_mcp_resources_exec_args": {"server": "nope"}},
        {"listMcpResourcesExecResult": {"error": {"error": 'Server "nope" not found'}}},
    ),
    (
        {"read_mcp_resource_exec_args": {"server": "nope", "uri": "file:///x"}},
        {"readMcpResourceExecResult": {"error": {"uri": "file:///x", "error": 'Server "nope" not found'}}},
    ),
    (
        {"mcp_state_exec_args": {"server_identifiers": ["other"]}},
        {"mcpStateExecResult": {"success": {}}},
    ),
    ({"mcp_state_exec_args": {"kick_only": True}}, {"mcpStateExecResult": {"success": {}}}),
]


@each(("kind", "expected"), AT_ONCE, ids=str)
def test_what_needs_no_tool_is_answered_at_once(kind: dict[str, Any], expected: dict[str, Any]) -> None:
    """As Cursor's own client answers these."""
    answer, closing = at_once(PI, **kind)
    assert answer == {"execClientMessage": {"id": 1, "localExecutionTimeMs": 0, **expected}}
    assert closing == {"execClientControlMessage": {"streamClose": {"id": 1}}}


def test_the_state_of_the_one_server_tells_the_tools() -> None:
    [server] = at_once(WEATHER, mcp_state_exec_args={})[0]["execClientMessage"]["mcpStateExecResult"]["success"][
        "servers"
    ]
    assert (server["serverName"], server["serverIdentifier"]) == ("tieline", "tieline")
    assert [one["toolName"] for one in server["tools"]] == ["get_weather"]
    assert server["instructions"][0]["serverIdentifier"] == "tieline"


UNKNOWN = [
    ("execute_hook_args", "executeHookArgs"),
    ("smart_mode_classifier_args", "smartModeClassifierArgs"),
    ("canvas_diagnostics_args", "canvasDiagnosticsArgs"),
    ("git_diff_request", "gitDiffRequest"),
    ("conversation_search_args", "conversationSearchArgs"),
    ("agent_store_conflict_args", "agentStoreConflictArgs"),
    ("adopt_args", "adoptArgs"),
]


@pytest.mark.parametrize(("kind", "name"), UNKNOWN)
def test_what_nobody_here_knows_is_thrown_back_and_closed(kind: str, name: str) -> None:
    assert at_once(PI, **{kind: {}}) == [
        {
            "execClientControlMessage": {
                "throw": {"id": 1, "error": f"No handler found for server message of type {name}"}
            }
        },
        {"execClientControlMessage": {"streamClose": {"id": 1}}},
    ]


@pytest.mark.parametrize("data", [b"\x08\x01\x9a\x06\x05\x0a\x03abc\x7a\x06exec-1", b"\x08\x01\x7a\x06exec-2"])
def test_a_kind_with_an_unknown_number_or_none_at_all_is_thrown_back(data: bytes) -> None:
    answered = execs_for(PI).receive(ExecServerMessage.FromString(data))
    assert not isinstance(answered, ToolCall)
    thrown, closing = shown(answered)
    error = "No handler found for server message of type undefined"
    assert thrown == {"execClientControlMessage": {"throw": {"id": 1, "error": error}}}
    assert closing == {"execClientControlMessage": {"streamClose": {"id": 1}}}


def test_every_kind_there_is_gets_a_call_or_an_answer_that_ends_with_a_close() -> None:
    kinds = [field.name for field in ExecServerMessage.DESCRIPTOR.oneofs_by_name["message"].fields]
    for tools in ((), PI, CLAUDE_CODE):
        for kind in kinds:
            message = ExecServerMessage(id=9)
            getattr(message, kind).SetInParent()
            answered = execs_for(tools).receive(message)
            if not isinstance(answered, ToolCall):
                assert answered[-1].exec_client_control_message.stream_close.id == 9
                assert len(answered) >= 2


# ── Numbers and envelopes ────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("exec_id", [0, 1, 4_294_967_295])
def test_an_answer_carries_the_number_and_the_time_and_nothing_else_to_know_it_by(exec_id: int) -> None:
    """The number may be 0; the name of the exec is never sent back."""
    now = [5.0]
    execs = execs_for(PI, clock=lambda: now[0])
    made = call(execs, exec_id, read_args={"path": A, "tool_call_id": "toolu_1"})
    assert execs.pending == {made.id: exec_id}
    now[0] = 5.25
    answer, closing = execs.answer(result("x\n", call_id=made.id))
    assert answer.exec_client_message.id == exec_id
    assert answer.exec_client_message.exec_id == ""
    assert answer.exec_client_message.local_execution_time_ms == 250
    assert closing.exec_client_control_message.stream_close.id == exec_id
    assert execs.pending == {}


def test_a_time_of_nothing_is_still_told() -> None:
    execs = execs_for(PI)
    call(execs, read_args={"path": A})
    [answer, _] = execs.answer(result("x"))
    assert answer.exec_client_message.HasField("local_execution_time_ms")


def test_execs_are_answered_in_any_order_each_with_its_own_number() -> None:
    execs = execs_for(CLAUDE_CODE)
    first = call(execs, 1, shell_stream_args={"command": "sleep 1"})
    second = call(execs, 2, read_args={"path": A})
    third = call(execs, 3, grep_args={"pattern": "hello", "output_mode": "count"})
    assert len({first.id, second.id, third.id}) == 3
    for made, number in ((third, 3), (second, 2), (first, 1)):
        answers = execs.answer(result("", call_id=made.id))
        assert {message.exec_client_message.id for message in answers[:-1]} == {number}


def test_a_number_that_comes_twice_is_two_execs() -> None:
    execs = execs_for(PI)
    first, second = call(execs, 5, read_args={"path": A}), call(execs, 5, read_args={"path": "b"})
    assert only(shown(execs.answer(result("x", call_id=second.id)))[0]["execClientMessage"]["readResult"])["path"] == (
        f"{HERE}/b"
    )
    assert execs.pending == {first.id: 5}


def test_nothing_is_said_of_a_call_until_its_result_is_there() -> None:
    """Catalogue 141: no placeholder stands in for a result, only signs of life."""
    execs = execs_for(PI)
    call(execs, 7, shell_args={"command": "make"})
    [beat] = execs.heartbeats()
    assert beat.SerializeToString().hex() == "2a041a020807"
    execs.answer(result("done"))
    assert not execs.heartbeats()


def test_a_result_nobody_asked_for_is_an_error_of_the_caller() -> None:
    execs = execs_for(PI)
    with pytest.raises(KeyError):
        execs.answer(result("x", call_id="call_9"))


def test_an_exec_that_is_aborted_is_forgotten_and_a_command_ends_as_a_killed_one() -> None:
    execs = execs_for(PI)
    call(execs, 1, shell_stream_args={"command": "sleep 20", "working_directory": HERE})
    call(execs, 2, shell_args={"command": "sleep 20", "working_directory": HERE})
    call(execs, 3, read_args={"path": A})
    exited, _ = shown(execs.confirm_abort(1))
    assert exited["execClientMessage"]["shellStream"]["exit"] == {
        "code": 4_294_967_295,
        "cwd": HERE,
        "aborted": True,
        "abortReason": "SHELL_ABORT_REASON_USER_ABORT",
        "localExecutionTimeMs": 0,
    }
    failed, _ = shown(execs.confirm_abort(2))
    failure = failed["execClientMessage"]["shellResult"]["failure"]
    assert (failure["exitCode"], failure["signal"], failure["aborted"]) == (-1, "SIGTERM", True)
    execs.abort(42)
    assert list(execs.confirm_abort(42)) == []
    assert sorted(execs.pending.values()) == [1, 2, 3]
    for number in (1, 2, 3):
        execs.abort(number)
    assert execs.pending == {}


def test_execs_without_end_are_thrown_back_instead_of_piling_up() -> None:
    execs = execs_for(PI)
    for number in range(MAX_PENDING):
        call(execs, number, read_args={"path": A})
    answered = execs.receive(asked(7, read_args={"path": A}))
    assert not isinstance(answered, ToolCall)
    assert answered[0].exec_client_control_message.throw.id == 7


def test_the_published_bytes_are_read_and_written() -> None:
    """The byte sequences that are known of the protocol, as far as execs go."""
    data = bytes.fromhex("121708073a0f0a09524541444d452e6d64120274317a026531")
    message = AgentServerMessage.FromString(data).exec_server_message
    assert message == ExecServerMessage(id=7, exec_id="e1", read_args={"path": "README.md", "tool_call_id": "t1"})
    execs = execs_for(PI)
    execs.receive(message)
    assert execs.answer(result("x"))[-1].SerializeToString().hex() == "2a040a020807"
    mine = AgentClientMessage.FromString(bytes.fromhex("121208035a0a0a080a060a040a026f6b7a026533"))
    execs = execs_for(WEATHER)
    call(execs, 3, **mcp("get_weather", city="Rome"))
    answer = execs.answer(result("ok"))[0].exec_client_message
    assert answer.mcp_result == mine.exec_client_message.mcp_result
    assert (
        bytes.fromhex("2a0712050807120178")
        == AgentClientMessage(exec_client_control_message={"throw": {"id": 7, "error": "x"}}).SerializeToString()
    )
    abort = AgentServerMessage.FromString(bytes.fromhex("2a040a020807")).exec_server_control_message.abort
    assert abort.id == 7
