"""Settings for an upstream that deviates from the protocol, and for the form of the answer that a client receives."""

from collections.abc import Callable, Mapping
from typing import Literal

from msgspec import Raw

from tieline.model.content import Value
from tieline.wire.openai_responses.names import OfferedTool


class Dialect(Value, cache_hash=True):
    """The features of the protocol that an upstream supports. The defaults suit OpenAI's own API."""

    encrypted_reasoning: bool = True
    """Whether encrypted reasoning is requested, so that it can be sent back with the history."""
    summary: Literal["none", "auto", "concise", "detailed"] = "none"
    """The kind of reasoning summary to request for a client that uses another protocol and requests thinking."""
    freeform_tools: bool = True
    openai_tools: bool = True
    """Whether the upstream supports namespaces, and the tools that OpenAI defines and clients run. If not, such tools
    and the tools in namespaces are sent as functions."""
    strict_tools: bool = True
    effort: bool = True
    cache_key: bool = True
    json_schema: bool = True
    id_limit: int = 64

    @property
    def takes_all(self) -> bool:
        """Whether the upstream accepts every request that the protocol allows."""
        return self._restrictions() == DEFAULT._restrictions()

    def _restrictions(self) -> tuple[object, ...]:
        tools = (self.freeform_tools, self.openai_tools, self.strict_tools)
        return *tools, self.effort, self.cache_key, self.json_schema, self.id_limit


class Options(Value):
    """The form of the answer that a client receives. `usage`, an option of every codec, has no effect here."""

    created: int = 0
    arguments: Literal["buffered", "incremental"] = "incremental"
    usage: bool = True
    response_id: str = ""
    """The id of the response; if empty, the upstream's id is used."""
    model: str = ""
    """The model name to write if the response has to begin before the upstream answers."""
    echo: bytes = b""
    """Members of the response that repeat the request, as JSON without braces (see `echo`)."""
    own: Mapping[str, Raw] = {}
    """Members to replace in a response that is copied from the upstream. They repeat fields of the request that were
    not sent to the upstream."""
    tools: Mapping[str, OfferedTool] = {}
    """The client's tools by their flat name (see `names`)."""
    encrypted: bool = False
    """Whether reasoning items contain `encrypted_content`, which the client sends back in its next request."""
    keep_cut_calls: bool = True
    """Whether the final response contains a call that was cut off, marked as incomplete. If not, the call is left
    out."""
    completes_cut: bool = False
    """Whether an answer that was cut off is written as complete, with a message that says why it ends there."""
    compaction: bool = False
    """Whether the answer is a summary of the conversation, to be written as one compaction item (see `compaction`)."""
    now: Callable[[], float] | None = None
    """A function that returns the current time, for `completed_at`. Without it, `completed_at` equals `created`."""


DEFAULT = Dialect()
