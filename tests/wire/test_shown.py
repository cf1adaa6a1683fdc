"""Files in a talk with the demo model: what reading tools show of them, and files for clients without tools."""

import pytest

from tests.cases import says
from tieline.demo.decision import decide
from tieline.demo.reply_steps import CallTool, Say
from tieline.model.content import Message, Text, ToolCall, ToolResult
from tieline.model.request import Request, ToolSpec
from tieline.wire.shared.file_text import ShownFile, bare, listing, unwrap

WRITE = ToolSpec(
    name="write",
    schema=b'{"type":"object","properties":{"path":{"type":"string"},"content":{"type":"string"}},"required":["path","content"]}',
)
RULES = says("system", "To change a file you MUST return a *file listing*.")
TAGGED = (
    "<path>/a.txt</path>\n<type>file</type>\n<content>\n1: one\n2: two\n\n(End of file - total 2 lines)\n</content>"
)


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        ("1\tone\n2\t\n3\ttwo\n4\t", "one\n\ntwo\n"),
        ("     1→one\n     2→two\n\n<system-reminder>\nBeware.\n</system-reminder>\n", "one\ntwo"),
        ("     1\tone\n     2\ttwo\n", "one\ntwo\n"),
        (TAGGED, "one\ntwo"),
        ("<file>\n00001| one\n\n(End of file)\n</file>", "one"),
        ("Content of a.txt:\none\n", "one\n"),
        (r'[{"query":"/a.txt","result":"1 | one\n2 | two","success":true}]', "one\ntwo"),
    ],
)
def test_what_a_reading_tool_puts_around_a_file_is_taken_off(shown: str, text: str) -> None:
    """Seen: Claude Code numbers the lines, opencode adds tags and a last line, Continue a heading, Cline JSON."""
    assert bare(shown) == text


@pytest.mark.parametrize(
    "text", ["", "[]", "one\n", "1: one\n2: two\n", "<file>\none\n</file>\n", "2\tone\n1\ttwo", "1\ta\nb"]
)
def test_a_text_that_only_looks_like_that_stays_as_it_is(text: str) -> None:
    assert bare(text) == text


NOTED = [
    (TAGGED, ShownFile("one\ntwo", total=2, is_exact=False)),
    ("     5→five\n     6→", ShownFile("five\n", first=5)),
    (
        "<file>\n00003| three\n\n(File has more lines. Use 'offset' parameter to read beyond line 3)\n</file>",
        ShownFile("three", first=3, is_cut=True),
    ),
    (
        "<path>/a</path>\n<type>file</type>\n<content>\n1: a\n\n(Showing lines 1-1 of 9. Use offset=2.)\n</content>",
        ShownFile("a", total=9, is_cut=True, is_exact=False),
    ),
    ("one\n\n[Showing lines 1-1 of 5. Use offset=2 to continue.]", ShownFile("one", total=5, is_cut=True)),
    (
        "IMPORTANT: The file content has been truncated.\nStatus: Showing lines 1-1 of 7 total lines.\n"
        "Action: read on.\n\n--- FILE CONTENT (truncated) ---\none",
        ShownFile("one", total=7, is_cut=True),
    ),
    ("1\tab... (line truncated to 2000 chars)", ShownFile("ab... (line truncated to 2000 chars)", is_cut=True)),
    ("<content>\n\n(End of file - total 0 lines)\n</content>", ShownFile("", total=0)),
    ("just text\n", ShownFile("just text\n")),
]


@pytest.mark.parametrize(("shown", "expected"), NOTED, ids=lambda value: str(value)[:40])
def test_what_a_tool_tells_about_a_file_is_kept(shown: str, expected: ShownFile) -> None:
    """Where it begins, how long it is, whether something is missing, and whether its end can be seen."""
    assert unwrap(shown) == expected


def test_a_copy_has_the_text_of_the_file() -> None:
    call = ToolCall(id="call_1", name="read")
    results = says("user", ToolResult(call_id="call_1", content=(Text(text=TAGGED),)))
    talk = (says("user", "read a.txt then write it to b.txt"), says("assistant", call), results)
    read = ToolSpec(
        name="read", schema=b'{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}'
    )
    answer = decide(Request(model="scripted", messages=talk, tools=(read, WRITE)))
    [written] = [step for step in answer.steps if isinstance(step, CallTool)]
    assert written.arguments == '{"path":"b.txt","content":"one\\ntwo"}'


def said(*messages: Message, tools: tuple[ToolSpec, ...] = ()) -> str:
    steps = decide(Request(model="scripted", messages=messages, tools=tools)).steps
    return "".join(step.text for step in steps if isinstance(step, Say))


def test_a_client_without_tools_that_wants_file_listings_gets_them() -> None:
    """Seen: aider saves each path, fence, text and fence that it finds in the answer."""
    assert said(RULES, says("user", "write hello to a.txt")) == "a.txt\n```\nhello\n```"


def test_a_listing_is_given_only_where_it_is_all_that_is_wanted() -> None:
    weather = (ToolSpec(name="get_weather"),)
    assert "I need a tool" in said(says("user", "write hello to a.txt"))
    assert "I need a tool" in said(RULES, says("user", "write hello to a.txt, then run: ls"))
    assert "I need a tool" in said(RULES, says("user", "write hello to a.txt"), tools=weather)


def test_a_fence_inside_a_listing_does_not_end_it() -> None:
    assert listing("a.md", "```\nx\n```\n") == "a.md\n````\n```\nx\n```\n````"
