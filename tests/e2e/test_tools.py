"""Tools of the gateway through both official clients: what is done, what is asked, and what becomes of each answer."""

import asyncio
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

from tests.e2e.tools_support import (
    DEMO,
    DIALECTS,
    PATIENCE,
    STREAMED_OR_WHOLE,
    TELL,
    Dialect,
    call,
    script,
    serving,
    whole,
)
from tests.tools.alive import Alive
from tieline.model.inbox import Approval, PlanReview, Question

WRITE = script(call("write_file", path="a.txt", content="new\n"), TELL)


# ── Done at once ─────────────────────────────────────────────────────────────────────────────────


@DIALECTS
@STREAMED_OR_WHOLE
async def test_a_read_is_done_at_once_and_shown_as_reasoning(tmp_path: Path, dialect: Dialect, stream: bool) -> None:
    async with serving(tmp_path) as stand:
        (stand.root / "a.txt").write_text("the contents\n")
        told = await stand.tell(
            dialect, script(f"text: Let me look.\n{call('read_file', path='a.txt')}", TELL), stream=stream
        )
        assert stand.inbox.version == 0, "nobody was asked"
    assert told.is_over
    assert told.thinking.startswith("▸ read_file a.txt\n")
    assert "the contents" in told.thinking
    assert told.text.startswith("Let me look.\n\nIt said: ")
    assert "the contents" in told.text


@DIALECTS
async def test_what_is_done_can_be_shown_as_text(tmp_path: Path, dialect: Dialect) -> None:
    async with serving(tmp_path, activity="text") as stand:
        (stand.root / "a.txt").write_text("the contents\n")
        told = await stand.tell(dialect, script(call("read_file", path="a.txt"), "text: Done."))
    assert told.thinking == ""
    assert told.text.startswith("▸ read_file a.txt\n")
    assert told.text.endswith("\n\nDone.")


@DIALECTS
async def test_what_is_done_can_be_hidden(tmp_path: Path, dialect: Dialect) -> None:
    async with serving(tmp_path, activity="hidden") as stand:
        told = await stand.tell(dialect, script(call("list_directory"), "text: Done."))
    assert told == ("Done.", "", (), told.ending)


@DIALECTS
async def test_the_demo_model_works_in_plain_words_for_a_client_without_tools(tmp_path: Path, dialect: Dialect) -> None:
    async with serving(tmp_path) as stand:
        (stand.root / "README.md").write_text("# Hello there\n")
        told = await stand.tell(dialect, "read README.md")
    assert "Hello there" in told.text


# ── Permissions ──────────────────────────────────────────────────────────────────────────────────


@DIALECTS
@STREAMED_OR_WHOLE
async def test_a_write_that_is_allowed_is_done(tmp_path: Path, dialect: Dialect, stream: bool) -> None:
    async with serving(tmp_path) as stand:
        telling = stand.begin(dialect, WRITE, stream=stream)
        item = await stand.next_item()
        assert not (stand.root / "a.txt").exists()
        assert isinstance(item.content, Approval)
        assert (item.content.title, item.content.path) == ("Create a.txt", "a.txt")
        assert "+new" in item.content.diff
        assert item.origin.model == DEMO
        assert item.origin.title.startswith("```tieline")
        assert (await stand.answer(item, option="allow")).status_code == 200
        told = await whole(telling)
        assert (stand.root / "a.txt").read_text() == "new\n"
    assert told.is_over
    assert "Created `a.txt`" in told.text


@DIALECTS
@STREAMED_OR_WHOLE
async def test_a_write_that_is_denied_is_not_done_and_the_model_hears_why(
    tmp_path: Path, dialect: Dialect, stream: bool
) -> None:
    async with serving(tmp_path) as stand:
        telling = stand.begin(dialect, WRITE, stream=stream)
        await stand.decide(option="deny", reason="Not on a Sunday.")
        told = await whole(telling)
        assert not (stand.root / "a.txt").exists()
        assert [entry["what"] for entry in stand.audit()] == ["asked", "decided"]
    assert told.is_over
    assert "did not allow this. Not on a Sunday." in told.text
    assert "✗ failed" in told.thinking


@DIALECTS
@STREAMED_OR_WHOLE
async def test_145_what_nobody_answers_is_denied_after_a_while_with_a_reason(
    tmp_path: Path, dialect: Dialect, stream: bool
) -> None:
    async with serving(tmp_path, waits=0.01) as stand:
        told = await stand.tell(dialect, WRITE, stream=stream)
        assert not (stand.root / "a.txt").exists()
        assert [entry["what"] for entry in stand.audit()] == ["asked", "expired"]
    assert told.is_over
    assert "Nobody answered within 0.01 seconds." in told.text


@DIALECTS
async def test_always_is_not_asked_again_survives_a_restart_and_can_be_revoked(
    tmp_path: Path, dialect: Dialect
) -> None:
    async with serving(tmp_path) as stand:
        telling = stand.begin(dialect, WRITE)
        await stand.decide(option="always")
        await whole(telling)
        asked = stand.inbox.version
        assert "Replaced" in (await stand.tell(dialect, WRITE)).text
        assert stand.inbox.version == asked
    async with serving(tmp_path) as stand:
        assert "Replaced" in (await stand.tell(dialect, WRITE)).text
        assert stand.inbox.version == 0
        (rule,) = (await stand.http.get("/api/rules")).json()["rules"]
        assert (await stand.http.delete(f"/api/rules/{rule['id']}")).status_code == 200
        telling = stand.begin(dialect, WRITE)
        await stand.decide(option="deny")
        assert "did not allow" in (await whole(telling)).text
        ruled = [entry for entry in stand.audit() if entry["what"] == "ruled"]
    assert [entry["call"]["path"] for entry in ruled] == ["a.txt", "a.txt"]
    async with serving(tmp_path, waits=0.01) as stand:
        assert "Nobody answered" in (await stand.tell(dialect, WRITE)).text


@DIALECTS
@STREAMED_OR_WHOLE
async def test_a_command_asks_with_its_whole_text_and_sees_only_what_it_may(
    tmp_path: Path, dialect: Dialect, stream: bool
) -> None:
    command = "echo $GREETING, ${TIELINE_KEY:-no key}; exit 3"
    async with serving(tmp_path, environment=("PATH", "GREETING")) as stand:
        telling = stand.begin(dialect, script(call("run_terminal", command=command), TELL), stream=stream)
        item = await stand.decide(option="allow")
        told = await whole(telling)
    assert isinstance(item.content, Approval)
    assert item.content.command == command
    assert "exit code: 3" in told.text
    assert "hello, no key" in told.text


@DIALECTS
async def test_with_everything_allowed_nobody_is_asked_and_it_is_written_down(tmp_path: Path, dialect: Dialect) -> None:
    async with serving(tmp_path, yolo=True) as stand:
        told = await stand.tell(dialect, script(call("run_terminal", command="echo 42"), TELL))
        assert stand.inbox.version == 0
        (entry,) = stand.audit()
    assert "42" in told.text
    assert (entry["what"], entry["decision"], entry["call"]["command"]) == ("ruled", "allow", "echo 42")


async def test_several_calls_are_asked_one_after_the_other(tmp_path: Path) -> None:
    lines = [call("write_file", path=f"{name}.txt", content=name) for name in "ab"]
    async with serving(tmp_path) as stand:
        telling = stand.begin("openai", script("\n".join(lines), "text: {{result}} {{result:2}}"))
        first = await stand.decide(option="allow")
        second = await stand.decide(option="deny")
        told = await whole(telling)
        assert (stand.root / "a.txt").exists()
        assert not (stand.root / "b.txt").exists()
    assert [item.content.path for item in (first, second) if isinstance(item.content, Approval)] == ["a.txt", "b.txt"]
    assert "✓ write_file a.txt" in told.thinking
    assert "✗ write_file b.txt" in told.thinking


async def test_two_conversations_wait_and_are_answered_each_for_itself(tmp_path: Path) -> None:
    async with serving(tmp_path) as stand:
        mine = stand.begin("openai", script(call("write_file", path="mine", content="x"), TELL))
        first = await stand.next_item()
        yours = stand.begin("anthropic", script(call("write_file", path="yours", content="x"), TELL))
        async with asyncio.timeout(PATIENCE):
            while len(stand.inbox.items) < 2:
                await stand.inbox.change(stand.inbox.version)
        second = stand.inbox.items[1]
        await stand.answer(second, option="allow")
        assert "Created `yours`" in (await whole(yours)).text
        await stand.answer(first, option="deny")
        assert "did not allow" in (await whole(mine)).text


# ── A client that leaves ─────────────────────────────────────────────────────────────────────────


@DIALECTS
@STREAMED_OR_WHOLE
async def test_a_client_that_leaves_withdraws_what_was_asked_for_it(
    tmp_path: Path, dialect: Dialect, stream: bool
) -> None:
    async with serving(tmp_path) as stand:
        telling = stand.begin(dialect, WRITE, stream=stream)
        item = await stand.next_item()
        telling.cancel()
        await asyncio.wait([telling])
        await stand.nothing_waits()
        assert (await stand.answer(item, option="allow")).status_code == 404
        assert not (stand.root / "a.txt").exists()
        assert [entry["what"] for entry in stand.audit()] == ["asked", "withdrawn"]


@DIALECTS
async def test_a_client_that_leaves_ends_the_command_that_runs_for_it(tmp_path: Path, dialect: Dialect) -> None:
    command = "exec 9>alive; echo started >&9; sleep 60 & sleep 60"
    async with serving(tmp_path) as stand, Alive(stand.root) as alive:
        telling = stand.begin(dialect, script(call("run_terminal", command=command), TELL))
        await stand.decide(option="allow")
        await alive.says("started")
        telling.cancel()
        await asyncio.wait([telling])
        await alive.is_over()


# ── Plans and modes ──────────────────────────────────────────────────────────────────────────────

PLAN: dict[str, Any] = {"title": "Say hello", "plan": "# Plan\n\nWrite it.", "todos": [{"id": "1", "content": "Write"}]}


@DIALECTS
@STREAMED_OR_WHOLE
async def test_a_plan_is_rejected_with_feedback_then_approved_then_carried_out(
    tmp_path: Path, dialect: Dialect, stream: bool
) -> None:
    words = script(
        call("write_file", path="a.txt", content="too early"),
        f"text: {{{{result}}}}\n{call('create_plan', **PLAN)}",
        f"text: {{{{result}}}}\n{call('create_plan', **{**PLAN, 'title': 'Say it shorter'})}",
        f"text: {{{{result}}}}\n{call('write_file', path='a.txt', content='hello')}",
        TELL,
    )
    async with serving(tmp_path) as stand:
        telling = stand.begin(dialect, words, stream=stream, model=f"{DEMO}?mode=plan")
        first = await stand.decide(approved=False, feedback="Shorter, please.")
        second = await stand.decide(approved=True)
        third = await stand.decide(option="allow")
        told = await whole(telling)
        assert (stand.root / "a.txt").read_text() == "hello"
    assert isinstance(first.content, PlanReview)
    assert (first.content.title, first.content.plan) == ("Say hello", "# Plan\n\nWrite it.")
    assert isinstance(second.content, PlanReview)
    assert second.content.title == "Say it shorter"
    assert isinstance(third.content, Approval)
    assert "not available in plan mode" in told.text
    assert "The plan was not approved. Shorter, please." in told.text
    assert "The plan is approved." in told.text


@DIALECTS
async def test_in_chat_there_are_no_tools(tmp_path: Path, dialect: Dialect) -> None:
    async with serving(tmp_path) as stand:
        told = await stand.tell(dialect, script(call("read_file", path="a.txt"), TELL), model=f"{DEMO}?mode=chat")
        assert stand.inbox.version == 0
    assert "read_file is not available in chat mode" in told.text


@STREAMED_OR_WHOLE
async def test_a_mode_there_is_not_is_refused_with_those_there_are(tmp_path: Path, stream: bool) -> None:
    async with serving(tmp_path) as stand:
        for dialect, error in (("openai", openai.BadRequestError), ("anthropic", anthropic.BadRequestError)):
            with pytest.raises(error, match="the modes are chat, plan, agent"):
                await stand.tell(dialect, "Hi", model=f"{DEMO}?mode=party", stream=stream)  # type: ignore[arg-type] # a tuple of strings


@DIALECTS
async def test_the_model_may_ask_for_another_mode(tmp_path: Path, dialect: Dialect) -> None:
    words = script(call("switch_mode", mode="agent", reason="It is a small thing."), TELL)
    async with serving(tmp_path) as stand:
        telling = stand.begin(dialect, words, model=f"{DEMO}?mode=plan")
        item = await stand.decide(option="allow")
        told = await whole(telling)
    assert isinstance(item.content, Approval)
    assert (item.content.kind, item.content.detail) == ("switch_mode", "It is a small thing.")
    assert "The mode is now `agent`." in told.text


# ── Questions ────────────────────────────────────────────────────────────────────────────────────

CHOICE = {"kind": "choice", "options": [{"label": "red"}, {"label": "blue"}]}
QUESTIONS: list[tuple[dict[str, Any], Any, Any, str]] = [
    ({"kind": "yes_no"}, "perhaps", True, "yes"),
    (CHOICE, "green", "blue", "blue"),
    ({**CHOICE, "multiple": True}, ["red", "green"], ["red", "blue"], "red, blue"),
    ({"kind": "text"}, 5, "in words", "in words"),
    ({"kind": "number", "minimum": 1, "maximum": 5}, 6, 4, "4"),
    ({"kind": "file"}, "", "docs/a.md", "docs/a.md"),
    ({"kind": "file"}, "docs/b.md", "docs/a.md", "docs/a.md"),
]


@DIALECTS
@pytest.mark.parametrize(("question", "wrong", "right", "words"), QUESTIONS)
async def test_a_wrong_answer_to_a_question_is_refused_and_a_right_one_reaches_the_model(
    tmp_path: Path, dialect: Dialect, question: dict[str, Any], wrong: Any, right: Any, words: str
) -> None:
    async with serving(tmp_path) as stand, stand.watched():
        (stand.root / "docs").mkdir()
        (stand.root / "docs" / "a.md").write_text("a")
        telling = stand.begin(dialect, script(call("ask_question", question="What now?", **question), TELL))
        item = await stand.next_item()
        assert isinstance(item.content, Question)
        assert item.content.fields[0].kind == question["kind"]
        refused = await stand.answer(item, values={"answer": wrong})
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, "values.answer")
        await stand.decide(action="accept", values={"answer": right})
        assert f"The user answered: {words}" in (await whole(telling)).text


@DIALECTS
@STREAMED_OR_WHOLE
async def test_a_question_can_be_declined(tmp_path: Path, dialect: Dialect, stream: bool) -> None:
    async with serving(tmp_path) as stand, stand.watched():
        telling = stand.begin(dialect, script(call("ask_question", question="Why?"), TELL), stream=stream)
        await stand.decide(action="decline")
        told = await whole(telling)
    assert told.is_over
    assert "The user declined to answer." in told.text


@DIALECTS
async def test_where_nobody_is_at_the_inbox_the_model_is_told_to_ask_in_its_answer(
    tmp_path: Path, dialect: Dialect
) -> None:
    async with serving(tmp_path) as stand:
        told = await stand.tell(dialect, script(call("ask_question", question="Why?"), TELL))
        assert stand.inbox.version == 0
    assert "End your turn with the question in plain text" in told.text


# ── A client with tools of its own ───────────────────────────────────────────────────────────────

OWN: dict[Dialect, Any] = {
    "openai": [{"type": "function", "function": {"name": "write_file", "parameters": {"type": "object"}}}],
    "anthropic": [{"name": "write_file", "input_schema": {"type": "object"}}],
}


@DIALECTS
@STREAMED_OR_WHOLE
async def test_a_client_that_brings_tools_gets_none_of_ours_and_runs_its_calls_itself(
    tmp_path: Path, dialect: Dialect, stream: bool
) -> None:
    async with serving(tmp_path, yolo=True) as stand:
        told = await stand.tell(dialect, WRITE, stream=stream, tools=OWN[dialect])
        listing = await stand.tell(dialect, "What tools do you have?", stream=stream, tools=OWN[dialect])
        assert not (stand.root / "a.txt").exists()
    assert told.calls == (("write_file", {"path": "a.txt", "content": "new\n"}),)
    assert told.ending in ("tool_calls", "tool_use")
    assert "run_terminal" not in listing.text
