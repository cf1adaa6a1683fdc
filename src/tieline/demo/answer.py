"""What the demo model has decided to do in one leg, before it is spoken as events."""

from tieline.model.content import Value
from tieline.model.events import Failed, Finished, Usage


class Think(Value):
    """A thinking part."""

    text: str


class Say(Value):
    """A text part."""

    text: str


class Call(Value):
    """A tool call; `arguments` is JSON text, or raw text for a freeform tool."""

    name: str
    arguments: str
    freeform: bool = False


class Pause(Value):
    """Silence."""

    seconds: float


Step = Think | Say | Call | Pause


class Answer(Value):
    """The steps of a leg in order. What is None follows from the steps: counted usage, the natural stop reason."""

    steps: tuple[Step, ...] = ()
    usage: Usage | None = None
    ending: Finished | Failed | None = None
