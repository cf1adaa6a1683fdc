"""Helpers for parts of the history that several builders handle in the same way."""

from tieline.model.content import Foreign, Part, Text
from tieline.wire.shared.json import decode_any

BILLING = "x-anthropic-billing-header"
"""The beginning of a system text with which a client identifies itself to Anthropic. The text differs in every
request. Other upstreams do not receive it."""


def summary_parts(part: Foreign) -> list[Part]:
    """Return the summary in a compaction part as text, because the model needs it in place of the earlier history."""
    content = decode_any(part.json).get("content")
    return [Text(text=content)] if isinstance(content, str) and content else []
