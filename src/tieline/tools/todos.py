"""The todo list that a model keeps while it works: todo_read and todo_write."""

from collections.abc import Sequence
from typing import Annotated, Literal

from msgspec import Meta

from tieline.model.content import Value
from tieline.model.events import Plan, PlanEntry
from tieline.model.events import Status as StepStatus
from tieline.tools.arguments import ToolDefinition
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


class TodoItem(Value):
    """One item of a todo list."""

    id: Annotated[str, Meta(min_length=1, max_length=100, description="A short, stable name of the item.")]
    content: Annotated[str, Meta(min_length=1, max_length=1000, description="What is to be done.")]
    status: Annotated[Status, Meta(description="The state of the item.")] = "pending"


class TodoRead(Value):
    """The arguments of todo_read: none."""


class TodoWrite(Value):
    """The arguments of todo_write."""

    todos: Annotated[tuple[TodoItem, ...], Meta(max_length=MAX_ITEMS, description="The items.")]
    merge: Annotated[
        bool,
        Meta(description="Change or add only these items, by id. Otherwise they replace the whole list."),
    ] = False


TODO_READ = ToolDefinition("todo_read", "Read the todo list, with the status of each item.", TodoRead)
TODO_WRITE = ToolDefinition(
    "todo_write",
    "Keep a todo list for work in several steps: write it at the start, and update the status of an item as soon as it "
    "changes. Only one item should be in progress.",
    TodoWrite,
)


def plan_from_todos(items: Sequence[TodoItem]) -> Plan:
    """Return todo items as a plan, to be shown on the web page."""
    return Plan(entries=tuple(PlanEntry(content=item.content, status=_STEPS[item.status]) for item in items))


class TodoList:
    """The todo list of one turn."""

    def __init__(self, items: Sequence[TodoItem] = ()) -> None:
        self.items: tuple[TodoItem, ...] = tuple(items)

    def read(self) -> str:
        """Run todo_read: return the list as text."""
        if not self.items:
            return "The list is empty."
        return "\n".join(f"{_MARKS[item.status]} {item.id}: {item.content}" for item in self.items)

    def write(self, arguments: TodoWrite) -> str:
        """Run todo_write: change the list, and return it as text. Raise ToolFailed if the new list is invalid."""
        ids = [item.id for item in arguments.todos]
        if twice := sorted({one for one in ids if ids.count(one) > 1}):
            raise ToolFailed(f"each id must be unique, but these occur more than once: {', '.join(twice)}")
        kept = {item.id: item for item in self.items} if arguments.merge else {}
        kept |= {item.id: item for item in arguments.todos}
        if len(kept) > MAX_ITEMS:
            raise ToolFailed(f"the list would have {len(kept)} items; at most {MAX_ITEMS} are allowed")
        self.items = tuple(kept.values())
        return self.read()
