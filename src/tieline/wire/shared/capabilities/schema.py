"""Helpers to read a JSON schema: references, alternatives, types, properties."""

from collections.abc import Mapping
from typing import Any

import msgspec

Schema = Mapping[str, Any]

MAX_DEPTH = 8


def load(schema: bytes | None) -> Schema:
    """Parse a schema. Return an empty schema if the text is not a JSON object."""
    try:
        loaded = msgspec.json.decode(schema or b"{}")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    return loaded if isinstance(loaded, dict) else {}


def resolve(schema: object, root: Schema) -> Schema:
    """Return the schema with a local `$ref` resolved and `allOf` merged; empty if `schema` is not a JSON object."""
    for _ in range(MAX_DEPTH):
        if not isinstance(schema, Mapping):
            return {}
        if isinstance(schema.get("$ref"), str):
            schema = _target(schema["$ref"], root)
        elif isinstance(schema.get("allOf"), list):
            schema = _merged(schema)
        else:
            return schema
    return {}


def types_of(schema: Schema) -> list[str]:
    """Return the types that a schema allows, inferred from other keywords if `type` is missing."""
    given = schema.get("type")
    if isinstance(given, str):
        return [given]
    if isinstance(given, list):
        return [name for name in given if isinstance(name, str)]
    if "properties" in schema:
        return ["object"]
    return ["array"] if "items" in schema or "prefixItems" in schema else []


def branches(schema: Schema, root: Schema) -> list[Schema]:
    """Return the alternatives in the `anyOf` or `oneOf` of a schema, or only the schema itself if it has none."""
    found = schema.get("anyOf") or schema.get("oneOf")
    if not isinstance(found, list):
        return [schema]
    rest = {key: value for key, value in schema.items() if key not in ("anyOf", "oneOf")}
    return [{**rest, **resolve(branch, root)} for branch in found]


def properties_of(schema: Schema) -> dict[str, Any]:
    """Return the properties of an object schema."""
    found = schema.get("properties")
    return found if isinstance(found, dict) else {}


def required_of(schema: Schema) -> list[str]:
    """Return the names of the required properties."""
    found = schema.get("required")
    return [name for name in found if isinstance(name, str)] if isinstance(found, list) else []


def description_of(schema: Schema) -> str:
    """Return the description of a schema in lower case."""
    return str(schema.get("description", "")).lower()


def _target(reference: str, root: Schema) -> object:
    """Return the target of a local reference such as `#/$defs/Person`."""
    found: object = root
    for step in reference.removeprefix("#").split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        found = found.get(key) if isinstance(found, Mapping) else None
    return found


def _merged(schema: Schema) -> dict[str, Any]:
    merged: dict[str, Any] = {key: value for key, value in schema.items() if key != "allOf"}
    for part in schema["allOf"]:
        if isinstance(part, Mapping):
            properties = {**properties_of(merged), **properties_of(part)}
            required = [*required_of(merged), *required_of(part)]
            merged = {**merged, **part}
            merged |= {"properties": properties} if properties else {}
            merged |= {"required": required} if required else {}
    return merged
