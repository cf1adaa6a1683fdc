"""The backend for Anthropic's Messages API, and for any server that implements it."""

from collections.abc import Sequence
from functools import partial

from tieline.backends.http_api.other_requests import fetch
from tieline.backends.http_api.replay import ReplayBackend
from tieline.backends.http_api.upstream import Codec, Upstream
from tieline.backends.http_api.upstream_errors import is_missing
from tieline.model.errors import LegFailed
from tieline.model.events import Headers
from tieline.model.request import Request
from tieline.wire import anthropic as wire
from tieline.wire.anthropic.models import read_models
from tieline.wire.shared.conversations import ConversationCache

VERSION = "2023-06-01"
REMOVED_BETAS = ("message-threads-",)
"""Prefixes of beta flags that are not forwarded, because the gateway does not support the requests that they enable."""


def anthropic_codec(
    headers: Headers, dialect: wire.Dialect, conversations: ConversationCache | None = None, *, betas: bool
) -> Codec:
    """Return the codec for one upstream.

    `betas` says whether clients' beta flags are forwarded. Some upstreams reject unknown flags.
    """
    return Codec(
        protocol=wire.PROTOCOL,
        headers=headers,
        build=partial(wire.build_request, dialect=dialect, cache=conversations),
        reader=wire.ResponseReader,
        read_reply=wire.read_reply,
        read_error=wire.read_error,
        client_headers=_beta_headers if betas else None,
        read_models=read_models,
    )


def headers_for(key: str | None, extra: Headers) -> Headers:
    """Return the headers to send with every request to an upstream, including its API key, if any, and `extra`."""
    own = (("content-type", "application/json"), ("anthropic-version", VERSION))
    return (*own, *((("x-api-key", key),) if key else ()), *extra)


class AnthropicBackend(ReplayBackend):
    """Backend for one upstream with Anthropic's Messages API. Most of these upstreams can also count tokens."""

    def __init__(
        self,
        upstream: Upstream,
        *,
        listing: str,
        models: Sequence[str] = (),
        dialect: wire.Dialect,
        conversations: ConversationCache | None = None,
    ) -> None:
        super().__init__(upstream, listing=listing, models=models)
        self._dialect = dialect
        self._conversations = conversations

    async def count(self, request: Request) -> int | None:
        built = wire.build_count(request, self._dialect, self._conversations)
        headers = self._upstream.codec.headers_for(request)
        path = self._upstream.path + "/count_tokens"
        try:
            answer = await fetch(self._upstream, "POST", path, headers, built.body)
        except LegFailed as error:
            if is_missing(error.failed()):
                return None
            raise
        return wire.read_count(answer)


def _beta_headers(request: Request) -> Headers:
    return tuple((name, kept) for name, value in request.headers if (kept := _kept_betas(name, value)))


def _kept_betas(name: str, value: str) -> str:
    """Return the beta flags to forward from a client's `anthropic-beta` header; empty for any other header."""
    if name != "anthropic-beta":
        return ""
    flags = (flag.strip() for flag in value.split(","))
    return ",".join(flag for flag in flags if flag and not flag.startswith(REMOVED_BETAS))
