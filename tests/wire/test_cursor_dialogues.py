"""Every dialogue with the Cursor service, played as it stands, cut anyhow, and broken off.

`pytest --rewrite` writes the `>` and `=` lines anew; a `>` line that is still true stays as it is.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from pathlib import Path

import pytest
from google.protobuf.message import Message

from tests.conftest import Golden
from tests.each import each
from tests.grammar import check
from tests.wire.dialogues import (
    Player,
    Step,
    event_line,
    matches,
    parse,
    paths,
    received,
    rewritten,
    sent_line,
    spell_sent,
)
from tieline.model.events import Event, Failed, Finished
from tieline.wire.cursor._pb.exec_pb2 import ExecServerMessage
from tieline.wire.cursor._pb.queries_pb2 import InteractionQuery
from tieline.wire.cursor.error_codes import BY_CODE, BY_ERROR, BY_WORDS, EXHAUSTED

EACH = each("path", paths(), ids=lambda path: path.stem)


@EACH
def test_a_dialogue_goes_as_it_is_written(path: Path, golden: Golden) -> None:
    text = path.read_text()
    player = Player()
    outcomes: list[list[str]] = []
    for step in parse(text):
        events = player.run.receive(received(step.line)) if step.is_received else player.do(step.line)
        outcomes.append([*_sent_lines(step, player.run.outbox()), *map(event_line, events)])
    golden(path, rewritten(text, outcomes).encode())


def _sent_lines(step: Step, messages: Sequence[bytes]) -> Iterator[str]:
    """What was sent, each message by the line that is there for it if that is true."""
    lines = [line for line in step.outcome if line.startswith("> ")]
    for at, message in enumerate(map(spell_sent, messages)):
        yield lines[at] if at < len(lines) and matches(lines[at], message) else sent_line(message)


@EACH
def test_any_cutting_of_what_comes_gives_the_same(path: Path) -> None:
    steps = parse(path.read_text())
    expected = _played(steps, lambda data: [data])
    assert _played(steps, lambda data: [data[at : at + 1] for at in range(len(data))]) == expected
    for seed in range(50):
        chance = random.Random(seed)
        assert _played(steps, lambda data: _cut(data, chance)) == expected  # noqa: B023  # used at once


@EACH
def test_a_run_keeps_the_grammar_wherever_its_stream_breaks_off(path: Path) -> None:
    steps = parse(path.read_text())
    for end in range(1, len(steps)):
        for keep in (0, 3):
            player = Player()
            events = list(_events(player, steps[:end]))
            half = received(steps[end].line)[:keep] if steps[end].is_received else b""
            events += player.run.receive(half)
            events += player.run.receive_eof()
            player.run.outbox()
            legs = list(_legs(events))
            for leg in legs:
                check(leg)
            assert player.run.ended
            assert player.run.receive(b"anything") == []


@EACH
def test_the_legs_of_a_dialogue_keep_the_grammar(path: Path) -> None:
    for leg in _legs(_events(Player(), parse(path.read_text()))):
        check(leg)


def _names(message: type[Message]) -> set[str]:
    """The kinds of a message, as dialogues spell them."""
    return {field.json_name for one in message.DESCRIPTOR.oneofs for field in one.fields if field.message_type}


@pytest.mark.parametrize("message", [ExecServerMessage, InteractionQuery], ids=lambda message: message.__name__)
def test_every_kind_of_question_is_in_a_dialogue(message: type[Message]) -> None:
    told = "".join(path.read_text() for path in paths())
    assert {name for name in _names(message) if f'"{name}"' not in told} == set()


def test_everything_that_an_end_frame_can_mean_is_in_a_dialogue() -> None:
    told = "".join(path.read_text() for path in paths())
    meanings = [*BY_ERROR.values(), *BY_CODE.values(), *(meaning for _, _, meaning in BY_WORDS), EXHAUSTED]
    assert {meaning.code for meaning in meanings if f" {meaning.code} " not in told} == set()


def _played(steps: Sequence[Step], cut: Callable[[bytes], list[bytes]]) -> list[tuple[list[Event], list[bytes]]]:
    """What came of each stretch of bytes and of each thing that was done, the bytes cut in this way."""
    player = Player()
    outcomes = []
    for is_received, group in groupby(steps, key=lambda step: step.is_received):
        events: list[Event] = []
        if is_received:
            for piece in cut(b"".join(received(step.line) for step in group)):
                events += player.run.receive(piece)
        else:
            for step in group:
                events += player.do(step.line)
        outcomes.append((events, player.run.outbox()))
    return outcomes


def _events(player: Player, steps: Sequence[Step]) -> Iterator[Event]:
    for step in steps:
        yield from player.run.receive(received(step.line)) if step.is_received else player.do(step.line)


def _legs(events: Iterator[Event] | Sequence[Event]) -> Iterator[list[Event]]:
    leg: list[Event] = []
    for event in events:
        leg.append(event)
        if isinstance(event, Finished | Failed):
            yield leg
            leg = []
    assert not leg, "a leg without an ending"


def _cut(data: bytes, chance: random.Random) -> list[bytes]:
    places = sorted(chance.randrange(len(data) + 1) for _ in range(chance.randint(1, 20)))
    return [data[a:b] for a, b in zip([0, *places], [*places, len(data)], strict=True)]
