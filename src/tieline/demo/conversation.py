"""The conversation as the demo model sees it: the user's last text, and the tool results after it.

The user's last text is the last text that is neither a tool result nor a note added by the client, such as a system
reminder or a description of the environment. A summary of an earlier part of the conversation stands for that part.
"""

import re
from collections.abc import Sequence

from tieline.demo.summaries import find as find_summary
from tieline.model.content import File, Image, Message, Text, ToolCall, ToolResult, Value

_NOTE = re.compile(
    r"<(system-reminder|info-msg|environment_details|environment_context|user_instructions|command-message"
    r"|command-name|local-command-stdout|local-command-caveat)\b[^>]{0,200}>",
    re.IGNORECASE,
)
_RULES = re.compile(r"\n\s*# (?:\*SEARCH/REPLACE block\* Rules|File editing rules):\n.*", re.DOTALL)
"""Matches the rules that aider appends to the user's text."""
_WRAPPER = re.compile(r"</?(?:task|user_input|user_message|user_query|feedback)(?:\s[^>]{0,200})?>")
_DIRECTORY = re.compile(
    r"(?:\bworking directory|\bworking in the directory|\bcwd|<directory|\bworkspace root|\bproject root)"
    r"(?: is)?[>:\s`\"'(]{1,4}((?:/|[A-Za-z]:\\)[^\n<>`\"')]*)",
    re.IGNORECASE,
)
_PLACEHOLDER = "/path/to"
"""The beginning of the example paths in Qwen Code's system prompt. They are not the working directory."""
_OBSERVATION = "Observation:"
# A client that gets the text from its command line may send it as one quoted argument.
_ARGUMENT = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)


class CallOutcome(Value):
    """The result of one tool call. `name` is the name of the tool, `images` the number of images in the result."""

    name: str
    text: str
    is_error: bool = False
    images: int = 0


class DemoConversation(Value):
    """The user's last text, and the outcomes of the calls after it.

    Each item of `rounds` contains the outcomes of the calls in one assistant message. `images` and `files` are the
    numbers of the user's attachments.
    """

    user_text: str = ""
    rounds: tuple[tuple[CallOutcome, ...], ...] = ()
    images: int = 0
    files: int = 0
    system: str = ""
    directory: str = ""

    @property
    def outcomes(self) -> tuple[CallOutcome, ...]:
        """The outcomes of all rounds, in order."""
        return tuple(outcome for outcomes in self.rounds for outcome in outcomes)


def read_conversation(messages: Sequence[Message]) -> DemoConversation:
    """Extract the user's last text, the tool results after it and the working directory from a history."""
    system = "\n".join(_text(message) for message in messages if message.role == "system")
    start = _last_user_message(messages)
    asked = [part for message in messages[start : start + 1] for part in message.parts]
    user_text = strip_client_notes(_text(messages[start])) if messages[start : start + 1] else ""
    before: tuple[CallOutcome, ...] = ()
    if summary := find_summary(user_text):
        user_text = summary.rest or summary.request
        before = () if summary.rest else tuple(CallOutcome(name=name, text=text) for name, text in summary.results)
    rounds = _rounds(messages[start + 1 :])
    return DemoConversation(
        user_text=user_text,
        rounds=(before, *rounds) if before else rounds,
        images=sum(isinstance(part, Image) for part in asked),
        files=sum(isinstance(part, File) for part in asked),
        system=system,
        directory=_directory(system, messages),
    )


def before_last_request(messages: Sequence[Message]) -> Sequence[Message]:
    """Return the messages before the user's last text."""
    return messages[: _last_user_message(messages)]


def strip_client_notes(text: str) -> str:
    """Return the user's text without the notes, tags or quotes that some clients add to it."""
    kept = []
    at = 0
    while note := _NOTE.search(text, at):
        close = f"</{note[1]}>"
        end = text.find(close, note.end())
        if end < 0:
            break
        kept.append(text[at : note.start()])
        at = end + len(close)
    kept.append(text[at:])
    user_text = _RULES.sub("", _WRAPPER.sub("", "".join(kept))).strip()
    argument = _ARGUMENT.fullmatch(user_text)
    return argument[1].replace('\\"', '"').strip() if argument else user_text


def _last_user_message(messages: Sequence[Message]) -> int:
    """Return the index of the last message with text or attachments from the user.

    If there is none, return the number of messages.
    """
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if message.role != "user" or _results(message):
            continue
        if strip_client_notes(_text(message)) or any(isinstance(part, Image | File) for part in message.parts):
            return index
    return len(messages)


def _rounds(messages: Sequence[Message]) -> tuple[tuple[CallOutcome, ...], ...]:
    """Return the tool results, one group for each assistant message with calls, each in the order of the calls."""
    rounds: list[dict[int, CallOutcome]] = []
    order: dict[str, tuple[int, str]] = {}
    open_round = False
    for message in messages:
        if message.role == "assistant":
            open_round = False
            calls = [part for part in message.parts if isinstance(part, ToolCall)]
            order = {call.id: (index, call.name) for index, call in enumerate(calls)}
        elif results := _results(message):
            if not open_round:
                rounds.append({})
            open_round = True
            for result in results:
                place, name = order.get(result.call_id, (len(order) + len(rounds[-1]), "the tool"))
                rounds[-1][place] = _outcome(name, result)
    return tuple(tuple(outcome for _, outcome in sorted(found.items())) for found in rounds)


def _results(message: Message) -> list[ToolResult]:
    """Return the tool results in a user message. Some clients send a result as text that starts with `Observation:`."""
    if message.role != "user":
        return []
    results = [part for part in message.parts if isinstance(part, ToolResult)]
    if not results and (text := _text(message)).startswith(_OBSERVATION):
        return [ToolResult(call_id="", content=(Text(text=text.removeprefix(_OBSERVATION).strip()),))]
    return results


def _outcome(name: str, result: ToolResult) -> CallOutcome:
    texts = [part.text for part in result.content if isinstance(part, Text)]
    return CallOutcome(
        name=name,
        text="\n".join(texts),
        is_error=result.is_error,
        images=sum(isinstance(part, Image) for part in result.content),
    )


def _text(message: Message) -> str:
    return "\n".join(part.text for part in message.parts if isinstance(part, Text))


def _directory(system: str, messages: Sequence[Message]) -> str:
    """Return the working directory that the system prompt or a user message mentions, or an empty string."""
    for text in (system, *(_text(message) for message in messages if message.role == "user")):
        for found in _DIRECTORY.finditer(text):
            if not found[1].startswith(_PLACEHOLDER):
                return found[1].strip().rstrip(".,")
    return ""
