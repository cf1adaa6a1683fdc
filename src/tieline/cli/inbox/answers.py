"""Converts arguments or typed text to an answer. Raises BadRequest if they do not fit the inbox item."""

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
    """Return the item with the id `given`, or else the item whose id starts with `given`, if there is exactly one."""
    found = [item for item in items if item.id == given] or [item for item in items if item.id.startswith(given)]
    if len(found) == 1:
        return found[0]
    if found:
        raise BadRequest(f"`{given}` matches several requests: {', '.join(item.id for item in found)}.")
    raise BadRequest(f"No request `{given}` is waiting: it was answered already, or it timed out.")


def allow(content: InboxItem) -> Answer:
    """Return the answer that allows an action once, or approves a plan."""
    match content:
        case Approval():
            return _option_of_kind(content, "allow_once")
        case PlanReview():
            return ReviewAnswer(approved=True)
        case Question():
            raise BadRequest("This is a question. Answer it with `tieline inbox answer ID NAME=VALUE`.")


def allow_always(content: InboxItem) -> Answer:
    """Return the answer that allows an action now and in the future."""
    if not isinstance(content, Approval):
        raise BadRequest("Only an action can always be allowed, not a plan or a question.")
    return _option_of_kind(content, "allow_always")


def refuse(content: InboxItem, words: str = "") -> Answer:
    """Return the answer that denies an action, rejects a plan or declines a question.

    `words` are the user's reason or feedback.
    """
    match content:
        case Approval():
            option = _find_option(content, "reject_once") or _find_option(content, "reject_always")
            return ApprovalAnswer(option=option, reason=words)
        case PlanReview():
            return ReviewAnswer(approved=False, feedback=words)
        case Question():
            return QuestionAnswer(action="decline", reason=words)


def from_typed(content: InboxItem, typed: str) -> Answer | None:
    """Return the answer that a typed line expresses, or None if the line is not a valid answer.

    A question must have exactly one field.
    """
    if isinstance(content, Question):
        return fill_in(content, [f"{content.fields[0].name}={typed}"])
    key, _, rest = typed.partition(" ")
    match key.lower():
        case "y" | "yes" if isinstance(content, PlanReview) and rest.strip():
            return choose_option(content, rest.strip())
        case "y" | "yes":
            return allow(content)
        case "a" | "always":
            return allow_always(content)
        case "n" | "no":
            return refuse(content, rest.strip())
        case _ if isinstance(content, Approval) and any(option.id == typed for option in content.options):
            return ApprovalAnswer(option=typed)
        case _:
            return None


def choose_option(content: PlanReview, given: str) -> ReviewAnswer:
    """Return the answer to a plan review that chooses the option with the id `given`."""
    option = next((option for option in content.options if option.id == given), None)
    if option is None:
        known = ", ".join(option.id for option in content.options)
        raise BadRequest(f"This plan has no option `{given}`. Choose one of {known}.")
    return ReviewAnswer(approved=option.kind in ALLOWING_KINDS, option=option.id)


def fill_in(content: InboxItem, given: Sequence[str]) -> Answer:
    """Return the answer that fills in the fields of an item. Each string in `given` has the form NAME=VALUE.

    If the item has only one field, NAME= can be omitted.
    """
    match content:
        case Approval():
            return ApprovalAnswer(option=_parse_pairs(given, ["option"]).get("option"))
        case PlanReview(options=()):
            raise BadRequest("This is a plan. Use `tieline inbox approve ID` or `tieline inbox reject ID FEEDBACK`.")
        case PlanReview():
            return choose_option(content, _parse_pairs(given, ["option"]).get("option", ""))
        case Question():
            fields = {field.name: field for field in content.fields}
            named = _parse_pairs(given, list(fields))
            return QuestionAnswer(values={name: parse_value(fields[name], text) for name, text in named.items()})


def _option_of_kind(content: Approval, kind: OptionKind) -> ApprovalAnswer:
    option = _find_option(content, kind)
    if option is None:
        known = ", ".join(one.id for one in content.options)
        raise BadRequest(f"This is not possible here. Use `tieline inbox answer ID option=…` with one of {known}.")
    return ApprovalAnswer(option=option)


def _find_option(content: Approval, kind: OptionKind) -> str | None:
    return next((option.id for option in content.options if option.kind == kind), None)


def _parse_pairs(given: Sequence[str], names: Sequence[str]) -> dict[str, str]:
    """Parse NAME=VALUE pairs. Join values of the same name with commas.

    If `names` contains only one name, that name can be omitted.
    """
    named: dict[str, str] = {}
    for text in given:
        name, sign, value = text.partition("=")
        if not sign or name not in names:
            if len(names) != 1:
                raise BadRequest(f"`{text}` is not NAME=VALUE with one of these names: {', '.join(names) or 'none'}.")
            name, value = names[0], text
        named[name] = f"{named[name]},{value}" if name in named else value
    return named


def parse_value(field: Field, text: str) -> Any:
    """Return the value of a field that `text` expresses."""
    match field.kind:
        case "yes_no":
            return _parse_yes_no(field, text)
        case "number":
            return _parse_number(field, text)
        case "choice":
            return (
                [_parse_choice(field, one.strip()) for one in text.split(",")]
                if field.many
                else _parse_choice(field, text)
            )
        case "text" | "file":
            return text


def _parse_yes_no(field: Field, text: str) -> bool:
    word = text.strip().lower()
    if word not in YES | NO:
        raise BadRequest(f"`{field.name}` must be yes or no.")
    return word in YES


def _parse_number(field: Field, text: str) -> int | float:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    raise BadRequest(f"`{field.name}` must be a number.")


def _parse_choice(field: Field, text: str) -> str:
    """Return the id of the field's option whose id or label is `text` (ignoring case), or `text` if there is none."""
    word = text.strip().lower()
    meant = (option.id for option in field.options if word in (option.id.lower(), option.label.lower()))
    return text if any(option.id == text for option in field.options) else next(meant, text)
