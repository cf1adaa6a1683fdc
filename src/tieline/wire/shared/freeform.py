"""Freeform tools: the two forms of their grammar, and their calls in a client's history.

`ToolSpec.meta["format"]` has the flat form of the Responses API, `{"type": "grammar", "syntax": …, "definition": …}`.
Chat Completions nests the same members under `grammar`.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from tieline.model.content import Message, Part, ToolCall
from tieline.model.request import ToolSpec
from tieline.wire.shared.conversations import ENTRY_WEIGHT, ConversationCache

_GRAMMAR = ("syntax", "definition")


def flat_format(form: Mapping[str, Any]) -> dict[str, Any]:
    """Return the format of a freeform tool with its grammar flat, as in the Responses API."""
    grammar = form.get("grammar")
    if not isinstance(grammar, dict):
        return dict(form)
    return {**{name: value for name, value in form.items() if name != "grammar"}, **grammar}


def nested_format(form: Mapping[str, Any]) -> dict[str, Any]:
    """Return the format of a freeform tool with its grammar nested, as in Chat Completions."""
    grammar = {name: form[name] for name in _GRAMMAR if name in form}
    if not grammar:
        return dict(form)
    return {**{name: value for name, value in form.items() if name not in _GRAMMAR}, "grammar": grammar}


def restore_calls(
    messages: list[Message],
    sources: list[bytes | None],
    tools: Iterable[ToolSpec],
    cache: ConversationCache | None,
) -> None:
    """Mark the calls to freeform tools in a history as freeform, regardless of the type that the client gave them.

    Cursor's editor knows only function calls. It returns a freeform call as a function call whose arguments are the
    text. The lists are changed in place. A changed message loses its source, in which the call has the wrong type.
    """
    names = frozenset([tool.name for tool in tools if tool.freeform])
    for place, message in enumerate(messages):
        if message.role == "assistant" and any(_is_disguised(part, names) for part in message.parts):
            messages[place] = _restored(message, names, cache)
            sources[place] = None


def _is_disguised(part: Part, names: frozenset[str]) -> bool:
    return type(part) is ToolCall and not part.freeform and part.name in names


def _restored(message: Message, names: frozenset[str], cache: ConversationCache | None) -> Message:
    """Return the message with the calls to the tools in `names` marked as freeform.

    With a cache, the same message object always gives the same result object.
    """
    key = ("freeform", names, id(message))
    known: tuple[Message, Message] | None = None if cache is None else cache.get(key)
    if known is not None and known[0] is message:
        return known[1]
    parts = tuple(replace(part, freeform=True) if _is_disguised(part, names) else part for part in message.parts)
    restored = replace(message, parts=parts)
    if cache is not None:
        cache.put(key, (message, restored), ENTRY_WEIGHT)
    return restored
