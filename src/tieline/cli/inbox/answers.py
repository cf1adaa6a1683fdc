"""From a few typed words to an answer that fits what was asked."""

from collections.abc import Sequence
from typing import Any

from tieline.core.inbox.inbox import PendingItem
from tieline.model.errors import BadRequest
from tieline.model.inbox import (
    ALLOWING_KINDS,
    Answer,
    Approval,
    ApprovalAnswer,
    Field,
    InboxItem,
    OptionKind,
    PlanReview,
    Question,
    QuestionAnswer,
    ReviewAnswer,
)

YES = frozenset(("y", "yes", "true", "1"))
NO = frozenset(("n", "no", "false", "0"))


def find(items: Sequence[PendingItem], given: str) -> PendingItem:
    """The item with this id, or the only one whose id begins so."""
    fitting = [item for item in items if item.id == given] or [item for item in items if item.id.startswith(given)]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        raise BadRequest(f"`{given}` fits several: {', '.join(item.id for item in fitting)}.")
    raise BadRequest(f"Nothing waits under `{given}`: it was decided, or its time was up.")


def yes(ask: InboxItem) -> Answer:
    """Allow or approve it, this once."""
    match ask:
        case Approval():
            return _choose(ask, "allow_once")
        case PlanReview():
            return ReviewAnswer(approved=True)
        case Question():
            raise BadRequest("This is a question: `tieline inbox answer ID NAME=VALUE` answers it.")


def always(ask: InboxItem) -> Answer:
    """Allow it for good."""
    if not isinstance(ask, Approval):
        raise BadRequest("Only a permission can be given for good.")
    return _choose(ask, "allow_always")


def no(ask: InboxItem, words: str = "") -> Answer:
    """Do not allow it, and say why."""
    match ask:
        case Approval():
            option = _of_kind(ask, "reject_once") or _of_kind(ask, "reject_always")
            return ApprovalAnswer(option=option, reason=words)
        case PlanReview():
            return ReviewAnswer(approved=False, feedback=words)
        case Question():
            return QuestionAnswer(action="decline", reason=words)


def choose(ask: PlanReview, given: str) -> ReviewAnswer:
    """Approve or reject a plan with one of its own options."""
    option = next((option for option in ask.options if option.id == given), None)
    if option is None:
        known = ", ".join(option.id for option in ask.options)
        raise BadRequest(f"`{given}` is no answer to this plan; it takes one of {known}.")
    return ReviewAnswer(approved=option.kind in ALLOWING_KINDS, option=option.id)


def fill(ask: InboxItem, given: Sequence[str]) -> Answer:
    """An answer of fields, each given as NAME=VALUE; the only field needs no name."""
    match ask:
        case Approval():
            return ApprovalAnswer(option=_named(given, ["option"]).get("option"))
        case PlanReview(options=()):
            raise BadRequest("This is a plan: `tieline inbox approve ID`, or `tieline inbox reject ID FEEDBACK`.")
        case PlanReview():
            return choose(ask, _named(given, ["option"]).get("option", ""))
        case Question():
            fields = {field.name: field for field in ask.fields}
            named = _named(given, list(fields))
            return QuestionAnswer(values={name: _value(fields[name], text) for name, text in named.items()})


def _choose(ask: Approval, kind: OptionKind) -> ApprovalAnswer:
    option = _of_kind(ask, kind)
    if option is None:
        known = ", ".join(one.id for one in ask.options)
        raise BadRequest(f"That is no answer here; `tieline inbox answer ID option=…` takes one of {known}.")
    return ApprovalAnswer(option=option)


def _of_kind(ask: Approval, kind: OptionKind) -> str | None:
    return next((option.id for option in ask.options if option.kind == kind), None)


def _named(given: Sequence[str], names: Sequence[str]) -> dict[str, str]:
    """The values by name; what is given several times is one list, as are words without a name if there is one."""
    named: dict[str, str] = {}
    for text in given:
        name, sign, value = text.partition("=")
        if not sign or name not in names:
            if len(names) != 1:
                raise BadRequest(f"`{text}` is no NAME=VALUE; the names are {', '.join(names) or 'none'}.")
            name, value = names[0], text
        named[name] = f"{named[name]},{value}" if name in named else value
    return named


def _value(field: Field, text: str) -> Any:
    match field.kind:
        case "yes_no":
            return _truth(field, text)
        case "number":
            return _number(field, text)
        case "choice":
            return [_chosen(field, one.strip()) for one in text.split(",")] if field.many else _chosen(field, text)
        case "text" | "file":
            return text


def _truth(field: Field, text: str) -> bool:
    word = text.strip().lower()
    if word not in YES | NO:
        raise BadRequest(f"`{field.name}` wants yes or no.")
    return word in YES


def _number(field: Field, text: str) -> int | float:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    raise BadRequest(f"`{field.name}` wants a number.")


def _chosen(field: Field, text: str) -> str:
    """The id of the option that was meant: people type what they see."""
    word = text.strip().lower()
    meant = (option.id for option in field.options if word in (option.id.lower(), option.label.lower()))
    return text if any(option.id == text for option in field.options) else next(meant, text)
