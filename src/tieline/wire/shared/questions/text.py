"""Render questions as text with numbered options, and parse answers given as text.

A person who reads a question in a chat answers freely: with a number, a label, "yes", several options separated by
commas, or one line per question. If the text is not an answer, the parser raises UnclearAnswer, and the caller decides
whether to ask again.
"""

import contextlib
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from tieline.model.inbox import Field, Question

_YES = frozenset(
    ["yes", "y", "true", "ok", "okay", "sure", "yep", "yeah", "done", "accept", "agree", "ja", "oui", "si"]
)
_NO = frozenset(["no", "n", "false", "nope", "not", "never"])
_APPROVING = _YES | {"approve", "approved", "lgtm", "good", "great", "perfect", "fine", "go", "proceed"}
_POLITE = frozenset(
    [
        *("please", "thanks", "thank", "you", "ahead", "do", "it", "that", "this", "that's", "looks", "sounds", "is"),
        *("i", "the", "plan", "carry", "out", "with", "now", "all", "very", "much"),
    ]
)
_SKIP = frozenset(["skip", "decline", "cancel", "none", "pass", "never mind", "nevermind"])
_NUMBERED = re.compile(r"^\s*(?:\(?(\d{1,2})[.):]\s+|[-*•]\s+)")
_DIGITS = re.compile(r"^\(?#?(\d{1,3})[.)]?$")
_NUMBER = re.compile(
    r"(?P<grouped>[-+]?\d{1,3}(?:[,_ ]\d{3})+(?!\d)(?:\.\d+)?)|(?P<plain>[-+]?\d+(?:[.,]\d+)?(?:[eE][-+]?\d+)?)"
)
"""A number with or without thousands separators. A comma that cannot be a thousands separator is a decimal comma."""


class UnclearAnswer(Exception):
    """The text does not answer the question. The message, meant for the person, says what is expected."""


class AnswerSkipped(Exception):
    """The person does not want to answer."""


def merge_custom_fields(question: Question) -> Question:
    """Merge each free-text field that belongs to a choice into that choice, which then also accepts free text.

    Some agents send a choice and the text for its option "other" as two fields, but a person expects one question.
    """
    customs = _customs(question)
    fields = tuple(
        replace(field, is_open=True) if field.name in customs.values() else field
        for field in question.fields
        if field.name not in customs
    )
    return replace(question, fields=fields) if customs else question


def split_custom_fields(values: Mapping[str, Any], question: Question) -> dict[str, Any]:
    """Map the answers to a question merged by `merge_custom_fields` back to the fields of the original question."""
    found = dict(values)
    for custom, choice in _customs(question).items():
        field = next(field for field in question.fields if field.name == choice)
        value = found.get(choice)
        known = {option.id for option in field.options}
        others = [one for one in value if one not in known] if isinstance(value, list) else [value]
        if isinstance(value, list) and others:
            found[choice] = [one for one in value if one in known]
        elif isinstance(value, str) and value not in known:
            del found[choice]
        else:
            continue
        found[custom] = ", ".join(str(one) for one in others)
    return found


def _customs(question: Question) -> dict[str, str]:
    """Return the names of the free-text fields that belong to a choice, mapped to the name of that choice."""
    choices = {field.name for field in question.fields if field.kind == "choice"}
    found: dict[str, str] = {}
    for field in question.fields:
        stem = re.sub(r"[_-]?(?:custom|other)$", "", field.name, flags=re.IGNORECASE)
        if field.kind == "text" and not field.required and stem != field.name and stem in choices:
            found[field.name] = stem
    return found


def question_text(question: Question, fields: Sequence[Field]) -> str:
    """Return a question as text for a person. Only the given fields are included."""
    lines = [question.message.strip()] if question.message.strip() else []
    if question.url:
        lines.append(f"Please open {question.url}\nand tell me here when you are done, or that you do not want to.")
    several = len(fields) > 1
    for number, field in enumerate(fields, 1):
        lines.append(_field_text(field, f"{number}. " if several else "", question.message))
    if several:
        is_enough = all(may_be_skipped(field) for field in fields[1:])
        rest = "the first one is enough" if is_enough else "I will ask again for missing answers"
        lines.append(f"Please answer each question on its own line; {rest}.")
    return "\n\n".join(line for line in lines if line)


def may_be_skipped(field: Field) -> bool:
    """Return whether the field may be left unanswered, because it is an optional text."""
    return field.kind == "text" and not field.required


class ParsedAnswers(NamedTuple):
    """Values by field name, and the number of fields that need not be asked again. A skipped field has no value."""

    values: dict[str, Any]
    taken: int


def parse_answers(words: str, fields: Sequence[Field]) -> ParsedAnswers:
    """Parse the answers to all fields if `words` has one valid line per field, otherwise the answer to the first field.

    Raise UnclearAnswer if the answer cannot be understood, or AnswerSkipped if the person does not want to answer a
    required field.
    """
    lines = [line for line in words.splitlines() if line.strip()]
    if len(fields) > 1 and len(lines) == len(fields):
        with contextlib.suppress(UnclearAnswer):
            values: dict[str, Any] = {}
            for field, line in zip(fields, lines, strict=True):
                values |= _given(_NUMBERED.sub("", line, count=1), field)
            return ParsedAnswers(values, len(fields))
    return ParsedAnswers(_given(words, fields[0]), 1)


def _given(words: str, field: Field) -> dict[str, Any]:
    """Return a dict with the parsed answer under the field's name; an empty dict if an optional field was skipped."""
    try:
        return {field.name: parse_answer(words, field)}
    except AnswerSkipped:
        if field.required:
            raise
        return {}


def parse_answer(words: str, field: Field) -> Any:
    """Parse the answer to one field.

    Raise UnclearAnswer if it cannot be understood, or AnswerSkipped if the person does not want to answer.
    """
    text = words.strip()
    plain = text.rstrip(".!").lower()
    if not text and field.default is not None:
        return field.default
    is_named = any(plain in (option.id.lower(), option.label.lower()) for option in field.options)
    if not text or (plain in _SKIP and not is_named and (not field.required or field.kind != "text")):
        raise AnswerSkipped
    match field.kind:
        case "yes_no":
            return _yes_or_no(plain)
        case "number":
            return _number(text, field)
        case "choice":
            return _choice(text, field)
        case "text" | "file":
            return text


def is_consent(words: str) -> bool:
    """Return whether the text confirms that something was done or may be done."""
    first = re.split(r"[\s,.!]+", words.strip().lower(), maxsplit=1)[0]
    return first in _YES or "done" in words.lower().split()


def is_approval(words: str) -> bool:
    """Return whether the text is an approval and nothing else. Neither a question nor "yes, but …" is an approval."""
    spoken = re.findall(r"[^\W_]+(?:'[^\W_]+)?", words.lower())
    if "?" in words or not _APPROVING.union(_POLITE).issuperset(spoken):
        return False
    return spoken[:2] == ["do", "it"] or not _APPROVING.isdisjoint(spoken)


def is_refusal(words: str) -> bool:
    """Return whether the text is a refusal and nothing else."""
    plain = words.strip().rstrip(".!").lower()
    return plain in _NO or plain in _SKIP


def _field_text(field: Field, number: str, message: str) -> str:
    """Return one field as text, with its options and a hint about valid answers.

    `number` is written before the title. `message` is the text of the question, which is not repeated as a title.
    """
    words = field.title or field.description or field.name
    first = f"{number}{words}" if number or words.strip() != message.strip() else ""
    more = field.description if field.title and field.description != field.title else ""
    lines = [line for line in (first, more) if line]
    for place, option in enumerate(field.options, 1):
        about = f": {option.description}" if option.description else ""
        lines.append(f"  {place}) {option.label or option.id}{about}")
    hint = _hint(field)
    if hint:
        lines.append(hint)
    return "\n".join(lines)


def _hint(field: Field) -> str:
    hints = {"yes_no": "(yes or no)", "number": _range("a whole number" if field.is_whole else "a number", field)}
    hint = hints.get(field.kind, "")
    if field.kind == "choice":
        hint = "(one or more, with commas)" if field.many else ""
        if field.is_open:
            hint = f"{hint} (or in your own words)".strip()
    if field.kind == "file":
        hint = "(the path of a file)"
    if field.default not in (None, "", []):
        default = ", ".join(map(str, field.default)) if isinstance(field.default, list) else field.default
        hint = f"{hint} (by default {default})".strip()
    return hint if field.required else f"{hint} (or skip it)".strip()


def _range(kind: str, field: Field) -> str:
    least = f" from {field.minimum:g}" if field.minimum is not None else ""
    most = f" up to {field.maximum:g}" if field.maximum is not None else ""
    return f"({kind}{least}{most})"


def _yes_or_no(plain: str) -> bool:
    words = re.split(r"[\s,]+", plain)
    if words[0] in _YES or plain == "1":
        return True
    if words[0] in _NO or plain == "2":
        return False
    raise UnclearAnswer("Please answer yes or no.")


def _number(text: str, field: Field) -> int | float:
    found = _NUMBER.search(text)
    value = math.nan if found is None else _value(found)
    is_outside = (field.minimum is not None and value < field.minimum) or (
        field.maximum is not None and value > field.maximum
    )
    if is_outside or not math.isfinite(value) or (field.is_whole and not value.is_integer()):
        raise UnclearAnswer(f"Please give {_range('a whole number' if field.is_whole else 'a number', field)[1:-1]}.")
    return int(value) if value.is_integer() else value


def _value(found: re.Match[str]) -> float:
    grouped: str | None = found["grouped"]
    return float(found["plain"].replace(",", ".") if grouped is None else re.sub("[,_ ]", "", grouped))


def _choice(text: str, field: Field) -> str | list[str]:
    if not field.many:
        return _one(text, field)
    pieces = [piece for piece in re.split(r"[,;\n]|\band\b", text) if piece.strip()]
    try:
        chosen = [_one(piece, field) for piece in pieces]
    except UnclearAnswer:
        chosen = [_one(text, field)]
    return list(dict.fromkeys(chosen))


def _one(text: str, field: Field) -> str:
    """Return the id of the option that the text names, or the text itself if the field accepts free text."""
    plain = " ".join(text.split()).strip("\"'`.").lower()
    number = _DIGITS.match(plain)
    ids = [option.id for option in field.options]
    names = {option.id.lower(): option.id for option in field.options}
    names |= {option.label.lower(): option.id for option in field.options if option.label}
    if plain in names:
        return names[plain]
    if number is not None and 1 <= int(number[1]) <= len(ids):
        return ids[int(number[1]) - 1]
    if field.is_open:
        # Do not search the sentence for labels: "not the first one" contains a label but does not choose it.
        return text.strip()
    meant = {names[name] for name in names if plain and (name.startswith(plain) or _names(plain, name))}
    if len(meant) == 1:
        return meant.pop()
    labels = ", ".join(option.label or option.id for option in field.options)
    raise UnclearAnswer(f"Please choose one of: {labels}.")


def _names(text: str, label: str) -> bool:
    """Return whether the text contains the label as whole words."""
    return re.search(rf"(?<!\w){re.escape(label)}(?!\w)", text) is not None
