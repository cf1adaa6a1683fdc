"""Conversations with agents, as files: what we do and what the agent sends, with what we then send and learn.

`transcripts/acp/<case>.dialogue`, one thing on each line: `%` what we offer, `@` what we do (a method and its
arguments), `<` what the agent sends, `>` what we send because of it, `=` the facts we learn. `pytest --rewrite` writes
the lines `>` and `=` anew: the diff is the review.
"""

import json
import random
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any, get_type_hints

import msgspec

from tests.conftest import Golden
from tests.each import each
from tests.wire.acp_shapes import check_sent
from tieline.wire.acp.client_side import ClientOffer, ClientSide
from tieline.wire.acp.facts import Fact

DIALOGUES = sorted((Path(__file__).parent.parent / "transcripts" / "acp").glob("*.dialogue"))

Cut = Callable[[bytes], Iterable[bytes]]


def whole(data: bytes) -> Iterable[bytes]:
    return [data]


def byte_by_byte(data: bytes) -> Iterable[bytes]:
    return (data[at : at + 1] for at in range(len(data)))


def at_random(seed: int) -> Cut:
    def cut(data: bytes) -> Iterator[bytes]:
        chance = random.Random(seed)
        begin = 0
        while begin < len(data):
            end = begin + chance.randint(1, 40)
            yield data[begin:end]
            begin = end

    return cut


def perform(text: str, cut: Cut = whole) -> str:
    """The dialogue as it goes: what stands in it of ours and of the agent's, with what comes of it."""
    machine = ClientSide()
    lines: list[str] = []
    for kind, group in groupby((line for line in text.splitlines() if line[:1] not in "=>"), key=lambda line: line[:1]):
        said = list(group)
        if kind == "%":
            machine = ClientSide(msgspec.json.decode(said[0][2:], type=ClientOffer))
        if kind == "<":
            data = "".join(f"{line[2:]}\n" for line in said).encode()
            lines += said + shown(machine, [fact for piece in cut(data) for fact in machine.feed(piece)])
        elif kind == "@":
            lines += [line for one in said for line in (one, *shown(machine, act(machine, one[2:])))]
        else:
            lines += said
    return "\n".join(lines) + "\n"


def act(machine: ClientSide, line: str) -> list[Fact]:
    """Call a method of the machine; of what it returns, facts are shown."""
    name, _, arguments = line.partition(" ")
    method = getattr(machine, name)
    types = list(get_type_hints(method).values())
    values = msgspec.json.decode(arguments or "[]")
    given = (value and msgspec.convert(value, kind) for value, kind in zip(values, types, strict=False))
    returned = method(*given)
    return returned if name == "close" else []


def shown(machine: ClientSide, learned: list[Fact]) -> list[str]:
    sent = [f"> {line}" for line in machine.outbox().decode().splitlines()]
    return sent + [f"= {type(fact).__name__} {json.dumps(msgspec.to_builtins(fact))}" for fact in learned]


@each("path", DIALOGUES, ids=lambda path: path.stem)
def test_a_dialogue_goes_as_it_is_written(path: Path, golden: Golden) -> None:
    golden(path, perform(path.read_text()).encode())


@each("path", DIALOGUES, ids=lambda path: path.stem)
def test_the_cuts_between_reads_mean_nothing(path: Path) -> None:
    text = path.read_text()
    expected = perform(text)
    for cut in (byte_by_byte, *map(at_random, range(10))):
        assert perform(text, cut) == expected


@each("path", DIALOGUES, ids=lambda path: path.stem)
def test_what_we_send_has_the_shape_of_the_protocol(path: Path) -> None:
    asked: dict[Any, str] = {}
    for line in path.read_text().splitlines():
        if line.startswith("< {"):
            message = read(line)
            if "id" in message and "method" in message:
                asked[repr(message["id"])] = message["method"]
        elif line.startswith("> "):
            message = read(line)
            check_sent(message, asked.get(repr(message.get("id")), ""))


def read(line: str) -> dict[str, Any]:
    try:
        message = json.loads(line[2:])
    except ValueError:
        return {}
    return message if isinstance(message, dict) else {}
