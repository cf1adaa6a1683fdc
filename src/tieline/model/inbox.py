"""What is asked of a person, and the answers: permissions, plans to review, forms to fill in."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from tieline.model.content import Value
from tieline.model.events import PlanEntry

OptionKind = Literal["allow_once", "allow_always", "reject_once", "reject_always", "other"]
FieldKind = Literal["yes_no", "choice", "text", "number", "file"]


class Option(Value):
    """One answer to choose; it is the id that answers."""

    id: str
    label: str = ""
    kind: OptionKind = "other"
    description: str = ""


ALLOW = Option(id="allow", label="Allow once", kind="allow_once")
ALWAYS = Option(id="always", label="Always allow", kind="allow_always")
DENY = Option(id="deny", label="Deny", kind="reject_once")
USUAL = (ALLOW, ALWAYS, DENY)
ALLOWING: frozenset[OptionKind] = frozenset(["allow_once", "allow_always"])
"""The kinds of options that say yes."""


ITEM_LIMIT = 1 << 20
"""Characters of one item: its command, change, details and arguments together."""


class Permission(Value, tag="permission"):
    """May this be done? What is shown is exactly what would run or change."""

    title: str
    """One line, perhaps shortened; whatever it leaves out stands in the other fields."""
    tool: str = ""
    kind: str = "other"
    """read, edit, delete, move, search, execute, think, fetch, switch_mode or other."""
    path: str | None = None
    command: str | None = None
    diff: str = ""
    detail: str = ""
    """What `command`, `path` and `diff` do not show: other arguments, and what the agent says about the call."""
    input: str = ""
    """The arguments of the call as they came, usually JSON text. No description by an agent replaces them."""
    hidden: int = 0
    """How many characters were left out of the fields above because they exceed the limit; each gap is marked."""
    risk: str = ""
    """What is risky about it, in one sentence; empty if nothing was recognised as risky."""
    options: tuple[Option, ...] = USUAL


class PlanReview(Value, tag="plan_review"):
    """Is this plan good? Nothing is done before the answer."""

    title: str
    plan: str = ""
    """The whole of it, in Markdown."""
    steps: tuple[PlanEntry, ...] = ()
    detail: str = ""
    """Arguments of the call that are not the plan."""
    input: str = ""
    """The arguments of the call as they came; see `Permission.input`."""
    hidden: int = 0
    """See `Permission.hidden`."""
    options: tuple[Option, ...] = ()
    """The agent's own answers, if it offers any; each approves or rejects, as its kind says."""


def within_limit(texts: Sequence[str]) -> tuple[tuple[str, ...], int]:
    """The texts, the longest of them shortened as far as the limit demands, and how many characters that hides."""
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
    """A plan with whatever was said to be its name."""
    return PlanReview(title=name or overview or "A plan", plan=plan or (overview if name else ""), steps=tuple(steps))


def mode_switch(mode: str, reason: str = "", tool: str = "") -> Permission:
    """May the model go on in another mode of working?"""
    title = f"Switch to {mode} mode"
    return Permission(title=title, tool=tool, kind="switch_mode", detail=reason, options=(ALLOW, DENY))


class Field(Value):
    """One thing a form wants to know, and what an answer must be like."""

    name: str
    kind: FieldKind = "text"
    title: str = ""
    description: str = ""
    required: bool = False
    default: Any = None
    options: tuple[Option, ...] = ()
    many: bool = False
    """Of a choice: whether several may be chosen."""
    is_open: bool = False
    """Of a choice: whether other words are an answer too."""
    is_whole: bool = False
    """Of a number: whether it has to be a whole one."""
    minimum: float | None = None
    """Of a number; of text its length, of a choice how many."""
    maximum: float | None = None
    pattern: str = ""
    format: str = ""


class Form(Value, tag="form"):
    """Questions; or, with a `url`, a place the person has to go to and say when it is done."""

    message: str
    fields: tuple[Field, ...] = ()
    url: str = ""


Ask = Permission | PlanReview | Form


class Permitted(Value, tag="permitted"):
    """The option that was chosen; None when nobody chose, and then `reason` says why not."""

    option: str | None = None
    reason: str = ""


class Reviewed(Value, tag="reviewed"):
    """Whether the plan may be carried out, and what to change if not."""

    approved: bool
    feedback: str = ""
    option: str | None = None
    """Which of the plan's options was chosen; None leaves it to the backend."""
    is_nobodys: bool = False
    """Whether nobody decided: this no stands in for an answer, and the feedback says why there is none."""


class Filled(Value, tag="filled"):
    """The answers by field; declining and giving up are answers too."""

    action: Literal["accept", "decline", "cancel"] = "accept"
    values: Mapping[str, Any] = {}
    reason: str = ""


Answer = Permitted | Reviewed | Filled


class Origin(Value):
    """Who asks: which model, for which client, in which conversation."""

    model: str = ""
    frontend: str = ""
    client: str = ""
    title: str = ""
    session: str = ""
    """Which session of the page, if it is one of those."""
