"""Convert reasoning items to `Thinking` parts and back.

Thinking may have a signature, which the upstream expects back in the history. A client that uses this protocol stores
it: the `encrypted_content` of a reasoning item that is sent to the client is an *envelope*, which contains the
signature.

The encrypted content from an OpenAI upstream is valid only together with the id of its item. So the signature of such
thinking is `openai:<id>:<encrypted content>`.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from collections.abc import Sequence

import msgspec

from tieline.model.content import NO_META, Meta, Thinking
from tieline.wire.openai_responses.schema import PROTOCOL
from tieline.wire.shared.json import encode

ENVELOPE = "tieline1."
"""The prefix of an envelope."""
_OPENAI = "openai:"


class _ReasoningEnvelope(msgspec.Struct, omit_defaults=True):
    s: str | None = None
    """The signature."""
    r: bool = False
    """Whether the thinking is redacted."""


_ENVELOPE = msgspec.json.Decoder(_ReasoningEnvelope)


def pack(item_id: str, encrypted_content: str) -> str:
    """Return the signature for encrypted content from an OpenAI upstream. An item id with a colon is left out."""
    return f"{_OPENAI}{'' if ':' in item_id else item_id}:{encrypted_content}"


def unpack(signature: str | None) -> tuple[str, str] | None:
    """Return the item id and the encrypted content in a signature; None if it is not from an OpenAI upstream."""
    if signature is None or not signature.startswith(_OPENAI):
        return None
    item_id, _, encrypted = signature.removeprefix(_OPENAI).partition(":")
    return item_id, encrypted


def envelope(thinking: Thinking) -> str | None:
    """Return an envelope with the signature of the thinking; None if the thinking has no signature."""
    if not thinking.signature:
        return None
    text = encode(_ReasoningEnvelope(thinking.signature, thinking.redacted))
    return ENVELOPE + urlsafe_b64encode(text).decode()


def is_envelope(encrypted_content: str | None) -> bool:
    """Return whether encrypted content is an envelope, which only the gateway can read."""
    return encrypted_content is not None and encrypted_content.startswith(ENVELOPE)


def read_thinking(item_id: str | None, encrypted_content: str | None, texts: Sequence[str]) -> Thinking:
    """Return the thinking in a reasoning item whose parts have these texts.

    If `encrypted_content` is a damaged envelope, the thinking has no signature.
    """
    text, meta = "\n\n".join(texts), _meta(item_id, texts)
    if not encrypted_content:
        return Thinking(text=text, meta=meta)
    if not is_envelope(encrypted_content):
        return Thinking(text=text, signature=pack(item_id or "", encrypted_content), meta=meta)
    opened = _opened(encrypted_content)
    return Thinking(text=text, signature=opened.s, redacted=opened.r and not text, meta=meta)


def summary_texts(thinking: Thinking) -> list[str]:
    """Split the text of the thinking into the texts that `read_thinking` joined."""
    lengths: Sequence[int] = thinking.meta.get(PROTOCOL, {}).get("parts", ())
    text = thinking.text
    if not text:
        return []
    if sum(lengths) + 2 * (len(lengths) - 1) != len(text):
        return [text]
    texts, start = [], 0
    for length in lengths:
        texts.append(text[start : start + length])
        start += length + 2
    return texts


def _meta(item_id: str | None, texts: Sequence[str]) -> Meta:
    own: dict[str, object] = {}
    if item_id:
        own["id"] = item_id
    if len(texts) > 1:
        own["parts"] = tuple(map(len, texts))
    return {PROTOCOL: own} if own else NO_META


def _opened(encrypted_content: str) -> _ReasoningEnvelope:
    try:
        return _ENVELOPE.decode(urlsafe_b64decode(encrypted_content.removeprefix(ENVELOPE)))
    except (Base64Error, ValueError):
        return _ReasoningEnvelope()
