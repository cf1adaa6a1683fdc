"""What an agent says and does in a turn, as events: words, thoughts, activities, plans, what it uses and notices."""

from collections.abc import Callable
from typing import Any

from tieline.backends.acp.activity import Activities, is_bare, plan_of
from tieline.backends.acp.leg_queue import Telling
from tieline.model.content import File, Image, Text
from tieline.model.events import PlanEntry, Usage
from tieline.wire.acp import facts
from tieline.wire.acp.facts import Fact


class Hearing:
    """Makes events of the facts of one turn; a call that `is_clients` the client sees as its own."""

    def __init__(self, telling: Telling, is_clients: Callable[[facts.Call], bool]) -> None:
        self.steps: tuple[PlanEntry, ...] = ()
        """The plan as it was told last."""
        self._telling = telling
        self._is_clients = is_clients
        self._activities = Activities()
        self._filled: facts.UsageUpdate | None = None
        self._used: Usage | None = None

    def hear(self, fact: Fact) -> bool:
        """Tell what a fact means; False if it is not about what the agent says or does."""
        meaning = _MEANINGS.get(type(fact))
        if meaning is None:
            return False
        meaning(self, fact)
        return True

    def call(self, call: facts.Call) -> None:
        """A call began or changed."""
        if not self._is_clients(call):
            self._telling.activity(self._activities.call(call))

    def shown(self, terminal: str, text: str) -> None:
        """What a terminal of ours shows now."""
        activity = self._activities.shown(terminal, text)
        if activity is not None:
            self._telling.activity(activity)

    def used(self, told: Usage | None) -> None:
        """A prompt of the turn was answered, and used this."""
        before = self._used
        self._used = before if told is None else told if before is None else _sum(before, told)

    def tell_usage(self) -> None:
        """The turn is over: what it used, or how full the context is where nothing better is told."""
        if self._used is not None:
            self._telling.between(self._used)
        elif self._filled is not None:
            self._telling.between(Usage(input=self._filled.used))

    def _text(self, fact: facts.TextChunk) -> None:
        self._telling.text(fact.text, fact.message)

    def _thought(self, fact: facts.ThoughtChunk) -> None:
        self._telling.thought(fact.text, fact.message)

    def _content(self, fact: facts.ContentChunk) -> None:
        """Something that is no text; what the user said is only repeated."""
        if fact.speaker == "agent":
            self._telling.text(_described(fact.part), fact.message)
        elif fact.speaker == "thought":
            self._telling.thought(_described(fact.part), fact.message)

    def _call_update(self, fact: facts.CallUpdate) -> None:
        if not is_bare(fact.call):
            self.call(fact.call)

    def _terminal_output(self, fact: facts.TerminalOutput) -> None:
        self._telling.activity(self._activities.output(fact))

    def _terminal_ended(self, fact: facts.TerminalEnded) -> None:
        activity = self._activities.ended(fact)
        if activity is not None:
            self._telling.activity(activity)

    def _plan(self, fact: facts.PlanUpdate) -> None:
        plan = plan_of(fact.entries)
        self.steps = plan.entries
        self._telling.between(plan)

    def _usage(self, fact: facts.UsageUpdate) -> None:
        self._filled = fact

    def _notice(self, fact: facts.Noticed) -> None:
        more = f": {fact.description}" if fact.description else ""
        self._telling.note("notice", f"{fact.severity}: {fact.title}{more}")

    def _compaction(self, fact: facts.Compaction) -> None:
        if fact.status:
            self._telling.note("compaction", f"the agent shortens its history: {fact.status}")


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
            return f"[{part.media_type or 'a picture'}]"
        case File(url=str(url)):
            return f"[{part.name or url}]({url})"
        case File():
            return f"[{part.name or part.media_type or 'a file'}]"
        case _:
            return ""


_MEANINGS: dict[type, Callable[[Hearing, Any], None]] = {
    facts.TextChunk: Hearing._text,
    facts.ThoughtChunk: Hearing._thought,
    facts.ContentChunk: Hearing._content,
    facts.CallUpdate: Hearing._call_update,
    facts.TerminalOutput: Hearing._terminal_output,
    facts.TerminalEnded: Hearing._terminal_ended,
    facts.PlanUpdate: Hearing._plan,
    facts.UsageUpdate: Hearing._usage,
    facts.Noticed: Hearing._notice,
    facts.Compaction: Hearing._compaction,
}
