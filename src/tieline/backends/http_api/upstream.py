"""One stateless HTTP API: its address, its codec and its limits."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from tieline.model.errors import NOT_RETRYABLE
from tieline.model.events import Event, Failed, Headers
from tieline.model.request import Request
from tieline.net.client.http import HttpClient, Origin, Timeouts
from tieline.wire.shared.spelling import BuiltRequest, ToolNames

REPLY_LIMIT = 64 * 1024 * 1024
ERROR_LIMIT = 256 * 1024
FIRST_BACK_OFF = 0.5
"""Seconds before the first retry; doubled for each further retry."""
RETRIED = frozenset({408, 409, 429, 500, 502, 503, 504, 529})
"""Statuses after which a request is retried."""

FORWARDED = ("retry-after", "retry-after-ms", "x-should-retry", "openai-processing-ms", "request-id")
FORWARDED_PREFIXES = (b"anthropic-ratelimit-", b"x-ratelimit-")


class Reader(Protocol):
    """Reads the bytes of a streamed answer into events."""

    @property
    def ended(self) -> bool: ...
    def feed(self, data: bytes) -> list[Event]: ...
    def close(self) -> list[Event]: ...


class MakeReader(Protocol):
    """Creates the reader of a streamed answer."""

    def __call__(self, tool_names: ToolNames, *, fallback_id: str, model: str, keep_source: bool) -> Reader: ...


class ReadReply(Protocol):
    """Reads an answer that did not stream."""

    def __call__(
        self, body: bytes, tool_names: ToolNames, *, fallback_id: str, model: str, keep_source: bool
    ) -> list[Event]: ...


@dataclass(frozen=True, slots=True)
class Codec:
    """The client role of a protocol, configured for one upstream."""

    protocol: str
    headers: Headers = field(repr=False)
    """The headers of every request; they may contain a key."""
    build: Callable[[Request], BuiltRequest]
    reader: MakeReader
    read_reply: ReadReply
    read_error: Callable[[int, bytes, Headers], Failed]
    client_headers: Callable[[Request], Headers] | None = None
    """Returns the headers of a client of the same protocol that are forwarded; None if no header is."""

    def headers_for(self, request: Request) -> Headers:
        """Return the headers of one request."""
        if self.client_headers is None or request.protocol != self.protocol:
            return self.headers
        return (*self.headers, *self.client_headers(request))


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often a request is retried, and the longest wait before a retry in seconds."""

    retries: int = 2
    longest_wait: float = 20.0

    def delay(self, failed: Failed, attempts: int) -> float | None:
        """Return the seconds to wait after this many attempts, or None if the failure is final."""
        if failed.status not in RETRIED or failed.code == "upstream_timeout":
            return None
        if attempts > self.retries or NOT_RETRYABLE in failed.headers:
            return None
        delay: float = FIRST_BACK_OFF * 2 ** (attempts - 1) if failed.retry_after is None else failed.retry_after
        return delay if delay <= self.longest_wait else None


class ForwardedHeaders(dict[bytes, str]):
    """Maps a header of an upstream to the name under which clients receive it, or to "" if they do not.

    The request id gets one name for all upstreams. Names that are not in FORWARDED are looked up once and remembered.
    """

    MAX_NAMES = 1000

    def __init__(self) -> None:
        super().__init__({name.encode(): name for name in FORWARDED})
        self[b"x-request-id"] = "request-id"

    def __missing__(self, name: bytes) -> str:
        forwarded = name.decode("latin-1") if name.startswith(FORWARDED_PREFIXES) else ""
        if len(self) < self.MAX_NAMES:
            self[name] = forwarded
        return forwarded


@dataclass(frozen=True, slots=True)
class Upstream:
    """Where a stateless API is and how it is reached."""

    name: str
    client: HttpClient
    origin: Origin
    path: str
    codec: Codec
    new_id: Callable[[], str]
    timeouts: Timeouts
    retry_policy: RetryPolicy
    key_source: str = ""
    """The variable or file that contains its key, for error messages; empty if it has no key."""
    forwarded: ForwardedHeaders = field(default_factory=ForwardedHeaders)
