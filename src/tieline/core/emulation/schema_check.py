"""Validate a JSON value against a schema. Only the most common keywords are supported."""

from collections.abc import Mapping
from typing import Any

MAX_DEPTH = 64
MAX_STEPS = 50_000
"""Maximum number of subschemas that are checked for one value."""

_TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}


def schema_error(value: Any, schema: Any) -> str | None:
    """Return a description of the first violation of the schema, with its path, or None if the value is valid.

    Keywords that are unsupported or malformed are ignored, and `oneOf` is treated like `anyOf`. If a check takes more
    than MAX_STEPS steps, for example because a schema refers to itself in every alternative, the rest of the value is
    accepted. So is anything nested more than MAX_DEPTH levels deep.
    """
    return _SchemaCheck(schema).error(value, schema, "$", 0)


class _SchemaCheck:
    """Checks one value. `root` is the complete schema, in which references (`$ref`) are looked up."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._steps = 0

    def error(self, value: Any, schema: Any, at: str, depth: int) -> str | None:
        self._steps += 1
        if isinstance(schema, dict) and isinstance(schema.get("$ref"), str):
            schema = _target(self._root, schema["$ref"])
        if not isinstance(schema, dict) or depth > MAX_DEPTH or self._steps > MAX_STEPS:
            return None
        error = _type_error(value, schema, at) or _choice_error(value, schema, at)
        if error is not None:
            return error
        for check in (self._alternatives, self._members, self._items):
            error = check(value, schema, at, depth + 1)
            if error is not None:
                return error
        return None

    def _alternatives(self, value: Any, schema: Mapping[str, Any], at: str, depth: int) -> str | None:
        for name in ("anyOf", "oneOf"):
            options = _list(schema, name)
            if options:
                errors = [self.error(value, option, at, depth) for option in options]
                if None not in errors:
                    return errors[0]
        errors = [self.error(value, option, at, depth) for option in _list(schema, "allOf")]
        return next((error for error in errors if error is not None), None)

    def _members(self, value: Any, schema: Mapping[str, Any], at: str, depth: int) -> str | None:
        if not isinstance(value, dict):
            return None
        missing = [name for name in _list(schema, "required") if isinstance(name, str) and name not in value]
        if missing:
            return f"{at} is missing `{missing[0]}`"
        known = schema.get("properties")
        known = known if isinstance(known, dict) else {}
        for name, member in value.items():
            error = None
            if name in known:
                error = self.error(member, known[name], f"{at}.{name}", depth)
            elif schema.get("additionalProperties") is False:
                error = f"{at} must not contain `{name}`"
            if error is not None:
                return error
        return None

    def _items(self, value: Any, schema: Mapping[str, Any], at: str, depth: int) -> str | None:
        if not isinstance(value, list) or not isinstance(schema.get("items"), dict):
            return None
        errors = (self.error(item, schema["items"], f"{at}[{index}]", depth) for index, item in enumerate(value))
        return next((error for error in errors if error is not None), None)


def _list(schema: Mapping[str, Any], keyword: str) -> list[Any]:
    """Return the value of a keyword if it is an array, otherwise an empty list."""
    value = schema.get(keyword)
    return value if isinstance(value, list) else []


def _target(root: Any, ref: str) -> Any:
    for piece in ref.removeprefix("#").strip("/").split("/"):
        if piece:
            root = root.get(piece.replace("~1", "/").replace("~0", "~")) if isinstance(root, dict) else None
    return root


def _type_error(value: Any, schema: Mapping[str, Any], at: str) -> str | None:
    given = schema.get("type")
    names = [name for name in (given if isinstance(given, list) else [given]) if isinstance(name, str)]
    names = [name for name in names if name in _TYPES]
    if not names or any(_is(value, name) for name in names):
        return None
    return f"{at} must be of type {' or '.join(names)}"


def _is(value: Any, name: str) -> bool:
    if isinstance(value, bool):
        return name == "boolean"
    if name == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _TYPES[name])


def _choice_error(value: Any, schema: Mapping[str, Any], at: str) -> str | None:
    allowed = [schema["const"]] if "const" in schema else schema.get("enum")
    if not isinstance(allowed, list) or value in allowed:
        return None
    return f"{at} must be one of {allowed!r:.200}"
