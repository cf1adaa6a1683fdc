"""Inbox items, which wait for a person, and their answers: approvals, plan reviews and questions."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from msgspec import field

from tieline.model.content import Value
from tieline.model.events import PlanEntry

OptionKind = Literal["allow_once", "allow_always", "reject_once", "reject_always", "other"]
FieldKind = Literal["yes_no", "choice", "text", "number", "file"]


class Option(Value):
    """One of the answers to choose from. An answer refers to it by `id`."""

    id: str
    label: str = ""
    kind: OptionKind = "other"
    description: str = ""


ALLOW = Option(id="allow", label="Allow once", kind="allow_once")
ALWAYS = Option(id="always", label="Always allow", kind="allow_always")
DENY = Option(id="deny", label="Deny", kind="reject_once")
DEFAULT_OPTIONS = (ALLOW, ALWAYS, DENY)
ALLOWING_KINDS: frozenset[OptionKind] = frozenset(["allow_once", "allow_always"])
"""Option kinds that grant what was requested."""


ITEM_LIMIT = 1 << 20
"""Maximum length of one item in characters: its command, diff, details and arguments together."""


class Approval(Value, tag="permission"):
    """A request to approve one tool call. It shows exactly what would run or change."""

    title: str
    """One line, possibly shortened; the other fields are complete."""
    tool: str = ""
    kind: str = "other"
    """read, edit, delete, move, search, execute, think, fetch, switch_mode or other."""
    path: str | None = None
    command: str | None = None
    diff: str = ""
    detail: str = ""
    """Everything `command`, `path` and `diff` do not show: other arguments and the agent's own description."""
    input: str = ""
    """The call's arguments as received, usually JSON text. Never replaced by an agent's description of them."""
    hidden: int = 0
    """Number of characters cut from the fields above because of `ITEM_LIMIT`; each gap is marked."""
    risk: str = ""
    """One sentence about the risk of this call; empty if no risk was recognised."""
    options: tuple[Option, ...] = DEFAULT_OPTIONS


class PlanReview(Value, tag="plan_review"):
    """A plan to approve or reject. The agent does nothing until it is answered."""

    title: str
    plan: str = ""
    """The complete plan in Markdown."""
    steps: tuple[PlanEntry, ...] = ()
    detail: str = ""
    """Arguments of the call that are not the plan."""
    input: str = ""
    """The call's arguments as received; see `Approval.input`."""
    hidden: int = 0
    """See `Approval.hidden`."""
    options: tuple[Option, ...] = ()
    """The agent's own answers, if it offers any; the kind of each says whether it approves or rejects."""


def within_limit(texts: Sequence[str]) -> tuple[tuple[str, ...], int]:
    """Shorten the longest texts until all of them fit `ITEM_LIMIT`; return them and the number of characters cut."""
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
    """Build a PlanReview, titled with the plan's name or, failing that, its overview."""
    return PlanReview(title=name or overview or "A plan", plan=plan or (overview if name else ""), steps=tuple(steps))


def mode_switch(mode: str, reason: str = "", tool: str = "") -> Approval:
    """Build the approval for switching the model to another mode, such as plan or agent."""
    title = f"Switch to {mode} mode"
    return Approval(title=title, tool=tool, kind="switch_mode", detail=reason, options=(ALLOW, DENY))


class Field(Value):
    """One input of a question, and the constraints on its value."""

    name: str
    kind: FieldKind = "text"
    title: str = ""
    description: str = ""
    required: bool = False
    default: Any = None
    options: tuple[Option, ...] = ()
    many: bool = False
    """Choice: whether more than one option may be chosen."""
    is_open: bool = False
    """Choice: whether free text is accepted besides the options."""
    is_whole: bool = False
    """Number: whether it must be an integer."""
    minimum: float | None = None
    """Lower bound: of the number, of the length of the text, or of the number of chosen options."""
    maximum: float | None = None
    pattern: str = ""
    format: str = ""


class Question(Value, tag="form"):
    """A form with one or more fields. With a `url`, a page to visit and to confirm afterwards."""

    message: str
    fields: tuple[Field, ...] = ()
    url: str = ""


InboxItem = Approval | PlanReview | Question


class ApprovalAnswer(Value, tag="permitted"):
    """The chosen option; None if no choice was made, in which case `reason` says why."""

    option: str | None = None
    reason: str = ""


class ReviewAnswer(Value, tag="reviewed"):
    """Whether the plan is approved, and what to change if it is not."""

    approved: bool
    feedback: str = ""
    option: str | None = None
    """The plan's option that was chosen; None lets the backend pick one that matches `approved`."""
    is_unanswered: bool = field(default=False, name="is_unanswered")
    """True if no person decided (timeout, full inbox): a default rejection, with the cause in `feedback`."""


class QuestionAnswer(Value, tag="filled"):
    """The values by field name. Declining and cancelling are answers too."""

    action: Literal["accept", "decline", "cancel"] = "accept"
    values: Mapping[str, Any] = {}
    reason: str = ""


Answer = ApprovalAnswer | ReviewAnswer | QuestionAnswer


class Origin(Value):
    """Where an inbox item comes from: the model, the client and the conversation."""

    model: str = ""
    frontend: str = ""
    client: str = ""
    title: str = ""
    session: str = ""
    """Id of the web page's session, if the request came from the page."""
