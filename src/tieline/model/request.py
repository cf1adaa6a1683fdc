"""What a client asks, in neutral words."""

from collections.abc import Mapping
from typing import Literal

import msgspec

from tieline.model.content import NO_META, Message, Meta, Value

Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]

EMPTY_SCHEMA = b'{"type":"object","properties":{}}'


class ToolSpec(Value):
    """A tool the model may call. `schema` is JSON text; a freeform tool takes raw text and has no schema.

    `hosted` names a tool that the upstream runs by itself (a web search, say): it stands whole in `meta` under its
    protocol, and only a backend of that protocol can offer it.
    """

    name: str
    description: str = ""
    schema: bytes = EMPTY_SCHEMA
    strict: bool | None = None
    freeform: bool = False
    hosted: str | None = None
    meta: Meta = NO_META


class ToolChoice(Value):
    """Whether the model may, must or must not call a tool; `names` narrows the choice to some of them."""

    mode: Literal["auto", "none", "required"] = "auto"
    names: tuple[str, ...] = ()
    parallel: bool | None = None
    given: bool = False
    """Whether the client said anything at all: a silent client stays silent upstream."""


class Sampling(Value):
    """How to draw the answer. What is None was not said, and is not said upstream either."""

    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    stop: tuple[str, ...] = ()


class Reasoning(Value):
    """How much to think: off, on with a budget, or as the model sees fit; `effort` is the coarse way to say it."""

    mode: Literal["off", "budget", "adaptive"] | None = None
    budget: int | None = None
    effort: Effort | None = None
    meta: Meta = NO_META


class OutputFormat(Value):
    """The answer has to be JSON, of a schema when one is given."""

    name: str = "output"
    schema: bytes | None = None
    strict: bool | None = None


class Selection(Value):
    """What a client selects by name from the configuration, for upstreams that work in a folder with tool servers."""

    folder: str | None = None
    servers: tuple[str, ...] = ()


class RequestSource:
    """The JSON of a request.

    Requests with the same meaning are equal, whatever their JSON looks like: a source is equal to any other and to
    none.
    """

    __slots__ = ("body", "messages", "parsed", "protocol")

    def __init__(self, protocol: str, body: bytes, messages: tuple[bytes | None, ...], parsed: "Request") -> None:
        self.protocol = protocol
        self.body = body
        self.messages = messages
        """The JSON text of each message of the parsed request; None where it is not a message of its own, or where an
        upstream might refuse it as it is."""
        self.parsed = parsed
        """The request as it was parsed. A field that is the same object in another request is unchanged."""

    def __eq__(self, other: object) -> bool:
        return other is None or isinstance(other, RequestSource)

    def __hash__(self) -> int:
        return 0


class Request(Value):
    """One request of a client: the whole history, the tools, and how to answer."""

    model: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    tool_choice: ToolChoice = ToolChoice()
    sampling: Sampling = Sampling()
    reasoning: Reasoning = Reasoning()
    output: OutputFormat | None = None
    stream: bool = False
    incremental_calls: bool = False
    """Whether a streaming client is shown the arguments of a call before they are complete. If not, a call that breaks
    off has not been seen, and the answer can be tried again."""
    usage_in_stream: bool = True
    """Whether a streaming client asked for usage; upstream is always asked."""
    user: str | None = None
    cache_key: str | None = None
    session: str | None = None
    mode: str | None = None
    """How the model is to work: chat, plan, agent, or what an agent offers."""
    selection: Selection | None = None
    protocol: str = ""
    """The protocol `extra` and `headers` are spelled in: only a backend of that protocol passes them on."""
    extra: Mapping[str, msgspec.Raw] = {}
    """Top-level fields we did not understand, as they came."""
    headers: tuple[tuple[str, str], ...] = ()
    """The few client headers an upstream of the same protocol may want, by lower-case name."""
    source: RequestSource | None = None
    """The JSON it was parsed from, for a backend of the same protocol."""
