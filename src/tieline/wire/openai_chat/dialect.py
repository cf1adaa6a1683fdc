"""What differs between upstreams that all say they speak Chat Completions."""

from typing import Literal

from tieline.model.content import Value


class Dialect(Value, cache_hash=True):
    """The quirks of one upstream; the defaults suit most."""

    reasoning_field: Literal["reasoning_content", "reasoning", "none"] = "reasoning_content"
    """The field in which thinking is given back."""
    replay_reasoning: bool = False
    """Whether thinking is given back at all: some upstreams demand it, others refuse it."""
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    system: Literal["anywhere", "first"] = "anywhere"
    """Where system messages may stand; `first` also means that there may be only one."""
    text_parts: bool = False
    """Whether content may be a list of texts. A client of this protocol that sends lists gets lists in any case."""
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
        """Whether the upstream takes whatever a client of this protocol may send."""
        return self._restrictions() == DEFAULT._restrictions()

    def _restrictions(self) -> tuple[object, ...]:
        limits = (self.system, self.id_limit, self.max_stop)
        return *limits, self.strict_tools, self.effort, self.stream_usage, self.json_schema


DEFAULT = Dialect()
