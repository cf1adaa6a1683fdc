"""Translates facts of an agent into events: text, thinking, activities, plans, usage and notes."""

from collections.abc import Callable
from typing import Any

from tieline.backends.acp.activity import Activities, is_bare, plan_of
from tieline.backends.acp.leg_queue import LegQueue
from tieline.model.content import File, Image, Text
from tieline.model.events import PlanEntry, Usage
from tieline.wire.acp import facts
from tieline.wire.acp.facts import Fact


class FactTranslator:
    """Translates the facts of one turn. Calls for which `is_clients` is true are not shown as activities."""

    def __init__(self, queue: LegQueue, is_clients: Callable[[facts.AgentCall], bool]) -> None:
        self.steps: tuple[PlanEntry, ...] = ()
        """The latest plan."""
        self._queue = queue
        self._is_clients = is_clients
        self._activities = Activities()
        self._filled: facts.UsageUpdate | None = None
        self._used: Usage | None = None

    def translate(self, fact: Fact) -> bool:
        """Queue the events for a fact. Return False if the fact is not output of the agent."""
        translator = _TRANSLATORS.get(type(fact))
        if translator is None:
            return False
        translator(self, fact)
        return True

    def call(self, call: facts.AgentCall) -> None:
        """Queue the activity of a call that began or changed."""
        if not self._is_clients(call):
            self._queue.activity(self._activities.call(call))

    def shown(self, terminal: str, text: str) -> None:
        """Queue the activity whose terminal, run by the gateway, has new output."""
        activity = self._activities.shown(terminal, text)
        if activity is not None:
            self._queue.activity(activity)

    def add_usage(self, usage: Usage | None) -> None:
        """Add the usage of one prompt of the turn."""
        before = self._used
        if usage is not None:
            self._used = usage if before is None else _sum(before, usage)

    def queue_usage(self) -> None:
        """Queue the usage of the turn or, if it is unknown, the size of the context."""
        if self._used is not None:
            self._queue.event(self._used)
        elif self._filled is not None:
            self._queue.event(Usage(input=self._filled.used))

    def _text(self, fact: facts.TextChunk) -> None:
        self._queue.text(fact.text, fact.message)

    def _thought(self, fact: facts.ThoughtChunk) -> None:
        self._queue.thought(fact.text, fact.message)

    def _content(self, fact: facts.ContentChunk) -> None:
        """Describe content other than text. Content of the user is a repetition and is ignored."""
        if fact.speaker == "agent":
            self._queue.text(_described(fact.part), fact.message)
        elif fact.speaker == "thought":
            self._queue.thought(_described(fact.part), fact.message)

    def _call_update(self, fact: facts.CallUpdate) -> None:
        if not is_bare(fact.call):
            self.call(fact.call)

    def _terminal_output(self, fact: facts.TerminalOutput) -> None:
        self._queue.activity(self._activities.output(fact))

    def _terminal_ended(self, fact: facts.TerminalEnded) -> None:
        activity = self._activities.ended(fact)
        if activity is not None:
            self._queue.activity(activity)

    def _plan(self, fact: facts.PlanUpdate) -> None:
        plan = plan_of(fact.entries)
        self.steps = plan.entries
        self._queue.event(plan)

    def _usage(self, fact: facts.UsageUpdate) -> None:
        self._filled = fact

    def _notice(self, fact: facts.Noticed) -> None:
        more = f": {fact.description}" if fact.description else ""
        self._queue.note("notice", f"{fact.severity}: {fact.title}{more}")

    def _compaction(self, fact: facts.Compaction) -> None:
        if fact.status:
            self._queue.note("compaction", f"the agent compacts its history: {fact.status}")


def _sum(one: Usage, other: Usage) -> Usage:
    return Usage(
        input=one.input + other.input,
        output=one.output + other.output,
        cache_read=one.cache_read + other.cache_read,
        cache_write=one.cache_write + other.cache_write,
        reasoning=one.reasoning + other.reasoning,
    )


def _described(part: object) -> str:
    match part:
        case Text():
            return part.text
        case Image(url=str(url)):
            return f"![image]({url})"
        case Image():
            return f"[{part.media_type or 'an image'}]"
        case File(url=str(url)):
            return f"[{part.name or url}]({url})"
        case File():
            return f"[{part.name or part.media_type or 'a file'}]"
        case _:
            return ""


_TRANSLATORS: dict[type, Callable[[FactTranslator, Any], None]] = {
    facts.TextChunk: FactTranslator._text,
    facts.ThoughtChunk: FactTranslator._thought,
    facts.ContentChunk: FactTranslator._content,
    facts.CallUpdate: FactTranslator._call_update,
    facts.TerminalOutput: FactTranslator._terminal_output,
    facts.TerminalEnded: FactTranslator._terminal_ended,
    facts.PlanUpdate: FactTranslator._plan,
    facts.UsageUpdate: FactTranslator._usage,
    facts.Noticed: FactTranslator._notice,
    facts.Compaction: FactTranslator._compaction,
}
