"""A list of things to do that a model keeps while it works."""

from collections.abc import Sequence
from typing import Annotated, Literal

from msgspec import Meta

from tieline.model.content import Value
from tieline.model.events import Plan, PlanEntry
from tieline.model.events import Status as StepStatus
from tieline.tools.arguments import Form
from tieline.tools.errors import ToolFailed

MAX_ITEMS = 100

Status = Literal["pending", "in_progress", "completed", "cancelled"]

_MARKS: dict[str, str] = {"pending": "[ ]", "in_progress": "[>]", "completed": "[x]", "cancelled": "[-]"}

_STEPS: dict[Status, StepStatus] = {
    "pending": "pending",
    "in_progress": "in_progress",
    "completed": "completed",
    "cancelled": "failed",
}


class Todo(Value):
    """One thing to do."""

    id: Annotated[str, Meta(min_length=1, max_length=100, description="A short name of the item that stays the same.")]
    content: Annotated[str, Meta(min_length=1, max_length=1000, description="What there is to do.")]
    status: Annotated[Status, Meta(description="How far it is.")] = "pending"


class TodoRead(Value):
    """The arguments of todo_read: none."""


class TodoWrite(Value):
    """The arguments of todo_write."""

    todos: Annotated[tuple[Todo, ...], Meta(max_length=MAX_ITEMS, description="The items.")]
    merge: Annotated[
        bool,
        Meta(description="Change or add only these items, by their id. Otherwise they become the whole list."),
    ] = False


TODO_READ = Form("todo_read", "See the list of things to do, with the state of each.", TodoRead)
TODO_WRITE = Form(
    "todo_write",
    "Keep a list of things to do for work of several steps: write it at the start, and change the status of an item as "
    "soon as it changes. Only one item should be in progress.",
    TodoWrite,
)


def plan_of(items: Sequence[Todo]) -> Plan:
    """The list as whoever looks on sees it."""
    return Plan(entries=tuple(PlanEntry(content=item.content, status=_STEPS[item.status]) for item in items))


class Todos:
    """The list of one session."""

    def __init__(self, items: Sequence[Todo] = ()) -> None:
        self.items: tuple[Todo, ...] = tuple(items)

    def read(self) -> str:
        """What todo_read answers."""
        if not self.items:
            return "The list is empty."
        return "\n".join(f"{_MARKS[item.status]} {item.id}: {item.content}" for item in self.items)

    def write(self, arguments: TodoWrite) -> str:
        """What todo_write answers; a list that does not fit changes nothing."""
        ids = [item.id for item in arguments.todos]
        if twice := sorted({one for one in ids if ids.count(one) > 1}):
            raise ToolFailed(f"each id may occur only once, but these occur more often: {', '.join(twice)}")
        kept = {item.id: item for item in self.items} if arguments.merge else {}
        kept |= {item.id: item for item in arguments.todos}
        if len(kept) > MAX_ITEMS:
            raise ToolFailed(f"the list would have {len(kept)} items; at most {MAX_ITEMS} fit")
        self.items = tuple(kept.values())
        return self.read()
