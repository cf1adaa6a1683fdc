"""How one upstream deviates from the protocol, and how one client wants its answer."""

from collections.abc import Callable, Mapping
from typing import Literal

from msgspec import Raw

from tieline.model.content import Value
from tieline.wire.openai_responses.names import OfferedTool


class Dialect(Value, cache_hash=True):
    """What one upstream accepts; the defaults suit OpenAI's own API."""

    stateful: bool = False
    """Whether the upstream stores responses for its clients: `store`, `previous_response_id` and `conversation` are
    then sent as a client of this protocol wrote them. Otherwise the whole history is sent, and nothing is stored."""
    encrypted_reasoning: bool = True
    """Whether encrypted reasoning is requested, so that it can be sent back with the history."""
    summary: Literal["none", "auto", "concise", "detailed"] = "none"
    """The summary of its reasoning that a client of another protocol gets, if it requests thinking."""
    freeform_tools: bool = True
    openai_tools: bool = True
    """Whether namespaces are known, and tools that OpenAI defines and clients run; if not, they become functions."""
    strict_tools: bool = True
    effort: bool = True
    cache_key: bool = True
    json_schema: bool = True
    id_limit: int = 64

    @property
    def takes_all(self) -> bool:
        """Whether the upstream accepts everything a client of this protocol may send."""
        return self._restrictions() == DEFAULT._restrictions()

    def _restrictions(self) -> tuple[object, ...]:
        tools = (self.freeform_tools, self.openai_tools, self.strict_tools)
        return *tools, self.effort, self.cache_key, self.json_schema, self.id_limit


class Options(Value):
    """How one client wants its answer. `usage` has no effect here; all codecs have it."""

    created: int = 0
    arguments: Literal["buffered", "incremental"] = "incremental"
    usage: bool = True
    response_id: str = ""
    """The id of the response; if empty, the id that the upstream gave."""
    model: str = ""
    """The model of the response, if it begins before the upstream answers."""
    echo: bytes = b""
    """Members of the response that repeat the request, as JSON without braces (see `echo`)."""
    own: Mapping[str, Raw] = {}
    """Members of the response that a copied one has instead of the upstream's: they were not sent upstream."""
    tools: Mapping[str, OfferedTool] = {}
    """The client's tools by their neutral name (see `names`)."""
    encrypted: bool = False
    """Whether reasoning items have `encrypted_content`, which the client sends back in its next request."""
    keep_cut_calls: bool = True
    """Whether a call that was cut off is an incomplete item of the final response; otherwise it is left out."""
    compaction: bool = False
    """Whether the text of the answer is a summary, and written as one compaction item (see `compaction`)."""
    now: Callable[[], float] | None = None
    """Returns the time, for `completed_at`; without it, that is `created`."""


DEFAULT = Dialect()
