"""The backend for OpenAI's Chat Completions and Responses APIs, and for any server that implements one of them."""

from collections.abc import Sequence
from functools import partial
from hashlib import sha256

import msgspec
from msgspec.structs import replace

from tieline.backends.http_api.other_requests import UpstreamAnswer, forward
from tieline.backends.http_api.replay import ReplayBackend
from tieline.backends.http_api.upstream import Codec, Upstream
from tieline.model.bounded_cache import BoundedCache
from tieline.model.events import Failed, Headers, Note
from tieline.model.request import Request
from tieline.wire import openai_chat, openai_responses
from tieline.wire.shared.conversations import ConversationCache
from tieline.wire.shared.spelling import BuiltRequest

MAX_MODELS = 1000
"""Maximum number of models that are remembered as not supporting encrypted reasoning."""
_REPLAYED = Note(kind="retry", message="the upstream could not continue its response; the whole history was sent")


def openai_codec(
    headers: Headers, dialect: openai_chat.Dialect, conversations: ConversationCache | None = None
) -> Codec:
    """Return the codec for the Chat Completions API of one upstream."""
    return Codec(
        protocol=openai_chat.PROTOCOL,
        headers=headers,
        build=partial(openai_chat.build_request, dialect=dialect, cache=conversations),
        reader=openai_chat.ResponseReader,
        read_reply=openai_chat.read_reply,
        read_error=openai_chat.read_error,
    )


def responses_codec(
    headers: Headers,
    dialect: openai_responses.Dialect,
    conversations: ConversationCache | None = None,
    *,
    issuer: str = "",
) -> Codec:
    """Return the codec for the Responses API of one upstream.

    `issuer` identifies an upstream that may store responses; see `issuer_of`. If it is empty, nothing is stored there.
    """
    requests = _ResponsesRequests(dialect, conversations, issuer)
    return Codec(
        protocol=openai_responses.PROTOCOL,
        headers=headers,
        build=requests.build,
        reader=partial(openai_responses.ResponseReader, issuer=issuer),
        read_reply=partial(openai_responses.read_reply, issuer=issuer),
        read_error=openai_responses.read_error,
        recover=requests.recovered,
    )


def issuer_of(name: str, url: str, headers: Headers) -> str:
    """Return a string that identifies an upstream in checkpoints.

    It depends on the upstream's name and address and on the headers, which include the API key.
    """
    return sha256(repr((name, url, sorted(headers))).encode()).hexdigest()[:24]


class _Model(msgspec.Struct):
    model: str


_MODEL = msgspec.json.Decoder(_Model)


class _ResponsesRequests:
    """Builds requests for the Responses API, and remembers which models do not support encrypted reasoning."""

    def __init__(self, dialect: openai_responses.Dialect, conversations: ConversationCache | None, issuer: str) -> None:
        self._issuer = issuer
        self._dialect = dialect
        self._plain_dialect = replace(dialect, encrypted_reasoning=False)
        self._conversations = conversations
        self._plain_models: BoundedCache[str, bool] = BoundedCache(MAX_MODELS)

    def build(self, request: Request) -> BuiltRequest:
        checkpoint = request.checkpoint
        if checkpoint is not None and (checkpoint.upstream, checkpoint.model) != (self._issuer, request.model):
            request = replace(request, checkpoint=None)
        if request.may_store and not self._issuer:
            request = replace(request, may_store=False)
        dialect = self._dialect if self._plain_models.get(request.model) is None else self._plain_dialect
        return openai_responses.build_request(request, dialect, self._conversations)

    def recovered(self, request: Request, built: BuiltRequest, failed: Failed) -> BuiltRequest | None:
        if built.continues:
            if not openai_responses.rejects_checkpoint(failed):
                return None
            whole = self.build(replace(request, checkpoint=None))
            return replace(whole, notes=(*whole.notes, _REPLAYED))
        changed = openai_responses.recovered(built, failed)
        if changed is not None and openai_responses.lacks_encryption(failed):
            self._plain_models.put(_MODEL.decode(built.body).model, True)
        return changed


def headers_for(key: str | None, extra: Headers) -> Headers:
    """Return the headers to send with every request to an upstream, including its API key, if any, and `extra`."""
    return (("content-type", "application/json"), *((("authorization", f"Bearer {key}"),) if key else ()), *extra)


class OpenAIBackend(ReplayBackend):
    """Backend for one OpenAI-like upstream. Requests to other endpoints below the same base address can be forwarded.

    If `responses` is set, requests in the Responses protocol are sent to it, and all other requests to `upstream`.
    """

    def __init__(
        self, upstream: Upstream, *, base: str, models: Sequence[str] = (), responses: Upstream | None = None
    ) -> None:
        super().__init__(upstream, listing=base + "/models", models=models)
        self._base = base
        self._responses = responses
        if responses is not None:
            self.protocols += (responses.codec.protocol,)

    def _upstream_for(self, request: Request) -> Upstream:
        if self._responses is not None and request.protocol == self._responses.codec.protocol:
            return self._responses
        return self._upstream

    async def forward(self, endpoint: str, content_type: str, body: bytes) -> UpstreamAnswer:
        own = tuple(header for header in self._upstream.codec.headers if header[0] != "content-type")
        return await forward(self._upstream, f"{self._base}/{endpoint}", (("content-type", content_type), *own), body)
