"""Upstreams with the Responses API: what they send, in every way to a client, and what they get."""

import json
from typing import Any

from tests.catalogue.crossing import CROSSINGS, Crossing, Seen, shown
from tests.each import each
from tests.grammar import check
from tieline.core.history.thinking import ThinkingMemory
from tieline.core.history.tidy import tidy
from tieline.model.content import Message, Part, Text, Thinking, ToolCall, ToolResult
from tieline.model.events import Event, Failed, PartEnd
from tieline.model.request import Request, ToolSpec
from tieline.wire import anthropic, openai_chat, openai_responses
from tieline.wire.openai_responses import Dialect, build_request, recovered
from tieline.wire.shared.spelling import ToolNames

EACH_CROSSING = each("crossing", CROSSINGS, ids=str)
USAGE = {
    "input_tokens": 9,
    "input_tokens_details": {"cached_tokens": 0},
    "output_tokens": 5,
    "output_tokens_details": {"reasoning_tokens": 0},
}
CREATED = {"type": "response.created", "response": {"id": "resp_1", "model": "m", "status": "in_progress"}}
MESSAGE = {"id": "msg_1", "type": "message", "content": [{"type": "output_text", "text": "Hello", "annotations": []}]}
CALL = {"id": "fc_1", "type": "function_call", "call_id": "call_1", "name": "read", "arguments": '{"path":"a"}'}
REASONING = {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "gAAA"}


def completed(*output: Any) -> dict[str, Any]:
    return {"type": "response.completed", "response": {"status": "completed", "output": [*output], "usage": USAGE}}


def added(place: int, item: Any) -> dict[str, Any]:
    empty: dict[str, Any] = {"content": []} if item["type"] == "message" else {"arguments": ""}
    return {"type": "response.output_item.added", "output_index": place, "item": {**item, **empty}}


def done(place: int, item: Any) -> dict[str, Any]:
    return {"type": "response.output_item.done", "output_index": place, "item": item}


def text(delta: str, place: int = 0, item_id: str = "msg_1") -> dict[str, Any]:
    kind = "response.output_text.delta"
    return {"type": kind, "output_index": place, "content_index": 0, "item_id": item_id, "delta": delta}


def arguments(delta: str, place: int = 0, item_id: str = "fc_1") -> dict[str, Any]:
    return {
        "type": "response.function_call_arguments.delta",
        "output_index": place,
        "item_id": item_id,
        "delta": delta,
    }


def events_of(*frames: Any) -> list[Event]:
    """The events of a stream."""
    reader = openai_responses.ResponseReader(ToolNames(), fallback_id="fallback", model="m")
    data = b"".join(b"data: %b\n\n" % json.dumps(frame).encode() for frame in frames)
    events = [*reader.feed(data), *reader.close()]
    check(events)
    return events


def seen(crossing: Crossing, *frames: Any) -> Seen:
    """What a client sees of a stream."""
    return shown(events_of(*frames), crossing)


def parts_of(*frames: Any) -> tuple[Part, ...]:
    return tuple(event.part for event in events_of(*frames) if isinstance(event, PartEnd))


def made(answer: Seen) -> list[tuple[str, str, Any]]:
    return [(call.id, call.name, json.loads(call.arguments)) for call in answer.calls]


READ = [("call_1", "read", {"path": "a"})]


# ── Answers ──────────────────────────────────────────────────────────────────────────────────────


@EACH_CROSSING
def test_015_deltas_without_a_start_reach_the_client(crossing: Crossing) -> None:
    frames = [CREATED, text("Hel"), text("lo"), arguments('{"path":', 1), arguments('"a"}', 1)]
    answer = seen(crossing, *frames, done(0, MESSAGE), done(1, CALL), completed(MESSAGE, CALL))
    assert (answer.text, made(answer)) == ("Hello", READ)


@EACH_CROSSING
def test_019_arguments_that_come_only_at_the_end_are_neither_lost_nor_doubled(crossing: Crossing) -> None:
    final = {"type": "response.function_call_arguments.done", "output_index": 0, "arguments": CALL["arguments"]}
    for middle in ([], [final], [final, done(0, CALL)], [done(0, CALL)], [arguments('{"pa'), final, done(0, CALL)]):
        answer = seen(crossing, CREATED, added(0, CALL), *middle, completed(CALL))
        assert (made(answer), answer.finish) == (READ, "tool_use" if crossing.client == "anthropic" else "tool_calls")


@EACH_CROSSING
def test_020_ids_that_change_with_every_event_do_not_matter(crossing: Crossing) -> None:
    answer = seen(
        crossing,
        CREATED,
        added(0, {**MESSAGE, "id": "a"}),
        text("Hel", 0, "b"),
        text("lo", 0, "c"),
        done(0, {**MESSAGE, "id": "d"}),
        added(1, {**CALL, "id": "e"}),
        arguments('{"path":"a"}', 1, "f"),
        done(1, {**CALL, "id": "g"}),
        completed({**MESSAGE, "id": "h"}, {**CALL, "id": "i"}),
    )
    assert (answer.text, made(answer), answer.order) == ("Hello", READ, ["text", "call"])


@EACH_CROSSING
def test_052_the_parts_of_a_summary_are_separated_by_blank_lines(crossing: Crossing) -> None:
    kind = "response.reasoning_summary_text.delta"
    deltas = [{"type": kind, "output_index": 0, "summary_index": n, "delta": t} for n, t in enumerate(("one", "two"))]
    item = {**REASONING, "summary": [{"type": "summary_text", "text": t} for t in ("one", "two")]}
    started = {"type": "response.output_item.added", "output_index": 0, "item": REASONING}
    answer = seen(crossing, CREATED, started, *deltas, done(0, item), done(1, MESSAGE), completed(item, MESSAGE))
    assert (answer.thinking, answer.text) == ("one\n\ntwo", "Hello")


@EACH_CROSSING
def test_124_a_stream_without_its_last_event_is_an_error(crossing: Crossing) -> None:
    answer = seen(crossing, CREATED, added(0, MESSAGE), text("Hello"), done(0, MESSAGE))
    assert answer.error is not None
    assert "ended early" in answer.error["message"]


@EACH_CROSSING
def test_125_items_are_shown_whether_or_not_the_last_event_lists_them(crossing: Crossing) -> None:
    streamed = [added(0, MESSAGE), text("Hello"), done(0, MESSAGE), added(1, CALL), done(1, CALL)]
    for frames in ([CREATED, *streamed, completed()], [CREATED, completed(MESSAGE, CALL)]):
        answer = seen(crossing, *frames)
        assert (answer.text, made(answer)) == ("Hello", READ)


@EACH_CROSSING
def test_126_a_text_and_a_call_with_one_index_stay_apart(crossing: Crossing) -> None:
    begun = [CREATED, added(0, MESSAGE), text("Hel"), added(0, CALL), arguments('{"path":"a"}'), text("lo")]
    answer = seen(crossing, *begun, done(0, MESSAGE), done(0, CALL), completed(MESSAGE, CALL))
    assert (answer.text, made(answer)) == ("Hello", READ)


@EACH_CROSSING
def test_127_usage_without_details_is_usage(crossing: Crossing) -> None:
    last = completed(MESSAGE)
    last["response"]["usage"] = {"input_tokens": 9, "output_tokens": 5}
    usage = seen(crossing, CREATED, last).usage
    is_anthropic = crossing.client == "anthropic"
    names = ("input_tokens", "output_tokens") if is_anthropic else ("prompt_tokens", "completion_tokens")
    assert [usage[name] for name in names] == [9, 5]


@EACH_CROSSING
def test_128_sequence_numbers_do_not_matter(crossing: Crossing) -> None:
    frames = [CREATED, added(0, MESSAGE), text("Hel"), text("lo"), done(0, MESSAGE), completed(MESSAGE)]
    for numbers in ((0,) * 6, (5, 4, 3, 2, 1, 0)):
        numbered = [{**frame, "sequence_number": number} for frame, number in zip(frames, numbers, strict=True)]
        assert seen(crossing, *numbered).text == "Hello"


@EACH_CROSSING
def test_129_a_final_event_without_a_name_and_without_a_predecessor_is_enough(crossing: Crossing) -> None:
    final = {"type": "response.function_call_arguments.done", "output_index": 0, "arguments": CALL["arguments"]}
    for frames in ([final, done(0, CALL)], [final], [done(0, CALL)]):
        assert made(seen(crossing, CREATED, *frames, completed(CALL))) == READ


# ── Requests ─────────────────────────────────────────────────────────────────────────────────────


def history(*parts: Part) -> Request:
    """A request after an answer with these parts."""
    results = tuple(ToolResult(call_id=part.id) for part in parts if isinstance(part, ToolCall))
    said = (Message(role="assistant", parts=parts), Message(role="user", parts=(*results, Text(text="Go on"))))
    tools = (ToolSpec(name="read"),)
    return Request(model="m", messages=(Message(role="user", parts=(Text(text="Hi"),)), *said), tools=tools)


def sent(request: Request, **quirks: Any) -> list[Any]:
    found: list[Any] = json.loads(build_request(request, Dialect(**quirks)).body)["input"]
    return found


def told_again(client: str, crossing_events: list[Event]) -> Request:
    """The request in which a client sends an answer back, as far as its protocol can express it."""
    kept = shown(crossing_events, Crossing("anthropic" if client == "anthropic" else "openai_chat", False)).frames[0]
    user = {"role": "user", "content": "Go on"}
    if client == "anthropic":
        said = {"role": "assistant", "content": kept["content"]}
        body = {"model": "m", "max_tokens": 99, "messages": [{"role": "user", "content": "Hi"}, said, user]}
        return anthropic.parse_request(json.dumps(body).encode())
    said = kept["choices"][0]["message"]
    return openai_chat.parse_request(
        json.dumps({"model": "m", "messages": [{"role": "user", "content": "Hi"}, said, user]}).encode()
    )


@each("client", ["anthropic", "openai_chat"])
def test_049_reasoning_comes_back_from_every_client(client: str) -> None:
    """A Messages client sends it back itself; for a Chat client it is remembered."""
    item = {**REASONING, "summary": [{"type": "summary_text", "text": "hm"}]}
    events = events_of(CREATED, completed(item, MESSAGE))
    request = told_again(client, events)
    memory = ThinkingMemory()
    memory.remember("up", request.messages[:1], [event.part for event in events if isinstance(event, PartEnd)])
    messages = memory.restore("up", tidy(request.messages)[0])
    items = sent(Request(model="m", messages=messages, protocol=client))
    assert items[1] == {**item, "summary": [{"type": "summary_text", "text": "hm"}]}


def test_049_reasoning_has_id_summary_and_no_plain_content() -> None:
    thinking, _ = parts_of(CREATED, completed({**REASONING, "content": []}, MESSAGE))
    (item, *_) = sent(history(thinking))[1:]
    assert item == REASONING


def test_050_reasoning_that_cannot_be_decrypted_is_left_out_and_the_rest_is_sent_again() -> None:
    built = build_request(history(Thinking(signature="openai:rs_1:gAAA"), Text(text="Hello")))
    failed = Failed(kind="bad_request", message="no", status=400, code="invalid_encrypted_content")
    again = recovered(built, failed)
    assert again is not None
    assert [item["type"] for item in json.loads(again.body)["input"]] == ["message", "message", "message"]
    assert recovered(again, failed) is None


def test_050_signatures_of_other_upstreams_are_never_sent_as_encrypted_content() -> None:
    for signature in ("c2ln", None):
        assert [item["type"] for item in sent(history(Thinking(text="hm", signature=signature), Text(text="a")))] == [
            "message",
            "message",
            "message",
        ]


def test_051_reasoning_goes_back_as_it_came() -> None:
    texts = ["**One**\n\nx", "", "two"]
    item = {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": t} for t in texts if t],
        "encrypted_content": "g:A=",
    }
    thinking, _ = parts_of(CREATED, completed(item, MESSAGE))
    assert sent(history(thinking))[1] == item


def test_131_the_calls_and_results_of_one_answer_stay_together() -> None:
    one, two = ToolCall(id="a", name="read", arguments="{}"), ToolCall(id="b", name="read", arguments="{}")
    assert [(item["type"], item.get("call_id")) for item in sent(history(one, two))] == [
        ("message", None),
        ("function_call", "a"),
        ("function_call", "b"),
        ("function_call_output", "a"),
        ("function_call_output", "b"),
        ("message", None),
    ]


def test_r10_a_result_without_its_call_becomes_text() -> None:
    lost = Message(role="user", parts=(ToolResult(call_id="gone", content=(Text(text="print(1)"),)),))
    messages, _ = tidy((Message(role="user", parts=(Text(text="Hi"),)), lost))
    items = sent(Request(model="m", messages=messages))
    assert {item["type"] for item in items} == {"message"}
    assert "print(1)" in json.dumps(items)


def test_132_ids_of_items_have_the_prefix_that_the_api_expects_or_are_left_out() -> None:
    call = ToolCall(id="c", name="read", arguments="{}", meta={"openai_responses": {"id": "item_1"}})
    text_part = Text(text="a", meta={"openai_responses": {"id": "msg_1"}})
    assert [item.get("id") for item in sent(history(text_part, call))][1:3] == ["msg_1", None]


def test_134_phases_and_items_of_this_protocol_survive() -> None:
    final = {**MESSAGE, "phase": "commentary"}
    compaction = {"id": "cmp_1", "type": "compaction", "encrypted_content": "x"}
    parts = parts_of(CREATED, completed(compaction, final))
    first, second = sent(history(*parts))[1:3]
    assert first == compaction
    assert (second["phase"], second["content"]) == ("commentary", "Hello")
