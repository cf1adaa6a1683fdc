"""Converts questions from agents into forms for the inbox."""

from typing import Any, NamedTuple

from tieline.model.inbox import Field, Option, Question
from tieline.wire.acp import facts


class AgentQuestion(NamedTuple):
    """A question from an agent, as a form.

    `number` is the id of the agent's request. `elicitation` is the agent's id for a question that contains a URL.
    """

    number: int
    form: Question
    elicitation: str = ""


def question_of(fact: facts.QuestionAsked) -> AgentQuestion:
    """Convert a question from an agent into a form."""
    fields = tuple(_field(field) for field in fact.fields)
    return AgentQuestion(fact.number, Question(message=fact.message, fields=fields, url=fact.url), fact.elicitation)


def _field(field: facts.QuestionField) -> Field:
    kinds = {"boolean": "yes_no", "choice": "choice", "choices": "choice", "number": "number", "integer": "number"}
    options = tuple(
        Option(id=choice.id, label=choice.name or choice.id, description=choice.description) for choice in field.choices
    )
    kind: Any = kinds.get(field.kind, "text")
    if kind == "text" and field.format in ("file", "file-path", "path"):
        kind = "file"
    return Field(
        name=field.name,
        kind=kind,
        title=field.title,
        description=field.description,
        required=field.required,
        default=list(field.default) if isinstance(field.default, tuple) else field.default,
        options=options,
        many=field.kind == "choices",
        is_open=field.is_open,
        is_whole=field.kind == "integer",
        minimum=field.minimum,
        maximum=field.maximum,
        pattern=field.pattern,
        format=field.format,
    )
