"""Known failures 113 to 123: what a request says beside its tools."""

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any

import pytest

from tests.catalogue.asking import (
    PAIRS,
    Json,
    ask,
    ask_anything,
    asking,
    assistant,
    calls,
    parsed,
    results,
    tool,
    user,
)
from tests.catalogue.crossing import (
    CROSSINGS,
    PROTOCOLS,
    Crossing,
    Protocol,
    chat_stream,
    chunk,
    cross,
    events_of,
    message_stream,
    shown,
    sse,
    text_block,
    tool_block,
)
from tests.each import each
from tieline.core.history.token_estimate import estimate
from tieline.core.inbox.inbox import Inbox
from tieline.core.legs.gateway import Gateway
from tieline.core.legs.leg import LegClient
from tieline.core.legs.routing import Router
from tieline.model.content import ToolResult
from tieline.model.errors import GatewayError
from tieline.model.events import Batch, Event
from tieline.model.ports import Host, ModelInfo, Run
from tieline.model.request import Request
from tieline.tasks import Tasks
from tieline.wire import anthropic, openai_chat

every_pair = each(("client", "upstream"), PAIRS)
every_client = pytest.mark.parametrize("client", PROTOCOLS)
every_upstream = pytest.mark.parametrize("upstream", PROTOCOLS)
every_crossing = pytest.mark.parametrize("crossing", CROSSINGS)

A, C = PROTOCOLS
MARK = {"type": "ephemeral"}

INBOX = Inbox(mint=lambda: "ask_1", clock=lambda: 0.0)


def text(words: str, **fields: Any) -> Json:
    return {"type": "text", "text": words, **fields}


# ── 113: the other shape ─────────────────────────────────────────────────────────────────────────


@every_upstream
def test_113_blocks_and_tools_of_the_other_shape_are_understood(upstream: Protocol) -> None:
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}
    turns = [
        [{"role": "user", "content": [text("look", cache_control=MARK), picture]}],
        [{"role": "assistant", "content": [text("I will."), *calls(A, ("c1", "read", {"path": "a"}))[0]["content"]]}],
        [{"role": "user", "content": [text("and then?"), *results(A, ("c1", [text("one")]))[0]["content"]]}],
    ]
    said = asking(C, *turns, tools=[tool(A, "read")], tool_choice={"type": "any"})
    sent = ask(said, C, upstream)
    assert sent.tools == {"read": {"type": "object", "properties": {"path": {"type": "string"}}}}
    assert sent.calls == [("c1", "read", {"path": "a"})]
    assert sent.results == [("c1", "one")]
    assert sent.said[-1] == ("user", "and then?")
    assert len(sent.blocks("image" if upstream == A else "image_url")) == 1
    assert sent.body["tool_choice"] == ({"type": "any"} if upstream == A else "required")


@every_upstream
@pytest.mark.parametrize("system", ["Be brief.", [text("Be", cache_control=MARK), text("brief.")]])
def test_113_a_system_prompt_beside_the_messages_is_understood(upstream: Protocol, system: Any) -> None:
    sent = ask({**asking(C, user("hi")), "system": system}, C, upstream)
    assert " ".join(sent.system).split() == ["Be", "brief."]
    assert sent.said[-1] == ("user", "hi")


@every_upstream
def test_113_the_thinking_and_the_errors_of_the_other_shape_are_understood(upstream: Protocol) -> None:
    thought = {"type": "thinking", "thinking": "hm", "signature": "s1g"}
    failed = {**results(A, ("c1", "no such file"))[0]["content"][0], "is_error": True}
    said = asking(
        C,
        user("hi"),
        [{"role": "assistant", "content": [thought, *calls(A, ("c1", "read", {}))[0]["content"]]}],
        [{"role": "user", "content": [failed]}],
        tools=[{"name": "read", "input_schema": {"type": "object"}, "type": "custom"}],
    )
    sent = ask(said, C, upstream)
    if upstream == A:
        assert sent.messages[1]["content"][0] == thought
        assert sent.blocks("tool_result")[0]["is_error"] is True
    else:
        assert sent.results == [("c1", "Error: no such file")]


# ── 114 and 115: system text, runs of one role, prefill ──────────────────────────────────────────


@every_pair
def test_114_a_system_prompt_stays_in_front(client: Protocol, upstream: Protocol) -> None:
    said = asking(A, user("hi"), system="Be kind.")
    if client == C:
        said = asking(C, [{"role": "system", "content": "Be kind."}], user("hi"))
    sent = ask(said, client, upstream)
    assert sent.system == ["Be kind."]
    assert sent.said[-1] == ("user", "hi")


@every_pair
def test_114_blocks_of_the_system_prompt_keep_their_boundaries_and_marks(client: Protocol, upstream: Protocol) -> None:
    blocks = [text("Be kind.", cache_control=MARK), text("Be brief.")]
    said = asking(A, user("hi"), system=blocks)
    if client == C:
        said = asking(C, [{"role": "system", "content": blocks}], user("hi"))
    if upstream == A:
        assert ask(said, client, upstream).body["system"] == blocks
    else:
        kept = ask_anything(said, client, upstream, openai_chat.Dialect(cache_marks=True, text_parts=True))
        assert kept.messages[0]["content"] == blocks
        assert "".join(ask(said, client, upstream).system).replace("\n\n", "") == "Be kind.Be brief."


@every_upstream
@pytest.mark.parametrize("role", ["system", "developer"])
def test_114_several_system_messages_all_count(upstream: Protocol, role: str) -> None:
    systems = [{"role": role, "content": words} for words in ("One.", "Two.", "Three.")]
    said = asking(C, systems, user("hi"))
    assert ask(said, C, upstream).system == ["One.", "Two.", "Three."]
    if upstream == C:
        first = ask(said, C, C, openai_chat.Dialect(system="first"))
        assert first.system == ["One.\n\nTwo.\n\nThree."]


@every_pair
@each("content", ["Now be brief.", [text("Now be brief.")]])
def test_114_a_late_system_message_stays_in_place_or_becomes_a_reminder(
    client: Protocol, upstream: Protocol, content: Any
) -> None:
    late = [{"role": "system", "content": content}]
    sent = ask(asking(client, user("hi"), assistant("hello"), user("go"), late), client, upstream)
    if client == upstream:
        assert sent.roles == ["user", "assistant", "user", "system"]
        assert sent.said[-1] == ("system", "Now be brief.")
    else:
        assert "system" not in sent.roles
        assert sent.said[-1][1].endswith("<system-reminder>\nNow be brief.\n</system-reminder>")
        assert sent.system == []


@every_client
def test_114_strict_upstreams_never_see_a_late_system_message(client: Protocol) -> None:
    late = [{"role": "system", "content": "Now be brief."}]
    said = asking(client, user("hi"), late, assistant("hello"), user("go"))
    for upstream, dialect in (
        (A, anthropic.Dialect(system_in_messages=False)),
        (C, openai_chat.Dialect(system="first")),
    ):
        sent = ask(said, client, upstream, dialect)
        assert "system" not in sent.roles
        assert "Now be brief." in "".join(words for _, words in sent.said)


@every_upstream
def test_114_the_line_for_the_bill_goes_only_to_those_who_send_it(upstream: Protocol) -> None:
    billing = text("x-anthropic-billing-header: cc_version=2.1.325; cch=1f2e3;")
    sent = ask(asking(A, user("hi"), system=[billing, text("Be kind.")]), A, upstream)
    assert sent.system == ([billing["text"], "Be kind."] if upstream == A else ["Be kind."])


@every_pair
def test_115_runs_of_one_role_lose_nothing(client: Protocol, upstream: Protocol) -> None:
    turns = [user("one"), user("two"), assistant("three"), assistant("four"), user("five"), user("six")]
    sent = ask(asking(client, *turns), client, upstream)
    if upstream == A:
        assert sent.said == [("user", "one|two"), ("assistant", "three|four"), ("user", "five|six")]
    else:
        words = ["one", "two", "three", "four", "five", "six"]
        assert [said for _, said in sent.said] == words


@every_pair
def test_115_an_answer_begun_by_the_client_goes_on(client: Protocol, upstream: Protocol) -> None:
    sent = ask(asking(client, user("Count."), assistant("One, two, ")), client, upstream)
    assert sent.roles == ["user", "assistant"]
    assert sent.said[-1] == ("assistant", "One, two," if upstream == A else "One, two, ")


@every_client
def test_115_a_history_that_begins_with_the_assistant_is_taken(client: Protocol) -> None:
    sent = ask(asking(client, assistant("Welcome."), user("hi")), client, A)
    assert sent.roles == ["user", "assistant", "user"]


# ── 116 to 118: sampling ─────────────────────────────────────────────────────────────────────────


@every_pair
def test_116_stop_strings_arrive(client: Protocol, upstream: Protocol) -> None:
    for stop in (["END"], ["END", "\n\nObservation:"]):
        said = asking(client, user("hi"), **{"stop_sequences" if client == A else "stop": stop})
        assert ask(said, client, upstream).body["stop_sequences" if upstream == A else "stop"] == stop


@every_upstream
def test_116_one_stop_string_may_stand_alone(upstream: Protocol) -> None:
    sent = ask(asking(C, user("hi"), stop="END"), C, upstream)
    assert sent.body["stop_sequences" if upstream == A else "stop"] == ["END"]


@every_client
def test_116_too_many_stop_strings_are_cut_with_a_note(client: Protocol) -> None:
    stop = list("abcdef")
    said = asking(client, user("hi"), **{"stop_sequences" if client == A else "stop": stop})
    sent = ask(said, client, C)
    assert sent.body["stop"] == ["a", "b", "c", "d"]
    assert sent.kinds == ["left_out"]
    assert ask(said, client, A).body["stop_sequences"] == stop


@every_client
def test_116_blank_stop_strings_are_left_out_where_they_are_refused(client: Protocol) -> None:
    said = asking(client, user("hi"), **{"stop_sequences" if client == A else "stop": ["\n", "END", ""]})
    sent = ask(said, client, A)
    assert sent.body["stop_sequences"] == ["END"]
    assert sent.kinds == ["left_out"]
    only_blank = asking(client, user("hi"), **{"stop_sequences" if client == A else "stop": ["\n"]})
    assert "stop_sequences" not in ask(only_blank, client, A).body


def stopped_answer(upstream: Protocol) -> bytes:
    if upstream == A:
        return message_stream(*text_block(0, "one"), stop="stop_sequence", stop_sequence="END")
    last = chunk(finish="stop")
    last["choices"][0]["stop_reason"] = "END"
    return sse(chunk({"content": "one"}), last, "[DONE]")


@every_crossing
@every_upstream
def test_116_the_client_hears_which_one_fired(upstream: Protocol, crossing: Crossing) -> None:
    seen = cross(stopped_answer(upstream), upstream, crossing)
    assert seen.finish == ("stop_sequence" if crossing.client == A else "stop")
    if crossing.client == "openai_responses":
        return  # there are no stop sequences in that protocol
    if crossing.client == C:
        assert [c["stop_reason"] for f in seen.frames for c in f["choices"] if "stop_reason" in c] == ["END"]
    elif crossing.stream:
        assert next(f["delta"]["stop_sequence"] for f in seen.frames if f["type"] == "message_delta") == "END"
    else:
        assert seen.frames[0]["stop_sequence"] == "END"


@every_upstream
@pytest.mark.parametrize("fields", [{"max_tokens": 77}, {"max_completion_tokens": 77}])
def test_117_either_name_of_the_limit_counts(upstream: Protocol, fields: Json) -> None:
    assert ask(asking(C, user("hi"), **fields), C, upstream).body["max_tokens"] == 77


@every_client
def test_117_the_limit_has_the_name_the_upstream_knows(client: Protocol) -> None:
    sent = ask(
        asking(client, user("hi"), max_tokens=77),
        client,
        C,
        openai_chat.Dialect(max_tokens_field="max_completion_tokens"),
    )
    assert sent.body["max_completion_tokens"] == 77
    assert "max_tokens" not in sent.body


def test_117_a_limit_is_made_up_only_where_it_is_demanded() -> None:
    said = asking(C, user("hi"))
    assert ask(said, C, A).body["max_tokens"] == anthropic.Dialect().max_tokens
    assert ask(said, C, A, anthropic.Dialect(max_tokens=4096)).body["max_tokens"] == 4096
    assert b"max" not in ask(said, C, C).raw


@every_pair
@each("fields", [{"temperature": 0}, {"temperature": 0.7}, {"top_p": 0.5}])
def test_118_one_of_temperature_and_top_p_arrives(client: Protocol, upstream: Protocol, fields: Json) -> None:
    sent = ask(asking(client, user("hi"), **fields), client, upstream)
    assert {name: sent.body[name] for name in ("temperature", "top_p") if name in sent.body} == fields


@every_client
def test_118_both_together_are_one_where_both_are_refused(client: Protocol) -> None:
    said = asking(client, user("hi"), temperature=0.7, top_p=0.5)
    sent = ask(said, client, A)
    assert (sent.body["temperature"], "top_p" in sent.body) == (0.7, False)
    assert sent.kinds == ["left_out"]
    assert ask(said, client, C).body["top_p"] == 0.5


@every_client
def test_118_thinking_allows_no_temperature(client: Protocol) -> None:
    asks: Json = {"reasoning_effort": "high"} if client == C else {"thinking": {"type": "adaptive"}}
    said = asking(client, user("hi"), temperature=0.2, max_tokens=9000, **asks)
    sent = ask(said, client, A)
    assert sent.body["thinking"] == {"type": "adaptive"}
    assert "temperature" not in sent.body
    assert sent.kinds == ["left_out"]
    assert ask(said, client, C).body["temperature"] == 0.2


def test_118_a_temperature_above_the_most_there_is_becomes_the_most() -> None:
    said = asking(C, user("hi"), temperature=1.5)
    sent = ask(said, C, A)
    assert sent.body["temperature"] == 1
    assert sent.kinds == ["changed"]
    assert ask(said, C, C).body["temperature"] == 1.5


# ── 119: structured output ───────────────────────────────────────────────────────────────────────

SHAPE = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}


def structured(client: Protocol) -> Json:
    if client == A:
        return asking(A, user("hi"), output_config={"format": {"type": "json_schema", "schema": SHAPE}})
    wanted = {"name": "count", "schema": SHAPE, "strict": True}
    return asking(C, user("hi"), response_format={"type": "json_schema", "json_schema": wanted})


@every_pair
def test_119_a_schema_of_the_answer_arrives(client: Protocol, upstream: Protocol) -> None:
    sent = ask(structured(client), client, upstream)
    if upstream == A:
        assert sent.body["output_config"] == {"format": {"type": "json_schema", "schema": SHAPE}}
    else:
        assert sent.body["response_format"]["json_schema"]["schema"] == SHAPE
        assert sent.body["response_format"]["json_schema"]["name"] == ("count" if client == C else "output")


@every_client
def test_119_an_upstream_that_knows_no_schemas_is_told_in_words(client: Protocol) -> None:
    sent = ask(structured(client), client, A, anthropic.Dialect(structured_output=False))
    assert "output_config" not in sent.body
    assert json.dumps(SHAPE) in sent.system[-1].replace('":', '": ').replace(',"', ', "').replace("  ", " ")
    assert sent.kinds == ["structured_output"]
    plain = ask(structured(client), client, C, openai_chat.Dialect(json_schema=False))
    assert plain.body["response_format"] == {"type": "json_object"}
    assert plain.kinds == ["left_out"]


def test_119_json_of_any_shape_is_asked_for_in_words_where_there_is_no_other_way() -> None:
    said = asking(C, [{"role": "system", "content": "Be kind."}], user("hi"), response_format={"type": "json_object"})
    assert ask(said, C, C).body["response_format"] == {"type": "json_object"}
    sent = ask(said, C, A)
    assert sent.system[0] == "Be kind."
    assert "JSON object" in sent.system[1]
    assert "output_config" not in sent.body


def test_119_limits_the_api_refuses_are_left_out_with_a_note() -> None:
    shape = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}}
    said = asking(C, user("hi"), response_format={"type": "json_schema", "json_schema": {"name": "n", "schema": shape}})
    sent = ask(said, C, A)
    fitted = sent.body["output_config"]["format"]["schema"]
    assert fitted == {"type": "object", "properties": {"n": {"type": "integer"}}, "additionalProperties": False}
    assert sent.kinds == ["schema"]


@every_pair
def test_119_a_forced_tool_and_a_schema_stand_side_by_side(client: Protocol, upstream: Protocol) -> None:
    choice: Json = {"type": "tool", "name": "read"}
    said = {**structured(client), "tools": [tool(client, "read")], "tool_choice": choice}
    sent = ask(said, client, upstream)
    assert "tool_choice" in sent.body
    assert "output_config" in sent.body or "response_format" in sent.body


# ── 122: counting ────────────────────────────────────────────────────────────────────────────────


@every_client
def test_122_a_count_asks_for_everything_that_is_in_the_prompt(client: Protocol) -> None:
    turns = [user("hi"), calls(client, ("c1", "read", {"path": "a"})), results(client, ("c1", "one"))]
    said = asking(client, *turns, tools=[tool(client, "read")], stream=True, temperature=0.5)
    body = json.loads(anthropic.build_count(parsed(said, client)).body)
    sent = ask(said, client, A).body
    assert body == {name: sent[name] for name in ("model", "tools", "messages")}


def test_122_a_request_that_is_only_counted_needs_no_limit() -> None:
    body = json.dumps({"model": "m", "messages": user("hi"), "system": "Be kind."}).encode()
    counted = json.loads(anthropic.build_count(anthropic.parse_request(body, counting=True)).body)
    assert set(counted) == {"model", "system", "messages"}


def test_122_the_answer_of_the_upstream_is_read() -> None:
    assert anthropic.read_count(b'{"input_tokens": 42}') == 42
    with pytest.raises(GatewayError):
        anthropic.read_count(b'{"tokens": 42}')


@every_client
def test_122_an_estimate_grows_with_everything_that_is_in_the_prompt(client: Protocol) -> None:
    def tokens(*turns: list[Json], **fields: Any) -> int:
        return estimate(parsed(asking(client, *turns, **fields), client))

    words = "word " * 400
    plain = tokens(user("hi"))
    system = [{"role": "system", "content": words}]
    assert 400 <= tokens(user(words)) - plain <= 600
    assert 400 <= tokens(system, user("hi")) - plain <= 610
    turns = [user("hi"), calls(client, ("c1", "read", {"path": words})), results(client, ("c1", words))]
    assert 900 <= tokens(*turns) - plain <= 1200
    assert 400 <= tokens(user("hi"), tools=[tool(client, "read", description=words)]) - plain <= 620


@every_client
def test_122_a_count_says_when_it_is_only_estimated(client: Protocol) -> None:
    request = parsed(asking(client, user("hi")), client)
    assert asyncio.run(gateway(Scripted()).count(request)) == (estimate(request), True)


# ── 123: refusals, pauses, full contexts ─────────────────────────────────────────────────────────


@every_crossing
@pytest.mark.parametrize("said", ["", "I would rather"])
def test_123_a_refusal_is_one_for_every_client(crossing: Crossing, said: str) -> None:
    details = {"type": "refusal", "category": "cyber", "explanation": "Not this."}
    blocks = text_block(0, said) if said else []
    seen = cross(message_stream(*blocks, stop="refusal", stop_details=details), A, crossing)
    assert seen.text == said
    assert seen.calls == []
    if crossing.client == A:
        assert seen.finish == "refusal"
        assert b'"explanation":"Not this."' in seen.raw.replace(b": ", b":")
    else:
        assert seen.finish == ("content_filter" if crossing.client == C else "stop")
        assert seen.refusal == "Not this."


@every_crossing
@pytest.mark.parametrize("finish", ["stop", "content_filter"])
def test_123_the_words_of_a_refusal_arrive(crossing: Crossing, finish: str) -> None:
    seen = cross(chat_stream({"refusal": "I will "}, {"refusal": "not."}, finish=finish), C, crossing)
    # A refusal is content of a completed response.
    assert seen.finish == (finish if crossing.client == C else "refusal" if crossing.client == A else "stop")
    assert (seen.text if crossing.client == A else seen.refusal) == "I will not."


@every_crossing
def test_123_a_filtered_answer_may_be_empty(crossing: Crossing) -> None:
    seen = cross(chat_stream({"content": ""}, finish="content_filter"), C, crossing)
    assert seen.finish == ("content_filter" if crossing.client == C else "refusal" if crossing.client == A else "stop")
    assert bool(seen.refusal) == (crossing.client == "openai_responses")
    assert seen.error is None


@every_crossing
@pytest.mark.parametrize("upstream", PROTOCOLS)
def test_123_a_refusal_with_a_call_in_it_stays_a_refusal(upstream: Protocol, crossing: Crossing) -> None:
    if upstream == A:
        data = message_stream(*tool_block(0, "c1", "read", '{"path":"a"}'), stop="refusal")
    else:
        call = {"index": 0, "id": "c1", "function": {"name": "read", "arguments": '{"path":"a"}'}}
        data = chat_stream({"tool_calls": [call]}, finish="content_filter")
    seen = cross(data, upstream, crossing)
    assert seen.finish == ("refusal" if crossing.client == A else "content_filter")


class Scripted:
    """A backend and its only run: it gives these events, and cannot count."""

    name = "up"
    is_agent = False
    reads_options = False
    obeys_limits = True
    pending: frozenset[str] = frozenset()

    def __init__(self, events: Sequence[Event] = ()) -> None:
        self._events = events

    async def models(self) -> Sequence[ModelInfo]:
        return ()

    async def start(self, request: Request, host: Host) -> Run:
        return self

    async def leg(self) -> AsyncGenerator[Batch, None]:
        yield self._events

    async def answer(self, results: Sequence[ToolResult], request: Request | None = None, words: str = "") -> None:
        raise AssertionError("nobody answers it")

    async def count(self, request: Request) -> int | None:
        return None

    async def aclose(self) -> None:
        pass


def gateway(backend: Scripted) -> Gateway:
    return Gateway(Router({"up": backend}, default="up/m"), tasks=Tasks(), inbox=INBOX, clock=lambda: 0.0)


@every_crossing
def test_123_a_pause_is_an_end_with_a_note(crossing: Crossing, caplog: pytest.LogCaptureFixture) -> None:
    backend = Scripted(events_of(message_stream(*text_block(0, "So far."), stop="pause_turn"), A))
    request = parsed(asking(crossing.asked, user("hi")), crossing.asked)

    async def leg() -> list[Event]:
        async with aclosing(await gateway(backend).open(request, LegClient(crossing.client))) as batches:
            return [event async for batch in batches for event in batch]

    with caplog.at_level("INFO", "tieline"):
        seen = shown(asyncio.run(leg()), crossing)
    assert seen.finish == ("pause_turn" if crossing.client == A else "stop")
    assert ["paused" in record.getMessage() for record in caplog.records if record.name == "tieline"] == [True]


@every_crossing
def test_123_a_full_context_is_a_length(crossing: Crossing) -> None:
    seen = cross(message_stream(*text_block(0, "So far."), stop="model_context_window_exceeded"), A, crossing)
    assert seen.finish == ("model_context_window_exceeded" if crossing.client == A else "length")
