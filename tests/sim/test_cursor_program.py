"""The parts of the simulated service that need no network: turns as steps, histories, results, appends."""

from base64 import b64encode
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from tests.each import each
from tests.sim.cursor_client import acknowledged, mcp_result, offering, run_request, tool
from tieline.model.content import File, Image, Message, Text, Thinking, ToolCall, ToolResult
from tieline.model.request import Request, ToolSpec
from tieline.sim.cursor import End, RunRefused, Send, ServerRun, ServerTurn, SimSettings, Step, Wait, history
from tieline.sim.cursor.exec_results import to_tool_result
from tieline.sim.cursor.http_exchange import RequestHead
from tieline.sim.cursor.parallel import Parallel
from tieline.sim.cursor.run_input import AHEAD, JOURNAL_MESSAGES, WAITING, RunInput, RunInputs
from tieline.sim.cursor.steps import Routine
from tieline.wire.cursor._pb import agent_pb2 as agent
from tieline.wire.cursor._pb import context_pb2 as context
from tieline.wire.cursor._pb import exec_kinds_pb2 as kinds
from tieline.wire.cursor._pb import exec_pb2
from tieline.wire.cursor.opening.request_context import MachineInfo, RunSettings
from tieline.wire.cursor.opening.run_request import open_run

# ── A turn as steps ──────────────────────────────────────────────────────────────────────────────


def test_a_turn_can_be_played_without_any_network() -> None:
    run = ServerRun(SimSettings())
    request = run_request("call add with a=1 b=2", mcp_tools=offering(tool("add", a="number", b="number")))
    request.run_request.action.user_message_action.request_context.CopyFrom(context.RequestContext())
    run.receive(request)
    said = []
    for step in ServerTurn(run).play():
        if isinstance(step, Send):
            message = agent.AgentServerMessage.FromString(step.message)
            said.append(message.interaction_update.WhichOneof("message") or message.WhichOneof("message"))
            _answer(run, message)
        elif isinstance(step, Wait):
            assert step.until()
        else:
            assert step == End()
    assert run.legs == 2
    assert said[:4] == ["heartbeat", "kv_server_message", "kv_server_message", "step_started"]
    assert [one for one in dict.fromkeys(said) if one in ("tool_call_started", "exec_server_message")] == [
        "tool_call_started",
        "exec_server_message",
    ]
    assert said[-2:] == ["conversation_checkpoint_update", "turn_ended"]


def test_patience_that_runs_out_ends_the_run() -> None:
    run = ServerRun(SimSettings())
    run.receive(run_request("say hello"))
    with pytest.raises(RunRefused, match="a blob") as refused:
        # Nobody answers, and every wait is over at once.
        list(ServerTurn(run).play())
    assert refused.value.refusal.code == "deadline_exceeded"


def test_a_run_that_is_sent_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tieline.sim.cursor.server_run.HELD_LIMIT", 4096)
    run = ServerRun(SimSettings())
    large = mcp_result(1, "x" * 1024)
    for _ in range(3):
        run.receive(large)
    with pytest.raises(RunRefused, match="too much"):
        run.receive(large)


def test_doings_side_by_side_wait_together_and_keep_their_order() -> None:
    ready: set[str] = set()

    def doing(name: str) -> Routine[str]:
        yield Send(name.encode())
        yield Wait(lambda: name in ready)
        yield Send(name.upper().encode())
        return name

    together = Parallel([doing("a"), doing("b")])
    assert list(together.begin()) == [Send(b"a"), Send(b"b")]
    said: list[Step] = []
    results = _finished(together.finish(), said, ready)
    assert said == [Send(b"B"), Send(b"A")]
    assert results == ["a", "b"]


# ── Histories ────────────────────────────────────────────────────────────────────────────────────

PART_CASES: tuple[tuple[Any, Message | None], ...] = (
    ({"role": "user", "content": "hi"}, Message(role="user", parts=(Text(text="hi"),))),
    ({"role": "user", "content": [{"type": "text", "text": "hi"}]}, Message(role="user", parts=(Text(text="hi"),))),
    ({"role": "system", "content": "you are"}, None),
    ({"role": "user", "content": ""}, None),
    ({"role": "user", "content": [{"type": "surprise"}, 7]}, None),
    (["no message"], None),
    (
        {"role": "assistant", "content": [{"type": "reasoning", "text": "hm"}, {"type": "text", "text": "yes"}]},
        Message(role="assistant", parts=(Thinking(text="hm"), Text(text="yes"))),
    ),
    (
        {"role": "assistant", "content": [{"type": "tool-call", "toolCallId": "1", "toolName": "a", "args": {"x": 1}}]},
        Message(role="assistant", parts=(ToolCall(id="1", name="a", arguments='{"x":1}'),)),
    ),
    (
        {"role": "assistant", "content": [{"type": "tool-call", "toolCallId": "1", "toolName": "a", "input": "raw"}]},
        Message(role="assistant", parts=(ToolCall(id="1", name="a", arguments="raw"),)),
    ),
    (
        {"role": "tool", "content": [{"type": "tool-result", "toolCallId": "1", "result": "ok", "isError": True}]},
        Message(role="user", parts=(ToolResult(call_id="1", content=(Text(text="ok"),), is_error=True),)),
    ),
    (
        {
            "role": "tool",
            "content": [{"type": "tool-result", "toolCallId": "1", "output": {"type": "error-text", "value": "no"}}],
        },
        Message(role="user", parts=(ToolResult(call_id="1", content=(Text(text="no"),), is_error=True),)),
    ),
    (
        {"role": "tool", "content": [{"type": "tool-result", "toolCallId": "1", "result": {"a": 1}}]},
        Message(role="user", parts=(ToolResult(call_id="1", content=(Text(text='{"a":1}'),)),)),
    ),
    (
        {
            "role": "user",
            "content": [{"type": "image", "image": "data:image/png;base64,AAAA", "mimeType": "image/png"}],
        },
        Message(role="user", parts=(Image(media_type="image/png", data="AAAA"),)),
    ),
    (
        {"role": "user", "content": [{"type": "image", "image": "https://x/y.png"}]},
        Message(role="user", parts=(Image(url="https://x/y.png"),)),
    ),
    (
        {"role": "user", "content": [{"type": "file", "data": "AAAA", "mediaType": "a/b", "filename": "c"}]},
        Message(role="user", parts=(File(media_type="a/b", data="AAAA", name="c"),)),
    ),
)


@each(("written", "meant"), PART_CASES)
def test_every_form_of_a_message_is_understood(written: object, meant: Message | None) -> None:
    assert history.read(msgspec.json.encode(written)) == meant


@pytest.mark.parametrize("data", [b"", b"\xff", b"[" * 100_000, b'{"role":'])
def test_what_is_no_message_is_left_out(data: bytes) -> None:
    assert history.read(data) is None


def test_what_was_written_is_read_back() -> None:
    result = ToolResult(call_id="1", content=(Text(text="ok"), Image(media_type="image/png", data="AAAA")))
    for message in (
        Message(
            role="assistant", parts=(Thinking(text="hm"), Text(text="a"), ToolCall(id="1", name="x", arguments="{}"))
        ),
        Message(role="user", parts=(result,)),
        Message(role="user", parts=(Text(text="a"), Image(media_type="image/png", data="AAAA"))),
    ):
        (data,) = history.write(message)
        assert history.read(data) == message
    both = history.write(Message(role="user", parts=(result, Text(text="and this"))))
    assert [msgspec.json.decode(data)["role"] for data in both] == ["tool", "user"]


@pytest.mark.parametrize("text", ["hello", "", "Dear User: hello", "say User: hello", "a\n\nUser: b"])
def test_plain_words_are_no_transcript(text: str) -> None:
    assert history.transcript(text) is None


def test_a_conversation_written_as_text_is_heard_as_one() -> None:
    text = 'System: be nice\n\nUser: add\n\nAssistant: Sure. [Called tool: add({"a":1})]\n\n[Tool result for x]: 2\n'
    assert history.transcript(text) == [
        Message(role="user", parts=(Text(text="be nice"),)),
        Message(role="user", parts=(Text(text="add"),)),
        Message(role="assistant", parts=(Text(text="Sure."), ToolCall(id="call_2", name="add", arguments='{"a":1}'))),
        Message(role="user", parts=(ToolResult(call_id="call_2", content=(Text(text="2"),)),)),
    ]


def test_a_conversation_written_as_a_record_is_heard_as_one() -> None:
    request = Request(
        model="demo",
        messages=(
            Message(role="user", parts=(Text(text="add"),)),
            Message(role="assistant", parts=(Text(text="Sure."), ToolCall(id="c1", name="add", arguments='{"a":1}'))),
            Message(role="user", parts=(ToolResult(call_id="c1", content=(Text(text="2\n3"),), is_error=True),)),
        ),
        tools=(ToolSpec(name="add"),),
    )
    for more in (
        (),
        (Message(role="assistant", parts=(Text(text="3."),)), Message(role="user", parts=(Text(text="ok"),))),
    ):
        asked = replace(request, messages=(*request.messages, *more))
        opening = open_run(
            asked,
            settings=RunSettings(history="text"),
            machine_info=MachineInfo(),
            conversation_id="c",
            run_id="r",
            message_id="m",
        )
        action = agent.AgentClientMessage.FromString(opening.message).run_request.action
        heard = history.transcript(action.user_message_action.user_message.text)
        assert heard is not None
        assert [_renamed(message) for message in heard] == list(asked.messages)


# ── Results ──────────────────────────────────────────────────────────────────────────────────────

_MATCH = kinds.GrepFileMatch(file="./a", matches=[kinds.GrepContentMatch(line_number=3, content="salt")])
_FOUND = kinds.GrepUnionResult(content=kinds.GrepContentResult(matches=[_MATCH]))
_COUNTED = kinds.GrepUnionResult(count=kinds.GrepCountResult(counts=[kinds.GrepFileCount(file="./a", count=2)]))
_TREE = kinds.LsDirectoryTreeNode(
    abs_path="/p",
    children_dirs=[kinds.LsDirectoryTreeNode(abs_path="/p/src", children_files=[{"name": "a.py"}])],
    children_files=[{"name": "README.md"}],
)
RESULT_CASES: tuple[tuple[dict[str, Any], str, bool], ...] = (
    ({"read_result": kinds.ReadResult(success={"content": "salt"})}, "salt", False),
    ({"read_result": kinds.ReadResult(success={"data": b"\0\1"})}, "2 bytes of binary data", False),
    ({"read_result": kinds.ReadResult(file_not_found={"path": "/x"})}, "file not found: /x", True),
    ({"read_result": kinds.ReadResult(rejected={"path": "/x", "reason": "no"})}, "rejected: /x: no", True),
    ({"write_result": kinds.WriteResult(success={"path": "/x", "file_size": 4})}, "wrote 4 bytes to /x", False),
    ({"delete_result": kinds.DeleteResult(success={"path": "/x"})}, "deleted /x", False),
    ({"ls_result": kinds.LsResult(success={"directory_tree_root": _TREE})}, "src/\n  a.py\nREADME.md", False),
    ({"grep_result": kinds.GrepResult(success={"workspace_results": {"/p": _FOUND}})}, "./a:3:salt", False),
    ({"grep_result": kinds.GrepResult(success={"workspace_results": {"/p": _COUNTED}})}, "./a: 2", False),
    ({"shell_result": kinds.ShellResult(success={"stdout": "a", "stderr": "b"})}, "ab", False),
    ({"shell_result": kinds.ShellResult(spawn_error={"command": "x", "error": "no"})}, "spawn error: no", True),
    ({"shell_stream": kinds.ShellStream(exit={"code": 3})}, "\n(exit code 3)", True),
    ({"shell_stream": kinds.ShellStream(rejected={"reason": "no"})}, "rejected: no", True),
    ({"shell_stream": kinds.ShellStream(backgrounded={"shell_id": 7})}, "runs as shell 7", False),
    ({"fetch_result": kinds.FetchResult(success={"content": "page"})}, "page", False),
    ({"mcp_result": kinds.McpResult(error={"error": "no"})}, "error: no", True),
    ({"mcp_result": kinds.McpResult(tool_not_found={"name": "x"})}, "tool not found: x", True),
    (
        {"mcp_result": kinds.McpResult(success={"content": [{"text": {"text": "no"}}], "is_error": True})},
        "no",
        True,
    ),
    ({"diagnostics_result": kinds.DiagnosticsResult(success={"path": "/x"})}, '{"path": "/x"}', False),
    ({}, "no result", True),
)


@each(("fields", "text", "is_error"), RESULT_CASES)
def test_every_typed_result_is_told_in_words(fields: dict[str, Any], text: str, is_error: bool) -> None:
    result = to_tool_result("c", [exec_pb2.ExecClientMessage(id=1, **fields)], None)
    assert "".join(part.text for part in result.content if isinstance(part, Text)) == text
    assert (result.call_id, result.is_error) == ("c", is_error)


def test_a_picture_is_a_picture_and_a_throw_is_an_error() -> None:
    png = b"\x89PNG"
    picture = Image(media_type="image/png", data=b64encode(png).decode())
    read = exec_pb2.ExecClientMessage(read_result=kinds.ReadResult(success={"data": png}))
    assert to_tool_result("c", [read], None).content == (picture,)
    item = kinds.McpToolResultContentItem(image={"data": png, "mime_type": "image/png"})
    called = exec_pb2.ExecClientMessage(mcp_result=kinds.McpResult(success={"content": [item]}))
    assert to_tool_result("c", [called], None).content == (picture,)
    assert to_tool_result("c", [], "boom") == ToolResult(call_id="c", content=(Text(text="boom"),), is_error=True)


# ── Appends ──────────────────────────────────────────────────────────────────────────────────────


def test_a_missing_append_that_too_many_wait_for_ends_the_run() -> None:
    line = _line()
    line.append(0, run_request("hello").SerializeToString())
    for number in range(2, AHEAD + 3):
        line.append(number, acknowledged(number).SerializeToString())
    assert line.failure is not None
    assert line.failure.refusal.code == "out_of_range"


def test_the_journal_keeps_the_latest_of_too_much() -> None:
    line = _line()
    for number in range(JOURNAL_MESSAGES + 5):
        line.receive(acknowledged(number).SerializeToString())
    assert len(line.record.received) == JOURNAL_MESSAGES
    assert line.record.received[0].kv_client_message.id == 5
    line.receive(mcp_result(1, "x" * 20_000_000).SerializeToString())
    assert line.record.kinds == ["exec_client_message"]


def test_runs_nobody_listens_to_are_forgotten_when_there_are_too_many() -> None:
    lines = RunInputs(lambda head, request_id: _line())
    first = lines.append_to(_HEAD, "first")
    for number in range(WAITING):
        lines.append_to(_HEAD, str(number))
    assert lines.append_to(_HEAD, "first") is not first
    assert lines.open(_HEAD, "first") is not None
    assert lines.open(_HEAD, "first") is None
    lines.close("first")
    assert lines.append_to(_HEAD, "first") is None


_HEAD = RequestHead(method="POST", target="/")


def _renamed(message: Message) -> Message:
    """With the client's own names for its tools, as far as this test has any."""
    parts = [replace(part, name="add") if isinstance(part, ToolCall) else part for part in message.parts]
    return replace(message, parts=tuple(parts))


def _line() -> RunInput:
    return RunInput(ServerRun(SimSettings()), _HEAD, lambda: None)


def _answer(run: ServerRun, message: agent.AgentServerMessage) -> None:
    if message.HasField("kv_server_message"):
        run.receive(acknowledged(message.kv_server_message.id))
    if message.HasField("exec_server_message"):
        run.receive(mcp_result(message.exec_server_message.id, "3"))


def _finished(steps: Routine[list[str]], said: list[Step], ready: set[str]) -> list[str]:
    """Plays what is left; what is waited for becomes ready from the back to the front."""
    waiting: Iterator[str] = iter("ba")
    while True:
        try:
            step = next(steps)
        except StopIteration as stop:
            results: list[str] = stop.value
            return results
        if isinstance(step, Wait):
            ready.add(next(waiting))
            assert step.until()
        else:
            said.append(step)
