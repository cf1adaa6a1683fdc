"""What the service wants done by itself (files, searches, commands), done by the tools of coding clients, or refused.

The service has its own kinds of request for these. Each becomes a call of the tool that the client has for it, with the
names of that tool's schema, and its result goes back in the form of the request. A client without tools gets an answer
all the same.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pytest

from tests.e2e.cursor_support import (
    DIALECTS,
    PICTURE,
    TRANSPORTS,
    Answer,
    Dialect,
    Outcome,
    Stand,
    Talk,
    Transport,
    natively,
    serving,
)
from tests.wire.coding_clients import CLAUDE_CODE, OPENCODE
from tieline.model.request import ToolSpec
from tieline.sim.cursor import SimSettings
from tieline.wire.cursor._pb.exec_pb2 import ExecClientMessage

pytestmark = TRANSPORTS

PATH = {"path": "/p/a.py"}
SHELL = {"command": "make test"}
NEW = {"path": "/p/b.py", "content": "x = 1\n"}
CHANGE = {"path": "/p/a.py", "old_string": "print(1)", "new_string": "print(2)"}


class Case(NamedTuple):
    """What the service wants, which calls the client sees, what it gives back, and what the service understands."""

    name: str
    wish: tuple[str, dict[str, str]]
    calls: Sequence[tuple[str, Any]]
    results: Sequence[Outcome]
    understood: str


CLAUDE_CODE_CASES = (
    Case(
        "read",
        ("read", PATH),
        [("Read", {"file_path": "/p/a.py"})],
        [Outcome("     1→import os\n     2→print(1)\n     3→")],
        "<read gave: import os\nprint(1)\n>",
    ),
    Case(
        "read-missing",
        ("read", PATH),
        [("Read", {"file_path": "/p/a.py"})],
        [Outcome("<tool_use_error>File does not exist.</tool_use_error>", is_error=True)],
        "<read failed: file not found: /p/a.py>",
    ),
    Case(
        "read-picture",
        ("read", {"path": "/p/a.png"}),
        [("Read", {"file_path": "/p/a.png"})],
        [Outcome(picture=PICTURE)],
        "<read gave: >",
    ),
    Case(
        "shell",
        ("shell", SHELL),
        [("Bash", {"command": "make test", "timeout": 30_000})],
        [Outcome("all good")],
        "<shell gave: all good>",
    ),
    Case(
        "shell-failed",
        ("shell", SHELL),
        [("Bash", {"command": "make test", "timeout": 30_000})],
        [Outcome("Exit code 2\nmake: no rule", is_error=True)],
        "<shell failed: make: no rule\n(exit code 2)>",
    ),
    Case(
        "write",
        ("write", NEW),
        [("Write", {"file_path": "/p/b.py", "content": "x = 1\n"})],
        [Outcome("File created successfully at: /p/b.py")],
        "<write gave: wrote 6 bytes to /p/b.py>",
    ),
    Case(
        "write-rejected",
        ("write", NEW),
        [("Write", {"file_path": "/p/b.py", "content": "x = 1\n"})],
        [Outcome("The user doesn't want to proceed with this tool use.", is_error=True)],
        "<write failed: rejected: /p/b.py: The user doesn't want to proceed with this tool use.>",
    ),
    Case(
        "edit",
        ("edit", CHANGE),
        [
            ("Read", {"file_path": "/p/a.py"}),
            ("Write", {"file_path": "/p/a.py", "content": "import os\nprint(2)\n"}),
        ],
        [Outcome("     1→import os\n     2→print(1)\n     3→"), Outcome("The file /p/a.py has been updated.")],
        "<edit gave: wrote 19 bytes to /p/a.py>",
    ),
    Case(
        "grep",
        ("grep", {"pattern": "def", "path": "/p"}),
        [("Grep", {"pattern": "def", "path": "/p", "output_mode": "content", "-n": True})],
        [Outcome("/p/a.py:3:def main():\n/p/b.py:1:def x():")],
        "<grep gave: ./a.py:3:def main():\n./b.py:1:def x():>",
    ),
    Case(
        "ls",
        ("ls", {"path": "/p"}),
        [("LS", {"path": "/p"})],
        [Outcome("- /p/\n  - a.py\n  - src/\n    - c.py\n")],
        "<ls gave: src/\n  c.py\na.py>",
    ),
    Case(
        "glob",
        ("glob", {"pattern": "*.py"}),
        [("Glob", {"pattern": "*.py"})],
        [Outcome("/p/a.py\n/p/b.py")],
        "<glob gave: /p/a.py\n/p/b.py>",
    ),
    Case(
        "delete",
        ("delete", PATH),
        [],
        [],
        "This client has no tool of its own to delete files. Use `Bash` instead.>",
    ),
)
SHOWN = "<file>\n00001| import os\n00002| print(1)\n00003| \n\n(End of file - total 3 lines)\n</file>"
OPENCODE_CASES = (
    Case(
        "read",
        ("read", PATH),
        [("read", {"filePath": "/p/a.py"})],
        [Outcome(SHOWN)],
        "<read gave: import os\nprint(1)\n>",
    ),
    Case(
        "shell",
        ("shell", SHELL),
        [("bash", {"command": "make test", "description": "Run make test", "timeout": 30_000})],
        [Outcome("all good\n")],
        "<shell gave: all good",
    ),
    Case(
        "write",
        ("write", NEW),
        [("write", {"filePath": "/p/b.py", "content": "x = 1\n"})],
        [Outcome("Wrote file successfully.")],
        "<write gave: wrote 6 bytes to /p/b.py>",
    ),
    Case(
        "edit",
        ("edit", CHANGE),
        [
            ("read", {"filePath": "/p/a.py"}),
            ("write", {"filePath": "/p/a.py", "content": "import os\nprint(2)\n"}),
        ],
        [Outcome(SHOWN), Outcome("Wrote file successfully.")],
        "<edit gave: wrote 19 bytes to /p/a.py>",
    ),
    Case(
        "grep",
        ("grep", {"pattern": "def", "path": "/p"}),
        [("grep", {"pattern": "def", "path": "/p"})],
        [Outcome("Found 2 matches\n/p/a.py:\n  Line 3: def main():\n\n/p/b.py:\n  Line 1: def x():")],
        "<grep gave: ./a.py:3:def main():\n./b.py:1:def x():>",
    ),
    Case(
        "ls",
        ("ls", {"path": "/p"}),
        [("list", {"path": "/p"})],
        [Outcome("/p/\n  src/\n    c.py\n  a.py\n")],
        "<ls gave: src/\n  c.py\na.py>",
    ),
)


def params(client: str, cases: Sequence[Case]) -> list[Any]:
    tools: Mapping[str, Sequence[ToolSpec]] = {"claude-code": CLAUDE_CODE, "opencode": OPENCODE}
    return [pytest.param(tools[client], case, id=f"{client}-{case.name}") for case in cases]


@DIALECTS
@pytest.mark.parametrize(
    ("tools", "case"), [*params("claude-code", CLAUDE_CODE_CASES), *params("opencode", OPENCODE_CASES)]
)
async def test_a_wish_of_the_service_is_a_call_of_the_tool_the_client_has_for_it(
    transport: Transport, dialect: Dialect, tools: Sequence[ToolSpec], case: Case
) -> None:
    async with serving(transport) as stand:
        stand.plays(natively(case.wish))
        talk = stand.talk(dialect, tools)
        answer = await talk.say("go ahead")
        for called, result in zip(case.calls, case.results, strict=True):
            assert answer.called == [called]
            answer = await talk.give(result)
        assert answer.is_over
        assert case.understood in answer.text
        assert stand.sim.runs == 1


@DIALECTS
async def test_a_picture_that_the_client_read_arrives_as_its_bytes(transport: Transport, dialect: Dialect) -> None:
    async with serving(transport) as stand:
        stand.plays(natively(("read", {"path": "/p/a.png"})))
        talk = stand.talk(dialect, CLAUDE_CODE)
        await talk.say("look at it")
        await talk.give(Outcome(picture=PICTURE))
        (read,) = typed(stand)
        assert read.read_result.success.data == PICTURE


@DIALECTS
async def test_a_command_is_answered_as_a_stream_with_its_exit_code(transport: Transport, dialect: Dialect) -> None:
    async with serving(transport) as stand:
        stand.plays(natively(("shell", SHELL)))
        talk = stand.talk(dialect, CLAUDE_CODE)
        await talk.say("go ahead")
        await talk.give(Outcome("Exit code 2\nmake: no rule", is_error=True))
        messages = typed(stand)
        assert [message.WhichOneof("message") for message in messages] == ["shell_stream"] * len(messages)
        events = [message.shell_stream for message in messages]
        assert events[-1].exit.code == 2
        assert "make: no rule" in "".join(event.stdout.data + event.stderr.data for event in events)


# ── No tools ─────────────────────────────────────────────────────────────────────────────────────

WISHES: Sequence[tuple[str, dict[str, str]]] = (
    ("read", PATH),
    ("shell", SHELL),
    ("write", NEW),
    ("edit", CHANGE),
    ("grep", {"pattern": "def", "path": "/p"}),
    ("ls", {"path": "/p"}),
    ("glob", {"pattern": "*.py"}),
    ("delete", PATH),
    ("fetch", {"url": "http://example.com/"}),
)


@DIALECTS
async def test_a_client_without_tools_gets_an_answer_and_the_service_a_typed_no(
    transport: Transport, dialect: Dialect
) -> None:
    async with serving(transport) as stand:
        stand.plays(natively(*WISHES))
        answer = await stand.talk(dialect).say("go ahead")
        assert (answer.is_over, answer.calls, stand.sim.runs) == (True, (), 1)
        for name, _ in WISHES:
            assert f"<{name} failed: " in answer.text
        kinds = {refusal(message) for message in typed(stand)}
        assert kinds == {
            ("read_result", "rejected"),
            ("shell_stream", "rejected"),
            ("shell_stream", "exit"),
            ("write_result", "rejected"),
            ("grep_result", "error"),
            ("ls_result", "rejected"),
            ("delete_result", "rejected"),
            ("fetch_result", "error"),
        }


@DIALECTS
async def test_the_demo_model_with_its_own_tools_answers_a_client_that_has_none(
    transport: Transport, dialect: Dialect
) -> None:
    async with serving(transport, SimSettings(native=True)) as stand:
        answer = await stand.talk(dialect).say("read README.md, then run: ls")
        assert answer.is_over
        assert "This client runs no tools" in answer.text
        assert stand.counted == (1, 3)


async def test_the_demo_model_uses_the_files_of_a_client_that_says_it_is_cursor_s_own(transport: Transport) -> None:
    async with serving(transport, client_type="sdk") as stand:
        answer = await stand.talk("openai").say("read README.md, then run: ls")
        assert "This client runs no tools" in answer.text, "it was asked for them"


@DIALECTS
async def test_the_demo_model_with_its_own_tools_works_in_the_files_of_a_coding_client(
    transport: Transport, dialect: Dialect
) -> None:
    async with serving(transport) as stand:
        talk = stand.talk(dialect, CLAUDE_CODE)
        answer = await played(talk, {"Read": Outcome("     1→hello"), "Bash": Outcome("README.md")})
        assert "hello" in answer.text
        assert "README.md" in answer.text
        assert stand.counted == (1, 3)


async def played(talk: Talk, files: Mapping[str, Outcome]) -> Answer:
    """A turn in which the client's tools say this."""
    answer = await talk.say("read README.md, then run: ls")
    while answer.wants_tools:
        answer = await talk.give(*(files[call.name] for call in answer.calls))
    return answer


def typed(stand: Stand) -> list[ExecClientMessage]:
    """The typed answers of the latest run; the context does not count."""
    messages = [one.exec_client_message for one in stand.record.received if one.HasField("exec_client_message")]
    return [message for message in messages if not message.HasField("request_context_result")]


def refusal(message: ExecClientMessage) -> tuple[str, str]:
    """The kind of an answer, and how it says no."""
    kind = message.WhichOneof("message") or ""
    inner: Any = getattr(message, kind)
    return kind, inner.WhichOneof("event" if kind == "shell_stream" else "result")
