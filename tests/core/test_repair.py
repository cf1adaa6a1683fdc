"""Repairs of what models get wrong: catalogue 38 and 97 to 101."""

import json
from collections.abc import Iterable, Sequence
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.each import each
from tests.grammar import check
from tieline.core.repair.repairs import DEFAULT, RepairName, Repairs
from tieline.model.assemble import unfold
from tieline.model.content import Message, Part, Text, Thinking, ToolCall, ToolResult
from tieline.model.events import (
    Event,
    Failed,
    Finished,
    Note,
    PartDelta,
    PartEnd,
    PartStart,
    Reply,
    Started,
    StopReason,
    Usage,
)
from tieline.model.request import ToolSpec

ALL: frozenset[RepairName] = frozenset(get_args(RepairName))


def tool(name: str, **properties: Any) -> ToolSpec:
    schema = {"type": "object", "properties": properties, "$defs": {"Lines": {"type": "array"}}}
    return ToolSpec(name=name, schema=json.dumps(schema).encode())


READ = tool("read", path={"type": "string"}, limit={"type": "integer"})
EDIT = tool(
    "edit",
    path={"type": "string"},
    lines={"type": "array", "items": {"type": "integer"}},
    options={"type": "object", "properties": {"deep": {"type": "boolean"}}},
    force={"type": "boolean"},
    ratio={"anyOf": [{"type": "number"}, {"type": "null"}]},
    either={"type": ["string", "number"]},
    named={"$ref": "#/$defs/Lines"},
    anything={},
)
PATCH = ToolSpec(name="patch", freeform=True)
TOOLS = (READ, EDIT, PATCH)


def call(name: str, arguments: str = "{}", call_id: str = "c1") -> ToolCall:
    return ToolCall(id=call_id, name=name, arguments=arguments, freeform=name == "patch")


def leg(*parts: Part, reason: StopReason = StopReason.TOOL_USE) -> list[Event]:
    return unfold(Reply(id="r", model="m", parts=parts, usage=Usage(output=5), finished=Finished(reason=reason)))


def through(
    events: Sequence[Event], *enabled: RepairName, tools: Sequence[ToolSpec] = TOOLS, history: Sequence[Message] = ()
) -> list[Event]:
    repairs = Repairs(tools, frozenset(enabled), history)
    out = [event for one in events for event in repairs.apply((one,))]
    check(out)
    return out


def parts(events: Iterable[Event]) -> list[Part]:
    return [event.part for event in events if isinstance(event, PartEnd)]


def notes(events: Iterable[Event]) -> list[str]:
    return [event.kind for event in events if isinstance(event, Note)]


def reason(events: Sequence[Event]) -> StopReason:
    ending = events[-1]
    assert isinstance(ending, Finished)
    return ending.reason


def streamed(text: str, size: int, reason: StopReason = StopReason.END_TURN) -> list[Event]:
    """A leg of one text in deltas of this many characters."""
    deltas = [PartDelta(index=0, text=text[at : at + size]) for at in range(0, len(text), size)]
    start, end = PartStart(index=0, part=Text()), PartEnd(index=0, part=Text(text=text))
    return [Started(id="r", model="m"), start, *deltas, end, Finished(reason=reason)]


# ── Nothing to do ────────────────────────────────────────────────────────────────────────────────


def test_a_batch_that_the_default_does_not_concern_is_the_very_same_object() -> None:
    repairs = Repairs(TOOLS, DEFAULT)
    events = leg(Text(text="hi"), call("read"), call("nobody"))
    for batch in (events[:4], events[4:]):
        assert repairs.apply(batch) is batch


def test_a_part_that_began_before_a_repair_keeps_its_index() -> None:
    events = leg(Text(text="one"), Text(text="two"), call("parallel", '{"tool_uses":[{"name":"read"}]}'))
    repairs = Repairs(TOOLS, DEFAULT)
    cut = events.index(PartStart(index=1, part=Text())) + 1
    out = [*repairs.apply(events[:cut]), *repairs.apply(events[cut:])]
    check(out)
    assert parts(out)[:2] == [Text(text="one"), Text(text="two")]


# ── 38: wrappers ─────────────────────────────────────────────────────────────────────────────────

INNER = (
    '{"tool_uses":[{"recipient_name":"functions.read","parameters":{"path": "a"}},{"name":"edit","arguments":"{}"}]}'
)


@pytest.mark.parametrize("name", ["parallel", "multi_tool_use", "multi_tool_use.parallel"])
def test_038_a_wrapper_is_taken_off(name: str) -> None:
    out = through(leg(Text(text="t"), call(name, INNER), call("read", call_id="c2")), *DEFAULT)
    assert parts(out) == [
        Text(text="t"),
        call("read", '{"path": "a"}', "c1_1"),
        call("edit", "{}", "c1_2"),
        call("read", call_id="c2"),
    ]
    assert notes(out) == ["repair"]
    assert reason(out) is StopReason.TOOL_USE


@pytest.mark.parametrize(
    "arguments",
    [
        "{}",
        "not json",
        '{"tool_uses":[]}',
        '{"tool_uses":"read"}',
        '{"tool_uses":[{"name":"nobody"}]}',
        '{"tool_uses":[{"name":"read"},{"name":"nobody"}]}',
        '{"tool_uses":[{"name":"read","arguments":[1]}]}',
        '{"tool_uses":[{"name":"read"}],"calls":[]}',
    ],
)
def test_038_a_wrapper_of_anything_else_passes_as_it_is(arguments: str) -> None:
    events = leg(call("parallel", arguments))
    assert through(events, *DEFAULT) == events


def test_038_a_declared_tool_is_no_wrapper() -> None:
    events = leg(call("parallel", INNER))
    assert through(events, *DEFAULT, tools=(*TOOLS, tool("parallel"))) == events


def test_038_the_other_repairs_reach_into_a_wrapper() -> None:
    wrapper = call("parallel", '{"tool_uses":[{"name":"read","parameters":{"limit":"3"}},],}')
    out = through(leg(wrapper), "parallel", "json", "coerce")
    assert parts(out) == [call("read", '{"limit":3}', "c1_1")]
    assert notes(out) == ["repair", "repair", "repair"]


# ── 97: calls as text ────────────────────────────────────────────────────────────────────────────


def tagged(tag: str, inner: str, attribute: str = "") -> str:
    return f"<{PREFIX}{tag}{attribute}>{inner}</{PREFIX}{tag}>"


PREFIX = "antml:"
TEXT_CALLS = [
    '<tool_call>\n{"name": "read", "arguments": {"path": "a"}}\n</tool_call>',
    '<tool_call>{"name":"read","parameters":"{\\"path\\": \\"a\\"}"}</tool_call>',
    '<tool_call>{"function":{"name":"read","arguments":{"path": "a"}}}</tool_call>',
    '<function=read>{"path": "a"}</function>',
    "<tool_call><function=read><parameter=path>\na\n</parameter></function></tool_call>",
    '<invoke name="read"><parameter name="path">a</parameter></invoke>',
    '<function_calls>\n<invoke name="read">\n<parameter name="path">a</parameter>\n</invoke>\n</function_calls>',
    tagged("function_calls", tagged("invoke", tagged("parameter", "a", ' name="path"'), ' name="read"')),
    '```tool_call\n{"name": "read", "arguments": {"path": "a"}}\n```',
    '[TOOL_CALLS][{"name": "read", "arguments": {"path": "a"}}]',
    '[TOOL_CALLS] [{"name": "read", "arguments": {"path": "a"}}]',
]


@each("size", [1, 7, 1000])
@each("written", TEXT_CALLS)
def test_097_a_call_written_as_text_becomes_a_call(written: str, size: int) -> None:
    out = through(streamed(f"Let me look.\n{written}\n", size), "text_calls")
    assert [Text(text="Let me look.\n"), "read"] == [
        part.name if isinstance(part, ToolCall) else part for part in parts(out)
    ]
    (found,) = (part for part in parts(out) if isinstance(part, ToolCall))
    assert json.loads(found.arguments) == {"path": "a"}
    assert found.id == "r_t1"
    assert reason(out) is StopReason.TOOL_USE
    assert notes(out) == ["repair"]
    place = out.index(PartStart(index=1, part=replace(found, arguments="")))
    assert isinstance(out[place - 1], Note)


@pytest.mark.parametrize("size", [1, 5, 1000])
def test_097_text_goes_on_between_and_after_calls(size: int) -> None:
    one = '<tool_call>{"name":"read"}</tool_call>'
    out = through(streamed(f"{one}\n{one} then [1] {one}<b>", size), "text_calls")
    read = [call("read", call_id=f"r_t{number}") for number in (1, 2, 3)]
    assert parts(out) == [read[0], read[1], Text(text=" then [1] "), read[2], Text(text="<b>")]


def test_097_arguments_in_tags_are_typed_by_the_schema() -> None:
    written = "<function=edit><parameter=path>1</parameter><parameter=lines>[1, 2]</parameter></function>"
    (found,) = parts(through(streamed(written, 3), "text_calls"))
    assert isinstance(found, ToolCall)
    assert json.loads(found.arguments) == {"path": "1", "lines": [1, 2]}


def test_097_a_closer_inside_a_json_string_does_not_close() -> None:
    arguments = json.dumps({"path": "say </tool_call> here"})
    written = f'<tool_call>{{"name":"read","arguments":{arguments}}}</tool_call>'
    assert parts(through(streamed(written, 4), "text_calls")) == [call("read", arguments, "r_t1")]


HARMLESS_TEXTS = [
    "a < b and [x] and ``` and <tool> and <function>",
    '<tool_call>{"name":"nobody","arguments":{}}</tool_call>',
    '<tool_call>{"name":"read","arguments":[1]}</tool_call> more',
    '<tool_call>{"name":"read"',
    "<tool_call>read the file</tool_call><tool_call>",
    '<function=read>{"path": }</function>',
    '<invoke name="read">free text</invoke>',
    '[TOOL_CALLS]"no"',
    '[TOOL_CALLS][{"name":"nobody"}]',
    'Write `<tool_call>{"name":"read"}</tool_call>` to call.',
    "```tool_call\nnot json\n```",
    "ends with <tool_c",
]


@each("size", [1, 4, 1000])
@each("text", HARMLESS_TEXTS)
def test_097_anything_else_stays_text_in_the_same_events(text: str, size: int) -> None:
    events = streamed(text, size)
    assert through(events, "text_calls") == events


def test_097_text_is_held_only_while_it_may_be_a_call() -> None:
    repairs = Repairs(TOOLS, frozenset({"text_calls"}))
    events = streamed("a", 1)
    repairs.apply(events[:2])
    for text, count in [("hello ", 1), ("<too", 0), ("th>", 2), ("<tool_call>", 0), ("{}</tool_call>", 2), ("x", 1)]:
        assert len([e for e in repairs.apply((PartDelta(index=0, text=text),)) if isinstance(e, PartDelta)]) == count


def test_097_a_call_that_never_ends_is_let_go() -> None:
    events = streamed("<tool_call>" + "x" * 600_000, 50_000)
    repairs = Repairs(TOOLS, frozenset({"text_calls"}))
    before_the_end = [event for batch in events[:-3] for event in repairs.apply((batch,))]
    assert len(before_the_end) > 5


@each(
    "text",
    [
        "<tool_call>" * 40_000,
        '<tool_call>"' + "</tool_call>" * 40_000,
        "[TOOL_CALLS][" + "]" * 100_000,
        "[TOOL_CALLS][" * 20_000,
        "<function=nobody>" * 20_000 + "</function>",
        "<" * 100_000,
    ],
)
@each("size", [100, 1_000_000])
def test_097_text_made_to_take_time_takes_none(text: str, size: int) -> None:
    events = streamed(text, size)
    assert through(events, "text_calls") == events


def test_097_only_so_many_calls_are_taken() -> None:
    out = parts(through(streamed('<tool_call>{"name":"read"}</tool_call>' * 50, 100), "text_calls"))
    assert sum(isinstance(part, ToolCall) for part in out) == 32
    assert isinstance(out[-1], Text)


def test_097_a_cut_leg_stays_cut() -> None:
    written = '<tool_call>{"name":"read"}</tool_call><tool_call>{"na'
    assert reason(through(streamed(written, 9, StopReason.MAX_TOKENS), "text_calls")) is StopReason.MAX_TOKENS


def test_097_thinking_and_refusals_are_not_looked_into() -> None:
    written = '<tool_call>{"name":"read"}</tool_call>'
    events = leg(Thinking(text=written), Text(text=written, refusal=True), reason=StopReason.REFUSAL)
    assert through(events, "text_calls") == events


def test_097_a_failed_leg_gives_out_what_was_held() -> None:
    failed = Failed(kind="upstream", message="gone")
    harmless = [*streamed("look <tool_ca", 100)[:-2], failed]
    assert through(harmless, "text_calls") == harmless
    found = [*streamed('<tool_call>{"name":"read"}</tool_call> and <tool_ca', 1)[:-2], failed]
    out = through(found, "text_calls")
    assert parts(out) == [call("read", call_id="r_t1")]
    assert "".join(event.text for event in out if isinstance(event, PartDelta)) == "{} and <tool_ca"


# ── 98 and 99: arguments and their schema ────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("given_arguments", "expected"),
    [
        ({"lines": "[1, 2]"}, {"lines": [1, 2]}),
        ({"lines": ["1", 2]}, {"lines": [1, 2]}),
        ({"options": '{"deep": "true"}'}, {"options": {"deep": True}}),
        ({"force": "False"}, {"force": False}),
        ({"ratio": " 1.5 "}, {"ratio": 1.5}),
        ({"named": "[]"}, {"named": []}),
        ("{}", {}),
    ],
)
def test_098_a_string_becomes_what_the_schema_wants(given_arguments: Any, expected: Any) -> None:
    out = through(leg(call("edit", json.dumps(given_arguments))), "coerce")
    (fitted,) = parts(out)
    assert isinstance(fitted, ToolCall)
    assert json.loads(fitted.arguments) == expected
    assert set(notes(out)) == {"repair"}


@pytest.mark.parametrize(
    "arguments",
    [
        {"path": "[1]"},
        {"lines": "1"},
        {"lines": "[1"},
        {"force": "yes"},
        {"force": "1"},
        {"ratio": "NaN"},
        {"either": "1"},
        {"anything": "1"},
        {"other": "1"},
    ],
)
def test_098_a_string_that_may_be_one_or_does_not_fit_stays(arguments: Any) -> None:
    events = leg(call("edit", json.dumps(arguments)))
    assert through(events, "coerce") == events


def test_099_a_key_with_spaces_is_trimmed() -> None:
    out = through(leg(call("edit", '{" path ":"a","options":{"deep\\n":true}}')), "keys")
    assert parts(out) == [call("edit", '{"path":"a","options":{"deep":true}}')]
    assert notes(out) == ["repair", "repair"]


@pytest.mark.parametrize("arguments", ['{"path ": "a", "path": "b"}', '{" other": 1}', '{"path": " a "}'])
def test_099_any_other_key_stays(arguments: str) -> None:
    events = leg(call("edit", arguments))
    assert through(events, "keys") == events


def test_099_a_key_that_the_schema_spells_with_a_space_stays() -> None:
    odd = tool("odd", **{"a ": {}, "a": {}})
    events = leg(call("odd", '{"a ": 1}'))
    assert through(events, "keys", tools=(odd,)) == events


# ── 100: malformed JSON ──────────────────────────────────────────────────────────────────────────

MENDABLE = [
    ("{'path': 'a'}", {"path": "a"}),
    ("{'path': 'a \"b\" \\'c\\''}", {"path": "a \"b\" 'c'"}),
    ('{"path": "a",}', {"path": "a"}),
    ('{"path": "a"', {"path": "a"}),
    ('{"path": "a', {"path": "a"}),
    ('{"path": "a}', {"path": "a"}),
    ('{"options": {"deep": true}', {"options": {"deep": True}}),
    ('{"lines": [1, 2}', {"lines": [1, 2]}),
    ('{"options": {"path": "a}}', {"options": {"path": "a"}}),
    ('{"path": "a"}}', {"path": "a"}),
    ('{"force": True, "ratio": None}', {"force": True, "ratio": None}),
    ('{"path": "line\nline"}', {"path": "line\nline"}),
    ('{"path": "\\u00e9\\n", "limit": -1.5e3,}', {"path": "é\n", "limit": -1500.0}),
]
HOPELESS = [
    '{"path": "a", "limit',
    '{"path":',
    '{"path": "a",',
    '{"path: "a"}',
    '{"path": "a" "limit": 1}',
    "{'path': 'it's'}",
    "read a",
    "[1,",
    '{"path": nobody}',
    '{"path": "\\x"',
    "[" * 100,
    '{"a":' * 100,
]


@each(("arguments", "expected"), MENDABLE)
def test_100_malformed_but_complete_json_is_mended(arguments: str, expected: Any) -> None:
    out = through(leg(call("edit", arguments)), "json")
    (mended,) = parts(out)
    assert isinstance(mended, ToolCall)
    assert json.loads(mended.arguments) == expected
    assert notes(out) == ["repair"]
    assert reason(out) is StopReason.TOOL_USE


@each("arguments", HOPELESS)
def test_100_what_cannot_be_told_is_noted_and_passed_on(arguments: str) -> None:
    events = leg(Text(text="t"), call("edit", arguments), call("read", call_id="c2"))
    out = through(events, "json")
    assert [event for event in out if not isinstance(event, Note)] == events
    assert notes(out) == ["malformed"]


@pytest.mark.parametrize("why", [StopReason.MAX_TOKENS, StopReason.CONTEXT_FULL, StopReason.CANCELLED])
def test_100_a_call_that_was_cut_is_never_mended(why: StopReason) -> None:
    events = leg(call("read"), call("edit", '{"path": "a', "c2"), reason=why)
    assert through(events, *ALL) == events


def test_100_a_failed_leg_is_not_mended() -> None:
    events = [*leg(call("edit", '{"path": "a'))[:-1], Failed(kind="upstream", message="gone")]
    assert through(events, "json") == events
    unfinished = [*events[:3], events[-1]]
    assert through(unfinished, "json") == unfinished


@pytest.mark.parametrize("arguments", ["", " ", "{}", '{"a": 1}'])
def test_100_valid_or_no_arguments_are_not_touched(arguments: str) -> None:
    events = leg(call("edit", arguments), call("patch", "*** raw", "c2"))
    assert through(events, "json") == events


# ── 101: unknown tools and repetitions ───────────────────────────────────────────────────────────


def test_101_a_call_to_an_unknown_tool_passes_with_a_note() -> None:
    events = leg(call("nobody"), call("read", call_id="c2"))
    out = through(events, "unknown")
    assert [event for event in out if not isinstance(event, Note)] == events
    assert notes(out) == ["unknown_tool"]
    assert isinstance(out[1], Note)


def made(number: int, arguments: str = '{"path":"a","limit":1}', result: str = "same") -> tuple[Message, Message]:
    one = call("read", arguments, f"h{number}")
    answer = ToolResult(call_id=one.id, content=(Text(text=result, meta={"wire": {"mark": number}}),))
    return Message(role="assistant", parts=(one,)), Message(role="user", parts=(answer,))


ASKED = Message(role="user", parts=(Text(text="go"),))
THREE = (ASKED, *made(1), *made(2), *made(3))
AGAIN = call("read", '{"limit": 1, "path": "a"}')


def test_101_a_call_that_goes_round_in_circles_is_stopped() -> None:
    out = through(leg(AGAIN), "repeat", history=THREE)
    (said,) = parts(out)
    assert isinstance(said, Text)
    assert "read was not made" in said.text
    assert notes(out) == ["repair"]
    assert reason(out) is StopReason.END_TURN


def test_101_the_other_calls_of_the_leg_are_made() -> None:
    out = through(leg(AGAIN, call("edit", call_id="c2")), "repeat", history=THREE)
    assert parts(out)[1] == call("edit", call_id="c2")
    assert reason(out) is StopReason.TOOL_USE


@pytest.mark.parametrize(
    "history",
    [
        (),
        (ASKED, *made(1), *made(2)),
        (*THREE, ASKED),
        (ASKED, *made(1), *made(2, result="other"), *made(3)),
        (ASKED, *made(1), *made(2, arguments="{}"), *made(3)),
        (ASKED, *made(1), Message(role="assistant", parts=(Text(text="hm"),)), *made(2), *made(3)),
    ],
)
def test_101_anything_short_of_a_circle_passes(history: Sequence[Message]) -> None:
    events = leg(AGAIN)
    assert through(events, "repeat", history=history) == events


# ── Properties ───────────────────────────────────────────────────────────────────────────────────

texts = st.text(st.sampled_from("ab <>[]`{}\n"), min_size=1, max_size=12) | st.sampled_from(
    ["<tool_call>", "<tool", "[TOOL_CALLS]", "```tool_call\n", "<function=read>", "</function>", "x"]
)
harmless_parts: st.SearchStrategy[Part] = st.one_of(
    texts.map(lambda text: Text(text=text)),
    texts.map(lambda text: Thinking(text=text)),
    st.sampled_from([call("read", '{"path": "a", "limit": 3}'), call("edit", '{"lines": [1]}'), call("patch", "raw")]),
)
endings = st.sampled_from([StopReason.TOOL_USE, StopReason.END_TURN, StopReason.MAX_TOKENS])
extras = st.sampled_from([None, Usage(output=1), Note(kind="seen", message="x")])


@st.composite
def legs(draw: st.DrawFn, of: st.SearchStrategy[Part]) -> list[Event]:
    """A leg whose deltas are cut anyhow, with other events anywhere."""
    events: list[Event] = []
    for event in leg(*draw(st.lists(of, max_size=5)), reason=draw(endings)):
        if isinstance(event, PartDelta):
            at = draw(st.integers(0, len(event.text)))
            cuts = [text for text in (event.text[:at], event.text[at:]) if text]
            events += [replace(event, text=text) for text in cuts]
        else:
            events.append(event)
        extra = draw(extras)
        if extra is not None and not isinstance(event, Finished):
            events.append(extra)
    return events


def in_batches(events: Sequence[Event], sizes: Sequence[int], repairs: Repairs) -> list[Event]:
    out: list[Event] = []
    rest = list(events)
    for size in sizes:
        out += repairs.apply(rest[:size])
        rest = rest[size:]
    return [*out, *repairs.apply(rest)]


batch_sizes = st.lists(st.integers(0, 4), max_size=12)


@given(legs(harmless_parts), batch_sizes)
def test_what_nothing_is_wrong_with_passes_unchanged(events: list[Event], sizes: list[int]) -> None:
    assert in_batches(events, sizes, Repairs(TOOLS, ALL, THREE[:3])) == events


BROKEN: list[Part] = [
    Text(text='<tool_call>{"name":"read"}</tool_call> and <function=edit>{}</function>'),
    Text(text='a [TOOL_CALLS][{"name":"read","arguments":{" limit":"1"}}]'),
    call("parallel", INNER),
    call("edit", '{"lines": "[1]", "path ": "a"}'),
    call("edit", '{"lines": "[1]", "path ": "a'),
    call("read", "{'path': }"),
    call("nobody"),
    AGAIN,
]
broken_parts = harmless_parts | st.sampled_from(BROKEN)


@given(legs(broken_parts), batch_sizes)
def test_how_batches_are_cut_does_not_matter_and_the_grammar_holds(events: list[Event], sizes: list[int]) -> None:
    whole = list(Repairs(TOOLS, ALL, THREE).apply(events))
    check(whole)
    assert in_batches(events, sizes, Repairs(TOOLS, ALL, THREE)) == whole


@given(legs(broken_parts), st.integers(1, 40))
def test_a_leg_that_fails_anywhere_keeps_the_grammar(events: list[Event], at: int) -> None:
    broken = [*events[: min(at, len(events) - 1)], Failed(kind="upstream", message="gone")]
    check(Repairs(TOOLS, ALL, THREE).apply(broken))
