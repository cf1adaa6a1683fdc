"""Forms as plain text with numbered options, and the answers read back from text.

A person who reads a question in a chat answers in their own words: a number, a label, "yes", several with commas, a
line for each question. What cannot be meant as an answer is asked again once; after that it is taken for a new wish.
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
"""Commas stand between thousands; one that cannot do so is where others write a point."""


class UnclearAnswer(Exception):
    """These words are no answer to this question; the message tells what one would be."""


class AnswerSkipped(Exception):
    """The person does not want to answer."""


def merge_custom_fields(form: Question) -> Question:
    """The form without fields that only take other words than the options of the one before them.

    Such a pair is one question to whoever reads it: a choice that is open.
    """
    customs = _customs(form)
    fields = tuple(
        replace(field, is_open=True) if field.name in customs.values() else field
        for field in form.fields
        if field.name not in customs
    )
    return replace(form, fields=fields) if customs else form


def split_custom_fields(values: Mapping[str, Any], form: Question) -> dict[str, Any]:
    """Answers to the condensed form as answers to the form itself."""
    found = dict(values)
    for custom, choice in _customs(form).items():
        field = next(field for field in form.fields if field.name == choice)
        said = found.get(choice)
        known = {option.id for option in field.options}
        others = [one for one in said if one not in known] if isinstance(said, list) else [said]
        if isinstance(said, list) and others:
            found[choice] = [one for one in said if one in known]
        elif isinstance(said, str) and said not in known:
            del found[choice]
        else:
            continue
        found[custom] = ", ".join(str(one) for one in others)
    return found


def _customs(form: Question) -> dict[str, str]:
    """The fields for other words, and the choice each belongs to."""
    choices = {field.name for field in form.fields if field.kind == "choice"}
    found: dict[str, str] = {}
    for field in form.fields:
        stem = re.sub(r"[_-]?(?:custom|other)$", "", field.name, flags=re.IGNORECASE)
        if field.kind == "text" and not field.required and stem != field.name and stem in choices:
            found[field.name] = stem
    return found


def question_text(form: Question, fields: Sequence[Field]) -> str:
    """The questions that are still open, to be read by a person."""
    lines = [form.message.strip()] if form.message.strip() else []
    if form.url:
        lines.append(f"Please open {form.url}\nand say here when it is done, or that you do not want to.")
    several = len(fields) > 1
    for number, field in enumerate(fields, 1):
        lines.append(_asked(field, f"{number}. " if several else "", form.message))
    if several:
        is_enough = all(may_be_skipped(field) for field in fields[1:])
        rest = "the first is enough" if is_enough else "what is missing is asked again"
        lines.append(f"Answer one line each; {rest}.")
    return "\n\n".join(line for line in lines if line)


def may_be_skipped(field: Field) -> bool:
    """Whether a question that was not answered is not asked again: a note that is not required."""
    return field.kind == "text" and not field.required


class ParsedAnswers(NamedTuple):
    """What words have answered: values by field, and how many fields it took."""

    values: dict[str, Any]
    taken: int


def parse_answers(words: str, fields: Sequence[Field]) -> ParsedAnswers:
    """What these words answer: the first field, or all of them line by line. Raises Unclear or Skipped."""
    lines = [line for line in words.splitlines() if line.strip()]
    if len(fields) > 1 and len(lines) == len(fields):
        with contextlib.suppress(UnclearAnswer):
            values: dict[str, Any] = {}
            for field, line in zip(fields, lines, strict=True):
                values |= _given(_NUMBERED.sub("", line, count=1), field)
            return ParsedAnswers(values, len(fields))
    return ParsedAnswers(_given(words, fields[0]), 1)


def _given(words: str, field: Field) -> dict[str, Any]:
    """The answer under its name; nothing if it was skipped and may be."""
    try:
        return {field.name: parse_answer(words, field)}
    except AnswerSkipped:
        if field.required:
            raise
        return {}


def parse_answer(words: str, field: Field) -> Any:
    """What these words answer to one field. Raises Unclear or Skipped."""
    said = words.strip()
    plain = said.rstrip(".!").lower()
    if not said and field.default is not None:
        return field.default
    is_named = any(plain in (option.id.lower(), option.label.lower()) for option in field.options)
    if not said or (plain in _SKIP and not is_named and (not field.required or field.kind != "text")):
        raise AnswerSkipped
    match field.kind:
        case "yes_no":
            return _yes_or_no(plain)
        case "number":
            return _number(said, field)
        case "choice":
            return _choice(said, field)
        case "text" | "file":
            return said


def is_consent(words: str) -> bool:
    """Whether these words say that something was done, or may be."""
    first = re.split(r"[\s,.!]+", words.strip().lower(), maxsplit=1)[0]
    return first in _YES or "done" in words.lower().split()


def is_approval(words: str) -> bool:
    """Tell whether these words approve of something and say nothing else: neither "yes, but" nor a question does."""
    said = re.findall(r"[^\W_]+(?:'[^\W_]+)?", words.lower())
    if "?" in words or not _APPROVING.union(_POLITE).issuperset(said):
        return False
    return said[:2] == ["do", "it"] or not _APPROVING.isdisjoint(said)


def is_refusal(words: str) -> bool:
    """Whether these words say no, and nothing else."""
    plain = words.strip().rstrip(".!").lower()
    return plain in _NO or plain in _SKIP


def _asked(field: Field, number: str, message: str) -> str:
    """One question with its options and what an answer must be like."""
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


def _range(what: str, field: Field) -> str:
    least = f" from {field.minimum:g}" if field.minimum is not None else ""
    most = f" up to {field.maximum:g}" if field.maximum is not None else ""
    return f"({what}{least}{most})"


def _yes_or_no(plain: str) -> bool:
    words = re.split(r"[\s,]+", plain)
    if words[0] in _YES or plain == "1":
        return True
    if words[0] in _NO or plain == "2":
        return False
    raise UnclearAnswer("Please say yes or no.")


def _number(said: str, field: Field) -> int | float:
    found = _NUMBER.search(said)
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


def _choice(said: str, field: Field) -> str | list[str]:
    if not field.many:
        return _one(said, field)
    pieces = [piece for piece in re.split(r"[,;\n]|\band\b", said) if piece.strip()]
    try:
        chosen = [_one(piece, field) for piece in pieces]
    except UnclearAnswer:
        chosen = [_one(said, field)]
    return list(dict.fromkeys(chosen))


def _one(said: str, field: Field) -> str:
    """The id of the option that is meant, or the words themselves where other words are allowed."""
    plain = " ".join(said.split()).strip("\"'`.").lower()
    number = _DIGITS.match(plain)
    ids = [option.id for option in field.options]
    names = {option.id.lower(): option.id for option in field.options}
    names |= {option.label.lower(): option.id for option in field.options if option.label}
    if plain in names:
        return names[plain]
    if number is not None and 1 <= int(number[1]) <= len(ids):
        return ids[int(number[1]) - 1]
    if field.is_open:
        # "not the first one" names the first one: other words are taken as they are.
        return said.strip()
    meant = {names[name] for name in names if plain and (name.startswith(plain) or _names(plain, name))}
    if len(meant) == 1:
        return meant.pop()
    labels = ", ".join(option.label or option.id for option in field.options)
    raise UnclearAnswer(f"Please choose one of: {labels}.")


def _names(said: str, label: str) -> bool:
    """Whether a label is named in a sentence."""
    return re.search(rf"(?<!\w){re.escape(label)}(?!\w)", said) is not None
