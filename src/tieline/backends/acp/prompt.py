"""What an agent is told of a request: the newest words, and to a session that knows nothing of it all the rest.

A session that goes on gets what the user says now. A new one gets, before that, the client's instructions and the
conversation so far as text: an agent has its own history, and nobody can put messages into it.
"""

from collections.abc import Iterable, Sequence

from tieline.backends.acp.fingerprint import tail_of
from tieline.model.content import File, Image, Message, Part, Text, ToolCall, ToolResult
from tieline.model.events import Note
from tieline.wire.acp.content import Prompt, prompt_of
from tieline.wire.acp.schema import Block, PromptCapabilities, TextBlock

MOST_HISTORY = 200_000
"""How many characters of the conversation so far are told; of a longer one the newest."""
MOST_RESULT = 4_000
"""How much of an old result is told."""

GO_ON = "Go on."


def continued(messages: Sequence[Message], heard: int, takes: PromptCapabilities) -> Prompt:
    """What is new, for a session that knows the rest and has heard so many things of the user."""
    return prompt_of([*_later_instructions(messages), *_told(messages, heard)], takes)


def seeded(messages: Sequence[Message], takes: PromptCapabilities) -> Prompt:
    """Everything, for a session that knows nothing."""
    first: list[Block] = []
    notes: list[Note] = []
    if instructions := _system(messages):
        first.append(TextBlock(text=f"<instructions>\n{instructions}\n</instructions>"))
    history = _before_tail(messages)
    if history:
        text, is_cut = _transcript(history)
        if is_cut:
            notes.append(Note(kind="history", message="the conversation is long: the agent was told its newest part"))
        first.append(TextBlock(text=f"The conversation so far:\n\n<conversation>\n{text}\n</conversation>"))
    prompt = prompt_of(_told(messages), takes)
    return Prompt([*first, *prompt.blocks], (*notes, *prompt.notes))


def _told(messages: Sequence[Message], heard: int = 0) -> list[Part]:
    """What the user says now; results of calls that nobody waits for any more are said as text."""
    names = {part.id: part.name for message in messages for part in message.parts if isinstance(part, ToolCall)}
    told: list[Part] = []
    for part in tail_of(messages, heard):
        if isinstance(part, ToolResult):
            name = names.get(part.call_id, "a tool")
            told.append(Text(text=f"The result of {name}{' (it failed)' if part.is_error else ''}:"))
            told += part.content
        else:
            told.append(part)
    return told or [Text(text=GO_ON)]


def _later_instructions(messages: Sequence[Message]) -> list[Part]:
    """System messages among what is new; where nothing is old they are the instructions."""
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
        said = "\n".join(line for part in message.parts if (line := _line(part)))
        if said:
            lines.append(f"{speaker}: {said}")
    text = "\n\n".join(lines)
    return (text[-MOST_HISTORY:], True) if len(text) > MOST_HISTORY else (text, False)


def _line(part: Part) -> str:
    match part:
        case Text():
            return part.text.strip()
        case ToolCall():
            return f"[called {part.name} with {_short(part.arguments)}]"
        case ToolResult():
            words = "\n".join(_line(one) for one in part.content)
            return f"[{'it failed' if part.is_error else 'the result'}: {_short(words)}]"
        case Image():
            return "[a picture]"
        case File():
            return f"[a file{f' named {part.name}' if part.name else ''}]"
        case _:
            return ""


def _short(text: str) -> str:
    return text if len(text) <= MOST_RESULT else f"{text[:MOST_RESULT]} …"
