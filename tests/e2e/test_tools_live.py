"""What is seen of the gateway's tools while they run: by whoever looks on, and through both official clients."""

import asyncio
from pathlib import Path
from typing import Any

from tests.e2e.tools_support import DEMO, DIALECTS, PATIENCE, TELL, Dialect, Stand, call, script, serving, whole
from tests.net.upstream import until
from tests.tools.alive import Alive
from tieline.model.events import Activity, Diff, Plan
from tieline.model.inbox import Approval

TODOS = [{"id": "1", "content": "Look", "status": "in_progress"}, {"id": "2", "content": "Write"}]
DONE = [{"id": "1", "content": "Look", "status": "completed"}]


def told(stand: Stand) -> list[Activity | Plan]:
    """What whoever looks on was told in the newest leg so far."""
    bus = stand.app.gateway.bus
    events = (moment.event for leg in bus.legs()[:1] for moment in bus.detail(leg.id).events)
    return [event for event in events if isinstance(event, Activity | Plan)]


def outputs(stand: Stand) -> list[str]:
    """What is seen of calls that go on."""
    return [one.output for one in told(stand) if isinstance(one, Activity) and one.status == "in_progress"]


# ── Commands ─────────────────────────────────────────────────────────────────────────────────────


@DIALECTS
async def test_output_is_seen_while_the_command_runs_and_the_client_gets_it_once(
    tmp_path: Path, dialect: Dialect
) -> None:
    command = "echo first; until [ -e go ]; do sleep 0.01; done; echo second >&2; exit 3"
    async with serving(tmp_path, yolo=True) as stand:
        telling = stand.begin(dialect, script(call("run_terminal", command=command), TELL))
        await until(lambda: "first\n" in outputs(stand))
        (stand.root / "go").touch()
        answer = await whole(telling)
        last = told(stand)[-1]
    assert isinstance(last, Activity)
    assert (last.status, last.output) == ("failed", "first\nsecond\n(exit code: 3)")
    assert last.exit_code == 3
    assert answer.thinking == f"▸ run_terminal {command}\n✗ failed\n  first\n  second\n  (exit code: 3)\n"
    assert "exit code: 3\nstdout:\nfirst\nstderr:\nsecond" in answer.text, "the model knows which stream is which"


async def test_a_client_is_not_flooded_with_what_a_command_writes(tmp_path: Path) -> None:
    command = "exec 9>alive; for n in 1 2 3; do seq 5000; echo $n >&9; until [ -e $n ]; do sleep 0.01; done; done"
    pieces: list[str] = []

    async def take(stand: Stand) -> None:
        asked: Any = [{"role": "user", "content": script(call("run_terminal", command=command), "text: Done.")}]
        async for chunk in await stand.openai.chat.completions.create(model=DEMO, messages=asked, stream=True):
            pieces.extend(filter(None, (getattr(one.delta, "reasoning_content", None) for one in chunk.choices)))

    async with serving(tmp_path, yolo=True) as stand, Alive(stand.root) as alive:
        taking = asyncio.create_task(take(stand))
        seen = {""}
        for n in "123":
            await alive.says(n)
            await until(lambda: not seen.issuperset(outputs(stand)))
            seen.update(outputs(stand))
            (stand.root / n).touch()
        async with asyncio.timeout(PATIENCE):
            await taking
    assert len(pieces) == 2, "the beginning and the end, and nothing for each of the updates in between"
    assert pieces[0] == f"▸ run_terminal {command}\n"
    assert pieces[1].startswith("  1\n  2\n")
    assert pieces[1].endswith("  5000\n  (exit code: 0)\n")
    assert len(pieces[1]) < 1000


# ── Changes ──────────────────────────────────────────────────────────────────────────────────────


@DIALECTS
async def test_a_change_is_shown_before_it_is_allowed_and_after_it_is_made(tmp_path: Path, dialect: Dialect) -> None:
    edit = call("edit_file", path="a.txt", old_text="two\n", new_text="2\n")
    async with serving(tmp_path) as stand:
        (stand.root / "a.txt").write_text("one\ntwo\nthree\n")
        telling = stand.begin(dialect, script(edit, call("write_file", path="b.txt", content="new\n"), TELL))
        first = await stand.decide(option="allow")
        second = await stand.decide(option="allow")
        answer = await whole(telling)
        edited, written = (one for one in told(stand) if isinstance(one, Activity) and one.status == "completed")
    assert isinstance(first.content, Approval)
    assert "-two\n+2\n" in first.content.diff
    assert isinstance(second.content, Approval)
    assert "+new\n" in second.content.diff
    assert edited.diffs == (Diff(path="a.txt", old="one\ntwo\nthree\n", new="one\n2\nthree\n"),)
    assert written.diffs == (Diff(path="b.txt", old=None, new="new\n"),)
    assert answer.thinking == (
        "▸ edit_file a.txt\n  Replaced 1 occurrence in `a.txt`, at line 2.\n"
        "▸ write_file b.txt\n  Created `b.txt` (4 bytes).\n"
    )


async def test_a_change_that_is_not_allowed_is_not_shown_as_made(tmp_path: Path) -> None:
    async with serving(tmp_path) as stand:
        telling = stand.begin("openai", script(call("write_file", path="b.txt", content="new\n"), TELL))
        await stand.decide(option="deny")
        answer = await whole(telling)
        last = told(stand)[-1]
    assert isinstance(last, Activity)
    assert (last.status, last.output) == ("failed", "Denied.")
    assert last.diffs == (Diff(path="b.txt", old=None, new="new\n"),)
    assert answer.thinking == "▸ write_file b.txt\n✗ failed\n  Denied.\n"


# ── Plans ────────────────────────────────────────────────────────────────────────────────────────


def steps(stand: Stand) -> list[list[tuple[str, str]]]:
    """Every plan that was told, step by step."""
    plans = (one for one in told(stand) if isinstance(one, Plan))
    return [[(entry.content, entry.status) for entry in plan.entries] for plan in plans]


@DIALECTS
async def test_the_list_of_a_plain_model_is_a_live_plan(tmp_path: Path, dialect: Dialect) -> None:
    words = script(call("todo_write", todos=TODOS), call("todo_write", todos=DONE, merge=True), TELL)
    async with serving(tmp_path) as stand:
        answer = await stand.tell(dialect, words)
        plans = steps(stand)
    assert plans == [
        [("Look", "in_progress"), ("Write", "pending")],
        [("Look", "completed"), ("Write", "pending")],
    ]
    first, second = answer.thinking.split("Plan:\n")[1:]
    assert first.startswith("▸ Look\n○ Write\n▸ todo_write")
    assert second == "✓ Look\n○ Write\n"
    assert "[x] 1: Look" in answer.text


@DIALECTS
async def test_the_steps_of_a_plan_are_told_when_it_is_approved_and_go_on_as_the_list(
    tmp_path: Path, dialect: Dialect
) -> None:
    plan: dict[str, Any] = {"title": "Say hello", "plan": "Write it.", "todos": [{"id": "1", "content": "Look"}]}
    words = script(
        call("create_plan", **plan),
        f"text: {{{{result}}}}\n{call('create_plan', **plan)}",
        f"text: {{{{result}}}}\n{call('todo_write', todos=DONE, merge=True)}",
        TELL,
    )
    async with serving(tmp_path) as stand:
        telling = stand.begin(dialect, words, model=f"{DEMO}?mode=plan")
        await stand.decide(approved=False, feedback="Wait.")
        await stand.next_item()
        assert steps(stand) == [], "a plan that was rejected is none"
        await stand.decide(approved=True)
        answer = await whole(telling)
        plans = steps(stand)
    assert plans == [[("Look", "pending")], [("Look", "completed")]]
    assert "Its steps are now your todo list" in answer.text
    assert answer.is_over
