"""Parse the arguments of tool calls and fit them to the tool's schema.

Nothing is guessed: for example, a string is converted to a number only if the schema does not allow a string. Arguments
that need no change are returned as the original text.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

MAX_DEPTH = 24

_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode

_NAME_KEYS = ("recipient_name", "name", "tool_name", "tool")
_ARGUMENT_KEYS = ("arguments", "parameters", "args", "input")
_BOOLEANS = {"True": True, "False": False}
_ERRORS = (msgspec.DecodeError, UnicodeError, RecursionError)

Schema = dict[str, Any]


def object_fields(text: str | bytes | msgspec.Raw) -> dict[str, msgspec.Raw] | None:
    """Return the undecoded fields of a JSON object, or None if the text is not an object."""
    try:
        return _OBJECT.decode(text)
    except _ERRORS:
        return None


def array_items(text: str | bytes | msgspec.Raw) -> list[msgspec.Raw] | None:
    """Return the undecoded items of a JSON array, or None if the text is not an array."""
    try:
        return msgspec.json.decode(text, type=list[msgspec.Raw])
    except _ERRORS:
        return None


def is_object(text: str) -> bool:
    """Return whether the text is a JSON object."""
    return object_fields(text) is not None


def parse_call(text: str | bytes | msgspec.Raw) -> tuple[str, str] | None:
    """Return the name and arguments of a call written as a JSON object, or None if the text is not a call."""
    found = object_fields(text)
    if found is None:
        return None
    if "function" in found and "name" not in found:
        return parse_call(found["function"]) if object_fields(found["function"]) is not None else None
    name = next((_string(found[key]) for key in _NAME_KEYS if key in found), None)
    given = next((found[key] for key in _ARGUMENT_KEYS if key in found), msgspec.Raw(b"{}"))
    arguments = _argument_text(given)
    return None if not name or arguments is None else (name, arguments)


def _string(raw: msgspec.Raw) -> str | None:
    try:
        return msgspec.json.decode(raw, type=str)
    except _ERRORS:
        return None


def _argument_text(raw: msgspec.Raw) -> str | None:
    """Return the arguments in `raw` as the text of a JSON object.

    `raw` is a JSON object, a string that contains one, or null. Return None if it is anything else.
    """
    inner = _string(raw)
    text = bytes(raw).decode() if inner is None else inner
    if text == "null":
        return "{}"
    return text if is_object(text) else None


class ArgumentSchema:
    """The schema of one tool's arguments."""

    def __init__(self, schema: bytes) -> None:
        try:
            root = _decode(schema)
        except _ERRORS:
            root = {}
        self._root: Schema = root if isinstance(root, dict) else {}

    def fit(self, text: str, *, keys: bool, values: bool) -> tuple[str, tuple[str, ...]]:
        """Convert arguments to fit the schema. Return the new arguments and descriptions of the changes.

        `keys` enables the trimming of argument names, `values` the conversion of strings to other types.
        """
        try:
            given = _decode(text)
        except _ERRORS:
            return text, ()
        fitting = _ArgumentFitter(self._root, keys=keys, values=values)
        fitted = fitting.fit(given, {"type": "object", **self._root}, "", 0)
        return (_encode(fitted).decode(), tuple(fitting.notes)) if fitting.notes else (text, ())

    def arguments(self, given: Mapping[str, str]) -> str:
        """Return `given`, a mapping from names to texts, as JSON arguments with the types that the schema requires."""
        fitting = _ArgumentFitter(self._root, keys=False, values=True)
        return _encode(fitting.fit(dict(given), self._root, "", 0)).decode()


class _ArgumentFitter:
    def __init__(self, root: Schema, *, keys: bool, values: bool) -> None:
        self.root = root
        self.keys = keys
        self.values = values
        self.notes: list[str] = []

    def fit(self, value: Any, schema: Any, at: str, depth: int) -> Any:
        """Return the value, converted to fit the schema if that is unambiguous. `at` is its path, for the notes."""
        schema = self.resolved(schema, depth)
        if depth > MAX_DEPTH or not schema:
            return value
        if self.values and isinstance(value, str):
            value = self.coerced(value, schema, at, depth)
        if isinstance(value, dict):
            return self.fit_object(value, schema, at, depth)
        if isinstance(value, list) and "items" in schema:
            return [self.fit(item, schema["items"], f"{at}[{place}]", depth + 1) for place, item in enumerate(value)]
        return value

    def fit_object(self, value: dict[str, Any], schema: Schema, at: str, depth: int) -> dict[str, Any]:
        properties = schema.get("properties")
        if not isinstance(properties, dict):
            return value
        fitted = {}
        for key, item in value.items():
            name = self.trimmed(key, value, properties) if self.keys else key
            fitted[name] = self.fit(item, properties.get(name), f"{at}.{name}" if at else name, depth + 1)
        return fitted

    def trimmed(self, key: str, value: Mapping[str, Any], properties: Mapping[str, Any]) -> str:
        name = key.strip()
        if name == key or key in properties or name not in properties or name in value:
            return key
        self.notes.append(f"the key {key!r} was trimmed")
        return name

    def coerced(self, value: str, schema: Schema, at: str, depth: int) -> Any:
        types = self.types(schema, depth)
        if types is None or "string" in types:
            return value
        text = value.strip()
        try:
            parsed = _BOOLEANS[text] if text in _BOOLEANS else _decode(text)
        except _ERRORS:
            return value
        if not types & _types_of(parsed):
            return value
        self.notes.append(f"{at or 'the arguments'} was a string and was converted to {_type_name(parsed)}")
        return parsed

    def types(self, schema: Any, depth: int) -> frozenset[str] | None:
        """Return the types that a schema allows, or None if they cannot be determined."""
        schema = self.resolved(schema, depth)
        if not schema or depth > MAX_DEPTH:
            return None
        kind = schema.get("type")
        if isinstance(kind, str):
            return frozenset({kind})
        if isinstance(kind, list):
            return frozenset(one for one in kind if isinstance(one, str))
        return self.types_of_any(schema.get("anyOf") or schema.get("oneOf"), depth)

    def types_of_any(self, alternatives: Any, depth: int) -> frozenset[str] | None:
        if not isinstance(alternatives, list):
            return None
        allowed: frozenset[str] = frozenset()
        for alternative in alternatives:
            types = self.types(alternative, depth + 1)
            if types is None:
                return None
            allowed |= types
        return allowed

    def resolved(self, schema: Any, depth: int) -> Schema:
        """Return the schema with references resolved. A choice between a schema and null is reduced to that schema."""
        while isinstance(schema, dict) and depth <= MAX_DEPTH:
            ref, choice = schema.get("$ref"), _only_choice(schema)
            if isinstance(ref, str):
                schema = self.target(ref)
            elif choice is not None:
                schema = choice
            else:
                return schema
            depth += 1
        return {}

    def target(self, ref: str) -> Any:
        place: Any = self.root
        for step in ref.removeprefix("#/").split("/"):
            place = place.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(place, dict) else None
        return place


def _only_choice(schema: Schema) -> Any:
    """Return the only alternative of a schema apart from null. Return None if there are several or none."""
    alternatives = schema.get("anyOf") or schema.get("oneOf")
    if "type" in schema or not isinstance(alternatives, list):
        return None
    real = [one for one in alternatives if not (isinstance(one, dict) and one.get("type") == "null")]
    return real[0] if len(real) == 1 else None


def _types_of(value: Any) -> frozenset[str]:
    match value:
        case bool():
            return frozenset({"boolean"})
        case None:
            return frozenset({"null"})
        case int():
            return frozenset({"integer", "number"})
        case float():
            return frozenset({"number"})
        case dict():
            return frozenset({"object"})
        case list():
            return frozenset({"array"})
        case _:
            return frozenset()


def _type_name(value: Any) -> str:
    names: Sequence[tuple[type, str]] = ((bool, "a boolean"), (dict, "an object"), (list, "an array"))
    return next((name for kind, name in names if isinstance(value, kind)), "a number" if value is not None else "null")
