"""The types that are the architecture: what a backend is, and what it gives.

A *run* may outlive the leg that opened it: `leg()` gives batches of events up to and including an ending, `answer()`
hands over tool results, and the next `leg()` goes on from there. A live two-way stream, an agent that waits for a
tool and a stateless HTTP API all fit, so nothing above this line knows which it talks to.
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
    """How many tokens its context holds, where that is known."""
    owner: str = ""
    """The name of its backend, once it is listed."""


class Leg(Protocol):
    """Batches of events up to and including an ending; an async generator is one."""

    def __aiter__(self) -> AsyncIterator[Batch]: ...

    def __anext__(self) -> Awaitable[Batch]: ...

    def aclose(self) -> Awaitable[None]:
        """Give up what has not come yet."""


def notes_of(leg: Leg | None) -> Sequence[Note]:
    """What a leg notes about its request before the upstream has answered; many legs have no such `notes`."""
    notes: Sequence[Note] = getattr(leg, "notes", ())
    return notes


class Run(Protocol):
    """A conversation under way with a backend."""

    @property
    def pending(self) -> frozenset[str]:
        """The calls the upstream waits for; empty when it waits for none, so that nothing is lost by closing."""

    def leg(self) -> Leg:
        """The events up to and including the next ending."""

    async def answer(self, results: Sequence[ToolResult], request: Request | None = None, words: str = "") -> None:
        """Hand over results of calls made in the last leg; may be some of them, `pending` shrinks.

        `request` is what brought them, if a client did: the whole history and the tools of now, in case the run is
        gone and has to be replayed. `words` are the user's that came with them.
        """

    async def aclose(self) -> None:
        """End the run and free what it holds."""


class Human(Protocol):
    """Whoever may say yes: a web page, a terminal, a fixed rule. Every wait ends, at the latest with a no."""

    @property
    def is_present(self) -> bool:
        """Whether somebody is there to look at what is asked."""

    async def permit(self, ask: Approval) -> ApprovalAnswer: ...

    async def review(self, ask: PlanReview) -> ReviewAnswer: ...

    async def fill(self, ask: Question) -> QuestionAnswer: ...


class Host(NamedTuple):
    """What stands on the client's side of a leg."""

    human: Human


class Progress(Value):
    """How far a call is, for whoever looks on: each time all that is known of it by now."""

    output: str | None = None
    """What it has put out so far; None if its result says all there is to say."""
    diffs: tuple[Diff, ...] = ()
    exit_code: int | None = None
    """The exit code of a command that has ended by itself."""
    is_failed: bool = False
    """Whether it failed, even though the model gets an ordinary result (a command with a non-zero exit code)."""


Report = Callable[[Progress | Plan], None]
"""Hears of a call while it runs; of several things that are told at once the last one counts."""


def no_report(_: Progress | Plan) -> None:
    """The report of a call that nobody looks at."""


class Tools(Protocol):
    """The gateway's own tools for one turn; what may not be done without asking is asked of the host's human."""

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """What the model is offered now; a call may change it (a plan that was approved)."""

    def owns(self, name: str) -> bool: ...

    def kind_of(self, call: ToolCall) -> str:
        """read, edit, execute …: what a call is about, for whoever looks on."""

    async def execute(self, call: ToolCall, host: Host, report: Report = no_report) -> ToolResult:
        """Do what a call says; `report` hears how far it is, and of the plan it is a part of."""


class Toolbox(Protocol):
    """Where the tools of a turn come from."""

    def open(self, mode: str) -> Tools:
        """Tools for a turn in this mode of working; raises BadRequest for a mode there is not."""


class Backend(Protocol):
    """Reaches one kind of upstream and makes runs; `name` is the part of a model name before the slash."""

    @property
    def name(self) -> str: ...

    @property
    def is_agent(self) -> bool:
        """Whether the upstream has tools of its own and uses them by itself."""

    @property
    def reads_options(self) -> bool:
        """Whether it understands options behind a model's name (`?mode=plan`)."""

    @property
    def obeys_limits(self) -> bool:
        """Whether token limits, stop sequences, forced tools and output schemas need no help: the upstream knows them,
        or is an agent that nobody may interrupt for them."""

    async def models(self) -> Sequence[ModelInfo]:
        """What can be asked for; raises GatewayError when the upstream cannot be asked."""

    async def start(self, request: Request, host: Host) -> Run:
        """Begin a run. `request.model` is the upstream's own name for the model; some upstreams ask the host back."""

    async def count(self, request: Request) -> int | None:
        """How many tokens the prompt has, or None if this upstream cannot tell."""

    async def aclose(self) -> None:
        """Free connections and processes."""


class ForwardedAnswer(Protocol):
    """The answer to a request that was passed through, as it came."""

    @property
    def content_type(self) -> str: ...

    @property
    def headers(self) -> Headers:
        """Those of the upstream's headers that a client may want."""

    async def chunk(self) -> bytes:
        """More of the body; nothing at its end. Raises GatewayError if the upstream breaks off."""

    def close(self) -> None:
        """Give up what was not read."""


@runtime_checkable
class ForwardingBackend(Protocol):
    """A backend that passes requests of other endpoints through, such as embeddings."""

    async def forward(self, endpoint: str, content_type: str, body: bytes) -> ForwardedAnswer:
        """Send a request to an endpoint by its path below the base address; raises GatewayError."""


class Store(Protocol):
    """What survives a restart: documents on shelves, as bytes that only their owner understands.

    Nothing here raises: a disk that fails is logged, and costs what a restart then forgets.
    """

    async def read(self, shelf: str) -> Mapping[str, bytes]:
        """Everything on a shelf, in the order in which it was first put there."""

    async def write(self, shelf: str, key: str, data: bytes) -> None:
        """Put a document on a shelf, in place of the one with this key."""

    async def remove(self, shelf: str, key: str | None = None) -> None:
        """Take a document off a shelf, or everything."""

    async def aclose(self) -> None:
        """Wait until everything is written."""


class Files(Protocol):
    """The files a person may put into a conversation."""

    async def find(self, query: str) -> Sequence[str]:
        """Paths that have these letters in them, the best first."""

    async def read(self, path: str) -> Image | File:
        """What is in a file; raises GatewayError if it cannot be read."""
