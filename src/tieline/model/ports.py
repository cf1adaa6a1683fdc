"""The interfaces between the layers: backends and runs, the gateway's tools, the inbox, and storage.

A *run* may outlive the leg that opened it: `leg()` returns batches of events up to and including an ending, `answer()`
submits tool results, and the next `leg()` continues from there. A bidirectional stream, an agent that waits for a tool
and a stateless HTTP API all fit this interface, so the layers above need not distinguish them.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

from tieline.model.content import NO_META, File, Image, Meta, ToolCall, ToolResult, Value
from tieline.model.events import Batch, Diff, Headers, Note, Plan, Usage
from tieline.model.inbox import Approval, ApprovalAnswer, PlanReview, Question, QuestionAnswer, ReviewAnswer
from tieline.model.request import Effort, Request, ToolSpec

Input = Literal["text", "image", "file", "audio", "video"]
"""A kind of content that a model accepts."""


class ModelFacts(Value, kw_only=True):
    """The known facts about a model. A fact that is not known is None; an unknown title is empty."""

    title: str = ""
    context: int | None = None
    """The size of the model's context window in tokens. Clients shorten a conversation that approaches this size."""
    max_output: int | None = None
    """The maximum number of tokens in an answer."""
    inputs: tuple[Input, ...] | None = None
    tools: bool | None = None
    """Whether the model can call the client's tools."""
    thinks: bool | None = None
    efforts: tuple[Effort, ...] | None = None
    """The reasoning efforts that the model supports, in ascending order; empty if it supports none."""

    def known(self) -> dict[str, Any]:
        """Return the facts that are known, by name."""
        facts = {name: getattr(self, name) for name in ModelFacts.__struct_fields__}
        return {name: value for name, value in facts.items() if value is not None and value != ""}


class ModelInfo(ModelFacts, kw_only=True):
    """A model that a backend offers; `id` is the upstream's name for it."""

    id: str
    created: int = 0
    owner: str = ""
    """The name of the model's backend. It is filled in when the models of all backends are listed."""
    meta: Meta = NO_META
    """Information about the model that only one protocol can express, keyed by the name of that protocol."""


class Leg(Protocol):
    """An async iterator, such as an async generator, over the batches of a leg, up to and including its ending."""

    def __aiter__(self) -> AsyncIterator[Batch]: ...

    def __anext__(self) -> Awaitable[Batch]: ...

    def aclose(self) -> Awaitable[None]:
        """Stop reading and release the leg's resources."""


def notes_of(leg: Leg | None) -> Sequence[Note]:
    """Return the leg's attribute `notes`, or an empty sequence if it has none.

    These notes are about the leg's request, and are available before the upstream answers.
    """
    notes: Sequence[Note] = getattr(leg, "notes", ())
    return notes


class Run(Protocol):
    """A conversation in progress with a backend."""

    @property
    def pending(self) -> frozenset[str]:
        """The ids of the tool calls whose results the upstream is waiting for. If empty, the run can be closed."""

    def leg(self) -> Leg:
        """Return an iterator over the events up to and including the next ending."""

    async def answer(self, results: Sequence[ToolResult], request: Request | None = None, words: str = "") -> None:
        """Submit the results of some or all pending calls, which are then no longer `pending`.

        `request` is the client request that contained the results, if any. Its complete history and its tools are used
        to replay the run if the upstream has lost it. `words` is user text that accompanies the results.
        """

    async def aclose(self) -> None:
        """End the run and release its resources."""


class Human(Protocol):
    """The person who answers inbox items. An item that is not answered in time is rejected."""

    @property
    def is_present(self) -> bool:
        """Whether a person is watching the inbox at the moment."""

    async def permit(self, approval: Approval) -> ApprovalAnswer: ...

    async def review(self, plan: PlanReview) -> ReviewAnswer: ...

    async def fill(self, question: Question) -> QuestionAnswer: ...


class Host(NamedTuple):
    """The services that the client's side of a leg offers to backends and tools."""

    human: Human


class Progress(Value):
    """The progress of a running tool call. Each report replaces the one before."""

    output: str | None = None
    """All output that the call has produced so far; None if only the final result is to be shown."""
    diffs: tuple[Diff, ...] = ()
    exit_code: int | None = None
    """The exit code of a command that ended by itself; otherwise None."""
    is_failed: bool = False
    """Whether to show the call as failed although its result is not an error, for example after a non-zero exit."""


Report = Callable[[Progress | Plan], None]
"""A callback for the progress of a running call. If reports follow in quick succession, only the last one is shown."""


def no_report(_: Progress | Plan) -> None:
    """Ignore the progress of a call."""


class Tools(Protocol):
    """The gateway's own tools for one turn. If a call needs approval, the tool asks the host's human."""

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """The tools offered at the moment. A call may change them, for example when a plan is approved."""

    def owns(self, name: str) -> bool:
        """Return whether one of these tools has this name."""

    def kind_of(self, call: ToolCall) -> str:
        """Return the kind of the call, as in `Activity.kind`: read, edit, execute and so on."""

    async def execute(self, call: ToolCall, host: Host, report: Report = no_report) -> ToolResult:
        """Run a call and return its result. `report` receives its progress, and the plan if the call changes it."""


class Toolbox(Protocol):
    """Creates the tools for a turn."""

    def open(self, mode: str) -> Tools:
        """Return the tools for a turn in this mode. Raise BadRequest if the mode does not exist."""


class Backend(Protocol):
    """Connects to one kind of upstream and creates runs. `name` is the part of a model name before the slash."""

    @property
    def name(self) -> str: ...

    @property
    def is_agent(self) -> bool:
        """Whether the upstream runs tools of its own."""

    @property
    def reads_options(self) -> bool:
        """Whether the backend's model names may contain options, such as `?mode=plan`."""

    @property
    def obeys_limits(self) -> bool:
        """Whether the gateway can leave token limits, stop sequences, forced tools and output schemas to the upstream.

        This is true if the upstream enforces them itself, or if it is an agent that must not be interrupted.
        """

    async def models(self) -> Sequence[ModelInfo]:
        """Return the available models. Raise GatewayError if the upstream cannot be reached."""

    async def start(self, request: Request, host: Host) -> Run:
        """Start a run. `request.model` is the upstream's name for the model. The run may ask the host's human."""

    async def count(self, request: Request) -> int | None:
        """Return the number of tokens in the prompt, or None if the upstream cannot count them."""

    async def aclose(self) -> None:
        """Close connections and end processes."""


def speaks(backend: Backend, protocol: str) -> bool:
    """Return whether the backend can send requests to its upstream in this protocol.

    If so, it can use the source of a request that a client sent in this protocol. The attribute `protocols` lists the
    protocols. Most backends do not have it, because they use no source.
    """
    protocols: Collection[str] = getattr(backend, "protocols", ())
    return protocol in protocols


class ForwardedAnswer(Protocol):
    """The upstream's answer to a forwarded request, passed on unchanged."""

    @property
    def content_type(self) -> str: ...

    @property
    def headers(self) -> Headers:
        """The upstream's response headers that are passed on to the client."""

    @property
    def usage(self) -> Usage | None:
        """The usage that the upstream reported, known once the whole body has been read; None if it reported none."""

    async def chunk(self) -> bytes:
        """Return the next chunk of the body; empty at the end. Raise GatewayError if the body breaks off."""

    def close(self) -> None:
        """Stop reading and release the connection."""


@runtime_checkable
class ForwardingBackend(Protocol):
    """A backend that can also forward requests to other endpoints of its upstream, such as embeddings."""

    async def forward(self, endpoint: str, content_type: str, body: bytes) -> ForwardedAnswer:
        """Send `body` to an endpoint, which is a path below the base URL. Raise GatewayError if the request fails."""


class Store(Protocol):
    """Persistent storage for documents. Each is a byte string with a key, in a named collection (a "shelf").

    No method raises an exception. Failures are logged, and a change that could not be written may be lost.
    """

    async def read(self, shelf: str) -> Mapping[str, bytes]:
        """Return all documents of a shelf by key, in the order in which they were first written."""

    async def get(self, shelf: str, key: str) -> bytes | None:
        """Return one document, or None if there is none with this key."""

    async def sizes(self, shelf: str) -> Mapping[str, int]:
        """Return the size in bytes of every document of a shelf by key, in the same order as `read`."""

    async def write(self, shelf: str, key: str, data: bytes) -> None:
        """Write a document, replacing any earlier one with the same key."""

    async def remove(self, shelf: str, key: str | None = None) -> None:
        """Remove the document with this key, or all documents of the shelf if `key` is None."""

    def is_written(self, shelf: str, key: str | None = None) -> bool:
        """Return whether all changes to the document, or to the shelf if `key` is None, have been written."""

    async def aclose(self) -> None:
        """Wait, up to a time limit, until all changes have been written."""


class DocumentArchive(Protocol):
    """A bounded, persistent collection of documents, each private to its owner.

    `get`, `holds` and `remove` raise GatewayError if a shared database cannot be reached.
    """

    async def get(self, owner: str, document_id: str) -> bytes | None:
        """Return a document; None if there is no document with this id and owner, or if it has expired."""

    def touch(self, owner: str, document_id: str) -> bool:
        """Mark a document as used. Return False if it is not stored, or if finding it would require waiting."""

    async def holds(self, owner: str, document_ids: Collection[str]) -> bool:
        """Return whether all these documents are stored. Mark them as used."""

    def put(self, owner: str, document_id: str, data: bytes) -> bool:
        """Store a document, replacing any earlier one with this id. Return False if it is too large."""

    async def remove(self, owner: str, document_id: str) -> bool:
        """Remove a document. Return False if there is none with this id and owner, or if it had expired."""

    async def aclose(self) -> None:
        """Wait until all changes have been written to the store."""


class Files(Protocol):
    """The files that a person can attach to a message."""

    async def find(self, query: str) -> Sequence[str]:
        """Return the paths that match the search text, best match first."""

    async def read(self, path: str) -> Image | File:
        """Return the content of a file. Raise GatewayError if it cannot be read."""
