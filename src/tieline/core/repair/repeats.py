"""Find calls that a model repeats in a loop: the same call with the same result each time.

Only assistant messages after the user's last input count. A call whose result changes is not a repetition, because the
model may be polling.
"""

from collections import Counter
from collections.abc import Sequence

import msgspec

from tieline.model.content import File, Image, Message, Text, ToolCall, ToolResult

Key = tuple[str, str]


def call_key(call: ToolCall) -> Key:
    """Return a key that is equal for equal calls: the tool's name and its arguments in a fixed order."""
    try:
        arguments = msgspec.json.encode(msgspec.json.decode(call.arguments), order="deterministic").decode()
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        arguments = call.arguments
    return call.name, arguments


def repeated_calls(history: Sequence[Message], times: int) -> frozenset[Key]:
    """Return the keys of the calls that occur, with the same result, in each of the last `times` assistant messages."""
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
    """Return the calls of `message` that are also in `row` with the same result, or all its calls if `row` is None."""
    calls = (part for part in message.parts if isinstance(part, ToolCall) and part.id in results)
    made = {call_key(call): results[call.id] for call in calls}
    if row is None:
        return made
    return {key: result for key, result in row.items() if key in made and made[key] == result}


def _seen(result: ToolResult) -> object:
    """Return the content of a result without protocol metadata, for comparison with other results."""
    return tuple(_said(part) for part in result.content)


def _said(part: Text | Image | File) -> tuple[str | None, ...]:
    return (part.text,) if isinstance(part, Text) else (part.media_type, part.data, part.url)
