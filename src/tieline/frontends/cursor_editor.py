"""Cursor's editor as a client of the Chat Completions API: how to recognise it, and what its requests need.

Its agent sends bodies of the Responses API to this endpoint but reads only answers of Chat Completions. Its requests
come from Cursor's servers, and not every version identifies itself, so the path and the body are checked as well.
"""

import msgspec
from msgspec import Raw
from msgspec.structs import replace

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

USER_AGENT = b"cursor/"
VERSION_HEADER = b"x-cursor-client-version"
_LIMITS = ("max_completion_tokens", "max_tokens")
_CHAT_FIELDS = frozenset(["messages", *_LIMITS])
"""Fields of Chat Completions in a body of the Responses API; an upstream of that API rejects them."""


class _Metadata(msgspec.Struct):
    cursorConversationId: str | None = None  # noqa: N815 - the name in the JSON


_METADATA = msgspec.json.Decoder(_Metadata)
_NUMBER = msgspec.json.Decoder(int)


def from_responses(body: bytes, cache: ConversationCache, usage: bool) -> Request:
    """Parse a body of the Responses API that may have fields of Chat Completions.

    `usage` says whether a stream must report its usage. Raise BadRequest with the path of an invalid field.
    """
    request = parse_responses(body, cache)
    limits = [parse(_NUMBER, request.extra[name], name) for name in _LIMITS if name in request.extra]
    if limits and request.sampling.max_tokens is None:
        request = replace(request, sampling=replace(request.sampling, max_tokens=limits[0]))
    extra = {name: value for name, value in request.extra.items() if name not in _CHAT_FIELDS}
    # Without its source the request is built from its meaning, so that no upstream gets fields of another API.
    return replace(request, extra=extra, usage_in_stream=usage, source=None)


def has_conversation(request: Request) -> bool:
    """Return whether the metadata of a request has the id of one of the editor's conversations."""
    return _conversation(request) is not None


def _conversation(request: Request) -> str | None:
    """Return the id of the editor's conversation. (`user` is the same in all conversations of a person.)"""
    try:
        return _METADATA.decode(request.extra.get("metadata", Raw(b"{}"))).cursorConversationId or None
    except msgspec.DecodeError:
        return None


def adapted(request: Request) -> Request:
    """Return the editor's request with its conversation as cache key and its effort in the field of its protocol."""
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
