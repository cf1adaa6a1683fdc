"""The headers that a Cursor client sends with each kind of API call, including an optional checksum.

There are two profiles: Cursor's terminal CLI, which is the default, and its SDK. The service raises the minimum client
version from time to time, so the version is a setting.
"""

import base64
import hashlib
import re
from collections.abc import Iterable, Sequence
from typing import Literal

from tieline.model.content import Value

Headers = tuple[tuple[str, str], ...]
Transport = Literal["http2", "http1"]

USER_AGENT = "connect-es/1.6.1"
CLI_VERSION = "cli-2026.10.01-e373342"
SDK_VERSION = "sdk-1.0.32"
APPEND_TIMEOUT_MS = 60_000
HALF_HOUR_MS = 30 * 60 * 1000

_NO_TRACE = "00-00000000000000000000000000000000-0000000000000000-00"
_NOT_PRIVATE = frozenset((3, 4))


def _check(*values: str) -> None:
    if not all(value.isascii() and value.isprintable() for value in values):
        raise ValueError("a header can carry printable ASCII characters only")


class Checksum(Value):
    """Settings for the `x-cursor-checksum` header.

    With the style `editor`, the checksum is computed from machine ids, as in Cursor's editor. If `machine_id` is empty,
    the machine ids are derived from the token. With the style `token`, the checksum is computed from the token alone.
    """

    style: Literal["editor", "token"] = "editor"
    machine_id: str = ""
    mac_machine_id: str = ""

    def __post_init__(self) -> None:
        _check(self.machine_id, self.mac_machine_id)

    def __repr__(self) -> str:
        return f"Checksum(style={self.style!r})"


class Identity(Value):
    """The values by which a client identifies itself to the service.

    `ghost_mode` is Cursor's privacy mode; None means unknown and counts as private. If `timezone` is None, as for the
    CLI, no time zone is sent. `started_ms` is the start time of the program in milliseconds since 1970; only the
    checksum uses it.
    """

    client_type: str = "cli"
    client_version: str = CLI_VERSION
    user_agent: str = USER_AGENT
    ghost_mode: bool | None = None
    checksum: Checksum | None = None
    timezone: str | None = None
    started_ms: int = 0

    def __post_init__(self) -> None:
        _check(self.client_type, self.client_version, self.user_agent, self.timezone or "")


CLI = Identity()
SDK = Identity(client_type="sdk", client_version=SDK_VERSION)


def run_headers(
    identity: Identity,
    token: str,
    request_id: str,
    original_request_id: str,
    transport: Transport,
    *,
    now_ms: int | None = None,
    blob_key: str | None = None,
    allowed_tools: Sequence[str] | None = None,
    excluded_tools: Sequence[str] = (),
) -> Headers:
    """Return the headers for a call to Run (over HTTP/2) or RunSSE (over HTTP/1.1).

    `original_request_id` is the request id of the first attempt. `blob_key` is an encryption key for blobs, 64 hex
    digits that stay the same for a whole conversation. `allowed_tools` and `excluded_tools` are names of Cursor's own
    tools, such as `read_tool_call`; an empty `allowed_tools` forbids all of them, None allows all. The checksum is
    computed for the time `now_ms`, which defaults to the start time of the program.
    """
    return _sorted(
        *_who(identity, token, transport, now_ms),
        *_attempt(request_id, original_request_id, blob_key),
        *_tools(allowed_tools, excluded_tools),
        ("content-type", "application/connect+proto"),
        ("connect-accept-encoding", "gzip"),
    )


def append_headers(
    identity: Identity,
    token: str,
    request_id: str,
    original_request_id: str,
    *,
    now_ms: int | None = None,
    blob_key: str | None = None,
    allowed_tools: Sequence[str] | None = None,
    excluded_tools: Sequence[str] = (),
    timeout_ms: int = APPEND_TIMEOUT_MS,
) -> Headers:
    """Return the headers for BidiAppend, the unary call that sends a client message to a RunSSE stream.

    Pass the values that were passed to `run_headers` for that stream.
    """
    return _sorted(
        *_who(identity, token, "http1", now_ms),
        *_attempt(request_id, original_request_id, blob_key),
        *_tools(allowed_tools, excluded_tools),
        ("content-type", "application/proto"),
        ("accept-encoding", "gzip"),
        ("connect-timeout-ms", str(timeout_ms)),
    )


def unary_headers(
    identity: Identity,
    token: str,
    request_id: str,
    transport: Transport = "http1",
    *,
    now_ms: int | None = None,
    content_type: str = "application/proto",
) -> Headers:
    """Return the headers for any other unary call, such as listing the models."""
    return _sorted(
        *_who(identity, token, transport, now_ms),
        ("x-request-id", request_id),
        ("content-type", content_type),
        # The HTTP/1.1 client decompresses gzip; the HTTP/2 client does not.
        *([("accept-encoding", "gzip")] if transport == "http1" else ()),
    )


def newest_version(names: Iterable[str]) -> str:
    """Return the newest installed version of the CLI, or `CLI_VERSION` if it is newer than all of them.

    `names` are directory names; each directory contains one installed version. Names that are not versions are ignored.
    """
    found = [f"cli-{name}" for name in names if _VERSION.fullmatch(name)]
    return max([CLI_VERSION, *found])


_VERSION = re.compile(r"20\d\d\.\d\d\.\d\d-[0-9a-f]{7,12}")


def is_ghost(privacy_mode: int | None) -> bool:
    """Return the value of `x-ghost-mode` for an account's privacy mode. An unknown mode counts as private."""
    return privacy_mode not in _NOT_PRIVATE


def checksum(settings: Checksum, token: str, now_ms: int) -> str:
    """Return the value of `x-cursor-checksum` for the time `now_ms`. Cursor's editor computes it once, at startup."""
    if settings.style == "token":
        moment = now_ms - now_ms % HALF_HOUR_MS
        payload = [*token.split("."), token][1]
        return f"{stamp(moment // 1_000_000, is_wrapped=False)}{_digest(payload)[:8]}/{_digest(token)[:8]}"
    machine, mac = settings.machine_id, settings.mac_machine_id
    if not machine:
        machine, mac = _digest(token + "machineId"), _digest(token + "macMachineId")
    return stamp(now_ms // 1_000_000, is_wrapped=True) + (f"{machine}/{mac}" if mac else machine)


def stamp(moment: int, *, is_wrapped: bool) -> str:
    """Encode `moment`, a time in units of 1000 seconds, as eight base64 characters.

    If `is_wrapped` is true, the first two bytes repeat the last two, as in Cursor's editor, where JavaScript's 32-bit
    shifts wrap around. Other clients encode all six bytes of the number.
    """
    raw = (moment & 0xFFFF_FFFF_FFFF).to_bytes(6, "big")
    if is_wrapped:
        return base64.b64encode(obfuscated(raw[4:6] + raw[2:6])).decode("ascii")
    return base64.urlsafe_b64encode(obfuscated(raw)).decode("ascii")


def obfuscated(raw: bytes) -> bytes:
    """Obfuscate the bytes as Cursor's clients do: each output byte depends on the one before it."""
    mixed = bytearray()
    last = 165
    for index, byte in enumerate(raw):
        last = ((byte ^ last) + index) & 255
        mixed.append(last)
    return bytes(mixed)


def _who(identity: Identity, token: str, transport: Transport, now_ms: int | None) -> list[tuple[str, str]]:
    is_private = identity.ghost_mode is not False
    fields = [
        ("authorization", f"Bearer {token}"),
        ("connect-protocol-version", "1"),
        ("user-agent", identity.user_agent),
        ("x-cursor-client-type", identity.client_type),
        ("x-cursor-client-version", identity.client_version),
        ("x-ghost-mode", "true" if is_private else "false"),
    ]
    if transport == "http1":
        fields.append(("x-cursor-streaming", "true"))
    if identity.checksum is not None:
        moment = identity.started_ms if now_ms is None else now_ms
        fields.append(("x-cursor-checksum", checksum(identity.checksum, token, moment)))
    if identity.timezone:
        fields.append(("x-cursor-timezone", identity.timezone))
    return fields


def _attempt(request_id: str, original_request_id: str, blob_key: str | None) -> list[tuple[str, str]]:
    fields = [("x-request-id", request_id), ("x-original-request-id", original_request_id)]
    if blob_key:
        fields.append(("x-blob-encryption-key", blob_key))
    return [*fields, ("traceparent", _NO_TRACE), ("backend-traceparent", _NO_TRACE)]


def _tools(allowed: Sequence[str] | None, excluded: Sequence[str]) -> list[tuple[str, str]]:
    fields = [] if allowed is None else [("x-cursor-agent-allowed-tools", ",".join(allowed))]
    return [*fields, ("x-cursor-agent-exclude-tools", ",".join(excluded))] if excluded else fields


def _sorted(*fields: tuple[str, str]) -> Headers:
    return tuple(sorted(fields))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
