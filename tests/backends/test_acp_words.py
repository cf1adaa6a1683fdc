"""Pieces of the ACP backend by themselves: knowing a conversation again, forms in words, choices, what is told."""

import shutil
from typing import Any

import pytest

from tests.backends.acp_support import tool, user
from tests.each import each
from tests.grammar import check
from tieline.backends.acp.agent import environment, login_command
from tieline.backends.acp.catalogue import CATALOGUE, AgentSpec, find, install_line
from tieline.backends.acp.fact_events import Activities, is_bare, shown_title, title_of
from tieline.backends.acp.fingerprint import (
    RequestKind,
    SeenHistory,
    extend_history,
    fingerprint_of,
    latest_user_text,
    match_history,
    user_tail,
)
from tieline.backends.acp.followups import MAX_FOLLOWUPS, Followups
from tieline.backends.acp.leg_queue import LegQueue
from tieline.backends.acp.prompt import MAX_HISTORY, continued, seeded
from tieline.backends.acp.session_options import (
    OptionChange,
    SessionOptions,
    option_changes,
    option_resets,
    parse_model_name,
)
from tieline.backends.acp.settings import AcpBackendSettings
from tieline.model.content import Image, Message, Text, ToolCall, ToolResult
from tieline.model.errors import BadRequest
from tieline.model.events import Activity, Failed, Finished, Note, Started, StopReason
from tieline.model.request import Request
from tieline.wire.acp import facts
from tieline.wire.acp.schema import PromptCapabilities, TextContent

# ── the catalogue ────────────────────────────────────────────────────────────────────────────────


def test_every_agent_of_the_catalogue_can_be_started_installed_and_logged_in_to() -> None:
    assert len(CATALOGUE) >= 20
    for name, spec in CATALOGUE.items():
        assert spec.id == name
        assert spec.title
        assert spec.command
        assert spec.login
        assert install_line(spec)
        assert not {"npx", "uvx"} & set(spec.command), "to start an agent downloads nothing"


def test_an_agent_is_ready_when_one_of_its_commands_is_found() -> None:
    spec = AgentSpec(
        id="a",
        title="A",
        command=("a-acp",),
        alternatives=(("a", "acp"),),
        install=("npm", "install", "a"),
        needs="Node",
    )
    assert find(spec, lambda name: f"/bin/{name}" if name == "a" else None) == (("a", "acp"), "a acp")
    assert find(spec, lambda name: None) == (None, "npm install a  (Node)")
    assert find(AgentSpec(id="b", title="B", command=("b",)), shutil.which).line == "put `b` on your PATH"


@pytest.mark.parametrize(
    ("command", "login", "line"),
    [
        (
            ("qodercli", "--acp"),
            {"arguments": ("login",), "command": ("/opt/bin/node", "login")},
            ("qodercli", "login"),
        ),
        (("node", "agent.js"), {"arguments": ("login",), "command": ("/opt/bin/node", "login")}, ()),
        (
            ("claude-agent-acp",),
            {"command": ("/opt/node", "/opt/cli.js", "/login")},
            ("/opt/node", "/opt/cli.js", "/login"),
        ),
        (("node", "agent.js"), {"arguments": ("--setup",), "command": ("setup-agent",)}, ("setup-agent",)),
        (("vibe-acp",), {"arguments": ("--setup",)}, ("vibe-acp", "--setup")),
        (("agent",), {}, ()),
    ],
)
def test_a_login_is_a_command_that_can_be_run(
    command: tuple[str, ...], login: dict[str, Any], line: tuple[str, ...]
) -> None:
    assert login_command(command, facts.LoginMethod(id="login", **login)) == line


def test_no_proxy_stands_between_an_agent_and_the_clients_tools() -> None:
    spec = AgentSpec(id="a", title="A", command=("a",), env={"KEY": "k"})
    assert environment(AcpBackendSettings(cwd="/", env={"PATH": "/bin"}), spec) == {"PATH": "/bin", "KEY": "k"}
    proxied = environment(AcpBackendSettings(cwd="/", env={"HTTP_PROXY": "http://p", "NO_PROXY": "corp"}), spec)
    assert proxied["NO_PROXY"] == "corp,127.0.0.1,localhost"


# ── knowing a conversation again ─────────────────────────────────────────────────────────────────


def assistant(*texts: str) -> Message:
    return Message(role="assistant", parts=tuple(Text(text=text) for text in texts))


def heard(seen: list[Message], said: list[str], messages: list[Message], *, is_torn: bool = False) -> int | None:
    """How much of these messages a session has heard that saw those and said this."""
    past = extend_history(fingerprint_of(Request(model="m", messages=tuple(seen))).history, said, is_torn=is_torn)
    return match_history(past, fingerprint_of(Request(model="m", messages=tuple(messages))))


HELLO = user("hello")
MORE = user("more")
RESULT = Message(role="user", parts=(ToolResult(call_id="c", content=(Text(text="7"),)),))
CALL = Message(role="assistant", parts=(Text(text="Let me count."), ToolCall(id="c", name="count")))


@each(
    ("said", "messages", "expected"),
    [
        (["Hi there."], [HELLO, assistant("Hi there."), MORE], 1),
        (["Hi", "there."], [HELLO, assistant("Hi\n\n▸ Edit\n  there."), MORE], 1),
        (["Hi", "there."], [HELLO, assistant("Hi", "✓ ok", "there."), MORE, MORE], 1),
        (["Hi there."], [HELLO, assistant("Hi here."), MORE], None),
        (["Hi there."], [HELLO, MORE], None),
        (["Hi there."], [HELLO], None),
        (["Hi there."], [MORE, assistant("Hi there."), MORE], None),
        (["Hi there."], [HELLO, assistant("Hi there.")], None),
        (["Hi there."], [HELLO, assistant("Hi there."), MORE, assistant("Yes?"), MORE], None),
        ([], [HELLO, assistant("(nothing)"), MORE], 1),
        ([], [HELLO], None),
        (["Let me count."], [HELLO, CALL, RESULT], 1),
        (["Let me count.", "Seven."], [HELLO, CALL, RESULT, assistant("Seven."), MORE], 1),
    ],
)
def test_a_request_goes_on_if_it_says_something_new_after_what_was_seen(
    said: list[str], messages: list[Message], expected: int | None
) -> None:
    assert heard([HELLO], said, messages) == expected


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ([HELLO, assistant("Hi th"), MORE], 1),
        ([HELLO, assistant("Hi there. And so on."), MORE], 1),
        ([HELLO, MORE], 1),
        ([HELLO, assistant("No."), MORE], None),
        ([HELLO], None),
    ],
)
def test_of_a_turn_that_was_torn_the_client_may_have_seen_less(messages: list[Message], expected: int | None) -> None:
    assert heard([HELLO], ["Hi there. And so on."], messages, is_torn=True) == expected


def test_pictures_are_compared_and_results_are_not() -> None:
    with_picture = user("look", Image(media_type="image/png", data="aGk="))
    other_picture = user("look", Image(media_type="image/png", data="aG8="))
    assert heard([with_picture], ["ok"], [with_picture, assistant("ok"), MORE]) == 2
    assert heard([with_picture], ["ok"], [other_picture, assistant("ok"), MORE]) is None
    cleared = Message(role="user", parts=(ToolResult(call_id="c", content=(Text(text="[cleared]"),)),))
    seen = [HELLO, CALL, RESULT, assistant("Seven."), MORE]
    assert heard(seen, ["x"], [HELLO, CALL, cleared, assistant("Seven."), MORE, assistant("x"), MORE]) == 2


def kind(*system: str, tools: bool = True) -> RequestKind:
    parts = tuple(Text(text=text) for text in system)
    messages = (Message(role="system", parts=parts), HELLO) if system else (HELLO,)
    return fingerprint_of(Request(model="m", messages=messages, tools=(tool("t"),) if tools else ())).kind


@pytest.mark.parametrize(
    ("first", "later", "expected"),
    [
        (kind("You code."), kind("You code."), True),
        (kind("You code."), kind("Make a title."), False),
        (kind("You code."), kind("You code.", tools=False), False),
        (kind("You code.", tools=False), kind("You code."), True),
        (kind("header: 1f", "You code."), kind("header: 2e", "You code."), True),
        (kind(f"You code.{' ' * 150}{'x' * 300} Monday"), kind(f"You code.{' ' * 150}{'x' * 300} Tuesday"), True),
        (kind(), kind(), True),
        (kind("You code."), kind(), False),
    ],
)
def test_a_request_of_another_kind_is_made_beside_the_conversation(
    first: RequestKind, later: RequestKind, expected: bool
) -> None:
    assert later.may_continue(first) is expected


def test_a_session_that_has_seen_nothing_knows_nobody() -> None:
    assert match_history(SeenHistory(), fingerprint_of(Request(model="m", messages=(HELLO,)))) is None


def test_the_tail_leaves_out_what_was_heard_and_words_leave_out_reminders() -> None:
    messages = [HELLO, MORE, user("<system-reminder>x</system-reminder> and this ")]
    assert [part.text for part in user_tail(messages, seen=2) if isinstance(part, Text)] == [
        "<system-reminder>x</system-reminder> and this "
    ]
    assert latest_user_text(messages) == "hello\nmore\nand this"


# ── what an agent is told ────────────────────────────────────────────────────────────────────────


def texts(blocks: Any) -> list[str]:
    return [block.text for block in blocks if isinstance(block, TextContent)]


def test_a_session_that_goes_on_is_told_what_is_new_and_nothing_else() -> None:
    system = Message(role="system", parts=(Text(text="Be kind."),))
    later = Message(role="system", parts=(Text(text="Now be brief."),))
    prompt = continued([system, HELLO, assistant("Hi."), later, MORE], 1, PromptCapabilities())
    assert texts(prompt.blocks) == ["Now be brief.", "more"]
    assert texts(continued([HELLO, assistant("Hi.")], 1, PromptCapabilities()).blocks) == ["Go on."]


def test_a_long_conversation_is_told_from_its_newest_end() -> None:
    prompt = seeded([user("x" * MAX_HISTORY), assistant("the end"), MORE], PromptCapabilities())
    history, new = texts(prompt.blocks)
    assert len(history) < MAX_HISTORY + 200
    assert history.endswith("Assistant: the end\n</conversation>")
    assert (new, prompt.notes[0].kind) == ("more", "history")


# ── what is chosen ───────────────────────────────────────────────────────────────────────────────

URL = "https://agentclientprotocol.com/protocol/session-modes#"
MODES = facts.Choices(
    current=f"{URL}agent",
    choices=tuple(facts.NamedChoice(id=f"{URL}{name}", name=name.title()) for name in ("agent", "plan", "autopilot")),
)
BUILD = facts.ConfigOption(
    id="mode",
    category="mode",
    current="build",
    choices=(facts.NamedChoice(id="build", name="Build"), facts.NamedChoice(id="plan", name="Plan")),
)


@pytest.mark.parametrize(
    ("state", "model", "mode", "expected"),
    [
        (SessionOptions(modes=MODES), "a?mode=plan", None, [OptionChange("mode", "", f"{URL}plan")]),
        (SessionOptions(modes=MODES), "a?mode=Autopilot", "plan", [OptionChange("mode", "", f"{URL}autopilot")]),
        (SessionOptions(modes=MODES), "a", "agent", []),
        (SessionOptions(options=(BUILD,)), "a", "plan", [OptionChange("option", "mode", "plan")]),
        (SessionOptions(options=(BUILD,)), "a", "agent", []),
        (SessionOptions(modes=MODES, options=(BUILD,)), "a?mode=plan", None, [OptionChange("option", "mode", "plan")]),
    ],
)
def test_a_mode_is_found_by_id_name_end_or_another_word(
    state: SessionOptions, model: str, mode: str | None, expected: list[OptionChange]
) -> None:
    assert option_changes(parse_model_name(model, mode, None), state, "A") == expected


def option(name: str, current: str, *values: str, category: str = "") -> facts.ConfigOption:
    choices = tuple(facts.NamedChoice(id=value) for value in values)
    return facts.ConfigOption(id=name, name=name, category=category, current=current, choices=choices)


ACCESS = option("mode", "agent", "read-only", "workspace-write", "agent", category="mode")
CODEX = SessionOptions(options=(ACCESS, option("collaboration_mode", "default", "default", "plan")))


def test_plan_mode_is_found_under_whatever_option_the_agent_has_it() -> None:
    for model, mode in (("codex?mode=plan", None), ("codex", "plan")):
        found = option_changes(parse_model_name(model, mode, None), CODEX, "Codex")
        assert found == [OptionChange("option", "collaboration_mode", "plan")]
    assert option_changes(parse_model_name("codex?mode=read-only", None, None), CODEX, "Codex") == [
        OptionChange("option", "mode", "read-only")
    ]
    older = SessionOptions(
        modes=facts.Choices(current="ask", choices=(facts.NamedChoice(id="ask"), facts.NamedChoice(id="plan")))
    )
    both = SessionOptions(modes=older.modes, options=(ACCESS,))
    assert option_changes(parse_model_name("a?mode=plan", None, None), both, "A") == [OptionChange("mode", "", "plan")]


def test_a_mode_that_is_not_offered_is_an_error_that_names_every_option() -> None:
    with pytest.raises(BadRequest) as error:
        option_changes(parse_model_name("codex?mode=dream", None, None), CODEX, "Codex")
    assert error.value.message == (
        "Codex has no mode `dream`. It offers: mode: read-only, workspace-write, agent; "
        "collaboration_mode: default, plan."
    )


def test_an_option_for_planning_goes_back_when_another_mode_is_wished() -> None:
    planning = SessionOptions(options=(ACCESS, option("collaboration_mode", "plan", "default", "plan")))
    past = parse_model_name("codex?mode=plan", None, None)
    reset = [OptionChange("option", "collaboration_mode", "default")]
    for model in ("codex", "codex?mode=read-only"):
        assert option_resets(CODEX, planning, parse_model_name(model, None, None), past) == reset
    assert option_resets(CODEX, planning, past, past) == []


def test_what_is_not_wished_any_more_goes_back_to_what_it_was() -> None:
    now = SessionOptions(options=(facts.ConfigOption(**{**_fields(BUILD), "current": "plan"}),))
    before = SessionOptions(options=(BUILD,))
    back = option_resets(before, now, parse_model_name("a", None, None), parse_model_name("a?mode=plan", None, None))
    assert back == [OptionChange("option", "mode", "build")]


def test_an_option_without_a_value_is_a_mistake() -> None:
    with pytest.raises(BadRequest, match="`mode` needs a value"):
        parse_model_name("a?mode=", None, None)


def _fields(option: facts.ConfigOption) -> dict[str, Any]:
    return {name: getattr(option, name) for name in option.__struct_fields__}


# ── what is told to the client ───────────────────────────────────────────────────────────────────


async def test_what_happens_between_two_legs_belongs_to_the_next() -> None:
    queue = LegQueue()
    queue.begin()
    queue.text("one")
    queue.end(Finished(reason=StopReason.TOOL_USE))
    queue.text("two")
    queue.end(Finished(reason=StopReason.END_TURN))
    first = await queue.events()
    queue.begin()
    second = await queue.events()
    for events, text in ((first, "one"), (second, "two")):
        check([Started(id="", model=""), *events])
        assert text in str(events[0:2])
    assert queue.take_texts() == ["one", "two"]


async def test_what_waits_for_the_next_leg_still_counts_after_the_leg_before_it_was_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tieline.backends.acp.leg_queue.MAX_WAITING", 10)
    queue = LegQueue()
    queue.begin()
    queue.text("one")
    queue.end(Finished(reason=StopReason.TOOL_USE))
    queue.text("two and three")
    await queue.events()
    assert queue.is_full
    queue.end(Finished(reason=StopReason.END_TURN))
    assert queue.is_full
    queue.begin()
    await queue.events()
    assert not queue.is_full


async def test_how_far_an_activity_is_replaces_what_nobody_took_and_waits_for_the_end_of_a_part() -> None:
    queue = LegQueue()
    queue.begin()
    for number in range(100):
        queue.activity(Activity(id="a", kind="execute", title="x", status="in_progress", output=f"{number}"))
    assert [event.output for event in await queue.events() if isinstance(event, Activity)] == ["0", "99"]
    queue.text("words")
    queue.activity(Activity(id="a", kind="execute", title="x", status="in_progress", output="more"))
    queue.text(" and words")
    queue.activity(Activity(id="a", kind="execute", title="x", status="completed", output="all"))
    events = await queue.events()
    assert [type(event).__name__ for event in events] == ["PartStart", "PartDelta", "PartDelta", "PartEnd", "Activity"]


async def test_a_failure_ends_the_part_that_is_open() -> None:
    queue = LegQueue()
    queue.begin()
    queue.note("a", "b")
    queue.text("half")
    queue.end(Failed(kind="upstream", message="gone"))
    events = await queue.events()
    assert isinstance(events[0], Note)
    check([Started(id="", model=""), *events])


def test_the_same_words_are_not_said_twice_in_a_row_and_not_for_ever() -> None:
    followups = Followups()
    for words in ("no", "no", "  ", "yes"):
        followups.add(words)
    assert [followups.next(), followups.next(), followups.next()] == ["no", "yes", ""]
    for number in range(2 * MAX_FOLLOWUPS):
        followups.add(str(number))
    assert sum(bool(followups.next()) for _ in range(2 * MAX_FOLLOWUPS)) == MAX_FOLLOWUPS - 2


# ── activities ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("call", "title", "output"),
    [
        (facts.AgentCall(id="c", title="Read a.py", status="completed", output='"text"'), "Read a.py", "text"),
        (
            facts.AgentCall(id="c", input='{"command":["ls","-l"]}', status="failed", output='{"stderr":"no"}'),
            "ls -l",
            "no",
        ),
        (
            facts.AgentCall(id="c", name="grep", status="completed", content=(Text(text="a"), Text(text="b"))),
            "grep",
            "a\nb",
        ),
        (facts.AgentCall(id="c", kind="fetch", status="in_progress", output='"not yet"'), "fetch", ""),
        (facts.AgentCall(id="c", locations=(facts.CallLocation(path="/a"),), status="done?", output="{"), "/a", ""),
    ],
)
def test_an_activity_says_what_is_known_of_a_call(call: facts.AgentCall, title: str, output: str) -> None:
    activity = Activities().call(call)
    assert (activity.title, activity.output) == (title, output)


def test_output_is_bounded_and_a_bad_exit_is_said() -> None:
    activities = Activities()
    activities.call(facts.AgentCall(id="c", title="make", status="in_progress"))
    for _ in range(100):
        activities.output(facts.TerminalOutput(session="s", call="c", terminal="t", text="x" * 1000))
    assert activities.ended(facts.TerminalEnded(session="s", call="c", terminal="t", exit_code=0)) is None
    ended = activities.ended(facts.TerminalEnded(session="s", call="c", terminal="t", exit_code=2))
    assert ended is not None
    assert ended.output.endswith("(exit status 2)")
    assert len(ended.output) <= 33 * 1024
    assert title_of(facts.AgentCall(id="c", title="long " * 1000)).endswith("…")


@pytest.mark.parametrize(
    ("call", "is_known"),
    [
        (facts.AgentCall(id="1", title="Terminal", input="{}", terminals=("t1",)), False),
        (facts.AgentCall(id="1", title="bash"), False),
        (facts.AgentCall(id="1", title="bash", kind="execute", locations=(facts.CallLocation(path="/w"),)), False),
        (facts.AgentCall(id="1", title="bash", status="in_progress"), True),
        (facts.AgentCall(id="1", title="bash", input='{"command":"ls"}'), True),
        (facts.AgentCall(id="1", title="Read", locations=(facts.CallLocation(path="a"),)), True),
        (facts.AgentCall(id="1", title="bash", content=(Text(text='{"command":"ls"}'),)), True),
    ],
)
def test_a_call_is_shown_as_soon_as_more_than_its_name_is_known(call: facts.AgentCall, is_known: bool) -> None:
    assert is_bare(call) is not is_known


@pytest.mark.parametrize(
    ("call", "title"),
    [
        (facts.AgentCall(id="1", title="bash", kind="execute", input='{"command":"make\\n  test"}'), "make test"),
        (
            facts.AgentCall(id="1", title="Read", kind="read", locations=(facts.CallLocation(path="/w/a.py"),)),
            "Read /w/a.py",
        ),
        (
            facts.AgentCall(id="1", title="Read a.py", kind="read", locations=(facts.CallLocation(path="/w/a.py"),)),
            "Read a.py",
        ),
        (facts.AgentCall(id="1", title="Edit", kind="edit", diffs=(facts.CallDiff(path="b", new=""),)), "Edit b"),
        (facts.AgentCall(id="1", title="Search", kind="search", input='{"command":"x"}'), "Search"),
    ],
)
def test_an_activity_is_named_by_the_command_or_the_file_it_is_about(call: facts.AgentCall, title: str) -> None:
    assert shown_title(call) == title
