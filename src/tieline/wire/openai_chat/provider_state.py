"""Opaque provider state in messages and calls: Gemini's thought signatures, OpenRouter's encrypted reasoning.

A provider that sent such a field expects it back in the history of the next request, and may reject a request without
it. In a stream, a list may be split over several deltas. This module joins the pieces. If a value of another
type is sent repeatedly, the last one is kept.
"""

from typing import Any

import msgspec
from msgspec import Raw

from tieline.wire.openai_chat.schema import STATE_FIELDS, CallDelta, CallShape, Delta, MessageShape
from tieline.wire.shared.json import decode_any, encode

_LIST = msgspec.json.Decoder(list[Any])
_NULL = Raw(b"null")
_JOINED = ("text", "summary", "thinking")
"""The members of an item whose text may be continued in the next delta."""
_NOTHING = (None, "")


class StateReader:
    """Collects the provider state of one message, from its deltas or from the whole message."""

    def __init__(self) -> None:
        self._values: dict[str, list[str]] = {}

    def add(self, delta: Delta) -> None:
        """Add the provider state in one delta, or in a whole message."""
        for name, text in state_in(delta).items():
            self._values.setdefault(name, []).append(text)

    def take(self) -> dict[str, str]:
        """Return the collected provider state: the JSON text of each field, by field name."""
        return {name: _joined(values) for name, values in self._values.items()}


def state_in(shape: MessageShape | CallShape | Delta | CallDelta) -> dict[str, str]:
    """Return the provider state in a message or a call: the JSON text of each field, by field name."""
    found: dict[str, str] = {}
    for name in STATE_FIELDS:
        raw = getattr(shape, name, None)
        if raw and raw != _NULL:
            found[name] = json_text(raw)
    return found


def json_text(raw: Raw) -> str:
    """Return the JSON text of a raw value."""
    return bytes(raw).decode("utf-8", "replace")


def thoughts_in(raw: Raw) -> str:
    """Return the thinking in a JSON list of reasoning details or thinking blocks; empty if there is none."""
    try:
        items = decode_any(raw) if raw else None
    except (ValueError, RecursionError):
        return ""
    return "".join(map(_thought, items)) if isinstance(items, list) else ""


def _thought(item: Any) -> str:
    if isinstance(item, str):
        return item
    texts = [item.get(name) for name in _JOINED] if isinstance(item, dict) else []
    return next((text for text in texts if isinstance(text, str) and text), "")


def _joined(values: list[str]) -> str:
    """Join the values of one field from several deltas: concatenate lists; otherwise, return the last value."""
    if len(values) == 1:
        return values[0]
    items: list[Any] = []
    for value in values:
        try:
            first, *more = _LIST.decode(value) or [None]
        except (msgspec.DecodeError, RecursionError):
            return values[-1]
        if first is not None:
            _add(items, first)
        items += more
    return encode(items).decode()


def _add(items: list[Any], item: Any) -> None:
    """Append an item to the list, or merge it into the last item if it continues that item."""
    last = items[-1] if items else None
    if not (isinstance(item, dict) and isinstance(last, dict) and _continues(last, item)):
        items.append(item)
        return
    for name, value in item.items():
        before = last.get(name)
        if name in _JOINED and isinstance(before, str) and isinstance(value, str):
            last[name] = before + value
        elif before in _NOTHING:
            last[name] = value


def _continues(last: dict[str, Any], item: dict[str, Any]) -> bool:
    """Return whether `item` continues the last item.

    Both must have the same type and index, and the last item must have a text. They must not both have data or a
    signature, which cannot be split, or different ids.
    """
    if any(last.get(name) != item.get(name) for name in ("type", "index")) or not any(n in last for n in _JOINED):
        return False
    whole = [name for name in ("id", "data", "signature") if last.get(name) not in _NOTHING]
    return all(item.get(name) in _NOTHING or (name == "id" and item[name] == last[name]) for name in whole)
