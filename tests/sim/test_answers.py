"""Scripted answers: neutral events in the words of a protocol."""

import json

from tests.cases import COMMON_LEGS, FAILURES
from tests.codecs import CODECS, joined, read_stream
from tests.each import each
from tieline.model.events import Failed
from tieline.sim.answers import Dialect, failed, streamed, whole
from tieline.sim.model import Cut, Hang, Pause

PROTOCOLS: dict[Dialect, str] = {
    "openai": "openai_chat",
    "anthropic": "anthropic",
    "responses": "openai_responses",
}
EACH_DIALECT = each("dialect", PROTOCOLS)


@EACH_DIALECT
def test_a_streamed_answer_is_read_as_its_events(dialect: Dialect) -> None:
    chunks = [
        chunk for chunk in streamed(dialect, COMMON_LEGS["parallel calls"]).all_chunks if isinstance(chunk, bytes)
    ]
    assert joined(read_stream(CODECS[PROTOCOLS[dialect]].reader(), chunks)) == joined(COMMON_LEGS["parallel calls"])


@EACH_DIALECT
def test_a_whole_answer_is_read_as_its_events(dialect: Dialect) -> None:
    got = CODECS[PROTOCOLS[dialect]].read_reply(whole(dialect, COMMON_LEGS["parallel calls"]).body)
    assert joined(got) == joined(COMMON_LEGS["parallel calls"])


@EACH_DIALECT
def test_stage_directions_stay_between_the_events(dialect: Dialect) -> None:
    pause = Pause()
    events = COMMON_LEGS["text"]
    chunks = streamed(dialect, [events[0], pause, *events[1:3], b": hi\n\n", Cut(), Hang()]).all_chunks
    assert [type(chunk).__name__ for chunk in chunks if not isinstance(chunk, bytes)] == ["Pause", "Cut", "Hang"]
    assert b": hi\n\n" in chunks


@EACH_DIALECT
@each("kind", FAILURES)
def test_a_failure_has_its_status_and_its_words(dialect: Dialect, kind: str) -> None:
    answer = failed(dialect, FAILURES[kind])
    assert answer.status == FAILURES[kind].status
    assert FAILURES[kind].message in json.loads(answer.body)["error"]["message"]
    assert whole(dialect, [FAILURES[kind]]) == answer


def test_a_failure_says_when_to_come_back() -> None:
    failure = Failed(kind="rate_limited", message="slow down", status=429, retry_after=1.5, headers=(("x-a", "b"),))
    assert failed("openai", failure).headers == [("x-a", "b"), ("retry-after", "1.5")]
