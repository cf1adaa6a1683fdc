"""Damaged bytes: whatever arrives, a reader gives a leg and a parser gives a request or says what is wrong."""

import json
import random
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from msgspec.structs import replace

from tests.cases import COMMON_CASES, COMMON_LEGS, FAILED_LEGS
from tests.codecs import CODECS, Codec, read_stream, write_stream
from tests.each import each
from tests.grammar import check
from tests.shapes import check_stream
from tieline.model.assemble import fold
from tieline.model.errors import BadRequest

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
@each("name", [*COMMON_LEGS, "overloaded inside text", "upstream inside a call"])
def test_a_damaged_stream_is_still_a_leg(codec: Codec, name: str) -> None:
    events = COMMON_LEGS.get(name) or FAILED_LEGS[name]
    stream = write_stream(codec.writer(), events)
    for seed in range(60):
        chance = random.Random(seed)
        for damaged in (damaged_bytes(stream, seed), odd_events(stream, chance)):
            leg = read_stream(codec.reader(), [damaged])
            check(leg)
            for to in CODECS.values():
                check_stream(to.name, write_stream(to.writer(), leg), typed=False)


@EACH_CODEC
@each("name", COMMON_LEGS)
def test_a_damaged_reply_is_still_a_leg(codec: Codec, name: str) -> None:
    body = codec.render(fold(COMMON_LEGS[name]))
    for seed in range(60):
        odd = json.dumps(odd_values(json.loads(body), random.Random(seed))).encode()
        for damaged in (damaged_bytes(body, seed), odd):
            check(codec.read_reply(damaged))


@EACH_CODEC
@each("name", COMMON_CASES)
def test_a_damaged_request_is_understood_or_refused(codec: Codec, name: str) -> None:
    body = codec.build_fully(replace(COMMON_CASES[name], protocol=codec.name)).body
    for seed in range(60):
        odd = json.dumps(odd_values(json.loads(body), random.Random(seed))).encode()
        for damaged in (damaged_bytes(body, seed), odd):
            with suppress(BadRequest):
                request = codec.parse(damaged)
                for to in CODECS.values():
                    json.loads(to.build(request).body)


@EACH_CODEC
@each("seed", range(60))
def test_a_damaged_error_is_still_an_error(codec: Codec, seed: int) -> None:
    body = b'{"type":"error","error":{"type":"overloaded_error","message":"no","param":null,"code":"x","details":{}}}'
    odd = json.dumps(odd_values(json.loads(body), random.Random(seed))).encode()
    for damaged in (damaged_bytes(body, seed), odd):
        failed = codec.read_error(503, damaged)
        assert failed.status == 503
        assert failed.message
