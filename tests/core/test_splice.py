"""Several legs as one: numbers without gaps, usage that adds up."""

import pytest

from tieline.model.content import Text
from tieline.model.events import PartDelta, PartEnd, PartStart, Usage
from tieline.model.splice import Splice


def test_parts_that_go_out_are_numbered_without_gaps_whatever_is_left_out() -> None:
    splice = Splice()
    start, delta, end = (
        PartStart(index=4, part=Text()),
        PartDelta(index=4, text="a"),
        PartEnd(index=4, part=Text(text="a")),
    )
    assert [splice.renumber(event) for event in (start, delta, end)] == [
        PartStart(index=0, part=Text()),
        PartDelta(index=0, text="a"),
        PartEnd(index=0, part=Text(text="a")),
    ]
    assert splice.renumber(PartStart(index=6, part=Text())) == PartStart(index=1, part=Text())


def test_an_event_whose_number_is_right_passes_as_the_object_it_is() -> None:
    delta = PartDelta(index=0, text="a")
    assert Splice().renumber(delta) is delta


def test_a_part_that_is_put_in_takes_a_number() -> None:
    splice = Splice()
    assert splice.next_index == 0
    assert splice.take_index() == 0
    assert splice.renumber(PartDelta(index=0, text="a")) == PartDelta(index=1, text="a")


FIRST = Usage(input=10, output=5, cache_read=3, cache_write=2, reasoning=1)
SECOND = Usage(input=100, output=50, cache_read=30, cache_write=20, reasoning=10)
BOTH = Usage(input=110, output=55, cache_read=33, cache_write=22, reasoning=11)


@pytest.mark.parametrize(
    ("legs", "told"),
    [
        ([[FIRST]], [FIRST]),
        ([[Usage(input=1), FIRST]], [Usage(input=1), FIRST]),
        ([[FIRST], [SECOND]], [FIRST, BOTH]),
        ([[Usage(input=1), FIRST], [Usage(), SECOND]], [Usage(input=1), FIRST, FIRST, BOTH]),
        ([[FIRST], [], [SECOND]], [FIRST, BOTH]),
        ([[], [SECOND]], [SECOND]),
    ],
)
def test_usage_is_that_of_all_legs_so_far(legs: list[list[Usage]], told: list[Usage]) -> None:
    splice = Splice()
    heard = []
    for leg in legs:
        heard += [splice.add(usage) for usage in leg]
        splice.next_leg()
    assert heard == told
