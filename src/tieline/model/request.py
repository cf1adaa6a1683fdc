"""A client's request, independent of its protocol."""

from collections.abc import Mapping
from typing import Literal

import msgspec

from tieline.model.content import NO_META, Message, Meta, Value

Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]

EMPTY_SCHEMA = b'{"type":"object","properties":{}}'


class ToolSpec(Value):
    """A tool the model may call. `schema` is JSON text; a freeform tool takes plain text and has no schema.

    `hosted` is the type of a tool that the upstream runs itself, such as a web search. Its definition is in `meta`
    under its protocol, and only a backend of that protocol can offer it.
    """

    name: str
    description: str = ""
    schema: bytes = EMPTY_SCHEMA
    strict: bool | None = None
    freeform: bool = False
    hosted: str | None = None
    meta: Meta = NO_META


class ToolChoice(Value):
    """Whether the model may, must or must not call a tool; `names` restricts the choice to these tools."""

    mode: Literal["auto", "none", "required"] = "auto"
    names: tuple[str, ...] = ()
    parallel: bool | None = None
    given: bool = False
    """Whether the client sent a tool choice; if not, none is sent to the upstream."""


class Sampling(Value):
    """Sampling options. None means that the client did not set the option; then it is not sent to the upstream."""

    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    stop: tuple[str, ...] = ()


class Reasoning(Value):
    """How much to think: not at all, up to a token budget, or as the model decides; `effort` is a coarse level."""

    mode: Literal["off", "budget", "adaptive"] | None = None
    budget: int | None = None
    effort: Effort | None = None
    meta: Meta = NO_META


class OutputFormat(Value):
    """The answer must be JSON, and match the schema if there is one."""

    name: str = "output"
    schema: bytes | None = None
    strict: bool | None = None


class Selection(Value):
    """The working folder and tool servers that a client selects for an agent, by their names in the configuration."""

    folder: str | None = None
    servers: tuple[str, ...] = ()


class RequestSource:
    """The JSON that a request was parsed from.

    Requests with the same meaning are equal, whatever their JSON looks like: a source is equal to any other source and
    to None.
    """

    __slots__ = ("body", "messages", "parsed", "protocol")

    def __init__(self, protocol: str, body: bytes, messages: tuple[bytes | None, ...], parsed: "Request") -> None:
        self.protocol = protocol
        self.body = body
        self.messages = messages
        """The JSON text of each message of the parsed request; None if a message has no JSON of its own, or if an
        upstream might reject it."""
        self.parsed = parsed
        """The parsed request. A field of another request is unchanged if it is the same object."""

    def __eq__(self, other: object) -> bool:
        return other is None or isinstance(other, RequestSource)

    def __hash__(self) -> int:
        return 0


class Request(Value):
    """One request: the complete history, the tools, and options for the answer."""

    model: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    tool_choice: ToolChoice = ToolChoice()
    sampling: Sampling = Sampling()
    reasoning: Reasoning = Reasoning()
    output: OutputFormat | None = None
    stream: bool = False
    incremental_calls: bool = False
    """Whether a streaming client gets the arguments of a call before they are complete. If not, an answer that breaks
    off within a call can be retried, because the client has not seen the call."""
    usage_in_stream: bool = True
    """Whether a streaming client requested usage; it is always requested from the upstream."""
    user: str | None = None
    cache_key: str | None = None
    session: str | None = None
    mode: str | None = None
    """The mode of the model: chat, plan, agent, or a mode that an agent defines."""
    selection: Selection | None = None
    protocol: str = ""
    """The protocol of `extra` and `headers`: only a backend of that protocol passes them on."""
    extra: Mapping[str, msgspec.Raw] = {}
    """Unknown top-level fields, as received."""
    headers: tuple[tuple[str, str], ...] = ()
    """The client's headers that are passed on to an upstream of the same protocol, by lower-case name."""
    source: RequestSource | None = None
    """The JSON of the request, for a backend of the same protocol."""
