"""Convert a timeout to the unit that a tool's property expects: seconds or milliseconds."""

import math
import re
from collections.abc import Sequence

from tieline.wire.shared.capabilities.schema import Schema, description_of

_MILLIS = re.compile(r"millis|\bms\b|\d ?ms\b")
_SECONDS = re.compile(r"\bseconds?\b|\bsecs?\b|\bin s\b|\d ?s\b")
_ABOUT_TIMEOUTS = re.compile(r"[^.\n]{0,120}timeout[^.\n]{0,120}")
_MAXIMUM = re.compile(r"(?:max(?:imum)?|up to|at most)\D{0,16}(\d[\d_,]{0,11})(?![\d_,]| ?(?:min|hour|hr))")


def in_unit(millis: int, name: str, options: Sequence[Schema], about: str) -> int | None:
    """Return the timeout in the unit of a tool's property, limited to its maximum; None if the unit is unknown.

    `name` is the name of the property, `options` its alternative schemas, `about` the description of the tool.
    """
    schema = options[0] if options else {}
    scale = _scale(name, schema, about)
    if scale is None:
        return None
    texts = _MAXIMUM.findall(description_of(schema))
    maxima = [schema.get("maximum"), *(float(re.sub(r"\D", "", text)) for text in texts)]
    limits = [limit for limit in maxima if isinstance(limit, int | float) and limit * scale >= 1000]
    return int(min([math.ceil(millis / scale), *limits]))


def _scale(name: str, schema: Schema, about: str) -> int | None:
    """Return the property's unit in milliseconds (1 or 1000), or None if it is unknown.

    The unit is inferred from the property's name, description or limits, or from the tool's description.
    """
    if re.search(r"(?:ms|millis|milliseconds)$", name):
        return 1
    if re.search(r"sec(?:ond)?s?$", name):
        return 1000
    found = _unit_in(description_of(schema))
    if found is not None:
        return found
    limits = [schema.get(key) for key in ("maximum", "default")]
    numbers = [limit for limit in limits if isinstance(limit, int | float) and limit > 0]
    if numbers:
        return 1 if max(numbers) >= 10_000 else 1000
    return _unit_in(" ".join(_ABOUT_TIMEOUTS.findall(about.lower())))


def _unit_in(words: str) -> int | None:
    if _MILLIS.search(words):
        return 1
    return 1000 if _SECONDS.search(words) else None
