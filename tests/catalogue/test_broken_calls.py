"""Upstreams that fail inside an answer with tool calls (catalogue 157 and 158), over real connections."""

import json
from collections.abc import AsyncIterator
from typing import Any

import anthropic
import openai
import pytest

from tests.cases import leg
from tests.catalogue.crossing import Protocol
from tests.catalogue.serving import (
    DIALECTS,
    DIRECTIONS,
    KEY,
    MODEL,
    STREAMED_OR_WHOLE,
    Backend,
    Heard,
    Stand,
    serving,
)
from tieline.model.content import Part, Text, Thinking, ToolCall
from tieline.model.events import Event, Failed, Finished, PartEnd, StopReason, Usage
from tieline.sim.answers import streamed
from tieline.sim.model import Answer, Chunk, Cut, Pause

FIRST: tuple[Part, list[str]] = (ToolCall(id="call_1", name="clock"), ['{"zone":', '"UTC"}'])
SECOND: tuple[Part, list[str]] = (ToolCall(id="call_2", name="clock"), ['{"zone":', '"CET"}'])
WORDS: tuple[Part, list[str]] = (Text(), ["Let me look."])
THOUGHTS: tuple[Part, list[str]] = (Thinking(), ["Hm."])

TOOLS: dict[Protocol, list[Any]] = {
    "anthropic": [{"name": "clock", "input_schema": {"type": "object", "properties": {"zone": {"type": "string"}}}}],
    "openai_chat": [{"type": "function", "function": {"name": "clock", "parameters": {"type": "object"}}}],
}
BREAKS: dict[str, list[Event | Chunk]] = {
    "cut": [Cut()],
    "ended": [],
    "failed": [Failed(kind="overloaded", message="Overloaded", status=503)],
}


def answer(backend: Backend, *parts: tuple[Part, list[str]]) -> Answer:
    return streamed(DIALECTS[backend], leg(*parts, reason=StopReason.TOOL_USE))


def broken(backend: Backend, how: str, *parts: tuple[Part, list[str]], pause: Pause | None = None) -> Answer:
    """The answer up to the middle of its last part, and there perhaps a pause before it breaks."""
    events = [event for event in leg(*parts) if not isinstance(event, Usage | Finished)]
    assert isinstance(events.pop(), PartEnd)
    if len(parts[-1][1]) > 1:
        events.pop()
    return streamed(DIALECTS[backend], [*events, *([pause] if pause else []), *BREAKS[how]])


async def interrupted(
    stand: Stand, client: Protocol, backend: Backend, how: str, *parts: tuple[Part, list[str]], seen: bytes
) -> Heard:
    """Hear a stream that breaks after the client has seen this."""
    pause = Pause()
    stand.script(backend, broken(backend, how, *parts, pause=pause))
    async with stand.listen(client, backend, tools=TOOLS[client]) as ear:
        await ear.until(seen)
        pause.set()
        return await ear.rest()


def calls(heard: Heard) -> list[tuple[str, str]]:
    """The calls a client would run: of Messages those whose block is closed, of Chat all that were begun."""
    if heard.client == "openai_chat":
        return _chat_calls(heard)
    started = {f["index"]: f["content_block"] for f in heard.frames if f["type"] == "content_block_start"}
    whole = [block for frame in heard.frames if frame["type"] == "message" for block in frame["content"]]
    closed = [started[frame["index"]] | {"at": frame["index"]} for frame in heard.frames if _closes(frame)]
    found = [(block["name"], _input(heard, block)) for block in closed if block["type"] == "tool_use"]
    return found + [(block["name"], json.dumps(block["input"])) for block in whole if block["type"] == "tool_use"]


def _closes(frame: Any) -> bool:
    return bool(frame["type"] == "content_block_stop")


def _input(heard: Heard, block: Any) -> str:
    deltas = [f["delta"] for f in heard.frames if f["type"] == "content_block_delta" and f["index"] == block["at"]]
    return "".join(delta["partial_json"] for delta in deltas)


def _chat_calls(heard: Heard) -> list[tuple[str, str]]:
    found: dict[int, list[str]] = {}
    for frame in heard.frames:
        for choice in frame.get("choices", ()):
            said = choice.get("delta") or choice.get("message") or {}
            for number, call in enumerate(said.get("tool_calls") or ()):
                name, arguments = found.setdefault(call.get("index", number), ["", ""])
                function = call["function"]
                found[call.get("index", number)] = [name + function.get("name", ""), arguments + function["arguments"]]
    return [(name, arguments) for name, arguments in found.values()]


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attempts follow one another at once."""
    monkeypatch.setattr("tieline.backends.http_api.upstream.FIRST_BACK_OFF", 0.0)


@pytest.fixture
async def buffered(eager: None) -> AsyncIterator[Stand]:
    """A gateway that shows no client a call before it is complete."""
    async with serving(settings={"arguments": "buffered"}, retries=2) as stand:
        yield stand


@pytest.fixture
async def incremental(eager: None) -> AsyncIterator[Stand]:
    """A gateway that shows every client the arguments as they come."""
    async with serving(settings={"arguments": "incremental"}, retries=2) as stand:
        yield stand


# ── 157: a call that nobody has seen ─────────────────────────────────────────────────────────────


@DIRECTIONS
@STREAMED_OR_WHOLE
@pytest.mark.parametrize("parts", [(FIRST,), (FIRST, SECOND)], ids=["first", "second"])
async def test_157_an_answer_that_breaks_inside_a_call_is_tried_again_unseen(
    buffered: Stand,
    backend: Backend,
    client: Protocol,
    stream: bool,
    parts: tuple[tuple[Part, list[str]], ...],
) -> None:
    for how in BREAKS:
        buffered.script(backend, broken(backend, how, *parts), answer(backend, FIRST))
        heard = await buffered.ask(client, backend, stream=stream, tools=TOOLS[client])
        assert (heard.status, heard.error, heard.is_broken) == (200, None, False)
        assert [(name, json.loads(arguments)) for name, arguments in calls(heard)] == [("clock", {"zone": "UTC"})]
    assert len(buffered.asked(backend)) == 2 * len(BREAKS)


@DIRECTIONS
@pytest.mark.parametrize("parts", [(FIRST,), (WORDS, FIRST)], ids=["call", "text"])
async def test_157_a_whole_answer_is_tried_again_until_its_end(
    incremental: Stand,
    backend: Backend,
    client: Protocol,
    parts: tuple[tuple[Part, list[str]], ...],
) -> None:
    for how in BREAKS:
        incremental.script(backend, broken(backend, how, *parts), answer(backend, WORDS, FIRST))
        heard = await incremental.ask(client, backend, stream=False, tools=TOOLS[client])
        assert heard.status == 200
        assert heard.raw.count(b"Let me look.") == 1
        assert [name for name, _ in calls(heard)] == ["clock"]


@DIRECTIONS
@STREAMED_OR_WHOLE
async def test_157_what_never_became_whole_is_a_status_and_no_call(
    buffered: Stand, backend: Backend, client: Protocol, stream: bool
) -> None:
    buffered.script(backend, *[broken(backend, "cut", FIRST)] * 3)
    heard = await buffered.ask(client, backend, stream=stream, tools=TOOLS[client])
    heard.check_failed(502)
    assert len(buffered.asked(backend)) == 3


async def test_157_the_official_openai_client_gets_the_call_of_the_second_attempt(buffered: Stand) -> None:
    buffered.script("oai", broken("oai", "cut", FIRST), answer("oai", FIRST))
    async with (
        openai.AsyncOpenAI(base_url=f"{buffered.url}/v1", api_key=KEY, max_retries=0) as client,
        client.chat.completions.stream(
            model=f"oai/{MODEL}", messages=[{"role": "user", "content": "Hi"}], tools=TOOLS["openai_chat"]
        ) as stream,
    ):
        completion = await stream.get_final_completion()
    made = completion.choices[0].message.tool_calls
    assert made is not None
    assert [(call.function.name, call.function.arguments) for call in made] == [("clock", '{"zone":"UTC"}')]


# ── 158: a call of which the client has seen something ───────────────────────────────────────────


@DIRECTIONS
async def test_158_a_call_that_breaks_off_in_sight_is_never_complete(
    incremental: Stand, backend: Backend, client: Protocol
) -> None:
    for how in BREAKS:
        heard = await interrupted(incremental, client, backend, how, FIRST, seen=b"zone")
        error = heard.check_failed()
        if client == "anthropic":
            assert calls(heard) == []
            assert error["type"] == "overloaded_error"
        else:
            assert [arguments for _, arguments in calls(heard)] == ['{"zone":']
    assert len(incremental.asked(backend)) == len(BREAKS)


@DIRECTIONS
@pytest.mark.parametrize("shown", [WORDS, THOUGHTS], ids=["text", "thinking"])
async def test_158_nothing_is_tried_again_behind_what_was_shown(
    buffered: Stand, backend: Backend, client: Protocol, shown: tuple[Part, list[str]]
) -> None:
    for how in BREAKS:
        heard = await interrupted(buffered, client, backend, how, shown, FIRST, seen=shown[1][0].encode())
        heard.check_failed()
        assert not [arguments for _, arguments in calls(heard) if arguments]
    assert len(buffered.asked(backend)) == len(BREAKS)


@DIRECTIONS
async def test_158_a_call_that_was_delivered_stays_and_the_next_is_not_complete(
    incremental: Stand, backend: Backend, client: Protocol
) -> None:
    heard = await interrupted(incremental, client, backend, "cut", FIRST, SECOND, seen=b"UTC")
    heard.check_failed()
    assert calls(heard)[0] == ("clock", '{"zone":"UTC"}')
    assert [arguments for _, arguments in calls(heard)[1:]] == ([] if client == "anthropic" else ['{"zone":'])


async def test_158_the_official_anthropic_client_sees_no_complete_call(incremental: Stand) -> None:
    pause = Pause()
    incremental.script("ant", broken("ant", "cut", FIRST, pause=pause))
    seen: list[str] = []

    async def listen() -> None:
        async with (
            anthropic.AsyncAnthropic(base_url=incremental.url, api_key=KEY, max_retries=0) as client,
            client.messages.stream(
                model=f"ant/{MODEL}",
                max_tokens=10,
                messages=[{"role": "user", "content": "Hi"}],
                tools=TOOLS["anthropic"],
            ) as stream,
        ):
            async for event in stream:
                seen.append(event.type)
                pause.set()

    with pytest.raises(anthropic.APIStatusError) as raised:
        await listen()
    assert "content_block_start" in seen
    assert "content_block_stop" not in seen
    assert raised.value.type == "overloaded_error"
