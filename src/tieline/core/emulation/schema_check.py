"""Validate a JSON value against a schema, limited to the keywords that structured output uses."""

from collections.abc import Mapping
from typing import Any

MAX_DEPTH = 64

_TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}


def schema_error(value: Any, schema: Any, root: Any = None, at: str = "$", depth: int = 0) -> str | None:
    """Return the first violation of the schema with its path, or None if the value is valid.

    Unsupported keywords are ignored. `root`, `at` and `depth` are for recursive calls.
    """
    root = schema if root is None else root
    if isinstance(schema, dict) and isinstance(schema.get("$ref"), str):
        schema = _target(root, schema["$ref"])
    if not isinstance(schema, dict) or depth > MAX_DEPTH:
        return None
    for check in (_type, _choice, _alternatives, _members, _items):
        error = check(value, schema, root, at, depth)
        if error is not None:
            return error
    return None


def _target(root: Any, ref: str) -> Any:
    for piece in ref.removeprefix("#").strip("/").split("/"):
        if piece:
            root = root.get(piece.replace("~1", "/").replace("~0", "~")) if isinstance(root, dict) else None
    return root


def _type(value: Any, schema: Mapping[str, Any], _root: Any, at: str, _depth: int) -> str | None:
    given = schema.get("type")
    names = [str(name) for name in (given if isinstance(given, list) else [given]) if name in _TYPES]
    if not names or any(_is(value, name) for name in names):
        return None
    return f"{at} must be of type {' or '.join(names)}"


def _is(value: Any, name: str) -> bool:
    if isinstance(value, bool):
        return name == "boolean"
    if name == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _TYPES[name])


def _choice(value: Any, schema: Mapping[str, Any], _root: Any, at: str, _depth: int) -> str | None:
    allowed = [schema["const"]] if "const" in schema else schema.get("enum")
    if not isinstance(allowed, list) or value in allowed:
        return None
    return f"{at} must be one of {allowed!r:.200}"


def _alternatives(value: Any, schema: Mapping[str, Any], root: Any, at: str, depth: int) -> str | None:
    for name in ("anyOf", "oneOf"):
        options = schema.get(name)
        if isinstance(options, list) and options:
            errors = [schema_error(value, option, root, at, depth + 1) for option in options]
            if None not in errors:
                return errors[0]
    for option in schema.get("allOf") or ():
        if (error := schema_error(value, option, root, at, depth + 1)) is not None:
            return error
    return None


def _members(value: Any, schema: Mapping[str, Any], root: Any, at: str, depth: int) -> str | None:
    if not isinstance(value, dict):
        return None
    missing = [name for name in schema.get("required") or () if name not in value]
    if missing:
        return f"{at} is missing `{missing[0]}`"
    known = schema.get("properties")
    known = known if isinstance(known, dict) else {}
    for name, member in value.items():
        if name in known:
            error = schema_error(member, known[name], root, f"{at}.{name}", depth + 1)
        elif schema.get("additionalProperties") is False:
            error = f"{at} must not contain `{name}`"
        else:
            error = None
        if error is not None:
            return error
    return None


def _items(value: Any, schema: Mapping[str, Any], root: Any, at: str, depth: int) -> str | None:
    if not isinstance(value, list) or not isinstance(schema.get("items"), dict):
        return None
    errors = (
        schema_error(item, schema["items"], root, f"{at}[{index}]", depth + 1) for index, item in enumerate(value)
    )
    return next((error for error in errors if error is not None), None)
