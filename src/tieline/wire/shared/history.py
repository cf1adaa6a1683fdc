"""Parts of histories that several builders treat alike."""

from tieline.model.content import Foreign, Part, Text
from tieline.wire.shared.json import decode_any

BILLING = "x-anthropic-billing-header"
"""The beginning of a system text by which a client identifies itself to Anthropic. It changes with every request."""


def summary_parts(part: Foreign) -> list[Part]:
    """Return the summary of a compacted conversation as text: the model needs it in place of the history."""
    content = decode_any(part.json).get("content")
    return [Text(text=content)] if isinstance(content, str) and content else []
