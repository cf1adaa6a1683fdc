"""What to do when an attempt fails: the whole table of decisions, and how often each may be taken in a leg."""

from typing import Any, NamedTuple

import pytest

from tests.each import each
from tieline.backends.cursor.pipes import Transport
from tieline.backends.cursor.recovery import (
    BROKEN,
    FIRST_BACK_OFF,
    GIVE_UP_AFTER,
    HTTP2_REFUSED,
    LONGEST_WAIT,
    MAX_RECONNECTS,
    SILENT,
    STALLED,
    Recovery,
    Remedy,
    RestartFrom,
)
from tieline.model.events import Failed
from tieline.wire.cursor.errors import incomplete, read_end, read_status

AGAIN, RESUME = RestartFrom.HISTORY, RestartFrom.CHECKPOINT


class Case(NamedTuple):
    """A failure, the transport it came on, and what helps, whatever the client has heard."""

    code: str
    remedy: Remedy | None
    transport: Transport = "http2"
    has_checkpoint: bool = False


def failed(code: str, retry_after: float | None = None) -> Failed:
    return Failed(kind="upstream", message="it failed", code=code, retry_after=retry_after)


TRIED = Remedy(AGAIN, wait=FIRST_BACK_OFF)
RESUMED = Remedy(RESUME, wait=FIRST_BACK_OFF)
RENEWED = Remedy(AGAIN, renew=True)
REPLAYED = Remedy(AGAIN, rotate=True)
REBUILT = Remedy(AGAIN, wait=FIRST_BACK_OFF, rotate=True)
TO_HTTP1 = Remedy(AGAIN, transport="http1")
TO_HTTP2 = Remedy(AGAIN, transport="http2")

TABLE = (
    # A stream that was lost or fell silent is taken up again.
    Case(BROKEN, TRIED),
    Case(BROKEN, RESUMED, has_checkpoint=True),
    Case("cursor_incomplete", TRIED),
    Case("cursor_incomplete", RESUMED, has_checkpoint=True),
    Case(SILENT, TRIED),
    Case(SILENT, RESUMED, has_checkpoint=True),
    Case(STALLED, REPLAYED),
    Case(STALLED, REPLAYED, has_checkpoint=True),
    # A conversation the service has lost, or refuses, is told again under another id.
    Case("cursor_blob_missing", REBUILT),
    Case("cursor_blob_missing", REBUILT, has_checkpoint=True),
    Case("cursor_poisoned", REBUILT),
    # Who asks, and how.
    Case("cursor_unauthenticated", RENEWED),
    Case("cursor_unauthenticated", Remedy(RESUME, renew=True), has_checkpoint=True),
    Case("cursor_http1_refused", TO_HTTP2, transport="http1"),
    Case("cursor_http1_refused", None, transport="http2"),
    Case(HTTP2_REFUSED, TO_HTTP1, transport="http2"),
    Case(HTTP2_REFUSED, None, transport="http1"),
    # What may pass is tried again, from the checkpoint if there is one.
    *(
        Case(code, RESUMED if has_checkpoint else TRIED, has_checkpoint=has_checkpoint)
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
        for has_checkpoint in (False, True)
    ),
    # The rest is for the client to hear.
    *(
        Case(code, None)
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
            "cursor_misdirected",
            "cursor_unreadable",
            "context_length_exceeded",
            "model_not_found",
            "",
        )
    ),
)


def recovery_on(transport: Transport = "http2", **given: Any) -> Recovery:
    return Recovery(transport, jitter=lambda: 0.0, **given)


@each("case", TABLE, ids=lambda case: f"{case.code}-{case.transport}-{case.has_checkpoint}")
def test_the_table_of_remedies(case: Case) -> None:
    remedy = recovery_on(case.transport).remedy(failed(case.code), has_checkpoint=case.has_checkpoint)
    assert (remedy and remedy._replace(why="")) == case.remedy
    assert remedy is None or remedy.why, "the traffic view has to explain it"


def given(recovery: Recovery, code: str, retry_after: float | None = None) -> Remedy | None:
    return recovery.remedy(failed(code, retry_after), has_checkpoint=False)


@pytest.mark.parametrize(
    ("code", "times"),
    [
        (BROKEN, 10),
        ("cursor_incomplete", 10),
        ("cursor_unavailable", 3),
        ("cursor_poisoned", 3),
        ("cursor_blob_missing", 3),
        ("cursor_unauthenticated", 1),
        (SILENT, 1),
        (STALLED, 1),
        (HTTP2_REFUSED, 1),
    ],
)
def test_retries_are_counted_as_the_official_client_counts_them(code: str, times: int) -> None:
    recovery = recovery_on()
    assert [given(recovery, code) is not None for _ in range(times + 2)] == [True] * times + [False] * 2


@pytest.mark.parametrize(("first", "second"), [(STALLED, SILENT), (SILENT, STALLED)])
def test_stalls_and_silence_cost_one_more_run_together(first: str, second: str) -> None:
    recovery = recovery_on()
    assert given(recovery, first) is not None
    assert given(recovery, second) is None


def test_errors_share_their_retries_and_lost_streams_have_their_own() -> None:
    recovery = recovery_on()
    codes = ["cursor_unavailable", BROKEN, "cursor_internal", "cursor_poisoned", "cursor_unavailable", BROKEN]
    assert [given(recovery, code) is not None for code in codes] == [True, True, True, True, False, True]


def test_no_retry_begins_long_after_the_first_failure() -> None:
    now = [100.0]
    recovery = recovery_on(clock=lambda: now[0])
    assert given(recovery, BROKEN) is not None
    now[0] += GIVE_UP_AFTER - FIRST_BACK_OFF * 2
    assert given(recovery, BROKEN) is not None
    now[0] += 1
    assert given(recovery, BROKEN) is None


def test_remedies_of_different_kinds_do_not_use_one_another_up() -> None:
    recovery = recovery_on("http1")
    codes = [
        "cursor_unauthenticated",
        "cursor_http1_refused",
        "cursor_blob_missing",
        STALLED,
        "cursor_poisoned",
        BROKEN,
    ]
    assert all(given(recovery, code) is not None for code in codes)


def test_each_retry_waits_longer_than_the_one_before_up_to_a_minute() -> None:
    recovery = recovery_on()
    waits = [remedy.wait for _ in range(MAX_RECONNECTS) if (remedy := given(recovery, BROKEN))]
    assert waits == [2, 4, 8, 16, 32, 60, 60, 60, 60, 60]


def test_retries_of_many_clients_are_spread() -> None:
    remedy = given(Recovery("http2", jitter=lambda: 1.0), BROKEN)
    assert remedy is not None
    assert remedy.wait == pytest.approx(2.2)


def test_a_service_that_says_when_is_asked_then() -> None:
    remedy = given(recovery_on(), "cursor_busy", retry_after=3.0)
    assert remedy is not None
    assert remedy.wait == 3.0


def test_a_service_that_wants_to_be_left_alone_for_long_is_not_waited_for() -> None:
    assert given(recovery_on(), "cursor_busy", retry_after=LONGEST_WAIT + 1) is None


def test_a_transport_is_changed_only_away_from_the_one_in_use_and_never_back() -> None:
    recovery = recovery_on("http1")
    assert given(recovery, "cursor_http1_refused") is not None
    assert recovery.transport == "http2"
    assert given(recovery, HTTP2_REFUSED) is None
    assert recovery.transport == "http2"


@pytest.mark.parametrize(("transport", "code"), [("http1", "cursor_http1_refused"), ("http2", HTTP2_REFUSED)])
def test_a_transport_that_was_set_by_hand_is_never_changed(transport: Transport, code: str) -> None:
    recovery = recovery_on(transport, is_fixed=True)
    assert given(recovery, code) is None
    assert recovery.transport == transport


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
    remedy = recovery_on("http1").remedy(failure, has_checkpoint=False)
    assert (remedy is not None) == is_helped
