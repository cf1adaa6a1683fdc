"""Calls that go round in circles: the same call with the same result, again and again.

Only an unbroken row counts, back from the end of the history to the last message in which the user said something
new. A call whose result changes is no repetition: somebody is waiting for something.
"""

from collections import Counter
from collections.abc import Sequence

import msgspec

from tieline.model.content import File, Image, Message, Text, ToolCall, ToolResult

Key = tuple[str, str]


def key_of(call: ToolCall) -> Key:
    """What makes two calls the same: the name and what the arguments say, in whatever order."""
    try:
        arguments = msgspec.json.encode(msgspec.json.decode(call.arguments), order="deterministic").decode()
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        arguments = call.arguments
    return call.name, arguments


def repeated(history: Sequence[Message], times: int) -> frozenset[Key]:
    """The calls that the last `times` assistant messages all made, each time with the same result."""
    counts: Counter[Key] = Counter()
    row: dict[Key, object] | None = None
    results: dict[str, object] = {}
    for message in reversed(history):
        if message.role == "user":
            given = {part.call_id: _seen(part) for part in message.parts if isinstance(part, ToolResult)}
            if message.parts and not given:
                break
            results |= given
        elif message.role == "assistant":
            row = _still(row, message, results)
            if not row:
                break
            counts.update(row.keys())
            results = {}
    return frozenset(key for key, count in counts.items() if count >= times)


def _still(row: dict[Key, object] | None, message: Message, results: dict[str, object]) -> dict[Key, object]:
    """What of a row goes on in an earlier message."""
    calls = (part for part in message.parts if isinstance(part, ToolCall) and part.id in results)
    made = {key_of(call): results[call.id] for call in calls}
    if row is None:
        return made
    return {key: result for key, result in row.items() if key in made and made[key] == result}


def _seen(result: ToolResult) -> object:
    """What the model saw of a result, without the marks that protocols leave on it."""
    return tuple(_said(part) for part in result.content)


def _said(part: Text | Image | File) -> tuple[str | None, ...]:
    return (part.text,) if isinstance(part, Text) else (part.media_type, part.data, part.url)
