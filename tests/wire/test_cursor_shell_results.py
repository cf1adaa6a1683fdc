"""Commands that the client has run: its words about them, and the results and stream events made of them."""

from typing import Any

import pytest

from tests.each import each
from tests.wire.coding_clients import CLAUDE_CODE, CODEX, OPENCODE, PI
from tests.wire.exec_running import HERE, asked, call, execs_for, result, shown, told
from tieline.model.content import Text, ToolCall, ToolResult
from tieline.wire.cursor.execs.shell_results import CHUNK, KILLED, read
from tieline.wire.cursor.execs.shell_results import ShellOutcome as Outcome

COMMAND = {"command": "make", "working_directory": HERE, "timeout": 10_000}
ASKED = {"command": "make", "workingDirectory": HERE}
NO_TIME = {"localExecutionTimeMs": 0}
POLICY = {"sandboxPolicy": {"type": "TYPE_INSECURE_NONE"}}

CUT = "bash tool truncated output as it exceeded 30000 char limit"
SAID: list[tuple[str, Outcome]] = [
    # Nothing but the output.
    ("hi\n", Outcome("hi\n")),
    ("(Bash completed with no output)", Outcome("")),
    ("(no output)", Outcome("")),
    ("Exit codes are numbers", Outcome("Exit codes are numbers")),
    # A line before it, or behind it.
    ("Exit code 1\nfail", Outcome("fail", code=1)),
    (
        "Exit code 127\n/bin/bash: line 1: x: command not found",
        Outcome("/bin/bash: line 1: x: command not found", code=127),
    ),
    ("exit code: 2\nboom", Outcome("boom", code=2)),
    ("Command failed with exit code 2\nboom", Outcome("boom", code=2)),
    ("out\n\nCommand exited with code 4", Outcome("out", code=4)),
    ("out\n[The command completed with exit code 7.]", Outcome("out", code=7)),
    (
        "Command executed in terminal within working directory '/x'. Exit code: 0\nOutput:\nhey",
        Outcome("hey", code=0),
    ),
    ("Command executed.\nOutput:\nhey", Outcome("hey")),
    # Labels.
    ("Exit code: 0\nWall time: 0.1 seconds\nOutput:\nhi\n", Outcome("hi\n", code=0)),
    (
        "Chunk ID: ab\nWall time: 0.05 seconds\nProcess exited with code 3\nOriginal token count: 3\nOutput:\nhi\n",
        Outcome("hi\n", code=3),
    ),
    (
        "Wall time: 10 seconds\nProcess running with session ID 73\nOutput:\nstarted",
        Outcome("started", ending="running", session="73"),
    ),
    (
        "Command: ls\nDirectory: (root)\nOutput: hi\nthere\nError: (none)\nExit Code: 0\nSignal: (none)\n"
        "Background PIDs: (none)\nProcess Group PGID: 4",
        Outcome("hi\nthere", code=0),
    ),
    (
        "Command: ls\nDirectory: (root)\nStdout: hi\nStderr: oh\nError: (none)\nExit Code: 2\nSignal: (none)\n"
        "Background PIDs: (none)\nProcess Group PGID: 4",
        Outcome("hi", "oh", 2),
    ),
    (
        "Command: x\nDirectory: (root)\nOutput: (empty)\nError: (none)\nExit Code: (none)\nSignal: 9",
        Outcome("", code=KILLED),
    ),
    ("Output: Import ok\nProcess Group PGID: 42", Outcome("Import ok")),
    # Tags and JSON.
    ("<returncode>1</returncode>\n<output>\nhey</output>", Outcome("hey", code=1)),
    ("<stdout>a</stdout><stderr>b</stderr><exit_code>2</exit_code>", Outcome("a", "b", 2)),
    ("out\n<stderr>\nerr\n</stderr>", Outcome("out", "err")),
    ('{"stdout":"o\\n","stderr":"e\\n","exitCode":3}', Outcome("o\n", "e\n", 3)),
    ('{"output":"x","metadata":{"exit_code":2,"duration_seconds":0.1}}', Outcome("x", code=2)),
    ('{"output":"x","code":0}', Outcome("x", code=0)),
    ('{"stdout":"o","stderr":"","timed_out":true,"exit_code":124}', Outcome("o", code=124, ending="timeout")),
    (
        '[{"query":"ls","result":"a","success":true},{"query":"x","result":"b","success":false}]',
        Outcome("a\nb", code=1),
    ),
    # JSON that a command printed.
    ('{"code":200,"output":"fine","id":7}', Outcome('{"code":200,"output":"fine","id":7}')),
    ('{"name":"x"}', Outcome('{"name":"x"}')),
    ('{"output"', Outcome('{"output"')),
    # Ended from outside, or not at all.
    (
        "begin\n\n<bash_metadata>\nbash tool terminated command after exceeding timeout 1500 ms\n</bash_metadata>",
        Outcome("begin", ending="timeout"),
    ),
    ("x\n\n<bash_metadata>\nUser aborted the command\n</bash_metadata>", Outcome("x", ending="aborted")),
    # Notes in tags: the exit code is read, what has no field of its own is left for the model.
    ("x\n\n<bash_metadata>\nexit code: 3\n</bash_metadata>", Outcome("x", code=3)),
    ("x\n\n<bash_metadata>\nCommand exited with code 2\n</bash_metadata>", Outcome("x", code=2)),
    ("x\n\n<bash_metadata>\nexit_code: 0\n</bash_metadata>", Outcome("x", code=0)),
    (
        f"x\n\n<bash_metadata>\n{CUT}\n</bash_metadata>",
        Outcome(f"x\n\n<bash_metadata>\n{CUT}\n</bash_metadata>"),
    ),
    (
        f"x\n\n<bash_metadata>\n{CUT}\nUser aborted the command\nexit code: 1\n</bash_metadata>",
        Outcome(f"x\n\n<bash_metadata>\n{CUT}\n</bash_metadata>", code=1, ending="aborted"),
    ),
    (
        "Command timed out after 2m 0.0s\nbegin",
        Outcome("Command timed out after 2m 0.0s\nbegin", ending="timeout"),
    ),
    (
        "a\n\nCommand timed out after 5 seconds",
        Outcome("a\n\nCommand timed out after 5 seconds", ending="timeout"),
    ),
    (
        "[Request interrupted by user for tool use]",
        Outcome("[Request interrupted by user for tool use]", ending="aborted"),
    ),
    ("the log says: command timed out", Outcome("the log says: command timed out")),
]


@each(("text", "expected"), SAID, ids=lambda value: str(value)[:60])
def test_how_a_command_went_is_read_from_what_clients_say(text: str, expected: Outcome) -> None:
    assert read(text) == expected


# What Cursor's own client answers when it has run the same.
RESULTS: list[tuple[str, dict[str, Any]]] = [
    ('{"stdout":"out\\n","stderr":"err\\n","exit_code":0}', {"success": {"stdout": "out\n", "stderr": "err\n"}}),
    ('{"stdout":"fail\\n","stderr":"","exit_code":3}', {"failure": {"exitCode": 3, "stdout": "fail\n"}}),
    (
        '{"stdout":"","stderr":"x: command not found\\n","exit_code":127}',
        {"failure": {"exitCode": 127, "stderr": "x: command not found\n"}},
    ),
    (
        "begin\n\n\n<bash_metadata>\nbash tool terminated command after exceeding timeout 1500 ms\n</bash_metadata>",
        {
            "failure": {
                "exitCode": -1,
                "signal": "SIGTERM",
                "stdout": "begin\n",
                "abortReason": "SHELL_ABORT_REASON_TIMEOUT",
                "aborted": True,
            }
        },
    ),
]


@pytest.mark.parametrize(("text", "expected"), RESULTS, ids=lambda value: str(value)[:60])
def test_a_result_is_what_cursors_own_client_answers(text: str, expected: dict[str, Any]) -> None:
    [(verdict, facts)] = expected.items()
    assert told(PI, text, shell_args=COMMAND) == {verdict: {**ASKED, **facts, **NO_TIME}, **POLICY}


def test_the_bare_agents_shell_is_answered_in_its_own_field_with_all_output_together() -> None:
    execs = execs_for(PI)
    call(execs, mini_swe_agent_bash_args=COMMAND)
    answer = shown(execs.answer(result("hi\n")))[0]["execClientMessage"]
    success = {**ASKED, "stdout": "hi\n", "interleavedOutput": "hi\n", **NO_TIME}
    assert answer["miniSweAgentBashResult"] == {"success": success, **POLICY}


# The events of a stream, between its start and its close.
STREAMS: list[tuple[str, list[dict[str, Any]]]] = [
    (
        '{"stdout":"out1\\nout2\\n","stderr":"err1\\n","exit_code":0}',
        [{"stdout": {"data": "out1\nout2\n"}}, {"stderr": {"data": "err1\n"}}, {"exit": {"cwd": HERE}}],
    ),
    ("Exit code 3\nfail\n", [{"stdout": {"data": "fail\n"}}, {"exit": {"code": 3, "cwd": HERE}}]),
    (
        "Command timed out after 1.5s",
        [
            {"stdout": {"data": "Command timed out after 1.5s"}},
            {
                "exit": {
                    "code": 4_294_967_295,
                    "cwd": HERE,
                    "aborted": True,
                    "abortReason": "SHELL_ABORT_REASON_TIMEOUT",
                }
            },
        ],
    ),
    ('{"stdout":"","stderr":"","exit_code":-1}', [{"exit": {"code": 4_294_967_295, "cwd": HERE}}]),
    ("(no output)", [{"exit": {"cwd": HERE}}]),
]


@pytest.mark.parametrize(("text", "expected"), STREAMS, ids=lambda value: str(value)[:60])
def test_a_stream_is_answered_with_events_as_cursors_own_client_sends_them(
    text: str, expected: list[dict[str, Any]]
) -> None:
    start, *events = told(PI, text, shell_stream_args=COMMAND)
    assert start == {"start": POLICY}
    assert events[-1]["exit"].pop("localExecutionTimeMs") == 0
    assert events == expected


def test_a_stream_is_never_answered_with_a_plain_result() -> None:
    execs = execs_for(PI)
    call(execs, shell_stream_args=COMMAND)
    fields = [message.exec_client_message.WhichOneof("message") for message in execs.answer(result("x"))[:-1]]
    assert fields == ["shell_stream"] * 3


def test_much_output_comes_in_pieces() -> None:
    text = "é" * (CHUNK * 2 + 5)
    pieces = [event["stdout"]["data"] for event in told(PI, text, shell_stream_args=COMMAND)[1:-1]]
    assert [len(piece) for piece in pieces] == [CHUNK, CHUNK, 5]
    assert "".join(pieces) == text


@pytest.mark.parametrize(
    ("text", "is_error", "code"),
    [("fine", False, 0), ("it broke", True, 1), ("Exit code 9\nit broke", True, 9), ("Exit code 0", True, 0)],
)
def test_a_command_that_fails_is_a_result_and_no_crash(text: str, is_error: bool, code: int) -> None:
    """Catalogue 143: where nobody tells, only what the client calls an error has failed."""
    came = told(PI, result(text, is_error=is_error), shell_args=COMMAND)
    assert came.get("failure", {}).get("exitCode", 0) == code


def test_exit_codes_of_any_size_fit() -> None:
    came = told(PI, '{"stdout":"","stderr":"","exit_code":3221225786}', shell_args=COMMAND)
    assert came["failure"]["exitCode"] == 3221225786 - 2**32
    events = told(PI, '{"stdout":"","stderr":"","exit_code":99999999999999999999}', shell_stream_args=COMMAND)
    assert events[-1]["exit"]["code"] == 99999999999999999999 % 2**32


REFUSALS = [
    "The user doesn't want to proceed with this tool use. The tool use was rejected.",
    "The user rejected permission to use this specific tool call.",
    "Permission to use Bash with command make has been denied.",
    "exec command rejected by user",
]


@pytest.mark.parametrize("words", REFUSALS)
def test_a_command_the_user_forbids_is_rejected(words: str) -> None:
    expected = {"rejected": {**ASKED, "reason": words}}
    assert told(PI, result(words, is_error=True), shell_args=COMMAND) == expected
    first, last = told(PI, result(words), shell_stream_args=COMMAND)
    assert first == expected
    assert last["exit"]["code"] == 1


def test_what_a_command_prints_about_users_is_no_rejection() -> None:
    came = told(PI, "User cancelled order 7\n", shell_args=COMMAND)
    assert came["success"]["stdout"] == "User cancelled order 7\n"


def test_a_command_the_user_ends_is_aborted() -> None:
    words = "[Request interrupted by user for tool use]"
    failure = told(PI, result(words, is_error=True), shell_args=COMMAND)["failure"]
    assert (failure["aborted"], failure["abortReason"]) == (True, "SHELL_ABORT_REASON_USER_ABORT")


def test_a_shell_that_cannot_be_started_is_a_spawn_error() -> None:
    came = told(PI, result("spawn /bin/bash ENOENT", is_error=True), shell_args=COMMAND)
    assert came == {"spawnError": {**ASKED, "error": "spawn /bin/bash ENOENT"}, **POLICY}


def test_words_that_were_added_to_a_result_come_after_the_output() -> None:
    came = ToolResult(call_id="call_1", content=(Text(text="Exit code 2\nboom"), Text(text="Try make -k.")))
    failure = told(PI, came, shell_args=COMMAND)["failure"]
    assert (failure["exitCode"], failure["stdout"]) == (2, "boom\nTry make -k.")


# ── Commands that go on ──────────────────────────────────────────────────────────────────────────

BACKGROUND = "Command running in background with ID: b7mn2clg0. Output is being written to: /out/b7mn2clg0.output."


def test_a_command_that_was_moved_to_the_background_is_told_as_such() -> None:
    text = "Command did not complete within its 120s timeout and was moved to the background (ID: ab1)."
    *_, event = told(CLAUDE_CODE, text, shell_stream_args=COMMAND)
    assert event == {
        "backgrounded": {
            "shellId": 1,
            **ASKED,
            "msToWait": 0,
            "reason": "SHELL_BACKGROUND_REASON_TIMEOUT",
        }
    }
    plain = told(CLAUDE_CODE, text, shell_args=COMMAND)
    assert plain["isBackground"] is True
    assert plain["success"]["backgroundReason"] == "SHELL_BACKGROUND_REASON_TIMEOUT"


def test_a_command_started_in_the_background_gets_a_number() -> None:
    args = {"command": "npm start", "working_directory": HERE}
    came = told(CLAUDE_CODE, BACKGROUND, background_shell_spawn_args=args)
    assert came == {"success": {"shellId": 1, "command": "npm start", "workingDirectory": HERE}}
    failed = told(CLAUDE_CODE, result("no", is_error=True), background_shell_spawn_args=args)
    assert failed == {"error": {"command": "npm start", "workingDirectory": HERE, "error": "no"}}
    refused = told(CLAUDE_CODE, result(REFUSALS[0], is_error=True), background_shell_spawn_args=args)
    assert list(refused) == ["rejected"]
    known = told(CLAUDE_CODE, "Background task started, PID: 58", background_shell_spawn_args=args)
    assert known["success"]["pid"] == 58


def test_words_can_be_typed_into_a_command_that_goes_on() -> None:
    execs = execs_for(CODEX)
    call(execs, 1, shell_stream_args=COMMAND)
    running = "Wall time: 10 seconds\nProcess running with session ID 73\nOutput:\n> "
    backgrounded = execs.answer(result(running))[-2].exec_client_message.shell_stream.backgrounded
    assert backgrounded.shell_id == 73
    typed = call(execs, 2, write_shell_stdin_args={"shell_id": 73, "chars": "yes\n"})
    assert (typed.name, typed.arguments) == ("write_stdin", '{"session_id":73,"chars":"yes\\n"}')
    answer = shown(execs.answer(result("ok", call_id=typed.id)))[0]["execClientMessage"]
    assert answer["writeShellStdinResult"] == {"success": {"shellId": 73}}
    unknown = execs.receive(asked(3, write_shell_stdin_args={"shell_id": 74, "chars": "x"}))
    assert not isinstance(unknown, ToolCall)


def test_a_client_without_such_a_tool_cannot_be_typed_into() -> None:
    execs = execs_for(CLAUDE_CODE)
    call(execs, 1, background_shell_spawn_args={"command": "cat"})
    execs.answer(result(BACKGROUND))
    answered = execs.receive(asked(2, write_shell_stdin_args={"shell_id": 1, "chars": "x"}))
    assert not isinstance(answered, ToolCall)
    error = answered[0].exec_client_message.write_shell_stdin_result.error.error
    assert error == "Failed to write to shell 1 stdin: Shell not found"


def test_the_time_a_command_took_is_told_with_it() -> None:
    now = [0.0]
    execs = execs_for(OPENCODE, clock=lambda: now[0])
    call(execs, shell_args=COMMAND)
    now[0] = 1.5
    success = execs.answer(result("x"))[0].exec_client_message.shell_result.success
    assert (success.execution_time, success.local_execution_time_ms) == (1500, 1500)


def test_long_output_is_read_in_no_time() -> None:
    """Every pattern looks at the ends, or goes over the text once."""
    for text in ("\n" * 500_000, "<output>" * 60_000, "Output: " + "\nError: x" * 60_000, " " * 500_000 + "{"):
        assert read(text).code is None
