"""Requests that refer to stored responses, and the JSON of stored responses and conversations.

A client may send only the new items of a conversation, and refer to earlier items by the id of a response, a
conversation or a single item. The stored items are parsed together with the new ones, so that the parsed request
contains the whole conversation.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import count
from typing import Any

import msgspec
from msgspec import Raw

from tieline.model.content import Checkpoint
from tieline.model.errors import BadRequest, GatewayError
from tieline.model.events import Failed
from tieline.wire.openai_responses.compaction import KINDS, TRIGGER, opened
from tieline.wire.openai_responses.errors import failed_error
from tieline.wire.openai_responses.parse import parse_request
from tieline.wire.shared.json import encode, parse, parse_object, replace_lone_surrogates

_PREFIXES = {
    "message": "msg",
    "reasoning": "rs",
    "function_call": "fc",
    "function_call_output": "fco",
    "custom_tool_call": "ctc",
    "custom_tool_call_output": "ctco",
    "compaction": "cmp",
}
"""The prefixes of item ids by item type. The ids of other types have the prefix `item`."""


_MAX_KEPT = 256 * 1024
"""Maximum total size, in bytes, of the user messages that a compaction keeps."""


class _ConversationRef(msgspec.Struct):
    id: str


class _ContextRule(msgspec.Struct):
    type: str
    compact_threshold: int | None = None


class _Create(msgspec.Struct):
    """The fields of a request that determine where its history is stored and how its answer is handled."""

    model: str | None = None
    stream: bool | None = None
    store: bool | None = None
    background: bool | None = None
    previous_response_id: str | None = None
    conversation: str | _ConversationRef | None = None
    generate: bool | None = None
    context_management: list[_ContextRule] | None = None


class _ItemHead(msgspec.Struct):
    type: str | None = None
    id: str | None = None
    role: str | None = None


class _Summary(msgspec.Struct):
    type: str | None = None
    encrypted_content: str | None = None


_CREATE = msgspec.json.Decoder(_Create)
_HEAD = msgspec.json.Decoder(_ItemHead)
_SUMMARY = msgspec.json.Decoder(_Summary)
_ITEMS = msgspec.json.Decoder(list[Raw])
_TEXT = msgspec.json.Decoder(str)
_PLACE = re.compile(r"\binput\[(\d+)\]")
_RESPONSE = "resp_"
PREVIOUS_NOT_FOUND = "previous_response_not_found"
"""The code of the error for a previous response that is not stored."""


class CreateRequest:
    """A request to create a response, which may refer to stored items."""

    def __init__(self, body: bytes) -> None:
        """Parse the fields in `_Create`. If one of them is invalid, raise BadRequest with its path."""
        try:
            shape = parse(_CREATE, body)
        except BadRequest:
            body = replace_lone_surrogates(body)
            shape = parse(_CREATE, body)
        self.body = body
        self.fields = parse_object(body)
        """The top-level fields of the request, not decoded."""
        self.model = shape.model or ""
        self.stream = bool(shape.stream)
        self.is_stored = shape.store is not False
        self.is_background = bool(shape.background)
        self.generates = shape.generate is not False
        """Whether the client wants an answer. A warm-up on a WebSocket only announces that a conversation begins."""
        rules = [rule for rule in shape.context_management or () if rule.type == "compaction"]
        self.compact_threshold = rules[0].compact_threshold if rules else None
        """The number of input tokens above which the conversation is to be compacted; None for no compaction."""
        self.previous = shape.previous_response_id or None
        ref = shape.conversation
        self.conversation = (ref if isinstance(ref, str) else ref.id) if ref is not None else None
        self._check()

    def _check(self) -> None:
        if self.previous is not None and self.conversation is not None:
            message = "`conversation`: expected no conversation together with `previous_response_id`"
            raise BadRequest(message, "conversation")
        if self.is_background and not self.is_stored:
            raise BadRequest("`background`: expected `store` not to be false, got false", "background")

    def items(self) -> list[Raw]:
        """Return the items of `input`. If `input` is a string, return it as a user message."""
        raw = self.fields.get("input", Raw(b"null"))
        text = bytes(raw).lstrip()
        if text.startswith(b'"'):
            content = parse(_TEXT, raw, "input")
            return [Raw(encode({"type": "message", "role": "user", "content": content}))] if content else []
        if text.startswith(b"["):
            return [Raw(bytes(item)) for item in parse(_ITEMS, raw, "input")]
        if text == b"null":
            return []
        raise BadRequest("`input`: expected a string or an array of items", "input")

    def completed(self, items: Sequence[Raw], model: str = "") -> bytes:
        """Return the request body with `items`, in which references are resolved, as `input`.

        `model` is used if the request names no model.
        """
        members: dict[str, Any] = {
            name: value for name, value in self.fields.items() if name not in ("previous_response_id", "conversation")
        }
        if not self.model and model:
            members["model"] = model
        return encode({**members, "input": list(items)})


def reference_in(item: Raw, position: int) -> str | None:
    """Return the id that an item reference contains; None if the item is not a reference.

    `position` is the position of the item in the input, for error messages.
    """
    head = parse(_HEAD, item, f"input[{position}]")
    is_reference = head.type == "item_reference" or (head.type is None and head.role is None and head.id is not None)
    if not is_reference:
        return None
    if not head.id:
        raise BadRequest(f"`input[{position}].id`: expected the id of an item", f"input[{position}].id")
    return head.id


def user_messages(items: Sequence[Raw], mint: Callable[[str], str]) -> list[Raw]:
    """Return the latest user messages among the items, up to `_MAX_KEPT` bytes. A compaction keeps them.

    A message without an id receives one. `mint` returns a new id with the given prefix.
    """
    kept: list[Raw] = []
    size = 0
    for item in reversed(items):
        head = parse(_HEAD, item)
        if head.role != "user" or head.type not in (None, "message"):
            continue
        size += len(bytes(item))
        if size > _MAX_KEPT:
            break
        kept.insert(0, item)
    return with_ids(kept, mint)


def item_id(item: Raw | bytes) -> str | None:
    """Return the id of an item, or None."""
    try:
        return _HEAD.decode(item).id
    except (ValueError, RecursionError):
        return None


def check_items(items: Sequence[Raw]) -> None:
    """Raise BadRequest if an item in the field `items` of a request is invalid."""
    try:
        parse_request(encode({"input": items}))
    except BadRequest as error:
        message, param = error.message.replace("`input[", "`items["), (error.param or "").replace("input[", "items[")
        raise BadRequest(message, param or None, code=error.code) from error


def with_ids(items: Iterable[Raw], mint: Callable[[str], str]) -> list[Raw]:
    """Return the items, with an id added to those without one. `mint` returns a new id with the given prefix."""
    return [item if item_id(item) else _with_id(item, mint) for item in items]


def _with_id(item: Raw, mint: Callable[[str], str]) -> Raw:
    members: dict[str, Any] = dict(parse_object(bytes(item)))
    kind = _HEAD.decode(item).type or "message"
    members.pop("id", None)
    content = bytes(members.get("content", b""))
    if kind == "message" and content.startswith(b'"'):
        text_kind = b"output_text" if bytes(members.get("role", b"")) == b'"assistant"' else b"input_text"
        members["content"] = [Raw(b'{"type":"%b","text":%b}' % (text_kind, content))]
    head = {"id": mint(_PREFIXES.get(kind, "item"))}
    return Raw(encode({**head, **({} if "type" in members else {"type": kind}), **members}))


def response_of(reference: str) -> str:
    """Return the id of the response that contains the item with this id.

    The result is only meaningful for ids that the gateway generated, because they include the response id.
    """
    return _RESPONSE + reference.partition("_")[2].rpartition("_")[0]


def last_summary(items: Sequence[Raw]) -> int | None:
    """Return the position of the last compaction item that the gateway wrote; None if there is none."""
    for position in reversed(range(len(items))):
        if b"compaction" in bytes(items[position]):
            head = _SUMMARY.decode(items[position])
            if head.type in KINDS and opened(head.encrypted_content) is not None:
                return position
    return None


def is_trigger(item: Raw) -> bool:
    """Return whether an item is a compaction trigger, with which the client requests a summary."""
    return b"compaction" in bytes(item) and _SUMMARY.decode(item).type == TRIGGER


def error_in_request(error: BadRequest, before: int, positions: Sequence[int]) -> BadRequest:
    """Return an error about the completed request, with its paths changed to those in the client's own request.

    `before` is the number of stored items that precede the client's items. `positions` are the positions of the
    client's items in the original `input`.
    """

    def original(match: re.Match[str]) -> str:
        at = int(match[1]) - before
        return f"input[{positions[at]}]" if 0 <= at < len(positions) else "the stored conversation"

    message = _PLACE.sub(original, error.message)
    return BadRequest(message, _PLACE.sub(original, error.param) if error.param else None, code=error.code)


# ── Documents ────────────────────────────────────────────────────────────────────────────────────


class StoredResponse(msgspec.Struct, kw_only=True):
    """A response, and the input items that it answers."""

    response: Raw
    input: list[Raw]
    """The input items of the request, with references resolved and credentials removed."""
    previous: str | None = None
    """The id of the previous response, which this one continues. The items of the previous response precede `input`."""
    checkpoint: Checkpoint | None = None
    """The state from which an upstream can continue after this response, if any."""

    @property
    def id(self) -> str:
        """The id of the response."""
        return _OUTPUT.decode(self.response).id or ""

    def input_items(self) -> list[Raw]:
        """Return the input items. Those without an id receive one.

        The new ids contain the response id, like the ids of the output items, so that `response_of` can find it.
        """
        numbers, part = count(), self.id.removeprefix(_RESPONSE)
        return with_ids(self.input, lambda prefix: f"{prefix}_{part}_i{next(numbers)}")

    def output(self) -> list[Raw]:
        """Return the output items."""
        return [Raw(bytes(item)) for item in _OUTPUT.decode(self.response).output]

    @property
    def model(self) -> str:
        """The model that answered."""
        return _OUTPUT.decode(self.response).model or ""

    @property
    def is_background(self) -> bool:
        """Whether the client requested the response as a background task."""
        return bool(_OUTPUT.decode(self.response).background)

    @property
    def is_complete(self) -> bool:
        """Whether the response has ended: completed, cut off, failed or cancelled."""
        return _OUTPUT.decode(self.response).status not in ("queued", "in_progress")

    @property
    def is_usable(self) -> bool:
        """Whether the response has ended with an answer, either complete or cut off."""
        return _OUTPUT.decode(self.response).status in ("completed", "incomplete")


class _Output(msgspec.Struct):
    id: str | None = None
    output: list[Raw] = []
    model: str | None = None
    background: bool | None = None
    status: str | None = None


_OUTPUT = msgspec.json.Decoder(_Output)
_STORED = msgspec.json.Decoder(StoredResponse)


class StoredConversation(msgspec.Struct, kw_only=True):
    """A conversation with its items, oldest first."""

    created: int
    metadata: dict[str, str] = {}
    items: list[Raw] = []
    checkpoint: Checkpoint | None = None
    """The state from which an upstream can continue after exactly these items, if any."""
    is_full: bool = False
    """Whether a response could not be added because the conversation would have become too large to store."""


_CONVERSATION = msgspec.json.Decoder(StoredConversation)


def read_stored(data: bytes) -> StoredResponse | None:
    """Decode a stored response. Return None if it is damaged."""
    try:
        data.decode()  # the decoder does not check the UTF-8 in raw fields
        stored = _STORED.decode(data)
        for item in (*stored.input, *_OUTPUT.decode(stored.response).output):
            _HEAD.decode(item)
    except (ValueError, RecursionError):
        return None
    return stored


def read_conversation(data: bytes) -> StoredConversation | None:
    """Decode a stored conversation. Return None if it is damaged."""
    try:
        data.decode()
        conversation = _CONVERSATION.decode(data)
        for item in conversation.items:
            _HEAD.decode(item)
    except (ValueError, RecursionError):
        return None
    return conversation


def with_failure(response: bytes, failed: Failed) -> bytes:
    """Return the response with the status `failed` and this failure as its error."""
    members = parse_object(response)
    return encode({**members, "status": "failed", "error": failed_error(failed)})


# ── Response bodies ──────────────────────────────────────────────────────────────────────────────


class ListPage(msgspec.Struct):
    """The part of a list that a client requests: at most `limit` items, which follow the item with the id `after`."""

    limit: int = 20
    newest_first: bool = True
    after: str | None = None


def render_items(items: Sequence[Raw], page: ListPage) -> bytes:
    """Return the response body with one page of a list. Raise BadRequest if the list has no item `page.after`."""
    ordered = list(reversed(items)) if page.newest_first else list(items)
    if page.after is not None:
        ids = [item_id(item) for item in ordered]
        if page.after not in ids:
            raise BadRequest(f"`after`: expected the id of an item of this list, got '{page.after}'", "after")
        ordered = ordered[ids.index(page.after) + 1 :]
    shown = ordered[: page.limit]
    return encode(
        {
            "object": "list",
            "data": shown,
            "first_id": item_id(shown[0]) if shown else None,
            "last_id": item_id(shown[-1]) if shown else None,
            "has_more": len(ordered) > len(shown),
        }
    )


def render_deleted(document_id: str, kind: str) -> bytes:
    """Return the response body for the deletion of a response or a conversation."""
    return encode({"id": document_id, "object": kind, "deleted": True})


def render_input_tokens(tokens: int) -> bytes:
    """Return the response body for `POST /responses/input_tokens`."""
    return encode({"object": "response.input_tokens", "input_tokens": tokens})


def render_conversation(conversation_id: str, conversation: StoredConversation) -> bytes:
    """Return the response body for a conversation, without its items."""
    return encode(
        {
            "id": conversation_id,
            "object": "conversation",
            "created_at": conversation.created,
            "metadata": conversation.metadata,
        }
    )


def previous_not_found(response_id: str) -> GatewayError:
    """Return the error for a previous response that is not stored.

    Clients recognise the error's code, and then send the whole conversation.
    """
    message = f"Previous response with id '{response_id}' not found."
    return BadRequest(message, "previous_response_id", code=PREVIOUS_NOT_FOUND)


def previous_incomplete(response_id: str) -> GatewayError:
    """Return the error for a previous response that cannot be continued yet, because it has not ended."""
    message = f"Response with id '{response_id}' is still being created; continue it when it has ended."
    return BadRequest(message, "previous_response_id")


def response_not_found(response_id: str) -> GatewayError:
    """Return the error for a response that is not stored."""
    return GatewayError("not_found", f"Response with id '{response_id}' not found.", param="response_id")


def conversation_not_found(conversation_id: str) -> GatewayError:
    """Return the error for a conversation that is not stored."""
    return GatewayError("not_found", f"Conversation with id '{conversation_id}' not found.", param="conversation_id")


def item_not_found(reference: str, param: str) -> GatewayError:
    """Return the error for an item that is not stored."""
    return GatewayError("not_found", f"Item with id '{reference}' not found.", param=param)
