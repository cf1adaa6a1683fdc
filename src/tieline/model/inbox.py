"""Inbox items (approvals, plan reviews and questions that wait for a person), and the answers to them."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from msgspec import field

from tieline.model.content import Value
from tieline.model.events import PlanEntry

OptionKind = Literal["allow_once", "allow_always", "reject_once", "reject_always", "other"]
FieldKind = Literal["yes_no", "choice", "text", "number", "file"]


class Option(Value):
    """An option that a person can choose. The answer contains its `id`."""

    id: str
    label: str = ""
    kind: OptionKind = "other"
    description: str = ""


ALLOW = Option(id="allow", label="Allow once", kind="allow_once")
ALWAYS = Option(id="always", label="Always allow", kind="allow_always")
DENY = Option(id="deny", label="Deny", kind="reject_once")
DEFAULT_OPTIONS = (ALLOW, ALWAYS, DENY)
ALLOWING_KINDS: frozenset[OptionKind] = frozenset(["allow_once", "allow_always"])
"""The kinds of options that approve a tool call or a plan."""


ITEM_LIMIT = 1 << 20
"""Maximum length of one inbox item in characters: its command, diff or plan, details and arguments together."""


class Approval(Value, tag="permission"):
    """A request to approve one tool call. It shows exactly what the call would run or change."""

    title: str
    """A one-line summary, possibly shortened. The other fields contain the details."""
    tool: str = ""
    kind: str = "other"
    """One of read, edit, delete, move, search, execute, think, fetch, switch_mode or other."""
    path: str | None = None
    command: str | None = None
    diff: str = ""
    detail: str = ""
    """Details that `command`, `path` and `diff` do not contain: other arguments, and the agent's own description."""
    input: str = ""
    """The call's arguments exactly as received, usually JSON text.

    An agent's description of them does not belong here.
    """
    hidden: int = 0
    """The number of characters cut from the other fields to meet `ITEM_LIMIT`. A mark in the text shows each cut."""
    risk: str = ""
    """One sentence about the risk of this call; empty if no risk was recognised."""
    options: tuple[Option, ...] = DEFAULT_OPTIONS


class PlanReview(Value, tag="plan_review"):
    """A plan to approve or reject. The agent waits until the review is answered."""

    title: str
    plan: str = ""
    """The complete plan in Markdown."""
    steps: tuple[PlanEntry, ...] = ()
    detail: str = ""
    """The arguments of the call other than the plan."""
    input: str = ""
    """The call's arguments as received; see `Approval.input`."""
    hidden: int = 0
    """The number of characters that were cut; see `Approval.hidden`."""
    options: tuple[Option, ...] = ()
    """The options that the agent itself offers, if any. The kind of an option says whether it approves the plan."""


def within_limit(texts: Sequence[str]) -> tuple[tuple[str, ...], int]:
    """Shorten the longest texts until the total length of all texts is within `ITEM_LIMIT`.

    Return the texts and the number of characters that were cut.
    """
    left, most = ITEM_LIMIT, 0
    for rank, length in enumerate(sorted(map(len, texts))):
        most = max(most, left // (len(texts) - rank))
        left -= min(length, most)
    cut = tuple(_cut(text, most) for text in texts)
    return cut, sum(len(text) - most for text in texts if len(text) > most)


def _cut(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    head = most - most // 2
    return f"{text[:head]}\n… {len(text) - most:,} characters are hidden here …\n{text[len(text) - most // 2 :]}"


def plan_review(plan: str, *, name: str = "", overview: str = "", steps: Sequence[PlanEntry] = ()) -> PlanReview:
    """Build a PlanReview. Its title is the plan's name, or the overview if the plan has no name."""
    return PlanReview(title=name or overview or "A plan", plan=plan or (overview if name else ""), steps=tuple(steps))


def mode_switch(mode: str, reason: str = "", tool: str = "") -> Approval:
    """Build a request to let the model switch to another mode, such as plan or agent. `tool` is the tool it called."""
    title = f"Switch to {mode} mode"
    return Approval(title=title, tool=tool, kind="switch_mode", detail=reason, options=(ALLOW, DENY))


class Field(Value):
    """One input field of a question, with the constraints on its value."""

    name: str
    kind: FieldKind = "text"
    title: str = ""
    description: str = ""
    required: bool = False
    default: Any = None
    options: tuple[Option, ...] = ()
    many: bool = False
    """Whether more than one option may be chosen, if the field is a choice."""
    is_open: bool = False
    """Whether free text is also accepted, if the field is a choice."""
    is_whole: bool = False
    """Whether the value must be an integer, if the field is a number."""
    minimum: float | None = None
    """Lower bound for the value of a number, the length of a text, or the number of chosen options."""
    maximum: float | None = None
    pattern: str = ""
    format: str = ""


class Question(Value, tag="form"):
    """A form for a person to fill in. If `url` is set, the person must visit that page and then confirm the visit."""

    message: str
    fields: tuple[Field, ...] = ()
    url: str = ""


InboxItem = Approval | PlanReview | Question


class ApprovalAnswer(Value, tag="permitted"):
    """The answer to an approval: the id of the chosen option. If it is None, `reason` says why none was chosen."""

    option: str | None = None
    reason: str = ""


class ReviewAnswer(Value, tag="reviewed"):
    """The answer to a plan review: whether the plan is approved, and if not, what to change (`feedback`)."""

    approved: bool
    feedback: str = ""
    option: str | None = None
    """The id of the option chosen from `PlanReview.options`. If None, the backend picks one that matches `approved`."""
    is_unanswered: bool = field(default=False, name="is_unanswered")
    """Whether the plan was rejected because no person decided (timeout, full inbox). `feedback` gives the reason."""


class QuestionAnswer(Value, tag="filled"):
    """The answer to a question: the entered values by field name, unless the person declined or cancelled."""

    action: Literal["accept", "decline", "cancel"] = "accept"
    values: Mapping[str, Any] = {}
    reason: str = ""


Answer = ApprovalAnswer | ReviewAnswer | QuestionAnswer


class Origin(Value):
    """The origin of an inbox item: the model, the client and the conversation that it belongs to."""

    model: str = ""
    frontend: str = ""
    client: str = ""
    title: str = ""
    session: str = ""
    """The id of the session, if the request came from the web page; otherwise empty."""
    owner: str = ""
    """The name of the client's key; see `scope`."""
    workspace: str = ""
    """The name of the workspace; empty for the default workspace."""
