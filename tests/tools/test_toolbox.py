"""The toolbox as the core sees it."""

import asyncio
import logging

import pytest

from tests.tools.calling import call, done, refused, text_of
from tieline.model.content import ToolCall
from tieline.tools import files
from tieline.tools.todos import TodoList
from tieline.tools.toolbox import READ_ONLY_TOOLS, WorkspaceToolbox
from tieline.tools.workspace import Workspace

NAMES = [
    "read_file",
    "write_file",
    "edit_file",
    "list_directory",
    "search_files",
    "search_content",
    "run_terminal",
    "todo_read",
    "todo_write",
]


def test_a_box_owns_what_it_offers(box: WorkspaceToolbox) -> None:
    assert [spec.name for spec in box.specs] == NAMES
    assert all(box.owns(name) for name in NAMES)
    assert not box.owns("create_plan")
    assert not box.owns("Read_File")
    assert set(NAMES) >= READ_ONLY_TOOLS
    assert not READ_ONLY_TOOLS & {"write_file", "edit_file", "run_terminal"}


async def test_an_unknown_tool_is_refused_with_those_there_are(box: WorkspaceToolbox) -> None:
    assert await refused(box, "delete_file") == f"There is no tool `delete_file`. The tools are: {', '.join(NAMES)}."


async def test_bad_arguments_do_nothing(box: WorkspaceToolbox) -> None:
    result = await box.execute(ToolCall(id="call_7", name="write_file", arguments='{"path": "a"'))
    assert result.is_error
    assert result.call_id == "call_7"
    assert "Nothing was done" in text_of(result)


async def test_a_mistake_of_ours_is_a_result_too(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> str:
        raise ZeroDivisionError

    monkeypatch.setattr(files, "read", broken)
    with caplog.at_level(logging.ERROR, "tieline.tools"):
        said = await refused(WorkspaceToolbox(workspace, environment={}), "read_file", path="a")
    assert said == "read_file failed because of a bug in the gateway; see its log."
    assert "ZeroDivisionError" in caplog.text


async def test_a_cancelled_call_is_cancelled_and_not_a_result(box: WorkspaceToolbox) -> None:
    running = asyncio.create_task(box.execute(call("read_file", path="a")))
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_the_list_of_things_to_do_is_kept(box: WorkspaceToolbox) -> None:
    assert await done(box, "todo_read") == "The list is empty."
    todos = [{"id": "a", "content": "look", "status": "in_progress"}, {"id": "b", "content": "write"}]
    assert await done(box, "todo_write", todos=todos) == "[>] a: look\n[ ] b: write"
    changed = [
        {"id": "a", "content": "look", "status": "completed"},
        {"id": "c", "content": "rest", "status": "cancelled"},
    ]
    assert await done(box, "todo_write", todos=changed, merge=True) == "[x] a: look\n[ ] b: write\n[-] c: rest"
    assert await done(box, "todo_read") == "[x] a: look\n[ ] b: write\n[-] c: rest"
    assert await done(box, "todo_write", todos=[]) == "The list is empty."


async def test_a_list_that_does_not_fit_changes_nothing(workspace: Workspace) -> None:
    todos = TodoList()
    box = WorkspaceToolbox(workspace, environment={}, todos=todos)
    await done(box, "todo_write", todos=[{"id": "a", "content": "look"}])
    twice = [{"id": "b", "content": "one"}, {"id": "b", "content": "two"}]
    assert "more than once: b" in await refused(box, "todo_write", todos=twice)
    many = [{"id": f"{number}", "content": "x"} for number in range(100)]
    assert "101 items" in await refused(box, "todo_write", todos=many, merge=True)
    assert [item.id for item in todos.items] == ["a"]
