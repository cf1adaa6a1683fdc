"""What goes wrong at Cursor, told apart: by number, words, code, trailers and status."""

import json
from base64 import b64encode
from typing import Any, NamedTuple

import pytest

from tests.cases import STATUSES
from tests.each import each
from tieline.model.events import ErrorKind, Failed
from tieline.wire.cursor._pb import aiserver_pb2 as aiserver
from tieline.wire.cursor.error_codes import BY_CODE, BY_ERROR, BY_NAME
from tieline.wire.cursor.errors import (
    incomplete,
    is_retryable,
    read_end,
    read_status,
    read_strays,
    read_trailers,
    trailer_lines,
)

OUTDATED = (
    "CBwSlQEKD1VwZGF0ZSBSZXF1aXJlZBJ3WW91ciB2ZXJzaW9uIG9mIEN1cnNvciBpcyBubyBsb25nZXIgc3VwcG9ydGVkLiBQbGVhc2UgdXBkYXRl"
    "IHRvIHRoZSBsYXRlc3QgdmVyc2lvbiBhdCBjdXJzb3IuY29tL2Rvd25sb2FkcyB0byBjb250aW51ZS5SCQoHcGF5bWVudBgB"
)
"""Published: the details of a real error."""


def details(number: int, title: str = "", detail: str = "", is_retryable: bool | None = None) -> str:
    """The details of an error, without their padding as they may come."""
    made = aiserver.ErrorDetails(error=number, is_expected=True)
    made.details.title = title
    made.details.detail = detail
    if is_retryable is not None:
        made.details.is_retryable = is_retryable
    return b64encode(made.SerializeToString()).decode().rstrip("=")


def end(code: str, message: str = "Error", value: str | None = None, debug: Any = None) -> bytes:
    error: dict[str, Any] = {"code": code, "message": message}
    if value is not None or debug is not None:
        detail = {"type": "aiserver.v1.ErrorDetails", "value": value, "debug": debug}
        error["details"] = [{name: item for name, item in detail.items() if item is not None}]
    return json.dumps({"error": error}).encode()


def failed(payload: bytes, **known: bool) -> Failed:
    read = read_end(payload, **known)
    assert read is not None
    return read


class Case(NamedTuple):
    payload: bytes
    kind: ErrorKind
    code: str
    retry: bool


CASES = {
    "outdated client": Case(end("resource_exhausted", value=OUTDATED), "bad_request", "cursor_outdated_client", False),
    "outdated client by its own number": Case(
        end("resource_exhausted", value=details(30)), "bad_request", "cursor_outdated_client", False
    ),
    "outdated client in words only": Case(
        end("resource_exhausted", "Update Required"), "bad_request", "cursor_outdated_client", False
    ),
    "the number of outdated clients used for a limit": Case(
        end("resource_exhausted", value=details(28, "Slow down")), "rate_limited", "cursor_rate_limited", False
    ),
    "free plan used up": Case(
        end("resource_exhausted", value="CAkSHgoKRnJlZSBsaW1pdBIOVXBncmFkZSB0byBQcm8gABgB"),
        "billing",
        "cursor_quota",
        False,
    ),
    "plan used up, in words only": Case(
        end("resource_exhausted", "You've hit your usage limit"), "billing", "cursor_quota", False
    ),
    "rate limit": Case(
        end("resource_exhausted", value="CDISGwoMUmF0ZSBsaW1pdGVkEglTbG93IGRvd24gARgB"),
        "rate_limited",
        "cursor_rate_limited",
        False,
    ),
    "conversation too long": Case(
        end("resource_exhausted", value=details(43, "Too long")), "bad_request", "context_length_exceeded", False
    ),
    "context overflow in words only": Case(
        end("invalid_argument", "prompt is too long: 250000 tokens"), "bad_request", "context_length_exceeded", False
    ),
    "a tool the provider refuses": Case(
        end("resource_exhausted", value=details(57, "Provider Error")), "bad_request", "cursor_bad_tools", False
    ),
    "a schema without a value": Case(
        end("internal", "google.protobuf.Value must have a value"), "bad_request", "cursor_bad_tools", False
    ),
    "no reason at all": Case(end("resource_exhausted"), "upstream", "cursor_poisoned", True),
    "no reason but a number": Case(end("resource_exhausted", value=details(41)), "upstream", "cursor_poisoned", True),
    "exhausted with a reason": Case(
        end("resource_exhausted", "The pool is empty"), "rate_limited", "cursor_exhausted", True
    ),
    "blob not found": Case(end("internal", "Blob not found"), "upstream", "cursor_blob_missing", True),
    "conversation data missing": Case(
        end("internal", "Conversation data missing"), "upstream", "cursor_blob_missing", True
    ),
    "bad model": Case(
        end("not_found", value="CAUSHAoJQmFkIG1vZGVsEg1ubyBzdWNoIG1vZGVsIAAYAQ"), "not_found", "model_not_found", False
    ),
    "model blocked": Case(end("permission_denied", value=details(58)), "forbidden", "cursor_model_blocked", False),
    "max mode": Case(end("invalid_argument", value=details(60)), "bad_request", "cursor_max_mode_required", False),
    "region": Case(end("permission_denied", value=details(64)), "forbidden", "cursor_region", False),
    "region in words only": Case(
        end("permission_denied", "This region is not available for your team"), "forbidden", "cursor_region", False
    ),
    "deprecated": Case(end("unimplemented", value=details(40)), "bad_request", "cursor_deprecated", False),
    "logged out": Case(end("unauthenticated", "not logged in"), "unauthorized", "cursor_unauthenticated", False),
    "token expired": Case(end("unauthenticated", value=details(12)), "unauthorized", "cursor_unauthenticated", False),
    "suspicious activity": Case(
        end("unauthenticated", value="CCYSLAoVVW5hdXRob3JpemVkIHJlcXVlc3QuEhNzdXNwaWNpb3VzIGFjdGl2aXR5GAE"),
        "forbidden",
        "cursor_blocked",
        False,
    ),
    "unauthorized without a reason": Case(
        end("unauthenticated", value=details(38)), "unauthorized", "cursor_unauthenticated", False
    ),
    "permission denied": Case(end("permission_denied", "no"), "forbidden", "cursor_forbidden", False),
    "image too large": Case(end("invalid_argument", value=details(31)), "too_large", "cursor_image_too_large", False),
    "system prompt refused": Case(
        end("invalid_argument", "unknown option '--system-prompt'"), "bad_request", "cursor_system_prompt", False
    ),
    "unavailable": Case(end("unavailable", "try again"), "overloaded", "cursor_unavailable", True),
    "provider error": Case(
        end("unavailable", value=details(57, "Provider Error")), "upstream", "cursor_provider_error", True
    ),
    "provider error, not to be tried again": Case(
        end("unavailable", value=details(57, "Provider Error", "upstream", False)), "upstream", "cursor_refused", False
    ),
    "bad request, to be tried again": Case(
        end("invalid_argument", value=details(36, "Oops", "", True)), "bad_request", "cursor_try_again", True
    ),
    "bad request": Case(end("invalid_argument", value=details(36, "Oops")), "bad_request", "cursor_refused", False),
    "rate limit, said to be worth trying": Case(
        end("resource_exhausted", value=details(50, "Wait", "", True)), "rate_limited", "cursor_rate_limited", False
    ),
    "internal by number": Case(end("internal", value=details(59)), "upstream", "cursor_internal", True),
    "deadline": Case(end("deadline_exceeded", "slow"), "timeout", "cursor_timeout", True),
    "invalid argument": Case(
        end("invalid_argument", "Conversation state is required"), "bad_request", "cursor_invalid_argument", True
    ),
    "not found": Case(end("not_found", "request id"), "not_found", "cursor_not_found", True),
    "cancelled by the user": Case(end("canceled", value=details(21)), "cancelled", "cursor_cancelled", False),
    "a code nobody knows": Case(end("out_of_cheese", "?"), "upstream", "cursor_internal", True),
    "a code as a number": Case(end(16, "x"), "unauthorized", "cursor_unauthenticated", False),  # type: ignore[arg-type]  # as some relays write it
    "an error of nothing": Case(b'{"error":{}}', "upstream", "cursor_internal", True),
    "no end at all": Case(b"", "upstream", "cursor_incomplete", True),
    "no object": Case(b"[]", "upstream", "cursor_incomplete", True),
    "no JSON": Case(b"\xff{", "upstream", "cursor_incomplete", True),
}


@each("name", CASES)
def test_an_end_frame_is_understood(name: str) -> None:
    case = CASES[name]
    got = failed(case.payload)
    assert (got.kind, got.code) == (case.kind, case.code)
    assert is_retryable(got) is case.retry
    assert got.status == STATUSES[got.kind]
    assert len(got.message) > 20


@pytest.mark.parametrize("payload", [b"{}", b'{"metadata":{"x-test":["1"]}}', b'{"error":null}'])
def test_a_good_end_is_no_error(payload: bytes) -> None:
    assert read_end(payload) is None


CODES: dict[str, tuple[ErrorKind, str]] = {
    "aborted": ("upstream", "cursor_internal"),
    "already_exists": ("upstream", "cursor_internal"),
    "canceled": ("upstream", "cursor_internal"),
    "data_loss": ("upstream", "cursor_internal"),
    "deadline_exceeded": ("timeout", "cursor_timeout"),
    "failed_precondition": ("bad_request", "cursor_invalid_argument"),
    "internal": ("upstream", "cursor_internal"),
    "invalid_argument": ("bad_request", "cursor_invalid_argument"),
    "not_found": ("not_found", "cursor_not_found"),
    "out_of_range": ("bad_request", "cursor_invalid_argument"),
    "permission_denied": ("forbidden", "cursor_forbidden"),
    "resource_exhausted": ("rate_limited", "cursor_exhausted"),
    "unauthenticated": ("unauthorized", "cursor_unauthenticated"),
    "unavailable": ("overloaded", "cursor_unavailable"),
    "unimplemented": ("upstream", "cursor_internal"),
    "unknown": ("upstream", "cursor_internal"),
}
"""What each code of Connect means when nothing but some words comes with it."""
NOT_RETRIED = ("permission_denied", "unauthenticated")


def test_every_code_of_connect_is_known() -> None:
    assert set(BY_CODE) == set(CODES)


@each("code", CODES)
def test_a_bare_code_is_tried_again_where_cursors_own_client_does(code: str) -> None:
    got = failed(end(code, "x"))
    assert (got.kind, got.code) == CODES[code]
    assert is_retryable(got) is (code not in NOT_RETRIED)
    assert is_retryable(failed(end(code))) is (code not in NOT_RETRIED)


@pytest.mark.parametrize("number", [5, 9, 28, 38, 50])
def test_these_numbers_are_not_tried_again(number: int) -> None:
    assert not is_retryable(failed(end("unavailable", value=details(number))))


NUMBERS: dict[int, tuple[str, ErrorKind, str]] = {
    1: ("BAD_API_KEY", "unauthorized", "cursor_unauthenticated"),
    2: ("NOT_LOGGED_IN", "unauthorized", "cursor_unauthenticated"),
    3: ("INVALID_AUTH_ID", "unauthorized", "cursor_unauthenticated"),
    4: ("NOT_HIGH_ENOUGH_PERMISSIONS", "forbidden", "cursor_forbidden"),
    5: ("BAD_MODEL_NAME", "not_found", "model_not_found"),
    6: ("USER_NOT_FOUND", "unauthorized", "cursor_unauthenticated"),
    7: ("FREE_USER_RATE_LIMIT_EXCEEDED", "rate_limited", "cursor_rate_limited"),
    8: ("PRO_USER_RATE_LIMIT_EXCEEDED", "rate_limited", "cursor_rate_limited"),
    9: ("FREE_USER_USAGE_LIMIT", "billing", "cursor_quota"),
    10: ("PRO_USER_USAGE_LIMIT", "billing", "cursor_quota"),
    11: ("AUTH_TOKEN_NOT_FOUND", "unauthorized", "cursor_unauthenticated"),
    12: ("AUTH_TOKEN_EXPIRED", "unauthorized", "cursor_unauthenticated"),
    13: ("OPENAI", "upstream", "cursor_provider_error"),
    14: ("OPENAI_RATE_LIMIT_EXCEEDED", "rate_limited", "cursor_rate_limited"),
    18: ("AGENT_REQUIRES_LOGIN", "unauthorized", "cursor_unauthenticated"),
    20: ("MAX_TOKENS", "bad_request", "context_length_exceeded"),
    21: ("USER_ABORTED_REQUEST", "cancelled", "cursor_cancelled"),
    22: ("GENERIC_RATE_LIMIT_EXCEEDED", "rate_limited", "cursor_rate_limited"),
    23: ("PRO_USER_ONLY", "billing", "cursor_plan"),
    25: ("TIMEOUT", "timeout", "cursor_timeout"),
    28: ("GPT_4_VISION_PREVIEW_RATE_LIMIT", "rate_limited", "cursor_rate_limited"),
    29: ("CUSTOM_MESSAGE", "bad_request", "cursor_refused"),
    30: ("OUTDATED_CLIENT", "bad_request", "cursor_outdated_client"),
    31: ("CLAUDE_IMAGE_TOO_LARGE", "too_large", "cursor_image_too_large"),
    33: ("FILE_NOT_FOUND", "bad_request", "cursor_refused"),
    34: ("API_KEY_RATE_LIMIT", "rate_limited", "cursor_rate_limited"),
    35: ("DEBOUNCED", "rate_limited", "cursor_rate_limited"),
    36: ("BAD_REQUEST", "bad_request", "cursor_refused"),
    38: ("UNAUTHORIZED", "unauthorized", "cursor_unauthenticated"),
    39: ("NOT_FOUND", "not_found", "cursor_not_found"),
    40: ("DEPRECATED", "bad_request", "cursor_deprecated"),
    41: ("RESOURCE_EXHAUSTED", "rate_limited", "cursor_exhausted"),
    42: ("BAD_USER_API_KEY", "unauthorized", "cursor_unauthenticated"),
    43: ("CONVERSATION_TOO_LONG", "bad_request", "context_length_exceeded"),
    44: ("USAGE_PRICING_REQUIRED", "billing", "cursor_quota"),
    45: ("USAGE_PRICING_REQUIRED_CHANGEABLE", "billing", "cursor_quota"),
    50: ("RATE_LIMITED", "rate_limited", "cursor_rate_limited"),
    51: ("RATE_LIMITED_CHANGEABLE", "rate_limited", "cursor_rate_limited"),
    52: ("CUSTOM", "bad_request", "cursor_refused"),
    53: ("HOOKS_BLOCKED", "forbidden", "cursor_forbidden"),
    54: ("SUSPICIOUS_USAGE_BLOCKED", "forbidden", "cursor_blocked"),
    56: ("NETWORK_ERROR", "upstream", "cursor_internal"),
    57: ("PROVIDER_ERROR", "upstream", "cursor_provider_error"),
    58: ("MODEL_BLOCKED", "forbidden", "cursor_model_blocked"),
    59: ("INTERNAL", "upstream", "cursor_internal"),
    60: ("MAX_MODE_REQUIRED", "bad_request", "cursor_max_mode_required"),
    61: ("MODEL_NO_LONGER_SUPPORTED", "not_found", "model_not_found"),
    62: ("PRICING_WARNING", "billing", "cursor_quota"),
    63: ("SLOW_POOL", "rate_limited", "cursor_rate_limited"),
    64: ("UNSUPPORTED_REGION", "forbidden", "cursor_region"),
}
"""The numbers in the details of an error, with their names and what they mean."""


def test_every_number_and_every_name_is_known() -> None:
    assert set(BY_ERROR) == set(NUMBERS)
    assert {name: number for number, (name, _, _) in NUMBERS.items()} == BY_NAME


@each("number", NUMBERS)
@each("code", ["resource_exhausted", "internal", "made_up"])
def test_a_number_means_the_same_under_any_code(number: int, code: str) -> None:
    got = failed(end(code, value=details(number, "Title", "Detail")))
    assert (got.kind, got.code) == NUMBERS[number][1:]
    assert got.message.startswith("Cursor: Title Detail. ")


def test_the_text_shown_is_title_and_detail_then_advice() -> None:
    got = failed(end("resource_exhausted", value=OUTDATED))
    assert got.message.startswith("Cursor: Update Required Your version of Cursor is no longer supported.")
    assert "client version" in got.message
    assert "not a rate limit" in got.message


@pytest.mark.parametrize("name", ["ERROR_BAD_MODEL_NAME", "BAD_MODEL_NAME", 5])
def test_the_form_for_people_does_where_the_binary_one_is_missing(name: str | int) -> None:
    debug = {"error": name, "details": {"title": "Bad model", "detail": "no such model"}}
    for value in (None, "", "!!!", "####"):
        got = failed(end("not_found", value=value, debug=debug))
        assert got.code == "model_not_found"
        assert got.message.startswith("Cursor: Bad model no such model. ")


def test_the_form_for_people_says_too_whether_to_try_again() -> None:
    debug = {"error": "ERROR_PROVIDER_ERROR", "details": {"title": "x", "isRetryable": False}}
    assert failed(end("unavailable", debug=debug)).code == "cursor_refused"


@pytest.mark.parametrize("debug", [{}, [], "x", {"error": {}}, {"details": 3}, {"error": "ERROR_NEW_ONE"}])
def test_details_that_say_nothing_leave_it_to_the_code(debug: Any) -> None:
    assert failed(end("unavailable", "gone", debug=debug)).code == "cursor_unavailable"


def test_details_of_another_type_are_left_alone() -> None:
    payload = {"error": {"code": "unavailable", "details": [{"type": "google.rpc.DebugInfo", "value": details(5)}]}}
    assert failed(json.dumps(payload).encode()).code == "cursor_unavailable"


@each("number", NUMBERS)
def test_a_name_means_what_its_number_means(number: int) -> None:
    name, *meant = NUMBERS[number]
    got = failed(end("made_up", debug={"error": name, "details": {"title": "Title", "detail": "Detail"}}))
    assert [got.kind, got.code] == meant


def test_a_refusal_without_a_reason_means_something_else_once_the_model_has_spoken() -> None:
    assert failed(end("resource_exhausted"), has_begun=True).code == "cursor_exhausted"
    assert failed(end("resource_exhausted"), has_begun=True).kind == "rate_limited"


def test_no_meaning_of_resource_exhausted_is_taken_for_another() -> None:
    names = [
        *("outdated client", "free plan used up", "rate limit", "conversation too long", "a tool the provider refuses"),
        *("no reason at all", "exhausted with a reason"),
    ]
    assert len({failed(CASES[name].payload).code for name in names}) == len(names)


def test_very_long_words_are_cut() -> None:
    assert len(failed(end("unavailable", "x" * 1_000_000)).message) < 4000


# ── Trailers ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("trailers", [(), (("grpc-status", "0"),), (("Grpc-Status", " 0 "), ("grpc-message", "x"))])
def test_good_trailers_are_no_error(trailers: tuple[tuple[str, str], ...]) -> None:
    assert read_trailers(trailers) is None


@pytest.mark.parametrize(
    ("status", "code"),
    [
        ("8", "cursor_exhausted"),
        ("16", "cursor_unauthenticated"),
        ("14", "cursor_unavailable"),
        ("99", "cursor_internal"),
    ],
)
def test_bad_trailers_are_an_error(status: str, code: str) -> None:
    got = read_trailers((("grpc-status", status), ("grpc-message", "It%20is%20gone")))
    assert got is not None
    assert got.code == code
    assert got.message.startswith("Cursor: It is gone. ")


def test_trailers_may_carry_details() -> None:
    rich = aiserver.RpcStatus(code=8, message="Error")
    inner = aiserver.ErrorDetails(error=9)
    inner.details.title = "Free limit"
    rich.details.add(type_url="type.googleapis.com/aiserver.v1.ErrorDetails", value=inner.SerializeToString())
    value = b64encode(rich.SerializeToString()).decode().rstrip("=")
    got = read_trailers((("grpc-status", "8"), ("grpc-message", "Error"), ("grpc-status-details-bin", value)))
    assert got is not None
    assert (got.code, got.kind) == ("cursor_quota", "billing")
    assert got.message.startswith("Cursor: Free limit. ")


@pytest.mark.parametrize("value", ["", "!!", b64encode(b"\xff\xff").decode(), b64encode(b"").decode()])
def test_unreadable_details_in_trailers_do_no_harm(value: str) -> None:
    got = read_trailers((("grpc-status", "14"), ("grpc-status-details-bin", value)))
    assert got is not None
    assert got.code == "cursor_unavailable"


@pytest.mark.parametrize(
    "payload", [b"grpc-status: 8\r\ngrpc-message: Error%20x\r\n", b"grpc-status:8\ngrpc-message:Error%20x"]
)
def test_the_text_of_a_trailer_frame_is_trailers(payload: bytes) -> None:
    assert dict(trailer_lines(payload)) == {"grpc-status": "8", "grpc-message": "Error%20x"}


@pytest.mark.parametrize("payload", [b"", b"\r\n", b"\xff\xfe", b"no colon"])
def test_a_trailer_frame_of_nonsense_is_no_error_by_itself(payload: bytes) -> None:
    assert read_trailers(trailer_lines(payload)) is None


# ── Statuses and strays ──────────────────────────────────────────────────────────────────────────


@each(
    ("status", "body", "kind", "code", "retry"),
    [
        (401, b"", "unauthorized", "cursor_unauthenticated", False),
        (401, b'{"code":"unauthenticated","message":"Error"}', "unauthorized", "cursor_unauthenticated", False),
        (403, b"", "forbidden", "cursor_forbidden", False),
        (415, b"", "upstream", "cursor_content_type", True),
        (429, b"", "rate_limited", "cursor_busy", True),
        (464, b"", "upstream", "cursor_http1_refused", True),
        (500, b"", "upstream", "cursor_internal", True),
        (502, b"<html><title>Bad gateway</title></html>", "overloaded", "cursor_unavailable", True),
        (503, b"", "overloaded", "cursor_unavailable", True),
        (504, b"", "timeout", "cursor_timeout", True),
        (404, b"nope", "not_found", "cursor_refused", False),
        (418, b"", "bad_request", "cursor_refused", False),
        (500, b'{"code":"internal","message":"Blob not found"}', "upstream", "cursor_blob_missing", True),
        (400, b'{"code":"invalid_argument","message":"what"}', "bad_request", "cursor_invalid_argument", True),
        (200, b"This region is not available for your team", "forbidden", "cursor_region", False),
        (429, end("resource_exhausted", value=OUTDATED), "bad_request", "cursor_outdated_client", False),
    ],
)
def test_a_status_is_understood(status: int, body: bytes, kind: str, code: str, retry: bool) -> None:
    got = read_status(status, body)
    assert (got.kind, got.code, is_retryable(got)) == (kind, code, retry)
    assert got.status >= 400
    assert "<" not in got.message


def test_the_status_stays_where_it_fits_the_kind() -> None:
    assert read_status(418, b"").status == 418
    assert read_status(464, b"").status == 502
    assert read_status(415, b"").status == 502


def test_the_wait_that_is_asked_for_is_passed_on() -> None:
    assert read_status(429, b"", (("Retry-After", "7"),)).retry_after == 7


def test_a_page_of_binary_is_not_shown() -> None:
    assert "\0" not in read_status(500, bytes(range(256))).message


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"This region is not available for your team", "cursor_region"),
        (b'{"code":"unauthenticated","message":"no"}', "cursor_unauthenticated"),
        (b"<html><title>Proxy</title></html>", "cursor_unreadable"),
        (b"\x00\xff\xff\xff\xff", "cursor_unreadable"),
        (b"", "cursor_unreadable"),
    ],
)
def test_bytes_where_frames_should_be_are_understood(data: bytes, code: str) -> None:
    assert read_strays(data).code == code


def test_an_incomplete_answer_says_how() -> None:
    got = incomplete("the stream broke off")
    assert got.message == "Cursor's answer ended before the turn did: the stream broke off."
    assert is_retryable(got)


@each("name", CASES)
def test_advice_is_more_than_the_error(name: str) -> None:
    """Ours: a person should know what to do, so something follows what the service says itself."""
    message = failed(CASES[name].payload).message
    assert message.rstrip().endswith((".", "worse.")), message
    assert "{" not in message
