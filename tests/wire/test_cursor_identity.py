"""What a Cursor client says of itself on each kind of call, and the checksum some clients send."""

import msgspec
import pytest

from tieline.wire.cursor.identity import (
    CLI,
    CLI_VERSION,
    SDK,
    Checksum,
    Identity,
    append_headers,
    checksum,
    is_ghost,
    newest_version,
    obfuscated,
    run_headers,
    stamp,
    unary_headers,
)

NO_TRACE = "00-00000000000000000000000000000000-0000000000000000-00"
BLOB_KEY = "d7" * 32
CAPTURED_MS = 1_783_609_000_000
"""A moment whose stamp was seen in the field."""

MACHINE = "1" * 64
MAC = "2" * 64

SDK_RUN = {
    "authorization": "Bearer T",
    "backend-traceparent": NO_TRACE,
    "connect-accept-encoding": "gzip",
    "connect-protocol-version": "1",
    "content-type": "application/connect+proto",
    "traceparent": NO_TRACE,
    "user-agent": "connect-es/1.6.1",
    "x-blob-encryption-key": BLOB_KEY,
    "x-cursor-client-type": "sdk",
    "x-cursor-client-version": "sdk-1.0.32",
    "x-ghost-mode": "true",
    "x-original-request-id": "first",
    "x-request-id": "second",
}
"""What Cursor's SDK sends with Run, but for the compression we do not understand."""


def test_the_sdk_profile_is_what_the_sdk_sends_on_a_two_way_stream() -> None:
    headers = run_headers(SDK, "T", "second", "first", "http2", blob_key=BLOB_KEY)
    assert headers == tuple(sorted(SDK_RUN.items()))


def test_the_sdk_profile_marks_a_one_way_stream_as_streaming() -> None:
    headers = run_headers(SDK, "T", "second", "first", "http1", blob_key=BLOB_KEY)
    assert dict(headers) == {**SDK_RUN, "x-cursor-streaming": "true"}


def test_an_append_of_the_sdk_is_a_unary_call_of_its_run() -> None:
    headers = dict(append_headers(SDK, "T", "second", "first", blob_key=BLOB_KEY))
    expected = {**SDK_RUN, "x-cursor-streaming": "true", "content-type": "application/proto"}
    del expected["connect-accept-encoding"]
    assert headers == {**expected, "accept-encoding": "gzip", "connect-timeout-ms": "60000"}


@pytest.mark.parametrize(
    ("transport", "extra"),
    [("http1", {"x-cursor-streaming": "true", "accept-encoding": "gzip"}), ("http2", {})],
)
def test_a_unary_call_of_the_sdk_carries_neither_traces_nor_the_first_request_id(
    transport: str, extra: dict[str, str]
) -> None:
    headers = dict(unary_headers(SDK, "T", "r", "http1" if transport == "http1" else "http2"))
    assert headers == {
        "authorization": "Bearer T",
        "connect-protocol-version": "1",
        "content-type": "application/proto",
        "user-agent": "connect-es/1.6.1",
        "x-cursor-client-type": "sdk",
        "x-cursor-client-version": "sdk-1.0.32",
        "x-ghost-mode": "true",
        "x-request-id": "r",
        **extra,
    }


def test_the_cli_profile_is_that_of_the_sdk_under_another_name() -> None:
    assert dict(run_headers(CLI, "T", "r", "r", "http2")) == {
        "authorization": "Bearer T",
        "connect-accept-encoding": "gzip",
        "connect-protocol-version": "1",
        "content-type": "application/connect+proto",
        "backend-traceparent": NO_TRACE,
        "traceparent": NO_TRACE,
        "user-agent": "connect-es/1.6.1",
        "x-cursor-client-type": "cli",
        "x-cursor-client-version": CLI_VERSION,
        "x-ghost-mode": "true",
        "x-original-request-id": "r",
        "x-request-id": "r",
    }


def test_connection_fields_stay_out_of_http1() -> None:
    assert "te" not in dict(run_headers(CLI, "T", "r", "r", "http1"))


@pytest.mark.parametrize(("setting", "sent"), [(None, "true"), (True, "true"), (False, "false")])
def test_ghost_mode_is_on_unless_it_is_known_to_be_off(setting: bool | None, sent: str) -> None:
    assert dict(unary_headers(Identity(ghost_mode=setting), "T", "r"))["x-ghost-mode"] == sent


@pytest.mark.parametrize(
    ("privacy_mode", "ghost"), [(None, True), (0, True), (1, True), (2, True), (3, False), (4, False), (99, True)]
)
def test_the_privacy_mode_of_an_account_decides_ghost_mode(privacy_mode: int | None, ghost: bool) -> None:
    """Seen in the SDK for the answers 0 to 4 and for no answer; a new number is private: ours."""
    assert is_ghost(privacy_mode) is ghost


def test_tool_limits_are_headers_and_none_at_all_is_an_empty_one() -> None:
    limited = dict(
        run_headers(
            SDK, "T", "r", "r", "http1", allowed_tools=["read_tool_call", "mcp_tool_call"], excluded_tools=["x"]
        )
    )
    assert limited["x-cursor-agent-allowed-tools"] == "read_tool_call,mcp_tool_call"
    assert limited["x-cursor-agent-exclude-tools"] == "x"
    barred = dict(append_headers(SDK, "T", "r", "r", allowed_tools=[]))
    assert barred["x-cursor-agent-allowed-tools"] == ""
    assert "x-cursor-agent-exclude-tools" not in barred
    assert "x-cursor-agent-allowed-tools" not in dict(run_headers(SDK, "T", "r", "r", "http1"))


def test_a_time_zone_is_sent_when_it_is_set() -> None:
    assert dict(unary_headers(Identity(timezone="Europe/Vienna"), "T", "r"))["x-cursor-timezone"] == "Europe/Vienna"
    assert "x-cursor-timezone" not in dict(unary_headers(CLI, "T", "r"))


def test_all_names_are_in_lower_case_and_occur_once() -> None:
    identity = Identity(checksum=Checksum(), timezone="UTC")
    for headers in (
        run_headers(identity, "T", "r", "r", "http1", blob_key=BLOB_KEY, allowed_tools=["a"]),
        append_headers(identity, "T", "r", "r", blob_key=BLOB_KEY, allowed_tools=["a"]),
        unary_headers(identity, "T", "r"),
    ):
        names = [name for name, _ in headers]
        assert names == sorted({name.lower() for name in names})


# ── the checksum ──


def test_bytes_are_mixed_with_the_ones_before_them() -> None:
    """Published vector."""
    assert list(obfuscated(bytes((0, 0, 0, 0, 0, 1)))) == [165, 166, 168, 171, 175, 179]


@pytest.mark.parametrize(
    ("is_wrapped", "expected"),
    [(True, "kqyuuJOv"), (False, "paaotoXB")],
    ids=["seen from the editor", "derived"],
)
def test_a_moment_is_stamped_in_both_forms(is_wrapped: bool, expected: str) -> None:
    assert stamp(1_783_609, is_wrapped=is_wrapped) == expected


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (Checksum(machine_id=MACHINE), f"kqyuuJOv{MACHINE}"),
        (Checksum(machine_id=MACHINE, mac_machine_id=MAC), f"kqyuuJOv{MACHINE}/{MAC}"),
    ],
    ids=["one id", "two ids"],
)
def test_the_editors_checksum_is_the_stamp_and_the_ids_of_the_machine(settings: Checksum, expected: str) -> None:
    assert checksum(settings, "T", CAPTURED_MS) == expected
    assert checksum(settings, "other", CAPTURED_MS + 999_999) == expected


def test_without_a_machine_id_the_ids_come_from_the_token() -> None:
    """The digests are those of `TmachineId` and `TmacMachineId`, made with another program."""
    assert checksum(Checksum(), "T", CAPTURED_MS) == (
        "kqyuuJOv"
        "191ac7cbe8031466b871709ee871f529412819b520e52adaec032f0d8dac6c1c/"
        "df659229a6bfc0d3060b3939407496bac66d2a0b31d06266c8d9ab7dcb3de0e4"
    )


@pytest.mark.parametrize("now_ms", [1_794_771_000_000, 1_794_772_799_999])
def test_the_tokens_checksum_changes_every_half_hour(now_ms: int) -> None:
    """The stamp was seen from a public client; the digests of `payload` and of the token are another program's."""
    assert checksum(Checksum(style="token"), "head.payload.sign", now_ms) == "paaottgQ239f59ed/b50b9bb5"
    assert not checksum(Checksum(style="token"), "head.payload.sign", 1_794_772_800_000).startswith("paaottgQ")


def test_a_token_without_a_payload_has_a_checksum_too() -> None:
    whole = checksum(Checksum(style="token"), "opaque", 0)[8:]
    assert whole.split("/") == ["6d229884", "6d229884"]


def test_the_checksum_is_sent_only_when_asked_for_and_made_for_the_start_of_the_program() -> None:
    assert "x-cursor-checksum" not in dict(run_headers(CLI, "T", "r", "r", "http1"))
    identity = Identity(checksum=Checksum(machine_id=MACHINE), started_ms=CAPTURED_MS)
    assert dict(append_headers(identity, "T", "r", "r"))["x-cursor-checksum"] == f"kqyuuJOv{MACHINE}"
    later = dict(unary_headers(identity, "T", "r", now_ms=CAPTURED_MS + 10_000_000_000))["x-cursor-checksum"]
    assert later.endswith(MACHINE)
    assert not later.startswith("kqyuuJOv")


def test_the_ids_of_the_machine_are_not_shown() -> None:
    identity = Identity(checksum=Checksum(machine_id=MACHINE, mac_machine_id=MAC))
    assert MACHINE not in repr(identity)
    assert MAC not in repr(identity)


@pytest.mark.parametrize("field", ["client_type", "client_version", "user_agent", "timezone"])
def test_what_no_header_can_carry_is_refused_when_it_is_set(field: str) -> None:
    with pytest.raises(msgspec.ValidationError, match="printable ASCII"):
        msgspec.convert({field: "x\r\ny: z"}, Identity)


@pytest.mark.parametrize(
    ("installed", "version"),
    [
        ([], CLI_VERSION),
        (["2025.01.01-abcdef0"], CLI_VERSION),
        (["2026.10.01-e373342", "2027.02.03-0123abc", "2026.12.31-fffffff"], "cli-2027.02.03-0123abc"),
        (["current", ".tmp", "2099.01.01-x\ny", "9999"], CLI_VERSION),
    ],
    ids=["none", "an old one", "several", "other files"],
)
def test_the_version_is_that_of_the_newest_installed_cli(installed: list[str], version: str) -> None:
    assert newest_version(installed) == version
