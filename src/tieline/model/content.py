"""Parts and messages: what a conversation is made of.

Everything here is an immutable value; change is `msgspec.structs.replace`. Two rules keep the vocabulary small:

- JSON that only travels through (arguments, schemas) stays JSON *text*: it is parsed once, by whoever needs it, and
  otherwise arrives byte for byte as it was sent.
- `meta` holds what one protocol needs to get back and nobody else reads (cache marks, citations), keyed by the name
  of that protocol.
- `meta[STATE]` holds what one *upstream* needs to get back: thought signatures, encrypted reasoning. It maps names of
  fields to JSON text, is never read or changed, and goes to no other upstream.
"""

from collections.abc import Mapping
from typing import Any, Literal, dataclass_transform

import msgspec

Meta = Mapping[str, Any]
Role = Literal["system", "user", "assistant"]

NO_META: Meta = {}
STATE = "state"
"""The key of opaque provider state in the `meta` of a call, a message, or the ending of an answer."""


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class Value(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What every value of the model is: frozen, keyword-only, compared by content."""


class Text(Value, tag="text"):
    """Words. A refusal is text too, marked so that a protocol with a place of its own for refusals can use it."""

    text: str = ""
    refusal: bool = False
    meta: Meta = NO_META


class Thinking(Value, tag="thinking"):
    """What the model thought. `signature` proves to its maker that it is unaltered; redacted thinking is only that."""

    text: str = ""
    signature: str | None = None
    redacted: bool = False
    meta: Meta = NO_META


class Image(Value, tag="image"):
    """A picture: base64 text that was checked when it was read, or the address of one."""

    media_type: str = ""
    data: str | None = None
    url: str | None = None
    meta: Meta = NO_META


class File(Value, tag="file"):
    """A document such as a PDF: base64 text that was checked when it was read, or the address of one."""

    media_type: str = ""
    data: str | None = None
    url: str | None = None
    name: str | None = None
    meta: Meta = NO_META


class ToolCall(Value, tag="tool_call"):
    """A call the model made. `arguments` is JSON text, or raw text when the tool is freeform."""

    id: str
    name: str
    arguments: str = ""
    freeform: bool = False
    meta: Meta = NO_META


class ToolResult(Value, tag="tool_result"):
    """What came of a call."""

    call_id: str
    content: tuple[Text | Image | File, ...] = ()
    is_error: bool = False
    meta: Meta = NO_META


class Foreign(Value, tag="foreign"):
    """A part only one protocol understands: kept as its JSON text for that protocol, left out by the others."""

    protocol: str
    kind: str
    json: str
    meta: Meta = NO_META


Part = Text | Thinking | Image | File | ToolCall | ToolResult | Foreign


class Message(Value):
    """One message. Tool results are parts of a user message; system messages may stand anywhere."""

    role: Role
    parts: tuple[Part, ...]
    meta: Meta = NO_META


def state_of(meta: Meta) -> Mapping[str, str]:
    """The provider state in some `meta`."""
    state: Mapping[str, str] = meta.get(STATE, NO_META)
    return state


def with_state(meta: Meta, state: Mapping[str, str]) -> Meta:
    """The same `meta` with this provider state, or without any if it is empty."""
    rest = {name: value for name, value in meta.items() if name != STATE}
    return {**rest, STATE: state} if state else rest or NO_META
