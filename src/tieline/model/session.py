"""Values for the conversations on the web page: messages, activities and session summaries.

Unlike most values, these are encoded to JSON with all fields, including defaults, because the page expects every
field.
"""

from typing import Literal

from tieline.model.content import Message, Part, Value
from tieline.model.events import Activity, Failed, Finished, Plan, Usage
from tieline.model.request import Effort
from tieline.model.scope import Place


class TimedActivity(Value, omit_defaults=False):
    """An activity with its start and end time. `at` is the index of the message part that follows the activity."""

    activity: Activity
    at: int
    began: float
    ended: float | None = None


class Turn(Value, omit_defaults=False):
    """One message of a session. Messages form a tree, in which messages with the same parent are alternatives."""

    id: str
    parent: str | None
    role: Literal["user", "assistant"]
    at: float
    model: str | None = None
    parts: tuple[Part, ...] = ()
    activities: tuple[TimedActivity, ...] = ()
    plan: Plan | None = None
    usage: Usage | None = None
    ending: Finished | Failed | None = None
    """How the answer ended; None for a user's message, and while the answer is still being streamed."""
    rounds: tuple[Message, ...] = ()
    """Calls to the gateway's own tools and their results. They are sent to the model with the next message, but not
    shown on the page."""


class SessionUsage(Value, omit_defaults=False):
    """Token counts of a session: `input` and `output` are totals, `context` is the size of the latest prompt."""

    input: int = 0
    output: int = 0
    context: int | None = None
    window: int | None = None
    """The size of the model's context window, if known."""


class Summary(Value, omit_defaults=False):
    """A session's metadata, without its messages."""

    id: str
    title: str
    model: str
    mode: str | None = None
    effort: Effort | None = None
    created: float = 0.0
    updated: float = 0.0
    running: bool = False
    messages: int = 0
    """Number of messages in the displayed branch."""
    usage: SessionUsage = SessionUsage()
    example: bool = False
    """Whether the session is an example, whose tools work in a folder with sample files."""
    owner: str = ""
    """The name of the client's key with which the session was created; see `scope`."""
    workspace: str = ""
    """The name of the workspace; empty for the default workspace."""

    @property
    def place(self) -> Place:
        """The owner and the workspace of the session."""
        return Place(self.owner, self.workspace)
