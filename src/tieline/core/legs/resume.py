"""Decide whether a request starts a run or resumes a parked one.

| the request ends with       | parked                            | decision                                           |
|-----------------------------|-----------------------------------|----------------------------------------------------|
| user text                   | no run of this conversation       | start                                              |
| all results a run waits for | the run                           | resume                                             |
| some of them                | the run                           | resume; missing results are sent as errors         |
| results and text            | the run                           | resume; the text is sent with the last result      |
| results and text, no tools  | the run                           | close it, start: the client wants no more calls    |
| results and an image        | the run                           | close it, start: `answer` takes text, but no image |
| results                     | nothing (expired, claimed, …)     | start from the complete history                    |
| results                     | a run of another model            | close it, start                                    |
| user text                   | a run with calls in this history  | close it, start                                    |

"No tools" means that the request no longer offers any, for example because the client asks for a summary of the
conversation. A resumed run would still call the tools that it was started with.

The call ids in the history identify the run. No session id is needed, and two conversations of a client are never
confused.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tieline.core.history.tidy import INTERRUPTED
from tieline.core.legs.parking import ParkedRun
from tieline.model.content import Message, Text, ToolCall, ToolResult


class ResumeDecision(NamedTuple):
    """The run to resume (`resume`; None to start a new run), and the parked runs to close (`close`).

    `results` and the user's text (`words`) are to be submitted to the resumed run.
    """

    resume: ParkedRun | None = None
    results: tuple[ToolResult, ...] = ()
    words: str = ""
    close: tuple[ParkedRun, ...] = ()


START = ResumeDecision()


def decide(
    messages: Sequence[Message],
    backend: str,
    model: str,
    waiting: Mapping[str, ParkedRun],
    *,
    offers_tools: bool = True,
) -> ResumeDecision:
    """Decide whether a request with these messages resumes a parked run.

    `waiting` holds the parked runs by call id. `offers_tools` says whether the model may call the client's tools.
    """
    known = _known(messages, waiting)
    if not known:
        return START
    tail = _Tail(messages)
    for result in reversed(tail.results):
        parked = waiting.get(result.call_id)
        if parked is None:
            continue
        is_continued = tail.is_plain and (offers_tools or not tail.words)
        if is_continued and (parked.backend, parked.model) == (backend, model):
            others = tuple(run for run in known if run is not parked)
            return ResumeDecision(parked, _complete(parked, tail.results), tail.words, others)
        break
    return ResumeDecision(close=tuple(known))


def answered_calls(messages: Sequence[Message]) -> list[str]:
    """Return the ids of the calls whose results end a request, in the order of the results."""
    return [
        part.call_id for message in _after_assistant(messages) for part in message.parts if type(part) is ToolResult
    ]


def _known(messages: Sequence[Message], waiting: Mapping[str, ParkedRun]) -> dict[ParkedRun, None]:
    """Return the parked runs whose calls are in this history."""
    known: dict[ParkedRun, None] = {}
    for message in messages:
        if message.role == "assistant":
            for part in message.parts:
                if type(part) is ToolCall and part.id in waiting:
                    known[waiting[part.id]] = None
    return known


def _complete(parked: ParkedRun, given: Sequence[ToolResult]) -> tuple[ToolResult, ...]:
    """Return one result for every pending call of a run: the last one in `given`, or an error if there is none."""
    by_id = {result.call_id: result for result in given if result.call_id in parked.pending}
    missing = [
        ToolResult(call_id=call_id, content=(Text(text=INTERRUPTED),), is_error=True)
        for call_id in sorted(parked.pending - by_id.keys())
    ]
    return (*missing, *by_id.values())


class _Tail:
    """The results and the text after the last assistant message. `is_plain` is False if there is anything else."""

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
