"""What to do when an attempt fails: the whole table of decisions, and how often each may be taken in a leg."""

from typing import NamedTuple

import pytest

from tieline.backends.cursor.pipes import Transport
from tieline.backends.cursor.recovery import (
    BROKEN,
    FIRST_BACK_OFF,
    LONGEST_WAIT,
    MOST_ROTATIONS,
    MOST_TRIES,
    NOT_SPOKEN,
    STALLED,
    Kind,
    Recovery,
    Remedy,
)
from tieline.model.events import Failed
from tieline.wire.cursor.errors import incomplete, read_end, read_status

AGAIN, RESUME = Kind.AGAIN, Kind.RESUME


class Case(NamedTuple):
    """A failure, the transport it came on, and what helps: before and after the client has heard a word."""

    code: str
    silent: Remedy | None
    spoken: Remedy | None
    transport: Transport = "http2"
    has_checkpoint: bool = False


def failed(code: str, retry_after: float | None = None) -> Failed:
    return Failed(kind="upstream", message="it failed", code=code, retry_after=retry_after)


TRIED = Remedy(AGAIN, wait=FIRST_BACK_OFF)
RESUMED = Remedy(RESUME, wait=FIRST_BACK_OFF)
RENEWED = Remedy(AGAIN, renew=True)
REBUILT = Remedy(AGAIN, rotate=True)
TO_HTTP1 = Remedy(AGAIN, transport="http1")
TO_HTTP2 = Remedy(AGAIN, transport="http2")

TABLE = (
    # A stream that was lost goes on, whatever the client has heard: nothing is said twice.
    Case(BROKEN, TRIED, TRIED),
    Case(BROKEN, RESUMED, RESUMED, has_checkpoint=True),
    Case("cursor_incomplete", TRIED, TRIED),
    Case("cursor_incomplete", RESUMED, RESUMED, has_checkpoint=True),
    Case(STALLED, REBUILT, REBUILT),
    Case(STALLED, REBUILT, REBUILT, has_checkpoint=True),
    # What the service lost it gets again, under another name.
    Case("cursor_blob_missing", REBUILT, REBUILT),
    Case("cursor_blob_missing", REBUILT, REBUILT, has_checkpoint=True),
    Case("cursor_poisoned", REBUILT, None),
    # Who asks, and how.
    Case("cursor_unauthenticated", RENEWED, RENEWED),
    Case("cursor_unauthenticated", Remedy(RESUME, renew=True), Remedy(RESUME, renew=True), has_checkpoint=True),
    Case("cursor_http1_refused", TO_HTTP2, TO_HTTP2, transport="http1"),
    Case("cursor_http1_refused", None, None, transport="http2"),
    Case(NOT_SPOKEN, TO_HTTP1, TO_HTTP1, transport="http2"),
    Case(NOT_SPOKEN, None, None, transport="http1"),
    # What may pass is tried again as long as the client has heard nothing.
    *(
        Case(code, TRIED, None)
        for code in (
            "cursor_unavailable",
            "cursor_internal",
            "cursor_provider_error",
            "cursor_timeout",
            "cursor_busy",
            "cursor_exhausted",
            "cursor_try_again",
            "cursor_content_type",
            "cursor_not_found",
            "cursor_invalid_argument",
        )
    ),
    Case("cursor_unavailable", RESUMED, None, has_checkpoint=True),
    # The rest is for the client to hear.
    *(
        Case(code, None, None)
        for code in (
            "cursor_quota",
            "cursor_plan",
            "cursor_rate_limited",
            "cursor_outdated_client",
            "cursor_bad_tools",
            "cursor_region",
            "cursor_blocked",
            "cursor_forbidden",
            "cursor_deprecated",
            "cursor_max_mode_required",
            "cursor_model_blocked",
            "cursor_cancelled",
            "cursor_refused",
            "cursor_unreadable",
            "context_length_exceeded",
            "model_not_found",
            "",
        )
    ),
)


@pytest.mark.parametrize("case", TABLE, ids=lambda case: f"{case.code}-{case.transport}-{case.has_checkpoint}")
@pytest.mark.parametrize("has_spoken", [False, True], ids=["silent", "spoken"])
def test_the_table_of_remedies(case: Case, has_spoken: bool) -> None:
    recovery = Recovery(case.transport)
    remedy = recovery.remedy(failed(case.code), has_checkpoint=case.has_checkpoint, has_spoken=has_spoken)
    expected = case.spoken if has_spoken else case.silent
    assert (remedy and remedy._replace(why="")) == expected
    assert remedy is None or remedy.why, "whoever looks on has to know"


def given(recovery: Recovery, code: str, retry_after: float | None = None) -> Remedy | None:
    return recovery.remedy(failed(code, retry_after), has_checkpoint=False, has_spoken=False)


@pytest.mark.parametrize(
    ("code", "times"),
    [
        (BROKEN, MOST_TRIES),
        ("cursor_incomplete", MOST_TRIES),
        ("cursor_unavailable", MOST_TRIES),
        ("cursor_poisoned", MOST_ROTATIONS),
        ("cursor_unauthenticated", 1),
        ("cursor_blob_missing", 1),
        (STALLED, 1),
        (NOT_SPOKEN, 1),
    ],
)
def test_nothing_is_tried_for_ever(code: str, times: int) -> None:
    recovery = Recovery("http2")
    assert [given(recovery, code) is not None for _ in range(times + 2)] == [True] * times + [False] * 2


def test_broken_streams_and_failures_share_their_tries() -> None:
    recovery = Recovery("http2")
    codes = [BROKEN, "cursor_unavailable", "cursor_incomplete", "cursor_internal"]
    assert [given(recovery, code) is not None for code in codes] == [True, True, True, False]


def test_remedies_of_different_kinds_do_not_use_one_another_up() -> None:
    recovery = Recovery("http1")
    codes = [
        "cursor_unauthenticated",
        "cursor_http1_refused",
        "cursor_blob_missing",
        STALLED,
        "cursor_poisoned",
        BROKEN,
    ]
    assert all(given(recovery, code) is not None for code in codes)


def test_each_try_waits_longer_than_the_one_before() -> None:
    recovery = Recovery("http2")
    waits = [remedy.wait for _ in range(MOST_TRIES) if (remedy := given(recovery, BROKEN))]
    assert waits == [FIRST_BACK_OFF, FIRST_BACK_OFF * 2, FIRST_BACK_OFF * 4]


def test_a_service_that_says_when_is_asked_then() -> None:
    remedy = given(Recovery("http2"), "cursor_busy", retry_after=3.0)
    assert remedy is not None
    assert remedy.wait == 3.0


def test_a_service_that_wants_to_be_left_alone_for_long_is_not_waited_for() -> None:
    assert given(Recovery("http2"), "cursor_busy", retry_after=LONGEST_WAIT + 1) is None


def test_a_transport_is_changed_only_away_from_the_one_in_use_and_never_back() -> None:
    recovery = Recovery("http1")
    assert given(recovery, "cursor_http1_refused") is not None
    assert recovery.transport == "http2"
    assert given(recovery, NOT_SPOKEN) is None
    assert recovery.transport == "http2"


@pytest.mark.parametrize(
    ("failure", "is_helped"),
    [
        (read_status(401, b""), True),
        (read_status(464, b""), True),
        (read_status(503, b""), True),
        (read_status(403, b""), False),
        (incomplete("it broke off"), True),
        (read_end(b'{"error":{"code":"resource_exhausted","message":"Error"}}'), True),
        (read_end(b'{"error":{"code":"internal","message":"Blob not found"}}'), True),
        (read_end(b'{"error":{"code":"permission_denied","message":"no"}}'), False),
    ],
)
def test_failures_as_the_wire_reads_them_are_known_here(failure: Failed | None, is_helped: bool) -> None:
    """The codes are words of two packages: they have to be the same words."""
    assert failure is not None
    remedy = Recovery("http1").remedy(failure, has_checkpoint=False, has_spoken=False)
    assert (remedy is not None) == is_helped
