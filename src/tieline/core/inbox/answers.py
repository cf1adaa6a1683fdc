"""Check an answer against its inbox item, and the answers given when no person decides."""

import logging
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from tieline.core.inbox import bounded_regex
from tieline.model.errors import BadRequest
from tieline.model.inbox import (
    ALLOWING_KINDS,
    Answer,
    Approval,
    ApprovalAnswer,
    Field,
    InboxItem,
    Option,
    PlanReview,
    Question,
    QuestionAnswer,
    ReviewAnswer,
)

log = logging.getLogger("tieline")

MAX_LOGGED_PATTERN = 256


def default_answer(item: InboxItem, reason: str) -> Answer:
    """Return the rejection that is used when no person decides."""
    match item:
        case Approval():
            return ApprovalAnswer(reason=reason)
        case PlanReview():
            return ReviewAnswer(approved=False, feedback=reason, is_unanswered=True)
        case Question():
            return QuestionAnswer(action="cancel", reason=reason)


def as_review(item: InboxItem, answer: Answer) -> Answer:
    """Convert an option chosen for a plan to a ReviewAnswer; return any other answer unchanged."""
    if not isinstance(item, PlanReview) or not isinstance(answer, ApprovalAnswer):
        return answer
    chosen = next((option for option in item.options if option.id == answer.option), None)
    is_approved = chosen is not None and chosen.kind in ALLOWING_KINDS
    return ReviewAnswer(approved=is_approved, feedback=answer.reason, option=answer.option)


def check(item: InboxItem, answer: Answer) -> None:
    """Raise BadRequest if an answer does not fit its item."""
    match item, answer:
        case Approval(), ApprovalAnswer(option=option):
            _check_option(option, item.options)
        case PlanReview(), ReviewAnswer(option=option):
            chosen = _check_option(option, item.options)
            if chosen is not None and answer.approved != (chosen.kind in ALLOWING_KINDS):
                does = "approves" if chosen.kind in ALLOWING_KINDS else "rejects"
                raise BadRequest(f"`approved` is {str(answer.approved).lower()}, but `{option}` {does}", "approved")
        case Question(), QuestionAnswer(action="accept"):
            _check_values(item, answer.values)
        case Question(), QuestionAnswer():
            pass
        case _:
            raise BadRequest(f"an item of type `{_tag(item)}` cannot be answered with type `{_tag(answer)}`")


def _tag(value: InboxItem | Answer) -> object:
    return type(value).__struct_config__.tag


def _check_option(given: str | None, options: Sequence[Option]) -> Option | None:
    """Return the option with this id, or None if no id is given. Raise BadRequest for an unknown id."""
    found = next((option for option in options if option.id == given), None)
    if given is not None and found is None:
        known = f"the options are {', '.join(option.id for option in options)}" if options else "there are no options"
        raise BadRequest(f"`option` is {given!r}, but {known}", "option")
    return found


def _check_values(question: Question, values: Mapping[str, Any]) -> None:
    fields = {field.name: field for field in question.fields}
    for name in values:
        if name not in fields:
            known = f"the fields are {', '.join(fields)}" if fields else "the question has no fields"
            raise BadRequest(f"`values.{name}` is not a field of the question; {known}", f"values.{name}")
    for name, field in fields.items():
        value = values.get(name)
        if value is None or value == "" or value == []:
            if field.required:
                raise BadRequest(f"`values.{name}` is required", f"values.{name}")
            continue
        problem = _problem(field, value)
        if problem:
            raise BadRequest(f"`values.{name}` {problem}", f"values.{name}")


def _problem(field: Field, value: Any) -> str:
    """Return what is wrong with a value, as the end of a sentence; empty if it is valid."""
    match field.kind:
        case "yes_no":
            return "" if isinstance(value, bool) else "must be true or false"
        case "number":
            return _number_problem(field, value)
        case "choice":
            return _choice_problem(field, value)
        case "text" | "file":
            return _text_problem(field, value)


def _number_problem(field: Field, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "must be a number"
    if not abs(value) <= sys.float_info.max:  # NaN, or an integer too large for a float
        return "must be a number that is not too large"
    if field.is_whole and value != int(value):
        return "must be a whole number"
    return _range_problem(field, value, "")


def _range_problem(field: Field, size: float, unit: str) -> str:
    if field.minimum is not None and size < field.minimum:
        return f"must be at least {field.minimum:g}{unit}"
    if field.maximum is not None and size > field.maximum:
        return f"must be at most {field.maximum:g}{unit}"
    return ""


def _choice_problem(field: Field, value: Any) -> str:
    chosen = value if field.many and isinstance(value, list | tuple) else [value]
    known = [option.id for option in field.options]
    for one in chosen:
        if not isinstance(one, str):
            return "must be the id of an option"
        if one not in known and not field.is_open:
            return f"is {one!r}, but the options are {', '.join(known)}"
    if len(set(chosen)) < len(chosen):
        return "must not contain an option twice"
    return _range_problem(field, len(chosen), " options") if field.many else ""


def _text_problem(field: Field, value: Any) -> str:
    if not isinstance(value, str):
        return "must be text"
    if field.pattern and not _could_match(field.pattern, value):
        return f"must match the pattern {field.pattern}"
    return _range_problem(field, len(value), " characters")


def _could_match(pattern: str, value: str) -> bool:
    """Return whether a value matches; accept it if the pattern cannot be checked in bounded time."""
    try:
        return bounded_regex.matches(pattern, value)
    except bounded_regex.UnsupportedPattern as reason:
        log.info("the pattern %r of a question is not checked: %s", pattern[:MAX_LOGGED_PATTERN], reason)
        return True
