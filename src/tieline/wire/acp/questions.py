"""Questions to the user: convert three wire formats to a list of fields, and the user's answers to results.

- `elicitation/create` contains a flat JSON schema, or a URL for the user to visit. The result accepts the question with
  content, declines it or cancels it.
- `cursor/ask_question` contains a list of questions with options. The result contains the ids of the chosen options.
- A permission request may contain questions, too, if its `_meta` says so. The result selects the option that allows the
  call, and contains the answers by the index of the question.

The user's answer maps field names to values. For a field that allows several choices, the value is a list.
"""

import sys
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from msgspec import Raw
from msgspec.structs import replace

from tieline.wire.acp import extensions, schema, updates
from tieline.wire.acp.facts import NamedChoice, PermissionOption, QuestionField
from tieline.wire.shared.lenient import convert, decode

Action = Literal["accept", "decline", "cancel"]
Content = Mapping[str, Any]

USER_QUESTION = "user_question"


# ── elicitation/create ───────────────────────────────────────────────────────────────────────────


def form_fields(form: Mapping[str, Any] | None) -> tuple[QuestionField, ...]:
    """Return the fields of a form from its JSON schema. Properties whose schema is not an object are ignored."""
    properties = (form or {}).get("properties")
    required = (form or {}).get("required")
    if not isinstance(properties, Mapping):
        return ()
    names = required if isinstance(required, list) else []
    return tuple(
        _field(str(name), rule, is_required=name in names)
        for name, rule in properties.items()
        if isinstance(rule, dict)
    )


def form_result(action: Action, content: Content) -> schema.ElicitationResult:
    """Return the result of `elicitation/create` for the user's action. `content` maps field names to values."""
    accepted = dict(content) if action == "accept" and content else None
    return schema.ElicitationResult(action=action, content=accepted)


def _field(name: str, rule: dict[str, Any], *, is_required: bool) -> QuestionField:
    field = QuestionField(
        name=name,
        kind="text",
        title=_words(rule.get("title")),
        description=_words(rule.get("description")),
        required=is_required,
        default=_default(rule.get("default")),
    )
    kind = _type_of(rule)
    if kind == "array":
        choices = _choices(rule.get("items"))
        return _bounded(replace(field, kind="choices", choices=choices), rule, "minItems", "maxItems")
    if kind == "boolean":
        return replace(field, kind=kind)
    if kind in ("number", "integer"):
        return _bounded(replace(field, kind=kind), rule, "minimum", "maximum")
    if choices := _choices(rule):
        return replace(field, kind="choice", choices=choices)
    field = replace(field, pattern=_words(rule.get("pattern")), format=_words(rule.get("format")))
    return _bounded(field, rule, "minLength", "maxLength")


def _type_of(rule: dict[str, Any]) -> str:
    kind = rule.get("type")
    if isinstance(kind, list):
        kind = next((one for one in kind if one != "null"), None)
    return kind if isinstance(kind, str) else "string"


def _choices(rule: Any) -> tuple[NamedChoice, ...]:
    """Return the values that a schema enumerates, as choices; empty if it enumerates none."""
    if not isinstance(rule, dict):
        return ()
    titled = rule.get("oneOf") or rule.get("anyOf")
    if isinstance(titled, list):
        return tuple(
            NamedChoice(id=str(one["const"]), name=_words(one.get("title")), description=_words(one.get("description")))
            for one in titled
            if isinstance(one, dict) and "const" in one
        )
    plain, names = rule.get("enum"), rule.get("enumNames")
    if not isinstance(plain, list):
        return ()
    titles = names if isinstance(names, list) and len(names) == len(plain) else plain
    return tuple(NamedChoice(id=str(value), name=str(title)) for value, title in zip(plain, titles, strict=True))


def _bounded(field: QuestionField, rule: dict[str, Any], least: str, most: str) -> QuestionField:
    return replace(field, minimum=_number(rule.get(least)), maximum=_number(rule.get(most)))


def _number(value: Any) -> float | None:
    """Return the value if it is a number in the range of a float; None otherwise."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_number and abs(value) <= sys.float_info.max else None


def _default(value: Any) -> str | int | float | bool | tuple[str, ...] | None:
    if isinstance(value, list):
        return tuple(str(one) for one in value)
    return value if isinstance(value, str | int | float | bool) else None


def _words(value: Any) -> str:
    return value if isinstance(value, str) else ""


# ── cursor/ask_question ──────────────────────────────────────────────────────────────────────────


def choice_fields(questions: Sequence[extensions.ChoiceQuestion]) -> tuple[QuestionField, ...]:
    """Return one field for each question of `cursor/ask_question`."""
    return tuple(
        QuestionField(
            name=question.id,
            kind="choices" if question.allow_multiple else "choice",
            title=question.prompt,
            required=True,
            choices=tuple(NamedChoice(id=option.id, name=option.label) for option in question.options),
        )
        for question in questions
    )


def choice_result(action: Action, content: Content) -> extensions.OutcomeResult:
    """Return the result of `cursor/ask_question` for the user's action. `content` maps field names to values."""
    if action == "accept":
        answers = [
            extensions.ChoiceAnswer(question_id=name, selected_option_ids=_listed(value))
            for name, value in content.items()
        ]
        return extensions.OutcomeResult(outcome=extensions.OutcomeShape(outcome="answered", answers=answers))
    if action == "decline":
        reason = "the user declined to answer"
        return extensions.OutcomeResult(outcome=extensions.OutcomeShape(outcome="skipped", reason=reason))
    return extensions.OutcomeResult(outcome=extensions.OutcomeShape(outcome="cancelled"))


# ── Questions in a permission request ────────────────────────────────────────────────────────────


def label_fields(call: updates.CallFields) -> tuple[QuestionField, ...]:
    """Return one field for each question in a permission request; empty if it contains none."""
    meta = call.meta
    if meta is None or meta.interaction != USER_QUESTION:
        return ()
    marked = convert(extensions.QuestionInput, {"questions": meta.questions})
    questions = marked.questions if marked else []
    if not questions:
        questions = _questions_in(call.raw_input)
    return tuple(_label_field(str(index), question) for index, question in enumerate(questions))


def label_result(options: Sequence[PermissionOption], action: Action, content: Content) -> schema.PermissionResult:
    """Return the result of a permission request with questions, for the user's action.

    `content` maps field names to values; the name of a field is the index of its question.
    """
    wanted = "allow" if action == "accept" else "reject"
    option = next((option.id for option in options if option.kind.startswith(wanted)), None)
    if action == "cancel" or option is None:
        return schema.PermissionResult(outcome=schema.PermissionOutcome(outcome="cancelled"))
    chosen = schema.PermissionOutcome(outcome="selected", option_id=option)
    if action == "decline":
        return schema.PermissionResult(outcome=chosen)
    return schema.PermissionResult(
        outcome=chosen, answers={name: ", ".join(_listed(value)) for name, value in content.items()}
    )


def _questions_in(raw_input: Raw) -> list[extensions.LabelQuestion]:
    found = decode(extensions.QuestionInput, raw_input)
    return found.questions if found else []


def _label_field(name: str, question: extensions.LabelQuestion) -> QuestionField:
    choices = tuple(
        NamedChoice(id=option.label, name=option.label, description=option.description or "")
        for option in question.options or []
    )
    kind: Literal["choice", "choices", "text"] = "text"
    if choices:
        kind = "choices" if question.multi_select else "choice"
    return QuestionField(
        name=name,
        kind=kind,
        title=question.question,
        description=question.header or "",
        required=True,
        choices=choices,
        is_open=True,
    )


def _listed(value: Any) -> list[str]:
    return [str(one) for one in value] if isinstance(value, list | tuple) else [str(value)]
