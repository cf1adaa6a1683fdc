"""Remove unions from the schema of a tool.

The service refuses a request if a tool's schema contains `anyOf`, `oneOf` or `allOf` anywhere, because some of its
models do not support them. A union is replaced by one schema that combines its members. This schema may allow more
values than the union; the client validates the arguments anyway. If members of `anyOf` or `oneOf` have keywords that
cannot be combined, the members are listed in the schema's description for the model.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from tieline.wire.shared.json import decode_any, encode
from tieline.wire.shared.schemas import fit_schema

Schema = dict[str, Any]

MAX_DESCRIBED = 400
"""The maximum length of the text that describes a union's members. Longer text is cut off."""
MAX_MEANINGS = 64
"""The maximum number of schemas for one property that are joined. If there are more, the property allows any value."""

_UNIONS = ("allOf", "anyOf", "oneOf")
_MARKS = tuple(f'"{word}"'.encode() for word in _UNIONS)
_NAMED = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_LISTED = (*_UNIONS, "prefixItems")
_SINGLE = ("items", "additionalProperties", "contains", "propertyNames", "unevaluatedProperties", "unevaluatedItems")
_BOUNDS = {"patternProperties": ("additionalProperties", True), "prefixItems": ("items", {})}
"""Keywords with the keyword that restricts everything they do not describe, and the value that lifts this restriction.

If the first keyword is lost, the second one would forbid what the first one allowed.
"""
_LOGIC = ("not", "if", "then", "else")
"""Keywords in which unions cannot be replaced, because allowing more values there may make the schema stricter.

A keyword that contains a union is removed.
"""


def for_service(schema: bytes) -> tuple[bytes, tuple[str, ...]]:
    """Return the schema as an object schema that the service accepts, and descriptions of the changes."""
    if _has_unions(schema):
        # References are resolved from `definitions` only, and may lead to a union.
        schema = schema.replace(b'"$defs"', b'"definitions"').replace(b"#/$defs/", b"#/definitions/")
    fitted, notes = fit_schema(schema, "openai")
    if not _has_unions(fitted):
        return fitted, notes
    try:
        root = decode_any(fitted)
        found = sum(_without_union(node) for node in reversed(_schemas(root)))
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return fitted, notes
    return encode(root), (*notes, f"unions joined into plain schemas: {found}") if found else notes


def _has_unions(schema: bytes) -> bool:
    return any(mark in schema for mark in _MARKS)


def _schemas(root: Schema) -> list[Schema]:
    """Return `root` and all schemas nested in it. Outer schemas precede inner ones."""
    found = [root]
    for schema in found:
        found.extend(_children(schema))
    return found


def _children(schema: Schema) -> Iterator[Schema]:
    for word in _LOGIC:
        if word in schema and _has_unions(encode(schema[word])):
            del schema[word]
    for word in _NAMED:
        named = schema.get(word)
        if isinstance(named, dict):
            yield from _dicts(named.values())
    for word in _LISTED:
        listed = schema.get(word)
        if isinstance(listed, list):
            yield from _dicts(listed)
    yield from _dicts(schema.get(word) for word in (*_SINGLE, *_LOGIC))


def _dicts(values: Iterable[Any]) -> Iterator[Schema]:
    return (value for value in values if isinstance(value, dict))


def _without_union(schema: Schema) -> bool:
    """Replace the unions at the top level of a schema, in place. Return whether there were any.

    The unions in nested schemas must be replaced first.
    """
    found = False
    for union in _UNIONS:
        members = schema.pop(union, None)
        if isinstance(members, list):
            found = True
            _merge(schema, _both(members) if union == "allOf" else _either(members))
    return found


def _merge(schema: Schema, other: Schema) -> None:
    """Add the keywords of `other` to `schema`, in place.

    If both have properties, required names or descriptions, these are combined. For any other keyword in both, and for
    a property in both, `schema` takes precedence.
    """
    for word, value in other.items():
        if word == "properties" and isinstance(schema.get(word), dict) and isinstance(value, dict):
            schema[word] = value | schema[word]
        elif word == "required" and isinstance(schema.get(word), list) and isinstance(value, list):
            schema[word] = _unique([*schema[word], *value])
        elif word == "description" and isinstance(schema.get(word), str):
            schema[word] = f"{schema[word]} {value}"
        else:
            schema.setdefault(word, value)


def _both(members: Sequence[Any]) -> Schema:
    joint: Schema = {}
    for member in _dicts(members):
        _merge(joint, member)
    return joint


# ── One of several ───────────────────────────────────────────────────────────────────────────────


def _either(members: Sequence[Any]) -> Schema:
    """Return one schema that combines the alternatives in `members`."""
    schemas = [*_dicts({} if member is True else member for member in members)]
    others = [_plain(schema) for schema in schemas if schema.get("type") != "null"]
    joint = _joined(others)
    return _or_null(joint) if len(others) < len(schemas) else joint


def _or_null(schema: Schema) -> Schema:
    kinds = _kinds(schema)
    if kinds:
        schema["type"] = _unique([*kinds, "null"])
    if isinstance(schema.get("enum"), list):
        schema["enum"] = _unique([*schema["enum"], None])
    return schema


def _plain(schema: Schema) -> Schema:
    """Return the schema with `const` replaced by an `enum` of one value."""
    if "const" not in schema:
        return schema
    plain = {word: value for word, value in schema.items() if word != "const"}
    return {**plain, "enum": [schema["const"]]}


def _joined(members: Sequence[Schema]) -> Schema:
    """Join the members of a union: keep common keywords, and merge types, enums, items and properties.

    If other keywords are lost, list the members in the description.
    """
    if not members:
        return {}
    parts = _without_bounds(members, _common(members))
    joint = _common(parts) | _joined_types(parts) | _joined_lists(parts)
    objects = [member for member in parts if _allows(member, "object")]
    if any(map(_properties, objects)):
        joint |= _joined_objects(objects, len(objects) == len(members))
    if any(member.keys() - joint.keys() - {"title"} for member in members):
        joint["description"] = " ".join(filter(None, [joint.get("description"), _describe(members)]))
    return joint


def _common(members: Sequence[Schema]) -> Schema:
    first, *rest = members
    return {word: value for word, value in first.items() if all(word in m and m[word] == value for m in rest)}


def _without_bounds(members: Sequence[Schema], common: Schema) -> list[Schema]:
    """Return the members without restrictions that depend on a keyword which not all members share."""
    return [
        member | {bound: free for word, (bound, free) in _BOUNDS.items() if word in member and word not in common}
        for member in members
    ]


def _joined_types(members: Sequence[Schema]) -> Schema:
    kinds = [_kinds(member) for member in members]
    if not all(kinds):
        return {}
    every = _unique([kind for some in kinds for kind in some])
    return {"type": every[0] if len(every) == 1 else every}


def _joined_lists(members: Sequence[Schema]) -> Schema:
    """Join `enum` if all members have it, and join `items`.

    `items` is kept if it is the same in all members that allow arrays; otherwise any items are allowed.
    """
    joint: Schema = {}
    enums = [member.get("enum") for member in members]
    if all(isinstance(enum, list) for enum in enums):
        joint["enum"] = _unique([value for enum in enums for value in enum or ()])
    if any("items" in member for member in members):
        items = _unique(member.get("items", {}) for member in members if _allows(member, "array"))
        joint["items"] = items[0] if len(items) == 1 else {}
    return joint


def _joined_objects(objects: Sequence[Schema], only: bool) -> Schema:
    """Merge the properties of schemas that allow objects. A property stays required if all of them require it.

    If some of them allow any further properties, their schemas for these are part of each property that they lack.
    `only` says whether all members of the union allow objects. If not, no property is required.
    """
    meanings: dict[str, list[Any]] = {}
    for schema in objects:
        for name, value in _properties(schema).items():
            known = meanings.setdefault(name, [])
            if len(known) <= MAX_MEANINGS and value not in known:
                known.append(value)
    loose = [schema for schema in objects if _further(schema) is not False]
    further = _unique(map(_further, loose))[: MAX_MEANINGS + 1]
    named = Counter(name for schema in loose for name in _properties(schema))
    properties = {
        name: _meaning([*found, *further] if named[name] < len(loose) else found) for name, found in meanings.items()
    }
    required = [_required(schema) for schema in objects]
    always = [name for name in required[0] if all(name in names for names in required)]
    joint: Schema = {"properties": properties}
    if loose:
        stated = _unique(schema.get("additionalProperties", True) for schema in objects)
        joint["additionalProperties"] = _meaning([value for value in stated if value is not False])
    if always and only:
        joint["required"] = always
    return joint


def _further(schema: Schema) -> Any:
    """Return what an object schema allows for properties that only other members list: a schema, True or False.

    A schema that lists properties and does not mention others is meant to have no others. Taken literally, it would
    allow any value for them, and the model would not learn their types.
    """
    return schema.get("additionalProperties", not _properties(schema))


def _meaning(found: Sequence[Any]) -> Any:
    if len(found) == 1:
        return found[0]
    return _either(found) if len(found) <= MAX_MEANINGS else {}


def _describe(members: Sequence[Schema]) -> str:
    text = encode(members).decode()
    if len(text) <= MAX_DESCRIBED:
        return f"One of: {text}"
    return f"One of {len(members)} forms: {text[:MAX_DESCRIBED]}…"


def _kinds(schema: Schema) -> list[str]:
    kind = schema.get("type")
    kinds = kind if isinstance(kind, list) else [kind]
    return [kind for kind in kinds if isinstance(kind, str)]


def _allows(schema: Schema, kind: str) -> bool:
    """Return whether a schema allows values of this type. One without a type allows all, unless it lists values."""
    kinds = _kinds(schema)
    return kind in kinds if kinds else "enum" not in schema


def _properties(schema: Schema) -> dict[str, Any]:
    properties = schema.get("properties")
    return properties if isinstance(properties, dict) else {}


def _required(schema: Schema) -> list[str]:
    names = schema.get("required")
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def _unique(values: Iterable[Any]) -> list[Any]:
    """Return the JSON values without repetitions. Unlike in Python, `1` and `True` are different values."""
    return list({encode(value): value for value in values}.values())
