"""What one upstream of the Messages API can take, and how one client wants its answer."""

from collections.abc import Callable
from typing import Literal

from tieline.model.content import Value


class Dialect(Value, cache_hash=True):
    """The quirks of one upstream; the defaults are those of the API itself."""

    max_tokens: int = 32000
    """What is asked for when the client says nothing: the API demands a number."""
    cache: Literal["auto", "off"] = "auto"
    """Whether to set cache marks for clients that cannot set any."""
    strict_tools: bool = True
    extensions: bool = True
    """Whether tools may say more than a schema: eager_input_streaming, defer_loading and the like."""
    structured_output: bool = True
    """Whether output_config.format is known; else the schema is written into the system prompt."""
    thinking: Literal["auto", "off"] = "auto"
    unsigned_thinking: bool = False
    """Whether thinking without a signature is given back. The API itself refuses it, local servers may want it."""
    adaptive: bool = True
    """Whether adaptive thinking and effort are known; else effort becomes a budget."""
    system_in_messages: bool = True
    """Whether a system message may stand between others; else it becomes a reminder in a user message."""
    stop_limit: int = 8191

    @property
    def takes_all(self) -> bool:
        """Whether the upstream takes whatever a client of this protocol may send."""
        return (
            self.strict_tools
            and self.extensions
            and self.structured_output
            and self.thinking == "auto"
            and self.adaptive
            and self.system_in_messages
        )


class Options(Value):
    """How one client wants its answer. `created` and `usage` mean nothing here: all codecs have them."""

    created: int = 0
    arguments: Literal["buffered", "incremental"] = "incremental"
    usage: bool = True
    estimate: Callable[[], int] | None = None
    """About how many tokens the prompt has: what message_start says if the upstream has not counted them yet."""


DEFAULT = Dialect()
