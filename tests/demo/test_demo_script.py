"""The demo model's exact scripts: every line means one thing, and a mistake names its line."""

import asyncio

import pytest

from tests.cases import says
from tests.each import each
from tests.grammar import check
from tieline.backends.demo import DemoBackend
from tieline.model.content import Message, Part, Text, Thinking, ToolCall, ToolResult
from tieline.model.events import Event, Failed, Finished, PartEnd, Started, StopReason, Usage
from tieline.model.request import Request, Sampling

NO_LIMITS = Sampling()


def play(script: str, *later: Message, sampling: Sampling = NO_LIMITS) -> list[Event]:
    """The events of the leg that answers a script and what was said after it."""
    words = f"Do this:\n```tieline\n{script}\n```\nThank you."
    request = Request(model="scripted", messages=(says("user", words), *later), sampling=sampling)

    async def one_leg() -> list[Event]:
        run = await DemoBackend().start(request)
        return [event async for batch in run.leg() for event in batch]

    events = asyncio.run(one_leg())
    check(events)
    return events


def parts(events: list[Event]) -> list[Part]:
    return [event.part for event in events if isinstance(event, PartEnd)]


def results(*texts: str) -> tuple[Message, Message]:
    """One round: calls, and what came of them."""
    calls = [ToolCall(id=f"call_{index}", name="read") for index in range(len(texts))]
    come = [ToolResult(call_id=call.id, content=(Text(text=text),)) for call, text in zip(calls, texts, strict=True)]
    return says("assistant", *calls), says("user", *come)


def test_a_script_is_followed_line_by_line() -> None:
    events = play(
        "# a comment\n"
        "think: Hm,\n"
        "think: two files.\n"
        "\n"
        "text: Let me  look.\n"
        'call: read {"path":  "a.txt"}\n'
        "call: now\n"
        "freeform: apply_patch *** Begin {Patch\n"
        "text: Done.\n"
        "usage: in=10 out=5 cache_read=3 cache_write=1 reasoning=2"
    )
    thinking, text, read, now, patch, done = parts(events)
    assert (thinking, text, done) == (Thinking(text="Hm,\ntwo files."), Text(text="Let me  look."), Text(text="Done."))
    assert isinstance(read, ToolCall)
    assert isinstance(now, ToolCall)
    assert isinstance(patch, ToolCall)
    assert (read.name, read.arguments, read.freeform) == ("read", '{"path":  "a.txt"}', False)
    assert (now.name, now.arguments) == ("now", "{}")
    assert (patch.name, patch.arguments, patch.freeform) == ("apply_patch", "*** Begin {Patch", True)
    assert len({read.id, now.id, patch.id}) == 3
    assert events[-2:] == [
        Usage(input=10, output=5, cache_read=3, cache_write=1, reasoning=2),
        Finished(reason=StopReason.TOOL_USE),
    ]


LEGS = "call: read {}\n---\ntext: {{result}} and {{ result:2 }}\ncall: read {}\n---\ntext: finally {{result}}"


def test_each_round_of_results_plays_the_next_leg() -> None:
    first, second = results("A", "B"), results("C")
    assert isinstance(parts(play(LEGS))[0], ToolCall)
    assert parts(play(LEGS, *first))[0] == Text(text="A and B")
    assert parts(play(LEGS, *first, *second)) == [Text(text="finally C")]


def test_when_the_script_is_over_the_results_are_told() -> None:
    events = play("call: read {}", *results("A"))
    assert parts(events) == [Text(text="`read` returned: A")]


@pytest.mark.parametrize(
    ("line", "finished"),
    [
        ("stop: max_tokens", Finished(reason=StopReason.MAX_TOKENS)),
        ("stop: refusal I would rather not", Finished(reason=StopReason.REFUSAL, detail="I would rather not")),
        ("stop: stop_sequence END", Finished(reason=StopReason.STOP_SEQUENCE, sequence="END")),
        ("stop: context_full", Finished(reason=StopReason.CONTEXT_FULL)),
        ("stop: end_turn", Finished(reason=StopReason.END_TURN)),
    ],
)
def test_a_leg_stops_for_the_reason_it_gives(line: str, finished: Finished) -> None:
    assert play(f"call: read {{}}\n{line}")[-1] == finished


def test_the_limits_of_the_client_apply_unless_the_script_says_how_it_stops() -> None:
    sampling = Sampling(max_tokens=1)
    cut, whole = play("text: one two", sampling=sampling), play("text: one two\nstop: end_turn", sampling=sampling)
    assert (parts(cut), cut[-1]) == ([Text(text="one")], Finished(reason=StopReason.MAX_TOKENS))
    assert (parts(whole), whole[-1]) == ([Text(text="one two")], Finished(reason=StopReason.END_TURN))


def test_an_error_alone_comes_before_anything_was_sent() -> None:
    assert play("error: rate_limited Slow down.") == [Failed(kind="rate_limited", message="Slow down.", status=429)]


def test_an_error_after_text_comes_in_the_middle() -> None:
    events = play("text: So far\nerror: overloaded Too much.")
    assert isinstance(events[0], Started)
    assert parts(events) == [Text(text="So far")]
    assert events[-1] == Failed(kind="overloaded", message="Too much.", status=503)


def test_an_empty_script_is_an_empty_answer() -> None:
    assert [type(event) for event in play("")] == [Started, Usage, Finished]


async def test_what_came_before_a_pause_is_given_out_before_it() -> None:
    script = "```tieline\ntext: one\npause: 60\ntext: two\n```"
    run = await DemoBackend().start(Request(model="scripted", messages=(says("user", script),)))
    batches = run.leg()
    assert parts(list(await anext(batches))) == [Text(text="one")]
    silence = asyncio.ensure_future(anext(batches))
    await asyncio.wait([silence], timeout=0)
    assert not silence.done()
    silence.cancel()
    with pytest.raises(asyncio.CancelledError):
        await silence


def test_a_short_pause_ends() -> None:
    assert parts(play("text: one\npause: 0.001\ntext: two")) == [Text(text="one"), Text(text="two")]


@each(
    ("script", "message"),
    [
        ("text: a\nsing: b", "line 2 of the script: expected one of think, text, call, "),
        ("hello", "line 1 of the script: expected one of"),
        ("\ncall: read {", "line 2 of the script: the arguments are not a JSON object"),
        ("call: read [1]", "line 1 of the script: the arguments are not a JSON object"),
        ("call:", "line 1 of the script: expected the name of a tool"),
        ("freeform:", "line 1 of the script: expected the name of a tool"),
        ("usage: in=x", "line 1 of the script: expected counts such as in=10"),
        ("usage: input=1", "line 1 of the script: expected counts such as in=10"),
        ("stop: now", "line 1 of the script: expected one of end_turn, tool_use,"),
        ("error: oops no", "line 1 of the script: expected one of bad_request,"),
        ("error: timeout no\ntext: a", "line 2 of the script: nothing can follow an error"),
        ("pause: 61", "line 1 of the script: expected seconds from 0 to 60"),
        ("pause: -1", "line 1 of the script: expected seconds from 0 to 60"),
        ("text: {{result}}", "line 1 of the script: there is no result 1,"),
        ("text: a\n---\nsing: b", "line 3 of the script: expected one of"),
    ],
)
def test_a_mistake_is_a_bad_request_that_names_the_line(script: str, message: str) -> None:
    (failed,) = play(script)
    assert isinstance(failed, Failed)
    assert (failed.kind, failed.status) == ("bad_request", 400)
    assert failed.message.startswith(message)


def test_a_missing_result_in_the_leg_to_play_is_a_mistake() -> None:
    (failed,) = play("call: read {}\n---\ntext: {{result:2}}", *results("A"))
    assert isinstance(failed, Failed)
    assert failed.message == "line 3 of the script: there is no result 2, the last round has 1"


async def test_a_script_without_an_end_is_a_mistake() -> None:
    run = await DemoBackend().start(Request(model="scripted", messages=(says("user", "```tieline\ntext: a"),)))
    (failed,) = [event async for batch in run.leg() for event in batch]
    assert isinstance(failed, Failed)
    assert failed.message == "the script has no closing ``` line"
