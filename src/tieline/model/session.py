"""The page's conversations as values: what was said, what happened meanwhile, and a session in short.

All fields are always spelled out in JSON, unlike those of other values: the page reads them.
"""

from typing import Literal

from tieline.model.content import Message, Part, Value
from tieline.model.events import Activity, Failed, Finished, Plan, Usage
from tieline.model.request import Effort


class Happening(Value, omit_defaults=False):
    """An activity with its times; `at` is the part it stands before."""

    activity: Activity
    at: int
    began: float
    ended: float | None = None


class Turn(Value, omit_defaults=False):
    """One message. Messages form a tree: those with the same parent are alternatives to one another."""

    id: str
    parent: str | None
    role: Literal["user", "assistant"]
    at: float
    model: str | None = None
    parts: tuple[Part, ...] = ()
    activities: tuple[Happening, ...] = ()
    plan: Plan | None = None
    usage: Usage | None = None
    ending: Finished | Failed | None = None
    """None of a user's message, and while it is still being said."""
    rounds: tuple[Message, ...] = ()
    """Calls of the gateway's tools and their results, as the model has to be told of them again; not for the page."""


class Spent(Value, omit_defaults=False):
    """Tokens of a session: all in and out so far, and how many the model had before it at last."""

    input: int = 0
    output: int = 0
    context: int | None = None
    window: int | None = None
    """How many it can have before it, where that is known."""


class Summary(Value, omit_defaults=False):
    """A session in short."""

    id: str
    title: str
    model: str
    mode: str | None = None
    effort: Effort | None = None
    created: float = 0.0
    updated: float = 0.0
    running: bool = False
    messages: int = 0
    """How many the branch has that is shown."""
    usage: Spent = Spent()
