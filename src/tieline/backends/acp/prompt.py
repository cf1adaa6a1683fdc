"""Builds prompts for agents.

An existing session receives only the user's new parts. A new session first receives the client's instructions and all
earlier messages as text: an agent keeps its own history, and messages cannot be inserted into it.
"""

from collections.abc import Iterable, Sequence

from tieline.backends.acp.fingerprint import user_tail
from tieline.model.content import File, Image, Message, Part, Text, ToolCall, ToolResult
from tieline.model.events import Note
from tieline.wire.acp.content import Prompt, prompt_of
from tieline.wire.acp.schema import ContentBlock, PromptCapabilities, TextContent

MAX_HISTORY = 200_000
"""Maximum number of characters of earlier messages that a prompt contains. Older text is left out."""
MAX_RESULT = 4_000
"""Maximum number of characters of an earlier call's arguments, and of its result, in a prompt."""

CONTINUE = "Go on."


def continued(messages: Sequence[Message], seen: int, takes: PromptCapabilities) -> Prompt:
    """Return the prompt for a session that has already received the first `seen` of the user's parts.

    `takes` says which kinds of content the agent accepts.
    """
    return prompt_of([*_later_instructions(messages), *_new_parts(messages, seen)], takes)


def seeded(messages: Sequence[Message], takes: PromptCapabilities) -> Prompt:
    """Return the prompt for a new session. It contains the conversation so far, or only its newest part if it is long.

    `takes` says which kinds of content the agent accepts.
    """
    first: list[ContentBlock] = []
    notes: list[Note] = []
    if instructions := _system(messages):
        first.append(TextContent(text=f"<instructions>\n{instructions}\n</instructions>"))
    history = _before_tail(messages)
    if history:
        text, is_cut = _transcript(history)
        if is_cut:
            notes.append(
                Note(kind="history", message="the conversation is long; the new session received only its newest part")
            )
        first.append(TextContent(text=f"The conversation so far:\n\n<conversation>\n{text}\n</conversation>"))
    prompt = prompt_of(_new_parts(messages), takes)
    return Prompt([*first, *prompt.blocks], (*notes, *prompt.notes))


def _new_parts(messages: Sequence[Message], seen: int = 0) -> list[Part]:
    """Return the user's parts after the agent's last message, except those among the user's first `seen` parts.

    A tool result becomes a label followed by its content, because the agent is not waiting for a result.
    """
    names = {part.id: part.name for message in messages for part in message.parts if isinstance(part, ToolCall)}
    parts: list[Part] = []
    for part in user_tail(messages, seen):
        if isinstance(part, ToolResult):
            name = names.get(part.call_id, "a tool")
            parts.append(Text(text=f"The result of {name}{' (it failed)' if part.is_error else ''}:"))
            parts += part.content
        else:
            parts.append(part)
    return parts or [Text(text=CONTINUE)]


def _later_instructions(messages: Sequence[Message]) -> list[Part]:
    """Return the parts of the system messages after the agent's last message; none if the agent has not answered yet.

    System messages before the agent's first message are instructions, which it received when the session began.
    """
    known = len(_before_tail(messages))
    return [part for message in messages[known:] if known and message.role == "system" for part in message.parts]


def _system(messages: Iterable[Message]) -> str:
    texts = [
        part.text
        for message in messages
        if message.role == "system"
        for part in message.parts
        if isinstance(part, Text) and part.text.strip()
    ]
    return "\n\n".join(texts)


def _before_tail(messages: Sequence[Message]) -> Sequence[Message]:
    for place in range(len(messages), 0, -1):
        if messages[place - 1].role == "assistant":
            return messages[:place]
    return ()


def _transcript(messages: Iterable[Message]) -> tuple[str, bool]:
    lines: list[str] = []
    for message in messages:
        if message.role == "system":
            continue
        speaker = "User" if message.role == "user" else "Assistant"
        text = "\n".join(line for part in message.parts if (line := _line(part)))
        if text:
            lines.append(f"{speaker}: {text}")
    text = "\n\n".join(lines)
    return (text[-MAX_HISTORY:], True) if len(text) > MAX_HISTORY else (text, False)


def _line(part: Part) -> str:
    match part:
        case Text():
            return part.text.strip()
        case ToolCall():
            return f"[called {part.name} with {_short(part.arguments)}]"
        case ToolResult():
            text = "\n".join(_line(one) for one in part.content)
            return f"[{'it failed' if part.is_error else 'the result'}: {_short(text)}]"
        case Image():
            return "[an image]"
        case File():
            return f"[a file{f' named {part.name}' if part.name else ''}]"
        case _:
            return ""


def _short(text: str) -> str:
    return text if len(text) <= MAX_RESULT else f"{text[:MAX_RESULT]} …"
