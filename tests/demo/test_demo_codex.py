"""The demo model with tools like those of Codex: patches and plans."""

import json
from typing import Any, NamedTuple

from msgspec.structs import replace

from tests.cases import says
from tests.demo.test_demo import CODEX, PATCH, STRING, after, answer, ask, calls, made, text, tool
from tests.each import each
from tieline.model.request import ToolSpec

PATCH_FUNCTION = (tool("apply_patch", {"input": STRING}),)
STATUS = {"type": "string", "enum": ["pending", "in_progress", "completed"]}


def plan_tool(name: str, field: str, required: dict[str, Any], optional: dict[str, Any] | None = None) -> ToolSpec:
    """A tool that takes a list of objects with these properties in `field`."""
    item = {"type": "object", "properties": {**required, **(optional or {})}, "required": list(required)}
    return tool(name, {field: {"type": "array", "items": item}}, {"explanation": STRING})


PLAN = (plan_tool("update_plan", "plan", {"step": STRING, "status": STATUS}),)
TODOS = (plan_tool("TodoWrite", "todos", {"content": STRING, "status": STATUS, "activeForm": STRING}),)
NUMBERED = (plan_tool("write_todos", "todos", {"id": {"type": "integer"}, "title": STRING}, {"status": STATUS}),)

READ = "Chunk ID: 1bfdef\nWall time: 0.0 seconds\nProcess exited with code 0\nOriginal token count: 6\nOutput:\n"
FILE = "one x two\nthree\nx again\n"


@each("tools", [(*CODEX, *PATCH), (*CODEX, *PATCH_FUNCTION)])
def test_a_file_is_written_with_a_patch(tools: tuple[ToolSpec, ...]) -> None:
    (call,) = made(answer(ask("write `a\nb` to new.txt", tools=tools)))
    patch = "*** Begin Patch\n*** Add File: new.txt\n+a\n+b\n*** End Patch\n"
    assert call.name == "apply_patch"
    assert (call.arguments if call.freeform else json.loads(call.arguments)) == (
        patch if call.freeform else {"input": patch}
    )


def test_a_file_is_read_before_a_patch_replaces_its_lines() -> None:
    request = ask("edit a.txt: replace x with y, then run: ls", tools=(*CODEX, *PATCH))
    assert calls(answer(request)) == [("exec_command", {"cmd": "cat a.txt"})]
    request = after(request, READ + FILE)
    (call,) = made(answer(request))
    assert (call.name, call.freeform) == ("apply_patch", True)
    assert call.arguments == (
        "*** Begin Patch\n*** Update File: a.txt\n@@\n-one x two\n+one y two\n@@\n-x again\n+y again\n*** End Patch\n"
    )
    request = after(request, "Success.")
    assert calls(answer(request)) == [("exec_command", {"cmd": "ls"})]


def test_two_files_are_read_before_two_patches() -> None:
    request = ask("edit a.txt: replace x with y and edit b.txt: replace p with q", tools=(*CODEX, *PATCH))
    assert [arguments["cmd"] for _, arguments in calls(answer(request))] == ["cat a.txt", "cat b.txt"]
    patches = [call.arguments.splitlines() for call in made(answer(after(request, "an x\n", "a p\n")))]
    assert [(lines[1], lines[3:5]) for lines in patches] == [
        ("*** Update File: a.txt", ["-an x", "+an y"]),
        ("*** Update File: b.txt", ["-a p", "+a q"]),
    ]


def test_what_a_patch_cannot_express_is_left_to_the_shell() -> None:
    assert calls(answer(ask("create the file empty.txt", tools=(*CODEX, *PATCH)))) == [
        ("exec_command", {"cmd": "printf %s '' > empty.txt"})
    ]


def test_what_a_command_printed_is_written_without_the_status_of_the_command() -> None:
    request = after(ask("read a.txt then write it to b.txt", tools=CODEX), READ + "words")
    assert calls(answer(request)) == [("exec_command", {"cmd": "printf %s words > b.txt"})]


class Plan(NamedTuple):
    words: str
    tools: tuple[ToolSpec, ...]
    expected: dict[str, Any]


@each(
    "case",
    [
        Plan(
            "plan: read the code, change it and test",
            PLAN,
            {
                "plan": [
                    {"step": "read the code", "status": "in_progress"},
                    {"step": "change it", "status": "pending"},
                    {"step": "test", "status": "pending"},
                ]
            },
        ),
        Plan(
            "update the plan: look (done); change; test",
            PLAN,
            {
                "plan": [
                    {"step": "look", "status": "completed"},
                    {"step": "change", "status": "in_progress"},
                    {"step": "test", "status": "pending"},
                ]
            },
        ),
        Plan(
            "Make a plan: look (done)",
            TODOS,
            {"todos": [{"content": "look", "status": "completed", "activeForm": "look"}]},
        ),
        Plan("plan: look", NUMBERED, {"todos": [{"title": "look", "id": 1, "status": "in_progress"}]}),
    ],
)
def test_a_plan_is_shown_with_the_tool_for_plans(case: Plan) -> None:
    assert calls(answer(ask(case.words, tools=(*CODEX, *case.tools)))) == [(case.tools[0].name, case.expected)]


def test_a_plan_and_what_follows_it_are_two_steps() -> None:
    request = ask("plan: look; test, then run: ls", tools=(*CODEX, *PLAN))
    ((name, arguments),) = calls(answer(request))
    assert (name, [entry["step"] for entry in arguments["plan"]]) == ("update_plan", ["look", "test"])
    assert calls(answer(after(request, "Plan updated"))) == [("exec_command", {"cmd": "ls"})]


def test_without_a_tool_for_plans_it_says_what_it_needs() -> None:
    assert "`update_plan`" in text(answer(ask("plan: look; test", tools=CODEX)))


# ── Summaries ────────────────────────────────────────────────────────────────────────────────────

ASKS = (
    "You are performing a CONTEXT CHECKPOINT COMPACTION. Create a handoff summary for another LLM.",
    "Summarise this conversation so that it can be continued from your summary alone.",
    "Your task is to create a detailed summary of the conversation so far.",
)
TASK = "run: seq 2, then run: pwd, then run: ls"


@each("asks", ASKS)
def test_a_task_is_continued_from_a_summary(asks: str) -> None:
    begun = after(ask(TASK, tools=CODEX), "1\n2\n")
    summary = text(answer(replace(begun, messages=(*begun.messages, says("user", asks)), tools=())))
    request = ask(f"This is a summary of the earlier conversation:\n\n{summary}", tools=CODEX)
    assert calls(answer(request)) == [("exec_command", {"cmd": "pwd"})]
    request = after(request, "/home")
    assert calls(answer(request)) == [("exec_command", {"cmd": "ls"})]
    # A summary may contain another one.
    second = text(answer(replace(request, messages=(*request.messages, says("user", asks)), tools=())))
    assert calls(answer(ask(second, tools=CODEX))) == [("exec_command", {"cmd": "ls"})]
    told = text(answer(after(ask(second, tools=CODEX), "a.txt")))
    assert [word in told for word in ("1\n2", "/home", "a.txt")] == [True, True, True]


@each("joined", [False, True])
def test_what_the_user_says_after_a_summary_is_a_new_request(joined: bool) -> None:
    begun = after(ask(TASK, tools=CODEX), "1\n2\n")
    summary = text(answer(replace(begun, messages=(*begun.messages, says("user", ASKS[0])), tools=())))
    said = [f"{summary}\n\nrun: date"] if joined else [summary, "run: date"]
    assert calls(answer(ask(*said, tools=CODEX))) == [("exec_command", {"cmd": "date"})]
