"""Estimate the tokens in a prompt, for upstreams that do not count them, and the size of a message in memory."""

from tieline.model.content import File, Foreign, Image, Message, Part, Text, Thinking, ToolCall, ToolResult
from tieline.model.request import Request

CHARACTERS_PER_TOKEN = 4
TOKENS_PER_MESSAGE = 4
TOKENS_PER_IMAGE = 1600

_OBJECT = 200
"""Approximate memory that a part uses in addition to its text, in characters."""


def estimate(request: Request) -> int:
    """Estimate the number of tokens in a prompt.

    The estimate is one token for every four characters, plus a fixed number for every message, tool and image.
    """
    tokens = 0
    characters = 0
    for message in request.messages:
        tokens += TOKENS_PER_MESSAGE
        for part in message.parts:
            more_tokens, more_characters = _weigh(part)
            tokens += more_tokens
            characters += more_characters
    for tool in request.tools:
        tokens += TOKENS_PER_MESSAGE
        characters += len(tool.name) + len(tool.description) + len(tool.schema)
    return tokens + -(-characters // CHARACTERS_PER_TOKEN)


def weight(message: Message) -> int:
    """Return the approximate size of a message in memory, in characters."""
    return sum(_length(part) for part in message.parts)


def _length(part: Part) -> int:
    if isinstance(part, ToolResult):
        return _OBJECT + sum(map(_length, part.content))
    if isinstance(part, Image):
        return _OBJECT + len(part.data or "")
    return _OBJECT + _weigh(part)[1]


def _weigh(part: Part) -> tuple[int, int]:
    match part:
        case Text() | Thinking():
            return 0, len(part.text)
        case ToolCall():
            return 0, len(part.name) + len(part.arguments)
        case ToolResult():
            weights = [_weigh(piece) for piece in part.content]
            return sum(tokens for tokens, _ in weights), sum(characters for _, characters in weights)
        case Image():
            return TOKENS_PER_IMAGE, 0
        case File():
            return 0, len(part.data or "")
        case Foreign():
            return 0, len(part.json)
