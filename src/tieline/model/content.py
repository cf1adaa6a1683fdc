"""Messages and their parts.

All values are immutable; use `msgspec.structs.replace` to make a modified copy. Three rules keep the types simple:

- JSON that is only passed on (arguments, schemas) stays JSON *text*. It is parsed only where its content is needed.
  Otherwise it reaches the receiver exactly as it was sent.
- `meta` holds fields without a neutral form. Fields of one protocol, such as citations, are keyed by the name of that
  protocol, and only its codecs read them. Fields that several protocols share have keys of their own, such as
  `cache_control` for cache marks and `detail` for the resolution of an image.
- `meta[STATE]` holds opaque state that an *upstream* expects to receive again with the next request: thought
  signatures, encrypted reasoning. It maps field names to JSON text, is never changed, and is sent to no other upstream.
"""

from collections.abc import Mapping
from typing import Any, Literal, dataclass_transform

import msgspec

Meta = Mapping[str, Any]
Role = Literal["system", "user", "assistant"]

NO_META: Meta = {}
STATE = "state"
"""The key in the `meta` of a call, a message or an ending under which the upstream's state is stored."""


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class Value(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Base class of all values: frozen, keyword-only, compared by content."""


class Text(Value, tag="text"):
    """A text part. `refusal` says whether it is a refusal to answer. Some protocols have a separate field for that."""

    text: str = ""
    refusal: bool = False
    meta: Meta = NO_META


class Thinking(Value, tag="thinking"):
    """The model's thinking. `signature` proves to the upstream that the text is unaltered.

    Redacted thinking has no readable text, only an opaque signature.
    """

    text: str = ""
    signature: str | None = None
    redacted: bool = False
    meta: Meta = NO_META


class Image(Value, tag="image"):
    """An image, either as valid base64 text (`data`) or as an address (`url`)."""

    media_type: str = ""
    data: str | None = None
    url: str | None = None
    meta: Meta = NO_META


class File(Value, tag="file"):
    """A document such as a PDF, either as valid base64 text (`data`) or as an address (`url`)."""

    media_type: str = ""
    data: str | None = None
    url: str | None = None
    name: str | None = None
    meta: Meta = NO_META


class ToolCall(Value, tag="tool_call"):
    """A tool call made by the model. `arguments` is JSON text, or plain text if the tool is freeform."""

    id: str
    name: str
    arguments: str = ""
    freeform: bool = False
    meta: Meta = NO_META


class ToolResult(Value, tag="tool_result"):
    """The result of the tool call with the id `call_id`."""

    call_id: str
    content: tuple[Text | Image | File, ...] = ()
    is_error: bool = False
    meta: Meta = NO_META


class Foreign(Value, tag="foreign"):
    """A part that exists in only one protocol, as JSON text. Codecs of other protocols drop it."""

    protocol: str
    kind: str
    json: str
    meta: Meta = NO_META


Part = Text | Thinking | Image | File | ToolCall | ToolResult | Foreign


class Checkpoint(Value):
    """Opaque state from which an upstream can continue a conversation without receiving its history again.

    The state covers the conversation up to and including the model's last message. Only the upstream that issued the
    checkpoint can use it, and only for the same model.
    """

    upstream: str
    """Identifies the upstream, including its address, API and account."""
    model: str
    state: str


class Message(Value):
    """One message of a conversation. Tool results are parts of a user message. System messages may occur anywhere."""

    role: Role
    parts: tuple[Part, ...]
    meta: Meta = NO_META


def state_of(meta: Meta) -> Mapping[str, str]:
    """Return the upstream's state in `meta`: a mapping from field names to JSON text, empty if there is none."""
    state: Mapping[str, str] = meta.get(STATE, NO_META)
    return state


def with_state(meta: Meta, state: Mapping[str, str]) -> Meta:
    """Return a copy of `meta` in which `state` replaces the upstream's state. An empty `state` removes it."""
    rest = {name: value for name, value in meta.items() if name != STATE}
    return {**rest, STATE: state} if state else rest or NO_META
