"""Settings for an upstream that deviates from the protocol, and for the form of the answer that a client receives."""

from typing import Literal

from tieline.model.content import Value


class Dialect(Value, cache_hash=True):
    """The features of the protocol that an upstream supports. The defaults suit most upstreams."""

    reasoning_field: Literal["reasoning_content", "reasoning", "none"] = "reasoning_content"
    """The field of an assistant message in which earlier thinking is sent to the upstream; `none` to leave it out."""
    replay_reasoning: bool = False
    """Whether earlier thinking is sent to the upstream. Some upstreams require it, others reject it."""
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    system: Literal["anywhere", "first"] = "anywhere"
    """Where system messages are allowed: anywhere, or only as the first message, so that there can be only one."""
    text_parts: bool = False
    """Whether several texts in a message are sent as a list of content parts. If a client that uses this protocol sends
    such a list, it is always kept."""
    id_limit: int = 64
    freeform_tools: bool = False
    strict_tools: bool = True
    effort: bool = True
    cache_marks: bool = False
    cache_key: bool = False
    images_in_tools: bool = False
    stream_usage: bool = True
    json_schema: bool = True
    max_stop: int = 4

    @property
    def takes_all(self) -> bool:
        """Whether the upstream accepts every request that the protocol allows, except for freeform tools."""
        return self._restrictions() == DEFAULT._restrictions()

    def _restrictions(self) -> tuple[object, ...]:
        limits = (self.system, self.id_limit, self.max_stop)
        return *limits, self.strict_tools, self.effort, self.stream_usage, self.json_schema


class Options(Value):
    """The form of the answer that a client receives."""

    created: int = 0
    arguments: Literal["buffered", "incremental"] = "buffered"
    usage: bool = True
    reasoning: Literal["reasoning_content", "reasoning", "none", "think"] | None = None
    """The field for thinking. `think` writes thinking into the content, between tags (see `think_tags`). None means
    `reasoning_content`, except that an answer copied from an upstream keeps the upstream's field."""
    freeform: Literal["custom", "function"] = "custom"
    """How to write a call to a freeform tool. `function` is for a client that supports only function calls: the text
    of the call is sent as the arguments, without buffering."""
    id_limit: int | None = None
    """Maximum length of a call id, or None for no limit. A longer id is replaced by its hash."""
    legacy: bool = False
    """Whether to write at most one call, as the deprecated `function_call`, for a client that offered `functions`."""


DEFAULT = Dialect()
