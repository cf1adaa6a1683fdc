"""Cursor's editor as a client of the Chat Completions API: how to recognise it, and what its requests need.

Its agent sends bodies of the Responses API to this endpoint but reads only answers of Chat Completions. Its requests
come from Cursor's servers, and not every version identifies itself, so the path and the body are checked as well.
"""

from typing import NamedTuple

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from tieline.frontends.http import Exchange
from tieline.model.request import Request
from tieline.wire import openai_chat
from tieline.wire.openai_responses.parse import parse_request as parse_responses
from tieline.wire.shared.conversations import ConversationCache
from tieline.wire.shared.json import parse
from tieline.wire.shared.spelling import short_id

MAX_CONVERSATION_ID = 64
"""Upstreams accept cache keys of this length; a longer id is replaced by a hash."""

PATHS = ("/cursor/", "/openai/deployments/")
"""Prefixes of the paths that only the editor uses."""

_USER_AGENT = b"cursor/"
_VERSION_HEADER = b"x-cursor-client-version"
_LIMITS = ("max_completion_tokens", "max_tokens")
_CHAT_FIELDS = frozenset(["messages", *_LIMITS])
"""Fields of Chat Completions in a body of the Responses API; an upstream of that API rejects them."""


class _Metadata(msgspec.Struct):
    cursorConversationId: str | None = None  # noqa: N815 - the name in the JSON


_METADATA = msgspec.json.Decoder(_Metadata)
_NUMBER = msgspec.json.Decoder(int)


class ChatRequest(NamedTuple):
    """A parsed request, and whether it comes from Cursor's editor."""

    request: Request
    is_editor: bool


def parse_chat(exchange: Exchange, body: bytes, cache: ConversationCache) -> ChatRequest:
    """Parse a body of Chat Completions or the Responses API. Raise BadRequest with the path of an invalid field."""
    try:
        request = openai_chat.parse_request(body, cache)
    except openai_chat.ResponsesBody as found:
        return ChatRequest(_adapted(_from_responses(body, cache, found.usage)), True)
    if exchange.path.startswith(PATHS) or _has_conversation(request) or _has_headers(exchange):
        return ChatRequest(_adapted(request), True)
    return ChatRequest(request, False)


def _from_responses(body: bytes, cache: ConversationCache, usage: bool) -> Request:
    """Parse a body of the Responses API that may have fields of Chat Completions."""
    request = parse_responses(body, cache)
    limits = [parse(_NUMBER, request.extra[name], name) for name in _LIMITS if name in request.extra]
    if limits and request.sampling.max_tokens is None:
        request = replace(request, sampling=replace(request.sampling, max_tokens=limits[0]))
    extra = {name: value for name, value in request.extra.items() if name not in _CHAT_FIELDS}
    # Without its source the request is built from its meaning, so that no upstream gets fields of another API.
    return replace(request, extra=extra, usage_in_stream=usage, source=None)


def _has_headers(exchange: Exchange) -> bool:
    user_agent = exchange.headers.get(b"user-agent", b"")
    return user_agent[: len(_USER_AGENT)].lower() == _USER_AGENT or _VERSION_HEADER in exchange.headers


def _has_conversation(request: Request) -> bool:
    return "metadata" in request.extra and _conversation(request) is not None


def _conversation(request: Request) -> str | None:
    """Return the id of the editor's conversation. (`user` is the same in all conversations of a person.)"""
    try:
        return _METADATA.decode(request.extra.get("metadata", Raw(b"{}"))).cursorConversationId or None
    except msgspec.DecodeError:
        return None


def _adapted(request: Request) -> Request:
    """Return the request with its conversation as cache key, and its effort in the field of its protocol."""
    conversation = _conversation(request)
    if conversation is not None:
        conversation = short_id(conversation, MAX_CONVERSATION_ID)
        key = request.cache_key or conversation
        request = replace(request, cache_key=key, session=request.session or f"cursor:{conversation}")
    if request.protocol == openai_chat.PROTOCOL and "reasoning" in request.extra and request.reasoning.effort:
        # An object of the Responses API, which OpenAI's Chat Completions rejects; the effort has a field there.
        extra = {name: value for name, value in request.extra.items() if name != "reasoning"}
        request = replace(request, extra=extra)
    return request
