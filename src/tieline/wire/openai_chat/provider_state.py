"""Opaque provider state in messages and calls: thought signatures of Gemini, encrypted reasoning of OpenRouter.

A provider that sent such a field wants it back with the history, and may refuse the request without it. In a stream a
list comes in pieces, which are put together here; everything else is kept as it came.
"""

from typing import Any

import msgspec
from msgspec import Raw

from tieline.wire.openai_chat.schema import STATE_FIELDS, CallDelta, CallShape, Delta, MessageShape
from tieline.wire.shared.json import decode_any, encode

_LIST = msgspec.json.Decoder(list[Any])
_NULL = Raw(b"null")
_JOINED = ("text", "summary", "thinking")
"""The members of an item whose text is continued by the next piece."""
_NOTHING = (None, "")


class StateReader:
    """Collects the state of one message: from the whole message, where it stays as it came, or from its deltas."""

    def __init__(self) -> None:
        self._pieces: dict[str, list[str]] = {}

    def add(self, delta: Delta) -> None:
        """Take the state of one delta."""
        for name, text in state_in(delta).items():
            self._pieces.setdefault(name, []).append(text)

    def take(self) -> dict[str, str]:
        """The state by the names of its fields, as JSON text."""
        return {name: _joined(pieces) for name, pieces in self._pieces.items()}


def state_in(shape: MessageShape | CallShape | Delta | CallDelta) -> dict[str, str]:
    """The state in a message of a history, or in a call."""
    found: dict[str, str] = {}
    for name in STATE_FIELDS:
        raw = getattr(shape, name, None)
        if raw and raw != _NULL:
            found[name] = json_text(raw)
    return found


def json_text(raw: Raw) -> str:
    """JSON as it stood there."""
    return bytes(raw).decode("utf-8", "replace")


def thoughts_in(raw: Raw) -> str:
    """The text of a list of reasoning details or thinking blocks; empty if it has none."""
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


def _joined(pieces: list[str]) -> str:
    """The value that came in these pieces: lists are put together, of anything else the last counts."""
    if len(pieces) == 1:
        return pieces[0]
    items: list[Any] = []
    for piece in pieces:
        try:
            first, *more = _LIST.decode(piece) or [None]
        except (msgspec.DecodeError, RecursionError):
            return pieces[-1]
        if first is not None:
            _add(items, first)
        items += more
    return encode(items).decode()


def _add(items: list[Any], item: Any) -> None:
    """Add a piece to a list: it continues the last item, or is an item of its own."""
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
    """Whether a piece belongs to the item before it: same kind and place, and nothing whole in both."""
    if any(last.get(name) != item.get(name) for name in ("type", "index")) or not any(n in last for n in _JOINED):
        return False
    whole = [name for name in ("id", "data", "signature") if last.get(name) not in _NOTHING]
    return all(item.get(name) in _NOTHING or (name == "id" and item[name] == last[name]) for name in whole)
