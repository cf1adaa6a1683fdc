"""A client's request, independent of its protocol."""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from tieline.model.content import NO_META, Checkpoint, Message, Meta, Value

Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]

EMPTY_SCHEMA = b'{"type":"object","properties":{}}'


class ToolSpec(Value):
    """A tool that the model may call. `schema` is JSON text; a freeform tool takes plain text and has no schema.

    For a tool that the upstream runs itself, such as a web search, `hosted` is the type of the tool. Its definition is
    in `meta` under the name of its protocol, and only a backend of that protocol can offer the tool.
    """

    name: str
    description: str = ""
    schema: bytes = EMPTY_SCHEMA
    strict: bool | None = None
    freeform: bool = False
    hosted: str | None = None
    meta: Meta = NO_META


class ToolChoice(Value):
    """Whether the model may, must or must not call a tool.

    If `names` is not empty, only these tools may be called. `parallel` says whether several calls at once are allowed.
    """

    mode: Literal["auto", "none", "required"] = "auto"
    names: tuple[str, ...] = ()
    parallel: bool | None = None
    given: bool = False
    """Whether the client sent a tool choice. If not, none is sent to the upstream either."""


class Sampling(Value):
    """Sampling options. An option that the client did not set is None and is not sent to the upstream."""

    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    stop: tuple[str, ...] = ()


class Reasoning(Value):
    """How much the model should think: not at all, up to a token budget, or as much as it sees fit.

    `mode` is None if the client did not set it. `effort` is a level such as low or high, and is independent of `mode`.
    """

    mode: Literal["off", "budget", "adaptive"] | None = None
    budget: int | None = None
    effort: Effort | None = None
    meta: Meta = NO_META


class OutputFormat(Value):
    """Requires the answer to be JSON and, if `schema` is set, to match this JSON schema."""

    name: str = "output"
    schema: bytes | None = None
    strict: bool | None = None


class Selection(Value):
    """The working folder and tool servers that a client selects for an agent, by their configured names."""

    folder: str | None = None
    servers: tuple[str, ...] = ()


class RequestSource:
    """The JSON that a request was parsed from.

    A source compares equal to any other source and to None, so that two requests with the same meaning are equal even
    if their JSON differs.
    """

    __slots__ = ("fields", "messages", "parsed", "protocol")

    def __init__(self, protocol: str, fields: Any, messages: tuple[bytes | None, ...], parsed: "Request") -> None:
        self.protocol = protocol
        self.fields = fields
        """The top level of the JSON, in a form that only the codec of this protocol knows."""
        self.messages = messages
        """The JSON text of each message in the parsed request. An entry is None if the message has no JSON of its
        own, or if an upstream might reject its JSON."""
        self.parsed = parsed
        """The request as parsed. In a modified copy, a field counts as unchanged if it is the same object as here."""

    def __eq__(self, other: object) -> bool:
        return other is None or isinstance(other, RequestSource)

    def __hash__(self) -> int:
        return 0


class Request(Value):
    """A client's request: the complete history, the tools, and options for the answer."""

    model: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    tool_choice: ToolChoice = ToolChoice()
    sampling: Sampling = Sampling()
    reasoning: Reasoning = Reasoning()
    output: OutputFormat | None = None
    stream: bool = False
    incremental_calls: bool = False
    """Whether a streaming client receives the arguments of a call before they are complete. If not, the gateway can
    retry an answer that breaks off in the middle of a call, because the client has not seen the call."""
    incremental_freeform: bool = False
    """Like `incremental_calls`, but only for the text of freeform calls."""
    usage_in_stream: bool = True
    """Whether a streaming client asked for token counts. The gateway always requests them from the upstream."""
    user: str | None = None
    cache_key: str | None = None
    session: str | None = None
    owner: str = ""
    """The name of the client's key. A backend must not continue the conversation of another owner."""
    mode: str | None = None
    """The mode in which the model works: chat, plan, agent, or a mode that a coding agent defines."""
    selection: Selection | None = None
    workspace: str = ""
    """The name of the workspace in which an agent works; empty for the default workspace."""
    protocol: str = ""
    """The client's protocol. Only a backend of the same protocol passes on `extra` and `headers`."""
    extra: Mapping[str, msgspec.Raw] = {}
    """Top-level fields that the gateway does not recognise, as received."""
    headers: tuple[tuple[str, str], ...] = ()
    """The client's headers that are passed on to an upstream of the same protocol, with lower-case names."""
    may_store: bool = False
    """Whether the client allows the upstream to store the conversation, so that it can issue a checkpoint."""
    checkpoint: Checkpoint | None = None
    """Upstream state that covers the history up to and including the last assistant message."""
    source: RequestSource | None = None
    """The JSON that the request was parsed from, for use by a backend of the same protocol."""
