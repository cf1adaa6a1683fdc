"""How one upstream deviates from the protocol, and how one client wants its answer."""

from collections.abc import Callable
from typing import Literal

from tieline.model.content import Value


class Dialect(Value, cache_hash=True):
    """What one upstream accepts; the defaults are those of Anthropic's API."""

    max_tokens: int = 32000
    """Sent if the client gives none, because the API requires it."""
    cache: Literal["auto", "off"] = "auto"
    """Whether cache marks are set for clients of other protocols, which cannot set any."""
    strict_tools: bool = True
    extensions: bool = True
    """Whether tools may have members like eager_input_streaming or defer_loading."""
    structured_output: bool = True
    """Whether output_config.format is supported; otherwise the schema becomes part of the system prompt."""
    thinking: Literal["auto", "off"] = "auto"
    unsigned_thinking: bool = False
    """Whether earlier thinking without a signature is sent. The API rejects it, local servers may require it."""
    adaptive: bool = True
    """Whether adaptive thinking and effort are supported; otherwise effort becomes a budget."""
    system_in_messages: bool = True
    """Whether system messages are allowed between others; otherwise they become reminders in user messages."""
    stop_limit: int = 8191

    @property
    def takes_all(self) -> bool:
        """Whether the upstream accepts everything a client of this protocol may send."""
        return (
            self.strict_tools
            and self.extensions
            and self.structured_output
            and self.thinking == "auto"
            and self.adaptive
            and self.system_in_messages
        )


class Options(Value):
    """How one client wants its answer. `created` and `usage` have no effect here; all codecs have them."""

    created: int = 0
    arguments: Literal["buffered", "incremental"] = "incremental"
    usage: bool = True
    estimate: Callable[[], int] | None = None
    """Returns an estimate of the prompt's tokens, for message_start if the upstream has not sent a count yet."""


DEFAULT = Dialect()
