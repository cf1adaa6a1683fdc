"""How one upstream deviates from the protocol, and how one client wants its answer."""

from typing import Literal

from tieline.model.content import Value


class Dialect(Value, cache_hash=True):
    """What one upstream accepts; the defaults suit most."""

    reasoning_field: Literal["reasoning_content", "reasoning", "none"] = "reasoning_content"
    """The field of a message for earlier thinking."""
    replay_reasoning: bool = False
    """Whether earlier thinking is sent at all: some upstreams require it, others reject it."""
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    system: Literal["anywhere", "first"] = "anywhere"
    """Where system messages are allowed; `first` also means that only one is."""
    text_parts: bool = False
    """Whether content may be a list of texts. A list from a client of this protocol stays a list in any case."""
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
        """Whether the upstream accepts everything a client of this protocol may send."""
        return self._restrictions() == DEFAULT._restrictions()

    def _restrictions(self) -> tuple[object, ...]:
        limits = (self.system, self.id_limit, self.max_stop)
        return *limits, self.strict_tools, self.effort, self.stream_usage, self.json_schema


class Options(Value):
    """How one client wants its answer."""

    created: int = 0
    arguments: Literal["buffered", "incremental"] = "buffered"
    usage: bool = True
    reasoning: Literal["reasoning_content", "reasoning", "none"] | None = None
    """The field for thinking; None: the name an upstream of this protocol used, otherwise reasoning_content."""
    legacy: bool = False
    """Whether calls are written as `function_call`, for a client that offered `functions`: one call at most."""


DEFAULT = Dialect()
