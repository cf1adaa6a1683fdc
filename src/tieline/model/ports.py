"""The interfaces between the layers: backends and runs, the gateway's tools, the person who answers, storage.

A *run* may outlive the leg that opened it: `leg()` returns batches of events up to and including an ending, `answer()`
submits tool results, and the next `leg()` continues from there. A live two-way stream, an agent that waits for a tool
and a stateless HTTP API all have this interface, so the layers above do not need to know which one they use.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from tieline.model.content import File, Image, ToolCall, ToolResult, Value
from tieline.model.events import Batch, Diff, Headers, Note, Plan
from tieline.model.inbox import Approval, ApprovalAnswer, PlanReview, Question, QuestionAnswer, ReviewAnswer
from tieline.model.request import Request, ToolSpec


class ModelInfo(Value):
    """A model that a backend offers, by its upstream name."""

    id: str
    title: str = ""
    created: int = 0
    context: int | None = None
    """The size of its context window in tokens, if known."""
    owner: str = ""
    """The name of its backend; set when models are listed."""


class Leg(Protocol):
    """Batches of events up to and including an ending; an async generator is one."""

    def __aiter__(self) -> AsyncIterator[Batch]: ...

    def __anext__(self) -> Awaitable[Batch]: ...

    def aclose(self) -> Awaitable[None]:
        """Stop reading, and free what the leg holds."""


def notes_of(leg: Leg | None) -> Sequence[Note]:
    """Return the notes of a leg about its request, available before the upstream answers. `notes` is optional."""
    notes: Sequence[Note] = getattr(leg, "notes", ())
    return notes


class Run(Protocol):
    """A conversation in progress with a backend."""

    @property
    def pending(self) -> frozenset[str]:
        """The ids of the calls whose results the upstream waits for. If there are none, the run can be closed."""

    def leg(self) -> Leg:
        """Return the events up to and including the next ending."""

    async def answer(self, results: Sequence[ToolResult], request: Request | None = None, words: str = "") -> None:
        """Submit results of calls of the last leg, not necessarily all of them; `pending` shrinks.

        `request` is the client's request with the results, if there is one: its complete history and its tools serve to
        replay the run if the upstream has lost it. `words` is user text sent along with the results.
        """

    async def aclose(self) -> None:
        """End the run and free what it holds."""


class Human(Protocol):
    """The person who answers inbox items. Every wait ends; without an answer the result is a rejection."""

    @property
    def is_present(self) -> bool:
        """Whether the inbox is watched at the moment."""

    async def permit(self, approval: Approval) -> ApprovalAnswer: ...

    async def review(self, plan: PlanReview) -> ReviewAnswer: ...

    async def fill(self, question: Question) -> QuestionAnswer: ...


class Host(NamedTuple):
    """What a backend or tool may use on the client's side of a leg."""

    human: Human


class Progress(Value):
    """The progress of a running tool call; each report is complete."""

    output: str | None = None
    """The output so far; None if only the result is to be shown."""
    diffs: tuple[Diff, ...] = ()
    exit_code: int | None = None
    """The exit code of a command that ended by itself."""
    is_failed: bool = False
    """Whether the call is shown as failed although its result is not an error (a non-zero exit code)."""


Report = Callable[[Progress | Plan], None]
"""Called with the progress of a running call. Of several reports in a row, only the last is shown."""


def no_report(_: Progress | Plan) -> None:
    """Ignore the progress of a call."""


class Tools(Protocol):
    """The gateway's own tools for one turn. Calls that need approval ask the host's human."""

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """The tools offered at the moment. A call may change them, such as an approved plan."""

    def owns(self, name: str) -> bool:
        """Return whether there is a tool with this name."""

    def kind_of(self, call: ToolCall) -> str:
        """Return the kind of a call for its activity: read, edit, execute, …."""

    async def execute(self, call: ToolCall, host: Host, report: Report = no_report) -> ToolResult:
        """Run a call. `report` is called with its progress, and with the plan if the call changes it."""


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
        """Whether model names may have options, such as `?mode=plan`."""

    @property
    def obeys_limits(self) -> bool:
        """Whether the gateway does not enforce token limits, stop sequences, forced tools and output schemas.

        This is so if the upstream supports them, or is an agent that must not be interrupted for them.
        """

    async def models(self) -> Sequence[ModelInfo]:
        """Return the available models. Raise GatewayError if the upstream cannot be reached."""

    async def start(self, request: Request, host: Host) -> Run:
        """Start a run. `request.model` is the upstream's own name of the model. Some upstreams ask the host's human."""

    async def count(self, request: Request) -> int | None:
        """Return the number of tokens of the prompt, or None if the upstream cannot count them."""

    async def aclose(self) -> None:
        """Free connections and processes."""


def protocol_of(backend: Backend) -> str:
    """Return the protocol in which a backend sends a request on, so that it can use the request's source.

    Most backends have no such `protocol`.
    """
    protocol: str = getattr(backend, "protocol", "")
    return protocol


class ForwardedAnswer(Protocol):
    """The answer to a forwarded request, unchanged."""

    @property
    def content_type(self) -> str: ...

    @property
    def headers(self) -> Headers:
        """The upstream's headers that are passed on to the client."""

    async def chunk(self) -> bytes:
        """Return more of the body; empty at its end. Raise GatewayError if the upstream breaks off."""

    def close(self) -> None:
        """Stop reading, and free the connection."""


@runtime_checkable
class ForwardingBackend(Protocol):
    """A backend that forwards requests for other endpoints, such as embeddings."""

    async def forward(self, endpoint: str, content_type: str, body: bytes) -> ForwardedAnswer:
        """Send a request to an endpoint, given as its path below the base URL. Raise GatewayError if it fails."""


class Store(Protocol):
    """Persistent storage: documents as bytes, by key, in named collections ("shelves").

    No method raises: an error of the disk is logged, and what could not be written is lost at the next restart.
    """

    async def read(self, shelf: str) -> Mapping[str, bytes]:
        """Return all documents of a shelf by key, in the order in which they were first written."""

    async def write(self, shelf: str, key: str, data: bytes) -> None:
        """Write a document, replacing the one with the same key."""

    async def remove(self, shelf: str, key: str | None = None) -> None:
        """Remove a document, or all documents of the shelf."""

    async def aclose(self) -> None:
        """Wait until everything is written."""


class Files(Protocol):
    """The files that a person can attach to a message."""

    async def find(self, query: str) -> Sequence[str]:
        """Return the paths that match these letters, the best match first."""

    async def read(self, path: str) -> Image | File:
        """Return the content of a file. Raise GatewayError if it cannot be read."""
