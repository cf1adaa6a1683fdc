"""Reading and building take time in proportion to the number of messages, whatever their roles."""

import gc
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tieline.core.history.tidy import tidy
from tieline.wire import anthropic, openai_chat, openai_responses
from tieline.wire.shared.json import replace_lone_surrogates

FEW, FACTOR = 2_000, 8
Message = dict[str, Any]

USER: Message = {"role": "user", "content": "hi"}
ASSISTANT: Message = {"role": "assistant", "content": "hello"}
SYSTEM: Message = {"role": "system", "content": "be brief"}
SHAPES: dict[str, Callable[[int], list[Message]]] = {
    "a run of the user": lambda count: [USER] * count,
    "a run of the model": lambda count: [USER, *[ASSISTANT] * count],
    "a run of the system": lambda count: [*[SYSTEM] * count, USER],
    "user and model in turn": lambda count: [USER, ASSISTANT] * (count // 2),
    "user and system in turn": lambda count: [USER, SYSTEM] * (count // 2),
}


@pytest.fixture(autouse=True)
def _no_collector() -> Iterator[None]:
    """Its pauses come when they come."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def seconds(work: Callable[[], object]) -> float:
    """The best of three."""
    best = float("inf")
    for _ in range(3):
        began = time.process_time()
        work()
        best = min(best, time.process_time() - began)
    return best


def body(messages: list[Message]) -> bytes:
    return json.dumps({"model": "m", "max_tokens": 9, "messages": messages}).encode()


@pytest.mark.parametrize("codec", [anthropic, openai_chat], ids=["anthropic", "openai_chat"])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_conversation_of_eight_times_the_length_takes_no_more_than_four_times_that(codec: Any, shape: str) -> None:
    """A quadratic step would take 64 times as long; the bound is far above what a busy machine does to a linear one."""

    def work(text: bytes) -> None:
        request = codec.parse_request(text)
        tidy(request.messages)
        openai_chat.build_request(request, openai_chat.Dialect())
        anthropic.build_request(request, anthropic.Dialect())
        openai_responses.build_request(request, openai_responses.Dialect())

    few, many = (body(SHAPES[shape](count)) for count in (FEW, FEW * FACTOR))
    assert seconds(lambda: work(many)) < 4 * FACTOR * seconds(lambda: work(few)) + 0.05


@pytest.mark.parametrize("unit", [b"\\n", b"\\\\", b"\\ud55c", b"\\ud83d\\ude00", b"\\\\ud83d"])
def test_mending_takes_time_in_proportion_to_the_text(unit: bytes) -> None:
    few, many = unit * 10_000, unit * 10_000 * FACTOR
    assert replace_lone_surrogates(many) == many
    assert (
        seconds(lambda: replace_lone_surrogates(many))
        < 4 * FACTOR * seconds(lambda: replace_lone_surrogates(few)) + 0.05
    )


def test_a_text_of_nothing_but_halves_is_refused_quickly() -> None:
    """A regular expression that looked at each escape took five seconds for 47 MiB of them."""
    halves = b"\\ud83d" * 2_000_000
    assert replace_lone_surrogates(halves) == halves
    assert seconds(lambda: replace_lone_surrogates(halves)) < 2
