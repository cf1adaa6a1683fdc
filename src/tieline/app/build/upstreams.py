"""Builds the backends for upstreams: model APIs in the style of OpenAI or Anthropic."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Protocol, TypeVar

import msgspec

from tieline import __version__
from tieline.app.build.keys import key_from_env, key_from_file
from tieline.app.build.status import BackendStatus
from tieline.app.config import DEFAULT_URLS, UpstreamSettings
from tieline.backends.http_api.anthropic import AnthropicBackend, anthropic_codec
from tieline.backends.http_api.anthropic import headers_for as anthropic_headers
from tieline.backends.http_api.openai import OpenAIBackend, issuer_of, openai_codec, responses_codec
from tieline.backends.http_api.openai import headers_for as openai_headers
from tieline.backends.http_api.upstream import RetryPolicy, Substitute, Upstream
from tieline.model.ports import Backend
from tieline.net.client.http import HttpClient, Origin, Timeouts
from tieline.wire import anthropic, openai_chat, openai_responses
from tieline.wire.shared.conversations import ConversationCache

D = TypeVar("D", bound=msgspec.Struct)
NO_DEFAULTS: Mapping[str, object] = {}
OWN_HEADERS: Mapping[str, str] = {"user-agent": f"tieline/{__version__}"}
"""Headers that are sent to upstreams unless the configuration replaces them."""
ADDED_KEY = "the Connect page"
"""Where the key of an added upstream comes from, for error messages."""


class MakeUpstream(Protocol):
    """Builds the backend of one upstream: `upstream_backend` with everything but the upstream filled in."""

    def __call__(
        self, name: str, settings: UpstreamSettings, key: str | None, *, key_source: str | None = None
    ) -> Backend: ...


def upstream_backend(
    name: str,
    settings: UpstreamSettings,
    key: str | None,
    *,
    client: HttpClient,
    new_leg_id: Callable[[], str],
    conversations: ConversationCache,
    key_source: str | None = None,
) -> Backend:
    """Build the backend of one upstream. `key_source` says in error messages where the key comes from."""
    origin, path = Origin.parse(settings.base_url or DEFAULT_URLS[settings.kind])
    timeouts = Timeouts(
        connect=settings.connect_timeout, first_byte=settings.first_byte_timeout, idle=settings.idle_timeout
    )
    retry_policy = RetryPolicy(retries=settings.retries)
    source = (key_source or settings.key_file or settings.key_env or "") if key else ""
    headers = tuple({**OWN_HEADERS, **{field.lower(): value for field, value in settings.headers.items()}}.items())
    path = path.rstrip("/")
    if settings.kind == "anthropic":
        betas = settings.betas if settings.betas is not None else origin.host == "api.anthropic.com"
        dialect = msgspec.convert(settings.dialect, anthropic.Dialect)
        codec = anthropic_codec(anthropic_headers(key, headers), dialect, conversations, betas=betas)
        path = path.removesuffix("/v1") + "/v1"
        upstream = Upstream(name, client, origin, path + "/messages", codec, new_leg_id, timeouts, retry_policy, source)
        return AnthropicBackend(
            upstream,
            listing=path + "/models?limit=1000",
            models=settings.models,
            dialect=dialect,
            conversations=conversations,
        )
    own_headers = openai_headers(key, headers)
    codec = openai_codec(own_headers, _chat_dialect(settings, origin), conversations)
    path_of_chat = path + "/chat/completions"
    chat = Upstream(name, client, origin, path_of_chat, codec, new_leg_id, timeouts, retry_policy, source)
    issuer = issuer_of(name, f"{origin.scheme}://{origin.authority}{path}", own_headers) if settings.stateful else ""
    codec = responses_codec(own_headers, _dialect(settings, openai_responses.Dialect), conversations, issuer=issuer)
    responses = replace(chat, path=path + "/responses", codec=codec)
    match settings.api:
        case "responses":
            return OpenAIBackend(responses, base=path, models=settings.models)
        case "auto":
            responses = replace(responses, substitute=Substitute(chat))
            return OpenAIBackend(chat, base=path, models=settings.models, responses=responses)
        case _:
            return OpenAIBackend(chat, base=path, models=settings.models)


def _chat_dialect(settings: UpstreamSettings, origin: Origin) -> openai_chat.Dialect:
    """Return the dialect of a Chat Completions upstream. OpenAI's own API has different defaults."""
    own = {"max_tokens_field": "max_completion_tokens", "freeform_tools": True, "cache_key": True}
    defaults = own if origin.host == "api.openai.com" else {}
    return _dialect(settings, openai_chat.Dialect, defaults)


def _dialect(settings: UpstreamSettings, dialect: type[D], defaults: Mapping[str, object] = NO_DEFAULTS) -> D:
    """Create a dialect from the settings of an upstream, which take precedence over `defaults`.

    Settings that are not fields of `dialect` are ignored, because they are for another API.
    """
    known = {name: value for name, value in settings.dialect.items() if name in dialect.__struct_fields__}
    return msgspec.convert({**defaults, **known}, dialect)


def upstream_key(name: str, settings: UpstreamSettings, env: Mapping[str, str]) -> tuple[str | None, BackendStatus]:
    """Return the key of an upstream, or None if it has none, and the status of the upstream."""
    url = settings.base_url or DEFAULT_URLS[settings.kind]
    if settings.key_file is not None:
        return key_from_file(settings.key_file), _configured(name, f"{url} (key from {settings.key_file})")
    if settings.key_env is None:
        return None, _configured(name, f"{url} (no key)")
    key = key_from_env(env, settings.key_env)
    if key is None:
        return None, BackendStatus(name, False, f"{url}: set {settings.key_env} to its key", source="configuration")
    return key, _configured(name, f"{url} (key from {settings.key_env})")


def added_status(name: str, settings: UpstreamSettings, *, has_key: bool, lacks_key: bool = False) -> BackendStatus:
    """Return the status of an upstream that was added on the page. `lacks_key` says that its key cannot be read."""
    if lacks_key:
        text = f"{settings.base_url}: its key cannot be read; enter it again on the Connect page"
        return BackendStatus(name, False, text, source="page")
    text = f"{settings.base_url} ({'with a key, ' if has_key else 'no key, '}added on the page)"
    return BackendStatus(name, True, text, label_if_ready="configured", source="page")


def _configured(name: str, text: str) -> BackendStatus:
    return BackendStatus(name, True, text, label_if_ready="configured", source="configuration")
