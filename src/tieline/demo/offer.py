"""The tools a client offers, and calls of one that the user named: arguments from their words and the tool's schema."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tieline.demo.answer import Call
from tieline.demo.phrases import shortened, unquoted
from tieline.demo.schema import Filler, Hints
from tieline.model.request import ToolSpec
from tieline.wire.shared.capabilities import ClientTool, client_tools
from tieline.wire.shared.capabilities.schema import branches, properties_of, required_of, resolve, types_of

_PAIR = re.compile(r"\b(\w{1,64})\s{0,3}[=:]\s{0,3}(\"[^\"]*\"|'[^']*'|[^\s,]+)")
_SEPARATOR = re.compile(r"\s{0,3},\s{0,3}(?:and\s{1,3})?|\s{1,3}and\s{1,3}")


def usable(tools: Sequence[ToolSpec], names: Sequence[str] = ()) -> tuple[ClientTool, ...]:
    """The tools that may be called: those the client runs, narrowed to `names` if there are any."""
    return tuple(tool for tool in client_tools(tools) if not names or tool.name in names)


def fill(tool: ClientTool, words: str, directory: str = "", *, given: Mapping[str, Any] | None = None) -> Call:
    """A call of this tool, its arguments made from the user's words as well as may be."""
    if tool.freeform:
        return Call(name=tool.name, arguments=words, freeform=True)
    filler = Filler(tool.schema, Hints(words, phrase=shortened(words, 60), directory=directory), sparing=True)
    properties = properties_of(tool.schema)
    arguments = dict(given or {})
    for name in required_of(tool.schema):
        if name not in arguments:
            arguments[name] = filler.value(properties.get(name, True), name, 1)
    return Call(name=tool.name, arguments=_json(arguments))


def call_with(tool: ClientTool, words: str, directory: str = "") -> list[Call]:
    """Calls of a tool with the JSON the user gave, with `name=value`, or with values in order."""
    if tool.freeform:
        return [Call(name=tool.name, arguments=unquoted(words), freeform=True)]
    if _is_object(words):
        return [Call(name=tool.name, arguments=words)]
    return [fill(tool, words, directory, given=given) for given in _given(tool, words)]


def _given(tool: ClientTool, words: str) -> list[dict[str, Any]]:
    """What the user said for each property; several values for a tool that takes one are several calls."""
    properties = properties_of(tool.schema)
    pairs = {key: unquoted(value) for key, value in _PAIR.findall(words) if key in properties}
    if pairs:
        return [{key: _typed(value, properties[key], tool) for key, value in pairs.items()}]
    words, chosen = _enum_choices(tool, words)
    names = [name for name in required_of(tool.schema) or list(properties) if name not in chosen]
    values = _values(words)
    if len(names) == 1 and len(values) > 1 and all(len(value.split()) <= 3 for value in values):
        return [{names[0]: _typed(value, properties.get(names[0]), tool), **chosen} for value in values]
    if len(names) < len(values):
        values = [words]
    said = {name: _typed(value, properties.get(name), tool) for name, value in zip(names, values, strict=False)}
    return [said | chosen]


def _values(words: str) -> list[str]:
    """`Tokyo and Paris` is two values, `"Tokyo and Paris"` is one."""
    inner = unquoted(words)
    if inner != words:
        return [inner]
    return [unquoted(value) for value in _SEPARATOR.split(words) if value]


def _enum_choices(tool: ClientTool, words: str) -> tuple[str, dict[str, Any]]:
    """The options mentioned in the words (`Tokyo in celsius`), and the words without them."""
    chosen = {}
    for name, schema in properties_of(tool.schema).items():
        for option in resolve(schema, tool.schema).get("enum") or ():
            mention = re.compile(rf"\s{{0,3}}(?:\b(?:in|as|with)\s{{1,3}})?\b{re.escape(str(option))}\b", re.IGNORECASE)
            if isinstance(option, str) and option and mention.search(words):
                words, chosen[name] = mention.sub("", words, count=1), option
                break
    return words.strip(), chosen


def _typed(text: str, schema: object, tool: ClientTool) -> Any:
    """The text as the type that the schema wants, where it can be that."""
    kinds = [kind for option in branches(resolve(schema, tool.schema), tool.schema) for kind in types_of(option)]
    if "string" in kinds or not kinds:
        return text
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError:
        value = text
    return value if "array" not in kinds or isinstance(value, list) else [value]


def _is_object(text: str) -> bool:
    try:
        msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, UnicodeEncodeError):
        return False
    return True


def _json(arguments: Mapping[str, Any]) -> str:
    return msgspec.json.encode(arguments).decode()
