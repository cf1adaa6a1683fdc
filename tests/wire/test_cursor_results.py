"""Results of the client's tools as typed results: files, pictures, pages, resources and what tools of its own say.

Where a table says what Cursor's own client answers, the tool here gives back what that client found on its disk.
"""

from base64 import b64encode
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import PIXEL
from tests.each import each
from tests.wire.coding_clients import CLAUDE_CODE, CODEX, CURSOR_LIKE, OPENCODE, PI, STRING, WEATHER, tool
from tests.wire.exec_running import HERE, asked, call, execs_for, result, shown, told
from tieline.model.content import File, Image, Text, ToolCall, ToolResult
from tieline.wire.cursor.execs.dispatch import ExecDispatcher

A = f"{HERE}/a.txt"
LINES = "".join(f"line {number}\n" for number in range(1, 21))
PICTURE = b"\x89PNG\r\n\x1a\nnot really"

# What Cursor's own client answers for the same file: lines are counted with the empty piece after the last newline.
READS: list[tuple[dict[str, Any], str, dict[str, Any]]] = [
    ({}, "file a says 42\n", {"content": "file a says 42\n", "totalLines": 2, "fileSize": "15"}),
    ({}, "no newline at end", {"content": "no newline at end", "totalLines": 1, "fileSize": "17"}),
    ({}, "", {"content": "", "totalLines": 1}),
    ({}, "one\r\ntwo\r\n", {"content": "one\ntwo\n", "totalLines": 3, "fileSize": "10"}),
    ({}, LINES, {"content": LINES, "totalLines": 21, "fileSize": "151"}),
    (
        {"offset": -4},
        LINES,
        {"content": "line 18\nline 19\nline 20\n", "totalLines": 21, "fileSize": "151", "rangeApplied": True},
    ),
]
# Of a tool that knows no ranges: the file is read whole and cut here, as that client does it.
RANGES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"offset": 5, "limit": 3}, {"content": "line 5\nline 6\nline 7", "rangeApplied": True}),
    ({"limit": 2}, {"content": "line 1\nline 2", "rangeApplied": True}),
    ({"offset": 50, "limit": 5}, {"content": LINES}),
    ({"offset": 19}, {"content": "line 19\nline 20\n", "rangeApplied": True}),
]
SIMPLE = (tool("cat", {"path": STRING}),)


@pytest.mark.parametrize(("args", "text", "expected"), READS, ids=str)
def test_a_file_is_told_as_cursors_own_client_tells_it(
    args: dict[str, Any], text: str, expected: dict[str, Any]
) -> None:
    assert told(PI, text, read_args={"path": A, **args}) == {"success": {"path": A, **expected}}


@pytest.mark.parametrize(("args", "expected"), RANGES, ids=str)
def test_lines_are_picked_here_where_the_tool_cannot(args: dict[str, Any], expected: dict[str, Any]) -> None:
    facts = {"path": A, "totalLines": 21, "fileSize": "151"}
    assert told(SIMPLE, LINES, read_args={"path": A, **args}) == {"success": facts | expected}


def test_lines_that_the_tool_picked_are_passed_on() -> None:
    shown_lines = "     5\tline 5\n     6\tline 6\n     7\tline 7"
    success = told(CLAUDE_CODE, shown_lines, read_args={"path": A, "offset": 5, "limit": 3})["success"]
    assert (success["content"], success["rangeApplied"]) == ("line 5\nline 6\nline 7", True)
    assert success["totalLines"] == 7
    noted = (
        f"<path>{A}</path>\n<type>file</type>\n<content>\n5: line 5\n\n"
        "(Showing lines 5-5 of 20. Use offset=6 to continue.)\n</content>"
    )
    success = told(OPENCODE, noted, read_args={"path": A, "offset": 5, "limit": 1})["success"]
    assert (success["content"], success["totalLines"]) == ("line 5", 20)
    assert "truncated" not in success


def test_a_path_that_is_relative_is_told_in_full() -> None:
    success = told(PI, "# Demo\n", read_args={"path": "README.md"})["success"]
    assert success["path"] == f"{HERE}/README.md"


SHOWN = [
    (CLAUDE_CODE, "     1→one\n     2→two\n     3→", "one\ntwo\n"),
    (CLAUDE_CODE, "1\tone\n2\ttwo\n\n<system-reminder>\nBeware.\n</system-reminder>\n", "one\ntwo"),
    (CLAUDE_CODE, "<system-reminder>Warning: the file exists but the contents are empty.</system-reminder>", ""),
    (
        OPENCODE,
        f"<path>{A}</path>\n<type>file</type>\n<content>\n1: one\n2: two\n\n(End of file - total 2 lines)\n</content>",
        "one\ntwo\n",
    ),
    (OPENCODE, "<file>\n00001| one\n00002| \n\n(End of file - total 2 lines)\n</file>", "one\n"),
    (OPENCODE, "<file>\n00001| one\n\n(End of file - total 1 lines)\n</file>", "one"),
]


@pytest.mark.parametrize(("tools", "text", "content"), SHOWN, ids=lambda value: str(value)[:40])
def test_what_a_tool_shows_around_a_file_never_gets_into_it(tools: Any, text: str, content: str) -> None:
    """The service writes back what it has read: a number or a note in it would end up on the disk."""
    success = told(tools, text, read_args={"path": A})["success"]
    assert success.get("content", "") == content


def test_a_picture_is_told_as_its_bytes() -> None:
    image = Image(media_type="image/png", data=b64encode(PICTURE).decode())
    came = ToolResult(call_id="call_1", content=(Text(text="Read image"), image))
    expected = {"path": A, "data": b64encode(PICTURE).decode(), "fileSize": str(len(PICTURE))}
    assert told(PI, came, read_args={"path": A}) == {"success": expected}


OUTCOMES: list[tuple[str, bool, str]] = [
    ("File does not exist. Note: your current working directory is /x.", True, "fileNotFound"),
    ("<tool_use_error>File does not exist.</tool_use_error>", True, "fileNotFound"),
    ("File not found: /home/user/project/a.txt\n\nDid you mean one of these?\n/home/b.txt", False, "fileNotFound"),
    ("Error: ENOENT: no such file or directory, open '/x'", False, "fileNotFound"),
    ("cat: /x: No such file or directory", False, "fileNotFound"),
    ('{"error":"ENOENT: no such file"}', False, "fileNotFound"),
    ('[{"query":"/x","result":"","error":"File not found","success":false}]', False, "fileNotFound"),
    ("EACCES: permission denied, open '/x'", True, "permissionDenied"),
    ("Error: Cannot read binary file: /x/bin.dat", False, "invalidFile"),
    ("EISDIR: illegal operation on a directory, read", True, "invalidFile"),
    ("The user doesn't want to proceed with this tool use. The tool use was rejected.", True, "rejected"),
    ("The user rejected permission to use this specific tool call.", False, "rejected"),
    ("The user denied this operation.", False, "rejected"),
    ("[Operation Cancelled] Reason: User did not allow tool call", False, "rejected"),
    ("Permission to use Read has been denied.", True, "rejected"),
    ("Error: tool read not found", True, "error"),
    ("File content (30000 tokens) exceeds maximum allowed tokens (25000).", True, "error"),
]


@each(("text", "is_error", "verdict"), OUTCOMES, ids=lambda value: str(value)[:50])
def test_why_a_file_was_not_read_is_told_in_type(text: str, is_error: bool, verdict: str) -> None:
    came = told(PI, result(text, is_error=is_error), read_args={"path": A})
    assert list(came) == [verdict]
    assert came[verdict]["path"] == A
    if verdict in ("rejected", "error"):
        assert came[verdict].get("reason", came[verdict].get("error")) == text


@pytest.mark.parametrize(
    "text",
    [
        "Error handling\n==============\nUse exceptions.\n",
        "The file format does\nnot matter.\n",
        '{"error": "is a field", "result": "and this another"}\n',
        "no such file is needed here, said the README, and went on for a while.\n" * 40,
    ],
)
def test_a_file_about_errors_is_no_error(text: str) -> None:
    assert told(PI, text, read_args={"path": A})["success"]["content"] == text


def test_a_directory_is_refused_in_the_words_of_cursors_own_client() -> None:
    came = told(PI, result("EISDIR: illegal operation on a directory", is_error=True), read_args={"path": A})
    assert came == {"invalidFile": {"path": A, "reason": "Path is a directory, not a file"}}


def test_a_file_shown_in_part_is_called_so_and_is_not_written_over() -> None:
    """An edit is a read and a write of the whole: half a file must not be saved as all of it."""
    execs = execs_for(OPENCODE)
    call(execs, read_args={"path": A})
    head = f"<path>{A}</path>\n<type>file</type>\n<content>\n1: one\n\n"
    part = f"{head}(Output capped at 50 KB. Showing lines 1-1. Use offset=2 to continue.)\n</content>"
    success = shown(execs.answer(result(part)))[0]["execClientMessage"]["readResult"]["success"]
    assert (success["content"], success["truncated"]) == ("one", True)
    refused = execs.receive(asked(2, write_args={"path": A, "file_text": "one changed"}))
    assert not isinstance(refused, ToolCall)
    reason = refused[0].exec_client_message.write_result.rejected.reason
    assert "Only a part" in reason
    assert "`edit`" in reason
    call(execs, 3, read_args={"path": A})
    execs.answer(result(f"{head}(End of file - total 1 lines)\n</content>", call_id="call_2"))
    assert isinstance(execs.receive(asked(4, write_args={"path": A, "file_text": "x"})), ToolCall)


def shown_in_part(path: str) -> ExecDispatcher:
    """The execs of a run in which the client showed only a part of a file."""
    execs = execs_for((*OPENCODE, tool("delete", {"path": STRING})))
    call(execs, read_args={"path": path})
    cut = "(Output capped at 50 KB. Showing lines 1-1. Use offset=2 to continue.)"
    execs.answer(result(f"<path>{A}</path>\n<type>file</type>\n<content>\n1: one\n\n{cut}\n</content>"))
    return execs


def test_a_file_shown_in_part_is_the_same_by_whatever_path() -> None:
    relative = A.removeprefix(f"{HERE}/")
    for one, other in ((relative, A), (A, relative), (f"./{relative}", relative)):
        assert not isinstance(
            shown_in_part(one).receive(asked(2, write_args={"path": other, "file_text": "x"})), ToolCall
        )


def test_a_file_shown_in_part_may_be_made_anew_once_it_is_gone() -> None:
    execs = shown_in_part(A)
    call(execs, 2, delete_args={"path": A})
    execs.answer(result("Deleted.", call_id="call_2"))
    assert isinstance(execs.receive(asked(3, write_args={"path": A, "file_text": "x"})), ToolCall)
    execs = shown_in_part(A)
    call(execs, 2, read_args={"path": A})
    execs.answer(result("ENOENT: no such file or directory", call_id="call_2", is_error=True))
    assert isinstance(execs.receive(asked(3, write_args={"path": A, "file_text": "x"})), ToolCall)


def test_a_shortened_line_makes_a_file_partial_too() -> None:
    line = "x" * 100 + "... (line truncated to 2000 chars)"
    text = f"<path>{A}</path>\n<type>file</type>\n<content>\n1: {line}\n\n(End of file - total 1 lines)\n</content>"
    assert told(OPENCODE, text, read_args={"path": A})["success"]["truncated"] is True


UNCHANGED = (
    "File unchanged since last read. The content from the earlier Read tool_result in this conversation is still "
    "current — refer to that instead of re-reading."
)


def test_unchanged_since_last_read_means_what_was_read_then() -> None:
    execs = execs_for(CLAUDE_CODE)
    call(execs, 1, read_args={"path": A})
    first = execs.answer(result("1\tone\n2\t"))[0].exec_client_message.read_result
    call(execs, 2, read_args={"path": A})
    again = execs.answer(result(UNCHANGED, call_id="call_2"))[0].exec_client_message.read_result
    assert again == first
    assert again.success.content == "one\n"


def test_what_was_read_before_a_write_is_not_the_content_after_it() -> None:
    execs = execs_for(CLAUDE_CODE)
    call(execs, 1, read_args={"path": A})
    execs.answer(result("1\tone\n2\t"))
    call(execs, 2, write_args={"path": A, "file_text": "two\n"})
    execs.answer(result("File written.", call_id="call_2"))
    call(execs, 3, read_args={"path": A})
    came = execs.answer(result(UNCHANGED, call_id="call_3"))[0].exec_client_message.read_result
    assert came.error.error.startswith("File unchanged")


def test_unchanged_since_a_read_nobody_knows_of_is_no_content() -> None:
    execs = execs_for(CLAUDE_CODE)
    call(execs, 1, read_args={"path": A, "limit": 3})
    came = execs.answer(result(UNCHANGED))[0].exec_client_message.read_result
    assert came.error.error.startswith("File unchanged")


def test_what_is_remembered_of_files_is_bounded() -> None:
    execs = execs_for(PI)
    for number in range(12):
        call(execs, number, read_args={"path": f"{HERE}/{number}"})
        execs.answer(result("x" * 200_000, call_id=f"call_{number + 1}"))
    call(execs, 99, read_args={"path": f"{HERE}/0"})
    oldest = execs.answer(result(UNCHANGED, call_id="call_13"))[0].exec_client_message.read_result
    assert oldest.WhichOneof("result") == "error"
    call(execs, 100, read_args={"path": f"{HERE}/11"})
    newest = execs.answer(result(UNCHANGED, call_id="call_14"))[0].exec_client_message.read_result
    assert len(newest.success.content) == 200_000


# ── Writing and deleting ─────────────────────────────────────────────────────────────────────────

WRITES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"file_text": "one\ntwo\n"}, {"linesCreated": 3, "fileSize": 8}),
    ({"file_text": "x"}, {"linesCreated": 1, "fileSize": 1}),
    ({"file_text": "é\n"}, {"linesCreated": 2, "fileSize": 3}),
    (
        {"file_text": "again\nmore\n", "return_file_content_after_write": True},
        {"linesCreated": 3, "fileSize": 11, "fileContentAfterWrite": "again\nmore\n"},
    ),
    ({"file_bytes": b"\x00\x01\x02"}, {"fileSize": 3}),
]


@pytest.mark.parametrize(("args", "expected"), WRITES, ids=str)
def test_what_was_written_is_told_as_cursors_own_client_tells_it(
    args: dict[str, Any], expected: dict[str, Any]
) -> None:
    came = told(PI, "Wrote file successfully.\n\nLSP errors detected: Error: x", write_args={"path": A, **args})
    assert came == {"success": {"path": A, **expected}}


WRITE_FAILURES: list[tuple[str, dict[str, Any]]] = [
    (
        "EACCES: permission denied, open '/x'",
        {
            "permissionDenied": {
                "path": A,
                "directory": HERE,
                "operation": "write",
                "error": "EACCES: permission denied, open '/x'",
            }
        },
    ),
    ("ENOSPC: no space left on device", {"noSpace": {"path": A}}),
    (
        "EISDIR: illegal operation on a directory, open '/x'",
        {"error": {"path": A, "error": "EISDIR: illegal operation on a directory, open '/x'"}},
    ),
    (
        "<tool_use_error>File has not been read yet. Read it first before writing to it.</tool_use_error>",
        {"error": {"path": A, "error": "File has not been read yet. Read it first before writing to it."}},
    ),
    (
        "The user doesn't want to proceed with this tool use. They said: use tabs",
        {"rejected": {"path": A, "reason": "The user doesn't want to proceed with this tool use. They said: use tabs"}},
    ),
]


@pytest.mark.parametrize(("text", "expected"), WRITE_FAILURES, ids=lambda value: str(value)[:40])
def test_why_a_file_was_not_written_is_told_in_type(text: str, expected: dict[str, Any]) -> None:
    assert told(PI, result(text, is_error=True), write_args={"path": A, "file_text": "x"}) == expected


DELETIONS: list[tuple[str, bool, dict[str, Any]]] = [
    ("Deleted.", False, {"success": {"path": A, "deletedFile": A}}),
    ("ENOENT: no such file or directory", True, {"fileNotFound": {"path": A}}),
    ("Error: /x is a directory", True, {"notFile": {"path": A, "actualType": "directory"}}),
    (
        "EPERM: operation not permitted",
        True,
        {"permissionDenied": {"path": A, "clientVisibleError": "EPERM: operation not permitted"}},
    ),
    ("EBUSY: resource busy or locked", True, {"fileBusy": {"path": A}}),
    ("User rejected the deletion", True, {"rejected": {"path": A, "reason": "User rejected the deletion"}}),
    ("disk on fire", True, {"error": {"path": A, "error": "disk on fire"}}),
]


@pytest.mark.parametrize(("text", "is_error", "expected"), DELETIONS, ids=lambda value: str(value)[:40])
def test_what_came_of_a_deletion_is_told_in_type(text: str, is_error: bool, expected: dict[str, Any]) -> None:
    assert told(CURSOR_LIKE, result(text, is_error=is_error), delete_args={"path": A}) == expected


def test_an_edit_reads_the_file_and_writes_it_whole() -> None:
    """The service edits by itself: it reads, and writes what it made of it. A file that is missing it creates."""
    execs = execs_for(CLAUDE_CODE)
    call(execs, 1, read_args={"path": A})
    read = execs.answer(result("     1→one\n     2→"))[0].exec_client_message.read_result.success.content
    changed = read.replace("one", "two")
    written = call(execs, 2, write_args={"path": A, "file_text": changed})
    assert '"content":"two\\n"' in written.arguments
    call(execs, 3, read_args={"path": f"{HERE}/new.txt"})
    missing = execs.answer(result("File does not exist.", is_error=True, call_id="call_3"))
    assert missing[0].exec_client_message.read_result.WhichOneof("result") == "file_not_found"
    created = call(execs, 4, write_args={"path": f"{HERE}/new.txt", "file_text": "x"})
    assert created.name == "Write"


# ── Tools of the client, pages, diagnostics, resources ───────────────────────────────────────────

MCP = {"name": "get_weather", "tool_name": "get_weather", "provider_identifier": "tieline"}


def test_what_a_tool_says_is_passed_on_with_its_pictures_and_its_failure() -> None:
    """As Cursor's own client does it: a failed tool is a success that says it is an error."""
    assert told(WEATHER, "18 °C", mcp_args=MCP) == {"success": {"content": [{"text": {"text": "18 °C"}}]}}
    image = Image(media_type="image/png", data=PIXEL)
    came = ToolResult(call_id="call_1", content=(Text(text="here"), image))
    [words, picture] = told(WEATHER, came, mcp_args=MCP)["success"]["content"]
    assert words == {"text": {"text": "here"}}
    assert picture == {"image": {"data": PIXEL, "mimeType": "image/png"}}
    failed = told(WEATHER, result("bad input", is_error=True), mcp_args=MCP)
    assert failed == {"success": {"content": [{"text": {"text": "bad input"}}], "isError": True}}
    assert told(WEATHER, ToolResult(call_id="call_1"), mcp_args=MCP)["success"]["content"] == [{"text": {}}]


def test_words_that_were_added_to_a_result_stay_a_part_of_their_own() -> None:
    came = ToolResult(call_id="call_1", content=(Text(text="18 °C"), Text(text="and in Paris?")))
    parts = told(WEATHER, came, mcp_args=MCP)["success"]["content"]
    assert [part["text"]["text"] for part in parts] == ["18 °C", "and in Paris?"]


def test_a_picture_by_address_and_a_document_are_named() -> None:
    parts = (
        Image(url="http://x/a.png"),
        File(media_type="application/pdf", data="JVBERi0=", name="a.pdf"),
        Image(media_type="image/png", data="not base64 \udc00"),
    )
    came = told(WEATHER, ToolResult(call_id="call_1", content=parts), mcp_args=MCP)["success"]["content"]
    assert "http://x/a.png" in came[0]["text"]["text"]
    assert "a.pdf" in came[1]["text"]["text"]
    assert came[2] == {"text": {}}


@pytest.mark.parametrize(
    "text",
    [
        "The user doesn't want to proceed with this tool use. The tool use was rejected.",
        "The user rejected permission to use this specific tool call with the following feedback: use Rome",
    ],
)
def test_a_call_the_user_refused_is_rejected_with_their_words(text: str) -> None:
    assert told(WEATHER, result(text, is_error=True), mcp_args=MCP) == {"rejected": {"reason": text}}


def test_half_a_character_is_replaced_and_ends_nothing() -> None:
    assert told(WEATHER, "a \ud83d b", mcp_args=MCP)["success"]["content"] == [{"text": {"text": "a \ufffd b"}}]
    assert told(PI, "a \ud83d b", read_args={"path": A})["success"]["content"] == "a \ufffd b"


def test_a_page_is_its_content_and_a_failure_says_why() -> None:
    url = "http://x/"
    page = told(OPENCODE, "hello from loopback", fetch_args={"url": url})
    assert page == {
        "success": {"url": url, "content": "hello from loopback", "statusCode": 200, "contentType": "text/plain"}
    }
    html = told(OPENCODE, "<html><body>x</body></html>", fetch_args={"url": url})
    assert html["success"]["contentType"] == "text/html"
    failed = told(OPENCODE, result("fetch failed", is_error=True), fetch_args={"url": url})
    assert failed == {"error": {"url": url, "error": "fetch failed"}}
    assert "error" in told(OPENCODE, "Request failed with status code: 404", fetch_args={"url": url})


DIAGNOSTICS: list[tuple[str, list[tuple[str, str, int, int]]]] = [
    ("", []),
    ("[]", []),
    ("No linter errors found.", []),
    ('[{"uri":"file:///x","diagnostics":[]}]', []),
    (
        '[{"uri":"file:///x","diagnostics":[{"message":"bad","severity":"Error","source":"pyright","code":7,'
        '"range":{"start":{"line":3,"character":4},"end":{"line":3,"character":9}}}]}]',
        [("DIAGNOSTIC_SEVERITY_ERROR", "bad", 3, 4)],
    ),
    (
        "ERROR [4:5] bad\nWARN [1:1] odd",
        [("DIAGNOSTIC_SEVERITY_ERROR", "bad", 3, 4), ("DIAGNOSTIC_SEVERITY_WARNING", "odd", 0, 0)],
    ),
    ("src/a.py:4:5: error: bad", [("DIAGNOSTIC_SEVERITY_ERROR", "bad", 3, 4)]),
    ("It looks odd to me", [("DIAGNOSTIC_SEVERITY_INFORMATION", "It looks odd to me", 0, 0)]),
    ("[1, {}, null]", [("DIAGNOSTIC_SEVERITY_INFORMATION", "[1, {}, null]", 0, 0)]),
]


@pytest.mark.parametrize(("text", "expected"), DIAGNOSTICS, ids=lambda value: str(value)[:40])
def test_diagnostics_are_read_from_json_and_from_lines(text: str, expected: list[tuple[str, str, int, int]]) -> None:
    success = told(CURSOR_LIKE, text, diagnostics_args={"path": A})["success"]
    assert success["path"] == A
    assert success.get("totalDiagnostics", 0) == len(expected)
    found = [
        (
            one["severity"],
            one["message"],
            one.get("range", {}).get("start", {}).get("line", 0),
            one.get("range", {}).get("start", {}).get("column", 0),
        )
        for one in success.get("diagnostics", [])
    ]
    assert found == expected


def test_diagnostics_of_a_missing_file_say_so() -> None:
    came = told(CURSOR_LIKE, result("File not found: x", is_error=True), diagnostics_args={"path": A})
    assert came == {"fileNotFound": {"path": A}}


def test_resources_are_listed_and_read() -> None:
    listed = told(
        CLAUDE_CODE,
        '[{"uri":"demo://one","name":"one","description":"first","mimeType":"text/plain","server":"demo"}]',
        list_mcp_resources_exec_args={},
    )
    one = {"uri": "demo://one", "name": "one", "description": "first", "mimeType": "text/plain", "server": "demo"}
    assert listed == {"success": {"resources": [one]}}
    nothing = told(CLAUDE_CODE, "No resources found.", list_mcp_resources_exec_args={})
    assert nothing == {"success": {}}
    odd = told(CLAUDE_CODE, "the server is asleep", list_mcp_resources_exec_args={})
    assert odd == {"error": {"error": "the server is asleep"}}
    args = {"server": "demo", "uri": "demo://one"}
    read = told(
        CLAUDE_CODE,
        '{"contents":[{"uri":"demo://one","mimeType":"text/plain","text":"resource text"}]}',
        read_mcp_resource_exec_args=args,
    )
    assert read == {"success": {"uri": "demo://one", "mimeType": "text/plain", "text": "resource text"}}
    blob = told(CLAUDE_CODE, '{"contents":[{"blob":"AAE="}]}', read_mcp_resource_exec_args=args)
    assert blob == {"success": {"uri": "demo://one", "blob": "AAE="}}
    failed = told(CLAUDE_CODE, result("no such server", is_error=True), read_mcp_resource_exec_args=args)
    assert failed == {"error": {"uri": "demo://one", "error": "no such server"}}


def test_a_client_with_only_a_shell_gets_its_commands_and_nothing_else() -> None:
    assert isinstance(execs_for(CODEX).receive(asked(shell_args={"command": "ls"})), ToolCall)
    assert not isinstance(execs_for(CODEX).receive(asked(ls_args={"path": HERE})), ToolCall)


@given(st.text(alphabet=st.characters(exclude_categories=()), max_size=200), st.booleans(), st.integers(0, 10))
def test_whatever_a_tool_says_there_is_an_answer(text: str, is_error: bool, cut: int) -> None:
    """Words nobody has thought of, and beginnings of those that are known, never end a run."""
    known = [said for said, *_ in OUTCOMES] + [said for _, said, _ in SHOWN] + [said for said, *_ in DIAGNOSTICS]
    words = known[cut % len(known)][: len(text)] + text
    for kind in ("read", "write", "delete", "ls", "grep", "diagnostics", "shell", "shell_stream", "fetch"):
        execs = execs_for((*CURSOR_LIKE, *OPENCODE[7:8]))
        call(execs, 1, **{f"{kind}_args": {}})
        answers = execs.answer(result(words, is_error=is_error))
        assert len(answers) >= 2
        assert all(message.SerializeToString() for message in answers)
