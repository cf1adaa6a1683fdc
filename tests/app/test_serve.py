"""The limit on open files, on systems that treat it differently."""

import pytest

from tests.each import each
from tieline.app import serve

INFINITY = -1


class Limits:
    """A substitute for the module `resource`. `highest` is the highest limit that the system accepts."""

    RLIMIT_NOFILE = 7
    RLIM_INFINITY = INFINITY

    def __init__(self, soft: int, hard: int, highest: int) -> None:
        self.soft, self.hard, self.highest = soft, hard, highest

    def getrlimit(self, _: int) -> tuple[int, int]:
        return self.soft, self.hard

    def setrlimit(self, _: int, limits: tuple[int, int]) -> None:
        if limits[0] > self.highest:
            raise ValueError("current limit exceeds maximum limit")
        self.soft, self.hard = limits


@each(
    ("soft", "hard", "highest", "raised"),
    [
        (1024, 524288, 524288, 524288),  # Linux
        (1024, 4096, 4096, 4096),
        (256, INFINITY, 1_000_000, 65536),  # macOS
        (256, INFINITY, 61440, 10240),  # macOS, which reports no limit but has one
        (80_000, INFINITY, 61440, 80_000),
        (INFINITY, INFINITY, 61440, INFINITY),
        (4096, 4096, 4096, 4096),
    ],
)
def test_the_limit_is_raised_as_far_as_the_system_allows(
    soft: int, hard: int, highest: int, raised: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = Limits(soft, hard, highest)
    monkeypatch.setattr(serve, "resource", limits)
    serve._raise_file_limit()
    assert (limits.soft, limits.hard) == (raised, hard)


def test_a_system_without_limits_needs_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve, "resource", None)
    serve._raise_file_limit()
