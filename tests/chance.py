"""Random input for tests."""

import random

from hypothesis import settings

from tests.conftest import FEW, REPEATABLE


def seeds(few: int) -> list[int]:
    """Return `few` seeds that differ in every run except in CI, and ten times as many in `make test-long`.

    A failure names its seed: put it in place of the call to repeat the case.
    """
    chance = random.Random(few) if REPEATABLE else random.SystemRandom()
    return [chance.randrange(2**32) for _ in range(few if settings().max_examples == FEW else 10 * few)]
