"""Forced tools and JSON output on an upstream that can only be asked for them."""

import json
from typing import Any

from tests import grammar
from tests.cases import leg
from tests.core.scripted import Script
from tieline.core.emulation.forced_output import ForcedOutputRun, forces_output
from tieline.core.emulation.schema_check import schema_error
from tieline.model.content import Message, Text, Thinking, ToolCall
from tieline.model.events import Event, Failed, Finished, Note, PartEnd, StopReason, Usage
from tieline.model.ports import Host
from tieline.model.request import OutputFormat, Request, ToolChoice, ToolSpec

QUESTION = (Message(role="user", parts=(Text(text="Go."),)),)
FORCED = Request(
    model="m",
    messages=QUESTION,
    tools=(ToolSpec(name="save"), ToolSpec(name="load")),
    tool_choice=ToolChoice(mode="required", names=("save",)),
)
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}
STRUCTURED = Request(model="m", messages=QUESTION, output=OutputFormat(schema=json.dumps(SCHEMA).encode()))
CALL = leg((ToolCall(id="c1", name="save"), ["{}"]), reason=StopReason.TOOL_USE)
OTHER = leg((ToolCall(id="c1", name="load"), ["{}"]), reason=StopReason.TOOL_USE)


def says(text: str) -> list[Event]:
    return leg((Text(), [text]))


async def answered(request: Request, *legs: list[Event]) -> tuple[list[Event], Script]:
    """What a client gets when the upstream answers like this, one leg after the other."""
    upstream = Script()
    upstream.legs = [[events] for events in legs]
    host: Any = Host(human=None)  # type: ignore[arg-type] # nobody is asked here
    run = await ForcedOutputRun.open(lambda asked: upstream.start(asked, host), request)
    events = [event async for batch in run.leg() for event in batch]
    grammar.check(events)
    return events, upstream


def json_of(events: list[Event]) -> Any:
    return json.loads("".join(e.part.text for e in events if isinstance(e, PartEnd) and isinstance(e.part, Text)))


async def test_what_is_as_demanded_passes_at_once() -> None:
    for request, events in ((FORCED, CALL), (STRUCTURED, says('{"n":1}'))):
        assert forces_output(request)
        given, upstream = await answered(request, events)
        assert given == events
        assert len(upstream.requests) == 1


async def test_a_forced_tool_that_was_not_called_is_asked_for_once_more() -> None:
    for first in (says("I would rather talk."), OTHER):
        events, upstream = await answered(FORCED, first, CALL)
        assert [e.part.name for e in events if isinstance(e, PartEnd) and isinstance(e.part, ToolCall)] == ["save"]
        assert [note.kind for note in events if isinstance(note, Note)] == ["demand"]
        (usage,) = [event for event in events if isinstance(event, Usage)]
        spent = [event for event in (*first, *CALL) if isinstance(event, Usage)]
        assert usage.output == sum(one.output for one in spent)
        last = upstream.requests[1].messages[-1]
        assert (last.role, "`save`" in str(last.parts)) == ("user", True)


async def test_what_was_asked_for_twice_in_vain_is_a_clear_error() -> None:
    for request, wrong in ((FORCED, says("No.")), (STRUCTURED, says("No.")), (STRUCTURED, says('{"n":"x"}'))):
        events, upstream = await answered(request, wrong, wrong, wrong)
        (failed,) = events
        assert isinstance(failed, Failed)
        assert (failed.status, failed.code) == (502, "demand_not_met")
        assert ("x-should-retry", "false") in failed.headers
        assert len(upstream.requests) == 2


async def test_json_that_does_not_fit_is_asked_for_once_more() -> None:
    for wrong in ("Sure!", "[1]", '{"n":"one"}', '{"n":1,"m":2}', "{}"):
        events, _ = await answered(STRUCTURED, says(wrong), says('{"n":2}'))
        assert json_of(events) == {"n": 2}


async def test_json_in_a_code_fence_is_taken_out_of_it() -> None:
    thought = (Thinking(), ["Hm."])
    events, upstream = await answered(STRUCTURED, leg(thought, (Text(), ["```json\n", '{"n":3}', "\n```\n"])))
    assert json_of(events) == {"n": 3}
    assert [e.part.text for e in events if isinstance(e, PartEnd) and isinstance(e.part, Thinking)] == ["Hm."]
    assert len(upstream.requests) == 1


async def test_a_call_next_to_json_in_a_code_fence_keeps_its_arguments_and_its_place() -> None:
    call = (ToolCall(id="c1", name="save"), ['{"path":', '"a"}'])
    fenced = (Text(), ["```json\n", '{"n":3}', "\n```\n"])
    events, _ = await answered(STRUCTURED, leg(fenced, call, reason=StopReason.TOOL_USE))
    assert [event.part for event in events if isinstance(event, PartEnd)] == [
        Text(text='{"n":3}'),
        ToolCall(id="c1", name="save", arguments='{"path":"a"}'),
    ]


async def test_an_answer_that_was_cut_refused_or_failed_is_not_asked_for_again() -> None:
    for reason in (StopReason.MAX_TOKENS, StopReason.REFUSAL):
        events, upstream = await answered(FORCED, leg((Text(), ["No"]), reason=reason))
        assert isinstance(events[-1], Finished)
        assert len(upstream.requests) == 1
    failed: list[Event] = [Failed(kind="upstream", message="x")]
    assert (await answered(STRUCTURED, failed))[0] == failed


def test_values_are_checked_against_the_usual_keywords() -> None:
    schema = {
        "$defs": {"node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}, "required": ["id"]}},
        "type": "object",
        "properties": {
            "list": {"type": "array", "items": {"type": "number"}},
            "kind": {"enum": ["a", "b"]},
            "one": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "node": {"$ref": "#/$defs/node"},
            "flag": {"type": ["boolean", "null"]},
        },
    }
    fits: list[Any] = [
        {},
        {"list": [1, 2.5]},
        {"kind": "a", "one": None},
        {"node": {"id": 1, "next": {"id": 2}}},
        {"x": 1},
    ]
    wrong = {
        '{"list":[1,"x"]}': "$.list[1]",
        '{"kind":"c"}': "$.kind",
        '{"one":1}': "$.one",
        '{"node":{"id":1,"next":{}}}': "$.node.next is missing `id`",
        '{"flag":1}': "$.flag",
        "[]": "$ must be of type object",
    }
    assert [schema_error(value, schema) for value in fits] == [None] * len(fits)
    for text, words in wrong.items():
        assert words in str(schema_error(json.loads(text), schema)), text
    assert schema_error([], {"$ref": "#"}) is None, "a schema that is only itself comes to an end"


def test_a_schema_whose_alternatives_are_all_itself_is_checked_in_bounded_time() -> None:
    explosive = {"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}
    assert schema_error({"a": 1}, explosive) is None
    assert schema_error("x", {"type": "object", **explosive}) == "$ must be of type object"


def test_malformed_keywords_of_a_schema_are_ignored() -> None:
    odd = {"type": [{"not": "hashable"}, "object"], "required": True, "anyOf": {}, "allOf": 7, "properties": []}
    assert schema_error({"a": 1}, odd) is None
    assert schema_error([], odd) == "$ must be of type object"
