"""Cursor's editor as a client of the Chat Completions API: recognise it and adapt its requests.

The editor's agent sends Responses API bodies to the Chat Completions endpoint but expects Chat Completions answers. The
requests come from Cursor's servers, and not every version identifies itself in a header. Therefore the path and the
body are checked as well.
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
"""Maximum length of a cache key that upstreams accept. A longer conversation id is replaced by a hash."""

PATHS = ("/cursor/", "/openai/deployments/")
"""Prefixes of the paths that only the editor uses."""

USER_AGENT = b"cursor/"
VERSION_HEADER = b"x-cursor-client-version"
_LIMITS = ("max_completion_tokens", "max_tokens")
_CHAT_FIELDS = frozenset(["messages", *_LIMITS])
"""Chat Completions fields that the editor adds to Responses API bodies. Upstreams with that API reject them."""


class _Metadata(msgspec.Struct):
    cursorConversationId: str | None = None  # noqa: N815 - the name in the JSON


_METADATA = msgspec.json.Decoder(_Metadata)
_NUMBER = msgspec.json.Decoder(int)


def from_responses(body: bytes, cache: ConversationCache, usage: bool) -> Request:
    """Parse a Responses API body that may also contain fields of Chat Completions.

    `usage` says whether a streamed answer must include token counts. If the body is invalid, raise a BadRequest that
    names the invalid field.
    """
    request = parse_responses(body, cache)
    limits = [parse(_NUMBER, request.extra[name], name) for name in _LIMITS if name in request.extra]
    if limits and request.sampling.max_tokens is None:
        request = replace(request, sampling=replace(request.sampling, max_tokens=limits[0]))
    extra = {name: value for name, value in request.extra.items() if name not in _CHAT_FIELDS}
    # Without its source, the request is rebuilt from its parsed fields, so no upstream receives fields of another API.
    return replace(request, extra=extra, usage_in_stream=usage, source=None)


def has_conversation(request: Request) -> bool:
    """Return whether the metadata of a request contains the editor's conversation id."""
    return _conversation(request) is not None


def _conversation(request: Request) -> str | None:
    """Return the editor's conversation id from the metadata, or None.

    The field `user` cannot be used instead, because it is the same in all of a person's conversations.
    """
    try:
        return _METADATA.decode(request.extra.get("metadata", Raw(b"{}"))).cursorConversationId or None
    except msgspec.DecodeError:
        return None


def adapted(request: Request) -> Request:
    """Return the editor's request with its conversation id as cache key and session.

    If a Chat Completions request has a reasoning effort, leave out its field `reasoning`, which belongs to the
    Responses API. The effort is then sent as `reasoning_effort`.
    """
    conversation = _conversation(request)
    if conversation is not None:
        conversation = short_id(conversation, MAX_CONVERSATION_ID)
        key = request.cache_key or conversation
        request = replace(request, cache_key=key, session=request.session or f"cursor:{conversation}")
    if request.protocol == openai_chat.PROTOCOL and "reasoning" in request.extra and request.reasoning.effort:
        # It holds an object, which OpenAI's Chat Completions API rejects.
        extra = {name: value for name, value in request.extra.items() if name != "reasoning"}
        request = replace(request, extra=extra)
    return request
