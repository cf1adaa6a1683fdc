"""One stateless HTTP API: its address, its codec and its limits."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from tieline.model.errors import NOT_RETRYABLE
from tieline.model.events import Event, Failed, Headers
from tieline.model.ports import ModelInfo
from tieline.model.request import Request
from tieline.net.client.http import HttpClient, Origin, Timeouts
from tieline.wire.shared.model_rows import read_models
from tieline.wire.shared.spelling import BuiltRequest, ToolNames

REPLY_LIMIT = 64 * 1024 * 1024
ERROR_LIMIT = 256 * 1024
FIRST_BACK_OFF = 0.5
"""Seconds before the first retry; doubled for each further retry."""
RETRIED = frozenset({408, 409, 429, 500, 502, 503, 504, 529})
"""HTTP statuses after which a request is retried."""

FORWARDED = ("retry-after", "retry-after-ms", "x-should-retry", "openai-processing-ms", "request-id")
FORWARDED_PREFIXES = (b"anthropic-ratelimit-", b"x-ratelimit-")


class Reader(Protocol):
    """Translates the bytes of a streamed answer into events."""

    @property
    def ended(self) -> bool: ...
    def feed(self, data: bytes) -> list[Event]: ...
    def close(self) -> list[Event]: ...


class MakeReader(Protocol):
    """Creates the reader for a streamed answer."""

    def __call__(self, tool_names: ToolNames, *, fallback_id: str, model: str, keep_source: bool) -> Reader: ...


class ReadReply(Protocol):
    """Translates the body of an answer that does not stream into events."""

    def __call__(
        self, body: bytes, tool_names: ToolNames, *, fallback_id: str, model: str, keep_source: bool
    ) -> list[Event]: ...


@dataclass(frozen=True, slots=True)
class Codec:
    """The client role of a protocol, configured for one upstream."""

    protocol: str
    headers: Headers = field(repr=False)
    """The headers of every request. They may contain an API key."""
    build: Callable[[Request], BuiltRequest]
    reader: MakeReader
    read_reply: ReadReply
    read_error: Callable[[int, bytes, Headers], Failed]
    recover: Callable[[BuiltRequest, Failed], BuiltRequest | None] | None = None
    """Returns a request without what the upstream rejected, if it can be sent without; None for any other failure. A
    request that it returned is not changed again for the same failure."""
    client_headers: Callable[[Request], Headers] | None = None
    """Returns the headers to forward from a client that uses the same protocol; None if no headers are forwarded."""
    read_models: Callable[[bytes], list[ModelInfo]] = read_models

    def headers_for(self, request: Request) -> Headers:
        """Return the headers with which a request is sent to the upstream."""
        if self.client_headers is None or request.protocol != self.protocol:
            return self.headers
        return (*self.headers, *self.client_headers(request))


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often a request is retried, and the longest wait before a retry in seconds."""

    retries: int = 2
    longest_wait: float = 20.0

    def delay(self, failed: Failed, attempts: int) -> float | None:
        """Return how many seconds to wait after this many failed attempts, or None if the failure is final."""
        if failed.status not in RETRIED or failed.code == "upstream_timeout":
            return None
        if attempts > self.retries or NOT_RETRYABLE in failed.headers:
            return None
        delay: float = FIRST_BACK_OFF * 2 ** (attempts - 1) if failed.retry_after is None else failed.retry_after
        return delay if delay <= self.longest_wait else None


class ForwardedHeaders(dict[bytes, str]):
    """Maps the name of an upstream's header to the name under which clients receive it; "" if they do not receive it.

    Clients receive the request id under the same name for all upstreams. The result for a name that is not in FORWARDED
    is cached.
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


@dataclass(slots=True)
class Substitute:
    """Another API of the same server, which is used if the first one does not exist there."""

    upstream: "Upstream"
    is_used: bool = False


@dataclass(frozen=True, slots=True)
class Upstream:
    """A stateless API: its address, its codec, and the limits for requests to it."""

    name: str
    client: HttpClient
    origin: Origin
    path: str
    codec: Codec
    new_id: Callable[[], str]
    timeouts: Timeouts
    retry_policy: RetryPolicy
    key_source: str = ""
    """The variable or file that contains the upstream's key, for error messages. Empty if there is no key."""
    forwarded: ForwardedHeaders = field(default_factory=ForwardedHeaders)
    substitute: Substitute | None = None

    @property
    def current(self) -> "Upstream":
        """This API, or its substitute if this one turned out not to exist."""
        return self if self.substitute is None or not self.substitute.is_used else self.substitute.upstream
