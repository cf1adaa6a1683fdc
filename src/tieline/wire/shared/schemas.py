"""Convert a tool's JSON schema to one that an upstream accepts.

Clients send schemas that libraries generated: with references into `definitions`, a union at the top level, or numbers
as strings. Upstreams reject such a tool and with it the whole request. An acceptable schema is returned as the same
bytes, so that the upstream's prompt cache still matches. Other schemas are changed deterministically and as little as
possible.

The traversal uses an explicit stack, and inlining has a budget, so that neither deeply nested nor recursive schemas can
exhaust resources.
"""

import math
from collections.abc import Iterable, Iterator
from typing import Any, Literal
from urllib.parse import unquote

import msgspec

from tieline.model.bounded_cache import BoundedCache
from tieline.model.request import EMPTY_SCHEMA, ToolSpec
from tieline.wire.shared.json import decode_any, encode

Style = Literal["anthropic", "openai"]
Schema = dict[str, Any]

FREEFORM_SCHEMA = b'{"type":"object","properties":{"input":{"type":"string"}},"required":["input"]}'
"""The schema of the function that replaces a freeform tool on upstreams without freeform tools."""

MAX_ENTRIES = 4096
MAX_BYTES = 16 << 20
MAX_INLINED = 256 << 10
"""Maximum number of bytes that inlined references may add to one schema."""
MAX_REFS = 12
"""Maximum nesting depth of inlined references."""
MAX_ALTERNATIVES = 64
"""Maximum number of different schemas for one property in a union; with more, the property accepts any value."""
MAX_NOTES = 12

_COUNTS = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")
_NUMBERS = (*_COUNTS, "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_FLAGS = ("uniqueItems", "additionalProperties")
_DROPPED = ("$comment", "$id")
_UNIONS = ("allOf", "anyOf", "oneOf")
_TYPES = frozenset({"object", "array", "string", "number", "integer", "boolean", "null"})
_NAMED = ("properties", "patternProperties", "$defs", "dependentSchemas")
_LISTED = ("allOf", "anyOf", "oneOf", "prefixItems")
_SINGLE = ("items", "additionalProperties", "additionalItems", "unevaluatedProperties", "unevaluatedItems")
_LOGIC = ("not", "if", "then", "else", "contains", "propertyNames")
_NOT_ABOVE = ("$ref", "definitions", "components", "enum", "not", "nullable")
_KEPT_ABOVE = ("$schema", "$defs", "title", "description")
"""The keywords that are kept from a top-level schema that does not describe an object."""

FittedSchema = tuple[bytes, tuple[str, ...]]
"""The converted schema and notes about the changes."""


class SchemaFitter:
    """Converts schemas for one style of upstream. Results are cached, because clients send all tools every time."""

    def __init__(self, style: Style, *, max_entries: int = MAX_ENTRIES, max_bytes: int = MAX_BYTES) -> None:
        self._style: Style = style
        self._cache: BoundedCache[bytes, FittedSchema] = BoundedCache(
            max_entries, max_weight=max_bytes, max_each=max_bytes // 16
        )

    def fit(self, schema: bytes) -> FittedSchema:
        """Convert a schema, unless the result is cached. Return the new schema and notes about the changes."""
        fitted = self._cache.get(schema)
        if fitted is None:
            fitted = fit_schema(schema, self._style)
            self._cache.put(schema, fitted, len(schema) + len(fitted[0]))
        return fitted


def fit_schema(schema: bytes, style: Style) -> FittedSchema:
    """Convert a schema for this style of upstream. Return the new schema and notes about the changes."""
    if not schema or schema.isspace():
        return EMPTY_SCHEMA, ()
    try:
        return _SchemaConversion(schema, style).result()
    except RecursionError:
        return schema, ("the schema is nested too deeply to be checked",)
    except (msgspec.DecodeError, UnicodeError):
        return schema, ("the schema is not valid JSON and was sent unchanged",)


def description(tool: ToolSpec) -> str:
    """Return the description of a tool. For a freeform tool it includes the grammar, which a schema cannot express."""
    form: Schema = tool.meta.get("format") or {}
    grammar = form.get("grammar", form)
    definition = grammar.get("definition")
    if not tool.freeform or not definition:
        return tool.description
    syntax = grammar.get("syntax", "")
    return f"{tool.description}\n\nThe input has to follow this {syntax} grammar:\n{definition}".strip()


def _at(document: Any, ref: str) -> Any:
    """Return the schema that a local reference such as `#/$defs/name` points to; None if there is none."""
    place = document
    for step in unquote(ref[2:]).split("/"):
        key = step.replace("~1", "/").replace("~0", "~")
        if isinstance(place, list) and key.isdecimal() and int(key) < len(place):
            place = place[int(key)]
        elif isinstance(place, dict):
            place = place.get(key)
        else:
            return None
    return place if isinstance(place, dict | bool) else None


class _SchemaConversion:
    """The conversion of one schema. The parsed schema is modified in place; `changed` says whether it was."""

    def __init__(self, source: bytes, style: Style) -> None:
        self.source = source
        self.style = style
        self.changed = False
        self.notes: dict[str, None] = {}
        self.budget = MAX_INLINED
        self.copies: dict[tuple[int, str], bytes] = {}

    def result(self) -> FittedSchema:
        root = decode_any(self.source)
        if root is None or root in ({}, ""):
            return EMPTY_SCHEMA, ()
        if not isinstance(root, dict):
            return EMPTY_SCHEMA, ("a schema that is not a JSON object was replaced by one without properties",)
        # Look up references in an unmodified copy, because the conversion removes definitions from the tree.
        self.document = decode_any(self.source)
        root = self.object_at_top(root)
        self.walk(root)
        return encode(root) if self.changed else self.source, tuple(self.notes)[:MAX_NOTES]

    def note(self, message: str) -> None:
        self.changed = True
        self.notes[message] = None

    # ── The top: one object, no unions ──────────────────────────────────────────────────────────

    def object_at_top(self, root: Schema) -> Schema:
        root = self.flat(root, 0)
        for key in _NOT_ABOVE:
            if key in root:
                del root[key]
                self.changed = True
        if not _describes_object(root):
            self.note("the top-level schema did not describe an object and was replaced")
            root = {key: root[key] for key in _KEPT_ABOVE if key in root}
        if root.get("type") != "object":
            root["type"] = "object"
            self.changed = True
        if not isinstance(root.get("properties"), dict):
            root["properties"] = {}
            self.changed = True
        return root

    def flat(self, schema: Schema, depth: int) -> Schema:
        """Return the schema with a reference at its top level inlined, and a union at its top level merged."""
        if depth > MAX_REFS:
            self.note("deeply nested top-level unions and references were dropped")
            return {}
        ref = schema.get("$ref")
        if isinstance(ref, str):
            del schema["$ref"]
            target = self.copy(ref, schema)
            self.note(f"the top-level reference {ref} was inlined")
            return self.flat({**target, **schema} if isinstance(target, dict) else schema, depth + 1)
        for union in _UNIONS:
            members = schema.pop(union, None)
            if members is None:
                continue
            self.note(f"the top-level {union} was merged into one object")
            flat = [self.flat(member, depth + 1) for member in _schemas(members)]
            _merge(schema, [member for member in flat if _describes_object(member)], union)
        return schema

    # ── Below: keywords and references ──────────────────────────────────────────────────────────

    def walk(self, root: Schema) -> None:
        """Convert every schema in the tree.

        For each schema, `inside` are the references that were inlined on the path to it, and `home` is the nearest
        enclosing schema with its own definitions. `home` is needed because a schema that was embedded unchanged in
        another one still refers to its definitions as if it were the root.
        """
        stack: list[tuple[Schema, tuple[str, ...], Schema]] = [(root, (), root)]
        while stack:
            schema, inside, home = stack.pop()
            ref = schema.get("$ref")
            if isinstance(ref, str) and not self.can_stay(ref):
                self.inline(schema, ref, inside, home)
                stack.append((schema, (*inside, ref), home))
                continue
            self.keywords(schema)
            if "$defs" in schema or "definitions" in schema:
                home = schema
            stack.extend((child, inside, home) for child in _children(schema))

    def can_stay(self, ref: str) -> bool:
        """Return whether a reference need not be inlined. Upstreams resolve references into `$defs` themselves."""
        return ref.startswith("#/$defs/") and _at(self.document, ref) is not None

    def inline(self, schema: Schema, ref: str, inside: tuple[str, ...], home: Schema) -> None:
        """Replace the reference in `schema` with its target. Keywords next to the reference take precedence."""
        del schema["$ref"]
        if ref in inside or len(inside) >= MAX_REFS:
            self.note(f"the recursive reference {ref} was dropped")
            return
        target = self.copy(ref, home)
        if target is None:
            self.note(f"the reference {ref} has no target and was dropped")
        elif isinstance(target, dict):
            self.note(f"the reference {ref} was inlined")
            beside = dict(schema)
            schema.clear()
            schema |= target | beside
        elif target is False:
            self.note(f"the reference {ref} was inlined")
            schema["not"] = {}

    def copy(self, ref: str, home: Schema) -> Any:
        """Return a copy of a reference's target. Return None if it is not found, or {} if the budget is exhausted."""
        encoded = self.copies.get((id(home), ref))
        if encoded is None:
            target = self.target(ref, home)
            if target is None:
                return None
            encoded = self.copies[id(home), ref] = encode(target)
        self.budget -= len(encoded)
        if self.budget < 0:
            self.note("inlined references made the schema too large; some were dropped")
            return {}
        return decode_any(encoded)

    def target(self, ref: str, home: Schema) -> Any:
        """Return the target of a reference in the document or in the enclosing schema `home`; None if not found."""
        if not ref.startswith("#/"):
            return None
        found = _at(self.document, ref)
        return _at(home, ref) if found is None else found

    def keywords(self, schema: Schema) -> None:
        """Correct the keywords of one schema, but not those of its subschemas."""
        for key in _DROPPED:
            if isinstance(schema.get(key), str):
                del schema[key]
                self.changed = True
        for key in _NUMBERS:
            if isinstance(schema.get(key), str):
                self.number(schema, key)
        for key in _FLAGS:
            if schema.get(key) in ("true", "false"):
                schema[key] = schema[key] == "true"
                self.note(f"{key} was a string")
        self.lists(schema)
        if "type" in schema:
            self.types(schema)
        if "nullable" in schema:
            self.nullable(schema)
        self.old_drafts(schema)

    def lists(self, schema: Schema) -> None:
        if "enum" in schema and not (isinstance(schema["enum"], list) and schema["enum"]):
            del schema["enum"]
            self.note("an empty enum was dropped")
        if "required" in schema and not isinstance(schema["required"], list):
            del schema["required"]
            self.note("`required` was not a list and was dropped")

    def number(self, schema: Schema, key: str) -> None:
        value = _number(schema[key])
        if value is None:
            del schema[key]
            self.note(f"{key} was not a number and was dropped")
        else:
            schema[key] = int(value) if key in _COUNTS else value
            self.note(f"{key} was a string")

    def types(self, schema: Schema) -> None:
        kind = schema["type"]
        if isinstance(kind, str) and kind not in _TYPES and kind.lower() in _TYPES:
            schema["type"] = kind = kind.lower()
            self.note(f"the type {kind} was spelled in upper case")
        arrays = kind == "array" or (isinstance(kind, list) and "array" in kind)
        if arrays and self.style == "openai" and "items" not in schema:
            schema["items"] = {}
            self.changed = True

    def nullable(self, schema: Schema) -> None:
        """Remove OpenAPI's `nullable`, and add null to the allowed types instead."""
        if schema.pop("nullable") is not True:
            self.changed = True
            return
        self.note("nullable was replaced by the type null")
        kind = schema.get("type")
        kinds = [kind] if isinstance(kind, str) else kind if isinstance(kind, list) else None
        if kinds is not None:
            schema["type"] = kinds if "null" in kinds else [*kinds, "null"]
            if isinstance(schema.get("enum"), list) and None not in schema["enum"]:
                schema["enum"].append(None)
        elif "$ref" in schema:
            schema["anyOf"] = [{"$ref": schema.pop("$ref")}, {"type": "null"}]
        elif isinstance(schema.get("anyOf"), list):
            schema["anyOf"].append({"type": "null"})

    def old_drafts(self, schema: Schema) -> None:
        """Convert tuples and exclusive bounds to the current draft of JSON Schema, which strict upstreams require."""
        if isinstance(schema.get("items"), list):
            schema["prefixItems"] = schema.pop("items")
            rest = schema.pop("additionalItems", None)
            if isinstance(rest, dict | bool):
                schema["items"] = rest
            elif self.style == "openai":
                schema["items"] = {}
            self.note("a list in items was moved to prefixItems")
        for exclusive, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
            if isinstance(schema.get(exclusive), bool):
                if schema.pop(exclusive) and not isinstance(schema.get(bound, False), bool):
                    schema[exclusive] = schema.pop(bound)
                self.note(f"{exclusive} was a boolean")


def _describes_object(schema: Schema) -> bool:
    """Return whether the schema can describe an object. A schema without a type can; union members often omit it."""
    kind = schema.get("type")
    if isinstance(kind, list):
        return "object" in kind
    return kind is None or (isinstance(kind, str) and kind.lower() == "object")


def _schemas(value: Any) -> Iterator[Schema]:
    return (schema for schema in value if isinstance(schema, dict)) if isinstance(value, list) else iter(())


def _children(schema: Schema) -> Iterator[Schema]:
    for key in _NAMED:
        named = schema.get(key)
        if isinstance(named, dict):
            yield from _schemas([*named.values()])
    for key in _LISTED:
        yield from _schemas(schema.get(key))
    for key in (*_SINGLE, *_LOGIC):
        single = schema.get(key)
        if isinstance(single, dict):
            yield single


def _merge(base: Schema, members: list[Schema], union: str) -> None:
    """Merge the members of a union into `base`.

    `base` receives the properties of all members. A property is required if all members require it or, for allOf, if
    any member does.
    """
    if not members:
        return
    for key in ("properties", "patternProperties", "$defs"):
        _merge_named(base, members, key, union)
    required = [*_required(base), *_required_by(members, union)]
    if required:
        base["required"] = list(dict.fromkeys(required))
    if all(member.get("additionalProperties") is False for member in members):
        base.setdefault("additionalProperties", False)
    if union == "allOf":
        for member in members:
            for key, value in member.items():
                if key != "additionalProperties":
                    base.setdefault(key, value)


def _required_by(members: list[Schema], union: str) -> list[str]:
    required = [_required(member) for member in members]
    if union == "allOf":
        return [name for names in required for name in names]
    return [name for name in required[0] if all(name in names for names in required)]


def _required(schema: Schema) -> list[str]:
    names = schema.get("required")
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def _merge_named(base: Schema, members: Iterable[Schema], key: str, union: str) -> None:
    """Merge the maps of named schemas under `key`, such as `properties`, into `base`.

    If the schemas for a name differ, they are combined in an allOf if `union` is allOf, otherwise in an anyOf.
    """
    found: dict[str, list[Any]] = {}
    for schema in (base, *members):
        named = schema.get(key)
        for name, value in named.items() if isinstance(named, dict) else ():
            known = found.setdefault(name, [])
            if len(known) <= MAX_ALTERNATIVES and value not in known:
                known.append(value)
    if found:
        keyword = "allOf" if union == "allOf" else "anyOf"
        base[key] = {name: _combined(schemas, keyword) for name, schemas in found.items()}


def _combined(schemas: list[Any], keyword: str) -> Any:
    if len(schemas) == 1:
        return schemas[0]
    return {keyword: schemas} if len(schemas) <= MAX_ALTERNATIVES else {}


def _number(text: str) -> int | float | None:
    try:
        return int(text)
    except ValueError:
        pass
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
