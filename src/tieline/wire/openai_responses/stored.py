"""Requests that refer to stored responses, and the JSON of what is stored.

A client may send only the new items of a conversation, and refer to earlier ones by the id of a response, of a
conversation, or of a single item. Such a request is *completed*: its `input` becomes the whole conversation, so that it
can be parsed like any other.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec
from msgspec import Raw

from tieline.model.errors import BadRequest, GatewayError
from tieline.wire.shared.json import encode, parse, parse_object

_PREFIXES = {
    "message": "msg",
    "reasoning": "rs",
    "function_call": "fc",
    "function_call_output": "fco",
    "custom_tool_call": "ctc",
    "custom_tool_call_output": "ctco",
    "compaction": "cmp",
}
"""The prefixes of item ids by item type; `item` for any other type."""


class _ConversationRef(msgspec.Struct):
    id: str


class _Create(msgspec.Struct):
    """The fields of a request that decide where its history is and what happens to its answer."""

    model: str | None = None
    input: Raw = Raw()
    stream: bool | None = None
    store: bool | None = None
    background: bool | None = None
    previous_response_id: str | None = None
    conversation: str | _ConversationRef | None = None
    generate: bool | None = None


class _ItemHead(msgspec.Struct):
    type: str | None = None
    id: str | None = None
    role: str | None = None


_CREATE = msgspec.json.Decoder(_Create)
_HEAD = msgspec.json.Decoder(_ItemHead)
_ITEMS = msgspec.json.Decoder(list[Raw])
_TEXT = msgspec.json.Decoder(str)


class CreateRequest:
    """A request to create a response, before its history is complete."""

    def __init__(self, body: bytes) -> None:
        """Read the fields about stored responses. Raise BadRequest with the path of the field that is wrong."""
        self.fields = parse_object(body)
        """The top-level fields of the request."""
        shape = parse(_CREATE, body)
        self.body = body
        self.model = shape.model or ""
        self.stream = bool(shape.stream)
        self.is_stored = shape.store is not False
        self.is_background = bool(shape.background)
        self.generates = shape.generate is not False
        """Whether an answer is wanted; a warm-up on a WebSocket only announces the beginning of a conversation."""
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
        """Return the items of `input`; a string is one message of the user."""
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
        """Return the body with the whole conversation as `input`. `model` is used if the request names none."""
        members: dict[str, Any] = {
            name: value for name, value in self.fields.items() if name not in ("previous_response_id", "conversation")
        }
        if not self.model and model:
            members["model"] = model
        return encode({**members, "input": list(items)})


def reference_in(item: Raw, position: int) -> str | None:
    """Return the id of the item that an item refers to; None if it is not a reference."""
    head = parse(_HEAD, item, f"input[{position}]")
    is_reference = head.type == "item_reference" or (head.type is None and head.role is None and head.id is not None)
    if not is_reference:
        return None
    if not head.id:
        raise BadRequest(f"`input[{position}].id`: expected the id of an item", f"input[{position}].id")
    return head.id


def item_id(item: Raw) -> str | None:
    """Return the id of an item, if it has one."""
    try:
        return _HEAD.decode(item).id
    except (ValueError, RecursionError):
        return None


def with_ids(items: Iterable[Raw], mint: Callable[[str], str]) -> list[Raw]:
    """Return the items, with an id for each that has none. `mint` makes an id with a prefix."""
    return [item if item_id(item) else _with_id(item, mint) for item in items]


def _with_id(item: Raw, mint: Callable[[str], str]) -> Raw:
    members = parse_object(bytes(item))
    kind = _HEAD.decode(item).type or "message"
    members.pop("id", None)
    head = {"id": mint(_PREFIXES.get(kind, "item"))}
    return Raw(encode({**head, **({} if "type" in members else {"type": kind}), **members}))


# ── Documents ────────────────────────────────────────────────────────────────────────────────────


class StoredResponse(msgspec.Struct, kw_only=True):
    """A finished response, and the items it answered."""

    response: Raw
    input: list[Raw]
    previous: str | None = None
    """The id of the response it continues; its items precede `input`."""

    def output(self) -> list[Raw]:
        """Return the items of the answer."""
        return [Raw(bytes(item)) for item in _OUTPUT.decode(self.response).output]

    @property
    def model(self) -> str:
        """The model that answered."""
        return _OUTPUT.decode(self.response).model or ""

    @property
    def is_background(self) -> bool:
        """Whether the response was created in the background."""
        return bool(_OUTPUT.decode(self.response).background)


class _Output(msgspec.Struct):
    output: list[Raw] = []
    model: str | None = None
    background: bool | None = None


_OUTPUT = msgspec.json.Decoder(_Output)
_STORED = msgspec.json.Decoder(StoredResponse)


class StoredConversation(msgspec.Struct, kw_only=True):
    """A conversation: its items, the oldest first."""

    created: int
    metadata: dict[str, str] = {}
    items: list[Raw] = []


_CONVERSATION = msgspec.json.Decoder(StoredConversation)


def read_stored(data: bytes) -> StoredResponse:
    """Return a response from its document."""
    return _STORED.decode(data)


def read_conversation(data: bytes) -> StoredConversation:
    """Return a conversation from its document."""
    return _CONVERSATION.decode(data)


# ── Bodies of answers ────────────────────────────────────────────────────────────────────────────


class Page(msgspec.Struct):
    """Which part of a list a client wants."""

    limit: int = 20
    newest_first: bool = True
    after: str | None = None


def render_items(items: Sequence[Raw], page: Page) -> bytes:
    """Return one page of a list of items. Items without an id are given none, and cannot be continued from."""
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
    """Return the answer to the deletion of a response or a conversation."""
    return encode({"id": document_id, "object": kind, "deleted": True})


def render_input_tokens(tokens: int) -> bytes:
    """Return the body of `POST /responses/input_tokens`."""
    return encode({"object": "response.input_tokens", "input_tokens": tokens})


def render_conversation(conversation_id: str, conversation: StoredConversation) -> bytes:
    """Return a conversation without its items."""
    return encode(
        {
            "id": conversation_id,
            "object": "conversation",
            "created_at": conversation.created,
            "metadata": conversation.metadata,
        }
    )


def previous_not_found(response_id: str) -> GatewayError:
    """Return the error for a response that cannot be continued; clients recognise its code and send everything."""
    message = f"Previous response with id '{response_id}' not found."
    return BadRequest(message, "previous_response_id", code="previous_response_not_found")


def response_not_found(response_id: str) -> GatewayError:
    """Return the error for a response that is not stored."""
    return GatewayError("not_found", f"Response with id '{response_id}' not found.", param="response_id")


def conversation_not_found(conversation_id: str) -> GatewayError:
    """Return the error for a conversation that is not stored."""
    return GatewayError("not_found", f"Conversation with id '{conversation_id}' not found.", param="conversation_id")


def item_not_found(reference: str, param: str) -> GatewayError:
    """Return the error for an item that is not stored."""
    return GatewayError("not_found", f"Item with id '{reference}' not found.", param=param)
