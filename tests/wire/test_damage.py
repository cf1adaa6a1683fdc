"""Damaged bytes: whatever arrives, a reader gives a leg and a parser gives a request or says what is wrong."""

import json
import random
from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from tests.cases import COMMON_CASES, COMMON_LEGS, FAILED_LEGS
from tests.chance import seeds
from tests.codecs import CODECS, Codec, read_stream, write_stream
from tests.each import Failures, each
from tests.grammar import check
from tests.shapes import check_stream
from tieline.model.assemble import fold
from tieline.model.errors import BadRequest
from tieline.model.events import Finished

EACH_CODEC = each("codec", CODECS.values(), ids=str)
ODD: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    1.5,
    10**30,
    "",
    "x",
    "\ud83d",
    [],
    [None],
    ["x"],
    {},
    {"type": "x"},
    {"x": 1},
)


def damaged_bytes(data: bytes, seed: int) -> bytes:
    """The data with some bytes dropped, doubled, or replaced."""
    chance = random.Random(seed)
    damaged = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(damaged))
        match chance.randrange(4):
            case 0:
                del damaged[at : at + chance.randint(1, 20)]
            case 1:
                damaged[at:at] = damaged[at : at + chance.randint(1, 40)]
            case 2:
                damaged[at] = chance.randrange(256)
            case _:
                damaged[at:at] = chance.choice([b"\n\n", b'"', b"}", b"null", b"\\", b"\xff", b"\r", b"\\ud83d"])
        if not damaged:
            break
    return bytes(damaged)


def odd_values(value: Any, chance: random.Random) -> Any:
    """The same JSON with one value somewhere in it replaced or left out."""
    places = list(_places(value))
    container, key = chance.choice(places)
    if chance.random() < 0.2:
        del container[key]
    else:
        container[key] = chance.choice(ODD)
    return value


def odd_json(body: bytes, seed: int) -> bytes:
    """The JSON of a body with one odd value."""
    return json.dumps(odd_values(json.loads(body), random.Random(seed))).encode()


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield value, key
        yield from _places(item)


def odd_events(stream: bytes, chance: random.Random) -> bytes:
    """The stream with one odd value in one of its events, or with events dropped, doubled or swapped."""
    events = stream.decode().split("\n\n")[:-1]
    at = chance.randrange(len(events))
    match chance.randrange(5):
        case 0:
            del events[at]
        case 1:
            events.insert(chance.randrange(len(events)), events[at])
        case 2:
            chance.shuffle(events)
        case _:
            head, colon, data = events[at].partition("data: ")
            if data.startswith("{"):
                events[at] = head + colon + json.dumps(odd_values(json.loads(data), chance))
    return "".join(f"{event}\n\n" for event in events).encode()


@EACH_CODEC
def test_a_damaged_stream_is_still_a_leg(codec: Codec) -> None:
    failures, outcomes = Failures(), list[bool]()
    legs = {**COMMON_LEGS, **{name: FAILED_LEGS[name] for name in ("overloaded inside text", "upstream inside a call")}}
    for name, events in legs.items():
        stream = write_stream(codec.writer(), events)
        for seed in seeds(20):
            for damaged in (damaged_bytes(stream, seed), odd_events(stream, random.Random(seed))):
                with failures.of(f"{name}, seed {seed}"):
                    leg = read_stream(codec.reader(), [damaged])
                    check(leg)
                    for to in CODECS.values():
                        check_stream(to.name, write_stream(to.writer(), leg), typed=False)
                    outcomes.append(isinstance(leg[-1], Finished))
    failures.check()
    some_are_understood(outcomes)


@EACH_CODEC
def test_a_damaged_reply_is_still_a_leg(codec: Codec) -> None:
    failures, outcomes = Failures(), list[bool]()
    for name, events in COMMON_LEGS.items():
        body = codec.render(fold(events))
        for seed in seeds(20):
            for damaged in (damaged_bytes(body, seed), odd_json(body, seed)):
                with failures.of(f"{name}, seed {seed}"):
                    leg = codec.read_reply(damaged)
                    check(leg)
                    outcomes.append(isinstance(leg[-1], Finished))
    failures.check()
    some_are_understood(outcomes)


@EACH_CODEC
def test_a_damaged_request_is_understood_or_refused(codec: Codec) -> None:
    failures, outcomes = Failures(), list[bool]()
    for name, case in COMMON_CASES.items():
        body = codec.build_fully(replace(case, protocol=codec.name)).body
        for seed in seeds(20):
            for damaged in (damaged_bytes(body, seed), odd_json(body, seed)):
                with failures.of(f"{name}, seed {seed}"):
                    outcomes.append(is_understood(codec, damaged))
    failures.check()
    some_are_understood(outcomes)


def is_understood(codec: Codec, body: bytes) -> bool:
    """Whether a request is parsed; it can then be built for every upstream."""
    try:
        request = codec.parse(body)
        for to in CODECS.values():
            json.loads(to.build(request).body)
    except BadRequest:
        return False
    return True


def some_are_understood(outcomes: list[bool]) -> None:
    """Check that the damage is neither so heavy that nothing is read, nor so light that all is."""
    assert 0.05 < outcomes.count(True) / len(outcomes) < 0.9


@EACH_CODEC
@each("seed", seeds(60))
def test_a_damaged_error_is_still_an_error(codec: Codec, seed: int) -> None:
    body = b'{"type":"error","error":{"type":"overloaded_error","message":"no","param":null,"code":"x","details":{}}}'
    for damaged in (damaged_bytes(body, seed), odd_json(body, seed)):
        failed = codec.read_error(503, damaged)
        assert failed.status == 503
        assert failed.message
