"""The demo model's reply for one leg, before it is converted to events."""

from tieline.model.content import Value
from tieline.model.events import Failed, Finished, Usage


class Think(Value):
    """A step that writes a thinking part."""

    text: str


class Say(Value):
    """A step that writes a text part."""

    text: str


class CallTool(Value):
    """A step that calls a tool. `arguments` is JSON text, or raw text for a freeform tool."""

    name: str
    arguments: str
    freeform: bool = False


class Silence(Value):
    """A step that pauses the stream."""

    seconds: float


Step = Think | Say | CallTool | Silence


class DemoReply(Value):
    """The steps of a leg, in order.

    If `usage` is None, it is counted from the request and the steps. If `ending` is None, it is derived from them.
    """

    steps: tuple[Step, ...] = ()
    usage: Usage | None = None
    ending: Finished | Failed | None = None
