"""Start, resume or replay? A pure decision from what a request ends with and which runs wait.

| the request ends with       | in the lot                     | decision                                            |
|-----------------------------|--------------------------------|-----------------------------------------------------|
| user text                   | nothing of this conversation   | start                                               |
| all results a run waits for | the run                        | resume                                              |
| some of them                | the run                        | resume; the missing ones are answered as errors     |
| results and words           | the run                        | resume; the words go with the last result           |
| results and a picture       | the run                        | close it, start: words can go along, pictures not   |
| results                     | nothing (expired, claimed, …)  | start from the whole history: slower, not broken    |
| results                     | a run of another model         | close it, start                                     |
| user text                   | a run that waits on this one   | close it, start                                     |

A conversation knows a run by the ids of its calls in the history; no session id is needed, and two windows never mix.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tieline.core.history.tidy import INTERRUPTED
from tieline.core.legs.parking import Parked
from tieline.model.content import Message, Text, ToolCall, ToolResult


class Decision(NamedTuple):
    """What to do with a request: go on with `resume` or start anew, and close what nobody will come back for."""

    resume: Parked | None = None
    results: tuple[ToolResult, ...] = ()
    words: str = ""
    close: tuple[Parked, ...] = ()


START = Decision()


def decide(messages: Sequence[Message], backend: str, model: str, waiting: Mapping[str, Parked]) -> Decision:
    """The decision for a request to a backend's model; `waiting` are the parked runs by call id."""
    known = _known(messages, waiting)
    if not known:
        return START
    tail = _Tail(messages)
    for result in reversed(tail.results):
        parked = waiting.get(result.call_id)
        if parked is None:
            continue
        if tail.is_plain and (parked.backend, parked.model) == (backend, model):
            others = tuple(run for run in known if run is not parked)
            return Decision(parked, _complete(parked, tail.results), tail.words, others)
        break
    return Decision(close=tuple(known))


def _known(messages: Sequence[Message], waiting: Mapping[str, Parked]) -> dict[Parked, None]:
    """The parked runs whose calls stand in this history."""
    known: dict[Parked, None] = {}
    for message in messages:
        if message.role == "assistant":
            for part in message.parts:
                if type(part) is ToolCall and part.id in waiting:
                    known[waiting[part.id]] = None
    return known


def _complete(parked: Parked, given: Sequence[ToolResult]) -> tuple[ToolResult, ...]:
    """One result for every call the run waits for: the last that was given, or an error."""
    by_id = {result.call_id: result for result in given if result.call_id in parked.pending}
    missing = [
        ToolResult(call_id=call_id, content=(Text(text=INTERRUPTED),), is_error=True)
        for call_id in sorted(parked.pending - by_id.keys())
    ]
    return (*missing, *by_id.values())


class _Tail:
    """What the client says after the last words of the assistant."""

    def __init__(self, messages: Sequence[Message]) -> None:
        results: list[ToolResult] = []
        words: list[str] = []
        self.is_plain = True
        for message in _after_assistant(messages):
            for part in message.parts:
                if type(part) is ToolResult:
                    results.append(part)
                elif type(part) is Text:
                    words.append(part.text)
                else:
                    self.is_plain = False
        self.results = tuple(results)
        self.words = "\n\n".join(word for word in words if word.strip())


def _after_assistant(messages: Sequence[Message]) -> Sequence[Message]:
    for place in range(len(messages) - 1, -1, -1):
        if messages[place].role == "assistant":
            return messages[place + 1 :]
    return messages
