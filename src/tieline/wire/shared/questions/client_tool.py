"""Ask a question with a call to one of the client's tools: build the arguments, and parse the answers from the result.

Such tools are named ask_question, ask_user, AskUserQuestion and the like. Most take a list of questions with options,
others a single text. The result is JSON, pairs of question and answer, or plain text.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tieline.model.content import Text, ToolResult
from tieline.model.inbox import Field, Question, QuestionAnswer
from tieline.model.request import ToolSpec
from tieline.wire.shared.capabilities import ClientTool, client_tools, matching_tools, plain_name
from tieline.wire.shared.capabilities.schema import Schema, branches, properties_of, required_of, resolve, types_of
from tieline.wire.shared.questions.text import (
    AnswerSkipped,
    UnclearAnswer,
    merge_custom_fields,
    parse_answer,
    parse_answers,
    question_text,
    split_custom_fields,
)

HEADER = 12
"""Maximum length of a header; clients show it in a small label above the question."""

_PAIR = re.compile(r'"((?:[^"\\]|\\.)*)"\s*[=:]\s*"((?:[^"\\]|\\.)*)"')
_LISTS = frozenset(["questions", "items", "fields", "prompts"])
_WORDS = ("question", "prompt", "message", "text", "query", "content", "title")
_HEADERS = frozenset(["header", "heading", "topic", "shorttitle"])
_IDS = frozenset(["id", "key", "name", "questionid", "field"])
_OPTIONS = frozenset(["options", "choices", "suggestions", "followup", "suggestedanswers", "answers", "alternatives"])
_MANY = frozenset(["multiselect", "multiple", "allowmultiple", "multi", "selectmultiple", "ismultiselect"])
_LABELS = frozenset(["label", "title", "text", "name", "answer", "option", "display"])
_VALUES = frozenset(["value", "id", "key"])
_ABOUT = frozenset(["description", "detail", "explanation", "about"])
_SPARE = (("Other", "Something else: say what"), ("Skip", "Leave it to the agent"))


class QuestionCall(NamedTuple):
    """A call to a client's tool that asks a question: the tool's name, and the arguments as JSON text."""

    name: str
    arguments: str


def call_for(question: Question, tools: Sequence[ToolSpec]) -> QuestionCall | None:
    """Return the call that asks the question; None if the client offers no suitable tool."""
    question = merge_custom_fields(question)
    if question.url or not question.fields:
        question = Question(
            message=question_text(question, question.fields),
            fields=(Field(name="", kind="yes_no", title=question.message),),
        )
    for tool in matching_tools("question", client_tools(tools)):
        arguments = _arguments(tool, question)
        if arguments is not None:
            return QuestionCall(tool.name, json.dumps(arguments, ensure_ascii=False))
    return None


def read_result(result: ToolResult, question: Question) -> QuestionAnswer:
    """Parse the result of the call that asked the question.

    If it contains no usable answer, the question counts as declined.
    """
    text = "\n".join(part.text for part in result.content if isinstance(part, Text)).strip()
    if result.is_error:
        return QuestionAnswer(action="decline", reason=text)
    if question.url or not question.fields:
        return QuestionAnswer(action="accept" if _agrees(text) else "decline", reason=text)
    answers = _answers_in(text)
    fields = merge_custom_fields(question).fields
    try:
        values = _matched(answers, fields) if answers else parse_answers(text, fields).values
    except (UnclearAnswer, AnswerSkipped):
        return QuestionAnswer(action="decline", reason=text)
    return QuestionAnswer(values=split_custom_fields(values, question))


# ── The arguments ────────────────────────────────────────────────────────────────────────────────


def _arguments(tool: ClientTool, question: Question) -> dict[str, Any] | None:
    properties = properties_of(tool.schema)
    for name, rule in properties.items():
        listing = _list_of(rule, tool.schema) if plain_name(name) in _LISTS else None
        if listing is not None:
            item = resolve(listing.get("items", {}), tool.schema)
            asked = [_question(field, question, item, tool.schema) for field in question.fields]
            return _complete({name: asked}, tool)
    return _single(tool, question)


def _single(tool: ClientTool, question: Question) -> dict[str, Any] | None:
    """Return the arguments for a tool that takes one text and possibly options; None if it has no property for text."""
    properties = properties_of(tool.schema)
    named = {plain_name(name): name for name in properties}
    place = next((named[word] for word in _WORDS if word in named), None)
    if place is None:
        return None
    options = next((named[word] for word in named if word in _OPTIONS), None)
    only = question.fields[0] if len(question.fields) == 1 else None
    if only is None or options is None:
        return _complete({place: question_text(question, question.fields)}, tool)
    arguments: dict[str, Any] = {place: _words(only, question)}
    shaped = _options(only, properties[options], tool.schema)
    if shaped or options in required_of(tool.schema):
        arguments[options] = shaped
    many = next((named[word] for word in named if word in _MANY), None)
    if many is not None:
        arguments[many] = only.many
    return _complete(arguments, tool)


def _question(field: Field, question: Question, item: Schema, root: Schema) -> Any:
    """Return one field of the question as an item for the tool's list of questions.

    `item` is the schema of such an item, `root` the schema of the tool.
    """
    properties = properties_of(item)
    if not properties:
        return question_text(question, [field])
    named = {plain_name(name): name for name in properties}
    place = next((named[word] for word in _WORDS if word in named), None)
    made: dict[str, Any] = {} if place is None else {place: _words(field, question)}
    for name, rule in properties.items():
        if name in made:
            continue
        value = _property(plain_name(name), field, rule, root)
        if value is not None:
            made[name] = value
    for name in required_of(item):
        made.setdefault(name, _guess(properties.get(name, {}), root))
    return made


def _property(name: str, field: Field, rule: object, root: Schema) -> Any:
    if name in _OPTIONS:
        return _options(field, rule, root)
    if name in _MANY:
        return field.many
    if name in _HEADERS:
        return (field.title or field.name)[:HEADER].strip() or "Question"
    if name in _IDS:
        return field.name
    return None


def _options(field: Field, rule: object, root: Schema) -> list[Any]:
    listing = _list_of(rule, root) or {}
    item = resolve(listing.get("items", {}), root)
    pairs = [(option.label or option.id, option.description) for option in field.options]
    if field.kind == "yes_no":
        pairs = [("Yes", ""), ("No", "")]
    least, most = listing.get("minItems"), listing.get("maxItems")
    if isinstance(least, int) and len(pairs) < least:
        pairs += _SPARE[: least - len(pairs)]
    if isinstance(most, int) and most > 0:
        pairs = pairs[:most]
    return [_option(label, about, item, root) for label, about in pairs]


def _option(label: str, about: str, item: Schema, root: Schema) -> Any:
    properties = properties_of(item)
    if not properties:
        return label
    made: dict[str, Any] = {}
    for name in properties:
        if plain_name(name) in _LABELS or plain_name(name) in _VALUES:
            made[name] = label
        elif plain_name(name) in _ABOUT and (about or name in required_of(item)):
            made[name] = about or label
    for name in required_of(item):
        made.setdefault(name, _guess(properties.get(name, {}), root))
    return made


def _complete(arguments: dict[str, Any], tool: ClientTool) -> dict[str, Any]:
    properties = properties_of(tool.schema)
    for name in required_of(tool.schema):
        arguments.setdefault(name, _guess(properties.get(name, {}), tool.schema))
    return arguments


def _list_of(rule: object, root: Schema) -> Schema | None:
    for option in branches(resolve(rule, root), root):
        if "array" in types_of(option):
            return option
    return None


def _guess(rule: object, root: Schema) -> Any:
    """Return a simple value that satisfies the schema of a property whose meaning is unknown."""
    schema = resolve(rule, root)
    if "const" in schema or "default" in schema:
        return schema.get("const", schema.get("default"))
    if isinstance(schema.get("enum"), list) and schema["enum"]:
        return schema["enum"][0]
    kinds = [kind for option in branches(schema, root) for kind in types_of(option)]
    empty: dict[str, Any] = {"boolean": False, "integer": 0, "number": 0, "array": [], "object": {}, "null": None}
    return empty.get(kinds[0], "") if kinds else ""


def _words(field: Field, question: Question) -> str:
    words = field.title or field.description or field.name
    message = question.message.strip()
    if message and message != words and len(question.fields) == 1:
        words = f"{message}\n{words}" if words else message
    if field.description and field.description != words and field.title:
        words = f"{words}\n{field.description}"
    return words


# ── The answers ──────────────────────────────────────────────────────────────────────────────────


def _answers_in(text: str) -> dict[str, Any]:
    """Return the answers in a result by field name or question text; an answer without either has an empty key.

    The result is JSON, or text with pairs such as `"question"="answer"`.
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {question.replace('\\"', '"'): answer.replace('\\"', '"') for question, answer in _PAIR.findall(text)}
    if isinstance(value, dict):
        inner = value.get("answers", value.get("answer", value.get("response", value)))
        if isinstance(inner, Mapping):
            return {str(name): one for name, one in inner.items()}
        value = inner
    if isinstance(value, list) and value and all(isinstance(one, dict) for one in value):
        return {_name_of(one): _answer_of(one) for one in value}
    return {"": value}


def _name_of(one: Mapping[str, Any]) -> str:
    return str(next((one[name] for name in ("question", "questionId", "id", "name", "header") if name in one), ""))


def _answer_of(one: Mapping[str, Any]) -> Any:
    for name in ("answer", "answers", "value", "selected", "selectedOptions", "selectedOptionIds", "response"):
        if name in one:
            return one[name]
    return ""


def _matched(answers: Mapping[str, Any], fields: Sequence[Field]) -> dict[str, Any]:
    """Return the answers by field name.

    An answer is assigned by field name or question text, or by position if there are as many answers as fields.
    """
    by_name = {plain_name(name): answer for name, answer in answers.items()}
    values: dict[str, Any] = {}
    rest = [answer for name, answer in answers.items()]
    for place, field in enumerate(fields):
        names = [plain_name(name) for name in (field.name, field.title, field.description) if name]
        answer = next((by_name[name] for name in names if name in by_name), None)
        if answer is None:
            answer = next(
                (one for name, one in by_name.items() if any(known and known in name for known in names)), None
            )
        if answer is None and len(rest) == len(fields):
            answer = rest[place]
        if answer is not None:
            values[field.name] = _value(answer, field)
    if not values:
        raise UnclearAnswer("the result answers none of the questions")
    return values


def _value(answer: Any, field: Field) -> Any:
    if isinstance(answer, bool) and field.kind == "yes_no":
        return answer
    if isinstance(answer, list):
        answer = ", ".join(str(one) for one in answer)
    elif isinstance(answer, Mapping):
        answer = _answer_of(answer)
    return parse_answer(str(answer), field)


def _agrees(text: str) -> bool:
    answers = _answers_in(text)
    words = str(next(iter(answers.values()))) if answers else text
    return re.match(r"\W*(?:yes|y|ok|okay|true|done|accept)\b", words, re.IGNORECASE) is not None
