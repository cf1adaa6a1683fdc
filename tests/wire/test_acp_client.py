"""The client of an agent: what no dialogue shows, bounds, mistakes of ours, and an agent that sends anything at all."""

import gc
import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tieline.wire.acp import facts, schema
from tieline.wire.acp.call_table import KEPT, MAX_CALLS
from tieline.wire.acp.client_side import ClientOffer, ClientSide
from tieline.wire.acp.facts import Fact
from tieline.wire.acp.questions import form_fields
from tieline.wire.acp.sessions import HELD_BYTES, HELD_UPDATES

EVERYTHING = ClientOffer(read_files=True, write_files=True, terminals=True)
OPTIONS = [
    {"optionId": "y", "name": "Yes", "kind": "allow_once"},
    {"optionId": "n", "name": "No", "kind": "reject_once"},
]
DIALOGUES = sorted((Path(__file__).parent.parent / "transcripts" / "acp").glob("*.dialogue"))


def line(**message: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"


def update(session: str, what: str, /, **fields: Any) -> bytes:
    return line(method="session/update", params={"sessionId": session, "update": {"sessionUpdate": what, **fields}})


def permission(their_id: Any, session: str = "s1", **call: Any) -> bytes:
    params = {"sessionId": session, "toolCall": {"toolCallId": "c1", **call}, "options": OPTIONS}
    return line(id=their_id, method="session/request_permission", params=params)


def opened(offer: ClientOffer = EVERYTHING) -> ClientSide:
    """A machine with the session s1 and a turn in it."""
    machine = ClientSide(offer)
    machine.new_session("/w")
    machine.feed(line(id=1, result={"sessionId": "s1"}))
    machine.prompt("s1", [schema.TextContent(text="go")])
    machine.outbox()
    return machine


def sent(machine: ClientSide) -> list[Any]:
    return [json.loads(message) for message in machine.outbox().splitlines()]


def only(found: list[Fact]) -> Fact:
    (fact,) = found
    return fact


# ── answering ────────────────────────────────────────────────────────────────────────────────────


def test_an_option_that_was_not_offered_is_a_mistake_and_the_question_stays_open() -> None:
    machine = opened()
    asked = only(machine.feed(permission(5)))
    assert isinstance(asked, facts.PermissionRequested)
    with pytest.raises(ValueError, match="not one of the offered options"):
        machine.answer_permission(asked.number, "maybe")
    assert machine.open_requests == {asked.number: "permission"}
    assert machine.answer_permission(asked.number, "y")
    assert machine.open_requests == {}


@pytest.mark.parametrize(
    ("least", "bound"), [(1, 1), (-2.5, -2.5), (10**400, None), (-(10**400), None), (True, None), ("1", None)]
)
def test_a_bound_that_no_number_has_bounds_nothing(least: Any, bound: float | None) -> None:
    (field,) = form_fields({"properties": {"size": {"type": "number", "minimum": least}}})
    assert (field.kind, field.minimum) == ("number", bound)


def test_a_question_is_answered_as_what_it_is() -> None:
    machine = opened()
    asked = only(machine.feed(permission(5)))
    assert isinstance(asked, facts.PermissionRequested)
    with pytest.raises(ValueError, match="'permission'"):
        machine.answer_file(asked.number, "content")
    assert sent(machine) == []


def test_whoever_answers_too_late_is_told_so() -> None:
    machine = opened()
    asked = only(machine.feed(permission(5)))
    assert isinstance(asked, facts.PermissionRequested)
    assert machine.cancel("s1") == [asked.number]
    machine.outbox()
    assert not machine.answer_permission(asked.number, "y")
    assert not machine.answer_permission(77, "y")
    assert not machine.refuse(asked.number, "no")
    assert sent(machine) == []


def test_144_what_runs_here_is_not_answered_by_a_cancel() -> None:
    """A file or a terminal is at work while the turn is cancelled: it is answered when it is done, as always."""
    machine = opened()
    asked = only(machine.feed(line(id=6, method="fs/read_text_file", params={"sessionId": "s1", "path": "/w/a"})))
    assert isinstance(asked, facts.FileReadRequested)
    assert machine.cancel("s1") == []
    assert machine.answer_file(asked.number, "text")


def test_every_question_can_be_refused() -> None:
    machine = opened()
    asked = only(machine.feed(permission("x")))
    assert isinstance(asked, facts.PermissionRequested)
    assert machine.refuse(asked.number, "nobody is there", -32000)
    assert sent(machine) == [{"jsonrpc": "2.0", "id": "x", "error": {"code": -32000, "message": "nobody is there"}}]
    assert machine.open_requests == {}


@pytest.mark.parametrize(
    ("offer", "is_asked"),
    [(ClientOffer(), True), (ClientOffer(forms=False), True), (ClientOffer(urls=False), False)],
    ids=["both", "urls", "forms"],
)
def test_a_question_in_a_way_that_was_not_offered_is_refused(offer: ClientOffer, is_asked: bool) -> None:
    machine = opened(offer)
    params = {"sessionId": "s1", "mode": "url", "message": "go", "url": "https://example.com", "elicitationId": "e"}
    asked = only(machine.feed(line(id=5, method="elicitation/create", params=params)))
    assert isinstance(asked, facts.QuestionAsked if is_asked else facts.UnknownRequested)
    assert ["error" in answer for answer in sent(machine)] == ([] if is_asked else [True])


# ── asking ───────────────────────────────────────────────────────────────────────────────────────


def test_servers_and_folders_are_spelled_out() -> None:
    machine = ClientSide()
    servers: list[schema.McpServer] = [
        schema.McpHttp(
            type="http", name="tools", url="http://127.0.0.1:1/mcp", headers=[schema.NameValue(name="k", value="v")]
        ),
        schema.McpStdio(name="files", command="/bin/files", args=["-v"], env=[]),
    ]
    machine.new_session("/w", servers, ["/more"])
    (message,) = sent(machine)
    assert message["params"] == {
        "cwd": "/w",
        "mcpServers": [
            {
                "type": "http",
                "name": "tools",
                "url": "http://127.0.0.1:1/mcp",
                "headers": [{"name": "k", "value": "v"}],
            },
            {"name": "files", "command": "/bin/files", "args": ["-v"], "env": []},
        ],
        "additionalDirectories": ["/more"],
    }


def test_an_answer_that_was_given_up_is_nothing_any_more() -> None:
    machine = opened()
    machine.give_up(2)
    assert sent(machine) == [{"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 2}}]
    assert isinstance(only(machine.feed(line(id=2, result={"stopReason": "end_turn"}))), facts.Stray)


def test_a_prompt_that_was_given_up_leaves_no_question_open() -> None:
    machine = opened()
    machine.feed(permission(5))
    machine.give_up(2)
    _cancelled, answer = sent(machine)
    assert answer == {"jsonrpc": "2.0", "id": 5, "result": {"outcome": {"outcome": "cancelled"}}}
    assert machine.open_requests == {}


def test_the_answer_to_a_prompt_of_before_does_not_end_the_turn_of_now() -> None:
    machine = opened()
    machine.prompt("s1", [schema.TextContent(text="impatient")])
    machine.feed(permission(5))
    first = machine.feed(line(id=2, result={"stopReason": "end_turn"}))
    assert [type(fact) for fact in first] == [facts.TurnEnded]
    second = machine.feed(line(id=3, result={"stopReason": "end_turn"}))
    assert [type(fact) for fact in second] == [facts.Withdrawn, facts.TurnEnded]


def test_a_session_can_be_forgotten() -> None:
    machine = opened()
    machine.feed(permission(5))
    machine.feed(update("s1", "tool_call", toolCallId="c1", title="Known"))
    machine.forget_session("s1")
    assert machine.open_requests == {}
    told = only(machine.feed(update("s1", "tool_call_update", toolCallId="c1", status="completed")))
    assert isinstance(told, facts.CallUpdate)
    assert told.call.title == ""


# ── bounds ───────────────────────────────────────────────────────────────────────────────────────


def test_what_is_told_of_sessions_that_are_not_open_is_bounded_in_number() -> None:
    machine = ClientSide()
    machine.new_session("/w")
    lost = [
        fact for n in range(HELD_UPDATES + 3) for fact in machine.feed(update("s1", "usage_update", used=n, size=1))
    ]
    assert [type(fact) for fact in lost] == [facts.Stray] * 3
    kept = machine.feed(line(id=1, result={"sessionId": "s1"}))
    first = kept[1]
    assert isinstance(first, facts.UsageUpdate)
    assert (len(kept), first.used) == (HELD_UPDATES + 1, 3)


def test_what_is_told_of_sessions_that_are_not_open_is_bounded_in_size() -> None:
    machine = ClientSide()
    machine.new_session("/w")
    text = "x" * (HELD_BYTES // 4)
    for _ in range(20):
        machine.feed(update("s1", "agent_message_chunk", content={"type": "text", "text": text}))
    kept = machine.feed(line(id=1, result={"sessionId": "s1"}))
    assert [type(fact) for fact in kept] == [facts.SessionOpened, *[facts.TextChunk] * 3]


def test_a_turn_of_many_calls_is_bounded_and_leaves_little_behind() -> None:
    machine = opened()
    text = "x" * 1000
    content = [{"type": "content", "content": {"type": "text", "text": text}}]
    machine.feed(line(id=2, result={"stopReason": "end_turn"}) + update("s1", "notice"))
    machine.prompt("s1", [])
    tracemalloc.start()
    try:
        for n in range(MAX_CALLS * 3):
            machine.feed(
                update("s1", "tool_call", toolCallId=f"c{n}", title="Call", content=content, rawInput={"t": text})
            )
        machine.feed(line(id=3, result={"stopReason": "end_turn"}))
        _, most = tracemalloc.get_traced_memory()
        gc.collect()
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < MAX_CALLS * 10_000
    assert held < 10 * 1024
    last = MAX_CALLS * 3 - 1
    for n, title in ((last, "Call"), (last - KEPT + 1, "Call"), (last - KEPT, "")):
        told = only(machine.feed(update("s1", "tool_call_update", toolCallId=f"c{n}", status="completed")))
        assert isinstance(told, facts.CallUpdate)
        assert told.call.title == title


def test_an_update_over_the_limit_is_lost_and_nothing_else() -> None:
    machine = ClientSide(limit=1000)
    machine.new_session("/w")
    found = machine.feed(
        line(id=1, result={"sessionId": "s1"})
        + update("s1", "agent_message_chunk", content={"type": "text", "text": "x" * 1000})
        + update("s1", "agent_message_chunk", content={"type": "text", "text": "fine"})
    )
    assert [type(fact) for fact in found] == [facts.SessionOpened, facts.Stray, facts.TextChunk]


def test_a_prompt_whose_answer_is_over_the_limit_fails() -> None:
    machine = ClientSide(limit=1000)
    machine.prompt("s1", [])
    found = machine.feed(line(id=1, result={"stopReason": "end_turn", "_meta": {"log": "x" * 1000}}))
    refused = only(found)
    assert isinstance(refused, facts.RequestRefused)
    assert (refused.session, refused.method) == ("s1", "session/prompt")


# ── calls ────────────────────────────────────────────────────────────────────────────────────────


def test_the_id_of_a_call_that_has_ended_may_be_used_again() -> None:
    machine = opened()
    machine.feed(update("s1", "tool_call", toolCallId="1", title="First", kind="read", status="completed", rawInput={}))
    told = only(machine.feed(update("s1", "tool_call", toolCallId="1", title="Second")))
    assert told == facts.CallUpdate(session="s1", call=facts.AgentCall(id="1", title="Second"))


def test_lists_in_a_patch_replace_and_what_is_missing_stays() -> None:
    machine = opened()
    diff = {"type": "diff", "path": "/w/a", "newText": "2", "oldText": "1"}
    machine.feed(update("s1", "tool_call", toolCallId="1", title="Edit", content=[diff], locations=[{"path": "/w/a"}]))
    told = only(machine.feed(update("s1", "tool_call_update", toolCallId="1", content=[])))
    assert isinstance(told, facts.CallUpdate)
    assert (told.call.title, told.call.diffs, told.call.locations) == ("Edit", (), (facts.CallLocation(path="/w/a"),))


# ── anything at all ──────────────────────────────────────────────────────────────────────────────

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
recorded = st.sampled_from(
    [
        json.loads(text[2:])
        for path in DIALOGUES
        for text in path.read_text().splitlines()
        if text.startswith('< {"jsonrpc"') and text.endswith("}")
    ]
)


@given(message=recorded, places=st.lists(st.integers(0, 40), max_size=4), value=json_values)
def test_an_agent_may_send_anything_anywhere(message: Any, places: list[int], value: Any) -> None:
    """Real messages with one value replaced by any other: facts come out, and nothing is raised."""
    machine = opened()
    machine.initialize("tieline", "1")
    machine.list_sessions()
    machine.set_option("s1", "a", "b")
    machine.call("x/y")
    found = machine.feed(json.dumps(replaced(message, places, value)).encode() + b"\n" + update("s1", "notice"))
    assert all(isinstance(fact, Fact) for fact in found)
    assert isinstance(found[-1], facts.Noticed), "what comes next is still understood"
    assert all(isinstance(fact, Fact) for fact in machine.close("over"))


def replaced(message: Any, places: list[int], value: Any) -> Any:
    """The message with the value at a place: a path of indices, taken as they come."""
    if not places or not message or not isinstance(message, dict | list):
        return value
    first, *rest = places
    if isinstance(message, list):
        at = first % len(message)
        return [replaced(item, rest, value) if n == at else item for n, item in enumerate(message)]
    chosen = list(message)[first % len(message)]
    return {name: replaced(item, rest, value) if name == chosen else item for name, item in message.items()}


@given(data=st.binary(max_size=200))
def test_an_agent_may_send_any_bytes(data: bytes) -> None:
    machine = opened()
    found = machine.feed(data + b"\n" + update("s1", "notice"))
    assert isinstance(found[-1], facts.Noticed)
