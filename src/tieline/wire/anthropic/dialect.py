"""Settings for requests to upstreams that deviate from the protocol, and for the form of answers to clients."""

from collections.abc import Callable
from typing import Literal

from tieline.model.content import Value


class Dialect(Value, cache_hash=True):
    """The features of the protocol that an upstream supports. The defaults suit Anthropic's API."""

    max_tokens: int = 32000
    """The value of max_tokens for requests in which the client does not set it. The API requires a value."""
    cache: Literal["auto", "off"] = "auto"
    """Whether the gateway sets cache marks for clients that use other protocols and have set none."""
    strict_tools: bool = True
    extensions: bool = True
    """Whether the upstream accepts tools with members such as eager_input_streaming or defer_loading."""
    structured_output: bool = True
    """Whether output_config.format is supported. If not, the output schema becomes part of the system prompt."""
    thinking: Literal["auto", "off"] = "auto"
    unsigned_thinking: bool = False
    """Whether to send unsigned thinking from the history. The API rejects it, but some local servers require it."""
    adaptive: bool = True
    """Whether adaptive thinking and effort are supported. If not, the effort is converted to a thinking budget."""
    system_in_messages: bool = True
    """Whether system messages are allowed within a conversation. If not, they become reminders in user messages."""
    stop_limit: int = 8191

    @property
    def takes_all(self) -> bool:
        """Whether the upstream accepts every request that the protocol allows."""
        return (
            self.strict_tools
            and self.extensions
            and self.structured_output
            and self.thinking == "auto"
            and self.adaptive
            and self.system_in_messages
        )


class Options(Value):
    """The form of the answer that a client receives.

    `created` and `usage` have no effect in this protocol; they exist because the options of all codecs have them.
    """

    created: int = 0
    arguments: Literal["buffered", "incremental"] = "incremental"
    usage: bool = True
    estimate: Callable[[], int] | None = None
    """A function that estimates the token count of the prompt. It is used if message_start precedes the real count."""


DEFAULT = Dialect()
