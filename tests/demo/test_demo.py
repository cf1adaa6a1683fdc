"""The demo model: plain words to tool calls, results to answers, and the limits a client sets."""

import asyncio
import json
import re
from typing import Any, NamedTuple

import msgspec
import pytest
from msgspec.structs import replace

from tests.cases import PIXEL, says
from tests.each import each
from tests.grammar import check
from tieline.backends.demo import DemoBackend
from tieline.model.assemble import fold
from tieline.model.content import File, Image, Message, Text, Thinking, ToolCall, ToolResult
from tieline.model.events import Event, PartDelta, PartStart, Reply, StopReason
from tieline.model.ports import Backend, Run
from tieline.model.request import OutputFormat, Reasoning, Request, Sampling, ToolChoice, ToolSpec

STRING = {"type": "string"}
ABSOLUTE = {"type": "string", "description": "The absolute path to the file"}
ENVIRONMENT = says("system", "You are an agent.\n<env>\n  Working directory: /home/ann/shop\n</env>")


def tool(name: str, required: dict[str, Any], optional: dict[str, Any] | None = None) -> ToolSpec:
    schema = {"type": "object", "properties": {**required, **(optional or {})}, "required": list(required)}
    return ToolSpec(name=name, schema=json.dumps(schema).encode())


OPENCODE = (
    tool("bash", {"command": STRING, "description": STRING}, {"timeout": {"type": "number"}, "workdir": STRING}),
    tool("edit", {"filePath": ABSOLUTE, "oldString": STRING, "newString": STRING}, {"replaceAll": {"type": "boolean"}}),
    tool("glob", {"pattern": STRING}, {"path": STRING}),
    tool("grep", {"pattern": STRING}, {"path": STRING, "include": STRING}),
    tool("read", {"filePath": ABSOLUTE}, {"offset": {"type": "number"}}),
    tool("task", {"description": STRING, "prompt": STRING}),
    tool("todowrite", {"todos": {"type": "array", "items": {"type": "object"}}}),
    tool("write", {"content": STRING, "filePath": STRING}),
)
CLAUDE_CODE = (
    tool("Task", {"description": STRING, "prompt": STRING}),
    tool("Bash", {"command": STRING}, {"description": STRING, "run_in_background": {"type": "boolean"}}),
    tool("BashOutput", {"bash_id": STRING}),
    tool("Edit", {"file_path": ABSOLUTE, "old_string": STRING, "new_string": STRING}),
    tool("Glob", {"pattern": STRING}, {"path": STRING}),
    tool("Grep", {"pattern": STRING}, {"path": STRING, "output_mode": {"type": "string", "enum": ["content"]}}),
    tool("Read", {"file_path": ABSOLUTE}, {"offset": {"type": "number"}}),
    tool("TodoWrite", {"todos": {"type": "array"}}),
    tool("Write", {"file_path": ABSOLUTE, "content": STRING}),
)
CODEX = (
    tool("exec_command", {"cmd": STRING}, {"workdir": STRING}),
    tool("write_stdin", {"session_id": {"type": "number"}}, {"chars": STRING}),
)
OLD_CODEX = (tool("shell", {"command": {"type": "array", "items": STRING}}),)
CLINE = (
    tool(
        "read_files",
        {"files": {"type": "array", "items": {"type": "object", "properties": {"path": STRING}, "required": ["path"]}}},
    ),
    tool("run_commands", {"commands": {"type": "array", "items": STRING}}),
)
QWEN = (
    tool("run_shell_command", {"command": STRING, "is_background": {"type": "boolean"}}),
    tool("read_file", {"absolute_path": STRING}),
    tool("write_file", {"file_path": STRING, "content": STRING}),
    tool("list_directory", {"path": ABSOLUTE}),
)
EDITOR = (
    tool(
        "str_replace_editor",
        {"command": {"type": "string", "enum": ["create", "str_replace", "view"]}, "path": STRING},
        {"file_text": STRING, "old_str": STRING, "new_str": STRING},
    ),
)
STRICT = (
    tool("read_file", {"path": STRING, "limit": {"type": ["integer", "null"]}, "mode": {"enum": ["text", "raw"]}}),
)
WEATHER = (
    tool("get_weather", {"city": STRING}, {"unit": {"type": "string", "enum": ["celsius", "fahrenheit"]}}),
    tool("add", {"a": {"type": "integer"}, "b": {"type": "integer"}}),
)
SERVED = (tool("mcp__sky__get_current_weather", {"location": STRING}),)
PATCH = (ToolSpec(name="apply_patch", freeform=True),)


def ask(*said: Message | str, tools: tuple[ToolSpec, ...] = (), **more: Any) -> Request:
    messages = tuple(says("user", message) if isinstance(message, str) else message for message in said)
    return Request(model="scripted", messages=messages, tools=tools, **more)


async def leg(run: Run) -> list[Event]:
    """The events of a leg, checked against the grammar."""
    events = [event async for batch in run.leg() for event in batch]
    check(events)
    return events


def answer(request: Request) -> Reply:
    async def one_leg() -> list[Event]:
        return await leg(await DemoBackend().start(request))

    return fold(asyncio.run(one_leg()))


def calls(reply: Reply) -> list[tuple[str, Any]]:
    return [(call.name, json.loads(call.arguments)) for call in made(reply)]


def made(reply: Reply) -> list[ToolCall]:
    return [part for part in reply.parts if isinstance(part, ToolCall)]


def text(reply: Reply) -> str:
    return "".join(part.text for part in reply.parts if isinstance(part, Text))


def after(request: Request, *results: str, is_error: bool = False) -> Request:
    """The request that a client sends after running the calls of the answer."""
    reply = answer(request)
    come = tuple(
        ToolResult(call_id=call.id, content=(Text(text=result),), is_error=is_error)
        for call, result in zip(made(reply), results, strict=True)
    )
    said = Message(role="assistant", parts=reply.parts)
    return replace(request, messages=(*request.messages, said, Message(role="user", parts=come)))


class Case(NamedTuple):
    words: str
    tools: tuple[ToolSpec, ...]
    expected: list[tuple[str, dict[str, Any]]]


CASES = [
    Case("read README.md", OPENCODE, [("read", {"filePath": "/home/ann/shop/README.md"})]),
    Case("Read the file src/a.py, please.", CLAUDE_CODE, [("Read", {"file_path": "/home/ann/shop/src/a.py"})]),
    Case("show me a.txt", CODEX, [("exec_command", {"cmd": "cat a.txt"})]),
    Case("read a.txt", CLINE, [("read_files", {"files": [{"path": "a.txt"}]})]),
    Case("what's in a.txt?", QWEN, [("read_file", {"absolute_path": "/home/ann/shop/a.txt"})]),
    Case("read /etc/hosts", OPENCODE, [("read", {"filePath": "/etc/hosts"})]),
    Case("read a.txt", EDITOR, [("str_replace_editor", {"command": "view", "path": "a.txt"})]),
    Case("read a.txt", STRICT, [("read_file", {"path": "a.txt", "limit": None, "mode": "text"})]),
    Case("run: ls -la", OPENCODE, [("bash", {"command": "ls -la", "description": "Run ls -la"})]),
    Case("run `ls`", CLAUDE_CODE, [("Bash", {"command": "ls"})]),
    Case("execute ls", CODEX, [("exec_command", {"cmd": "ls"})]),
    Case("run: ls", OLD_CODEX, [("shell", {"command": ["bash", "-lc", "ls"]})]),
    Case("run: ls", CLINE, [("run_commands", {"commands": ["ls"]})]),
    Case("run: ls", QWEN, [("run_shell_command", {"command": "ls", "is_background": False})]),
    Case("run: echo a, b and c. D", CODEX, [("exec_command", {"cmd": "echo a, b and c. D"})]),
    Case("run: if true; then ls; fi", CODEX, [("exec_command", {"cmd": "if true; then ls; fi"})]),
    Case("run: ls\nThe output should be short.", CODEX, [("exec_command", {"cmd": "ls"})]),
    Case("run:\n```sh\nls\npwd\n```", CODEX, [("exec_command", {"cmd": "ls\npwd\n"})]),
    Case("run ls and tell me what you see", CODEX, [("exec_command", {"cmd": "ls"})]),
    Case("write hello to a.txt", OPENCODE, [("write", {"filePath": "a.txt", "content": "hello"})]),
    Case("create a.txt with hi", CLAUDE_CODE, [("Write", {"file_path": "/home/ann/shop/a.txt", "content": "hi"})]),
    Case(
        "write salt, oil and 'a b' to a.txt",
        CODEX,
        [("exec_command", {"cmd": "printf %s 'salt, oil and '\"'\"'a b'\"'\"'' > a.txt"})],
    ),
    Case("create a.py with:\n```\nx = 1\n```", CODEX, [("exec_command", {"cmd": "cat > a.py <<'EOF'\nx = 1\nEOF"})]),
    Case(
        "write hi to a.txt", EDITOR, [("str_replace_editor", {"command": "create", "path": "a.txt", "file_text": "hi"})]
    ),
    Case("list files in src", QWEN, [("list_directory", {"path": "/home/ann/shop/src"})]),
    Case("ls", QWEN, [("list_directory", {"path": "/home/ann/shop"})]),
    Case("What's in this folder?", CODEX, [("exec_command", {"cmd": "ls"})]),
    Case("summarize the readme", CODEX, [("exec_command", {"cmd": "cat README.md"})]),
    Case("ls", CODEX, [("exec_command", {"cmd": "ls"})]),
    Case("search for foo bar in src", OPENCODE, [("grep", {"pattern": "foo bar", "path": "src"})]),
    Case("grep foo", CODEX, [("exec_command", {"cmd": "grep -rn -e foo ."})]),
    Case("find *.py", CLAUDE_CODE, [("Glob", {"pattern": "*.py"})]),
    Case("find *.py", CODEX, [("exec_command", {"cmd": "find . -name '*.py'"})]),
    Case(
        "edit a.txt: replace X with Y",
        CLAUDE_CODE,
        [("Edit", {"file_path": "/home/ann/shop/a.txt", "old_string": "X", "new_string": "Y"})],
    ),
    Case("replace a/b with c in a.txt", CODEX, [("exec_command", {"cmd": r"sed -i 's/a\/b/c/g' a.txt"})]),
    Case("call get_weather with Tokyo", WEATHER, [("get_weather", {"city": "Tokyo"})]),
    Case('use get_weather {"city": "Tokyo"}', WEATHER, [("get_weather", {"city": "Tokyo"})]),
    Case(
        'call get_weather(city="New York", unit="celsius")',
        WEATHER,
        [("get_weather", {"city": "New York", "unit": "celsius"})],
    ),
    Case("What's the weather in Tokyo?", WEATHER, [("get_weather", {"city": "Tokyo"})]),
    Case("what is the weather like in Oslo", SERVED, [("mcp__sky__get_current_weather", {"location": "Oslo"})]),
    Case(
        "What's the weather in Rome and Oslo in celsius?",
        WEATHER,
        [("get_weather", {"city": "Rome", "unit": "celsius"}), ("get_weather", {"city": "Oslo", "unit": "celsius"})],
    ),
    Case("call add with 2 and 3", WEATHER, [("add", {"a": 2, "b": 3})]),
    Case(
        "read a.txt, b.txt and run: pwd",
        CODEX,
        [
            ("exec_command", {"cmd": "cat a.txt"}),
            ("exec_command", {"cmd": "cat b.txt"}),
            ("exec_command", {"cmd": "pwd"}),
        ],
    ),
    Case("read a.txt, then run: pwd", CODEX, [("exec_command", {"cmd": "cat a.txt"})]),
    Case("1. read a.txt\n2. run: pwd", CODEX, [("exec_command", {"cmd": "cat a.txt"})]),
    Case("write 'one, then two' to a.txt", OPENCODE, [("write", {"filePath": "a.txt", "content": "one, then two"})]),
    Case(
        "Use the read tool to read a.txt. Reply with its contents.",
        CLINE,
        [("read_files", {"files": [{"path": "a.txt"}]})],
    ),
]


@each("case", CASES, ids=lambda case: f"{case.tools[0].name}: {case.words}")
def test_plain_words_call_whichever_tool_fits(case: Case) -> None:
    reply = answer(ask(ENVIRONMENT, case.words, tools=case.tools))
    assert calls(reply) == case.expected
    assert reply.finished.reason is StopReason.TOOL_USE


@pytest.mark.parametrize(
    "words",
    [
        "hello",
        "what is love?",
        "write a poem about the sea",
        "list the planets",
        "run the tests",
        "read it",
        "call me",
    ],
)
def test_words_that_ask_for_no_tool_call_none(words: str) -> None:
    reply = answer(ask(words, tools=OPENCODE))
    assert not made(reply)
    assert "read README.md" in text(reply)
    assert reply.finished.reason is StopReason.END_TURN


def test_json_arguments_go_out_exactly_as_the_user_wrote_them() -> None:
    reply = answer(ask('call get_weather {"city":  "Tokyo", "n": 1.0}', tools=WEATHER))
    assert made(reply)[0].arguments == '{"city":  "Tokyo", "n": 1.0}'


def test_a_freeform_tool_gets_raw_text() -> None:
    call = made(answer(ask("call apply_patch with *** Begin Patch", tools=PATCH)))[0]
    assert (call.arguments, call.freeform) == ("*** Begin Patch", True)


def test_a_path_stays_relative_when_nobody_says_where_the_client_works() -> None:
    assert calls(answer(ask("read a.txt", tools=OPENCODE))) == [("read", {"filePath": "a.txt"})]


@pytest.mark.parametrize(
    "note",
    [
        "# Environment\n - Primary working directory: /x/y",
        "<directory>/x/y</directory>",
        "<environment_context><cwd>/x/y</cwd></environment_context>",
        "Current Working Directory (/x/y) Files",
        "If the project root is /path/to/project/, use that.\nI'm currently working in the directory: /x/y",
    ],
)
def test_the_working_directory_is_found_in_what_clients_write(note: str) -> None:
    request = ask(says("system", note), "read a.txt", tools=OPENCODE)
    assert calls(answer(request)) == [("read", {"filePath": "/x/y/a.txt"})]


def test_when_nothing_fits_it_says_what_it_needs_and_what_was_offered() -> None:
    said = text(answer(ask("read a.txt and run: ls", tools=WEATHER)))
    assert said == (
        "To read a.txt, I need a tool such as `read` or `bash`. To run ls, I need a tool such as `bash`. "
        "The client offers `get_weather` and `add`."
    )
    assert "offers no tools" in text(answer(ask("read a.txt")))
    assert "`get_time`" in text(answer(ask("call get_time", tools=WEATHER)))


def test_a_result_is_quoted_in_the_answer() -> None:
    reply = answer(after(ask("call get_weather with Tokyo", tools=WEATHER), "18 °C and sunny"))
    assert text(reply) == "`get_weather` returned: 18 °C and sunny"
    assert reply.finished.reason is StopReason.END_TURN


def test_a_long_result_is_cut_and_a_fence_inside_it_does_not_end_the_quotation() -> None:
    result = "\n".join(["```python", *map(str, range(30)), "```"])
    said = text(answer(after(ask("read a.txt", tools=CLINE), result)))
    assert said.startswith("`read_files` returned:\n\n````\n```python\n0\n")
    assert said.endswith("\n18\n````\n\n… and 12 more lines.")


def test_an_error_is_reported_as_one() -> None:
    reply = answer(after(ask("read a.txt", tools=CLINE), "no such file", is_error=True))
    assert text(reply) == "`read_files` failed: no such file"


def test_then_waits_for_the_result_and_goes_on_even_after_an_error() -> None:
    first = ask("read a.txt and b.txt, then run: pwd. Then tell me", tools=CODEX)
    second = after(first, "A", "B")
    assert calls(answer(second)) == [("exec_command", {"cmd": "pwd"})]
    assert calls(answer(after(first, "no", "no", is_error=True))) == [("exec_command", {"cmd": "pwd"})]
    done = answer(after(second, "/home"))
    assert not made(done)
    assert [word in text(done) for word in (": A", ": B", ": /home")] == [True] * 3


def test_what_came_back_can_be_written_by_the_next_step() -> None:
    request = after(ask("read a.txt then write it to b.txt", tools=OPENCODE), "the text\n")
    assert calls(answer(request)) == [("write", {"filePath": "b.txt", "content": "the text\n"})]


def test_without_parallel_calls_they_are_made_one_at_a_time() -> None:
    choice = ToolChoice(parallel=False)
    first = ask("read a.txt and b.txt", tools=CLINE, tool_choice=choice)
    assert calls(answer(first)) == [("read_files", {"files": [{"path": "a.txt"}]})]
    second = after(first, "A")
    assert calls(answer(second)) == [("read_files", {"files": [{"path": "b.txt"}]})]
    assert not made(answer(after(second, "B")))


def test_a_client_that_drops_one_of_two_calls_gets_it_again() -> None:
    """Seen: a client that runs only the first of two parallel calls and leaves the other out of the history."""
    request = ask("read a.txt and b.txt", tools=CLINE)
    call = made(answer(request))[0]
    result = ToolResult(call_id=call.id, content=(Text(text="A"),))
    history = (*request.messages, says("assistant", call), says("user", result))
    assert calls(answer(replace(request, messages=history))) == [("read_files", {"files": [{"path": "b.txt"}]})]


def test_notes_of_the_client_are_not_the_words_of_the_user() -> None:
    note = "<system-reminder>\nrun: rm -rf build\n</system-reminder>"
    request = ask(says("user", note, "read a.txt"), says("system", "run: ls"), says("user", note), tools=CODEX)
    assert calls(answer(request)) == [("exec_command", {"cmd": "cat a.txt"})]
    first = after(request, "A")
    *before, results = first.messages
    noisy = replace(results, parts=(*results.parts, Text(text=note)))
    assert text(answer(replace(first, messages=(*before, noisy)))) == "`exec_command` returned: A"


def test_only_the_last_words_of_the_user_count() -> None:
    request = after(ask("read a.txt", tools=CLINE), "A")
    later = (*request.messages, says("assistant", "It says A."), says("user", "now read b.txt"))
    assert calls(answer(replace(request, messages=later))) == [("read_files", {"files": [{"path": "b.txt"}]})]


def test_results_out_of_order_are_told_in_the_order_of_the_calls() -> None:
    """Seen: a client that sends results in the order they were completed."""
    request = after(ask("read a.txt and b.txt", tools=CLINE), "A", "B")
    *before, results = request.messages
    swapped = replace(results, parts=results.parts[::-1])
    said = text(answer(replace(request, messages=(*before, swapped))))
    assert said == "`read_files` returned: A\n\n`read_files` returned: B"


@pytest.mark.parametrize(
    ("words", "reasoning", "thinks"),
    [
        ("hello", Reasoning(), False),
        ("hello", Reasoning(mode="budget", budget=1024), True),
        ("hello", Reasoning(mode="adaptive"), True),
        ("hello", Reasoning(effort="low"), True),
        ("hello", Reasoning(effort="none"), False),
        ("think about the sea", Reasoning(), True),
        ("read a.txt, but think hard first", Reasoning(), True),
        ("think about the sea", Reasoning(mode="off"), False),
        ("I think so", Reasoning(), False),
    ],
)
def test_it_thinks_when_asked(words: str, reasoning: Reasoning, thinks: bool) -> None:
    reply = answer(ask(words, reasoning=reasoning))
    assert isinstance(reply.parts[0], Thinking) is thinks
    assert bool(reply.usage.reasoning) is thinks


def test_a_required_call_is_made_even_if_nothing_asks_for_it() -> None:
    choice = ToolChoice(mode="required", names=("add",))
    reply = answer(ask("the numbers 7 and 8", tools=WEATHER, tool_choice=choice))
    assert calls(reply) == [("add", {"a": 7, "b": 8})]
    assert not text(reply)
    reply = answer(ask("Jane lives in Tokyo", tools=WEATHER, tool_choice=ToolChoice(mode="required")))
    assert calls(reply) == [("get_weather", {"city": "Tokyo"})]


def test_a_required_call_ends_the_task_where_there_is_a_tool_for_that() -> None:
    tools = (*CLINE, tool("final_answer", {"answer": STRING}))
    choice = ToolChoice(mode="required")
    request = after(ask("read a.txt", tools=tools, tool_choice=choice), "A")
    assert calls(answer(request)) == [("final_answer", {"answer": "A"})]
    observed = (*request.messages[:1], says("assistant", "Calling tools: …"), says("user", "Observation:\nA"))
    assert calls(answer(replace(request, messages=observed))) == [("final_answer", {"answer": "A"})]


def test_no_call_is_made_when_tool_choice_forbids_it() -> None:
    reply = answer(ask("read a.txt", tools=CLINE, tool_choice=ToolChoice(mode="none")))
    assert not made(reply)
    assert "does not allow tool calls" in text(reply)


@pytest.mark.parametrize(
    ("words", "said"),
    [("say hello there", "hello there"), ('Repeat "a b".', '"a b".'), ("reply with exactly: pong", "pong")],
)
def test_it_says_what_it_is_told_to_say(words: str, said: str) -> None:
    assert text(answer(ask(words))) == said


def test_a_title_request_gets_a_short_title_even_for_a_script() -> None:
    system = says("system", "You are a title generator. You output ONLY a thread title.")
    request = ask(system, "Generate a title for this conversation:", "read the file README.md and tell me all of it")
    assert text(answer(request)) == "Read the file README.md and tell me"
    scripted = ask(system, "Play this\n```tieline\ntext: no title\n```")
    assert text(answer(scripted)) == "Play this"


def test_pictures_and_documents_are_counted() -> None:
    picture = Image(media_type="image/png", data=PIXEL)
    request = ask(says("user", "say hi", picture, picture, File(media_type="application/pdf", url="https://a.b/c")))
    assert text(answer(request)) == "I see 2 images and 1 file. hi"


def test_json_without_a_schema_is_an_object_with_the_answer() -> None:
    assert text(answer(ask("say hi", output=OutputFormat()))) == '{"answer":"hi"}'


@each(
    ("schema", "expected"),
    [
        (
            {
                "type": "object",
                "properties": {"name": STRING, "age": {"type": "integer"}, "nick": STRING},
                "required": ["name", "age"],
            },
            {"name": "Jason", "age": 25},
        ),
        (
            {"type": "object", "properties": {"title": STRING}, "required": ["title"]},
            {"title": "I know Jason is 25 years old"},
        ),
        ({"enum": ["red", "old"]}, "old"),
        ({"const": 4}, 4),
        ({"type": "array", "items": {"type": "boolean"}, "minItems": 2}, [False, False]),
        ({"type": "integer", "minimum": 30, "multipleOf": 7}, 35),
        ({"type": "number", "exclusiveMaximum": 1}, 0.5),
        ({"type": "string", "pattern": r"^\d{4}$"}, "0000"),
        ({"type": "string", "format": "date"}, "2024-01-01"),
        ({"type": "string", "maxLength": 6}, "I know"),
        ({"anyOf": [{"type": "null"}, {"type": "boolean"}]}, False),
        (
            {"allOf": [{"properties": {"a": {"type": "null"}}}, {"properties": {"b": {"const": 1}}}]},
            {"a": None, "b": 1},
        ),
        (
            {
                "$ref": "#/$defs/Node",
                "$defs": {
                    "Node": {
                        "type": "object",
                        "properties": {
                            "on": {"type": "boolean"},
                            "next": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/Leaf"}]},
                        },
                        "required": ["on", "next"],
                    },
                    "Leaf": {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]},
                },
            },
            {"on": False, "next": {"id": 25}},
        ),
    ],
    ids=lambda value: json.dumps(value)[:40],
)
def test_a_schema_is_answered_with_a_value_that_satisfies_it(schema: dict[str, Any], expected: Any) -> None:
    output = OutputFormat(schema=json.dumps(schema).encode())
    assert json.loads(text(answer(ask("I know Jason is 25 years old", output=output)))) == expected


def test_a_schema_that_contains_itself_comes_to_an_end() -> None:
    node = {"type": "object", "properties": {"next": {"$ref": "#"}}, "required": ["next"]}
    reply = answer(ask("hi", output=OutputFormat(schema=json.dumps(node).encode())))
    assert "next" in json.loads(text(reply))


def test_max_tokens_cuts_the_answer_and_says_so() -> None:
    reply = answer(ask("say one two three", sampling=Sampling(max_tokens=2)))
    assert text(reply) == "one two"
    assert (reply.finished.reason, reply.usage.output) == (StopReason.MAX_TOKENS, 2)
    reply = answer(ask("say one two three", sampling=Sampling(max_tokens=3)))
    assert reply.finished.reason is StopReason.END_TURN


def test_a_call_that_is_cut_short_does_not_look_complete() -> None:
    request = ask("call get_weather with Tokyo", tools=WEATHER, sampling=Sampling(max_tokens=5))
    reply = answer(request)
    assert made(reply)[0].arguments == '{"city'
    assert reply.finished.reason is StopReason.MAX_TOKENS


def test_the_first_stop_sequence_in_the_text_ends_the_answer() -> None:
    reply = answer(ask("say one two END three", sampling=Sampling(stop=("three", "END"))))
    assert text(reply) == "one two "
    assert (reply.finished.reason, reply.finished.sequence) == (StopReason.STOP_SEQUENCE, "END")


async def test_the_same_request_gives_the_same_events() -> None:
    request = ask("think hard, read a.txt and b.txt", tools=CLINE)
    first, second, other = [
        await leg(await DemoBackend().start(asked)) for asked in (request, request, replace(request, model="other"))
    ]
    assert first == second
    assert first != other


def test_call_ids_are_opaque_and_never_the_same() -> None:
    first = ask("read a.txt and b.txt, then read a.txt", tools=CLINE)
    ids = [call.id for call in (*made(answer(first)), *made(answer(after(first, "A", "B"))))]
    assert len(set(ids)) == 3
    assert all(re.fullmatch(r"call_[A-Za-z0-9]{22}", call_id) for call_id in ids)


async def test_text_comes_by_words_and_arguments_by_a_few_characters() -> None:
    request = ask("call get_weather with Tokyo", tools=WEATHER)
    run = await DemoBackend().start(request)
    batches = [list(batch) async for batch in run.leg()]
    assert max(map(len, batches)) <= 4
    deltas: dict[int, list[str]] = {}
    for event in (event for batch in batches for event in batch):
        if isinstance(event, PartStart):
            deltas[event.index] = []
        elif isinstance(event, PartDelta):
            deltas[event.index].append(event.text)
    assert deltas == {0: ["I", " will", " call", " get_weather."], 1: ['{"city', '":"Tok', 'yo"}']}


async def test_a_run_goes_on_when_it_is_answered() -> None:
    """Ours: this is how the gateway runs tools of its own, within one turn of the client."""
    run = await DemoBackend().start(ask("read a.txt and b.txt", tools=CLINE))
    first = made(fold(await leg(run)))
    assert run.pending == frozenset()
    for call, result in zip(first, ("A", "B"), strict=True):
        await run.answer([ToolResult(call_id=call.id, content=(Text(text=result),))])
    assert text(fold(await leg(run))) == "`read_files` returned: A\n\n`read_files` returned: B"
    await run.aclose()


async def test_the_backend_offers_its_model_and_leaves_counting_to_others() -> None:
    backend: Backend = DemoBackend()
    assert backend.name == "demo"
    assert [model.id for model in await backend.models()] == ["scripted"]
    assert await backend.count(ask("hi")) is None
    await backend.aclose()


def test_usage_counts_the_words_and_the_tools() -> None:
    alone, with_tools = answer(ask("one two three")), answer(ask("one two three", tools=OPENCODE))
    assert alone.usage.input == 3
    assert with_tools.usage.input > 100


@each(
    "words",
    [
        *("", "read " * 50_000, ", and then" * 180, "`" * 20_000, "{" * 20_000, "a(" * 10_000, "x" * 2_000),
        *("a" + " " * 1_998 + "b", "a" + " now" * 499, "replace a" + " with a" * 280, "call add " + "a " * 990),
    ],
    ids=lambda words: f"{words[:16]!r}…",
)
def test_no_words_are_too_odd_to_answer(words: str) -> None:
    assert answer(ask(words, tools=OPENCODE)).finished.reason is StopReason.END_TURN


def test_a_broken_tool_schema_does_not_break_the_model() -> None:
    broken = ToolSpec(name="read", schema=b"[1")
    assert "I need a tool" in text(answer(ask("read a.txt", tools=(broken,))))
    assert msgspec.json.decode(made(answer(ask("call read", tools=(broken,))))[0].arguments) == {}
