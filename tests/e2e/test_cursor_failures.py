"""A service that breaks off, stalls, refuses or forgets: the client hears each word once, or why there are none."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import anthropic
import openai
import pytest

from tests.e2e.cursor_support import (
    DIALECTS,
    STREAMED_OR_WHOLE,
    TRANSPORTS,
    Answer,
    Dialect,
    Talk,
    Transport,
    calls,
    eager,
    scripted,
    serving,
)
from tests.wire.coding_clients import WEATHER
from tieline.backends.cursor.recovery import MAX_RECONNECTS, MAX_RETRIES
from tieline.sim.cursor import SimSettings, Style, Wait

__all__ = ["eager"]

pytestmark = [TRANSPORTS, pytest.mark.usefixtures("eager")]

How = Literal["eof", "reset", "cut"]
ENDINGS = pytest.mark.parametrize("how", ["eof", "reset", "cut"])
HELLO = "say hello there my friend"
ANSWER = "hello there my friend"
ONE_CALL = scripted('text: Let me look.\ncall: get_weather {"city": "Oslo"}', "text: It is {{result}} in Oslo.")
CALLS: Sequence[Any] = ["open", {"text": "Let me look."}, calls("Oslo")]
"""The first leg of that turn, played by hand."""
SWIFT = SimSettings(heartbeat=0.02)
STALL = 1.0


def leaves(how: How) -> Any:
    return {"leave": how}


# ── Streams that break off ───────────────────────────────────────────────────────────────────────

BROKEN: dict[str, Sequence[Any]] = {
    "at-once": [],
    "before-any-word": ["open"],
    "after-some-words": ["open", {"text": "hello "}, {"text": "the"}],
    "after-thinking": ["open", {"thinking": "The user"}],
    "after-a-checkpoint": ["open", "checkpoint"],
    "words-after-a-checkpoint": ["open", "checkpoint", {"text": "hello the"}],
    "after-all-words": ["open", {"text": ANSWER}],
    "after-all-words-and-their-checkpoint": ["open", "mind", "checkpoint"],
}


@ENDINGS
@STREAMED_OR_WHOLE
@pytest.mark.parametrize("script", BROKEN.values(), ids=BROKEN.keys())
async def test_a_stream_that_breaks_off_goes_on_and_no_word_is_lost_or_doubled(
    transport: Transport, how: How, stream: bool, script: Sequence[Any]
) -> None:
    async with serving(transport) as stand:
        stand.plays([*script, leaves(how)])
        answer = await stand.talk("anthropic" if stream else "openai", stream=stream).say(HELLO)
        assert (answer.text, answer.is_over, stand.sim.runs) == (ANSWER, True, 2)


@pytest.mark.parametrize("tries", [2, 3])
async def test_a_stream_that_breaks_off_several_times_is_put_together(transport: Transport, tries: int) -> None:
    pieces = [["open", {"text": ANSWER[: 4 * number]}, leaves("cut")] for number in range(1, tries + 1)]
    async with serving(transport) as stand:
        stand.plays(*pieces)
        answer = await stand.talk("openai").say(HELLO)
        assert (answer.text, stand.sim.runs) == (ANSWER, tries + 1)


async def test_another_answer_than_the_one_that_broke_off_is_said_whole(transport: Transport) -> None:
    """A model need not say the same twice. What the client has read cannot be taken back: the new answer follows it."""
    async with serving(transport) as stand:
        stand.plays(["open", {"text": "Half an ans"}, leaves("cut")], ["open", {"text": "hello th"}, leaves("cut")])
        answer = await stand.talk("openai").say(HELLO)
        assert (answer.text, answer.is_over) == (f"Half an ans\n\n{ANSWER}", True)


async def test_a_stream_lost_after_a_checkpoint_is_resumed_from_it(transport: Transport) -> None:
    async with serving(transport) as stand:
        stand.plays(["open", "checkpoint", leaves("cut")])
        await stand.talk("openai").say(HELLO)
        first, second = (record.received[0].run_request for record in stand.sim.journal)
        assert first.action.HasField("user_message_action")
        assert second.action.HasField("resume_action")
        assert second.conversation_id == first.conversation_id
        heads = [record.head for record in stand.sim.journal]
        assert heads[0].header("x-request-id") != heads[1].header("x-request-id")
        assert len({head.header("x-original-request-id") for head in heads}) == 1


@DIALECTS
async def test_a_stream_that_always_breaks_off_is_an_error_after_some_tries(
    transport: Transport, dialect: Dialect
) -> None:
    async with serving(transport, script=["open", leaves("cut")]) as stand:
        error = await failed(stand.talk(dialect), HELLO)
        assert error.status == 502
        assert stand.sim.runs == MAX_RECONNECTS + 1


@DIALECTS
async def test_words_already_said_are_followed_by_the_error_when_no_try_helps(
    transport: Transport, dialect: Dialect
) -> None:
    async with serving(transport, script=["open", {"text": "hello "}, leaves("cut")]) as stand:
        with pytest.raises((openai.APIError, anthropic.APIError)):
            await stand.talk(dialect).say(HELLO)
        assert stand.sim.runs == MAX_RECONNECTS + 1


@DIALECTS
@ENDINGS
async def test_a_run_that_breaks_off_after_a_result_is_rebuilt_from_the_history(
    transport: Transport, dialect: Dialect, how: How
) -> None:
    async with serving(transport) as stand:
        stand.plays([*CALLS, {"wait": "exec"}, {"text": "It is "}, leaves(how)])
        talk = stand.talk(dialect, WEATHER)
        await talk.say(ONE_CALL)
        answer = await talk.give("sunny")
        assert (answer.text, answer.is_over) == ("It is sunny in Oslo.", True)
        assert stand.sim.runs == 2


@DIALECTS
@ENDINGS
async def test_a_run_that_dies_while_it_is_parked_is_answered_from_the_history(
    transport: Transport, dialect: Dialect, how: How
) -> None:
    go = asyncio.Event()
    async with serving(transport, SWIFT) as stand:
        stand.plays([*CALLS, Wait(go.is_set), leaves(how)])
        talk = stand.talk(dialect, WEATHER)
        answer = await talk.say(ONE_CALL)
        assert answer.called == [("get_weather", {"city": "Oslo"})]
        go.set()
        await stand.ended(how)
        answer = await talk.give("sunny")
        assert (answer.text, stand.sim.runs) == ("It is sunny in Oslo.", 2)


@DIALECTS
@ENDINGS
async def test_a_run_that_dies_as_soon_as_it_has_made_its_call_still_hands_it_over(
    transport: Transport, dialect: Dialect, how: How
) -> None:
    async with serving(transport) as stand:
        stand.plays([*CALLS, leaves(how)])
        talk = stand.talk(dialect, WEATHER)
        answer = await talk.say(ONE_CALL)
        assert (answer.text, answer.called) == ("Let me look.", [("get_weather", {"city": "Oslo"})])
        assert answer.wants_tools
        assert (await talk.give("sunny")).text == "It is sunny in Oslo."
        assert stand.sim.runs == 2


# ── Silence ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "script",
    [[{"silence": 60}], ["open", {"hold": "silent"}], ["open", {"text": "hello "}, {"hold": "silent"}]],
    ids=["no-head", "no-word", "no-more"],
)
async def test_a_service_that_falls_silent_is_asked_again(transport: Transport, script: Sequence[Any]) -> None:
    async with serving(transport, first_byte_timeout=STALL, idle_timeout=STALL) as stand:
        stand.plays(script)
        answer = await stand.talk("openai").say(HELLO)
        assert (answer.text, stand.sim.runs) == (ANSWER, 2)


@DIALECTS
async def test_a_service_that_is_not_there_is_a_bad_gateway(transport: Transport, dialect: Dialect) -> None:
    async with serving(transport) as stand:
        await stand.sim.aclose()
        error = await failed(stand.talk(dialect), HELLO)
        assert error.status == 502
        assert "cursor" in error.message


# ── Endings that are none, and late ones ─────────────────────────────────────────────────────────


@pytest.mark.parametrize("hold", ["hold", {"hold": "silent"}], ids=["heartbeats", "silent"])
async def test_a_service_that_holds_the_stream_open_after_the_turn_is_not_waited_for(
    transport: Transport, hold: Any
) -> None:
    async with serving(transport, SWIFT) as stand:
        stand.plays(["open", "mind", {"turn_ended": {"inputTokens": 5, "outputTokens": 3}}, hold])
        answer = await stand.talk("openai").say(HELLO)
        assert (answer.text, answer.is_over) == (ANSWER, True)
        await stand.ended("left")
        assert stand.sim.runs == 1


@DIALECTS
@ENDINGS
async def test_a_stream_that_ends_anyhow_after_the_turn_has_ended_well(
    transport: Transport, dialect: Dialect, how: How
) -> None:
    async with serving(transport) as stand:
        stand.plays(["open", "mind", {"turn_ended": {}}, leaves(how)])
        answer = await stand.talk(dialect).say(HELLO)
        assert (answer.text, answer.is_over, stand.sim.runs) == (ANSWER, True, 1)


@DIALECTS
async def test_a_goaway_ends_neither_the_turn_nor_the_next_one(transport: Transport, dialect: Dialect) -> None:
    async with serving(transport) as stand:
        stand.plays(["open", {"goaway": 0}, "mind", "close"])
        talk = stand.talk(dialect, WEATHER)
        await talk.say(ONE_CALL)
        assert (await talk.give("sunny")).text == "It is sunny in Oslo."
        assert (await talk.say("say bye")).text == "bye"
        assert stand.sim.runs == 2


@DIALECTS
@pytest.mark.parametrize(
    "style", [Style(gzip=True), Style(gzip=True, announce=False), Style(piece=1), Style(batch=1)], ids=str
)
async def test_frames_may_be_compressed_and_cut_anywhere(transport: Transport, dialect: Dialect, style: Style) -> None:
    async with serving(transport, SimSettings(style=style)) as stand:
        talk = stand.talk(dialect, WEATHER)
        await talk.say(ONE_CALL)
        assert (await talk.give("sunny")).text == "It is sunny in Oslo."
        assert stand.counted == (1, 2)


# ── Stalls ───────────────────────────────────────────────────────────────────────────────────────


@DIALECTS
async def test_heartbeats_only_after_a_result_is_replayed_once_from_the_history(
    transport: Transport, dialect: Dialect
) -> None:
    async with serving(transport, SWIFT, stall_timeout=STALL) as stand:
        stand.plays([*CALLS, {"wait": "exec"}, "hold"])
        talk = stand.talk(dialect, WEATHER)
        await talk.say(ONE_CALL)
        answer = await talk.give("sunny")
        assert (answer.text, answer.is_over) == ("It is sunny in Oslo.", True)
        first, second = stand.sim.journal
        assert (first.ending, second.ending) == ("left", "ended")
        ids = [record.received[0].run_request.conversation_id for record in stand.sim.journal]
        assert ids[0] != ids[1]


async def test_a_second_stall_is_an_error_that_says_so(transport: Transport) -> None:
    async with serving(transport, SWIFT, script=["open", "hold"], stall_timeout=STALL) as stand:
        error = await failed(stand.talk("anthropic"), HELLO)
        assert error.status == 504
        assert "heartbeats" in error.message
        assert stand.sim.runs == 2


async def test_silence_costs_one_more_run_and_is_then_an_error(transport: Transport) -> None:
    silent = ["open", {"hold": "silent"}]
    async with serving(transport, script=silent, first_byte_timeout=STALL, idle_timeout=STALL) as stand:
        error = await failed(stand.talk("openai"), HELLO)
        assert error.status == 504
        assert stand.sim.runs == 2


def stored(*pieces: Any) -> str:
    return json.dumps({"role": "assistant", "content": [{"type": "text", "text": text} for text in pieces]})


@DIALECTS
async def test_an_answer_that_was_stored_but_never_streamed_is_delivered(
    transport: Transport, dialect: Dialect
) -> None:
    async with serving(transport, SWIFT, stall_timeout=STALL) as stand:
        stand.plays(["open", {"set_blob": stored("<think>Easy.</think>\n\nIt is sunny.")}, "hold"])
        answer = await stand.talk(dialect).say("How is the weather?")
        assert (answer.text, answer.thinking, answer.is_over) == ("It is sunny.", "Easy.", True)
        assert stand.sim.runs == 1


async def test_an_answer_that_was_stored_and_half_streamed_is_completed(transport: Transport) -> None:
    async with serving(transport, SWIFT, stall_timeout=STALL) as stand:
        stand.plays(["open", {"text": "It is "}, {"set_blob": stored("It is sunny.")}, "hold"])
        answer = await stand.talk("openai").say("How is the weather?")
        assert (answer.text, answer.is_over) == ("It is sunny.", True)


# ── Refusals that can be helped ──────────────────────────────────────────────────────────────────


@DIALECTS
async def test_a_poisoned_conversation_gets_another_id_and_keeps_it(transport: Transport, dialect: Dialect) -> None:
    async with serving(transport) as stand:
        talk = stand.talk(dialect)
        assert (await talk.say('!cursor {"poison": true, "words": "say well again"}')).text == "well again"
        assert (await talk.say("say and on")).text == "and on"
        first, second, third = (record.received[0].run_request.conversation_id for record in stand.sim.journal)
        assert first != second == third


@DIALECTS
async def test_a_refusal_without_a_reason_is_told_after_some_rotations(transport: Transport, dialect: Dialect) -> None:
    async with serving(transport, script=[{"error": "exhausted"}]) as stand:
        error = await failed(stand.talk(dialect), HELLO)
        assert "Begin a new conversation" in error.message
        assert stand.sim.runs == MAX_RETRIES + 1


@DIALECTS
@pytest.mark.parametrize("name", ["blob", "image", "data_missing"])
async def test_a_conversation_that_the_service_lost_is_rebuilt(
    transport: Transport, dialect: Dialect, name: str
) -> None:
    async with serving(transport) as stand:
        stand.plays(["open", {"error": name}])
        assert (await stand.talk(dialect).say(HELLO)).text == ANSWER
        ids = [record.received[0].run_request.conversation_id for record in stand.sim.journal]
        assert len(set(ids)) == 2


@DIALECTS
@pytest.mark.parametrize("step", [{"error": "unavailable"}, {"error": "provider"}, {"status": 503}, {"status": 429}])
async def test_what_may_pass_is_tried_again(transport: Transport, dialect: Dialect, step: Any) -> None:
    async with serving(transport) as stand:
        stand.plays([step])
        assert (await stand.talk(dialect).say(HELLO)).text == ANSWER
        assert stand.sim.runs == 2


async def test_words_already_said_are_followed_by_the_error_when_it_does_not_pass(transport: Transport) -> None:
    async with serving(transport, script=["open", {"text": "hello"}, {"error": "unavailable"}]) as stand:
        with pytest.raises(openai.APIError, match="not available"):
            await stand.talk("openai").say(HELLO)
        assert stand.sim.runs == MAX_RETRIES + 1


@DIALECTS
async def test_a_redirect_of_the_service_is_a_bad_gateway_that_names_it(transport: Transport, dialect: Dialect) -> None:
    headers = {"location": "https://elsewhere.example/login?token=secret"}
    async with serving(transport, script=[{"status": {"code": 302, "headers": headers}}]) as stand:
        error = await failed(stand.talk(dialect), HELLO)
        assert error.status == 502
        assert "status 302, a redirect to elsewhere.example" in error.message
        assert "secret" not in error.message
        assert stand.sim.runs == 1


async def test_a_transport_that_was_set_by_hand_is_kept_when_it_is_refused(transport: Transport) -> None:
    async with serving(transport) as stand:
        stand.plays([{"status": 464}])
        error = await failed(stand.talk("openai"), HELLO)
        assert (error.status, error.code) == (502, "cursor_http1_refused")
        assert (await stand.talk("openai").say(HELLO)).text == ANSWER
        paths = {head.path.rpartition("/")[2] for head in stand.sim.requests}
        assert paths == ({"Run"} if transport == "http2" else {"RunSSE", "BidiAppend"})


# ── Logins ───────────────────────────────────────────────────────────────────────────────────────


@DIALECTS
@pytest.mark.parametrize("how", ["status", "frame"])
async def test_a_token_that_is_refused_is_renewed_and_the_run_tried_again(
    transport: Transport, dialect: Dialect, how: Any
) -> None:
    guarded = SimSettings(auth=True, keys=("secret",), unauthenticated=how)
    async with serving(transport, guarded, key="secret") as stand:
        assert (await stand.talk(dialect).say(HELLO)).text == ANSWER
        assert stand.sim.tokens.issued == 1
        stand.sim.tokens.revoke()
        assert (await stand.talk(dialect).say(HELLO)).text == ANSWER
        assert stand.sim.tokens.issued == 2


async def test_many_requests_whose_token_is_refused_share_one_refresh(transport: Transport) -> None:
    async with serving(transport, SimSettings(auth=True, keys=("secret",)), key="secret") as stand:
        await stand.talk("openai").say(HELLO)
        stand.sim.tokens.revoke()
        dialects: tuple[Dialect, Dialect] = ("openai", "anthropic")
        talks = [stand.talk(dialects[number % 2]) for number in range(20)]
        answers = await asyncio.gather(*(talk.say(f"say {number}") for number, talk in enumerate(talks)))
        assert [answer.text for answer in answers] == [str(number) for number in range(20)]
        assert stand.sim.tokens.issued == 2


@DIALECTS
async def test_a_parked_run_goes_on_though_its_token_was_revoked_meanwhile(
    transport: Transport, dialect: Dialect
) -> None:
    async with serving(transport, SimSettings(auth=True, keys=("secret",)), key="secret") as stand:
        talk = stand.talk(dialect, WEATHER)
        await talk.say(ONE_CALL)
        stand.sim.tokens.revoke()
        assert (await talk.give("sunny")).text == "It is sunny in Oslo."
        assert stand.sim.tokens.issued == (1 if transport == "http2" else 2)


@DIALECTS
async def test_a_login_that_cannot_be_renewed_is_told_with_what_to_do(transport: Transport, dialect: Dialect) -> None:
    async with serving(transport, SimSettings(auth=True)) as stand:
        error = await failed(stand.talk(dialect), HELLO)
        assert error.status == 401
        assert "tieline login cursor" in error.message


# ── Errors ───────────────────────────────────────────────────────────────────────────────────────


class Told(NamedTuple):
    """An error as the client has it."""

    status: int
    type: str
    code: str | None
    message: str


async def failed(talk: Talk, words: str) -> Told:
    """What a client is told that asks this."""
    try:
        answer: Answer = await talk.say(words)
    except openai.APIStatusError as error:
        body: Any = error.body
        return Told(error.status_code, body["type"], body["code"], body["message"])
    except anthropic.APIStatusError as error:
        told: Any = error.body
        assert told["type"] == "error"
        return Told(error.status_code, told["error"]["type"], None, told["error"]["message"])
    raise AssertionError(f"it went well: {answer.text!r}")


class Refusal(NamedTuple):
    """What the service says, and what a client of either dialect hears of it."""

    name: str
    status: int
    code: str
    chat: str
    """The type of the error for an OpenAI client."""
    messages: str
    """The type of the error for an Anthropic client."""
    advice: str


INVALID = ("invalid_request_error", "invalid_request_error")
REFUSALS = (
    Refusal("outdated", 400, "cursor_outdated_client", *INVALID, "newer client version"),
    Refusal("quota", 402, "cursor_quota", "insufficient_quota", "billing_error", "usage page"),
    Refusal("pro_quota", 402, "cursor_quota", "insufficient_quota", "billing_error", "usage page"),
    Refusal("rate_limited", 429, "cursor_rate_limited", "rate_limit_error", "rate_limit_error", "Wait a minute"),
    Refusal("too_long", 400, "context_length_exceeded", *INVALID, "prompt is too long"),
    Refusal("bad_tools", 400, "cursor_bad_tools", *INVALID, "Leave out tools"),
    Refusal("empty_value", 400, "cursor_bad_tools", *INVALID, "Leave out tools"),
    Refusal("bad_model", 404, "model_not_found", "not_found_error", "not_found_error", "list of models"),
    Refusal("model_blocked", 403, "cursor_model_blocked", "permission_error", "permission_error", "another one"),
    Refusal("max_mode", 400, "cursor_max_mode_required", *INVALID, "max mode"),
    Refusal("region", 403, "cursor_region", "permission_error", "permission_error", "host of the right region"),
    Refusal("deprecated", 400, "cursor_deprecated", *INVALID, "Update Tieline"),
    Refusal("suspicious", 403, "cursor_blocked", "permission_error", "permission_error", "support"),
)


@DIALECTS
@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: refusal.name)
async def test_each_refusal_is_the_right_error_with_advice(
    transport: Transport, dialect: Dialect, refusal: Refusal
) -> None:
    async with serving(transport, script=["open", {"error": refusal.name}]) as stand:
        error = await failed(stand.talk(dialect), HELLO)
        kind = refusal.chat if dialect == "openai" else refusal.messages
        assert (error.status, error.type) == (refusal.status, kind)
        assert error.code == (refusal.code if dialect == "openai" else None)
        assert refusal.advice in error.message
        assert stand.sim.runs == 1


LASTING = (
    Refusal("no_state", 400, "cursor_invalid_argument", *INVALID, "could not make sense"),
    Refusal("blob", 502, "cursor_blob_missing", "upstream_error", "api_error", "rebuilt from the history"),
    Refusal("internal", 502, "cursor_internal", "upstream_error", "api_error", "Try again"),
    Refusal("unavailable", 503, "cursor_unavailable", "overloaded_error", "overloaded_error", "a little later"),
    Refusal("provider", 502, "cursor_provider_error", "upstream_error", "api_error", "another model"),
    Refusal("deadline_exceeded", 504, "cursor_timeout", "timeout_error", "timeout_error", "took too long"),
)


@DIALECTS
@pytest.mark.parametrize("refusal", LASTING, ids=lambda refusal: refusal.name)
async def test_what_does_not_pass_after_all_is_told_with_advice(
    transport: Transport, dialect: Dialect, refusal: Refusal
) -> None:
    async with serving(transport, script=["open", {"error": refusal.name}]) as stand:
        error = await failed(stand.talk(dialect), HELLO)
        kind = refusal.chat if dialect == "openai" else refusal.messages
        assert (error.status, error.type) == (refusal.status, kind)
        assert error.code == (refusal.code if dialect == "openai" else None)
        assert refusal.advice in error.message
        assert stand.sim.runs == MAX_RETRIES + 1
