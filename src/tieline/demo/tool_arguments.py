"""Build calls to a tool that the user named, with arguments from the user's text and the tool's schema."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tieline.demo.phrases import shortened, unquoted
from tieline.demo.reply_steps import CallTool
from tieline.demo.schema_filler import FillHints, SchemaFiller
from tieline.model.request import ToolSpec
from tieline.wire.shared.capabilities import ClientTool, client_tools
from tieline.wire.shared.capabilities.schema import branches, properties_of, required_of, resolve, types_of

_PAIR = re.compile(r"\b(\w{1,64})\s{0,3}[=:]\s{0,3}(\"[^\"]*\"|'[^']*'|[^\s,]+)")
_SEPARATOR = re.compile(r"\s{0,3},\s{0,3}(?:and\s{1,3})?|\s{1,3}and\s{1,3}")


def callable_tools(tools: Sequence[ToolSpec], names: Sequence[str] = ()) -> tuple[ClientTool, ...]:
    """Return the tools that the client runs. If `names` is not empty, return only the tools with these names."""
    return tuple(tool for tool in client_tools(tools) if not names or tool.name in names)


def guess_call(
    tool: ClientTool, words: str, directory: str = "", *, given: Mapping[str, Any] | None = None
) -> CallTool:
    """Return a call to the tool with the `given` arguments. Guess other required arguments from the user's text.

    `directory` is the client's working directory.
    """
    if tool.freeform:
        return CallTool(name=tool.name, arguments=words, freeform=True)
    filler = SchemaFiller(tool.schema, FillHints(words, phrase=shortened(words, 60), directory=directory), sparing=True)
    properties = properties_of(tool.schema)
    arguments = dict(given or {})
    for name in required_of(tool.schema):
        if name not in arguments:
            arguments[name] = filler.value(properties.get(name, True), name, 1)
    return CallTool(name=tool.name, arguments=_json(arguments))


def parse_calls(tool: ClientTool, words: str, directory: str = "") -> list[CallTool]:
    """Return calls to the tool with the arguments in `words`, a part of the user's text.

    `words` is a JSON object, `name=value` pairs, or values in the order of the tool's parameters.
    """
    if tool.freeform:
        return [CallTool(name=tool.name, arguments=unquoted(words), freeform=True)]
    if _is_object(words):
        return [CallTool(name=tool.name, arguments=words)]
    return [guess_call(tool, words, directory, given=given) for given in _given(tool, words)]


def _given(tool: ClientTool, words: str) -> list[dict[str, Any]]:
    """Return the arguments that the user's text contains, one dictionary per call.

    If the tool has one parameter and the text contains several values, there is one call for each value.
    """
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
    """Split the text into values: `Tokyo and Paris` contains two values, `"Tokyo and Paris"` one."""
    inner = unquoted(words)
    if inner != words:
        return [inner]
    return [unquoted(value) for value in _SEPARATOR.split(words) if value]


def _enum_choices(tool: ClientTool, words: str) -> tuple[str, dict[str, Any]]:
    """Find values of enum parameters in the text, such as the unit in `Tokyo in celsius`.

    Return the text without these values, and the values by parameter name.
    """
    chosen = {}
    for name, schema in properties_of(tool.schema).items():
        for option in resolve(schema, tool.schema).get("enum") or ():
            mention = re.compile(rf"\s{{0,3}}(?:\b(?:in|as|with)\s{{1,3}})?\b{re.escape(str(option))}\b", re.IGNORECASE)
            if isinstance(option, str) and option and mention.search(words):
                words, chosen[name] = mention.sub("", words, count=1), option
                break
    return words.strip(), chosen


def _typed(text: str, schema: object, tool: ClientTool) -> Any:
    """Convert text to the type that the schema of a parameter expects. If this is impossible, return the text."""
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
