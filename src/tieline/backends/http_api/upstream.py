"""One HTTP API: its address, its codec and its limits."""

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
"""Seconds to wait before the first retry. The delay is doubled for each further retry."""
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
    """Translates the body of an answer that is not streamed into events."""

    def __call__(
        self, body: bytes, tool_names: ToolNames, *, fallback_id: str, model: str, keep_source: bool
    ) -> list[Event]: ...


@dataclass(frozen=True, slots=True)
class Codec:
    """The client side of a protocol, configured for one upstream: builds requests and reads answers."""

    protocol: str
    headers: Headers = field(repr=False)
    """The headers to send with every request. They may contain an API key."""
    build: Callable[[Request], BuiltRequest]
    reader: MakeReader
    read_reply: ReadReply
    read_error: Callable[[int, bytes, Headers], Failed]
    recover: Callable[[Request, BuiltRequest, Failed], BuiltRequest | None] | None = None
    """Called with a request, the form in which it was sent, and the failure. If the upstream rejected content that can
    be omitted, or does not know the checkpoint, returns another form of the request. Otherwise, or if there is no other
    form, returns None."""
    client_headers: Callable[[Request], Headers] | None = None
    """Returns the client's headers to forward. Called only if the client uses the same protocol. If None, no headers
    are forwarded."""
    read_models: Callable[[bytes], list[ModelInfo]] = read_models

    def headers_for(self, request: Request) -> Headers:
        """Return the headers to send to the upstream with this request."""
        if self.client_headers is None or request.protocol != self.protocol:
            return self.headers
        return (*self.headers, *self.client_headers(request))


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Maximum number of retries of a request, and the longest wait before a retry, in seconds."""

    retries: int = 2
    longest_wait: float = 20.0

    def delay(self, failed: Failed, attempts: int) -> float | None:
        """Return the seconds to wait before a retry, or None to give up. `attempts` counts the failed attempts."""
        if failed.status not in RETRIED or failed.code == "upstream_timeout":
            return None
        if attempts > self.retries or NOT_RETRYABLE in failed.headers:
            return None
        delay: float = FIRST_BACK_OFF * 2 ** (attempts - 1) if failed.retry_after is None else failed.retry_after
        return delay if delay <= self.longest_wait else None


class ForwardedHeaders(dict[bytes, str]):
    """Maps the name of an upstream's header to the name under which clients receive it.

    The name of a header that is not forwarded is mapped to "". Clients receive the request id as `request-id`,
    whichever name the upstream uses for it. Results for names that are not in FORWARDED are cached.
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
    """Another API of the same server, to be used if the server does not offer the configured one."""

    upstream: "Upstream"
    is_used: bool = False


@dataclass(frozen=True, slots=True)
class Upstream:
    """An HTTP API: its address, its codec, and the limits for requests to it."""

    name: str
    client: HttpClient
    origin: Origin
    path: str
    codec: Codec
    new_id: Callable[[], str]
    timeouts: Timeouts
    retry_policy: RetryPolicy
    key_source: str = ""
    """The environment variable or file with the upstream's key, for error messages. Empty if there is no key."""
    forwarded: ForwardedHeaders = field(default_factory=ForwardedHeaders)
    substitute: Substitute | None = None

    @property
    def current(self) -> "Upstream":
        """This API, or its substitute if the server turned out not to offer this API."""
        return self if self.substitute is None or not self.substitute.is_used else self.substitute.upstream
