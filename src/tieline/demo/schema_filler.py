"""Make values that satisfy a JSON schema, for structured answers and for tool arguments not in the user's text."""

import re
from typing import Any

from tieline.demo.phrases import shortened, title_of
from tieline.wire.shared.capabilities.schema import (
    MAX_DEPTH,
    Schema,
    branches,
    properties_of,
    required_of,
    resolve,
    types_of,
)

_PHRASE_NAMES = {"description", "explanation", "reason", "purpose", "summary", "rationale", "justification", "thought"}
_PROPER_NAMES = ("city", "location", "place", "country", "name", "person", "where", "who")
_FORMATS = {
    "date": "2024-01-01",
    "time": "12:00:00Z",
    "date-time": "2024-01-01T12:00:00Z",
    "duration": "PT1H",
    "email": "demo@example.com",
    "hostname": "example.com",
    "ipv4": "127.0.0.1",
    "ipv6": "::1",
    "uri": "https://example.com/",
    "url": "https://example.com/",
    "uuid": "00000000-0000-4000-8000-000000000000",
}
_SAMPLES = ("a", "A", "0", "1", "abc", "ABC", "demo", "a1", "A1", "00", "000", "0000", "a@b.co", *_FORMATS.values())


class FillHints:
    """Supplies strings and numbers from the user's text (`words`) for generated values.

    `phrase` is used for properties such as a description. `directory` is the client's working directory.
    """

    def __init__(self, words: str, *, phrase: str = "", directory: str = "") -> None:
        self.words = words
        self.phrase = phrase
        self.directory = directory
        self._numbers = [float(found) for found in re.findall(r"(?<![\w.])-?\d{1,12}(?:\.\d{1,6})?", words[:4000])]

    def text(self, name: str) -> str:
        """Return a string for a property with this name."""
        key = name.lower()
        if key in _PHRASE_NAMES:
            return self.phrase or title_of(self.words)
        if "title" in key:
            return title_of(self.words)
        if key in ("cwd", "workdir", "directory", "working_directory"):
            return self.directory or "."
        if any(part in key for part in _PROPER_NAMES):
            return self._proper_name() or shortened(self.words) or "demo"
        return shortened(self.words, 200) or "demo"

    def number(self, schema: Schema, *, whole: bool) -> float | None:
        """Return the next unused number in the user's text, or None if there is none or the schema does not allow it.

        `whole` says whether it must be an integer.
        """
        if not self._numbers:
            return None
        number = self._numbers[0]
        low, high, step = _bounds(schema, whole=whole)
        fits = low <= number <= high and (step is None or number % step == 0) and not (whole and number % 1)
        return self._numbers.pop(0) if fits else None

    def _proper_name(self) -> str:
        """Return the first capitalised words that do not begin a sentence, otherwise the first capitalised word."""
        found = re.search(r"(?<=[\w,;:] )[A-Z]\w+(?: [A-Z]\w+)*", self.words[:4000])
        found = found or re.search(r"[A-Z]\w+", self.words[:4000])
        return found[0] if found else ""


class SchemaFiller:
    """Makes values that satisfy `root` or a schema inside it.

    If `sparing` is true, values are as small as possible: null or an empty list wherever the schema allows it.
    """

    def __init__(self, root: Schema, hints: FillHints, *, sparing: bool = False) -> None:
        self.root = root
        self.hints = hints
        self.sparing = sparing

    def value(self, schema: object, name: str = "", depth: int = 0) -> Any:
        """Return a small value that satisfies the schema.

        `name` is the name of the property for which the value is made, `depth` its nesting depth.
        """
        options = branches(resolve(schema, self.root), self.root)
        allows_null = any("null" in types_of(option) for option in options)
        if allows_null and (self.sparing or depth >= MAX_DEPTH):
            return None
        chosen = next((option for option in options if types_of(option) != ["null"]), options[0])
        if "const" in chosen:
            return chosen["const"]
        if isinstance(chosen.get("enum"), list) and chosen["enum"]:
            return self._choice(chosen["enum"])
        return self._typed(chosen, name, depth)

    def _typed(self, schema: Schema, name: str, depth: int) -> Any:
        match next((kind for kind in types_of(schema) if kind != "null"), "null" if types_of(schema) else "string"):
            case "object":
                return self._object(schema, depth)
            case "array":
                return self._array(schema, name, depth)
            case "integer":
                return int(self._number(schema, whole=True))
            case "number":
                return self._number(schema, whole=False)
            case "boolean":
                return False
            case "null":
                return None
            case _:
                return self._string(schema, name)

    def _choice(self, options: list[Any]) -> Any:
        """Return the first option that the user's text mentions. If it mentions none, return the first option."""
        words = self.hints.words.lower()
        said = (option for option in options if isinstance(option, str) and option and option.lower() in words)
        return next(said, options[0])

    def _object(self, schema: Schema, depth: int) -> dict[str, Any]:
        """Return an object with the required properties, or with all properties if the schema has no `required`.

        Deeply nested objects have only the required properties.
        """
        properties = properties_of(schema)
        names = required_of(schema) if "required" in schema or depth >= 3 else list(properties)
        if depth > MAX_DEPTH * 2:
            return {}
        return {name: self.value(properties.get(name, True), name, depth + 1) for name in names}

    def _array(self, schema: Schema, name: str, depth: int) -> list[Any]:
        prefix = schema.get("prefixItems")
        values = [self.value(item, name, depth + 1) for item in prefix] if isinstance(prefix, list) else []
        least = schema.get("minItems")
        wanted = (
            min(least, 100) if isinstance(least, int) else int(not self.sparing and depth < 4 and "items" in schema)
        )
        while len(values) < wanted and depth <= MAX_DEPTH * 2:
            item = self.value(schema.get("items", True), name, depth + 1)
            values.append(_distinct(item, values) if schema.get("uniqueItems") else item)
        return values

    def _number(self, schema: Schema, *, whole: bool) -> float:
        hinted = self.hints.number(schema, whole=whole)
        if hinted is not None:
            return int(hinted) if hinted % 1 == 0 else hinted
        low, high, step = _bounds(schema, whole=whole)
        number = min(max(1, low), high) if low == float("-inf") else low
        if step and number % step:
            number += step - number % step
        return int(number) if number % 1 == 0 else number

    def _string(self, schema: Schema, name: str) -> str:
        form, pattern = schema.get("format"), schema.get("pattern")
        text = _FORMATS.get(form) if isinstance(form, str) else None
        text = self.hints.text(name) if text is None else text
        if isinstance(pattern, str):
            text = _matching(pattern, text)
        least, most = schema.get("minLength"), schema.get("maxLength")
        if isinstance(least, int):
            text = text.ljust(min(least, 10_000), ".")
        return text[:most] if isinstance(most, int) else text


def _bounds(schema: Schema, *, whole: bool) -> tuple[float, float, float | None]:
    """Return the minimum, the maximum and the step (`multipleOf`) of the numbers that a schema allows."""

    def said(key: str) -> float | None:
        value = schema.get(key)
        return value if isinstance(value, int | float) and not isinstance(value, bool) else None

    step = said("multipleOf") or None
    gap = step or (1 if whole else 0.5)
    low, above = said("minimum"), said("exclusiveMinimum")
    high, below = said("maximum"), said("exclusiveMaximum")
    lows = [bound for bound in (low, None if above is None else above + gap) if bound is not None]
    highs = [bound for bound in (high, None if below is None else below - gap) if bound is not None]
    return max(lows, default=float("-inf")), min(highs, default=float("inf")), step


def _distinct(value: Any, others: list[Any]) -> Any:
    if value in others and isinstance(value, str):
        return f"{value} {len(others) + 1}"
    return value + len(others) if value in others and isinstance(value, int | float) else value


def _matching(pattern: str, text: str) -> str:
    """Return the text if it matches the pattern, otherwise a built-in sample that does.

    If none does, return the text.
    """
    try:
        wanted = re.compile(pattern)
    except re.error:
        return text
    return next((sample for sample in (text[:200], *_SAMPLES) if wanted.search(sample)), text)
