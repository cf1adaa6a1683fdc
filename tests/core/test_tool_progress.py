"""A call of the gateway's tools under way, as the activity that others see."""

import pytest

from tieline.core.legs.tool_progress import RunningCall
from tieline.model.content import Text, ToolResult
from tieline.model.events import Activity, Diff, Event
from tieline.model.ports import Progress, Report

RUN = Activity(id="1", kind="execute", title="run_terminal make")
EDIT = Activity(id="2", kind="edit", title="edit_file a")
DIFF = Diff(path="a", old="x\n", new="y\n")


async def last(activity: Activity, progress: Progress, result: ToolResult) -> Activity:
    """The activity at its end."""

    async def work(report: Report) -> ToolResult:
        report(progress)
        return result

    doing = RunningCall(activity, work)
    shown: list[Event] = []
    while doing.result is None:
        shown = await doing.events()
    (ended,) = shown
    assert isinstance(ended, Activity)
    return ended


@pytest.mark.parametrize(("code", "status"), [(0, "completed"), (3, "failed")])
async def test_a_command_that_fails_is_a_failed_activity_with_its_exit_code(code: int, status: str) -> None:
    progress = Progress(output=f"(exit code: {code})", exit_code=code, is_failed=code != 0)
    result = ToolResult(call_id="1", content=(Text(text=f"exit code: {code}"),))
    shown = await last(RUN, progress, result)
    assert (shown.status, shown.exit_code) == (status, code)
    assert not result.is_error, "the model reads the exit code and decides for itself"


async def test_a_refused_edit_shows_its_diff_and_not_the_words_meant_for_the_model() -> None:
    refused = ToolResult(
        call_id="2", content=(Text(text="The user did not allow this. Do not try again."),), is_error=True
    )
    shown = await last(EDIT, Progress(output="Denied.", diffs=(DIFF,)), refused)
    assert (shown.status, shown.output, shown.diffs) == ("failed", "Denied.", (DIFF,))
